"""Which two data sets are neighbours: a pair with its reason, and the check that it is one.

An audit that refutes a claim on two data sets which the claim does not relate has shown nothing. So every pair that is
made or searched here passes :func:`check_neighbours` for the relation and the group size of the claim.

A data set is a sequence of records: a list or a tuple, an array with the records on its leading axis, or any object
with a method ``records()`` that returns such a sequence (:class:`hockeystick.audits.membership.audit.Examples`).
Records are equal if their types and values are, floats by their bits, so that -0.0 and 0.0 are two records and NaN is
one: where equality is in doubt, the pair is refused rather than audited.

By default data sets are *ordered*: neighbours agree in the order of the records that they share. Every such pair is
also one of multisets, so a claim about either kind of data set is tested by it; with ``ordered=False`` the order may
differ, and then the claim must be about multisets.

A group of k under add-or-remove-one is k records that one data set has and the other has not, as in
:meth:`hockeystick.accounting.AccountantGraph.guarantee`; under replace-with-null, k records of one data set that are
null in the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.validate import integer
from hockeystick.audits.claims.claim import Claim


class NotNeighboursError(InvalidArgumentError):
    """Two data sets are not neighbours under the relation, so no claim about neighbours says anything about them."""


def _adjacency(value: object) -> Adjacency:
    if not isinstance(value, Adjacency):
        known = ", ".join(f"Adjacency.{relation.name}" for relation in Adjacency)
        raise InvalidArgumentError("adjacency", value, "is no neighbouring relation", f"use one of {known}")
    return value


def known_group(adjacency: Adjacency, group: object) -> int:
    """Returns the size of a group.

    Raises:
      InvalidArgumentError: not a positive integer, or above 1 for one local randomiser, which has one input.
    """
    size = integer("group", group, low=1)
    if adjacency is Adjacency.LOCAL and size > 1:
        raise InvalidArgumentError("group", group, "one local randomiser has one input", "use group=1")
    return size


@frozen(eq=False)
class NeighbourPair:
    """Two neighbouring data sets, and why they are: ``audit(..., neighbours=pair)`` takes it.

    Attributes:
      d0, d1: the data sets.
      why: in what they differ, in words.
      adjacency, group: the relation under which they were checked, and how many records may differ.
    """

    d0: Any
    d1: Any
    why: str = ""
    adjacency: Adjacency = field(default=Adjacency.ADD_OR_REMOVE_ONE, converter=_adjacency)
    group: int = 1

    def __attrs_post_init__(self) -> None:
        known_group(self.adjacency, self.group)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.d0, self.d1))

    def reversed(self) -> NeighbourPair:
        """Returns the pair in the other order. An audit tests both orders, a test of one direction does not."""
        return attrs.evolve(self, d0=self.d1, d1=self.d0)


def record_distance(d0: Any, d1: Any, adjacency: Adjacency, *, ordered: bool = True, null: object = None) -> int | None:
    """Returns in how many records two data sets differ under a relation: the least group they are neighbours for.

    None if no group makes them neighbours (under add-or-remove-one, say, each holds a record that the other lacks).

    Args:
      ordered: the records that the data sets share are in the same order; see the module's docstring.
      null: the record that takes a record's place under replace-with-null.

    Raises:
      InvalidArgumentError: not sequences of records that can be compared, or an unknown relation.
    """
    adjacency = _adjacency(adjacency)
    if adjacency is Adjacency.LOCAL:
        return int(record_key(d0) != record_key(d1))
    a, b = _records("d0", d0), _records("d1", d1)
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        short, long = sorted((a, b), key=len)
        there = iter(long)
        inside = all(key in there for key in short) if ordered else not Counter(short) - Counter(long)
        return len(long) - len(short) if inside else None
    if len(a) != len(b):
        return None
    if ordered:
        moved = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    else:
        left, right = Counter(a), Counter(b)
        moved = list(zip((left - right).elements(), (right - left).elements(), strict=True))
    if adjacency is Adjacency.REPLACE_ONE:
        return len(moved)
    nothing = record_key(null)
    nulled = all(y == nothing for _, y in moved) or all(x == nothing for x, _ in moved)
    return len(moved) if nulled else None


def check_neighbours(
    d0: Any, d1: Any, adjacency: Adjacency, *, group: int = 1, ordered: bool = True, null: object = None
) -> int:
    """Checks that two data sets are neighbours, and returns in how many records they differ (0 if they are equal).

    Args:
      group: how many records may differ.
      ordered, null: as for :func:`record_distance`.

    Raises:
      NotNeighboursError: they are not.
      InvalidArgumentError: data sets that can't be compared, an unknown relation, a group that is none.
    """
    group = known_group(_adjacency(adjacency), group)
    distance = record_distance(d0, d1, adjacency, ordered=ordered, null=null)
    how = "" if distance is not None else _why_not(d0, d1, adjacency, ordered, null)
    return checked_distance(distance, d0, d1, adjacency, group, how)


def checked_distance(
    distance: int | None, d0: Any, d1: Any, adjacency: Adjacency, group: int, how: str = "nothing relates them"
) -> int:
    """Returns the distance of two data sets.

    Raises:
      NotNeighboursError: it is None or above ``group``.
    """
    if distance is not None and distance <= group:
        return distance
    what = f"are no neighbours under {adjacency.value}" + f" for a group of {group}" * (group > 1)
    how = f"they differ in {distance} records" if distance is not None else how
    raise NotNeighboursError("neighbours", (d0, d1), f"{what}: {how}", "give two that the claim relates")


def checked_pair(
    d0: Any,
    d1: Any,
    why: str = "",
    *,
    adjacency: Adjacency,
    group: int = 1,
    ordered: bool = True,
    null: object = None,
) -> NeighbourPair:
    """Returns two data sets as a :class:`NeighbourPair`, checked by :func:`check_neighbours`.

    Raises:
      NotNeighboursError, InvalidArgumentError: as there.
    """
    distance = check_neighbours(d0, d1, adjacency, group=group, ordered=ordered, null=null)
    what = f"{adjacency.value}, {distance} record{'s' * (distance != 1)} apart"
    return NeighbourPair(d0, d1, why or what, adjacency, group)


def group_claim(source: PrivacyEvent | AccountantGraph, group: int, delta: float, *, view: str | None = None) -> Claim:
    """Returns what is claimed for a group of ``group`` people: the accountant's own group curve, stated at ``delta``.

    For an event that is ``event.at(group)``; for a graph, its guarantee for the group, which is tighter than group
    times epsilon wherever the events know better.

    Raises:
      InvalidArgumentError: no event or graph, a group that is none, or no finite epsilon at delta.
    """
    group = integer("group", group, low=1)
    if isinstance(source, PrivacyEvent):
        if view is not None:
            raise InvalidArgumentError("view", view, "belongs to a graph, and this is an event", "leave it out")
        return Claim.curve(source.at(float(group)), delta)
    if isinstance(source, AccountantGraph):
        return Claim.curve(source.guarantee(group=group, view=view), delta)
    raise InvalidArgumentError("source", source, "is neither an event nor a graph", "see hockeystick.accounting")


def _why_not(d0: Any, d1: Any, adjacency: Adjacency, ordered: bool, null: object) -> str:
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        if ordered and record_distance(d0, d1, adjacency, ordered=False) is not None:
            return "the records they share are in another order (ordered=False, if the claim is about multisets)"
        return "each holds a record that the other lacks"
    if len(_records("d0", d0)) != len(_records("d1", d1)):
        return "they are of different sizes"
    return f"a record changes to something other than null={null!r}, or both hold nulls where the other does not"


def _records(name: str, data: Any) -> list[Hashable]:
    """Returns one key per record; equal keys are equal records."""
    listed = data.records() if callable(getattr(data, "records", None)) else data
    if isinstance(listed, np.ndarray) and listed.ndim and listed.dtype.kind in "biufc":
        rows = np.ascontiguousarray(listed)
        head = (rows.dtype.str, rows.shape[1:])
        return [(*head, row.tobytes()) for row in rows]
    sequence = isinstance(listed, Sequence) or isinstance(listed, np.ndarray) and listed.ndim > 0
    if isinstance(listed, (str, bytes)) or not sequence:
        raise InvalidArgumentError(
            name, data, "is not a sequence of records", "give a list, an array, or an object with records()"
        )
    return [record_key(record) for record in listed]


def record_key(record: Any) -> Hashable:
    """Returns a value that is equal for equal records alone: of one type, floats bit by bit.

    Raises:
      InvalidArgumentError: a type whose values can't be compared.
    """
    kind = type(record).__name__
    if isinstance(record, (np.ndarray, np.generic)) and record.dtype.kind != "O":
        array = np.ascontiguousarray(record)
        return (array.dtype.str, np.shape(record), array.tobytes())
    if isinstance(record, float):
        return (kind, record.hex())
    if isinstance(record, complex):
        return (kind, record.real.hex(), record.imag.hex())
    if isinstance(record, dict):
        return (kind, frozenset((record_key(name), record_key(value)) for name, value in record.items()))
    if isinstance(record, (list, tuple, np.ndarray)):
        return (kind, *map(record_key, record))
    if attrs.has(type(record)):
        return (kind, *(record_key(getattr(record, f.name)) for f in attrs.fields(type(record))))
    try:
        hash(record)
    except TypeError:
        raise InvalidArgumentError(
            "record", record, f"records of type {kind} can't be compared", "use numbers, strings, tuples or arrays"
        ) from None
    return (kind, record)
