"""Columns of a histogram with their public cells, and the cells of a table's records, for ``hockeystick histogram``.

The cells are given, never taken from the records: a cell that exists only because somebody is in it gives that person
away. A record with another value, or with none, is counted in the last cell of the column, so no value is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from hockeystick._files.release_table import numbers_of
from hockeystick._files.symbol_tables import Table, read_pieces, table_of
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import array

MISSING = "(missing)"
"""The cell of records without a value, where a column has one."""
OTHER = "(other)"
"""The last cell of each column."""
LARGEST = 1_000_000
"""The most cells of a histogram."""

_NUMBER = r"([+-]?\d{1,15}(?:\.\d{1,15})?)"
_RANGE = re.compile(f"{_NUMBER}:{_NUMBER}:{_NUMBER}", re.ASCII)
_CELLS = "give public cells: a list of texts, or of ascending numbers between which they are"
_WAY_OUT = "give public cells: age=0:100:10 for numbers from 0 to 100 in steps of 10, or region=north,south for texts"


@frozen
class CountedColumn:
    """A column with its public cells.

    Attributes:
        name: The name of the column.
        cells: The labels of the cells; the last one is ``OTHER``.
        edges: The ends of the cells of numbers in ascending order; empty for texts. A cell holds its lower end, and the
            last cell of numbers holds both ends.
        missing: Whether the cell before the last one is that of records without a value.
    """

    name: str
    cells: tuple[str, ...] = field(repr=False)
    edges: tuple[float, ...] = field(default=(), repr=False)
    missing: bool = False

    def with_missing(self) -> CountedColumn:
        """Returns the column with a cell for records without a value, before the last one.

        Raises:
            InvalidArgumentError: A cell is called like it.
        """
        if MISSING in self.cells:
            raise InvalidArgumentError("--column", self.name, f"has a value {MISSING}", "leave it out")
        return evolve(self, cells=(*self.cells[:-1], MISSING, OTHER), missing=True)

    @classmethod
    def of(cls, argument: str, text: str) -> CountedColumn:
        """Returns the column that a text states, ``NAME=LOW:HIGH:STEP`` or ``NAME=VALUE,VALUE,...``.

        Raises:
            InvalidArgumentError: The text has another form, the steps do not fill the range, or a value occurs twice.
        """
        name, equals, cells = text.partition("=")
        if not (name and equals and cells):
            raise InvalidArgumentError(argument, text, "names a column without cells", _WAY_OUT)
        if found := _RANGE.fullmatch(cells):
            edges = _edges(argument, text, *map(Fraction, found.groups()))
            inner = [f"[{low:.15g}, {high:.15g})" for low, high in zip(edges[:-1], edges[1:], strict=True)]
            if len(set(inner)) < len(inner):
                raise InvalidArgumentError(argument, text, "has steps that floats do not tell apart", _WAY_OUT)
            return cls(name, (*inner[:-1], inner[-1][:-1] + "]", OTHER), edges)
        values = cells.split(",")
        if "" in values or OTHER in values or len(set(values)) < len(values):
            reason = f"has an empty value, a value twice, or {OTHER}, which the last cell is called"
            raise InvalidArgumentError(argument, text, reason, _WAY_OUT)
        return cls(name, (*values, OTHER))

    @classmethod
    def of_cells(cls, name: str, cells: Iterable[object]) -> CountedColumn:
        """Returns the column with texts as cells, or with cells between ascending numbers.

        Raises:
            InvalidArgumentError: The cells are neither, a text is empty or twice, or the numbers don't rise.
        """
        argument = f"columns[{name!r}]"
        if isinstance(cells, str) or not isinstance(cells, Iterable):
            raise InvalidArgumentError(argument, cells, "is not a list of cells", _CELLS)
        found = list(cells)
        if found and all(isinstance(one, str) for one in found):
            values = [str(one) for one in found]
            if "" in values or OTHER in values or len(set(values)) < len(values):
                raise InvalidArgumentError(argument, values, f"has an empty text, one twice, or {OTHER}", _CELLS)
            return cls(name, (*values, OTHER))
        edges = array(argument, found, shape=(None,))
        labels = [f"[{low:.15g}, {high:.15g})" for low, high in zip(edges[:-1], edges[1:], strict=True)]
        if not labels or (np.diff(edges) <= 0.0).any() or len(set(labels)) < len(labels):
            raise InvalidArgumentError(argument, found, "does not rise, or hardly", _CELLS)
        return cls(name, (*labels[:-1], labels[-1][:-1] + "]", OTHER), tuple(edges.tolist()))

    def places(self, texts: Sequence[str]) -> IntArray:
        """Returns the number of the cell of each text, shape (n,)."""
        other = len(self.cells) - 1
        values = self.cells[: other - self.missing]
        if not self.edges:
            known = {value: i for i, value in enumerate(values)} | ({"": other - 1} if self.missing else {})
            return np.array([known.get(text, other) for text in texts], dtype=np.int64)
        numbers, edges = numbers_of(texts), np.array(self.edges)
        inside = (numbers >= edges[0]) & (numbers <= edges[-1])  # false for what is not a number
        found = np.minimum(np.searchsorted(edges, numbers, side="right") - 1, len(values) - 1)
        rest = np.where(np.isnan(numbers), other - 1, other) if self.missing else other
        return np.where(inside, found, rest).astype(np.int64)


def _edges(argument: str, text: str, low: Fraction, high: Fraction, step: Fraction) -> tuple[float, ...]:
    if step <= 0 or high <= low:
        raise InvalidArgumentError(argument, text, "has no numbers between its ends", _WAY_OUT)
    steps = (high - low) / step
    if steps.denominator != 1 or steps >= LARGEST:
        reason = f"does not have a whole number of steps below {LARGEST}"
        raise InvalidArgumentError(argument, text, reason, "choose a step that divides the range")
    return tuple(float(low + i * step) for i in range(int(steps) + 1))


@unchained()
def read_cells(
    argument: str,
    path: Table,
    columns: Sequence[CountedColumn],
    person: str | None = None,
    *,
    drop: bool = False,
) -> tuple[IntArray, list[str] | None]:
    """Returns the cell of each record in the product of the columns, shape (n,), and each record's person.

    Args:
        argument: The option that names the file, for messages.
        path: The file, or a data frame.
        columns: The columns; the cells of the last one vary fastest.
        person: The column with the record's person; None if each record is a person of its own.
        drop: Leave records out that have no value in a column; by default they are in its cell for these, or the last.

    Raises:
        InvalidArgumentError: The file or a column does not exist, or a line has too many or too few fields.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    cells: list[IntArray] = [np.zeros(0, dtype=np.int64)]
    people: list[str] = []
    read = [column.with_missing() for column in columns] if drop else columns
    for codes, names in _pieces(argument, path, read, person):
        if drop:
            last = np.array([[len(column.cells) - 1] for column in columns])  # where records without a value are
            whole = (codes != last).all(axis=0)
            codes = np.minimum(codes[:, whole], last)
            names = [name for name, kept in zip(names, whole, strict=True) if kept] if person else names
        found = np.zeros(codes.shape[1], dtype=np.int64)
        for column, places in zip(columns, codes, strict=True):
            found = found * len(column.cells) + places
        cells.append(found)
        people += names
    return np.concatenate(cells), people if person else None


@unchained()
def read_codes(argument: str, path: Table, columns: Sequence[CountedColumn]) -> IntArray:
    """Returns the number of the cell of each record in each column, shape (n, columns).

    Args:
        argument: The option that names the file, for messages.
        path: The file, or a data frame.
        columns: The columns.

    Raises:
        InvalidArgumentError: The file or a column does not exist, a line has too many or too few fields, or there are
            no records.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    source = table_of(argument, path)
    found: list[Any] = [codes.astype(np.int32) for codes, _ in _pieces(argument, source, columns, None)]
    if not found:
        raise InvalidArgumentError(argument, source, "has no records", "give one record per line")
    return np.asarray(np.concatenate(found, axis=1).T)


def _pieces(
    argument: str, path: Table, columns: Sequence[CountedColumn], person: str | None
) -> Iterator[tuple[IntArray, Sequence[str]]]:
    """Yields cells (columns, n) of some records at a time, and their persons."""
    numeric = [column for column in columns if column.edges]
    wanted = [column for column in columns if not column.edges]
    names = (*((person,) if person else ()), *(column.name for column in (*wanted, *numeric)))
    for piece in read_pieces(argument, table_of(argument, path), names, numbers=len(numeric), missing=True):
        texts = dict(zip(names, piece, strict=True))
        yield np.array([column.places(texts[column.name]) for column in columns]), texts[person] if person else ()
