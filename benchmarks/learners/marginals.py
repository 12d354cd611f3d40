"""Deviations of counts in k-way marginals, and errors of released marginals and of synthetic records.

    python -m benchmarks.learners.marginals [--write]

The first table has the largest standard deviation of a count for each noise, which no record changes; the second has
errors on a made-up table. ``--write`` puts both into docs/marginals.md.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.frame import markdown, replaced
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.mechanisms import Marginals, choose_marginals, synthetic_rows
from hockeystick.mechanisms.counts.marginal_sums import table_of

PAGE = Path(__file__).parents[2] / "docs" / "marginals.md"
SIZES, RECORDS, RUNS = (8, 5, 6, 2, 4), 20_000, 5
DOMAINS = (
    ("8 columns of 2 values", (2,) * 8),
    ("5 columns of 10 values", (10,) * 5),
    ("3 columns of 16 values", (16,) * 3),
)
KINDS = (
    ("laplace", "separate", "Laplace, marginals"),
    ("laplace", "full", "Laplace, whole table"),
    ("gaussian", "separate", "Gaussian, marginals"),
    ("gaussian", "residual", "Gaussian, residuals"),
)


def people(records: int = RECORDS) -> IntArray:
    """Returns the codes of a made-up table whose columns depend on each other and are skewed."""
    rng = np.random.default_rng(2)
    hidden = rng.normal(size=records)
    columns = []
    for size, noise in zip(SIZES, (0.5, 0.7, 1.0, 1.0, 2.0), strict=True):
        place = (hidden + noise * rng.normal(size=records)) / np.sqrt(1.0 + noise**2)
        columns.append(np.clip(np.floor(size * (1.0 / (1.0 + np.exp(-1.2 * place))) ** 1.5), 0, size - 1))
    return np.stack(columns, axis=1).astype(np.int64)


def deviations() -> list[tuple[str, ...]]:
    """Returns a row for each domain and number of columns."""
    found = []
    for (name, sizes), ways in itertools.product(DOMAINS, (1, 2, 3)):
        row = [f"{name}, {ways}-way"]
        for law, strategy, _ in KINDS:
            try:
                made = Marginals.calibrated(
                    sizes=sizes,
                    marginals=ways,
                    epsilon=1.0,
                    delta=0.0 if law == "laplace" else 1e-6,
                    law=law,  # type: ignore[arg-type]
                    strategy=strategy,  # type: ignore[arg-type]
                )
                row.append(f"{made.largest_deviation:.1f}")
            except InvalidArgumentError:
                row.append("–")
        found.append(tuple(row))
    return found


def errors(found: Sequence[ArrayLike], true: IntArray) -> tuple[float, float]:
    """Returns the mean total variation of all 2-way marginals and the largest error of a count as shares of records."""
    totals, largest = [], []
    for columns, told in zip(itertools.combinations(range(len(SIZES)), 2), found, strict=True):
        apart = np.asarray(told, dtype=float) - table_of(true, SIZES, columns)
        totals.append(np.abs(apart).sum() / 2.0)
        largest.append(np.abs(apart).max())
    return float(np.mean(totals)) / len(true), max(largest) / len(true)


def ours(epsilon: float, delta: float) -> list[tuple[str, ...]]:
    """Returns rows of the answers and of synthetic records, for as many records as there are."""
    true, rng = people(), np.random.default_rng(3)
    choice = choose_marginals(sizes=SIZES, marginals=2, epsilon=epsilon, delta=delta, records=len(true))
    told, made = [], []
    for output in choice.mechanism.simulate(true, rng, RUNS):
        answers = choice.mechanism.answers(output)
        pairs = list(itertools.combinations(range(len(SIZES)), 2))
        told.append(errors([answers.table(*pair) for pair in pairs], true))
        rows = synthetic_rows(answers, len(true), rng)
        made.append(errors([table_of(rows, SIZES, pair) for pair in pairs], true))
    label, bound = f"{epsilon:g}", f"{choice.bound.share:.2g}"
    return [
        (label, f"released marginals ({choice.candidates[0].name})", *_figures(told), bound),
        (label, "synthetic records", *_figures(made), "none"),
    ]


def _figures(pairs: list[tuple[float, float]]) -> tuple[str, str]:
    return f"{np.mean([one for one, _ in pairs]):.2g}", f"{np.mean([other for _, other in pairs]):.2g}"


def main() -> None:
    """Prints the tables, and writes them into the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    table = markdown(("marginals", *(name for _, _, name in KINDS)), deviations())
    heads = ("ε", "result", "total variation", "largest error", "stated bound")
    second = markdown(heads, [row for epsilon in (0.1, 1.0, 10.0) for row in ours(epsilon, 1e-6)])
    about = (
        f"A made-up table of {RECORDS:,} records and columns of {', '.join(map(str, SIZES))} values, all 2-way "
        f"marginals, δ = 10⁻⁶, mean of {RUNS} runs. Total variation is the mean over marginals, the largest error is "
        "that of a count; both are shares of the records."
    )
    written = "Written by `python -m benchmarks.learners.marginals --write`."
    print(table, second, sep="\n\n")
    if given.write:
        page = replaced(PAGE.read_text(encoding="utf-8"), "marginals", f"{table}\n\n{written}")
        PAGE.write_text(replaced(page, "marginals_errors", f"{about}\n\n{second}"), encoding="utf-8")


if __name__ == "__main__":
    main()
