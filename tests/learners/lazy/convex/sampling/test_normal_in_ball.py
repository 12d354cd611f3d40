"""Tests of exact draws from a normal law in a ball, part by part: the pair, the direction, the point; and mutants."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.sampling import normal_in_ball
from hockeystick.learners.lazy.convex.sampling.cells import decided
from hockeystick.learners.lazy.convex.sampling.normal_in_ball import BallPoint, NormalInBall, mean_of_ball, normals
from hockeystick.learners.lazy.convex.sampling.open_reals import FIRST, Uniforms, in_floats, placed, rounded_down
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise

FALSE_ALARM = 1e-6
SCALE = Fraction(1, 1 << 40)
UNIT = Fraction(1, 1 << 160)
LAWS = {  # dimension, radius, precision, length of the slope
    "inside": (20, 1.0, 50.0, 30.0),
    "narrow": (100, 1.0, 2000.0, 100.0),
    "at the edge": (100, 1.0, 200.0, 400.0),
    "far outside": (100, 0.5, 1600.0, 40_000.0),
    "disc": (2, 1.3, 3.0, 2.0),
    "round": (5, 1.0, 2.0, 0.0),
    "nearly uniform": (30, 2.0, 1e-3, 0.0),
    "flat edge": (3, 1.0, 4.0, 6.0),
}


def density(dimension: int, radius: float, precision: float, steep: float) -> NormalInBall:
    slope = np.random.default_rng(dimension).normal(size=dimension)
    slope *= steep / np.linalg.norm(slope)
    return NormalInBall(radius, Fraction(precision), [round(x / SCALE) for x in slope], SCALE)


def pairs(law: NormalInBall, count: int, seed: int = 1) -> FloatArray:
    """Draws of u and r, shape (count, 2): a hundred by hand, the others many at a time."""
    noise, found = SimulationNoise(seed), np.empty((100, 2))
    for i in range(100):
        at, places = law._proposed(noise)
        found[i] = [
            low + (high - low) * known / 2**places.bits
            for (low, high), known in zip(law._ends(*at), places.known, strict=True)
        ]
    while len(found) < count:
        cell, _ = law._cells.proposed(noise, np.zeros(count, dtype=np.int64))
        row, column = np.divmod(cell, len(law._r) - 1)
        drawn = noise.uniform(1 << FIRST, 3 * count).reshape(3, -1)
        heads, unsure = decided(drawn[2], *law._log_chance(cell, row, column, drawn[:2]))
        for k in np.flatnonzero(unsure):  # an envelope that is too low is found here
            places = Uniforms(noise, drawn[:2, k].tolist())
            heads[k] = law._settled((row[k], column[k]), int(cell[k]), places, int(drawn[2, k]), noise)
        ends = np.array([np.ravel(law._ends(*at)) for at in zip(row[heads], column[heads], strict=True)]).T
        place = drawn[:2, heads] / 2**FIRST
        found = np.concatenate([found, (ends[::2] + (ends[1::2] - ends[::2]) * place).T])
    return found[:count]


def laws(dimension: int, radius: float, precision: float, steep: float) -> tuple[FloatArray, FloatArray]:
    """Points and distribution functions of u and of r, by quadrature in polar coordinates: (2, 2, cells)."""
    rho = (np.arange(1500) + 0.5) / 1500 * radius
    log = -0.5 * precision * rho**2 + (dimension - 1) * np.log(rho)
    angle = (np.arange(1500) + 0.5) / 1500 * math.pi
    weight = log[:, None] + steep * rho[:, None] * np.cos(angle) + (dimension - 2) * np.log(np.sin(angle))
    if dimension > 2 or steep:  # a finer grid where the mass is
        mass = np.exp(weight - weight.max())
        near = [np.flatnonzero(mass.max(axis=axis) > 1e-25)[[0, -1]] for axis in (1, 0)]
        (a, b), (c, d) = ((max(0, lo - 1), min(1499, hi + 1)) for lo, hi in near)
        rho, angle = (
            grid[lo] - 0.5 * step + (np.arange(1200) + 0.5) / 1200 * (hi - lo + 1) * step
            for grid, lo, hi, step in ((rho, a, b, radius / 1500), (angle, c, d, math.pi / 1500))
        )
        log = -0.5 * precision * rho**2 + (dimension - 1) * np.log(rho)
        weight = log[:, None] + steep * rho[:, None] * np.cos(angle) + (dimension - 2) * np.log(np.sin(angle))
    mass = np.exp(weight - weight.max()).ravel()
    found = []
    for x in ((rho[:, None] * np.cos(angle)).ravel(), (rho[:, None] * np.sin(angle)).ravel()):
        counts, ends = np.histogram(x, bins=1000, weights=mass)
        found.append((ends[1:], np.cumsum(counts) / counts.sum()))
    return np.array(found[0]), np.array(found[1])


def refuted(found: FloatArray, expected: tuple[FloatArray, FloatArray]) -> bool:
    """Whether tests of u and r refute their laws: Kolmogorov-Smirnov and the means; false alarm 1e-6 together."""
    least = 1.0
    for x, (points, law) in zip(found.T, expected, strict=True):
        least = min(least, stats.kstest(x, lambda t, p=points, c=law: np.interp(t, p, c)).pvalue)
        mass = np.diff(law, prepend=0.0)
        mean = float(mass @ points) - 0.5 * float(points[1] - points[0])
        deviation = math.sqrt(float(mass @ (points - mean) ** 2) / len(x))
        least = min(least, 2.0 * stats.norm.sf(abs(x.mean() - mean) / deviation))
    return bool(least < FALSE_ALARM / 4)


# --- the pair --------------------------------------------------------------------------------------------------------

MORE = ("far outside", "flat edge", "nearly uniform", "round")


@pytest.mark.statistical
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.deep) if n in MORE else n for n in LAWS])
def test_the_pair_has_its_law(name: str) -> None:
    """A law that moves the mean of u or r by 0.1 deviations is refuted but for a probability below 1e-6."""
    assert not refuted(pairs(density(*LAWS[name]), 10_000), laws(*LAWS[name]))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["inside", "narrow"])
def test_another_power_of_the_distance_is_refuted(name: str) -> None:
    """With r^(d-1) in place of r^(d-2) the law of u hardly changes, but that of r does."""
    dimension, *rest = LAWS[name]
    mutant = density(dimension, *rest)
    mutant._power += 1
    mutant._pairs()
    found, expected = pairs(mutant, 10_000), laws(*LAWS[name])
    assert refuted(found, expected)
    if name == "narrow":
        points, law = expected[0]
        assert stats.kstest(found[:, 0], lambda t: np.interp(t, points, law)).pvalue > 1e-4


@pytest.mark.parametrize("name", LAWS)
def test_an_envelope_from_the_middle_of_cells_is_never_drawn_from(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal_in_ball, "nearest", lambda mode, low, high: 0.5 * (low + high))
    mutant = density(*LAWS[name])
    with pytest.raises(NumericalError, match="defect"):
        pairs(mutant, 3000)


@pytest.mark.parametrize("name", LAWS)
def test_cells_cover_the_half_disc(name: str) -> None:
    """Every point of it is in a cell with weight, whose odds per size exceed the density by 1e-9 at least."""
    law, (_, radius, *_) = density(*LAWS[name]), LAWS[name]
    rng = np.random.default_rng(2)
    angle, rho = rng.uniform(0, math.pi, 4000), radius * np.sqrt(rng.random(4000))
    near = pairs(law, 50)
    u = np.concatenate([rho * np.cos(angle), near[:, 0], radius * np.cos(angle[:500])])
    r = np.concatenate([rho * np.sin(angle), near[:, 1], radius * np.sin(angle[:500]) * (1 - 1e-15)])
    row = np.searchsorted(law._u, u, side="right") - 1
    column = np.searchsorted(law._r, r, side="right") - 1
    assert (r <= law._room[row]).all()
    cell = row * (len(law._r) - 1) + column
    assert (law._log_density(u, r) < law._cells.log_height(np.zeros_like(cell), cell) - 1e-9).all()


@pytest.mark.parametrize("name", LAWS)
def test_many_digits_decide_as_floating_point_does(name: str) -> None:
    law, noise, rng = density(*LAWS[name]), SimulationNoise(3), np.random.default_rng(4)
    none = np.zeros(40, dtype=np.int64)
    cell, _ = law._cells.proposed(noise, none)
    row, column = np.divmod(cell, len(law._r) - 1)
    drawn = rng.integers(0, 1 << FIRST, (3, 40))
    heads, unsure = decided(drawn[2], *law._log_chance(cell, row, column, drawn[:2]))
    assert not unsure.any() and (heads.any() or name == "far outside")
    for k in range(40):
        places = Uniforms(noise, drawn[:2, k].tolist())
        assert law._settled((row[k], column[k]), int(cell[k]), places, int(drawn[2, k]), noise) == heads[k]


def test_places_on_the_edge_of_the_disc_are_settled() -> None:
    """With the first digits of a place on the circle both outcomes occur, after more digits."""
    law, noise = density(2, 1.0, 1.0, 0.0), SimulationNoise(5)
    row, column = (int(np.searchsorted(edges, x)) - 1 for edges, x in ((law._u, 0.5), (law._r, math.sqrt(0.75))))
    (u0, u1), (r0, r1) = (tuple(map(Fraction, ends)) for ends in law._ends(row, column))
    cell, found = row * (len(law._r) - 1) + column, set()
    for seed in range(40):
        share = Fraction(seed, 41)
        height = 1 - (u0 + (u1 - u0) * share) ** 2
        r = Fraction(math.isqrt(math.floor(height * 4**80)), 2**80)
        if r0 < r < r1:
            places = Uniforms(noise, [int(x * 2**FIRST) for x in (share, (r - r0) / (r1 - r0))])
            found.add((law._settled((row, column), cell, places, 1, noise), places.bits > FIRST))
    assert (True, True) in found and (False, True) in found


# --- the direction ---------------------------------------------------------------------------------------------------


def numbers(count: int, steps: int, noise: Any) -> FloatArray:
    found, places = normals(count, noise)
    return np.array([(k - 0.5 + p / 2**places.bits) / steps for k, p in zip(found, places.known, strict=True)])


@pytest.mark.statistical
@pytest.mark.parametrize(("steps", "count"), [(None, 20_000), (2, 2000)])
def test_normal_numbers_are_normal(steps: int | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two steps a deviation, a third of the proposals is rejected, and all coins need many digits."""
    if steps is not None:
        monkeypatch.setattr(normal_in_ball, "_STEPS", steps)
        monkeypatch.setattr(normal_in_ball, "_EXCESS", 1.0 - (steps / (steps + 1.0)) ** 2)
    x = numbers(count, steps or normal_in_ball._STEPS, SimulationNoise(6))
    assert stats.kstest(x, "norm").pvalue >= FALSE_ALARM / 2
    assert abs((x**2).sum() - count) < 5.3 * math.sqrt(2 * count)  # false alarm 5e-7, roughly


@pytest.mark.parametrize("steps", [2, 3, 2**10, 2**30])
def test_normal_numbers_keep_their_odds(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proposal times e^-q is the normal density, up to a factor; q is positive, and below its bound."""
    monkeypatch.setattr(normal_in_ball, "_STEPS", steps)
    excess, off = 1.0 - (steps / (steps + 1.0)) ** 2, []
    for k in (0, 1, -1, 2, 7 * steps // 2, -5 * steps):
        for place in (0, 1 << FIRST - 1, (1 << FIRST) - 1):
            low, high = normal_in_ball._less_q(k, Uniforms(SimulationNoise(1), [place]), 60)
            v = place / 2**FIRST - 0.5
            off.append(float(high) - k * k / (2 * (steps + 1) ** 2) + ((k + v) / steps) ** 2 / 2)
            most = 1 / steps + (k * k * excess + abs(k) + 1) / (2 * steps**2)
            assert low <= high < 0 and high - low < 1e-14 and -low <= most * 1.001
    assert off == pytest.approx([-1 / steps] * len(off), abs=1e-9)


def directions(law: NormalInBall, count: int) -> FloatArray:
    """cos(4*angle) of the direction across the first axis, in three dimensions."""
    noise = SimulationNoise(8)
    x = np.array([in_floats(law.draw(noise), UNIT) for _ in range(count)])
    return np.asarray(np.cos(4 * np.arctan2(x[:, 2], x[:, 1])))


@pytest.mark.statistical
def test_directions_are_uniform_and_not_those_of_a_cube(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of cos(4*angle) is 0, and pi - 3 away from it for numbers that are uniform in place of normal."""
    law, count = NormalInBall(1.0, Fraction(4), [-6, 0, 0], Fraction(1)), 1500
    limit = 4.9 * math.sqrt(0.5 / count)  # false alarm 1e-6
    assert abs(directions(law, count).mean()) < limit

    def cube(count: int, noise: Any) -> tuple[list[int], Uniforms]:
        places = noise.uniform(1 << FIRST, count).tolist()
        return (noise.uniform(2**31, count) - 2**30).tolist(), Uniforms(noise, places)

    monkeypatch.setattr(normal_in_ball, "normals", cube)
    assert abs(directions(law, count).mean()) > limit


# --- the point -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAWS)
def test_a_point_is_its_pair_and_direction(name: str) -> None:
    """In exact terms: x = u*e + r*w, with w the normal numbers less their part along e."""
    law, noise = density(*LAWS[name]), SimulationNoise(9)
    for _ in range(3):
        point = law.draw(noise)
        x = in_floats(point, UNIT)
        u, r = (
            placed(*ends, known, point._places.bits, 90) / 2**90
            for ends, known in zip(point._ends, point._places.known, strict=True)
        )
        e = np.array([float(Fraction(a, math.isqrt(point._length << 200)) * 2**100) for a in point._axis])
        g = np.array(
            [k - 0.5 + p / 2**point._parts.bits for k, p in zip(point._steps, point._parts.known, strict=True)]
        )
        y = g - (g @ e) * e
        assert x == pytest.approx(u * e + r * y / np.linalg.norm(y), abs=1e-12)
        assert np.linalg.norm(e) == pytest.approx(1.0, abs=1e-14) and law._s == pytest.approx(LAWS[name][3])
        assert np.linalg.norm(x) <= LAWS[name][1] * (1 + 1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_more_digits_are_those_of_the_same_point(name: str) -> None:
    law, noise = density(*LAWS[name]), SimulationNoise(10)
    for _ in range(3):
        point = law.draw(noise)
        fine, slack = point.at(900)
        for bits in (0, 3, 61, 200, 500):
            found, error = point.at(bits)
            assert error < 8
            for coarse, n in zip(found, fine, strict=True):
                assert abs((coarse << 900 - bits) - n) <= (error << 900 - bits) + slack
        for unit in (UNIT, Fraction(1, 10), Fraction(3)):
            assert rounded_down(point, unit) == tuple(n * unit.denominator // (unit.numerator << 900) for n in fine)


def test_a_direction_along_the_axis_needs_more_digits() -> None:
    """Where the part across is tiny, it is known to as many digits all the same."""
    noise = SimulationNoise(11)
    parts = Uniforms(noise, [1 << FIRST - 1, (1 << FIRST - 1) + 1])  # g = (3, 2^-62) steps
    point = BallPoint([5, 0], 25, 1.0, ((0.25, 0.5), (0.5, 0.75)), Uniforms(noise, [0, 0]), [3, 0], parts)
    found, error = point.at(40)
    assert error < 8 and found == pytest.approx([2**38, 2**39], abs=error + 1)


def test_secure_noise_draws() -> None:
    first, second = (rounded_down(density(3, 1.0, 4.0, 6.0).draw(ReleaseNoise()), UNIT) for _ in range(2))
    assert first != second


def test_the_tangents_point_is_nearly_the_mean() -> None:
    for name, (dimension, radius, precision, steep) in LAWS.items():
        slope = np.zeros(dimension)
        slope[1] = steep
        (points, law), _ = laws(dimension, radius, precision, steep)
        mean = float(np.diff(law, prepend=0.0) @ points)
        found = mean_of_ball(radius, precision, slope)
        assert found[0] == 0.0 and abs(-found[1] - mean) < (0.06 if dimension > 5 else 0.4) * radius, name
