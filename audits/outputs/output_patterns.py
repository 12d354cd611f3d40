"""Count tables of whole outputs: sequences of few symbols, and mixtures of symbols and real numbers.

A value that a number takes repeatedly is an *atom*: True, 0, a sentinel for "no answer". The *pattern* of an output
lists which of its numbers are which atoms; for a list that stops early, it says where the list stopped and which
answers came before. A table counts patterns on each data set. Rare or new patterns rely on a score of single numbers,
and the numbers that are not atoms are scored given the pattern.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import special

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.outputs.cells import ordinal
from hockeystick.audits.outputs.features import Bayes, fit_bayes

CodeArray = npt.NDArray[np.uint64]
Pair = tuple[FloatArray, FloatArray]

_MOST_WIDTH = 256
_MOST_ATOMS = 64  # of one number
_SAMPLE = 1 << 14  # outputs that show which values are atoms
_OFTEN = 1 / 200  # of outputs
_WEIGHT = 4.0  # of the score of single numbers, in counts
_MOST_WITHIN = 64  # patterns with a score of their own for numbers that are not atoms
_LEAST_WITHIN = 128  # outputs of either data set for that
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@frozen(eq=False)
class Atoms:
    """Per number, the ordinals of its atoms in increasing order."""

    values: tuple[IntArray, ...]

    @classmethod
    def of(cls, pair: Pair) -> Atoms | None:
        """Returns the atoms in rounded blocks; None if there are none, or if outputs have too many numbers."""
        if pair[0].shape[1] > _MOST_WIDTH:
            return None
        sample = ordinal(np.concatenate([block[:: max(1, len(block) // _SAMPLE)] for block in pair]))
        found = []
        for column in sample.T:
            values, counts = np.unique(column, return_counts=True)
            often = np.flatnonzero(counts >= max(8, len(sample) * _OFTEN))
            found.append(np.sort(values[often[np.argsort(-counts[often], kind="stable")[:_MOST_ATOMS]]]))
        return cls(tuple(found)) if any(map(len, found)) else None

    def patterns(self, real: FloatArray) -> tuple[CodeArray, BoolArray]:
        """Returns each row's pattern, and a mask of its numbers that are not atoms.

        Patterns are hashed to 64 bits; two that collide share a count, which costs power and nothing else.
        """
        keys = ordinal(real)
        codes, free = np.zeros(len(real), dtype=np.uint64), np.ones(real.shape, dtype=bool)
        for slot, values in enumerate(self.values):
            found = np.zeros(len(real), dtype=np.uint64)
            if len(values):
                at = np.searchsorted(values, keys[:, slot])
                hit = values[np.minimum(at, len(values) - 1)] == keys[:, slot]
                free[:, slot] = ~hit
                found[hit] = at[hit].astype(np.uint64) + np.uint64(1)
            codes = (codes ^ found) * _MULTIPLIER
            codes ^= codes >> np.uint64(29)
        return codes, free


@frozen(eq=False)
class Table:
    """Counts of patterns on both data sets, as a score of outputs.

    Attributes:
      codes: of the patterns, increasing.
      counts: shape (2, patterns).
      totals: number of outputs of each data set.
      alone: score of single numbers.
      within: for some patterns, the columns that are not atoms, and the score of their numbers.
    """

    atoms: Atoms
    codes: CodeArray
    counts: FloatArray
    totals: FloatArray
    alone: Bayes
    within: dict[int, tuple[IntArray, Bayes]]

    def __call__(self, real: FloatArray) -> FloatArray:
        codes, _ = self.atoms.patterns(real)
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        seen = self.codes[at] == codes
        counts = np.where(seen, self.counts[:, at], 0.0)
        size = np.log(self.totals[0] / self.totals[1])
        share = special.expit(np.clip(self.alone(real), -30, 30) + size)
        total = np.log((counts[0] + _WEIGHT * share) / (counts[1] + _WEIGHT * (1 - share))) - size
        for index, (columns, score) in self.within.items():
            rows = np.flatnonzero(seen & (at == index))
            ratio = np.log(self.counts[0, index] / self.counts[1, index]) - size
            total[rows] = ratio + score(real[np.ix_(rows, columns)])
        return np.asarray(total)


def fit_table(pair: Pair, rng: np.random.Generator) -> Table | None:
    """Returns the table of the rounded blocks of both data sets; None if hardly any pattern recurs."""
    atoms = Atoms.of(pair)
    if atoms is None:
        return None
    found = [atoms.patterns(block) for block in pair]
    codes, inverse = np.unique(np.concatenate([own for own, _ in found]), return_inverse=True)
    first = len(pair[0])
    counts = np.array([np.bincount(part, minlength=len(codes)) for part in (inverse[:first], inverse[first:])])
    if counts.sum(axis=0)[inverse].mean() < 4:
        return None
    within = {}
    for index in np.argsort(-counts.sum(axis=0), kind="stable")[:_MOST_WITHIN].tolist():
        if counts[:, index].min() < _LEAST_WITHIN:
            continue
        rows = np.flatnonzero(inverse[:first] == index), np.flatnonzero(inverse[first:] == index)
        columns = np.flatnonzero(found[0][1][rows[0][0]])
        if len(columns):
            own = pair[0][np.ix_(rows[0], columns)], pair[1][np.ix_(rows[1], columns)]
            within[index] = (columns, fit_bayes(own, rng))
    totals = counts.sum(axis=1).astype(np.float64)
    return Table(atoms, codes, counts.astype(np.float64), totals, fit_bayes(pair, rng), within)
