"""The work of ``hockeystick run bandit``: a private bandit, and its run on a table of recorded losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt

from hockeystick._runs.lazy_streams import Stream
from hockeystick._runs.ledgers import charging
from hockeystick._runs.online import tables
from hockeystick.accounting import DurableLedger
from hockeystick.learners import NoisyBandit, PrivateElimination, PrivateUCB
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise

Method = Literal["tsallis", "elimination", "ucb"]

_LEARNERS: dict[Method, type[NoisyBandit] | type[PrivateElimination] | type[PrivateUCB]] = {
    "tsallis": NoisyBandit,
    "elimination": PrivateElimination,
    "ucb": PrivateUCB,
}


def plan(
    *, method: Method, rounds: int, arms: int, epsilon: float, group: int, clip: bool = False
) -> tuple[NoisyBandit | PrivateElimination | PrivateUCB, dict[str, Any]]:
    """Returns the calibrated bandit, and the entries of a plan's result.

    Args:
        method: "tsallis" for ``NoisyBandit``, "elimination" for ``PrivateElimination``, "ucb" for ``PrivateUCB``.
        rounds, arms: The public sizes of the table.
        epsilon: The target, for ``group`` people together.
        group: Number of people.
        clip: Whether to clip losses to [0, 1] instead of refusing others.

    Raises:
        InvalidArgumentError: The target can't be met.
    """
    learner = _LEARNERS[method].calibrated(rounds=rounds, arms=arms, epsilon=epsilon, group=group, clip=clip)
    bound = learner.regret_bound()
    return learner, {
        "mode": "plan",
        "learner": "bandit",
        "bandit": method,
        "adversary": bound.adversary,
        "regret_bound": float(bound),
        "parameters": attrs.asdict(learner, recurse=False),
        **tables.privacy(learner.guarantee(group=group), epsilon=epsilon, delta=0.0, group=group),
    }


def run(
    stream: Stream,
    *,
    method: Method,
    epsilon: float,
    group: int,
    clip: bool,
    seed: int | None,
    ledger: DurableLedger | None,
    progress: Callable[[str], None],
) -> tuple[dict[str, Any], npt.NDArray[np.integer]]:
    """Runs a bandit on recorded losses of all arms; returns the result's entries and the arm of each round.

    Args:
        stream: The losses, shape (rounds, arms).
        method, epsilon, group, clip: As for :func:`plan`.
        seed: The seed of a simulation; None for a release, with secure noise.
        ledger: What a release is charged to; None for nothing.
        progress: Called with the current step.

    Raises:
        InvalidArgumentError: The losses or the target can't be used.
        HockeystickError: The ledger refuses.
    """
    tables.read(stream, clip=clip)
    rounds, arms = stream.losses.shape
    learner, content = plan(method=method, rounds=rounds, arms=arms, epsilon=epsilon, group=group, clip=clip)
    progress("simulating" if seed is not None else "releasing")
    noise = ReleaseNoise() if seed is None else SimulationNoise(seed)
    played = learner.release(stream.losses, noise=noise, **charging(ledger, "run bandit")).arms
    found = tables.outcome(stream, played, clip=clip, seed=seed, what="arm")
    return content | {"data": stream.name} | found, played
