"""Candidate events: nested sets of cells of a partition, and how often each happened in the choosing samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.outputs.cells import Partition

_CUTS = 64  # of the likelihood ratio, per partition


@frozen(eq=False)
class Family:
    """Nested candidate events: the i-th holds the first ``sizes[i]`` cells of ``order``.

    The i-th event happened in ``x[i]`` of ``runs`` outputs on the likelier side and in ``y[i]`` on the other.
    """

    partition: Partition
    totals: IntArray  # counts per side and cell
    order: IntArray
    sizes: IntArray
    x: IntArray
    y: IntArray
    runs: int
    direction: int
    on_bits: bool
    handicap: float = 0.0
    by_ratio: bool = False

    def opposes(self, other: Family) -> bool:
        """Returns whether its events and those of ``other`` make pairs: the same cells, from opposite ends."""
        alike = self.partition is other.partition and self.by_ratio == other.by_ratio
        return alike and (self.direction, other.direction) == (0, 1) and int(self.order[0]) != int(other.order[0])

    def recounted(self, counts: IntArray) -> Family:
        """Returns the family with other counts of the same outputs, shape (sides, cells)."""
        inside = counts[:, self.order].cumsum(axis=1)[:, self.sizes - 1]
        return evolve(self, x=inside[self.direction], y=inside[1 - self.direction])


def families_of(partitions: Iterable[Partition], evidence: Evidence, *, on_bits: bool) -> list[Family]:
    """Returns the candidates of all partitions, one partition after another."""
    return [f for one in partitions for f in families_of_partition(one, evidence.tally(one), on_bits=on_bits)]


def families_of_partition(partition: Partition, tally: IntArray, *, on_bits: bool) -> list[Family]:
    """Returns the candidates of one partition, given its counts (folds, sides, cells)."""
    totals = tally.sum(axis=0)
    runs = int(totals[0].sum())
    found = list(_half_lines(partition, totals, runs)) if partition.ordered else []
    found += _by_ratio(partition, tally, totals, runs, on_bits)
    return [family for family in found if len(family.sizes)]


def _half_lines(partition: Partition, totals: IntArray, runs: int) -> Iterator[Family]:
    cells = np.arange(partition.cells)
    sizes = cells[1:-1]
    for order in (cells, np.concatenate([cells[-2::-1], cells[-1:]])):  # the last cell holds no number
        inside = totals[:, order].cumsum(axis=1)[:, :-2]
        for side in (0, 1):
            x, y = inside[side], inside[1 - side]
            handicap = float(partition.folds is not None) + float(partition.view is not None)
            yield Family(partition, totals, order, sizes, x, y, runs, side, on_bits=False, handicap=handicap)


def _by_ratio(partition: Partition, tally: IntArray, totals: IntArray, runs: int, on_bits: bool) -> Iterator[Family]:
    """Yields the events "the likelihood ratio is at least t", each fold counted by the other's ratios."""
    ratios = _log_ratio(totals), _log_ratio(2 * tally[0]), _log_ratio(2 * tally[1])
    known = totals.any(axis=0)
    for side, sign in ((0, 1.0), (1, -1.0)):
        ratio = np.where(known, sign * ratios[0], -np.inf)
        order = (-ratio).argsort(kind="stable")
        ranked = ratio[order]
        sizes = (ranked[1:] < ranked[:-1]).nonzero()[0] + 1
        if len(sizes) > _CUTS:
            sizes = np.unique(sizes[np.linspace(0, len(sizes) - 1, _CUTS).astype(int)])
        cut = (ranked[sizes - 1] + ranked[sizes]) / 2
        inside = np.zeros((2, len(sizes)), dtype=np.int64)
        for own, counts in ((ratios[1], tally[1]), (ratios[2], tally[0])):
            by = (-sign * own).argsort(kind="stable")
            reached = (-sign * own[by]).searchsorted(-cut, side="right")
            sums = np.zeros((2, partition.cells + 1), dtype=np.int64)
            counts[:, by].cumsum(axis=1, out=sums[:, 1:])
            inside += sums[:, reached]
        handicap = float(partition.ordered) + float(partition.folds is not None) + float(partition.view is not None)
        x, y = inside[side], inside[1 - side]
        yield Family(partition, totals, order, sizes, x, y, runs, side, on_bits, handicap, by_ratio=True)


def _log_ratio(counts: IntArray) -> FloatArray:
    return np.asarray(np.log((counts[0] + 0.5) / (counts[1] + 0.5)))
