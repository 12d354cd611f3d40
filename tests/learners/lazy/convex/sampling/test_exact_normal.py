"""Tests of exact draws from a normal law in a box or a ball: their parts, their law, and their refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ExactSampler,
    LinearLosses,
    QuadraticLosses,
    RegularizedMeasure,
    RegularizedWeights,
)
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.convex.sampling import exact_normal
from hockeystick.learners.lazy.convex.sampling.exact_normal import exact_draw
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise

FALSE_ALARM = 1e-6
UNIT = Fraction(1, 1 << 160)
Real = exact_normal._Real


def _draws(domain: Domain, precision: float, slope: Sequence[float], count: int, unit: Fraction = UNIT) -> FloatArray:
    noise, exact = SimulationNoise(7), [Fraction(s) for s in slope]
    points = [exact_draw(domain, Fraction(precision), exact, unit, noise) for _ in range(count)]
    return np.array([[float(x * unit) for x in point] for point in points])


def _line(precision: float, slope: float, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Points and distribution function of the density exp(-precision*x^2/2 - slope*x) on [low, high]."""
    mode = min(max(-slope / precision, low), high)
    scale = 1.0 / (math.sqrt(precision) + abs(precision * mode + slope))
    x = np.unique(np.clip(np.concatenate([mode + scale * np.linspace(-40, 40, 40_001), [low, high]]), low, high))
    log = -0.5 * precision * (x**2 - mode**2) - slope * (x - mode)
    law = integrate.cumulative_trapezoid(np.exp(log), x, initial=0.0)
    return x, law / law[-1]


# --- parts -----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["at once", "one by one"])
def digits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With one digit at a time, every comparison has to go on until it is decided."""
    if request.param == "one by one":
        monkeypatch.setattr(exact_normal, "_DIGITS", 1)
        monkeypatch.setattr(exact_normal, "_FINE", 1)
    return str(request.param)


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize("q", [0.0, 0.3, 2.7])
def test_acceptance_has_its_probability(q: float) -> None:
    noise, exact = SimulationNoise(1), Fraction(q)
    part = Real(Fraction(0), Fraction(0), noise)
    hits = sum(exact_normal._passes(lambda _: (exact, exact), [part], noise) for _ in range(1500))
    assert stats.binomtest(hits, 1500, math.exp(-q)).pvalue >= FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.usefixtures("digits")
def test_acceptance_integrates_over_unknown_digits() -> None:
    """P[pass] for q = U uniform on [0, 1) is 1 - 1/e, and passing makes U exponential."""
    noise, kept = SimulationNoise(2), []
    for _ in range(800):
        u = Real(Fraction(0), Fraction(1), noise)
        if exact_normal._passes(lambda parts: parts[0].ends(), [u], noise):
            for _ in range(20):
                u.refine(noise)
            kept.append(float(u.ends()[0]))
    assert stats.binomtest(len(kept), 800, 1 - math.exp(-1)).pvalue >= FALSE_ALARM
    assert stats.kstest(kept, lambda t: np.expm1(-t) / math.expm1(-1)).pvalue >= FALSE_ALARM


def test_digits_and_steps_of_an_exponential_variate() -> None:
    noise = SimulationNoise(3)
    counts = np.bincount(np.minimum([exact_normal._geometric(1, noise) for _ in range(1500)], 5), minlength=6)
    law = [math.exp(-k) * (1 - math.exp(-1)) for k in range(5)]
    assert stats.chisquare(counts, 1500 * np.array([*law, math.exp(-5)])).pvalue >= FALSE_ALARM
    for place in (0.5, 0.125):
        ones = sum(exact_normal._digit(Fraction(place), noise) for _ in range(1500))
        assert stats.binomtest(ones, 1500, 1 / (1 + math.exp(place))).pvalue >= FALSE_ALARM


def test_real_numbers_keep_their_digits() -> None:
    noise = SimulationNoise(4)
    for step in (Fraction(3), Fraction(-3)):
        x = Real(Fraction(10), step, noise)
        low, high = x.ends()
        for _ in range(3):
            x.refine(noise)
            inner = x.ends()
            assert low <= inner[0] < inner[1] <= high and (high - low) == (inner[1] - inner[0]) * 2**62
            low, high = inner


def test_potentials_in_floats_hold_those_in_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval that is looked at first holds the exact one; that is q(t) less the staircase, and nonnegative."""
    seen = []

    def recorded(bounds: Any, parts: Any, noise: SimulationNoise) -> bool:
        coarse = bounds(parts)
        parts[0].refine(noise)
        fine = bounds(parts)
        assert not parts[0].coarse and coarse[0] < fine[0] < fine[1] < coarse[1] and coarse[1] - coarse[0] < 1e-9
        seen.append((float(fine[0]), float(parts[0].ends()[0])))
        assert fine[1] >= 0
        return True

    monkeypatch.setattr(exact_normal, "_passes", recorded)
    for precision, slope, low, high in LINES:
        seen.clear()
        _draws(Box((low,), (high,)), precision, [slope], 40)
        mode = min(max(-slope / precision, low), high)
        rest, x = np.array(seen).T
        up = 0.5 * precision * (x**2 - mode**2) + slope * (x - mode)
        stairs = up - rest  # whole numbers, but for a constant
        assert stairs - stairs[0] == pytest.approx(np.rint(stairs - stairs[0]), abs=1e-6)


def test_the_rest_in_a_ball_makes_good_the_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposed potential plus rest is the potential, up to a constant."""
    seen, passes = [], exact_normal._passes

    def recorded(bounds: Any, parts: Any, noise: SimulationNoise) -> bool:
        if len(parts) == 1:
            return passes(bounds, parts, noise)
        seen.append([float(bounds(parts)[0]), *(float(part.ends()[0]) for part in parts)])
        return True

    monkeypatch.setattr(exact_normal, "_passes", recorded)
    radius, precision, slope = 1.3, 4.0, np.array([-3.0, 2.0, -6.0])
    x = _draws(Ball(3, radius), precision, slope.tolist(), 20)
    rest, v, *y = np.array(seen).T
    mean = float(np.linalg.norm(slope)) / precision
    proposed = 0.5 * precision * v**2 + precision * (mean - radius) * v
    proposed += 0.5 * precision * mean / radius * sum(each**2 for each in y)
    off = 0.5 * precision * np.sum(x**2, axis=1) + x @ slope - proposed - rest
    assert len(rest) == 20 and off == pytest.approx(np.full(20, off[0]), abs=1e-9)


# --- laws ------------------------------------------------------------------------------------------------------------

LINES = [
    (1.0, 0.3, -1.0, 1.0),
    (50.0, -20.0, -1.0, 1.0),  # the mode is inside
    (50.0, -400.0, -1.0, 1.0),  # the mean is far outside
    (1e4, -9.99e3, -1.0, 1.0),  # narrow, at the end
    (1e-3, 1e-3, -1.0, 1.0),  # nearly uniform
    (1.0, 30.0, 0.5, 2.0),  # the origin is outside
    (1e6, 0.0, -1.0, 1e3),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("precision", "slope", "low", "high"), LINES)
def test_law_on_a_line(precision: float, slope: float, low: float, high: float, digits: str) -> None:
    unit, count = (UNIT, 400) if digits == "at once" else (Fraction(1, 1 << 40), 150)
    draws = _draws(Box((low,), (high,)), precision, [slope], count, unit)[:, 0]
    assert low <= draws.min() and draws.max() <= high
    points, law = _line(precision, slope, low, high)
    assert stats.kstest(draws, lambda x: np.interp(x, points, law)).pvalue >= FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("precision", "slope", "low", "high"),
    [*LINES[1::2], *(pytest.param(*line, marks=pytest.mark.deep) for line in LINES[::2])],
)
def test_law_on_a_line_closely(precision: float, slope: float, low: float, high: float) -> None:
    draws = _draws(Box((low,), (high,)), precision, [slope], 5000)[:, 0]
    points, law = _line(precision, slope, low, high)
    assert stats.kstest(draws, lambda x: np.interp(x, points, law)).pvalue >= FALSE_ALARM


def _check_ball(dimension: int, precision: float, scale: float, count: int, unit: Fraction = UNIT) -> None:
    """Along the mean: a density in closed form; across: a truncated chi square; around: uniform."""
    radius, axis = 1.3, np.array([3.0, -2.0, 6.0, 1.0, 1.0, 1.0])[:dimension]
    axis /= np.linalg.norm(axis)
    draws = _draws(Ball(dimension, radius), precision, list(-precision * radius * scale * axis), count, unit)
    u, square = draws @ axis, np.sum(draws**2, axis=1)
    assert square.max() <= radius**2 * (1 + 1e-9)
    along = np.linspace(-radius, radius, 200_001)
    room = 0.5 * precision * np.maximum(0.0, radius**2 - along**2)
    with np.errstate(divide="ignore"):
        log = precision * along * (radius * scale - 0.5 * along) + stats.gamma.logcdf(room, 0.5 * (dimension - 1))
    law = integrate.cumulative_trapezoid(np.exp(log - log.max()), along, initial=0.0)
    assert stats.kstest(u, lambda z: np.interp(z, along, law / law[-1])).pvalue >= FALSE_ALARM
    shape = 0.5 * (dimension - 1)
    below = stats.gamma.cdf(0.5 * precision * (square - u**2), shape)
    below /= stats.gamma.cdf(0.5 * precision * (radius**2 - u**2), shape)
    assert stats.kstest(below, "uniform").pvalue >= FALSE_ALARM
    sideways = np.cross(axis, [0.0, 0.0, 1.0]) if dimension == 3 else np.eye(dimension)[1] - axis[1] * axis
    assert stats.binomtest(int((draws @ sideways > 0).sum()), count, 0.5).pvalue >= FALSE_ALARM


BALLS = [(d, *law) for d in (2, 3, 6) for law in ((0.01, 1e-6), (1.0, 0.55), (30.0, 0.45), (30.0, 0.95), (1e3, 1.5))]


@pytest.mark.statistical
@pytest.mark.parametrize(("dimension", "precision", "scale"), [(2, 1.0, 0.3), (3, 0.01, 4000.0)])
def test_law_in_a_ball(dimension: int, precision: float, scale: float) -> None:
    _check_ball(dimension, precision, scale, 150)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("dimension", "precision", "scale"),
    [case if i in (1, 5, 8, 12, 14) else pytest.param(*case, marks=pytest.mark.deep) for i, case in enumerate(BALLS)],
)
def test_law_in_a_ball_closely(dimension: int, precision: float, scale: float) -> None:
    """Laws at a distance of 0.14, 0.27 and 0.38 in 2, 3 and 6 dimensions are refuted but for a probability of 1e-6."""
    _check_ball(dimension, precision, scale, {2: 1500, 3: 400, 6: 200}[dimension])


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [0.2, 0.9])
def test_law_in_a_ball_digit_by_digit(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_normal, "_DIGITS", 1)
    monkeypatch.setattr(exact_normal, "_FINE", 1)
    _check_ball(2, 3.0, scale, 60, Fraction(1, 1 << 12))


@pytest.mark.statistical
def test_coordinates_in_a_box_are_independent() -> None:
    draws = _draws(Box((-1.0, 0.2, -3.0), (1.0, 4.0, -1.0)), 2.0, [0.5, -1.0, 3.0], 300)
    for i, (slope, low, high) in enumerate([(0.5, -1.0, 1.0), (-1.0, 0.2, 4.0), (3.0, -3.0, -1.0)]):
        points, law = _line(2.0, slope, low, high)
        assert stats.kstest(draws[:, i], lambda x, a=points, c=law: np.interp(x, a, c)).pvalue >= FALSE_ALARM
        assert stats.spearmanr(draws[:, i], draws[:, i - 1]).pvalue >= FALSE_ALARM


def test_points_lie_on_the_lattice_and_in_the_domain() -> None:
    """On a lattice as coarse as the box they are rounded down, or up at its lower end."""
    unit, noise = Fraction(1, 4), SimulationNoise(5)
    points = {exact_draw(Box((-0.3,), (0.6,)), Fraction(1), [Fraction(0)], unit, noise)[0] for _ in range(200)}
    assert points == {-1, 0, 1, 2}


def test_same_noise_same_draw_and_secure_noise_draws() -> None:
    arguments = Ball(3, 1.0), Fraction(4), [Fraction(1), Fraction(9), Fraction(-3)], UNIT
    one, other = (exact_draw(*arguments, SimulationNoise(6)) for _ in range(2))
    assert one == other
    first, second = (exact_draw(*arguments, ReleaseNoise()) for _ in range(2))
    assert first != second and Ball(3, 1.0).contains(np.array([[float(x * UNIT) for x in first]])).all()


# --- the sampler -----------------------------------------------------------------------------------------------------


def test_sampler_is_exact_and_simulates_the_same_law() -> None:
    sampler = ExactSampler()
    assert sampler.certificate().exact
    losses = QuadraticLosses(np.array([[0.3, -0.8], [0.9, 0.1]]), 0.7)
    measure = RegularizedMeasure(
        domain=Box.cube(2, 1.0), losses=losses, seen=2, inverse_temperature=3.0, regularisation=0.2
    )
    draws = sampler.sample(measure, np.random.default_rng(0), 2000)
    for i in range(2):
        slope = -3.0 * 0.7 * float(losses.centres[:, i].sum())
        points, law = _line(3.0 * (0.4 + 1.4), slope, -1.0, 1.0)
        assert stats.kstest(draws[:, i], lambda x, a=points, c=law: np.interp(x, a, c)).pvalue >= FALSE_ALARM


def test_balls_on_which_draws_take_forever_are_refused() -> None:
    def check(domain: Domain, precision: float) -> None:
        weights = RegularizedWeights(inverse_temperature=precision / 2, regularisation=1.0, lipschitz=1.0)
        ExactSampler().check_release(weights, domain, 10, 1)

    check(Ball(8, 1.0), 1e-9)
    check(Box.cube(500, 1.0), 1e-9)
    check(Ball(100, 1.0), 1e6)
    with pytest.raises(InvalidArgumentError, match=r"domain.*use a Box"):
        check(Ball(100, 1.0), 1e5)
    measure = RegularizedMeasure(
        domain=Ball(1, 1.0), losses=LinearLosses([[1.0]]), seen=1, inverse_temperature=1.0, regularisation=1.0
    )
    with pytest.raises(InvalidArgumentError, match="runs"):
        ExactSampler().sample(measure, np.random.default_rng(0), -1)
