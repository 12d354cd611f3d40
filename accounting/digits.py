"""Numbers in few digits for people: a bound is rounded away from the truth.

An upper bound is shown no smaller than it is, a lower bound no larger.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DIGITS = 5


def upper(value: float, digits: int = DIGITS) -> str:
    """Returns an upper bound in so many digits, rounded up."""
    return _written(value, digits, ROUND_CEILING)


def lower(value: float, digits: int = DIGITS) -> str:
    """Returns a lower bound in so many digits, rounded down."""
    return _written(value, digits, ROUND_FLOOR)


def nearest(value: float, digits: int = DIGITS) -> str:
    """Returns a number in so many digits, rounded to nearest."""
    return _written(value, digits, ROUND_HALF_EVEN)


def _written(value: float, digits: int, rounding: str) -> str:
    value = float(value)
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "–"
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(value)))  # repr: 0.1 is meant as 0.1
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e6:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{rounded.normalize():e}".replace("e+", "e")
