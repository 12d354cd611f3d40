"""Durable ledgers in a PostgreSQL database, for services on several machines that share a budget.

A charge is one transaction. It waits for the ledger's advisory lock, reads what the others appended, and inserts its
row while it moves the head on from the state that it read; if the head is another by then, nothing is stored. Triggers
refuse to change or remove a charge, and let the head only grow. The server writes the commit to disk before it answers
(``synchronous_commit``); a server that runs with ``fsync`` off is refused.

If the connection is lost while a charge is committed, nobody knows whether it was stored: that is an error, nothing is
drawn, and if it was stored, it counts.

``create`` makes the two tables, and two roles where it may: members of ``hockeystick_read`` may read every ledger of
the database, those of ``hockeystick_charge`` may charge as well. Grant them with ``GRANT hockeystick_charge TO name``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from attrs import asdict

from hockeystick.accounting.budgets.stores.rows import LedgerError, LedgerTimeoutError, Row, Snapshot
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.optional_packages import require

if TYPE_CHECKING:
    import psycopg

_LOCK = 0x686B736C  # first key of the advisory locks; the second is a hash of the ledger's name
_TABLES = """
CREATE TABLE IF NOT EXISTS hockeystick_ledger (name text PRIMARY KEY, header text NOT NULL, charges bigint NOT NULL,
  digest text NOT NULL);
CREATE TABLE IF NOT EXISTS hockeystick_charge (ledger text NOT NULL REFERENCES hockeystick_ledger (name),
  number bigint NOT NULL, text text NOT NULL, digest text NOT NULL, PRIMARY KEY (ledger, number));
CREATE OR REPLACE FUNCTION hockeystick_stay() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN RAISE EXCEPTION 'ledgers and their charges stay'; END $$;
CREATE OR REPLACE FUNCTION hockeystick_grow() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF NEW.name <> OLD.name OR NEW.header <> OLD.header OR NEW.charges <= OLD.charges THEN
      RAISE EXCEPTION 'a ledger only grows';
    END IF;
    RETURN NEW;
  END $$;
CREATE OR REPLACE TRIGGER hockeystick_charge_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON hockeystick_charge
  FOR EACH STATEMENT EXECUTE FUNCTION hockeystick_stay();
CREATE OR REPLACE TRIGGER hockeystick_ledger_stays BEFORE DELETE OR TRUNCATE ON hockeystick_ledger
  FOR EACH STATEMENT EXECUTE FUNCTION hockeystick_stay();
CREATE OR REPLACE TRIGGER hockeystick_ledger_grows BEFORE UPDATE ON hockeystick_ledger
  FOR EACH ROW EXECUTE FUNCTION hockeystick_grow();
"""
_ROLES = """
DO $$ BEGIN CREATE ROLE hockeystick_read NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE hockeystick_charge NOLOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT SELECT ON hockeystick_ledger, hockeystick_charge TO hockeystick_read, hockeystick_charge;
GRANT INSERT ON hockeystick_charge TO hockeystick_charge;
GRANT UPDATE (charges, digest) ON hockeystick_ledger TO hockeystick_charge;
"""
_HEAD = """
SELECT header, charges, digest,
  (SELECT c.digest FROM hockeystick_charge c WHERE c.ledger = h.name AND c.number = %s)
FROM hockeystick_ledger h WHERE name = %s
"""
_ROWS = "SELECT number, text, digest FROM hockeystick_charge WHERE ledger = %s AND number > %s ORDER BY number"
# The row goes in together with the new head, or not at all.
_GROW = """
WITH grown AS (
  UPDATE hockeystick_ledger SET charges = %(number)s, digest = %(digest)s
  WHERE name = %(name)s AND charges = %(charges)s AND digest = %(from)s RETURNING name
)
INSERT INTO hockeystick_charge SELECT name, %(number)s, %(text)s, %(digest)s FROM grown
"""
_HOLDER = """
SELECT a.pid, a.usename, a.application_name, coalesce(host(a.client_addr), 'this machine')
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s::bigint AND l.objsubid = 2
"""

_inherited: list[object] = []


class PostgresDatabase:
    """One ledger in a PostgreSQL database. See :class:`.rows.Store`."""

    def __init__(self, url: str, name: str, *, timeout: float) -> None:
        self._url, self._name, self._timeout = url, name, timeout
        self._connection: Any = None
        self._process = os.getpid()

    def __del__(self) -> None:
        self._leave()

    @classmethod
    def at(cls, url: str, *, timeout: float) -> PostgresDatabase:
        """Returns the store at a URL, whose parameter ``ledger`` names the ledger; it does not connect yet.

        Raises:
          MissingExtraError: psycopg is not installed.
          InvalidArgumentError: it is not such a URL.
        """
        psycopg = require("psycopg", "A ledger in PostgreSQL", extra="postgres")
        try:
            parts = urlsplit(url)
            _ = parts.port  # refuses what is not a number
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            names = [value for key, value in query if key == "ledger"]
            rest = urlencode([(key, value) for key, value in query if key != "ledger"])
            plain = urlunsplit(parts._replace(query=rest))
            psycopg.conninfo.conninfo_to_dict(plain)
        except (ValueError, psycopg.Error):
            # The URL is not shown: it may hold a password.
            raise InvalidArgumentError(
                "place", "postgresql://...", "is not a URL of PostgreSQL", "give postgresql://user@host/database"
            ) from None
        if len(names) > 1 or "" in names or "\0" in "".join(names):
            raise InvalidArgumentError("ledger", ", ".join(names), "is not the name of one ledger", "give one name")
        return cls(plain, names[0] if names else "ledger", timeout=timeout)

    @property
    def place(self) -> str:
        parts = urlsplit(self._url)
        return f"postgresql://{parts.hostname or ''}{parts.path}?ledger={self._name}"

    def create(self, header: str, digest: str, rows: list[Row]) -> None:
        import psycopg

        with self._transaction("made") as db:
            db.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCK,))  # two makers of the tables take turns
            db.execute(_TABLES)
            with suppress(psycopg.errors.InsufficientPrivilege), db.transaction():
                db.execute(_ROLES)
            last = rows[-1].digest if rows else digest
            made = db.execute(
                "INSERT INTO hockeystick_ledger VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (self._name, header, len(rows), last),
            )
            if made.rowcount != 1:
                raise LedgerError(f"{self.place} exists: open it, or choose another name (?ledger=NAME)")
            with db.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO hockeystick_charge VALUES (%s, %s, %s, %s)",
                    [(self._name, row.number, row.text, row.digest) for row in rows],
                )

    def read(self, known: int) -> Snapshot:
        with self._transaction("read", "ISOLATION LEVEL REPEATABLE READ READ ONLY") as db:
            return self._snapshot(db, known)

    def append(self, known: int, charge: Callable[[Snapshot], Row]) -> None:
        with self._transaction("charged") as db:
            before = self._snapshot(db, known, locked=True)
            row = charge(before)
            at = {"name": self._name, "charges": before.charges, "from": before.digest}
            grown = db.execute(_GROW, at | asdict(row))
            if grown.rowcount != 1:
                raise LedgerError(f"{self.place}: another program changed the ledger in between; nothing was charged")

    def problems(self) -> list[str]:
        return []  # the server checks its own pages; the digests check what it returns

    def _snapshot(self, db: psycopg.Connection[Any], known: int, *, locked: bool = False) -> Snapshot:
        """Returns the state; if ``locked``, nobody else can change it before the transaction ends.

        All statements are sent at once, so that this takes one exchange with the server.
        """
        import psycopg

        try:
            with db.pipeline() if psycopg.Pipeline.is_supported() else nullcontext():
                if locked:
                    db.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (_LOCK, self._name))
                one = db.execute(_HEAD, (known, self._name))
                more = db.execute(_ROWS, (self._name, known))
                head, rows = one.fetchone(), more.fetchall()
        except psycopg.errors.UndefinedTable:
            head = None
        if head is None:
            raise LedgerError(f"{self.place}: no such ledger; make one first")
        header, charges, digest, last = head
        return Snapshot(header, charges, digest, tuple(Row(*row) for row in rows), last)

    @contextmanager
    def _transaction(
        self, done: str, mode: str = "ISOLATION LEVEL READ COMMITTED"
    ) -> Iterator[psycopg.Connection[Any]]:
        """Yields a connection in a transaction, which is committed at the end, or undone by an exception."""
        import psycopg

        db = self._begun(mode)
        try:
            yield db
        except psycopg.errors.LockNotAvailable:
            holder = self._holder()
            raise LedgerTimeoutError(
                f"{self.place}: {holder} has kept the ledger for {self._timeout:g} s; nothing was {done}: end it, or "
                "wait for longer (timeout=)"
            ) from None
        except psycopg.Error as error:
            raise LedgerError(f"{self.place}: nothing was {done} ({_words(error)})") from None
        else:
            try:
                db.execute("COMMIT")
            except psycopg.Error as error:
                self._leave()
                raise LedgerError(
                    f"{self.place}: whether it was {done} is not known ({_words(error)}); nothing may be drawn"
                ) from None
        finally:
            self._undo(db)

    def _begun(self, mode: str) -> psycopg.Connection[Any]:
        """Begins a transaction; a connection that was lost since the last one is replaced, once."""
        import psycopg

        for attempt in range(2):
            fresh = self._connection is None or self._connection.closed or self._process != os.getpid()
            try:
                if fresh:
                    self._connect()
                db: psycopg.Connection[Any] = self._connection
                db.execute(f"BEGIN {mode}")
                return db
            except psycopg.Error as error:
                self._leave()
                if fresh or attempt:
                    raise LedgerError(
                        f"{self.place} can't be reached ({_words(error)}); nothing may be drawn"
                    ) from None
        raise AssertionError("unreachable")

    def _connect(self) -> None:
        import psycopg

        if self._connection is not None and self._process != os.getpid():
            _inherited.append(self._connection)  # by a fork: to close it would end the parent's
        self._connection, self._process = None, os.getpid()
        wait = max(1, round(self._timeout * 1000))
        db = psycopg.connect(
            self._url,
            autocommit=True,  # transactions are begun and ended by hand
            connect_timeout=max(2, round(self._timeout)),
            application_name=f"hockeystick ledger, process {os.getpid()}",
        )
        self._connection = db
        db.execute(f"SET lock_timeout = {wait}")
        db.execute(f"SET idle_in_transaction_session_timeout = {max(wait, 1000)}")  # of a process that was stopped
        db.execute("SET synchronous_commit = on")
        if db.execute("SHOW fsync").fetchone() != ("on",):
            raise LedgerError(f"{self.place}: the server runs with fsync off, and may lose charges: switch it on")

    def _holder(self) -> str:
        import psycopg

        with suppress(psycopg.Error):
            with psycopg.connect(self._url, autocommit=True, connect_timeout=5) as db:
                (key,) = db.execute("SELECT hashtext(%s)", (self._name,)).fetchone() or (0,)
                found = db.execute(_HOLDER, (_LOCK, key % 2**32)).fetchone()
            if found is not None:
                return f"server process {found[0]} (user {found[1]}, {found[2] or 'no name'}, from {found[3]})"
        return "another process"

    def _undo(self, db: psycopg.Connection[Any]) -> None:
        import psycopg

        if db.closed or db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            return
        try:
            db.execute("ROLLBACK")
        except psycopg.Error:
            self._leave()

    def _leave(self) -> None:
        db, self._connection = self._connection, None
        if db is not None and self._process == os.getpid():
            with suppress(Exception):
                db.close()


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
