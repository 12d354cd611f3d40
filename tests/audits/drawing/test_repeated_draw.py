"""A target with random numbers of its own is noticed, at the cost of a few calls."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from hockeystick.audits import Claim, audit
from hockeystick.audits.drawing.repeated_draw import repeats
from hockeystick.audits.targets.recorded import Recorded
from hockeystick.mechanisms import Laplace

OWN = "own source of random numbers"


def by_rng(data: float, rng: np.random.Generator) -> float:
    return data + rng.laplace()


def by_batch(data: float, rng: np.random.Generator, runs: int) -> Any:
    return {"sum": data + rng.laplace(size=runs), "zero": np.zeros((runs, 2))}


def own_random_numbers(data: float, rng: np.random.Generator) -> float:
    return data + np.random.default_rng().laplace()


def own_batch(data: float, rng: np.random.Generator, runs: int) -> Any:
    return data + np.random.default_rng().laplace(size=runs)


@pytest.mark.parametrize("target", [by_rng, by_batch, Laplace(scale=1.0)])
def test_random_numbers_of_the_generator_repeat(target: Any) -> None:
    assert repeats(target, 0.0, seed=1)


@pytest.mark.parametrize("target", [own_random_numbers, own_batch])
def test_own_random_numbers_do_not_repeat_and_the_verdict_says_so(target: Any) -> None:
    assert not repeats(target, 0.0, seed=1)
    verdict = audit(target, claim=Claim(4.0), neighbours=(0.0, 1.0), samples=40, rng=1)
    assert sum(OWN in warning for warning in verdict.warnings) == 1


def test_where_it_is_stated_or_recorded_nothing_is_drawn() -> None:
    class Stated:
        repeatable = True

        def simulate(self, value: float, rng: np.random.Generator, runs: int) -> Any:
            raise AssertionError("drawn")

    recorded = Recorded(*np.random.default_rng(1).random((2, 40)))
    assert repeats(Stated(), 0.0, seed=1)
    assert repeats(recorded, recorded.worst_case_neighbours()[0], seed=1) and recorded.left == 40


def test_a_slow_target_is_called_once_and_a_raising_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 2))
    calls = []

    def slow(data: float, rng: np.random.Generator) -> float:
        calls.append(data)
        return float(len(calls))

    def raises(data: float, rng: np.random.Generator) -> float:
        raise ValueError

    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    assert repeats(slow, 0.0, seed=1) and calls == [0.0]
    assert repeats(raises, 0.0, seed=1)


def test_the_outputs_of_the_audit_are_drawn_before() -> None:
    drawn = []

    def target(data: float, rng: np.random.Generator) -> float:
        drawn.append(rng.random())
        return data + drawn[-1]

    audit(target, claim=Claim(4.0), neighbours=(0.0, 1.0), samples=40, rng=1)
    assert len(drawn) == 2 * 40 + 2 * 8 and len(set(drawn[:80])) == 80
    assert drawn[80:88] == drawn[88:] and not set(drawn[:80]) & set(drawn[80:])
