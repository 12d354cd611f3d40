"""The shared part of the commands that run a learner on a table of losses: ``run experts`` and ``run bandit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from hockeystick._cli.frame.array_outputs import array_path, write_array
from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import private_file
from hockeystick._cli.frame.shared_options import Given, need, refuse, refuse_seeded_release, refuse_with_plan
from hockeystick._cli.frame.streams import warn

Content = dict[str, Any]
Progress = Callable[[str], None]


def run_on_a_table(
    given: Given,
    *,
    sizes: tuple[str, str],
    data: tuple[str, ...],
    runs: tuple[str, ...],
    what: str,
    plan: Callable[[], Content],
    run: Callable[[Progress], tuple[Content, dict[str, Any]]],
) -> int:
    """Plans or runs a learner, and writes the result and the arrays that were asked for.

    Args:
        given: The options.
        sizes: The options of a plan: the number of rounds, and of columns.
        data: The options of data, one of which a run needs.
        runs: Further options that only a run has.
        what: The played things, such as "experts".
        plan: Returns the result of a plan.
        run: Returns the result of a run, and arrays by the names of the options of their files.
    """
    if given["plan"]:
        refuse_with_plan(given, *data, "seed", "release", "ledger", "actions", "clip", *runs)
        need(given, "--plan", *sizes)
    else:
        refuse(given, "needs --plan; a run takes its sizes from the losses", *sizes)
        if sum(given[name] is not None for name in data) != 1:
            flags = ", ".join(f"--{name}" for name in data)
            raise click.UsageError(f"give one of {flags} and --plan")
        refuse_seeded_release(given)
    files = result_files(given)
    paths: dict[str, Path] = {}
    for name in ("actions", "mixtures"):
        path = array_path(given.get(name), files, f"--{name}")
        if path is not None:
            paths[name] = path
    if given["plan"]:
        content = plan()
    else:
        with working() as progress, private_file("--losses", given["losses"]):
            content, arrays = run(progress)
        for name, path in paths.items():
            write_array(path, arrays[name])
    if conclude(given, content, files)["mode"] == "release" and not paths:
        warn(f"the released {what} were not saved, and another release costs ε again: give --actions")
    return 0
