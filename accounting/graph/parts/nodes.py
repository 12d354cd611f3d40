"""The nodes of an accountant graph, and which members of a family each reaches."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.event import PrivacyEvent

Members = np.ndarray[Any, np.dtype[np.int64]]

_MOST_MEMBERS = 2**24  # to list the counts of


@frozen
class Reach:
    """Which members of a source family the j-th release reads: i with first ≤ j − i ≤ last (None: no limit)."""

    first: int | None = None
    last: int | None = None

    def __attrs_post_init__(self) -> None:
        for name, value in (("first", self.first), ("last", self.last)):
            if value is not None:
                validate.integer(name, value, low=-validate.MOST, high=validate.MOST)
        if self.first is not None and self.last is not None and self.first > self.last:
            raise InvalidArgumentError("last", self.last, f"is below first={self.first}", "give first ≤ last")

    def counts(self, size: int, members: Members | None = None) -> Members:
        """Returns how many of the releases 1…size read each of ``members`` (from 1; all of them if None).

        Raises:
          InvalidArgumentError: all are asked for, and they are more than 2^24.
        """
        size = validate.integer("size", size, low=1, high=validate.MOST)
        if members is None and size > _MOST_MEMBERS:
            remedy = "give the members; their counts run along straight lines between corners(size)"
            raise InvalidArgumentError("size", size, f"are more than {_MOST_MEMBERS} members to list", remedy)
        i = np.arange(1, size + 1, dtype=np.int64) if members is None else members
        low = np.ones_like(i) if self.first is None else np.maximum(1, i + self.first)
        high = np.full_like(i, size) if self.last is None else np.minimum(size, i + self.last)
        return np.maximum(0, high - low + 1)

    def corners(self, size: int) -> set[int]:
        """Returns members, first and last among them, between which ``counts`` runs along a straight line."""
        bends = {1, size}
        if self.first is not None:
            bends |= {1 - self.first, size + 1 - self.first}
        if self.last is not None:
            bends |= {size - self.last, -self.last}
        return {i for i in bends if 1 <= i <= size}

    def largest_count(self, size: int) -> int:
        """Returns the most releases that read one and the same member."""
        return int(self.counts(size, np.array(sorted(self.corners(size)), np.int64)).max())

    @property
    def is_single(self) -> bool:
        """Whether each member is read by at most one release."""
        return self.first is not None and self.first == self.last


SAME = Reach(0, 0)
"""The j-th release reads block j alone: parallel composition."""

ALL = Reach()
"""Every release reads every block: sequential composition."""


@frozen
class Source:
    """A block of data, or a family of ``size`` blocks; each record lies in one of them."""

    name: str
    size: int = 1


@frozen
class Public:
    """A value known to everybody, such as a parameter or the split declared public."""

    name: str


@frozen
class Transform:
    """A deterministic (or public-coin) map of data; unpublished.

    ``stability`` holds (norm in, norm out, factor): inputs at distance d in the first norm give outputs at distance at
    most factor·d in the second, under the graph's adjacency.
    """

    name: str
    reads: tuple[str, ...]
    stability: tuple[tuple[str, str, float], ...]


@frozen
class Release:
    """A noisy access whose outcome is published.

    ``cumulative``: the j-th release of a family reads all earlier blocks too, though only a change of a block within
    its reach makes it pay; its distance then counts the changed records of the earlier ones as well. ``leading``: it is
    the first release to tell the two worlds apart for the blocks it reads, so that which of them is likelier to give an
    outcome is fixed by a state whose law both worlds share. It is ignored where another release that the blocks reach
    stands before it, and where a group lies in several blocks. ``simulated``: its noise came from a seeded generator,
    so that whoever knows the seed can take it off again.
    """

    name: str
    reads: tuple[str, ...]
    event: PrivacyEvent
    count: int = 1
    reach: Reach | None = None
    cumulative: bool = False
    leading: bool = False
    simulated: bool = False


@frozen
class Post:
    """Post-processing of published values; free."""

    name: str
    reads: tuple[str, ...]


@frozen
class View:
    """A threat model: the published values that an adversary sees.

    An unseen release that feeds a seen value is charged as if it were seen. ``events`` names releases that cost an
    adversary of this view another event than the one they were stated with, such as the sum of many noisy messages
    for who sees the sum alone, or less noise for who knows a part of it; each is a statement of its author.
    """

    name: str
    sees: tuple[str, ...]
    events: tuple[tuple[str, PrivacyEvent], ...] = ()

    def charged(self, nodes: tuple[Node, ...]) -> tuple[Release, ...]:
        """Returns the releases that the view pays, with the events that it pays."""
        by_name = {node.name: node for node in nodes}
        reached: set[str] = set()
        pending = list(self.sees)
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending.extend(getattr(by_name[name], "reads", ()))
        other = dict(self.events)
        charged, complete = [], True
        for node in nodes:
            if isinstance(node, Release):
                if node.name not in reached:
                    complete = False  # what was not seen may still have told the worlds apart
                    continue
                event = other.get(node.name, node.event)
                charged.append(evolve(node, event=event, leading=node.leading and complete))
        return tuple(charged)

    def describe(self) -> str:
        """Returns the view in words, for a guarantee."""
        words = f"{self.name}: sees {', '.join(self.sees)}"
        return words + "".join(f"; {name} is charged as {event}" for name, event in self.events)


Node = Source | Public | Transform | Release | Post
NodeKind = TypeVar("NodeKind", Source, Public, Transform, Release, Post)
