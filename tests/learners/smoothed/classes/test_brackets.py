"""Tests of the algebra of brackets: sandwiches, widths that add, numbers that multiply, and a wrong rule that violates
them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.brackets import (
    complement,
    intersect,
    k_fold,
    pull_back,
    push_forward,
    symmetric_difference,
    union,
)
from hockeystick.learners.smoothed.classes.concept_class import Brackets
from hockeystick.learners.smoothed.measures.base_measure import ListedMeasure, UniformGrid

GRID = UniformGrid(23)
POINTS = GRID.position(0, np.arange(23))
ENDS = np.concatenate([POINTS, POINTS + 0.01, [-np.inf, np.inf]])


@frozen
class ConstantBracket(Brackets):
    """One bracket of two constants."""

    low: bool
    high: bool
    count, parameter_count, width = 1, 0, 1.0

    def contains(self, points: Any, rows: Any = None, *, upper: bool) -> Any:
        return np.full((1, len(points)), self.high if upper else self.low)

    def index(self, parameters: Any) -> Any:
        return np.zeros(len(parameters), dtype=np.int64)

    def members(self) -> Any:
        return np.zeros((1, 0))


def sandwich(brackets: Any, rows: Any, truth: Any, points: Any, masses: Any) -> None:
    """l <= h <= u for each predicate, l <= u for each bracket, and no bracket is wider than stated."""
    index = brackets.index(rows)
    lower, upper = brackets.lower.contains(points), brackets.upper.contains(points)
    assert lower.shape == (brackets.count, len(points))
    assert (lower <= upper).all() and (lower[index] <= truth).all() and (truth <= upper[index]).all()
    assert ((lower ^ upper) @ masses).max() <= brackets.width + 1e-12
    assert brackets.log_count == pytest.approx(np.log(brackets.count))
    assert brackets.members().shape == (brackets.count, brackets.parameter_count)
    members = brackets.index(brackets.members())
    assert np.array_equal(brackets.lower.contains(points, members), lower[members])


def random_rows(width: int) -> Any:
    return np.random.default_rng(width).choice(ENDS, (500, width))


def test_compositions_of_two_classes() -> None:
    rays, between = Thresholds().brackets(0.2, GRID), Intervals().brackets(0.35, GRID)
    rows, masses = random_rows(3), np.full(23, 1 / 23)
    one, two = Thresholds().predict(rows[:, :1], POINTS), Intervals().predict(rows[:, 1:], POINTS)
    for composed, truth in (
        (intersect(rays, between), one & two),
        (union(rays, between), one | two),
        (symmetric_difference(rays, between), one ^ two),
        (intersect(rays, complement(between)), one & ~two),
        (complement(union(rays, between)), ~(one | two)),
    ):
        sandwich(composed, rows, truth, POINTS, masses)
        assert composed.count == rays.count * between.count
        assert composed.width == pytest.approx(rays.width + between.width)


@pytest.mark.parametrize(("rule", "reduce"), [("intersection", np.logical_and), ("union", np.logical_or)])
def test_k_fold_compositions(rule: Any, reduce: Any) -> None:
    single = Intervals().brackets(0.5, GRID)
    fold, rows = k_fold(single, 3, rule=rule), random_rows(6)
    truth = reduce.reduce([Intervals().predict(part, POINTS) for part in np.split(rows, 3, axis=1)])
    sandwich(fold, rows, truth, POINTS, np.full(23, 1 / 23))
    assert fold.count == single.count**3 and fold.width == pytest.approx(min(1.0, 3 * single.width))


def test_symmetric_differences_take_the_square_and_twice_the_width() -> None:
    """N_[](F D F, 2 epsilon) <= N_[](F, epsilon)^2, where the printed theorem has 4 epsilon and the fourth power."""
    single = Thresholds().brackets(0.1, GRID)
    both, rows = symmetric_difference(single, single), random_rows(2)
    truth = Thresholds().predict(rows[:, :1], POINTS) ^ Thresholds().predict(rows[:, 1:], POINTS)
    sandwich(both, rows, truth, POINTS, np.full(23, 1 / 23))
    assert both.count == single.count**2 and both.width <= 0.2 + 1e-12


def test_the_rule_of_symmetric_differences_is_the_sharpest() -> None:
    """All l <= f <= u, l' <= f' <= u' at one point: lower and upper are the least and largest f xor f'.

    Planted: the naive bracket [l xor l', u xor u'] contains not even f xor f'.
    """
    pairs = [(0, 0), (0, 1), (1, 1)]
    naive_holds = True
    for (low, high), (less, more) in product(pairs, repeat=2):
        values = [f ^ g for f in range(low, high + 1) for g in range(less, more + 1)]
        composed = symmetric_difference(ConstantBracket(bool(low), bool(high)), ConstantBracket(bool(less), bool(more)))
        assert composed.lower.contains([0.0])[0, 0] == min(values)
        assert composed.upper.contains([0.0])[0, 0] == max(values)
        naive_holds &= (low ^ less) <= min(values) and max(values) <= (high ^ more)
    assert not naive_holds


def test_brackets_are_pulled_back_along_a_map() -> None:
    """Parabolas x -> x^2 - x: rectangles in (x, x^2) and thresholds of x^2, under the image of the measure."""
    measure = ListedMeasure(np.linspace(-1, 1, 21), np.arange(1, 22) / 231)

    def moments(points: Any) -> Any:
        return np.column_stack([points[:, 0], points[:, 0] ** 2])

    image, concepts = push_forward(measure, moments), Rectangles(2)
    pulled = pull_back(concepts.brackets(0.9, image), moments)
    rows = np.random.default_rng(0).uniform(-1, 1, (300, 4))
    truth = concepts.predict(rows, moments(measure.points))
    sandwich(pulled, rows, truth, measure.points, measure.masses)
    assert pulled.width <= 0.9 + 1e-12


def test_many_brackets_are_counted_but_not_listed() -> None:
    """(10^4)^15 intersections: their number is exact, some are evaluated, all of them are refused."""
    many = k_fold(Thresholds().brackets(1e-4, UniformGrid(2**24)), 15, rule="intersection")
    assert many.count == 10**60 and many.log_count == pytest.approx(60 * np.log(10))
    with pytest.raises(InvalidArgumentError):
        many.lower.contains(POINTS)
    with pytest.raises(InvalidArgumentError):
        many.index(np.zeros((1, 15)))
    some = k_fold(Thresholds().brackets(1e-4, UniformGrid(2**24)), 4, rule="intersection")
    rows = np.random.default_rng(0).uniform(size=(50, 4))
    index = some.index(rows)
    truth = Thresholds().predict(rows.max(axis=1, keepdims=True), POINTS)
    assert (some.lower.contains(POINTS, index) <= truth).all() and (truth <= some.upper.contains(POINTS, index)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: intersect(),
        lambda: union(Thresholds()),  # type: ignore[arg-type]
        lambda: k_fold(Thresholds().brackets(0.5, GRID), 0, rule="union"),
        lambda: k_fold(Thresholds().brackets(0.5, GRID), 2, rule="difference"),  # type: ignore[arg-type]
        lambda: complement(Thresholds()),  # type: ignore[arg-type]
        lambda: pull_back(Thresholds().brackets(0.5, GRID), None),  # type: ignore[arg-type]
        lambda: intersect(Thresholds().brackets(0.5, GRID)).index([[0.0, 1.0]]),
    ],
)
def test_bad_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        wrong()
