"""Tests of user-defined event classes: supported queries, refused classes, and classes that would give too small an
ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import attrs
import dp_accounting
import numpy as np
import pytest
from scipy import optimize

import hockeystick as hs
from hockeystick import events
from hockeystick.accounting import (
    METHODS,
    Accountant,
    AccountantGraph,
    Advantage,
    EpsilonDelta,
    FilteredLedger,
    GDPFilter,
    HockeystickError,
    InvalidArgumentError,
    Ledger,
    Odometer,
    PrivacyEvent,
    PureFilter,
    RDPFilter,
    UnsupportedEventError,
    ZCDPFilter,
    calibrate,
    compose,
    delta,
    dominates,
    epsilon,
    parallel,
    refines,
    split_budget,
    to_dp_event,
)
from hockeystick.accounting.engines import best_bound, contour_integral
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.accounting.graph.drawing.svg import to_svg


@attrs.frozen
class Curve(PrivacyEvent):
    """A Rényi curve and nothing else."""

    rho: float = 0.005

    def rdp(self, orders: Any) -> Any:
        return self.rho * orders


class Silent(PrivacyEvent):
    """An event class without any curve."""


class Stretched(Curve):
    """The same class with the method that groups need."""

    def _scaled(self, distance: float) -> PrivacyEvent:
        return events.chain(self, math.ceil(distance))


def graph(event: PrivacyEvent, stretch: float = 1.0) -> AccountantGraph:
    built = AccountantGraph().source("people")
    built = built.transform("twice", reads=["people"], stability={("records", "records"): stretch})
    return built.release("it", event, reads=["twice"], count=3)


NEEDS_SCALED: dict[str, Callable[[PrivacyEvent], object]] = {
    "at": lambda event: event.at(2),
    "at a half": lambda event: event.at(0.5),
    "composed": lambda event: compose((event, 3)).at(2),
    "parallel": lambda event: parallel(event, events.PureDP(1.0)).at(0.5),
    "replaced": lambda event: event.replaced(1, 1),
    "group": lambda event: graph(event).guarantee(group=2),
    "transform": lambda event: graph(event, 2.0).guarantee(),
    "under": lambda event: graph(event).guarantee(under=hs.Adjacency.REPLACE_ONE),
    "sampled group": lambda event: events.PoissonSampled(0.01, event).at(2),
    "sampled, replaced": lambda event: epsilon(events.PoissonSampledReplace(0.01, event), 1e-6),
    "without replacement": lambda event: epsilon(events.SampledWithoutReplacement(9, 3, event).at(2), 1e-6),
    "repeated": lambda event: events.RepeatAndSelect(event, mean=2.0, shape=1.0).at(2),
}

ANYTHING: dict[str, Callable[[PrivacyEvent], object]] = NEEDS_SCALED | {
    **{f"method {name}": lambda event, name=name: epsilon(event, 1e-6, method=name) for name in METHODS},  # type: ignore[misc]
    "bracket": lambda event: epsilon(event, 1e-6, bracket=True),
    "delta": lambda event: delta(event, 1.0, bracket=True),
    "negative": lambda event: event.at(-1),
    "graph": lambda event: graph(event).guarantee().contributions(1e-6),
    "wrong norm": lambda event: (
        AccountantGraph()
        .source("people")
        .transform("sum", reads=["people"], stability={("records", "l2"): 1.0})
        .release("it", event, reads=["sum"])
        .guarantee()
    ),
    "JSON": lambda event: graph(event).to_json(),
    "JSON of a guarantee": lambda event: graph(event).guarantee().to_json(),
    "notebook": lambda event: graph(event)._repr_html_(),
    "drawn": lambda event: to_svg(graph(event)),
    "sampled": lambda event: epsilon(events.PoissonSampled(0.01, event), 1e-6),
    "without replacement, one": lambda event: epsilon(events.SampledWithoutReplacement(9, 3, event), 1e-6),
    "mixture": lambda event: epsilon(events.VisibleMixture(0.1, event), 1e-6),
    "chain": lambda event: epsilon(events.chain(event, 3), 1e-6),
    "select": lambda event: epsilon(events.RepeatAndSelect(event, mean=2.0, shape=1.0), 1e-6),
    "trade-off": lambda event: trade_off(event, [0.1, 0.5]),
    "contour": lambda event: contour_integral.epsilon(event, 1e-6),
    "support": lambda event: event.loss_support(),
    "law": lambda event: event.loss_law(0.1, True),
    "calibrate": lambda event: calibrate(lambda rho: Curve(1 / rho), EpsilonDelta(1.0, 1e-6)),
    "calibrate to an attack": lambda event: calibrate(lambda rho: Curve(1 / rho), Advantage(0.1)),
    "split": lambda event: split_budget(
        lambda s: compose(Curve(1 / s[0]), event), EpsilonDelta(1.0, 1e-6), cost=lambda s: float(s[0]), guess=[2.0]
    ),
    "pure filter": lambda event: PureFilter(1.0).after(event),
    "zCDP filter": lambda event: ZCDPFilter(1.0).after(event),
    "RDP filter": lambda event: RDPFilter((2.0,), (1.0,)).after(event),
    "Gaussian filter": lambda event: GDPFilter(1.0).after(event),
    "odometer": lambda event: Odometer(1e-6).after(event).reading(),
    "ledger": lambda event: Ledger(graph(event)).record("it", event),
    "filtered ledger": lambda event: FilteredLedger(AccountantGraph().source("a"), ZCDPFilter(1.0)).record(
        "r", event, reads=["a"]
    ),
    "native": lambda event: to_dp_event(event, strict=True),
    "accountant": lambda event: Accountant().compose(event, 3).get_epsilon(1e-6),
    "dominates": lambda event: dominates(event, events.ZCDP(1.0)),
    "refines": lambda event: refines(graph(event), graph(event)),
}


@pytest.mark.parametrize("call", NEEDS_SCALED.values(), ids=NEEDS_SCALED)
@pytest.mark.parametrize("event", [Curve(), Silent()], ids=["curve", "silent"])
def test_the_error_for_a_missing_distance_rule_names_the_method_to_write(
    event: PrivacyEvent, call: Callable[[PrivacyEvent], object]
) -> None:
    with pytest.raises(
        UnsupportedEventError, match=rf"^.*{type(event).__name__} has no rule .*_scaled\(self, distance"
    ):
        call(event)


@pytest.mark.parametrize("call", NEEDS_SCALED.values(), ids=NEEDS_SCALED)
def test_a_class_with_that_method_answers_every_query(call: Callable[[PrivacyEvent], object]) -> None:
    assert call(Stretched()) is not None


@pytest.mark.parametrize("name", ANYTHING)
@pytest.mark.parametrize("event", [Curve(), Silent()], ids=["curve", "silent"])
def test_every_query_is_answered_or_raises_a_typed_error(event: PrivacyEvent, name: str) -> None:
    try:
        ANYTHING[name](event)
    except HockeystickError as error:
        assert len(str(error)) > 20 and "\n" not in str(error)
    else:
        assert name not in NEEDS_SCALED, "without a rule for distances there is no answer"


def test_a_renyi_curve_alone_gives_the_least_bound_over_its_orders() -> None:
    """Canonne, Kamath & Steinke 2020, Prop. 12, minimised by scipy; a group of two has four times the curve."""

    def least(rho: float) -> float:
        def at(log_order: float) -> float:
            a = 1.0 + math.exp(log_order)
            return rho * a + math.log1p(-1 / a) - (math.log(1e-6) + math.log(a)) / (a - 1)

        return float(optimize.minimize_scalar(at, bounds=(-3.0, 9.0), method="bounded", options={"xatol": 1e-9}).fun)

    assert epsilon(Curve(), 1e-6).upper == pytest.approx(least(0.005), rel=1e-6)
    assert graph(Stretched()).guarantee(group=2).epsilon(1e-6).upper == pytest.approx(least(3 * 0.02), rel=1e-6)


def test_a_failure_leaves_the_rest_as_it_was() -> None:
    class Failing(PrivacyEvent):
        def pure_epsilon(self) -> float:
            return 1.0

        def failure_delta(self) -> float:
            return 0.25

    assert 0.0 < epsilon(Failing(), 0.26).upper <= 1.0 and math.isinf(epsilon(Failing(), 0.2).upper)


CURVES: dict[str, Any] = {
    "pure_epsilon": [math.nan, -1.0, None, "1", True, np.array([1.0])],
    "zcdp_rho": [math.nan, -1e-9, None, "1"],
    "failure_delta": [math.nan, -1e-9, 1.1, None],
    "rdp": [None, "x", 0.5, [0.1] * 4, np.full(5, 0.1), np.array([0.1]), np.array([0.1, 0.2, -1e-9, 0.4])],
}


@pytest.mark.parametrize(("method", "value"), [(method, value) for method in CURVES for value in CURVES[method]])
def test_an_invalid_curve_is_refused(method: str, value: object) -> None:
    """A negative curve would lower others' cost, NaN breaks comparisons, and scalars or lists are broadcast or
    repeated."""
    wrong = type("Wrong", (PrivacyEvent,), {method: lambda *_: value})()

    for call in (lambda: epsilon(wrong, 1e-6), lambda: compose((wrong, 3)), lambda: events.PoissonSampled(0.1, wrong)):
        with pytest.raises(UnsupportedEventError, match=rf"Wrong\.{method}\(\) must return"):
            call()


def test_fields_that_equality_ignores_are_refused() -> None:
    """If the two were merged as equal, the expensive one would be charged like the cheap one."""

    class Unseen(PrivacyEvent):
        def __init__(self, rho: float) -> None:
            object.__setattr__(self, "rho", rho)

        def zcdp_rho(self) -> float:
            return float(vars(self)["rho"])

    cheap, dear = Unseen(0.01), Unseen(100.0)
    assert cheap == dear
    with pytest.raises(UnsupportedEventError, match="Unseen stores rho outside its fields"):
        compose(cheap, dear)


def test_unhashable_fields_are_refused() -> None:
    @attrs.frozen
    class Listed(PrivacyEvent):
        rates: list[float]

        def zcdp_rho(self) -> float:
            return sum(self.rates)

    for call in (lambda: epsilon(Listed([0.1]), 1e-6), lambda: compose(Listed([0.1]))):
        with pytest.raises(UnsupportedEventError, match=r"Listed can't be hashed \(.*list.*\): make its fields"):
            call()


def test_other_styles_of_event_classes_are_accepted() -> None:
    @dataclass(frozen=True)
    class AsData(PrivacyEvent):
        rho: float

        def zcdp_rho(self) -> float:
            return self.rho

    class Cached(Silent):
        @cached_property
        def slow(self) -> float:
            return 0.125

        def zcdp_rho(self) -> float:
            return self.slow

    both = compose(AsData(0.125), AsData(0.5), (Cached(), 2))
    assert both.zcdp_rho() == pytest.approx(0.875, rel=1e-12) and epsilon(both, 1e-6).upper < math.inf


class _Mechanism:
    def event(self) -> PrivacyEvent:
        return Curve()


@pytest.mark.parametrize(
    ("value", "way_out"),
    [
        (graph(Curve()), r"\.guarantee\(\)\.epsilon\(delta\)"),
        (graph(Curve()).guarantee(), r"\.epsilon\(delta\), or give its \.event"),
        (Accountant(), r"\.epsilon\(delta\), or give its \.event"),
        (dp_accounting.GaussianDpEvent(1.0), r"from_dp_event\(event\), or use hockeystick\.Accountant"),
        (_Mechanism(), r"give its \.event\(\)"),
        (0.5, r"use one of hockeystick\.events"),
    ],
)
@pytest.mark.parametrize("ask", [best_bound.epsilon, best_bound.delta], ids=["epsilon", "delta"])
def test_errors_for_objects_that_are_not_events_say_how_to_get_one(
    ask: Callable[..., object], value: object, way_out: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"is not a privacy event; .*{way_out}"):
        ask(value, 1e-6)
