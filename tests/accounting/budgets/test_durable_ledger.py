"""Tests of the durable ledger: killed at every step, used by threads and processes at once, and with a changed file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import (
    ZCDP,
    Adjacency,
    ApproximateDP,
    Gaussian,
    InvalidArgumentError,
    PureDP,
    RandomizedResponse,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    compose,
)
from hockeystick.accounting.budgets import durable_ledger as module
from hockeystick.accounting.budgets.durable_ledger import DurableLedger, LedgerError
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PrivacyFilter, PureFilter, ZCDPFilter
from hockeystick.accounting.budgets.renyi_filter import RDPFilter

EVENT = ZCDP(0.125)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.ledger"


def spent(path: Path) -> float:
    return 1.0 - DurableLedger.open(path).budget().remaining()["rho"]


# Crashes --------------------------------------------------------------------------------------------------------------

CRASH = """
import os, signal, sys
from pathlib import Path
from hockeystick.accounting import ZCDP
from hockeystick.accounting.budgets import durable_ledger

path, step = sys.argv[1:]
folder = Path(path).parent

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Torn:
    "A file that dies half way through a write."
    def __init__(self, file):
        self.file = file
    def __getattr__(self, name):
        return getattr(self.file, name)
    def write(self, data):
        if step == "torn":
            self.file.write(data[: len(data) // 2])
            self.file.flush()
        if step != "written":
            die()
        self.file.write(data)
        self.file.flush()
        die()
    def __enter__(self):
        return self
    def __exit__(self, *_):
        self.file.close()

ledger = durable_ledger.DurableLedger.open(path)
if step in ("before", "torn", "written"):
    opened = Path.open
    Path.open = lambda self, mode="r": Torn(opened(self, mode)) if mode == "rb+" else opened(self, mode)
if step == "fsync":
    os.fsync = die

def draw():
    if step == "drawing":
        die()
    (folder / "drawn").touch()
    return "noise"

value = ledger.spend(ZCDP(0.125), draw)
if step == "publishing":
    die()
(folder / "published").touch()
"""


@pytest.mark.statistical
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is POSIX")
@pytest.mark.parametrize(
    ("step", "charged", "drawn"),
    [
        ("before", 0, False),
        ("torn", 0, False),
        ("written", 1, False),
        ("fsync", 1, False),
        ("drawing", 1, False),
        ("publishing", 1, True),
    ],
)
def test_a_crash_leaves_a_charge_and_never_an_uncharged_release(path, step, charged, drawn):
    DurableLedger.create(path, ZCDPFilter(1.0)).reserve(EVENT)
    child = subprocess.run([sys.executable, "-c", CRASH, str(path), step], check=False, timeout=120)
    assert child.returncode == -signal.SIGKILL
    assert (path.parent / "drawn").exists() == drawn
    assert not (path.parent / "published").exists()
    assert spent(path) == 0.125 * (1 + charged)
    assert path.read_bytes().endswith(b"\n") == (step != "torn")
    ledger = DurableLedger.open(path)  # the lock of a dead process is free, and its partial line is dropped
    assert ledger.reserve(EVENT, count=6).number == 2 + charged
    assert spent(path) == 0.125 * (7 + charged)
    assert path.read_bytes().endswith(b"\n")


def test_every_torn_tail_is_dropped_at_the_next_charge(path):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    ledger.reserve(EVENT)
    whole = path.read_bytes()
    ledger.reserve(EVENT, note="longer than the next" * 9)
    last = path.read_bytes()[len(whole) :]
    for length in range(0, len(last), 7):
        path.write_bytes(whole + last[:length])
        assert spent(path) == 0.125
    path.write_bytes(whole + last[:-1])
    DurableLedger.open(path).reserve(EVENT)
    assert spent(path) == 0.25
    assert path.read_bytes().endswith(b"\n")


@pytest.mark.parametrize("length", [0, 10])
def test_a_ledger_without_a_first_line_was_never_used(path, length):
    DurableLedger.create(path, ZCDPFilter(1.0))
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(LedgerError, match="nothing was ever charged"):
        DurableLedger.open(path)


def test_the_charge_is_on_disk_before_the_draw(path, monkeypatch):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    steps: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        steps.append(f"fsync of {len(path.read_bytes().splitlines())} lines")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    assert ledger.spend(EVENT, lambda: steps.append("draw") or 1.5) == 1.5  # type: ignore[func-returns-value]
    assert steps == ["fsync of 2 lines", "draw"]


@pytest.mark.skipif(os.name == "nt", reason="folders can't be synchronised there, and need not be")
def test_the_name_of_a_new_ledger_is_on_disk_once_it_is_made(path, monkeypatch):
    synced: list[int] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    DurableLedger.create(path, ZCDPFilter(1.0))
    assert synced[-1] == path.parent.stat().st_ino and path.stat().st_ino in synced


def test_a_draw_that_fails_stays_charged(path):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    with pytest.raises(ZeroDivisionError):
        ledger.spend(EVENT, lambda: 1 / 0)
    assert spent(path) == 0.125


def test_a_failed_fsync_draws_nothing_and_closes_the_ledger(path, monkeypatch):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))

    def full(_: int) -> None:
        raise OSError(28, "no space left")

    drawn: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LedgerError, match="no space left"):
            ledger.spend(EVENT, lambda: drawn.append(1))
    with pytest.raises(LedgerError, match="open it anew"):
        ledger.spend(EVENT, lambda: drawn.append(1))
    assert not drawn
    assert spent(path) == 0.125


# Sharing --------------------------------------------------------------------------------------------------------------


def test_threads_cannot_overspend(path):
    DurableLedger.create(path, ZCDPFilter(1.0))
    shared = DurableLedger.open(path)
    drawn: list[int] = []

    def work(ledger: DurableLedger) -> None:
        while True:
            try:
                ledger.spend(ZCDP(1 / 16), lambda: drawn.append(1))
            except BudgetExceededError:
                return

    ledgers = [shared, shared, *(DurableLedger.open(path) for _ in range(4))]
    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 16
    assert spent(path) == 1.0


RACE = """
import os, sys
from hockeystick.accounting import ZCDP
from hockeystick.accounting.budgets.durable_ledger import DurableLedger
from hockeystick.accounting.budgets.filters import BudgetExceededError

def race():
    ledger, drawn = DurableLedger.open(sys.argv[1]), 0
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
"""


@pytest.mark.skipif(os.name == "nt", reason="fork is POSIX")
@pytest.mark.statistical
def test_eight_processes_cannot_overspend(path):
    DurableLedger.create(path, ZCDPFilter(1.0))
    run = subprocess.run(
        [sys.executable, "-c", RACE, str(path)], check=True, capture_output=True, text=True, timeout=120
    )
    drawn = [int(number) for number in run.stdout.split()]
    assert len(drawn) == 8
    assert sum(drawn) == 64
    assert spent(path) == 1.0
    assert len(path.read_text().splitlines()) == 65


def test_each_process_sees_the_charges_of_the_other(path, tmp_path):
    one = DurableLedger.create(path, ZCDPFilter(1.0))
    link = tmp_path / "link.ledger"
    link.symlink_to(path)
    other = DurableLedger.open(link)
    assert other.reserve(EVENT, count=4).number == 1
    assert one.would_exceed(EVENT, count=5)
    assert one.reserve(EVENT, count=4).number == 2
    with pytest.raises(BudgetExceededError):
        other.reserve(EVENT)


# The file -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "budget",
    [
        PureFilter(1 / 3),
        ZCDPFilter(0.1, adjacency=Adjacency.LOCAL),
        GDPFilter.for_target(1.0, 1e-6, failure_delta=1e-7),
        RDPFilter.for_target(1.0, 1e-6),
    ],
)
def test_a_reopened_ledger_has_the_same_content(path, budget):
    ledger = DurableLedger.create(path, budget)
    event = compose((PureDP(0.01), 3), PureDP(0.02))
    first, second = ledger.reserve(event, note="é\n"), ledger.reserve(PureDP(0.001), count=7)
    again = DurableLedger.open(path)
    assert again.budget() == ledger.budget() == budget.after(event).after(PureDP(0.001), count=7)
    assert (first.number, second.number) == (1, 2)
    assert json.loads(path.read_text().splitlines()[-1])["digest"] == second.digest
    assert json.loads(path.read_text().splitlines()[0])["schema_version"] == 1


def with_three_charges(path: Path) -> list[bytes]:
    path.unlink(missing_ok=True)
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    for note in ("one", "two", "three"):
        ledger.reserve(EVENT, note=note)
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[0], lines[2], lines[1], lines[3]],
        lambda lines: [*lines, lines[-1]],
        lambda lines: [*lines, b"\n"],
        lambda lines: [*lines, b"\0" * 40 + b"\n"],
        lambda lines: [lines[0].replace(b"1.0", b"9.0"), *lines[1:]],
        lambda lines: [*lines[:2], lines[2].replace(b"0.125", b"0.025"), lines[3]],
        lambda lines: [*lines[:3], lines[3].replace(b'"count": 1', b'"count":1')],
        lambda lines: [*lines[:3], lines[3].replace(b"three", b"3\xff")],
        lambda lines: lines[1:],
        lambda lines: [*lines[:3], lines[3].replace(b'{"digest', b'{"number": 3, "digest')],
        lambda lines: [*lines, b"[" * 100_000 + b"\n"],
    ],
)
def test_a_changed_file_is_refused(path, tamper):
    path.write_bytes(b"".join(tamper(with_three_charges(path))))
    with pytest.raises(LedgerError, match="damaged"):
        DurableLedger.open(path)


@pytest.mark.statistical
@settings(max_examples=40)
@given(data=st.data())
def test_any_flipped_byte_is_refused_or_belongs_to_a_torn_end(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("ledger") / "people.ledger"
    raw = bytearray(b"".join(with_three_charges(path)))
    i = data.draw(st.integers(0, len(raw) - 1))
    raw[i] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    if i == len(raw) - 1:
        assert spent(path) == 0.25  # without its end the last line is torn
    else:
        with pytest.raises(LedgerError):
            DurableLedger.open(path)


def sealed(body: dict[str, object], previous: str = "") -> tuple[bytes, str]:
    return module._line(body, previous)


@pytest.mark.parametrize(
    "body",
    [
        {"schema_version": 2, "filter": {"type": "PureFilter"}},
        {"schema_version": 1},
        {"schema_version": 1, "filter": {"type": "os.system"}},
        {"schema_version": 1, "filter": {"type": ["PureFilter"]}},
        {"schema_version": 1, "filter": {"type": "PureFilter", "budget": 1.0}},
        {"schema_version": 1, "filter": [1.0]},
        {"schema_version": 1, "filter": {"type": "PureFilter", "budget": 1, "failure_delta": 0, "adjacency": "any"}},
        {"schema_version": 1, "filter": {"type": "PureFilter", "budget": -1, "failure_delta": 0, "adjacency": "local"}},
    ],
)
def test_a_first_line_of_another_schema_with_a_valid_checksum_is_refused(path, body):
    path.write_bytes(sealed(body)[0])
    with pytest.raises(LedgerError, match="damaged"):
        DurableLedger.open(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"number": 2},
        {"count": 0},
        {"count": True},
        {"note": 1},
        {"more": 1},
        {"event": {"type": "os.system", "command": "true"}},
        {"event": {"type": "ZCDP", "rho": -1.0}},
        {"event": {"type": "ZCDP", "rho": 1.5}},
        {"event": {"type": "RandomizedResponse", "epsilon": 0.1, "categories": 2}},
    ],
)
def test_an_invalid_charge_with_a_valid_checksum_is_refused(path, changes):
    DurableLedger.create(path, ZCDPFilter(1.0))
    header = path.read_bytes()
    charge = {"number": 1, "event": {"type": "ZCDP", "rho": 0.1}, "count": 1, "note": ""}
    previous = json.loads(header)["digest"]
    path.write_bytes(header + sealed(charge, previous)[0])
    assert DurableLedger.open(path).budget() == ZCDPFilter(1.0).after(ZCDP(0.1))
    path.write_bytes(header + sealed({**charge, **changes}, previous)[0])
    with pytest.raises(LedgerError):
        DurableLedger.open(path)


def test_a_file_cut_off_or_replaced_while_in_use_is_noticed(path):
    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    old = path.read_bytes()
    ledger.reserve(EVENT)
    path.write_bytes(old)
    with pytest.raises(LedgerError, match="cut off"):
        ledger.reserve(EVENT)
    with_three_charges(path)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    ledger = DurableLedger.open(path)
    os.replace(other, path)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.budget()
    path.unlink()
    with pytest.raises(LedgerError, match="no such ledger"):
        ledger.budget()


def test_a_ledger_file_cannot_be_created_twice(path):
    DurableLedger.create(path, ZCDPFilter(1.0))
    with pytest.raises(LedgerError, match="exists"):
        DurableLedger.create(path, ZCDPFilter(1.0))
    with pytest.raises(LedgerError, match="no such ledger"):
        DurableLedger.open(path.with_name("other"))


def test_bad_arguments_charge_nothing(path):
    class Mine(PureFilter):
        pass

    not_filters: list[PrivacyFilter] = [Mine(1.0), "filter", ZCDPFilter(1.0).after(EVENT)]  # type: ignore[list-item]
    for budget in not_filters:
        with pytest.raises(InvalidArgumentError, match="budget"):
            DurableLedger.create(path, budget)
    assert not path.exists()

    class Own(PureDP):
        pass

    ledger = DurableLedger.create(path, ZCDPFilter(1.0))
    before = path.read_bytes()
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
    with pytest.raises(InvalidArgumentError, match="note"):
        ledger.reserve(EVENT, note=1)  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert ledger.budget() == evolve(ZCDPFilter(1.0), _failed=0)
    ledger.reserve(EVENT, count=8)
