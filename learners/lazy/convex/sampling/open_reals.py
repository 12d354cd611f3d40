"""Real numbers of which only some binary digits are known yet, and exact comparisons with them.

A uniform number U of [0, 1) is drawn digit by digit, as far as somebody asks. A decision about U that holds for all
numbers with the known digits says nothing about the digits that are still to come: they stay uniform. So rejection
sampling is exact if each comparison is decided for a whole interval, and a point is a real number with exactly the
stated law, of which any number of digits can be had.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.randomness.noise import Noise

FIRST = 62  # the digits of a uniform number that are drawn first: as many as a 64-bit integer holds with room to spare
_GUARD = 64  # digits beyond those that a result needs
_DIGITS = 30  # decimal digits of the first enclosure
_MOST_DIGITS = 20_000

Interval = tuple[Decimal, Decimal]


def first_digits(noise: Noise, count: int) -> npt.NDArray[np.int64]:
    """Returns the first digits of ``count`` uniform numbers, as whole numbers below 2^FIRST."""
    return noise.uniform(1 << FIRST, count)


class Uniforms:
    """Independent uniform numbers of [0, 1): number i lies in [known[i], known[i] + 1) / 2^bits.

    Attributes:
        known: The digits so far, as whole numbers.
        bits: How many digits each has.
    """

    __slots__ = ("_noise", "bits", "known")

    def __init__(self, noise: Noise, known: list[int], bits: int = FIRST) -> None:
        self._noise, self.known, self.bits = noise, known, bits

    @classmethod
    def joined(cls, noise: Noise, known: list[int], further: dict[int, Uniforms]) -> Uniforms:
        """Returns numbers with the first digits ``known``, except that single ones have further digits already."""
        bits = max((one.bits for one in further.values()), default=FIRST)
        if bits > FIRST:  # rare
            for i, start in enumerate(known):
                one = further.get(i) or cls(noise, [start])
                one.extend(bits)  # to exactly as many: digits come in blocks of one size
                known[i] = one.known[0]
        return cls(noise, known, bits)

    def extend(self, bits: int) -> None:
        """Draws more digits, until each number has at least ``bits``."""
        size = 4 * max(0, -(-(bits - self.bits) // 32))
        if size:
            words = self._noise.uniform(1 << 32, size // 4 * len(self.known)).astype("<u4").tobytes()
            more = (int.from_bytes(words[i : i + size], "little") for i in range(0, len(words), size))
            self.known = [(old << 8 * size) | new for old, new in zip(self.known, more, strict=True)]
            self.bits += 8 * size


def below_exponential(word: int, noise: Noise, exponent: Callable[[int], Interval]) -> bool:
    """Returns whether the uniform number that begins with the digits ``word`` is below e^q, for some q < 0.

    Args:
        word: Its first digits.
        noise: The source of further ones.
        exponent: Returns an interval that contains q, in so many decimal digits; in the current context, whose
            precision they are.

    Raises:
        NumericalError: q is not negative: e^q can't be the probability of a coin that may show either side.
    """
    u, digits = Uniforms(noise, [word]), _DIGITS
    while digits <= _MOST_DIGITS:
        with decimal.localcontext(decimal.Context(prec=digits, Emin=-(10**15), Emax=10**15, traps=[])):
            low, high = exponent(digits)
            if low >= 0:
                raise NumericalError("a proposal is likelier to be kept than surely: this is a defect, report it")
            if high < 0:
                least, most = low.exp().next_minus(), high.exp().next_plus()
                first, last = (Decimal(u.known[0] + end) for end in (0, 1))
                scale = Decimal(1 << u.bits)
                if last <= (least * scale).next_minus():
                    return True
                if first >= (most * scale).next_plus():
                    return False
        digits *= 2
        u.extend(2 * digits)
    raise NumericalError("a comparison can't be decided: this is a defect, report it")


def in_decimals(x: Fraction) -> Decimal:
    """Returns a number in the current context."""
    return Decimal(x.numerator) / x.denominator


def rounded_off(*terms: Decimal) -> Decimal:
    """Returns a bound on the rounding error of a sum of ``terms``, each of a few operations, in the current context."""
    return sum(map(abs, terms), Decimal(1)) * Decimal(10) ** (3 - decimal.getcontext().prec)


def enclosed(low: Fraction, high: Fraction, height: Decimal) -> Interval:
    """Returns an interval that contains all numbers of [low, high] less ``height``, a sum of a few terms."""
    least, most = in_decimals(low), in_decimals(high)
    error = rounded_off(least, most, height)
    return least - height - error, most - height + error


class OpenPoint(Protocol):
    """A point of R^d whose coordinates are known to as many binary digits as are asked for."""

    def at(self, bits: int) -> tuple[list[int], int]:
        """Returns whole numbers n and e such that coordinate i lies within e of n[i], in units of 2^-bits.

        The error e is a few units, whatever the bits.
        """


def rounded_down(point: OpenPoint, unit: Fraction) -> tuple[int, ...]:
    """Returns the coordinates of a point, rounded down, in units of ``unit``."""
    bits = _bits(unit)
    while True:
        (found, error), step = point.at(bits), unit * (1 << bits)
        low, high = ([(n + end) * step.denominator // step.numerator for n in found] for end in (-error, error))
        if low == high:
            return tuple(low)
        bits += _GUARD


def in_floats(point: OpenPoint, unit: Fraction) -> FloatArray:
    """Returns the coordinates in floating point, each within 2^-53 of itself plus ``unit``, shape (d,)."""
    bits = _bits(unit)
    found, _ = point.at(bits)
    return np.array([n / (1 << bits) for n in found])


def _bits(unit: Fraction) -> int:
    """Returns so many bits that their last place is far below ``unit``."""
    return _GUARD + max(0, unit.denominator.bit_length() - unit.numerator.bit_length() + 1)


def placed(low: float, high: float, place: int, digits: int, bits: int) -> int:
    """Returns ⌊2^bits·(low + (high - low)·place/2^digits)⌋, exactly."""
    (a, b), (c, d) = low.as_integer_ratio(), high.as_integer_ratio()
    both = max(b, d)
    a, c = a * (both // b), c * (both // d)
    found, shift = (a << digits) + (c - a) * place, both.bit_length() - 1 + digits - bits
    return found >> shift if shift >= 0 else found << -shift
