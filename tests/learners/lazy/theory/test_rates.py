"""Tests of rates: the figure's exponents, fits of power laws, measured slopes, and the bound for small epsilon."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners import LazyExperts
from hockeystick.learners.experts import batch_sums
from hockeystick.learners.experts import multiplicative_weights as weights
from hockeystick.learners.lazy import log_log_slope
from hockeystick.learners.lazy.theory.rates import (
    CONVEX_CORRECTED,
    CONVEX_PRINTED,
    EXPERTS_BEFORE,
    EXPERTS_CORRECTED,
    EXPERTS_PRINTED,
    Rate,
    Term,
    figure,
    small_epsilon_bound,
)

ALPHAS = [0, 0.1, 1 / 6, 0.25, 1 / 3, 0.5, 0.75, 1]

# --- exponents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("panel", "curve", "betas"),
    [
        ("a", "before", [0.5, 0.5, 0.5, 0.583, 0.667, 0.75, 0.875, 1]),
        ("a", "printed", [0.5, 0.5, 0.5, 0.5, 0.556, 0.667, 0.833, 1]),
        ("a", "corrected", [0.5, 0.5, 0.5, 0.55, 0.6, 0.7, 0.85, 1]),
        ("b", "before", [0.542, 0.617, 0.667, 0.708, 0.75, 0.833, 0.958, 1]),
        ("b", "printed", [0.5, 0.567, 0.611, 0.667, 0.722, 0.833, 1, 1]),
        ("b", "corrected", [0.5, 0.567, 0.611, 0.667, 0.722, 0.833, 1, 1]),
        ("c", "before", [0.5, 0.5, 0.5, 0.583, 0.667, 0.8, 1, 1]),
        ("c", "printed", [0.5, 0.5, 0.5, 0.5, 0.556, 0.667, 0.833, 1]),
        ("c", "corrected", [0.5, 0.5, 0.5, 0.55, 0.6, 0.7, 0.85, 1]),
    ],
)
def test_exponents_of_the_figure_agree_with_golden_values(panel, curve: str, betas: list[float]) -> None:
    np.testing.assert_allclose(figure(panel).table(ALPHAS)[curve], betas, atol=6e-4)


def test_privacy_is_free_above_the_corrected_epsilon() -> None:
    """How private at no cost in the exponent: as printed down to T^(-1/4), in truth to T^(-1/6), as before."""
    assert EXPERTS_PRINTED.free_privacy() == Fraction(1, 4)
    assert EXPERTS_CORRECTED.free_privacy() == EXPERTS_BEFORE.free_privacy(dimension=1) == Fraction(1, 6)
    assert CONVEX_CORRECTED.free_privacy() == Fraction(1, 6)
    assert CONVEX_CORRECTED.free_privacy(dimension=Fraction(1, 3)) == 0
    assert CONVEX_PRINTED.free_privacy(dimension=1) is None
    assert Rate(((Term(Fraction(1, 2)),),), "").free_privacy() is None  # never charged for privacy


@given(st.floats(0.0, 1.0), st.floats(0.0, 2.0))
def test_correction_matters_below_a_dimension(alpha: float, gamma: float) -> None:
    """The printed rate for convex losses stands where d^3 >= T eps, and is too small elsewhere."""
    printed = CONVEX_PRINTED.exponent(alpha, dimension=gamma)
    corrected = CONVEX_CORRECTED.exponent(alpha, dimension=gamma)
    assert corrected >= printed
    if 3 * gamma >= 1 - alpha:
        assert corrected == pytest.approx(printed)
    elif corrected > 0.5 + 1e-9 and 3 * gamma < 1 - alpha - 1e-6:
        assert corrected > printed


# --- slopes ----------------------------------------------------------------------------------------------------------


def test_slope_of_a_power_law() -> None:
    x = np.geomspace(1, 1e6, 9)
    fit = log_log_slope(x, 3.0 * x**0.7)
    assert (fit.slope, fit.intercept) == pytest.approx((0.7, math.log(3.0))) and fit.error < 1e-9


@pytest.mark.statistical
def test_slope_error_is_a_standard_error() -> None:
    """Over many fits of points with noise the slope is off by its error, as often as Student's law says."""
    rng, x = np.random.default_rng(1), np.geomspace(1, 1e3, 6)
    fits = [log_log_slope(x, x**0.4 * np.exp(0.1 * rng.standard_normal(6))) for _ in range(2000)]
    scores = [(fit.slope - 0.4) / fit.error for fit in fits]
    assert stats.kstest(scores, stats.t(4).cdf).pvalue > 1e-6


def test_committing_to_batches_costs_more_than_printed() -> None:
    """On losses that are one coin per batch any learner loses (B/2) E|S_n|: T^(5/8) at B = 1/eps = T^(1/4)."""
    rounds = np.array([10**8, 10**10, 10**12, 10**14])
    lost = []
    for t in rounds:
        batch = round(t**0.25)
        n = int(t) // batch // 2 * 2
        # E|S_n| = n binom(n, n/2) / 2^n for even n
        lost.append(batch / 2 * n * math.exp(stats.binom.logpmf(n // 2, n, 0.5)))
    assert log_log_slope(rounds, lost).slope == pytest.approx(0.625, abs=0.005)
    np.testing.assert_allclose(lost, 0.399 * np.sqrt(rounds * rounds**0.25), rtol=5e-3)


def test_batching_costs_its_length_not_its_square() -> None:
    """Alternating losses: the loss of batching by B beyond B = 1 grows like B - 1."""
    rounds, rate, batches = 10**5, 1e-3, np.array([2, 3, 5, 9, 17])
    extra = []
    for batch in batches:
        n = rounds // (2 * batch) * 2
        losses = np.zeros((n, 2))
        losses[::2, 0] = losses[1::2, 1] = batch
        alone = np.zeros((n * batch, 2))
        alone[::2, 0] = alone[1::2, 1] = 1.0
        both = [weights.expected_regret([x], rate) for x in (losses, batch_sums(alone, 1))]
        extra.append(both[0] - both[1])
    assert log_log_slope(batches - 1, extra).slope == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(extra, rate * rounds * (batches - 1) / 8, rtol=0.02)


@pytest.mark.deep  # calibrated bounds themselves are compared with known optima in CI
def test_calibrated_bounds_follow_the_corrected_rates() -> None:
    """In the regime where privacy rules, T^(2/5) and eps^(-3/5): not the printed 1/3 and -2/3."""

    def bound(rounds: int, epsilon: float) -> float:
        return LazyExperts.calibrated(rounds=rounds, experts=10, epsilon=epsilon, delta=1e-6).regret_bound()

    rounds = [10**6, 3 * 10**6, 10**7]
    assert log_log_slope(rounds, [bound(t, 0.05) for t in rounds]).slope == pytest.approx(0.4, abs=0.05)
    epsilons = [0.05, 0.1, 0.2]
    assert log_log_slope(epsilons, [bound(10**6, e) for e in epsilons]).slope == pytest.approx(-0.6, abs=0.05)


# --- the bound for small epsilon --------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize(("rounds", "epsilon"), [(10**6, 1e-3), (10**7, 1e-2)])
def test_the_small_epsilon_bound_is_close_to_the_certified_one(rounds: int, epsilon: float) -> None:
    delta = 1e-6 * epsilon
    learner = LazyExperts.calibrated(rounds=rounds, experts=10, epsilon=epsilon, delta=delta, variant="dartboard")
    formula = small_epsilon_bound(rounds=rounds, experts=10, epsilon=epsilon, delta=delta)
    assert 1.0 <= formula / learner.regret_bound() <= 1.15


@pytest.mark.statistical
@given(st.floats(3.0, 12.0), st.floats(-5.0, -2.0), st.floats(-12.0, -2.0))
def test_small_epsilon_bound_depends_on_products(power: float, level: float, share: float) -> None:
    """epsilon times the bound is a function of T*epsilon and delta/epsilon, unless batches come down to one round."""

    def scaled(epsilon: float) -> float:
        return epsilon * small_epsilon_bound(
            rounds=10.0**power / epsilon, experts=10, epsilon=epsilon, delta=10.0**share * epsilon
        )

    assert scaled(10.0**level) == pytest.approx(scaled(10.0 ** (level - 1.0)), rel=5e-3)


def test_small_epsilon_bound_has_the_corrected_exponents() -> None:
    rounds = [1e36, 1e38, 1e40]
    found = [small_epsilon_bound(rounds=t, experts=10, epsilon=t**-0.5, delta=1e-6 * t**-0.5) for t in rounds]
    assert log_log_slope(rounds, found).slope == pytest.approx(0.7, abs=1e-3)
    epsilons, experts = [1e-9, 1e-8, 1e-7], [10, 10**3, 10**9]
    found = [small_epsilon_bound(rounds=1e40, experts=10, epsilon=e, delta=1e-6 * e) for e in epsilons]
    assert log_log_slope(epsilons, found).slope == pytest.approx(-0.6, abs=1e-3)
    found = [small_epsilon_bound(rounds=1e40, experts=d, epsilon=1e-15, delta=1e-21) for d in experts]
    assert log_log_slope(np.log(experts), found).slope == pytest.approx(0.8, abs=5e-3)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: figure("d"), "panel"),  # type: ignore[arg-type]
        (lambda: EXPERTS_PRINTED.exponent(-0.1), "privacy"),
        (lambda: EXPERTS_PRINTED.exponent(math.nan), "privacy"),
        (lambda: EXPERTS_PRINTED.exponent(0.1, dimension=-1), "dimension"),
        (lambda: log_log_slope([1, 2], [1, 2]), "y"),
        (lambda: log_log_slope([1, 2, 3], [1, 2, 3, 4]), "y"),
        (lambda: log_log_slope([1, 2, 0], [1, 2, 3]), "x"),
        (lambda: log_log_slope([2, 2, 2], [1, 2, 3]), "x"),
        (lambda: log_log_slope([1, 2, 3], [1, -2, 3]), "y"),
        (lambda: small_epsilon_bound(rounds=1.0, experts=2, epsilon=0.1, delta=1e-6), "rounds"),
        (lambda: small_epsilon_bound(rounds=1e6, experts=1, epsilon=0.1, delta=1e-6), "experts"),
        (lambda: small_epsilon_bound(rounds=1e6, experts=2, epsilon=2.0, delta=1e-6), "epsilon"),
        (lambda: small_epsilon_bound(rounds=1e6, experts=2, epsilon=0.1, delta=0.1), "delta"),
        (lambda: small_epsilon_bound(rounds=math.inf, experts=2, epsilon=0.1, delta=1e-6), "rounds"),
    ],
)
def test_bad_arguments_are_refused(call, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        call()
