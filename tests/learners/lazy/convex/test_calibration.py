"""Tests of the calibration of the lazy learner of convex losses: it meets the target, and no nearby setting is
better."""

from __future__ import annotations

import math

import pytest
from attrs import evolve

from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.learners import LazyConvex
from hockeystick.learners.lazy import Ball, Box, LangevinSampler, ProximalSampler
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain


def _calibrated(rounds: int, domain: Domain, epsilon: float, delta: float = 1e-6, **more: object) -> LazyConvex:
    return LazyConvex.calibrated(
        rounds=rounds,
        domain=domain,
        lipschitz=2.0,
        epsilon=epsilon,
        delta=delta,
        **more,  # type: ignore[arg-type]
    )


def _certified(learner: LazyConvex, delta: float = 1e-6) -> float:
    return learner.graph().guarantee().epsilon(delta).upper


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rounds", "domain", "epsilon", "delta"),
    [
        pytest.param(2000, Ball(2, 1.0), 1.0, 1e-6, marks=pytest.mark.deep),
        pytest.param(10**6, Ball(10, 3.0), 0.2, 1e-6, marks=pytest.mark.deep),
        (10**5, Box.cube(1, 1.0), 0.5, 1e-8),
        (500, Ball(50, 1.0), 8.0, 1e-3),
    ],
)
def test_target_is_met_and_used(rounds: int, domain: Domain, epsilon: float, delta: float) -> None:
    learner = _calibrated(rounds, domain, epsilon, delta)
    assert 0.98 * epsilon <= _certified(learner, delta) <= epsilon
    mu, n = learner.weights.replacement_mu, rounds * learner.batch
    inside = 0.25 * n + 2.0 * domain.dimension * math.log(rounds) / mu**2
    diameter = learner.domain.diameter
    closed = 4.0 * domain.largest_norm * math.sqrt(inside) + 2.0 * diameter  # 2*L*D0*sqrt(...) + L*D
    clipped = 2.0 * diameter * rounds * learner.clip_bound(learner.log_normaliser)
    assert learner.regret_bound() == pytest.approx(closed + clipped, rel=1e-6)


def _bound_without_clipping(learner: LazyConvex) -> float:
    inside = 0.25 * learner.rounds * learner.batch
    inside += 2.0 * learner.domain.dimension * math.log(learner.rounds) / learner.weights.replacement_mu**2
    return math.sqrt(inside)


@pytest.mark.statistical
def test_nothing_near_by_is_better() -> None:
    """Other batches and fake-switch probabilities: at a mu for which the bound is lower by 3 %, none is certified."""
    found = _calibrated(20_000, Ball(3, 1.0), 0.5)
    best = _bound_without_clipping(found)
    for factor, fakes in ((1.0, (0.6, 1.7)), (0.5, (1.0,)), (2.0, (1.0,))):
        for fake in fakes:
            p = min(0.99, found.fake_switch_probability * fake)
            batch = max(1, round(found.batch * factor))
            other = evolve(found, batch=batch, fake_switch_probability=p)
            beta, least = other.inverse_temperature, 0.25 * other.rounds * batch / (0.97 * best) ** 2
            if least < 1.0:  # else the bound is above that for every mu; mu^2 is proportional to beta
                factor = (_bound_without_clipping(other) ** 2 / (0.97 * best) ** 2 - least) / (1.0 - least)
                other = evolve(other, inverse_temperature=beta * factor)
                assert _bound_without_clipping(other) == pytest.approx(0.97 * best) and _certified(other) > 0.5


@pytest.mark.statistical
def test_more_privacy_costs_more_regret_and_so_do_adaptive_adversaries() -> None:
    bounds = [_calibrated(3000, Ball(4, 1.0), epsilon).regret_bound() for epsilon in (0.3, 1.0)]
    assert bounds[0] > bounds[1]
    adaptive = _calibrated(3000, Ball(4, 1.0), 1.0, adversary="adaptive")
    assert _certified(adaptive) <= 1.0 and adaptive.adversary == "adaptive"
    assert adaptive.regret_bound() >= bounds[1] * 0.999


@pytest.mark.statistical
def test_groups_are_certified_as_such() -> None:
    one, three = (_calibrated(2000, Ball(2, 1.0), 1.0, group=group) for group in (1, 3))
    assert 0.95 <= three.graph().guarantee(group=3).epsilon(1e-6).upper <= 1.0
    assert one.graph().guarantee(group=3).epsilon(1e-6).upper > 1.0
    assert one.regret_bound() < three.regret_bound()


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rounds", "epsilon"),
    [(1000, 10.0), (10**9, 1e-6)]
    + [pytest.param(1000, epsilon, marks=pytest.mark.deep) for epsilon in (1e-6, 1e-3)]
    + [pytest.param(10**9, epsilon, marks=pytest.mark.deep) for epsilon in (1e-3, 10.0)],
)
def test_targets_from_tiny_to_large_are_met(rounds: int, epsilon: float) -> None:
    learner = _calibrated(rounds, Ball(3, 1.0), epsilon)
    assert 0.95 * epsilon <= _certified(learner) <= epsilon


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "known"),
    [(0.2, 260_900.0)]
    + [pytest.param(e, known, marks=pytest.mark.deep) for e, known in ((0.05, 498_200.0), (1.0, 123_600.0))],
)
def test_averaged_decisions_lower_the_bound(epsilon: float, known: float) -> None:
    """Against the best bounds when each decision is charged its worst state, at T = 1e6, d = 10, D = 6, L = 2."""
    found = _calibrated(10**6, Ball(10, 3.0), epsilon)
    assert found.regret_bound() <= 0.92 * known
    clipped = 2.0 * 6.0 * 10**6 * found.clip_bound(found.log_normaliser)
    assert clipped <= 2e-3 * found.regret_bound()


@pytest.mark.statistical
def test_the_error_of_an_inexact_sampler_is_within_the_target() -> None:
    learner = _calibrated(300, Ball(2, 1.0), 2.0, 1e-4, sampler=ProximalSampler(1e-12))
    assert _certified(learner, 1e-4) <= 2.0
    with pytest.raises(UnsupportedEventError, match="no certificate"):
        _calibrated(300, Ball(2, 1.0), 2.0, 1e-4, sampler=LangevinSampler(steps=3, step=0.1))
    with pytest.raises(InvalidArgumentError, match="no parameters meet it"):
        _calibrated(300, Ball(2, 1.0), 2.0, 1e-4, sampler=ProximalSampler(0.01))


REFUSED: dict[str, tuple[object, ...]] = {
    "rounds": (1,), "epsilon": (0.0, math.inf), "delta": (0.0, 1.0), "domain": (3,), "lipschitz": (0.0,),
    "adversary": ("lazy",), "group": (0,),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "values"), REFUSED.items())
def test_bad_arguments_are_refused(argument: str, values: tuple[object, ...]) -> None:
    good: dict[str, object] = {"rounds": 300, "domain": Ball(2, 1.0), "lipschitz": 1.0, "epsilon": 1.0, "delta": 1e-6}
    for value in values:
        with pytest.raises(InvalidArgumentError, match=argument):
            LazyConvex.calibrated(**(good | {argument: value}))  # type: ignore[arg-type]
