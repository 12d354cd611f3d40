"""Cells of queries against dense domains: counts, answers on and off the cover, samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import MatrixCells

seeds = st.integers(0, 2**32 - 1)


def finite(rng: np.random.Generator, dimension: int) -> tuple[BaseMeasure, np.ndarray, np.ndarray]:
    """A measure with atoms, its points (N, d) and their masses."""
    if dimension == 1 and rng.random() < 0.5:
        points, masses = np.unique(rng.integers(0, 15, 9) / 4.0), rng.gamma(1.0, size=15)
        masses = masses[: len(points)] / masses[: len(points)].sum()
        return ListedMeasure(points, masses), points[:, None], masses
    measure = UniformGrid(tuple(int(size) for size in rng.integers(2, 9, dimension)))
    axes = np.meshgrid(*(np.arange(size) / (size - 1) for size in measure.sizes), indexing="ij")
    points = np.stack([axis.ravel() for axis in axes], axis=1)
    return measure, points, np.full(len(points), 1.0 / len(points))


@pytest.mark.statistical
@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([Thresholds(), Intervals(), Rectangles(1), Rectangles(2)]), st.booleans())
def test_cells_know_what_a_dense_domain_knows(seed: int, concepts: ConceptClass, signed: bool) -> None:
    """With D/mu constant on cells: masses, counts, sums, answers of the cover's and of any other query."""
    rng = np.random.default_rng(seed)
    measure, points, masses = finite(rng, concepts.dimension)
    cover = concepts.cover(float(rng.uniform(0.2, 1.0)), measure)
    cells = BoxCells.of(cover, signed=signed)
    at = np.array([int(np.argmax(cells.counts(point[None]))) for point in points])
    np.testing.assert_allclose(np.bincount(at, weights=masses, minlength=len(cells.masses)), cells.masses, atol=1e-12)

    ratio = rng.gamma(0.5, size=len(cells.masses))
    dense = ratio[at] * masses
    dense /= dense.sum()
    weights = np.bincount(at, weights=dense, minlength=len(cells.masses))
    sign = (lambda holds: 2.0 * holds - 1.0) if signed else (lambda holds: 1.0 * holds)
    np.testing.assert_allclose(cells.answers(weights), sign(cover.predict(points)) @ dense, atol=1e-12)
    np.testing.assert_allclose(cells.inside(np.arange(cells.queries))[:, at], sign(cover.predict(points)))

    others = rng.choice(np.append(points.ravel(), [0.33, -1.0, 5.0]), (20, concepts.parameter_count))
    np.testing.assert_allclose(
        cells.answer(others, weights), sign(concepts.predict(others, points)) @ dense, atol=1e-12
    )
    records = points[rng.integers(0, len(points), 30)]
    sums = cells.answers(cells.counts(records))
    assert (sums == sign(cover.predict(records)).sum(axis=1)).all()
    np.testing.assert_allclose(cells.empirical(others, records), sign(concepts.predict(others, records)).mean(axis=1))
    nearest = cells.nearest(others)
    apart = (cover.predict(points)[nearest] != concepts.predict(others, points)) @ masses
    assert (apart <= cells.gamma + 1e-12).all()


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_a_matrix_of_the_same_queries_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, points, masses = finite(rng, 2)
    measure = ListedMeasure(points, masses)
    cover = Rectangles(2).cover(0.6, measure)
    table = MatrixCells.of(cover, signed=True)
    records = points[rng.integers(0, len(points), 25)]
    expected = 2.0 * cover.predict(records).sum(axis=1) - 25
    assert (table.answers(table.counts(records)) == expected).all()
    assert (table.width, table.low, table.whole) == (2.0, -1.0, True)
    np.testing.assert_allclose(table.answer(cover.parameters, table.masses), table.answers(table.masses))
    assert set(map(tuple, table.sample(table.masses, rng, 50))) <= set(map(tuple, points))


def test_a_continuum_is_as_good_as_any_domain() -> None:
    """mu itself answers with mu, off the cover too; and cells do not know how many points there are."""
    cover = Rectangles(2).cover(0.5, UniformCube(2))
    cells = BoxCells.of(cover)
    boxes = np.array([[0.11, 0.2, 0.57, 0.9], [0.5, 0.5, 0.4, 1.0], [-np.inf, -np.inf, np.inf, 0.25]])
    np.testing.assert_allclose(cells.answer(boxes, cells.masses), [0.46 * 0.7, 0.0, 0.25])
    sizes = [BoxCells.of(Thresholds().cover(1e-3, UniformGrid(2**k))).masses.size for k in (14, 24, 40)]
    assert max(sizes) - min(sizes) <= 40 and max(sizes) < 600


def test_samples_follow_the_law() -> None:
    """False-alarm probability 1e-6; samples of mu itself are told apart from those of the law."""
    cells = BoxCells.of(Intervals().cover(0.4, UniformGrid(1000)))
    rng = np.random.default_rng(5)
    weights = cells.masses * rng.gamma(1.0, size=len(cells.masses))
    weights /= weights.sum()
    drawn = cells.counts(cells.sample(weights, rng, 20_000))
    assert stats.chisquare(drawn, 20_000 * weights).pvalue > 1e-6
    assert stats.chisquare(cells.counts(cells.sample(cells.masses, rng, 20_000)), 20_000 * weights).pvalue < 1e-6


def test_queries_of_real_values() -> None:
    cells = MatrixCells(matrix=np.array([[0.0, 0.5, 3.0], [1.0, 1.0, 0.1]]), masses=[0.5, 0.25, 0.25])
    assert (cells.width, cells.low, cells.whole, cells.gamma) == (3.0, 0.0, False, 0.0)
    assert cells.matrix[1, 2] == round(0.1 * 2**20) / 2**20
    assert cells.answers(cells.counts([0, 1, 1, 2]))[0] == 4.0
    assert (cells.nearest([[0.1, 0.4, 2.9], [1.0, 1.0, 1.0]]) == [0, 1]).all()
    np.testing.assert_allclose(cells.empirical([[2.0, 0.0, 1.0]], [0, 2, 2, 2]), [5.0 / 4.0])


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: MatrixCells(matrix=[[1.0, 1.0]]),
        lambda: MatrixCells(matrix=[[1.0, math.nan]]),
        lambda: MatrixCells(matrix=[[1.0, 0.0]], masses=[0.5, 0.6]),
        lambda: MatrixCells(matrix=[[1.0, 0.0]]).counts([0, 2]),
        lambda: MatrixCells(matrix=[[1.0, 0.0]]).counts([0.5]),
        lambda: MatrixCells(matrix=[[1.0, 0.0]]).inside(1),
        lambda: MatrixCells(matrix=[[1.0, 0.0]]).answer([[1.0, 0.0]], [0.5, 0.6]),
        lambda: MatrixCells.of(Thresholds().cover(0.1, UniformCube(1))),
        lambda: MatrixCells.of(Thresholds().cover(0.1, ListedMeasure([0.0, 1.0]))).counts([0.5]),
        lambda: BoxCells.of(Rectangles(2).cover(0.5, ListedMeasure([[0.0, 0.0], [1.0, 1.0]]))),
        lambda: BoxCells.of(Thresholds().cover(0.1, UniformCube(1)), signed=1),  # type: ignore[arg-type]
        lambda: BoxCells.of("thresholds"),  # type: ignore[arg-type]
        lambda: BoxCells.of(Thresholds().cover(0.1, UniformCube(1))).counts([math.inf]),
    ],
)
def test_what_makes_no_sense_is_refused(attempt) -> None:
    with pytest.raises(InvalidArgumentError):
        attempt()
