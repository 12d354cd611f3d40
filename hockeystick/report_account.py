"""The reports of ``hockeystick account`` and ``hockeystick graph``: what a graph of releases costs, and its drawing."""

from __future__ import annotations

from hockeystick.report_content import Mark, Report, Result, Section, Table
from hockeystick.report_guarantee import (
    curve_sections,
    graph_sections,
    guarantee_section,
    headline,
    picture,
    versions,
)
from hockeystick.report_text import exact, upper


def account_report(result: Result) -> Report:
    """Returns the report on what a guarantee says at one δ."""
    made = Section("To repeat it", facts=(("versions", versions(result)),), in_terminal=False)
    sections = (guarantee_section(result), *curve_sections(result), *graph_sections(result), made)
    return Report("Privacy of a graph", headline(result), sections)


def graph_report(result: Result) -> Report:
    """Returns the report on a graph: its drawing, and a table for who can't see it."""
    drawing = picture(result)
    spent = dict(drawing.spent)
    rows = tuple(
        (
            node.name,
            type(node).__name__.lower(),
            ", ".join(getattr(node, "reads", ())) or "–",
            upper(spent[node.name]) if node.name in spent else "–",
        )
        for node in drawing.graph.nodes
    )
    caption = "Nodes, in the order in which they were added"
    table = Table(caption, ("node", "kind", "reads", ">ε alone"), rows)
    what = f"{len(rows)} nodes, {drawing.graph.adjacency.value}"
    if result["delta"] is not None:
        what += f", costs at δ = {exact(result['delta'])}"
    drawn = Section("Drawing", pictures=(drawing,))
    return Report("Accountant graph", Mark(what, "plain"), (drawn, Section("Nodes", tables=(table,))))
