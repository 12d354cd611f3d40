"""Tests of the server: equal to a whole run in any order and from any shards; refusals change nothing; it can be
saved."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.learners.distribution.channels.all_channels import (
    Message,
    Messages,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelDensities, LabelTable
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.runs import play, replay
from hockeystick.learners.distribution.server import DistributionServer
from hockeystick.mechanisms import SimulationNoise

TABLE = LabelTable(np.random.default_rng(1).dirichlet(np.full(5, 0.6), (2, 3)))
KINDS: list[tuple[Any, dict[str, Any]]] = [
    (OneBit, {"epsilon": 1.0}),
    (OneBit, {"epsilon": 1.0, "rule": "posterior"}),
    (SampledLaplace, {"epsilon": 1.0}),
    (SampledLaplace, {"epsilon": 1.0, "rule": "printed"}),
    (SampledDiscreteLaplace, {"epsilon": 1.0}),
    (VectorLaplace, {"scale": 3.0}),
    (VectorLaplace, {"scale": 3.0, "rule": "printed"}),
    (VectorGaussian, {"sigma": 3.0}),
    (RandomizedLabels, {"epsilon": 1.0}),
]


def learner(channel: Any = OneBit, rounds: int = 60, **parameters: Any) -> OnlineDistribution:
    given = parameters or {"epsilon": 1.0}
    return OnlineDistribution.build(TABLE, rounds=rounds, channel=channel, **given)


def sent(own: OnlineDistribution, seed: int, context: int, size: int) -> Messages:
    rng = np.random.default_rng(seed)
    return own.channels[context].simulate(rng.integers(0, 5, size), rng)


def state(server: DistributionServer) -> tuple[list[float], list[int], int]:
    return server.totals.tolist(), server.counts.tolist(), server.heard


@pytest.mark.parametrize(("channel", "parameters"), KINDS)
def test_the_server_is_the_whole_run(channel: Any, parameters: dict[str, Any]) -> None:
    """Row 25: whole runs in blocks of one round are the server, to 1e-9, given the same messages."""
    own = learner(channel, **parameters)
    contexts, messages = np.arange(60) % 2, [sent(own, 3, c, 60) for c in (0, 1)]
    server, law, risks = DistributionServer(own), TABLE.tables[:, 1], [own.risk(1, c) for c in (0, 1)]
    risk = 0.0
    for t, context in enumerate(contexts.tolist()):
        prediction = server.predict(context)
        assert prediction.sum() == pytest.approx(1.0) and prediction.shape == (5,)
        risk += float(np.sum(law[context] * np.log(law[context] / prediction)))
        server.update(messages[context].one(t), round=t, context=context)
    decoded = [own.losses(messages[c], c) for c in (0, 1)]
    losses = np.where(contexts.reshape(-1, *[1] * (decoded[0][1].ndim - 1)) == 0, decoded[0][1], decoded[1][1])
    index = None if decoded[0][0] is None else np.where(contexts == 0, decoded[0][0], decoded[1][0])[None]  # type: ignore[arg-type]
    whole = play(replay(index, losses[None]), risks, rounds=60, runs=1, rate=own.learning_rate, contexts=contexts)
    assert whole.risk[0] == pytest.approx(risk, abs=1e-9)
    np.testing.assert_allclose(whole.totals[0], server.totals, atol=1e-9)
    np.testing.assert_array_equal(whole.counts[0], server.counts)
    one_late = play(
        replay(None if index is None else np.roll(index, 1, axis=1), np.roll(losses, 1, axis=0)[None]),
        risks, rounds=60, runs=1, rate=own.learning_rate, contexts=contexts,
    )  # fmt: skip
    assert abs(one_late.risk[0] - risk) > 1e-9  # a mutant that is one round off is told apart


@pytest.mark.statistical
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS), shards=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_shards_add_up_to_the_last_bit(seed: int, kind: tuple[Any, dict[str, Any]], shards: int) -> None:
    own = learner(kind[0], rounds=30, **kind[1])
    messages, rng = sent(own, seed, 0, 30), np.random.default_rng(seed)
    whole, parts = DistributionServer(own), [DistributionServer(own) for _ in range(shards)]
    for t in range(30):
        whole.update(messages.one(t), round=t)
    for t in rng.permutation(30).tolist():
        parts[rng.integers(shards)].update(messages.one(t), round=t)
    merged = DistributionServer.merged(parts)
    assert state(merged) == state(whole)
    np.testing.assert_array_equal(merged.weights(), whole.weights())
    assert merged.checkpoint() == whole.checkpoint()
    assert sum(part.heard for part in parts) == 30  # the shards stay as they are


def test_shards_that_received_the_same_round_are_not_merged() -> None:
    own = learner()
    first, second = DistributionServer(own), DistributionServer(own)
    for server in (first, second):
        server.update(Message(0, 1), round=4)
    with pytest.raises(InvalidArgumentError):
        DistributionServer.merged([first, second])
    with pytest.raises(InvalidArgumentError):
        DistributionServer.merged([first, DistributionServer(learner(epsilon=2.0))])
    for nothing in ([], [3]):
        with pytest.raises(InvalidArgumentError):
            DistributionServer.merged(nothing)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 59), unique=True))
@settings(max_examples=30, deadline=None)
def test_rounds_are_received_once_in_any_order(rounds: list[int]) -> None:
    server = DistributionServer(learner())
    for t in rounds:
        server.update(Message(t % 3, t % 2), round=t)
    assert server.heard == len(rounds)
    before = state(server)
    for t in range(60):
        if t in rounds:
            with pytest.raises(RefusedMessageError):
                server.update(Message(0, 1), round=t)
            assert state(server) == before
    in_order = DistributionServer(learner())
    for t in sorted(rounds):
        in_order.update(Message(t % 3, t % 2), round=t)
    assert in_order.checkpoint() == server.checkpoint()


@pytest.mark.parametrize(
    ("kind", "messages"),
    [
        (
            KINDS[0],
            [Message(3, 1), Message(-1, 1), Message(None, 1), Message(True, 1), Message(0, 2), Message(0, -1)]
            + [Message(0, 0.5), Message(0, True), Message(0, math.nan), Message(0, (1.0,)), "x", None],
        ),
        (KINDS[2], [Message(0, math.inf), Message(0, 1e9), Message(0, (0.1,)), Message(1.0, 0.1), Message(0, "1")]),  # type: ignore[arg-type]
        (KINDS[4], [Message(0, 0.5), Message(0, 10**6), Message(None, 1)]),
        (KINDS[5], [Message(0, (0.0, 0.0, 0.0)), Message(None, (0.0, 0.0)), Message(None, (0.0, 0.0, math.nan))]),
        (KINDS[5], [Message(None, 0.0), Message(None, (0.0, 0.0, 1e9))]),
        (KINDS[8], [Message(None, 5), Message(None, -1), Message(0, 1), Message(None, 0.5), Message(None, (1.0,))]),
    ],
)
def test_malformed_messages_are_refused_and_change_nothing(
    kind: tuple[Any, dict[str, Any]], messages: list[Any]
) -> None:
    own = learner(kind[0], **kind[1])
    server = DistributionServer(own)
    server.update(sent(own, 0, 0, 1).one(0), round=0)
    before = server.checkpoint()
    for message in messages:
        with pytest.raises(RefusedMessageError) as error:
            server.update(message, round=1)
        assert "1000000" not in str(error.value)  # a refusal does not show what was sent
        assert server.checkpoint() == before
    for t in (-1, 60, 1.5, True, None):
        with pytest.raises(InvalidArgumentError):
            server.update(sent(own, 0, 0, 1).one(0), round=t)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        server.update(sent(own, 0, 0, 1).one(0), round=1, context=2)
    assert server.checkpoint() == before
    server.update(sent(own, 0, 0, 1).one(0), round=1)
    assert server.heard == 2


@pytest.mark.parametrize(("channel", "parameters"), [KINDS[i] for i in (0, 2, 4, 5, 8)])
def test_messages_come_as_bytes_from_the_device(channel: Any, parameters: dict[str, Any]) -> None:
    own, run = learner(channel, **parameters), b"the run."
    form = MessageFormat.of(own.channels[0], run=run)
    server, noise = DistributionServer(own), SimulationNoise(np.random.default_rng(5))
    for t, label in enumerate([0, 4, 2, math.nan, 99, "no label"]):
        data = form.write(t, own.channels[0].privatise(label, noise=noise))
        assert server.receive(data, form) == t
        before = server.checkpoint()
        for bad in (data, data[:-1], b"", form.write(60, own.channels[0].privatise(0, noise=noise))):
            with pytest.raises(HockeystickError):
                server.receive(bad, form)
        assert server.checkpoint() == before
    assert server.heard == 6


@pytest.mark.parametrize(("channel", "parameters"), KINDS)
def test_a_resumed_server_goes_on_to_the_last_bit(channel: Any, parameters: dict[str, Any]) -> None:
    own = learner(channel, **parameters)
    messages = sent(own, 9, 0, 60)
    whole, half = DistributionServer(own), DistributionServer(own)
    for t in range(60):
        whole.update(messages.one(t), round=t)
        if t < 30:
            half.update(messages.one(t), round=t)
    again = DistributionServer.resume(learner(channel, **parameters), json.loads(json.dumps(half.checkpoint())))
    with pytest.raises(RefusedMessageError):
        again.update(messages.one(29), round=29)  # what was heard of is not forgotten
    for t in range(30, 60):
        again.update(messages.one(t), round=t)
    assert state(again) == state(whole) and again.checkpoint() == whole.checkpoint()


def test_checkpoints_that_were_changed_or_are_of_another_learner_are_refused() -> None:
    server = DistributionServer(learner())
    server.update(Message(1, 1), round=0)
    saved = server.checkpoint()
    assert DistributionServer.resume(learner(), saved).heard == 1
    changed = copy.deepcopy(saved)
    changed["totals"][0] = "7"
    others = [learner(epsilon=2.0), learner(rounds=61), learner(SampledLaplace, epsilon=1.0)]
    others.append(OnlineDistribution(channels=learner().channels, rate=0.5))
    others.append(OnlineDistribution.build(LabelTable(TABLE.tables[:, ::-1]), rounds=60, epsilon=1.0))
    for other in others:
        with pytest.raises(InvalidArgumentError):
            DistributionServer.resume(other, saved)
    for bad in (changed, {}, None, "x", saved | {"version": 2}):
        with pytest.raises(InvalidArgumentError):
            DistributionServer.resume(learner(), bad)  # type: ignore[arg-type]


def test_densities_are_predicted_at_points() -> None:
    own = OnlineDistribution.build(LabelDensities.gaussian([0.0, 4.0]), rounds=500, epsilon=3.0)
    server, rng = DistributionServer(own), np.random.default_rng(2)
    messages = own.channels[0].simulate(rng.normal(4.0, 1.0, 500), rng)
    for t in range(500):
        server.update(messages.one(t), round=t)
    points, step = np.linspace(-9.0, 13.0, 2001, retstep=True)
    density = np.exp(server.log_density(points))
    assert density.sum() * step == pytest.approx(1.0, abs=1e-6)
    assert server.weights()[1] > 0.9 and abs(points[np.argmax(density)] - 4.0) < 0.1
    with pytest.raises(InvalidArgumentError):
        server.predict()
    with pytest.raises(InvalidArgumentError):
        DistributionServer(3)  # type: ignore[arg-type]
