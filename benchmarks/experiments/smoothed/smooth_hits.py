"""The effect of an adaptive adversary on small sets: the most hits of a cell, and averages that do not converge.

An adversary that always plays the cells that were hit most often stays below the sharp form of Lemma 3.2; the printed
form and Bernstein's stand beside it. The process of appendix B is smooth at 1/2, and the share of its points above 1/2
tends to 0 or to 1, never to a mean: adaptive sequences have no uniform convergence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import SEED, mean_and_error
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.measures.regret_bounds import hits_bound, printed_hits_bound
from hockeystick.learners.smoothed.online.smooth_adversaries import CellConcentration, NoUniformConvergence
from hockeystick.learners.smoothed.online.smoothed_online import SmoothedOnline

SIZES = ((100, 0.1), (400, 0.1), (1600, 0.1), (6400, 0.1), (1600, 0.5), (1600, 0.02))
QUOTED = {(400, 0.1): (29.0, 36.2, 86.0), (1600, 0.1): (54.1, 63.8, 178.0), (1600, 0.5): (54.1, 60.1, 164.0)}


def played(adversary: CellConcentration | NoUniformConvergence, rounds: int, runs: int, seed: int) -> np.ndarray:
    """Points (runs, rounds); the learner is a small one, as these adversaries pay no attention to it."""
    learner = SmoothedOnline(concepts=Thresholds(), measure=UniformCube(1), sigma=1.0, rounds=rounds, gamma=0.25)
    secret, nature = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    return np.asarray(learner.simulate(adversary, runs, secret=secret, nature=nature).points)


def hits(rounds: int, sigma: float, runs: int) -> dict[str, float]:
    """The most hits of one of sqrt(T)/sigma cells."""
    cells = round(math.sqrt(rounds) / sigma)
    adversary = CellConcentration(UniformCube(1), sigma, cells)
    mean, error = mean_and_error(adversary.hits(played(adversary, rounds, runs, SEED)).max(axis=1))
    share = rounds / (adversary.sigma * cells)
    logs = math.log(cells)
    return {
        "cells": cells,
        "hits": mean,
        "error": error,
        "sharp": hits_bound(logs, share),
        "bernstein": share + math.sqrt(2.0 * share * logs) + logs / 3.0,
        "printed": printed_hits_bound(logs, share) if share >= math.sqrt(logs) else math.inf,
        "average": share,
    }


def shares(rounds: int, runs: int) -> dict[str, float]:
    """Of runs of appendix B's process: how often the share of later points above 1/2 is 1, and how often neither."""
    later = played(NoUniformConvergence(), rounds, runs, SEED + 7)[:, 1:, 0] > 0.5
    share = later.mean(axis=1)
    return {"ones": float((share == 1.0).mean()), "between": float(((share > 0.0) & (share < 1.0)).mean())}


def experiment(
    cells: Cells,
    sizes: tuple[tuple[int, float], ...] = SIZES,
    runs: int = 60,
    lengths: tuple[int, ...] = (10, 100, 1000),
    processes: int = 2000,
) -> Report:
    """The most hits of a cell against three bounds, and averages of the process of appendix B."""
    most = cells.each(hits, sizes, "cells", runs=runs)
    found = list(most.values())
    averages = cells.each(shares, lengths, "averages", runs=processes)
    rows, near = [], []
    for key, one in most.items():
        quoted = QUOTED.get(key, ("", "", ""))
        rows.append(
            [*key, one["cells"], one["average"], f"{one['hits']:.1f} ± {one['error']:.1f}", quoted[0]]
            + [one["sharp"], quoted[1], one["bernstein"], one["printed"], quoted[2]]
        )
        if key in QUOTED:
            near += [abs(one[name] / q - 1) for name, q in zip(("hits", "sharp", "printed"), QUOTED[key], strict=True)]
    head = ["T", "σ", "cells", "hits of a fair cell", "most hits", "quoted", "sharp bound", "quoted", "Bernstein's"]
    spread = math.sqrt(0.25 / processes)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        line = sorted((t, one) for (t, s), one in most.items() if s == 0.1)
        for key, style in (("hits", "o-"), ("sharp", "-"), ("bernstein", "--"), ("printed", ":")):
            axes.loglog([t for t, _ in line], [one[key] for _, one in line], style, label=key)
        axes.set(xlabel="rounds T, σ = 0.1, sqrt(T)/σ cells", ylabel="most hits of a cell")
        axes.legend()

    return Report(
        [
            markdown([*head, "printed form", "quoted"], rows),
            "The process of appendix B:",
            markdown(
                ["T", "all later points above 1/2", "some above, some below"],
                [[t, one["ones"], one["between"]] for t, one in averages.items()],
            ),
        ],
        {
            "the most hits are below the sharp bound": all(one["hits"] < one["sharp"] for one in found),
            "the sharp bound is below Bernstein's, and that below the printed form": all(
                one["sharp"] <= one["bernstein"] <= one["printed"] for one in found
            ),
            "results agree with the quoted numbers within 5 %": all(value <= 0.05 for value in near),
            "later points of appendix B are all above 1/2 or all below, for every T": all(
                one["between"] == 0.0 for one in averages.values()
            ),
            "each with probability 1/2, within 4 standard errors": all(
                abs(one["ones"] - 0.5) <= 4.0 * spread for one in averages.values()
            ),
        },
        draw,
        "The most hits of a cell against rounds, below the sharp bound, Bernstein's and the printed one.",
    )
