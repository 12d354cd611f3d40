"""Outputs above the stated size are refused, and the error tells their size and not what is in them."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

from hockeystick.audits import TargetError, audit
from hockeystick.audits.outputs import values
from hockeystick.audits.outputs.reading import Codebook, read

LARGE: list[Any] = [
    "xyzw" * 30,
    b"xyzw" * 30,
    [None] * 101,
    (0.5,) * 101,
    {str(i): None for i in range(101)},
    collections.deque(["xyzw"] * 101),
    np.full((101,), 0.5),
    np.full((2, 51), 0.5),
    [[0.5] * 60, [0.5] * 60, [0.5] * 60],
    np.full((101,), "xyzw"),
]


@pytest.mark.parametrize("output", LARGE, ids=lambda output: type(output).__name__)
def test_one_output_above_the_size_is_refused(output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read([output], 1, Codebook(), vectorised=False)
    monkeypatch.setattr(values, "MOST_VALUES", 100)
    with pytest.raises(TargetError, match="1[0-9][0-9] numbers, characters or items, above the 100 that") as found:
        read([output, output], 2, Codebook(), vectorised=False)
    assert "xyzw" not in str(found.value) and "0.5" not in str(found.value)


def test_batches_are_measured_by_their_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", 100)
    assert read(np.zeros((500, 100)), 500, Codebook(), vectorised=True).runs == 500
    with pytest.raises(TargetError, match="101 numbers"):
        read(np.zeros((500, 101)), 500, Codebook(), vectorised=True)


def test_a_target_whose_outputs_grow_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "MOST_VALUES", 100)
    kept: list[str] = []

    def growing(data: int, rng: np.random.Generator) -> list[str]:
        kept.append("a")
        return list(kept)

    with pytest.raises(TargetError, match="above the 100"):
        audit(growing, claim=(1.0, 0.0), neighbours=(0, 1), samples=2000, rng=1)
    assert len(kept) < 2 * 2000  # of all that were to be drawn
