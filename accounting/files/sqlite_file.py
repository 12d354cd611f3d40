"""One SQLite file that several processes share and no crash spoils: the storage of ledgers, evidence and checkpoints.

Every change is one transaction, with ``synchronous=EXTRA``: when it returns, the content is on disk, and so is the
removal of the rollback journal. (After FULL a loss of power may bring the journal back, and with it the earlier state.)
Every call opens the file anew, so a fork leaves no connection behind, and a file that was deleted or replaced is
noticed. The lock is SQLite's own, on the file itself. A file with other tables, views or triggers than its kind has is
refused before any of them is used.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from hockeystick.accounting.files.result_files import sync_folder

T = TypeVar("T")

DAMAGE = sqlite3.Error, UnicodeError, OverflowError
"""What SQLite raises about a damaged file; the last two for texts and numbers that were changed."""

_CREATE = "BEGIN EXCLUSIVE"
_PAUSE = 0.002  # seconds between two attempts, at least

_forking = threading.RLock()  # no fork while a thread is inside SQLite, whose locks a child would never get
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forking.release)


@frozen
class Kind:
    """The purpose of a file, and its words.

    Attributes:
      noun: its name in messages, as in "ledger".
      application, schema: the numbers in SQLite's header.
      tables: the statements that make its tables, each ending with ";" at the end of a line.
      error, timeout: the errors, made from a text; ``timeout`` where another process kept the file for too long.
      done, then: what a change is, and the consequence of an error, as in "charged" and "nothing may be drawn".
      earlier: the first bytes of files of an earlier version.
      remedy: what to do with such a file, with {path} for its place.
    """

    noun: str
    application: int
    schema: int
    tables: str
    error: Callable[[str], Exception]
    timeout: Callable[[str], Exception]
    done: str
    then: str
    earlier: tuple[bytes, ...]
    remedy: str


class SQLiteFile:
    """A file of one kind. One thread at a time calls it; a forked process may go on with it.

    All methods raise the errors of the kind, and what their callbacks raise.
    """

    def __init__(self, path: Path, kind: Kind, *, timeout: float) -> None:
        self.path, self.kind, self._timeout = path, kind, timeout
        self._file: tuple[int, int] | None = None

    def create(self, fill: Callable[[sqlite3.Connection], object]) -> None:
        """Makes the file, which must not exist, with its tables and what ``fill`` inserts, in one step."""
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise self.kind.error(f"{self.path} exists: open it, or choose another name") from None
        except OSError as error:
            raise self.kind.error(f"{self.path} can't be made ({error.strerror}): nothing was written") from None
        os.close(handle)
        try:
            with self._transaction("rw", _CREATE) as db:
                self._fill(db, fill)
            sync_folder(self.path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
            raise

    def ensure(self, fill: Callable[[sqlite3.Connection], object]) -> None:
        """As ``create``, unless another process made the file already; an empty file is filled."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666))
        except OSError as error:
            raise self.kind.error(f"{self.path} can't be made ({error.strerror}): nothing was written") from None
        with self._transaction("rw", _CREATE) as db:
            if not _number(db, "application_id") and not _number(db, "user_version") and not _parts(db):
                self._fill(db, fill)
            else:
                self._check_kind(db)
        sync_folder(self.path.parent)

    def read(self, look: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what ``look`` reads in one transaction. It needs no right to write."""
        late: type[BaseException] = type(self.kind.timeout(""))
        error: type[BaseException] = type(self.kind.error(""))
        try:
            with self._transaction("ro", "BEGIN") as db:
                return look(db)
        except late:
            raise
        except error:
            if not os.access(self.path, os.W_OK):
                raise
        with self._transaction("rw", "BEGIN") as db:  # what a crash left is put in order first
            return look(db)

    def change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what ``work`` does in one transaction; other processes wait until it is on disk.

        If ``work`` raises, nothing is stored. If this method raises, the change may be stored or not.
        """
        with self._transaction("rw", "BEGIN IMMEDIATE") as db:
            found = work(db)
        self._same_file()
        return found

    def problems(self) -> list[str]:
        """Returns what SQLite itself finds wrong with the file."""
        with self._transaction("ro", "BEGIN") as db:
            found = [str(line) for (line,) in db.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def _fill(self, db: sqlite3.Connection, fill: Callable[[sqlite3.Connection], object]) -> None:
        db.execute(f"PRAGMA application_id = {self.kind.application}")
        db.execute(f"PRAGMA user_version = {self.kind.schema}")
        for statement in self.kind.tables.split(";\n"):
            db.execute(statement)
        fill(db)

    @contextlib.contextmanager
    def _transaction(self, mode: str, begin: str) -> Iterator[sqlite3.Connection]:
        """Yields a connection inside a transaction, which is committed at the end, or undone by an exception."""
        db = self._begun(mode, begin)  # it leaves ``_forking`` held
        try:
            yield db
            self._patiently(lambda: db.execute("COMMIT"))
        except DAMAGE as error:
            raise self._unusable(error) from error
        finally:
            db.close()
            _forking.release()

    def _begun(self, mode: str, begin: str) -> sqlite3.Connection:
        end = time.monotonic() + self._timeout
        while True:
            _forking.acquire()
            db = None
            try:
                self._same_file()
                db = sqlite3.connect(
                    f"{self.path.as_uri()}?mode={mode}",
                    uri=True,
                    timeout=0.0,
                    isolation_level=None,
                    check_same_thread=False,
                )
                db.execute("PRAGMA synchronous = EXTRA")
                db.execute(begin)
                if begin != _CREATE:
                    self._check_kind(db)
                return db
            except BaseException as error:
                if db is not None:
                    db.close()
                refusal = self._unopened(error) if isinstance(error, DAMAGE) and not _busy(error) else None
                _forking.release()
                if refusal is not None:
                    raise refusal from error
                if not _busy(error):
                    raise
            self._wait(end)

    def _patiently(self, call: Callable[[], object]) -> None:
        """Repeats a call while other connections still read."""
        end = time.monotonic() + self._timeout
        while True:
            try:
                call()
                return
            except sqlite3.OperationalError as error:
                if not _busy(error):
                    raise
            self._wait(end)

    def _wait(self, end: float) -> None:
        if time.monotonic() > end:
            raise self.kind.timeout(
                f"{self.path}: {_holder(self.path)} has kept the {self.kind.noun} for {self._timeout:g} s; nothing was "
                f"{self.kind.done}: end that process, or wait for longer (timeout=)"
            )
        time.sleep(_PAUSE * (1 + time.perf_counter_ns() % 8))  # processes that wait fall out of step

    def _same_file(self) -> None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            raise self.kind.error(f"{self.path}: no such {self.kind.noun}; make one first") from None
        except OSError as error:
            raise self.kind.error(f"{self.path} can't be read ({error.strerror})") from None
        if not stat.S_ISREG(status.st_mode):
            raise self.kind.error(f"{self.path} is not a file: give the name of a file of a {self.kind.noun}")
        if self._file is None:
            self._file = (status.st_dev, status.st_ino)
        if self._file != (status.st_dev, status.st_ino):
            raise self.kind.error(f"{self.path}: the file was replaced while in use: open it anew")

    def _check_kind(self, db: sqlite3.Connection) -> None:
        schema = _number(db, "user_version")
        if _number(db, "application_id") != self.kind.application:
            raise self.kind.error(
                f"{self.path} is a database of another program, or nothing was ever written to it; {self.kind.then}"
            )
        if schema != self.kind.schema:
            raise self.kind.error(f"{self.path} has schema {schema}; this version reads {self.kind.schema}")
        if _parts(db) != _own_parts(self.kind.tables):
            raise sqlite3.DatabaseError("its tables are not those of this program")

    def _unusable(self, error: Exception) -> Exception:
        return self.kind.error(f"{self.path} can't be used ({error}); {self.kind.then}")

    def _unopened(self, error: Exception) -> Exception:
        """Says why the file could not be opened; no connection of this process may be inside a transaction.

        To close a file gives up all locks of the process on it.
        """
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            if file.read(64).startswith(self.kind.earlier):
                remedy = self.kind.remedy.format(path=self.path)
                return self.kind.error(f"{self.path} is a {self.kind.noun} of an earlier version: {remedy}")
        return self._unusable(error)


def _number(db: sqlite3.Connection, name: str) -> int:
    (found,) = db.execute(f"PRAGMA {name}").fetchone()
    return int(found)


def _parts(db: sqlite3.Connection) -> list[tuple[object, ...]]:
    return sorted(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master"), key=repr)


@lru_cache
def _own_parts(tables: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for statement in tables.split(";\n"):
            db.execute(statement)
        return _parts(db)


def _busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _holder(path: Path) -> str:
    """Returns the process that holds a lock on a file, in words, where Linux tells it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        inode = str(os.stat(path).st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] != "->" and fields[5].split(":")[2] == inode and int(fields[4]) > 0:
                command = Path(f"/proc/{fields[4]}/comm").read_text().strip()
                return f"process {fields[4]} ({command})"
    return "another process"
