"""Brackets and covers of infinite classes: their number and their true width.

For every class with explicit brackets: their number beside the formula, the largest mass of a bracket by Monte Carlo,
and whether random predicates lie between the two functions of their bracket, at every point. The slope of ln N in
ln(1/epsilon) is the number of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import SEED
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.classes.boxes.rectangles import Rectangles
from hockeystick.learners.smoothed.classes.brackets import intersect, symmetric_difference
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass
from hockeystick.learners.smoothed.classes.halfspaces.halfspaces import Halfspaces
from hockeystick.learners.smoothed.classes.polynomials.brackets import line_polynomials
from hockeystick.learners.smoothed.classes.polynomials.polynomials import PolynomialThresholds
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, ListedMeasure, UniformCube

LINE, SQUARE, CUBE = UniformCube(1), UniformCube(2, -0.5, 0.5), UniformCube(3, -0.5, 0.5)
SCALES = (0.2, 0.1, 0.05, 0.025)


def _halfspaces(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    return np.column_stack([rng.normal(size=(count, dimension)), rng.uniform(-0.7, 0.7, count)])


def _intervals(rng: np.random.Generator, count: int) -> FloatArray:
    return np.sort(rng.random((count, 2)), axis=1)


def _boxes(rng: np.random.Generator, count: int) -> FloatArray:
    sides = np.sort(rng.uniform(-0.5, 0.5, (count, 2, 2)), axis=2)
    return np.column_stack([sides[:, :, 0], sides[:, :, 1]])


def _polynomials(rng: np.random.Generator, count: int, degree: int) -> FloatArray:
    return line_polynomials(rng.uniform(0.0, 1.0, (count, degree)), rng.random(count) < 0.5)


def _grid() -> ListedMeasure:
    """144 points of a grid, whole numbers."""
    return ListedMeasure([[float(i), float(j)] for i in range(12) for j in range(12)])


Builder = Callable[[float], Brackets]
Drawn = Callable[[np.random.Generator, int], FloatArray]


def family(name: str) -> tuple[Builder, ConceptClass | None, BaseMeasure, Drawn, int, Callable[[float], float]]:
    """Brackets, the class (None for compositions), the measure, random predicates, parameters, the formula of ln N."""
    one, two, three = Thresholds(), Intervals(), Rectangles(2)
    plane, space = Halfspaces(2), Halfspaces(3)

    def up(e: float) -> int:
        return math.ceil(1 / Fraction(e))

    def cells(e: float) -> float:
        return up(e) * (up(e) + 1) / 2.0 + 1.0

    def cube(d: int) -> Callable[[float], float]:
        return lambda e: math.log(math.ceil(2 * math.sqrt(2 * d) / e)) + d * math.log(1 + 4 * math.sqrt(2 * d) / e)

    def signs(degree: int) -> Callable[[float], float]:
        return lambda e: math.log(2 * math.comb(up(e / degree) + degree - 1, degree))

    def polynomial(degree: int) -> tuple[Builder, ConceptClass, BaseMeasure, Drawn, int, Callable[[float], float]]:
        of = PolynomialThresholds(1, degree)
        return lambda e: of.brackets(e, LINE), of, LINE, lambda r, n: _polynomials(r, n, degree), degree, signs(degree)

    if name == "thresholds":
        return lambda e: one.brackets(e, LINE), one, LINE, lambda r, n: r.random((n, 1)), 1, lambda e: math.log(up(e))
    if name == "intervals":
        return lambda e: two.brackets(e, LINE), two, LINE, _intervals, 2, lambda e: math.log(cells(e / 2))
    if name == "rectangles in the plane":
        return lambda e: three.brackets(e, SQUARE), three, SQUARE, _boxes, 4, lambda e: 2 * math.log(cells(e / 4))
    if name == "halfspaces in the plane":
        return lambda e: plane.brackets(e, SQUARE), plane, SQUARE, lambda r, n: _halfspaces(r, n, 2), 2, cube(2)
    if name == "halfspaces in space":
        return lambda e: space.brackets(e, CUBE), space, CUBE, lambda r, n: _halfspaces(r, n, 3), 3, cube(3)
    if name.startswith("polynomials"):
        return polynomial(int(name[-1]))
    if name == "halfspaces on 144 points":
        grid = _grid()

        def drawn(r: np.random.Generator, n: int) -> FloatArray:
            normal = r.normal(size=(n, 2))
            return np.column_stack([normal, (normal * r.uniform(0.0, 11.0, (n, 2))).sum(axis=1)])

        return lambda e: plane.brackets(e, grid), plane, grid, drawn, 2, lambda e: math.nan
    if name == "two halfspaces cut":
        return (
            lambda e: intersect(plane.brackets(e / 2, SQUARE), plane.brackets(e / 2, SQUARE)), None, SQUARE,
            lambda r, n: np.column_stack([_halfspaces(r, n, 2), _halfspaces(r, n, 2)]), 4, lambda e: 2 * cube(2)(e / 2),
        )  # fmt: skip
    return (
        lambda e: symmetric_difference(one.brackets(e / 2, LINE), one.brackets(e / 2, LINE)), None, LINE,
        lambda r, n: r.random((n, 2)), 2, lambda e: 2 * math.log(up(e / 2)),
    )  # fmt: skip


NAMES = (
    "thresholds", "intervals", "rectangles in the plane", "halfspaces in the plane", "halfspaces in space",
    "polynomials of degree 2", "polynomials of degree 3", "halfspaces on 144 points", "two halfspaces cut",
    "symmetric differences of thresholds",
)  # fmt: skip


def measured(name: str, scale: float, predicates: int, points: int) -> dict[str, float]:
    """Number and widest mass of the brackets of random predicates; how many predicates leave their bracket."""
    build, of, measure, draw, _, formula = family(name)
    brackets = build(scale)
    rng = np.random.default_rng([SEED, *name.encode(), round(1e6 * scale)])
    rows = draw(rng, predicates)
    spots = measure.points if isinstance(measure, ListedMeasure) else measure.sample(rng, points)
    index = brackets.index(rows)
    low, high = brackets.lower.contains(spots, index), brackets.upper.contains(spots, index)
    if of is not None:
        held = of.predict(rows, spots)
    elif name.startswith("two"):
        held = Halfspaces(2).predict(rows[:, :3], spots) & Halfspaces(2).predict(rows[:, 3:], spots)
    else:
        held = Thresholds().predict(rows[:, :1], spots) ^ Thresholds().predict(rows[:, 1:], spots)
    wide = (low != high).mean(axis=1)
    return {
        "log_count": brackets.log_count,
        "formula": formula(scale),
        "widest": float(wide.max()),
        "slack": 0.0 if isinstance(measure, ListedMeasure) else 5.0 * math.sqrt(scale * (1.0 - scale) / points),
        "outside": float(((low & ~held) | (held & ~high)).any(axis=1).sum()),
    }


def _counted(one: dict[str, float]) -> str:
    formula = "" if math.isnan(one["formula"]) else f" ({one['formula']:.2f})"
    return f"{one['log_count']:.2f}{formula}"


def experiment(
    cells: Cells,
    names: tuple[str, ...] = NAMES,
    scales: tuple[float, ...] = SCALES,
    predicates: int = 200,
    points: int = 20_000,
) -> Report:
    """Numbers and widths of brackets, and predicates between them."""
    found = cells.each(
        measured, [(n, s) for n in names for s in scales], "brackets", predicates=predicates, points=points
    )
    table = {n: [found[n, s] for s in scales] for n in names}

    def slope(values: list[dict[str, float]]) -> float:
        """Between the two finest scales."""
        return (values[-1]["log_count"] - values[-2]["log_count"]) / math.log(scales[-2] / scales[-1])

    rows = [
        [n, *map(_counted, v), f"{slope(v):.2f}", family(n)[4], " ".join(f"{one['widest']:.3g}" for one in v)]
        + [round(sum(one["outside"] for one in v))]
        for n, v in table.items()
    ]
    continuous = [n for n in names if n != "halfspaces on 144 points"]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for n, values in table.items():
            axes.plot(np.log(1.0 / np.array(scales)), [one["log_count"] for one in values], "o-", label=n, markersize=3)
        axes.set(xlabel="ln(1/ε)", ylabel="ln N")
        axes.legend(fontsize=5)

    return Report(
        (
            markdown(
                ["class", *(f"ln N, ε = {s:g}" for s in scales)]
                + ["slope", "parameters", "widest met", "predicates outside"],
                rows,
            ),
            "The formula's number is in brackets. Masses are by Monte Carlo, for the brackets of random predicates.",
        ),
        {
            "every predicate lies in its bracket, at every point": all(one["outside"] == 0.0 for one in found.values()),
            "no bracket is wider than ε, up to 5 standard errors": all(
                one["widest"] <= scale + one["slack"] for (_, scale), one in found.items()
            ),
            "the numbers of brackets are at most those of the formulas": all(
                one["log_count"] <= one["formula"] + 1e-9 for n in continuous for one in table[n]
            ),
            "the slope of ln N in ln(1/ε) is the number of parameters within 0.25": all(
                abs(slope(table[n]) - family(n)[4]) <= 0.25 for n in continuous
            ),
        },
        draw,
        "The logarithm of the number of brackets against that of 1/ε: lines whose slopes are numbers of parameters.",
    )
