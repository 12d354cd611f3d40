"""``hockeystick account``: the privacy guarantee of a graph of releases."""

from __future__ import annotations

import math
from typing import Any

import click

from hockeystick._cli.commands.dp_sgd import WithTraining, account_training, refuse_late_word
from hockeystick._cli.frame.certificate_files import certificate_options, planned, write_certificate
from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import Count, FileName, Real, read_graph
from hockeystick._cli.frame.shared_options import option, output_options
from hockeystick._cli.frame.streams import simulated_noise, warn


@click.command("account", cls=WithTraining)
@click.argument("graph", metavar="GRAPH.json", type=FileName())
@option("--delta D", Real(0.0, 1.0), "The δ at which to state ε; 0 for pure privacy.", required=True)
@option("--group K", Count(1), "Protect groups of K records. Default: 1.")
@option("--view NAME", click.STRING, "A threat model of the graph. Default: the adversary sees all releases.")
@certificate_options()
@output_options()
def account_command(graph: str, delta: float, group: int | None, view: str | None, **given: Any) -> int:
    """Certify the privacy of a graph of releases.

    GRAPH.json is a file that AccountantGraph.to_json() made ('-': the standard input). The first line states the
    neighbouring relation, the sensitivity of each release (the unit of its noise), and the sampling. Then come the
    upper bound ε, the lower end of its numerical bracket, the method that gave the least bound, the bounds of the other
    methods, each node's share, and the trade-off curve.

    \b
    Examples:
      hockeystick account graph.json --delta 1e-6
      hockeystick account graph.json --delta 0 --json -
      hockeystick account graph.json --delta 1e-6 --group 3 --html page.html
      hockeystick account graph.json --delta 1e-6 --certificate c.json --privacy-unit "one row"

    For the training of a model by DP-SGD, "hockeystick account dp-sgd --help" takes records, batch and epochs.

    An infinite ε (no guarantee at this δ) is shown as inf with a warning, and is the string "inf" in the JSON.
    Exit status: 0, or 2 if the graph can't be read or is invalid.
    """
    refuse_late_word(graph)
    certificate = planned(given)
    files = result_files(given, certificate.path, certificate.signature)
    known = read_graph(graph)
    from hockeystick._report.results import account_result
    from hockeystick.accounting import GraphError

    try:
        with working(patience=1.0) as progress:
            guarantee = known.guarantee(group=group or 1, view=view)
            result = account_result(guarantee, delta, step=progress)
    except GraphError as error:
        raise GraphError(f"{graph}: {error}") from error
    write_certificate(certificate, guarantee, delta)
    deliver(files, result)
    if simulated := known.simulated():
        warn(simulated_noise(simulated))
    if math.isinf(float(result["epsilon_upper"])):
        warn(f"the graph has no finite ε at δ = {delta:g}; give a larger --delta, or find the node that is not private")
    return 0


account_command.training = account_training
