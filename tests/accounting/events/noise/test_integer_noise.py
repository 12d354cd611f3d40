"""Tests of integer noise against exact sums in mpmath, brute force over integer vectors, and dp-accounting's
distributions."""

import itertools
import math
from typing import Any

import laws
import mpmath as mp
import numpy as np
import pytest
from attrs import evolve
from divergences import gaussian_delta, hockey_stick
from dp_accounting.pld import privacy_loss_distribution as native
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import diagonal
from scipy import special, stats

from hockeystick.accounting import (
    NO_EVENT,
    Gaussian,
    InvalidArgumentError,
    PoissonSampled,
    PureDP,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    field_checks,
)
from hockeystick.accounting.events.noise.integer_noise import (
    _NEGLECTED,
    DiscreteGaussian,
    DiscreteLaplace,
    Skellam,
    _skellam_moment,
    _skellam_renyi,
    _skellam_rho,
    _spread,
)
from hockeystick.accounting.events.noise.tabulated_noise import IntegerNoise
from hockeystick.accounting.losses import integer_noise_tables
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.losses.integer_noise_tables import (
    hull,
    known_rho,
    renyi,
    skellam,
    skellam_reach,
    spreads,
    steepest,
)

ORDERS = np.array([1.00001, 1.05, 1.5, 2.0, 3.7, 16.0, 120.0])
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)
LAPLACE = laws.discrete_laplace(1.5, 8)


def moved(p, shift):
    """P and Q for noise with law ``p`` shifted by ``shift``, on one range that holds both."""
    pad = np.zeros(abs(shift))
    p0, p1 = np.concatenate([p, pad]), np.concatenate([pad, p])
    return (p1, p0) if shift >= 0 else (p0, p1)


def hockey_sticks(law, vector, epsilons=EPSILONS, *, bounded=False):
    """δ(ε) of independent noise shifted by an integer vector, by enumeration of the losses.

    An outcome of one law alone counts only if the law is ``bounded``; otherwise the table was cut off there.
    """
    losses: Any = np.zeros(1)
    mass: Any = np.ones(1)
    at_infinity = 0.0
    for shift in vector:
        p, q = moved(law, shift)
        both = (p > 0) & (q > 0)
        at_infinity += (1 - at_infinity) * p[q == 0].sum() * bounded
        losses = (losses[:, None] + np.log(p[both] / q[both])).ravel()
        mass = (mass[:, None] * p[both]).ravel()
        losses, index = np.unique(np.round(losses, 9), return_inverse=True)
        mass = np.bincount(index, mass)
    return [float((mass * np.maximum(-np.expm1(e - losses), 0)).sum() + at_infinity) for e in epsilons]


def vectors(norm, size, dimensions=3):
    """All integer vectors of that norm at most ``size``, up to the order of coordinates."""
    whole = range(-int(size), int(size) + 1)
    for v in itertools.combinations_with_replacement(whole, dimensions):
        length = sum(map(abs, v)) if norm == "l1" else math.sqrt(sum(x * x for x in v))
        if 0 < length <= size + 1e-9:
            yield tuple(x for x in v if x)


def check_dominated(event, law, norm, size, *, dimensions=3):
    claim = [delta(event, e).upper for e in EPSILONS]
    worst = np.max([hockey_sticks(law, v) for v in vectors(norm, size, dimensions)], axis=0)
    for upper, brute in zip(claim, worst, strict=True):
        assert brute <= upper * (1 + 1e-7) + 1e-12
        assert upper <= brute * (1 + 1e-3) + 1e-9


# Discrete Laplace


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_discrete_laplace_is_the_worst_over_all_integer_vectors(scale, size):
    check_dominated(DiscreteLaplace(scale).at(size), laws.discrete_laplace(scale, 60), "l1", size)


def exact_discrete_laplace_rdp(scale, shift, order):
    with mp.workdps(80):
        q, a = mp.exp(-1 / mp.mpf(scale)), mp.mpf(float(order))
        mass = [(1 - q) / (1 + q) * q**i for i in range(shift + 1)]
        mass[0], mass[-1] = 1 / (1 + q), q**shift / (1 + q)
        moment = mp.fsum(m * mp.exp((a - 1) * (shift - 2 * i) / mp.mpf(scale)) for i, m in enumerate(mass))
        return mp.log(moment) / (a - 1)


@pytest.mark.parametrize("scale", [0.05, 0.7, 2.0, 40.0, 1e6])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_discrete_laplace_rdp_and_tight_zcdp(scale, shift):
    event = DiscreteLaplace(scale).at(shift)
    got = event.rdp(ORDERS)
    for order, value in zip(ORDERS, got, strict=True):
        exact = exact_discrete_laplace_rdp(scale, shift, order)
        assert exact <= value * (1 + 2**-52)
        assert value <= exact * (1 + 1e-4)
    # ρ is the divergence of order 1, and no order needs more
    rho = event.zcdp_rho()
    assert rho == pytest.approx(float(exact_discrete_laplace_rdp(scale, shift, 1 + 1e-9)), rel=1e-7, abs=0)
    for order in 1 + np.geomspace(1e-7, 1e4, 60):
        assert exact_discrete_laplace_rdp(scale, shift, order) <= rho * mp.mpf(float(order))
    assert shift / scale <= event.pure_epsilon() <= math.nextafter(shift / scale, math.inf)


def test_discrete_laplace_rho_of_a_unit_shift_is_that_of_randomised_response():
    for a in (1e-6, 0.3, 2.0, 30.0):
        assert DiscreteLaplace(1 / a).zcdp_rho() == pytest.approx(a * math.tanh(a / 2), rel=1e-12, abs=0)


@pytest.mark.parametrize(("scale", "shift"), [(1e9, 10**6), (1e4, 3), (1e3, 10**4), (1e7, 9999)])
def test_discrete_laplace_rho_over_many_steps(scale, shift):
    with mp.workdps(60):
        a = 1 / mp.mpf(scale)
        q = mp.exp(-a)
        exact = a * (shift - 2 * q * (1 - q**shift) / (1 - q * q))
        got = DiscreteLaplace(scale).at(shift).zcdp_rho()
        assert exact <= got <= exact * (1 + mp.mpf(10) ** -10)


@pytest.mark.parametrize(("scale", "sensitivity"), [(1.0, 1), (2.5, 3), (8.0, 4)])
def test_discrete_laplace_agrees_with_a_peer(scale, sensitivity):
    peer = native.from_discrete_laplace_mechanism(
        1 / scale, sensitivity=sensitivity, value_discretization_interval=1e-4
    )
    event = DiscreteLaplace(scale).at(sensitivity)
    for target in (1e-1, 1e-2, 1e-6):
        assert epsilon(event, target).upper == pytest.approx(peer.get_epsilon_for_delta(target), rel=2e-3, abs=1e-9)
    twenty = peer.self_compose(20)
    assert epsilon(compose((event, 20)), 1e-6).upper == pytest.approx(twenty.get_epsilon_for_delta(1e-6), rel=2e-3)


def test_a_shift_too_long_for_atoms_is_charged_as_any_pure_mechanism():
    event = DiscreteLaplace(1e6).at(2e5)
    assert delta(event, 0.0, method="direct").upper == pytest.approx(math.tanh(0.1), rel=1e-6)
    # Its Rényi curve says more; the truth is that of Laplace noise.
    assert -math.expm1(-0.1) <= delta(event, 0.0).upper < math.tanh(0.1)


# Discrete Gaussian


@pytest.mark.parametrize("sigma", [0.3, 0.9, 2.0])
@pytest.mark.parametrize("square", [1, 2, 3, 4])
@pytest.mark.every(2)
def test_discrete_gaussian_is_the_worst_over_all_integer_vectors(sigma, square):
    event = DiscreteGaussian(sigma).at(math.sqrt(square))
    check_dominated(event, laws.discrete_gaussian(sigma, 60), "l2", math.sqrt(square), dimensions=square)


def test_which_integer_vector_is_worst_depends_on_the_level():
    law = laws.discrete_gaussian(0.3, 60)
    one, four = hockey_sticks(law, (2,), (0.0, 20.0)), hockey_sticks(law, (1, 1, 1, 1), (0.0, 20.0))
    assert (one[0] - four[0]) * (one[1] - four[1]) < 0
    event = DiscreteGaussian(0.3).at(2)
    for eps, a, b in zip((0.0, 20.0), one, four, strict=True):
        assert max(a, b) <= delta(event, eps, method="pld").upper


def exact_discrete_gaussian_rdp(sigma, shift, order):
    with mp.workdps(60):
        a, variance = mp.mpf(float(order)), mp.mpf(sigma) ** 2
        centre = int(mp.nint(a * shift))
        reach = int(30 * sigma) + 8
        terms = (
            mp.exp((-a * (y - shift) ** 2 - (1 - a) * y * y) / (2 * variance))
            for y in range(centre - reach, centre + reach + 1)
        )
        norm = mp.fsum(mp.exp(-mp.mpf(y * y) / (2 * variance)) for y in range(-reach, reach + 1))
        return mp.log(mp.fsum(terms) / norm) / (a - 1)


@pytest.mark.parametrize("sigma", [0.01, 0.2, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("vector", [(1,), (2,), (2, 1), (1, 1, 1)])
@pytest.mark.every(4)
def test_discrete_gaussian_rdp(sigma, vector):
    square = sum(s * s for s in vector)
    event = DiscreteGaussian(sigma).at(math.sqrt(square))
    one = DiscreteGaussian(sigma, distance=math.sqrt(square), coordinates=1)
    for order, value, single in zip(ORDERS, event.rdp(ORDERS), one.rdp(ORDERS), strict=True):
        exact = mp.fsum(exact_discrete_gaussian_rdp(sigma, s, order) for s in vector)
        assert exact <= value * (1 + 1e-13) <= event.zcdp_rho() * order * (1 + 1e-12)
        if square == 1:
            assert value <= exact * (1 + 1e-7) + 1e-9
        if len(vector) == 1:
            assert exact <= single * (1 + 1e-13) and single <= exact * (1 + 1e-7) + 1e-9


def test_discrete_gaussian_rho_is_attained_at_integer_orders():
    event = DiscreteGaussian(0.4)
    assert float(exact_discrete_gaussian_rdp(0.4, 1, 3.0)) == pytest.approx(3 * event.zcdp_rho(), rel=1e-12)


@pytest.mark.parametrize(("sigma", "shift"), [(0.8, 1), (3.0, 2), (10.0, 5)])
def test_discrete_gaussian_agrees_with_a_peer(sigma, shift):
    peer = native.from_discrete_gaussian_mechanism(sigma, sensitivity=shift, value_discretization_interval=1e-4)
    event = DiscreteGaussian(sigma, distance=shift, coordinates=1)
    for target in (1e-1, 1e-5):
        assert epsilon(event, target).upper == pytest.approx(peer.get_epsilon_for_delta(target), rel=2e-3)


@pytest.mark.parametrize("eps", [2.2, 8.3, 10.3])
def test_discrete_gaussian_tails_keep_their_relative_accuracy(eps):
    with mp.workdps(60):
        norm = mp.fsum(mp.exp(-mp.mpf(y * y) / 2) for y in range(-60, 61))
        exact = (
            mp.fsum(
                max(mp.mpf(0), mp.exp(-mp.mpf((y - 1) ** 2) / 2) - mp.exp(eps - mp.mpf(y * y) / 2))
                for y in range(-60, 61)
            )
            / norm
        )
    got = delta(DiscreteGaussian(1.0), eps, method="pld").upper
    assert exact <= got * (1 + 1e-12)
    assert got <= exact * (1 + 1e-4)


# Skellam


@pytest.mark.parametrize("variance", [1e-3, 0.3, 8.0, 900.0])
def test_skellam_table_is_the_bessel_law(variance):
    reach = skellam_reach(variance)
    table = skellam(variance, reach)
    with mp.workdps(60):
        for y in {0, 1, 2, 3, 5, 8, 13, 21, reach // 3, reach // 2, reach - 1} & set(range(reach)):
            exact = mp.log(mp.besseli(y, variance)) - variance
            step = mp.log(mp.besseli(y, variance) / mp.besseli(y + 1, variance))
            for i in (reach + y, reach - y):
                assert abs(table.log_p[i] - exact) <= table.log_error
            assert abs(table.steps[reach + y] - step) <= table.step_error[reach + y] <= 1e-14 * (1 + step)
            assert abs(table.steps[reach - y - 1] + step) <= table.step_error[reach - y - 1]
    outside = 1 - mp.mpf(math.fsum(np.exp(table.log_p)))
    assert abs(outside) < 1e-9 and stats.skellam.sf(reach, variance / 2, variance / 2) < 1e-30


@pytest.mark.parametrize("variance", [3e4, 1e8])
def test_wide_skellam_table_agrees_with_scipy(variance):
    reach = skellam_reach(variance)
    table = skellam(variance, reach)
    y = np.array([0, 1, 5, reach // 20, reach // 3])
    assert table.log_p[reach + y] == pytest.approx(np.log(special.ive(y, variance)), rel=1e-9)
    # Near 0 nothing shrinks an error of the recursion for about √V steps; −ln(I_1/I_0) = 1/(2V) + 1/(4V²) + O(1/V³).
    assert abs(table.steps[reach] - (0.5 / variance + 0.25 / variance**2)) <= table.step_error[reach] + variance**-3
    assert table.step_error.max() <= 2e-15 * (1 + table.steps.max())


@pytest.mark.parametrize("variance", [1e-3, 0.1, 1.0, 17.0, 4000.0])
def test_skellam_losses_of_a_unit_shift_lie_between_the_bounds_of_amos(variance):
    reach = skellam_reach(variance)
    table = skellam(variance, reach)
    y = np.arange(-reach + 1, reach + 1)
    slack = 2 * table.step_error
    assert (table.steps <= np.arcsinh(y / variance) + slack).all()
    assert (table.steps >= np.arcsinh((y - 1) / variance) - slack).all()
    assert (np.diff(table.steps) >= -(slack[1:] + slack[:-1])).all()  # the law is log-concave


@pytest.mark.statistical
@pytest.mark.parametrize(("square", "variance"), diagonal([1, 2, 4], [0.5, 4.0]))
def test_skellam_is_the_worst_over_all_integer_vectors(variance, square):
    event = Skellam(variance).at(math.sqrt(square))
    check_dominated(event, laws.skellam(variance, 22), "l2", math.sqrt(square), dimensions=square)


def exact_skellam_rdp(variance, shift, order, reach):
    with mp.workdps(40):
        a, v = mp.mpf(float(order)), mp.mpf(variance)
        bessel = [mp.besseli(y, v) for y in range(reach + shift + 1)]
        moment = mp.fsum(
            bessel[abs(y - shift)] ** a * bessel[abs(y)] ** (1 - a) for y in range(shift - reach, reach + 1)
        )
        return mp.log(moment * mp.exp(-v)) / (a - 1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("variance", "shift"),
    [
        (0.2, 1),
        (3.0, 3),
        *(pytest.param(*case, marks=pytest.mark.deep) for case in ((0.2, 3), (3.0, 1), (60.0, 1), (60.0, 3))),
    ],
)
def test_skellam_rdp_is_above_the_exact_sum_and_close(variance, shift):
    orders = np.array([1.001, 1.5, 2.0, 7.0, 40.0])
    event = Skellam(variance, distance=shift, coordinates=1)
    for order, value in zip(orders, event.rdp(orders), strict=True):
        exact = exact_skellam_rdp(variance, shift, order, 400)
        assert exact <= value * (1 + 1e-13)
        assert value <= exact * (1 + 1e-6)


def test_skellam_rdp_of_two_coordinates_is_their_sum_where_that_is_below_zcdp():
    one, two = (Skellam(3.0, distance=math.sqrt(n), coordinates=n) for n in (1, 2))
    orders = np.array([1.5, 8.0, 64.0])
    assert two.rdp(orders) == pytest.approx(2 * one.rdp(orders), rel=1e-12)
    assert (two.rdp(orders)[1:] < 0.7 * two.zcdp_rho() * orders[1:]).all()


@pytest.mark.parametrize("variance, tilt", [(1e6, 1e-3), (1e6, 300.0), (9.0, 2.0), (0.3, 200.0)])
def test_skellam_moments_are_the_least_of_their_bounds_rounded_up(variance, tilt):
    got = float(_skellam_moment(variance, tilt))
    with mp.workdps(40):
        v, tau = mp.mpf(variance), mp.mpf(tilt)
        low, high = mp.mpf(0), tau / v
        for _ in range(140):
            t = (low + high) / 2
            low, high = (t, high) if v * t * mp.cosh(t) < tau else (low, t)
        g = tau * (t - mp.tanh(t)) + v * (mp.cosh(tau / (v * mp.cosh(t))) - 1)
        least = mp.log(mp.mpf("0.5") + mp.exp(g))
        assert least <= got <= least * (1 + mp.mpf(1e-12))


@pytest.mark.parametrize("order", [1.01, 2.0, 30.0, 4000.0])
def test_renyi_divergence_of_masses_that_may_be_off_is_no_smaller(order):
    rng, error = np.random.default_rng(6), 1e-6
    p, q = rng.dirichlet(np.full(12, 3.0), size=2)
    losses = np.log(p / q)
    off = np.where(losses > 0, -error, error)  # the worst that may have happened
    exact = float(special.logsumexp(np.log(p) + (order - 1) * losses)) / (order - 1)
    got = float(renyi(np.log(p) + off, losses, np.array([order]), log_error=error)[0])
    assert exact <= got <= exact + 5 * error * (1 + losses.max())


@pytest.mark.parametrize("shift", [1, 3, 70])
def test_the_error_of_a_skellam_table_is_charged(monkeypatch, shift):
    """A table whose masses are all too small by as much as it admits bounds no less than the right one."""
    orders = np.array([1.5, 4.0, 9.0])
    exact = _skellam_renyi(30.0, shift, orders)
    off = 1e-4

    def worse(variance, reach):
        table = skellam(variance, reach)
        return evolve(table, log_p=table.log_p - off, log_error=table.log_error + off)

    monkeypatch.setattr(integer_noise_tables, "skellam", worse)
    got = _skellam_renyi(30.0, shift, orders)
    assert (exact <= got).all() and (got <= exact + 20 * off * orders / (orders - 1)).all()


@pytest.mark.parametrize("variance", [1.0, 5.0, 25.0])
def test_skellam_slopes_of_large_orders_are_below_their_bound(monkeypatch, variance):
    """Computes the divergences by plain sums, and checks the assumption of the search for the steepest one."""
    monkeypatch.setattr(integer_noise_tables, "steepest", lambda curve, beyond, *, top: beyond)
    bound: Any = _skellam_rho.__wrapped__(variance)
    y = np.arange(-80, 81)
    log_q, log_p = (np.log(special.ive(np.abs(y - s), variance)) for s in (0, 1))
    orders = np.array([1.001, 1.1, 1.5, 2.0, 3.0, 5.0])
    slopes = [special.logsumexp(a * log_p + (1 - a) * log_q) / (a - 1) / a for a in orders]
    for i, order in enumerate(orders.tolist()):
        assert max(slopes[i:]) * (1 - 1e-9) <= bound(order)


def test_far_moves_of_one_coordinate_have_a_rdp_curve_and_of_two_their_rho():
    orders = np.array([2.0, 40.0])
    one, two = (Skellam(3.0, distance=11, coordinates=n) for n in (1, 2))
    assert one.rdp(orders) == pytest.approx(_skellam_renyi(3.0, 11, orders), rel=1e-13)
    assert (one.rdp(orders) < 0.5 * one.zcdp_rho() * orders).all()
    assert two.rdp(orders) == pytest.approx(two.zcdp_rho() * orders, rel=1e-13)


@pytest.mark.statistical
def test_skellam_rdp_far_out_is_still_a_bound_and_grows_like_a_logarithm():
    event = Skellam(2.0)
    for order in (300.0, 2000.0):
        value = event.rdp(np.array([order]))[0]
        exact = exact_skellam_rdp(2.0, 1, order, 3000)
        assert exact <= value * (1 + 1e-13) and value <= exact * 1.02
    assert event.rdp(np.array([1e12]))[0] < 60


@pytest.mark.parametrize("variance", [0.05, 1.0, 30.0, 2000.0])
@pytest.mark.every(2)
def test_skellam_rdp_is_below_the_bound_of_agarwal_kairouz_and_liu(variance):
    # 2021, Thm 3.5, integer α, for the vector (1, −1): Δ2² = 2, Δ1 = 2
    event = Skellam(variance).at(math.sqrt(2))
    for a in (2, 3, 8, 50):
        bound = a * 2 / (2 * variance) + min(((2 * a - 1) * 2 + 12) / (4 * variance**2), 6 / (2 * variance))
        assert event.rdp(np.array([float(a)]))[0] <= bound


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [0.05, *(pytest.param(v, marks=pytest.mark.deep) for v in (1.0, 25.0))])
def test_skellam_rho_is_the_steepest_slope(variance):
    rho = Skellam(variance).zcdp_rho()
    slopes = [
        exact_skellam_rdp(variance, 1, order, 300) / mp.mpf(float(order)) for order in 1 + np.geomspace(1e-4, 30, 8)
    ]
    assert max(slopes) <= rho
    assert rho <= max(slopes) * (1 + 5e-4)
    assert Skellam(variance).at(3).zcdp_rho() == pytest.approx(9 * rho)


@pytest.mark.statistical
def test_wide_skellam_noise_is_like_gaussian_noise_and_capped():
    assert Skellam(1e8).zcdp_rho() == pytest.approx(0.5e-8, rel=1e-3, abs=0)
    assert Skellam(1e30) == Skellam(1e8)


def gaussian_mu(eps, target):
    """μ at which Gaussian noise is exactly (eps, target)-DP (Balle & Wang 2018)."""
    low, high = 1e-3, 20.0
    for _ in range(200):
        mu = (low + high) / 2
        low, high = (mu, high) if gaussian_delta(mu, eps) < target else (low, mu)
    return low


@pytest.mark.parametrize(
    ("claim", "target", "exact"),
    [(0.5, 1e-5, 0.4963), (1, 1e-5, 0.9716), (2, 1e-5, 1.8134), (5, 1e-5, 3.519), (0.2, 0.05, 0.2010)],
)
@pytest.mark.every(2)
def test_skellam_counts_at_the_variance_calibrated_for_gaussian_noise(claim, target, exact):
    variance = 2 / gaussian_mu(claim, target) ** 2  # a swap of one record: +1 and −1
    got = epsilon(Skellam(variance).at(math.sqrt(2)), target).upper
    assert got == pytest.approx(exact, abs=2e-4)


@pytest.mark.parametrize(
    ("claim", "target", "exact"),
    [(1, 1e-5, 0.99989), (0.5, 1e-5, 0.50011), (3, 0.05, 3.106), (8, 0.01, 8.54), (1, 0.05, 1.0092)],
)
def test_discrete_gaussian_counts_at_the_variance_calibrated_for_gaussian_noise(claim, target, exact):
    sigma = math.sqrt(2) / gaussian_mu(claim, target)
    got = epsilon(DiscreteGaussian(sigma).at(math.sqrt(2)), target).upper
    assert got == pytest.approx(exact, rel=3e-4)


# Any integer noise


@pytest.mark.parametrize(("claim", "exact"), [(1, 1.61), (2, 15.25)])
def test_a_sum_of_narrow_discrete_gaussian_shares_is_not_a_discrete_gaussian(claim, exact):
    variance = 2 / gaussian_mu(claim, 1e-5) ** 2
    total = DiscreteGaussian(math.sqrt(variance / 200)).noise().sum_of(200)
    got = epsilon(compose((total, 2)), 1e-5).upper
    assert got == pytest.approx(exact, rel=2e-3)
    assert total.failure_delta() < 1e-30


@pytest.mark.parametrize(("b", "exact"), [(0.1, 0.212), (1.0, 1.212)])
def test_polya_shares_with_dropouts(b, exact):
    # NB(f, p) − NB(f, p), p = 1 − e^{−b}, f = 0.8 of the shares; the loss at infinity is b, next to 0 it is larger
    k = np.arange(0, int(80 / b))
    nb = stats.nbinom.pmf(k, 0.8, -math.expm1(-b))
    law = np.convolve(nb, nb[::-1])
    middle = slice(len(nb) - 1 - int(30 / b), len(nb) + int(30 / b))
    noise = IntegerNoise(np.log(law[middle]) - math.log(law[middle].sum()), 1e-9)
    assert noise.pure_epsilon() == pytest.approx(exact, abs=6e-4)
    with pytest.raises(UnsupportedEventError, match="not log-concave"):
        noise.at(2)


def test_a_sum_of_draws_is_the_convolution():
    law = np.array([0.2, 0.5, 0.3])
    got = IntegerNoise(np.log(law)).sum_of(3)
    assert np.exp(got.log_pmf) == pytest.approx(np.convolve(np.convolve(law, law), law), rel=1e-13)
    assert IntegerNoise(np.log(law), 1e-13).sum_of(5).tail == pytest.approx(5e-13, rel=1e-9, abs=0)
    summed = Skellam(3.0).noise().sum_of(4)
    whole = Skellam(12.0).noise()
    middle_a, middle_b = len(summed.log_pmf) // 2, len(whole.log_pmf) // 2
    for y in range(-40, 41):
        assert summed.log_pmf[middle_a + y] == pytest.approx(whole.log_pmf[middle_b + y], rel=1e-12)


def check_table(event, law, size, dimensions=3):
    claim = [delta(event, e).upper for e in EPSILONS]
    worst = np.max([hockey_sticks(law, v, bounded=True) for v in vectors("l1", size, dimensions)], axis=0)
    for upper, brute in zip(claim, worst, strict=True):
        assert brute <= upper * (1 + 1e-7) + 1e-12
        # what is set aside is charged in full, so at a small ε the sum may exceed the hockey stick
        assert upper <= brute + event.failure_delta() + 1e-5
    assert claim[-1] <= worst[-1] * (1 + 1e-4) + 1e-9 or event.pure_epsilon() > EPSILONS[-1]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.every(3)
def test_any_law_at_distance_one_in_both_directions(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(7))
    check_table(IntegerNoise(np.log(law)), law, 1)


@pytest.mark.parametrize("law", [stats.binom.pmf(np.arange(9), 8, 0.5), np.full(10, 0.1), LAPLACE / LAPLACE.sum()])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_symmetric_log_concave_noise_at_a_distance_is_the_worst_over_all_vectors(law, size):
    check_table(IntegerNoise(np.log(law)).at(size), law, size)


@pytest.mark.parametrize(
    "law",
    [
        stats.binom.pmf(np.arange(9), 8, 0.3),
        stats.poisson.pmf(np.arange(30), 4.0) / stats.poisson.cdf(29, 4.0),
        stats.geom.pmf(np.arange(1, 30), 0.4) / stats.geom.cdf(29, 0.4),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.every(4)
def test_log_concave_noise_on_one_integer_in_both_directions(law, size):
    check_table(IntegerNoise(np.log(law), distance=size, coordinates=1), law, size, dimensions=1)
    if size > 1:
        with pytest.raises(UnsupportedEventError, match="not symmetric"):
            IntegerNoise(np.log(law)).at(size)


def test_a_lack_of_log_concavity_is_charged_to_the_failure_probability():
    """A law and its log-concave majorant agree within e^η in each of three coordinates, before and after the shift."""
    heights, dent = -np.abs(np.arange(-4.0, 5.0)), 8e-10
    heights[[2, 6]] -= dent  # of a straight line
    log_p = heights - special.logsumexp(heights)
    above = log_p.copy()
    above[[2, 6]] += dent
    with mp.workdps(30):
        law = [mp.exp(x) for x in above]
        ends = mp.fsum(law[:3]) / mp.fsum(law)
        charged = mp.mpf(IntegerNoise(log_p).at(3).failure_delta())
        assert ends * mp.exp(6 * dent * (1 - 1e-5)) <= charged <= ends * mp.exp(6 * dent) * (1 + 1e-13)


def test_a_lack_of_log_concavity_is_charged_to_the_losses():
    """One step of a straight line of slope 1 begins at its height and ends in a dent, or begins in it."""
    heights, dent = -np.abs(np.arange(-6.0, 7.0)), 8e-10
    heights[3] -= dent
    for size, distance in ((1, 1), (3, 2)):
        noise = IntegerNoise(heights - special.logsumexp(heights), distance=distance, coordinates=1)
        worst = np.abs(heights[distance:] - heights[:-distance]).max()
        assert worst == pytest.approx(distance + dent, abs=1e-15)
        for found in (noise.pure_epsilon(), noise.loss_support()[1]):
            assert worst * (1 - 1e-15) <= found <= worst + 8 * size * dent


def test_a_failure_is_no_more_than_certain():
    """Two ends of two tenths each, and the tail once for each of two steps."""
    assert IntegerNoise(np.log(np.full(3, 0.1)), 0.7).at(2).failure_delta() == 1.0


@pytest.mark.parametrize("heights", [[0.0, -5.0, 0.0], [0.0, 3.0, 4.0], [1.0, 1.0], [2.0], [0.0, -1.0, -5.0, -4.0]])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_concave_majorant_is_the_largest_of_all_chords(heights, seed):
    y = np.append(heights, np.random.default_rng(seed).normal(0, 3, 3 * seed))
    n = len(y)
    chords = [
        [y[j] + (y[k] - y[j]) * (i - j) / max(k - j, 1) for j in range(i + 1) for k in range(i, n)] for i in range(n)
    ]
    assert hull(y) == pytest.approx(np.array([max(chord) for chord in chords]), abs=1e-12)


def test_a_rho_beyond_the_domain_is_not_stated():
    top = field_checks.LARGEST**2
    assert known_rho(top) == top and known_rho(math.nextafter(top, math.inf)) == math.inf
    assert DiscreteGaussian(1.0).at(1e100).zcdp_rho() < math.inf == DiscreteGaussian(0.5).at(1e100).zcdp_rho()


def test_uniform_noise_has_only_a_failure_probability():
    event = IntegerNoise(np.log(np.full(10, 0.1)))
    assert event.failure_delta() == pytest.approx(0.1)
    assert event.pure_epsilon() == pytest.approx(0.0, abs=1e-14)
    assert epsilon(event, 0.11).upper == pytest.approx(0.0, abs=1e-13)
    assert epsilon(event, 0.09).upper == math.inf
    assert IntegerNoise(np.log(np.full(10, 0.1))).at(12).failure_delta() == 1.0


def test_rdp_of_a_table_given_that_both_worlds_have_the_outcome():
    law = np.array([0.05, 0.2, 0.4, 0.25, 0.1])
    event = IntegerNoise(np.log(law))
    up, down = law[:-1] / law[:-1].sum(), law[1:] / law[1:].sum()
    for order, value in zip(ORDERS, event.rdp(ORDERS), strict=True):
        exact = max(
            math.log(float((p**order * q ** (1 - order)).sum())) / (order - 1) for p, q in [(up, down), (down, up)]
        )
        assert exact <= value * (1 + 1e-9) + 1e-13 and value <= exact * (1 + 1e-6)
    assert event.pure_epsilon() == pytest.approx(float(np.abs(np.log(up / down)).max()), rel=1e-12)
    assert event.failure_delta() == pytest.approx(0.1)
    assert (event.rdp(ORDERS) <= event.zcdp_rho() * ORDERS * (1 + 1e-9)).all()


@pytest.mark.parametrize("off", [4e-12, -4e-12])
@pytest.mark.parametrize(
    "heights, lean",
    [
        (-5.0 * np.abs(np.arange(-6.0, 7.0)), np.sign(np.arange(-6, 7))),
        (np.array([-12.0, 0.0, -2.0, -2.0, 0.0, -12.0]), np.array([1, -1, -1, 1, 1, -1])),  # two modes
        # much mass at the ends, so that the directions' normalisers differ
        (np.log([0.45, 0.0499, 1e-4, 1e-4, 0.0499, 0.45]), np.array([1, -1, 1, -1, 1, -1])),
    ],
)
def test_a_law_that_is_nearly_its_mirror_image_is_bounded_in_either_direction(heights, lean, off):
    heights = heights - off / 2 * lean
    event = IntegerNoise(heights - special.logsumexp(heights), coordinates=1)
    pair, orders = event.pair(), np.array([1.05, 1.5, 4.0])
    assert isinstance(pair, Atoms)  # one for both directions
    claims = event.rdp(orders).tolist()
    with mp.workdps(40):
        masses = [mp.exp(x) for x in event.log_pmf]
        low, high = masses[:-1], masses[1:]
        for p, q in ((low, high), (high[::-1], low[::-1])):
            p, q = ([x / mp.fsum(law) for x in law] for law in (p, q))
            for x, y, mass, loss in zip(p, q, pair.p, pair.losses, strict=True):
                assert x * (1 - 1e-14) <= mass <= x * (1 + 1e-10) and mp.log(x / y) <= loss <= mp.log(x / y) + 1e-10
            for order, claim in zip(orders.tolist(), claims, strict=True):
                exact = mp.log(mp.fsum(x * (x / y) ** (mp.mpf(order) - 1) for x, y in zip(p, q, strict=True)))
                assert exact / (mp.mpf(order) - 1) <= claim <= exact / (order - 1) + 1e-9


def test_a_table_of_discrete_gaussian_noise_is_as_good_as_the_event():
    noise = DiscreteGaussian(2.0).noise()
    for shift in (1, 3):
        one = DiscreteGaussian(2.0, distance=shift, coordinates=1)
        for target in (1e-2, 1e-8):
            assert epsilon(noise.at(shift), target).upper == pytest.approx(epsilon(one, target).upper, rel=1e-5)
    assert noise.zcdp_rho() == pytest.approx(1 / 8, rel=3e-4)


# Laws that hold for all


EVENTS = [DiscreteLaplace(2.0), DiscreteGaussian(1.5), Skellam(3.0), DiscreteGaussian(1.3).noise()]


@pytest.mark.parametrize("event", EVENTS)
def test_distances_multiply_and_are_rounded_to_integers(event):
    assert event.at(0) == NO_EVENT
    assert event.at(2).at(3) == event.at(6)
    assert event.at(0.5).at(2) == event
    assert event.at(0.3).zcdp_rho() == event.zcdp_rho()  # integers differ by one or not at all
    unit = {"l1": 3.0, "l2": math.sqrt(3.0)}[event.norm]
    assert event.at(unit * (1 + 1e-15)).zcdp_rho() == event.at(unit).zcdp_rho()
    assert event.at(unit * (1 - 1e-15)).zcdp_rho() == event.at(unit).zcdp_rho()
    assert hash(event) == hash(event.at(1))


def test_huge_distances_keep_their_cost():
    assert DiscreteLaplace(1.0).at(1e100).pure_epsilon() == 1e100
    assert DiscreteLaplace(1.0).at(1e9 + 0.5).pure_epsilon() == 1e9 + 1
    assert DiscreteGaussian(1.0).at(1e60).zcdp_rho() >= 5e119


@pytest.mark.statistical
@pytest.mark.parametrize("event", EVENTS)
@given(d=st.floats(0.1, 4.0), growth=st.floats(1.0, 1.5))
@settings(max_examples=6, deadline=None)
def test_more_distance_costs_more(event, d, growth):
    near, far = event.at(d), event.at(d * growth)
    assert near.zcdp_rho() <= far.zcdp_rho() * (1 + 1e-3)
    assert (near.rdp(ORDERS) <= far.rdp(ORDERS) * (1 + 1e-6) + 1e-12).all()
    assert delta(near, 0.7).upper <= delta(far, 0.7).upper * (1 + 1e-4)


@pytest.mark.parametrize("event", EVENTS)
def test_curves_agree_with_each_other(event):
    for target in (1e-2, 1e-9):
        pld = epsilon(event, target, method="pld").upper
        assert pld <= epsilon(event, target, method="rdp").upper * (1 + 1e-6)
        assert epsilon(event, target, method="rdp").upper <= epsilon(event, target, method="zcdp").upper * (1 + 1e-9)


def test_spreads_list_all_maximal_integer_vectors():
    for square, coordinates in [(1, None), (7, None), (13, None), (12, 2), (26, 3), (50, 1), (30, 4)]:
        found = spreads(square, coordinates)
        brute: set[tuple[int, ...]] = set()
        width = square if coordinates is None else coordinates

        def grow(parts, left, room, into=brute):
            options = [p for p in range(1, math.isqrt(left) + 1) if not parts or p <= parts[-1]]
            grows = any((p + 1) ** 2 - p * p <= left for p in parts)
            if not (room and left) and not grows:
                into.add(parts)
            for p in options if room else []:
                grow((*parts, p), left - p * p, room - 1, into)

        grow((), square, width)
        assert found is not None and set(found) == brute
    assert spreads(60, None) is None


def test_beyond_the_enumeration_a_vector_has_its_rho_alone():
    event = DiscreteGaussian(5.0).at(10)
    assert not event.has_profile() and event.pair() is None
    assert epsilon(event, 1e-6).upper == epsilon(event, 1e-6, method="rdp").upper
    with pytest.raises(UnsupportedEventError, match="too many worst shifts"):
        event.loss_support()
    assert DiscreteGaussian(5.0, distance=10, coordinates=1).has_profile()
    assert not DiscreteGaussian(1e6).has_profile()
    with pytest.raises(UnsupportedEventError, match="table"):
        DiscreteGaussian(1e6).noise()


@pytest.mark.statistical
@pytest.mark.parametrize("event", [DiscreteGaussian(10.0).at(2), Skellam(1e5).at(2), DiscreteGaussian(60.0).at(3)])
def test_profiles_of_many_vectors_are_not_spoilt_by_round_off(event):
    got = epsilon(event, 1e-6, method="pld", bracket=True)
    assert got.lower is not None and got.lower <= got.upper <= got.lower * (1 + 1e-3)
    assert got.upper < epsilon(event, 1e-6, method="rdp").upper


def test_steepest_finds_a_slope_in_the_middle():
    # a loss that is 0 nearly always and ±ε else: rdp(α)/α peaks far from 1
    small, eps = 1e-6, 2.0

    def curve(orders):
        t = np.minimum(np.asarray(orders) - 1, 300.0)
        gain = small * (np.expm1(t * eps) + math.exp(-eps) * np.expm1(-t * eps))
        return np.log1p(gain) / t

    grid = 1 + np.geomspace(1e-6, 300, 200_001)
    exact = float((curve(grid) / grid).max())
    got = steepest(curve, lambda order: eps / order)
    assert exact <= got <= exact * (1 + 3e-4)
    assert exact > 1.5 * float(curve(np.array([1 + 1e-9]))[0])


def test_no_slope_is_searched_where_none_exists():
    tried: list[float] = []

    def nothing(orders):
        tried.extend(orders.tolist())
        return np.zeros(len(orders))

    assert steepest(nothing, lambda order: 0.0) == 0.0
    assert len(tried) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiscreteGaussian(1.0, coordinates=1.5),  # type: ignore[arg-type]
        lambda: IntegerNoise(()),
        lambda: IntegerNoise([math.log(0.5)]),
        lambda: IntegerNoise([math.log(0.5), math.log(0.6)]),
        lambda: IntegerNoise([0.5, -1.0]),
        lambda: IntegerNoise([-math.inf, 0.0]),
        lambda: IntegerNoise([0.0], 2.0),
        lambda: DiscreteGaussian(1.0).noise().sum_of(0),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_integers_and_floats_agree():
    assert DiscreteGaussian(2) == DiscreteGaussian(np.float64(2.0)) and Skellam(2) == Skellam(2.0)
    assert IntegerNoise([0]) == IntegerNoise((0.0,)) and IntegerNoise(np.zeros(1)).log_pmf == (0.0,)


def test_noise_without_a_loss_has_no_rho():
    everywhere = IntegerNoise([0.0])  # a single integer: the outcome gives the input away
    assert everywhere.failure_delta() == 1.0
    assert everywhere.pure_epsilon() == 0.0 == everywhere.zcdp_rho() and everywhere.rdp(ORDERS).max() == 0.0


@pytest.mark.statistical
def test_a_sum_of_too_many_draws_is_refused():
    with pytest.raises(UnsupportedEventError, match="beyond what is tabulated"):
        IntegerNoise(np.log(np.full(2000, 1 / 2000))).sum_of(10**9)


@pytest.mark.parametrize("shift", [64, 65, 300])
def test_losses_of_long_shifts_are_the_laws(shift):
    variance = 4e4
    reach = skellam_reach(variance)
    table = skellam(variance, reach)
    y = np.arange(-400, 401 - shift)
    exact = np.log(special.ive(np.abs(y), variance)) - np.log(special.ive(np.abs(y + shift), variance))
    got = table.losses(shift)[reach + y]
    assert (got >= exact - 1e-12).all() and got == pytest.approx(exact, abs=1e-9)


def test_a_shift_beyond_the_table_gives_the_input_away():
    table = skellam(1.0, skellam_reach(1.0))
    far = table.shifted(len(table.log_p))
    assert far.infinity() == 1.0 and far.losses == ()
    near = table.shifted(len(table.log_p) - 1)
    assert near.infinity() == 1.0 and len(near.losses) <= 1


@pytest.mark.parametrize("coordinates, square", [(3, 90), (6, 100)])
def test_more_vectors_than_can_be_tried_are_not_listed(coordinates, square):
    every = spreads(square, coordinates, most=10**6)
    assert every is not None and spreads(square, coordinates, most=len(every)) == every
    assert spreads(square, coordinates, most=len(every) - 1) is None
    assert all(sum(x * x for x in vector) <= square and len(vector) <= coordinates for vector in every)


@pytest.mark.parametrize("shift", [1, 3, 70])
def test_the_error_of_a_table_is_charged_to_its_shifted_law(shift):
    """For all errors within their bounds, P's masses and the profile are at least those of the true law."""
    true = np.log(laws.discrete_laplace(9.0, 80))
    error = 1e-3
    wrong = true + error * np.where(np.arange(len(true)) % 2, 1.0, -1.0)
    steps = wrong[:-1] - wrong[1:]
    got = integer_noise_tables.NoiseTable(wrong, steps, 0.0, error, np.full(len(steps), 2 * error)).shifted(shift)
    assert (np.array(got.p) >= np.exp(true[:-shift])).all()
    assert (np.array(got.losses) >= true[:-shift] - true[shift:] - 1e-12).all()
    assert got.at_infinity >= np.exp(true[-shift:]).sum()
    p, q = moved(np.exp(true), shift)
    for eps in EPSILONS:
        claim = got.at_infinity + sum(
            m * -math.expm1(min(0.0, eps - x)) for m, x in zip(got.p, got.losses, strict=True)
        )
        assert hockey_stick(p, q, eps) <= claim * (1 + 1e-12)


@pytest.mark.parametrize("event", [DiscreteGaussian, DiscreteLaplace, Skellam])
def test_a_second_positional_argument_is_refused(event):
    with pytest.raises(TypeError):
        event(1.0, 2)


@pytest.mark.parametrize(("vector", "sigma"), [((2, 1), 2.0), ((2, 1), 4.0), ((3, 2), 5.0), ((3, 1), 4.5)])
@pytest.mark.every(2)
def test_sums_of_wide_noise_have_the_law_of_one_number(vector: tuple[int, ...], sigma: float) -> None:
    """By convolution in 80 digits, against the bound of the proof; the difference is there."""
    norm = sum(s * s for s in vector)
    with mp.workdps(80):

        def masses(parameter: Any, step: int) -> dict[int, Any]:
            reach = int(16 * parameter)
            found = {y * step: mp.exp(-(mp.mpf(y) ** 2) / (2 * parameter**2)) for y in range(-reach, reach + 1)}
            total = mp.fsum(found.values())
            return {y: p / total for y, p in found.items()}

        law = {0: mp.mpf(1)}
        for step in vector:
            one, summed = masses(mp.mpf(sigma), step), dict[int, Any]()
            for x, p in law.items():
                for y, q in one.items():
                    summed[x + y] = summed.get(x + y, 0) + p * q
            law = summed
        other = masses(mp.mpf(sigma) * mp.sqrt(norm), 1)
        off = max(abs(law[y] - other[y]) for y in range(-3 * int(sigma), 3 * int(sigma) + 1))
        c = 2 * mp.pi**2 * sigma**2 / norm
        bound = sum((2 * m + 3) ** len(vector) * mp.exp(-c * m * m) for m in range(1, 9))
        assert bound / 10_000 < off < bound


def test_wide_noise_hides_vectors_of_one_norm_and_common_factor_alike() -> None:
    noise = DiscreteGaussian(40.0)
    every = spreads(16, None)
    assert every is not None and len(every) == 8
    event = DiscreteGaussian(40.0, distance=4.0)
    assert [math.gcd(*vector) for vector in event.shifts()] == [4, 1, 2]
    assert len(DiscreteGaussian(20.0, distance=4.0).shifts()) == 8
    shown = {math.gcd(*vector): delta(event.along(vector), 0.5).upper for vector in event.shifts()}
    for vector in every:
        assert delta(_spread(noise, vector), 0.5).upper == pytest.approx(shown[math.gcd(*vector)], rel=1e-7)
    assert delta(event, 1.0).upper == max(delta(event.along(vector), 1.0).upper for vector in event.shifts())
    assert delta(event, math.inf).upper > 0.0


def test_wide_noise_of_several_numbers_composes_and_joins_a_group() -> None:
    event = DiscreteGaussian(40.0, distance=4.0)
    several = compose((event, 5))
    assert epsilon(several, 1e-6).upper >= epsilon(event, 1e-6).upper
    assert epsilon(several, 1e-6).upper == pytest.approx(epsilon(Gaussian(10.0 / math.sqrt(5)), 1e-6).upper, rel=2e-2)


def test_the_neglected_mass_of_wide_noise_is_charged_inside_other_events():
    """A law of losses omits failures, so the event has to state its own failure probability."""
    wide, narrow = DiscreteGaussian(40.0, distance=2.0), DiscreteGaussian(1.5, distance=2.0)
    assert wide.failure_delta() == _NEGLECTED > 0.0 and narrow.failure_delta() == 0.0
    assert any(wide.along(vector).failure_delta() == _NEGLECTED for vector in wide.shifts())
    assert compose((wide, 3), PureDP(0.1)).failure_delta() >= 3 * _NEGLECTED
    assert PoissonSampled(0.5, wide).failure_delta() >= 0.5 * _NEGLECTED
