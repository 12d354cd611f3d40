"""What an event class of somebody else's must keep to before its numbers go into a bound.

A class of the library's own is tested; from any other a curve below 0, or a value of the wrong shape, would end in an ε
below the truth, or in numpy's words far from its cause. Checked once per event, at a few orders.
"""

from __future__ import annotations

from functools import lru_cache

import attrs
import numpy as np
from dp_accounting import dp_event

from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.event import PrivacyEvent

_LIBRARY = __name__.partition(".")[0]
_ORDERS = np.array([1.5, 2.0, 8.0, 64.0])


def check_event(value: object) -> None:
    """Refuses what is no event.

    Raises:
      InvalidArgumentError: naming the argument "event".
      UnsupportedEventError: it is of a class outside the library whose curves are none.
    """
    if not isinstance(value, PrivacyEvent):
        raise InvalidArgumentError("event", value, "is not a privacy event", _way_out(value))
    if type(value).__module__.partition(".")[0] != _LIBRARY:
        _check_identity(value)
        _check_curves(value)


def _way_out(value: object) -> str:
    """How to come from ``value`` to an event."""
    if isinstance(value, dp_event.DpEvent):
        return "translate it by hockeystick.accounting.from_dp_event(event), or ask hockeystick.Accountant"
    if callable(getattr(value, "guarantee", None)):
        return "ask its guarantee: .guarantee().epsilon(delta), or .guarantee().event"
    if isinstance(getattr(value, "event", None), PrivacyEvent):
        return "ask its own .epsilon(delta), or give its .event"
    return "give its .event()" if callable(getattr(value, "event", None)) else "use one of hockeystick.events"


def _check_identity(event: PrivacyEvent) -> None:
    """Equal events are merged, and what was computed for one is used for the other."""
    kind = type(event)
    try:
        hash(event)
    except TypeError as error:
        raise UnsupportedEventError(
            f"{kind.__name__} can't be hashed ({error}): make its fields floats, texts, tuples or events"
        ) from None
    fields = {attribute.name for attribute in attrs.fields(kind)}
    unseen = [name for name in vars(event) if name not in fields and not hasattr(kind, name)] if _open(event) else []
    compared = any("__eq__" in vars(base) for base in kind.__mro__ if _outside(base))
    if unseen and not compared:
        raise UnsupportedEventError(
            f"{kind.__name__} keeps {', '.join(unseen)} where == does not look, so that two events that differ would "
            "be taken for one: make it a field, in a class under @attrs.frozen"
        )


def _open(event: PrivacyEvent) -> bool:
    return hasattr(event, "__dict__")


def _outside(kind: type) -> bool:
    return kind is not object and kind.__module__.partition(".")[0] not in (_LIBRARY, "dp_accounting")


@lru_cache(maxsize=4096)
def _check_curves(event: PrivacyEvent) -> None:
    for name in ("pure_epsilon", "zcdp_rho"):  # the second rests on the first, where it is not its own
        if not _is_number(value := getattr(event, name)()) or not value >= 0.0:
            raise _wrong(event, name, "a number ≥ 0, or inf")
    if not _is_number(failure := event.failure_delta()) or not 0.0 <= failure <= 1.0:
        raise _wrong(event, "failure_delta", "a number in [0, 1]")
    divergences = event.rdp(_ORDERS.copy())
    real = isinstance(divergences, np.ndarray) and divergences.dtype.kind in "fiu"
    # Where a curve is not known it may be inf or NaN.
    if not real or divergences.shape != _ORDERS.shape or (divergences < 0.0).any():
        raise _wrong(event, "rdp", "a numpy array with a number ≥ 0, or inf, for each of the orders")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)


def _wrong(event: PrivacyEvent, method: str, expected: str) -> UnsupportedEventError:
    return UnsupportedEventError(f"{type(event).__name__}.{method}() must return {expected}")
