"""Sums of cells that ``CellCounts`` measures: what a family of them has to say, and two families beside the tree.

A family is a matrix A of whole numbers in units u. ``CellCounts`` publishes A·h plus noise for counts h, and reads the
counts that agree best with it: x = (AᵀA)⁻¹Aᵀ·y for noise of equal variance. Where the number N of records is public,
x + (AᵀA)⁻¹1·(N − 1ᵀx)/(1ᵀ(AᵀA)⁻¹1) is the best linear one that adds up to it.
"""

from __future__ import annotations

import hashlib
import math
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from attrs import frozen

from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.streams.factor_encoders import UNIT, Toeplitz
from hockeystick.mechanisms.streams.factorisations import square_root

Queries = Literal["thresholds", "intervals"]

MOST_OPTIMISED = 512
MOST_ROOT = 1 << 14  # the work grows with its square
MOST_RECORDS = 2**36  # in sums of whole numbers of units: they fit in 53 bits
_STORED = tuple(2**power for power in range(4, 10))
_FILE = Path(__file__).with_name("optimised_sums.npz")
DIGEST = "cbdfc2393e2645c6af7b07deb2c856fb0c684f8b694f94b1927e2a12492a3188"
"""The SHA-256 of the weights; ``python -m benchmarks.learners.cell_strategies`` makes them and prints it."""


class CellSums(Protocol):
    """A family of sums over k cells."""

    @property
    def unit(self) -> float:
        """The value of one step of the whole numbers that are published."""

    @property
    def measurements(self) -> int:
        """The number of sums."""

    def distance(self, *, squares: bool) -> float:
        """Returns the largest distance of neighbours' sums, in units and in L1, or in L2 if ``squares``."""

    def farthest(self) -> tuple[int, int]:
        """Returns the cells between which a record moves the sums the farthest; the first alone for one more record."""

    def of(self, counts: IntArray) -> IntArray:
        """Returns the sums of counts (k,), in units."""

    def fit(self, noisy: FloatArray, total: float = 0.0) -> FloatArray:
        """Returns the best linear counts (runs, k) for noisy sums (runs, measurements), which are not in units."""


@frozen(slots=False)
class OptimisedSums:
    """Each cell with a weight d_i, and k/16 weighted sums of cells, with the least mean square error that was found.

    A = [I; Θ]·D, with D such that the weights of a cell add up to 1 (McKenna, Miklau, Hay & Machanavajjhala 2018, who
    call it p-Identity). The weights are multiples of 2^-16, for 16, 32, … 512 cells; fewer cells are the first ones.
    Distances are those of the stored whole numbers, the largest over all cells or pairs of cells.

    Attributes:
        cells: k, up to 512.
        total_known: The sum of all cells is known; the weights are others then.
        queries: The answers whose mean square error is small.
    """

    cells: int
    total_known: bool
    queries: Queries

    @property
    def unit(self) -> float:
        """2^-16."""
        return UNIT

    @cached_property
    def weights(self) -> IntArray:
        """A in units, shape (measurements, k)."""
        size = next(size for size in _STORED if size >= self.cells)
        found = stored()[name_of(size, self.total_known, self.queries)][:, : self.cells].astype(np.int64)
        sums = found[1:][found[1:].any(axis=1)]
        return np.concatenate([np.diag(found[0]), sums])

    @property
    def measurements(self) -> int:
        """The number of sums."""
        return len(self.weights)

    def distance(self, *, squares: bool) -> float:
        """Returns the largest distance of neighbours' sums in L1, in units, exactly; L2 is not needed."""
        if squares:
            raise NotImplementedError("noise on optimised sums is Laplace noise")
        return float(_distance(self)[0])

    def farthest(self) -> tuple[int, int]:
        """Returns the cells between which a record moves the sums the farthest; the first alone for one more record."""
        return _distance(self)[1:]

    def of(self, counts: IntArray) -> IntArray:
        """Returns the sums of counts (k,), in units; counts beyond 2^36 are clipped, which moves none apart."""
        return np.asarray(self.weights @ np.minimum(counts, MOST_RECORDS))

    def fit(self, noisy: FloatArray, total: float = 0.0) -> FloatArray:
        """Returns the best linear counts (runs, k) for noisy sums (runs, measurements)."""
        inverse, rest = self._solution
        found = noisy @ inverse.T
        if self.total_known:
            found = found + rest * (total - found.sum(axis=1, keepdims=True))
        return np.asarray(found)

    @cached_property
    def _solution(self) -> tuple[FloatArray, FloatArray]:
        a = self.weights * UNIT
        inverse = np.linalg.inv(a.T @ a)
        spread = inverse.sum(axis=0)
        return inverse @ a.T, spread / spread.sum()


@lru_cache(maxsize=64)
def _distance(of: OptimisedSums) -> tuple[int, int, int]:
    a = of.weights
    if not of.total_known:
        lengths = a.sum(axis=0)  # no weight is negative
        return int(lengths.max()), int(lengths.argmax()), 0
    apart = np.array([np.abs(a - a[:, i : i + 1]).sum(axis=0) for i in range(of.cells)])
    first, second = np.unravel_index(int(apart.argmax()), apart.shape)
    return int(apart.max()), int(first), int(second)


@frozen(slots=False)
class RootSums:
    """The square root of the prefix sums, a filter: A_ij = c_(i−j) with c_l = binom(2l, l)/4^l, multiples of 2^-16.

    Its largest variance of a prefix is near the least (Fichtenberger, Henzinger & Upadhyay 2023), in L2.

    Attributes:
        cells: k, up to 2^14.
        total_known: The sum of all cells is known.
    """

    cells: int
    total_known: bool

    @property
    def unit(self) -> float:
        """2^-16."""
        return UNIT

    @property
    def measurements(self) -> int:
        """The number of sums: k."""
        return self.cells

    @cached_property
    def _root(self) -> Toeplitz:
        return square_root(self.cells)

    @cached_property
    def _filter(self) -> IntArray:
        column = np.zeros(self.cells, dtype=np.int64)
        column[: len(self._root.coefficients)] = np.rint(np.array(self._root.coefficients) / UNIT)
        return column

    def distance(self, *, squares: bool) -> float:
        """Returns the largest distance of neighbours' sums in L2, in units, rounded up; L1 is not needed.

        A record in cell i moves the sums by c, shifted by i. If it goes to the cell i + d instead, they move by
        Σ_{l < k−i} (c_l − c_(l−d))² in squares, which is the largest for i = 0.
        """
        if not squares:
            raise NotImplementedError("noise on the square root is Gaussian noise")
        return math.sqrt(int(self._squares.max())) * (1 + 2.0**-50)  # the root and its argument are rounded

    def farthest(self) -> tuple[int, int]:
        """Returns the cells between which a record moves the sums the farthest; the first alone for one more record."""
        return 0, int(self._squares.argmax()) + 1

    @cached_property
    def _squares(self) -> IntArray:
        c = self._filter
        lengths = np.cumsum(c * c)
        if not self.total_known:
            return lengths[-1:]
        products = np.correlate(c, c, mode="full")[self.cells :]  # of c with its shifts by 1 … k − 1
        return np.asarray(lengths[-1] + lengths[-2::-1] - 2 * products)

    def of(self, counts: IntArray) -> IntArray:
        """Returns the sums of counts (k,), in units; counts beyond 2^36 are clipped, which moves none apart."""
        return np.convolve(np.minimum(counts, MOST_RECORDS), self._filter)[: self.cells]

    def fit(self, noisy: FloatArray, total: float = 0.0) -> FloatArray:
        """Returns the best linear counts (runs, k) for noisy sums (runs, measurements)."""
        prefixes = self._root.decode(noisy[:, :, None])[:, :, 0]
        if self.total_known:
            prefixes = prefixes + self._spread * (total - prefixes[:, -1:])
        return np.diff(prefixes, axis=1, prepend=0.0)

    @cached_property
    def _spread(self) -> FloatArray:
        """Covariances of the prefixes with the last one, over its variance: B·Bᵀe_k, for B of the decoder."""
        last = self._root.noise_filter()[::-1]
        found = self._root.decode(last[None, :, None])[0, :, 0]
        return np.asarray(found / found[-1])


def name_of(cells: int, total_known: bool, queries: Queries) -> str:
    """Returns the name of stored weights."""
    return f"{queries}-{'replace' if total_known else 'add'}-{cells}"


@lru_cache(maxsize=1)
def stored() -> dict[str, IntArray]:
    """Returns all stored weights by name: in the first row those of the cells, then Θ·D, in units of 2^-16.

    Raises:
        NumericalError: The file has other weights than this version.
    """
    with np.load(_FILE, allow_pickle=False) as file:
        found = {name: file[name] for name in sorted(file.files)}
    if digest_of(found) != DIGEST:
        raise NumericalError(f"{_FILE.name} is damaged: install hockeystick again")
    return found


def digest_of(weights: dict[str, IntArray]) -> str:
    """Returns the SHA-256 of weights by name."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode())
        found.update(weights[name].astype("<u4").tobytes())
    return found.hexdigest()
