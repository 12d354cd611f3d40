"""The variance of the average of queries, exactly: in T, and in the multiplier lambda.

With P known exactly, T draws of Pi give the variance (lambda^2 chi2(P || Pi) - 2 lambda J + Var(ln r))/T, with J the
sum of both divergences. Averages are simulated at full participation and set beside it. Its vertex J/chi2(P || Pi) is
set beside the paper's lambda_0 = J/(max P/Pi - 1), which is the vertex of a bound, and the printed upper bound of the
best multiplier beside the bracket [ln a/(a - 1), b ln b/(b - 1)] that does hold it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments.divergence.digit_pairs import SEED, digit_pairs
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.made_up_populations import dirichlet_law
from hockeystick.learners.divergence.variance import (
    kl,
    multiplier_bracket,
    parabola,
    printed_multiplier,
    printed_multiplier_bound,
    printed_variance_bound,
    query,
    variance_bound,
)
from hockeystick.learners.lazy import log_log_slope

SAMPLES = (10, 30, 100, 300, 1000, 3000, 10_000)
MULTIPLIERS = tuple(round(0.05 * i, 2) for i in range(41))
WITHIN, SLOPE = 0.03, 0.02
Laws = tuple[FloatArray, FloatArray]


def laws(name: str) -> Laws:
    """Pi and P."""
    if name == "two symbols":
        return np.array([0.5, 0.5]), np.array([0.55, 0.45])
    if name == "20 symbols":
        rng = np.random.default_rng([SEED, 2])
        return dirichlet_law(20, rng), dirichlet_law(20, rng)
    pairs = digit_pairs((2, 2))
    return pairs.references[3], pairs.references[5]


NAMES = ("two symbols", "20 symbols", "digits 3 and 5")


def averages(pi: FloatArray, p: FloatArray, multipliers: tuple[float, ...], samples: int, runs: int) -> FloatArray:
    """The average of T queries at P itself, shape (runs, multipliers)."""
    rng = np.random.default_rng([SEED, 3, samples])
    shares = rng.multinomial(samples, pi, size=runs) / samples
    return shares @ np.stack([query(p / pi, lam) for lam in multipliers], axis=1)


def measured(name: str, samples: int, multipliers: Sequence[float], runs: int) -> dict[str, Any]:
    """Means and mean squared errors of simulated averages."""
    pi, p = laws(name)
    found = averages(pi, p, tuple(multipliers), samples, runs)
    return {
        "mean": found.mean(axis=0).tolist(),
        "error": ((found - kl(pi, p)) ** 2).mean(axis=0).tolist(),
        "deviation": found.std(axis=0, ddof=1).tolist(),
    }


def random_pairs(count: int) -> dict[str, Any]:
    """How many of many random pairs are outside the bracket, above the printed bound, and break a variance bound."""
    rng = np.random.default_rng([SEED, 4])
    outside = above = below_printed = loose = 0
    for _ in range(count):
        k = int(rng.integers(2, 12))
        pi, p = (dirichlet_law(k, rng, concentration=float(rng.choice([0.5, 2.0, 20.0]))) for _ in range(2))
        exact = parabola(pi, p, samples=1)
        low, high = multiplier_bracket(pi, p)
        best = exact.best_multiplier
        outside += not low * (1 - 1e-9) <= best <= high * (1 + 1e-9)
        above += best > printed_multiplier_bound(pi, p)
        below_printed += printed_multiplier(pi, p) <= best * (1 + 1e-9)
        lam = float(rng.uniform(0.0, 2.0))
        sharp, printed = variance_bound(pi, p, lam, samples=1), printed_variance_bound(pi, p, lam, samples=1)
        loose += not exact.variance(lam) <= sharp * (1 + 1e-9) + 1e-12 or not sharp <= printed * (1 + 1e-9) + 1e-12
    return {"pairs": count, "outside": outside, "above": above, "below": below_printed, "loose": loose}


def experiment(cells: Cells, runs: int = 100_000, pairs: int = 10_000) -> Report:
    """Simulated variance beside the exact one, and the best multiplier beside what is printed of it."""
    fixed, every = (0.0, 1.0), MULTIPLIERS
    found = cells.each(
        measured,
        [(name, t, fixed) for name in NAMES for t in SAMPLES] + [(name, 100, every) for name in NAMES],
        "averages",
        runs=runs,
    )
    by_samples = {name: [found[name, t, fixed] for t in SAMPLES] for name in NAMES}
    sweeps = {name: found[name, 100, every] for name in NAMES}
    slopes = {
        name: [log_log_slope(SAMPLES, [one["error"][j] for one in by_samples[name]]).slope for j in (0, 1)]
        for name in NAMES
    }
    rows, ratios, biased = [], [], []
    for name in NAMES:
        pi, p = laws(name)
        exact, truth = parabola(pi, p, samples=1), kl(pi, p)
        for t, one in zip(SAMPLES, by_samples[name], strict=True):
            for lam, error, mean, spread in zip((0.0, 1.0), one["error"], one["mean"], one["deviation"], strict=True):
                if exact.variance(lam) > 1e-6:
                    ratios.append(error * t / exact.variance(lam))
                biased.append(abs(mean - truth) > 4.9 * spread / math.sqrt(runs) + 1e-12)  # 1e-6, normal, two sides
        best, printed = exact.best_multiplier, printed_multiplier(pi, p)
        low, high = multiplier_bracket(pi, p)
        simulated = 100.0 * np.array(sweeps[name]["error"])
        vertex = np.polynomial.Polynomial.fit(MULTIPLIERS, simulated, 2).convert().coef
        rows.append(
            [name, truth, *(exact.variance(lam) for lam in (0.0, printed)), exact.least, exact.variance(1.0), best]
            + [float(-vertex[1] / (2.0 * vertex[2])), printed, f"[{low:.4g}, {high:.4g}]"]
            + [printed_multiplier_bound(pi, p)]
        )
    drawn = cells.one(random_pairs, count=pairs)
    table = markdown(
        "P and Π | KL | T Var, λ = 0 | λ₀ (paper) | λ* | λ = 1 | λ* | simulated vertex | λ₀ | "
        "bracket of λ* | printed upper bound of λ*",
        rows,
    )
    worst = max(max(r, 1.0 / r) for r in ratios)
    steep = max(abs(s + 1.0) for name in NAMES for j, s in enumerate(slopes[name]) if (name, j) != ("two symbols", 1))
    text = (
        f"Of {drawn['pairs']} random pairs λ* is outside the bracket for {drawn['outside']}, and above the printed "
        f"bound for {drawn['above']}."
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        name = NAMES[-1]
        pi, p = laws(name)
        exact = parabola(pi, p, samples=1)
        for j, lam in enumerate((0.0, 1.0)):
            left.loglog(SAMPLES, [one["error"][j] for one in by_samples[name]], "o", label=f"simulated, λ = {lam:g}")
            left.loglog(SAMPLES, [exact.variance(lam) / t for t in SAMPLES], color=f"C{j}", label="exact")
        left.set(xlabel="T", ylabel="mean squared error", title=name)
        left.legend()
        right.plot(MULTIPLIERS, 100.0 * np.array(sweeps[name]["error"]), ".", label="simulated")
        right.plot(MULTIPLIERS, [exact.variance(lam) for lam in MULTIPLIERS], label="exact")
        right.axvline(exact.best_multiplier, color="C2", label="λ*")
        right.axvline(printed_multiplier(pi, p), color="C3", linestyle="--", label="λ₀ of the paper")
        right.axvspan(*multiplier_bracket(pi, p), color="C2", alpha=0.1, label="bracket")
        right.set(xlabel="λ", ylabel="T × variance", xlim=(0.0, 2.0))
        right.legend()

    return Report(
        (table, text),
        {
            "every mean is within the range of chance (at 1e-6 each)": not any(biased),
            f"every mean squared error agrees with the exact variance within {WITHIN:.0%}": worst <= 1.0 + WITHIN,
            f"slopes in T are -1 within {SLOPE:g}": steep <= SLOPE,
            "λ* is in the bracket for every pair": drawn["outside"] == 0,
            "λ* exceeds the printed upper bound for some pairs, so the printed bound is false": drawn["above"] > 0,
            "λ₀ is never above λ*": drawn["below"] == drawn["pairs"],
            "exact variance <= χ² bound <= printed bound for every pair": drawn["loose"] == 0,
        },
        draw,
        "Error against T with slope -1, and variance against the multiplier, a parabola around λ*.",
    )
