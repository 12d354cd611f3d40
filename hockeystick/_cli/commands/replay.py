"""``hockeystick replay``: records a function on one data set and replays it on its neighbour."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.audit_options import auditing, new_seed, point_options, target_argument, timeout_option
from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.option_types import Count, DataText
from hockeystick._cli.frame.shared_options import option, output_options
from hockeystick._cli.frame.streams import warn

_STATUS = {"agrees": 0, "violation": 1, "not certified": 2, "not covered": 2}


@click.command("replay")
@target_argument()
@option("--d0 X", DataText(), "A data set. Inline JSON, or a .json, .npy or .csv file.", required=True)
@option("--d1 Y", DataText(), "A neighbour of it, best at the largest distance that is allowed.", required=True)
@point_options()
@option("--paths N", Count(1), "Number of recorded paths in each order of the data sets. Default: 20.")
@option("--seed S", Count(0, None), "The seed of the paths. Default: a new one, which the report shows.")
@timeout_option(
    "Seconds that one run of the function may take. The replay then runs in a process of its own, which is ended. "
    "Default: no limit."
)
@click.option("--traceback", "full", is_flag=True, help="Show the whole traceback of an error in the target.")
@output_options()
def replay_command(target: str, d0: str, d1: str, **given: Any) -> int:
    """Record a function on one data set and replay it on a neighbour, call by call.

    The function is f(data, rng) or f(data, rng, runs). On each path it runs three times: on one data set, where every
    draw and every mechanism (of hockeystick, OpenDP, diffprivlib) is recorded with its noiseless input; on the same
    data with the recorded answers, which it must repeat; and on the other data set with these answers. The inputs must
    then be within the stated sensitivities, the calls and their parameters the same, and the value returned the same.
    The calls of a path become a graph of releases, whose ε is computed at the distances between the inputs.

    A replay finds mistakes that samples hardly show, such as a sensitivity that is 3 % too small, and names file and
    line. It covers one pair and the recorded paths. It does not test the law of the noise: use hockeystick audit.

    \b
    Examples:
      hockeystick replay mymech.py:release --d0 '[1, 2, 3]' --d1 '[1, 2]' --epsilon 1
      hockeystick replay mymech:noisy_mean --d0 old.csv --d1 new.csv \\
          --epsilon 0.5 --delta 1e-6 --json replay.json

    \b
    Exit status and outcomes:
      0  agrees: nothing was found on this pair and these paths
      1  violation: a proof for this pair; the report names file and line
      2  not certified: the calls cost more than is claimed, or differ, without a proof
      2  not covered: the function draws randomness that a replay can't follow
      2  could not run: unusable input, or the function raised an error, ended
         the program, or took longer than --timeout

    Prints of the function go to the standard error stream. In the JSON an infinite number is the string "inf".
    """
    from hockeystick._files.named_callables import load_data, load_target
    from hockeystick._report.results import replay_result
    from hockeystick.audits.replay.run import PATHS, replay

    files = result_files(given)
    data = load_data("--d0", d0), load_data("--d1", d1)
    with auditing(target, {**given, "checkpoint": None}) as progress:
        loaded = load_target(target)
        progress(f"replaying {target}")
        verdict = replay(
            loaded,
            *data,
            epsilon=given["epsilon"],
            delta=given["delta"],
            paths=given["paths"] or PATHS,
            seed=new_seed(given["seed"]),
            timeout=given["timeout"],
            progress=lambda done, total: progress(f"replaying {target}", done / total),
        )
    result = replay_result(verdict, target=target, d0=d0, d1=d1)
    deliver(files, result)
    for warning in verdict.warnings:
        warn(warning)
    return _STATUS[verdict.outcome]
