"""Tests of the regret bounds on noisy sums, against the worst stream of two experts by dynamic programming."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from samples import diagonal
from scipy import integrate, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import TreeExperts
from hockeystick.learners.common.prefix_sums import largest_variance, mechanism_of
from hockeystick.learners.experts import noisy_sum_bounds as bounds
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
GOAL: dict[str, Any] = {"rounds": 9, "experts": 2, "epsilon": 1.0, "delta": 1e-6}


def worst_regret(rounds, leads):
    """The largest expected regret over all streams of two experts with losses 0 and 1, one of which is 1 in each round.

    ``leads`` maps the gap L_1 - L_2 of total losses to the probability of expert 1. (Rounds with equal losses change
    neither the gap nor the regret.)
    """
    gaps = np.arange(-rounds, rounds + 1)
    first = leads(gaps.astype(float))
    value = -(rounds - np.abs(gaps)) / 2.0  # minus the smaller total
    for _ in range(rounds):
        up, down = np.append(value[1:], -np.inf), np.append(-np.inf, value[:-1])
        value = np.maximum(first + up, (1.0 - first) + down)
    return value[rounds]


@pytest.mark.parametrize(("rounds", "spread"), [(20, 1.0), (100, 5.0), (400, 10.0), (400, 40.0)])
def test_no_stream_of_two_experts_beats_the_leaders_bound(rounds, spread):
    worst = worst_regret(rounds, lambda gap: stats.norm.cdf(-gap / (spread * math.sqrt(2))))
    assert 0.5 * bounds.leader(rounds, 2, spread) < worst <= bounds.leader(rounds, 2, spread)


@pytest.mark.parametrize(("rounds", "spread"), [(20, 1.0), (400, 5.0), (400, 40.0)])
def test_no_stream_of_two_experts_beats_hedges_bounds(rounds, spread):
    rate = bounds.best_rate(rounds, 2, spread)
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()

    def leads(gap):
        return (weight / (1.0 + np.exp(rate * (gap[:, None] + spread * math.sqrt(2) * z)))).sum(axis=1)

    worst = worst_regret(rounds, leads)
    assert 0.4 * bounds.hedge(rounds, 2, spread, rate) < worst <= bounds.hedge(rounds, 2, spread, rate)
    assert worst <= bounds.adaptive_hedge(rounds, 2, spread, rate)


def test_a_leader_with_too_little_noise_exceeds_the_bound_of_more():
    """The planted mistake: the bound at a larger spread than the noise has."""
    worst = worst_regret(400, lambda gap: stats.norm.cdf(-gap / (0.1 * math.sqrt(2))))
    assert worst > bounds.leader(400, 2, 10.0)


def worst_discounted_regret(rounds, discount, leads):
    """As ``worst_regret`` over all 2^rounds streams, with weights discount^age; ``leads`` maps the discounted gap."""
    steps = np.array(list(itertools.product([-1.0, 1.0], repeat=rounds)))  # of the gap of losses, expert 2 - expert 1
    gap, own = np.zeros((2, len(steps)))
    for step in steps.T:
        own = discount * own + (1.0 - leads(-discount * gap)) * step  # the excess over expert 1
        gap = discount * gap + step
    return float((own - np.minimum(gap, 0.0)).max())


@pytest.mark.parametrize("discount", [0.5, 0.9])
@pytest.mark.parametrize("spread", [0.3, 1.0, 2.5])
def test_no_stream_beats_the_discounted_bounds(discount, spread):
    weight, z = (1 - discount**11) / (1 - discount), np.polynomial.hermite_e.hermegauss(40)
    rate = bounds.best_rate(weight, 2, spread)

    def leader(gap):
        return stats.norm.cdf(-gap / (spread * math.sqrt(2)))

    def hedge(gap):
        return (1.0 / (1.0 + np.exp(rate * (gap[:, None] + spread * math.sqrt(2) * z[0])))) @ (z[1] / z[1].sum())

    worst = worst_discounted_regret(11, discount, leader)
    assert 0.4 * bounds.leader(weight, 2, spread) < worst <= bounds.leader(weight, 2, spread)
    assert worst > bounds.leader(weight / 3, 2, spread) or spread > 1  # the planted mistake: too few rounds
    worst = worst_discounted_regret(11, discount, hedge)
    assert 0.3 * bounds.hedge(weight, 2, spread, rate) < worst <= bounds.hedge(weight, 2, spread, rate)
    assert worst <= bounds.adaptive_hedge(weight, 2, spread, rate)


def test_the_worst_stream_without_a_discount_is_that_of_dynamic_programming():
    def leads(gap):
        return stats.norm.cdf(-gap / math.sqrt(2))

    assert worst_discounted_regret(10, 1.0, leads) == pytest.approx(worst_regret(10, leads))


@pytest.mark.parametrize("count", [2, 3, 10, 1000, 10**9])
def test_expected_maximum_is_the_mean_of_its_density(count):
    def density(x):
        return x * count * math.exp(stats.norm.logpdf(x) + (count - 1) * stats.norm.logcdf(x))

    exact = integrate.quad(density, -10, 40, limit=500, points=[0, math.sqrt(2 * math.log(count))], epsabs=1e-12)[0]
    assert exact <= bounds.expected_maximum(count) <= exact + 1e-7


def test_rates_and_spreads_are_the_best():
    """Hedge's bound falls to the leader's as the rate grows without end; of finite minima the rate is the least."""
    for shape in [(100, 2, 0.5), (1000, 10, 30.0), (10**6, 100, 800.0)]:
        rounds, _, spread = shape
        rate = bounds.best_rate(*shape)
        grid = np.geomspace(rate / 100, rate * 100, 2001)
        least = min(bounds.hedge(*shape, r) for r in grid)
        assert min(bounds.hedge(*shape, rate), bounds.leader(*shape)) <= least
        least = min(bounds.adaptive_hedge(*shape, r) for r in grid)
        assert bounds.adaptive_hedge(*shape, bounds.best_adaptive_rate(*shape)) <= least * 1.001
        best = bounds.best_leader_spread(rounds, spread)
        wider = np.geomspace(spread, 100 * best, 500)
        least = min(bounds.leader(*shape[:2], s) for s in wider)
        assert best >= spread and bounds.leader(*shape[:2], best) <= least * (1 + 1e-12)


@pytest.mark.parametrize("sums", ["tree", "square root"])
def test_the_largest_variance_is_that_of_some_prefix(sums):
    for rounds in range(2, 70):
        mechanism = mechanism_of(sums, rounds, 3.0, 1.0)
        found = mechanism.scale**2 * largest_variance(mechanism)
        assert found == pytest.approx(mechanism.variances().max(), rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(("sums", "policy"), diagonal(["tree", "square root"], ["leader", "hedge", "adaptive hedge"]))
def test_padded_experts_follow_their_law(sums, policy):
    """Each round's expert by its marginal law, in simulated and in released runs; the law by quadrature or sampling."""
    losses, rounds = np.random.default_rng(5).random((6, 3)), 6
    learner = TreeExperts(rounds=rounds, experts=3, scale=0.7, sums=sums).following(policy)
    noise = SimulationNoise(7)
    released = np.array([learner.release(losses, noise=noise) for _ in range(1000)])
    drawn = learner.simulate(losses, np.random.default_rng(6), 20_000).actions
    before = np.concatenate([np.zeros((1, 3)), np.cumsum(losses[:-1], axis=0)])
    spreads = np.sqrt(np.append(0.0, learner.mechanism.variances()))
    for t in range(rounds):
        spread = spreads[t] if learner.spread is None else learner.spread
        seen = before[t] + spread * np.random.default_rng(8).standard_normal((200_000, 3))
        if policy == "leader":
            law = learner.marginals(losses)[t]
            assert abs((np.argmin(seen, axis=1) == 0).mean() - law[0]) < 0.007
        else:
            assert learner.learning_rate is not None
            weights = np.exp(-learner.learning_rate * (seen - seen.min(axis=1, keepdims=True)))
            law = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)  # off by under 0.001
        for runs in (drawn, released):
            counts = np.bincount(runs[:, t].astype(int), minlength=3)
            assert stats.chisquare(counts, law / law.sum() * len(runs)).pvalue > FALSE_ALARM


def test_what_has_no_bound_or_no_law_is_refused():
    bare = TreeExperts(rounds=9, experts=2, scale=2.0)
    hedge = bare.following("hedge")
    for call, name in [
        (lambda: bare.regret_bound(), "spread"),
        (lambda: bare.regret_bound(adversary="adaptive"), "adversary"),
        (lambda: hedge.expected_regret(np.zeros((9, 2))), "learning_rate"),
        (lambda: TreeExperts(rounds=9, experts=2, scale=2.0, spread=2.0), "spread"),
        (lambda: TreeExperts(rounds=9, experts=2, scale=2.0, spread=9.0, perturbation=1.0), "perturbation"),
        (lambda: TreeExperts(rounds=9, experts=2, scale=2.0, learning_rate=0.0), "learning_rate"),
        (lambda: TreeExperts.calibrated(**GOAL, policy="hedge", perturbation=1.0), "perturbation"),
        (lambda: bare.following("none"), "policy"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(InvalidArgumentError, match=name):
            call()
    assert hedge.regret_bound(adversary="adaptive") >= hedge.regret_bound()


def test_a_perturbation_is_noise_in_the_bound_against_adaptive_losses():
    wide = TreeExperts(rounds=900, experts=2, scale=0.1, learning_rate=0.01, perturbation=9.0)
    spread = math.hypot(TreeExperts(rounds=900, experts=2, scale=0.1)._least_spread(), 9.0)
    assert wide.regret_bound() >= bounds.adaptive_hedge(900, 2, spread, 0.01)
    assert TreeExperts.calibrated(**GOAL, perturbation=1.0).learning_rate is None
