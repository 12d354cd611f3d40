"""The five figures of the divergence estimators' paper, with noise that is calibrated to what is released.

Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478) plot squared errors at delta = 0.05 against the multiplier
(Figures 1 and 2), epsilon (3), the cohort (5), and the part of noise in the estimate (4). Here they are plotted for the
corrected estimators on the digits' patterns, 16 symbols, T = 1000, one record added to each cell; a trusted server and
an aggregator take noise for the realised draw, of the law with less variance. ``kl_figures_literal`` has them as they
were computed for the paper, which is not private.

"Smallest" and "largest" are the pairs of digits with the smallest and the largest divergence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.experiments.divergence.digit_pairs import SEED, Pairs, Setting, digit_pairs, mean_errors, shared_noise
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray

DELTA = 0.05
EPSILONS = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
SIZES = (36, 72, 108, 144, 180, 225, 270, 315, 360, 420, 480, 540, 600, 660)
MULTIPLIERS = tuple(round(0.05 * i, 2) for i in range(41))
USUAL = 179  # the cohort of Figures 1, 3 and 4: a twentieth of all writers
LAMBDA_EPSILONS, LAMBDA_SIZES = (0.05, 0.5, 3.0), (36, 270, 540)  # of Figures 1 and 2
SIZE_EPSILONS = (0.5, 2.0, 5.0)  # of Figure 5
FIXED = 0.1  # the multiplier of Figures 3 and 4; of 5, half of it. The paper's recommendations
MODELS = {"trusted": "trusted server", "pair": "aggregator", "dist": "clients' shares"}
STATISTICS = {"mean": "mean of all pairs", "min": "smallest divergence", "max": "largest divergence"}
Curves = dict[str, dict[str, list[list[float]]]]  # by model and statistic, of each epsilon and multiplier


def summarised(pairs: Pairs, errors: FloatArray) -> dict[str, list[list[float]]]:
    """Over all pairs, and of those with extreme divergences; of shape (epsilons, pairs, multipliers)."""
    truths = [pairs.truths[a, b] for a, b in pairs.labels]
    low, high = int(np.argmin(truths)), int(np.argmax(truths))
    return {
        "mean": errors.mean(axis=1).tolist(),
        "min": errors[:, low].tolist(),
        "max": errors[:, high].tolist(),
    }


def noise_part(pairs: Pairs, squares: FloatArray) -> FloatArray:
    """100 noise/(noise + KL), with root mean squares of the noise."""
    truths = np.array([pairs.truths[a, b] for a, b in pairs.labels])[:, np.newaxis]
    noise = np.sqrt(np.maximum(squares, 0.0))
    return np.asarray(100.0 * noise / (noise + truths))


def corrected(
    size: int,
    epsilons: list[float],
    multipliers: list[float],
    repetitions: int,
    writers: int,
    variances: list[float],
) -> dict[str, Any]:
    """Errors, and parts of noise, of the corrected estimators for one size of the cohort."""
    found = digit_pairs((2, 2), writers)
    setting = Setting(
        epsilons=tuple(epsilons),
        delta=DELTA,
        variances=tuple(variances),
        multipliers=tuple(multipliers),
        cohort=size,
        runs=20,
    )
    errors = mean_errors(found, setting, (SEED, 8, size), repetitions)
    of = {"trusted": errors["trusted realised"], "pair": errors["pair realised"], "dist": errors["dist"]}
    noise = {name: each - errors["plain"] for name, each in of.items()} | {"dist": errors["dist noise"]}
    return {
        "errors": {name: summarised(found, each) for name, each in of.items()},
        "noise": {name: summarised(found, noise_part(found, each)) for name, each in noise.items()},
        "plain": summarised(found, errors["plain"]),
    }


# --- all figures -----------------------------------------------------------------------------------------------------


def cohorts(sizes: Sequence[int], usual: int, swept: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Epsilons and multipliers by size of the cohort, the usual one first."""
    found: dict[int, dict[str, Any]] = {usual: {"epsilons": list(EPSILONS), "multipliers": list(MULTIPLIERS)}}
    for size in (*sizes, *swept):
        multipliers = MULTIPLIERS if size in swept else (0.0, FIXED / 2.0)
        found.setdefault(size, {"epsilons": list(SIZE_EPSILONS), "multipliers": list(multipliers)})
    return found


def draw_all(
    results: dict[int, dict[str, Any]], keys: dict[int, dict[str, Any]], sizes: Sequence[int], swept: Sequence[int]
) -> Callable[[Any], None]:
    """All panels: a row for Figures 1, 2 and 4, two for 3 and 5."""
    usual = next(iter(results))

    def at(size: int, model: str, statistic: str, epsilon: float, multiplier: float) -> float:
        key = keys[size]
        i, j = key["epsilons"].index(epsilon), key["multipliers"].index(multiplier)
        return float(results[size]["errors"][model][statistic][i][j])

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.0, 15.5)
        axes = figure.subplots(7, 3)
        for m, (model, name) in enumerate(MODELS.items()):
            style = {"color": f"C{m}", "label": name}
            for i, eps in enumerate(LAMBDA_EPSILONS):
                row = results[usual]["errors"][model]["mean"][EPSILONS.index(eps)]
                axes[0, i].semilogy(MULTIPLIERS, row, **style)
                axes[0, i].set(title=f"1: cohort {usual}, ε = {eps:g}", xlabel="λ")
            for i, size in enumerate(swept):
                row = results[size]["errors"][model]["mean"][keys[size]["epsilons"].index(0.5)]
                axes[1, i].semilogy(MULTIPLIERS, row, **style)
                axes[1, i].set(title=f"2: cohort {size}, ε = 0.5", xlabel="λ")
            for s, (statistic, label) in enumerate(STATISTICS.items()):
                line = {"color": f"C{m}", "linestyle": ("-", "--", ":")[s]}
                by_epsilon = [at(usual, model, statistic, eps, FIXED) for eps in EPSILONS]
                axes[2, m].loglog(EPSILONS, by_epsilon, label=label, **line)
                axes[2, m].set(title=f"3: {name}", xlabel="ε")
                axes[3, s].loglog(EPSILONS, by_epsilon, **style)
                axes[3, s].set(title=f"3: {label}", xlabel="ε")
                part = [row[MULTIPLIERS.index(FIXED)] for row in results[usual]["noise"][model][statistic]]
                axes[4, s].semilogx(EPSILONS, part, **style)
                axes[4, s].set(title=f"4: {label}", xlabel="ε")
                by_size = [at(size, model, statistic, 2.0, FIXED / 2.0) for size in sizes]
                axes[6, m].semilogy(sizes, by_size, label=label, **line)
                axes[6, m].set(title=f"5: {name}, ε = 2", xlabel="cohort")
            for i, eps in enumerate(SIZE_EPSILONS):
                axes[5, i].semilogy(sizes, [at(size, model, "mean", eps, FIXED / 2.0) for size in sizes], **style)
                axes[5, i].set(title=f"5: mean, ε = {eps:g}", xlabel="cohort")
        for row, axis in enumerate(axes[:, 0]):
            axis.set(ylabel="noise in the estimate, %" if row == 4 else "mean squared error")
            axis.legend(fontsize=7)

    return draw


def tables(
    results: dict[int, dict[str, Any]], keys: dict[int, dict[str, Any]], swept: Sequence[int]
) -> tuple[str, ...]:
    """Errors against epsilon, the best multipliers, and errors against the cohort."""
    usual = next(iter(results))
    columns = [EPSILONS.index(eps) for eps in (0.05, 0.5, 1.0, 3.0, 6.0)]
    j = MULTIPLIERS.index(FIXED)
    rows = [
        [name, label, *(results[usual]["errors"][model][statistic][i][j] for i in columns)]
        for model, name in MODELS.items()
        for statistic, label in STATISTICS.items()
    ]
    best = []
    for title, size, epsilon in (
        *((f"cohort {usual}, ε = {eps:g}", usual, eps) for eps in LAMBDA_EPSILONS),
        *((f"cohort {size}, ε = 0.5", size, 0.5) for size in swept),
    ):
        i = keys[size]["epsilons"].index(epsilon)
        best.append([title, *(MULTIPLIERS[int(np.argmin(results[size]["errors"][m]["mean"][i]))] for m in MODELS)])
    return (
        f"Figure 3: mean squared error, λ = {FIXED:g}, cohort {usual}.",
        markdown(["who adds the noise", "pairs", *(f"ε = {EPSILONS[i]:g}" for i in columns)], rows),
        "Figures 1 and 2: the λ of least mean error. It depends on the true values, so it cannot be used in practice.",
        markdown(["", *MODELS.values()], best),
    )


def experiment(
    cells: Cells,
    repetitions: int = 10,
    writers: int = 3580,
    sizes: tuple[int, ...] = SIZES,
    swept: tuple[int, ...] = LAMBDA_SIZES,
    usual: int = USUAL,
) -> Report:
    """The five figures for the corrected estimators."""
    needed = sorted({*EPSILONS, *SIZE_EPSILONS})
    noises = cells.each(shared_noise, needed, "noise", delta=DELTA)
    keys = cohorts(sizes, usual, swept)
    full = [
        {"size": size, **key, "repetitions": repetitions, "writers": writers}
        | {"variances": [noises[eps]["variance"] for eps in key["epsilons"]]}
        for size, key in keys.items()
    ]
    results = dict(zip(keys, cells.all(full, corrected, "cohorts"), strict=True))
    j, errors, noise = MULTIPLIERS.index(FIXED), results[usual]["errors"], results[usual]["noise"]
    curve = {model: [row[j] for row in errors[model]["mean"]] for model in MODELS}
    parts = {model: [row[j] for row in noise[model]["mean"]] for model in MODELS}
    early = [i for i, eps in enumerate(EPSILONS) if eps <= 1.0]
    falling = all(curve[m][i] > curve[m][i + 1] for m in ("trusted", "pair") for i in range(len(EPSILONS) - 1))
    less = all(parts[m][i] > parts[m][i + 1] for m in ("trusted", "pair") for i in range(len(EPSILONS) - 1))
    cell = keys[sizes[0]]["epsilons"].index(2.0)
    ends = [results[s]["errors"]["dist"]["mean"][cell][keys[s]["multipliers"].index(FIXED / 2)] for s in sizes]
    return Report(
        tables(results, keys, swept),
        {
            "up to ε = 1 clients' shares have the least errors, and those of a trusted server are not above those "
            "of an aggregator": all(curve["dist"][i] < curve["trusted"][i] <= curve["pair"][i] for i in early),
            "the errors of a trusted server and of an aggregator fall in ε throughout": falling,
            "the noise's part of their errors falls too": less,
            "at ε = 2 the shares of the largest cohort have smaller errors than those of the smallest": ends[-1]
            < ends[0],
        },
        draw_all(results, keys, sizes, swept),
        "Squared errors against multiplier, epsilon and cohort, and the part of noise, for three ways of adding noise.",
    )
