"""Tests of releasable draws for regression losses: their law, the bound on their rounding, refusals."""

from __future__ import annotations

import decimal
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import LazyConvex
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ExactSampler,
    LinearLosses,
    QuadraticLosses,
    RegressionLosses,
    RegularizedWeights,
    SecureTangentSampler,
    TangentSampler,
)
from hockeystick.learners.lazy.convex.convex_stream import release, resume, start
from hockeystick.learners.lazy.convex.losses import loss_sums
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain, Link
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum, LossUnits
from hockeystick.learners.lazy.convex.sampling import tangent_rejection
from hockeystick.learners.lazy.convex.sampling.exact_normal import exact_draw
from hockeystick.mechanisms import SimulationNoise
from hockeystick.mechanisms.lazy.lazy_switching import exponential_coin

FALSE_ALARM = 1e-6
LINKS: tuple[Link, ...] = ("absolute", "hinge", "logistic")
UNIT = Fraction(1, 1 << 160)
WEIGHTS = RegularizedWeights(inverse_temperature=0.7, regularisation=1.0, lipschitz=1.0)


def _losses(link: Link, dimension: int, rounds: int = 12) -> RegressionLosses:
    rng = np.random.default_rng(17)
    features = rng.normal(size=(rounds, dimension)) + 0.4
    targets = rng.normal(size=rounds) if link == "absolute" else np.where(rng.random(rounds) < 0.5, -1.0, 1.0)
    return RegressionLosses(features, targets, link).clipped(1.0)


def _sum(domain: Domain, *losses: RegressionLosses | LinearLosses | QuadraticLosses) -> LossSum:
    total = LossSum(domain.dimension, LossUnits.of(domain, 1.0))
    for each in losses:
        total.read(each, 0, each.rounds)
    return total


def _draws(domain: Domain, total: LossSum, count: int) -> FloatArray:
    noise, sampler = SimulationNoise(3), SecureTangentSampler()
    points = [sampler.released(WEIGHTS, domain, total, UNIT, noise) for _ in range(count)]
    return np.array([[float(x * UNIT) for x in point] for point in points])


def _check_law(domain: Domain, total: LossSum, count: int) -> None:
    """Kolmogorov-Smirnov tests of linear functions of the draws against quadrature."""
    draws, measure, reach = (
        _draws(domain, total, count),
        WEIGHTS.measure(domain, total.losses(), 1),
        domain.largest_norm,
    )
    assert domain.contains(draws * (1 - 1e-12)).all()
    angles = [0.0] if domain.dimension == 1 else [0.0, 1.0, 2.3]
    for angle in angles:
        along, across = np.linspace(-reach, reach, 801), np.linspace(-reach, reach, 401)
        e = np.array([math.cos(angle), math.sin(angle)])
        points = along[:, None, None] * e + across[None, :, None] * np.array([-e[1], e[0]])
        if domain.dimension == 1:
            points, e = along[:, None, None], np.ones(1)
        flat = points.reshape(-1, domain.dimension)
        log = np.where(domain.contains(flat), -measure.potential(flat), -np.inf)
        marginal = np.exp(log - log.max()).reshape(points.shape[:2]).sum(axis=1)
        law = integrate.cumulative_trapezoid(marginal, along, initial=0.0)
        found = stats.kstest(draws @ e, lambda z, a=along, c=law / law[-1]: np.interp(z, a, c))
        assert found.pvalue >= FALSE_ALARM / len(angles)


BOX = Box((-1.0, -0.2), (0.5, 1.0))
LAWS = [("absolute", Ball(1, 1.0)), ("hinge", BOX), ("logistic", Ball(2, 1.0))]
MORE_LAWS = [(link, domain) for link in LINKS for _, domain in LAWS if (link, domain) not in LAWS]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("link", "domain"), [*LAWS, *(pytest.param(*law, marks=pytest.mark.deep) for law in MORE_LAWS)]
)
def test_draws_follow_the_law(link: Link, domain: Domain) -> None:
    """Alone, and in a disc added to linear losses and those of another link."""
    mixed = domain == Ball(2, 1.0)
    losses: list[RegressionLosses | LinearLosses] = [_losses(link, domain.dimension)]
    if mixed:
        losses += [LinearLosses([[0.6] * domain.dimension] * 3), _losses("hinge", domain.dimension, 2)]
    _check_law(domain, _sum(domain, *losses), 600)


# --- rounding --------------------------------------------------------------------------------------------------------


def _exact_value(losses: RegressionLosses, t: int, point: FloatArray) -> Decimal:
    """The value of one loss in 60 digits."""
    decimal.getcontext().prec = 60
    y = Decimal(float(losses.targets[t]))
    p = sum((Decimal(float(f)) * Decimal(float(x)) for f, x in zip(losses.features[t], point, strict=True)), Decimal(0))
    if losses.link == "absolute":
        return abs(p - y) - abs(y)
    if losses.link == "hinge":
        return max(Decimal(0), 1 - y * p)
    return (1 + (-y * p).exp()).ln()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("dimension", [1, 3, 50])
def test_values_are_rounded_by_less_than_stated(link: Link, dimension: int) -> None:
    rng, scale = np.random.default_rng(2), 7.0
    losses = _losses(link, dimension, 200)
    if link == "absolute":  # targets of all sizes: large ones must not cost precision
        losses = RegressionLosses(losses.features, losses.targets * 10.0 ** rng.uniform(-3, 12, 200), link)
    point = rng.normal(size=dimension)
    point *= scale / np.linalg.norm(point)
    values = loss_sums._regression_values(losses, 0, 200, point)
    for t in range(200):
        error = abs(Decimal(float(values[t])) - _exact_value(losses, t, point))
        assert error <= Decimal((dimension + 20) * (1 + scale) * 2.0**-53)


@pytest.mark.parametrize("link", LINKS)
def test_slopes_are_those_of_the_losses(link: Link) -> None:
    losses, point = _losses(link, 3, 40), np.array([0.3, -0.2, 0.5])
    total = _sum(Box.cube(3, 1.0), losses)
    assert total.stored_slope(point) == pytest.approx(losses.gradient(point[None], 0, 40)[0].tolist())
    other = np.array([-0.4, 0.1, 0.9])
    gap = losses.total(np.array([point, other]), 0, 40)
    assert total.stored_value(point) - total.stored_value(other) == pytest.approx(float(gap[0] - gap[1]))
    assert _sum(Box.cube(3, 1.0)).stored_slope(point) == [0.0] * 3


@pytest.mark.parametrize("link", LINKS)
def test_the_gap_makes_good_the_tangent(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proposed, plus the gap, is the potential up to a constant; no gap was cut off."""
    proposals, gaps = [], []

    def proposed(domain: Domain, precision: Fraction, slope: list[Fraction], unit: Fraction, noise: Any) -> Any:
        drawn = exact_draw(domain, precision, slope, unit, noise)
        x = np.array([float(place * unit) for place in drawn])
        tilt = np.array([float(s) for s in slope])
        proposals.append((x, 0.5 * float(precision) * float(x @ x) + float(tilt @ x)))
        return drawn

    def coin(gap: Fraction, noise: Any) -> bool:
        gaps.append(float(gap))
        return exponential_coin(gap, noise)

    monkeypatch.setattr(tangent_rejection, "exact_draw", proposed)
    monkeypatch.setattr(tangent_rejection, "exponential_coin", coin)
    domain = Box.cube(2, 1.0)
    total = _sum(domain, _losses(link, 2), LinearLosses([[0.6, -0.1]] * 3), QuadraticLosses([[0.1, -0.1]], 0.5))
    _draws(domain, total, 10)
    measure = WEIGHTS.measure(domain, total.losses(), 1)
    potential = measure.potential(np.array([x for x, _ in proposals]))
    off = potential - np.array([value for _, value in proposals]) - np.array(gaps)
    assert off == pytest.approx(np.full(off.size, off[0]), abs=1e-9) and np.max(gaps) > 0.01


# --- in a learner ----------------------------------------------------------------------------------------------------


def _learner(**more: object) -> LazyConvex:
    given: dict[str, object] = {
        "rounds": 8,
        "batch": 2,
        "domain": Box.cube(2, 1.0),
        "lipschitz": 1.0,
        "inverse_temperature": 0.4,
        "regularisation": 1.0,
        "fake_switch_probability": 0.3,
        "sampler": SecureTangentSampler(1e-10),
    }
    return LazyConvex(**(given | more))  # type: ignore[arg-type]


def test_streams_of_regression_losses_are_released() -> None:
    learner, losses = _learner(), _losses("logistic", 2, 8)
    found = release(learner, losses)
    assert not found.simulated and learner.domain.contains(found.actions).all()
    whole, source = release(learner, losses, noise=SimulationNoise(5)), SimulationNoise(5)
    stream = start(learner, noise=source)
    for t in range(8):
        stream = resume(learner, json.loads(json.dumps(stream.checkpoint())), noise=source)
        assert stream.predict() == pytest.approx(whole.actions[t], abs=1e-9)
        stream.update(RegressionLosses(losses.features[t : t + 1], losses.targets[t : t + 1]))


def test_rounding_is_in_the_plan() -> None:
    rounded, exact = (
        _learner(sampler=sampler).graph().guarantee() for sampler in (SecureTangentSampler(1e-5), ExactSampler())
    )
    assert rounded.epsilon(1e-3).upper > exact.epsilon(1e-3).upper
    assert rounded.event.failure_delta() > 2e-5 and exact.event.failure_delta() < 1e-8
    assert SecureTangentSampler(1e-5).certificate().required() == 1e-5


def test_simulated_draws_are_those_of_the_tangent_sampler() -> None:
    domain = Box.cube(2, 1.0)
    measure = WEIGHTS.measure(domain, _losses("hinge", 2), 12)
    one, other = (
        sampler.sample(measure, np.random.default_rng(1), 20) for sampler in (SecureTangentSampler(), TangentSampler())
    )
    assert (one == other).all()


def test_bad_arguments_are_refused() -> None:
    source = SimulationNoise(0)
    for more, match in (
        ({"sampler": SecureTangentSampler(1e-14)}, "below the rounding error"),
        ({"domain": Box.cube(40, 1.0)}, "too many dimensions"),
        ({"rounds": 10**7, "batch": 10**6, "inverse_temperature": 1e-9}, "too long for coins"),
        ({"domain": Ball(30, 1.0)}, "too small a radius"),
    ):
        with pytest.raises(InvalidArgumentError, match=match):
            start(_learner(**more), noise=source)
    for bad in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgumentError, match="total_variation"):
            SecureTangentSampler(bad)
