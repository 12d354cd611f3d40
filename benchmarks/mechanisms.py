"""Mechanisms beside what bounds them: numpy's own generators, OpenDP's integer vectors, and memory bandwidth.

    python -m benchmarks.mechanisms [--quick] [--write]

times each pair in turns, several times, in this one process, and prints the ratio of the best CPU times and whether the
target is met. ``--write`` puts the table into docs/benchmarks-mechanisms.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import frozen

from benchmarks.table import main
from hockeystick import mechanisms


@frozen
class Item:
    """One row: ours beside another computation of the same size, as shares of its speed."""

    name: str
    ours: Callable[[], Any]
    other_name: str
    other: Callable[[], Any]
    least: float  # ratio of speeds
    draws: float
    repeats: int


@frozen
class Row:
    """One line of the table: an item and its CPU seconds."""

    item: Item
    ours: float
    other: float

    @property
    def met(self) -> bool:
        """Whether the ratio of speeds is at least its limit."""
        return self.other / self.ours >= self.item.least

    def markdown(self) -> str:
        """The line."""
        item = self.item
        return (
            f"| {'PASS' if self.met else 'FAIL'} | {item.name} | {item.draws / self.ours:.2g} | {item.other_name} "
            f"| {item.draws / self.other:.2g} | {self.other / self.ours:.2f} | {item.least:.2f} |"
        )


def items(quick: bool) -> list[Item]:
    """Returns the rows; ``quick`` makes the sizes a tenth."""
    rng = np.random.default_rng(1)
    many, vector, runs = (10**6, 10**4, 10**4) if quick else (10**7, 10**6, 10**5)
    laplace, gaussian = mechanisms.Laplace(2.0), mechanisms.Gaussian(2.0)
    discrete = mechanisms.DiscreteGaussian(10.0)
    stream = mechanisms.AboveThreshold(0.0, threshold_scale=2.0, query_scale=4.0, answers=1)
    queries = np.full(1000, -1e3)  # the worst case: all are asked
    values = np.linspace(0.0, 1.0, vector)
    return [
        Item(
            "Laplace.simulate",
            lambda: laplace.simulate(1.0, rng, many),
            "numpy laplace",
            lambda: rng.laplace(scale=2.0, size=many),
            0.6,
            many,
            5,
        ),
        Item(
            "Gaussian.simulate",
            lambda: gaussian.simulate(1.0, rng, many),
            "numpy normal",
            lambda: rng.normal(scale=2.0, size=many),
            0.6,
            many,
            5,
        ),
        Item(
            "DiscreteGaussian.simulate",
            lambda: discrete.simulate(3, rng, many),
            "numpy normal",
            lambda: rng.normal(scale=10.0, size=many),
            5.0 / 70.0,
            many,
            5,
        ),
        Item(
            f"Laplace.release of {vector:g} numbers",
            lambda: laplace.release(values),
            "OpenDP, i64 vector",
            _opendp("make_laplace", "l1_distance", vector, 2.0**31),
            0.9,
            vector,
            1,
        ),
        Item(
            f"Gaussian.release of {vector:g} numbers",
            lambda: gaussian.release(values),
            "OpenDP, i64 vector",
            _opendp("make_gaussian", "l2_distance", vector, 2.0**31),
            0.9,
            vector,
            1,
        ),
        Item(
            f"AboveThreshold.simulate, {runs:g} runs of 1000 queries",
            lambda: stream.simulate(queries, rng, runs),
            "numpy laplace, as many",
            lambda: [rng.laplace(size=(runs // 100, 1000)) for _ in range(100)],
            0.5,
            runs * 1000,
            1,
        ),
    ]


def _opendp(make: str, metric: str, size: int, scale: float) -> Callable[[], Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    measurement = getattr(dp.m, make)(dp.vector_domain(dp.atom_domain(T="i64")), getattr(dp, metric)(T="i64"), scale)
    values = np.arange(size)
    return lambda: measurement(values)


def measure(item: Item) -> tuple[float, float]:
    """Returns the best CPU seconds of ours and of the other, run in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(item.repeats + 1):
        for i, call in enumerate((item.ours, item.other)):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    return best[0], best[1]


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows."""
    for item in items(quick):
        yield Row(item, *measure(item))


PAGE = """# Mechanisms: side by side

Written by `python -m benchmarks.mechanisms --write`; edit that instead.

Best CPU time of several runs in turns, in one process. A secure release rounds to a grid and adds discrete noise: exact
Laplace noise of our own, or OpenDP's Gaussian noise; the peer adds discrete noise of about as many steps to whole
numbers.

{table}
"""


if __name__ == "__main__":
    columns = "| | ours | draws/s | beside | draws/s | ratio of speeds | at least |"
    sys.exit(main("mechanisms", columns, rows, PAGE, quick="a tenth of the sizes"))
