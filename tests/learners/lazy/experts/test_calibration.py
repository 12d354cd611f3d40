"""Tests of the shared parts of calibrations of lazy learners: orders, the last step, groups, and targets from tiny to
large."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import deep_examples, diagonal

from hockeystick.accounting import InvalidArgumentError, epsilon
from hockeystick.accounting.events.catalogue import GaussianDP, LazySwitchDecision, VisibleMixture, compose
from hockeystick.learners import LazyExperts
from hockeystick.learners.common.calibration_search import (
    Target,
    approximate_delta,
    batch_grid,
    largest_certified,
    largest_meeting,
    mixture_curve,
)
from hockeystick.learners.lazy import Ball
from hockeystick.learners.lazy.convex.calibration import _Search as ConvexSearch
from hockeystick.learners.lazy.experts.calibration import _Search

# --- the parts -------------------------------------------------------------------------------------------------------


@given(st.floats(-7, 1.5), st.floats(-30, -1))
def test_orders_hold_the_best_one(log_epsilon: float, log_delta: float) -> None:
    """For a Gaussian at the target, the best of these orders is as good as the best of all, and lies well inside."""
    target = Target(epsilon=10.0**log_epsilon, delta=10.0**log_delta)
    log = -math.log(target.delta)
    rho = (target.epsilon / (math.sqrt(log + target.epsilon) + math.sqrt(log))) ** 2
    a = target.orders()
    found = rho * a + (log - np.log(a)) / (a - 1.0) + np.log1p(-1.0 / a)
    dense = 1.0 + np.geomspace(1e-3, 1e12, 20_001)
    best = float((rho * dense + (log - np.log(dense)) / (dense - 1.0) + np.log1p(-1.0 / dense)).min())
    assert max(0.0, found.min()) <= max(0.0, best) + 0.02 * target.epsilon
    if best > 0.1 * target.epsilon:  # else so little is told that delta alone covers it
        assert 8 < int(np.argmin(found)) < len(a) - 8


@pytest.mark.parametrize("largest", [1, 2, 7, 1000, 10**9])
def test_batches_cover_all_sizes(largest: int) -> None:
    grid = batch_grid(largest)
    assert grid[0] == 1 and grid[-1] == largest and grid == sorted(set(grid))
    assert all(after <= 2.0 * before for before, after in zip(grid[:-1], grid[1:], strict=True))


@given(st.floats(-3, 3), st.floats(-4, 4), st.floats(0.3, 4.0), st.sampled_from([1e-2, 1e-4]))
@settings(max_examples=60)
def test_last_step_finds_the_largest(root: float, start: float, power: float, accuracy: float) -> None:
    calls = 0

    def excess(x: float) -> float:
        nonlocal calls
        calls += 1
        return math.copysign(abs(x - root) ** power, x - root)

    found = largest_meeting(excess, start, 10.0, step=0.02, accuracy=accuracy)
    assert found is not None and excess(found) <= 0.0
    assert excess(found) >= -accuracy or root - found <= 0.1 * accuracy
    assert calls < 40
    assert largest_meeting(excess, start, root - 1.0, step=0.02, accuracy=accuracy) == pytest.approx(
        root - 1.0, abs=2.0
    )


def test_last_step_without_a_number() -> None:
    assert largest_meeting(lambda x: math.inf, 0.0, 1.0, step=0.1, accuracy=1e-3) is None
    assert largest_meeting(lambda x: -math.inf, 0.0, 1.0, step=0.1, accuracy=1e-3) == 1.0
    assert largest_meeting(lambda x: math.inf if x > 0.3 else -math.inf, 0.0, 1.0, step=0.1, accuracy=1e-3) == (
        pytest.approx(0.3, abs=2e-4)
    )


@deep_examples(10, 100, st.floats(-6, 2), st.floats(-4, -0.5))
def test_last_step_never_exceeds_its_target(log_epsilon: float, log_p: float) -> None:
    target = Target(epsilon=10.0**log_epsilon, delta=1e-6)
    p = 10.0**log_p

    def event(x: float) -> object:
        mu = math.exp(x)
        return compose(LazySwitchDecision(1.0 - p, mu), (VisibleMixture(p, GaussianDP(mu)), 100))

    found = largest_certified(target, event, math.log(0.3 * p * target.epsilon), 3.0)  # type: ignore[arg-type]
    assert found is not None
    assert epsilon(event(found), 1e-6).upper <= target.epsilon


def test_search_delta_is_close_to_the_certified_one() -> None:
    """At the certified epsilon of a decision and its draws, the fast delta is about the delta."""
    p, kappa, mu, n, delta = 0.02, 0.004, 0.003, 2000, 1e-6
    draw = VisibleMixture(p, GaussianDP(mu))
    certified = epsilon(
        compose(LazySwitchDecision(1.0 - p, kappa), GaussianDP(mu), (draw, n)), delta, method="rdp"
    ).upper
    target = Target(epsilon=certified, delta=delta)
    orders = target.orders()
    inner = (0.5 * orders * mu**2)[None]
    found = approximate_delta(
        target,
        orders,
        fake=np.array([p]),
        log_ratios=np.array([[kappa]]),
        weights=np.ones((1, 1)),
        draws=n * mixture_curve(orders, np.array([[p]]), inner),
        draw=inner,
    )
    assert 1e-8 < found[0] <= 1.1e-6


# --- experts ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("shadow", "rounds"), diagonal([True, False], [10**3, 10**6]))
@pytest.mark.parametrize("target", [1e-6, pytest.param(1e-3, marks=pytest.mark.deep), 10.0])
def test_the_search_bound_is_near_the_certified_one(target: float, rounds: int, shadow: bool) -> None:
    found = _Search(rounds, 10, Target(epsilon=target, delta=1e-6), shadow, None).best()
    learner = LazyExperts(
        rounds=rounds,
        experts=10,
        batch=found.batch,
        learning_rate=found.learning_rate,
        fake_switch_probability=found.fake_switch_probability,
        variant="l2p" if shadow else "dartboard",
    )
    certified = learner.graph().guarantee().epsilon(1e-6).upper
    at_best = found.learning_rate >= 0.999 * math.sqrt(8 * math.log(10) / (rounds * found.batch))
    free = learner.batches == 1  # one draw, before any data are read
    assert certified <= 1.1 * target and (at_best or free or certified >= 0.3 * target)


@pytest.mark.statistical
@pytest.mark.parametrize("beyond", [None, 1e-9])
@pytest.mark.parametrize("target", [1e-6, pytest.param(1e-3, marks=pytest.mark.deep), 10.0])
def test_search_does_not_mind_many_rounds(target: float, beyond: float | None) -> None:
    found = _Search(10**12, 10, Target(epsilon=target, delta=1e-6), False, beyond).best()
    assert 1 <= found.batch <= 10**10 and 1e-12 < found.learning_rate < 1.0
    assert 1e-8 <= found.fake_switch_probability < 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rounds", "target"),
    [(10**3, 1e-6), (10**6, 10.0), (10**10, 1e-3)]
    + [pytest.param(*case, marks=pytest.mark.deep) for case in ((10**6, 1e-6), (10**4, 1e-2))],
)
def test_targets_from_tiny_to_large_are_met(rounds: int, target: float) -> None:
    learner = LazyExperts.calibrated(rounds=rounds, experts=10, epsilon=target, delta=1e-6, variant="dartboard")
    found = learner.graph().guarantee().epsilon(1e-6).upper
    at_best = learner.learning_rate >= 0.999 * math.sqrt(8 * math.log(10) / (rounds * learner.batch))
    assert found <= target and (at_best or found >= 0.98 * target)


@pytest.mark.parametrize("group", [2, pytest.param(7, marks=pytest.mark.deep)])
def test_groups_are_certified_as_such(group: int) -> None:
    one = LazyExperts.calibrated(rounds=2000, experts=5, epsilon=1.0, delta=1e-6, variant="dartboard")
    many = LazyExperts.calibrated(rounds=2000, experts=5, epsilon=1.0, delta=1e-6, variant="dartboard", group=group)
    assert 0.95 <= many.graph().guarantee(group=group).epsilon(1e-6).upper <= 1.0
    assert one.graph().guarantee(group=group).epsilon(1e-6).upper > 1.0
    assert one.regret_bound() < many.regret_bound() < group * one.regret_bound()


def test_bad_targets_are_refused() -> None:
    for name, values in {"epsilon": (0.0, math.nan), "delta": (0.0, 1.0), "group": (0, True, 1.5)}.items():
        for value in values:
            with pytest.raises(InvalidArgumentError, match=name):
                Target(**({"epsilon": 1.0, "delta": 1e-6} | {name: value}))  # type: ignore[arg-type]


# --- convex losses ---------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("adversary", "target"), diagonal(["oblivious", "adaptive"], [1e-6, 0.1]))
def test_convex_search_does_not_mind_many_rounds(target: float, adversary: str) -> None:
    for rounds in (10**4, 10**12):
        search = ConvexSearch(rounds, Ball(3, 1.0), 1.0, Target(epsilon=target, delta=1e-6), adversary)  # type: ignore[arg-type]
        batch, mu, fake = search.best()
        assert 1 <= batch <= rounds and 0.0 < mu < 1.0 and 0.0 < fake < 1.0
