"""The evidence ledger: one long audit over many runs, in a file that nothing spoils."""

from __future__ import annotations

import json
import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.budgets.stores.rows import LedgerError
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
    return tmp_path / "evidence.json"


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


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_write_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    ledger = EvidenceLedger(path)
    add(ledger, rng=1)
    before = path.read_bytes()
    for error, seen in ((OSError("disk full"), LedgerError), (KeyboardInterrupt(), KeyboardInterrupt)):

        def fails(*_: object, error: BaseException = error) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, step, fails)
            with pytest.raises(seen):
                add(ledger, rng=2)
        assert path.read_bytes() == before
    assert {own.name for own in path.parent.iterdir()} <= {path.name, path.name + ".lock"}
    add(ledger, rng=2)
    assert ledger.evidence()[0].runs == 2


def changed(path: Path, **values: object) -> str:
    plain = json.loads(path.read_text())
    plain["body"]["evidence"][0].update(values)
    return json.dumps(plain)


def test_files_that_are_damaged_foreign_or_newer_are_refused_and_kept(path: Path) -> None:
    add(EvidenceLedger(path), rng=1)
    good = path.read_text()
    newer = json.dumps({**json.loads(good), "schema": 2})
    spoilt = ["", "{", "[]", "null", "3", '{"kind": "cake", "schema": 1}', newer, good[:-20], "[" * 100_000]
    for text in [*spoilt, changed(path, log_wealth=-5.0), changed(path, seeds=[])]:
        path.write_text(text)
        with pytest.raises(LedgerError):
            EvidenceLedger(path)
        assert path.read_text() == text
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LedgerError):
        EvidenceLedger(path)
    path.write_text(good)
    with pytest.raises(LedgerError, match="alpha"):
        EvidenceLedger(path, alpha=0.01)
    EvidenceLedger(path)


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
    alone = [EvidenceLedger(path.with_name(f"alone{seed}.json")) for seed in (1, 2)]
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
    ledger._write((own,))
    carried = module._carried(ledger.evidence()[0])
    later = Game(Claim(1.0), np.array([0.5]), np.full(2, math.inf), carried.log_money, carried.runs)
    after = events.after((pairs[0][:, :cut], pairs[1][:, :cut]))
    later.change(after)
    whole.change(after)
    play(later, slice(cut, None))
    play(whole, slice(cut, None))
    assert later.log_totals[0] == pytest.approx(whole.log_totals[0], abs=1e-9)
    os.unlink(path)
