"""The lazy learner of convex losses beside DP-FTRL, both certified at the same epsilon.

Losses are 1-Lipschitz, on the unit ball or the cube in it (in one dimension the same). Linear losses come as *drift*,
independent directions with a small mean, or *alternating*, opposite directions in turns, in batches of the lazy
learner; their measures are truncated normal laws and are drawn from in closed form. Logistic losses are those of random
examples; points are drawn by rejection from a tangent, exactly, or by the proximal sampler, up to a total variation
distance that delta pays for.
Regret is a mean over independent runs, with its standard error; the bounds hold for every stream.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners import LazyConvex, PrivateFTRL
from hockeystick.learners.lazy import Ball, Box, ConvexLosses, LinearLosses, RegressionLosses
from hockeystick.learners.lazy.convex.losses.regularized_measure import minimiser
from hockeystick.learners.lazy.convex.sampling.samplers import (
    ClosedFormSampler,
    ProximalSampler,
    Sampler,
    TangentSampler,
)

DELTA = 1e-6
Case = tuple[str, str, int, int, str]  # losses, domain, d, T, sampler

SAMPLERS: dict[str, Sampler] = {
    "closed form": ClosedFormSampler(),
    "tangent": TangentSampler(),
    "proximal": ProximalSampler(1e-9, step=0.05),
}
CASES: tuple[Case, ...] = (
    *(
        (losses, shape, d, 4096, "closed form")
        for losses in ("drift", "alternating")
        for shape in ("ball", "box")
        for d in (1, 5, 50)
        if (shape, d) != ("box", 1)
    ),
    *(("logistic", "ball", d, 512, sampler) for d in (1, 2, 5) for sampler in ("tangent", "proximal")),
    ("logistic", "box", 5, 512, "tangent"),
    ("logistic", "box", 5, 512, "proximal"),
)
EPSILONS = (0.5, 1.0, 4.0)
LENGTHS = (10**3, 10**4, 10**5, 10**6)
DIMENSIONS = (1, 5, 50)


def domain_of(name: str, dimension: int) -> Ball | Box:
    """The unit ball, or the largest cube in it."""
    return Ball(dimension, 1.0) if name == "ball" else Box.cube(dimension, 1.0 / math.sqrt(dimension))


def stream(name: str, rounds: int, dimension: int, *, batch: int) -> ConvexLosses:
    """1-Lipschitz losses."""
    rng = np.random.default_rng([20240608, rounds, dimension])
    if name == "alternating":
        rows = np.zeros((rounds, dimension))
        rows[:, 0] = np.where(np.arange(rounds) // batch % 2 == 0, 1.0, -1.0)
        return LinearLosses(rows)
    rows = rng.normal(size=(rounds, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    if name == "drift":
        rows[:, 0] += 0.3
        return LinearLosses(rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True)))
    label = np.where(rng.random(rounds) < 1.0 / (1.0 + np.exp(-4.0 * rows[:, 0])), 1.0, -1.0)
    return RegressionLosses(rows, label)


def lazy_loss(learner: LazyConvex, losses: ConvexLosses, seed: int, runs: int) -> npt.NDArray[np.float64]:
    """Total loss of each of some runs of the lazy learner, shape (runs,)."""
    points = learner.simulate(losses, np.random.default_rng(seed), runs).actions
    total = np.zeros(runs)
    for s in range(learner.batches):
        total += losses.total(points[:, s], s * learner.batch, min(learner.rounds, (s + 1) * learner.batch))
    return total


def pair(
    domain: Ball | Box, rounds: int, epsilon: float, sampler: str = "closed form"
) -> tuple[LazyConvex, PrivateFTRL]:
    """Both learners, calibrated."""
    lazy = LazyConvex.calibrated(
        rounds=rounds, domain=domain, lipschitz=1.0, epsilon=epsilon, delta=DELTA, sampler=SAMPLERS[sampler]
    )
    return lazy, PrivateFTRL.calibrated(rounds=rounds, domain=domain, lipschitz=1.0, epsilon=epsilon, delta=DELTA)


def measured(
    name: str, shape: str, dimension: int, rounds: int, sampler: str, epsilon: float, runs: int
) -> dict[str, Any]:
    """Mean regret, its standard error, regret bound and certified epsilon of both learners."""
    domain = domain_of(shape, dimension)
    lazy, leader = pair(domain, rounds, epsilon, sampler)
    losses = stream(name, rounds, dimension, batch=lazy.batch)
    best = minimiser(losses, domain, start=0, stop=rounds)
    floor = float(losses.total(best[None], 0, rounds)[0])
    rng = np.random.default_rng(2)
    found: dict[str, Any] = {"batch": lazy.batch}
    for key, learner, total in (
        ("lazy", lazy, lazy_loss(lazy, losses, 1, runs)),
        ("ftrl", leader, leader.losses_of(losses, leader.simulate(losses, rng, runs))),
    ):
        found[key] = {
            "mean": float(total.mean() - floor),
            "error": float(total.std(ddof=1) / math.sqrt(runs)),
            "bound": learner.regret_bound(),
            "certified": learner.graph().guarantee().epsilon(DELTA).upper,
        }
    return found


def bounds(dimension: int, rounds: int, epsilon: float) -> dict[str, Any]:
    """The regret bounds of both learners on the unit ball."""
    lazy, leader = pair(Ball(dimension, 1.0), rounds, epsilon)
    return {"lazy": lazy.regret_bound(), "ftrl": leader.regret_bound()}


def experiment(
    cells: Cells,
    cases: tuple[Case, ...] = CASES,
    epsilons: tuple[float, ...] = EPSILONS,
    lengths: tuple[int, ...] = LENGTHS,
    runs: int = 40,
) -> Report:
    """The lazy learner and DP-FTRL at the same certified epsilon."""
    found = cells.each(measured, [(*case, eps) for case in cases for eps in epsilons], "cases", runs=runs)
    grown = cells.each(bounds, [(d, t) for d in DIMENSIONS for t in lengths], "bounds", epsilon=1.0)
    rows: list[list[object]] = []
    for (name, shape, d, t, sampler, eps), row in found.items():
        shown = [f"{row[key]['mean']:.4g} ± {row[key]['error']:.2g}" for key in ("lazy", "ftrl")]
        limits = [row[key]["bound"] for key in ("lazy", "ftrl")]
        rows.append([name, sampler, shape, d, t, eps, row["batch"], *shown, *limits])
    both = [row[key] | {"target": eps} for (*_, eps), row in found.items() for key in ("lazy", "ftrl")]
    first, last = lengths[0], lengths[-1]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for color, d in enumerate(DIMENSIONS):
            for key, style, title in (("lazy", "o-", "lazy"), ("ftrl", "s--", "DP-FTRL")):
                values = [grown[d, t][key] for t in lengths]
                axes.loglog(lengths, values, style, color=f"C{color}", label=f"{title}, d = {d}", markersize=4)
        axes.set(xlabel="rounds T, at ε = 1", ylabel="regret bound")
        axes.legend()

    return Report(
        markdown(
            ["losses", "sampler", "domain", "d", "T", "ε", "batch", "lazy", "DP-FTRL", "lazy, bound", "DP-FTRL, bound"],
            rows,
        ),
        {
            "both learners are certified at their ε (up to rounding, 1e-12 of it)": all(
                row["certified"] <= row["target"] * (1.0 + 1e-12) for row in both
            ),
            "every mean regret is within 6 standard errors of its bound or below it": all(
                row["mean"] - 6.0 * row["error"] <= row["bound"] for row in both
            ),
            f"at ε = 1 and T = {last} the lazy learner has the smaller bound, for every d": all(
                grown[d, last]["lazy"] < grown[d, last]["ftrl"] for d in DIMENSIONS
            ),
            f"its ratio to DP-FTRL's bound is smaller than at T = {first}": all(
                grown[d, last]["lazy"] / grown[d, last]["ftrl"] < grown[d, first]["lazy"] / grown[d, first]["ftrl"]
                for d in DIMENSIONS
            ),
        },
        draw,
        "Regret bounds of both learners against the number of rounds, for 1, 5 and 50 dimensions.",
    )
