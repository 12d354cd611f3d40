"""``hockeystick run experts``: the private learner of experts with the least proved regret bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hockeystick._cli.frame.array_outputs import array_path, write_array
from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, private_file
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
from hockeystick._cli.frame.streams import warn


@click.command("experts")
@plan_option("Choose the learner and compute its guarantee; run nothing.")
@seed_option()
@option("--losses FILE", FileName(), "Run on these losses: an .npy file of shape (rounds, experts), numbers in [0, 1].")
@option("--dataset NAME", click.STRING, "Run on a data set of scikit-learn: breast_cancer, wine or digits.")
@target_options()
@option(
    "--adversary",
    click.Choice(("oblivious", "adaptive", "stochastic")),
    "The losses are fixed in advance (oblivious), may depend on all earlier plays (adaptive), or are independent and "
    "of one law (stochastic).",
    default="oblivious",
)
@option("--group K", Count(1), "Protect groups of K people, or users with K rounds.", default=1)
@release_option("Run with secure noise, so that the experts may be published.")
@ledger_option()
@option("--actions FILE.npy", FileName("output"), "Write the expert of every round.")
@flag("--clip", "Clip losses to [0, 1] instead of refusing others.")
@option("--rounds T", Count(2), "With --plan: the number of rounds, one per person.")
@option("--experts D", Count(2), "With --plan: the number of experts.")
@output_options()
def experts(**given: Any) -> int:
    """Learn from expert advice privately, by the learner with the least proved regret bound.

    Each round has the losses of one person, one number in [0, 1] per expert. All learners are calibrated to (ε, δ) for
    the public sizes of the stream, and the one with the least bound on its expected regret runs. The report shows the
    bounds of all of them. By default this is a simulation, which must not be published. --release draws secure noise
    and gives the experts (--actions), but not the loss, which the guarantee does not cover. --plan runs nothing.

    \b
    Examples:
      hockeystick run experts --losses L.npy --epsilon 1 --delta 1e-6 --seed 7
      hockeystick run experts --losses L.npy --epsilon 1 --delta 1e-6 --release --actions played.npy
      hockeystick run experts --plan --rounds 1e6 --experts 10 --epsilon 0.5 --delta 1e-6

    Exit status: 0, or 2 if the command could not run.
    """
    if given["plan"]:
        refuse_with_plan(given, "losses", "dataset", "seed", "release", "ledger", "actions", "clip")
        need(given, "--plan", "rounds", "experts")
    else:
        refuse(given, "needs --plan; a run takes its sizes from the losses", "rounds", "experts")
        if (given["losses"] is None) == (given["dataset"] is None):
            raise click.UsageError("give one of --losses, --dataset and --plan")
        refuse_seeded_release(given)
    files = result_files(given)
    actions_path = array_path(given["actions"], files)
    target = picked(given, "epsilon", "delta", "adversary", "group")
    if given["plan"]:
        from hockeystick._runs.online.best_experts import plan

        content = plan(**picked(given, "rounds", "experts"), **target)[1]
    else:
        with working() as progress, private_file("--losses", given["losses"]):
            content, actions = _run(given, target, progress)
        if actions_path is not None:
            write_array(actions_path, actions)
    if conclude(given, content, files)["mode"] == "release" and actions_path is None:
        warn("the released experts were not saved, and another release costs ε again: give --actions")
    return 0


def _run(given: dict[str, Any], target: dict[str, Any], progress: Callable[[str], None]) -> tuple[dict[str, Any], Any]:
    from hockeystick._runs.lazy_streams import experts_dataset, experts_file
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.online.best_experts import run

    name = given["dataset"]
    return run(
        experts_file(given["losses"]) if name is None else experts_dataset(name),
        clip=given["clip"],
        seed=seed_of(given),
        ledger=opened(given["ledger"]),
        progress=progress,
        **target,
    )
