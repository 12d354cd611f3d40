"""Tests of halfspaces: the sweep against enumeration, covers and brackets on cubes and on finite measures, separation.

Whole numbers as coordinates make ties and collinear points, and are exact.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.brackets import k_fold
from hockeystick.learners.smoothed.classes.halfspaces.cube_brackets import CubeBrackets
from hockeystick.learners.smoothed.classes.halfspaces.cuttings import CuttingBrackets
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.halfspaces.rotating_line import halfplane_extremes
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, UniformCube, UniformGrid

_spots = st.integers(1, 7).flatmap(lambda n: hnp.arrays(np.int64, (n, 2), elements=st.integers(0, 3)))


def separable(points, labels):
    signs = np.where(labels, -1.0, 1.0)[:, None] * np.column_stack([points, -np.ones(len(points))])
    return optimize.linprog(np.zeros(signs.shape[1]), signs, -np.ones(len(signs)), bounds=(None, None)).status == 0


def all_labels(points):
    """By one linear program for each labelling and its complement: both are made by halfspaces, or neither is."""
    half = [(False, *rest) for rest in itertools.product([False, True], repeat=len(points) - 1)]
    some = {labels for labels in half if separable(points, np.array(labels))}
    return some | {tuple(not label for label in labels) for labels in some}


@pytest.mark.statistical
@settings(max_examples=6, deadline=None)
@given(_spots, st.integers(0, 2**32 - 1))
@example(np.array([[2, 2], [0, 0], [1, 1], [0, 2], [2, 0], [1, 0], [0, 0]]), 0)
@example(np.array([[0, 3], [0, 0], [3, 1], [3, 2], [3, 0], [0, 1], [0, 2]]), 1)
def test_the_sweep_meets_all_labelings_and_no_other(points, seed):
    """Against one linear program for each of the 2^n labelings; ties, collinear and repeated points among them."""
    concepts = Halfspaces(2)
    labels, witnesses = concepts.labelings(points)
    expected = all_labels(points)
    assert len(labels) == len(expected)
    assert {tuple(row) for row in labels.tolist()} == expected
    np.testing.assert_array_equal(concepts.predict(witnesses, points), labels)
    weights = np.random.default_rng(seed).integers(-5, 6, len(points))
    sums = labels @ weights
    assert halfplane_extremes(points, weights) == (sums.min(), sums.max())
    first = np.maximum(weights, 0)
    assert concepts.max_gap(points, first, first - weights) == np.abs(sums).max()


def test_labels_of_points_in_general_position_are_counted_by_cover():
    """Cover 1965: n points in general position of R^d have 2 * sum over i <= d of C(n - 1, i) labelings."""
    rng = np.random.default_rng(1)
    for d, n in ((1, 9), (2, 40), (3, 6)):
        points = rng.standard_normal((n, d))
        labels, witnesses = Halfspaces(d).labelings(points)
        assert len(np.unique(labels, axis=0)) == len(labels) == 2 * sum(math.comb(n - 1, i) for i in range(d + 1))
        np.testing.assert_array_equal(Halfspaces(d).predict(witnesses, points), labels)


def test_the_sweep_is_not_misled_by_points_on_a_line_but_for_rounding():
    """Thirds lie on no common line as floats; the sweep says what is true of the floats, on any scale."""
    third = np.array([[j / 3.0, (j + i) / 3.0] for i in range(2) for j in range(7)])
    weights = np.arange(14) % 3 - 1.0
    assert halfplane_extremes(third, weights) == halfplane_extremes(third * 2.0**40, weights)
    line = np.arange(9)[:, None] * np.array([[1.0, 3.0]])
    signs = np.where(np.arange(9) % 2, -1.0, 1.0)
    assert halfplane_extremes(line, signs) == (-1.0 + 1.0, 1.0)  # prefixes and suffixes of an alternating line


@pytest.mark.parametrize("d", [1, 2, 3])
def test_largest_gaps_agree_with_all_labelings(d):
    rng = np.random.default_rng(d)
    points, concepts = rng.integers(0, 3, (6, d)), Halfspaces(d)
    first, second = rng.random(6), rng.random(6)
    labels, _ = concepts.labelings(points)
    expected = np.abs(labels @ (first - second)).max()
    assert concepts.max_gap(points, first, second) == pytest.approx(expected, rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_separation_finds_what_there_is(d, seed):
    rng, concepts = np.random.default_rng(seed), Halfspaces(d)
    points = rng.integers(0, 4, (8, d))
    labels = concepts.predict(rng.integers(-3, 4, (1, d + 1)), points)[0]
    found = concepts.consistent(points, labels)
    assert found is not None
    np.testing.assert_array_equal(concepts.predict(found[None], points)[0], labels)
    twice, torn = np.concatenate([points, points[:1]]), np.append(labels, ~labels[0])
    assert concepts.consistent(twice, torn) is None


def test_a_square_has_no_halfplane_for_its_diagonals():
    square = [[0, 0], [1, 1], [0, 1], [1, 0]]
    assert Halfspaces(2).consistent(square, np.array([True, True, False, False])) is None


# --- the uniform law on a cube ---------------------------------------------------------------------------------------


def some_halfspaces(measure, rng, count):
    """Halfspaces through the cube and beside it, of all lengths, along the axes too, and the constant ones."""
    d = measure.dimension
    normals = rng.standard_normal((count, d))
    normals[:20] = np.eye(d)[rng.integers(0, d, 20)] * rng.choice([-1.0, 1.0], 20)[:, None]
    normals *= 10.0 ** rng.uniform(-3, 3, (count, 1))
    offsets = (normals * measure.sample(rng, count)).sum(axis=1) * rng.choice([1.0, 1.0, 1.3], count)
    rows = np.column_stack([normals, offsets])
    rows[-4:] = [[0.0] * d + [1.0], [0.0] * d + [-1.0], [1.0] * d + [np.inf], [1.0] * d + [-np.inf]]
    return rows


@pytest.mark.parametrize(
    ("d", "epsilon", "low", "high"), [(1, 0.1, 0, 1), (2, 0.1, 0, 1), (2, 1.0, -2, 5), (3, 0.1, 0, 1), (3, 1.0, -1, 1)]
)
def test_brackets_of_a_cube(d, epsilon, low, high):
    """Sandwiched exactly on a sample; masses and numbers as stated.

    False alarm: shares of 4,000 points exceed their mass by 6.5 standard errors with probability < 1e-9 each (binomial
    tail), for 400 of them < 1e-6.
    """
    rng = np.random.default_rng(20 + d)
    measure, concepts = UniformCube(d, low, high), Halfspaces(d)
    brackets = concepts.brackets(epsilon, measure)
    assert isinstance(brackets, CubeBrackets)
    assert brackets.width <= epsilon
    root = math.sqrt(2.0 * d)  # the count by the closed form: directions times offsets
    directions, offsets = math.ceil(2.0 * root / epsilon), d * math.log1p(4.0 * root / epsilon)
    assert d == 1 or brackets.log_count <= math.log(directions) + offsets
    rows, points = some_halfspaces(measure, rng, 200), measure.sample(rng, 4000)
    held, at = concepts.predict(rows, points), brackets.index(rows)
    lower, upper = brackets.lower.contains(points, at), brackets.upper.contains(points, at)
    assert not (lower & ~held).any()
    assert not (held & ~upper).any()
    slack = 6.5 * math.sqrt(epsilon * (1.0 - epsilon) / 4000)
    assert (upper & ~lower).mean(axis=1).max() <= epsilon + slack
    cover = concepts.cover(epsilon, measure)
    nearest = concepts.predict(cover.parameters[cover.nearest(rows)], points)
    assert (nearest != held).mean(axis=1).max() <= epsilon + slack
    some = np.arange(0, cover.size, 997)
    np.testing.assert_array_equal(cover.nearest(cover.parameters[some]), some)


@pytest.mark.parametrize(("d", "faces", "epsilon"), [(2, 2, 0.2), (2, 4, 0.8), (3, 2, 0.9), (1, 2, 0.1)])
def test_brackets_of_polytopes_of_a_cube(d, faces, epsilon):
    """F13: sandwiched exactly; their number is that of halfspaces at epsilon/k, to the power k (Theorem 3.7).

    False alarm: a share of 3,000 exceeds epsilon by 6.5 standard errors with probability < 1e-9, 100 of them < 1e-6.
    """
    rng, measure, sides = np.random.default_rng(d), UniformCube(d), Halfspaces(d)
    single = sides.brackets(epsilon / faces, measure)
    brackets = k_fold(single, faces, rule="intersection")
    assert brackets.count == single.count**faces
    assert brackets.width <= epsilon * (1.0 + 1e-12)
    rows = np.column_stack([some_halfspaces(measure, rng, 100) for _ in range(faces)])
    points = measure.sample(rng, 3000)
    held = np.logical_and.reduce([sides.predict(face, points) for face in np.split(rows, faces, axis=1)])
    at = brackets.index(rows)
    lower, upper = brackets.lower.contains(points, at), brackets.upper.contains(points, at)
    assert not (lower & ~held).any()
    assert not (held & ~upper).any()
    assert (upper & ~lower).mean(axis=1).max() <= epsilon + 6.5 * math.sqrt(epsilon * (1.0 - epsilon) / 3000)


def test_a_slab_of_half_the_width_does_not_bracket():
    """A planted violation: the sandwich test must see brackets that are too thin."""
    rng, measure, concepts = np.random.default_rng(5), UniformCube(2), Halfspaces(2)
    thin, wide = CubeBrackets(concepts, 0.05, measure), CubeBrackets(concepts, 0.1, measure)
    rows, points = some_halfspaces(measure, rng, 200), measure.sample(rng, 4000)
    units, offsets = wide.middles(wide.index(rows))
    lower = units @ wide.on_unit_cube(points).T >= offsets[:, None] + thin.half_width
    assert (lower & ~concepts.predict(rows, points)).any()


# --- finite measures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["whole", "floats", "line", "weighted"])
def test_brackets_of_a_finite_measure(kind):
    """Sandwiched exactly on the support, also where edges meet points; masses summed exactly."""
    rng, epsilon = np.random.default_rng(7), 0.12
    d = 1 if kind == "line" else 2
    points = rng.standard_normal((120, d)) if kind == "floats" else rng.integers(0, 9, (120, d)).astype(float)
    masses = rng.dirichlet(np.full(120, 0.3)) if kind == "weighted" else None
    measure, concepts = ListedMeasure(points, masses), Halfspaces(d)
    brackets = concepts.brackets(epsilon, measure)
    assert isinstance(brackets, CuttingBrackets)
    normals = np.concatenate([rng.integers(-3, 4, (300, d)), rng.standard_normal((300, d))]).astype(float)
    offsets = np.concatenate([rng.integers(-9, 20, 300), rng.standard_normal(300) * 5.0])
    rows = np.column_stack([normals, offsets])
    rows[-1, -1], rows[-2, -1] = np.inf, -np.inf
    held, at = concepts.predict(rows, points), brackets.index(rows)
    lower, upper = brackets.lower.contains(points, at), brackets.upper.contains(points, at)
    assert not (lower & ~held).any()
    assert not (held & ~upper).any()
    assert ((upper & ~lower) @ measure.masses).max() <= brackets.width + 1e-12 <= epsilon + 2e-12
    cover = concepts.cover(epsilon, measure)
    nearest = concepts.predict(cover.parameters[cover.nearest(rows)], points)
    assert ((nearest != held) @ measure.masses).max() <= epsilon + 1e-12
    with pytest.raises(InvalidArgumentError, match="is not a point of the measure"):
        brackets.lower.contains(points[:1] + 0.5)


def test_brackets_finer_than_all_masses_are_the_labelings():
    """Exactness: a grid has many points on a line, and every cone of an arrangement that rounding made would show."""
    points = np.array([[3.0 * x, 7.0 * y + x] for x in range(5) for y in range(4)])
    brackets, (labels, _) = Halfspaces(2).brackets(0.01, ListedMeasure(points)), Halfspaces(2).labelings(points)
    assert brackets.width == 0.0
    assert {tuple(row) for row in brackets.lower.contains(points).tolist()} == {tuple(row) for row in labels.tolist()}


@pytest.mark.statistical
def test_the_number_of_brackets_grows_with_accuracy_and_not_with_the_support():
    """Measured 9 to 12 over epsilon^2; the exponent is the number of parameters."""
    rng, concepts = np.random.default_rng(9), Halfspaces(2)
    counts = [concepts.brackets(0.2, ListedMeasure(rng.standard_normal((n, 2)))).count for n in (80, 400)]
    finer = concepts.brackets(0.1, ListedMeasure(rng.standard_normal((200, 2)))).count
    assert max(counts) < 20 / 0.2**2
    assert counts[1] < 1.5 * counts[0]
    assert 1.5 < math.log2(finer / counts[1]) < 2.5


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: Halfspaces(0), "dimension"),
        (lambda: Halfspaces(True), "dimension"),
        (lambda: Halfspaces(2).predict([[np.inf, 0.0, 1.0]], [[0.0, 0.0]]), "parameters"),
        (lambda: Halfspaces(2).predict([[0.0, 1.0]], [[0.0, 0.0]]), "parameters"),
        (lambda: Halfspaces(2).predict([[0.0, 1.0, np.nan]], [[0.0, 0.0]]), "parameters"),
        (lambda: Halfspaces(2).max_gap([[0.0, np.nan]], [1.0], [1.0]), "points"),
        (lambda: Halfspaces(2).max_gap([[0.0, 1.0]], [np.inf], [1.0]), "first"),
        (lambda: Halfspaces(3).max_gap(np.arange(60.0).reshape(20, 3), np.arange(1, 21), np.zeros(20)), "points"),
        (lambda: Halfspaces(2).labelings(np.random.default_rng(0).random((301, 2))), "points"),
        (lambda: Halfspaces(4).cover(0.5, UniformCube(4)), "measure"),
        (lambda: Halfspaces(2).brackets(0.5, UniformGrid((4, 4))), "measure"),
        (lambda: Halfspaces(2).brackets(0.5, UniformCube(3)), "measure"),
        (lambda: Halfspaces(2).brackets(0.0, UniformCube(2)), "epsilon"),
        (lambda: Halfspaces(3).cover(0.001, UniformCube(3)), "epsilon|gamma"),
        (lambda: halfplane_extremes([[1e200, 0.0]], [1.0]), "points"),
    ],
)
def test_bad_input_is_refused(call, argument):
    with pytest.raises(InvalidArgumentError, match=argument):
        call()
