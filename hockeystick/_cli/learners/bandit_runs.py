"""``hockeystick run bandit``: a private bandit on a table of recorded losses."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.array_outputs import array_path, write_array
from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, private_file
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    flag,
    ledger_option,
    need,
    option,
    output_options,
    picked,
    plan_option,
    refuse,
    refuse_seeded_release,
    refuse_with_plan,
    release_option,
    seed_of,
    seed_option,
)
from hockeystick._cli.frame.streams import warn


@click.command("bandit")
@plan_option()
@seed_option()
@option("--losses FILE", FileName(), "Run on these losses: an .npy file of shape (rounds, arms), numbers in [0, 1].")
@option(
    "--method",
    click.Choice(("exp3", "elimination")),
    "Losses that are fixed in advance (exp3, batched), or independent losses of one law (elimination).",
    default="exp3",
)
@option("--epsilon E", POSITIVE, "The ε to calibrate to; δ is 0.", required=True)
@option("--group K", Count(1), "Protect groups of K people, or users with K rounds.", default=1)
@release_option("Run with secure noise, so that the arms may be published.")
@ledger_option()
@option("--actions FILE.npy", FileName("output"), "Write the arm of every round.")
@flag("--clip", "Clip losses to [0, 1] instead of refusing others.")
@option("--rounds T", Count(1), "With --plan: the number of rounds, one per person.")
@option("--arms K", Count(2), "With --plan: the number of arms.")
@output_options()
def bandit(**given: Any) -> int:
    """Choose arms privately where only the loss of the chosen arm is seen.

    Each round has the losses of one person, one number in [0, 1] per arm; the bandit reads that of the arm that it
    plays. The file of a table holds all of them, as an experiment or a simulated population has them. By default this
    is a simulation, which must not be published. --release draws secure noise and gives the arms (--actions), but not
    the loss, which the guarantee does not cover. --plan runs nothing. A service that sees one loss a round uses the
    library's sessions.

    \b
    Examples:
      hockeystick run bandit --losses L.npy --epsilon 1 --seed 7
      hockeystick run bandit --losses L.npy --epsilon 1 --release --actions played.npy
      hockeystick run bandit --plan --rounds 1e5 --arms 5 --epsilon 1 --method elimination

    Exit status: 0, or 2 if the command could not run.
    """
    if given["plan"]:
        refuse_with_plan(given, "losses", "seed", "release", "ledger", "actions", "clip")
        need(given, "--plan", "rounds", "arms")
    else:
        refuse(given, "needs --plan; a run takes its sizes from the losses", "rounds", "arms")
        if given["losses"] is None:
            raise click.UsageError("give one of --losses and --plan")
        refuse_seeded_release(given)
    files = result_files(given)
    actions_path = array_path(given["actions"], files)
    target = picked(given, "method", "epsilon", "group")
    if given["plan"]:
        from hockeystick._runs.online.bandit import plan

        content = plan(**picked(given, "rounds", "arms"), **target)[1]
    else:
        from hockeystick._runs.lazy_streams import experts_file
        from hockeystick._runs.ledgers import opened
        from hockeystick._runs.online.bandit import run

        with working() as progress, private_file("--losses", given["losses"]):
            content, actions = run(
                experts_file(given["losses"]),
                clip=given["clip"],
                seed=seed_of(given),
                ledger=opened(given["ledger"]),
                progress=progress,
                **target,
            )
        if actions_path is not None:
            write_array(actions_path, actions)
    if conclude(given, content, files)["mode"] == "release" and actions_path is None:
        warn("the released arms were not saved, and another release costs ε again: give --actions")
    return 0
