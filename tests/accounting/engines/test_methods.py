"""Tests of the methods that bound an event: their base class, and the events that each one applies to."""

from __future__ import annotations

import math

import pytest
from attrs import frozen

from hockeystick.accounting.engines import methods
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.declared import NonPrivate, PureDP
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.noise.gaussian_mixture import MixtureOfGaussians
from hockeystick.accounting.events.sampling.poisson import PoissonSampled


@frozen(eq=False)
class Line(methods.Method):
    """ε = 1 − δ, and back."""

    name = "pure"

    def _epsilon(self, delta: float, upper: bool) -> float:
        return 1.0 - delta

    def _delta(self, epsilon: float, upper: bool) -> float:
        return 1.0 - epsilon


def test_a_failure_is_taken_off_delta_and_added_to_it() -> None:
    plain, failing = Line(0.0), Line(0.25)
    assert plain.epsilon(0.5, True) == 0.5 and plain.delta(0.5, True) == 0.5
    assert 0.75 <= failing.epsilon(0.5, True) < 0.7500001
    assert failing.epsilon(0.1, True) == math.inf
    assert failing.delta(0.5, False) < 0.75 < failing.delta(0.5, True)
    assert failing.delta(0.0, True) == 1.0 and Line(1.0).delta(5.0, True) == 1.0
    assert not failing.doubt(1.0, 1e-6)


@pytest.mark.parametrize(
    ("way", "event", "applies"),
    [
        (methods.Concentrated, Gaussian(1.0), True),
        (methods.Concentrated, NonPrivate(), False),
        (methods.Listed, PureDP(1.0), True),
        (methods.Listed, Gaussian(1.0), False),
        (methods.OwnProfile, Laplace(1.0), True),
        (methods.OwnProfile, compose((Laplace(1.0), 2)), False),
        (methods.LossGrid, Laplace(1.0), True),
        (methods.SharpContour, compose((Laplace(1.0), 2)), False),
        (methods.SharpContour, compose(*(PoissonSampled(0.1, Gaussian(1.0 + k), "removal") for k in range(8))), True),
    ],
)
def test_each_method_applies_to_its_events(way: type, event: PrivacyEvent, applies: bool) -> None:
    assert (way.of(event, 0.0) is not None) == applies  # type: ignore[attr-defined]


def test_compositions_of_two_point_parts_have_a_method() -> None:
    assert methods.TwoPoint.of(compose((PureDP(0.3), 3))) is not None
    assert methods.TwoPoint.of(compose(PureDP(0.3), Gaussian(1.0))) is None


def test_the_profile_of_normal_mixtures_alone_is_exact() -> None:
    mixture = methods.OwnProfile.of(MixtureOfGaussians((1.0, 2.0), (0.5, 0.5), 3.0, "addition"), 0.0)
    laplace = methods.OwnProfile.of(Laplace(1.0), 0.0)
    assert mixture is not None and mixture.exact and laplace is not None and not laplace.exact
