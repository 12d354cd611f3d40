"""Queries on databases as targets: the neighbours are a database and its copy with rows inserted or deleted.

The database is opened for reading alone and copied into memory. Rows are inserted into and deleted from the copy, and
queries run there. So nothing that a query or a mistake does can reach the original.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.errors import Hidden, unchained
from hockeystick.accounting.optional_packages import require
from hockeystick.audits.systems.wire import without_data
from hockeystick.audits.targets.calling import TargetError

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by the name of their table; a row is a mapping from columns to values."""

_FORMS = "write duckdb:///FILE or sqlite:///FILE"


class SqlError(TargetError):
    """A database refused a query. The message has no value that may come from the data.

    See :class:`SqlQuery`.
    """


@frozen
class Database:
    """A data set of :class:`SqlQuery`: the database as it is stored, or with the rows inserted and deleted."""

    changed: bool


@frozen
class _Engine:
    """A kind of database.

    Attributes:
      copy: Returns a connection to a copy of a file in memory.
      seeded: Whether its random numbers can be seeded.
      same: The operator that compares a column with a value, of which both may be missing.
    """

    copy: Callable[[str], Any]
    seeded: bool
    same: str


@define(eq=False)
class _Copies:
    """The copies of a database that this process has made, by whether they are changed."""

    made: dict[bool, Any] = field(factory=dict)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Copies, ()  # another process makes its own

    def __del__(self) -> None:
        for database in self.made.values():
            database.close()


@frozen
class SqlQuery:
    """A query on a DuckDB or SQLite database as a target; it needs no server.

    The audit compares the database as it is stored (d0) with the database after rows were inserted and deleted (d1).
    One inserted or one deleted row is a neighbour under add-or-remove-one, one of each under replace-one.

    The database is opened for reading alone and copied into memory. Queries run in the copy, each in a transaction that
    is rolled back, and reach no file.

    DuckDB's random numbers are seeded, so an audit is repeatable. Those of SQLite can't be, and the verdict says so.

    An output is the result of the query: its value if it has one row and one column, a dictionary of values by column
    if it has one row, else a list of rows. Without ``ORDER BY`` the order of rows is part of the output.

    Attributes:
      url: ``duckdb:///FILE`` (extra ``sql``) or ``sqlite:///FILE``; an absolute path makes a fourth slash.
      query: the query with its noise, which is released.
      insert, delete: rows by table. A deleted row names some columns, and must be the only row with these values.

    Raises:
      InvalidArgumentError: there is no such file, the address has another form, or there is no row.
      MissingExtraError: a DuckDB database without the extra ``sql``.

    Example:
      >>> import os, sqlite3, tempfile
      >>> import hockeystick as hs
      >>> folder = tempfile.TemporaryDirectory()
      >>> file = os.path.join(folder.name, "people.db")
      >>> with sqlite3.connect(file) as made:
      ...     _ = made.execute("CREATE TABLE people (age INTEGER)")
      >>> made.close()
      >>> noisy = "SELECT count(*) + abs(random() % 3) FROM people"
      >>> target = hs.targets.SqlQuery(f"sqlite:///{file}", noisy, insert={"people": [{"age": 97}]})
      >>> hs.audit(target, claim=(1.0, 0.0), samples=1000, rng=1).outcome  # 0 is an output on d0 alone
      'refuted'
      >>> folder.cleanup()
    """

    url: str
    query: str
    insert: Rows = field(factory=dict, kw_only=True, repr=False, hash=False)
    delete: Rows = field(factory=dict, kw_only=True, repr=False, hash=False)
    _engine: _Engine = field(init=False, repr=False, eq=False)
    _file: str = field(init=False, repr=False, eq=False)
    _copies: _Copies = field(init=False, repr=False, eq=False, factory=_Copies)

    def __attrs_post_init__(self) -> None:
        kind, colon, rest = str(self.url).partition(":///")
        if kind not in _ENGINES or not colon or not rest:
            raise InvalidArgumentError("url", self.url, "is not the address of a file of DuckDB or SQLite", _FORMS)
        if not os.path.isfile(rest):
            raise InvalidArgumentError("url", self.url, "there is no such file", _FORMS)
        if not isinstance(self.query, str) or not self.query.strip():
            raise InvalidArgumentError("query", self.query, "is empty", "give a query that releases something")
        for name, tables in ("insert", self.insert), ("delete", self.delete):
            _check_rows(name, tables)
        if not self.inserted and not self.deleted:
            reason = "is missing: the two data sets would be equal"
            raise InvalidArgumentError("insert", None, reason, "give rows to insert or to delete")
        object.__setattr__(self, "_engine", _ENGINES[kind])
        object.__setattr__(self, "_file", rest)
        if kind == "duckdb":
            require("duckdb", "a DuckDB database", extra="sql")

    @property
    def inserted(self) -> int:
        """The number of inserted rows."""
        return sum(map(len, self.insert.values()))

    @property
    def deleted(self) -> int:
        """The number of deleted rows."""
        return sum(map(len, self.delete.values()))

    @property
    def repeatable(self) -> bool:
        """Whether the database's random numbers are seeded."""
        return self._engine.seeded

    def worst_case_neighbours(self) -> tuple[Database, Database]:
        """Returns the database as it is stored, and with the rows inserted and deleted."""
        return Database(False), Database(True)

    def simulate(self, value: object, rng: np.random.Generator, runs: int) -> list[Any]:
        """Returns the results of ``runs`` queries on one of :meth:`worst_case_neighbours`.

        Raises:
          InvalidArgumentError: ``value`` is another data set, or the database can't be read.
          InvalidDataError: a row can't be inserted, or not exactly one row is to be deleted.
          SqlError: the query is refused.
        """
        if not isinstance(value, Database):
            raise InvalidArgumentError(
                "value", Hidden.of(value), "is not a state of the database", "leave neighbours out"
            )
        database = self._copy(value.changed)
        if self._engine.seeded:
            database.execute("SELECT setseed(?)", [float(rng.uniform(-1.0, 1.0))]).fetchall()
        return [self._result(database) for _ in range(runs)]

    def _result(self, database: Any) -> Any:
        with unchained():
            try:
                database.execute("BEGIN TRANSACTION")
                found = database.execute(self.query)
                names = [column[0] for column in found.description or ()]
                rows = found.fetchall()
            except Exception as error:  # of either library
                raise SqlError(f"the database refused the query ({_in_words(error)})") from None
            finally:
                _roll_back(database)
            if not names:
                raise SqlError("the query has no result: give one that selects something")
            if len(rows) != 1:
                return [tuple(row) for row in rows]
            return rows[0][0] if len(names) == 1 else dict(zip(_distinct(names), rows[0], strict=True))

    def _copy(self, changed: bool) -> Any:
        if changed not in self._copies.made:
            with unchained():
                try:
                    database = self._engine.copy(self._file)
                except Exception as error:  # a damaged file, a lock, ...
                    reason = f"can't be read ({type(error).__name__})"
                    raise InvalidArgumentError("url", self.url, reason, "close other programs that use it") from None
                for tables, change in ((self.delete, self._delete), (self.insert, self._insert)) if changed else ():
                    for table, rows in tables.items():
                        for row in rows:
                            change(database, table, row)
                self._copies.made[changed] = database
        return self._copies.made[changed]

    def _insert(self, database: Any, table: str, row: Mapping[str, Any]) -> None:
        columns, places = ", ".join(map(_quoted, row)), ", ".join("?" * len(row))
        try:
            database.execute(
                f"INSERT INTO {_quoted(table)} ({columns}) VALUES ({places})", list(row.values())
            ).fetchall()
        except Exception as error:
            reason = f"is a row that the table {table!r} refuses ({type(error).__name__})"
            raise InvalidDataError("insert", dict(row), reason, "give the columns that the table needs") from None

    def _delete(self, database: Any, table: str, row: Mapping[str, Any]) -> None:
        where = " AND ".join(f"{_quoted(column)} {self._engine.same} ?" for column in row)
        try:
            values = list(row.values())
            ((found,),) = database.execute(f"SELECT count(*) FROM {_quoted(table)} WHERE {where}", values).fetchall()
            if found == 1:
                database.execute(f"DELETE FROM {_quoted(table)} WHERE {where}", values).fetchall()
                return
            reason = f"matches {found} rows of the table {table!r}"
        except Exception as error:
            reason = f"can't be deleted from the table {table!r} ({type(error).__name__})"
        raise InvalidDataError("delete", dict(row), reason, "give columns that name one row")


def _check_rows(name: str, tables: object) -> None:
    remedy = 'give {"table": [{"column": value}]}'
    if not isinstance(tables, Mapping):
        raise InvalidDataError(name, tables, "is not a mapping from tables to rows", remedy)
    for table, rows in tables.items():
        whole = isinstance(rows, Sequence) and all(isinstance(row, Mapping) and row for row in rows)
        if not isinstance(table, str) or not whole:
            raise InvalidDataError(name, rows, "is not a list of rows by column", remedy)


def _quoted(name: str) -> str:
    return '"' + str(name).replace('"', '""') + '"'


def _distinct(names: list[str]) -> list[str]:
    """Returns the names of columns, with a number behind those that come again."""
    return [name if name not in names[:i] else f"{name} ({i + 1})" for i, name in enumerate(names)]


def _in_words(error: Exception) -> str:
    """Returns an error of a database: its type, and the text without what may be data."""
    return f"{type(error).__name__}: {without_data(str(error).splitlines()[0] if str(error) else '')}"


def _roll_back(database: Any) -> None:
    try:
        database.execute("ROLLBACK")
    except Exception:  # the query has ended the transaction by itself
        return


def _duckdb_copy(file: str) -> Any:
    duckdb = require("duckdb", "a DuckDB database", extra="sql")
    database = duckdb.connect(":memory:", config={"threads": 1})  # with more threads a seed would not repeat
    database.execute(f"ATTACH '{file.replace(chr(39), 2 * chr(39))}' AS stored_database (READ_ONLY)")
    database.execute("COPY FROM DATABASE stored_database TO memory")
    database.execute("DETACH stored_database")
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


def _sqlite_copy(file: str) -> Any:
    database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    stored = sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)
    try:
        stored.backup(database)
    finally:
        stored.close()
    database.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )
    return database


_ENGINES = {
    "duckdb": _Engine(_duckdb_copy, seeded=True, same="IS NOT DISTINCT FROM"),
    "sqlite": _Engine(_sqlite_copy, seeded=False, same="IS"),
}
