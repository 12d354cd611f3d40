"""Sums of a table that ``Marginals`` measures, and the answers that follow from noisy ones.

A table with columns of n_1, …, n_d values has a count for each combination, h. The marginal of some columns B is h
summed over the others. It is a sum of *residuals*, one for each set A ⊆ B: r_A = ⊗_(i∈A)(I − 11ᵀ/n_i) of the marginal
of A, spread evenly over the other columns of B. Residuals of different sets are orthogonal.

What is measured is a list of blocks, each with independent noise of equal variance σ²:

- "separate" and "full": the marginals that were asked for, or the whole table. One with columns C ⊇ A says r_A with
  noise of covariance σ²·Π_(C∖A) n_j · ⊗_A(I − 11ᵀ/n_i). The best linear estimate weights all of them by the inverse.
- "residual": r_A itself for each A, with noise of covariance s_A·⊗_A(I − 11ᵀ/n_i), s_A = σ²/w_A². It has a smaller cost
  for Gaussian noise (Xiao, Wang, Wang, Ding & Kifer 2023). It is measured as whole numbers: orthogonal contrasts
  H_i of n_i − 1 rows (1, …, 1, −j, 0, …), whose noise is independent, times whole weights w_A/‖row‖, rounded down.

A record moves r_A by Π(1 − 1/n_i) in squares; one that is replaced by another that differs in the columns S by
2·(Π_A(1 − 1/n_i) − Π_(A∩S)(−1/n_i)·Π_(A∖S)(1 − 1/n_i)). Both are weighted by w_A² and added up, for the worst S.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from typing import Literal

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray, IntArray

Strategy = Literal["separate", "full", "residual"]
Columns = tuple[int, ...]

UNIT = 2.0**-24  # of weights
MOST_RECORDS = 2**28  # weighted sums of whole numbers fit in 53 bits; larger counts are clipped, which moves none apart
_AT_ONCE = 1 << 12  # sets of columns
_EVEN = 1 + 1e-12  # for rounding: sums of at most 2^11 terms that are right to 1e-14 of the largest


def subsets(columns: Columns) -> Iterator[Columns]:
    """Yields all sets of some columns, the smallest first."""
    for size in range(len(columns) + 1):
        yield from itertools.combinations(columns, size)


@frozen(slots=False)
class MarginalSums:
    """The sums that are measured for marginals of a table.

    Attributes:
        sizes: The number of values of each column.
        asked: The columns of each marginal that is to be answered, in ascending order.
        total_known: The number of records is public.
        strategy: "separate", "full" or "residual".
        weights: Those of the residuals, in units of 2^-24 and in the order of ``residuals``; "residual" alone.
    """

    sizes: tuple[int, ...]
    asked: tuple[Columns, ...]
    total_known: bool
    strategy: Strategy
    weights: tuple[int, ...] = ()

    @cached_property
    def residuals(self) -> tuple[Columns, ...]:
        """The sets A whose residuals make up what is asked; the empty one only if the total is not known."""
        found = {one for columns in self.asked for one in subsets(columns)}
        kept = found - {()} if self.total_known else found
        return tuple(sorted(kept, key=lambda one: (len(one), one)))

    @property
    def blocks(self) -> tuple[Columns, ...]:
        """The columns of each measured block."""
        if self.strategy == "residual":
            return self.residuals
        return (tuple(range(len(self.sizes))),) if self.strategy == "full" else self.asked

    def shape(self, columns: Columns) -> tuple[int, ...]:
        """The shape of a measured block."""
        less = 1 if self.strategy == "residual" else 0
        return tuple(self.sizes[i] - less for i in columns)

    @cached_property
    def measurements(self) -> int:
        """The number of measured sums."""
        return sum(math.prod(self.shape(columns)) for columns in self.blocks)

    def distance(self, *, squares: bool) -> float:
        """Returns a bound on the distance of neighbours' sums, in L1 or in L2 if ``squares``.

        It is the largest distance, but for the rounding of weights, by which residuals are nearer. Residuals have no
        L1.
        """
        if self.strategy == "residual":
            return _residual_distance(self)
        moved = sum(any(self.sizes[i] > 1 for i in columns) for columns in self.blocks)
        moved = 2 * moved if self.total_known else len(self.blocks)
        return math.sqrt(moved) if squares else float(moved)

    def farthest(self) -> Columns:
        """Returns 1 for each column in which two records differ whose sums are the farthest apart, otherwise 0."""
        able = [i for i, size in enumerate(self.sizes) if size > 1]
        found = np.array([size > 1 for size in self.sizes], dtype=np.int64)
        if self.strategy == "residual" and self.total_known:
            squares = np.array(self.weights, dtype=float) ** 2
            moved = [products @ squares for products in moved_products(self.sizes, self.residuals)]
            bits = int(np.concatenate(moved).argmax())
            found[able] = (bits >> np.arange(len(able))) & 1
        return tuple(found.tolist())

    @property
    def least_scale(self) -> int:
        """The least weight of a contrast, in units; 2^24 if there are none."""
        return min((int(scale.min()) for scale in self._scales.values() if scale.size), default=round(1 / UNIT))

    def of(self, codes: IntArray) -> FloatArray:
        """Returns the measured sums of records (n, columns) with codes from 0."""
        found = []
        for columns in self.blocks:
            counts = np.minimum(table_of(codes, self.sizes, columns), MOST_RECORDS).astype(float)
            if self.strategy == "residual":
                counts = self._contrasts(counts, columns) * self._scales[columns] * UNIT
            found.append(counts.ravel())
        return np.concatenate(found)

    def fit(self, noisy: FloatArray) -> dict[Columns, FloatArray]:
        """Returns the best linear estimates (runs, …) of all residuals, for noisy sums (runs, measurements)."""
        runs = len(noisy)
        ends = np.cumsum([math.prod(self.shape(columns)) for columns in self.blocks])[:-1]
        parts = zip(self.blocks, np.split(noisy, ends, axis=1), strict=True)
        if self.strategy == "residual":
            return {columns: self._undone(part.reshape(runs, *self.shape(columns)), columns) for columns, part in parts}
        found: dict[Columns, FloatArray] = {}
        for columns, part in parts:
            block = part.reshape(runs, *self.shape(columns))
            for one in self.residuals:
                if set(one) <= set(columns):
                    weight = 1.0 / (self._spread(columns, one) * self._precision(one))
                    found[one] = found.get(one, 0.0) + weight * self._centred(block, columns, one)
        return found

    def answer(self, columns: Columns, residuals: Mapping[Columns, FloatArray], total: float = 0.0) -> FloatArray:
        """Returns the marginal (runs, …) of some columns from residuals; ``total`` counts where it is known."""
        runs = len(next(iter(residuals.values())))
        found = np.full((runs, *(self.sizes[i] for i in columns)), total / math.prod(self.sizes[i] for i in columns))
        for one in subsets(columns):
            if one in residuals:
                shape = tuple(self.sizes[i] if i in one else 1 for i in columns)
                found += residuals[one].reshape(runs, *shape) / self._spread(columns, one)
        return found

    def variance(self, columns: Columns) -> float:
        """Returns the variance of each cell of a marginal for noise of variance 1, weights not being rounded."""
        found = 0.0
        for one in subsets(columns):
            if one in self.residuals:
                share = math.prod(1.0 - 1.0 / self.sizes[i] for i in one)
                found += share / (self._precision(one) * self._spread(columns, one) ** 2)
        return found

    def _precision(self, one: Columns) -> float:
        """1/s for the covariance s·⊗(I − 11ᵀ/n_i) of an estimated residual and noise of variance 1."""
        if self.strategy == "residual":
            return (self.weights[self.residuals.index(one)] * UNIT) ** 2
        return sum(1.0 / self._spread(columns, one) for columns in self.blocks if set(one) <= set(columns))

    def _spread(self, columns: Columns, one: Columns) -> float:
        return float(math.prod(self.sizes[i] for i in columns if i not in one))

    def _centred(self, block: FloatArray, columns: Columns, one: Columns) -> FloatArray:
        found = block.sum(axis=tuple(1 + at for at, i in enumerate(columns) if i not in one))
        for axis in range(1, found.ndim):
            found = found - found.mean(axis=axis, keepdims=True)
        return np.asarray(found)

    def _contrasts(self, counts: FloatArray, columns: Columns) -> FloatArray:
        for axis, i in enumerate(columns):
            counts = np.moveaxis(np.tensordot(contrasts(self.sizes[i]), counts, (1, axis)), 0, axis)
        return counts

    def _undone(self, part: FloatArray, columns: Columns) -> FloatArray:
        found = part / (self._scales[columns] * UNIT)
        for axis, i in enumerate(columns, 1):
            rows = contrasts(self.sizes[i])
            inverse = rows / (rows**2).sum(axis=1, keepdims=True)
            found = np.moveaxis(np.tensordot(inverse, found, (0, axis)), 0, axis)
        return np.asarray(found)

    @cached_property
    def _scales(self) -> dict[Columns, FloatArray]:
        """The weight of each contrast, a whole number of units, at most that of its residual over its length."""
        found = {}
        for columns, weight in zip(self.residuals, self.weights, strict=True):
            squares = [(contrasts(self.sizes[i]) ** 2).sum(axis=1) for i in columns]
            lengths = reduce(np.multiply.outer, squares, np.ones(()))  # whole
            found[columns] = np.floor(weight / np.sqrt(lengths) * (1 - 2.0**-50))
        return found


@lru_cache(maxsize=256)
def contrasts(size: int) -> FloatArray:
    """Returns orthogonal rows (size − 1, size) of whole numbers that add up to 0: j ones, then −j."""
    found = np.tril(np.ones((size, size)))[:-1]
    j = np.arange(1, size)
    found[j - 1, j] = -j
    return found


def table_of(codes: IntArray, sizes: Sequence[int], columns: Columns) -> IntArray:
    """Returns the counts of all combinations of some columns' values."""
    place = np.zeros(len(codes), dtype=np.int64)
    for i in columns:
        place *= sizes[i]
        place += codes[:, i]
    shape = tuple(sizes[i] for i in columns)
    return np.bincount(place, minlength=math.prod(shape)).reshape(shape)


@lru_cache(maxsize=64)
def _residual_distance(of: MarginalSums) -> float:
    squares = np.array(of.weights, dtype=float) ** 2
    own = np.array([math.prod(1.0 - 1.0 / of.sizes[i] for i in one) for one in of.residuals])
    if not of.total_known:
        return math.sqrt(float(squares @ own) * _EVEN) * UNIT
    worst = max(float((products @ squares).max()) for products in moved_products(of.sizes, of.residuals))
    return math.sqrt(2.0 * worst * _EVEN) * UNIT


def moved_products(sizes: Sequence[int], residuals: Sequence[Columns], most: int | None = None) -> Iterator[FloatArray]:
    """Yields half the squared moves (sets, residuals) of all residuals, for sets S of columns that a record changes.

    A column with one value is in no S.

    Args:
        sizes: The number of values of each column.
        residuals: Their columns.
        most: S has at most so many columns, or all but so many; by default S is any set.
    """
    able = [i for i, size in enumerate(sizes) if size > 1]
    n = np.array(sizes, dtype=float)
    own = np.array([math.prod(1.0 - 1.0 / n[i] for i in one) for one in residuals])
    for start in range(0, 1 << len(able), _AT_ONCE):
        which = np.arange(start, min(start + _AT_ONCE, 1 << len(able)))
        bits = (which[:, None] >> np.arange(len(able))) & 1 == 1
        if most is not None:
            changed = bits.sum(axis=1)
            bits = bits[(changed <= most) | (changed >= len(able) - most)]
        factors = np.tile(1.0 - 1.0 / n, (len(bits), 1))
        factors[:, able] = np.where(bits, -1.0 / n[able], factors[:, able])
        after = np.stack([factors[:, list(one)].prod(axis=1) for one in residuals], axis=1)
        yield own - after
