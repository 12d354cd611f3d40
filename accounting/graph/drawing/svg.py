"""A graph as an SVG drawing: data on the left, published values on the right, and the cost of each release.

It needs no other package, takes the text colour of its page, and has a description in words. Every node names its kind,
so that nothing depends on shapes or colours. The bar of a release is proportional to its cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape

from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.graph.drawing.mermaid import costs, edges, label
from hockeystick.accounting.graph.drawing.node_places import LINE, PADDING, Box, layout
from hockeystick.accounting.graph.parts.drawn import GraphLike
from hockeystick.accounting.graph.parts.nodes import Node, Release, Source, Transform
from hockeystick.accounting.numerics import rounded_text

MOST_NODES = 300
_LONGEST = 40  # characters in a line
_ACCENT = "#d9622b"
_STANDALONE = (
    "<style>svg { color: #1b1f24; background: #ffffff }"
    "@media (prefers-color-scheme: dark) { svg { color: #e6e9ec; background: #14171a } }</style>"
)


def to_svg(
    graph: GraphLike,
    *,
    delta: float | None = None,
    view: str | None = None,
    spent: Mapping[str, float] | None = None,
    standalone: bool = True,
    name: str = "graph",
) -> str:
    """Returns the graph as SVG text, which notebooks show as a picture.

    Args:
      graph: an ``AccountantGraph``.
      delta: if given, each release shows the ε that it costs alone at this δ; see ``mermaid.costs`` for the errors.
      view: a threat model of the graph, by name; only releases that it pays for show a cost.
      spent: costs to show, by release, instead of computed ones.
      standalone: whether the drawing is a file with its own colours, or an element in a page, in its text colour.
      name: a prefix of the drawing's identifiers, unique within the page.

    Raises:
      InvalidArgumentError: the graph has more than 300 nodes.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Laplace
      >>> graph = AccountantGraph().source("people").release("count", Laplace(2.0), reads=["people"])
      >>> text = to_svg(graph, delta=0.0)
      >>> text[:4], "ε = 0.5" in text
      ('<svg', True)
    """
    if len(graph.nodes) > MOST_NODES:
        reason = f"is more than the {MOST_NODES} nodes that a drawing can show"
        raise InvalidArgumentError("graph", f"{len(graph.nodes)} nodes", reason, "use to_mermaid")
    if spent is None:
        spent = {} if delta is None else costs(graph, delta, view=view)
    texts = {node.name: _lines(node, spent) for node in graph.nodes}
    joined = edges(graph)
    placed = layout(texts, [(other.name, node.name) for node, other, _ in joined])
    largest = max((cost for cost in spent.values() if math.isfinite(cost)), default=0.0)
    dashed = {(other.name, node.name) for node, other, is_value in joined if is_value}
    size = f"{placed.width:.0f} {placed.height:.0f}"
    width, height = size.split()
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{name}-title {name}-words" '
        f'viewBox="0 0 {size}" width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="12">',
        f'<title id="{name}-title">Accountant graph</title>',
        f'<desc id="{name}-words">{_safe(_in_words(graph, spent))}</desc>',
        _STANDALONE if standalone else "",
        f'<defs><marker id="{name}-tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>',
    ]
    for pair, points in placed.lines.items():
        dash = ' stroke-dasharray="5 4"' if pair in dashed else ""
        parts.append(
            f'<path d="{_curve(points)}" fill="none" stroke="currentColor" opacity="0.65"{dash} '
            f'marker-end="url(#{name}-tip)"/>'
        )
    for node in graph.nodes:
        parts += _box(node, placed.boxes[node.name], texts[node.name], spent.get(node.name), largest)
    return _Svg("\n".join(part for part in [*parts, "</svg>"] if part) + "\n")


class _Svg(str):
    """SVG text that notebooks show as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


def _in_words(graph: GraphLike, spent: Mapping[str, float]) -> str:
    """Returns a description of the drawing, one sentence per node."""
    sentences = []
    for node in graph.nodes:
        reads = getattr(node, "reads", ())
        sentence = f"{_kind(node)} {node.name}" + (f" reads {', '.join(reads)}" if reads else "")
        cost = f", ε ≤ {rounded_text.upper(spent[node.name], 4)} alone" if node.name in spent else ""
        sentences.append(f"{sentence}{cost}.")
    return " ".join(sentences) or "There are no nodes."


def _kind(node: Node) -> str:
    return type(node).__name__.lower()


def _lines(node: Node, spent: Mapping[str, float]) -> list[str]:
    return [
        _kind(node),
        *(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…" for line in label(node, spent)),
    ]


def _box(node: Node, box: Box, lines: list[str], cost: float | None, largest: float) -> list[str]:
    """Returns the elements of one node: its shape, its bar, its lines, and a tooltip with the lines in full."""
    rounding = {Source: 3.0, Transform: 3.0, Release: 14.0}.get(type(node), 0.0)
    pale = ' stroke-dasharray="2 3"' if not isinstance(node, (Source, Release)) else ""
    heavy = 2 if isinstance(node, Source) else 1.2
    share = 0.0 if cost is None else 1.0 if math.isinf(cost) else cost / largest if largest else 0.0
    whole = "; ".join(label(node, {} if cost is None else {node.name: cost}))
    shape = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="{rounding:g}"'
    out = [
        f"<g><title>{_safe(f'{_kind(node)} {whole}')}</title>",
        f'<rect {shape} fill="{_ACCENT}" fill-opacity="{0.06 + 0.3 * share if isinstance(node, Release) else 0:.2f}" '
        f'stroke="currentColor" stroke-width="{heavy:g}"{pale}/>',
    ]
    if cost is not None:
        length = max(2.0, (box.width - 2 * PADDING) * share)
        out.append(
            f'<rect x="{box.x + PADDING:.1f}" y="{box.y + box.height - 6:.1f}" width="{length:.1f}" height="3" '
            f'fill="{_ACCENT}"/>'
        )
    for i, line in enumerate(lines):
        weight = ' font-weight="600"' if i == 1 else ' font-style="italic" opacity="0.85"' if i == 0 else ""
        x, y = box.x + box.width / 2, box.y + LINE * (i + 1)
        out.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" fill="currentColor"{weight}>{_safe(line)}</text>'
        )
    return [*out, "</g>"]


def _curve(points: tuple[tuple[float, float], ...]) -> str:
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (a, b), (c, d) in zip(points, points[1:], strict=False):
        middle = (a + c) / 2
        path += f"C{middle:.1f} {b:.1f} {middle:.1f} {d:.1f} {c:.1f} {d:.1f}"
    return path


def _safe(text: str) -> str:
    """Returns the text escaped for XML, without control characters."""
    return escape("".join(c for c in text if c.isprintable()))
