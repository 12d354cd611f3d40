"""``hockeystick run regret``: a private report on the regret of plays that were published."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Numbers, Real, private_file
from hockeystick._cli.frame.shared_options import (
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
    target_options,
)


@click.command("regret")
@plan_option("Compute the noise, the width of the intervals and the guarantee; read no losses.")
@seed_option()
@option("--losses FILE", FileName(), "The losses: an .npy file of shape (rounds, experts), numbers in [0, 1].")
@option(
    "--plays FILE",
    FileName(),
    "What was played and published: an .npy file with the expert of every round, as --actions writes it, or with the "
    "distribution of every round, as --mixtures does.",
)
@option(
    "--quantiles Q,Q,...",
    Numbers(0.0, 1.0),
    "Report the regret against these quantiles of the experts, 0 for the best.",
    default="0,0.1,0.5",
)
@option(
    "--confidence C",
    Real(0.0, 1.0, low_open=True, high_open=True),
    "The probability with which all intervals hold together.",
    default=0.95,
)
@target_options()
@option("--group K", Count(1), "Protect groups of K people, or users with K rounds.", default=1)
@release_option("Use secure noise, so that the report may be published.")
@ledger_option()
@flag("--clip", "Clip losses to [0, 1] instead of refusing others.")
@option("--rounds T", Count(1), "With --plan: the number of rounds, one per person.")
@option("--experts D", Count(2), "With --plan: the number of experts.")
@output_options()
def regret(**given: Any) -> int:
    """Report privately how much better other experts were than what was played.

    Each round has the losses of one person. The total loss of each expert, and of the plays, is published with Gaussian
    noise calibrated to (ε, δ); intervals of the regret against quantiles of the experts follow from it. It serves plays
    of any private learner; what they cost comes on top. By default this is a simulation, which must not be published.

    \b
    Examples:
      hockeystick run experts --losses L.npy --epsilon 1 --delta 1e-6 --release --actions played.npy
      hockeystick run regret --losses L.npy --plays played.npy --epsilon 0.5 --delta 1e-6 --release
      hockeystick run regret --plan --rounds 1e6 --experts 10 --epsilon 0.5 --delta 1e-6

    Exit status: 0, or 2 if the command could not run.
    """
    target = picked(given, "epsilon", "delta", "group", "quantiles", "confidence")
    if given["plan"]:
        refuse_with_plan(given, "losses", "plays", "seed", "release", "ledger", "clip")
        need(given, "--plan", "rounds", "experts")
    else:
        refuse(given, "needs --plan; a run takes its sizes from the losses", "rounds", "experts")
        need(given, "a report", "losses", "plays")
        refuse_seeded_release(given)
    files = result_files(given)
    if given["plan"]:
        from hockeystick._runs.online.regret import plan

        conclude(given, plan(**picked(given, "rounds", "experts"), **target)[1], files)
        return 0
    from hockeystick._runs.lazy_streams import experts_file, plays_file
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.online.regret import run

    with working() as progress, private_file("--losses", given["losses"]):
        content = run(
            experts_file(given["losses"]),
            plays_file(given["plays"]),
            clip=given["clip"],
            seed=seed_of(given),
            ledger=opened(given["ledger"]),
            progress=progress,
            **target,
        )
    conclude(given, content, files)
    return 0
