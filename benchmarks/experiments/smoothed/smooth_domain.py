"""The domain's size does not matter: cells of the cover carry all that a law knows.

A fixed number of records on grids from 2^10 to 2^24 points, and on a continuum. Errors stay, and so does the number of
cells. The baseline without smoothness has to serve all thresholds of the grid, and its bound grows with ln |X|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import (
    SEED,
    answer_errors,
    cover_errors,
    law_errors,
    mean_and_error,
    window,
)
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure, UniformCube, UniformGrid
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.error_bounds import cover_gamma, error_bound
from hockeystick.learners.smoothed.queries.plan import calibrated, mwem

RECORDS, SIGMA = 4000, 1.0 / 16.0
BITS = (10, 12, 14, 16, 18, 20, 22, 24)


def smooth(bits: int | None, project: bool, runs: int, records: int = RECORDS) -> dict[str, float]:
    """Smooth MWEM on a grid of 2^bits points, or on [0, 1]."""
    measure: BaseMeasure = UniformCube(1) if bits is None else UniformGrid(2**bits)
    gamma = cover_gamma(records=records, sigma=SIGMA, project=project)
    cells = BoxCells.of(Thresholds().cover(gamma, measure))
    learner = calibrated(cells, records=records, sigma=SIGMA, epsilon=1.0, project=project, rounds=14)
    data = window(measure, SIGMA, records)
    laws = learner.weights(learner.simulate(data, np.random.default_rng([SEED, 7]), runs))
    if bits is not None:
        errors = cover_errors(cells, laws, data)
    else:
        errors = law_errors(cells, laws, data) if project else answer_errors(cells, laws, data)
    mean, error = mean_and_error(errors)
    return {
        "mean": mean, "error": error, "queries": cells.queries, "cells": len(cells.masses),
        "bound": learner.error_bound().error,
    }  # fmt: skip


def baseline(bits: int, runs: int, records: int = RECORDS) -> dict[str, float | None]:
    """MWEM on all thresholds of the grid; above 2^14 points its bound alone."""
    points = 2**bits
    best = min(
        error_bound(
            records=records,
            width=1.0,
            sigma=1.0 / points,
            gamma=0.0,
            queries=points + 1,
            rounds=R,
            epsilon_em=2.0 / (3.0 * R),
            epsilon_lap=1.0 / (3.0 * R),
        ).error
        for R in range(1, 200)
    )
    if bits > 14:
        return {"mean": None, "bound": best}
    grid = UniformGrid(points)
    cells = BoxCells.of(Thresholds().cover(0.5 / points, grid))
    learner = mwem(cells, records=records, epsilon=1.0, vacuous=True)
    data = window(grid, SIGMA, records)
    laws = learner.weights(learner.simulate(data, np.random.default_rng([SEED, 8]), runs))
    return {"mean": mean_and_error(cover_errors(cells, laws, data))[0], "bound": best}


def experiment(cells: Cells, bits: tuple[int, ...] = BITS, runs: int = 10, records: int = RECORDS) -> Report:
    """Errors and bounds against the number of points of the domain."""
    sizes = [*bits, None]
    found = cells.each(smooth, [(b, p) for p in (False, True) for b in sizes], "smooth", runs=runs, records=records)
    plain, projected = ([found[b, p] for b in sizes] for p in (False, True))
    base = list(cells.each(baseline, bits, "baseline", runs=runs, records=records).values())
    rows = [
        [
            "continuum" if b is None else f"2^{b}",
            round(one["queries"]), f"{one['mean']:.4f} ± {one['error']:.4f}", one["bound"],
            f"{two['mean']:.4f} ± {two['error']:.4f}", two["bound"],
            "" if three is None or three["mean"] is None else f"{three['mean']:.4f}",
            "" if three is None else three["bound"],
        ]
        for b, one, two, three in zip(sizes, plain, projected, [*base, None], strict=True)
    ]  # fmt: skip
    wide = [one["mean"] for b, one in zip(sizes, plain, strict=True) if b is None or b >= 14]
    bounds = [one["bound"] for one in plain]
    large = [bound for b, bound in zip(sizes, bounds, strict=True) if b is None or b >= 18]
    fit = np.corrcoef(np.sqrt(bits), [one["bound"] for one in base])[0, 1]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot(bits, [one["mean"] for one in plain[:-1]], "o-", label="Smooth MWEM")
        axes.plot(bits, [one["mean"] for one in projected[:-1]], "s-", label="projected")
        axes.plot(bits, bounds[:-1], ":", label="bound of Smooth MWEM")
        axes.plot(bits, [one["bound"] for one in base], "k:", label="bound of MWEM")
        known = [(b, one["mean"]) for b, one in zip(bits, base, strict=True) if one["mean"] is not None]
        axes.plot(*zip(*known, strict=True), "kx", label="MWEM")
        axes.set(xlabel="log2 |X|", ylabel="largest error", ylim=(0.0, None))
        axes.legend(fontsize=7)

    return Report(
        markdown(["points", "queries", "answers", "bound", "projected law", "bound", "MWEM", "its bound"], rows),
        {
            f"from 2^14 points to a continuum errors differ by {100 * (max(wide) / min(wide) - 1):.0f} %, less "
            "than a quarter": max(wide) / min(wide) <= 1.25,
            "the bound is the same from 2^18 points on, up to 1 %": max(large) / min(large) <= 1.01,
            "the bound of MWEM grows without limit, like sqrt(ln |X|)": fit >= 0.99
            and base[-1]["bound"] > base[0]["bound"],
            "every mean error is below its bound": all(one["mean"] < one["bound"] for one in found.values()),
        },
        draw,
        "Errors of Smooth MWEM, flat in the number of points, and the bound of MWEM, which grows.",
    )
