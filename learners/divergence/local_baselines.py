"""Baselines for secure aggregation: private estimates of KL(Pi || P) from other noisy histograms.

* :class:`LocalKL`: every client adds the full noise to its own counts, and the server sees every message.
* :class:`RandomizedKL`: every client has one record and reports its symbol by k-ary randomised response.
* :class:`TrustedHistogram`: a trusted server adds noise to the counts once, and not to the estimate.

Neighbours differ in one record's symbol (replace-one). After Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478),
sections 1 and 5; Warner 1965 for randomised response.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import MOST, array, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL, Law, Shares
from hockeystick.learners.divergence.graph import record_graph
from hockeystick.learners.divergence.noisy_estimates import Bits, NoisyCounts
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import RandomizedResponse
from hockeystick.mechanisms.contract.arguments import generator, run_count, zeros
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

# --- one client's or one server's whole noise ------------------------------------------------------------------------


def _plan(value: object) -> DistributedKL:
    if not isinstance(value, DistributedKL):
        raise InvalidArgumentError("plan", type(value).__name__, "is not a DistributedKL", "use .calibrated")
    if value.shares.survivors != 1:
        raise InvalidArgumentError("survivors", value.shares.survivors, "is not 1: one share must be the full noise")
    return value


@frozen(kw_only=True)
class WholeNoise:
    """Base of the baselines with noisy counts in which one share is the full noise.

    Args:
        plan: The queries and the noise of a count, with ``survivors=1``.

    Raises:
        InvalidArgumentError: ``plan`` is not such a plan.
    """

    plan: DistributedKL = field(converter=_plan)

    @classmethod
    def calibrated(
        cls, average: QueryAverage, *, epsilon: float, delta: float, law: Law = "skellam", group: int = 1
    ) -> Self:
        """Returns the baseline with the least noise on a count that is (ε, δ)-DP.

        The arguments are those of ``DistributedKL.calibrated``.

        Raises:
            InvalidArgumentError: an argument is outside its domain.
            NumericalError: no noise can be shown to meet the target.
        """
        whole = {"survivors": 1, "group": group}
        return cls(plan=DistributedKL.calibrated(average, epsilon=epsilon, delta=delta, law=law, **whole))

    def event(self) -> PrivacyEvent:
        """Returns the cost of one record (or of a client's group)."""
        return self.plan.event()

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Returns data sets of one cohort that differ in one record and in as many published counts as possible."""
        return self.plan.worst_case_neighbours()


@frozen(kw_only=True)
class LocalKL(WholeNoise):
    """Publishes every client's counts with the client's own full noise: without a trusted party or aggregation.

    The estimate is computed from their sum, whose noise has sqrt(clients) times the deviation of one message.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, DistributedKL, LocalKL, QueryAverage
        >>> data = ClientCounts.of_records(np.arange(1000), np.repeat([0, 1], [700, 300]), symbol_count=2)
        >>> average = QueryAverage.drawn(np.full(2, 0.5), data.records(), samples=10, rng=np.random.default_rng(1))
        >>> target = {"epsilon": 1.0, "delta": 0.0, "law": "polya"}
        >>> estimators = [kind.calibrated(average, **target) for kind in (LocalKL, DistributedKL)]
        >>> [round(estimator.deviation, 1) for estimator in estimators]  # of the noise on a count, in records
        [88.5, 2.8]
    """

    def graph(self) -> AccountantGraph:
        """Returns the plan: the view "server" sees every message, "output" the estimate."""
        return (
            record_graph(self.plan.group)
            .release("messages", self.event(), reads=("records", "coins"))
            .post("estimate", reads=("messages",))
            .view("server", sees=("messages", "estimate", "coins"))
            .view("output", sees=("estimate", "coins"))
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a count of the smallest cohort, in records."""
        return self.plan.deviation

    def bits(self) -> Bits:
        """Returns the communication of each client. Messages are not reduced modulo R; they have room for noise."""
        return self.plan.bits()

    def messages(self, data: ClientCounts, client: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` messages of one client about its symbols, shape (runs, asked), in records.

        Raises:
            InvalidArgumentError: the data do not fit the plan, or the client is not asked for anything.
        """
        average = self.plan.average
        average.counts(data)  # refuses data that do not fit
        requested = np.array([client in cohort for cohort in average.cohorts])
        symbols = average.symbols[np.broadcast_to(requested, average.symbols.shape)]
        if not len(symbols):
            raise InvalidArgumentError("client", client, "is not asked for anything")
        own = data.of_symbols(symbols, [client])[0]
        return _noisy(self.plan.shares, self.plan.factor, own, rng, runs)

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` sums of the messages, from which estimates are computed, shape (runs, u), in records."""
        return self.plan.simulate(data, rng, runs)

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """Returns ln(P(output | data0)/P(output | data1)) for sums (runs, u), which reveal less than messages."""
        return self.plan.log_likelihood_ratio(output, data0, data1)

    def release(
        self,
        data: ClientCounts,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> NoisyCounts:
        """Returns the sum of all clients' messages with secure noise; arguments as for a mechanism's release."""
        return self.plan.release(data, ledger=ledger, name=name, reads=reads, noise=noise)


@frozen(kw_only=True)
class TrustedHistogram(WholeNoise):
    """Publishes a cohort's counts of the drawn symbols with noise that a trusted server adds once.

    The estimates are those of ``DistributedKL`` with only the noise of its guaranteed survivors. If counts are large,
    that is better than noise on the estimate (``TrustedKL``), whose sensitivity is that of an empty cell.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, QueryAverage, TrustedHistogram
        >>> data = ClientCounts.of_records(np.arange(1000), np.repeat([0, 1], [700, 300]), symbol_count=2)
        >>> average = QueryAverage.drawn(np.full(2, 0.5), data.records(), samples=10, rng=np.random.default_rng(1))
        >>> baseline = TrustedHistogram.calibrated(average, epsilon=1.0, delta=0.0, law="polya")
        >>> baseline.simulate(data, np.random.default_rng(1), runs=2)
        array([[701., 305.],
               [697., 304.]])
    """

    def graph(self) -> AccountantGraph:
        """Returns the plan: the noisy counts are one release, the estimate is post-processing."""
        return (
            record_graph(self.plan.group)
            .release("counts", self.event(), reads=("records", "coins"))
            .post("estimate", reads=("counts",))
            .view("output", sees=("estimate", "coins"))
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a count, in records."""
        return math.sqrt(self.plan.shares.variance()) / self.plan.factor

    def bits(self) -> Bits:
        """Returns the communication of each client, which sends its counts as they are."""
        requested = self.plan.bits()
        room = int(self.plan.average.client_records.max()).bit_length()
        return evolve(requested, up=requested.residues * room)

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns ``runs`` vectors of noisy counts, shape (runs, u), in records."""
        return _noisy(self.plan.shares, self.plan.factor, self.plan.average.counts(data), rng, runs)

    def log_likelihood_ratio(self, output: npt.ArrayLike, data0: ClientCounts, data1: ClientCounts) -> FloatArray:
        """Returns ln(P(output | data0)/P(output | data1)) for noisy counts of shape (runs, u)."""
        factor, average = self.plan.factor, self.plan.average
        drawn = np.rint(np.asarray(output, dtype=np.float64) * factor).astype(np.int64)
        here, there = (factor * average.counts(data) for data in (data0, data1))
        return self.plan.shares.log_likelihood_ratio(drawn, here, there)

    def release(
        self,
        data: ClientCounts,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> NoisyCounts:
        """Returns noisy counts with secure noise, to be published; arguments as for a mechanism's release."""
        source, counts = check_noise(noise), self.plan.average.counts(data)

        def drawn() -> NoisyCounts:
            noisy = self.plan.factor * counts + self.plan.shares.share(len(counts), noise=source)
            return NoisyCounts(
                counts=noisy / self.plan.factor,
                deviations=np.full(len(counts), self.deviation),
                simulated=source.simulated,
                average=self.plan.average,
                bits=self.bits(),
            )

        return charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)


def _noisy(shares: Shares, factor: int, counts: IntArray, rng: np.random.Generator, runs: int) -> FloatArray:
    return np.asarray(shares.simulate(factor * counts, generator(rng), run_count(runs)) / factor)


# --- randomised response ---------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Reports:
    """The published counts of randomised reports, from which estimates are post-processing.

    Attributes:
        counts: The number of reports of each symbol, shape (k,).
        simulated: Whether the coins were simulated, so that it is not a release.
        plan: The public plan.
    """

    counts: IntArray = field(repr=False, eq=False)
    simulated: bool
    plan: RandomizedKL = field(repr=False)

    def estimate(self, multiplier: float = 0.0, *, floor: float | None = None) -> float:
        """Returns the estimate at a multiplier; see :meth:`RandomizedKL.estimates`."""
        return float(self.plan.estimates(self.counts, multiplier, floor=floor))


@frozen(eq=False, kw_only=True)
class RandomizedKL:
    """Estimates KL(Pi || P) by k-ary randomised response of clients with one record each: the local model.

    All symbols are reported, so there are no public coins: the average is that over Pi.

    Args:
        reference: Pi, shape (k,).
        clients: n.
        epsilon: The logarithm of the truth's odds against each other symbol.

    Raises:
        InvalidArgumentError: an argument is outside its domain, or ``epsilon`` is 0, where reports are pure noise.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, RandomizedKL
        >>> data = ClientCounts.of_records(np.arange(1000), np.repeat([0, 1], [700, 300]), symbol_count=2)
        >>> estimator = RandomizedKL(reference=[0.5, 0.5], clients=1000, epsilon=1.0)
        >>> counts = estimator.simulate(data, np.random.default_rng(1), runs=2)
        >>> counts, estimator.estimates(counts).round(3)  # the exact value is 0.087
        (array([[588, 412],
               [579, 421]]), array([0.078, 0.062]))
    """

    reference: FloatArray = field(converter=sensitivity.reference, repr=False)
    clients: int = field(converter=arguments.clients)
    epsilon: float = field()

    @epsilon.validator
    def _reports_are_not_pure_noise(self, _: object, value: object) -> None:
        real("epsilon", value, low=0.0, low_open=True)

    @property
    def mechanism(self) -> RandomizedResponse:
        """The randomised response of each client."""
        return RandomizedResponse(self.epsilon, categories=len(self.reference))

    def event(self) -> PrivacyEvent:
        """Returns the cost of a client's record; all other reports are independent of it."""
        return self.mechanism.event()

    def graph(self) -> AccountantGraph:
        """Returns the plan: one release, in which one report depends on a record."""
        return (
            record_graph(1)
            .release("reports", self.event(), reads=("records",))
            .post("estimate", reads=("reports",))
            .view("server", sees=("reports", "estimate"))
            .view("output", sees=("estimate",))
        )

    def bits(self) -> Bits:
        """Returns the communication of each client."""
        return Bits(down=0, up=max(1, (len(self.reference) - 1).bit_length()), residues=1)

    def simulate(self, data: ClientCounts, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns ``runs`` vectors of counts of reports, shape (runs, k).

        With probability k/(e^epsilon + k - 1) a report is a uniformly random symbol, otherwise the true one.

        Raises:
            InvalidDataError: the data have another shape, or a client does not have exactly one record.
        """
        counts, source, k = self._symbols(data)[1], generator(rng), len(self.reference)
        any_symbol = self.mechanism.lie_probability() * k / (k - 1)
        truthful = source.binomial(counts, 1.0 - any_symbol, size=(run_count(runs), k))
        return np.asarray(truthful + source.multinomial(self.clients - truthful.sum(axis=1), np.full(k, 1.0 / k)))

    def estimates(self, counts: npt.ArrayLike, multiplier: float = 0.0, *, floor: float | None = None) -> FloatArray:
        """Returns λ·(sum P - 1) - sum Pi ln(P/Pi) for counts of reports of shape (..., k).

        P are the unbiased frequencies (c/n - q)/(p - q), clamped to ``floor``, 1/(2n) by default.

        Raises:
            InvalidArgumentError: an argument is outside its domain.
        """
        reported = array("counts", counts, low=0.0, high=MOST, data=True)
        lam = real("multiplier", multiplier, low=0.0, high=1e100)
        k = len(self.reference)
        if reported.shape[-1:] != (k,) or (reported.sum(axis=-1) != self.clients).any():
            raise InvalidDataError("counts", reported, f"are not {self.clients} reports of {k} symbols each")
        least = 0.5 / self.clients if floor is None else real("floor", floor, low=0.0, low_open=True)
        lie = self.mechanism.lie_probability()
        each = lie / (k - 1)
        contrast = 1.0 - lie - each
        if not contrast > 0.0:
            raise InvalidArgumentError("epsilon", self.epsilon, "leaves reports that say nothing", "use a larger one")
        p = np.maximum((reported / self.clients - each) / contrast, least)
        return np.asarray(lam * (p.sum(axis=-1) - 1.0) - np.log(p / self.reference) @ self.reference)

    def release(
        self,
        data: ClientCounts,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> Reports:
        """Returns all clients' reports by secure coins, counted; arguments as for a mechanism's release."""
        source, truth = check_noise(noise), self._symbols(data)[0]

        def drawn() -> Any:
            return self.mechanism.release(truth, noise=source)

        reported = charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        counts = np.bincount(reported, minlength=len(self.reference))
        return Reports(counts=counts, simulated=source.simulated, plan=self)

    def worst_case_neighbours(self) -> tuple[ClientCounts, ClientCounts]:
        """Returns data sets in which one client changes its symbol and all others have the first one."""
        symbols = zeros((2, self.clients)).astype(np.int64)
        symbols[1, 0] = 1
        owners, k = np.arange(self.clients), len(self.reference)
        first, second = (
            ClientCounts.of_records(owners, own, symbol_count=k, client_count=len(owners)) for own in symbols
        )
        return first, second

    def _symbols(self, data: ClientCounts) -> tuple[IntArray, IntArray]:
        """Each client's symbol, and the symbols' counts."""
        if not isinstance(data, ClientCounts):
            raise InvalidDataError("data", data, "is not a ClientCounts")
        if (data.clients, data.symbols) != (self.clients, len(self.reference)):
            raise InvalidDataError("data", data, "does not have the shape of the plan")
        if (data.records() != 1).any():
            reason = "has clients without a record or with more than one"
            raise InvalidDataError("data", data, reason, "use LocalKL, or one record of each client")
        table = data.table.tocoo()
        held = table.data > 0
        found = np.zeros(self.clients, dtype=np.int64)
        found[table.row[held]] = table.col[held]
        return found, data.total()
