"""Users as the unit of protection: records with several owners, sums clipped by user, and samples of users.

*Several owners.* If users own records together, a user who leaves takes records from others, who may then have room for
records of theirs that were left out: the choice among records has no bounded stability under add-or-remove-one. It has
one if who owns what is public (Ganesh et al. 2025): the choice then depends on nothing that is protected, and a user
changes the contents of at most ``most`` kept records.

*Sampled users.* A user joins with probability q, and with at most m records. If a record in the sample costs E, the
user costs a Poisson sample of rate q of ``E.at(m)``. If the user's contribution is clipped as a whole, it costs one of
E.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.data.clipping import ClippedVectorSum, Stability, refuse
from hockeystick.mechanisms.data.contribution_bounds import person_numbers, places_in_runs
from hockeystick.mechanisms.data.record_samplers import PoissonSample
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

_NULL, _REPLACE = Adjacency.REPLACE_WITH_NULL, Adjacency.REPLACE_ONE


def _most(value: int) -> int:
    return validate.integer("most", value, low=1, high=2**40)


def _most_records(value: int | None) -> int | None:
    return None if value is None else validate.integer("most_records", value, low=1, high=2**40)


def _probability(value: float) -> float:
    return validate.probability("probability", value)


@frozen
class BoundedOwners:
    """A transform that keeps records, which may have several owners, so that no user owns more than ``most`` of them.

    Who owns which record is *public*; the contents of records are protected. Records with few owners come first, then
    those of least priority; each is kept if all its owners still have room.

    Raises:
      InvalidArgumentError: ``most`` is not an integer ≥ 1.

    Example: Bob owns three records, two of them with others.

      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import BoundedOwners
      >>> bound = BoundedOwners(1)
      >>> bound([["Ann", "Bob"], ["Bob"], ["Bob", "Cyd"], ["Ann"]])
      array([False,  True, False,  True])
      >>> bound.stability(Adjacency.REPLACE_WITH_NULL)
      {('records', 'records'): 1.0}
    """

    most: int = field(converter=_most)

    def __call__(self, owners: Iterable[Iterable[Any]], *, priorities: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Returns which records are kept, a mask of shape (records,).

        Args:
          owners: the users who own each record, names or numbers; public.
          priorities: a public number for each record. Of records with equally many owners, the least are taken first,
            and ties, by default all, in the order of the records.

        Raises:
          InvalidArgumentError: a record has no owner, an owner twice, or a priority is missing or not finite.
        """
        sets = [tuple(one) for one in validate.items("owners", owners)]
        for place, one in enumerate(sets):
            if not one or len(set(one)) < len(one):
                reason = "names an owner twice" if one else "has no owner"
                raise InvalidArgumentError(f"owners[{place}]", one, reason, "give each record its different owners")
        first = (
            np.zeros(len(sets)) if priorities is None else validate.array("priorities", priorities, shape=(len(sets),))
        )
        numbers = np.array([len(one) for one in sets], dtype=np.int64)
        room: dict[Any, int] = {}
        mask = np.zeros(len(sets), dtype=np.bool_)
        for place in np.lexsort((first, numbers)):
            owned = sets[place]
            if all(room.get(one, self.most) for one in owned):
                mask[place] = True
                room.update((one, room.get(one, self.most) - 1) for one in owned)
        return mask

    def stability(self, adjacency: Adjacency, *, unit: str = "person") -> Stability:
        """Returns the number of kept records whose contents change: ``most`` for a person, and 1 for a record.

        Args:
          adjacency: replace-with-null, or replace-one, for changed contents of records with the same owners.
          unit: the unit of the source, "person" or "record".

        Raises:
          UnsupportedAdjacencyError: under add-or-remove-one, where a user who leaves may make room for any number of
            records of others.
          InvalidArgumentError: ``unit`` is unknown.
        """
        if unit not in ("person", "record"):
            raise InvalidArgumentError("unit", unit, "is unknown", "choose 'person' or 'record'")
        if adjacency not in (_NULL, _REPLACE):
            raise refuse(
                "records with several owners",
                adjacency,
                "a user who leaves makes room for records of others; state the graph under replace-with-null, with "
                "owners that are public",
            )
        return {("records", "records"): float(self.most) if unit == "person" else 1.0}


@frozen
class UserClippedSum:
    """A transform to the exact sum over persons of the sum of their rows, each person's sum clipped to ``bound``.

    One person with any number of records moves it by at most ``bound``, where ``ClippedVectorSum`` moves by ``bound``
    for each record. Every record has one owner; a record of several would be in several sums.

    Args:
      bound: the largest norm of a person's sum.
      norm, grid: as for ``ClippedVectorSum``.

    Raises:
      InvalidArgumentError: as ``ClippedVectorSum``.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.mechanisms import UserClippedSum
      >>> total = UserClippedSum(5.0)
      >>> total([[3.0, 4.0], [30.0, 40.0], [0.0, 1.0]], ["Ann", "Ann", "Bob"]).round(6)
      array([3., 5.])
      >>> total.stability(Adjacency.ADD_OR_REMOVE_ONE)
      {('records', 'l2'): 5.0, ('records', 'linf'): 5.0}
    """

    bound: float
    norm: str = field(default="l2", kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self._sum()

    def _sum(self) -> ClippedVectorSum:
        return ClippedVectorSum(self.bound, norm=self.norm, grid=self.grid)

    def __call__(self, rows: ArrayLike, persons: ArrayLike) -> FloatArray | IntArray:
        """Returns the sum, of shape (entries,), for rows of shape (records, entries).

        Raises:
          InvalidDataError: ``rows`` are not rows of finite numbers, a person's sum is not finite, or ``persons`` is not
            one name or number for each record.
        """
        given, numbers = validate.array("rows", rows, ndim=2, data=True), person_numbers(persons)
        if len(numbers) != len(given):
            raise InvalidDataError("persons", persons, "are not one for each row", "give one per record")
        sums = np.zeros((int(numbers.max(initial=-1)) + 1, given.shape[1]))
        np.add.at(sums, numbers, given)  # in the order of a person's own records, whoever else is there
        return self._sum()(sums)

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns the largest change of the sum by one person, in ``norm`` and in all smaller norms.

        Raises:
          UnsupportedAdjacencyError: under local adjacency, which has no curator who adds up.
        """
        return self._sum().stability(adjacency)


@frozen
class UserSample:
    """A sample in two steps: each user joins with ``probability``, with all records or ``most_records`` random ones.

    The records of a user are in the sample together or not at all. A Poisson sample of records costs a user less, as
    all records rarely meet in it; but a user's contribution to this sample can be clipped as a whole.

    Args:
      probability: that a user joins.
      most_records: the most records of a user in the sample; by default all of them.

    Raises:
      InvalidArgumentError: the probability is not in [0, 1], or ``most_records`` is not an integer ≥ 1.

    Example: noise for a sum in which each record is clipped to 1, or each user.

      >>> from hockeystick.accounting import Gaussian, compose, epsilon
      >>> from hockeystick.mechanisms import UserSample
      >>> sample = UserSample(0.01, most_records=4)
      >>> by_record, by_user = sample.event(Gaussian(4.0)), sample.event(Gaussian(4.0), clipped_by="user")
      >>> [round(epsilon(compose((one, 100)), 1e-6).upper, 2) for one in (by_record, by_user)]
      [0.95, 0.1]
    """

    probability: float = field(converter=_probability)
    most_records: int | None = field(default=None, converter=_most_records, kw_only=True)

    def draw(self, persons: ArrayLike, *, noise: Noise | None = None) -> IntArray:
        """Returns the sorted indices of the sampled records. Keep them, and their number, as secret as the data.

        Args:
          persons: the name or number of each record's user.
          noise: the source of randomness; by default secure.

        Raises:
          InvalidDataError: ``persons`` is not a list of names or numbers.
        """
        numbers, source = person_numbers(persons), check_noise(noise)
        joined = PoissonSample(self.probability).draw(int(numbers.max(initial=-1)) + 1, noise=source)
        found = np.flatnonzero(np.isin(numbers, joined))
        if self.most_records is None or not len(found):
            return found.astype(np.int64)
        keys = source.uniform(2**62, len(found))  # equal keys, once in 2^62 pairs, are taken in the order of records
        order = np.lexsort((keys, numbers[found]))
        return np.sort(found[order][places_in_runs(numbers[found][order]) < self.most_records]).astype(np.int64)

    def simulate(self, persons: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.bool_]:
        """Returns masks of the samples of ``runs`` independent draws, shape (runs, records).

        Raises:
          InvalidDataError: ``persons`` is not a list of names or numbers.
          InvalidArgumentError: ``runs`` is not an integer ≥ 1, or ``rng`` is not a generator.
        """
        numbers = person_numbers(persons)
        count = arguments.run_count(runs, max(1, len(numbers)))
        source = arguments.generator(rng)
        users = int(numbers.max(initial=-1)) + 1
        mask = (source.random((count, users)) < self.probability)[:, numbers]
        if self.most_records is not None:
            keys = source.random((count, len(numbers)))
            for run in range(count):
                order = np.lexsort((keys[run], numbers))
                mask[run, order[places_in_runs(numbers[order]) >= self.most_records]] = False
        return np.asarray(mask)

    def event(
        self, inner: PrivacyEvent, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE, clipped_by: str = "record"
    ) -> PrivacyEvent:
        """Returns the cost of one access to the sample, for one user.

        Args:
          inner: the cost of an access for a record added to or removed from the sample, or for a user, with
            ``clipped_by="user"``.
          adjacency: the relation of users: add-or-remove-one, replace-with-null or replace-one.
          clipped_by: "record" or "user".

        Raises:
          InvalidArgumentError: ``inner`` is not an event, ``clipped_by`` is unknown, or there is no ``most_records`` to
            charge a user by.
          UnsupportedAdjacencyError: there is no theorem for this relation.
        """
        check_event(inner)
        validate.one_of("clipped_by", clipped_by, "record", "user")
        if clipped_by == "user":
            return PoissonSample(self.probability).event(inner, adjacency=adjacency)
        if self.most_records is None:
            raise InvalidArgumentError(
                "most_records",
                None,
                "is needed where records are clipped one by one: all records of a user join together",
                "give most_records, or clip each user's sum (UserClippedSum) and give clipped_by='user'",
            )
        return PoissonSample(self.probability).event(inner.at(self.most_records), adjacency=adjacency)
