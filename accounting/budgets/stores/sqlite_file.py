"""A durable ledger in one SQLite file.

Every charge is one transaction, with ``synchronous=EXTRA``: when it returns, the row is on disk, and so is the removal
of the rollback journal. (After FULL a loss of power may bring the journal back, and with it the state before the
charge.) Every call opens the file anew, so a fork leaves no connection behind, and a file that was deleted or replaced
is noticed. The lock is SQLite's own, on the file itself.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hockeystick.accounting.budgets.stores.rows import LedgerError, LedgerTimeoutError, Row, Snapshot

APPLICATION = 0x686B736C  # "hksl", in the header of the file
SCHEMA = 2  # 1 was a text file
_TABLES = """
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), header TEXT NOT NULL, charges INTEGER NOT NULL,
  digest TEXT NOT NULL);
CREATE TABLE charge (number INTEGER PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TRIGGER charge_kept BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'charges stay'); END;
CREATE TRIGGER charge_fixed BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'charges stay'); END;
"""
_CREATE = "BEGIN EXCLUSIVE"
_DAMAGE = sqlite3.Error, UnicodeError, OverflowError  # the last two for text and numbers that were changed
_PAUSE = 0.002  # seconds between two attempts, at least

_forking = threading.RLock()  # no fork while a thread is inside SQLite, whose locks a child would never get
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forking.acquire, after_in_parent=_forking.release, after_in_child=_forking.release)


class SQLiteFile:
    """One ledger in one file. See :class:`.rows.Store`."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._file: tuple[int, int] | None = None

    @property
    def place(self) -> str:
        return str(self._path)

    def create(self, header: str, digest: str, rows: list[Row]) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            raise LedgerError(f"{self._path} exists: open it, or choose another name") from None
        except OSError as error:
            raise LedgerError(f"{self._path} can't be made ({error.strerror}): nothing was written") from None
        os.close(handle)
        try:
            with self._transaction("rw", _CREATE) as db:
                db.execute(f"PRAGMA application_id = {APPLICATION}")
                db.execute(f"PRAGMA user_version = {SCHEMA}")
                for statement in _TABLES.split(";\n"):
                    db.execute(statement)
                last = rows[-1].digest if rows else digest
                db.execute("INSERT INTO head VALUES (1, ?, ?, ?)", (header, len(rows), last))
                db.executemany("INSERT INTO charge VALUES (?, ?, ?)", [(r.number, r.text, r.digest) for r in rows])
            sync_folder(self._path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            raise

    def read(self, known: int) -> Snapshot:
        try:
            with self._transaction("ro", "BEGIN") as db:
                return _snapshot(db, known)
        except LedgerTimeoutError:
            raise
        except LedgerError:
            if not os.access(self._path, os.W_OK):
                raise
        with self._transaction("rw", "BEGIN") as db:  # what a crash left is put in order first
            return _snapshot(db, known)

    def append(self, known: int, charge: Callable[[Snapshot], Row]) -> None:
        with self._transaction("rw", "BEGIN IMMEDIATE") as db:
            row = charge(_snapshot(db, known))
            db.execute("INSERT INTO charge VALUES (?, ?, ?)", (row.number, row.text, row.digest))
            db.execute("UPDATE head SET charges = ?, digest = ?", (row.number, row.digest))
        self._same_file()

    def problems(self) -> list[str]:
        with self._transaction("ro", "BEGIN") as db:
            found = [str(line) for (line,) in db.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    @contextlib.contextmanager
    def _transaction(self, mode: str, begin: str) -> Iterator[sqlite3.Connection]:
        """Yields a connection inside a transaction, which is committed at the end, or undone by an exception."""
        db = self._begun(mode, begin)  # it leaves ``_forking`` held
        try:
            yield db
            self._patiently(lambda: db.execute("COMMIT"))
        except _DAMAGE as error:
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
                    f"{self._path.as_uri()}?mode={mode}",
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
                refusal = self._unopened(error) if isinstance(error, _DAMAGE) and not _busy(error) else None
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
            raise LedgerTimeoutError(
                f"{self._path}: {_holder(self._path)} has kept the ledger for {self._timeout:g} s; nothing was "
                "charged: end that process, or wait for longer (timeout=)"
            )
        time.sleep(_PAUSE * (1 + time.perf_counter_ns() % 8))  # processes that wait fall out of step

    def _same_file(self) -> None:
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            raise LedgerError(f"{self._path}: no such ledger; make one first") from None
        except OSError as error:
            raise LedgerError(f"{self._path} can't be read ({error.strerror})") from None
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{self._path} is not a file: give the name of a ledger's file")
        if self._file is None:
            self._file = (status.st_dev, status.st_ino)
        if self._file != (status.st_dev, status.st_ino):
            raise LedgerError(f"{self._path}: the file was replaced while in use: open it anew")

    def _check_kind(self, db: sqlite3.Connection) -> None:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (schema,) = db.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise LedgerError(f"{self._path} is a database of another program, or nothing was ever written to it")
        if schema != SCHEMA:
            raise LedgerError(f"{self._path} has schema {schema}; this version reads {SCHEMA}")

    def _unusable(self, error: Exception) -> LedgerError:
        return LedgerError(f"{self._path} can't be used ({error}); nothing may be drawn")

    def _unopened(self, error: Exception) -> LedgerError:
        """Says why the file could not be opened; no connection of this process may be inside a transaction.

        To close a file gives up all locks of the process on it.
        """
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            if file.read(11) == b'{"digest": ':
                return LedgerError(
                    f"{self._path} is a ledger of an earlier version: "
                    f"hockeystick ledger import {self._path} NEW moves it to a new file"
                )
        return self._unusable(error)


def _snapshot(db: sqlite3.Connection, known: int) -> Snapshot:
    heads = db.execute("SELECT header, charges, digest FROM head").fetchall()
    rows = db.execute("SELECT number, text, digest FROM charge WHERE number > ? ORDER BY number", (known,)).fetchall()
    last = db.execute("SELECT digest FROM charge WHERE number = ?", (known,)).fetchone()
    if len(heads) != 1 or list(map(type, heads[0])) != [str, int, str]:
        raise sqlite3.DatabaseError("its head is damaged")
    if any(list(map(type, row)) != [int, str, str] for row in rows):  # SQLite itself holds no column to its type
        raise sqlite3.DatabaseError("a charge is damaged")
    header, charges, digest = heads[0]
    return Snapshot(header, charges, digest, tuple(Row(*row) for row in rows), last[0] if last else None)


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


def sync_folder(folder: Path) -> None:
    """Makes a new name in a folder survive a crash; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
