"""A profile for events that have only a Rényi curve, so that they compose with loss distributions.

A Rényi curve bounds δ at every ε, in both orders of the neighbours. The largest profile under those bounds belongs to a
pair of laws that dominates every mechanism with that curve (Zhu, Dong & Wang 2022, Prop. 8), so the pair may stand for
it in any composition. Alone it says no more than the curve does; beside events with tight profiles it lets those keep
them. Rényi curves of several such events are added first, where nothing is lost.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from attrs import frozen

from hockeystick.accounting.engines import renyi
from hockeystick.accounting.events.basic.composition import Composed, compose
from hockeystick.accounting.events.basic.declared import Failure
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import worst_under_profile
from hockeystick.accounting.losses.dominating_pairs import Atoms

_POINTS = 256
_LEAST = 1e-40  # the δ at the last point; it counts as P's mass where Q has none


@frozen
class UnderRenyi(PrivacyEvent):
    """The worst pair of laws under the (ε, δ) bounds of an event's Rényi curve."""

    event: PrivacyEvent

    def pure_epsilon(self) -> float:
        return self.event.pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.event.zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return self.event.rdp(orders)

    def pair(self) -> Atoms | None:
        return _pair(self.event)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)


@lru_cache(maxsize=64)
def _pair(event: PrivacyEvent) -> Atoms | None:
    end = min(renyi.epsilon(event, _LEAST), event.pure_epsilon())
    if not 0.0 < end <= 500.0:
        return None
    epsilons = np.linspace(0.0, end, _POINTS)
    # The exponent is rounded up, to −600 at least: half an ulp of it, 500 U, and exp's 2 U, of 9000 U.
    deltas = np.minimum(np.exp(renyi.log_deltas(event, epsilons)) * (1 + 1e-12), 1.0)
    if end == event.pure_epsilon():
        deltas[-1] = 0.0
    worst = worst_under_profile(tuple(epsilons.tolist()), tuple(deltas.tolist()))
    return worst if worst.losses else None


def completed(event: PrivacyEvent) -> PrivacyEvent | None:
    """Returns an event with a profile that is no better than this one; None if it would add nothing."""
    if event.has_profile():
        return event
    if not isinstance(event, Composed):
        return None
    known = [(inner, count) for inner, count in event.parts if inner.has_profile()]
    if not known:
        return None
    rest = compose(*((inner, count) for inner, count in event.parts if not inner.has_profile()))
    worst = UnderRenyi(rest)
    failure = [Failure(rest.failure_delta())] if rest.failure_delta() else []
    return compose(*known, worst, *failure) if worst.has_profile() else None
