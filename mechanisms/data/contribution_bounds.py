"""Bounds on the contribution of one person, to records or to the counts of a histogram, with their stability.

The choice among the records of a person with too many must not depend on other persons, nor on positions in the data
set: a random permutation of all records, or a random number for each row, may change everywhere when one row is added.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import Adjacency, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract.arguments import is_among
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
    """Returns a number in [0, 1) for every record, which depends only on the record and the public ``seed``.

    Equal records have equal numbers, wherever they stand. Pass what distinguishes the records of a person, such as
    their keys or contents, never their positions in the data set.

    Raises:
      InvalidArgumentError: a record is not an int, str or bytes, or ``seed`` is not an integer ≥ 0.

    Example:
      >>> from hockeystick.mechanisms import public_priorities
      >>> public_priorities(["visit 7", "visit 8", "visit 7"], seed=1).round(3)
      array([0.592, 0.256, 0.592])
    """
    key = validate.integer("seed", seed, low=0, high=2**256).to_bytes(33, "big")
    found = []
    for place, record in enumerate(validate.items("records", records, data=True)):
        plain = record.item() if isinstance(record, np.generic) else record
        if isinstance(plain, bool) or not isinstance(plain, (int, str, bytes)):
            raise InvalidDataError(
                f"records[{place}]", record, "is not an int, str or bytes", "give the records' own keys"
            )
        digest = hashlib.blake2b(repr(plain).encode(), digest_size=8, key=key).digest()
        found.append((int.from_bytes(digest, "big") >> 11) * 2.0**-53)
    return np.array(found, dtype=np.float64)


def person_numbers(persons: ArrayLike) -> IntArray:
    """Returns the number, from 0, of each record's person.

    Raises:
      InvalidDataError: ``persons`` is not a list of names or numbers.
    """
    raw = validate.as_array("persons", persons, data=True)
    if raw.ndim != 1 or (raw.dtype.kind not in "iuUS" and raw.size):
        raise InvalidDataError("persons", persons, "are not names or numbers", "give one per record")
    return np.asarray(np.unique(raw, return_inverse=True)[1].astype(np.int64))


def _ranked(persons: ArrayLike, priorities: ArrayLike | None) -> tuple[IntArray, IntArray]:
    """Persons as numbers, and an order of the records: by person, then priority, then position in the data."""
    numbers = person_numbers(persons)
    first = (
        np.zeros(len(numbers))
        if priorities is None
        else validate.array("priorities", priorities, shape=(len(numbers),), data=True)
    )
    return numbers, np.lexsort((first, numbers))


def places_in_runs(groups: IntArray) -> IntArray:
    """Returns the index of every entry in its run of equal entries."""
    index = np.arange(len(groups))
    starts = np.where(np.diff(groups, prepend=-1) != 0, index, 0)
    return np.asarray(index - np.maximum.accumulate(starts)) if len(groups) else index


@frozen
class BoundedContribution:
    """A transform that keeps at most ``most`` records of every person: the first, or those of the least priorities.

    Raises:
      InvalidArgumentError: ``most`` is not an integer ≥ 1.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import BoundedContribution
      >>> bound = BoundedContribution(2)
      >>> bound(["Ann", "Bob", "Ann", "Ann", "Bob"])
      array([ True,  True,  True, False,  True])
      >>> bound.stability(Adjacency.ADD_OR_REMOVE_ONE)
      {('records', 'records'): 2.0}
    """

    most: int = field(converter=_most)

    def __call__(self, persons: ArrayLike, *, priorities: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Returns which records are kept, a mask of shape (records,).

        Args:
          persons: the name or number of each record's person.
          priorities: a number for each record; the least are kept. Ties, and by default all records, are in the order
            of the data. They may depend only on the record and public randomness; see ``public_priorities``.

        Raises:
          InvalidDataError: ``persons`` is not a list of names or numbers, or a priority is missing or not finite.
        """
        numbers, order = _ranked(persons, priorities)
        mask = np.zeros(len(order), dtype=np.bool_)
        mask[order] = places_in_runs(numbers[order]) < self.most
        return mask

    def stability(self, adjacency: Adjacency, *, unit: str = "person") -> Stability:
        """Returns the number of kept records that change with one unit of the data.

        It is ``most`` for a person, and 2 for a record: a record of a person with more than ``most`` may displace
        another one.

        Args:
          adjacency: add-or-remove-one.
          unit: the unit of the source, "person" or "record".

        Raises:
          UnsupportedAdjacencyError: under any other relation, because the number of kept records may change.
          InvalidArgumentError: ``unit`` is unknown.
        """
        if adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise refuse("the number of kept records", adjacency, "state the graph under add-or-remove-one")
        return {("records", "records"): float(self.most) if _is_person(unit) else 2.0}


def _is_person(unit: str) -> bool:
    return validate.one_of("unit", unit, *_UNITS) == "person"


@frozen
class BoundedHistogram:
    """Counts of records by partition, at most ``most_each`` in each of at most ``most_partitions`` for every person.

    The partitions of a person are taken in the order of the data, or of public priorities.

    Args:
      partitions: the public number of partitions, which are numbered from 0.
      most_partitions: the L0 bound on the contribution of a person.
      most_each: the L∞ bound on the contribution of a person.

    Raises:
      InvalidArgumentError: an argument is not an integer ≥ 1.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import BoundedHistogram
      >>> histogram = BoundedHistogram(3, most_partitions=2, most_each=1)
      >>> histogram(["Ann", "Ann", "Ann", "Ann", "Bob"], [0, 0, 1, 2, 2])
      array([1, 1, 1])
      >>> histogram.stability(Adjacency.ADD_OR_REMOVE_ONE)[("records", "l1")]
      2.0
    """

    partitions: int = field(converter=_partitions)
    most_partitions: int = field(converter=_most_partitions, kw_only=True)
    most_each: int = field(default=1, converter=_most_each, kw_only=True)

    def __call__(self, persons: ArrayLike, where: ArrayLike, *, priorities: ArrayLike | None = None) -> IntArray:
        """Returns the counts, whole numbers of shape (partitions,).

        Args:
          persons, priorities: as for ``BoundedContribution``.
          where: the partition of each record.

        Raises:
          InvalidDataError: as for ``BoundedContribution``, or a record is in no partition.
        """
        numbers, order = _ranked(persons, priorities)
        cells = validate.array("where", where, shape=(len(numbers),), low=0, high=self.partitions - 1, data=True)
        if (cells != np.floor(cells)).any():
            raise InvalidDataError("where", where, "holds an entry that is not a partition", "give their numbers")
        person, cell = numbers[order], cells.astype(np.int64)[order]
        # The records of a person, partition by partition; the first of each run tells when the partition appeared.
        within = np.lexsort((cell, person))
        person, cell, met = person[within], cell[within], within
        new = (np.diff(person, prepend=-1) != 0) | (np.diff(cell, prepend=-1) != 0)
        run = np.cumsum(new) - 1
        counts = np.minimum(np.bincount(run), self.most_each)
        by_meeting = np.lexsort((met[new], person[new]))
        taken = by_meeting[places_in_runs(person[new][by_meeting]) < self.most_partitions]
        total = np.zeros(self.partitions, dtype=np.int64)
        np.add.at(total, cell[new][taken], counts[taken])
        return total

    def stability(self, adjacency: Adjacency, *, unit: str = "person") -> Stability:
        """Returns the largest change of the counts in each norm, with one unit of the data.

        A person changes at most ``most_partitions`` counts by ``most_each``, and twice as many counts if replaced. One
        record changes one count by 1; but if a person may not be in all partitions, it may also exchange one partition
        of the person for another.

        Args:
          adjacency: any but the local one. Null records are not counted.
          unit: the unit of the source, "person" or "record".

        Raises:
          UnsupportedAdjacencyError: under local adjacency, which has no curator who counts.
          InvalidArgumentError: ``unit`` is unknown.
        """
        person, replaced = _is_person(unit), adjacency is Adjacency.REPLACE_ONE
        if not replaced and not is_among(adjacency, Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise refuse("a histogram", adjacency, "it needs a curator")
        touched, each, times = (2 if replaced else 1), self.most_each, 1
        if person:
            touched *= self.most_partitions
        elif self.most_partitions >= self.partitions:  # no record of a person displaces another
            each = 1
        else:  # two exchanged; a replaced record leaves one person and joins another
            touched, times = 2, touched
        touched = min(touched, self.partitions)
        root = math.isqrt(touched)
        length = float(root) if root * root == touched else math.nextafter(math.sqrt(touched), math.inf)
        return {
            ("records", "l1"): float(times * touched * each),
            ("records", "l2"): up(Fraction(length) * times * each),
            ("records", "linf"): float(times * each),
        }
