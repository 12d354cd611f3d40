"""Recorded outputs in files: CSV, JSON Lines, ``.npy`` and Parquet.

Each line, row or item is one output. Names of columns, types and shapes belong to the recorder, so files that differ in
them are refused: an audit would take the difference for a leak. Cells of a CSV file are texts.
A column is one of numbers if every cell of *both* files is a number; in any other column a cell is a number, a text or
missing, each by itself. So a word that occurs on one data set alone stays an output.

What the outputs are may be private: no error shows one, only its place.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.files.parquet_files import opened_parquet
from hockeystick.accounting.files.reading import LARGEST_TEXT, UnreadableFileError, opened_text, read_text
from hockeystick.audits.targets.array_files import UnreadableArrayError, read_array
from hockeystick.audits.targets.json_values import decode_json
from hockeystick.audits.targets.recorded import Outputs, Recorded

FORMATS = (".csv", ".tsv", ".jsonl", ".ndjson", ".npy", ".parquet")
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(nan|inf(inity)?)", re.IGNORECASE | re.ASCII)
Columns = dict[str, Any]
"""The columns of a file by name; those of a file without names are called by their numbers, from "0"."""


def read_recorded(file0: str | os.PathLike[str], file1: str | os.PathLike[str]) -> Recorded:
    """Returns the outputs that two files hold, recorded on two neighbouring data sets, as a target.

    * ``.csv``, ``.tsv``: a line is an output of one or several columns. The first line has their names if none of its
      cells is a number.
    * ``.jsonl``, ``.ndjson``: a line is an output, as a JSON value.
    * ``.npy``: an array with the runs on the leading axis, but not of Python objects.
    * ``.parquet``: a row is an output; needs the extra ``tables``.

    Args:
      file0, file1: the files of the two data sets, of one format.

    Raises:
      InvalidArgumentError: a file can't be read, or holds no outputs or sorted ones (see :class:`Recorded`); or the
        files have different formats, columns, types or shapes.
      MissingExtraError: Parquet files without the extra.

    Example:
      >>> import os, tempfile
      >>> import numpy as np
      >>> import hockeystick as hs
      >>> rng = np.random.default_rng(1)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     for name, scale in ("d0", 0.0), ("d1", 1.0):
      ...         np.save(os.path.join(folder, name), rng.laplace(scale, 0.4, 5000))
      ...     target = hs.audits.read_recorded(os.path.join(folder, "d0.npy"), os.path.join(folder, "d1.npy"))
      >>> hs.audit(target, claim=(1.0, 0.0), rng=1).outcome
      'refuted'
    """
    with unchained():
        files = os.fspath(file0), os.fspath(file1)
        formats = [_format(name, file) for name, file in zip(("file0", "file1"), files, strict=True)]
        if _READERS[formats[0]] is not _READERS[formats[1]]:
            raise InvalidArgumentError(
                "file1", files[1], f"is of another format than {formats[0]}", "convert one of them"
            )
        if os.path.exists(files[0]) and os.path.exists(files[1]) and os.path.samefile(*files):
            raise InvalidArgumentError(
                "file1", files[1], "is the same file as file0", "give the outputs on two data sets"
            )
        found = _READERS[formats[0]](files)
        return _recorded(files, found)


def _recorded(files: tuple[str, str], outputs: tuple[Outputs, Outputs]) -> Recorded:
    try:
        return Recorded(*outputs)
    except InvalidArgumentError as error:
        side = int(error.argument == "outputs1")
        reason = error.reason.replace("outputs0", "file0")
        raise InvalidArgumentError(f"file{side}", files[side], reason, error.remedy) from None


def _format(name: str, file: str) -> str:
    suffix = os.path.splitext(file)[1].lower()
    if suffix not in FORMATS:
        raise InvalidArgumentError(name, file, "is of an unknown format", f"give a file {', '.join(FORMATS)}")
    return suffix


def _both(files: tuple[str, str], read: Callable[[str, str], Any]) -> tuple[Any, Any]:
    """Returns what ``read(argument, file)`` returns for each file."""
    found = []
    for name, file in zip(("file0", "file1"), files, strict=True):
        try:
            found.append(read(name, file))
        except UnreadableFileError as error:
            raise error.about(name, file, "give a readable file of outputs") from None
    return found[0], found[1]


# --- arrays and JSON -------------------------------------------------------------------------------------------------


def _npy(files: tuple[str, str]) -> tuple[Outputs, Outputs]:
    def read(name: str, file: str) -> Outputs:
        try:
            return read_array(file)
        except UnreadableArrayError as error:
            raise InvalidArgumentError(name, file, f"is not a file of outputs: it {error}", "use numpy.save") from None

    return _both(files, read)


def _jsonl(files: tuple[str, str]) -> tuple[Outputs, Outputs]:
    def read(name: str, file: str) -> list[Any]:
        found = []
        for i, line in enumerate(read_text(file).split("\n"), 1):
            if not line.strip():
                continue
            try:
                found.append(decode_json(line))
            except UnreadableFileError as error:
                raise InvalidArgumentError(
                    name, file, f"line {i} is not JSON: {error}", "give one value a line"
                ) from None
        return found

    outputs = _both(files, read)
    kinds = {type(value) for side in outputs for value in side}
    if kinds == {int, float}:  # many writers leave out the ".0" of a whole float
        return np.array(outputs[0], dtype=np.float64), np.array(outputs[1], dtype=np.float64)
    return outputs


# --- tables ----------------------------------------------------------------------------------------------------------


def _csv(files: tuple[str, str]) -> tuple[Outputs, Outputs]:
    tables = _both(files, _cells)
    _same_columns(files, list(tables[0]), list(tables[1]))
    typed: tuple[Columns, Columns] = ({}, {})
    for name in tables[0]:
        columns = tables[0][name], tables[1][name]
        if all(_WHOLE.fullmatch(cell) for side in columns for cell in side):
            for side, cells in zip(typed, columns, strict=True):
                side[name] = np.array([int(cell) for cell in cells], dtype=np.int64)
        elif all(_is_real(cell) for side in columns for cell in side):
            for side, cells in zip(typed, columns, strict=True):
                side[name] = np.array([float(cell) for cell in cells])
        else:
            for side, cells in zip(typed, columns, strict=True):
                side[name] = _objects([_value(cell) for cell in cells])
    return _rows(typed[0]), _rows(typed[1])


def _cells(name: str, file: str) -> dict[str, list[str]]:
    """Returns the cells of a CSV file by column, without the spaces around them."""
    delimiter = "\t" if file.lower().endswith(".tsv") else ","
    try:
        with opened_text(file, most=LARGEST_TEXT) as opened:
            reader = csv.reader(opened, delimiter=delimiter, strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except csv.Error:
        raise InvalidArgumentError(name, file, "is not valid CSV", "quote cells that hold the separator") from None
    while lines and not lines[-1][1]:
        lines.pop()  # empty lines at the end; elsewhere one is an output that is missing
    if not lines:
        raise InvalidArgumentError(name, file, "is empty", "give one output a line")
    width = max(1, len(lines[0][1]))
    names = [str(i) for i in range(width)]
    if lines[0][1] and not any(_is_real(cell) for cell in lines[0][1]):
        names, lines = lines[0][1], lines[1:]
        if len(set(names)) < width or not all(names):
            raise InvalidArgumentError(name, file, "has a column without a name of its own", "name each column once")
    rows = [row or [""] * width if width == 1 else row for _, row in lines]
    bad = next((line for (line, _), row in zip(lines, rows, strict=True) if len(row) != width), None)
    if bad is not None:
        raise InvalidArgumentError(
            name, file, f"line {bad} has another number of cells than the first", f"give {width}"
        )
    return {column: [row[i] for row in rows] for i, column in enumerate(names)}


def _is_real(cell: str) -> bool:
    return _REAL.fullmatch(cell) is not None and (math.isfinite(float(cell)) or not any(c.isdigit() for c in cell))


def _value(cell: str) -> object:
    if not cell:
        return None
    return float(cell) if _is_real(cell) else cell


def _parquet(files: tuple[str, str]) -> tuple[Outputs, Outputs]:
    def read(name: str, file: str) -> tuple[list[str], list[str], list[Any]]:
        with opened_parquet(file) as opened:
            table = opened.read()
            kinds = [str(kind) for kind in table.schema.types]
            return list(table.column_names), kinds, [_arrow_column(column) for column in table.columns]

    (names, kinds0, columns0), (names1, kinds1, columns1) = _both(files, read)
    _same_columns(files, names, names1)
    for name, type0, type1 in zip(names, kinds0, kinds1, strict=True):
        if type0 != type1:
            reason = f"has a column {name!r} of the type {type1}, and file0 of the type {type0}"
            raise InvalidArgumentError("file1", files[1], reason, "convert both in the same way")
    return _rows(dict(zip(names, columns0, strict=True))), _rows(dict(zip(names, columns1, strict=True)))


def _arrow_column(column: Any) -> Any:
    values = column.to_numpy() if column.null_count == 0 else None
    return values if values is not None and values.dtype.kind in "biuf" else _objects(column.to_pylist())


def _objects(values: list[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _same_columns(files: tuple[str, str], names0: list[str], names1: list[str]) -> None:
    for i, names in enumerate((names0, names1)):
        if not names or len(set(names)) < len(names) or not all(names):
            reason = "has no column, two of one name, or one without a name"
            raise InvalidArgumentError(f"file{i}", files[i], reason, "name each column once")
    if names0 != names1:
        reason = f"has {len(names1)} columns, and file0 {len(names0)}"
        if len(names0) == len(names1):
            at = next(i for i, (a, b) in enumerate(zip(names0, names1, strict=True)) if a != b)
            reason = f"has another name for column {at + 1} than file0"
        raise InvalidArgumentError("file1", files[1], reason, "record both data sets in the same way")


def _rows(columns: Columns) -> Outputs:
    """Returns one column as it is, and several as a structured array."""
    if len(columns) == 1:
        (only,) = columns.values()
        single: Outputs = only.tolist() if only.dtype == object else only
        return single
    runs = len(next(iter(columns.values()))) if columns else 0
    found = np.empty(runs, dtype=[(name, column.dtype, column.shape[1:]) for name, column in columns.items()])
    for name, column in columns.items():
        found[name] = column
    return found


_READERS: dict[str, Callable[[tuple[str, str]], tuple[Outputs, Outputs]]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".npy": _npy,
    ".parquet": _parquet,
}
