"""Tables that ``hockeystick release`` reads and writes: columns of numbers, CSV or Parquet.

A file is read as ``symbol_tables`` reads one. The records are private, so an error about them says in which record, and
never what stands there.
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
def read_columns(argument: str, path: Table, columns: Sequence[str]) -> FloatArray:
    """Columns of numbers, shape (n, d), n >= 1; infinite ones are left to be clipped.

    Args:
        argument: The option that names the file, for messages.
        path: The file, or a data frame.
        columns: Whose values.

    Raises:
        InvalidArgumentError: No such file or column, no record, or a record without a number in a column.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    pieces: list[FloatArray] = []
    before, source = 0, table_of(argument, path)
    for piece in read_pieces(argument, source, tuple(columns), numbers=len(columns)):
        table = np.array([[_number(text) for text in texts] for texts in piece]).T
        bad = np.flatnonzero(np.isnan(table).any(axis=1))
        if len(bad):
            name = columns[int(np.argmax(np.isnan(table[bad[0]])))]
            reason = f"has no number {name!r} in record {before + int(bad[0]) + 1}"
            raise InvalidArgumentError(argument, source, reason, "leave such records out")
        pieces.append(table)
        before += len(table)
    if not before:
        raise InvalidArgumentError(argument, source, "has no records", "give one record a line")
    return np.concatenate(pieces)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def table_text(columns: Sequence[str], rows: FloatArray) -> str:
    """Returns a table as CSV, with column names in its first line; numbers keep all their digits."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_text(value) for value in row] for row in rows.tolist()])
    return buffer.getvalue()


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else repr(value)
