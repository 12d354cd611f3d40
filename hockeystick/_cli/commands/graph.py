"""``hockeystick graph``: a graph of releases as a picture, in the terminal, as SVG or as Mermaid text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import FileName, Real, read_graph
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options
from hockeystick._cli.frame.streams import warn

_DRAWINGS = ("svg", "mermaid")


@click.command("graph")
@click.argument("graph", metavar="GRAPH.json", type=FileName())
@click.option(
    "--delta", metavar="D", type=Real(0.0, 1.0), help="Show the ε that each release costs alone at this δ; 0: pure."
)
@click.option("--view", metavar="NAME", help="Count what this threat model of the graph pays, and nothing else.")
@click.option(
    "--svg", "svg_file", metavar="FILE", type=FileName("output"), help="Draw it as SVG ('-': to standard output)."
)
@click.option(
    "--mermaid", "mermaid_file", metavar="FILE", type=FileName("output"), help="Write it as a Mermaid flowchart."
)
@output_options()
def graph(**given: Any) -> int:
    """Show a graph of releases: who reads which data, and what each release costs.

    GRAPH.json is what AccountantGraph.to_json() returns ('-': the standard input). In the terminal every node stands
    under what it reads. Without --delta nothing is computed. Costs are those of each release alone, for the source that
    it costs most; what all of them cost together is for 'hockeystick account'.

    \b
    Examples:
      hockeystick graph graph.json
      hockeystick graph graph.json --delta 1e-6 --svg graph.svg
      hockeystick graph graph.json --delta 1e-6 --view press --markdown -
      hockeystick graph graph.json --mermaid -

    Exit status: 0, or 2 where the graph can't be read or has no meaning.
    """
    files = result_files(given, drawings=_DRAWINGS)
    known = read_graph(given["graph"])
    from hockeystick._report.results import graph_result
    from hockeystick.accounting import InvalidArgumentError

    if given["view"] is not None and given["view"] not in (names := [view.name for view in known.views]):
        reason = f"is no threat model of the graph ({', '.join(names) or 'it has none'})"
        raise InvalidArgumentError("--view", given["view"], reason, "leave it out")
    with working(patience=1.0) as progress:
        progress("bounding ε")
        result = graph_result(known, given["delta"], given["view"])
    spent = {name: float(cost) for name, cost in (result["costs"] or {}).items()}
    deliver(files, result, drawings={name: partial(draw, known, spent=spent) for name, draw in _drawings().items()})
    if simulated := known.simulated():
        warn(f"simulated noise in {', '.join(simulated)}: whoever knows the seed can take it off; nothing to publish")
    return 0


def _drawings() -> dict[str, Callable[..., str]]:
    from hockeystick.accounting.graph.drawing import mermaid, svg

    return {"svg": svg.to_svg, "mermaid": mermaid.to_mermaid}
