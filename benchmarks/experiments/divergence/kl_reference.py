"""Squared errors of the divergence estimators beside numbers that were computed independently of this code.

Handwritten digits on 16 and 256 patterns, 90 pairs, a cohort of 179 writers, T = 1000, smoothing by one record a cell.
Noise of a trusted server or an aggregator is Gaussian throughout, to be comparable; where Laplace noise has less
variance, the library takes it (``noise="auto"``). Clients' noise is Skellam.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.experiments.divergence.digit_pairs import (
    SEED,
    Setting,
    digit_pairs,
    mean_errors,
    shared_noise,
    trusted_variance,
)
from benchmarks.frame import Cells, Report, markdown

EPSILONS = (0.05, 0.5, 1.0, 3.0, 6.0)
MULTIPLIERS = (0.0, 0.1)
WITHIN = 1.5
GRIDS = {16: (2, 2), 256: (4, 2)}
CASES = ((16, 1e-5), (256, 1e-5), (16, 0.05))

# By symbols, delta, model and multiplier; mean squared errors at EPSILONS.
QUOTED: dict[tuple[int, float, str, float], tuple[float, ...]] = {
    (16, 1e-5, "plain", 0.0): (0.015, 0.014, 0.014, 0.015, 0.015),
    (16, 1e-5, "trusted worst", 0.0): (1640.0, 24.5, 6.45, 0.90, 0.28),
    (16, 1e-5, "trusted realised", 0.0): (144.0, 1.9, 0.58, 0.105, 0.037),
    (16, 1e-5, "pair worst", 0.0): (1510.0, 23.0, 7.0, 0.95, 0.28),
    (16, 1e-5, "pair worst", 0.1): (3310.0, 48.0, 13.0, 2.0, 0.63),
    (16, 1e-5, "dist", 0.0): (0.37, 0.037, 0.028, 0.020, 0.018),
    (256, 1e-5, "plain", 0.0): (0.53, 0.53, 0.52, 0.53, 0.52),
    (256, 1e-5, "trusted worst", 0.0): (1560.0, 24.0, 7.3, 1.45, 0.78),
    (256, 1e-5, "trusted realised", 0.0): (20.0, 0.77, 0.60, 0.544, 0.536),
    (256, 1e-5, "dist", 0.0): (2.2, 1.12, 0.97, 0.76, 0.67),
    (16, 0.05, "trusted worst", 0.0): (14.9, 2.0, 0.93, 0.22, 0.096),
    (16, 0.05, "dist", 0.0): (0.034, 0.023, 0.018, 0.019, 0.017),
}
LAPLACE_QUOTED = (384.0, 3.9, 0.98, 0.12, 0.04)  # Trusted, worst draw, noise="auto", 16 symbols
NAMES = {
    "plain": "no privacy",
    "trusted worst": "trusted server, worst draw",
    "trusted realised": "trusted server, realised draw",
    "pair worst": "aggregator, pair, worst draw",
    "pair realised": "aggregator, pair, realised draw",
    "dist": "clients' shares",
}


def measured(
    symbols: int, delta: float, epsilons: list[float], variances: list[float], part: int, repetitions: int, writers: int
) -> dict[str, Any]:
    """Mean squared errors over all pairs, by model: a list for each epsilon, of one for each multiplier."""
    setting = Setting(
        epsilons=tuple(epsilons),
        delta=delta,
        variances=tuple(variances),
        multipliers=MULTIPLIERS,
        cohort=writers // 20,
        draws=("worst", "realised"),
        auto=False,
    )
    errors = mean_errors(digit_pairs(GRIDS[symbols], writers), setting, (SEED, 1, symbols, part), repetitions)
    return {name: found.mean(axis=1).tolist() for name, found in errors.items()}


def experiment(
    cells: Cells,
    cases: tuple[tuple[int, float], ...] = CASES,
    epsilons: tuple[float, ...] = EPSILONS,
    parts: int = 4,
    repetitions: int = 5,
    writers: int = 3580,
) -> Report:
    """Mean squared errors of all models beside quoted numbers."""
    noise = cells.each(shared_noise, [(eps, d) for _, d in cases for eps in epsilons], "noise")
    which = [EPSILONS.index(eps) for eps in epsilons]
    keys = [
        {"symbols": k, "delta": delta, "epsilons": list(epsilons), "part": part}
        | {"variances": [noise[eps, delta]["variance"] for eps in epsilons]}
        | {"repetitions": repetitions, "writers": writers}
        for k, delta in cases
        for part in range(parts)
    ]
    results = cells.all(keys, measured, "errors")
    early = [i for i, eps in enumerate(epsilons) if eps <= 3.0]
    rows: list[list[object]] = []
    ratios: dict[object, list[float]] = {}
    ordered = shared = True
    for i, (symbols, delta) in enumerate(cases):
        own = results[i * parts : (i + 1) * parts]
        found = {name: np.mean([one[name] for one in own], axis=0) for name in own[0]}
        for name in NAMES:
            errors = found[name]
            for j, lam in enumerate(MULTIPLIERS):
                quoted = QUOTED.get((symbols, delta, name, lam))
                if quoted is None and lam > 0.0:
                    continue
                rows.append([symbols, delta, NAMES[name], lam, *errors[:, j].tolist()])
                if quoted is not None:
                    wanted = [quoted[i] for i in which]
                    ratios[symbols, delta, name, lam] = (errors[:, j] / wanted).tolist()
                    rows.append(["", "", "quoted", "", *wanted])
        split = (found["pair worst"] - found["plain"]) / (found["trusted worst"] - found["plain"])
        shared &= bool((split >= 1.0 - 1e-9).all() and (split <= 4.0 + 1e-9).all())
        ordered &= bool((found["dist"][early, 0] < found["trusted worst"][early, 0]).all())
    if cases[0] == (16, 1e-5):
        wanted = [LAPLACE_QUOTED[i] for i in which]
        plain = float(np.mean([one["plain"] for one in results[:parts]], axis=0)[0, 0])
        laplace = [plain + trusted_variance(math.log(2.0), eps, 1e-5) for eps in epsilons]
        rows.append([16, 1e-5, "trusted server, worst draw, Laplace", 0.0, *laplace])
        rows.append(["", "", "quoted", "", *wanted])
        ratios["laplace"] = [x / y for x, y in zip(laplace, wanted, strict=True)]
    largest = max((max(r, 1.0 / r) for found in ratios.values() for r in found), default=1.0)
    table = markdown(["symbols", "δ", "who adds the noise", "λ", *(f"ε = {eps:g}" for eps in epsilons)], rows)
    return Report(
        (table, f"Largest ratio to a quoted number: {largest:.3f}."),
        {
            f"every result agrees with the quoted number within a factor of {WITHIN:g}": largest <= WITHIN,
            "for the worst draw an aggregator's noise has 1 to 4 times the variance of a trusted server's": shared,
            "up to ε = 3 clients' shares have smaller errors than a trusted server for the worst draw": ordered,
        },
    )
