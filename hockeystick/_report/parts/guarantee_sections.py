"""Sections of reports on guarantees: facts, ε at other δ and by each method, the trade-off curve, the graph."""

from __future__ import annotations

import json
import math
from typing import Any

from hockeystick._report.parts.content import Cell, Mark, Picture, Result, Section, Table
from hockeystick._report.parts.plots import Plot, curve
from hockeystick._words.figures import event_text, exact, lower, upper, whole
from hockeystick.accounting import AccountantGraph
from hockeystick.accounting.graph.parts.nodes import Release


def certified(result: Result) -> str:
    """Returns the certified ε at its δ, rounded up."""
    return f"ε ≤ {upper(result['epsilon_upper'])} at δ = {exact(result['delta'])}"


def finite(result: Result) -> bool:
    """Returns whether ε is finite."""
    return math.isfinite(float(result["epsilon_upper"]))


def guarantee_section(result: Result, *own: tuple[str, Cell]) -> Section:
    """Returns the guarantee's facts, after ``own``, with the cost of each node."""
    bracket = f"{lower(result['epsilon_lower'])} to {upper(result['epsilon_upper'])}"
    facts = (
        *own,
        ("certified", certified(result)),
        ("bracket", f"{bracket} (numerical accuracy of the best method)"),
        ("method", result["method"]),
        ("adjacency", result["adjacency"] + (f", groups of {result['group']}" if result["group"] > 1 else "")),
        *((name, result[name]) for name in ("unit", "sampling") if name in result),
        ("worst move", result["worst_move"]),
        ("threat model", result["threat_model"]),
        *(("assumes", sentence) for sentence in result["assumptions"]),
    )
    nodes = Table(
        "Cost per node in the worst move (shares need not add up to the total)",
        ("node", "event", ">times", ">ε alone", ">ε of the rest"),
        tuple(
            (
                row["node"],
                event_text(row["event"], 80),
                whole(row["count"]),
                upper(row["epsilon_alone"]),
                upper(row["epsilon_without"]),
            )
            for row in result["nodes"]
        ),
    )
    return Section("Guarantee", facts=facts, tables=(nodes,))


def curve_sections(result: Result) -> tuple[Section, ...]:
    """Returns sections with ε at other δ and by each method, and the trade-off curve, as far as the result has them."""
    tables = []
    if points := result.get("curve"):
        rows = tuple((exact(at["delta"]), upper(at["epsilon"]), at["method"]) for at in points)
        tables.append(Table("The same guarantee at other δ", ("δ", ">ε ≤", "method"), rows))
    if methods := result.get("methods"):
        rows = tuple((name, upper(found), _best(name, result)) for name, found in methods.items())
        caption = f"The bound of each accountant at δ = {exact(result['delta'])} (–: it does not apply)"
        tables.append(Table(caption, ("accountant", ">ε ≤", ""), rows))
    found = [Section("Curve", tables=tuple(tables))] if tables else []
    if result.get("certified_curve"):
        found.append(Section("Trade-off", plots=(certified_plot(result),)))
    return tuple(found)


def certified_plot(result: Result) -> Plot:
    """Returns the certified trade-off curve with that of a random guess."""
    label = f"certified: {certified(result)}"
    return Plot(
        "Trade-off between false alarms and misses",
        "false alarms",
        "misses",
        (curve(label, result["certified_curve"]), curve("a random guess", [[0.0, 1.0], [1.0, 0.0]], "dashed")),
        "An attacker who tries to distinguish two neighbouring data sets by the releases has a rate of false alarms "
        "and a rate of misses. No attack is below the certified curve. The closer the curve is to that of a random "
        "guess, the stronger the privacy.",
        (0.0, 1.0),
        (0.0, 1.0),
    )


def graph_sections(result: Result) -> tuple[Section, ...]:
    """Returns the drawing of the result's graph, if it holds one."""
    if not result.get("graph"):
        return ()
    return (Section("Graph", pictures=(picture(result),)),)


def learner_graph_sections(result: Result) -> tuple[Section, ...]:
    """Returns the drawing of a learner's graph, and for pages a table of its nodes as well."""
    return tuple(
        found
        for drawn in graph_sections(result)
        for found in (drawn, Section("Nodes", tables=(node_table(drawn.pictures[0]),), in_terminal=False))
    )


def node_table(drawing: Picture) -> Table:
    """Returns a table of a drawing's nodes, for readers who can't see it."""
    spent = dict(drawing.spent)
    rows = tuple(
        (
            node.name,
            type(node).__name__.lower(),
            ", ".join(getattr(node, "reads", ())) or "–",
            event_text(str(node.event), 80) if isinstance(node, Release) else "–",
            upper(spent[node.name]) if node.name in spent else "–",
        )
        for node in drawing.graph.nodes
    )
    caption = "Nodes, in the order in which they were added"
    return Table(caption, ("node", "kind", "reads", "event", ">ε alone"), rows)


def picture(result: Result) -> Picture:
    """Returns the drawing of the result's graph, with the result's costs.

    Raises:
      GraphError: The graph is invalid.
    """
    graph = AccountantGraph.from_json(json.dumps(result["graph"]))
    spent: dict[str, Any] = result.get("costs") or {}
    title = "Data flow"
    if spent:
        title += f", with the ε of each release alone at δ = {exact(result['delta'])}"
    if result.get("view") in [view.name for view in graph.views]:
        title += f" (threat model {result['view']})"
    return Picture(title, graph, tuple((name, float(cost)) for name, cost in spent.items()))


def headline(result: Result) -> Mark:
    """Returns the certified ε, or a text that it is infinite."""
    if not finite(result):
        return Mark(f"no finite ε at δ = {exact(result['delta'])}", "doubt")
    return Mark(certified(result), "plain")


def versions(result: Result) -> str:
    """Returns the versions that made the result."""
    return ", ".join(f"{name} {number}" for name, number in result["versions"].items())


def _best(method: str, result: Result) -> Cell:
    return Mark("used", "good") if method == result["method"] and finite(result) else ""
