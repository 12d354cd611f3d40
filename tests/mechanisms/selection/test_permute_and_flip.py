"""Tests of permute-and-flip: the law of simulations and releases, its cost, and its accuracy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from divergences import larger_hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import ExponentialMechanism, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.permute_and_flip import PermuteAndFlip
from hockeystick.mechanisms.testing import Released

FALSE_ALARM = 1e-6
SCORES = np.array([3.0, 0.0, 2.5, 3.0, -1.0])

Law = NDArray[np.float64]


def by_procedure(scores: Any, scale: float) -> Law:
    """The law of the procedure itself: the candidates in every order, each stopped at with its probability."""
    stops = np.exp((np.asarray(scores) - np.max(scores)) / scale)
    law = np.zeros(len(stops))
    for order in itertools.permutations(range(len(stops))):
        left = 1 / math.factorial(len(stops))
        for r in order:
            law[r] += left * stops[r]
            left *= 1 - stops[r]
    return law


@pytest.mark.statistical
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), st.floats(0.1, 10))
def test_probabilities_are_those_of_the_procedure(scores: list[float], scale: float) -> None:
    got = np.exp(PermuteAndFlip(scale).log_probabilities(scores))
    np.testing.assert_allclose(got, by_procedure(scores, scale), rtol=1e-10)


@pytest.mark.statistical
def test_probabilities_of_many_candidates() -> None:
    """Against the integral of the polynomial Π (1 − x·w), and as a law: all of them add up to 1."""
    for count, spread in ((40, 3.0), (40, 0.0), (5, 30.0)):
        scores = -spread * np.linspace(0, 1, count) ** 2
        weights = np.exp(scores)
        others = Polynomial(np.ones(1))
        for w in weights[1:]:
            others *= Polynomial([1.0, -w])
        x, mass = (part for part in np.polynomial.legendre.leggauss(40))
        best = float(mass @ np.prod(1 - np.outer((1 + x) / 2, weights[1:]), axis=1)) / 2  # exact up to degree 79
        assert others.degree() == count - 1
        assert np.exp(PermuteAndFlip(1.0).log_probabilities(scores))[0] == pytest.approx(best, rel=1e-12)
    for count in (1000, 5000):
        for spread in (0.0, 1.0, 10.0, 1000.0):
            scores = spread * np.random.default_rng(321).normal(size=count)
            assert np.exp(PermuteAndFlip(1.0).log_probabilities(scores)).sum() == pytest.approx(1.0, abs=1e-11)
    np.testing.assert_allclose(np.exp(PermuteAndFlip(1.0).log_probabilities(np.zeros(500))), 1 / 500, rtol=1e-12)


def test_probabilities_of_candidates_far_behind_are_exact() -> None:
    log_p = PermuteAndFlip(1.0).log_probabilities([0.0, -5000.0])
    assert log_p[1] == pytest.approx(-5000 - math.log(2)) and log_p[0] == 0.0


def counts(mechanism: PermuteAndFlip, noise: Any, runs: int) -> NDArray[np.int64]:
    return np.bincount([mechanism.release(SCORES, noise=noise) for _ in range(runs)], minlength=len(SCORES))


def test_simulated_choices_follow_the_law() -> None:
    simulated = PermuteAndFlip(1.5).simulate(SCORES, np.random.default_rng(322), 100_000)
    seen = np.bincount(simulated, minlength=5)
    assert stats.chisquare(seen, 100_000 * by_procedure(SCORES, 1.5)).pvalue > FALSE_ALARM
    for wrong in (1.35, 1.65):
        assert stats.chisquare(seen, 100_000 * by_procedure(SCORES, wrong)).pvalue < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("digits", [0, 1, common.DIGITS])
def test_released_choices_follow_the_law(digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With few digits of the noise drawn at once, most comparisons need later ones."""
    monkeypatch.setattr(common, "DIGITS", digits)
    seen = counts(PermuteAndFlip(1.5), SimulationNoise(323), 3_000)
    assert stats.chisquare(seen, 3_000 * by_procedure(SCORES, 1.5)).pvalue > FALSE_ALARM
    assert stats.chisquare(seen, 3_000 * by_procedure(SCORES, 1.1)).pvalue < FALSE_ALARM


@pytest.mark.statistical
def test_secure_noise_gives_the_same_law() -> None:
    seen = counts(PermuteAndFlip(1.5), ReleaseNoise(), 1500)
    assert stats.chisquare(seen, 1500 * by_procedure(SCORES, 1.5)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("scale", "sensitivity"), [(2.0, 1.0), (0.5, 2.0), (30.0, 1.0)])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.every(2)
def test_cost_is_the_worst_of_two_candidates(scale: float, sensitivity: float, monotone: bool) -> None:
    """Over all leads of the second candidate, the truth reaches the stated profile at each ε and never exceeds it."""
    mechanism = PermuteAndFlip(scale, sensitivity=sensitivity, monotone=monotone)
    gains = np.array([sensitivity, 0.0 if monotone else -sensitivity])
    width = (gains[0] - gains[1]) / scale
    worlds = [
        (by_procedure([0.0, lead], scale), by_procedure(np.array([0.0, lead]) + gains, scale))
        for lead in np.linspace(-0.5 * width * scale, 1.5 * width * scale, 401)
    ]
    for fraction in (0.0, 0.2, 0.5, 0.9):
        truth = max(larger_hockey_stick(p, q, fraction * width) for p, q in worlds)
        stated = accounting.delta(mechanism.event(), fraction * width).upper
        assert truth <= stated
        assert stated <= truth * 1.01 + 1e-6


@pytest.mark.statistical
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-1, 1)), min_size=2, max_size=5), st.floats(0, 2))
def test_cost_covers_every_pair_of_scores(rows: list[tuple[float, float]], epsilon: float) -> None:
    scores, change = np.array(rows).T
    for monotone, after in ((False, scores + change), (True, scores + np.abs(change))):
        event = PermuteAndFlip(1.5, monotone=monotone).event()
        truth = larger_hockey_stick(by_procedure(scores, 1.5), by_procedure(after, 1.5), epsilon)
        assert truth <= accounting.delta(event, epsilon).upper + 1e-12


@pytest.mark.parametrize("monotone", [False, True])
def test_worst_case_neighbours_show_all_of_epsilon(monotone: bool) -> None:
    mechanism = PermuteAndFlip(3.0, sensitivity=2.0, monotone=monotone)
    v0, v1 = mechanism.worst_case_neighbours()
    assert np.abs(v1 - v0).max() == 2.0 and (not monotone or (v1 >= v0).all())
    losses = mechanism.log_likelihood_ratio([0, 1], v0, v1)
    assert np.abs(losses).max() == pytest.approx(mechanism.event().pure_epsilon())
    chosen = mechanism.simulate(v1, np.random.default_rng(324), 50_000)
    ratios = np.exp(mechanism.log_likelihood_ratio(chosen, v0, v1))
    assert abs(ratios.mean() - 1) <= 6 * ratios.std() / math.sqrt(50_000)


def test_event_is_per_record() -> None:
    assert PermuteAndFlip(4.0).event() == accounting.PermuteAndFlip(0.5)
    assert PermuteAndFlip(4.0, monotone=True).event() == accounting.PermuteAndFlip(0.25)
    assert PermuteAndFlip(4.0).event().at(3) == PermuteAndFlip(4.0, sensitivity=3.0).event()


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.booleans())
def test_no_quotient_is_rounded_below_the_cost(scale: float, sensitivity: float, monotone: bool) -> None:
    event = PermuteAndFlip(scale, sensitivity=sensitivity, monotone=monotone).event()
    exact = (1 if monotone else 2) * Fraction(sensitivity) / Fraction(scale)
    assert exact <= Fraction(event.pure_epsilon()) <= exact * (1 + Fraction(2) ** -50)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 7.3])
@pytest.mark.parametrize("monotone", [False, True])
def test_calibrated_meets_its_target_tightly(epsilon: float, monotone: bool) -> None:
    mechanism = PermuteAndFlip.calibrated(epsilon=epsilon, sensitivity=0.3, monotone=monotone)
    assert mechanism.event().pure_epsilon() <= epsilon
    assert mechanism.scale == pytest.approx((1 if monotone else 2) * 0.3 / epsilon, rel=1e-14)


@pytest.mark.parametrize("candidates", [2, 7, 500])
@pytest.mark.parametrize("beta", [0.45, 0.05, 1e-3, 1e-12])
def test_accuracy_is_exact_for_the_worst_scores(beta: float, candidates: int) -> None:
    gap = PermuteAndFlip(2.0).accuracy(beta, candidates=candidates)
    scores = np.full(candidates, -gap)
    scores[0] = 0.0
    others = np.exp(PermuteAndFlip(2.0).log_probabilities(scores)[1:]).sum()
    assert others == pytest.approx(beta, rel=1e-10)
    assert gap <= ExponentialMechanism(2.0).accuracy(beta, candidates=candidates)
    assert PermuteAndFlip(2.0).accuracy(beta, candidates=1) == 0.0


def test_accuracy_is_zero_if_every_choice_is_good_enough() -> None:
    assert PermuteAndFlip(2.0).accuracy(0.5, candidates=2) == 0.0
    assert PermuteAndFlip(2.0).accuracy(0.499, candidates=2) > 0.0


@pytest.mark.statistical
@given(st.lists(st.floats(-6, 0), min_size=1, max_size=5))
def test_accuracy_holds_for_any_scores(behind: list[float]) -> None:
    scores = np.array([0.0, *behind])
    gap = PermuteAndFlip(1.0).accuracy(0.1, candidates=len(scores))
    assert by_procedure(scores, 1.0)[scores < -gap].sum() <= 0.1 + 1e-12


def test_expected_error_is_never_above_that_of_the_exponential_mechanism() -> None:
    """McKenna & Sheldon 2020, Thm 2, at the same ε."""
    rng = np.random.default_rng(325)
    for _ in range(100):
        scores = rng.normal(size=6) * rng.choice([0.2, 1.0, 5.0])
        errors = [
            float((scores.max() - scores) @ np.exp(m.log_probabilities(scores)))
            for m in (PermuteAndFlip(1.0), ExponentialMechanism(1.0))
        ]
        assert errors[0] <= errors[1] + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize("monotone", [pytest.param(False, marks=pytest.mark.deep), True])
def test_audit_refutes_the_mutants_and_not_the_mechanism(monotone: bool) -> None:
    """False alarm 1e-6; 6,000 releases refute half the scale with probability at least 0.9 (25 of 25 seeds did)."""
    mechanism = PermuteAndFlip(1.0, monotone=monotone)
    claim = Claim.curve(mechanism.event(), 1e-3)

    def refuted(target: object, neighbours: Any, samples: int = 6_000) -> bool:
        options: dict[str, Any] = {"rng": 326, "confidence": 1 - 1e-6, "bits": True}
        return audit(target, claim=claim, neighbours=neighbours, samples=samples, **options).refuted

    def no_noise(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        return np.full(runs, np.argmax(value))

    def one_noise_for_all(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        return np.asarray(np.argmax(value + rng.exponential(size=(runs, 1)), axis=1))

    def in_order(value: Any, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        """Never permuted: the first candidate stops it with its own probability, which another's score moves."""
        stops = rng.random((runs, len(value))) < np.exp(value - np.max(value))
        return np.asarray(stops.argmax(axis=1))

    neighbours = mechanism.worst_case_neighbours()
    assert not refuted(Released(mechanism), neighbours)
    assert not refuted(mechanism, neighbours, 100_000)
    assert refuted(Released(PermuteAndFlip(0.5)), neighbours)  # half the scale, or half the sensitivity charged
    for broken in (no_noise, one_noise_for_all, in_order):
        assert refuted(broken, (np.array([0.0, 0.5]), np.array([1.0, 0.5])), 100_000)


@pytest.mark.parametrize("monotone", [False, True])
def test_opendp_states_the_same_epsilon(monotone: bool) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float, monotonic=monotone)
    for scale, distance in ((2.0, 1.0), (0.7, 3.0), (25.0, 0.25)):
        stated = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale).map(distance)
        mechanism = PermuteAndFlip(scale, sensitivity=distance, monotone=monotone)
        assert mechanism.event().pure_epsilon() == pytest.approx(stated, rel=1e-12)


def test_the_mechanism_satisfies_the_contract() -> None:
    for mechanism in (PermuteAndFlip(1.5), PermuteAndFlip(1.5, sensitivity=2.0, monotone=True)):
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, "1", None, 1j, [1.0]], ids=repr)
def test_bad_parameters_are_refused(bad: Any) -> None:
    for call in (
        lambda: PermuteAndFlip(bad),
        lambda: PermuteAndFlip(1.0, sensitivity=bad),
        lambda: PermuteAndFlip(1.0, monotone=bad),
        lambda: PermuteAndFlip.calibrated(epsilon=bad),
        lambda: PermuteAndFlip(1.0).accuracy(bad, candidates=3),
        lambda: PermuteAndFlip(1.0).accuracy(0.1, candidates=bad),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
