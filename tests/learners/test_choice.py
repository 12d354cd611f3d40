"""Tests of the choice among private learners of experts: its targets, its order, and the losses that it is for."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from samples import diagonal

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import (
    Anytime,
    LazyExperts,
    MultiplicativeWeights,
    NoisyHedge,
    RegretBound,
    TreeExperts,
    choose,
)

GOAL: dict[str, Any] = {"epsilon": 0.5, "delta": 1e-6}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rounds", "experts", "adversary"),
    diagonal([(2, 2), (300, 7), (20_000, 2)], ["oblivious", "adaptive", "stochastic"]),
)
def test_the_least_bound_is_first_and_every_candidate_meets_the_target(rounds, experts, adversary):
    found = choose(rounds=rounds, experts=experts, **GOAL, adversary=adversary)
    bounds = [candidate.bound for candidate in found.candidates]
    assert bounds == sorted(bounds) and found.bound is bounds[0] and found.learner is found.candidates[0].learner
    assert all(bound.adversary == adversary and bound <= rounds for bound in bounds)
    for candidate in found.candidates:
        assert candidate.learner.graph().guarantee().epsilon(1e-6).upper <= 0.5
        assert candidate.bound == candidate.learner.regret_bound(adversary=adversary)
        assert f"{candidate.name}: " in str(found)


@pytest.mark.statistical
def test_bounds_of_a_million_rounds():
    """Hedge 1116 with buffers and 1329 with a tree, dartboard 1965; against adaptive losses Hedge with fresh draws."""
    names = {c.name: c.bound for c in choose(rounds=10**6, experts=10, **GOAL).candidates}
    expected = {"Hedge on noisy sums (buffered)": 1116.0, "Hedge on noisy sums (tree)": 1329.4}
    assert list(names)[:2] == list(expected)
    expected |= {"leader of noisy sums (tree)": 1538.7, "dartboard": 1965.2}
    assert [names[name] for name in expected] == pytest.approx(list(expected.values()), rel=1e-3)
    adaptive = choose(rounds=10**6, experts=10, **GOAL, adversary="adaptive")
    assert float(adaptive.bound) == pytest.approx(19_995, rel=1e-3)
    assert isinstance(adaptive.learner, LazyExperts) and adaptive.learner.fake_switch_probability == 1.0
    assert not any("dartboard" in candidate.name for candidate in adaptive.candidates)


def test_targets_hold_for_groups():
    found = choose(rounds=64, experts=2, **GOAL, group=2)
    assert len(found.candidates) == 7 and not found.refused
    for candidate in found.candidates:
        assert candidate.learner.graph().guarantee(group=2).epsilon(1e-6).upper <= 0.5


@pytest.mark.statistical
def test_restarts_are_best_for_many_experts_and_unknown_rounds():
    goal: dict[str, Any] = {"rounds": 500, "experts": 300, "epsilon": 2.0, "delta": 1e-6, "horizon": "unknown"}
    found = choose(**goal)
    assert [c.name for c in found.candidates][0] == "dartboard, restarted" and len(found.candidates) == 3
    learner = found.learner
    assert isinstance(learner, Anytime) and learner.rounds >= 2000 and found.bound == learner.regret_bound(500)
    assert found.bound < 0.8 * found.candidates[1].bound and learner.guarantee().epsilon(1e-6).upper <= 2.0
    assert "dartboard, restarted" in choose(**goal, mixtures=True).refused
    assert len(choose(**goal, adversary="adaptive").candidates) == 1


def test_limited_updates_are_for_stochastic_losses():
    names = [c.name for c in choose(rounds=64, experts=2, **GOAL, adversary="stochastic").candidates]
    assert "limited updates" in names
    assert "limited updates" not in [c.name for c in choose(rounds=64, experts=2, **GOAL).candidates]


@pytest.mark.statistical
def test_losses_that_follow_the_play_break_the_oblivious_bound_and_are_refused():
    """The expert just played loses 1: a lazy learner keeps it, and loses in nearly every round."""
    learner = LazyExperts.calibrated(rounds=4096, experts=4, epsilon=1.0, delta=1e-6)
    rng, rounds, total, played = np.random.default_rng(1), learner.rounds, np.zeros(4), 0
    lost = 0.0
    for t in range(rounds):
        loss = np.eye(4)[played]
        lost += loss[played]
        total += loss
        keep = (1.0 - learner.fake_switch_probability) * math.exp(-learner.learning_rate * loss[played])
        if (t + 1) % learner.batch == 0 and rng.random() >= keep:
            weights = np.exp(-learner.learning_rate * (total - total.min()))
            played = int(rng.choice(4, p=weights / weights.sum()))
    assert lost - total.min() > 20 * learner.regret_bound()
    for refused in (learner, TreeExperts.calibrated(rounds=64, experts=4, epsilon=1.0, delta=1e-6, policy="leader")):
        with pytest.raises(InvalidArgumentError, match="adversary"):
            refused.regret_bound(adversary="adaptive")
    with pytest.raises(InvalidArgumentError, match="adversary"):
        LazyExperts.calibrated(rounds=64, experts=4, **GOAL, variant="l2p", adversary="adaptive")


def streams(rounds, experts):
    """Coins, turns, round robin, a trap for leaders, and a late hero."""
    t, rng = np.arange(rounds)[:, None], np.random.default_rng(3)
    yield (rng.random((rounds, experts)) < np.linspace(0.4, 0.6, experts)).astype(float)
    yield ((t // 20 + np.arange(experts)) % 2).astype(float)
    yield (t % experts == np.arange(experts)).astype(float)
    trap = ((t + np.arange(experts)) % 2).astype(float)
    trap[0] = 0.5 * (np.arange(experts) == 0)
    yield trap
    hero = np.ones((rounds, experts))
    hero[rounds // 2 :, 0] = 0.0
    yield hero


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rounds", "experts", "epsilon"), [(200, 2, 1.0), pytest.param(300, 5, 4.0, marks=pytest.mark.deep)]
)
def test_no_stream_costs_more_than_the_bound(rounds, experts, epsilon):
    """Exact regrets where there is a closed form; else 6 standard deviations of 500 runs."""
    for candidate in choose(rounds=rounds, experts=experts, epsilon=epsilon, delta=1e-6).candidates:
        learner = candidate.learner
        for losses in streams(rounds, experts):
            if isinstance(learner, TreeExperts) and learner.learning_rate is not None:
                played = learner.simulate(losses, np.random.default_rng(4), 500).actions.astype(int)
                found = losses[np.arange(rounds), played].sum(axis=1) - losses.sum(axis=0).min()
                regret = found.mean() - 6 * found.std() / math.sqrt(len(found))
            elif getattr(learner, "draw_budget", None) == 0:
                regret = losses.mean(axis=1).sum() - losses.sum(axis=0).min()
            else:
                regret = learner.expected_regret(losses)
            assert regret <= candidate.bound


def test_a_bound_is_a_number_that_says_what_it_holds_for():
    bound = MultiplicativeWeights(rounds=100, experts=2).regret_bound(adversary="adaptive")
    assert bound == pytest.approx(math.sqrt(50 * math.log(2))) and bound.adversary == "adaptive" and not bound.vacuous
    vacuous = RegretBound(200.0, most=100, adversary="stochastic")
    again = pickle.loads(pickle.dumps(vacuous))
    assert (float(again), again.adversary, again.vacuous) == (100.0, "stochastic", True)
    assert bound.probability is None and again.probability is None
    likely = RegretBound(2.0, most=100, adversary="stochastic", probability=0.75)
    assert copy.deepcopy(likely).probability == 0.75
    hedge = NoisyHedge.calibrated(clients=9, rounds=64, experts=3, epsilon=1.0)
    assert hedge.regret_bound(0.25).probability == 0.75 and hedge.regret_bound().probability is None
    with pytest.raises(InvalidArgumentError, match="probability"):
        RegretBound(2.0, most=100, adversary="stochastic", probability=1.5)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("rounds", 1), ("experts", 1), ("epsilon", 0.0), ("delta", 0.0), ("delta", math.nan), ("adversary", "kind")],
)
def test_bad_arguments_are_refused(argument, value):
    with pytest.raises(InvalidArgumentError, match=argument):
        choose(**({"rounds": 10, "experts": 2, **GOAL} | {argument: value}))
