"""Events built from events: composition, parallel composition, and a mixture by a public coin.

| event           | pure, zCDP, failure | RDP(α)                          | profile δ(ε)              |
|-----------------|---------------------|---------------------------------|---------------------------|
| Composed        | sum                 | sum                             | product of pairs          |
| Parallel        | maximum             | maximum                         | maximum                   |
| VisibleMixture  | inner               | ln(1−r+r·e^{(α−1)·rdp})/(α−1)   | (1−r)·(1−e^ε)₊ + r·inner  |
"""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.built_event import Termwise
from hockeystick.accounting.events.basic.checked_event import check_event, is_event
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.losses.loss_grid import LossPmf, convolution, maximum, mixture
from hockeystick.accounting.losses.loss_of_mixture import mixed_up, moment_up
from hockeystick.accounting.numerics.directed_rounding import product_up, sum_up

Part = tuple[PrivacyEvent, int]


@frozen
class Composed(Termwise):
    """An adaptive composition: a sequence of accesses, each of which may depend on the outcomes of the earlier ones.

    Build it with ``compose``, which flattens and merges: ten equal events in a list and one event with count 10 are the
    same value, and an empty composition is ``NO_EVENT``.

    Attributes:
      parts: the multiset (event, count), … in canonical order.

    Example:
      >>> from hockeystick.accounting import Gaussian, PureDP, compose
      >>> compose((Gaussian(5.0), 60), PureDP(0.5), (Gaussian(5.0), 40)).parts
      ((Gaussian(noise_multiplier=5.0), 100), (PureDP(epsilon=0.5), 1))
    """

    parts: tuple[Part, ...]

    def __attrs_post_init__(self) -> None:
        for part in validate.items("parts", self.parts):
            if not isinstance(part, tuple) or len(part) != 2:
                raise InvalidArgumentError("parts", part, "is not a pair of an event and a count", "use compose")
            check_event(part[0])
            field_checks.count(part[1])

    @property
    def superadditive(self) -> bool:  # type: ignore[override]
        return all(event.superadditive for event, _ in self.parts)

    def _with(self, events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
        return compose(*((event, count) for event, (_, count) in zip(events, self.parts, strict=True)))

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        return self._with(tuple(event.replaced(removed, added) for event in self.children()))

    def pure_epsilon(self) -> float:
        return sum_up(product_up(count, event.pure_epsilon()) for event, count in self.parts)

    def zcdp_rho(self) -> float:
        return sum_up(product_up(count, event.zcdp_rho()) for event, count in self.parts)

    def _rdp(self, orders: Array) -> Array:
        total = np.zeros(np.shape(orders))
        for event, count in self.parts:
            total += float(count) * event.rdp(orders)  # numpy below 2 makes objects of larger numbers than its own
        return total

    def failure_delta(self) -> float:
        return min(1.0, sum_up(product_up(count, event.failure_delta()) for event, count in self.parts))

    def children(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for event, _ in self.parts)

    def loss_support(self) -> tuple[float, float]:
        ends = [(count * low, count * high) for event, count in self.parts for low, high in [event.loss_support()]]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return convolution([(discretise(event, step, upper), count) for event, count in self.parts], step, upper)


def compose(*parts: PrivacyEvent | tuple[PrivacyEvent, int]) -> PrivacyEvent:
    """Returns the adaptive composition of events, each alone or with a count: ``compose(a, (b, 100))``.

    Compositions inside are flattened and equal events merged; a single event with count 1 is returned as it is.

    Raises:
      InvalidArgumentError: a part is not an event, or a count is not an integer from 0 to 1e100.

    Example:
      >>> from hockeystick.accounting import Gaussian, compose, epsilon
      >>> round(epsilon(compose((Gaussian(10.0), 100)), 1e-6).upper, 3)
      4.887
      >>> compose(Gaussian(2.0), Gaussian(2.0)) == compose((Gaussian(2.0), 2))
      True
    """
    counts: dict[PrivacyEvent, int] = {}

    def add(event: PrivacyEvent, count: int) -> None:
        check_event(event)
        if isinstance(event, Composed):
            for inner, times in event.parts:
                add(inner, times * count)
        elif count and event != NO_EVENT:
            counts[event] = field_checks.count(counts.get(event, 0) + count)

    for part in parts:
        event, count = part if isinstance(part, tuple) else (part, 1)
        add(event, field_checks.count(count, low=0))
    if not counts:
        return NO_EVENT
    if len(counts) == 1:
        ((only, times),) = counts.items()
        return only if times == 1 else Composed(((only, times),))  # without a name to sort by: laws may be long
    return Composed(tuple(sorted(counts.items(), key=lambda item: repr(item[0]))))


@frozen
class Parallel(Termwise):
    """A parallel composition: the changed record meets exactly one of several events, and the worst one is charged.

    The branches may be blocks of a partition, the moves of a neighbouring relation, or the two orders of a decision. It
    composes further in every curve, also where earlier outcomes choose the branch. Build it with ``parallel``.

    It has no rule for groups, as several records may meet several branches: use the guarantee of a graph.

    Attributes:
      branches: the events, in canonical order.

    Example:
      >>> from hockeystick.accounting import Laplace, PureDP, parallel
      >>> parallel(PureDP(0.5), Laplace(1.0)).pure_epsilon()
      1.0
    """

    branches: tuple[PrivacyEvent, ...]

    def __attrs_post_init__(self) -> None:
        for event in validate.items("branches", self.branches):
            check_event(event)

    def _with(self, events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
        return parallel(*events)

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance > 1.0:
            raise UnsupportedEventError(
                f"branches have no rule at distance {distance:g}: several records may meet several of them; "
                "use a graph's guarantee(group=...)"
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

    def children(self) -> tuple[PrivacyEvent, ...]:
        return self.branches

    def loss_support(self) -> tuple[float, float]:
        ends = [event.loss_support() for event in self.branches]
        return min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return maximum([discretise(branch, step, upper) for branch in self.branches], upper)


def parallel(*events: PrivacyEvent) -> PrivacyEvent:
    """Returns the parallel composition of events; equal ones are merged, and a single event is returned as it is.

    Raises:
      InvalidArgumentError: an argument is not an event.

    Example:
      >>> from hockeystick.accounting import Gaussian, Laplace, compose, epsilon, parallel
      >>> round(epsilon(parallel(Gaussian(5.0), Laplace(4.0)), 1e-6).upper, 3)  # either of the two
      0.834
      >>> round(epsilon(compose(Gaussian(5.0), Laplace(4.0)), 1e-6).upper, 3)  # both of them
      1.054
    """
    branches: set[PrivacyEvent] = set()
    for event in events:
        check_event(event)
        branches.update(event.branches if isinstance(event, Parallel) else (event,))
    if not branches:
        return NO_EVENT
    return events[0] if len(events) == 1 else Parallel(tuple(sorted(branches, key=repr)))


@frozen
class VisibleMixture(Termwise):
    """An event that a public coin triggers with probability ``probability``; otherwise the data are not accessed.

    Given what is already public, the coin must have the same law for both data sets. As everybody sees it, this is not
    amplification by sampling, which needs a *secret* choice.

    Attributes:
      probability: of the access, in [0, 1].
      event: the cost of the access.

    Example:
      >>> from hockeystick.accounting import PureDP, VisibleMixture, delta
      >>> event = VisibleMixture(0.1, PureDP(1.0))
      >>> event.pure_epsilon(), round(delta(event, 0.0).upper / delta(PureDP(1.0), 0.0).upper, 6)
      (1.0, 0.1)
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field(validator=is_event)

    def _with(self, events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
        return VisibleMixture(self.probability, *events)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        return VisibleMixture(self.probability, self.event.replaced(removed, added))

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

    def loss_support(self) -> tuple[float, float]:
        low, high = self.event.loss_support()
        return min(0.0, low), max(0.0, high)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return mixture(discretise(self.event, step, upper), self.probability)
