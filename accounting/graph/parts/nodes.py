"""The nodes of an accountant graph, its views, and the reach of families."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import GraphError, InvalidArgumentError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.graph.parts.hidden_states import HiddenIterates

Members = np.ndarray[Any, np.dtype[np.int64]]

_MOST_MEMBERS = 2**24  # whose counts can be listed


@frozen
class Reach:
    """The blocks of a source family that the j-th release of a family reads: those i with first ≤ j − i ≤ last.

    Attributes:
      first, last: the limits of j − i; None for no limit.

    Example:
      >>> from hockeystick.accounting import Reach
      >>> Reach(0, 2).counts(5).tolist()  # the number of releases 1 … 5 that read each of the blocks 1 … 5
      [3, 3, 3, 2, 1]
    """

    first: int | None = None
    last: int | None = None

    def __attrs_post_init__(self) -> None:
        for name, value in (("first", self.first), ("last", self.last)):
            if value is not None:
                validate.integer(name, value, low=-validate.MOST, high=validate.MOST)
        if self.first is not None and self.last is not None and self.first > self.last:
            raise InvalidArgumentError("last", self.last, f"is below first={self.first}", "give first ≤ last")

    def counts(self, size: int, members: Members | None = None) -> Members:
        """Returns the number of the releases 1 … size that read each of ``members``, by default of all blocks 1 … size.

        Raises:
          InvalidArgumentError: size is more than 2^24 and ``members`` is not given.
        """
        size = validate.integer("size", size, low=1, high=validate.MOST)
        if members is None and size > _MOST_MEMBERS:
            remedy = "give the members; their counts are linear between the members corners(size)"
            raise InvalidArgumentError("size", size, f"is more than the {_MOST_MEMBERS} members to list", remedy)
        low, high = self.ends(size, np.arange(1, size + 1, dtype=np.int64) if members is None else members)
        counts: Members = np.maximum(0, high - low + 1)
        return counts

    def ends(self, size: int, blocks: Members) -> tuple[Members, Members]:
        """Returns the first and the last release that read each of ``blocks``; last < first if there is none."""
        low = np.ones_like(blocks) if self.first is None else np.maximum(1, blocks + self.first)
        high = np.full_like(blocks, size) if self.last is None else np.minimum(size, blocks + self.last)
        return low, high

    def corners(self, size: int) -> set[int]:
        """Returns members between which ``counts`` is linear, the first and the last one included."""
        bends = {1, size}
        if self.first is not None:
            bends |= {1 - self.first, size + 1 - self.first}
        if self.last is not None:
            bends |= {size - self.last, -self.last}
        return {i for i in bends if 1 <= i <= size}

    def largest_count(self, size: int) -> int:
        """Returns the largest number of releases that read the same member."""
        return int(self.counts(size, np.array(sorted(self.corners(size)), np.int64)).max())

    @property
    def is_single(self) -> bool:
        """Whether at most one release reads each member."""
        return self.first is not None and self.first == self.last


SAME = Reach(0, 0)
"""The j-th release reads only block j: parallel composition. See ``View`` for an example."""

ALL = Reach()
"""Every release reads every block: sequential composition. See ``View`` for an example of another reach."""


@frozen
class Source:
    """A block of data, or a family of ``size`` blocks; each record lies in one of them."""

    name: str
    size: int = 1


@frozen
class Public:
    """A public value, such as a parameter."""

    name: str


@frozen
class Transform:
    """An unpublished map of data, deterministic or with public coins.

    Attributes:
      stability: rows (norm in, norm out, factor): inputs at distance d in the first norm have outputs at distance at
        most factor·d in the second, under the graph's adjacency.
    """

    name: str
    reads: tuple[str, ...]
    stability: tuple[tuple[str, str, float], ...]


@frozen
class Release:
    """A noisy access whose outcome is published.

    Attributes:
      cumulative: whether the j-th release of a family also reads all earlier blocks. It is only charged if a block
        within its reach changes, but its distance then includes the changed records of the earlier blocks.
      leading: whether it is the first release whose law differs between the two data sets, for the blocks it reads. The
        order of the two laws then depends only on a state with the same law for both. It is ignored if another release
        that reads these blocks comes earlier, and if a group lies in several blocks.
      simulated: whether its noise came from a seeded generator, so that anybody who knows the seed can remove it.
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
    """Post-processing of published values, which is free.

    Attributes:
      hidden: the terms on which a view that sees no other part of the one release that is read pays for its last
        iterate alone.
    """

    name: str
    reads: tuple[str, ...]
    hidden: HiddenIterates | None = None


@frozen
class View:
    """A threat model: the published values that an adversary sees.

    An unseen release that feeds a seen value is charged as if it were seen, unless that value is its last iterate; see
    ``AccountantGraph.last_iterate``.

    Attributes:
      name: of the view.
      sees: the names of the values that the adversary sees.
      events: (release, event) for releases that cost this adversary another event than their own: more noise if only
        the sum of many noisy messages is seen, or less noise if a part of it is known. They are taken on trust.

    Example:
      >>> from hockeystick.accounting import SAME, AccountantGraph, Gaussian
      >>> graph = AccountantGraph().source("clients", size=400)
      >>> graph = graph.release("messages", Gaussian(1.0), reads=["clients"], reach=SAME)
      >>> graph = graph.post("sum", reads=["messages"]).view("server", sees=["messages"])
      >>> graph = graph.view("press", sees=["sum"], events={"messages": Gaussian(20.0)})
      >>> [round(graph.guarantee(view=name).epsilon(1e-6).upper, 2) for name in ("server", "press")]
      [4.89, 0.19]
    """

    name: str
    sees: tuple[str, ...]
    events: tuple[tuple[str, PrivacyEvent], ...] = ()

    def charged(self, nodes: tuple[Node, ...]) -> tuple[Release, ...]:
        """Returns the releases that the view pays for, with the events that they cost it.

        Raises:
          GraphError: a last iterate is seen, and another value that was computed from its iterates.
        """
        reached, other = self._reached(nodes), dict(self.events)
        hidden = {post.reads[0]: post.hidden for post in self.last_iterates(nodes)}
        charged, complete = [], True
        for node in nodes:
            if isinstance(node, Release):
                if node.name not in reached:
                    complete = False  # the law of an unseen release may differ between the data sets
                    continue
                event, count = other.get(node.name, node.event), node.count
                if (terms := hidden.get(node.name)) is not None:
                    event, count = terms.event(event, count), 1
                charged.append(evolve(node, event=event, count=count, leading=node.leading and complete))
        return tuple(charged)

    def last_iterates(self, nodes: tuple[Node, ...]) -> tuple[Post, ...]:
        """Returns the seen last iterates of releases whose other iterates are hidden from the view.

        Raises:
          GraphError: another value that was computed from the same iterates is seen, too.
        """
        reached = self._reached(nodes)
        readers = [node for node in nodes if node.name in reached and not isinstance(node, (Source, Public))]
        found = []
        for post in readers:
            if isinstance(post, Post) and post.hidden is not None and post.reads[0] not in self.sees:
                step = post.reads[0]
                if others := [node.name for node in readers if step in node.reads and node is not post]:
                    raise GraphError(
                        f"view {self.name!r} sees {post.name!r}, the last iterate of {step!r}, and also {others[0]!r}, "
                        f"which was computed from its iterates: let the view see {step!r}, which charges all of them, "
                        f"or let {others[0]!r} read {post.name!r}"
                    )
                found.append(post)
        return tuple(found)

    def _reached(self, nodes: tuple[Node, ...]) -> set[str]:
        """Returns the names of the nodes that the seen values were computed from, with their own."""
        by_name = {node.name: node for node in nodes}
        reached: set[str] = set()
        pending = list(self.sees)
        while pending:
            name = pending.pop()
            if name not in reached:
                reached.add(name)
                pending.extend(getattr(by_name[name], "reads", ()))
        return reached

    def describe(self, nodes: tuple[Node, ...] = ()) -> str:
        """Returns the view in words, for a guarantee of a graph of these nodes."""
        words = f"{self.name}: sees {', '.join(self.sees)}"
        words += "".join(f"; {name} is charged as {event}" for name, event in self.events)
        return words + "".join(
            f"; of the iterates of {post.reads[0]} it sees the last one alone" for post in self.last_iterates(nodes)
        )


def view_named(name: str, views: tuple[View, ...]) -> View:
    """Returns the view of that name.

    Raises:
      GraphError: there is no such view.
    """
    for view in views:
        if view.name == name:
            return view
    known = ", ".join(repr(view.name) for view in views)
    raise GraphError(f"no view {name!r}: " + (f"choose one of {known}" if known else "the graph has no views"))


Node = Source | Public | Transform | Release | Post
NodeKind = TypeVar("NodeKind", Source, Public, Transform, Release, Post)
