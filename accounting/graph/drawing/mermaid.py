"""A graph as Mermaid text, which many Markdown viewers draw.

Solid lines are data and dashed lines are published values. If a δ is given, each release shows the ε that it costs
alone, for the source to which it costs most.
"""

from __future__ import annotations

from collections.abc import Mapping

from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.graph.parts.drawn import GraphLike
from hockeystick.accounting.graph.parts.nodes import Node, Post, Public, Release, Source, Transform, view_named
from hockeystick.accounting.numerics import rounded_text

_MERMAID_SHAPES = {
    Source: ('[("', '")]'),
    Public: ('["', '"]'),
    Transform: ('["', '"]'),
    Release: ('(["', '"])'),
    Post: ('>"', '"]'),
}


def costs(graph: GraphLike, delta: float, *, view: str | None = None) -> dict[str, float]:
    """Returns, by release, the ε at ``delta`` that it costs alone for the record to which it costs most.

    Args:
      graph: an ``AccountantGraph``.
      delta: in [0, 1].
      view: a threat model of the graph, by name; releases that it does not pay for are left out. By default, every
        release is published.

    Raises:
      UnsupportedAdjacencyError: see ``AccountantGraph.guarantee``.
      InvalidArgumentError: delta is not in [0, 1].
      GraphError: the graph has no such view.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Gaussian, Laplace
      >>> graph = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"])
      >>> graph = graph.release("count", Laplace(2.0), reads=["people"], count=3)
      >>> {name: round(cost, 3) for name, cost in costs(graph, 1e-6).items()}
      {'mean': 0.834, 'count': 1.5}
    """
    out = dict.fromkeys(charged(graph, view), 0.0)
    for source in (node.name for node in graph.nodes if isinstance(node, Source)):
        for move in graph.guarantee_for(source, view=view).moves:
            for name in {charge.node for charge in move.charges}:
                parts = [(charge.event, charge.count) for charge in move.charges if charge.node == name]
                out[name] = max(out[name], best_bound.epsilon(compose(*parts), delta).upper)
    return out


def charged(graph: GraphLike, view: str | None = None) -> tuple[str, ...]:
    """Returns the names of the releases that a view pays for, or of all releases if ``view`` is None.

    Raises:
      GraphError: the graph has no such view.
    """
    nodes = graph.nodes if view is None else view_named(view, graph.views).charged(graph.nodes)
    return tuple(node.name for node in nodes if isinstance(node, Release))


def to_mermaid(
    graph: GraphLike,
    *,
    delta: float | None = None,
    view: str | None = None,
    spent: Mapping[str, float] | None = None,
) -> str:
    """Returns the graph as a Mermaid flowchart.

    Args:
      graph: an ``AccountantGraph``.
      delta: if given, each release shows the ε that it costs alone at this δ; see ``costs`` for the errors.
      view: a threat model of the graph, by name; only releases that it pays for show a cost.
      spent: costs to show, by release, instead of computed ones.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Laplace
      >>> graph = AccountantGraph().source("people").release("count", Laplace(2.0), reads=["people"])
      >>> print(to_mermaid(graph, delta=0.0), end="")
      flowchart LR
        n0[("people")]
        n1(["count<br/>Laplace(noise_multiplier=2.0)<br/>ε = 0.5"])
        n0 --> n1
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
    """Returns the lines of text in a node: its name, a description, and its ε if ``spent`` has it."""
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
    """Returns (reader, node that it reads, whether that node is a published value) for each edge."""
    by_name = {node.name: node for node in graph.nodes}
    return [
        (node, by_name[other], not isinstance(by_name[other], (Source, Transform)))
        for node in graph.nodes
        for other in getattr(node, "reads", ())
    ]


def _mermaid_text(line: str) -> str:
    """Returns text for a label, with all but plain characters as codes, as Mermaid interprets markup there."""
    return "".join(c if c.isalnum() or c in " .,:=×→()_-+" else f"#{ord(c)};" for c in line)
