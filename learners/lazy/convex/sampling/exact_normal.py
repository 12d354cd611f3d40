"""Exact draws from an isotropic normal law on a box or a ball: the secure counterpart of the closed-form sampler.

Floating-point samplers draw from a law that differs from the intended one in its low bits, in a way that may depend on
the data. Here all arithmetic is on rational numbers, all coins are exact, and a point is a real number whose binary
digits are drawn on demand. The result has exactly the law of the measure, rounded down to a fixed lattice, which is
post-processing. A release therefore costs exactly as much as the measure, and nothing for sampling.

* *A coordinate.* From the mode of a t^2/2 + s*t outwards, in steps of width w, the number of steps is geometric with
  ratio 1/e and the place within the step is uniform. Rejection corrects the difference between the potential and this
  staircase: an exponential variate is compared with it, digit by digit, until the comparison is decided.
* *A box*: its coordinates are independent.
* *A ball*, if the mean is well inside: rejection from a cube around the ball. Otherwise, with the axis u along the mean
  m and distance r from that axis, the points are written as u = R - r^2/(2R) - v. The potential is a quadratic in v
  plus a quadratic across, plus a rest that is nonnegative on the ball, for rejection.

The duration of a draw depends on the data; only its outcome is private.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy.convex.losses.convex_losses import Ball, Domain
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, RegularizedWeights, as_box
from hockeystick.learners.lazy.convex.sampling.samplers import Certificate, ClosedFormSampler
from hockeystick.mechanisms.lazy.lazy_switching import exponential_coin
from hockeystick.mechanisms.randomness.noise import Noise

_DIGITS = 62  # number of binary digits of a uniform variate that are drawn at once
_ERROR = 1e-14  # relative error of a few floating-point operations
_FINE = 1 << 32  # the first draw of an exponential variate has the precision 1/_FINE
_SMALL_DIMENSION = 8  # up to this dimension a cube around a ball wastes few proposals


@frozen
class ExactSampler:
    """The sampler of exact draws for linear and quadratic losses, over a box or a ball, fit for release.

    Releases use :func:`exact_draw`; simulations of many runs draw from the same law in floating point.

    Example:
        >>> ExactSampler().certificate()
        Certificate(total_variation=0.0, basis='exact digits')
    """

    def certificate(self) -> Certificate:
        """Returns total variation 0, which holds in rational arithmetic, not only on paper."""
        return Certificate(0.0, "exact digits")

    def sample(self, measure: RegularizedMeasure, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` simulated draws, shape (runs, d), in floating point; see ``ClosedFormSampler.sample``."""
        return ClosedFormSampler().sample(measure, rng, runs)

    def check_release(self, weights: RegularizedWeights, domain: Domain, rounds: int, batch: int) -> None:
        """Refuses a ball on which a draw could take forever, by its public parameters.

        Raises:
            InvalidArgumentError: a ball of many dimensions whose radius is only a few standard deviations.
        """
        if not isinstance(domain, Ball) or domain.dimension <= _SMALL_DIMENSION:
            return
        least_precision = 2.0 * weights.inverse_temperature * weights.regularisation
        if domain.dimension**1.5 > 2.0 * domain.radius * math.sqrt(least_precision):
            raise InvalidArgumentError(
                "domain",
                domain,
                f"has {domain.dimension} dimensions and too small a radius for exact draws",
                "use a Box, or a larger inverse temperature or regularisation",
            )

    def released(
        self, weights: RegularizedWeights, domain: Domain, total: LossSum, unit: Fraction, noise: Noise
    ) -> tuple[int, ...]:
        """Returns one draw for the sum of all losses, in units of ``unit``; see :func:`exact_draw`."""
        beta, (slope, curvature) = Fraction(weights.inverse_temperature), total.form()
        precision = beta * (2 * Fraction(weights.regularisation) + curvature)
        return exact_draw(domain, precision, [beta * s for s in slope], unit, noise)


def exact_draw(
    domain: Domain, precision: Fraction, slope: Sequence[Fraction], unit: Fraction, noise: Noise
) -> tuple[int, ...]:
    """Returns one draw from the density exp(-precision*||x||^2/2 - <slope, x>), rounded down to a lattice.

    Args:
        domain: The density's support, a box or a ball of d dimensions.
        precision: > 0.
        slope: d numbers.
        unit: The lattice's step > 0; must not depend on data.
        noise: The source of all randomness.

    Returns:
        The d coordinates, in units. A coordinate that rounding takes below the box's lower corner is moved up into it.
    """
    box = as_box(domain)
    if box is None:
        return _in_ball(Fraction(domain.largest_norm), precision, slope, unit, noise)
    found = []
    for s, low, high in zip(slope, box.lower, box.upper, strict=True):
        bottom = Fraction(low)
        x = _on_line(precision, s, bottom, Fraction(high), noise)
        found.append(max(_rounded_down(_ends, [x], unit, noise)[0], -int(-bottom // unit)))
    return tuple(found)


# --- real numbers, digit by digit ------------------------------------------------------------------------------------


class _Real:
    """The number origin + step*U for a uniform U in [0, 1), of which some digits have been drawn."""

    __slots__ = ("_bits", "_digits", "_origin", "_step")

    def __init__(self, origin: Fraction, step: Fraction, noise: Noise) -> None:
        self._origin, self._step = origin, step
        self._digits, self._bits = 0, 0
        self.refine(noise)

    def refine(self, noise: Noise) -> None:
        """Draws more digits."""
        self._digits = (self._digits << _DIGITS) + int(noise.uniform(1 << _DIGITS, 1)[0])
        self._bits += _DIGITS

    @property
    def coarse(self) -> bool:
        """Whether only the first digits have been drawn."""
        return self._bits <= _DIGITS

    def share(self) -> tuple[Any, Any]:
        """Returns the interval of U; its ends are rounded floats if ``coarse``."""
        if self.coarse:
            return math.ldexp(self._digits, -self._bits), math.ldexp(self._digits + 1, -self._bits)
        return Fraction(self._digits, 1 << self._bits), Fraction(self._digits + 1, 1 << self._bits)

    def ends(self) -> tuple[Fraction, Fraction]:
        """Returns the interval of the number."""
        one, other = (self._origin + self._step * Fraction(self._digits + end, 1 << self._bits) for end in (0, 1))
        return min(one, other), max(one, other)


Interval = tuple[Fraction, Fraction]


def _ends(parts: Sequence[_Real]) -> list[Interval]:
    return [part.ends() for part in parts]


def _passes(bounds: Callable[[Sequence[_Real]], Interval], parts: Sequence[_Real], noise: Noise) -> bool:
    """Returns True with probability e^-q, for the q >= 0 that ``parts`` determine and ``bounds(parts)`` contains.

    A standard exponential variate E is refined until it surely lies on one side of q. Its digits up to any place form a
    geometric variate, and its digit 2^-j is 1 with probability 1/(1 + e^(2^-j)), independently of all others.
    """
    width = Fraction(1, _FINE)
    low = width * _geometric(_FINE, noise)
    while True:
        least, most = bounds(parts)
        if low >= most:
            return True
        if low + width <= least:
            return False
        if width <= most - least:
            _refine(parts, noise)
        else:
            width /= 2
            low += width * _digit(width, noise)


def _geometric(scale: int, noise: Noise) -> int:
    """Returns k >= 0 with probability proportional to e^(-k/scale): discrete Laplace noise k >= 0, or -k-1 < 0."""
    drawn = int(noise.laplace(float(scale), 1)[0])
    return drawn if drawn >= 0 else ~drawn


def _digit(place: Fraction, noise: Noise) -> int:
    """Returns 1 with odds e^-place, else 0."""
    while noise.uniform(2, 1)[0]:
        if exponential_coin(place, noise):
            return 1
    return 0


def _refine(parts: Sequence[_Real], noise: Noise) -> None:
    for part in parts:
        part.refine(noise)


def _inside(
    bounds: Callable[[Sequence[_Real]], Interval],
    low: Fraction,
    high: Fraction,
    parts: Sequence[_Real],
    noise: Noise,
) -> bool:
    """Whether the number that ``parts`` determine and ``bounds(parts)`` contains is in [low, high]."""
    while True:
        least, most = bounds(parts)
        if low <= least and most <= high:
            return True
        if most <= low or high <= least:
            return False
        _refine(parts, noise)


def _rounded_down(
    bounds: Callable[[Sequence[_Real]], Sequence[Interval]], parts: Sequence[_Real], unit: Fraction, noise: Noise
) -> list[int]:
    """Returns the numbers that ``parts`` determine and ``bounds(parts)`` contains, rounded down, in units."""
    for _ in range(2):
        _refine(parts, noise)
    while True:
        found = bounds(parts)
        below = [int(low // unit) for low, _ in found]
        if all(high <= unit * (place + 1) for place, (_, high) in zip(below, found, strict=True)):
            return below
        _refine(parts, noise)


# --- one coordinate --------------------------------------------------------------------------------------------------


def _on_line(precision: Fraction, slope: Fraction, low: Fraction, high: Fraction, noise: Noise) -> _Real:
    """Returns a draw from the density exp(-precision*x^2/2 - slope*x) on [low, high]."""
    mode = min(max(-slope / precision, low), high)
    rise = abs(precision * mode + slope)  # the potential's slope at the mode; 0 if the mode is inside
    reach = (mode - low, high - mode)
    # At distance t the potential is higher by q(t) = a*t^2/2 + s*t, which lies above its tangent at any t0:
    # q(t) >= (a*t0 + s)*t - a*t0^2/2 >= [t/w] - a*t0^2/2 for w >= 1/(a*t0 + s).
    touch = Fraction(1.0 / (math.sqrt(precision) + float(rise)))
    width = Fraction(1.0 / float(precision * touch + rise) * (1.0 + 1e-12))
    width = min(width, max(reach))  # it is smaller only if there is a single step
    shift = precision * touch * touch / 2

    a, b, w, c = float(precision), float(rise), float(width), float(shift)

    def potential(steps: int, parts: Sequence[_Real]) -> Interval:
        near, far = parts[0].share()
        if parts[0].coarse:  # floats decide nearly all cases; all terms are positive, with at most twenty roundings
            q, most = (t * (0.5 * a * t + b) + c for t in (w * (steps + near), w * (steps + far)))
            error = _ERROR * (most + steps)
            return Fraction(q - steps - error), Fraction(most - steps + error)
        low, high = (t * (precision * t / 2 + rise) - steps + shift for t in (width * (steps + x) for x in (near, far)))
        return low, high

    while True:
        side = int(noise.uniform(2, 1)[0]) if min(reach) > 0 else int(reach[1] > 0)
        steps = _geometric(1, noise)
        if width * steps >= reach[side]:
            continue
        sign = 2 * side - 1
        x = _Real(mode + sign * width * steps, sign * width, noise)
        inside = width * (steps + 1) <= reach[side] or _inside(_sole, low, high, [x], noise)
        if inside and _passes(partial(potential, steps), [x], noise):
            return x


def _sole(parts: Sequence[_Real]) -> Interval:
    return parts[0].ends()


# --- a ball ----------------------------------------------------------------------------------------------------------


def _in_ball(
    radius: Fraction, precision: Fraction, slope: Sequence[Fraction], unit: Fraction, noise: Noise
) -> tuple[int, ...]:
    mean = np.array([-float(s / precision) for s in slope])
    length = float(np.linalg.norm(mean))
    if length <= 0.5 * radius or length + math.sqrt(len(slope) / float(precision)) <= radius:
        return _in_cube(radius, precision, slope, unit, noise)
    return _along_mean(radius, precision, slope, mean / length, unit, noise)


def _in_cube(
    radius: Fraction, precision: Fraction, slope: Sequence[Fraction], unit: Fraction, noise: Noise
) -> tuple[int, ...]:
    """Proposals from the cube around the ball."""
    while True:
        parts = [_on_line(precision, s, -radius, radius, noise) for s in slope]
        if _inside(_square, Fraction(-1), radius * radius, parts, noise):
            return tuple(_rounded_down(_ends, parts, unit, noise))


def _along_mean(
    radius: Fraction,
    precision: Fraction,
    slope: Sequence[Fraction],
    direction: FloatArray,
    unit: Fraction,
    noise: Noise,
) -> tuple[int, ...]:
    """Proposals in coordinates along the mean and across it.

    The reflection x -> x - 2*w*<w, x>/<w, w> is exactly orthogonal for any rational w; this one maps the rounded
    direction of the mean to the first axis or its opposite. With m the mean's first coordinate there, b the slopes
    across, c = r^2/(2R) and u = R - c - v, the potential is, up to a constant,

        a*v^2/2 + a*(m - R)*v  +  sum of (a*m/R)*y_i^2/2 + b_i*y_i  +  a*c*(c + 2*v)/2,

    and the ball is where (c + v)^2 <= 2*R*v.
    """
    w = [Fraction(float(e)) for e in direction]
    w[0] += 1 if w[0] >= 0 else -1
    norm = sum((e * e for e in w), Fraction(0))

    def reflected(x: Sequence[Fraction]) -> list[Fraction]:
        along = 2 * sum((e * y for e, y in zip(w, x, strict=True)), Fraction(0)) / norm
        return [y - along * e for e, y in zip(w, x, strict=True)]

    first, *across = reflected(slope)
    side = -1 if first > 0 else 1  # the mean is on that side of the first axis
    mean = abs(first) / precision

    def sag(parts: Sequence[_Real]) -> Interval:
        low, high = _square(parts[1:])
        return low / (2 * radius), high / (2 * radius)

    def excess(parts: Sequence[_Real]) -> Interval:
        (v, top), (c, most) = parts[0].ends(), sag(parts)
        return (c + v) ** 2 - 2 * radius * top, (most + top) ** 2 - 2 * radius * v

    def rest(parts: Sequence[_Real]) -> Interval:
        low, high = (precision * c * (c + 2 * v) / 2 for v, c in zip(parts[0].ends(), sag(parts), strict=True))
        return low, high

    def place(parts: Sequence[_Real]) -> list[Interval]:
        (v, top), *others = _ends(parts)
        middles = [(low + high) / 2 for low, high in others]
        error = sum(((high - low) / 2 for low, high in others), (top - v) / 2)
        sunk = sum((y * y for y in middles), Fraction(0)) / (2 * radius)
        height = side * (radius - sunk - (v + top) / 2)
        # r^2/(2R) is 1-Lipschitz in each coordinate across, and an orthogonal map has no entry above 1.
        return [(x - 2 * error, x + 2 * error) for x in reflected([height, *middles])]

    while True:
        parts = [_on_line(precision, precision * (mean - radius), Fraction(0), 2 * radius, noise)]
        parts += [_on_line(precision * mean / radius, s, -radius, radius, noise) for s in across]
        if _inside(excess, Fraction(-9) * radius * radius, Fraction(0), parts, noise) and _passes(rest, parts, noise):
            return tuple(_rounded_down(place, parts, unit, noise))


def _square(parts: Sequence[_Real]) -> Interval:
    """The sum of the squares."""
    low = high = Fraction(0)
    for one, other in _ends(parts):
        low += 0 if one < 0 < other else min(one * one, other * other)
        high += max(one * one, other * other)
    return low, high
