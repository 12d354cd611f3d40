"""Exact draws from an isotropic normal law restricted to a ball, in any number of dimensions >= 2.

With the axis e of the mean, a point is x = u*e + r*w: u along the axis, r the distance from it, w a direction across.
The density of (u, r) is proportional to exp(-a*(u^2 + r^2)/2 + |s|*u) * r^(d-2) on the half disc u^2 + r^2 <= R^2; w is
independent of it and uniform on the unit sphere across. The pair is drawn by rejection from cells
(:mod:`hockeystick.learners.lazy.convex.sampling.cells`), the direction from d normal numbers less their part along e.
All three are real numbers with digits on demand, so that a point is one, too.

*A normal number* is (K + V)/S for a discrete normal K of a deviation slightly above S, and V uniform on [-1/2, 1/2).
With q = c + K^2*g/(2S^2) + (2KV + V^2)/(2S^2), g = 1 - (S/(S+1))^2, and c = 1/S, q is positive and the pair is kept
with probability e^-q, which is nearly 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.sampling.cells import Cells, Indices, decided, edges, nearest, rounding
from hockeystick.learners.lazy.convex.sampling.open_reals import (
    FIRST,
    Interval,
    Uniforms,
    below_exponential,
    enclosed,
    first_digits,
    in_decimals,
    placed,
    rounded_off,
)
from hockeystick.mechanisms.randomness.noise import Noise

_STEPS = 2**30  # S, of a normal number
_EXCESS = 1.0 - (_STEPS / (_STEPS + 1.0)) ** 2
_ROUNDOFF = 2.0**-50
_PROPOSALS = 24  # pairs that are proposed at a time


def _mode(radius: float, a: float, s: float, n: float) -> tuple[float, float, float, float]:
    """Returns the mode (u, r) of the pair and deviations around it, roughly, for n = d - 2."""
    u, r = s / a, math.sqrt(n / a)
    if math.hypot(u, r) <= radius:
        return u, r, 1.0 / math.sqrt(a), 1.0 / math.sqrt(a * (2.0 if n else 1.0))
    steep = s * radius
    # On the arc u = R*c: steep*(1 - c^2) = n*c at the mode.
    c = 2.0 * steep / (n + math.hypot(n, 2.0 * steep)) if steep else 0.0
    sine = math.sqrt(max(0.0, 1.0 - c * c))
    u, r = radius * c, radius * sine
    outwards = c * (s - a * u) + sine * ((n / r if n else 0.0) - a * r)
    depth = min(1.0 / math.sqrt(a), 1.0 / max(outwards, 1e-300), radius)
    turn = min(1.0, 1.0 / math.sqrt(max(1.0, steep * c + (n / sine**2 if n else 0.0))))
    along = math.hypot(c * depth, radius * turn * sine, 0.5 * radius * turn**2)
    return u, r, along, math.hypot(sine * depth, radius * turn * c)


def mean_of_ball(radius: float, precision: float, slope: FloatArray) -> FloatArray:
    """Returns nearly the mean of the density of :class:`NormalInBall`, shape (d,): the mode of u, along the axis."""
    steep = float(np.linalg.norm(slope))
    return np.asarray(-slope * (_mode(radius, precision, steep, float(slope.size - 2))[0] / max(steep, 1e-300)))


class NormalInBall:
    """The density exp(-precision*||x||^2/2 - scale*<slope, x>) on the ball of a radius around the origin.

    Args:
        radius: R > 0.
        precision: a > 0.
        slope: s, d >= 2 numbers, in units of ``scale``.
        scale: > 0.
    """

    def __init__(self, radius: float, precision: Fraction, slope: Sequence[int], scale: Fraction) -> None:
        self._radius, self._precision = radius, precision
        self._axis = [-s for s in slope]  # along the mean
        square = sum(s * s for s in slope)
        self._square = square * scale**2  # |s|^2
        if not square:
            self._axis[0] = square = 1
        self._length = square  # of the axis, squared
        self._a, self._s, self._power = float(precision), math.sqrt(self._square), len(slope) - 2
        self._pairs()

    # --- the pair (u, r) ---------------------------------------------------------------------------------------------

    def _log_density(self, u: FloatArray, r: FloatArray) -> FloatArray:
        return np.asarray(self._along(u) + self._across(r))

    def _along(self, u: FloatArray) -> FloatArray:
        return u * (self._s - 0.5 * self._a * u)

    def _across(self, r: FloatArray) -> FloatArray:
        found = -0.5 * self._a * r * r
        return found + self._power * np.log(np.maximum(r, 1e-300)) if self._power else found

    def _pairs(self) -> None:
        radius = self._radius
        u, r, along, across = _mode(radius, self._a, self._s, float(self._power))
        ends = np.array([-radius]), np.array([radius])
        self._u = edges(np.array([u]), np.array([along]), *ends)[0]
        self._r = edges(np.array([r]), np.array([across]), np.zeros(1), ends[1])[0]
        low, high = self._u[:-1], self._u[1:]
        least = np.minimum(1.0, np.where(low * high < 0.0, 0.0, np.minimum(np.abs(low), np.abs(high))) / radius)
        # At least the largest r of the disc between two edges of u.
        self._room = np.minimum(radius, radius * np.sqrt(1.0 + 1e-12 - least**2))
        height = np.minimum(self._r[None, 1:], self._room[:, None]) - self._r[None, :-1]
        highest = (
            self._along(nearest(self._s / self._a, low, high)),
            self._across(nearest(math.sqrt(self._power / self._a), self._r[:-1], self._r[1:])),
        )
        with np.errstate(divide="ignore"):
            size = np.log(high - low)[:, None] + np.log(np.maximum(height, 0.0))
        top = radius * (self._a * radius + self._s) + self._power * (1.0 + abs(math.log(radius)) + 80.0)
        bound = highest[0][:, None] + highest[1]
        self._cells = Cells(bound.reshape(1, -1), size.reshape(1, -1), rounding(np.full((1, 1), top)))

    def _proposed(self, noise: Noise) -> tuple[tuple[int, int], Uniforms]:
        """Returns a cell, and the places of u and r in it."""
        none = np.zeros(_PROPOSALS, dtype=np.int64)
        while True:
            cell, _ = self._cells.proposed(noise, none)
            row, column = np.divmod(cell, len(self._r) - 1)
            drawn = first_digits(noise, 3 * _PROPOSALS).reshape(3, -1)
            heads, unsure = decided(drawn[2], *self._log_chance(cell, row, column, drawn[:2]))
            for k in np.flatnonzero(heads | unsure):
                places = Uniforms(noise, drawn[:2, k].tolist())
                at = int(row[k]), int(column[k])
                if heads[k] or self._settled(at, int(cell[k]), places, int(drawn[2, k]), noise):
                    return at, places

    def _log_chance(
        self, cell: Indices, row: Indices, column: Indices, places: Indices
    ) -> tuple[FloatArray, FloatArray]:
        """Returns ln of the probability to keep places in cells, and a bound on its error."""
        low, first = self._u[row], self._r[column]
        width, height = self._u[row + 1] - low, np.minimum(self._r[column + 1], self._room[row]) - first
        u, r = low + width * (places[0] * 2.0**-FIRST), first + height * (places[1] * 2.0**-FIRST)
        outside = (u / self._radius) ** 2 + (r / self._radius) ** 2 - 1.0
        tall = self._cells.log_height(np.zeros_like(cell), cell)
        log_chance = self._log_density(u, r) - tall
        with np.errstate(divide="ignore", invalid="ignore"):  # of r = 0
            terms = self._a * self._radius**2, self._s * self._radius, tall, self._power * (1.0 + np.abs(np.log(r)))
            # Places are known up to 2^-62 of a width: this matters for ln(r) where r is small beside the cell.
            error = rounding(*map(np.asarray, terms)) + self._power * 2.0**-50 * height / r
        log_chance = np.where(outside > 1e-12, -np.inf, log_chance)
        error = np.where(outside > 1e-12, 0.0, np.where(outside > -1e-12, np.inf, error))
        return log_chance, error

    def _ends(self, row: int, column: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Returns the intervals of u and r in a cell."""
        return (float(self._u[row]), float(self._u[row + 1])), (
            float(self._r[column]),
            float(min(self._r[column + 1], self._room[row])),
        )

    def _settled(self, at: tuple[int, int], cell: int, places: Uniforms, coin: int, noise: Noise) -> bool:
        """Decides with as many digits as necessary, of the places too."""
        (u0, u1), (r0, r1) = (tuple(map(Fraction, ends)) for ends in self._ends(*at))
        limit, size = Fraction(self._radius) ** 2, (u1 - u0) * (r1 - r0)

        def intervals() -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
            one = Fraction(1, 1 << places.bits)
            (u, v), (p, q) = (
                (low + (high - low) * one * known, low + (high - low) * one * (known + 1))
                for low, high, known in zip((u0, r0), (u1, r1), places.known, strict=True)
            )
            return (u, v), (p, q)

        while True:
            (u, v), (p, q) = intervals()
            if p > 0 and max(u * u, v * v) + q * q < limit:
                break
            if min(u * u, v * v) + p * p >= limit and u * v >= 0:
                return False
            places.extend(places.bits + FIRST)

        def exponent(digits: int) -> Interval:
            places.extend(4 * digits)
            (u, v), (p, q) = intervals()
            x, y, a, step = (in_decimals(number) for number in (u, p, self._precision, max(v - u, q - p)))
            root = in_decimals(self._square).sqrt()
            terms = -a * (x * x + y * y) / 2, root * x, self._power * y.ln()
            slope = 2 * a * (abs(x) + y + step) + root + self._power / y  # of the exponent, between the ends of places
            height = self._cells.exact_log_height(0, cell, size)
            found, error = sum(terms), 2 * slope * step + rounded_off(height, *terms)
            return found - height - error, found - height + error

        return below_exponential(coin, noise, exponent)

    # --- a point -----------------------------------------------------------------------------------------------------

    def draw(self, noise: Noise) -> BallPoint:
        """Returns one draw."""
        at, places = self._proposed(noise)
        direction = normals(len(self._axis), noise)
        return BallPoint(self._axis, self._length, self._radius, self._ends(*at), places, *direction)


def normals(count: int, noise: Noise) -> tuple[list[int], Uniforms]:
    """Returns independent normal numbers: of deviation S, number i being steps[i] - 1/2 + U[i]."""
    steps, places = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    further: dict[int, Uniforms] = {}
    left: Indices = np.arange(count)
    while left.size:
        drawn, place = noise.gaussian(float(_STEPS + 1), left.size), first_digits(noise, left.size)
        coin, size = first_digits(noise, left.size), np.abs(drawn).astype(np.float64)
        most = 1.0 / _STEPS + (size * size * _EXCESS + size + 1.0) / (2.0 * _STEPS**2)  # of q, for any place
        heads = coin * 2.0**-FIRST < 1.0 - 1.001 * most - _ROUNDOFF
        for j in np.flatnonzero(~heads):
            u = Uniforms(noise, [int(place[j])])
            heads[j] = below_exponential(int(coin[j]), noise, partial(_less_q, int(drawn[j]), u))
            if heads[j]:
                further[int(left[j])] = u
        steps[left[heads]], places[left[heads]] = drawn[heads], place[heads]
        left = left[~heads]
    return steps.tolist(), Uniforms.joined(noise, places.tolist(), further)


def _less_q(step: int, place: Uniforms, digits: int) -> Interval:
    """Encloses -q."""
    place.extend(4 * digits)
    one = Fraction(1, 1 << place.bits)
    low, high = (one * (place.known[0] + end) - Fraction(1, 2) for end in (0, 1))
    excess = 1 - Fraction(_STEPS, _STEPS + 1) ** 2

    def q(v: Fraction) -> Fraction:
        return Fraction(1, _STEPS) + (step * step * excess + (2 * step + v) * v) / (2 * _STEPS**2)

    ends = [q(low), q(high)]  # q is monotone in V for step != 0; else its least value is at V = 0
    least = q(Fraction(0)) if step == 0 and low < 0 < high else min(ends)
    return enclosed(-max(ends), -least, Decimal(0))


class BallPoint:
    """The point u*e + r*w; see ``OpenPoint``.

    Args:
        axis: A multiple of e, whole numbers.
        length: The sum of their squares.
        radius: R.
        ends: The intervals of u and r.
        places: The places of u and r in them.
        steps, parts: Of ``normals``: w is the direction of these numbers, less their part along e.
    """

    __slots__ = ("_axis", "_ends", "_last", "_length", "_parts", "_places", "_radius", "_steps")

    def __init__(
        self,
        axis: list[int],
        length: int,
        radius: float,
        ends: tuple[tuple[float, float], tuple[float, float]],
        places: Uniforms,
        steps: list[int],
        parts: Uniforms,
    ) -> None:
        self._axis, self._length, self._radius, self._ends = axis, length, math.ceil(radius), ends
        self._places, self._steps, self._parts = places, steps, parts
        self._last: tuple[int, tuple[list[int], int]] = (-1, ([], 0))

    def at(self, bits: int) -> tuple[list[int], int]:
        """Returns the coordinates in units of 2^-bits, and a bound on their error."""
        if self._last[0] != bits:
            more = 2 * len(self._axis).bit_length() + self._radius.bit_length() + 16
            while (found := self._point(bits + more)) is None:
                more += FIRST
            self._last = bits, ([x >> more for x in found[0]], (found[1] >> more) + 2)
        return self._last[1]

    def _point(self, bits: int) -> tuple[list[int], int] | None:
        """Returns the coordinates in units of 2^-bits with a bound on their error; None if w is quite unknown.

        All errors are in units of the last place, and products are rounded down. The numbers g are at most
        ``top``. Entries of g have an error of 1 and those of e of 2. So <g, e> has one of 2*d*(top + 2), the part y of
        g across e one of ``off`` in each entry, its norm one of d*off + 1, and an entry of w one of ``turned``.
        """
        d = len(self._axis)
        self._parts.extend(bits)
        shift = self._parts.bits - bits
        g = [
            (((2 * k - 1) << (self._parts.bits - 1)) + part) >> shift
            for k, part in zip(self._steps, self._parts.known, strict=True)
        ]
        root = math.isqrt(self._length << 2 * bits)
        e = [(x << 2 * bits) // root for x in self._axis]
        along = sum(map(operator.mul, g, e)) >> bits
        y = [p - (along * q >> bits) for p, q in zip(g, e, strict=True)]
        off = 8 * d * ((max(map(abs, g)) >> bits) + 3)
        norm = math.isqrt(sum(map(operator.mul, y, y)))
        if norm <= 4 * d * off:
            return None
        turned = (((d + 2) * off) << bits) // norm + 2
        self._places.extend(bits + self._radius.bit_length() + 1)
        known, digits = self._places.known, self._places.bits
        u, r = (placed(*ends, place, digits, bits) for ends, place in zip(self._ends, known, strict=True))
        found = [(u * p >> bits) + r * q // norm for p, q in zip(e, y, strict=True)]
        return found, 16 + 4 * self._radius * (turned + 3)
