"""Tests of the experiment on shuffled reports at small sizes: its numbers and checks."""

from __future__ import annotations

import math

import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

frame, curves = benchmark("frame"), script("shuffle.shuffle_curves")


def test_the_closed_form_is_the_published_one_where_it_applies() -> None:
    assert curves.closed_form(1.0, 100) is None
    found = curves.closed_form(1.0, 10**6)
    first = 8 * math.sqrt(math.e * math.log(4e6)) / 1e3
    assert found == pytest.approx((math.e - 1) / (math.e + 1) * first, rel=0.02)


def test_the_enumeration_has_the_known_value() -> None:
    found = curves.exact(2, 1.0, 8)
    assert found["exact"] == pytest.approx(0.0465097, abs=1e-6)
    assert found["bound"] == pytest.approx(found["exact"], abs=1e-10)


def test_all_statements_hold_at_small_sizes() -> None:
    report = curves.experiment(
        frame.Cells(), sizes=(1000, 10**4), local=(1.0,), few=((2, 1.0, 3), (3, 1.0, 3)), shuffles=(1,)
    )
    assert report.holds and len(report.checks) == 3
    assert "| 1 | 1000 | 0.5662 | 0.1487 | 0.1366 |" in report.table
    assert "<svg" in frame.svg(report.draw)
