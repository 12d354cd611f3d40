"""Tests that federated algorithms on Flower play as in one process, and that a node sends only its answers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.analytics import ItemQuestion, Survey, SurveyClient, conduct_survey
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.over_a_network import KLClient, kl_server
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.federated.one_good_expert.fed_svt import FedSVT
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.network.protocol import (
    Client,
    FederationError,
    InProcess,
    Outcome,
    Replies,
    Request,
    State,
    conduct,
    substream,
)
from hockeystick.mechanisms import (
    AggregationError,
    ClientsInProcess,
    PairwiseSum,
    SimulationNoise,
    SkellamShares,
    SumClient,
    conduct_sum,
)

pytest.importorskip("flwr", reason="needs Flower: pip install 'hockeystick[federated]'")

from hockeystick.learners.network import flower
from hockeystick.learners.network import flower_wire as wire

SIZE = 3
SECRET = 123456789.0


@frozen
class Summing:
    """Answers the sum of all values told so far, plus its own number, plus noise of its own."""

    number: int
    seed: int

    def start(self) -> State:
        return {"sum": np.zeros(SIZE), "asked": np.zeros((), dtype=np.int64), "flag": np.array([True, False])}

    def answer(self, state: State, request: Request) -> tuple[State, np.ndarray]:
        noise = substream(self.seed, *request.step).laplace(size=SIZE)
        total = np.asarray(state["sum"], dtype=float) + request.values
        return {**state, "sum": total, "asked": state["asked"] + 1}, (total + self.number + noise)[: request.size]


def averaging(rounds: int) -> Generator[Request, Replies, list[np.ndarray]]:
    told, history = np.zeros(SIZE), []
    for number in range(1, rounds + 1):
        replies = yield Request(number, (number, 7), told, SIZE)
        told = replies.total() / len(replies.clients)
        history.append(told)
    return history


def seed_of(node: flower.Node) -> int:
    return 1000 + node.partition


def apps(make: Callable[[flower.Node, int], Client] = lambda node, seed: Summing(node.partition, seed)) -> Any:
    return flower.client_app(make, seed=seed_of)


def places(*partitions: int) -> list[dict[str, int]]:
    return [{"partition-id": partition} for partition in partitions]


def run(network: Any, rounds: int, *, clients: int, **terms: Any) -> Outcome[list[np.ndarray]]:
    return flower.conduct_on_flower(averaging(rounds), network.grid(), clients=clients, **terms)


def in_process(
    rounds: int, *, clients: int, silent: Callable[[int, int], bool] = lambda client, number: False
) -> Outcome[list[np.ndarray]]:
    transport = InProcess([Summing(i, 1000 + i) for i in range(clients)], silent)
    return conduct(averaging(rounds), transport, clients=clients)


def assert_same(found: Outcome[list[np.ndarray]], expected: Outcome[list[np.ndarray]]) -> None:
    np.testing.assert_array_equal(found.result, expected.result)
    np.testing.assert_array_equal(found.answered, expected.answered)
    assert found.communication == expected.communication
    assert found.problems == expected.problems


# --- the same plays --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_same_seeds_same_run_whichever_node_is_which_client(network: Any, order: Sequence[int]) -> None:
    outcome = run(network(apps(), places(*order)), 4, clients=3)

    assert_same(outcome, in_process(4, clients=3))
    assert outcome.answered.all()


SETTING = {
    "clients": 3,
    "low": 0.0,
    "high": 1.0,
    "assignment": "secret",
    "phases": (
        TreePhase(records=1, trees=0, batch=1, scales=(1.0,)),
        None,
        TreePhase(records=4, trees=1, batch=2, scales=(0.5,)),
    ),
}


@pytest.mark.parametrize(
    ("where", "noise", "smoothness"),
    [("client", "laplace", 0.0), ("client", "gaussian", None), ("server", "gumbel", 0.0)],
)
def test_the_stochastic_learner_plays_the_same_three_ways(
    network: Any, where: str, noise: str, smoothness: Any
) -> None:
    setting = StochSetting(**SETTING, where=where, noise=noise, smoothness=smoothness)
    learner = FedStoch(setting=setting, rounds=15, experts=5)
    losses = np.random.default_rng(1).random((3, 15, 5))
    seeds = [11, 12, 13]
    server_seed = 14 if where == "server" else None
    made = flower.client_app(
        lambda node, seed: learner.client(losses[node.partition], seed), seed=lambda node: seeds[node.partition]
    )

    at_once = learner.run(losses, seeds, server_seed=server_seed).broadcasts
    clients = [learner.client(losses[i], seeds[i]) for i in range(3)]
    asked = conduct(learner.server(server_seed), InProcess(clients), clients=3)
    over = flower.conduct_on_flower(learner.server(server_seed), network(made, places(1, 2, 0)).grid(), clients=3)

    for found in (asked.result, over.result):
        np.testing.assert_array_equal(found.points, at_once.points)
        assert found.winners == at_once.winners
    assert over.communication == asked.communication


def test_a_client_may_bring_its_own_noise(network: Any) -> None:
    """As for a release: nothing then follows from the seed, and the order of reading is kept with the state."""
    setting = StochSetting(**SETTING, where="client", noise="laplace", smoothness=0.0)
    learner = FedStoch(setting=setting, rounds=15, experts=5)
    losses = np.random.default_rng(1).random((3, 15, 5))
    rng = np.random.default_rng(2)
    made = flower.client_app(lambda node, seed: learner.client(losses[node.partition], SimulationNoise(rng)))

    over = flower.conduct_on_flower(learner.server(), network(made, places(0, 1, 2)).grid(), clients=3, least=3)

    assert over.answered.all() and over.problems == ()
    assert over.result.points.shape == (4, 5)


@pytest.mark.parametrize("lazy_vectors", [False, True])
def test_the_sparse_vector_learner_plays_the_same_three_ways(network: Any, lazy_vectors: bool) -> None:
    learner = FedSVT(
        clients=3,
        rounds=20,
        experts=4,
        period=2,
        switches=3,
        learning_rate=0.5,
        threshold=5.0,
        threshold_scale=1.0,
        query_scale=1.0,
        lazy_vectors=lazy_vectors,
    )
    losses = np.random.default_rng(1).random((3, 20, 4))
    made = flower.client_app(lambda node, seed: learner.client(losses[node.partition], seed))

    at_once = learner.run(losses, server_seed=14)
    asked = conduct(learner.server(server_seed=14), InProcess([learner.client(losses[i]) for i in range(3)]), clients=3)
    over = flower.conduct_on_flower(
        learner.server(server_seed=14), network(made, places(1, 2, 0)).grid(), clients=3, least=3
    )

    for found in (asked.result, over.result):
        np.testing.assert_array_equal(found.experts, at_once.experts)
        np.testing.assert_array_equal(found.above, at_once.above)
    assert len(set(at_once.experts.tolist())) > 1
    assert over.communication == asked.communication == learner.communication(at_once)


@pytest.mark.parametrize("lost", [set[int](), {1}])
def test_the_divergence_estimate_of_a_secure_sum_is_the_same_over_flower(network: Any, lost: set[int]) -> None:
    """Counts with shares of noise, masked; a client that fails is out of the sum."""
    records = np.full(3, 10)
    average = QueryAverage.drawn([0.5, 0.25, 0.25], records, samples=20, rng=np.random.default_rng(1))
    plan = DistributedKL(average=average, shares=SkellamShares(4.0, survivors=2))
    counts = np.random.default_rng(2).multinomial(10, [0.3, 0.3, 0.4], size=3)[:, average.symbols]

    def client(i: int) -> KLClient:
        return KLClient(plan, i, counts[i], 20 + i)

    def made(node: flower.Node, seed: int) -> KLClient:
        if node.partition in lost:
            raise RuntimeError("out of order")
        return client(node.partition)

    silent = ClientsInProcess([client(i) for i in range(3)], lambda i, step: i in lost)
    asked, _ = kl_server(plan, silent, simulated=True)
    grid = network(flower.client_app(made), places(1, 2, 0)).grid()
    over, outcome = kl_server(plan, flower.post_on_flower(grid, clients=3), simulated=True)

    np.testing.assert_array_equal(over.counts, asked.counts)
    shares = sum(plan.shares.share(3, noise=SimulationNoise(substream(20 + i))) for i in range(3) if i not in lost)
    np.testing.assert_array_equal(over.counts, counts[[i for i in range(3) if i not in lost]].sum(axis=0) + shares)
    assert outcome.clients == tuple(i for i in range(3) if i not in lost) and outcome.refused == ()


SUM = PairwiseSum(clients=4, length=2, modulus=64)


def adding(node: flower.Node, seed: int) -> SumClient:
    return SumClient(SUM, node.partition, lambda: [node.partition, -1])


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_secure_sum_survives_a_node_lost_at_any_step(network: Any, step: int) -> None:
    over = network(flower.client_app(adding), places(0, 1, 2, 3))
    over.late = lambda node, k: node == 103 and k >= step
    found = conduct_sum(SUM, flower.post_on_flower(over.grid(), clients=4))
    kept = (0, 1, 2, 3) if step == 4 else (0, 1, 3)
    assert found.clients == kept and found.total.tolist() == [sum(kept), -len(kept)]


def test_a_secure_sum_refuses_copies_and_unreadable_answers(network: Any) -> None:
    """Every message is delivered twice: the second answer is a refusal. One node's masked numbers can't be read."""
    from flwr.app import ConfigRecord, RecordDict

    def changed(node: int, k: int, reply: Any) -> Any:
        if node == 103 and k == 3:
            reply.content = RecordDict({"hockeystick": ConfigRecord({"version": 1, "kind": "letter", "number": 3})})
        return reply

    over = network(flower.client_app(adding), places(0, 1, 2, 3))
    over.changed = changed
    found = conduct_sum(SUM, flower.post_on_flower(over.grid(), clients=4))
    assert found.clients == (0, 1, 3)
    assert [each.reason for each in found.refused] == ["the message is not one of a secure sum"]

    twice = network(flower.client_app(adding), places(0, 1, 2, 3), copies=2)
    with pytest.raises(AggregationError, match="step 0: 0 of 4"):
        conduct_sum(SUM, flower.post_on_flower(twice.grid(), clients=4))


def test_the_apps_run_as_flower_runs_them(network: Any) -> None:
    from flwr.app import Context, RecordDict

    outcomes: list[tuple[Outcome[list[np.ndarray]], object]] = []
    app = flower.server_app(
        lambda config: averaging(int(str(config["rounds"]))),
        clients=2,
        done=lambda outcome, config: outcomes.append((outcome, config)),
        least=2,
    )

    app(network(apps(), places(0, 1)).grid(), Context(7, 0, {}, RecordDict(), {"rounds": 3}))

    ((outcome, config),) = outcomes
    assert_same(outcome, in_process(3, clients=2))
    assert config == {"rounds": 3}


# --- who answers -----------------------------------------------------------------------------------------------------


def test_lost_requests_late_replies_and_absent_nodes_are_all_silences(network: Any) -> None:
    """Client 1 loses request 2, client 2's reply to request 3 is late, client 3 is away for requests 2 and 3."""
    network = network(
        apps(),
        places(0, 1, 2, 3),
        lost=lambda node, k: node == 102 and k == 2,
        late=lambda node, k: (node, k) == (103, 3),
    )
    away = {104}
    network.online = lambda: [
        node for node in (101, 102, 103, 104) if node not in away or network.counts.get(101) not in (1, 2)
    ]

    found = run(network, 5, clients=4)

    assert_same(found, in_process(5, clients=4, silent=lambda i, n: (i, n) in {(1, 2), (2, 3), (3, 2), (3, 3)}))


def test_a_node_that_never_comes_back_is_left_out(network: Any) -> None:
    def made() -> Any:
        return network(apps(), places(0, 1, 2), lost=lambda node, k: node == 102 and k >= 2)

    assert_same(run(made(), 4, clients=3), in_process(4, clients=3, silent=lambda i, n: i == 1 and n >= 2))
    with pytest.raises(FederationError, match="2 of 3 clients have answered properly, 3 are needed"):
        run(made(), 4, clients=3, least=3)


def waits(network: Any, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Records the time of each request of a run, and the clients that answered it."""
    ends = [0.0]

    def server() -> Generator[Request, Replies, list[np.ndarray]]:
        inner = averaging(rounds)
        request = next(inner)
        while True:
            replies = yield request
            ends.append(network.now)
            try:
                request = inner.send(replies)
            except StopIteration as stop:
                return list(stop.value)

    clients = len(network.contexts)
    found = flower.conduct_on_flower(server(), network.grid(), clients=clients, timeout=60.0)
    return np.diff(ends), found.answered


def test_a_node_that_is_gone_costs_one_timeout_and_may_come_back(network: Any) -> None:
    """Client 1 loses requests 2, 3, 4 and, having come back, 6."""
    network = network(apps(), places(0, 1, 2), lost=lambda node, k: node == 102 and k in (2, 3, 4, 6))

    seconds, answered = waits(network, 7)

    assert (np.flatnonzero(~answered[:, 1]) + 1).tolist() == [2, 3, 4, 6] and answered[:, [0, 2]].all()
    assert (seconds[[0, 2, 3, 4, 6]] == 0).all() and (seconds[[1, 5]] >= 60).all()


def test_who_was_silent_is_waited_for_if_there_is_nobody_else(network: Any) -> None:
    """Client 1 loses request 2; at request 3 client 0 is away, and client 1 takes 10 seconds."""
    network = network(
        apps(),
        places(0, 1),
        lost=lambda node, k: (node, k) == (102, 2),
        delay=lambda node, k: 10.0 if (node, k) == (102, 3) else 0.0,
    )
    network.online = lambda: [102] if network.counts.get(101) == 2 else [101, 102]

    seconds, answered = waits(network, 3)

    assert answered.tolist() == [[True, True], [True, False], [False, True]]
    assert seconds[0] == 0 and seconds[1] >= 60 and 10 <= seconds[2] < 60


def test_slow_nodes_are_waited_for_and_too_slow_ones_are_left_out(network: Any) -> None:
    network = network(apps(), places(0, 1), delay=lambda node, k: {(102, 1): 50.0, (102, 2): 70.0}.get((node, k), 0.0))

    seconds, answered = waits(network, 3)

    assert answered.tolist() == [[True, True], [True, False], [True, True]]
    assert 50 <= seconds[0] < 60 <= seconds[1] and seconds[2] == 0


def test_all_clients_are_waited_for(network: Any) -> None:
    network = network(apps(), places(0, 1, 2))
    looks: list[int] = []

    def online() -> list[int]:
        looks.append(1)
        return [101, 102, 103][: 1 + len(looks) // 300]

    network.online = online

    assert run(network, 1, clients=3).answered.all()
    assert network.now > 100


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        (places(0, 1), "2 of 3 clients have enrolled"),
        ([], "0 of 3 clients have enrolled"),
        (places(0, 1, 1), "two nodes are client 1: its losses would be used twice"),
        (places(0, 1, 3), "set its partition-id"),
        (places(0, 1, -1), "set its partition-id"),
        ([{}, *places(0, 1)], "set its partition-id"),
        ([{"partition-id": "2"}, *places(0, 1)], "set its partition-id"),
        ([{"partition-id": 1.0}, *places(0, 2)], "set its partition-id"),
        ([{"partition-id": True}, *places(0, 2)], "set its partition-id"),
    ],
)
def test_a_run_does_not_start_without_one_node_for_each_client(network: Any, configs: list[Any], message: str) -> None:
    with pytest.raises(FederationError, match=message):
        run(network(apps(), configs), 1, clients=3)


def tampered(change: Callable[[Any], Any]) -> Callable[[int, int, Any], Any]:
    """Changes the second reply of the second node."""
    return lambda node, k, reply: change(reply) if (node, k) == (102, 2) else reply


def with_record(**fields: Any) -> Callable[[Any], Any]:
    def change(reply: Any) -> Any:
        from flwr.app import ConfigRecord

        reply.content["hockeystick"] = ConfigRecord({**reply.content["hockeystick"], **fields})
        return reply

    return change


def with_another_record(reply: Any) -> Any:
    from flwr.app import MetricRecord

    reply.content["note"] = MetricRecord({"accuracy": 1.0})
    return reply


def with_metrics_instead(reply: Any) -> Any:
    from flwr.app import Message, MetricRecord, RecordDict

    return Message(RecordDict({"hockeystick": MetricRecord({"number": 1})}), reply_to=reversed_of(reply))


def reversed_of(reply: Any) -> Any:
    """The message that a reply is one to, as far as another reply needs it."""
    from flwr.app import Message
    from flwr.app.metadata import Metadata

    data = reply.metadata
    return Message(
        metadata=Metadata(
            run_id=data.run_id,
            message_id=data.reply_to_message_id,
            src_node_id=data.dst_node_id,
            dst_node_id=data.src_node_id,
            reply_to_message_id="",
            group_id="",
            created_at=data.created_at,
            ttl=60.0,
            message_type=data.message_type,
        ),
        content=reply.content,
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_record(version=2), "wrong type"),
        (with_record(number=1), "wrong type"),
        (with_record(kind="requests"), "wrong type"),
        (with_record(values=b"1234567"), "wrong type"),
        (with_record(values=[0.5, 0.5, 0.5]), "wrong type"),
        (with_record(more=1), "wrong type"),
        (with_another_record, "wrong type"),
        (with_metrics_instead, "wrong type"),
        (with_record(values=np.zeros(4).tobytes()), "wrong shape"),
        (with_record(values=b""), "wrong shape"),
        (with_record(values=np.array([0.5, np.nan, 0.5]).tobytes()), "not finite"),
    ],
)
def test_a_malformed_reply_is_left_out_and_the_run_goes_on(network: Any, change: Any, reason: str) -> None:
    found = run(network(apps(), places(0, 1, 2), changed=tampered(change)), 3, clients=3)

    assert [(each.client, each.number, each.reason) for each in found.problems] == [(1, 2, reason)]
    np.testing.assert_array_equal(found.result, in_process(3, clients=3, silent=lambda i, n: (i, n) == (1, 2)).result)


def test_an_error_of_flower_is_a_silence(network: Any) -> None:
    def unavailable(reply: Any) -> Any:
        from flwr.app import Error, Message

        return Message(Error(code=3, reason="the node is gone"), reply_to=reversed_of(reply))

    found = run(network(apps(), places(0, 1, 2), changed=tampered(unavailable)), 3, clients=3)

    assert_same(found, in_process(3, clients=3, silent=lambda i, n: (i, n) == (1, 2)))


def test_a_reply_in_another_nodes_name_is_left_out(network: Any) -> None:
    def forged(reply: Any) -> Any:
        reply.metadata.__dict__["_src_node_id"] = 103
        return reply

    found = run(network(apps(), places(0, 1, 2), changed=tampered(forged)), 2, clients=3)

    assert [(each.client, each.number, each.reason) for each in found.problems] == [(1, 2, "no answer")]


# --- what a node says ------------------------------------------------------------------------------------------------


@frozen
class Failing:
    """Fails at request 2, with its losses in the exception."""

    error: type[BaseException]
    inner: Summing

    def start(self) -> State:
        return self.inner.start()

    def answer(self, state: State, request: Request) -> tuple[State, np.ndarray]:
        state["sum"] = np.asarray(state["sum"], dtype=float) + 0.0
        if request.number == 2 and not failures:
            failures.append(1)
            raise self.error(f"my loss was {SECRET}")
        return self.inner.answer(state, request)


failures: list[int] = []


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, MemoryError, StopIteration, RecursionError])
def test_an_exception_is_a_silence_and_its_text_stays_on_the_node(
    network: Any, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    failures.clear()
    network = network(apps(lambda node, seed: failing(node, seed, error)), places(0, 1))

    with caplog.at_level(logging.INFO):
        found = run(network, 3, clients=2)

    assert_same(found, in_process(3, clients=2, silent=lambda i, n: (i, n) == (1, 2)))
    assert failures
    said = b"".join(network.replies)
    assert b"123456789" not in said and error.__name__.encode() not in said
    assert "123456789" not in caplog.text and error.__name__ in caplog.text


def failing(node: flower.Node, seed: int, error: type[BaseException]) -> Client:
    inner = Summing(node.partition, seed)
    return Failing(error, inner) if node.partition == 1 else inner


def test_a_client_that_can_not_be_made_is_a_silence(network: Any) -> None:
    def make(node: flower.Node, seed: int) -> Client:
        if node.partition == 1:
            raise OSError(f"no file of {SECRET}")
        return Summing(node.partition, seed)

    network = network(apps(make), places(0, 1))

    assert_same(run(network, 2, clients=2), in_process(2, clients=2, silent=lambda i, n: i == 1))
    assert b"123456789" not in b"".join(network.replies)


@frozen
class Odd:
    """Answers in a given way."""

    answered: Any

    def start(self) -> State:
        return {}

    def answer(self, state: State, request: Request) -> tuple[State, np.ndarray]:
        return {"kept": np.array([None])} if self.answered is None else {}, (
            np.zeros(SIZE) if self.answered is None else self.answered
        )


@pytest.mark.parametrize(
    "answered",
    [np.zeros(SIZE + 1), np.zeros((SIZE, 1)), np.array([0.0, np.nan, 0.0]), "text", np.array(["a"] * SIZE), None],
)
def test_a_node_sends_no_answer_that_was_not_asked_for(network: Any, answered: object) -> None:
    """The last: a state that can't be kept, so that the request would be answered again from the state before."""
    network = network(apps(lambda node, seed: Odd(answered) if node.partition else Summing(0, seed)), places(0, 1))

    found = run(network, 2, clients=2)

    assert found.answered.tolist() == [[True, False]] * 2
    assert {each.reason for each in found.problems} == {"no answer"}


def test_a_request_is_answered_once(network: Any) -> None:
    """Every message is delivered twice: the second time it is refused, and the state is what it was."""
    network = network(apps(), places(0, 1), copies=2)

    with pytest.raises(FederationError, match="request 1: 0 of 2"):
        run(network, 1, clients=2)
    kinds = [wire.ANSWER.encode() in said for said in network.replies if b"kind" in said and b"partition" not in said]
    assert kinds == [True, False, True, False]


def asked(network: Any, node: int, requests: Sequence[Request]) -> np.ndarray | None:
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict({"hockeystick": ConfigRecord(wire.requests_record(requests))})
    reply = network.deliver(Message(content, node, "train", ttl=60.0))
    return wire.read_answer(reply.content["hockeystick"], requests[-1].number)


def test_requests_are_answered_in_their_order_and_old_ones_are_skipped(network: Any) -> None:
    network = network(apps(), places(0))
    one, two, three, four = (told(n) for n in (1, 2, 3, 4))
    summed = lambda told, n: told + substream(1000, n, 7).laplace(size=SIZE)  # noqa: E731

    assert asked(network, 101, [two]) is None  # request 1 is missing
    np.testing.assert_array_equal(asked(network, 101, [one, two]), summed(3.0, 2))
    assert asked(network, 101, [one]) is None and asked(network, 101, [two]) is None  # answered before
    assert asked(network, 101, [four]) is None  # request 3 is missing
    np.testing.assert_array_equal(asked(network, 101, [two, three]), summed(6.0, 3))
    np.testing.assert_array_equal(asked(network, 101, [three, four]), summed(10.0, 4))


@pytest.mark.parametrize("partition", [None, -1, "0", 0.0, False])
def test_a_node_that_does_not_know_which_client_it_is_does_not_answer(network: Any, partition: object) -> None:
    network = network(apps(), [{} if partition is None else {"partition-id": partition}])

    assert asked(network, 101, [told(1)]) is None


def told(number: int) -> Request:
    return Request(number, (number, 7), np.full(SIZE, float(number)), SIZE)


def test_an_old_context_does_not_answer_again(network: Any) -> None:
    """Flower gives every process the context that it has when the process begins."""
    network = network(apps(), places(0))
    before = network.contexts[101]

    assert asked(network, 101, [told(1)]) is not None
    after, network.contexts[101] = network.contexts[101], before
    assert asked(network, 101, [told(1)]) is None
    assert asked(network, 101, [told(1), told(2)]) is None
    network.contexts[101] = after
    assert asked(network, 101, [told(2)]) is not None


def test_of_two_processes_at_once_one_answers(network: Any) -> None:
    entered, go_on = Event(), Event()

    @frozen
    class Waiting:
        inner: Summing

        def start(self) -> State:
            return self.inner.start()

        def answer(self, state: State, request: Request) -> tuple[State, np.ndarray]:
            entered.set()
            assert go_on.wait(60.0)
            return self.inner.answer(state, request)

    network = network(apps(lambda node, seed: Waiting(Summing(0, seed))), places(0))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(asked, network, 101, [told(1)])
        assert entered.wait(60.0)
        second = pool.submit(asked, network, 101, [told(1)])
        wait([second], timeout=0.3)  # it would be over by then if it did not wait for the first
        go_on.set()

        assert first.result() is not None and second.result() is None


def test_a_failure_is_not_taken_for_an_answer(network: Any) -> None:
    failures.clear()
    network = network(apps(lambda node, seed: failing(node, seed, ValueError)), places(1))

    assert asked(network, 101, [told(1)]) is not None
    assert asked(network, 101, [told(2)]) is None
    np.testing.assert_array_equal(asked(network, 101, [told(2)]), 3.0 + 1 + substream(1001, 2, 7).laplace(size=SIZE))


@pytest.mark.parametrize("text", ["", "one", "-1"])
def test_a_damaged_record_of_answers_refuses(network: Any, tmp_path: Path, text: str) -> None:
    network = network(apps(), places(0))
    assert asked(network, 101, [told(1)]) is not None

    (file,) = (tmp_path / "hockeystick").glob("*.answered")
    file.write_text(text)

    assert asked(network, 101, [told(2)]) is None


@pytest.mark.parametrize("kind", ["train", "query"])
def test_messages_of_anything_else_are_refused(network: Any, kind: str) -> None:
    from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

    network = network(apps(), places(0))
    for content in (
        RecordDict(),
        RecordDict({"arrays": ConfigRecord({"lr": 0.1})}),
        RecordDict({"hockeystick": ConfigRecord({})}),
        RecordDict({"hockeystick": ConfigRecord({"version": 1, "kind": "answer"})}),
        RecordDict({"hockeystick": MetricRecord({"version": 1})}),
    ):
        reply = network.deliver(Message(content, 101, kind, ttl=60.0))
        assert dict(reply.content["hockeystick"]) == wire.refusal_record()


# --- seeds -----------------------------------------------------------------------------------------------------------


def test_a_node_draws_its_own_seed_once_and_never_tells_it(network: Any) -> None:
    """Two of the 128-bit seeds are equal with probability 2^-126."""
    seeds: list[tuple[int, int]] = []

    def make(node: flower.Node, seed: int) -> Client:
        seeds.append((node.partition, seed))
        return Summing(node.partition, seed)

    network = network(flower.client_app(make), places(0, 1, 2))
    run(network, 3, clients=3)

    drawn = dict(seeds)
    assert len(seeds) == 9 and set(seeds) == set(drawn.items())  # the same at every request
    assert len(set(drawn.values())) == 3 and all(0 <= seed < 2**128 for seed in drawn.values())
    said = b"".join(network.replies)
    assert not [seed for seed in drawn.values() if seed.to_bytes(16, "little") in said]


def test_a_client_is_told_its_node(network: Any) -> None:
    nodes: list[flower.Node] = []

    def make(node: flower.Node, seed: int) -> Client:
        nodes.append(node)
        return Summing(node.partition, seed)

    run(network(apps(make), [{"partition-id": 0, "file": "a.npy"}]), 1, clients=1)

    assert nodes == [flower.Node(0, 7, {"partition-id": 0, "file": "a.npy"})]


@pytest.mark.parametrize(
    "terms",
    [
        {"clients": 0},
        {"clients": True},
        {"clients": 1.5},
        {"least": 0},
        {"least": 3},
        {"timeout": 0.0},
        {"timeout": -1.0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"enrolment": "10"},
    ],
)
def test_bad_terms_are_refused_before_anything_is_sent(network: Any, terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        run(network(apps(), places(0, 1)), 1, **{"clients": 2, **terms})
    with pytest.raises(InvalidArgumentError):
        flower.server_app(lambda config: averaging(1), done=print, **{"clients": 2, **terms})


@pytest.mark.parametrize("model", ["local", "aggregated"])
def test_a_survey_in_rounds_is_the_same_over_flower(network: Any, model: Any) -> None:
    """Clients of the local model answer one of two rounds, those of the other one both, in sums of two groups."""
    question = ItemQuestion("ab", length=2, share=0.2)
    groups = 2 if model == "aggregated" else 1
    survey = Survey(
        question=question, model=model, epsilon=25.0, clients=6, run=b"8 bytes.", confidence=0.5, groups=groups
    )
    words = ["ab", "ab", "ab", "b", "b", "toolong"]

    def client(i: int) -> SurveyClient:
        return SurveyClient(i, words[i], most_epsilon=25.0, source=i)

    asked = conduct_survey(survey, ClientsInProcess([client(i) for i in range(6)]), simulated=True)
    grid = network(flower.client_app(lambda node, seed: client(node.partition)), places(*range(6))).grid()
    over = conduct_survey(survey, flower.post_on_flower(grid, clients=6), simulated=True)

    assert over.rows == asked.rows and over.answered == asked.answered and over.refused == asked.refused == {}
    assert model == "local" or dict((row[0], row[1]) for row in over.rows) == {"ab": 0.5, "b": pytest.approx(1 / 3)}
