"""The rows of a table that are kept of each person: a few, in few groups, chosen by her own rows alone.

A row's rank is a hash of the person, of its place among her own rows, and of a public seed; a group's rank is one of
the person and the group's name. So nobody else's rows change what is kept of a person. One stream of random numbers for
all rows, the place of a row in the file, or numbers of groups that are given as they are met would not do: a row more
of one person would then change which rows of others are kept, without a bound.
"""

from __future__ import annotations

import hashlib

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import Adjacency, InvalidDataError, validate
from hockeystick.accounting.arrays import IntArray
from hockeystick.mechanisms.contract.arguments import is_among
from hockeystick.mechanisms.data.clipping import Stability, refuse
from hockeystick.mechanisms.data.contribution_bounds import places_in_runs

Words = NDArray[np.uint64]
_GOLDEN, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _most(value: int) -> int:
    return validate.integer("most", value, low=1, high=2**32)


def _groups(value: int | None) -> int | None:
    return None if value is None else validate.integer("groups", value, low=1, high=2**32)


def _seed(value: int) -> int:
    return validate.integer("seed", value, low=0, high=2**63)


@frozen
class KeptRows:
    """A transform that keeps at most ``most`` rows of each person, in at most ``groups`` groups.

    The kept groups and rows of a person are those of least hash. They depend on her own rows, their order and the
    public ``seed`` alone.

    Args:
      most: the largest number of rows of a person that are kept.
      groups: the largest number of groups of a person; by default as many as rows.
      seed: a public number; another one keeps other rows.

    Raises:
      InvalidArgumentError: an argument is not an integer in its range.

    Example:
      >>> from hockeystick.mechanisms import KeptRows
      >>> kept = KeptRows(2)
      >>> kept(["Ann", "Bob", "Ann", "Ann"], [0, 0, 1, 1])
      array([False,  True,  True,  True])
      >>> kept(["Ann", "Cyd", "Ann", "Cyd", "Ann", "Cyd"], [0, 0, 1, 1, 1, 0])[[0, 2, 4]]  # the same of Ann
      array([False,  True,  True])
    """

    most: int = field(converter=_most)
    groups: int | None = field(default=None, converter=_groups, kw_only=True)
    seed: int = field(default=0, converter=_seed, kw_only=True)

    def __call__(self, persons: ArrayLike, where: ArrayLike) -> NDArray[np.bool_]:
        """Returns which rows are kept, a mask of shape (rows,).

        Args:
          persons: the name or number of each row's person.
          where: the name of each row's group, or a number that it has in every table.

        Raises:
          InvalidDataError: ``persons`` or ``where`` are not as many names or numbers.
        """
        (known, who), (groups, cell) = _numbered("persons", persons), _numbered("where", where)
        if len(who) != len(cell):
            raise InvalidDataError("where", len(cell), "are not as many as persons", "give one group per row")
        own = _hashes(known, self.seed)[who]
        kept = np.ones(len(who), dtype=np.bool_)
        if self.groups is not None and self.groups < self.most:
            kept = _least_groups(who, cell, _mixed(own ^ _SECOND, _hashes(groups, self.seed)[cell]), self.groups)
        order = np.argsort(who, kind="stable")  # a person's rows stay in their order
        place = np.empty(len(who), dtype=np.int64)
        place[order] = places_in_runs(who[order])
        ranks = _mixed(own, place.astype(np.uint64))
        left = np.flatnonzero(kept)
        order = left[np.lexsort((ranks[left], who[left]))]
        found = np.zeros(len(who), dtype=np.bool_)
        found[order] = places_in_runs(who[order]) < self.most
        return found

    def stability(self, adjacency: Adjacency) -> Stability:
        """Returns the largest change of the kept rows' counts by group, in each norm, with one person.

        All rows of a person may be in one group, so the L2 norm is ``most``, not its root. If a person is replaced, the
        two may be in different groups.

        Raises:
          UnsupportedAdjacencyError: under local adjacency, which has no curator who counts.
        """
        if not is_among(adjacency, Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise refuse("counts by group", adjacency, "they need a curator")
        replaced = adjacency is Adjacency.REPLACE_ONE
        length = np.nextafter(np.sqrt(2.0) * self.most, np.inf) if replaced else float(self.most)
        return {
            ("records", "l1"): float((2 if replaced else 1) * self.most),
            ("records", "l2"): float(length),
            ("records", "linf"): float(self.most),
        }


def _numbered(name: str, value: ArrayLike) -> tuple[list[int | str | bytes], IntArray]:
    names = validate.as_array(name, value, data=True)
    if names.ndim != 1 or (names.dtype.kind not in "iuUS" and names.size):
        raise InvalidDataError(name, value, "are not names or numbers", "give one per row")
    known, where = np.unique(names, return_inverse=True)
    return known.tolist(), np.asarray(where.reshape(-1), dtype=np.int64)


def _least_groups(who: IntArray, cell: IntArray, ranks: Words, most: int) -> NDArray[np.bool_]:
    """A mask of the rows in one of their person's ``most`` groups of least rank."""
    order = np.lexsort((cell, ranks, who))
    person, group = who[order], cell[order]
    fresh = (np.diff(person, prepend=-1) != 0) | (np.diff(group, prepend=-1) != 0)
    run = np.cumsum(fresh) - 1
    starts = person[fresh]
    kept = np.zeros(len(who), dtype=np.bool_)
    kept[order] = (places_in_runs(starts) < most)[run]
    return kept


def _hashes(names: list[int | str | bytes], seed: int) -> Words:
    key = seed.to_bytes(8, "big")
    found = b"".join(hashlib.blake2b(repr(name).encode(), digest_size=8, key=key).digest() for name in names)
    return np.frombuffer(found, dtype=np.uint64)


def _mixed(first: Words, second: Words) -> Words:
    """A hash of two numbers, that of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = first + _GOLDEN * (second + np.uint64(1))
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))
