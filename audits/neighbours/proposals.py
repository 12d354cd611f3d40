"""The next pairs of a search for neighbours: canonical and random ones first, then changed copies of the best.

Every pair is checked to be neighbouring, and none is proposed twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.audits.neighbours.domains import Domain
from hockeystick.audits.neighbours.pairs import NeighbourPair, record_key

_BEAM = 4  # pairs that are changed in the next round
_CANONICAL = 0.75  # largest share of canonical pairs in the first round
_LEFT = 0.25  # largest share of the remaining canonical pairs in a later round
_CHANGED = 0.75  # share of changed pairs among the others; the rest is random
_TRIES = 20  # to find a pair that is new


@frozen(eq=False)
class Proposal:
    """A pair to rate.

    Attributes:
      number: number of the proposal in the search.
      pair: the pair.
      origin: "canonical", "random" or "changed".
    """

    number: int
    pair: NeighbourPair
    origin: str


@define(eq=False)
class Proposals:
    """The pairs of a domain, in the order in which a search rates them.

    Attributes:
      made: number of proposals so far.
    """

    domain: Domain
    adjacency: Adjacency
    group: int
    rng: np.random.Generator
    made: int = field(default=0, init=False)
    _known: set[Hashable] = field(factory=set, init=False)
    _canonical: list[NeighbourPair] = field(factory=list, init=False)  # those that are left

    def new(self, count: int, best: Sequence[NeighbourPair]) -> list[Proposal]:
        """Returns at most ``count`` pairs that were not proposed before.

        Args:
          count: the largest number of pairs.
          best: all rated pairs, the most promising first.
        """
        found = self._from_canonical(count)
        parents = best[:_BEAM]
        missing = count - len(found)
        changed = round(_CHANGED * missing) if parents else 0
        for number in range(missing):
            for _ in range(_TRIES):
                made = self._changed(parents) if number < changed else self._random()
                if made is not None:
                    found.append(made)
                    break
        return found

    def _from_canonical(self, count: int) -> list[Proposal]:
        found: list[Proposal] = []
        first = not self.made
        if first:
            self._canonical = list(self.domain.canonical(self.adjacency, self.group))
            front = max(1, count // 3)
            rest = self.rng.permutation(np.arange(front, len(self._canonical)))
            self._canonical[front:] = [self._canonical[i] for i in rest]
        most = max(1, int((_CANONICAL if first else _LEFT) * count))
        while self._canonical and len(found) < most:
            known = self._canonical.pop(0)
            if (made := self._proposal(tuple(known), known.why, "canonical")) is not None:
                found.append(made)
        return found

    def _changed(self, parents: Sequence[NeighbourPair]) -> Proposal | None:
        parent = parents[int(self.rng.integers(len(parents)))]
        return self._proposal(self.domain.mutate(tuple(parent), self.rng, self.adjacency, self.group), "", "changed")

    def _random(self) -> Proposal | None:
        return self._proposal(self.domain.random_pair(self.rng, self.adjacency, self.group), "", "random")

    def _proposal(self, pair: Any, why: str, origin: str) -> Proposal | None:
        """Returns a checked pair; None if its data sets are equal or it was proposed before."""
        try:
            d0, d1 = pair
        except (TypeError, ValueError):
            raise InvalidArgumentError("domain", pair, "made something that is not a pair of data sets") from None
        if self.domain.check(d0, d1, self.adjacency, self.group) == 0:
            return None
        try:
            key: Hashable = (record_key(d0), record_key(d1))
        except InvalidArgumentError:  # user-defined data that can't be compared: the pair may be rated again
            key = self.made
        if key in self._known:
            return None
        self._known.add(key)
        number, self.made = self.made, self.made + 1
        return Proposal(number, NeighbourPair(d0, d1, why or origin, self.adjacency, self.group), origin)
