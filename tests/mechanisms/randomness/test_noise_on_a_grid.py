"""Tests of real-valued mechanisms released on a grid: the noise is raised exactly enough."""

import math

import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laws import discrete_laplace
from mpmath import mp
from scipy import stats
from scored import ReleasedAtOnce

from hockeystick.accounting import HockeystickError, InvalidArgumentError, NumericalError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import Gaussian, Laplace, SimulationNoise
from hockeystick.mechanisms.randomness import noise_on_a_grid

CONFIDENCE = 1 - 1e-6


def profile(p, q, epsilons):
    return np.array([hockey_stick(p, q, e) for e in epsilons])


def shifted(law, by):
    return np.concatenate([law, np.zeros(by)]), np.concatenate([np.zeros(by), law])


@pytest.mark.parametrize("t", [0.3, 1.0, 2.5, 8.0])
@pytest.mark.parametrize("distance", [1, 2, 5])
def test_raised_laplace_noise_covers_discrete_noise_tightly(t, distance):
    p, q = shifted(discrete_laplace(t, int(60 * t) + 60), distance)
    epsilons = np.linspace(0.0, distance / t, 400)
    exact = profile(p, q, epsilons)
    raised = distance / t + 2 * math.log(math.cosh(1 / (2 * t)))
    assert (exact <= -np.expm1(np.minimum(0.0, (epsilons - raised) / 2)) + 1e-13).all()
    assert raised <= distance / t + 1 / (4 * t * t)
    # Without the raise it is not covered; and half a raise would not do.
    half = distance / t + math.log(math.cosh(1 / (2 * t)))
    assert (exact > -np.expm1(np.minimum(0.0, (epsilons - half) / 2)) + 1e-9).any()


@pytest.mark.parametrize("t", [0.7, 2.0])
@pytest.mark.parametrize("distances", [(1, 1), (1, 2), (1, 1, 1)])
def test_raised_laplace_noise_covers_noise_in_several_entries(t, distances):
    losses, masses = np.zeros(1), np.ones(1)
    for distance in distances:
        p, q = shifted(discrete_laplace(t, int(45 * t) + 45), distance)
        one = np.unique(np.round((np.arange(distance + 1) * 2 - distance) / t, 12))
        loss = np.where((p > 0) & (q > 0), np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300)), math.inf)
        mass = np.array([p[np.abs(loss - x) < 1e-9].sum() for x in one])
        losses, masses = np.add.outer(losses, one).ravel(), np.multiply.outer(masses, mass).ravel()
    raised = sum(distances) / t + len(distances) / (4 * t * t)
    for eps in np.linspace(0, sum(distances) / t, 150):
        exact = float(masses @ np.maximum(0.0, -np.expm1(np.minimum(0.0, eps - losses))))
        assert exact <= -math.expm1(min(0.0, (eps - raised) / 2)) + 1e-9


@given(scale=st.floats(1e-6, 1e6), sensitivity=st.floats(1e-6, 1e6), entries=st.integers(1, 10**6))
def test_the_scale_of_a_laplace_release(scale, sensitivity, entries):
    step = noise_on_a_grid.laplace_grid(scale, sensitivity, entries)
    t = noise_on_a_grid.laplace_scale(scale, sensitivity, step, entries)
    with mp.workdps(40):
        distance = mp.mpf(sensitivity) / mp.mpf(step) + entries
        assert distance / mp.mpf(t) + mp.mpf(entries) / (4 * mp.mpf(t) ** 2) <= mp.mpf(sensitivity) / mp.mpf(scale)
    assert 1 <= t * step / scale <= 1 + 2.0**-14


@given(sigma=st.floats(1e-6, 1e6), sensitivity=st.floats(1e-4, 1e4), entries=st.integers(1, 10**6))
def test_the_deviation_of_a_gaussian_release(sigma, sensitivity, entries):
    assume(entries <= 1e13 * sensitivity / sigma)
    step = noise_on_a_grid.gaussian_grid(sigma, sensitivity, entries)
    found = noise_on_a_grid.gaussian_scale(sigma, sensitivity, step, entries)
    assert found >= 2**20
    with mp.workdps(40):
        distance = mp.mpf(sensitivity) / mp.mpf(step) + mp.sqrt(entries)
        real = mp.sqrt(mp.mpf(found) ** 2 - mp.mpf(1) / 12)
        assert distance / real * (1 + mp.mpf(2) ** -21) <= mp.mpf(sensitivity) / mp.mpf(sigma)
    assert 1 <= found * step / sigma <= 1 + 2.0**-18


@pytest.mark.parametrize("sigma", [1.5, 2.0, 4.0, 16.0])
def test_discrete_gaussian_masses_beside_rounded_normal_ones(sigma):
    """The factor e^η of the module's docstring, out to 40 deviations."""
    with mp.workdps(60):
        s = mp.sqrt(mp.mpf(sigma) ** 2 - mp.mpf(1) / 12)
        reach = int(40 * sigma)
        total = mp.fsum(mp.exp(-(mp.mpf(k) ** 2) / (2 * mp.mpf(sigma) ** 2)) for k in range(-reach, reach + 1))
        for k in sorted({reach * i // 50 for i in range(51)}):
            rounded = (mp.erfc((k - 0.5) / s / mp.sqrt(2)) - mp.erfc((k + 0.5) / s / mp.sqrt(2))) / 2
            eta = abs(mp.log(rounded * total) + mp.mpf(k) ** 2 / (2 * mp.mpf(sigma) ** 2))
            assert eta <= ((k / sigma) ** 4 + 1) / (500 * sigma**4)


@pytest.mark.parametrize("sigma", [4.0, 9.0])
@pytest.mark.parametrize("distance", [1, 7, 20])
def test_a_normal_law_of_less_variance_covers_discrete_gaussian_noise(sigma, distance):
    """On a coarse grid, where there is something to see, with the slack that η asks for there."""
    k = np.arange(-int(38 * sigma), int(38 * sigma) + 1)
    law = np.exp(-(k**2) / (2 * sigma**2))
    p, q = shifted(law / law.sum(), distance)
    s, plain = math.sqrt(sigma**2 - 1 / 12), 0
    for eps in np.linspace(0.0, (distance / s) ** 2 / 2 + 6 * distance / s, 60):
        exact = hockey_stick(p, q, eps)
        z = 1 + eps * s / distance + distance / s
        eta = (z**4 + 1) / (500 * sigma**4)
        covered = math.exp(eta + gaussian_profile.log_delta(distance / s, max(0.0, eps - 2 * eta)))
        assert exact <= covered * (1 + 1e-9) + 1e-14
        plain += exact > math.exp(gaussian_profile.log_delta(distance / sigma, eps)) * (1 + 1e-9)
    assert plain  # a normal law of the same deviation does not cover it


@given(x=st.floats(-1e9, 1e9), y=st.floats(-1e9, 1e9), power=st.integers(-20, 20))
def test_rounding_moves_values_apart_by_less_than_a_step(x, y, power):
    step = 2.0**power
    a, b = noise_on_a_grid.steps(np.array([x, y]), step).tolist()
    assert abs(a - b) <= abs(x - y) / step + 1


def test_values_beyond_the_grid_are_clipped():
    far = noise_on_a_grid.steps(np.array([1e300, -1e300, 2.0**70]), 2.0**-10)
    assert far.tolist() == [2**61, -(2**61), 2**61]
    assert math.isfinite(Laplace(1.0).release(1e300, noise=SimulationNoise(1)))


@pytest.mark.parametrize("grid", [0.3, 3.0, 0.0, -1.0, math.nan, math.inf, True, "1"])
@pytest.mark.parametrize("mechanism", [Laplace, Gaussian])
def test_a_grid_is_a_power_of_two(mechanism, grid):
    with pytest.raises(InvalidArgumentError, match="grid"):
        mechanism(1.0, grid=grid)


def test_a_gaussian_grid_is_fine():
    with pytest.raises(InvalidArgumentError, match=r"grid=.*DiscreteGaussian"):
        Gaussian(1.0, grid=0.25).release(3.0, noise=SimulationNoise(1))
    with pytest.raises(NumericalError, match="entries"):
        noise_on_a_grid.gaussian_scale(1e14, 1.0, 2.0**-30, 10)


# What comes out ----------------------------------------

MECHANISMS = [Laplace(2.0), Laplace(0.3, sensitivity=5.0), Gaussian(2.0), Gaussian(1e3, sensitivity=40.0)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("secure", [True, False], ids=["secure", "simulated"])
def test_releases_follow_the_law(mechanism, secure):
    """Kolmogorov–Smirnov at 1e-6; the grid and the raise are far below what it can see."""
    drawn = mechanism.release(np.full(20_000, 7.25), noise=None if secure else SimulationNoise(5))
    law = stats.laplace(7.25, mechanism.scale) if isinstance(mechanism, Laplace) else stats.norm(7.25, mechanism.sigma)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-6


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_release_lies_on_its_grid(mechanism):
    step = mechanism._default_grid(50)
    drawn = mechanism.release(np.linspace(-3, 3, 50), noise=SimulationNoise(5))
    assert (drawn / step == np.rint(drawn / step)).all()
    assert isinstance(mechanism.release(1, noise=SimulationNoise(5)), float)
    assert mechanism.release([[1.0, 2.0]], noise=SimulationNoise(5)).shape == (1, 2)


def test_rounding_on_a_coarse_grid_costs_noise_for_every_type_of_value():
    whole, real = (Laplace(30.0, grid=1.0).release(np.zeros(4000, t), noise=SimulationNoise(5)) for t in (int, float))
    assert (whole == real).all() and (whole == np.rint(whole)).all()
    assert noise_on_a_grid.laplace_scale(30.0, 1.0, 1.0, 1) > 60
    assert Laplace(1.0).release(np.zeros((0, 3)), noise=SimulationNoise(5)).shape == (0, 3)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.3])
@pytest.mark.parametrize("mechanism", [Laplace(1.0, grid=2.0**-20), Laplace(2.0, sensitivity=0.7, grid=2.0**-20)])
def test_the_bits_of_a_release_do_not_leak(mechanism, value):
    found = audit(
        ReleasedAtOnce(mechanism),
        claim=Claim.curve(mechanism.event(), 1e-6),
        neighbours=(value, value + mechanism.sensitivity),
        samples=20_000,
        rng=3,
        confidence=CONFIDENCE,
        bits=True,
    )
    assert not found.refuted, found


def textbook(value, rng, runs):
    return value + rng.laplace(size=runs)


def inverse_transform(value, rng, runs):
    u = rng.random(runs) - 0.5
    return value - np.sign(u) * np.log1p(-2 * np.abs(u))


def few_bits(value, rng, runs):
    """From 24-bit uniforms, as in single precision: the outputs lie on a lattice that moves with the value."""
    u = (rng.integers(1, 2**24, runs)) / 2.0**24 - 0.5
    return value - np.sign(u) * np.log1p(-2 * np.abs(u))


@pytest.mark.parametrize("sampler", [textbook, inverse_transform, few_bits], ids=lambda f: f.__name__)
def test_the_bits_of_textbook_samplers_leak(sampler):
    """1-DP on paper, with sensitivity 1 and scale 1; refuted within 20,000 draws."""
    found = audit(
        sampler,
        claim=Claim(epsilon=1.0, delta=1e-6),
        neighbours=(0.0, 1.0),
        samples=20_000,
        rng=3,
        confidence=CONFIDENCE,
        bits=True,
    )
    assert found.refuted, found


@settings(max_examples=30)
@given(value=st.one_of(st.just(math.nan), st.just(math.inf), st.just("x"), st.just(None), st.just([1.0, math.nan])))
def test_bad_values_are_refused(value):
    for mechanism in MECHANISMS:
        with pytest.raises(HockeystickError):
            mechanism.release(value, noise=SimulationNoise(1))
