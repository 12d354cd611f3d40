"""Tests of bounds on log-ratios: the tails of draws by quadrature, the ages by enumeration, and their arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.lazy import Ball, Box, ConvexLosses, LinearLosses, RegressionLosses, RegularizedWeights
from hockeystick.learners.lazy.convex.log_ratio_bounds import RatioTails, ratio_tails

WEIGHTS = RegularizedWeights.of_replacement(1e-4, regularisation=1e4, lipschitz=1.0)
GIVEN = {
    "domain": Ball(5, 1e3),
    "batch": 2,
    "batches": 1000,
    "fake": 0.01,
    "shadow": 0.02,
    "normaliser": 1e-3,
    "failure": 1e-8,
}


def _tails(**more: object) -> RatioTails:
    return ratio_tails(WEIGHTS, **(GIVEN | more))  # type: ignore[arg-type]


def test_tails_by_their_own_arithmetic() -> None:
    share, little, p, longest = 0.95e-8 / 999, 0.05e-8 / 999, 0.01, 998

    def change(total: float, failure: float) -> float:
        age = min(longest, math.ceil(math.log(0.25 * failure) / math.log1p(-p)) - 1)
        return float(-math.sqrt(2.0) * 1e-4 * special.ndtri(0.25 * failure / total) + age * 2 * 1e-8 / 2)

    first = (1 - p) ** longest
    crude = first + (1 - first) / p
    redraw = 1.0 - (1.0 - p) * math.exp(-1e-3 - change(crude, little / crude))
    total = first + redraw * (1 - first) / p
    found = _tails()
    assert total < 1.3 < crude
    assert found.change == pytest.approx(change(total, share), rel=1e-6)
    assert found.largest == pytest.approx(found.change)
    assert found.per_boundary == pytest.approx(share + little) and found.overall == 0.0
    assert found.grid[-1] == found.change and len(found.grid) == len(found.chances)
    assert _tails(batch=6).largest == pytest.approx(3 * _tails(batch=6).change)


def test_bounds_grow_with_their_parameters() -> None:
    found = _tails()
    adaptive = _tails(adversary="adaptive")
    assert adaptive.change > found.change and (adaptive.per_boundary, adaptive.overall) == (0.0, 1e-8)
    assert adaptive.grid == ()
    rough = _tails(total_variation=1e-15)
    assert (rough.change, rough.per_boundary) == (found.change, found.per_boundary)
    assert rough.overall == pytest.approx(2e-12)
    small = _tails(domain=Ball(5, 1e-3))
    certain = 2 * WEIGHTS.inverse_temperature * 2e-3
    assert (small.per_boundary, small.overall, small.grid) == (0.0, 0.0, ())
    assert small.change == pytest.approx(certain) and small.change >= certain
    middle = _tails(domain=Ball(5, 4.0), total_variation=1e-15)  # sure to be small, and seldom as large as that
    assert middle.change == pytest.approx(2 * WEIGHTS.inverse_temperature * 8.0)
    assert middle.per_boundary == 0.0 and middle.grid and middle.overall == pytest.approx(2e-12)
    often = _tails(normaliser=1.0)  # clipped less, redrawn more: more draws to choose a bad one from
    assert often.change > found.change and often.chances[5] > found.chances[5]
    assert _tails(batches=1).change == pytest.approx(2e3 * 2 * WEIGHTS.inverse_temperature)


# --- the tails of draws ----------------------------------------------------------------------------------------------


def _stream(kind: str, rng: np.random.Generator, rounds: int) -> ConvexLosses:
    rows = rng.uniform(-1.0, 1.0, (rounds, 1))
    if kind == "linear":
        return LinearLosses(rows)
    return RegressionLosses(rows, np.where(rng.random(rounds) < 0.5, -1.0, 1.0), kind)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["linear", "hinge", "logistic"]), st.integers(0, 6), st.booleans())
@settings(max_examples=30)
def test_differences_of_losses_have_normal_tails(seed: int, kind: str, apart: int, steep: bool) -> None:
    """P[beta*|g(x) - g(y)| > t] <= 2*(1 - Phi(...)) for draws from measures some losses apart, by quadrature."""
    rng = np.random.default_rng(seed)
    weights = RegularizedWeights(
        inverse_temperature=10.0 ** rng.uniform(-1, 1), regularisation=10.0 ** rng.uniform(-1, 1), lipschitz=1.0
    )
    losses = _stream(kind, rng, 10)
    if steep:  # the last ones push the measure one way as hard as they may
        losses = LinearLosses(np.where(np.arange(10)[:, None] < 10 - apart, rng.uniform(-1, 1, (10, 1)), 1.0))
    domain = Box((-1.0,), (1.0,))
    x = np.linspace(-1.0, 1.0, 301)[:, None]

    def law(seen: int) -> FloatArray:
        log = -weights.measure(domain, losses, seen).potential(x)
        mass = np.exp(log - log.max())
        return np.asarray(mass / mass.sum())

    older, newer = law(10 - apart), law(10)
    replaced = [_stream(kind, rng, 1).total(x, 0, 1), _stream(kind, rng, 1).total(x, 0, 1)]
    gap = weights.inverse_temperature * (replaced[0] - replaced[1])
    change = np.abs(gap[:, None] - gap[None, :])
    mu = weights.replacement_mu
    for t in np.linspace(0.15, 0.9, 4) * change.max():
        exact = float(older @ (change > t) @ newer)
        beyond = max(0.0, t - 0.5 * apart * mu**2) / (math.sqrt(2.0) * mu)
        assert exact <= 2.0 * special.ndtr(-beyond) * (1 + 2e-2) + 1e-12


def test_draws_of_shifted_measures_can_be_coupled_closely() -> None:
    """On the line the best coupling matches quantiles: they differ by at most G/m, in the far tails too."""
    rng = np.random.default_rng(1)
    x = np.linspace(-1.0, 1.0, 40_001)[:, None]
    for kind in ("linear", "hinge", "logistic"):
        losses = _stream(kind, rng, 12)
        weights = RegularizedWeights(inverse_temperature=3.0, regularisation=1.5, lipschitz=1.0)
        quantiles = []
        for seen in (7, 12):
            log = -weights.measure(Box((-1.0,), (1.0,)), losses, seen).potential(x)
            mass = np.exp(log - log.max())
            quantiles.append(np.interp(np.linspace(1e-9, 1 - 1e-9, 2001), np.cumsum(mass) / mass.sum(), x[:, 0]))
        assert np.abs(quantiles[0] - quantiles[1]).max() <= 5 * 3.0 / (2 * 3.0 * 1.5) + 1e-4


# --- ages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.05, 0.4])
def test_the_probability_of_an_old_draw_is_bounded(p: float) -> None:
    """The bound on where x was drawn, against a chain whose redraws depend on x as badly as they may.

    Two values: one is kept with probability 1 - p, the other with as little as is allowed. The weight of a value at a
    boundary is at most W times its chance in a draw.
    """
    n, normaliser = 40, 0.3
    learner = {"batches": n + 1, "fake": p, "shadow": 0.5, "normaliser": normaliser, "batch": 1}
    found = _tails(**learner)
    redraw = 1.0 - (1.0 - p) * math.exp(-normaliser - found.largest)
    first = (1.0 - p) ** (n - 1)
    total = first + redraw * ((1.0 - first) / p if p else n - 1)
    for rare in (1e-3, 0.1, 0.5):
        sticky, other = rare, 1.0 - rare
        for _ in range(n - 1):
            moved = sticky * p + other * redraw
            sticky, other = sticky * (1 - p) + rare * moved, other * (1 - redraw) + (1 - rare) * moved
        assert rare < sticky <= total * rare
    # chances[0] is at most 2W*(1 - Phi(0)) and far out W times the normal tail, both ways, at little drift
    u = (found.grid[11] / (math.sqrt(2.0) * 1e-4), found.grid[12] / (math.sqrt(2.0) * 1e-4))
    mean = float(np.mean(2.0 * special.ndtr(-np.linspace(*u, 50))))
    assert total * mean <= found.chances[12] <= 1.3 * total * mean
