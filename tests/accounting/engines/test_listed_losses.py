"""Tests of single accesses with finitely many losses, and of integer noise of tiny scale, by enumeration in 50
digits."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    DiscretePair,
    Gaussian,
    Skellam,
    compose,
    delta,
    epsilon,
)
from hockeystick.accounting.engines import listed_losses
from hockeystick.accounting.losses.dominating_pairs import Atoms

mpmath.mp.dps = 50


def gaussian(sigma):
    return lambda y: -(mpmath.mpf(y) ** 2) / (2 * mpmath.mpf(sigma) ** 2)


def laplace(scale):
    return lambda y: -abs(y) / mpmath.mpf(scale)


def skellam(variance):
    return lambda y: mpmath.log(mpmath.besseli(abs(y), mpmath.mpf(variance)))


def outcomes(log_law, vector, reach):
    """(mass, loss) of all outcomes of noise of that law, each coordinate shifted, as far as ``reach``."""
    total = mpmath.fsum(mpmath.exp(log_law(y)) for y in range(-reach, reach + 1))
    table = {y: log_law(y) - mpmath.log(total) for y in range(-reach - max(vector), reach + 1)}
    ways = [[(table[y], table[y] - table[y - s]) for y in range(-reach, reach + 1)] for s in vector]
    rows = [(sum(p for p, _ in way), sum(loss for _, loss in way)) for way in itertools.product(*ways)]
    return sorted(((mpmath.exp(p), loss) for p, loss in rows if p > -500), key=lambda row: -row[1])


def least_epsilon(rows, at):
    p = q = mpmath.mpf(0)
    for mass, loss in rows:
        if p - mpmath.exp(loss) * q >= at:
            break
        p, q = p + mass, q + mass * mpmath.exp(-loss)
    return max(mpmath.mpf(0), mpmath.log((p - at) / q)) if p > at else mpmath.mpf(0)


def assert_exact(event, rows, at):
    truth = max(least_epsilon(one, mpmath.mpf(at)) for one in rows)
    found = epsilon(event, at, bracket=True)
    assert truth * (1 - mpmath.mpf(10) ** -16) <= found.upper <= truth * (1 + mpmath.mpf(10) ** -10) + 1e-13
    assert found.lower is not None and found.lower <= found.upper


@pytest.mark.parametrize("at", [1e-3, 1e-8, 1e-30])
@pytest.mark.parametrize("sigma", [0.05, 0.1, 0.23021707765118915, 0.4, 0.8, 2.0])
@pytest.mark.parametrize("shift", [1, 2, 3, 6, 10])
@pytest.mark.every(5)
def test_discrete_gaussian_noise_of_any_scale_at_any_distance(sigma, shift, at):
    event = DiscreteGaussian(sigma, distance=shift, coordinates=1)
    assert_exact(event, [outcomes(gaussian(sigma), (shift,), math.ceil(15 * sigma) + 2)], at)


def test_discrete_gaussian_noise_far_away_has_its_exact_epsilon():
    event = DiscreteGaussian(0.23021707765118915, distance=6, coordinates=1)
    assert epsilon(event, 1e-8).upper == pytest.approx(452.83089370343873, rel=1e-12)
    assert epsilon(event, 1e-30).upper == pytest.approx(566.0387734915391, rel=1e-12)


@pytest.mark.parametrize("at", [1e-8, 1e-20])
@pytest.mark.parametrize("variance", [0.01, 0.5])
@pytest.mark.parametrize("shift", [1, 3, 10])
@pytest.mark.every(3)
def test_skellam_noise_of_tiny_variance(variance, shift, at):
    event = Skellam(variance, distance=shift, coordinates=1)
    assert_exact(event, [outcomes(skellam(variance), (shift,), 24)], at)


@pytest.mark.parametrize("at", [1e-8, 1e-20])
@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_discrete_laplace_noise_of_tiny_scale(scale, shift, at):
    event = DiscreteLaplace(scale, distance=shift)
    assert_exact(event, [outcomes(laplace(scale), (shift,), math.ceil(60 * scale) + 6)], at)


VECTORS: dict[tuple[int, int], list[tuple[int, ...]]] = {
    (2, 2): [(1, 1)],
    (2, 5): [(2, 1)],
    (2, 6): [(2, 1)],
    (2, 9): [(2, 2), (3,)],
    (3, 3): [(1, 1, 1)],
}
"""The longest shifts of so many coordinates, up to order, by the largest squared norm."""


@pytest.mark.parametrize("coordinates, square", VECTORS)
@pytest.mark.parametrize("at", [1e-8, 1e-20])
@pytest.mark.every(2)
def test_several_coordinates_of_tiny_noise(coordinates, square, at):
    vectors = VECTORS[coordinates, square]
    distance = math.sqrt(square)
    laws = [outcomes(gaussian(0.3), vector, 5) for vector in vectors]
    assert_exact(DiscreteGaussian(0.3, distance=distance, coordinates=coordinates), laws, at)
    if coordinates == 2:
        laws = [outcomes(skellam(0.05), vector, 14) for vector in vectors]
        assert_exact(Skellam(0.05, distance=distance, coordinates=coordinates), laws, at)


def test_rdp_knows_how_many_coordinates_there_are():
    """Two coordinates can't change by one nine times."""
    orders = np.array([1.5, 8.0, 100.0])
    for kind, parameter in ((DiscreteGaussian, 0.4), (Skellam, 0.3)):
        two, any_number = (kind(parameter, distance=3.0, coordinates=c) for c in (2, None))
        one, unit = kind(parameter, distance=2.0, coordinates=1), kind(parameter, distance=3.0, coordinates=1)
        assert (two.rdp(orders) <= any_number.rdp(orders)).all()
        assert two.rdp(orders) == pytest.approx(np.maximum(2 * one.rdp(orders), unit.rdp(orders)), rel=1e-9)


# The profile itself ----------------------------------------


@st.composite
def pairs(draw):
    p = np.array(draw(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=6)))
    q = np.array(draw(st.lists(st.floats(1e-6, 1.0), min_size=len(p), max_size=len(p))))
    return p / p.sum(), q / q.sum(), draw(st.floats(0.0, 3.0))


@given(drawn=pairs())
@settings(deadline=None, max_examples=60)
def test_delta_and_epsilon_are_those_of_the_two_laws(drawn):
    p, q, at = drawn
    pair = Atoms(tuple(np.log(p / q).tolist()), tuple(p.tolist()))
    with mpmath.workdps(40):
        truth = mpmath.fsum(
            max(mpmath.mpf(0), mpmath.mpf(float(m)) * (1 - mpmath.exp(at - mpmath.mpf(loss))))
            for m, loss in zip(pair.p, pair.losses, strict=True)
        )
    low, high = (listed_losses.delta(pair, at, upper=upper) for upper in (False, True))
    assert low <= truth <= high and high - low <= 1e-12 * high + 1e-13  # masses may be off by 2^-43, losses by 2^-48
    if high > 1e-12:
        below, above = (listed_losses.epsilon(pair, high, upper=upper) for upper in (False, True))
        assert below <= at * (1 + 1e-9) + 1e-9 and below <= above
        assert listed_losses.delta(pair, above) <= high
        assert above == pytest.approx(at, abs=1e-6) or at > max(pair.losses)


def test_a_profile_is_exact_at_its_ends():
    pair = Atoms((1.0, -1.0), (0.6, 0.3), 0.1)
    assert listed_losses.delta(pair, math.inf) == 0.1 and listed_losses.delta(pair, 1.0) >= 0.1
    assert listed_losses.epsilon(pair, 0.05) == math.inf
    assert listed_losses.epsilon(pair, 0.1) == pytest.approx(1.0, rel=1e-12)
    assert listed_losses.epsilon(pair, 0.9) == 0.0 and listed_losses.epsilon(Atoms((-1.0,), (1.0,)), 0.0) == 0.0


def test_events_without_a_finite_profile_are_not_listed():
    assert listed_losses.laws(Gaussian(1.0)) is None
    assert listed_losses.laws(compose((DiscretePair((0.6, 0.4), (0.4, 0.6)), 2))) is None
    two = listed_losses.laws(DiscreteGaussian(0.3, distance=3.0, coordinates=2))
    assert two is not None and len(two) == 2
    event = DiscreteGaussian(0.3, distance=3.0, coordinates=2)
    assert delta(event, 20.0).upper == max(listed_losses.delta(law, 20.0) for law in two)
