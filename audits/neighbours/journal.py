"""The journal of a search for neighbours in a file, from which an interrupted search resumes.

The next pairs of a search depend on its seed and on the scores so far only. So the file, a SQLite database
(:mod:`hockeystick.accounting.files.records`), has one record for each rating of a pair (a "look"), by number. A resumed
search reads the looks instead of repeating them, and continues after the last one. Outputs are not stored: if a pair is
rated again, its earlier outputs are drawn again, with the same generators. The audits after a search add their
verdicts.

The head has the digest of the arguments (:func:`hockeystick.audits.drawing.checkpoint.digest`) and the seed. Looks are
written every fifth of a second, and whenever the search ends or stops; those that a kill loses are repeated. As for
:class:`hockeystick.audits.drawing.checkpoint.Checkpoint`, the target's code is not checked.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import deque
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.files.reading import json_value
from hockeystick.accounting.files.records import RecordFile, Records
from hockeystick.accounting.files.result_files import check_writable
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.drawing.checkpoint import TIMEOUT, kind, unusable
from hockeystick.audits.drawing.digests import content_digest
from hockeystick.audits.targets.calling import known_seed
from hockeystick.audits.verdicts.verdict import Verdict

KIND = kind("journal", 0x686B736A)  # "hksj"
_HEAD = "head"  # the record with the arguments; the others are looks and verdicts, by number
_SECONDS = 0.2  # between two writes


@frozen(kw_only=True)
class Look:
    """One rating of a pair.

    Attributes:
      pair: number of the pair in the search.
      mark: checksum of its data sets; see :func:`mark`.
      size: planned number of outputs from each data set.
      drawn: actual number of outputs, which is smaller if the target raised.
      score, event: the rating; see :class:`hockeystick.audits.neighbours.search.RatedPair`.
      error: the target's error; "" if it did not raise.
    """

    pair: int
    mark: int
    size: int
    drawn: int
    score: float = 0.0
    event: str = ""
    error: str = ""


def _look(*, pair: Any, mark: Any, size: Any, drawn: Any, score: Any, event: Any, error: Any) -> Look:
    """Returns a look from a file; raises any exception if the values are invalid."""
    if not (isinstance(event, str) and isinstance(error, str)):
        raise TypeError("not a string")
    numbers = {"pair": pair, "mark": mark, "size": size, "drawn": drawn}
    whole = {name: integer(name, value, low=0) for name, value in numbers.items()}
    return Look(**whole, score=real("score", score), event=event, error=error)


def mark(data: Any) -> int:
    """Returns a checksum of a pair, by which a search detects that it makes other pairs; 0 if it has no parts."""
    try:
        return int(content_digest(data)[:8], 16)
    except Exception:  # user-defined data may raise anything
        return 0


@define
class Journal:
    """A file from which a search resumes.

    Attributes:
      path: path of the file.
      key: :func:`hockeystick.audits.drawing.checkpoint.digest` of the search and its audits.
      seed: seed of the search.
      left: looks of an earlier run that were not used yet.
      verdicts: verdicts of the finished audits, by the number of the finalist.
    """

    path: Path
    key: str
    seed: int
    left: deque[Look] = field(factory=deque)
    verdicts: dict[int, Verdict] = field(factory=dict)
    _looks: int = field(default=0, init=False)
    _unwritten: Records = field(factory=dict, init=False)
    _written: float = field(default=-math.inf, init=False)

    @classmethod
    @unchained()
    def at(cls, path: str | os.PathLike[str], key: str, seed: int | None) -> Journal:
        """Returns the journal in a file, which is created if it does not exist.

        Args:
          path: path of the file.
          key: digest of the arguments of the search and its audits.
          seed: seed of the search; None for the file's seed, or else a fresh one.

        Raises:
          InvalidArgumentError: the file is not a journal, belongs to another search or seed, or can't be read or
            written.
        """
        where = check_writable("checkpoint", path)
        file = RecordFile(where, KIND, timeout=TIMEOUT)
        try:
            if not where.exists() or (where.is_file() and not where.stat().st_size):
                known = known_seed(None) if seed is None else seed
                file.ensure({_HEAD: json.dumps({"asked": key, "seed": known}).encode()})
            records = file.read()
            head = json_value(records.pop(_HEAD).decode())
            if head["asked"] != key or seed not in (None, head["seed"]):
                remedy = "give the same target, arguments and seed, or another file"
                raise InvalidArgumentError("checkpoint", str(path), "is of another search", remedy)
            found = cls(where, key, integer("seed", head["seed"], low=0))
            for name in sorted(records):
                what, _, number = name.partition(" ")
                plain = json_value(records[name].decode())
                if what == "verdict":
                    found.verdicts[integer("finalist", int(number), low=0)] = Verdict.from_dict(plain)
                else:
                    found.left.append(_look(**plain))
            found._looks = len(found.left)
        except InvalidArgumentError as error:
            if error.argument == "checkpoint":
                raise
            reason = f"is not a checkpoint ({error.argument} {error.reason})"
            raise InvalidArgumentError("checkpoint", str(path), reason, "move it away") from None
        except Exception as error:  # a file with other contents may raise anything
            raise unusable(where, error) from None
        return found

    def next(self, pair: int, marked: int, size: int) -> Look | None:
        """Returns the next look of the earlier run; None if there is none left.

        Raises:
          InvalidArgumentError: it is a look at another pair.
        """
        if not self.left:
            return None
        found = self.left.popleft()
        if (found.pair, found.mark, found.size) != (pair, marked, size):
            raise InvalidArgumentError(
                "checkpoint", str(self.path), "does not fit: the domain or the library has changed", "move it away"
            )
        return found

    def keep(self, look: Look) -> None:
        """Adds a look, which is written within a fifth of a second, with the looks in between."""
        self._looks += 1
        self._unwritten[f"look {self._looks:09}"] = json.dumps(attrs.asdict(look), allow_nan=False).encode()
        if time.monotonic() - self._written > _SECONDS:
            self.flush()

    def keep_verdict(self, finalist: int, verdict: Verdict) -> None:
        """Adds the verdict of an audit."""
        self.verdicts[finalist] = verdict
        self._unwritten[f"verdict {finalist}"] = json.dumps(verdict.to_dict(), allow_nan=False).encode()
        self.flush()

    def flush(self) -> None:
        """Writes what was added; when it returns, that is on disk.

        Raises:
          CheckpointError: it could not be stored; the file is unchanged.
        """
        if self._unwritten:
            RecordFile(self.path, KIND, timeout=TIMEOUT).put(self._unwritten)
            self._unwritten.clear()
        self._written = time.monotonic()

    def remove(self) -> None:
        """Removes the file at the end of the search and its audits."""
        self.path.unlink(missing_ok=True)
