"""How a server and its clients talk: the same algorithm in one process, over a network, and in a test.

* A **server** is a generator. It yields a :class:`Request` to all clients, is sent their :class:`Replies`, and returns
  its result.
* A **client** (:class:`Client`) holds its own losses and draws its own noise. Between requests nothing of it lives but
  a state of named arrays, which whoever runs the client keeps for it: it is as private as the losses.
* :func:`conduct` stands between them. It takes replies from a transport, leaves out what is missing or malformed,
  counts what was sent, and keeps a record of who did not answer.

The rule for dropping out: a request is complete with whoever has answered it properly. A client that did not answer is
sent what it missed together with the next request, and answers the last of them alone. A malformed reply is as good as
none, but its sender has seen the request and is not sent it again; nothing of its content is kept or shown. A request
that fewer than ``least`` clients answered ends the run.

Guarantees are for clients whose *not* answering says nothing of their losses: no accountant charges for a silence.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import Guarantee, HockeystickError, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

State = dict[str, npt.NDArray[np.generic]]
Result = TypeVar("Result")


class FederationError(HockeystickError):
    """A federated run can't go on: too few clients answer."""


def _step(value: Sequence[int]) -> tuple[int, ...]:
    return tuple(integer("step", each) for each in value)


def _number(value: object) -> int:
    return integer("number", value, low=1)


def _size(value: object) -> int:
    return integer("size", value, low=0)


def _bound(value: object) -> float:
    return real("low or high", value, allow_inf=True)


def _told(value: object) -> FloatArray:
    values = np.array(array("values", value, ndim=1, data=True))
    values.setflags(write=False)  # it may wait for a silent client while the server goes on
    return values


@frozen(eq=False)
class Request:
    """What the server asks of every client.

    Attributes:
        number: 1, 2, ... in the order of asking. A client answers each number once.
        step: Where in the algorithm's public schedule this is; costs no communication.
        values: What the server tells, shape (k,); k scalars down to each client.
        size: How many scalars a client has to answer; 0 for an announcement.
        low, high: The range of a proper answer's entries.

    Raises:
        InvalidArgumentError: a number or size that is no whole number >= 1, >= 0; values that are not finite or no
            vector; a range that is empty or NaN.
    """

    number: int = field(converter=_number)
    step: tuple[int, ...] = field(converter=_step)
    values: FloatArray = field(converter=_told)
    size: int = field(converter=_size)
    low: float = field(default=-np.inf, converter=_bound)
    high: float = field(default=np.inf, converter=_bound)

    def __attrs_post_init__(self) -> None:
        if not self.low <= self.high:
            raise InvalidArgumentError("low", self.low, f"lies above high = {self.high}", "exchange them")


@frozen(eq=False)
class Replies:
    """The proper answers to one request.

    Attributes:
        clients: Who they are from, ascending, shape (k,).
        values: Shape (k, size).
    """

    clients: npt.NDArray[np.intp]
    values: FloatArray = field(repr=False)

    def total(self) -> FloatArray:
        """The sum over clients, shape (size,)."""
        return np.asarray(self.values.sum(axis=0))


class Client(Protocol):
    """One client of a federated algorithm: a value; all that changes is in its state."""

    def start(self) -> State:
        """The state before the first request."""

    def answer(self, state: State, request: Request) -> tuple[State, FloatArray]:
        """The state after a request, and the answer to it, shape ``(request.size,)``."""


Server = Generator[Request, Replies, Result]
Transport = Callable[[Mapping[int, Sequence[Request]]], Mapping[int, object]]
"""Takes, for each client, the requests that it has not answered yet, oldest first, and returns the answers to the last
ones, of those clients that have answered."""


@frozen
class Problem:
    """An answer that was not used.

    Attributes:
        client: Whose.
        number: Of the request.
        reason: "no answer", "wrong type", "wrong shape", "not finite" or "out of range".
    """

    client: int
    number: int
    reason: str


@frozen
class Communication:
    """Scalars sent, over all clients: what servers tell (``down``) and clients answer (``up``)."""

    up: int
    down: int


@frozen(eq=False)
class Outcome(Generic[Result]):
    """What came of a federated run.

    Attributes:
        result: What the server has returned.
        communication: Scalars sent, malformed and repeated ones included.
        answered: For each request and client, whether its answer was used, shape (requests, clients).
        problems: Which answers were not used, and why.
    """

    result: Result
    communication: Communication
    answered: npt.NDArray[np.bool_]
    problems: tuple[Problem, ...]

    def guaranteed(self, plan: Guarantee) -> Guarantee:
        """What a plan guarantees to those who took part honestly, now that it is known who did.

        The learners here charge each client as if all others' noise were known, but for as many as their plan counts
        on, without whom there is no result. So numbers stay those of the plan; who was silent, and that silence must
        not depend on data, is added to what it rests on.

        Args:
            plan: Of the learner's graph, for a threat model.
        """
        complete, clients = int(self.answered.all(axis=0).sum()), self.answered.shape[1]
        malformed = len({problem.client for problem in self.problems if problem.reason != "no answer"})
        sentence = (
            f"{complete} of {clients} clients have answered every request properly, {malformed} sent what could not be "
            "used; whether a client answers does not depend on its data"
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
    """Runs a server to its end.

    Args:
        server: The generator.
        transport: Brings requests to the clients and their answers back.
        clients: m; the clients are 0, ..., m - 1.
        least: How many have to answer a request properly.
        progress: Is told the number of each request that is over.

    Raises:
        FederationError: fewer than ``least`` clients have answered a request properly. No answer is shown.
        InvalidArgumentError: ``clients`` is no integer >= 1, ``least`` is not in 1, ..., m, or the server yields
            something that is not its next request.
    """
    m = integer("clients", clients, low=1)
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
    """The server's next request. Only the server can end the run: a StopIteration of anything else is an error."""
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
    """The answer as an array, or what is wrong with it, in words that say nothing of its content."""
    if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "fiu":
        return "wrong type"
    if answer.shape != (request.size,):
        return "wrong shape"
    with np.errstate(over="ignore"):  # a long double may lie outside the floats; it is then not finite
        values = np.array(answer, dtype=np.float64, subok=False)  # a masked array hides nothing from here on
    if not np.isfinite(values).all():
        return "not finite"
    if ((values < request.low) | (values > request.high)).any():
        return "out of range"
    return values


@frozen(eq=False)
class InProcess:
    """A transport to clients in this process. One run at a time; request 1 starts a new one.

    Args:
        clients: Client i is the i-th.
        silent: Whether client i fails to answer request n, from (i, n): to try out what happens then. It then has not
            seen the request either.
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
    """The client's state after ``requests``, and its answer to the last of them.

    Raises:
        InvalidArgumentError: there is no request.
    """
    if not requests:
        raise InvalidArgumentError("requests", requests, "is empty", "give at least one request")
    for request in requests:
        state, answer = client.answer(state, request)
    return state, answer


def substream(seed: int, *path: int) -> np.random.Generator:
    """The generator of a client's, or the server's, draws for one purpose: none is ever used for two.

    Different (seed, path) never share their draws. That is why both are limited: numpy's ``SeedSequence`` cuts larger
    numbers into words of 32 bits and strings these together, so that (2^32, ) and (0, 1) would be the same path.

    Args:
        seed: The client's own, a whole number in 0, ..., 2^128 - 1.
        path: What the draws are for: phase, leaf, ...; whole numbers in 0, ..., 2^32 - 1.

    Raises:
        InvalidArgumentError: seed or path is not such.
    """
    entropy = integer("seed", seed, low=0)
    if entropy.bit_length() > 128:
        raise InvalidArgumentError("seed", seed, "is too large", "give at most 128 bits")
    key = tuple(integer("path", each, low=0, high=2**32 - 1) for each in path)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=key)))


def seed_or_noise(name: str, value: object) -> int | Noise:
    """A seed >= 0 of a simulation, or a source of noise.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(value, Noise):
        return check_noise(value)
    return integer(name, value, low=0)
