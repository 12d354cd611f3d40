"""``hockeystick run smoothed-online``: plans and simulates online learning of infinite classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, Real, together
from hockeystick._cli.frame.shared_options import Given, mode_options, option, picked, refuse_with_plan

if TYPE_CHECKING:
    from hockeystick._runs.smoothed import Game

_game = together(
    option(
        "--class",
        click.Choice(("thresholds", "intervals", "rectangles", "halfspaces")),
        "The class of predicates; rectangles and halfspaces are in the plane.",
        dest="concepts",
        default="thresholds",
    ),
    option(
        "--sigma S",
        Real(0.0, 1.0, low_open=True),
        "The smoothness: the adversary's distributions have densities of at most 1/S.",
        required=True,
    ),
    option("--rounds T", Count(1), "The number of rounds.", required=True),
    option("--points N", Count(2), "Use a grid of N points per axis. Default: a continuum."),
    option(
        "--variant",
        click.Choice(("brackets", "paper")),
        "The predicates to play: one of each bracket, or the published cover.",
        default="brackets",
    ),
    option(
        "--gamma G",
        Real(0.0, 1.0, low_open=True),
        "The mass of a bracket, or the error of the cover. Default: chosen for the least regret bound.",
    ),
)
_play = together(
    option(
        "--adversary",
        click.Choice(("random", "near-boundary", "binary-search", "block", "cell", "app-b")),
        "The adversary that chooses distributions and labels. Default: binary-search.",
    ),
    option(
        "--adversary-sigma S0",
        Real(0.0, 1.0),
        "The smoothness of the adversary; 0, for binary-search only, is the worst case. Default: --sigma.",
    ),
    option(
        "--delta D", Real(0.0, 1.0, high_open=True), "The δ of the guarantee for publishing the draws.", default=1e-6
    ),
    option("--runs R", Count(1), "The number of simulated games. Default: 8."),
    mode_options(),
)


@click.command("smoothed-online")
@_game
@_play
def smoothed_online(**given: Any) -> int:
    """Learn an infinite class online, against adversaries with smooth distributions.

    The learner plays Hedge on a finite set of predicates that is fixed in advance. The report shows its regret against
    the best predicate of the whole class in hindsight, the bounds on the regret, and the number of predicates.
    Adversaries: 'random' draws labels at random; 'near-boundary' draws points between two of the learner's predicates;
    'binary-search' is adaptive; 'block' forces regret on every learner; 'cell' draws from few cells; with 'app-b'
    averages don't converge to a mean.

    \b
    Examples:
      hockeystick run smoothed-online --class thresholds --sigma 0.01 --rounds 4096 --adversary block --runs 32
      hockeystick run smoothed-online --class thresholds --sigma 0.1 --rounds 1e3 --adversary-sigma 0
      hockeystick run smoothed-online --class rectangles --sigma 0.5 --rounds 200 --adversary random --json out.json

    Exit status: 0, or 2 if the command could not run.
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
