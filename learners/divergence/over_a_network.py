"""The distributed KL estimate between a server and its clients: two requests, over any transport.

The first request asks every client of the cohort for its masked counts of the drawn symbols, with its share of noise:
by itself each answer is uniform on 0, ..., R - 1. If some clients do not answer, the second request asks the others for
the masks that they share with the missing ones. The server removes these masks and learns the sum, and nothing else. It
divides by the public number of records of the clients that answered, to which the estimate refers.

The masks are derived from a key that the clients share and the server does not know. Key agreement is not simulated,
nor is the second mask that protects late clients from a server that lies about dropouts (Bonawitz et al. 2017). The
server is honest but curious. A client answers each request once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.divergence.distributed import DistributedKL, NoisyCounts, too_few
from hockeystick.learners.network.protocol import FederationError, Request, Server, State, seed_or_noise, substream
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, MaskedSum, unmasked
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise

_EXACT = 2**53  # below which residues are floats


def _estimator(value: object) -> DistributedKL:
    if not isinstance(value, DistributedKL):
        raise InvalidArgumentError("estimator", type(value).__name__, "is not a DistributedKL")
    if len(value.average.cohorts) != 1:
        raise InvalidArgumentError("estimator", len(value.average.cohorts), "cohorts: only one can be asked", "use one")
    if value.modulus() > _EXACT:
        raise InvalidArgumentError("estimator", value.modulus(), "is a modulus above 2^53", "sum smaller numbers")
    return value


def kl_server(estimator: DistributedKL, *, simulated: bool) -> Server[NoisyCounts]:
    """Returns the server of one run; :func:`hockeystick.learners.network.conduct` needs as many clients as the cohort.

    Args:
        estimator: The public plan, with one cohort.
        simulated: Whether the clients draw from seeds, so that the result is not a release.

    Raises:
        InvalidArgumentError: several cohorts, or a modulus above 2^53.
        AggregationError: (during the run) fewer clients answer than the noise is calibrated for, or a client that
            answered the first request does not answer the second.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ClientCounts, DistributedKL, QueryAverage
        >>> from hockeystick.learners.divergence import KLClient, kl_server
        >>> from hockeystick.learners.network import InProcess, conduct
        >>> data = ClientCounts.of_records([0, 1, 2], [0, 0, 1], times=[40, 50, 60], symbol_count=2)
        >>> average = QueryAverage.drawn([0.5, 0.5], data.records(), samples=10, rng=np.random.default_rng(1))
        >>> plan = DistributedKL.calibrated(average, epsilon=1.0, delta=0.0, law="polya")
        >>> counts, key = data.of_symbols(average.symbols), b"secret of clients"
        >>> clients = [KLClient(plan, number, counts[number], key, number) for number in range(3)]
        >>> conduct(kl_server(plan, simulated=True), InProcess(clients), clients=3).result.counts
        array([89., 60.])
    """
    return _serve(_estimator(estimator), simulated)


def _serve(estimator: DistributedKL, simulated: bool) -> Server[NoisyCounts]:
    average, modulus = estimator.average, estimator.modulus()
    requested, cohort_size = len(average.symbols), len(average.cohorts[0])
    most = float(modulus - 1)
    sent = yield Request(1, (1,), np.empty(0), requested, 0.0, most)
    survivors = sent.clients.tolist()
    if len(survivors) < estimator.shares.survivors:
        raise too_few(len(survivors), cohort_size, estimator.shares.survivors)
    answered = average.answered_by([average.cohorts[0][survivors]])
    missing = [i for i in range(cohort_size) if i not in set(survivors)]
    revealed = np.zeros((1, requested), dtype=np.uint64)
    if missing:
        found = yield Request(2, (2,), np.array(missing, dtype=np.float64), requested, 0.0, most)
        if not set(survivors) <= set(found.clients.tolist()):
            raise AggregationError("a client answered the first request but not the second: no sum is formed")
        mask = np.isin(found.clients, sent.clients)
        revealed = found.values[mask].astype(np.uint64)
    total = unmasked(sent.values.astype(np.uint64), revealed, modulus=modulus)
    return NoisyCounts(
        counts=total / estimator.factor,
        deviations=estimator.deviations(answered),
        simulated=simulated,
        average=answered,
        bits=estimator.bits(),
    )


def _counts(value: npt.ArrayLike) -> IntArray:
    found = whole_numbers("counts", value)
    if found.ndim != 1 or (found.size and found.min() < 0):
        raise InvalidDataError(
            "counts", found, "is not a list of counts >= 0", "give one for each symbol that is asked for"
        )
    return found


@frozen(eq=False)
class KLClient:
    """One client of the cohort; see :func:`kl_server` for an example.

    Args:
        estimator: The public plan.
        number: The index of the client in the cohort, 0, ..., n - 1.
        counts: The client's counts of the symbols that are asked for, shape (u,).
        key: The key of the clients' masks, 16 bytes or more: the same for all, unknown to the server, and never used
            for a second run.
        source: The client's secret seed, for simulations; or ``ReleaseNoise()``.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """

    estimator: DistributedKL = field(converter=_estimator)
    number: int
    counts: IntArray = field(converter=_counts, repr=False)
    key: bytes = field(repr=False)
    source: int | Noise = field(repr=False)

    def __attrs_post_init__(self) -> None:
        cohort = len(self.estimator.average.cohorts[0])
        integer("number", self.number, low=0, high=cohort - 1)
        if self.counts.shape != self.estimator.average.symbols.shape:
            raise InvalidDataError("counts", self.counts, "are not one for each symbol that is asked for")
        seed_or_noise("source", self.source)
        self._masks()

    def start(self) -> State:
        """Returns the state before the first request."""
        return {"answered": np.array(0)}

    def answer(self, state: State, request: Request) -> tuple[State, FloatArray]:
        """Returns the state after a request, and the answer to it.

        Raises:
            FederationError: the request was answered before, or names this client as dropped out.
        """
        if request.number <= int(state["answered"]):
            raise FederationError(f"request {request.number} was answered before: a second answer would differ")
        shape = self.counts.shape
        if request.step == (1,):
            shares = self.estimator.shares.share(len(self.counts), noise=self._noise())
            sent = self._masks().mask(self.number, self.estimator.factor * self.counts + shares)
        else:
            missing = [int(i) for i in request.values]
            if self.number in missing:
                raise FederationError("the server claims that this client has dropped out: its masks stay secret")
            sent = self._masks().reveal(self.number, missing, shape)
        return {"answered": np.array(request.number)}, sent.astype(np.float64)

    def _masks(self) -> MaskedSum:
        cohort = len(self.estimator.average.cohorts[0])
        return MaskedSum(self.estimator.modulus(), cohort, threshold=1, key=self.key)

    def _noise(self) -> Noise:
        return SimulationNoise(substream(self.source)) if isinstance(self.source, int) else self.source
