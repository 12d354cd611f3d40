"""A ledger on disk, for real spending: a crash leaves a charge, never a release that was not charged.

The order is reserve → append and fsync → draw → publish. The noise is drawn only after the charge is on disk, so a
failure in between costs budget and reveals nothing. Processes that share a ledger take turns by a file lock
(``filelock``), read what the others appended, and so can't overspend together.

The file is text, one JSON object a line. The first line holds the filter, which never changes; each further line one
charge. Every line carries a SHA-256 of itself and of the digest before, so an edited, lost or repeated line is refused.
What the chain can't show is a file cut off after a complete line, or replaced by an older copy: keep ``Receipt.digest``
elsewhere where that matters, or the file where nobody rewrites it.

A last line without its end was never followed by an fsync that succeeded, hence never by a draw, and is dropped at the
next charge. A complete last line counts as spent, whether or not its fsync was reached.

It is as durable as the file system's own fsync and lock: keep it on a local disk, not on a network share.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import frozen
from filelock import FileLock

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from hockeystick.accounting.budgets.renyi_filter import RDPFilter
from hockeystick.accounting.errors import GraphError, HockeystickError, InvalidArgumentError
from hockeystick.accounting.events import event_json
from hockeystick.accounting.events.basic.event import PrivacyEvent

SCHEMA_VERSION = 1

T = TypeVar("T")

_FILTERS: dict[str, type[PrivacyFilter]] = {cls.__name__: cls for cls in (PureFilter, ZCDPFilter, RDPFilter, GDPFilter)}


class LedgerError(HockeystickError):
    """The error of a ledger whose file cannot be trusted or could not be written; nothing was drawn."""


@frozen
class Receipt:
    """The record of a charge that is on disk. See ``DurableLedger.reserve``.

    Attributes:
      number: 1 for the first charge of the ledger.
      digest: the SHA-256 digest of the ledger up to and including this charge, in hexadecimal.
    """

    number: int
    digest: str


class DurableLedger:
    """A privacy filter and all its charges, in a file that processes may share; made by ``create`` or ``open``.

    Example:
      >>> import tempfile
      >>> from hockeystick.accounting import Gaussian
      >>> folder = tempfile.TemporaryDirectory()
      >>> ledger = DurableLedger.create(folder.name + "/people.ledger", GDPFilter.for_target(1.0, 1e-6))
      >>> ledger.spend(Gaussian(8.0), lambda: "a noisy mean", note="mean")
      'a noisy mean'
      >>> ledger.would_exceed(Gaussian(4.0))
      True
      >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()  # one lock, whichever way the file is named
        self._lock = FileLock(f"{self._path}.lock")
        self._file_id: tuple[int, int] | None = None
        self._end, self._digest, self._charges = 0, "", 0
        self._filter: PrivacyFilter | None = None
        self._broken = ""

    @classmethod
    def create(cls, path: str | os.PathLike[str], budget: PrivacyFilter) -> DurableLedger:
        """Writes a new ledger with a filter of which nothing is spent, and returns it.

        Raises:
          LedgerError: the file exists.
          InvalidArgumentError: ``budget`` is not a filter, or something was spent from it.
        """
        if type(budget) not in _FILTERS.values():
            raise InvalidArgumentError("budget", budget, "is not a filter", f"give one of {', '.join(_FILTERS)}")
        if budget != _fresh(budget):
            raise InvalidArgumentError("budget", budget, "was spent from already", "give a fresh filter")
        ledger = cls(path)
        line, _ = _line({"schema_version": SCHEMA_VERSION, "filter": _filter_to_json(budget)}, "")
        with ledger._turn():
            if ledger._path.exists():
                raise LedgerError(f"{ledger._path} exists: open it, or choose another name")
            draft = ledger._path.with_name(ledger._path.name + ".new")
            with draft.open("wb") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, ledger._path)
            _sync_folder(ledger._path.parent)
            ledger._catch_up()
        return ledger

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> DurableLedger:
        """Reads a ledger and checks all of it.

        Raises:
          LedgerError: there is no such file, or a line was changed or lost, or is not a charge of this schema.
        """
        ledger = cls(path)
        with ledger._opened("rb"):  # before the lock, whose file would be left beside a name that was mistyped
            pass
        with ledger._turn():
            ledger._catch_up()
            _sync_folder(ledger._path.parent)  # its maker may not have come so far
        return ledger

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of the data, as the first line has it; it never changes."""
        return self.budget().adjacency

    def budget(self) -> PrivacyFilter:
        """Returns the filter after all charges on disk, those of other processes included."""
        with self._turn():
            return self._catch_up()

    def would_exceed(self, event: PrivacyEvent, *, count: int = 1) -> bool:
        """Says whether the event no longer fits; another process may spend the rest before ``reserve`` does."""
        return self.budget().would_exceed(event, count=count)

    def reserve(self, event: PrivacyEvent, *, count: int = 1, note: str = "") -> Receipt:
        """Charges ``count`` times ``event``; when it returns the charge is on disk, and the noise may be drawn.

        Args:
          note: what it is for, kept in the file. It must not tell anything of the data.

        Raises:
          BudgetExceededError: no room; nothing was charged.
          LedgerError: the file is damaged or could not be written; a charge may remain, nothing may be drawn.
          UnsupportedEventError: an event class of the user's own, which a file can't name.
          UnsupportedAdjacencyError, InvalidArgumentError: see ``PrivacyFilter.after``.
        """
        if not isinstance(note, str):
            raise InvalidArgumentError("note", note, "is not a string")
        with self._turn():
            after = self._catch_up().after(event, count=count)
            number = self._charges + 1
            charge = {"number": number, "event": event_json.event_to_json(event), "count": int(count), "note": note}
            line, digest = _line(charge, self._digest)
            self._append(line)
            self._end, self._digest, self._charges, self._filter = self._end + len(line), digest, number, after
            return Receipt(number, digest)

    def spend(self, event: PrivacyEvent, draw: Callable[[], T], *, count: int = 1, note: str = "") -> T:
        """Charges as ``reserve`` does, then draws: returns ``draw()``. If that fails, the charge stays.

        Raises:
          what ``reserve`` and ``draw`` raise.
        """
        self.reserve(event, count=count, note=note)
        return draw()

    def _turn(self) -> AbstractContextManager[object]:
        """Waits for the lock, held for as long as the ``with`` block lasts."""
        return self._lock.acquire(poll_interval=0.01)

    def _append(self, line: bytes) -> None:
        try:
            with self._opened("rb+") as file:
                file.truncate(self._end)  # what a crash left of a line
                file.seek(self._end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            # Whether the line will survive is not known: a later success of fsync would not say so either.
            self._broken = f"{self._path}: a charge could not be written ({error}): nothing may be drawn; open it anew"
            raise LedgerError(self._broken) from error

    def _catch_up(self) -> PrivacyFilter:
        """Reads and checks the lines that were appended since the last read; the lock is held."""
        if self._broken:
            raise LedgerError(self._broken)
        with self._opened("rb") as file:
            status = os.fstat(file.fileno())
            identity = (status.st_dev, status.st_ino)
            if self._file_id not in (None, identity) or status.st_size < self._end:
                raise LedgerError(f"{self._path}: the file was cut off or replaced while in use")
            self._file_id = identity
            file.seek(self._end)
            *lines, _ = file.read().split(b"\n")  # text after the last end of line is not yet a line
            for line in lines:
                self._take(line + b"\n")
        if self._filter is None:
            raise LedgerError(f"{self._path}: it has no first line, so nothing was ever charged: create it anew")
        return self._filter

    def _take(self, line: bytes) -> None:
        where = f"{self._path}: line {self._charges + 1 + (self._filter is not None)}"
        try:
            body, digest = _body(line, self._digest)
            if self._filter is None:
                event_json.check_keys(body, {"schema_version", "filter"}, {"schema_version", "filter"}, "first line")
                if body["schema_version"] != SCHEMA_VERSION:
                    raise GraphError(f"schema_version {body['schema_version']!r} is not {SCHEMA_VERSION}")
                self._filter = _filter_from_json(body["filter"])
            else:
                keys = {"number", "event", "count", "note"}
                event_json.check_keys(body, keys, keys, "charge")
                if body["number"] != self._charges + 1 or not isinstance(body["note"], str):
                    raise GraphError(f"expected charge {self._charges + 1} with a note")
                event = _event(json.dumps(body["event"]))
                self._filter = self._filter.after(event, count=validate.integer("count", body["count"], low=1))
                self._charges += 1
        except BudgetExceededError as error:
            raise LedgerError(f"{where}: the charges are above the budget ({error})") from None
        except (HockeystickError, ValueError, RecursionError) as error:
            raise LedgerError(f"{where} is damaged: {error}") from None
        self._digest, self._end = digest, self._end + len(line)

    @contextmanager
    def _opened(self, mode: str) -> Iterator[Any]:
        try:
            file = self._path.open(mode)
        except FileNotFoundError:
            raise LedgerError(f"{self._path}: no such ledger; use DurableLedger.create") from None
        except OSError as error:
            raise LedgerError(f"{self._path}: can't be opened ({error.strerror}): give a ledger's file") from error
        with file:
            yield file


def _line(body: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """The line of ``body`` after the line with digest ``previous``, and its own digest."""
    text = json.dumps(body, allow_nan=False)
    digest = hashlib.sha256((previous + text).encode()).hexdigest()
    return json.dumps({"digest": digest, **body}).encode() + b"\n", digest


def _body(line: bytes, previous: str) -> tuple[dict[str, Any], str]:
    """The body and the digest of a line, which must be byte for byte what ``_line`` makes of that body."""
    body = dict(event_json.mapping(json.loads(line), "line"))
    body.pop("digest", None)
    expected, digest = _line(body, previous)
    if line != expected:
        raise GraphError("it does not follow from the lines before it")
    return body, digest


@lru_cache(maxsize=4096)
def _event(text: str) -> PrivacyEvent:
    return event_json.event_from_json(json.loads(text))


def _fields(cls: type[PrivacyFilter]) -> list[str]:
    return [attribute.name for attribute in attrs.fields(cls) if not attribute.name.startswith("_")]


def _fresh(budget: PrivacyFilter) -> PrivacyFilter:
    return type(budget)(**{name: getattr(budget, name) for name in _fields(type(budget))})


def _filter_to_json(budget: PrivacyFilter) -> dict[str, Any]:
    values = {name: getattr(budget, name) for name in _fields(type(budget))}
    return {"type": type(budget).__name__, **values, "adjacency": budget.adjacency.value}


def _filter_from_json(data: object) -> PrivacyFilter:
    given = dict(event_json.mapping(data, "filter"))
    name = given.pop("type", None)
    cls = _FILTERS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise GraphError(f"unknown filter {name!r}; known are {', '.join(_FILTERS)}")
    event_json.check_keys(given, set(_fields(cls)), set(_fields(cls)), "filter")
    given["adjacency"] = Adjacency(given["adjacency"])
    return cls(**given)


def _sync_folder(folder: Path) -> None:
    """Makes a new name in ``folder`` survive a crash; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
