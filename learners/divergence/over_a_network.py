"""The distributed KL estimate between a server and clients that talk: two requests, over any transport.

The first asks every client of the cohort for its counts of the symbols that were drawn, with its share of noise and
masked: of itself each answer is uniform on 0, ..., R - 1. If some have not answered, the second asks those that have
for the masks that they share with the missing ones. The server takes them off and has the sum, and nothing else. It
divides by the records of those who have answered, which are public: the estimate is of them.

Masks come of a key that the clients share and the server does not have; how they agree on it is not played here, nor is
the second mask that protects who is late from a server that lies about who has dropped out (Bonawitz et al. 2017). The
server is honest and curious. A client answers either request once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.divergence.distributed import DistributedKL, NoisyCounts, too_few
from hockeystick.learners.network.conduct import FederationError, Request, Server, State, seed_or_noise, substream
from hockeystick.mechanisms.distributed.secure_aggregation import AggregationError, MaskedSum, unmasked
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise

_EXACT = 2**53  # below which residues are floats


def _estimator(value: object) -> DistributedKL:
    if not isinstance(value, DistributedKL):
        raise InvalidArgumentError("estimator", type(value).__name__, "is no DistributedKL")
    if len(value.average.cohorts) != 1:
        raise InvalidArgumentError("estimator", len(value.average.cohorts), "cohorts: only one can be asked", "use one")
    if value.modulus() > _EXACT:
        raise InvalidArgumentError("estimator", value.modulus(), "is a modulus above 2^53", "sum smaller numbers")
    return value


def kl_server(estimator: DistributedKL, *, simulated: bool) -> Server[NoisyCounts]:
    """The server of one run, for ``network.conduct.conduct`` with as many clients as the cohort has.

    Args:
        estimator: The public plan; of one cohort.
        simulated: Whether the clients draw from seeds, so that the result is no release.

    Raises:
        InvalidArgumentError: several cohorts, or a modulus above 2^53.
        AggregationError: (while it runs) fewer clients answer than the noise was made for, or one that has answered
            the first request does not answer the second.
    """
    return _serve(_estimator(estimator), simulated)


def _serve(estimator: DistributedKL, simulated: bool) -> Server[NoisyCounts]:
    average, modulus = estimator.average, estimator.modulus()
    asked, everybody = len(average.symbols), len(average.cohorts[0])
    most = float(modulus - 1)
    sent = yield Request(1, (1,), np.empty(0), asked, 0.0, most)
    survivors = sent.clients.tolist()
    if len(survivors) < estimator.shares.survivors:
        raise too_few(len(survivors), everybody, estimator.shares.survivors)
    answered = average.answered_by([average.cohorts[0][survivors]])
    missing = [i for i in range(everybody) if i not in set(survivors)]
    revealed = np.zeros((1, asked), dtype=np.uint64)
    if missing:
        found = yield Request(2, (2,), np.array(missing, dtype=np.float64), asked, 0.0, most)
        if not set(survivors) <= set(found.clients.tolist()):
            raise AggregationError("a client has answered the first request and not the second: there is no sum")
        kept = np.isin(found.clients, sent.clients)
        revealed = found.values[kept].astype(np.uint64)
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
        raise InvalidDataError("counts", found, "is no list of counts >= 0", "give one for each symbol asked")
    return found


@frozen(eq=False)
class KLClient:
    """One client of the cohort.

    Args:
        estimator: The public plan.
        number: Which client of the cohort, 0, ..., n - 1.
        counts: Its own, of the symbols that are asked for, shape (u,).
        key: What the clients' masks are made of, 16 bytes or more: the same for all, unknown to the server, and never
            used for a second run.
        source: Its own secret seed, for simulations; or ``ReleaseNoise()``.

    Raises:
        InvalidArgumentError: an argument outside its domain.
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
        """The state before the first request: nothing has been answered."""
        return {"answered": np.array(0)}

    def answer(self, state: State, request: Request) -> tuple[State, FloatArray]:
        """The state after a request, and the answer to it.

        Raises:
            FederationError: the request was answered before, or says that this very client has dropped out.
        """
        if request.number <= int(state["answered"]):
            raise FederationError(f"request {request.number} was answered before: a second answer would be another")
        shape = self.counts.shape
        if request.step == (1,):
            shares = self.estimator.shares.share(len(self.counts), noise=self._noise())
            sent = self._masks().mask(self.number, self.estimator.factor * self.counts + shares)
        else:
            missing = [int(i) for i in request.values]
            if self.number in missing:
                raise FederationError("the server says that this client has dropped out: its masks stay secret")
            sent = self._masks().reveal(self.number, missing, shape)
        return {"answered": np.array(request.number)}, sent.astype(np.float64)

    def _masks(self) -> MaskedSum:
        cohort = len(self.estimator.average.cohorts[0])
        return MaskedSum(self.estimator.modulus(), cohort, threshold=1, key=self.key)

    def _noise(self) -> Noise:
        return SimulationNoise(substream(self.source)) if isinstance(self.source, int) else self.source
