"""Attacks on the estimators of KL(Pi || P): the worst data and coins, and the statistics of an output.

An estimate of Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478) costs most if all draws hit one symbol, and one
record leaves an almost empty cell (the logarithm moves, "log-dominated") or enters a full cell of small reference mass
(lambda*r moves, "lambda-dominated"). Noisy counts cost the same for every record that moves between two queried
symbols. The coins are public, so an attack may choose them.
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
from hockeystick.learners.divergence.distributed import DistributedKL, Shares
from hockeystick.learners.divergence.noisy_estimates import estimates
from hockeystick.learners.divergence.query_average import QueryAverage

Pair = tuple[ClientCounts, ClientCounts]

DELTA = 1e-5
"""The delta of the claims."""

FOUR = (0.28, 0.28, 0.28, 0.16)
"""A reference of four symbols."""


# --- coins and data --------------------------------------------------------------------------------------------------


def one_symbol(
    *, reference: tuple[float, ...] = FOUR, records: int = 8, logarithm: CountLogarithm | None = None
) -> QueryAverage:
    """Returns the average in which all draws hit symbol 0 and one client has all records."""
    return QueryAverage(
        reference=reference,
        symbols=[0],
        shares=[1.0],
        cohorts=[[0]],
        client_records=[integer("records", records, low=1)],
        logarithm=logarithm or Smoothed(),
    )


def all_records_of_one(average: QueryAverage) -> Pair:
    """Returns two data sets that differ in client 0: all its records have symbol 0, or all have symbol 1."""
    sizes = average.client_records
    who = np.repeat(np.arange(len(sizes)), sizes)
    what = np.arange(len(who)) % 2
    shape = {"symbol_count": average.symbol_count, "client_count": len(sizes)}
    first, second = (ClientCounts.of_records(who, np.where(who == 0, symbol, what), **shape) for symbol in (0, 1))
    return first, second


def one_report() -> Pair:
    """Returns two data sets of one client with one record, of symbol 0 or 1 out of four."""
    first, second = (ClientCounts.of_records([0], [symbol], symbol_count=4) for symbol in (0, 1))
    return first, second


def two_cells(counts: npt.NDArray[np.int64]) -> Pair:
    """Returns one client's records of these counts (k,), and the same with one moved from symbol 2 to symbol 1."""
    moved = counts.copy()
    moved[[1, 2]] += [1, -1]
    k = len(counts)
    first, second = (
        ClientCounts.of_records(np.zeros(held.sum(), dtype=np.int64), np.repeat(np.arange(k), held), symbol_count=k)
        for held in (counts, moved)
    )
    return first, second


# --- statistics ------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Shown:
    """A statistic of the outputs of an estimator.

    Attributes:
      estimator: The estimator, with ``simulate(data, rng, runs)``.
      read: The statistic: from outputs, with runs on the leading axis, to numbers of shape (runs,).
    """

    estimator: Any
    read: Callable[[Any], Any]

    def __call__(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the statistic of ``runs`` outputs, shape (runs,)."""
        return np.asarray(self.read(self.estimator.simulate(data, rng, runs)), dtype=np.float64)


def logs(pair: FloatArray) -> FloatArray:
    """Returns A, the average of ln r, of pairs (runs, 2)."""
    return pair[:, 0]


def ratios(pair: FloatArray) -> FloatArray:
    """Returns B, the average of r - 1, of pairs (runs, 2)."""
    return pair[:, 1]


def difference(pair: FloatArray, multiplier: float = 1.0) -> FloatArray:
    """Returns the estimate, B - A = lambda*U - V."""
    return np.asarray(multiplier * pair[:, 1] - pair[:, 0])


def total(pair: FloatArray, multiplier: float = 1.0) -> FloatArray:
    """Returns A + B, which the paper prints as the estimate."""
    return np.asarray(multiplier * pair[:, 1] + pair[:, 0])


def gap(counts: FloatArray) -> FloatArray:
    """Returns the counts of the first symbol minus those of the second, of counts (runs, u) of the two in turn."""
    return np.asarray(counts[:, 0::2].sum(axis=1) - counts[:, 1::2].sum(axis=1))


def first(counts: FloatArray) -> FloatArray:
    """Returns the first symbol's count."""
    return counts[:, 0]


def mean(outputs: FloatArray) -> FloatArray:
    """Returns the mean of each run's outputs (runs, m)."""
    return np.asarray(outputs.mean(axis=1))


def first_symbol(counts: npt.NDArray[np.int64]) -> FloatArray:
    """Returns the reported symbol, of counts (runs, k) of one report each."""
    return np.asarray(counts.argmax(axis=1), dtype=np.float64)


@frozen(eq=False)
class Estimated:
    """The clamped estimate from noisy counts (runs, u)."""

    average: QueryAverage
    multiplier: float = 0.0

    def __call__(self, counts: FloatArray) -> FloatArray:
        """Returns one estimate per run."""
        return estimates(self.average, counts, self.multiplier)


@frozen(eq=False)
class WithNoiseOf:
    """Noisy counts for an adversary who knows the noise of all but some clients, and subtracts it.

    Attributes:
      plan: The plan, with one cohort.
      clients: The number of clients whose noise the adversary does not know.
    """

    plan: DistributedKL
    clients: int

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` vectors of counts, shape (runs, u)."""
        counts = self.plan.factor * self.plan.average.counts(data)
        return np.asarray(self._shares().simulate(counts, rng, runs) / self.plan.factor)

    def log_likelihood_ratio(self, output: FloatArray, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """Returns ln P(output | data0)/P(output | data1) of outputs of shape (runs, u)."""
        here, there = (self.plan.factor * self.plan.average.counts(data) for data in (data0, data1))
        drawn = np.rint(output * self.plan.factor).astype(np.int64)
        return self._shares().log_likelihood_ratio(drawn, here, there)

    def event(self) -> PrivacyEvent:
        """Returns the event for a record that moves two counts."""
        return compose((evolve(self._shares(), rise=1).event(), 2))

    def _shares(self) -> Shares:
        return evolve(self.plan.shares, survivors=self.clients)


# --- cases -----------------------------------------------------------------------------------------------------------


def kl_case(name: str, build: Callable[[], Subject], samples: int | None = None, *, known: bool = True) -> Case:
    """Returns a case of the catalogue; a broken one if ``samples`` is given. ``known``: whether its truth is."""
    oracle = "the exact law of the output" if known else ""
    return Case.of(
        f"learner/{name}", build, samples, source="Scott, Biswas, Cormode & Maple 2024, corrected", oracle=oracle
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
    """Returns a subject with the claim of the whole curve of an estimator's event.

    Args:
      claimed: The estimator whose event is claimed.
      sampled: The estimator that is run; by default ``claimed``.
      pair: The data sets; by default the worst-case neighbours of ``claimed``.
      shown: The target; by default ``sampled``.
      claim: The claim, if it is not that of ``claimed.event()``.
      delta: The delta of the claim.
      truth: The exact epsilon of the target; by default that of ``sampled.event()``, which the pair has to attain.
    """
    runs = claimed if sampled is None else sampled
    return Subject(
        target=runs if shown is None else shown,
        neighbours=claimed.worst_case_neighbours() if pair is None else pair,
        claim=Claim.curve(claimed.event(), delta) if claim is None else claim,
        truth=exact_epsilon(runs.event(), delta) if truth is None else truth,
    )
