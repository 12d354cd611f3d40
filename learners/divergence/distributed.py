"""Private estimates of KL(Pi || P) without a trusted party: clients add shares of noise, and only sums are seen.

Each client of a cohort adds its own share of whole-number noise to its counts of the drawn symbols, and secure
aggregation reveals only the sums to the server. The sums are published; frequencies, ratios, logarithms, the multiplier
and corrections of bias are post-processing. After Scott, Biswas, Cormode & Maple 2024 (arXiv
2411.16478), Algorithm 3, corrected: the noise is on counts and for the records of the cohort; a symbol is asked for
once, however often it was drawn; and the noisy frequency is clamped.

The cost of one record is that of the exact law of the survivors' noise, shifted once for each published count that the
record changes: two with one cohort, one with disjoint cohorts, and with a fresh cohort each round as many as the rounds
in which the record's client is asked for one of the two symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Guarantee,
    InvalidArgumentError,
    PrivacyEvent,
    compose,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, items, one_of, probability, real
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.graph import record_graph
from hockeystick.learners.divergence.noisy_estimates import Bits, NoisyCounts, terms
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import DiscreteGaussianShares, PolyaShares, SkellamShares
from hockeystick.mechanisms.contract.arguments import generator, run_count
from hockeystick.mechanisms.distributed.pairwise.pairwise_sum import (
    COMPUTATIONAL,
    LYING,
    SILENCE,
    PairwiseSum,
    check_two_lists,
)
from hockeystick.mechanisms.distributed.pairwise.sum_server import sum_in_process
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, modulus_for, secure_sum
from hockeystick.mechanisms.numbers.added_integers import least_noise
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

Shares = SkellamShares | DiscreteGaussianShares | PolyaShares
Law = Literal["skellam", "discrete gaussian", "polya"]
Aggregation = Literal["ideal", "masked"]


def _average(value: object) -> QueryAverage:
    if not isinstance(value, QueryAverage):
        raise InvalidArgumentError("average", type(value).__name__, "is not a QueryAverage", "use QueryAverage.drawn")
    if value.weighting != "record":
        raise InvalidArgumentError("average", value.weighting, "weights by client", "use weighting='record'")
    return value


def _group(value: object) -> int:
    return integer("group", value, low=1, high=10**6)


@frozen(kw_only=True)
class DistributedKL:
    """Publishes noisy counts of the drawn symbols, as sums over a cohort.

    Neighbours differ in ``group`` records of one client, each replaced by any other symbol (replace-one; the numbers of
    clients and of their records are public).

    Source: Scott, Biswas, Cormode & Maple 2024, Algorithm 3, corrected.

    Args:
        average: The symbols and the cohorts.
        shares: The noise that each client adds to each count; its ``rise`` is 1 and its ``fall`` 0. Its ``survivors``
            are the clients of a cohort that certainly answer and keep their noise secret.
        group: The number of records of one client that may be replaced.
        threshold: t, the number of clients of a cohort that have to answer to the end, or there is no sum; by default
            ``survivors``. Against c clients that collude, the noise of t - c is charged.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or survivors <= threshold <= clients in the smallest
            cohort does not hold.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, DistributedKL, QueryAverage
        >>> symbols = np.repeat([0, 1, 2, 3], [400, 300, 200, 100])  # of 1000 clients with one record each
        >>> data = ClientCounts.of_records(np.arange(1000), symbols, symbol_count=4)
        >>> average = QueryAverage.drawn(np.full(4, 0.25), data.records(), samples=100, rng=np.random.default_rng(1))
        >>> estimator = DistributedKL.calibrated(average, epsilon=1.0, delta=0.0, law="polya")
        >>> estimator.simulate(data, np.random.default_rng(1), runs=1)  # noisy sums over all clients
        array([[401., 305., 197., 104.]])
    """

    average: QueryAverage = field(converter=_average)
    shares: Shares = field()
    group: int = field(default=1, converter=_group)
    threshold: int = field()

    @threshold.default
    def _survivors(self) -> int:
        return getattr(self.shares, "survivors", 1)  # the validator of shares raises

    def __attrs_post_init__(self) -> None:
        smallest = min(len(cohort) for cohort in self.average.cohorts)
        integer("threshold", self.threshold, low=self.shares.survivors, high=smallest)

    @shares.validator
    def _shares_are_for_one_count(self, _: object, value: object) -> None:
        if not isinstance(value, Shares):
            raise InvalidArgumentError(
                "shares",
                value,
                "is not an instance of SkellamShares, DiscreteGaussianShares or PolyaShares",
                "use DistributedKL.calibrated",
            )
        if (value.rise, value.fall) != (1, 0):
            raise InvalidArgumentError("shares", value, "are not for one count", "use rise=1 and fall=0")
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
        threshold: int | None = None,
    ) -> DistributedKL:
        """Returns the estimator with the least noise that is (ε, δ)-DP, by the exact law of the noise.

        Args:
            average: The symbols and the cohorts.
            epsilon, delta: The target; delta may be 0 only for "polya".
            law: The law of the shares.
            survivors: The number of clients of each cohort that certainly answer and keep their noise secret; by
                default all.
            group: The number of records of one client that may be replaced.
            threshold: t; by default ``survivors``. To meet the target against c colluding clients, give
                ``survivors=t - c``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
            NumericalError: no noise can be shown to meet the target.
        """
        plan, allowed = _average(average), probability("delta", delta)
        count = min(len(cohort) for cohort in plan.cohorts) if survivors is None else survivors
        whole = integer("survivors", count, low=1, high=10**6)
        moves, many = changed_counts(plan), _group(group)
        one_of("law", law, "skellam", "discrete gaussian", "polya")
        target = real("epsilon", epsilon, low=0.0, low_open=True)
        build = partial(cls, average=plan, group=many, threshold=whole if threshold is None else threshold)
        if law == "polya":
            scale = PolyaShares.calibrated(epsilon=target / (moves * many), survivors=whole).scale
            while True:
                found = build(shares=PolyaShares(scale, survivors=whole))
                if found.event().pure_epsilon() <= target:
                    return found
                scale = math.nextafter(scale, math.inf)
        kind = SkellamShares if law == "skellam" else DiscreteGaussianShares
        # Shares can be calibrated for one or two counts; the guess for more adds up the squares of the shifts.
        rise = many if moves <= 2 else math.ceil(many * math.sqrt(moves))
        first = kind.calibrated(
            epsilon=epsilon, delta=allowed, survivors=whole, rise=rise, fall=many if moves == 2 else 0
        )
        if moves <= 2:
            return build(shares=evolve(first, rise=1, fall=0))
        if isinstance(first, SkellamShares):

            def skellam(share_variance: float) -> DistributedKL:
                return build(shares=SkellamShares(share_variance, survivors=whole))

            # The sum over all is to be 1e8 at most: quotient and products are off by U each, of 9 U.
            return _least(skellam, first.share_variance, epsilon, allowed, low=1e-9, high=1e8 / whole * (1 - 1e-15))
        factor = first.factor

        def gaussian(share_sigma: float) -> DistributedKL:
            return build(shares=DiscreteGaussianShares(share_sigma, survivors=whole, factor=factor))

        return _least(gaussian, first.share_sigma, epsilon, allowed, low=0.1, high=2.0**12)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def event(self, *, colluders: int | None = None) -> PrivacyEvent:
        """Returns the cost of one record, or of a client's group, against those who see sums and other clients' noise.

        A group moves counts up and down by its size in total; because the noise is log-concave, concentrating the
        change on one symbol is the easiest to detect.

        Args:
            colluders: c, the clients whose noise the adversary has; the noise of t - c is charged. By default those
                that leave the noise of ``shares.survivors``.

        Raises:
            InvalidArgumentError: c is not an integer in 0, ..., t - 1, or the noise has no known cost for a group.
        """
        one = evolve(self.shares, survivors=self._honest(colluders), rise=self.group).event()
        return compose((one, changed_counts(self.average)))

    def _honest(self, colluders: int | None) -> int:
        if colluders is None:
            return self.shares.survivors
        return self.threshold - integer("colluders", colluders, low=0, high=self.threshold - 1)

    def graph(self, *, colluders: int | None = None) -> AccountantGraph:
        """Returns the plan: the noisy counts are one release, the estimates are post-processing.

        The view "output" sees the estimate, "server" the sums, and "client", for c >= 1, the sums and the numbers of
        one of the c clients; all cost the same. In each the noise of all but t - c clients is known.

        Args:
            colluders: As for ``event``.

        Raises:
            InvalidArgumentError: as for ``event``.
        """
        t, requested = self.threshold, min(len(cohort) for cohort in self.average.cohorts)
        c = t - self._honest(colluders)
        found = (
            record_graph(
                self.group,
                f"of each cohort at least {t} of {requested} clients answer, or there is no sum; at most {c} of the "
                f"clients tell their noise or keys, so that the noise of {t - c} is secret",
                "the server sees no more of a cohort's messages than their sum (secure aggregation): it is semi-honest",
                COMPUTATIONAL,
                SILENCE,
            )
            .release("counts", self.event(colluders=colluders), reads=("records", "coins"))
            .post("estimate", reads=("counts",))
            .view("server", sees=("counts", "estimate", "coins"))
            .view("output", sees=("estimate", "coins"))
        )
        return found.view("client", sees=("counts", "estimate", "coins")) if c else found

    def guarantee(self, view: str | None = None, *, colluders: int | None = None, lying: bool = False) -> Guarantee:
        """Returns the guarantee of the plan for a view; see ``graph``.

        Args:
            view: "server", "client" or "output"; by default the adversary sees all published values.
            colluders: As for ``event``.
            lying: Whether the server may deviate from the protocol. Its clients then need identities; see
                ``kl_plan``.

        Raises:
            InvalidArgumentError: as for ``event``; or a server may lie, and 2t is not above n + c.
            GraphError: there is no such view.
        """
        found = self.graph(colluders=colluders).guarantee(view=view)
        if not lying:
            return found
        largest = max(len(cohort) for cohort in self.average.cohorts)
        check_two_lists(largest, self.threshold, self.threshold - self._honest(colluders))
        return evolve(found, assumptions=(*found.assumptions[:2], LYING, COMPUTATIONAL, SILENCE))

    @property
    def factor(self) -> int:
        """The factor by which clients multiply their counts."""
        return self.shares.factor if isinstance(self.shares, DiscreteGaussianShares) else 1

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a count, in records, if the whole smallest cohort answers."""
        answering = min(len(cohort) for cohort in self.average.cohorts)
        return math.sqrt(evolve(self.shares, survivors=answering).variance()) / self.factor

    def deviations(self, average: QueryAverage | None = None) -> FloatArray:
        """Returns the standard deviation of the noise on each count, in records, shape (u,).

        Args:
            average: The plan as it was answered (``QueryAverage.answered_by``); by default by all clients.
        """
        answered = self.average if average is None else average
        if not isinstance(answered, QueryAverage) or len(answered.symbols) != len(self.average.symbols):
            raise InvalidArgumentError("average", average, "is not this plan", "give QueryAverage.answered_by's result")
        found = np.empty(len(self.average.symbols))
        for clients, columns in _by_cohort_size(answered):
            found[columns] = math.sqrt(evolve(self.shares, survivors=clients).variance()) / self.factor
        return found

    def modulus(self) -> int:
        """Returns the modulus R of the sums, with room for all records of a cohort and eight deviations of noise."""
        largest = max(len(cohort) for cohort in self.average.cohorts)
        spread = math.sqrt(evolve(self.shares, survivors=largest).variance())
        return modulus_for(self.factor * float(self.average.records.max()), spread)

    def bits(self) -> Bits:
        """Returns the communication of each client of a fixed cohort, or of one that is asked once."""
        requested = len(self.average.symbols) if len(self.average.cohorts) == 1 else 1
        symbol = max(1, (self.average.symbol_count - 1).bit_length())
        return Bits(down=requested * symbol, up=requested * (self.modulus().bit_length() - 1), residues=requested)

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` vectors of noisy counts, shape (runs, u), in records; all clients answer."""
        counts, source = self.average.counts(data), generator(rng)
        found = np.empty((run_count(runs), len(counts)))
        for clients, columns in _by_cohort_size(self.average):
            noisy = evolve(self.shares, survivors=clients).simulate(self.factor * counts[columns], source, len(found))
            found[:, columns] = noisy / self.factor
        return found

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """Returns ln(P(output | data0)/P(output | data1)) for noisy counts of shape (runs, u)."""
        most = 2.0**53 / self.factor
        noisy = array("output", output, shape=(None, len(self.average.symbols)), low=-most, high=most, data=True)
        drawn = np.rint(noisy * self.factor).astype(np.int64)
        here, there = (self.factor * self.average.counts(data) for data in (data0, data1))
        total = np.zeros(len(drawn))
        for clients, columns in _by_cohort_size(self.average):
            shares = evolve(self.shares, survivors=clients)
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
        """Returns the result of one run with a share of secure noise for each client, in one process.

        Estimates refer to the clients that answer: sums are divided by the number of their records.

        Args:
            data: The counts of all clients.
            answering: The indices of the clients that answer; by default all. They must not depend on records.
            aggregation: "ideal", or "masked" for the protocol of a ``PairwiseSum``, with all clients in this process:
                n^2 key agreements for n clients, 4 s for 100.
            ledger, name, reads, noise: As for a mechanism's release.

        Raises:
            InvalidArgumentError: an argument is outside its domain, or the data do not fit the public plan.
            AggregationError: fewer clients of a cohort answer than the threshold.
            MissingExtraError: sums are to be masked, and the extra ``secure-sum`` is not installed.
            HockeystickError: the ledger refuses.
        """
        source, counts = check_noise(noise), self._client_counts(data)
        present = None if answering is None else list(items("answering", answering))
        here = [self._answering(cohort, present) for cohort, _ in counts]
        average = self.average.answered_by(cohort[own] for (cohort, _), own in zip(counts, here, strict=True))

        def drawn() -> NoisyCounts:
            sums = [
                self._summed(own, clients, source, aggregation) for (_, own), clients in zip(counts, here, strict=True)
            ]
            return NoisyCounts(
                counts=np.concatenate(sums) / self.factor,
                deviations=self.deviations(average),
                simulated=source.simulated,
                average=average,
                bits=self.bits(),
            )

        return charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    def _answering(self, cohort: npt.NDArray[np.int64], present: list[int] | None) -> list[int]:
        """The indices in a cohort of the clients that answer."""
        here = np.arange(len(cohort)) if present is None else np.flatnonzero(np.isin(cohort, present))
        if len(here) < self.threshold:
            raise AggregationError(f"{len(here)} of {len(cohort)} clients have answered; {self.threshold} are needed")
        return [int(i) for i in here]

    def _client_counts(self, data: ClientCounts) -> list[tuple[npt.NDArray[np.int64], IntArray]]:
        """Each cohort with its clients' counts of the symbols that they are asked for."""
        self.average.counts(data)  # refuses data that do not fit
        symbols, cohorts = self.average.symbols, self.average.cohorts
        requested = [symbols] if len(cohorts) == 1 else [symbols[i : i + 1] for i in range(len(symbols))]
        return [(cohort, data.of_symbols(part, cohort)) for cohort, part in zip(cohorts, requested, strict=True)]

    def _summed(self, own: IntArray, here: list[int], noise: Noise, aggregation: Aggregation) -> IntArray:
        messages = self.factor * own
        for i in here:
            messages[i] += self.shares.share(own.shape[1], noise=noise)
        if one_of("aggregation", aggregation, "ideal", "masked") == "ideal":
            spread = math.sqrt(evolve(self.shares, survivors=len(own)).variance())
            largest = self.factor * float(self.average.records.max())
            return secure_sum(
                messages,
                modulus=self.modulus(),
                largest=largest,
                sigma=spread,
                survivors=here,
                threshold=self.threshold,
            )
        protocol = PairwiseSum(clients=len(own), length=own.shape[1], modulus=self.modulus(), threshold=self.threshold)
        return sum_in_process(protocol, {i: messages[i] for i in here}).total

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Returns data sets of one cohort that differ in one record and in as many published counts as possible."""
        return self.average.worst_case_neighbours(0.0)

    # --- utility -----------------------------------------------------------------------------------------------------

    def moments(
        self, data: ClientCounts, multiplier: float = 0.0, *, floor: float | None = None
    ) -> tuple[float, float]:
        """Returns the exact mean and variance of the estimate over the noise, for these data and coins: not private.

        The counts are independent; each term of the estimate is summed over the law of its count.
        """
        counts = self.average.counts(data)
        mean = variance = 0.0
        for clients, columns in _by_cohort_size(self.average):
            drawn, masses = evolve(self.shares, survivors=clients).law()
            for column in columns:
                noisy = counts[column] + drawn / self.factor
                term = self.average.shares[column] * terms(self.average, noisy, int(column), multiplier, 0.0, floor)
                own = float(masses @ term)
                mean, variance = mean + own, variance + float(masses @ (term - own) ** 2)
        return mean, variance


def _by_cohort_size(average: QueryAverage) -> Iterable[tuple[int, npt.NDArray[np.intp]]]:
    """The cohort sizes, each with the columns of its symbols."""
    sizes = np.broadcast_to([len(cohort) for cohort in average.cohorts], average.symbols.shape)
    return ((int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes))


def changed_counts(average: QueryAverage) -> int:
    """Returns the largest number of published counts that one record can change by one.

    It is the largest number of times that a client is asked for any two symbols: two for a fixed cohort with two
    symbols
    or more, one for disjoint cohorts.
    """
    _, where = np.unique(average.symbols, return_inverse=True)
    clients = len(average.client_records)
    requested = np.zeros((int(where.max()) + 1, clients), dtype=np.int64)
    if len(average.cohorts) == 1:
        requested[:, average.cohorts[0]] = 1
    else:
        for symbol, cohort in zip(where, average.cohorts, strict=True):
            requested[symbol, cohort] += 1
    requested[:, average.client_records == 0] = 0
    return max(1, int(np.sort(requested, axis=0)[-2:].sum(axis=0).max()))


def _least(
    build: Callable[[float], DistributedKL], guess: float, epsilon: float, delta: float, *, low: float, high: float
) -> DistributedKL:
    return build(least_noise(build, epsilon=epsilon, delta=delta, guess=guess, low=low, high=high))
