"""Tests of threat models as views of a graph, and of guarantees under another neighbouring relation."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import (
    NO_EVENT,
    ZCDP,
    AccountantGraph,
    Adjacency,
    Gaussian,
    GraphError,
    Guarantee,
    InvalidArgumentError,
    Laplace,
    LazySwitchDecision,
    MixtureOfGaussians,
    PoissonSampled,
    PoissonSampledReplace,
    PureDP,
    Reach,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    compose,
    epsilon,
    parallel,
)

DELTA = 1e-6


def clients() -> AccountantGraph:
    """Two clients send noisy messages; the server publishes their sum, and later the first message."""
    return (
        AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True)
        .source("clients", size=2)
        .release("messages", Gaussian(2.0), reads=["clients"], reach=Reach(0, 0))
        .release("audit log", PureDP(0.3), reads=["clients"], reach=Reach(0, 0))
        .post("sum", reads=["messages"])
        .post("published", reads=["sum"])
        .view("server", sees=["messages", "audit log"])
        .view("public", sees=["published"])
        .view("analyst", sees=["sum"], events={"messages": Gaussian(2.0 * math.sqrt(2))})
    )


# Views ----------------------------------------------------------------------------------------------------------------


def test_a_view_is_charged_for_seen_values_and_their_ancestors():
    graph = clients()
    assert graph.guarantee(view="server").moves == graph.guarantee().moves
    (move,) = graph.guarantee(view="public").moves
    assert move.event() == Gaussian(2.0)  # the seen value depends on the messages, but not on the log
    assert graph.epsilon_for("clients", DELTA, view="public") == epsilon(Gaussian(2.0), DELTA).upper


def test_a_view_may_state_its_own_event_for_a_release():
    (move,) = clients().guarantee(view="analyst").moves
    assert move.event() == Gaussian(2.0 * math.sqrt(2))


def test_a_guarantee_describes_its_view():
    assert clients().guarantee().threat_model == "every release is published"
    threat = clients().guarantee(view="analyst").threat_model
    assert threat.startswith("analyst: sees sum; messages is charged as Gaussian(")


def test_published_inputs_of_a_release_are_charged_to_the_view():
    graph = (
        AccountantGraph()
        .source("s")
        .release("first", Laplace(4.0), reads=["s"])
        .release("second", Laplace(8.0), reads=["s", "first"])
        .release("third", Laplace(16.0), reads=["s"])
        .view("end", sees=["second"])
        .view("third alone", sees=["third"])
    )
    assert graph.epsilon_for("s", 0.0, view="end") == 0.375
    assert graph.epsilon_for("s", 0.0, view="third alone") == 0.0625
    assert graph.epsilon_for("s", 0.0) == 0.4375


def test_a_transform_that_reads_a_value_passes_it_on_to_the_view():
    graph = (
        AccountantGraph()
        .source("s")
        .release("centre", Laplace(4.0), reads=["s"])
        .transform("centred", reads=["s", "centre"], stability={("records", "l2"): 1.0})
        .release("spread", Gaussian(3.0), reads=["centred"])
        .view("spread", sees=["spread"])
    )
    (move,) = graph.guarantee(view="spread").moves
    assert {charge.node for charge in move.charges} == {"centre", "spread"}


def test_an_unseen_release_before_it_takes_the_lead_away():
    decision = LazySwitchDecision(0.9, 0.5)
    graph = AccountantGraph().source("s")
    first = graph.release("decision", decision, reads=["s"], leading=True).view("v", sees=["decision"])
    later = graph.release("state", PureDP(0.1), reads=["s"]).release("decision", decision, reads=["s"], leading=True)
    later = later.view("v", sees=["decision"])
    assert first.guarantee(view="v").moves[0].charges[0].leading
    assert not later.guarantee(view="v").moves[0].charges[0].leading


@pytest.mark.statistical
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_larger_view_costs_more(data):
    graph = AccountantGraph().source("a").source("b")
    names: list[str] = []
    for i in range(data.draw(st.integers(1, 6))):
        reads = data.draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, unique=True))
        reads += data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        if i and data.draw(st.booleans()):
            graph = graph.post(f"n{i}", reads=[data.draw(st.sampled_from(names))])
        else:
            graph = graph.release(f"n{i}", PureDP(data.draw(st.sampled_from([0.1, 0.5, 2.0]))), reads=reads)
        names.append(f"n{i}")
    more = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    fewer = data.draw(st.lists(st.sampled_from(more), min_size=1, unique=True))
    graph = graph.view("more", sees=more).view("fewer", sees=fewer)
    everything = graph.guarantee().epsilon(0.0).upper
    assert graph.guarantee(view="fewer").epsilon(0.0).upper <= graph.guarantee(view="more").epsilon(0.0).upper + 1e-12
    assert graph.guarantee(view="more").epsilon(0.0).upper <= everything + 1e-12


def test_views_go_to_json_and_back():
    graph = clients()
    again = AccountantGraph.from_json(graph.to_json())
    assert again == graph and again.to_json() == graph.to_json()
    guarantee = graph.guarantee(view="analyst")
    assert Guarantee.from_json(guarantee.to_json()) == guarantee


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda g: g.view("server", sees=["sum"]), GraphError, "already"),
        (lambda g: g.view("", sees=["sum"]), InvalidArgumentError, "non-empty"),
        (lambda g: g.view("v", sees=[]), InvalidArgumentError, "empty"),
        (lambda g: g.view("v", sees=["clients"]), GraphError, "not published"),
        (lambda g: g.view("v", sees=["nobody"]), GraphError, "no node"),
        (lambda g: g.view("v", sees=["sum"], events={"sum": Gaussian(1.0)}), GraphError, "not a release"),
        (lambda g: g.view("v", sees=["sum"], events={"messages": Laplace(1.0)}), GraphError, "norm"),
        (lambda g: g.view("v", sees=["sum"], events={"messages": 3}), InvalidArgumentError, "not a privacy event"),
        (lambda g: g.guarantee(view="stranger"), GraphError, "no view"),
    ],
)
def test_bad_views_are_refused(build, error, words):
    graph = clients()
    before = graph.to_json()
    with pytest.raises(error, match=words):
        build(graph)
    assert graph.to_json() == before


def test_a_view_may_state_that_a_release_costs_nothing():
    graph = clients().view("nothing", sees=["sum"], events={"messages": NO_EVENT})
    assert graph.guarantee(view="nothing").epsilon(0.0).upper == 0.0


# Another relation -----------------------------------------------------------------------------------------------------


def blocks() -> AccountantGraph:
    return (
        AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE)
        .source("north", size=3)
        .source("south")
        .release("counts", Laplace(4.0), reads=["north"], reach=Reach(0, 0))
        .release("total", Gaussian(3.0), reads=["north", "south"])
    )


def test_a_replacement_is_a_removal_and_an_addition():
    guarantee = blocks().guarantee(under=Adjacency.REPLACE_ONE)
    costs = {move.event() for move in guarantee.moves}
    total = Gaussian(3.0).at(2)  # one evaluation at distance 2, not two at distance 1
    assert costs == {
        compose(Laplace(4.0).at(2), total),  # both in one block of the north, which costs more than in two of them
        compose(Laplace(4.0), total),  # a removal in the north and an addition in the south
    }
    assert guarantee.adjacency is Adjacency.REPLACE_ONE and guarantee.group == 1
    assert guarantee == blocks().guarantee().under(Adjacency.REPLACE_ONE)


def test_a_pinned_record_is_replaced_where_it_is():
    graph = (
        AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE, pinned=True)
        .source("a")
        .source("b")
        .release("first", Laplace(2.0), reads=["a"])
        .release("second", Laplace(8.0), reads=["b"])
    )
    assert graph.guarantee(under=Adjacency.REPLACE_ONE).epsilon(0.0).upper == 1.0
    assert graph.guarantee().epsilon(0.0).upper == 0.5


def test_replacing_is_two_steps_through_the_null_record():
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_WITH_NULL).source("a", size=2)
    graph = graph.release("r", Gaussian(2.0), reads=["a"], reach=Reach(0, None))
    guarantee = graph.guarantee(under=Adjacency.REPLACE_ONE)
    assert [move.event() for move in guarantee.moves] == [compose((Gaussian(1.0), 2))]


@pytest.mark.statistical
@given(
    scales=st.lists(st.sampled_from([1.0, 3.0]), min_size=2, max_size=4),
    reads=st.lists(st.lists(st.integers(0, 2), min_size=1, unique=True), min_size=4, max_size=4),
)
@settings(deadline=None, max_examples=40)
def test_replacing_costs_every_removal_with_every_addition(scales, reads):
    graph = AccountantGraph().source("s0").source("s1").source("s2")
    for i, scale in enumerate(scales):
        graph = graph.release(f"r{i}", Gaussian(scale), reads=[f"s{j}" for j in reads[i]])
    truth = 0.0
    for left in range(3):
        for right in range(3):
            squared = sum(((left in reads[i]) + (right in reads[i])) ** 2 / scale**2 for i, scale in enumerate(scales))
            truth = max(truth, epsilon(Gaussian(1 / math.sqrt(squared)), DELTA).upper if squared else 0.0)
    found = graph.guarantee(under=Adjacency.REPLACE_ONE).epsilon(DELTA).upper
    assert found == pytest.approx(truth, rel=1e-9)


def test_other_changes_of_relation_are_refused():
    graph = blocks()
    with pytest.raises(UnsupportedAdjacencyError, match="says nothing under local"):
        graph.guarantee(under=Adjacency.LOCAL)
    with pytest.raises(UnsupportedAdjacencyError, match="group=2"):
        graph.guarantee(under=Adjacency.REPLACE_ONE, group=2)
    replace = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("a").release("r", ZCDP(0.1), reads=["a"])
    with pytest.raises(UnsupportedAdjacencyError, match="says nothing under add-or-remove-one"):
        replace.guarantee().under(Adjacency.ADD_OR_REMOVE_ONE)
    loaded = Guarantee.from_json(graph.guarantee().to_json())
    with pytest.raises(UnsupportedAdjacencyError, match="without its graph"):
        loaded.under(Adjacency.REPLACE_ONE)
    assert loaded.under(Adjacency.ADD_OR_REMOVE_ONE) is loaded


def test_the_error_for_unpinned_replacements_names_the_remedy():
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("a").source("b")
    with pytest.raises(UnsupportedAdjacencyError, match="under=Adjacency.REPLACE_ONE"):
        graph.release("r", Laplace(1.0), reads=["a"]).guarantee()


# Secret samples -------------------------------------------------------------------------------------------------------

SAMPLED = PoissonSampled(0.1, Gaussian(1.0))


def sampling(event=SAMPLED) -> AccountantGraph:
    return AccountantGraph().source("people").release("steps", event, reads=["people"], count=20)


@pytest.mark.statistical
def test_all_samples_of_one_source_are_in_one_direction():
    tied = sampling().guarantee().epsilon(DELTA).upper
    ways = [epsilon(compose((way, 20)), DELTA).upper for way in SAMPLED.directions()]
    assert tied == max(ways)
    assert sampling().guarantee(group=2).epsilon(DELTA).upper == epsilon(compose((SAMPLED.at(2), 20)), DELTA).upper


def test_behind_a_transform_the_direction_is_free():
    graph = AccountantGraph().source("people")
    graph = graph.transform("absent", reads=["people"], stability={("records", "records"): 1.0})
    graph = graph.release("steps", SAMPLED, reads=["absent"], count=20)
    (move,) = graph.guarantee().moves
    assert move.charges[0].event == parallel(*SAMPLED.directions())
    assert graph.guarantee().epsilon(DELTA).upper > sampling().guarantee().epsilon(DELTA).upper


def test_a_transform_may_replace_a_sampled_record():
    graph = AccountantGraph().source("people")
    graph = graph.transform("renamed", reads=["people"], stability={("records", "records"): 2.0})
    (move,) = graph.release("step", SAMPLED, reads=["renamed"]).guarantee().moves
    replaced = PoissonSampledReplace(0.1, Gaussian(1.0))
    assert move.charges[0].event == parallel(*SAMPLED.at(2).directions(), replaced)


def test_a_sampled_record_can_be_replaced():
    found = sampling().guarantee(under=Adjacency.REPLACE_ONE)
    truth = epsilon(compose((PoissonSampledReplace(0.1, Gaussian(1.0)), 20)), DELTA).upper
    assert found.epsilon(DELTA).upper >= truth > sampling().guarantee().epsilon(DELTA).upper


def test_events_without_a_rule_for_a_replacement_refuse_it():
    mixture = MixtureOfGaussians((0.0, 1.0), (0.9, 0.1), 1.0)
    with pytest.raises(UnsupportedEventError, match="no rule for 1 records that leave while 1 enter"):
        sampling(mixture).guarantee(under=Adjacency.REPLACE_ONE)
