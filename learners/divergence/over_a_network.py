"""The distributed KL estimate between a server and its clients, over any transport of a secure sum's messages.

Every client of the cohort sends its masked counts of the drawn symbols with its share of noise, by the protocol of
``PairwiseSum``: each two clients have keys of their own, so a client that tells its keys exposes only itself. The
server learns the sum over the clients that stayed, divides it by the public number of their records, to which the
estimate refers, and sees nothing else of their messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.noisy_estimates import NoisyCounts
from hockeystick.learners.network.protocol import State, seed_or_noise, substream
from hockeystick.mechanisms import PairwiseSum, SumClient
from hockeystick.mechanisms.distributed.pairwise.sum_server import Post, SumOutcome, conduct_sum
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.release import AnyLedger, charged


def kl_plan(estimator: DistributedKL, *, identities: tuple[bytes, ...] | None = None) -> PairwiseSum:
    """Returns the plan of the secure sum of an estimator's only cohort, with the estimator's threshold.

    Args:
        estimator: The public plan of the estimate, with one cohort.
        identities: The clients' public Ed25519 keys, if the server may lie; see :class:`PairwiseSum`.

    Raises:
        InvalidArgumentError: several cohorts, or another argument outside its domain.

    Example:
        See :func:`kl_server`.
    """
    if not isinstance(estimator, DistributedKL):
        raise InvalidArgumentError("estimator", type(estimator).__name__, "is not a DistributedKL")
    if len(estimator.average.cohorts) != 1:
        many = len(estimator.average.cohorts)
        raise InvalidArgumentError("estimator", many, "cohorts: only one can be asked", "use one")
    return PairwiseSum(
        clients=len(estimator.average.cohorts[0]),
        length=len(estimator.average.symbols),
        modulus=estimator.modulus(),
        threshold=estimator.threshold,
        identities=identities,
    )


def kl_server(
    estimator: DistributedKL,
    post: Post,
    *,
    simulated: bool,
    identities: tuple[bytes, ...] | None = None,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
) -> tuple[NoisyCounts, SumOutcome]:
    """Conducts one run; returns the published counts and the outcome of the secure sum. Needs the extra ``secure-sum``.

    Args:
        estimator: The public plan, with one cohort.
        post: Carries messages to the clients of the cohort, such as ``ClientsInProcess`` or ``post_on_flower``.
        simulated: Whether the clients draw from seeds, so that the result is not a release.
        identities: As for :func:`kl_plan`.
        ledger, name, reads: As for a mechanism's release. The ledger is charged when clients are asked for masked
            counts, and keeps the charge if there is no sum.

    Raises:
        InvalidArgumentError: several cohorts.
        HockeystickError: the ledger refuses.
        AggregationError: fewer clients than the threshold answer a step; see ``conduct_sum``. Clients that have sent
            masked counts have spent their privacy.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, DistributedKL, QueryAverage
        >>> from hockeystick.learners.divergence import KLClient, kl_server
        >>> from hockeystick.mechanisms import ClientsInProcess
        >>> data = ClientCounts.of_records([0, 1, 2], [0, 0, 1], times=[40, 50, 60], symbol_count=2)
        >>> average = QueryAverage.drawn([0.5, 0.5], data.records(), samples=10, rng=np.random.default_rng(1))
        >>> plan = DistributedKL.calibrated(average, epsilon=1.0, delta=0.0, law="polya", survivors=2)
        >>> counts = data.of_symbols(average.symbols)
        >>> clients = [KLClient(plan, number, counts[number], number) for number in range(3)]
        >>> published, _ = kl_server(plan, ClientsInProcess(clients), simulated=True)
        >>> published.counts
        array([90., 60.])
    """
    plan = kl_plan(estimator, identities=identities)
    source = SimulationNoise(np.random.default_rng(0)) if simulated else ReleaseNoise()  # draws nothing

    def charge() -> None:
        charged(estimator.event(), lambda: None, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    outcome = conduct_sum(plan, post, charge=charge)
    answered = estimator.average.answered_by([estimator.average.cohorts[0][list(outcome.clients)]])
    counts = NoisyCounts(
        counts=outcome.total / estimator.factor,
        deviations=estimator.deviations(answered),
        simulated=simulated,
        average=answered,
        bits=estimator.bits(),
    )
    return counts, outcome


def _counts(value: npt.ArrayLike) -> IntArray:
    found = whole_numbers("counts", value)
    if found.ndim != 1 or (found.size and found.min() < 0):
        raise InvalidDataError(
            "counts", found, "is not a list of counts >= 0", "give one for each symbol that is asked for"
        )
    return found


@frozen(eq=False)
class KLClient:
    """One client of the cohort, a ``SumClient`` that adds its share of noise; see :func:`kl_server` for an example.

    Args:
        estimator: The public plan.
        number: The index of the client in the cohort, 0, ..., n - 1.
        counts: The client's counts of the symbols that are asked for, shape (u,).
        source: The client's secret seed, for simulations; or ``ReleaseNoise()``. A second run with the same seed has
            the same noise, and is not private.
        identities: As for :func:`kl_plan`.
        identity: The client's secret Ed25519 key, if there are identities.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """

    estimator: DistributedKL
    number: int
    counts: IntArray = field(converter=_counts, repr=False)
    source: int | Noise = field(repr=False)
    identities: tuple[bytes, ...] | None = field(default=None, repr=False, kw_only=True)
    identity: bytes | None = field(default=None, repr=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        plan = kl_plan(self.estimator, identities=self.identities)
        integer("number", self.number, low=0, high=plan.clients - 1)
        if self.counts.shape != self.estimator.average.symbols.shape:
            raise InvalidDataError("counts", self.counts, "are not one for each symbol that is asked for")
        seed_or_noise("source", self.source)
        self._client()

    def start(self) -> State:
        """Returns the state before the first message."""
        return self._client().start()

    def answer(self, state: Mapping[str, npt.NDArray[np.generic]], text: bytes) -> tuple[State, bytes]:
        """Returns the state after a message of the server, and the answer to it; see ``SumClient``."""
        return self._client().answer(state, text)

    def _client(self) -> SumClient:
        plan = kl_plan(self.estimator, identities=self.identities)
        return SumClient(plan, self.number, self._noisy, identity=self.identity)

    def _noisy(self) -> IntArray:
        noise = SimulationNoise(substream(self.source)) if isinstance(self.source, int) else self.source
        return self.estimator.factor * self.counts + self.estimator.shares.share(len(self.counts), noise=noise)
