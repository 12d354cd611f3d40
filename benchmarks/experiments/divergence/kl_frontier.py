"""Communication against error, and its dependence on the data.

*Bits against error*: clients' shares of noise at (1, 1e-5), a cohort of 179 writers, for symbols that were drawn (T of
them) and for the full histogram, which is the same release with every symbol asked for. Errors are mean squares over
pairs of digits; the error without noise stands beside them, as thin counts err without any.

*Rare and fat cells*: the reference is half on a symbol that no record has, or that j of N records have. Whatever is
epsilon-DP errs on one of the two by half their distance with probability (1 - tanh(j epsilon/2))/2, whatever N is; so
the error of a trusted server, which N does not help, is no artefact. Where all counts grow with N, noise on counts is
far better: its error falls as 1/N. Both are pure epsilon-DP here, Laplace and Polya shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.experiments.divergence.digit_pairs import SEED, digit_pairs, shared_noise
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import Smoothed
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.made_up_populations import dirichlet_law
from hockeystick.learners.divergence.noisy_estimates import estimates
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import TrustedKL
from hockeystick.learners.lazy import log_log_slope
from hockeystick.mechanisms import SkellamShares

EPSILON, DELTA = 1.0, 1e-5
SAMPLES = (10, 30, 100, 300, 1000, 3000)
GRIDS = {16: (2, 2), 256: (4, 2), 65_536: (4, 4)}
SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
RARE_EPSILON = 0.5


# --- bits against error ----------------------------------------------------------------------------------------------


def full(reference: FloatArray, client_records: Any, cohort: Any) -> QueryAverage:
    """Every symbol, weighted by the reference."""
    every = np.arange(len(reference))
    return QueryAverage(
        reference=reference, symbols=every, shares=reference, cohorts=[cohort], client_records=client_records
    )


def frontier(symbols: int, samples: Sequence[int], variance: float, pairs: int, writers: int) -> dict[str, Any]:
    """Bits down and up of each client, mean squared errors with noise and without, for each T; last, of all symbols."""
    setting, rng, size = digit_pairs(GRIDS[symbols], writers), np.random.default_rng([SEED, 6, symbols]), writers // 20
    shares = SkellamShares(variance / size, survivors=size)
    chosen = [setting.labels[int(i)] for i in np.linspace(0, len(setting.labels) - 1, pairs)]
    found = np.zeros((len(samples) + 1, 4))
    for a, b in chosen:
        data, truth = setting.held[b], setting.truths[a, b]
        cohort = np.sort(rng.choice(data.clients, size, replace=False))
        plans = [setting.plan(a, b, rng, cohort=size, samples=t, logarithm=Smoothed()) for t in samples]
        plans.append(full(setting.references[a], data.records(), cohort))
        for i, plan in enumerate(plans):
            learner = DistributedKL(average=plan, shares=shares)
            bits, counts = learner.bits(), plan.counts(data)
            noisy = counts + SkellamShares(variance, survivors=1).simulate(np.zeros_like(counts), rng, 4)
            errors = [float(((estimates(plan, each) - truth) ** 2).mean()) for each in (noisy, counts)]
            found[i] += np.array([bits.down, bits.up, *errors]) / len(chosen)
    return {"rows": found.tolist()}


# --- rare and fat cells ----------------------------------------------------------------------------------------------


def divergence(reference: FloatArray, counts: FloatArray) -> float:
    """Of the smoothed frequencies."""
    p = Smoothed().frequencies(counts, int(counts.sum()), len(reference))
    return float(reference @ np.log(reference / p))


def held(counts: Any, clients: int) -> ClientCounts:
    """Records of so many clients, dealt out one by one."""
    symbols = np.repeat(np.arange(len(counts)), counts)
    who = np.arange(len(symbols)) % clients
    return ClientCounts.of_records(who, symbols, symbol_count=len(counts), client_count=clients)


def root_errors(reference: FloatArray, data: ClientCounts, epsilon: float) -> tuple[float, float]:
    """Root mean squared errors of a trusted server with Laplace noise, and of Polya shares; pure epsilon."""
    plan = full(reference, data.records(), np.arange(data.clients))
    trusted = TrustedKL.calibrated(plan, epsilon=epsilon, noise="laplace")
    dist = DistributedKL.calibrated(plan, epsilon=epsilon, delta=0.0, law="polya")
    mean, variance = dist.moments(data)
    return trusted.noise_deviation, math.hypot(
        mean - divergence(reference, data.total().astype(float)), math.sqrt(variance)
    )


def rare(records: int, epsilon: float) -> dict[str, float]:
    """The worst errors over j, and the largest lower bound of any epsilon-DP estimator's."""
    pi = np.array([0.5, 0.5])
    start = divergence(pi, np.array([records, 0.0]))
    bounds, errors = [], []
    for j in range(1, 1 + math.ceil(4.0 / epsilon)):
        gap = start - divergence(pi, np.array([records - j, float(j)]))
        chance = 0.5 * (1.0 - math.tanh(0.5 * j * epsilon))
        bounds.append((0.5 * gap * math.sqrt(chance), j))
    bound, where = max(bounds)
    for count in (0, where):
        errors.append(root_errors(pi, held([records - count, count], 10), epsilon))
    trusted, dist = (max(pair[i] for pair in errors) for i in (0, 1))
    return {"bound": bound, "moved": where, "trusted": trusted, "dist": dist}


def fat(records: int, epsilon: float) -> dict[str, float]:
    """The errors where ten symbols have a tenth of the records each."""
    pi = dirichlet_law(10, np.random.default_rng([SEED, 7]))
    trusted, dist = root_errors(pi, held([records // 10] * 10, 10), epsilon)
    return {"trusted": trusted, "dist": dist}


# --- the report ------------------------------------------------------------------------------------------------------


def experiment(
    cells: Cells,
    grids: tuple[int, ...] = tuple(GRIDS),
    samples: tuple[int, ...] = SAMPLES,
    sizes: tuple[int, ...] = SIZES,
    pairs: int = 30,
    writers: int = 3580,
) -> Report:
    """Bits and errors of drawn symbols and of full histograms; errors on rare and on fat cells."""
    variance = cells.one(shared_noise, epsilon=EPSILON, delta=DELTA)["variance"]
    given = {"samples": list(samples), "variance": variance, "pairs": pairs, "writers": writers}
    curves = {k: one["rows"] for k, one in cells.each(frontier, grids, "frontier", **given).items()}
    rows = [
        [k, "all" if i == len(samples) else samples[i], *one]
        for k, curve in curves.items()
        for i, one in enumerate(curve)
    ]
    scarce, plenty = (
        list(cells.each(compute, sizes, title, epsilon=RARE_EPSILON).values())
        for compute, title in ((rare, "rare cells"), (fat, "fat cells"))
    )
    cell_rows = [
        [n, one["bound"], one["trusted"], one["dist"], other["trusted"], other["dist"]]
        for n, one, other in zip(sizes, scarce, plenty, strict=True)
    ]
    late = [i for i, n in enumerate(sizes) if n >= 1000]
    slopes = {
        (name, who): log_log_slope([sizes[i] for i in late], [found[i][who] for i in late]).slope
        for name, found in (("rare", scarce), ("fat", plenty))
        for who in ("trusted", "dist")
    }
    largest = curves[max(grids)]
    saved = largest[-1][1] / largest[-2][1]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for i, (k, curve) in enumerate(curves.items()):
            up, error = [one[1] for one in curve], [one[2] for one in curve]
            left.loglog(up[:-1], error[:-1], "o-", color=f"C{i}", label=f"{k} symbols, drawn")
            left.loglog(up[-1:], error[-1:], "*", color=f"C{i}", markersize=10, label="all")
        left.set(xlabel="bits up of each client", ylabel="mean squared error")
        left.legend(fontsize=7)
        right.loglog(sizes, [one["bound"] for one in scarce], "k:", label="rare: any ε-DP estimator")
        for i, (who, label) in enumerate((("trusted", "trusted server"), ("dist", "clients' shares"))):
            right.loglog(sizes, [one[who] for one in scarce], "o-", color=f"C{i}", label=f"rare: {label}")
            right.loglog(sizes, [one[who] for one in plenty], "s--", color=f"C{i}", label=f"fat: {label}")
        right.set(xlabel="records", ylabel="root mean squared error")
        right.legend(fontsize=7)

    tables = (
        markdown(["symbols", "T", "bits down", "bits up", "mean squared error", "without noise"], rows),
        markdown(
            "records | rare: lower bound | trusted server | clients' shares | fat: trusted server | clients' shares",
            cell_rows,
        ),
    )
    return Report(
        tables,
        {
            f"of {max(grids)} symbols the full histogram takes {saved:.3g} times as many bits up": saved > 1.0,
            "on the rare cell no estimator is below the lower bound": all(
                min(one["trusted"], one["dist"]) >= one["bound"] for one in scarce
            ),
            "on the rare cell more records help neither estimator: slopes are 0 within 0.05": max(
                abs(slopes["rare", who]) for who in ("trusted", "dist")
            )
            <= 0.05,
            "on fat cells the error of shares has slope -1 within 0.1": abs(slopes["fat", "dist"] + 1.0) <= 0.1,
            "the error of a trusted server has slope 0 within 0.05": abs(slopes["fat", "trusted"]) <= 0.05,
        },
        draw,
        "Error against bits sent, and error against records on a rare cell and on fat ones.",
    )
