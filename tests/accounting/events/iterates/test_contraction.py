"""Tests of Lipschitz constants of steps against the curvature of quadratics, the losses that attain them."""

from fractions import Fraction

import numpy as np
import pytest

from hockeystick.accounting import Contraction, InvalidArgumentError


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.7, 3.0])
@pytest.mark.parametrize("records", [0, 1, 150])
def test_no_batch_of_quadratics_expands_more(rate, records):
    """Batches from empty to the largest one: each of records·M/B is the curvature of one batch."""
    step = Contraction.of_gradient_descent(rate, regulariser=0.25, smoothness=2.0, largest_batch=150, normaliser=100)
    exact = abs(1 - Fraction(rate) * (Fraction(1, 4) + Fraction(2 * records, 100)))
    assert exact <= Fraction(step.factor)


def test_the_constant_is_attained_by_an_empty_and_by_a_full_batch():
    slow = Contraction.of_gradient_descent(0.125, regulariser=0.5, smoothness=2.0, largest_batch=100, normaliser=100)
    fast = Contraction.of_gradient_descent(2.0, regulariser=0.5, smoothness=2.0, largest_batch=100, normaliser=100)
    assert (slow.factor, fast.factor) == (1 - 0.125 * 0.5, 2.0 * 2.5 - 1)


def test_curvature_of_the_data_is_no_strong_convexity():
    """An empty batch has none (second look: c = 0.9 claimed from it is exceeded by a factor of 7 at t = 2000)."""
    step = Contraction.of_gradient_descent(0.1, smoothness=1.0, largest_batch=10, normaliser=10)
    assert step.factor == 1.0


def test_a_batch_twice_as_large_as_the_normaliser_expands():
    step = Contraction.of_gradient_descent(2.0, smoothness=1.0, largest_batch=20, normaliser=10)
    assert step.factor == 3.0


def test_no_bound_on_the_batch_is_refused():
    with pytest.raises(InvalidArgumentError, match="largest_batch"):
        Contraction.of_gradient_descent(0.1, smoothness=1.0, normaliser=10)


@pytest.mark.parametrize("change", [{"learning_rate": 0.0}, {"regulariser": -1.0}, {"smoothness": np.nan},
                                    {"normaliser": 0.0}, {"largest_batch": 0}, {"learning_rate": 1e9}])  # fmt: skip
def test_bad_numbers_are_refused(change):
    given = {"learning_rate": 0.1, "smoothness": 1.0, "largest_batch": 10, "normaliser": 10} | change
    with pytest.raises(InvalidArgumentError):
        Contraction.of_gradient_descent(given.pop("learning_rate"), **given)


def test_a_proved_constant_says_what_it_claims():
    step = Contraction.proved(1.05)
    assert step.factor == 1.05
    assert "1.05" in step.assumptions[0] and "every batch" in step.assumptions[0]
    with pytest.raises(InvalidArgumentError):
        Contraction.proved(-0.1)
