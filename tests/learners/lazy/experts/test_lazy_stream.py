"""Tests of the lazy learner one round at a time: exact law, exact sensitivity, one charge, and a state that can be
saved."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import chi_square_of_outcomes

import hockeystick as hs
from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, Ledger, RefinementError
from hockeystick.audits import Claim, audit
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import Transcripts
from hockeystick.mechanisms import SimulationNoise
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

FALSE_ALARM = 1e-6


def learner(**changed: object) -> LazyExperts:
    given = {
        "rounds": 7,
        "experts": 2,
        "batch": 2,
        "learning_rate": 0.4,
        "fake_switch_probability": 0.2,
        "shadow_probability": 0.3,
    }
    if changed.get("variant") == "dartboard":
        del given["shadow_probability"]
    return LazyExperts(**{**given, **changed})


LOSSES = np.random.default_rng(5).random((7, 2))


def enumerated(learner: LazyExperts, losses: np.ndarray) -> dict[tuple[int, ...], float]:
    """Probability of (actions, switched or not) by following every branch; the shadow is summed over."""
    chain = learner.chain(losses)
    weights = np.exp(chain.log_weights)
    with_shadow = learner.variant == "l2p"
    most = learner.batches * 2 if learner.draw_budget is None else learner.draw_budget
    branches: dict[tuple[tuple[int, ...], int, int], float] = defaultdict(float)
    for x in range(2):
        for y in range(2 if with_shadow else 1):
            branches[((x, 0), y, 0)] += weights[0, x] * (weights[0, y] if with_shadow else 1.0)
    for s in range(1, chain.batches):
        following: dict[tuple[tuple[int, ...], int, int], float] = defaultdict(float)
        for (seen, y, used), mass in branches.items():
            x = seen[-2]
            keep = (
                math.exp(chain.log_keep(s, np.array(x), np.array(y) if with_shadow else None)) if used < most else 1.0
            )
            for moved, chance in ((0, keep), (1, 1.0 - keep)):
                again = learner.refresh_probability if used + moved < most else 0.0
                for next_x in range(2) if moved else (x,):
                    p = mass * chance * (weights[s, next_x] if moved else 1.0)
                    state = (*seen, next_x, moved)
                    following[(state, y, used + moved)] += p * (1.0 - again)
                    if again:
                        for next_y in range(2):
                            following[(state, next_y, used + moved + 1)] += p * again * weights[s, next_y]
        branches = following
    law: dict[tuple[int, ...], float] = defaultdict(float)
    for (seen, _, _), mass in branches.items():
        law[seen] += mass
    return dict(law)


def transcript(
    owner: LazyExperts, losses: np.ndarray, noise: SimulationNoise, *, saved: bool = False
) -> tuple[int, ...]:
    seen: list[int] = []
    stream = owner.start(noise=noise)
    for t in range(owner.rounds):
        if saved:
            stream = owner.resume(json.loads(json.dumps(stream.checkpoint())), noise=noise)
        if t % owner.batch == 0:
            seen += [stream.predict(), int(stream.switched)]
        assert stream.predict() == seen[-2]
        stream.update(losses[t])
    return tuple(seen)


@pytest.mark.parametrize(
    "changed",
    [{}, {"variant": "dartboard"}, {"normaliser": "paper"}, {"normaliser": 0.1}, {"draw_budget": 2}],
    ids=str,
)
def test_rounds_one_by_one_follow_the_law(changed):
    """Chi-square against every branch, false alarm 1e-6; with the same noise, saving and resuming changes nothing."""
    given, noise = learner(**changed), SimulationNoise(np.random.default_rng(17))
    law = enumerated(given, LOSSES)
    assert math.isclose(sum(law.values()), 1.0, rel_tol=1e-9)
    runs = [transcript(given, LOSSES, noise) for _ in range(400)]
    assert len(law) >= 10 and chi_square_of_outcomes(runs, law) > FALSE_ALARM
    again = SimulationNoise(np.random.default_rng(17))
    assert [transcript(given, LOSSES, again, saved=True) for _ in range(20)] == runs[:20]


def test_simulated_runs_follow_the_same_law():
    given = learner(draw_budget=2)
    runs = given.simulate(LOSSES, np.random.default_rng(1), 50_000)
    cells = np.stack([runs.actions, runs.switched], axis=2).reshape(50_000, -1)
    assert chi_square_of_outcomes(cells.astype(int), enumerated(given, LOSSES)) > FALSE_ALARM


def test_a_release_is_its_stream():
    given = learner(rounds=41, batch=4, experts=3, clip=True)
    losses = 1.2 * np.random.default_rng(6).random((41, 3))
    found = given.release(losses, noise=SimulationNoise(3))
    stream, seen, switched = given.start(noise=SimulationNoise(3)), [], []
    for t in range(41):
        seen.append(stream.predict())
        if t % 4 == 0:
            switched.append(stream.switched)
        stream.update(losses[t])
    assert found.actions.tolist() == seen and found.switched.tolist() == switched
    assert found.switches == sum(switched) and found.simulated and stream.simulated
    again = given.release(iter(np.split(losses, [5, 6, 30])), noise=SimulationNoise(3))
    np.testing.assert_array_equal(again.actions, found.actions)


@pytest.mark.statistical
@given(
    rate=st.floats(1e-6, 3.0),
    a=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2),
    b=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=2),
    others=st.integers(0, 6),
    variant=st.sampled_from(["l2p", "dartboard"]),
)
@settings(deadline=None, max_examples=60)
def test_one_person_moves_coins_and_draws_by_no_more_than_is_charged(rate, a, b, others, variant):
    """In exact arithmetic: numbers are rounded to binary floats before they are added up."""
    given = learner(rounds=20, batch=7, learning_rate=rate, variant=variant)
    ratios, scores = [], []
    for mine in (a, b):
        stream = given.start(noise=SimulationNoise(1))
        for loss in [mine, *np.random.default_rng(others).random((others, 2))]:
            stream.update(loss)
        held = stream._batch if others < 6 else stream._total
        scores.append([Fraction(int(x)) / Fraction(stream._draw.scale) for x in held])
        ratios.append([-stream._rate * int(x) for x in held])
    moved = [one - other for one, other in zip(*ratios, strict=True)]
    span = abs(moved[0] - moved[1]) if variant == "l2p" else max(map(abs, moved))
    assert span <= Fraction(given.switch.sensitivity)
    gaps = [one - other for one, other in zip(*scores, strict=True)]
    assert abs(gaps[0] - gaps[1]) <= Fraction(given.draw.event().pure_epsilon())


@pytest.mark.parametrize("variant", ["l2p", "dartboard"])
@pytest.mark.parametrize("budget", [None, 3, 0])
@pytest.mark.every(3)
def test_event_is_the_graph(variant, budget):
    given = learner(rounds=200, learning_rate=0.01, variant=variant, draw_budget=budget)
    for delta in (0.0, 1e-9, 1e-3):
        one = hs.epsilon(given.event(), delta).upper
        assert one == pytest.approx(given.graph().guarantee().epsilon(delta).upper, rel=1e-6, abs=1e-12)


# --- charges ---------------------------------------------------------------------------------------------------------


def plan(given: LazyExperts) -> AccountantGraph:
    return AccountantGraph(Adjacency.REPLACE_ONE).source("people").release("plays", given.event(), reads=["people"])


def test_a_run_is_charged_once_before_its_first_draw():
    given = learner()
    ledger = Ledger(plan(given))
    stream = given.start(ledger=ledger, name="plays", noise=SimulationNoise(1))
    assert ledger.recorded("plays") == 1 and stream.round == 0
    assert ledger.graph().simulated() == ("plays",)
    stream.update(LOSSES[0])
    given.resume(stream.checkpoint(), noise=SimulationNoise(2)).update(LOSSES[1])
    assert ledger.recorded("plays") == 1
    with pytest.raises(RefinementError):
        given.start(ledger=ledger, name="plays", noise=SimulationNoise(1))


def test_bad_losses_are_found_before_the_charge():
    given = learner()
    ledger = Ledger(plan(given))
    bad = LOSSES.copy()
    bad[6, 1] = 1.5
    with pytest.raises(InvalidArgumentError, match=r"losses\[6, 1\]"):
        given.release(bad, ledger=ledger, name="plays", noise=SimulationNoise(1))
    assert ledger.recorded("plays") == 0
    with pytest.raises(InvalidArgumentError, match=r"losses\[6, 1\]"):
        given.release(iter([bad]), ledger=ledger, name="plays", noise=SimulationNoise(1))
    assert ledger.recorded("plays") == 1


def test_secure_noise_plays_and_is_not_marked_as_a_simulation():
    given = learner(rounds=20)
    found = given.release(np.random.default_rng(1).random((20, 2)))
    assert not found.simulated and found.actions.shape == (20,)


# --- states ----------------------------------------------------------------------------------------------------------


def test_a_bad_loss_is_not_taken_in():
    stream = learner().start(noise=SimulationNoise(1))
    before = stream.checkpoint()
    for bad in ([0.5, 1.5], [0.5], [math.nan, 0.0], [[0.5, 0.5]], "ab"):
        with pytest.raises(InvalidArgumentError):
            stream.update(bad)
        assert stream.checkpoint() == before


def test_after_the_last_round_nothing_is_played():
    stream = learner().start(noise=SimulationNoise(1))
    for t, loss in enumerate(LOSSES):
        assert stream.round == t
        stream.update(loss)
    for call in (stream.predict, lambda: stream.update(LOSSES[0])):
        with pytest.raises(StreamHaltedError):
            call()
    assert learner().resume(stream.checkpoint(), noise=SimulationNoise(1)).round == 7


def test_one_batch_reads_nothing():
    given = learner(batch=7)
    stream = given.resume(given.start(noise=SimulationNoise(1)).checkpoint(), noise=SimulationNoise(2))
    seen = set()
    for loss in LOSSES:
        seen.add(stream.predict())
        stream.update(loss)
    assert len(seen) == 1 and not stream.switched
    assert hs.epsilon(given.event(), 0.0).upper == 0.0


@pytest.mark.statistical
def test_a_state_does_not_grow_and_contains_no_future_coin():
    given = learner(rounds=10_000, batch=3)
    stream = given.start(noise=SimulationNoise(12345))
    sizes = []
    for t in range(2_000):
        if t in (10, 1_999):
            sizes.append(len(json.dumps(stream.checkpoint())))
        stream.update([0.25, 0.75])
    assert sizes[1] <= sizes[0] + 40  # digits
    state = stream.checkpoint()
    assert set(state) == {"format", "version", "learner", "simulated", "digest", "round", "total", "batch", "walk"}
    assert set(state["walk"]) == {"action", "shadow", "switched", "steps_left", "draws_left"}


def test_a_stream_is_neither_copied_nor_pickled():
    stream = learner().start(noise=SimulationNoise(1))
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="checkpoint"):
            call(stream)


@pytest.mark.parametrize(
    "path",
    [("format",), ("version",), ("learner",), ("simulated",), ("digest",), ("round",), ("walk", "action")],
    ids=str,
)
def test_a_state_that_was_changed_is_refused(path):
    stream = learner().start(noise=SimulationNoise(1))
    for loss in LOSSES[:5]:
        stream.update(loss)
    state: Any = json.loads(json.dumps(stream.checkpoint()))
    assert learner().resume(state, noise=SimulationNoise(1)).round == 5
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = 3
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        learner().resume(state, noise=SimulationNoise(1))


@pytest.mark.parametrize("changed", [{"learning_rate": 0.5}, {"rounds": 8}, {"variant": "dartboard"}], ids=str)
def test_the_state_of_another_learner_is_refused(changed):
    state = learner().start(noise=SimulationNoise(1)).checkpoint()
    with pytest.raises(InvalidArgumentError, match="other parameters"):
        learner(**changed).resume(state, noise=SimulationNoise(1))


def test_a_simulation_stays_one():
    simulated, secure = learner().start(noise=SimulationNoise(1)), learner().start()
    with pytest.raises(InvalidArgumentError, match="simulated"):
        learner().resume(simulated.checkpoint())
    with pytest.raises(InvalidArgumentError, match="secure"):
        learner().resume(secure.checkpoint(), noise=SimulationNoise(1))
    with pytest.warns(UserWarning, match="without a ledger"):
        assert not learner().resume(secure.checkpoint()).simulated


@pytest.mark.parametrize("bad", [{}, None, [1], "x"])
def test_invalid_states_are_refused(bad):
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        learner().resume(bad, noise=SimulationNoise(1))


# --- audits ----------------------------------------------------------------------------------------------------------


class Target:
    """The log-likelihood ratio of what the dartboard releases, on two fixed streams."""

    def __init__(self, weight: int) -> None:
        self.learner = learner(rounds=4, batch=1, learning_rate=0.4, fake_switch_probability=0.3, variant="dartboard")
        self.neighbours = self.learner.worst_case_neighbours()
        self.weight = weight

    def __call__(self, losses: np.ndarray, rng: np.random.Generator, runs: int) -> np.ndarray:
        noise, actions, switched = SimulationNoise(rng), [], []
        for _ in range(runs):
            stream = self.learner.start(noise=noise)
            seen = [(stream.predict(), False)]
            for loss in losses[:-1]:
                stream._add(self.weight * stream._whole(loss[None], 0))
                seen.append((stream.predict(), stream.switched))
            actions.append([x for x, _ in seen])
            switched.append([moved for _, moved in seen])
        found = Transcripts(np.array(actions), np.array(switched))
        return np.clip(self.learner.log_likelihood_ratio(found, *self.neighbours), -50.0, 50.0)


@pytest.mark.statistical
@pytest.mark.parametrize("weight", [1, 4])
def test_audit_of_runs(weight):
    """False alarm at most 1e-6; a person who counts four times is seen in 1500 runs."""
    target = Target(weight)
    claim = target.learner.graph().guarantee()
    verdict = audit(
        target,
        claim=Claim(claim.epsilon(1e-2).upper, 1e-2),
        neighbours=target.neighbours,
        samples=1500,
        rng=1,
        confidence=1 - FALSE_ALARM,
    )
    assert verdict.refuted == (weight > 1)
