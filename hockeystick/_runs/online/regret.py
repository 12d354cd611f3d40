"""The work of ``hockeystick run regret``: a private report on the regret of plays that were published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from hockeystick._runs.lazy_streams import Stream
from hockeystick._runs.ledgers import charging
from hockeystick._runs.online import tables
from hockeystick.accounting import DurableLedger
from hockeystick.learners.experts import RegretRelease
from hockeystick.learners.experts.quantile_regret import RegretReport, checked_quantiles
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise


def plan(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    group: int,
    quantiles: tuple[float, ...],
    confidence: float,
    clip: bool = False,
) -> tuple[RegretRelease, dict[str, Any]]:
    """Returns the calibrated release, and the entries of a plan's result.

    Args:
        rounds, experts: The public sizes of the stream.
        epsilon, delta: The target, for ``group`` people together.
        group: Number of people.
        quantiles: Of the experts, 0 for the best.
        confidence: The probability with which all intervals hold.
        clip: Whether to clip losses to [0, 1] instead of refusing others.

    Raises:
        InvalidArgumentError: The target can't be met.
    """
    checked_quantiles(quantiles, experts)
    target: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "group": group}
    release = RegretRelease.calibrated(rounds=rounds, experts=experts, clip=clip, **target)
    return release, {
        "mode": "plan",
        "learner": "regret",
        "error": 2.0 * release.error(confidence),
        "confidence": confidence,
        "loss_band": None,
        "regret_bands": None,
        "parameters": attrs.asdict(release, recurse=False),
        **tables.privacy(release.guarantee(group=group), **target),
    }


def run(
    stream: Stream,
    plays: npt.NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    group: int,
    quantiles: tuple[float, ...],
    confidence: float,
    clip: bool,
    seed: int | None,
    ledger: DurableLedger | None,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Reports the regret of published plays on a stream; returns the result's entries.

    Args:
        stream: The losses, shape (rounds, experts).
        plays: The expert of each round, or its mixture, shape (rounds, experts).
        epsilon, delta, group, quantiles, confidence, clip: As for :func:`plan`.
        seed: The seed of a simulation; None for a release, with secure noise.
        ledger: What a release is charged to; None for nothing.
        progress: Called with the current step.

    Raises:
        InvalidArgumentError: The losses, the plays or the target can't be used.
        HockeystickError: The ledger refuses.
    """
    rounds, experts = stream.losses.shape
    asked: dict[str, Any] = {"quantiles": quantiles, "confidence": confidence}
    progress("adding up losses")
    release, content = plan(
        rounds=rounds, experts=experts, epsilon=epsilon, delta=delta, group=group, clip=clip, **asked
    )
    noise = ReleaseNoise() if seed is None else SimulationNoise(seed)
    found: RegretReport = release.release(
        np.asarray(stream.losses), plays, noise=noise, **asked, **charging(ledger, "run regret")
    )
    named = zip(found.quantiles, found.ranks, found.regrets, strict=True)
    return content | {
        "mode": "simulation" if noise.simulated else "release",
        "simulated": noise.simulated,
        "seed": seed,
        "data": stream.name,
        "loss_band": {"lower": found.loss.lower, "upper": found.loss.upper},
        "regret_bands": [{"quantile": q, "rank": k, "lower": one.lower, "upper": one.upper} for q, k, one in named],
    }
