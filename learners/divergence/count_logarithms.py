"""Logarithms of frequencies from private counts, and their sensitivity.

The logarithm of an observed frequency is infinite at count 0, so its release needs one of three rules to be private;
the first two hold for every data set:

* :class:`Smoothed`: a public pseudo-count a is added to every cell, P(x) = (h(x) + a)/(N + a k).
* :class:`Harmonic`: ln P(x) is estimated by psi(h + 1) - psi(N + 1) = H_h - H_N, which is finite at h = 0 and unbiased
  up to (1 - p)^(N+1)/((N + 1) p) for h of law Bin(N, p).
* :class:`AssumedCounts`: every count is assumed to be at least h_min in both neighbours. Estimators with this rule are
  private only under that assumption, and state it.

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
    """Base of the rules: frequencies and their logarithms from counts, and the sensitivity of the logarithms."""

    @abstractmethod
    def mass(self, records: int, symbols: int) -> float:
        """Returns the denominator M of the frequency P(x) = (h(x) + …)/M."""

    @abstractmethod
    def frequencies(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        """Returns P(x) for counts of any shape; ``records`` is N, or one number for each count."""

    @abstractmethod
    def logarithms(self, counts: npt.ArrayLike, records: npt.ArrayLike, symbols: int) -> FloatArray:
        """Returns ln P(x) for counts of any shape."""

    @abstractmethod
    def largest_rise(self, group: int = 1) -> float:
        """Returns the largest rise of ln P(x) when ``group`` records move to x, over all data; rounded up.

        Raises:
            InvalidArgumentError: ``group`` is not an integer from 1 to 2^53.
        """

    @abstractmethod
    def least_rise(self, records: int) -> float:
        """Returns the least rise of ln P(x) when one of ``records`` records moves to x; rounded down.

        Raises:
            InvalidArgumentError: ``records`` is not an integer from 1 to 2^53.
        """

    @property
    def assumption(self) -> str | None:
        """The assumption on the data, or None."""
        return None


@frozen
class Smoothed(CountLogarithm):
    """A rule that adds a public pseudo-count to every cell.

    Args:
        pseudo_count: a > 0. With a >= 1 a record moves a logarithm by at most ln 2; with a = 0.01 by ln 101.

    Raises:
        InvalidArgumentError: ``pseudo_count`` is not in [1e-9, 1e9].

    Example:
        >>> from hockeystick.learners.divergence import Smoothed
        >>> Smoothed(1.0).logarithms([0, 5, 15], records=20, symbols=3).round(3)
        array([-3.135, -1.344, -0.363])
        >>> round(Smoothed(1.0).largest_rise(), 3), round(Smoothed(0.01).largest_rise(), 3)  # sensitivities
        (0.693, 4.615)
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
    """A rule with harmonic numbers for logarithms: no pseudo-count, hardly any bias, and no assumption.

    A record moves a logarithm by 1/(h + 1) <= 1.

    Example:
        >>> from hockeystick.learners.divergence import Harmonic
        >>> Harmonic().logarithms([0, 5, 15], records=20, symbols=3).round(3), round(Harmonic().largest_rise(), 3)
        (array([-3.598, -1.314, -0.28 ]), 1.0)
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
        # The Euler–Maclaurin series up to a positive term; the next one is negative and below 1e-13 at n = 65.
        return (math.log(n) + np.euler_gamma + 0.5 / n - 1 / (12 * n**2) + 1 / (120 * n**4)) * _UP

    def least_rise(self, records: int) -> float:
        return 1.0 / _records(records) / _UP


@frozen
class AssumedCounts(CountLogarithm):
    """A rule with exact logarithms, under the assumption that no count is below ``least`` in either neighbour.

    Args:
        least: h_min >= 1.

    Raises:
        InvalidArgumentError: ``least`` is not an integer >= 1.

    Example:
        >>> from hockeystick.learners.divergence import AssumedCounts
        >>> rule = AssumedCounts(5)
        >>> rule.logarithms([5, 15], records=20, symbols=2).round(3), round(rule.largest_rise(), 3)
        (array([-1.386, -0.288]), 0.182)
        >>> rule.assumption
        'every count of every queried symbol is at least 5, in both data sets'
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
    """Returns ``value``, one of the three rules.

    Raises:
        InvalidArgumentError: ``value`` is not a rule.
    """
    if not isinstance(value, CountLogarithm):
        raise InvalidArgumentError(
            "logarithm", value, "is not a CountLogarithm", "use Smoothed(), Harmonic() or AssumedCounts(2)"
        )
    return value
