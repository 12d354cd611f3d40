"""Finitely many cells of the space of outputs, so that events are sets of cells and samples are counts.

Numbers are read as *real* numbers. A float is first rounded to a public grid, the same for every output of every
target: to 32 significant bits (float32: 16, float16: 8), or to the multiples of a spacing that the user gives. This
hides the leaks of floating-point noise through the last bits of an output;
:mod:`hockeystick.audits.outputs.float_bits` tests for those.

After rounding, floats become integers in their total order: -0.0 comes just before 0.0, and NaN after infinity. So "at
most t" and "exactly v" are both intervals, and every output is comparable.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.outputs.reading import Layout, Table

_SIGNIFICANT = {"f8": 32, "f4": 16, "f2": 8}
_INFINITY = np.int64(0x7FF0000000000000)
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
_LARGEST = float(np.finfo(np.float64).max)


def as_real(block: FloatArray, kinds: tuple[str, ...], grid: float | None) -> FloatArray:
    """Returns a block of numbers, shape (runs, numbers), with its floats rounded to the public grid.

    Args:
      block: numbers of outputs of one layout.
      kinds: kind of each column, as in :class:`Layout`.
      grid: spacing of the grid; None for the significant bits of the module's docstring.
    """
    for kind in set(kinds) - {"i"}:
        columns = slice(None) if set(kinds) == {kind} else np.array([k == kind for k in kinds])
        rounded = _to_bits(block[:, columns], _SIGNIFICANT[kind]) if grid is None else _to_grid(block[:, columns], grid)
        if isinstance(columns, slice):
            return rounded
        block = block.copy()
        block[:, columns] = rounded
    return block


def _to_bits(values: FloatArray, significant: int) -> FloatArray:
    drop = 53 - significant
    pattern = np.where(np.isnan(values), np.nan, values).view(np.int64)
    rounded = (pattern + np.int64(1 << (drop - 1))) & np.int64(-1 << drop)
    overflow = (rounded & _MAGNITUDE) == _INFINITY  # includes an infinity itself, which does not change
    return np.where(overflow, pattern, rounded).view(np.float64)


def _to_grid(values: FloatArray, grid: float) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.round(values / grid) * grid
    return np.where(np.isfinite(rounded), np.where((rounded == 0) & (values != 0), 0.0, rounded), values)


def ordinal(values: FloatArray) -> IntArray:
    """Returns integers in the total order of the floats: -inf < ... < -0.0 < 0.0 < ... < inf < NaN."""
    pattern = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return pattern ^ ((pattern >> 63) & _MAGNITUDE)


def from_ordinal(keys: IntArray) -> FloatArray:
    """Returns the floats of ordinals."""
    return (keys ^ ((keys >> 63) & _MAGNITUDE)).view(np.float64)


def _float(key: np.int64) -> float:
    return float(from_ordinal(np.array([key]))[0])


class Feature(Protocol):
    """A function of the numbers of an output, with values in the ordered integers."""

    def keys(self, block: FloatArray, real: FloatArray) -> IntArray:
        """Returns one key per row of a block, from the block as read and as rounded by :func:`as_real`."""
        ...

    def words(self, layout: Layout) -> str:
        """Returns the feature's name."""
        ...


class Part(Protocol):
    """Cells of the outputs of one layout."""

    @property
    def feature(self) -> Feature: ...

    @property
    def cells(self) -> int: ...

    def index(self, keys: IntArray) -> IntArray:
        """Returns each key's cell, or ``cells`` for a key that belongs to none."""
        ...

    def words(self, chosen: BoolArray, name: str) -> str:
        """Describes a non-empty set of cells."""
        ...


@frozen(eq=False)
class Intervals:
    """Cells of a feature between increasing ``edges``: cell j holds edges[j-1] <= key < edges[j].

    ``integral`` means that the feature takes whole numbers only; it changes the descriptions alone.
    """

    feature: Feature
    edges: IntArray
    integral: bool = False

    @property
    def cells(self) -> int:
        return len(self.edges) + 1

    def index(self, keys: IntArray) -> IntArray:
        return np.searchsorted(self.edges, keys, side="right").astype(np.int64)

    def words(self, chosen: BoolArray, name: str) -> str:
        bounded = np.concatenate([[False], chosen, [False]])
        starts = np.flatnonzero(bounded[1:] & ~bounded[:-1])
        ends = np.flatnonzero(bounded[:-1] & ~bounded[1:])
        shown = [self._interval(int(i), int(j), name) for i, j in zip(starts[:3], ends[:3], strict=True)]
        more = len(starts) - 3
        return " or ".join(shown) + (f" or in {more} more interval{'s' * (more > 1)}" if more > 0 else "")

    def _interval(self, start: int, end: int, name: str) -> str:
        low = _float(self.edges[start - 1]) if start else -math.inf
        high = _float(self.edges[end - 1]) if end < self.cells else math.inf
        last = _float(self.edges[end - 1] - 1) if end < self.cells else math.nan
        if self.integral:
            last = math.ceil(high) - 1 if math.isfinite(high) else last
        if start and repr(low) == repr(float(last)):
            return f"{name} = {self._shown(low)}"
        if not start and end == self.cells:
            return f"{name} is any number"
        if not start and end == 1 and high == -_LARGEST:
            return f"{name} = -inf"
        if not start:
            return f"{name} <= {last:.6g}" if self.integral else f"{name} < {self._shown(high)}"
        if end == self.cells:
            return f"{name} >= {self._shown(low)}"
        if self.integral:
            return f"{self._shown(low)} <= {name} <= {last:.6g}"
        return f"{self._shown(low)} <= {name} < {self._shown(high)}"

    def _shown(self, value: float) -> str:
        if value == 0 and not self.integral:  # the cut is exact: -0.0 < 0.0
            return "-0.0" if math.copysign(1, value) < 0 else "+0.0"
        return f"{value:.6g}"


@frozen(eq=False)
class Partition:
    """A partition of all outputs into cells.

    Attributes:
      layouts: layouts of the codebook to which the tables refer.
      first: number of the first cell of each layout.
      parts: cells of layouts with numbers; any other layout is a single cell.
      cells: number of cells. The last cell has all outputs that belong to no other: rare and new ones.
      ordered: whether the cells are those of one layout in the order of a feature, so that there are half-lines.
      folds: for a feature fitted to all choosing samples: the same cells for a feature fitted to the second fold, which
        rates the first, and for one fitted to the first fold, which rates the second.
    """

    layouts: tuple[Layout, ...]
    first: IntArray
    parts: dict[int, Part]
    cells: int
    ordered: bool = False
    folds: tuple[Partition, Partition] | None = None

    def index(self, table: Table, real: dict[int, FloatArray]) -> IntArray:
        """Returns the cell of each run of a table; ``real`` has its blocks as rounded by :func:`as_real`."""
        rest = self.cells - 1
        if isinstance(table.codes, int):
            if table.codes in self.parts and table.codes in table.blocks:
                return self._within(table.codes, table.blocks[table.codes], real[table.codes])
            return np.full(table.runs, self.first[table.codes] if table.codes >= 0 else rest, dtype=np.int64)
        found = np.where(table.codes >= 0, self.first[table.codes], rest)
        for code in self.parts.keys() & table.blocks.keys():
            found[table.of(code)] = self._within(code, table.blocks[code], real[code])
        return found

    def _within(self, code: int, block: FloatArray, real: FloatArray) -> IntArray:
        part = self.parts[code]
        local = part.index(part.feature.keys(block, real))
        return np.where(local < part.cells, local + self.first[code], self.cells - 1)

    def count(self, table: Table, real: dict[int, FloatArray]) -> IntArray:
        """Returns the number of runs of a table in each cell."""
        return np.bincount(self.index(table, real), minlength=self.cells).astype(np.int64)

    def words(self, chosen: BoolArray) -> str:
        """Describes the event that an output lies in one of the chosen cells."""
        shown: list[str] = []
        for code, layout in enumerate(self.layouts):
            start = int(self.first[code])
            part = self.parts.get(code)
            if part is None:
                if chosen[start] and start < self.cells - 1:
                    shown.append(f"output is {layout}")
            elif (own := chosen[start : start + part.cells]).any():
                alone = "" if len(self.layouts) == 1 else f"output is {layout}"
                if not (own.all() and alone):
                    alone += " with " * bool(alone) + part.words(own, part.feature.words(layout))
                shown.append(alone)
        if len(shown) > 4:
            shown = [*shown[:4], f"{len(shown) - 4} more"]
        if chosen[-1]:
            shown.append("any output that was never or seldom seen while choosing")
        return " or ".join(shown) if shown else "no output"


def real_blocks(table: Table, layouts: tuple[Layout, ...], grid: float | None) -> dict[int, FloatArray]:
    """Returns the blocks of a table as rounded by :func:`as_real`."""
    return {code: as_real(block, layouts[code].kinds, grid) for code, block in table.blocks.items()}
