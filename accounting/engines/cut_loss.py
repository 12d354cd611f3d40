"""Bounds by the law of the loss where rare large losses would spoil it: the law is cut off just above ε.

A step on a small secret sample has losses within q of 0 but for a thin tail that reaches to 10 and more, and falls more
slowly than any exponential. A grid over all of it is too coarse near 0, and the tilt e^{λ·loss} makes far more of the
tail than it is worth. But a single loss above B, far enough above ε, decides alone. Let N be the number of losses above
B, S the total loss, and R what the other losses add up to. As E_P[e^{−S}; A] = Q(A) for any event A,

    E_P[(1 − e^{ε−S})₊; N ≥ 1]  ≥  P(N ≥ 1) − e^ε·Q(N ≥ 1)

and it is at most e^ε·Q(N ≥ 1, S < ε) above that, where Q(N ≥ 1, S < ε) ≤ Σ Q(L > B)·Q(R < ε − B) over the steps. By
Chernoff's inequality Q(R < −m) ≤ E_Q[e^{−aR}]·e^{−am} for every a > 0. With N = 0 the losses end at B, and
``engines/tilted_law.py`` sums over them. For mixtures of normals P(N ≥ 1) − Q(N ≥ 1) is a sum of positive terms, so
that nothing cancels however small the losses are.

Losses far below 0 are cut off too: raised to a level that they hardly ever pass, or left out from below. The levels
depend on ε, δ and the counts, and any others would give sound bounds. With them the grid has the scale of q.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting.engines.grid_plan import _AIM, LARGE, grid, is_large, parts_of
from hockeystick.accounting.engines.loss_distribution import Points, between, root_of, values
from hockeystick.accounting.engines.tilted_law import MAX_SIZE, Law, Tilted, TooLarge
from hockeystick.accounting.errors import NumericalError, UnsupportedEventError
from hockeystick.accounting.events.basic.composition import Composed
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import (
    EDGE_ERROR,
    RATIO_ERROR,
    Array,
    Cells,
    DominatingPair,
    GaussianPair,
)
from hockeystick.accounting.losses.loss_grid import DENSE, last_edge
from hockeystick.accounting.losses.normal_mixtures import ORIGIN, MixturePair, NormalMixture
from hockeystick.accounting.numerics import single_core
from hockeystick.accounting.numerics.directed_rounding import U

_DOWN = 1e-9  # of a sum: what raising losses from below may add to it
_MISSED = 1e-13  # of Q's mass above the level: what may belong to a total loss below ε
_UNSEEN = 1e-6  # of δ: the same
_LEVELS = 400  # of the sketch, on either side of 0
_REACH = 1e-8  # the smallest of them, in units of the largest
_MAX_CELLS = 2.0**20  # of one part's law
_MOST_CELLS = 2.0**21  # of the same where the grid would else be coarser than it should be by more than _COARSE
_COARSE = 2.0
_PIECE = 2**14  # of a law: what stays in the processor's cache
_BLOCKS = 16  # to a law's deviation, where blocks of its losses are enough
_MAX_IN_ALL = 2.0**22  # of all parts' laws: what a second or two makes
_FEW_CELLS = 2.0**19
_MANY_CELLS = 2.0**17
_COARSER = 3  # powers of 2
_HEAVY = 0.1
_REPEATED = 1000  # losses in all
_MOST_STEPS = 2.0**32  # of a sparse law
_SHORT = 2.0**15  # cells, with which the law is had in a tenth of a second
_TRIES = 5
_NEAR_TOP = 16  # cells: on a grid the other losses fall by more than they do
_STILL = 0.1  # of a plan's ε, times the tilt: the next plan would be the same
_CLOSE = 1.0  # the same for a guess
_SHARP = 1e-6  # a part of ε, or of δ(0)
_NEXT = 1e-9  # a part of δ(0)
_OF_DELTA = 0.1
LEAST_EPSILON = 1e-100  # below it tilts, near 1/ε, overflow
_SPREADS = 20.0  # deviations of the total loss in a window
_WRAPPED = 5e-5  # a part of ε, by a bound that is far above it
_ROOM = 1.02  # for the window of a finer law
_OFF = 1e-12  # of a mass: twice what it may be off by


@frozen
class CutPair(DominatingPair):
    """A pair with a support from ``low`` to ``high``; what lies above the cells asked for is left out."""

    pair: DominatingPair
    low: float
    high: float

    def cells(self, edges: Array) -> Cells:
        c = self.pair.cells(edges)
        return Cells(c.p, c.q, c.p_below, c.q_below, 0.0, 0.0, c.rise)

    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def infinity(self) -> float:
        return self.pair.infinity()


@frozen
class Cut(PrivacyEvent):
    """An event of one direction with its losses cut off, for the sums of ``engines/loss_distribution.py`` alone."""

    event: PrivacyEvent
    low: float
    high: float

    def pair(self) -> DominatingPair:
        return CutPair(_mixture_pair(self.event), self.low, self.high)


def _mixture_pair(event: PrivacyEvent) -> MixturePair:
    pair = event.pair()
    if isinstance(pair, GaussianPair):
        return MixturePair(NormalMixture((pair.mu,), (1.0,)), ORIGIN)
    if isinstance(pair, MixturePair):
        return pair
    raise UnsupportedEventError(f"{event} is not a mixture of normals, and its losses are not cut off")


class Sketch:
    """The law of the total loss on cells as narrow as the losses in them; good to a few per cent, and never a bound."""

    def __init__(self, event: PrivacyEvent) -> None:
        self.parts: list[tuple[MixturePair, int, float, Array, Array, Array]] = []
        counts = sum(count for _, count in parts_of(event))
        for inner, count in parts_of(event):
            pair = _mixture_pair(inner)
            low, high = pair.support()
            most = max(abs(low), abs(high), 1e-300)
            steps = np.geomspace(_REACH * most, most, _LEVELS)
            edges = np.unique(np.concatenate([-steps[steps < -low], steps[steps < high], [low, 0.0, high]]))
            if len(edges) < 2:
                raise UnsupportedEventError(f"{inner} has no loss that a float tells from 0, and nothing to cut off")
            cells = pair.cells(edges)
            seen = (cells.p > 1e-300) & (cells.q > 1e-300)
            middle = (edges[1:] + edges[:-1])[seen] / 2
            loss = np.clip(np.log(cells.p[seen]) - np.log(cells.q[seen]), edges[:-1][seen], edges[1:][seen])
            loss = np.where(np.abs(loss) > 1e-13, loss, middle)
            beneath = cells.q_below + np.cumsum(cells.q)  # Q's mass up to each upper edge
            (rare,) = np.nonzero(beneath * counts <= _MISSED)
            start = min(float(edges[rare[-1] + 1]), 0.0) if len(rare) else low
            self.parts.append((pair, count, start, np.log(cells.p[seen]), np.log(cells.q[seen]), loss))
        self._prepare_margin()

    def _prepare_margin(self) -> None:
        """ln E_Q[e^{−aR}] at several a, and the losses in descending order with Q's mass from the largest on."""
        spread = math.sqrt(sum(n * float(np.exp(q) @ np.maximum(x, s) ** 2) for _, n, s, _, q, x in self.parts))
        self.rates = np.geomspace(0.1, 100.0, 30) / max(spread, 1e-300)
        self.rest = np.zeros(len(self.rates))
        for _, count, start, _, log_q, loss in self.parts:
            y = log_q - np.multiply.outer(self.rates, np.maximum(loss, start))
            peak = y.max(axis=1)
            self.rest += float(count) * (peak + np.log(np.exp(y - peak[:, None]).sum(axis=1)))
        self.rest = np.maximum(self.rest, 0.0)
        self.floor = -sum(count * min(start, 0.0) for _, count, start, *_ in self.parts)
        self.tails = [(count, loss, np.cumsum(np.exp(log_q)[::-1])[::-1]) for _, count, _, _, log_q, loss in self.parts]

    def margin(self, epsilon: float, log_delta: float) -> float:
        """Returns an m for which Q(N ≥ 1, S < ε) is a negligible part of δ, N counting the losses above ε + m."""
        most = min(self.floor, float(np.min((self.rest - math.log(_MISSED)) / self.rates)))
        margins = most * np.geomspace(1e-4, 1.0, 200)
        above = sum(
            float(count) * np.append(tail, 0.0)[np.searchsorted(loss, epsilon + margins)]
            for count, loss, tail in self.tails
        )
        missed = np.minimum(0.0, (self.rest[:, None] - np.multiply.outer(self.rates, margins)).min(axis=0))
        with np.errstate(divide="ignore"):
            (enough,) = np.nonzero(np.log(above) + missed + epsilon <= log_delta + math.log(_UNSEEN))
        return float(margins[enough[0]]) if len(enough) else most

    def cumulant(self, tilt: float, level: float) -> tuple[float, float, float]:
        """Returns K, K' and K'' of the losses up to ``level``."""
        k = mean = variance = 0.0
        for _, count, start, log_p, _, loss in self.parts:
            inside = loss <= level
            losses = np.maximum(loss[inside], start)
            y = log_p[inside] + tilt * losses
            peak = float(y.max())
            w = np.exp(y - peak)
            total = float(w.sum())
            m = float(w @ losses) / total
            k += count * (peak + math.log(total))
            mean += count * m
            variance += count * float(w @ (losses - m) ** 2) / total
        return k, mean, variance

    def ends(self, tilt: float, level: float) -> list[tuple[float, float]]:
        """Returns between which losses each part is kept."""
        counts, found = sum(count for _, count, *_ in self.parts), []
        whole = all(pair.support()[1] <= level for pair, *_ in self.parts)
        for pair, _, start, log_p, _, loss in self.parts:
            low, high = pair.support()
            start = max(start, low)
            if whole and low < 0.0:  # where no part is cut off above, nobody asks how likely losses below are
                heavy = log_p + tilt * np.maximum(loss, low) > math.log(_DOWN / counts / len(loss))
                start = max(start, min(0.0, 1.2 * float(loss[heavy].min(initial=0.0))))
            found.append((start, min(high, level)))
        return found

    def tilt(self, epsilon: float, level: float) -> float:
        """Returns a tilt near the one at which the sum for δ(epsilon) is decided, and one that calms rare losses.

        With K the cumulant function, the sum's part of e^{K(λ) − λε} is what is not lost to round-off.
        """
        tilts = self._saddle(epsilon, level) * (1 - 0.03 * np.arange(12))
        found = [self.cumulant(float(tilt), level) for tilt in tilts]
        costs = [2 * math.log(v + 1e-300) + k - tilt * epsilon for tilt, (k, _, v) in zip(tilts, found, strict=True)]
        return float(tilts[int(np.argmin(costs))])

    def _saddle(self, epsilon: float, level: float) -> float:
        low, high = 1e-6 / epsilon, 1.0 / epsilon
        while not self._is_small(low, epsilon, level):  # at hardly any ε tilts are those of none
            low, high = 1e-3 * low, low
        while high * epsilon < 1e8 and self._is_small(high, epsilon, level):
            low, high = high, 4 * high
        while high / low > 1.05:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._is_small(middle, epsilon, level) else (low, middle)
        return high

    def _is_small(self, tilt: float, epsilon: float, level: float) -> bool:
        return self.cumulant(tilt, level)[1] - 1 / tilt - 1 / (1 + tilt) < epsilon

    def log_delta(self, epsilon: float, near: float) -> float:
        """Returns an estimate of ln δ, which is ``near``, from the tilt for losses up to a level and what is above."""
        level = epsilon + self.margin(epsilon, near)
        tilt = self._saddle(epsilon, level)
        k, mean, variance = self.cumulant(tilt, level)
        curvature = variance + 1 / tilt**2 + 1 / (1 + tilt) ** 2
        inside = k - tilt * epsilon - math.log(tilt) - math.log1p(tilt) - 0.5 * math.log(2 * math.pi * curvature)
        above = 0.0
        for _, count, _, log_p, _, loss in self.parts:
            far = loss > level
            gain = np.exp(log_p[far]) * -np.expm1(epsilon - loss[far])
            above += count * float(gain.sum())
        return float(np.logaddexp(inside, math.log(min(above, 1.0)) if above > 0.0 else -math.inf))

    def epsilon(self, log_delta: float) -> float:
        """Returns the ε at which that estimate is ``log_delta``."""
        tops = [(count, float(loss.max())) for _, count, _, _, _, loss in self.parts]
        high = sum(count * max(top, 0.0) for count, top in tops)
        low = high * 1e-12
        if high <= 0.0 or self.log_delta(low, log_delta) <= log_delta:
            return low
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.log_delta(middle, log_delta) > log_delta else (low, middle)
        return high

    def added(self, tilt: float, level: float, sparse: bool = False) -> Callable[[float], float]:
        """Returns what a grid of a step adds to ε: of a loss l in a cell of width h splitting makes a variance ≤ |l|·h.

        Between grid points δ is interpolated, which moves ε by h²·tilt/8 at most.
        """
        weights = []
        for _, count, start, log_p, _, loss in self.parts:
            inside = loss <= level
            losses = np.maximum(loss[inside], start)
            y = log_p[inside] + tilt * losses
            w = np.exp(y - y.max())
            weights.append((count, w / w.sum(), np.abs(losses)))

        def spent(h: float) -> float:
            split = 0.0
            for n, w, x in weights:
                width = np.maximum(h, x / (DENSE / 2)) if sparse else h
                split += n * float(w @ np.minimum(width * width / 6, x * width))
            return (split + h * h / 4) * (1 + tilt) / 2

        return spent

    def step(self, tilt: float, epsilon: float, level: float, sparse: bool = False) -> float:
        """Returns a grid that adds little to ε."""
        low, high, spent = 1e-12 * epsilon, 0.5 / tilt, self.added(tilt, level, sparse)
        while high / low > 1.05:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if spent(middle) < _AIM * epsilon else (low, middle)
        return low


@lru_cache(maxsize=32)
def sketch(event: PrivacyEvent) -> Sketch:
    """Returns the sketch of an event.

    Raises:
      UnsupportedEventError: a part is not a mixture of normals.
    """
    return Sketch(event)


@frozen(eq=False)
class Plan:
    """The levels at which to cut for an ε and a ln δ near those given, and a grid for the rest.

    ``excess`` is what the grid and its round-off are expected to add to ε, as a part of it.
    """

    margin: float
    level: float
    tilt: float
    ends: list[tuple[float, float]]
    step: float
    excess: float
    sparse: float | None = None  # the step of a sparse law


def plan(event: PrivacyEvent, epsilon: float, log_delta: float, *, of_delta: float = 0.0, sparse: bool = False) -> Plan:
    """Returns a plan; any would give sound bounds.

    Args:
      of_delta: the grid may move ε by that many times what moves δ by e, where this is more than ε.
      sparse: with a sparse law, where that is likely to take much less time.

    Raises:
      UnsupportedEventError: a part is not a mixture of normals.
    """
    rough = sketch(event)
    margin = rough.margin(epsilon, log_delta)
    # A level that leaves room; any is sound.
    level = 1.01 * epsilon + 1.05 * margin
    tilt = rough.tilt(epsilon, level)
    ends = rough.ends(tilt, level)
    fine = rough.step(tilt, max(epsilon, of_delta / tilt), level)
    widths = [high - low for low, high in ends]
    step = max(fine, min(max(widths) / _MAX_CELLS, max(_COARSE * fine, max(widths) / _MOST_CELLS)))
    step = max(step, sum(widths) / _MAX_IN_ALL)
    if level < epsilon + margin + 2 * _NEAR_TOP * step:
        level = epsilon + margin + 2 * _NEAR_TOP * step
        ends = rough.ends(tilt, level)
    drift = sum(
        # What rounding is expected to add; it steers the search alone.
        count * (RATIO_ERROR * max(abs(low), high) if pair.rises(step) else RATIO_ERROR + 8 * U)
        for (pair, count, *_), (low, high) in zip(rough.parts, ends, strict=True)
    )
    excess, wide = _AIM * (step / fine) ** 2 + drift / epsilon, None
    if sparse and _is_repeated(rough, max(widths), step, tilt, level):
        wide = rough.step(tilt, max(epsilon, of_delta / tilt), level, True)
        wide, excess = (wide, _AIM + drift / epsilon) if max(widths) < _MOST_STEPS * wide else (None, excess)
    return Plan(margin, level, tilt, ends, step, excess, wide)


def _is_repeated(rough: Sketch, width: float, step: float, tilt: float, level: float) -> bool:
    """Whether few frequencies of the total loss are likely to matter, and a law on all steps would be large."""
    _, _, variance = rough.cumulant(tilt, level)
    wide = max(width, _SPREADS * math.sqrt(variance))
    return sum(count for _, count, *_ in rough.parts) >= _REPEATED and wide > _MANY_CELLS * step


@lru_cache(maxsize=1)
def _law(event: PrivacyEvent, step: float, upper: bool, sparse: bool) -> Law:
    """The law of the losses left; a closer guess has the same one where the grid is as fine as it may be."""
    return Law(event, step, upper, sparse)


class CutLaw:
    """The law of an event's losses cut off as planned, and what was cut."""

    def __init__(self, event: PrivacyEvent, planned: Plan, upper: bool, coarser: int) -> None:
        self.upper, self.margin, self.tilt = upper, planned.margin, planned.tilt
        self.step = 2.0**coarser * (planned.sparse or planned.step)
        parts = [(Cut(inner, *end), count) for (inner, count), end in zip(parts_of(event), planned.ends, strict=True)]
        self.law = _law(Composed(tuple(parts)), self.step, upper, planned.sparse is not None)
        pairs = [(pair, count, *end) for (pair, count, *_), end in zip(sketch(event).parts, planned.ends, strict=True)]
        self._count_above(pairs, planned.level)
        if upper and self.q_above > 0.0:
            self._bound_rest([count for _, count, *_ in pairs])

    def _count_above(self, parts: list[tuple[MixturePair, int, float, float]], level: float) -> None:
        """Q(N ≥ 1) and P(N ≥ 1) − Q(N ≥ 1), P(N ≥ 1) rounded up from above and the other way round from below."""
        sign = 1.0 if self.upper else -1.0
        self.gap_from, self.beneath = math.inf, 0.0
        self.q_each: list[float] = []
        log_q = log_share = 0.0
        self.plain = 0.0
        for pair, count, low, high in parts:
            self.beneath += count * pair.q.below(pair.place(low))
            if high < level:  # the end of its support, beyond which next to nothing is: all counts from above
                self.plain += count * pair.p.above(pair.place(high) - 1e-9) if self.upper else 0.0
                self.q_each.append(0.0)
                continue
            edge = last_edge(high, self.step, self.law.sparse) * self.step  # of the law's cells
            z = pair.place(edge)
            if math.isfinite(z):  # no outcome is left out, or counted twice from below
                z -= sign * 1e-13 * (1 + abs(z))
            q, more = (pair.q.above(z), pair.more_above(z)) if z < math.inf else (0.0, 0.0)
            # In a sum over parts, ln P(N = 0) − ln Q(N = 0) = Σ count·ln(1 − (p − q)/(1 − q)).
            log_q += count * math.log1p(-min(q * (1 - sign * _OFF), 1 - U))
            log_share += count * math.log1p(-min(more * (1 + sign * _OFF) / (1 - q), 1 - U))
            self.q_each.append(q)
            # Sums of losses and their steps are off by 1e-10 of the edge at most.
            self.gap_from = min(self.gap_from, edge * (1 - 1e-9))
        self.q_above = -math.expm1(log_q)
        self.more = -math.exp(log_q) * math.expm1(log_share)

    def _bound_rest(self, counts: list[int]) -> None:
        """ln E_Q[e^{−aR}; no loss is below the cut] at several a, from above, as the law's own moments are larger."""
        laws = [(pmf.p * np.exp(-x), x) for pmf, _ in self.law.parts for x in [pmf.losses()]]
        laws = laws if self.law.sparse else [_folded(*law) for law in laws]
        squares = (n * single_core.dot(w, x**2) for (w, x), (_, n) in zip(laws, self.law.parts, strict=True))
        spread = math.sqrt(sum(squares))
        # Every second rate is twice the one before, as the squares of its exponentials are had at once.
        self.rates = np.geomspace(0.5, 64.0, 15) / max(spread, 1e-300)
        logs = np.full((len(laws), len(self.rates)), math.inf)
        for i, ((masses, x), q) in enumerate(zip(laws, self.q_each, strict=True)):
            most, moments = float(np.abs(x).max()), np.zeros(len(self.rates))
            with np.errstate(over="ignore", invalid="ignore"):
                for start in range(0, len(x), _PIECE):
                    piece = slice(start, start + _PIECE)
                    for j in (0, 1):
                        powers = np.exp(-self.rates[j] * x[piece])
                        for k in range(j, len(self.rates), 2):  # each square doubles the round-off of the exponential
                            moments[k] += single_core.dot(masses[piece], powers)
                            np.square(powers, out=powers)
            # The law's round-off raises each loss by a little, as loss_pmf.from_pair says.
            raised = 2 * self.rates * ((RATIO_ERROR + 4 * EDGE_ERROR) * (1 + most) + 8 * U) + 1e-11
            known = np.isfinite(moments)
            logs[i, known] = np.log(moments[known] + q) + raised[known]
        self.rest = []
        for each in logs.T.tolist():
            # One loss, the one above the level, is not among them.
            self.rest.append(sum(n * k for k, n in zip(each, counts, strict=True)) + max(0.0, *(-k for k in each)))
        self.mean_q = sum(n * q for q, n in zip(self.q_each, counts, strict=True)) * (1 + _OFF)

    def rare(self, epsilon: float, until: float) -> float:
        """The part of δ(epsilon) from the losses cut off: from above, also as a chord to ``until``, or below."""
        if self.q_above <= 0.0:
            return self.plain
        found = self.more - math.expm1(epsilon) * self.q_above
        if not self.upper:
            # expm1 is off by 2 U, product and difference by U; what is subtracted is below ``more`` where it counts.
            return max(0.0, found - 4 * U * self.more)
        missed, gap = 1.0, self.gap_from - until
        if gap > 0.0:
            chernoff = min(k - a * gap for k, a in zip(self.rest, self.rates, strict=True))
            missed = min(1.0, math.exp(min(0.0, chernoff)) + self.beneath)
        # As below the truth: 4 U of ``more``.
        return self.plain + max(0.0, found) + 4 * U * self.more + math.exp(epsilon) * missed * self.mean_q * (1 + _OFF)


def _folded(masses: Array, losses: Array) -> tuple[Array, Array]:
    """A law with fewer losses, each block's masses at its two ends, whose mean of any convex function is no smaller.

    At a rate of 64 over the deviation ln of the mean of e^{−a·loss}, near 64²/2, grows by 64²/(8·16²) = 2 at most.
    """
    step = float(losses[-1] - losses[0]) / max(1, len(losses) - 1)
    deviation = math.sqrt(single_core.dot(masses, losses**2))
    block = min(len(losses), math.floor(deviation / (_BLOCKS * step))) if step > 0.0 else 0
    if block < 3:
        return masses, losses
    to_high = np.arange(block) / (block - 1)
    cells = np.pad(masses, (0, -len(masses) % block)).reshape(-1, block)
    low = losses[::block]
    ends = np.stack([low, low + (block - 1) * step], axis=1)
    return (cells @ np.stack([1.0 - to_high, to_high], axis=1)).ravel(), ends.ravel()


class _CutPoints(Points):
    """ln δ at single grid points, with what the rare losses add."""

    def __init__(self, cut: CutLaw, tilted: Tilted) -> None:
        super().__init__(tilted)
        self.cut = cut
        self.lost: dict[int, float] = {}  # the part of δ that may be round-off
        if cut.q_above > 0.0:
            self.top = min(self.top, math.floor((cut.gap_from - cut.margin) / cut.step) - _NEAR_TOP)

    def reach_down_to(self, target: float, near: float) -> bool:
        """Says whether ln δ is at most ``target`` at the last place to look at, or at one closer to ε, then the last.

        Near the cut too much may be missed, on a grid that is coarse for the other losses.
        """
        start = min(math.ceil(near / self.cut.step), self.top)
        for share in (1.0, 0.75, 0.5, 0.25, 0.1, 0.0):
            place = start + math.floor(share * (self.top - start))
            if self.log_delta(place) <= target:
                self.top = place
                return True
        return False

    def window(self, epsilon: float) -> float:
        """Returns how wide a window of losses a sharp sum for ``epsilon`` takes."""
        place = math.floor(epsilon / self.cut.step)
        self.log_delta(place)
        wrapped = _WRAPPED * self.cut.tilt * epsilon * self.sums[place] / float(self.gain.max())
        return self.tilted.cells(place, wrapped) * self.cut.step

    def is_drowned(self, epsilon: float) -> bool:
        """Returns whether the round-off bound that was added to the sum near ε has a noticeable effect on ε."""
        place = math.floor(epsilon / self.cut.step)
        self.log_delta(place)
        return self.lost[place] > _SHARP * self.cut.tilt * epsilon

    def log_delta(self, place: int) -> float:
        inside = super().log_delta(place)
        # Between two grid points both sums are linear in e^ε, but for what may be missed, which grows.
        off = U * (16 + 4 * abs(max(inside, -700.0)))
        finite = math.exp(min(inside, 0.0)) * (1 + off if self.cut.upper else 1 - off)
        total = finite + self.cut.rare(place * self.cut.step, (place + 1) * self.cut.step)
        self.lost[place] = self.loose[place] * (finite / total if total > 0.0 else 1.0)
        return min(0.0, math.log(total)) if total > 0.0 else -math.inf


def is_better(event: PrivacyEvent, epsilon: float | None, delta: float | None) -> bool:
    """Says whether a grid over all losses is worse for δ at ε, the one of them that is known.

    It is where it would be large or too coarse, and where the losses above the level outweigh the others once tilted;
    also where it may be large while what is left below the level takes few cells.
    """
    if epsilon is not None and epsilon < LEAST_EPSILON:
        return False
    try:
        at, log_delta = _near(event, epsilon, delta)
        planned = plan(event, at, log_delta) if at >= LEAST_EPSILON else None
    except (UnsupportedEventError, ArithmeticError, ValueError):  # no such event, or numbers out of a sketch's reach
        return False
    if planned is None:
        return False
    width = max(high - low for inner, _ in parts_of(event) for low, high in [inner.loss_support()])
    if width > _FEW_CELLS * planned.step:
        return True
    if _is_heavy(event, planned):
        return True
    _, _, variance = sketch(event).cumulant(planned.tilt, planned.level)
    short = max(*(high - low for low, high in planned.ends), _SPREADS * math.sqrt(variance)) <= _SHORT * planned.step
    return short and _is_fine(planned, variance) and is_large(event)


def delta_at_none(event: PrivacyEvent, *, upper: bool) -> float | None:
    """Returns a bound on δ(0); None where a grid over all losses is fine for it.

    The bound is that at an ε next to 0, of which δ(0) is above by e^ε − 1 at most.

    Raises:
      UnsupportedEventError: a part is not a mixture of normals.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    about = math.exp(_near(event, LEAST_EPSILON, None)[1])
    at = _NEXT * about
    if not is_better(event, at, None):
        return None
    planned = plan(event, *_near(event, at, None))
    step = grid(event, upper, large=about > LARGE)
    if sketch(event).added(planned.tilt, planned.level)(step) * planned.tilt <= _SHARP:
        return None
    found = delta(event, at, upper=upper)
    return math.nextafter(found + math.nextafter(math.expm1(at), 1.0), 2.0) if upper else found


def suits(event: PrivacyEvent, epsilon: float | None, delta: float | None) -> bool:
    """Says whether the law of losses cut off is fine enough for δ at ε, of which one is known, and not large."""
    if not is_better(event, epsilon, delta):
        return False
    near = _near(event, epsilon, delta)
    planned = plan(event, *near)
    is_sparse = _is_heavy(event, planned) and plan(event, *near, sparse=True).sparse is not None
    return is_sparse or _is_fine(planned, sketch(event).cumulant(planned.tilt, planned.level)[2])


def _is_heavy(event: PrivacyEvent, planned: Plan) -> bool:
    """Says whether the losses above the level outweigh the others once tilted."""
    (all_of_it, *_), (kept, *_) = (sketch(event).cumulant(planned.tilt, at) for at in (math.inf, planned.level))
    return all_of_it - kept > _HEAVY


def _is_fine(planned: Plan, variance: float) -> bool:
    return planned.excess <= _SHARP and _SPREADS * math.sqrt(variance) <= _MAX_CELLS * planned.step


@lru_cache(maxsize=32)
def _near(event: PrivacyEvent, epsilon: float | None, delta: float | None) -> tuple[float, float]:
    """Estimates of ε and ln δ from one of them."""
    rough = sketch(event)
    if epsilon is None:
        assert delta is not None
        return rough.epsilon(math.log(delta)), math.log(delta)
    log_delta = -30.0
    for _ in range(4):
        log_delta = max(rough.log_delta(epsilon, log_delta), -690.0)
    return epsilon, log_delta


def excess(event: PrivacyEvent, epsilon: float, delta: float) -> float:
    """Returns by what part of itself ε is expected to be above the truth."""
    reached = epsilon >= LEAST_EPSILON and delta > 0.0
    return plan(event, epsilon, math.log(delta), sparse=True).excess if reached else 0.0


def epsilon(event: PrivacyEvent, delta: float, *, upper: bool = True, coarser: int = 0) -> float:
    """Returns a bound on the least ε ≥ 0 with δ(ε) ≤ ``delta`` > 0 from above (or below).

    Args:
      coarser: on a grid 2^coarser times as coarse, which is as sound.

    Raises:
      UnsupportedEventError: a part is not a mixture of normals.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    target = math.log(delta)
    # The logarithm is off by 2 U of itself, the sum by U.
    target += (-4 * U if upper else 4 * U) * (1 + abs(target))
    guess, _ = _near(event, None, delta)
    if plan(event, guess, target, sparse=True).sparse is not None:
        with contextlib.suppress(NumericalError):
            return _epsilon(event, guess, target, upper, coarser, True)
    return _epsilon(event, guess, target, upper, coarser, False)


def _epsilon(event: PrivacyEvent, guess: float, target: float, upper: bool, coarser: int, sparse: bool) -> float:
    best, careful, width = math.inf if upper else 0.0, sparse, 0.0
    if not sparse:
        guess, careful, width = _closer(event, guess, target, upper, coarser)
    for _ in range(_TRIES):
        planned = _finest(plan(event, guess, target, sparse=sparse), width)
        points = _points(event, planned, guess, upper, coarser, careful)
        if not points.reach_down_to(target, guess):  # the cut is below the ε sought, or the sum there is lost
            if careful or not points.is_drowned(points.top * points.cut.step):
                guess = 1.5 * guess + points.cut.margin
            careful = True
            continue
        root, sharp = root_of(points, target)
        best = min(best, float(root)) if upper else max(best, float(root))
        moved = abs(root - guess) * points.cut.tilt
        enough = careful or not points.is_drowned(root)
        if root == 0.0 or (enough and moved < (1.0 if sharp else _STILL)):
            break
        guess, careful = root, careful or not enough
    return best


def _closer(event: PrivacyEvent, guess: float, target: float, upper: bool, coarser: int) -> tuple[float, bool, float]:
    """A better guess from a coarser grid, where the grid asked for is so large that this costs little beside it.

    With it, whether round-off is felt there, and how wide a window of losses the sums take.
    """
    careful, width = False, 0.0
    with contextlib.suppress(NumericalError):
        for _ in range(_TRIES):
            planned = plan(event, guess, target)
            if not _is_wide(event, planned, coarser):
                break
            points = _points(event, planned, guess, upper, coarser + _COARSER, careful)
            if not points.reach_down_to(target, guess):  # the cut is below the ε sought
                guess = 1.5 * guess + points.cut.margin
                continue
            root, _ = root_of(points, target)
            if root <= 0.0:
                break
            moved, guess = abs(root - guess) * points.cut.tilt, float(root)
            careful = careful or points.is_drowned(root)
            width = _ROOM * points.window(root)
            if moved < _CLOSE:
                break
    return guess, careful, width


def delta(event: PrivacyEvent, epsilon: float, *, upper: bool = True, coarser: int = 0) -> float:
    """Returns a bound on δ at ``epsilon`` > 0 from above (or below).

    Args:
      coarser: on a grid 2^coarser times as coarse, which is as sound.

    Raises:
      UnsupportedEventError: a part is not a mixture of normals.
      NumericalError: round-off or the size of the grid would dominate the result.
    """
    _, log_delta = _near(event, epsilon, None)
    planned, found = plan(event, epsilon, log_delta, of_delta=_OF_DELTA, sparse=True), []
    if planned.sparse is not None:
        with contextlib.suppress(NumericalError):
            return _delta(_points(event, planned, epsilon, upper, coarser, True), epsilon)
        planned = plan(event, epsilon, log_delta, of_delta=_OF_DELTA)
    if _is_wide(event, planned, coarser):
        with contextlib.suppress(NumericalError):
            points = _points(event, planned, epsilon, upper, coarser + _COARSER, False)
            planned = _finest(planned, _ROOM * points.window(epsilon))
    for careful in (False, True):
        points = _points(event, planned, epsilon, upper, coarser, careful)
        found.append(_delta(points, epsilon))
        if not points.is_drowned(epsilon):
            break
    return min(found) if upper else max(found)


def _delta(points: _CutPoints, epsilon: float) -> float:
    law = points.cut.law
    places, shares = between(law, np.array([epsilon + law.snap]))
    logs = np.array([[points.log_delta(int(places[0]) + i)] for i in (0, 1)])
    return float(values(law, logs, shares)[0])


def _is_wide(event: PrivacyEvent, planned: Plan, coarser: int) -> bool:
    """Whether the window takes so many cells that one on a coarser grid costs little beside it."""
    _, _, variance = sketch(event).cumulant(planned.tilt, planned.level)
    return _SPREADS * math.sqrt(variance) >= 2.0**coarser * planned.step * _MANY_CELLS


def _finest(planned: Plan, width: float) -> Plan:
    """The plan with the finest grid of which a window of losses is not too large, if its own is finer."""
    return evolve(planned, step=width / MAX_SIZE) if width > planned.step * MAX_SIZE else planned


def _points(event: PrivacyEvent, planned: Plan, near: float, upper: bool, coarser: int, careful: bool) -> _CutPoints:
    """The sums near ε, on a grid 2^coarser times as coarse as planned, or more where the window asks for it."""
    for power in range(coarser, max(3, coarser) + 1):
        try:
            cut = CutLaw(event, planned, upper, power)
            points = _CutPoints(cut, cut.law.tilted(cut.tilt, near, careful))
        except TooLarge:
            if power == max(3, coarser) or planned.sparse is not None:
                raise
            continue
        points.start = min(round(near / cut.step), points.top)
        return points
    raise AssertionError
