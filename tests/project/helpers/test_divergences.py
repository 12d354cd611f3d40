"""Tests of divergences by sums against quadrature, all events, and mpmath."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from divergences import (
    exact_gaussian_delta,
    gaussian_delta,
    hockey_stick,
    larger_hockey_stick,
    renyi,
    shifted_hockey_stick,
)
from scipy import integrate, stats

P, Q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.4, 0.2, 0.3])


@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.0, 3.0])
def test_the_hockey_stick_is_the_best_gain_of_any_event(epsilon: float) -> None:
    for p, q in ((P, Q), (Q, P)):
        events = [list(e) for size in range(5) for e in itertools.combinations(range(4), size)]
        best = max(p[e].sum() - math.exp(epsilon) * q[e].sum() for e in events)
        assert hockey_stick(p, q, epsilon) == pytest.approx(best, abs=1e-15)
        assert hockey_stick(p.reshape(2, 2), q.reshape(2, 2), epsilon) == pytest.approx(best, abs=1e-15)
        named = ({k: x for k, x in zip("abcd", law, strict=True) if x} for law in (p, q))
        assert hockey_stick(*named, epsilon) == pytest.approx(best, abs=1e-15)
    both = [hockey_stick(P, Q, epsilon), hockey_stick(Q, P, epsilon)]
    assert larger_hockey_stick(P, Q, epsilon) == larger_hockey_stick(Q, P, epsilon) == max(both)


def test_laws_on_different_outcomes_are_refused() -> None:
    with pytest.raises(AssertionError, match="different outcomes"):
        hockey_stick(P, Q[:1], 0.0)


def test_both_divergences_of_fine_cells_are_those_of_the_densities() -> None:
    edges = np.linspace(-13, 12, 25_001)  # the ratio is large where cdf has all its digits
    p, q = (np.diff(stats.norm.cdf(edges, loc=mean)) for mean in (-1.0, 0.0))
    gain = integrate.quad(lambda x: max(0.0, stats.norm.pdf(x + 1) - math.exp(0.4) * stats.norm.pdf(x)), -13, -0.9)[0]
    assert hockey_stick(p, q, 0.4) == pytest.approx(gain, rel=1e-5)
    assert hockey_stick(p, q, 0.4) == pytest.approx(
        stats.norm.cdf(0.1) - math.exp(0.4) * stats.norm.cdf(-0.9), rel=1e-5
    )
    assert renyi(p, q, [0.5, 2.0, 7.0]) == pytest.approx([0.25, 1.0, 3.5], rel=1e-5)


def test_divergences_of_shifted_noise_are_the_closed_forms() -> None:
    masses = np.exp(-np.abs(np.arange(-80, 81)) / 2) * math.tanh(0.25)
    for shift in (1, 3):
        assert shifted_hockey_stick(masses, shift, shift / 2) == pytest.approx(0.0, abs=1e-15)
        apart = stats.dlaplace(0.5).cdf(shift // 2) - stats.dlaplace(0.5).cdf(shift // 2 - shift)  # total variation
        assert shifted_hockey_stick(masses, shift, 0.0) == pytest.approx(apart, rel=1e-12)


@pytest.mark.parametrize("order", [0.3, 1.0001, 2.0, 17.5, 900.0])
def test_renyi_divergences_in_many_digits(order: float) -> None:
    with mpmath.workdps(60):
        a = mpmath.mpf(order)
        moment = mpmath.fsum(mpmath.mpf(x) ** a * mpmath.mpf(y) ** (1 - a) for x, y in zip(P, Q, strict=True) if x)
        exact = float(mpmath.log(moment) / (a - 1))
    assert renyi(P, Q, order) == pytest.approx(exact, rel=1e-10) == renyi(P, Q, np.array([order, 2.0]))[0]
    # Q has an outcome that P never has.
    assert (renyi(Q, P, order) == math.inf) == (order > 1)


@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0])
def test_the_closed_form_of_normal_laws_is_the_integral(mu: float) -> None:
    at = np.array([-0.7, 0.0, 0.4, mu * 2])
    with mpmath.workdps(30):
        for e, found in zip(at.tolist(), gaussian_delta(mu, at), strict=True):
            start = mpmath.mpf(e) / mu + mpmath.mpf(mu) / 2
            exact = mpmath.quad(
                lambda x: mpmath.npdf(x - mu) - mpmath.exp(e) * mpmath.npdf(x), mpmath.linspace(start, start + 40, 21)
            )
            assert abs(exact_gaussian_delta(mu, e) - exact) < 1e-20
            assert gaussian_delta(mu, e) == found == pytest.approx(float(exact), rel=1e-9, abs=1e-15)
    assert gaussian_delta(0.0, 0.3) == 0.0 and gaussian_delta(0.0, -0.3) == pytest.approx(-math.expm1(-0.3))
