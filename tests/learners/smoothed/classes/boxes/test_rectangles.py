"""Tests of rectangles: the largest gap by strips against enumeration, covers and brackets beyond enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, ProductMeasure, UniformCube, UniformGrid


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 10**6))
def test_the_largest_gap_is_that_of_some_labeling(dimension: int, size: int, seed: int) -> None:
    """Against all labelings, in one to four dimensions, with ties; on the line it is that of intervals."""
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 4, (size, dimension)) / 2
    first, second = rng.integers(0, 9, (2, size)) / 8
    concepts = Rectangles(dimension)
    labels, witnesses = concepts.labelings(points)
    assert concepts.max_gap(points, first, second) == np.abs(labels @ (first - second)).max()
    assert np.array_equal(concepts.predict(witnesses, points), labels)
    if dimension == 1:
        assert concepts.max_gap(points, first, second) == Intervals().max_gap(points, first, second)


def test_the_largest_gap_in_the_plane_at_size() -> None:
    """300 distinct points: above the gap of 2000 random boxes, and that of a planted box, whose excess it finds."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(300, 2))
    planted = ((points >= 0.2) & (points <= 0.6)).all(axis=1)
    first, second = np.full(300, 1.0), np.where(planted, 0.0, 1.25)
    concepts = Rectangles(2)
    boxes = np.sort(rng.uniform(size=(2000, 2, 2)), axis=1).reshape(2000, 4)
    gap = concepts.max_gap(points, first, second)
    assert gap >= np.abs(concepts.predict(boxes, points) @ (first - second)).max()
    assert gap >= planted.sum() and gap >= abs((first - second).sum())
    assert gap <= max(planted.sum(), (second - first)[~planted].sum())


@pytest.mark.parametrize(
    "measure", [UniformCube(2), UniformGrid((2**24, 50)), ProductMeasure([UniformCube(1, -1.0, 1.0), UniformGrid(7)])]
)
@pytest.mark.parametrize("scale", [0.9, 0.25, 0.1])
def test_covers_and_brackets_in_the_plane(measure: UniformCube, scale: float) -> None:
    """Differences by exact box masses; boxes with sides at quantiles, thin and empty ones among them."""
    rng = np.random.default_rng(1)
    corners = np.stack([measure.quantile(axis, rng.uniform(size=(400, 2))) for axis in (0, 1)], axis=-1)
    corners[:100, 1] = corners[:100, 0] + 1e-6
    rows = np.concatenate([np.sort(corners[:350], axis=1), corners[350:]]).reshape(-1, 4)
    concepts = Rectangles(2)

    def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        low, high = np.maximum(one[:, :2], other[:, :2]), np.minimum(one[:, 2:], other[:, 2:])
        both = measure.box_mass(low, high)
        return measure.box_mass(one[:, :2], one[:, 2:]) + measure.box_mass(other[:, :2], other[:, 2:]) - 2 * both

    cover = concepts.cover(scale, measure)
    assert difference(rows, cover.parameters[cover.nearest(rows)]).max() <= scale + 1e-9
    brackets = concepts.brackets(scale, measure)
    index = brackets.index(rows)
    lower, upper = (brackets.ends(index, upper=upper) for upper in (False, True))
    assert difference(lower, upper).max() <= brackets.width + 1e-9 <= scale + 2e-9
    points = np.concatenate([corners.reshape(-1, 2), measure.sample(rng, 200)])
    truth = concepts.predict(rows, points)
    assert (concepts.predict(lower, points) <= truth).all() and (truth <= concepts.predict(upper, points)).all()


def test_a_joint_law_keeps_the_guarantee_of_its_marginals() -> None:
    """All mass on a diagonal, the law furthest from a product: every box of a grid is within gamma."""
    diagonal = np.repeat(np.arange(30.0)[:, None], 2, axis=1)
    measure, concepts = ListedMeasure(diagonal), Rectangles(2)
    cover = concepts.cover(0.2, measure)
    rows = np.array(list(product(np.arange(0, 30, 5), repeat=4)), dtype=float)
    gap = (concepts.predict(rows, diagonal) ^ cover.predict(diagonal)[cover.nearest(rows)]).mean(axis=1)
    assert gap.max() <= 0.2 + 1e-12
