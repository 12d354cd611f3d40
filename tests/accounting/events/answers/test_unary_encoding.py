"""Tests of unary encoding: its curves against the enumeration of all reports of a few bits."""

import itertools
import math

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import example, given
from hypothesis import strategies as st

from hockeystick.accounting import Adjacency, InvalidArgumentError, RandomizedResponse, compose, delta, epsilon
from hockeystick.accounting.events.answers.unary_encoding import UnaryEncoding

ORDERS = np.array([1.001, 1.5, 2.0, 8.0, 60.0])


def reports(p, q, category, bits):
    law = []
    for report in itertools.product((0, 1), repeat=bits):
        rates = [p if i == category else q for i in range(bits)]
        law.append(math.prod(rate if bit else 1 - rate for rate, bit in zip(rates, report, strict=True)))
    return np.array(law)


@pytest.mark.statistical
@given(p=st.floats(0.001, 0.999), q=st.floats(0.001, 0.999), bits=st.integers(2, 5), share=st.floats(0, 1))
def test_curves_are_those_of_the_enumeration(p, q, bits, share):
    event = UnaryEncoding(p, q)
    first, second = reports(p, q, 0, bits), reports(p, q, bits - 1, bits)
    loss = np.log(first / second)
    assert np.abs(loss).max() == pytest.approx(event.pure_epsilon(), rel=1e-9, abs=1e-12)
    eps = share * event.pure_epsilon()
    exact = hockey_stick(first, second, eps)
    got = delta(event, eps).upper
    assert exact <= got + 1e-12
    assert got <= exact + 1e-4 * event.pure_epsilon() + 1e-12  # the grid
    with np.errstate(over="ignore"):
        moments = np.log((first * np.exp((ORDERS[:, None] - 1) * loss)).sum(axis=1)) / (ORDERS - 1)
    finite = np.isfinite(moments)
    np.testing.assert_allclose(event.rdp(ORDERS)[finite], moments[finite], rtol=1e-7, atol=1e-11)


@given(p=st.floats(0, 1), q=st.floats(0, 1))
@example(p=1e-305, q=2e-308)
@example(p=1e-310, q=1e-309)
def test_the_two_rates_may_be_exchanged(p, q):
    event, other = UnaryEncoding(p, q), UnaryEncoding(q, p)
    assert event.pure_epsilon() == other.pure_epsilon() and event.zcdp_rho() == other.zcdp_rho()
    assert event.pair() == other.pair()


@pytest.mark.parametrize("p, q", [(0.75, 0.25), (0.5, 0.2), (0.02, 0.01), (0.3, 1e-9), (1 - 1e-9, 0.5), (0.4, 0.4)])
def test_rho_is_the_largest_slope(p, q):
    event = UnaryEncoding(p, q)
    orders = 1 + np.geomspace(1e-8, 1e5, 100_001)
    slope = float(np.max(event.rdp(orders) / orders))
    assert slope * (1 - 1e-13) <= event.zcdp_rho() <= slope * (1 + 4e-6)
    if p == 0.75:  # RAPPOR, Harrison & Manurangsi 2025: the mean loss
        assert event.zcdp_rho() == pytest.approx((p - q) * math.log(9.0), rel=1e-12)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 0.5, 2.0, 20.0])
def test_standard_encodings_have_their_epsilon(eps):
    symmetric, optimised = UnaryEncoding.symmetric(eps), UnaryEncoding.optimised(eps)
    for event in (symmetric, optimised):
        assert event.pure_epsilon() == pytest.approx(eps, rel=1e-9, abs=1e-15)
    assert symmetric.p + symmetric.q == pytest.approx(1.0)
    assert optimised.p == 0.5
    if eps:
        # half of the reports of the optimised encoding are uninformative; binary randomised response at ε is worse than
        # both
        for event in (symmetric, optimised):
            assert delta(event, eps / 2).upper < delta(RandomizedResponse(eps), eps / 2).upper


def test_a_rate_of_zero_or_one_reveals_the_category_at_times():
    for event, revealed in (
        (UnaryEncoding(0.3, 0.0), 0.3),
        (UnaryEncoding(1.0, 0.2), 0.8),
        (UnaryEncoding(0.0, 1.0), 1),
    ):
        assert event.pure_epsilon() == event.zcdp_rho() == math.inf
        assert delta(event, 30.0).upper == pytest.approx(revealed)
        assert epsilon(event, 0.9 * revealed).upper == math.inf
    for rate in (0.0, 0.5, 1.0):
        event = UnaryEncoding(rate, rate)
        assert event.pure_epsilon() == 0.0 and epsilon(compose((event, 9)), 0.0).upper == 0.0
    assert UnaryEncoding(0.5, 5e-324).pure_epsilon() > 700


def test_it_needs_a_replacement_and_charges_a_group_for_each_report():
    event = UnaryEncoding(0.5, 0.2)
    assert event.accepts(Adjacency.REPLACE_ONE) and event.accepts(Adjacency.LOCAL)
    assert not event.accepts(Adjacency.ADD_OR_REMOVE_ONE)
    assert event.at(0.5) == event and event.at(3) == compose((event, 3))


@pytest.mark.parametrize("standard", [UnaryEncoding.symmetric, UnaryEncoding.optimised])
def test_bad_epsilons_are_refused(standard):
    for bad in (math.nan, math.inf, -0.1, True, "1", None, 1j):
        with pytest.raises(InvalidArgumentError):
            standard(bad)
