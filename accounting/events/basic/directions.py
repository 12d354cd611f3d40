"""The base class of events that depend on which of the two data sets holds the changed record."""

from __future__ import annotations

from typing import TypeVar

import attrs

from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.composition import Parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf

DIRECTIONS = ("both", "removal", "addition")


def direction(value: object) -> str:
    """Returns "both", "removal" (P is the output law with the record) or "addition"; a converter of attrs fields."""
    if not isinstance(value, str) or value not in DIRECTIONS:
        raise InvalidArgumentError("direction", value, "is unknown", f"give one of {', '.join(DIRECTIONS)}")
    return value


Self = TypeVar("Self", bound="DirectedEvent")


class DirectedEvent(PrivacyEvent):
    """Base of events with a field ``direction``; for "both" the profile is the pointwise maximum of the other two.

    A subclass defines ``_directed_pair``, or the law of its loss, for "removal" and "addition".
    """

    __slots__ = ()
    direction: str

    def directions(self: Self) -> tuple[PrivacyEvent, ...]:
        if self.direction != "both":
            return (self,)
        return self.towards("removal"), self.towards("addition")

    def towards(self: Self, direction: str) -> Self:
        """Returns the event in another direction."""
        return attrs.evolve(self, **{"direction": direction})

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        raise UnsupportedEventError(
            f"{self} has no rule for {removed} records that leave while {added} enter: "
            "build the graph under the other neighbouring relation, with the event for that relation"
        )

    def pair(self) -> DominatingPair | None:
        return None if self.direction == "both" else self._directed_pair()

    def _directed_pair(self) -> DominatingPair | None:
        return None

    def has_profile(self) -> bool:
        return True

    def loss_support(self) -> tuple[float, float]:
        if self.direction == "both":
            return Parallel(self.directions()).loss_support()
        return super().loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        if self.direction == "both":
            return Parallel(self.directions()).loss_law(step, upper)
        return super()._loss_law(step, upper)
