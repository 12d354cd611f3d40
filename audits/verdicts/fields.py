"""Reading verdicts back from plain values: every field is of its type and in its domain, or the whole is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import real

Check = Callable[[str, object], Any]
"""Takes a field's name and what stands there; returns its value, or raises InvalidArgumentError."""

_MOST = 2**53  # of what is counted


def read_object(text: object) -> dict[str, Any]:
    """Returns the object that a JSON text holds.

    Raises:
      InvalidArgumentError: it is no text, not JSON, nested too deep, or holds something else.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError("text", type(text).__name__, "is no text")
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError("text", text, f"is not JSON ({error})") from None
    if not isinstance(plain, dict):
        raise InvalidArgumentError("text", text, "holds no object of JSON")
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
        raise InvalidArgumentError(what, min(map(str, unknown)), "is no field of it")
    return {name: check(name, plain[name]) for name, check in checks.items() if name in plain}


def epsilon(name: str, value: object) -> float:
    """A privacy loss, finite and ≥ 0."""
    return _real(name, value, low=0.0)


def duration(name: str, value: object) -> float:
    """Seconds, ≥ 0."""
    return _real(name, value, low=0.0)


def epsilon_or_none(name: str, value: object) -> float:
    """A privacy loss ≥ 0; None stands for an infinite one."""
    return math.inf if value is None else _real(name, value, low=0.0)


def share(name: str, value: object) -> float:
    """A probability or a share, in [0, 1]."""
    return _real(name, value, low=0.0, high=1.0)


def level(name: str, value: object) -> float:
    """A probability in (0, 1)."""
    return _real(name, value, low=0.0, high=1.0, low_open=True, high_open=True)


def finite(name: str, value: object) -> float:
    """Any finite number."""
    return _real(name, value)


def count(name: str, value: object) -> int:
    """A whole number from 0 to 2^53."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise _refused(name, value, "is no whole number from 0 to 2^53")
    return value


def seed(name: str, value: object) -> int:
    """A whole number ≥ 0 of at most 4096 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or value.bit_length() > 4096:
        raise _refused(name, value, "is no seed: a whole number from 0 on")
    return value


def truth(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise _refused(name, value, "is neither true nor false")
    return value


def words(name: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _refused(name, value, "is no text")
    return value


def sentences(name: str, value: object) -> tuple[str, ...]:
    """A list of texts."""
    return tuple(words(name, one) for one in rows(name, value))


def rows(name: str, value: object) -> list[Any]:
    """A list."""
    if not isinstance(value, (list, tuple)):
        raise _refused(name, value, "is no list")
    return list(value)


def versions(name: str, value: object) -> dict[str, str]:
    """Texts by name."""
    if not isinstance(value, dict) or not all(isinstance(x, str) for pair in value.items() for x in pair):
        raise _refused(name, value, "does not give a text for each name")
    return dict(value)


def one_of(*options: str) -> Check:
    """Returns the check for one of some words."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in options:
            raise _refused(name, value, f"is none of {', '.join(options)}")
        return value

    return check


def at_most(values: Mapping[str, Any], name: str, other: str) -> None:
    """Refuses a field that is above another one.

    Raises:
      InvalidArgumentError: it is.
    """
    if values.get(name, 0) > values[other]:
        raise InvalidArgumentError(name, values[name], f"is above {other}={values[other]}")


def _real(name: str, value: object, **domain: Any) -> float:
    if not isinstance(value, (int, float)):
        raise _refused(name, value, "is no number")
    return real(name, value, **domain)


def _refused(name: str, value: object, reason: str) -> InvalidArgumentError:
    """What holds other values is told by its type: it may be nested too deep to be shown."""
    shown = value if isinstance(value, (bool, float, str)) or value is None else type(value).__name__
    return InvalidArgumentError(name, shown, reason)
