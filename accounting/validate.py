"""Checks of arguments: a value in its domain comes back as a plain float, int or array, anything else is refused.

Every number that enters the library passes through here once, at construction, so the code behind can rely on finite
floats: an ``int``, a numpy scalar, a ``Fraction`` and a ``float`` of one value behave alike afterwards.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from .errors import InvalidArgumentError


def real(
    name: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    allow_inf: bool = False,
) -> float:
    """Returns ``value`` as a float within [low, high] (an end is excluded where ``*_open``).

    Raises:
      InvalidArgumentError: not a real number (a bool is none), NaN, infinite without ``allow_inf``, or out of range.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, Decimal)):
        raise InvalidArgumentError(name, value, "is not a real number", _range(low, high, low_open, high_open))
    try:
        number = float(value)
    except OverflowError:
        raise InvalidArgumentError(name, value, "does not fit in a float") from None
    if math.isnan(number) or (math.isinf(number) and not allow_inf):
        raise InvalidArgumentError(name, value, "is not finite", _range(low, high, low_open, high_open))
    below = low is not None and (number < low or (low_open and number == low))
    above = high is not None and (number > high or (high_open and number == high))
    if below or above:
        raise InvalidArgumentError(name, value, "is out of range", _range(low, high, low_open, high_open))
    return number + 0.0  # -0.0 becomes 0.0: equal values must hash and print alike


MOST = 2**53
"""Of whatever is counted: above it floats, of which bounds are made, skip whole numbers."""


def integer(name: str, value: object, *, low: int | None = None, high: int | None = None) -> int:
    """Returns ``value`` as an int within [low, high]; a float with an integral value is taken.

    Raises:
      InvalidArgumentError: not an integer (a bool is none), or out of range.
    """
    number = real(name, value, low=low, high=high)
    if isinstance(value, numbers.Integral):
        return int(value)
    if number != int(number):
        raise InvalidArgumentError(name, value, "is not an integer", _range(low, high, False, False))
    return int(number)


def probability(name: str, value: object, *, open: bool = False) -> float:
    """Returns ``value`` as a float in [0, 1], or in (0, 1) where ``open``."""
    return real(name, value, low=0.0, high=1.0, low_open=open, high_open=open)


def items(name: str, value: object) -> tuple[Any, ...]:
    """Returns the items of a list, a tuple or another iterable that is no text.

    Raises:
      InvalidArgumentError: it can't be iterated over.
    """
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return tuple(value)
    raise InvalidArgumentError(name, value, "is not a list of values")


def array(
    name: str,
    value: object,
    *,
    ndim: int | None = None,
    shape: tuple[int | None, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    dtype: Any = float,
    infinite: bool = False,
) -> np.ndarray[Any, Any]:
    """Returns ``value`` as an array of finite numbers in [low, high].

    Args:
      shape: the expected shape; ``None`` leaves an axis free.
      infinite: infinite numbers are allowed; NaN is not.

    Raises:
      InvalidArgumentError: ragged, not numeric, not finite, wrong shape or out of range.
    """
    try:
        raw = np.asarray(value)
    except ValueError:
        raise InvalidArgumentError(name, value, "is ragged", "give rows of one length") from None
    if raw.dtype.kind not in "iuf":
        raise InvalidArgumentError(name, value, "is not an array of real numbers")
    out = raw.astype(dtype, copy=False)
    if ndim is not None and out.ndim != ndim:
        raise InvalidArgumentError(name, value, f"has {out.ndim} axes", f"expected {ndim}")
    if shape is not None and (
        out.ndim != len(shape)
        or any(want is not None and want != got for want, got in zip(shape, out.shape, strict=True))
    ):
        wanted = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise InvalidArgumentError(name, value, f"has shape {out.shape}", f"expected {wanted}")
    if out.size:
        if infinite and np.isnan(out).any():
            raise InvalidArgumentError(name, value, "holds a value that is not a number")
        if not infinite and not np.isfinite(out).all():
            raise InvalidArgumentError(name, value, "holds a value that is not finite")
        least, most = out.min(), out.max()
        if low is not None and least < low:
            raise InvalidArgumentError(name, float(least), "is out of range", _range(low, high, False, False))
        if high is not None and most > high:
            raise InvalidArgumentError(name, float(most), "is out of range", _range(low, high, False, False))
    return out


def _range(low: float | None, high: float | None, low_open: bool, high_open: bool) -> str:
    if low is None and high is None:
        return "expected a finite real number"
    left = ("(" if low_open else "[") + f"{low:g}" if low is not None else "(-inf"
    right = f"{high:g}" + (")" if high_open else "]") if high is not None else "inf)"
    return f"expected a number in {left}, {right}"
