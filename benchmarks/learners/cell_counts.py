"""Errors of noisy counts of cells on real columns: stated, measured, and beside one line of numpy.

    python -m benchmarks.learners.cell_counts [--write]

For each column, number of cells and ε the method is chosen by public sizes. The table has the bound that it states, the
mean of the measured largest errors of all candidates, and that of raw Laplace noise on the cells, as a script would add
it. Errors are those of thresholds at the edges, as shares of the records; edges are taken from the data here, which a
release must not do. ``--write`` puts the table into docs/release-a-table.md.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np

from benchmarks.frame import markdown, replaced
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms import CellCounts, choose_counts, count_cells

PAGE = Path(__file__).parents[2] / "docs" / "release-a-table.md"
RUNS = 200
CELLS, EPSILONS = (10, 64, 256, 1024, 4096), (0.1, 1.0, 10.0)


def columns() -> dict[str, FloatArray]:
    """Returns columns of scikit-learn's data sets, and one of a made-up census that is much larger."""
    from sklearn import datasets

    cancer, wine = datasets.load_breast_cancer(), datasets.load_wine()
    diabetes = datasets.load_diabetes(scaled=False)
    return {
        "mean radius": cancer.data[:, 0],
        "mean area": cancer.data[:, 3],
        "alcohol": wine.data[:, 0],
        "bmi": diabetes.data[:, 2],
        "made-up incomes": np.random.default_rng(0).lognormal(10.0, 0.6, 48_842).clip(0.0, 200_000.0),
        "many made-up incomes": np.random.default_rng(1).lognormal(10.0, 0.6, 5_000_000).clip(0.0, 200_000.0),
    }


def measured(mechanism: CellCounts, true: IntArray, rng: np.random.Generator) -> float:
    """Returns the mean largest error of the answers, as a share of the records."""
    sums = np.concatenate([[0], np.cumsum(true)])
    outputs = mechanism.simulate(true, rng, RUNS)
    errors = [np.abs(mechanism.answers(output).cumulative - sums).max() for output in outputs]
    return float(np.mean(errors)) / float(sums[-1])


def rows() -> list[tuple[str, ...]]:
    """Returns a row for each column, number of cells and ε, and prints it."""
    found: list[tuple[str, ...]] = []
    for (name, values), cells, epsilon in itertools.product(columns().items(), CELLS, EPSILONS):
        true, rng = count_cells(values, np.linspace(values.min(), values.max(), cells + 1)), np.random.default_rng(1)
        choice = choose_counts(cells=cells, epsilon=epsilon, records=len(values))
        errors = [measured(one.mechanism, true, rng) for one in choice.candidates]
        raw = np.cumsum(true + rng.laplace(scale=2.0 / epsilon, size=(RUNS, cells)), axis=1) - np.cumsum(true)
        line = float(np.abs(raw).max(axis=1).mean()) / len(values)
        found.append(
            (
                f"{name}, N = {len(values)}",
                str(cells),
                f"{epsilon:g}",
                choice.candidates[0].name.removeprefix("Laplace noise on "),
                f"{choice.bound.share:.2g}",
                f"{errors[0]:.2g}",
                f"{line:.2g}",
                f"{errors[0] / min(errors):.2f}",
                f"{errors[0] / line:.2f}",
            )
        )
        print(*found[-1], sep=" | ", flush=True)
    return found


HEAD = (
    "column",
    "cells",
    "ε",
    "noise on",
    "stated",
    "measured",
    "raw Laplace",
    "of the best candidate",
    "of raw Laplace",
)


def main() -> None:
    table = rows()
    worst = max(float(row[7]) for row in table), max(float(row[8]) for row in table)
    summary = f"At most {worst[0]:.2f} times the best candidate's error, and {worst[1]:.2f} times that of raw noise."
    if "--write" in sys.argv:
        written = "Written by `python -m benchmarks.learners.cell_counts --write`."
        text = f"{summary}\n\n{markdown(HEAD, table)}\n\n{written}"
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "cell_counts", text), encoding="utf-8")
    print(summary)


if __name__ == "__main__":
    main()
