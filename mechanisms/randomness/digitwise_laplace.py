"""Exact draws of discrete Laplace noise, digit by digit: the digits of a geometric variable are independent.

A geometric variable G, P(G ≥ k) = e^(−k/t), written in base 256 has independent digits: e^(−k/t) is a product over the
digits of k. So a few digits are drawn, each from a table of at most 256 entries, for any scale t. The last digit is
unbounded, as G is: a draw beyond its table counts as the length of the table plus a further draw, because G is
memoryless. The difference of two such variables is discrete Laplace noise, P(k) ∝ e^(−|k|/t).

A digit is the position of a uniform number U of [0, 1) among the cumulative sums of its table. 64 binary digits of U
are drawn, and more only where these leave a comparison open, in fewer than one draw out of 10^15; the sums are then
computed to as many digits as necessary. So the law is exact up to a total variation of 2^-1000, for comparisons that
are given up and numbers that do not fit in 62 bits. Except in those rare cases, the number of words drawn is constant.
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
"""A source of independent uniform words of 64 bits: it takes their number."""

LARGEST_SCALE = 2.0**52
"""The largest scale: forty times as much still fits in 64 bits with room to spare."""

_WIDTH = 8  # binary digits in one digit
_BLOCK = 2**20  # draws made at a time
_REACH = 45.0  # scales; a larger draw is as improbable as a tie of 64 bits
GIVEN_UP = 1536  # bits of U after which a comparison is given up
_FARTHEST = 2**62
_GUARD = 60  # decimal digits of a sum beyond those asked for
_LOST = 30  # of these digits are lost to cancellation at most: scales are below 2^52


def scaled_floors(bits: int, shares: Callable[[], tuple[list[Decimal], Decimal]]) -> list[int]:
    """Returns ⌊2^bits · share⌋, exactly, for irrational shares in (0, 1).

    Args:
      bits: the number of binary digits.
      shares: computes the shares in the current decimal context, with a loss of at most 30 digits, and a further error.
    """
    precision = math.ceil(bits * math.log10(2)) + _GUARD
    while True:
        with decimal.localcontext(decimal.Context(prec=precision, Emin=-(10**15), Emax=10**15, traps=[])):
            found, more = shares()
            error = (Decimal(1).scaleb(_LOST - precision) + more) * (1 << bits)
            low, high = ([math.floor(part * (1 << bits) + side * error) for part in found] for side in (-1, 1))
        last = (1 << bits) - 1
        low, high = [max(0, part) for part in low], [min(part, last) for part in high]
        if low == high:  # this ends: the shares are irrational
            return low
        precision *= 2


@frozen(eq=False, slots=False)
class Digit:
    """One digit of a geometric number: ⌊G/weight⌋ mod ``size``, or ⌊G/weight⌋ itself if it is the last.

    Attributes:
      scale: t, exactly.
      weight: the place value of the digit.
      size: the length of the table.
      last: whether this is the most significant digit.
    """

    scale: Fraction
    weight: int
    size: int
    last: bool

    def running_sum(self, k: int, bits: int) -> int:
        """Returns ⌊2^bits · P(digit ≤ k)⌋, exactly, for k below the greatest digit."""
        if self.last and (k + 1) * self.weight > bits * self.scale:  # e^(−x) is below 2^-bits
            return (1 << bits) - 1

        def shares() -> tuple[list[Decimal], Decimal]:
            rate = Decimal(self.weight * self.scale.denominator) / self.scale.numerator
            share = 1 - (-(k + 1) * rate).exp()
            if not self.last:
                share /= 1 - (-self.size * rate).exp()
            return [share], Decimal(0)

        return scaled_floors(bits, shares)[0]

    @cached_property
    def sums(self) -> list[int]:
        """⌊2^64 · P(digit ≤ k)⌋ for all k but the greatest; for all k in the unbounded last digit."""
        return [self.running_sum(k, 64) for k in range(self.size if self.last else self.size - 1)]

    @cached_property
    def array(self) -> NDArray[np.uint64]:
        """The same as an array."""
        return np.array(self.sums, dtype=np.uint64)

    def of(self, word: int, words: Words) -> int:
        """Returns the digit of a U that begins with ``word``; further bits come from ``words``."""
        found, sums = bisect_right(self.sums, word), self.sums
        if found and sums[found - 1] == word:
            found = self._settled(word, words)
        if self.last and found == self.size:
            found += self.of(int(words(1)[0]), words)
        return found

    def _settled(self, word: int, words: Words) -> int:
        """Returns the position of U among the sums that share its first 64 bits."""
        low, high, bits = bisect_left(self.sums, word), bisect_right(self.sums, word), 64
        while low < high and bits < GIVEN_UP:
            word, bits = word << 64 | int(words(1)[0]), bits + 64
            sums = [self.running_sum(k, bits) for k in range(low, high)]
            low, high = low + bisect_left(sums, word), low + bisect_right(sums, word)
        return high


@frozen(eq=False, slots=False)
class GeometricDigits:
    """Exact draws from P(k) ∝ e^(−|k|/t) on the integers.

    Attributes:
      digits: the digits of a geometric variable of scale t, the least significant first.
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
        """Returns one draw, in a few microseconds, from a source of random bytes."""
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
    def _tables(self) -> tuple[tuple[list[int], int, Digit], ...]:  # of one variable, and of the one subtracted from it
        return tuple((digit.sums, sign * digit.weight, digit) for sign in (1, -1) for digit in self.digits)


@lru_cache(maxsize=64, typed=True)  # True is not a scale, though it equals 1.0
def geometric_digits(scale: float) -> GeometricDigits:
    """Returns a sampler of discrete Laplace noise.

    Args:
      scale: t > 0, at most ``LARGEST_SCALE``; exactly the number that the float stores.

    Raises:
      InvalidArgumentError: the scale is out of range.
    """
    exact = Fraction(validate.real("scale", scale, low=0.0, low_open=True, high=LARGEST_SCALE))
    places = max(1, math.ceil(_REACH * exact).bit_length())  # 2^places > 45 t
    weights = range(0, places, _WIDTH)
    return GeometricDigits(
        tuple(Digit(exact, 1 << first, 1 << min(_WIDTH, places - first), first + _WIDTH >= places) for first in weights)
    )
