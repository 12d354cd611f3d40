"""``hockeystick run bandit``: a private bandit on a table of recorded losses."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.option_types import Count, FileName
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    flag,
    ledger_option,
    option,
    output_options,
    picked,
    plan_option,
    release_option,
    seed_of,
    seed_option,
)
from hockeystick._cli.learners.tables import Content, Progress, run_on_a_table


@click.command("bandit")
@plan_option()
@seed_option()
@option("--losses FILE", FileName(), "Run on these losses: an .npy file of shape (rounds, arms), numbers in [0, 1].")
@option(
    "--method",
    click.Choice(("tsallis", "elimination", "ucb")),
    "Losses that are fixed in advance (tsallis, in batches), or independent losses of one law (elimination, ucb).",
    default="tsallis",
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
    target = picked(given, "method", "epsilon", "group")

    def planned() -> Content:
        from hockeystick._runs.online.bandit import plan

        return plan(**picked(given, "rounds", "arms"), **target)[1]

    def played(progress: Progress) -> tuple[Content, dict[str, Any]]:
        from hockeystick._runs.lazy_streams import experts_file
        from hockeystick._runs.ledgers import opened
        from hockeystick._runs.online.bandit import run

        content, actions = run(
            experts_file(given["losses"]),
            clip=given["clip"],
            seed=seed_of(given),
            ledger=opened(given["ledger"]),
            progress=progress,
            **target,
        )
        return content, {"actions": actions}

    return run_on_a_table(
        given, sizes=("rounds", "arms"), data=("losses",), runs=(), what="arms", plan=planned, run=played
    )
