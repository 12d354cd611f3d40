"""Outputs drawn elsewhere: each is used once and in order, and an audit of them is the audit of their target."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.targets.recorded import Recorded, RecordUsedUpError, Side

SURE = 1 - 1e-6
RNG = np.random.default_rng(0)


def laplace(scale: float, runs: int) -> Recorded:
    rng = np.random.default_rng(7)
    return Recorded(*(np.round((v + rng.laplace(scale=scale, size=runs)) * 2.0**20) / 2.0**20 for v in (0.0, 1.0)))


def test_each_output_is_handed_out_once_and_in_order() -> None:
    record = Recorded(np.arange(10), np.arange(100, 120))

    asked = (0, 3), (1, 4), (0, 7), (1, 0), (1, 16)
    found = [np.asarray(record.simulate(Side(side), RNG, runs)).tolist() for side, runs in asked]

    assert found == [[0, 1, 2], [100, 101, 102, 103], [*range(3, 10)], [], [*range(104, 120)]]
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
