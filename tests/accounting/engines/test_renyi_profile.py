"""Tests of events that have only a Rényi curve, composed with events that have a profile."""

import math

import numpy as np
import pytest
from hypothesis import strategies as st
from samples import deep_examples

from hockeystick.accounting import (
    ZCDP,
    Failure,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RenyiCurve,
    compose,
    epsilon,
)
from hockeystick.accounting import delta as delta_of
from hockeystick.accounting.engines import renyi
from hockeystick.accounting.engines.renyi_profile import UnderRenyi, completed
from hockeystick.accounting.engines.tradeoff_curve import deltas, true_positive_rate
from hockeystick.accounting.losses import gaussian_profile

SGD = (PoissonSampled(0.01, Gaussian(0.8)), 1000)


@deep_examples(30, 100, mu=st.floats(1e-3, 5), share=st.floats(0, 1))
def test_the_pair_dominates_mechanisms_with_the_curve(mu, share):
    """Gaussian noise is μ²/2-zCDP: its profile lies below, and the Rényi bound on it is met at the points."""
    law = UnderRenyi(ZCDP(mu * mu / 2)).pair()
    assert law is not None
    losses, p = np.array(law.losses), np.array(law.p)
    eps = share * renyi.epsilon(ZCDP(mu * mu / 2), 1e-12)
    got = float(p @ np.maximum(0.0, -np.expm1(eps - losses))) + law.at_infinity
    assert got >= math.exp(gaussian_profile.log_delta(mu, eps))
    assert got >= math.exp(renyi.log_delta(ZCDP(mu * mu / 2), eps)) * (1 - 1e-6) or got >= -math.expm1(-eps)
    assert p @ np.exp(-losses) == pytest.approx(1.0, abs=1e-9)  # nothing is left that only Q can do
    assert p.sum() + law.at_infinity == pytest.approx(1.0, abs=1e-9)


def test_the_profile_is_the_renyi_bound_up_to_its_points():
    event = RenyiCurve((2.0, 8.0, 32.0, 200.0), (0.01, 0.05, 0.2, 2.0))
    law = UnderRenyi(event).pair()
    assert law is not None
    for eps in np.linspace(0.3, renyi.epsilon(event, 1e-10), 7):
        got = float(np.array(law.p) @ np.maximum(0.0, -np.expm1(eps - np.array(law.losses)))) + law.at_infinity
        wanted = math.exp(renyi.log_delta(event, float(eps)))
        assert wanted * (1 - 1e-9) <= got <= wanted * 1.2


@pytest.mark.statistical
@pytest.mark.parametrize("rho, at", [(1e-6, 1e-12), pytest.param(0.01, 1e-6, marks=pytest.mark.deep), (0.5, 1e-2)])
def test_a_mixed_composition_lies_between_a_mechanism_it_allows_and_the_curves_alone(rho, at):
    mixed = compose(SGD, (ZCDP(rho), 1))
    found = epsilon(mixed, at)
    allowed = epsilon(compose(SGD, (Gaussian(1 / math.sqrt(2 * rho)), 1)), at, bracket=True)
    assert found.method == "pld"
    assert allowed.lower is not None and found.upper >= allowed.lower
    assert found.upper < epsilon(mixed, at, method="rdp").upper
    # The composition charges the curve once, and costs at most the sum of the two guarantees.
    halves = epsilon(compose(SGD), at / 2).upper + epsilon(ZCDP(rho), at / 2).upper
    assert found.upper <= halves * (1 + 1e-3)


@pytest.mark.statistical
def test_repeated_curves_are_added_before_they_become_a_profile():
    many = epsilon(compose(SGD, (ZCDP(1e-4), 100)), 1e-6).upper
    assert many == pytest.approx(epsilon(compose(SGD, (ZCDP(0.01), 1)), 1e-6).upper, rel=1e-6)


def test_delta_and_epsilon_agree_and_failures_are_added_once():
    event = compose((Laplace(5.0), 20), (RenyiCurve((2.0, 16.0), (0.02, 0.2)), 1), (Failure(1e-7), 1))
    eps = epsilon(event, 1e-5).upper
    assert delta_of(event, eps).upper == pytest.approx(1e-5, rel=1e-4)
    assert deltas(event, np.array([eps]))[0] == pytest.approx(1e-5, rel=1e-4)
    assert epsilon(event, 0.99e-7).upper == math.inf or epsilon(event, 0.99e-7).method == "pure"
    stand_in = completed(event)
    assert stand_in is not None and stand_in.failure_delta() == pytest.approx(1e-7)


@pytest.mark.statistical
def test_attack_rates_use_the_profile_of_the_renyi_curve():
    mixed, without = compose(SGD, (ZCDP(1e-4), 1)), compose(SGD)
    more, less = (true_positive_rate(event, np.array([1e-4, 1e-2, 0.3])) for event in (mixed, without))
    assert (less <= more).all() and (more <= less + 0.02).all()


@pytest.mark.parametrize(
    "event, same",
    [
        (compose((Gaussian(1.0), 3)), True),
        (ZCDP(0.1), False),
        (compose((ZCDP(0.1), 5), (RenyiCurve((2.0,), (0.1,)), 1)), False),
    ],
)
def test_a_curve_is_completed_only_where_that_improves_the_bound(event, same):
    assert completed(event) == (event if same else None)


def test_a_curve_without_a_bound_has_no_profile():
    useless = RenyiCurve((1.0 + 1e-6,), (1e90,))
    assert completed(compose((PureDP(0.1), 2), useless)) is None
    assert math.isinf(epsilon(compose((PureDP(0.1), 2), useless), 1e-6).upper)


def test_the_worst_pair_under_a_renyi_curve_keeps_the_other_curves():
    event, orders = Gaussian(2.0), np.array([1.5, 4.0, 30.0])
    under = UnderRenyi(event)
    assert under.zcdp_rho() == event.zcdp_rho() and (under.rdp(orders) == event.rdp(orders)).all()


def test_a_pure_bound_ends_the_worst_pair():
    pair = UnderRenyi(PureDP(0.01)).pair()
    assert pair is not None and max(pair.losses) <= 0.01 * (1 + 1e-12) and pair.infinity() == 0.0
