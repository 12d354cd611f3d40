"""Sign rank (F15): bounds from both sides, against matrices of known rank and of realised signs."""

import numpy as np
import pytest
from benchmark_scripts import experiment_script
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import linalg

from hockeystick.accounting import InvalidArgumentError

ranks = experiment_script("smoothed.sign_rank")


@pytest.mark.parametrize("power", range(1, 8))
def test_hadamard_matrices_have_at_least_the_root_of_their_size(power):
    """Forster 2002: ||H|| = 2^(k/2), so the sign rank is at least 2^(k/2)."""
    signs = linalg.hadamard(2**power)
    assert ranks.forster_bound(signs) == pytest.approx(2 ** (power / 2), rel=1e-8)
    assert ranks.forster_bound(signs) <= 2 ** (power / 2)  # rounded down, so that ceil never adds one
    assert ranks.sign_rank_bounds(signs)[0] >= 2 ** (power / 2)


def test_thresholds_have_sign_rank_two_whatever_their_number():
    points = np.arange(40)
    assert ranks.sign_rank_bounds(points[:, None] <= points[None]) == (2, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_matrix_of_rank_r_has_sign_rank_at_most_r(rank, seed):
    """The lower bound never exceeds a rank that is realised: here by construction."""
    rng = np.random.default_rng(seed)
    lower, upper = ranks.sign_rank_bounds(rng.standard_normal((9, rank)) @ rng.standard_normal((rank, 11)) > 0)
    assert 1 <= lower <= min(rank, upper)


@settings(max_examples=25, deadline=None)
@given(hnp.arrays(np.bool_, st.tuples(st.integers(1, 7), st.integers(1, 7))))
def test_polynomials_have_the_signs_and_the_bounds_do_not_cross(signs):
    """In each row the product of (x - root), a root between each two columns that differ: of rank 1 + changes."""
    columns = np.arange(signs.shape[1])
    changes = [np.flatnonzero(row[1:] != row[:-1]) for row in signs]
    values = np.array([np.prod(columns[:, None] - (at + 0.5), axis=1) for at in changes])
    values *= np.where(signs[:, -1:], 1.0, -1.0)
    np.testing.assert_array_equal(values > 0, signs)
    rank = 1 + max(map(len, changes))
    assert np.linalg.matrix_rank(values) <= rank
    lower, upper = ranks.sign_rank_bounds(signs)
    assert 1 <= lower <= upper <= min(*signs.shape, rank)
    assert (lower, upper) == ranks.sign_rank_bounds(~signs)


def test_opposite_rows_and_columns_count_once():
    row = np.array([1, -1, 1, 1])
    assert ranks.sign_rank_bounds([row, -row, row]) == (1, 1)


@pytest.mark.parametrize("signs", [[], [[]], [1, -1], [[1, 0]], [[1, 2]], [[np.nan, 1]], [["+"]]])
def test_other_matrices_are_refused(signs):
    with pytest.raises(InvalidArgumentError, match="signs"):
        ranks.sign_rank_bounds(signs)
