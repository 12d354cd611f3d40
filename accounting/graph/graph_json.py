"""Accountant graphs as strict JSON text and back. Loading builds only nodes, views and known events."""

from __future__ import annotations

import json
import math
from typing import Any

from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import GraphError
from hockeystick.accounting.events import event_json
from hockeystick.accounting.events.iterates.contraction import Contraction
from hockeystick.accounting.files.reading import UnreadableFileError, json_value
from hockeystick.accounting.graph.parts.nodes import Node, Post, Reach, Release, Source, Transform

SCHEMA_VERSION = 1


def dump(graph: Any) -> str:
    """Returns the JSON text of a graph."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "adjacency": graph.adjacency.value,
        "pinned": graph.pinned,
        "assumptions": list(graph.assumptions),
        "nodes": [_node_to_json(node) for node in graph.nodes],
        "views": [
            {
                "name": view.name,
                "sees": list(view.sees),
                "events": {name: event_json.event_to_json(event) for name, event in view.events},
            }
            for view in graph.views
        ],
    }
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)


def load(text: str, cls: Any) -> Any:
    """Returns the graph, built by the builder methods of ``cls``."""
    try:
        data = json_value(text)
    except UnreadableFileError as error:
        raise GraphError(f"graph: not valid JSON ({error})") from None
    top = event_json.mapping(data, "graph")
    keys = {"schema_version", "adjacency", "pinned", "assumptions", "nodes", "views"}
    event_json.check_keys(top, {"schema_version", "adjacency", "nodes"}, keys, "graph")
    if top["schema_version"] != SCHEMA_VERSION:
        raise GraphError(f"graph: schema_version {top['schema_version']!r} is not {SCHEMA_VERSION}")
    try:
        adjacency = Adjacency(top["adjacency"])
    except ValueError:
        known = ", ".join(a.value for a in Adjacency)
        raise GraphError(f"graph: unknown adjacency {top['adjacency']!r}; known are {known}") from None
    pinned = _boolean(top.get("pinned", False), "graph.pinned")
    graph = cls(adjacency, pinned, _strings(top.get("assumptions", []), "graph.assumptions"))
    for i, node in enumerate(event_json.listing(top["nodes"], "graph.nodes")):
        graph = _add_from_json(graph, event_json.mapping(node, f"graph.nodes[{i}]"), f"graph.nodes[{i}]")
    for i, row in enumerate(event_json.listing(top.get("views", []), "graph.views")):
        where = f"graph.views[{i}]"
        view = event_json.mapping(row, where)
        event_json.check_keys(view, {"name", "sees"}, {"name", "sees", "events"}, where)
        events = {
            name: event_json.event_from_json(event, f"{where}.events.{name}")
            for name, event in event_json.mapping(view.get("events", {}), f"{where}.events").items()
        }
        graph = graph.view(view["name"], sees=_strings(view["sees"], f"{where}.sees"), events=events)
    return graph


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise GraphError(f"{where}: expected true or false, found {value!r}")
    return value


def _strings(value: object, where: str) -> list[str]:
    strings = event_json.listing(value, where)
    if not all(isinstance(item, str) for item in strings):
        raise GraphError(f"{where}: expected strings")
    return strings


def _node_to_json(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": type(node).__name__.lower(), "name": node.name}
    if isinstance(node, Source):
        out["size"] = node.size
    if isinstance(node, (Transform, Release, Post)):
        out["reads"] = list(node.reads)
    if isinstance(node, Post) and node.hidden is not None:
        terms, contraction = node.hidden, node.hidden.contraction
        out["last_iterate"] = {
            "factor": contraction.factor,
            "assumptions": list(contraction.assumptions),
            "batches": terms.batches,
            "unread": terms.unread,
            "diameter": "inf" if math.isinf(terms.diameter) else terms.diameter,
        }
    if isinstance(node, Transform):
        out["stability"] = [list(row) for row in node.stability]
    if isinstance(node, Release):
        reach = None if node.reach is None else {"first": node.reach.first, "last": node.reach.last}
        out |= {"event": event_json.event_to_json(node.event), "count": node.count, "reach": reach}
        out |= {"cumulative": node.cumulative, "leading": node.leading}
        if node.simulated:
            out["simulated"] = True
    return out


_KEYS = {
    "source": ({"kind", "name"}, {"size"}),
    "public": ({"kind", "name"}, set[str]()),
    "transform": ({"kind", "name", "reads", "stability"}, set[str]()),
    "release": ({"kind", "name", "reads", "event"}, {"count", "reach", "cumulative", "leading", "simulated"}),
    "post": ({"kind", "name", "reads"}, {"last_iterate"}),
}


def _add_from_json(graph: Any, data: dict[str, Any], where: str) -> Any:
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise GraphError(f"{where}: unknown kind {kind!r}; known are {', '.join(_KEYS)}")
    required, optional = _KEYS[kind]
    event_json.check_keys(data, required, required | optional, where)
    name = data["name"]
    reads = _strings(data.get("reads", []), f"{where}.reads")
    if kind == "source":
        return graph.source(name, data.get("size", 1))
    if kind == "public":
        return graph.public(name)
    if kind == "post":
        if "last_iterate" in data:
            return _last_iterate(graph, name, reads, data["last_iterate"], f"{where}.last_iterate")
        return graph.post(name, reads=reads)
    if kind == "transform":
        rows = [event_json.listing(row, f"{where}.stability") for row in event_json.listing(data["stability"], where)]
        if any(len(row) != 3 or not isinstance(row[0], str) or not isinstance(row[1], str) for row in rows):
            raise GraphError(f"{where}.stability: expected rows [norm in, norm out, factor]")
        return graph.transform(name, reads=reads, stability={(a, b): c for a, b, c in rows})
    reach = None
    if data.get("reach") is not None:
        limits = event_json.mapping(data["reach"], f"{where}.reach")
        event_json.check_keys(limits, set(), {"first", "last"}, f"{where}.reach")
        reach = Reach(limits.get("first"), limits.get("last"))
    return graph.release(
        name,
        event_json.event_from_json(data["event"], f"{where}.event"),
        reads=reads,
        count=data.get("count", 1),
        reach=reach,
        cumulative=_boolean(data.get("cumulative", False), f"{where}.cumulative"),
        leading=_boolean(data.get("leading", False), f"{where}.leading"),
        simulated=_boolean(data.get("simulated", False), f"{where}.simulated"),
    )


def _last_iterate(graph: Any, name: str, reads: list[str], value: object, where: str) -> Any:
    terms = event_json.mapping(value, where)
    keys = {"factor", "assumptions", "batches", "unread", "diameter"}
    event_json.check_keys(terms, keys, keys, where)
    if len(reads) != 1:
        raise GraphError(f"{where}: expected one release to read, found {len(reads)}")
    diameter = math.inf if terms["diameter"] == "inf" else terms["diameter"]
    return graph.last_iterate(
        name,
        of=reads[0],
        contraction=Contraction(terms["factor"], tuple(_strings(terms["assumptions"], f"{where}.assumptions"))),
        batches=terms["batches"],
        unread=terms["unread"],
        diameter=diameter,
    )
