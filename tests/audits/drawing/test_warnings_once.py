"""Warnings of a target's library are shown once an audit, in this process and from workers."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

from hockeystick.audits import Claim, audit, sequential_audit
from hockeystick.audits.drawing.warnings_once import collected, once, show

PAIR: dict[str, Any] = {"claim": Claim(4.0), "neighbours": (0.0, 1.0), "rng": 1}


class SlowWarning(UserWarning):
    """The warning of a library."""


def warns(data: float, rng: np.random.Generator) -> float:
    value = data + rng.laplace()
    warnings.warn(f"gap {value}", SlowWarning, stacklevel=1)
    warnings.warn("the same", SlowWarning, stacklevel=1)
    return value


def shown(run: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in found if "gap" in str(one.message) or "the same" in str(one.message)]


@pytest.mark.statistical
def test_a_warning_in_every_call_is_shown_once_for_each_place() -> None:
    found = shown(lambda: audit(warns, samples=60, **PAIR))
    assert len(found) == 2 and found[1] == "the same"
    assert len(shown(lambda: sequential_audit(warns, most_samples=60, **PAIR))) == 2
    assert len(shown(lambda: audit(warns, samples=600, **PAIR | {"neighbours": [(0.0, 1.0), (1.0, 2.0)]}))) == 2


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.statistical)])
def test_workers_send_theirs(backend: str) -> None:
    found = shown(lambda: audit(warns, samples=60, workers=2, backend=backend, **PAIR))
    assert len(found) == 2 and found[1].endswith("same")


def test_the_hook_is_gone_afterwards_and_other_threads_are_left_alone() -> None:
    before = warnings.showwarning
    with once():
        hook: Any = warnings.showwarning
        assert hook is not before
        other: list[str] = []

        def elsewhere() -> None:
            with collected() as own:
                warnings.warn("elsewhere", SlowWarning, stacklevel=1)
            other.extend(one.text for one in own)

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = hook
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
        assert other == ["elsewhere"]
    assert warnings.showwarning is before


def test_filters_of_the_caller_come_first() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with once(), pytest.raises(SlowWarning):
            warns(0.0, np.random.default_rng(1))
    with warnings.catch_warnings(record=True) as found, once():
        warnings.simplefilter("ignore")
        warns(0.0, np.random.default_rng(1))
    assert not found


def test_a_category_that_a_worker_cannot_send_is_named_in_the_text() -> None:
    class Own(UserWarning):
        pass

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with collected() as texts:
            warnings.warn("text", Own, stacklevel=1)
        assert not found
        show(texts)
    assert [(str(one.message), one.category) for one in found] == [("Own: text", UserWarning)]
