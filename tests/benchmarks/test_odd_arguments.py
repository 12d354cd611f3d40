"""Tests that the benchmark of odd arguments sees untyped errors and endless calls, and repeats every argument."""

from __future__ import annotations

import doctest
import signal
from typing import Any

import pytest

from benchmarks.hostile import odd_arguments
from hockeystick.accounting import HockeystickError, Laplace

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGPROF"), reason="needs a timer of CPU")


def refuses() -> None:
    raise HockeystickError("typed")


def spins() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("call", "fault"),
    [(lambda: 1, None), (refuses, None), (lambda: int("x"), "ValueError"), (spins, "more than 0.02 CPU seconds")],
)
def test_an_end_that_is_not_typed_is_a_fault(monkeypatch: pytest.MonkeyPatch, call: Any, fault: str | None) -> None:
    monkeypatch.setattr(odd_arguments, "SECONDS", 0.02)
    found = odd_arguments.outcome(call)
    assert found is None if fault is None else found is not None and found.startswith(fault)


def test_every_argument_of_a_public_call_is_replaced() -> None:
    source = "Laplace(2.0).at(distance)"
    found = [text for text, _ in odd_arguments.changed(source, {"Laplace": Laplace, "distance": 3}, (None, "x"), False)]
    assert sorted(text.split(" [")[1] for text in found) == ["0=None]", "0=None]", "0=str]", "0=str]"]
    sizes = list(odd_arguments.changed(source, {"Laplace": Laplace, "distance": 3}, (2**31, 0.5), True))
    assert len(sizes) == 3  # no half for a whole number


def test_a_planted_fault_in_an_example_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd_arguments, "is_public", lambda what: what is not None)
    example = doctest.Example("names = longest(['a', 'b'])\n", "")
    test = doctest.DocTest([example], {"longest": lambda names: max(map(len, names))}, "planted", None, 0, None)
    found = "".join(odd_arguments.swept(test, False))
    assert "planted: longest(['a', 'b']) [0=int]: TypeError" in found and "[0=str]" not in found
