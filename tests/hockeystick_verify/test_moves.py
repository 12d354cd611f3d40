"""Tests of the moves of a graph: those of the accountant, or more; and graphs that are refused."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("flint")

from hockeystick.accounting import AccountantGraph, Gaussian, Laplace, Reach, VisibleMixture
from hockeystick_verify.balls import NotCoveredError
from hockeystick_verify.documents import UnusableError
from hockeystick_verify.moves import Move, moves_of

ENDS = st.none() | st.integers(-2, 3)


def ordered(ends: tuple[int | None, int | None]) -> bool:
    first, last = ends
    return first is None or last is None or first <= last


REACHES = st.tuples(ENDS, ENDS).filter(ordered)


def graph_of(size: int, reaches: list[tuple[int | None, int | None]], *, cumulative: bool = False) -> AccountantGraph:
    graph = AccountantGraph().source("d", size)
    for i, (first, last) in enumerate(reaches):
        reach = Reach(first, last)
        graph = graph.release(f"r{i}", Laplace(2.0 + i), reads=["d"], reach=reach, count=i + 1, cumulative=cumulative)
    return graph


def found(graph: AccountantGraph, group: int = 1, view: str | None = None) -> list[Move]:
    return moves_of(json.loads(graph.to_json()), view, group)


def paid(move: Any) -> Counter[tuple[str, float]]:
    """How often a move pays each release at each distance, by either program's move."""
    rows: Counter[tuple[str, float]] = Counter()
    for charge in move.charges:
        distance = getattr(charge, "distance", None)
        at = float(distance) if distance is not None else (2.0 + int(charge.node[1:])) / charge.event.noise_multiplier
        rows[charge.node, round(at, 9)] += charge.count
    return rows


def at_least(one: Counter[tuple[str, float]], other: Counter[tuple[str, float]]) -> bool:
    """Whether for each release and each t, at least as many accesses lie at a distance of t or more."""
    keys = {*one, *other}
    return all(
        sum(n for (name, d), n in one.items() if name == node and d >= t)
        >= sum(n for (name, d), n in other.items() if name == node and d >= t)
        for node, t in keys
    )


@settings(max_examples=20)
@given(st.integers(1, 7), st.lists(REACHES, min_size=1, max_size=3), st.booleans())
def test_moves_of_one_record_are_those_of_the_accountant(
    size: int, reaches: list[tuple[int | None, int | None]], cumulative: bool
) -> None:
    graph = graph_of(size, reaches, cumulative=cumulative)
    own, theirs = found(graph), graph.guarantee().moves

    assert all(move.exact for move in own)
    for move in theirs:
        assert any(paid(one) == paid(move) for one in own)
    for one in own:
        assert any(at_least(paid(move), paid(one)) for move in theirs)


@settings(max_examples=30)
@given(st.integers(2, 5), st.lists(REACHES, min_size=1, max_size=2), st.integers(2, 3), st.booleans())
def test_bounds_of_a_group_cover_each_of_its_placements(
    size: int, reaches: list[tuple[int | None, int | None]], group: int, cumulative: bool
) -> None:
    """The bound for large families, against the list of all placements of small ones."""
    from hockeystick_verify import moves as module

    graph = graph_of(size, reaches, cumulative=cumulative)
    listed = found(graph, group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_PLACEMENTS", 0)
        bounds = found(graph, group)
    assert not any(move.exact for move in bounds) or size == 1
    for move in listed:
        assert any(at_least(paid(bound), paid(move)) for bound in bounds)


def test_two_records_far_apart_meet_twice_as_many_windows() -> None:
    """Their largest count alone would undercharge windows that end on both sides."""
    graph = AccountantGraph().source("d", 1000)
    graph = graph.release("r", VisibleMixture(0.1, Laplace(0.1)), reads=["d"], reach=Reach(0, 1))
    costs = {tuple(sorted((c.distance, c.count) for c in move.charges)) for move in found(graph, 2)}

    assert costs == {((Fraction(2), 2),), ((Fraction(1), 2), (Fraction(2), 2))}  # in one block, in two


def test_distances_are_pushed_through_transforms_once() -> None:
    graph = AccountantGraph().source("a").source("b")
    graph = graph.transform("sum", reads=["a", "b"], stability={("records", "l2"): 0.5, ("records", "l1"): 2.0})
    graph = graph.transform("twice", reads=["sum"], stability={("l2", "l2"): 2.0})
    graph = graph.release("g", Gaussian(1.0), reads=["twice"]).release("l", Laplace(1.0), reads=["sum"])
    one, other = found(graph)

    assert [(c.node, c.distance, c.tied) for c in one.charges] == [("g", Fraction(1), False), ("l", Fraction(2), False)]
    assert one.charges == other.charges and len(found(graph, 3)) == 4


def test_a_view_pays_for_what_feeds_its_values_and_leads_only_with_the_first() -> None:
    graph = AccountantGraph().source("d")
    for name in ("first", "second", "third"):
        graph = graph.release(name, Laplace(1.0), reads=["d"], leading=True)
    graph = graph.post("page", reads=["second"]).view("press", sees=["page"], events={"second": Laplace(9.0)})
    (move,) = found(graph, view="press")

    assert [(c.node, c.event["noise_multiplier"], c.leading) for c in move.charges] == [("second", 9.0, False)]
    assert [c.leading for c in found(graph)[0].charges] == [True, True, True]


def test_what_is_not_covered_is_named() -> None:
    from hockeystick.accounting import Adjacency

    replaced = AccountantGraph(Adjacency.REPLACE_ONE).source("d", 2).release("r", Laplace(1.0), reads=["d"])
    with pytest.raises(NotCoveredError, match="leave their block"):
        found(replaced)
    last = AccountantGraph().source("d").release("r", Laplace(1.0), reads=["d"]).post("p", reads=["r"])
    content = json.loads(last.view("v", sees=["p"]).to_json())
    content["nodes"][2]["last_iterate"] = {}
    assert len(moves_of(content, None, 1)) == 1  # whoever sees all releases pays for all
    with pytest.raises(NotCoveredError, match="last iterate"):
        moves_of(content, "v", 1)
    many = graph_of(10**9, [(None, 0), (0, None)])
    with pytest.raises(NotCoveredError, match="families of"):
        found(many)


CHANGES: dict[str, dict[str, Any]] = {
    "an unknown kind": {"kind": "Release"},
    "a count that is no integer": {"count": 2.5},
    "a count of true": {"count": True},
    "an unknown field": {"weight": 1},
    "a node that comes later": {"reads": ["page"]},
    "a reach of floats": {"reach": {"first": 0.5, "last": 1}},
    "a mark in words": {"leading": "yes"},
    "no reads": {"reads": None},
}


@pytest.mark.parametrize("what", CHANGES)
def test_malformed_graphs_are_refused(what: str) -> None:
    graph = AccountantGraph().source("d").release("r", Laplace(1.0), reads=["d"]).post("page", reads=["r"])
    content = json.loads(graph.to_json())
    content["nodes"][1] |= CHANGES[what]
    with pytest.raises(UnusableError):
        moves_of(content, None, 1)


def test_published_data_and_unknown_views_are_refused() -> None:
    graph = AccountantGraph().source("d").release("r", Laplace(1.0), reads=["d"])
    content = json.loads(graph.to_json())
    leaking = {**content, "nodes": [*content["nodes"], {"kind": "post", "name": "p", "reads": ["d"]}]}
    seeing = {**content, "views": [{"name": "v", "sees": ["d"], "events": {}}]}
    twice = {**content, "nodes": [*content["nodes"], content["nodes"][0]]}
    for changed, view in ((leaking, None), (seeing, "v"), (twice, None), (content, "other")):
        with pytest.raises(UnusableError):
            moves_of(changed, view, 1)
