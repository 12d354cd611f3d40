"""Tests of correlated noise: sensitivities by brute force over all sets of steps, and the tree's cost in
dp-accounting."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

from hockeystick.accounting import NO_EVENT, Gaussian, InvalidArgumentError, Laplace, compose, epsilon
from hockeystick.accounting.events.noise.correlated_noise import (
    fixed_epochs,
    matrix_mechanism,
    matrix_sensitivity,
    tree_aggregation,
    tree_encoder,
    tree_levels,
)


def separated_sets(steps, count, gap):
    for size in range(1, count + 1):
        for chosen in itertools.combinations(range(steps), size):
            if all(b - a >= gap for a, b in itertools.pairwise(chosen)):
                yield chosen


def largest_move(encoder, sets, norm="l2"):
    """Over sets and over signs of scalar contributions ±1: the extreme points of the contributions."""
    worst = 0.0
    for chosen in sets:
        for signs in itertools.product((1.0, -1.0), repeat=len(chosen)):
            moved = encoder[:, list(chosen)] @ np.array(signs)
            worst = max(worst, float(np.linalg.norm(moved)) if norm == "l2" else float(np.abs(moved).sum()))
    return worst


def banded(rng, steps, width):
    c = np.tril(rng.normal(size=(steps, steps)))
    return np.triu(c, -(width - 1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("count", "gap"), [(1, 1), (2, 1), (3, 2), (4, 2), (2, 5), (7, 1)])
@pytest.mark.every(5)
def test_sensitivity_is_never_below_brute_force(seed, count, gap):
    rng = np.random.default_rng(seed)
    c = rng.normal(size=(5, 7))
    sets = list(separated_sets(7, count, gap))
    for norm in ("l2", "l1"):
        bound = matrix_sensitivity(c, participations=count, separation=gap, norm=norm)
        assert largest_move(c, sets, norm) <= bound
        listed = matrix_sensitivity(c, patterns=sets, norm=norm)
        assert largest_move(c, sets, norm) <= listed <= bound * (1 + 1e-12)
    assert matrix_sensitivity(c, participations=count, separation=gap, norm="l1") == pytest.approx(
        max(np.abs(c)[:, list(s)].sum() for s in sets), rel=1e-12
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("count", "gap", "width"), [(2, 3, 3), (3, 3, 2), (4, 2, 2), (2, 4, 4)])
def test_banded_and_nonnegative_matrices_are_exact(seed, count, gap, width):
    rng = np.random.default_rng(seed)
    c, sets = banded(rng, 9, width), list(separated_sets(9, count, gap))
    got = matrix_sensitivity(c, participations=count, separation=gap)
    assert got == pytest.approx(largest_move(c, sets), rel=1e-12)
    positive = np.abs(rng.normal(size=(4, 9)))
    assert matrix_sensitivity(positive, patterns=sets) == pytest.approx(largest_move(positive, sets), rel=1e-12)
    assert matrix_sensitivity(positive) == pytest.approx(np.linalg.norm(positive, axis=0).max(), rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("count", "gap"), [(2, 1), (3, 2), (4, 3), (9, 2)])
def test_decreasing_filters_are_exact(seed, count, gap):
    first = np.sort(np.random.default_rng(seed).uniform(size=10))[::-1]
    first[7:] *= seed % 2
    c = linalg.toeplitz(first, np.zeros(10))
    exact = largest_move(c, separated_sets(10, count, gap))
    assert matrix_sensitivity(c, participations=count, separation=gap) == pytest.approx(exact, rel=1e-12)


def test_vector_contributions_move_no_more_than_the_bound():
    rng = np.random.default_rng(3)
    for _ in range(200):
        c, k = rng.normal(size=(4, 5)), int(rng.integers(1, 4))
        directions = rng.normal(size=(5, k))
        directions /= np.maximum(1.0, np.linalg.norm(directions, axis=1, keepdims=True))
        assert np.linalg.norm(c @ directions) <= matrix_sensitivity(c, participations=5)


def test_prefix_sums_by_the_square_root_and_by_the_identity():
    steps = 64
    root = np.cumprod(np.concatenate([[1.0], (2 * np.arange(1, steps) - 1) / (2 * np.arange(1, steps))]))
    c = linalg.toeplitz(root, np.zeros(steps))
    assert np.allclose(c @ c, np.tril(np.ones((steps, steps))))
    assert matrix_sensitivity(c) == pytest.approx(math.sqrt(np.sum(root**2)), rel=1e-12)
    assert matrix_mechanism(np.eye(steps), noise_multiplier=2.0) == Gaussian(2.0).at(matrix_sensitivity(np.eye(steps)))
    assert matrix_sensitivity(np.eye(steps), participations=9) == pytest.approx(3.0, rel=1e-12)
    # all at once: the whole stream is one value, read by its sum
    assert matrix_sensitivity(np.ones((1, 5)), participations=3) == pytest.approx(3.0, rel=1e-12)
    assert matrix_mechanism(np.zeros((2, 3)), noise_multiplier=1.0) == NO_EVENT
    assert isinstance(matrix_mechanism(np.eye(2), noise_multiplier=1.0, noise="laplace"), Laplace)


def test_fixed_epochs_agree_with_enumeration():
    assert fixed_epochs(6, 2) == ((0, 3), (1, 4), (2, 5))
    assert fixed_epochs(1, 1) == ((0,),)
    c = np.tril(np.ones((6, 6)))
    exact = largest_move(c, fixed_epochs(6, 2))
    assert matrix_sensitivity(c, patterns=fixed_epochs(6, 2)) == pytest.approx(exact, rel=1e-12)
    assert exact <= matrix_sensitivity(c, participations=2, separation=3) * (1 + 1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("branching", [2, 3, 5])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 9, 26, 27, 100])
def test_a_leaf_lies_in_one_node_per_level(steps, branching):
    encoder = tree_encoder(steps, branching=branching)
    levels = tree_levels(steps, branching=branching)
    assert encoder.sum(axis=0).max() == levels
    assert matrix_sensitivity(encoder) == pytest.approx(math.sqrt(levels), rel=1e-12)
    assert matrix_sensitivity(encoder, norm="l1") == pytest.approx(levels, rel=1e-12)
    # every prefix sum is a sum of published nodes
    for t in range(1, steps + 1):
        prefix = (np.arange(steps) < t).astype(float)
        assert np.allclose(encoder.T @ np.linalg.lstsq(encoder.T, prefix, rcond=None)[0], prefix)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 7, 8, 15, 16, 1000])
def test_the_tree_costs_what_dp_accounting_charges(steps):
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL)
    accountant.compose(dp_accounting.SingleEpochTreeAggregationDpEvent(5.0, [1, steps]))
    event = tree_aggregation([1, steps], noise_multiplier=5.0)
    assert event.zcdp_rho() == pytest.approx(tree_levels(steps) / 50, rel=1e-12)
    orders = np.array([1.5, 2.0, 17.0])
    assert np.allclose(event.rdp(orders), orders * (math.ceil(math.log2(steps + 1)) / 50))
    assert epsilon(event, 1e-6).upper <= accountant.get_epsilon(1e-6)


def test_trees_of_several_epochs_add_up():
    once = tree_aggregation([8, 100], noise_multiplier=3.0)
    every = tree_aggregation([8, 100], noise_multiplier=3.0, every_tree=True)
    assert once == compose((Gaussian(3.0), 7))
    assert every == compose((Gaussian(3.0), 4 + 7))
    assert tree_aggregation(9, noise_multiplier=3.0, branching=3, noise="laplace") == compose((Laplace(3.0), 3))
    # several leaves of one tree: the matrix says what a product of leaves would miss
    encoder = tree_encoder(8)
    twice = matrix_sensitivity(encoder, participations=2)
    assert twice**2 == pytest.approx(largest_move(encoder, separated_sets(8, 2, 1)) ** 2, rel=1e-12)
    assert twice**2 > 2 * 4


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.floats(-2, 2), min_size=4, max_size=4), min_size=1, max_size=4),
    st.integers(1, 4),
    st.integers(1, 3),
    st.floats(0.1, 10),
)
def test_sensitivities_scale_and_grow_with_participations(rows, count, gap, factor):
    c = np.array(rows)
    value = matrix_sensitivity(c, participations=count, separation=gap)
    assert value <= matrix_sensitivity(c, participations=count + 1, separation=gap) * (1 + 1e-12)
    assert value >= matrix_sensitivity(c, participations=count, separation=gap + 1) * (1 - 1e-12)
    assert matrix_sensitivity(factor * c, participations=count, separation=gap) == pytest.approx(
        factor * value, rel=1e-9, abs=1e-12
    )
    stacked = np.vstack([c, c])
    assert matrix_sensitivity(stacked, participations=count, separation=gap) == pytest.approx(
        math.sqrt(2) * value, rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize(
    "call",
    [
        lambda: matrix_sensitivity([1.0, 2.0]),
        lambda: matrix_sensitivity([[1.0], [2.0, 3.0]]),
        lambda: matrix_sensitivity([[math.nan]]),
        lambda: matrix_sensitivity([[math.inf]]),
        lambda: matrix_sensitivity([["a"]]),
        lambda: matrix_sensitivity(np.eye(2), participations=0),
        lambda: matrix_sensitivity(np.eye(2), participations=True),
        lambda: matrix_sensitivity(np.eye(2), separation=0),
        lambda: matrix_sensitivity(np.eye(2), norm="linf"),  # type: ignore[arg-type]
        lambda: matrix_sensitivity(np.eye(2), patterns=[[2]]),
        lambda: matrix_sensitivity(np.eye(2), patterns=[[0, 0]]),
        lambda: matrix_sensitivity(np.eye(2), patterns=[[0]], participations=2),
        lambda: matrix_mechanism(np.eye(2), noise_multiplier=0.0),
        lambda: matrix_mechanism(np.eye(2), noise_multiplier=1.0, noise="cauchy"),  # type: ignore[arg-type]
        lambda: fixed_epochs(5, 2),
        lambda: tree_levels(0),
        lambda: tree_levels(4, branching=1),
        lambda: tree_encoder(10_000),
        lambda: tree_aggregation(0, noise_multiplier=1.0),
        lambda: tree_aggregation(4, noise_multiplier=math.nan),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(InvalidArgumentError):
        call()


def test_an_empty_query_has_sensitivity_zero():
    assert matrix_sensitivity(np.zeros((0, 3))) == 0.0 == matrix_sensitivity(np.zeros((2, 0)), norm="l1")
    assert tree_aggregation([], noise_multiplier=1.0) == NO_EVENT
