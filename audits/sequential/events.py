"""Events to bet on, learned from earlier outputs alone.

Outputs are divided into cells (:mod:`hockeystick.audits.attacks.partitions`), and the cells of a partition are put in
several orders: along the feature and back, from the middle outwards and inwards, and by the likelihood ratio of the
earlier outputs in both directions. A *role* is a place in such an order: "the front with a fifth of all outputs". As
outputs come in and quantiles get clearer, the event of a role is updated, while the role's money stays. So the best
role has to be found only once. Each event depends on earlier outputs alone, that is, it is predictable, so no choice
can make a bet unfair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from attrs import define, evolve, field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray, IntArray
from hockeystick.accounting.validate import items
from hockeystick.audits.attacks.partitions import Evidence, real_partitions
from hockeystick.audits.outputs.cells import Intervals, Partition, as_seen
from hockeystick.audits.outputs.reading import Codebook, Layout, Table
from hockeystick.audits.sequential.verdict import SCORE
from hockeystick.audits.targets.calling import TargetError

LEVELS = np.array([0.002, 0.008, 0.025, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.65])  # shares of all outputs in front
GRADES = 7  # nested events that make a graded one
_ORDERS = 6
_RAMPS = (0.5, 1.0)
_SUPPORTS = (0.4, 1.0)  # shares of all outputs in which a graded event is above 0
_FINE = 32  # least number of intervals of a partition
_RANKS = 2  # partitions to bet on: those that separate the data sets best
_MOST_OUTPUTS, _MOST_NUMBERS = 1 << 17, 1 << 22  # latest outputs of each data set from which events are learned

Statistic = Callable[[Any], npt.ArrayLike]


class Events(Protocol):
    """Some events, and their counts so far.

    ``counts`` has shape (events, sides), from ``trials`` outputs of each data set; ``trials`` may be 0. The last events
    form ``graded`` graded events of ``GRADES`` nested ones each.
    """

    @property
    def graded(self) -> int: ...

    @property
    def learned(self) -> bool: ...

    @property
    def counts(self) -> IntArray: ...

    @property
    def trials(self) -> int: ...

    def happened(self, batch: Any) -> BoolArray:
        """Returns a mask of the events that contain each output of a batch, shape (events, runs)."""
        ...

    @property
    def cuts(self) -> tuple[Cut, ...]: ...

    def places(self, batch: Any) -> IntArray:
        """Returns the cell of each output of a batch in each of ``cuts``, shape (cuts, runs)."""
        ...

    def words(self, event: int, *, exact: bool = False) -> str:
        """Describes an event, with all digits of its numbers if ``exact``."""
        ...


@frozen(eq=False)
class Cut:
    """Cells, and the counts of outputs in them so far, shape (sides, cells)."""

    partition: Partition
    counts: IntArray


@frozen(eq=False)
class FixedEvents:
    """Events given by the caller. A batch is an array of their indicators, shape (events, runs)."""

    names: tuple[str, ...]
    counts: IntArray
    trials: int
    graded: int = 0
    learned: bool = False
    cuts: tuple[Cut, ...] = ()

    def happened(self, batch: BoolArray) -> BoolArray:
        return batch

    def places(self, batch: BoolArray) -> IntArray:
        return np.zeros((0, batch.shape[1]), dtype=np.int64)

    def after(self, batch: tuple[BoolArray, BoolArray]) -> FixedEvents:
        """Returns the events with the counts of a batch of each data set added."""
        counts = np.stack([side.sum(axis=1) for side in batch], axis=1)
        return FixedEvents(self.names, self.counts + counts, self.trials + batch[0].shape[1])

    def words(self, event: int, *, exact: bool = False) -> str:
        return self.names[event]


@frozen(eq=False)
class _Fronts:
    """The events of one partition: ``plain`` and ``graded`` are masks of their cells, shape (events, cells)."""

    partition: Partition
    plain: BoolArray
    graded: BoolArray
    plain_counts: IntArray
    graded_counts: IntArray


@frozen(eq=False)
class LearnedEvents:
    """Fronts of the orders of cells of one or more partitions, and the cells. A batch is a :class:`Table`."""

    fronts: tuple[_Fronts, ...]
    cuts: tuple[Cut, ...]
    trials: int
    grid: float | None
    layouts: list[Layout]  # of the codebook, which may have grown since
    learned: bool = True

    @property
    def graded(self) -> int:
        return sum(len(own.graded) for own in self.fronts) // GRADES

    @property
    def counts(self) -> IntArray:
        return np.concatenate([own.plain_counts for own in self.fronts] + [own.graded_counts for own in self.fronts])

    def happened(self, batch: Table) -> BoolArray:
        cells = self._index([own.partition for own in self.fronts], batch)
        plain = [own.plain[:, index] for own, index in zip(self.fronts, cells, strict=True)]
        return np.concatenate(plain + [own.graded[:, index] for own, index in zip(self.fronts, cells, strict=True)])

    def places(self, batch: Table) -> IntArray:
        return np.stack(self._index([own.partition for own in self.cuts], batch))

    def _index(self, partitions: list[Partition], batch: Table) -> list[IntArray]:
        seen = as_seen([one.view for one in partitions], batch, self.layouts, self.grid)
        return [one.index(*own) for one, own in zip(partitions, seen, strict=True)]

    def words(self, event: int, *, exact: bool = False) -> str:
        for own in self.fronts:
            if event < len(own.plain):
                return own.partition.words(own.plain[event], exact=exact)
            event -= len(own.plain)
        for own in self.fronts:
            if event < len(own.graded) // GRADES:
                top = own.graded[(event + 1) * GRADES - 1]
                return f"{SCORE}, largest if {own.partition.words(top, exact=exact)}"
            event -= len(own.graded) // GRADES
        raise AssertionError(event)


@define
class Memory:
    """The earlier outputs of both data sets from which events are learned."""

    grid: float | None
    book: Codebook = field(factory=Codebook)
    tables: tuple[list[Table], list[Table]] = field(factory=lambda: ([], []))
    ranks: int = 0  # number of partitions to bet on; 0 until it is known

    def keep(self, batch: tuple[Table, Table]) -> None:
        """Adds a batch, and drops the oldest batches beyond the maximum."""
        for own, table in zip(self.tables, batch, strict=True):
            own.append(table)
            most = min(_MOST_OUTPUTS, _MOST_NUMBERS // table.numbers)
            while len(own) > 1 and sum(t.runs for t in own[1:]) >= most:
                own.pop(0)

    def joined(self) -> tuple[Table, Table]:
        """Returns the outputs so far."""
        return Table.join(self.tables[0]), Table.join(self.tables[1])

    def learn(self, before: LearnedEvents | None = None) -> LearnedEvents:
        """Returns events and cells learned from the outputs so far; ``before`` keeps its events and gets new cells."""
        joined = self.joined()
        evidence = Evidence.of(joined, tuple(self.book.layouts), self.grid)
        found = [(p, evidence.tally(p)) for p in real_partitions(evidence)]
        found.sort(key=lambda pair: -_separation(pair[1]))
        self.ranks = self.ranks or min(_RANKS, len(found))
        chosen = [found[rank % len(found)] for rank in range(self.ranks)]
        cuts = tuple(_cut(evidence, *pair) for pair in chosen)
        if before is not None:
            return evolve(before, cuts=cuts)
        fronts = tuple(_fronts(*pair) for pair in chosen)
        return LearnedEvents(fronts, cuts, joined[0].runs, self.grid, self.book.layouts)


def _cut(evidence: Evidence, partition: Partition, tally: IntArray) -> Cut:
    """Returns a partition's cells, made finer if they are few intervals, since their counts will be smoothed."""
    part = partition.parts.get(0)
    if not partition.ordered or partition.folds or not isinstance(part, Intervals) or part.cells >= _FINE:
        return Cut(partition, tally.sum(axis=0))
    keys = np.sort(np.concatenate(evidence.divided_by(partition).keys(0, part.feature)))
    more = keys[np.arange(1, _FINE) * len(keys) // _FINE]
    edges = np.union1d(part.edges, more[more > keys[0]])
    finer = evolve(partition, parts={0: Intervals(part.feature, edges)}, cells=len(edges) + 2)
    return Cut(finer, evidence.tally(finer).sum(axis=0))


def _separation(tally: IntArray) -> float:
    """Returns the chi-squared statistic of counts against data set, minus its expectation under no difference."""
    counts = tally.sum(axis=0)
    pooled = counts.sum(axis=0)
    seen = pooled > 0
    gap = np.square(counts[0] - counts[1])[seen] / pooled[seen]
    return float(gap.sum() - np.count_nonzero(seen))


def _fronts(partition: Partition, tally: IntArray) -> _Fronts:
    """Returns the events of a partition; events ranked by the counts of one fold are counted on the other."""
    totals = tally.sum(axis=0)
    members = np.zeros((_ORDERS, len(LEVELS), partition.cells), dtype=bool)
    counts = np.zeros((_ORDERS, len(LEVELS), 2), dtype=np.int64)
    if partition.ordered:
        along = np.arange(partition.cells - 1)  # the last cell holds no number
        pooled = totals.sum(axis=0)[:-1]
        outwards = np.argsort(np.abs(pooled.cumsum() - pooled / 2 - pooled.sum() / 2), kind="stable")
        for i, order in enumerate((along, along[::-1], outwards, outwards[::-1])):
            members[i] = _prefixes(order, totals)
            counts[i] = members[i] @ totals.T
    folds = [(tally[0], tally[1]), (tally[1], tally[0])]
    for i, turn in ((4, slice(None)), (5, slice(None, None, -1))):
        members[i] = _prefixes(_by_ratio(totals)[turn], totals)
        counts[i] = sum(_prefixes(_by_ratio(own)[turn], own) @ other.T for own, other in folds)
    graded = _graded(totals)
    graded_counts = np.asarray(sum(_graded(own) @ other.T for own, other in folds))
    ramps = np.zeros((4, len(_RAMPS) * GRADES, partition.cells), dtype=bool)
    if partition.ordered:
        for i, order in enumerate((along, along[::-1], outwards, outwards[::-1])):
            ramps[i] = _ramps(order, totals)
    flat = ramps.reshape(-1, partition.cells)
    graded = np.concatenate([graded, flat])
    graded_counts = np.concatenate([graded_counts, flat @ totals.T])
    plain = members.reshape(-1, partition.cells)
    return _Fronts(partition, plain, graded, counts.reshape(-1, 2), graded_counts)


def _graded(counts: IntArray) -> BoolArray:
    """Returns graded events, shape (2 supports grades, cells), whose value grows with the likelihood ratio.

    On its support, the front of the order by likelihood ratio, the value grows with r = f / (f + g) from 0 to 1.
    """
    found = np.zeros((2, len(_SUPPORTS), GRADES, counts.shape[1]), dtype=bool)
    seen = np.flatnonzero(counts.sum(axis=0))
    share = counts[:, seen].sum(axis=0) / max(1, int(counts.sum()))
    for side in (0, 1):
        r = (counts[side, seen] + 1) / (counts[:, seen].sum(axis=0) + 2)
        order = np.argsort(-r, kind="stable")
        held = share[order].cumsum() - share[order]
        for i, support in enumerate(_SUPPORTS):
            front = order[held < support]
            least, most = r[order[-1]] if support == 1 else r[front[-1]], r[front[0]]
            value = np.clip((r - least) / (most - least), 0, 1) if most > least else np.zeros(len(r))
            found[side, i][:, seen] = value * GRADES >= np.arange(GRADES)[:, None] + 0.5
    return found.reshape(-1, counts.shape[1])


def _ramps(order: IntArray, totals: IntArray) -> BoolArray:
    """Returns graded events, shape (ramps grades, cells), that decrease from 1 at the front of ``order`` to 0."""
    pooled = totals.sum(axis=0)[order] / max(1, int(totals.sum()))
    place = pooled.cumsum() - pooled / 2
    members = np.zeros((len(_RAMPS), GRADES, totals.shape[1]), dtype=bool)
    for own, end in zip(members, _RAMPS, strict=True):
        own[:, order] = (1 - place / end) * GRADES >= np.arange(GRADES)[:, None] + 0.5
    return members.reshape(-1, totals.shape[1])


def _by_ratio(counts: IntArray) -> IntArray:
    """Returns the non-empty cells, from the most typical of the first data set to the most typical of the second."""
    seen = np.flatnonzero(counts.sum(axis=0))
    return np.asarray(seen[np.argsort(-np.log((counts[0, seen] + 0.5) / (counts[1, seen] + 0.5)), kind="stable")])


def _prefixes(order: IntArray, totals: IntArray) -> BoolArray:
    """Returns, for each level, the cells from the front of ``order`` that hold about that share of the outputs."""
    held = totals.sum(axis=0)[order].cumsum() / max(1, int(totals.sum()))
    middles = (held + np.concatenate([[0.0], held[:-1]])) / 2
    sizes = np.maximum(np.searchsorted(middles, LEVELS), 1)
    members = np.zeros((len(LEVELS), totals.shape[1]), dtype=bool)
    members[:, order] = np.arange(len(order)) < sizes[:, None]
    return members


@frozen(eq=False)
class GivenEvents:
    """The caller's argument ``events``: indicators of events, or one statistic that replaces the output."""

    functions: tuple[Statistic, ...]
    names: tuple[str, ...]

    @classmethod
    def of(cls, given: object) -> GivenEvents | None:
        """Returns the functions in ``given``, which is None, a callable, or several callables.

        Raises:
          InvalidArgumentError: it is something else, or empty.
        """
        if given is None:
            return None
        functions = (given,) if callable(given) else items("events", given)
        if not functions or not all(map(callable, functions)):
            raise InvalidArgumentError("events", given, "is not a function of outputs", "give f(outputs), or several")
        names = [str(getattr(function, "__name__", "event")) for function in functions]
        named = [f"event {i + 1}" if name in ("<lambda>", "event") else name for i, name in enumerate(names)]
        return cls(tuple(functions), tuple(named))

    def read(self, outputs: Any, runs: int) -> npt.NDArray[Any]:
        """Returns indicators, shape (events, runs), or the values of a statistic, runs on the leading axis.

        Raises:
          TargetError: a length is wrong, or there are several functions that are not all indicators.
        """
        values = [np.asarray(function(outputs)) for function in self.functions]
        for name, value in zip(self.names, values, strict=True):
            if value.shape[:1] != (runs,):
                raise TargetError(f"{name} was given {runs} outputs and returned an array of shape {value.shape}")
        flags = all(value.dtype == bool and value.ndim == 1 for value in values)
        if not flags and len(values) > 1:
            raise TargetError("each of several events must return one bool per output; or give a single statistic")
        return np.stack(values) if flags else values[0]
