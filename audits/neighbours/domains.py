"""Domains: the data sets among which a search for neighbours takes its pairs.

A domain lists its canonical pairs (ends of ranges, extreme fillings, all moves of a set of answers), draws random
pairs, changes a pair slightly, and checks that two data sets are neighbours:

* :class:`hockeystick.audits.neighbours.records.FiniteRecords` and
  :class:`hockeystick.audits.neighbours.records.RealRecords`: data sets of records, and single records as the inputs of
  local randomisers;
* :class:`hockeystick.audits.neighbours.answers.Answers`: exact answers of queries, for mechanisms that take these;
* :class:`PairsFrom`: pairs made by the user's own functions.
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
    """The interface of a domain: pairs of neighbouring data sets, for a group of records under an adjacency.

    See :class:`FiniteRecords`, :class:`RealRecords`, :class:`Answers` and :class:`PairsFrom` for examples.
    """

    def canonical(self, adjacency: Adjacency, group: int) -> Sequence[NeighbourPair]:
        """Returns the pairs to try first, the most promising first."""
        ...

    def random_pair(self, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns two random data sets."""
        ...

    def mutate(self, pair: Pair, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns a slightly changed pair."""
        ...

    def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
        """Returns the number of records in which two data sets differ; raises NotNeighboursError if it is too large."""
        ...


def group_pairs(domain: Domain, adjacency: Adjacency, *, group: int = 1) -> tuple[NeighbourPair, ...]:
    """Returns the canonical pairs of a domain for a group of records, checked to be neighbours.

    Args:
      domain: the domain.
      adjacency: the neighbouring relation.
      group: number of records that may differ; 1 for local adjacency.

    Raises:
      InvalidArgumentError: the domain has no room for the group, or no such relation.
      NotNeighboursError: the domain made a pair that is not one of neighbours.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import FiniteRecords, group_pairs
      >>> pairs = group_pairs(FiniteRecords(values=[0, 1], most=3), Adjacency.ADD_OR_REMOVE_ONE, group=2)
      >>> pairs[0].d0, pairs[0].d1
      ([0], [0, 0, 0])
    """
    group = known_group(adjacency, group)
    pairs = tuple(domain.canonical(adjacency, group))
    for pair in pairs:
        domain.check(pair.d0, pair.d1, adjacency, group)
    return pairs


@frozen
class PairsFrom:
    """The domain of pairs made by the user's own functions.

    Attributes:
      random: ``random(rng)`` returns two data sets.
      change: ``change(pair, rng)`` returns a slightly changed pair; default: a new random pair, so that the search does
        not climb.
      first: pairs to try first.
      distance: ``distance(d0, d1)`` returns the number of records in which two data sets differ, or None if they are
        not related. Default: :func:`hockeystick.audits.neighbours.pairs.record_distance`, for sequences of records. The
        search relies on this function to ensure that pairs are neighbours.
      ordered, null: as in :func:`hockeystick.audits.neighbours.pairs.record_distance`.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import PairsFrom
      >>> def random_pair(rng):
      ...     ages = rng.integers(18, 90, size=3).tolist()
      ...     return ages, ages[:-1]
      >>> domain = PairsFrom(random_pair)
      >>> d0, d1 = domain.random_pair(np.random.default_rng(1), Adjacency.ADD_OR_REMOVE_ONE, group=1)
      >>> domain.check(d0, d1, Adjacency.ADD_OR_REMOVE_ONE, group=1)
      1
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
        """Returns a pair from ``change``, or from ``random`` if ``change`` is None."""
        return self.random(rng) if self.change is None else self.change(pair, rng)

    def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
        """Returns the number of records in which two data sets differ; raises NotNeighboursError if it is too large."""
        if self.distance is None:
            return check_neighbours(d0, d1, adjacency, group=group, ordered=self.ordered, null=self.null)
        return checked_distance(self.distance(d0, d1), d0, d1, adjacency, group)
