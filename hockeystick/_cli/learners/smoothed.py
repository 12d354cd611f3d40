"""``hockeystick run smoothed-online``: online learning of infinite classes against smooth adversaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, Real, together
from hockeystick._cli.frame.result_files import result_files
from hockeystick._cli.frame.shared_options import Given, mode_options, picked, refuse_with_plan

if TYPE_CHECKING:
    from hockeystick._runs.smoothed import Game

_game = together(
    click.option(
        "--class",
        "concepts",
        type=click.Choice(("thresholds", "intervals", "rectangles", "halfspaces")),
        default="thresholds",
        show_default=True,
        help="What is learnt; the last two in the plane.",
    ),
    click.option(
        "--sigma",
        required=True,
        metavar="S",
        type=Real(0.0, 1.0, low_open=True),
        help="No law holds more than 1/S times the uniform one.",
    ),
    click.option("--rounds", required=True, metavar="T", type=Count(1), help="The number of rounds."),
    click.option(
        "--points", metavar="N", type=Count(2), help="Play on a grid of N points an axis; on a continuum without."
    ),
    click.option(
        "--variant",
        type=click.Choice(("brackets", "paper")),
        default="brackets",
        show_default=True,
        help="Play one member of each bracket, or a cover.",
    ),
    click.option(
        "--gamma", metavar="G", type=Real(0.0, 1.0, low_open=True), help="Mass of brackets or cover; chosen without it."
    ),
)
_play = together(
    click.option(
        "--adversary",
        type=click.Choice(("random", "near-boundary", "binary-search", "block", "cell", "app-b")),
        help="Who names laws and labels; binary-search without it.",
    ),
    click.option(
        "--adversary-sigma",
        metavar="S0",
        type=Real(0.0, 1.0),
        help="Its own smoothness; --sigma without it. 0 is the worst case, for binary-search.",
    ),
    click.option(
        "--delta",
        default=1e-6,
        show_default=True,
        metavar="D",
        type=Real(0.0, 1.0, high_open=True),
        help="The δ at which it is said what the draws would cost, were they published.",
    ),
    click.option("--runs", metavar="R", type=Count(1), help="Simulated games; 8 without it."),
    mode_options(),
)


@click.command("smoothed-online")
@_game
@_play
def smoothed_online(**given: Any) -> int:
    """Learn an infinite class online, against adversaries whose laws are smooth.

    The learner plays Hedge on finitely many predicates that are fixed beforehand. Shown are its regret against the best
    predicate of the whole class in hindsight, its bounds, and how many predicates it plays. Adversaries: 'random'
    labels; 'near-boundary', between two of the learner's predicates; 'binary-search', adaptive; 'block', which makes
    every learner regret; 'cell', which crowds into few cells; 'app-b', whose averages converge to no mean.

    \b
    Examples:
      hockeystick run smoothed-online --class thresholds --sigma 0.01 --rounds 4096 --adversary block --runs 32
      hockeystick run smoothed-online --class thresholds --sigma 0.1 --rounds 1e3 --adversary-sigma 0
      hockeystick run smoothed-online --class rectangles --sigma 0.5 --rounds 200 --adversary random --json out.json

    Exit status: 0, or 2 where it could not run.
    """
    if given["plan"]:
        refuse_with_plan(given, "adversary", "adversary_sigma", "runs", "seed")
    files = result_files(given)
    from hockeystick._runs import smoothed

    with working() as progress:
        progress("covering the class")
        game = _game_of(given)
        learner = game.learner()
        content = smoothed.plan_content(game, learner, delta=given["delta"])
        if not given["plan"]:
            progress("playing")
            content |= smoothed.play_content(game, learner, runs=given["runs"] or 8, seed=given["seed"] or 0)
    conclude(given, content, files)
    return 0


def _game_of(given: Given) -> Game:
    from hockeystick._runs.smoothed import Game

    own = given["adversary_sigma"]
    return Game(
        adversary=given["adversary"] or "binary-search",
        adversary_sigma=given["sigma"] if own is None else own,
        **picked(given, "concepts", "sigma", "rounds", "variant", "gamma", "points"),
    )
