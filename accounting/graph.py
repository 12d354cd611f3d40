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

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import networkx as nx
import numpy as np
from attrs import evolve, field, frozen

from . import serialise, validate
from .adjacency import Adjacency
from .errors import GraphError, InvalidArgumentError, UnsupportedAdjacencyError, UnsupportedEventError
from .event import PrivacyEvent, check_event
from .guarantee import Charge, Guarantee, Move
from .nodes import Node, NodeKind, Post, Public, Reach, Release, Source, Transform
from .spread import compositions, maximal_rows, partitions

SCHEMA_VERSION = 1
NORMS = ("records", "l1", "l2", "linf")


def _tuple_of_strings(value: Iterable[str]) -> tuple[str, ...]:
    sentences = () if isinstance(value, str) else tuple(value)
    if isinstance(value, str) or not all(isinstance(sentence, str) for sentence in sentences):
        raise InvalidArgumentError("assumptions", value, "is not a list of strings")
    return sentences


@frozen
class AccountantGraph:
    """A directed acyclic graph of sources, transforms, releases and post-processing.

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

    @adjacency.validator
    def _adjacency_is_known(self, _: object, value: object) -> None:
        if not isinstance(value, Adjacency):
            raise InvalidArgumentError("adjacency", value, "is not an Adjacency", "use hockeystick.Adjacency")

    # Building -------------------------------------------------------------------------------------------------------

    def source(self, name: str, size: int = 1) -> AccountantGraph:
        """Adds a source of data; ``size`` > 1 makes it a family of that many disjoint blocks.

        Raises:
          GraphError: the name is taken or empty. InvalidArgumentError: size is no integer ≥ 1.
        """
        return self._with(Source(name, validate.integer("size", size, low=1)))

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
          GraphError: unknown input. InvalidArgumentError: unknown norm, or a factor that is no finite number ≥ 0.
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
    ) -> AccountantGraph:
        """Adds a published access, or a family of them.

        Args:
          event: its cost per unit of distance, in the event's norm. Read straight from a source, one changed record is
            one unit.
          reads: at least one source or transform, and any published values.
          count: how often it is repeated.
          reach: for a family; see ``Reach``. It then reads exactly one source family, directly.
          cumulative, leading: see ``Release``.

        Raises:
          GraphError: unknown input, no data among them, or a reach without a source family.
          UnsupportedAdjacencyError: the event has no meaning under the graph's adjacency.
        """
        check_event(event)
        if not event.accepts(self.adjacency):
            raise UnsupportedAdjacencyError(
                f"release {name!r}: {type(event).__name__} has no meaning under {self.adjacency.value}; "
                f"state the graph's adjacency, or use an event that has"
            )
        inputs = self._inputs(name, reads)
        data = [n for n in map(self._node, inputs) if isinstance(n, (Source, Transform))]
        if not data:
            raise GraphError(f"release {name!r} reads no data: use post() for post-processing of published values")
        if reach is not None and not (len(data) == 1 and isinstance(data[0], Source)):
            raise GraphError(f"release {name!r}: a reach needs exactly one source family, read directly")
        count = validate.integer("count", count, low=1)
        return self._with(Release(name, inputs, event, count, reach, bool(cumulative), bool(leading)))

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

    def guarantee(self, *, group: int = 1) -> Guarantee:
        """Returns what the whole graph guarantees to a group of ``group`` records.

        The worst move is found, not the sum over sources: the result is the parallel composition of all moves that the
        adjacency allows, each the sequential composition of what it reaches.

        Raises:
          UnsupportedAdjacencyError: replace-one over several blocks that are not pinned.
          GraphError: too many moves to enumerate.
        """
        self._check_pinned()
        return self._guarantee(list(self._moves(validate.integer("group", group, low=1))), group)

    def guarantee_for(self, source: str, *, member: int | None = None, group: int = 1) -> Guarantee:
        """Returns what the graph guarantees to a group of records that all lie in ``source``.

        Args:
          member: one block 1…size of a family; None for the worst.

        Raises:
          GraphError: no such source. InvalidArgumentError: no such member, or a member together with group > 1.
          UnsupportedAdjacencyError: replace-one over several blocks that are not pinned.
        """
        node = self._node(source)
        if not isinstance(node, Source):
            raise GraphError(f"{source!r} is not a source")
        self._check_pinned()
        group = validate.integer("group", group, low=1)
        if member is None:
            return self._guarantee(list(self._split({node.name: group})), group)
        if group > 1:
            raise InvalidArgumentError("member", member, "can't be combined with group > 1", "leave one of them out")
        i = validate.integer("member", member, low=1, high=node.size)
        counts = self._member_counts(node)
        return self._guarantee([self._member_move(node, counts, i - 1)], 1)

    def epsilon_for(self, source: str, delta: float, *, member: int | None = None) -> float:
        """Returns ε at ``delta`` for one record of ``source``."""
        return self.guarantee_for(source, member=member).epsilon(delta).upper

    def _check_pinned(self) -> None:
        blocks = sum(source.size for source in self._of(Source))
        if self.adjacency is Adjacency.REPLACE_ONE and blocks > 1 and not self.pinned:
            raise UnsupportedAdjacencyError(
                "replace-one over several blocks can take a record out of one and put it into another: "
                "set pinned=True if records stay in their block, or use add-or-remove-one with group=2"
            )

    def _guarantee(self, moves: list[Move], group: int) -> Guarantee:
        return Guarantee(_prune(moves), self.adjacency, group, self.assumptions)

    def _moves(self, group: int) -> Iterator[Move]:
        sources = self._of(Source)
        for split in compositions(group, len(sources)):
            yield from self._split({source.name: k for source, k in zip(sources, split, strict=True) if k})

    def _split(self, records: dict[str, int]) -> Iterator[Move]:
        """The moves that change ``records[name]`` records of each source, over all ways to spread them over blocks."""
        if len(records) == 1:
            ((name, k),) = records.items()
            node = self._node(name)
            assert isinstance(node, Source)
            if k == 1:
                counts = self._member_counts(node)
                rows = np.stack(list(counts.values()), axis=1) if counts else np.zeros((1, 0), np.int64)
                for index in maximal_rows(rows):
                    yield self._member_move(node, counts, index)
                return
        families = [n for n in self._of(Source) if n.size > 1 and n.name in records]
        for partition in itertools.product(*(partitions(records[n.name], n.size) for n in families)):
            yield self._group_move(records, {n.name: parts for n, parts in zip(families, partition, strict=True)})

    def _member_counts(self, source: Source) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """For each release that ``source`` reaches, how often each of its blocks pays."""
        distances = self._distances({source.name: 1})
        counts = {}
        for release in self._of(Release):
            if self._distance(release, distances) > 0:
                times = np.ones(source.size, np.int64) if release.reach is None else release.reach.counts(source.size)
                counts[release.name] = times * release.count
        return counts

    def _member_move(self, source: Source, counts: Mapping[str, Any], index: int) -> Move:
        distances = self._distances({source.name: 1})
        charges = [
            Charge(r.name, r.event.at(self._distance(r, distances)), int(counts[r.name][index]), r.leading)
            for r in self._of(Release)
            if r.name in counts and counts[r.name][index]
        ]
        where = source.name if source.size == 1 else f"{source.name}[{index + 1}]"
        return Move(where, tuple(charges))

    def _group_move(self, records: dict[str, int], spread: dict[str, tuple[int, ...]]) -> Move:
        """A move of several records; ``spread`` says how many fall into how many different blocks of each family.

        Where the blocks lie is left open: a release that each block meets at most once pays per block, at that block's
        share; any other pays as if the whole group lay where it costs most.
        """
        distances = self._distances(records)
        charges: list[Charge] = []
        for release in self._of(Release):
            total = self._distance(release, distances)
            if total == 0.0:
                continue
            if release.reach is None:
                charges.append(Charge(release.name, release.event.at(total), release.count, release.leading))
                continue
            (family,) = (n for n in map(self._node, release.reads) if isinstance(n, Source))
            shares = spread.get(family.name, (records[family.name],))
            counts = release.reach.counts(family.size)
            if not counts.any():
                continue
            if release.reach.is_single and not release.cumulative:
                for share in shares:
                    event = release.event.at(total * share / sum(shares))
                    charges.append(Charge(release.name, event, release.count, release.leading))
            else:
                times = min(int(counts.max()) * len(shares), family.size)
                if release.reach.last is None or release.reach.first is None:
                    times = int(counts.max())  # half-open windows: the earliest (latest) block's contains the others'
                charges.append(Charge(release.name, release.event.at(total), times * release.count, False))
        label = ", ".join(f"{name}: {k}" + _spread_label(spread.get(name)) for name, k in records.items())
        return Move(label, tuple(charges))

    def _distances(self, records: dict[str, int]) -> dict[str, dict[str, float]]:
        """Pushes distances through sources and transforms, once, in the order of construction."""
        out: dict[str, dict[str, float]] = {}
        for node in self.nodes:
            if isinstance(node, Source):
                out[node.name] = {"records": float(records.get(node.name, 0))}
            elif isinstance(node, Transform):
                inputs = [out[name] for name in node.reads if name in out]
                moved: dict[str, float] = {}
                if any(max(distance.values()) > 0 for distance in inputs):
                    for norm_in, norm_out, factor in node.stability:
                        if all(_convert(distance, norm_in) is not None for distance in inputs):
                            total = factor * sum(_convert(distance, norm_in) or 0.0 for distance in inputs)
                            moved[norm_out] = min(total, moved.get(norm_out, math.inf))
                    if not moved:
                        raise UnsupportedEventError(
                            f"transform {node.name!r} states no stability for the norms of its inputs"
                        )
                out[node.name] = moved or {"records": 0.0}
        return out

    def _distance(self, release: Release, distances: dict[str, dict[str, float]]) -> float:
        total = 0.0
        for name in release.reads:
            distance = distances.get(name)
            if distance is None or max(distance.values()) == 0.0:
                continue
            direct = isinstance(self._node(name), Source)
            value = distance["records"] if direct else _convert(distance, release.event.norm)
            if value is None:
                raise UnsupportedEventError(
                    f"release {release.name!r} needs the distance of {name!r} in norm {release.event.norm!r}, "
                    f"known are {', '.join(sorted(distance))}: add that factor to the transform's stability"
                )
            total += value
        return total

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
        data = {
            "schema_version": SCHEMA_VERSION,
            "adjacency": self.adjacency.value,
            "pinned": self.pinned,
            "assumptions": list(self.assumptions),
            "nodes": [_node_to_json(node) for node in self.nodes],
        }
        return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> AccountantGraph:
        """Returns the graph that ``to_json`` wrote; unknown fields and events are refused.

        Raises:
          GraphError: the text is no JSON, or no graph of this schema.
          InvalidArgumentError: a parameter outside its domain.
        """
        try:
            data = json.loads(text, parse_constant=_no_constant)
        except RecursionError:
            raise GraphError("graph: nested too deep") from None
        except ValueError as error:
            raise GraphError(f"graph: not valid JSON ({error})") from None
        top = serialise.mapping(data, "graph")
        keys = {"schema_version", "adjacency", "pinned", "assumptions", "nodes"}
        serialise.check_keys(top, {"schema_version", "adjacency", "nodes"}, keys, "graph")
        if top["schema_version"] != SCHEMA_VERSION:
            raise GraphError(f"graph: schema_version {top['schema_version']!r} is not {SCHEMA_VERSION}")
        try:
            adjacency = Adjacency(top["adjacency"])
        except ValueError:
            known = ", ".join(a.value for a in Adjacency)
            raise GraphError(f"graph: unknown adjacency {top['adjacency']!r}; known are {known}") from None
        pinned = _boolean(top.get("pinned", False), "graph.pinned")
        assumptions = serialise.listing(top.get("assumptions", []), "graph.assumptions")
        if not all(isinstance(a, str) for a in assumptions):
            raise GraphError("graph.assumptions: expected strings")
        graph = cls(adjacency, pinned, assumptions)
        for i, node in enumerate(serialise.listing(top["nodes"], "graph.nodes")):
            graph = _add_from_json(graph, serialise.mapping(node, f"graph.nodes[{i}]"), f"graph.nodes[{i}]")
        return graph


def _convert(distance: Mapping[str, float], norm: str) -> float | None:
    """The distance in ``norm``, by ‖·‖∞ ≤ ‖·‖₂ ≤ ‖·‖₁; None where only a smaller norm is known."""
    if max(distance.values()) == 0.0:
        return 0.0
    order = {"records": ("records",), "l1": ("l1",), "l2": ("l2", "l1"), "linf": ("linf", "l2", "l1")}[norm]
    known = [distance[name] for name in order if name in distance]
    return min(known) if known else None


def _prune(moves: list[Move]) -> tuple[Move, ...]:
    """Drops moves whose multiset of charges is contained in another's; labels don't matter."""
    kept: list[tuple[Move, dict[Any, int]]] = []
    for move in sorted(moves, key=lambda m: -sum(c.count for c in m.charges)):
        multiset: dict[Any, int] = {}
        for charge in move.charges:
            key = (charge.event, charge.leading)
            multiset[key] = multiset.get(key, 0) + charge.count
        if not any(all(other.get(key, 0) >= n for key, n in multiset.items()) for _, other in kept):
            kept.append((move, multiset))
    return tuple(move for move, _ in kept)


def _spread_label(parts: tuple[int, ...] | None) -> str:
    return "" if parts is None or len(parts) == 1 else f" as {'+'.join(map(str, parts))}"


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed")


def _boolean(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise GraphError(f"{where}: expected true or false, found {value!r}")
    return value


def _node_to_json(node: Node) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": type(node).__name__.lower(), "name": node.name}
    if isinstance(node, Source):
        out["size"] = node.size
    if isinstance(node, (Transform, Release, Post)):
        out["reads"] = list(node.reads)
    if isinstance(node, Transform):
        out["stability"] = [list(row) for row in node.stability]
    if isinstance(node, Release):
        reach = None if node.reach is None else {"first": node.reach.first, "last": node.reach.last}
        out |= {"event": serialise.event_to_json(node.event), "count": node.count, "reach": reach}
        out |= {"cumulative": node.cumulative, "leading": node.leading}
    return out


_KEYS = {
    "source": ({"kind", "name"}, {"size"}),
    "public": ({"kind", "name"}, set[str]()),
    "transform": ({"kind", "name", "reads", "stability"}, set[str]()),
    "release": ({"kind", "name", "reads", "event"}, {"count", "reach", "cumulative", "leading"}),
    "post": ({"kind", "name", "reads"}, set[str]()),
}


def _add_from_json(graph: AccountantGraph, data: dict[str, Any], where: str) -> AccountantGraph:
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise GraphError(f"{where}: unknown kind {kind!r}; known are {', '.join(_KEYS)}")
    required, optional = _KEYS[kind]
    serialise.check_keys(data, required, required | optional, where)
    name = data["name"]
    reads = serialise.listing(data.get("reads", []), f"{where}.reads")
    if not all(isinstance(other, str) for other in reads):
        raise GraphError(f"{where}.reads: expected names of nodes")
    if kind == "source":
        return graph.source(name, data.get("size", 1))
    if kind == "public":
        return graph.public(name)
    if kind == "post":
        return graph.post(name, reads=reads)
    if kind == "transform":
        rows = [serialise.listing(row, f"{where}.stability") for row in serialise.listing(data["stability"], where)]
        if any(len(row) != 3 or not isinstance(row[0], str) or not isinstance(row[1], str) for row in rows):
            raise GraphError(f"{where}.stability: expected rows [norm in, norm out, factor]")
        return graph.transform(name, reads=reads, stability={(a, b): c for a, b, c in rows})
    reach = None
    if data.get("reach") is not None:
        limits = serialise.mapping(data["reach"], f"{where}.reach")
        serialise.check_keys(limits, set(), {"first", "last"}, f"{where}.reach")
        reach = Reach(limits.get("first"), limits.get("last"))
    return graph.release(
        name,
        serialise.event_from_json(data["event"], f"{where}.event"),
        reads=reads,
        count=data.get("count", 1),
        reach=reach,
        cumulative=_boolean(data.get("cumulative", False), f"{where}.cumulative"),
        leading=_boolean(data.get("leading", False), f"{where}.leading"),
    )
