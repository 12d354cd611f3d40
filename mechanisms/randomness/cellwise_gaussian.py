"""Exact draws of discrete Gaussian noise from uniform words: P(k) ∝ e^(−k²/2σ²), for any σ up to 2^52.

The magnitudes are cut into cells of w numbers, w a power of two near σ/64, or 1. A cell j is drawn with odds
e^(−(jw)²/2σ²), the mass of its first number, then a uniform place in it and a sign. A negative zero is rejected, and a
magnitude k is kept with probability e^(−(k² − (jw)²)/2σ²). So the law is the stated one; a draw takes three words and
is kept in 98 % of the cases.

Both comparisons with a uniform number U of [0, 1) are exact. 64 binary digits of U are drawn, and more only where these
leave a comparison open. The cells' cumulative sums are known to as many digits, and more cells are added with the
digits, so that there is no last one. The probability of keeping k is computed in floating point by a polynomial, with a
relative error below 2^-34, and is believed only where U differs from it by more than one part in 2^32; otherwise it is
computed to as many digits as necessary. What remains is a total variation of 2^-1000, for comparisons that are given
up. The time of a draw depends on its outcome.
"""

from __future__ import annotations

import decimal
import math
from bisect import bisect_right
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from hockeystick.accounting import validate
from hockeystick.mechanisms.randomness.digitwise_laplace import GIVEN_UP, LARGEST_SCALE, Words, scaled_floors

_CELLS = 64  # in a standard deviation, at least, if cells have several numbers
_BLOCK = 2**18  # proposals at a time
_MARGIN = 2.0**-32  # relative, of a probability in floating point
_POLYNOMIAL = 0.25  # exponents up to which the polynomial is used
_COEFFICIENTS = [(-1.0) ** i / math.factorial(i) for i in range(8, -1, -1)]  # of e^(−q): 0.25^9/9! is below 2^-36


@frozen(eq=False, slots=False)
class GaussianCells:
    """Exact draws from P(k) ∝ e^(−k²/2σ²) on the integers.

    Attributes:
      scale: σ, exactly.
      places: w = 2^places, the numbers in a cell.
    """

    scale: Fraction
    places: int

    def running_sums(self, bits: int) -> list[int]:
        """Returns ⌊2^bits · P(cell ≤ j)⌋, exactly, for j = 0, 1, … up to the first that is 2^bits − 1."""

        def shares() -> tuple[list[Decimal], Decimal]:
            rate = self._rate(Fraction(1 << 2 * self.places))
            mass, ratio, square, total = Decimal(1), (-rate).exp(), (-2 * rate).exp(), Decimal(0)
            sums: list[Decimal] = []
            least = Decimal(10) ** -decimal.getcontext().prec  # so that more digits mean more cells
            while mass > least:
                total += mass
                sums.append(total)
                mass, ratio = mass * ratio, ratio * square
            return [part / total for part in sums], mass / (1 - ratio)  # all further masses together, per total >= 1

        found = scaled_floors(bits, shares)
        last = (1 << bits) - 1
        return found[: found.index(last) + 1] if last in found else [*found, last]

    @cached_property
    def _table(self) -> NDArray[np.uint64]:
        return np.array(self.running_sums(64), dtype=np.uint64)

    @cached_property
    def _float_rate(self) -> float:
        return float(1 / (2 * self.scale**2)) if self.places else 0.0

    def _rate(self, square: Fraction) -> Decimal:
        """Returns ``square``/2σ² in the current context."""
        exact = square / (2 * self.scale**2)
        return Decimal(exact.numerator) / exact.denominator

    def draw(self, words: Words, count: int) -> NDArray[np.int64]:
        """Returns ``count`` independent draws."""
        found, done = np.empty(count, dtype=np.int64), 0
        while done < count:
            missing = count - done
            drawn = self._proposed(words, min(missing + missing // 32 + 8, _BLOCK))[:missing]
            found[done : done + len(drawn)] = drawn
            done += len(drawn)
        return found

    def _proposed(self, words: Words, count: int) -> NDArray[np.int64]:
        """Returns what is kept of ``count`` proposals."""
        drawn = words((3 if self.places else 2) * count).reshape(-1, count)
        first = self._cells(drawn[0], words) << self.places
        found = first + (drawn[1] & np.uint64((1 << self.places) - 1)).astype(np.int64)
        negative = (drawn[1] >> np.uint64(63)).astype(np.bool_)
        kept = ~(negative & (found == 0))
        if self.places:
            kept &= self._kept(drawn[2], found, first, words)
        return np.asarray(np.where(negative, -found, found)[kept])

    def _cells(self, word: NDArray[np.uint64], words: Words) -> NDArray[np.int64]:
        index = np.searchsorted(self._table, word, side="right")
        for i in np.flatnonzero(self._table[np.maximum(index - 1, 0)] == word):
            index[i] = self.settled_cell(int(word[i]), words)
        return np.asarray(index, dtype=np.int64)

    def settled_cell(self, word: int, words: Words) -> int:
        """Returns the cell of a U that begins with ``word``; further bits come from ``words``."""
        bits = 64
        while True:
            sums = self.running_sums(bits)
            index = bisect_right(sums, word)
            if not index or sums[index - 1] != word or bits >= GIVEN_UP:
                return index
            word, bits = word << 64 | int(words(1)[0]), bits + 64

    def _kept(
        self, word: NDArray[np.uint64], found: NDArray[np.int64], first: NDArray[np.int64], words: Words
    ) -> NDArray[np.bool_]:
        # Six roundings of exponents below a quarter, and those of Horner's rule: far below the margin.
        exponent = (found - first).astype(np.float64) * (found + first).astype(np.float64) * self._float_rate
        chance = np.zeros_like(exponent)
        for coefficient in _COEFFICIENTS:
            chance = chance * exponent + coefficient
        chance *= 2.0**64
        given = word.astype(np.float64)
        kept = np.asarray(given < chance * (1.0 - _MARGIN))
        open_ = (np.abs(given - chance) <= chance * _MARGIN) | (exponent > _POLYNOMIAL)
        for i in np.flatnonzero(open_):
            kept[i] = self.settled_coin(int(word[i]), int(found[i]), int(first[i]), words)
        return kept

    def settled_coin(self, word: int, found: int, first: int, words: Words) -> bool:
        """Returns whether a U that begins with ``word`` is below e^(−(found² − first²)/2σ²)."""
        if found == first:
            return True
        bits, square = 64, Fraction(found * found - first * first)
        while True:
            bound = scaled_floors(bits, lambda: ([(-self._rate(square)).exp()], Decimal(0)))[0]
            if word != bound or bits >= GIVEN_UP:
                return word < bound
            word, bits = word << 64 | int(words(1)[0]), bits + 64


@lru_cache(maxsize=64, typed=True)  # True is not a scale, though it equals 1.0
def gaussian_cells(scale: float) -> GaussianCells:
    """Returns a sampler of discrete Gaussian noise.

    Args:
      scale: σ > 0, at most ``LARGEST_SCALE``; exactly the number that the float stores.

    Raises:
      InvalidArgumentError: the scale is out of range.
    """
    number = validate.real("scale", scale, low=0.0, low_open=True, high=LARGEST_SCALE)
    return GaussianCells(Fraction(number), max(0, math.frexp(number / _CELLS)[1] - 1))
