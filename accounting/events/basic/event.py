"""The base class of privacy events: an event is the privacy cost of one access to the data.

An event is a frozen, hashable value that bounds a *class* of pairs of output laws: the output laws of the mechanism on
any two inputs at distance 1 are at most as easy to distinguish as the event states. It holds neither data nor
randomness. It is described by three kinds of curve, which are never added to each other:

* pure: the largest privacy loss, ``pure_epsilon``;
* Rényi: ``rdp`` at any order, and ``zcdp_rho`` with rdp(α) ≤ ρα;
* profile δ(ε): through the dominating pair of output laws, ``pair``.

All three hold outside a failure of probability ``failure_delta``; that δ is added at the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np
from attrs import frozen

from hockeystick._guess.arguments import guessing_arguments
from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.native_class import native_event_class
from hockeystick.accounting.losses.dominating_pairs import Array as Array  # for the events
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair
from hockeystick.accounting.notebook_tables import html_table

if TYPE_CHECKING:  # dp-accounting is not typed: with its class as a base, every attribute of an event would be Any
    from builtins import object as DpEvent
else:
    DpEvent = native_event_class()


@frozen
class PrivacyEvent(DpEvent):
    """Base of all events; a subclass is a frozen attrs class and needs no registration.

    A subclass defines at least one of ``pure_epsilon``, ``zcdp_rho``, ``rdp`` and ``pair``; the others are taken to be
    unknown. For groups, for transforms of stability above 1, and for replaced records it also needs ``_scaled``. It has
    no JSON form.

    An event is a ``dp_accounting.DpEvent``, so it may stand inside a tree of such events; accountants of other
    libraries refuse it as unknown.

    Attributes:
      norm: the norm of the input distance: "records", "l1", "l2" or "linf".
      adjacencies: the neighbouring relations under which the event is meaningful; None for all.
      superadditive: whether the event at distance s + t (whole numbers) is known to cost at least as much as its
        composition at distances s and t.

    Example:
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
      ...         return chain(self, math.ceil(distance))  # one step for each changed record
      >>> round(epsilon(Mine(0.005).at(2), 1e-6).upper, 3)
      0.9
    """

    norm: ClassVar[str] = "records"
    adjacencies: ClassVar[frozenset[Adjacency] | None] = None
    superadditive: ClassVar[bool] = False

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        guessing_arguments(cls)

    def _repr_html_(self) -> str:
        fields = [(one.name, repr(getattr(self, one.name))) for one in attrs.fields(type(self)) if one.repr]
        return html_table(type(self).__name__, ("parameter", "value"), [*fields, ("distance in", self.norm)])

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
        """Returns ``at(distance)`` for a positive distance other than 1; by default only distance 1 is supported."""
        raise UnsupportedEventError(
            f"{type(self).__name__} has no rule for inputs {distance:g} units apart: define _scaled(self, distance) in "
            "its class, for example as hockeystick.events.chain(self, math.ceil(distance))"
        )

    def pure_epsilon(self) -> float:
        """Returns ε such that the event is ε-DP outside its failure; inf if no such ε is known."""
        return math.inf

    def zcdp_rho(self) -> float:
        """Returns ρ such that the event is ρ-zCDP outside its failure; inf if no such ρ is known."""
        epsilon = self.pure_epsilon()
        return 0.5 * epsilon * epsilon  # Bun & Steinke 2016, Prop. 1.4

    def rdp(self, orders: Array) -> Array:
        """Returns a bound on the Rényi divergence in either direction, for each order of an array of any shape.

        Raises:
          InvalidArgumentError: an order is not in (1, 1e100].
        """
        found = validate.array("orders", orders, low=1.0, high=field_checks.LARGEST)
        if found.size and found.min() == 1.0:
            raise InvalidArgumentError("orders", 1.0, "is out of range", "give orders above 1")
        return self._rdp(found)

    def _rdp(self, orders: Array) -> Array:
        """Returns ``rdp`` at orders that are already checked; subclasses override this method."""
        return np.asarray(self.zcdp_rho() * orders)

    def failure_delta(self) -> float:
        """Returns the probability of the failure outside which the other curves hold."""
        return 0.0

    def pair(self) -> DominatingPair | None:
        """Returns a dominating pair of the event without its failure, or None if no such pair is known.

        The pair dominates both directions: its profile is at least those of (P, Q) and of (Q, P). An ``Oriented`` event
        bounds only one direction.
        """
        return None

    def pair_below(self) -> DominatingPair | None:
        """Returns a pair whose profile is nowhere above that of the event's bound: by default ``pair``, which is exact.

        It differs where ``pair`` is only just above a law that no formula gives.
        """
        return self.pair()

    def pair_is_exact(self) -> bool:
        """Returns whether ``pair`` and ``pair_below`` are the same."""
        return type(self).pair_below is PrivacyEvent.pair_below

    def sampled_access(self) -> tuple[float, PrivacyEvent, str] | None:
        """Returns (rate, event, direction) of an access to a secret sample that has a profile but no pair, else None.

        The direction is "removal", "addition" or "replacement".
        """
        return None

    def two_point(self) -> tuple[float, float] | None:
        """Returns (ε, δ) if the event is as bad as any (ε, δ)-DP mechanism (randomised response at ε), else None."""
        return None

    def orientations(self) -> tuple[PrivacyEvent, ...]:
        """Returns the events of the two orders of the output laws, or the event alone if both have the same profile."""
        return (self,)

    def directions(self) -> tuple[PrivacyEvent, ...]:
        """Returns the events for P the output law with the record, and for P the output law without it.

        By default, nothing depends on which data set is the larger one, and the event alone is returned. Where it does
        matter, as for a secret sample, all accesses have the same direction, and a composition takes the maximum last.
        """
        return (self,)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        """Returns the event when ``removed`` records leave the data and ``added`` records enter, or vice versa.

        By default, nothing depends on which data set is the larger one, and it is the event at their total number.
        """
        return self.at(removed + added)

    def has_profile(self) -> bool:
        """Returns whether the event has a known privacy profile."""
        return self.pair() is not None

    def loss_support(self) -> tuple[float, float]:
        """Returns the ends of an interval of losses that holds all but a negligible mass; see ``DominatingPair``."""
        return self._known_pair().support()

    def loss_law(self, step: float, upper: bool) -> LossPmf:
        """Returns the law of the privacy loss rounded to multiples of ``step``, up or down; ``discretise`` caches it.

        Raises:
          InvalidArgumentError: the step is not in (0, 1e100].
          UnsupportedEventError: the event has no profile.
          NumericalError: the losses span too many cells.
        """
        return self._loss_law(validate.real("step", step, low=0.0, low_open=True, high=field_checks.LARGEST), upper)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        """Returns ``loss_law`` for a step that is already checked; subclasses override this method."""
        return from_pair(self._known_pair(), step, upper)

    def _known_pair(self) -> DominatingPair:
        pair = self.pair()
        if pair is None:
            raise UnsupportedEventError(f"{self} has no privacy profile: use its zCDP or RDP curve")
        return pair

    def accepts(self, adjacency: Adjacency) -> bool:
        """Returns whether the event is meaningful under ``adjacency``."""
        return self.adjacencies is None or adjacency in self.adjacencies

    def children(self) -> tuple[PrivacyEvent, ...]:
        """Returns the events that this one is built from."""
        return ()


@frozen
class NoEvent(PrivacyEvent):
    """The cost of an access that reveals nothing: post-processing, or a release that the changed records don't reach.

    Example:
      >>> from hockeystick.accounting import NO_EVENT, Gaussian, compose
      >>> compose() == Gaussian(1.0).at(0) == NO_EVENT, NO_EVENT.pure_epsilon()
      (True, 0.0)
    """

    def _scaled(self, distance: float) -> PrivacyEvent:
        return self

    def pure_epsilon(self) -> float:
        return 0.0

    def pair(self) -> DominatingPair:
        return Atoms((0.0,), (1.0,))


NO_EVENT = NoEvent()
"""The only value of ``NoEvent``, and the composition of no events."""
