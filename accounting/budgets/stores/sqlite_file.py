"""A durable ledger in one SQLite file: see :mod:`hockeystick.accounting.files.sqlite_file`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from hockeystick.accounting.budgets.stores.rows import LedgerError, LedgerTimeoutError, Row, Snapshot
from hockeystick.accounting.budgets.stores.text_file import IMPORT
from hockeystick.accounting.files.sqlite_file import Kind, SQLiteFile

_TABLES = """
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), header TEXT NOT NULL, charges INTEGER NOT NULL,
  digest TEXT NOT NULL);
CREATE TABLE charge (number INTEGER PRIMARY KEY, text TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TRIGGER charge_kept BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'charges stay'); END;
CREATE TRIGGER charge_fixed BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'charges stay'); END;
"""


KIND = Kind(
    noun="ledger",
    application=0x686B736C,  # "hksl"
    schema=2,  # 1 was a text file
    tables=_TABLES,
    error=LedgerError,
    timeout=LedgerTimeoutError,
    done="charged",
    then="nothing may be drawn",
    earlier=(b'{"digest": ',),
    remedy=IMPORT,
)


class LedgerFile:
    """One ledger in one file. See :class:`.rows.Store`."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._file = SQLiteFile(path, KIND, timeout=timeout)

    @property
    def place(self) -> str:
        return str(self._file.path)

    def create(self, header: str, digest: str, rows: list[Row]) -> None:
        def fill(db: sqlite3.Connection) -> None:
            last = rows[-1].digest if rows else digest
            db.execute("INSERT INTO head VALUES (1, ?, ?, ?)", (header, len(rows), last))
            db.executemany("INSERT INTO charge VALUES (?, ?, ?)", [(r.number, r.text, r.digest) for r in rows])

        self._file.create(fill)

    def read(self, known: int) -> Snapshot:
        return self._file.read(lambda db: _snapshot(db, known))

    def append(self, known: int, charge: Callable[[Snapshot], Row]) -> None:
        def work(db: sqlite3.Connection) -> None:
            row = charge(_snapshot(db, known))
            db.execute("INSERT INTO charge VALUES (?, ?, ?)", (row.number, row.text, row.digest))
            db.execute("UPDATE head SET charges = ?, digest = ?", (row.number, row.digest))

        self._file.change(work)

    def problems(self) -> list[str]:
        return self._file.problems()


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
