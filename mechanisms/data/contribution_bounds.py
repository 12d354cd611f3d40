"""Bounds on what one person contributes: records kept, and counts in a histogram, with their stability.

What is kept of a person with too many records must not depend on the other persons, nor on positions in the whole data
set: a random permutation of all records, or one random number for each row, may change everywhere when one row enters.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.data.clipping import Stability, refuse, up

_UNITS = ("record", "person")


def _most(value: int) -> int:
    return validate.integer("most", value, low=1, high=2**40)


def _partitions(value: int) -> int:
    return validate.integer("partitions", value, low=1, high=2**40)


def _most_partitions(value: int) -> int:
    return validate.integer("most_partitions", value, low=1, high=2**40)


def _most_each(value: int) -> int:
    return validate.integer("most_each", value, low=1, high=2**40)


def public_priorities(records: Iterable[int | str | bytes], *, seed: int) -> FloatArray:
    """Returns a number in [0, 1) for every record that depends on it and the public ``seed`` alone.

    Equal records get equal numbers, wherever they stand. Give what tells a person's records apart, such as their own
    numbers or contents; never their positions in the data set.

    Raises:
      InvalidArgumentError: a record is no int, str or bytes, or ``seed`` no integer ≥ 0.
    """
    key = validate.integer("seed", seed, low=0, high=2**256).to_bytes(33, "big")
    found = []
    for place, record in enumerate(validate.items("records", records, data=True)):
        plain = record.item() if isinstance(record, np.generic) else record
        if isinstance(plain, bool) or not isinstance(plain, (int, str, bytes)):
            raise InvalidDataError(f"records[{place}]", record, "is no int, str or bytes", "give the records' own keys")
        digest = hashlib.blake2b(repr(plain).encode(), digest_size=8, key=key).digest()
        found.append((int.from_bytes(digest, "big") >> 11) * 2.0**-53)
    return np.array(found, dtype=np.float64)


def _ranked(persons: ArrayLike, priorities: ArrayLike | None) -> tuple[IntArray, IntArray]:
    """Persons as numbers, and an order of the records: by person, then priority, then as they stand in the data."""
    raw = validate.as_array("persons", persons, data=True)
    if raw.ndim != 1 or (raw.dtype.kind not in "iuUS" and raw.size):
        raise InvalidDataError("persons", persons, "are no names or numbers", "give one of them a record")
    numbers = np.unique(raw, return_inverse=True)[1].astype(np.int64)
    first = (
        np.zeros(len(raw))
        if priorities is None
        else validate.array("priorities", priorities, shape=(len(raw),), data=True)
    )
    return numbers, np.lexsort((first, numbers))


def _places(groups: IntArray) -> IntArray:
    """The place of every entry in its run of equal entries, from 0."""
    index = np.arange(len(groups))
    starts = np.where(np.diff(groups, prepend=-1) != 0, index, 0)
    return np.asarray(index - np.maximum.accumulate(starts)) if len(groups) else index


@frozen
class BoundedContribution:
    """Keeps at most ``most`` records of every person: the first ones, or those of the least public priorities.

    Raises:
      InvalidArgumentError: ``most`` is no integer ≥ 1.
    """

    most: int = field(converter=_most)

    def __call__(self, persons: ArrayLike, *, priorities: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Returns which records are kept, a mask of shape (records,).

        Args:
          persons: whose each record is, by name or number.
          priorities: a number for each record, the least ones are kept; equal ones, and all by default, in the order of
            the data. They have to follow from the record and public randomness alone; see ``public_priorities``.

        Raises:
          InvalidArgumentError: the persons are no list of names or numbers, or a priority is missing or not finite.
        """
        numbers, order = _ranked(persons, priorities)
        kept = np.zeros(len(order), dtype=np.bool_)
        kept[order] = _places(numbers[order]) < self.most
        return kept

    def stability(self, adjacency: Adjacency, *, unit: str = "person") -> Stability:
        """Returns how many kept records come or go with one unit of the data.

        With a person those are at most ``most``. With one record of somebody who has more than ``most`` they are two:
        it pushes out another one.

        Args:
          adjacency: add-or-remove-one.
          unit: "person" or "record": what one unit of the source is.

        Raises:
          UnsupportedAdjacencyError: under any other relation, as the number of kept records is not the same.
          InvalidArgumentError: ``unit`` is unknown.
        """
        if adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise refuse("the number of kept records", adjacency, "state the graph under add-or-remove-one")
        return {("records", "records"): float(self.most) if _is_person(unit) else 2.0}


def _is_person(unit: str) -> bool:
    if unit not in _UNITS:
        raise InvalidArgumentError("unit", unit, "is unknown", "choose 'person' or 'record'")
    return unit == "person"


@frozen
class BoundedHistogram:
    """Counts records by partition: of every person in at most ``most_partitions``, at most ``most_each`` in each.

    A person's partitions are taken in the order of the data, or of public priorities, until there are enough.

    Args:
      partitions: how many there are, numbered from 0; public.
      most_partitions: the L0 bound of a person's contribution.
      most_each: the L∞ bound.

    Raises:
      InvalidArgumentError: one of them is no integer ≥ 1.
    """

    partitions: int = field(converter=_partitions)
    most_partitions: int = field(converter=_most_partitions, kw_only=True)
    most_each: int = field(default=1, converter=_most_each, kw_only=True)

    def __call__(self, persons: ArrayLike, where: ArrayLike, *, priorities: ArrayLike | None = None) -> IntArray:
        """Returns the counts, whole numbers of shape (partitions,).

        Args:
          persons, priorities: see ``BoundedContribution``.
          where: each record's partition.

        Raises:
          InvalidArgumentError: as ``BoundedContribution``, or a record is in no partition.
        """
        numbers, order = _ranked(persons, priorities)
        cells = validate.array("where", where, shape=(len(numbers),), low=0, high=self.partitions - 1, data=True)
        if (cells != np.floor(cells)).any():
            raise InvalidDataError("where", where, "is not made of partitions", "give their numbers")
        who, cell = numbers[order], cells.astype(np.int64)[order]
        # A person's records, partition by partition; each run's first one says when the partition was met.
        within = np.lexsort((cell, who))
        who, cell, met = who[within], cell[within], within
        new = (np.diff(who, prepend=-1) != 0) | (np.diff(cell, prepend=-1) != 0)
        run = np.cumsum(new) - 1
        counts = np.minimum(np.bincount(run), self.most_each)
        by_meeting = np.lexsort((met[new], who[new]))
        taken = by_meeting[_places(who[new][by_meeting]) < self.most_partitions]
        total = np.zeros(self.partitions, dtype=np.int64)
        np.add.at(total, cell[new][taken], counts[taken])
        return total

    def stability(self, adjacency: Adjacency, *, unit: str = "person") -> Stability:
        """Returns the largest change of the counts in each norm, with one unit of the data.

        A person changes at most ``most_partitions`` counts by ``most_each``, and twice as many counts if replaced. One
        record changes one count by 1; but where a person may not be in all partitions, it may exchange one of theirs
        for another.

        Args:
          adjacency: any but the local one. Null records are not counted.
          unit: "person" or "record": what one unit of the source is.

        Raises:
          UnsupportedAdjacencyError: under local adjacency, where nobody counts.
          InvalidArgumentError: ``unit`` is unknown.
        """
        person, replaced = _is_person(unit), adjacency is Adjacency.REPLACE_ONE
        if not replaced and adjacency not in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise refuse("a histogram", adjacency, "it is the work of a curator")
        touched, each, times = (2 if replaced else 1), self.most_each, 1
        if person:
            touched *= self.most_partitions
        elif self.most_partitions >= self.partitions:  # nothing of a person pushes out anything else
            each = 1
        else:  # two in exchange; a replaced record leaves one person and enters at another one
            touched, times = 2, touched
        touched = min(touched, self.partitions)
        root = math.isqrt(touched)
        length = float(root) if root * root == touched else math.nextafter(math.sqrt(touched), math.inf)
        return {
            ("records", "l1"): float(times * touched * each),
            ("records", "l2"): up(Fraction(length) * times * each),
            ("records", "linf"): float(times * each),
        }
