"""Sign rank (F15): bounds from both sides, against matrices of known rank and of realised signs.

Bounds on the sign rank: the least dimension in which a matrix of signs is one of points and halfspaces through 0.

The sign rank of a finite matrix of signs is the *least* rank of a real matrix with these signs; that of a class of
predicates is the supremum over the matrices that it makes with finitely many predicates and points. A class of sign
rank r embeds into halfspaces of R^r and inherits their brackets. No fast algorithm for it is known.

Sources: Haghtalab, Roughgarden & Shetty 2020, Definitions D.1 and D.2 (which take the highest rank instead of the
least); Forster 2002, "A linear lower bound on the unbounded error probabilistic communication complexity"; Alon, Frankl
& Roedl 1985 for sign changes.
"""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import linalg

from hockeystick.accounting import InvalidArgumentError

SignArray = npt.NDArray[np.int8]

_ROUNDING = 1e-9  # relative; far above that of a singular value, far below the distance of two useful bounds


def sign_rank_bounds(signs: npt.ArrayLike) -> tuple[int, int]:
    """Returns a lower and an upper bound on the sign rank of a matrix of bools or of the numbers -1 and 1.

    The upper bound is 1 + the most sign changes of a row, or of a column: a row is the signs of a polynomial with a
    root at each change. So it depends on the order of rows and columns.

    Raises:
        InvalidArgumentError: the matrix is empty, or not a matrix of signs.
    """
    matrix = _distinct(_distinct(_checked(signs)).T).T
    lower = 1 if len(matrix) == 1 else max(2, math.ceil(forster_bound(matrix)))
    return lower, min(*matrix.shape, _changes(matrix) + 1, _changes(matrix.T) + 1)


def forster_bound(signs: npt.ArrayLike) -> float:
    """Returns sqrt(m * n) / ||M||, a lower bound on the sign rank of M (m, n), rounded down (Forster 2002).

    Raises:
        InvalidArgumentError: the matrix is empty, or not a matrix of signs.
    """
    matrix = _checked(signs).astype(float)
    return max(1.0, math.sqrt(matrix.size) / (float(np.linalg.norm(matrix, 2)) * (1.0 + _ROUNDING)))


def _checked(signs: npt.ArrayLike) -> SignArray:
    raw = np.asarray(signs)
    if raw.ndim != 2 or raw.size == 0:
        raise InvalidArgumentError("signs", signs, "is not a matrix with an entry", "give the shape (m, n)")
    found = np.where(raw, 1, -1) if raw.dtype == np.bool_ else raw
    if found.dtype.kind not in "if" or not (np.abs(found) == 1).all():
        raise InvalidArgumentError("signs", signs, "holds other entries than -1 and 1", "give bools, or -1 and 1")
    return found.astype(np.int8)


def _distinct(matrix: SignArray) -> SignArray:
    """Returns one of all equal or opposite rows, in order; the others do not change the sign rank."""
    _, first = np.unique(matrix * matrix[:, :1], axis=0, return_index=True)
    return np.asarray(matrix[np.sort(first)])


def _changes(matrix: SignArray) -> int:
    return int((matrix[:, 1:] != matrix[:, :-1]).sum(axis=1).max(initial=0))


@pytest.mark.parametrize("power", range(1, 8))
def test_hadamard_matrices_have_at_least_the_root_of_their_size(power):
    """Forster 2002: ||H|| = 2^(k/2), so the sign rank is at least 2^(k/2)."""
    signs = linalg.hadamard(2**power)
    assert forster_bound(signs) == pytest.approx(2 ** (power / 2), rel=1e-8)
    assert forster_bound(signs) <= 2 ** (power / 2)  # rounded down, so that ceil never adds one
    assert sign_rank_bounds(signs)[0] >= 2 ** (power / 2)


def test_thresholds_have_sign_rank_two_whatever_their_number():
    points = np.arange(40)
    assert sign_rank_bounds(points[:, None] <= points[None]) == (2, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_matrix_of_rank_r_has_sign_rank_at_most_r(rank, seed):
    """The lower bound never exceeds a rank that is realised: here by construction."""
    rng = np.random.default_rng(seed)
    lower, upper = sign_rank_bounds(rng.standard_normal((9, rank)) @ rng.standard_normal((rank, 11)) > 0)
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
    lower, upper = sign_rank_bounds(signs)
    assert 1 <= lower <= upper <= min(*signs.shape, rank)
    assert (lower, upper) == sign_rank_bounds(~signs)


def test_opposite_rows_and_columns_count_once():
    row = np.array([1, -1, 1, 1])
    assert sign_rank_bounds([row, -row, row]) == (1, 1)


@pytest.mark.parametrize("signs", [[], [[]], [1, -1], [[1, 0]], [[1, 2]], [[np.nan, 1]], [["+"]]])
def test_other_matrices_are_refused(signs):
    with pytest.raises(InvalidArgumentError, match="signs"):
        sign_rank_bounds(signs)
