"""Checkpoints: the state of a long audit in a file, from which an interrupted audit resumes.

The file, a SQLite database (:mod:`hockeystick.accounting.files.records`), holds the choosing samples once they are
complete, the counts of the bounding samples so far, and the numbers of the calls that they came from. A digest of the
audit's arguments (:func:`digest`) identifies the audit. It includes the name that the caller gives to the target's
version. The code of the target and of a statistic is not checked otherwise, and outputs of two versions must not be
mixed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.files.reading import json_value
from hockeystick.accounting.files.records import TABLES, RecordFile, Records, joined, split
from hockeystick.accounting.files.result_files import check_writable
from hockeystick.accounting.files.sqlite_file import Kind
from hockeystick.accounting.validate import array, integer, real
from hockeystick.audits.drawing.digests import content_digest
from hockeystick.audits.outputs.reading import Codebook, Table
from hockeystick.audits.targets.array_files import decoded, encoded
from hockeystick.audits.targets.calling import known_seed

_EARLIER = (b"PK\x03\x04", b'{"schema": ')  # an archive of arrays, and lines of JSON
_KINDS = frozenset({"f8", "f4", "f2", "i"})  # see ``outputs.Layout``
_SECONDS = 5.0  # between two writes


class CheckpointError(HockeystickError):
    """The error of a checkpoint that can't be used; what it held before is unchanged."""


def kind(noun: str, application: int) -> Kind:
    """Returns a kind of file for :class:`hockeystick.accounting.files.records.RecordFile`."""
    return Kind(
        noun=noun,
        application=application,
        schema=2,
        tables=TABLES,
        error=CheckpointError,
        timeout=CheckpointError,
        done="stored",
        then="it is not a checkpoint, or a damaged one",
        earlier=_EARLIER,
        remedy="finish it with that version, or move it away",
    )


KIND = kind("checkpoint", 0x686B7363)  # "hksc"
TIMEOUT = 30.0  # seconds to wait for another process


def unusable(path: Path, error: Exception) -> InvalidArgumentError:
    """Returns the error about the argument ``checkpoint`` that names a file."""
    reason = str(error).removeprefix(str(path)).lstrip(": ")
    if not isinstance(error, CheckpointError):
        reason = f"is not a checkpoint, or a damaged one ({type(error).__name__})"
    return InvalidArgumentError("checkpoint", str(path), reason, "move it away")


def digest(*arguments: object) -> str:
    """Returns a digest of an audit's arguments, which is the same for equal arguments.

    Raises:
      InvalidArgumentError: a data set, or a domain of them, can't be pickled.
    """
    try:
        return content_digest(*arguments)
    except Exception as error:  # a foreign class may raise anything
        raise InvalidArgumentError(
            "checkpoint", type(error).__name__, f"needs data that can be pickled ({error})", "leave it out"
        ) from None


@define
class Checkpoint:
    """A file from which an audit resumes.

    Attributes:
      path: path of the file.
      key: :func:`digest` of the audit.
      seed: seed of the audit.
      total: number of outputs from each data set; 0 until it is known.
      tables: the choosing samples; None until they are complete.
      bounded: numbers of the bounding calls that were counted, and their counts, one array (sides, cells) per event.
        One value, so that no interruption can separate the two.
    """

    path: Path
    key: str
    seed: int
    total: int = 0
    pace: float = float("inf")
    simple: bool = True
    book: Codebook = field(factory=Codebook)
    tables: tuple[Table, Table] | None = None
    bounded: tuple[frozenset[int], list[IntArray]] = field(factory=lambda: (frozenset(), []))
    _written: float = field(default=0.0, init=False)
    _stored: tuple[Table, Table] | None = field(default=None, init=False)

    @classmethod
    @unchained()
    def at(cls, path: str | os.PathLike[str], key: str, seed: int | None) -> Checkpoint:
        """Returns the checkpoint in a file; an empty one if the file does not exist.

        Args:
          path: path of the file.
          key: :func:`digest` of the audit.
          seed: seed of the audit; None for the file's seed, or else a fresh one.

        Raises:
          InvalidArgumentError: the file is not a checkpoint, belongs to another audit or seed, or can't be written.
        """
        where = check_writable("checkpoint", path)
        if not where.exists() or (where.is_file() and not where.stat().st_size):
            return cls(where, key, known_seed(None) if seed is None else seed)
        try:
            records = RecordFile(where, KIND, timeout=TIMEOUT).read()
            plain = json_value(records[_HEAD].decode()) | json_value(records[_PROGRESS].decode())
            saved = str(plain["asked"]), integer("seed", plain["seed"], low=0)
            arrays = {name: decoded(joined(name, records)) for name in plain["arrays"] + plain["counts"]}
            found = _decoded(cls(where, key, saved[1]), plain, arrays)
        except Exception as error:  # a file with other contents may raise anything
            raise unusable(where, error) from None
        if saved[0] != key or seed not in (None, saved[1]):
            remedy = "give the same target, arguments and seed, or another file"
            raise InvalidArgumentError("checkpoint", str(path), "is of another audit", remedy)
        return found

    def keep_tables(self, total: int, book: Codebook, pace: float, simple: bool, tables: tuple[Table, Table]) -> None:
        """Stores the choosing samples."""
        self.total, self.book, self.pace, self.simple, self.tables = total, book, pace, simple, tables
        self.write()

    def counts(self, runs: Mapping[int, int], nothing: list[IntArray]) -> tuple[frozenset[int], list[IntArray]]:
        """Returns the numbers of the counted calls, and their counts.

        Args:
          runs: runs of each bounding call, by its number.
          nothing: an array of zeros for each event.

        Raises:
          InvalidArgumentError: the counts are not those of these calls and events.
        """
        counted, counts = self.bounded
        if not counted:
            return counted, nothing
        drawn = sum(runs.get(number, 0) for number in counted)
        shapes = [count.shape for count in counts] == [count.shape for count in nothing]
        if not shapes or any((count.sum(axis=1) != drawn).any() for count in counts):
            raise InvalidArgumentError(
                "checkpoint", str(self.path), "does not fit: the target or the library has changed", "move it away"
            )
        return counted, counts

    def keep_counts(self, calls: Iterable[int], counts: list[IntArray]) -> None:
        """Stores the counts so far, which now include ``calls``; writes the file every few seconds.

        The arrays must not be changed afterwards.
        """
        self.bounded = self.bounded[0].union(calls), counts
        if time.monotonic() - self._written > _SECONDS:
            self.write()

    def write(self) -> None:
        """Stores the state in one step. Outputs of unusual types are not stored: a resumed audit draws them again.

        Raises:
          CheckpointError: it could not be stored; the file is unchanged.
        """
        if self.tables is None:
            return
        counted, counts = self.bounded
        arrays: dict[str, Any] = {"counted": np.array(sorted(counted), dtype=np.int64)}
        arrays |= {f"counts{i}": count for i, count in enumerate(counts)}
        progress = json.dumps({"events": len(counts), "counts": list(arrays)})
        records = {_PROGRESS: progress.encode()} | _split(arrays)
        file = RecordFile(self.path, KIND, timeout=TIMEOUT)
        if self._stored is not self.tables:
            head = self._head()
            if head is None:
                return
            file.ensure({})
            file.replace(head | records)
            self._stored = self.tables
        else:
            file.put(records)
        self._written = time.monotonic()

    def _head(self) -> Records | None:
        """Returns the records of the choosing samples; None if their layouts have no form in JSON."""
        assert self.tables is not None
        arrays: dict[str, Any] = {}
        for side, table in enumerate(self.tables):
            arrays[f"runs{side}"] = np.array(table.runs)
            arrays[f"codes{side}"] = np.asarray(table.codes)
            arrays |= {f"block{side}-{code}": block for code, block in table.blocks.items()}
        plain: dict[str, Any] = {
            "asked": self.key,
            "seed": self.seed,
            "total": self.total,
            "pace": self.pace,
            "simple": self.simple,
            "layouts": [[_lists(layout.key), list(layout.kinds)] for layout in self.book.layouts],
            "arrays": list(arrays),
        }
        try:
            text = json.dumps(plain, allow_nan=False)
            if [_tuples(key) for key, _ in json.loads(text)["layouts"]] != [one.key for one in self.book.layouts]:
                return None
        except (TypeError, ValueError):
            return None
        return {_HEAD: text.encode()} | _split(arrays)

    def remove(self) -> None:
        """Removes the file at the end of the audit."""
        self.path.unlink(missing_ok=True)
        self._stored = None


_HEAD, _PROGRESS = "head", "progress"  # records


def _split(arrays: dict[str, Any]) -> Records:
    return {part: piece for name, one in arrays.items() for part, piece in split(name, encoded(one)).items()}


def _decoded(empty: Checkpoint, plain: dict[str, Any], arrays: dict[str, Any]) -> Checkpoint:
    """Fills an empty checkpoint from the contents of a file; raises any exception if they are inconsistent."""
    empty.total = integer("total", plain["total"], low=0)
    empty.pace = real("pace", plain["pace"], low=0.0)
    empty.simple = plain["simple"]
    _require(isinstance(empty.simple, bool))
    for key, kinds in plain["layouts"]:
        _require(set(kinds) <= _KINDS)
        empty.book.code(_tuples(key), tuple(kinds))
    empty.book.closed = True
    empty.tables = _table(arrays, empty.book, 0), _table(arrays, empty.book, 1)
    counted = array("counted", arrays["counted"], ndim=1, low=0, dtype=np.int64)
    counts = [arrays[f"counts{i}"] for i in range(integer("events", plain["events"], low=0, high=len(arrays)))]
    _require(all(count.ndim == 2 and count.dtype.kind == "i" for count in counts))
    empty.bounded = frozenset(counted.tolist()), counts
    return empty


def _table(arrays: dict[str, Any], book: Codebook, side: int) -> Table:
    runs, codes = integer("runs", arrays[f"runs{side}"], low=0), arrays[f"codes{side}"]
    array("codes", codes, low=0, high=len(book.layouts) - 1)
    _require(codes.dtype.kind == "i" and codes.shape in ((), (runs,)))
    each = np.broadcast_to(codes, runs)
    prefix, blocks = f"block{side}-", {}
    for name in (name for name in arrays if name.startswith(prefix)):
        code, block = integer("code", int(name.removeprefix(prefix)), low=0, high=len(book.layouts) - 1), arrays[name]
        fits = block.shape == (int((each == code).sum()), len(book.layouts[code].kinds))
        _require(fits and block.dtype == np.float64)
        blocks[code] = block
    return Table(runs, int(codes) if codes.ndim == 0 else codes, blocks)


def _require(fits: bool) -> None:
    if not fits:
        raise ValueError("not as it was written")


def _lists(value: Any) -> Any:
    """Returns a layout's key with tuples as lists, for JSON; ``write`` refuses keys that JSON would change."""
    return [_lists(part) for part in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value
