"""Where the changed records of a group lie among the blocks of a family, and how many each release reads at once.

A placement puts k records into blocks i_1 ≤ … ≤ i_k. Release j of a family reads those within its reach, d_j in all,
and pays its event at d_j. So a placement costs what its counts N_t say, the number of releases that read at least t
records, t = 1 … k: it costs at most what another one does none of whose counts is smaller, as events grow with d.

Two facts keep that small. *Shifts:* far enough from the ends, windows that don't meet are as good anywhere, and a
window without an end is best met early; so a few blocks near each other stand for all, whatever the size. *Merging:*
releases whose numbers are equal modulo m, the most releases that read one block, read each record at most once. Their
distances add up to at most k, and where an event is ``superadditive``, m releases at k cost at least as much.
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
_MAX_KEPT = 32  # each may cost an evaluation of its own


@frozen
class Window:
    """What of a release family decides how it is met; see ``Release`` for the fields."""

    reach: Reach
    cumulative: bool
    superadditive: bool

    @property
    def is_half_open(self) -> bool:
        """Whether one block, the earliest or the latest, is within reach of all releases that read any of the group."""
        return self.reach.first is None or self.reach.last is None

    @property
    def merges(self) -> bool:
        """Whether a group costs most with all of it in one block, of those that are met as often."""
        return self.is_half_open or (self.superadditive and not self.cumulative)

    def ends(self, size: int, blocks: IntArray) -> tuple[IntArray, IntArray]:
        """The first and the last release that read each of ``blocks``; last < first where none does."""
        first, last = self.reach.first, self.reach.last
        low = np.ones_like(blocks) if first is None else np.maximum(1, blocks + first)
        high = np.full_like(blocks, size) if last is None else np.minimum(size, blocks + last)
        return low, high

    def counts(self, size: int, blocks: IntArray) -> IntArray:
        """N_1 … N_k for sorted ``blocks`` of shape (placements, k).

        Both ends grow from block to block. So the releases that read t records at least read t neighbouring ones: they
        are the union over x of those from the first that reads record x + t − 1 to the last that reads record x. A
        cumulative family reads at least t from the first release on that reads record t, wherever it reads any.
        """
        low, high = self.ends(size, blocks)
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
    """One way to place a group: what each release family pays, whether all lie in one block, and what it is called."""

    costs: tuple[Cost, ...]
    in_one_block: bool
    label: str


def worst(windows: tuple[Window, ...], size: int, group: int, *, leading: bool = False) -> list[Placement]:
    """Returns placements of ``group`` records, or bounds of some, such that one of them costs at least what any does.

    They are exact where one block is the worst for all, and where they are few; else one bound for each way to share
    the group out over different blocks.

    Args:
      leading: something costs less for a group in one block, which then stands for no group in several.

    Raises:
      GraphError: the group is too large to be shared out.
    """
    if not windows:
        return [Placement((), True, "")]
    alone = None if leading and size > 1 else _one_block(windows, size, group)
    if alone is not None:
        return [alone]
    found = _enumerated(windows, size, group, leading)
    return _shared_out(windows, size, group) if found is None else found


def _one_block(windows: tuple[Window, ...], size: int, group: int) -> Placement | None:
    """The whole group in the block that most releases of each family read, where merging makes that the worst."""
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
    """The placements that no other dominates; None where they are too many."""
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
    """Which placements cost at most what one with the whole group in one block does."""
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
    """Placements of shape (number, group), one of which dominates any other; None where they are too many."""
    reaches = [window.reach for window in windows]
    later = any(reach.last is None and reach.first is not None for reach in reaches)
    earlier = any(reach.first is None and reach.last is not None for reach in reaches)
    limits = [limit for reach in reaches for limit in (reach.first, reach.last) if limit is not None]
    lengths = [r.last - r.first + 1 for r in reaches if r.first is not None and r.last is not None]
    gap = max(lengths, default=1)
    if later and earlier:  # no place is better than another
        return _sequences(size, group, 0, size)
    if earlier:
        mirrored = _sequences(size, group, gap, max([0, *limits]) + 1)
        return None if mirrored is None else size + 1 - mirrored[:, ::-1]
    # Beyond the blocks that some window's start cuts, whatever lies further than ``gap`` behind may move nearer.
    return _sequences(size, group, gap, max([0, *(-limit for limit in limits)]) + 1)


def _sequences(size: int, group: int, gap: int, start: int) -> IntArray | None:
    """All i_1 ≤ … ≤ i_group ≤ size with steps of at most ``gap``, but for steps to ``start`` or before."""
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
    """A bound for each partition of the group into the shares of different blocks."""
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
    """What a family pays at most for blocks with these shares of the group, in falling order."""
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
    """The largest distances of as many releases as there are."""
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
