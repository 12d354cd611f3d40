"""The base class of events that are built from other events."""

from __future__ import annotations

from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import UnsupportedEventError
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent


class BuiltEvent(PrivacyEvent):
    """Base of events built from ``children``, with their common norm and the relations that all of them accept.

    A subclass overrides ``children`` unless it has a single child, in the field ``event``.
    """

    __slots__ = ()
    event: PrivacyEvent

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    @property
    def norm(self) -> str:  # type: ignore[override]
        norms = {event.norm for event in self.children() if event != NO_EVENT}
        if len(norms) > 1:
            raise UnsupportedEventError(
                f"events in different norms ({', '.join(sorted(norms))}) have no common distance: "
                "scale each with .at() or give each its own release"
            )
        return norms.pop() if norms else "records"

    def accepts(self, adjacency: Adjacency) -> bool:
        return super().accepts(adjacency) and all(event.accepts(adjacency) for event in self.children())

    def has_profile(self) -> bool:
        return all(event.has_profile() for event in self.children())


class Termwise(BuiltEvent):
    """Base of built events that are scaled, and have directions, child by child."""

    __slots__ = ()

    def _with(self, events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
        """Returns the same construction from other events, in the order of ``children``."""
        raise NotImplementedError

    def _scaled(self, distance: float) -> PrivacyEvent:
        return self._with(tuple(event.at(distance) for event in self.children()))

    def directions(self) -> tuple[PrivacyEvent, ...]:
        # All children with P the data set that holds the record, then all with P the other one.
        ways = [event.directions() for event in self.children()]
        most = max((len(way) for way in ways), default=1)
        if most == 1:
            return (self,)
        return tuple(self._with(tuple(way[min(i, len(way) - 1)] for way in ways)) for i in range(most))
