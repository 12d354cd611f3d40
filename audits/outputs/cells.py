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
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.outputs.reading import UNSEEN, Layout, Table

_SIGNIFICANT = {"f8": 32, "f4": 16, "f2": 8}
_INFINITY = np.int64(0x7FF0000000000000)
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)


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

    def words(self, chosen: BoolArray, layout: Layout, *, exact: bool = False) -> str:
        """Describes a non-empty set of cells, with all digits and intervals if ``exact``."""
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

    def words(self, chosen: BoolArray, layout: Layout, *, exact: bool = False) -> str:
        bounded = np.concatenate([[False], chosen, [False]])
        starts = np.flatnonzero(bounded[1:] & ~bounded[:-1])
        ends = np.flatnonzero(bounded[:-1] & ~bounded[1:])
        most = len(starts) if exact else 3
        linear = getattr(self.feature, "linear", None)
        scale = None if linear is None else linear(layout, exact)
        shown = [
            self._interval(int(i), int(j), layout, scale, exact) for i, j in zip(starts[:most], ends, strict=False)
        ]
        more = len(starts) - most
        return " or ".join(shown) + (f" or in {more} more interval{'s' * (more > 1)}" if more > 0 else "")

    def _interval(
        self, start: int, end: int, layout: Layout, scale: tuple[str, float, float] | None, exact: bool
    ) -> str:
        low = self._bound(start - 1, 1, exact) if start else None
        high = self._bound(end - 1, -1, exact) if end < self.cells else None
        name = self.feature.words(layout) if scale is None else scale[0]
        if low is None and high is None:
            return f"{name} is any number"
        if scale is not None:
            low, high = self._scaled(start, end, scale, exact)
        elif low is not None and high is not None and self._single(start, end):
            return f"{name} = {self._shown(_float(self.edges[start - 1]), start - 1, exact)}"
        elif high is None and math.isnan(_float(self.edges[start - 1])):
            return f"{name} = nan"
        elif low is None and high is not None and self._lowest(high):
            return f"{name} = {high[1]}"
        if high is None or low is None:
            op, value = low or high or ("", "")
            return f"{name} {op} {value}"
        return f"{low[1]} {low[0].replace('>', '<')} {name} {high[0]} {high[1]}"

    def _single(self, start: int, end: int) -> bool:
        """Returns whether one number alone lies between two edges."""
        first, high = _float(self.edges[start - 1]), _float(self.edges[end - 1])
        last = math.ceil(high) - 1 if self.integral and math.isfinite(high) else _float(self.edges[end - 1] - 1)
        return repr(first) == repr(float(last))

    def _lowest(self, high: tuple[str, str]) -> bool:
        """Returns whether a bound holds for the least value of the feature alone."""
        return high[0] == "<=" and high[1] == ("0" if getattr(self.feature, "nonnegative", False) else "-inf")

    def _scaled(
        self, start: int, end: int, scale: tuple[str, float, float], exact: bool
    ) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
        """Returns the bounds on a linear function of the feature."""
        _, factor, shift = scale
        low = _number(factor * _float(self.edges[start - 1]) + shift, exact) if start else None
        high = _number(factor * _float(self.edges[end - 1]) + shift, exact) if end < self.cells else None
        if factor < 0:
            return None if high is None else (">", high), None if low is None else ("<=", low)
        return None if low is None else (">=", low), None if high is None else ("<", high)

    def _bound(self, edge: int, side: int, exact: bool) -> tuple[str, str]:
        """Returns the comparison with an edge, from above (side 1) or below (-1), and the number to compare with.

        The cut is just below the edge. So "at least the edge" is also "more than the number before it"; the one that
        has fewer digits is shown.
        """
        at, before = _float(self.edges[edge]), _float(self.edges[edge] - 1)
        if side < 0 and math.isnan(at):
            return "<=", "inf"
        if self.integral and math.isfinite(at):
            at = float(math.ceil(at))
            before = at - 1
            if side < 0:
                return "<=", self._shown(before, edge, exact)
        elif _digits(before) < _digits(at):
            return (">" if side > 0 else "<="), self._shown(before, edge, exact)
        return (">=" if side > 0 else "<"), self._shown(at, edge, exact)

    def _shown(self, value: float, edge: int, exact: bool) -> str:
        """Returns a number in six digits, or in more where other edges are near."""
        if value == 0:  # -0.0 < 0.0 in the order of keys, and a cut may lie between them
            between = self.edges[edge] == 0 and getattr(self.feature, "signed_zeros", False) and not self.integral
            return "+0.0" if between else "0"
        if exact or self.integral or not math.isfinite(value):
            return _number(value, exact or self.integral)
        others = from_ordinal(np.delete(self.edges[max(edge - 1, 0) : edge + 2], min(edge, 1)))
        room = np.abs(others - value)[np.isfinite(others)].min(initial=math.inf) / 100
        texts = (f"{value:.{digits}g}" for digits in range(6, 18))
        return next(text for text in texts if float(text) == value or abs(float(text) - value) < room)


def _digits(value: float) -> int:
    """Returns the number of digits of a number; they count as many where six are not the whole number."""
    text = f"{value:.6g}"
    return len(text) if float(text) == value else 99


def _number(value: float, exact: bool) -> str:
    """Returns a number in six digits, or in all of them."""
    if exact and math.isfinite(value):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return f"{value:.6g}"


class View(Protocol):
    """A function of outputs whose values are numbers of one layout."""

    @property
    def layout(self) -> Layout: ...

    def table(self, table: Table, layouts: Sequence[Layout], real: dict[int, FloatArray]) -> Table:
        """Returns the values for a batch of outputs, given all layouts of its codes, and its blocks as rounded."""
        ...


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
      view: what of the outputs is divided; None for the outputs themselves. Then ``layouts`` has the view's layout, and
        tables must be given as :func:`as_seen` returns them.
    """

    layouts: tuple[Layout, ...]
    first: IntArray
    parts: dict[int, Part]
    cells: int
    ordered: bool = False
    folds: tuple[Partition, Partition] | None = None
    view: View | None = None

    def index(self, table: Table, real: dict[int, FloatArray]) -> IntArray:
        """Returns the cell of each run of a table; ``real`` has its blocks as rounded by :func:`as_real`."""
        rest = self.cells - 1
        if isinstance(table.codes, int):
            if table.codes in self.parts and table.codes in table.blocks:
                return self._within(table.codes, table.blocks[table.codes], real[table.codes])
            known = 0 <= table.codes < len(self.first)
            return np.full(table.runs, self.first[table.codes] if known else rest, dtype=np.int64)
        cells = np.append(self.first, rest)  # codes below 0, and those of later layouts, have the last entry
        found = cells[np.where(table.codes < len(self.first), table.codes, UNSEEN)]
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

    def words(self, chosen: BoolArray, *, exact: bool = False) -> str:
        """Describes the event that an output lies in one of the chosen cells, with all digits if ``exact``."""
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
                    alone += " with " * bool(alone) + part.words(own, layout, exact=exact)
                shown.append(alone)
        if len(shown) > 4 and not exact:
            shown = [*shown[:4], f"{len(shown) - 4} more"]
        if chosen[-1]:
            shown.append("any output that was never or seldom seen while choosing")
        return " or ".join(shown) if shown else "no output"


def real_blocks(table: Table, layouts: Sequence[Layout], grid: float | None) -> dict[int, FloatArray]:
    """Returns the blocks of a table as rounded by :func:`as_real`."""
    return {code: as_real(block, layouts[code].kinds, grid) for code, block in table.blocks.items()}


def as_seen(
    views: Iterable[View | None], table: Table, layouts: Sequence[Layout], grid: float | None
) -> Iterator[tuple[Table, dict[int, FloatArray]]]:
    """Yields, for each view, the table and the rounded blocks that a partition of it takes; None is the batch itself.

    Args:
      views: of some partitions.
      table: a batch of outputs.
      layouts: all layouts to which its codes refer.
      grid: as in :func:`as_real`.
    """
    real = real_blocks(table, layouts, grid)
    known: dict[int, tuple[Table, dict[int, FloatArray]]] = {id(None): (table, real)}
    for view in views:
        if view is not None and id(view) not in known:
            seen = view.table(table, layouts, real)
            known[id(view)] = seen, real_blocks(seen, (view.layout,), grid)
        yield known[id(view)]
