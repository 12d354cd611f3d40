"""Targets that would end the program: an audit ends with an error, and everybody else leaves as ever."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hockeystick as hs
from hockeystick.audits import TargetError, audit, search_neighbours, sequential_audit
from hockeystick.audits.targets.calling import TargetEndedError, ends_refused
from hockeystick.audits.targets.program_ends import ExitCalled, kept_alive


def leaving(_: Any, rng: np.random.Generator) -> None:
    sys.exit(0)


def closing(_: Any, rng: np.random.Generator) -> None:
    raise GeneratorExit


def interrupting(_: Any, rng: np.random.Generator) -> None:
    raise KeyboardInterrupt


def exiting(_: Any, rng: np.random.Generator, runs: int) -> None:
    os._exit(0)


ENDS: list[tuple[Callable[..., Any], str]] = [
    (leaving, "raised SystemExit"),
    (closing, "raised GeneratorExit"),
    (interrupting, "raised KeyboardInterrupt"),
    (exiting, r"called os._exit\(0\)"),
]


@pytest.mark.parametrize(("target", "told"), ENDS)
def test_every_audit_ends_with_an_error_when_a_target_would_end_the_program(target: Any, told: str) -> None:
    options: dict[str, Any] = {"claim": hs.Claim(1.0), "neighbours": (0, 1), "rng": 1}
    caught: dict[str, Any] = {} if target is exiting else {"exceptions_as_output": True}
    with pytest.raises(TargetEndedError, match=told):
        audit(target, samples=200, **options, **caught)
    with pytest.raises(TargetEndedError, match=told):
        audit(target, samples=200, method="coin walk", **options)
    with pytest.raises(TargetEndedError, match=told):
        audit(target, samples=200, workers=2, backend="threading", **options)
    with pytest.raises(TargetEndedError, match=told):
        sequential_audit(target, **options)
    with pytest.raises(TargetEndedError, match=told):
        search_neighbours(
            target, hs.audits.Answers(), hs.Claim(1.0), adjacency=hs.accounting.Adjacency.REPLACE_ONE, rng=1
        )
    with pytest.raises(TargetEndedError, match=told):
        hs.replay(target, [0], [1], epsilon=1.0, seed=1)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals")
def test_ctrl_c_is_no_fault_of_the_target() -> None:
    with pytest.raises(KeyboardInterrupt), ends_refused():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), ends_refused(), ends_refused():
        signal.raise_signal(signal.SIGINT)


def test_a_handler_of_the_users_own_stays_and_its_interruption_too() -> None:
    def own(*_: Any) -> None:
        raise KeyboardInterrupt("mine")

    before = signal.signal(signal.SIGINT, own)
    try:
        with pytest.raises(KeyboardInterrupt, match="mine"), ends_refused():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_and_forked_processes_leave_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr("hockeystick.audits.targets.program_ends._real_exit", left.append)
    before = os._exit
    with kept_alive():
        other = threading.Thread(target=os._exit, args=(3,))
        other.start()
        other.join()
        with pytest.raises(ExitCalled):
            os._exit(4)
    assert left == [3]
    os._exit = before


@pytest.mark.statistical
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
def test_a_process_that_a_target_forks_ends_with_its_own_status() -> None:
    def forking(_: Any, rng: np.random.Generator) -> float:
        process = multiprocessing.get_context("fork").Process(target=lambda: None)
        process.start()
        process.join()
        assert process.exitcode == 0
        return rng.random()

    verdict = audit(forking, claim=(1.0, 0.0), neighbours=(0, 1), samples=20, rng=1)
    assert not verdict.refuted and os._exit.__module__ == "posix"


def test_an_exception_without_a_text_is_reported_as_such() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    class Long(Exception):
        def __str__(self) -> str:
            return "x" * 10**7

    def raising(error: type[Exception]) -> Callable[..., Any]:
        def call(_: Any, rng: np.random.Generator) -> None:
            raise error

        return call

    for error, told in ((Mute, "Mute: its text can't be read"), (Long, "Long: xxx")):
        with pytest.raises(TargetError, match=told) as found:
            audit(raising(error), claim=(1.0, 0.0), neighbours=(0, 1), samples=20, rng=1)
        assert len(str(found.value)) < 600
