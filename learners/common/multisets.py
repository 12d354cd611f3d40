"""A numbering of multisets: k of the numbers 0 .. n - 1, with repetition, have the ranks 0 .. C(n + k - 1, k) - 1.

The rank is that of the combinatorial number system (Lehmer 1964) for the strictly increasing numbers c_i + i.
"""

import math

import numpy as np

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray


def multiset_count(n: int, k: int) -> int:
    """Returns the number of multisets, C(n + k - 1, k)."""
    return math.comb(n + k - 1, k)


def multiset_rank(chosen: IntArray, n: int) -> IntArray:
    """Returns the ranks, shape (M,), of multisets given as rows of k members in any order, shape (M, k).

    Raises:
        InvalidArgumentError: there are 2^63 multisets or more.
    """
    k = chosen.shape[1]
    rows = np.sort(chosen, axis=1) + np.arange(k)
    rank = np.zeros(len(rows), dtype=np.int64)
    for i in range(k):
        rank += _below(n, k, i + 1)[rows[:, i]]
    return rank


def multiset_of_rank(rank: IntArray, n: int, k: int) -> IntArray:
    """Returns the multisets with these ranks, members in increasing order, shape (M, k): inverts `multiset_rank`."""
    left, rows = np.array(rank, dtype=np.int64), np.empty((len(rank), k), dtype=np.int64)
    for i in reversed(range(k)):
        below = _below(n, k, i + 1)
        rows[:, i] = np.searchsorted(below, left, side="right") - 1
        left -= below[rows[:, i]]
    return rows - np.arange(k)


def _below(n: int, k: int, size: int) -> IntArray:
    """C(c, size) for c = 0 .. n + k - 2: the number of sets of that size with all members below c."""
    if multiset_count(n, k) >= 2**63:
        raise InvalidArgumentError("n", n, f"has too many multisets of size {k} to number them")
    table, value = [0] * size + [1], 1
    for c in range(size + 1, n + k - 1):
        value = value * c // (c - size)
        table.append(value)
    return np.array(table[: n + k - 1], dtype=np.int64)
