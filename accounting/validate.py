"""Checks of arguments: a value in its domain comes back as a plain float, int or array, anything else is refused.

Every number that enters the library passes through here once, at construction, so the code behind can rely on finite
floats: an ``int``, a numpy scalar, a ``Fraction`` and a ``float`` of one value behave alike afterwards.

Where an argument holds data, ``data=True`` makes the refusal an ``InvalidDataError``: it tells the place, the type and
the reason, and never the value.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeVar

import numpy as np

from hockeystick.accounting.errors import InvalidArgumentError, InvalidDataError

_T = TypeVar("_T", bound=str)

MOST = 2**53
"""Of whatever is counted: above it floats, of which bounds are made, skip whole numbers."""


def real(
    name: str,
    value: object,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    allow_inf: bool = False,
    data: bool = False,
) -> float:
    """Returns ``value`` as a float within [low, high] (an end is excluded where ``*_open``).

    Raises:
      InvalidArgumentError: not a real number (a bool is none), NaN, infinite without ``allow_inf``, or out of range.
    """
    refusal = InvalidDataError if data else InvalidArgumentError
    number: float | None
    if type(value) is float:  # nearly all of them: the checks of other types take longer than the rest
        number = value
    elif type(value) is int and -MOST <= value <= MOST:
        number = float(value)
    else:
        if isinstance(value, np.ndarray) and value.ndim == 0 and not isinstance(value, np.ma.MaskedArray):
            value = value[()]
        if isinstance(value, (bool, np.bool_, np.timedelta64)) or not isinstance(value, (numbers.Real, Decimal)):
            raise refusal(name, value, "is not a real number", _range(low, high, low_open, high_open))
        number = _float(value)
        if number is None or (number == 0.0 and value != 0):
            raise refusal(name, value, "does not fit in a float")
    if math.isnan(number) or (math.isinf(number) and not allow_inf):
        raise refusal(name, value, "is not finite", _range(low, high, low_open, high_open))
    below = low is not None and (number < low or (low_open and number == low))
    above = high is not None and (number > high or (high_open and number == high))
    if below or above:
        raise refusal(name, value, "is out of range", _range(low, high, low_open, high_open))
    return number + 0.0  # -0.0 becomes 0.0: equal values must hash and print alike


def integer(name: str, value: object, *, low: int | None = None, high: int | None = None, data: bool = False) -> int:
    """Returns ``value`` as an int within [low, high]; a float with an integral value is taken.

    Raises:
      InvalidArgumentError: not an integer (a bool is none), or out of range.
    """
    number = real(name, value, low=low, high=high, data=data)
    if type(value) is int:
        return value
    exact: Any = value if isinstance(value, (numbers.Rational, Decimal)) else number  # a Fraction may be off by less
    whole = int(exact)
    if whole != exact:
        refusal = InvalidDataError if data else InvalidArgumentError
        raise refusal(name, value, "is not an integer", _range(low, high, False, False))
    return whole


def probability(name: str, value: object, *, open: bool = False) -> float:
    """Returns ``value`` as a float in [0, 1], or in (0, 1) where ``open``."""
    return real(name, value, low=0.0, high=1.0, low_open=open, high_open=open)


def boolean(name: str, value: object) -> bool:
    """Returns ``value``: True or False, and nothing that merely looks like it.

    Raises:
      InvalidArgumentError: it is neither.
    """
    if not isinstance(value, bool):
        raise InvalidArgumentError(name, value, "is not a bool", "use True or False")
    return value


def one_of(name: str, value: object, *choices: _T) -> _T:
    """Returns the choice that ``value`` equals.

    Raises:
      InvalidArgumentError: it equals none.
    """
    for choice in choices:
        if isinstance(value, str) and value == choice:  # an array is equal to nothing, or not at all
            return choice
    *rest, last = (f'"{choice}"' for choice in choices)
    raise InvalidArgumentError(name, value, "is unknown", f"use {', '.join(rest)} or {last}" if rest else f"use {last}")


def function(name: str, value: object, remedy: str = "") -> None:
    """Checks that ``value`` can be called.

    Raises:
      InvalidArgumentError: it can't.
    """
    if not callable(value):
        raise InvalidArgumentError(name, value, "can't be called", remedy)


def text(name: str, value: object, remedy: str = "") -> str:
    """Returns ``value``, a text.

    Raises:
      InvalidArgumentError: it is not one.
    """
    if not isinstance(value, str):
        raise InvalidArgumentError(name, value, "is missing" if value is None else "is not a text", remedy)
    return value


def items(name: str, value: object, *, data: bool = False) -> tuple[Any, ...]:
    """Returns the items of a list, a tuple or another iterable that is not text.

    Raises:
      InvalidArgumentError: it can't be iterated over.
    """
    single = isinstance(value, (str, bytes)) or (isinstance(value, np.ndarray) and not value.ndim)
    if isinstance(value, Iterable) and not single:
        return tuple(value)
    raise (InvalidDataError if data else InvalidArgumentError)(name, value, "is not a list of values")


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
    bools: bool = False,
    data: bool = False,
) -> np.ndarray[Any, Any]:
    """Returns ``value`` as an array of finite numbers in [low, high].

    Args:
      shape: the expected shape; ``None`` leaves an axis free.
      dtype: of the result; floats are taken for whole numbers where they are some.
      infinite: infinite numbers are allowed; NaN is not.
      bools: True and False are allowed, and mean 1 and 0.
      data: what is refused is data; the error names the first place that is to blame, as in ``value[3, 1]``.

    Raises:
      InvalidArgumentError: ragged, masked, not numeric, not finite, wrong shape or out of range.
    """
    refusal = InvalidDataError if data else InvalidArgumentError
    raw = as_array(name, value, data=data)
    if raw.dtype.kind not in ("biuf" if bools else "iuf"):
        remedy = "if True is meant to be 1, cast it by .astype(float)" if raw.dtype.kind == "b" else ""
        raise refusal(name, value, "is not an array of real numbers", remedy)
    whole = raw.dtype.kind == "f" and np.issubdtype(dtype, np.integer)
    wanted = float if whole else dtype
    if raw.dtype == wanted:
        out = raw
    else:
        with np.errstate(over="ignore"):  # of a float of more than 64 bits: it becomes infinite, and is refused below
            out = raw.astype(wanted, copy=False)
    if ndim is not None and out.ndim != ndim:
        raise refusal(name, value, f"has {out.ndim} axes", f"expected {ndim}")
    if shape is not None and (
        out.ndim != len(shape)
        or any(want is not None and want != got for want, got in zip(shape, out.shape, strict=True))
    ):
        expected = "(" + ", ".join("any" if s is None else str(s) for s in shape) + ")"
        raise refusal(name, value, f"has shape {out.shape}", f"expected {expected}")
    if out.size:
        least, most = out.min(), out.max()  # NaN if any entry is
        if math.isnan(least) if infinite else not (math.isfinite(least) and math.isfinite(most)):
            absent = np.isnan(out) if infinite else ~np.isfinite(out)
            reason = "not a number" if infinite else "not finite"
            if data:
                raise InvalidDataError(place(name, absent), out.dtype, f"is {reason}")
            raise InvalidArgumentError(name, value, f"holds a value that is {reason}")
        for end, wrong in ((least, low is not None and least < low), (most, high is not None and most > high)):
            if wrong:
                where = place(name, out == end) if data else name
                raise refusal(where, float(end), "is out of range", _range(low, high, False, False))
    if whole:
        broken = (out != np.floor(out)) | (np.abs(out) > MOST)  # beyond it floats skip whole numbers
        if broken.any():
            raise refusal(place(name, broken) if data else name, out.dtype if data else value, "is not a whole number")
        return out.astype(dtype)
    return out


def as_array(name: str, value: object, *, data: bool = False) -> np.ndarray[Any, Any]:
    """Returns ``value`` as the array that numpy makes of it, of any type.

    Raises:
      InvalidArgumentError: it is ragged, or some of its entries are masked: what stands there is not meant.
    """
    refusal = InvalidDataError if data else InvalidArgumentError
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise refusal(name, value, "has masked entries", "fill them, or leave them out")
    found = _array(value)
    if found is None:
        raise refusal(name, value, "is ragged", "give rows of one length")
    return found


def place(name: str, wrong: np.ndarray[Any, Any]) -> str:
    """Returns the first place where ``wrong`` holds, as in ``losses[3, 1]``; for a single number its name."""
    if not wrong.ndim:
        return name
    return f"{name}[{', '.join(str(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))}]"


# Conversions hand back what is none as a value: an error that is raised while another one is handled has that one for
# its context, and there the text of what could not be converted would stand.


def _float(value: Any) -> float | None:
    """A number as a float, None where it is too large for one, NaN where it is none."""
    try:
        if isinstance(value, np.longdouble):
            with np.errstate(over="ignore"):
                return float(value)
        return float(value)
    except OverflowError:
        return None
    except (ValueError, TypeError, ArithmeticError):
        return math.nan


def _array(value: Any) -> np.ndarray[Any, Any] | None:
    try:
        return np.asarray(value)
    except (ValueError, TypeError, ArithmeticError, Warning):
        return None


def _range(low: float | None, high: float | None, low_open: bool, high_open: bool) -> str:
    if low is None and high is None:
        return "expected a finite real number"
    left = ("(" if low_open else "[") + f"{low:g}" if low is not None else "(-inf"
    right = f"{high:g}" + (")" if high_open else "]") if high is not None else "inf)"
    return f"expected a number in {left}, {right}"
