"""The reader of verdicts from plain values, which refuses a verdict if any field has a wrong type or value."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.files.reading import UnreadableFileError, json_value
from hockeystick.accounting.validate import real

Check = Callable[[str, object], Any]
"""Takes a field's name and its plain value; returns the field's value, or raises InvalidArgumentError."""

_MOST = 2**53  # the largest count


def read_object(text: object) -> dict[str, Any]:
    """Returns the object in a JSON text.

    Raises:
      InvalidArgumentError: ``text`` is not a string, not JSON, nested too deep, or not an object.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError("text", type(text).__name__, "is not a string")
    try:
        plain = json_value(text, constants=True)  # a field that is NaN is refused by name
    except UnreadableFileError as error:
        raise InvalidArgumentError("text", text, f"is not JSON ({error})") from None
    if not isinstance(plain, dict):
        raise InvalidArgumentError("text", text, "is not a JSON object")
    return plain


def read_fields(
    what: str, plain: Mapping[str, object], checks: Mapping[str, Check], *, optional: Collection[str] = ()
) -> dict[str, Any]:
    """Returns the fields of ``plain``, each as its check returns it; ``optional`` ones may be missing.

    Raises:
      InvalidArgumentError: a field is missing, unknown, of another type or out of its domain.
    """
    missing, unknown = checks.keys() - plain.keys() - set(optional), plain.keys() - checks.keys()
    if missing:
        raise InvalidArgumentError(what, min(missing), "is missing")
    if unknown:
        raise InvalidArgumentError(what, min(map(str, unknown)), "is not one of its fields")
    return {name: check(name, plain[name]) for name, check in checks.items() if name in plain}


def epsilon(name: str, value: object) -> float:
    """Returns an epsilon, finite and ≥ 0."""
    return _real(name, value, low=0.0)


def duration(name: str, value: object) -> float:
    """Returns a number of seconds, ≥ 0."""
    return _real(name, value, low=0.0)


def epsilon_or_none(name: str, value: object) -> float:
    """Returns an epsilon ≥ 0, which is infinite for None."""
    return math.inf if value is None else _real(name, value, low=0.0)


def share(name: str, value: object) -> float:
    """Returns a probability or a share, in [0, 1]."""
    return _real(name, value, low=0.0, high=1.0)


def level(name: str, value: object) -> float:
    """Returns a probability in (0, 1)."""
    return _real(name, value, low=0.0, high=1.0, low_open=True, high_open=True)


def finite(name: str, value: object) -> float:
    """Returns a finite number."""
    return _real(name, value)


def count(name: str, value: object) -> int:
    """Returns a whole number from 0 to 2^53."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise _refused(name, value, "is not a whole number from 0 to 2^53")
    return value


def seed(name: str, value: object) -> int:
    """Returns a whole number ≥ 0 of at most 4096 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value.bit_length() > 4096:
        raise _refused(name, value, "is not a seed (a whole number from 0 on)")
    return value


def truth(name: str, value: object) -> bool:
    """Returns True or False."""
    if not isinstance(value, bool):
        raise _refused(name, value, "is neither true nor false")
    return value


def words(name: str, value: object) -> str:
    """Returns a string."""
    if not isinstance(value, str):
        raise _refused(name, value, "is not a string")
    return value


def sentences(name: str, value: object) -> tuple[str, ...]:
    """Returns a tuple of strings."""
    return tuple(words(name, one) for one in rows(name, value))


def rows(name: str, value: object) -> list[Any]:
    """Returns a list."""
    if not isinstance(value, (list, tuple)):
        raise _refused(name, value, "is not a list")
    return list(value)


def versions(name: str, value: object) -> dict[str, str]:
    """Returns a dict of strings."""
    if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
        raise _refused(name, value, "is not a dict of strings")
    return dict(value)


def one_of(*options: str) -> Check:
    """Returns the check of a string that must be one of ``options``."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise _refused(name, value, f"is none of {', '.join(options)}")
        return value

    return check


def at_most(values: Mapping[str, Any], name: str, other: str) -> None:
    """Checks that a field is at most another one.

    Raises:
      InvalidArgumentError: it is larger.
    """
    if values.get(name, 0) > values[other]:
        raise InvalidArgumentError(name, values[name], f"is above {other}={values[other]}")


def _real(name: str, value: object, **domain: Any) -> float:
    if not isinstance(value, (int, float)):
        raise _refused(name, value, "is not a number")
    return real(name, value, **domain)


def _refused(name: str, value: object, reason: str) -> InvalidArgumentError:
    """Returns the error about a field; containers are shown by their type, as they may be nested too deep to print."""
    shown = value if isinstance(value, (bool, float, str)) or value is None else type(value).__name__
    return InvalidArgumentError(name, shown, reason)
