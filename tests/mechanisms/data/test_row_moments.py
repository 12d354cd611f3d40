"""Tests of the sums from which counts, means and variances follow, and of their intervals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.mechanisms import RowMoments
from hockeystick.mechanisms.data.noisy_quotients import moment_intervals

BOUNDS = (-20.0, 100.0)


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
def test_answers_of_exact_sums_are_those_of_the_clipped_values(kind: Any) -> None:
    rng = np.random.default_rng(1)
    x, where = rng.normal(40.0, 40.0, 5000), rng.integers(3, size=5000)
    found = RowMoments(kind, *BOUNDS).estimates(RowMoments(kind, *BOUNDS)(x, where, groups=3))
    clipped = [np.clip(x[where == g], *BOUNDS) for g in range(3)]
    expected = {"sum": np.sum, "mean": np.mean, "variance": np.var, "count": len}
    assert set(found) == {"sum": {"sum"}, "mean": {"count", "sum", "mean"}}.get(kind, set(expected))
    for name, values in found.items():
        assert values == pytest.approx([expected[name](part) for part in clipped], rel=2e-5)  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["count", "sum", "mean", "variance"])
def test_a_row_has_shares_of_length_one_at_most_in_both_norms(kind: Any) -> None:
    moments = RowMoments(kind, *(BOUNDS if kind != "count" else ()))
    rows = [moments([x], [0], groups=1)[0] for x in np.linspace(-25.0, 105.0, 131)]
    for order in (1, 2):
        assert max(np.linalg.norm(row, order) for row in rows) == pytest.approx(1.0, abs=1e-12)
    pairs = [(a - b) for a, b in itertools.combinations(rows, 2)]
    apart = max(np.linalg.norm(pair) for pair in pairs)
    assert apart <= (2.0 if moments.signed else math.sqrt(2.0)) + 1e-12
    if kind == "mean":
        assert max(abs(pair[1]) for pair in pairs) <= 1.0
    if kind == "variance":  # without the first share, where the number of rows is public
        assert max(np.abs(pair[1:]).sum() for pair in pairs) == pytest.approx(1.125, abs=1e-3)
        assert max(np.linalg.norm(pair[1:]) for pair in pairs) <= 1.0 + 1e-5


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("known", [False, True])
def test_intervals_hold_as_often_as_stated(law: Any, known: bool) -> None:
    """4000 releases a setting: a level of 95 % is missed by 1.8 points with probability below 1e-6."""
    rng = np.random.default_rng(5)
    moments = RowMoments("mean", *BOUNDS)
    for rows, scale in ((2000, 5.0), (60, 30.0)):
        x = rng.normal(30.0, 30.0, rows)
        exact = moments(x, np.zeros(rows), groups=1)
        true = moments.estimates(exact)
        draw = rng.laplace if law == "laplace" else rng.normal
        noisy = exact + draw(0.0, scale, (4000, 2))
        if known:
            noisy[:, 0] = rows - noisy[:, 1]
        found = moment_intervals(moments, noisy, law=law, scale=scale, failure=0.05, known=known)
        held = {name: float(((low <= true[name]) & (true[name] <= high)).mean()) for name, (low, high) in found.items()}
        assert held["mean"] >= 0.932 and held["sum"] >= 0.932, held
        narrow = moment_intervals(moments, noisy, law=law, scale=0.6 * scale, failure=0.05, known=known)
        low, high = narrow["mean"]
        assert ((low <= true["mean"]) & (true["mean"] <= high)).mean() < 0.9  # noise of a smaller scale is stated


def test_an_interval_without_rows_is_all_that_is_possible_and_never_turned_around() -> None:
    moments = RowMoments("variance", 0.0, 10.0)
    found = moment_intervals(
        moments, np.array([[-5.0, 1.0, 2.0], [900.0, 50.0, 20.0]]), law="laplace", scale=4.0, failure=0.05
    )
    assert found["mean"][0][0] == 0.0 and found["mean"][1][0] == 10.0
    assert all((low <= high).all() for low, high in found.values())
    assert math.isnan(moments.estimates(np.array([[-5.0, 1.0, 2.0]]))["mean"][0])


@pytest.mark.parametrize(
    "odd",
    [
        ("mean",),
        ("mean", 3.0, 3.0),
        ("mean", 0.0, math.inf),
        ("count", 0.0, 1.0),
        ("median", 0.0, 1.0),
        ("sum", 1.0, 0.0),
    ],
)
def test_bad_bounds_are_refused(odd: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        RowMoments(*odd)


def test_bad_rows_are_refused() -> None:
    moments = RowMoments("mean", 0.0, 1.0)
    for values, where in (([math.nan], [0]), ([0.5], [1]), ([0.5], [0.5]), ([0.5, 0.5], [0])):
        with pytest.raises(InvalidDataError):
            moments(values, where, groups=1)
