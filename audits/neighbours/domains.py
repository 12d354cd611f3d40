"""What a search for neighbours needs to know of the data sets there are, and pairs from a user's own functions.

A domain knows its canonical pairs (ends of ranges, extreme fillings, every way in which a set of answers can move),
draws random ones, changes a pair a little, and checks that a pair is one of neighbours:

* :class:`hockeystick.audits.neighbours.records.FiniteRecords` and
  :class:`hockeystick.audits.neighbours.records.RealRecords`: data sets of records, and single records as the inputs of
  local randomisers;
* :class:`hockeystick.audits.neighbours.answers.Answers`: the exact answers of queries, for mechanisms that are given
  those;
* :class:`PairsFrom`: whatever the user's own functions make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import Adjacency
from hockeystick.accounting.validate import items
from hockeystick.audits.neighbours.pairs import NeighbourPair, check_neighbours, checked_distance, known_group

Pair = tuple[Any, Any]
Rng = np.random.Generator


def _first(value: object) -> tuple[Any, ...]:
    return items("first", value)


class Domain(Protocol):
    """What a search for neighbours needs to know. Pairs are neighbours for a group under an adjacency."""

    def canonical(self, adjacency: Adjacency, group: int) -> Sequence[NeighbourPair]:
        """Returns the pairs to look at first, the most telling in front."""
        ...

    def random_pair(self, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns two data sets drawn at random."""
        ...

    def mutate(self, pair: Pair, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns a pair that differs from a given one in a detail."""
        ...

    def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
        """Returns in how many records two data sets differ; raises NotNeighboursError if they are no neighbours."""
        ...


def group_pairs(domain: Domain, adjacency: Adjacency, *, group: int = 1) -> tuple[NeighbourPair, ...]:
    """Returns the canonical pairs of a domain for a group of records, checked; for one input of a local randomiser too.

    Raises:
      InvalidArgumentError: the domain has no such pairs: no room for the group, or another relation.
      NotNeighboursError: a domain of the user's makes pairs that are none.
    """
    group = known_group(adjacency, group)
    pairs = tuple(domain.canonical(adjacency, group))
    for pair in pairs:
        domain.check(pair.d0, pair.d1, adjacency, group)
    return pairs


@frozen
class PairsFrom:
    """Pairs that the user's own functions make.

    Attributes:
      random: ``random(rng)`` returns two data sets.
      change: ``change(pair, rng)`` returns a pair that differs from a given one in a detail; by default a new random
        one, so that nothing climbs.
      first: pairs to look at first.
      distance: ``distance(d0, d1)`` returns in how many records two data sets differ, None if they are not related at
        all. By default :func:`hockeystick.audits.neighbours.pairs.record_distance`, which knows sequences of records.
        With a function of your own, that pairs are neighbours is your word.
      ordered, null: as for :func:`hockeystick.audits.neighbours.pairs.record_distance`.
    """

    random: Callable[[Rng], Pair]
    change: Callable[[Pair, Rng], Pair] | None = None
    first: tuple[Pair, ...] = field(default=(), converter=_first)
    distance: Callable[[Any, Any], int | None] | None = field(default=None, kw_only=True)
    ordered: bool = field(default=True, kw_only=True)
    null: Any = field(default=None, kw_only=True)

    def canonical(self, adjacency: Adjacency, group: int) -> Sequence[NeighbourPair]:
        """Returns the pairs in ``first``, in order; raises NotNeighboursError unless all are neighbours."""
        found = []
        for d0, d1 in self.first:
            self.check(d0, d1, adjacency, group)
            found.append(NeighbourPair(d0, d1, "given", adjacency, group))
        return found

    def random_pair(self, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns two data sets made by ``random``."""
        return self.random(rng)

    def mutate(self, pair: Pair, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns what ``change`` makes of a pair, or without it what ``random`` makes."""
        return self.random(rng) if self.change is None else self.change(pair, rng)

    def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
        """Returns in how many records two data sets differ; raises NotNeighboursError unless they are neighbours."""
        if self.distance is None:
            return check_neighbours(d0, d1, adjacency, group=group, ordered=self.ordered, null=self.null)
        return checked_distance(self.distance(d0, d1), d0, d1, adjacency, group)
