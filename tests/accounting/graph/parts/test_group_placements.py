"""Tests of groups over the blocks of families, against every placement of the group's records, release by release.

The oracle lists each release j = 1 … n of a family, counts the changed records that it reads, and adds up. Costs are
pure (sums), quadratic (Gaussian noise), and concave ones, for which records spread over many releases cost most.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from divergences import exact_gaussian_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from hockeystick.accounting import (
    ALL,
    SAME,
    ZCDP,
    AccountantGraph,
    Adjacency,
    ApproximateDP,
    AveragedSwitchDecision,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GaussianDP,
    GraphError,
    InvalidArgumentError,
    Laplace,
    PoissonSampled,
    PoissonSampledReplace,
    PrivacyEvent,
    PureDP,
    Reach,
    Skellam,
    VisibleMixture,
    compose,
    delta,
    epsilon,
    parallel,
)
from hockeystick.accounting.graph.parts.group_placements import Window, worst


@frozen
class Concave(PrivacyEvent):
    """A pure cost that grows as d^power, so that many records at once cost less than one after the other."""

    cost: float
    power: float = 0.5
    distance: float = 1.0

    def _scaled(self, distance):
        return evolve(self, distance=self.distance * distance)

    def pure_epsilon(self):
        return self.cost * self.distance**self.power


def read(reach, j, i):
    return (reach.first is None or reach.first <= j - i) and (reach.last is None or j - i <= reach.last)


def distances(reach, cumulative, size, blocks):
    """Returns the number of changed records that each release of a family reads if a group lies in ``blocks``."""
    found = []
    for j in range(1, size + 1):
        met = [i for i in blocks if read(reach, j, i)]
        if cumulative and met:  # it reads all before the last that it may read
            met = [i for i in blocks if reach.first is None or i <= j - reach.first]
        found.append(len(met))
    return found


def placements(sizes, group):
    """All ways to put ``group`` records into the blocks of several sources."""
    places = [(s, i) for s, size in enumerate(sizes) for i in range(1, size + 1)]
    for chosen in itertools.combinations_with_replacement(places, group):
        yield [[i for s, i in chosen if s == source] for source in range(len(sizes))]


limits = st.none() | st.integers(-3, 4)
reaches = st.builds(lambda a, b: Reach(a, b) if a is None or b is None else Reach(min(a, b), max(a, b)), limits, limits)
pure = st.floats(0.1, 2.0).map(PureDP) | st.builds(Concave, st.floats(0.1, 2.0), st.sampled_from([0.0, 0.5]))


@st.composite
def family_graphs(draw, events, adjacency=None, pinned=False):
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
    if adjacency is None:
        adjacency, pinned = draw(st.sampled_from([(Adjacency.ADD_OR_REMOVE_ONE, False), (Adjacency.REPLACE_ONE, True)]))
    graph = AccountantGraph(adjacency, pinned=pinned)
    for s, size in enumerate(sizes):
        graph = graph.source(f"s{s}", size)
    rows = []
    for r in range(draw(st.integers(1, 3))):
        source, reach, event = draw(st.integers(0, len(sizes) - 1)), draw(st.none() | reaches), draw(events)
        count, cumulative = draw(st.integers(1, 3)), draw(st.booleans())
        rows.append((source, reach, event, count, cumulative))
        graph = graph.release(
            f"r{r}", event, reads=[f"s{source}"], reach=reach, count=count, cumulative=cumulative and reach is not None
        )
    return graph, sizes, rows


def charged(rows, sizes, blocks):
    """(event, distance, count) of every release that reads any of the group."""
    for source, reach, event, count, cumulative in rows:
        mine = blocks[source]
        found = [len(mine)] if reach is None else distances(reach, cumulative, sizes[source], mine)
        yield from ((event, d, count) for d in found if d)


def pure_cost(event, d):
    return event.cost * d**event.power if isinstance(event, Concave) else event.epsilon * d


@pytest.mark.statistical
@given(drawn=family_graphs(pure), group=st.integers(2, 3))
@settings(deadline=None, max_examples=50)
def test_pure_costs_are_those_of_the_worst_placement(drawn, group):
    graph, sizes, rows = drawn
    truth = max(
        math.fsum(count * pure_cost(event, d) for event, d, count in charged(rows, sizes, blocks))
        for blocks in placements(sizes, group)
    )
    found = graph.guarantee(group=group).epsilon(0.0).upper
    assert found == pytest.approx(truth, rel=1e-12) and found >= truth * (1 - 1e-14)


@pytest.mark.statistical
@given(drawn=family_graphs(st.floats(0.7, 5.0).map(Gaussian)), group=st.integers(2, 3))
@settings(deadline=None, max_examples=40)
def test_gaussian_costs_are_those_of_the_worst_placement(drawn, group):
    graph, sizes, rows = drawn
    square = max(
        math.fsum(count * (d / event.noise_multiplier) ** 2 for event, d, count in charged(rows, sizes, blocks))
        for blocks in placements(sizes, group)
    )
    found = graph.guarantee(group=group).epsilon(1e-3).upper
    if square == 0.0:
        assert found == 0.0
    elif found > 0.0:
        mu = math.sqrt(square)
        assert exact_gaussian_delta(mu, found) <= 1e-3 <= exact_gaussian_delta(mu, found * (1 - 1e-9))
    else:
        assert exact_gaussian_delta(math.sqrt(square), 0.0) <= 1e-3


@pytest.mark.statistical
@given(drawn=family_graphs(pure, Adjacency.ADD_OR_REMOVE_ONE), pinned=st.booleans())
@settings(deadline=None, max_examples=40)
def test_replacements_are_those_of_the_worst_one_or_two_blocks(drawn, pinned):
    graph, sizes, rows = drawn
    graph = evolve(graph, pinned=pinned)
    truth = max(
        math.fsum(count * pure_cost(event, d) for event, d, count in charged(rows, sizes, blocks))
        for blocks in placements(sizes, 2)
        if not pinned or any(len(mine) == 2 and mine[0] == mine[1] for mine in blocks)
    )
    found = graph.guarantee(under=Adjacency.REPLACE_ONE).epsilon(0.0).upper
    assert found == pytest.approx(truth, rel=1e-12)


@pytest.mark.statistical
@given(
    windows=st.lists(st.tuples(reaches, st.booleans(), st.booleans()), min_size=1, max_size=3),
    size=st.integers(1, 5),
    group=st.integers(1, 4),
    leading=st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_every_placement_is_dominated_by_a_kept_one_that_exists(windows, size, group, leading):
    """By the distances, release by release; where an event merges, a sum of several may take their place."""
    found = worst(tuple(Window(*row) for row in windows), size, group, leading=leading)
    exact = {}
    for blocks in itertools.combinations_with_replacement(range(1, size + 1), group):
        read_at_once = [distances(reach, cumulative, size, blocks) for reach, cumulative, _ in windows]
        exact[blocks] = [sorted(filter(None, row), reverse=True) for row in read_at_once]
    offered = [([[d for d, n in cost for _ in range(n)] for cost in one.costs], one.in_one_block) for one in found]
    for costs, one_block in offered:
        assert any(costs == own and one_block == (len(set(blocks)) == 1) for blocks, own in exact.items())
    for blocks, own in exact.items():
        assert any(
            all(map(covers, costs, own, [w[2] for w in windows]))
            for costs, one_block in offered
            if not (leading and one_block and len(set(blocks)) > 1)
        )


def covers(costs, own, superadditive):
    """Whether ``own`` fits into ``costs``: one by one, or several into one where they merge."""
    if len(own) <= len(costs) and all(a >= b for a, b in zip(costs, own, strict=False)):
        return True
    return superadditive and fits(list(costs), list(own))


def fits(room, rest):
    if not rest:
        return True
    first, *others = rest
    for i in range(len(room)):
        fresh = room[i] >= first and room[i] not in room[:i]
        if fresh and fits([*room[:i], room[i] - first, *room[i + 1 :]], others):
            return True
    return False


@given(
    windows=st.lists(st.tuples(reaches, st.booleans(), st.booleans()), min_size=1, max_size=2), group=st.integers(2, 3)
)
@settings(deadline=None, max_examples=60)
def test_a_long_family_costs_what_a_sufficiently_long_one_costs(windows, group):
    """Two that are cut at both ends alike cost the same, but for windows without an end, which grow with the size."""
    finite = [row for row in windows if row[0].first is not None and row[0].last is not None]
    rows = tuple(Window(*row) for row in finite)
    short, long = (worst(rows, size, group) for size in (60, 10**6))
    assert {one.costs for one in short} == {one.costs for one in long}


# The bound beyond what is enumerated ----------------------------------------


@given(
    windows=st.lists(st.tuples(reaches, st.booleans(), st.booleans()), min_size=1, max_size=2),
    size=st.integers(2, 5),
    group=st.integers(2, 4),
)
@settings(deadline=None, max_examples=80)
def test_the_bound_of_each_partition_covers_its_placements(windows, size, group):
    from hockeystick.accounting.graph.parts import group_placements as module

    rows = tuple(Window(*row) for row in windows)
    bounds = module._shared_out(rows, size, group)
    for blocks in itertools.combinations_with_replacement(range(1, size + 1), group):
        own = [sorted(filter(None, distances(r, c, size, blocks)), reverse=True) for r, c, _ in windows]
        assert any(
            all(
                covers([d for d, n in cost for _ in range(n)], mine, row[2])
                for cost, mine, row in zip(one.costs, own, windows, strict=True)
            )
            for one in bounds
        )
    for one in bounds:  # never worse than the whole group in one block
        for cost, row in zip(one.costs, rows, strict=True):
            most = row.reach.largest_count(size)
            assert sum(n for _, n in cost) <= min(size, most * group) and all(d <= group for d, _ in cost)


def test_too_many_placements_are_bounded_and_too_large_groups_refused():
    graph = AccountantGraph().source("s", 10**6).release("r", Concave(0.5), reads=["s"], reach=Reach(0, 9))
    few, many = (graph.guarantee(group=k) for k in (2, 12))
    assert len(few.moves) == 11  # together, or 1 … 10 blocks apart
    truth = 0.5 * 10 * 12  # 12 records, each read by ten releases alone
    assert truth <= many.epsilon(0.0).upper <= 0.5 * math.sqrt(12) * 10 * 12  # the whole group each time
    with pytest.raises(GraphError, match="give at most 40"):
        graph.guarantee(group=41)
    merging = AccountantGraph().source("s", 10**15).release("r", PureDP(1e-6), reads=["s"], reach=Reach(0, 9))
    assert merging.guarantee(group=10**4).epsilon(0.0).upper == pytest.approx(0.1)


def test_a_family_read_from_both_ends_is_bounded():
    graph = (
        AccountantGraph()
        .source("s", 10**6)
        .release("later", PureDP(1e-6), reads=["s"], reach=Reach(1))
        .release("earlier", PureDP(1e-6), reads=["s"], reach=Reach(None, -1))
    )
    assert graph.guarantee(group=3).epsilon(0.0).upper == pytest.approx(2 * 3.0)  # the truth is half of it
    with pytest.raises(GraphError, match="smaller family"):
        AccountantGraph.from_json(graph.to_json().replace("1000000", "100000000")).guarantee()


def test_the_limit_on_placements_is_shared_by_all_families():
    graph = AccountantGraph()
    for name in ("s", "t", "u"):
        graph = graph.source(name, 100).release(f"of {name}", Concave(0.5), reads=[name], reach=Reach(0, 29))
    with pytest.raises(GraphError, match="placements"):
        list(graph._moves(None).of_records({"s": 2, "t": 2, "u": 2}))
    assert len(list(graph._moves(None).of_records({"s": 2, "t": 2}))) == 31**2


# Values ----------------------------------------


@pytest.mark.parametrize("group, truth", [(1, 2.0), (2, 4.0), (3, 6.0)])
def test_a_group_costs_at_most_two_releases_per_record(group, truth):
    graph = AccountantGraph().source("s", 4).release("r", Laplace(1.0), reads=["s"], reach=Reach(0, 1))
    assert graph.guarantee(group=group).epsilon(0).upper == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("group", [1, 2, 3])
def test_a_release_with_a_reach_beyond_the_family_is_charged_once_per_block(group):
    graph = AccountantGraph().source("s", 2).release("r", Gaussian(2.0), reads=["s"], count=3, reach=Reach(1, 4))
    found = graph.guarantee(group=group).epsilon(1e-3).upper
    mu = group * math.sqrt(3) / 2
    assert exact_gaussian_delta(mu, found) <= 1e-3 <= exact_gaussian_delta(mu, found * (1 - 1e-9))


def test_separate_coins_of_two_blocks_cost_more_than_one_coin():
    """Visible coins: with probability p one access reads all records, or two accesses with separate coins read one
    each."""
    p, e = 0.01, 1.0
    graph = AccountantGraph().source("s", 9).release("r", VisibleMixture(p, PureDP(e)), reads=["s"], reach=SAME)
    guarantee = graph.guarantee(group=2)
    together, apart = p * math.tanh(e), 1 - (1 - p * math.tanh(e / 2)) ** 2
    assert len(guarantee.moves) == 2 and apart > together
    low = 1 / (1 + math.exp(e))  # one look; of two, those tell that agree
    exact = 2 * p * (1 - p) * math.tanh(e / 2) + p * p * ((1 - low) ** 2 - low**2)
    assert guarantee.delta(0.0).upper == pytest.approx(exact, rel=1e-6)


def test_replacing_a_sampled_record_is_not_a_group_of_two():
    """A release reads two changed records: one is removed and one is added."""
    event = PoissonSampled(0.1, Gaussian(1.0))
    graph = AccountantGraph().source("s", 5).release("r", event, reads=["s"], reach=SAME)
    (move,) = graph.guarantee(under=Adjacency.REPLACE_ONE).moves
    assert move.event() == PoissonSampledReplace(0.1, Gaussian(1.0))
    plain = AccountantGraph().source("s").release("r", event, reads=["s"])
    assert plain.guarantee(under=Adjacency.REPLACE_ONE).moves[0].event() == PoissonSampledReplace(0.1, Gaussian(1.0))
    # by integration: (1−q)·N(0) + q·N(1) against (1−q)·N(0) + q·N(−1)
    x = np.linspace(-12, 12, 240_001)
    zero, up, down = (stats.norm.pdf(x, m) for m in (0.0, 1.0, -1.0))
    p, q = 0.9 * zero + 0.1 * up, 0.9 * zero + 0.1 * down
    truth = integrate.trapezoid(np.maximum(p - math.exp(0.5) * q, 0.0), x)
    assert plain.guarantee(under=Adjacency.REPLACE_ONE).delta(0.5).upper == pytest.approx(truth, rel=1e-5)


def test_a_transform_loses_the_direction_of_a_replacement():
    event = PoissonSampled(0.1, Gaussian(1.0))
    graph = AccountantGraph().source("s").transform("x", reads=["s"], stability={("records", "records"): 1.0})
    (move,) = graph.release("r", event, reads=["x"]).guarantee(under=Adjacency.REPLACE_ONE).moves
    assert move.event() == parallel(*event.at(2).directions(), event.replaced(1, 1))


def test_a_release_that_leads_for_one_block_does_not_lead_for_groups():
    """A group of which one block alone meets the decision, while another block is read, perhaps before it."""
    event = AveragedSwitchDecision(0.99, (0.01, 0.02, 0.1), (0.5, 0.01, 1e-9))
    graph = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("s", 2)
    graph = graph.release("switch", event, reads=["s"], reach=Reach(1, 1), leading=True)
    graph = graph.release("other", PureDP(0.1), reads=["s"], reach=ALL)
    both = {move.label: move for move in graph.guarantee(group=2).moves}
    assert {tuple(c.leading for c in move.charges if c.node == "switch") for move in both.values()} == {
        (True,),
        (False,),
    }
    two = AccountantGraph(Adjacency.REPLACE_ONE, pinned=True).source("s", 2).source("t")
    two = two.release("switch", event, reads=["s"], reach=Reach(1, 1), leading=True)
    two = two.release("other", PureDP(0.1), reads=["t"])
    apart = [m for m in two.guarantee(group=2).moves if {c.node for c in m.charges} == {"switch", "other"}]
    assert apart and not any(charge.leading for move in apart for charge in move.charges)


def test_a_reach_beyond_exact_integers_is_refused():
    with pytest.raises(InvalidArgumentError, match="^first="):
        Reach(-(2**60), 0)


# Events that merge ----------------------------------------


SLOW = [
    DiscreteGaussian(1.2),
    Skellam(2.0),
    PoissonSampled(0.2, Gaussian(1.0)),
    PoissonSampledReplace(0.2, Gaussian(1.5)),
    compose(Gaussian(2.0), (Laplace(3.0), 2)),
]
MERGING = [
    Gaussian(1.3),
    Laplace(0.8),
    PureDP(0.7),
    ApproximateDP(0.5, 1e-3),
    GaussianDP(0.6),
    DiscreteLaplace(1.5),
    DiscreteGaussian(0.4, distance=2, coordinates=1),
    PoissonSampled(0.2, Laplace(1.0)),
    *(pytest.param(event, marks=pytest.mark.statistical) for event in SLOW),
]


@pytest.mark.parametrize("event", MERGING, ids=str)
def test_one_access_at_a_sum_costs_what_two_accesses_do(event):
    assert event.superadditive
    for s, t in ((1, 1), (1, 2)):
        once, twice = event.at(s + t), compose(event.at(s), event.at(t))
        assert once.zcdp_rho() >= twice.zcdp_rho() * (1 - 1e-12)
        assert once.pure_epsilon() >= twice.pure_epsilon() * (1 - 1e-12)
        for at in (0.0, 0.3, 1.5):
            assert delta(once, at).upper >= float(delta(twice, at, bracket=True).lower or 0.0) * (1 - 1e-6)


def test_events_whose_groups_cost_less_are_not_marked_superadditive():
    event = VisibleMixture(0.01, PureDP(1.0))
    assert not event.superadditive and not compose(event, Gaussian(1.0)).superadditive
    assert delta(event.at(2), 0.0).upper < 0.9 * delta(compose((event, 2)), 0.0).upper
    three: Any = ZCDP(0.1).at(3)
    assert ZCDP(0.1).superadditive and three.rho == pytest.approx(0.9)
    assert epsilon(ZCDP(0.9), 1e-6).upper > epsilon(compose((ZCDP(0.1), 3)), 1e-6).upper
