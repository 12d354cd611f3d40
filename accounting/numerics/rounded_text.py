"""Numbers in few digits for people: a bound is rounded away from the truth.

An upper bound is shown no smaller than it is, a lower bound no larger.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

DIGITS = 5


def upper(value: float, digits: int = DIGITS) -> str:
    """Returns an upper bound in so many digits, rounded up."""
    return _written(value, digits, ROUND_CEILING)


def lower(value: float, digits: int = DIGITS) -> str:
    """Returns a lower bound in so many digits, rounded down."""
    return _written(value, digits, ROUND_FLOOR)


def formatted_up(value: float, spec: str) -> str:
    """Returns an upper bound as ``format`` with ``spec`` would, but rounded up.

    Raises:
      ValueError: no format of a float.
    """
    text = format(value, spec)  # refuses a bad format
    parts = re.fullmatch(r".*?(?:\.(\d+))?([eEfFgGn%]?)", spec, re.DOTALL)
    if parts is None or not math.isfinite(value) or not (parts[1] or parts[2]):
        return text  # in full
    places, kind = int(parts[1] or 6), {"": "g", "n": "g"}.get(parts[2].lower(), parts[2].lower())

    def shown(number: float) -> Decimal:
        bare = format(number, f".{places}{kind}")
        return Decimal(bare.rstrip("%")) / (100 if kind == "%" else 1)

    if float(near := shown(value)) >= value:
        return text
    fixed = {"f": -places, "%": -places - 2}
    last = fixed[kind] if kind in fixed else near.adjusted() - max(0, places - (kind == "g"))
    found = float(near + Decimal(1).scaleb(last))
    while float(shown(found)) < value:  # with as many digits as a float has
        found = math.nextafter(found, math.inf)
    return format(found, spec)


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
