"""The sizes of d0 and d1 have to agree with the relation that the claim or the target states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import AccountantGraph, Adjacency, Laplace
from hockeystick.accounting.errors import InvalidDataError
from hockeystick.audits import Claim, audit, sequential_audit
from hockeystick.audits.targets.data_sizes import check_sizes

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def guarantee(relation: Adjacency, group: int = 1) -> Any:
    graph = AccountantGraph(relation).source("people").release("sum", Laplace(1.0), reads=["people"])
    return graph.guarantee(group=group)


class Frame:
    """A table that is no sequence, as those of data frame libraries."""

    columns = ("x",)

    def __init__(self, *rows: float) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]


REFUSED: list[tuple[Any, Any, Adjacency, int, str]] = [
    ([1, 2], [1], REPLACE, 1, "under replace-one: d0 has 1 record more"),
    (np.zeros(2), np.zeros((5, 1)), REPLACE, 1, "d1 has 3 records more"),
    (Frame(1, 2), Frame(1), REPLACE, 1, "d0 has 1 record more"),
    ([1, 2, 3], [1], ADD, 1, "under add-or-remove-one: d0 has 2 records more, for one record"),
    ([1, 2, 3, 4], [1], ADD, 2, "d0 has 3 records more, for a group of 2"),
    (Frame(1, 2), Frame(1, 3), ADD, 1, "they have as many records"),
    (["a"], ["b"], ADD, 1, "they have as many records"),
]


@pytest.mark.parametrize(("d0", "d1", "relation", "group", "reason"), REFUSED)
def test_sizes_that_contradict_the_relation_are_refused_and_the_data_not_told(
    d0: Any, d1: Any, relation: Adjacency, group: int, reason: str
) -> None:
    with pytest.raises(InvalidDataError) as caught:
        check_sizes((d0, d1), guarantee(relation, group), None)
    assert reason in str(caught.value) and caught.value.argument == "neighbours"


@pytest.mark.parametrize(
    ("d0", "d1", "relation"),
    [
        ([1, 2], [1], ADD),
        ([1, 2], [1, 3], REPLACE),
        ([5.0, 3.0], [4.0, 3.0], ADD),  # answers, it may be
        (np.array([5.0, 3.0]), np.array([4.0, 3.0]), ADD),
        (([1], [2]), ([1], [3]), ADD),  # the parts of one data set
        (Frame(1), Frame(1), ADD),
        (1.0, 2.0, REPLACE),
        ({"a": [1, 2]}, {"a": [1]}, REPLACE),
        ("ab", "abc", Adjacency.LOCAL),
    ],
)
def test_sizes_that_agree_or_are_not_known_pass(d0: Any, d1: Any, relation: Adjacency) -> None:
    check_sizes((d0, d1), guarantee(relation) if relation is not Adjacency.LOCAL else None, None)


def test_a_claim_without_relation_says_nothing_and_the_target_s_own_counts() -> None:
    class Stated:
        adjacency, group = REPLACE, 1

    check_sizes(([1, 2], [1]), Claim(1.0), object())
    with pytest.raises(InvalidDataError, match="replace-one"):
        check_sizes(([1, 2], [1]), Claim(1.0), Stated())


def noisy_sum(data: Any, rng: np.random.Generator, runs: int) -> Any:
    return np.sum(data) + rng.laplace(size=runs)


def test_every_door_checks_before_it_draws_and_tells_no_datum() -> None:
    def drawn(data: Any, rng: np.random.Generator) -> float:
        raise AssertionError("drawn")

    secret = 918273.0
    pair = ([secret, 1.0], [1.0])
    for door in (audit, sequential_audit):
        with pytest.raises(InvalidDataError, match="d0 has 1 record more") as caught:
            door(drawn, claim=guarantee(REPLACE), neighbours=pair, rng=1)
        assert "918273" not in str(caught.value) + repr(caught.value.args)
    with pytest.raises(InvalidDataError, match="d0 has 1 record more"):
        audit(drawn, claim=guarantee(REPLACE), neighbours=[([1, 2], [1, 3]), ([1, 2], [1])], rng=1)
    assert audit(noisy_sum, claim=guarantee(REPLACE), neighbours=([1], [2]), samples=40, rng=1).samples == 40
