"""The checks that an event of a user's own class must pass before its numbers enter a bound.

The library's own classes are tested. In any other class a curve below 0, or a value of the wrong shape, would lead to
an ε below the truth, or to an error of numpy's far from its cause. Each event is checked once, at a few orders.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.native_class import native_event_class

_LIBRARY = __name__.partition(".")[0]
_COMPARING_BY_FIELDS = (_LIBRARY, "dp_accounting", "builtins")
_ORDERS = np.array([1.5, 2.0, 8.0, 64.0])


def check_event(value: object) -> None:
    """Refuses a value that is not a usable event.

    Raises:
      InvalidArgumentError: the value is not an event; the argument is named "event".
      UnsupportedEventError: its class is not the library's own, and its curves are invalid.
    """
    if not isinstance(value, PrivacyEvent):
        raise InvalidArgumentError("event", value, "is not a privacy event", _way_out(value))
    if type(value).__module__.partition(".")[0] != _LIBRARY:
        _check_identity(value)
        _check_curves(value)


def is_event(_: object, __: object, value: Any) -> None:
    """Refuses a value that is not a usable event; a validator of attrs fields."""
    check_event(value)


def is_boolean(_: object, attribute: attrs.Attribute[bool], value: object) -> None:
    """Refuses a value other than True and False; a validator of attrs fields."""
    validate.boolean(attribute.name, value)


def _way_out(value: object) -> str:
    """Says how to get an event from ``value``."""
    if isinstance(value, native_event_class()):
        return "translate it with hockeystick.accounting.from_dp_event(event), or use hockeystick.Accountant"
    if callable(getattr(value, "guarantee", None)):
        return "use its guarantee: .guarantee().epsilon(delta), or .guarantee().event"
    if isinstance(getattr(value, "event", None), PrivacyEvent):
        return "use its own .epsilon(delta), or give its .event"
    return "give its .event()" if callable(getattr(value, "event", None)) else "use one of hockeystick.events"


def _check_identity(event: PrivacyEvent) -> None:
    """Refuses an event whose equality can't be trusted: equal events are merged and share what is computed for one."""
    kind = type(event)
    try:
        hash(event)
    except TypeError as error:
        raise UnsupportedEventError(
            f"{kind.__name__} can't be hashed ({error}): make its fields floats, texts, tuples or events"
        ) from None
    fields = {attribute.name for attribute in attrs.fields(kind)}
    unseen = [name for name in getattr(event, "__dict__", ()) if name not in fields and not hasattr(kind, name)]
    own_bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in _COMPARING_BY_FIELDS]
    if unseen and not any("__eq__" in vars(base) for base in own_bases):
        raise UnsupportedEventError(
            f"{kind.__name__} stores {', '.join(unseen)} outside its fields, which == does not compare, so that "
            "different events would be merged as equal: make each a field of a class under @attrs.frozen"
        )


@lru_cache(maxsize=4096)
def _check_curves(event: PrivacyEvent) -> None:
    for name in ("pure_epsilon", "zcdp_rho"):  # by default the second is computed from the first
        if not _is_number(value := getattr(event, name)()) or not value >= 0.0:
            raise _wrong(event, name, "a number ≥ 0, or inf")
    if not _is_number(failure := event.failure_delta()) or not 0.0 <= failure <= 1.0:
        raise _wrong(event, "failure_delta", "a number in [0, 1]")
    divergences = event.rdp(_ORDERS.copy())
    real = isinstance(divergences, np.ndarray) and divergences.dtype.kind in "fiu"
    # An unknown value of a curve may be inf or NaN.
    if not real or divergences.shape != _ORDERS.shape or (divergences < 0.0).any():
        raise _wrong(event, "rdp", "a numpy array with a number ≥ 0, or inf, for each of the orders")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)


def _wrong(event: PrivacyEvent, method: str, expected: str) -> UnsupportedEventError:
    return UnsupportedEventError(f"{type(event).__name__}.{method}() must return {expected}")
