"""Where the estimators of KL(Pi || P) are attacked: the data and coins that cost most, and numbers that are looked at.

An estimate of Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478) costs most where all draws hit one symbol, and one
record leaves an almost empty cell (the logarithm moves it, "log-dominated") or comes to a full cell of small reference
mass (lambda*r moves it, "lambda-dominated"). Noisy counts cost the same whichever record moves between two symbols that
are asked for. The coins are public, so an attack may choose them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from hockeystick.accounting import PrivacyEvent, compose
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import exact_epsilon
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL, Shares, estimates
from hockeystick.learners.divergence.query_average import QueryAverage

Pair = tuple[ClientCounts, ClientCounts]

DELTA = 1e-5
"""The delta at which claims are stated."""

FOUR = (0.28, 0.28, 0.28, 0.16)
"""A reference of four symbols."""

_CORRECT = 40_000


# --- coins and data --------------------------------------------------------------------------------------------------


def one_symbol(
    *, reference: tuple[float, ...] = FOUR, records: int = 8, logarithm: CountLogarithm | None = None
) -> QueryAverage:
    """All draws hit symbol 0; one client has all records."""
    return QueryAverage(
        reference=reference,
        symbols=[0],
        shares=[1.0],
        cohorts=[[0]],
        client_records=[integer("records", records, low=1)],
        logarithm=logarithm or Smoothed(),
    )


def all_records_of_one(average: QueryAverage) -> Pair:
    """Two data sets that differ in client 0: all its records have symbol 0, or symbol 1; the others' have both."""
    sizes = average.client_records
    who = np.repeat(np.arange(len(sizes)), sizes)
    what = np.arange(len(who)) % 2
    kept = {"symbol_count": average.symbol_count, "client_count": len(sizes)}
    first, second = (ClientCounts.of_records(who, np.where(who == 0, symbol, what), **kept) for symbol in (0, 1))
    return first, second


def one_report() -> Pair:
    """One client with one record of four symbols, which is 0 or 1."""
    first, second = (ClientCounts.of_records([0], [symbol], symbol_count=4) for symbol in (0, 1))
    return first, second


def two_cells(counts: npt.NDArray[np.int64]) -> Pair:
    """One client's records of these counts (k,), and with one moved from symbol 2 to symbol 1."""
    moved = counts.copy()
    moved[[1, 2]] += [1, -1]
    k = len(counts)
    first, second = (
        ClientCounts.of_records(np.zeros(held.sum(), dtype=np.int64), np.repeat(np.arange(k), held), symbol_count=k)
        for held in (counts, moved)
    )
    return first, second


# --- what is looked at -----------------------------------------------------------------------------------------------


@frozen(eq=False)
class Shown:
    """One number for each output of an estimator.

    Attributes:
      estimator: has ``simulate(data, rng, runs)``.
      read: makes numbers of shape (runs,) of outputs with runs on the leading axis.
    """

    estimator: Any
    read: Callable[[Any], Any]

    def __call__(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """What is read off ``runs`` outputs, shape (runs,)."""
        return np.asarray(self.read(self.estimator.simulate(data, rng, runs)), dtype=np.float64)


def logs(pair: FloatArray) -> FloatArray:
    """A, the average of ln r, alone; of pairs (runs, 2)."""
    return pair[:, 0]


def ratios(pair: FloatArray) -> FloatArray:
    """The average of r - 1 alone."""
    return pair[:, 1]


def difference(pair: FloatArray, multiplier: float = 1.0) -> FloatArray:
    """B - A = lambda*U - V: the estimate."""
    return np.asarray(multiplier * pair[:, 1] - pair[:, 0])


def total(pair: FloatArray, multiplier: float = 1.0) -> FloatArray:
    """A + B, which the paper prints for the estimate."""
    return np.asarray(multiplier * pair[:, 1] + pair[:, 0])


def gap(counts: FloatArray) -> FloatArray:
    """Published counts of the first symbol less those of the second, of counts (runs, u) about the two in turns."""
    return np.asarray(counts[:, 0::2].sum(axis=1) - counts[:, 1::2].sum(axis=1))


def first(counts: FloatArray) -> FloatArray:
    """The first symbol's count alone."""
    return counts[:, 0]


def mean(outputs: FloatArray) -> FloatArray:
    """Their mean, of outputs (runs, m)."""
    return np.asarray(outputs.mean(axis=1))


def first_symbol(counts: npt.NDArray[np.int64]) -> FloatArray:
    """The symbol that was reported, of counts of one report (runs, k)."""
    return np.asarray(counts.argmax(axis=1), dtype=np.float64)


@frozen(eq=False)
class Estimated:
    """Reads the clamped estimate off noisy counts (runs, u)."""

    average: QueryAverage
    multiplier: float = 0.0

    def __call__(self, counts: FloatArray) -> FloatArray:
        """One estimate per run."""
        return estimates(self.average, counts, self.multiplier)


@frozen(eq=False)
class WithNoiseOf:
    """Noisy counts as somebody sees them who knows the noise of all clients but some, and takes it off.

    Attributes:
      plan: of one cohort.
      clients: Whose noise is left: those who answered and told nobody.
    """

    plan: DistributedKL
    clients: int

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` vectors of shape (runs, u)."""
        counts = self.plan.factor * self.plan.average.counts(data)
        return np.asarray(self._shares().simulate(counts, rng, runs) / self.plan.factor)

    def log_likelihood_ratio(self, output: FloatArray, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """ln P(output | data0)/P(output | data1) of outputs of shape (runs, u)."""
        here, there = (self.plan.factor * self.plan.average.counts(data) for data in (data0, data1))
        drawn = np.rint(output * self.plan.factor).astype(np.int64)
        return self._shares().log_likelihood_ratio(drawn, here, there)

    def event(self) -> PrivacyEvent:
        """What it costs where a record moves two counts."""
        return compose((evolve(self._shares(), rise=1).event(), 2))

    def _shares(self) -> Shares:
        return evolve(self.plan.shares, survivors=self.clients)


# --- cases -----------------------------------------------------------------------------------------------------------


def kl_case(name: str, build: Callable[[], Subject], samples: int | None = None, *, known: bool = True) -> Case:
    """A case of the catalogue; ``samples`` for a broken one; whether its truth is known."""
    return Case(
        name=f"learner/{name}",
        build=build,
        broken=samples is not None,
        samples=samples or _CORRECT,
        source="Scott, Biswas, Cormode & Maple 2024, corrected",
        oracle="the exact law of what is seen" if known else "",
    )


def kl_subject(
    claimed: Any,
    sampled: Any = None,
    *,
    pair: Pair | None = None,
    shown: Any = None,
    claim: Claim | None = None,
    delta: float = DELTA,
    truth: float | None = None,
) -> Subject:
    """A subject under the whole curve of an estimator's claim.

    Args:
      claimed: has the event that is claimed.
      sampled: what is really run; the same by default.
      pair: the data sets; the worst ones of ``claimed`` by default.
      shown: what is seen; ``sampled`` itself by default.
      claim: what is claimed, if that is not ``claimed.event()``.
      delta: at which the claim is stated.
      truth: the exact epsilon of what is seen; that of ``sampled.event()`` by default, which the pair has to attain.
    """
    runs = claimed if sampled is None else sampled
    return Subject(
        target=runs if shown is None else shown,
        neighbours=claimed.worst_case_neighbours() if pair is None else pair,
        claim=Claim.curve(claimed.event(), delta) if claim is None else claim,
        truth=exact_epsilon(runs.event(), delta) if truth is None else truth,
    )
