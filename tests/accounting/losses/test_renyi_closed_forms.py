"""Tests of closed Rényi curves in many digits, and of tight zCDP of randomised response, pure DP and any curve."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import ApproximateDP, PureDP, RandomizedResponse, compose, delta, epsilon
from hockeystick.accounting.losses.renyi_closed_forms import least_rho, three_point_rdp, three_point_rho


def three_point(eps, categories, order):
    """The divergence of k-ary randomised response in many digits."""
    e, a, k = mpmath.mpf(eps), mpmath.mpf(order), categories
    total = mpmath.exp(e) + k - 1
    p, q = mpmath.exp(e) / total, 1 / total
    return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a) + (k - 2) * q) / (a - 1)


@pytest.mark.statistical
@given(eps=st.floats(1e-9, 300), categories=st.integers(2, 10**6), excess=st.floats(-8, 6))
def test_renyi_curve_of_randomised_response_is_the_closed_form(eps, categories, excess):
    order = 1.0 + 10.0**excess
    with mpmath.workdps(80):
        exact = three_point(eps, categories, order)
        got = mpmath.mpf(float(RandomizedResponse(eps, categories).rdp(np.array([order]))[0]))
        assert exact * (1 - mpmath.mpf(10) ** -13) <= got <= exact * (1 + mpmath.mpf(10) ** -12)


def test_renyi_curve_is_exact_at_its_ends():
    assert not three_point_rdp(0.0, 0.5, np.array([1.5, 1e9])).any()
    assert not three_point_rdp(1.0, 0.0, np.array([1.5, 1e9])).any()
    assert three_point_rdp(math.inf, 0.5, np.array([1.5]))[0] == math.inf
    assert three_point_rdp(1e80, 1.0, np.array([1e12]))[0] == 1e80


@pytest.mark.parametrize("categories", [2, 3, 6, 7, 12, 1000, 10**9])
@pytest.mark.parametrize("eps", [1e-40, 1e-3, 0.4, 1.0, 5.0, 40.0])
@pytest.mark.every(2)
def test_rho_of_randomised_response_is_the_largest_slope(eps, categories):
    event = RandomizedResponse(eps, categories)
    orders = 1 + np.geomspace(1e-9, 1e3 * max(1, 1 / eps), 100_001)
    slope = float(np.max(event.rdp(orders) / orders))
    assert slope * (1 - 1e-13) <= event.zcdp_rho() <= slope * (1 + 4e-6)  # both are rounded up
    if categories <= 6:  # Harrison & Manurangsi 2025: then it is the mean loss
        mean = eps * math.expm1(eps) / (math.exp(eps) + categories - 1)
        assert event.zcdp_rho() == pytest.approx(mean, rel=1e-12, abs=0)


@pytest.mark.parametrize("eps", [1e-100, 1e-8, 0.1, 1.0, 10.0, 80.0, 1e100])
def test_rho_of_pure_dp_is_that_of_binary_randomised_response(eps):
    """ε·tanh(ε/2): ln cosh(√y) is concave in y, so that the tangent at order 1 lies above the log-moment."""
    with mpmath.workdps(250):
        exact = mpmath.mpf(eps) * mpmath.tanh(mpmath.mpf(eps) / 2)
        for event in (PureDP(eps), ApproximateDP(eps, 1e-9), RandomizedResponse(eps)):
            assert exact <= mpmath.mpf(event.zcdp_rho()) <= exact * (1 + mpmath.mpf(10) ** -13)
        if eps < 100:
            for order in (1 + 1e-9, 1.001, 1.5, 3.0, 100.0):
                assert three_point(eps, 2, order) <= order * mpmath.mpf(PureDP(eps).zcdp_rho())


def test_rho_of_no_loss_is_zero():
    assert PureDP(0.0).zcdp_rho() == RandomizedResponse(0.0, 5).zcdp_rho() == 0.0


def test_tight_rho_lowers_the_epsilon_of_a_composition():
    """k-ary reports of many categories cost far less than ε²/2 each."""
    event = compose((RandomizedResponse(0.5, 100), 50))
    assert event.zcdp_rho() < 0.12 * 50 * 0.5**2 / 2
    by_rho = epsilon(event, 1e-6, method="zcdp").upper
    assert epsilon(event, 1e-6, method="pld").upper <= by_rho <= 50 * 0.5
    assert delta(event, by_rho, method="zcdp").upper <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e20])
def test_least_rho_agrees_with_known_values(scale):
    # a log-moment α(α−1) that goes on along its tangent from order 3
    capped = least_rho(lambda a: scale * np.where(a < 3, a, (5 * a - 9) / (a - 1)), 5 * scale)
    assert scale <= capped <= scale * (1 + 3e-6)
    # a log-moment max(x/10, 2x − 3), x = α − 1: (2x − 3)/(x(x + 1)) is largest at x = (3 + √15)/2
    x = (3 + math.sqrt(15)) / 2
    inside = (2 * x - 3) / (x * (x + 1))
    found = least_rho(lambda a: scale * np.maximum(0.1, 2 - 3 / (a - 1)), 2 * scale)
    assert scale * inside <= found <= scale * inside * (1 + 3e-6)


RARE = [1e-280, 1e-292, 1e-300, 1e-304, 1e-305, 2.3e-308, 1e-310, 5e-324]


def rare_three_point(eps, more, order):
    with mpmath.workdps(60):
        a, e, m = mpmath.mpf(float(order)), mpmath.mpf(eps), mpmath.mpf(more)
        moment = mpmath.log1p(m * mpmath.expm1((a - 1) * e) * -mpmath.expm1(-a * e))
        return mpmath.mpf(min(moment / (a - 1), e))


@pytest.mark.parametrize("more", RARE)
@pytest.mark.every(3)
def test_losses_of_the_least_probabilities_keep_their_renyi_curve(more):
    # A log-moment of x + ln(more) would be negative, or too small, where x is about 700.
    for eps in (0.01, 1.0, 30.0):
        orders = 1 + np.concatenate([np.linspace(690, 760, 141), [0.5, 10.0, 500.0, 1e4, 1e6]]) / eps
        got = three_point_rdp(eps, more, orders)
        exact = [rare_three_point(eps, more, order) for order in orders]
        assert all(upper >= bound for upper, bound in zip(got, exact, strict=True) if bound > 1e-300)
        assert all(upper <= bound * (1 + 1e-11) + mpmath.mpf(1e-300) for upper, bound in zip(got, exact, strict=True))


@pytest.mark.parametrize("more", RARE)
def test_rho_of_the_least_probabilities_is_the_largest_slope(more):
    # The curve at order 2 says next to nothing, and the orders that it alone would have to look at are no floats.
    for eps in (0.01, 1.0, 6.2, 30.0):
        found = three_point_rho(eps, more, 1.0 - more * (1 + math.exp(-eps)))
        orders = 1 + np.geomspace(1e-3, 1e4, 3001) * 700 / eps
        slope = float(np.max(three_point_rdp(eps, more, orders) / orders))
        assert slope * (1 - 1e-12) <= found <= slope * (1 + 1e-4)


def test_least_rho_of_a_curve_with_nan_is_nan():
    assert math.isnan(least_rho(lambda a: np.where(a > 5.0, np.nan, 0.1 * a), 1.0))
    assert 0.0 < least_rho(lambda a: np.zeros(a.shape), 1.0) <= 1e-299
