"""Tests of exact draws from a normal law in a box or a ball: their law, their lattice, and their refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError, NumericalError
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
from hockeystick.learners.lazy.convex.sampling import normal_in_box
from hockeystick.learners.lazy.convex.sampling.cells import decided
from hockeystick.learners.lazy.convex.sampling.exact_normal import exact_draw, normal_in
from hockeystick.learners.lazy.convex.sampling.open_reals import FIRST, Uniforms, rounded_down
from hockeystick.mechanisms import Noise, ReleaseNoise, SimulationNoise

FALSE_ALARM = 1e-6
UNIT = Fraction(1, 1 << 160)
SCALE = Fraction(1, 1 << 40)


def _whole(slope: Sequence[float]) -> list[int]:
    return [round(s / SCALE) for s in slope]


def _draws(domain: Domain, precision: float, slope: Sequence[float], count: int, unit: Fraction = UNIT) -> FloatArray:
    noise, density = SimulationNoise(7), normal_in(domain, Fraction(precision), _whole(slope), SCALE)
    points = [rounded_down(density.draw(noise), unit) for _ in range(count)]
    return np.array([[float(x * unit) for x in point] for point in points])


def _line(precision: float, slope: float, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """Points and distribution function of the density exp(-precision*x^2/2 - slope*x) on [low, high]."""
    mode = min(max(-slope / precision, low), high)
    scale = 1.0 / (math.sqrt(precision) + abs(precision * mode + slope))
    x = np.unique(np.clip(np.concatenate([mode + scale * np.linspace(-40, 40, 40_001), [low, high]]), low, high))
    log = -0.5 * precision * (x**2 - mode**2) - slope * (x - mode)
    law = integrate.cumulative_trapezoid(np.exp(log), x, initial=0.0)
    return x, law / law[-1]


# --- a box -----------------------------------------------------------------------------------------------------------

LINES = [
    (1.0, 0.3, -1.0, 1.0),
    (50.0, -20.0, -1.0, 1.0),  # the mode is inside
    (50.0, -400.0, -1.0, 1.0),  # the mean is far outside
    (1e4, -9.99e3, -1.0, 1.0),  # narrow, at the end
    (1e-3, 1e-3, -1.0, 1.0),  # nearly uniform
    (1.0, 30.0, 0.5, 2.0),  # the origin is outside
    (1e6, 0.0, -1.0, 1e3),
]


def _many(precision: float, slope: float, low: float, high: float, count: int) -> FloatArray:
    """Independent draws on one line: the coordinates of draws in a cube."""
    sides = np.full(200, low), np.full(200, high)
    density = normal_in_box.NormalInBox(*sides, Fraction(precision), _whole([slope]) * 200, SCALE)
    noise = SimulationNoise(7)
    found = [rounded_down(density.draw(noise), UNIT) for _ in range(count // 200)]
    return np.array([float(x * UNIT) for point in found for x in point])


@pytest.mark.statistical
@pytest.mark.parametrize("line", LINES)
def test_law_on_a_line(line: tuple[float, float, float, float]) -> None:
    draws = _many(*line, 5000)
    assert line[2] <= draws.min() and draws.max() <= line[3]
    points, law = _line(*line)
    assert stats.kstest(draws, lambda x: np.interp(x, points, law)).pvalue >= FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("line", [LINES[1], LINES[2]])
def test_law_on_a_line_with_many_digits(
    line: tuple[float, float, float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all coins open, each is tossed in decimal digits."""
    monkeypatch.setattr(
        normal_in_box, "decided", lambda coin, log, error: decided(coin, log, np.full(log.shape, np.inf))
    )
    draws = _many(*line, 800)
    points, law = _line(*line)
    assert stats.kstest(draws, lambda x: np.interp(x, points, law)).pvalue >= FALSE_ALARM


@pytest.mark.parametrize("line", LINES)
def test_many_digits_decide_as_floating_point_does(line: tuple[float, float, float, float]) -> None:
    precision, slope, low, high = line
    density = normal_in(Box((low,), (high,)), Fraction(precision), _whole([slope]), SCALE)
    assert isinstance(density, normal_in_box.NormalInBox)
    noise, rng = SimulationNoise(3), np.random.default_rng(4)
    none = np.zeros(30, dtype=np.int64)
    cell, found = density._cells.proposed(noise, none)
    assert found.all()
    place, coin = rng.integers(0, 1 << FIRST, (2, 30))
    heads, unsure = decided(coin, *density._log_chance(none, cell, place))
    assert heads.any() and not unsure.any()
    for k in range(30):
        u = Uniforms(noise, [int(place[k])])
        assert density._settled(0, int(cell[k]), u, int(coin[k]), noise) == heads[k]


@pytest.mark.parametrize("line", LINES)
def test_an_envelope_from_the_middle_of_cells_is_never_drawn_from(
    line: tuple[float, float, float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(normal_in_box, "nearest", lambda mode, low, high: 0.5 * (low + high))
    if line[0] == 1e-3:  # so flat that the weights' slack of 1e-9 is reached in few places
        monkeypatch.setattr(normal_in_box, "nearest", lambda mode, low, high: np.where(mode > low, low, high))
    with pytest.raises(NumericalError, match="defect"):
        _many(*line, 4000)


@pytest.mark.statistical
def test_coordinates_in_a_box_are_independent() -> None:
    draws = _draws(Box((-1.0, 0.2, -3.0), (1.0, 4.0, -1.0)), 2.0, [0.5, -1.0, 3.0], 600)
    for i, (slope, low, high) in enumerate([(0.5, -1.0, 1.0), (-1.0, 0.2, 4.0), (3.0, -3.0, -1.0)]):
        points, law = _line(2.0, slope, low, high)
        assert stats.kstest(draws[:, i], lambda x, a=points, c=law: np.interp(x, a, c)).pvalue >= FALSE_ALARM
        assert stats.spearmanr(draws[:, i], draws[:, i - 1]).pvalue >= FALSE_ALARM


def test_points_lie_on_the_lattice_and_in_the_domain() -> None:
    """On a lattice as coarse as the box they are rounded down, or up at its lower end."""
    unit, noise = Fraction(1, 4), SimulationNoise(5)
    box = Box((-0.3,), (0.6,))
    points = {exact_draw(box, Fraction(1), [0], Fraction(1), unit, noise)[0] for _ in range(200)}
    assert points == {-1, 0, 1, 2}


def test_corners_of_any_size_bound_the_points() -> None:
    box, noise = Box((1e-300, -1e4, 5e-324), (2e-300, 1e4, 1.0)), SimulationNoise(6)
    for _ in range(5):
        x = normal_in(box, Fraction(1e-10), [1, 0, 1], Fraction(1)).draw(noise)
        found, error = x.at(1200)
        for n, low, high in zip(found, box.lower, box.upper, strict=True):
            assert Fraction(low) - Fraction(error, 2**1200) <= Fraction(n, 2**1200) <= Fraction(high)


# --- a ball ----------------------------------------------------------------------------------------------------------


def _check_ball(dimension: int, precision: float, scale: float, count: int) -> None:
    """Along the mean: a density in closed form; across: a truncated chi square; around: uniform."""
    radius, axis = 1.3, np.array([3.0, -2.0, 6.0, 1.0, 1.0, 1.0])[:dimension]
    axis /= np.linalg.norm(axis)
    draws = _draws(Ball(dimension, radius), precision, list(-precision * radius * scale * axis), count)
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
@pytest.mark.parametrize(
    ("dimension", "precision", "scale"),
    [case if i in (1, 5, 8, 14) else pytest.param(*case, marks=pytest.mark.deep) for i, case in enumerate(BALLS)],
)
def test_law_in_a_ball(dimension: int, precision: float, scale: float) -> None:
    """Whole points; see the tests of their parts for finer ones."""
    _check_ball(dimension, precision, scale, 500)


def test_same_noise_same_draw_and_secure_noise_draws() -> None:
    def drawn(noise: Noise) -> tuple[int, ...]:
        return exact_draw(Ball(3, 1.0), Fraction(4), [1, 9, -3], Fraction(1), UNIT, noise)

    assert drawn(SimulationNoise(6)) == drawn(SimulationNoise(6))
    first, second = drawn(ReleaseNoise()), drawn(ReleaseNoise())
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


def test_only_measures_beyond_floating_point_are_refused() -> None:
    def check(domain: Domain, precision: float, rounds: int = 10) -> None:
        weights = RegularizedWeights(inverse_temperature=precision / 2, regularisation=1.0, lipschitz=1.0)
        ExactSampler().check_release(weights, domain, rounds)

    for domain in (Ball(100, 1.0), Ball(8, 1.0), Box.cube(500, 1.0)):
        for precision in (1e-9, 1e5):
            check(domain, precision)
    for domain, precision, rounds in ((Ball(100, 1.0), 1e9, 10), (Box.cube(2, 1.0), 1e5, 10**6)):
        with pytest.raises(InvalidArgumentError, match=rf"inverse_temperature.*{rounds} rounds"):
            check(domain, precision, rounds)
    measure = RegularizedMeasure(
        domain=Ball(1, 1.0), losses=LinearLosses([[1.0]]), seen=1, inverse_temperature=1.0, regularisation=1.0
    )
    with pytest.raises(InvalidArgumentError, match="runs"):
        ExactSampler().sample(measure, np.random.default_rng(0), -1)
