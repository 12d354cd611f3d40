"""The search for an event that tells two data sets apart, on the samples set aside for choosing.

Candidates are sets of cells of several partitions (:mod:`.partitions`): half-lines of a feature, and the cells whose
likelihood ratio exceeds a cut. Cells are ranked on one fold and counted on the other, so that a ranking is not rated on
the noise it was made from. Nothing here needs to be right for the verdict to be valid: a bad event only costs power.

A rare event has many rivals that are as rare, and the best of them owes most to chance; so an event of probability p
has to stand sqrt(2 log(1/p)) standard errors higher, about what chance gives the best of 1/p; and one more if it is a
set of cells where a half-line would do, or rests on a score that was fitted. The best after this handicap is
 * if some candidates refute the claim almost surely: the one with the largest predicted lower bound on epsilon;
 * else, if some point against the claim: the one whose excess over it is largest in standard errors;
 * else: the largest predicted lower bound among those through which a violation would be seen soonest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import special

from .bounds import sharpest_slope
from .cells import BoolArray, FloatArray, IntArray, Partition
from .claim import Claim
from .partitions import Evidence, bit_partitions, real_partitions

_SURE = 4.0  # standard errors beyond the critical value: refuted almost surely
_SUSPECT = 1.0  # standard errors above the claim, after the handicap, that point against it
_RIVALS = 6  # partitions by each rating that are counted again
_CUTS = 64  # of the likelihood ratio, per partition
_CURVE = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99])


@frozen(eq=False)
class Event:
    """An event, fixed before the counts that will be set against it.

    Attributes:
      partition: the cells.
      order: all cells, from the most to the least typical of the likelier data set.
      size: how many of them, from the front, make the event.
      direction: 0 if d0 is the likelier data set, 1 if d1 is.
      point: the claimed (epsilon, delta) that is to be refuted.
      q: the event's probability on the less likely data set, as estimated.
      slope: for the bound, see :func:`.bounds.frontier`.
      totals: counts of the choosing samples, shape (sides, cells).
      cuts: sizes of further events from the front of ``order``, for a trade-off curve.
      on_bits: whether the cells are bit patterns.
    """

    partition: Partition
    order: IntArray
    size: int
    direction: int
    point: tuple[float, float]
    q: float
    slope: float
    totals: IntArray
    cuts: IntArray
    on_bits: bool

    @property
    def chosen(self) -> BoolArray:
        mask = np.zeros(self.partition.cells, dtype=bool)
        mask[self.order[: self.size]] = True
        return mask

    def counts(self, cells: IntArray) -> tuple[int, int]:
        """Returns how often it happened on the likelier and on the other data set, from counts (sides, cells)."""
        inside = cells[:, self.chosen].sum(axis=1)
        return int(inside[self.direction]), int(inside[1 - self.direction])

    def __str__(self) -> str:
        return self.partition.words(self.chosen)


@frozen(eq=False)
class _Family:
    """Nested candidate events: the i-th holds the first ``sizes[i]`` cells of ``order``.

    It happened in ``x[i]`` of ``runs`` outputs on the likelier side and in ``y[i]`` on the other.
    """

    partition: Partition
    totals: IntArray  # counts per side and cell
    order: IntArray
    sizes: IntArray
    x: IntArray
    y: IntArray
    runs: int
    direction: int
    on_bits: bool
    handicap: float = 0.0


def choose_event(evidence: Evidence, claim: Claim, *, alpha: float, trials: int, on_bits: bool = False) -> Event:
    """Returns the most promising event.

    Args:
      evidence: the choosing samples.
      claim: what is to be refuted, at any one of its points.
      alpha, trials: level of the test to come, and its outputs from each data set.
      on_bits: search the bit patterns of floats too.
    """
    families = _families(real_partitions(evidence), evidence, on_bits=False)
    if on_bits:
        families += _families(bit_partitions(evidence), evidence, on_bits=True)
    return _best(families, claim, alpha, trials)


def rival_partitions(evidence: Evidence, claim: Claim, *, alpha: float, trials: int) -> list[Partition]:
    """Returns the few partitions that hold the most promising events, by standing and by predicted bound."""
    families = _families(real_partitions(evidence), evidence, on_bits=False)
    rated = _Rated.of(families, claim, alpha, trials)
    found: dict[int, Partition] = {}
    for rating in (rated.standing, rated.bound):
        best = np.array([rating[rated.owner == i].max() for i in range(len(families))])
        kept: set[int] = set()
        for i in np.argsort(-best, kind="stable"):
            if len(kept) < _RIVALS:
                kept.add(id(families[i].partition))
                found[id(families[i].partition)] = families[i].partition
    return list(found.values())


def choose_counted(
    partitions: list[Partition], tallies: list[IntArray], claim: Claim, *, alpha: float, trials: int
) -> Event:
    """Returns the most promising event, by counts (folds, sides, cells) of outputs that no partition was fitted to."""
    families = [f for pair in zip(partitions, tallies, strict=True) for f in _of_partition(*pair, on_bits=False)]
    return _best(families, claim, alpha, trials)


def choose_leak(evidence: Evidence, claim: Claim, *, alpha: float, trials: int) -> Event | None:
    """Returns the most promising event of bit patterns; None if the outputs are no floats whose patterns recur."""
    families = _families(bit_partitions(evidence), evidence, on_bits=True)
    return _best(families, claim, alpha, trials) if families else None


def steepest_ratio(event: Event) -> float:
    """Returns the largest absolute log-likelihood ratio that any cell surely has (two standard errors off)."""
    p, q = event.totals + 0.5
    return float(np.max(np.abs(np.log(p / q)) - 2 * np.sqrt(1 / p + 1 / q)))


def _families(partitions: Iterable[Partition], evidence: Evidence, *, on_bits: bool) -> list[_Family]:
    return [f for one in partitions for f in _of_partition(one, evidence.tally(one), on_bits=on_bits)]


def _of_partition(partition: Partition, tally: IntArray, *, on_bits: bool) -> list[_Family]:
    totals = tally.sum(axis=0)
    runs = int(totals[0].sum())
    found = list(_half_lines(partition, totals, runs)) if partition.ordered else []
    found += _by_ratio(partition, tally, totals, runs, on_bits)
    return [family for family in found if len(family.sizes)]


def _half_lines(partition: Partition, totals: IntArray, runs: int) -> Iterator[_Family]:
    cells = np.arange(partition.cells)
    sizes = cells[1:-1]
    for order in (cells, np.concatenate([cells[-2::-1], cells[-1:]])):  # the last cell holds no number
        inside = totals[:, order].cumsum(axis=1)[:, :-2]
        for side in (0, 1):
            x, y = inside[side], inside[1 - side]
            handicap = float(partition.folds is not None)
            yield _Family(partition, totals, order, sizes, x, y, runs, side, on_bits=False, handicap=handicap)


def _by_ratio(partition: Partition, tally: IntArray, totals: IntArray, runs: int, on_bits: bool) -> Iterator[_Family]:
    """Yields the events "the likelihood ratio is at least t", each fold counted by the other's ratios."""
    ratios = _log_ratio(totals), _log_ratio(2 * tally[0]), _log_ratio(2 * tally[1])
    known = totals.any(axis=0)
    for side, sign in ((0, 1.0), (1, -1.0)):
        ratio = np.where(known, sign * ratios[0], -np.inf)
        order = (-ratio).argsort(kind="stable")
        ranked = ratio[order]
        sizes = (ranked[1:] < ranked[:-1]).nonzero()[0] + 1
        if len(sizes) > _CUTS:
            sizes = np.unique(sizes[np.linspace(0, len(sizes) - 1, _CUTS).astype(int)])
        cut = (ranked[sizes - 1] + ranked[sizes]) / 2
        inside = np.zeros((2, len(sizes)), dtype=np.int64)
        for own, counts in ((ratios[1], tally[1]), (ratios[2], tally[0])):
            by = (-sign * own).argsort(kind="stable")
            reached = (-sign * own[by]).searchsorted(-cut, side="right")
            sums = np.zeros((2, partition.cells + 1), dtype=np.int64)
            counts[:, by].cumsum(axis=1, out=sums[:, 1:])
            inside += sums[:, reached]
        handicap = float(partition.ordered) + float(partition.folds is not None)
        yield _Family(partition, totals, order, sizes, inside[side], inside[1 - side], runs, side, on_bits, handicap)


def _log_ratio(counts: IntArray) -> FloatArray:
    return np.asarray(np.log((counts[0] + 0.5) / (counts[1] + 0.5)))


@frozen(eq=False)
class _Rated:
    """All events of some families, one after another, and what is expected of them in the test to come."""

    owner: npt.NDArray[np.intp]  # of each event, its family's number
    p: FloatArray
    q: FloatArray
    at: npt.NDArray[np.intp]  # the point of the claim that it stands against best
    excess: FloatArray  # over the claim there, in standard errors
    standing: FloatArray  # the same, after the handicap
    bound: FloatArray  # on epsilon, after the handicap

    @classmethod
    def of(cls, families: list[_Family], claim: Claim, alpha: float, trials: int) -> _Rated:
        owner = np.repeat(np.arange(len(families)), [len(family.sizes) for family in families])
        runs = np.array([family.runs for family in families])[owner]
        p = np.concatenate([family.x for family in families]) / (runs + 1)
        q = (np.concatenate([family.y for family in families]) + 1) / (runs + 1)
        q = np.minimum(q, 1.0)
        points = np.array(claim.points)
        ratio, delta = np.exp(np.minimum(points[:, 0], 300)), points[:, 1]
        error = np.sqrt((p * (1 - p))[:, None] + ratio**2 * (q * (1 - q))[:, None] + 1e-12) / math.sqrt(trials)
        excess = (p[:, None] - ratio * q[:, None] - delta) / error
        at = excess.argmax(axis=1)
        best = excess[np.arange(len(p)), at]
        handicap = np.sqrt(2 * np.log((runs + 1) / np.maximum(p * (runs + 1), 1)))
        handicap += np.array([family.handicap for family in families])[owner]
        handicap *= np.sqrt(
            trials / runs
        )  # chance works on the choosing samples; all else here is for the bounding ones
        bound = _predicted_bound(p, q, claim.delta, _critical(alpha) + handicap, trials)
        return cls(owner, p, q, at, best, best - handicap, bound)


def _critical(alpha: float) -> float:
    return -float(special.ndtri(alpha))


def _best(families: list[_Family], claim: Claim, alpha: float, trials: int) -> Event:
    rated, critical = _Rated.of(families, claim, alpha, trials), _critical(alpha)
    standing, bound = rated.standing, rated.bound
    if standing.max() >= critical + _SURE:
        pick = int(np.where(standing >= critical + _SURE, bound, -np.inf).argmax())
    elif standing.max() >= _SUSPECT:
        pick = int(standing.argmax())
    else:
        soon = _detectable(rated.q, claim, critical, trials) <= max(2 * claim.epsilon, claim.epsilon + 0.1)
        pick = int(np.where(soon, bound, -np.inf).argmax() if soon.any() else bound.argmax())
    family, p, q = families[rated.owner[pick]], float(rated.p[pick]), float(rated.q[pick])
    size = int(family.sizes[pick - np.searchsorted(rated.owner, rated.owner[pick])])
    point = claim.points[rated.at[pick]]
    noise = max(1.0, math.sqrt(trials / family.runs))  # of the excess, as seen in the choosing samples
    if abs(rated.excess[pick] - critical) <= 6 * noise:
        near, near_delta = point
    else:
        near, near_delta = max(0.0, float(_predicted_bound(p, q, claim.delta, critical, trials))), claim.delta
    return Event(
        partition=family.partition,
        order=family.order,
        size=size,
        direction=family.direction,
        point=point,
        q=q,
        # Few samples say too little of the pair (P, Q) to improve on the slope for those that nearly satisfy the claim.
        slope=math.exp(min(near, 25.0)) if noise > 2 else sharpest_slope(p, q, epsilon=near, delta=near_delta),
        totals=family.totals,
        cuts=_cuts(family),
        on_bits=family.on_bits,
    )


def _predicted_bound(
    p: FloatArray | float, q: FloatArray | float, delta: float, critical: FloatArray | float, trials: int
) -> FloatArray:
    """Returns the epsilon at which p exceeds e^epsilon q + delta by ``critical`` standard errors; -inf if none."""
    gain, factor = p - delta, critical**2 / trials
    spread_p, spread_q = factor * p * (1 - p), factor * q * (1 - q)
    constant = gain**2 - spread_p
    middle = q * gain
    root = np.sqrt(np.maximum(middle**2 - (q**2 - spread_q) * constant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((gain > 0) & (constant > 0), np.log(constant / (middle + root)), -np.inf))


def _detectable(q: FloatArray, claim: Claim, critical: float, trials: int) -> FloatArray:
    """Returns roughly the epsilon that would be refuted with probability 0.9 through an event with probability q."""
    ratio = math.exp(min(claim.epsilon, 300))
    p = np.minimum(ratio * q + claim.delta, 1.0)
    needed = p + (critical + 1.3) * np.sqrt((p * (1 - p) + ratio**2 * q * (1 - q)) / trials)
    return np.where(needed < 1, np.log(np.maximum(needed - claim.delta, 1e-300) / q), np.inf)


def _cuts(family: _Family) -> IntArray:
    """Returns sizes of events whose false-positive rates cover (0, 1)."""
    rates = np.cumsum(family.totals[1 - family.direction][family.order]) / max(1, family.runs)
    sizes = np.unique(np.searchsorted(rates, _CURVE) + 1)
    return sizes[sizes < len(rates)]
