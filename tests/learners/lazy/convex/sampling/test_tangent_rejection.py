"""Tests of releasable draws for regression losses: their law, the bound on their rounding, refusals."""

from __future__ import annotations

import decimal
import json
import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
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
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.convex.losses.links import (
    CURVATURES,
    LABELLED,
    LINKS,
    Link,
    link_slopes,
    link_values,
    regression_values,
)
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum, LossUnits
from hockeystick.learners.lazy.convex.sampling import tangent_rejection
from hockeystick.learners.lazy.convex.sampling.exact_normal import normal_in
from hockeystick.learners.lazy.convex.sampling.open_reals import FIRST, below_exponential, in_floats
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
UNIT = Fraction(1, 1 << 160)
WEIGHTS = RegularizedWeights(inverse_temperature=0.7, regularisation=1.0, lipschitz=1.0)


def _losses(link: Link, dimension: int, rounds: int = 12) -> RegressionLosses:
    rng = np.random.default_rng(17)
    features = rng.normal(size=(rounds, dimension)) + 0.4
    targets = np.where(rng.random(rounds) < 0.5, -1.0, 1.0) if link in LABELLED else rng.normal(size=rounds)
    if link == "squared":  # 1-Lipschitz on all domains here
        return RegressionLosses(0.2 * features / np.linalg.norm(features, axis=1)[:, None], 0.3 * targets, link)
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
LAWS = [("absolute", Ball(1, 1.0)), ("logistic", Ball(2, 1.0))]
MORE_LAWS = [
    (link, domain) for link in LINKS for domain in (Ball(1, 1.0), BOX, Ball(2, 1.0)) if (link, domain) not in LAWS
]


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
    if losses.link == "squared":
        return (p - y) ** 2 / 2 - y**2 / 2
    if losses.link == "huber":
        sizes = [abs(p - y), abs(y)]
        one, two = (min(r, Decimal(1)) * (r - min(r, Decimal(1)) / 2) for r in sizes)
        return one - two
    if losses.link in ("hinge", "smooth hinge"):
        margin = max(Decimal(0), 1 - y * p)
        return margin if losses.link == "hinge" else min(margin, Decimal(1)) * (margin - min(margin, Decimal(1)) / 2)
    return (1 + (-y * p).exp()).ln()


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("dimension", [1, 3, 50])
def test_values_are_rounded_by_less_than_stated(link: Link, dimension: int) -> None:
    rng, scale = np.random.default_rng(2), 7.0
    losses = _losses(link, dimension, 200)
    if link in ("absolute", "huber"):  # targets of all sizes: large ones must not cost precision
        losses = RegressionLosses(losses.features, losses.targets * 10.0 ** rng.uniform(-3, 12, 200), link)
    point = rng.normal(size=dimension)
    point *= scale / np.linalg.norm(point)
    values = regression_values(link, np.sum(losses.features * point, axis=1), losses.targets)
    for t in range(200):
        error = abs(Decimal(float(values[t])) - _exact_value(losses, t, point))
        assert error <= Decimal((dimension + 20) * (1 + scale) * 2.0**-53)


@pytest.mark.parametrize("link", LINKS)
def test_constants_are_the_least(link: Link) -> None:
    """The largest slope and second derivative of all links, on a grid of predictions and targets."""
    p, y = np.linspace(-3, 3, 1201), np.array([[-1.0], [1.0]] if link in LABELLED else [[-1.3], [0.2], [1.0]])
    values, slopes = link_values(link, p, y), link_slopes(link, p, y)
    step = p[1] - p[0]
    differences = np.diff(values, axis=1) / step
    assert (slopes[:, :-1] - 1e-12 <= differences).all() and (differences <= slopes[:, 1:] + 1e-12).all()
    if link != "squared":
        assert 0.9 < np.abs(differences).max() <= 1.0 + 1e-12
    if link in CURVATURES:
        assert 0.98 * CURVATURES[link] < (np.diff(slopes, axis=1) / step).max() <= CURVATURES[link] * (1 + 1e-9)


@pytest.mark.parametrize("domain", [Ball(3, 0.5), Box((-1.0, -0.2, 0.0), (0.5, 1.0, 0.1))])
def test_the_constant_of_squared_losses_is_the_largest_gradient(domain: Domain) -> None:
    rng = np.random.default_rng(3)
    losses = RegressionLosses(rng.normal(size=(5, 3)), rng.normal(size=5), "squared")
    points = rng.normal(size=(4000, 3))
    if isinstance(domain, Ball):
        points *= 0.5 / np.linalg.norm(points, axis=1)[:, None]
        points = np.vstack([points, 0.5 * losses.features / np.linalg.norm(losses.features, axis=1)[:, None]])
        points = np.vstack([points, -points[-5:]])
    else:
        points = np.where(points > 0, domain.upper, domain.lower)
    seen = [max(np.linalg.norm(losses.gradient(points, t, t + 1), axis=1)) for t in range(5)]
    np.testing.assert_allclose(losses.lipschitz(domain), seen)
    with pytest.raises(InvalidArgumentError, match="squared"):
        losses.clipped(1.0)


@pytest.mark.parametrize("link", LINKS)
def test_slopes_are_those_of_the_losses(link: Link) -> None:
    losses, point = _losses(link, 3, 40), np.array([0.3, -0.2, 0.5])
    gap = _gap(Box.cube(3, 1.0), [losses], point)
    slope = np.array(gap.slope) * float(LossUnits.of(Box.cube(3, 1.0), 1.0).slope)
    assert slope == pytest.approx(losses.gradient(point[None], 0, 40)[0], abs=1e-12)
    total, other = _sum(Box.cube(3, 1.0), losses), np.array([-0.4, 0.1, 0.9])
    values = losses.total(np.array([point, other]), 0, 40)
    one, two = (total.value([int(x * 2**60) for x in each], Fraction(1, 2**60)) for each in (point, other))
    assert float(one - two) == pytest.approx(float(values[0] - values[1]), abs=1e-13)


def _gap(domain: Domain, losses: list[RegressionLosses], z: FloatArray) -> Any:
    return tangent_rejection._Gap(losses, WEIGHTS, domain, z, LossUnits.of(domain, 1.0).slope)


class At:
    """A point that is known exactly."""

    def __init__(self, x: FloatArray) -> None:
        self.x = x

    def at(self, bits: int) -> tuple[list[int], int]:
        return [math.floor(Fraction(float(x)) * 2**bits) for x in self.x], 1


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("dimension", [1, 3, 20])
def test_gaps_are_positive_and_within_their_errors(link: Link, dimension: int) -> None:
    """At the tangent's own point too, where only the margin is left; floats lie in all intervals, up to the bound."""
    rng, domain = np.random.default_rng(5), Box.cube(dimension, 1.0)
    losses = [_losses(link, dimension, 30), _losses("hinge", dimension, 3)]
    z = rng.uniform(-1, 1, dimension)
    gap = _gap(domain, losses, z)
    measure = WEIGHTS.measure(domain, _sum(domain, *losses).losses(), 1)
    for x in (z, *rng.uniform(-1, 1, (4, dimension)), z + 1e-8):
        exact = -measure.losses_at(z[None])[0] + measure.losses_at(x[None])[0] - measure.slope_at(z[None])[0] @ (x - z)
        assert gap.at(x) == pytest.approx(exact + gap._margin, abs=1e-11)
        for digits in (30, 60):
            with decimal.localcontext(decimal.Context(prec=digits)):
                low, high = gap.enclosed(At(x), digits)
            assert low <= high < 0 and float(high - low) < 10.0 ** (8 - digits)
            assert abs(-gap.at(x) - float(low)) < gap._error < 1e-11


@pytest.mark.parametrize("link", LINKS)
def test_the_gap_makes_good_the_tangent(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proposed, plus the gap, is the potential up to a constant."""
    slopes, gaps = [], []

    def proposed(domain: Domain, precision: Fraction, slope: list[int], scale: Fraction) -> Any:
        slopes.append((float(precision), np.array(slope, dtype=float) * float(scale)))
        return normal_in(domain, precision, slope, scale)

    class Recorded(tangent_rejection._Gap):
        def passes(self, point: Any, unit: Fraction, noise: Any) -> bool:
            x = in_floats(point, unit)
            gaps.append((x, self.at(x)))
            return super().passes(point, unit, noise)

    monkeypatch.setattr(tangent_rejection, "normal_in", proposed)
    monkeypatch.setattr(tangent_rejection, "_Gap", Recorded)
    domain = Box.cube(2, 1.0)
    total = _sum(domain, _losses(link, 2), LinearLosses([[0.6, -0.1]] * 3), QuadraticLosses([[0.1, -0.1]], 0.5))
    for seed in range(10):
        SecureTangentSampler().released(WEIGHTS, domain, total, UNIT, SimulationNoise(seed))
    assert all(p == slopes[0][0] and (v == slopes[0][1]).all() for p, v in slopes)
    (precision, slope), x = slopes[0], np.array([x for x, _ in gaps])
    proposed_potential = 0.5 * precision * np.sum(x**2, axis=1) + x @ slope
    measure = WEIGHTS.measure(domain, total.losses(), 1)
    off = measure.potential(x) - proposed_potential - np.array([gap for _, gap in gaps])
    assert off == pytest.approx(np.full(off.size, off[0]), abs=1e-9) and max(gap for _, gap in gaps) > 0.01


@pytest.mark.parametrize("link", LINKS)
def test_many_digits_decide_as_floating_point_does(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, outcomes = Ball(2, 1.0), []
    gap = _gap(domain, [_losses(link, 2)], np.zeros(2))
    density = normal_in(domain, Fraction(1), gap.slope, LossUnits.of(domain, 1.0).slope)
    for seed in range(25):
        noise = SimulationNoise(seed)
        point = density.draw(noise)
        coin = int(noise.uniform(1 << FIRST, 1)[0])

        monkeypatch.setattr(tangent_rejection, "first_digits", lambda noise, count, c=coin: np.array([c]))
        found = gap.passes(point, UNIT, noise)
        assert below_exponential(coin, noise, partial(gap.enclosed, point)) == found
        outcomes.append(found)
    assert True in outcomes and (False in outcomes or link in ("hinge", "squared"))


# --- mutants ---------------------------------------------------------------------------------------------------------

STEEP = RegularizedWeights(inverse_temperature=8.0, regularisation=0.2, lipschitz=1.0)


GAP = tangent_rejection._Gap


class ClippedGap(tangent_rejection._Gap):
    """A gap of at most 1."""

    def at(self, x: FloatArray) -> float:
        return min(1.0, super().at(x))


class RoundedTangent(tangent_rejection._Gap):
    """The coin's tangent touches at z, the proposals' at z rounded down."""

    def __init__(self, losses: Any, weights: Any, domain: Domain, z: FloatArray, unit: Fraction) -> None:
        super().__init__(losses, weights, domain, z, unit)
        self.slope = GAP(losses, weights, domain, np.floor(z), unit).slope


class HalvedGap(tangent_rejection._Gap):
    """A coin of e^(-gap/2)."""

    def at(self, x: FloatArray) -> float:
        return 0.5 * super().at(x)


def _line_law(draw: Any, count: int) -> float:
    """The p-value of draws on the line against quadrature: opposite logistic losses, steep and far apart."""
    domain = Ball(1, 1.0)
    total = _sum(domain, RegressionLosses([[1.0], [-1.0], [0.9]], [1.0, 1.0, 1.0]))
    noise = SimulationNoise(21)
    x = np.array([draw(STEEP, domain, total, UNIT, noise)[0] * float(UNIT) for _ in range(count)])
    along = np.linspace(-1, 1, 4001)
    log = -STEEP.measure(domain, total.losses(), 1).potential(along[:, None])
    law = integrate.cumulative_trapezoid(np.exp(log - log.max()), along, initial=0.0)
    return float(stats.kstest(x, lambda z: np.interp(z, along, law / law[-1])).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("mutant", [None, ClippedGap, RoundedTangent, HalvedGap])
def test_wrong_gaps_are_refuted(mutant: type | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant is not None:
        monkeypatch.setattr(tangent_rejection, "_Gap", mutant)
    monkeypatch.setattr(tangent_rejection, "_fixed_point", lambda *_: np.array([-0.3]))  # any point gives the same law
    found = _line_law(SecureTangentSampler().released, 250)
    assert (found < FALSE_ALARM) == (mutant is not None)


# --- many dimensions -------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("domain", [Ball(100, 1.0), Box.cube(100, 0.1)])
def test_logistic_losses_keep_the_stated_share_in_100_dimensions(domain: Domain) -> None:
    """Of 150 proposals at e^(-T/(16*lambda)) = 0.61 or more; the false alarm is 1e-6."""
    rng, rounds = np.random.default_rng(3), 400
    weights = RegularizedWeights(inverse_temperature=1.0, regularisation=50.0, lipschitz=1.0)
    features = rng.normal(size=(rounds, 100))
    features[:, :3] *= 6
    losses = RegressionLosses(features, np.where(rng.random(rounds) < 0.7, 1.0, -1.0)).clipped(1.0)
    total, noise, kept = _sum(domain, losses), SimulationNoise(4), []

    class Counted(tangent_rejection._Gap):
        def passes(self, point: Any, unit: Fraction, noise: Any) -> bool:
            kept.append(super().passes(point, unit, noise))
            return kept[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tangent_rejection, "_Gap", Counted)
        while len(kept) < 150:
            SecureTangentSampler().released(weights, domain, total, UNIT, noise)
    bound = math.exp(-rounds / (16 * 50.0))
    assert stats.binomtest(sum(kept), len(kept), bound, alternative="less").pvalue >= FALSE_ALARM
    assert sum(kept) < len(kept)


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
        "sampler": SecureTangentSampler(),
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


def test_nothing_is_added_to_the_plan() -> None:
    rejected, exact = (
        _learner(sampler=sampler).graph().guarantee() for sampler in (SecureTangentSampler(), ExactSampler())
    )
    assert rejected.epsilon(1e-6).upper == exact.epsilon(1e-6).upper
    assert "the timing of draws and their numbers of proposals are not published" in rejected.assumptions


def test_simulated_draws_are_those_of_the_tangent_sampler() -> None:
    domain = Box.cube(2, 1.0)
    measure = WEIGHTS.measure(domain, _losses("hinge", 2), 12)
    one, other = (
        sampler.sample(measure, np.random.default_rng(1), 20) for sampler in (SecureTangentSampler(), TangentSampler())
    )
    assert (one == other).all()


def test_bad_arguments_are_refused() -> None:
    source = SimulationNoise(0)
    with pytest.raises(InvalidArgumentError, match="regularisation.*after 400 rounds.*e\\^-25"):
        start(_learner(domain=Box.cube(40, 1.0), rounds=400), noise=source)
    start(_learner(domain=Ball(100, 1.0), rounds=140), noise=source)  # e^-8.75 is above 10^-4
    start(_learner(domain=Ball(1, 1.0), rounds=400), noise=source)  # on the line any loss will do


def test_losses_that_are_not_smooth_need_few_dimensions() -> None:
    stream = start(_learner(domain=Ball(40, 1.0)), noise=SimulationNoise(0))
    stream.update(_losses("logistic", 40, 1))
    with pytest.raises(InvalidArgumentError, match="hinge.*too many dimensions"):
        stream.update(_losses("hinge", 40, 1))
    assert stream.round == 1
    with pytest.raises(InvalidArgumentError, match="absolute.*too many dimensions"):
        release(_learner(domain=Ball(40, 1.0)), _losses("absolute", 40, 8))


def test_smooth_losses_are_refused_by_public_parameters() -> None:
    many = start(_learner(domain=Ball(100, 1.0), rounds=140), noise=SimulationNoise(0))
    few = start(_learner(domain=Ball(100, 1.0), rounds=36), noise=SimulationNoise(0))  # e^-9 is above 10^-4
    links: tuple[Link, ...] = ("huber", "smooth hinge", "squared")
    for link in links:
        with pytest.raises(InvalidArgumentError, match=f"{link}.*too many rounds"):
            many.update(_losses(link, 100, 1))
        few.update(_losses(link, 100, 1))
    away = start(_learner(domain=Box((0.1, 0.1), (1.0, 1.0))), noise=SimulationNoise(0))
    with pytest.raises(InvalidArgumentError, match="origin"):
        away.update(_losses("squared", 2, 1))


def test_calibration_refuses_what_a_release_would() -> None:
    shape: dict[str, Any] = {"rounds": 60, "lipschitz": 1.0, "delta": 1e-6, "epsilon": 1.0}
    for sampler in (SecureTangentSampler(), ExactSampler()):
        learner = LazyConvex.calibrated(**shape, domain=Ball(100, 1.0), sampler=sampler)
        assert not start(learner).simulated
    with pytest.raises(InvalidArgumentError, match="origin"):
        LazyConvex.calibrated(**shape, domain=Box((1e9,), (1e9 + 1,)), sampler=ExactSampler())
