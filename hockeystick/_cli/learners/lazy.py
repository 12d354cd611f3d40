"""``hockeystick run``: calibrates a learner and runs it, or computes its guarantee only. Here: the lazy learners."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from hockeystick._cli.frame.array_outputs import array_path, write_array
from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Command, Count, FileName, Real, private_file, together
from hockeystick._cli.frame.shared_options import (
    POSITIVE,
    SHARE,
    Given,
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
from hockeystick._cli.learners.bandit_runs import bandit
from hockeystick._cli.learners.best_experts import experts
from hockeystick._cli.learners.distribution import online_distribution
from hockeystick._cli.learners.federated import fed_stoch, fed_svt
from hockeystick._cli.learners.regret_runs import regret
from hockeystick._cli.learners.smoothed import smoothed_online

_CHANCE = Real(0.0, 1.0, high_open=True)


class _Normaliser(Real):
    """``paper``, ``tight`` or a number from 0 on."""

    name = "normaliser"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the word or the number; fails with the expected values."""
        return value if value in ("paper", "tight") else super().convert(value, param, ctx)

    def _range(self) -> str:
        return f"paper, tight or {super()._range()}"


def _shared(losses: str) -> Callable[[Command], Command]:
    """The options that both learners have; ``losses`` describes a file of losses."""
    return together(
        plan_option("Compute the guarantee for given parameters only; run nothing."),
        option("--losses FILE", FileName(), f"Run on these losses: {losses}."),
        option("--dataset NAME", click.STRING, "Run on a data set of scikit-learn: breast_cancer, wine or digits."),
        option("--epsilon E", POSITIVE, "The ε to calibrate to."),
        option("--delta D", SHARE, "The δ of the guarantee.", required=True),
        seed_option(),
        release_option("Run with secure noise, so that the actions may be published."),
        ledger_option(),
        option("--actions FILE.npy", FileName("output"), "Write the action of every round."),
        flag("--clip", "Clip losses that are too large instead of refusing them."),
        option("--rounds T", Count(1), "With --plan: the number of rounds, one per person."),
        option("--batch B", Count(1), "With --plan: the number of rounds per action."),
        option(
            "--fake-switch P", _CHANCE, "With --plan: the probability of a redraw that does not depend on the data."
        ),
        option("--shadow-switch P", _CHANCE, "With --plan: the same for the shadow expert. Default: --fake-switch."),
        option(
            "--normaliser C",
            _Normaliser(0.0),
            "With --plan: the normaliser of switching probabilities: paper, tight or a number. Default: paper.",
        ),
        option("--draw-budget K", Count(1), "With --plan: the largest number of draws in a run."),
        option("--group K", Count(1), "With --plan: protect groups of K. Default: 1."),
        option(
            "--user-batch S0",
            Count(1),
            "With --plan: show the ε of the people in this batch, from 1. Default: the worst batch.",
        ),
        option(
            "--view",
            click.Choice(("white-box", "actions")),
            "With --plan: the adversary sees all choices, or the actions only. Default: white-box.",
        ),
        output_options(),
    )


@click.group(invoke_without_command=True)
@click.pass_context
def run(ctx: click.Context) -> int:
    """Run a private online learner, or compute its guarantee.

    \b
    Examples:
      hockeystick run experts --dataset wine --epsilon 1 --delta 1e-6
      hockeystick run lazy-experts --dataset wine --epsilon 1 --delta 1e-6
      hockeystick run lazy-convex --dataset breast_cancer --epsilon 2 --delta 1e-6
      hockeystick run fed-svt --clients 10 --rounds 512 --experts 100 --epsilon 1 --adversary zero-expert
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@run.command("lazy-experts")
@_shared("an .npy file of shape (rounds, experts), numbers in [0, 1]")
@option("--experts D", Count(2), "With --plan: the number of experts.")
@option("--eta H", POSITIVE, "With --plan: the learning rate.")
@option(
    "--variant",
    click.Choice(("l2p", "dartboard", "frozen-shadow")),
    "The algorithm; frozen-shadow needs --plan. Default: dartboard, or l2p with --plan.",
)
def lazy_experts(**given: Any) -> int:
    """Learn from expert advice privately, by the lazy learner.

    Each round has the losses of one person, one number in [0, 1] per expert. The learner is calibrated to (ε, δ)
    through its accountant graph and then runs. The report shows its certified ε, the printed formula for the same
    parameters, its loss and its regret. By default this is a simulation, which must not be published, because the seed
    reveals its noise. --release draws secure noise and gives the actions (--actions), but not the
    loss, which the guarantee does not cover. --plan runs nothing and certifies the learner with given parameters.

    \b
    Examples:
      hockeystick run lazy-experts --losses L.npy --epsilon 1 --delta 1e-6 --seed 7
      hockeystick run lazy-experts --losses L.npy --epsilon 1 --delta 1e-6 --release --actions played.npy
      hockeystick run lazy-experts --plan --rounds 1e6 --experts 10 --batch 5 --eta 1e-3 --fake-switch 0.02 --delta 1e-6

    Exit status: 0, or 2 if the command could not run.
    """
    if given["variant"] is None:
        given["variant"] = "l2p" if given["plan"] else "dartboard"
    frozen_shadow, dartboard = given["variant"] == "frozen-shadow", given["variant"] == "dartboard"
    if given["plan"]:
        _require(given, "rounds", "experts", "batch", "eta", "fake_switch")
        if given["shadow_switch"] is not None and (frozen_shadow or dartboard):
            raise click.UsageError(f"--shadow-switch can't be combined with --variant {given['variant']}")
        if given["normaliser"] is not None and dartboard:
            raise click.UsageError("--normaliser can't be combined with --variant dartboard")
    else:
        _require_run(given, "experts", "eta")
        if frozen_shadow:
            raise click.UsageError("--variant frozen-shadow can't be calibrated; give its parameters with --plan")

    def planned() -> Any:
        from hockeystick._runs.online.lazy_plan import experts_of

        return experts_of(
            learning_rate=given["eta"],
            normaliser="paper" if given["normaliser"] is None else given["normaliser"],
            **picked(given, "variant", "experts"),
            **_switching(given),
        )

    def played(progress: Callable[[str], None]) -> Any:
        from hockeystick._runs.lazy_streams import experts_dataset, experts_file
        from hockeystick._runs.ledgers import opened
        from hockeystick._runs.online.lazy import run_experts

        name = given["dataset"]
        return run_experts(
            experts_file(given["losses"]) if name is None else experts_dataset(name),
            seed=seed_of(given),
            ledger=opened(given["ledger"]),
            progress=progress,
            **picked(given, "epsilon", "delta", "variant", "clip"),
        )

    return _end(given, planned, played)


@run.command("lazy-convex")
@_shared("gradients of linear losses, shape (rounds, dimension), in an .npy file or as 'gradients' in an .npz file")
@option("--domain", click.Choice(("ball", "box")), "The set of points.", default="ball")
@option("--radius R", POSITIVE, "The radius of the ball, or half the width of the box.", default=1.0)
@option("--lipschitz L", POSITIVE, "The Lipschitz constant of the losses.", default=1.0)
@option(
    "--adversary",
    click.Choice(("oblivious", "adaptive")),
    "The losses are fixed in advance (oblivious), or may depend on the actions (adaptive).",
    default="oblivious",
)
@option("--dimension D", Count(1), "With --plan: the number of coordinates.")
@option("--inverse-temperature BETA", POSITIVE, "With --plan: the inverse temperature β.")
@option("--regularisation LAMBDA", POSITIVE, "With --plan: the regularisation λ.")
@option(
    "--failure Q", SHARE, "With --plan: the part of δ that covers the failure of concentration bounds. Default: δ/20."
)
def lazy_convex(**given: Any) -> int:
    """Minimise convex losses privately, by the lazy learner.

    Each round has the convex loss of one person over a ball or a box: a linear loss given by its gradient or, with
    --dataset, the loss of logistic regression. Everything else is as in 'hockeystick run lazy-experts', with points in
    place of experts.

    \b
    Examples:
      hockeystick run lazy-convex --losses G.npy --domain box --radius 1 --lipschitz 2 --epsilon 1 --delta 1e-6
      hockeystick run lazy-convex --plan --rounds 1e6 --dimension 3 --batch 10 --inverse-temperature 2e-4
        --regularisation 1e4 --fake-switch 0.01 --delta 1e-6

    Exit status: 0, or 2 if the command could not run.
    """
    if given["plan"]:
        _require(given, "rounds", "dimension", "batch", "inverse_temperature", "regularisation", "fake_switch")
    else:
        _require_run(given, "dimension", "inverse_temperature", "regularisation", "failure")

    def planned() -> Any:
        from hockeystick._runs.lazy_streams import domain_of
        from hockeystick._runs.online.lazy_plan import convex_of

        return convex_of(
            domain=domain_of(given["domain"], given["dimension"], given["radius"]),
            normaliser="paper" if given["normaliser"] is None else given["normaliser"],
            **picked(given, "lipschitz", "inverse_temperature", "regularisation", "failure", "adversary", "delta"),
            **_switching(given),
        )

    def played(progress: Callable[[str], None]) -> Any:
        from hockeystick._runs.lazy_streams import convex_dataset, convex_file
        from hockeystick._runs.ledgers import opened
        from hockeystick._runs.online.lazy import run_convex

        name = given["dataset"]
        return run_convex(
            convex_file(given["losses"], lipschitz=given["lipschitz"], clip=given["clip"])
            if name is None
            else convex_dataset(name),
            seed=seed_of(given),
            ledger=opened(given["ledger"]),
            progress=progress,
            **picked(given, "domain", "radius", "lipschitz", "epsilon", "delta", "adversary"),
        )

    return _end(given, planned, played)


run.add_command(experts)
run.add_command(bandit)
run.add_command(regret)
run.add_command(fed_svt)
run.add_command(fed_stoch)
run.add_command(online_distribution)
run.add_command(smoothed_online)


# --- steps of both learners ------------------------------------------------------------------------------------------

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
_RUN_ONLY = ("losses", "dataset", "epsilon", "seed", "release", "ledger", "actions", "clip")


def _switching(given: Given) -> Given:
    """Returns the parameters that plans of both learners have."""
    shared = {"fake": given["fake_switch"], "shadow": given["shadow_switch"]}
    return picked(given, "rounds", "batch", "draw_budget") | shared


def _require(given: Given, *needed: str) -> None:
    """Checks that the options of a plan are complete, and that none of them is for a run."""
    refuse_with_plan(given, *_RUN_ONLY)
    need(given, "--plan", *needed)


def _require_run(given: Given, *own: str) -> None:
    """Checks that a run has one stream of losses and a target, and that none of its options is for a plan."""
    refuse(given, "needs --plan; a run is calibrated instead", *_PLAN_ONLY, *own)
    if (given["losses"] is None) == (given["dataset"] is None):
        raise click.UsageError("give one of --losses, --dataset and --plan")
    if given["epsilon"] is None:
        raise click.UsageError("a run needs --epsilon: the learner is calibrated to it")
    refuse_seeded_release(given)


def _end(given: Given, planned: Callable[[], Any], played: Callable[[Callable[[str], None]], Any]) -> int:
    """Computes the result, writes its files, prints the report and the warnings."""
    files = result_files(given)
    actions_path = array_path(given["actions"], files)
    if given["plan"]:
        from hockeystick._runs.online.lazy_plan import FULL_VIEW, plan

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
            write_array(actions_path, actions)
    result = conclude(given, content, files)
    if result["mode"] == "release" and actions_path is None:
        warn("the released actions were not saved, and another release costs ε again: give --actions")
    if math.isinf(float(result["epsilon"])):
        warn(f"there is no finite ε at δ = {given['delta']:g}; give a --fake-switch above 0 or a larger --delta")
    return 0
