"""Tests of mean excesses of sums against exact sums over all outcomes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting.numerics import stop_loss
from hockeystick.accounting.numerics.stop_loss import mean_excess


def exact(values, masses, n):
    """By the law of the sum in whole fractions; what is left of a copy's mass is at 0."""
    one = {Fraction(0): 1 - sum(map(Fraction, masses), Fraction(0))}
    for value, mass in zip(values, masses, strict=True):
        one[Fraction(value)] = one.get(Fraction(value), Fraction(0)) + Fraction(mass)
    law = {Fraction(0): Fraction(1)}
    for _ in range(n):
        following: dict[Fraction, Fraction] = {}
        for total, p in law.items():
            for value, mass in one.items():
                following[total + value] = following.get(total + value, Fraction(0)) + p * mass
        law = following
    return float(sum((p * max(total, Fraction(0)) for total, p in law.items()), Fraction(0)) / n)


LAWS = [
    ([0.5, -0.75], [0.25, 0.5]),
    ([3.0, -1.25, -0.375], [0.125, 0.25, 0.5]),
    ([0.3, -0.7, 0.1], [0.3, 0.3, 0.2]),  # off the multiples of the step
    ([math.pi, -math.e], [0.01, 0.02]),
    ([1.0, -5.0], [0.75, 0.25]),
]


@pytest.mark.parametrize(("values", "masses"), LAWS)
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_small_sums_are_bounded_from_above_and_closely(values, masses, n):
    found, true = mean_excess(np.array(values), np.array(masses), n), exact(values, masses, n)
    assert true <= found <= true * (1 + 3e-3) + 1e-250


def coins(up, down, p, n):
    """Up with probability p, else down, by the binomial law."""
    k = np.arange(n + 1)
    total = k * up - (n - k) * down
    return float(np.exp(stats.binom.logpmf(k, n, p)) @ np.maximum(total, 0.0)) / n


@pytest.mark.parametrize(
    ("up", "down", "p", "n"),
    [(1.0, 1.5, 0.5, 1000), (1.0, 1.01, 0.5, 4097), (1.718, 1.9, 0.5, 300), (20.0, 1.0, 0.01, 1023)],
)
def test_tails_keep_their_relative_accuracy(up, down, p, n):
    found = mean_excess(np.array([up, -down]), np.array([p, 1 - p]), n)
    true = coins(up, down, p, n)
    assert true * (1 - 1e-9) <= found <= true * 1.05 and true < 0.1


@pytest.mark.parametrize("bits", [10, 20, 30])
def test_the_mean_excess_of_fair_coins_is_that_of_the_central_term(bits):
    n = 2**bits
    central = math.lgamma(n) - math.lgamma(n // 2) - math.lgamma(n // 2 + 1) - n * math.log(2.0)
    found = mean_excess(np.array([1.0, -1.0]), np.array([0.5, 0.5]), n)
    assert math.exp(central) * (1 - 1e-6) <= found <= math.exp(central) * 1.002


@pytest.mark.parametrize("n", [10**8, 10**8 - 1, 2**26])
def test_sums_of_very_many_copies_are_near_the_normal_limit(n):
    """Masses that are cut off among few copies would shift the mean of many."""
    top, down, rare = 53.6, 53.73, 0.0144
    values, masses = np.array([top, -down, -0.00245]), np.array([rare, rare, 0.2])
    mean = float(masses @ values)
    deviation = math.sqrt(n * (float(masses @ values**2) - mean**2))
    z = -n * mean / deviation
    limit = deviation * (stats.norm.pdf(z) - z * stats.norm.sf(z)) / n
    assert limit * (1 - 1e-4) <= mean_excess(values, masses, n) <= limit * 1.01


def test_rare_large_values_above_the_window_are_counted():
    n, q, top = 10**6, 1e-6, 1e6
    found = mean_excess(np.array([top, -2.0]), np.array([q, 1 - q]), n)
    true = coins(top, 2.0, q, n)
    assert true * (1 - 1e-9) <= found <= true * 1.15  # the step is that of the large value


def test_mass_above_a_narrow_window_is_not_lost(monkeypatch):
    monkeypatch.setattr(stop_loss, "_ABOVE", 0.5)
    monkeypatch.setattr(stop_loss, "_JUMPS", 0.0)
    monkeypatch.setattr(stop_loss, "_NOTHING", 1.0)  # and no wider window is tried
    found = mean_excess(np.array([1.0, -1.0]), np.array([0.5, 0.5]), 256)
    assert coins(1.0, 1.0, 0.5, 256) <= found < 0.5


def test_what_is_never_positive_has_no_excess():
    assert mean_excess(np.array([-1.0, -0.3]), np.array([0.5, 0.2]), 100) == 0.0
    assert mean_excess(np.array([0.0]), np.array([1.0]), 5) == 0.0
    assert mean_excess(np.array([]), np.array([]), 5) == 0.0
