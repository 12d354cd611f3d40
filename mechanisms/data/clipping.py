"""Transforms of data before noise is added, with their stability: clipped numbers and vectors, and their sums.

A transform is called with data and returns the input of a mechanism. Its ``stability(adjacency)``, which
``AccountantGraph.transform`` takes, is the largest distance of its results per record by which two data sets differ.

The sensitivity is exact. Floating-point sums do not have the sensitivity of sums of real numbers (Casacuberta, Shoate,
Vadhan & Wagaman 2022); so entries are rounded to a public grid and added as whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
    UnsupportedAdjacencyError,
    validate,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness import noise_on_a_grid

Stability = dict[tuple[str, str], float]
"""{(norm in, norm out): factor}, the format of a graph's transforms."""

_GRID = 2.0**-26  # of the bound: sums of 2^26 rows are exact floats
_EXACT = 2**53
_ROW_BY_ROW: Stability = {("records", "records"): 1.0}


def _bound(name: str, value: float) -> float:
    return validate.real(name, value, low=-(2.0**900), high=2.0**900)


def _low(value: float) -> float:
    return _bound("low", value)


def _high(value: float) -> float:
    return _bound("high", value)


def _radius(value: float) -> float:
    return validate.real("bound", value, low=2.0**-900, high=2.0**900)


def _norm(value: str) -> str:
    return validate.one_of("norm", value, "l1", "l2", "linf")


def _records(value: int) -> int:
    return validate.integer("records", value, low=1, high=2**40)


_CURATED = (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL, Adjacency.REPLACE_ONE)


def refuse(what: str, adjacency: Adjacency, remedy: str) -> UnsupportedAdjacencyError:
    """Returns the error for a relation under which a transform has no stability."""
    relation = adjacency.value if isinstance(adjacency, Adjacency) else repr(adjacency)
    return UnsupportedAdjacencyError(f"{what} has no stability under {relation}: {remedy}")


def up(number: Fraction) -> float:
    """Returns the least float that is at least ``number``."""
    found = float(number)
    return found if Fraction(found) >= number else math.nextafter(found, math.inf)


def _step(grid: float | None, bound: float) -> float:
    if bound < 2.0**-870:
        raise InvalidArgumentError("bound", bound, "is too small for a grid", "use other units")
    step = noise_on_a_grid.grid(grid) if grid is not None else math.ldexp(0.5, math.frexp(bound)[1]) * _GRID
    assert step is not None
    if not 1.0 <= bound / step <= 2.0**31:
        raise InvalidArgumentError("grid", grid, "does not fit the bound", f"try {bound * _GRID:g} rounded to 2^k")
    return step


def _in_units(total: IntArray, step: float) -> NDArray[np.float64] | IntArray:
    return total if step == 1.0 else np.asarray(total.astype(np.float64) * step)


def _check_count(name: str, rows: int, largest: int) -> None:
    if rows * largest > _EXACT:
        raise InvalidDataError(name, rows, "are too many rows for an exact sum", "use a coarser grid")


@frozen
class ClipNumbers:
    """A transform that clips every number to [low, high].

    Raises:
      InvalidArgumentError: an end is not finite, or ``low`` is not below ``high``.

    Example:
      >>> from hockeystick.mechanisms import ClipNumbers
      >>> ClipNumbers(0.0, 100.0)([-3.0, 42.0, 500.0])
      array([  0.,  42., 100.])
    """

    low: float = field(converter=_low)
    high: float = field(converter=_high)

    def __attrs_post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidArgumentError("high", self.high, f"is not above low={self.low!r}", "give low < high")

    def __call__(self, values: ArrayLike) -> FloatArray:
        """Returns the clipped numbers, in an array of the same shape.

        Raises:
          InvalidDataError: a number is NaN or infinite; map missing values to a number first, record by record.
        """
        return np.asarray(np.clip(validate.array("values", values, data=True), self.low, self.high))

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns 1: a record stays a record, and clipping increases the distance of two arrays in no norm."""
        return {**_ROW_BY_ROW, ("l1", "l1"): 1.0, ("l2", "l2"): 1.0, ("linf", "linf"): 1.0}


@frozen
class ClipNorm:
    """A transform that scales every row of (rows, entries) down to a norm of at most ``bound``; L∞ clips every entry.

    The exact norm of a returned row is at most the bound, because rounding is downwards: rows with exactly this norm
    may lose about one part in 10^15, unless they are whole numbers.

    Args:
      bound: the largest norm.
      norm: "l1", "l2" or "linf".

    Raises:
      InvalidArgumentError: ``bound`` is not finite and positive, or the norm is unknown.

    Example:
      >>> from hockeystick.mechanisms import ClipNorm
      >>> ClipNorm(5.0)([[3.0, 4.0], [30.0, 40.0]]).round(3)
      array([[3., 4.],
             [3., 4.]])
    """

    bound: float = field(converter=_radius)
    norm: str = field(default="l2", converter=_norm, kw_only=True)

    def __call__(self, rows: ArrayLike) -> FloatArray:
        """Returns the clipped rows.

        Raises:
          InvalidDataError: ``rows`` is not an array of rows, or an entry is NaN or infinite.
        """
        given = validate.array("rows", rows, ndim=2, data=True)
        if self.norm == "linf" or not given.size:
            return np.asarray(np.clip(given, -self.bound, self.bound))
        slack = (given.shape[1] + 8) * 2.0**-52  # twice the rounding error of a sum of so many terms, and more
        if slack > 0.01:
            raise InvalidDataError("rows", given, "have too many entries", "clip parts of them")
        found = np.empty_like(given)
        for part in arguments.blocks(len(given), given.shape[1]):
            found[part] = self._scaled_down(given[part], slack)
        return found

    def _scaled_down(self, rows: FloatArray, slack: float) -> FloatArray:
        # In units of a power of two close to the largest entry, nothing overflows.
        exponents = np.frexp(np.abs(rows).max(axis=1))[1]
        scaled = np.ldexp(rows, -exponents[:, None])
        size = _lengths(scaled, self.norm)
        with np.errstate(over="ignore", under="ignore"):
            inside = size * (1.0 + slack) <= np.ldexp(self.bound, -exponents)
        inside |= self._whole_and_inside(rows)
        factor = self.bound * (1.0 - 3 * slack) / np.where(size > 0.0, size, 1.0)
        return np.where(inside[:, None], rows, scaled * factor[:, None])

    def _whole_and_inside(self, rows: FloatArray) -> NDArray[np.bool_]:
        """A mask of the rows of whole numbers within the bound; their norm is computed without rounding."""
        whole: NDArray[np.bool_] = (rows == np.rint(rows)).all(axis=1)
        small = np.where(whole[:, None] & (np.abs(rows) < 2.0**53), rows, 0.0)
        measure = np.abs(small).sum(axis=1) if self.norm == "l1" else (small * small).sum(axis=1)
        exact = Fraction(self.bound) ** (1 if self.norm == "l1" else 2)
        limit = float(min(math.floor(exact), _EXACT - 1))
        return np.asarray(whole & (small == rows).all(axis=1) & (measure <= limit))

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns 1: a record stays a record."""
        return dict(_ROW_BY_ROW)


def _lengths(rows: FloatArray, norm: str) -> FloatArray:
    return np.asarray(np.abs(rows).sum(axis=1) if norm == "l1" else np.sqrt((rows * rows).sum(axis=1)))


@frozen
class ClippedSum:
    """A transform to the exact sum of numbers, each clipped to [low, high] and rounded to the grid.

    Args:
      low, high: the range of a record; the ends are rounded inwards to the grid.
      grid: the step of the grid, a power of two; by default 2^-26 of the larger end, so that 67 million records can be
        added. With a step of 1 the sum is an int.

    Raises:
      InvalidArgumentError: the range is empty or holds no point of the grid, or the grid is not a power of two.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import ClippedSum
      >>> total = ClippedSum(-10.0, 100.0)
      >>> total([-3.0, 42.0, 500.0])
      139.0
      >>> total.sensitivity(Adjacency.ADD_OR_REMOVE_ONE), total.sensitivity(Adjacency.REPLACE_ONE)
      (100.0, 110.0)
    """

    low: float = field(converter=_low)
    high: float = field(converter=_high)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        ClipNumbers(self.low, self.high)
        _, least, most = self._ends()
        if least > most:
            raise InvalidArgumentError("grid", self.grid, "has no point between low and high", "use a finer one")

    def __call__(self, values: ArrayLike) -> float | int:
        """Returns the sum of numbers of shape (records,).

        Raises:
          InvalidDataError: a number is NaN or infinite, or there are too many for the grid.
        """
        step, total = self._whole_sum(values)
        return total if step == 1.0 else total * step

    def _whole_sum(self, values: ArrayLike) -> tuple[float, int]:
        numbers = validate.array("values", values, ndim=1, data=True)
        step, least, most = self._ends()
        _check_count("values", len(numbers), max(-least, most))
        with np.errstate(over="ignore"):
            return step, int(np.clip(np.rint(numbers / step), least, most).astype(np.int64).sum())

    def _ends(self) -> tuple[float, int, int]:
        step = _step(self.grid, max(-self.low, self.high))
        return step, math.ceil(self.low / step), math.floor(self.high / step)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Returns the largest change of the sum when one record changes; it is attained.

        Under replace-with-null a null record adds nothing, or 0 clipped to the range.

        Raises:
          UnsupportedAdjacencyError: under local adjacency, which has no curator who adds up.
        """
        step, least, most = self._ends()
        if adjacency is Adjacency.REPLACE_ONE:
            return (most - least) * step
        if arguments.is_among(adjacency, Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL):
            return max(-least, most) * step
        raise refuse("a sum", adjacency, "it needs a curator")

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns the sensitivity, in every norm."""
        factor = self.sensitivity(adjacency)
        return {("records", norm): factor for norm in ("l1", "l2", "linf")}


@frozen
class ClippedMean:
    """A transform to the mean of a public number of records, each clipped to [low, high] and rounded to the grid.

    It is for relations that preserve the number of records. Under add-or-remove-one release a ``ClippedSum`` and a
    count, and divide the outputs.

    Args:
      records: the public number of records.
      low, high, grid: see ``ClippedSum``.

    Raises:
      InvalidArgumentError: as ``ClippedSum``, or ``records`` is not an integer ≥ 1.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import ClippedMean
      >>> mean = ClippedMean(0.0, 100.0, records=4)
      >>> mean([-3.0, 42.0, 500.0, 18.0]), round(mean.sensitivity(Adjacency.REPLACE_ONE), 6)
      (40.0, 25.0)
    """

    low: float = field(converter=_low)
    high: float = field(converter=_high)
    records: int = field(converter=_records, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._sum()

    def _sum(self) -> ClippedSum:
        return ClippedSum(self.low, self.high, grid=self.grid)

    def __call__(self, values: ArrayLike) -> float:
        """Returns the mean of numbers of shape (records,).

        Raises:
          InvalidDataError: a number is NaN or infinite, or their number is not ``records``.
        """
        numbers = validate.array("values", values, shape=(self.records,), data=True)
        step, total = self._sum()._whole_sum(numbers)
        return total * step / self.records  # one rounding, which the sensitivity includes

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Returns the largest change of the mean when one record changes, including the rounding of the division.

        Raises:
          UnsupportedAdjacencyError: the relation changes the number of records, or is local.
        """
        if not arguments.is_among(adjacency, Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise refuse("a mean", adjacency, "release a ClippedSum and a count, and divide the outputs")
        change = Fraction(self._sum().sensitivity(adjacency)) / self.records
        return up(change + Fraction(max(-self.low, self.high)) / 2**52)

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns the sensitivity, in every norm."""
        factor = self.sensitivity(adjacency)
        return {("records", norm): factor for norm in ("l1", "l2", "linf")}


@frozen
class ClippedVectorSum:
    """A transform to the exact sum of rows, each clipped to a norm of at most ``bound`` and rounded to the grid.

    A row is rounded to the nearest point of the grid, or towards 0 where that would leave the ball.

    Args:
      bound: the largest norm of a row.
      norm: "l1", "l2" or "linf".
      grid: the step of the grid, a power of two; by default 2^-26 of the bound, so that 67 million rows can be added.
        With a step of 1 the sum is of whole numbers.

    Raises:
      InvalidArgumentError: as ``ClipNorm``, or the grid is not a power of two or coarser than the bound.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import ClippedVectorSum
      >>> total = ClippedVectorSum(5.0)
      >>> total([[3.0, 4.0], [30.0, 40.0]]).round(6)
      array([6., 8.])
      >>> total.stability(Adjacency.REPLACE_ONE)
      {('records', 'l2'): 10.0, ('records', 'linf'): 10.0}
    """

    bound: float = field(converter=_radius)
    norm: str = field(default="l2", converter=_norm, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _step(self.grid, self.bound)

    def __call__(self, rows: ArrayLike) -> FloatArray | IntArray:
        """Returns the sum of (rows, entries), of shape (entries,).

        Raises:
          InvalidDataError: ``rows`` is not an array of rows, an entry is NaN or infinite, or there are too many rows.
        """
        given = validate.array("rows", rows, ndim=2, data=True)
        step, clip = _step(self.grid, self.bound), ClipNorm(self.bound, norm=self.norm)
        _check_count("rows", len(given), math.ceil(self.bound / step))
        total = np.zeros(given.shape[1], dtype=np.int64)
        for part in arguments.blocks(len(given), given.shape[1]):
            total += self._rounded(clip(given[part]) / step, step).sum(axis=0)
        return _in_units(total, step)

    def _rounded(self, inside: FloatArray, step: float) -> IntArray:
        nearest = np.rint(inside).astype(np.int64)
        if self.norm == "linf":
            measure, power = np.abs(nearest).max(axis=1, initial=0), 1
        elif self.norm == "l1":
            measure, power = np.abs(nearest).sum(axis=1), 1
        else:
            measure, power = (nearest * nearest).sum(axis=1), 2
        beyond = measure > math.floor((Fraction(self.bound) / Fraction(step)) ** power)
        return np.where(beyond[:, None], np.trunc(inside).astype(np.int64), nearest)

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns the largest change of the sum, bound or 2·bound, in ``norm`` and in all smaller norms.

        Raises:
          UnsupportedAdjacencyError: under local adjacency, which has no curator who adds up.
        """
        if not arguments.is_among(adjacency, *_CURATED):
            raise refuse("a sum", adjacency, "it needs a curator")
        factor = self.bound * (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0)
        norms = ("l1", "l2", "linf")
        return {("records", norm): factor for norm in norms[norms.index(self.norm) :]}
