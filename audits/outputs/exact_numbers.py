"""Numbers that no single float holds: large integers, decimals, fractions and times, as a few exact floats each.

The first float of a large integer is the nearest one, so that thresholds keep their meaning; what is left of the
integer follows. A decimal is its value, its digits as an integer, and its exponent; a fraction its value, numerator and
denominator; a point in time a day and a time of that day. Two values are equal if and only if all their floats are.

All floats here are of kind "i": they are not rounded to the public grid.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting.arrays import FloatArray

Exact = tuple[str, tuple[str, ...], list[float]]
"""What is exact, the names of its floats ("" for the value itself), and the floats."""

LARGEST = 1 << 53  # up to here every integer is a float
_BITS = 53
_MOST_PIECES = 16  # integers that need more are told apart as text
_MICROSECOND = datetime.timedelta(microseconds=1)


def pieces(value: int) -> list[float] | None:
    """Returns floats that add up to an integer exactly, 1, 2, 4, 8 or 16 of them; None for one that needs more."""
    count = 1
    while abs(value) > (1 << (_BITS * count)):
        count *= 2
        if count > _MOST_PIECES:
            return None
    found = []
    for _ in range(count):
        found.append(float(value))
        value -= int(found[-1])
    return found


def integer(value: int, name: str) -> Exact | None:
    """Returns an integer beyond 2^53; None if it is too large."""
    found = pieces(value)
    return None if found is None else (name, ("", *_rest("remainder", found[1:])), found)


def fraction(value: Fraction) -> Exact | None:
    """Returns a fraction; None if its numerator or denominator is too large."""
    above, below = pieces(value.numerator), pieces(value.denominator)
    if above is None or below is None:
        return None
    names = ("", *_rest("numerator", above), *_rest("denominator", below))
    return "Fraction", names, [float(value), *above, *below]


def decimal(value: Decimal) -> Exact | None:
    """Returns a decimal; None if it is not finite or has too many digits."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or len(digits) > 250:
        return None
    found = pieces(int("".join(map(str, digits))) * (-1 if sign else 1))
    if found is None:
        return None
    return "Decimal", ("", *_rest("digits", found), "exponent"), [float(value), *found, float(exponent)]


def time(value: datetime.date | datetime.time | datetime.timedelta) -> Exact:
    """Returns a date, a time, a point in time or a duration of :mod:`datetime`; a zone is part of its name."""
    name = type(value).__name__
    if isinstance(value, datetime.timedelta):
        day = value // datetime.timedelta(days=1)
        return name, ("days", "microseconds"), [float(day), float((value % datetime.timedelta(days=1)) / _MICROSECOND)]
    if isinstance(value, datetime.datetime):
        zone = _zone(value)
        day, rest = value.toordinal(), _of_day(value.timetz())
        nanosecond = float(getattr(value, "nanosecond", 0))  # pandas's
        unit = getattr(value, "unit", "")
        return f"{name}{zone}{unit and f' [{unit}]'}", ("day", "microsecond", "nanosecond"), [day, rest, nanosecond]
    if isinstance(value, datetime.date):
        return name, ("day",), [float(value.toordinal())]
    return f"{name}{_zone(value)}", ("microsecond",), [_of_day(value)]


def _of_day(value: datetime.time) -> float:
    return float(((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond)


def _zone(value: datetime.datetime | datetime.time) -> str:
    fold = " (fold)" if value.fold else ""
    return fold if value.tzinfo is None else f" in {value.tzname()} ({value.utcoffset()}){fold}"


def _rest(name: str, found: list[float]) -> tuple[str, ...]:
    return tuple(name if i == 0 else f"{name}, part {i + 1}" for i in range(len(found)))


def large(array: npt.NDArray[np.generic]) -> bool:
    """Returns whether an array of integers, or of times as integers, has one that is not a float."""
    if array.dtype.kind in "mM":
        return bool(array.size)
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 8 or not array.size:
        return False
    return int(array.max()) > LARGEST or int(array.min()) < -LARGEST


def halves(array: npt.NDArray[np.generic]) -> tuple[FloatArray, FloatArray]:
    """Returns two exact floats for each 64-bit integer or time of an array: a multiple of 2^32, and the rest."""
    whole: npt.NDArray[Any] = array.view(np.int64) if array.dtype.kind in "mM" else array
    high, low = whole // 2**32, whole % 2**32
    return high.astype(np.float64) * 2.0**32, low.astype(np.float64)
