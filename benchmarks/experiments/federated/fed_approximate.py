"""The slopes of Theorem 6: Fed-DP-OPE-Stoch on curved losses with the depth and the noise printed for δ > 0.

Theorem 6 sets T1 = (2/3) log2(K) with K = b ε beta sqrt(m) / (alpha ln(2^(p-1)/δ) ln d), so its second term falls like
K^(-2/3): slopes -2/3 in ε and -1/3 in m, and 1/3 in T for the regret, up to logarithms. It dominates if K is small
against b m. A phase forgets the one before, and reads a small part of its losses at the printed batch. So one phase is
run, on as many losses as it reads, and its regret is that of the phase's 2^(p-1) rounds.

Losses are ||x - y||^2/2 for points y around a hidden one: the *flat* point 1/d, which no mixture of a few experts
reaches, or a *drawn* point of 16 coordinates, which the method finds in fewer steps than it has leaves.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from attrs import evolve

from benchmarks.experiments.federated.fed_slopes import slope
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase, records_needed
from hockeystick.learners.federated.stochastic.losses import SquaredDistances
from hockeystick.learners.federated.stochastic.privacy_plan import printed_scale

SEED = 20240930
DELTA = 1e-6
SPREAD = {"flat": 0.05, "drawn": 0.2}
Target = Literal["flat", "drawn"]
STEPS = tuple(2.0 ** (0.75 * j) for j in range(7))  # of K: half a tree each


def gain(phase: int, clients: int, epsilon: float, experts: int, target: Target) -> float:
    """K, at the printed batch b = 2^(p-1)/(p-1)^2, alpha = 1 + spread, and beta = 1."""
    batch, log = 2.0 ** (phase - 1) / (phase - 1) ** 2, (phase - 1) * math.log(2.0) - math.log(DELTA)
    return batch * epsilon * math.sqrt(clients) / ((1.0 + SPREAD[target]) * log * math.log(experts))


def epsilon_for(value: float, phase: int, clients: int, experts: int, target: Target) -> float:
    """The ε at which K has this value."""
    return value / gain(phase, clients, 1.0, experts, target)


def near(found: float, printed: float) -> bool:
    """Whether a slope is the printed one, up to 0.15."""
    return abs(found - printed) <= 0.15


def curved(phase: int, clients: int, epsilon: float, experts: int, target: Target, seeds: int) -> dict[str, Any]:
    """Returns the numbers of one phase: K, its trees, the mean excess loss with and without noise, and its noise."""
    most, value = 1.0 + SPREAD[target], gain(phase, clients, epsilon, experts, target)
    trees = max(1, round(2.0 / 3.0 * math.log2(value)))
    batch = (2 ** (phase - 1) // (phase - 1) ** 2) >> trees << trees
    before = (records_needed(trees, batch) - 1).bit_length()
    bare = TreePhase(records=2**before, trees=trees, batch=batch, scales=(1e-12,) * trees)
    setting = StochSetting(clients=clients, phases=(None,) * before + (bare,), low=-most, high=most, smoothness=1.0)
    scale = printed_scale(setting, phase, bare, 1, epsilon=epsilon, delta=DELTA)
    noisy = evolve(setting, phases=(None,) * before + (evolve(bare, scales=(scale,) * trees),))
    rounds, family = 2 ** (before + 1), SquaredDistances(least=-SPREAD[target], most=most)
    both = [FedStoch(setting=each, rounds=rounds, experts=experts, family=family) for each in (noisy, setting)]
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([SEED, seed])
        centre = np.full(experts, 1.0 / experts) if target == "flat" else rng.dirichlet(np.ones(experts))
        losses = centre + SPREAD[target] * (2.0 * rng.random((clients, rounds, experts)) - 1.0)
        points = [learner.simulate(losses, rng, 2).points[:, -1] for learner in both]
        found.append([0.5 * float(((x - centre) ** 2).sum(axis=1).mean()) for x in points])
    excess, quiet = np.mean(found, axis=0).tolist()
    log = (phase - 1) * math.log(2.0) - math.log(DELTA)
    over = log / (4.0 * 2.0 ** (trees / 2))  # of Theorem 1's noise for the last tree
    return {"gain": value, "trees": trees, "excess": excess, "quiet": quiet, "over": over}


def experiment(
    cells: Cells,
    phases: tuple[int, ...] = (13, 15, 17, 19),
    phase: int = 16,
    clients: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64),
    experts: int = 512,
    seeds: int = 4,
) -> Report:
    """Slopes of the excess loss in ε and m, and of the regret of a phase in T."""
    fewer = experts // 2  # where there are many clients
    sizes: tuple[tuple[Target, int], ...] = (("flat", experts), ("drawn", 16))
    start = {t: epsilon_for(8.0, phase, 2, d, t) for t, d in sizes}
    by_epsilon: list[Any] = [(phase, 2, start[t] * step, d, t) for t, d in sizes for step in STEPS]
    by_clients: list[Any] = [(14, m, epsilon_for(8.0, 14, 1, fewer, "flat"), fewer, "flat") for m in clients]
    by_rounds: list[Any] = [(p, 1, epsilon_for(8.0, phases[0], 1, experts, "flat"), experts, "flat") for p in phases]
    found = cells.each(curved, [*by_epsilon, *by_clients, *by_rounds], "approximate", seeds=seeds)

    def line(rows: list[Any], name: str = "excess") -> list[float]:
        return [found[row][name] for row in rows]

    flat, drawn = by_epsilon[: len(STEPS)], by_epsilon[len(STEPS) :]
    regrets = [2.0 ** (p - 1) * e for p, e in zip(phases, line(by_rounds), strict=True)]
    lengths = [2.0**p - 1 for p in phases]
    logs = [(p - 1) ** (4 / 3) * ((p - 1) * math.log(2.0) - math.log(DELTA)) ** (2 / 3) for p in phases]
    slopes = {
        "ε": slope(STEPS, line(flat)),
        "drawn": slope(STEPS, line(drawn)),
        "m": slope(clients, line(by_clients)),
        "T": slope(lengths, regrets),
        "T less logarithms": slope(lengths, [r / w for r, w in zip(regrets, logs, strict=True)]),
    }
    every = list(found.values())
    ratio = {t: max(r["excess"] / r["quiet"] for key, r in found.items() if key[-1] == t) for t in ("flat", "drawn")}
    over = [row["over"] for row in every]
    tables = [
        f"Excess loss of a phase, δ = {DELTA:g}, printed depth and noise:",
        markdown(
            ["target", *(f"ε = {s:.3g} ε₀" for s in STEPS), "slope", "printed"],
            [
                [f"flat, d = {experts}", *line(flat), slopes["ε"], "-2/3"],
                ["trees", *line(flat, "trees"), "", ""],
                ["drawn, d = 16", *line(drawn), slopes["drawn"], "-2/3"],
            ],
        ),
        markdown(
            ["target", *(f"m = {m}" for m in clients), "slope", "printed"],
            [
                [f"flat, d = {fewer}", *line(by_clients), slopes["m"], "-1/3"],
                ["trees", *line(by_clients, "trees"), "", ""],
            ],
        ),
        "Regret of a phase:",
        markdown(
            ["target", *(f"T = 2^{p} - 1" for p in phases), "slope", "less logarithms", "printed"],
            [
                [f"flat, d = {experts}", *regrets, slopes["T"], slopes["T less logarithms"], "1/3"],
                ["trees", *line(by_rounds, "trees"), "", "", ""],
            ],
        ),
        f"K = 8 at ε₀ = {start['flat']:.3g} (flat) and {start['drawn']:.3g} (drawn). The noise changes the excess of "
        f"flat targets by a factor of at most {ratio['flat']:.2f}, since the depth decides, and that of drawn ones by "
        f"{ratio['drawn']:.2f}. The noise of the last tree is {min(over):.2f} to {max(over):.2f} times that of "
        "Theorem 1. The theorem's condition for privacy, ε ≤ √(ln(1/δ)/2^T1), does not hold at these sizes.",
    ]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, rows in (("ε", flat), ("m", by_clients), ("T", by_rounds), ("ε, drawn target", drawn)):
            axes.loglog(line(rows, "gain"), line(rows), "o-", label=f"against {name}", markersize=3)
        reach = np.array([8.0, 600.0])
        axes.loglog(reach, line(flat)[0] * (reach / 8.0) ** (-2 / 3), "k:", label="slope -2/3")
        axes.set(xlabel="K", ylabel="excess loss")
        axes.legend(fontsize=7)

    return Report(
        tables,
        {
            f"flat target: slopes -2/3 in ε ({slopes['ε']:.2f}) and -1/3 in m ({slopes['m']:.2f}), up to 0.15": near(
                slopes["ε"], -2 / 3
            )
            and near(slopes["m"], -1 / 3),
            f"flat target: slope 1/3 in T ({slopes['T less logarithms']:.2f} less the logarithms), up to 0.15": near(
                slopes["T less logarithms"], 1 / 3
            ),
            f"drawn target: the excess falls faster than the bound (slope {slopes['drawn']:.2f} in ε), so the bound's "
            "slope is not seen": slopes["drawn"] < -2 / 3 - 0.15,
        },
        draw,
        "Excess loss of a phase against K on logarithmic axes, beside a line of slope -2/3.",
    )
