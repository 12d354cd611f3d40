"""Scores of outputs, learned from earlier ones: estimated log-likelihood ratios, by which data sets are guessed.

A score is constant on each cell of a partition (:mod:`hockeystick.audits.attacks.partitions`). Where the cells have an
order, two estimates compete: a monotone model (:func:`hockeystick.audits.attacks.half_lines.monotone_laws`) and the
counts of each cell, shrunken. One half of the outputs is predicted from the other, and the estimate that predicts best
wins. Nothing here affects the level of a test: a bad score guesses badly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.audits.attacks.half_lines import monotone_laws
from hockeystick.audits.attacks.partitions import Evidence, real_partitions
from hockeystick.audits.outputs.cells import Intervals, Partition, as_seen
from hockeystick.audits.outputs.features import Coordinate
from hockeystick.audits.outputs.reading import Layout, Table

_MOST_CELLS = 200  # of a single number
_SHRUNKEN = (1.0, 0.5, 0.25)  # factors of the log-ratios of counts
_MODEL = 2.0  # natural logarithms by which counts have to predict better than the monotone model of a single number
_LEAST = 1e-300  # of a probability


@frozen(eq=False)
class Scores:
    """A score of outputs.

    Attributes:
      partition: the cells.
      ratios: the score of each cell, positive where an output is likelier on the first data set.
      seen: number of earlier outputs in each cell.
      modelled: whether the scores are those of a monotone model, which owe little to chance.
    """

    partition: Partition
    ratios: FloatArray
    seen: IntArray
    modelled: bool = False

    def cells(self, table: Table, layouts: Sequence[Layout], grid: float | None) -> IntArray:
        """Returns the cell of each output of a table; ``layouts`` are all to which its codes refer, also new ones."""
        return self.partition.index(*next(as_seen([self.partition.view], table, layouts, grid)))

    def words(self, side: int, *, exact: bool = False) -> str:
        """Returns the outputs for which a data set is guessed, in words, with all digits if ``exact``."""
        return self.partition.words(self.ratios > 0 if side == 0 else self.ratios <= 0, exact=exact)


def learned(evidence: Evidence) -> Scores:
    """Returns the score that predicts best among those that earlier outputs suggest."""
    best: tuple[float, Scores] | None = None
    for partition, bonus in _partitions(evidence):
        halves = evidence.tally(partition)
        for factor in (0.0, *_SHRUNKEN) if partition.ordered else _SHRUNKEN:
            value = sum(_predicts(_ratios(halves[1 - half], factor), halves[half]) for half in (0, 1))
            value += bonus * (factor == 0.0)
            if best is None or value > best[0]:
                counts = halves.sum(axis=0)
                best = value, Scores(partition, _ratios(counts, factor), counts.sum(axis=0), factor == 0.0)
    assert best is not None  # there is always a partition
    return best[1]


def _partitions(evidence: Evidence) -> Iterator[tuple[Partition, float]]:
    """Yields partitions, and how much the monotone model is preferred on each."""
    if len(evidence.layouts) == 1 and len(evidence.layouts[0].kinds) == 1:
        feature = Coordinate(0)
        keys = np.concatenate(evidence.keys(0, feature))
        values = np.unique(keys)
        if len(values) > _MOST_CELLS:
            values = np.unique(np.quantile(keys, np.linspace(0, 1, _MOST_CELLS + 1)[1:-1], method="nearest"))
        part = Intervals(feature, values[1:])
        yield Partition(evidence.layouts, np.zeros(1, dtype=np.int64), {0: part}, part.cells + 1, ordered=True), _MODEL
    yield from ((partition, 0.0) for partition in real_partitions(evidence))


def _ratios(counts: IntArray, factor: float) -> FloatArray:
    """Returns log-ratios of cells from counts (sides, cells): by the monotone model for factor 0, else shrunken."""
    if factor == 0.0:
        found = np.zeros(counts.shape[1])
        own = np.flatnonzero(counts[:, :-1].any(axis=0))
        if len(own):
            laws = np.maximum(monotone_laws(counts[:, own]), _LEAST)
            found[:-1] = np.interp(np.arange(len(found) - 1), own, np.log(laws[0] / laws[1]))
        return found
    shares = (counts + 0.5) / (counts.sum(axis=1, keepdims=True) + 0.5 * counts.shape[1])
    return np.asarray(factor * np.log(shares[0] / shares[1]))


def _predicts(ratios: FloatArray, counts: IntArray) -> float:
    """Returns the log-likelihood of the data sets of some outputs, counted by cell, beyond that of fair coins."""
    return float(
        counts[0] @ special.log_expit(ratios) + counts[1] @ special.log_expit(-ratios) + counts.sum() * np.log(2)
    )
