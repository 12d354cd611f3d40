"""Tests of directed rounding against exact fractions."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting.numerics import directed_rounding

POSITIVE = st.floats(1e-150, 1e150)


def test_the_unit_roundoff_is_that_of_the_floats():
    assert np.finfo(float).eps == 2 * directed_rounding.U
    assert 1.0 + directed_rounding.U == 1.0 < 1.0 + 2 * directed_rounding.U


@given(POSITIVE, POSITIVE)
def test_quotients_are_the_floats_next_to_the_exact_one(x, y):
    exact = Fraction(x) / Fraction(y)
    low, high = directed_rounding.quotient_down(x, y), directed_rounding.quotient_up(x, y)
    assert Fraction(low) <= exact < Fraction(math.nextafter(low, math.inf))
    assert Fraction(math.nextafter(high, 0.0)) < exact <= Fraction(high)


@given(st.integers(1, 10**9), POSITIVE)
def test_products_are_the_least_floats_above_the_exact_one(count, x):
    found = directed_rounding.product_up(count, x)
    assert Fraction(math.nextafter(found, 0.0)) < count * Fraction(x) <= Fraction(found)


@given(st.lists(POSITIVE, min_size=1, max_size=9))
def test_sums_are_the_least_floats_above_the_exact_one(terms):
    exact = sum(map(Fraction, terms), Fraction(0))
    found = directed_rounding.sum_up(terms)
    assert Fraction(math.nextafter(found, 0.0)) < exact <= Fraction(found)


@pytest.mark.parametrize(
    ("count", "value", "product"), [(0, math.inf, 0.0), (3, math.inf, math.inf), (2, 1e308, math.inf)]
)
def test_products_with_infinity_are_rounded_outwards(count, value, product):
    assert directed_rounding.product_up(count, value) == product


@given(st.floats(-700.0, 0.0))
def test_exponentials_lie_on_their_side_and_near(log_value):
    with mpmath.workdps(40):
        exact = mpmath.exp(mpmath.mpf(log_value))
        low, high = directed_rounding.exp(log_value, upper=False), directed_rounding.exp(log_value)
        assert low < exact <= high <= 1.0
        assert float(high / exact - 1) < 1e-15 * (1 + abs(log_value))
        assert float(1 - low / exact) < 1e-15 * (1 + abs(log_value))


def test_an_exponential_that_underflows_is_rounded_up():
    assert directed_rounding.exp(-math.inf) == 5e-324
    assert directed_rounding.exp(-math.inf, upper=False) == 0.0
    assert 0.0 == directed_rounding.exp(-1e4, upper=False) < directed_rounding.exp(-1e4) < 1e-300


@given(st.floats(-700.0, -1e-300))
def test_logarithms_allow_for_an_error_of_one_ulp(log_value):
    with mpmath.workdps(40):
        more, less = (mpmath.mpf(log_value) + sign * mpmath.mpf(math.ulp(log_value)) for sign in (1, -1))
        assert directed_rounding.exp(log_value, upper=False) <= mpmath.exp(less)
        assert min(mpmath.mpf(1), mpmath.exp(more)) <= directed_rounding.exp(log_value)
