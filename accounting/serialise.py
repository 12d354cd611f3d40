"""Events as strict JSON values and back. Nothing but the events listed here is ever built from a file."""

from __future__ import annotations

import math
from typing import Any

import attrs

from .additive_noise import Gaussian, Laplace
from .composite import Composed, Parallel, VisibleMixture, compose, parallel
from .declared import ZCDP, ApproximateDP, Failure, NonPrivate, PureDP
from .errors import GraphError, UnsupportedEventError
from .event import NoEvent, PrivacyEvent
from .selection import AboveThreshold, BoundedRange
from .two_point import LazySwitchDecision, Oriented, RandomizedResponse

EVENTS: dict[str, type[PrivacyEvent]] = {
    cls.__name__: cls
    for cls in (
        AboveThreshold,
        ApproximateDP,
        BoundedRange,
        Composed,
        Failure,
        Gaussian,
        Laplace,
        LazySwitchDecision,
        NoEvent,
        NonPrivate,
        Oriented,
        Parallel,
        PureDP,
        RandomizedResponse,
        VisibleMixture,
        ZCDP,
    )
}
_MAX_DEPTH = 64


def event_to_json(event: PrivacyEvent) -> dict[str, Any]:
    """Returns ``{"type": name, field: value, ...}``; an infinite value is the string "inf".

    Raises:
      UnsupportedEventError: an event class of the user's own, which a file can't name.
    """
    name = type(event).__name__
    if EVENTS.get(name) is not type(event):
        raise UnsupportedEventError(f"{name} is not one of hockeystick's own events and has no JSON form")
    out: dict[str, Any] = {"type": name}
    for attribute in attrs.fields(type(event)):
        out[attribute.name] = _value_to_json(getattr(event, attribute.name))
    return out


def _value_to_json(value: Any) -> Any:
    if isinstance(value, PrivacyEvent):
        return event_to_json(value)
    if isinstance(value, tuple):
        return [_value_to_json(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def event_from_json(data: object, where: str = "event", depth: int = 0) -> PrivacyEvent:
    """Returns the event that ``event_to_json`` wrote; ``where`` names the place for messages.

    Raises:
      GraphError: unknown event, unknown or missing field, wrong type, nested too deep.
      InvalidArgumentError: a parameter outside its domain.
    """
    if depth > _MAX_DEPTH:
        raise GraphError(f"{where}: events are nested more than {_MAX_DEPTH} deep")
    given = dict(mapping(data, where))
    name = given.pop("type", None)
    cls = EVENTS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise GraphError(f"{where}: unknown event type {name!r}; known are {', '.join(sorted(EVENTS))}")
    fields = {attribute.name: attribute for attribute in attrs.fields(cls)}
    required = {n for n, attribute in fields.items() if attribute.default is attrs.NOTHING}
    check_keys(given, required, set(fields), where)

    def inner(value: object, key: str) -> PrivacyEvent:
        return event_from_json(value, f"{where}.{key}", depth + 1)

    if cls is Composed:
        parts = []
        for i, part in enumerate(listing(given["parts"], f"{where}.parts")):
            pair = listing(part, f"{where}.parts[{i}]")
            if len(pair) != 2:
                raise GraphError(f"{where}.parts[{i}]: expected [event, count]")
            parts.append((inner(pair[0], f"parts[{i}]"), pair[1]))
        return compose(*parts)
    if cls is Parallel:
        return parallel(*(inner(b, f"branches[{i}]") for i, b in enumerate(listing(given["branches"], where))))
    if "event" in fields:
        given["event"] = inner(given["event"], "event")
    numbers = {key: math.inf if isinstance(value, str) and value == "inf" else value for key, value in given.items()}
    return cls(**numbers)


def mapping(data: object, where: str) -> dict[str, Any]:
    """Returns ``data`` if it is a JSON object."""
    if not isinstance(data, dict):
        raise GraphError(f"{where}: expected an object, found {type(data).__name__}")
    return data


def listing(data: object, where: str) -> list[Any]:
    """Returns ``data`` if it is a JSON array."""
    if not isinstance(data, list):
        raise GraphError(f"{where}: expected an array, found {type(data).__name__}")
    return data


def check_keys(given: dict[str, Any], required: set[str], known: set[str], where: str) -> None:
    """Refuses missing and unknown keys."""
    if missing := required - given.keys():
        raise GraphError(f"{where}: missing {', '.join(sorted(missing))}")
    if unknown := given.keys() - known:
        raise GraphError(f"{where}: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
