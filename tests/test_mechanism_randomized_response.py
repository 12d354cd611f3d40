"""Randomised response: the law it simulates, the cost it states, and frequencies estimated from reports."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from hockeystick import accounting
from hockeystick.mechanisms import RandomizedResponse

FALSE_ALARM = 1e-6
RUNS = 100_000


def law(epsilon: float, categories: int, truth: int) -> NDArray[np.float64]:
    weights = np.ones(categories)
    weights[truth] = math.exp(epsilon)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize(("epsilon", "categories"), [(1.0, 2), (0.3, 5), (3.0, 4), (0.0, 3)])
def test_simulated_reports_follow_the_law(epsilon: float, categories: int) -> None:
    truth = categories - 1
    reports = RandomizedResponse(epsilon, categories=categories).simulate(truth, np.random.default_rng(501), RUNS)
    assert reports.shape == (RUNS,)
    observed = np.bincount(reports, minlength=categories)
    assert stats.chisquare(observed, RUNS * law(epsilon, categories, truth)).pvalue > FALSE_ALARM
    for off in (-0.1, 0.1):
        assert stats.chisquare(observed, RUNS * law(epsilon + off, categories, truth)).pvalue < FALSE_ALARM


def test_every_person_is_randomised_alone() -> None:
    truth = np.array([[0, 1], [2, 2]])
    reports = RandomizedResponse(1.0, categories=3).simulate(truth, np.random.default_rng(502), RUNS)
    assert reports.shape == (RUNS, 2, 2)
    marginals = [law(1.0, 3, int(t)) for t in truth.ravel()]
    joint = np.bincount((3 * reports[:, 1, 0] + reports[:, 1, 1]), minlength=9)
    assert stats.chisquare(joint, RUNS * np.outer(marginals[2], marginals[3]).ravel()).pvalue > FALSE_ALARM
    shared = np.bincount(4 * reports[:, 1, 0], minlength=9)  # the same report twice
    assert stats.chisquare(shared, RUNS * np.outer(marginals[2], marginals[3]).ravel()).pvalue < FALSE_ALARM


@settings(max_examples=40)
@given(st.floats(0, 6), st.integers(2, 30), st.floats(0, 7))
def test_cost_is_the_exact_profile(epsilon: float, categories: int, at: float) -> None:
    p, q = law(epsilon, categories, 0), law(epsilon, categories, 1)
    truth = np.maximum(p - math.exp(at) * q, 0).sum()
    stated = accounting.delta(RandomizedResponse(epsilon, categories=categories).event(), at).upper
    assert truth <= stated + 1e-12
    assert stated <= truth * (1 + 1e-3) + 1e-9


def test_twice_the_odds_are_not_covered() -> None:
    p, q = law(2.0, 4, 0), law(2.0, 4, 1)
    stated = accounting.delta(RandomizedResponse(1.0, categories=4).event(), 1.0).upper
    assert np.maximum(p - math.e * q, 0).sum() > stated + 0.1


def test_event_is_one_persons_answer() -> None:
    event = RandomizedResponse(0.7, categories=6).event()
    assert event == accounting.RandomizedResponse(0.7, 6)
    assert event.at(1) == event
    assert not event.accepts(accounting.Adjacency.ADD_OR_REMOVE_ONE)


def test_log_likelihood_ratio_is_that_of_the_law() -> None:
    mechanism = RandomizedResponse(1.3, categories=4)
    expected = np.log(law(1.3, 4, 2) / law(1.3, 4, 0))
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(np.arange(4), 2, 0), expected, atol=1e-12)
    pair = mechanism.log_likelihood_ratio([[0, 2], [3, 3]], [0, 0], [1, 2])
    np.testing.assert_allclose(pair, [0.0, 0.0], atol=1e-12)  # +1.3 − 1.3, and neither


def test_frequencies_are_unbiased() -> None:
    """The estimate is linear in the reports, so its value at the expected reports is its expectation."""
    mechanism = RandomizedResponse(math.log(3.0), categories=3)  # truth 3/5, each other 1/5
    reports = np.repeat([0, 1, 2], [44, 28, 28])  # expected among 100 if 60 hold 0, 20 hold 1 and 20 hold 2
    np.testing.assert_allclose(mechanism.frequencies(reports), [0.6, 0.2, 0.2])


@pytest.mark.parametrize("categories", [2, 10])
def test_accuracy_holds_as_often_as_stated(categories: int) -> None:
    mechanism = RandomizedResponse(1.0, categories=categories)
    beta, runs = 0.05, 20_000
    radius = mechanism.accuracy(beta, respondents=200)
    reports = mechanism.simulate(np.zeros(200, dtype=int), np.random.default_rng(503), runs)
    counts = np.stack([(reports == c).sum(axis=1) for c in range(categories)], axis=1)
    each = law(1.0, categories, 0)
    estimates = (counts / 200 - each[1]) / (each[0] - each[1])
    np.testing.assert_allclose(mechanism.frequencies(reports[0]), estimates[0])
    error = np.abs(estimates - np.eye(categories)[0]).max(axis=1)
    assert stats.binomtest(int((error > radius).sum()), runs, beta, alternative="greater").pvalue > FALSE_ALARM
    assert stats.binomtest(int((error > radius / 3).sum()), runs, beta, alternative="greater").pvalue < FALSE_ALARM


def test_pure_noise_estimates_nothing() -> None:
    with pytest.raises(accounting.InvalidArgumentError, match="epsilon"):
        RandomizedResponse(0.0).frequencies([0, 1])
    with pytest.raises(accounting.InvalidArgumentError, match="epsilon"):
        RandomizedResponse(0.0).accuracy(0.1, respondents=5)


def test_certainty_is_taken() -> None:
    reports = RandomizedResponse(800.0, categories=3).simulate([0, 1, 2], np.random.default_rng(504), 100)
    assert (reports == [0, 1, 2]).all()
