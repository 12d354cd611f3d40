"""The questions of a survey: what a client's value is encoded as, by public rules.

A question turns a value into a whole number, its code. Nothing else about the value is ever sent. A value that a
question has no code for counts as "(other)", or is clipped, so that no answer tells of an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, items, real, text

OTHER = "(other)"
_MOST_CATEGORIES, _MOST_CELLS, _MOST_LENGTH, _MOST_SYMBOLS = 2**16 - 1, 2**12, 64, 254

Prefix = tuple[int, ...]
"""The first digits of an item: places of its symbols in the alphabet, from 1; 0 after its end."""


def _categories(value: Iterable[str]) -> tuple[str, ...]:
    found = tuple(text("categories", each) for each in items("categories", value))
    if not 1 <= len(found) <= _MOST_CATEGORIES or len(set(found)) < len(found) or OTHER in found:
        reason = f"are not 1 to {_MOST_CATEGORIES} different names, none of them {OTHER}"
        raise InvalidArgumentError("categories", len(found), reason, f"{OTHER} is added by itself")
    return found


def _low(value: float) -> float:
    return real("low", value)


def _high(value: float) -> float:
    return real("high", value)


def _number(value: object) -> float:
    """A client's number; NaN for none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_range(low: float, high: float) -> None:
    if not 0.0 < high - low < math.inf:
        raise InvalidArgumentError("high", high, f"does not form a range with low={low!r}", "give low < high")


@frozen
class CategoryQuestion:
    """The share of clients with each of some categories; "(other)" is the last one.

    Args:
        categories: Their public names.

    Raises:
        InvalidArgumentError: not 1 to 65535 different names.

    See ``Survey`` for an example.
    """

    categories: tuple[str, ...] = field(converter=_categories)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all cells, the last of which is for all other values."""
        return (*self.categories, OTHER)

    def code(self, value: object) -> int:
        """Returns the place of a value's cell; the last one for a value of no category."""
        return (
            self.categories.index(value) if isinstance(value, str) and value in self.categories else len(self.names) - 1
        )


def _cells(value: int) -> int:
    return integer("cells", value, low=2, high=_MOST_CELLS)


def _levels(value: Iterable[float]) -> tuple[float, ...]:
    found = tuple(real("levels", each, low=0.0, high=1.0) for each in items("levels", value))
    if not 1 <= len(found) <= 99:
        raise InvalidArgumentError("levels", len(found), "are not 1 to 99 quantiles", "give shares such as 0.5")
    return found


@frozen
class QuantileQuestion:
    """Quantiles of a number, and its distribution function at the ends of equal cells.

    Args:
        low, high: The public range; numbers beyond it are clipped, and other values count as ``low``.
        cells: The number of equal cells of the range.
        levels: The quantiles, 0.5 for the median.

    Raises:
        InvalidArgumentError: an empty range, or a number that is out of its domain.

    See ``Survey`` for an example.
    """

    low: float = field(converter=_low)
    high: float = field(converter=_high)
    cells: int = field(default=64, converter=_cells, kw_only=True)
    levels: tuple[float, ...] = field(default=(0.25, 0.5, 0.75), converter=_levels, kw_only=True)

    def __attrs_post_init__(self) -> None:
        _check_range(self.low, self.high)

    def code(self, value: object) -> int:
        """Returns the place of the cell that holds a number; an edge belongs to the cell below it."""
        number = _number(value)
        if not number > self.low:  # also where it is NaN
            return 0
        share = (min(number, self.high) - self.low) / (self.high - self.low)
        return min(self.cells - 1, max(0, math.ceil(share * self.cells) - 1))

    def edge(self, place: int) -> float:
        """Returns the upper end of the first ``place`` cells."""
        return self.low + (self.high - self.low) * place / self.cells


@frozen
class MeanQuestion:
    """The mean of a number.

    Args:
        low, high: The public range; numbers beyond it are clipped, and other values count as the middle.

    Raises:
        InvalidArgumentError: the range is empty.

    See ``Survey`` for an example.
    """

    low: float = field(converter=_low)
    high: float = field(converter=_high)

    def __attrs_post_init__(self) -> None:
        _check_range(self.low, self.high)

    def share(self, value: object) -> float:
        """Returns the place of a number in the range, from 0 to 1."""
        number = _number(value)
        if math.isnan(number):
            return 0.5
        return (min(max(number, self.low), self.high) - self.low) / (self.high - self.low)


def _alphabet(value: str) -> str:
    found = text("alphabet", value)
    if len(set(found)) < len(found) or not 2 <= len(found) <= _MOST_SYMBOLS:
        reason = f"is not made of 2 to {_MOST_SYMBOLS} different symbols"
        raise InvalidArgumentError("alphabet", found, reason, 'give all symbols, as "abc…"')
    return found


def _length(value: int) -> int:
    return integer("length", value, low=1, high=_MOST_LENGTH)


def _share(value: float) -> float:
    return real("share", value, low=0.0, low_open=True, high=1.0)


def _most(value: int) -> int:
    return integer("most", value, low=1, high=2**12)


@frozen
class ItemQuestion:
    """The most frequent words over an alphabet, found symbol by symbol (heavy hitters of a prefix tree).

    In each round the prefixes that are frequent enough are extended by ``stride`` symbols and counted.

    Args:
        alphabet: The public symbols.
        length: The most symbols of a word; a longer one, or one with another symbol, counts as "(other)".
        share: The share of clients from which on words are looked for.
        stride: The number of symbols that a round adds.
        most: The most prefixes that are kept in a round.

    Raises:
        InvalidArgumentError: an argument is out of its domain.

    See ``Survey`` for an example.
    """

    alphabet: str = field(converter=_alphabet)
    length: int = field(converter=_length, kw_only=True)
    share: float = field(default=0.01, converter=_share, kw_only=True)
    stride: int = field(default=1, kw_only=True)
    most: int = field(default=256, converter=_most, kw_only=True)

    def __attrs_post_init__(self) -> None:
        integer("stride", self.stride, low=1, high=self.length)
        if self.children > 2**14:
            reason = f"makes {self.children} extensions of a prefix"
            raise InvalidArgumentError("stride", self.stride, reason, "give a smaller one")

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return -(-self.length // self.stride)

    @property
    def children(self) -> int:
        """The number of extensions of a prefix in a round."""
        return int((len(self.alphabet) + 1) ** self.stride)

    def cells(self, prefixes: tuple[Prefix, ...]) -> int:
        """Returns the number of cells of a round that extends these prefixes; the last one is for all other words."""
        return len(prefixes) * self.children + 1

    def digits(self, value: object) -> Prefix | None:
        """Returns a word as digits, padded by zeros to all rounds; None for a word that has none."""
        if not isinstance(value, str) or not 1 <= len(value) <= self.length:
            return None
        found = [self.alphabet.find(symbol) + 1 for symbol in value]
        return None if 0 in found else (*found, *[0] * (self.rounds * self.stride - len(found)))

    def code(self, digits: Prefix | None, prefixes: tuple[Prefix, ...]) -> int:
        """Returns the cell of a word in a round that extends these prefixes, all of one length."""
        known = len(prefixes[0])
        last = self.cells(prefixes) - 1
        if digits is None or digits[:known] not in prefixes:
            return last
        found = prefixes.index(digits[:known])
        for digit in digits[known : known + self.stride]:
            found = found * (len(self.alphabet) + 1) + digit
        return found

    def extended(self, cell: int, prefixes: tuple[Prefix, ...]) -> Prefix | None:
        """Returns the longer prefix that a cell counts; None where no word has it, or for the last cell."""
        if cell >= self.cells(prefixes) - 1:
            return None
        place, rest = divmod(cell, self.children)
        added: list[int] = []
        for _ in range(self.stride):
            rest, digit = divmod(rest, len(self.alphabet) + 1)
            added.insert(0, digit)
        found = (*prefixes[place], *added)
        ended = found.index(0) if 0 in found else len(found)
        return None if any(found[ended:]) or ended == 0 else found

    def word(self, prefix: Prefix) -> str:
        """Returns the word of a prefix."""
        return "".join(self.alphabet[digit - 1] for digit in prefix if digit)


AnyQuestion = CategoryQuestion | QuantileQuestion | MeanQuestion | ItemQuestion
KINDS: dict[str, type[AnyQuestion]] = {
    "categories": CategoryQuestion,
    "quantiles": QuantileQuestion,
    "mean": MeanQuestion,
    "items": ItemQuestion,
}


def kind_of(question: AnyQuestion) -> str:
    """Returns the name of a question's kind."""
    for name, kind in KINDS.items():
        if isinstance(question, kind):
            return name
    raise InvalidArgumentError("question", type(question).__name__, "is not a question", "use CategoryQuestion, …")


def read_question(kind: object, given: Mapping[str, Any]) -> AnyQuestion:
    """Returns a question from its kind and its fields, as they stand in a file.

    Raises:
        InvalidArgumentError: an unknown kind, or fields that are not those of the kind or out of their domain.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidArgumentError("kind", kind, "is unknown", f"use one of {', '.join(KINDS)}")
    try:
        return KINDS[kind](**given)
    except TypeError:
        raise InvalidArgumentError("question", kind, "has other fields than its kind", "make it by Survey") from None
