"""Laws on the integers, and exact draws from them: inverse transform sampling with 128 random bits a draw.

A law has its masses in fixed-point arithmetic. Their cumulative sums, scaled to 2^128, are compared with 128 random
bits; the first 64 bits nearly always decide, and only a tie needs the others. The sampled law differs from the stated
one by less than 2^-100 in total variation, on any computer, because no floating-point numbers are used.
"""

from __future__ import annotations

import decimal
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick.accounting import NumericalError, validate
from hockeystick.mechanisms.randomness.digitwise_laplace import Words

_BITS = 256  # of the masses, relative to the largest
_NEGLIGIBLE = 160  # bits: a mass 2^-160 times the largest ends the table
_MOST = 1 << 20  # entries of a table


class IntegerLaw(ABC):
    """A law on the integers; a subclass is a frozen (hashable) attrs class."""

    @abstractmethod
    def masses(self) -> tuple[int, list[int]]:
        """Returns the least point of the table and the masses from there on, in a common unit.

        The truncated mass plus all rounding is below 2^-120 of the total.
        """

    def draw(self, words: Words, count: int) -> NDArray[np.int64]:
        """Returns ``count`` independent draws.

        Raises:
          NumericalError: the law needs a table of more than about a million integers.
        """
        first, high, low = _table(self)
        if not len(high):
            return np.full(count, first, dtype=np.int64)
        word = words(count)
        index = np.searchsorted(high, word, side="right")
        # A word equal to the top half of a threshold leaves open on which side of it the draw lies.
        for i in np.flatnonzero(high[np.maximum(index - 1, 0)] == word):
            start = np.searchsorted(high, word[i], side="left")
            index[i] = start + np.searchsorted(low[start : index[i]], words(1)[0], side="right")
        return np.asarray(index + first, dtype=np.int64)

    def probabilities(self) -> tuple[int, NDArray[np.float64]]:
        """Returns the least point of the table and the probabilities from there on, as floats."""
        first, masses = self.masses()
        total = sum(masses)
        return first, np.array([mass / total for mass in masses])


@lru_cache(maxsize=16)
def _table(law: IntegerLaw) -> tuple[int, NDArray[np.uint64], NDArray[np.uint64]]:
    """The first point, and the upper and lower 64 bits of 2^128·P(X ≤ k) for all k but the last."""
    first, masses = law.masses()
    total, rest = sum(masses), (1 << 64) - 1
    parts = [(part << 128) // total for part in itertools.accumulate(masses[:-1])]
    high, low = ([part >> 64 for part in parts], [part & rest for part in parts])
    return first, np.array(high, dtype=np.uint64), np.array(low, dtype=np.uint64)


def _exp(exponent: Fraction) -> int:
    """e^exponent ≤ 1 in units of 2^-256, to about 90 decimal digits."""
    with decimal.localcontext() as context:  # covers every operation: even a change of sign is rounded
        context.prec, context.Emin = 100, -(10**9)
        return int((Decimal(exponent.numerator) / exponent.denominator).exp() * (1 << _BITS))


def _falling(first: int, ratio: Callable[[int], int]) -> list[int]:
    """Masses that start at ``first``; ``ratio(j)``, in units of 2^-256, is the quotient of the masses j + 1 and j."""
    found, mass = [], first
    while mass >> (_BITS - _NEGLIGIBLE):
        found.append(mass)
        if len(found) > _MOST:
            raise _too_wide()
        mass = (mass * ratio(len(found) - 1)) >> _BITS
    return found


def _check_width(log_mass: float) -> None:
    """Refuses a law at once whose mass at the end of the longest table, at least e^``log_mass``, is not negligible."""
    if log_mass > 1.0 - _NEGLIGIBLE * math.log(2):
        raise _too_wide()


def _too_wide() -> NumericalError:
    return NumericalError(f"the law spreads over more than {_MOST} integers; use a coarser grid")


def _positive(name: str, value: float) -> float:
    return validate.real(name, value, low=0.0, low_open=True, high=1e12)


def _scale(value: float) -> float:
    return _positive("scale", value)


def _variance(value: float) -> float:
    return _positive("variance", value)


def _share(value: float | Fraction) -> float | Fraction:
    if isinstance(value, Fraction) and 0 < value <= 1:
        return value
    return validate.real("shape", value, low=0.0, low_open=True, high=1.0)


@frozen
class DiscreteGaussianLaw(IntegerLaw):
    """P(k) ∝ e^(−k²/2σ²), σ = ``scale`` (Canonne, Kamath & Steinke 2020)."""

    scale: float = field(converter=_scale)

    def masses(self) -> tuple[int, list[int]]:
        _check_width(-0.5 * min(_MOST / self.scale, 1e9) ** 2)
        rate = 1 / (2 * Fraction(self.scale) ** 2)
        ratio, square, powers = _exp(-rate), _exp(-2 * rate), [1 << _BITS]

        def next_ratio(_: int) -> int:  # e^(−(2k+1)/2σ²)
            powers[0], now = (powers[0] * square) >> _BITS, powers[0]
            return (now * ratio) >> _BITS

        half = _falling(1 << _BITS, next_ratio)
        return 1 - len(half), half[:0:-1] + half


@frozen
class SkellamLaw(IntegerLaw):
    """P(k) ∝ I_|k|(variance), the law of the difference of two Poisson variables of mean variance/2."""

    variance: float = field(converter=_variance)

    def masses(self) -> tuple[int, list[int]]:
        # I(k−1) = I(k+1) + (2k/variance)·I(k), from far out downwards: errors of the start and of
        # the rounding become a common factor of all masses or vanish quickly (J. C. P. Miller's algorithm).
        numerator, denominator = self.variance.as_integer_ratio()
        far = _skellam_reach(self.variance)
        half = [0] * (far + 2)
        half[far] = 1 << _BITS
        for k in range(far, 0, -1):
            half[k - 1] = half[k + 1] + 2 * k * denominator * half[k] // numerator
        while not half[-1] >> max(0, half[0].bit_length() - _NEGLIGIBLE):
            half.pop()
        return 1 - len(half), half[:0:-1] + half


def _skellam_reach(variance: float) -> int:
    """A point where the mass is below 2^-160·P(0), by Chernoff's bound e^(−C) and P(0) > 1/(4 + 4√variance)."""
    reach = 16
    while True:
        rise = reach / variance
        exponent = reach * (math.asinh(rise) - rise / (math.hypot(rise, 1.0) + 1.0))
        if exponent > _NEGLIGIBLE * math.log(2) + math.log(4 + 4 * math.sqrt(variance)) + 1.0:
            return reach
        reach += reach // 8
        if 2 * reach > _MOST:
            raise _too_wide()


@frozen
class NegativeBinomialLaw(IntegerLaw):
    """P(k) ∝ Γ(k + shape)/k! · e^(−k/scale) with a shape in (0, 1], possibly a ``Fraction``; shape 1 is geometric.

    The difference of two sums of n independent draws of shape 1/n has the discrete Laplace law of this scale.
    """

    shape: float | Fraction = field(converter=_share)
    scale: float = field(converter=_scale)

    def masses(self) -> tuple[int, list[int]]:
        numerator, denominator = self.shape.as_integer_ratio()
        # Γ(k + s)/(k!·Γ(s)) is the product over i < k of (i + s)/(i + 1), which is at least s/k.
        _check_width(math.log(numerator) - math.log(denominator * _MOST) - _MOST / self.scale)
        ratio = _exp(-1 / Fraction(self.scale))
        return 0, _falling(1 << _BITS, lambda j: ratio * (j * denominator + numerator) // (denominator * (j + 1)))
