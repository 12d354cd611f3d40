"""Tests of Limited Updates: its exact law against a transcription, its cost, and the losses that enter each draw."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import least_mean

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, Ledger
from hockeystick.accounting.graph.parts.nodes import Source
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.mechanisms.randomness.noise import SimulationNoise

FALSE_ALARM = 1e-6


def transcription(losses: np.ndarray, eps: float) -> np.ndarray:
    """The law of each round's expert, by Asi, Feldman, Koren & Talwar 2023, Algorithm 1, round by round."""
    rounds, d = losses.shape
    law, found, collected = np.full(d, 1.0 / d), [], np.zeros(d)
    for t in range(1, rounds + 1):
        if t > 1 and t & (t - 1) == 0:
            law = np.exp(-eps / 2 * collected)
            law /= law.sum()
            collected = np.zeros(d)
        found.append(law)
        collected = collected + losses[t - 1]
    return np.array(found)


@pytest.mark.statistical
@given(st.integers(1, 70), st.integers(2, 6), st.floats(0.01, 5.0), st.integers(0, 10**6))
def test_the_law_is_that_of_the_algorithm(rounds: int, d: int, eps: float, seed: int) -> None:
    losses = np.random.default_rng(seed).random((rounds, d))
    made = LimitedUpdates(rounds=rounds, experts=d, learning_rate=eps)
    law = transcription(losses, eps)
    np.testing.assert_allclose(np.repeat(made.marginals(losses), np.diff(made.edges), axis=0), law, atol=1e-12)
    expected = float((law * losses).sum() - losses.sum(axis=0).min())
    assert made.expected_regret(losses) == pytest.approx(expected, abs=1e-9)
    assert made.average(losses[None]) == pytest.approx(expected, abs=1e-9)


def test_each_loss_enters_one_draw_at_most() -> None:
    made, losses = LimitedUpdates(rounds=20, experts=3, learning_rate=1.0), np.full((20, 3), 0.5)
    before = made.marginals(losses)
    for t in range(20):
        changed = losses.copy()
        changed[t, 0] = 1.0
        moved = np.flatnonzero((made.marginals(changed) != before).any(axis=1)).tolist()
        assert moved == ([] if t >= 15 else [int(math.log2(t + 1)) + 1])
    assert made.graph().nodes[0] == Source("epochs", 4)


@pytest.mark.statistical
@given(st.floats(0.01, 10.0), st.integers(2, 10**6))
def test_the_cost_is_that_of_one_draw(eps: float, rounds: int) -> None:
    """eta-DP, and eta^2/8-zCDP, for any number of rounds; two people may enter two draws."""
    made = LimitedUpdates(rounds=rounds, experts=4, learning_rate=eps)
    event = made.event()
    assert event.pure_epsilon() == pytest.approx(eps)
    assert event.zcdp_rho() <= eps**2 / 8 * (1 + 1e-9)
    assert made.graph().guarantee(group=2).epsilon(0.0).upper == pytest.approx(2 * eps)
    assert LimitedUpdates(rounds=1, experts=4, learning_rate=eps).event().pure_epsilon() == 0.0


def test_neighbours_attain_the_cost_of_the_draw() -> None:
    """Log-ratio .98 of an outcome of probability .026 at d = 64, and at most eta; d = 2 has e^(eta/2) times 1."""
    made = LimitedUpdates(rounds=4, experts=64, learning_rate=1.0)
    worlds = made.worst_case_neighbours()
    law = [made.marginals(world)[1] for world in worlds]
    assert law[0][0] == pytest.approx(0.0255, abs=5e-4)
    experts = np.zeros((1, 3), np.int64)
    ratio = made.log_likelihood_ratio(experts, *worlds)[0]
    assert ratio == pytest.approx(math.log(law[0][0] / law[1][0])) and 0.975 < ratio <= 1.0
    loud = LimitedUpdates(rounds=4, experts=64, learning_rate=2.0)  # exp(-eta*sum) for exp(-eta*sum/2)
    assert loud.log_likelihood_ratio(experts, *worlds)[0] > 1.5
    pair = LimitedUpdates(rounds=4, experts=2, learning_rate=1.0)
    assert pair.log_likelihood_ratio(experts, *pair.worst_case_neighbours())[0] == pytest.approx(
        math.log((1 + math.exp(0.5)) / (1 + math.exp(-0.5)))
    )


def frequencies_are_off(plays: np.ndarray, law: np.ndarray) -> bool:
    """Whether a round's frequencies are off by more than Hoeffding allows at 1e-6 over all entries."""
    found = (plays[:, :, None] == np.arange(law.shape[1])).mean(axis=0)
    return bool(np.abs(found - law).max() > math.sqrt(math.log(2 * law.size / FALSE_ALARM) / (2 * len(plays))))


@pytest.mark.statistical
def test_runs_and_releases_follow_the_law() -> None:
    """False alarm 1e-6 each; the law of another learning rate is caught."""
    losses = np.random.default_rng(1).integers(0, 2, (9, 3)).astype(float)
    made = LimitedUpdates(rounds=9, experts=3, learning_rate=1.5)
    law, other = transcription(losses, 1.5), transcription(losses, 3.0)
    simulated = made.plays(made.simulate(losses, np.random.default_rng(2), 20_000))
    single = np.array([made.run(losses, np.random.default_rng(seed)) for seed in range(1000)])
    noise = SimulationNoise(3)
    released = np.array([made.release(losses, noise=noise) for _ in range(600)])
    for plays in (simulated, single, released):
        assert not frequencies_are_off(plays, law)
    assert frequencies_are_off(simulated, other) and frequencies_are_off(single, other)
    assert frequencies_are_off(released, transcription(losses, 6.0))
    epochs = made.simulate(losses, np.random.default_rng(2), 20_000)
    joint = (epochs[:, 1] == 0) & (epochs[:, 2] == 0)
    apart = made.marginals(losses)[1:3, 0].prod()  # epochs are independent
    assert abs(joint.mean() - apart) <= math.sqrt(math.log(2 / FALSE_ALARM) / 40_000)


def test_a_release_is_recorded() -> None:
    made, losses = LimitedUpdates(rounds=9, experts=3, learning_rate=0.5), np.zeros((9, 3))
    plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True).source("people")
    ledger = Ledger(plan.release("run", made.event(), reads=("people",)))
    made.release(losses, ledger=ledger, name="run", noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError):
        made.release(losses + 2.0, ledger=ledger, name="run", noise=SimulationNoise(1))


def test_averages_are_over_clients_against_one_expert() -> None:
    losses = np.random.default_rng(4).random((5, 12, 3))
    made = LimitedUpdates(rounds=12, experts=3, learning_rate=1.0)
    paid = sum(float((transcription(own, 1.0) * own).sum()) for own in losses)
    assert made.average(losses) == pytest.approx((paid - losses.sum(axis=(0, 1)).min()) / 5)


@pytest.mark.parametrize(("rounds", "experts", "rate"), [(1, 2, 1.0), (7, 3, 5.0), (8, 2, 20.0), (1000, 4, 3.0)])
def test_the_stochastic_bound_is_its_sum_over_rounds_and_holds(rounds: int, experts: int, rate: float) -> None:
    """Round t counted from 1 plays what was drawn on the 2^(⌊log2 t⌋ - 1) rounds before its epoch."""
    made, wide = LimitedUpdates(rounds=rounds, experts=experts, learning_rate=rate), math.log(experts)
    reads = [2 ** (t.bit_length() - 2) for t in range(2, rounds + 1)]
    excess = [min(1.0, (2 * wide / rate + math.sqrt(n * wide / 2)) / n) for n in reads]
    bound = made.regret_bound()
    assert bound == pytest.approx(min(rounds, 1 + sum(excess) + math.sqrt(rounds * wide / 2)), rel=1e-12)
    rng, means = np.random.default_rng(3), np.linspace(0.3, 0.6, experts)
    regrets = [made.expected_regret((rng.random((rounds, experts)) < means).astype(float)) for _ in range(20)]
    assert least_mean(np.array(regrets)) <= bound


@pytest.mark.parametrize(
    "call",
    [
        lambda made: LimitedUpdates(rounds=0, experts=3, learning_rate=1.0),
        lambda made: LimitedUpdates(rounds=5, experts=1, learning_rate=1.0),
        lambda made: LimitedUpdates(rounds=5, experts=3, learning_rate=math.nan),
        lambda made: LimitedUpdates(rounds=5, experts=3, learning_rate=1.0, clip=1),
        lambda made: made.marginals(np.full((5, 3), math.nan)),
        lambda made: made.marginals(np.full((5, 3), 1.5)),
        lambda made: made.marginals(np.zeros((4, 3))),
        lambda made: made.average(np.zeros((0, 5, 3))),
        lambda made: made.average(np.zeros((5, 3))),
        lambda made: made.simulate(np.zeros((5, 3)), 1, 1),
        lambda made: made.simulate(np.zeros((5, 3)), np.random.default_rng(1), 0),
        lambda made: made.log_likelihood_ratio(np.full((1, 3), 0.5), np.zeros((5, 3)), np.zeros((5, 3))),
        lambda made: made.log_likelihood_ratio(np.full((1, 3), 3), np.zeros((5, 3)), np.zeros((5, 3))),
    ],
)
def test_bad_arguments_are_refused(call: Callable[[LimitedUpdates], object]) -> None:
    with pytest.raises(InvalidArgumentError):
        call(LimitedUpdates(rounds=5, experts=3, learning_rate=1.0))
    clipped = LimitedUpdates(rounds=5, experts=3, learning_rate=1.0, clip=True)
    np.testing.assert_allclose(clipped.marginals(np.full((5, 3), 7.0)), 1 / 3)


@pytest.mark.parametrize("rounds", [1, 2, 13, 16])
def test_blocks_of_losses_have_the_laws_and_the_regret_of_the_whole(rounds: int) -> None:
    losses = np.random.default_rng(6).random((rounds, 3))
    made = LimitedUpdates(rounds=rounds, experts=3, learning_rate=0.8)
    law = transcription(losses, 0.8)
    expected = float((law * losses).sum() - losses.sum(axis=0).min())
    for blocks in (losses, np.array_split(losses, 3), list(losses[:, None])):
        np.testing.assert_allclose(made.marginals(blocks), law[made.edges[:-1]], rtol=1e-12)
        assert made.expected_regret(blocks) == pytest.approx(expected, rel=1e-12, abs=1e-12)
