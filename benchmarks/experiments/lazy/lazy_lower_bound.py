"""The adversary of the printed lower bound, and a learner of its class whose regret is below the bound.

Asi, Koren, Liu & Talwar 2024, Theorem 4.2: every eps^2-zCDP learner that keeps its expert or draws a fresh one has
regret of order T^(1/3) eps^(-2/3), shown with losses that are coins, drawn once per epoch and repeated through it. The
learner that watches half of each epoch and draws for the other half is in the class, is eps^2-zCDP by parallel
composition over epochs, and has negative regret there. So that adversary proves no such bound; the theorem itself is
left open.

Expectations over coins and draws are exact, without simulation. The lazy learner, calibrated to the same certified
epsilon at delta = 1e-6, and the parallel one are also run on streams, where that is feasible.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import EpochAdversary, ParallelEpochLearner
from hockeystick.learners.lazy.theory.lower_bounds import printed_regret_floor

DELTA = 1e-6
EXACT = ((10**6, 1e-2), (10**7, 3e-3), (10**8, 1e-3), (10**9, 1e-3))
PLAYED = ((10**4, 0.05), (10**5, 0.02), (10**6, 0.01))


def learner(adversary: EpochAdversary) -> ParallelEpochLearner:
    """The parallel learner for the adversary's epochs and epsilon."""
    return ParallelEpochLearner(
        rounds=adversary.rounds, experts=adversary.experts, epoch=adversary.epoch, epsilon=adversary.epsilon
    )


def exact(rounds: int, epsilon: float) -> dict[str, Any]:
    """Exact expected regret of the parallel learner and of a random guess on the adversary; two experts."""
    adversary = EpochAdversary(rounds=rounds, experts=2, epsilon=epsilon)
    parallel = learner(adversary)
    printed = printed_regret_floor(rounds=rounds, experts=2, epsilon=epsilon)
    return {
        "epoch": adversary.epoch,
        "parallel": parallel.expected_regret_on(adversary),
        "guess": 0.5 * adversary.epoch * adversary.epochs - adversary.expected_floor(),
        "printed": printed.value,
        "applies": all(condition.holds for condition in printed.conditions),
    }


def share(rounds: int, epsilon: float) -> dict[str, Any]:
    """The zCDP cost that the parallel learner's graph certifies, as a share of eps^2."""
    adversary = EpochAdversary(rounds=rounds, experts=2, epsilon=epsilon)
    return {"rho": learner(adversary).graph().guarantee().event.zcdp_rho() / epsilon**2}


def played(rounds: int, epsilon: float, streams: int) -> dict[str, Any]:
    """Mean regret over the adversary's streams, with its standard error; expected over the learner's draws, exactly."""
    adversary = EpochAdversary(rounds=rounds, experts=2, epsilon=epsilon)
    parallel = learner(adversary)
    target = parallel.graph().guarantee().epsilon(DELTA).upper
    lazy = LazyExperts.calibrated(rounds=rounds, experts=2, epsilon=target, delta=DELTA, variant="dartboard")
    rng = np.random.default_rng(20240606)
    regrets = []
    for _ in range(streams):
        losses = adversary.losses(rng)
        regrets.append([parallel.expected_regret(losses), lazy.expected_regret(losses)])
    mean, error = np.mean(regrets, axis=0), np.std(regrets, axis=0, ddof=1) / math.sqrt(streams)
    return {
        "target": target,
        "certified": lazy.graph().guarantee().epsilon(DELTA).upper,
        "batch": lazy.batch,
        "parallel": [float(mean[0]), float(error[0])],
        "lazy": [float(mean[1]), float(error[1])],
        "bound": lazy.regret_bound(),
        "exact": parallel.expected_regret_on(adversary),
    }


def experiment(
    cells: Cells,
    settings: tuple[tuple[int, float], ...] = EXACT,
    runs: tuple[tuple[int, float], ...] = PLAYED,
    streams: int = 40,
) -> Report:
    """Regret on the epoch adversary: printed floor, random guess, lazy learner, parallel learner."""
    shares = cells.each(share, settings, "exact")
    found = {setting: exact(*setting) | row for setting, row in shares.items()}
    simulated = cells.each(played, runs, "streams", streams=streams)
    table = (
        markdown(
            ["T", "ε", "epoch", "printed bound", "random guess", "parallel learner", "its zCDP, in ε²"],
            [
                [_power(t), eps, *(row[key] for key in ("epoch", "printed", "guess", "parallel", "rho"))]
                for (t, eps), row in found.items()
            ],
        ),
        markdown(
            ["T", "ε", f"(ε, {DELTA:g})-DP", "lazy learner", "parallel learner", "parallel learner, exact"],
            [
                [_power(t), eps, row["target"], _mean(row["lazy"]), _mean(row["parallel"]), row["exact"]]
                for (t, eps), row in simulated.items()
            ],
        ),
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        grid = 10.0 ** np.linspace(6.0, 9.0, 13)
        points = [exact(round(t), 1e-3) for t in grid]
        for name, title, style in (
            ("printed", "printed lower bound, without its constant", "k--"),
            ("guess", "random guess", "C2s-"),
            ("parallel", "parallel learner", "C0o-"),
        ):
            axes.plot(
                grid, [point[name] / math.sqrt(t) for point, t in zip(points, grid, strict=True)], style, label=title
            )
        axes.axhline(0.0, color="grey", linewidth=0.8)
        axes.set(xscale="log", xlabel="rounds T, at ε = 0.001", ylabel="expected regret / √T")
        axes.legend()

    return Report(
        table,
        {
            "the parallel learner is ε²-zCDP, whatever the number of epochs": all(
                row["rho"] <= 1.0 + 1e-12 for row in found.values()
            ),
            "its expected regret is negative where a random guess has regret above 0": all(
                row["parallel"] < 0.0 < row["guess"] for row in found.values()
            ),
            "the conditions of the printed bound hold there": all(row["applies"] for row in found.values()),
            "on streams its regret is within 6 standard errors of the exact number": all(
                abs(row["parallel"][0] - row["exact"]) <= 6.0 * row["parallel"][1] for row in simulated.values()
            ),
            "the lazy learner, certified at the parallel learner's ε, stays within its own regret bound": all(
                row["certified"] <= row["target"] and row["lazy"][0] <= row["bound"] for row in simulated.values()
            ),
        },
        draw,
        "Regret over the root of T: the printed bound and a random guess above 0, the parallel learner below.",
    )


def _power(rounds: int) -> str:
    return f"10^{round(math.log10(rounds))}"


def _mean(value: list[float]) -> str:
    return f"{value[0]:.4g} ± {value[1]:.2g}"
