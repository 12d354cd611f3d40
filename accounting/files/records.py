"""Named records in one SQLite file, each with a digest: evidence, journals and checkpoints of audits.

The file's head has the number of records and the sum of their digests, so that a record that was changed, lost or put
back shows. The digests are against accidents: whoever can write the file can write digests that fit.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from hockeystick.accounting.files.sqlite_file import Kind, SQLiteFile

TABLES = """
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), records INTEGER NOT NULL, digests TEXT NOT NULL);
CREATE TABLE record (name TEXT PRIMARY KEY, content BLOB NOT NULL, digest TEXT NOT NULL);
"""
_MODULUS = 1 << 256
_LONGEST = 1 << 28  # bytes of one record; SQLite takes a billion

Records = dict[str, bytes]


class RecordFile:
    """A file of records. Its methods raise the errors of its kind, whose tables are ``TABLES``."""

    def __init__(self, path: Path, kind: Kind, *, timeout: float) -> None:
        self._file = SQLiteFile(path, kind, timeout=timeout)

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self._file.path

    def ensure(self, first: Mapping[str, bytes]) -> None:
        """Makes the file with its first records, unless there is one that is not empty."""

        def fill(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO head VALUES (1, 0, ?)", (f"{0:064x}",))
            _put(db, first)

        self._file.ensure(fill)

    def read(self) -> Records:
        """Returns all records in order of their names, after checking every digest. It needs no right to write."""
        return self._file.read(_all)

    def put(self, records: Mapping[str, bytes]) -> None:
        """Adds records, or replaces those of the same names, in one step."""
        self._file.change(lambda db: _put(db, records))

    def replace(self, records: Mapping[str, bytes]) -> None:
        """Stores these records in place of all that there are, in one step."""

        def replaced(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM record")
            db.execute("UPDATE head SET records = 0, digests = ?", (f"{0:064x}",))
            _put(db, records)

        self._file.change(replaced)

    def change(self, work: Callable[[Records], Mapping[str, bytes]]) -> None:
        """Stores what ``work`` makes of all records, in one step; other processes wait until it is on disk."""

        def changed(db: sqlite3.Connection) -> None:
            before = _all(db)
            _put(db, {name: text for name, text in work(before).items() if before.get(name) != text})

        self._file.change(changed)

    def problems(self) -> list[str]:
        """Returns what SQLite itself finds wrong with the file."""
        return self._file.problems()


def split(name: str, content: bytes) -> Records:
    """Returns records that hold a content of any length."""
    pieces = range(0, max(1, len(content)), _LONGEST)
    return {f"{name}.{i:04}": content[at : at + _LONGEST] for i, at in enumerate(pieces)}


def joined(name: str, records: Mapping[str, bytes]) -> bytes:
    """Returns the content that ``split`` made records of; empty without any."""
    return b"".join(records[one] for one in sorted(records) if one.rpartition(".")[0] == name)


def _all(db: sqlite3.Connection) -> Records:
    records, digests = _head(db)
    found: Records = {}
    total = 0
    for name, content, digest in db.execute("SELECT name, content, digest FROM record ORDER BY name"):
        if type(name) is not str or type(content) is not bytes or digest != _digest(name, content):
            raise sqlite3.DatabaseError("a record is damaged")
        found[name] = content
        total += int(digest, 16)
    if (len(found), total % _MODULUS) != (records, digests):
        raise sqlite3.DatabaseError("records were lost")
    return found


def _put(db: sqlite3.Connection, records: Mapping[str, bytes]) -> None:
    count, total = _head(db)
    for name, content in records.items():
        old = db.execute("SELECT digest FROM record WHERE name = ?", (name,)).fetchone()
        digest = _digest(name, content)
        db.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?)", (name, content, digest))
        count += old is None
        total += int(digest, 16) - (0 if old is None else int(old[0], 16))
    db.execute("UPDATE head SET records = ?, digests = ?", (count, f"{total % _MODULUS:064x}"))


def _head(db: sqlite3.Connection) -> tuple[int, int]:
    heads = db.execute("SELECT records, digests FROM head").fetchall()
    if len(heads) != 1 or list(map(type, heads[0])) != [int, str]:
        raise sqlite3.DatabaseError("its head is damaged")
    try:
        return heads[0][0], int(heads[0][1], 16)
    except ValueError:
        raise sqlite3.DatabaseError("its head is damaged") from None


def _digest(name: str, content: bytes) -> str:
    found = hashlib.sha256(f"{len(name)} {name} ".encode())
    found.update(content)
    return found.hexdigest()
