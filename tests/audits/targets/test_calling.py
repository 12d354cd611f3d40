"""Calling targets: which form a callable has, that a seed fixes what is drawn, what happens when a target raises."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.targets.calling import Stream, Target, equal_data


def single(data: float, rng: np.random.Generator) -> float:
    return data + rng.normal()


def with_runs(data: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return data + rng.normal(size=runs)


def keyword_runs(data: float, rng: np.random.Generator, *, runs: int) -> np.ndarray:
    return data + rng.normal(size=runs)


def defaulted_runs(data: float, rng: np.random.Generator, runs: int = 1) -> np.ndarray:
    return data + rng.normal(size=runs)


def three_positional(data: float, generator: np.random.Generator, count: int, /) -> np.ndarray:
    return data + generator.normal(size=count)


def with_option(data: float, rng: np.random.Generator, scale: float = 2.0) -> float:
    return data + scale * rng.normal()


def runs_in_the_middle(data: float, runs: int, rng: np.random.Generator) -> np.ndarray:
    return data + rng.normal(size=runs)


def star(*args: Any) -> float:
    data, rng = args
    return float(data + rng.normal())


class Instance:
    def __call__(self, data: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return data + rng.normal(size=runs)

    def method(self, data: float, rng: np.random.Generator) -> float:
        return data + rng.normal()


class Simulator:
    def simulate(self, value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return value + rng.normal(size=runs)

    def __call__(self, data: float, rng: np.random.Generator) -> float:
        raise AssertionError("simulate goes first")


@pytest.mark.parametrize(
    ("target", "vectorised"),
    [
        (single, False),
        (with_runs, True),
        (keyword_runs, True),
        (defaulted_runs, True),
        (three_positional, True),
        (with_option, False),
        (star, False),
        (lambda d, r: d, False),
        (lambda d, r, runs: np.full(runs, d), True),
        (functools.partial(with_option, scale=1.0), False),
        (functools.partial(keyword_runs), True),
        (functools.partial(defaulted_runs, runs=3), False),
        (Instance(), True),
        (Instance().method, False),
        (Simulator(), True),
        (np.add, False),  # a builtin; some have no signature at all
    ],
)
def test_a_target_is_called_the_way_it_is_made(target: Any, vectorised: bool) -> None:
    found = Target.of(target)

    assert found.vectorised is vectorised
    if target is not np.add:
        rng = np.random.default_rng(0)
        outputs = found.call(1.0, rng, 5) if vectorised else [found.call(1.0, rng)]
        assert len(outputs) == (5 if vectorised else 1)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (5, "neither a mechanism nor callable"),
        (Simulator, "is a class"),
        (lambda d: d, "can't be called"),
        (lambda d, r, a, b: d, "can't be called"),
        (runs_in_the_middle, "can't be called"),
        (lambda d, r, *, option: d, "can't be called"),
    ],
)
def test_targets_that_cannot_be_called_are_refused(target: Any, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        Target.of(target)


@pytest.mark.parametrize("target", [single, with_runs])
def test_streams_are_repeatable_and_independent_of_each_other(target: Callable[..., Any]) -> None:
    def draw(seed: int, side: Any, purpose: int) -> list[float]:
        return list(Stream(Target.of(target), 0.0, seed, side, purpose).draw(50))

    streams = [draw(seed, side, purpose) for seed in (1, 2) for side in (0, 1) for purpose in (0, 1)]

    assert draw(1, 0, 0) == streams[0]
    assert len({value for stream in streams for value in stream}) == 8 * 50


def test_single_outputs_do_not_depend_on_the_pieces_they_are_drawn_in() -> None:
    whole, pieces = (Stream(Target.of(single), 0.0, 1, 0, 0) for _ in range(2))

    assert whole.draw(3000) == [value for size in (1, 1022, 2, 975, 1000) for value in pieces.draw(size)]


def test_the_vectorised_ramp_is_kept_within_memory() -> None:
    stream = Stream(Target.of(with_runs), 0.0, 1, 0, 0)
    sizes = []
    for _ in range(4):
        sizes.append(stream.next_size(1))
        stream.draw(sizes[-1])

    assert sizes == sorted(sizes)
    assert stream.next_size(10**6) * 10**6 <= 2 * 10**6
    assert stream.next_size(10**9) == 1


CLAIM = Claim(1.0)


def test_a_target_that_raises_sometimes_is_refused_with_counts_per_data_set() -> None:
    def flaky(data: int, rng: np.random.Generator) -> float:
        if data and rng.random() < 0.3:
            raise ValueError("no  answer\nhere")
        return rng.random()

    words = r"raised in 0 of (\d+) runs on d0 and \d+ of \1 on d1 \(ValueError: no ans"
    with pytest.raises(TargetError, match=words) as caught:
        audit(flaky, claim=CLAIM, neighbours=(0, 1), samples=2000, rng=1)
    raised, runs = caught.value.raised, caught.value.runs
    assert raised[0] == 0
    assert runs[0] == runs[1] >= 100
    assert raised[1] == pytest.approx(0.3 * runs[1], abs=6 * (0.21 * runs[1]) ** 0.5)
    assert isinstance(caught.value.__cause__, ValueError)
    assert "exceptions_as_output" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_target_that_always_raises_is_refused() -> None:
    def broken(data: int, rng: np.random.Generator) -> float:
        raise ZeroDivisionError("by zero")

    with pytest.raises(TargetError, match=r"raised in (\d+) of \1 runs on d0 and \1 of \1 on d1"):
        audit(broken, claim=CLAIM, neighbours=(0, 1), samples=5000, rng=1)


def test_a_vectorised_target_that_raises_is_refused_with_its_error_as_cause() -> None:
    def broken(data: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        if data:
            raise KeyError("x")
        return rng.random(runs)

    with pytest.raises(TargetError, match=r"raised in 0 of (\d+) runs on d0 and \1 of \1 on d1") as caught:
        audit(broken, claim=CLAIM, neighbours=(0, 1), samples=2000, rng=1)
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_late_exception_is_found_while_bounding() -> None:
    calls = 0

    def tired(data: int, rng: np.random.Generator) -> float:
        nonlocal calls
        calls += 1
        if calls > 3000:
            raise RuntimeError("tired")
        return rng.random()

    with pytest.raises(TargetError, match="tired"):
        audit(tired, claim=CLAIM, neighbours=(0, 1), samples=2000, rng=1)


def test_exceptions_can_be_outputs() -> None:
    def leaky(data: int, rng: np.random.Generator) -> int:
        if rng.random() < 0.1 + 0.6 * data:
            raise ValueError("secret text is not an output")
        return 1

    verdict = audit(leaky, claim=CLAIM, neighbours=(0, 1), samples=2000, rng=1, exceptions_as_output=True)

    assert verdict.refuted
    assert verdict.event == "output is raised ValueError"
    assert verdict.direction == "d1->d0"


def test_exceptions_of_a_vectorised_target_cannot_be_outputs() -> None:
    with pytest.raises(InvalidArgumentError, match="exceptions_as_output"):
        audit(with_runs, claim=CLAIM, neighbours=(0, 1), samples=100, rng=1, exceptions_as_output=True)


def test_an_interrupt_is_not_an_output() -> None:
    def interrupted(data: int, rng: np.random.Generator) -> float:
        signal.raise_signal(signal.SIGINT)
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        audit(interrupted, claim=CLAIM, neighbours=(0, 1), samples=100, rng=1, exceptions_as_output=True)


def test_data_that_cannot_be_compared_are_equal_only_to_themselves() -> None:
    class Moody:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not today")

        __hash__ = None  # type: ignore[assignment]

    one = Moody()
    assert equal_data(one, one) and not equal_data(one, Moody())
    assert equal_data(np.zeros(2), [0.0, 0.0]) and not equal_data(np.zeros(2), np.ones(2))


def test_a_builtin_without_a_signature_is_called_once_per_output() -> None:
    target = Target.of(max)
    assert not target.vectorised and target.call(3, 4) == 4
