"""Ledgers of one run: against a plan, and under a filter."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import (
    SAME,
    ZCDP,
    AccountantGraph,
    Adjacency,
    BoundedRange,
    Failure,
    Gaussian,
    GraphError,
    InvalidArgumentError,
    Laplace,
    LazySwitchDecision,
    PureDP,
    RandomizedResponse,
    Reach,
    UnsupportedAdjacencyError,
    compose,
)
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PureFilter, ZCDPFilter
from hockeystick.accounting.budgets.ledger import FilteredLedger, Ledger
from hockeystick.accounting.budgets.odometer import Odometer
from hockeystick.accounting.budgets.renyi_filter import RDPFilter
from hockeystick.accounting.graph.plan_refinement import RefinementError, refines

PLAN = (
    AccountantGraph()
    .source("people")
    .transform("sum", reads=["people"], stability={("records", "l2"): 2.0})
    .release("step", Gaussian(4.0), reads=["sum"], count=10)
    .post("model", reads=["step"])
    .release("test", PureDP(0.5), reads=["people", "model"], count=2)
)


def test_the_guarantee_is_for_the_plan_and_the_reading_for_the_run():
    ledger = Ledger(PLAN)
    assert ledger.reading(1e-6).epsilon == 0.0
    ledger.record("step", Gaussian(8.0), count=3)
    ledger.record("step", count=2)
    want = Odometer(1e-6).after(compose((Gaussian(8.0).at(2.0), 3), (Gaussian(2.0), 2))).reading()
    assert ledger.reading(1e-6).epsilon == pytest.approx(want.epsilon, rel=1e-9)
    assert ledger.guarantee() == PLAN.guarantee()
    assert ledger.guarantee(group=3) == PLAN.guarantee(group=3)
    assert ledger.recorded("step") == 5


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (("step", Gaussian(3.9)), "not shown"),
        (("step", PureDP(0.1)), "norm|not shown"),
        (("step", None, 8), "count 11 is above the plan's 10"),
        (("stop",), "no such release"),
        (("people",), "no such release"),
        (("test", RandomizedResponse(0.1)), "no meaning under"),
        (("test", Laplace(1.0)), "not shown"),
    ],
)
def test_releases_outside_the_plan_are_refused_and_change_nothing(record, reason):
    ledger = Ledger(PLAN)
    ledger.record("step", count=3)
    before = ledger.graph()
    name, event, count = (*record, None, 1)[:3] if len(record) < 3 else record
    for attempt in (ledger.check, ledger.record):
        with pytest.raises(RefinementError, match=reason) as refusal:
            attempt(name, event, count=count or 1)
        assert refusal.value.release == name
        assert ledger.graph() == before


def test_checking_records_nothing():
    ledger = Ledger(PLAN)
    ledger.check("step", count=10)
    assert ledger.recorded("step") == 0


def test_one_release_is_checked_unless_more_are_named():
    ledger = Ledger(PLAN)
    ledger.record("step", count=9)
    ledger.check("step")
    with pytest.raises(RefinementError, match="count 11"):
        ledger.check("step", count=2)


def test_a_published_input_comes_first():
    ledger = Ledger(PLAN)
    with pytest.raises(RefinementError, match="reads 'step', which was not recorded"):
        ledger.record("test")
    ledger.record("step")
    ledger.record("test", Laplace(2.0))


@pytest.mark.statistical
@settings(max_examples=30)
@given(
    records=st.lists(
        st.tuples(st.sampled_from(["step", "test"]), st.sampled_from([4.0, 5.0, 6.0]), st.integers(1, 4)), max_size=12
    )
)
def test_every_ledger_refines_its_plan(records):
    ledger = Ledger(PLAN)
    for name, noise, count in records:
        event = Gaussian(noise) if name == "step" else Laplace(noise)
        try:
            ledger.record(name, event, count=count)
        except RefinementError:
            continue
    graph = ledger.graph()
    refines(graph, PLAN, mapping=ledger.mapping())
    assert AccountantGraph.from_json(graph.to_json()) == graph
    assert graph.guarantee().epsilon(1e-6).upper <= PLAN.guarantee().epsilon(1e-6).upper


def test_a_million_releases_are_recorded_as_a_count():
    plan = AccountantGraph().source("people").release("step", Gaussian(1000.0), reads=["people"], count=10**6)
    ledger = Ledger(plan)
    for i in range(20_000):
        ledger.record("step", Gaussian(1000.0 + i % 3))
    ledger.record("step", count=980_000)
    with pytest.raises(RefinementError, match="count 1000001"):
        ledger.record("step")
    assert len(ledger.graph().nodes) == 4
    assert ledger.recorded("step") == 10**6


def test_names_of_split_releases_differ_from_names_in_the_plan():
    plan = AccountantGraph().source("people").release("a", PureDP(1.0), reads=["people"], count=9)
    plan = plan.release("a#2", PureDP(1.0), reads=["people"])
    ledger = Ledger(plan)
    ledger.record("a")
    ledger.record("a", PureDP(0.5))
    ledger.record("a#2")
    refines(ledger.graph(), plan, mapping=ledger.mapping())
    assert ledger.mapping() == {"a#2'": "a"}


def lazy_plan(rounds: int) -> AccountantGraph:
    graph = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("batches", size=rounds)
    graph = graph.release("switch", LazySwitchDecision(0.9, 0.1), reads=["batches"], reach=SAME, leading=True)
    return graph.release("draw", BoundedRange(0.1), reads=["batches"], reach=Reach(0, None), cumulative=True)


def test_a_leading_family_leads_in_every_round():
    ledger = Ledger(lazy_plan(3))
    with pytest.raises(RefinementError, match="leading"):
        ledger.record("draw")
        ledger.record("switch")
    ledger = Ledger(lazy_plan(3))
    for _ in range(3):
        ledger.record("switch")
        ledger.record("draw")
    with pytest.raises(RefinementError, match="count 4"):
        ledger.record("draw")
    refines(ledger.graph(), lazy_plan(3), mapping=ledger.mapping())
    assert ledger.graph() == lazy_plan(3)


def test_rounds_of_a_family_may_hold_several_releases():
    """One switch and two draws in each round: the next switch is not late after both draws."""
    plan = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("batches", size=3)
    plan = plan.release("switch", LazySwitchDecision(0.9, 0.1), reads=["batches"], reach=SAME, leading=True)
    plan = plan.release("draw", PureDP(0.1), reads=["batches"], count=2, reach=SAME)
    ledger = Ledger(plan)
    for _ in range(3):
        ledger.record("switch")
        ledger.record("draw", count=2)
    assert ledger.recorded("draw") == 6


def test_a_leading_family_comes_before_all_single_releases():
    plan = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("batches", size=3)
    plan = plan.release("switch", LazySwitchDecision(0.9, 0.1), reads=["batches"], count=2, reach=SAME, leading=True)
    plan = plan.release("draw", PureDP(0.1), reads=["batches"], count=2)
    ledger = Ledger(plan)
    ledger.record("switch", count=2)
    ledger.record("draw")
    with pytest.raises(RefinementError, match="leading"):
        ledger.record("switch")


def test_failures_of_a_reading_are_the_plans():
    plan = (
        AccountantGraph().source("people").release("a", compose(PureDP(1.0), Failure(1e-8)), reads=["people"], count=3)
    )
    ledger = Ledger(plan)
    ledger.record("a")
    assert ledger.reading(1e-6).delta >= 1e-6 + 3e-8


def test_the_reading_is_for_the_worst_block():
    plan = AccountantGraph().source("a").source("b")
    plan = plan.release("x", Gaussian(1.0), reads=["a"], count=9).release("y", Gaussian(1.0), reads=["b"], count=5)
    ledger = Ledger(plan)
    ledger.record("y", count=5)
    ledger.record("x")
    want = Odometer(1e-6).after(Gaussian(1.0), count=5).reading().epsilon
    assert ledger.reading(1e-6).epsilon == pytest.approx(want, rel=1e-9)


# Under a filter -------------------------------------------------------------------------------------------------------

BASE = AccountantGraph().source("people").transform("sum", reads=["people"], stability={("records", "l2"): 2.0})


def test_a_filter_closes_a_ledger_without_a_plan():
    ledger = FilteredLedger(BASE, ZCDPFilter(1.0))
    promise = ledger.guarantee()
    assert not ledger.would_exceed(Gaussian(4.0), reads=["sum"], count=8)
    assert ledger.would_exceed(Gaussian(4.0), reads=["sum"], count=9)
    ledger.record("step", Gaussian(4.0), reads=["sum"], count=4)  # at distance 2 each costs 1/8
    ledger.record("step", Gaussian(8.0), reads=["sum"])
    ledger.record("more", ZCDP(0.125), reads=["people", "step"])
    assert ledger.budget.remaining()["rho"] == pytest.approx(1 - 0.5 - 1 / 32 - 1 / 8)
    with pytest.raises(BudgetExceededError):
        ledger.record("more", ZCDP(0.5), reads=["people", "step"])
    assert [node.name for node in ledger.graph().nodes] == ["people", "sum", "step", "step#2", "more"]
    assert ledger.graph().guarantee().epsilon(1e-6).upper <= promise.epsilon(1e-6).upper
    assert ledger.guarantee() == promise
    assert promise.epsilon(1e-6).upper == pytest.approx(ZCDPFilter(1.0).epsilon(1e-6))
    assert 0.0 < ledger.reading(1e-6).epsilon < math.inf


def test_a_refused_release_changes_nothing():
    ledger = FilteredLedger(BASE, PureFilter(1.0))
    before = ledger.graph()
    for bad in (
        lambda: ledger.record("x", PureDP(1.5), reads=["people"]),
        lambda: ledger.record("x", PureDP(0.5), reads=["nobody"]),
        lambda: ledger.record("sum", PureDP(0.5), reads=["people"]),
        lambda: ledger.record("x", PureDP(0.5), reads=["people"], count=0),
        lambda: ledger.record("x", PureDP(0.5), reads=[]),
        lambda: ledger.record("x", RandomizedResponse(0.5), reads=["people"]),
    ):
        with pytest.raises((BudgetExceededError, GraphError, InvalidArgumentError, UnsupportedAdjacencyError)):
            bad()
        assert ledger.graph() == before
        assert ledger.budget == PureFilter(1.0)
    ledger.record("x", PureDP(0.5), reads=["people"])
    with pytest.raises(GraphError, match="other inputs"):
        ledger.record("x", PureDP(0.1), reads=["sum"])


def test_an_rdp_filter_states_its_guarantee_at_one_delta():
    budget = RDPFilter.for_target(1.0, 1e-6)
    ledger = FilteredLedger(BASE, budget)
    assert ledger.guarantee(delta=1e-6).epsilon(2e-6).upper <= 1.0
    with pytest.raises(InvalidArgumentError, match="one δ"):
        ledger.guarantee()


def test_a_filter_needs_the_graphs_relation_and_a_graph_without_releases():
    with pytest.raises(GraphError, match="the filter is for"):
        FilteredLedger(BASE, ZCDPFilter(1.0, adjacency=Adjacency.REPLACE_ONE))
    with pytest.raises(GraphError, match="has releases"):
        FilteredLedger(PLAN, ZCDPFilter(1.0))


def test_gaussians_under_a_gaussian_filter_use_all_of_it():
    ledger = FilteredLedger(AccountantGraph().source("people"), GDPFilter(1.0))
    ledger.record("a", Gaussian(2.0), reads=["people"], count=4)
    assert ledger.would_exceed(Gaussian(1000.0), reads=["people"])
    assert ledger.guarantee().epsilon(1e-6).upper == pytest.approx(ledger.graph().guarantee().epsilon(1e-6).upper)
    assert ledger.would_exceed(ZCDP(1e-9), reads=["people"])


def test_a_release_or_an_input_that_is_not_in_the_plan_is_named():
    graph = AccountantGraph().source("people").release("sum", Laplace(2.0), reads=["people"])
    ledger = Ledger(graph)
    ledger.record("sum", Laplace(2.0))
    assert ledger.recorded("sum") == 1
    with pytest.raises(RefinementError, match="no such release"):
        ledger.recorded("mean")
    filtered = FilteredLedger(AccountantGraph().source("people"), PureFilter(1.0))
    with pytest.raises(GraphError, match="no node 'animals': choose one of 'people'"):
        filtered.record("sum", Laplace(2.0), reads=("animals",))


def test_the_default_count_is_one_release():
    ledger = FilteredLedger(BASE, PureFilter(1.0))
    assert not ledger.would_exceed(PureDP(1.0), reads=["people"])
    assert ledger.would_exceed(PureDP(1.0), reads=["people"], count=2)
    ledger.record("all", PureDP(1.0), reads=["people"])
    assert ledger.would_exceed(PureDP(0.5), reads=["people"])


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_a_reading_needs_a_delta_between_0_and_1(delta):
    ledger = Ledger(PLAN)
    with pytest.raises(InvalidArgumentError, match="delta"):
        ledger.reading(delta)
    with pytest.raises(InvalidArgumentError, match="delta"):
        FilteredLedger(AccountantGraph().source("s"), PureFilter(1.0)).reading(delta)


def test_names_and_inputs_that_are_none_are_refused() -> None:
    filtered = FilteredLedger(AccountantGraph().source("people"), PureFilter(1.0))
    for refused in (
        lambda: Ledger(AccountantGraph()).record([]),  # type: ignore[arg-type]
        lambda: Ledger(AccountantGraph()).recorded([]),  # type: ignore[arg-type]
        lambda: filtered.record([], Laplace(2.0), reads=["people"]),  # type: ignore[arg-type]
        lambda: filtered.record("mean", Laplace(2.0), reads=0),  # type: ignore[arg-type]
        lambda: filtered.would_exceed(Laplace(2.0), reads="people"),
    ):
        with pytest.raises(InvalidArgumentError):
            refused()
    assert filtered.budget == PureFilter(1.0)
