"""Tests of the learner of experts for an unknown number of rounds: its noise, its law, its bounds and its cost."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.learners import AnytimeTreeExperts, TreeExperts
from hockeystick.learners.experts import noisy_sum_bounds as bounds
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
POLICIES: list[Any] = ["leader", "hedge"]
HEDGES: list[Any] = ["hedge", "adaptive hedge"]


def small(policy: Any, experts: int = 2, scale: float = 0.7, rounds: int = 400) -> AnytimeTreeExperts:
    return AnytimeTreeExperts(experts=experts, scale=scale, policy=policy, rounds=rounds)


def direct(learner: AnytimeTreeExperts, rounds: int) -> float:
    """The bound as a sum over rounds."""
    spreads, largest = learner._spreads(0, rounds), bounds.expected_maximum(learner.experts)
    if learner.policy == "leader":
        return float(largest * (spreads[-1] + (1 / (4 * spreads)).sum()))
    rates, before = bounds.falling_rate(np.arange(1, rounds + 1), learner.experts, spreads), np.append(0.0, spreads)
    rises = np.minimum(rates * np.diff(before**2) / 2, largest * np.diff(before))
    each = np.minimum(rates / 8, largest / (4 * spreads))
    return float(math.log(learner.experts) / rates[-1] + rises.sum() + each.sum())


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cost_is_the_same_for_any_number_of_rounds(policy: Any) -> None:
    for group in (1, 3):
        made = [
            AnytimeTreeExperts.calibrated(experts=4, epsilon=0.8, delta=1e-6, group=group, policy=policy, rounds=rounds)
            for rounds in (2, 1000, 2**30)
        ]
        assert len({learner.scale for learner in made}) == 1
        for learner in made:
            assert 0.79999 <= learner.guarantee(group=group).epsilon(1e-6).upper <= 0.8
            assert AccountantGraph.from_json(learner.graph().to_json()) == learner.graph()
    single = TreeExperts.calibrated(rounds=2, experts=4, epsilon=0.8, delta=1e-6)  # one noisy sum
    assert AnytimeTreeExperts.calibrated(experts=4, epsilon=0.8, delta=1e-6).scale == pytest.approx(single.scale)


@pytest.mark.parametrize("policy", POLICIES)
def test_noise_only_rises_and_is_that_of_the_sums_or_more(policy: Any) -> None:
    learner = small(policy)
    spreads, own = learner._spreads(0, 400), np.sqrt(learner.mechanism.variances_between(0, 400))
    assert (np.diff(spreads) >= 0).all() and (spreads > own).all()
    assert (np.hypot(own, 2.0**-10 * learner.scale) <= spreads).all()
    for first, stop in ((0, 1), (5, 9), (399, 400)):
        np.testing.assert_array_equal(learner._spreads(first, stop), spreads[first:stop])
    if policy == "leader":
        assert (spreads >= np.sqrt(np.arange(1, 401) / 2)).all()
    else:
        assert (np.diff(bounds.falling_rate(np.arange(1, 401), 2, spreads)) < 0).all()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("experts", "scale"), [(2, 0.7), (10, 26.0), (1000, 300.0)])
def test_the_bound_by_pieces_is_that_of_all_rounds(policy: Any, experts: int, scale: float) -> None:
    """Never below the sum over rounds, and above it by less than a round and a half."""
    learner = AnytimeTreeExperts(experts=experts, scale=scale, policy=policy)
    for rounds in (1, 2, 3, 17, 1000, 50_000):
        exact, found = direct(learner, rounds), float(learner.regret_bound(rounds))
        assert min(exact, rounds) <= found <= min(exact + 1.5, rounds)
    assert [learner.regret_bound(rounds).most for rounds in (1, 50)] == [1.0, 50.0]
    assert learner.regret_bound() == learner.regret_bound(2**30)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("rounds", "scale"), [(60, 0.05), (60, 1.0), (200, 6.0)])
def test_no_stream_of_two_experts_beats_the_bound(policy: Any, rounds: int, scale: float) -> None:
    """The worst stream of losses 0 and 1 by dynamic programming over the gap of the two sums."""
    learner = small(policy, scale=scale)
    spreads = learner._spreads(0, rounds)
    gaps = np.arange(-rounds, rounds + 1).astype(float)
    z, weight = np.polynomial.hermite_e.hermegauss(60)
    value = -(rounds - np.abs(gaps)) / 2.0
    for t in reversed(range(rounds)):
        noisy = gaps[:, None] + spreads[t] * math.sqrt(2) * z
        if policy == "leader":
            first = stats.norm.cdf(-gaps / (spreads[t] * math.sqrt(2)))
        else:
            rate = bounds.falling_rate(t + 1, 2, spreads[t])
            first = (weight / weight.sum() / (1.0 + np.exp(rate * noisy))).sum(axis=1)
        up, down = np.append(value[1:], -np.inf), np.append(-np.inf, value[:-1])
        value = np.maximum(first + up, (1.0 - first) + down)
    assert 0.3 * direct(learner, rounds) < value[rounds] <= direct(learner, rounds)


def test_a_leader_whose_noise_comes_late_exceeds_the_bound() -> None:
    """The planted mistake: hardly any noise in all rounds, and the bound of padded ones."""
    rounds = 200
    gaps = np.arange(-rounds, rounds + 1).astype(float)
    value = -(rounds - np.abs(gaps)) / 2.0
    for _ in range(rounds):
        first = stats.norm.cdf(-gaps / 0.1)
        value = np.maximum(first + np.append(value[1:], -np.inf), (1.0 - first) + np.append(-np.inf, value[:-1]))
    assert value[rounds] > 3 * direct(small("leader", scale=0.05), rounds)


@pytest.mark.parametrize("policy", HEDGES)
@pytest.mark.parametrize(("rounds", "scale"), [(60, 0.05), (60, 1.0), (200, 6.0)])
def test_the_bound_against_adaptive_losses_holds_whatever_the_noise_does(
    policy: Any, rounds: int, scale: float
) -> None:
    """Losses that see each round's noise: the largest regret by dynamic programming, with the noise of every round.

    The adversary of the bound knows less: it sees the noise of earlier rounds, and a mixture. Noises are independent
    here, which is one of the joint laws that the bound allows.
    """
    learner = small(policy, scale=scale)
    spreads = learner._spreads(0, rounds)
    rates = learner._rates(0, spreads)
    gaps, (z, weight) = np.arange(-rounds, rounds + 1).astype(float), np.polynomial.hermite_e.hermegauss(40)
    value = -(rounds - np.abs(gaps)) / 2.0
    for t in reversed(range(rounds)):
        noisy = gaps[:, None] + spreads[t] * math.sqrt(2) * z
        first = 1.0 / (1.0 + np.exp(np.clip(rates[t] * noisy, -700, 700)))
        up, down = np.append(value[1:], -np.inf), np.append(-np.inf, value[:-1])
        value = np.maximum(first + up[:, None], (1.0 - first) + down[:, None]) @ weight / weight.sum()
    bound = learner.regret_bound(rounds, adversary="adaptive")
    assert bound.adversary == "adaptive" and value[rounds] <= bound
    pieces, cost = learner._noise.pieces(rounds), 0.125 + spreads * bounds.expected_maximum(2) / 2
    rounding = rounds * learner.mechanism.rounding(2, rounds - 1)
    if policy == "adaptive hedge":
        np.testing.assert_allclose(rates, np.sqrt(math.log(2) / (2 * np.cumsum(cost))), rtol=1e-12)
        assert bounds.rising_adaptive(2, pieces) <= 2 * math.sqrt(2 * math.log(2) * cost.sum()) * (1 + 1e-12)
    ends = [float((rates * cost)[a - 1 : b].sum()) for a, b, _ in pieces]
    least = math.log(2) / rates[-1] + sum(min(end, b - a + 1) for end, (a, b, _) in zip(ends, pieces, strict=True))
    assert min(rounds, least) <= bound <= least + rounding + 3.0
    np.testing.assert_allclose(learner._rates(7, spreads[7:11]), rates[7:11], rtol=1e-12)


def test_rates_for_adaptive_losses_have_the_lesser_bound_against_them() -> None:
    for experts, epsilon in ((2, 0.5), (10, 0.5)):
        hedge, adaptive = (
            AnytimeTreeExperts.calibrated(experts=experts, epsilon=epsilon, delta=1e-6, policy=policy)
            for policy in HEDGES
        )
        found = [learner.regret_bound(10**6, adversary="adaptive") for learner in (hedge, adaptive)]
        assert found[1] < 0.8 * found[0] and not found[1].vacuous
        assert adaptive.regret_bound(10**6) == found[1] > hedge.regret_bound(10**6)


def test_without_its_term_of_the_noise_the_adaptive_bound_is_exceeded() -> None:
    """The planted mistake: an adversary that sees the noise of its round exceeds Hedge's bound without noise."""
    rounds, scale = 60, 1.0
    learner = small("hedge", scale=scale)
    spreads = learner._spreads(0, rounds)
    rates = learner._rates(0, spreads)
    rng, regret = np.random.default_rng(3), np.zeros(2000)
    sums = np.zeros((2000, 2))
    for t in range(rounds):
        noisy = sums + spreads[t] * rng.standard_normal(sums.shape)
        first = 1.0 / (1.0 + np.exp(rates[t] * (noisy[:, 0] - noisy[:, 1])))
        heavier = np.where(first > 0.5, 0, 1)
        regret += np.where(first > 0.5, first, 1.0 - first)
        sums[np.arange(2000), heavier] += 1.0
    found = regret - sums.min(axis=1)
    without = math.log(2) / rates[-1] + (rates / 8).sum()
    assert found.mean() - 6 * found.std() / math.sqrt(2000) > without
    assert found.mean() < learner.regret_bound(rounds, adversary="adaptive")


def test_against_a_known_number_of_rounds() -> None:
    """Between the same bound and √2 times it, at the better policy of each."""
    ratios = []
    for experts, epsilon in ((2, 0.5), (10, 0.5), (100, 1.0)):
        goal: dict[str, Any] = {"experts": experts, "epsilon": epsilon, "delta": 1e-6}
        anytime = [AnytimeTreeExperts.calibrated(**goal, policy=policy) for policy in POLICIES]
        for rounds in (10**3, 10**4, 10**6):
            known = TreeExperts.calibrated(rounds=rounds, **goal).regret_bound()
            ratios.append(min(float(learner.regret_bound(rounds)) for learner in anytime) / known)
    assert min(ratios) > 1.0 and max(ratios) < math.sqrt(2) * math.sqrt(1.5)


@pytest.mark.statistical
@pytest.mark.parametrize("policy", POLICIES)
def test_experts_follow_their_law(policy: Any) -> None:
    """Each round's expert in simulated and in released runs, against 200,000 draws of its law by other code."""
    rounds, learner = 6, small(policy, experts=3)
    losses = np.random.default_rng(5).random((rounds, 3))
    drawn = learner.simulate(losses, np.random.default_rng(6), 20_000).actions
    noise = SimulationNoise(7)
    released = np.array([learner.release(losses, noise=noise) for _ in range(500)])
    spreads, rng = learner._spreads(0, rounds), np.random.default_rng(8)
    for t in range(rounds):
        seen = losses[:t].sum(axis=0) + spreads[t] * rng.standard_normal((200_000, 3))
        if policy == "leader":
            law = np.bincount(np.argmin(seen, axis=1), minlength=3) / len(seen)
        else:
            weights = np.exp(-bounds.falling_rate(t + 1, 3, spreads[t]) * (seen - seen.min(axis=1, keepdims=True)))
            law = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
        for runs in (drawn, released):
            expected = law * len(runs)
            spread = np.sqrt(expected * (1 - law) + len(runs) ** 2 * law * (1 - law) / len(seen))
            assert (np.abs(np.bincount(runs[:, t], minlength=3) - expected) < 6 * spread).all()
        wrong = np.bincount(drawn[:, t], minlength=3) - len(drawn) * (law + [0.05, -0.05, 0.0])
        assert (np.abs(wrong) > 6 * np.sqrt(len(drawn) / 4)).any()


def test_blocks_arrays_and_sessions_play_the_same() -> None:
    learner, rows = small("hedge", experts=3, rounds=13), np.random.default_rng(1).random((11, 3))
    whole = learner.release(rows, noise=SimulationNoise(2))
    assert whole.shape == (11,)
    for blocks in (np.split(rows, [1, 2, 9]), [rows[[t]] for t in range(11)]):
        np.testing.assert_array_equal(learner.release(iter(blocks), noise=SimulationNoise(2)), whole)
    np.testing.assert_array_equal(learner.release(rows.tolist(), noise=SimulationNoise(2)), whole)
    assert learner.release(iter([]), noise=SimulationNoise(2)).shape == (0,)
    with pytest.raises(InvalidArgumentError, match="exceed the 13 rounds"):
        learner.release((rows for _ in itertools.count()), noise=SimulationNoise(2))
    spoilt = rows.copy()
    spoilt[9, 1] = math.nan
    for bad in (spoilt, iter(np.split(spoilt, [4]))):
        with pytest.raises(InvalidArgumentError, match=r"losses\[9, 1\]"):
            learner.release(bad, noise=SimulationNoise(2))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: AnytimeTreeExperts(experts=1, scale=1.0), "experts"),
        (lambda: AnytimeTreeExperts(experts=2, scale=0.0), "scale"),
        (lambda: AnytimeTreeExperts(experts=2, scale=1.0, policy="best"), "policy"),
        (lambda: AnytimeTreeExperts(experts=2, scale=1.0, rounds=1), "rounds"),
        (lambda: AnytimeTreeExperts(experts=2, scale=1.0, rounds=2**30 + 1), "rounds"),
        (lambda: AnytimeTreeExperts.calibrated(experts=2, epsilon=-1.0, delta=1e-6), "epsilon"),
        (lambda: AnytimeTreeExperts.calibrated(experts=2, epsilon=1.0, delta=1e-6, group=0), "group"),
        (lambda: small("leader").regret_bound(0), "rounds"),
        (lambda: small("leader").regret_bound(401), "rounds"),
        (lambda: small("leader").regret_bound(adversary="adaptive"), "adversary"),
        (lambda: small("hedge").simulate(np.zeros((1, 2)), np.random.default_rng(1), 1), "losses"),
        (lambda: small("hedge").simulate(np.zeros((4, 3)), np.random.default_rng(1), 1), "losses"),
        (lambda: small("hedge").release(3), "losses"),
        (lambda: AnytimeTreeExperts(experts=2, scale=1.0).worst_case_neighbours(), "shape"),
    ],
)
def test_bad_arguments_are_refused(call: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()
