"""What an adapter makes of an outside library's object: a target that says what it claims and where to test it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import items
from hockeystick.audits.claims.claim import Claim


def pair(neighbours: object) -> tuple[Any, Any]:
    """Returns two data sets.

    Raises:
      InvalidArgumentError: not two.
    """
    found = items("neighbours", neighbours)
    if len(found) != 2:
        raise InvalidArgumentError("neighbours", neighbours, f"holds {len(found)} data sets", "give two (d0, d1)")
    return found[0], found[1]


@frozen
class Adapted:
    """An outside mechanism as a target that is called once per output.

        verdict = hs.audit(target, claim=target.claim())

    Attributes:
      name: library, version and what it is.
      draw: ``draw(data, rng)`` gives one output; many libraries take their randomness elsewhere and ignore ``rng``.
      repeatable: whether outputs are a function of data and ``rng``. If not, the seed of a verdict repeats the audit's
        own choices and not the outputs: another run draws others, and errs at the stated rate *per run*.
    """

    name: str
    draw: Callable[[Any, np.random.Generator], Any] = field(repr=False)
    _claim: Claim
    _neighbours: tuple[Any, Any] = field(converter=pair)
    repeatable: bool = field(default=False, kw_only=True)

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        return self.draw(data, rng)

    def claim(self) -> Claim:
        """Returns what the library says of its mechanism, on data sets as far apart as the neighbours are."""
        return self._claim

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns the pair that was given, or else a canonical one: the furthest apart that the claim covers."""
        return self._neighbours


@frozen
class AdaptedBatch:
    """An outside mechanism as a target that gives many outputs in one call. Attributes as in :class:`Adapted`.

    Attributes:
      draw: ``draw(data, rng, runs)`` gives outputs with the runs on the leading axis.
    """

    name: str
    draw: Callable[[Any, np.random.Generator, int], Any] = field(repr=False)
    _claim: Claim
    _neighbours: tuple[Any, Any] = field(converter=pair)
    repeatable: bool = field(default=False, kw_only=True)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns ``runs`` outputs on data set ``value``, with the runs on the leading axis."""
        return self.draw(value, rng, runs)

    def claim(self) -> Claim:
        """Returns what the library says of its mechanism, on data sets as far apart as the neighbours are."""
        return self._claim

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns the pair that was given, or else a canonical one: the furthest apart that the claim covers."""
        return self._neighbours
