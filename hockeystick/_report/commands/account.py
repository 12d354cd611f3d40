"""The reports of ``hockeystick account`` and ``hockeystick graph``: the guarantee of a graph, and its drawing."""

from __future__ import annotations

from hockeystick._report.parts.content import Mark, Report, Result, Section
from hockeystick._report.parts.guarantee_sections import (
    curve_sections,
    graph_sections,
    guarantee_section,
    headline,
    node_table,
    picture,
    versions,
)
from hockeystick._words.figures import exact
from hockeystick._words.guarantee_terms import about


def account_report(result: Result) -> Report:
    """Returns the report on a guarantee at one δ."""
    made = Section("Reproduction", facts=(("versions", versions(result)),), in_terminal=False)
    sections = (guarantee_section(result), *curve_sections(result), *graph_sections(result), made)
    return Report("Privacy of a graph", headline(result), sections, about(result))


def graph_report(result: Result) -> Report:
    """Returns the report on a graph: its drawing and a table of its nodes."""
    drawing = picture(result)
    table = node_table(drawing)
    what = f"{len(table.rows)} nodes, {drawing.graph.adjacency.value}"
    if result["delta"] is not None:
        what += f", costs at δ = {exact(result['delta'])}"
    drawn = Section("Drawing", pictures=(drawing,))
    return Report("Accountant graph", Mark(what, "plain"), (drawn, Section("Nodes", tables=(table,))))
