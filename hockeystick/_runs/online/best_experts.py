"""The work of ``hockeystick run experts``: the learner with the least regret bound, and its run on a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick._runs.lazy_streams import Stream
from hockeystick._runs.ledgers import charging
from hockeystick._runs.online import tables
from hockeystick.accounting import DurableLedger, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import PublishedMixtures, SleepingExperts, choose
from hockeystick.learners.choice import Horizon
from hockeystick.learners.common.choices import Candidate, Choice
from hockeystick.learners.common.regret_bound import Adversary
from hockeystick.mechanisms import ReleaseNoise, SimulationNoise

_CONFIDENCE = 0.95  # of intervals of regrets

Masks = npt.NDArray[np.bool_]


@frozen(eq=False)
class Played:
    """The arrays that a run publishes beside its result.

    Attributes:
        actions: The expert of each round.
        mixtures: The distribution that each was drawn from, shape (rounds, experts); None if it is not published.
    """

    actions: npt.NDArray[np.integer]
    mixtures: FloatArray | None


def plan(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    adversary: Adversary,
    group: int,
    clip: bool = False,
    horizon: Horizon = "known",
    mixtures: bool = False,
    awake: Masks | None = None,
) -> tuple[Choice, dict[str, Any]]:
    """Chooses the learner; returns it and the entries of a plan's result.

    Args:
        rounds, experts: The public sizes of the stream.
        epsilon, delta: The target, for ``group`` people together.
        adversary: How losses come about; see ``learners.choose``.
        group: Number of people.
        clip: Whether to clip losses to [0, 1] instead of refusing others.
        horizon, mixtures: As for ``learners.choose``.
        awake: Who is awake, shape (rounds, experts), for the learner of sleeping experts; None for all.

    Raises:
        InvalidArgumentError: The target can't be met.
    """
    target: dict[str, Any] = {"rounds": rounds, "experts": experts, "epsilon": epsilon, "delta": delta}
    target |= {"group": group, "clip": clip}
    if awake is None:
        choice = choose(**target, adversary=adversary, horizon=horizon, mixtures=mixtures)
    else:
        if awake.shape != (rounds, experts):
            raise InvalidArgumentError("--awake", awake.shape, f"is not the shape of the losses, {(rounds, experts)}")
        most = max(2, int(awake.sum(axis=1).max()))
        sleeping = SleepingExperts.calibrated(**target, most_awake=most)
        bound = sleeping.regret_bound(adversary=adversary)
        choice = Choice((Candidate("Hedge on noisy sums, for experts that sleep", sleeping, bound),), {})
    fields = attrs.asdict(choice.learner, recurse=False, filter=lambda field, _: field.repr is not False)
    return choice, {
        "mode": "plan",
        "learner": "experts",
        "chosen": choice.candidates[0].name,
        "adversary": adversary,
        "horizon": horizon,
        "regret_bound": float(choice.bound),
        "candidates": [{"name": one.name, "regret_bound": float(one.bound)} for one in choice.candidates],
        "refused": dict(choice.refused),
        "regret_bands": None,
        "confidence": None,
        "parameters": {name: value for name, value in fields.items() if value is not None},
        **tables.privacy(choice.learner.guarantee(group=group), epsilon=epsilon, delta=delta, group=group),
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
    horizon: Horizon = "known",
    mixtures: bool = False,
    quantiles: tuple[float, ...] | None = None,
    awake: Masks | None = None,
) -> tuple[dict[str, Any], Played]:
    """Chooses the learner for a stream's sizes and runs it; returns the result's entries and what is published.

    Args:
        stream: The losses, shape (rounds, experts).
        epsilon, delta, adversary, group, clip, horizon, mixtures, awake: As for :func:`plan`.
        seed: The seed of a simulation; None for a release, with secure noise.
        ledger: What a release is charged to; None for nothing.
        progress: Called with the current step.
        quantiles: Report the regret against these quantiles of the experts, by a learner that publishes mixtures.

    Raises:
        InvalidArgumentError: The losses or the target can't be used.
        HockeystickError: The ledger refuses.
    """
    if awake is None:
        tables.read(stream, clip=clip)
    rounds, experts = stream.losses.shape
    progress("choosing the learner")
    target: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "group": group, "clip": clip, "horizon": horizon}
    public = mixtures or quantiles is not None
    choice, content = plan(rounds=rounds, experts=experts, adversary=adversary, **target, mixtures=public, awake=awake)
    progress("simulating" if seed is not None else "releasing")
    given: dict[str, Any] = {"noise": ReleaseNoise() if seed is None else SimulationNoise(seed)}
    given |= charging(ledger, "run experts")
    learner, whole = choice.learner, None
    if awake is not None:
        whole = learner.release_mixtures(stream.losses, awake=awake, **given)
    elif public:
        whole = learner.release_mixtures(stream.losses, **given)
    if whole is not None:
        played = Played(whole.actions, whole.mixtures)
    else:
        found = learner.release(stream.losses, **given)
        played = Played(np.asarray(getattr(found, "actions", found)), None)
    content |= {"data": stream.name, "regret_bands": _bands(learner, whole, quantiles, awake)}
    content["confidence"] = None if content["regret_bands"] is None else _CONFIDENCE
    if awake is not None:
        return content | _outcome_awake(stream, played.actions, awake, clip=clip, seed=seed), played
    return content | tables.outcome(stream, played.actions, clip=clip, seed=seed, what="expert"), played


def _bands(
    learner: Any, whole: PublishedMixtures | None, quantiles: tuple[float, ...] | None, awake: Masks | None
) -> list[dict[str, Any]] | None:
    """Returns intervals of the regrets against quantiles of the experts, or against each that sleeps at times."""
    if awake is not None:
        bands = learner.regret_bands(whole, confidence=_CONFIDENCE)
        return [{"expert": i, "lower": band.lower, "upper": band.upper} for i, band in enumerate(bands)]
    if quantiles is None:
        return None
    report = learner.regret_report(whole, quantiles=quantiles, confidence=_CONFIDENCE)
    named = zip(report.quantiles, report.ranks, report.regrets, strict=True)
    return [{"quantile": q, "rank": rank, "lower": band.lower, "upper": band.upper} for q, rank, band in named]


def _outcome_awake(
    stream: Stream, actions: npt.NDArray[np.integer], awake: Masks, *, clip: bool, seed: int | None
) -> dict[str, Any]:
    """Returns the entries on the outcome: the regret is the largest against an expert in its awake rounds."""
    if seed is None:
        return tables.withheld("expert")
    rows = np.where(awake, np.asarray(stream.losses, dtype=np.float64), 0.0)
    rows = np.clip(rows, 0.0, 1.0) if clip else rows
    own = rows[np.arange(len(rows)), actions]
    regret = float(np.where(awake, own[:, None] - rows, 0.0).sum(axis=0).max())
    found = {"seed": seed, "loss": float(own.sum()), "best_expert_loss": None, "regret": regret}
    return {**tables.SIMULATED, **found}
