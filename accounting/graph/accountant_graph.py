"""The accountant graph: who reads which data, how strongly, and what is published.

A record lies in a source. Changing it moves whatever is computed from it, and costs every release that the change
reaches without passing through an already published value. From that one rule follow sequential, parallel, adaptive and
group composition, local DP and free post-processing; none is a special case.

A graph is an immutable value: every builder method returns a new one, and a failing one leaves nothing behind.

Families keep it small. A source of size n stands for blocks 1…n of a partition (the batches of a stream), and a release
with a ``Reach`` for n releases, of which the j-th reads the i-th block iff first ≤ j − i ≤ last. What block i costs is
then a multiset of events with counts, however large n is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx as nx
from attrs import evolve, field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import GraphError, InvalidArgumentError, UnsupportedAdjacencyError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.graph import graph_json
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.graph.neighbour_moves import Moves, prune
from hockeystick.accounting.graph.parts.charges import EVERYTHING, Move, simulated_assumption
from hockeystick.accounting.graph.parts.nodes import (
    Node,
    NodeKind,
    Post,
    Public,
    Reach,
    Release,
    Source,
    Transform,
    View,
)

NORMS = ("records", "l1", "l2", "linf")


def _tuple_of_strings(value: Iterable[str]) -> tuple[str, ...]:
    sentences = () if isinstance(value, str) else tuple(value)
    if isinstance(value, str) or not all(isinstance(sentence, str) for sentence in sentences):
        raise InvalidArgumentError("assumptions", value, "is not a list of strings")
    return sentences


@frozen
class AccountantGraph:
    """A directed acyclic graph of sources, transforms, releases and post-processing.

    It never changes: each builder method returns a new graph, and a release whose result is dropped is in none.

    Args:
      adjacency: the neighbouring relation; every sensitivity in the graph is meant under it.
      pinned: each record stays in its block (its time step, its client). Without it replace-one over several blocks
        would move a record from one block into another, and is refused.
      assumptions: sentences that the guarantee rests on and carries along.

    Example: two statistics of the same people, one after the other.

    >>> from hockeystick.accounting import AccountantGraph, Gaussian, Laplace
    >>> graph = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"])
    >>> graph = graph.release("count", Laplace(2.0), reads=["people"])
    >>> round(graph.guarantee().epsilon(1e-6).upper, 3)
    1.304
    """

    adjacency: Adjacency = field(default=Adjacency.ADD_OR_REMOVE_ONE)
    pinned: bool = False
    assumptions: tuple[str, ...] = field(default=(), converter=_tuple_of_strings)
    nodes: tuple[Node, ...] = field(default=(), alias="_nodes")  # the builder methods check what they add
    views: tuple[View, ...] = field(default=(), alias="_views")

    @adjacency.validator
    def _adjacency_is_known(self, _: object, value: object) -> None:
        if not isinstance(value, Adjacency):
            raise InvalidArgumentError("adjacency", value, "is not an Adjacency", "use hockeystick.Adjacency")

    # Building -------------------------------------------------------------------------------------------------------

    def source(self, name: str, size: int = 1) -> AccountantGraph:
        """Adds a source of data; ``size`` > 1 makes it a family of that many disjoint blocks.

        Raises:
          GraphError: the name is taken or empty.
          InvalidArgumentError: size is no integer ≥ 1.
        """
        return self._with(Source(name, validate.integer("size", size, low=1, high=validate.MOST)))

    def public(self, name: str) -> AccountantGraph:
        """Adds a value known to everybody."""
        return self._with(Public(name))

    def transform(
        self, name: str, *, reads: list[str] | tuple[str, ...], stability: Mapping[tuple[str, str], float]
    ) -> AccountantGraph:
        """Adds an unpublished map of data.

        Args:
          reads: sources, transforms or published values; distances of several inputs add up.
          stability: {(norm in, norm out): factor} with norms among "records", "l1", "l2", "linf".

        Raises:
          GraphError: unknown input.
          InvalidArgumentError: unknown norm, or a factor that is no finite number ≥ 0.
        """
        rows = []
        for key, factor in stability.items():
            if not (isinstance(key, tuple) and len(key) == 2 and set(key) <= set(NORMS)):
                raise InvalidArgumentError("stability", key, "is no pair of norms", f"use two of {', '.join(NORMS)}")
            rows.append((key[0], key[1], validate.real(f"stability[{key}]", factor, low=0.0)))
        if not rows:
            raise InvalidArgumentError("stability", stability, "is empty", "state at least one factor")
        return self._with(Transform(name, self._inputs(name, reads), tuple(sorted(rows))))

    def release(
        self,
        name: str,
        event: PrivacyEvent,
        *,
        reads: list[str] | tuple[str, ...],
        count: int = 1,
        reach: Reach | None = None,
        cumulative: bool = False,
        leading: bool = False,
        simulated: bool = False,
    ) -> AccountantGraph:
        """Adds a published access, or a family of them.

        Args:
          event: its cost per unit of distance, in the event's norm. Read straight from a source, one changed record is
            one unit.
          reads: at least one source or transform, and any published values.
          count: how often it is repeated.
          reach: for a family; see ``Reach``. It then reads exactly one source family, directly.
          cumulative, leading, simulated: see ``Release``.

        Raises:
          GraphError: unknown input, no data among them, or a reach without a source family.
          UnsupportedAdjacencyError: the event has no meaning under the graph's adjacency.
        """
        self._check_event(name, event)
        inputs = self._inputs(name, reads)
        data = [n for n in map(self._node, inputs) if isinstance(n, (Source, Transform))]
        if not data:
            raise GraphError(f"release {name!r} reads no data: use post() for post-processing of published values")
        if reach is not None and not (len(data) == 1 and isinstance(data[0], Source)):
            raise GraphError(f"release {name!r}: a reach needs exactly one source family, read directly")
        count = validate.integer("count", count, low=1, high=validate.MOST)
        marks = bool(cumulative), bool(leading), bool(simulated)
        return self._with(Release(name, inputs, event, count, reach, *marks))

    def simulated(self) -> tuple[str, ...]:
        """Returns the names of the releases whose noise was simulated: the guarantee is that of a secure run."""
        return tuple(node.name for node in self._of(Release) if node.simulated)

    def post(self, name: str, *, reads: list[str] | tuple[str, ...]) -> AccountantGraph:
        """Adds post-processing of published values, at no cost.

        Raises:
          GraphError: an input is data, not a published value.
        """
        inputs = self._inputs(name, reads)
        for node in map(self._node, inputs):
            if isinstance(node, (Source, Transform)):
                raise GraphError(f"post {name!r} reads data from {node.name!r}: only releases and transforms may")
        return self._with(Post(name, inputs))

    def view(
        self, name: str, *, sees: list[str] | tuple[str, ...], events: Mapping[str, PrivacyEvent] | None = None
    ) -> AccountantGraph:
        """Adds a threat model, to be asked for by ``guarantee(view=name)``; see ``View``.

        Args:
          sees: the releases, posts and public values that the adversary sees.
          events: {release: event} where a release costs this adversary another event than the stated one.

        Raises:
          GraphError: the name is taken, or an unpublished node is seen.
          UnsupportedAdjacencyError: as in ``release``.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("name", name, "is not a non-empty string")
        if any(name == other.name for other in self.views):
            raise GraphError(f"there is a view {name!r} already: give this one another name")
        seen = self._inputs(name, sees)
        for node in map(self._node, seen):
            if isinstance(node, (Source, Transform)):
                raise GraphError(f"view {name!r} sees {node.name!r}, which is not published: only values are seen")
        rows = []
        for release, event in (events or {}).items():
            node = self._node(release)
            if not isinstance(node, Release):
                raise GraphError(f"view {name!r}: {release!r} is not a release")
            self._check_event(release, event)
            if event.norm != node.event.norm and event != NO_EVENT:
                raise GraphError(f"view {name!r}: {release!r} is in norm {node.event.norm!r}, not {event.norm!r}")
            rows.append((release, event))
        return evolve(self, _views=(*self.views, View(name, seen, tuple(sorted(rows, key=lambda row: row[0])))))

    def _check_event(self, release: str, event: PrivacyEvent) -> None:
        check_event(event)
        if not event.accepts(self.adjacency):
            raise UnsupportedAdjacencyError(
                f"release {release!r}: {type(event).__name__} has no meaning under {self.adjacency.value}; "
                f"state the graph's adjacency, or use an event that has"
            )

    def _with(self, node: Node) -> AccountantGraph:
        if not isinstance(node.name, str) or not node.name:
            raise InvalidArgumentError("name", node.name, "is not a non-empty string")
        if any(node.name == other.name for other in self.nodes):
            raise GraphError(f"there is a node {node.name!r} already: give this one another name")
        return evolve(self, _nodes=(*self.nodes, node))

    def _inputs(self, name: str, reads: list[str] | tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(reads, str):
            raise InvalidArgumentError("reads", reads, "is a string", "give a list of node names")
        for other in reads:
            self._node(other)
        if len(set(reads)) != len(reads) or not reads:
            raise InvalidArgumentError("reads", reads, "is empty or names a node twice")
        return tuple(reads)

    def _node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        raise GraphError(f"no node {name!r}; there are {', '.join(repr(n.name) for n in self.nodes) or 'none'}")

    def _of(self, kind: type[NodeKind]) -> tuple[NodeKind, ...]:
        return tuple(node for node in self.nodes if isinstance(node, kind))

    # Evaluating -----------------------------------------------------------------------------------------------------

    def guarantee(self, *, group: int = 1, view: str | None = None, under: Adjacency | None = None) -> Guarantee:
        """Returns what the whole graph guarantees to a group of ``group`` records.

        The worst move is found, not the sum over sources: the result is the parallel composition of all moves that the
        adjacency allows, each the sequential composition of what it reaches.

        Args:
          group: how many records may differ. Under add-or-remove-one all of them are in one data set and none in the
            other, as the records of one person are.
          view: the threat model, by the name of a ``view``; None for an adversary who sees every published value.
          under: a relation that differs from the graph's. Replace-one is reached from add-or-remove-one by two moves
            (a record leaves, another one enters, wherever each of them lies), and from replace-with-null by two moves
            in one block.

        Raises:
          UnsupportedAdjacencyError: replace-one over several blocks that are not pinned, or ``under`` can't be reached.
          GraphError: no such view, or too many moves to enumerate.
        """
        group = validate.integer("group", group, low=1, high=validate.MOST)
        if under is not None and under is not self.adjacency:
            return self._guarantee_under(under, group, view)
        self._check_pinned()
        guarantee = self._guarantee(self._moves(view).of_group(group), group, view)
        return evolve(guarantee, graph=self, view=view)

    def guarantee_for(
        self, source: str, *, member: int | None = None, group: int = 1, view: str | None = None
    ) -> Guarantee:
        """Returns what the graph guarantees to a group of records that all lie in ``source``.

        Args:
          member: one block 1…size of a family; None for the worst.
          group, view: see ``guarantee``.

        Raises:
          GraphError: no such source or view.
          InvalidArgumentError: no such member, or a member together with
            group > 1.
          UnsupportedAdjacencyError: replace-one over several blocks that are not pinned.
        """
        node = self._node(source)
        if not isinstance(node, Source):
            raise GraphError(f"{source!r} is not a source")
        self._check_pinned()
        group = validate.integer("group", group, low=1, high=validate.MOST)
        moves = self._moves(view)
        if member is None:
            return self._guarantee(moves.of_records({node.name: group}), group, view)
        if group > 1:
            raise InvalidArgumentError("member", member, "can't be combined with group > 1", "leave one of them out")
        i = validate.integer("member", member, low=1, high=node.size)
        return self._guarantee([moves.of_member(node, i - 1)], 1, view)

    def epsilon_for(self, source: str, delta: float, *, member: int | None = None, view: str | None = None) -> float:
        """Returns ε at ``delta`` for one record of ``source``."""
        return self.guarantee_for(source, member=member, view=view).epsilon(delta).upper

    def readings(self, *, view: str | None = None) -> tuple[tuple[Release, float], ...]:
        """Returns each release with the most that one record moves what it reads, in the norm of its event.

        It is 1 where a release reads a source, which is to say that its event was stated for what one record moves it
        by, under the graph's own relation; behind transforms it follows from their stability.

        Args:
          view: see ``guarantee``; releases that it does not pay for are left out.

        Raises:
          GraphError: no such view.
          UnsupportedEventError: a transform states no stability in the norm that is needed.
        """
        return tuple(self._moves(view).readings())

    def _check_pinned(self) -> None:
        blocks = sum(source.size for source in self._of(Source))
        if self.adjacency is Adjacency.REPLACE_ONE and blocks > 1 and not self.pinned:
            raise UnsupportedAdjacencyError(
                "replace-one over several blocks can take a record out of one and put it into another: "
                "set pinned=True if records stay in their block, or state the graph under add-or-remove-one and ask "
                "for guarantee(under=Adjacency.REPLACE_ONE)"
            )

    def _guarantee(self, moves: Iterable[Move], group: int, view: str | None) -> Guarantee:
        threat = EVERYTHING if view is None else self._view(view).describe()
        assumptions = self.assumptions + simulated_assumption(self.simulated())
        return Guarantee(prune(list(moves)), self.adjacency, group, assumptions, threat)

    def _guarantee_under(self, under: Adjacency, group: int, view: str | None) -> Guarantee:
        reachable = {Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL}
        if under is not Adjacency.REPLACE_ONE or self.adjacency not in reachable:
            raise UnsupportedAdjacencyError(
                f"a guarantee under {self.adjacency.value} says nothing under {getattr(under, 'value', under)}: "
                "state the graph, with its sensitivities, under the relation asked for"
            )
        if group > 1:
            raise UnsupportedAdjacencyError(
                f"group={group} together with a change of relation is not supported: state the graph under replace-one"
            )
        moves = self._moves(view, replacement=True)
        if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE and not self.pinned:
            found: Iterable[Move] = moves.of_group(2)
        else:  # the record that enters takes the place of the one that leaves
            found = (move for source in self._of(Source) for move in moves.of_one_block(source, records=2))
        return evolve(self._guarantee(found, 1, view), adjacency=under, graph=self, view=view)

    def _moves(self, view: str | None, *, replacement: bool = False) -> Moves:
        releases = self._of(Release) if view is None else self._view(view).charged(self.nodes)
        return Moves(self.nodes, releases, replacement)

    def _view(self, name: str) -> View:
        for view in self.views:
            if view.name == name:
                return view
        raise GraphError(f"no view {name!r}; there are {', '.join(repr(v.name) for v in self.views) or 'none'}")

    # Views and files ------------------------------------------------------------------------------------------------

    def networkx(self) -> nx.DiGraph:
        """Returns a networkx view: one node each, with its kind and its value, and an edge per input."""
        view = nx.DiGraph(adjacency=self.adjacency.value, pinned=self.pinned)
        for node in self.nodes:
            view.add_node(node.name, kind=type(node).__name__.lower(), node=node)
            for other in getattr(node, "reads", ()):
                view.add_edge(other, node.name)
        return view

    def to_json(self) -> str:
        """Returns the graph as JSON text, stable to the byte for equal graphs."""
        return graph_json.dump(self)

    @classmethod
    def from_json(cls, text: str) -> AccountantGraph:
        """Returns the graph that ``to_json`` wrote; unknown fields and events are refused.

        Raises:
          GraphError: the text is no JSON, or no graph of this schema.
          InvalidArgumentError: a parameter outside its domain.
        """
        graph: AccountantGraph = graph_json.load(text, cls)
        return graph

    def _repr_html_(self) -> str:
        from hockeystick.accounting.graph.drawing.notebook_reprs import graph_html

        return graph_html(self)

    def _repr_markdown_(self) -> str:
        from hockeystick.accounting.graph.drawing.notebook_reprs import graph_markdown

        return graph_markdown(self)
