"""Tests of polynomial thresholds: the embedding, brackets on the line and pulled back, separation, gaps against
enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.common.multisets import multiset_count, multiset_of_rank, multiset_rank
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.polynomials.brackets import LineBrackets, line_polynomials, line_roots
from hockeystick.learners.smoothed.classes.polynomials.polynomials import (
    PolynomialThresholds,
    monomial_exponents,
    monomials,
)
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, UniformCube, UniformGrid


@pytest.mark.parametrize(("n", "degree"), list(itertools.product(range(1, 5), repeat=2)))
def test_the_embedding_has_as_many_monomials_as_there_are(n, degree):
    """C(n+D, D) with the constant; the printed C(n+D+1, D+1) is larger, and so is the number of ordered tuples."""
    exponents = monomial_exponents(n, degree)
    assert len(exponents) + 1 == math.comb(n + degree, degree) == PolynomialThresholds(n, degree).vc_dimension
    assert len({tuple(row) for row in exponents}) == len(exponents)
    assert set(exponents.sum(axis=1)) == set(range(1, degree + 1))
    np.testing.assert_array_equal(exponents[:n], np.eye(n))
    assert len(exponents) + 1 < math.comb(n + degree + 1, degree + 1)


def test_monomials_of_two_variables():
    np.testing.assert_array_equal(monomials([[2.0, 3.0]], 2, 2), [[2.0, 3.0, 4.0, 6.0, 9.0]])
    held = PolynomialThresholds(2, 2).predict([[0.0, 0.0, -1.0, 0.0, -1.0, -1.0]], [[0.6, 0.6], [0.9, 0.9]])  # a disc
    np.testing.assert_array_equal(held, [[True, False]])


def some_polynomials(rng, count, degree, measure):
    """Polynomials with all numbers of real roots, double ones and none, inside the measure's support and out of it."""
    roots = measure.sample(rng, count * degree).reshape(count, degree)
    roots[rng.random((count, degree)) < 0.2] = np.inf
    far = rng.random((count, degree)) < 0.1
    roots[far] = roots[far] * 3.0 - 1.0
    if degree > 1:
        roots[::5, 1] = roots[::5, 0]
    rows = line_polynomials(roots, rng.random(count) < 0.5)
    rows[::7, -1] += rng.standard_normal(len(rows[::7]))  # complex pairs
    rows[-2:, :-1], rows[-2:, -1] = 0.0, [1.0, -1.0]
    return rows


@pytest.mark.parametrize(("degree", "epsilon"), [(1, 0.05), (2, 0.1), (3, 0.3), (5, 1.0)])
@pytest.mark.parametrize("measure", [UniformCube(1), UniformCube(1, -1.5, 1.0)])
@pytest.mark.every(3)
def test_brackets_on_the_line(degree, epsilon, measure):
    """Sandwiched exactly on a fine sample; undecided on at most D cells of mass epsilon/D, so no sample decides."""
    rng, concepts = np.random.default_rng(degree), PolynomialThresholds(1, degree)
    brackets = concepts.brackets(epsilon, measure)
    assert isinstance(brackets, LineBrackets)
    cells = math.ceil(degree / Fraction(epsilon))
    assert brackets.count <= 2 * math.comb(cells + degree - 1, degree)
    rows, points = some_polynomials(rng, 300, degree, measure), measure.sample(rng, 3000)
    held, at = concepts.predict(rows, points), brackets.index(rows)
    lower, upper = brackets.lower.contains(points, at), brackets.upper.contains(points, at)
    assert not (lower & ~held).any()
    assert not (held & ~upper).any()
    reached = measure.cdf(0, brackets.cuts)
    chosen, _ = brackets.chosen(at)
    assert max(np.diff(reached)[np.unique(row)].sum() for row in chosen) <= epsilon + 1e-12


@pytest.mark.parametrize(("degree", "gamma"), [(1, 0.1), (2, 0.2), (3, 0.5)])
def test_covers_on_the_line(degree, gamma):
    """A fresh sample: false alarm < 1e-6, as a share of 3,000 exceeds gamma by 6.5 standard errors w.p. < 1e-9."""
    rng, concepts, measure = np.random.default_rng(50 + degree), PolynomialThresholds(1, degree), UniformCube(1)
    cover = concepts.cover(gamma, measure)
    rows, points = some_polynomials(rng, 200, degree, measure), measure.sample(rng, 3000)
    nearest = cover.parameters[cover.nearest(rows)]
    apart = concepts.predict(rows, points) != concepts.predict(nearest, points)
    assert apart.mean(axis=1).max() <= gamma + 6.5 * math.sqrt(gamma * (1.0 - gamma) / 3000)
    some = np.arange(0, cover.size, 7)
    np.testing.assert_array_equal(cover.nearest(cover.parameters[some]), some)
    first = concepts.predict(cover.parameters[:1], points)  # a planted violation: one polynomial covers nothing
    assert (concepts.predict(rows, points) != first).mean(axis=1).max() > gamma + 0.1


def test_parabolas_inherit_the_brackets_of_halfplanes():
    """psi(x) = (x, x^2) takes 60 points of the line to the plane; brackets there, pulled back, hold on the line."""
    rng, concepts = np.random.default_rng(8), PolynomialThresholds(1, 2)
    measure = ListedMeasure(rng.integers(-40, 40, 60).astype(float))
    brackets = concepts.brackets(0.15, measure)
    assert brackets.width <= 0.15
    rows = rng.integers(-30, 30, (300, 3)).astype(float)
    held, at = concepts.predict(rows, measure.points), brackets.index(rows)
    lower, upper = brackets.lower.contains(measure.points, at), brackets.upper.contains(measure.points, at)
    assert not (lower & ~held).any()
    assert not (held & ~upper).any()
    assert ((upper & ~lower) @ measure.masses).max() <= 0.15 + 1e-12


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_labelings_and_gaps_on_the_line(degree, n, seed):
    """All signs with at most D changes along distinct points, and no other; the gap against their list."""
    rng, concepts = np.random.default_rng(seed), PolynomialThresholds(1, degree)
    points = rng.integers(-4, 5, n) / 4.0
    labels, witnesses = concepts.labelings(points)
    distinct = len(np.unique(points))
    assert len(np.unique(labels, axis=0)) == len(labels)
    assert len(labels) == 2 * sum(math.comb(distinct - 1, changes) for changes in range(degree + 1))
    difference = rng.integers(-5, 6, n)
    assert concepts.max_gap(points, difference, np.zeros(n)) == np.abs(labels @ difference).max()
    expected = {tuple(row) for row in labels.tolist()}
    for wanted in itertools.product([False, True], repeat=n):
        found = concepts.consistent(points, np.array(wanted))
        assert (found is not None) == (wanted in expected)
        if found is not None:
            np.testing.assert_array_equal(concepts.predict(found[None], points)[0], wanted)


def test_conics_separate_what_halfplanes_do_not():
    square, diagonal = [[0, 0], [1, 1], [0, 1], [1, 0]], np.array([True, True, False, False])
    assert Halfspaces(2).consistent(square, diagonal) is None
    conics = PolynomialThresholds(2, 2)
    found = conics.consistent(square, diagonal)
    assert found is not None
    np.testing.assert_array_equal(conics.predict(found[None], square)[0], diagonal)
    weights = diagonal.astype(float)
    assert conics.max_gap(square, weights, 1.0 - weights) == 2.0
    assert PolynomialThresholds(2, 1).max_gap(square, weights, 1.0 - weights) == 1.0


def test_roots_come_back():
    roots, positive = line_roots(line_polynomials(np.array([[0.25, 0.5, np.inf]]), np.array([False])))
    np.testing.assert_allclose(np.sort(roots), [[0.25, 0.5, np.inf]])
    assert not positive[0]


@pytest.mark.parametrize(("n", "k"), [(1, 3), (4, 1), (5, 3), (6, 4)])
def test_multisets_are_counted_through(n, k):
    ranks = np.arange(multiset_count(n, k))
    rows = multiset_of_rank(ranks, n, k)
    assert {tuple(row) for row in rows.tolist()} == set(itertools.combinations_with_replacement(range(n), k))
    np.testing.assert_array_equal(multiset_rank(rows[:, ::-1], n), ranks)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: PolynomialThresholds(1, 0), "degree"),
        (lambda: PolynomialThresholds(0, 2), "dimension"),
        (lambda: PolynomialThresholds(2, 2).brackets(0.1, UniformCube(2)), "measure"),
        (lambda: PolynomialThresholds(1, 3).brackets(0.1, UniformGrid(9)), "measure"),
        (lambda: LineBrackets(PolynomialThresholds(1, 2), 0.1, UniformGrid(9)), "measure"),
        (lambda: PolynomialThresholds(1, 2).brackets(np.nan, UniformCube(1)), "epsilon"),
        (lambda: PolynomialThresholds(1, 3).predict([[1.0, 1.0, 1.0, 0.0]], [[1e200]]), "points"),
        (lambda: PolynomialThresholds(1, 3).predict([[1.0, 1.0]], [[1.0]]), "parameters"),
        (lambda: PolynomialThresholds(1, 9).labelings(np.arange(200.0)), "points"),
        (lambda: PolynomialThresholds(1, 4).cover(0.001, UniformCube(1)), "gamma"),
        (lambda: multiset_rank(np.zeros((1, 9), dtype=np.int64), 10**9), "n"),
    ],
)
def test_bad_input_is_refused(call, argument):
    with pytest.raises(InvalidArgumentError, match=argument):
        call()
