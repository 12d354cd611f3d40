"""Counts of a numeric column's values between public edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array


def checked_edges(edges: ArrayLike) -> FloatArray:
    """Returns edges e_0 < … < e_k, k >= 2, of a column's cells.

    Raises:
        InvalidArgumentError: they are not finite numbers that rise.
    """
    found = array("edges", edges, shape=(None,))
    if len(found) < 3 or (np.diff(found) <= 0.0).any():
        raise InvalidArgumentError("edges", found, "are not three or more numbers that rise", "give public edges")
    return found


def count_cells(values: ArrayLike, edges: ArrayLike) -> IntArray:
    """Returns how many values are in each cell [e_i, e_(i+1)), as whole numbers (k,), for ``CellCounts``.

    A value below the first edge counts in the first cell, one from the last edge on in the last, so each record is in
    one cell and none moves another.

    Args:
        values: The private values (n,), one per record.
        edges: Public edges e_0 < … < e_k; edges that are read off the records would tell something about them.

    Raises:
        InvalidArgumentError: the edges are not finite numbers that rise.
        InvalidDataError: a value is not a number; the error tells its place alone.

    Example:
        >>> from hockeystick.mechanisms import count_cells
        >>> count_cells([17.0, 30.5, 31.0, 99.0], edges=[0.0, 18.0, 30.0, 65.0]).tolist()
        [1, 0, 3]
    """
    ends = checked_edges(edges)
    found = array("values", values, shape=(None,), data=True)
    inner = np.searchsorted(ends[1:-1], found, side="right")
    return np.bincount(inner, minlength=len(ends) - 1)
