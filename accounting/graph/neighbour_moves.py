"""Moves: the changes to a neighbouring data set, and their costs.

A move is a number of changed records for each source. Distances are propagated once, in the order of construction, and
each release with a positive distance contributes its event at that distance. The placements of a group among the blocks
of a family are enumerated if they are few, and bounded otherwise; see ``graph/parts/group_placements.py``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.errors import GraphError, UnsupportedEventError
from hockeystick.accounting.events.basic.composition import parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.graph.parts.charges import Charge, Move
from hockeystick.accounting.graph.parts.group_placements import Placement, Window, worst
from hockeystick.accounting.graph.parts.group_splittings import MAX_SPLITTINGS, compositions, maximal_rows
from hockeystick.accounting.graph.parts.nodes import Members, Node, NodeKind, Release, Source, Transform
from hockeystick.accounting.validate import MOST

Records = Mapping[str, int]
_MAX_STRETCH = 1_000_000


@frozen
class Moves:
    """The moves of a graph.

    Attributes:
      nodes: all nodes in the order of construction, which is a topological order.
      releases: the charged releases, in that order, with the events that they are charged with.
      replacement: whether half of the records leave and the others enter; otherwise all leave, or all enter.
    """

    nodes: tuple[Node, ...]
    releases: tuple[Release, ...]
    replacement: bool = False
    _by_name: dict[str, Node] = field(init=False, repr=False, eq=False)

    @_by_name.default
    def _index(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    def of_group(self, group: int) -> Iterator[Move]:
        """Yields the moves that can be the worst for ``group`` records, over all sources and blocks.

        Raises:
          GraphError: too many moves to enumerate.
        """
        sources = self._of(Source)
        for split in compositions(group, len(sources)):
            yield from self.of_records({source.name: k for source, k in zip(sources, split, strict=True) if k})

    def of_records(self, records: Records) -> Iterator[Move]:
        """Yields moves that change ``records[name]`` records of each source, the worst one (or a bound) among them.

        Raises:
          GraphError: too many moves to enumerate.
        """
        if len(records) == 1:
            ((name, k),) = records.items()
            source = self._source(name)
            if k == 1:
                yield from self.of_one_block(source)
                return
        windows = {name: self._windows(self._source(name)) for name in records}
        leading = any(release.leading for release in self.releases)
        places = [
            worst(tuple(own.values()), self._source(name).size, records[name], leading=leading)
            for name, own in windows.items()
        ]
        if math.prod(map(len, places)) > MAX_SPLITTINGS:
            raise GraphError(
                f"a group has more than {MAX_SPLITTINGS} placements over the blocks of its sources: give a smaller one"
            )
        for chosen in itertools.product(*places):
            yield self._of_placements(records, windows, dict(zip(records, chosen, strict=True)))

    def of_one_block(self, source: Source, *, records: int = 1) -> Iterator[Move]:
        """Yields the moves that change ``records`` records of one block, over the blocks that can be the worst."""
        members = self._corners(source)
        rows = self._rows(source, members)
        # If some counts rise and others fall along a linear stretch, any of its blocks may be the worst.
        turns = np.diff(rows, axis=0)
        mixed = np.flatnonzero((turns > 0).any(axis=1) & (turns < 0).any(axis=1))
        if int((members[mixed + 1] - members[mixed]).sum()) > _MAX_STRETCH:
            raise GraphError(
                f"{source.name!r} has releases that read earlier blocks more often, and others later ones, over more "
                f"than {_MAX_STRETCH} blocks: give a smaller family, or a single member"
            )
        if mixed.size:
            between = [np.arange(members[j], members[j + 1] + 1) for j in mixed]
            members = np.unique(np.concatenate([members, *between]))
            rows = self._rows(source, members)
        for index in maximal_rows(rows):
            yield self._of_member(source, int(members[index]), records)

    def of_member(self, source: Source, index: int) -> Move:
        """Returns the move that changes one record of block ``index`` (from 0) of ``source``."""
        return self._of_member(source, index + 1, 1)

    def readings(self) -> Iterator[tuple[Release, float]]:
        """Yields each release with the largest distance by which one record moves its inputs, in its event's norm."""
        moved = [self._distances({source.name: 1}) for source in self._of(Source)]
        for release in self.releases:
            yield release, max((sum(self._inputs(release, distances).values()) for distances in moved), default=0.0)

    def _of_member(self, source: Source, member: int, records: int) -> Move:
        distances = self._distances({source.name: records})
        (counts,) = self._rows(source, np.array([member], np.int64))
        charges = [
            Charge(release.name, self._event(release, self._inputs(release, distances)), int(count), release.leading)
            for release, count in zip(self._reached(source), counts, strict=True)
            if count
        ]
        where = source.name if source.size == 1 else f"{source.name}[{member}]"
        return Move(where, tuple(charges))

    def _reached(self, source: Source) -> list[Release]:
        distances = self._distances({source.name: 1})
        return [release for release in self.releases if sum(self._inputs(release, distances).values()) > 0]

    def _corners(self, source: Source) -> Members:
        """Returns blocks of ``source``, from 1, between which the counts of all releases are linear."""
        found = {1, source.size}
        for release in self._reached(source):
            if release.reach is not None:
                found |= release.reach.corners(source.size)
        return np.array(sorted(found), np.int64)

    def _rows(self, source: Source, members: Members) -> Members:
        """Returns the counts, shape (members, releases), of the releases that ``source`` reaches."""
        columns = [self._uses(release, source, members) for release in self._reached(source)]
        return np.stack(columns, axis=1) if columns else np.zeros((members.size, 0), np.int64)

    def _uses(self, release: Release, source: Source, members: Members) -> Members:
        met = np.ones_like(members) if release.reach is None else release.reach.counts(source.size, members)
        self._times(release, int(met.max(initial=0)))  # a product beyond 64 bits would wrap around to a small number
        return release.count * met

    @staticmethod
    def _times(release: Release, met: int) -> int:
        if release.count * met > MOST:
            raise GraphError(
                f"{release.name!r} reads a record more than 2^53 times: give a smaller count or a smaller family"
            )
        return release.count * met

    def _windows(self, source: Source) -> dict[str, Window]:
        """Returns the release families that read blocks of ``source``."""
        return {
            release.name: Window(release.reach, release.cumulative, release.event.superadditive)
            for release in self.releases
            if release.reach is not None and source.name in release.reads
        }

    def _of_placements(
        self, records: Records, windows: Mapping[str, Mapping[str, Window]], placed: Mapping[str, Placement]
    ) -> Move:
        """Returns the move of a group with the given placement for each source."""
        distances = self._distances(records)
        costs = {
            release: (source, cost)
            for source, own in windows.items()
            for release, cost in zip(own, placed[source].costs, strict=True)
        }
        # A leading release comes first only among the releases that read the same block.
        leads = not costs or (len(records) == 1 and all(place.in_one_block for place in placed.values()))
        charges: list[Charge] = []
        for release in self.releases:
            if release.reach is not None:
                source, cost = costs.get(release.name, ("", ()))
                for d, met in cost:
                    event = self._event(release, {source: float(d)})
                    charges.append(Charge(release.name, event, self._times(release, met), release.leading and leads))
            elif sum((inputs := self._inputs(release, distances)).values()) > 0:
                event = self._event(release, inputs)
                charges.append(Charge(release.name, event, release.count, release.leading and leads))
        return Move(", ".join(f"{name}: {k}{placed[name].label}" for name, k in records.items()), tuple(charges))

    # Distances and events -------------------------------------------------------------------------------------------

    def _distances(self, records: Records) -> dict[str, dict[str, float]]:
        """Returns the distances of sources and transforms, each computed once."""
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
                            f"transform {node.name!r} states no stability for the norms of its inputs: add a factor"
                        )
                out[node.name] = moved or {"records": 0.0}
        return out

    def _inputs(self, release: Release, distances: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
        """Returns the distance that each input contributes, in the norm of the release's event."""
        out = {}
        for name in release.reads:
            distance = distances.get(name)
            if distance is None or max(distance.values()) == 0.0:
                continue
            direct = isinstance(self._by_name[name], Source)
            value = distance["records"] if direct else _convert(distance, release.event.norm)
            if value is None:
                raise UnsupportedEventError(
                    f"release {release.name!r} needs the distance of {name!r} in norm {release.event.norm!r}, "
                    f"and knows it in {', '.join(sorted(distance))}: add that factor to the transform's stability"
                )
            out[name] = value
        return out

    def _event(self, release: Release, inputs: Mapping[str, float]) -> PrivacyEvent:
        total, event = sum(inputs.values()), release.event
        if len(event.directions()) == 1:
            return event.at(total)
        direct = all(isinstance(self._by_name[name], Source) for name in inputs)
        if direct and not self.replacement:
            return event.at(total)
        if direct and total == 2.0:  # one record leaves, another one enters, and the release reads both
            return event.replaced(1, 1)
        # A record that enters a source may remove one from a transform's result, so that the direction is unknown.
        count = math.ceil(total)
        both = [event.replaced(removed, count - removed) for removed in range(1, count)]
        return parallel(*event.at(count).directions(), *both)

    # Lookup ---------------------------------------------------------------------------------------------------------

    def _source(self, name: str) -> Source:
        node = self._by_name[name]
        assert isinstance(node, Source)
        return node

    def _of(self, kind: type[NodeKind]) -> tuple[NodeKind, ...]:
        return tuple(node for node in self.nodes if isinstance(node, kind))


def prune(moves: list[Move]) -> tuple[Move, ...]:
    """Returns the moves without those whose multiset of charges is contained in that of another."""
    kept: list[tuple[Move, dict[Any, int]]] = []
    for move in sorted(moves, key=lambda m: -sum(c.count for c in m.charges)):
        multiset: dict[Any, int] = {}
        for charge in move.charges:
            key = (charge.event, charge.leading)
            multiset[key] = multiset.get(key, 0) + charge.count
        if not any(all(other.get(key, 0) >= n for key, n in multiset.items()) for _, other in kept):
            kept.append((move, multiset))
    return tuple(move for move, _ in kept)


def _convert(distance: Mapping[str, float], norm: str) -> float | None:
    """Returns the distance in ``norm``, by ‖·‖∞ ≤ ‖·‖₂ ≤ ‖·‖₁; None if only smaller norms are known."""
    if max(distance.values()) == 0.0:
        return 0.0
    order = {"records": ("records",), "l1": ("l1",), "l2": ("l2", "l1"), "linf": ("linf", "l2", "l1")}[norm]
    known = [distance[name] for name in order if name in distance]
    return min(known) if known else None
