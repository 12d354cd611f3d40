"""The work of ``hockeystick run`` with a lazy learner: calibrates it and runs it on a stream.

The result is a plain dictionary (``hockeystick._runs.online.lazy_plan`` makes its privacy entries), and the actions. A
simulation also has the learner's loss and regret. A release does not: they are functions of the data that the guarantee
does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hockeystick._runs.lazy_streams import Stream, domain_of
from hockeystick._runs.ledgers import WITHHELD, charging
from hockeystick._runs.online import tables
from hockeystick._runs.online.lazy_plan import FULL_VIEW, FULL_VIEW_NOTE, accounted
from hockeystick.accounting import DurableLedger
from hockeystick.learners import LazyConvex, LazyExperts
from hockeystick.learners.lazy import ClosedFormSampler, TangentSampler
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, RegressionLosses, checked_losses
from hockeystick.learners.lazy.experts.setting import Variant
from hockeystick.mechanisms.randomness.noise import ReleaseNoise

if TYPE_CHECKING:
    from hockeystick.learners.lazy.convex.sampling.samplers import Sampler

Progress = Callable[[str], None]


def run_experts(
    stream: Stream,
    *,
    epsilon: float,
    delta: float,
    variant: Variant,
    clip: bool,
    seed: int | None,
    ledger: DurableLedger | None = None,
    progress: Progress,
) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    """Calibrates the learner of experts, runs it on a stream, and returns the content of the result and the actions.

    Args:
        stream: The losses.
        epsilon: The target, > 0.
        delta: In (0, 1).
        variant: "l2p" or "dartboard".
        clip: Whether to clip losses to [0, 1] instead of refusing others.
        seed: The seed of a simulation; None for a release, with secure noise.
        ledger: What a release is charged to; None for nothing.
        progress: Called with the current step.

    Raises:
        InvalidArgumentError: The losses or the target can't be used.
    """
    noise = ReleaseNoise() if seed is None else None
    tables.read(stream, clip=clip)
    rounds, experts = stream.losses.shape
    progress("calibrating")
    learner = LazyExperts.calibrated(
        rounds=rounds, experts=experts, epsilon=epsilon, delta=delta, variant=variant, clip=clip
    )
    content = _calibrated(learner, stream, epsilon, delta)
    if noise is not None:
        progress("releasing")
        released = learner.release(stream.losses, noise=noise, **charging(ledger, "run lazy-experts"))
        return {**content, **_withheld(released.switches, "best_expert")}, released.actions
    progress("simulating")
    run = learner.run(stream.losses, np.random.default_rng(seed))
    return {
        **content,
        **_played(learner, run.loss, run.regret, int(run.transcript.switched.sum()), seed),
        "best_expert": run.best_expert,
    }, run.actions


def run_convex(
    stream: Stream,
    *,
    domain: str,
    radius: float,
    lipschitz: float,
    epsilon: float,
    delta: float,
    adversary: str,
    seed: int | None,
    ledger: DurableLedger | None = None,
    progress: Progress,
) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    """Calibrates the learner of convex losses and runs it; the other arguments are those of :func:`run_experts`.

    Args:
        domain: "ball" or "box".
        radius: The radius of the ball, or half the width of the box.
        lipschitz: The Lipschitz constant of the losses, > 0.
        adversary: "oblivious" or "adaptive".
    """
    noise = ReleaseNoise() if seed is None else None
    where = domain_of(domain, stream.losses.dimension, radius)
    losses = checked_losses("losses", stream.losses, rounds=stream.losses.rounds, domain=where, lipschitz=lipschitz)
    progress("calibrating")
    learner = LazyConvex.calibrated(
        rounds=losses.rounds,
        domain=where,
        lipschitz=lipschitz,
        epsilon=epsilon,
        delta=delta,
        adversary="adaptive" if adversary == "adaptive" else "oblivious",
        sampler=_sampler(losses, secure=noise is not None),
    )
    content = _calibrated(learner, stream, epsilon, delta)
    if noise is not None:
        progress("releasing")
        released = learner.release(losses, noise=noise, **charging(ledger, "run lazy-convex"))
        return {**content, **_withheld(released.switches, "best_point")}, released.actions
    progress("simulating")
    run = learner.run(losses, np.random.default_rng(seed))
    return {
        **content,
        **_played(learner, run.loss, run.regret, int(run.transcript.switched.sum()), seed),
        "best_point": run.best_point,
    }, run.actions


def _sampler(losses: ConvexLosses, *, secure: bool) -> Sampler:
    """Returns a sampler with exact draws; for a release, in exact arithmetic."""
    regression = isinstance(losses, RegressionLosses)
    if not secure:
        return TangentSampler() if regression else ClosedFormSampler()
    from hockeystick.learners.lazy.convex.sampling.exact_normal import ExactSampler
    from hockeystick.learners.lazy.convex.sampling.tangent_rejection import SecureTangentSampler

    return SecureTangentSampler() if regression else ExactSampler()


def _calibrated(learner: LazyExperts | LazyConvex, stream: Stream, epsilon: float, delta: float) -> dict[str, Any]:
    guarantee = learner.graph().guarantee()
    return {
        "data": stream.name,
        "epsilon_target": epsilon,
        **accounted(learner, guarantee, guarantee.epsilon(delta, bracket=True), delta),
        "view": FULL_VIEW,
        "view_note": FULL_VIEW_NOTE,
        "expected_regret_bound": learner.regret_bound(),
    }


def _played(
    learner: LazyExperts | LazyConvex, loss: float, regret: float, switches: int, seed: int | None
) -> dict[str, Any]:
    best = "best_expert_loss" if isinstance(learner, LazyExperts) else "best_point_loss"
    return {
        "mode": "simulation",
        "simulated": True,
        "seed": seed,
        "loss": loss,
        best: loss - regret,
        "regret": regret,
        "switches": switches,
        "withheld": None,
    }


def _withheld(switches: int, best: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("seed", "loss", f"{best}_loss", best, "regret"))
    return {"mode": "release", "simulated": False, **nothing, "switches": switches, "withheld": WITHHELD}
