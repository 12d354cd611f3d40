"""Tests of wide Skellam noise against normal noise: no power or profile above it, and hardly any variance lost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from divergences import shifted_hockey_stick
from laws import skellam
from scipy import special
from spies import spied

import hockeystick as hs
from hockeystick import events, mechanisms
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.events.noise import integer_noise
from hockeystick.accounting.events.noise.integer_noise import Skellam
from hockeystick.accounting.losses import integer_noise_tables, wide_noise


def above(variance: float) -> np.ndarray:
    """P(Z ≥ k), k = 1, 2, …, from Bessel functions of scipy."""
    p = special.ive(np.arange(int(20 * math.sqrt(variance))), variance)
    return np.asarray(np.cumsum(p[::-1])[::-1][1:])


@pytest.mark.parametrize("variance", [1e5, 123456.789, 1e6])
def test_no_power_of_a_unit_shift_is_above_that_of_normal_noise(variance):
    """One missing level (the step of a variance larger by one) would be detected: the steps in the middle are the
    widest."""
    step = wide_noise.normal_step(variance)
    x = -special.ndtri(above(variance)[: step.compared])
    found = np.diff(np.concatenate([-x[:1], x])).max()
    assert 1 / math.sqrt(variance) * (1 + 1e-6 * 1e5 / variance) < found * (1 - 1e-9) < step.mu
    assert step.mu < 1 / math.sqrt(variance - 1.0)


@pytest.mark.parametrize("variance", [1e7, 1e8])
def test_hardly_any_variance_is_lost_where_noise_is_wider(variance):
    mu = wide_noise.normal_step(variance).mu
    assert 1 / math.sqrt(variance - 0.3) < mu < 1 / math.sqrt(variance * (1 - 4e-7))


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.02, 0.1, 0.25])
def test_the_profile_is_at_least_that_of_every_vector(epsilon):
    event = Skellam(1e5, distance=5.0)
    assert len(event.shifts()) > integer_noise._FEW
    found = hs.delta(event, epsilon)
    assert found.method == "gaussian"
    truth = shifted_hockey_stick(skellam(1e5, 6300), 5, epsilon)
    assert truth <= found.upper <= truth * (1 + 3e-3) + 1.001 * wide_noise.normal_bound(1e5, 25, None)[1]
    for vector in event.shifts()[:: 4 if epsilon else 40]:
        lower = hs.delta(event.along(vector), epsilon, bracket=True).lower
        assert lower is not None and lower <= found.upper + 1e-43  # what tables lack
    if found.upper < 1e-40:  # of what is set apart
        return
    at = hs.epsilon(event, found.upper).upper
    assert at == pytest.approx(epsilon, rel=1e-9, abs=1e-12) and (epsilon == 0.0 or at >= epsilon * (1 - 1e-12))


def test_the_mass_beyond_the_steps_is_added():
    event = Skellam(1e5, distance=5.0)
    mu, failure = wide_noise.normal_bound(1e5, 25, None)
    assert mu == pytest.approx(5 * wide_noise.normal_step(1e5).mu)
    reach = wide_noise.normal_step(1e5).compared
    assert 25 * above(1e5)[reach - 6] <= failure <= 1e-40
    assert math.isinf(hs.epsilon(event, failure / 2).upper)
    assert hs.delta(event, 100.0).upper >= failure
    assert wide_noise.normal_bound(1e5, 25, 2)[1] == pytest.approx(failure * 2 / 25)
    assert wide_noise.normal_bound(1e5, 10**8, 1)[1] == 1.0


def test_few_vectors_and_narrow_noise_use_the_exact_profile():
    assert Skellam(1e5, distance=2.0).normal() is None
    assert Skellam(1e5, distance=5.0, coordinates=1).normal() is None
    assert Skellam(99999.0, distance=5.0).normal() is None
    event = Skellam(1e5, distance=3.0)
    assert len(event.shifts()) <= integer_noise._FEW
    assert hs.delta(Skellam(1e5, distance=4.0), 0.05, method="pld").upper > 0.0


@pytest.mark.statistical
def test_the_noise_of_many_vectors_is_calibrated_by_one_closed_form(monkeypatch):
    """31 vectors, each with a table and a grid of its own, took up to a minute."""
    asked = spied(monkeypatch, best_bound, "_methods")
    monkeypatch.setattr(integer_noise, "_shifted", None)  # no vector is looked at
    for epsilon, delta in ((0.0015, 1e-3), (0.005, 1e-12)):
        asked.clear()
        found = mechanisms.Skellam.calibrated(epsilon=epsilon, delta=delta, sensitivity=5.6)
        assert len(asked) <= 60
        assert hs.delta(found.event(), epsilon).upper <= delta and hs.epsilon(found.event(), delta).upper <= epsilon
        less = mechanisms.Skellam(found.variance * (1 - 1e-8), sensitivity=5.6).event()
        assert hs.delta(less, epsilon).upper > delta


def test_the_vectors_are_listed_once():
    assert integer_noise_tables.spreads(29, None) is integer_noise_tables.spreads(29, None)
    event = events.Skellam(50.0, distance=5.0)
    integer_noise_tables.spreads.cache_clear()
    for vector in event.shifts():
        event.along(vector)
    assert integer_noise_tables.spreads.cache_info().misses == 1
