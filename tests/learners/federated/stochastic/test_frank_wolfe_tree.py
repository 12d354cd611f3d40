"""Tests of the schedule of Frank-Wolfe over trees, and of the planners of its batches."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase, records_needed
from hockeystick.learners.federated.stochastic.printed_batches import (
    Sizes,
    certified_phases,
    certified_trees,
    feasible_batch,
    printed_batch,
    printed_phases,
)


def phase(trees: int, batch: int | None = None, spare: int = 0) -> TreePhase:
    b = 2**trees if batch is None else batch
    return TreePhase(
        records=records_needed(trees, b) + spare * (trees > 0), trees=trees, batch=b, scales=[1.0] * max(1, trees)
    )


def test_tree_of_depth_two_is_walked_in_pre_order():
    walked = phase(2, 16).schedule()
    assert [[step.path for step in leaf.steps] for leaf in walked] == [
        ["", "0"], ["1"], ["", "0", "00"], ["01"], ["1", "10"], ["11"],
    ]  # fmt: skip
    assert [leaf.tree for leaf in walked] == [1, 1, 2, 2, 2, 2]
    # b, b/4, b/2, b/4 in the second tree; left children read nothing
    assert [vertex.records for vertex in phase(2, 16).vertices()] == [16, 8, 16, 4, 8, 4]
    assert [step.vertex for leaf in walked for step in leaf.steps] == [0, None, 1, 2, None, None, 3, 4, None, 5]


def test_one_release_is_a_leaf_at_the_root():
    only = phase(0, 5)
    assert only.leaves() == 1 and only.used() == 5
    assert [[step.path for step in leaf.steps] for leaf in only.schedule()] == [[""]]
    assert only.scale(0) == 1.0


@pytest.mark.statistical
@given(st.integers(0, 7), st.integers(1, 5), st.integers(0, 9))
def test_counts_of_a_phase(trees, multiple, spare):
    one = phase(trees, multiple * 2**trees, spare)
    vertices = one.vertices()
    assert sum(vertex.records for vertex in vertices) == one.used() <= one.records
    assert one.used() == (one.batch * (trees + Fraction(trees * (trees + 1), 4)) if trees else one.batch)
    assert len(one.schedule()) == one.leaves() == (2 ** (trees + 1) - 2 if trees else 1)
    assert [leaf.number for leaf in one.schedule()] == list(range(1, one.leaves() + 1))
    for vertex in vertices:
        assert vertex.leaves == 2 ** (vertex.tree - vertex.depth)
        assert vertex.records * 2**vertex.depth == one.batch


@given(st.integers(1, 7))
def test_iterates_move_at_most_by_the_stated_distance(trees):
    """Oracle: the weight that is left on the parent's iterate after the leaves between."""
    schedule = phase(trees).schedule()
    vertices = phase(trees).vertices()
    left: dict[str, Fraction] = {}
    for leaf in schedule:
        for step in leaf.steps:
            if step.vertex is not None and step.depth:
                vertex = vertices[step.vertex]
                assert vertex.travel() == 2 * (1 - left[step.path[:-1]]) <= 2
            left[step.path] = Fraction(1) if step.path == "" or step.path[-1] == "1" else left[step.path[:-1]]
        for path in left:
            left[path] *= 1 - Fraction(2, leaf.number + 1)


def test_travel_of_the_depth_one_children_nears_ten_ninths():
    """2, 1.4, 1.236, 1.170, ... and 10/9 in the limit, from (k0 - 1)k0/((k0 + n - 1)(k0 + n)) by hand."""
    found = [float(v.travel()) for v in phase(7).vertices() if v.depth == 1]
    assert found[:4] == pytest.approx([2.0, 1.4, 1.23636, 1.16996], abs=1e-5)
    assert found[-1] == pytest.approx(10 / 9, abs=0.01)


@pytest.mark.parametrize(
    "changed",
    [
        {"batch": 15}, {"batch": 17}, {"batch": 0}, {"batch": True}, {"records": 13}, {"trees": -1}, {"trees": 1.5},
        {"scales": (1.0,)}, {"scales": (1.0, 0.0)}, {"scales": (1.0, float("nan"))}, {"scales": (1.0, float("inf"))},
        {"scales": 3.0}, {"trees": 0, "scales": (1.0,)},
    ],
)  # fmt: skip
def test_inconsistent_phases_are_refused(changed):
    proper = {"records": 60, "trees": 2, "batch": 16, "scales": (1.0, 2.0)}
    assert TreePhase(**proper).used() == 56
    with pytest.raises(InvalidArgumentError):
        TreePhase(**(proper | changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"clients": 0}, {"phases": (phase(0, 2),)}, {"phases": (3,)}, {"low": 1.0}, {"high": float("inf")},
        {"smoothness": -1.0}, {"noise": "none"}, {"where": "both"}, {"assignment": "public"},
        {"low": -1.7e308, "high": 1.7e308},
    ],
)  # fmt: skip
def test_inconsistent_settings_are_refused(changed):
    proper = {"clients": 3, "phases": (phase(0, 1), None, phase(0, 4)), "low": -1.0, "high": 1.0}
    assert StochSetting(**proper).span == 2.0
    with pytest.raises(InvalidArgumentError):
        StochSetting(**(proper | changed))


# --- planners -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.integers(0, 8))
def test_feasible_batch_is_the_largest(records, trees):
    batch = feasible_batch(records, trees)
    assert batch % 2**trees == 0
    assert records_needed(trees, batch) <= records < records_needed(trees, batch + 2**trees)


def test_printed_batches_need_more_than_there_is():
    """b*c(1) = 1.5b: phases 2 to 7 have no tree of depth one, 8 is the first; Corollary 1 needs thrice what exists."""
    rows = [printed_batch(p) for p in range(2, 10)]
    assert [float(row.batch) for row in rows[:7]] == pytest.approx([2, 1, 0.8889, 1, 1.28, 1.7778, 2.6122], abs=1e-4)
    assert rows[0].batch > rows[0].records
    assert [row.usable for row in rows] == [0, 0, 0, 0, 0, 0, 2, 4]
    for p in range(2, 40):
        row = printed_batch(p, corollary=True)
        assert row.needed == 3 * row.records and row.usable == 0


def test_parts_of_the_losses_that_printed_batches_read():
    """0.018, 0.071 and 0.148 of phase 14, with one, three and five trees."""
    found = [float(printed_batch(14, trees=t).needed / 2**12) for t in (1, 3, 5)]
    assert found == pytest.approx([0.018, 0.071, 0.148], abs=5e-4)


def test_certified_trees_of_a_curved_problem():
    """Golden, by hand from log2(N*epsilon*beta*sqrt(m)/(4*alpha*ln d))/2, rounded and lessened until the losses do."""
    sizes: dict[str, Any] = {"experts": 16, "epsilon": 0.3, "lipschitz": 1.2, "smoothness": 1.0}
    ns = [2 ** (p - 2) for p in range(2, 13)]
    assert [certified_trees(Sizes(clients=32, **sizes), n) for n in ns] == [0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4]
    assert [certified_trees(Sizes(clients=1, **sizes), n) for n in ns] == [0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2]


@given(
    st.integers(1, 5000), st.sampled_from([None, 0, 1, 2, 5]), st.sampled_from(["client", "server"]),
    st.floats(0, 1e6), st.floats(1e-3, 1e3), st.integers(1, 1000),
)  # fmt: skip
def test_certified_phases_fit_by_construction(rounds, trees, where, smoothness, epsilon, clients):
    sizes = Sizes(clients=clients, experts=7, epsilon=epsilon, smoothness=smoothness, where=where)
    phases = certified_phases(sizes, rounds, trees=trees)
    StochSetting(clients=clients, phases=phases)
    assert len(phases) == rounds.bit_length() - 1
    for one in phases:
        assert one.used() <= one.records
        first = 4 / (one.batch * epsilon) / (clients if where == "server" else 1)
        assert one.scales == pytest.approx([first * 2**j for j in range(1, one.trees + 1)] or [first])


def test_printed_phases_refuse_hold_or_make_one_release():
    sizes = Sizes(clients=10, experts=100, epsilon=1.0)
    with pytest.raises(InvalidArgumentError, match="phase 2"):
        printed_phases(sizes, 300)
    with pytest.raises(InvalidArgumentError, match="phase 2"):
        printed_phases(sizes, 300, corollary=True)
    held = printed_phases(sizes, 300, infeasible="hold")
    assert held[:6] == (None,) * 6
    assert [(one.batch, one.trees) for one in held[6:] if one] == [(2, 1), (4, 1)]
    released = printed_phases(sizes, 300, corollary=True, infeasible="one release")
    assert [(one.batch, one.trees) for one in released if one] == [(2**k, 0) for k in range(8)]
    with pytest.raises(InvalidArgumentError):
        printed_phases(sizes, 300, infeasible="reuse")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [{"clients": 0}, {"experts": 1}, {"epsilon": 0.0}, {"lipschitz": 0.0}, {"smoothness": -1.0}, {"where": "x"}],
)
def test_impossible_sizes_are_refused(changed):
    with pytest.raises(InvalidArgumentError):
        Sizes(**({"clients": 2, "experts": 3, "epsilon": 1.0} | changed))
