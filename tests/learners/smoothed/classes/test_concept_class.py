"""Tests of every class of predicates: covers, brackets, labelings, witnesses and gaps, against plain enumeration."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes import concept_class
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.concept_class import ConceptClass, Cover, log_size_bound
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure, ProductMeasure, UniformGrid

CLASSES: list[ConceptClass] = [Thresholds(), Intervals(), Rectangles(1), Rectangles(2)]
SIDE = 4  # points lie on {0 .. SIDE - 1}^d


def everything(concepts: ConceptClass) -> np.ndarray[Any, Any]:
    """Parameters of all predicates that differ on {0 .. SIDE - 1}^d, sides on points, between them and outside."""
    ends = [-np.inf, *np.arange(-0.5, SIDE, 0.5 if concepts.dimension == 1 else 1.0), np.inf]
    return np.array(list(product(ends, repeat=concepts.parameter_count)))


def plain(concepts: ConceptClass, parameters: np.ndarray[Any, Any], points: np.ndarray[Any, Any]) -> Any:
    """The definition of the predicates."""
    low, high = (parameters, [[np.inf]]) if isinstance(concepts, Thresholds) else np.split(parameters, 2, axis=1)
    return ((points >= np.array(low)[:, None]) & (points <= np.array(high)[:, None])).all(axis=-1)


@st.composite
def weighted_points(draw: st.DrawFn, dimension: int) -> tuple[Any, Any]:
    """Up to six points, repetitions among them, with whole weights."""
    size = draw(st.integers(1, 6))
    points = draw(st.lists(st.integers(0, SIDE - 1), min_size=size * dimension, max_size=size * dimension))
    weights = draw(st.lists(st.integers(0, 5), min_size=2 * size, max_size=2 * size))
    return np.reshape(points, (size, dimension)).astype(float), np.reshape(weights, (2, size)).astype(float)


def rows_of(labels: Any) -> set[tuple[bool, ...]]:
    return {tuple(row) for row in labels.tolist()}


@pytest.mark.parametrize("concepts", CLASSES, ids=repr)
@settings(max_examples=15)
@given(data=st.data())
def test_labelings_witnesses_and_gaps_are_those_of_all_predicates(concepts: ConceptClass, data: st.DataObject) -> None:
    points, (first, second) = data.draw(weighted_points(concepts.dimension))
    truth = plain(concepts, everything(concepts), points)
    assert np.array_equal(concepts.predict(everything(concepts), points), truth)
    labels, witnesses = concepts.labelings(points)
    assert rows_of(labels) == rows_of(truth) and len(rows_of(labels)) == len(labels)
    assert np.array_equal(plain(concepts, witnesses, points), labels)
    for marks in np.array(list(product([False, True], repeat=len(points)))):
        found = concepts.consistent(points, marks)
        assert (found is not None) == (tuple(marks) in rows_of(truth))
        assert found is None or np.array_equal(plain(concepts, found[None], points)[0], marks)
    gap = np.abs(truth @ (first - second)).max()
    assert concepts.max_gap(points, first, second) == gap == concepts.max_gap(points, second, first)


@st.composite
def grid_measures(draw: st.DrawFn, dimension: int) -> BaseMeasure:
    """A measure on {0 .. SIDE - 1}^d: any joint law or a product."""
    cells = SIDE**dimension
    masses = np.array(draw(st.lists(st.integers(0, 6), min_size=cells, max_size=cells)), dtype=float)
    masses[draw(st.integers(0, cells - 1))] += 1.0
    joint = ListedMeasure(np.array(list(product(range(SIDE), repeat=dimension))), masses / masses.sum())
    axes = [joint.marginal(axis) for axis in range(dimension)]
    return ProductMeasure(axes) if draw(st.booleans()) else joint


def listed(measure: BaseMeasure) -> tuple[Any, Any]:
    """All points of {0 .. SIDE - 1}^d and their masses."""
    points = np.array(list(product(range(SIDE), repeat=measure.dimension)), dtype=float)
    return points, measure.box_mass(points, points)


def formula(concepts: ConceptClass, epsilon: float) -> int:
    """The printed bound on the number of brackets."""
    if isinstance(concepts, Thresholds):
        return math.ceil(1 / epsilon)
    cells = math.ceil(2 * concepts.dimension / epsilon)
    return int((cells * (cells + 1) // 2 + 1) ** concepts.dimension)


@pytest.mark.parametrize("concepts", CLASSES, ids=repr)
@settings(max_examples=15)
@given(data=st.data())
def test_covers_cover_and_brackets_bracket_under_any_measure(concepts: ConceptClass, data: st.DataObject) -> None:
    measure = data.draw(grid_measures(concepts.dimension))
    scale = data.draw(st.sampled_from([1.0, 0.7, 0.5, 0.3, 0.15] + [0.05, 0.011] * (concepts.dimension == 1)))
    points, masses = listed(measure)
    rows = everything(concepts)
    truth = plain(concepts, rows, points)
    cover = concepts.cover(scale, measure)
    assert cover.size == len(cover.parameters) and cover.log_size == math.log(cover.size)
    distance = (truth ^ cover.predict(points)[cover.nearest(rows)]) @ masses
    assert distance.max() <= scale + 1e-12
    if concepts.dimension == 1:  # on the line it is a nearest one
        least = np.min([(truth ^ mine) @ masses for mine in cover.predict(points)], axis=0)
        assert np.allclose(distance, least, rtol=0.0, atol=1e-12)
    brackets = concepts.brackets(scale, measure)
    index = brackets.index(rows)
    lower, upper = brackets.lower.contains(points), brackets.upper.contains(points)
    assert (lower[index] <= truth).all() and (truth <= upper[index]).all()
    assert ((lower ^ upper) @ masses).max() <= brackets.width + 1e-12 <= scale + 2e-12
    assert len(lower) == brackets.count <= formula(concepts, scale)
    within = concepts.predict(brackets.members(), points)
    assert (lower <= within).all() and (within <= upper).all()
    some = np.arange(brackets.count)[::-2]
    assert np.array_equal(brackets.upper.contains(points, some), upper[some])


@pytest.mark.parametrize("concepts", CLASSES, ids=repr)
def test_as_many_points_as_the_vc_dimension_are_shattered(concepts: ConceptClass) -> None:
    """The ends of the axes are shattered; with the centre, which lies between any of them, they are not."""
    d, n = concepts.dimension, concepts.vc_dimension
    spots = np.array([sign * np.eye(d)[axis] for axis in range(d) for sign in (-1.0, 1.0)])[:n]
    assert len(concepts.labelings(spots)[0]) == 2**n
    more = np.vstack([spots, np.zeros(d)])
    assert len(concepts.labelings(more)[0]) < 2 ** (n + 1)


def test_a_cover_without_a_closed_form_compares_on_its_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain cover finds as near a predicate as the closed form, the first one of a tie, over chunks too."""
    monkeypatch.setattr(concept_class, "_MOST_CELLS", 350)
    grid, concepts = UniformGrid(50), Intervals()
    closed = concepts.cover(0.11, grid)
    points = grid.position(0, np.arange(50))[:, None]
    twice = np.tile(closed.parameters, (2, 1))
    general = Cover(concepts=concepts, parameters=twice, measure=grid, gamma=0.11, reference=points)
    rows = np.random.default_rng(0).uniform(-0.1, 1.1, (200, 2))
    gaps = (concepts.predict(rows, points)[:, None] ^ closed.predict(points)[None]).sum(axis=-1)
    assert np.array_equal(general.nearest(rows), gaps.argmin(axis=1))
    assert np.array_equal(gaps[np.arange(200), closed.nearest(rows)], gaps.min(axis=1))
    with pytest.raises(InvalidArgumentError, match="reference"):
        Cover(concepts=concepts, parameters=closed.parameters, measure=grid, gamma=0.11).nearest(rows)


def test_the_size_of_separated_sets_is_bounded_as_computed_by_hand() -> None:
    """d = 3, epsilon = 1e-3: 1 + ln 4 + 3 ln(2000 e) = 28.19 and 3 ln 41000 = 31.86; d = 1: 10.29 and 10.62."""
    assert log_size_bound(3, 1e-3) == pytest.approx(28.19, abs=5e-3)
    assert log_size_bound(1, 1e-3) == pytest.approx(10.29, abs=5e-3)
    # Thresholds under the uniform law, where any two may be just gamma apart: 1 + 1/gamma of them.
    for gamma in (0.3, 0.01, 1e-3):
        assert math.log(1 + 1 / gamma) <= log_size_bound(1, gamma)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Thresholds().cover(0.0, UniformGrid(4)),
        lambda: Intervals().cover(1.5, UniformGrid(4)),
        lambda: Thresholds().brackets(np.nan, UniformGrid(4)),
        lambda: Intervals().brackets(True, UniformGrid(4)),
        lambda: Thresholds().cover(0.1, UniformGrid((4, 4))),
        lambda: Thresholds().cover(1e-9, UniformGrid(2**40)),
        lambda: Intervals().cover(1e-5, UniformGrid(2**40)),
        lambda: Rectangles(2).cover(1e-3, UniformGrid((2**40, 2**40))),
        lambda: Rectangles(0),
        lambda: Rectangles(2).predict([[0.0, 0.0, 1.0]], [[0.0, 0.0]]),
        lambda: Thresholds().predict([[np.nan]], [0.0]),
        lambda: Thresholds().predict([[0.0]], [np.inf]),
        lambda: Intervals().consistent([0.0, 1.0], [0, 1]),
        lambda: Intervals().consistent([0.0, 1.0], [True]),
        lambda: Thresholds().max_gap([0.0], [0.5, 0.5], [1.0]),
        lambda: Rectangles(3).max_gap(np.random.default_rng(0).uniform(size=(500, 3)), np.ones(500), np.ones(500)),
        lambda: Rectangles(2).labelings(np.random.default_rng(0).uniform(size=(200, 2))),
        lambda: Thresholds().brackets(0.1, UniformGrid(4)).lower.contains([0.0], [99]),
        lambda: Rectangles(3).brackets(0.01, UniformGrid((2**30,) * 3)).members(),
        lambda: log_size_bound(0, 0.1),
    ],
)
def test_bad_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        wrong()
