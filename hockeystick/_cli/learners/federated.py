"""``hockeystick run fed-svt`` and ``fed-stoch``: plans, simulates and releases federated learning from experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.array_outputs import array_path, write_array
from hockeystick._cli.frame.destinations import result_files
from hockeystick._cli.frame.ending import conclude, working
from hockeystick._cli.frame.option_types import Count, FileName, Real, private_file, together
from hockeystick._cli.frame.shared_options import (
    SHARE,
    Given,
    absent,
    flag,
    ledger_option,
    option,
    output_options,
    picked,
    plan_option,
    refuse_seeded_release,
    refuse_with_plan,
    release_option,
    seed_of,
    seed_option,
    target_options,
)
from hockeystick._cli.frame.streams import warn

if TYPE_CHECKING:
    from hockeystick.learners.network.threat_models import ThreatModel

_Shape = tuple[int, int, int]

_SIZES = ("clients", "rounds", "experts")
_shared = together(
    option("--clients M", Count(1), "The number of clients."),
    option("--rounds T", Count(1), "The number of rounds."),
    option("--experts D", Count(2), "The number of experts."),
    target_options(),
    option("--group K", Count(1), "Protect K losses together, of any clients and rounds.", default=1),
    option(
        "--adversary NAME", click.STRING, "Run on built-in losses: zero-expert, coins, gap, classes, shared or packing."
    ),
    option(
        "--losses FILE.npy", FileName(), "Run on these losses: shape (clients, rounds, experts), numbers in [0, 1]."
    ),
    click.option(
        "--threat-model",
        type=click.Choice(("output", "server", "client", "central")),
        default=None,
        help="The adversary that the guarantee is against; see above. Default: output.",
    ),
    plan_option(),
    seed_option("losses and the simulation"),
    release_option("Run with secure noise, so that what is played may be published; needs --losses."),
    ledger_option(),
    option(
        "--actions FILE.npy",
        FileName("output"),
        "Write what is played: the expert of every round (fed-svt), or the mixture of every phase (fed-stoch).",
    ),
    output_options(),
)


@click.command("fed-svt")
@_shared
@option("--period N", Count(1), "The number of rounds between messages.", default=1)
@option("--best-loss L", Real(0.0), "An upper bound on the best expert's total loss per client.", default=0.0)
@option("--rho P", SHARE, "The probability that the regret bound fails; privacy does not depend on it.", default=0.1)
@flag("--lazy-vectors", "Send the losses of all experts only in rounds that draw a new expert.")
def fed_svt(**given: Any) -> int:
    """Learn from expert advice with other clients, if one expert is good in all rounds (Fed-SVT).

    Each client has a loss in [0, 1] for every expert in every round; all clients play the same expert. The server is
    trusted with the clients' sums and adds the noise. The threat models are therefore output (the adversary sees the
    experts played; the default), client (the adversary also knows all other clients' data and noise), and central (as
    output); server is refused.

    By default this is a simulation, which must not be published. --release draws secure noise in one process that has
    all losses, and gives the experts (--actions), but not the regret, which the guarantee does not cover.

    \b
    Examples:
      hockeystick run fed-svt --clients 10 --rounds 512 --experts 100 --epsilon 1 --adversary zero-expert
      hockeystick run fed-svt --losses L.npy --epsilon 1 --release --ledger people.db --actions played.npy
      hockeystick run fed-svt --clients 1000 --rounds 16384 --experts 100 --epsilon 1 --delta 1e-6 --plan

    Exit status: 0, or 2 where it could not run.
    """
    return _end(given, _svt)


@click.command("fed-stoch")
@_shared
@option(
    "--trees T1",
    Count(0),
    "The number of trees in each phase. Default: 0, one release of all losses, with the least noise.",
)
@option(
    "--noise",
    click.Choice(("laplace", "gaussian", "gumbel", "exponential")),
    "The noise distribution.",
    default="laplace",
)
@flag("--known-order", "Read the losses in the order of rounds, not in a secret random one.")
def fed_stoch(**given: Any) -> int:
    """Learn from expert advice with other clients, if losses are independent draws (Fed-DP-OPE-Stoch).

    Each client has a loss in [0, 1] for every expert in every round; all clients play the same mixture of experts. The
    clients add the noise. The threat models are output (the adversary sees the mixtures played; the default), client
    (the adversary also knows all other clients' data and noise), and server (also all messages; needs more noise). With
    central a trusted server adds the noise.

    By default this is a simulation, which must not be published. --release draws secure noise and secret orders for
    all clients in one process, and gives the mixtures (--actions): phase p is rounds 2^(p-1) to 2^p - 1. The ledger is
    charged the cost against the adversary of --threat-model.

    \b
    Examples:
      hockeystick run fed-stoch --clients 10 --rounds 4095 --experts 20 --epsilon 1 --adversary gap
      hockeystick run fed-stoch --losses L.npy --epsilon 1 --release --ledger people.db --actions played.npy
      hockeystick run fed-stoch --clients 10 --rounds 4095 --experts 20 --epsilon 1 --delta 1e-6
        --noise gaussian --threat-model server --plan

    Exit status: 0, or 2 where it could not run.
    """
    return _end(given, _stoch)


def _svt(given: Given, shape: _Shape, model: ThreatModel) -> Any:
    from hockeystick._runs.federated import svt_learner

    return svt_learner(
        shape, **picked(given, "epsilon", "delta", "group", "period", "best_loss", "rho", "lazy_vectors")
    )


def _stoch(given: Given, shape: _Shape, model: ThreatModel) -> Any:
    from hockeystick._runs.federated import stoch_learner

    return stoch_learner(
        shape, model=model, **picked(given, "epsilon", "delta", "group", "noise", "trees", "known_order")
    )


def _end(given: Given, calibrated: Callable[[Given, _Shape, ThreatModel], Any]) -> int:
    """Builds the learner, runs it unless ``--plan`` is given, and prints and writes the result."""
    files = result_files(given)
    _check(given)
    actions_path = array_path(given["actions"], files)
    from hockeystick._runs import federated
    from hockeystick._runs.ledgers import opened
    from hockeystick.learners.network.threat_models import threat_model

    model, sizes = threat_model(given["threat_model"] or "output"), picked(given, *_SIZES)
    with working() as progress, private_file("--losses", given["losses"]):
        losses = None if given["losses"] is None else federated.losses_file(given["losses"], **sizes)
        ledger = opened(given["ledger"])
        progress("calibrating")
        learner = calibrated(given, tuple(sizes.values()) if losses is None else losses.shape, model)
        content = federated.plan_content(learner, model, **picked(given, "epsilon", "delta", "group"))
        content["regret_bound"] = federated.regret_bound(learner, given.get("rho", 0.1))
        if not given["plan"]:
            seed = seed_of(given)
            if losses is None:
                losses = federated.stream(given["adversary"], epsilon=given["epsilon"], seed=seed or 0, **sizes)
            if seed is None:
                run, played = federated.release(learner, losses, model, ledger, progress)
            else:
                run, played = federated.play(learner, losses, seed, progress)
            content |= run
            if actions_path is not None:
                write_array(actions_path, played)
    if conclude(given, content, files)["mode"] == "release" and actions_path is None:
        warn("what was played was not saved, and another release costs ε again: give --actions")
    return 0


def _check(given: Given) -> None:
    if given["plan"]:
        refuse_with_plan(given, "adversary", "seed", "release", "ledger", "actions")
    elif (given["losses"] is None) == (given["adversary"] is None):
        raise click.UsageError("give one of --losses, --adversary and --plan")
    else:
        refuse_seeded_release(given)
        if given["release"] and given["losses"] is None:
            raise click.UsageError("--release needs --losses: built-in losses are made up")
    sizes = absent(given, *_SIZES)
    if sizes and given["losses"] is None:
        raise click.UsageError(f"give --losses or {', '.join(sizes)}")
