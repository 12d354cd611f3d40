"""The evidence ledger: one long audit over many runs, in a file that nothing spoils."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.budgets.stores.rows import LedgerError
from hockeystick.accounting.files.records import RecordFile
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.sequential import evidence_ledger as module
from hockeystick.audits.sequential.events import FixedEvents
from hockeystick.audits.sequential.evidence_ledger import Evidence, EvidenceLedger, RepeatedSeedError, e_bh
from hockeystick.audits.sequential.game import Game
from hockeystick.audits.targets.calling import TargetError

PAIR = (0.0, 1.0)


def fair(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return value + rng.laplace(size=runs)


def half(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return value + rng.laplace(scale=0.5, size=runs)


def above(outputs: np.ndarray) -> np.ndarray:
    return outputs >= 1.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evidence.db"


def add(ledger: EvidenceLedger, name: str = "sum", target: Any = fair, **arguments: Any) -> Any:
    given = {"claim": Claim(1.0), "neighbours": PAIR, "samples": 60, "events": above, **arguments}
    return ledger.audit(name, target, **given)


def test_evidence_accumulates_over_runs_that_are_too_short_alone(path: Path) -> None:
    for seed in range(20):
        ledger = EvidenceLedger(path)
        verdict = add(ledger, target=half, rng=seed)
        if verdict.refuted:
            break
    (found,) = ledger.evidence()
    assert found.alarmed and found.alarmed_in == found.runs == seed + 1 > 2
    assert found.log_wealth_best >= math.log(1 / found.alpha)
    assert found.seeds == tuple(range(seed + 1)) and found.pending == ()
    assert found.samples <= 60 * found.runs
    assert add(ledger, target=fair, rng=100).refuted  # an alarm lasts


@pytest.mark.statistical
def test_a_true_claim_is_left_alone(path: Path) -> None:
    ledger = EvidenceLedger(path)
    for seed in range(10):
        assert not add(ledger, rng=seed).refuted
    (found,) = ledger.evidence()
    assert found.runs == 10 and found.trials == 600 and not found.alarmed and found.detections == ()


def test_a_seed_counts_once_per_key(path: Path) -> None:
    ledger = EvidenceLedger(path)
    add(ledger, rng=7)
    before = path.read_bytes()
    with pytest.raises(RepeatedSeedError, match="7"):
        add(ledger, rng=7)
    assert path.read_bytes() == before
    add(ledger, name="another", rng=7)
    add(ledger, rng=7, claim=Claim(1.1))
    ledger.restart("sum")
    with pytest.raises(RepeatedSeedError):
        add(ledger, rng=7)


def test_levels_are_spent_in_order_of_registration(path: Path) -> None:
    ledger = EvidenceLedger(path, alpha=0.01)
    for seed, name in enumerate(("a", "b", "a", "c")):
        add(ledger, name=name, rng=seed)
    found = ledger.evidence()
    assert [own.name for own in found] == ["a", "b", "c"]
    for k, own in enumerate(found, 1):
        assert own.number == k and own.alpha == pytest.approx(0.01 * 6 / (math.pi * k) ** 2, rel=1e-12)
    assert sum(0.01 * 6 / (math.pi * k) ** 2 for k in range(1, 100_000)) < 0.01


def test_a_key_starts_again_at_a_smaller_level(path: Path) -> None:
    ledger = EvidenceLedger(path)
    assert add(ledger, target=half, samples=2000, rng=1).refuted
    ledger.restart("sum")
    assert not add(ledger, target=fair, rng=2).refuted
    old, new = ledger.evidence()
    assert old.alarmed and old.closed and not new.alarmed
    assert new.number == 2 and new.runs == 1 and new.alpha < old.alpha
    with pytest.raises(InvalidArgumentError):
        ledger.restart("nothing")


def test_a_run_that_breaks_off_is_pending_and_can_be_made_again(path: Path) -> None:
    ledger = EvidenceLedger(path)
    add(ledger, rng=1)
    known = ledger.evidence()[0]

    def breaks(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        raise ValueError("no")

    with pytest.raises(TargetError):
        add(ledger, target=breaks, rng=2)
    assert ledger.evidence()[0] == evolve(known, pending=(2,))
    add(ledger, rng=2)
    assert ledger.evidence()[0].pending == () and ledger.evidence()[0].seeds == (1, 2)


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_write_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    ledger, connect = EvidenceLedger(path), sqlite3.connect
    add(ledger, rng=1)
    before = ledger.evidence()

    class Failing(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if arguments[0].startswith("UPDATE"):
                raise error
            return super().execute(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Failing))
        with pytest.raises(LedgerError if isinstance(error, Exception) else KeyboardInterrupt):
            add(ledger, rng=2)
    assert ledger.evidence() == before and [own.name for own in path.parent.iterdir()] == [path.name]
    add(ledger, rng=2)
    assert ledger.evidence()[0].runs == 2


KILLED = """
import os, signal, sys
import numpy as np
from hockeystick.audits import Claim, EvidenceLedger

left = int(sys.argv[2])

def target(value, rng, runs):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return value + rng.laplace(size=runs)

def above(outputs):
    return outputs >= 1.0

for seed in range(100):
    EvidenceLedger(sys.argv[1]).audit(
        "sum", target, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=20, events=above, rng=seed)
    print(seed, flush=True)
"""


@pytest.mark.statistical
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_runs_that_ended_before_a_kill_count_and_the_last_one_is_pending(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), "100"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    said = tuple(map(int, done.stdout.split()))
    (found,) = EvidenceLedger(path).evidence()
    assert said and found.seeds == said and found.pending == (len(said),)
    add(EvidenceLedger(path), samples=20, rng=len(said))
    assert EvidenceLedger(path).evidence()[0].pending == ()


def resealed(path: Path, **values: object) -> None:
    """Changes the first key, with digests that fit."""
    file = RecordFile(path, module.KIND, timeout=1.0)
    file.change(
        lambda records: {"key 000000001": json.dumps({**json.loads(records["key 000000001"]), **values}).encode()}
    )


@pytest.mark.parametrize(
    "values",
    [
        {"log_wealth": "much"}, {"log_wealth": math.nan}, {"alpha": 7}, {"closed": 1}, {"seeds": 3}, {"money": [1.0]},
        {"claim": [[1.0]]}, {"counts": [[1, -1]]}, {"number": 2}, {"more": 1}, {"name": None}, {"pending": [-1]},
    ],
)  # fmt: skip
def test_keys_that_are_well_written_and_wrong_are_refused(path: Path, values: dict[str, object]) -> None:
    add(EvidenceLedger(path), rng=1)
    resealed(path, **values)
    with pytest.raises(LedgerError, match="damaged"):
        EvidenceLedger(path)


def test_files_that_are_damaged_foreign_or_of_another_version_are_refused_and_kept(path: Path) -> None:
    add(EvidenceLedger(path), rng=1)
    good = path.read_bytes()
    at = good.index(b'"log_wealth"') + 15
    changed = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
    for content in (b"{", b"\xff\xfe\x00", b"[" * 100_000, good[:-200], good[:4096], changed):
        path.write_bytes(content)
        with pytest.raises(LedgerError):
            EvidenceLedger(path)
        assert path.read_bytes() == content
    path.write_bytes(good)
    with pytest.raises(LedgerError, match="alpha"):
        EvidenceLedger(path, alpha=0.01)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 3")
    db.close()
    with pytest.raises(LedgerError, match="has schema 3; this version reads 2"):
        EvidenceLedger(path)
    with pytest.raises(LedgerError, match="no such|can't be made"):
        add(EvidenceLedger(path.parent / "none" / "e.db"), rng=1)
    with pytest.raises(InvalidArgumentError):
        EvidenceLedger("a\0b")


def test_many_processes_may_make_one_ledger(path: Path) -> None:
    made: list[object] = []

    def run(seed: int) -> None:
        try:
            made.append(add(EvidenceLedger(path), samples=20, rng=seed).samples)
        except Exception as error:  # shown by the assertion
            made.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [20] * 4 and EvidenceLedger(path).evidence()[0].runs == 4


def document(entries: tuple[Evidence, ...], **changes: object) -> str:
    """The file of the first version."""
    body = {"alpha": 1e-6, "evidence": [attrs.asdict(own) for own in entries]}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({"kind": "hockeystick evidence", "schema": 1, "digest": digest, "body": body, **changes})


def test_a_ledger_of_an_earlier_version_is_moved_once(path: Path) -> None:
    add(EvidenceLedger(path), rng=1)
    known = EvidenceLedger(path).evidence()
    old, new = path.with_name("old.json"), path.with_name("new.db")
    old.write_text(document(known))
    with pytest.raises(LedgerError, match=r"earlier version: hockeystick ledger import .*old\.json NEW"):
        EvidenceLedger(old)
    with pytest.raises(LedgerError, match="exists"):
        EvidenceLedger.import_text(old, path)
    assert EvidenceLedger.import_text(old, new).evidence() == known
    assert not old.exists() and old.with_name("old.json.imported").exists()
    with pytest.raises(RepeatedSeedError):
        add(EvidenceLedger(new), rng=1)
    with pytest.raises(LedgerError, match="no such file"):
        EvidenceLedger.import_text(old, path.with_name("more.db"))


@pytest.mark.parametrize(
    "changes", [{"digest": ""}, {"kind": "cake"}, {"schema": 2}, {"body": {}}, {"body": 3}, {"kind": None}]
)
def test_a_damaged_ledger_of_an_earlier_version_is_not_moved(path: Path, changes: dict[str, object]) -> None:
    old = path.with_name("old.json")
    for text in (document((), **changes), "{", "[]", "[" * 9999):
        old.write_text(text)
        with pytest.raises(LedgerError):
            EvidenceLedger.import_text(old, path)
        assert old.read_text() == text and not path.exists()


@pytest.mark.parametrize(
    "arguments", [{"alpha": 0.0}, {"alpha": math.nan}, {"alpha": True}, {"average_run_length": 0.5}]
)
def test_bad_arguments_are_refused(path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        EvidenceLedger(path, **arguments)
    for bad in ({"name": ""}, {"name": 3}, {"samples": 19}, {"rng": -1}, {"claim": "x"}):
        with pytest.raises(InvalidArgumentError):
            add(EvidenceLedger(path), **bad)
    assert not path.exists()


def test_runs_that_overlap_all_count(path: Path) -> None:
    """Two runs of a key, the second inside the first: factors multiply."""
    alone = [EvidenceLedger(path.with_name(f"alone{seed}.db")) for seed in (1, 2)]
    for seed, ledger in enumerate(alone, 1):
        add(ledger, target=half, rng=seed)
    ledger = EvidenceLedger(path)
    inside: list[threading.Thread] = []

    def slow(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        if not inside:
            inside.append(threading.Thread(target=add, args=(EvidenceLedger(path),), kwargs={"target": half, "rng": 2}))
            inside[0].start()
            inside[0].join()
        return half(value, rng, runs)

    add(ledger, target=slow, rng=1)
    (found,) = ledger.evidence()
    assert found.runs == 2 and set(found.seeds) == {1, 2} and found.pending == ()
    total = sum(own.evidence()[0].log_wealth for own in alone)
    assert found.log_wealth == pytest.approx(total, abs=1e-9)
    add(ledger, rng=3)


@pytest.mark.statistical
def test_the_detector_sees_a_late_change_before_the_wealth_does(path: Path) -> None:
    ledger = EvidenceLedger(path, average_run_length=100.0)
    for seed in range(12):
        add(ledger, rng=seed)
    sunk = ledger.evidence()[0]
    assert sunk.log_wealth < 0.5 and sunk.detections == ()
    for seed in range(100, 160):
        add(ledger, target=half, rng=seed)
        if ledger.evidence()[0].detections:
            break
    found = ledger.evidence()[0]
    assert len(found.detections) == 1 and found.detections[0] == found.runs and not found.alarmed
    assert found.log_detector is None


def test_the_detector_by_hand(path: Path) -> None:
    ledger, d, wealth = EvidenceLedger(path, average_run_length=1e9), 0.0, 0.0
    for seed in range(5):
        add(ledger, target=half, rng=seed)
        found = ledger.evidence()[0]
        d = (d + 1) * math.exp(found.log_wealth - wealth)
        wealth = found.log_wealth
        assert found.log_detector == pytest.approx(math.log(d), abs=1e-9)


def test_the_average_run_length_by_enumeration() -> None:
    """Run factors 0.5 or 2 (with probabilities 2/3, 1/3, mean 1): the mean run length is at least the threshold."""
    for threshold in (2.0, 4.0):
        alive, length = {0.0: 1.0}, 0.0
        for _ in range(120):
            length += sum(alive.values())
            after: dict[float, float] = {}
            for d, weight in alive.items():
                for factor, chance in ((0.5, 2 / 3), (2.0, 1 / 3)):
                    new = round((d + 1) * factor, 2)
                    if new < threshold:
                        after[new] = after.get(new, 0.0) + weight * chance
            alive = after
        assert length >= threshold


def test_e_bh_by_hand() -> None:
    keys = [
        Evidence(str(i), ((1.0, 0.0),), "", i, 0.1, log_wealth=math.log(w)) for i, w in enumerate((45, 1, 30, 19, 5), 1)
    ]
    assert [own.name for own in e_bh(tuple(keys), 0.1)] == ["1", "3", "4"]  # needed: 50, 25, 16.7, 12.5, 10
    assert e_bh((), 0.1) == ()
    assert e_bh((keys[1],), 0.1) == ()
    with pytest.raises(InvalidArgumentError):
        e_bh(tuple(keys), 0.0)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), cut=st.integers(1, 79))
def test_going_on_from_the_file_is_one_long_run(path: Path, seed: int, cut: int) -> None:
    """The money and counts of a game, written and read in between, end as those of a game that went on."""
    rng = np.random.default_rng(seed)
    pairs = rng.random((2, 1, 80)) < np.array([0.5, 0.2])[:, None, None]
    events = FixedEvents(("a",), np.zeros((1, 2), dtype=np.int64), 0)

    def play(game: Game, part: slice) -> None:
        game.settle((pairs[0][:, part], pairs[1][:, part]))

    whole = Game(Claim(1.0), np.array([0.5]), np.full(2, math.inf))
    whole.change(events)
    play(whole, slice(cut))
    assert whole.log_money is not None
    kept = tuple(None if math.isinf(m) else m for m in whole.log_money[0].ravel().tolist())
    own = Evidence("n", ((1.0, 0.0),), "", 1, 0.1, log_wealth=float(whole.log_totals[0]), runs=1, money=kept)
    ledger = EvidenceLedger(path)
    ledger._file.ensure(module._records(ledger.alpha, (own,)))
    carried = module._carried(ledger.evidence()[0])
    later = Game(Claim(1.0), np.array([0.5]), np.full(2, math.inf), carried.log_money, carried.runs)
    after = events.after((pairs[0][:, :cut], pairs[1][:, :cut]))
    later.change(after)
    whole.change(after)
    play(later, slice(cut, None))
    play(whole, slice(cut, None))
    assert later.log_totals[0] == pytest.approx(whole.log_totals[0], abs=1e-9)
    os.unlink(path)
