"""What one access to the data cost: the base class of all privacy events.

An event is a frozen, hashable value that bounds a *class* of pairs of output laws: whatever the mechanism did, the pair
of its output laws on two inputs at distance 1 is no easier to tell apart than the event says. It knows nothing of data
or randomness. Three kinds of curve describe it, and none is ever added to another:

* pure: the largest privacy loss, ``pure_epsilon``;
* Rényi: ``rdp`` at any order, and ``zcdp_rho`` with rdp(α) ≤ ρα;
* profile δ(ε): through the dominating pair of output laws, ``pair``.

All three hold after a failure event of probability ``failure_delta`` has been set aside; that δ is added at the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.losses.dominating_pairs import Array as Array  # for the events
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair

if TYPE_CHECKING:  # dp-accounting is not typed: from its class, an event would be taken for whatever is asked for
    from builtins import object as DpEvent
else:
    from dp_accounting.dp_event import DpEvent


@frozen
class PrivacyEvent(DpEvent):
    """Base of all events; a subclass is one frozen attrs class and needs no registration.

    A subclass states what is known of its mechanism: at least one of ``pure_epsilon``, ``zcdp_rho``, ``rdp`` and
    ``pair``; what it leaves out is taken to be unknown. For groups, for transforms that stretch distances, and for
    what replaces a record, it also needs ``_scaled``. It has no JSON form.

    >>> import attrs
    >>> from hockeystick.accounting import PrivacyEvent, chain, epsilon
    >>> @attrs.frozen
    ... class Mine(PrivacyEvent):
    ...     rate: float
    ...
    ...     def rdp(self, orders):
    ...         return self.rate * orders
    ...
    ...     def _scaled(self, distance):
    ...         return chain(self, math.ceil(distance))  # as many steps from one data set to the next
    >>> round(epsilon(Mine(0.005).at(2), 1e-6).upper, 3)
    0.9

    Being a ``dp_accounting.DpEvent``, an event of ours may stand inside a native tree; accountants of other
    libraries refuse it as unknown, as they should.

    Class attributes:
      norm: the norm in which one unit of input distance is meant: "records", "l1", "l2" or "linf".
      adjacencies: the relations under which the event has a meaning; None for all.
      superadditive: whether at s + t, whole numbers, it is known to cost at least what it does at s and t together.
    """

    norm: ClassVar[str] = "records"
    adjacencies: ClassVar[frozenset[Adjacency] | None] = None
    superadditive: ClassVar[bool] = False

    def at(self, distance: float) -> PrivacyEvent:
        """Returns the event when the inputs are ``distance`` units apart; at 0 it is ``NO_EVENT``.

        Raises:
          InvalidArgumentError: the distance is negative or not finite.
          UnsupportedEventError: the event has no rule for that distance.
        """
        number = validate.real("distance", distance, low=0.0)
        if number == 0.0:
            return NO_EVENT
        return self if number == 1.0 else self._scaled(number)

    def _scaled(self, distance: float) -> PrivacyEvent:
        """``at`` for a positive distance other than 1; a subclass that leaves it out has that one distance alone."""
        raise UnsupportedEventError(
            f"{type(self).__name__} has no rule for inputs {distance:g} units apart: define _scaled(self, distance) in "
            "its class, say as hockeystick.events.chain(self, math.ceil(distance))"
        )

    def pure_epsilon(self) -> float:
        """Returns ε such that the event is ε-DP once its failure is set aside; inf if there is none."""
        return math.inf

    def zcdp_rho(self) -> float:
        """Returns ρ such that the event is ρ-zCDP once its failure is set aside; inf if there is none."""
        epsilon = self.pure_epsilon()
        return 0.5 * epsilon * epsilon  # Bun & Steinke 2016, Prop. 1.4

    def rdp(self, orders: Array) -> Array:
        """Returns a bound on the Rényi divergence, in either direction, at each of ``orders``, of any shape.

        Raises:
          InvalidArgumentError: an order is not in (1, 1e100].
        """
        found = validate.array("orders", orders, low=1.0, high=field_checks.LARGEST)
        if found.size and found.min() == 1.0:
            raise InvalidArgumentError("orders", 1.0, "is out of range", "give orders above 1")
        return self._rdp(found)

    def _rdp(self, orders: Array) -> Array:
        """``rdp`` at orders that were checked; a subclass gives this one."""
        return np.asarray(self.zcdp_rho() * orders)

    def failure_delta(self) -> float:
        """Returns the probability that is set aside before the curves above hold."""
        return 0.0

    def pair(self) -> DominatingPair | None:
        """Returns a dominating pair of the event without its failure, or None if it has no known profile.

        The pair dominates both directions: its profile is at least that of (P, Q) and of (Q, P). An ``Oriented``
        event alone bounds a single direction.
        """
        return None

    def sampled_access(self) -> tuple[float, PrivacyEvent, str] | None:
        """Returns (q, access, way) of an access behind a secret sample of rate q that has a profile but no pair.

        ``way`` is "removal", "addition" or "replacement"; None for all other events.
        """
        return None

    def two_point(self) -> tuple[float, float] | None:
        """Returns (ε, δ) if the event is no better than the worst (ε, δ)-DP mechanism, a randomised response at ε."""
        return None

    def orientations(self) -> tuple[PrivacyEvent, ...]:
        """Returns the events of the two directions, or the event itself where both have one profile."""
        return (self,)

    def directions(self) -> tuple[PrivacyEvent, ...]:
        """Returns the event with P the world that holds the record, and with P the world that lacks it.

        The event alone, the default, where nothing depends on which data set is the larger one. Where something does,
        as for a secret sample, all accesses are in the same direction: a composition takes the worse direction last.
        """
        return (self,)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        """Returns the event when ``removed`` records leave the data and ``added`` ones enter, or the other way round.

        Where nothing depends on which data set is the larger one that is the event at their number.
        """
        return self.at(removed + added)

    def has_profile(self) -> bool:
        """Says whether the event has a dominating pair."""
        return self.pair() is not None

    def loss_support(self) -> tuple[float, float]:
        """Returns losses between which all but a negligible mass lies; see ``DominatingPair.support``."""
        return self._known_pair().support()

    def loss_law(self, step: float, upper: bool) -> LossPmf:
        """Returns the law of the privacy loss on a grid, above or below; use ``loss_grid.discretise``, which caches.

        Raises:
          InvalidArgumentError: the step is not in (0, 1e100].
          UnsupportedEventError: the event has no profile.
          NumericalError: the losses span too many cells.
        """
        return self._loss_law(validate.real("step", step, low=0.0, low_open=True, high=field_checks.LARGEST), upper)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        """``loss_law`` on a grid that was checked; a subclass gives this one."""
        return from_pair(self._known_pair(), step, upper)

    def _known_pair(self) -> DominatingPair:
        pair = self.pair()
        if pair is None:
            raise UnsupportedEventError(f"{self} has no privacy profile; its zCDP or RDP curve can be used")
        return pair

    def accepts(self, adjacency: Adjacency) -> bool:
        """Says whether the event has a meaning under ``adjacency``."""
        return self.adjacencies is None or adjacency in self.adjacencies

    def children(self) -> tuple[PrivacyEvent, ...]:
        """Returns the events that this one is built from."""
        return ()


@frozen
class NoEvent(PrivacyEvent):
    """An access that costs nothing: post-processing, or a release that the changed records don't reach."""

    def _scaled(self, distance: float) -> PrivacyEvent:
        return self

    def pure_epsilon(self) -> float:
        return 0.0

    def pair(self) -> DominatingPair:
        return Atoms((0.0,), (1.0,))


NO_EVENT = NoEvent()
"""The only value of ``NoEvent``; what a composition of nothing is."""
