"""Tables of numbers for ``hockeystick release``, as CSV or Parquet.

Files are read as in ``symbol_tables``. The records are private, so an error gives the number of a record and never its
values.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

import numpy as np

from hockeystick._files.symbol_tables import Table, read_pieces, table_of
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained


@unchained()
def read_columns(argument: str, path: Table, columns: Sequence[str], *, missing: float | None = None) -> FloatArray:
    """Returns columns of numbers, shape (n, d), n >= 1; infinite numbers are allowed.

    Args:
        argument: The option that names the file, for messages.
        path: The file, or a data frame.
        columns: The names of the columns.
        missing: The number that a record without one counts as; None refuses such a record, which tells that there is
            one.

    Raises:
        InvalidArgumentError: The file or a column does not exist, there are no records, or a record lacks a number.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    pieces: list[FloatArray] = []
    before, source = 0, table_of(argument, path)
    for piece in read_pieces(argument, source, tuple(columns), numbers=len(columns), missing=missing is not None):
        table = np.array([numbers_of(texts) for texts in piece]).T
        if missing is not None:
            table[np.isnan(table)] = missing
        bad = np.flatnonzero(np.isnan(table).any(axis=1))
        if len(bad):
            name = columns[int(np.argmax(np.isnan(table[bad[0]])))]
            reason = f"has no number {name!r} in record {before + int(bad[0]) + 1}"
            raise InvalidArgumentError(argument, source, reason, "leave such records out")
        pieces.append(table)
        before += len(table)
    if not before:
        raise InvalidArgumentError(argument, source, "has no records", "give one record per line")
    return np.concatenate(pieces)


def numbers_of(texts: Sequence[str]) -> FloatArray:
    """Returns the numbers that fields hold, shape (n,); NaN where one holds none."""
    try:
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        return np.array([_number(text) for text in texts], dtype=np.float64)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def table_text(columns: Sequence[str], rows: FloatArray) -> str:
    """Returns a table as CSV with column names in the first line and numbers in full precision."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_text(value) for value in row] for row in rows.tolist()])
    return buffer.getvalue()


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)
