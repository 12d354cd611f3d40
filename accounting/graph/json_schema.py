"""JSON Schema (draft 2020-12) of the files that graphs and guarantees are written to, and of certificates.

The schema is generated from the event classes. It describes the fields and their types; their domains (a probability, a
positive scale) are checked on loading. The files in ``hockeystick/schemas`` are the output of this module:
``python -m hockeystick.accounting.graph.json_schema hockeystick/schemas`` writes them again.
"""

from __future__ import annotations

import json
import sys
import typing
from pathlib import Path
from typing import Any

import attrs

from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.event_json import EVENTS
from hockeystick.accounting.graph import certificate, graph_json, guarantee

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_COUNT = {"type": "integer", "minimum": 1}
_NAME = {"type": "string", "minLength": 1}
_NAMES = {"type": "array", "items": _NAME}
_EVENT = {"$ref": "#/$defs/event"}
_ADJACENCY = {"enum": [adjacency.value for adjacency in Adjacency]}


def graph_schema() -> dict[str, Any]:
    """Returns the schema of ``AccountantGraph.to_json``."""
    nodes = {
        "source": _object(name=_NAME, size=_COUNT, optional=["size"]),
        "public": _object(name=_NAME),
        "transform": _object(name=_NAME, reads=_NAMES, stability={"type": "array", "items": _stability()}),
        "release": _object(
            name=_NAME,
            reads=_NAMES,
            event=_EVENT,
            count=_COUNT,
            reach={"anyOf": [{"type": "null"}, _object(first=_limit(), last=_limit(), optional=["first", "last"])]},
            cumulative={"type": "boolean"},
            leading={"type": "boolean"},
            simulated={"type": "boolean"},
            optional=["count", "reach", "cumulative", "leading", "simulated"],
        ),
        "post": _object(name=_NAME, reads=_NAMES, last_iterate=_last_iterate(), optional=["last_iterate"]),
    }
    view = _object(
        name=_NAME, sees=_NAMES, events={"type": "object", "additionalProperties": _EVENT}, optional=["events"]
    )
    top = _object(
        schema_version={"const": graph_json.SCHEMA_VERSION},
        adjacency=_ADJACENCY,
        pinned={"type": "boolean"},
        assumptions={"type": "array", "items": {"type": "string"}},
        nodes={"type": "array", "items": {"oneOf": [_tagged("kind", kind, node) for kind, node in nodes.items()]}},
        views={"type": "array", "items": view},
        optional=["pinned", "assumptions", "views"],
    )
    return {"$schema": _DRAFT, "title": "hockeystick accountant graph", **top, "$defs": {"event": _events()}}


def guarantee_schema() -> dict[str, Any]:
    """Returns the schema of ``Guarantee.to_json``."""
    charge = _object(node={"type": "string"}, event=_EVENT, count=_COUNT, leading={"type": "boolean"})
    move = _object(label={"type": "string"}, charges={"type": "array", "items": charge})
    top = _object(
        schema_version={"const": guarantee.SCHEMA_VERSION},
        adjacency=_ADJACENCY,
        group=_COUNT,
        threat_model={"type": "string"},
        assumptions={"type": "array", "items": {"type": "string"}},
        moves={"type": "array", "items": move},
    )
    return {"$schema": _DRAFT, "title": "hockeystick guarantee", **top, "$defs": {"event": _events()}}


def certificate_schema() -> dict[str, Any]:
    """Returns the schema of ``Certificate.to_json``."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    epsilon = {"anyOf": [{"type": "number", "minimum": 0}, {"const": "inf"}]}
    point = _object(
        epsilon=epsilon,
        delta={"type": "number", "minimum": 0, "maximum": 1},
        lower={"type": ["number", "null"]},
        method=text,
    )
    graph = graph_schema()
    del graph["$schema"], graph["title"], graph["$defs"]
    top = _object(
        schema={"const": certificate.SCHEMA},
        id=text,
        created=text,
        software=_object(name=text, version=text, source_digest=text),
        subject=_object(**dict.fromkeys(certificate.SUBJECT, text), optional=list(certificate.SUBJECT)),
        relation=_ADJACENCY,
        privacy_unit=_NAME,
        group=_COUNT,
        view={"type": ["string", "null"]},
        threat_model=text,
        graph=graph,
        curve={"type": "array", "items": point, "minItems": 1},
        headline={"type": "integer", "minimum": 0},
        assumptions=texts,
        not_covered=texts,
        extensions={"type": "object"},
        digest={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
        optional=["subject", "extensions"],
    )
    return {"$schema": _DRAFT, "title": "hockeystick certificate", **top, "$defs": {"event": _events()}}


def _events() -> dict[str, Any]:
    return {"oneOf": [_tagged("type", name, _event(cls)) for name, cls in sorted(EVENTS.items())]}


def _event(cls: type[PrivacyEvent]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    fields = attrs.fields(cls)
    optional = [field.name for field in fields if field.default is not attrs.NOTHING]
    return _object(**{field.name: _type(hints[field.name]) for field in fields}, optional=optional)


def _type(hint: Any) -> dict[str, Any]:
    if hint is bool:
        return {"type": "boolean"}
    if hint is int:
        return {"type": "integer"}
    if hint is float:
        return {"anyOf": [{"type": "number"}, {"const": "inf"}]}
    if hint is str:
        return {"type": "string"}
    if isinstance(hint, type) and issubclass(hint, PrivacyEvent):
        return _EVENT
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is tuple and arguments[-1] is Ellipsis:
        return {"type": "array", "items": _type(arguments[0])}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_type(a) for a in arguments],
            "items": False,
            "minItems": len(arguments),
        }
    if type(None) in arguments:
        return {"anyOf": [_type(a) for a in arguments if a is not type(None)] + [{"type": "null"}]}
    raise TypeError(f"no JSON form for {hint!r}")


def _object(*, optional: list[str] | None = None, **properties: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in properties if name not in (optional or ())]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _tagged(key: str, value: str, schema: dict[str, Any]) -> dict[str, Any]:
    properties = {key: {"const": value}, **schema["properties"]}
    return {**schema, "properties": properties, "required": [key, *schema["required"]]}


def _last_iterate() -> dict[str, Any]:
    return _object(
        factor={"type": "number", "minimum": 0},
        assumptions={"type": "array", "items": {"type": "string"}},
        batches=_COUNT,
        unread={"type": "integer", "minimum": 0},
        diameter={"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": "inf"}]},
    )


def _limit() -> dict[str, Any]:
    return {"type": ["integer", "null"]}


def _stability() -> dict[str, Any]:
    norm = {"enum": ["records", "l1", "l2", "linf"]}
    row = {"prefixItems": [norm, norm, {"type": "number", "minimum": 0}], "items": False, "minItems": 3}
    return {"type": "array", **row}


def files() -> dict[str, str]:
    """Returns the texts of the schema files, by name."""
    schemas = {"certificate": certificate_schema(), "graph": graph_schema(), "guarantee": guarantee_schema()}
    return {
        f"{name}.schema.json": json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for name, schema in schemas.items()
    }


if __name__ == "__main__":
    for name, text in files().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
