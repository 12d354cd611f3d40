"""Faults of a durable ledger, counted: kills, threads, forks, full and read-only disks, flipped bits, lost connections.

    python -m benchmarks.ledgers [--write] [--only PATTERN] [--work FOLDER]

Every round is a cell that is kept as soon as it is done, and a later run goes on from there. A release appends a byte
to a file after its charge; a release without a charge is *lost budget*, and there must be none. What this machine lacks
(PostgreSQL, or the right to mount a small disk) is a line SKIPPED. ``--write`` puts the table into
docs/benchmarks-ledgers.md.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.frame import DOCS, Cells, Result, arguments, digest, machine, markdown
from benchmarks.postgres_server import Server, programs, server
from hockeystick.accounting import ZCDP, BudgetExceededError, DurableLedger, LedgerError, ZCDPFilter
from hockeystick.accounting.budgets import durable_ledger

EVENT = ZCDP(2.0**-20)
LARGE = ZCDPFilter(64.0)


# --- one round -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Yields a temporary folder on a disk, for what counts is what is on it."""
    with tempfile.TemporaryDirectory(prefix="hs-ledger-", dir=os.environ.get("TMPDIR")) as name:
        yield Path(name)


def spend(place: str, drawn: Path, ledger: DurableLedger | None = None) -> int:
    """Releases until the budget is spent or the process is killed; returns the number of releases."""
    ledger, count = ledger or DurableLedger.open(place), 0
    with drawn.open("ab", buffering=0) as file:
        while True:
            try:
                ledger.spend(EVENT, lambda: file.write(b"."))
                count += 1
            except BudgetExceededError:
                return count
            except LedgerError:
                time.sleep(0.01)  # a server that is restarted, say


def forked(run: Callable[[], object]) -> int:
    """Returns the process in which ``run`` runs."""
    child = os.fork()
    if child:
        return child
    status = 1
    with contextlib.suppress(BaseException):
        run()
        status = 0
    os._exit(status)


def outcome(place: str, drawn: Path, **more: Any) -> Result:
    """Returns how many releases and charges there are; the ledger is read and verified anew."""
    charges = DurableLedger.open(place).verify().number
    releases = drawn.stat().st_size if drawn.exists() else 0
    return {"releases": releases, "charges": charges, "lost": max(0, releases - charges), **more}


def killed(seed: int, kills: int, url: str | None = None) -> Result:
    """Four writers are killed at random moments, ``kills`` times, and replaced."""
    coins = random.Random(seed)
    with folder() as work:
        place, drawn = url or str(work / "budget.db"), work / "drawn"
        DurableLedger.create(place, LARGE)
        writers = [forked(lambda: spend(place, drawn)) for _ in range(4)]
        for _ in range(kills):
            time.sleep(coins.uniform(0.0, 0.03))
            victim = coins.randrange(4)
            os.kill(writers[victim], signal.SIGKILL)
            os.waitpid(writers[victim], 0)
            writers[victim] = forked(lambda: spend(place, drawn))
        for writer in writers:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
        return outcome(place, drawn, tried=kills + 4)


def shared(seed: int, processes: int, threads: int, url: str | None = None) -> Result:
    """Processes with threads, forked from one that has the ledger open, spend a budget to its end."""
    with folder() as work:
        place, drawn = url or str(work / "budget.db"), work / "drawn"
        ledger = DurableLedger.create(place, ZCDPFilter(1600 * EVENT.rho))

        def run() -> None:
            running = [threading.Thread(target=spend, args=(place, drawn, ledger)) for _ in range(threads)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()

        for child in [forked(run) for _ in range(processes)]:
            os.waitpid(child, 0)
        return outcome(place, drawn, tried=processes * threads, overspent=max(0, drawn.stat().st_size - 1600))


def forks(seed: int, count: int) -> Result:
    """Forks while another thread of the parent charges; each child releases three times with the parent's ledger."""
    with folder() as work:
        place, drawn = str(work / "budget.db"), work / "drawn"
        ledger, stop = DurableLedger.create(place, LARGE), threading.Event()

        def three(times: int = 3) -> None:
            with drawn.open("ab", buffering=0) as file:
                for _ in range(times):
                    ledger.spend(EVENT, lambda: file.write(b"."))

        def busy() -> None:
            while not stop.is_set():
                three(1)

        thread = threading.Thread(target=busy)
        thread.start()
        failed = sum(bool(os.waitpid(forked(three), 0)[1]) for _ in range(count))
        stop.set()
        thread.join()
        return outcome(place, drawn, tried=count, failed=failed)


def flipped(start: int, stop: int) -> Result:
    """Flips bits of some bytes of a ledger with three charges, one at a time; then reads and charges it.

    Of a byte that is 0, as in the empty part of a page, one bit is flipped; of every other byte all eight.
    """
    fast = "/dev/shm" if os.path.isdir("/dev/shm") else None  # nothing crashes here
    with tempfile.TemporaryDirectory(dir=fast) as name:
        path = Path(name) / "budget.db"
        ledger = DurableLedger.create(path, ZCDPFilter(1.0), who="me")
        for note in ("one", "two", "three"):
            ledger.reserve(ZCDP(0.125), note=note)
        data, tried, noticed, lost = path.read_bytes(), 0, 0, 0
        for at in range(start, min(stop, len(data))):
            for bit in range(8) if data[at] else [at % 8]:
                tried += 1
                for more in Path(name).iterdir():
                    more.unlink()
                path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
                try:
                    ledger = DurableLedger.open(path, timeout=0.0)
                    ledger.reserve(ZCDP(0.125))
                    lost += len(DurableLedger.open(path, timeout=0.0).charges()) != 4
                except LedgerError:
                    noticed += 1
        return {"tried": tried, "noticed": noticed, "lost": lost}


def small_disk(seed: int) -> Result:
    """Releases onto a disk of 1 MiB until it is full, then remounted to be read only, then writable with room again."""
    with folder() as work:
        disk, drawn = work / "disk", work / "drawn"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
        try:
            place, full = str(disk / "budget.db"), 0
            ledger = DurableLedger.create(place, LARGE)
            (disk / "other").write_bytes(b"x" * 800_000)
            with drawn.open("ab", buffering=0) as file:

                def release() -> bool:
                    try:
                        ledger.spend(EVENT, lambda: file.write(b"."), note="x" * 1000)
                    except LedgerError:
                        return False
                    return True

                while full < 20:
                    full += not release()
                subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
                refused, read = not release(), DurableLedger.open(place).verify().number
                subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
                (disk / "other").unlink()
                again = release()
            return outcome(place, drawn, tried=full + 1, right=refused and again and read > 0)
        finally:
            subprocess.run(["umount", disk], check=True)


_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def moved(seed: int) -> Result:
    """Deletes, replaces and puts back an open ledger's file, stops a holder of its lock, sets the clock back."""
    with folder() as work:
        path, drawn = work / "budget.db", work / "drawn"
        right = []

        def refuses(ledger: DurableLedger, words: str) -> None:
            try:
                ledger.reserve(EVENT)
                right.append(False)
            except LedgerError as error:
                right.append(words in str(error))

        ledger = DurableLedger.create(path, LARGE)
        ledger.reserve(EVENT)
        old = path.read_bytes()
        ledger.reserve(EVENT)
        path.write_bytes(old)
        refuses(ledger, "cut off")
        ledger = DurableLedger.open(path)
        (work / "copy").write_bytes(old)
        os.replace(work / "copy", path)
        refuses(ledger, "replaced")
        ledger = DurableLedger.open(path)
        path.unlink()
        refuses(ledger, "no such ledger")
        ledger = DurableLedger.create(path, LARGE)
        impatient = DurableLedger.open(path, timeout=0.2)
        words = [sys.executable, "-c", _HOLD, str(path)]
        holder = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.readline()
        os.kill(holder.pid, signal.SIGSTOP)
        refuses(impatient, f"process {holder.pid}" if sys.platform == "linux" else "another process")
        holder.kill()
        holder.wait()
        now = durable_ledger._now
        ledger.reserve(EVENT)
        durable_ledger._now = lambda: "1970-01-01T00:00:00+00:00"
        right.append(ledger.reserve(EVENT).number == 2)
        durable_ledger._now = now
        drawn.write_bytes(b"..")
        return outcome(str(path), drawn, tried=len(right), right=all(right))


def restarted(seed: int, times: int, running: Server, url: str) -> Result:
    """Two writers, while the server crashes and starts again, and connections are cut."""
    import psycopg

    coins = random.Random(seed)
    with folder() as work:
        drawn = work / "drawn"
        DurableLedger.create(url, LARGE)
        writers = [forked(lambda: spend(url, drawn)) for _ in range(2)]
        for number in range(times):
            time.sleep(coins.uniform(0.0, 0.2))
            if number % 10 == 9:
                running.stop()
                running.start()
                continue
            with contextlib.suppress(psycopg.Error), psycopg.connect(url.split("?")[0], autocommit=True) as db:
                db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        for writer in writers:
            os.kill(writer, signal.SIGKILL)
            os.waitpid(writer, 0)
        return outcome(url, drawn, tried=times + 2)


def pace(seconds: float, url: str | None = None) -> Result:
    """Two processes charge one ledger as fast as they can; beside it, one process inserts into a plain SQLite table."""
    with folder() as work:
        place, drawn = url or str(work / "budget.db"), work / "drawn"
        DurableLedger.create(place, LARGE)
        children = [forked(lambda: spend(place, drawn)) for _ in range(2)]
        time.sleep(seconds)
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        found = outcome(place, drawn, tried=2)
        db = sqlite3.connect(work / "plain.db", isolation_level=None)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT)")
        end, inserts = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            db.execute("INSERT INTO t (text) VALUES (?)", ("x" * 150,))
            inserts += 1
        db.close()
        return {**found, "each second": found["charges"] / seconds, "plain each second": inserts / seconds}


# --- all of them -----------------------------------------------------------------------------------------------------

_PAGE = """# Ledgers: faults, counted

**{lost} charges of {releases} releases were lost** to kills, crashes, forks, full disks, cut connections,
flipped bits and ledgers that were replaced while in use.

Written by `python -m benchmarks.ledgers --write`; edit that instead.

A *lost* charge is a release whose charge is not in the ledger: noise that was drawn and not paid for. There must be
none, whatever happens. More charges than releases are what a crash between the two leaves.

{machine}.

{table}

*Tried* counts kills, threads, forks, flipped bits, refused charges, or cut connections. A flipped bit that nobody
notices is in a place that no reader uses; no charge was lost by one. {skipped}

Charges a second of two processes that share one ledger, beside plain inserts of one process into a SQLite table
(`synchronous=FULL`; a ledger uses `EXTRA`, see [budgets](budgets.md#real-spending)):

{paces}
"""


def main() -> int:
    """Runs the faults, and returns 1 if a charge was lost or an error was not the right one."""
    parser = arguments("Faults of a durable ledger, counted.", page="benchmarks-ledgers.md", only="faults that match")
    options = parser.parse_args()
    file = options.work / "ledgers.jsonl"
    cells = Cells(file, digest("accounting/budgets", "benchmarks/ledgers.py"), quiet=False)
    skipped: list[str] = []
    rounds: dict[str, list[Result]] = {}
    paces: dict[str, Result] = {}

    def add(name: str, compute: Callable[..., Result], keys: list[dict[str, Any]]) -> None:
        if fnmatch.fnmatch(name, options.only or "*"):
            rounds[name] = [cells.one(compute, **key) for key in keys]
            print(name, _sum(rounds[name]), file=sys.stderr, flush=True)

    add("file: kill -9", killed, [{"seed": seed, "kills": 96} for seed in range(11)])
    add("file: 8 processes of 20 threads", shared, [{"seed": s, "processes": 8, "threads": 20} for s in range(2)])
    add("file: forks while a thread charges", forks, [{"seed": seed, "count": 50} for seed in range(2)])
    add("file: flipped bits", flipped, [{"start": at, "stop": at + 512} for at in range(0, 12288, 512)])
    add("file: replaced, kept by a stopped process, clock set back", moved, [{"seed": 0}])
    if os.geteuid() == 0 and sys.platform == "linux":
        add("file: full and read-only disk", small_disk, [{"seed": seed} for seed in range(2)])
    else:
        skipped.append("SKIPPED: full and read-only disk (only root may mount one).")
    paces["file"] = cells.one(pace, seconds=10.0)
    if programs() is None:
        skipped.append("SKIPPED: PostgreSQL (there is no server on this machine).")
    else:
        _on_postgres(add, paces, cells)
    table = markdown(
        "fault | tried | releases | charges | lost | noticed or refused as it should be",
        [[name, *_sum(found).values()] for name, found in rounds.items()],
    )
    columns = "ledger | charges a second | plain inserts a second | ratio"
    speeds = [
        [name, round(p["each second"]), round(p["plain each second"]), p["plain each second"] / p["each second"]]
        for name, p in paces.items()
    ]
    page = _PAGE.format(
        machine=machine(),
        table=table,
        skipped=" ".join(skipped),
        paces=markdown(columns, speeds),
        lost=f"{sum(_sum(found)['lost'] for found in rounds.values()):,}",
        releases=f"{sum(_sum(found)['releases'] for found in rounds.values()):,}",
    ).replace(" \n", "\n")
    print(page)
    if options.write:
        (DOCS / "benchmarks-ledgers.md").write_text(page, encoding="utf-8")
    bad = any(_sum(found)["lost"] or _sum(found)["right"] == "NO" for found in rounds.values())
    return int(bad or any(p["plain each second"] > 3 * p["each second"] for p in paces.values() if p is paces["file"]))


def _on_postgres(add: Callable[..., None], paces: dict[str, Result], cells: Cells) -> None:
    with server() as running:
        # A result belongs to its round; the address, which changes, is no part of its key.
        def at(name: str) -> str:
            return f"{running.url}/postgres?ledger={name}{time.time_ns()}"

        def pg_killed(seed: int, kills: int) -> Result:
            return killed(seed, kills, at("kill"))

        def pg_shared(seed: int, processes: int, threads: int) -> Result:
            return shared(seed, processes, threads, at("share"))

        def pg_restarted(seed: int, times: int) -> Result:
            return restarted(seed, times, running, at("restart"))

        def pg_pace(seconds: float) -> Result:
            return pace(seconds, at("pace"))

        add("PostgreSQL: kill -9", pg_killed, [{"seed": seed, "kills": 96} for seed in range(2)])
        add("PostgreSQL: 8 processes of 5 threads", pg_shared, [{"seed": 0, "processes": 8, "threads": 5}])
        add("PostgreSQL: crashes and cut connections", pg_restarted, [{"seed": s, "times": 100} for s in range(2)])
        paces["PostgreSQL"] = cells.one(pg_pace, seconds=10.0)


def _sum(found: list[Result]) -> dict[str, Any]:
    total = {name: sum(one.get(name, 0) for one in found) for name in ("tried", "releases", "charges", "lost")}
    wrong = any(one.get("right") is False or one.get("failed") or one.get("overspent") for one in found)
    noticed = sum(one.get("noticed", 0) for one in found)
    return {**total, "right": "NO" if wrong else f"{noticed} noticed" if noticed else "yes"}


if __name__ == "__main__":
    raise SystemExit(main())
