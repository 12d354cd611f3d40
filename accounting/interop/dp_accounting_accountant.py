"""A ``dp_accounting.PrivacyAccountant`` that returns the least of all sound bounds."""

from __future__ import annotations

import copy

import dp_accounting
from dp_accounting import NeighboringRelation, dp_event

from hockeystick.accounting import validate
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.declared import NonPrivate
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.interop.dp_accounting_events import ADJACENCY, DECLARED, Refusal, translate

_CHOICES = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE)


class Accountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc]  # dp-accounting is not typed
    """An accountant with the interface of dp-accounting that composes its events or ours and uses the best method.

    It replaces ``dp_accounting.rdp.RdpAccountant`` and ``dp_accounting.pld.PLDAccountant``, also in
    ``dp_accounting.calibrate_dp_mechanism``. For several sources, groups or parallel blocks use ``AccountantGraph``.

    Under REPLACE_ONE, dp-accounting's Gaussian and Laplace events are at distance 2, as their noise multiplier is for
    values whose norm is at most 1 per record. Our events, and ZCDp events, are stated for one relation and taken
    literally, as their cost under another relation is unknown. With them the relation never changes to REPLACE_ONE
    implicitly.

    Args:
      neighboring_relation: a ``dp_accounting.NeighboringRelation``, under which other events are refused. By default it
        is the relation under which all events composed so far have a meaning: ADD_OR_REMOVE_ONE if possible, otherwise
        REPLACE_ONE; an event that allows neither is refused. So composing randomised response after a Gaussian event
        moves the Gaussian event to REPLACE_ONE as well. The attribute ``neighboring_relation`` is the current relation.

    Raises:
      InvalidArgumentError: ``neighboring_relation`` is not a ``dp_accounting.NeighboringRelation``.

    Example:
      >>> import dp_accounting
      >>> from hockeystick.accounting import Accountant
      >>> accountant = Accountant().compose(dp_accounting.GaussianDpEvent(1.0), 10)
      >>> round(accountant.get_epsilon(1e-6), 4)
      19.4237
    """

    def __init__(self, neighboring_relation: NeighboringRelation | None = None) -> None:
        if neighboring_relation is not None and not isinstance(neighboring_relation, NeighboringRelation):
            names = ", ".join(str(relation) for relation in NeighboringRelation)
            reason = "is not a NeighboringRelation of dp_accounting"
            raise InvalidArgumentError("neighboring_relation", neighboring_relation, reason, f"use one of {names}")
        super().__init__(_CHOICES[0] if neighboring_relation is None else neighboring_relation)
        self._choices = _CHOICES if neighboring_relation is None else (neighboring_relation,)
        # The composition under each relation that is still possible.
        self._events: dict[NeighboringRelation, PrivacyEvent] = dict.fromkeys(self._choices, NO_EVENT)
        self._normalised: object = None  # the first event that is stated for one, unspecified, relation

    def _maybe_compose(
        self, event: dp_accounting.DpEvent, count: int, do_compose: bool
    ) -> dp_accounting.PrivacyAccountant.CompositionErrorDetails | None:
        validate.integer("count", count, low=0)
        refusal: Refusal | None = None
        composed: dict[NeighboringRelation, PrivacyEvent] = {}
        for relation, total in self._events.items():
            try:
                composed[relation] = compose(total, (translate(event, relation), count))
            except Refusal as error:
                refusal = refusal or error
        if not composed:
            assert refusal is not None
            reason = refusal.reason
            if len(self._choices) > 1 and len(self._events) < len(self._choices):
                reason += f"; the earlier events have a meaning only under {self.neighboring_relation}"
            return self.CompositionErrorDetails(refusal.event, reason)
        normalised = self._normalised or _normalised(event)
        if normalised is not None and len(self._choices) > 1 and _CHOICES[0] not in composed:
            reason = (
                f"would change the relation to {next(iter(composed))}, and {normalised} does not state its relation: "
                "give it as neighboring_relation"
            )
            return self.CompositionErrorDetails(event, reason)
        if do_compose:
            self._normalised = normalised
            self._events = composed
            self._neighboring_relation = next(iter(composed))
        return None

    def compose(self, event: dp_accounting.DpEvent, count: int = 1) -> Accountant:
        """Adds ``count`` accesses at the cost of ``event``; a refusal changes nothing.

        Raises:
          UnsupportedEventError: (dp-accounting's) a subevent is unknown or has no meaning under the relation.
          InvalidArgumentError: count is not an integer ≥ 0.
        """
        # A composition of dp-accounting holds the caller's list: a copy protects the ledger from later changes.
        super().compose(copy.deepcopy(event), count)
        return self

    @property
    def event(self) -> PrivacyEvent:
        """All events so far, as one event of this library."""
        return self._events[self.neighboring_relation]

    def bracket(self, target_delta: float) -> Bracket:
        """Returns an upper and a lower bound on ε at ``target_delta``, and the best method."""
        return best_bound.epsilon(self.event, target_delta, bracket=True)

    def get_epsilon(self, target_delta: float) -> float:
        """Returns the least certified ε at ``target_delta``; inf if there is none.

        Raises:
          InvalidArgumentError: target_delta is not a number in [0, 1].
        """
        return best_bound.epsilon(self.event, target_delta).upper

    def get_delta(self, target_epsilon: float) -> float:
        """Returns the least certified δ at ``target_epsilon`` ≥ 0.

        Raises:
          InvalidArgumentError: target_epsilon is negative or not a number.
        """
        return best_bound.delta(self.event, target_epsilon).upper


def _normalised(event: object) -> object:
    """Returns the first event in a tree that is stated for one, unspecified, relation; None if there is none."""
    match event:
        case PrivacyEvent():
            free = event in (NO_EVENT, NonPrivate()) or not all(event.accepts(ADJACENCY[one]) for one in _CHOICES)
            return None if free else event
        case dp_accounting.ZCDpEvent(rho=rho):
            return event if rho else None
        case dp_accounting.DpEvent() if type(event).__name__ in DECLARED:
            return event
        case dp_accounting.ComposedDpEvent(events=events):
            return next((found for inner in events if (found := _normalised(inner)) is not None), None)
        case dp_accounting.SelfComposedDpEvent(event=inner) | dp_event.RepeatAndSelectDpEvent(event=inner):
            return _normalised(inner)
    return None
