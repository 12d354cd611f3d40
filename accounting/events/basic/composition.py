"""Events built from events: composition, parallel composition, and a mixture by a public coin.

| event           | pure, zCDP, failure | RDP(α)                          | profile δ(ε)              |
|-----------------|---------------------|---------------------------------|---------------------------|
| Composed        | sum                 | sum                             | product of pairs          |
| Parallel        | maximum             | maximum                         | maximum                   |
| VisibleMixture  | inner               | ln(1−r+r·e^{(α−1)·rdp})/(α−1)   | (1−r)·(1−e^ε)₊ + r·inner  |
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.losses.loss_grid import LossPmf, convolution, maximum, mixture
from hockeystick.accounting.losses.loss_of_mixture import mixed_up, moment_up
from hockeystick.accounting.numerics.directed_rounding import product_up, sum_up

Part = tuple[PrivacyEvent, int]


@frozen
class Composed(PrivacyEvent):
    """A sequence of accesses, each possibly chosen after seeing the outcomes of the ones before.

    ``parts`` is a multiset {event: count} in canonical order: build it with ``compose``, which flattens and merges, so
    that ten equal events in a list and one event with count 10 are the same value, and nothing is ``NO_EVENT``.
    """

    parts: tuple[Part, ...]

    def __attrs_post_init__(self) -> None:
        for part in validate.items("parts", self.parts):
            if not isinstance(part, tuple) or len(part) != 2:
                raise InvalidArgumentError("parts", part, "is no pair of an event and a count", "use compose")
            check_event(part[0])
            validate.integer("count", part[1], low=1)

    @property
    def norm(self) -> str:  # type: ignore[override]
        return _common_norm(event for event, _ in self.parts)

    @property
    def superadditive(self) -> bool:  # type: ignore[override]
        return all(event.superadditive for event, _ in self.parts)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return compose(*((event.at(distance), count) for event, count in self.parts))

    def pure_epsilon(self) -> float:
        return sum_up(product_up(count, event.pure_epsilon()) for event, count in self.parts)

    def zcdp_rho(self) -> float:
        return sum_up(product_up(count, event.zcdp_rho()) for event, count in self.parts)

    def _rdp(self, orders: Array) -> Array:
        total = np.zeros(np.shape(orders))
        for event, count in self.parts:
            total += count * event.rdp(orders)
        return total

    def failure_delta(self) -> float:
        return min(1.0, sum_up(product_up(count, event.failure_delta()) for event, count in self.parts))

    def accepts(self, adjacency: Adjacency) -> bool:
        return all(event.accepts(adjacency) for event, _ in self.parts)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for event, _ in self.parts)

    def directions(self) -> tuple[PrivacyEvent, ...]:
        ways = _in_each_direction(self.children())
        counts = [count for _, count in self.parts]
        return tuple(compose(*zip(events, counts, strict=True)) for events in ways) if len(ways) > 1 else (self,)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        return compose(*((event.replaced(removed, added), count) for event, count in self.parts))

    def has_profile(self) -> bool:
        return all(event.has_profile() for event in self.children())

    def loss_support(self) -> tuple[float, float]:
        ends = [(count * low, count * high) for event, count in self.parts for low, high in [event.loss_support()]]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return convolution([(discretise(event, step, upper), count) for event, count in self.parts], step, upper)


def compose(*parts: PrivacyEvent | tuple[PrivacyEvent, int]) -> PrivacyEvent:
    """Returns the adaptive composition of events, each alone or with a count: ``compose(a, (b, 100))``.

    Compositions inside are flattened and equal events merged; a single event with count 1 is returned as it is.

    Raises:
      InvalidArgumentError: a part is no event, or a count is no integer ≥ 0.
    """
    counts: dict[PrivacyEvent, int] = {}

    def add(event: PrivacyEvent, count: int) -> None:
        check_event(event)
        if isinstance(event, Composed):
            for inner, times in event.parts:
                add(inner, times * count)
        elif count and event != NO_EVENT:
            counts[event] = validate.integer("count", counts.get(event, 0) + count)  # a product may leave the floats

    for part in parts:
        event, count = part if isinstance(part, tuple) else (part, 1)
        add(event, validate.integer("count", count, low=0))
    if not counts:
        return NO_EVENT
    if len(counts) == 1:
        ((only, times),) = counts.items()
        if times == 1:
            return only
    return Composed(tuple(sorted(counts.items(), key=lambda item: repr(item[0]))))


@frozen
class Parallel(PrivacyEvent):
    """One of several events, and not more than one, was met by the changed record; which one is anybody's guess.

    Blocks of a partition, the moves of a neighbouring relation, the two orders of a decision. It composes further in
    every curve, also where the branch was chosen by earlier outcomes. Build it with ``parallel``.

    It has no rule for groups: several records may meet several branches. A graph knows who meets what.
    """

    branches: tuple[PrivacyEvent, ...]

    def __attrs_post_init__(self) -> None:
        for event in validate.items("branches", self.branches):
            check_event(event)

    @property
    def norm(self) -> str:  # type: ignore[override]
        return _common_norm(self.branches)

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance > 1.0:
            raise UnsupportedEventError(
                f"branches have no rule at distance {distance:g}: several records may meet several of them; "
                "ask the graph for guarantee(group=...)"
            )
        return Parallel(tuple(event.at(distance) for event in self.branches))

    def pure_epsilon(self) -> float:
        return max(event.pure_epsilon() for event in self.branches)

    def zcdp_rho(self) -> float:
        return max(event.zcdp_rho() for event in self.branches)

    def _rdp(self, orders: Array) -> Array:
        return np.asarray(np.max([event.rdp(orders) for event in self.branches], axis=0))

    def failure_delta(self) -> float:
        return max(event.failure_delta() for event in self.branches)

    def accepts(self, adjacency: Adjacency) -> bool:
        return all(event.accepts(adjacency) for event in self.branches)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return self.branches

    def directions(self) -> tuple[PrivacyEvent, ...]:
        ways = _in_each_direction(self.branches)
        return tuple(parallel(*events) for events in ways) if len(ways) > 1 else (self,)

    def has_profile(self) -> bool:
        return all(event.has_profile() for event in self.branches)

    def loss_support(self) -> tuple[float, float]:
        ends = [event.loss_support() for event in self.branches]
        return min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return maximum([discretise(branch, step, upper) for branch in self.branches], upper)


def parallel(*events: PrivacyEvent) -> PrivacyEvent:
    """Returns the parallel composition of events; equal ones are merged, one alone is returned as it is.

    Raises:
      InvalidArgumentError: an argument is no event.
    """
    branches: set[PrivacyEvent] = set()
    for event in events:
        check_event(event)
        branches.update(event.branches if isinstance(event, Parallel) else (event,))
    if not branches:
        return NO_EVENT
    return events[0] if len(events) == 1 else Parallel(tuple(sorted(branches, key=repr)))


@frozen
class VisibleMixture(PrivacyEvent):
    """With probability ``probability`` the event happens, else nothing, and everybody sees which.

    The coin must have the same law in both worlds given what is already public. As it is seen, this is no
    amplification by sampling: that needs a *secret* choice.
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field()

    @event.validator
    def _event_is_event(self, _: object, value: object) -> None:
        check_event(value)

    @property
    def norm(self) -> str:  # type: ignore[override]
        return self.event.norm

    def _scaled(self, distance: float) -> PrivacyEvent:
        return VisibleMixture(self.probability, self.event.at(distance))

    def pure_epsilon(self) -> float:
        return self.event.pure_epsilon() if self.probability else 0.0

    def zcdp_rho(self) -> float:
        return self.event.zcdp_rho() if self.probability else 0.0

    def _rdp(self, orders: Array) -> Array:
        a, r = np.asarray(orders, dtype=float), self.probability
        if r == 0.0:
            return np.zeros_like(a)
        inner = self.event.rdp(a)
        return np.asarray(np.minimum(mixed_up(moment_up(inner, a), r) / (a - 1), inner))

    def failure_delta(self) -> float:
        return self.probability * self.event.failure_delta()

    def accepts(self, adjacency: Adjacency) -> bool:
        return self.event.accepts(adjacency)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def directions(self) -> tuple[PrivacyEvent, ...]:
        ways = self.event.directions()
        return tuple(VisibleMixture(self.probability, event) for event in ways) if len(ways) > 1 else (self,)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        return VisibleMixture(self.probability, self.event.replaced(removed, added))

    def has_profile(self) -> bool:
        return self.event.has_profile()

    def loss_support(self) -> tuple[float, float]:
        low, high = self.event.loss_support()
        return min(0.0, low), max(0.0, high)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return mixture(discretise(self.event, step, upper), self.probability)


def _in_each_direction(events: tuple[PrivacyEvent, ...]) -> list[tuple[PrivacyEvent, ...]]:
    """All events with P the world that holds the record, then all with P the other; one entry where all are free."""
    ways = [event.directions() for event in events]
    most = max((len(way) for way in ways), default=1)
    return [tuple(way[min(i, len(way) - 1)] for way in ways) for i in range(most)]


def _common_norm(events: Iterable[PrivacyEvent]) -> str:
    norms = {event.norm for event in events if event != NO_EVENT}
    if len(norms) > 1:
        raise UnsupportedEventError(
            f"events in different norms ({', '.join(sorted(norms))}) have no common distance: "
            "scale each with .at() or give each its own release"
        )
    return norms.pop() if norms else "records"
