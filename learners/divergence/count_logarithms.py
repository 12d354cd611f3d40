"""From a private count to the logarithm of a frequency, and what one record more does to it.

The logarithm of an observed frequency is infinite at count 0, so that a release of it is private only if something is
done about it. Three ways, of which the first two hold for every data set:

* :class:`Smoothed`: a public pseudo-count a is added to every cell, P(x) = (h(x) + a)/(N + a k).
* :class:`Harmonic`: ln P(x) is estimated by psi(h + 1) - psi(N + 1) = H_h - H_N, which is finite at h = 0 and unbiased
  up to (1 - p)^(N+1)/((N + 1) p) for h of law Bin(N, p).
* :class:`AssumedCounts`: every count is assumed to be at least h_min in both neighbours. What is built on it is private
  under that assumption alone, and says so.

Neighbouring data sets differ in one record's symbol, or in those of up to ``group`` records (replace-one, N fixed).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import digamma

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import MOST, integer, real

_SUMMED = 64  # terms of a harmonic number
_UP = 1.0 + 2.0**-50  # above the rounding of a logarithm, a quotient and a sum


def _pseudo_count(value: object) -> float:
    return real("pseudo_count", value, low=1e-9, high=1e9)


def _least(value: object) -> int:
    return integer("least", value, low=1)


def _group(value: object) -> int:
    return integer("group", value, low=1, high=MOST)


def _records(value: object) -> int:
    return integer("records", value, low=1, high=MOST)


@frozen
class CountLogarithm(ABC):
    """Base: how a frequency and its logarithm are read off counts, and how far a changed record moves the latter."""

    @abstractmethod
    def mass(self, records: int, symbols: int) -> float:
        """What counts are divided by: P(x) = (h(x) + something)/mass."""

    @abstractmethod
    def frequencies(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        """P(x), of counts of any shape; ``records`` are N, or as many as counts."""

    @abstractmethod
    def logarithms(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        """ln P(x), of counts of any shape."""

    @abstractmethod
    def largest_rise(self, group: int = 1) -> float:
        """The most by which ln P(x) rises where ``group`` records come to x, whatever the data; rounded up.

        Raises:
            InvalidArgumentError: ``group`` is no integer from 1 to 2^53.
        """

    @abstractmethod
    def least_rise(self, records: int) -> float:
        """The least by which ln P(x) rises where a record comes to x, of ``records`` in all; rounded down.

        Raises:
            InvalidArgumentError: ``records`` is no integer from 1 to 2^53.
        """

    @property
    def assumption(self) -> str | None:
        """What has to be assumed of the data; None if nothing has to be."""
        return None


@frozen
class Smoothed(CountLogarithm):
    """Adds a public pseudo-count to every cell.

    Args:
        pseudo_count: a > 0. With a >= 1 a record moves a logarithm by at most ln 2; with a = 0.01 by ln 101.

    Raises:
        InvalidArgumentError: it is not in [1e-9, 1e9].
    """

    pseudo_count: float = field(default=1.0, converter=_pseudo_count)

    def mass(self, records: int, symbols: int) -> float:
        return records + self.pseudo_count * symbols

    def frequencies(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        mass = np.asarray(records) + self.pseudo_count * symbols
        return np.asarray((np.asarray(counts) + self.pseudo_count) / mass)

    def logarithms(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        return np.asarray(np.log(self.frequencies(counts, records, symbols)))

    def largest_rise(self, group: int = 1) -> float:
        return math.log1p(_group(group) / self.pseudo_count) * _UP

    def least_rise(self, records: int) -> float:
        return math.log1p(1.0 / (_records(records) - 1 + self.pseudo_count)) / _UP


@frozen
class Harmonic(CountLogarithm):
    """Takes harmonic numbers for logarithms: no pseudo-count, hardly any bias, and no assumption.

    A record moves a logarithm by 1/(h + 1) <= 1.
    """

    def mass(self, records: int, symbols: int) -> float:
        return float(records)

    def frequencies(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        return np.asarray(np.asarray(counts) / np.asarray(records))

    def logarithms(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        return np.asarray(digamma(np.asarray(counts) + 1.0) - digamma(np.asarray(records) + 1.0))

    def largest_rise(self, group: int = 1) -> float:
        n = _group(group)
        if n <= _SUMMED:
            return math.fsum(1.0 / i for i in range(1, n + 1)) * _UP
        # Euler and Maclaurin's sum up to a positive term: the next one is negative, and at n = 65 below 1e-13.
        return (math.log(n) + np.euler_gamma + 0.5 / n - 1 / (12 * n**2) + 1 / (120 * n**4)) * _UP

    def least_rise(self, records: int) -> float:
        return 1.0 / _records(records) / _UP


@frozen
class AssumedCounts(CountLogarithm):
    """Takes logarithms of counts as they are, none of which is below ``least`` in either neighbour, by assumption.

    Args:
        least: h_min >= 1.

    Raises:
        InvalidArgumentError: it is no integer >= 1.
    """

    least: int = field(converter=_least)

    def mass(self, records: int, symbols: int) -> float:
        return float(records)

    def frequencies(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        found = np.asarray(counts)
        if (found < self.least).any():
            raise InvalidDataError(
                "counts", found, f"break the assumption that all are at least {self.least}", "use Smoothed or Harmonic"
            )
        return np.asarray(found / np.asarray(records))

    def logarithms(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        return np.asarray(np.log(self.frequencies(counts, records, symbols)))

    def largest_rise(self, group: int = 1) -> float:
        return math.log1p(_group(group) / self.least) * _UP

    def least_rise(self, records: int) -> float:
        return math.log1p(1.0 / max(1, _records(records) - 1)) / _UP

    @property
    def assumption(self) -> str:
        return f"every count of every queried symbol is at least {self.least}, in both data sets"


def count_logarithm(value: object) -> CountLogarithm:
    """``value``, if it is one of the three ways.

    Raises:
        InvalidArgumentError: it is not.
    """
    if not isinstance(value, CountLogarithm):
        raise InvalidArgumentError("logarithm", value, "is none", "use Smoothed(), Harmonic() or AssumedCounts(2)")
    return value
