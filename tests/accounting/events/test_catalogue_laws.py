"""Tests of laws that hold for every event of the catalogue, on one complete table of instances."""

import contextlib
import itertools
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
import pytest
from event_instances import INSTANCES, NESTED, PLAIN

from hockeystick.accounting import (
    METHODS,
    NO_EVENT,
    Bracket,
    HockeystickError,
    InvalidArgumentError,
    PrivacyEvent,
    compose,
    delta,
    epsilon,
    parallel,
)
from hockeystick.accounting.events import catalogue as c
from hockeystick.accounting.events.basic.composition import Composed, Parallel
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.event_json import EVENTS, event_from_json, event_to_json

HEAVY = (
    c.PoissonSampled(1e-9, c.Gaussian(1.0)),
    c.PoissonSampled(0.01, c.Gaussian(0.8)),
    c.PoissonSampled(0.2, c.Gaussian(1.0), "addition"),
    c.RandomAllocation(6, 1, c.Gaussian(1.0)),
    c.RandomAllocation(5, 2, c.Laplace(2.0), "removal"),
    c.RandomAllocation(7, 1, c.ApproximateDP(1.0, 1e-5), "addition"),
    c.TruncatedPoissonSampled(1000, 0.01, 8, 0.7),
    c.MixtureOfGaussians((0.0, 1.0, 2.0), (0.5, 0.3, 0.2), 1.0),
)
"""Whose engines take about a second each."""
IN_CI = (HEAVY[2], HEAVY[3], HEAVY[5])
"""One sample of each kind; the other tests on this page and those of engines have more of them."""
SLOW = (
    HEAVY[0], HEAVY[3], HEAVY[-1], c.PoissonSampled(0.05, compose((c.Gaussian(4.0), 3))),
    c.SampledWithoutReplacement(1000, 10, c.Gaussian(1.0)), c.VisibleMixture(0.0, c.Laplace(1.0)),
    c.InputMix(0.1, c.Gaussian(1.0)), c.CumulativeAboveThreshold(20.0, 1.0), c.LogLipschitz(2.0, 0.1),
    c.InputMix(1.0, c.Laplace(2.0)), c.AboveThreshold(2.0, 4.0),
)  # fmt: skip
"""In the tier deep for the slowest tests, as others of their kind are in CI."""

FAR = (
    c.Skellam(0.5, coordinates=1), c.Skellam(50.0, distance=2.0), c.chain(compose((c.PureDP(0.1), 3)), 3),
    *(e for e in INSTANCES if isinstance(e, c.Shuffled) and not isinstance(e.local, c.RandomizedResponse)),
)  # fmt: skip
"""In the tier deep where distances are tried."""

# Sound bounds that are not the smallest they could be: above ε or ρα, or larger at a smaller order.
LOOSE_CURVES = (c.InputMix, c.SampledWithoutReplacement, c.PoissonSampledReplace, c.GaussianAboveThreshold)
# The pair's profile is above what the event's other curves say, as these use more than the pair knows.
PAIR_IS_NOT_ALL = (
    c.AveragedSwitchDecision,
    c.BoundedRange,
    c.ReportNoisyMax,
    c.GaussianAboveThreshold,
    c.RepeatAndSelect,
    c.Shuffled,
)


ENGINES = ("gaussian", "kov", "pld", "contour")
"""Methods whose lower end is below the truth of every event with a tight pair."""


def name_of(event: object) -> str:
    return repr(event)[:60]


def knows_more_than_its_pair(event: PrivacyEvent) -> bool:
    return isinstance(event, PAIR_IS_NOT_ALL) or any(knows_more_than_its_pair(inner) for inner in event.children())


def over(events: Iterable[PrivacyEvent], deep: Iterable[PrivacyEvent] = ()) -> pytest.MarkDecorator:
    def marks(event: PrivacyEvent) -> list[pytest.MarkDecorator]:
        return [pytest.mark.deep] if event in deep else [pytest.mark.statistical] if event in HEAVY else []

    deep = tuple(deep)
    return pytest.mark.parametrize("event", [pytest.param(e, id=name_of(e), marks=marks(e)) for e in events])


every_event = over(INSTANCES)
TIGHT = [e for e in INSTANCES if e.has_profile() and not knows_more_than_its_pair(e)]
with_a_tight_pair = over(TIGHT)


def further(events: list[PrivacyEvent]) -> tuple[PrivacyEvent, ...]:
    """The events that come after one of the same class, with children of the same classes."""
    first = {(type(event), *map(type, event.children())): event for event in reversed(events)}
    return tuple(event for event in events if first[type(event), *map(type, event.children())] is not event)


FURTHER = further([event for event in TIGHT if event not in SLOW])
"""In the tier deep for two tests; the one before them has every event in CI."""


def test_the_table_is_complete():
    assert {type(event) for event in INSTANCES} == set(EVENTS.values())


@every_event
def test_json_round_trip_is_the_same_value_and_the_same_text(event):
    text = json.dumps(event_to_json(event), allow_nan=False)
    again = event_from_json(json.loads(text))
    assert again == event and hash(again) == hash(event) and repr(again) == repr(event)
    assert json.dumps(event_to_json(again), allow_nan=False) == text


@every_event
def test_equal_fields_are_equal_values(event):
    assert attrs.evolve(event) == event and hash(attrs.evolve(event)) == hash(event)
    assert event.at(1.0) is event and event.at(0.0) == NO_EVENT
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.other = 1


def test_different_instances_are_different_values():
    assert len(set(INSTANCES)) == len(INSTANCES)


# Composition ----------------------------------------


@every_event
def test_composition_is_a_multiset(event):
    other, third = c.PureDP(0.123), c.Gaussian(7.0)
    assert compose((event, 3)) == compose(event, event, event) == compose(compose(event, (event, 2)))
    whole = compose((event, 2), other, (third, 3))
    for order in itertools.permutations([event, event, other, (third, 2), third]):
        assert compose(*order) == whole
    assert compose(compose((compose(event, third), 2), other), third) == whole
    assert compose(event, NO_EVENT, (other, 0)) == compose(event)
    assert parallel(parallel(event, other), event) == parallel(other, event)


def costs(events: list[PrivacyEvent], at: float, method: str | None = None) -> list[float]:
    """The ε of each event that is not refused."""
    return [epsilon(event, at, method=method).upper for event in events]


def assert_increasing(values: list[float], slack: float = 2e-6) -> None:
    for before, after in itertools.pairwise(values):
        assert before <= after * (1 + slack) + 1e-9, values


@every_event
@pytest.mark.every(3, 1)
def test_more_accesses_cost_more(event):
    assert_increasing(costs([compose((event, n)) for n in (1, 2, 5)], 1e-6))


@pytest.mark.statistical
@over(INSTANCES, FAR)
def test_a_larger_distance_costs_more(event):
    found: list[PrivacyEvent] = []
    for distance in (0.5, 1.0, 2.0, 3.0):
        try:
            found.append(event.at(distance))
        except HockeystickError:
            assert distance > 1.0
    assert_increasing(costs([NO_EVENT, *found], 1e-6))


# Curves ----------------------------------------

ORDERS = np.array([1.0001, 1.1, 1.5, 2.0, 2.5, 3.7, 8.0, 33.3, 256.0, 1e4])


@every_event
def test_renyi_curve_increases_below_the_pure_and_the_concentrated_one(event):
    curve, pure, rho = event.rdp(ORDERS), event.pure_epsilon(), event.zcdp_rho()
    assert curve.shape == ORDERS.shape and not np.isnan(curve).any() and (curve >= 0.0).all()
    assert event.rdp(ORDERS[3:4]) == pytest.approx(curve[3:4], rel=1e-12)
    if not isinstance(event, LOOSE_CURVES):
        assert all(one <= two * (1 + 1e-11) for one, two in itertools.pairwise(curve))
        assert (curve <= pure * (1 + 1e-12)).all()
        assert (curve <= rho * ORDERS * (1 + 1e-12)).all()
    assert 0.0 <= event.failure_delta() <= 1.0 and pure >= 0.0 and rho >= 0.0


@with_a_tight_pair
def test_renyi_curve_is_above_that_of_a_law_below_the_event(event):
    """Some test attains the grid's law from below, so no curve may be smaller."""
    for one in (order for way in event.directions() for order in way.orientations()):
        low, high = one.loss_support()
        if not 0.0 < high - low < 1e4:
            continue
        law = discretise(one, (high - low) / 500, False)
        kept = law.p > 0.0
        for order, bound in zip(ORDERS, event.rdp(ORDERS), strict=True):
            y = np.log(law.p[kept]) + (order - 1.0) * law.losses()[kept]
            seen = (y.max() + math.log(np.exp(y - y.max()).sum())) / (order - 1.0)
            assert seen <= bound * (1 + 1e-9) + 1e-11


def brackets(bound: Callable[..., Bracket], event: PrivacyEvent, at: float) -> dict[str, Bracket]:
    found = {}
    for method in METHODS:
        with contextlib.suppress(HockeystickError):
            found[method] = bound(event, at, bracket=method in ENGINES, method=method)
    return found


def assert_consistent(found: dict[str, Bracket], slack: float) -> None:
    """No method may be below the lower bound of an engine."""
    for engine in ENGINES:
        if engine in found and found[engine].upper < math.inf:
            lower = found[engine].lower
            assert lower is not None
            for method, bracket in found.items():
                assert lower <= bracket.upper * (1 + 1e-9) + slack, (engine, method)


def at_each(event: PrivacyEvent, at: float) -> list[pytest.MarkDecorator]:
    """In CI are the middle δ, and either another one or, for events that are slow, none."""
    if at == 1e-6 and event not in HEAVY:
        return []
    slow = event not in IN_CI if at == 1e-6 else event in HEAVY + SLOW
    other = at != 1e-6 and (at == 0.03) == TIGHT.index(event) % 2
    return [pytest.mark.deep if slow or other else pytest.mark.statistical]


@pytest.mark.parametrize(
    ("event", "at"),
    [pytest.param(e, at, id=f"{at}-{name_of(e)}", marks=at_each(e, at)) for e in TIGHT for at in (1e-6, 0.03, 1e-12)],
)
def test_no_method_is_below_an_engines_lower_bound(event, at):
    if at > event.failure_delta():
        # One method composes failures, the others add them up.
        assert_consistent(brackets(epsilon, event, at), 1e-11 + event.failure_delta())


@pytest.mark.statistical
@over(TIGHT, SLOW + FURTHER)
@pytest.mark.parametrize("at", [1e-8])
def test_no_method_is_below_an_engines_lower_bound_for_a_composition(event, at):
    whole = compose((event, 7), c.PureDP(0.1))
    found = brackets(epsilon, whole, at)
    if len(event.orientations()) > 1:  # the engines take the maximum at each access
        found = {engine: found[engine] for engine in ("pld", "contour") if engine in found}
    if at > whole.failure_delta():
        assert_consistent(found, 1e-11)


@pytest.mark.statistical
@over(TIGHT, (HEAVY[1], *SLOW, *FURTHER))
@pytest.mark.parametrize("eps", [0.3])
def test_no_delta_is_below_an_engines_lower_bound(event, eps):
    found = brackets(delta, event, eps)
    if event.failure_delta():  # the others add it where this one composes it
        found.pop("kov", None)
    assert_consistent({method: bracket for method, bracket in found.items() if bracket.upper < 1.0}, 1e-15)


@over(INSTANCES, (HEAVY[0], HEAVY[-2], HEAVY[-1]))
@pytest.mark.every(3, 2)
def test_an_event_costs_what_its_worse_direction_costs(event):
    ways = event.directions()
    for method in (None, "rdp", "pld"):
        whole = epsilon(event, 1e-6, method=method).upper
        assert all(epsilon(way, 1e-6, method=method).upper <= whole for way in ways)
    for i, _ in enumerate(ORDERS):
        at = ORDERS[i : i + 1]
        assert all(way.rdp(at)[0] <= event.rdp(at)[0] * (1 + 1e-12) for way in ways)


# Arguments ----------------------------------------

BAD = [math.nan, math.inf, -math.inf, -1.0, 0.0, 1.1, True, 1, "1", None, 1j]
SWITCHES = {"monotone", "polygon", "forward", "keep_more", "replacement"}
CHANCES = {"delta", "probability", "shown", "keep_probability", "gamma", "infinity", "p", "q"}
WHOLE = {
    "batch",
    "categories",
    "coordinates",
    "group",
    "count",
    "population",
    "queries",
    "answers",
    "sample",
    "steps",
    "chosen",
    "epochs",
}
ALLOWED = {
    math.inf: {"log_ratio_cap", "shape", "fall", "rise"},
    0.0: CHANCES | {"epsilon", "rho", "tail", "log_ratio", "fall", "rise", "shape", "batch", "distance of at", "count"},
    None: {"coordinates"},
}


def may_be_allowed(name: str, value: Any) -> bool:
    """Returns whether some event allows the value in the field of that name."""
    if isinstance(value, bool):
        return name in SWITCHES
    if value == 1:
        return name not in SWITCHES
    return name not in CHANCES | WHOLE if value == 1.1 else name in ALLOWED.get(value, set())


@every_event
def test_bad_parameters_are_refused_by_name_in_one_line(event):
    if isinstance(event, (Composed, Parallel)):  # built by functions, which check
        make: dict[str, Callable[[Any], object]] = {"count": lambda bad: compose((event, bad))}
    else:
        names = [field.name for field in attrs.fields(type(event))]
        make = {name: lambda bad, name=name: attrs.evolve(event, **{name: bad}) for name in names}  # type: ignore[misc]
    for name, build in [*make.items(), ("distance of at", event.at)]:
        for bad in BAD:
            if not may_be_allowed(name, bad):
                with pytest.raises(InvalidArgumentError) as caught:
                    build(bad)
                argument = caught.value.argument
                assert argument in str(caught.value) and "\n" not in str(caught.value)
                assert name not in make or argument.partition("[")[0] == name


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_branches_that_are_not_events_are_refused(bad):
    with pytest.raises(InvalidArgumentError):
        parallel(c.Gaussian(1.0), bad)


@pytest.mark.parametrize(
    "orders", [1.0, 0.5, -2.0, math.nan, math.inf, 1e300, [2.0, 1.0], [1.5, math.nan], "x", None, [[2.0], [2.0, 3.0]]]
)
def test_invalid_orders_are_refused_by_every_event(orders):
    for event in PLAIN + NESTED:
        with pytest.raises(InvalidArgumentError, match="^orders="):
            event.rdp(orders)


@pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf, 1e300, "x", None])
def test_invalid_grid_steps_are_refused_by_every_event(step):
    for event in PLAIN + NESTED:
        for upper in (True, False):
            with pytest.raises(InvalidArgumentError, match="^step="):
                event.loss_law(step, upper)


def test_orders_keep_their_shape():
    for event in (c.Gaussian(2.0), c.PermuteAndFlip(1.0), c.compose(c.Laplace(1.0), c.Gaussian(1.0))):
        assert np.shape(event.rdp(np.full((2, 3), 4.0))) == (2, 3)
        assert event.rdp(np.array([2, 3])).tolist() == event.rdp(np.array([2.0, 3.0])).tolist()
        assert event.rdp(np.zeros(0)).shape == (0,)


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (Composed, (1, 2)),
        (Composed, ((c.Gaussian(1.0), 0),)),
        (Composed, (("x", 1),)),
        (Composed, 3),
        (Parallel, (c.Gaussian(1.0), 2)),
        (Parallel, 3),
    ],
)
def test_parts_that_are_not_events_are_refused(build, parts):
    with pytest.raises(InvalidArgumentError):
        build(parts)


def test_compositions_and_alternatives_have_one_form_whatever_their_order():
    a, b, d = c.Laplace(1.0), c.Gaussian(2.0), c.PureDP(0.5)
    for build in (c.compose, c.parallel):
        assert len({build(*order) for order in itertools.permutations((a, b, d))}) == 1
        form = event_to_json(build(a, b))
        (name,) = {"parts", "branches"} & set(form)
        assert event_from_json({**form, name: form[name][::-1]}) == build(a, b)
        assert event_from_json({**form, name: [form[name][0]] * 2}) == build(b, b)
