"""A graph as text that Markdown viewers draw: Mermaid, with what each release costs.

Data flows along full lines, published values along dashed ones. Where a δ is given, each release carries the ε that it
would cost alone, for the source that it costs most.
"""

from __future__ import annotations

from collections.abc import Mapping

from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.errors import GraphError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.graph.parts.drawn import GraphLike
from hockeystick.accounting.graph.parts.nodes import Node, Post, Public, Release, Source, Transform
from hockeystick.accounting.numerics import rounded_text

_MERMAID_SHAPES = {
    Source: ('[("', '")]'),
    Public: ('["', '"]'),
    Transform: ('["', '"]'),
    Release: ('(["', '"])'),
    Post: ('>"', '"]'),
}


def costs(graph: GraphLike, delta: float, *, view: str | None = None) -> dict[str, float]:
    """Returns the ε at ``delta`` that each release costs alone, for one record wherever it costs most; 0 for no record.

    Args:
      view: the threat model, by its name; what it does not pay for is left out. None: every release is published.

    Raises:
      UnsupportedAdjacencyError: see ``AccountantGraph.guarantee``.
      InvalidArgumentError: delta is not in [0, 1].
      GraphError: no such view.
    """
    out = dict.fromkeys(charged(graph, view), 0.0)
    for source in (node.name for node in graph.nodes if isinstance(node, Source)):
        for move in graph.guarantee_for(source, view=view).moves:
            for name in {charge.node for charge in move.charges}:
                parts = [(charge.event, charge.count) for charge in move.charges if charge.node == name]
                out[name] = max(out[name], best_bound.epsilon(compose(*parts), delta).upper)
    return out


def charged(graph: GraphLike, view: str | None = None) -> tuple[str, ...]:
    """Returns the names of the releases that a view pays for; of all releases without one.

    Raises:
      GraphError: no such view.
    """
    every = tuple(node for node in graph.nodes if isinstance(node, Release))
    if view is None:
        return tuple(node.name for node in every)
    known = {one.name: one for one in graph.views}
    if view not in known:
        raise GraphError(f"no view {view!r}; there are {', '.join(map(repr, known)) or 'none'}")
    return tuple(node.name for node in known[view].charged(graph.nodes))


def to_mermaid(
    graph: GraphLike,
    *,
    delta: float | None = None,
    view: str | None = None,
    spent: Mapping[str, float] | None = None,
) -> str:
    """Returns the graph as a Mermaid flowchart, which many Markdown viewers draw.

    Args:
      delta: show what each release costs alone at this δ.
      view: of these, only what this threat model pays; see ``costs``.
      spent: show these costs, by release, instead of computing them.

    Raises:
      See ``costs``, where delta is given.
    """
    if spent is None:
        spent = {} if delta is None else costs(graph, delta, view=view)
    ids = {node.name: f"n{i}" for i, node in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for node in graph.nodes:
        left, right = _MERMAID_SHAPES[type(node)]
        lines.append(f"  {ids[node.name]}{left}{'<br/>'.join(map(_mermaid_text, label(node, spent)))}{right}")
    for node, other, is_value in edges(graph):
        lines.append(f"  {ids[other.name]} {'-.->' if is_value else '-->'} {ids[node.name]}")
    return "\n".join([*lines, ""])


def label(node: Node, spent: Mapping[str, float]) -> list[str]:
    """Returns the lines that a drawing writes into a node: its name, what it is, and its ε if that is in ``spent``."""
    match node:
        case Source(size=size) if size > 1:
            return [node.name, f"{size} blocks"]
        case Transform():
            return [
                node.name,
                *(f"{norm_in} → {norm_out}: ×{factor:g}" for norm_in, norm_out, factor in node.stability),
            ]
        case Release():
            event = str(node.event)
            lines = [node.name, event if len(event) <= 60 else type(node.event).__name__]
            if node.count > 1:
                lines.append(f"{node.count} times")
            if node.simulated:
                lines.append("simulated")
            if node.name in spent:
                lines.append(f"ε = {rounded_text.upper(spent[node.name], 4)}")
            return lines
        case _:
            return [node.name]


def edges(graph: GraphLike) -> list[tuple[Node, Node, bool]]:
    """Returns (reader, what it reads, whether that is a published value)."""
    by_name = {node.name: node for node in graph.nodes}
    return [
        (node, by_name[other], not isinstance(by_name[other], (Source, Transform)))
        for node in graph.nodes
        for other in getattr(node, "reads", ())
    ]


def _mermaid_text(line: str) -> str:
    """Mermaid reads markup in labels, so that everything but plain words is given by its number."""
    return "".join(c if c.isalnum() or c in " .,:=×→()_-+" else f"#{ord(c)};" for c in line)
