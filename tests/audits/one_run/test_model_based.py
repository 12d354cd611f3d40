"""Estimates that rest on a model: quadrature against Monte Carlo, coverage on the model, and failure off it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.one_run.model_based import (
    Estimate,
    estimate_bayesian,
    estimate_gaussian,
    estimate_independent_canaries,
    estimate_sum_statistic,
)
from hockeystick.audits.one_run.one_run import one_run_verdict

DELTA = 1e-5
DRAWS = 200_000


def allowed(alpha: float, audits: int) -> int:
    """The most misses of an interval that misses with probability alpha, but with probability 1e-6."""
    return int(stats.binom.isf(1e-6, audits, alpha))


# --- Gaussian: error rates of one test


@pytest.mark.parametrize("n", [20, 1000])
def test_no_errors_have_a_closed_form(n: int) -> None:
    """Both upper bounds are 1 - 0.025^(1/n)."""
    found = estimate_gaussian(0, n, 0, n, delta=DELTA)
    mu = -2 * special.ndtri(-math.expm1(math.log(0.025) / n))

    assert found.mu_low == pytest.approx(mu, rel=1e-9)
    assert found.low == pytest.approx(gaussian_profile.epsilon(mu, DELTA), rel=1e-9)
    assert found.high == math.inf
    assert "trade-off curve" in found.assumption
    assert "estimate (not a bound)" in str(found)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 300), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_end_is_not_above_the_estimate(n: int, first: float, second: float) -> None:
    x, y = round(first * n), round(second * n)
    found = estimate_gaussian(x, n, y, n, delta=DELTA)

    assert 0 <= found.low <= found.epsilon
    assert found.mu_low is not None and found.mu is not None
    assert 0 <= found.mu_low <= found.mu


def gaussian_misses(fpr: float, fnr: float, truth: float, *, n: int = 2000, audits: int = 2000) -> int:
    """How often the lower end exceeds the true epsilon, for a test with these error rates."""
    rng = np.random.default_rng(1)
    x, y = rng.binomial(n, fpr, audits).tolist(), rng.binomial(n, fnr, audits).tolist()
    return sum(estimate_gaussian(a, n, b, n, delta=DELTA).low > truth for a, b in zip(x, y, strict=True))


@pytest.mark.statistical
def test_on_its_model_the_gaussian_estimate_is_a_bound() -> None:
    mu = 1.0
    z = 0.3

    assert gaussian_misses(special.ndtr(-z), special.ndtr(z - mu), gaussian_profile.epsilon(mu, DELTA)) <= allowed(
        0.05, 2000
    )


def test_off_its_model_the_gaussian_estimate_is_no_bound_and_its_mu_is() -> None:
    """The largest mu over all thresholds, exactly, belongs to Laplace noise; at any one threshold it is no larger."""
    t = np.linspace(-3, 4, 2001)
    fpr, tpr = stats.laplace.sf(t), stats.laplace.sf(t - 1)
    largest = float(np.max(special.ndtri(tpr) - special.ndtri(fpr)))
    half = math.exp(-0.5) / 2

    found = estimate_gaussian(round(half * 10**6), 10**6, round(half * 10**6), 10**6, delta=DELTA)

    assert found.mu_low is not None
    assert found.mu_low < largest
    assert found.low > 1.5  # where the truth is 1


# --- Gaussian: the sum statistic


def gaussian_scores(rng, canaries, mu):
    included = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * included, included


def test_the_standardised_difference_by_hand() -> None:
    found = estimate_sum_statistic([3.0, 5, 0, 2], [1, 1, 0, 0], delta=DELTA, confidence=0.9)
    error = math.sqrt(0.5 + 0.5 + 4.5 / 4)  # spread sqrt(2), difference 3

    assert found.mu == pytest.approx(3 / math.sqrt(2))
    assert found.mu_low == pytest.approx(max(0.0, 3 / math.sqrt(2) - special.ndtri(0.9) * error))
    assert "normal" in found.assumption and "independent" in found.assumption


@pytest.mark.statistical
def test_on_its_model_the_sum_statistic_is_a_sharp_bound() -> None:
    mu, audits = 0.94, 4000
    rng = np.random.default_rng(2)
    lows = [estimate_sum_statistic(*gaussian_scores(rng, 2000, mu), delta=DELTA).mu_low for _ in range(audits)]

    assert np.sum(np.array(lows, dtype=float) > mu) <= allowed(
        0.055, audits
    )  # a twentieth, and the limit theorem's error
    assert np.mean(np.array(lows, dtype=float)) > 0.9 * mu


def all_or_nothing(rng, canaries):
    """Scores and coins where all coins are shown with probability 0.2, and else none: every canary is (0, 0.2)-DP."""
    included = rng.random(canaries) < 0.5
    noise = rng.random(canaries)
    return (included + 0.01 * noise if rng.random() < 0.2 else noise), included


def test_canaries_that_interact_make_both_no_bounds() -> None:
    """Both are above the truth, 0, about four times as often as they say; the one-run bound is not."""
    rng = np.random.default_rng(4)
    ordinary = of_sum = refuted = 0
    for _ in range(200):
        scores, included = all_or_nothing(rng, 100)
        ordinary += estimate_independent_canaries(scores, included, threshold=0.5, delta=0.2).low > 0.0
        of_sum += estimate_sum_statistic(scores, included, delta=0.2).low > 1.0
        refuted += one_run_verdict(Claim(0.0, 0.2), scores, included, rule=(20, 20), confidence=0.95).refuted

    assert ordinary > allowed(0.05, 200)
    assert of_sum > allowed(0.05, 200)
    assert refuted <= allowed(0.05, 200)


# --- independent canaries


def test_independent_canaries_by_hand() -> None:
    scores = np.repeat([1.0, 0.0, 1.0, 0.0], [90, 10, 20, 80])
    included = np.repeat([True, True, False, False], [90, 10, 20, 80])
    fnr = stats.binomtest(10, 100, alternative="less").proportion_ci(0.975, method="exact").high
    fpr = stats.binomtest(20, 100, alternative="less").proportion_ci(0.975, method="exact").high

    found = estimate_independent_canaries(scores, included, threshold=0.5, delta=0.01)

    assert found.low == pytest.approx(max(math.log((0.99 - fnr) / fpr), math.log((0.99 - fpr) / fnr)), rel=1e-9)
    assert "do not interact" in found.assumption


# --- Bayesian


@pytest.mark.parametrize(
    ("x", "n", "y", "m", "delta"),
    [
        (30, 1000, 100, 900, 1e-5),
        (0, 20, 3, 15, 0.0),
        (9, 20, 8, 15, 0.0),
        (18, 20, 14, 15, 0.01),
        (0, 50, 0, 50, 0.02),
    ],
)
def test_the_posterior_agrees_with_monte_carlo(x, n, y, m, delta) -> None:
    """Of many draws, the share below each quantile is its level within five standard deviations."""
    rng = np.random.default_rng(5)
    fpr, fnr = rng.beta(x + 0.5, n - x + 0.5, DRAWS), rng.beta(y + 0.5, m - y + 0.5, DRAWS)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [(1 - delta - b) / a for a, b in ((fpr, fnr), (fnr, fpr), (1 - fpr, 1 - fnr), (1 - fnr, 1 - fpr))]
        epsilon = np.log(np.maximum(1.0, np.nanmax(ratios, axis=0)))

    found = estimate_bayesian(x, n, y, m, delta=delta, confidence=0.9)

    for value, level in ((found.low, 0.05), (found.epsilon, 0.5), (found.high, 0.95)):
        if value > 0:
            assert np.mean(epsilon <= value) == pytest.approx(
                level, abs=5 * math.sqrt(level * (1 - level) / DRAWS) + 1e-4
            )
        else:
            assert np.mean(epsilon <= 0) >= level - 0.003
    assert found.kind == "credible"
    assert "no coverage" in found.assumption


@pytest.mark.statistical
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 500), st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.3))
def test_the_posterior_is_ordered_and_blind_to_names(n: int, first: float, second: float, delta: float) -> None:
    x, y = round(first * n), round(second * n)
    found, swapped = estimate_bayesian(x, n, y, n, delta=delta), estimate_bayesian(y, n, x, n, delta=delta)
    flipped = estimate_bayesian(n - x, n, n - y, n, delta=delta)

    assert 0 <= found.low <= found.epsilon <= found.high < math.inf
    for other in (swapped, flipped):
        assert (other.low, other.epsilon, other.high) == pytest.approx(
            (found.low, found.epsilon, found.high), rel=1e-3, abs=1e-3
        )


def test_bad_input_is_refused() -> None:
    errors: tuple[dict[str, Any], ...] = (
        {"false_positives": -1},
        {"false_positives": 11},
        {"false_negatives": math.nan},
        {"negatives": 0},
        {"positives": True},
        {"delta": 1.0},
        {"delta": math.nan},
        {"confidence": 1.0},
        {"confidence": 0.5},
    )
    good: dict[str, Any] = {"false_positives": 1, "negatives": 10, "false_negatives": 2, "positives": 10, "delta": 0.1}
    for method in (estimate_gaussian, estimate_bayesian):
        assert isinstance(method(**good), Estimate)
        for change in errors:
            with pytest.raises(InvalidArgumentError):
                method(**{**good, **change})
    scores: tuple[tuple[Any, Any], ...] = (
        ([1.0, math.nan, 2.0, 3.0], [1, 0, 1, 0]),
        ([1.0, 2.0, 3.0, 4.0], [1, 0, 1]),
        ([1.0, 2.0, 3.0, 4.0], [0, 0, 0, 0]),
    )
    for s, inside in scores:
        with pytest.raises(InvalidArgumentError):
            estimate_sum_statistic(s, inside, delta=0.1)
        with pytest.raises(InvalidArgumentError):
            estimate_independent_canaries(s, inside, threshold=0.0)
    with pytest.raises(InvalidArgumentError, match="spread"):
        estimate_sum_statistic([1, 1, 0, 0], [1, 1, 0, 0], delta=0.1)
    with pytest.raises(InvalidArgumentError, match="infinite"):
        estimate_gaussian(1, 10, 1, 10, delta=0.0)
    with pytest.raises(InvalidArgumentError):
        estimate_independent_canaries([1.0, 0.0], [1, 0], threshold=math.nan)
