"""Neighbouring data sets: the check against an independent search over all single changes, canonical pairs, domains."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import AccountantGraph, Adjacency, Gaussian, InvalidArgumentError, Laplace
from hockeystick.audits import audit
from hockeystick.audits.neighbours.answers import Answers
from hockeystick.audits.neighbours.domains import PairsFrom, group_pairs
from hockeystick.audits.neighbours.pairs import (
    NeighbourPair,
    NotNeighboursError,
    check_neighbours,
    checked_pair,
    group_claim,
    record_distance,
    record_key,
)
from hockeystick.audits.neighbours.records import FiniteRecords, RealRecords

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
NULL, LOCAL = Adjacency.REPLACE_WITH_NULL, Adjacency.LOCAL
VALUES = "abn"  # n is null
data_sets = st.lists(st.sampled_from(VALUES), max_size=5)
relations = st.sampled_from([ADD, REPLACE, NULL])


def one_step(data: tuple[str, ...], adjacency: Adjacency) -> set[tuple[str, ...]]:
    """All data sets that one record away from ``data``: for add-or-remove-one the larger, for null the nulled ones."""
    found = set()
    for i in range(len(data) + (adjacency is ADD)):
        for value in VALUES:
            if adjacency is ADD:
                found.add((*data[:i], value, *data[i:]))
            elif adjacency is REPLACE or value == "n":
                found.add((*data[:i], value, *data[i + 1 :]))
    return found


def steps(d0: list[str], d1: list[str], adjacency: Adjacency) -> int | None:
    """The least number of steps from either data set to the other, found by breadth-first search."""
    for start, goal in ((tuple(d0), tuple(d1)), (tuple(d1), tuple(d0))):
        reached = {start}
        for count in range(6):
            if goal in reached:
                return count
            reached |= {new for data in reached for new in one_step(data, adjacency)}
            if adjacency is ADD:
                reached = {data for data in reached if len(data) <= len(goal)}
    return None


@settings(max_examples=60, deadline=None)
@given(data_sets.filter(lambda d: len(d) < 5), data_sets.filter(lambda d: len(d) < 5), relations)
def test_the_distance_is_the_least_number_of_single_changes(d0, d1, adjacency) -> None:
    assert record_distance(d0, d1, adjacency, null="n") == steps(d0, d1, adjacency)


@settings(max_examples=60, deadline=None)
@given(data_sets, data_sets, relations, st.randoms())
def test_without_an_order_it_is_that_of_the_best_order(d0, d1, adjacency, random) -> None:
    shuffled = random.sample(d1, len(d1))
    orders = [record_distance(d0, list(p), adjacency, null="n") for p in set(itertools.permutations(d1))]
    known = [order for order in orders if order is not None]

    distance = record_distance(d0, shuffled, adjacency, ordered=False, null="n")

    assert distance == (min(known) if known else None)


@pytest.mark.statistical
@settings(max_examples=100, deadline=None)
@given(data_sets, data_sets, relations, st.integers(1, 3), st.booleans())
def test_a_pair_is_checked_or_refused(d0, d1, adjacency, group, ordered) -> None:
    distance = record_distance(d0, d1, adjacency, ordered=ordered, null="n")
    if distance is not None and distance <= group:
        assert check_neighbours(d0, d1, adjacency, group=group, ordered=ordered, null="n") == distance
        assert check_neighbours(d1, d0, adjacency, group=group, ordered=ordered, null="n") == distance
        assert tuple(checked_pair(d0, d1, adjacency=adjacency, group=group, ordered=ordered, null="n")) == (d0, d1)
    else:
        with pytest.raises(NotNeighboursError, match="are not neighbours under"):
            check_neighbours(d0, d1, adjacency, group=group, ordered=ordered, null="n")


@settings(max_examples=60, deadline=None)
@given(data_sets, st.integers(0, 4), st.sampled_from(VALUES), st.data())
def test_a_change_of_one_record_makes_neighbours_also_of_arrays(data, at, value, draw) -> None:
    at = min(at, len(data))
    numbers = np.array([ord(record) for record in data], dtype=float)
    assert check_neighbours(data, [*data[:at], value, *data[at:]], ADD) == 1
    assert check_neighbours(numbers, np.insert(numbers, at, ord(value)), ADD) == 1
    rows = np.stack([numbers, -numbers], axis=1)
    assert check_neighbours(rows, np.insert(rows, at, 7.5, axis=0), ADD) == 1
    if at < len(data):
        changed = rows.copy()
        changed[at] += 0.5
        assert check_neighbours(rows, changed, REPLACE) == 1
        with pytest.raises(NotNeighboursError):
            check_neighbours(rows, changed, ADD)


@pytest.mark.parametrize(
    ("d0", "d1", "adjacency", "reason"),
    [
        ([1, 2], [1, 2, 3, 4], ADD, "differ in 2 records"),
        ([1, 2], [2, 3, 4], ADD, "has a record that the other lacks"),
        ([1, 2], [2, 1, 3], ADD, "another order"),
        ([1, 2], [1], REPLACE, "different sizes"),
        ([1, 2], [2, 1], REPLACE, "differ in 2 records"),
        ([1, 2], [1, 3], NULL, "other than null"),
        ([1, None], [None, 1], NULL, "each has a null where the other has none"),
        ([1], [True], ADD, "lacks"),
        ([1], [1.0, 2.0], ADD, "lacks"),
        (np.array([0.0]), np.array([-0.0, 1.0]), ADD, "lacks"),
        (np.zeros(2), np.zeros(3, dtype=int), ADD, "lacks"),
    ],
)
def test_pairs_that_are_not_neighbours_are_refused(d0, d1, adjacency, reason) -> None:
    with pytest.raises(NotNeighboursError, match=reason):
        check_neighbours(d0, d1, adjacency)


def test_records_of_many_kinds_are_compared_by_value() -> None:
    d0 = [{"age": 3, "x": (1.5, np.float64(2))}, (np.arange(3), "a"), 2j, float("nan"), None]
    d1 = [{"x": (1.5, np.float64(2)), "age": 3}, (np.arange(3), "a"), 2j, float("nan"), 0]

    assert check_neighbours(d0, d1, REPLACE) == 1
    assert check_neighbours(d0, d0[:4], ADD) == 1
    assert check_neighbours(3, 4, LOCAL) == 1
    assert check_neighbours("x", "x", LOCAL) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: check_neighbours([1], [2], "replace-one"),  # type: ignore[arg-type]
        lambda: check_neighbours([1], [2], REPLACE, group=0),
        lambda: check_neighbours([1], [2], REPLACE, group=True),
        lambda: check_neighbours(1, 2, LOCAL, group=2),
        lambda: check_neighbours("ab", "abc", ADD),
        lambda: check_neighbours(1, 2, ADD),
        lambda: check_neighbours([{1}], [{2}], REPLACE),
        lambda: NeighbourPair(0, 1, group=-1),
        lambda: group_claim(Gaussian(1.0), 0, 1e-6),
        lambda: group_claim("gaussian", 1, 1e-6),  # type: ignore[arg-type]
        lambda: group_claim(Gaussian(1.0), 1, 1e-6, view="all"),
        lambda: FiniteRecords(values=[1]),
        lambda: FiniteRecords(values=[1, 2], least=3, most=2),
        lambda: FiniteRecords(values=3),
        lambda: RealRecords(low=1, high=1),
        lambda: RealRecords(low=float("nan"), high=1),
        lambda: RealRecords(low=[0, 0], high=1, dimension=3),
        lambda: RealRecords(low=0, high=1, dimension=0),
        lambda: Answers(size=0),
        lambda: Answers(kind="medians"),
        lambda: Answers(sensitivity=2.0),
        lambda: Answers(low=0.5),
        lambda: Answers(low=1, high=1),
        lambda: Answers(kind="sums", sensitivity=-1.0),
        lambda: Answers().canonical(LOCAL, 1),
        lambda: Answers(high=1).check(0, 2, ADD, 1),
        lambda: Answers().check(0.5, 1.5, ADD, 1),
        lambda: Answers(size=2).check([0], [1], ADD, 1),
        lambda: group_pairs(FiniteRecords(values=[1, 2], least=3, most=3), ADD),
        lambda: group_pairs(FiniteRecords(values=[1, 2], most=3), REPLACE, group=4),
        lambda: RealRecords(low=0, high=1).check(np.array([0.0]), np.array([2.0]), REPLACE, 1),
        lambda: RealRecords(low=0, high=2, integral=True).check(np.array([0.0]), np.array([0.5]), REPLACE, 1),
        lambda: FiniteRecords(values=[1, 2], most=1).check([1], [1, 2], ADD, 1),
        lambda: FiniteRecords(values=[1, 2]).check([1], [3], REPLACE, 1),
    ],
)
def test_meaningless_settings_are_refused(call) -> None:
    with pytest.raises(InvalidArgumentError):
        call()


DOMAINS: dict[str, Any] = {
    "bits": FiniteRecords(values=(0, 1)),
    "letters": FiniteRecords(values=list("abcdefg"), least=2, most=9, null="-"),
    "multisets": FiniteRecords(values=(1, 2, 3), most=8, ordered=False),
    "numbers": RealRecords(low=0, high=1),
    "streams": RealRecords(low=0, high=1, least=4, most=4, dimension=3),
    "box": RealRecords(low=[-1.0, 0.0], high=[1.0, 5.0], dimension=2, least=1, most=9),
    "integers": RealRecords(low=-3, high=100, integral=True, null=7),
    "count": Answers(),
    "counts": Answers(size=5),
    "histogram": Answers(size=4, kind="histogram"),
    "sums": Answers(size=5, kind="sums", sensitivity=0.3, low=-1, high=1),
}


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.every(7)
def test_all_that_a_domain_makes_are_neighbours(name, adjacency, group) -> None:
    domain, rng = DOMAINS[name], np.random.default_rng(1)
    local = adjacency is LOCAL and (group > 1 or isinstance(domain, Answers))
    if local or (name == "streams" and adjacency is ADD):
        with pytest.raises(InvalidArgumentError):
            group_pairs(domain, adjacency, group=group)
        return
    pairs = group_pairs(domain, adjacency, group=group)
    assert len({record_key(tuple(pair)) for pair in pairs}) == len(pairs) >= 1
    assert all(domain.check(pair.d0, pair.d1, adjacency, group) >= 1 for pair in pairs)
    assert max(domain.check(pair.d0, pair.d1, adjacency, group) for pair in pairs) == group

    pair, distances = tuple(pairs[0]), []
    for number in range(60):
        changed = number % 6
        pair = domain.mutate(pair, rng, adjacency, group) if changed else domain.random_pair(rng, adjacency, group)
        distances.append(domain.check(*pair, adjacency, group))
    assert Counter(distances).most_common()[0][0] > 0 or name == "bits"
    assert 1 <= max(distances) <= group


@pytest.mark.parametrize("kind", ["counts", "histogram"])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("group", [1, 2])
def test_answers_are_neighbours_if_some_records_move_them_so(kind, adjacency, group) -> None:
    """All data sets of three records over all predicates' values, against the domain's own rule."""
    width = 2
    if kind == "counts":  # a record answers each query with 0 or 1
        kinds = [np.array(bits) for bits in itertools.product([0, 1], repeat=width)]
    else:
        kinds = [np.eye(width, dtype=int)[i] for i in range(width)]
    reachable = set()
    for size, used in itertools.product(range(4), range(group + 1)):
        for records in itertools.combinations_with_replacement(range(len(kinds)), size):
            total = sum((kinds[r] for r in records), np.zeros(width, dtype=int))
            ends = {
                tuple(total + sum((kinds[r] for r in move), np.zeros(width, dtype=int)))
                for move in itertools.combinations_with_replacement(range(len(kinds)), used)
            }
            start = {tuple(total)} if adjacency is ADD else ends
            reachable |= set(itertools.product(start, ends)) | set(itertools.product(ends, start))
    domain = Answers(size=width, kind=kind, high=3)
    for a in itertools.product(range(4), repeat=width):
        for b in itertools.product(range(4), repeat=width):
            try:
                accepted = domain.check(np.array(a), np.array(b), adjacency, group) <= group
            except NotNeighboursError:
                accepted = False
            if (a, b) in reachable:
                assert accepted
            elif accepted:  # only where three records are too few to reach both
                assert min(sum(a), sum(b)) > 3


def test_the_patterns_of_ding_et_al_are_among_the_canonical_ones() -> None:
    pairs = [np.stack([pair.d0, pair.d1]) for pair in group_pairs(Answers(size=5, high=4), REPLACE)]
    moves = {tuple(pair[1] - pair[0]) for pair in pairs}
    wanted = [(1, 0, 0, 0, 0), (1, -1, -1, -1, -1), (1, 1, 1, 1, 1), (1, 1, -1, -1, -1), (1, 1, 1, 1, -1)]

    assert {tuple(map(float, move)) for move in wanted} <= moves
    assert any((pair[0] == [0, 0, 1, 1, 1]).all() and (pair[1] == [1, 1, 0, 0, 0]).all() for pair in pairs)


def test_a_users_own_pairs_are_checked_too() -> None:
    domain = PairsFrom(random=lambda rng: ([1], [1, int(rng.integers(5))]), first=[([], [3])])
    assert [tuple(pair) for pair in group_pairs(domain, ADD)] == [([], [3])]
    with pytest.raises(NotNeighboursError):
        group_pairs(PairsFrom(random=lambda rng: (0, 1), first=[([], [3])]), REPLACE)

    trusted = PairsFrom(lambda rng: ("a", "ab"), first=[("a", "ab")], distance=lambda a, b: abs(len(a) - len(b)))
    assert trusted.check("a", "abc", ADD, 2) == 2
    with pytest.raises(NotNeighboursError):
        trusted.check("a", "abc", ADD, 1)


def test_a_group_claim_is_the_accountants_curve_for_the_group() -> None:
    event = Laplace(1.0)
    assert group_claim(event, 3, 0.0).epsilon == pytest.approx(3.0)
    graph = AccountantGraph().source("people").release("count", event, reads=["people"])
    assert group_claim(graph, 3, 0.0).epsilon == pytest.approx(3.0)
    gauss = group_claim(Gaussian(4.0), 2, 1e-6)
    assert gauss.points[1:] and gauss.epsilon == pytest.approx(group_claim(Gaussian(2.0), 1, 1e-6).epsilon, rel=1e-6)


def test_a_group_is_audited_at_its_own_size() -> None:
    """Fails by chance with probability at most 1e-6; half the noise is the twin that shows power."""
    pair = max(group_pairs(Answers(), ADD, group=3), key=lambda pair: abs(pair.d1 - pair.d0))
    claim = group_claim(Laplace(1.0), 3, 0.0)

    def noisy(scale):
        return lambda data, rng, runs: np.round((data + rng.laplace(scale=scale, size=runs)) * 2.0**20) / 2.0**20

    assert not audit(
        noisy(1.0), claim=claim, neighbours=(pair.d0, pair.d1), samples=4000, rng=1, confidence=1 - 1e-6
    ).refuted
    assert audit(
        noisy(0.5), claim=claim, neighbours=(pair.d0, pair.d1), samples=4000, rng=1, confidence=1 - 1e-6
    ).refuted


@attrs.frozen
class Visit:
    day: int
    place: Any


def test_records_of_attrs_classes_are_compared_field_by_field() -> None:
    assert record_key(Visit(1, [2.0])) == record_key(Visit(1, [2.0])) != record_key(Visit(1, [3.0]))
    assert record_key(Visit(1, "a")) != record_key((1, "a"))
    hash(record_key(Visit(1, [2.0])))


def test_a_pair_can_be_turned_round() -> None:
    pair = checked_pair([1, 2], [1, 2, 3], "one more", adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    turned = pair.reversed()
    assert (turned.d0, turned.d1) == (pair.d1, pair.d0)
    back = turned.reversed()
    assert (back.d0, back.d1) == (pair.d0, pair.d1)
    assert (turned.group, turned.adjacency) == (pair.group, pair.adjacency)
