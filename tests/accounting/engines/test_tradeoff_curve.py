"""Tests of attackers' error rates against closed forms and exact Neyman–Pearson tests."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from attrs import frozen
from divergences import renyi
from hypothesis import strategies as st
from samples import deep_examples
from scipy import optimize, stats

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    ApproximateDP,
    Failure,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    NonPrivate,
    PrivacyEvent,
    PureDP,
    UnsupportedEventError,
    compose,
    delta,
    parallel,
)
from hockeystick.accounting.engines.tradeoff_curve import advantage, deltas, trade_off, true_positive_rate
from hockeystick.accounting.events.answers.drifting_law import LogLipschitz
from hockeystick.accounting.events.basic.given_curves import RenyiCurve
from hockeystick.accounting.events.basic.given_laws import DiscretePair

RATES = np.array([0.0, 1e-12, 1e-6, 0.01, 0.05, 0.3, 0.5, 0.77, 0.999, 1.0])


def neyman_pearson(p, q, rates):
    """Greatest power P(S) of randomised tests with Q(S) = rate, by sorting the outcomes by likelihood ratio."""
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.asarray(p) / np.asarray(q)))
    x = np.concatenate([[0.0], np.cumsum(np.asarray(q)[order])])
    y = np.concatenate([[0.0], np.cumsum(np.asarray(p)[order])])
    x[-1] = y[-1] = 1.0
    return np.interp(rates, x, y)


def product(laws):
    return np.array([math.prod(outcome) for outcome in itertools.product(*laws)])


@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0])
def test_gaussian_is_the_closed_form(mu):
    exact = stats.norm.cdf(stats.norm.isf(RATES) - mu)
    got, power = trade_off(Gaussian(1 / mu), RATES), true_positive_rate(Gaussian(1 / mu), RATES)
    assert (got <= exact).all() and (exact - got <= 1e-13).all()
    exact_power = stats.norm.sf(stats.norm.isf(RATES) - mu)
    assert (power >= exact_power * (1 - 1e-14)).all()
    np.testing.assert_allclose(power[2:], exact_power[2:], rtol=1e-11)
    np.testing.assert_allclose(trade_off(compose((Gaussian(10 / mu), 100)), RATES), got, atol=1e-12)


def test_gaussian_through_the_composed_law():
    exact = stats.norm.cdf(stats.norm.isf(RATES) - 1.0)
    event = compose(Gaussian(1.0), PureDP(1e-9))  # not merged into a closed form
    got, power = trade_off(event, RATES), true_positive_rate(event, RATES)
    assert (got <= exact + 1e-15).all() and (exact - got <= 1e-6).all()
    np.testing.assert_allclose(power[1:], 1 - exact[1:], rtol=1e-4)


@pytest.mark.parametrize("scale", [0.3, 1.0, 8.0])
def test_laplace_is_the_closed_form(scale):
    e = 1 / scale
    with np.errstate(divide="ignore"):
        exact = np.where(
            math.exp(-e) / 2 > RATES,
            1 - math.exp(e) * RATES,
            np.where(RATES <= 0.5, math.exp(-e) / 4 / RATES, math.exp(-e) * (1 - RATES)),
        )
    got = trade_off(Laplace(scale), RATES)
    assert (got <= exact + 1e-15).all() and (exact - got <= 1e-6).all()


@pytest.mark.parametrize("event", [PureDP(0.7), ApproximateDP(0.7, 1e-3), ApproximateDP(0.0, 0.2), NO_EVENT])
def test_declared_guarantees_are_two_lines(event):
    e, d = event.pure_epsilon(), event.failure_delta()
    exact = np.maximum(0.0, np.maximum(1 - d - math.exp(e) * RATES, math.exp(-e) * (1 - d - RATES)))
    got = trade_off(event, RATES)
    assert (got <= exact + 1e-15).all() and (exact - got <= 1e-12).all()


@pytest.mark.parametrize("eps", [0.3, 0.7, 3.0])
def test_false_negatives_of_pure_dp_are_rounded_down(eps):
    rates = np.array([1e-12, 1e-6, 0.01, 0.2, 0.4, 0.6, 0.9])
    with mpmath.workdps(40):
        for rate, got in zip(rates.tolist(), trade_off(PureDP(eps), rates).tolist(), strict=True):
            a, x = mpmath.mpf(rate), mpmath.exp(eps)
            assert max(0, 1 - x * a, (1 - a) / x) - 1e-14 <= got <= max(0, 1 - x * a, (1 - a) / x)


@frozen
class TwoWays(PrivacyEvent):
    """Two laws that are used in either order, of which the Rényi curves are known."""

    forward: RenyiCurve
    backward: RenyiCurve

    def _scaled(self, distance):
        raise UnsupportedEventError("at its own distance alone")

    def directions(self):
        return self.forward, self.backward

    def rdp(self, orders):
        return np.maximum(self.forward.rdp(orders), self.backward.rdp(orders))


# two laws whose divergences differ much by the order of the two
LOPSIDED = np.array([0.97, 0.03]), np.array([0.9999, 0.0001])


def lopsided_curves():
    """The Rényi curves of the two laws in either order."""
    p, q = LOPSIDED
    orders = 1.0 + np.geomspace(1e-3, 50.0, 60)
    return [
        RenyiCurve(orders, np.log((x * (x / y) ** (orders[:, None] - 1.0)).sum(axis=1)) / (orders - 1.0) + 1e-12)
        for x, y in ((p, q), (q, p))
    ]


@pytest.mark.statistical
def test_renyi_curves_of_two_directions_are_both_used_in_both_roles():
    (p, q), curves = LOPSIDED, lopsided_curves()
    rates = np.array([1e-4, 1e-3, 0.03, 0.1, 0.5])
    for event in (TwoWays(*curves), TwoWays(*curves[::-1])):
        power, fnr = true_positive_rate(event, rates), trade_off(event, rates)
        for x, y in ((p, q), (q, p)):
            exact = neyman_pearson(x, y, rates)
            assert (exact <= power + 1e-12).all() and (fnr <= 1 - exact + 1e-12).all()


def test_zcdp_by_data_processing():
    # The least β that ρ = 1/2 leaves at α = 0.05 is 0.66442203 (mpmath, order optimised to 1e-15); riskcal 1.5.1 finds
    # 0.664415 on its grid of orders.
    got = float(trade_off(ZCDP(0.5), 0.05))
    assert 0.664415 < got <= 0.66442203256
    assert (trade_off(ZCDP(0.5), RATES) <= trade_off(Gaussian(1.0), RATES) + 1e-12).all()


@deep_examples(
    10, 50, st.lists(st.floats(0.05, 1), min_size=3, max_size=4), st.lists(st.floats(0.05, 1), min_size=3, max_size=4)
)
def test_renyi_curves_allow_no_less_than_the_exact_test(a, b):
    n = min(len(a), len(b))
    p, q = np.array(a[:n]) / sum(a[:n]), np.array(b[:n]) / sum(b[:n])
    orders = 1 + np.geomspace(1e-2, 100, 30)
    curve = np.maximum(renyi(p, q, orders), renyi(q, p, orders))
    event = RenyiCurve(orders, np.maximum(curve, 0.0) * (1 + 1e-12) + 1e-15)
    for x, y in ((p, q), (q, p)):
        assert (neyman_pearson(x, y, RATES) <= true_positive_rate(event, RATES) + 1e-12).all()
        assert np.abs(p - q).sum() / 2 <= advantage(event) + 1e-12


@pytest.mark.parametrize("count", [1, 5])
def test_a_tied_pair_is_its_exact_test_in_either_role(count):
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.3, 0.4])
    event = compose((DiscretePair(p, q, orientation="tied"), count))
    many_p, many_q = product([p] * count), product([q] * count)
    exact = np.maximum(neyman_pearson(many_p, many_q, RATES), neyman_pearson(many_q, many_p, RATES))
    power, fnr = true_positive_rate(event, RATES), trade_off(event, RATES)
    assert (exact <= power + 1e-12).all() and (power - exact <= 1e-4).all()
    assert (fnr <= 1 - exact + 1e-12).all() and (1 - exact - fnr <= 1e-4).all()


def test_free_orientation_is_no_better_than_any_mix():
    p, q = np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.3, 0.4])
    event = compose((DiscretePair(p, q), 3))
    for ways in itertools.product((True, False), repeat=3):
        x = product([p if way else q for way in ways])
        y = product([q if way else p for way in ways])
        assert (neyman_pearson(x, y, RATES) <= true_positive_rate(event, RATES) + 1e-12).all()


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event",
    [
        compose((Laplace(10.0), 300)),
        compose((PureDP(0.1), 20), Gaussian(2.0), Failure(1e-7)),
        ZCDP(0.1),
        parallel(Laplace(3.0), Gaussian(2.0)),
    ],
)
def test_trade_off_curves_are_convex_and_non_increasing(event):
    rates = np.linspace(0, 1, 301)
    fnr, tpr = trade_off(event, rates), true_positive_rate(event, rates)
    assert (np.diff(fnr) <= 1e-12).all()
    assert (np.diff(fnr, 2) >= -1e-7).all()  # convex, up to what the choice of ε leaves
    assert (fnr <= 1 - rates).all() and (tpr >= rates).all()
    np.testing.assert_allclose(tpr, 1 - fnr, atol=1e-6)
    assert (tpr - rates).max() <= advantage(event) + 1e-9
    # f is its own inverse where both directions are alike
    back = trade_off(event, fnr)
    inner = (fnr > 0) & (rates > 0)
    np.testing.assert_allclose(back[inner], rates[inner], atol=1e-4)


@pytest.mark.statistical
def test_many_deltas_are_as_good_as_one_by_one():
    for event in (compose((Laplace(10.0), 300)), Gaussian(1.0), ZCDP(0.2), compose(Gaussian(2.0), Failure(1e-6))):
        at = np.linspace(0, 4, 9).reshape(3, 3)
        got = deltas(event, at)
        single = np.array([[delta(event, e).upper for e in row] for row in at])
        assert got.shape == (3, 3)
        np.testing.assert_allclose(got, single, rtol=1e-3)
    exact = [2 * stats.norm.cdf(0.5) - 1]
    assert exact[0] <= deltas(Gaussian(1.0), [0.0])[0] <= exact[0] + 1e-14


def test_advantage_agrees_with_closed_forms():
    assert advantage(Gaussian(1.0)) == pytest.approx(2 * stats.norm.cdf(0.5) - 1, rel=1e-12)
    assert advantage(PureDP(1.0)) == pytest.approx(math.tanh(0.5), rel=1e-9)
    assert advantage(NO_EVENT) == 0.0 and advantage(NonPrivate()) == 1.0
    assert advantage(parallel(PureDP(1.0), PureDP(0.1))) == pytest.approx(math.tanh(0.5), rel=1e-9)
    # A Rényi curve says more of the advantage than its δ(0): it must lie between the Gaussian's and that.
    assert 2 * stats.norm.cdf(0.5) - 1 < advantage(ZCDP(0.5)) < delta(ZCDP(0.5), 0.0).upper


def test_a_non_private_event_allows_every_attack():
    np.testing.assert_array_equal(trade_off(NonPrivate(), RATES), np.zeros(len(RATES)))
    np.testing.assert_array_equal(true_positive_rate(NonPrivate(), RATES), np.ones(len(RATES)))
    half = DiscretePair((0.5, 0.5, 0.0), (0.0, 0.5, 0.5))
    assert float(trade_off(half, 0.0)) == pytest.approx(0.5, abs=1e-12)
    assert trade_off(Gaussian(1.0), []).shape == (0,)
    assert trade_off(Gaussian(1.0), 0.5).shape == ()


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan, "0.1", [0.5, 2.0], True])
def test_bad_rates_are_refused(bad):
    with pytest.raises(InvalidArgumentError, match="false_positive_rates"):
        trade_off(Gaussian(1.0), bad)


def test_bad_events_and_epsilons_are_refused():
    with pytest.raises(InvalidArgumentError, match="event"):
        trade_off("gaussian", 0.1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="epsilons"):
        deltas(Gaussian(1.0), [-1.0])


def test_an_event_that_may_always_fail_has_no_trade_off():
    event = compose(PureDP(0.5), Failure(1.0))
    assert (deltas(event, np.array([0.0, 1.0, 50.0])) == 1.0).all()
    assert (trade_off(event, np.array([0.0, 0.5, 1.0])) == 0.0).all()


def test_a_tiny_divergence_is_looked_for_at_the_largest_orders():
    rates = np.array([1e-3, 0.5, 0.9])
    found = trade_off(ZCDP(1e-30), rates)
    assert (found <= 1 - rates).all() and found == pytest.approx(1 - rates, abs=1e-5)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_rates_of_a_pure_claim_are_rounded_outwards(epsilon):
    """Both ends by the formula in many digits: min(e^ε·α, 1 − e^(−ε)·(1 − α)), and 1 less that where α is 1 − α."""
    alpha = np.concatenate([np.geomspace(1e-9, 1e-3, 20), np.linspace(0.01, 0.99, 40)])
    most, least = true_positive_rate(PureDP(epsilon), alpha), trade_off(PureDP(epsilon), alpha)
    with mpmath.workdps(40):
        ratio = mpmath.exp(epsilon)
        for rate, above, below in zip(alpha.tolist(), most.tolist(), least.tolist(), strict=True):
            exact = min(ratio * rate, 1 - (1 - mpmath.mpf(rate)) / ratio)
            assert exact <= above <= exact * (1 + 1e-11)
            assert 1 - exact - 1e-14 <= below <= 1 - exact


def test_no_rate_is_above_1_where_a_failure_is_added():
    event, alpha = compose(ZCDP(5.0), Failure(0.1)), np.array([0.0, 1e-3, 0.9, 1.0])
    most, least = true_positive_rate(event, alpha), trade_off(event, alpha)
    assert (most <= 1.0).all() and most[-1] == 1.0 and (least >= 0.0).all()
    assert most[0] == pytest.approx(0.1) and least[0] == pytest.approx(0.9)


@pytest.mark.parametrize("mu", [0.05, 1.0, 6.0])
def test_rates_of_gaussian_noise_are_rounded_outwards(mu):
    """Also where one of them is nearly 1, and its argument may be off by anything."""
    event = Gaussian(1 / mu)
    most, least = true_positive_rate(event, RATES), trade_off(event, RATES)
    with mpmath.workdps(40):
        shift = 1 / mpmath.mpf(1 / mu)
        for rate, above, below in zip(RATES[1:-1].tolist(), most[1:-1].tolist(), least[1:-1].tolist(), strict=True):
            z = mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1)
            assert mpmath.ncdf(z + shift) <= above and below <= mpmath.ncdf(-z - shift)


@pytest.mark.parametrize("order", [1.01, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("rho", [0.3, 5.0])
def test_no_single_order_excludes_more(rho, order):
    """The binary divergence of the two decisions, in either role, solved for the false-negative rate."""

    def divergence(p, q):
        return math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)

    rates = np.array([1e-3, 0.1, 0.5])
    for alpha, fnr in zip(rates, trade_off(ZCDP(rho), rates), strict=True):
        for excess in (
            lambda x, a=alpha: divergence(1 - x, a) - rho * order,
            lambda x, a=alpha: divergence(a, 1 - x) - rho * order,
        ):
            if excess(1e-12) > 0:
                assert optimize.brentq(excess, 1e-12, 1 - alpha, xtol=1e-15) <= fnr + 1e-9


def test_the_advantage_is_that_of_the_worse_direction():
    """The curve is for both orders of the data sets: it allows the largest difference of rates of the pair itself."""
    curves = lopsided_curves()
    found = advantage(TwoWays(*curves))
    assert found >= max(advantage(curve) for curve in curves) * (1 - 1e-9) >= 0.0299


def test_a_certain_failure_has_delta_1_in_every_composition():
    """The other part's ρ of 1e230 is beyond the domain; nothing has to be computed of it."""
    event = compose(LogLipschitz(1e230, 1e-100), Failure(1.0))
    np.testing.assert_array_equal(deltas(event, np.array([0.0, 1.0, 700.0])), 1.0)
