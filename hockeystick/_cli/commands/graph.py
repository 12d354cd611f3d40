"""``hockeystick graph``: draws a graph of releases in the terminal, as SVG or as Mermaid text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import FileName, Real, read_graph
from hockeystick._cli.frame.shared_options import option, output_options
from hockeystick._cli.frame.streams import simulated_noise, warn

_DRAWINGS = ("svg", "mermaid")


@click.command("graph")
@click.argument("graph", metavar="GRAPH.json", type=FileName())
@option("--delta D", Real(0.0, 1.0), "Show the ε of each release alone at this δ; 0 for pure privacy.")
@option("--view NAME", click.STRING, "Show the costs under this threat model of the graph.")
@option("--svg FILE", FileName("output"), "Draw it as SVG ('-': to the standard output).", dest="svg_file")
@option("--mermaid FILE", FileName("output"), "Write it as a Mermaid flowchart.", dest="mermaid_file")
@output_options()
def graph_command(**given: Any) -> int:
    """Draw a graph of releases: the data that each release reads, and its cost.

    GRAPH.json is a file that AccountantGraph.to_json() made ('-': the standard input). In the terminal each node stands
    below the nodes that it reads. With --delta the ε of each release alone is shown, for the source that it costs most;
    'hockeystick account' computes the ε of all releases together.

    \b
    Examples:
      hockeystick graph graph.json
      hockeystick graph graph.json --delta 1e-6 --svg graph.svg
      hockeystick graph graph.json --delta 1e-6 --view press --markdown -
      hockeystick graph graph.json --mermaid -

    Exit status: 0, or 2 if the graph can't be read or is invalid.
    """
    files = result_files(given, drawings=_DRAWINGS)
    known = read_graph(given["graph"])
    from hockeystick._report.results import graph_result
    from hockeystick.accounting import InvalidArgumentError

    if given["view"] is not None and given["view"] not in (names := [view.name for view in known.views]):
        reason = f"is not a threat model of the graph ({', '.join(names) or 'it has none'})"
        raise InvalidArgumentError("--view", given["view"], reason, "leave it out")
    with working(patience=1.0) as progress:
        progress("bounding ε")
        result = graph_result(known, given["delta"], given["view"])
    spent = {name: float(cost) for name, cost in (result["costs"] or {}).items()}
    deliver(files, result, drawings={name: partial(draw, known, spent=spent) for name, draw in _drawings().items()})
    if simulated := known.simulated():
        warn(simulated_noise(simulated))
    return 0


def _drawings() -> dict[str, Callable[..., str]]:
    from hockeystick.accounting.graph.drawing import mermaid, svg

    return {"svg": svg.to_svg, "mermaid": mermaid.to_mermaid}
