"""Tests of the Gaussian mechanism: its law, its cost, and its analytic calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from divergences import exact_gaussian_delta
from scipy import integrate, stats

from hockeystick import accounting
from hockeystick.mechanisms import Gaussian

FALSE_ALARM = 1e-6
EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def test_simulated_noise_is_normal() -> None:
    outputs = Gaussian(2.5, sensitivity=3.0).simulate(-4.0, np.random.default_rng(201), 100_000)
    assert outputs.shape == (100_000,)
    assert stats.kstest(outputs, stats.norm(-4.0, 2.5).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_sigma_off_by_a_tenth_is_rejected(factor: float) -> None:
    outputs = Gaussian(2.5 * factor).simulate(-4.0, np.random.default_rng(202), 100_000)
    assert stats.kstest(outputs, stats.norm(-4.0, 2.5).cdf).pvalue < FALSE_ALARM


def test_every_entry_of_every_run_has_its_own_noise() -> None:
    value = np.array([[1.0, -2.0, 300.0], [0.0, 5.0, 1e6]])
    outputs = Gaussian(0.5).simulate(value, np.random.default_rng(203), 40_000)
    assert outputs.shape == (40_000, 2, 3)
    noise = (outputs - value) / 0.5
    neighbours_in_value = noise[:, 0, 0] - noise[:, 1, 2]
    neighbours_in_run = noise[::2, 0, 1] - noise[1::2, 0, 1]
    law = stats.norm(0, math.sqrt(2)).cdf
    for differences in (neighbours_in_value, neighbours_in_run):
        assert stats.kstest(differences, law).pvalue > FALSE_ALARM
        assert stats.kstest(np.zeros_like(differences), law).pvalue < FALSE_ALARM  # shared noise


@pytest.mark.parametrize(("sigma", "sensitivity"), [(1.0, 1.0), (3.0, 2.0), (0.4, 0.25), (20.0, 1.0), (0.5, 1.0)])
@pytest.mark.every(2)
def test_cost_is_the_exact_profile(sigma: float, sensitivity: float) -> None:
    mechanism = Gaussian(sigma, sensitivity=sensitivity)
    near, far = (stats.norm(v, sigma) for v in mechanism.worst_case_neighbours())
    for epsilon in EPSILONS:
        crossing = sensitivity / 2 - epsilon * sigma**2 / sensitivity  # below it near/far > e^ε
        truth = integrate.quad(
            lambda z: near.pdf(z) - math.exp(epsilon) * far.pdf(z), crossing - 30 * sigma, crossing, limit=500
        )[0]
        stated = accounting.delta(mechanism.event(), epsilon).upper
        assert truth <= stated + 1e-9
        assert stated <= truth * (1 + 1e-6) + 1e-9


@pytest.mark.statistical
def test_cost_depends_on_the_length_of_the_change_alone() -> None:
    """The loss of a diagonal change in three entries, from 2·10⁵ draws, is that of the scalar pair."""
    mechanism = Gaussian(1.3, sensitivity=2.0)
    far = np.full(3, 2.0 / math.sqrt(3))
    outputs = mechanism.simulate(np.zeros(3), np.random.default_rng(204), 200_000)
    loss = mechanism.log_likelihood_ratio(outputs, np.zeros(3), far)
    mu = 2.0 / 1.3
    assert stats.kstest(loss, stats.norm(mu**2 / 2, mu).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(loss, stats.norm(mu**2 / 2, mu * 1.1).cdf).pvalue < FALSE_ALARM


def test_half_the_noise_is_not_covered() -> None:
    assert exact_gaussian_delta(2.0, 1.0) > accounting.delta(Gaussian(1.0).event(), 1.0).upper + 0.1


def test_event_is_per_record() -> None:
    event = Gaussian(6.0, sensitivity=3.0).event()
    assert event == accounting.Gaussian(2.0)
    assert event.at(4) == Gaussian(6.0, sensitivity=12.0).event()
    third = Gaussian(1.0, sensitivity=3.0).event()  # 1/3 is no float: the noise is rounded down, never up
    assert isinstance(third, accounting.Gaussian) and third.noise_multiplier * 3 <= 1.0


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(e, d) for e in (1e-3, 0.1, 1.0, 8.0, 60.0) for d in (1e-30, 1e-12, 1e-5, 0.1, 0.9)] + [(0.0, 1e-5), (0.0, 0.1)],
)
def test_calibrated_is_the_least_sigma(epsilon: float, delta: float) -> None:
    sigma = Gaussian.calibrated(epsilon=epsilon, delta=delta).sigma
    assert exact_gaussian_delta(1 / sigma, epsilon) <= delta
    assert exact_gaussian_delta(1 / (sigma * (1 - 1e-9)), epsilon) > delta
    assert accounting.delta(Gaussian(sigma).event(), epsilon).upper <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-200), (1e300, 1e-5)])
def test_calibrated_refuses_targets_below_rounding(epsilon: float, delta: float) -> None:
    with pytest.raises(accounting.NumericalError, match="delta="):
        Gaussian.calibrated(epsilon=epsilon, delta=delta)


def test_calibrated_golden_number() -> None:
    # Balle & Wang 2018's analytic Gaussian mechanism; the textbook's sqrt(2 ln(1.25/δ))/ε is 4.845 here.
    assert Gaussian.calibrated(epsilon=1.0, delta=1e-5).sigma == pytest.approx(3.7306316348, rel=1e-9)


@pytest.mark.parametrize("sensitivity", [1e-9, 0.3, 7.0, 1e9])
def test_calibrated_scales_with_the_sensitivity(sensitivity: float) -> None:
    unit = Gaussian.calibrated(epsilon=0.5, delta=1e-6)
    scaled = Gaussian.calibrated(epsilon=0.5, delta=1e-6, sensitivity=sensitivity)
    assert scaled.sigma == pytest.approx(unit.sigma * sensitivity, rel=1e-12)
    assert accounting.delta(scaled.event(), 0.5).upper <= 1e-6


def test_log_likelihood_ratio_is_that_of_the_densities() -> None:
    mechanism = Gaussian(0.7)
    v0, v1 = np.array([0.0, 1.0]), np.array([0.5, 3.0])
    outputs = mechanism.simulate(v0, np.random.default_rng(205), 50)
    expected = (stats.norm(v0, 0.7).logpdf(outputs) - stats.norm(v1, 0.7).logpdf(outputs)).sum(axis=1)
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(outputs, v0, v1), expected, atol=1e-12)


@pytest.mark.parametrize("entries", [1, 20])
@pytest.mark.parametrize("beta", [0.5, 0.01, 1e-12])
def test_accuracy_is_the_exact_quantile(beta: float, entries: int) -> None:
    radius = Gaussian(2.0).accuracy(beta, entries=entries)
    log_inside = entries * math.log1p(-2 * stats.norm(0, 2.0).sf(radius))
    assert -math.expm1(log_inside) == pytest.approx(beta, rel=1e-9)
