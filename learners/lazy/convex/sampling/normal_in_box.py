"""Exact draws from an isotropic normal law restricted to a box: independent coordinates, by rejection from cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.sampling.cells import Cells, Indices, decided, edges, nearest, rounding
from hockeystick.learners.lazy.convex.sampling.open_reals import (
    FIRST,
    Interval,
    Uniforms,
    below_exponential,
    enclosed,
    first_digits,
    placed,
)
from hockeystick.mechanisms.randomness.noise import Noise


class NormalInBox:
    """The density exp(-precision*||x||^2/2 - scale*<slope, x>) on a box.

    Args:
        lower, upper: The corners, shape (d,).
        precision: > 0.
        slope: d numbers, in units of ``scale``.
        scale: > 0.
    """

    def __init__(
        self, lower: FloatArray, upper: FloatArray, precision: Fraction, slope: Sequence[int], scale: Fraction
    ) -> None:
        self._precision, self._slope, self._scale = precision, slope, scale
        self._a, self._s = float(precision), np.array(slope, dtype=np.float64) * float(scale)
        mode = np.clip(-self._s / self._a, lower, upper)
        deviation = 1.0 / np.maximum(math.sqrt(self._a), np.abs(self._a * mode + self._s))
        self._edges = edges(mode, deviation, lower, upper)
        self._width = np.diff(self._edges, axis=1)
        highest = nearest(-self._s[:, None] / self._a, self._edges[:, :-1], self._edges[:, 1:])
        error = rounding(self._a * highest**2, self._s[:, None] * highest)
        with np.errstate(divide="ignore"):
            self._cells = Cells(self._log_density(highest, self._s[:, None]), np.log(self._width), error)

    def _log_density(self, x: FloatArray, slope: FloatArray) -> FloatArray:
        return -x * (0.5 * self._a * x + slope)

    def draw(self, noise: Noise) -> BoxPoint:
        """Returns one draw."""
        d = len(self._slope)
        cells, places = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.int64)
        further: dict[int, Uniforms] = {}
        left: Indices = np.arange(d)
        while left.size:
            cell, found = self._cells.proposed(noise, left)
            which, cell = left[found], cell[found]
            place, coin = first_digits(noise, cell.size), first_digits(noise, cell.size)
            heads, unsure = decided(coin, *self._log_chance(which, cell, place))
            for j in np.flatnonzero(unsure):
                u = Uniforms(noise, [int(place[j])])
                heads[j] = self._settled(int(which[j]), int(cell[j]), u, int(coin[j]), noise)
                if heads[j]:
                    further[int(which[j])] = u
            cells[which[heads]], places[which[heads]] = cell[heads], place[heads]
            left = np.concatenate([left[~found], which[~heads]])
        rows = np.arange(d)
        ends = zip(self._edges[rows, cells].tolist(), self._edges[rows, cells + 1].tolist(), strict=True)
        return BoxPoint(list(ends), Uniforms.joined(noise, places.tolist(), further))

    def _log_chance(self, which: Indices, cell: Indices, place: Indices) -> tuple[FloatArray, FloatArray]:
        """Returns ln of the probability to keep a place in a cell, and a bound on its error."""
        low, width = self._edges[which, cell], self._width[which, cell]
        height = self._cells.log_height(which, cell)
        x, s = low + width * (place * 2.0**-FIRST), self._s[which]
        # A place is known up to 2^-62 of the width.
        unknown = 2.0**-FIRST * width * (self._a * (np.abs(x) + width) + np.abs(s))
        return self._log_density(x, s) - height, rounding(self._a * x * x, s * x, height) + unknown

    def _settled(self, which: int, cell: int, u: Uniforms, coin: int, noise: Noise) -> bool:
        """Tosses the coin with as many digits as necessary, of ``u`` too."""
        low, high = (Fraction(float(self._edges[which, cell + end])) for end in (0, 1))

        def exponent(digits: int) -> Interval:
            u.extend(4 * digits)
            x, step = low + (high - low) * Fraction(u.known[0], 1 << u.bits), (high - low) / (1 << u.bits)
            one, other = (self._potential(which, end) for end in (x, x + step))
            centre = -self._slope[which] * self._scale / self._precision
            least = self._potential(which, min(max(centre, x), x + step))
            height = self._cells.exact_log_height(which, cell, high - low)
            return enclosed(-max(one, other), -least, height)

        return below_exponential(coin, noise, exponent)

    def _potential(self, which: int, x: Fraction) -> Fraction:
        return x * (self._precision * x / 2 + self._slope[which] * self._scale)


@frozen
class BoxPoint:
    """A point whose coordinates are places in known intervals; see ``OpenPoint``."""

    ends: list[tuple[float, float]]
    places: Uniforms

    def at(self, bits: int) -> tuple[list[int], int]:
        """Returns the coordinates in units of 2^-bits, and a bound on their error."""
        span = max(math.frexp(high - low)[1] for low, high in self.ends)
        self.places.extend(bits + max(0, span) + 1)
        known, digits = self.places.known, self.places.bits
        return [placed(*ends, place, digits, bits) for ends, place in zip(self.ends, known, strict=True)], 2
