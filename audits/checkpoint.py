"""What is kept of a long audit while it runs, so that an interrupted one goes on where it was.

One file holds the samples for choosing, once they are complete, and of those for bounding the counts so far and which
calls they came from. An audit is told from another by what it is asked to do (:func:`digest`), and by the name that the
caller gives the target's version. Without one, and for the statistic, that the code is the same is the caller's word:
outputs of two versions must not be mixed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import time
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from hockeystick.accounting import InvalidArgumentError

from .cells import IntArray
from .outputs import Codebook, Table
from .sampling import known_seed

_SCHEMA = 1
_SECONDS = 5.0  # between two writes


def digest(*asked: object) -> str:
    """Returns a name of what an audit is asked to do; the same for equal values.

    Raises:
      InvalidArgumentError: a data set, or a domain of them, can't be pickled.
    """
    try:
        return hashlib.sha256(pickle.dumps(asked, protocol=5)).hexdigest()
    except Exception as error:
        raise InvalidArgumentError(
            "checkpoint", type(error).__name__, f"needs data that can be pickled ({error})", "leave it out"
        ) from None


@define
class Checkpoint:
    """A file that an audit goes on from.

    Attributes:
      path: of the file; written anew, whole, each time.
      asked: :func:`digest` of the audit.
      seed: of its random numbers.
      total: outputs from each data set; 0 until it is known.
      tables: samples for choosing; None until they are complete.
      bounded: numbers of the calls for bounding that were counted, and their counts, an array (sides, cells) per event.
        One value, so that no interruption comes between the two.
    """

    path: Path
    asked: str
    seed: int
    total: int = 0
    pace: float = float("inf")
    simple: bool = True
    book: Codebook = field(factory=Codebook)
    tables: tuple[Table, Table] | None = None
    bounded: tuple[frozenset[int], list[IntArray]] = field(factory=lambda: (frozenset(), []))
    _written: float = field(default=0.0, init=False)

    @classmethod
    def at(cls, path: str | os.PathLike[str], asked: str, seed: int | None) -> Checkpoint:
        """Returns what a file holds; an empty checkpoint if there is none.

        Args:
          seed: of the audit; None to take the file's, or a new one.

        Raises:
          InvalidArgumentError: the file is no checkpoint, or of another audit or seed.
        """
        where = Path(path)
        try:
            with where.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                plain = json.loads(str(stored["plain"]))
                arrays = {name: stored[name] for name in stored.files if name != "plain"}
        except FileNotFoundError:
            return cls(where, asked, known_seed(None) if seed is None else seed)
        except (OSError, EOFError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
            raise InvalidArgumentError("checkpoint", str(path), f"is no checkpoint ({error})", "move it away") from None
        if plain.get("schema") != _SCHEMA:
            raise InvalidArgumentError("checkpoint", str(path), "is of another version", "move it away")
        if plain["asked"] != asked or seed not in (None, plain["seed"]):
            raise InvalidArgumentError(
                "checkpoint",
                str(path),
                "is of another audit",
                "give the same target, arguments and seed, or another file",
            )
        found = cls(where, asked, plain["seed"], plain["total"], plain["pace"], plain["simple"])
        for key, kinds in plain["layouts"]:
            found.book.code(_tuples(key), tuple(kinds))
        found.book.closed = True
        found.tables = _table(arrays, 0), _table(arrays, 1)
        counts = [arrays[f"counts{i}"] for i in range(plain["events"])]
        found.bounded = frozenset(arrays["counted"].tolist()), counts
        return found

    def keep_tables(self, total: int, book: Codebook, pace: float, simple: bool, tables: tuple[Table, Table]) -> None:
        """Keeps the samples for choosing."""
        self.total, self.book, self.pace, self.simple, self.tables = total, book, pace, simple, tables
        self.write()

    def counts(self, runs: Mapping[int, int], nothing: list[IntArray]) -> tuple[frozenset[int], list[IntArray]]:
        """Returns which calls were counted, and their counts.

        Args:
          runs: of each call for bounding, by its number.
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
        """Keeps the counts so far, with ``calls`` among those that they came from; writes every few seconds.

        The arrays must not be changed afterwards.
        """
        self.bounded = self.bounded[0].union(calls), counts
        if time.monotonic() - self._written > _SECONDS:
            self.write()

    def write(self) -> None:
        """Writes the file, whole or not at all. Outputs of unusual types are not kept: they will be drawn again."""
        if self.tables is None:
            return
        counted, counts = self.bounded
        layouts = [[_lists(layout.key), list(layout.kinds)] for layout in self.book.layouts]
        plain: dict[str, Any] = {
            "schema": _SCHEMA,
            "asked": self.asked,
            "seed": self.seed,
            "total": self.total,
            "pace": self.pace,
            "simple": self.simple,
            "events": len(counts),
            "layouts": layouts,
        }
        try:
            text = json.dumps(plain, allow_nan=False)
            if [_tuples(key) for key, _ in json.loads(text)["layouts"]] != [one.key for one in self.book.layouts]:
                return
        except (TypeError, ValueError):
            return
        arrays: dict[str, Any] = {"plain": np.array(text), "counted": np.array(sorted(counted), dtype=np.int64)}
        for side, table in enumerate(self.tables):
            arrays[f"runs{side}"] = np.array(table.runs)
            arrays[f"codes{side}"] = np.asarray(table.codes)
            arrays |= {f"block{side}-{code}": block for code, block in table.blocks.items()}
        arrays |= {f"counts{i}": count for i, count in enumerate(counts)}
        part = self.path.with_name(self.path.name + ".part")
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        self._written = time.monotonic()

    def remove(self) -> None:
        """Removes the file: the audit is over."""
        self.path.unlink(missing_ok=True)


def _table(arrays: dict[str, Any], side: int) -> Table:
    codes = arrays[f"codes{side}"]
    prefix = f"block{side}-"
    blocks = {int(name.removeprefix(prefix)): block for name, block in arrays.items() if name.startswith(prefix)}
    return Table(int(arrays[f"runs{side}"]), int(codes) if codes.ndim == 0 else codes, blocks)


def _lists(value: Any) -> Any:
    """Returns JSON's words for a layout's key: tuples become lists; what JSON would change is refused by the caller."""
    return [_lists(part) for part in value] if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value
