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
from hockeystick.accounting.interop.dp_accounting_events import ADJACENCY, Refusal, translate

_CHOICES = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE)


class Accountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc]  # dp-accounting is not typed
    """Composes events, native to dp-accounting or ours, and returns ε or δ by the best sound method.

    It takes the place of ``dp_accounting.rdp.RdpAccountant`` or ``dp_accounting.pld.PLDAccountant``, in
    ``dp_accounting.calibrate_dp_mechanism`` too. For structure (several sources, groups, parallel blocks) use
    ``AccountantGraph``.

    Args:
      neighboring_relation: a ``dp_accounting.NeighboringRelation``. None takes the relation under which all native
        events composed so far have a meaning: ADD_OR_REMOVE_ONE if possible, else REPLACE_ONE; an event that leaves
        neither is refused. Composing randomised response after a Gaussian therefore moves the Gaussian, too, to
        REPLACE_ONE; ``neighboring_relation`` says which it is. An explicit relation refuses what has no meaning under
        it.

    Raises:
      InvalidArgumentError: ``neighboring_relation`` is no ``dp_accounting.NeighboringRelation``.

    Under REPLACE_ONE a native Gaussian or Laplace event is at distance 2: its noise multiplier is meant for values
    whose norm is at most 1 per record. Events of ours are normalised already and taken as they are, and so is a ZCDp
    event: what they cost under the other relation nobody knows. With them the relation never moves to REPLACE_ONE
    unless it was asked for.

    >>> import dp_accounting
    >>> from hockeystick.accounting import Accountant
    >>> accountant = Accountant().compose(dp_accounting.GaussianDpEvent(1.0), 10)
    >>> round(accountant.get_epsilon(1e-6), 4)
    19.4237
    """

    def __init__(self, neighboring_relation: NeighboringRelation | None = None) -> None:
        if neighboring_relation is not None and not isinstance(neighboring_relation, NeighboringRelation):
            names = ", ".join(str(relation) for relation in NeighboringRelation)
            raise InvalidArgumentError("neighboring_relation", neighboring_relation, "is none", f"use one of {names}")
        super().__init__(_CHOICES[0] if neighboring_relation is None else neighboring_relation)
        self._choices = _CHOICES if neighboring_relation is None else (neighboring_relation,)
        # The composition under each relation that is still possible.
        self._events: dict[NeighboringRelation, PrivacyEvent] = dict.fromkeys(self._choices, NO_EVENT)
        self._normalised: object = None  # the first event that was stated for one relation, nobody said which

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
                reason += f"; what was composed before has a meaning under {self.neighboring_relation} alone"
            return self.CompositionErrorDetails(refusal.event, reason)
        normalised = self._normalised or _normalised(event)
        if normalised is not None and len(self._choices) > 1 and _CHOICES[0] not in composed:
            reason = (
                f"would move all to {next(iter(composed))}, and {normalised} does not say for which relation it is "
                "meant: give it, as neighboring_relation"
            )
            return self.CompositionErrorDetails(event, reason)
        if do_compose:
            self._normalised = normalised
            self._events = composed
            self._neighboring_relation = next(iter(composed))
        return None

    def compose(self, event: dp_accounting.DpEvent, count: int = 1) -> Accountant:
        """Adds ``count`` accesses at the cost of ``event``; nothing changes where that is refused.

        Raises:
          UnsupportedEventError: (dp-accounting's) a subevent is unknown or has no meaning under the relation.
          InvalidArgumentError: count is no integer ≥ 0.
        """
        # A native composition holds the caller's list: a copy keeps the ledger from changing afterwards.
        super().compose(copy.deepcopy(event), count)
        return self

    @property
    def event(self) -> PrivacyEvent:
        """Everything composed so far, as one event of ours."""
        return self._events[self.neighboring_relation]

    def bracket(self, target_delta: float) -> Bracket:
        """Returns ε at ``target_delta`` from above and below, and the winning method."""
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
    """The first event in a native tree whose cost is as declared under either relation; None where there is none."""
    match event:
        case PrivacyEvent():
            free = event in (NO_EVENT, NonPrivate()) or not all(event.accepts(ADJACENCY[one]) for one in _CHOICES)
            return None if free else event
        case dp_accounting.ZCDpEvent(rho=rho):
            return event if rho else None
        case dp_accounting.ComposedDpEvent(events=events):
            return next((found for inner in events if (found := _normalised(inner)) is not None), None)
        case dp_accounting.SelfComposedDpEvent(event=inner) | dp_event.RepeatAndSelectDpEvent(event=inner):
            return _normalised(inner)
    return None
