"""The graph of a certificate, turned into its moves: which releases a change of the data reaches, and how far.

Distances are rational numbers, pushed once through the transforms. Of a family's blocks, those that no other one
dominates are kept. A group's records may lie anywhere: placements are listed where they are few, and bounded where not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from hockeystick_verify.balls import NotCoveredError
from hockeystick_verify.documents import MOST, UnusableError

_MOST_BLOCKS = 200_000
_MOST_PLACEMENTS = 3_000
_MOST_MOVES = 400
_NORMS = {"l1": ("l1",), "l2": ("l2", "l1"), "linf": ("linf", "l2", "l1"), "records": ("records",)}
_EVENT_NORMS = {"Gaussian": "l2", "DiscreteGaussian": "l2", "Laplace": "l1", "DiscreteLaplace": "l1"}
Node = Mapping[str, Any]
Distance = dict[str, Fraction]


@dataclass(frozen=True)
class Charge:
    """An event at a distance, ``count`` times.

    Attributes:
      node: the name of the release.
      event, distance, count: its cost.
      tied: whether all its accesses see the two data sets in the same direction.
      leading: whether it is stated to be the first release whose law differs.
    """

    node: str
    event: Mapping[str, Any]
    distance: Fraction
    count: int
    tied: bool
    leading: bool


@dataclass(frozen=True)
class Move:
    """The charges of one change of the data.

    Attributes:
      label: the changed sources and blocks.
      charges: in the order of the releases.
      exact: whether some data set really pays them; otherwise they only bound what any pays.
    """

    label: str
    charges: tuple[Charge, ...] = field(default=())
    exact: bool = True


def moves_of(graph: Mapping[str, Any], view: str | None, group: int) -> list[Move]:
    """Returns the moves of a graph that can be the worst for ``group`` records.

    Raises:
      NotCoveredError: there is no rule for a combination.
      UnusableError: the graph is malformed.
    """
    try:
        return _Graph(graph, view).moves(group)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UnusableError):
            raise
        raise UnusableError(f"the graph is malformed ({type(error).__name__}: {str(error)[:60]})") from None


class _Graph:
    def __init__(self, graph: Mapping[str, Any], view: str | None) -> None:
        self.nodes: list[Node] = list(graph["nodes"])
        self.by_name = {str(node["name"]): node for node in self.nodes}
        if len(self.by_name) < len(self.nodes):
            raise UnusableError("two nodes of the graph have the same name")
        for i, node in enumerate(self.nodes):
            _check(node, {str(before["name"]): str(before["kind"]) for before in self.nodes[:i]})
        self.relation = str(graph["adjacency"])
        self.sources = {str(n["name"]): int(n.get("size", 1)) for n in self._of("source")}
        if self.relation == "replace-one" and sum(self.sources.values()) > 1 and graph.get("pinned") is not True:
            raise NotCoveredError("replaced records that may leave their block")
        self.releases = self._charged(graph, view)

    def _of(self, kind: str) -> list[Node]:
        return [node for node in self.nodes if node["kind"] == kind]

    def _charged(self, graph: Mapping[str, Any], view: str | None) -> list[Node]:
        """The releases that the view sees, or that feed one, with the events that they cost it."""
        releases = self._of("release")
        if view is None:
            return releases
        (found,) = [one for one in graph.get("views", ()) if one["name"] == view] or [None]
        if found is None:
            raise UnusableError(f"the graph has no view {view!r}")
        if any(self.by_name[name]["kind"] in ("source", "transform") for name in found["sees"]):
            raise UnusableError(f"the view {view!r} sees data")
        reached: set[str] = set()
        pending = list(found["sees"])
        while pending:
            name = str(pending.pop())
            if name not in reached:
                reached.add(name)
                if self.by_name[name].get("last_iterate") is not None:
                    raise NotCoveredError("a view that sees the last iterate alone")
                pending += self.by_name[name].get("reads", ())
        kept: list[Node] = []
        complete = True
        for node in releases:
            if node["name"] in reached:
                event = found.get("events", {}).get(node["name"], node["event"])
                kept.append({**node, "event": event, "leading": node.get("leading") is True and complete})
            else:
                complete = False  # a release that isn't seen may come first
        return kept

    def moves(self, group: int) -> list[Move]:
        """All moves."""
        if group < 1:
            raise UnusableError("the group is below 1")
        found: list[Move] = []
        for records in _splits(group, list(self.sources)):
            found += self._of_records(records)
            if len(found) > _MOST_MOVES:
                raise NotCoveredError(f"more than {_MOST_MOVES} moves")
        return found

    # Distances

    def _distances(self, records: Mapping[str, int]) -> dict[str, Distance]:
        found: dict[str, Distance] = {}
        for node in self.nodes:
            name = str(node["name"])
            if node["kind"] == "source":
                found[name] = {"records": Fraction(records.get(name, 0))}
            elif node["kind"] == "transform":
                inputs = [found[other] for other in node["reads"] if other in found]
                found[name] = self._moved(node, inputs)
        return found

    @staticmethod
    def _moved(node: Node, inputs: Sequence[Distance]) -> Distance:
        if not any(any(d.values()) for d in inputs):
            return {"records": Fraction(0)}
        moved: Distance = {}
        for norm_in, norm_out, factor in node["stability"]:
            known = [_in_norm(d, norm_in) for d in inputs]
            if factor < 0:
                raise UnusableError(f"transform {node['name']!r} has a negative factor")
            if all(k is not None for k in known):
                total = Fraction(factor) * sum((k for k in known if k is not None), Fraction(0))
                moved[norm_out] = min(total, moved.get(norm_out, total))
        if not moved:
            raise NotCoveredError(f"transform {node['name']!r} without a factor for its inputs")
        return moved

    def _reading(self, release: Node, distances: Mapping[str, Distance]) -> tuple[Fraction, bool]:
        """The distance of a release's inputs, and whether all of them are sources."""
        total, direct = Fraction(0), True
        for name in release["reads"]:
            distance = distances.get(name)
            if distance is None or not any(distance.values()):
                continue
            if name in self.sources:
                total += distance["records"]
                continue
            direct = False
            value = _in_norm(distance, _norm(release["event"]))
            if value is None:
                raise NotCoveredError(f"the distance of {name!r} in the norm of {release['name']!r}")
            total += value
        return total, direct

    def _charge(self, release: Node, distances: Mapping[str, Distance], met: int) -> Charge | None:
        distance, direct = self._reading(release, distances)
        count = int(release.get("count", 1)) * met
        if count > MOST:
            raise NotCoveredError(f"{release['name']!r} is paid more than 2^53 times")
        if not (distance and count):
            return None
        leading = release.get("leading") is True
        return Charge(str(release["name"]), release["event"], distance, count, direct, leading)

    # Moves

    def _of_records(self, records: Mapping[str, int]) -> Iterator[Move]:
        """The moves that change so many records of each source."""
        options = [list(self._placements(source, k)) for source, k in records.items()]
        if math.prod(map(len, options)) > _MOST_MOVES:
            raise NotCoveredError(f"more than {_MOST_MOVES} placements of a group")
        distances = self._distances(records)
        for chosen in itertools.product(*options):
            charges: list[Charge] = []
            exact, one_block = True, len(records) == 1
            met = dict(zip(records, chosen, strict=True))
            for release in self.releases:
                if release.get("reach") is None:
                    rows = [(distances, 1)]
                else:
                    (source,) = [n for n in release["reads"] if n in self.sources]
                    placed = met.get(source)
                    costs = placed.costs[str(release["name"])] if placed else ()
                    rows = [({source: {"records": Fraction(d)}}, n) for d, n in costs]
                charges += [c for where, n in rows if (c := self._charge(release, where, n)) is not None]
            for placed in chosen:
                exact, one_block = exact and placed.exact, one_block and placed.one_block
            if not one_block:  # it comes first only among the releases that read the same block
                charges = [replace(charge, leading=False) for charge in charges]
            label = ", ".join(f"{name}{p.label}: {k}" for (name, k), p in zip(records.items(), chosen, strict=True))
            yield Move(label, tuple(charges), exact)

    def _placements(self, source: str, k: int) -> Iterator[_Placed]:
        size = self.sources[source]
        windows = [r for r in self.releases if r.get("reach") is not None and source in r["reads"]]
        for release in windows:
            data = [n for n in release["reads"] if n in self.sources or self.by_name[n]["kind"] == "transform"]
            if data != [source]:
                raise UnusableError(f"release {release['name']!r} has a reach and reads more than one source")
        if size == 1 or not windows:
            costs = {str(r["name"]): _at(k, _count(r, size, 1)) for r in windows}
            yield _Placed("", costs)
        elif k == 1:
            yield from self._blocks(windows, size)
        elif math.comb(size + k - 1, k) <= _MOST_PLACEMENTS:
            yield from _listed(windows, size, k)
        else:
            yield from _bounded(windows, size, k)

    @staticmethod
    def _blocks(windows: Sequence[Node], size: int) -> Iterator[_Placed]:
        """One record, in each block of which no other block is read as often by every family."""
        if size <= _MOST_BLOCKS:
            blocks: Sequence[int] = range(1, size + 1)
        else:  # counts are linear between corners: if all rise or fall together, the corners dominate
            blocks = sorted({b for r in windows for b in _corners(r, size)})
            rows = [[_count(r, size, b) for r in windows] for b in blocks]
            for one, two in itertools.pairwise(rows):
                turns = [y - x for x, y in zip(one, two, strict=True)]
                if min(turns) < 0 < max(turns):
                    raise NotCoveredError(f"families of {size} blocks, read more often and less often along them")
        found: dict[tuple[int, ...], int] = {}
        for b in blocks:
            found.setdefault(tuple(_count(r, size, b) for r in windows), b)
        for row in _maximal(list(found)):
            costs = {str(r["name"]): _at(1, n) for r, n in zip(windows, row, strict=True)}
            yield _Placed(f"[{found[row]}]", costs)


_FIELDS = {
    "source": {"size"},
    "public": set[str](),
    "transform": {"reads", "stability"},
    "release": {"reads", "event", "count", "reach", "cumulative", "leading", "simulated"},
    "post": {"reads", "last_iterate"},
}


def _check(node: Node, before: Mapping[str, str]) -> None:
    """Refuses a node with other fields than its kind has, or that reads what it may not."""
    kind = str(node["kind"])
    if kind not in _FIELDS or not set(node) <= {"kind", "name"} | _FIELDS[kind]:
        raise UnusableError(f"node {node['name']!r} is of no known kind, or has unknown fields")
    if not set(node.get("reads", ())) <= set(before):
        raise UnusableError(f"node {node['name']!r} reads a node that is not before it")
    if kind == "post" and any(before[name] in ("source", "transform") for name in node["reads"]):
        raise UnusableError(f"node {node['name']!r} publishes data")
    reach = node.get("reach") or {}
    whole = [node.get("size", 1), node.get("count", 1)]
    limits = [reach.get("first"), reach.get("last")]
    if not all(isinstance(x, int) and not isinstance(x, bool) and x >= 1 for x in whole):
        raise UnusableError(f"node {node['name']!r} has a size or a count that is not a whole number above 0")
    if not all(x is None or (isinstance(x, int) and not isinstance(x, bool)) for x in limits):
        raise UnusableError(f"node {node['name']!r} has a reach that is not of whole numbers")
    if not all(isinstance(node.get(name, False), bool) for name in ("cumulative", "leading", "simulated")):
        raise UnusableError(f"node {node['name']!r} has a mark that is neither true nor false")


@dataclass(frozen=True)
class _Placed:
    """The places of one source's records: for each family ((d, n), …), n releases read d of them."""

    label: str
    costs: Mapping[str, tuple[tuple[int, int], ...]]
    exact: bool = True
    one_block: bool = True


def _norm(event: Any) -> str:
    kind = event["type"]
    if kind in ("Composed", "Parallel", "Assignment", "VisibleMixture", "InputMix"):
        inner = event.get("parts") or event.get("branches") or event.get("events") or [event.get("event")]
        norms = {_norm(one[0] if isinstance(one, list) else one) for one in inner}
        if len(norms) > 1:
            raise NotCoveredError("events in different norms under one distance")
        return norms.pop()
    return _EVENT_NORMS.get(str(kind), "records")


def _in_norm(distance: Distance, norm: str) -> Fraction | None:
    if not any(distance.values()):
        return Fraction(0)
    known = [distance[name] for name in _NORMS[norm] if name in distance]
    return min(known) if known else None


def _splits(total: int, names: Sequence[str]) -> Iterator[dict[str, int]]:
    """All ways to share records out to sources."""
    if not names:
        return
    if math.comb(total + len(names) - 1, len(names) - 1) > _MOST_MOVES:
        raise NotCoveredError(f"more than {_MOST_MOVES} ways to share a group out to the sources")
    for bars in itertools.combinations(range(total + len(names) - 1), len(names) - 1):
        edges = (-1, *bars, total + len(names) - 1)
        shares = (b - a - 1 for a, b in itertools.pairwise(edges))
        yield {name: k for name, k in zip(names, shares, strict=True) if k}


# Windows: the j-th release of a family, j = 1 … size, reads block i if first ≤ j − i ≤ last.


def _ends(release: Node, size: int, block: int) -> tuple[int, int]:
    first, last = release["reach"].get("first"), release["reach"].get("last")
    low = 1 if first is None else max(1, block + int(first))
    return low, size if last is None else min(size, block + int(last))


def _count(release: Node, size: int, block: int) -> int:
    low, high = _ends(release, size, block)
    return max(0, high - low + 1)


def _corners(release: Node, size: int) -> set[int]:
    first, last = release["reach"].get("first"), release["reach"].get("last")
    bends = {1, size}
    for limit in (first, last):
        if limit is not None:
            bends |= {1 - int(limit), size - int(limit), size + 1 - int(limit), -int(limit)}
    return {b for b in bends if 1 <= b <= size}


def _at(distance: int, count: int) -> tuple[tuple[int, int], ...]:
    return ((distance, count),) if count else ()


def _listed(windows: Sequence[Node], size: int, k: int) -> Iterator[_Placed]:
    """All placements of k records, each release at the number of records that it reads."""
    found: dict[tuple[tuple[tuple[int, int], ...], ...], tuple[int, ...]] = {}
    for blocks in itertools.combinations_with_replacement(range(1, size + 1), k):
        costs = []
        for release in windows:
            tally: dict[int, int] = {}
            for j in range(1, size + 1):
                read = [b for b in blocks if _ends(release, size, b)[0] <= j <= _ends(release, size, b)[1]]
                if read:
                    # A cumulative release also reads all blocks before its own.
                    earlier = release.get("cumulative") is True
                    d = sum(1 for b in blocks if _ends(release, size, b)[0] <= j) if earlier else len(read)
                    tally[d] = tally.get(d, 0) + 1
            costs.append(tuple(sorted(tally.items(), reverse=True)))
        found.setdefault(tuple(costs), blocks)
    for placed, blocks in found.items():
        by_name = {str(r["name"]): cost for r, cost in zip(windows, placed, strict=True)}
        yield _Placed(str(list(blocks)), by_name, one_block=blocks[0] == blocks[-1])


def _bounded(windows: Sequence[Node], size: int, k: int) -> Iterator[_Placed]:
    """A bound for each partition of k records into shares of different blocks.

    Let m be the largest number of releases of a family that read one block. Of s blocks, at most min(s·m, size)
    releases read any, or m if one end of the reach is open, as then the windows are nested. At most k·m/t read t.
    """
    if k > 40:
        raise NotCoveredError(f"a group of {k} records over a family of blocks")
    for shares in _partitions(k, k, size):
        costs = {str(r["name"]): _most(r, size, k, shares) for r in windows}
        yield _Placed(f" as {'+'.join(map(str, shares))}", costs, exact=False, one_block=len(shares) == 1)


def _most(release: Node, size: int, k: int, shares: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    m = max(_count(release, size, b) for b in _corners(release, size))
    first, last = release["reach"].get("first"), release["reach"].get("last")
    if len(shares) == 1 or first is None or last is None:
        return _at(k, m)
    if release.get("cumulative") is True:
        return _at(k, min(size, len(shares) * m))
    if first == last:
        return tuple((share, m) for share in shares if m)
    at_least = [min(size, len(shares) * m, k * m // t) for t in range(1, k + 1)] + [0]
    exactly = [(t, at_least[t - 1] - at_least[t]) for t in range(k, 0, -1)]
    return tuple((t, n) for t, n in exactly if n)


def _partitions(total: int, largest: int, room: int) -> Iterator[tuple[int, ...]]:
    if total == 0:
        yield ()
    elif room:
        for first in range(min(total, largest), 0, -1):
            for rest in _partitions(total - first, first, room - 1):
                yield (first, *rest)


def _maximal(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The rows that no other one equals or exceeds in every place."""
    kept: list[tuple[int, ...]] = []
    for row in sorted(rows, key=sum, reverse=True):
        if not any(all(a <= b for a, b in zip(row, other, strict=True)) for other in kept):
            kept.append(row)
            if len(kept) > _MOST_MOVES:
                raise NotCoveredError(f"more than {_MOST_MOVES} blocks that may be the worst")
    return kept
