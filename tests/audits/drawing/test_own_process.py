"""Targets with a time limit: a call that hangs or crashes ends the audit, and nothing else is changed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import hockeystick as hs
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import TargetError, Verdict, audit, search_neighbours, sequential_audit
from hockeystick.audits.drawing import draws, own_process
from hockeystick.audits.drawing.own_process import OwnProcess, limited
from hockeystick.audits.targets.calling import Target, TargetEndedError

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="a limit needs POSIX timers")

LONG = 600.0  # seconds: no call of a sound target comes near, on whatever machine
SHORT = 2.0  # seconds


def single(data: float, rng: np.random.Generator) -> Any:
    warnings.warn("as often as it likes", UserWarning, stacklevel=1)
    return None if rng.random() < 0.2 else data + rng.laplace(scale=0.5)


def vectorised(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + rng.laplace(scale=0.5, size=runs)


def hanging(data: float, rng: np.random.Generator) -> float:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1000)


def hanging_in_c(data: float, rng: np.random.Generator) -> float:
    return float(ctypes.PyDLL(None).sleep(1000))  # without letting any other thread run


def crashing(data: float, rng: np.random.Generator) -> bytes:
    return ctypes.string_at(0)


def leaving(data: float, rng: np.random.Generator) -> None:
    ctypes.CDLL(None)._exit(0)


def growing(data: list[int], rng: np.random.Generator) -> float:
    data.append(1)
    return len(data) + rng.random()


def unsendable(data: float, rng: np.random.Generator) -> Any:
    return (i for i in range(3))


def result(verdict: Verdict) -> dict[str, Any]:
    return {name: value for name, value in attrs.asdict(verdict).items() if name != "seconds"}


def tried(target: Any, timeout: float | None = SHORT, neighbours: Any = (0.0, 1.0), **options: Any) -> Verdict:
    given: dict[str, Any] = {"claim": (1.0, 0.0), "samples": 200, "rng": 5} | options
    return audit(target, neighbours=neighbours, timeout=timeout, **given)


@pytest.mark.statistical
@pytest.mark.parametrize("target", [single, vectorised])
def test_a_limit_that_is_kept_changes_no_output(target: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = result(tried(target, None))
        assert result(tried(target, LONG)) == found
        if target is single:
            assert result(tried(target, LONG, workers=2)) == found


@pytest.mark.statistical
def test_warnings_of_the_other_process_are_shown_once() -> None:
    with warnings.catch_warnings(record=True, action="always") as shown:
        tried(single, LONG)
    assert [str(one.message) for one in shown if "often" in str(one.message)] == ["as often as it likes"]


LATE = "took longer than 2 s in one call"


@pytest.mark.statistical
@pytest.mark.parametrize("target", [hanging, hanging_in_c])
def test_a_call_that_hangs_ends_the_audit(target: Any) -> None:
    with pytest.raises(TargetEndedError, match=LATE):
        tried(target)


@pytest.mark.statistical
def test_a_call_that_hangs_ends_every_audit() -> None:
    with pytest.raises(TargetEndedError, match=LATE):
        tried(hanging, exceptions_as_output=True, workers=2)
    with pytest.raises(TargetEndedError, match=LATE):
        sequential_audit(hanging, claim=(1.0, 0.0), neighbours=(0.0, 1.0), timeout=SHORT)
    adjacency = hs.accounting.Adjacency.REPLACE_ONE
    with pytest.raises(TargetEndedError, match=LATE):
        search_neighbours(hanging, hs.audits.Answers(), hs.Claim(1.0), adjacency=adjacency, timeout=SHORT)
    with pytest.raises(TargetEndedError, match=LATE):
        hs.replay(hanging, 0.0, 1.0, epsilon=1.0, timeout=SHORT)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("target", "told"),
    [
        (crashing, "ended by signal SIGSEGV"),
        (leaving, "ended its process with status 0"),
        (unsendable, "can't be sent from its process"),
    ],
)
def test_a_call_that_ends_its_process_ends_the_audit(target: Any, told: str) -> None:
    with pytest.raises(TargetError, match=told):
        tried(target, LONG)


class Total:
    """A mechanism that draws many runs."""

    def simulate(self, data: list[float], rng: np.random.Generator, runs: int) -> Any:
        return hs.mechanisms.Laplace(scale=0.5).simulate(float(sum(data)), rng, runs)


def slipping(data: list[float], rng: np.random.Generator) -> Any:
    noisy = hs.mechanisms.Laplace(200.0, sensitivity=100.0).simulate(np.clip(data, 0, 103).sum(), rng, 1)
    return noisy[0]


def raising(data: list[float], rng: np.random.Generator) -> Any:
    raise ValueError(data)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(slipping, marks=pytest.mark.deep),
        pytest.param(Total(), marks=pytest.mark.deep),
        lambda x, rng: sum(x) + rng.laplace(),
    ],
)
def test_a_limit_that_is_kept_changes_no_replay(algorithm: Any) -> None:
    def replayed(timeout: float | None) -> dict[str, Any]:
        found = hs.replay(algorithm, [30.0, 52.0, 110.0], [30.0, 52.0], epsilon=0.5, seed=1, timeout=timeout)
        return {name: value for name, value in found.to_dict().items() if name != "seconds"}

    here = replayed(None)
    assert replayed(LONG) == here
    assert here["outcome"] == "violation"
    assert "test_own_process.py" in here["mechanisms"][0]["where"]  # files keep their names in the other process


@pytest.mark.statistical
def test_an_algorithm_that_fails_fails_its_replay() -> None:
    with pytest.raises(TargetError, match=r"raised ValueError on d0 at .*test_own_process.py"):
        hs.replay(raising, [1.0], [2.0], epsilon=1.0, timeout=LONG)
    with pytest.raises(TargetEndedError, match="SIGSEGV"):
        hs.replay(crashing, 0.0, 1.0, epsilon=1.0, timeout=LONG)
    with pytest.raises(hs.InvalidDataError, match="d0"):
        hs.replay(growing, [1], [1, 2], epsilon=1.0, timeout=LONG)
    with pytest.raises(InvalidArgumentError, match="^timeout=-1"):
        hs.replay(single, 0.0, 1.0, epsilon=1.0, timeout=-1)


@pytest.mark.statistical
def test_trainings_that_hang_end_an_audit_of_membership_also_those_of_shadows() -> None:
    canary = hs.audits.Examples([[1.0]])
    pair = hs.audits.membership_pair(hs.audits.Examples([[0.0], [0.0]]), canary)

    def summed(examples: hs.audits.Examples, rng: np.random.Generator) -> float:
        return float(examples.features.sum() + rng.laplace(scale=0.5))

    def hangs(examples: Any, rng: np.random.Generator) -> float:
        time.sleep(1000)
        return 0.0

    def audited(train: Any, attack: Any, timeout: float | None) -> Verdict:
        options: dict[str, Any] = {"samples": 200, "rng": 1, "attack": attack, "timeout": timeout}
        return hs.audits.audit_membership(train, canary, pair, hs.Claim(0.5), **options)

    assert result(audited(summed, float, LONG)) == result(audited(summed, float, None))
    for attack in ("loss", "lira"):
        with pytest.raises(TargetEndedError, match="took longer than 2 s"):
            audited(hangs, attack, SHORT)


@pytest.mark.statistical
def test_a_target_that_changes_its_input_is_noticed_in_the_other_process() -> None:
    with pytest.raises(TargetError, match="changes its input"):
        tried(growing, LONG, neighbours=([1], [1, 2]))


@pytest.mark.statistical
def test_outputs_above_the_stated_size_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = own_process._packed_answer(b"x" * 1000)
    monkeypatch.setattr(own_process, "MOST_BYTES", 1000)
    refused = pickle.loads(own_process._packed_answer(b"x" * 1000))
    assert pickle.loads(answer) == b"x" * 1000
    assert isinstance(refused, TargetError) and "above the 1,000 of an audit" in str(refused)


@pytest.mark.statistical
def test_what_was_counted_before_a_call_hung_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_PILOT_SECONDS", 1e-6)  # so that each call is a piece of its own
    block, file = tmp_path / "block", tmp_path / "saved"

    def blocked(data: float, rng: np.random.Generator, runs: int) -> Any:
        while block.exists():
            time.sleep(0.01)
        return data + rng.laplace(scale=0.5, size=runs)

    def progress(so_far: int, total: int) -> None:
        if so_far > total // 2:
            block.touch()

    options = {"samples": 60_000, "first_look": False, "confidence": 0.99}
    with pytest.raises(TargetEndedError):
        tried(blocked, checkpoint=file, progress=progress, **options)
    block.unlink()
    assert file.exists()
    first: list[int] = []
    resumed = tried(blocked, LONG, checkpoint=file, progress=lambda done, _: first.append(done), **options)
    assert result(resumed) == result(tried(blocked, None, **options))
    assert first[0] > 20_000  # the choosing samples, at least, were not drawn again


@pytest.mark.statistical
def test_what_can_t_be_sent_is_refused_before_anything_is_drawn() -> None:
    held = threading.Lock()

    def holding(data: float, rng: np.random.Generator) -> float:
        return rng.random() + held.locked()

    with pytest.raises(InvalidArgumentError, match="timeout='TypeError': needs a target and data that can be pickled"):
        tried(holding)
    for bad in (0.0, -1.0, float("nan"), True):
        with pytest.raises(InvalidArgumentError, match="^timeout="):
            tried(single, bad)


@pytest.mark.statistical
def test_the_process_ends_with_the_target() -> None:
    target = limited(Target.of(vectorised), LONG)
    assert isinstance(target.elsewhere, OwnProcess)
    target.outputs(0.0, np.random.default_rng(1), 3)
    child = target.elsewhere._child
    assert child is not None and child._process.poll() is None
    process = child._process
    del target, child
    assert process.wait(60) == -signal.SIGKILL


@pytest.mark.statistical
def test_a_call_that_hangs_ends_after_its_caller_was_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"""
import os, time, hockeystick as hs
def hang(data, rng):
    with open({str(pid)!r}, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(1000)
hs.audit(hang, claim=(1.0, 0.0), neighbours=(0, 1), samples=20, timeout=5.0)
"""
    caller = subprocess.Popen([sys.executable, "-c", script])
    while not (pid.exists() and pid.read_text()):
        assert caller.poll() is None
        time.sleep(0.05)
    caller.kill()
    caller.wait()
    number = int(pid.read_text())
    for _ in range(1200):
        if not alive(number):
            break
        time.sleep(0.05)
    assert not alive(number)


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return not Path("/proc/self").exists()
    return status.rpartition(")")[2].split()[0] != "Z"
