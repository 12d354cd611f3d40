"""``hockeystick account``: what a graph of releases costs."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import click

from hockeystick.cli_output import check_outputs, deliver, warn
from hockeystick.cli_types import Real


@click.command()
@click.argument("graph", metavar="GRAPH.json")
@click.option(
    "--delta", required=True, metavar="D", type=Real(0.0, 1.0), help="The δ at which to state ε; 0 for pure privacy."
)
@click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON ('-': to the standard output).")
def account(graph: str, delta: float, json_file: str | None) -> int:
    """Certify the privacy of a graph of releases.

    GRAPH.json is what AccountantGraph.to_json() returns ('-': the standard input). Shown are the upper bound ε, the
    lower end of its bracket (how exactly it was computed), the method that won, and each node's share.

    \b
    Examples:
      hockeystick account graph.json --delta 1e-6
      hockeystick account graph.json --delta 0 --json -

    An infinite ε (no guarantee at this δ) is shown as inf with a warning, and is the string "inf" in the JSON.
    Exit status: 0, or 2 where the graph can't be read or has no meaning.
    """
    json_path, _ = check_outputs(json_file, None)
    text = _read(graph)
    from hockeystick.accounting import AccountantGraph, GraphError
    from hockeystick.report import account_result

    try:
        known = AccountantGraph.from_json(text)
        result = account_result(known.guarantee(), delta)
    except GraphError as error:
        raise GraphError(f"{graph}: {error}") from error
    deliver(result, json_file=json_file, json_path=json_path)
    if simulated := known.simulated():
        warn(f"simulated noise in {', '.join(simulated)}: whoever knows the seed can take it off; nothing to publish")
    if math.isinf(float(result["epsilon_upper"])):
        warn(f"the graph has no finite ε at δ = {delta:g}; give a larger --delta, or find the node that is not private")
    return 0


def _read(graph: str) -> str:
    from hockeystick.accounting import InvalidArgumentError

    try:
        if graph == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        return Path(graph).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        remedy = "write one with AccountantGraph.to_json()"
        raise InvalidArgumentError("GRAPH.json", graph, "there is no such file", remedy) from None
    except UnicodeDecodeError:
        raise InvalidArgumentError("GRAPH.json", graph, "is not UTF-8 text", "write it with to_json()") from None
    except OSError as error:
        raise InvalidArgumentError("GRAPH.json", graph, f"can't be read ({error.strerror})", "give a file") from None
