"""Private learning with label noise: thresholds, a tenth of all labels flipped.

A learner that answers all error queries to within alpha finds, on the synthetic pairs, a predicate whose error is at
most 2 alpha above the best. Two methods: a law on pairs by Smooth MWEM, for errors of a cover; and a private net of a
few pairs. Pairs are half as smooth as their points.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import SEED, mean_and_error
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.classes.error_queries import labelled_points
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.smooth_data import WindowLaw
from hockeystick.learners.smoothed.nets.agnostic_learner import AgnosticLearner, best_predicate, error
from hockeystick.learners.smoothed.nets.net_bounds import labelled_smoothness
from hockeystick.learners.smoothed.queries.cells import MatrixCells
from hockeystick.learners.smoothed.queries.plan import calibrated

POINTS, NOISE, CUT, SIGMA = 512, 0.1, 0.55, 0.5
RECORDS = (500, 2000, 8000, 32_000)
NET = {"accepted": 4, "size": 4}  # few: candidates are listed


def labels_of(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by a threshold, a tenth of them flipped."""
    return np.asarray((x >= CUT) ^ (rng.random(len(x)) < NOISE))


def by_law(records: int, delta: float, runs: int) -> dict[str, float]:
    """Smooth MWEM on pairs over a grid; the predicate of the cover with least error on the law."""
    grid, rng = UniformGrid(POINTS), np.random.default_rng([SEED, records])
    cover = Thresholds().cover(max(0.5 / POINTS, SIGMA / records), grid)
    places = grid.position(0, np.arange(POINTS))
    held = cover.predict(places[:, None])
    cells = MatrixCells(matrix=np.concatenate([held, ~held], axis=1).astype(float))  # errors at label 0, then at 1
    learner = calibrated(
        cells, records=records, sigma=labelled_smoothness(SIGMA), epsilon=1.0, delta=delta, vacuous=True
    )
    x = WindowLaw(grid, 0.25, SIGMA).sample(rng, records)[:, 0]
    y = labels_of(x, rng)
    pairs = np.rint(x * (POINTS - 1)).astype(np.int64) + POINTS * y
    laws = learner.weights(learner.simulate(pairs, rng, runs))
    synthetic = cells.answers(laws)
    truth = cells.answers(cells.counts(pairs)) / records
    alpha = np.abs(synthetic - truth).max(axis=1)
    least = best_predicate(Thresholds(), x, y)[1]
    excess = truth[synthetic.argmin(axis=1)] - least
    return _found(excess, alpha, learner.error_bound().error, least)


def by_net(records: int, runs: int) -> dict[str, float]:
    """A net of a few pairs from a public sub-domain."""
    measure, rng = UniformCube(1), np.random.default_rng([SEED, records, 1])
    learner = AgnosticLearner.draw(
        Thresholds(), measure, np.random.default_rng([SEED, 2]), sigma=SIGMA, epsilon=1.0, records=records, **NET
    )
    x = WindowLaw(measure, 0.25, SIGMA).sample(rng, records)[:, 0]
    y = labels_of(x, rng)
    nets = learner.net.simulate(labelled_points(x, y), rng, runs)
    alpha = learner.net.largest_error(nets, labelled_points(x, y))
    least = best_predicate(Thresholds(), x, y)[1]
    excess = error(Thresholds(), learner.learned(nets), x, y) - least
    return _found(excess, alpha, None, least)


def _found(excess: np.ndarray, alpha: np.ndarray, bound: float | None, least: float) -> dict[str, Any]:
    mean, spread = mean_and_error(np.round(excess, 12) + 0.0)  # the best may differ from itself by rounding
    return {
        "excess": mean, "spread": spread, "worst": float((excess - 2.0 * alpha).max()), "alpha": float(alpha.mean()),
        "bound": bound, "least": least,
    }  # fmt: skip


def experiment(
    cells: Cells, records: tuple[int, ...] = RECORDS, runs: int = 20, nets: tuple[int, ...] = (500, 2000)
) -> Report:
    """Excess errors of private learners against twice the largest error of their synthetic data."""
    laws = cells.each(by_law, [(n, d) for d in (0.0, 1e-6) for n in records], "laws", runs=runs)
    small = cells.each(by_net, nets, "nets", runs=runs)
    named = [(f"law, δ = {d:g}", n, one, 2.0 * one["bound"]) for (n, d), one in laws.items()]
    named += [(f"net of {NET['size']} pairs", n, one, "") for n, one in small.items()]
    rows = [
        [name, n, one["least"], f"{one['excess']:.4f} ± {one['spread']:.4f}", 2.0 * one["alpha"], bound]
        for name, n, one, bound in named
    ]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for d in (0.0, 1e-6):
            axes.loglog(records, [laws[n, d]["excess"] for n in records], "o-", label=f"excess, δ = {d:g}")
            axes.loglog(records, [2.0 * laws[n, d]["alpha"] for n in records], ":", label=f"2α, δ = {d:g}")
        axes.set(xlabel="records n", ylabel="error above the best threshold's")
        axes.legend()

    return Report(
        markdown(["learner, ε = 1", "n", "least error", "excess", "2α, measured", "2α, bound"], rows),
        {
            "no run's excess is above twice its largest error over error queries": all(
                one["worst"] <= 1e-9 for _, _, one, _ in named
            ),
            "α is below its bound": all(one["alpha"] < one["bound"] for one in laws.values()),
            f"with {records[-1]} records the excess is below 0.05": all(
                one["excess"] < 0.05 for (n, _), one in laws.items() if n == records[-1]
            ),
        },
        draw,
        "Excess errors of private learners against records, below twice the largest error of their synthetic data.",
    )
