"""Rows of a table with the keys of their groups, their numbers and their persons, for ``group-by`` and ``summary``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import field, frozen

from hockeystick._files.missing_values import MISSING, MissingRule
from hockeystick._files.release_table import numbers_of
from hockeystick._files.symbol_tables import Table, read_pieces, table_of
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.errors import unchained

Key = tuple[str, ...]


@frozen(eq=False)
class Rows:
    """The rows of a table that have all values; private.

    Attributes:
        keys: The different keys, sorted.
        where: The key of each row, its place in ``keys``, shape (rows,).
        numbers: Shape (rows, columns), finite.
        persons: The person of each row, shape (rows,); None if each row is a person of its own.
    """

    keys: tuple[Key, ...] = field(repr=False)
    where: IntArray = field(repr=False)
    numbers: FloatArray = field(repr=False)
    persons: list[str] | None = field(repr=False)


@unchained()
def read_rows(
    argument: str,
    path: Table,
    *,
    by: Sequence[str] = (),
    numeric: Sequence[str] = (),
    person: str | None = None,
    missing: MissingRule,
) -> Rows:
    """Returns the rows of a table, without those that the rule for missing values leaves out.

    A field is missing if it is empty, or in a column of numbers holds none; infinite numbers are taken for very large
    ones. A row without a person is always left out, as nobody could be charged for it.

    Args:
        argument: The option that names the file, for messages.
        path: The file, or a data frame.
        by: The columns of the keys.
        numeric: The columns of numbers.
        person: The column with the row's person.
        missing: The rule.

    Raises:
        InvalidArgumentError: The file or a column does not exist, a line has too many or too few fields, or a value is
            missing and the rule is to refuse.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    names = (*((person,) if person else ()), *by, *numeric)
    if len(set(names)) < len(names):
        raise InvalidArgumentError(argument, names, "has a column in two roles", "name different columns")
    if not names:
        raise InvalidArgumentError(argument, "", "is asked for no column", "name one")
    texts: list[list[str]] = [[] for _ in (*by, *((person,) if person else ()))]
    pieces: list[FloatArray] = []
    first = 1 if person else 0
    source = table_of(argument, path)
    for piece in read_pieces(argument, source, names, numbers=len(numeric), missing=True):
        for kept, part in zip(texts, (*piece[first : first + len(by)], *piece[:first]), strict=True):
            kept += part
        found = np.array([numbers_of(part) for part in piece[first + len(by) :]], dtype=float)
        pieces.append(found.reshape(len(numeric), -1).T if numeric else np.zeros((len(piece[0]), 0)))
    numbers = np.concatenate(pieces) if pieces else np.zeros((0, len(numeric)))
    return _kept(argument, source, texts, numbers, len(by), bool(person), missing)


def _kept(
    argument: str,
    source: Table,
    texts: list[list[str]],
    numbers: FloatArray,
    columns: int,
    with_person: bool,
    missing: MissingRule,
) -> Rows:
    count = len(numbers)
    bad = np.isnan(numbers)
    if missing.kind == "value":
        numbers = np.where(bad, missing.value, numbers)
        bad = np.zeros_like(bad)
    lacking = bad.any(axis=1)
    arrays = [np.array(part, dtype=np.str_) for part in texts]
    for i, part in enumerate(arrays):
        empty = part == ""
        if i < columns and missing.kind == "category":
            arrays[i] = np.where(empty, MISSING, part)
        elif count:
            lacking |= empty
    if missing.kind == "refuse" and lacking.any():
        reason = f"lacks a value in record {int(np.argmax(lacking)) + 1}"
        raise InvalidArgumentError(argument, source, reason, "give --missing drop")
    rows = np.flatnonzero(~lacking)
    large = np.finfo(float).max
    if columns:
        codes = np.zeros(len(rows), dtype=np.int64)
        levels = []
        for part in arrays[:columns]:
            known, code = np.unique(part[rows], return_inverse=True)
            codes = codes * len(known) + code.reshape(-1)
            levels.append(known.tolist())
        present, where = np.unique(codes, return_inverse=True)
        keys = [_key(int(code), levels) for code in present]
    else:
        keys, where = [()], np.zeros(len(rows), dtype=np.int64)
    return Rows(
        keys=tuple(keys),
        where=np.asarray(where.reshape(-1), dtype=np.int64),
        numbers=np.clip(numbers[rows], -large, large),
        persons=arrays[columns][rows].tolist() if with_person else None,
    )


def _key(code: int, levels: list[list[str]]) -> Key:
    found: list[str] = []
    for known in reversed(levels):
        code, place = divmod(code, len(known))
        found.append(known[place])
    return tuple(reversed(found))
