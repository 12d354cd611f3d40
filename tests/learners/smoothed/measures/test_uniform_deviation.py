"""How far draws are from their law on all boxes: the bound against exact laws, and each step of its proof."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.measures.uniform_deviation import box_deviation


def boxes(points: int, d: int) -> Any:
    """Indicators of all boxes of a grid of points^d places, shape (M, points^d)."""
    places = np.array(list(itertools.product(range(points), repeat=d)))
    sides = [(a, b) for a in range(points) for b in range(a, points)]
    return np.array(
        [np.all([(a <= x) & (x <= b) for (a, b), x in zip(box, places.T, strict=True)], axis=0)
         for box in itertools.product(sides, repeat=d)], dtype=float,
    )  # fmt: skip


@pytest.mark.parametrize(("law", "n"), [([0.25] * 4, 40), ([0.5, 0.1, 0.1, 0.3], 40), ([0.05, 0.05, 0.05, 0.85], 30)])
def test_the_bound_holds_exactly_on_two_by_two_points(law: list[float], n: int) -> None:
    """By listing all multinomial counts; a fifth of the bound does not hold, so something is compared."""
    every = np.array([(*c, n - sum(c)) for c in itertools.product(range(n + 1), repeat=3) if sum(c) <= n])
    odds = stats.multinomial.pmf(every, n, law)
    table = boxes(2, 2)
    worst = np.abs((every / n - np.array(law)) @ table.T).max(axis=1)
    assert odds.sum() == pytest.approx(1.0)
    for failure in (0.5, 0.05, 1e-3):
        bound = box_deviation(n, 2, failure)
        assert bound < 1.0 and odds[worst > bound].sum() <= failure
    assert odds[worst > box_deviation(n, 2, 0.05) / 5.0].sum() > 0.05


@pytest.mark.parametrize(("points", "d", "n"), [(5, 1, 4), (4, 2, 6), (3, 2, 9), (2, 3, 5)])
def test_deviations_are_met_on_boxes_that_draws_define(points: int, d: int, n: int) -> None:
    """The proof's lemma, by search: inner boxes for one sign and outer ones for the other, draws with ties or without.

    The twin: inner boxes alone do not meet the other sign.
    """
    rng, table = np.random.default_rng(points), boxes(points, d)
    seen_less = False
    for _ in range(30):
        law = rng.dirichlet(np.ones(points**d))
        draws = rng.choice(points**d, n, p=law)
        share = np.bincount(draws, minlength=points**d) / n
        places = np.stack(np.unravel_index(draws, (points,) * d), axis=1)
        pairs = [(i, j) for i in range(n) for j in range(i, n)]
        inner, outer = [], []
        for axis in range(d):
            x = places[:, axis]
            inner.append({(min(x[i], x[j]), max(x[i], x[j])) for i, j in pairs})
            apart = {(min(x[i], x[j]) + 1, max(x[i], x[j]) - 1) for i, j in pairs if i != j}
            outer.append(apart | {(0, v - 1) for v in x} | {(v + 1, points - 1) for v in x} | {(0, points - 1)})
        gap = share - law
        deviations = table @ gap
        found = [
            max(sign * gap.reshape((points,) * d)[tuple(slice(a, b + 1) for a, b in box)].sum() for box in
                itertools.product(*sides))
            for sign, sides in ((1.0, inner), (-1.0, outer), (-1.0, inner))
        ]  # fmt: skip
        assert deviations.max() <= found[0] + 1e-12 and (-deviations).max() <= found[1] + 1e-12
        seen_less |= (-deviations).max() > found[2] + 1e-12
    assert seen_less


@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_the_formula_and_falls_as_one_over_the_root(d: int) -> None:
    n, eta = 10_000, 0.01
    pairs = (n + 1) * (n + 2) // 2
    s = math.sqrt((math.log(2.0) + d * math.log(pairs) - math.log(eta)) / (2.0 * (n - 2 * d)))
    assert 2.0 * pairs**d * math.exp(-2.0 * (n - 2 * d) * s**2) == pytest.approx(eta, rel=1e-6)
    assert box_deviation(n, d, eta) == pytest.approx(((n - 2 * d) * s + 2 * d) / n)
    assert box_deviation(2 * d, d, eta) == 1.0 and box_deviation(1, d, eta) == 1.0
    values = [box_deviation(10**k, d, eta) for k in range(1, 9)]
    assert all(a >= b for a, b in itertools.pairwise(values)) and values[-1] < 1e-3


@pytest.mark.parametrize(
    "bad", [(0, 1, 0.1), (10, 0, 0.1), (10, 1, 0.0), (10, 1, 1.0), (10, 1, math.nan), (True, 1, 0.1)]
)
def test_bad_arguments_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        box_deviation(*bad)
