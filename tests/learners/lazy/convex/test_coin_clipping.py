"""Tests of the clipping of coins against normal laws of log-ratios, and of the least normaliser."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from hockeystick.learners.lazy.convex.coin_clipping import CoinClipping


def _excess(deviation: float, mean: float, c: float) -> float:
    """E[(e^(r - c) - 1)_+] of a normal log-ratio r whose e^r has the mean e^(mean + deviation^2/2)."""
    above = stats.norm.cdf(deviation - (c - mean) / deviation) * math.exp(deviation**2 / 2 - c + mean)
    return float(above - stats.norm.sf((c - mean) / deviation))


@pytest.mark.parametrize(("deviation", "normaliser"), [(0.2, 0.1), (0.6, 0.5), (0.6, 2.0)])
def test_clip_bound_of_one_boundary(deviation: float, normaliser: float) -> None:
    """Linear losses on a wide domain: r is normal with the largest deviation there can be, so the bound is close."""
    clipping = CoinClipping(largest=10.0, deviation=deviation, batches=2, fake=0.1, again=0.1)
    exact = 0.9 * _excess(deviation, 0.0, normaliser)
    assert exact <= clipping.bound(normaliser) <= 1.001 * exact


def test_clip_bound_counts_how_far_the_shadow_has_fallen_behind() -> None:
    """All losses push one way and the shadow stays where it was: at the last boundary r is normal, its mean known."""
    spread = 0.5
    clipping = CoinClipping(largest=60.0, deviation=spread, batches=9, fake=0.1, again=0.0)
    for c in (0.1, 2.0, 4.0):
        exact = 0.9 * _excess(spread, 0.5 * 7 * spread**2, c)
        assert min(1.0, 7.9 * exact) <= clipping.bound(c) <= min(1.0, 20.0 * exact)


@pytest.mark.parametrize("tail", [1e-2, 1e-6])
def test_normaliser_is_the_least(tail: float) -> None:
    clipping = CoinClipping(largest=5.0, deviation=0.1, batches=100, fake=0.1, again=0.2)
    c = clipping.least_normaliser(tail)
    assert clipping.bound(c) <= tail < clipping.bound(c * (1 - 1e-6))


def test_nothing_is_clipped_at_the_largest_ratio_or_without_a_boundary() -> None:
    clipping = CoinClipping(largest=5.0, deviation=0.1, batches=100, fake=0.1, again=0.2)
    assert clipping.bound(5.0) == 0.0 < clipping.bound(0.0)
    assert CoinClipping(largest=5.0, deviation=0.1, batches=1, fake=0.1, again=0.2).bound(0.0) == 0.0
