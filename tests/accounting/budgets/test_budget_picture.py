"""Tests of the picture of a budget over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from hockeystick.accounting import (
    ApproximateDP,
    DurableLedger,
    Failure,
    Gaussian,
    GDPFilter,
    PureDP,
    PureFilter,
    RDPFilter,
    compose,
)
from hockeystick.accounting.budgets import durable_ledger
from hockeystick.accounting.budgets.budget_picture import spent_share

TIMES = ("2026-03-01T08:00:00+00:00", "2026-03-09T08:00:00+00:00", "2026-03-05T08:00:00+00:00")


def ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> DurableLedger:
    found = DurableLedger.create(folder / "budget.db", PureFilter(2.0))
    for when, note in zip(TIMES, ("a", "b", "c"), strict=True):
        monkeypatch.setattr(durable_ledger, "_now", lambda when=when: when)
        found.reserve(PureDP(0.5), note=note)
    return found


def test_the_line_is_the_share_that_was_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes: Any = ledger(tmp_path, monkeypatch).plot(ax=Figure().subplots())
    spent, charges = axes.lines[:2]

    assert list(spent.get_ydata()) == [0.0, 0.25, 0.5, 0.75, 0.75] and spent.get_drawstyle() == "steps-post"
    assert list(charges.get_ydata()) == [0.25, 0.5, 0.75]
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]


def test_a_clock_that_went_back_keeps_the_order_of_the_charges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    axes: Any = ledger(tmp_path, monkeypatch).plot(ax=Figure().subplots())
    times = list(axes.lines[1].get_xdata())

    assert times == sorted(times) and times[1] == times[2]


def test_a_ledger_without_charges_says_so(tmp_path: Path) -> None:
    axes = DurableLedger.create(tmp_path / "budget.db", PureFilter(2.0)).plot(ax=Figure().subplots())

    assert axes.get_xlabel() == "no charge yet"


def test_of_several_budgets_the_one_with_most_left_counts() -> None:
    fresh = RDPFilter.for_target(1.0, 1e-6)
    spent = fresh.after(Gaussian(10.0))
    left, total = spent.remaining(), spent.total()
    shares = [1 - left[name] / total[name] for name in total if name != "failure_delta"]

    assert spent_share(fresh) == 0.0
    assert spent_share(spent) == min(shares) < max(shares)


def test_failures_count_beside_the_budget() -> None:
    budget = PureFilter(1.0, failure_delta=1e-6).after(compose(PureDP(0.25), Failure(5e-7)))

    assert spent_share(budget) == pytest.approx(0.5)
    assert spent_share(PureFilter(1.0, failure_delta=1e-6).after(ApproximateDP(0.75, 1e-7))) == pytest.approx(0.75)
    assert spent_share(GDPFilter(2.0).after(Gaussian(1.0))) == pytest.approx(0.25)
