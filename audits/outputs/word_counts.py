"""Counts of an output's words, so that outputs with words have numbers to cut: a leak may be in a part of the output.

A whole text or table seldom recurs, so its count shows nothing. Its *view* is a row of numbers about the items at each
place of the output (:mod:`hockeystick.audits.outputs.output_items`): how many there are, how many distinct ones, how
often the frequent ones occur, where they first and last do, which ones are neighbours, and sums and ends of numbers.

The vocabulary (frequent items, pairs of neighbours, pairs of columns) is taken from the choosing samples of both data
sets together, without looking at which output is of which. Then it is frozen: a view is a function of one output, so a
bounding sample is counted by a partition of its view like by any other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, compress, islice
from operator import gt
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray, IntArray
from hockeystick.audits.outputs.output_items import LETTERS, ROWS, Items, has_words, items_of
from hockeystick.audits.outputs.reading import Layout, Table
from hockeystick.audits.outputs.values import token_words

_MOST_RUNS, _LEAST_RUNS = 1 << 13, 1 << 9  # outputs of each data set that show the vocabulary
_MOST_ITEMS = 1 << 20  # in those of one data set, unless they are fewer than the least number
_PILOT = 16  # outputs of each data set that show how many items there are
_FEW_LAYOUTS = 16  # up to here every whole output is a cell of its own
_MOST_PLACES = 32
_MOST_WORDS, _MOST_ENDS, _MOST_NEIGHBOURS = 256, 48, 48  # over all places
_MOST_COLUMN_PAIRS, _MOST_CELLS = 10, 4096
_LEAST = 2  # outputs that hold an item of the vocabulary
_MOST_LETTERS = 60  # of an item in words
_HUGE = 1e100

Ends = tuple[int, int]


@frozen(eq=False)
class _Coded:
    """The items of several outputs as numbers, one for equal ones.

    Attributes:
      outputs: the items of each.
      codes: of all items, output by output.
      index: the number of each item.
      size: the number of each output's items.
      rows: to which output each item belongs.
      at: its index there.
    """

    outputs: Sequence[list[Any]]
    codes: IntArray
    index: dict[Any, int]
    size: IntArray
    rows: IntArray
    at: IntArray

    @classmethod
    def of(cls, outputs: Sequence[list[Any]]) -> _Coded:
        index: dict[Any, int] = {}
        size = np.array(list(map(len, outputs)), dtype=np.int64)
        flat = chain.from_iterable(outputs)
        codes = np.fromiter((index.setdefault(item, len(index)) for item in flat), np.int64, int(size.sum()))
        rows = np.repeat(np.arange(len(size)), size)
        return cls(outputs, codes, index, size, rows, np.arange(len(codes)) - (np.cumsum(size) - size)[rows])

    def of_each(self, some: Mapping[Any, int]) -> IntArray:
        """Returns the number that each item of a code has; -1 where it has none."""
        found = np.full(len(self.index) + 1, -1)
        for item in some.keys() & self.index.keys():
            found[self.index[item]] = some[item]
        return found

    @property
    def beside(self) -> IntArray:
        """The items that another one of their output follows."""
        return np.flatnonzero(self.rows[1:] == self.rows[:-1])

    def distinct(self) -> tuple[IntArray, IntArray, IntArray]:
        """Returns output, code and count of each of the different items of every output."""
        kinds = max(1, len(self.index))
        keys, cells = self.rows * kinds + self.codes, len(self.size) * kinds
        if cells > 8 * len(keys):
            held, counts = np.unique(keys, return_counts=True)
        else:
            every = np.bincount(keys, minlength=cells)
            held = np.flatnonzero(every)
            counts = every[held]
        return held // kinds, held % kinds, counts

    def sums(self, values: Any, where: Any = slice(None)) -> FloatArray:
        """Returns the sum of items' values by output."""
        weights = np.broadcast_to(values, self.rows[where].shape)
        return np.bincount(self.rows[where], weights, len(self.size)).astype(np.float64)


@frozen(eq=False)
class _Place:
    """The vocabulary of one place.

    Attributes:
      name: of the place.
      words: column of the count of each frequent item.
      ends: for some of them, the columns of its first and last index.
      neighbours: column of the count of each frequent pair of neighbours.
      start, end: its columns; the last ones are those of ``STATISTICS``.
    """

    name: str
    words: dict[Any, int]
    ends: dict[Any, Ends]
    neighbours: dict[Any, int]
    start: int
    end: int

    def fill(self, block: FloatArray, outputs: Sequence[list[Any]]) -> None:
        """Writes the values of outputs' items into a block of zeros with a row for each."""
        items = _Coded.of(outputs)
        rows, codes, counts = items.distinct()
        word = items.of_each(self.words)[codes]
        block[rows[word >= 0], word[word >= 0]] = counts[word >= 0]
        known = np.bincount(rows, counts * (word >= 0), len(block)).astype(np.float64)
        block[:, self.end - len(STATISTICS) : self.end] = _statistics(items, rows, counts, known)
        for which, at in enumerate((items.at, items.size[items.rows] - 1 - items.at)):
            columns = {item: both[which] for item, both in self.ends.items()}
            block[:, list(columns.values())] = items.size[:, None]
            own = items.of_each(columns)[items.codes]
            seen = np.flatnonzero(own >= 0)[:: 1 if which else -1]  # of equal items the one written last stays
            block[items.rows[seen], own[seen]] = at[seen]
        if self.neighbours:
            beside, kinds = items.beside, len(items.index)
            pairs = [pair for pair in self.neighbours if pair[0] in items.index and pair[1] in items.index]
            keys = [items.index[one] * kinds + items.index[other] for one, other in pairs]
            order = np.argsort(keys)
            ordered = np.append(np.array(keys, dtype=np.int64)[order], kinds * kinds)
            column = np.append(np.array([self.neighbours[pair] for pair in pairs], dtype=np.int64)[order], 0)
            found = items.codes[beside] * kinds + items.codes[beside + 1]
            where = np.searchsorted(ordered, found)
            hit = ordered[where] == found
            np.add.at(block, (items.rows[beside[hit]], column[where[hit]]), 1.0)


STATISTICS = (
    "the length of {}",
    "the number of characters in {}",
    "the number of distinct values in {}",
    "the count of the most frequent value in {}",
    "the number of values that occur more than once in {}",
    "the number of values outside the vocabulary in {}",
    "the number of equal neighbours in {}",
    "the number of decreases between neighbours in {}",
    "the sum of {}",
    "the minimum of {}",
    "the maximum of {}",
)


def _statistics(items: _Coded, rows: IntArray, counts: IntArray, known: FloatArray) -> FloatArray:
    """Returns the values of ``STATISTICS``, a row for each output.

    Args:
      items: of the outputs.
      rows, counts: to which output each of its distinct items belongs, and how often it occurs there.
      known: how many items of each output are in the vocabulary.
    """
    runs = len(items.size)
    distinct, most = np.bincount(rows, minlength=runs), np.zeros(runs)
    np.maximum.at(most, rows, counts)
    texts = np.array([len(item) if type(item) is str else -1 for item in items.index], dtype=np.int64)[items.codes]
    beside = items.beside
    equal = beside[items.codes[beside + 1] == items.codes[beside]]
    found = [
        items.size, items.sums(np.maximum(texts, 0)), distinct, most, np.bincount(rows, counts > 1, runs),
        items.size - known, items.sums(1, equal), _decreases(items, beside),
    ]  # fmt: skip
    values = [item for own in items.outputs for item in own if type(item) is float]
    if not values:
        return np.stack([*found, *np.zeros((3, runs))], axis=1)
    numbers = np.flatnonzero(np.array([type(item) is float for own in items.outputs for item in own]))
    tamed = np.minimum(np.maximum(np.array(values), -_HUGE), _HUGE)
    ends = np.full((2, runs), math.inf)
    for end, sign in zip(ends, (1, -1), strict=True):
        np.minimum.at(end, items.rows[numbers], sign * tamed)
    ends[:, np.isinf(ends[0])] = 0.0
    return np.stack([*found, items.sums(tamed, numbers), ends[0], -ends[1]], axis=1)


def _decreases(items: _Coded, beside: IntArray) -> FloatArray:
    """Returns how often an item is greater than the next one, by output; 0 where they have no order."""
    kinds = {type(item) for item in items.index}
    if kinds == {str}:
        rank = np.empty(len(items.index), dtype=np.int64)
        rank[[items.index[item] for item in sorted(items.index)]] = np.arange(len(rank))
        ranks = rank[items.codes]
        return items.sums(1, beside[ranks[beside] > ranks[beside + 1]])

    def of(own: list[Any]) -> int:
        try:
            return sum(map(gt, own, islice(own, 1, None)))
        except TypeError:
            return 0

    return np.array(list(map(of, items.outputs)), dtype=np.float64)


class Named(Layout):
    """The layout of a view: numbers that have names of their own."""

    def slot(self, index: int) -> str:
        return str(self.key[1 + index])


@frozen(eq=False)
class View:
    """A function of outputs whose values are numbers about their words.

    Attributes:
      places: the vocabulary of each place.
      pairs: pairs of places whose items are read side by side, with the name of that place.
      kept: which columns the view has.
      layout: names and kinds of these.
      counts: which of these are counts of single items, not of rows or pairs of columns.
      order: which of these depend on the order of items only, as places and neighbours do.
    """

    places: tuple[_Place, ...]
    pairs: tuple[tuple[str, str, str], ...]
    kept: BoolArray
    layout: Layout
    counts: BoolArray
    order: BoolArray

    def table(self, table: Table, layouts: Sequence[Layout], real: dict[int, FloatArray]) -> Table:
        """Returns the view of a batch of outputs.

        Args:
          table: the outputs.
          layouts: all layouts to which its codes refer.
          real: its blocks, rounded.
        """
        return self._of(list(_each(table, real, layouts)))

    def _of(self, outputs: Sequence[Items]) -> Table:
        known = {id(items): items for items in outputs}
        row = {one: i for i, one in enumerate(known)}
        distinct = list(known.values())
        paired = [_paired(items, self.pairs) for items in distinct]
        values = np.zeros((len(distinct), len(self.kept)))
        for place in self.places:
            own = [
                items.get(place.name) or more.get(place.name) or []
                for items, more in zip(distinct, paired, strict=True)
            ]
            place.fill(values, own)
        block = values[[row[id(items)] for items in outputs]].reshape(len(outputs), len(self.kept))
        return Table(len(block), 0, {0: block[:, self.kept]})

    @classmethod
    def of(
        cls,
        tables: tuple[Table, Table],
        layouts: Sequence[Layout],
        real: tuple[dict[int, FloatArray], dict[int, FloatArray]],
    ) -> tuple[View, tuple[Table, Table]] | None:
        """Returns the view whose vocabulary is that of the first outputs, and it of these; None if they recur.

        The view does not change if outputs are exchanged between the tables.

        Args:
          tables: outputs.
          layouts: all layouts to which their codes refer.
          real: blocks of both tables, rounded.
        """
        if len(layouts) <= _FEW_LAYOUTS and not any(layout.key[0] == "frame" for layout in layouts):
            return None
        if not any(has_words(layout.key) for layout in layouts):
            return None
        pilot = [items for own in zip(tables, real, strict=True) for items in islice(_each(*own, layouts), _PILOT)]
        size = sum(len(own) for items in pilot for own in items.values()) / max(1, len(pilot))
        most = min(_MOST_RUNS, max(_LEAST_RUNS, int(_MOST_ITEMS / max(1.0, size))))
        sides = [list(islice(_each(*own, layouts), most)) for own in zip(tables, real, strict=True)]
        outputs = _varying(sides[0] + sides[1])
        pairs = _column_pairs(outputs)
        found = _vocabulary([items | _paired(items, pairs) for items in outputs])
        names = [name for place in found for name in _names(place)]
        every = np.ones(len(names), dtype=bool)
        block = cls(found, pairs, every, Named(("features",), ()), every, every)._of(outputs).blocks[0]
        kept = _informative(block)
        if not kept.any():
            return None
        block, runs = block[:, kept], len(sides[0])
        layout = Named(("features", *compress(names, kept)), tuple("i" if whole else "f8" for whole in _whole(block)))
        single = {column for place in found if not _joint(place.name, pairs) for column in place.words.values()}
        about_order = {column for place in found for column in range(place.start + len(place.words), place.end)}
        about_order -= {place.end - 1 - i for place in found for i in range(len(STATISTICS))}
        counts, order = (np.isin(np.flatnonzero(kept), list(some)) for some in (single, about_order))
        used = tuple(place for place in found if kept[place.start : place.end].any())
        halves = (Table(len(half), 0, {0: half}) for half in (block[:runs], block[runs:]))
        return cls(used, pairs, kept, layout, counts, order), (next(halves), next(halves))


def _each(table: Table, real: dict[int, FloatArray], layouts: Sequence[Layout]) -> Iterator[Items]:
    """Yields the items of each output; of outputs that are equal for having no numbers, one object."""
    known: dict[int, Items] = {}
    rows = {code: iter(block.tolist()) for code, block in real.items()}
    for code in np.broadcast_to(table.codes, table.runs).tolist():
        if code in rows:
            yield items_of(layouts[code].key, next(rows[code]))
            continue
        if code not in known:
            known[code] = items_of(layouts[code].key, ())
        yield known[code]


def _varying(outputs: list[Items]) -> list[Items]:
    """Returns outputs without the places that are alike in all, and without characters that only short texts have."""
    held = Counter(place for items in outputs for place in items)
    alike = {name for name in held if all(items.get(name) == outputs[0].get(name) for items in outputs)}
    alike |= {name for name in held if name.startswith(LETTERS) and held[name] < held[name.removeprefix(LETTERS)]}
    found = {id(items): {name: own for name, own in items.items() if name not in alike} for items in outputs}
    return [found[id(items)] for items in outputs]


def _paired(items: Items, pairs: Iterable[tuple[str, str, str]]) -> Items:
    """Returns the items of two places side by side, where there are as many of both."""
    found = {}
    for first, second, name in pairs:
        one, other = items.get(first, ()), items.get(second, ())
        if len(one) == len(other):
            found[name] = list(zip(one, other, strict=True))
    return found


def _joint(name: str, pairs: Iterable[tuple[str, str, str]]) -> bool:
    return name.startswith(ROWS) or any(name == pair for _, _, pair in pairs)


def _column_pairs(outputs: list[Items]) -> tuple[tuple[str, str, str], ...]:
    """Returns the pairs of columns with the fewest cells, if there are three columns or more."""
    often = Counter(place for items in outputs for place in items if place.startswith("column ") or "[*" in place)
    columns = [place for place in sorted(often) if not place.startswith("the ") and 2 * often[place] >= len(outputs)]
    if not 3 <= len(columns) <= _MOST_PLACES:
        return ()
    values = {place: len({item for items in outputs for item in items.get(place, ())}) for place in columns}
    cells = {pair: values[pair[0]] * values[pair[1]] for pair in combinations(columns, 2)}
    found = sorted((count, pair) for pair, count in cells.items() if count <= _MOST_CELLS)
    return tuple((*pair, f"{pair[0]} beside {pair[1]}") for _, pair in found[:_MOST_COLUMN_PAIRS])


def _vocabulary(outputs: list[Items]) -> tuple[_Place, ...]:
    """Returns the items that most outputs hold; of equally frequent ones, the first by their words."""
    held = Counter(place for items in outputs for place in items)
    names = sorted(held, key=lambda name: (-held[name], name.startswith(LETTERS), name))[:_MOST_PLACES]
    words, neighbours = dict[tuple[str, Any], int](), dict[tuple[str, Any], int]()
    for name in names:
        items = _Coded.of([own[name] for own in outputs if name in own])
        kinds, beside = list(items.index), items.beside
        _, codes, _ = items.distinct()
        words |= {(name, kinds[code]): count for code, count in _counted(codes)}
        pairs = items.codes[beside] * len(kinds) + items.codes[beside + 1]
        once = np.unique(items.rows[beside] * len(kinds) ** 2 + pairs) % max(1, len(kinds) ** 2)
        neighbours |= {
            (name, (kinds[pair // len(kinds)], kinds[pair % len(kinds)])): count for pair, count in _counted(once)
        }
    frequent = _frequent(words, _MOST_WORDS)
    ends = frequent[:_MOST_ENDS]
    joined = _frequent(neighbours, _MOST_NEIGHBOURS)
    places, start = [], 0
    for name in names:
        own, own_ends, own_beside = ([item for place, item in one if place == name] for one in (frequent, ends, joined))
        second = start + len(own)
        third = second + 2 * len(own_ends)
        columns = {item: (second + 2 * i, second + 2 * i + 1) for i, item in enumerate(own_ends)}
        counts = [{item: at + i for i, item in enumerate(some)} for at, some in ((start, own), (third, own_beside))]
        end = third + len(own_beside) + len(STATISTICS)
        places.append(_Place(name, counts[0], columns, counts[1], start, end))
        start = end
    return tuple(places)


def _counted(codes: IntArray) -> list[tuple[int, int]]:
    """Returns the codes that occur often enough, with their counts."""
    found, counts = np.unique(codes, return_counts=True)
    return [(code, count) for code, count in zip(found.tolist(), counts.tolist(), strict=True) if count >= _LEAST]


def _frequent(held: dict[tuple[str, Any], int], most: int) -> list[tuple[str, Any]]:
    return [key for key, _ in sorted(held.items(), key=lambda item: (-item[1], repr(item[0])))[:most]]


def _names(place: _Place) -> Iterator[str]:
    """Yields the names of a place's columns, in order."""
    for item in place.words:
        yield f"the number of {shown(item)} in {place.name}"
    for item in place.ends:
        yield f"the index of the first {shown(item)} in {place.name}"
        yield f"the index, from the end, of the last {shown(item)} in {place.name}"
    for one, other in place.neighbours:
        yield f"the number of {shown(one)} before {shown(other)} in {place.name}"
    yield from (name.format(place.name) for name in STATISTICS)


def shown(item: Any) -> str:
    """Returns an item in words."""
    if type(item) is float:
        return f"{item:.6g}"
    row = isinstance(item, tuple) and item[:1] != ("value",)
    text = f"({', '.join(map(shown, item))})" if row else token_words(item)
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."


def _informative(block: FloatArray) -> BoolArray:
    """Returns which columns vary and equal no earlier one."""
    kept = np.zeros(block.shape[1], dtype=bool)
    seen = set()
    for slot, column in enumerate(np.ascontiguousarray(block.T)):
        told = column.tobytes()
        kept[slot] = (column != column[0]).any() and told not in seen
        seen.add(told)
    return kept


def _whole(block: FloatArray) -> BoolArray:
    """Returns which columns hold whole numbers only."""
    return np.asarray((block == np.floor(block)).all(axis=0))
