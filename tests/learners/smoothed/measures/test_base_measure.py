"""Tests of base measures: distribution functions and quantiles against listed points, boxes, samples, sizes beyond
memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import chi_square_of_counts

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.measures.base_measure import (
    BaseMeasure,
    ListedMeasure,
    ProductMeasure,
    UniformCube,
    UniformGrid,
)


@st.composite
def finite_measures(draw: st.DrawFn, dimension: int = 1) -> ListedMeasure:
    """Repeated points on a small grid with masses k/total, some of them zero."""
    size = draw(st.integers(1, 7))
    points = draw(st.lists(st.integers(0, 5), min_size=size * dimension, max_size=size * dimension))
    masses = np.array(draw(st.lists(st.integers(0, 4), min_size=size, max_size=size)), dtype=float)
    masses[0] += 1.0
    return ListedMeasure(np.reshape(points, (size, dimension)), masses / masses.sum())


SPOTS = np.concatenate([[-np.inf], np.arange(-1.0, 7.0, 0.5), [np.inf]])


@settings(max_examples=50)
@given(finite_measures(), st.floats(0.0, 1.0))
def test_a_finite_measure_is_its_list(measure: ListedMeasure, p: float) -> None:
    at = measure.points[:, 0] <= SPOTS[:, None]
    before = measure.points[:, 0] < SPOTS[:, None]
    assert np.allclose(measure.cdf(0, SPOTS), at @ measure.masses, rtol=0.0, atol=1e-15)
    assert np.allclose(measure.cdf(0, SPOTS, left=True), before @ measure.masses, rtol=0.0, atol=1e-15)
    if p == 0.0:
        assert measure.quantile(0, p) == -np.inf
    else:  # inf{x: F(x) >= p} is the only x with this for all y: x <= y exactly if p <= F(y)
        assert np.array_equal(measure.quantile(0, p) <= SPOTS, p <= measure.cdf(0, SPOTS))


@pytest.mark.statistical
@settings(max_examples=30)
@given(st.integers(1, 60), st.integers(0, 10**6))
def test_a_grid_is_the_list_of_its_points(size: int, seed: int) -> None:
    grid, points = UniformGrid(size), np.arange(size) / max(size - 1, 1)
    listed = ListedMeasure(points)
    spots = np.concatenate([points, np.nextafter(points, np.inf), np.nextafter(points, -np.inf), [-np.inf, 2, np.inf]])
    for left in (False, True):
        assert np.allclose(grid.cdf(0, spots, left=left), listed.cdf(0, spots, left=left), rtol=0.0, atol=1e-14)
    steps = np.arange(size + 1) / size
    shares = np.concatenate([np.random.default_rng(seed).uniform(size=20), steps, np.nextafter(steps[:-1], 1)])
    for p in shares[shares > 0.0]:
        assert np.array_equal(grid.quantile(0, p) <= spots, p <= grid.cdf(0, spots))
    assert grid.quantile(0, 0.0) == -np.inf and grid.quantile(0, 1.0) == points[-1]


@pytest.mark.parametrize("size", [2**24, 2**40, 2**52])
def test_a_huge_grid_is_exact_at_its_points(size: int) -> None:
    grid, index = UniformGrid((size, 3)), np.array([0, 1, 2, size // 3, size // 2, size - 2, size - 1])
    places = grid.position(0, index)
    assert np.array_equal(grid.below(0, places), index + 1)
    assert np.array_equal(grid.below(0, places, left=True), index)
    assert np.array_equal(grid.below(0, np.nextafter(places, -np.inf)), index)
    assert np.array_equal(grid.quantile(0, (index + 1) / size), places)
    assert grid.support_size == 3 * size and grid.marginal(1) == UniformGrid(3)


@given(st.floats(-5.0, 5.0), st.floats(0.01, 10.0), st.floats(0.0, 1.0))
def test_a_cube_is_uniform(low: float, side: float, p: float) -> None:
    cube = UniformCube(2, low, low + side)
    assert not cube.atoms and cube.support_size is None
    if p > 0.0:
        assert cube.cdf(1, cube.quantile(1, p)) == pytest.approx(p, abs=1e-12)
    assert cube.quantile(0, [0.0, 1.0]).tolist() == [-np.inf, low + side]
    assert cube.cdf(0, [-np.inf, low, low + side, np.inf]).tolist() == [0.0, 0.0, 1.0, 1.0]


@settings(max_examples=40)
@given(finite_measures(2), st.lists(st.integers(-1, 6), min_size=4, max_size=4))
def test_boxes_and_marginals_of_a_joint_law(measure: ListedMeasure, sides: list[int]) -> None:
    low, high = np.array(sides[:2], dtype=float), np.array(sides[2:], dtype=float)
    inside = ((measure.points >= low) & (measure.points <= high)).all(axis=1)
    assert measure.box_mass(low, high) == pytest.approx(measure.masses[inside].sum(), abs=1e-15)
    for axis in (0, 1):
        assert np.allclose(measure.marginal(axis).cdf(0, SPOTS), measure.cdf(axis, SPOTS), rtol=0.0, atol=1e-14)
    independent = ProductMeasure([measure.marginal(0), measure.marginal(1)])
    points = np.array([[x, y] for x in range(6) for y in range(6)])
    masses = np.prod([np.diff(measure.cdf(axis, np.arange(-1, 6)))[points[:, axis]] for axis in (0, 1)], axis=0)
    table = ListedMeasure(points, masses)
    assert independent.box_mass(low, high) == pytest.approx(float(table.box_mass(low, high)), abs=1e-12)
    assert independent.independent and not measure.independent


def chi_squared(measure: ListedMeasure, points: np.ndarray[Any, Any]) -> bool:
    """Whether a sample's counts on the measure's (distinct) points pass at the level 1e-6."""
    counts = (points[:, None] == measure.points[None]).all(axis=-1).sum(axis=0)
    return bool(chi_square_of_counts(counts, measure.masses) >= 1e-6)


def test_samples_follow_the_law() -> None:
    """False alarm: 1e-6 for each of three chi-squared tests (asymptotic, cells of more than 1000); a twin is caught."""
    rng = np.random.default_rng(0)
    joint = ListedMeasure([[0, 0], [0, 1], [1, 1]], [0.2, 0.3, 0.5])
    product = ProductMeasure([UniformGrid(2), ListedMeasure([5.0, 7.0], [0.3, 0.7])])
    listed = ListedMeasure([[0, 5], [0, 7], [1, 5], [1, 7]], [0.15, 0.35, 0.15, 0.35])
    grid = ListedMeasure([[x / 2, y] for x in range(3) for y in range(2)])
    assert chi_squared(joint, joint.sample(rng, 10_000))
    assert chi_squared(listed, product.sample(rng, 10_000))
    assert chi_squared(grid, UniformGrid((3, 2)).sample(rng, 10_000))
    assert not chi_squared(joint, ListedMeasure(joint.points, [0.2, 0.35, 0.45]).sample(rng, 10_000))
    cube = UniformCube(2, -1.0, 3.0).sample(rng, 1000)
    assert cube.shape == (1000, 2) and cube.min() >= -1.0 and cube.max() <= 3.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: UniformCube(0),
        lambda: UniformCube(2, 1.0, 1.0),
        lambda: UniformCube(True),
        lambda: UniformCube(1, 0.0, np.inf),
        lambda: UniformGrid(0),
        lambda: UniformGrid(()),
        lambda: UniformGrid(2**53),
        lambda: ListedMeasure([]),
        lambda: ListedMeasure([np.nan]),
        lambda: ListedMeasure([0.0, 1.0], [0.5, 0.6]),
        lambda: ListedMeasure([0.0, 1.0], [1.5, -0.5]),
        lambda: ListedMeasure([0.0, 1.0], [1.0]),
        lambda: ProductMeasure([]),
        lambda: ProductMeasure([UniformCube(2)]),
        lambda: UniformCube(2).cdf(2, 0.0),
        lambda: UniformCube(2).cdf(0, np.nan),
        lambda: UniformGrid(4).quantile(0, 1.5),
        lambda: UniformGrid(4).sample(np.random.default_rng(0), -1),
        lambda: UniformCube(2).box_mass([0.0], [1.0]),
    ],
)
def test_bad_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        wrong()


def test_measures_are_values() -> None:
    assert UniformGrid((3, 4)) == UniformGrid([3, 4]) and hash(UniformCube(2)) == hash(UniformCube(2, 0, 1))
    measure = ListedMeasure([0.0, 1.0])
    assert isinstance(measure, BaseMeasure)
    with pytest.raises(ValueError, match="read-only"):
        measure.points[0] = 3.0
