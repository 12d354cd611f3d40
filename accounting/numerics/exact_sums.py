"""Exact sums of floats: every finite float is a whole multiple of 2^-1074, so sums are sums of integers."""

from __future__ import annotations

import math

_UNIT = 1 << 1074


def exact(value: float) -> int:
    """Returns a finite ``value`` as its multiple of 2^-1074, without rounding."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_UNIT // denominator)


def shown(amount: int) -> str:
    """Returns ``amount``·2^-1074, not negative, in full: as a sum of floats, so that no two amounts look the same."""
    if amount >= exact(math.nextafter(math.inf, 0.0)):
        return f"{amount}·2^-1074"
    terms = []
    while amount > 0:
        nearest = rounded(amount, up=False)
        terms.append(repr(nearest))
        amount -= exact(nearest)
    return " + ".join(terms) or "0.0"


def rounded(amount: int, *, up: bool) -> float:
    """Returns a float at least (``up``), or at most, ``amount``·2^-1074; what is negative becomes 0."""
    if amount <= 0:
        return 0.0
    try:
        value = amount / _UNIT
    except OverflowError:
        return math.inf if up else math.nextafter(math.inf, 0.0)
    if up and exact(value) < amount:
        return math.nextafter(value, math.inf)
    if not up and exact(value) > amount:
        return math.nextafter(value, 0.0)
    return value
