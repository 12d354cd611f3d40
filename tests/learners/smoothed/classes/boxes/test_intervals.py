"""Tests of thresholds and intervals: printed sizes, measures with and without atoms, atoms that plain quantiles would
miss."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.classes.boxes.intervals import (
    Intervals,
    Thresholds,
    bracket_cuts,
    pair_index,
    pair_of,
)
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure, UniformCube, UniformGrid


class HalfAtom(BaseMeasure):
    """Half the mass uniform on [0, 1], half of it at 1/2: neither a list nor a density."""

    dimension, atoms, support_size = 1, True, None

    def __repr__(self) -> str:
        return "HalfAtom()"

    def marginal(self, axis: int) -> BaseMeasure:
        return self

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        raise NotImplementedError

    def cdf(self, axis: int, x: object, *, left: bool = False) -> FloatArray:
        spots = np.asarray(x, dtype=float)
        reached: FloatArray = 0.5 * np.clip(spots, 0.0, 1.0) + 0.5 * ((spots > 0.5) if left else (spots >= 0.5))
        return reached

    def quantile(self, axis: int, p: object) -> FloatArray:
        shares = np.asarray(p, dtype=float)
        inner = np.where(shares <= 0.25, 2 * shares, np.where(shares <= 0.75, 0.5, 2 * shares - 1.0))
        return np.where(shares > 0.0, inner, -np.inf)


MEASURES = [UniformCube(1), UniformCube(1, -2.0, 5.0), UniformGrid(2**24), HalfAtom()]


def difference(measure: BaseMeasure, first: FloatArray, second: FloatArray) -> FloatArray:
    """The exact mass on which intervals (.., 2) differ, as {a <= x <= c}."""
    common = np.stack([np.maximum(first[..., 0], second[..., 0]), np.minimum(first[..., 1], second[..., 1])], axis=-1)
    masses = [measure.box_mass(one[..., :1], one[..., 1:]) for one in (first, second, common)]
    return masses[0] + masses[1] - 2.0 * masses[2]


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
@settings(max_examples=30)
@given(gamma=st.floats(0.004, 1.0), seed=st.integers(0, 10**6))
def test_covers_reach_everything_within_gamma(measure: BaseMeasure, gamma: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = np.sort(measure.quantile(0, rng.uniform(size=(50, 2))), axis=1)
    ends = np.concatenate([ends, ends + rng.choice([0.0, 1e-9, 0.01], ends.shape), ends[:, ::-1], [[-np.inf, np.inf]]])
    cover = Intervals().cover(gamma, measure)
    assert difference(measure, ends, cover.parameters[cover.nearest(ends)]).max() <= gamma + 1e-9
    rays = np.column_stack([ends[:, 0], np.full(len(ends), np.inf)])
    lines = Thresholds().cover(gamma, measure)
    found = lines.parameters[lines.nearest(rays[:, :1])]
    assert difference(measure, rays, np.column_stack([found, np.full(len(ends), np.inf)])).max() <= gamma + 1e-9
    half, sides = math.ceil(1 / (2 * Fraction(gamma))), math.ceil(1 / Fraction(gamma))
    if not measure.atoms:  # the printed sizes
        assert lines.size == half and cover.size == sides * (sides - 1) // 2 + 1
    assert lines.size <= 2 * half and cover.size <= 2 * sides * (2 * sides - 1) // 2 + 1


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
@settings(max_examples=30)
@given(epsilon=st.floats(0.004, 1.0), seed=st.integers(0, 10**6))
def test_brackets_are_as_narrow_and_as_few_as_printed(measure: BaseMeasure, epsilon: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = measure.quantile(0, rng.uniform(size=(20, 2)))
    points = np.unique(np.concatenate([rows, np.nextafter(rows, np.inf), np.nextafter(rows, -np.inf)]))
    for concepts, p, most in (
        (Thresholds(), 1, math.ceil(1 / Fraction(epsilon))),
        (Intervals(), 2, math.comb(math.ceil(2 / Fraction(epsilon)) + 1, 2)),
    ):
        brackets = concepts.brackets(epsilon, measure)
        assert brackets.count <= most and brackets.width <= epsilon + 1e-12
        index = brackets.index(rows[:, :p])
        truth = concepts.predict(rows[:, :p], points)
        assert (brackets.lower.contains(points, index) <= truth).all()
        assert (truth <= brackets.upper.contains(points, index)).all()
        ends = [brackets.ends(index, upper=upper) for upper in (False, True)]
        closed = [end if p == 2 else np.column_stack([end, np.full(len(end), np.inf)]) for end in ends]
        assert difference(measure, *closed).max() <= brackets.width + 1e-9


def test_an_open_lower_end_is_what_keeps_atoms_out() -> None:
    """Planted: an upper function 1[x >= q] instead of 1[x > q] lets an atom of mass 1/2 into a bracket of 0.1."""
    measure = HalfAtom()
    brackets, cuts = Thresholds().brackets(0.1, measure), bracket_cuts(measure, 0.1)
    atom = int(np.flatnonzero(cuts == 0.5)[0])
    upper, lower = (brackets.ends([atom], upper=upper)[0, 0] for upper in (True, False))
    mass = measure.cdf(0, [upper, lower, cuts[atom]], left=True)
    assert mass[1] - mass[0] <= 0.1 + 1e-12 and mass[1] - mass[2] > 0.5


@pytest.mark.parametrize(
    ("points", "gamma", "size"),
    [(2**16, 1 / 2**12 / 16, 65537), (2**16, 4.0 / 2**16, 7282), (100, 0.0099, 101), (100, 0.01, 34), (1, 1.0, 1)],
)
def test_covers_of_grids_have_their_closed_size(points: int, gamma: float, size: int) -> None:
    """ceil((N + 1)/(2 floor(gamma N) + 1)), and all N + 1 thresholds below gamma = 1/N."""
    cover = Thresholds().cover(gamma if size != 65537 else np.nextafter(gamma, 0), UniformGrid(points))
    assert cover.size == size
    if points <= 100:
        every = UniformGrid(points).position(0, np.arange(points + 1))[:, None]
        table = UniformGrid(points).position(0, np.arange(points))
        gaps = (Thresholds().predict(every, table)[:, None] ^ cover.predict(table)[None]).mean(axis=-1)
        assert gaps.min(axis=1).max() <= gamma


def test_a_huge_domain_takes_no_memory() -> None:
    grid = UniformGrid(2**40)
    tracemalloc.start()
    cover, brackets = Thresholds().cover(2**-10, grid), Thresholds().brackets(2**-10, grid)
    found = cover.nearest(np.random.default_rng(0).uniform(size=(1000, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert cover.size == 512 and brackets.count == 1024 and len(found) == 1000 and peak < 2**20


@given(st.integers(1, 60))
def test_pairs_are_counted_through(cells: int) -> None:
    first, last = np.triu_indices(cells)
    assert np.array_equal(pair_index(first, last, cells), np.arange(len(first)))
    assert np.array_equal(pair_of(np.arange(len(first)), cells), (first, last))


def test_the_largest_gap_of_thresholds_is_the_kolmogorov_distance_on_both_sides_of_jumps() -> None:
    """By hand: F_P - F_Q is 1/2, -1/4, 0 after the three points; rays see 1/2, intervals 3/4."""
    points, first, second = [3.0, 1.0, 2.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]
    assert Thresholds().max_gap(points, first, second) == 0.5
    assert Intervals().max_gap(points, first, second) == 0.75
    assert Intervals().max_gap([], [], []) == 0.0
    # Weightings of different total: the whole line counts too.
    assert Thresholds().max_gap([0.0], [3.0], [1.0]) == 2.0


@pytest.mark.statistical
@given(st.lists(st.integers(0, 5), min_size=1, max_size=7), st.sampled_from([0.0501, 0.1003, 0.2007, 0.3511, 0.6013]))
def test_no_proper_cover_of_a_listed_measure_is_smaller(weights: list[int], gamma: float) -> None:
    """Against all subsets of thresholds, the smallest first."""
    masses = np.array([*weights, 1]) / (sum(weights) + 1)
    cover = Thresholds().cover(gamma, ListedMeasure(np.arange(len(masses)), masses))
    left = np.append(0.0, np.cumsum(masses))
    near = np.abs(left[:, None] - left) <= gamma + 1e-12
    reached = cover.measure.cdf(0, cover.parameters[:, 0], left=True)
    assert (np.abs(left[:, None] - reached) <= gamma + 1e-12).any(axis=1).all()
    assert not any(near[:, list(some)].any(axis=1).all() for some in combinations(range(len(left)), cover.size - 1))


def test_finite_measures_take_no_more_thresholds_than_they_have_atoms() -> None:
    measure = ListedMeasure([0.0, 1.0, 2.0], [0.98, 0.01, 0.01])
    assert Thresholds().cover(1e-4, measure).size == 4 and Thresholds().brackets(1e-4, measure).count == 4
    assert Thresholds().brackets(1e-4, measure).width <= 1e-12
