"""Privacy-loss distributions of ``dp_accounting.pld`` in and out, rounded up both ways.

Such an object holds the masses of losses k·h, one law for each order of the two output laws, or one for both. Read, a
law becomes a ``LossDistribution`` of the same masses. What the other library can't tell is charged: masses below 0,
left by Fourier transforms, count as 0, mass that is missing is infinite loss, and losses so low that no Q allows them
are raised. Each of these moves mass of P to larger losses, which raises δ at every ε, also after composition.

Written, each direction is the law on the grid from which this library's own upper bounds are made. Where there is no
such law (zCDP and Rényi curves, long compositions), the certified δ at many ε is taken, and the object is the worst
pair of laws that it allows in both orders.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from hockeystick.accounting import validate
from hockeystick.accounting.engines import best_bound, tradeoff_curve
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError, UnsupportedEventError
from hockeystick.accounting.events.basic.directions import DirectedEvent
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import worst_under_profile
from hockeystick.accounting.events.basic.given_laws import _MORE, _ROUND_OFF, LossDistribution, OrderedPair
from hockeystick.accounting.interop.questions import event_under
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair

_ABOVE = 1 + 1e-9  # more than the round-off of the other library's sums, and of bounds here
_CELLS = 2**20  # the most of a law that is computed; longer ones are made from the curve
_TOP = 650.0  # the largest ε of the curve from which they are made
_POINTS = 513  # of that curve
_LEAST = (1e-15, 1e-12, 1e-9, 1e-6)  # δ at its last point: the first that has a finite ε


def from_pld(pld: PrivacyLossDistribution) -> PrivacyEvent:
    """Returns the event of a privacy-loss distribution of dp-accounting, for one access.

    Its δ is at least the object's at every ε, and composes. The object does not tell its neighbouring relation: use the
    event under the relation that it was made for. With a law for each order (Poisson samples, say) the relation must
    be add-or-remove-one or replace-with-null.

    Masses that dp-accounting composed have the round-off of its Fourier transforms, some 1e-16 each, which nothing can
    make good for: read single accesses, and compose them here.

    Args:
      pld: a ``dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution`` with pessimistic estimates.

    Raises:
      InvalidArgumentError: another object, an optimistic estimate, or masses that no law has.

    Example:
      >>> from dp_accounting.pld import privacy_loss_distribution
      >>> from hockeystick.accounting import compose, epsilon, from_pld
      >>> noise = privacy_loss_distribution.from_gaussian_mechanism(10.0)
      >>> round(epsilon(compose((from_pld(noise), 10)), 1e-6).upper, 4)  # 1.3676 is the Gaussian's own
      1.3676
    """
    if not isinstance(pld, PrivacyLossDistribution):
        remedy = "give one, such as privacy_loss_distribution.from_gaussian_mechanism(1.0)"
        raise InvalidArgumentError("pld", pld, "is not a PrivacyLossDistribution of dp_accounting", remedy)
    removal = _law_of(pld._pmf_remove)
    return removal if pld._symmetric else OrderedPair(removal, _law_of(pld._pmf_add))


def _law_of(pmf: Any) -> LossDistribution:
    if pmf._pessimistic_estimate is not True:
        raise InvalidArgumentError(
            *("pld", type(pmf).__name__, "is an optimistic estimate, which is below the truth"),
            "make it with pessimistic_estimate=True",
        )
    step = validate.real("value_discretization_interval", pmf._discretization, low=0.0, low_open=True)
    if hasattr(pmf, "_loss_probs"):
        places = np.array(sorted(pmf._loss_probs), dtype=float)
        masses = np.array([pmf._loss_probs[k] for k in sorted(pmf._loss_probs)], dtype=float)
    else:
        places, masses = pmf._lower_loss + np.arange(len(pmf._probs), dtype=float), np.asarray(pmf._probs, dtype=float)
    infinity = validate.probability("infinity_mass", min(1.0, max(0.0, pmf._infinity_mass)))
    if not np.isfinite(masses).all():
        raise InvalidArgumentError("pld", type(pmf).__name__, "has masses that are not finite", "compute it anew")
    losses, masses = _possible(np.nextafter(places * step, np.where(places, math.inf, 0.0)), np.maximum(masses, 0.0))
    total = math.fsum(masses) + infinity
    if total > 1.0 + _MORE:
        reason = f"has masses that add up to {total!r}"
        raise InvalidArgumentError("pld", type(pmf).__name__, reason, "make it with larger cells, and compose here")
    if (missing := 1.0 - total) > _ROUND_OFF:
        infinity += missing
    elif missing > 0.0:
        masses, infinity = masses / total, infinity / total
    kept = masses > 0.0
    if not kept.any():
        return LossDistribution((0.0,), (0.0,), 1.0, orientation="forward")
    return LossDistribution(
        tuple(losses[kept].tolist()), tuple(masses[kept].tolist()), min(1.0, infinity), orientation="forward"
    )


def _possible(losses: Array, masses: Array) -> tuple[Array, Array]:
    """Raises the least losses, all to one place, until E_P[e^{−loss}] ≤ 1: else no law Q has them."""
    with np.errstate(over="ignore", invalid="ignore"):
        q = np.where(masses > 0.0, masses * np.exp(-losses), 0.0)
        above = np.cumsum(q[::-1])[::-1]
        raised = above - q + np.cumsum(masses) * np.exp(-losses)  # with all that is below a loss moved to it
    enough = np.flatnonzero(raised <= 1.0 + _ROUND_OFF)
    first = int(enough[0]) if len(enough) else len(losses) - 1
    losses, rest = losses[first:].copy(), math.fsum(masses[: first + 1])
    if not len(enough):
        losses[0] = max(losses[0], 0.0)
    return losses, np.concatenate([[rest], masses[first + 1 :]])


def to_pld(what: object, *, step: float = 1e-4) -> PrivacyLossDistribution:
    """Returns a pessimistic privacy-loss distribution of dp-accounting: its δ is at least ours at every ε ≥ 0.

    Where both directions have a law, the object has both, for add-or-remove-one or replace-with-null. Use it under the
    relation of ``what``; the object does not tell it.

    Args:
      what: an event, or anything that has one: a mechanism, a graph, a guarantee, a native event.
      step: the grid of its losses, ``value_discretization_interval``. Objects compose if their grids are the same.

    Raises:
      InvalidArgumentError: ``what`` has no event, or has it for one direction alone; the step is out of range.
      UnsupportedEventError: there is no guarantee at any δ below 1e-6.
      NumericalError: the losses span too many cells of the grid; give a larger ``step``.

    Example:
      >>> from hockeystick.accounting import AboveThreshold, to_pld
      >>> round(to_pld(AboveThreshold(8.0, 8.0)).get_epsilon_for_delta(1e-6), 3)
      0.375
    """
    width = validate.real("step", step, low=1e-9, high=1.0)
    event = event_under(what)
    _check_both(event)
    tables = [
        ({law.start + int(k): float(law.p[k]) * _ABOVE for k in np.flatnonzero(law.p)}, min(1.0, law.infinity * _ABOVE))
        for law in _laws(event, width) or [_from_curve(event, width)]
    ]
    if len(tables) == 1:
        return PrivacyLossDistribution.create_from_rounded_probability(*tables[0], width)
    (removal, infinity), (addition, infinity_added) = tables
    return PrivacyLossDistribution.create_from_rounded_probability(
        *(removal, infinity, width),
        rounded_probability_mass_function_add=addition,
        infinity_mass_add=infinity_added,
        symmetric=False,
    )


def _check_both(event: PrivacyEvent) -> None:
    if isinstance(event, DirectedEvent) and event.direction != "both":
        reason = f"bounds the direction {event.direction!r} alone"
        raise InvalidArgumentError("what", event, reason, 'give the event with direction="both"')
    for inner in event.children():
        _check_both(inner)


def _laws(event: PrivacyEvent, step: float) -> list[LossPmf]:
    """The laws above both directions, or the one of both; none if there are none, or their grids are long."""
    if not event.has_profile():
        return []
    found = []
    for way in event.directions():
        low, high = way.loss_support()
        if high - low > _CELLS * step:
            return []
        with contextlib.suppress(NumericalError, UnsupportedEventError):
            found.append(_with_failure(discretise(way, step, True), event.failure_delta()))
    return found if len(found) == len(event.directions()) else []


def _with_failure(law: LossPmf, failure: float) -> LossPmf:
    """The law with the failure at infinity, its mass taken from the lowest losses: they add least to any δ."""
    if not failure:
        return law
    infinity = min(1.0, math.nextafter(law.infinity + failure, 2.0))
    above = np.cumsum(law.p[::-1])[::-1] - law.p
    return LossPmf(law.step, law.start, np.clip(1.0 - infinity - above, 0.0, law.p), infinity)


def _from_curve(event: PrivacyEvent, step: float) -> LossPmf:
    tops = (best_bound.epsilon(event, delta).upper for delta in _LEAST)
    top = next((top for top in tops if math.isfinite(top)), None)
    if top is None:
        raise UnsupportedEventError(f"{event} has no guarantee at δ = {_LEAST[-1]:g}: leave out what it cannot bound")
    if top > _TOP:
        raise NumericalError(f"{event}: its losses span too many cells of {step:g}, and ε = {top:.4g} is too large")
    places = np.unique(np.linspace(0.0, top, _POINTS))
    heights = np.minimum.accumulate(np.minimum(tradeoff_curve.deltas(event, places), 1.0))
    return from_pair(worst_under_profile(tuple(places.tolist()), tuple(heights.tolist())), step, True)
