"""Tests of factors that cover round-off, in 60 and more digits, in cases where they were once too small."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from hockeystick.accounting.engines import exact_profile
from hockeystick.accounting.engines.event_parts import merge_gaussians
from hockeystick.accounting.events.answers.best_of_repeats import Repetitions, _log_moment
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.declared import ApproximateDP
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.noise.gaussian_mixture import _norm_bound
from hockeystick.accounting.events.noise.integer_noise import DiscreteGaussian
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.events.sampling.shared import gaussian_shift
from hockeystick.accounting.losses import sampled_renyi
from hockeystick.accounting.losses.normal_mixtures import NormalMixture
from hockeystick.accounting.numerics import directed_rounding


@pytest.mark.parametrize(("share", "value"), [(0.4, 5e-324), (0.3, 1e-310), (0.9, 3e-308), (0.1, 0.3), (0.0, 0.5)])
def test_shares_are_from_above_even_below_the_normal_floats(share, value):
    found = Fraction(directed_rounding.share_up(share, value))
    exact = Fraction(share) * Fraction(value)
    assert exact <= found <= exact * (1 + Fraction(1, 10**14)) + Fraction(1, 10**323)


def test_a_sample_of_an_access_that_may_fail_may_fail():
    assert PoissonSampled(0.4, ApproximateDP(1.0, 5e-324)).failure_delta() > 0.0


def test_a_group_costs_at_least_the_exact_multiples():
    with mpmath.workdps(60):
        for i in range(1, 200):
            epsilon, k = i / 10, max(2, min(35, int(6500 / i)))
            growth = mpmath.expm1(k * mpmath.mpf(epsilon)) / mpmath.expm1(mpmath.mpf(epsilon))
            delta = 1e-3 / float(growth)
            event: Any = ApproximateDP(epsilon, delta).at(k)
            assert Fraction(event.epsilon) >= k * Fraction(epsilon)
            assert event.delta >= mpmath.mpf(delta) * growth


def test_the_gaussian_behind_a_sample_has_no_more_noise_than_the_access():
    for i in range(1, 2000):
        assert 1.0 / gaussian_shift(Gaussian(i / 10)) <= i / 10


def test_gaussians_merge_to_no_more_noise_than_the_exact_one():
    rng = np.random.default_rng(1)
    with mpmath.workdps(60):
        for sigmas in rng.lognormal(0.0, 2.0, (500, 3)).tolist():
            exact = 1 / mpmath.sqrt(sum(1 / mpmath.mpf(s) ** 2 for s in sigmas))
            event = compose(*map(Gaussian, sigmas))
            assert 1.0 / gaussian_shift(event) <= exact
            assert 1.0 / merge_gaussians(event)[1] <= exact


@pytest.mark.parametrize("rate", [1e-12, 1e-6, 1e-3, 0.5, 40.0])
def test_moments_of_rare_repetitions_are_from_above_where_logarithms_cancel(rate):
    exponents = np.geomspace(1e-8, 50.0, 200)
    found = _log_moment(rate, exponents)
    with mpmath.workdps(60):
        share = mpmath.mpf(rate)
        for x, value in zip(exponents.tolist(), found.tolist(), strict=True):
            assert value >= mpmath.log(mpmath.exp(-share) + share * mpmath.exp(x))


def test_the_runs_left_after_failures_are_rounded_to_the_side_that_costs():
    for failure in np.linspace(0.001, 0.999, 333).tolist():
        for rate in (0.7, 1.9, 30.0):
            kept = Repetitions(math.inf, rate).without_failures(failure)
            assert Fraction(kept.rate) >= Fraction(rate) * (1 - Fraction(failure))
        for rate in (0.01, 0.3, 0.9):
            left = Repetitions(1.0, rate).without_failures(failure)
            assert Fraction(left.rate) <= Fraction(rate) + (1 - Fraction(rate)) * Fraction(failure)


def test_the_norm_of_a_mixture_with_a_small_weight_and_a_large_exponent_is_from_above():
    rng = np.random.default_rng(2)
    with mpmath.workdps(340):
        for _ in range(60):
            weight, order = 10.0 ** rng.uniform(-300, -1), 1.001 + 10.0 ** rng.uniform(0, 3)
            centre = math.sqrt(2 * max(0.01, -math.log(weight) + rng.uniform(-3, 30)) / (order - 1))
            mixture = NormalMixture((0.0, centre), (1.0 - weight, weight))
            a = mpmath.mpf(order)
            exact = a / (a - 1) * mpmath.log1p(weight * mpmath.expm1((a - 1) * mpmath.mpf(centre) ** 2 / 2))
            assert _norm_bound(mixture, np.array([order]))[0] >= exact


@pytest.mark.parametrize("q", [1e-50, 1e-30, 1e-12])
def test_moments_of_rare_samples_are_from_above_where_logarithms_cancel(q):
    n = 256
    for off in np.linspace(-0.02, 0.02, 9).tolist():
        slope = (off - math.log(q)) / 255

        def curve(orders, slope=slope):
            return orders * slope

        found = sampled_renyi.removal_moments(curve, q)[n]
        with mpmath.workdps(120):
            share = mpmath.mpf(q)
            terms = (
                mpmath.binomial(n, k)
                * share**k
                * (1 - share) ** (n - k)
                * mpmath.expm1((k - 1) * mpmath.mpf(curve(float(k))))
                for k in range(2, n + 1)
            )
            assert found >= mpmath.log1p(mpmath.fsum(terms))


def test_the_curve_of_discrete_gaussian_noise_keeps_room_for_its_sums():
    with mpmath.workdps(40):
        for sigma in np.linspace(0.3, 2.9, 60).tolist():
            event, order = DiscreteGaussian(sigma), 3.0  # α·Δ is whole: the bound of the continuous law is attained
            assert event.rdp(np.array([order]))[0] >= order / (2 * mpmath.mpf(sigma) ** 2)


@pytest.mark.parametrize("centre", [0.5, 8.0, 40.0, 200.0])
def test_the_logarithm_of_a_mixtures_ratio_allows_for_cancelling_exponents(centre):
    # At z ≈ c/2 the exponent c·z − c²/2 is near 0, and off by the round-off of both of its parts.
    mixture = NormalMixture((0.0, centre), (0.75, 0.25))
    with mpmath.workdps(60):
        for shift in np.linspace(-4.0, 4.0, 101).tolist():
            z = centre / 2 + shift / centre + 1e-3 / 7
            found, off = exact_profile._log_ratio(mixture, z)
            c = mpmath.mpf(centre)
            exact = mpmath.log(mpmath.mpf(0.75) + mpmath.mpf(0.25) * mpmath.exp(c * mpmath.mpf(z) - c * c / 2))
            assert abs(mpmath.mpf(found) - exact) <= off
