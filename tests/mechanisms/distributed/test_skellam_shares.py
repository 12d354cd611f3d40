"""Tests of Skellam shares: the noise for a target."""

from __future__ import annotations

import pytest
from attrs import evolve

from hockeystick import accounting
from hockeystick.mechanisms import Skellam
from hockeystick.mechanisms.distributed.skellam_shares import SkellamShares


@pytest.mark.statistical
@pytest.mark.parametrize("survivors", [pytest.param(1, marks=pytest.mark.deep), 30])
def test_calibrated_skellam_shares_meet_their_target(survivors: int) -> None:
    shares = SkellamShares.calibrated(epsilon=1.0, delta=1e-5, survivors=survivors, fall=1)
    assert accounting.delta(shares.event(), 1.0).upper <= 1e-5
    assert accounting.delta(evolve(shares, share_variance=shares.share_variance * 0.999).event(), 1.0).upper > 1e-5


@pytest.mark.statistical
def test_shares_of_little_noise_are_those_of_the_whole() -> None:
    """No more noise meets a target above the loss of a rare number, and the search for it must not run away."""
    shares = SkellamShares.calibrated(epsilon=20.0, delta=1e-6, survivors=4)
    assert shares.variance() == pytest.approx(Skellam.calibrated(epsilon=20.0, delta=1e-6).variance, rel=1e-8)
    assert shares.variance() < 1e-8
