"""How numbers and names are written for people, the same in the terminal and on the page.

A bound is rounded away from the truth: an upper bound is shown no smaller than it is, a lower bound no larger.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

_DIGITS = 5


def upper(value: Any) -> str:
    """Returns an upper bound in few digits, rounded up."""
    return _written(value, ROUND_CEILING)


def lower(value: Any) -> str:
    """Returns a lower bound in few digits, rounded down."""
    return _written(value, ROUND_FLOOR)


def number(value: Any) -> str:
    """Returns a number in few digits, rounded to nearest."""
    return _written(value, ROUND_HALF_EVEN)


def exact(value: Any) -> str:
    """Returns a number that somebody chose (ε, δ, a confidence), as they would write it."""
    if value is None:
        return "–"
    return f"{float(value):.12g}"


def whole(value: Any) -> str:
    """Returns a whole number with its thousands apart."""
    return "–" if value is None else f"{int(value):,}"


def seconds(value: Any) -> str:
    """Returns a duration."""
    return "–" if value is None else f"{float(value):.1f} s"


def brief(value: Any) -> str:
    """Returns a number in three digits, where it only has to be recognised."""
    return f"{float(value):.3g}"


def event_text(event: Any, length: int) -> str:
    """Returns a privacy event with its parameters in four digits."""
    return shorten(re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", str(event)), length)


def shorten(text: Any, length: int) -> str:
    """Returns a text in one line of at most ``length`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _written(value: Any, rounding: str) -> str:
    if value is None:
        return "–"
    value = float(value)
    if not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else "–"
    rounded = Context(prec=_DIGITS, rounding=rounding).create_decimal(Decimal(repr(value)))  # repr: 0.1 is meant as 0.1
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e6:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{rounded.normalize():e}".replace("e+", "e")
