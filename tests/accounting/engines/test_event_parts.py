"""Tests of the decomposition of events for the bounding methods."""

from __future__ import annotations

import math

import pytest

from hockeystick.accounting.engines import event_parts
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.declared import ApproximateDP, Failure, PureDP
from hockeystick.accounting.events.basic.given_curves import GaussianDP
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace


def test_merged_gaussians_cost_at_least_as_much() -> None:
    merged, mu = event_parts.merge_gaussians(compose((Gaussian(2.0), 3), GaussianDP(0.5)))
    assert merged is None and 1.0 <= mu <= 1.0 + 1e-15
    merged, mu = event_parts.merge_gaussians(compose((Gaussian(2.0), 4), Laplace(3.0)))
    assert merged == compose(Gaussian(1.0 / mu), Laplace(3.0)) and mu >= 1.0
    assert event_parts.merge_gaussians(Laplace(3.0)) == (Laplace(3.0), 0.0)


def test_failures_are_set_aside_where_gaussians_alone_are_left() -> None:
    assert event_parts.without_failures(compose(Gaussian(1.0), Failure(1e-9)))[0] is None
    both = compose(Gaussian(1.0), Laplace(2.0), Failure(1e-9))
    assert event_parts.without_failures(both) == event_parts.merge_gaussians(both)
    assert event_parts.failures(compose((Failure(0.25), 3), PureDP(1.0))) == 0.75
    assert event_parts.failures(compose((Failure(0.25), 8), PureDP(1.0))) == 1.0


def test_two_point_parts() -> None:
    event = compose((PureDP(0.5), 2), ApproximateDP(0.1, 1e-6), Failure(1e-9))
    parts = event_parts.two_point_parts(event)
    assert parts is not None and sorted(parts) == [(0.1, 1e-6, 1), (0.5, 0.0, 2)]
    assert event_parts.two_point_parts(compose(PureDP(0.5), Gaussian(1.0))) is None


def test_a_chain_of_one_step_is_that_step() -> None:
    assert event_parts.one_step(chain(compose((chain(Laplace(2.0), 1), 3)), 1)) == compose((Laplace(2.0), 3))
    assert event_parts.one_step(chain(Laplace(2.0), 2)) == chain(Laplace(2.0), 2)
    assert math.isinf(event_parts.one_step(chain(Gaussian(1.0), 1)).pure_epsilon())


@pytest.mark.parametrize("sigma", [0.3, 7.0, 1e5])
def test_the_merged_deviation_is_rounded_up(sigma: float) -> None:
    _, mu = event_parts.merge_gaussians(compose((Gaussian(sigma), 9)))
    assert mu * sigma >= 3.0
