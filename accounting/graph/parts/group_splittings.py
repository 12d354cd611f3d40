"""The splittings of a group of changed records over sources and blocks, and the blocks that can be the worst."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from hockeystick.accounting.errors import GraphError

MAX_SPLITTINGS = 10_000
MAX_GROUP = 40
_MAX_ROWS = 1000


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yields all splittings of ``total`` over ``parts`` labelled sources."""
    if not parts:
        return
    if parts == 1:  # without combinations of a range as large as the group
        yield (total,)
        return
    if math.comb(total + parts - 1, parts - 1) > MAX_SPLITTINGS:
        raise GraphError(f"group={total} over {parts} sources has too many splittings: give a smaller group")
    for bars in itertools.combinations(range(total + parts - 1), parts - 1):
        edges = (-1, *bars, total + parts - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def partitions(total: int, most_parts: int) -> list[tuple[int, ...]]:
    """Returns all splittings of ``total`` into at most ``most_parts`` unlabelled positive shares."""
    if total > MAX_GROUP:
        raise GraphError(f"group={total} over a family of blocks has too many splittings: give at most {MAX_GROUP}")

    def grow(rest: int, largest: int, room: int) -> Iterator[tuple[int, ...]]:
        if rest == 0:
            yield ()
        elif room:
            for first in range(min(rest, largest), 0, -1):
                for tail in grow(rest - first, first, room - 1):
                    yield (first, *tail)

    return list(grow(total, total, most_parts))


def maximal_rows(counts: np.ndarray[Any, Any], most: int = _MAX_ROWS) -> list[int]:
    """Returns the rows that no other row dominates, in that it is at least as large in every column.

    Raises:
      GraphError: there are more than ``most``.
    """
    unique, first = np.unique(counts, axis=0, return_index=True)
    alive = np.ones(len(unique), dtype=bool)
    chosen: list[int] = []
    while alive.any():
        if len(chosen) >= most:
            raise GraphError(
                f"a source family has more than {most} blocks none of which dominates another: give a smaller family"
            )
        best = int(np.argmax(np.where(alive, unique.sum(axis=1, dtype=float), -1)))
        chosen.append(int(first[best]))
        alive &= ~(unique <= unique[best]).all(axis=1)
    return sorted(chosen)
