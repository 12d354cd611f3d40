"""The representations of a graph and of a guarantee in notebooks: a drawing and small tables, in HTML and in Markdown.

They need no other package and compute no more than ``str()`` does: showing a value must neither take long nor fail.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Sequence
from html import escape

from hockeystick.accounting.errors import HockeystickError
from hockeystick.accounting.graph.drawing.mermaid import to_mermaid
from hockeystick.accounting.graph.drawing.svg import MOST_NODES, to_svg
from hockeystick.accounting.graph.parts.drawn import GraphLike, GuaranteeLike
from hockeystick.accounting.numerics import rounded_text

_DELTAS = (0.0, 1e-9, 1e-7, 1e-5)
_CELL = "text-align: left; padding: 0.1em 0.8em 0.1em 0"


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table as HTML with all texts escaped. The first cell of a row is its heading."""
    head = "".join(f'<th scope="col" style="{_CELL}">{_safe(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row" style="{_CELL}; font-weight: normal">{_safe(first)}</th>'
        + "".join(f'<td style="{_CELL}">{_safe(cell)}</td>' for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    title = f'<caption style="text-align: left; font-weight: 600">{_safe(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table as Markdown (of GitHub and of notebooks) with all texts escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell if i == 1 else markdown_text(cell) for cell in line) + " |\n"
        for i, line in enumerate(lines)
    )


def markdown_text(text: str) -> str:
    """Returns text of which Markdown shows every character literally: no markup, no links, no mentions."""
    line = "".join(c for c in " ".join(str(text).split()) if c.isprintable())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = "".join("\\" + c if c in r"\`*_{}[]|~$" else c for c in line)
    for sign in ("@", "://", "#"):  # an empty comment is invisible, and prevents links
        line = line.replace(sign, f"{sign[0]}<!-- -->{sign[1:]}")
    line = line.replace("www.", "www<!-- -->.")
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$|\2)", r"\1\\\2", line)  # no list, no underlined heading


def guarantee_html(guarantee: GuaranteeLike) -> str:
    """Returns the ε of a guarantee at several δ, and its assumptions, as HTML."""
    facts = "".join(f"<li>{_safe(fact)}</li>" for fact in _facts(guarantee))
    return html_table("Guarantee", ("δ", "ε ≤", "by"), _curve(guarantee)) + f"<ul>{facts}</ul>"


def guarantee_markdown(guarantee: GuaranteeLike) -> str:
    """Returns the ε of a guarantee at several δ, and its assumptions, as Markdown."""
    facts = "".join(f"- {markdown_text(fact)}\n" for fact in _facts(guarantee))
    return markdown_table(("δ", "ε ≤", "by"), _curve(guarantee)) + "\n" + facts


def graph_html(graph: GraphLike) -> str:
    """Returns the drawing of a graph without costs, or one line of text if the graph is too large to draw."""
    if len(graph.nodes) > MOST_NODES:
        return f"<p>{_safe(_size(graph))}</p>"
    drawing = to_svg(graph, standalone=False, name=f"graph-{zlib.crc32(graph.to_json().encode()):x}")
    return f'<p>{_safe(_size(graph))}</p><div style="overflow-x: auto">{drawing}</div>'


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


def _safe(text: str) -> str:
    return escape("".join(c for c in str(text) if c.isprintable()))
