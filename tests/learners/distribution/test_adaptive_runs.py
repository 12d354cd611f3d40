"""Tests of adaptive runs: contexts of an adversary, candidates chosen by weight, and epochs without a horizon."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import chi_square_of_outcomes, least_mean

from hockeystick.accounting import Adjacency, DurableLedger, InvalidArgumentError, PureFilter, UnsupportedEventError
from hockeystick.learners.distribution.adaptive_runs import (
    InteractiveDistribution,
    InteractiveServer,
    Request,
    most_disagreement,
    simulate_adaptively,
)
from hockeystick.learners.distribution.anytime import AnytimeDistribution
from hockeystick.learners.distribution.channels.all_channels import Message, OneBit, SampledLaplace, VectorLaplace
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import TableLevels
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.mechanisms import SimulationNoise

BASE = np.random.default_rng(21).dirichlet(np.full(5, 0.4), 4)
PERMUTED = LabelTable(np.stack([BASE, BASE[[0, 0, 2, 2]], BASE[[0, 1, 0, 3]]]))
"""A context permutes which candidates agree with the truth, candidate 0."""
EASY = LabelTable(0.125 + 0.5 * np.eye(4))


def learner(rounds: int, table: LabelTable = PERMUTED, channel: Any = OneBit, **parameters: Any) -> OnlineDistribution:
    return OnlineDistribution.build(table, rounds=rounds, channel=channel, **(parameters or {"epsilon": 1.0}))


# --- contexts of an adversary ----------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("channel", "parameters"), [(OneBit, {}), (SampledLaplace, {}), (VectorLaplace, {"scale": 20.0})]
)
def test_risk_stays_below_its_bound_against_an_adversary(channel: Any, parameters: dict[str, Any]) -> None:
    """Row 21. False alarm 1e-6 by Student's t."""
    own = learner(600, channel=channel, **parameters)
    runs = simulate_adaptively(own, 0, np.random.default_rng(1), 40, adversary=most_disagreement(own))
    assert least_mean(runs.risk) < own.risk_bound()
    easier = simulate_adaptively(
        own, 0, np.random.default_rng(1), 40, adversary=lambda t, w: np.zeros(len(w)), rounds=600
    )
    assert easier.risk.mean() > 0 and runs.mean_weights.sum(axis=1) == pytest.approx(1.0)


def test_the_adversary_chooses_contexts_on_which_candidates_disagree() -> None:
    own = learner(100)
    choose = most_disagreement(own)
    # Candidates 0 and 1 agree in context 1, candidates 0 and 2 in context 2.
    favours = np.array([[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0]])
    tables = np.stack([channel.levels.masses() for channel in own.channels])

    def spread(weights: np.ndarray, table: np.ndarray) -> float:
        mixture = weights @ table
        return float(sum(w * np.sum(row * np.log(row / mixture)) for w, row in zip(weights, table, strict=True)))

    expected = [int(np.argmax([spread(w, table) for table in tables])) for w in favours]
    np.testing.assert_array_equal(choose(0, favours), expected)
    assert expected[0] != 1 and expected[1] != 2


def test_the_adversary_sees_weights_before_the_round() -> None:
    seen: list[np.ndarray] = []

    def watch(round: int, weights: np.ndarray) -> np.ndarray:
        assert round == len(seen)
        seen.append(weights.copy())
        return np.zeros(len(weights))

    simulate_adaptively(learner(50), 0, np.random.default_rng(0), 3, adversary=watch, rounds=5)
    np.testing.assert_allclose(seen[0], 0.25)
    # One message moves one candidate's weight, and only after its round.
    moved = np.isclose(seen[1] / seen[1].max(axis=1, keepdims=True), 1.0).sum(axis=1)
    assert set(moved.tolist()) <= {1, 3}


def always(answer: Any) -> Any:
    return lambda round, weights: answer


def test_bad_adversaries_are_refused() -> None:
    own = learner(10)
    answers: list[Any] = [[3, 0], [0], [math.nan, 0], [0.5, 0], [-1, 0], "ab"]
    for bad in answers:
        with pytest.raises(InvalidArgumentError):
            simulate_adaptively(own, 0, np.random.default_rng(0), 2, adversary=always(bad))
    with pytest.raises(InvalidArgumentError):
        InteractiveDistribution(learner(10_000)).simulate(0, np.random.default_rng(0), 2, rounds=3)


# --- asking by weight ------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_interactive_runs_are_flagged_and_below_their_bound() -> None:
    """Row 20, X4. False alarm 1e-6 by Student's t."""
    own = InteractiveDistribution(learner(2000, EASY))
    assert own.interactive and own.graph() == own.learner.graph()
    runs = own.simulate(0, np.random.default_rng(3), 30)
    assert least_mean(runs.risk) < own.risk_bound() < 2000 * math.log(4)
    # The worst case is sqrt 2 times that of asking uniformly; what it asks about is what it believes.
    assert 1.2 < own.risk_bound() / own.learner.risk_bound() < 1.8
    assert (runs.counts[:, 0] > 2000 / 4).all() and (runs.counts.sum(axis=1) == 2000).all()


def test_divided_losses_are_unbiased() -> None:
    """False alarm below 1e-6: the mean total of 400 runs is within 6 standard errors of the candidates' losses."""
    own = InteractiveDistribution(learner(400, EASY))
    runs = own.simulate(0, np.random.default_rng(5), 400)
    levels = own.learner.channels[0].levels
    expected = 400 * EASY.table()[0] @ (levels.middle - levels.of(np.arange(4)))
    error = (runs.totals.mean(axis=0) - expected) / (runs.totals.std(axis=0) / 20)
    assert np.abs(error).max() < 6
    # A mutant that forgets to divide is off by a factor of about four.
    assert np.abs((runs.totals / 4).mean(axis=0) - expected).max() > 6 * (runs.totals / 4).std(axis=0).max() / 20


def test_invalid_interactive_learners_are_refused() -> None:
    for bad in (3, learner(10_000, EASY, SampledLaplace), learner(4, EASY)):
        with pytest.raises(InvalidArgumentError):
            InteractiveDistribution(bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        InteractiveDistribution(OnlineDistribution.build(EASY, rounds=10**4, epsilon=1.0, rule="posterior"))


# --- no horizon ------------------------------------------------------------------------------------------------------


def anytime(**parameters: Any) -> AnytimeDistribution:
    return AnytimeDistribution(lambda rounds: learner(rounds, EASY, **parameters))


def test_epochs_double_and_cover_all_rounds_once() -> None:
    epochs = list(anytime().epochs(1000))
    assert [epoch.learner.horizon for epoch in epochs] == [2**e for e in range(1, 10)]
    assert [epoch.first for epoch in epochs] == [2**e - 2 for e in range(1, 10)]
    assert sum(epoch.rounds for epoch in epochs) == 1000 and epochs[-1].rounds == 1000 - 510
    graph = anytime().graph(rounds=1000)
    assert 1.0 - 1e-8 < graph.guarantee().epsilon(1e-9).upper <= 1.0


def test_anytime_risk_is_below_its_bound_at_every_time() -> None:
    """Row 20, X6. False alarm 1e-6 by Student's t."""
    own = anytime()
    runs = own.simulate(0, np.random.default_rng(4), 20, rounds=5000)
    assert runs.curve.shape == (20, len(runs.marks)) and runs.marks[-1] == 5000
    assert (np.diff(runs.curve, axis=1) >= 0).all() and len(runs.epochs) == len(runs.marks)
    for at, mark in enumerate(runs.marks.tolist()):
        each = runs.curve[:, at]
        assert least_mean(each) < own.risk_bound(mark)
    np.testing.assert_array_equal(runs.risk, runs.curve[:, -1])
    # A known horizon is better, by no more than the doubling costs.
    known = learner(5000, EASY).risk_bound()
    assert known < own.risk_bound(5000) < 3.5 * known * math.log(8192) / math.log(5000)


def test_epochs_share_out_contexts() -> None:
    own = AnytimeDistribution(learner)
    contexts = np.arange(100) % 3
    assert own.simulate(0, np.random.default_rng(0), 2, rounds=100, contexts=contexts).risk.shape == (2,)


def test_factories_of_other_objects_are_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        AnytimeDistribution(3)
    for make in (lambda rounds: None, lambda rounds: learner(10, EASY)):
        with pytest.raises(InvalidArgumentError):
            list(AnytimeDistribution(make).epochs(5))
    wrong: list[Any] = [0, True, 1.5]
    for rounds in wrong:
        with pytest.raises(InvalidArgumentError):
            list(anytime().epochs(rounds))


def test_no_shuffler_hides_messages_on_which_the_next_question_depends() -> None:
    learner = OnlineDistribution.build(LabelTable([[0.9, 0.1], [0.1, 0.9]]), rounds=100, epsilon=1.0)
    with pytest.raises(UnsupportedEventError, match="depends on earlier messages"):
        InteractiveDistribution(learner).shuffled_graph()


def test_runs_of_more_steps_than_some_seconds_make_are_refused_before_any_learner() -> None:
    with pytest.raises(InvalidArgumentError, match="rounds=2147483648: asks for"):
        AnytimeDistribution(None.__class__).simulate(0, np.random.default_rng(1), 1, rounds=2**31)
    with pytest.raises(InvalidArgumentError, match="rounds"):
        learner(2**40, EASY).simulate(0, np.random.default_rng(1), 1)


def test_a_block_longer_than_all_rounds_is_all_of_them() -> None:
    own = anytime()
    one, other = (own.simulate(0, np.random.default_rng(1), 2, rounds=20, block=b) for b in (20, 2**64))
    assert (one.risk == other.risk).all()


# --- an interactive server -------------------------------------------------------------------------------------------

RUN, TWO = b"run 0001", LabelTable([[0.9, 0.1], [0.2, 0.8]])


def interactive(rounds: int = 8, table: LabelTable = TWO) -> InteractiveDistribution:
    return InteractiveDistribution(OnlineDistribution.build(table, rounds=rounds, epsilon=2.0))


def mean_law(own: InteractiveDistribution, rounds: int, group: int) -> dict[tuple[float, ...], float]:
    """Of the mean weights, by all candidates and bits: the exact probabilities of devices, and EXP3 written again."""
    channel = own.learner.channels[0]
    assert isinstance(channel, OneBit) and isinstance(channel.levels, TableLevels)
    place = channel.levels.column.tolist()
    ones = [float(TWO.table()[0] @ [float(column[place[y]]) for y in (0, 1)]) for column in channel.probabilities()]
    share, rate, reach = own.exploration, own.learning_rate, channel.reach
    found: dict[tuple[float, ...], float] = {}
    for sequence in itertools.product(itertools.product((0, 1), (0, 1)), repeat=rounds):
        mass, totals, mean, weights = 1.0, np.zeros(2), np.zeros(2), np.zeros(2)
        for t, (index, bit) in enumerate(sequence):
            if t % group == 0:
                weights = np.exp(-rate * totals) / np.exp(-rate * totals).sum()
            mean += weights / rounds
            chance = (1 - share) * weights[index] + share / 2
            mass *= chance * (ones[index] if bit else 1 - ones[index])
            totals[index] += (reach if bit else -reach) / chance
        key = tuple(np.round(mean, 9).tolist())
        found[key] = found.get(key, 0.0) + mass
    return found


@pytest.mark.statistical
@pytest.mark.parametrize(("rounds", "group"), [pytest.param(3, 1, marks=pytest.mark.deep), (4, 2)])
def test_asked_devices_and_simulated_ones_have_the_enumerated_law(rounds: int, group: int) -> None:
    """False alarm 1e-6 for each chi-square test."""
    own, rng = interactive(), np.random.default_rng(5)
    law = mean_law(own, rounds, group)
    runs = own.simulate(0, rng, 20_000, rounds=rounds, group=group).mean_weights

    def key(weights: np.ndarray) -> tuple[float, ...]:
        return tuple(np.round(weights, 9).tolist())

    assert chi_square_of_outcomes(map(key, runs), law) > 1e-6
    masses = own.learner.channels[0].levels.masses()

    def served(seed: int) -> tuple[float, ...]:
        server, noise = own.server(run=RUN, rng=rng), SimulationNoise(seed)
        for _ in range(rounds // group):
            requests = server.ask(group)
            for k in rng.permutation(group).tolist():
                label = rng.choice(2, p=TWO.table()[0])
                server.receive(own.privatise(label, request=requests[k], run=RUN, noise=noise))
        return key(np.linalg.solve(masses.T, server.mean_prediction()))

    assert chi_square_of_outcomes([served(seed) for seed in range(2000)], law) > 1e-6
    other = own.simulate(0, rng, 20_000, rounds=rounds, group=3 - group).mean_weights  # a planted violation
    assert chi_square_of_outcomes(map(key, other), law) < 1e-6


def test_answers_of_a_group_are_received_once_in_any_order_and_never_late() -> None:
    own = interactive(40, EASY)
    first, second = (own.server(run=RUN, rng=np.random.default_rng(1)) for _ in range(2))
    noise = SimulationNoise(1)
    for _ in range(4):
        requests = first.ask(10)
        assert second.ask(10) == requests and first.asked == requests[-1].number + 1
        data = [own.privatise(2, request=r, run=RUN, noise=noise) for r in requests]
        for each, other in zip(data, reversed(data), strict=True):
            first.receive(each)
            second.receive(other)
        with pytest.raises(RefusedMessageError, match="received before"):
            first.receive(data[3])
    assert (first.totals == second.totals).all() and first.checkpoint() == second.checkpoint()
    np.testing.assert_array_equal(first.mean_prediction(), second.mean_prediction())
    assert first.heard == 40 and first.predict().sum() == pytest.approx(1.0)
    with pytest.raises(InvalidArgumentError):
        first.ask()  # the run is over


def test_answers_to_several_servers_are_those_to_one() -> None:
    """Whichever server receives an answer, in any order, with a save in between; to the last bit."""
    own = interactive(40, EASY)
    first, alone = (own.server(run=RUN, rng=np.random.default_rng(1)) for _ in range(2))
    noise, rng = SimulationNoise(1), np.random.default_rng(2)
    for _ in range(3):
        requests = first.ask(12)
        assert alone.ask(12) == requests
        shards = [own.server(run=RUN).resumed(json.loads(json.dumps(first.checkpoint()))) for _ in range(3)]
        servers = [first, *shards]
        for k in rng.permutation(12)[:11].tolist():  # one does not answer
            data = own.privatise(2, request=requests[k], run=RUN, noise=noise)
            alone.receive(data)
            servers[int(rng.integers(4))].receive(data)
        for shard in reversed(shards):
            again = own.server(run=RUN).resumed(shard.checkpoint())
            first.merge(again)
        assert first.checkpoint() == alone.checkpoint() and first.heard == alone.heard
        np.testing.assert_array_equal(first.totals, alone.totals)
        np.testing.assert_array_equal(first.mean_prediction(), alone.mean_prediction())

    before, last = first.checkpoint(), next(shard for shard in shards if shard._answers)
    for other, words in (
        (last, "a number that this server has"),
        (own.server(run=RUN), "other requests"),
        (own.server(run=b"run 0002"), "another run"),
        (first.rule, "another run"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            first.merge(other)  # type: ignore[arg-type]
    shards[0].ask(1)
    with pytest.raises(InvalidArgumentError, match="other requests"):
        first.merge(shards[0])
    assert first.checkpoint() == before


def test_forged_and_late_answers_change_nothing() -> None:
    own = interactive(40, EASY)
    server, noise = own.server(run=RUN, rng=np.random.default_rng(2)), SimulationNoise(1)
    old = server.ask(3)
    late = own.privatise(0, request=old[0], run=RUN, noise=noise)
    request = server.ask(2)[0]
    form = MessageFormat.of(own.learner.channels[0], run=RUN)
    good = own.privatise(0, request=request, run=RUN, noise=noise)
    before = server.checkpoint()
    other = form.write(request.number, Message((request.index + 1) % 4, 1))
    another = own.privatise(0, request=request, run=b"run 0002", noise=noise)
    for wrong in (late, other, another, good[:-1], form.write(30, Message(0, 1))):
        with pytest.raises(RefusedMessageError):
            server.receive(wrong)
    assert server.checkpoint() == before
    again = own.server(run=RUN).resumed(json.loads(json.dumps(before)))
    assert again.receive(good) == server.receive(good) == request.number
    np.testing.assert_array_equal(again.weights(), server.weights())
    assert again.checkpoint() == server.checkpoint() and again.selected() == server.selected()
    for taken in (again, interactive(44, EASY).server(run=RUN), own.server(run=b"run 0002")):
        with pytest.raises(InvalidArgumentError):
            taken.resumed(before)
    bodies: list[dict[str, Any]] = [{"totals": []}, {"group": 3}, {"asked": "x"}, {"answers": [[0, "1"]]}]
    for body in bodies:
        with pytest.raises(InvalidArgumentError):
            own.server(run=RUN).resumed(before | body)


def test_a_device_answers_valid_requests_only_and_charges_first(tmp_path: Path) -> None:
    own = interactive()
    ledger = DurableLedger.create(tmp_path / "person", PureFilter(3.0, adjacency=Adjacency.LOCAL))
    wrong: list[Any] = [
        3,
        Request(number=8, index=0),
        Request(number=0, index=2),
        Request(number=0, index=0, context=1),
    ]
    for request in wrong:
        with pytest.raises(InvalidArgumentError):
            own.privatise(0, request=request, run=RUN, ledger=ledger)
    assert not ledger.charges()

    class Broken(SimulationNoise):
        def uniform(self, *_: Any) -> Any:
            raise RuntimeError

    with pytest.raises(RuntimeError):
        own.privatise(0, request=Request(number=0, index=0), run=RUN, noise=Broken(1), ledger=ledger)
    assert [charge.event for charge in ledger.charges()] == [own.learner.channels[0].event()]
    size = {len(own.privatise(x, request=Request(number=0, index=1), run=RUN)) for x in (0, 1, 7, None, "no label")}
    assert size == {26}
    for bad in (3, own.learner):
        with pytest.raises(InvalidArgumentError):
            InteractiveServer(bad, run=RUN)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        own.server(run=RUN).mean_prediction()
