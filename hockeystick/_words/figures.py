"""Numbers and names as text, the same in the terminal and on the page.

An upper bound is rounded up, a lower bound down.
"""

from __future__ import annotations

import re
from typing import Any

from hockeystick.accounting.numerics import rounded_text


def upper(value: Any) -> str:
    """Returns an upper bound in few digits, rounded up."""
    return "–" if value is None else rounded_text.upper(float(value))


def lower(value: Any) -> str:
    """Returns a lower bound in few digits, rounded down."""
    return "–" if value is None else rounded_text.lower(float(value))


def number(value: Any) -> str:
    """Returns a number in few digits, rounded to nearest."""
    return "–" if value is None else rounded_text.nearest(float(value))


def exact(value: Any) -> str:
    """Returns a number that the user chose (ε, δ, a confidence level), in full."""
    if value is None:
        return "–"
    return f"{float(value):.12g}"


def whole(value: Any) -> str:
    """Returns a whole number with separators of thousands."""
    return "–" if value is None else f"{int(value):,}"


def seconds(value: Any) -> str:
    """Returns a duration."""
    return "–" if value is None else f"{float(value):.1f} s"


def brief(value: Any) -> str:
    """Returns a number in three digits, to be recognised only."""
    return f"{float(value):.3g}"


def event_text(event: Any, length: int) -> str:
    """Returns a privacy event with its parameters in four digits."""
    return shorten(re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda found: f"{float(found[0]):.4g}", str(event)), length)


def shorten(text: Any, length: int) -> str:
    """Returns a text in one line of at most ``length`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= length else line[: length - 1] + "…"
