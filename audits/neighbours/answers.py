"""Neighbouring vectors of query answers, for mechanisms that take the exact answers and add the noise.

The adjacency of answers is given by the possible moves. If a record is added or removed,

* a *count* of records with some property moves by 0 or 1, and all counts move in the same direction;
* a *histogram* moves in one bin, by 1;
* a *sum* moves by at most its sensitivity, in any direction.

If a record is replaced, each count moves by -1, 0 or 1; a histogram loses 1 in one bin and gains 1 in another; a sum
moves by its sensitivity *for that relation*, as elsewhere in this package. A group of k moves k times as far.

Canonical pairs combine moves and starting points. In a move, one, half, all but one, or all of the answers move up,
and as many move down, at the front or at the back (for mechanisms that read answers in order). The answers start at the
lower end, in the middle or at the upper end, in steps, with one or two far ahead, or such that the two data sets
exchange their patterns. This covers the patterns of Ding, Wang, Wang, Zhang and Kifer 2018 (Table 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.audits.neighbours.pairs import NeighbourPair, checked_distance, known_group

Pair = tuple[Any, Any]

_KINDS = ("counts", "histogram", "sums")
_ROUNDING = 1e-12  # relative, of a sum's sensitivity
_LARGEST = 10**7  # answers in a vector


def _size(value: object) -> int | None:
    return None if value is None else integer("size", value, low=1, high=_LARGEST)


def _kind(value: object) -> Any:
    if value not in _KINDS:
        raise InvalidArgumentError("kind", value, "is unknown", f"use one of {', '.join(map(repr, _KINDS))}")
    return value


def _low(value: object) -> float:
    return real("low", value)


def _high(value: object) -> float:
    return real("high", value)


def _sensitivity(value: object) -> float:
    return real("sensitivity", value, low=0.0, low_open=True)


@frozen(kw_only=True)
class Answers:
    """The domain of vectors of answers in a range.

    Attributes:
      size: number of answers in a vector; None for a single number.
      kind: "counts", "histogram" or "sums"; see the module's docstring.
      low, high: the range of each answer.
      sensitivity: sensitivity of a sum for the neighbouring relation; counts and histograms move by 1.

    Raises:
      InvalidArgumentError: the range has no room for a move, a sensitivity is given for counts, or the kind is unknown.

    Example:
      >>> from hockeystick.accounting import Adjacency
      >>> from hockeystick.audits import Answers
      >>> pair = Answers(size=3, high=5).canonical(Adjacency.ADD_OR_REMOVE_ONE, group=1)[0]
      >>> pair.d0.tolist(), pair.d1.tolist(), pair.why
      ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0], '1 up, 0 down')
    """

    size: int | None = field(default=None, converter=_size)
    kind: Literal["counts", "histogram", "sums"] = field(default="counts", converter=_kind)
    low: float = field(default=0.0, converter=_low)
    high: float = field(default=10.0, converter=_high)
    sensitivity: float = field(default=1.0, converter=_sensitivity)

    def __attrs_post_init__(self) -> None:
        if self.kind != "sums" and self.sensitivity != 1.0:
            raise InvalidArgumentError("sensitivity", self.sensitivity, f"{self.kind} move by 1", 'use kind="sums"')
        if self.kind != "sums" and not (self.low.is_integer() and self.high.is_integer()):
            raise InvalidArgumentError("low", (self.low, self.high), f"{self.kind} are whole numbers")
        if not self.high - self.low >= self.sensitivity:
            raise InvalidArgumentError("high", self.high, f"leaves no room above low={self.low:g} for one record")

    def canonical(self, adjacency: Adjacency, group: int) -> Sequence[NeighbourPair]:
        """Returns the pairs of all moves and starting points; see the module's docstring."""
        group = self._group(adjacency, group)
        found: dict[bytes, NeighbourPair] = {}
        for move in self._moves(adjacency, group):
            for start in self._starts(move):
                before, after = start, start + move
                if min(before.min(), after.min()) < self.low or max(before.max(), after.max()) > self.high:
                    continue
                why = f"{int((move > 0).sum())} up, {int((move < 0).sum())} down"
                d0, d1 = self._unpacked(before), self._unpacked(after)
                found.setdefault(np.stack([before, after]).tobytes(), NeighbourPair(d0, d1, why, adjacency, group))
        return list(found.values())

    def random_pair(self, rng: np.random.Generator, adjacency: Adjacency, group: int) -> Pair:
        """Returns a random vector before and after a random move by a group of records, both in range."""
        group = self._group(adjacency, group)
        width = self.size or 1
        spread = (self.high - self.low) * 10.0 ** rng.uniform(-2, 0)
        centre = rng.uniform(self.low, self.high)
        start = self._rounded(centre + spread * rng.uniform(-1, 1, width))
        return self._moved(start, self._random_move(rng, adjacency, group), adjacency, group)

    def mutate(self, pair: Pair, rng: np.random.Generator, adjacency: Adjacency, group: int) -> Pair:
        """Returns the pair with another move, with two entries of its move exchanged, or with answers shifted."""
        group = self._group(adjacency, group)
        start, end = (np.atleast_1d(np.asarray(data, dtype=float)) for data in pair)
        move = end - start
        kind = int(rng.integers(4))
        if kind == 0:
            move = self._random_move(rng, adjacency, group)
        elif kind == 1 and len(start) > 1:  # another order
            i, j = rng.choice(len(start), 2, replace=False)
            move[[i, j]] = move[[j, i]]
        else:
            step = (self.high - self.low) * 10.0 ** rng.uniform(-2, 0) * rng.standard_normal(len(start))
            step = np.sign(step) * np.maximum(np.abs(step), 1.0) if self.kind != "sums" else step
            one = np.arange(len(start)) == rng.integers(len(start))
            start = self._rounded(start + np.where(one | (kind == 3), step, 0.0))
        return self._moved(start, move, adjacency, group)

    def check(self, d0: Any, d1: Any, adjacency: Adjacency, group: int) -> int:
        """Returns the least group of records that can move the one vector to the other.

        Raises:
          NotNeighboursError: no group of at most ``group`` can.
          InvalidArgumentError: a vector is not in this domain, or the adjacency is local.
        """
        group = self._group(adjacency, group)
        shape = () if self.size is None else (self.size,)
        a, b = (array(name, d, shape=shape, low=self.low, high=self.high) for name, d in (("d0", d0), ("d1", d1)))
        move = np.atleast_1d(b).astype(float) - np.atleast_1d(a)
        if self.kind != "sums":
            for name, data in (("d0", a), ("d1", b)):
                if not (data == np.round(data)).all():
                    raise InvalidArgumentError(name, data, f"{self.kind} are whole numbers")
        return checked_distance(self._distance(move, adjacency), d0, d1, adjacency, group, "no records move them thus")

    def _distance(self, move: FloatArray, adjacency: Adjacency) -> int | None:
        up, down = np.maximum(move, 0.0), np.maximum(-move, 0.0)
        if self.kind == "sums":
            return math.ceil(float(np.abs(move).max()) / self.sensitivity * (1 - _ROUNDING))
        if adjacency is not Adjacency.REPLACE_ONE:
            if up.any() and down.any():
                return None
            return int(np.abs(move).sum() if self.kind == "histogram" else np.abs(move).max())
        if self.kind == "histogram":
            return int(up.sum()) if up.sum() == down.sum() else None
        return int(np.abs(move).max())

    def _moves(self, adjacency: Adjacency, group: int) -> Iterator[FloatArray]:
        width, step = self.size or 1, group * self.sensitivity
        if self.kind == "histogram":
            places = dict.fromkeys((0, width - 1, width // 2))
            if adjacency is not Adjacency.REPLACE_ONE:
                yield from (step * np.eye(width)[place] for place in places)
            else:
                yield from (step * (np.eye(width)[i] - np.eye(width)[j]) for i in places for j in places if i != j)
            return
        counts = sorted({1, width // 2, width - width // 2, width - 1, width} - {0}) if width > 1 else [1]
        both = self.kind == "sums" or adjacency is Adjacency.REPLACE_ONE
        for up in counts:
            for down in [0, *(c for c in counts if both and c + up <= width)]:
                move = np.zeros(width)
                move[:up], move[width - down :] = step, -step if down else 0.0
                yield move
                yield move[::-1].copy()

    def _starts(self, move: FloatArray) -> Iterator[FloatArray]:
        width = len(move)
        middle = self._rounded(np.full(width, (self.low + self.high) / 2))
        exchanged = np.maximum(-move, 0.0)  # answers that move down start where those that move up will end
        yield self.low + exchanged
        yield middle
        yield self.high - np.maximum(move, 0.0)
        if width > 1:
            yield middle + exchanged
            unit = float(np.abs(move).max())
            yield self._rounded(middle + unit * (np.arange(width) - width // 2))
            top = self.high - unit
            yield np.where(np.arange(width) == 0, top, self.low + exchanged)
            for ahead in ((0, 1), (width - 2, width - 1)):
                yield np.where(np.isin(np.arange(width), ahead), top, self.low + exchanged)

    def _random_move(self, rng: np.random.Generator, adjacency: Adjacency, group: int) -> FloatArray:
        width, step = self.size or 1, group * self.sensitivity
        replaced = adjacency is Adjacency.REPLACE_ONE
        if self.kind == "histogram":
            move = np.zeros(width)
            np.add.at(move, rng.integers(width, size=group), 1.0)
            if replaced:
                np.add.at(move, rng.integers(width, size=group), -1.0)
        elif self.kind == "sums" and rng.random() < 0.5:
            return np.asarray(rng.uniform(-step, step, width))
        else:
            move = step * rng.choice([-1.0, 0.0, 1.0] if self.kind == "sums" or replaced else [0.0, 1.0], width)
            move[rng.integers(width)] = step  # at least one answer has to move
        return move if rng.random() < 0.5 else -move

    def _moved(self, start: FloatArray, move: FloatArray, adjacency: Adjacency, group: int) -> Pair:
        """Returns the pair, with the start shifted so that both ends are in range."""
        low, high = self.low + np.maximum(-move, 0.0), self.high - np.maximum(move, 0.0)
        if (low > high).any():
            move, low, high = np.zeros_like(move), np.full_like(move, self.low), np.full_like(move, self.high)
        start = np.clip(start, low, high)
        end = np.clip(start + move, self.low, self.high)
        if self.kind == "sums" and (np.abs(end - start) > group * self.sensitivity).any():  # by rounding
            end = np.clip(end, start - group * self.sensitivity, start + group * self.sensitivity)
        return self._unpacked(start), self._unpacked(end)

    def _rounded(self, values: FloatArray) -> FloatArray:
        values = np.clip(values, self.low, self.high)
        return values if self.kind == "sums" else np.round(values)

    def _unpacked(self, values: FloatArray) -> Any:
        return float(values[0]) if self.size is None else values + 0.0

    def _group(self, adjacency: Adjacency, group: int) -> int:
        if adjacency is Adjacency.LOCAL:
            raise InvalidArgumentError(
                "adjacency", adjacency, "is for records: a local randomiser takes no answers", "use a domain of records"
            )
        return known_group(adjacency, group)
