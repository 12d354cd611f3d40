"""Federated algorithms on Flower: the server as a ``ServerApp``, each client as a ``ClientApp`` on a node of its own.

The :class:`~hockeystick.learners.network.protocol.Client` and the server generator are the same as in one process, and
with the same seeds they play the same. Flower only carries the messages; ``learners/network/flower_wire.py`` defines
their format.

* :func:`server_app` waits until every client has a node, then conducts the run. Clients are never sampled: the
  algorithm and its guarantee decide which of them take part.
* :func:`client_app` answers requests from one node's own losses with its own noise. Its state stays on the node, in
  Flower's context of the run.
* :func:`post_on_flower` carries the messages of a secure sum (``hockeystick.mechanisms.conduct_sum``) or a survey
  (``hockeystick.learners.analytics.conduct_survey``) between a ``ServerApp`` and the same :func:`client_app`, whose
  clients are then ``SumClient``, ``SurveyClient`` or the like.

A node takes part in a run once and answers requests in their order. A request that comes twice or out of order is
refused, since a second answer would be a second release. Flower runs a node's messages in parallel processes, each
with the context at its start. The number of the last answer is therefore also stored in a file, under a lock, in
``hockeystick`` in Flower's folder (``FLWR_HOME``, or ``.flwr`` at home). A node that can't answer reports only that:
Flower's own report of an exception would carry its text to the server.

Needs the extra ``federated``. ``docs/federated-deployment.md`` has a complete example and the limits of its protection.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from attrs import field, frozen
from filelock import FileLock

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.files.reading import UnreadableFileError, read_text
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.network import flower_wire as wire
from hockeystick.learners.network.protocol import (
    Client,
    FederationError,
    Outcome,
    Request,
    Server,
    State,
    caught_up,
    conduct,
)
from hockeystick.mechanisms.distributed.pairwise.sum_client import AnySumClient

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_RECORD = "hockeystick"  # the name of the only record of every message
_STATE = "hockeystick state"  # the name of the client's arrays in the context, beside a record of the last answer
_POLL = 0.25  # seconds between two polls for replies
_MakeClient = Callable[["Node", int], Any]


@frozen
class Node:
    """The node on which a client runs.

    Attributes:
        partition: The client's number, 0, ..., m - 1: the node's setting ``partition-id``.
        run: Flower's number of the run. Every further run on the same losses costs privacy again.
        config: All settings of the node, from ``flower-supernode --node-config``.
    """

    partition: int
    run: int
    config: Mapping[str, object]


def client_app(
    make_client: Callable[[Node, int], Client | AnySumClient], *, seed: Callable[[Node], int] | None = None
) -> Any:
    """Returns a ``flwr.clientapp.ClientApp`` of one client.

    Flower starts a process for every message, so the client is made anew each time, from the same node and seed.

    Args:
        make_client: Returns the client of a node, given the node and the client's seed; the same client every time. A
            client with another source of noise ignores the seed.
        seed: Returns the client's seed, given the node; the same seed every time. By default 128 bits of the operating
            system's randomness, drawn on first contact and stored with the state. An adversary who knows the seed
            knows the noise: pass one in trials only.

    Raises:
        MissingExtraError: Flower is not installed.
    """
    flower = _flower("flwr.clientapp", "client_app")
    types = _flower("flwr.app", "client_app")
    app = flower.ClientApp()

    def replied(message: Any, record: wire.Record) -> Any:
        return types.Message(types.RecordDict({_RECORD: types.ConfigRecord(record)}), reply_to=message)

    @app.query()  # type: ignore[untyped-decorator]
    def seat(message: Any, context: Any) -> Any:
        try:
            wire.read_seat_question(_record(message))
            return replied(message, wire.seat_record(_node(context).partition))
        except Exception as error:
            _log.error("the node has not reported its client: %s", type(error).__name__)
            return replied(message, wire.refusal_record())

    @app.train()  # type: ignore[untyped-decorator]
    def answer(message: Any, context: Any) -> Any:
        try:
            record = _record(message)
            if record.get("kind") == wire.LETTER:
                return replied(message, _letter_answered(make_client, seed, types, context, *wire.read_letter(record)))
            return replied(message, _answered(make_client, seed, types, context, wire.read_requests(record)))
        except Exception as error:
            _log.error("the node has not answered: %s", type(error).__name__)
            _log.debug("the node has not answered", exc_info=True)
            return replied(message, wire.refusal_record())

    return app


def server_app(
    make_server: Callable[[Mapping[str, object]], Server[Result]],
    *,
    clients: int,
    done: Callable[[Outcome[Result], Mapping[str, object]], object],
    least: int = 1,
    timeout: float = 60.0,
    enrolment: float = 600.0,
) -> Any:
    """Returns a ``flwr.serverapp.ServerApp`` that conducts one run and passes its outcome to ``done``.

    Args:
        make_server: Returns the server of a run, given the run's settings (``flwr run --run-config``).
        clients, least, timeout, enrolment: As for :func:`conduct_on_flower`.
        done: Called with the outcome and the run's settings.

    Raises:
        MissingExtraError: Flower is not installed.
        InvalidArgumentError: as for :func:`conduct_on_flower`.
    """
    app = _flower("flwr.serverapp", "server_app").ServerApp()
    terms = _Terms(clients, least, timeout, enrolment)

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Any, context: Any) -> None:
        settings = dict(context.run_config)
        done(_conducted(make_server(settings), grid, terms), settings)

    return app


def conduct_on_flower(
    server: Server[Result], grid: Any, *, clients: int, least: int = 1, timeout: float = 60.0, enrolment: float = 600.0
) -> Outcome[Result]:
    """Runs a server over a Flower ``Grid``, for a ``ServerApp`` that does other things as well.

    Args:
        server: The generator.
        grid: The ``Grid`` that Flower passes to the ``ServerApp``.
        clients: m. Every client must have a node before the first request.
        least: The number of valid answers that each request needs.
        timeout: Seconds to wait for the answers to a request. A client that is late is left out of this request, and
            the next one does not wait for it.
        enrolment: Seconds to wait for the nodes.

    Raises:
        FederationError: a client has no node, two nodes are the same client, or too few clients answer a request.
        InvalidArgumentError: an argument is out of range.
    """
    return _conducted(server, grid, _Terms(clients, least, timeout, enrolment))


def post_on_flower(grid: Any, *, clients: int, timeout: float = 60.0, enrolment: float = 600.0) -> _Letters:
    """Returns what carries the messages of a secure sum over a Flower ``Grid``, for ``conduct_sum`` in a ``ServerApp``.

    The masks are those of ``SumClient``, not of Flower's SecAgg+, for whose masks there is no certificate: their seeds
    have 28 bits, and their generator is linear.

    Args:
        grid, clients, timeout, enrolment: As for :func:`conduct_on_flower`. A client that is late for a step is out
            of the sum. No other run can use its nodes at the same time.

    Raises:
        FederationError: a client has no node, or two nodes are the same client.
        InvalidArgumentError: an argument is out of range.
    """
    terms = _Terms(clients, 1, timeout, enrolment)
    return _Letters(grid, _enrolled(grid, terms.clients, terms.enrolment), terms.timeout)


@frozen(eq=False)
class _Letters:
    grid: Any
    nodes: tuple[int, ...]
    timeout: float
    _sent: Counter[int] = field(factory=Counter, init=False)  # messages to each client, which need not have all

    def __call__(self, letters: Mapping[int, bytes]) -> list[tuple[int, bytes]]:
        self._sent.update(letters.keys())
        end = time.monotonic() + self.timeout
        online = set(self.grid.get_node_ids())
        records = {
            self.nodes[i]: wire.letter_record(self._sent[i], text)
            for i, text in letters.items()
            if self.nodes[i] in online
        }
        pending = _pushed(self.grid, records, "train", self.timeout)
        client_at = {node: client for client, node in enumerate(self.nodes)}
        found: list[tuple[int, bytes]] = []
        while True:
            for node, record in _pulled(self.grid, pending):
                client = client_at[node]
                text = None if record is None else _letter(record, self._sent[client])
                if text is not None:
                    found.append((client, text))
            if not pending or time.monotonic() > end:
                return found
            time.sleep(_POLL)


def _letter(record: Mapping[str, object], number: int) -> bytes | None:
    """Returns the text of an answer, empty (the sum refuses that) if it can't be read, or None for a refusal."""
    if record.get("kind") == wire.REFUSAL:
        return None
    try:
        found, text = wire.read_letter(record)
    except wire.WireError:
        return b""
    return text if found == number else b""


def _seconds(value: object) -> float:
    return real("timeout or enrolment", value, low=0.0, low_open=True)


@frozen
class _Terms:
    clients: int = field(converter=arguments.clients)
    least: int
    timeout: float = field(converter=_seconds)
    enrolment: float = field(converter=_seconds)

    def __attrs_post_init__(self) -> None:
        integer("least", self.least, low=1, high=self.clients)


def _conducted(server: Server[Result], grid: Any, terms: _Terms) -> Outcome[Result]:
    try:
        nodes = _enrolled(grid, terms.clients, terms.enrolment)
        transport = _OverGrid(grid, nodes, terms.timeout)
        return conduct(server, transport, clients=terms.clients, least=terms.least, progress=_progress)
    finally:
        server.close()


def _progress(number: int) -> None:
    _log.info("request %d is over", number)


def _enrolled(grid: Any, clients: int, enrolment: float) -> tuple[int, ...]:
    """Returns the node of each client. Flower's node numbers mean nothing here; each node reports its client number."""
    end = time.monotonic() + enrolment
    requested: set[int] = set()
    pending: dict[str, int] = {}
    nodes: dict[int, int] = {}
    while len(nodes) < clients:
        new = sorted(set(grid.get_node_ids()) - requested)
        requested.update(new)
        pending |= _pushed(grid, {node: wire.seat_question() for node in new}, "query", enrolment)
        for node, record in _pulled(grid, pending):
            partition = None if record is None else _seat(record)
            if partition is None or partition >= clients:
                raise FederationError(f"a node is not one of clients 0, ..., {clients - 1}: set its partition-id")
            if partition in nodes:
                raise FederationError(f"two nodes are client {partition}: its losses would be used twice")
            nodes[partition] = node
        if len(nodes) < clients:
            if time.monotonic() > end:
                raise FederationError(f"only {len(nodes)} of {clients} clients have enrolled within {enrolment:g} s")
            time.sleep(_POLL)
    return tuple(nodes[client] for client in range(clients))


def _seat(record: Mapping[str, object]) -> int | None:
    try:
        return wire.read_seat(record)
    except wire.WireError:
        return None


@frozen(eq=False)
class _OverGrid:
    """The transport of :func:`hockeystick.learners.network.protocol.conduct` over a ``Grid``.

    Flower takes a minute to notice that a node is gone. To spend one timeout on it, and not one per request, the
    transport does not wait for a client that missed the last request. Its answer still counts if it is not slower than
    the others.
    """

    grid: Any
    nodes: tuple[int, ...]
    timeout: float
    _silent: set[int] = field(factory=set, init=False)

    def __call__(self, requests: Mapping[int, Sequence[Request]]) -> dict[int, object]:
        end = time.monotonic() + self.timeout
        online = set(self.grid.get_node_ids())
        requested = {client: waiting for client, waiting in requests.items() if self.nodes[client] in online}
        records = {self.nodes[client]: wire.requests_record(waiting) for client, waiting in requested.items()}
        pending = _pushed(self.grid, records, "train", self.timeout)
        client_at = {node: client for client, node in enumerate(self.nodes)}
        awaited = {self.nodes[client] for client in set(requested) - self._silent} or set(records)
        found: dict[int, object] = {}
        while True:
            for node, record in _pulled(self.grid, pending):
                client = client_at[node]
                answer = _answer(record, requested[client][-1].number)
                if answer is not None:
                    found[client] = answer
            if awaited.isdisjoint(pending.values()) or time.monotonic() > end:
                break
            time.sleep(_POLL)
        self._silent.clear()
        self._silent.update(set(requests) - set(found))
        return found


def _answer(record: Mapping[str, object] | None, number: int) -> object | None:
    """Returns the answer, None for a refusal, or a text, which is malformed, for a message that can't be read."""
    if record is None:
        return None
    try:
        return wire.read_answer(record, number)
    except wire.WireError:
        return "unreadable"


def _pushed(grid: Any, records: Mapping[int, wire.Record], kind: str, lifetime: float) -> dict[str, int]:
    """Sends a record to each node; returns the node of each message number."""
    types = _flower("flwr.app", "conduct_on_flower")
    messages = [
        types.Message(types.RecordDict({_RECORD: types.ConfigRecord(record)}), node, kind, ttl=lifetime)
        for node, record in records.items()
    ]
    numbers = list(grid.push_messages(messages)) if messages else []
    if len(numbers) != len(messages):
        raise FederationError("the SuperLink did not accept the messages: they may be too large for it")
    return {number: node for number, node in zip(numbers, records, strict=True) if number is not None}


def _pulled(grid: Any, pending: dict[str, int]) -> list[tuple[int, Mapping[str, object] | None]]:
    """Removes the nodes that replied from ``pending``; returns them with their records, None for an error of Flower."""
    found: list[tuple[int, Mapping[str, object] | None]] = []
    for message in grid.pull_messages(list(pending)) if pending else ():
        node = pending.pop(message.metadata.reply_to_message_id, None)
        if node is not None:
            own = message.has_content() and message.metadata.src_node_id == node
            found.append((node, _record(message) if own else None))
    return found


def _record(message: Any) -> Mapping[str, object]:
    """Returns the record of a message; an empty one, which has no kind, if the message holds anything else."""
    content = message.content
    return dict(content.config_records.get(_RECORD, {})) if list(content) == [_RECORD] else {}


def _node(context: Any) -> Node:
    config = dict(context.node_config)
    partition = config.get("partition-id")
    if type(partition) is not int or partition < 0:
        raise InvalidArgumentError("partition-id", partition, "is not a client number", "set it in --node-config")
    return Node(partition, context.run_id, config)


def _answered(
    make_client: _MakeClient,
    seed: Callable[[Node], int] | None,
    types: Any,
    context: Any,
    requests: Sequence[Request],
) -> wire.Record:
    """Returns the answer to the last request and stores the state in the context; a failure leaves that unchanged."""
    node = _node(context)
    stored = context.state.config_records.get(_RECORD)
    answered = 0 if stored is None else int(stored["answered"])
    new = [request for request in requests if request.number > answered]
    if not new or new[0].number != answered + 1:
        raise FederationError(f"request {answered + 1} is next")
    last = new[-1]
    with _claimed(f"{context.run_id}-{context.node_id}", answered, last.number):
        drawn, client = _made(make_client, seed, node, stored)
        state, answer = caught_up(client, client.start() if stored is None else _stored_state(context), new)
        values = np.asarray(answer, dtype=np.float64)
        if values.shape != (last.size,) or not np.isfinite(values).all():
            raise FederationError("the client's answer is not a finite vector of the requested size")
        records = _records(types, state, last.number, drawn)
    context.state[_STATE], context.state[_RECORD] = records
    return wire.answer_record(last.number, values)


def _letter_answered(
    make_client: _MakeClient,
    seed: Callable[[Node], int] | None,
    types: Any,
    context: Any,
    number: int,
    text: bytes,
) -> wire.Record:
    """As :func:`_answered`, for a message of a secure sum; one that was missed is never made up for."""
    node = _node(context)
    stored = context.state.config_records.get(_RECORD)
    answered = 0 if stored is None else int(stored["answered"])
    if number != answered + 1:
        raise FederationError(f"message {answered + 1} is next")
    with _claimed(f"{context.run_id}-{context.node_id}", answered, number):
        drawn, client = _made(make_client, seed, node, stored)
        state, answer = client.answer(client.start() if stored is None else _stored_state(context), text)
        records = _records(types, state, number, drawn)
    context.state[_STATE], context.state[_RECORD] = records
    return wire.letter_record(number, answer)


def _made(make_client: _MakeClient, seed: Callable[[Node], int] | None, node: Node, stored: Any) -> tuple[bytes, Any]:
    """Returns the node's own random bytes and its client."""
    drawn = secrets.token_bytes(16) if stored is None else stored["seed"]
    return drawn, make_client(node, int.from_bytes(drawn, "little") if seed is None else seed(node))


def _records(types: Any, state: State, answered: int, drawn: bytes) -> tuple[Any, Any]:
    arrays = types.ArrayRecord({name: types.Array(np.asarray(each)) for name, each in state.items()})
    return arrays, types.ConfigRecord({"answered": answered, "seed": drawn})


@contextmanager
def _claimed(name: str, answered: int, last: int) -> Iterator[None]:
    """Locks the run on this node; on exit records ``last`` as answered, unless there was an exception.

    Raises:
        FederationError: the last answered request is not ``answered``: the context is outdated.
    """
    folder = Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr") / "hockeystick"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.answered"
    with FileLock(file.with_suffix(".lock")):
        if _last_answered(file) != answered:
            raise FederationError(f"request {answered + 1} has been answered")
        yield
        file.write_text(str(last))


def _last_answered(file: Path) -> int:
    """Returns the number of the last answered request."""
    try:
        text = read_text(file, most=64)
    except UnreadableFileError as error:
        if error.missing:
            return 0
        text = ""
    if not text.isdecimal():
        raise FederationError(f"{file} does not hold the number of a request: nothing was answered")
    return int(text)


def _stored_state(context: Any) -> State:
    return {name: each.numpy() for name, each in context.state.array_records[_STATE].items()}


def _flower(module: str, name: str) -> Any:
    return require(module, f"hockeystick.learners.network.flower.{name}", extra="federated")
