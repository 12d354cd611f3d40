"""Tests of durable ledgers in files and in PostgreSQL: killed, shared, changed, full, read only, forked, moved."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from hockeystick.accounting import (
    ZCDP,
    Adjacency,
    ApproximateDP,
    DurableLedger,
    Gaussian,
    InvalidArgumentError,
    Ledger,
    LedgerError,
    LedgerTimeoutError,
    PureDP,
    RandomizedResponse,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    compose,
)
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from hockeystick.accounting.budgets.renyi_filter import RDPFilter
from hockeystick.accounting.budgets.stores.rows import chained
from hockeystick.accounting.events.catalogue import NO_EVENT

EVENT = ZCDP(0.125)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture(params=["file", "postgres"])
def place(request, tmp_path):
    """A place for a ledger of its own: every test that takes it is the contract of both stores."""
    if request.param == "file":
        return str(tmp_path / "budget.db")
    return f"{request.getfixturevalue('postgres').url}/postgres?ledger={uuid.uuid4().hex}"


def test_a_file_without_its_triggers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    DurableLedger.create(path, ZCDPFilter(1.0))
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER charge_kept")
    db.close()
    with pytest.raises(LedgerError, match="its tables are not those of this program"):
        DurableLedger.open(path)


def spent(place: str | Path) -> float:
    return 1.0 - DurableLedger.open(place).budget().remaining()["rho"]


def changed(place: str, *statements: str) -> None:
    """Changes the tables behind the ledger's back."""
    if "://" not in place:
        with sqlite3.connect(place) as db:
            triggers = [sql for (sql,) in db.execute("SELECT sql FROM sqlite_master WHERE type = 'trigger'")]
            drop = ["DROP TRIGGER charge_kept", "DROP TRIGGER charge_fixed"]
            db.executescript(";".join([*drop, *statements, *triggers]))
        db.close()
        return
    import psycopg

    url, name = place.split("?ledger=")
    with psycopg.connect(url) as database:
        database.execute("SET session_replication_role = replica")  # no triggers
        for statement in statements:
            where = " AND" if "WHERE" in statement else " WHERE"
            if statement.startswith("INSERT INTO charge SELECT"):
                statement = statement.replace("SELECT ", "SELECT ledger, ").replace("charge", "hockeystick_charge")
                database.execute(f"{statement}{where} ledger = '{name}'")
            elif "UPDATE head" in statement:
                database.execute(
                    statement.replace("UPDATE head", "UPDATE hockeystick_ledger") + f"{where} name = '{name}'"
                )
            else:
                table = re.sub(r"\bcharge\b", "hockeystick_charge", statement)
                database.execute(table + f"{where} ledger = '{name}'")


# Crashes --------------------------------------------------------------------------------------------------------------

CRASH = """
import os, signal, sys
from pathlib import Path
from hockeystick.accounting import ZCDP, DurableLedger, ZCDPFilter
from hockeystick.accounting.budgets.stores import postgres, sqlite_file

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def run(ledger, step, seen):
    store = type(ledger._store)
    append = store.append
    if step == "before":
        store.append = die
    if step == "inside":
        store.append = lambda self, known, charge: append(self, known, lambda state: (charge(state), die())[0])
    if step == "stored":
        store.append = lambda self, known, charge: (append(self, known, charge), die())

    def draw():
        if step == "drawing":
            die()
        os.write(seen, b"d")
        return "noise"

    ledger.spend(ZCDP(0.125), draw)
    if step == "publishing":
        die()
    os.write(seen, b"p")

for step in ("before", "inside", "stored", "drawing", "publishing"):
    ledger = DurableLedger.create(sys.argv[1] + step, ZCDPFilter(1.0))
    ledger.reserve(ZCDP(0.125))
    read, seen = os.pipe()
    child = os.fork()
    if not child:
        run(ledger, step, seen)
    os.close(seen)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    print(step, killed, os.read(read, 2).decode() or "nothing")
"""


@pytest.mark.statistical
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
def test_a_crash_leaves_a_charge_and_never_an_uncharged_release(place):
    child = subprocess.run(
        [sys.executable, "-c", CRASH, place], check=True, timeout=120, capture_output=True, text=True
    )
    drawn = dict(line.split(" ", 1) for line in child.stdout.splitlines())
    assert drawn.pop("publishing") == "True d"
    assert drawn == dict.fromkeys(["before", "inside", "stored", "drawing"], "True nothing")
    for step, charged in (("before", 0), ("inside", 0), ("stored", 1), ("drawing", 1), ("publishing", 1)):
        assert spent(place + step) == 0.125 * (1 + charged)
        ledger = DurableLedger.open(place + step)  # the lock of a dead process is free
        assert ledger.reserve(EVENT, count=6).number == 2 + charged
        assert spent(place + step) == 0.125 * (7 + charged)


def test_a_transaction_that_was_cut_off_is_undone_by_the_next_reader(path):
    """The file as a loss of power leaves it half way through a commit: new pages, and the journal of the old ones."""
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    ledger.reserve(EVENT)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA cache_size = 1")  # pages are written before the commit
    db.execute("BEGIN")
    db.execute("INSERT INTO charge VALUES (2, ?, 'x')", ("y" * 100_000,))
    journal = path.with_name(path.name + "-journal")
    torn, kept = path.read_bytes(), journal.read_bytes()
    db.execute("ROLLBACK")
    db.close()
    path.write_bytes(torn)
    journal.write_bytes(kept)
    assert spent(path) == 0.125
    assert not journal.exists() and ledger.reserve(EVENT).number == 2


def test_a_ledger_that_was_never_written_says_so(path):
    path.touch()
    with pytest.raises(LedgerError, match="nothing was ever written"):
        DurableLedger.open(path)


def test_the_charge_is_stored_before_the_draw(place):
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    assert ledger.spend(EVENT, lambda: spent(place)) == 0.125


def test_a_commit_is_on_disk_with_the_end_of_its_journal(path, monkeypatch):
    """A journal that came back after a loss of power would undo the charge: EXTRA (3) writes its removal too."""
    found = []
    connect = sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if arguments[0] == "COMMIT":
                run = super().execute
                found.append(tuple(run(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")))
            return super().execute(*arguments)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Watched))
    DurableLedger.create(path, ZCDPFilter(1.0)).reserve(EVENT)
    assert set(found) == {(3, "delete")} and len(found) == 3


def test_a_draw_that_fails_stays_charged(place):
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    with pytest.raises(ZeroDivisionError):
        ledger.spend(EVENT, lambda: 1 / 0)
    assert spent(place) == 0.125


@pytest.mark.parametrize("stored", [False, True])
def test_a_failed_commit_draws_nothing_and_counts_if_it_was_stored(path, monkeypatch, stored):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    connect, drawn = sqlite3.connect, []

    class Full(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if arguments[0] != "COMMIT":
                return super().execute(*arguments)
            if stored:
                super().execute("COMMIT")
            raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Full))
        with pytest.raises(LedgerError, match="full"):
            ledger.spend(EVENT, lambda: drawn.append(1))
    assert not drawn
    assert ledger.reserve(EVENT).number == 1 + stored
    assert spent(path) == 0.125 * (1 + stored)


# Sharing --------------------------------------------------------------------------------------------------------------


def test_threads_cannot_overspend(place):
    DurableLedger.create(place, ZCDPFilter(1.0))
    shared = DurableLedger.open(place)
    drawn: list[int] = []

    def work(ledger: DurableLedger) -> None:
        while True:
            try:
                ledger.spend(ZCDP(1 / 16), lambda: drawn.append(1))
            except BudgetExceededError:
                return

    ledgers = [shared, shared, *(DurableLedger.open(place) for _ in range(4))]
    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 16
    assert spent(place) == 1.0


RACE = """
import os, sys
from hockeystick.accounting import ZCDP, BudgetExceededError, DurableLedger

ledger = DurableLedger.open(sys.argv[1])  # before the forks: every child goes on with it

def race():
    drawn = 0
    os.read(start, 1)  # returns when the last writer has gone
    while True:
        try:
            drawn += ledger.spend(ZCDP(1 / 64), lambda: 1)
        except BudgetExceededError:
            return drawn

start, gate = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if not child:
        os.close(gate)
        os._exit(race())
    children.append(child)
os.close(gate)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
print(ledger.budget().remaining()["rho"])  # the connection of the parent still works
"""


@pytest.mark.skipif(os.name == "nt", reason="fork is POSIX")
@pytest.mark.statistical
def test_forks_of_one_process_cannot_overspend(place):
    DurableLedger.create(place, ZCDPFilter(1.0))
    run = subprocess.run([sys.executable, "-c", RACE, place], check=True, capture_output=True, text=True, timeout=120)
    drawn, left = run.stdout.splitlines()
    assert len(drawn.split()) == 8
    assert sum(map(int, drawn.split())) == 64
    assert float(left) == 0.0 == 1.0 - spent(place)
    assert len(DurableLedger.open(place).charges()) == 64


def test_each_process_sees_the_charges_of_the_other(place):
    one, other = DurableLedger.create(place, ZCDPFilter(1.0)), Ledger.open(place)
    assert other.reserve(EVENT, count=4).number == 1
    assert one.would_exceed(EVENT, count=5)
    assert one.reserve(EVENT, count=4).number == 2
    with pytest.raises(BudgetExceededError):
        other.reserve(EVENT)


def test_all_names_of_a_file_are_one_ledger(path, tmp_path):
    one = DurableLedger.create(path, ZCDPFilter(1.0))
    (tmp_path / "link.db").symlink_to(path)
    assert DurableLedger.open(tmp_path / "link.db").reserve(EVENT).number == 1
    assert one.reserve(EVENT).number == 2
    assert sorted(os.listdir(tmp_path)) == ["budget.db", "link.db"]


def test_a_holder_that_stopped_is_named_after_the_timeout(place):
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    impatient = DurableLedger.open(place, timeout=0.05)
    if "://" in place:
        holding, release = threading.Event(), threading.Event()
        take = ledger._take

        def slow(state: Any) -> Any:
            holding.set()
            assert release.wait(20)
            return take(state)

        ledger._take = slow  # type: ignore[method-assign]
        thread = threading.Thread(target=lambda: ledger.reserve(EVENT))
        thread.start()
        assert holding.wait(20)
        with pytest.raises(LedgerTimeoutError, match="user owner, hockeystick ledger, process .*nothing was charged"):
            impatient.reserve(EVENT)
        release.set()
        thread.join()
        assert impatient.reserve(EVENT).number == 2
        return
    # Threads of one process take turns before SQLite's lock: here the holder is another process.
    words = [sys.executable, "-c", HOLDER, place]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    named = f"process {holder.pid} " if sys.platform == "linux" else "another process"
    with pytest.raises(LedgerTimeoutError, match=f"{named}.*nothing was charged"):
        impatient.reserve(EVENT)
    holder.communicate("")
    assert impatient.reserve(EVENT).number == 1


HOLDER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


# What is stored -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budget",
    [
        PureFilter(1 / 3),
        ZCDPFilter(0.1, adjacency=Adjacency.LOCAL),
        GDPFilter.for_target(1.0, 1e-6, failure_delta=1e-7),
        RDPFilter.for_target(1.0, 1e-6),
    ],
)
def test_a_reopened_ledger_has_the_same_content(place, budget):
    ledger = Ledger.create(place, budget, who="batch")
    event = compose((PureDP(0.01), 3), PureDP(0.02))
    first, second = ledger.reserve(event, note="é\n"), ledger.reserve(PureDP(0.001), count=7)
    again = DurableLedger.open(place)
    assert again.budget() == ledger.budget() == budget.after(event).after(PureDP(0.001), count=7)
    assert (first.number, second.number) == (1, 2)
    one, two = again.charges()
    assert (one.event, one.count, one.note, one.who, one.digest) == (event, 1, "é\n", "batch", first.digest)
    assert (two.number, two.count, two.digest) == (2, 7, second.digest)
    assert again.verify() == second
    assert one.when <= two.when and one.when.endswith("+00:00")


def test_the_default_name_is_of_user_and_machine(path):
    DurableLedger.create(path, ZCDPFilter(1.0)).reserve(EVENT)
    assert "@" in DurableLedger.open(path).charges()[0].who


def with_three_charges(place: str | Path) -> DurableLedger:
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    for note in ("one", "two", "three"):
        ledger.reserve(EVENT, note=note)
    return ledger


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (["DELETE FROM charge WHERE number = 3"], "damaged"),
        (["DELETE FROM charge WHERE number = 2"], "damaged"),
        (["UPDATE charge SET text = replace(text, '0.125', '0.025') WHERE number = 2"], "damaged"),
        (["UPDATE charge SET text = replace(text, 'three', 'four') WHERE number = 3"], "damaged"),
        (["UPDATE charge SET number = 9 WHERE number = 3"], "damaged"),
        (["INSERT INTO charge SELECT 4, text, digest FROM charge WHERE number = 3"], "damaged"),
        (["UPDATE head SET charges = 2"], "damaged"),
        (["UPDATE head SET header = replace(header, '1.0', '9.0')"], "damaged|cut off"),
        (["UPDATE head SET digest = ''"], "damaged"),
        (["DELETE FROM charge"], "damaged"),
    ],
)
def test_a_ledger_that_was_changed_by_hand_is_refused(place, statements, reason):
    open_since = with_three_charges(place)
    changed(place, *statements)
    with pytest.raises(LedgerError, match=reason):
        DurableLedger.open(place)
    if "number = 2" not in statements[0] and "text =" not in statements[0]:  # those are read again by ``verify`` alone
        with pytest.raises(LedgerError):
            open_since.reserve(EVENT)
    with pytest.raises(LedgerError):
        open_since.verify()


def test_charges_can_be_neither_changed_nor_removed_by_mistake(place):
    with_three_charges(place)
    if "://" not in place:
        for statement in ("DELETE FROM charge", "UPDATE charge SET digest = ''"):
            with sqlite3.connect(place) as db, pytest.raises(sqlite3.IntegrityError, match="charges stay"):
                db.execute(statement)
            db.close()
        return
    import psycopg

    with psycopg.connect(place.split("?")[0], autocommit=True) as database:
        for statement in ("DELETE FROM %", "UPDATE % SET digest = ''", "TRUNCATE %"):
            with pytest.raises(psycopg.errors.RaiseException, match="stay"):
                database.execute(statement.replace("%", "hockeystick_charge"))
        for statement in ("UPDATE hockeystick_ledger SET charges = charges - 1", "DELETE FROM hockeystick_ledger"):
            with pytest.raises(psycopg.errors.RaiseException, match="grows|stay"):
                database.execute(statement)


def flips(path: Path, data: bytes, places: list[tuple[int, int]]) -> int:
    """Flips bits, one at a time; returns how often it was noticed. A charge is never lost in silence."""
    noticed = 0
    for at, bit in places:
        raw = bytearray(data)
        raw[at] ^= 1 << bit
        path.write_bytes(raw)
        for more in ("-wal", "-shm", "-journal"):
            path.with_name(path.name + more).unlink(missing_ok=True)
        try:
            ledger = DurableLedger.open(path, timeout=0.0)
            assert ledger.budget().remaining()["rho"] == 1.0 - 3 * 0.125, (at, bit)
            ledger.reserve(EVENT)
            assert ledger.budget().remaining()["rho"] == 1.0 - 4 * 0.125, (at, bit)
            assert len(DurableLedger.open(path, timeout=0.0).charges()) == 4, (at, bit)
        except LedgerError:
            noticed += 1
    return noticed


@pytest.mark.statistical
def test_a_flipped_bit_is_noticed_or_loses_nothing(path):
    """A sample of all bits; ``benchmarks`` tries all of them."""
    with_three_charges(path)
    data = path.read_bytes()
    used = [at for at in range(len(data)) if data[at]]  # the rest of the pages is empty
    places = [(used[i], i % 8) for i in range(0, len(used), 9)]
    noticed = flips(path, data, places)
    assert 0.5 * len(places) < noticed < len(places)


def sealed(path: Path, charge: dict[str, Any] | None = None, header: dict[str, Any] | None = None) -> None:
    """Writes a ledger whose digests are right, whatever it says."""
    path.unlink(missing_ok=True)
    DurableLedger.create(path, ZCDPFilter(1.0))
    with sqlite3.connect(path) as db:
        first = json.dumps(header) if header else db.execute("SELECT header FROM head").fetchone()[0]
        digest, text = chained("", first), json.dumps(charge)
        if charge is not None:
            digest = chained(digest, text)
            db.execute("INSERT INTO charge VALUES (1, ?, ?)", (text, digest))
        db.execute("UPDATE head SET header = ?, charges = ?, digest = ?", (first, int(charge is not None), digest))
    db.close()


@pytest.mark.parametrize(
    "header",
    [
        {"schema_version": 3, "filter": {"type": "PureFilter"}},
        {"schema_version": 2},
        {"schema_version": 2, "filter": {"type": "os.system"}},
        {"schema_version": 2, "filter": {"type": ["PureFilter"]}},
        {"schema_version": 2, "filter": {"type": "PureFilter", "budget": 1.0}},
        {"schema_version": 2, "filter": [1.0]},
        {"schema_version": 2, "filter": {"type": "PureFilter", "budget": 1, "failure_delta": 0, "adjacency": "any"}},
        {"schema_version": 2, "filter": {"type": "PureFilter", "budget": -1, "failure_delta": 0, "adjacency": "local"}},
    ],
)
def test_a_head_of_another_schema_with_valid_digests_is_refused(path, header):
    sealed(path, header=header)
    with pytest.raises(LedgerError, match="damaged"):
        DurableLedger.open(path)


CHARGE = {"number": 1, "event": {"type": "ZCDP", "rho": 0.1}, "count": 1, "note": "", "who": "me", "when": ""}


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 2},
        {"count": 0},
        {"count": True},
        {"note": 1},
        {"who": None},
        {"more": 1},
        {"event": {"type": "os.system", "command": "true"}},
        {"event": {"type": "ZCDP", "rho": -1.0}},
        {"event": {"type": "ZCDP", "rho": 1.5}},
        {"event": {"type": "RandomizedResponse", "epsilon": 0.1, "categories": 2}},
    ],
)
def test_an_invalid_charge_with_valid_digests_is_refused(path, changes):
    sealed(path, CHARGE)
    assert DurableLedger.open(path).budget() == ZCDPFilter(1.0).after(ZCDP(0.1))
    sealed(path, {**CHARGE, **changes})
    with pytest.raises(LedgerError):
        DurableLedger.open(path)


# Sessions of runs -----------------------------------------------------------------------------------------------------


def test_each_session_of_a_run_is_taken_once(place):
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    ledger.spend(EVENT, lambda: None, run="a", note="run a")
    ledger.reserve(EVENT)
    ledger.record_session("a", 1)
    other = DurableLedger.open(place)
    for one in (ledger, other):
        for late in (1, 3):
            with pytest.raises(LedgerError, match="resumed before"):
                one.record_session("a", late)
        with pytest.raises(LedgerError, match="was not charged for this run"):
            one.record_session("b", 1)
        with pytest.raises(LedgerError):
            one.reserve(EVENT, run="a")  # the name is taken
    other.record_session("a", 2)
    with pytest.raises(LedgerError, match="resumed before"):
        ledger.record_session("a", 2)
    assert ledger.budget() == ZCDPFilter(1.0).after(EVENT, count=2)
    found = [(one.run, one.session, one.event, one.note) for one in other.charges()]
    goes_on = NO_EVENT, "a run that goes on"
    assert found == [("a", 0, EVENT, "run a"), (None, 0, EVENT, ""), ("a", 1, *goes_on), ("a", 2, *goes_on)]
    other.verify()
    with pytest.raises(LedgerError, match="resumed before"):
        other.record_session("a", 2)


@pytest.mark.parametrize(("run", "session"), [(None, 1), (3, 1), ("a", 0), ("a", 1.5), ("a", True), ("a", None)])
def test_what_is_no_session_is_refused(path, run, session):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    ledger.reserve(EVENT, run="a")
    with pytest.raises(InvalidArgumentError):
        ledger.record_session(run, session)
    with pytest.raises(InvalidArgumentError, match="run"):
        ledger.reserve(EVENT, run=3)  # type: ignore[arg-type]
    assert len(ledger.charges()) == 1


@pytest.mark.parametrize("more", [{"run": "a", "session": 1}, {"run": 3, "session": 0}, {"run": "a"}, {"session": 0}])
def test_sessions_out_of_order_are_damage(path, more):
    sealed(path, {**CHARGE, "run": "a", "session": 0})
    assert DurableLedger.open(path).charges()[0].run == "a"
    sealed(path, {**CHARGE, **more})
    with pytest.raises(LedgerError):
        DurableLedger.open(path)


def test_threads_cannot_both_go_on_with_a_run(place):
    ledger, done = DurableLedger.create(place, ZCDPFilter(1.0)), []
    ledger.reserve(EVENT, run="a")

    def go_on() -> None:
        try:
            DurableLedger.open(place).record_session("a", 1)
            done.append(True)
        except LedgerError:
            done.append(False)

    threads = [threading.Thread(target=go_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, False, False, True]


# The file -------------------------------------------------------------------------------------------------------------


def test_a_file_that_was_replaced_or_put_back_while_in_use_is_noticed(path):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    old = path.read_bytes()
    ledger.reserve(EVENT)
    new = path.read_bytes()
    path.write_bytes(old)
    with pytest.raises(LedgerError, match="cut off"):
        ledger.reserve(EVENT)
    path.write_bytes(new)
    other = path.with_name("other")
    other.write_bytes(new)
    ledger = DurableLedger.open(path)
    os.replace(other, path)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.budget()
    path.unlink()
    with pytest.raises(LedgerError, match="no such ledger"):
        ledger.reserve(EVENT)


def test_another_ledger_of_as_many_charges_in_its_place_is_noticed(path):
    ledger = with_three_charges(path)
    other = path.with_name("other")
    theirs = DurableLedger.create(other, ZCDPFilter(1.0))
    theirs.reserve(ZCDP(0.01), count=3)
    theirs.reserve(ZCDP(0.01))
    theirs.reserve(ZCDP(0.01))
    path.write_bytes(other.read_bytes())  # the same inode
    with pytest.raises(LedgerError, match="changed or lost"):
        ledger.reserve(EVENT)


def test_a_ledger_cannot_be_created_twice(place):
    with pytest.raises(LedgerError, match="no such ledger"):
        DurableLedger.open(place)
    DurableLedger.create(place, ZCDPFilter(1.0)).reserve(EVENT)
    with pytest.raises(LedgerError, match="exists"):
        DurableLedger.create(place, ZCDPFilter(1.0))
    assert spent(place) == 0.125


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE head (a)")
    db.close()


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda path: path.write_text("date,amount\n" * 99), "not a database"),
        (lambda path: path.write_text('{"digest": "1", "schema_version": 1}\n'), "hockeystick ledger import"),
        (foreign, "another program"),
        (Path.mkdir, "not a file"),
        (lambda path: os.mkfifo(path), "not a file"),
        (lambda path: path.symlink_to(path), "can't be"),
    ],
)
def test_what_is_no_ledger_is_refused_in_words(path, prepare: Callable[[Path], object], reason):
    prepare(path)
    with pytest.raises(LedgerError, match=reason):
        DurableLedger.open(path)
    with pytest.raises(LedgerError):
        DurableLedger.create(path, ZCDPFilter(1.0))


@pytest.mark.parametrize(
    "place", ["", "a\0b", None, 3, b"x", "mysql://a/b", "postgresql://h:x/y", "postgresql://h/d?a"]
)
def test_a_place_that_is_none_is_refused(place):
    with pytest.raises(InvalidArgumentError, match="place"):
        DurableLedger.open(place)


@pytest.mark.parametrize("name", ["/proc/ledger", "missing/folder/x.db", "x" * 300])
def test_a_file_that_cannot_be_made_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError, match="can't be"):
        DurableLedger.create(name, ZCDPFilter(1.0))
    with pytest.raises(LedgerError):
        DurableLedger.open(name)
    assert not os.listdir(tmp_path)


READER = """
import os, sys
from hockeystick.accounting import ZCDP, DurableLedger, LedgerError

def read():
    ledger = DurableLedger.open(sys.argv[1], who="reader")
    return ledger, ledger.budget().remaining()["rho"], len(ledger.charges()), ledger.verify().number

read()  # loads all that it needs as the owner, who may see where it is installed
if os.geteuid() == 0:
    os.setuid(65534)
ledger, *found = read()
print(*found)
try:
    ledger.reserve(ZCDP(0.125))
except LedgerError as error:
    print("refused")
"""


@pytest.mark.statistical
@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_reader_needs_no_right_to_write():
    # Every user may enter /tmp, and not always the folder of TMPDIR.
    with tempfile.TemporaryDirectory(dir="/tmp" if os.geteuid() == 0 else None) as folder:
        path = Path(folder) / "budget.db"
        with_three_charges(path)
        path.chmod(0o444)
        path.parent.chmod(0o555)
        found = subprocess.run([sys.executable, "-c", READER, path], capture_output=True, text=True, check=True)
        path.parent.chmod(0o755)
    assert found.stdout.split() == ["0.625", "3", "3", "refused"]


# PostgreSQL -----------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_a_server_that_restarts_or_cuts_the_connection_loses_no_charge(postgres):
    import psycopg

    place = f"{postgres.url}/postgres?ledger={uuid.uuid4().hex}"
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    ledger.reserve(EVENT)
    postgres.stop()  # as by a crash
    with pytest.raises(LedgerError, match="can't be reached"):
        ledger.reserve(EVENT)
    postgres.start()
    assert ledger.reserve(EVENT).number == 2
    drawn = []
    take = ledger._take

    def cut(state: Any) -> Any:
        with psycopg.connect(f"{postgres.url}/postgres", autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'hockeystick%'"
            )
        return take(state)

    ledger._take = cut  # type: ignore[method-assign]
    with pytest.raises(LedgerError, match="nothing was charged"):
        ledger.spend(EVENT, lambda: drawn.append(1))
    ledger._take = take  # type: ignore[method-assign]
    assert not drawn and ledger.reserve(EVENT).number == 3


def test_a_commit_whose_answer_is_lost_draws_nothing_and_counts(postgres, monkeypatch):
    import psycopg

    place = f"{postgres.url}/postgres?ledger={uuid.uuid4().hex}"
    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    execute, drawn = psycopg.Connection.execute, []

    def lossy(self: Any, query: Any, *arguments: Any, **more: Any) -> Any:
        found = execute(self, query, *arguments, **more)
        if query == "COMMIT":
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", lossy)
        with pytest.raises(LedgerError, match="not known"):
            ledger.spend(EVENT, lambda: drawn.append(1))
    assert not drawn and ledger.budget().remaining()["rho"] == 1.0 - 0.125


def test_roles_may_read_or_charge_and_no_more(postgres):
    import psycopg

    name = uuid.uuid4().hex
    DurableLedger.create(f"{postgres.url}/postgres?ledger={name}", ZCDPFilter(1.0)).reserve(EVENT)
    users = {role: f"{role}_{name[:6]}" for role in ("read", "charge")}
    with psycopg.connect(f"{postgres.url}/postgres") as db:
        for role, user in users.items():
            db.execute(f"CREATE ROLE {user} LOGIN IN ROLE hockeystick_{role}")
    places = {role: f"{postgres.url.replace('owner', user)}/postgres?ledger={name}" for role, user in users.items()}
    assert DurableLedger.open(places["read"]).budget().remaining()["rho"] == 0.875
    with pytest.raises(LedgerError, match="permission denied"):
        DurableLedger.open(places["read"]).reserve(EVENT)
    assert DurableLedger.open(places["charge"]).reserve(EVENT).number == 2
    for statement in ("DELETE FROM hockeystick_charge", "UPDATE hockeystick_ledger SET header = ''", "DROP TABLE %"):
        with psycopg.connect(places["charge"].split("?")[0]) as db, pytest.raises(psycopg.Error):
            db.execute(statement.replace("%", "hockeystick_charge"))


def test_a_server_without_fsync_is_refused(postgres, monkeypatch):
    import psycopg

    execute = psycopg.Connection.execute
    monkeypatch.setattr(
        psycopg.Connection,
        "execute",
        lambda self, query, *a, **k: execute(self, "SELECT 'off'" if query == "SHOW fsync" else query, *a, **k),
    )
    with pytest.raises(LedgerError, match="fsync"):
        DurableLedger.create(f"{postgres.url}/postgres?ledger={uuid.uuid4().hex}", ZCDPFilter(1.0))


def test_a_password_is_never_shown():
    with pytest.raises(LedgerError) as found:
        DurableLedger.open("postgresql://me:secret@127.0.0.1:1/none", timeout=1.0)
    assert "secret" not in str(found.value) and found.value.__cause__ is None


# Ledgers of earlier versions ------------------------------------------------------------------------------------------


def text_ledger(*notes: str) -> bytes:
    """The file of the first version: every line has a digest of itself and of the digest before."""
    budget = {"type": "ZCDPFilter", "rho": 1.0, "failure_delta": 0.0, "adjacency": "add-or-remove-one"}
    bodies: list[dict[str, Any]] = [{"schema_version": 1, "filter": budget}]
    for number, note in enumerate(notes, 1):
        bodies.append({"number": number, "event": {"type": "ZCDP", "rho": 0.125}, "count": 1, "note": note})
    lines, digest = b"", ""
    for body in bodies:
        digest = chained(digest, json.dumps(body))
        lines += json.dumps({"digest": digest, **body}).encode() + b"\n"
    return lines


def test_a_text_ledger_is_moved_once(place, tmp_path):
    old = tmp_path / "old.jsonl"
    old.write_bytes(text_ledger("one", "two"))
    ledger = DurableLedger.import_text(old, place, who="mover")
    assert ledger.budget() == ZCDPFilter(1.0).after(EVENT, count=2)
    assert [(c.number, c.note, c.who) for c in ledger.charges()] == [(1, "one", "mover"), (2, "two", "mover")]
    assert not old.exists() and (tmp_path / "old.jsonl.imported").exists()
    assert ledger.reserve(EVENT).number == 3
    with pytest.raises(LedgerError):
        DurableLedger.import_text(old, tmp_path / "again.db")
    assert not (tmp_path / "again.db").exists()


@pytest.mark.parametrize(
    ("change", "charges"),
    [
        (lambda raw: raw[:-1], 2),  # a lost end gives nothing back
        (lambda raw: raw[:-1] + b"\x0b", None),
        (lambda raw: raw[:-9], 1),  # what a crash left: no draw followed it
        (lambda raw: raw + raw.splitlines()[-1][:30], 2),
        (lambda raw: raw + b"x", None),
        (lambda raw: raw.replace(b"0.125", b"0.025", 1), None),
        (lambda raw: b"", None),
        (lambda raw: b"[" * 100_000, None),
        (lambda raw: raw.replace(b'"one"', b'"\xff"'), None),
    ],
)
def test_a_text_ledger_that_is_damaged_is_not_moved(tmp_path, change, charges):
    old = tmp_path / "old.jsonl"
    old.write_bytes(change(text_ledger("one", "two")))
    if charges is not None:
        assert len(DurableLedger.import_text(old, tmp_path / "new.db").charges()) == charges
        return
    with pytest.raises(LedgerError):
        DurableLedger.import_text(old, tmp_path / "new.db")
    assert old.exists() and not (tmp_path / "new.db").exists()


def test_bad_arguments_charge_nothing(place, tmp_path):
    class Mine(PureFilter):
        pass

    not_filters: list[PrivacyFilter] = [Mine(1.0), "filter", ZCDPFilter(1.0).after(EVENT)]  # type: ignore[list-item]
    for budget in not_filters:
        with pytest.raises(InvalidArgumentError, match="budget"):
            DurableLedger.create(place, budget)
    assert not os.listdir(tmp_path)

    class Own(PureDP):
        pass

    ledger = DurableLedger.create(place, ZCDPFilter(1.0))
    with pytest.raises(UnsupportedEventError):
        ledger.reserve(Own(0.1))
    with pytest.raises(UnsupportedAdjacencyError):
        ledger.reserve(RandomizedResponse(0.1))
    with pytest.raises(BudgetExceededError):
        ledger.reserve(Gaussian(0.5))
    with pytest.raises(BudgetExceededError):
        ledger.reserve(ApproximateDP(0.1, 1e-9))
    for bad in (0, -1, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="count"):
            ledger.reserve(EVENT, count=bad)  # type: ignore[arg-type]
    for note in (1, "a\0b", "\ud800"):
        with pytest.raises(InvalidArgumentError, match="note"):
            ledger.reserve(EVENT, note=note)  # type: ignore[arg-type]
    for who in (1, "", "\ud800"):
        with pytest.raises(InvalidArgumentError, match="who"):
            DurableLedger.open(place, who=who)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="timeout"):
        DurableLedger.open(place, timeout=float("nan"))
    assert not ledger.charges()
    assert ledger.budget() == evolve(ZCDPFilter(1.0), _failed=0)
    ledger.reserve(EVENT, count=8)
