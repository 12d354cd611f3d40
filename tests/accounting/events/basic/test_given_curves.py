"""Tests of user-given curves: the worst pair against random pairs within the claim, and against closed forms."""

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from divergences import hockey_stick, larger_hockey_stick, renyi
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick.accounting import (
    Adjacency,
    ApproximateDP,
    Gaussian,
    InvalidArgumentError,
    PureDP,
    RandomizedResponse,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
)
from hockeystick.accounting.events.basic import given_laws
from hockeystick.accounting.events.basic.given_curves import GaussianDP, PrivacyProfile, RenyiCurve, TradeOff
from hockeystick.accounting.events.basic.given_laws import DiscretePair, LossDistribution
from hockeystick.accounting.events.basic.group_steps import Chain

AT = (0.0, 0.17, 0.5, 1.3, 2.9)
ORDERS = np.array([1.0001, 1.3, 2.0, 5.0, 40.0, 1000.0])


def random_pair(rng, outcomes=4, spread=1.0):
    p, q = np.exp(rng.normal(0, spread, (2, outcomes)))
    return p / p.sum(), q / q.sum()


def symmetric_pair(rng):
    p, q = random_pair(rng)
    return np.concatenate([p, q]) / 2, np.concatenate([q, p]) / 2


def trade_off_of(p, q, rates):
    order = np.argsort(-(p / q))
    x = np.concatenate([[0.0], np.cumsum(q[order])])
    y = np.concatenate([[0.0], np.cumsum(p[order])])
    return 1 - np.interp(rates, x / x[-1], y / y[-1])


def product(laws):
    return np.array([math.prod(outcome) for outcome in itertools.product(*laws)])


def assert_covers(event, p, q, slack=1e-12):
    """δ, and δ of the composition of two in every mix of orders, and the Rényi curve."""
    for a, b in ((p, q), (q, p)):
        for eps in AT:
            assert hockey_stick(a, b, eps) <= delta(event, eps).upper + slack
            for c, d in ((p, q), (q, p)):
                both = hockey_stick(product([a, c]), product([b, d]), eps)
                assert both <= delta(compose((event, 2)), eps).upper + slack
        if event.failure_delta() == 0.0:
            for order, bound in zip(ORDERS, event.rdp(ORDERS), strict=True):
                assert renyi(a, b, order) <= bound * (1 + 1e-12)
                assert bound <= event.zcdp_rho() * order * (1 + 1e-12)


def test_gaussian_dp_is_gaussian_noise():
    for eps in AT:
        got, exact = delta(GaussianDP(2.0), eps, bracket=True), delta(Gaussian(0.5), eps).upper
        assert got.lower is not None
        assert got.lower <= exact * (1 + 1e-12) and exact <= got.upper * (1 + 1e-12)
        assert got.upper <= exact * (1 + 1e-5)
    np.testing.assert_allclose(GaussianDP(2.0).rdp(ORDERS), Gaussian(0.5).rdp(ORDERS), rtol=1e-15)
    assert GaussianDP(0.5).at(4) == GaussianDP(2.0) and GaussianDP(0.5).at(3.5) == GaussianDP(2.0)
    assert GaussianDP(1.0).norm == "records"


@pytest.mark.parametrize("seed", range(6))
def test_renyi_curve_bounds_what_lies_between(seed):
    rng = np.random.default_rng(seed)
    p, q = random_pair(rng)
    orders = np.sort(1 + rng.exponential(3, 6))
    exact = [max(renyi(p, q, o), renyi(q, p, o)) for o in orders]
    event = RenyiCurve(orders, exact)
    between = np.concatenate([1 + np.geomspace(1e-6, orders[-1] - 1, 60), orders])
    between = between[between <= orders[-1]]
    for order, bound in zip(between, event.rdp(between), strict=True):
        # Where the maximum of two convex curves is at hand, it is convex too.
        assert max(renyi(p, q, order), renyi(q, p, order)) <= bound * (1 + 1e-9)
    np.testing.assert_allclose(event.rdp(np.array(orders)), exact, rtol=1e-9)
    assert math.isinf(event.rdp(np.array([orders[-1] * 1.001]))[0])
    assert math.isinf(event.zcdp_rho()) and math.isinf(event.pure_epsilon()) and not event.has_profile()


def test_each_point_of_a_renyi_curve_is_a_bound_by_itself():
    event = RenyiCurve((2.0, 3.0, 5.0), (0.5, 9.0, 0.4))  # the last one bounds all before it
    np.testing.assert_allclose(event.rdp(np.array([1.5, 2.0, 3.0, 4.0, 5.0])), 0.4, rtol=1e-12)
    # on the chord of (α − 1)·ε between 2 and 5, (1, 1·0.1) to (4, 4·0.4)
    assert RenyiCurve((2.0, 3.0, 5.0), (0.1, 0.4, 0.4)).rdp(np.array([3.0]))[0] == pytest.approx(0.3, rel=1e-12)
    assert epsilon(event, 1e-5).method == "rdp"


def test_renyi_curve_in_a_group():
    event = RenyiCurve(np.arange(2, 200) / 4 + 1, 0.1 * (np.arange(2, 200) / 4 + 1))
    two = event.at(2)
    np.testing.assert_allclose(two.rdp(np.array([2.0, 8.0])), [0.8, 3.2], rtol=1e-3)
    assert math.isinf(two.rdp(np.array([40.0]))[0])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("orientation", ["free", "tied"])
@pytest.mark.every(4)
def test_discrete_pair_is_the_enumeration(seed, orientation):
    p, q = random_pair(np.random.default_rng(seed))
    event = DiscretePair(p, q, orientation=orientation)
    for eps in AT:
        exact = larger_hockey_stick(p, q, eps)
        got = delta(event, eps, bracket=True)
        assert got.lower is not None
        assert got.lower <= exact + 1e-15 and exact <= got.upper * (1 + 1e-12)
        assert got.upper <= exact * (1 + 1e-5) + 1e-9
        three = delta(compose((event, 3)), eps).upper
        mixes = itertools.product((True, False), repeat=3) if orientation == "free" else [(True,) * 3, (False,) * 3]
        worst = 0.0
        for mix in mixes:
            a, b = product([p if way else q for way in mix]), product([q if way else p for way in mix])
            worst = max(worst, hockey_stick(a, b, eps))
        assert worst <= three * (1 + 1e-12)
        if orientation == "tied":
            assert three <= worst * (1 + 1e-4) + 1e-9
    for order, bound in zip(ORDERS, event.rdp(ORDERS), strict=True):
        exact = max(renyi(p, q, order), renyi(q, p, order))
        assert exact <= bound * (1 + 1e-11) and bound <= exact * (1 + 1e-6) + 1e-9
        assert bound <= event.zcdp_rho() * order * (1 + 1e-12)
    assert event.pure_epsilon() == pytest.approx(np.abs(np.log(p / q)).max(), rel=1e-14)


def test_free_is_above_tied():
    p, q = (0.7, 0.2, 0.1), (0.4, 0.2, 0.4)
    free, tied = (compose((DiscretePair(p, q, orientation=o), 4)) for o in ("free", "tied"))
    assert delta(tied, 1.0).upper < delta(free, 1.0).upper


def test_orientation_says_where_the_event_has_a_meaning():
    tied = DiscretePair((0.9, 0.1), (0.5, 0.5), orientation="tied")
    assert tied.accepts(Adjacency.ADD_OR_REMOVE_ONE) and not tied.accepts(Adjacency.REPLACE_ONE)
    assert DiscretePair((0.9, 0.1), (0.5, 0.5)).accepts(Adjacency.REPLACE_ONE)
    ways: Any = tied.directions()
    forward, backward = ways
    assert backward == DiscretePair((0.5, 0.5), (0.9, 0.1), orientation="forward")
    assert delta(forward, 0.5).upper == pytest.approx(hockey_stick(np.array(forward.p), np.array(forward.q), 0.5), 1e-6)
    with pytest.raises(UnsupportedEventError, match="one order"):
        forward.at(2)
    assert tied.at(2) == Chain(tied, 2)


def test_one_order_alone_has_the_rho_of_that_order_alone():
    # Q has mass where P has none: loss at most ln 1.25, yet the divergence is linear in it, not quadratic.
    forward = DiscretePair((1.0, 0.0), (0.8, 0.2), orientation="forward")
    assert forward.pure_epsilon() == pytest.approx(math.log(1.25), rel=1e-14)
    np.testing.assert_allclose(forward.rdp(ORDERS), math.log(1.25), rtol=1e-9)
    assert forward.zcdp_rho() >= math.log(1.25)
    assert math.isinf(DiscretePair((1.0, 0.0), (0.8, 0.2)).zcdp_rho())


@pytest.mark.statistical
def test_infinite_losses_count_in_delta():
    event = DiscretePair((0.5, 0.5, 0.0), (0.4, 0.5, 0.1))
    assert math.isinf(event.pure_epsilon()) and np.isinf(event.rdp(ORDERS)).all()
    assert delta(event, 3.0).upper == pytest.approx(0.1, rel=1e-9)
    reveals = LossDistribution((math.log(1.0 / 0.9),), (0.9,), 0.1)
    assert delta(reveals, 3.0).upper == pytest.approx(0.19, rel=1e-9)  # Q has 0.81 there


@pytest.mark.statistical
@pytest.mark.parametrize("orientation", ["free", "tied"])
def test_loss_distribution_is_its_discrete_pair(orientation):
    rng = np.random.default_rng(5)
    for _ in range(4):
        p, q = random_pair(rng)
        losses = np.log(p / q)
        event = LossDistribution(losses, p, orientation=orientation)
        twin = DiscretePair(p, q, orientation=orientation)
        assert event.pure_epsilon() == pytest.approx(twin.pure_epsilon(), rel=1e-12)
        for eps in AT:
            one = delta(compose((event, 2)), eps).upper
            assert one == pytest.approx(delta(compose((twin, 2)), eps).upper, rel=1e-6, abs=1e-9)
    lost = LossDistribution((0.0, math.log(2.0)), (0.5, 0.5), orientation=orientation)  # Q has 1/4 where P has none
    assert delta(lost, 5.0).upper == pytest.approx(0.25, rel=1e-9)


def test_masses_that_lack_a_little_are_all_raised():
    lacking = LossDistribution((0.0,), (0.9 - 5e-10,), 0.1, orientation="forward")
    assert delta(lacking, 9.0).upper >= 0.1 / (1 - 5e-10) * (1 - 1e-15)
    assert delta(lacking, 9.0).upper == pytest.approx(0.1, rel=1e-8)


@given(st.floats(0.01, 5), st.floats(0, 0.5))
@settings(max_examples=10)
def test_one_point_is_the_worst_approximate_dp_pair(e, d):
    event, known = PrivacyProfile((e,), (d,)), ApproximateDP(e, d)
    assert event.failure_delta() == pytest.approx(d, rel=1e-15)
    assert event.pure_epsilon() == e
    for eps in (0.0, e / 3, 2 * e):
        assert delta(event, eps).upper == pytest.approx(delta(known, eps).upper, rel=1e-6)
    np.testing.assert_allclose(event.rdp(ORDERS), known.rdp(ORDERS), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.every(3)
def test_no_pair_within_the_profile_is_worse(seed):
    p, q = random_pair(np.random.default_rng(seed))
    points = np.linspace(0, 2, 7)
    claimed = [larger_hockey_stick(p, q, e) for e in points]
    event = PrivacyProfile(points, claimed)
    assert_covers(event, p, q)
    for e, d in zip(points, claimed, strict=True):  # and the worst pair keeps to it
        assert delta(event, float(e)).upper <= d * (1 + 1e-5) + 1e-9


def test_profile_below_zero_counts_for_the_other_order():
    # δ(−1) = 1 − (1 − d)/e in one order is δ(1) = d in the other
    event = PrivacyProfile((-1.0,), (1 - 0.9 * math.exp(-1),))
    assert event.failure_delta() == pytest.approx(0.1, rel=1e-14)
    assert event.pure_epsilon() == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.every(3)
def test_no_pair_above_sampled_points_of_a_trade_off_function_is_worse(seed):
    rng = np.random.default_rng(seed)
    p, q = symmetric_pair(rng)
    rates = np.sort(rng.uniform(0, 1, 7))
    assert_covers(TradeOff(rates, trade_off_of(p, q, rates)), p, q)
    with_ends = np.concatenate([[0.0], rates, [1.0]])
    assert_covers(TradeOff(with_ends, trade_off_of(p, q, with_ends)), p, q)


@pytest.mark.parametrize("seed", range(4))
def test_a_polygon_with_all_its_corners_is_exact(seed):
    p, q = symmetric_pair(np.random.default_rng(seed))
    corners = np.concatenate([[0.0], np.cumsum(q[np.argsort(-(p / q))])])
    corners = np.minimum(corners, 1.0)
    event = TradeOff(corners, np.clip(trade_off_of(p, q, corners), 0, 1 - corners), polygon=True)
    for eps in AT:
        exact = hockey_stick(p, q, eps)
        assert exact - 1e-12 <= delta(event, eps).upper <= exact * (1 + 1e-5) + 1e-9


def test_a_one_sided_trade_off_function_is_made_symmetric():
    # f = max(0, 1 − 2α) says that T(P, Q) ≥ f and T(Q, P) ≥ f, hence T(P, Q) ≥ max(f, f⁻¹) = f⁻¹ on the right.
    event = TradeOff((0.0, 0.5), (1.0, 0.0), polygon=True)
    known = RandomizedResponse(math.log(2.0))
    for eps in AT:
        assert delta(event, eps).upper == pytest.approx(delta(known, eps).upper, rel=1e-6, abs=1e-12)
    assert event.pure_epsilon() == pytest.approx(math.log(2.0), rel=1e-14) and event.failure_delta() == 0.0


@pytest.mark.statistical
def test_dense_samples_of_the_gaussian_curve_come_close():
    rates = np.unique(np.concatenate([np.linspace(0, 1, 401), 10.0 ** -np.arange(1, 12, 0.05)]))
    event = TradeOff(rates, stats.norm.cdf(stats.norm.isf(rates) - 1.0))
    for eps in (0.0, 1.0, 3.0):
        exact = delta(Gaussian(1.0), eps).upper
        assert exact <= delta(event, eps).upper <= exact * 1.005
    assert event.failure_delta() < 1e-9


def test_perfect_privacy_and_no_privacy_are_curves():
    assert TradeOff((0.0, 0.5, 1.0), (1.0, 0.5, 0.0)).failure_delta() == 0.0
    assert delta(TradeOff((0.0, 0.5, 1.0), (1.0, 0.5, 0.0), polygon=True), 0.0).upper == 0.0
    assert delta(PrivacyProfile((0.0,), (0.0,)), 0.0).upper == 0.0
    assert TradeOff((1.0,), (0.0,)).failure_delta() == 1.0  # says nothing
    assert PrivacyProfile((3.0,), (1.0,)).failure_delta() == 1.0


@pytest.mark.parametrize("event", [PrivacyProfile((0.5,), (0.01,)), TradeOff((0.0, 0.5), (1.0, 0.2), polygon=True)])
def test_groups_are_charged_along_a_chain(event):
    assert event.at(3) == event.at(2.1) == Chain(event, 3) and event.at(0.4) == event
    assert delta(event.at(2), 0.5).upper > delta(event, 0.5).upper


@pytest.mark.parametrize(
    "event", [DiscretePair((0.7, 0.3), (0.4, 0.6)), LossDistribution((0.5, -0.5), (0.6, 0.36), 0.04)]
)
def test_a_part_of_a_step_between_laws_is_a_whole_one(event):
    assert event.at(1.5) == event.at(2) == Chain(event, 2) and event.at(0.4) == event.at(1.0) == event


@pytest.mark.parametrize(
    ("build", "argument"),
    [
        (lambda: RenyiCurve((2.0, 1.5), (0.1, 0.2)), r"orders\[1\]"),
        (lambda: RenyiCurve((1.0,), (0.1,)), r"orders\[0\]"),
        (lambda: RenyiCurve((2.0, 3.0), (0.1, math.nan)), r"epsilons\[1\]"),
        (lambda: RenyiCurve((2.0, 3.0), (0.1,)), "epsilons"),
        (lambda: RenyiCurve((), ()), "orders"),
        (lambda: DiscretePair((0.5, 0.6), (0.5, 0.5)), "p"),
        (lambda: DiscretePair((0.5, 0.5), (0.5, -0.1, 0.6)), r"q\[1\]"),
        (lambda: DiscretePair((0.5, 0.5), (0.3, 0.3, 0.4)), "q"),
        (lambda: DiscretePair((0.5, True), (0.5, 0.5)), r"p\[1\]"),
        (lambda: LossDistribution((0.0, 0.0), (0.5, 0.5)), r"losses\[1\]"),
        (lambda: LossDistribution((0.0, 1.0), (0.5, 0.4)), "masses"),
        (lambda: LossDistribution((-1.0,), (1.0,)), "losses"),  # E[e^{−loss}] = e
        (lambda: LossDistribution((0.0,), (0.5, 0.5)), "masses"),
        (lambda: PrivacyProfile((0.0, 1.0), (0.1, 0.2)), r"deltas\[1\]"),
        (lambda: PrivacyProfile((1.0, 0.5), (0.2, 0.1)), r"epsilons\[1\]"),
        (lambda: PrivacyProfile((0.0, 1.0, 2.0), (0.2, 0.19, 0.0)), r"deltas\[1\]"),
        (lambda: PrivacyProfile((-1.0, 0.0), (0.1, 0.0)), r"deltas\[0\]"),
        (lambda: PrivacyProfile((0.0,), (1.5,)), r"deltas\[0\]"),
        (lambda: TradeOff((0.1, 0.5), (0.5, 0.6)), r"false_negative_rates\[1\]"),
        (lambda: TradeOff((0.1, 0.5), (0.3, 0.4)), r"false_negative_rates\[1\]"),
        (lambda: PrivacyProfile((0.0, 1.0), (0.1,)), "deltas"),
        (lambda: TradeOff((0.1, 0.5), (0.95, 0.2)), r"false_negative_rates\[0\]"),
        (lambda: TradeOff((0.0, 0.3, 0.9), (0.6, 0.5, 0.0)), r"false_negative_rates\[1\]"),
        (lambda: TradeOff((0.1, 0.2, 0.3), (0.9, 0.5, 0.2)), r"false_negative_rates\[0\]"),  # f(0) would be 1.3
        (lambda: TradeOff((0.0, 0.5, 0.9), (0.5, 0.1, 0.1)), r"false_negative_rates\[2\]"),  # f(1) would be 0.1
        (lambda: TradeOff((), ()), "false_positive_rates"),
        (lambda: TradeOff((0.5, 0.1), (0.2, 0.1)), r"false_positive_rates\[1\]"),
        (lambda: TradeOff((0.5,), (0.2, 0.1)), "false_negative_rates"),
    ],
)
def test_invalid_curves_are_refused(build, argument):
    with pytest.raises(InvalidArgumentError, match=rf"^{argument}="):
        build()


def test_a_pure_pair_given_as_a_curve_composes_like_the_event():
    curve = DiscretePair((0.75, 0.25), (0.25, 0.75))
    for eps in AT:
        got, known = (delta(compose((e, 10)), eps).upper for e in (curve, PureDP(math.log(3.0))))
        assert got == pytest.approx(known, rel=1e-6)


def test_rho_is_that_of_the_range_of_losses():
    more = 1 / (1 + math.exp(-0.05))
    event = DiscretePair((more, 1 - more), (1 - more, more))  # nearly tight: KL is 0.05·tanh(0.025), ρ is 0.05²/2
    assert (event.rdp(ORDERS) <= event.zcdp_rho() * ORDERS).all()
    assert event.zcdp_rho() == pytest.approx(0.05**2 / 2, rel=1e-9)


def test_a_polygon_extends_to_the_corner_beyond_its_points():
    given, whole = TradeOff((0.5,), (0.125,), polygon=True), TradeOff((0.0, 0.5), (1.0, 0.125), polygon=True)
    for eps in AT:
        # the polygon meets its mirror image at α = β = 4/11, the only corner of their maximum: δ(ε) = 1 − β − e^ε·α
        exact = max(0.0, 7 / 11 - math.exp(eps) * 4 / 11)
        assert delta(given, eps) == delta(whole, eps)
        assert delta(given, eps).upper == pytest.approx(exact, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("polygon", [False, True])
def test_a_trade_off_function_ends_at_a_false_positive_rate_of_one(polygon):
    given = TradeOff((0.0, 0.2), (0.9, 0.5), polygon=polygon)
    assert given.pair() == TradeOff((0.0, 0.2, 1.0), (0.9, 0.5, 0.0), polygon=polygon).pair()


@pytest.mark.parametrize("small", [1.0, 1e-12, 1e-290])
def test_losses_of_outcomes_are_rounded_up_however_unlikely_they_are(small):
    rng = np.random.default_rng(4)
    for ratio in np.concatenate([rng.uniform(0.1, 0.49, 100), rng.uniform(0.5, 2.0, 100), rng.uniform(2.01, 9.0, 100)]):
        x, y = small * 0.7, small * 0.7 / float(ratio)
        found = given_laws._log_ratio(x, y)
        with mpmath.workdps(40):
            exact = mpmath.log(mpmath.mpf(x) / mpmath.mpf(y))
            assert exact <= found <= exact + 1e-12


def test_outcomes_of_equal_probability_cost_nothing():
    event = DiscretePair((0.25, 0.75), (0.25, 0.75))
    assert (event.rdp(ORDERS) == 0.0).all() and epsilon(event, 0.0).upper == 0.0


@pytest.mark.statistical
def test_many_outcomes_take_the_larger_order_on_a_grid():
    rng = np.random.default_rng(5)
    p, q = (rng.dirichlet(np.ones(600)) for _ in range(2))
    event = DiscretePair(tuple(p), tuple(q))
    assert event.pair() is None
    for eps in AT:
        exact = larger_hockey_stick(p, q, eps)
        assert exact * (1 - 1e-12) <= delta(event, eps).upper <= exact * 1.001 + 1e-9


@pytest.mark.parametrize("event", [PrivacyProfile((0.0,), (1.0,)), TradeOff((0.0,), (0.0,))])
def test_a_certain_failure_has_no_further_cost(event):
    """No other case has losses that could count."""
    assert event.failure_delta() == 1.0
    assert event.pure_epsilon() == 0.0
    np.testing.assert_array_equal(event.rdp(ORDERS), 0.0)
    assert event.pair().support() == (0.0, 0.0)
