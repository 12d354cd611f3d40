"""Tests of Pólya shares: the cost of dropout, and the noise for a target."""

from __future__ import annotations

import pytest
from attrs import evolve

from hockeystick import accounting
from hockeystick.accounting import UnsupportedEventError
from hockeystick.mechanisms.distributed.polya_shares import PolyaShares


def test_dropout_of_polya_shares_costs_far_more_than_their_number_suggests() -> None:
    # Checked twice by others: of 80 % of the shares, ε = 0.1 becomes 0.212 and ε = 1 becomes 1.212.
    for epsilon, found in ((0.1, 0.212), (1.0, 1.212)):
        shares = PolyaShares(1 / epsilon, survivors=8, whole=10)
        assert shares.event().pure_epsilon() == pytest.approx(found, abs=5e-4)
    for event in (PolyaShares(2.0, survivors=10).event(), PolyaShares(2.0, survivors=49, whole=49).event()):
        assert event == accounting.DiscreteLaplace(2.0)


def test_incomplete_polya_shares_refuse_longer_changes() -> None:
    shares = PolyaShares(2.0, survivors=4, whole=5, fall=1)
    with pytest.raises(UnsupportedEventError, match="log-concave"):
        shares.event().at(2)
    with pytest.raises(UnsupportedEventError, match="log-concave"):
        evolve(shares, rise=2).event()
    with pytest.raises(UnsupportedEventError, match="too wide"):
        evolve(shares, scale=1000.0).event()


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2.0])
@pytest.mark.parametrize("survivors", [1, 9])
def test_calibrated_polya_shares_meet_their_target(epsilon: float, survivors: int) -> None:
    shares = PolyaShares.calibrated(epsilon=epsilon, survivors=survivors, rise=2, fall=1)
    assert shares.event().pure_epsilon() <= epsilon
    assert shares.scale == pytest.approx(3 / epsilon, rel=1e-14)
