"""The representations of a graph and of a guarantee in notebooks: a drawing and small tables, in HTML and in Markdown.

They need no other package and compute no more than ``str()`` does: showing a value must neither take long nor fail.
"""

from __future__ import annotations

import math
import zlib

from hockeystick.accounting.errors import HockeystickError
from hockeystick.accounting.graph.drawing.mermaid import to_mermaid
from hockeystick.accounting.graph.drawing.svg import MOST_NODES, to_svg
from hockeystick.accounting.graph.parts.drawn import GraphLike, GuaranteeLike
from hockeystick.accounting.notebook_tables import html_table, markdown_table, markdown_text, printable_html
from hockeystick.accounting.numerics import rounded_text

_DELTAS = (0.0, 1e-9, 1e-6, 1e-5)


def guarantee_html(guarantee: GuaranteeLike) -> str:
    """Returns the ε of a guarantee at several δ, and its assumptions, as HTML."""
    facts = "".join(f"<li>{printable_html(fact)}</li>" for fact in _facts(guarantee))
    return html_table("Guarantee", ("δ", "ε ≤", "by"), _curve(guarantee)) + f"<ul>{facts}</ul>"


def guarantee_markdown(guarantee: GuaranteeLike) -> str:
    """Returns the ε of a guarantee at several δ, and its assumptions, as Markdown."""
    facts = "".join(f"- {markdown_text(fact)}\n" for fact in _facts(guarantee))
    return markdown_table(("δ", "ε ≤", "by"), _curve(guarantee)) + "\n" + facts


def graph_html(graph: GraphLike) -> str:
    """Returns the drawing of a graph without costs, or one line of text if the graph is too large to draw."""
    if len(graph.nodes) > MOST_NODES:
        return f"<p>{printable_html(_size(graph))}</p>"
    drawing = to_svg(graph, standalone=False, name=f"graph-{zlib.crc32(graph.to_json().encode()):x}")
    return f'<p>{printable_html(_size(graph))}</p><div style="overflow-x: auto">{drawing}</div>'


def graph_markdown(graph: GraphLike) -> str:
    """Returns the drawing of a graph without costs, as Mermaid text."""
    return f"{markdown_text(_size(graph))}\n\n```mermaid\n{to_mermaid(graph)}```\n"


def _size(graph: GraphLike) -> str:
    pinned = ", records stay in their blocks" if graph.pinned else ""
    return f"Accountant graph of {len(graph.nodes)} nodes, {graph.adjacency.value}{pinned}"


def _curve(guarantee: GuaranteeLike) -> list[tuple[str, str, str]]:
    rows = []
    for delta in _DELTAS:
        try:
            found = guarantee.epsilon(delta)
        except HockeystickError as error:
            rows.append((f"{delta:g}", "not computed", type(error).__name__))
            continue
        finite = math.isfinite(found.upper)
        rows.append(
            (f"{delta:g}", rounded_text.upper(found.upper) if finite else "none", found.method if finite else "")
        )
    return rows


def _facts(guarantee: GuaranteeLike) -> list[str]:
    group = f", groups of {guarantee.group}" if guarantee.group > 1 else ""
    assumed = [f"assumes: {sentence}" for sentence in guarantee.assumptions]
    return [f"{guarantee.adjacency.value}{group}", guarantee.threat_model, *assumed]
