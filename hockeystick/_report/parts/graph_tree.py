"""A graph for the terminal: trees from the sources to the published values, with the cost of each release."""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import frozen
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text
from rich.tree import Tree

from hockeystick.accounting import AccountantGraph
from hockeystick.accounting.graph.drawing.mermaid import label
from hockeystick.accounting.numerics import rounded_text

_BAR = 20  # characters for the largest cost
_KINDS = {"source": "bold", "transform": "italic", "release": "bold yellow", "post": "green", "public": "dim"}


@frozen
class GraphTree:
    """A rich renderable of a graph: each node is below the first node that it reads, and names the others.

    Attributes:
      graph: The graph.
      spent: The ε of each release alone, shown with a bar.
    """

    graph: AccountantGraph
    spent: Mapping[str, float]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields a tree for each node that reads nothing."""
        bar = "█" if options.encoding.startswith("utf") else "#"
        largest = max((cost for cost in self.spent.values() if math.isfinite(cost)), default=0.0)
        trees: dict[str, Tree] = {}
        roots = []
        for node in self.graph.nodes:
            reads = getattr(node, "reads", ())
            line = self._line(node, reads[1:], bar, largest)
            if reads:
                trees[node.name] = trees[reads[0]].add(line)
            else:
                trees[node.name] = Tree(line)
                roots.append(trees[node.name])
        yield from roots
        if not roots:
            yield Text("(no nodes)")

    def _line(self, node: object, others: tuple[str, ...], bar: str, largest: float) -> Text:
        kind = type(node).__name__.lower()
        name, *what = label(node, {})  # type: ignore[arg-type]  # a node of the graph
        line = Text(f"{kind} ", style="dim") + Text(_plain(name), style=_KINDS[kind])
        line.append(_plain("".join(f"  {words}" for words in what)))
        if others:
            line.append(_plain(f"  (also reads {', '.join(others)})"), style="dim")
        if name in self.spent:
            cost = self.spent[name]
            share = 1.0 if math.isinf(cost) else cost / largest if largest else 0.0
            line.append(
                f"  ε ≤ {rounded_text.upper(cost, 4)} {bar * max(1, round(_BAR * share)) if cost else ''}".rstrip()
            )
        return line


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable())
