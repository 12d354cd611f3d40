"""Laws on the integers, and exact draws from them: inverse transform sampling with 128 random bits a draw.

A law tells its masses in fixed-point arithmetic with as many bits as asked. Their running sums, scaled to 2^128, are
compared with 128 random bits; of these the first 64 decide nearly always, and only a tie needs the others. The law that
is drawn from differs from the stated one by less than 2^-110 in total variation, whatever computer it runs on: floating
point numbers have no part in it.
"""

from __future__ import annotations

import bisect
import decimal
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick.accounting import NumericalError, validate

Words = Callable[[int], NDArray[np.uint64]]
"""Gives so many independent uniform words of 64 bits."""

_BITS = 256  # of the masses, relative to the largest
_NEGLIGIBLE = 160  # bits: a mass 2^-160 times the largest ends the table
_MOST = 1 << 22  # entries of a table


class IntegerLaw(ABC):
    """A law on the integers; a subclass is a frozen (hashable) attrs class."""

    @abstractmethod
    def masses(self) -> tuple[int, list[int]]:
        """Returns the least point of the table and the masses from there on, in units of some 2^-256.

        What is left out, and the rounding of all together, is below 2^-120 of the total.
        """

    def draw(self, words: Words, count: int) -> NDArray[np.int64]:
        """Returns ``count`` independent draws.

        Raises:
          NumericalError: the law spreads over more than about four million integers.
        """
        first, high, thresholds = _table(self)
        if not thresholds:
            return np.full(count, first)
        word = words(count)
        index = np.searchsorted(high, word, side="right")
        # A word equal to the top half of a threshold leaves open on which side of it the draw lies.
        for i in np.flatnonzero(high[np.maximum(index - 1, 0)] == word):
            low = int(words(1)[0])
            index[i] = bisect.bisect_right(thresholds, (int(word[i]) << 64) | low)
        return np.asarray(index + first, dtype=np.int64)

    def probabilities(self) -> tuple[int, NDArray[np.float64]]:
        """Returns the least point of the table and the probabilities from there on, as floats."""
        first, masses = self.masses()
        total = sum(masses)
        return first, np.array([mass / total for mass in masses])


@lru_cache(maxsize=32)
def _table(law: IntegerLaw) -> tuple[int, NDArray[np.uint64], list[int]]:
    """The first point, and P(X ≤ k) for all but the last point: its top 64 bits, and as a multiple of 2^-128."""
    first, masses = law.masses()
    total = sum(masses)
    thresholds = [(part << 128) // total for part in itertools.accumulate(masses[:-1])]
    return first, np.array([t >> 64 for t in thresholds], dtype=np.uint64), thresholds


def _exp(exponent: Decimal) -> int:
    """e^exponent ≤ 1 in units of 2^-256, to about 90 decimal digits."""
    with decimal.localcontext() as context:
        context.prec, context.Emin = 100, -(10**9)
        return int(exponent.exp() * (1 << _BITS))


def _falling(first: int, ratio: Callable[[int], int]) -> list[int]:
    """Masses that start at ``first`` and fall by ``ratio(j)`` (in units of 2^-256) from entry j to j + 1."""
    found, mass = [], first
    while mass >> (_BITS - _NEGLIGIBLE):
        found.append(mass)
        if len(found) > _MOST:
            raise NumericalError(f"the law spreads over more than {_MOST} integers; draw it on a coarser grid")
        mass = (mass * ratio(len(found) - 1)) >> _BITS
    return found


def _positive(value: float) -> float:
    return validate.real("scale", value, low=0.0, low_open=True, high=1e12)


@frozen
class DiscreteLaplaceLaw(IntegerLaw):
    """P(k) ∝ e^(−|k|/scale): the two-sided geometric law."""

    scale: float = field(converter=_positive)

    def masses(self) -> tuple[int, list[int]]:
        ratio = _exp(-1 / Decimal(self.scale))
        half = _falling(1 << _BITS, lambda _: ratio)
        return 1 - len(half), half[:0:-1] + half


@frozen
class DiscreteGaussianLaw(IntegerLaw):
    """P(k) ∝ e^(−k²/2σ²), σ = ``scale`` (Canonne, Kamath & Steinke 2020)."""

    scale: float = field(converter=_positive)

    def masses(self) -> tuple[int, list[int]]:
        with decimal.localcontext() as context:
            context.prec = 100
            rate = 1 / (2 * Decimal(self.scale) ** 2)
        ratio, square, powers = _exp(-rate), _exp(-2 * rate), [1 << _BITS]

        def next_ratio(_: int) -> int:  # e^(−(2k+1)/2σ²)
            powers[0], now = (powers[0] * square) >> _BITS, powers[0]
            return (now * ratio) >> _BITS

        half = _falling(1 << _BITS, next_ratio)
        return 1 - len(half), half[:0:-1] + half


@frozen
class PoissonLaw(IntegerLaw):
    """P(k) ∝ mean^k / k!."""

    mean: float = field(converter=_positive)

    def masses(self) -> tuple[int, list[int]]:
        numerator, denominator = self.mean.as_integer_ratio()
        mode = numerator // denominator
        one = 1 << _BITS
        up = _falling(one, lambda j: (numerator << _BITS) // (denominator * (mode + j + 1)))
        down = _falling(one, lambda j: ((mode - j) * denominator << _BITS) // numerator)
        return mode + 1 - len(down), down[:0:-1] + up


@frozen
class NegativeBinomialLaw(IntegerLaw):
    """P(k) ∝ Γ(k + shape)/k! · e^(−k/scale), any real shape in (0, 1]; of shape 1 it is geometric.

    The difference of two sums of n independent draws of shape 1/n has the discrete Laplace law of this scale.
    """

    shape: float = field(converter=lambda value: validate.real("shape", value, low=0.0, low_open=True, high=1.0))
    scale: float = field(converter=_positive)

    def masses(self) -> tuple[int, list[int]]:
        ratio = _exp(-1 / Decimal(self.scale))
        numerator, denominator = self.shape.as_integer_ratio()
        return 0, _falling(1 << _BITS, lambda j: ratio * (j * denominator + numerator) // (denominator * (j + 1)))
