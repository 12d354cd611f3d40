"""The work of ``hockeystick run experts``: the learner with the least regret bound, and its run on a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from hockeystick._runs.guarantee_entries import drawn_content
from hockeystick._runs.lazy_streams import Stream
from hockeystick._runs.ledgers import WITHHELD, charging
from hockeystick.accounting import DurableLedger
from hockeystick.learners import Choice, choose
from hockeystick.learners.common.regret_bound import Adversary
from hockeystick.learners.experts.batches import exact_batch_sums
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise


def plan(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    adversary: Adversary,
    group: int,
    clip: bool = False,
) -> tuple[Choice, dict[str, Any]]:
    """Chooses the learner; returns it and the entries of a plan's result.

    Args:
        rounds, experts: The public sizes of the stream.
        epsilon, delta: The target, for ``group`` people together.
        adversary: How losses come about; see ``learners.choose``.
        group: Number of people.
        clip: Whether to clip losses to [0, 1] instead of refusing others.

    Raises:
        InvalidArgumentError: The target can't be met.
    """
    choice = choose(
        rounds=rounds, experts=experts, epsilon=epsilon, delta=delta, adversary=adversary, group=group, clip=clip
    )
    guarantee = choice.learner.guarantee(group=group)
    bracket = guarantee.epsilon(delta, bracket=True)
    fields = attrs.asdict(choice.learner, recurse=False)
    return choice, {
        "mode": "plan",
        "learner": "experts",
        "chosen": choice.candidates[0].name,
        "adversary": adversary,
        "regret_bound": float(choice.bound),
        "candidates": [{"name": one.name, "regret_bound": float(one.bound)} for one in choice.candidates],
        "refused": dict(choice.refused),
        "epsilon": bracket.upper,
        "epsilon_lower": bracket.lower,
        "epsilon_target": epsilon,
        "delta": delta,
        "method": bracket.method,
        "adjacency": guarantee.adjacency.value,
        "assumptions": guarantee.assumptions,
        "group": group,
        "parameters": {name: value for name, value in fields.items() if value is not None},
        **drawn_content(guarantee, delta),
    }


def run(
    stream: Stream,
    *,
    epsilon: float,
    delta: float,
    adversary: Adversary,
    group: int,
    clip: bool,
    seed: int | None,
    ledger: DurableLedger | None,
    progress: Callable[[str], None],
) -> tuple[dict[str, Any], npt.NDArray[np.integer]]:
    """Chooses the learner for a stream's sizes and runs it; returns the result's entries and the expert of each round.

    Args:
        stream: The losses, shape (rounds, experts).
        epsilon, delta, adversary, group, clip: As for :func:`plan`.
        seed: The seed of a simulation; None for a release, with secure noise.
        ledger: What a release is charged to; None for nothing.
        progress: Called with the current step.

    Raises:
        InvalidArgumentError: The losses or the target can't be used.
        HockeystickError: The ledger refuses.
    """
    rounds, experts = stream.losses.shape
    progress("choosing the learner")
    target: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "group": group, "clip": clip}
    choice, content = plan(rounds=rounds, experts=experts, adversary=adversary, **target)
    content["data"] = stream.name
    progress("simulating" if seed is not None else "releasing")
    noise = ReleaseNoise() if seed is None else SimulationNoise(seed)
    found = choice.learner.release(stream.losses, noise=noise, **charging(ledger, "run experts"))
    actions = np.asarray(getattr(found, "actions", found))
    if seed is None:
        nothing = dict.fromkeys(("seed", "loss", "best_expert_loss", "regret"))
        return content | nothing | {"mode": "release", "simulated": False, "withheld": WITHHELD}, actions
    lost, best = loss_and_best(stream, actions, clip=clip)
    played = {"seed": seed, "loss": lost, "best_expert_loss": best, "regret": lost - best}
    return content | played | {"mode": "simulation", "simulated": True, "withheld": None}, actions


def loss_and_best(stream: Stream, actions: npt.NDArray[np.integer], *, clip: bool) -> tuple[float, float]:
    """Returns the total loss of the actions, one a round, and that of the best single action in hindsight."""
    rounds, experts = stream.losses.shape
    lost, totals, first = 0.0, np.zeros(experts), 0
    for rows in exact_batch_sums(stream.losses, rounds=rounds, experts=experts, clip=clip):  # of single rounds
        lost += float(rows[np.arange(len(rows)), actions[first : first + len(rows)]].sum())
        totals += rows.sum(axis=0)
        first += len(rows)
    return lost, float(totals.min())
