"""Tests of the KL projection: against solvers, by its optimality conditions, and compared with capping alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from divergences import kkt_residual, relative_entropy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.measures.projection import (
    _by_sorting,
    _multipliers,
    approximate_kl_projection,
    kl_projection,
)

seeds = st.integers(0, 2**32 - 1)


def instance(seed: int, size: int, rows: int = 1) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights (rows, size), base masses and sigma, of very different magnitudes."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(rng.choice([0.05, 0.3, 3.0]), size=(rows, size)) + 1e-300
    masses = rng.gamma(2.0, size=size)
    return weights, masses / masses.sum(), float(rng.uniform(0.05, 1.0))


@pytest.mark.parametrize("seed", range(8))
def test_a_convex_solver_agrees_to_1e_8(seed: int) -> None:
    weights, masses, sigma = instance(seed, 5)
    law, caps = np.maximum(weights[0] / weights[0].sum(), 1e-6), masses / sigma
    law /= law.sum()
    found = kl_projection(law, caps)
    solved = optimize.minimize(
        lambda z: float(np.sum(z * np.log(np.maximum(z, 1e-300) / law))),
        masses,
        jac=lambda z: np.log(np.maximum(z, 1e-300) / law) + 1.0,
        bounds=[(0.0, cap) for cap in caps],
        constraints={"type": "eq", "fun": lambda z: z.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-16, "maxiter": 500},
    )
    assert abs(float(relative_entropy(found, law)) - float(solved.fun)) < 1e-8
    c = optimize.brentq(lambda c: np.minimum(c * law, caps).sum() - 1.0, 0.0, 2.0 / law.min(), xtol=1e-15)
    np.testing.assert_allclose(found, np.minimum(c * law, caps), atol=1e-8)


@pytest.mark.statistical
@given(seeds, st.integers(1, 40), st.integers(1, 4))
def test_rows_are_optimal_and_projected_one_by_one(seed: int, size: int, rows: int) -> None:
    weights, masses, sigma = instance(seed, size, rows)
    found = kl_projection(weights, masses / sigma)
    assert kkt_residual(weights, masses / sigma, found) < 1e-10
    assert (found <= masses / sigma).all()
    for row, alone in zip(weights, found, strict=True):
        np.testing.assert_allclose(kl_projection(row, masses / sigma), alone, atol=1e-12)
    np.testing.assert_allclose(kl_projection(found, masses / sigma), found, atol=1e-12)


@pytest.mark.statistical
@given(seeds, st.integers(2, 30))
def test_sorting_finds_the_same_multiplier(seed: int, size: int) -> None:
    weights, masses, sigma = instance(seed, size, 3)
    law = weights / weights.sum(axis=1, keepdims=True)
    law = law[(law > masses / sigma).any(axis=1)]
    if len(law) and sigma < 0.99:
        np.testing.assert_allclose(_by_sorting(law, masses / sigma), _multipliers(law, masses / sigma), rtol=1e-8)


def test_steep_laws_that_cap_one_entry_a_step() -> None:
    """Ratios fall by ten from entry to entry, so that Newton's method gives up and rows are sorted."""
    weights, caps = 10.0 ** -np.arange(120.0)[None] * np.ones((2, 1)), np.full(120, 1.0 / 110.0)
    found = kl_projection(weights, caps)
    assert kkt_residual(weights, caps, found) < 1e-10
    assert (found[:, :109] == caps[0]).all()
    assert (found[:, 115] < caps[0]).all()


@settings(max_examples=50)
@given(seeds, st.integers(2, 30))
def test_pythagoras(seed: int, size: int) -> None:
    """KL(p || w) >= KL(p || z) + KL(z || w) for every smooth p: so the projection never moves away from the data."""
    weights, masses, sigma = instance(seed, size, 2)
    law = weights[0] / weights[0].sum()
    z = kl_projection(law, masses / sigma)
    smooth = kl_projection(weights[1], masses / sigma)
    slack = relative_entropy(smooth, law) - relative_entropy(smooth, z) - relative_entropy(z, law)
    assert slack > -1e-9 * (1.0 + float(relative_entropy(smooth, law)))


def test_a_projection_by_hand() -> None:
    """The mass above the cap 0.4 goes to the other cells in proportion, and lifts the second to the cap as well."""
    np.testing.assert_allclose(kl_projection(np.array([0.7, 0.2, 0.1]), np.full(3, 0.4)), [0.4, 0.4, 0.2], atol=1e-15)


@given(seeds, st.integers(1, 30), st.sampled_from([1e-9, 1e-3, 0.3]))
def test_the_approximate_projection_is_nearly_smooth(seed: int, size: int, tolerance: float) -> None:
    weights, masses, sigma = instance(seed, size, 2)
    caps = masses / sigma
    found = approximate_kl_projection(weights, caps, tolerance=tolerance)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert (found * (1.0 - tolerance) <= caps * (1.0 + 1e-11)).all()
    exact = kl_projection(weights, caps)
    assert (np.abs(found - exact).sum(axis=1) <= 2.0 * tolerance + 1e-9).all()


def test_a_law_within_the_caps_stays_and_full_caps_are_the_answer() -> None:
    law, masses = np.array([0.5, 0.3, 0.2]), np.array([0.4, 0.3, 0.3])
    assert (kl_projection(law, masses / 0.5) == law).all()
    np.testing.assert_allclose(kl_projection(law, masses), masses, atol=1e-15)
    assert (kl_projection([1.0, 1.0, 0.0], [0.7, 0.3, 1.0]) == [0.7, 0.3, 0.0]).all()


def test_many_entries() -> None:
    weights, masses, sigma = instance(3, 300_000)
    found = kl_projection(weights, masses / sigma)
    assert kkt_residual(weights, masses / sigma, found) < 1e-10


@pytest.mark.parametrize(
    ("weights", "caps"),
    [
        ([0.5, 0.5], [0.3, 0.3]),
        ([1.0, 0.0], [0.5, 0.6]),
        ([0.5, math.nan], [1.0, 1.0]),
        ([0.5, 0.5], [1.0, -1.0]),
        ([0.0, 0.0], [1.0, 1.0]),
        ([0.5, 0.5, 0.0], [1.0, 1.0]),
        ([True, False], [1.0, 1.0]),
    ],
)
def test_what_has_no_projection_is_refused(weights: list[float], caps: list[float]) -> None:
    with pytest.raises(InvalidArgumentError):
        kl_projection(weights, caps)


def test_a_bad_tolerance_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="tolerance"):
        approximate_kl_projection([0.5, 0.5], [1.0, 1.0], tolerance=0.0)
