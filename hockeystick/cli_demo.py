"""``hockeystick demo``: the whole way from a claim to a verdict, on real data."""

from __future__ import annotations

import click

from hockeystick.cli_output import (
    Interrupted,
    Progress,
    check_outputs,
    deliver,
    warn,
)
from hockeystick.cli_types import Count, Real


@click.command()
@click.option(
    "--epsilon", default=1.0, metavar="E", type=Real(0.0, low_open=True), help="The ε to calibrate to; 1 without it."
)
@click.option(
    "--delta",
    default=1e-5,
    metavar="D",
    type=Real(0.0, 1.0, low_open=True, high_open=True),
    help="The δ of the claim; 1e-5 without it.",
)
@click.option("--seed", default=0, metavar="S", type=Count(0), help="Of all random numbers; 0 without it.")
@click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON ('-': to the standard output).")
@click.option("--html", "html_file", metavar="FILE", help="Write a report as one HTML page.")
def demo(epsilon: float, delta: float, seed: int, json_file: str | None, html_file: str | None) -> int:
    """Certify and audit a private learner on real data, then catch broken ones.

    Patients of the breast-cancer data set come one after another; a learner follows the advice of simple rules so that
    nobody can tell whether a single patient was another. It is calibrated to (ε, δ) by its accountant graph, certified,
    and audited on neighbouring streams. Then two broken variants of it meet the same audit, which must refute them.
    Takes less than two minutes on two cores, and needs the extra hockeystick[demo].

    \b
    Examples:
      hockeystick demo
      hockeystick demo --epsilon 2 --delta 1e-6 --html report.html
      hockeystick demo --seed 7 --json result.json

    \b
    Exit status:
      0  no correct learner was refuted, and every broken one was that so many samples can catch
      1  otherwise; the report says where
      2  could not run
    """
    json_path, html_path = check_outputs(json_file, html_file)
    from hockeystick.demo import run_demo
    from hockeystick.report import demo_result

    try:
        with Progress() as progress:
            found = run_demo(
                epsilon=epsilon,
                delta=delta,
                seed=seed,
                progress=lambda stage, done, total: progress(stage, done / total),
            )
    except KeyboardInterrupt:
        raise Interrupted("interrupted before there was a result; result files are unchanged") from None
    result = demo_result(found)
    deliver(result, json_file=json_file, json_path=json_path, html_path=html_path)
    for audit in result["audits"]:
        for warning in audit["verdict"]["warnings"]:
            warn(f"{audit['learner']}, {audit['mutation'] or 'correct'}, {audit['neighbours']} neighbours: {warning}")
    return 0 if result["as_expected"] else 1
