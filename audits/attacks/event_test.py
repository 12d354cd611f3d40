"""The test of a chosen event: from its counts to a confidence region, and to what the test would have refuted."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import IntArray
from hockeystick.audits.attacks.event_choice import Event
from hockeystick.audits.bounds.both_orders import Tossed, both_frontier, detectable_epsilon, toss
from hockeystick.audits.bounds.two_counts import Region, clopper_pearson, detectable_probability, frontier
from hockeystick.audits.claims.claim import Claim


@frozen(eq=False)
class Bound:
    """The bound that the counts of an event give, and whether it refutes the claim.

    Attributes:
      inside: counts of the events, shape (likelier and other data set, 2); see ``Event.counts_of_both``.
      region: confidence region of the events' probabilities.
      refuted: whether the region excludes some claimed point.
      tested: the excluded point, or else the point for which the event was chosen.
      least, other: the least probabilities of an event (likelier data set, other one) that are refuted at ``tested`` in
        9 of 10 audits; the first is infinite if none is refuted so often.
    """

    inside: IntArray
    region: Region
    refuted: bool
    tested: tuple[float, float]
    least: float
    other: float

    @classmethod
    def of(
        cls, event: Event, cells: IntArray, trials: int, claim: Claim, *, alpha: float, rng: np.random.Generator
    ) -> Bound:
        """Returns the bound from counts that did not choose the event.

        Args:
          event: the event, or two events for both orders of the data sets.
          cells: counts of its cells, shape (sides, cells).
          trials: number of outputs from each data set.
          claim: the claim.
          alpha: level of the test.
          rng: tosses the coins of the test of both orders; independent of the outputs.
        """
        inside = event.counts_of_both(cells)
        tossed = toss(inside, trials, rng) if len(event.back) else None
        if tossed is None:
            x, y = (int(count) for count in inside[:, 0])
            region = frontier(x, trials, y, trials, slope=event.slope, alpha=alpha)
        else:
            region = both_frontier(tossed, slope=event.slope, alpha=alpha)
        refuted = [point for point in (event.point, *claim.points) if region.refutes(*point)]
        tested = refuted[0] if refuted else event.point
        least, other = _refutable(event, tossed, trials, alpha, tested)
        return cls(inside, region, bool(refuted), tested, least, other)

    def blind(self, claim: Claim) -> bool:
        """Returns whether only a violation far beyond the claim would have been detected."""
        return self.detectable(claim.delta) > max(2 * claim.epsilon, claim.epsilon + 0.1)

    def detectable(self, delta: float) -> float:
        """Returns the least epsilon >= 0 that allows the least refutable probabilities at ``delta``."""
        if self.least == math.inf or self.other == 0.0:
            return math.inf
        return max(0.0, math.log((self.least - delta) / self.other)) if self.least > delta else 0.0


def error_rates(event: Event, cells: IntArray, trials: int, *, alpha: float) -> Iterator[tuple[float, ...]]:
    """Yields the error rates of events from the front of an event's order of cells, and their intervals.

    Each is (false positives, false negatives, interval of the first, interval of the second) as six numbers.
    """
    sizes = np.union1d(event.cuts, [event.size])
    likely, other = (np.cumsum(cells[side, event.order])[sizes - 1] for side in (event.direction, 1 - event.direction))
    fpr = clopper_pearson(other, trials, confidence=1 - alpha)
    fnr = clopper_pearson(trials - likely, trials, confidence=1 - alpha)
    columns = (other / trials, 1 - likely / trials, *fpr, *fnr)
    yield from (tuple(map(float, row)) for row in zip(*columns, strict=True))


def _refutable(
    event: Event, tossed: Tossed | None, trials: int, alpha: float, point: tuple[float, float]
) -> tuple[float, float]:
    """Returns the least probabilities that are refuted at ``point``; see :class:`Bound`."""
    epsilon, delta = point
    if tossed is None:
        return detectable_probability(trials, trials, event.q, alpha=alpha, epsilon=epsilon, delta=delta), event.q
    found = detectable_epsilon(tossed.trials, event.share, alpha=alpha, epsilon=epsilon, delta=delta)
    q = (event.share - delta) / (1 + math.exp(found)) if found < 700 else 0.0
    return event.share - q, q
