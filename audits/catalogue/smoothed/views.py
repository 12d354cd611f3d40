"""Attacks on smoothed private learners: the worst data, and the exact privacy losses there.

Multiplicative weights run on the canary of :mod:`hockeystick.learners.smoothed.queries.canary`, where a replaced record
moves the odds of a choice by their whole range, and on variants of it: all records at one point, several replaced
records, a move that changes one query only. Nets run on domains small enough to enumerate all candidates.

Exact losses: of one choice and one measurement in closed form; of several rounds by enumeration of all transcripts, for
discrete noise and clipped measurements, which have few distinct values; of nets by their law. None of them uses the
learners' own likelihoods.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 to 4, corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen
from scipy import optimize, special

from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.instances import canary
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.error_queries import ErrorQueries, labelled_points
from hockeystick.learners.smoothed.measures.base_measure import UniformGrid
from hockeystick.learners.smoothed.nets.agnostic_learner import AgnosticLearner
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet
from hockeystick.learners.smoothed.queries.answers import Transcripts
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import MatrixCells
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

Pair = tuple[Any, Any]
Scene = tuple[Any, Pair]

DELTA = 0.01
"""The delta of claims about several rounds."""

_LOW, _MIDDLE, _HIGH = 0, 1, 2
_LARGEST_GAP = 700.0


# --- scenes ----------------------------------------------------------------------------------------------------------


def seen_by_one_query(*, gap: float = 0.0, rounds: int = 2) -> tuple[SmoothMWEM, Pair]:
    """Returns the canary's learner, with a record that moves across the second threshold only."""
    learner, (first, _) = canary(gap=gap, rounds=rounds)
    second = first.copy()
    second[np.flatnonzero(second == _MIDDLE)[0]] = _HIGH
    return learner, (first, second)


def at_one_point(records: int = 24) -> tuple[SmoothMWEM, Pair]:
    """Returns a learner with all records at the middle of three points, or one of them at the first: not smooth."""
    learner = SmoothMWEM(
        cells=MatrixCells(matrix=[[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]], masses=[0.05, 0.65, 0.3]),
        records=records,
        sigma=1.0,
        rounds=1,
        epsilon_em=0.5,
        epsilon_lap=0.5,
    )
    first = np.full(records, _MIDDLE)
    second = first.copy()
    second[0] = _LOW
    return learner, (first, second)


def generic(records: int = 100) -> tuple[SmoothMWEM, Pair]:
    """Returns an untuned learner of nine thresholds on ten points, with records on three of them."""
    learner = SmoothMWEM(
        cells=MatrixCells(matrix=np.triu(np.ones((9, 10)), 1)),
        records=records,
        sigma=0.1,
        rounds=1,
        epsilon_em=0.5,
        epsilon_lap=0.5,
    )
    first = 4 + np.arange(records) % 3
    second = first.copy()
    second[0] = 9
    return learner, (first, second)


def windowed(*, rounds: int = 2) -> tuple[SmoothMWEM, Pair]:
    """Returns a projected learner of thresholds on 64 points, with records on 40 of them, one of which moves.

    Every function of the records themselves differs between the two data sets.
    """
    grid = UniformGrid(64)
    learner = SmoothMWEM(
        cells=BoxCells.of(Thresholds().cover(0.05, grid)),
        records=40,
        sigma=0.5,
        rounds=rounds,
        epsilon_em=0.5 / rounds,
        epsilon_lap=0.5 / rounds,
        project=True,
    )
    first = grid.position(0, np.arange(40))
    second = first.copy()
    second[20] = 1.0
    return learner, (first, second)


def net(*, records: int = 4, **options: Any) -> tuple[SubsampledNet, Pair]:
    """Returns a net of five points out of four, for thresholds: all records at one end, or one at the other."""
    domain = np.arange(4.0)
    learner = SubsampledNet(
        concepts=Thresholds(), domain=domain, size=5, **{"epsilon": 1.0, **options}, records=records
    )
    return learner, learner.worst_case_neighbours()


def small_database(*, records: int = 4, **options: Any) -> tuple[SubsampledNet, Pair]:
    """Returns SmallDB with four points: V is the domain, a grid of three; the queries are all intervals."""
    grid = UniformGrid(3).position(0, np.arange(3))
    learner = SubsampledNet(concepts=Intervals(), domain=grid, size=4, **{"epsilon": 1.0, **options}, records=records)
    return learner, learner.worst_case_neighbours()


def labelled(*, records: int = 4, **options: Any) -> tuple[AgnosticLearner, Pair]:
    """Returns a learner of thresholds by nets of three labelled points; one pair changes its point and label."""
    pairs = labelled_points(np.repeat(np.arange(3.0), 2), np.arange(6) % 2)
    chosen = SubsampledNet(
        concepts=ErrorQueries(Thresholds()), domain=pairs, size=3, **{"epsilon": 1.0, **options}, records=records
    )
    first = np.repeat(pairs[[0]], records, axis=0)  # label 0 at the first point
    second = first.copy()
    second[0] = pairs[1]  # label 1 there
    return AgnosticLearner(net=chosen), (first, second)


def pure_claim(learner: Any, *, group: int = 1) -> Claim:
    """Returns the claim of a learner's graph at delta = 0."""
    graph: AccountantGraph = learner.graph()
    return Claim(graph.guarantee(group=group).epsilon(0.0).upper)


def smoothed_case(
    name: str, build: Callable[[], Subject], samples: int | None = None, *, known: bool = True, correct: int = 40_000
) -> Case:
    """Returns a case of the catalogue; a broken one if ``samples`` is given. ``known``: whether its truth is."""
    source, oracle = "Haghtalab, Roughgarden & Shetty 2020, corrected", "the exact law of the output" if known else ""
    return Case.of(f"learner/{name}", build, samples, correct=correct, source=source, oracle=oracle)


# --- statistics ------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Seen:
    """A statistic of each output of a learner: a number or a row of numbers.

    Attributes:
      learner: The learner, with ``simulate(data, rng, runs)``.
      read: The statistic, a function of the outputs that returns numbers with runs on the leading axis.
    """

    learner: Any
    read: Callable[[Any], Any]

    def __call__(self, data: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the statistic of ``runs`` outputs."""
        return np.asarray(self.read(self.learner.simulate(data, rng, runs)), dtype=np.float64)


def rows(transcripts: Transcripts) -> FloatArray:
    """Returns transcripts as rows of numbers."""
    return transcripts.as_array()


def first_query(transcripts: Transcripts) -> FloatArray:
    """Returns the first round's choice."""
    return transcripts.queries[:, 0].astype(float)


def difference(transcripts: Transcripts) -> FloatArray:
    """Returns the first measurement minus the second if they are of queries 0 and 1, else 0; rounded to nine digits."""
    both = (transcripts.queries[:, 0] == 0) & (transcripts.queries[:, 1] == 1)
    gaps = np.where(both, transcripts.measurements[:, 0] - transcripts.measurements[:, 1], 0.0)
    return np.asarray(np.round(gaps, 9), dtype=np.float64)


@frozen(eq=False)
class Hit:
    """The canary's event: the second query, measured at ``cut`` or above."""

    cut: float

    def __call__(self, transcripts: Transcripts) -> FloatArray:
        """Returns 1 for a hit, else 0."""
        found = (transcripts.queries[:, 0] == 1) & (transcripts.measurements[:, 0] >= self.cut)
        return np.asarray(found.astype(float))


@frozen(eq=False)
class LearnedFrom:
    """The threshold that an agnostic learner learns from nets; infinite ones become ±9."""

    learner: AgnosticLearner

    def __call__(self, places: Any) -> FloatArray:
        """Returns one threshold per net."""
        return np.clip(self.learner.learned(places)[:, 0], -9.0, 9.0)


# --- exact losses ----------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Law:
    """Two laws on finitely many outcomes, by their probabilities, shape (A,) each."""

    first: FloatArray
    second: FloatArray

    def epsilon(self, delta: float = 0.0) -> float:
        """Returns the exact epsilon at delta, the larger of both orders."""
        if delta == 0.0:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.abs(np.log(self.first) - np.log(self.second))
            return float(np.nanmax(ratio))
        return _root(self.delta, delta)

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at epsilon, the larger of both orders."""
        return max(self.one_way(epsilon), Law(self.second, self.first).one_way(epsilon))

    def one_way(self, epsilon: float) -> float:
        """Returns the exact delta at epsilon of the first law against the second."""
        return float(np.maximum(self.first - math.exp(epsilon) * self.second, 0.0).sum())

    def grouped(self, keys: npt.ArrayLike) -> Law:
        """Returns the laws of a function of the outcome, with the values ``keys`` (A,)."""
        _, where = np.unique(np.asarray(keys), return_inverse=True)
        first, second = (np.bincount(where, masses).astype(float) for masses in (self.first, self.second))
        return Law(first, second)


@frozen(eq=False)
class FirstRound:
    """One choice and one measurement with Laplace noise on two data sets, in closed form.

    Attributes:
      odds: The logarithms of the choice's probabilities, shape (2, K).
      shifts: The distance of each query's sums in scales of the noise, shape (K,).
    """

    odds: FloatArray
    shifts: FloatArray

    @classmethod
    def of(cls, learner: SmoothMWEM, pair: Pair) -> FirstRound:
        """Returns the laws of a learner's first round, for any budgets."""
        sums = sums_of(learner, pair)
        odds = choice(learner, learner.cells.masses[None], sums)[:, 0]
        return cls(odds, np.abs(sums[0] - sums[1]) / learner.measurement.scale)

    def epsilon(self, delta: float = 0.0) -> float:
        """Returns the exact epsilon at delta, the larger of both orders."""
        if delta == 0.0:
            return float((np.abs(self.odds[0] - self.odds[1]) + self.shifts).max())
        return _root(self.delta, delta)

    def delta(self, epsilon: float) -> float:
        """Returns the exact delta at epsilon, the larger of both orders."""
        return max(self.one_way(epsilon, 0), self.one_way(epsilon, 1))

    def hits(self, query: int) -> FloatArray:
        """Returns the probabilities (2,) that ``query`` is chosen and measured at or above its second, larger mean."""
        first, second = np.exp(self.odds[:, query]) / 2.0
        return np.array([first * math.exp(-self.shifts[query]), second])

    def one_way(self, epsilon: float, order: int = 0) -> float:
        """Returns the exact delta at epsilon of the first data set against the second, or of the other order."""
        e = epsilon - (self.odds[order] - self.odds[1 - order])
        inside = -np.expm1((np.minimum(e, self.shifts) - self.shifts) / 2.0)
        # Laplace laws t scales apart: 1 - e^((e - t)/2) between -t and t, 0 above and 1 - e^e below.
        each = np.where(e >= self.shifts, 0.0, np.where(e <= -self.shifts, -np.expm1(np.minimum(e, 0.0)), inside))
        return float(np.exp(self.odds[order]) @ each)


def transcript_law(learner: SmoothMWEM, pair: Pair) -> Law:
    """Returns the law of all transcripts of a learner with discrete noise, predicates and clipped measurements.

    All measurements at or below 0 have the same effect, and so have all at or above 1. So the sums 0 to n represent
    all measurements in every round but the last, of which only the loss matters. (K (n + 1))^(rounds - 1) transcripts
    are enumerated.

    Raises:
      InvalidArgumentError: The learner has other noise or queries.
    """
    cells, n = learner.cells, learner.records
    if learner.noise != "discrete laplace" or not learner.clip or (cells.low, cells.width) != (0.0, 1.0):
        raise InvalidArgumentError("learner", learner.noise, "has too many transcripts to enumerate", "use FirstRound")
    sums = sums_of(learner, pair)
    rate = 1.0 / learner.measurement.scale
    first = _class_masses(sums, np.zeros_like(sums[0]), np.full_like(sums[0], n), rate)
    last = _class_masses(sums, sums.min(axis=0), sums.max(axis=0), rate)
    seen = Transcripts(np.empty((1, 0), dtype=np.int64), np.empty((1, 0)))
    logs = np.zeros((2, 1))
    for i in range(learner.rounds):
        before = learner.cells.masses[None] if i == 0 else _law_after(learner, seen)
        picked = logs[:, :, None] + choice(learner, before, sums)  # (2, A, K)
        table = first if i < learner.rounds - 1 else last
        logs = np.concatenate(
            [(picked[:, :, q, None] + table[q][:, None]).reshape(2, -1) for q in range(len(table))], 1
        )
        if i < learner.rounds - 1:
            width = table[0].shape[1]
            old = [
                np.tile(np.repeat(part, width, axis=0), (len(table), 1)) for part in (seen.queries, seen.measurements)
            ]
            q = np.repeat(np.arange(len(table)), len(seen) * width)
            m = np.tile(np.arange(width) / n, len(seen) * len(table))
            seen = Transcripts(np.column_stack((old[0], q)), np.column_stack((old[1], m)))
    return Law(*np.exp(logs))


def net_law(learner: SubsampledNet, pair: Pair) -> Law:
    """Returns the law of all nets, by enumeration."""
    return Law(learner.law(pair[0]), learner.law(pair[1]))


def choice(learner: SmoothMWEM, laws: FloatArray, sums: FloatArray) -> FloatArray:
    """Returns ln P(query is chosen), shape (2, A, K), given laws (A, C), on data sets with the sums (2, K)."""
    scores = np.abs(learner.records * learner.cells.answers(laws)[None] - sums[:, None])
    return np.asarray(special.log_softmax(scores / learner.selection.scale, axis=-1))


def sums_of(learner: SmoothMWEM, pair: Pair) -> FloatArray:
    """Returns n q(D_B) of all queries on both data sets, shape (2, K)."""
    cells = learner.cells
    return np.stack([cells.answers(cells.counts(records)) for records in pair])


def _law_after(learner: SmoothMWEM, seen: Transcripts) -> FloatArray:
    return evolve(learner, rounds=seen.queries.shape[1], output="last").weights(seen)


def _class_masses(sums: FloatArray, low: FloatArray, high: FloatArray, rate: float) -> list[FloatArray]:
    """Returns ln P(sum + noise is <= low, low + 1, ..., >= high) for each query, of shape (2, classes)."""
    found = []
    for q in range(sums.shape[1]):
        at = np.arange(low[q], high[q] + 1.0) - sums[:, q, None]
        if at.shape[1] == 1:
            found.append(np.zeros((2, 1)))
            continue
        masses = math.log(math.tanh(rate / 2.0)) - rate * np.abs(at)
        masses[:, 0], masses[:, -1] = _log_tail(-at[:, 0], rate), _log_tail(at[:, -1], rate)
        found.append(masses)
    return found


def _log_tail(at: FloatArray, rate: float) -> FloatArray:
    """Returns ln P(noise >= at) of discrete Laplace noise, for integers."""
    half = -math.log1p(math.exp(-rate))
    below = np.log1p(-np.exp(half - rate * (1.0 - np.minimum(at, 0.0))))
    return np.where(at >= 0.0, half - rate * at, below)


def _root(delta: Callable[[float], float], target: float) -> float:
    if delta(0.0) <= target:
        return 0.0
    return float(optimize.brentq(lambda e: delta(e) - target, 0.0, _LARGEST_GAP, xtol=1e-12))
