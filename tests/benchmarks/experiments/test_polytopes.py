"""Polytopes: brackets and covers as k-fold intersections, labelings and separation against enumeration."""

import itertools
import math

import numpy as np
import pytest
from benchmark_scripts import experiment_script
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, UniformCube

Polytopes = experiment_script("smoothed.polytopes").Polytopes


def some_polytopes(rng, count, d, faces, measure):
    normals = rng.standard_normal((count * faces, d))
    offsets = (normals * measure.sample(rng, count * faces)).sum(axis=1)
    return np.column_stack([normals, offsets]).reshape(count, faces * (d + 1))


@pytest.mark.parametrize(("d", "faces", "epsilon"), [(2, 2, 0.2), (2, 4, 0.8), (3, 2, 0.9), (1, 2, 0.1)])
def test_brackets_of_a_cube(d, faces, epsilon):
    """Sandwiched exactly; the number is that of halfspaces at epsilon/k, to the power k.

    False alarm: a share of 3,000 exceeds epsilon by 6.5 standard errors with probability < 1e-9, 100 of them < 1e-6.
    """
    rng, concepts, measure = np.random.default_rng(d), Polytopes(d, faces), UniformCube(d)
    brackets = concepts.brackets(epsilon, measure)
    assert brackets.count == Halfspaces(d).brackets(epsilon / faces, measure).count ** faces
    assert brackets.width <= epsilon * (1.0 + 1e-12)
    rows, points = some_polytopes(rng, 100, d, faces, measure), measure.sample(rng, 3000)
    held, at = concepts.predict(rows, points), brackets.index(rows)
    lower, upper = brackets.lower.contains(points, at), brackets.upper.contains(points, at)
    assert not (lower & ~held).any()
    assert not (held & ~upper).any()
    assert (upper & ~lower).mean(axis=1).max() <= epsilon + 6.5 * math.sqrt(epsilon * (1.0 - epsilon) / 3000)


def test_a_cover_of_wedges_on_a_finite_measure():
    """Masses are exact there. Faces may stand in any order."""
    rng, gamma = np.random.default_rng(3), 0.6
    concepts, measure = Polytopes(2, 2), ListedMeasure(rng.integers(0, 9, (60, 2)).astype(float))
    cover = concepts.cover(gamma, measure)
    rows = some_polytopes(rng, 200, 2, 2, measure)
    nearest = cover.nearest(rows)
    apart = concepts.predict(rows, measure.points) != concepts.predict(cover.parameters[nearest], measure.points)
    assert (apart @ measure.masses).max() <= gamma
    np.testing.assert_array_equal(cover.nearest(rows[:, [3, 4, 5, 0, 1, 2]]), nearest)
    one = concepts.predict(cover.parameters[:1], measure.points)  # a planted violation: one polytope covers nothing
    assert ((concepts.predict(rows, measure.points) != one) @ measure.masses).max() > gamma


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_labelings_and_separation_of_few_points(faces, seed):
    """The lists of both, made in different ways, are the same; the gap is the largest on the list."""
    rng, concepts = np.random.default_rng(seed), Polytopes(2, faces)
    points = rng.integers(0, 3, (5, 2))
    labels, witnesses = concepts.labelings(points)
    np.testing.assert_array_equal(concepts.predict(witnesses, points), labels)
    expected = {tuple(row) for row in labels.tolist()}
    assert len(expected) == len(labels)
    for wanted in itertools.product([False, True], repeat=5):
        found = concepts.consistent(points, np.array(wanted))
        assert (found is not None) == (wanted in expected)
        if found is not None:
            np.testing.assert_array_equal(concepts.predict(found[None], points)[0], wanted)
    difference = rng.integers(-5, 6, 5)
    assert concepts.max_gap(points, difference, np.zeros(5)) == np.abs(labels @ difference).max()


@pytest.mark.parametrize("faces", [1, 2, 3])
def test_corners_of_a_regular_polygon_are_shattered_up_to_the_vc_dimension(faces):
    """2k + 1 corners are, and 2k + 2 are not."""
    concepts = Polytopes(2, faces)
    for n in (2 * faces + 1, 2 * faces + 2):
        angles = 2.0 * np.pi * np.arange(n) / n
        labels, _ = concepts.labelings(np.round(np.column_stack([np.cos(angles), np.sin(angles)]) * 1000))
        assert (len(labels) == 2**n) == (n <= concepts.vc_dimension)


def test_polytopes_on_the_line_are_intervals():
    rng = np.random.default_rng(6)
    points, first, second = rng.random(40), rng.random(40), rng.random(40)
    assert Polytopes(1, 3).max_gap(points, first, second) == Intervals().max_gap(points, first, second)
    assert {tuple(row) for row in Polytopes(1, 2).labelings(points[:8])[0]} == {
        tuple(row) for row in Intervals().labelings(points[:8])[0]
    }


def test_vc_dimensions():
    """One face is a halfspace; the bound for more is at least the dimension of a product of independent faces."""
    assert [
        Polytopes(3, 1).vc_dimension,
        Polytopes(1, 5).vc_dimension,
        Polytopes(2, 5).vc_dimension,
    ] == [4, 2, 11]
    for d, faces in itertools.product((3, 5), (2, 4, 8)):
        most = Polytopes(d, faces).vc_dimension
        assert d * faces < most < 2 * (d + 1) * faces * math.log2(3 * faces)  # Blumer et al. 1989, Lemma 3.2.3


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Polytopes(2, 0), "faces"),
        (lambda: Polytopes(0, 2), "dimension"),
        (lambda: Polytopes(2, 2).predict([[1.0, 0.0, 0.0]], [[0.0, 0.0]]), "parameters"),
        (lambda: Polytopes(2, 2).predict([[1.0, np.inf, 0.0, 1.0, 0.0, 0.0]], [[0.0, 0.0]]), "parameters"),
        (lambda: Polytopes(2, 3).cover(0.1, UniformCube(2)), "gamma"),
        (
            lambda: Polytopes(2, 2).max_gap(np.random.default_rng(0).random((15, 2)), np.ones(15), np.zeros(15)),
            "points",
        ),
        (lambda: Polytopes(2, 2).brackets(2.0, UniformCube(2)), "epsilon"),
        (lambda: Polytopes(2, 2).consistent([[0.0, 0.0]], [1]), "labels"),
    ],
)
def test_bad_input_is_refused(call, argument):
    with pytest.raises(InvalidArgumentError, match=argument):
        call()
