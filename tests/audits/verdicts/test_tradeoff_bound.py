"""The bound on the whole trade-off curve from a verdict's counts: above the truth, below a claim that is too small."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from scipy import stats

from hockeystick.audits import Claim, TradeoffPoint, Verdict
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.verdicts.tradeoff_bound import measured_curve


def gaussian(value, rng, runs):
    return value + rng.normal(size=runs)


def truth(alarms: np.ndarray) -> np.ndarray:
    """The trade-off curve of N(0, 1) against N(1, 1)."""
    return np.asarray(stats.norm.cdf(stats.norm.isf(alarms) - 1.0))


def verdict(seed: int, samples: int = 4000, neighbours: tuple[float, float] = (0.0, 1.0)) -> Verdict:
    return audit(gaussian, claim=Claim(1.0, 0.01), neighbours=neighbours, samples=samples, rng=seed, first_look=False)


def test_the_level_is_that_of_the_counts() -> None:
    """Where a first look has a share of the level, a bound from either look's counts has the look's own level."""
    whole = attrs.evolve(verdict(1), level=0.1)
    share = attrs.evolve(whole, level=0.005)

    wide, narrow = (np.interp(0.2, *curve) for curve in (measured_curve(share), measured_curve(whole)) if curve)
    assert wide > narrow


@pytest.mark.parametrize("neighbours", [(0.0, 1.0), (1.0, 0.0)])
def test_the_bound_lies_above_the_truth_and_near_it(neighbours: tuple[float, float]) -> None:
    # A false alarm has probability 1e-3 at most for each seed; two seeds err together with 1e-6.
    alarms = np.linspace(0.0, 1.0, 101)
    above = []
    for seed in (1, 2):
        found = measured_curve(verdict(seed, 20_000, neighbours))
        assert found is not None
        bound = np.interp(alarms, *found)
        above.append(bool((bound >= truth(alarms) - 1e-12).all()))
        assert (bound - truth(alarms)).max() < 0.12
    assert any(above)


@pytest.mark.statistical
def test_the_confidence_is_kept() -> None:
    # 300 audits at 0.9: more than 60 misses have probability below 1e-6 if each is missed with at most 0.1.
    alarms = np.linspace(0.0, 1.0, 201)
    rng = np.random.default_rng(5)
    misses = 0
    cuts = stats.norm.ppf(np.linspace(0.95, 0.05, 12))  # events fixed beforehand
    plain = verdict(3)
    for _ in range(300):
        zero, one = rng.normal(size=500), rng.normal(1.0, size=500)
        points = [TradeoffPoint((zero >= c).mean(), (one < c).mean(), 0.0, 1.0, 0.0, 1.0) for c in cuts]
        made = attrs.evolve(plain, tradeoff=tuple(points), trials=500, confidence=0.9, level=0.1)
        found = measured_curve(made)
        assert found is not None
        # Where the bound is a chord between events the truth, which is convex, lies below it too.
        misses += bool((np.interp(alarms, *found) < truth(alarms) - 1e-12).any())
    assert stats.binom.sf(60, 300, 0.1) < 1e-6
    assert misses <= 60


def test_a_false_claim_enters_what_is_ruled_out() -> None:
    found = measured_curve(verdict(1, 40_000))
    assert found is not None
    alarms = np.linspace(0.0, 1.0, 101)
    claimed = np.maximum.reduce([np.zeros(101), 1 - math.exp(0.3) * alarms, math.exp(-0.3) * (1 - alarms)])
    assert (claimed > np.interp(alarms, *found)).any()  # (0.3, 0)-DP


def test_a_verdict_without_points_has_no_curve() -> None:
    assert measured_curve(attrs.evolve(verdict(1), tradeoff=())) is None
