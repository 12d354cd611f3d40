"""A tree over k ordered cells: its sums, and the least-squares counts that agree best with noisy sums.

Level h has ⌈k/b^h⌉ nodes, each over b^h neighbouring cells; the last may be shorter. The nodes of one level share no
cell, so one record is in one node of each level. The root is not measured. Where the total is public, it is known;
elsewhere its level costs more than it helps: at 256 cells a fifth of the largest error of a prefix.

With independent noise of equal variance on all sums the least-squares fit takes two passes (Hay, Rastogi, Miklau &
Suciu 2010): up, where a node's own sum and that of its children are averaged by their variances, and down, where what
is missing from a node's children is spread over them in proportion to their variances.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray, IntArray


@frozen(slots=False)
class CellTree:
    """A tree over cells.

    Attributes:
        cells: k >= 2.
        branching: b from 2 to k; k for a flat tree, the cells alone.
        total_known: The sum of all cells is known, so that no noise is needed for it.
    """

    cells: int
    branching: int
    total_known: bool

    @cached_property
    def starts(self) -> tuple[IntArray, ...]:
        """The first cell of each node, for each level with a measured sum, from the top down to the cells."""
        widths = [1]
        while widths[-1] * self.branching < self.cells:
            widths.append(widths[-1] * self.branching)
        return tuple(np.arange(0, self.cells, width) for width in reversed(widths))

    @property
    def unit(self) -> float:
        """1: sums are whole numbers of records."""
        return 1.0

    @property
    def levels(self) -> int:
        """The number of measured levels, and so of measured sums that hold one record."""
        return len(self.starts)

    @property
    def measurements(self) -> int:
        """The number of measured sums."""
        return sum(len(starts) for starts in self.starts)

    def distance(self, *, squares: bool) -> float:
        """Returns the largest distance of the sums of neighbours, in L1, or in L2 if ``squares``.

        One record is in one node of each level. If another takes its place, the two nodes differ at every level for the
        first and the last cell, as no measured level has only one node.
        """
        moved = self.levels * (2 if self.total_known else 1)
        return math.sqrt(moved) if squares else float(moved)

    def farthest(self) -> tuple[int, int]:
        """Returns the first and the last cell, between which a record moves the sums the farthest."""
        return 0, self.cells - 1

    def of(self, counts: IntArray) -> IntArray:
        """Returns the measured sums of counts (k,), level after level from the top."""
        return np.concatenate([np.add.reduceat(counts, starts) for starts in self.starts])

    def fit(self, noisy: FloatArray, total: float = 0.0) -> FloatArray:
        """Returns the least-squares counts (runs, k) for noisy sums (runs, measurements) of equal variances.

        Args:
            noisy: The noisy sums, in the order of :meth:`of`.
            total: The sum of all cells, where it is known.
        """
        own = np.split(np.asarray(noisy, dtype=float), np.cumsum([len(s) for s in self.starts])[:-1], axis=1)
        upwards, variances, below = [own[-1]], [np.ones(self.cells)], []
        for starts, sums, finer in zip(self.starts[-2::-1], own[-2::-1], self.starts[:0:-1], strict=True):
            first = np.searchsorted(finer, starts)  # of the children of each node
            children, spread = np.add.reduceat(upwards[-1], first, axis=1), np.add.reduceat(variances[-1], first)
            upwards.append((sums * spread + children) / (1.0 + spread))
            variances.append(spread / (1.0 + spread))
            below.append((first, children, spread))
        top, spread_top = upwards[-1], variances[-1]
        if self.total_known:
            top = top + spread_top / spread_top.sum() * (total - top.sum(axis=1, keepdims=True))
        for (first, children, spread), finer, variance in zip(
            below[::-1], upwards[-2::-1], variances[-2::-1], strict=True
        ):
            sizes = np.diff(first, append=finer.shape[1])
            top = finer + variance * np.repeat((top - children) / spread, sizes, axis=1)
        return np.asarray(top)
