"""Tables for ``hockeystick kl``: a public reference of symbols, and private records of clients.

A file is CSV (with tabs if its name ends in .tsv), with column names in the first line, or Parquet, which needs the
extra ``tables``. It is read in pieces. In Python it may be a data frame instead (``data_frames``). A symbol, a client
or a window is the text of its field; in Parquet and in data frames also a whole number, a truth value or a date.
Fractions are refused: 1.0 and 1 would be two symbols in one file and one symbol in another.

The records are private, so an error gives the number of a line or record and never its content. Only the reference
defines the symbols.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TextIO, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick._files.data_frames import Frame, as_frame
from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.files.parquet_files import opened_parquet
from hockeystick.accounting.files.reading import UnreadableFileError, opened, opened_text
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import probability
from hockeystick.learners.divergence.client_counts import LARGEST, ClientCounts

Fields = tuple[Sequence[str], ...]
Codes = npt.NDArray[np.int32]
T = TypeVar("T")
Table = Any
"""The path of a file, or a data frame."""

_DIGITS = 4000  # the most digits of a whole number that Python parses
_ROWS = 1 << 13  # rows that are read at once
_CODED_ROWS = 1 << 19  # the same, where a row takes no Python object
_PARQUET = b"PAR1"
COUNT = "count"
"""The column with the number of records that a line stands for."""
PROBABILITY = "probability"
_COUNT_TEXT = re.compile(r"\+?0*(\d{1,10})(?:\.0*)?", re.ASCII)
_SUM = 1e-6  # the tolerance of the sum of rounded probabilities
_WAY_OUT = "give a CSV file with column names in its first line, or a Parquet file"


@frozen(eq=False)
class Reference:
    """A public distribution of symbols.

    Attributes:
        symbols: k different texts.
        probabilities: Shape (k,), with sum 1.
    """

    symbols: tuple[str, ...] = field(repr=False)
    probabilities: FloatArray = field(repr=False)

    def with_other(self, symbol: str, mass: float | None) -> Reference:
        """Returns the reference in which ``symbol`` stands for all symbols outside it.

        Args:
            symbol: One of its symbols, or a new one.
            mass: The probability of a new symbol; the other probabilities are scaled.

        Raises:
            InvalidArgumentError: A new symbol has no mass in (0, 1), or an existing one has a mass.
        """
        if symbol in self.symbols:
            if mass is not None:
                raise InvalidArgumentError("--other-mass", mass, "is for a new symbol", "leave it out")
            return self
        if mass is None:
            raise InvalidArgumentError(
                "--other", symbol, "is not a symbol of the reference", "give its --other-mass too"
            )
        share = probability("--other-mass", mass, open=True)
        return Reference((*self.symbols, symbol), _shares(np.append(self.probabilities * (1.0 - share), share)))


@frozen(eq=False)
class Records:
    """Records of clients in the order of the file; private, except each client's number of records per window.

    Attributes:
        clients: The client of each line, 0, ..., n - 1 in the order of their names, shape (lines,).
        symbols: The index of each line's symbol in the reference, shape (lines,).
        windows: The window of each line, 0, 1, ..., shape (lines,); all 0 without windows.
        client_count: n.
        symbol_count: k.
        window_names: The public names in order; one empty name without windows.
        times: The number of records of each line, shape (lines,); None if each is one record.
    """

    clients: Codes = field(repr=False)
    symbols: Codes = field(repr=False)
    windows: Codes = field(repr=False)
    client_count: int
    symbol_count: int
    window_names: tuple[str, ...]
    times: IntArray | None = field(default=None, repr=False)

    def client_records(self, window: int | None = None) -> IntArray:
        """Returns the public number of records of each client, in one window or in all, shape (n,)."""
        here = slice(None) if window is None else self.windows == window
        many = None if self.times is None else self.times[here]  # floats add them up exactly below 2^53
        return np.bincount(self.clients[here], weights=many, minlength=self.client_count).astype(np.int64)

    def capped(self, most: int, rng: np.random.Generator) -> Records:
        """Returns at most ``most`` records of each client in each window, a uniformly random subset.

        The subset depends on the order of a client's own records in the file, but not on other clients' records: in a
        sorted file the positions among others would depend on symbols. If lines stand for several records, it depends
        on the client's counts only (``ClientCounts.capped``).
        """
        if self.times is not None:
            return self._capped_counts(most, rng)
        order = np.lexsort((self.clients, self.windows))  # stable: a client's records stay in their order
        order = order[np.lexsort((rng.random(len(order)), self.clients[order], self.windows[order]))]
        who, when = self.clients[order], self.windows[order]
        fresh = np.ones(len(order), dtype=np.bool_)
        fresh[1:] = (who[1:] != who[:-1]) | (when[1:] != when[:-1])
        starts = np.flatnonzero(fresh)
        rank = np.arange(len(order)) - starts[np.cumsum(fresh) - 1]
        chosen = np.sort(order[rank < most])
        return evolve(self, clients=self.clients[chosen], symbols=self.symbols[chosen], windows=self.windows[chosen])

    def _capped_counts(self, most: int, rng: np.random.Generator) -> Records:
        tables = [self.counts(i).capped(most, rng).table.tocoo() for i in range(len(self.window_names))]
        return evolve(
            self,
            clients=np.concatenate([each.row for each in tables]).astype(np.int64),
            symbols=np.concatenate([each.col for each in tables]).astype(np.int64),
            windows=np.repeat(np.arange(len(tables)), [each.nnz for each in tables]),
            times=np.concatenate([each.data for each in tables]),
        )

    def counts(self, window: int = 0) -> ClientCounts:
        """Returns all clients' counts in one window."""
        here = slice(None) if len(self.window_names) == 1 else self.windows == window
        return ClientCounts.of_records(
            self.clients[here],
            self.symbols[here],
            symbol_count=self.symbol_count,
            client_count=self.client_count,
            times=None if self.times is None else self.times[here],
        )


@unchained()
def read_reference(path: Table, *, column: str) -> Reference:
    """Returns the public reference: a table of symbols with their counts or probabilities, or records of symbols.

    Args:
        path: The file or frame. With a column "count" or "probability" it is a table of distinct symbols; otherwise
            each line is a record.
        column: The column of symbols.

    Raises:
        InvalidArgumentError: The file or column does not exist, or does not hold positive probabilities or counts.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    name = "--reference"
    path = table_of(name, path)
    weighted = [each for each in (COUNT, PROBABILITY) if each != column and each in _columns(name, path)]
    if len(weighted) == 2:
        raise InvalidArgumentError(name, path, "has both counts and probabilities", "keep one of these columns")
    if not weighted:
        found: dict[str, int] = {}
        for (symbols,) in read_pieces(name, path, (column,)):
            for symbol in symbols:
                found[symbol] = found.get(symbol, 0) + 1
        names = tuple(sorted(found))
        return _reference(path, names, [float(found[each]) for each in names])
    table: dict[str, float] = {}
    for symbols, numbers in read_pieces(name, path, (column, weighted[0]), numbers=1):
        for symbol, text in zip(symbols, numbers, strict=True):
            if symbol in table:
                raise InvalidArgumentError(name, path, f"names the symbol {symbol!r} twice", "add up its lines")
            table[symbol] = _mass(path, symbol, text, whole=weighted[0] == COUNT)
    total = math.fsum(table.values())
    if weighted[0] == PROBABILITY and abs(total - 1.0) > _SUM:
        raise InvalidArgumentError(name, path, f"has probabilities with the sum {total:.9g}", "divide them by it")
    return _reference(path, tuple(table), list(table.values()))


def _mass(path: object, symbol: str, text: str, *, whole: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0 and (not whole or value == int(value))):
        wanted = "a whole number above 0" if whole else "a probability above 0"
        raise InvalidArgumentError(
            "--reference", path, f"does not give {symbol!r} {wanted}", "leave such symbols out, or smooth the reference"
        )
    return value


def _reference(path: object, symbols: tuple[str, ...], masses: Sequence[float]) -> Reference:
    if len(symbols) < 2:
        raise InvalidArgumentError("--reference", path, f"has {len(symbols)} symbols", "give two or more")
    return Reference(symbols, _shares(np.array(masses)))


def _shares(masses: FloatArray) -> FloatArray:
    return np.asarray(masses / math.fsum(masses))


@unchained()
def read_records(
    path: Table,
    reference: Reference,
    *,
    column: str,
    client_column: str,
    window_column: str | None = None,
    other: str | None = None,
) -> Records:
    """Returns the private records: one per line, or the number in a column "count".

    Windows are sorted as numbers if all their names are whole numbers, and as texts otherwise (so dates should be
    written as YYYY-MM-DD).

    Args:
        path: The file or frame.
        reference: The reference with the symbols that a record may have.
        column, client_column, window_column: The columns of symbols, clients and windows; by default one window.
        other: The reference's symbol that replaces all symbols outside it; by default these are an error.

    Raises:
        InvalidArgumentError: The file or a column does not exist, there are no records (in a window), or a line lacks a
            client, a known symbol or a valid count.
        MissingExtraError: A Parquet file without the extra ``tables``.
    """
    wanted = (column, client_column) if window_column is None else (column, client_column, window_column)
    if len(set(wanted)) < len(wanted):
        raise InvalidArgumentError("--client-column", client_column, "is named twice", "give different columns")
    path = table_of("--clients", path)
    places = {symbol: i for i, symbol in enumerate(reference.symbols)}
    if other is not None and other not in places:
        raise InvalidArgumentError("--other", other, "is not a symbol of the reference", "give one of its symbols")
    default = -1 if other is None else places[other]
    counted = COUNT not in wanted and COUNT in _columns("--clients", path)
    rows, symbols, times = 0, list[Codes](), list[IntArray]()
    numbered = [(list[Codes](), dict[str, int]()) for _ in wanted[1:]]
    for piece in _coded_pieces("--clients", path, (*wanted, COUNT) if counted else wanted, numbers=int(counted)):
        codes, texts = piece[0]
        found = np.array([places.get(text, default) for text in texts], dtype=np.int32)[codes]
        if default < 0 and found.min() < 0:
            raise InvalidArgumentError(
                "--clients",
                path,
                f"has a symbol in record {rows + int(np.argmin(found)) + 1} that is not in the reference",
                "give --other, a public symbol that stands for all of these",
            )
        if counted:
            times.append(_coded_counts(path, *piece[-1], rows))
        symbols.append(found)
        for (numbers, known), (codes, texts) in zip(numbered, piece[1 : len(wanted)], strict=True):
            numbers.append(np.array([known.setdefault(text, len(known)) for text in texts], dtype=np.int32)[codes])
        rows += len(found)
    if not rows or (counted and not any(each.any() for each in times)):
        raise InvalidArgumentError("--clients", path, "has no records", _WAY_OUT)
    clients, client_names = _sorted(*numbered[0])
    windows, window_names = _sorted(*numbered[1]) if len(numbered) > 1 else (np.broadcast_to(np.int32(0), rows), ("",))
    records = Records(
        clients=clients,
        symbols=np.concatenate(symbols),
        windows=windows,
        client_count=len(client_names),
        symbol_count=len(reference.symbols),
        window_names=window_names,
        times=np.concatenate(times) if counted else None,
    )
    if counted:
        empty = np.flatnonzero(np.bincount(windows, weights=records.times, minlength=len(window_names)) == 0)
        if len(empty):
            reason = f"has no record in the window {window_names[empty[0]]!r}"
            raise InvalidArgumentError("--clients", path, reason, "leave this window out")
    return records


def _whole_counts(path: object, texts: Sequence[str], before: int) -> list[int]:
    """Returns the number of records of each line; ``before`` lines were read already."""
    found = []
    for i, text in enumerate(texts, before + 1):
        written = _COUNT_TEXT.fullmatch(text.strip(" "))
        if written is None or (value := int(written[1])) > LARGEST:
            reason = f"has no valid count in record {i}: a whole number from 0 to {LARGEST}"
            remedy = f"correct it, or rename the column {COUNT!r} if it does not hold numbers of records"
            raise InvalidArgumentError("--clients", path, reason, remedy)
        found.append(value)
    return found


def _coded_counts(path: object, codes: Codes, texts: Sequence[str], before: int) -> IntArray:
    """Returns the number of records of each line, from its text as a code."""
    try:
        values = _whole_counts(path, texts, 0)
    except InvalidArgumentError:  # again for the number of its line
        values = _whole_counts(path, [texts[code] for code in codes], before)
    return np.array(values, dtype=np.int64)[codes]


def _sorted(numbers: list[Codes], known: dict[str, int]) -> tuple[Codes, tuple[str, ...]]:
    """Returns numbers in the order of the names, and the names; the order in the file may depend on private data."""
    whole = all(name.isascii() and name.removeprefix("-").isdigit() and len(name) < _DIGITS for name in known)
    names = tuple(sorted(known, key=(lambda name: (int(name), name)) if whole else None))
    places = np.empty(len(names), dtype=np.int32)
    places[[known[name] for name in names]] = np.arange(len(names))
    return places[np.concatenate(numbers)], names


# --- files and frames ------------------------------------------------------------------------------------------------


def table_of(argument: str, path: Table) -> str | Frame:
    """Returns a path as it is, and a data frame as a ``Frame``, which no message shows.

    Raises:
        InvalidArgumentError: The value is neither.
        MissingExtraError: A data frame without the extra ``tables``.
    """
    return path if isinstance(path, str) else as_frame(argument, path)


def _columns(argument: str, path: str | Frame) -> list[str]:
    if isinstance(path, Frame):
        return path.columns
    if _is_parquet(argument, path):
        with _parquet(argument, path) as found:
            return [str(each) for each in found.schema_arrow.names]
    with _opened(argument, path) as file:
        return _header(argument, path, csv.reader(file, delimiter=_delimiter(path), strict=True))


def unread(argument: str, path: Table, read: Iterable[str | None]) -> list[str]:
    """Returns the names of a table's columns that are not in ``read``."""
    known = set(read)
    return [name for name in _columns(argument, table_of(argument, path)) if name not in known]


def read_pieces(
    argument: str, path: Table, wanted: tuple[str, ...], *, numbers: int = 0, missing: bool = False
) -> Iterator[Fields]:
    """Yields the texts of the wanted columns in pieces.

    Args:
        argument: The option that names the table, for messages.
        path: The file or frame.
        wanted: The names of the columns.
        numbers: The number of columns, at the end of ``wanted``, that may hold numbers.
        missing: An empty field is an empty text; by default it is an error.
    """
    table = table_of(argument, path)
    if isinstance(table, Frame) or _is_parquet(argument, table):
        return _arrow_pieces(argument, table, wanted, numbers, missing)
    return _csv_pieces(argument, table, wanted, missing)


def _coded_pieces(
    argument: str, path: Table, wanted: tuple[str, ...], *, numbers: int = 0
) -> Iterator[tuple[tuple[Codes, Sequence[str]], ...]]:
    """Yields the texts of the wanted columns in pieces, each as codes and the different texts that they stand for.

    A column has far fewer different texts than lines, so that Parquet files take no Python object for each line.
    """
    table = table_of(argument, path)
    if isinstance(table, Frame) or _is_parquet(argument, table):
        arrow = require("pyarrow", "a Parquet file", extra="tables")
        with contextlib.nullcontext(table.table) if isinstance(table, Frame) else _parquet(argument, table) as found:
            yield from _batches_of(arrow, argument, table, found, wanted, numbers, _coded)
        return
    for piece in _csv_pieces(argument, table, wanted, missing=False):
        coded = []
        for texts in piece:
            known = dict.fromkeys(texts)
            places = {text: i for i, text in enumerate(known)}
            coded.append((np.fromiter(map(places.__getitem__, texts), np.int32, len(texts)), list(known)))
        yield tuple(coded)


def _coded(argument: str, path: object, name: str, values: Any, before: int) -> tuple[Codes, Sequence[str]]:
    """Returns a column of a batch as codes and texts; an empty field is refused."""
    encoded = values if hasattr(values, "dictionary") else values.dictionary_encode(null_encoding="encode")
    texts = ["" if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    codes = np.asarray(encoded.indices.fill_null(len(texts)), dtype=np.int32)
    texts.append("")
    empty = np.array([text == "" for text in texts])[codes]
    if empty.any():
        _refuse_empty(argument, path, name, before + int(np.argmax(empty)))
    return codes, texts[:-1]


def _refuse_empty(argument: str, path: object, name: str, row: int) -> NoReturn:
    raise InvalidArgumentError(argument, path, f"has no {name!r} in record {row + 1}", "leave such records out")


def _is_parquet(argument: str, path: str) -> bool:
    try:
        with opened(path) as file:
            return file.read(len(_PARQUET)) == _PARQUET
    except UnreadableFileError as error:
        raise error.about(argument, path, _WAY_OUT) from None


def _place(argument: str, path: object, header: Sequence[str], column: str) -> int:
    # The message does not show the first line: without column names it is a private record.
    if header.count(column) != 1:
        times = "no column" if column not in header else "more than one column"
        raise InvalidArgumentError(argument, path, f"has {times} {column!r}", "name a column of its first line")
    return header.index(column)


@contextlib.contextmanager
def _opened(argument: str, path: str) -> Iterator[TextIO]:
    try:
        with opened_text(path) as file:
            yield file
    except UnreadableFileError as error:
        raise error.about(argument, path, _WAY_OUT) from None


def _delimiter(path: str) -> str:
    return "\t" if path.endswith(".tsv") else ","


def _header(argument: str, path: str, lines: Any) -> list[str]:
    try:
        return list(next(lines, []))
    except (csv.Error, UnicodeDecodeError):
        raise InvalidArgumentError(argument, path, "is not a CSV file in UTF-8", _WAY_OUT) from None


def _csv_pieces(argument: str, path: str, wanted: tuple[str, ...], missing: bool) -> Iterator[Fields]:
    with _opened(argument, path) as file:
        lines = csv.reader(file, delimiter=_delimiter(path), strict=True)
        header = _header(argument, path, lines)
        at = [_place(argument, path, header, column) for column in wanted]
        while True:
            try:
                rows = list(itertools.islice(lines, _ROWS))
            except (csv.Error, UnicodeDecodeError):
                raise _csv_error(argument, path, header, () if missing else wanted) from None
            full = [row for row in rows if row]  # without empty lines
            if set(map(len, full)) - {len(header)}:
                raise _csv_error(argument, path, header, () if missing else wanted)
            piece = tuple([row[i] for row in full] for i in at)
            if not missing and any("" in texts for texts in piece):
                raise _csv_error(argument, path, header, () if missing else wanted)
            if full:
                yield piece
            if len(rows) < _ROWS:
                return


def _csv_error(argument: str, path: str, header: list[str], wanted: tuple[str, ...]) -> InvalidArgumentError:
    """Returns the error about the first bad line of a malformed file, which is read again."""
    needed = [header.index(column) for column in wanted]
    with _opened(argument, path) as file:
        lines = csv.reader(file, delimiter=_delimiter(path), strict=True)
        try:
            for line in lines:
                if line and len(line) != len(header):
                    reason = f"has {len(line)} fields in line {lines.line_num}, but {len(header)} in the first"
                    return InvalidArgumentError(argument, path, reason, "quote fields that hold the separator")
                missing = [header[i] for i in needed if line and line[i] == ""]
                if missing:
                    reason = f"has no {missing[0]!r} in line {lines.line_num}"
                    return InvalidArgumentError(argument, path, reason, "leave such lines out")
        except UnicodeDecodeError:
            reason = f"is not UTF-8 after line {lines.line_num}"
            return InvalidArgumentError(argument, path, reason, "save it as UTF-8")
        except csv.Error:
            pass
    reason = f"is not valid CSV in line {lines.line_num}"
    return InvalidArgumentError(argument, path, reason, "quote fields, and double the quotes in them")


@contextlib.contextmanager
def _parquet(argument: str, path: str) -> Iterator[Any]:
    try:
        with opened_parquet(path) as found:
            yield found
    except UnreadableFileError as error:
        raise error.about(argument, path, "write it again") from None


def _arrow_pieces(
    argument: str, path: str | Frame, wanted: tuple[str, ...], numbers: int, missing: bool
) -> Iterator[Fields]:
    arrow = require("pyarrow", "a Parquet file", extra="tables")
    with contextlib.nullcontext(path.table) if isinstance(path, Frame) else _parquet(argument, path) as table:
        yield from _pieces_of(arrow, argument, path, table, wanted, numbers, missing)


def _pieces_of(
    arrow: Any, argument: str, path: str | Frame, table: Any, wanted: tuple[str, ...], numbers: int, missing: bool
) -> Iterator[Fields]:
    def texts_of(argument: str, path: object, name: str, values: Any, before: int) -> Sequence[str]:
        texts = ["" if value is None else str(value) for value in values.to_pylist()]
        empty = None if missing else next((i for i, text in enumerate(texts) if text == ""), None)
        if empty is not None:
            _refuse_empty(argument, path, name, before + empty)
        return texts

    yield from _batches_of(arrow, argument, path, table, wanted, numbers, texts_of)


def _batches_of(
    arrow: Any,
    argument: str,
    path: str | Frame,
    table: Any,
    wanted: tuple[str, ...],
    numbers: int,
    read: Callable[[str, object, str, Any, int], T],
) -> Iterator[tuple[T, ...]]:
    """Yields what ``read`` makes of each wanted column of each batch of rows."""
    schema = table.schema if isinstance(path, Frame) else table.schema_arrow
    header = [str(each) for each in schema.names]
    for i, column in enumerate(wanted):
        kind = schema.types[_place(argument, path, header, column)]
        if not _readable(arrow.types, kind, number=i >= len(wanted) - numbers):
            reason = f"has a column {column!r} of the type {kind}"
            raise InvalidArgumentError(argument, path, reason, "store it as text or as whole numbers")
    rows, size = 0, _CODED_ROWS if read is _coded else _ROWS
    try:
        if isinstance(path, Frame):
            batches = table.select(list(wanted)).to_batches(max_chunksize=size)
        else:
            batches = table.iter_batches(batch_size=size, columns=list(wanted))
        for batch in batches:
            if len(batch):
                yield tuple(read(argument, path, name, batch.column(name), rows) for name in wanted)
            rows += len(batch)
    except HockeystickError:
        raise
    except Exception:  # as above
        raise InvalidArgumentError(argument, path, f"is damaged after record {rows}", "write it again") from None


def _readable(types: Any, kind: Any, *, number: bool) -> bool:
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    plain = text or types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind)
    return bool(plain or (number and types.is_floating(kind)))
