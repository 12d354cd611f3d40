"""Tests of the odometer: readings hold at all times simultaneously, against an adversary that watches them."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
import pytest
from attrs import evolve
from samples import diagonal

from hockeystick.accounting import (
    ZCDP,
    ApproximateDP,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    NonPrivate,
    PureDP,
    RandomizedResponse,
    RenamedMethodError,
    UnsupportedAdjacencyError,
)
from hockeystick.accounting.budgets.filters import BudgetExceededError
from hockeystick.accounting.budgets.odometer import ORDERS, Odometer, read


def probability_of_failure(start: Odometer, choose, steps: int) -> float:
    """P[at some time the loss is above the reading], by exact recursion over all outcomes."""

    reading = cache(Odometer.reading)

    @cache
    def value(odometer: Odometer, loss: float, left: int) -> float:
        if loss > reading(odometer).epsilon:
            return 1.0
        if left == 0:
            return 0.0
        cost = choose(loss)
        more = 1 / (1 + math.exp(-cost))
        after = odometer.after(PureDP(cost))
        return more * value(after, loss + cost, left - 1) + (1 - more) * value(after, loss - cost, left - 1)

    return value(start, 0.0, steps)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("choose", "delta"),
    diagonal([lambda loss: 0.6 + loss / 9, lambda loss: 0.5, lambda loss: 0.9 if loss > 0 else 0.2], [0.05, 0.5]),
)
def test_readings_hold_at_all_times_at_once(choose, delta, monkeypatch):
    monkeypatch.setattr(PureDP, "pure_epsilon", lambda self: math.inf)
    coarse = tuple(ORDERS[8:28:3])
    assert probability_of_failure(Odometer(delta, orders=coarse), choose, 8) <= delta


@pytest.mark.statistical
def test_half_of_the_reading_fails_more_often_than_allowed(monkeypatch):
    """An adversary as in the test above does find readings that are too small."""
    monkeypatch.setattr(PureDP, "pure_epsilon", lambda self: math.inf)
    full = Odometer.reading
    monkeypatch.setattr(Odometer, "reading", lambda self: evolve(full(self), epsilon=full(self).epsilon / 2))
    assert probability_of_failure(Odometer(0.05, orders=tuple(ORDERS[8:28:3])), lambda loss: 0.5, 9) > 0.05


def test_a_reading_is_the_root_of_the_mixture():
    orders, sums, delta = (1.5, 3.0, 9.0), (0.3, 0.8, 2.9), 1e-5
    found = read(orders, sums, math.inf, delta, 0.0).epsilon
    with mpmath.workdps(40):
        want = mpmath.findroot(
            lambda u: (
                sum(mpmath.exp((mpmath.mpf(a) - 1) * (u - s)) for a, s in zip(orders, sums, strict=True)) / 3
                - 1 / mpmath.mpf(delta)
            ),
            5,
        )
    assert want <= found <= want * (1 + 1e-10)
    alone = min(s + math.log(3 / delta) / (a - 1) for a, s in zip(orders, sums, strict=True))
    assert found <= alone


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 1.0, 1e3])
def test_a_reading_costs_little_more_than_a_budget_known_in_advance(rho):
    """ρ + 2·sqrt(ρ·ln(1/δ)) is what the best single order gives for a known ρ (Bun & Steinke 2016, Prop. 1.3)."""
    known = rho + 2 * math.sqrt(rho * math.log(1e6))
    reading = Odometer(1e-6).after(ZCDP(rho)).reading().epsilon
    assert known <= reading
    assert reading <= (1.3 if rho > 1e-6 else 3.0) * known


def test_readings_grow_and_add_up():
    odometer, last = Odometer(1e-6), 0.0
    assert odometer.reading().epsilon == 0.0
    for _ in range(20):
        odometer = odometer.after(Gaussian(10.0))
        assert odometer.reading().epsilon > last
        last = odometer.reading().epsilon
    assert odometer == Odometer(1e-6).after(Gaussian(10.0), count=20)


def test_pure_losses_bound_the_reading():
    assert Odometer(1e-9).after(PureDP(0.1), count=3).reading().epsilon == pytest.approx(0.3, rel=1e-11)
    assert Odometer(1e-9).after(PureDP(0.1), count=3).reading().epsilon > 3 * 0.1
    assert Odometer(1e-3).after(Laplace(100.0), count=1000).reading().epsilon < 5.0


def test_the_failure_budget_is_fixed_in_advance():
    with pytest.raises(BudgetExceededError, match="failure_delta"):
        Odometer(1e-6).after(ApproximateDP(0.1, 1e-9))
    odometer = Odometer(1e-6, failure_delta=2e-9).after(ApproximateDP(0.1, 1e-9), count=2)
    assert odometer.reading().delta >= 1e-6 + 2e-9
    with pytest.raises(BudgetExceededError):
        odometer.after(ApproximateDP(0.1, 1e-9))


def test_no_guarantee_reads_as_infinite():
    odometer = Odometer(1e-6, failure_delta=1.0).after(NonPrivate())
    assert odometer.reading().epsilon == math.inf
    assert odometer.after(PureDP(0.1)).reading().epsilon == math.inf


def test_a_reading_prints_as_one_line():
    assert str(Odometer(1e-6).after(PureDP(0.5)).reading()) == (
        "odometer: privacy loss so far ≤ 0.5, except with probability 1e-06"
    )


def test_bad_arguments_are_refused():
    for delta in (0.0, 1.0, math.nan, True):
        with pytest.raises(InvalidArgumentError):
            Odometer(delta)
    with pytest.raises(InvalidArgumentError):
        Odometer(0.1, orders=(1.0,))
    with pytest.raises(TypeError):
        Odometer(0.1, (2.0,))  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError):
        Odometer(0.1).after(PureDP(0.1), count=-1)
    with pytest.raises(UnsupportedAdjacencyError):
        Odometer(0.1).after(RandomizedResponse(0.1))
    assert np.all(np.diff(ORDERS) > 0)


def test_the_old_method_record_is_refused():
    with pytest.raises(RenamedMethodError, match=r"Odometer\.record: .* odometer = odometer\.after\(event\)"):
        Odometer(0.1).record(PureDP(0.1), count=2)


def test_the_repr_shows_the_recorded_charges():
    odometer = Odometer(1e-6, orders=(2.0,), failure_delta=0.5)
    assert "_spent=(), _failed=0.0" in repr(odometer)
    counted = odometer.after(ApproximateDP(0.5, 0.25))
    assert "_spent=(0.5, " in repr(counted) and "_failed=0.25" in repr(counted)
    assert repr(counted.after(ZCDP(0.1))) != repr(counted)
    assert "_spent=(inf, 0.5), _failed=0.0" in repr(odometer.after(ZCDP(0.25)))
