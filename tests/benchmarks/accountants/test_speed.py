"""Tests of the table of times: its verdicts from planted times."""

from __future__ import annotations

import pytest

from benchmarks.accountants.speed import ANCHOR, ITEMS, METHODS, lines


@pytest.mark.parametrize("times, verdict", [(0.99, "PASS"), (1.01, "FAIL")])
def test_a_line_fails_above_its_aim(times: float, verdict: str) -> None:
    found = {(item.name, method): {"value": 1.0, "cpu": 10.0} for item, _ in ITEMS for method in METHODS}
    for item, aim in ITEMS:
        base = ANCHOR if item.kind == "allocation" else 10.0
        found[item.name, "ours"] = {"value": 1.0, "cpu": times * aim * base}
    assert [row[0] for row in lines(found)] == [verdict] * len(ITEMS)


def test_a_line_without_the_other_accountant_has_no_verdict() -> None:
    found = {(item.name, "ours"): {"value": 1.0, "cpu": 1.0} for item, _ in ITEMS}
    assert [row[0] for row in lines(found)][:4] == ["–"] * 4
