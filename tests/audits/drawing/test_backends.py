"""Backends of joblib: whatever form of results they have, the verdict is that of one process."""

from __future__ import annotations

from typing import Any

import attrs
import joblib
import numpy as np
import pytest
from joblib._parallel_backends import ThreadingBackend

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Verdict, audit
from hockeystick.audits.drawing import workers
from hockeystick.audits.drawing.workers import Workers


class ListsOnly(ThreadingBackend):  # type: ignore[misc]
    supports_return_generator = False


def single(data: float, rng: np.random.Generator) -> Any:
    return data + rng.laplace(scale=0.5)


def result(verdict: Verdict) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(verdict).items() if name != "seconds"}


def audited(**options: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"claim": (1.0, 0.0), "neighbours": (0.0, 1.0), "samples": 400, "rng": 1}
    return result(audit(single, method="two counts", **given, **options))


@pytest.fixture
def lists_only() -> str:
    joblib.register_parallel_backend("lists only", ListsOnly)
    return "lists only"


def test_a_backend_without_generators_works(lists_only: str) -> None:
    with Workers(2, lists_only).hired() as crew:
        assert crew.gives == "list"
        assert dict(crew.results(abs, range(-20, 0))) == {i: 20 - i for i in range(20)}
    assert audited(workers=2, backend=lists_only) == audited()


@pytest.mark.parametrize("form", ["generator_unordered", "generator", "list"])
def test_every_form_of_results_gives_the_same_verdict(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_FORMS", (form,))
    assert audited(workers=2, backend="threading") == audited()


def test_a_backend_with_none_of_the_forms_is_refused(lists_only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_FORMS", ("generator_unordered",))
    with (
        pytest.raises(InvalidArgumentError, match="^backend=.*gives no results to wait for"),
        Workers(2, lists_only).hired(),
    ):
        raise AssertionError("it was hired")


@pytest.mark.statistical
def test_ray_gives_the_same_verdict() -> None:
    ray = pytest.importorskip("ray", reason="Ray is tried where it is installed")
    register_ray = pytest.importorskip("ray.util.joblib").register_ray
    try:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    except Exception as error:  # its processes need more of a machine than some have
        pytest.skip(f"Ray does not start here: {type(error).__name__}")
    try:
        register_ray()
        assert audited(workers=2, backend="ray") == audited()
    finally:
        ray.shutdown()
