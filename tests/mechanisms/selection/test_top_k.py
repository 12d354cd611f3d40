"""Tests of the top k by Gumbel noise: the law of simulations and releases, its cost, and its accuracy."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from divergences import larger_hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from samples import chi_square_of_outcomes

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import ExponentialMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.top_k import TopK
from hockeystick.mechanisms.testing import Released

FALSE_ALARM = 1e-6
SCORES = np.array([3.0, 0.0, 2.5, 3.0])

Law = NDArray[np.float64]


def by_peeling(scores: Any, scale: float, k: int) -> dict[tuple[int, ...], float]:
    """The law of k exponential mechanisms, each among the candidates left."""
    weights = np.exp((np.asarray(scores) - np.max(scores)) / scale)
    law = {}
    for order in itertools.permutations(range(len(weights)), k):
        law[order] = float(np.prod([weights[r] / np.delete(weights, order[:j]).sum() for j, r in enumerate(order)]))
    return law


def fit(outputs: Any, scale: float, k: int) -> float:
    """The p-value of rows of candidates against the law."""
    return float(chi_square_of_outcomes(np.asarray(outputs), by_peeling(SCORES, scale, k), least=8))


@pytest.mark.statistical
@pytest.mark.parametrize("k", [1, 2, 4])
def test_simulated_choices_follow_the_law(k: int) -> None:
    outputs = TopK(1.5, k=k).simulate(SCORES, np.random.default_rng(351), 25_000)
    assert outputs.shape == (25_000, k)
    assert fit(outputs, 1.5, k) > FALSE_ALARM
    assert fit(outputs, 1.3, k) < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(("digits", "k"), [(0, 2), (1, 4), (common.DIGITS, 3)])
def test_released_choices_follow_the_law(digits: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few digits of the noise drawn at once, most comparisons need later ones."""
    monkeypatch.setattr(common, "DIGITS", digits)
    noise, mechanism = SimulationNoise(352), TopK(1.5, k=k)
    released = [mechanism.release(SCORES, noise=noise) for _ in range(1500)]
    assert fit(released, 1.5, k) > FALSE_ALARM
    assert fit(released, 1.0, k) < FALSE_ALARM


@pytest.mark.statistical
def test_secure_noise_gives_the_same_law() -> None:
    noise, mechanism = ReleaseNoise(), TopK(1.5, k=2)
    assert fit([mechanism.release(SCORES, noise=noise) for _ in range(800)], 1.5, 2) > FALSE_ALARM


@pytest.mark.parametrize("k", [1, 3])
def test_log_probability_is_that_of_the_law(k: int) -> None:
    for scores in (SCORES, np.array([0.0, 40.0, 41.0, -40.0])):
        law = by_peeling(scores, 1.5, k)
        got = TopK(1.5, k=k).log_probability(np.array(list(law)), scores)
        np.testing.assert_allclose(np.exp(got), list(law.values()), rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.every(2)
def test_cost_covers_every_pair_of_scores(k: int, monotone: bool) -> None:
    mechanism = TopK(2.0, k=k, sensitivity=1.5, monotone=monotone)
    epsilon = mechanism.event().pure_epsilon()
    assert epsilon == pytest.approx(k * (1 if monotone else 2) * 0.75)
    levels = [0.0, 0.3 * epsilon, 0.7 * epsilon]
    stated = [accounting.delta(mechanism.event(), level).upper for level in levels]
    rng = np.random.default_rng(353)
    for _ in range(100):
        scores = rng.normal(size=4) * rng.choice([0.2, 1.0, 5.0])
        change = rng.uniform(0 if monotone else -1, 1, 4)
        change = np.sign(change) if rng.random() < 0.6 else change
        p, q = (np.array(list(by_peeling(s, 2.0, k).values())) for s in (scores, scores + 1.5 * change))
        assert np.abs(np.log(p / q)).max() <= epsilon * (1 + 1e-10)
        for level, most in zip(levels, stated, strict=True):
            assert larger_hockey_stick(p, q, level) <= most + 1e-11


def test_charging_one_choice_for_k_is_below_the_truth() -> None:
    v0, v1 = TopK(1.0, k=3).worst_case_neighbours()
    p, q = (np.array(list(by_peeling(v, 1.0, 3).values())) for v in (v0, v1))
    epsilon = ExponentialMechanism(1.0).event().pure_epsilon()
    assert (
        larger_hockey_stick(p, q, epsilon) > accounting.delta(ExponentialMechanism(1.0).event(), epsilon).upper + 0.01
    )


def test_one_choice_is_the_exponential_mechanism() -> None:
    mechanism, one = TopK(1.5, k=1), ExponentialMechanism(1.5)
    np.testing.assert_allclose(mechanism.log_probabilities(SCORES), one.log_probabilities(SCORES))
    assert mechanism.accuracy(0.03, candidates=9) == pytest.approx(one.accuracy(0.03, candidates=9), rel=1e-12)
    assert mechanism.event().zcdp_rho() == one.event().zcdp_rho()
    assert TopK(8.0, k=3).event().at(4) == TopK(8.0, k=3, sensitivity=4.0).event()


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [False, True])
def test_worst_case_neighbours_are_neighbours_and_telling(monotone: bool) -> None:
    mechanism = TopK(3.0, k=2, sensitivity=2.0, monotone=monotone)
    pair = mechanism.worst_case_neighbours()
    assert np.abs(pair[1] - pair[0]).max() == 2.0 and (not monotone or (pair[1] >= pair[0]).all())
    for side, sign in ((0, -1), (1, 1)):
        outputs = mechanism.simulate(pair[side], np.random.default_rng(354), 50_000)
        losses = mechanism.log_likelihood_ratio(outputs, *pair)
        assert 0.4 < np.abs(losses).max() / mechanism.event().pure_epsilon() <= 1 + 1e-12
        ratios = np.exp(sign * losses)
        assert abs(ratios.mean() - 1) <= 6 * ratios.std() / math.sqrt(50_000)


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 7.3])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_meets_its_target_tightly(epsilon: float, monotone: bool) -> None:
    found = TopK.calibrated(k=7, epsilon=epsilon, sensitivity=0.3, monotone=monotone)
    assert found.event().pure_epsilon() <= epsilon
    assert found.scale == pytest.approx(7 * (1 if monotone else 2) * 0.3 / epsilon, rel=1e-13)


def test_calibrated_with_a_delta() -> None:
    pure = TopK.calibrated(k=20, epsilon=1.0)
    found = TopK.calibrated(k=20, epsilon=1.0, delta=1e-6)
    assert found.scale < 0.7 * pure.scale
    assert accounting.epsilon(found.event(), 1e-6).upper <= 1.0
    assert accounting.epsilon(evolve(found, scale=found.scale * (1 - 1e-6)).event(), 1e-6).upper > 1.0
    few = TopK.calibrated(k=1, epsilon=1.0, delta=1e-9)  # one choice gains next to nothing
    assert 0.99 * pure.scale / 20 < few.scale <= pure.scale / 20


@pytest.mark.parametrize(("k", "candidates"), [(1, 5), (2, 5), (4, 5)])
@pytest.mark.parametrize("beta", [0.3, 1e-3, 1e-12])
def test_accuracy_is_exact_for_the_worst_scores(beta: float, k: int, candidates: int) -> None:
    gap = TopK(2.0, k=k).accuracy(beta, candidates=candidates)
    scores = np.where(np.arange(candidates) < k, 0.0, -gap)
    bad = sum(p for order, p in by_peeling(scores, 2.0, k).items() if max(order) >= k)
    assert bad == pytest.approx(beta, rel=1e-9)
    assert TopK(2.0, k=k).accuracy(beta, candidates=k) == 0.0


@pytest.mark.statistical
@given(st.lists(st.floats(-6, 0), min_size=1, max_size=3), st.integers(1, 3))
def test_accuracy_holds_for_any_scores(behind: list[float], k: int) -> None:
    scores = np.array([0.0, 0.0, 1.0, *behind])
    gap = TopK(1.0, k=k).accuracy(0.1, candidates=len(scores))
    least = np.sort(scores)[-k] - gap
    bad = sum(p for order, p in by_peeling(scores, 1.0, k).items() if scores[list(order)].min() < least)
    assert bad <= 0.1 + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [pytest.param(False, marks=pytest.mark.deep), True])
def test_audit_refutes_the_mutants_and_not_the_mechanism(monotone: bool) -> None:
    mechanism = TopK(2.0, k=2, monotone=monotone)
    claim = Claim.curve(mechanism.event(), 1e-3)
    neighbours = mechanism.worst_case_neighbours()

    def refuted(target: object, samples: int, claim: Claim = claim, neighbours: Any = neighbours) -> bool:
        options: dict[str, Any] = {"rng": 355, "confidence": 1 - 1e-6, "bits": True}
        return audit(target, claim=claim, neighbours=neighbours, samples=samples, **options).refuted

    def no_noise(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        return np.tile(np.argsort(-value, kind="stable")[:2], (runs, 1))

    def one_noise_for_all(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        return np.argsort(-(value + rng.gumbel(size=(runs, 1))), axis=1, kind="stable")[:, :2]

    assert not refuted(Released(mechanism), 6000)
    assert not refuted(mechanism, 40_000)
    assert refuted(evolve(mechanism, scale=1.0), 40_000)  # half the scale, or half the sensitivity charged
    for broken in (no_noise, one_noise_for_all):
        assert refuted(broken, 20_000, neighbours=(np.array([0.0, 0.5, -9.0]), np.array([1.0, 0.5, -9.0])))


@pytest.mark.statistical
def test_audit_refutes_one_choice_charged_for_three() -> None:
    mechanism = TopK(2.0, k=3)
    claim = Claim.curve(evolve(mechanism, k=1).event(), 1e-3)
    assert audit(mechanism, claim=claim, samples=100_000, rng=356, confidence=1 - 1e-6).refuted


def test_the_mechanism_satisfies_the_contract() -> None:
    for value in TopK(2.0, k=2).worst_case_neighbours():
        check_mechanism(TopK(2.0, k=2), value)
    many = TopK(0.1, k=10).release(np.arange(10.0), noise=SimulationNoise(1))
    assert sorted(many) == list(range(10))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, "1", None, 1j, [1.0]], ids=repr)
def test_bad_parameters_are_refused(bad: Any) -> None:
    for call in (
        lambda: TopK(bad, k=2),
        lambda: TopK(1.0, k=bad),
        lambda: TopK(1.0, k=2, sensitivity=bad),
        lambda: TopK(1.0, k=2, monotone=bad),
        lambda: TopK.calibrated(k=2, epsilon=bad),
        lambda: TopK.calibrated(k=bad, epsilon=1.0),
        lambda: TopK(1.0, k=2).accuracy(bad, candidates=3),
        lambda: TopK(1.0, k=2).accuracy(0.1, candidates=bad),
    ):
        with pytest.raises(InvalidArgumentError):
            call()


def test_outputs_and_scores_that_do_not_fit_are_refused() -> None:
    mechanism = TopK(1.0, k=2)
    for output in ([[0, 0]], [[0, 4]], [[0.5, 1]], [[0, 1, 2]], [0, 1]):
        with pytest.raises(InvalidArgumentError, match="output"):
            mechanism.log_probability(output, SCORES)
    for call in (
        lambda: mechanism.release([1.0], noise=SimulationNoise(1)),
        lambda: mechanism.simulate([1.0], np.random.default_rng(1), 5),
    ):
        with pytest.raises(InvalidArgumentError, match="fewer than k=2"):
            call()
    with pytest.raises(InvalidArgumentError, match="candidates"):
        mechanism.accuracy(0.1, candidates=1)
