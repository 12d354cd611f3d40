"""What a search for neighbours has looked at, in a file, so that an interrupted search goes on where it was.

Which pairs a search looks at next depends on its seed and on the scores so far, and on nothing else. So the file holds
the looks, a line each, in their order: a search that goes on takes them from there as if it made them, and draws from
where they end. Outputs are not kept. A pair that is looked at once more has its earlier outputs drawn again, by the
generators that they came from. Audits of what was found add their verdicts.

The first line says what was asked for (:func:`hockeystick.audits.drawing.checkpoint.digest`) and the seed. A line that
was cut off is forgotten. Whether the target is the same is told as for
:class:`hockeystick.audits.drawing.checkpoint.Checkpoint`.
"""

from __future__ import annotations

import json
import os
import pickle
import zlib
from collections import deque
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.targets.calling import known_seed
from hockeystick.audits.verdicts.verdict import Verdict

_SCHEMA = 1


@frozen(kw_only=True)
class Look:
    """One look at a pair.

    Attributes:
      pair: its number in the search.
      mark: of its data sets, see :func:`mark`.
      size: outputs that were to be drawn from each data set.
      drawn: those that were; fewer than ``size`` if the target raised.
      score, event: what they said; see :class:`hockeystick.audits.neighbours.search.RatedPair`.
      error: of the target; empty if it did not raise.
    """

    pair: int
    mark: int
    size: int
    drawn: int
    score: float = 0.0
    event: str = ""
    error: str = ""


def _look(*, pair: Any, mark: Any, size: Any, drawn: Any, score: Any, event: Any, error: Any) -> Look:
    """A look from a file; raises anything where it is none."""
    if not (isinstance(event, str) and isinstance(error, str)):
        raise TypeError("no text")
    numbers = {"pair": pair, "mark": mark, "size": size, "drawn": drawn}
    whole = {name: integer(name, value, low=0) for name, value in numbers.items()}
    return Look(**whole, score=real("score", score), event=event, error=error)


def mark(data: Any) -> int:
    """Returns a number that tells whether a search still makes the pairs it made; 0 for data that can't be pickled."""
    try:
        return zlib.crc32(pickle.dumps(data, protocol=5))
    except Exception:  # data of the user's own kind
        return 0


@define
class Journal:
    """A file that a search goes on from.

    Attributes:
      path: of the file; every look is written at once.
      seed: of the search.
      left: looks of an earlier run that were not taken yet.
      verdicts: of the audits that are over, by the number of the finalist.
    """

    path: Path
    asked: str
    seed: int
    left: deque[Look] = field(factory=deque)
    verdicts: dict[int, Verdict] = field(factory=dict)

    @classmethod
    @unchained()
    def at(cls, path: str | os.PathLike[str], asked: str, seed: int | None) -> Journal:
        """Returns what a file holds; it is begun if there is none.

        Args:
          asked: :func:`hockeystick.audits.drawing.checkpoint.digest` of all that the search and its audits are asked to
            do.
          seed: of the search; None to take the file's, or a new one.

        Raises:
          InvalidArgumentError: the file is no journal, or of another search or seed, or can't be read or written.
        """
        where = Path(path)
        try:
            content = where.read_bytes() if where.exists() else b""
            lines = content.split(b"\n")
            whole = [json.loads(line) for line in lines[:-1]]  # behind the last line end is nothing, or half a line
            if not whole:
                if content:
                    raise ValueError("it does not end in a line")
                found = cls(where, asked, known_seed(None) if seed is None else seed)
                found._write({"schema": _SCHEMA, "asked": asked, "seed": found.seed})
                return found
            head, *rest = whole
            if head["schema"] != _SCHEMA:
                raise InvalidArgumentError("checkpoint", str(path), "is of another version", "move it away")
            if head["asked"] != asked or seed not in (None, head["seed"]):
                raise InvalidArgumentError(
                    "checkpoint",
                    str(path),
                    "is of another search",
                    "give the same target, arguments and seed, or another file",
                )
            found = cls(where, asked, integer("seed", head["seed"], low=0))
            for plain in rest:
                if "finalist" in plain:
                    found.verdicts[integer("finalist", plain["finalist"], low=0)] = Verdict.from_dict(plain["verdict"])
                else:
                    found.left.append(_look(**plain))
            if lines[-1]:
                os.truncate(where, len(content) - len(lines[-1]))
        except OSError as error:
            reason = f"can't be read or written ({error.strerror or error})"
            raise InvalidArgumentError("checkpoint", str(path), reason, "give another file") from None
        except InvalidArgumentError as error:
            if error.argument == "checkpoint":
                raise
            reason = f"is no checkpoint ({error.argument} {error.reason})"
            raise InvalidArgumentError("checkpoint", str(path), reason, "move it away") from None
        except Exception as error:  # whatever a file with something else in it leads to
            reason = f"is no checkpoint, or a damaged one ({type(error).__name__})"
            raise InvalidArgumentError("checkpoint", str(path), reason, "move it away") from None
        return found

    def next(self, pair: int, marked: int, size: int) -> Look | None:
        """Returns the look that an earlier run made here; None if it did not come so far.

        Raises:
          InvalidArgumentError: it looked at another pair.
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
        """Adds a look."""
        self._write(attrs.asdict(look))

    def keep_verdict(self, finalist: int, verdict: Verdict) -> None:
        """Adds the verdict of an audit."""
        self.verdicts[finalist] = verdict
        self._write({"finalist": finalist, "verdict": verdict.to_dict()})

    def remove(self) -> None:
        """Removes the file: the search, and what follows it, is over."""
        self.path.unlink(missing_ok=True)

    def _write(self, plain: dict[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(plain, allow_nan=False).encode() + b"\n")
