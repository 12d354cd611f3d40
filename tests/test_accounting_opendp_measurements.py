"""Events of OpenDP measurements: what their maps say, never less, at the right distance and for the right relation."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import (
    ZCDP,
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    Failure,
    Gaussian,
    InvalidArgumentError,
    PrivacyProfile,
    PureDP,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    compose,
    delta,
    epsilon,
    from_opendp,
)
from hockeystick.accounting.opendp_measurements import ORDERS, _profile, event_of

ADD, REPLACE, NULL = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL

dp.enable_features("contrib", "honest-but-curious")


def number() -> tuple[Any, Any]:
    return dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)


def laplace(scale: float = 2.0) -> Any:
    return dp.m.make_laplace(*number(), scale=scale)


def gaussian(scale: float = 1.0) -> Any:
    return dp.m.make_gaussian(*number(), scale=scale)


def profile(scale: float = 1.0) -> Any:
    return dp.c.make_zCDP_to_approxDP(gaussian(scale))


@pytest.mark.parametrize(
    ("measurement", "distance", "event"),
    [
        (laplace(), 1.0, PureDP(0.5)),
        (laplace(), 3, PureDP(1.5)),
        (gaussian(), 1.0, ZCDP(0.5)),
        (gaussian(), 2.0, ZCDP(2.0)),
        (dp.c.make_approximate(gaussian()), 1.0, ZCDP(0.5)),
        (dp.c.make_approximate(laplace()), 1.0, ApproximateDP(0.5, 0.0)),
        (dp.c.make_composition([laplace(), laplace(4.0)]), 1.0, PureDP(0.75)),
        (dp.m.make_randomized_response_bool(0.75), 1, PureDP(math.log(3.0))),
    ],
    ids=str,
)
def test_an_event_is_what_the_map_says(measurement: Any, distance: float, event: accounting.PrivacyEvent) -> None:
    found = from_opendp(measurement, distance)
    assert type(found) is type(event)
    for mine, expected in zip(
        accounting.validate.items("e", vars_of(found)), accounting.validate.items("e", vars_of(event)), strict=True
    ):
        assert mine == pytest.approx(expected, rel=1e-12) and mine >= expected * (1 - 1e-12)


def vars_of(event: Any) -> tuple[float, ...]:
    return tuple(getattr(event, name) for name in ("epsilon", "delta", "rho") if hasattr(event, name))


@settings(max_examples=30)
@given(scale=st.floats(0.05, 50.0), distance=st.floats(0.01, 20.0))
def test_no_event_is_below_the_noise(scale: float, distance: float) -> None:
    """Against the closed forms of the very noise: OpenDP rounds its maps up, and nothing here rounds them down."""
    assert from_opendp(laplace(scale), distance).pure_epsilon() >= distance / scale * (1 - 1e-12)
    assert from_opendp(gaussian(scale), distance).zcdp_rho() >= 0.5 * (distance / scale) ** 2 * (1 - 1e-12)


def test_a_fixed_delta_is_approximate_dp() -> None:
    fixed = dp.c.make_fix_delta(profile(), 1e-6)
    assert from_opendp(fixed, 1.0) == ApproximateDP(*fixed.map(1.0))
    with pytest.raises(InvalidArgumentError, match="epsilon=inf"):
        event_of("Approximate(MaxDivergence)", (math.inf, 0.1))


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_a_profile_lies_between_the_noise_and_the_map(scale: float) -> None:
    """Above the exact profile of the noise, and near the map or below it: that curve is no profile near ε = 0."""
    curve, event, noise = profile(scale).map(1.0), from_opendp(profile(scale), 1.0), Gaussian(scale)
    assert isinstance(event, PrivacyProfile)
    for at in (0.01, 1e-3, 1e-6, 1e-12, 1e-30):
        assert epsilon(noise, at).upper <= epsilon(event, at).upper <= curve.epsilon(at) * 1.01 + 2e-3
    for loss in np.linspace(0.0, 8.0, 17).tolist():
        assert delta(noise, loss).upper * (1 - 1e-12) <= delta(event, loss).upper
        near = curve.delta(max(0.0, loss - 0.01 * loss - 2e-3))  # read down to 1e-60
        assert delta(event, loss).upper <= max(near * (1 + 1e-9), 1e-60)


def test_a_profile_that_is_not_convex_by_rounding_is_one_by_its_corners() -> None:
    """Each point is a bound by itself, and a profile is convex: points above a chord say nothing."""
    rough = SimpleNamespace(delta=lambda e: min(1.0, math.exp(-e) * (1 + 1e-3 * math.sin(1e3 * e))))
    event = event_of("SmoothedMaxDivergence", rough)
    assert isinstance(event, PrivacyProfile) and len(event.epsilons) > 50
    assert all(y <= rough.delta(x) for x, y in zip(event.epsilons, event.deltas, strict=True))
    with pytest.raises(InvalidArgumentError, match="delta=nan"):
        event_of("SmoothedMaxDivergence", SimpleNamespace(delta=lambda e: math.nan))


def test_a_renyi_curve_is_read_at_its_orders() -> None:
    event = event_of("RenyiDivergence", lambda order: 0.5 * order)
    assert event.rdp(np.array(ORDERS)) == pytest.approx(0.5 * np.array(ORDERS))
    assert event.rdp(np.array([300.0])) == [math.inf]


def test_a_failure_is_kept() -> None:
    assert event_of("Approximate(ZeroConcentratedDivergence)", (0.5, 1e-9)) == compose(ZCDP(0.5), Failure(1e-9))


@pytest.mark.parametrize("measure", ["UserDivergence(x)", "Approximate(RenyiDivergence)", "MultiDivergence"])
def test_an_unknown_measure_is_refused_by_its_name(measure: str) -> None:
    with pytest.raises(UnsupportedEventError, match=measure.partition("(")[0]):
        event_of(measure, 1.0)


@pytest.mark.parametrize("bad", [3.0, None, dp.symmetric_distance()])
def test_what_is_no_measurement_is_refused(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is no measurement"):
        from_opendp(bad, 1.0)


@pytest.mark.parametrize("distance", [-1.0, math.nan, "one"])
def test_a_distance_that_the_map_refuses_is_refused(distance: object) -> None:
    with pytest.raises(InvalidArgumentError, match="distance="):
        from_opendp(laplace(), distance)


# --------------------------------------------------------------------------------------------- neighbouring relations


def counting(metric: Any) -> Any:
    """A noisy sum of records; a stand-in where OpenDP has none in the metric."""
    if "Change" in str(metric):
        return SimpleNamespace(map=float, output_measure="MaxDivergence()", input_metric=metric)
    domain = dp.vector_domain(dp.atom_domain(bounds=(0, 10)))
    return (domain, metric) >> dp.t.then_sum() >> dp.m.then_laplace(10.0)


@pytest.mark.parametrize(
    ("metric", "distance", "adjacency", "cost"),
    [
        (dp.symmetric_distance(), 1, ADD, 1.0),
        (dp.symmetric_distance(), 2, REPLACE, 2.0),
        (dp.symmetric_distance(), 2, NULL, 2.0),
        (dp.insert_delete_distance(), 1, ADD, 1.0),
        (dp.change_one_distance(), 1, REPLACE, 1.0),
        (dp.change_one_distance(), 1, NULL, 1.0),
    ],
    ids=str,
)
def test_a_metric_of_records_is_read_under_its_relation(
    metric: Any, distance: int, adjacency: Adjacency, cost: float
) -> None:
    event = from_opendp(counting(metric), distance, adjacency=adjacency)
    graph = AccountantGraph(adjacency=adjacency).source("records").release("sum", event, reads=["records"])
    assert graph.guarantee().epsilon(0.0).upper == pytest.approx(cost, rel=1e-9)
    with pytest.raises(InvalidArgumentError, match="adjacency=None: is needed"):
        from_opendp(counting(metric), distance)


@pytest.mark.parametrize("metric", [dp.symmetric_distance(), dp.insert_delete_distance()])
@pytest.mark.parametrize("adjacency", [REPLACE, NULL])
def test_a_replaced_record_is_no_single_insertion(metric: Any, adjacency: Adjacency) -> None:
    """The trap: map(1) in SymmetricDistance is half of what a replacement costs."""
    with pytest.raises(InvalidArgumentError, match="distance=1: is too small"):
        from_opendp(counting(metric), 1, adjacency=adjacency)


def test_relations_that_a_metric_does_not_know_are_refused() -> None:
    with pytest.raises(UnsupportedAdjacencyError, match="no record is added"):
        from_opendp(counting(dp.change_one_distance()), 1, adjacency=ADD)
    with pytest.raises(UnsupportedAdjacencyError, match="has no move of"):
        from_opendp(counting(dp.symmetric_distance()), 1, adjacency=Adjacency.LOCAL)
    with pytest.raises(UnsupportedAdjacencyError, match="has no move of add"):
        from_opendp(counting(dp.symmetric_distance()), 1, adjacency="add")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="distance=0: is too small"):
        from_opendp(counting(dp.symmetric_distance()), 0, adjacency=ADD)


def test_a_measure_with_one_delta_for_good_is_approximate_dp() -> None:
    assert event_of("FixedSmoothedMaxDivergence()", (0.5, 1e-6)) == ApproximateDP(0.5, 1e-6)
    with pytest.raises(InvalidArgumentError):
        event_of("FixedSmoothedMaxDivergence()", (math.inf, 1e-6))


def test_a_curve_that_never_vanishes_is_its_level() -> None:
    assert accounting.delta(_profile(lambda epsilon: 0.25), 1.0).upper == pytest.approx(0.25, rel=1e-12)
