"""A picture of an accountant graph: data on the left, published values on the right, with what each release costs."""

from __future__ import annotations

from hockeystick.accounting import AccountantGraph
from hockeystick.accounting.graph.drawing.svg import to_svg


def draw_graph(graph: AccountantGraph, *, delta: float | None = None, view: str | None = None) -> str:
    """Returns a drawing of ``graph`` as SVG text, which notebooks show as a picture.

    Args:
      graph: what to draw.
      delta: if given, each release shows the ε that it costs alone at this δ; 0 for pure privacy.
      view: a threat model of the graph, by name; only the releases that it pays for show a cost.

    Raises:
      InvalidArgumentError: delta is not in [0, 1], or the graph has more nodes than a drawing can show.
      GraphError: the graph has no such view.
      UnsupportedAdjacencyError: see ``AccountantGraph.guarantee``.

    Example:
      >>> import hockeystick as hs
      >>> graph = hs.AccountantGraph().source("people").release("count", hs.events.Laplace(2.0), reads=["people"])
      >>> picture = hs.draw_graph(graph, delta=0.0)  # Path("graph.svg").write_text(picture) saves it
      >>> picture[:4], "ε = 0.5" in picture
      ('<svg', True)
    """
    return to_svg(graph, delta=delta, view=view)
