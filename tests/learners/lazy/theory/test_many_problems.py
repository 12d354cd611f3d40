"""Tests of problems that share one budget: their number, its certificate, and its growth."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.losses import optimal_composition
from hockeystick.learners.lazy.theory.many_problems import FreeInstances, free_instances


@functools.cache
def _found(rounds: int, known: str) -> FreeInstances:
    return free_instances(rounds=rounds, experts=10, epsilon=1.0, delta=1e-6, known=known)  # type: ignore[arg-type]


def _slope(rounds: list[int], known: str) -> float:
    return float(np.polyfit(np.log(rounds), np.log([_found(t, known).instances for t in rounds]), 1)[0])


@pytest.mark.statistical
@pytest.mark.parametrize("rounds", [10**4, 10**6])
def test_counts_by_curves_are_the_largest_certified(rounds: int) -> None:
    found = _found(rounds, "curve")
    assert found.instances == {10**4: 2, 10**6: 21}[rounds] and found.epsilon is None
    assert found.learner.regret_bound() <= 2 * math.sqrt(rounds * math.log(10)) * (1 + 1e-9)
    event = found.learner.graph().guarantee().event
    fits, more = (
        accounting.epsilon(accounting.compose((event, count)), 1e-6, method="rdp").upper
        for count in (found.instances, found.instances + 1)
    )
    assert fits <= 1.0 < more


@pytest.mark.statistical
@pytest.mark.parametrize("rounds", [10**4, 10**6, pytest.param(10**12, marks=pytest.mark.deep)])
def test_counts_by_epsilons_are_the_largest_certified(rounds: int) -> None:
    found = _found(rounds, "epsilon")
    assert found.instances == {10**4: 1, 10**6: 3, 10**12: 119}[rounds] and found.epsilon is not None
    assert found.learner.regret_bound() <= 2 * math.sqrt(rounds * math.log(10)) * (1 + 1e-9)
    share = 1e-6 / (2 * found.instances)
    event = found.learner.graph().guarantee().event
    assert accounting.epsilon(event, share, method="rdp").upper == found.epsilon
    assert optimal_composition.epsilon([(found.epsilon, share, found.instances)], 1e-6) <= 1.0
    # Curves are worth more than epsilons.
    assert found.instances <= _found(rounds, "curve").instances


@pytest.mark.statistical
@pytest.mark.parametrize("known", ["curve", pytest.param("epsilon", marks=pytest.mark.deep)])
def test_more_budget_or_regret_is_room_for_more(known: str) -> None:
    def count(epsilon: float, excess: float) -> int:
        found = free_instances(
            rounds=10**5,
            experts=10,
            epsilon=epsilon,
            delta=1e-6,
            excess=excess,
            known=known,  # type: ignore[arg-type]
        )
        return found.instances

    assert count(1.0, 2.0) < min(count(3.0, 2.0), count(1.0, 3.0))


@pytest.mark.deep
def test_how_counts_grow() -> None:
    rounds = [10**k for k in range(4, 13, 2)]
    assert _slope(rounds, "curve") == pytest.approx(1 / 2, abs=0.01)
    assert _slope([10**k for k in range(10, 15)], "epsilon") == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.statistical
def test_the_shadow_costs_room() -> None:
    shadowed = free_instances(rounds=10**6, experts=10, epsilon=1.0, delta=1e-6, variant="l2p")
    assert 1 <= shadowed.instances < 21 and shadowed.learner.variant == "l2p"


@pytest.mark.statistical
@pytest.mark.parametrize("known", ["curve", "epsilon"])
def test_a_budget_too_small_for_one_problem_is_refused(known: str) -> None:
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        free_instances(rounds=100, experts=2, epsilon=0.01, delta=1e-6, known=known)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[object, ...]] = {
    "rounds": (1,), "experts": (1,), "delta": (0.0, math.nan), "epsilon": (-1.0, math.inf), "excess": (0.5,),
    "known": ("delta",), "variant": ("frozen",),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED.items())
def test_bad_arguments_are_refused(argument: str, values: tuple[object, ...]) -> None:
    good: dict[str, object] = {"rounds": 100, "experts": 2, "epsilon": 1.0, "delta": 1e-6}
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            free_instances(**(good | {argument: value}))  # type: ignore[arg-type]
