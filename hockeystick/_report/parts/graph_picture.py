"""A picture of an accountant graph: data on the left, published values on the right, releases sized by their cost."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hockeystick.accounting import AccountantGraph
from hockeystick.accounting.graph.drawing.mermaid import costs
from hockeystick.accounting.numerics import rounded_text
from hockeystick.accounting.optional_packages import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"source": "#9ecae1", "transform": "#d9d9d9", "release": "#fdae6b", "post": "#c7e9c0", "public": "#ffffff"}


def draw_graph(graph: AccountantGraph, *, delta: float) -> Figure:
    """Returns a matplotlib figure of ``graph``; the area of a release is proportional to its ε alone.

    Args:
      graph: The graph.
      delta: The δ of the costs; 0 for pure privacy.

    Raises:
      MissingExtraError: Matplotlib is not installed.
      InvalidArgumentError: ``delta`` is not in [0, 1].
      UnsupportedAdjacencyError: See ``AccountantGraph.guarantee``.

    Example:
        >>> import hockeystick as hs
        >>> graph = hs.AccountantGraph().source("records")
        >>> graph = graph.release("count", hs.events.Gaussian(2.0), reads=["records"])
        >>> hs.draw_graph(graph, delta=1e-6).axes[0].get_title()
        'ε of each release alone at δ = 1e-06'
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("a picture needs matplotlib: pip install 'hockeystick[report]'") from None
    import networkx as nx

    spent = costs(graph, delta)
    finite = [cost for cost in spent.values() if math.isfinite(cost)]
    largest = max(finite, default=0.0) or 1.0
    view = graph.networkx()
    for layer, names in enumerate(nx.topological_generations(view)):
        for name in names:
            view.nodes[name]["layer"] = layer
    where = nx.multipartite_layout(view, subset_key="layer") if len(view) else {}

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.set_axis_off()
    sizes = {name: 300 + (2700 * min(1.0, spent[name] / largest) if name in spent else 300) for name in view}
    values = [(a, b) for a, b in view.edges if view.nodes[a]["kind"] not in ("source", "transform")]
    data = [edge for edge in view.edges if edge not in set(values)]
    for edges, style in ((data, "solid"), (values, "dashed")):
        nx.draw_networkx_edges(
            view, where, edgelist=edges, style=style, ax=axes, node_size=list(sizes.values()), edge_color="#636363"
        )
    for kind, colour in _COLOURS.items():
        names = [name for name in view if view.nodes[name]["kind"] == kind]
        nx.draw_networkx_nodes(
            view,
            where,
            nodelist=names,
            node_size=[sizes[name] for name in names],
            node_color=colour,
            edgecolors="#636363",
            ax=axes,
            label=kind if names else None,
        )
    labels = {name: f"{name}\nε = {rounded_text.upper(spent[name], 3)}" if name in spent else name for name in view}
    nx.draw_networkx_labels(view, where, labels, font_size=8, ax=axes)
    axes.margins(0.15)
    axes.set_title(f"ε of each release alone at δ = {delta:g}", fontsize=10)
    return figure
