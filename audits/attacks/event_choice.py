"""The search for an event that distinguishes two data sets, on the choosing samples.

Candidates are sets of cells of several partitions (:mod:`hockeystick.audits.attacks.partitions`): half-lines of a
feature, and the cells whose likelihood ratio exceeds a threshold. Cells are ranked on one fold and counted on the
other, so that no ranking is rated on its own noise. The verdict is valid with any event; a bad event only costs power.

Rare events have many rivals, and the best of many owes most to chance. So the excess of an event of probability p is
reduced by a handicap of sqrt(2 log(1/p)) standard errors, about what chance gives the best of 1/p events. The handicap
is one standard error more if the event is a set of cells where a half-line would do, one more if it rests on a fitted
score, and one more if it counts the words of an output, of which there may be hundreds of counts.

Pairs of disjoint events, one for each order of the data sets, are candidates as well
(:mod:`hockeystick.audits.bounds.both_orders`). Each partition contributes the best pair at each point of the claim, and
a pair suggested by a model of the likelihood ratio (:mod:`hockeystick.audits.attacks.half_lines`), which owes little
to chance and has no handicap for being rare. After the handicap, the best candidate is

 * if some candidates refute the claim almost surely: the one with the largest predicted lower bound on epsilon;
 * else, if some suggest a violation: the one with the largest excess over the claim in standard errors;
 * else: the one with the largest predicted lower bound, among those that would detect a violation soonest.

A candidate of a fitted score is rated by scores that were fitted to halves of the samples, and counted later by the one
that was fitted to all of them. Where a single output value is frequent, its three scores may lie on different sides of
the event's edge. The same holds for cells ranked by the ratios of half of the counts. So before a candidate is chosen,
its event is counted on the choosing samples as it will be counted later, and the worse of the two ratings holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby, permutations
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy import special

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.attacks.event_families import Family, families_of, families_of_partition
from hockeystick.audits.attacks.half_lines import suggested
from hockeystick.audits.attacks.partitions import Evidence, bit_partitions, real_partitions
from hockeystick.audits.bounds.both_orders import MOST_TRIALS, both_slope, tosses
from hockeystick.audits.bounds.two_counts import sharpest_slope
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.outputs.cells import Partition

_SURE = 4.0  # standard errors beyond the critical value: refuted almost surely
_SUSPECT = 1.0  # standard errors above the claim, after the handicap, that suggest a violation
_SUSPECT_CURVE = -1.0  # the same for a curve, which may be violated at another point than its delta
_ALONE = 1.0  # standard errors, of the choosing samples, by which one event has to beat a pair
_RIVALS = 6  # partitions by each rating that are counted again
_PAIRED = 40  # sizes of each of two events that are combined
_CURVE = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99])


@frozen(eq=False)
class Event:
    """An event that was fixed before its counts were seen, or two disjoint ones, one for each order of the data sets.

    Attributes:
      partition: the partition of the outputs into cells.
      order: all cells, from the most to the least typical of the likelier data set.
      size: the event consists of the first ``size`` cells of ``order``.
      direction: 0 if d0 is the likelier data set, 1 if d1 is.
      point: the claimed (epsilon, delta) to refute.
      q: estimated probability of the event on the less likely data set; for two events their mean.
      slope: the slope for :func:`hockeystick.audits.bounds.two_counts.frontier`, or for two events
        :func:`hockeystick.audits.bounds.both_orders.both_frontier`.
      totals: counts of the choosing samples, shape (sides, cells).
      cuts: sizes of further events from the front of ``order``, for a trade-off curve.
      on_bits: whether the cells are bit patterns.
      back: cells of the event for the other order; empty if there is one event.
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
    back: IntArray = field(factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def alone(self) -> float:
        """Estimated probability of the first event on the less likely data set."""
        _, y = self.counts(self.totals)
        return min(1.0, (y + 1) / (int(self.totals[0].sum()) + 1))

    @property
    def chosen(self) -> BoolArray:
        return self._mask(self.order[: self.size])

    def counts(self, cells: IntArray) -> tuple[int, int]:
        """Returns the event's counts on the likelier and on the other data set, from counts (sides, cells)."""
        inside = cells[:, self.chosen].sum(axis=1)
        return int(inside[self.direction]), int(inside[1 - self.direction])

    def counts_of_both(self, cells: IntArray) -> IntArray:
        """Returns the counts of this event and of that for the other order, shape (likelier and other data set, 2)."""
        back = cells[:, self._mask(self.back)].sum(axis=1)[[self.direction, 1 - self.direction]]
        return np.stack([self.counts(cells), back], axis=1)

    def __str__(self) -> str:
        return self.words()

    def words(self, *, exact: bool = False) -> str:
        """Returns the event in words, with all digits of its numbers if ``exact``."""
        return self.partition.words(self.chosen, exact=exact)

    @property
    def share(self) -> float:
        """Share of the choosing samples of both data sets in which either event happened."""
        return float(self.counts_of_both(self.totals).sum() / self.totals.sum())

    def words_back(self, *, exact: bool = False) -> str:
        """Returns the event for the other order in words; "" if there is none."""
        return self.partition.words(self._mask(self.back), exact=exact) if len(self.back) else ""

    def _mask(self, cells: IntArray) -> BoolArray:
        mask = np.zeros(self.partition.cells, dtype=bool)
        mask[cells] = True
        return mask


@frozen(eq=False)
class _Pair:
    """Two disjoint events for both orders, and their estimated mean probabilities.

    Attributes:
      at: number of each event in its family.
      plus, minus: mean probability of the events on the data set where each is likelier, and on the other.
      modelled: whether a model with few parameters suggested the pair, so that its excess owes little to chance.
    """

    families: tuple[Family, Family]
    at: tuple[int, int]
    plus: float
    minus: float
    modelled: bool

    @classmethod
    def of(cls, first: Family, second: Family, at: tuple[int, int], *, modelled: bool) -> _Pair:
        plus, minus = _rates(first, second, *at)
        return cls((first, second), at, float(plus), float(minus), modelled)

    def recounted(self, families: dict[int, Family]) -> _Pair:
        """Returns the pair with the counts of other families, given by the ids of its own; itself if there are none."""
        first, second = (families.get(id(one), one) for one in self.families)
        if (first, second) == self.families:
            return self
        return _Pair.of(first, second, self.at, modelled=self.modelled)


def choose_event(
    evidence: Evidence, claim: Claim, *, alpha: float, trials: int, on_bits: bool = False, both: bool = False
) -> Event:
    """Returns the most promising event.

    Args:
      evidence: the choosing samples.
      claim: the claim to refute, at any one of its points.
      alpha, trials: level of the later test, and its number of outputs from each data set.
      on_bits: whether to search the bit patterns of floats too.
      both: whether pairs of events for both orders are candidates.
    """
    families = families_of(real_partitions(evidence), evidence, on_bits=False)
    if on_bits:
        families += families_of(bit_partitions(evidence), evidence, on_bits=True)
    pairs = _pairs(families, claim, alpha, trials) if both else []
    return _best(families, pairs, claim, alpha, trials, evidence.recount)


def promise(evidence: Evidence, claim: Claim, *, alpha: float, trials: int) -> float:
    """Returns the largest predicted excess of an event over the claim, in standard errors beyond the critical value.

    It is that of a later test with ``trials`` outputs from each data set, after the handicap.
    """
    families = families_of(real_partitions(evidence), evidence, on_bits=False)
    rated = _Rated.of(families, _pairs(families, claim, alpha, trials), claim, alpha, trials)
    return float(rated.standing.max()) - _critical(alpha)


def rival_partitions(evidence: Evidence, claim: Claim, *, alpha: float, trials: int) -> list[Partition]:
    """Returns the few partitions with the most promising events, by standing and by predicted bound."""
    families = families_of(real_partitions(evidence), evidence, on_bits=False)
    rated = _Rated.of(families, [], claim, alpha, trials)
    found: dict[int, Partition] = {}
    for rating in (rated.standing, rated.bound):
        best = np.array([rating[rated.owner == i].max() for i in range(len(families))])
        chosen: set[int] = set()
        for i in np.argsort(-best, kind="stable"):
            if len(chosen) < _RIVALS:
                chosen.add(id(families[i].partition))
                found[id(families[i].partition)] = families[i].partition
    return list(found.values())


def choose_counted(
    partitions: list[Partition], tallies: list[IntArray], claim: Claim, *, alpha: float, trials: int
) -> Event:
    """Returns the most promising event by counts (folds, sides, cells) of outputs to which no partition was fitted."""
    families = [
        f for pair in zip(partitions, tallies, strict=True) for f in families_of_partition(*pair, on_bits=False)
    ]
    return _best(families, _pairs(families, claim, alpha, trials), claim, alpha, trials)


def choose_leak(evidence: Evidence, claim: Claim, *, alpha: float, trials: int) -> Event | None:
    """Returns the most promising event of bit patterns; None if the outputs are not floats whose patterns recur."""
    families = families_of(bit_partitions(evidence), evidence, on_bits=True)
    return _best(families, [], claim, alpha, trials) if families else None


def steepest_ratio(event: Event) -> float:
    """Returns the largest absolute log-likelihood ratio of any cell, less two standard errors."""
    p, q = event.totals + 0.5
    return float(np.max(np.abs(np.log(p / q)) - 2 * np.sqrt(1 / p + 1 / q)))


def _pairs(families: list[Family], claim: Claim, alpha: float, trials: int) -> list[_Pair]:
    """Returns pairs of events for both orders: the best at each point of the claim, and modelled ones."""
    if trials > MOST_TRIALS:
        return []
    alone = _Rated.of(families, [], claim, alpha, trials)
    targets = {*claim.points, (max(0.0, float(alone.bound.max())), claim.delta)}  # the last: predicted for one event
    points = np.array(sorted(targets))[:, :, None, None]
    ratio, delta = np.exp(np.minimum(points[:, 0], 300)), points[:, 1]
    found = []
    for _, group in groupby(families, key=lambda family: id(family.partition)):
        opposed = [pair for pair in permutations(group, 2) if pair[0].opposes(pair[1])]
        for first, second in opposed:
            found += _paired(first, second, ratio, delta, trials)
        found += _modelled([pair for pair in opposed if not pair[0].by_ratio], claim)
    return found


def _modelled(opposed: list[tuple[Family, Family]], claim: Claim) -> list[_Pair]:
    """Returns the pair of opposite half-lines of one partition that a model of the likelihood ratio suggests."""
    lines = suggested(opposed[0][0].totals[:, :-1], claim) if opposed else None  # the last cell holds no number
    if lines is None:
        return []
    for first, second in opposed:
        lower = first if first.order[0] == 0 else second
        if lower.direction == lines.side:
            at = lines.below - 1, lines.above - 1
            return [_Pair.of(first, second, at if lower is first else at[::-1], modelled=True)]
    return []


def _paired(first: Family, second: Family, ratio: FloatArray, delta: FloatArray, trials: int) -> list[_Pair]:
    """Returns the best pairs of two opposite families, one for each (ratio, delta), without repetitions.

    The search begins with the best pair from a grid of sizes, then tries all sizes of either event in turn.
    """
    divided = int(first.totals.any(axis=0).sum()) if first.by_ratio else first.partition.cells - 1
    outputs = 2 * (first.runs + 1)

    def standing(i: IntArray, j: IntArray) -> FloatArray:
        plus, minus = _rates(first, second, i, j)
        gap = plus - ratio * minus
        # The term 1e-12 avoids division by 0; it affects the choice of an event only.
        error = np.sqrt(np.maximum(plus + ratio**2 * minus - gap**2, 0.0) + 1e-12)
        found = (gap - delta) / error - _chance(plus, outputs) / math.sqrt(2 * first.runs)
        return np.where(first.sizes[i] + second.sizes[j] <= divided, found, -np.inf)

    every = [np.arange(len(one.sizes)) for one in (first, second)]
    some = [one[np.linspace(0, len(one) - 1, min(len(one), _PAIRED)).astype(int)] for one in every]
    grid = standing(some[0][:, None], some[1][None, :])
    if np.all(grid == -np.inf):
        return []
    rows, columns = np.unravel_index(grid.reshape(len(grid), -1).argmax(axis=1), grid.shape[1:])
    i, j = some[0][rows], some[1][columns]
    for _ in range(2):
        i = standing(every[0][:, None], j[:, None, None])[:, :, 0].argmax(axis=1)
        j = standing(i[:, None, None], every[1][None, :])[:, 0].argmax(axis=1)
    found = sorted(set(zip(i.tolist(), j.tolist(), strict=True)))
    return [_Pair.of(first, second, at, modelled=False) for at in found]


def _rates(first: Family, second: Family, i: Any, j: Any) -> tuple[FloatArray, FloatArray]:
    """Returns estimated mean probabilities of pairs (i, j) on the likelier data sets and on the other ones."""
    outputs = 2 * (first.runs + 1)
    return (first.x[i] + second.x[j]) / outputs, np.minimum((first.y[i] + second.y[j] + 1) / outputs, 1.0)


def _chance(p: FloatArray, outputs: FloatArray | int) -> FloatArray:
    """Returns the expected excess, in standard errors, of the best of 1/p events of probability p by chance alone."""
    return np.asarray(np.sqrt(2 * np.log(outputs / np.maximum(p * outputs, 1))))


@frozen(eq=False)
class _Rated:
    """All events of some families, then all pairs, with the predicted result of the later test for each.

    Attributes:
      owner: number of the event's family; pairs are numbered after all families.
      p, q: estimated probabilities.
      at: the point of the claim at which the excess is largest.
      excess: excess over the claim at that point, in standard errors.
      standing: the excess after the handicap.
      bound: predicted lower bound on epsilon, after the handicap.
      trials: trials from each data set; of a pair, from both.
      both: whether it is a pair.
    """

    owner: npt.NDArray[np.intp]
    p: FloatArray
    q: FloatArray
    at: npt.NDArray[np.intp]
    excess: FloatArray
    standing: FloatArray
    bound: FloatArray
    trials: FloatArray
    both: BoolArray

    @classmethod
    def of(cls, families: list[Family], pairs: list[_Pair], claim: Claim, alpha: float, trials: int) -> _Rated:
        single = np.repeat(np.arange(len(families)), [len(family.sizes) for family in families])
        owner = np.concatenate([single, len(families) + np.arange(len(pairs))])
        both = owner >= len(families)
        members = [(family,) for family in families] + [pair.families for pair in pairs]
        runs = np.array([sum(family.runs for family in group) for group in members])[owner]
        outputs = runs + np.where(both, 2, 1)
        p = np.concatenate([*(f.x / (f.runs + 1) for f in families), [pair.plus for pair in pairs]])
        q = np.concatenate([*((f.y + 1) / (f.runs + 1) for f in families), [pair.minus for pair in pairs]])
        q = np.minimum(q, 1.0)
        n = np.where(both, tosses(trials), trials)
        points = np.array(claim.points)
        ratio, delta = np.exp(np.minimum(points[:, 0], 300)), points[:, 1]
        spread = (p * (1 - p))[:, None] + ratio**2 * (q * (1 - q))[:, None] + 2 * ratio * (both * p * q)[:, None]
        # As above: the term 1e-12 avoids a division by 0.
        excess = (p[:, None] - ratio * q[:, None] - delta) / np.sqrt(spread + 1e-12) * np.sqrt(n)[:, None]
        at = excess.argmax(axis=1)
        best = excess[np.arange(len(p)), at]
        modelled = np.concatenate([np.zeros(len(single), dtype=bool), [pair.modelled for pair in pairs]])
        handicap = np.where(modelled, 0.0, _chance(p, outputs))
        handicap += np.array([sum(family.handicap for family in group) / len(group) for group in members])[owner]
        if pairs:
            handicap += np.where(both, 0.0, _ALONE)
        handicap *= np.sqrt(n / runs)  # from standard errors of the choosing samples to those of the bounding ones
        bound = _predicted_bound(p, q, claim.delta, _critical(alpha) + handicap, n, both)
        return cls(owner, p, q, at, best, best - handicap, bound, n, both)


def _critical(alpha: float) -> float:
    return -float(special.ndtri(alpha))


def _best(
    families: list[Family],
    pairs: list[_Pair],
    claim: Claim,
    alpha: float,
    trials: int,
    recount: Callable[[Partition], IntArray] | None = None,
) -> Event:
    """Returns the best candidate, as an event.

    Args:
      families, pairs: the candidates.
      claim, alpha, trials: as in :func:`choose_event`.
      recount: returns the counts (sides, cells) of the choosing samples by a fitted partition's final score; None if
        the candidates were counted by it already.
    """
    rated, critical = _Rated.of(families, pairs, claim, alpha, trials), _critical(alpha)
    if recount is None:
        pick = _promising(rated, claim, critical)
    else:
        pick = _confirmed(rated, families, pairs, claim, alpha, trials, recount)
    number = int(rated.owner[pick])
    if rated.both[pick]:
        family, at, back = _ordered(pairs[number - len(families)])
    else:
        family, at, back = families[number], pick - int(np.searchsorted(rated.owner, number)), np.empty(0, np.int64)
    p, q, n = float(rated.p[pick]), float(rated.q[pick]), rated.trials[pick]
    point = claim.points[rated.at[pick]]
    noise = max(1.0, math.sqrt(trials / family.runs))  # standard error of the excess, from the choosing samples
    if abs(rated.excess[pick] - critical) <= 6 * noise:
        near, near_delta = point
    else:
        bound = _predicted_bound(p, q, claim.delta, critical, n, rated.both[pick])
        near, near_delta = max(0.0, float(bound)), claim.delta
    sharpest = both_slope if rated.both[pick] else sharpest_slope
    return Event(
        partition=family.partition,
        order=family.order,
        size=int(family.sizes[at]),
        direction=family.direction,
        point=point,
        q=q,
        # With few samples, (P, Q) is known too poorly to improve on e^epsilon.
        slope=math.exp(min(near, 25.0)) if noise > 2 else sharpest(p, q, epsilon=near, delta=near_delta),
        totals=family.totals,
        cuts=_cuts(family),
        on_bits=family.on_bits,
        back=back,
    )


def _promising(rated: _Rated, claim: Claim, critical: float) -> int:
    """Returns the number of the best candidate, by the rule of the module's docstring."""
    standing, bound = rated.standing, rated.bound
    if standing.max() >= critical + _SURE:
        return int(np.where(standing >= critical + _SURE, bound, -np.inf).argmax())
    if standing.max() >= (_SUSPECT if len(claim.points) == 1 else _SUSPECT_CURVE):
        return int(standing.argmax())
    soon = _detectable(rated, claim, critical) <= max(2 * claim.epsilon, claim.epsilon + 0.1)
    return int(np.where(soon, bound, -np.inf).argmax() if soon.any() else bound.argmax())


def _confirmed(
    rated: _Rated,
    families: list[Family],
    pairs: list[_Pair],
    claim: Claim,
    alpha: float,
    trials: int,
    recount: Callable[[Partition], IntArray],
) -> int:
    """Returns the number of the best candidate by the worse of two ratings: as rated, and as it will be counted.

    The second rating is made for the partitions whose candidates would be chosen.
    """
    left, checked = rated, set[int]()
    while True:
        pick = _promising(left, claim, _critical(alpha))
        number = int(rated.owner[pick])
        family = pairs[number - len(families)].families[0] if rated.both[pick] else families[number]
        if id(family.partition) in checked:
            return pick
        checked.add(id(family.partition))
        counts = family.totals if family.partition.folds is None else recount(family.partition)
        again = {id(one): one.recounted(counts) for one in families if one.partition is family.partition}
        anew = _Rated.of(
            [again.get(id(one), one) for one in families],
            [pair.recounted(again) for pair in pairs],
            claim,
            alpha,
            trials,
        )
        standing, bound = np.minimum(left.standing, anew.standing), np.minimum(left.bound, anew.bound)
        left = evolve(left, standing=standing, bound=bound)


def _ordered(pair: _Pair) -> tuple[Family, int, IntArray]:
    """Returns the family and the number of the likelier of two events, and the cells of the other one.

    If both are equally likely, the order does not depend on which data set comes first.
    """

    def rank(one: tuple[Family, int]) -> tuple[int, int, int]:
        family, at = one
        return -int(family.x[at]), int(family.y[at]), int(family.order[0])

    (first, i), (second, j) = sorted(zip(pair.families, pair.at, strict=True), key=rank)
    return first, i, second.order[: second.sizes[j]]


def _predicted_bound(
    p: FloatArray | float,
    q: FloatArray | float,
    delta: float,
    critical: FloatArray | float,
    trials: FloatArray | float,
    both: BoolArray | bool,
) -> FloatArray:
    """Returns the epsilon at which p exceeds e^epsilon q + delta by ``critical`` standard errors; -inf if none."""
    gain, factor = p - delta, critical**2 / trials
    spread_p, spread_q = factor * p * (1 - p), factor * q * (1 - q)
    constant = gain**2 - spread_p
    middle = q * gain + both * factor * p * q  # plus and minus exclude each other in a trial
    root = np.sqrt(np.maximum(middle**2 - (q**2 - spread_q) * constant, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((gain > 0) & (constant > 0), np.log(constant / (middle + root)), -np.inf))


def _detectable(rated: _Rated, claim: Claim, critical: float) -> FloatArray:
    """Returns roughly the epsilon that would be refuted with probability 0.9 through each event."""
    ratio, q = math.exp(min(claim.epsilon, 300)), rated.q
    share = rated.p + q  # of two events: their total probability is held fixed
    q = np.where(rated.both, np.maximum(share - claim.delta, 0.0) / (1 + ratio), q)
    p = np.minimum(ratio * q + claim.delta, 1.0)
    spread = p * (1 - p) + ratio**2 * q * (1 - q) + 2 * ratio * rated.both * p * q
    excess = (critical + 1.3) * np.sqrt(spread / rated.trials)
    q = np.where(rated.both, q - excess / (1 + ratio), q)
    p = np.where(rated.both, share - q, p + excess)
    possible = np.where(rated.both, q > 0, p < 1)
    return np.where(possible, np.log(np.maximum(p - claim.delta, 1e-300) / np.maximum(q, 1e-300)), np.inf)


def _cuts(family: Family) -> IntArray:
    """Returns sizes of events whose false-positive rates cover (0, 1)."""
    rates = np.cumsum(family.totals[1 - family.direction][family.order]) / max(1, family.runs)
    sizes = np.unique(np.searchsorted(rates, _CURVE) + 1)
    return sizes[sizes < len(rates)]
