"""A target whose outputs turn into None is refused, whichever audit draws; None as an output like others is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import Adjacency
from hockeystick.audits import (
    Claim,
    RealRecords,
    TargetError,
    audit,
    audit_with_search,
    search_neighbours,
    sequential_audit,
)
from hockeystick.audits.drawing.late_nones import LateNones, Values

STOPPED = "stopped giving values: on d[01]"


class Budget:
    """Gives ``calls`` noisy sums, then None, or raises."""

    def __init__(self, calls: int, *, raises: bool = False) -> None:
        self.left = None
        self.calls, self.raises = calls, raises

    def __call__(self, data: Any, rng: np.random.Generator) -> float | None:
        self.calls -= 1
        if self.calls < 0 and self.raises:
            raise RuntimeError("used up")
        return float(np.sum(data)) + rng.laplace() if self.calls >= 0 else None


def run(target: Any, **options: Any) -> Any:
    return audit(target, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=400, rng=1, **options)


@pytest.mark.parametrize("calls", [8, 100, 399, 700])
def test_a_budget_that_is_used_up_is_refused(calls: int) -> None:
    with pytest.raises(TargetError, match=STOPPED):
        run(Budget(calls))
    with pytest.raises(TargetError, match=STOPPED):
        run(Budget(calls, raises=True), exceptions_as_output=True)


@pytest.mark.statistical
def test_it_is_refused_at_every_door() -> None:
    with pytest.raises(TargetError, match=STOPPED):
        sequential_audit(Budget(100), claim=Claim(1.0), neighbours=(0.0, 1.0), most_samples=400, rng=1)
    domain: Any = RealRecords(low=0, high=1, most=3)
    for search in (search_neighbours, audit_with_search):
        given: dict[str, Any] = {"samples" if search is search_neighbours else "search_samples": 2000}
        with pytest.raises(TargetError, match=STOPPED):
            search(Budget(1000), domain, Claim(1.0), adjacency=Adjacency.ADD_OR_REMOVE_ONE, rng=1, **given)


def often(data: float, rng: np.random.Generator) -> float | None:
    return None if rng.random() < 0.5 else data + rng.laplace()


def seldom(data: float, rng: np.random.Generator) -> float | None:
    return None if rng.random() < 0.995 else data + rng.laplace()


def only_on_d1(data: float, rng: np.random.Generator) -> float | None:
    return None if data else rng.laplace()


def never(data: float, rng: np.random.Generator) -> None:
    return None


@pytest.mark.parametrize("target", [often, seldom, only_on_d1, never])
def test_none_as_an_output_like_others_is_accepted(target: Callable[..., Any]) -> None:
    """One test refuses it with probability at most 1e-10, and there are at most 20."""
    assert run(target).refuted == (target is only_on_d1)


def test_a_target_that_has_nones_from_the_beginning_is_refused_when_the_values_end() -> None:
    budget = Budget(300)
    with pytest.raises(TargetError, match=STOPPED):
        run(lambda data, rng: None if rng.random() < 0.3 else budget(data, rng))


def test_the_probability_is_that_of_the_last_value_among_all_orders() -> None:
    """Exact: v of n places are values, all orders equally likely."""
    for n, v, f in ((40, 20, 20), (40, 20, 22), (60, 5, 8), (1000, 4, 4), (1000, 997, 997), (200, 100, 140)):
        exact = math.comb(f, v) / math.comb(n, v)
        assert Values(n, v, f).stopped == (exact <= math.exp(-23.0))
    assert not Values(10, 0, 0).stopped and not Values(10, 10, 10).stopped


def test_workers_that_run_out_one_by_one_are_seen_in_each_phase() -> None:
    """Each phase begins with fresh copies of the target: values, None, values, None."""
    nones = LateNones()
    for phase in (0, 1):
        for start in range(0, 100, 10):
            nones.add(phase, start, [Values.of([1.0 if start < 50 else None] * 10, 10)] * 2)
    with pytest.raises(TargetError, match="on d0, the last 50 of 100 outputs"):
        nones.check()


def test_the_error_tells_numbers_of_outputs_alone() -> None:
    with pytest.raises(TargetError) as caught:
        run(Budget(100))
    assert str(caught.value).startswith("target stopped giving values: on d0, the last ")
    assert "0.0" not in str(caught.value)
