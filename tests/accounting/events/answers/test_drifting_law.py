"""Tests of laws that drift at bounded rates: the theorem on random paths, and every curve of the shifted Laplace
law."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from hockeystick.accounting import Laplace, PureDP, compose, delta, epsilon
from hockeystick.accounting.events.answers.drifting_law import (
    LogLipschitz,
    OneWay,
    one_way_pair,
    one_way_rdp,
    two_way_pair,
)

ORDERS = np.array([1.0 + 1e-6, 1.01, 1.5, 2.0, 5.0, 40.0, 1e4])
RATES = [(1.0, 1.0), (0.8, 0.3), (0.3, 0.8), (4.0, 0.05), (0.01, 0.02), (1e-4, 3.0)]


def density(x, fall, rise):
    return fall * rise / (fall + rise) * math.exp(-fall * x if x >= 0 else rise * x)


def hockey_stick(fall, rise, eps):
    """∫ max(0, f(x − 1) − e^ε f(x)) dx by quadrature: the loss rises in x."""

    def gap(x):
        return max(0.0, density(x - 1, fall, rise) - math.exp(eps) * density(x, fall, rise))

    kink = (eps + rise) / (fall + rise)
    if eps >= fall:
        return 0.0
    cuts = sorted({min(max(kink, 0.0), 1.0), 1.0, 1.0 + 80 / fall} | ({-80 / rise, 0.0} if eps < -rise else set()))
    pieces = zip(cuts, cuts[1:], strict=False)
    return sum(integrate.quad(gap, low, high, epsabs=1e-13, epsrel=1e-11, limit=500)[0] for low, high in pieces)


@pytest.mark.parametrize("fall, rise", RATES)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 0.999, 1.0])
@pytest.mark.every(7)
def test_profile_is_the_integral_of_the_hockey_stick(fall, rise, share):
    event = LogLipschitz(fall, rise)
    eps = share * max(fall, rise)
    for forward, rates in ((True, (fall, rise)), (False, (rise, fall))):
        exact = hockey_stick(*rates, eps)
        claim = delta(OneWay(event, forward), eps, method="pld", bracket=True)
        assert exact <= claim.upper * (1 + 1e-9) + 1e-12
        assert claim.upper <= exact * (1 + 1e-4) + 1e-7
    worst = max(hockey_stick(fall, rise, eps), hockey_stick(rise, fall, eps))
    claim = delta(event, eps, method="pld")
    assert worst <= claim.upper * (1 + 1e-9) + 1e-12
    assert claim.upper <= worst * (1 + 1e-4) + 1e-7


@pytest.mark.parametrize("fall, rise", RATES)
@pytest.mark.parametrize("make", [one_way_pair, two_way_pair])
def test_masses_of_cells_are_integrals_and_add_up_to_one(fall, rise, make):
    pair = make(fall, rise)
    low, high = pair.support()
    edges = np.concatenate([np.linspace(low - 0.13, high + 0.1, 7), [high + 1]])  # no atom on an edge
    cells = pair.cells(edges)
    assert cells.p.sum() == pytest.approx(1.0, abs=1e-13)
    assert cells.q.sum() == pytest.approx(1.0, abs=1e-13)
    # what one grid has in its cells another has outside
    inner = pair.cells(edges[2:5])
    assert inner.p_below == pytest.approx(cells.p[:2].sum(), rel=1e-12)
    assert inner.q_below == pytest.approx(cells.q[:2].sum(), rel=1e-12)
    assert inner.p_above == pytest.approx(cells.p[4:].sum(), rel=1e-12)
    assert inner.q_above == pytest.approx(cells.q[4:].sum(), rel=1e-12)
    if make is one_way_pair:  # the loss of x is (fall + rise)·x − rise on [0, 1]
        for i in range(len(edges) - 1):
            start, end = ((edges[i + j] + rise) / (fall + rise) for j in (0, 1))
            start = start if start >= 0 else -math.inf
            end = end if end < 1 else math.inf
            if start >= 1 or end < 0:
                assert cells.p[i] == cells.q[i] == 0.0
                continue
            for moved, mass in ((1, cells.p[i]), (0, cells.q[i])):
                cuts = [max(start, -60 / rise), *(c for c in (0.0, 1.0) if start < c < end), min(end, 1 + 60 / fall)]
                exact = sum(
                    integrate.quad(lambda x: density(x - moved, fall, rise), a, b, epsabs=1e-14, limit=200)[0]
                    for a, b in zip(cuts, cuts[1:], strict=False)
                )
                assert mass == pytest.approx(exact, rel=1e-8, abs=1e-12)
    else:  # symmetric
        mirrored = pair.cells(-edges[::-1])
        np.testing.assert_allclose(mirrored.q[::-1], cells.p, rtol=1e-12, atol=1e-15)


@given(fall=st.floats(1e-12, 60), rise=st.floats(1e-12, 60), excess=st.floats(-8, 6))
def test_renyi_divergence_is_the_closed_form_in_many_digits(fall, rise, excess):
    """The moment by a different route: the integral over the three pieces of the line, in 60 digits."""
    order = 1.0 + 10.0**excess
    with mpmath.workdps(60):
        a, b, alpha = mpmath.mpf(fall), mpmath.mpf(rise), mpmath.mpf(order)
        weight = a * b / (a + b)
        # f(x−1)^α f(x)^{1−α}: e^{αb(x−1)+(1−α)bx} below 0, e^{αb(x−1)−(1−α)ax} between, e^{−αa(x−1)−(1−α)ax} above 1
        below = mpmath.exp(-alpha * b) / b
        slope = alpha * b - (1 - alpha) * a
        between = mpmath.exp(-alpha * b) * mpmath.expm1(slope) / slope
        above = mpmath.exp(-(1 - alpha) * a) / a
        exact = mpmath.log(weight * (below + between + above)) / (alpha - 1)
        got = mpmath.mpf(float(one_way_rdp(fall, rise, np.array([order]))[0]))
        assert exact <= got <= exact * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.parametrize("fall, rise", RATES)
@pytest.mark.every(3)
def test_rho_is_the_largest_slope_of_the_renyi_curve(fall, rise):
    event = LogLipschitz(fall, rise)
    orders = 1 + np.geomspace(1e-8, 1e7, 300_001)
    slope = float(np.max(event.rdp(orders) / orders))
    assert slope <= event.zcdp_rho() <= slope * (1 + 3e-6)
    assert event.zcdp_rho() <= (fall + rise) ** 2 / 8 * (1 + 1e-13)  # Cesar & Rogers 2021, Lemma 3.4


@pytest.mark.parametrize("rate", [1e-90, 1e-8, 1e-3, 0.5, 7.0, 800.0])
def test_equal_rates_give_laplace_noise(rate):
    event, noise = LogLipschitz(rate), Laplace(1 / rate)
    assert event == LogLipschitz(rate, rate)
    assert event.pure_epsilon() == rate
    np.testing.assert_allclose(event.rdp(ORDERS[2:]), noise.rdp(ORDERS[2:]), rtol=1e-6, atol=4e-16 * rate)
    with mpmath.workdps(220):
        exact = mpmath.mpf(rate) + mpmath.exp(-mpmath.mpf(rate)) - 1  # Harrison & Manurangsi 2025
        assert exact <= mpmath.mpf(event.zcdp_rho()) <= exact * (1 + mpmath.mpf(10) ** -7)
    for share in (0.0, 0.5, 0.9):
        exact_delta = -math.expm1((share - 1) * rate / 2)  # Balle, Barthe & Gaboardi 2018
        if 1e-8 <= rate < 100:
            got = delta(event, share * rate, method="pld").upper
            assert exact_delta * (1 - 1e-12) <= got <= exact_delta * (1 + 1e-4) + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize(
    "fall, rise",
    [(0.2, 0.7)] + [pytest.param(*x, marks=pytest.mark.deep) for x in ((1.0, 1.0), (0.7, 0.2), (3.0, 0.1))],
)
def test_no_path_within_the_rates_ends_further_away(fall, rise):
    """Random families of laws on six outcomes, moved in small steps as fast as the rates allow."""
    rng = np.random.default_rng(61)
    event = LogLipschitz(fall, rise)
    levels = [0.0, 0.2 * event.pure_epsilon(), 0.7 * event.pure_epsilon()]
    claims = [delta(event, level).upper for level in levels]
    bounds = event.rdp(ORDERS)
    steps, nearest = 400, 0.0
    for trial in range(60):
        start = rng.dirichlet(np.full(6, 0.3)) + 1e-200
        p = start = start / start.sum()
        falling = rng.random(6) < 0.5
        if falling.all() or not falling.any():
            continue
        for _ in range(steps):
            # the falling set loses what the rates allow, in proportion; the others gain it
            lost = -math.expm1(-fall / steps) * p[falling].sum()
            moved = min(lost, math.expm1(rise / steps) * p[~falling].sum())
            p = p + moved * np.where(falling, -p / p[falling].sum(), p / p[~falling].sum())
            if trial % 3 == 0:
                falling = np.roll(falling, 1)  # a path that turns
        for first, second in ((start, p), (p, start)):
            for level, claim in zip(levels, claims, strict=True):
                gap = float(np.maximum(first - math.exp(level) * second, 0).sum())
                assert gap <= claim + 1e-5  # the steps
                nearest = max(nearest, gap / claim)
            loss = np.log(first / second)
            assert np.abs(loss).max() <= event.pure_epsilon() * (1 + 1e-9)
            moments = special.logsumexp(np.log(first) + (ORDERS[1:, None] - 1) * loss, axis=1)
            assert (moments / (ORDERS[1:] - 1) <= bounds[1:] * (1 + 1e-3) + 1e-7).all()
    assert nearest > 0.9


def test_orientations_are_the_two_directions():
    event = LogLipschitz(0.7, 0.2)
    forward, backward = event.orientations()
    assert (forward, backward) == (OneWay(event, True), OneWay(event, False))
    np.testing.assert_array_equal(event.rdp(ORDERS), np.maximum(forward.rdp(ORDERS), backward.rdp(ORDERS)))
    assert LogLipschitz(0.5).orientations() == (LogLipschitz(0.5),)
    assert event.at(2) == LogLipschitz(1.4, 0.4)
    assert forward.at(2) == OneWay(LogLipschitz(1.4, 0.4), True)
    assert forward.pure_epsilon() == event.pure_epsilon() and forward.zcdp_rho() == event.zcdp_rho()
    # composing one direction throughout costs less than taking the worse direction at each step
    free = delta(compose((event, 3)), 0.8, method="pld").upper
    tied = max(delta(compose((way, 3)), 0.8, method="pld").upper for way in (forward, backward))
    assert tied < free


def test_a_law_that_cannot_fall_or_cannot_rise_costs_nothing():
    for event in (LogLipschitz(0.0), LogLipschitz(0.0, 3.0), LogLipschitz(3.0, 0.0)):
        assert event.pure_epsilon() == event.zcdp_rho() == 0.0
        assert epsilon(compose((event, 10)), 0.0).upper == 0.0
        assert not event.rdp(ORDERS).any()
        assert delta(OneWay(event, True), 0.0).upper == 0.0


@pytest.mark.parametrize("make", [one_way_pair, two_way_pair])
@pytest.mark.parametrize("fall, rise", [(0.0, 3.0), (3.0, 0.0), (0.0, 0.0)])
def test_laws_that_do_not_drift_are_one_law(make, fall, rise):
    cells = make(fall, rise).cells(np.array([-0.1, 0.1]))
    assert cells.p.tolist() == cells.q.tolist() == [1.0]


@pytest.mark.parametrize("event", [LogLipschitz(math.inf), LogLipschitz(1.0, math.inf), LogLipschitz(math.inf, 1.0)])
def test_an_infinite_rate_gives_no_guarantee(event):
    assert epsilon(event, 0.1).upper == math.inf and event.pair() is None
    for way in event.orientations():
        assert delta(way, 3.0).upper == 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(
    "event",
    [LogLipschitz(3e4)] + [pytest.param(LogLipschitz(*x), marks=pytest.mark.deep) for x in ((1e-3, 1e4), (2e4, 3.0))],
)
def test_large_rates_give_bounds_below_the_pure_epsilon(event):
    largest = event.pure_epsilon()
    for way in (event, *event.orientations(), compose((event, 3))):
        found = epsilon(way, 1e-6).upper
        assert 0 < found <= 3 * largest
        assert 0 <= delta(way, largest / 2).upper <= 1


def test_never_worse_than_the_worst_pure_mechanism():
    for rate in (0.01, 1.0, 6.0):
        for eps in (0.0, 0.4 * rate, 0.9 * rate):
            assert delta(LogLipschitz(rate), eps).upper <= delta(PureDP(rate), eps).upper * (1 + 1e-9)


@pytest.mark.parametrize("fall, rise", [(1e230, 1e-100), (1e-100, 1e230)])
def test_rates_of_which_one_is_no_share_of_the_other_keep_their_largest_loss(fall, rise):
    """Its mass is 1e-330, no float, and at order 2 its share e^loss of the moment is as good as all."""
    event = LogLipschitz(fall, rise)
    assert event.pure_epsilon() == 1e230
    assert event.rdp(np.array([2.0]))[0] == pytest.approx(1e230, rel=1e-12)
    assert math.isfinite(event.zcdp_rho())
