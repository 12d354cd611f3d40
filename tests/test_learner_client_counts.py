"""Clients' counts and the public coins of the divergence estimators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.client_counts import ClientCounts
from hockeystick.learners.kl_queries import Queries, draw_cohorts, draw_queries

Records = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=30)


def counted(records: list[tuple[int, int]]) -> tuple[ClientCounts, NDArray[np.int64]]:
    dense = np.zeros((5, 4), dtype=np.int64)
    for client, symbol in records:
        dense[client, symbol] += 1
    who, what = zip(*records, strict=True)
    return ClientCounts.of_records(who, what, symbol_count=4, client_count=5), dense


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


@given(Records, st.integers(1, 6), st.integers(0, 99))
def test_capped_clients_keep_at_most_so_many(records: list[tuple[int, int]], most: int, seed: int) -> None:
    data, dense = counted(records)
    kept = np.asarray(data.capped(most, np.random.default_rng(seed)).table.todense())
    filled = np.asarray(data.capped(most, np.random.default_rng(seed), fill=2).table.todense())

    assert (kept <= dense).all() and (kept >= 0).all()
    assert (kept.sum(axis=1) == np.minimum(dense.sum(axis=1), most)).all()
    assert (filled.sum(axis=1) == most).all()
    assert (np.delete(filled, 2, axis=1) == np.delete(kept, 2, axis=1)).all()


def test_capping_looks_at_one_client_only() -> None:
    """A change of one client's records leaves those that others keep as they are, for the same draws."""
    data = ClientCounts.of_records([0, 0, 1, 1, 1], [0, 1, 2, 2, 0], symbol_count=3)
    for other in data.neighbours():
        changed = np.flatnonzero((data.table - other.table).todense().any(axis=1))
        both = [each.capped(2, np.random.default_rng(1)).table for each in (data, other)]
        kept = np.flatnonzero((both[0] - both[1]).todense().any(axis=1))
        assert len(changed) == 1 and set(kept) <= set(changed)


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
        (np.ones((2, 2), dtype=int), "no sparse matrix"),
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
def test_cohorts(clients: int, size: int, rounds: int, seed: int) -> None:
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
