"""Data sets of records as domains of a search: lists over finitely many values, arrays of numbers or vectors in a box.

The canonical pairs fill a data set with one extreme record, or with all of them in turn, and add, remove or change an
extreme record at the end or at the front, in small and in large data sets. Under ``Adjacency.LOCAL`` a data set is one
record, the input of a local randomiser, and any two records are neighbours.

Loss streams of T rounds over N experts are ``RealRecords(low=0, high=1, least=T, most=T, dimension=N)`` under
replace-one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, items, real
from hockeystick.audits.neighbours.domains import Pair, Rng
from hockeystick.audits.neighbours.pairs import NeighbourPair, check_neighbours, checked_pair, record_key

_LARGEST = 10**7  # records in a data set, and numbers in a record, because a search stores many data sets
_EXTREMES = 4  # extreme records in canonical pairs
_LONG = 20  # default number of records in the largest data set


def _values(value: object) -> tuple[Any, ...]:
    return items("values", value)


@frozen(eq=False)
class _Change:
    """The parts of a pair: the common records, and the records of each data set at the positions ``at``."""

    common: list[Any]
    at: list[int]
    old: list[Any]  # empty if the records of ``new`` are added
    new: list[Any]

    def sides(self) -> tuple[list[Any], list[Any]]:
        return self._with(self.old), self._with(self.new)

    def _with(self, records: list[Any]) -> list[Any]:
        whole = list(self.common)
        for at, record in zip(self.at, records, strict=False):  # ``old`` may be empty
            whole.insert(at, record)
        return whole


@frozen(kw_only=True)
class _Records:
    """Base class: data sets of ``least`` to ``most`` records. ``null`` is the record of replace-with-null."""

    least: int = 0
    most: int = _LONG
    null: Any = None
    ordered: bool = True

    def _check_sizes(self) -> None:
        least = integer("least", self.least, low=0, high=_LARGEST)
        integer("most", self.most, low=max(1, least), high=_LARGEST)

    # Methods that depend on the kind of records.

    def _extremes(self) -> list[Any]:
        raise NotImplementedError

    def _others(self) -> list[Any]:
        return []

    def _draw(self, rng: Rng) -> Any:
        raise NotImplementedError

    def _nudge(self, record: Any, rng: Rng) -> Any:
        raise NotImplementedError

    def _pack(self, records: list[Any]) -> Any:
        raise NotImplementedError

    def _require(self, name: str, records: list[Any]) -> None:
        raise NotImplementedError

    # The domain.

    def canonical(self, adjacency: Adjacency, group: int) -> Sequence[NeighbourPair]:
        """Returns pairs with fillings by extreme records, and with an extreme record added, removed or changed.

        If the records have finitely many values, each value is added, removed or changed at least once.
        """
        sizes, extremes = self._common_sizes(adjacency, group), self._extremes()
        changes, rest = self._changes(adjacency, extremes, group), self._rest(adjacency, group)
        if adjacency is Adjacency.LOCAL:
            return [self._pair(_Change([], [0], old, new), adjacency, 1) for old, new in [*changes, *rest]]
        fillings = [functools.partial(_fill, [e]) for e in extremes] + [functools.partial(_fill, extremes)]
        lengths = dict.fromkeys((max(sizes.start, min(5, sizes[-1])), sizes.start, sizes[-1]))
        tried = itertools.product((True, False), lengths, fillings, changes)
        few = itertools.product((True,), [sizes.start], fillings[:1], rest)
        found: dict[Hashable, NeighbourPair] = {}
        for last, size, filling, (old, new) in (*tried, *few):
            at = [size * last + i for i in range(group)]
            pair = self._pair(_Change(filling(size), at, old, new), adjacency, group)
            found.setdefault(record_key(tuple(pair)), pair)
        return list(found.values())

    def _changes(self, adjacency: Adjacency, records: list[Any], group: int) -> list[tuple[list[Any], list[Any]]]:
        """Returns the (old, new) records of a group whose members are all equal."""
        if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            return [([], [b] * group) for b in records]
        if adjacency is Adjacency.REPLACE_WITH_NULL:
            blank = self._blank()
            return [([blank] * group, [b] * group) for b in records if not _is(blank, b)]
        return [([a] * group, [b] * group) for a, b in itertools.combinations(records, 2)]

    def _rest(self, adjacency: Adjacency, group: int) -> list[tuple[list[Any], list[Any]]]:
        """Returns such (old, new) records for the values that are not extreme, each of them once or twice."""
        others = self._others()
        if adjacency in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL):
            return self._changes(adjacency, others, group)
        neighbours = zip(others[::2], [*others[1::2], *self._extremes()[: len(others) % 2]], strict=True)
        return [([a] * group, [b] * group) for a, b in neighbours]

    def random_pair(self, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns random records of few distinct values, before and after a random change of a group."""
        sizes = self._common_sizes(adjacency, group)
        size = int(rng.integers(sizes.start, sizes.stop))
        palette = [self._draw(rng) for _ in range(int(rng.choice([1, 2, max(1, size)])))]
        common = [palette[i] for i in rng.integers(len(palette), size=size)]
        at = sorted(rng.choice(size + group, group, replace=False).tolist())
        new = [self._draw(rng) for _ in range(group)]
        if rng.random() < 0.5:  # a group that acts as one
            new = [new[0]] * group
        return self._packed(_Change(common, at, self._old(rng, adjacency, group), new), adjacency)

    def mutate(self, pair: Pair, rng: Rng, adjacency: Adjacency, group: int) -> Pair:
        """Returns the pair with one change: in one or all common records, in their number, or in the differing ones."""
        change = self._parts(pair, adjacency)
        common, at, old, new = (list(part) for part in (change.common, change.at, change.old, change.new))
        if not new:  # equal data sets
            return self.random_pair(rng, adjacency, group)
        sizes = self._common_sizes(adjacency, len(new))
        kind = 3 + int(rng.integers(2)) if adjacency is Adjacency.LOCAL else int(rng.integers(5))
        if kind == 0 and common:  # one of the others
            i = int(rng.integers(len(common)))
            common[i] = self._nudge(common[i], rng)
        elif kind == 1 and common:  # all of the others alike
            common = [self._nudge(common[int(rng.integers(len(common)))], rng)] * len(common)
        elif kind == 2 and len(sizes) > 1:  # one more, or one less
            grown = len(common) < sizes[-1] and (len(common) <= sizes.start or rng.random() < 0.5)
            common = [*common, self._draw(rng)] if grown else common[:-1]
            at = [min(i, len(common) + j) for j, i in enumerate(at)]
        elif kind == 3 and old and adjacency is not Adjacency.REPLACE_WITH_NULL:
            i = int(rng.integers(len(old)))
            old[i] = self._nudge(old[i], rng)
        else:
            i = int(rng.integers(len(new)))
            new[i] = self._nudge(new[i], rng)
        return self._packed(_Change(common, at, old, new), adjacency)

    def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
        """Returns the number of records in which two data sets differ; raises NotNeighboursError if it is too large."""
        for name, data in (("d0", d0), ("d1", d1)):
            records = [data] if adjacency is Adjacency.LOCAL else list(data)
            if adjacency is not Adjacency.LOCAL and not self.least <= len(records) <= self.most:
                reason = f"has {len(records)} records"
                raise InvalidArgumentError(name, data, reason, f"give {self.least} to {self.most}, as in the domain")
            if adjacency is Adjacency.REPLACE_WITH_NULL:
                blank = record_key(self._blank())
                records = [record for record in records if record_key(record) != blank]
            if records:
                self._require(name, records)
        return check_neighbours(d0, d1, adjacency, group=group, ordered=self.ordered, null=self._blank())

    def _common_sizes(self, adjacency: Adjacency, group: int) -> range:
        """Returns the possible numbers of common records of two data sets."""
        if adjacency is Adjacency.LOCAL:
            return range(0, 1)
        least = self.least if adjacency is Adjacency.ADD_OR_REMOVE_ONE else max(self.least - group, 0)
        if self.most - group < least:
            reason = f"leaves no room for a group of {group} under {adjacency.value}"
            raise InvalidArgumentError("most", self.most, reason, f"give at least {least + group}")
        return range(least, self.most - group + 1)

    def _old(self, rng: Rng, adjacency: Adjacency, group: int) -> list[Any]:
        if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            return []
        if adjacency is Adjacency.REPLACE_WITH_NULL:
            return [self._blank()] * group
        return [self._draw(rng) for _ in range(group)]

    def _parts(self, pair: Pair, adjacency: Adjacency) -> _Change:
        """Returns the parts of a pair; under add-or-remove-one the larger data set becomes d1."""
        if adjacency is Adjacency.LOCAL:
            return _Change([], [0], [pair[0]], [pair[1]])
        a, b = (list(data) for data in pair)
        if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
            a, b = sorted((a, b), key=len)
            at, i = [], 0
            for j, record in enumerate(b):
                if i < len(a) and _is(a[i], record):
                    i += 1
                else:
                    at.append(j)
            return _Change(a, at, [], [b[j] for j in at])
        at = [j for j, (x, y) in enumerate(zip(a, b, strict=True)) if not _is(x, y)]
        if adjacency is Adjacency.REPLACE_WITH_NULL and at and _is(b[at[0]], self._blank()):
            a, b = b, a
        common = [record for j, record in enumerate(a) if j not in at]
        return _Change(common, at, [a[j] for j in at], [b[j] for j in at])

    def _blank(self) -> Any:
        """Returns the record of replace-with-null, in the type of the records."""
        return self.null

    def _packed(self, change: _Change, adjacency: Adjacency) -> Pair:
        if adjacency is Adjacency.LOCAL:
            return change.old[0], change.new[0]
        d0, d1 = change.sides()
        return self._pack(d0), self._pack(d1)

    def _pair(self, change: _Change, adjacency: Adjacency, group: int) -> NeighbourPair:
        d0, d1 = self._packed(change, adjacency)
        why = "two inputs of a local randomiser" if adjacency is Adjacency.LOCAL else ""
        return checked_pair(d0, d1, why, adjacency=adjacency, group=group, ordered=self.ordered, null=self._blank())


@frozen(kw_only=True)
class FiniteRecords(_Records):
    """The domain of lists of records with finitely many values.

    Attributes:
      values: the values; canonical pairs use the first, the last and two values in between.
      least, most: sizes of data sets; pairs for a group of k need room for k records.
      null: the record that replaces a record under replace-with-null; it need not be one of the values.
      ordered: as in :func:`hockeystick.audits.neighbours.pairs.record_distance`.

    Raises:
      InvalidArgumentError: there are fewer than two values, or the sizes are out of order.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import FiniteRecords
      >>> domain = FiniteRecords(values=["no", "yes"], most=3)
      >>> domain.check(["no"], ["no", "yes"], Adjacency.ADD_OR_REMOVE_ONE, group=1)
      1
    """

    values: tuple[Any, ...] = field(converter=_values)

    def __attrs_post_init__(self) -> None:
        self._check_sizes()
        if len(self.values) < 2:
            raise InvalidArgumentError("values", self.values, "has fewer than two values", "give at least two")

    def _extremes(self) -> list[Any]:
        last = len(self.values) - 1
        places = np.unique(np.linspace(0, last, min(_EXTREMES, last + 1)).astype(int)).tolist()
        return [self.values[i] for i in sorted(places, key=lambda i: min(i, last - i))]

    def _others(self) -> list[Any]:
        known = set(map(record_key, self._extremes()))
        return [value for value in self.values if record_key(value) not in known]

    def _draw(self, rng: Rng) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def _nudge(self, record: Any, rng: Rng) -> Any:
        return self._draw(rng)

    def _pack(self, records: list[Any]) -> Any:
        return records

    def _require(self, name: str, records: list[Any]) -> None:
        known = set(map(record_key, self.values))
        for record in records:
            if record_key(record) not in known:
                raise InvalidArgumentError(name, record, "is not in the domain", "give records of its values")


@frozen(kw_only=True)
class RealRecords(_Records):
    """The domain of arrays of numbers, or of vectors, in a box: shape (records,) or (records, dimension).

    Attributes:
      low, high: range of every number: numbers, or vectors of shape (dimension,).
      dimension: number of coordinates of a record; None for records that are single numbers.
      integral: whether all numbers are whole.
      least, most: sizes of data sets; pairs for a group of k need room for k records.
      null: the record that replaces a record under replace-with-null; default: all zeros.
      ordered: as in :func:`hockeystick.audits.neighbours.pairs.record_distance`.

    Raises:
      InvalidArgumentError: ``low`` and ``high`` are not finite, have another shape or are out of order; or the sizes
        are out of order.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import RealRecords, group_pairs
      >>> pair = group_pairs(RealRecords(low=0, high=1, least=2, most=2), Adjacency.REPLACE_ONE)[0]
      >>> pair.d0.tolist(), pair.d1.tolist()
      ([0.0, 0.0], [0.0, 1.0])
    """

    low: Any
    high: Any
    dimension: int | None = None
    integral: bool = False

    _box: tuple[FloatArray, FloatArray] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._check_sizes()
        if self.dimension is not None:
            object.__setattr__(self, "dimension", integer("dimension", self.dimension, low=1, high=_LARGEST))
        low, high = self._ends()
        object.__setattr__(self, "_box", (low, high))
        if not (low < high).all():
            raise InvalidArgumentError("high", self.high, f"is not above low={self.low}", "give a range of some width")

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        shape = () if self.dimension is None else (self.dimension,)
        ends = []
        for name, end in (("low", self.low), ("high", self.high)):
            plain = np.ndim(end) == 0
            number = np.asarray(real(name, end)) if plain else array(name, end, shape=shape or (1,))
            ends.append(np.broadcast_to(number, shape).astype(float))
        return ends[0], ends[1]

    def _extremes(self) -> list[Any]:
        low, high = self._box
        found = [self._record(low), self._record(high)]
        for more in (np.clip(0.0, low, high), (low + high) / 2, *self._corners(low, high)):
            record = self._record(more)
            if not any(_is(record, known) for known in found):
                found.append(record)
        return found[: _EXTREMES + (self.dimension is not None)]

    def _corners(self, low: FloatArray, high: FloatArray) -> Iterator[FloatArray]:
        """Yields records with half of the coordinates high and the others low, the reverse, and one coordinate high."""
        if self.dimension is not None and self.dimension > 1:
            half = np.arange(self.dimension) < self.dimension // 2
            yield np.where(half, high, low)
            yield np.where(half, low, high)
            yield np.where(np.arange(self.dimension) == 0, high, low)

    def _draw(self, rng: Rng) -> Any:
        low, high = self._box
        if rng.random() < 0.25:  # ends are where clipping fails
            return self._record(np.where(rng.random(low.shape) < 0.5, low, high))
        return self._record(rng.uniform(low, high))

    def _nudge(self, record: Any, rng: Rng) -> Any:
        """Returns a record in which some coordinates take a random step or go to an end; sometimes a new record."""
        low, high = self._box
        if rng.random() < 0.1:
            return self._draw(rng)
        step = rng.standard_normal(low.shape) * (high - low) * 10.0 ** rng.uniform(-2, 0)
        if self.integral:
            step = np.sign(step) * np.ceil(np.abs(step))
        there = np.asarray(record, dtype=float)
        moved = np.clip(there + step, low, high)
        if rng.random() < 0.4:
            moved = np.where(rng.random(low.shape) < 0.5, low, high)
        if self.dimension is not None and rng.random() < 0.8:
            some = rng.random(self.dimension) < min(1.0, 2 / self.dimension)
            some[rng.integers(self.dimension)] = True
            moved = np.where(some, moved, there)
        return self._record(moved)

    def _record(self, value: npt.ArrayLike) -> Any:
        low, high = self._box
        value = np.asarray(value, dtype=float)
        if self.integral:
            return np.clip(np.round(value), np.ceil(low), np.floor(high)).astype(np.int64)[()]
        return value[()] + 0.0

    def _pack(self, records: list[Any]) -> Any:
        shape = (len(records),) if self.dimension is None else (len(records), self.dimension)
        return np.array(records, dtype=np.int64 if self.integral else float).reshape(shape)

    def _blank(self) -> Any:
        return self._record(np.zeros(()) if self.null is None else self.null) + self._record(self._box[0]) * 0

    def _require(self, name: str, records: list[Any]) -> None:
        low, high = self._box
        numbers = array(name, np.asarray(records), shape=(None, *low.shape))
        if not ((low <= numbers) & (numbers <= high)).all():
            raise InvalidArgumentError(name, records, "are outside the domain", f"give {self.low} to {self.high}")
        if self.integral and not (numbers == np.round(numbers)).all():
            raise InvalidArgumentError(name, records, "are not integral", "give whole numbers")


def _is(a: Any, b: Any) -> bool:
    return record_key(a) == record_key(b)


def _fill(palette: list[Any], size: int) -> list[Any]:
    return [palette[i % len(palette)] for i in range(size)]
