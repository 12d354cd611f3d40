"""Counts of an output's words, so that outputs with words have numbers to cut: a leak may be in a part of the output.

A whole text or table seldom recurs, so its count shows nothing. Its *view* is a row of numbers about the items at each
place of the output (:mod:`hockeystick.audits.outputs.output_items`): how many there are, how many distinct ones, how
often the frequent ones occur, where they first and last do, which ones are neighbours, and sums and ends of numbers.

The vocabulary (frequent items, pairs of neighbours, pairs of columns) is taken from the choosing samples of both data
sets together, without looking at which output is of which. Then it is frozen: a view is a function of one output, so a
bounding sample is counted by a partition of its view like by any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, compress, islice, pairwise
from operator import eq, gt
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import BoolArray, FloatArray
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

    def fill(self, row: list[float], items: list[Any]) -> None:
        """Writes an output's values into a row of zeros."""
        counts, known = Counter(items), 0
        for item, count in counts.items():
            column = self.words.get(item)
            if column is not None:
                known += count
                row[column] = count
        row[self.end - len(STATISTICS) : self.end] = _statistics(items, counts, known)
        if self.ends:
            back = items[::-1]
            for item, (first, last) in self.ends.items():
                held = item in counts
                row[first] = items.index(item) if held else len(items)
                row[last] = back.index(item) if held else len(items)
        if self.neighbours:
            for pair, count in Counter(pairwise(items)).items():
                column = self.neighbours.get(pair)
                if column is not None:
                    row[column] = count


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


def _statistics(items: list[Any], counts: Counter[Any], known: int) -> list[float]:
    """Returns the values of ``STATISTICS``; ``known`` is the number of items in the vocabulary."""
    size = len(items)
    texts = [(len(item), count) for item, count in counts.items() if type(item) is str]  # equal to no other type's
    letters, worded = sum(length * count for length, count in texts), sum(count for _, count in texts) == size
    found: list[float] = [size, letters, len(counts), min(size, 1), 0, size - known, 0]
    if len(counts) < size:
        found[3:5] = max(counts.values()), sum(count > 1 for count in counts.values())
        found[6] = sum(map(eq, items, islice(items, 1, None)))
    try:
        found.append(sum(map(gt, items, islice(items, 1, None))))
    except TypeError:  # items of several types have no order
        found.append(0)
    if worded:
        return [*found, 0, 0, 0]
    numbers = [min(max(item, -_HUGE), _HUGE) for item in items if type(item) is float]
    return found + ([sum(numbers), min(numbers), max(numbers)] if numbers else [0, 0, 0])


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
        width, known = len(self.kept), dict[int, list[float]]()
        for items in outputs:
            if id(items) not in known:
                row = known[id(items)] = [0.0] * width
                paired = _paired(items, self.pairs)
                for place in self.places:
                    place.fill(row, items.get(place.name) or paired.get(place.name) or [])
        block = np.array([known[id(items)] for items in outputs], dtype=np.float64).reshape(len(outputs), width)
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
    held, words, neighbours = Counter[str](), Counter[tuple[str, Any]](), Counter[tuple[str, Any]]()
    for items in outputs:
        held.update(items.keys())
        for place, own in items.items():
            words.update((place, item) for item in set(own))
            neighbours.update((place, pair) for pair in set(pairwise(own)))
    names = sorted(held, key=lambda name: (-held[name], name.startswith(LETTERS), name))[:_MOST_PLACES]
    frequent = _frequent(words, names, _MOST_WORDS)
    ends = frequent[:_MOST_ENDS]
    beside = _frequent(neighbours, names, _MOST_NEIGHBOURS)
    places, start = [], 0
    for name in names:
        own, own_ends, own_beside = ([item for place, item in one if place == name] for one in (frequent, ends, beside))
        second = start + len(own)
        third = second + 2 * len(own_ends)
        columns = {item: (second + 2 * i, second + 2 * i + 1) for i, item in enumerate(own_ends)}
        counts = [{item: at + i for i, item in enumerate(some)} for at, some in ((start, own), (third, own_beside))]
        end = third + len(own_beside) + len(STATISTICS)
        places.append(_Place(name, counts[0], columns, counts[1], start, end))
        start = end
    return tuple(places)


def _frequent(held: Counter[tuple[str, Any]], names: list[str], most: int) -> list[tuple[str, Any]]:
    chosen = set(names)
    some = [(key, count) for key, count in held.items() if count >= _LEAST and key[0] in chosen]
    return [key for key, _ in sorted(some, key=lambda item: (-item[1], repr(item[0])))[:most]]


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
