"""``hockeystick account``: what a graph of releases costs."""

from __future__ import annotations

import math
from typing import Any

import click

from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import Count, FileName, Real, read_graph
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options
from hockeystick._cli.frame.streams import warn


@click.command()
@click.argument("graph", metavar="GRAPH.json", type=FileName())
@click.option(
    "--delta", required=True, metavar="D", type=Real(0.0, 1.0), help="The δ at which to state ε; 0 for pure privacy."
)
@click.option("--group", metavar="K", type=Count(1), help="ε of groups of K records; 1 without it.")
@click.option("--view", metavar="NAME", help="A threat model of the graph; without it all releases are seen.")
@output_options()
def account(graph: str, delta: float, group: int | None, view: str | None, **given: Any) -> int:
    """Certify the privacy of a graph of releases.

    GRAPH.json is what AccountantGraph.to_json() returns ('-': the standard input). The first line says what the result
    is about: the neighbouring relation, how far one record moves what each release reads (the unit of its noise), and
    the sampling. Then come the upper bound ε, the lower end of its bracket (how exactly it was computed), the method
    that won, what the others say, each node's share, and the trade-off curve.

    \b
    Examples:
      hockeystick account graph.json --delta 1e-6
      hockeystick account graph.json --delta 0 --json -
      hockeystick account graph.json --delta 1e-6 --group 3 --html page.html

    An infinite ε (no guarantee at this δ) is shown as inf with a warning, and is the string "inf" in the JSON.
    Exit status: 0, or 2 where the graph can't be read or has no meaning.
    """
    files = result_files(given)
    known = read_graph(graph)
    from hockeystick._report.results import account_result
    from hockeystick.accounting import GraphError

    try:
        with working(patience=1.0) as progress:
            result = account_result(known.guarantee(group=group or 1, view=view), delta, step=progress)
    except GraphError as error:
        raise GraphError(f"{graph}: {error}") from error
    deliver(files, result)
    if simulated := known.simulated():
        warn(f"simulated noise in {', '.join(simulated)}: whoever knows the seed can take it off; nothing to publish")
    if math.isinf(float(result["epsilon_upper"])):
        warn(f"the graph has no finite ε at δ = {delta:g}; give a larger --delta, or find the node that is not private")
    return 0
