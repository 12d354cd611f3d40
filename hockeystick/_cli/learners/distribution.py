"""``hockeystick run online-distribution``: online distribution learning under local privacy, planned and simulated."""

from __future__ import annotations

from typing import Any

import click

from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, private_file, together
from hockeystick._cli.frame.result_files import result_files
from hockeystick._cli.frame.shared_options import Given, mode_options, picked, refuse_with_plan, target_options

_CHANNELS = ("auto", "one-bit", "laplace-one", "laplace-all", "gaussian-all", "krr")
_models = together(
    click.option(
        "--models",
        required=True,
        metavar="F.npy|NAME",
        type=FileName(),
        help="Laws of the label: masses of shape (models, labels) or (contexts, models, labels); or half-uniform, "
        "hadamard, poisson, digits.",
    ),
    click.option("--experts", metavar="K", type=Count(2), help="The number of built-in models."),
    click.option("--alphabet", metavar="M", type=Count(2), help="Labels of half-uniform models; K without it."),
    click.option("--rounds", metavar="T", type=Count(2), help="The number of rounds; that of --labels without it."),
)
_learner = together(
    click.option(
        "--channel",
        type=click.Choice(_CHANNELS),
        default="auto",
        show_default=True,
        help="What a person sends; auto: one-bit or krr, by their bounds.",
    ),
    target_options("The ε of one message."),
    click.option(
        "--reference",
        type=click.Choice(("mixture", "envelope", "blocks")),
        default="mixture",
        show_default=True,
        help="What likelihoods are compared with; blocks are the published ones.",
    ),
    click.option(
        "--rule",
        type=click.Choice(("tuned", "printed", "posterior")),
        default="tuned",
        show_default=True,
        help="What is made of messages; printed: the published algorithm, its sensitivity corrected.",
    ),
    click.option(
        "--answers", metavar="N", type=Count(1), default=1, show_default=True, help="Rounds that one person answers in."
    ),
)
_play = together(
    click.option("--truth", metavar="J", type=Count(0), help="The true model, from 0; 0 without it and --labels."),
    click.option("--labels", metavar="FILE.npy", type=FileName(), help="Play on these labels, one a round."),
    click.option(
        "--contexts",
        metavar="FILE.npy",
        type=FileName(),
        help="The context of each round, from 0; at random without it.",
    ),
    click.option("--runs", metavar="R", type=Count(1), help="Simulated runs; 1 without it."),
    click.option("--block", metavar="B", type=Count(1), help="Rounds between two updates; 1 without it, 10 is faster."),
    mode_options(),
)


@click.command("online-distribution")
@_models
@_learner
@_play
def online_distribution(**given: Any) -> int:
    """Learn which of known laws labels follow, from private messages alone.

    In every round the server predicts the next label's law, and then a person with a label sends a message about it,
    private on its own: nobody has to be trusted with labels. Shown are the risk, the sum over rounds of the KL
    divergence of the prediction from the true law, with its bound; the certified ε; and what is claimed in print of the
    published noise for these models, with what that noise delivers.

    Without --labels they are drawn from model --truth. With --labels and no --truth, predictions are rated by the
    labels' own frequencies.

    \b
    Examples:
      hockeystick run online-distribution --models half-uniform --experts 16 --rounds 1e5 --epsilon 1
      hockeystick run online-distribution --models F.npy --rounds 1e6 --channel laplace-one --epsilon 1 --plan
      hockeystick run online-distribution --models poisson --experts 8 --rounds 1e5 --epsilon 2 --truth 3 --runs 8

    Exit status: 0, or 2 where it could not run.
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
        raise click.UsageError("--rounds missing: how many are there?")


def _rounds(given: Given) -> tuple[Any, Any, int]:
    """Labels and contexts of files, and the number of rounds."""
    from hockeystick._runs.distribution_models import numbers_file
    from hockeystick.accounting.errors import InvalidArgumentError

    labels, contexts = (
        None if given[name] is None else numbers_file(f"--{name}", given[name]) for name in ("labels", "contexts")
    )
    rounds = given["rounds"] if labels is None else len(labels)
    if given["rounds"] not in (None, rounds):
        raise InvalidArgumentError("--rounds", given["rounds"], f"differs from the file's {rounds}", "leave it out")
    if contexts is not None and len(contexts) != rounds:
        raise InvalidArgumentError("--contexts", len(contexts), f"differs from {rounds} rounds", "give one a round")
    return labels, contexts, rounds
