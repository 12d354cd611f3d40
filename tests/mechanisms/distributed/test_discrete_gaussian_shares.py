"""Tests of discrete Gaussian shares: the noise for a target, the factor, and the law of a sum."""

from __future__ import annotations

import math

import pytest
from attrs import evolve

from hockeystick import accounting
from hockeystick.mechanisms.distributed.discrete_gaussian_shares import DiscreteGaussianShares


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("survivors", "rise", "fall"),
    [(1, 1, 0), (7, 3, 2), (200, 1, 1)]
    + [pytest.param(*case, marks=pytest.mark.deep) for case in ((1, 1, 1), (1, 3, 2), (7, 1, 0), (7, 1, 1))]
    + [pytest.param(200, *moves, marks=pytest.mark.deep) for moves in ((1, 0), (3, 2))],
)
def test_calibrated_gaussian_shares_meet_their_target(survivors: int, rise: int, fall: int) -> None:
    shares = DiscreteGaussianShares.calibrated(epsilon=1.0, delta=1e-5, survivors=survivors, rise=rise, fall=fall)
    assert accounting.delta(shares.event(), 1.0).upper <= 1e-5
    assert accounting.delta(evolve(shares, share_sigma=shares.share_sigma * 0.999).event(), 1.0).upper > 1e-5
    assert shares.share_sigma >= 1.49
    normal = accounting.calibrate(accounting.Gaussian, accounting.EpsilonDelta(1.0, 1e-5)).value * math.hypot(
        rise, fall
    )
    assert math.sqrt(shares.variance()) / shares.factor == pytest.approx(normal, rel=5e-3)


@pytest.mark.statistical
def test_a_factor_must_be_in_the_shifts() -> None:
    """With a factor of 4 and the shifts left as they were, an ε of 1 would be stated as 0.22."""
    shares = DiscreteGaussianShares.calibrated(epsilon=1.0, delta=1e-5, survivors=60)
    assert shares.factor == 4
    forgotten = accounting.epsilon(evolve(shares, factor=1).event(), 1e-5).upper
    assert forgotten == pytest.approx(0.22, abs=0.01)
    assert accounting.epsilon(shares.event(), 1e-5).upper == pytest.approx(1.0, rel=1e-6)


def test_a_sum_of_small_discrete_gaussian_shares_is_not_a_discrete_gaussian() -> None:
    for share_sigma, survivors, off in ((1.5, 20, 1e-6), (0.3, 200, 0.4)):
        shares = DiscreteGaussianShares(share_sigma, survivors=survivors)
        like = accounting.epsilon(accounting.DiscreteGaussian(math.sqrt(shares.variance())), 1e-5).upper
        found = accounting.epsilon(shares.event(), 1e-5).upper
        assert abs(found / like - 1) < off
        assert off < 1e-5 or abs(found / like - 1) > off / 2
