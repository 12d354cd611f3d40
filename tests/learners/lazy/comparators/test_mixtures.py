"""Tests of published mixtures: they are the laws of the experts drawn, and their regret is within the bound."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError, Ledger
from hockeystick.audits.catalogue.lazy.mixtures import Mixtures
from hockeystick.learners import (
    AnytimeTreeExperts,
    LazyExperts,
    LimitedUpdates,
    NoisyHedge,
    PrivateFTRL,
    TreeExperts,
)
from hockeystick.learners.common.online_learner import RefusedMethodError
from hockeystick.learners.lazy import Ball
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
LOSSES = np.random.default_rng(1).random((12, 3))


def hedge(**given: Any) -> TreeExperts:
    return TreeExperts(**{"rounds": 12, "experts": 3, "scale": 1.5, "learning_rate": 0.7, **given})


@pytest.mark.parametrize(
    "learner", [hedge(), hedge(spread=9.0, sums="square root"), hedge(learning_rate=None, perturbation=2.0)]
)
def test_a_release_of_mixtures_is_the_release_of_experts_with_more_shown(learner: TreeExperts) -> None:
    ledger = Ledger(learner.graph())
    run = learner.release_mixtures(LOSSES, ledger=ledger, name="prefix sums", noise=SimulationNoise(3))
    assert ledger.recorded("prefix sums") == 1 and run.actions is not None
    np.testing.assert_array_equal(run.actions, learner.release(LOSSES, noise=SimulationNoise(3)))
    np.testing.assert_allclose(run.mixtures.sum(axis=1), 1.0, rtol=1e-12)
    assert run.mixtures.shape == LOSSES.shape and run.sums.shape == (11, 3)
    assert np.abs(run.sums - np.cumsum(LOSSES[:-1], axis=0)).max() < 6 * math.sqrt(4) * 1.5
    if learner.learning_rate is None:
        np.testing.assert_array_equal(run.mixtures, np.eye(3)[run.actions])
    elif learner.spread is None:  # the odds are those of the sums
        np.testing.assert_allclose(np.diff(np.log(run.mixtures[1:])), -0.7 * np.diff(run.sums), atol=1e-9)


@pytest.mark.parametrize("learner", [hedge(), hedge(spread=9.0), hedge(learning_rate=None)])
def test_a_session_shows_the_mixture_of_its_release_before_each_draw(learner: TreeExperts) -> None:
    run = learner.release_mixtures(LOSSES, noise=SimulationNoise(4))
    session = learner.start(noise=SimulationNoise(4))
    for losses, mixture in zip(LOSSES, run.mixtures, strict=True):
        np.testing.assert_array_equal(session.mixture(), mixture)
        again = learner.resume(json.loads(json.dumps(session.checkpoint())), noise=SimulationNoise(5))
        np.testing.assert_array_equal(again.mixture(), mixture)
        session.update(losses)
    with pytest.raises(InvalidArgumentError):
        learner.resume({**session.checkpoint(), "read": [0.0]}, noise=SimulationNoise(5))


def test_many_clients_see_the_mean_sums() -> None:
    learner = NoisyHedge(clients=4, rounds=12, experts=3, scale=2.0)
    losses = np.random.default_rng(2).random((4, 12, 3))
    run = learner.release_mixtures(losses, noise=SimulationNoise(3))
    np.testing.assert_array_equal(run.mixtures, learner.release(losses, noise=SimulationNoise(3)))
    np.testing.assert_allclose(np.diff(np.log(run.mixtures[1:])), -learner.rate * np.diff(run.sums), atol=1e-9)
    assert run.actions is None
    session = learner.start(noise=SimulationNoise(3))
    np.testing.assert_array_equal(session.mixture(), session.predict())


def test_learners_that_draw_from_exact_weights_refuse_with_the_reason() -> None:
    lazy = LazyExperts(rounds=5, experts=3, learning_rate=0.1, fake_switch_probability=0.2)
    for learner in (lazy, LimitedUpdates(rounds=5, experts=3, learning_rate=0.1)):
        session = learner.start(noise=SimulationNoise(1))
        with pytest.raises(RefusedMethodError, match="has no mixture: it draws from weights of exact losses"):
            session.mixture()
    points = PrivateFTRL(rounds=5, domain=Ball(2, 1.0), lipschitz=1.0, scale=1.0).start(noise=SimulationNoise(1))
    with pytest.raises(RefusedMethodError, match="points"):
        points.mixture()


@pytest.mark.statistical
def test_experts_are_drawn_from_the_mixture() -> None:
    """Of 20,000 runs the experts of round 6, in ten classes of their mixture's first weight."""
    learner = hedge(spread=4.0)
    session = learner.start(noise=SimulationNoise(6))
    sums = np.random.default_rng(7).normal(size=(20_000, 1, 3)) * 1.5
    read = learner._padded(sums, 6, session._coins)[:, 0]
    mixtures, drawn = learner._mixtures_of(read), learner._actions_of(read, 6, session._coins)
    for expert in range(3):
        excess = (drawn == expert) - mixtures[:, expert]
        scores = excess * np.sign(mixtures[:, expert] - 1 / 3), excess
        for score in scores:
            deviation = math.sqrt((mixtures[:, expert] * (1 - mixtures[:, expert])).sum())
            assert abs(score.sum()) < stats.norm.isf(FALSE_ALARM / 12) * deviation
    uniform = (drawn == 0) - 1 / 3  # the planted mistake: a mixture that ignores the sums
    assert abs((uniform * np.sign(mixtures[:, 0] - 1 / 3)).sum()) > 6 * math.sqrt(20_000 * 2 / 9)


def _trapped(learner: TreeExperts, seed: int) -> float:
    """The regret of the mixtures if experts lose whose weight is above that without noise, as an adversary may know."""
    session, lost, totals = learner.start(noise=SimulationNoise(seed)), 0.0, np.zeros(learner.experts)
    for _ in range(learner.rounds):
        mixture = session.mixture()
        fair = special.softmax(-0.1 * totals)
        losses = (mixture > fair).astype(float)
        lost, totals = lost + mixture @ losses, totals + losses
        session.update(losses)
    return float(lost - totals.min())


@pytest.mark.parametrize("scale", [1e-6, 0.5])
def test_bounds_hold_against_an_adversary_that_reads_the_mixture_of_the_round(scale: float) -> None:
    learner = TreeExperts(rounds=120, experts=3, scale=scale).following("adaptive hedge")
    bound = learner.regret_bound(adversary="adaptive")
    assert not bound.vacuous and max(_trapped(learner, seed) for seed in range(2)) <= bound
    leader = learner.following("bare leader")  # the planted mistake: a point mass is not steady
    assert _trapped(leader, 1) > bound


@pytest.mark.statistical
def test_the_ratio_of_mixtures_has_the_exact_law_of_the_sums() -> None:
    """On opposite halves the likelihood ratio of the mixtures is normal, with a variance μ² twice its mean."""
    view = Mixtures(TreeExperts(rounds=9, experts=4, scale=3.0, sums="square root", learning_rate=0.5))
    first, second = view.worst_case_neighbours()
    ratio = view.log_likelihood_ratio(view.simulate(first, np.random.default_rng(1), 20_000), first, second)
    mu = math.sqrt(2 * view.learner.event().zcdp_rho())
    assert stats.kstest((ratio - mu**2 / 2) / mu, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("policy", ["hedge", "leader"])
def test_an_unknown_horizon_has_mixtures_as_long_as_its_losses(policy: Any) -> None:
    learner = AnytimeTreeExperts(experts=3, scale=1.5, policy=policy)
    run = learner.release_mixtures(iter(np.split(LOSSES, [1, 5])), noise=SimulationNoise(3))
    assert run.actions is not None and run.mixtures.shape == LOSSES.shape and run.sums.shape == (11, 3)
    np.testing.assert_array_equal(run.actions, learner.release(LOSSES, noise=SimulationNoise(3)))
    session = learner.start(noise=SimulationNoise(3))
    for losses, mixture in zip(LOSSES, run.mixtures, strict=True):
        np.testing.assert_allclose(session.mixture(), mixture, atol=1e-12)
        session.update(losses)
    assert (policy == "leader") == bool((run.mixtures.max(axis=1) == 1.0).all())
    np.testing.assert_allclose(run.mixtures.sum(axis=1), 1.0)
