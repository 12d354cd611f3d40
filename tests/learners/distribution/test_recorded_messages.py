"""Tests of servers that record messages: one law with ``simulate``, any order, refusals, states, and the ledger."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import chi_square_of_outcomes

from hockeystick.accounting import (
    Adjacency,
    BudgetExceededError,
    DurableLedger,
    InvalidArgumentError,
    PureFilter,
    UnsupportedAdjacencyError,
)
from hockeystick.accounting.graph.parts.nodes import Release
from hockeystick.learners.distribution.anytime import AnytimeDistribution, AnytimeServer
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    Message,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import TableLevels
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.hypothesis_selection import HypothesisSelection, SelectionServer
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.scheffe_selection import ScheffeSelection
from hockeystick.learners.distribution.server import DistributionServer
from hockeystick.mechanisms import SimulationNoise

TABLE = LabelTable(np.random.default_rng(1).dirichlet(np.full(5, 0.6), (2, 3)))
KINDS: list[tuple[Any, dict[str, Any]]] = [
    (OneBit, {"epsilon": 1.0}),
    (SampledLaplace, {"epsilon": 1.0, "rule": "printed"}),
    (SampledDiscreteLaplace, {"epsilon": 1.0}),
    (VectorGaussian, {"sigma": 3.0}),
    (RandomizedLabels, {"epsilon": 1.0}),
]
RUN, OTHER = b"run 0001", b"run 0002"
TWO = LabelTable([[0.9, 0.1], [0.2, 0.8]])
FIRST = LabelTable(TABLE.tables[0])


def learner(rounds: int, table: LabelTable = TWO, **parameters: Any) -> OnlineDistribution:
    return OnlineDistribution.build(table, rounds=rounds, **({"epsilon": 2.0} | parameters))


def selection(rounds: int = 3, batches: int = 1, **parameters: Any) -> HypothesisSelection:
    return HypothesisSelection(learner=learner(rounds, **parameters), batches=batches)


def anytime(table: LabelTable = TWO, **parameters: Any) -> AnytimeDistribution:
    return AnytimeDistribution(lambda n: learner(n, table, **parameters))


RULES: list[Callable[[], Any]] = [
    lambda: selection(4, 3),
    lambda: selection(4, 3, channel=SampledLaplace),
    lambda: ScheffeSelection(candidates=FIRST, epsilon=1.0, persons=12),
    anytime,
]


def place(rule: Any, number: int) -> dict[str, Any]:
    return {"round" if isinstance(rule, AnytimeDistribution) else "person": number, "run": RUN}


def messages(rule: Any, size: int = 12, seed: int = 1) -> list[bytes]:
    noise, rng = SimulationNoise(seed), np.random.default_rng(seed)
    return [rule.privatise(int(rng.integers(2)), **place(rule, k), noise=noise) for k in range(size)]


def received(rule: Any, data: list[bytes], order: Any = None) -> Any:
    server = rule.server(run=RUN)
    for k in range(len(data)) if order is None else order:
        server.receive(data[k])
    return server


def result(server: Any) -> Any:
    if isinstance(server, SelectionServer):
        found = server.selected()
        return found.estimates.tolist(), found.candidate.tolist(), found.by_mean_loss.tolist()
    return (server.selected(), server.mean_prediction().tolist() if isinstance(server, AnytimeServer) else None)


# --- one law with simulate -------------------------------------------------------------------------------------------


def sent(channel: Channel, truth: np.ndarray, number: int) -> Iterator[tuple[bytes, float]]:
    """Every message of a device about a label of this law, with its exact probability."""
    assert isinstance(channel, OneBit) and isinstance(channel.levels, TableLevels)
    form, place = MessageFormat.of(channel, run=RUN), channel.levels.column.tolist()
    for j, column in enumerate(channel.probabilities()):
        one = float(truth @ [float(column[place[y]]) for y in range(len(truth))])
        for bit in (0, 1):
            yield form.write(number, Message(j, bit)), (one if bit else 1.0 - one) / channel.count


def law(channels: list[Channel], server: Callable[[], Any], read: Callable[[Any], Any]) -> dict[Any, float]:
    """Of what a server decodes, by all sequences of messages; it receives them backwards."""
    found: dict[Any, float] = {}
    truth = TWO.table()[0]
    every = [list(sent(c, truth, t)) for t, c in enumerate(channels)]
    for sequence in itertools.product(*every):
        own = server()
        for data, _ in reversed(sequence):
            own.receive(data)
        place = read(own)
        found[place] = found.get(place, 0.0) + float(np.prod([p for _, p in sequence]))
    assert sum(found.values()) == pytest.approx(1.0)
    return found


def key(law: Any) -> tuple[float, ...]:
    return tuple(np.round(np.ravel(law), 9).tolist())


@pytest.mark.statistical
def test_decoded_selections_and_simulated_ones_have_the_enumerated_law() -> None:
    """Three persons, two candidates: 64 sequences of messages. False alarm 1e-6 for each of two chi-square tests."""
    rule, rng = selection(), np.random.default_rng(2)
    exact = law([rule.learner.channels[0]] * 3, lambda: rule.server(run=RUN), lambda s: key(s.selected().estimate))
    simulated = rule.simulate(0, rng, 20_000, block=1).estimate
    assert chi_square_of_outcomes(map(key, simulated), exact) > 1e-6

    def served(seed: int, labels: Any) -> tuple[float, ...]:
        noise = SimulationNoise(seed)
        data = [rule.privatise(int(y), person=k, run=RUN, noise=noise) for k, y in enumerate(labels)]
        return key(received(rule, data, rng.permutation(3)).selected().estimate)

    found = [served(seed, rng.choice(2, 3, p=TWO.table()[0])) for seed in range(1000)]
    assert chi_square_of_outcomes(found, exact) > 1e-6
    lost = [served(seed, [1, 1, 1]) for seed in range(300)]  # a planted violation: labels of another law
    assert chi_square_of_outcomes(lost, exact) < 1e-6


@pytest.mark.statistical
def test_decoded_epochs_and_simulated_ones_have_the_enumerated_law() -> None:
    """Two rounds of the first epoch and one of the second. False alarm 1e-6."""
    rule = anytime()
    channels = [rule.make(2).channels[0]] * 2 + [rule.make(4).channels[0]]
    exact = law(channels, lambda: rule.server(run=RUN), lambda s: key(s.mean_prediction()))
    runs = rule.simulate(0, np.random.default_rng(3), 20_000, rounds=3)
    masses = [c.levels.masses() for c in channels]
    mean = (2 * runs.epochs[0].mean_weights @ masses[0] + runs.epochs[1].mean_weights @ masses[2]) / 3
    assert chi_square_of_outcomes(map(key, mean), exact) > 1e-6
    assert chi_square_of_outcomes(map(key, runs.epochs[0].mean_weights @ masses[0]), exact) < 1e-6  # a mutant


@pytest.mark.parametrize(("channel", "parameters"), KINDS)
def test_the_mean_is_that_of_the_published_predictions(channel: Any, parameters: dict[str, Any]) -> None:
    own = OnlineDistribution.build(FIRST, rounds=20, channel=channel, **parameters)
    rule = HypothesisSelection(learner=own, batches=2)
    data, means = messages(rule, 40), []
    for batch in range(2):
        live, mean = DistributionServer(rule.learner), np.zeros(5)
        form = MessageFormat.of(rule.learner.channels[0], run=RUN)
        for t in range(20):
            mean = mean + live.predict() / 20
            live.update(form.read(data[20 * batch + t])[1], round=t)
        means.append(mean)
    found = received(rule, data, np.random.default_rng(1).permutation(40)).selected()
    np.testing.assert_allclose(found.estimates[0], means, atol=1e-12)
    np.testing.assert_array_equal(found.estimate[0], found.estimates[0, found.chosen[0]])


def test_anytime_predictions_with_contexts_are_those_of_the_epochs() -> None:
    rule = AnytimeDistribution(lambda n: OnlineDistribution.build(TABLE, rounds=n, epsilon=2.0))
    server, noise, mean = rule.server(run=RUN, rounds=14), SimulationNoise(4), np.zeros(5)
    live = [DistributionServer(rule.make(2 ** (e + 1))) for e in range(3)]
    data = [(rule.privatise(t % 5, round=t, run=RUN, context=t % 2, noise=noise), t % 2) for t in range(14)]
    for t, (each, context) in enumerate(data):
        epoch = (t + 2).bit_length() - 2
        np.testing.assert_allclose(server.predict(1), live[epoch].predict(1), atol=1e-12)
        mean += live[epoch].predict(1) / 14
        server.receive(each, context=context)
        form = MessageFormat.of(live[epoch].learner.channels[0], run=RUN)
        live[epoch].update(form.read(each)[1], round=t + 2 - 2 ** (epoch + 1), context=context)
    np.testing.assert_allclose(server.mean_prediction(1), mean, atol=1e-12)
    again = rule.server(run=RUN, rounds=14).resumed(json.loads(json.dumps(server.checkpoint())))
    np.testing.assert_array_equal(again.mean_prediction(0), server.mean_prediction(0))
    with pytest.raises(InvalidArgumentError):
        server.predict()  # no round is left
    with pytest.raises(InvalidArgumentError):
        rule.server(run=RUN).receive(data[0][0], context=2)


# --- any order, refusals, states -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", RULES)
def test_results_do_not_depend_on_the_order_or_the_shard(make: Callable[[], Any]) -> None:
    rule = make()
    data = messages(rule)
    whole, mixed = received(rule, data), received(rule, data, np.random.default_rng(2).permutation(12))
    assert result(whole) == result(mixed) and whole.checkpoint() == mixed.checkpoint()
    shard, rest = received(rule, data, range(0, 12, 2)), received(rule, data, range(1, 12, 2))
    with pytest.raises(InvalidArgumentError):
        result(shard)  # messages are missing
    resumed = rule.server(run=RUN).resumed(json.loads(json.dumps(shard.checkpoint())))
    resumed.merge(rest)
    assert result(resumed) == result(whole) and resumed.heard == 12
    for wrong in (rest, make().server(run=OTHER), 3):
        with pytest.raises(InvalidArgumentError):
            resumed.merge(wrong)
    assert resumed.heard == 12


@pytest.mark.parametrize("make", RULES)
def test_a_refusal_changes_nothing(make: Callable[[], Any]) -> None:
    rule = make()
    data = messages(rule)
    server = received(rule, data, range(8))
    before = server.checkpoint()
    beyond = data[9][:13] + (2**40).to_bytes(8, "little") + data[9][21:]
    forged = data[9][:21] + (7).to_bytes(4, "little") + data[9][25:]
    another = rule.privatise(0, **(place(rule, 9) | {"run": OTHER}), noise=SimulationNoise(1))
    for wrong in (data[3], data[9][:-1], data[9] + b"\0", beyond, forged, another, b"", "text"):
        with pytest.raises(RefusedMessageError):
            server.receive(wrong)
    with pytest.raises(InvalidArgumentError):
        server.receive(data[9], context=1)
    assert server.checkpoint() == before
    server.close()
    with pytest.raises(RefusedMessageError, match="late"):
        server.receive(data[9])
    again = rule.server(run=RUN).resumed(server.checkpoint())
    assert again.closed and again.heard == 8


def test_a_message_about_another_pair_is_refused() -> None:
    rule = ScheffeSelection(candidates=FIRST, epsilon=1.0, persons=12)
    form, server = MessageFormat(payload="bit", experts=3, limit=1.0, run=RUN), rule.server(run=RUN)
    with pytest.raises(RefusedMessageError, match="asked about"):
        server.receive(form.write(4, Message(2, 1)))
    assert server.receive(form.write(4, Message(1, 1))) == 4 and server.heard == 1


def test_checkpoints_of_other_runs_are_refused() -> None:
    rule = selection(4, 3)
    found = received(rule, messages(rule)).checkpoint()
    for other in (
        rule.server(run=OTHER),
        selection(4, 2).server(run=RUN),
        selection(4, 3, epsilon=1.0).server(run=RUN),
    ):
        with pytest.raises(InvalidArgumentError):
            other.resumed(found)
    for change in ({"messages": found["messages"][:-4]}, {"closed": 1}, {"format": "x"}):
        with pytest.raises(InvalidArgumentError):
            rule.server(run=RUN).resumed(found | change)
    with pytest.raises(InvalidArgumentError):
        received(rule, messages(rule)).resumed(found)


def test_incomplete_runs_are_decoded_on_demand() -> None:
    rule = selection(4, 3)
    server = received(rule, messages(rule), range(6))
    found = server.selected(incomplete=True)
    np.testing.assert_allclose(found.estimates[0, 2], rule.learner.channels[0].levels.masses().mean(axis=0))
    half = selection(2, 1, span=rule.learner.channels[0].span)  # type: ignore[attr-defined]
    assert half.persons == 2 and found.estimates[0, 1].sum() == pytest.approx(1.0)
    assert anytime().server(run=RUN).next_round == 0
    with pytest.raises(InvalidArgumentError):
        anytime().server(run=RUN).mean_prediction(incomplete=True)


# --- the device ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", RULES)
def test_every_label_gets_a_message_of_the_same_length(make: Callable[[], Any]) -> None:
    rule, noise = make(), SimulationNoise(1)
    sizes = {
        len(rule.privatise(label, **place(rule, 3), noise=noise))
        for label in (0, 1, 99, -1, "no label", None, float("nan"))
    }
    assert len(sizes) == 1 and sizes == {len(rule.privatise(0, **place(rule, 3)))}  # secure noise
    for wrong in (-1, True, 1.5):
        with pytest.raises(InvalidArgumentError):
            rule.privatise(0, **place(rule, wrong))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        rule.privatise(0, **(place(rule, 0) | {"run": b"short"}))


@pytest.mark.parametrize("make", RULES)
def test_a_device_charges_what_the_plan_says_before_it_draws(make: Callable[[], Any], tmp_path: Path) -> None:
    rule = make()

    class Broken(SimulationNoise):
        def uniform(self, *_: Any) -> Any:
            raise RuntimeError

        def coins(self, *_: Any) -> Any:
            raise RuntimeError

    budget = PureFilter(3.0, adjacency=Adjacency.LOCAL)
    ledger = DurableLedger.create(tmp_path / "person", budget)
    with pytest.raises(RuntimeError):
        rule.privatise(0, **place(rule, 3), noise=Broken(1), ledger=ledger, name="message")
    (charge,) = ledger.charges()
    plan = rule.graph(rounds=14) if isinstance(rule, AnytimeDistribution) else rule.graph()
    assert {charge.event} == {node.event for node in plan.nodes if isinstance(node, Release)}
    poor = DurableLedger.create(tmp_path / "poor", PureFilter(0.5, adjacency=Adjacency.LOCAL))
    with pytest.raises(BudgetExceededError):
        rule.privatise(0, **place(rule, 3), noise=Broken(1), ledger=poor, name="message")
    with pytest.raises(InvalidArgumentError):
        rule.privatise(0, **place(rule, -1), ledger=poor)
    assert not poor.charges()
    central = DurableLedger.create(tmp_path / "central", PureFilter(3.0))
    with pytest.raises(UnsupportedAdjacencyError):
        rule.privatise(0, **place(rule, 3), ledger=central)
