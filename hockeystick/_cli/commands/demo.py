"""``hockeystick demo``: a private learner on real data, from its calibration to the verdict of an audit."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import Count
from hockeystick._cli.frame.shared_options import POSITIVE, SHARE, option, output_options
from hockeystick._cli.frame.streams import warn


@click.command("demo")
@option("--epsilon E", POSITIVE, "The ε to calibrate the learner to.", default=1.0)
@option("--delta D", SHARE, "The δ to calibrate the learner to.", default=1e-5)
@option("--seed S", Count(0, None), "The seed of all random numbers.", default=0)
@output_options()
def demo_command(epsilon: float, delta: float, seed: int, **given: Any) -> int:
    """Certify and audit a forecaster that learns from 550 people's data, then catch broken ones.

    The forecaster sees the patients of the breast-cancer data set one after another. It predicts each diagnosis by one
    of ten simple rules, with differential privacy for each patient. The demo finds the parameters that give (ε, δ),
    certifies the forecaster, and audits it on neighbouring streams. Then it audits broken variants, which the audits
    must refute. It takes less than two minutes on two cores, and needs the extra hockeystick[demo].

    \b
    Examples:
      hockeystick demo
      hockeystick demo --epsilon 2 --delta 1e-6 --html report.html
      hockeystick demo --seed 7 --json result.json

    \b
    Exit status:
      0  no correct learner was refuted, and all broken ones were
         that the samples suffice to refute
      1  otherwise; the report shows the audit
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
