"""The law of an event's privacy loss as its moments are known: by formulas where there are any, else from a grid."""

from __future__ import annotations

import math
from functools import singledispatch

from hockeystick.accounting.errors import UnsupportedEventError
from hockeystick.accounting.events.basic.composition import Composed, VisibleMixture
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair, ExponentialLossPair, GaussianPair
from hockeystick.accounting.losses.loss_moments import (
    AtomsLaw,
    ExponentialLaw,
    GaussianLaw,
    Law,
    MixtureLaw,
    SumLaw,
    discretised,
)
from hockeystick.accounting.losses.normal_mixture_moments import MixturesLaw, NormalMixtureLaw
from hockeystick.accounting.losses.normal_mixtures import MixturePair


def law_of(event: PrivacyEvent, *, upper: bool = True, tilt: float = 0.0) -> tuple[Law, bool]:
    """Returns the law of an event's loss, and whether it is exact; otherwise it lies above (or below) it.

    Args:
      tilt: where accuracy is wanted: the real part of z.
    """
    if isinstance(event, Composed):
        found = [(*law_of(inner, upper=upper, tilt=tilt), count) for inner, count in event.parts]
        variance = math.fsum(count * law.variance for law, _, count in found if isinstance(law, GaussianLaw))
        parts = _side_by_side([(law, count) for law, _, count in found if not isinstance(law, GaussianLaw)])
        if variance:
            parts.append((GaussianLaw(variance), 1))
        return SumLaw(tuple(parts)), all(exact for _, exact, _ in found)
    if isinstance(event, VisibleMixture):
        if event.probability == 0.0:
            return GaussianLaw(0.0), True
        inner, exact = law_of(event.event, upper=upper, tilt=tilt)
        return (inner if event.probability == 1.0 else MixtureLaw(event.probability, inner)), exact
    pair = event.pair() if upper else event.pair_below()
    if pair is None:
        raise UnsupportedEventError(f"{event} has no dominating pair of its own, which an inversion needs")
    law = closed_form(pair)
    if law is None:
        return discretised(pair, upper=upper, tilt=tilt), False
    return law, event.pair_is_exact()


def _side_by_side(parts: list[tuple[Law, int]]) -> list[tuple[Law, int]]:
    """The parts with mixtures of normals of one shape taken together."""
    shapes: dict[tuple[int, int], list[tuple[NormalMixtureLaw, int]]] = {}
    others: list[tuple[Law, int]] = []
    for law, count in parts:
        if isinstance(law, NormalMixtureLaw):
            shapes.setdefault((len(law.p.centres), len(law.q.centres)), []).append((law, count))
        else:
            others.append((law, count))
    return [(MixturesLaw(*zip(*alike, strict=True)), 1) for alike in shapes.values()] + others


@singledispatch
def closed_form(pair: DominatingPair) -> Law | None:
    """Returns the law of a pair's loss by a formula for its moments, or None if there is none."""
    return None


@closed_form.register
def _(pair: GaussianPair) -> Law:
    return GaussianLaw(pair.mu**2)


@closed_form.register
def _(pair: ExponentialLossPair) -> Law:
    return ExponentialLaw(pair.reach, pair.density, pair.atom)


@closed_form.register
def _(pair: MixturePair) -> Law:
    return NormalMixtureLaw(pair.p, pair.q)


@closed_form.register
def _(pair: Atoms) -> Law:
    return AtomsLaw.of(pair.losses, pair.p, pair.at_infinity)
