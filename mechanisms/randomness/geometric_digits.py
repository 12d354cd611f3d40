"""Exact draws of discrete Laplace noise: the digits of a geometric number are independent.

A geometric number G, P(G ≥ k) = e^(−k/t), written in base 256 has independent digits: e^(−k/t) is a product over the
digits of k. So a few digits are drawn, each from a table of at most 256 entries, whatever the scale t. The last digit
has no end, as G has none: what lies beyond its table counts as the table's length, and is drawn once more, because G
has no memory. The difference of two such numbers is discrete Laplace noise, P(k) ∝ e^(−|k|/t).

A digit is where a uniform number U of [0, 1) lies among the running sums of its table. Of U's binary digits 64 are
drawn, and more only where these leave a comparison open, in less than one draw of 10^15; the sums are then computed to
as many digits as it takes. So the law is exact up to a total variation of 2^-1000, from comparisons that are given up
and numbers that do not fit 62 bits. But for those rare cases as many words are drawn whatever comes out.
"""

from __future__ import annotations

import decimal
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from struct import unpack

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from hockeystick.accounting import validate

Words = Callable[[int], NDArray[np.uint64]]
"""Gives so many independent uniform words of 64 bits."""

LARGEST_SCALE = 2.0**52
"""Forty times as much still fits a 64-bit integer with room to spare."""

_WIDTH = 8  # binary digits in one digit
_BLOCK = 2**20  # draws made at a time
_REACH = 45.0  # a number of so many scales is as improbable as a tie of 64 bits
_GIVEN_UP = 1536  # bits of U that decide in any case
_FARTHEST = 2**62
_GUARD = 60  # decimal digits of a sum beyond those asked for
_LOST = 30  # of them, at most, lost to cancellation: scales are below 2^52


@frozen(eq=False, slots=False)
class Digit:
    """One digit of a geometric number: ⌊G/weight⌋ mod ``size``, or ⌊G/weight⌋ itself if it is the last.

    Attributes:
      scale: t, exactly.
      weight: What the digit counts.
      size: Of the table.
      last: Whether no digit follows.
    """

    scale: Fraction
    weight: int
    size: int
    last: bool

    def running_sum(self, k: int, bits: int) -> int:
        """Returns ⌊2^bits · P(digit ≤ k)⌋, exactly, for k below the greatest digit."""
        if self.last and (k + 1) * self.weight > bits * self.scale:  # then e^(−x) is below 2^-bits
            return (1 << bits) - 1
        precision = math.ceil(bits * math.log10(2)) + _GUARD
        while True:
            with decimal.localcontext(decimal.Context(prec=precision, Emin=-(10**15), Emax=10**15, traps=[])):
                rate = Decimal(self.weight * self.scale.denominator) / self.scale.numerator
                share = 1 - (-(k + 1) * rate).exp()
                if not self.last:
                    share /= 1 - (-self.size * rate).exp()
                middle = share * (1 << bits)
                error = Decimal(1 << bits).scaleb(_LOST - precision)
                low, high = (math.floor(end) for end in (middle - error, middle + error))
            if low == high:  # in the end it is so: the share is no rational number
                return low
            precision *= 2

    @cached_property
    def sums(self) -> list[int]:
        """⌊2^64 · P(digit ≤ k)⌋ for all k but the greatest, which is no end for the last digit: there for all k."""
        return [self.running_sum(k, 64) for k in range(self.size if self.last else self.size - 1)]

    @cached_property
    def array(self) -> NDArray[np.uint64]:
        """The same."""
        return np.array(self.sums, dtype=np.uint64)

    def of(self, word: int, words: Words) -> int:
        """Returns the digit of a U that begins with ``word``; ``words`` gives what else it takes."""
        found, sums = bisect_right(self.sums, word), self.sums
        if found and sums[found - 1] == word:
            found = self._settled(word, words)
        if self.last and found == self.size:
            found += self.of(int(words(1)[0]), words)
        return found

    def _settled(self, word: int, words: Words) -> int:
        """Returns where U lies among the sums with whose first 64 bits it begins."""
        low, high, bits = bisect_left(self.sums, word), bisect_right(self.sums, word), 64
        while low < high and bits < _GIVEN_UP:
            word, bits = word << 64 | int(words(1)[0]), bits + 64
            sums = [self.running_sum(k, bits) for k in range(low, high)]
            low, high = low + bisect_left(sums, word), low + bisect_right(sums, word)
        return high


@frozen(eq=False, slots=False)
class GeometricDigits:
    """Exact draws from P(k) ∝ e^(−|k|/t) on the integers.

    Attributes:
      digits: Of a geometric number of scale t, from the least significant one on.
    """

    digits: tuple[Digit, ...]

    def draw(self, words: Words, count: int) -> NDArray[np.int64]:
        """Returns ``count`` independent draws."""
        if count > _BLOCK:  # every draw takes twice as many words as there are digits
            sizes = [min(_BLOCK, count - start) for start in range(0, count, _BLOCK)]
            return np.concatenate([self.draw(words, size) for size in sizes])
        drawn = words(2 * len(self.digits) * count).reshape(2, len(self.digits), count)
        found = np.zeros((2, count), dtype=np.int64)
        for place, digit in enumerate(self.digits):
            index = np.searchsorted(digit.array, drawn[:, place], side="right")
            found += index * digit.weight
            tied = digit.array[np.maximum(index - 1, 0)] == drawn[:, place]
            for side, at in np.argwhere(tied):
                settled = digit.of(int(drawn[side, place, at]), words) - int(index[side, at])
                found[side, at] = min(int(found[side, at]) + settled * digit.weight, _FARTHEST)
        return np.asarray(found[0] - found[1])

    def one(self, random_bytes: Callable[[int], bytes]) -> int:
        """Returns one draw, in a few microseconds, from a source that gives so many random bytes."""
        drawn = unpack(self._format, random_bytes(self._bytes))
        found = 0
        for (sums, weight, digit), word in zip(self._tables, drawn, strict=True):
            index = bisect_right(sums, word)
            if index and sums[index - 1] == word:
                index = digit.of(word, lambda count: np.frombuffer(random_bytes(8 * count), dtype=np.uint64))
            found += index * weight
        return found

    @cached_property
    def _bytes(self) -> int:
        return 16 * len(self.digits)

    @cached_property
    def _format(self) -> str:
        return f"={2 * len(self.digits)}Q"

    @cached_property
    def _tables(self) -> tuple[tuple[list[int], int, Digit], ...]:  # of one number, and of the one taken from it
        return tuple((digit.sums, sign * digit.weight, digit) for sign in (1, -1) for digit in self.digits)


@lru_cache(maxsize=64, typed=True)  # True is no scale, though it equals 1.0
def geometric_digits(scale: float) -> GeometricDigits:
    """Returns draws of discrete Laplace noise.

    Args:
      scale: t > 0, at most ``LARGEST_SCALE``: the number that the float stores.

    Raises:
      InvalidArgumentError: the scale is out of range.
    """
    exact = Fraction(validate.real("scale", scale, low=0.0, low_open=True, high=LARGEST_SCALE))
    places = max(1, math.ceil(_REACH * exact).bit_length())  # 2^places > 45 t
    weights = range(0, places, _WIDTH)
    return GeometricDigits(
        tuple(Digit(exact, 1 << first, 1 << min(_WIDTH, places - first), first + _WIDTH >= places) for first in weights)
    )
