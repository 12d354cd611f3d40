"""Zero crossings of a number that changes with the logarithm of a parameter; they lead a calibration.

The functions are stand-ins for the bound that counts. They may be infinite, flat in places, or refuse by an exception,
which ends the search; what is found is a place to start from and nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import frozen

Function = Callable[[float], float]

_FAR = math.log(1e15)  # from the guess
_FIRST = (math.log(2.0), math.log(64.0), math.log(1e5))  # steps that may show which way the function goes
_CAREFUL = math.log(1.4)  # a first step by a slope that may be another function's
_LEAST, _WIDEST = 0.1, math.log(1e4)
_MOST = 1e3  # values are cut off here
_STEPS = 100


@frozen
class Span:
    """Two places and the function's values there; ``y`` is the last that was asked for."""

    x: float
    fx: float
    y: float
    fy: float

    @property
    def crosses(self) -> bool:
        """Says whether the function changes its sign in between."""
        return (self.fx > 0.0) != (self.fy > 0.0)

    @property
    def slope(self) -> float:
        """The secant's; 0 where there is none."""
        return (self.fy - self.fx) / (self.y - self.x) if self.y != self.x else 0.0


def span(f: Function, guess: float, low: float, high: float, slope: float = 0.0, growth: float = 3.0) -> Span | None:
    """Returns a span near ``guess`` in which f crosses zero, else the last one before the end of what was searched.

    Args:
      low, high: the domain's ends; within them f is asked no further than a factor of 1e15 from the guess.
      slope: f's, if that is known.
      growth: how many times as long as the last one a step may be.

    Returns:
      None where f seems not to change at all.
    """
    low, high = max(low, guess - _FAR), min(high, guess + _FAR)
    here = _cut(f(guess))
    found = None
    for step in (min(1.3 * abs(here / slope), _CAREFUL), *_FIRST) if slope else _FIRST:
        ahead = 1.0 if not slope or (slope < 0.0) == (here > 0.0) else -1.0
        place = min(max(guess + ahead * step, low), high)
        place = min(max(guess - ahead * step, low), high) if place == guess else place
        if place != guess and (value := _cut(f(place))) != here:
            found = Span(guess, here, place, value)
            break
    for _ in range(_STEPS):  # a function that turns may lead back and forth
        if found is None or found.crosses or (following := _next(found, low, high, growth)) is None:
            break
        value = _cut(f(following))
        near = (found.x, found.fx) if (following - found.x) * (found.y - found.x) < 0.0 else (found.y, found.fy)
        if value == near[1] and abs(following - guess) > _FAR / 2:
            break
        found = Span(*near, following, value)
    return found


def _next(found: Span, low: float, high: float, growth: float) -> float | None:
    """The next place, towards zero by the secant, but not too far; None at an end."""
    ahead = 1.0 if (found.slope < 0.0) == (found.fy > 0.0) else -1.0
    last = abs(found.y - found.x)
    start = max(found.x, found.y) if ahead > 0.0 else min(found.x, found.y)
    value = found.fx if start == found.x else found.fy
    wanted = 1.1 * abs(value / found.slope) if found.slope else math.inf
    place = min(max(start + ahead * min(max(wanted, min(last, _LEAST)), growth * last, _WIDEST), low), high)
    return None if place == start else place


def root(f: Function, found: Span, accuracy: float, *, most: int = 30) -> tuple[float, float]:
    """Returns about where f crosses zero within a span, and the slope near there.

    Secants within the span, halved where they bring nothing. f is not asked at the place itself: the search ends where
    the next step would be shorter than ``accuracy``.
    """
    (low, f_low), (high, f_high) = sorted([(found.x, found.fx), (found.y, found.fy)])
    x, fx, slope = (low, f_low, found.slope) if abs(f_low) < abs(f_high) else (high, f_high, found.slope)
    for i in range(most):
        following = x - fx / slope if slope else math.nan
        if abs(following - x) < accuracy or high - low < accuracy:
            return min(max(following, low), high), slope
        if not low < following < high or i % 4 == 3:
            following = 0.5 * (low + high)
        before, x = (x, fx), following
        fx = _cut(f(x))
        low, high = (x, high) if (fx > 0.0) == (f_low > 0.0) else (low, x)
        secant = (fx - before[1]) / (x - before[0])
        slope = secant if secant * found.slope > 0.0 else found.slope
    return x, slope


def falling(f: Function, high: float, *, upper: bool, accuracy: float) -> float:
    """Returns a place in (0, high] at which a falling f with f(0) > 0 ≥ f(high) was seen not to be above 0.

    Args:
      high: a place where f ≤ 0; it may be far beyond the crossing.
      upper: whether to return that place, or else the last one that was seen to be above 0.
      accuracy: of the place, in proportion.
    """
    low, f_low, f_high = high, 1.0, f(high)
    while f_low > 0.0 and low > 0.0:  # the crossing may be many orders of magnitude below
        low /= 4.0
        value = f(low)
        if value > 0.0:
            f_low = value
            break
        high, f_high = low, value
    for i in range(_STEPS):
        if high - low <= accuracy * high:
            break
        share = f_low / (f_low - f_high) if math.isfinite(f_high) and i % 4 != 3 else 0.5
        step = accuracy * high / 2
        place = low + share * (high - low) + (step if i % 2 else -step)  # once either side is near, the other follows
        place = min(max(place, low + step / 2), high - step / 2)
        value = f(place)
        low, f_low, high, f_high = (place, value, high, f_high) if value > 0.0 else (low, f_low, place, value)
    return high if upper else low


def _cut(value: float) -> float:
    return min(_MOST, max(-_MOST, value))
