"""Sign rank: the least dimension in which a matrix of signs can be drawn as points and halfspaces through the origin.

The sign rank of a finite matrix of signs is the *least* rank of a real matrix with these signs; that of a class of
predicates is the supremum over the matrices that it makes with finitely many predicates and points. A class of sign
rank r embeds into halfspaces of R^r and inherits their brackets; a class of infinite sign rank inherits none this way.

Nobody knows how to compute it quickly, so it is bracketed: from below by the spectral norm (Forster), from above by
polynomials through the sign changes of the rows or of the columns.

Sources: Haghtalab, Roughgarden & Shetty 2020, Definitions D.1 and D.2 (which take the highest rank where the least is
meant); Forster 2002, "A linear lower bound on the unbounded error probabilistic communication complexity"; Alon, Frankl
& Roedl 1985 for sign changes.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError

SignArray = npt.NDArray[np.int8]
ExactArray = npt.NDArray[np.object_]

_ROUNDING = 1e-9  # relative; far above that of a singular value, far below the distance of two useful bounds


@frozen
class SignRankBounds:
    """lower <= sign rank <= upper."""

    lower: int
    upper: int


def sign_rank_bounds(signs: npt.ArrayLike) -> SignRankBounds:
    """Brackets the sign rank of a matrix of signs.

    The upper bound depends on the order of rows and columns: sort them, where there is an order.

    Args:
        signs: Shape (m, n), bools or numbers -1 and 1.

    Raises:
        InvalidArgumentError: empty, or not a matrix of signs.
    """
    matrix = _distinct(_distinct(_checked(signs)).T).T
    rows, columns = matrix.shape
    lower = 1 if rows == 1 else max(2, math.ceil(forster_bound(matrix)))
    return SignRankBounds(lower, min(rows, columns, _changes(matrix) + 1, _changes(matrix.T) + 1))


def forster_bound(signs: npt.ArrayLike) -> float:
    """sqrt(m * n) / ||M||, a lower bound on the sign rank of M, rounded down (Forster 2002).

    Args:
        signs: Shape (m, n), bools or numbers -1 and 1.

    Raises:
        InvalidArgumentError: empty, or not a matrix of signs.
    """
    matrix = _checked(signs).astype(float)
    norm = float(np.linalg.norm(matrix, 2)) * (1.0 + _ROUNDING)
    return max(1.0, math.sqrt(matrix.size) / norm)


def sign_change_embedding(signs: npt.ArrayLike) -> tuple[ExactArray, ExactArray]:
    """Whole numbers U (m, r) and V (r, n) such that U @ V has the given signs; r = 1 + most sign changes of a row.

    A row is a polynomial that changes its sign where the row does, and V holds the powers of the columns' places. Both
    are Python integers, so that the product is exact.

    Args:
        signs: Shape (m, n), bools or numbers -1 and 1.

    Raises:
        InvalidArgumentError: empty, or not a matrix of signs.
    """
    matrix = _checked(signs)
    rank = _changes(matrix) + 1
    rows = np.zeros((len(matrix), rank), dtype=object)
    for row, polynomial in zip(matrix, rows, strict=True):
        coefficients = [1]
        for place in np.flatnonzero(row[1:] != row[:-1]):  # a root between columns at even places
            root = 2 * int(place) + 1
            shifted, scaled = [0, *coefficients], [root * c for c in coefficients] + [0]
            coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
        polynomial[: len(coefficients)] = coefficients
        polynomial *= int(row[-1])  # to the right of all its roots a monic polynomial is positive
    places = [2 * j for j in range(matrix.shape[1])]
    return rows, np.array([[place**power for place in places] for power in range(rank)], dtype=object)


def _checked(signs: npt.ArrayLike) -> SignArray:
    try:
        raw = np.asarray(signs)
    except ValueError:
        raise InvalidArgumentError("signs", signs, "is ragged", "give rows of one length") from None
    if raw.ndim != 2 or raw.size == 0:
        raise InvalidArgumentError("signs", signs, "is not a matrix with an entry", "give the shape (m, n)")
    if raw.dtype == np.bool_:
        return np.where(raw, 1, -1).astype(np.int8)
    if raw.dtype.kind not in "if" or not (np.abs(raw) == 1).all():
        raise InvalidArgumentError("signs", signs, "holds something else than -1 and 1", "give bools, or -1 and 1")
    return raw.astype(np.int8)


def _distinct(matrix: SignArray) -> SignArray:
    """One of all rows that are equal or opposite, in order: they have the same sign rank together as alone."""
    towards = matrix * matrix[:, :1]
    _, first = np.unique(towards, axis=0, return_index=True)
    kept: SignArray = matrix[np.sort(first)]
    return kept


def _changes(matrix: SignArray) -> int:
    return int((matrix[:, 1:] != matrix[:, :-1]).sum(axis=1).max(initial=0))
