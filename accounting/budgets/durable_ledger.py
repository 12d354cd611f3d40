"""A ledger in a database, for real spending: a crash leaves a charge, never a release that was not charged.

The order is reserve → commit → draw → publish. The noise is drawn only after the charge is on disk, so a failure in
between costs budget and reveals nothing. Processes that share a ledger take turns, read what the others appended in the
same transaction, and so can't overspend together. If a commit fails, whether the charge was stored may be unknown; then
nothing is drawn, and if it was stored, it counts.

The database is a SQLite file, or PostgreSQL for services on several machines. Every row has a SHA-256 of itself and of
the row before, and the head has the number of rows and the digest of the last one. So an edited, lost or repeated row
is refused. What this can't show is a database that was replaced by an older copy, or written anew by somebody who knows
the format: keep ``Receipt.digest`` elsewhere where that matters.

It is as durable as the disk below: keep a SQLite file on a local one, not on a network share. Copy it with SQLite's own
tools, and not from inside a process that charges it: to close a file gives up the locks of the process.
"""

from __future__ import annotations

import datetime
import getpass
import itertools
import json
import os
import socket
import threading
import weakref
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from attrs import frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.budget_picture import budget_axes, spent_share
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from hockeystick.accounting.budgets.renyi_filter import RDPFilter
from hockeystick.accounting.budgets.sessions import Sessions, checked_run
from hockeystick.accounting.budgets.stores.rows import LedgerError, Row, Snapshot, Store, chained
from hockeystick.accounting.budgets.stores.sqlite_file import LedgerFile
from hockeystick.accounting.budgets.stores.text_file import moved_once, read_text_ledger
from hockeystick.accounting.errors import GraphError, HockeystickError, InvalidArgumentError
from hockeystick.accounting.events import event_json
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA_VERSION = 2

T = TypeVar("T")
Place = str | os.PathLike[str]

_FILTERS: dict[str, type[PrivacyFilter]] = {cls.__name__: cls for cls in (PureFilter, ZCDPFilter, RDPFilter, GDPFilter)}
_URLS = "postgresql://", "postgres://"


@frozen
class Receipt:
    """The record of a charge that is on disk. See ``DurableLedger.reserve``.

    Attributes:
      number: 1 for the first charge of the ledger.
      digest: the SHA-256 digest of the ledger up to and including this charge, in hexadecimal.
    """

    number: int
    digest: str


@frozen
class StoredCharge:
    """One charge of a durable ledger. See ``DurableLedger.charges``.

    Attributes:
      number: 1 for the first charge of the ledger.
      event: what was charged, ``count`` times.
      count: the number of times.
      note: what it was for.
      who: the user and machine, or the name, that charged.
      when: the time by that machine's clock, in UTC, as YYYY-MM-DDTHH:MM:SS+00:00. Nothing depends on it.
      digest: as in ``Receipt``.
      run: the run of a learner that was charged or continued; None for any other charge.
      session: the number of its session, 0 for the one that was charged; see ``DurableLedger.record_session``.
    """

    number: int
    event: PrivacyEvent
    count: int
    note: str
    who: str
    when: str
    digest: str
    run: str | None = None
    session: int = 0


class DurableLedger:
    """A privacy filter and all its charges, in a database that processes may share; made by ``create`` or ``open``.

    Threads may share one object, and a forked process may go on with it.

    Example:
      >>> import tempfile
      >>> from hockeystick.accounting import Gaussian
      >>> folder = tempfile.TemporaryDirectory()
      >>> ledger = DurableLedger.create(folder.name + "/budget.db", GDPFilter.for_target(1.0, 1e-6))
      >>> ledger.spend(Gaussian(8.0), lambda: "a noisy mean", note="mean")
      'a noisy mean'
      >>> ledger.would_exceed(Gaussian(4.0))
      True
      >>> [(charge.number, charge.note) for charge in ledger.charges()]
      [(1, 'mean')]
      >>> folder.cleanup()
    """

    def __init__(self, store: Store, who: str) -> None:
        self._store, self._who = store, who
        self._turn = threading.RLock()
        self._charges, self._digest, self._header = 0, "", ""  # as far as they were checked
        self._filter: PrivacyFilter | None = None
        self._sessions = Sessions()
        if hasattr(os, "register_at_fork"):
            _OPEN.add(self)

    @classmethod
    def create(
        cls, place: Place, budget: PrivacyFilter, *, who: str | None = None, timeout: float = 30.0
    ) -> DurableLedger:
        """Stores a new ledger with a filter of which nothing is spent, and returns it.

        Args:
          place: a file, or the URL of a PostgreSQL database; see :meth:`open`.
          budget: the filter.
          who, timeout: as in :meth:`open`.

        Raises:
          LedgerError: there is a ledger already, or it could not be stored.
          InvalidArgumentError: ``budget`` is not a filter, or something was spent from it.
        """
        if type(budget) not in _FILTERS.values():
            raise InvalidArgumentError("budget", budget, "is not a filter", f"give one of {', '.join(_FILTERS)}")
        if budget != _fresh(budget):
            raise InvalidArgumentError("budget", budget, "was spent from already", "give a fresh filter")
        ledger = cls(_store(place, timeout), _name(who))
        header = json.dumps({"schema_version": SCHEMA_VERSION, "filter": filter_to_json(budget)}, allow_nan=False)
        ledger._store.create(header, chained("", header), [])
        ledger.budget()
        return ledger

    @classmethod
    def open(cls, place: Place, *, who: str | None = None, timeout: float = 30.0) -> DurableLedger:
        """Reads a ledger and checks all of it. To read it needs no right to write.

        Args:
          place: a file, or ``postgresql://user@host/database`` (the extra ``postgres``), with ``?ledger=NAME`` for one
            of several ledgers in a database.
          who: a name for the charges made here; default: user and machine.
          timeout: seconds to wait for other processes, at least 0.

        Raises:
          LedgerError: there is no such ledger, or a row was changed or lost, or is not a charge of this schema.
          MissingExtraError: a URL without the extra ``postgres``.
          InvalidArgumentError: an argument is outside its domain.
        """
        ledger = cls(_store(place, timeout), _name(who))
        ledger.budget()
        return ledger

    @classmethod
    def import_text(cls, old: Place, place: Place, *, who: str | None = None, timeout: float = 30.0) -> DurableLedger:
        """Moves a ledger of an earlier version, a text file, to a new place, once: the old file gets another name.

        Args:
          old: the text file; it becomes ``OLD.imported``.
          place, who, timeout: as in :meth:`create`.

        Raises:
          LedgerError: the old file is damaged, or there is a ledger at the new place already; nothing was moved.
        """
        path, ledger = _path(old), cls(_store(place, timeout), _name(who))
        with moved_once(path, timeout=timeout):
            ledger._adopt(*read_text_ledger(path))
        return ledger

    def _adopt(self, plain: object, charges: list[dict[str, Any]]) -> None:
        header = json.dumps({"schema_version": SCHEMA_VERSION, "filter": plain}, allow_nan=False)
        rows: list[Row] = []
        digest = chained("", header)
        for body in charges:
            text = json.dumps({**body, "who": self._who, "when": _now()}, allow_nan=False)
            digest = chained(digest, text)
            rows.append(Row(body["number"], text, digest))
        whole = Snapshot(header, len(rows), digest, tuple(rows), None)
        self._take(whole)  # refuses what is not a charge, before anything is stored
        self._store.create(header, chained("", header), rows)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of the data, as the head has it; it never changes."""
        return self.budget().adjacency

    def budget(self) -> PrivacyFilter:
        """Returns the filter after all charges, those of other processes included."""
        with self._turn:
            return self._take(self._store.read(self._charges))

    def charges(self) -> tuple[StoredCharge, ...]:
        """Returns all charges in order, those of other processes included.

        Raises:
          LedgerError: the ledger is damaged or can't be read.
        """
        with self._turn:
            self.budget()
            rows = self._store.read(0).rows[: self._charges]
        return tuple(_charge(row) for row in rows)

    def plot(self, *, ax: Any = None) -> Axes:
        """Draws the share of the budget that was spent over time, and returns the axes of matplotlib.

        Times are those that the charging machines stated. Where one of them is before the time of an earlier charge,
        the earlier time is shown, so that the order of the charges is kept.

        Args:
          ax: axes to draw into; by default those of a new figure.

        Raises:
          MissingExtraError: matplotlib is not installed.
          LedgerError: the ledger is damaged or can't be read.

        Example:
          >>> import tempfile
          >>> from hockeystick.accounting import PureDP, PureFilter
          >>> folder = tempfile.TemporaryDirectory()
          >>> ledger = DurableLedger.create(folder.name + "/budget.db", PureFilter(2.0))
          >>> ledger.spend(PureDP(0.5), lambda: "a count", note="count")
          'a count'
          >>> ledger.plot().get_ylabel()
          'share of the budget'
          >>> folder.cleanup()
        """
        charges, budget = self.charges(), _fresh(self.budget())
        shares = [spent_share(budget)]
        for charge in charges:
            budget = budget.after(charge.event, count=charge.count)
            shares.append(spent_share(budget))
        times = [datetime.datetime.fromisoformat(charge.when) for charge in charges]
        return budget_axes(list(itertools.accumulate(times, max)), shares, [charge.note for charge in charges], ax)

    def verify(self) -> Receipt:
        """Reads all of it again, and checks the database, every digest and the sum; returns the last receipt.

        Raises:
          LedgerError: something does not hold.
        """
        with self._turn:
            found = self._store.problems()
            if found:
                raise LedgerError(f"{self._store.place}: the database finds {len(found)} faults: {found[0]}")
            self._charges, self._filter, self._sessions = 0, None, Sessions()
            self.budget()
            return Receipt(self._charges, self._digest)

    def would_exceed(self, event: PrivacyEvent, *, count: int = 1) -> bool:
        """Says whether the event no longer fits; another process may spend the rest before ``reserve`` does."""
        return self.budget().would_exceed(event, count=count)

    def reserve(self, event: PrivacyEvent, *, count: int = 1, note: str = "", run: str | None = None) -> Receipt:
        """Charges ``count`` times ``event``; when it returns the charge is on disk, and the noise may be drawn.

        Args:
          note: what it is for, kept in the ledger. It must not tell anything of the data.
          run: a new name for what is charged, if it may be continued from checkpoints; see :meth:`record_session`.

        Raises:
          BudgetExceededError: no room; nothing was charged.
          LedgerTimeoutError: another process kept the ledger for too long; nothing was charged.
          LedgerError: the ledger is damaged or could not be written; a charge may remain, nothing may be drawn.
          UnsupportedEventError: an event class of the user's own, which a ledger can't name.
          UnsupportedAdjacencyError, InvalidArgumentError: see ``PrivacyFilter.after``.
        """
        if not isinstance(note, str) or not _is_text(note):
            raise InvalidArgumentError("note", note, "is not a string of text")
        return self._append(event, count, note, {} if run is None else {"run": checked_run(run), "session": 0})

    def record_session(self, run: str, session: int) -> None:
        """Records that a session goes on with a run that was charged here; when it returns this is on disk.

        Each session of a run has the next number, so that only one can go on from the checkpoints of another.

        Args:
          run: its name, as it was charged.
          session: its number, 1 for the first one after that which was charged.

        Raises:
          LedgerError: the run was not charged here, or there was such a session.
          InvalidArgumentError: ``run`` is not a text, or ``session`` not a whole number >= 1.
        """
        number = validate.integer("session", session, low=1)
        self._append(NO_EVENT, 1, "a run that goes on", {"run": checked_run(run), "session": number})

    def _append(self, event: PrivacyEvent, count: int, note: str, more: dict[str, Any]) -> Receipt:
        receipt, after = Receipt(0, ""), None

        def charge(state: Snapshot) -> Row:
            nonlocal receipt, after
            after = self._take(state).after(event, count=count)
            if more:
                self._sessions.check(**more)
            body = {
                "number": self._charges + 1,
                "event": event_json.event_to_json(event),
                "count": int(count),
                "note": note,
                "who": self._who,
                "when": _now(),
                **more,
            }
            text = json.dumps(body, allow_nan=False)
            receipt = Receipt(self._charges + 1, chained(self._digest, text))
            return Row(receipt.number, text, receipt.digest)

        with self._turn:
            self._store.append(self._charges, charge)
            self._charges, self._digest, self._filter = receipt.number, receipt.digest, after
            if more:
                self._sessions.record(**more)
        return receipt

    def spend(
        self,
        event: PrivacyEvent,
        draw: Callable[[], T],
        *,
        count: int = 1,
        note: str = "",
        run: str | None = None,
    ) -> T:
        """Charges as ``reserve`` does, then draws: returns ``draw()``. If that fails, the charge stays.

        Raises:
          what ``reserve`` and ``draw`` raise.
        """
        self.reserve(event, count=count, note=note, run=run)
        return draw()

    def _take(self, state: Snapshot) -> PrivacyFilter:
        """Checks a state of the store against what is known, and follows it."""
        where = self._store.place
        if self._filter is None:
            self._filter, self._header = _budget(state.header, where), state.header
            self._charges, self._digest, self._sessions = 0, chained("", state.header), Sessions()
        elif state.header != self._header or state.charges < self._charges:
            raise LedgerError(f"{where}: the ledger was cut off or replaced while in use: open it anew")
        elif self._charges and state.known_digest != self._digest:
            raise LedgerError(f"{where}: charge {self._charges} was changed or lost while in use")
        number, digest, budget, sessions = self._charges, self._digest, self._filter, self._sessions.later()
        for row in state.rows:
            number += 1
            at = f"{where}: charge {number}"
            digest = chained(digest, row.text)
            if row.number != number or row.digest != digest:
                raise LedgerError(f"{at} is damaged: it does not follow from those before it")
            stored = _charge(row, at)
            try:
                budget = budget.after(stored.event, count=stored.count)
                if stored.run is not None:
                    sessions.record(stored.run, stored.session)
            except BudgetExceededError as error:
                raise LedgerError(f"{at}: the charges are above the budget ({error})") from None
            except HockeystickError as error:
                raise LedgerError(f"{at} is damaged: {error}") from None
        if (state.charges, state.digest) != (number, digest):
            raise LedgerError(
                f"{where}: damaged: it has {number} charges where the head says {state.charges}, or others"
            )
        self._charges, self._digest, self._filter = number, digest, budget
        self._sessions.take(sessions)
        return budget


_OPEN: weakref.WeakSet[DurableLedger] = weakref.WeakSet()


def _after_fork() -> None:
    for ledger in _OPEN:
        ledger._turn = threading.RLock()  # a thread that held it does not exist here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _store(place: Place, timeout: float) -> Store:
    timeout = validate.real("timeout", timeout, low=0.0)
    if isinstance(place, str) and place.startswith(_URLS):
        from hockeystick.accounting.budgets.stores.postgres import PostgresDatabase

        return PostgresDatabase.at(place, timeout=timeout)
    return LedgerFile(_path(place), timeout=timeout)


def _path(place: Place) -> Path:
    """Returns the file of a name: one path, whichever way it is named."""
    name = os.fspath(place) if isinstance(place, (str, os.PathLike)) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError("place", place, "is not the name of a file", "give a path or a postgresql:// URL")
    if "://" in name:
        raise InvalidArgumentError("place", place, "is a URL of an unknown kind", "give a path or a postgresql:// URL")
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError) as error:  # a loop of links
        raise LedgerError(f"{name} can't be found ({error})") from None


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _name(who: str | None) -> str:
    if who is None:
        try:
            return f"{getpass.getuser()}@{socket.gethostname()}"
        except (OSError, KeyError):  # a user without a name
            return f"user {os.getuid() if hasattr(os, 'getuid') else ''}@{socket.gethostname()}"
    if not isinstance(who, str) or not who or not _is_text(who):
        raise InvalidArgumentError("who", who, "is not a name", "give a non-empty string of printable text")
    return who


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _budget(header: str, where: str) -> PrivacyFilter:
    try:
        plain = event_json.mapping(json.loads(header), "head")
        event_json.check_keys(plain, {"schema_version", "filter"}, {"schema_version", "filter"}, "head")
        if plain["schema_version"] != SCHEMA_VERSION:
            raise GraphError(f"schema_version {plain['schema_version']!r} is not {SCHEMA_VERSION}")
        return filter_from_json(plain["filter"])
    except (HockeystickError, ValueError, RecursionError) as error:
        raise LedgerError(f"{where}: its head is damaged: {error}") from None


def _charge(row: Row, at: str = "") -> StoredCharge:
    keys = {"number", "event", "count", "note", "who", "when"}
    try:
        plain = event_json.mapping(json.loads(row.text), "charge")
        known = keys | {"run", "session"} if "run" in plain else keys
        event_json.check_keys(plain, known, known, "charge")
        if plain["number"] != row.number or not all(isinstance(plain[name], str) for name in ("note", "who", "when")):
            raise GraphError(f"expected charge {row.number} with a note, who and when")
        event = _event(json.dumps(plain["event"]))
        count = validate.integer("count", plain["count"], low=1)
        run = checked_run(plain["run"]) if "run" in plain else None
        session = validate.integer("session", plain.get("session", 0), low=0)
    except (HockeystickError, ValueError, RecursionError) as error:
        raise LedgerError(f"{at} is damaged: {error}") from None
    note, who, when = (plain[name] for name in ("note", "who", "when"))
    return StoredCharge(row.number, event, count, note, who, when, row.digest, run, session)


@lru_cache(maxsize=4096)
def _event(text: str) -> PrivacyEvent:
    return event_json.event_from_json(json.loads(text))


def _fields(cls: type[PrivacyFilter]) -> list[str]:
    return [attribute.name for attribute in attrs.fields(cls) if not attribute.name.startswith("_")]


def _fresh(budget: PrivacyFilter) -> PrivacyFilter:
    return type(budget)(**{name: getattr(budget, name) for name in _fields(type(budget))})


def filter_to_json(budget: PrivacyFilter) -> dict[str, Any]:
    """Returns the parameters of a filter; what was spent is not among them."""
    values = {name: getattr(budget, name) for name in _fields(type(budget))}
    return {"type": type(budget).__name__, **values, "adjacency": budget.adjacency.value}


def filter_from_json(data: object) -> PrivacyFilter:
    """Returns the filter that ``filter_to_json`` wrote.

    Raises:
      GraphError: it is not one.
      InvalidArgumentError: a parameter is outside its domain.
    """
    given = dict(event_json.mapping(data, "filter"))
    name = given.pop("type", None)
    cls = _FILTERS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise GraphError(f"unknown filter {name!r}; known are {', '.join(_FILTERS)}")
    event_json.check_keys(given, set(_fields(cls)), set(_fields(cls)), "filter")
    given["adjacency"] = Adjacency(given["adjacency"])
    return cls(**given)
