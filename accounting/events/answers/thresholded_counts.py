"""Noisy counts of partitions that are published from a threshold on: the private selection of partitions.

A person is counted once in each of at most m partitions. A partition that nobody else is in is *new*: its count is 1
with her and it does not exist otherwise, so it is shown only with her, with probability p₀ = P(1 + noise ≥ threshold).
In an old partition the count moves by 1, and what is shown is a function of the noisy count. If j of her partitions are
new, the worst case is that all m − j others are old and so large that their noisy counts are always shown:

    P with her, Q without:  δ(ε) = 1 − (1−p₀)^j + (1−p₀)^j·δ_{m−j}(ε − j·ln(1−p₀)),
    P without her, Q with:  δ(ε) = δ_{m−j}(ε + j·ln(1−p₀)),

with δ_r the profile of r unit shifts. *Proof.* The noises are independent. Without her no new partition is shown. Given
that none is shown, which has probability (1−p₀)^j with her, the old counts have the laws of plain shifts, and the
likelihood ratio gains the factor (1−p₀)^j. Thus the pair is a product: j pairs ((1−p₀, p₀), (1, 0)) and m − j shifts.
The data fix j, so a guarantee is the maximum over j, never the sum of both ends: the noise alone (j = 0) and the
threshold alone (j = m) each have nearly all of δ.

If a person is replaced by another, j of the first one's and j′ of the second one's partitions are new, and the pair is
the product of both: removal with j, addition with j′.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

from attrs import evolve, field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.checked_event import is_boolean
from hockeystick.accounting.events.basic.composition import compose, parallel
from hockeystick.accounting.events.basic.directions import DirectedEvent, direction
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.given_laws import DiscretePair
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.losses.loss_grid import LossPmf, convolution, maximum, without_round_off

_PAIRS = 6  # partitions up to which all pairs of new ones, of both persons, have a bound of their own
_SINGLE = 16  # numbers of new partitions that have a bound of their own; larger ones share one with their next


def _partitions(value: int) -> int:
    return validate.integer("partitions", value, low=1, high=2**16)


def _shown(value: float) -> float:
    return validate.probability("shown", value)


@frozen
class ThresholdedCounts(DirectedEvent):
    """Noisy counts of the persons of each partition, published where they reach a threshold; see the module.

    A unit of distance is a person in at most ``partitions`` partitions, added or removed; with ``replacement`` replaced
    by a person in as many others. For more than 32 partitions, neighbouring numbers of new ones share a bound, and for
    more than 6 and replaced persons all numbers of the new person's do. That makes a difference only for a large p₀.

    Attributes:
      noise: the cost of the noise of one count that moves by 1.
      shown: p₀, the probability that a partition of one person is shown, rounded up.
      partitions: m.
      replacement: whether persons are replaced, instead of added or removed.
      direction: "both", or one order of the output laws alone: "removal" or "addition".

    Raises:
      InvalidArgumentError: the noise has no profile, or a number is outside its domain.

    Example: three partitions a person, and the sum of both failures for comparison.

      >>> from hockeystick.accounting import DiscreteGaussian, ThresholdedCounts, compose, delta
      >>> noise, shown = DiscreteGaussian(8.0), 3e-7
      >>> shifts = delta(compose((noise, 3)), 1.0).upper
      >>> event = ThresholdedCounts(noise, shown, 3)
      >>> round(1e6 * shifts, 3), round(1e6 * delta(event, 1.0).upper, 3), round(1e6 * (shifts + 3 * shown), 3)
      (0.138, 0.9, 1.038)
    """

    noise: PrivacyEvent
    shown: float = field(converter=_shown)
    partitions: int = field(converter=_partitions)
    replacement: bool = field(default=False, validator=is_boolean, kw_only=True)
    direction: str = field(default="both", converter=direction, kw_only=True)

    def __attrs_post_init__(self) -> None:
        noise = self.noise
        if not isinstance(noise, PrivacyEvent) or not noise.has_profile() or noise.failure_delta():
            raise InvalidArgumentError("noise", noise, "is not an event with a profile", "give DiscreteLaplace(scale)")
        if self.replacement and self.direction != "both":
            raise InvalidArgumentError(
                "direction", self.direction, "is for persons added or removed", "leave it out with replacement=True"
            )

    def accepts(self, adjacency: Adjacency) -> bool:
        if self.replacement:
            return adjacency is Adjacency.REPLACE_ONE
        return adjacency in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self, math.ceil(distance))

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        if self.replacement or (removed, added) != (1, 1):
            return self.at(removed + added)
        return evolve(self, replacement=True)

    def directions(self) -> tuple[PrivacyEvent, ...]:
        return (self,) if self.replacement else super().directions()

    def inner(self) -> PrivacyEvent:
        """Returns a composition of bounds for all numbers of new partitions, which no data set exceeds."""
        return _inner(self)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.noise,)

    def pure_epsilon(self) -> float:
        return self.inner().pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.inner().zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return self.inner().rdp(orders)

    def loss_support(self) -> tuple[float, float]:
        return self.inner().loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        if not self.replacement:
            law = self.inner().loss_law(step, upper)
        else:
            ways = (_one_way(self, "removal"), _one_way(self, "addition"))
            removed, added = ([discretise(one, step, upper) for one in way] for way in ways)
            if self.partitions > _PAIRS:
                added = [maximum(added, upper)]
            pairs = itertools.product(removed, added)
            law = maximum([convolution([(one, 1), (other, 1)], step, upper) for one, other in pairs], upper)
        known = 0.0 if self.direction == "addition" else 1.0 - (1.0 - self.shown) ** self.partitions
        return without_round_off(law, known) if upper else law


@lru_cache(maxsize=64)
def _inner(event: ThresholdedCounts) -> PrivacyEvent:
    if event.replacement:
        return compose(*(parallel(*_one_way(event, way)) for way in ("removal", "addition")))
    ways = ("removal", "addition") if event.direction == "both" else (event.direction,)
    return parallel(*(one for way in ways for one in _one_way(event, way)))


def _one_way(event: ThresholdedCounts, way: str) -> list[PrivacyEvent]:
    """Bounds for all numbers of new partitions in one order of the laws."""
    shown, not_there = (1.0 - event.shown, event.shown), (1.0, 0.0)
    laws = (shown, not_there) if way == "removal" else (not_there, shown)
    new = DiscretePair(*laws, orientation="forward")
    m = event.partitions
    return [compose((new, most), (event.noise, m - fewest)) for fewest, most in blocks(m)]


def blocks(partitions: int) -> list[tuple[int, int]]:
    """Returns the ends (inclusive) of blocks of numbers of new partitions, from 0 to ``partitions``.

    A block is charged for its largest number of new partitions and its largest number of old ones, which is at least as
    bad as each of its members: a further new partition is a further independent release.
    """
    found, first = [], 0
    while first <= partitions:
        last = min(partitions, first + max(1, first // _SINGLE) - 1)
        found.append((first, last))
        first = last + 1
    return found
