"""The protocol between a server and its clients, the same in one process, over a network, and in a test.

* A **server** is a generator. It yields a :class:`Request` to all clients, receives their :class:`Replies`, and returns
  its result.
* A **client** (:class:`Client`) holds its own losses and draws its own noise. Between requests only its state remains,
  a dictionary of arrays. The process that runs the client stores it; it is as private as the losses.
* :func:`conduct` stands between them. It takes replies from a transport, leaves out missing and malformed ones, counts
  the scalars sent, and records which clients did not answer.

The rule for dropouts: a request is complete with the clients that answered it properly. A client that did not answer
receives the requests that it missed together with the next one, and answers only the last of them. A malformed reply
counts as no answer, but its sender has seen the request and does not receive it again; its content is neither stored
nor shown. A request with fewer than ``least`` valid answers ends the run.

The guarantees hold for clients whose silence does not depend on their losses: no accountant charges for a silence.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import Guarantee, HockeystickError, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, function, integer, items, real
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

State = dict[str, npt.NDArray[np.generic]]
Result = TypeVar("Result")

_MOST = 10**6  # clients


class FederationError(HockeystickError):
    """A federated run can't continue: too few clients answer. See ``conduct`` for the cases."""


def _step(value: Sequence[int]) -> tuple[int, ...]:
    return tuple(integer("step", each) for each in items("step", value))


def _number(value: object) -> int:
    return integer("number", value, low=1)


def _size(value: object) -> int:
    return integer("size", value, low=0)


def _bound(value: object) -> float:
    return real("low or high", value, allow_inf=True)


def _values(value: object) -> FloatArray:
    values = np.array(array("values", value, ndim=1, data=True))
    values.setflags(write=False)  # the request may wait for a silent client while the server continues
    return values


@frozen(eq=False)
class Request:
    """One request of the server to every client.

    Attributes:
        number: 1, 2, ... in the order of the requests. A client answers each number once.
        step: The place in the algorithm's public schedule; costs no communication.
        values: The server's message, shape (k,); k scalars down to each client.
        size: Number of scalars in a client's answer; 0 for an announcement.
        low, high: The range of a valid answer's entries.

    Raises:
        InvalidArgumentError: ``number`` is not an integer >= 1, ``size`` is not an integer >= 0, the values are not a
            finite vector, or the range is empty or NaN.

    Example:
        >>> request = Request(1, step=(0,), values=[0.5, 2.0], size=1, low=0.0, high=1.0)
        >>> request.number, request.values.tolist(), request.size
        (1, [0.5, 2.0], 1)
    """

    number: int = field(converter=_number)
    step: tuple[int, ...] = field(converter=_step)
    values: FloatArray = field(converter=_values)
    size: int = field(converter=_size)
    low: float = field(default=-np.inf, converter=_bound)
    high: float = field(default=np.inf, converter=_bound)

    def __attrs_post_init__(self) -> None:
        if not self.low <= self.high:
            raise InvalidArgumentError("low", self.low, f"is above high={self.high}", "exchange them")


@frozen(eq=False)
class Replies:
    """The valid answers to one request.

    Attributes:
        clients: The clients that answered, ascending, shape (k,).
        values: Their answers, shape (k, size).

    Example:
        >>> Replies(np.array([0, 2]), np.array([[1.0, 2.0], [3.0, 4.0]])).total().tolist()
        [4.0, 6.0]
    """

    clients: npt.NDArray[np.intp]
    values: FloatArray = field(repr=False)

    def total(self) -> FloatArray:
        """Returns the sum over clients, shape (size,)."""
        return np.asarray(self.values.sum(axis=0))


class Client(Protocol):
    """One client of a federated algorithm, immutable: everything that changes is in its state.

    See ``conduct`` for an example.
    """

    def start(self) -> State:
        """Returns the state before the first request."""

    def answer(self, state: State, request: Request) -> tuple[State, FloatArray]:
        """Returns the state after a request, and the answer to it, shape ``(request.size,)``."""


Server = Generator[Request, Replies, Result]
Transport = Callable[[Mapping[int, Sequence[Request]]], Mapping[int, object]]
"""Takes, for each client, the requests that it has not answered yet, oldest first. Returns, for each client that
answered, the answer to its last request."""


@frozen
class Problem:
    """An answer that was not used. See ``conduct`` for an example.

    Attributes:
        client: The client.
        number: The number of the request.
        reason: "no answer", "wrong type", "wrong shape", "not finite" or "out of range".
    """

    client: int
    number: int
    reason: str


@frozen
class Communication:
    """Number of scalars sent, summed over clients: to the clients (``down``) and to the server (``up``).

    See ``conduct`` for an example.

    Attributes:
        up, down: The counts.
        printed: The order that the paper prints for the sum of both, with the constant 1, for comparison only; None if
            it prints none, or if it was not asked for.
    """

    up: int
    down: int
    printed: float | None = field(default=None, eq=False, repr=False)


@frozen(eq=False)
class Outcome(Generic[Result]):
    """The outcome of a federated run. See ``conduct`` for an example.

    Attributes:
        result: The value that the server returned.
        communication: Scalars sent, including malformed and repeated ones.
        answered: For each request and client, whether its answer was used, shape (requests, clients).
        problems: The answers that were not used, with reasons.
    """

    result: Result
    communication: Communication
    answered: npt.NDArray[np.bool_]
    problems: tuple[Problem, ...]

    def guaranteed(self, plan: Guarantee) -> Guarantee:
        """Returns a plan's guarantee for the honest clients of this run, with the dropouts among its assumptions.

        The numbers stay those of the plan. The learners here charge each client as if the noise of all others were
        known, except for as many clients as the plan counts on, without whom there is no result. The number of silent
        clients, and the condition that silence does not depend on data, are added to the assumptions.

        Args:
            plan: The guarantee of the learner's graph, for a threat model.

        Raises:
            InvalidArgumentError: ``plan`` is not a guarantee.
        """
        if not isinstance(plan, Guarantee):
            raise InvalidArgumentError("plan", plan, "is not a Guarantee", "give that of the learner's graph")
        complete, clients = int(self.answered.all(axis=0).sum()), self.answered.shape[1]
        malformed = len({problem.client for problem in self.problems if problem.reason != "no answer"})
        sentence = (
            f"{complete} of {clients} clients have answered every request properly, {malformed} sent unusable answers; "
            "whether a client answers does not depend on its data"
        )
        return evolve(plan, assumptions=(*plan.assumptions, sentence))


def conduct(
    server: Server[Result],
    transport: Transport,
    *,
    clients: int,
    least: int = 1,
    progress: Callable[[int], object] | None = None,
) -> Outcome[Result]:
    """Runs a server until it returns.

    Args:
        server: The generator.
        transport: Brings requests to the clients and their answers back.
        clients: m, at most 10^6; the clients are 0, ..., m - 1.
        least: The number of valid answers that each request needs; at least 1, the default.
        progress: Called with the number of each completed request.

    Raises:
        FederationError: fewer than ``least`` clients have given a valid answer to a request. No answer is shown.
        InvalidArgumentError: ``clients`` is not an integer in 1, ..., 10^6, ``least`` is not in 1, ..., m, the server
            is not a generator or yields something that is not its next request, or ``transport`` or ``progress`` can't
            be called.

    Example:
        >>> def server():
        ...     replies = yield Request(1, (), values=[], size=1)
        ...     return replies.total().tolist()
        >>> outcome = conduct(server(), lambda requests: {0: np.array([2.0]), 1: "junk"}, clients=3)
        >>> outcome.result, [problem.reason for problem in outcome.problems], outcome.communication
        ([2.0], ['wrong type', 'no answer'], Communication(up=2, down=0))
    """
    if not isinstance(server, Generator):
        raise InvalidArgumentError("server", server, "is not a generator", "see the example of conduct")
    for name, given in (("transport", transport), ("progress", len if progress is None else progress)):
        function(name, given, "see the example of conduct")
    m = integer("clients", clients, low=1, high=_MOST)
    least = integer("least", least, low=1, high=m)
    waiting: list[list[Request]] = [[] for _ in range(m)]
    up = down = 0
    answered: list[npt.NDArray[np.bool_]] = []
    problems: list[Problem] = []
    try:
        request = _ask(server, None, 1)
        while isinstance(request, Request):
            for queue in waiting:
                queue.append(request)
            down += sum(each.values.size for queue in waiting for each in queue)
            found = transport(dict(enumerate(waiting)))
            proper: dict[int, FloatArray] = {}
            for client in range(m):
                if client not in found:
                    problems.append(Problem(client, request.number, "no answer"))
                    continue
                waiting[client] = []
                up += request.size
                answer = _checked(found[client], request)
                if isinstance(answer, str):
                    problems.append(Problem(client, request.number, answer))
                else:
                    proper[client] = answer
            if len(proper) < least:
                raise FederationError(
                    f"request {request.number}: {len(proper)} of {m} clients have answered properly, {least} are needed"
                )
            answered.append(np.array([client in proper for client in range(m)]))
            if progress is not None:
                progress(request.number)
            who = np.array(list(proper), dtype=np.intp)
            replies = Replies(who, np.array([proper[i] for i in who]).reshape(len(who), request.size))
            request = _ask(server, replies, request.number + 1)
    finally:
        server.close()
    table = np.array(answered, dtype=np.bool_).reshape(len(answered), m)
    return Outcome(request.result, Communication(up, down), table, tuple(problems))


@frozen(eq=False)
class _Ended(Generic[Result]):
    result: Result


def _ask(server: Server[Result], replies: Replies | None, number: int) -> Request | _Ended[Result]:
    """Returns the server's next request, or its result. A StopIteration from elsewhere must not end the run."""
    try:
        request = next(server) if replies is None else server.send(replies)
    except StopIteration as stop:
        return _Ended(stop.value)
    if not isinstance(request, Request) or request.number != number:
        raise InvalidArgumentError(
            "server", type(request).__name__, f"is not request {number}", "yield requests numbered 1, 2, ..."
        )
    return request


def _checked(answer: object, request: Request) -> FloatArray | str:
    """Returns the answer as an array, or the reason why it can't be used, which does not show its content."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "fiu":
        return "wrong type"
    if answer.shape != (request.size,):
        return "wrong shape"
    with np.errstate(over="ignore"):  # a long double may overflow; the value is then not finite
        values = np.array(answer, dtype=np.float64, subok=False)  # drops the mask of a masked array
    if not np.isfinite(values).all():
        return "not finite"
    if ((values < request.low) | (values > request.high)).any():
        return "out of range"
    return values


@frozen(eq=False)
class InProcess:
    """A transport to clients in this process. One run at a time; request 1 starts a new one.

    Args:
        clients: The clients 0, ..., m - 1.
        silent: ``silent(i, n)`` says whether client i misses request n, to simulate dropouts. By default none does.

    Example:
        >>> class Constant:
        ...     def start(self): return {}
        ...     def answer(self, state, request): return state, np.array([7.0])
        >>> InProcess([Constant()])({0: [Request(1, (), values=[], size=1)]})
        {0: array([7.])}
    """

    clients: Sequence[Client] = field(repr=False)
    silent: Callable[[int, int], bool] = field(default=lambda client, number: False)
    _states: dict[int, State] = field(factory=dict, init=False, repr=False)

    def __call__(self, requests: Mapping[int, Sequence[Request]]) -> dict[int, FloatArray]:
        return {i: self._asked(i, waiting) for i, waiting in requests.items() if not self.silent(i, waiting[-1].number)}

    def _asked(self, i: int, waiting: Sequence[Request]) -> FloatArray:
        client = self.clients[i]
        state = client.start() if waiting[0].number == 1 else self._states[i]
        self._states[i], answer = caught_up(client, state, waiting)
        return answer


def caught_up(client: Client, state: State, requests: Sequence[Request]) -> tuple[State, FloatArray]:
    """Returns the client's state after ``requests``, and its answer to the last of them.

    Raises:
        InvalidArgumentError: there is no request.
    """
    if not requests:
        raise InvalidArgumentError("requests", requests, "is empty", "give at least one request")
    for request in requests:
        state, answer = client.answer(state, request)
    return state, answer


def substream(seed: int, *path: int) -> np.random.Generator:
    """Returns the random generator of a client, or of the server, for one purpose.

    Different (seed, path) never share their draws. Both are limited for that reason: numpy's ``SeedSequence`` cuts
    larger numbers into words of 32 bits and concatenates them, so that (2^32,) and (0, 1) would be the same path.

    Args:
        seed: The client's own seed, an integer in 0, ..., 2^128 - 1.
        path: The purpose of the draws: phase, leaf, ...; integers in 0, ..., 2^32 - 1.

    Raises:
        InvalidArgumentError: ``seed`` or ``path`` is out of range.
    """
    entropy = integer("seed", seed, low=0)
    if entropy.bit_length() > 128:
        raise InvalidArgumentError("seed", seed, "is too large", "give at most 128 bits")
    key = tuple(integer("path", each, low=0, high=2**32 - 1) for each in path)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=key)))


def seed_or_noise(name: str, value: object) -> int | Noise:
    """Returns ``value``, which must be the seed >= 0 of a simulation, or a source of noise.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(value, Noise):
        return check_noise(value)
    return integer(name, value, low=0)
