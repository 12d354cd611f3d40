"""Tests of events of OpenDP measurements: they cost at least the map's value, at the right distance and relation."""

from __future__ import annotations

import math
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opendp.extras.numpy import array2_domain

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
from hockeystick.accounting.interop.opendp import ORDERS, _profile, event_of

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
def test_an_event_has_the_cost_of_the_privacy_map(
    measurement: Any, distance: float, event: accounting.PrivacyEvent
) -> None:
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
    """Compares with the closed forms of the noise: OpenDP rounds its maps up, and nothing here rounds them down."""
    assert from_opendp(laplace(scale), distance).pure_epsilon() >= distance / scale * (1 - 1e-12)
    assert from_opendp(gaussian(scale), distance).zcdp_rho() >= 0.5 * (distance / scale) ** 2 * (1 - 1e-12)


def test_a_fixed_delta_is_approximate_dp() -> None:
    fixed = dp.c.make_fix_delta(profile(), 1e-6)
    assert from_opendp(fixed, 1.0) == ApproximateDP(*fixed.map(1.0))
    with pytest.raises(InvalidArgumentError, match="epsilon=inf"):
        event_of("Approximate(MaxDivergence)", (math.inf, 0.1))


@pytest.mark.statistical
@pytest.mark.parametrize("scale", [*(pytest.param(scale, marks=pytest.mark.deep) for scale in (0.3, 1.0)), 20.0])
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
    """Each point is a bound by itself, and a profile is convex, so points above a chord add nothing."""
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
def test_objects_that_are_not_measurements_are_refused(bad: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a measurement"):
        from_opendp(bad, 1.0)


@pytest.mark.parametrize("distance", [-1.0, math.nan, "one"])
def test_a_distance_that_the_map_refuses_is_refused(distance: object) -> None:
    with pytest.raises(InvalidArgumentError, match="distance="):
        from_opendp(laplace(), distance)


# --------------------------------------------------------------------------------------------- neighbouring relations


def counting(metric: Any, size: int | None = None) -> Any:
    """A noisy sum of records; a stand-in where OpenDP has none in the metric."""
    if "Change" in str(metric):
        return SimpleNamespace(map=float, output_measure="MaxDivergence()", input_metric=metric)
    domain = dp.vector_domain(dp.atom_domain(bounds=(0, 10)), size=size)
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
def test_a_replaced_record_is_not_one_insertion(metric: Any, adjacency: Adjacency) -> None:
    """map(1) in SymmetricDistance is only half of the cost of a replacement."""
    with pytest.raises(InvalidArgumentError, match="distance=1: is too small"):
        from_opendp(counting(metric), 1, adjacency=adjacency)


def test_relations_that_a_metric_does_not_know_are_refused() -> None:
    with pytest.raises(UnsupportedAdjacencyError, match="does not allow a record to be added"):
        from_opendp(counting(dp.change_one_distance()), 1, adjacency=ADD)
    with pytest.raises(UnsupportedAdjacencyError, match="does not apply to"):
        from_opendp(counting(dp.symmetric_distance()), 1, adjacency=Adjacency.LOCAL)
    with pytest.raises(UnsupportedAdjacencyError, match="does not apply to add"):
        from_opendp(counting(dp.symmetric_distance()), 1, adjacency="add")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="distance=0: is too small"):
        from_opendp(counting(dp.symmetric_distance()), 0, adjacency=ADD)


# ------------------------------------------------------------------------------------------- domains of one size only


@pytest.mark.parametrize("metric", [dp.symmetric_distance(), dp.insert_delete_distance()], ids=str)
def test_a_domain_of_one_size_has_no_added_record(metric: Any) -> None:
    """OpenDP's map is 0 at distance 1 there, and the same at 3 as at 2."""
    measurement = counting(metric, size=100)
    assert measurement.map(1) == 0.0 and measurement.map(3) == measurement.map(2) == pytest.approx(1.0)
    for distance in (1, 2):
        with pytest.raises(UnsupportedAdjacencyError, match="size=100.*has only data sets of one size"):
            from_opendp(measurement, distance, adjacency=ADD)
    for adjacency in (REPLACE, NULL):
        with pytest.raises(InvalidArgumentError, match="distance=3: is odd") as caught:
            from_opendp(measurement, 3, adjacency=adjacency)
        assert caught.value.remedy == "give 4"
        assert from_opendp(measurement, 2, adjacency=adjacency) == PureDP(measurement.map(2))


def test_the_mean_of_a_fixed_number_costs_a_replacement() -> None:
    """The example of the page: the cost of a record is at distance 2, and not at 1, where the map is almost 0."""
    values = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0), nan=False), size=100)
    mean = (values, dp.symmetric_distance()) >> dp.t.then_mean() >> dp.m.then_laplace(0.05)
    assert mean.map(1) < 1e-12
    with pytest.raises(UnsupportedAdjacencyError):
        from_opendp(mean, 1, adjacency=ADD)
    assert from_opendp(mean, 2, adjacency=REPLACE).pure_epsilon() == pytest.approx(2.0)


def made_by_a_user(domain: Any) -> Any:
    metric, measure = dp.symmetric_distance(), dp.max_divergence()
    return dp.m.make_user_measurement(domain, metric, measure, lambda data: 0.0, float)


@pytest.mark.parametrize(
    ("domain", "adds", "odd"),
    [
        (array2_domain(num_columns=2, T=float), True, True),
        (array2_domain(num_columns=2, T=float, size=7), False, False),
        (dp.user_domain("of whatever size", lambda data: True), False, False),
        (dp.vector_domain(dp.user_domain("whatever", lambda data: True)), True, True),
        (dp.vector_domain(dp.user_domain("whatever", lambda data: True), size=7), False, False),
    ],
    ids=str,
)
def test_a_domain_says_whether_its_size_is_fixed_or_counts_as_fixed(domain: Any, adds: bool, odd: bool) -> None:
    measurement = made_by_a_user(domain)
    if adds:
        assert from_opendp(measurement, 1, adjacency=ADD) == PureDP(1.0)
    else:
        with pytest.raises(UnsupportedAdjacencyError, match="input domain"):
            from_opendp(measurement, 1, adjacency=ADD)
    assert from_opendp(measurement, 2, adjacency=REPLACE) == PureDP(2.0)
    if odd:
        assert from_opendp(measurement, 3, adjacency=REPLACE) == PureDP(3.0)
    else:
        with pytest.raises(InvalidArgumentError, match="is odd"):
            from_opendp(measurement, 3, adjacency=REPLACE)


def test_records_counted_otherwise_are_refused() -> None:
    for metric in ("L01InfDistance(SymmetricDistance())", "my SymmetricDistance", "FrameDistance(L0PInf(ChangeOne))"):
        with pytest.raises(UnsupportedAdjacencyError, match="in an unsupported form"):
            from_opendp(
                SimpleNamespace(map=float, output_measure="MaxDivergence", input_metric=metric), 1, adjacency=ADD
            )


# ---------------------------------------------------------------------------------------------------------- frames


class Bound:
    """As OpenDP's of Polars."""

    def __init__(self, by: tuple[str, ...] = (), per_group: int | None = None, num_groups: int | None = None) -> None:
        self.by, self.per_group, self.num_groups = by, per_group, num_groups


class Frames:
    """As OpenDP's domain of frames: what is known of groups is known of coarser ones, such as the whole frame."""

    type = "LazyFrameDomain"

    def __init__(self, margins: str = "", known: str | None = None) -> None:
        self.margins, self.known = margins, known

    def __str__(self) -> str:
        return f"FrameDomain(g: str; margins=[{self.margins}])"

    def get_margin(self, by: list[str]) -> Any:
        assert by == [] and self.margins
        return SimpleNamespace(invariant=self.known)


def framed(metric: str = "Symmetric", **domain: Any) -> Any:
    return SimpleNamespace(
        map=lambda bounds: float(min(bound.per_group for bound in bounds if not bound.by)),
        output_measure="MaxDivergence",
        input_metric=f"FrameDistance({metric}Distance())",
        input_domain=Frames(**domain),
    )


WHOLE = Bound(per_group=2)


@pytest.mark.parametrize("metric", ["Symmetric", "InsertDelete"])
@pytest.mark.parametrize(
    ("bounds", "records"),
    [
        ([Bound(per_group=1)], 1),
        ([WHOLE], 2),
        ([Bound(per_group=3)], 3),
        ([Bound(per_group=2, num_groups=1)], 2),
        ([WHOLE, Bound(("g",), 2, 2)], 2),
        ([WHOLE, Bound(("g",), 1, 2)], 1),  # replaced in its own group: there, too, it is two records
        ([WHOLE, Bound(("g",), None, 1)], 1),  # replaced in another group: these are two
        ([WHOLE, Bound(("g",), 0, 2)], 0),
        ([Bound(per_group=2, num_groups=0)], 0),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_each_bound_of_a_frame_lets_the_move_happen(metric: str, bounds: list[Bound], records: int) -> None:
    for least, adjacency in ((1, ADD), (2, REPLACE), (2, NULL)):
        if records >= least:
            found = from_opendp(framed(metric), bounds, adjacency=adjacency)
            assert found == PureDP(min(b.per_group for b in bounds if not b.by and b.per_group is not None))
        else:
            with pytest.raises(InvalidArgumentError, match="is too small") as caught:
                from_opendp(framed(metric), bounds, adjacency=adjacency)
            assert caught.value.argument == "distance" and f"Bound(per_group={least})" in caught.value.remedy


def test_a_frame_without_a_bound_on_the_whole_is_refused() -> None:
    for bounds in ([], [Bound(("g",), 2, 2)], [Bound(num_groups=1)]):
        measurement = framed()
        measurement.map = lambda bounds: 1.0
        with pytest.raises(InvalidArgumentError, match="is too small"):
            from_opendp(measurement, bounds, adjacency=ADD)


def test_a_distance_that_does_not_count_records_is_refused() -> None:
    """Where a map takes it."""
    measurement = SimpleNamespace(
        map=lambda distance: 0.5,
        output_measure="MaxDivergence",
        input_metric="SymmetricIdDistance",
        input_domain=Frames(),
    )
    for distance in (1.0, "1", [WHOLE], None):
        with pytest.raises(InvalidArgumentError, match="is too small"):
            from_opendp(measurement, distance, adjacency=ADD)
    assert from_opendp(measurement, 1, adjacency=ADD) == PureDP(0.5)


def test_a_column_name_is_not_a_metric() -> None:
    """In ChangeOneIdDistance no identifier is added, for any column name."""
    metric = 'ChangeOneIdDistance { identifier: col("Symmetric") }'
    measurement = SimpleNamespace(map=float, output_measure="MaxDivergence", input_metric=metric)
    with pytest.raises(UnsupportedAdjacencyError, match="does not allow a record to be added"):
        from_opendp(measurement, 1, adjacency=ADD)
    assert from_opendp(measurement, 1, adjacency=REPLACE) == PureDP(1.0)


def test_margins_that_fix_more_than_a_size_are_refused() -> None:
    assert from_opendp(framed(margins="{}"), [Bound(per_group=1)], adjacency=ADD) == PureDP(1.0)
    assert from_opendp(framed(margins="{}", known="keys"), [Bound(per_group=1)], adjacency=ADD) == PureDP(1.0)
    sized = framed(margins="{}", known="lengths")
    with pytest.raises(UnsupportedAdjacencyError, match="only data sets of one size"):
        from_opendp(sized, [Bound(per_group=1)], adjacency=ADD)
    assert from_opendp(sized, [WHOLE], adjacency=REPLACE) == PureDP(2.0)
    with pytest.raises(InvalidArgumentError, match="is odd"):
        from_opendp(sized, [Bound(per_group=3)], adjacency=REPLACE)
    assert from_opendp(framed(margins='{col("g")}'), [Bound(per_group=1)], adjacency=ADD) == PureDP(1.0)
    for margins in ('{col("g")}', '{}, {col("g")}', '{col("; margins=[{}])")}'):
        for known in ("keys", "lengths"):
            for adjacency in (ADD, REPLACE):
                with pytest.raises(UnsupportedAdjacencyError, match=f"assumes that groups' {known}"):
                    from_opendp(framed(margins=margins, known=known), [WHOLE], adjacency=adjacency)


def test_margins_that_an_older_opendp_does_not_report_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A domain of an older OpenDP."""
    monkeypatch.delattr(Frames, "get_margin")
    assert from_opendp(framed(), [Bound(per_group=1)], adjacency=ADD) == PureDP(1.0)
    for margins in ("{}", '{col("g")}'):
        with pytest.raises(UnsupportedAdjacencyError, match="assumes that groups' keys or lengths"):
            from_opendp(framed(margins=margins), [WHOLE], adjacency=REPLACE)


def test_frames_of_opendp_are_read() -> None:
    """The fakes above behave like OpenDP: how a domain prints, the margin of the whole frame, and the bounds of a
    map."""
    polars = pytest.importorskip("polars", reason="polars is not installed")
    wanted = import_module("opendp.mod")._EXPECTED_POLARS_VERSION
    if polars.__version__ != wanted:
        pytest.skip(f"OpenDP reads plans of polars {wanted} alone")
    plan = polars.LazyFrame({"g": ["a", "b"], "x": [1, 2]}).select(polars.col("x").dp.sum((0, 5), scale=5.0))
    columns = [dp.series_domain("g", dp.atom_domain(T=str)), dp.series_domain("x", dp.atom_domain(bounds=(0, 5)))]
    extra = import_module("opendp.extras.polars")
    bound, margin = extra.Bound, extra.Margin
    whole = margin(by=[], max_length=100)

    def made(inner: Any, *margins: Any) -> Any:
        domain = dp.lazyframe_domain(columns)
        for each in margins:
            domain = dp.with_margin(domain, each)
        return dp.m.make_private_lazyframe(domain, dp.frame_distance(inner), dp.max_divergence(), plan)

    for inner in (dp.symmetric_distance(), dp.insert_delete_distance()):
        free = made(inner, whole)
        assert from_opendp(free, [bound(per_group=1)], adjacency=ADD).pure_epsilon() == pytest.approx(1.0)
        assert from_opendp(free, [bound(per_group=2)], adjacency=REPLACE).pure_epsilon() == pytest.approx(2.0)
        for bounds in ([bound(per_group=1)], [bound(per_group=2), bound(by=["g"], per_group=1, num_groups=2)]):
            with pytest.raises(InvalidArgumentError, match="is too small"):
                from_opendp(free, bounds, adjacency=REPLACE)
        sized = made(inner, margin(by=[], max_length=100, invariant="lengths"))
        assert sized.map([bound(per_group=1)]) == 0.0
        with pytest.raises(UnsupportedAdjacencyError, match="only data sets of one size"):
            from_opendp(sized, [bound(per_group=1)], adjacency=ADD)
        assert from_opendp(sized, [bound(per_group=2)], adjacency=REPLACE).pure_epsilon() == pytest.approx(1.0)
        for known in ("keys", "lengths"):
            grouped = made(inner, whole, margin(by=["g"], max_length=9, invariant=known))
            for adjacency in (ADD, REPLACE):
                with pytest.raises(UnsupportedAdjacencyError, match=f"groups' {known}"):
                    from_opendp(grouped, [bound(per_group=2)], adjacency=adjacency)


def test_a_measure_with_one_delta_for_good_is_approximate_dp() -> None:
    assert event_of("FixedSmoothedMaxDivergence()", (0.5, 1e-6)) == ApproximateDP(0.5, 1e-6)
    with pytest.raises(InvalidArgumentError):
        event_of("FixedSmoothedMaxDivergence()", (math.inf, 1e-6))


def test_a_curve_that_never_vanishes_is_its_level() -> None:
    assert accounting.delta(_profile(lambda epsilon: 0.25), 1.0).upper == pytest.approx(0.25, rel=1e-12)
