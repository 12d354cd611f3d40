"""Tests of clients' counts and the public coins of the divergence estimators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse, stats

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.learners.divergence.client_counts import ClientCounts, _keys
from hockeystick.learners.divergence.public_coins import Queries, draw_cohorts, draw_queries

Records = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30)


def counted(records: list[tuple[int, int]]) -> tuple[ClientCounts, NDArray[np.int64]]:
    dense = np.zeros((5, 4), dtype=np.int64)
    for client, symbol in records:
        dense[client, symbol] += 1
    who, what = zip(*records, strict=True)
    return ClientCounts.of_records(who, what, symbol_count=4, client_count=5), dense


@pytest.mark.statistical
@given(Records, st.sets(st.integers(0, 4), min_size=1), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_counts_are_those_of_the_records(records: list[tuple[int, int]], who: set[int], asked: list[int]) -> None:
    data, dense = counted(records)
    cohort = sorted(who)

    assert (data.clients, data.symbols) == (5, 4)
    assert (data.records() == dense.sum(axis=1)).all()
    assert (data.total() == dense.sum(axis=0)).all()
    assert (data.total(cohort) == dense[cohort].sum(axis=0)).all()
    assert (data.of_symbols(asked, cohort) == dense[cohort][:, asked]).all()
    assert (data.at(asked, [cohort] * len(asked)) == dense[cohort].sum(axis=0)[asked]).all()


@pytest.mark.statistical
@given(Records, st.integers(1, 6), st.integers(0, 99))
def test_capped_clients_keep_at_most_so_many(records: list[tuple[int, int]], most: int, seed: int) -> None:
    data, dense = counted(records)
    kept = np.asarray(data.capped(most, np.random.default_rng(seed)).table.todense())
    filled = np.asarray(data.capped(most, np.random.default_rng(seed), fill=2).table.todense())

    assert (kept <= dense).all() and (kept >= 0).all()
    assert (kept.sum(axis=1) == np.minimum(dense.sum(axis=1), most)).all()
    assert (filled.sum(axis=1) == most).all()
    assert (np.delete(filled, 2, axis=1) == np.delete(kept, 2, axis=1)).all()


Tables = st.integers(1, 5).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 6), min_size=k + 1, max_size=k + 1), min_size=1, max_size=5)
)


@pytest.mark.statistical
@settings(max_examples=80)
@given(Tables, st.integers(1, 9), st.integers(0, 2**32 - 1), st.data())
def test_a_replaced_record_changes_one_kept_record_at_most(
    table: list[list[int]], most: int, seed: int, data: st.DataObject
) -> None:
    """For the same coins, no record of another client changes, and the numbers of kept records depend only on the
    numbers of records."""
    before = np.array(table)
    filled = [tuple(cell) for cell in np.argwhere(before)]
    if not filled:
        return
    after, moved = before.copy(), data.draw(st.integers(1, 3))
    for _ in range(moved):
        client, symbol = data.draw(st.sampled_from([tuple(cell) for cell in np.argwhere(after)]))
        after[client, symbol] -= 1
        after[client, data.draw(st.integers(0, before.shape[1] - 1))] += 1
    kept = [
        np.asarray(ClientCounts(sparse.csr_array(own)).capped(most, np.random.default_rng(seed)).table.todense())
        for own in (before, after)
    ]
    change = np.abs(kept[0] - kept[1]).sum(axis=1) // 2
    touched = np.abs(before - after).sum(axis=1) // 2

    assert (kept[0].sum(axis=1) == np.minimum(before.sum(axis=1), most)).all()
    assert (change <= touched).all()


def test_coupled_caps_of_large_tables() -> None:
    """One draw of random words for each client in turn moved 67 of 150 kept records, in other clients too."""
    rng = np.random.default_rng(0)
    who, changes = np.repeat(np.arange(30), 40), []
    for seed in range(60):
        first = rng.integers(0, 4, len(who))
        second = first.copy()
        second[0] = (second[0] + 1) % 4
        kept = [
            ClientCounts.of_records(who, own, symbol_count=4).capped(5, np.random.default_rng(seed)).table.todense()
            for own in (first, second)
        ]
        change = np.abs(np.asarray(kept[0]) - np.asarray(kept[1])).sum(axis=1) // 2
        assert change[0] <= 1 and not change[1:].any()
        changes.append(int(change[0]))

    assert 0 < sum(changes) < 60


def test_capping_draws_the_same_number_of_words_for_all_data() -> None:
    """So the next draws from the same generator do not depend on the data either."""
    tables = [np.array([[9, 0, 1], [3, 3, 3]]), np.array([[0, 1, 0], [0, 0, 2]]), np.array([[99, 99, 99]])]
    later = []
    for table in tables:
        rng = np.random.default_rng(3)
        ClientCounts(sparse.csr_array(table)).capped(4, rng)
        later.append(rng.random(3).tolist())

    assert later[0] == later[1] == later[2]


@pytest.mark.parametrize("piece", [1, 3, 7])
def test_capping_in_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    data = ClientCounts(sparse.csr_array(rng.integers(0, 5, size=(6, 4))))
    whole = data.capped(3, np.random.default_rng(1)).table.todense()
    monkeypatch.setattr("hockeystick.learners.divergence.client_counts._PIECE", piece)

    assert (data.capped(3, np.random.default_rng(1)).table.todense() == whole).all()


@pytest.mark.parametrize(
    ("counter", "key", "known"),
    [
        ((0, 0, 0, 0), (0, 0), 0xE169C58D6627E8D5),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, 0x41C83B0E408F276D),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), 0x94FDCCEBD16CFE09),
    ],
)
def test_keys_are_those_of_the_published_generator(counter: tuple[int, ...], key: tuple[int, int], known: int) -> None:
    """The test vectors of Random123: Philox 4x32 with ten rounds."""
    client = np.array([counter[2] | counter[3] << 32], dtype=np.uint64)
    found = _keys(key[0] | key[1] << 32, np.array([counter[0]]), np.array([counter[1]]), client)  # type: ignore[arg-type]

    assert int(found[0]) == known


@pytest.mark.statistical
def test_capped_records_are_a_uniform_choice() -> None:
    """Two of four records, 2000 times; a chi-square test that fails by chance with probability 1e-6."""
    data, rng = ClientCounts.of_records([0] * 4, [0, 1, 2, 2], symbol_count=3), np.random.default_rng(2)
    drawn = [tuple(data.capped(2, rng).total().tolist()) for _ in range(2000)]
    law = {(1, 1, 0): 1 / 6, (1, 0, 1): 2 / 6, (0, 1, 1): 2 / 6, (0, 0, 2): 1 / 6}
    counts = [drawn.count(kept) for kept in law]

    assert sum(counts) == 2000
    assert stats.chisquare(counts, [2000 * p for p in law.values()]).pvalue > 1e-6


def test_neighbours_keep_every_clients_number_of_records() -> None:
    data, dense = counted([(0, 0), (0, 1), (1, 1), (2, 3), (2, 3)])
    found = list(data.neighbours())

    assert len(found) == 3 * 4  # four cells are filled; each of their records can go to three others
    for other in found:
        assert (other.records() == data.records()).all()
        moved = np.asarray(other.table.todense()) - dense
        assert np.abs(moved).sum() == 2 and (moved.sum(axis=1) == 0).all()


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.ones((2, 2), dtype=int), "not a sparse matrix"),
        (sparse.csr_array(np.ones((2, 2))), "whole numbers"),
        (sparse.csr_array(np.array([[1, -1]])), "outside 0"),
        (sparse.csr_array(np.array([[1], [2]])), "too small"),
    ],
)
def test_bad_tables_are_refused(table: object, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        ClientCounts(table)


def test_bad_records_are_refused() -> None:
    for clients, symbols, reason in (
        ([0, 1], [0], "another shape"),
        ([0, 1], [0, 4], "outside 0"),
        ([-1], [0], "outside 0"),
        ([0.5], [0], "whole numbers"),
        ([True], [0], "whole numbers"),
    ):
        with pytest.raises(InvalidArgumentError, match=reason):
            ClientCounts.of_records(clients, symbols, symbol_count=4)
    data, _ = counted([(0, 0)])
    for cohort in ([], [0, 0], [5]):
        with pytest.raises(InvalidArgumentError, match="cohort"):
            data.total(cohort)
    with pytest.raises(InvalidArgumentError, match="one for each"):
        data.at([0, 1], [[0]])


@pytest.mark.statistical
@pytest.mark.parametrize("samples", [1, 5, 4000])
def test_queries_follow_the_reference(samples: int) -> None:
    """Both ways of drawing; a fixed seed, and a test that would fail by chance with probability 1e-6."""
    rng = np.random.default_rng(11)
    pi = rng.dirichlet(np.ones(20))
    pi[-1] = 1.0 - pi[:-1].sum()
    runs = 10_000 // samples + 1
    total = np.zeros(20)
    for _ in range(runs):
        found = draw_queries(pi, samples, rng)
        assert found.samples == samples and (found.counts > 0).all() and (np.diff(found.symbols) > 0).all()
        total += found.weights(20) * samples
    expected = pi * runs * samples

    assert stats.chisquare(total, expected * total.sum() / expected.sum()).pvalue > 1e-6
    assert stats.chisquare(total, np.roll(expected, 1) * total.sum() / expected.sum()).pvalue < 1e-6


def test_queries_in_rounds() -> None:
    found = Queries(np.array([2, 5]), np.array([3, 1])).in_rounds(np.random.default_rng(1))
    assert sorted(found) == [2, 2, 2, 5]


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_cohorts_follow_their_mode(clients: int, size: int, rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if size > clients:
        with pytest.raises(InvalidArgumentError, match="population"):
            draw_cohorts(clients, size, rng)
        return
    assert [len(c) for c in draw_cohorts(clients, size, rng, rounds=rounds)] == [size]
    independent = draw_cohorts(clients, size, rng, mode="independent", rounds=rounds)
    assert [len(np.unique(c)) for c in independent] == [size] * rounds
    if size * rounds > clients:
        with pytest.raises(InvalidArgumentError, match="too large"):
            draw_cohorts(clients, size, rng, mode="disjoint", rounds=rounds)
    else:
        disjoint = np.concatenate(draw_cohorts(clients, size, rng, mode="disjoint", rounds=rounds))
        assert len(np.unique(disjoint)) == size * rounds and disjoint.max() < clients


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="mode"):
        draw_cohorts(5, 2, np.random.default_rng(1), mode="poisson")  # type: ignore[arg-type]


def test_more_records_than_some_seconds_of_keys_are_refused_before_any_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick.learners.divergence.client_counts._keys", None)
    data = ClientCounts.of_records([0, 0], [0, 1], symbol_count=2, times=[2**25, 1])
    with pytest.raises(InvalidDataError, match="records of clients with more than 5"):
        data.capped(5, np.random.default_rng(1))
    assert (data.capped(2**26, np.random.default_rng(1)).total() == [2**25, 1]).all()  # nobody has more: no key needed


def test_cohorts_that_are_no_list_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="cohorts"):
        ClientCounts.of_records([0], [0], symbol_count=2).at([0], 0)  # type: ignore[arg-type]
