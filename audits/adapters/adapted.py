"""Targets made of another library's objects, with a claim and a pair of neighbouring data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import items
from hockeystick.audits.claims.claim import Claim


def pair(neighbours: object) -> tuple[Any, Any]:
    """Returns ``neighbours`` as a pair of data sets.

    Raises:
      InvalidArgumentError: it does not have two items.
    """
    found = items("neighbours", neighbours)
    if len(found) != 2:
        raise InvalidArgumentError("neighbours", neighbours, f"holds {len(found)} data sets", "give two (d0, d1)")
    return found[0], found[1]


@frozen
class _Declared:
    """Base class of targets with a claim and a pair of neighbouring data sets."""

    name: str
    draw: Callable[..., Any] = field(repr=False)
    _claim: Claim
    _neighbours: tuple[Any, Any] = field(converter=pair)
    repeatable: bool = field(default=False, kw_only=True)

    def claim(self) -> Claim:
        """Returns the library's claim for its mechanism, at the distance of the neighbours."""
        return self._claim

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns the caller's pair, or otherwise a canonical pair at the largest distance that the claim covers."""
        return self._neighbours


@frozen
class Adapted(_Declared):
    """Another library's mechanism as a target that returns one output a call.

    Attributes:
      name: library, version and kind of mechanism.
      draw: ``draw(data, rng)`` returns one output; many libraries have their own source of randomness and ignore
        ``rng``.
      repeatable: whether outputs are a function of data and ``rng``. If not, a verdict's seed repeats the audit's
        choices but not the outputs, and the error rate holds *per run*.

    Example:
      >>> import hockeystick as hs
      >>> target = hs.audits.Adapted("noisy sum", lambda data, rng: sum(data) + rng.laplace(), hs.Claim(1.0), ([1], []))
      >>> hs.audit(target, samples=200, rng=1).outcome  # the claim and the neighbours are the target's own
      'inconclusive'
    """

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        return self.draw(data, rng)


@frozen
class AdaptedBatch(_Declared):
    """Another library's mechanism as a target that returns many outputs a call.

    Attributes:
      name, repeatable: as in :class:`Adapted`.
      draw: ``draw(data, rng, runs)`` returns outputs with the runs on the leading axis.

    Example:
      >>> import hockeystick as hs
      >>> def draw(data, rng, runs):
      ...     return sum(data) + rng.laplace(size=runs)
      >>> hs.audit(hs.audits.AdaptedBatch("noisy sum", draw, hs.Claim(1.0), ([1], [])), samples=20_000, rng=1).outcome
      'consistent'
    """

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns ``runs`` outputs on data set ``value``, with the runs on the leading axis."""
        return self.draw(value, rng, runs)
