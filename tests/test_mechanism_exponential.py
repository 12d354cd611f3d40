"""The exponential mechanism: the law it simulates and the bounded range it states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from hockeystick import accounting
from hockeystick.mechanisms import ExponentialMechanism

FALSE_ALARM = 1e-6
RUNS = 100_000
SCORES = np.array([3.0, 0.0, 2.5, 3.0, -1.0])

unit = st.floats(-1.0, 1.0)


def hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    """The larger of the two directions' δ(ε), by enumeration of the outputs."""
    return float(max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p))))


def counts(mechanism: ExponentialMechanism, seed: int) -> NDArray[np.int64]:
    chosen = mechanism.simulate(SCORES, np.random.default_rng(seed), RUNS)
    assert chosen.shape == (RUNS,)
    return np.bincount(chosen, minlength=len(SCORES))


def test_simulated_choices_follow_the_softmax() -> None:
    expected = RUNS * special.softmax(SCORES / 1.5)
    assert stats.chisquare(counts(ExponentialMechanism(1.5), 301), expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_scale_off_by_a_tenth_is_rejected(factor: float) -> None:
    expected = RUNS * special.softmax(SCORES / 1.5)
    assert stats.chisquare(counts(ExponentialMechanism(1.5 * factor), 302), expected).pvalue < FALSE_ALARM


def test_scores_of_any_size_are_taken() -> None:
    mechanism = ExponentialMechanism(1e-3)
    for scores in ([0.0, 1e6], [-1.7e308, 1.7e308], [1e300, 1e300 * (1 + 1e-9)]):
        assert (mechanism.simulate(scores, np.random.default_rng(303), 100) == 1).all()
    shifted = mechanism.log_probabilities(np.array([1e9, 1e9 + 1e-3]))
    np.testing.assert_allclose(shifted, special.log_softmax([0.0, 1.0]), atol=1e-4)  # 1e9 is exact to 1e-7


def test_many_candidates_are_drawn_in_blocks() -> None:
    scores = np.zeros(300)
    chosen = ExponentialMechanism(1.0).simulate(scores, np.random.default_rng(304), 20_000)
    assert stats.chisquare(np.bincount(chosen, minlength=300)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("scale", "sensitivity"), [(2.0, 1.0), (1.0, 1.0), (0.5, 2.0), (30.0, 1.0)])
@pytest.mark.parametrize("monotone", [False, True])
def test_cost_is_the_worst_of_two_candidates(scale: float, sensitivity: float, monotone: bool) -> None:
    """Over all leads of the second candidate, the truth reaches the stated profile at each ε and never exceeds it."""
    mechanism = ExponentialMechanism(scale, sensitivity=sensitivity, monotone=monotone)
    gains = np.array([sensitivity, 0.0 if monotone else -sensitivity])
    width = (gains[0] - gains[1]) / scale
    leads = np.linspace(-20 * scale - 2 * sensitivity, 20 * scale + 2 * sensitivity, 2001)
    worlds = [
        (special.softmax(np.array([0.0, lead]) / scale), special.softmax((np.array([0.0, lead]) + gains) / scale))
        for lead in leads
    ]
    for fraction in (0.0, 0.2, 0.5, 0.9):
        epsilon = fraction * width
        truth = max(hockey_stick(p, q, epsilon) for p, q in worlds)
        stated = accounting.delta(mechanism.event(), epsilon).upper
        assert truth <= stated
        assert stated <= truth * 1.02


@given(st.lists(st.tuples(st.floats(-5, 5), unit), min_size=2, max_size=6), st.floats(0, 2), st.floats(0.5, 4))
def test_cost_covers_every_pair_of_scores(rows: list[tuple[float, float]], epsilon: float, scale: float) -> None:
    mechanism = ExponentialMechanism(scale)
    scores, change = np.array(rows).T
    p, q = special.softmax(scores / scale), special.softmax((scores + change) / scale)
    assert hockey_stick(p, q, epsilon) <= accounting.delta(mechanism.event(), epsilon).upper + 1e-12
    one_way = special.softmax((scores + np.abs(change)) / scale)
    monotone = ExponentialMechanism(scale, monotone=True)
    assert hockey_stick(p, one_way, epsilon) <= accounting.delta(monotone.event(), epsilon).upper + 1e-12


def test_monotone_is_not_enough_where_scores_move_both_ways() -> None:
    scores, change = np.array([0.0, 4.0]), np.array([1.0, -1.0])
    p, q = special.softmax(scores), special.softmax(scores + change)
    claim = ExponentialMechanism(1.0, monotone=True).event()
    assert hockey_stick(p, q, 1.0) > accounting.delta(claim, 1.0).upper + 0.01


@pytest.mark.parametrize("monotone", [False, True])
def test_worst_case_neighbours_are_neighbours_and_telling(monotone: bool) -> None:
    mechanism = ExponentialMechanism(3.0, sensitivity=2.0, monotone=monotone)
    v0, v1 = mechanism.worst_case_neighbours()
    assert np.abs(v1 - v0).max() == pytest.approx(2.0)
    assert not monotone or (v1 >= v0).all()
    losses = mechanism.log_likelihood_ratio([0, 1], v0, v1)
    assert losses.max() - losses.min() == pytest.approx(mechanism.event().pure_epsilon())
    assert np.exp(mechanism.log_probabilities(v1))[0] == pytest.approx(0.2)


def test_event_is_per_record() -> None:
    assert ExponentialMechanism(4.0).event() == accounting.BoundedRange(0.5)
    assert ExponentialMechanism(4.0, monotone=True).event() == accounting.BoundedRange(0.25)
    assert ExponentialMechanism(4.0).event().at(3) == ExponentialMechanism(4.0, sensitivity=3.0).event()


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 7.3])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_is_private_enough_and_no_more(epsilon: float, monotone: bool) -> None:
    mechanism = ExponentialMechanism.calibrated(epsilon=epsilon, sensitivity=0.3, monotone=monotone)
    assert mechanism.event().pure_epsilon() <= epsilon
    assert mechanism.scale == pytest.approx((1 if monotone else 2) * 0.3 / epsilon, rel=1e-14)


def test_log_likelihood_ratio_is_that_of_the_softmax() -> None:
    mechanism = ExponentialMechanism(1.5)
    expected = special.log_softmax(SCORES / 1.5) - special.log_softmax(SCORES[::-1] / 1.5)
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(np.arange(5), SCORES, SCORES[::-1]), expected)


@pytest.mark.parametrize("candidates", [2, 50])
@pytest.mark.parametrize("beta", [0.3, 1e-3, 1e-10])
def test_accuracy_is_exact_for_the_worst_scores(beta: float, candidates: int) -> None:
    gap = ExponentialMechanism(2.0).accuracy(beta, candidates=candidates)
    scores = np.full(candidates, -gap)
    scores[0] = 0.0
    log_p = ExponentialMechanism(2.0).log_probabilities(scores)
    assert np.exp(special.logsumexp(log_p[1:])) == pytest.approx(beta)
    assert ExponentialMechanism(2.0).accuracy(beta, candidates=1) == 0.0
