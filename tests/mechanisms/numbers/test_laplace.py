"""Tests of the Laplace mechanism: its law, its cost, and its calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from divergences import hockey_stick
from numpy.typing import NDArray
from scipy import integrate, stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.mechanisms import Laplace

FALSE_ALARM = 1e-6
EPSILONS = (0.0, 0.1, 0.4, 0.9, 1.3, 2.5)


def difference_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distribution function of the difference of two independent Laplace(1) numbers."""
    tail = (2 + np.abs(x)) * np.exp(-np.abs(x)) / 4
    return np.where(x < 0, tail, 1 - tail)


def test_simulated_noise_is_laplace() -> None:
    outputs = Laplace(2.5, sensitivity=3.0).simulate(7.0, np.random.default_rng(101), 100_000)
    assert outputs.shape == (100_000,)
    assert stats.kstest(outputs, stats.laplace(7.0, 2.5).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_scale_off_by_a_tenth_is_rejected(factor: float) -> None:
    outputs = Laplace(2.5 * factor).simulate(7.0, np.random.default_rng(102), 100_000)
    assert stats.kstest(outputs, stats.laplace(7.0, 2.5).cdf).pvalue < FALSE_ALARM


def test_every_entry_of_every_run_has_its_own_noise() -> None:
    value = np.array([[1.0, -2.0, 300.0], [0.0, 5.0, 1e6]])
    outputs = Laplace(0.5).simulate(value, np.random.default_rng(103), 40_000)
    assert outputs.shape == (40_000, 2, 3)
    noise = (outputs - value) / 0.5
    neighbours_in_value = (noise[:, 0, 0] - noise[:, 1, 2]).ravel()
    neighbours_in_run = noise[::2, 0, 1] - noise[1::2, 0, 1]
    for differences in (neighbours_in_value, neighbours_in_run):
        assert stats.kstest(differences, difference_cdf).pvalue > FALSE_ALARM
        assert stats.kstest(np.zeros_like(differences), difference_cdf).pvalue < FALSE_ALARM  # shared noise


@pytest.mark.parametrize(("scale", "sensitivity"), [(1.0, 1.0), (3.0, 2.0), (0.4, 0.25), (50.0, 1.0), (0.5, 3.0)])
def test_cost_is_the_exact_profile(scale: float, sensitivity: float) -> None:
    mechanism = Laplace(scale, sensitivity=sensitivity)
    near, far = (stats.laplace(v, scale).pdf for v in mechanism.worst_case_neighbours())
    for epsilon in EPSILONS:
        truth = integrate.quad(
            lambda z: max(0.0, near(z) - math.exp(epsilon) * far(z)),
            -40 * scale,
            sensitivity + 40 * scale,
            points=[0.0, (sensitivity - epsilon * scale) / 2, sensitivity],
            limit=500,
        )[0]
        stated = accounting.delta(mechanism.event(), epsilon).upper
        assert truth <= stated + 1e-9
        assert stated <= truth * (1 + 1e-4) + 1e-9


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_cost_covers_a_change_spread_over_two_entries(share: float) -> None:
    mechanism = Laplace(1.0, sensitivity=1.5)
    z = (np.arange(2400) - 1199.5) / 80  # midpoints on [-15, 15]
    first, second = (stats.laplace.pdf(z[:, None] - s * 1.5) for s in (share, 1 - share))
    base = stats.laplace.pdf(z)
    p, q = base[:, None] * base[None, :] / 6400, first * second.T / 6400
    for epsilon in EPSILONS:
        for a, b in ((p, q), (q, p)):
            truth = hockey_stick(a, b, epsilon)
            assert truth <= accounting.delta(mechanism.event(), epsilon).upper + 1e-4


def test_half_the_noise_is_not_covered() -> None:
    stated = accounting.delta(Laplace(1.0).event(), 1.0).upper
    truth = -math.expm1((1.0 - 2.0) / 2)  # P - e·Q of two Laplace(1/2) at distance 1
    assert truth > stated + 0.1


def test_event_is_per_record() -> None:
    event = Laplace(6.0, sensitivity=3.0).event()
    assert event == accounting.Laplace(2.0)
    assert event.at(4) == Laplace(6.0, sensitivity=12.0).event()
    third = Laplace(1.0, sensitivity=3.0).event()  # 1/3 is no float: the noise is rounded down, never up
    assert isinstance(third, accounting.Laplace) and third.noise_multiplier * 3 <= 1.0


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1 / 3, 1.0, 7.3])
@pytest.mark.parametrize("sensitivity", [1.0, 0.3, 12.0])
def test_calibrated_meets_its_target_tightly(epsilon: float, sensitivity: float) -> None:
    mechanism = Laplace.calibrated(epsilon=epsilon, sensitivity=sensitivity)
    assert mechanism.event().pure_epsilon() <= epsilon
    assert mechanism.scale == pytest.approx(sensitivity / epsilon, rel=1e-14)


def test_log_likelihood_ratio_is_that_of_the_densities() -> None:
    mechanism = Laplace(0.7)
    v0, v1 = np.array([0.0, 1.0]), np.array([0.5, 3.0])
    outputs = mechanism.simulate(v0, np.random.default_rng(104), 50)
    expected = (stats.laplace(v0, 0.7).logpdf(outputs) - stats.laplace(v1, 0.7).logpdf(outputs)).sum(axis=1)
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(outputs, v0, v1), expected, atol=1e-12)


@pytest.mark.parametrize("entries", [1, 20])
@pytest.mark.parametrize("beta", [0.5, 0.01, 1e-12])
def test_accuracy_is_the_exact_quantile(beta: float, entries: int) -> None:
    radius = Laplace(2.0).accuracy(beta, entries=entries)
    log_inside = entries * math.log1p(-2 * stats.laplace(0, 2.0).sf(radius))
    assert -math.expm1(log_inside) == pytest.approx(beta, rel=1e-9)


def test_an_epsilon_that_no_event_can_have_is_refused():
    """The least noise would be outside the domain of events, and the search would not end."""
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        Laplace.calibrated(epsilon=1e-200)
    assert Laplace.calibrated(epsilon=1e-80).event().pure_epsilon() <= 1e-80
