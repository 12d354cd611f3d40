"""Tests of the protocol of federated algorithms: requests, valid answers, and hidden values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, Laplace
from hockeystick.learners.network.protocol import (
    Client,
    Communication,
    FederationError,
    InProcess,
    Outcome,
    Problem,
    Replies,
    Request,
    State,
    caught_up,
    conduct,
    substream,
)
from hockeystick.learners.network.threat_models import ThreatModel, threat_model

SIZE = 3


@frozen
class Summing:
    """Answers the sum of all values told so far, plus its own losses, plus noise of its own."""

    seed: int

    def start(self) -> State:
        return {"sum": np.zeros(SIZE), "asked": np.zeros((), dtype=np.int64)}

    def answer(self, state: State, request: Request) -> tuple[State, np.ndarray]:
        noise = substream(self.seed, *request.step).laplace(size=SIZE)
        total = np.asarray(state["sum"], dtype=float) + request.values
        return {"sum": total, "asked": state["asked"] + 1}, (total + self.seed + noise)[: request.size]


def averaging(rounds: int) -> Generator[Request, Replies, list[np.ndarray]]:
    """Sends the average answer of each request in the next one."""
    told, history = np.zeros(SIZE), []
    for number in range(1, rounds + 1):
        replies = yield Request(number, (number, 7), told, SIZE)
        told = replies.total() / len(replies.clients)
        history.append(told)
    return history


def by_hand(seeds: Sequence[int], rounds: int, silent: Callable[[int, int], bool]) -> list[np.ndarray]:
    """What averaging() must return, without any protocol: a client's sum has all that was told, whenever it heard."""
    told, history = [np.zeros(SIZE)], []
    for number in range(1, rounds + 1):
        answers = [
            sum(told) + seed + substream(seed, number, 7).laplace(size=SIZE)
            for i, seed in enumerate(seeds)
            if not silent(i, number)
        ]
        history.append(np.sum(answers, axis=0) / len(answers))
        told.append(history[-1])
    return history


@pytest.mark.statistical
@given(m=st.integers(1, 4), rounds=st.integers(0, 5), mute=st.sets(st.tuples(st.integers(0, 3), st.integers(1, 5))))
def test_who_was_silent_is_caught_up_and_counts_again(m: int, rounds: int, mute: set[tuple[int, int]]) -> None:
    mute = {(i, n) for i, n in mute if i != 0}  # somebody always answers
    transport = InProcess([Summing(seed) for seed in range(m)], silent=lambda i, n: (i, n) in mute)

    outcome = conduct(averaging(rounds), transport, clients=m)

    np.testing.assert_allclose(outcome.result, by_hand(range(m), rounds, lambda i, n: (i, n) in mute), rtol=1e-12)
    for n, i in product(range(1, rounds + 1), range(m)):
        assert outcome.answered[n - 1, i] == ((i, n) not in mute)
    assert outcome.answered.shape == (rounds, m)
    assert set(outcome.problems) == {Problem(i, n, "no answer") for i, n in mute if i < m and n <= rounds}
    assert outcome.communication.up == SIZE * outcome.answered.sum()
    assert outcome.communication.down == SIZE * sum(
        1 + next(k for k in range(n) if k == n - 1 or (i, n - 1 - k) not in mute)  # the request, and those missed
        for n, i in product(range(1, rounds + 1), range(m))
    )


def test_a_client_answers_only_the_last_of_what_it_is_sent() -> None:
    requests = [Request(n, (n, 7), np.full(SIZE, float(n)), SIZE) for n in (1, 2, 3)]

    state, answer = caught_up(Summing(5), Summing(5).start(), requests)

    assert state["asked"] == 3
    np.testing.assert_array_equal(answer, 6 + 5 + substream(5, 3, 7).laplace(size=SIZE))
    with pytest.raises(InvalidArgumentError):
        caught_up(Summing(5), {}, [])


def test_a_second_run_over_the_same_transport_starts_anew() -> None:
    transport = InProcess([Summing(1), Summing(2)])

    first, second = (conduct(averaging(3), transport, clients=2).result for _ in range(2))

    np.testing.assert_array_equal(first, second)


MALFORMED: dict[str, list[object]] = {
    "wrong type": [
        None,
        "1.0 2.0 3.0",
        [1.0, 2.0, 3.0],
        (0.0,) * SIZE,
        7.0,
        10**400,
        np.array([10**400, 1, 1]),  # an array of objects
        np.array([1.0, None, 2.0]),
        np.array([1 + 0j, 2, 3]),
        np.array([True, False, True]),
        np.array(["1", "2", "3"]),
        np.array([1, 2, 3], dtype="datetime64[s]"),
        np.zeros(SIZE, dtype=[("a", float)]),
    ],
    "wrong shape": [np.zeros(0), np.zeros(SIZE + 1), np.zeros((SIZE, 1)), np.zeros((1, SIZE)), np.array(1.0)],
    "not finite": [
        np.array([0.5, np.nan, 0.5]),
        np.array([0.5, np.inf, 0.5]),
        np.array([0.5, -np.inf, 0.5]),
        np.full(SIZE, np.finfo(np.longdouble).max),  # beyond the floats where long doubles are longer
        np.ma.masked_array([0.5, np.nan, 0.5], mask=[False, True, False]),
    ],
    "out of range": [
        np.array([0.5, 0.5, 1.0000001]),
        np.array([-1e-300, 0.5, 0.5]),
        np.array([0, 2, 0]),
        np.array([2**64 - 1, 0, 0], dtype=np.uint64),
        np.ma.masked_array([0.5, 7.0, 0.5], mask=[False, True, False]),
    ],
}


def one_request(size: int = SIZE) -> Generator[Request, Replies, Replies]:
    return (yield Request(1, (), np.zeros(2), size, 0.0, 1.0))


@pytest.mark.parametrize(
    ("reason", "answer"), [(reason, answer) for reason, answers in MALFORMED.items() for answer in answers]
)
def test_a_malformed_answer_is_named_and_left_out(reason: str, answer: object) -> None:
    outcome = conduct(one_request(), lambda requests: {0: np.full(SIZE, 0.5), 1: answer}, clients=2)

    assert outcome.problems == (Problem(1, 1, reason),)
    assert outcome.answered.tolist() == [[True, False]]
    assert outcome.result.clients.tolist() == [0]
    np.testing.assert_array_equal(outcome.result.values, [[0.5] * SIZE])
    assert outcome.communication.up == 2 * SIZE  # it was sent all the same


@pytest.mark.parametrize(
    "answer", [np.array([0, 1, 1]), np.array([0.0, 1.0, 0.5], dtype=np.float32), np.array([-0.0, 1, 1])]
)
def test_a_proper_answer_of_any_real_type_becomes_floats(answer: np.ndarray) -> None:
    values = conduct(one_request(), lambda requests: {0: answer}, clients=1).result.values

    assert values.dtype == np.float64 and type(values) is np.ndarray
    np.testing.assert_array_equal(values[0], answer)


@pytest.mark.statistical
@given(st.lists(st.one_of(st.none(), st.floats(), st.integers(), st.booleans(), st.text(), st.binary()), max_size=5))
def test_no_junk_ever_gets_through_or_breaks_the_run(junk: list[object]) -> None:
    try:
        array = np.array(junk)
    except (ValueError, OverflowError):
        array = np.array(None)
    outcome = conduct(one_request(), lambda requests: {0: np.full(SIZE, 0.5), 1: junk, 2: array}, clients=3)

    assert not outcome.answered[0, 1]
    if outcome.answered[0, 2]:
        assert array.shape == (SIZE,) and array.dtype.kind in "fiu" and (array >= 0).all() and (array <= 1).all()


def test_a_malformed_answer_counts_as_seen_and_a_silence_does_not() -> None:
    sent: list[dict[int, list[int]]] = []

    def transport(requests: Mapping[int, Sequence[Request]]) -> dict[int, object]:
        sent.append({i: [request.number for request in waiting] for i, waiting in requests.items()})
        return {0: np.zeros(SIZE), 1: "junk"}

    conduct(averaging(3), transport, clients=3)

    assert [each[1] for each in sent] == [[1], [2], [3]]
    assert [each[2] for each in sent] == [[1], [1, 2], [1, 2, 3]]


def test_answers_of_strangers_are_ignored() -> None:
    outcome = conduct(one_request(), lambda requests: {0: np.zeros(SIZE), 9: np.ones(SIZE), -1: "x"}, clients=1)

    assert outcome.result.clients.tolist() == [0] and outcome.problems == ()


@pytest.mark.parametrize("least", [1, 2, 3])
def test_too_few_answers_end_the_run(least: int) -> None:
    transport = InProcess([Summing(0), Summing(1), Summing(2)], silent=lambda i, n: n == 2 and i < 1)
    ended: list[bool] = []

    def server() -> Generator[Request, Replies, list[np.ndarray]]:
        try:
            return (yield from averaging(4))
        finally:
            ended.append(True)

    if least == 3:
        with pytest.raises(FederationError, match="request 2: 2 of 3 clients have answered properly, 3 are needed"):
            conduct(server(), transport, clients=3, least=least)
    else:
        assert len(conduct(server(), transport, clients=3, least=least).result) == 4
    assert ended == [True]  # the server has been closed


def test_nothing_of_an_answer_is_shown() -> None:
    secret = 0.123456  # short enough for numpy to show it all
    good, bad = np.full(SIZE, secret), np.full(SIZE + 1, secret)

    outcome = conduct(one_request(), lambda requests: {0: good, 1: bad}, clients=2)
    with pytest.raises(FederationError) as error:
        conduct(one_request(), lambda requests: {0: good, 1: bad}, clients=2, least=2)
    transport = InProcess([Summing(123456)])
    conduct(averaging(2), transport, clients=1)

    shown = [repr(outcome), repr(outcome.result), repr(outcome.problems), str(error.value), repr(error.value)]
    assert not [text for text in [*shown, repr(transport)] if "123456" in text]


def test_announcements_are_answered_by_nothing() -> None:
    outcome = conduct(one_request(0), lambda requests: {0: np.zeros(0), 1: np.zeros(1)}, clients=2)

    assert outcome.result.values.shape == (1, 0)
    assert outcome.problems == (Problem(1, 1, "wrong shape"),)
    assert (outcome.communication.up, outcome.communication.down) == (0, 4)


def test_a_server_that_asks_nothing_has_a_result() -> None:
    outcome = conduct(averaging(0), InProcess([Summing(0)]), clients=1)

    assert outcome.result == []
    assert outcome.answered.shape == (0, 1)


def test_progress_is_told_of_every_request() -> None:
    numbers: list[int] = []
    conduct(averaging(3), InProcess([Summing(0)]), clients=1, progress=numbers.append)

    assert numbers == [1, 2, 3]


def misnumbered() -> Generator[Request, Replies, None]:
    yield Request(1, (), np.zeros(SIZE), SIZE)
    yield Request(3, (), np.zeros(SIZE), SIZE)


def no_request() -> Generator[Request, Replies, None]:
    yield "more, please"  # type: ignore[misc]


@pytest.mark.parametrize("server", [misnumbered, no_request])
def test_a_server_must_number_its_requests(server: Callable[[], Generator[Request, Replies, None]]) -> None:
    with pytest.raises(InvalidArgumentError, match="yield requests numbered"):
        conduct(server(), InProcess([Summing(0)]), clients=1)


def test_a_stop_iteration_of_a_client_does_not_pass_for_the_end_of_the_run() -> None:
    def transport(requests: Mapping[int, Sequence[Request]]) -> dict[int, object]:
        return {0: next(iter(()))}

    with pytest.raises(StopIteration):
        conduct(averaging(2), transport, clients=1)


@pytest.mark.parametrize(
    ("clients", "least"), [(0, 1), (-1, 1), (True, 1), (1.5, 1), (float("nan"), 1), (2, 0), (2, 3), (2, True), (2, "1")]
)
def test_bad_numbers_of_clients_are_refused(clients: int, least: int) -> None:
    with pytest.raises(InvalidArgumentError):
        conduct(averaging(1), InProcess([Summing(0)]), clients=clients, least=least)


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0},
        {"number": True},
        {"number": 1.5},
        {"step": (0.5,)},
        {"values": np.zeros((2, 2))},
        {"values": [np.nan]},
        {"values": [np.inf]},
        {"values": ["1"]},
        {"size": -1},
        {"size": 0.5},
        {"low": np.nan},
        {"high": np.nan},
        {"low": 1.0, "high": 0.0},
        {"low": "0"},
    ],
)
def test_bad_requests_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        Request(**{"number": 1, "step": (1,), "values": np.zeros(2), "size": 1, **change})  # type: ignore[arg-type]


def test_a_request_stays_as_it_was_when_the_server_goes_on_with_its_array() -> None:
    values = np.zeros(2)
    request = Request(1, (), values, 1)
    values[0] = 9.0

    assert request.values[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        request.values[0] = 1.0


PATHS = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=4).map(tuple)
SEEDS = st.one_of(st.integers(0, 3), st.integers(0, 2**128 - 1))


@pytest.mark.statistical
@given(st.tuples(SEEDS, PATHS), st.tuples(SEEDS, PATHS))
def test_substreams_are_equal_just_when_seed_and_path_are(
    one: tuple[int, tuple[int, ...]], other: tuple[int, tuple[int, ...]]
) -> None:
    """False alarms: two of the 2^128 states of a generator that are equal by chance, at most 1e-30 in 200 examples."""
    draws = [substream(seed, *path).integers(2**62, size=4).tolist() for seed, path in (one, other)]

    assert (draws[0] == draws[1]) == (one == other)


@pytest.mark.parametrize(
    ("seed", "path"),
    [
        (0, (2**32,)),  # numpy would take it for (0, 1)
        (5 + (7 << 128), ()),  # numpy would take it for seed 5, path (7,)
        (-1, ()),
        (0.5, ()),
        (True, ()),
        (float("nan"), ()),
        (0, (-1,)),
        (0, (0.5,)),
        (0, (True,)),
        (10**400, ()),
    ],
)
def test_seeds_and_paths_that_might_share_draws_are_refused(seed: int, path: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgumentError):
        substream(seed, *path)


def test_numpy_does_take_long_numbers_for_two() -> None:
    """Why substream() refuses them."""

    def state(seed: int, path: tuple[int, ...]) -> list[int]:
        return list(np.random.SeedSequence(seed, spawn_key=path).generate_state(4))

    assert state(0, (2**32,)) == state(0, (0, 1))
    assert state(5 + (7 << 128), ()) == state(5, (7,))


def test_a_client_is_whatever_has_the_two_methods() -> None:
    client: Client = Summing(3)

    assert client.start()["asked"] == 0


@pytest.mark.parametrize("model", ThreatModel)
def test_threat_models_go_by_their_names(model: ThreatModel) -> None:
    assert threat_model(model) is threat_model(model.value) is model


@pytest.mark.parametrize("value", ["", "SERVER ", None, 1, [], float("nan")])
def test_other_threat_models_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="use one of output, client, server, central"):
        threat_model(value)


def test_the_guarantee_of_those_who_took_part() -> None:
    """The plan's numbers, with missing and invalid answers among its assumptions."""
    plan = AccountantGraph().source("losses").release("sums", Laplace(2.0), reads=["losses"]).guarantee()
    answered = np.array([[True, True, False, True], [True, False, False, True]])
    problems = (Problem(1, 2, "not finite"), Problem(2, 1, "no answer"), Problem(2, 2, "no answer"))
    found = Outcome(None, Communication(0, 0), answered, problems).guaranteed(plan)

    assert found.epsilon(1e-6) == plan.epsilon(1e-6)
    assert found.assumptions[:-1] == plan.assumptions
    assert "2 of 4 clients" in found.assumptions[-1] and " 1 sent" in found.assumptions[-1]
