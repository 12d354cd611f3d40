"""Helpers of ball arithmetic: exact numbers as balls, ends of balls as floats rounded outwards, comparisons that hold.

A ball (``flint.arb``) is a midpoint and a radius; every operation's result holds all that its operands can give. A
comparison of balls is true only if it is true of all their numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flint import acb, arb, fmpq

ZERO, ONE, HALF = arb(0), arb(1), arb(1) / 2
ROOT_2 = 2


class OutOfTimeError(Exception):
    """The time that was given for a certificate is used up."""


class NotCoveredError(Exception):
    """The checker has no rule for an event, or for a combination of events; the text names it."""


def ball(x: float | int | Fraction | arb) -> arb:
    """Returns a number as a ball: floats are the dyadic rationals that they are."""
    if isinstance(x, arb):
        return x
    if isinstance(x, Fraction):
        return arb(fmpq(x.numerator, x.denominator))
    return arb(x)


def up(x: arb) -> float:
    """Returns a float at or above all numbers of a ball; inf where there is none."""
    if not x.is_finite():
        return math.inf
    top = x.upper()
    number = float(top)
    return math.nextafter(number, math.inf) if not arb(number) >= top else number


def down(x: arb) -> float:
    """Returns a float at or below all numbers of a ball; -inf where there is none."""
    return -up(-x)


def around(radius: arb) -> arb:
    """Returns the ball of all numbers of at most this absolute value."""
    return arb(0, radius.upper())


def complex_around(radius: arb) -> acb:
    """Returns a complex ball that holds all numbers of at most this absolute value."""
    return acb(around(radius), around(radius))


def positive_part(x: arb) -> arb:
    """Returns max(x, 0)."""
    if x > 0:
        return x
    return ZERO if x <= 0 else ZERO.union(x.upper())


def larger(x: arb, y: arb) -> arb:
    """Returns the maximum of two balls."""
    if x >= y:
        return x
    return y if y >= x else x.max(y)


def normal_tail(x: arb) -> arb:
    """Returns Pr[N(0, 1) > x]."""
    return (x / arb(2).sqrt()).erfc() / 2


def spread(ends: tuple[arb, arb]) -> arb:
    """Returns the ball between a lower and an upper end."""
    return ends[0].union(ends[1])
