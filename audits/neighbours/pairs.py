"""Pairs of neighbouring data sets, and the check that two data sets are neighbours.

An audit that refutes a claim on two data sets proves nothing if the claim does not relate them. So every pair that is
made or searched here passes :func:`check_neighbours` for the neighbouring relation and the group size of the claim.

A data set is a sequence of records: a list or a tuple, an array with the records on its leading axis, or any object
with a method ``records()`` that returns such a sequence (:class:`hockeystick.audits.membership.audit.Examples`).
Records are equal if their types and values are equal. Floats are compared by their bits, so that -0.0 and 0.0 differ
and NaN equals itself. If equality is in doubt, the pair is refused.

By default data sets are *ordered*: neighbours have their common records in the same order. Every such pair is also a
pair of multisets, so it tests claims about either kind of data set. With ``ordered=False`` the order may differ, and
then the claim must be about multisets.

Under add-or-remove-one, a group of k is k records that one data set has and the other lacks, as in
:meth:`hockeystick.accounting.AccountantGraph.guarantee`. Under replace-with-null, it is k records of one data set that
are null in the other.
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
    """Two data sets are not neighbours under the relation. See :func:`check_neighbours` for an example."""


def _adjacency(value: object) -> Adjacency:
    if not isinstance(value, Adjacency):
        known = ", ".join(f"Adjacency.{relation.name}" for relation in Adjacency)
        raise InvalidArgumentError("adjacency", value, "is not a neighbouring relation", f"use one of {known}")
    return value


def known_group(adjacency: Adjacency, group: object) -> int:
    """Returns the size of a group.

    Raises:
      InvalidArgumentError: ``group`` is not a positive integer, or is above 1 for local adjacency.
    """
    size = integer("group", group, low=1)
    if adjacency is Adjacency.LOCAL and size > 1:
        raise InvalidArgumentError("group", group, "is above 1 for a local randomiser, which has one input", "use 1")
    return size


@frozen(eq=False)
class NeighbourPair:
    """Two neighbouring data sets, for ``audit(..., neighbours=pair)``.

    Attributes:
      d0, d1: the data sets.
      why: their difference in words.
      adjacency, group: the neighbouring relation, and the number of records that may differ.

    Example:
      >>> from hockeystick.audits import NeighbourPair
      >>> pair = NeighbourPair([1, 2], [1, 2, 3], "the record 3 is added")
      >>> d0, d1 = pair.reversed()
      >>> d0, d1
      ([1, 2, 3], [1, 2])
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
        """Returns the pair in the other order. An audit tests both orders; a test of one direction does not."""
        return attrs.evolve(self, d0=self.d1, d1=self.d0)


def record_distance(d0: Any, d1: Any, adjacency: Adjacency, *, ordered: bool = True, null: object = None) -> int | None:
    """Returns the distance of two data sets under a neighbouring relation: the least group that makes them neighbours.

    The distance is None if there is no such group: under add-or-remove-one, if each has a record that the other lacks.

    Args:
      d0, d1: the data sets.
      adjacency: the neighbouring relation.
      ordered: whether the common records must be in the same order; see the module's docstring.
      null: the record that replaces a record under replace-with-null.

    Raises:
      InvalidArgumentError: the data sets are not sequences of comparable records, or the relation is unknown.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import record_distance
      >>> record_distance([1, 2, 3], [1, 5, 3], Adjacency.REPLACE_ONE)
      1
      >>> print(record_distance([1, 2, 3], [1, 5, 3], Adjacency.ADD_OR_REMOVE_ONE))
      None
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
    """Returns the distance of two data sets (0 if they are equal), after checking that it is at most ``group``.

    Args:
      d0, d1, adjacency, ordered, null: as in :func:`record_distance`.
      group: number of records that may differ.

    Raises:
      NotNeighboursError: the data sets are not neighbours for the group.
      InvalidArgumentError: the data sets can't be compared, or the relation or the group is invalid.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import NotNeighboursError, check_neighbours
      >>> try:
      ...     check_neighbours([1, 2], [3, 4], Adjacency.REPLACE_ONE)
      ... except NotNeighboursError as error:
      ...     print(error.reason)
      are not neighbours under replace-one: they differ in 2 records
    """
    group = known_group(_adjacency(adjacency), group)
    distance = record_distance(d0, d1, adjacency, ordered=ordered, null=null)
    reason = "" if distance is not None else _why_not(d0, d1, adjacency, ordered, null)
    return checked_distance(distance, d0, d1, adjacency, group, reason)


def checked_distance(
    distance: int | None, d0: Any, d1: Any, adjacency: Adjacency, group: int, unrelated: str = "they are not related"
) -> int:
    """Returns the distance of two data sets.

    Raises:
      NotNeighboursError: it is None or above ``group``.
    """
    if distance is not None and distance <= group:
        return distance
    what = f"are not neighbours under {adjacency.value}" + f" for a group of {group}" * (group > 1)
    reason = f"they differ in {distance} records" if distance is not None else unrelated
    raise NotNeighboursError("neighbours", (d0, d1), f"{what}: {reason}", "give two that the claim relates")


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

    Args:
      d0, d1, adjacency, group, ordered, null: as in :func:`check_neighbours`.
      why: the difference in words; default: the relation and the distance.

    Raises:
      NotNeighboursError, InvalidArgumentError: as in :func:`check_neighbours`.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import checked_pair
      >>> checked_pair([1, 2], [1, 2, 3], adjacency=Adjacency.ADD_OR_REMOVE_ONE).why
      'add-or-remove-one, 1 record apart'
    """
    distance = check_neighbours(d0, d1, adjacency, group=group, ordered=ordered, null=null)
    what = f"{adjacency.value}, {distance} record{'s' * (distance != 1)} apart"
    return NeighbourPair(d0, d1, why or what, adjacency, group)


def group_claim(source: PrivacyEvent | AccountantGraph, group: int, delta: float, *, view: str | None = None) -> Claim:
    """Returns the claim for a group of records: the accountant's own curve for the group, stated at ``delta``.

    The curve of an event is that of ``event.at(group)``. The curve of a graph is its guarantee for the group, which may
    be tighter than group times epsilon.

    Args:
      source: an event or a graph.
      group: number of records in the group.
      delta: the delta at which the claim is stated.
      view: name of a threat model of the graph.

    Raises:
      InvalidArgumentError: ``source`` is neither an event nor a graph, ``group`` is not a positive integer, or there is
        no finite epsilon at ``delta``.

    Example:
      >>> import hockeystick as hs
      >>> hs.audits.group_claim(hs.events.PureDP(0.5), group=3, delta=0.0).epsilon
      1.5
    """
    group = integer("group", group, low=1)
    if isinstance(source, PrivacyEvent):
        if view is not None:
            raise InvalidArgumentError("view", view, "is for a graph, and source is an event", "leave it out")
        return Claim.curve(source.at(float(group)), delta)
    if isinstance(source, AccountantGraph):
        return Claim.curve(source.guarantee(group=group, view=view), delta)
    raise InvalidArgumentError("source", source, "is neither an event nor a graph", "see hockeystick.accounting")


def _why_not(d0: Any, d1: Any, adjacency: Adjacency, ordered: bool, null: object) -> str:
    if adjacency is Adjacency.ADD_OR_REMOVE_ONE:
        if ordered and record_distance(d0, d1, adjacency, ordered=False) is not None:
            return "their common records are in another order (use ordered=False if the claim is about multisets)"
        return "each has a record that the other lacks"
    if len(_records("d0", d0)) != len(_records("d1", d1)):
        return "they are of different sizes"
    return f"a record is replaced by something other than null={null!r}, or each has a null where the other has none"


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
    """Returns a key that is equal for two records if and only if they are equal in type and value, floats by bits.

    Raises:
      InvalidArgumentError: the record's type has no comparable values.
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
