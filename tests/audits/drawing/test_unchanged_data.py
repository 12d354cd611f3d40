"""A target that changes its input is refused, whatever the data are and whichever audit draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hockeystick.audits import Claim, TargetError, audit, sequential_audit
from hockeystick.audits.drawing.unchanged_data import Unchanged


def clips_too_late(x: Any, rng: np.random.Generator) -> float:
    total = float(np.sum(x))
    x[:] = np.clip(x, 0.0, 1.0) if isinstance(x, np.ndarray) else [min(one, 1.0) for one in x]
    return total + rng.laplace()


def pair(as_list: bool) -> tuple[Any, Any]:
    d0, d1 = [0.5, 1000.0], [0.5]
    return (d0, d1) if as_list else (np.array(d0), np.array(d1))


@pytest.mark.parametrize("as_list", [True, False])
def test_a_target_that_clips_its_input_in_place_is_refused(as_list: bool) -> None:
    with pytest.raises(TargetError, match="changes its input: d0"):
        audit(clips_too_late, claim=Claim(1.0), neighbours=pair(as_list), samples=200, rng=1)
    with pytest.raises(TargetError, match="changes its input: d0"):
        sequential_audit(clips_too_late, claim=Claim(1.0), neighbours=pair(as_list), most_samples=200, rng=1)


def test_its_twin_that_copies_is_refuted() -> None:
    """Without noise worth the name: the sums are 999 apart, so the refutation is certain but for 1e-6."""
    found = audit(
        lambda x, rng: clips_too_late(x.copy(), rng), claim=Claim(1.0), neighbours=pair(False), samples=200, rng=1
    )

    assert found.refuted


class Cached:
    """Data whose pickle changes when they are looked at, in what is not read value by value."""

    def __getstate__(self) -> dict[str, int]:
        return {"a": 1}


def test_data_that_are_not_changed_or_not_known_pass() -> None:
    for data in (1.0, [1.0, float("nan")], np.zeros(3), {"a": [1]}, Cached(), (x for x in [1])):
        Unchanged((data, data)).check()


class Node:
    """A record that knows the one that holds it."""

    def __init__(self, value: float) -> None:
        self.value, self.parent, self.children = value, None, list[Node]()


def family() -> Node:
    parent, child = Node(1.0), Node(2.0)
    child.parent, parent.children = parent, [child]  # type: ignore[assignment]
    return parent


def test_data_that_hold_each_other_are_compared_once() -> None:
    data = family(), family()
    unchanged = Unchanged(data)
    data[0]._cache = data[0]  # type: ignore[attr-defined]
    unchanged.check()
    data[0].children[0].value = 3.0
    with pytest.raises(TargetError, match="changes its input: d0"):
        unchanged.check()


def test_a_chain_of_many_records_is_compared_without_recursion() -> None:
    data = family()
    data.links = [Node(1.0)]  # type: ignore[attr-defined]
    for _ in range(150):
        data.links.append(Node(1.0))  # type: ignore[attr-defined]
        data.links[-1].parent = data.links[-2]  # type: ignore[attr-defined]
    unchanged = Unchanged((data, 0.0))
    data._seen = 1  # type: ignore[attr-defined]
    unchanged.check()


def test_a_search_is_refused_by_a_target_that_changes_one_pair_of_many() -> None:
    from hockeystick.accounting import Adjacency
    from hockeystick.audits import RealRecords, search_neighbours

    domain = RealRecords(low=0, high=9, least=1, most=3)
    with pytest.raises(TargetError, match="changes its input"):
        search_neighbours(clips_too_late, domain, Claim(1.0), adjacency=Adjacency.REPLACE_ONE, samples=2000, rng=1)
