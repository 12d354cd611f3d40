"""Tests of staircase noise against integrals of its density over all changes, and of Laplace noise's ρ against
mpmath."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import NO_EVENT, InvalidArgumentError, Laplace, compose, delta, epsilon
from hockeystick.accounting.events.noise.staircase import Staircase
from hockeystick.accounting.losses.dominating_pairs import Atoms

ORDERS = np.array([1.0001, 1.5, 2.0, 8.0, 60.0, 1e4])


def density(x, eps, gamma):
    """Geng & Viswanath 2015, Def. 1: on [k, k + γ) a·e^{−kε}, on [k + γ, k + 1) a·e^{−(k+1)ε}, and even."""
    q = math.exp(-eps)
    a = (1 - q) / (2 * (gamma + q * (1 - gamma)))
    k = np.floor(np.abs(x))
    return a * np.exp(-eps * (k + (np.abs(x) - k >= gamma)))


def masses(eps, gamma, change):
    """P, the noise moved by ``change``, and Q, the noise, on the intervals on which both densities are constant."""
    k = np.arange(math.ceil(60 / eps) + math.ceil(abs(change)) + 5)
    ends = np.concatenate([k, -k, k + gamma, -k - gamma])
    ends = np.unique(np.concatenate([ends, ends + change]))
    middle, width = (ends[1:] + ends[:-1]) / 2, np.diff(ends)
    return density(middle - change, eps, gamma) * width, density(middle, eps, gamma) * width


def hockey_sticks(eps, gamma, change, levels):
    p, q = masses(eps, gamma, change)
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    return np.array([hockey_stick(p, q, level) for level in levels])


def best_gamma(eps):
    return 1 / (1 + math.exp(eps / 2))


@pytest.mark.parametrize("eps", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.55, 0.9, 1.0, None])
@pytest.mark.parametrize("distance", [0.3, 0.75, 1.0, 1.6, 2.0, 3.3])
@pytest.mark.every(7)
def test_profile_is_the_largest_over_all_changes_up_to_the_distance(eps, gamma, distance):
    event = Staircase(eps, distance=distance) if gamma is None else Staircase(eps, gamma=gamma, distance=distance)
    gamma = best_gamma(eps) if gamma is None else gamma
    pair = event.pair()
    assert isinstance(pair, Atoms)
    losses, p = np.array(pair.losses), np.array(pair.p)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p * np.exp(-losses)).sum() == pytest.approx(1.0, abs=1e-12)
    levels = np.array([0.0, 0.5, 1.0, 1.7, 2.0]) * eps
    claim = np.array([(p * np.maximum(-np.expm1(level - losses), 0)).sum() for level in levels])
    changes = np.concatenate([np.linspace(0, distance, 41)[1:], np.random.default_rng(3).uniform(0, distance, 20)])
    kinks = [x for k in range(-4, 5) for x in (k, 2 * gamma + k, k - 2 * gamma) if 0 < x < distance]
    moves = [*changes, *kinks, *(-changes[::5])]
    worst = np.max([hockey_sticks(eps, gamma, change, levels) for change in moves], axis=0)
    assert (worst <= claim * (1 + 1e-9) + 1e-12).all()
    assert (claim <= worst * (1 + 1e-9) + 1e-12).all()
    assert delta(event, levels[1]).upper == pytest.approx(claim[1], rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("eps", [1e-4, 0.5, 4.0, 60.0, 300.0])
@pytest.mark.parametrize("distance", [0.2, 1.0, 2.5])
def test_laws_at_very_small_and_large_steps(eps, distance):
    event = Staircase(eps, distance=distance)
    assert event.pure_epsilon() == eps * math.ceil(distance)
    pair = event.pair()
    assert isinstance(pair, Atoms)
    assert sum(pair.p) == pytest.approx(1.0, abs=1e-12)
    losses, p = np.array(pair.losses), np.array(pair.p)
    seen = p > 1e-290
    if event.pure_epsilon() < 600:  # else P's mass at the lowest loss is no float
        assert np.exp(np.log(p[seen]) - losses[seen]).sum() == pytest.approx(1.0, abs=1e-9)
    if 0.1 < eps < 10:
        assert p @ np.maximum(-np.expm1(-losses), 0) == pytest.approx(
            hockey_sticks(eps, best_gamma(eps), distance, [0.0])[0], rel=1e-9
        )
    assert epsilon(event, 0.0).upper == event.pure_epsilon()


@pytest.mark.parametrize(("eps", "gamma", "distance"), [(1.0, 0.3, 1.0), (2.0, 0.9, 0.4), (0.5, 0.5, 2.0)])
def test_rdp_and_zcdp_bound_every_change(eps, gamma, distance):
    event = Staircase(eps, gamma=gamma, distance=distance)
    claim, rho = event.rdp(ORDERS), event.zcdp_rho()
    assert (claim <= rho * ORDERS * (1 + 1e-9)).all() and (claim <= event.pure_epsilon()).all()
    for change in np.linspace(0, distance, 12)[1:]:
        p, q = masses(eps, gamma, change)
        losses = np.log(p / q)
        for order, bound in zip(ORDERS, claim, strict=True):
            y = np.log(p) + (order - 1) * losses
            exact = (y.max() + math.log(np.exp(y - y.max()).sum())) / (order - 1)
            assert exact <= bound * (1 + 1e-9) + 1e-10
            assert exact <= rho * order + 1e-10
    if distance <= 1.0:  # one law is worst in every curve: nothing is lost
        pair = event.pair()
        assert isinstance(pair, Atoms)
        p = pair.p
        grid = 1 + np.geomspace(1e-5, 50, 4001)
        gain = p[-1] * np.expm1((grid - 1) * eps) + p[0] * np.expm1(-(grid - 1) * eps)
        assert rho == pytest.approx(float((np.log1p(gain) / (grid - 1) / grid).max()), rel=5e-4)


def test_a_vector_is_not_one_number():
    # two coordinates that change by one half: a loss of 2ε has mass, and the composition of two events covers it
    eps = 1.0
    half = Staircase(eps).at(0.5)
    p, q = masses(eps, best_gamma(eps), 0.5)
    both = hockey_stick(np.outer(p, p), np.outer(q, q), 1.2)
    assert both > 0.01 and delta(Staircase(eps), 1.2).upper == 0.0
    assert both <= delta(compose((half, 2)), 1.2).upper * (1 + 1e-9)


@pytest.mark.statistical
@given(eps=st.floats(0.05, 5), gamma=st.floats(0, 1), d=st.floats(0.05, 3), growth=st.floats(1, 2))
@settings(max_examples=15, deadline=None)
def test_more_distance_costs_more(eps, gamma, d, growth):
    near, far = Staircase(eps, gamma=gamma).at(d), Staircase(eps, gamma=gamma).at(d * growth)
    assert near.pure_epsilon() <= far.pure_epsilon()
    assert near.zcdp_rho() <= far.zcdp_rho() * (1 + 1e-3)
    assert (near.rdp(ORDERS) <= far.rdp(ORDERS) * (1 + 1e-9) + 1e-12).all()
    for level in (0.0, eps / 2, eps):
        assert delta(near, level).upper <= delta(far, level).upper * (1 + 1e-4) + 1e-9


def test_at_large_distances_its_profile_is_that_of_pure_dp():
    event = Staircase(0.002).at(500)
    assert event.pure_epsilon() == pytest.approx(1.0)
    assert delta(event, 0.0).upper == pytest.approx(math.tanh(0.5), rel=1e-6)
    assert event.zcdp_rho() <= 0.5


def test_distances_of_repeated_scaling_multiply():
    event = Staircase(1.0, gamma=0.4)
    assert event.at(0) == NO_EVENT and event.at(1) == event
    twice: Any = event.at(2)
    assert twice.at(0.5) == event and twice.distance == 2.0


@pytest.mark.parametrize("epsilon", [0.0, 1000.0])
def test_epsilons_out_of_range_are_refused(epsilon):
    with pytest.raises(InvalidArgumentError):
        Staircase(epsilon)


def test_parameters_are_keyword_arguments():
    with pytest.raises(TypeError):
        Staircase(1.0, 0.5)  # type: ignore[call-arg]


# Laplace noise: the tight ρ


def laplace_rdp(e, order):
    a = mp.mpf(float(order))
    return mp.log(a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)) / (a - 1)


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 1.999, 2.0, 2.001, 7.0, 1e3, 1e8, 1e20, 1e100])
def test_laplace_rho_is_exact_rounded_up_and_no_order_needs_more(scale):
    with mp.workdps(450):
        e = mp.mpf(1) / mp.mpf(scale)
        rho = e + mp.exp(-e) - 1
        got = Laplace(scale).zcdp_rho()
        assert rho <= got <= rho * (1 + mp.mpf(10) ** -14)
        for order in 1 + np.geomspace(1e-9, 1e3, 25):
            assert laplace_rdp(e, order) <= rho * mp.mpf(float(order))


@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0, 1e7, 1e30])
def test_laplace_rdp_is_not_below_the_truth_where_it_nearly_cancels(scale):
    orders = np.array([1 + 1e-9, 1.01, 2.5, 300.0, 1e4])
    with mp.workdps(150):
        for order, value in zip(orders, Laplace(scale).rdp(orders), strict=True):
            exact = laplace_rdp(mp.mpf(1) / mp.mpf(scale), order)
            assert exact <= value * (1 + mp.mpf(2) ** -52)
            assert value <= exact * (1 + 1e-4)
