"""The accountant graph: who reads which data, with what sensitivity, and which values are published.

A record lies in a source. A change of the record moves all values computed from it, and costs every release that it
reaches without passing through a published value. Sequential, parallel, adaptive and group composition, local DP and
free post-processing all follow from this rule.

A graph is an immutable value: every builder method returns a new graph, and a failing one changes nothing.

Families keep graphs small. A source of size n stands for blocks 1 … n of a partition (such as the batches of a stream),
and a release with a ``Reach`` for n releases, the j-th of which reads the i-th block iff first ≤ j − i ≤ last. The cost
of block i is then a multiset of events with counts, for any n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from hockeystick._guess.arguments import guessing_arguments
from hockeystick._guess.attributes import guessing_attributes
from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import GraphError, InvalidArgumentError, UnsupportedAdjacencyError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.events.iterates.contraction import Contraction
from hockeystick.accounting.graph import graph_json
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.graph.neighbour_moves import Moves, prune
from hockeystick.accounting.graph.parts.charges import EVERYTHING, Move, simulated_assumption
from hockeystick.accounting.graph.parts.hidden_states import HiddenIterates
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
    view_named,
)

if TYPE_CHECKING:
    import networkx as nx

NORMS = ("records", "l1", "l2", "linf")


def _check_name(kind: str, name: object, others: tuple[Node, ...] | tuple[View, ...]) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError("name", name, "is not a non-empty string", f"give the {kind} a name")
    if any(name == other.name for other in others):
        raise GraphError(f"there is already a {kind} {name!r}: give this one another name")


def _tuple_of_strings(value: Iterable[str]) -> tuple[str, ...]:
    sentences = () if isinstance(value, str) else tuple(value)
    if isinstance(value, str) or not all(isinstance(sentence, str) for sentence in sentences):
        raise InvalidArgumentError("assumptions", value, "is not a list of strings", "give a list of sentences")
    return sentences


@guessing_attributes
@guessing_arguments
@frozen
class AccountantGraph:
    """A directed acyclic graph of sources, transforms, releases and post-processing.

    It is immutable: each builder method returns a new graph.

    Args:
      adjacency: the neighbouring relation of all sensitivities in the graph.
      pinned: whether each record stays in its block (its time step, its client). If not, replace-one over several
        blocks could move a record from one block into another, and is refused.
      assumptions: sentences about what the guarantee assumes; it repeats them.

    Example:
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
        """Adds a source of data, or a family of ``size`` disjoint blocks.

        Raises:
          GraphError: the name is taken.
          InvalidArgumentError: the name is empty, or size is not an integer ≥ 1.
        """
        return self._with(Source(name, validate.integer("size", size, low=1, high=validate.MOST)))

    def public(self, name: str) -> AccountantGraph:
        """Adds a public value."""
        return self._with(Public(name))

    def transform(
        self, name: str, *, reads: list[str] | tuple[str, ...], stability: Mapping[tuple[str, str], float]
    ) -> AccountantGraph:
        """Adds an unpublished map of data.

        Args:
          reads: sources, transforms or published values; distances of several inputs add up.
          stability: {(norm in, norm out): factor} with the norms "records", "l1", "l2" and "linf".

        Raises:
          GraphError: an unknown input.
          InvalidArgumentError: an unknown norm, or a factor that is not a finite number ≥ 0.
        """
        rows = []
        for key, factor in stability.items():
            if not (isinstance(key, tuple) and len(key) == 2 and set(key) <= set(NORMS)):
                remedy = f"use two of {', '.join(NORMS)}"
                raise InvalidArgumentError("stability", key, "is not a pair of norms", remedy)
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
        """Adds a published access, or a family of such accesses.

        Args:
          name: of the release.
          event: its cost per unit of distance, in the event's norm. If it reads a source directly, one changed record
            is one unit.
          reads: at least one source or transform, and any published values.
          count: the number of repetitions.
          reach: for a family that reads one source family directly; see ``Reach``.
          cumulative, leading, simulated: see ``Release``.

        Raises:
          GraphError: an unknown input, no data among the inputs, or a reach without a source family.
          UnsupportedAdjacencyError: the event is not meaningful under the graph's adjacency.
        """
        self._check_event(name, event)
        inputs = self._inputs(name, reads)
        data = [n for n in map(self._node, inputs) if isinstance(n, (Source, Transform))]
        if not data:
            raise GraphError(f"release {name!r} reads no data: use post() for post-processing of published values")
        if reach is not None and not (len(data) == 1 and isinstance(data[0], Source)):
            raise GraphError(f"release {name!r} has a reach: let it read exactly one source family, directly")
        count = validate.integer("count", count, low=1, high=validate.MOST)
        marks = bool(cumulative), bool(leading), bool(simulated)
        return self._with(Release(name, inputs, event, count, reach, *marks))

    def simulated(self) -> tuple[str, ...]:
        """Returns the names of the releases with simulated noise; the guarantee is that of a run with secure noise."""
        return tuple(node.name for node in self._of(Release) if node.simulated)

    def post(self, name: str, *, reads: list[str] | tuple[str, ...]) -> AccountantGraph:
        """Adds post-processing of published values, which is free.

        Raises:
          GraphError: an input is data instead of a published value.
        """
        inputs = self._inputs(name, reads)
        for node in map(self._node, inputs):
            if isinstance(node, (Source, Transform)):
                raise GraphError(f"post {name!r} reads data from {node.name!r}: use release() or transform()")
        return self._with(Post(name, inputs))

    def last_iterate(
        self,
        name: str,
        *,
        of: str,
        contraction: Contraction,
        batches: int = 1,
        unread: int = 0,
        diameter: float = math.inf,
    ) -> AccountantGraph:
        """Adds the last iterate of a release that is a noisy iteration, with its hidden states, as a published value.

        A view that sees this value, and nothing else that was computed from the release, pays
        ``events.last_iterate`` for it in place of all iterates. Its guarantee has the assumptions of that bound.
        Every other view, and the guarantee without a view, pays for all iterates. To publish an iterate on the way, let
        a second release continue from it: both last iterates are then charged.

        Args:
          name: of the value.
          of: a release whose event is a ``Gaussian`` or a ``PoissonSampled`` of one; its count is the number of steps
            that read one record: of all steps, or of one batch's turns.
          contraction: how far apart a step without its noise carries two iterates at most.
          batches, unread, diameter: see ``events.last_iterate``.

        Raises:
          GraphError: ``of`` is not a release, has a reach, or the name is taken.
          InvalidArgumentError: an argument outside its domain.
          UnsupportedEventError: the event of the release has no bound for its last iterate.

        Example:
          >>> from hockeystick.accounting import AccountantGraph, Contraction, Gaussian
          >>> step = Contraction.of_gradient_descent(
          ...     0.1, regulariser=0.5, smoothness=4.0, largest_batch=500, normaliser=500
          ... )
          >>> graph = AccountantGraph().source("people").release("steps", Gaussian(10.0), reads=["people"], count=160)
          >>> graph = graph.last_iterate("model", of="steps", contraction=step).view("last", sees=["model"])
          >>> [round(graph.guarantee(view=view).epsilon(1e-5).upper, 3) for view in (None, "last")]
          [5.759, 2.557]
        """
        node = self._node(of)
        if not isinstance(node, Release) or node.reach is not None:
            raise GraphError(f"{name!r} is a last iterate of {of!r}: give a release without a reach")
        hidden = HiddenIterates(contraction, batches, unread, diameter)
        hidden.event(node.event, node.count)  # refuses what has no bound
        return self._with(Post(name, (of,), hidden))

    def view(
        self, name: str, *, sees: list[str] | tuple[str, ...], events: Mapping[str, PrivacyEvent] | None = None
    ) -> AccountantGraph:
        """Adds a threat model, for ``guarantee(view=name)``; see ``View``.

        Args:
          name: of the view.
          sees: the releases, posts and public values that the adversary sees.
          events: {release: event} for releases that cost this adversary another event than their own.

        Raises:
          GraphError: the name is taken, or an unpublished node is seen.
          UnsupportedAdjacencyError: an event is not meaningful under the graph's adjacency.
        """
        _check_name("view", name, self.views)
        seen = self._inputs(name, sees)
        for node in map(self._node, seen):
            if isinstance(node, (Source, Transform)):
                raise GraphError(f"view {name!r} sees {node.name!r}, which is not published: give published values")
        rows = []
        for release, event in (events or {}).items():
            node = self._node(release)
            if not isinstance(node, Release):
                raise GraphError(f"view {name!r} has an event for {release!r}, which is not a release")
            self._check_event(release, event)
            if event.norm != node.event.norm and event != NO_EVENT:
                raise GraphError(
                    f"view {name!r} has an event in norm {event.norm!r} for {release!r}, which is in norm "
                    f"{node.event.norm!r}: give an event in that norm"
                )
            rows.append((release, event))
        return evolve(self, _views=(*self.views, View(name, seen, tuple(sorted(rows, key=lambda row: row[0])))))

    def _check_event(self, release: str, event: PrivacyEvent) -> None:
        check_event(event)
        if not event.accepts(self.adjacency):
            raise UnsupportedAdjacencyError(
                f"release {release!r}: {type(event).__name__} has no meaning under {self.adjacency.value}: "
                f"change the graph's adjacency, or use another event"
            )

    def _with(self, node: Node) -> AccountantGraph:
        _check_name("node", node.name, self.nodes)
        return evolve(self, _nodes=(*self.nodes, node))

    def _inputs(self, name: str, reads: list[str] | tuple[str, ...]) -> tuple[str, ...]:
        if isinstance(reads, str):
            raise InvalidArgumentError("reads", reads, "is a string", "give a list of node names")
        for other in reads:
            self._node(other)
        if len(set(reads)) != len(reads) or not reads:
            raise InvalidArgumentError("reads", reads, "is empty or names a node twice", "name each input once")
        return tuple(reads)

    def _node(self, name: str) -> Node:
        for node in self.nodes:
            if node.name == name:
                return node
        known = ", ".join(repr(node.name) for node in self.nodes)
        raise GraphError(f"no node {name!r}: " + (f"choose one of {known}" if known else "the graph has no nodes"))

    def _of(self, kind: type[NodeKind]) -> tuple[NodeKind, ...]:
        return tuple(node for node in self.nodes if isinstance(node, kind))

    # Evaluating -----------------------------------------------------------------------------------------------------

    def guarantee(self, *, group: int = 1, view: str | None = None, under: Adjacency | None = None) -> Guarantee:
        """Returns the guarantee of the whole graph to a group of ``group`` records.

        It is the parallel composition of all moves that the adjacency allows: the worst move counts, not the sum over
        sources. Each move is the sequential composition of the releases that it reaches.

        Args:
          group: the number of records that may differ. Under add-or-remove-one, all of them are in one data set and
            none in the other, like the records of one person.
          view: a threat model of the graph, by name; by default, the adversary sees every published value.
          under: another relation than the graph's. Replace-one consists of two moves under add-or-remove-one (one
            record leaves and another one enters, each in any block), or of two moves in one block under
            replace-with-null.

        Raises:
          UnsupportedAdjacencyError: replace-one over several blocks that are not pinned, or no moves lead to ``under``.
          GraphError: there is no such view, or the moves are too many to enumerate.
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
        """Returns the guarantee to a group of records that all lie in ``source``.

        Args:
          source: the name of a source.
          member: one block 1 … size of a family; by default the worst one.
          group, view: see ``guarantee``.

        Raises:
          GraphError: there is no such source or view.
          InvalidArgumentError: there is no such member, or a member is combined with group > 1.
          UnsupportedAdjacencyError: replace-one over several blocks that are not pinned.
        """
        node = self._node(source)
        if not isinstance(node, Source):
            raise GraphError(f"{source!r} is a {type(node).__name__.lower()}: give the name of a source")
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
        """Returns each release with the largest distance by which one record moves its inputs, in its event's norm.

        The distance is 1 if a release reads a source directly, as its event is the cost of one record under the graph's
        relation. Behind transforms it follows from their stability.

        Args:
          view: see ``guarantee``; releases that it does not pay for are left out.

        Raises:
          GraphError: there is no such view.
          UnsupportedEventError: a transform has no stability in the norm of an event.
        """
        return tuple(self._moves(view).readings())

    def _check_pinned(self) -> None:
        blocks = sum(source.size for source in self._of(Source))
        if self.adjacency is Adjacency.REPLACE_ONE and blocks > 1 and not self.pinned:
            raise UnsupportedAdjacencyError(
                "replace-one over several blocks can move a record from one block into another: set pinned=True if "
                "records stay in their blocks, or build the graph under add-or-remove-one and use "
                "guarantee(under=Adjacency.REPLACE_ONE)"
            )

    def _guarantee(self, moves: Iterable[Move], group: int, view: str | None) -> Guarantee:
        threat, hidden = EVERYTHING, []
        if view is not None:
            seen = view_named(view, self.views)
            threat, hidden = seen.describe(self.nodes), list(seen.last_iterates(self.nodes))
        terms = [sentence for post in hidden if post.hidden for sentence in post.hidden.assumptions(post.reads[0])]
        assumptions = self.assumptions + simulated_assumption(self.simulated()) + tuple(dict.fromkeys(terms))
        return Guarantee(prune(list(moves)), self.adjacency, group, assumptions, threat)

    def _guarantee_under(self, under: Adjacency, group: int, view: str | None) -> Guarantee:
        reachable = {Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL}
        if under is not Adjacency.REPLACE_ONE or self.adjacency not in reachable:
            raise UnsupportedAdjacencyError(
                f"a guarantee under {self.adjacency.value} says nothing under {getattr(under, 'value', under)}: "
                "build the graph, with its sensitivities, under that relation"
            )
        if group > 1:
            raise UnsupportedAdjacencyError(
                f"group={group} can't be combined with another relation: build the graph under replace-one"
            )
        moves = self._moves(view, replacement=True)
        if self.adjacency is Adjacency.ADD_OR_REMOVE_ONE and not self.pinned:
            found: Iterable[Move] = moves.of_group(2)
        else:  # the record that enters takes the place of the one that leaves
            found = (move for source in self._of(Source) for move in moves.of_one_block(source, records=2))
        return evolve(self._guarantee(found, 1, view), adjacency=under, graph=self, view=view)

    def _moves(self, view: str | None, *, replacement: bool = False) -> Moves:
        releases = self._of(Release) if view is None else view_named(view, self.views).charged(self.nodes)
        return Moves(self.nodes, releases, replacement)

    # Views and files ------------------------------------------------------------------------------------------------

    def networkx(self) -> nx.DiGraph:
        """Returns a networkx graph with the same nodes, their kinds and values, and an edge for each input."""
        import networkx as nx

        view = nx.DiGraph(adjacency=self.adjacency.value, pinned=self.pinned)
        for node in self.nodes:
            view.add_node(node.name, kind=type(node).__name__.lower(), node=node)
            for other in getattr(node, "reads", ()):
                view.add_edge(other, node.name)
        return view

    def to_json(self) -> str:
        """Returns the graph as JSON text; equal graphs have identical texts."""
        return graph_json.dump(self)

    @classmethod
    def from_json(cls, text: str) -> AccountantGraph:
        """Returns the graph that ``to_json`` wrote; unknown fields and events are refused.

        Raises:
          GraphError: the text is not JSON, or not a graph of this schema.
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
