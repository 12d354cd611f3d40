"""Tests of private selection among known laws: the median trick, the plan, and the failure rate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.distribution.channels.all_channels import RandomizedLabels
from hockeystick.learners.distribution.channels.candidates import LabelDensities, LabelTable
from hockeystick.learners.distribution.channels.levels import UniformMixture
from hockeystick.learners.distribution.hypothesis_selection import (
    HypothesisSelection,
    batches_for,
    distances,
    median_estimate,
    nearest,
)
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.scheffe_selection import ScheffeSelection


def easy(experts: int) -> LabelTable:
    return LabelTable(0.5 / experts + 0.5 * np.eye(experts))


def plan(rounds: int, experts: int = 4, batches: int = 1, **parameters: Any) -> HypothesisSelection:
    learner = OnlineDistribution.build(easy(experts), rounds=rounds, **({"epsilon": 1.0} | parameters))
    return HypothesisSelection(learner=learner, batches=batches)


# --- the median trick ------------------------------------------------------------------------------------------------


def test_the_number_of_batches_is_hoeffdings() -> None:
    assert batches_for(0.1) == 42 and batches_for(0.01) == 83
    for beta in (0.5, 0.1, 1e-3, 1e-6):
        m = batches_for(beta)
        assert math.exp(-m / 18) <= beta < math.exp(-(m - 1) / 18)
        # Exactly: more than half of m batches are near, if each is with probability 2/3.
        assert stats.binom.cdf(m // 2, m, 2 / 3) <= beta
    # A mutant with a third of the batches fails more often than it says.
    assert stats.binom.cdf(batches_for(0.1) // 18, batches_for(0.1) // 9, 2 / 3) > 0.1


@given(seed=st.integers(0, 2**32 - 1), near=st.integers(1, 6), far=st.integers(0, 5), labels=st.integers(2, 5))
@settings(max_examples=80, deadline=None)
def test_a_majority_near_the_truth_decides(seed: int, near: int, far: int, labels: int) -> None:
    """For every minority of wrong estimates, the result is within three radii of the truth."""
    rng = np.random.default_rng(seed)
    if far >= near:
        far = near - 1
    truth = rng.dirichlet(np.ones(labels))
    mixed = [(1 - a) * truth + a * rng.dirichlet(np.ones(labels)) for a in rng.uniform(0, 0.3, near)]
    crowd = rng.dirichlet(np.full(labels, 0.2))
    estimates = np.array(mixed + [crowd] * far)
    radius = distances(np.array(mixed), truth[None]).max()
    place, within = median_estimate(estimates[rng.permutation(near + far)])
    assert within <= 2 * radius + 1e-12
    order = np.random.default_rng(seed + 1).permutation(near + far)
    chosen = estimates[order][median_estimate(estimates[order])[0]]
    assert distances(chosen[None], truth[None])[0, 0] <= 3 * radius + 1e-12
    assert place.shape == ()


def test_the_median_resists_outliers_and_the_mean_does_not() -> None:
    truth, wrong = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.0, 1.0])
    estimates = np.array([truth] * 4 + [wrong] * 3)
    assert distances(estimates[median_estimate(estimates)[0]][None], truth[None])[0, 0] == 0.0
    assert distances(estimates.mean(axis=0)[None], truth[None])[0, 0] > 0.4
    # Half is no majority: with m // 2 members a bare half that agrees would do, here the wrong one.
    estimates = np.array([wrong] * 2 + [truth, 0.99 * truth + 0.01 * wrong, 0.98 * truth + 0.02 * wrong])
    assert distances(estimates[median_estimate(estimates)[0]][None], truth[None])[0, 0] < 0.05


@given(seed=st.integers(0, 2**32 - 1), experts=st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_the_nearest_candidate_is_at_most_twice_as_far(seed: int, experts: int) -> None:
    rng = np.random.default_rng(seed)
    candidates, estimates = rng.dirichlet(np.ones(4), experts), rng.dirichlet(np.ones(4), (3, 2))
    found = nearest(estimates, candidates)
    apart = distances(estimates[..., None, :], candidates)[..., 0, :]
    assert found.shape == (3, 2) and (found == apart.argmin(axis=-1)).all()
    truth = candidates[0]
    error = distances(candidates[found][..., None, :], truth[None])[..., 0, 0]
    assert (error <= 2 * distances(estimates[..., None, :], truth[None])[..., 0, 0] + 1e-12).all()


def test_invalid_laws_are_refused() -> None:
    for bad in ([[0.5, 0.6]], [[-0.5, 1.5]], [[math.nan, 1.0]], 1.0, "x"):
        with pytest.raises(InvalidArgumentError):
            median_estimate(bad)
        with pytest.raises(InvalidArgumentError):
            nearest(bad, [[0.5, 0.5]])


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_plan_is_golden() -> None:
    """T for total variation 0.2 at epsilon 1: 4.2e5 for K = 4, 5.4e6 for K = 16, of the one-bit bound."""
    for experts, persons in ((4, 4.2e5), (16, 5.4e6)):
        found = HypothesisSelection.planned(easy(experts), alpha=0.2, beta=0.1, epsilon=1.0)
        assert found.learner.horizon == pytest.approx(persons, rel=0.02)
        assert found.expected_distance() <= 0.2 and found.failure() <= 0.1
        assert found.batches == 42 and found.persons == 42 * found.learner.horizon


def test_each_person_is_charged_for_one_message() -> None:
    selection = plan(1000, batches=42)
    found = selection.graph().guarantee().epsilon(1e-9).upper
    assert 1.0 - 1e-8 < found <= 1.0
    assert sum(node.name == "messages" for node in selection.graph().nodes) == 1


def test_invalid_plans_are_refused() -> None:
    learner = plan(100).learner
    contexts = OnlineDistribution.build(LabelTable(np.full((2, 2, 2), 0.5)), rounds=9, epsilon=1.0)
    endless = OnlineDistribution.build(LabelDensities.poisson([1.0, 2.0]), rounds=9, epsilon=1.0)
    whole: dict[str, Any] = {"learner": learner}
    for bad in ({"learner": 3}, {"learner": contexts}, {"learner": endless}, {"batches": 0}, {"batches": True}):
        with pytest.raises(InvalidArgumentError):
            HypothesisSelection(**(whole | bad))
    right: dict[str, Any] = {"candidates": easy(3), "alpha": 0.3, "beta": 0.1, "epsilon": 1.0}
    for change in ({"candidates": 3}, {"alpha": 0.0}, {"alpha": math.nan}, {"beta": 1.0}, {"epsilon": -1.0}):
        with pytest.raises(InvalidArgumentError):
            HypothesisSelection.planned(**(right | change))
    with pytest.raises(InvalidArgumentError):
        plan(100).simulate(0, np.random.default_rng(0), 0)


# --- trials ----------------------------------------------------------------------------------------------------------


def test_trials_are_independent_and_of_the_right_shape() -> None:
    found = plan(3000, batches=5).simulate(1, np.random.default_rng(2), 6)
    assert found.estimates.shape == (6, 5, 4) and found.estimate.shape == (6, 4)
    np.testing.assert_allclose(found.estimates.sum(axis=-1), 1.0)
    np.testing.assert_array_equal(found.estimate, found.estimates[np.arange(6), found.chosen])
    assert len(np.unique(found.estimates[..., 0])) == 30
    assert set(found.candidate.tolist()) <= {0, 1, 2, 3}


def test_estimates_come_nearer_with_more_persons() -> None:
    """F9. False alarm below 1e-6: 8 of 40 batches of 3e4 persons would have to miss, if one in 100 does."""
    assert stats.binom.sf(7, 40, 0.01) < 1e-6
    rng = np.random.default_rng(3)
    own: dict[str, Any] = {"reference": UniformMixture(calibrated=False)}
    distance = {}
    for rounds in (3000, 30_000):
        found = plan(rounds, **own).simulate(2, rng, 40)
        distance[rounds] = float(distances(found.estimate, easy(4).table()[2:3]).mean())
        assert distance[rounds] <= plan(rounds, **own).expected_distance()
    assert distance[30_000] < 0.75 * distance[3000]
    assert (found.candidate == 2).mean() > 0.8 and (found.by_mean_loss == 2).mean() > 0.8
    # The wrong truth is not found: a planted violation.
    assert (found.candidate == 1).mean() < 0.2


def test_randomised_labels_are_decoded_by_likelihood() -> None:
    found = plan(2000, batches=3, channel=RandomizedLabels).simulate(3, np.random.default_rng(4), 10)
    assert (found.by_mean_loss == 3).all() and (found.candidate == 3).all()


# --- the baseline ----------------------------------------------------------------------------------------------------


def test_on_easy_candidates_the_baseline_is_better() -> None:
    """K = 16, 3000 persons: 0.83 of the selections by pairs are right, 0.4 to 0.5 of those by one bit's mean losses.

    False alarm below 1e-6: 400 and 100 trials, each share within 5 standard errors of these.
    """
    rng = np.random.default_rng(8)
    pairs = ScheffeSelection(candidates=easy(16), epsilon=1.0, persons=3000).simulate(0, rng, 400)
    bits = plan(3000, 16, reference=UniformMixture(calibrated=False)).simulate(0, rng, 100, block=1).by_mean_loss
    assert (pairs == 0).mean() == pytest.approx(0.83, abs=5 * 0.019)
    assert 0.4 - 5 * 0.05 < (bits == 0).mean() < 0.5 + 5 * 0.05


# --- what is promised ------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_failures_keep_their_stated_rate() -> None:
    """Row 17: K = 4, alpha 0.3, beta 0.1, at the T of the one-bit bound.

    At alpha 0.3 to be within 9 alpha says nothing, so a trial counts as failed where the result is farther than the
    radius 3 alpha of a near batch, or names another candidate than the truth.

    False alarm below 1e-6: of 12 trials with failure probability 0.1 each, 9 or more would have to fail; and of 504
    batches with probability 1/3 each, 224 or more would have to be farther than 3 alpha.
    """
    assert stats.binom.sf(8, 12, 0.1) < 1e-6 and stats.binom.sf(223, 504, 1 / 3) < 1e-6
    truth, radius = easy(4).table()[:1], 3 * 0.3
    selection = HypothesisSelection.planned(easy(4), alpha=0.3, beta=0.1, epsilon=1.0)
    found = selection.simulate(0, np.random.default_rng(5), 12, block=20)
    assert selection.batches * 12 == 504
    far = distances(found.estimates.reshape(-1, 4), truth)[:, 0]
    assert far.mean() <= 0.3 and int((far > radius).sum()) < 224
    result = distances(found.estimate, truth)[:, 0]
    assert int(((result > radius) | (found.candidate != 0)).sum()) < 9
    # A planted violation: a selection of learners that learn nothing is far in every trial.
    idle = OnlineDistribution(channels=selection.learner.channels, rate=0.0)
    lost = HypothesisSelection(learner=idle, batches=3).simulate(0, np.random.default_rng(6), 12, block=1000)
    assert (distances(lost.estimate, truth)[:, 0] > 0.3).all() and (far < 0.3).mean() > 0.9


def test_each_batch_of_a_selection_has_a_shuffler_of_its_own() -> None:
    whole = plan(500, batches=3)
    found = whole.shuffled_graph().guarantee().epsilon(1e-6)
    assert found == whole.learner.shuffled_graph(rounds=500).guarantee().epsilon(1e-6)
    assert found.upper > whole.learner.shuffled_graph(rounds=1500).guarantee().epsilon(1e-6).upper
