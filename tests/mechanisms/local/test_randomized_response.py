"""Tests of randomised response: its law, its cost, and frequencies estimated from reports."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from numpy.typing import NDArray
from scipy import stats
from scored import ReleasedAtOnce

from hockeystick import accounting
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import RandomizedResponse, ReleaseNoise, SimulationNoise
from hockeystick.mechanisms.local.randomized_response import lie_probability, lies

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
    truth = hockey_stick(p, q, at)
    stated = accounting.delta(RandomizedResponse(epsilon, categories=categories).event(), at).upper
    assert truth <= stated + 1e-12
    assert stated <= truth * (1 + 1e-3) + 1e-9


def test_twice_the_odds_are_not_covered() -> None:
    p, q = law(2.0, 4, 0), law(2.0, 4, 1)
    stated = accounting.delta(RandomizedResponse(1.0, categories=4).event(), 1.0).upper
    assert hockey_stick(p, q, 1.0) > stated + 0.1


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


@pytest.mark.statistical
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


def test_a_huge_epsilon_reports_the_truth() -> None:
    reports = RandomizedResponse(800.0, categories=3).simulate([0, 1, 2], np.random.default_rng(504), 100)
    assert (reports == [0, 1, 2]).all()


# Releases -------------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.one_of(st.floats(0, 30), st.sampled_from([0.0, 1e-100, 1e-17, 1e-9, 120.0])), st.integers(2, 10**9))
def test_released_odds_never_exceed_the_stated_ones_and_barely_stay_below(epsilon, categories) -> None:
    lie = lie_probability(epsilon, categories)
    odds = (1 - lie) * (categories - 1) / lie  # each of the others has its equal share of the lies
    with mp.workdps(150):
        exact, found = mp.exp(mp.mpf(epsilon)), mp.mpf(odds.numerator) / odds.denominator
        assert 1 <= found <= exact
        assert found >= exact * (1 - mp.mpf(10) ** -40) or epsilon > 30
    assert float(lie) == pytest.approx(RandomizedResponse(epsilon, categories=categories).lie_probability(), rel=1e-12)


def test_odds_without_an_exact_coin_are_rounded_down() -> None:
    for epsilon in (150.0, 1e5, 2.0**31, 1e100):  # the exact e^(−2^31) has three billion bits
        assert Fraction(0) < lie_probability(epsilon, 3) <= Fraction(1, 2**191)


class Spy(SimulationNoise):
    """Notes with which probabilities coins are tossed."""

    seen: ClassVar[list[object]] = []

    def coins(self, probability, count):
        self.seen.append(probability)
        return super().coins(probability, count)


def test_coins_are_tossed_with_the_rational_probability() -> None:
    Spy.seen.clear()
    RandomizedResponse(0.7, categories=5).release([1, 2], noise=Spy(1))
    assert Spy.seen == [lie_probability(0.7, 5)]


@pytest.mark.parametrize(("epsilon", "categories"), [(1.0, 2), (0.3, 5), (3.0, 4), (0.0, 3)])
@pytest.mark.parametrize("secure", [True, False])
def test_released_reports_follow_the_law(epsilon, categories, secure) -> None:
    truth, draws = categories - 1, 20_000 if secure else RUNS
    noise = ReleaseNoise() if secure else SimulationNoise(505)
    reports = RandomizedResponse(epsilon, categories=categories).release(np.full(draws, truth), noise=noise)
    assert reports.shape == (draws,) and reports.dtype == np.int64
    observed = np.bincount(reports, minlength=categories)
    assert stats.chisquare(observed, draws * law(epsilon, categories, truth)).pvalue > FALSE_ALARM
    if not secure:
        for off in (-0.1, 0.1):
            assert stats.chisquare(observed, draws * law(epsilon + off, categories, truth)).pvalue < FALSE_ALARM


def test_released_persons_are_randomised_alone() -> None:
    truth = np.tile([2, 0], (RUNS, 1))
    reports = RandomizedResponse(1.0, categories=3).release(truth, noise=SimulationNoise(506))
    joint = np.bincount(3 * reports[:, 0] + reports[:, 1], minlength=9)
    assert stats.chisquare(joint, RUNS * np.outer(law(1.0, 3, 2), law(1.0, 3, 0)).ravel()).pvalue > FALSE_ALARM


def test_a_single_answer_is_an_int_and_a_release_is_charged() -> None:
    mechanism = RandomizedResponse(0.5, categories=4)
    assert isinstance(mechanism.release(3), int)
    graph = accounting.AccountantGraph(accounting.Adjacency.REPLACE_ONE).source("answers")
    plan = graph.release("report", mechanism.event(), reads=["answers"])
    book = accounting.Ledger(plan)
    mechanism.release(3, ledger=book, name="report")
    assert book.recorded("report") == 1


class HalfTheLies(RandomizedResponse):
    def _draw(self, checked, noise):
        shift = lies(noise, lie_probability(self.epsilon, self.categories) / 2, self.categories, checked.size)
        return (checked + shift.reshape(checked.shape)) % self.categories


class OneSeed(RandomizedResponse):
    def _draw(self, checked, noise):
        one = super()._draw(checked[0], SimulationNoise(7))  # every call draws the same
        return np.broadcast_to(one, checked.shape)


class SharedCoin(RandomizedResponse):
    def _draw(self, checked, noise):
        shift = lies(noise, lie_probability(self.epsilon, self.categories), self.categories, len(checked))
        return (checked + shift[:, None]) % self.categories


@pytest.mark.statistical
@pytest.mark.parametrize("categories", [2, 7])
@pytest.mark.parametrize(
    ("kind", "neighbours"),
    [(HalfTheLies, (0, 1)), (OneSeed, (0, 1)), (SharedCoin, (np.array([0, 0]), np.array([0, 1])))],
)
def test_audit_of_releases_refutes_the_mutants_alone(categories, kind, neighbours) -> None:
    fair = RandomizedResponse(1.0, categories=categories)
    claim = Claim.curve(fair.event(), 1e-3)
    for mechanism, planted in ((fair, False), (kind(1.0, categories=categories), True)):
        verdict = audit(
            ReleasedAtOnce(mechanism),
            claim=claim,
            neighbours=neighbours,
            samples=40_000,
            rng=507,
            confidence=1 - 1e-6,
            bits=True,
        )
        assert verdict.refuted == planted, verdict


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_opendp_charges_the_same(epsilon) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    for categories in (2, 3, 50):
        truth = 1 - lie_probability(epsilon, categories)
        theirs = dp.m.make_randomized_response(list(range(categories)), prob=float(truth), T="i32").map(1)
        assert theirs == pytest.approx(RandomizedResponse(epsilon, categories=categories).event().pure_epsilon(), 1e-9)
    theirs = dp.m.make_randomized_response_bool(float(1 - lie_probability(epsilon, 2))).map(1)
    assert theirs == pytest.approx(RandomizedResponse(epsilon).event().pure_epsilon(), 1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1, True, "1", None, 1j], ids=repr)
def test_bad_parameters_are_refused(bad) -> None:
    with pytest.raises(accounting.InvalidArgumentError, match="epsilon"):
        RandomizedResponse(bad)
    with pytest.raises(accounting.InvalidArgumentError, match="categories"):
        RandomizedResponse(1.0, categories=bad)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1, 3, 0.5, True, "1", None, [[0], [1, 2]]], ids=repr)
def test_bad_answers_are_refused_before_anything_is_drawn(bad) -> None:
    mechanism = RandomizedResponse(1.0, categories=3)
    for refused in (
        lambda: mechanism.release(bad, noise=SimulationNoise(1)),
        lambda: mechanism.simulate(bad, np.random.default_rng(1), 3),
        lambda: mechanism.log_likelihood_ratio([0, 1], bad, 0),
        lambda: mechanism.frequencies(bad),
    ):
        with pytest.raises(accounting.InvalidArgumentError):
            refused()
    sizes: list[Any] = [0, 1.5, True]
    for size in sizes:
        with pytest.raises(accounting.InvalidArgumentError, match="size"):
            mechanism.group_neighbours(size)
    with pytest.raises(accounting.InvalidArgumentError, match="categories"):
        RandomizedResponse(1.0, categories=2**54)
