"""Tests of the domination of events, and of ledgers against plans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import hockeystick as hs
from hockeystick.accounting import (
    NO_EVENT,
    SAME,
    ZCDP,
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    BoundedRange,
    Failure,
    Gaussian,
    GraphError,
    Laplace,
    LazySwitchDecision,
    NonPrivate,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    Reach,
    UnsupportedEventError,
    VisibleMixture,
    compose,
    parallel,
)
from hockeystick.accounting.graph.plan_refinement import RefinementError, dominates, refines

DOMINATED = [
    (Gaussian(2.0), Gaussian(2.0)),
    (Gaussian(2.0), Gaussian(2.5)),
    (Gaussian(2.0), NO_EVENT),
    (Laplace(1.0), Laplace(3.0)),
    (PureDP(1.0), PureDP(0.5)),
    (PureDP(0.5), Laplace(2.0)),
    (PureDP(1.0), BoundedRange(1.0)),
    (PureDP(1.0), compose((PureDP(0.25), 4))),
    (PureDP(1.0), parallel(PureDP(0.5), Laplace(1.0))),
    (ApproximateDP(1.0, 1e-6), compose(PureDP(0.5), ApproximateDP(0.25, 1e-7), Failure(1e-7))),
    (Failure(1e-6), Failure(1e-7)),
    (ZCDP(0.5), Gaussian(1.0)),
    (ZCDP(0.5), compose((Gaussian(2.0), 2), PureDP(0.5))),
    (BoundedRange(1.0), BoundedRange(0.5)),
    (RandomizedResponse(1.0, 4), RandomizedResponse(0.5, 4)),
    (LazySwitchDecision(0.9, 0.4), LazySwitchDecision(0.8, 0.3)),
    (LazySwitchDecision(0.9, 0.4, 0.8), LazySwitchDecision(0.8, 0.3, 0.5)),
    (parallel(Gaussian(2.0), Laplace(1.0)), Gaussian(3.0)),
    (parallel(Gaussian(2.0), Laplace(1.0)), parallel(Gaussian(3.0), Laplace(2.0), Laplace(4.0))),
    (VisibleMixture(0.5, Gaussian(2.0)), VisibleMixture(0.25, Gaussian(3.0))),
    (VisibleMixture(1.0, Gaussian(2.0)), Gaussian(3.0)),
    (Gaussian(2.0), VisibleMixture(0.25, Gaussian(3.0))),
    (compose(Gaussian(2.0), Laplace(1.0)), VisibleMixture(0.1, compose(Gaussian(3.0), Laplace(1.0)))),
    (compose((Gaussian(2.0), 3)), compose((Gaussian(2.0), 1), (Gaussian(4.0), 2))),
    (compose((Gaussian(2.0), 3)), Gaussian(3.0)),
    # a greedy assignment of Laplace(2) to the larger envelope would leave none for Laplace(1)
    (compose(Laplace(1.0), Laplace(2.0)), compose(Laplace(1.0), Laplace(2.0))),
    (compose(PureDP(1.0), Laplace(1.0)), compose(Laplace(2.0), PureDP(0.5))),
    (NonPrivate(), Gaussian(1e-3)),
]
NOT_DOMINATED = [
    (Gaussian(2.0), Gaussian(1.9)),
    (Gaussian(2.0), PureDP(1e-6)),
    (Laplace(1.0), PureDP(1.0)),
    (PureDP(1.0), Gaussian(100.0)),
    (PureDP(1.0), ApproximateDP(0.1, 1e-12)),
    (PureDP(1.0), compose((PureDP(0.25), 5))),
    (PureDP(1.0), parallel(PureDP(0.5), Laplace(0.9))),
    (ApproximateDP(1.0, 1e-6), compose(PureDP(0.5), Failure(2e-6))),
    (ZCDP(0.5), Gaussian(0.9)),
    (ZCDP(0.5), ApproximateDP(0.1, 1e-9)),
    (BoundedRange(1.0), Laplace(1.0)),
    (RandomizedResponse(1.0, 4), RandomizedResponse(0.5, 3)),
    (LazySwitchDecision(0.9, 0.4), LazySwitchDecision(0.95, 0.3)),
    (LazySwitchDecision(0.9, 0.4, 0.8), LazySwitchDecision(0.9, 0.4)),
    (parallel(Gaussian(2.0), Laplace(1.0)), parallel(Gaussian(3.0), Laplace(0.5))),
    (VisibleMixture(0.5, Gaussian(2.0)), VisibleMixture(0.6, Gaussian(2.0))),
    (VisibleMixture(0.5, Gaussian(2.0)), Gaussian(3.0)),
    (compose((Gaussian(2.0), 3)), compose((Gaussian(2.0), 1), (Gaussian(4.0), 3))),
    (compose(Laplace(1.0), Laplace(3.0)), compose((Laplace(2.0), 2))),
    (NO_EVENT, PureDP(1e-9)),
    (Failure(1e-6), Failure(1e-5)),
    (Failure(1e-6), PureDP(1e-9)),
    (Gaussian(1e-3), NonPrivate()),
    (PureDP(100.0), NonPrivate()),
]


@pytest.mark.parametrize(("envelope", "event"), DOMINATED)
def test_a_dominated_event_costs_no_more_in_any_curve(envelope, event):
    assert dominates(envelope, event)
    for distance in (1.0, 2.0, 3.0):
        try:
            big, small = envelope.at(distance), event.at(distance)
        except UnsupportedEventError:
            assert distance > 1.0
            continue
        for epsilon in (0.0, 0.2, 0.7, 1.3):
            assert hs.delta(small, epsilon).upper <= hs.delta(big, epsilon).upper * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(("envelope", "event"), NOT_DOMINATED)
def test_an_event_that_costs_more_is_not_dominated(envelope, event):
    assert not dominates(envelope, event)


numbers = st.sampled_from([0.25, 0.5, 1.0, 2.0])
leaves = st.one_of(
    st.builds(Gaussian, numbers),
    st.builds(Laplace, numbers),
    st.builds(PureDP, numbers),
    st.builds(ZCDP, numbers),
    st.builds(BoundedRange, numbers),
    st.builds(ApproximateDP, numbers, st.sampled_from([0.0, 1e-6])),
)
events = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(VisibleMixture, st.sampled_from([0.25, 1.0]), inner),
        st.builds(lambda a, b, n: compose(a, (b, n)), inner, inner, st.integers(1, 3)),
        st.builds(parallel, inner, inner),
    ),
    max_leaves=4,
)


def curves(event: PrivacyEvent) -> tuple[float, ...]:
    return (event.pure_epsilon(), event.zcdp_rho(), *event.rdp(np.array([1.5, 4.0, 32.0])), event.failure_delta())


@pytest.mark.statistical
@given(envelope=events, event=events)
def test_domination_holds_in_every_curve_it_claims(envelope, event):
    if dominates(envelope, event) and type(envelope) not in (ZCDP, ApproximateDP, PureDP):
        for small, big in zip(curves(event), curves(envelope), strict=True):
            assert small <= big * (1 + 1e-9) + 1e-12 or math.isinf(big) or "ZCDP" in repr(envelope)


@pytest.mark.statistical
@given(a=events, b=events, c=events)
def test_domination_is_reflexive_and_composes(a, b, c):
    assert dominates(a, a)
    assert dominates(compose(a, b), a)
    assert dominates(parallel(a, b), b)
    if dominates(a, b):
        assert dominates(VisibleMixture(0.5, a), VisibleMixture(0.25, b))
        assert dominates(parallel(a, c), b)


# Graphs ---------------------------------------------------------------------------------------------------------------

PLAN = (
    AccountantGraph(assumptions=("clipped to 1",))
    .source("people")
    .public("weights")
    .transform("sum", reads=["people", "weights"], stability={("records", "l2"): 2.0})
    .release("step", Gaussian(4.0), reads=["sum"], count=10)
    .post("model", reads=["step"])
    .release("test", PureDP(0.5), reads=["people", "model"], count=2)
)


def test_a_plan_and_each_of_its_prefixes_refine_the_plan():
    for i in range(1, len(PLAN.nodes) + 1):
        refines(evolve(PLAN, _nodes=PLAN.nodes[:i]), PLAN)


def changed(which: str, **changes: Any) -> AccountantGraph:
    nodes: Any = tuple(PLAN.nodes)
    return evolve(PLAN, _nodes=tuple(evolve(node, **changes) if node.name == which else node for node in nodes))


@pytest.mark.parametrize(
    ("ledger", "release", "reason"),
    [
        (changed("step", event=Gaussian(3.9)), "step", "not shown to cost"),
        (changed("step", count=11), "step", "count 11"),
        (changed("step", event=ZCDP(0.001)), "step", "not shown|norm"),
        (changed("step", leading=True), "step", "leading"),
        (changed("step", reads=("people",)), "step", "reads"),
        (changed("step", name="stop"), "stop", "no release"),
        (changed("sum", stability=(("records", "l2", 1.0),)), "sum", "in the plan"),
        (changed("people", size=2), "people", "in the plan"),
        (changed("test", event=Laplace(1.9)), "test", "not shown"),
        (changed("test", event=ApproximateDP(0.1, 1e-9)), "test", "not shown"),
        (changed("model", reads=("weights",)), "model", "reads"),
    ],
)
def test_the_first_offending_node_is_named(ledger, release, reason):
    with pytest.raises(RefinementError, match=reason) as refusal:
        refines(ledger, PLAN)
    assert refusal.value.release == release


def test_gentler_events_and_split_releases_refine():
    refines(changed("test", event=Laplace(2.0)), PLAN)
    refines(changed("step", event=Gaussian(5.0), count=3), PLAN)
    nodes: Any = list(PLAN.nodes)
    nodes[3:4] = [evolve(nodes[3], count=7), evolve(nodes[3], name="late", event=Gaussian(8.0), count=3)]
    split = evolve(PLAN, _nodes=tuple(nodes))
    refines(split, PLAN, mapping={"late": "step"})
    with pytest.raises(RefinementError, match="no release 'late'"):
        refines(split, PLAN)
    nodes[4] = evolve(nodes[4], count=4)
    with pytest.raises(RefinementError, match="count 11"):
        refines(evolve(PLAN, _nodes=tuple(nodes)), PLAN, mapping={"late": "step"})


def test_a_norm_must_be_the_plans_where_a_transform_stands_between():
    """PureDP counts records, Laplace l1 distance: through a map of stability 5 the latter pays five times as much."""
    stability = {("records", "records"): 1.0, ("records", "l1"): 5.0}
    base = AccountantGraph().source("people").transform("map", reads=["people"], stability=stability)
    plan, ledger = (base.release("out", event, reads=["map"]) for event in (PureDP(1.0), Laplace(1.0)))
    assert ledger.guarantee().epsilon(0.0).upper > plan.guarantee().epsilon(0.0).upper
    with pytest.raises(RefinementError, match="norm"):
        refines(ledger, plan)


def test_graphs_about_other_things_are_refused():
    with pytest.raises(GraphError, match="replace-one"):
        refines(evolve(PLAN, adjacency=Adjacency.REPLACE_ONE), PLAN)
    with pytest.raises(GraphError, match="pinned"):
        refines(evolve(PLAN, pinned=True), PLAN)
    with pytest.raises(GraphError, match="clipped to 2"):
        refines(evolve(PLAN, assumptions=("clipped to 2",)), PLAN)


def test_a_leading_release_stays_first():
    base = AccountantGraph(pinned=True).source("batches", size=4)
    switch = base.release("switch", LazySwitchDecision(0.9, 0.1), reads=["batches"], reach=SAME, leading=True)
    plan = switch.release("draw", BoundedRange(0.1), reads=["batches"], reach=Reach(0, None))
    source, first, second = plan.nodes
    with pytest.raises(RefinementError, match="leading"):
        refines(evolve(plan, _nodes=(source, second, first)), plan)
    refines(plan, plan)
