"""The distinct rows of a table of whole numbers, faster than by comparing rows entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 1 << 62  # of the numbers that stand for a row each


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Returns the distinct rows in ascending order, and for each row the place of its equal.

    As ``numpy.unique(rows, axis=0, return_inverse=True)``. Where the entries are whole numbers of a small range, each
    row is one number in a positional system, and numbers are sorted tens of times faster than rows.

    Args:
      rows: shape (rows, columns), finite numbers.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting.numerics.table_rows import distinct_rows
      >>> distinct_rows(np.array([[1, 0], [0, 1], [1, 0]]))
      (array([[0, 1],
             [1, 0]]), array([1, 0, 1]))
    """
    if rows.size and rows.dtype.kind in "biu":
        least = int(rows.min())
        base = int(rows.max()) - least + 1
        if max(base ** rows.shape[1], abs(least)) < _LARGEST:
            keys = np.zeros(len(rows), dtype=np.int64)
            for column in rows.T:
                keys *= base
                keys += column.astype(np.int64) - least
            found, where = np.unique(keys, return_inverse=True)
            first = np.empty(len(found), dtype=np.intp)
            first[where[::-1]] = np.arange(len(rows))[::-1]
            return rows[first], where
    found, where = np.unique(rows, axis=0, return_inverse=True)
    return found, where.reshape(-1)
