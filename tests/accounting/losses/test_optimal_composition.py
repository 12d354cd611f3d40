"""Tests of the optimal composition of (ε, δ) guarantees against enumeration in 400 digits, in both rounding
directions."""

import itertools
import math
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import diagonal

from hockeystick.accounting import InvalidArgumentError, NumericalError, PureDP, compose
from hockeystick.accounting import delta as event_delta
from hockeystick.accounting.losses import optimal_composition as oc

PARTS = st.lists(
    st.tuples(st.just(0.0) | st.floats(1e-100, 4), st.sampled_from([0.0, 1e-300, 1e-15, 1e-3, 0.3]), st.integers(0, 4)),
    max_size=3,
)


def exact_delta(parts, eps):
    """Every outcome of every randomised response, with 400 digits."""
    with mp.workdps(400):
        spared, laws = mp.mpf(1), []
        for e, d, count in parts:
            spared *= (1 - mp.mpf(d)) ** count
            more = 1 / (1 + mp.exp(-mp.mpf(e)))
            laws += [((more, mp.mpf(e)), (1 - more, -mp.mpf(e)))] * count
        finite = mp.mpf(0)
        for outcome in itertools.product(*laws):
            loss = mp.fsum(s for _, s in outcome)
            if loss > eps:
                finite += mp.fprod(p for p, _ in outcome) * (1 - mp.exp(mp.mpf(eps) - loss))
        # 1 − spared·(1 − finite) without losing a δ of 1e-300
        failure = mp.mpf(0)
        for _, d, count in parts:
            for _ in range(count):
                failure += mp.mpf(d) * (1 - failure)
        return finite + failure * (1 - finite)


def homogeneous_delta(e, count, eps):
    """Σ C(k, i)·(e^{(k−i)ε} − x·e^{iε})₊ / (1 + e^ε)^k: Kairouz, Oh & Viswanath 2015, Thm 3.3, at δ = 0 and any x."""
    with mp.workdps(60):
        x, odds, total, choices = mp.exp(mp.mpf(eps)), mp.exp(mp.mpf(e)), mp.mpf(0), 1
        power, other = odds**count, mp.mpf(1)
        for i in range(count + 1):
            if power <= x * other:
                break
            total += choices * (power - x * other)
            power, other, choices = power / odds, other * odds, choices * (count - i) // (i + 1)
        return total / (1 + odds) ** count


@pytest.mark.statistical
@settings(max_examples=60)
@given(PARTS, st.floats(0, 10))
def test_delta_brackets_the_enumeration(parts, eps):
    exact = exact_delta(parts, eps)
    up, down = oc.delta(parts, eps), oc.delta(parts, eps, upper=False)
    assert down <= exact <= up
    assert up - down <= 1e-12 * exact + 1e-323


@pytest.mark.statistical
@settings(max_examples=60)
@given(PARTS, st.sampled_from([0.0, 1e-320, 1e-15, 1e-6, 0.01, 0.5, 1.0]))
def test_epsilon_inverts_delta(parts, goal):
    up, down = oc.epsilon(parts, goal), oc.epsilon(parts, goal, upper=False)
    assert 0.0 <= down <= up
    if math.isinf(up):
        assert exact_delta(parts, 1e3) >= goal
        return
    assert up - down <= 1e-12 * up
    assert exact_delta(parts, up) <= goal
    if up > 1e-9:
        assert exact_delta(parts, up * (1 - 1e-12)) >= goal


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("e", "count", "goal"), diagonal([(1e-3, 10_000), (0.01, 10_000), (0.3, 1000), (2.0, 50)], [1e-6, 1e-15])
)
def test_many_equal_parts_agree_with_the_closed_form(e, count, goal):
    up = oc.epsilon([(e, 0.0, count)], goal)
    assert homogeneous_delta(e, count, up) <= goal < homogeneous_delta(e, count, up * (1 - 1e-12))
    value = homogeneous_delta(e, count, up / 2)
    assert oc.delta([(e, 0.0, count)], up / 2, upper=False) <= value <= oc.delta([(e, 0.0, count)], up / 2)
    assert oc.delta([(e, 0.0, count)], up / 2) <= value * (1 + 1e-12)


def test_equal_parts_may_be_written_in_any_way():
    one = oc.delta([(0.3, 1e-6, 7), (0.1, 0.0, 3)], 1.0)
    assert one == oc.delta([(0.1, 0.0, 2), (0.3, 1e-6, 4), (0.1, 0.0, 1), (0.3, 1e-6, 3), (9.0, 0.5, 0)], 1.0)


def test_it_agrees_with_the_privacy_loss_distribution():
    parts = [(0.1, 0.0, 200), (0.37, 0.0, 30)]
    exact = oc.delta(parts, 4.0)
    grid = event_delta(compose((PureDP(0.1), 200), (PureDP(0.37), 30)), 4.0, bracket=True, method="pld")
    assert grid.lower is not None
    assert grid.lower <= exact <= grid.upper
    assert grid.upper <= exact * (1 + 1e-3)


def test_trivial_compositions_are_exact():
    assert oc.delta([], 0.0) == 0.0 and oc.epsilon([], 0.0) == 0.0
    assert oc.delta([(1.0, 1e-5, 1)], 1.0) == 1e-5 == oc.delta([(1.0, 1e-5, 1)], math.inf)
    assert oc.epsilon([(1.0, 1e-5, 1)], 1e-5) == 1.0
    assert oc.epsilon([(1.0, 1e-5, 2)], 1.9e-5) == math.inf
    assert oc.epsilon([(0.1, 0.0, 10)], 0.0) >= 1.0
    assert oc.delta([(1.0, 1.0, 2)], 5.0) == 1.0 and oc.epsilon([(1.0, 1.0, 2)], 0.9) == math.inf
    assert oc.epsilon([(1.0, 1.0, 2)], 1.0) == 0.0
    assert 0.0 < oc.delta([(1.0, 5e-324, 3)], 9.0) <= 5 * 5e-324


@pytest.mark.statistical
@given(PARTS)
def test_basic_composition_is_never_better(parts):
    e, d = oc.basic(parts)
    assert e >= math.fsum(count * eps for eps, _, count in parts) * (1 - 1e-15)
    assert exact_delta(parts, e) <= d <= 1.0


def test_basic_composition_of_likely_failures_is_a_certain_one():
    assert oc.basic([(0.5, 0.4, 3)]) == (1.5, 1.0)


def test_too_many_distinct_values_are_refused():
    with pytest.raises(NumericalError, match="terms"):
        oc.delta([(0.1 + i / 100, 0.0, 50) for i in range(5)], 1.0)


@pytest.mark.parametrize(
    ("parts", "argument"),
    [
        ([(0.1, 0.0)], r"parts\[0\]"),
        ([(0.1, 0.0, 1), (-1.0, 0.0, 1)], r"parts\[1\]\.epsilon"),
        ([(math.nan, 0.0, 1)], r"parts\[0\]\.epsilon"),
        ([(0.1, 1.5, 1)], r"parts\[0\]\.delta"),
        ([(0.1, 0.0, 1.5)], r"parts\[0\]\.count"),
        ([(0.1, 0.0, True)], r"parts\[0\]\.count"),
    ],
)
def test_bad_parts_are_refused(parts, argument):
    with pytest.raises(InvalidArgumentError, match=argument):
        oc.delta(parts, 1.0)
    with pytest.raises(InvalidArgumentError, match="delta"):
        oc.epsilon([(0.1, 0.0, 1)], -0.1)


def test_without_any_epsilon_only_the_failures_are_left():
    parts = [(0.0, 0.01, 5)]
    failure = 1 - (1 - Fraction(0.01)) ** 5
    for eps in (0.0, 0.5):
        assert failure <= Fraction(oc.delta(parts, eps)) <= failure * (1 + Fraction(1, 2**51))
    assert oc.epsilon(parts, 0.05) == 0.0 and oc.epsilon(parts, 0.049) == math.inf
    assert oc.epsilon([], 0.0) == 0.0 == oc.delta([], 0.0)


def test_decimals_are_rounded_in_the_given_direction():
    found = []
    for up in (False, None, True):
        with oc._digits(5, up):
            found.append((Decimal(2) / 3, Decimal(-2) / 3))
    assert found[0] == (Decimal("0.66666"), Decimal("-0.66667"))
    assert found[1] == (Decimal("0.66667"), Decimal("-0.66667"))
    assert found[2] == (Decimal("0.66667"), Decimal("-0.66666"))
