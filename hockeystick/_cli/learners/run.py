"""``hockeystick run``: a learner calibrated and played on a stream, or only accounted for. Here: the lazy learners."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Command, Count, FileName, Real, private_file, together
from hockeystick._cli.frame.result_files import ResultFiles, output_file, result_files, write
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    SHARE,
    Given,
    need,
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
from hockeystick._cli.learners.distribution import online_distribution
from hockeystick._cli.learners.federated import fed_stoch, fed_svt
from hockeystick._cli.learners.smoothed import smoothed_online

if TYPE_CHECKING:
    from pathlib import Path

_CHANCE = Real(0.0, 1.0, high_open=True)


class _Normaliser(Real):
    """``paper``, ``tight`` or a number from 0 on."""

    name = "normaliser"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the word or the number, or fails with what was expected."""
        return value if value in ("paper", "tight") else super().convert(value, param, ctx)

    def _range(self) -> str:
        return f"paper, tight or {super()._range()}"


def _shared(played: str) -> Callable[[Command], Command]:
    """The options that both learners have; ``played`` says what a file of losses holds."""
    return together(
        plan_option("Only account for given parameters; play nothing."),
        click.option("--losses", metavar="FILE", type=FileName(), help=f"Play on these: {played}."),
        click.option(
            "--dataset", metavar="NAME", help="Play on the people of breast_cancer, wine or digits, of scikit-learn."
        ),
        click.option("--epsilon", metavar="E", type=POSITIVE, help="The ε to calibrate to."),
        click.option(
            "--delta",
            required=True,
            metavar="D",
            type=SHARE,
            help="The δ at which ε is meant.",
        ),
        seed_option(),
        release_option("Play with secure noise, to publish the actions."),
        click.option(
            "--actions", metavar="FILE.npy", type=FileName("output"), help="Write what was played in every round."
        ),
        click.option("--clip", is_flag=True, help="Clip losses that are too large instead of refusing them."),
        click.option("--rounds", metavar="T", type=Count(1), help="With --plan: the rounds, one person each."),
        click.option("--batch", metavar="B", type=Count(1), help="With --plan: the rounds per action."),
        click.option("--fake-switch", metavar="P", type=_CHANCE, help="With --plan: chance of a redraw for no reason."),
        click.option("--shadow-switch", metavar="P", type=_CHANCE, help="With --plan: the shadow's; P without it."),
        click.option(
            "--normaliser", metavar="C", type=_Normaliser(0.0), help="With --plan: paper (default), tight, C."
        ),
        click.option("--draw-budget", metavar="K", type=Count(1), help="With --plan: the most draws of a run."),
        click.option("--group", metavar="K", type=Count(1), help="With --plan: ε of groups of K; 1 without it."),
        click.option(
            "--user-batch", metavar="S0", type=Count(1), help="With --plan: ε of the people in a batch, from 1."
        ),
        click.option("--view", type=click.Choice(("white-box", "actions")), help="With --plan: what is seen."),
        output_options(),
    )


@click.group(invoke_without_command=True)
@click.pass_context
def run(ctx: click.Context) -> int:
    """Play a private online learner, or account for it.

    \b
    Examples:
      hockeystick run lazy-experts --dataset wine --epsilon 1 --delta 1e-6
      hockeystick run lazy-convex --dataset breast_cancer --epsilon 2 --delta 1e-6
      hockeystick run fed-svt --clients 10 --rounds 512 --experts 100 --epsilon 1 --adversary zero-expert
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@run.command("lazy-experts")
@_shared("an .npy file of shape (rounds, experts), numbers in [0, 1]")
@click.option("--experts", metavar="D", type=Count(2), help="With --plan: the number of experts.")
@click.option("--eta", metavar="H", type=POSITIVE, help="With --plan: the learning rate.")
@click.option(
    "--variant",
    type=click.Choice(("l2p", "dartboard", "frozen-shadow")),
    default="l2p",
    show_default=True,
    help="frozen-shadow with --plan only.",
)
def lazy_experts(**given: Any) -> int:
    """Follow expert advice privately, by the lazy learner.

    Each round is one person's losses, one number in [0, 1] per expert. The learner is calibrated to (ε, δ) by its
    accountant graph and plays; shown are its certified ε, the printed formula for the same parameters, its loss and its
    regret. Without --release this is a simulation, which is not private to whoever knows the seed. A release needs the
    extra hockeystick[secure] and gives the actions (--actions), not the loss, which the guarantee does not cover.
    --plan plays nothing: it certifies the learner with the given parameters.

    \b
    Examples:
      hockeystick run lazy-experts --losses L.npy --epsilon 1 --delta 1e-6 --seed 7
      hockeystick run lazy-experts --losses L.npy --epsilon 1 --delta 1e-6 --release --actions played.npy
      hockeystick run lazy-experts --plan --rounds 1e6 --experts 10 --batch 5 --eta 1e-3 --fake-switch 0.02 --delta 1e-6

    Exit status: 0, or 2 where it could not run.
    """
    frozen_shadow, dartboard = given["variant"] == "frozen-shadow", given["variant"] == "dartboard"
    if given["plan"]:
        _require(given, "rounds", "experts", "batch", "eta", "fake_switch")
        if given["shadow_switch"] is not None and (frozen_shadow or dartboard):
            raise click.UsageError(f"--shadow-switch has no meaning for --variant {given['variant']}")
        if given["normaliser"] is not None and dartboard:
            raise click.UsageError("--normaliser has no meaning for --variant dartboard")
    else:
        _require_run(given, "experts", "eta")
        if frozen_shadow:
            raise click.UsageError("--variant frozen-shadow can't be calibrated; give its parameters with --plan")

    def planned() -> Any:
        from hockeystick._runs.lazy_plan import experts_of

        return experts_of(
            learning_rate=given["eta"],
            normaliser="paper" if given["normaliser"] is None else given["normaliser"],
            **picked(given, "variant", "experts"),
            **_switching(given),
        )

    def played(progress: Callable[[str], None]) -> Any:
        from hockeystick._runs.lazy import run_experts
        from hockeystick._runs.lazy_streams import experts_dataset, experts_file

        name = given["dataset"]
        return run_experts(
            experts_file(given["losses"]) if name is None else experts_dataset(name),
            seed=seed_of(given),
            progress=progress,
            **picked(given, "epsilon", "delta", "variant", "clip"),
        )

    return _end(given, planned, played)


@run.command("lazy-convex")
@_shared("gradients of linear losses, shape (rounds, dimension), in an .npy file or as 'gradients' in an .npz file")
@click.option("--domain", type=click.Choice(("ball", "box")), default="ball", show_default=True, help="Of the points.")
@click.option(
    "--radius", metavar="R", default=1.0, show_default=True, type=POSITIVE, help="Of the ball; half the box's width."
)
@click.option(
    "--lipschitz", metavar="L", default=1.0, show_default=True, type=POSITIVE, help="Lipschitz constant of every loss."
)
@click.option(
    "--adversary",
    type=click.Choice(("oblivious", "adaptive")),
    default="oblivious",
    show_default=True,
    help="Whether losses are fixed in advance, or may depend on the actions.",
)
@click.option("--dimension", metavar="D", type=Count(1), help="With --plan: the number of coordinates.")
@click.option("--inverse-temperature", metavar="BETA", type=POSITIVE, help="With --plan: β, per unit of loss.")
@click.option("--regularisation", metavar="LAMBDA", type=POSITIVE, help="With --plan: λ.")
@click.option(
    "--failure",
    metavar="Q",
    type=SHARE,
    help="With --plan: the part of δ for failing bounds; a twentieth without it.",
)
def lazy_convex(**given: Any) -> int:
    """Minimise convex losses privately, by the lazy learner.

    Each round is one person's convex loss over a ball or a box: linear ones by their gradients, or, with --dataset,
    those of online logistic regression. Otherwise as 'hockeystick run lazy-experts', with points for experts.

    \b
    Examples:
      hockeystick run lazy-convex --losses G.npy --domain box --radius 1 --lipschitz 2 --epsilon 1 --delta 1e-6
      hockeystick run lazy-convex --plan --rounds 1e6 --dimension 3 --batch 10 --inverse-temperature 2e-4
        --regularisation 1e4 --fake-switch 0.01 --delta 1e-6

    Exit status: 0, or 2 where it could not run.
    """
    if given["plan"]:
        _require(given, "rounds", "dimension", "batch", "inverse_temperature", "regularisation", "fake_switch")
    else:
        _require_run(given, "dimension", "inverse_temperature", "regularisation", "failure")

    def planned() -> Any:
        from hockeystick._runs.lazy_plan import convex_of
        from hockeystick._runs.lazy_streams import domain_of

        return convex_of(
            domain=domain_of(given["domain"], given["dimension"], given["radius"]),
            normaliser="paper" if given["normaliser"] is None else given["normaliser"],
            **picked(given, "lipschitz", "inverse_temperature", "regularisation", "failure", "adversary", "delta"),
            **_switching(given),
        )

    def played(progress: Callable[[str], None]) -> Any:
        from hockeystick._runs.lazy import run_convex
        from hockeystick._runs.lazy_streams import convex_dataset, convex_file

        name = given["dataset"]
        return run_convex(
            convex_file(given["losses"], lipschitz=given["lipschitz"], clip=given["clip"])
            if name is None
            else convex_dataset(name),
            seed=seed_of(given),
            progress=progress,
            **picked(given, "domain", "radius", "lipschitz", "epsilon", "delta", "adversary"),
        )

    return _end(given, planned, played)


run.add_command(fed_svt)
run.add_command(fed_stoch)
run.add_command(online_distribution)
run.add_command(smoothed_online)


# --- what both do ----------------------------------------------------------------------------------------------------

_PLAN_ONLY = (
    "rounds",
    "batch",
    "fake_switch",
    "shadow_switch",
    "normaliser",
    "draw_budget",
    "group",
    "user_batch",
    "view",
)
_RUN_ONLY = ("losses", "dataset", "epsilon", "seed", "release", "actions", "clip")


def _switching(given: Given) -> Given:
    """The parameters that plans of both learners have."""
    shared = {"fake": given["fake_switch"], "shadow": given["shadow_switch"]}
    return picked(given, "rounds", "batch", "draw_budget") | shared


def _require(given: Given, *needed: str) -> None:
    """Checks the options of a plan: all that it needs, none that belong to a run."""
    refuse_with_plan(given, *_RUN_ONLY)
    need(given, "--plan", *needed)


def _require_run(given: Given, *own: str) -> None:
    """Checks the options of a run: one stream and a target, and none that belong to a plan."""
    refuse(given, "belongs to --plan; a run is calibrated", *_PLAN_ONLY, *own)
    if (given["losses"] is None) == (given["dataset"] is None):
        raise click.UsageError("give one of --losses, --dataset and --plan")
    if given["epsilon"] is None:
        raise click.UsageError("a run needs --epsilon, to which it is calibrated")
    refuse_seeded_release(given)


def _end(given: Given, planned: Callable[[], Any], played: Callable[[Callable[[str], None]], Any]) -> int:
    """Makes the result, writes its files, prints the report, and says what to beware of."""
    files = result_files(given)
    actions_path = _actions_path(given["actions"], files)
    if given["plan"]:
        from hockeystick._runs.lazy_plan import FULL_VIEW, plan

        content = plan(
            planned(),
            given["delta"],
            group=given["group"] or 1,
            user_batch=given["user_batch"],
            view=given["view"] or FULL_VIEW,
        )
    else:
        with working() as progress, private_file("--losses", given["losses"]):
            content, actions = played(progress)
        if actions_path is not None:
            _write_actions(actions_path, actions)
    result = conclude(given, content, files)
    if result["mode"] == "release" and actions_path is None:
        warn("the released actions were written nowhere; a second release costs its own ε (--actions)")
    if math.isinf(float(result["epsilon"])):
        warn(f"there is no finite ε at δ = {given['delta']:g}; give a --fake-switch above 0 or a larger --delta")
    return 0


def _actions_path(actions: str | None, files: ResultFiles) -> Path | None:
    return None if actions is None else output_file("--actions", actions, *files.paths.values())


def _write_actions(path: Path, actions: Any) -> None:
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, actions)
    write(path, buffer.getvalue())
