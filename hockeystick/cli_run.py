"""``hockeystick run``: a lazy learner calibrated and played on a stream, or only accounted for."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hockeystick.cli_output import Interrupted, Progress, check_outputs, deliver, note, warn
from hockeystick.cli_types import Count, Real

if TYPE_CHECKING:
    from pathlib import Path

_Command = TypeVar("_Command", bound=Callable[..., Any])

_POSITIVE = Real(0.0, low_open=True)
_CHANCE = Real(0.0, 1.0, high_open=True)


class _Normaliser(Real):
    """``paper``, ``tight`` or a number from 0 on."""

    name = "normaliser"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the word or the number, or fails with what was expected."""
        return value if value in ("paper", "tight") else super().convert(value, param, ctx)

    def _range(self) -> str:
        return f"paper, tight or {super()._range()}"


def _shared(played: str) -> Callable[[_Command], _Command]:
    """The options that both learners have; ``played`` says what a file of losses holds."""
    options = (
        click.option("--plan", is_flag=True, help="Only account for given parameters; play nothing."),
        click.option("--losses", metavar="FILE", help=f"Play on these: {played}."),
        click.option(
            "--dataset", metavar="NAME", help="Play on the people of breast_cancer, wine or digits, of scikit-learn."
        ),
        click.option("--epsilon", metavar="E", type=_POSITIVE, help="The ε to calibrate to."),
        click.option(
            "--delta",
            required=True,
            metavar="D",
            type=Real(0.0, 1.0, low_open=True, high_open=True),
            help="The δ at which ε is meant.",
        ),
        click.option("--seed", metavar="S", type=Count(0), help="Of the simulation; 0 without it."),
        click.option("--release", is_flag=True, help="Play with secure noise, to publish the actions."),
        click.option("--actions", metavar="FILE.npy", help="Write what was played in every round."),
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
        click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON ('-': to standard output)."),
    )

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@click.group(invoke_without_command=True)
@click.pass_context
def run(ctx: click.Context) -> int:
    """Play a private online learner, or account for it.

    \b
    Examples:
      hockeystick run lazy-experts --dataset wine --epsilon 1 --delta 1e-6
      hockeystick run lazy-convex --dataset breast_cancer --epsilon 2 --delta 1e-6
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@run.command("lazy-experts")
@_shared("an .npy file of shape (rounds, experts), numbers in [0, 1]")
@click.option("--experts", metavar="D", type=Count(2), help="With --plan: the number of experts.")
@click.option("--eta", metavar="H", type=_POSITIVE, help="With --plan: the learning rate.")
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
        from hockeystick.run_plan import experts_of

        return experts_of(
            variant=given["variant"],
            rounds=given["rounds"],
            experts=given["experts"],
            batch=given["batch"],
            learning_rate=given["eta"],
            fake=given["fake_switch"],
            shadow=given["shadow_switch"],
            normaliser=given["normaliser"] or "paper",
            draw_budget=given["draw_budget"],
        )

    def played(progress: Callable[[str], None]) -> Any:
        from hockeystick.run_lazy import run_experts
        from hockeystick.run_streams import experts_dataset, experts_file

        name = given["dataset"]
        return run_experts(
            experts_file(given["losses"]) if name is None else experts_dataset(name),
            epsilon=given["epsilon"],
            delta=given["delta"],
            variant=given["variant"],
            clip=given["clip"],
            seed=_seed(given),
            progress=progress,
        )

    return _end(given, planned, played)


@run.command("lazy-convex")
@_shared("gradients of linear losses, shape (rounds, dimension), in an .npy file or as 'gradients' in an .npz file")
@click.option("--domain", type=click.Choice(("ball", "box")), default="ball", show_default=True, help="Of the points.")
@click.option(
    "--radius", metavar="R", default=1.0, show_default=True, type=_POSITIVE, help="Of the ball; half the box's width."
)
@click.option(
    "--lipschitz", metavar="L", default=1.0, show_default=True, type=_POSITIVE, help="Lipschitz constant of every loss."
)
@click.option(
    "--adversary",
    type=click.Choice(("oblivious", "adaptive")),
    default="oblivious",
    show_default=True,
    help="Whether losses are fixed in advance, or may depend on the actions.",
)
@click.option("--dimension", metavar="D", type=Count(1), help="With --plan: the number of coordinates.")
@click.option("--inverse-temperature", metavar="BETA", type=_POSITIVE, help="With --plan: β, per unit of loss.")
@click.option("--regularisation", metavar="LAMBDA", type=_POSITIVE, help="With --plan: λ.")
@click.option(
    "--failure",
    metavar="Q",
    type=Real(0.0, 1.0, low_open=True, high_open=True),
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
        from hockeystick.run_plan import convex_of
        from hockeystick.run_streams import domain_of

        return convex_of(
            rounds=given["rounds"],
            domain=domain_of(given["domain"], given["dimension"], given["radius"]),
            lipschitz=given["lipschitz"],
            batch=given["batch"],
            inverse_temperature=given["inverse_temperature"],
            regularisation=given["regularisation"],
            fake=given["fake_switch"],
            shadow=given["shadow_switch"],
            normaliser="paper" if given["normaliser"] is None else given["normaliser"],
            failure=given["failure"],
            adversary=given["adversary"],
            draw_budget=given["draw_budget"],
            delta=given["delta"],
        )

    def played(progress: Callable[[str], None]) -> Any:
        from hockeystick.run_lazy import run_convex
        from hockeystick.run_streams import convex_dataset, convex_file

        name = given["dataset"]
        return run_convex(
            convex_file(given["losses"], lipschitz=given["lipschitz"], clip=given["clip"])
            if name is None
            else convex_dataset(name),
            domain=given["domain"],
            radius=given["radius"],
            lipschitz=given["lipschitz"],
            epsilon=given["epsilon"],
            delta=given["delta"],
            adversary=given["adversary"],
            seed=_seed(given),
            progress=progress,
        )

    return _end(given, planned, played)


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


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _require(given: dict[str, Any], *needed: str) -> None:
    """Checks the options of a plan: all that it needs, none that belong to a run."""
    for name in _RUN_ONLY:
        if given[name] is not None and given[name] is not False:
            raise click.UsageError(f"{_flag(name)} can't be combined with --plan, which plays nothing")
    missing = [_flag(name) for name in needed if given[name] is None]
    if missing:
        raise click.UsageError(f"--plan needs {', '.join(missing)}")


def _require_run(given: dict[str, Any], *own: str) -> None:
    """Checks the options of a run: one stream and a target, and none that belong to a plan."""
    for name in (*_PLAN_ONLY, *own):
        if given[name] is not None:
            raise click.UsageError(f"{_flag(name)} belongs to --plan; a run is calibrated")
    if (given["losses"] is None) == (given["dataset"] is None):
        raise click.UsageError("give one of --losses, --dataset and --plan")
    if given["epsilon"] is None:
        raise click.UsageError("a run needs --epsilon, to which it is calibrated")
    if given["release"] and given["seed"] is not None:
        raise click.UsageError("--release refuses --seed: noise that can be repeated can be taken off again")


def _seed(given: dict[str, Any]) -> int | None:
    if given["release"]:
        return None
    return 0 if given["seed"] is None else int(given["seed"])


def _end(given: dict[str, Any], planned: Callable[[], Any], played: Callable[[Callable[[str], None]], Any]) -> int:
    """Makes the result, writes its files, prints the report, and says what to beware of."""
    json_path, _ = check_outputs(given["json_file"], None)
    actions_path = _actions_path(given["actions"], json_path)
    from hockeystick.report import run_result

    if given["plan"]:
        from hockeystick.run_plan import FULL_VIEW, plan

        content = plan(
            planned(),
            given["delta"],
            group=given["group"] or 1,
            user_batch=given["user_batch"],
            view=given["view"] or FULL_VIEW,
        )
    else:
        try:
            with Progress() as progress:
                content, actions = played(progress)
        except KeyboardInterrupt:
            raise Interrupted("interrupted before there was a result; result files are unchanged") from None
        if actions_path is not None:
            _write_actions(actions_path, actions)
    result = run_result(content)
    deliver(result, json_file=given["json_file"], json_path=json_path)
    if result["mode"] == "simulation":
        warn(
            f"simulated with seed {result['seed']}: whoever knows it can repeat the run; nothing to publish (--release)"
        )
    if result["mode"] == "release" and actions_path is None:
        warn("the released actions were written nowhere; a second release costs its own ε (--actions)")
    if math.isinf(float(result["epsilon"])):
        warn(f"there is no finite ε at δ = {given['delta']:g}; give a --fake-switch above 0 or a larger --delta")
    return 0


def _actions_path(actions: str | None, json_path: Path | None) -> Path | None:
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.files import check_writable

    if actions is None:
        return None
    path = check_writable("--actions", actions)
    if path == json_path:
        raise InvalidArgumentError("--actions", actions, "is the file of --json too", "give two files")
    return path


def _write_actions(path: Path, actions: Any) -> None:
    import numpy as np

    from hockeystick.files import write_atomically

    buffer = io.BytesIO()
    np.save(buffer, actions)
    write_atomically(path, buffer.getvalue())
    note(f"wrote {path}")
