"""An event as the ways to bound it take it: Gaussians merged, failures set aside, two-point parts and chains known."""

from __future__ import annotations

import math

from hockeystick.accounting.events.basic.composition import Composed, Parallel, compose
from hockeystick.accounting.events.basic.declared import Failure
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import GaussianDP
from hockeystick.accounting.events.basic.group_steps import Chain
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.allocation import RandomAllocation
from hockeystick.accounting.events.sampling.sampled_matrices import RecordByRecord
from hockeystick.accounting.events.sampling.shuffled_batches import ShuffledBatches
from hockeystick.accounting.losses import optimal_composition
from hockeystick.accounting.numerics.directed_rounding import U

_RESTATED = (RandomAllocation, RecordByRecord, ShuffledBatches)


def one_step(event: PrivacyEvent) -> PrivacyEvent:
    """Returns the event with chains of one step replaced by that step, and events by others that they are charged as.

    Groups alone tell them apart.
    """
    if isinstance(event, _RESTATED) and (stated := event.restated()) is not event:
        return one_step(stated)
    if isinstance(event, Chain) and event.length == 1:
        return one_step(event.event)
    if isinstance(event, Composed):
        return compose(*((one_step(part), count) for part, count in event.parts))
    if isinstance(event, Parallel):
        return Parallel(tuple(map(one_step, event.branches)))
    return event


def bound_name(event: PrivacyEvent) -> str:
    """Returns the name of the bound by which all parts of the event are charged, if they have one; else ''."""
    if isinstance(event, (RandomAllocation, ShuffledBatches)):
        return event.method
    names = {bound_name(one) for one in event.children()} if isinstance(event, (Composed, Parallel)) else set()
    return names.pop() if len(names) == 1 else ""


def merge_gaussians(event: PrivacyEvent) -> tuple[PrivacyEvent | None, float]:
    """Replaces the Gaussian parts of a composition by one; (None, mu) where nothing else is left.

    k Gaussian events compose exactly to one of μ² = Σ 1/σ² (Dong, Roth & Su 2022, Cor. 3.3).
    """
    precisions, others = [], []
    for part, count in _parts(event):
        if isinstance(part, Gaussian):
            precisions.append(count / part.noise_multiplier**2)
        elif isinstance(part, GaussianDP):
            precisions.append(count * part.mu**2)
        else:
            others.append((part, count))
    if not precisions or not any(precisions):
        return event, 0.0
    # Squares are off by 2 U, quotients and the sum by U; the root halves that, and is off by U as the product and 1/μ.
    mu = math.sqrt(math.fsum(precisions)) * (1 + 8 * U)
    if not others:
        return None, mu
    return compose(Gaussian(1.0 / mu), *others), mu


def without_failures(event: PrivacyEvent) -> tuple[PrivacyEvent | None, float]:
    """``merge_gaussians`` where failures are set aside, and only where that leaves Gaussians alone."""
    if isinstance(event, Composed):
        kept = compose(*((part, count) for part, count in event.parts if not isinstance(part, Failure)))
        if merge_gaussians(kept)[0] is None:
            return merge_gaussians(kept)
    return merge_gaussians(event)


def failures(event: PrivacyEvent) -> float:
    """Returns δ of the failures of side conditions alone."""
    return min(1.0, math.fsum(count * part.delta for part, count in _parts(event) if isinstance(part, Failure)))


def two_point_parts(event: PrivacyEvent) -> tuple[optimal_composition.Part, ...] | None:
    """(ε, δ, count) of each part where all are worst at a randomised response; failures of side conditions left out."""
    found = []
    for part, count in _parts(event):
        if isinstance(part, Failure):
            continue
        guarantee = part.two_point()
        if guarantee is None or guarantee[0] > optimal_composition.LARGEST:
            return None
        found.append((*guarantee, count))
    return tuple(found)


def _parts(event: PrivacyEvent) -> tuple[tuple[PrivacyEvent, int], ...]:
    return event.parts if isinstance(event, Composed) else ((event, 1),)
