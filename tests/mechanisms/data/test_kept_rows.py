"""Tests of the rows that are kept of each person: others never change them, and she moves counts by the bound."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, UnsupportedAdjacencyError
from hockeystick.mechanisms import KeptRows

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
Table = list[tuple[str, str]]


def table(rng: np.random.Generator, people: int = 30, groups: int = 8) -> Table:
    rows = [(f"p{i}", f"g{rng.integers(groups)}") for i in range(people) for _ in range(rng.integers(1, 9))]
    return [rows[i] for i in rng.permutation(len(rows))]


def kept_of(rule: KeptRows, rows: Table, without: str) -> dict[str, list[tuple[int, str]]]:
    """The kept rows of each person but one, by their places among the person's own rows."""
    mask = rule([who for who, _ in rows], [where for _, where in rows])
    found: dict[str, list[tuple[int, str]]] = {}
    own: Counter[str] = Counter()
    for (who, where), is_kept in zip(rows, mask, strict=True):
        if is_kept and who != without:
            found.setdefault(who, []).append((own[who], where))
        own[who] += 1
    return found


@pytest.mark.parametrize("groups", [None, 2])
def test_rows_of_others_are_kept_whatever_a_person_does(groups: int | None) -> None:
    rng, rule = np.random.default_rng(1), KeptRows(3, groups=groups)
    for _ in range(20):
        rows = table(rng)
        before = kept_of(rule, rows, "p3")
        others = [row for row in rows if row[0] != "p3"]
        assert kept_of(rule, others, "p3") == before
        moved = list(others)
        for _ in range(6):  # in groups that nobody else is in, and at other places of the file
            moved.insert(int(rng.integers(len(moved) + 1)), ("p3", f"a{rng.integers(99)}"))
        assert kept_of(rule, moved, "p3") == before


@pytest.mark.parametrize(("most", "groups"), [(1, None), (3, None), (3, 2), (5, 1)])
def test_a_person_has_so_many_rows_and_groups_at_most(most: int, groups: int | None) -> None:
    rows = table(np.random.default_rng(2))
    mask = KeptRows(most, groups=groups)([who for who, _ in rows], [where for _, where in rows])
    for person in {who for who, _ in rows}:
        own = [where for who, where in rows if who == person]
        taken = [where for (who, where), kept in zip(rows, mask, strict=True) if kept and who == person]
        assert len(taken) <= most and len(set(taken)) <= (groups or most)
        if groups is None:
            assert len(taken) == min(most, len(own))
        elif len(set(own)) > groups:
            assert len(set(taken)) >= 1


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_one_person_moves_the_counts_by_the_stated_norms_which_are_attained(adjacency: Adjacency) -> None:
    rule = KeptRows(4)
    rest = table(np.random.default_rng(3), people=6, groups=3)
    names = ["g0", "g1", "g2"]

    def counts(rows: Table) -> Any:
        mask = rule([who for who, _ in rows], [where for _, where in rows])
        return np.array([sum(w == g and k for (_, w), k in zip(rows, mask, strict=True)) for g in names], dtype=float)

    largest = {"l1": 0.0, "l2": 0.0, "linf": 0.0}
    mine = [[("x", "g0")] * 6, [("x", "g0")] * 3 + [("x", "g1")] * 3, [("x", "g2")] * 5, []]
    for before in mine:
        for after in mine if adjacency is REPLACE else [[]]:
            moved = counts(rest + before) - counts(rest + after)
            for norm, order in (("l1", 1), ("l2", 2), ("linf", math.inf)):
                largest[norm] = max(largest[norm], float(np.linalg.norm(moved, order)))
    stated = rule.stability(adjacency)
    assert {norm: stated["records", norm] for norm in largest} == pytest.approx(largest)  # 4, not its root


def test_seeds_and_bad_arguments() -> None:
    rows = table(np.random.default_rng(4))
    people, where = [who for who, _ in rows], [group for _, group in rows]
    assert (KeptRows(2)(people, where) != KeptRows(2, seed=1)(people, where)).any()
    assert KeptRows(2)([], []).shape == (0,)
    with pytest.raises(UnsupportedAdjacencyError):
        KeptRows(2).stability(Adjacency.LOCAL)
    for bad in (lambda: KeptRows(0), lambda: KeptRows(2, groups=0), lambda: KeptRows(2, seed=-1)):
        with pytest.raises(InvalidArgumentError):
            bad()
    for persons, groups in ((people, where[:-1]), ([1.5], [0]), ([["a"]], [0])):
        with pytest.raises(InvalidDataError):
            KeptRows(1)(persons, groups)
