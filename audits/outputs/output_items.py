"""Outputs with words, as lists of items: the values of a column, the words of a text, the rows of a table.

A layout's key has all that an output contains but its numbers (:mod:`hockeystick.audits.outputs.values`), so the items
follow from the key and the numbers alone. An item is a string, bytes, a float, None, or a tuple. Every list has a
*place*, which says where its items are: "output", "output.name", "column diag", "output[*].diag" (a part of each row),
"the rows of output", "the words of column note". Lists that always have the same items are harmless.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from attrs import define, field

from hockeystick.audits.outputs.values import Key, name_words

Items = dict[str, list[Any]]

ROWS, LETTERS = "the rows of ", "the characters of "
_MOST_PLACES = 16  # parts of a sequence that are places of their own
_SHORT = 64  # characters of a text whose characters are items
_WORD = re.compile(r"\w+|[^\w\s]")
_SHAPE = re.compile(r"array .*\((\d+), (\d+)\)")
_WORDY = frozenset({"str", "bytes", "value", "None"})
_LEAVES = _WORDY | {"number", "exact"}
_NAN = ("value", "NaN")


def has_words(key: Key) -> bool:
    """Returns whether an output has more than numbers by position: words, names of parts, or columns."""
    match key[0]:
        case "number" | "array" | "exact":
            return False
        case "of":
            return bool(key[2]) or any(map(has_words, key[3:]))
    return True


def items_of(key: Key, numbers: Sequence[float]) -> Items:
    """Returns the items of an output at each place.

    Args:
      key: of the output's layout.
      numbers: of the output, in the order of the layout.
    """
    walk = _Walk([_NAN if number != number else number for number in numbers])
    walk.read(key, "output")
    for place, items in list(walk.found.items()):
        walk.found |= _texts(place, items, alone=place in walk.texts)
    return walk.found


@define
class _Walk:
    numbers: list[Any]
    at: int = 0
    found: Items = field(factory=dict)
    texts: set[str] = field(factory=set)  # places of single texts

    def add(self, place: str, items: Iterable[Any]) -> None:
        self.found.setdefault(place, []).extend(items)

    def read(self, key: Key, place: str) -> None:
        """Adds the items of a part of the output."""
        match key:
            case ("str", text):
                self.texts.add(place)
                self.add(place, (text,))
            case ("words", head, tokens):
                self.cells(tokens, head, place)
            case ("ordered", places, inner):
                names = [name_words(name) for name in inner[2]]
                self.add(f"the order of the names of {place}", (names[places.index(i)] for i in range(len(names))))
                self.read(inner, place)
            case ("frame", _, labels, meta, *keys):
                self.frame(labels, meta, keys, place)
            case ("of", _, (), *keys):
                self.sequence(key[1], keys, place)
            case ("of", _, names, *keys):
                self.add(f"the names of {place}", map(name_words, names))
                for name, part in zip(names, keys, strict=True):
                    self.read(part, place if name == "values" else f"{place}.{name_words(name)}")
            case _:
                self.add(place, self.leaves((key,)))

    def frame(self, labels: Sequence[str], meta: Key, keys: Sequence[Key], place: str) -> None:
        self.read(meta, place)
        self.add(f"the labels of {place}", labels)
        columns = []
        for label, part in zip(labels, keys, strict=True):
            name = f"column {label}" + ("" if place == "output" else f" of {place}")
            start = len(self.found.get(name, ()))
            self.read(part, name)
            columns.append(self.found.get(name, [])[start:])
        if len(columns) > 1 and len(set(map(len, columns))) == 1:
            self.add(ROWS + place, zip(*columns, strict=True))

    def sequence(self, head: str, keys: Sequence[Key], place: str) -> None:
        """Adds the items of parts that have positions, not names."""
        kinds = {part[0] for part in keys}
        if kinds == {"str"}:
            self.cells([text for _, text in keys], head, place)
        elif not kinds <= _LEAVES:
            for part in keys:
                self.row(part, place)
        elif (
            not _SHAPE.fullmatch(head)
            and len(keys) <= _MOST_PLACES
            and len({part[0] in _WORDY for part in keys if part != ("None",)}) > 1
        ):
            for i, part in enumerate(keys):
                self.read(part, f"{place}[{i}]")
        else:
            self.cells(self.leaves(keys), head, place)

    def cells(self, items: Sequence[Any], head: str, place: str) -> None:
        """Adds the items of an array, which has rows if it has two dimensions."""
        shape = _SHAPE.fullmatch(head)
        width = int(shape[2]) if shape else 0
        if not 1 < width <= _MOST_PLACES:
            self.add(place, items)
            return
        for j, name in enumerate(_columns(place, width)):
            self.add(name, items[j::width])
        self.add(ROWS + place, (tuple(items[i : i + width]) for i in range(0, len(items), width)))

    def row(self, key: Key, place: str) -> None:
        """Adds one of several parts, at least one of which has parts itself."""
        if key[0] in _LEAVES:
            self.add(place, self.leaves((key,)))
            return
        start = self.at
        row = tuple(self.leaves((key,)))
        self.add(ROWS + place, (row,))
        inner = key[2] if key[0] == "ordered" else key
        plain = inner[0] == "of" and len(row) == len(inner) - 3
        if not len(row) <= _MOST_PLACES or not (plain or key[0] == "words"):
            self.at = start
            self.read(key, f"{place}[*]")
            return
        names = inner[2] if plain else ()
        if names:
            self.add(f"the names of {place}[*]", (names if inner is key else (*names, key[1]),))
        for name, item in zip(_columns(place, len(row), names), row, strict=True):
            self.add(name, (item,))

    def leaves(self, keys: Iterable[Key]) -> list[Any]:
        """Returns all items of some parts, and passes their numbers."""
        found: list[Any] = []
        for key in keys:
            kind = key[0]
            if kind == "str" or kind == "bytes":
                found.append(key[1])
            elif kind == "None":
                found.append(None)
            elif kind == "value":
                found.append(key)
            elif kind == "number" or kind == "array":
                found += self.next(math.prod(key[2] if kind == "array" else ()) * (1 + key[1].startswith("complex")))
            elif kind == "exact":
                found.append(tuple(self.next(len(key[2]))))
            elif kind == "words":
                found += key[2]
            elif kind == "ordered":
                found += self.leaves((key[2],))
            else:
                found += self.leaves(key[3:])
        return found

    def next(self, count: int) -> list[Any]:
        self.at += count
        return self.numbers[self.at - count : self.at]


@lru_cache(maxsize=1 << 10)
def _columns(place: str, width: int, names: tuple[Any, ...] = ()) -> tuple[str, ...]:
    """Returns the places of the parts of a row."""
    if names:
        return tuple(place + "[*]" + ("" if name == "values" else f".{name_words(name)}") for name in names)
    return tuple(f"{place}[*, {j}]" for j in range(width))


def _texts(place: str, items: list[Any], *, alone: bool) -> Items:
    """Returns the words of texts, and the lines and characters of a text that stands alone."""
    found: Items = {}
    split = {text: _split(text) for text in {item for item in items if type(item) is str}}
    if any(split.values()):
        words = ((split[item] if type(item) is str else ()) or (item,) for item in items)
        found[f"the words of {place}"] = [word for part in words for word in part]
    if alone and len(items) == 1:
        text = items[0]
        if "\n" in text:
            found[f"the lines of {place}"] = text.splitlines()
        if 1 < len(text) <= _SHORT:
            found[LETTERS + place] = list(text)
    return found


def _split(text: str) -> tuple[str, ...]:
    """Returns the words and marks of a text; nothing if the text is a single word."""
    return _split_short(text) if len(text) <= _SHORT else tuple(_WORD.findall(text))


@lru_cache(maxsize=1 << 14)
def _split_short(text: str) -> tuple[str, ...]:
    return () if text.isalnum() else tuple(words) if len(words := _WORD.findall(text)) > 1 else ()
