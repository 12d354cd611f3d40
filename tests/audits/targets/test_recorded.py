"""Outputs drawn elsewhere: each is used once and in order, and an audit of them is the audit of their target."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit, sequential_audit
from hockeystick.audits.targets.recorded import Recorded, RecordUsedUpError, Side

SURE = 1 - 1e-6
RNG = np.random.default_rng(0)


def laplace(scale: float, runs: int) -> Recorded:
    rng = np.random.default_rng(7)
    return Recorded(*(np.round((v + rng.laplace(scale=scale, size=runs)) * 2.0**20) / 2.0**20 for v in (0.0, 1.0)))


def test_each_output_is_handed_out_once_and_in_order() -> None:
    shuffled = [*range(110, 120), *range(100, 110)]
    record = Recorded(np.arange(10), np.array(shuffled))

    asked = (0, 3), (1, 4), (0, 7), (1, 0), (1, 16)
    found = [np.asarray(record.simulate(Side(side), RNG, runs)).tolist() for side, runs in asked]

    assert found == [[0, 1, 2], shuffled[:4], [*range(3, 10)], [], shuffled[4:]]
    assert record.left == 0


def test_an_exhausted_record_raises_an_error() -> None:
    record = Recorded([1, 2, 3], [4, 5])
    record.simulate(Side(0), RNG, 2)

    with pytest.raises(RecordUsedUpError, match=r"2 of 3 outputs of data set 0 .* samples=1 or fewer"):
        record.simulate(Side(0), RNG, 2)
    assert record.simulate(Side(0), RNG, 1) == [3]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_record_cannot_be_copied(duplicate) -> None:
    with pytest.raises(RecordUsedUpError, match="second time"):
        duplicate(Recorded([1], [2]))


@pytest.mark.parametrize("outputs", [3.0, np.float64(3.0), np.array(3.0), "abc", [], np.empty((0, 2)), None, {1: 2}])
def test_invalid_records_are_refused(outputs) -> None:
    with pytest.raises(InvalidArgumentError, match="outputs0="):
        Recorded(outputs, [1.0])
    with pytest.raises(InvalidArgumentError, match="outputs1="):
        Recorded([1.0], outputs)


@pytest.mark.parametrize("side", [0, 1, True, "0", None])
def test_only_the_two_data_sets_exist(side) -> None:
    with pytest.raises(InvalidArgumentError, match="value="):
        Recorded([1], [2]).simulate(side, RNG, 1)


@pytest.mark.parametrize("way", ["checkpoint", "workers"])
def test_an_audit_that_would_use_outputs_twice_is_refused(way: str, tmp_path: Path) -> None:
    record = laplace(1.0, 1000)
    options: dict[str, Any] = {"checkpoint": tmp_path / "kept"} if way == "checkpoint" else {"workers": 2}
    if way == "workers":
        pytest.importorskip("joblib", reason="joblib is not installed")

    with pytest.raises(HockeystickError, match="used a second time"):
        audit(record, claim=Claim(1.0), samples=1000, rng=1, **options)


def test_an_audit_uses_each_output_exactly_once() -> None:
    class Watched(Recorded):
        def simulate(self, value, rng, runs):
            outputs = super().simulate(value, rng, runs)
            seen[value.number].extend(np.asarray(outputs).tolist())
            return outputs

    seen: tuple[list[float], list[float]] = ([], [])
    rng = np.random.default_rng(3)
    drawn = rng.laplace(0.0, 1.0, 5001), rng.laplace(1.0, 1.0, 5001)
    record = Watched(*drawn)

    audit(record, claim=Claim(1.0), samples=record.left, rng=1)

    assert record.left == 0
    assert all(found == own.tolist() for found, own in zip(seen, drawn, strict=True))


def test_a_fair_record_is_not_refuted_and_a_broken_one_is() -> None:
    fair, broken = laplace(1.0, 20_000), laplace(0.5, 20_000)

    fine = audit(fair, claim=Claim(1.0), samples=fair.left, rng=1, confidence=SURE, bits=True)
    wrong = audit(broken, claim=Claim(1.0), samples=broken.left, rng=1, confidence=SURE, bits=True)

    assert fine.outcome == "consistent"  # by chance otherwise with probability 1e-6
    assert wrong.refuted


def test_an_audit_of_more_than_was_recorded_is_refused() -> None:
    with pytest.raises(TargetError, match="outputs of data set 0 are used") as caught:
        audit(laplace(1.0, 1000), claim=Claim(1.0), samples=2000, rng=1)
    assert isinstance(caught.value.__cause__, RecordUsedUpError)


def test_outputs_of_any_kind_can_be_recorded() -> None:
    rng = np.random.default_rng(5)
    words = [["no" if u < p else "yes" for u in rng.random(4000)] for p in (0.7, 0.1)]

    assert audit(Recorded(*words), claim=Claim(1.0), samples=4000, rng=1, confidence=SURE).refuted


def test_an_audit_takes_all_that_was_recorded_and_says_what_a_record_cant_show() -> None:
    rng = np.random.default_rng(2)
    record = Recorded(rng.normal(size=400), rng.normal(size=300))

    verdict = audit(record, claim=Claim(1.0), rng=1)

    assert verdict.samples == 300 and not verdict.timed
    (said,) = verdict.warnings
    assert "400 on d0 and 300 on d1, of which 300 each can be used" in said and "independent runs" in said


def test_a_sequential_audit_takes_what_was_recorded_too() -> None:
    rng = np.random.default_rng(2)
    verdict = sequential_audit(Recorded(rng.normal(size=90), rng.normal(size=90)), claim=Claim(1.0), rng=1)

    assert verdict.samples == 90 and "90 on each data set" in verdict.warnings[0]


def test_too_short_a_record_is_refused_before_it_is_used() -> None:
    record = Recorded([1.0] * 19, [1.0] * 30)
    with pytest.raises(InvalidArgumentError, match="has 19 outputs left; record 20"):
        audit(record, claim=Claim(1.0))
    assert record.left == 19


SORTED = {
    "up": np.arange(20.0),
    "down": -np.arange(20),
    "with ties": np.repeat(np.arange(4), 10),
    "a list": list(range(20)),
    "one column of several": np.column_stack([RNG.normal(size=20), np.arange(20.0)]),
    "a named column": np.array([(1.0, i) for i in range(20)], dtype=[("a", "f8"), ("b", "i8")]),
    "with NaN": np.array([np.nan, *range(20), np.nan]),
}


@pytest.mark.parametrize("outputs", SORTED.values(), ids=SORTED)
def test_sorted_outputs_are_refused_without_being_shown(outputs) -> None:
    """An order of independent outputs looks so with probability at most 1e-12."""
    with pytest.raises(InvalidArgumentError, match=r"outputs0=<[^>]*>: is sorted") as caught:
        Recorded(outputs, RNG.permutation(20))
    assert "19" not in str(caught.value).replace("20", "")


@pytest.mark.parametrize(
    "outputs", [[0] * 1000, [0.0] * 999 + [1.0], np.zeros((50, 2)), ["a", "b"] * 20, [[1], [2]] * 9]
)
def test_what_may_be_sorted_by_chance_is_taken(outputs) -> None:
    assert Recorded(outputs, outputs).left == len(outputs)


DIFFERENT = [
    (np.zeros(30), np.zeros(30, dtype=int)),
    (np.zeros(30), np.zeros(30, dtype=np.float32)),
    (np.zeros((30, 2)), np.zeros((30, 3))),
    (np.zeros(30), np.array(["a"] * 30)),
    (np.zeros(3, dtype=[("a", "f8")]), np.zeros(3, dtype=[("b", "f8")])),
]


@pytest.mark.parametrize(("outputs0", "outputs1"), DIFFERENT)
def test_arrays_that_differ_by_more_than_their_outputs_are_refused(outputs0, outputs1) -> None:
    with pytest.raises(InvalidArgumentError, match="outputs1=.* of another type or shape"):
        Recorded(outputs0, outputs1)


def test_texts_of_different_length_and_bytes_in_another_order_are_the_same_type() -> None:
    assert Recorded(np.array(["a", "bb"]), np.array(["ccc", "d"])).left == 2
    assert Recorded(np.array([2.0, 1.0], dtype=">f8"), np.array([2.0, 1.0], dtype="<f8")).left == 2
