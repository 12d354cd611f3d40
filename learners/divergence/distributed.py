"""Private estimates of KL(Pi || P) where nobody is trusted: clients add shares of noise, and only sums are ever seen.

The clients of a cohort add to their counts of the symbols that were drawn, each client its own share of whole-number
noise, and secure aggregation shows the server the sums alone. The sums are what is published; frequencies, ratios,
logarithms, the multiplier and corrections of bias are post-processing. After Scott, Biswas, Cormode & Maple 2024 (arXiv
2411.16478), Algorithm 3, corrected: noise is on counts and for the records of the cohort; a symbol is asked for once,
however often it was drawn; and what is clamped is the noisy frequency.

What one record costs is the exact law of the noise of those clients that surely answer and keep it to themselves,
shifted once for each published count that the record changes: two with one cohort, one with disjoint cohorts, and as
many as the record's client is asked for either symbol with cohorts drawn anew each round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy.special import digamma

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
    PrivacyEvent,
    compose,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, one_of, probability, real
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import Harmonic, Smoothed
from hockeystick.learners.divergence.graph import record_graph
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import DiscreteGaussianShares, PolyaShares, SkellamShares
from hockeystick.mechanisms.contract.arguments import generator, run_count
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, MaskedSum, modulus_for, secure_sum
from hockeystick.mechanisms.numbers.added_integers import least_noise
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

Shares = SkellamShares | DiscreteGaussianShares | PolyaShares
Law = Literal["skellam", "discrete gaussian", "polya"]
Aggregation = Literal["ideal", "masked"]

_SURE = 5.0  # standard deviations of a noisy frequency above 0, from which its bias is corrected


def _average(value: object) -> QueryAverage:
    if not isinstance(value, QueryAverage):
        raise InvalidArgumentError("average", type(value).__name__, "is no QueryAverage", "use QueryAverage.drawn")
    if value.weighting != "record":
        raise InvalidArgumentError("average", value.weighting, "weights by client", "use weighting='record'")
    return value


def _group(value: object) -> int:
    return integer("group", value, low=1, high=10**6)


@frozen(kw_only=True)
class Bits:
    """Communication of one run, in bits for each client that is asked.

    Attributes:
        down: The different symbols that it is asked for.
        up: One residue for each of them.
        residues: How many it sends.
    """

    down: int
    up: int
    residues: int


@frozen(kw_only=True)
class NoisyCounts:
    """What is published: noisy counts of the cohort, of which every estimate is post-processing.

    Attributes:
        counts: Shape (u,), in units of records: sums over those who have answered.
        deviations: Standard deviations of the noise on them, shape (u,): of the shares of those who have answered.
        simulated: Whether the noise was simulated, so that it is no release.
        average: The public plan, as those have answered it: its cohorts and records are theirs.
        bits: What each client of the first cohort sent and received.
    """

    counts: FloatArray = field(repr=False, eq=False)
    deviations: FloatArray = field(repr=False, eq=False)
    simulated: bool
    average: QueryAverage = field(repr=False)
    bits: Bits

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a count; the largest, where cohorts have answered in different numbers."""
        return float(self.deviations.max())

    def estimate(self, multiplier: float = 0.0, *, floor: float | None = None, debias: bool = False) -> float:
        """lambda*U - V, for any multiplier: see :func:`estimates`."""
        spread = self.deviations if debias else 0.0
        return float(estimates(self.average, self.counts, multiplier, deviation=spread, floor=floor))


@frozen(kw_only=True)
class DistributedKL:
    """Publishes noisy counts of the symbols that were drawn, as sums over a cohort.

    Neighbours differ in ``group`` records of one client, each replaced by any other symbol (replace-one; the numbers of
    clients and of their records are public).

    Source: Scott, Biswas, Cormode & Maple 2024, Algorithm 3, corrected.

    Args:
        average: What is asked, of whom.
        shares: The noise that each client adds to each count, with ``rise=1`` and ``fall=0``. Its ``survivors`` are
            the clients of a cohort that surely answer and do not tell their noise.
        group: Records of one client that may be replaced.

    Raises:
        InvalidArgumentError: an argument outside its domain, or more survivors than the smallest cohort has clients.
    """

    average: QueryAverage = field(converter=_average)
    shares: Shares = field()
    group: int = field(default=1, converter=_group)

    @shares.validator
    def _shares_are_for_one_count(self, _: object, value: object) -> None:
        if not isinstance(value, Shares):
            raise InvalidArgumentError("shares", value, "are no noise shares", "use DistributedKL.calibrated")
        if (value.rise, value.fall) != (1, 0):
            raise InvalidArgumentError("shares", value, "are not for one count", "give rise=1 and fall=0")
        if value.survivors > min(len(cohort) for cohort in self.average.cohorts):
            raise InvalidArgumentError("survivors", value.survivors, "are more than the smallest cohort has clients")

    @classmethod
    def calibrated(
        cls,
        average: QueryAverage,
        *,
        epsilon: float,
        delta: float,
        law: Law = "skellam",
        survivors: int | None = None,
        group: int = 1,
    ) -> DistributedKL:
        """The estimator of least noise that is (epsilon, delta)-DP, by the exact law of the survivors' noise.

        Args:
            average: What is asked, of whom.
            epsilon, delta: The target; delta may be 0 for "polya" alone.
            law: Of the shares.
            survivors: Clients of each cohort that surely answer and do not tell their noise; all by default.
            group: Records of one client that may be replaced.

        Raises:
            InvalidArgumentError: an argument outside its domain.
            NumericalError: no noise can be shown to reach the target.
        """
        plan, allowed = _average(average), probability("delta", delta)
        count = min(len(cohort) for cohort in plan.cohorts) if survivors is None else survivors
        whole = integer("survivors", count, low=1, high=10**6)
        moves, many = changed_counts(plan), _group(group)
        one_of("law", law, "skellam", "discrete gaussian", "polya")
        if law == "polya":
            target = real("epsilon", epsilon, low=0.0, low_open=True)
            scale = PolyaShares.calibrated(epsilon=target / (moves * many), survivors=whole).scale
            while True:
                found = cls(average=plan, shares=PolyaShares(scale, survivors=whole), group=many)
                if found.event().pure_epsilon() <= target:
                    return found
                scale = math.nextafter(scale, math.inf)
        kind = SkellamShares if law == "skellam" else DiscreteGaussianShares
        # Two counts or one are what shares are calibrated for; the squares of more shifts add up, for a first guess.
        rise = many if moves <= 2 else math.ceil(many * math.sqrt(moves))
        first = kind.calibrated(
            epsilon=epsilon, delta=allowed, survivors=whole, rise=rise, fall=many if moves == 2 else 0
        )
        if moves <= 2:
            return cls(average=plan, shares=evolve(first, rise=1, fall=0), group=many)
        if isinstance(first, SkellamShares):

            def skellam(share_variance: float) -> DistributedKL:
                return cls(average=plan, shares=SkellamShares(share_variance, survivors=whole), group=many)

            # The sum over all is to be 1e8 at most: quotient and products are off by U each, of 9 U.
            return _least(skellam, first.share_variance, epsilon, allowed, low=1e-9, high=1e8 / whole * (1 - 1e-15))
        factor = first.factor

        def gaussian(share_sigma: float) -> DistributedKL:
            shares = DiscreteGaussianShares(share_sigma, survivors=whole, factor=factor)
            return cls(average=plan, shares=shares, group=many)

        return _least(gaussian, first.share_sigma, epsilon, allowed, low=0.1, high=2.0**12)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def event(self) -> PrivacyEvent:
        """What one record, or a client's group of records, costs whoever sees the sums and the other clients' noise.

        A group moves counts by its size in all, up and down; as the noise's law is log-concave, no way of sharing that
        out over symbols is told apart more easily than one.
        """
        one = evolve(self.shares, rise=self.group).event()
        return compose((one, changed_counts(self.average)))

    def graph(self) -> AccountantGraph:
        """The plan: the noisy counts are one release; estimates are behind them.

        Views: "output" sees the estimate, "server" the sums that it is made of; both cost the same. In either the
        noise of all but the survivors is known.
        """
        sure, asked = self.shares.survivors, min(len(cohort) for cohort in self.average.cohorts)
        return (
            record_graph(
                self.group,
                f"of each cohort at least {sure} of {asked} clients answer and do not tell their noise",
                "the server sees no more of a cohort's messages than their sum (secure aggregation)",
            )
            .release("counts", self.event(), reads=("records", "coins"))
            .post("estimate", reads=("counts",))
            .view("server", sees=("counts", "estimate", "coins"))
            .view("output", sees=("estimate", "coins"))
        )

    @property
    def factor(self) -> int:
        """What clients multiply their counts by."""
        return self.shares.factor if isinstance(self.shares, DiscreteGaussianShares) else 1

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a count, in records, where the whole of the smallest cohort answers."""
        answering = min(len(cohort) for cohort in self.average.cohorts)
        return math.sqrt(evolve(self.shares, survivors=answering).variance()) / self.factor

    def deviations(self, average: QueryAverage | None = None) -> FloatArray:
        """Standard deviation of the noise on each count, in records, shape (u,).

        Args:
            average: The plan as it was answered (``QueryAverage.answered_by``); by everybody by default.
        """
        found = np.empty(len(self.average.symbols))
        for who, columns in _by_cohort_size(average or self.average):
            found[columns] = math.sqrt(evolve(self.shares, survivors=who).variance()) / self.factor
        return found

    def modulus(self) -> int:
        """R: the sums are found modulo R, with room for all records of a cohort and eight deviations of the noise."""
        largest = max(len(cohort) for cohort in self.average.cohorts)
        spread = math.sqrt(evolve(self.shares, survivors=largest).variance())
        return modulus_for(self.factor * float(self.average.records.max()), spread)

    def bits(self) -> Bits:
        """What each client of a fixed cohort, or one that is asked once, sends and receives."""
        asked = len(self.average.symbols) if len(self.average.cohorts) == 1 else 1
        symbol = max(1, (self.average.symbol_count - 1).bit_length())
        return Bits(down=asked * symbol, up=asked * (self.modulus().bit_length() - 1), residues=asked)

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """``runs`` published vectors of noisy counts, shape (runs, u), in records; everybody answers."""
        counts, source = self.average.counts(data), generator(rng)
        found = np.empty((run_count(runs), len(counts)))
        for who, columns in _by_cohort_size(self.average):
            noisy = evolve(self.shares, survivors=who).simulate(self.factor * counts[columns], source, len(found))
            found[:, columns] = noisy / self.factor
        return found

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """ln P(output | data0)/P(output | data1) of noisy counts of shape (runs, u)."""
        drawn = np.rint(np.asarray(output, dtype=np.float64) * self.factor).astype(np.int64)
        here, there = (self.factor * self.average.counts(data) for data in (data0, data1))
        total = np.zeros(len(drawn))
        for who, columns in _by_cohort_size(self.average):
            shares = evolve(self.shares, survivors=who)
            total += shares.log_likelihood_ratio(drawn[:, columns], here[columns], there[columns])
        return total

    def release(
        self,
        data: ClientCounts,
        *,
        answering: Iterable[int] | None = None,
        aggregation: Aggregation = "ideal",
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> NoisyCounts:
        """One run with a share of secure noise for each client: what a deployment does, in one process.

        Estimates are of those who answer: sums are divided by their records.

        Args:
            data: Everybody's counts.
            answering: The clients that answer, by number; all by default. Who does must not depend on records.
            aggregation: "ideal", or "masked" to play the masks of secure aggregation.
            ledger, name, reads, noise: As for a mechanism's release.

        Raises:
            InvalidArgumentError: an argument outside its domain, or data that do not fit the public plan.
            AggregationError: fewer clients of a cohort answer than the noise was made for.
            SecureReleaseUnavailableError: there is no secure source of noise.
            HockeystickError: the ledger refuses.
        """
        source, counts = check_noise(noise), self._client_counts(data)
        present = None if answering is None else list(answering)
        here = [self._answering(cohort, present) for cohort, _ in counts]
        average = self.average.answered_by(cohort[own] for (cohort, _), own in zip(counts, here, strict=True))

        def drawn() -> NoisyCounts:
            sums = [self._summed(own, who, source, aggregation) for (_, own), who in zip(counts, here, strict=True)]
            return NoisyCounts(
                counts=np.concatenate(sums) / self.factor,
                deviations=self.deviations(average),
                simulated=source.simulated,
                average=average,
                bits=self.bits(),
            )

        return charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    def _answering(self, cohort: npt.NDArray[np.int64], present: list[int] | None) -> list[int]:
        """Who of a cohort answers, by place in it."""
        here = np.arange(len(cohort)) if present is None else np.flatnonzero(np.isin(cohort, present))
        if len(here) < self.shares.survivors:
            raise too_few(len(here), len(cohort), self.shares.survivors)
        return [int(i) for i in here]

    def _client_counts(self, data: ClientCounts) -> list[tuple[npt.NDArray[np.int64], IntArray]]:
        """Each cohort with its clients' counts of what they are asked for."""
        self.average.counts(data)  # refuses data that do not fit
        symbols, cohorts = self.average.symbols, self.average.cohorts
        asked = [symbols] if len(cohorts) == 1 else [symbols[i : i + 1] for i in range(len(symbols))]
        return [(cohort, data.of_symbols(part, cohort)) for cohort, part in zip(cohorts, asked, strict=True)]

    def _summed(self, own: IntArray, here: list[int], noise: Noise, aggregation: Aggregation) -> IntArray:
        messages = self.factor * own
        for i in here:
            messages[i] += self.shares.share(own.shape[1], noise=noise)
        least = max(1, self.shares.survivors)
        if aggregation == "ideal":
            spread = math.sqrt(evolve(self.shares, survivors=len(own)).variance())
            largest = self.factor * float(self.average.records.max())
            return secure_sum(
                messages,
                modulus=self.modulus(),
                largest=largest,
                sigma=spread,
                survivors=here,
                threshold=least,
            )
        if aggregation != "masked":
            raise InvalidArgumentError("aggregation", aggregation, "is unknown", 'use "ideal" or "masked"')
        protocol = MaskedSum(self.modulus(), len(own), threshold=least)
        return protocol.unmask({i: protocol.mask(i, messages[i]) for i in here})

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Data sets that differ in one record, in as many published counts as one can; of one cohort."""
        return self.average.worst_case_neighbours(0.0)

    # --- utility -----------------------------------------------------------------------------------------------------

    def moments(
        self, data: ClientCounts, multiplier: float = 0.0, *, floor: float | None = None
    ) -> tuple[float, float]:
        """Mean and variance of the estimate for these data and coins, exactly, over the noise: not private.

        The laws of the counts are independent; each estimate's term is added up over its law.
        """
        counts = self.average.counts(data)
        mean = variance = 0.0
        for who, columns in _by_cohort_size(self.average):
            drawn, masses = evolve(self.shares, survivors=who).law()
            for column in columns:
                noisy = counts[column] + drawn / self.factor
                term = self.average.shares[column] * _terms(self.average, noisy, int(column), multiplier, 0.0, floor)
                own = float(masses @ term)
                mean, variance = mean + own, variance + float(masses @ (term - own) ** 2)
        return mean, variance


def _by_cohort_size(average: QueryAverage) -> Iterable[tuple[int, npt.NDArray[np.intp]]]:
    """Numbers of clients, and which symbols so many are asked for."""
    sizes = np.broadcast_to([len(cohort) for cohort in average.cohorts], average.symbols.shape)
    return ((int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes))


def changed_counts(average: QueryAverage) -> int:
    """How many published counts one record can change by one: the worst client's times asked for any two symbols.

    Two for a fixed cohort that is asked for two symbols or more, one for disjoint cohorts.
    """
    _, where = np.unique(average.symbols, return_inverse=True)
    clients = len(average.client_records)
    asked = np.zeros((int(where.max()) + 1, clients), dtype=np.int64)
    if len(average.cohorts) == 1:
        asked[:, average.cohorts[0]] = 1
    else:
        for symbol, cohort in zip(where, average.cohorts, strict=True):
            asked[symbol, cohort] += 1
    asked[:, average.client_records == 0] = 0
    return max(1, int(np.sort(asked, axis=0)[-2:].sum(axis=0).max()))


def estimates(
    average: QueryAverage,
    counts: npt.ArrayLike,
    multiplier: float = 0.0,
    *,
    deviation: float | FloatArray = 0.0,
    floor: float | None = None,
) -> FloatArray:
    """lambda*U - V of published noisy counts, shape (...), for counts of shape (..., u).

    Frequencies are clamped from below, as noise makes counts negative: to that of a count of zero (or of half a record,
    without smoothing), if no ``floor`` is given.

    Args:
        average: The public plan, as it was answered (``QueryAverage.answered_by``): N is of those who have answered.
        counts: Noisy counts, in records.
        multiplier: lambda >= 0.
        deviation: Of the noise, of each count or of all, to take off the logarithm's bias sigma^2/(2 P^2) where P is
            far from 0; 0 leaves it.
        floor: Least frequency, > 0.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    noisy = np.asarray(counts, dtype=np.float64)
    if noisy.shape[-1:] != average.symbols.shape or not np.isfinite(noisy).all():
        raise InvalidDataError("counts", noisy, f"are not {len(average.symbols)} finite numbers each")
    return np.asarray(_terms(average, noisy, slice(None), multiplier, deviation, floor) @ average.shares)


def _terms(
    average: QueryAverage,
    noisy: FloatArray,
    which: int | slice,
    multiplier: float,
    deviation: float | FloatArray,
    floor: float | None,
) -> FloatArray:
    """lambda*(r - 1) - ln r of noisy counts of one symbol that is asked for, or of all in the last axis."""
    lam, spread = real("multiplier", multiplier, low=0.0), array("deviation", deviation, low=0.0)
    sizes = average.records if len(average.cohorts) == 1 else average.records[which]
    rule, k = average.logarithm, average.symbol_count
    pi = average.reference[average.symbols][which]
    added = rule.pseudo_count if isinstance(rule, Smoothed) else 0.0
    mass = sizes + added * k
    least = np.maximum(added, 0.5) / mass if floor is None else real("floor", floor, low=0.0, low_open=True)
    p = np.maximum((noisy + added) / mass, least)
    if isinstance(rule, Harmonic):
        logs = digamma(np.maximum(noisy, 0.0) + 1.0) - digamma(np.asarray(sizes) + 1.0)
    else:
        logs = np.log(p)
    at = spread / mass
    correction = np.where(p > _SURE * at, 0.5 * (at / p) ** 2, 0.0)
    return np.asarray(lam * (p / pi - 1.0) - (logs - np.log(pi)) - correction)


def too_few(answered: int, asked: int, needed: int) -> AggregationError:
    """The error where fewer clients answer than the noise is made for."""
    return AggregationError(f"{answered} of {asked} clients have answered; the noise is made for {needed}")


def _least(
    build: Callable[[float], DistributedKL], guess: float, epsilon: float, delta: float, *, low: float, high: float
) -> DistributedKL:
    return build(least_noise(build, epsilon=epsilon, delta=delta, guess=guess, low=low, high=high))
