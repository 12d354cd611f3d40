"""``hockeystick run experts``: the private learner of experts with the least proved regret bound."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.option_types import Count, FileName, Numbers
from hockeystick._cli.frame.shared_options import (
    flag,
    ledger_option,
    option,
    output_options,
    picked,
    plan_option,
    release_option,
    seed_of,
    seed_option,
    target_options,
)
from hockeystick._cli.learners.tables import Content, Progress, run_on_a_table


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
@option(
    "--horizon",
    click.Choice(("known", "unknown")),
    "Choose among all learners (known), or among those that need not know the number of rounds (unknown), by their "
    "bounds for the rounds of the losses or of --rounds.",
    default="known",
)
@option(
    "--quantiles Q,Q,...",
    Numbers(0.0, 1.0),
    "Report the regret against these quantiles of the experts, 0 for the best, with intervals, from what is published "
    "anyway. Learners that publish their mixtures are compared.",
)
@option(
    "--awake FILE.npy",
    FileName(),
    "Who is awake: bools of the shape of the losses, which must follow from what was published. Runs the learner of "
    "experts that sleep, and reports the regret against each in its awake rounds.",
)
@release_option("Run with secure noise, so that the experts may be published.")
@ledger_option()
@option("--actions FILE.npy", FileName("output"), "Write the expert of every round.")
@option(
    "--mixtures FILE.npy",
    FileName("output"),
    "Write the distribution that the expert of every round was drawn from. Learners that publish it are compared.",
)
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
    With --horizon unknown a service may go on after the last round, at no further cost.

    \b
    Examples:
      hockeystick run experts --losses L.npy --epsilon 1 --delta 1e-6 --seed 7
      hockeystick run experts --losses L.npy --epsilon 1 --delta 1e-6 --release --actions played.npy
      hockeystick run experts --plan --rounds 1e6 --experts 10 --epsilon 0.5 --delta 1e-6

    Exit status: 0, or 2 if the command could not run.
    """
    if given["awake"] is not None:
        for name, usual in (("horizon", "known"), ("quantiles", None)):
            if given[name] != usual:
                raise click.UsageError(f"--awake can't be combined with --{name}")
    if given["quantiles"] is not None and given["horizon"] == "unknown":
        raise click.UsageError("--quantiles can't be combined with --horizon unknown: the report needs a fixed rate")
    target = picked(given, "epsilon", "delta", "adversary", "group", "horizon")

    def planned() -> Content:
        from hockeystick._runs.online.best_experts import plan

        return plan(**picked(given, "rounds", "experts"), **target)[1]

    return run_on_a_table(
        given,
        sizes=("rounds", "experts"),
        data=("losses", "dataset"),
        runs=("mixtures", "quantiles", "awake"),
        what="experts",
        plan=planned,
        run=lambda progress: _run(given, target, progress),
    )


def _run(given: dict[str, Any], target: dict[str, Any], progress: Progress) -> tuple[Content, dict[str, Any]]:
    from hockeystick._runs.lazy_streams import awake_file, experts_dataset, experts_file
    from hockeystick._runs.ledgers import opened
    from hockeystick._runs.online.best_experts import run

    name = given["dataset"]
    content, played = run(
        experts_file(given["losses"]) if name is None else experts_dataset(name),
        clip=given["clip"],
        seed=seed_of(given),
        ledger=opened(given["ledger"]),
        progress=progress,
        mixtures=given["mixtures"] is not None,
        quantiles=given["quantiles"],
        awake=None if given["awake"] is None else awake_file(given["awake"]),
        **target,
    )
    return content, {"actions": played.actions, "mixtures": played.mixtures}
