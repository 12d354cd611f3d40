"""Mechanisms compared with numpy's own generators and with OpenDP's integer vectors.

    python -m benchmarks.mechanisms [--quick] [--write]

times each pair alternately, several times, in one process, and prints the ratio of the least CPU times and whether it
is within its limit. ``--write`` puts the table into docs/benchmarks-mechanisms.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.frame import Row, compare, seconds
from hockeystick import mechanisms


def compared(
    name: str,
    ours: Callable[[], Any],
    other_name: str,
    other: Callable[[], Any],
    *,
    least: float,
    draws: float,
    repeats: int = 2,
) -> Row:
    """Returns a row: the draws per second of two computations of one size, and the least ratio of the speeds."""
    mine, theirs = seconds(repeats, ours, other)
    speeds = f"{draws / mine:.2g}", other_name, f"{draws / theirs:.2g}"
    return Row((name, *speeds, f"{theirs / mine:.2f}", f"{least:.2f}"), theirs / mine >= least)


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows; the sizes are a tenth with ``quick``."""
    rng = np.random.default_rng(1)
    many, vector, runs = (10**6, 10**4, 10**4) if quick else (10**7, 10**6, 10**5)
    cases: tuple[tuple[Any, float, str, Callable[[], Any], float], ...] = (
        (mechanisms.Laplace(2.0), 1.0, "numpy laplace", lambda: rng.laplace(scale=2.0, size=many), 0.6),
        (mechanisms.Gaussian(2.0), 1.0, "numpy normal", lambda: rng.normal(scale=2.0, size=many), 0.6),
        (mechanisms.DiscreteGaussian(10.0), 3, "numpy normal", lambda: rng.normal(scale=10.0, size=many), 5.0 / 70.0),
    )
    for mechanism, value, peer, drawn, least in cases:
        name = f"{type(mechanism).__name__}.simulate"
        simulate = partial(mechanism.simulate, value, rng, many)
        yield compared(name, simulate, peer, drawn, least=least, draws=many, repeats=6)
    values = np.linspace(0.0, 1.0, vector)
    for mechanism, make, metric, floor in (
        (mechanisms.Laplace(2.0), "make_laplace", "l1_distance", 5.0),
        (mechanisms.Gaussian(2.0), "make_gaussian", "l2_distance", 50.0),
    ):
        name = f"{type(mechanism).__name__}.release of {vector:g} numbers"
        release = partial(mechanism.release, values)
        yield compared(name, release, "OpenDP, i64 vector", _opendp(make, metric, vector), least=floor, draws=vector)
    stream = mechanisms.AboveThreshold(0.0, threshold_scale=2.0, query_scale=4.0, answers=1)
    queries = np.full(1000, -1e3)  # the worst case: no query stops the stream
    yield compared(
        f"AboveThreshold.simulate, {runs:g} runs of 1000 queries",
        lambda: stream.simulate(queries, rng, runs),
        "numpy laplace, as many",
        lambda: [rng.laplace(size=(runs // 100, 1000)) for _ in range(100)],
        least=0.5,
        draws=runs * 1000,
    )


def _opendp(make: str, metric: str, size: int) -> Callable[[], Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), getattr(dp, metric)(T="i64")
    measurement, values = getattr(dp.m, make)(*space, 2.0**31), np.arange(size)
    return lambda: measurement(values)


PAGE = """# Mechanisms: side by side

{met} Laplace and Gaussian simulations have to reach 0.6 of numpy's speed, and
secure releases 5 and 50 times OpenDP's.

Written by `python -m benchmarks.mechanisms --write`; edit that instead.

The table has the least CPU time of several alternating runs in one process. A secure release rounds to a grid and adds
exact discrete noise. The peer adds exact discrete noise of about the same number of steps to whole numbers.

{table}
"""


if __name__ == "__main__":
    columns = "| | ours | draws/s | beside | draws/s | ratio of speeds | at least |"
    sys.exit(compare("benchmarks-mechanisms.md", columns, rows, PAGE, quick="a tenth of the sizes"))
