"""The accountant graph: composition rules as laws, families against explicit expansion, strict files.

B10 and B11 are defects of other accountants, listed in docs/accounting.md.
"""

import itertools
import json
import math

import networkx as nx
import numpy as np
import pytest
from divergences import hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import (
    ALL,
    SAME,
    AccountantGraph,
    Adjacency,
    BoundedRange,
    Gaussian,
    GraphError,
    Guarantee,
    HockeystickError,
    InvalidArgumentError,
    Laplace,
    LazySwitchDecision,
    NonPrivate,
    Parallel,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Reach,
    Skellam,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    VisibleMixture,
    compose,
    epsilon,
)

D = 1e-6


def eps(graph, delta=D, **query):
    return graph.guarantee(**query).epsilon(delta).upper


def apart(first, second):
    """Two sources with one release each."""
    graph = AccountantGraph().source("s").source("t")
    return graph.release("a", first, reads=["s"]).release("b", second, reads=["t"])


def lazy(n, *, batch=1, eta=0.05, p=0.3):
    """The corrected event graph of private lazy multiplicative weights (Asi, Koren, Liu & Talwar 2024)."""
    c = 2 * batch * eta
    keep = (1 - p) * math.exp(-(c - batch * eta))
    later = 1 - (1 - p) * math.exp(-(c + batch * eta))
    draw = BoundedRange(2 * eta)
    return (
        AccountantGraph(Adjacency.REPLACE_ONE, pinned=True)
        .source("batches", n)
        .release(
            "decision",
            LazySwitchDecision(keep, 2 * eta, 2 * batch * eta),
            reads=["batches"],
            reach=Reach(1, 1),
            leading=True,
        )
        .release("redraw", draw, reads=["batches"], reach=Reach(1, 1), cumulative=True)
        .release("later", VisibleMixture(later, draw), reads=["batches"], reach=Reach(2), cumulative=True)
        .release("shadow", VisibleMixture(p, draw), reads=["batches"], reach=Reach(1), cumulative=True)
    )


# Composition rules ----------------------------------------


def test_sequential_parallel_and_post_processing_are_one_rule():
    both = AccountantGraph().source("s").release("a", Gaussian(2), reads=["s"]).release("b", Laplace(3), reads=["s"])
    assert eps(both) == epsilon(compose(Gaussian(2), Laplace(3)), D).upper
    assert eps(apart(Gaussian(2), Laplace(3))) == max(epsilon(Gaussian(2), D).upper, epsilon(Laplace(3), D).upper)
    assert eps(both.post("c", reads=["a", "b"])) == eps(both)


def test_a_released_value_costs_nothing_again():
    graph = AccountantGraph().source("s").release("a", Gaussian(2), reads=["s"]).source("t")
    chained = graph.release("b", Laplace(3), reads=["t", "a"])
    assert chained.epsilon_for("s", D) == epsilon(Gaussian(2), D).upper
    assert chained.epsilon_for("t", D) == epsilon(Laplace(3), D).upper


def test_paths_are_summed_before_the_event_is_evaluated():
    graph = (
        AccountantGraph()
        .source("s")
        .transform("x", reads=["s"], stability={("records", "l2"): 1.0})
        .transform("y", reads=["s"], stability={("records", "l2"): 2.0})
        .transform("z", reads=["x", "y"], stability={("l2", "l2"): 0.5})
        .release("out", Gaussian(6), reads=["z"])
    )
    assert graph.guarantee().moves[0].event() == Gaussian(6).at(1.5)
    assert graph.guarantee(group=3).moves[0].event() == Gaussian(6).at(4.5)
    both = graph.release("both", Gaussian(6), reads=["x", "y"])
    assert both.guarantee().moves[0].event(without="out") == Gaussian(6).at(3)


def test_norms_convert_upwards_only():
    graph = AccountantGraph().source("s").transform("x", reads=["s"], stability={("records", "l1"): 2.0})
    assert graph.release("g", Gaussian(1), reads=["x"]).guarantee().moves[0].event() == Gaussian(0.5)
    graph = AccountantGraph().source("s").transform("x", reads=["s"], stability={("records", "l2"): 2.0})
    with pytest.raises(UnsupportedEventError, match="'l1'"):
        graph.release("l", Laplace(1), reads=["x"]).guarantee()
    graph = AccountantGraph().source("s").transform("x", reads=["s"], stability={("records", "linf"): 2.0})
    with pytest.raises(UnsupportedEventError, match="'l2'"):
        graph.release("g", Gaussian(1), reads=["x"]).guarantee()


def test_zero_stability_and_unread_sources_cost_nothing():
    graph = AccountantGraph().source("s").transform("x", reads=["s"], stability={("records", "l2"): 0.0})
    assert eps(graph.release("g", Gaussian(1), reads=["x"])) == 0.0
    assert eps(AccountantGraph().source("s")) == 0.0
    assert eps(AccountantGraph()) == 0.0


def test_group_of_several_sources_splits_every_way():
    two = eps(apart(Gaussian(1), Gaussian(1)), group=2)
    assert two == epsilon(Gaussian(0.5), D).upper  # both in one source: 2² > 1² + 1²
    assert eps(apart(PureDP(1), PureDP(1.5)), delta=0.0, group=3) == pytest.approx(4.5)


def test_replace_one_over_blocks_must_be_pinned():
    graph = AccountantGraph(Adjacency.REPLACE_ONE).source("s", 3).release("a", PureDP(1), reads=["s"], reach=SAME)
    with pytest.raises(UnsupportedAdjacencyError, match="pinned"):
        graph.guarantee()
    with pytest.raises(UnsupportedAdjacencyError, match="pinned"):
        graph.epsilon_for("s", D, member=1)
    pinned = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("s", 3)
    assert eps(pinned.release("a", PureDP(1), reads=["s"], reach=SAME), 0.0) == 1.0


# Families ----------------------------------------


@pytest.mark.statistical
@given(
    n=st.integers(1, 14),  # no reach is longer than 9, so that further blocks repeat what there is
    limits=st.lists(st.tuples(st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4)), min_size=1, max_size=3),
)
@settings(deadline=None, max_examples=60)
def test_families_are_their_explicit_expansion(n, limits):
    reaches = [Reach(a, b) for a, b in limits if a is None or b is None or a <= b]
    family = AccountantGraph().source("s", n)
    explicit = AccountantGraph()
    for i in range(1, n + 1):
        explicit = explicit.source(f"s{i}")
    for r, reach in enumerate(reaches):
        event = PureDP(0.1 * (r + 1))
        family = family.release(f"r{r}", event, reads=["s"], reach=reach)
        for j in range(1, n + 1):
            reads = [
                f"s{i}"
                for i in range(1, n + 1)
                if (reach.first is None or reach.first <= j - i) and (reach.last is None or j - i <= reach.last)
            ]
            if reads:
                explicit = explicit.release(f"r{r}_{j}", event, reads=reads)
    for i in range(1, n + 1):
        assert family.epsilon_for("s", 0.0, member=i) == pytest.approx(explicit.epsilon_for(f"s{i}", 0.0))
    assert eps(family, 0.0) == pytest.approx(eps(explicit, 0.0))
    assert {move.event() for move in family.guarantee().moves} <= {
        move.event() for move in explicit.guarantee().moves
    } | {compose()}


@pytest.mark.parametrize("k", [2, 3])
def test_group_over_a_family_is_at_least_every_placement(k):
    n = 5
    graph = (
        AccountantGraph()
        .source("s", n)
        .release("own", PureDP(0.3), reads=["s"], reach=SAME)
        .release("past", PureDP(0.1), reads=["s"], reach=Reach(1), count=2)
    )
    worst = 0.0
    for blocks in itertools.combinations_with_replacement(range(1, n + 1), k):
        own = sum(0.3 * blocks.count(i) for i in set(blocks))
        past = sum(0.2 * sum(1 for i in blocks if i < j) for j in range(1, n + 1))
        worst = max(worst, own + past)
    assert worst <= eps(graph, 0.0, group=k) * (1 + 1e-12)
    assert eps(graph, 0.0, group=k) <= worst * 1.01


@pytest.mark.parametrize("k", [2, 3])
def test_group_of_a_cumulative_release_is_charged_for_the_whole_past(k):
    n = 5
    graph = AccountantGraph().source("s", n).release("r", PureDP(0.2), reads=["s"], reach=Reach(1, 1), cumulative=True)
    worst = 0.0
    for blocks in itertools.combinations_with_replacement(range(1, n), k):
        worst = max(worst, sum(0.2 * sum(1 for other in blocks if other <= i) for i in set(blocks)))
    assert worst <= eps(graph, 0.0, group=k) * (1 + 1e-12)
    assert eps(graph, 0.0, group=k) <= k * 0.2 * k * (1 + 1e-12)


def test_blocks_that_no_other_dominates_are_all_kept():
    graph = (
        AccountantGraph()
        .source("s", 5)
        .release("later", PureDP(0.1), reads=["s"], reach=Reach(1))
        .release("earlier", PureDP(0.5), reads=["s"], reach=Reach(None, -1))
    )
    assert eps(graph, 0.0) == pytest.approx(4 * 0.5)
    assert len(graph.guarantee().moves) == 5


def test_parallel_composition_over_blocks_and_sequential_over_all():
    graph = AccountantGraph().source("s", 1000).release("a", PureDP(0.1), reads=["s"], reach=SAME)
    assert eps(graph, 0.0) == pytest.approx(0.1)
    graph = AccountantGraph().source("s", 1000).release("a", PureDP(0.1), reads=["s"], reach=ALL)
    assert eps(graph, 0.0) == pytest.approx(100.0)


@pytest.mark.parametrize(
    "n, batch, eta, p, delta, pld, rdp",
    [
        (200, 1, 0.05, 0.3, 1e-2, 1.428, 1.447),
        (400, 1, 0.1, 0.3, 1e-2, 6.235, 5.932),
        (400, 5, 0.05, 0.3, 1e-2, 2.770, 2.719),
        (200, 1, 0.02, 0.1, 1e-6, 0.872, 0.840),
        (50, 1, 0.05, 0.3, 1e-3, 0.936, 0.935),
        (200, 1, 0.02, 0.1, 1e-3, 0.494, 0.513),
        (200, 1, 0.05, 0.3, 1e-6, 3.260, 3.009),
    ],
)
@pytest.mark.every(2)
def test_lazy_algorithm_graph_agrees_with_tabled_values(n, batch, eta, p, delta, pld, rdp):
    event = lazy(n, batch=batch, eta=eta, p=p).guarantee().event
    assert epsilon(event, delta, method="pld").upper == pytest.approx(pld, abs=6e-3)
    assert epsilon(event, delta, method="rdp").upper == pytest.approx(rdp, abs=3e-3)


def test_per_user_epsilon_decreases_to_zero_at_the_last_batch():
    graph = lazy(2000, batch=5, eta=0.01, p=0.05)
    found = [graph.epsilon_for("batches", D, member=i) for i in (1, 1000, 1900, 1999, 2000)]
    assert found == pytest.approx([1.05, 0.77, 0.35, 0.20, 0.0], abs=5e-3)
    assert eps(graph) == found[0]


def test_only_the_first_release_may_lead():
    """After another release has distinguished the data sets, the order of a decision may depend on it."""
    decision, other = LazySwitchDecision(0.3, 0.5), PureDP(0.3)

    def built(*names):
        graph = AccountantGraph().source("s")
        for name in names:
            leads = name == "decision"
            graph = graph.release(name, decision if leads else other, reads=["s"], leading=leads)
        return graph.guarantee()

    free = compose(decision, other)
    assert built("other", "decision").moves[0].event() == free
    assert built("decision", "other").moves[0].event() != free
    assert built("decision", "other").delta(0.1).upper < 0.93 * built("other", "decision").delta(0.1).upper


@pytest.mark.statistical
def test_group_privacy_of_the_lazy_algorithm():
    graph = lazy(200, batch=4, eta=0.02, p=0.2)
    found = [eps(graph, 1e-5, group=k) for k in (1, 2, 4)]
    assert found == pytest.approx([0.908, 1.932, 4.177], abs=2e-3)


def test_a_million_rounds_are_four_nodes():
    graph = lazy(10**6, eta=1e-4, p=0.003)
    guarantee = graph.guarantee()
    assert len(graph.networkx()) == 5 and len(guarantee.moves) == 1
    assert {charge.count for charge in guarantee.moves[0].charges} == {1, 10**6 - 1, 10**6 - 2}
    assert 0 < guarantee.epsilon(D).upper < 0.1


# Never below the truth ----------------------------------------


@pytest.mark.statistical
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_graph_is_at_least_the_enumerated_truth_on_random_graphs(data):
    """Random graphs of binary releases over random sources, each bit's orientation and strength chosen freely."""
    sources = [f"s{i}" for i in range(data.draw(st.integers(1, 3)))]
    graph = AccountantGraph()
    for name in sources:
        graph = graph.source(name)
    strengths = []
    for r in range(data.draw(st.integers(1, 4))):
        e = data.draw(st.floats(0.05, 1.5))
        reads = data.draw(st.lists(st.sampled_from(sources), min_size=1, unique=True))
        strengths.append((e, reads))
        graph = graph.release(f"r{r}", PureDP(e), reads=reads)
    at = data.draw(st.floats(0, 2.0))
    claim = graph.guarantee().delta(at).upper
    for name in sources:
        p = q = np.ones(1)
        for e, reads in strengths:
            if name in reads:
                strength = e * data.draw(st.floats(0, 1))
                a = 1 / (1 + math.exp(data.draw(st.sampled_from([-1, 1])) * strength))
                p, q = np.outer(p, [a, 1 - a]).ravel(), np.outer(q, [1 - a, a]).ravel()
        exact = hockey_stick(p, q, at)
        assert exact <= claim + 1e-12


def test_one_unprotected_release_leaves_no_guarantee():
    graph = (
        AccountantGraph().source("s").release("a", Gaussian(1), reads=["s"]).release("raw", NonPrivate(), reads=["s"])
    )
    assert eps(graph) == math.inf


# Contributions ----------------------------------------


def test_contributions_leave_one_out():
    graph = (
        AccountantGraph()
        .source("s")
        .release("a", Gaussian(2), reads=["s"])
        .release("b", Laplace(3), reads=["s"], count=4)
    )
    rows = {row.node: row for row in graph.guarantee().contributions(D)}
    assert rows["a"].epsilon_alone == rows["b"].epsilon_without == epsilon(Gaussian(2), D).upper
    assert rows["b"].epsilon_alone == epsilon(compose((Laplace(3), 4)), D).upper and rows["b"].count == 4
    assert graph.guarantee().worst_move(D).label == "s"


# Building refuses, and loses nothing ----------------------------------------


def test_failed_additions_leave_the_graph_as_it_was():
    """B10: composition is atomic."""
    graph = AccountantGraph().source("s").release("a", Gaussian(2), reads=["s"])
    before, cost = graph.to_json(), eps(graph)
    failing = [
        lambda: graph.source("a"),
        lambda: graph.source("t", 0),
        lambda: graph.source("", 1),
        lambda: graph.release("b", Gaussian(1), reads=["nowhere"]),
        lambda: graph.release("b", Gaussian(1), reads=["a"]),
        lambda: graph.release("b", Gaussian(1), reads=[]),
        lambda: graph.release("b", Gaussian(1), reads="s"),  # type: ignore[arg-type]
        lambda: graph.release("b", "noise", reads=["s"]),  # type: ignore[arg-type]
        lambda: graph.release("b", Gaussian(1), reads=["s"], count=0),
        lambda: graph.release("b", Gaussian(1), reads=["s"], count=1.5),  # type: ignore[arg-type]
        lambda: graph.release("b", RandomizedResponse(1.0), reads=["s"]),
        lambda: graph.post("c", reads=["s"]),
        lambda: graph.transform("x", reads=["s"], stability={}),
        lambda: graph.transform("x", reads=["s"], stability={("records", "l3"): 1}),
        lambda: graph.transform("x", reads=["s"], stability={("records", "l2"): math.nan}),
        lambda: graph.transform("x", reads=["s"], stability={("records", "l2"): -1}),
        lambda: graph.guarantee(group=0),
        lambda: graph.guarantee_for("a"),
        lambda: graph.guarantee_for("s", member=2),
        lambda: Reach(2, 1),
        lambda: AccountantGraph("replace"),  # type: ignore[arg-type]
    ]
    for attempt in failing:
        with pytest.raises(HockeystickError):
            attempt()
    assert graph.to_json() == before and eps(graph) == cost


def test_nodes_are_added_by_the_builder_methods_alone():
    """A release of a missing node would cost nothing, so no constructor accepts unchecked nodes."""
    with pytest.raises(TypeError, match="nodes"):
        AccountantGraph(nodes=GRAPH.nodes)  # type: ignore[call-arg]


def test_reach_needs_a_source_family():
    graph = AccountantGraph().source("s", 3).transform("x", reads=["s"], stability={("records", "l2"): 1.0})
    with pytest.raises(GraphError, match="reach"):
        graph.release("b", Gaussian(1), reads=["x"], reach=SAME)


# Files ----------------------------------------

GRAPH = (
    lazy(40)
    .public("split")
    .post("actions", reads=["redraw", "later", "split"])
    .transform("sum", reads=["batches"], stability={("records", "l1"): 2.0, ("records", "l2"): math.sqrt(2)})
    .release("total", compose((Gaussian(3), 2), Gaussian(9)), reads=["sum"])
)


def test_one_branch_alone_still_refuses_groups_after_a_round_trip():
    graph = AccountantGraph().source("people").release("r", Parallel((Laplace(2.0),)), reads=["people"])
    again = AccountantGraph.from_json(graph.to_json())
    assert again == graph
    for each in (graph, again):
        with pytest.raises(UnsupportedEventError):
            each.guarantee(group=2)


def test_json_round_trip_is_the_same_value_and_the_same_text():
    again = AccountantGraph.from_json(GRAPH.to_json())
    assert again == GRAPH and again.to_json() == GRAPH.to_json() and hash(again) == hash(GRAPH)
    guarantee = GRAPH.guarantee(group=2)
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


def edits():
    def change(path, value):
        def apply(data):
            *parents, last = path
            for key in parents:
                data = data[key]
            data[last] = value

        return apply

    yield "extra field", change(["nodes", 1, "colour"], "red")
    yield "top field", change(["extra"], 1)
    yield "version", change(["schema_version"], 2)
    yield "adjacency", change(["adjacency"], "cousins")
    yield "kind", change(["nodes", 0, "kind"], "os.system")
    yield "event type", change(["nodes", 1, "event", "type"], "os.system")
    yield "event type object", change(["nodes", 1, "event", "type"], {"a": 1})
    yield "event field", change(["nodes", 1, "event", "sigma"], 1)
    yield "missing field", change(["nodes", 2, "event"], {"type": "Gaussian"})
    yield "negative noise", change(["nodes", 2, "event"], {"type": "Gaussian", "noise_multiplier": -1})
    yield "noise as text", change(["nodes", 2, "event"], {"type": "Gaussian", "noise_multiplier": "inf"})
    yield "boolean noise", change(["nodes", 2, "event"], {"type": "Gaussian", "noise_multiplier": True})
    yield "reads a string", change(["nodes", 1, "reads"], "batches")
    yield "reads unknown", change(["nodes", 1, "reads"], ["nobody"])
    yield "reads numbers", change(["nodes", 1, "reads"], [1])
    yield "leading number", change(["nodes", 1, "leading"], 1)
    yield "pinned text", change(["pinned"], "yes")
    yield "count", change(["nodes", 1, "count"], 0)
    yield "nodes", change(["nodes"], {})
    yield "node", change(["nodes", 0], [])
    yield "reach", change(["nodes", 1, "reach"], {"from": 1})
    yield "stability", change(["nodes", 7, "stability"], [["records", "l2"]])
    yield "one row of stability", change(["nodes", 7, "stability"], [["records", "l2", 1.0], ["records", "l1"]])
    yield "composed", change(["nodes", 8, "event"], {"type": "Composed", "parts": [[1]]})
    deep = {"type": "PureDP", "epsilon": 1}
    for _ in range(100):
        deep = {"type": "VisibleMixture", "probability": 0.5, "event": deep}
    yield "deep", change(["nodes", 2, "event"], deep)
    yield "parts no list", change(["nodes", 8, "event"], {"type": "Composed", "parts": [7]})
    nest: list[object] = []
    for _ in range(40):
        nest = [nest]
    yield "deep lists", change(["nodes", 2, "event"], {"type": "RenyiCurve", "orders": nest, "epsilons": [1]})


@pytest.mark.parametrize("edit", [pytest.param(e, id=name) for name, e in edits()])
def test_loading_is_strict(edit):
    """B11: loading builds only listed events, and every fault is a typed error."""
    data = json.loads(GRAPH.to_json())
    edit(data)
    with pytest.raises((GraphError, InvalidArgumentError)) as caught:
        AccountantGraph.from_json(json.dumps(data))
    assert "\n" not in str(caught.value)


def test_the_networkx_view_is_acyclic():
    view = GRAPH.networkx()
    assert nx.is_directed_acyclic_graph(view)
    assert set(view.predecessors("actions")) == {"redraw", "later", "split"}
    assert view.nodes["decision"]["kind"] == "release"


@given(size=st.integers(1, 12), first=st.none() | st.integers(-15, 15), width=st.none() | st.integers(0, 20))
@settings(deadline=None)
def test_frequencies_run_straight_between_corners(size, first, width):
    last = None if width is None else (-7 if first is None else first) + width
    reach = Reach(first, last)
    counts, corners = reach.counts(size), sorted(reach.corners(size))
    assert corners[0] == 1 and corners[-1] == size
    members = np.arange(1, size + 1)
    np.testing.assert_allclose(np.interp(members, corners, counts[np.array(corners) - 1]), counts, atol=1e-9)
    assert reach.largest_count(size) == counts.max()
    np.testing.assert_array_equal(reach.counts(size, members[::2]), counts[::2])


def test_the_work_does_not_grow_with_the_size_of_a_family():
    n = 10**15
    graph = (
        AccountantGraph()
        .source("s", n)
        .release("own", PureDP(0.3), reads=["s"], reach=SAME)
        .release("past", PureDP(1e-15), reads=["s"], reach=Reach(2), cumulative=True)
    )
    assert eps(graph, 0.0) == pytest.approx(1.3)
    assert graph.epsilon_for("s", 0.0, member=n - 1) == pytest.approx(0.3)
    assert eps(graph, 0.0, group=2) == pytest.approx(2 * 0.3 + 2.0)


def test_a_window_beyond_the_family_costs_nothing():
    source = AccountantGraph().source("batches", 3)
    assert eps(source.release("late", PureDP(1.0), reads=["batches"], reach=Reach(5, 7))) == 0.0
    late = source.release("late", PureDP(1.0), reads=["batches"], reach=Reach(5, 7))
    assert late.guarantee_for("batches", group=2).epsilon(0.0).upper == 0.0
    assert eps(late.release("own", PureDP(0.25), reads=["batches"], reach=SAME), 0.0) == 0.25


def test_a_stability_is_used_where_every_input_has_its_norm():
    graph = (
        AccountantGraph()
        .source("a")
        .source("b")
        .transform("x", reads=["a"], stability={("records", "l2"): 2.0})
        .transform("y", reads=["x", "b"], stability={("l1", "l2"): 3.0, ("l2", "l2"): 5.0})
    )
    # a record of a moves x by 2 in L2 and b not at all: only the second factor applies, 5·2
    assert graph.release("g", Gaussian(20.0), reads=["y"]).guarantee_for("a").moves[0].event() == Gaussian(2.0)
    # a record of b is no change in L1 or L2
    with pytest.raises(UnsupportedEventError, match="'y' states no stability for the norms of its inputs"):
        graph.release("g", Gaussian(20.0), reads=["y"]).guarantee_for("b")


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda data: data.update(schema_version=99), "schema_version 99 is not"),
        (lambda data: data.update(adjacency="cousins"), "unknown adjacency 'cousins'"),
        (lambda data: data.update(adjacency=["replace-one"]), "unknown adjacency"),
        (lambda data: data.update(colour="red"), "colour"),
        (lambda data: data["moves"][0]["charges"][0].update(leading=1), "leading: expected true or false"),
        (lambda data: data["moves"][0]["charges"][0].update(count=0), "count"),
        (lambda data: data["moves"][0]["charges"][0].update(count=1e101), "count"),
        (lambda data: data["moves"][0].pop("label"), "label"),
    ],
)
def test_loading_a_guarantee_is_strict(edit, words):
    data = json.loads(GRAPH.guarantee().to_json())
    edit(data)
    with pytest.raises((GraphError, InvalidArgumentError), match=words):
        Guarantee.from_json(json.dumps(data))


@pytest.mark.parametrize("event", [Laplace(1.0), PoissonSampled(0.01, Gaussian(1.0)), BoundedRange(0.3), Skellam(3.0)])
def test_the_largest_count_has_a_bound_and_larger_ones_are_refused(event):
    largest = compose((event, int(1e100)))
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, arrays had no product with whole numbers above 2^63
        assert 1e90 < epsilon(largest, 1e-6).upper < math.inf
    with pytest.raises(InvalidArgumentError, match="^count="):
        compose(largest, largest)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"a": NaN}', "[" * 100_000])
@pytest.mark.parametrize("kind", [AccountantGraph, Guarantee])
def test_text_that_is_not_a_graph_or_guarantee_is_refused(kind, text):
    with pytest.raises(GraphError):
        kind.from_json(text)


@pytest.mark.parametrize("assumptions", ["values lie in [0, 1]", ["values lie in [0, 1]", 7]])
def test_assumptions_are_a_list_of_sentences(assumptions):
    with pytest.raises(InvalidArgumentError, match="^assumptions="):
        AccountantGraph(assumptions=assumptions)


def test_a_group_of_one_is_a_single_record():
    graph = AccountantGraph().source("batches", 3).release("r", PureDP(0.5), reads=["batches"], reach=ALL)
    with pytest.raises(InvalidArgumentError, match="^member=2"):
        graph.guarantee_for("batches", member=2, group=2)


def test_a_release_that_reads_no_block_does_not_shield_later_ones():
    graph = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("blocks", size=3)
    graph = graph.release("never", PureDP(1.0), reads=["blocks"], reach=Reach(7, 9))
    graph = graph.release("each", PureDP(0.5), reads=["blocks"], reach=SAME)
    assert graph.guarantee(group=2).epsilon(0.0).upper == pytest.approx(1.0)


def test_a_views_guarantee_under_another_relation_is_the_views():
    graph = AccountantGraph().source("s").release("a", PureDP(0.5), reads=["s"]).release("b", PureDP(2.0), reads=["s"])
    seen = graph.view("press", sees=["a"]).guarantee(view="press")
    assert seen.under(Adjacency.REPLACE_ONE).epsilon(0.0).upper == pytest.approx(1.0)


def test_graph_json_is_indented_and_keeps_unicode():
    text = AccountantGraph().source("Prüfung ε").to_json()
    assert "Prüfung ε" in text and text.count("\n") > 5


def test_a_release_is_a_simulation_only_if_marked():
    graph = AccountantGraph().source("s").release("r", Laplace(1.0), reads=["s"])
    assert "simulated" not in graph.to_json()
    again = AccountantGraph().source("s").release("r", Laplace(1.0), reads=["s"], simulated=True)
    assert "simulated" in again.to_json() and graph != again
