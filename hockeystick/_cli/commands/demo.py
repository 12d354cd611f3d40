"""``hockeystick demo``: the whole way from a claim to a verdict, on real data."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import Count, Real
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import output_options
from hockeystick._cli.frame.streams import warn


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
@click.option("--seed", default=0, metavar="S", type=Count(0, None), help="Of all random numbers; 0 without it.")
@output_options()
def demo(epsilon: float, delta: float, seed: int, **given: Any) -> int:
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
    files = result_files(given)
    from hockeystick._report.results import demo_result
    from hockeystick._runs.demo import run_demo

    with working() as progress:
        found = run_demo(
            epsilon=epsilon,
            delta=delta,
            seed=seed,
            progress=lambda stage, done, total: progress(stage, done / total),
        )
    result = demo_result(found)
    deliver(files, result)
    for audit in result["audits"]:
        for warning in audit["verdict"]["warnings"]:
            warn(f"{audit['learner']}, {audit['mutation'] or 'correct'}, {audit['neighbours']} neighbours: {warning}")
    return 0 if result["as_expected"] else 1
