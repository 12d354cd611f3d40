"""The placements of a group's changed records among the blocks of a family, and their costs.

A placement puts k records into blocks i_1 ≤ … ≤ i_k. Release j of a family reads the d_j records within its reach and
costs its event at distance d_j. So the cost of a placement depends on the counts N_t, the number of releases that read
at least t of the records, t = 1 … k: if no count of another placement is smaller, that placement costs at least as
much, as events grow with the distance.

Two facts limit the number of placements. *Shifts:* far from the ends, windows that don't meet cost the same anywhere,
and a window without an end costs most if it is met early. So a few blocks close to each other represent all placements,
for any size. *Merging:* let m be the largest number of releases that read one block. Releases with numbers equal modulo
m read each record at most once, so their distances add up to at most k. If an event is ``superadditive``, m releases at
distance k cost at least as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.errors import GraphError
from hockeystick.accounting.graph.parts.group_splittings import MAX_GROUP, maximal_rows, partitions
from hockeystick.accounting.graph.parts.nodes import Reach

Cost = tuple[tuple[int, int], ...]
"""(d, n), …: n releases read d of the changed records at once."""

_MAX_PLACEMENTS = 20_000
_MAX_KEPT = 32  # as each may need an evaluation of its own


@frozen
class Window:
    """The properties of a release family that determine its counts; see ``Release`` for the fields."""

    reach: Reach
    cumulative: bool
    superadditive: bool

    @property
    def is_half_open(self) -> bool:
        """Whether the earliest (or the latest) block is read by all releases that read any block of the group."""
        return self.reach.first is None or self.reach.last is None

    @property
    def merges(self) -> bool:
        """Whether a group in one block costs at least as much as a group in blocks that are read as often."""
        return self.is_half_open or (self.superadditive and not self.cumulative)

    def counts(self, size: int, blocks: IntArray) -> IntArray:
        """Returns N_1 … N_k for sorted ``blocks`` of shape (placements, k).

        Both ends grow from block to block. So a release that reads at least t records reads t consecutive ones: these
        releases are the union over x of those from the first that reads record x + t − 1 to the last that reads record
        x. A release of a cumulative family reads at least t records if it comes no earlier than the first that reads
        record t, and reads any record.
        """
        low, high = self.reach.ends(size, blocks)
        group = blocks.shape[1]
        counts = np.zeros_like(blocks)
        for t in range(group):
            end = np.zeros_like(high[:, 0])
            for x in range(group if self.cumulative else group - t):
                start = np.maximum(low[:, x], low[:, t]) if self.cumulative else low[:, x + t]
                start = np.maximum(start, end + 1)
                counts[:, t] += np.maximum(0, high[:, x] - start + 1)
                end = np.maximum(end, high[:, x])
        return counts


@frozen
class Placement:
    """One placement of a group: the cost of each release family, whether it is in one block, and a label."""

    costs: tuple[Cost, ...]
    in_one_block: bool
    label: str


def worst(windows: tuple[Window, ...], size: int, group: int, *, leading: bool = False) -> list[Placement]:
    """Returns placements of ``group`` records, or bounds of some, one of which costs at least as much as any placement.

    They are exact if one block is the worst for all families, or if they are few. Otherwise there is one bound for each
    partition of the group into the shares of different blocks.

    Args:
      windows: the release families.
      size: the number of blocks.
      group: the number of changed records.
      leading: whether a release costs less for a group in one block, which then does not represent a group in several.

    Raises:
      GraphError: the group has too many partitions.
    """
    if not windows:
        return [Placement((), True, "")]
    alone = None if leading and size > 1 else _one_block(windows, size, group)
    if alone is not None:
        return [alone]
    found = _enumerated(windows, size, group, leading)
    return _shared_out(windows, size, group) if found is None else found


def _one_block(windows: tuple[Window, ...], size: int, group: int) -> Placement | None:
    """Returns the whole group in the block read by most releases of each family, if merging makes that the worst."""
    if size > 1 and not all(window.merges for window in windows):
        return None
    corners = np.array(sorted({1}.union(*(window.reach.corners(size) for window in windows))), np.int64)
    met = np.stack([window.reach.counts(size, corners) for window in windows], axis=1)
    best = np.flatnonzero((met == met.max(axis=0)).all(axis=1))
    if not best.size:
        return None
    costs = tuple(((group, int(n)),) if n else () for n in met[best[0]])
    return Placement(costs, True, _label(size, (int(corners[best[0]]),) * min(group, 2)))


def _enumerated(windows: tuple[Window, ...], size: int, group: int, leading: bool) -> list[Placement] | None:
    """Returns the placements that no other one dominates; None if they are too many."""
    blocks = _candidates(windows, size, group) if group <= MAX_GROUP else None
    if blocks is None:
        return None
    counts = np.stack([window.counts(size, blocks) for window in windows], axis=1)  # placements, families, t
    apart = (blocks[:, :1] < blocks[:, -1:]) & leading
    rows, first = np.unique(np.hstack([counts.reshape(len(blocks), -1), apart]), axis=0, return_index=True)
    blocks, counts = blocks[first], counts[first]
    if not leading:
        rows[_merged(windows, size, blocks, counts)] = 0
    try:
        chosen = maximal_rows(rows, most=_MAX_KEPT)
    except GraphError:
        return None
    return [
        Placement(
            tuple(_cost(row) for row in counts[i]),
            bool(blocks[i, 0] == blocks[i, -1]),
            _label(size, tuple(map(int, blocks[i]))),
        )
        for i in chosen
    ]


def _merged(windows: tuple[Window, ...], size: int, blocks: IntArray, counts: IntArray) -> np.ndarray[Any, Any]:
    """Returns which placements cost at most as much as one with the whole group in one block."""
    met = [window.reach.counts(size, blocks.ravel()).reshape(blocks.shape).max(axis=1) for window in windows]
    one = blocks[:, 0] == blocks[:, -1]
    merged = np.zeros(len(blocks), dtype=bool)
    for i in np.flatnonzero(one):
        above = np.ones(len(blocks), dtype=bool)
        for r, window in enumerate(windows):
            dominated = (counts[:, r] <= counts[i, r]).all(axis=1)
            above &= dominated | (met[r] <= met[r][i]) if window.merges else dominated
        merged |= above & ~one
    return merged


def _candidates(windows: tuple[Window, ...], size: int, group: int) -> IntArray | None:
    """Returns placements, of shape (number, group), such that one of them dominates any other; None if too many."""
    reaches = [window.reach for window in windows]
    later = any(reach.last is None and reach.first is not None for reach in reaches)
    earlier = any(reach.first is None and reach.last is not None for reach in reaches)
    limits = [limit for reach in reaches for limit in (reach.first, reach.last) if limit is not None]
    lengths = [r.last - r.first + 1 for r in reaches if r.first is not None and r.last is not None]
    gap = max(lengths, default=1)
    if later and earlier:  # no place represents the others
        return _sequences(size, group, 0, size)
    if earlier:
        mirrored = _sequences(size, group, gap, max([0, *limits]) + 1)
        return None if mirrored is None else size + 1 - mirrored[:, ::-1]
    # Beyond the blocks where some window is cut at the start, a record more than ``gap`` behind may move closer.
    return _sequences(size, group, gap, max([0, *(-limit for limit in limits)]) + 1)


def _sequences(size: int, group: int, gap: int, start: int) -> IntArray | None:
    """Returns all i_1 ≤ … ≤ i_group ≤ size with steps of at most ``gap``, except for steps to ``start`` or before."""
    rows = np.ones((1, 0), np.int64)
    for _ in range(group):
        low = rows[:, -1] if rows.shape[1] else np.ones(1, np.int64)
        high = np.minimum(size, np.maximum(low + (gap if rows.shape[1] else 0), min(start, size)))
        times = high - low + 1
        if int(times.max()) > _MAX_PLACEMENTS or int(times.sum()) > _MAX_PLACEMENTS:
            return None
        offset = np.arange(int(times.sum())) - np.repeat(np.cumsum(times) - times, times)
        rows = np.column_stack([np.repeat(rows, times, axis=0), np.repeat(low, times) + offset])
    return rows


def _shared_out(windows: tuple[Window, ...], size: int, group: int) -> list[Placement]:
    """Returns a bound for each partition of the group into the shares of different blocks."""
    if all(window.merges for window in windows):
        most = tuple(((group, n),) if (n := w.reach.largest_count(size)) else () for w in windows)
        return [Placement(most, False, ", wherever they are")]
    rows: dict[tuple[tuple[Cost, ...], bool], Placement] = {}
    for shares in partitions(group, size):
        costs = tuple(_most(window, size, shares) for window in windows)
        one = len(shares) == 1
        rows.setdefault((costs, one), Placement(costs, one, _shares_label(shares)))
    return list(rows.values())


def _most(window: Window, size: int, shares: tuple[int, ...]) -> Cost:
    """Returns the largest cost of a family for blocks with these shares of the group, in decreasing order."""
    most, group = window.reach.largest_count(size), sum(shares)
    if most == 0:
        return ()
    if window.is_half_open or len(shares) == 1:
        return ((group, most),)
    if window.cumulative:
        left = _runs(group - sum(shares[len(shares) - late :]) for late in range(len(shares)))
        return _at_most(size, ((d, most * n) for d, n in left))
    if window.reach.is_single:
        return _runs(shares)
    if window.merges:
        return ((group, most),)
    counts = [min(size, most * min(len(shares), group // t)) for t in range(1, group + 1)]
    return _cost(np.array(counts, np.int64))


def _runs(values: Any) -> Cost:
    counts: dict[int, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return tuple(sorted(counts.items(), reverse=True))


def _at_most(size: int, cost: Iterator[tuple[int, int]]) -> Cost:
    """Returns the largest distances, of at most ``size`` releases in all."""
    out, left = [], size
    for d, n in cost:
        if (taken := min(n, left)) > 0:
            out.append((d, taken))
            left -= taken
    return tuple(out)


def _cost(counts: IntArray) -> Cost:
    exactly = counts - np.append(counts[1:], 0)
    return tuple((d, int(exactly[d - 1])) for d in range(len(counts), 0, -1) if exactly[d - 1])


def _label(size: int, blocks: tuple[int, ...]) -> str:
    if size == 1 or len(blocks) == 1:
        return ""
    different = sorted(set(blocks))
    if len(different) == 1:
        return f" in block {different[0]}"
    shares = tuple(blocks.count(block) for block in different)
    return f"{_shares_label(shares)} in blocks {', '.join(map(str, different))}"


def _shares_label(shares: tuple[int, ...]) -> str:
    return f" as {'+'.join(map(str, shares))}" if len(shares) > 1 else ""
