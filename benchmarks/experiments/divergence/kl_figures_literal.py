"""The five figures of the divergence estimators' paper as its experiments compute them: NOT PRIVATE.

They are no runs of the printed algorithms: the query is taken once, at the ratio of a sum over 17 random symbols to the
divergence itself, and the noise has constants of its own; see
``hockeystick.learners.divergence.printed.literal_estimators``. Here they run on the digits' patterns with 256 symbols,
0.01 records added to each cell, at delta = 0.05.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.experiments.divergence.digit_pairs import SEED, digit_pairs
from benchmarks.experiments.divergence.kl_figures import (
    DELTA,
    EPSILONS,
    FIXED,
    LAMBDA_EPSILONS,
    LAMBDA_SIZES,
    MODELS,
    MULTIPLIERS,
    SIZES,
    USUAL,
    cohorts,
    draw_all,
    noise_part,
    summarised,
    tables,
)
from benchmarks.frame import Cells, Report
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.count_logarithms import Smoothed
from hockeystick.learners.divergence.printed.literal_estimators import Model, PublishedExperiment, Sweep

PSEUDO_COUNT = 0.01
RUNS = 8
NOISELESS = 1e12  # epsilon
LITERAL: dict[str, Model] = {"trusted": "trusted", "pair": "aggregated", "dist": "distributed"}


def estimates(
    pi: FloatArray, p: FloatArray, model: Model, multiplier: float, sweep: Sweep, seed: int, epsilon: float
) -> FloatArray:
    """A few estimates of the published experiment; the same seed takes the same symbols."""
    found = PublishedExperiment(
        reference=pi, private=p, model=model, epsilon=epsilon, delta=DELTA, multiplier=multiplier, sweep=sweep
    )
    return found.simulate(np.random.default_rng(seed), RUNS).estimates


def literal(
    size: int,
    epsilons: list[float],
    multipliers: list[float],
    swept: list[float],
    repetitions: int,
    writers: int,
    sweep: Sweep,
) -> dict[str, Any]:
    """Errors, and parts of noise, of the published experiments for one size of the cohort.

    Of all multipliers only at the epsilons ``swept``; at others they are NaN but for the fixed ones.
    """
    pairs = digit_pairs((4, 2), writers, PSEUDO_COUNT)
    shape = (len(epsilons), len(pairs.labels), len(multipliers))
    wanted = np.array([[eps in swept or lam in (FIXED, FIXED / 2.0) for lam in multipliers] for eps in epsilons])
    start = np.broadcast_to(np.where(wanted, 0.0, np.nan)[:, np.newaxis], shape)
    errors, noise = ({name: start.copy() for name in MODELS} for _ in range(2))
    k = pairs.references.shape[1]
    for rng in np.random.default_rng([SEED, 9, size]).spawn(repetitions):
        for pair, (a, b) in enumerate(pairs.labels):
            counts = pairs.held[b].total(rng.choice(pairs.held[b].clients, size, replace=False))
            p = Smoothed(PSEUDO_COUNT).frequencies(counts, int(counts.sum()), k)
            private, seed = p / p.sum(), int(rng.integers(2**31))
            for name, model in LITERAL.items():
                for j, lam in enumerate(multipliers):
                    own = partial(estimates, pairs.references[a], private, model, lam, sweep, seed)
                    clean = own(NOISELESS)  # of the same symbols
                    for i in np.flatnonzero(wanted[:, j]):
                        drawn = own(epsilons[i])
                        errors[name][i, pair, j] += ((drawn - pairs.truths[a, b]) ** 2).mean() / repetitions
                        noise[name][i, pair, j] += ((drawn - clean) ** 2).mean() / repetitions
    return {
        "errors": {name: summarised(pairs, each) for name, each in errors.items()},
        "noise": {name: summarised(pairs, noise_part(pairs, each)) for name, each in noise.items()},
    }


def experiment(
    cells: Cells,
    repetitions: int = 1,
    writers: int = 3580,
    sizes: tuple[int, ...] = SIZES,
    swept: tuple[int, ...] = LAMBDA_SIZES,
    usual: int = USUAL,
) -> Report:
    """The five figures as published, which no guarantee covers."""
    keys = cohorts(sizes, usual, swept)
    full = [
        {"size": size, **key, "repetitions": repetitions, "writers": writers}
        | {"swept": list(LAMBDA_EPSILONS) if size == usual else [0.5] * (size in swept)}
        | {"sweep": "epsilon" if size == usual else "cohort"}
        for size, key in keys.items()
    ]
    results = dict(zip(keys, cells.all(full, literal, "cohorts"), strict=True))
    first = {m: results[usual]["errors"][m]["mean"][EPSILONS.index(0.05)][MULTIPLIERS.index(FIXED)] for m in MODELS}
    return Report(
        ("**Not private**: published constants, for comparison only.", *tables(results, keys, swept)),
        {
            "at ε = 0.05 a trusted server has errors of about 10³": 10**2.7 < first["trusted"] < 10**3.7,
            "at ε = 0.05 an aggregator has errors of about 10⁴": 10**3.5 < first["pair"] < 10**4.5,
            "at ε = 0.05 clients' noise has the least errors": first["dist"] < min(first["trusted"], first["pair"]),
        },
        draw_all(results, keys, sizes, swept),
        "The same figures with the published experiments' constants, which are not private.",
    )
