"""Events as strict JSON values and back. Loading a file builds only events of the catalogue."""

from __future__ import annotations

import math
from typing import Any

import attrs

from hockeystick.accounting.errors import GraphError, UnsupportedEventError
from hockeystick.accounting.events import catalogue
from hockeystick.accounting.events.basic.composition import Composed, Parallel, compose, parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent

EVENTS: dict[str, type[PrivacyEvent]] = {
    name: value
    for name, value in ((name, getattr(catalogue, name)) for name in catalogue.__all__)
    if isinstance(value, type) and value is not PrivacyEvent
}
_MAX_DEPTH = 64


def event_to_json(event: PrivacyEvent) -> dict[str, Any]:
    """Returns ``{"type": name, field: value, ...}``; an infinite value is the string "inf".

    Raises:
      UnsupportedEventError: the event is of a user's own class, which a file can't name.
    """
    name = type(event).__name__
    if EVENTS.get(name) is not type(event):
        raise UnsupportedEventError(
            f"{name} is not one of hockeystick's own events and has no JSON form: "
            "give its curve as a RenyiCurve, PrivacyProfile or TradeOff"
        )
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
    """Returns the event that ``event_to_json`` wrote; error messages name the place as ``where``.

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

    decoded = {key: _value_from_json(value, f"{where}.{key}", depth + 1) for key, value in given.items()}
    if cls is Composed:
        for i, part in enumerate(_tuple(decoded["parts"], f"{where}.parts")):
            if not isinstance(part, tuple) or len(part) != 2:
                raise GraphError(f"{where}.parts[{i}]: expected [event, count]")
        return compose(*decoded["parts"])
    if cls is Parallel:
        branches = _tuple(decoded["branches"], f"{where}.branches")
        return Parallel(branches) if len(branches) == 1 else parallel(*branches)  # a single branch still refuses groups
    return cls(**decoded)


def _value_from_json(value: object, where: str, depth: int) -> Any:
    if isinstance(value, dict):
        return event_from_json(value, where, depth)
    if isinstance(value, list):
        if depth > _MAX_DEPTH:
            raise GraphError(f"{where}: lists are nested more than {_MAX_DEPTH} deep")
        return tuple(_value_from_json(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value))
    return math.inf if value == "inf" else value


def _tuple(value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise GraphError(f"{where}: expected an array, found {type(value).__name__}")
    return value


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
