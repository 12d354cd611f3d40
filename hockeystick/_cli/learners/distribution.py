"""``hockeystick run online-distribution``: plans and simulates online distribution learning under local privacy."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Real, private_file, together
from hockeystick._cli.frame.shared_options import Given, mode_options, option, picked, refuse_with_plan, target_options

_CHANNELS = ("auto", "one-bit", "laplace-one", "laplace-all", "gaussian-all", "krr")
_models = together(
    option(
        "--models F.npy|NAME",
        FileName(),
        "The models: a file of label probabilities, of shape (models, labels) or (contexts, models, labels); or "
        "the built-in models half-uniform, hadamard, poisson or digits.",
        required=True,
    ),
    option("--experts K", Count(2), "The number of built-in models."),
    option("--alphabet M", Count(2), "With half-uniform: the number of labels. Default: --experts."),
    option("--rounds T", Count(2), "The number of rounds. Default: that of --labels."),
)
_learner = together(
    option(
        "--channel",
        click.Choice(_CHANNELS),
        "The local randomiser of each message; auto: one-bit or krr, whichever has the lower risk bound.",
        default="auto",
    ),
    target_options("The ε of each message."),
    option(
        "--reference",
        click.Choice(("mixture", "envelope", "blocks")),
        "The reference law of the likelihood ratios; blocks is the published one.",
        default="mixture",
    ),
    option(
        "--rule",
        click.Choice(("tuned", "printed", "posterior")),
        "The update rule; printed: the published algorithm with its sensitivity corrected.",
        default="tuned",
    ),
    option(
        "--shuffle-delta D",
        Real(0.0, 1.0, low_open=True, high_open=True),
        "Also state the central ε at this δ, of all messages after a trusted shuffler.",
    ),
    option("--answers N", Count(1), "The number of rounds in which the same person sends a message.", default=1),
)
_play = together(
    option("--truth J", Count(0), "The index of the true model, from 0. Default: 0; with --labels, none."),
    option("--labels FILE.npy", FileName(), "Run on these labels, one per round."),
    option("--contexts FILE.npy", FileName(), "The context of each round, from 0. Default: random contexts."),
    option("--runs R", Count(1), "The number of simulated runs. Default: 1."),
    option("--block B", Count(1), "The number of rounds between updates; 10 is faster. Default: 1."),
    mode_options(),
)


@click.command("online-distribution")
@_models
@_learner
@_play
def online_distribution(**given: Any) -> int:
    """Learn the distribution of labels among known models, from private messages alone.

    In every round the server predicts the distribution of the next label; then a person with a label sends a message
    that is private in itself, so that no party has to be trusted with labels. The report shows the risk (the sum over
    rounds of the KL divergence of the prediction from the true distribution) with its bound, the certified ε, and the
    claimed and the actual ε of the published noise for these models.

    With --shuffle-delta the report also has a central ε. It holds for those who see the messages of all rounds only
    after a trusted shuffler has mixed them, and who saw no prediction before.

    By default labels are drawn from the model --truth. With --labels and without --truth, predictions are compared with
    the frequencies of these labels.

    \b
    Examples:
      hockeystick run online-distribution --models half-uniform --experts 16 --rounds 1e5 --epsilon 1
      hockeystick run online-distribution --models poisson --rounds 1e5 --epsilon 1 --shuffle-delta 1e-6 --plan
      hockeystick run online-distribution --models F.npy --rounds 1e6 --channel laplace-one --epsilon 1 --plan
      hockeystick run online-distribution --models poisson --experts 8 --rounds 1e5 --epsilon 2 --truth 3 --runs 8

    Exit status: 0, or 2 if the command could not run.
    """
    files = result_files(given)
    _check(given)
    from hockeystick._runs import distribution
    from hockeystick._runs.distribution_models import models_of

    with working() as progress, private_file("--labels", given["labels"]):
        labels, contexts, rounds = _rounds(given)
        progress("calibrating")
        models = models_of(given["models"], rounds=rounds, **picked(given, "experts", "alphabet", "epsilon"))
        shared = picked(given, "channel", "reference", "epsilon", "delta")
        learner = distribution.learner_of(models, rounds=rounds, rule=given["rule"], **shared)
        content = distribution.plan_content(models, learner, answers=given["answers"], **shared)
        content["shuffled"] = distribution.shuffled_content(
            learner, answers=given["answers"], delta=given["shuffle_delta"]
        )
        if not given["plan"]:
            content |= distribution.play(
                models,
                learner,
                truth=0 if given["truth"] is None and labels is None else given["truth"],
                labels=labels,
                contexts=contexts,
                runs=given["runs"] or 1,
                block=given["block"] or 1,
                seed=given["seed"] or 0,
                progress=progress,
            )
    conclude(given, content, files)
    return 0


def _check(given: Given) -> None:
    if given["plan"]:
        refuse_with_plan(given, "truth", "labels", "contexts", "runs", "block", "seed")
    if given["rounds"] is None and given["labels"] is None:
        raise click.UsageError("give --rounds or --labels")


def _rounds(given: Given) -> tuple[Any, Any, int]:
    """Returns the labels, the contexts (None without a file) and the number of rounds."""
    from hockeystick._runs.distribution_models import numbers_file
    from hockeystick.accounting.errors import InvalidArgumentError

    labels, contexts = (
        None if given[name] is None else numbers_file(f"--{name}", given[name]) for name in ("labels", "contexts")
    )
    rounds = given["rounds"] if labels is None else len(labels)
    if given["rounds"] not in (None, rounds):
        raise InvalidArgumentError(
            "--rounds", given["rounds"], f"differs from the file's {rounds} rounds", "leave it out"
        )
    if contexts is not None and len(contexts) != rounds:
        reason = f"is not the number of rounds, {rounds}"
        raise InvalidArgumentError("--contexts", len(contexts), reason, "give one context per round")
    return labels, contexts, rounds
