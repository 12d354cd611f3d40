"""Errors of private answers to all thresholds: against n, epsilon, sigma, and the mechanism.

Data are drawn from a window of mass sigma. First the paper's algorithm with its own number of rounds, on a grid of 4096
points where the cover is the whole class, beside quoted numbers; then with a proper cover of a grid of 65536 points;
then everything that can be planned for a target from public numbers alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import (
    SEED,
    answer_errors,
    cover_errors,
    law_errors,
    mean_and_error,
    window,
)
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.lazy import log_log_slope
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid
from hockeystick.learners.smoothed.measures.smooth_data import sampling_chi
from hockeystick.learners.smoothed.nets.net_bounds import plan_net
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet, small_db
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.error_bounds import cover_gamma, tuned_approximate, tuned_pure
from hockeystick.learners.smoothed.queries.laplace_per_query import LaplacePerQuery
from hockeystick.learners.smoothed.queries.plan import calibrated, mwem

SIGMA = 1.0 / 16.0
RECORDS = (2**10, 2**12, 2**14, 2**16, 2**18)
VARIANTS = {  # step, projected, output
    "paper's step": ("paper", False, "average"),
    "paper's step, projected": ("paper", True, "average"),
    "ours": ("hoeffding", False, "average"),
    "ours, last law": ("hoeffding", False, "last"),
}
QUOTED = {
    "paper's step": (0.475, None, 0.372, None, 0.131),
    "paper's step, projected": (0.471, None, 0.372, None, 0.131),
    "ours": (0.353, None, 0.099, None, 0.026),
    "ours, last law": (0.168, None, None, None, 0.0095),
}
COVERED = {1000: (0.196, 1.24), 8000: (0.045, 0.68), 64000: (0.019, 0.35)}
SWEEP = (1000, 4000, 16000, 64000)
FINEST = 4000  # covers add 1/4000 to the error at least: finer ones would cost time alone


def paper_rounds(records: int) -> tuple[int, float]:
    """The paper's T at epsilon = 1, its constant of 10 restored, and the bound there; ln K by its cover bound."""
    tuned = tuned_pure(records=records, epsilon=1.0, sigma=SIGMA, log_queries=math.log(82.0 * records / SIGMA))
    T = round(tuned.laws)
    left, noise = math.log(1.0 / SIGMA), 10.0 * math.log(82.0 * records / SIGMA) / records
    return T, 2.0 * math.sqrt(left / T) + T * noise


def reference(variant: str, records: int, runs: int) -> dict[str, float]:
    """All thresholds of a grid of 4096 points, T rounded from the paper's formula, R = T - 1 rounds."""
    step, project, output = VARIANTS[variant]
    cells = BoxCells.of(Thresholds().cover(0.5 / 4096, UniformGrid(4096)))
    laws, bound = paper_rounds(records)
    learner = calibrated(
        cells, records=records, sigma=SIGMA, epsilon=1.0, rounds=laws - 1, split="equal", vacuous=True,
        step=step, project=project, output=output, clip=False,
    )  # fmt: skip
    data = window(UniformGrid(4096), SIGMA, records)
    found = learner.weights(learner.simulate(data, np.random.default_rng([SEED, records]), runs))
    mean, error = mean_and_error(cover_errors(cells, found, data))
    return {"mean": mean, "error": error, "laws": laws, "bound": bound}


def covered(records: int, runs: int) -> dict[str, float]:
    """A proper cover of a grid of 65536 points, projected, our step, the last law."""
    grid = UniformGrid(2**16)
    cells = BoxCells.of(Thresholds().cover(SIGMA / records, grid))
    plan = calibrated(
        cells, records=records, sigma=SIGMA, epsilon=1.0, split="equal", step="hoeffding", project=True, vacuous=True
    )
    learner = calibrated(
        cells, records=records, sigma=SIGMA, epsilon=1.0, split="equal", rounds=plan.rounds, step="hoeffding",
        project=True, output="last", vacuous=True,
    )  # fmt: skip
    data = window(grid, SIGMA, records)
    found = learner.weights(learner.simulate(data, np.random.default_rng([SEED, records, 1]), runs))
    mean, error = mean_and_error(cover_errors(cells, found, data))
    return {
        "mean": mean, "error": error, "queries": cells.queries, "rounds": plan.rounds,
        "bound": plan.error_bound().error,
    }  # fmt: skip


def planned(
    mechanism: str, records: int, epsilon: float = 1.0, delta: float = 0.0, sigma: float = SIGMA, runs: int = 12
) -> dict[str, Any]:
    """One mechanism, planned for a target on [0, 1]; its error over the whole class."""
    measure, rng = UniformCube(1), np.random.default_rng([SEED, records, len(mechanism)])
    data = window(measure, sigma, records)
    chi = sampling_chi(records, 0.01)
    try:
        if mechanism == "subsampled net":
            plan = plan_net(
                vc_dimension=1, sigma=sigma, records=records, epsilon=epsilon, failure=0.1, chi=chi, thresholds=True
            )
            net = SubsampledNet.draw(
                Thresholds(), measure, np.random.default_rng([SEED, 3]), sigma=sigma, accepted=plan.accepted,
                size=plan.size, epsilon=epsilon, records=records,
            )  # fmt: skip
            errors = net.largest_error(net.simulate(data, rng, runs), data)
            return _found(errors, plan.total, queries=len(net.domain), rounds=plan.size)
        intervals = mechanism == "intervals"
        project = mechanism in ("projected", "intervals")
        gamma = cover_gamma(records=min(records, FINEST), sigma=sigma, project=project)
        if intervals or mechanism == "Laplace for each":
            gamma = max(gamma, sigma / 16.0)  # there are too many queries otherwise
        cells = BoxCells.of((Intervals() if intervals else Thresholds()).cover(gamma, measure))
        if mechanism == "Laplace for each":
            plain = LaplacePerQuery.calibrated(cells, records=records, epsilon=epsilon, delta=delta)
            answers = plain.simulate(data, rng, runs)
            asked = np.concatenate([data[:, :1], np.nextafter(data[:, :1], np.inf), cells.cover.parameters])
            truth = 1.0 - np.searchsorted(np.sort(data[:, 0]), asked[:, 0]) / records
            return _found(np.abs(plain.answer(asked, answers) - truth).max(axis=1), None, queries=cells.queries)
        learner = calibrated(
            cells, records=records, sigma=sigma, epsilon=epsilon, delta=delta, project=project, vacuous=True,
            step="paper" if mechanism == "paper's step" else "hoeffding",
        )  # fmt: skip
    except InvalidArgumentError:
        return {"mean": None}
    laws = learner.weights(learner.simulate(data, rng, runs))
    errors = law_errors(cells, laws, data) if project else answer_errors(cells, laws, data)
    bound = learner.error_bound(chi=chi).error
    return _found(errors, bound, queries=cells.queries, rounds=learner.rounds)


def grid_baselines(mechanism: str, points: int, records: int, runs: int) -> dict[str, Any]:
    """Baselines without smoothness on a grid of a few points; errors on its thresholds."""
    grid, rng = UniformGrid(points), np.random.default_rng([SEED, records, points])
    data = window(grid, SIGMA, records)
    if mechanism == "MWEM":
        cells = BoxCells.of(Thresholds().cover(0.5 / points, grid))
        learner = mwem(cells, records=records, epsilon=1.0, vacuous=True)
        errors = cover_errors(cells, learner.weights(learner.simulate(data, rng, runs)), data)
        return _found(errors, learner.error_bound().error, queries=cells.queries, rounds=learner.rounds)
    net = small_db(Thresholds(), grid.position(0, np.arange(points)), size=20, epsilon=1.0, records=records)
    return _found(net.largest_error(net.simulate(data, rng, runs), data), None, queries=points, rounds=20)


def _found(errors: Any, bound: float | None, *, queries: int, rounds: int | None = None) -> dict[str, Any]:
    mean, error = mean_and_error(errors)
    return {"mean": mean, "error": error, "bound": bound, "queries": queries, "rounds": rounds}


MECHANISMS = ("paper's step", "ours", "projected", "intervals", "subsampled net", "Laplace for each")


def experiment(
    cells: Cells,
    records: tuple[int, ...] = RECORDS,
    runs: int = 12,
    covers: tuple[int, ...] = tuple(COVERED),
    sweep: tuple[int, ...] = SWEEP,
    mechanisms: tuple[str, ...] = MECHANISMS,
) -> Report:
    """Errors over all thresholds, measured and bounded."""
    rated = cells.each(reference, [(v, n) for v in VARIANTS for n in records], "the paper's rounds", runs=runs)
    lines = {v: [rated[v, n] for n in records] for v in VARIANTS}
    active = cells.each(covered, covers, "a proper cover", runs=runs)
    targets = [(m, d) for m in mechanisms for d in (0.0, 1e-6) if not (m == "subsampled net" and d > 0.0)]
    asked = [(m, n, 1.0, d) for m, d in targets for n in sweep]
    plans = cells.each(planned, asked, "mechanisms", sigma=SIGMA, runs=runs)
    middle = sweep[-2]
    others = [(e, SIGMA) for e in (0.25, 0.5, 1.0, 2.0, 4.0)] + [(1.0, s) for s in (0.25, 2.0**-6, 2.0**-8)]
    keys = [("ours", middle, e, 0.0, s) for e, s in others]
    by_target = cells.each(planned, keys, "epsilon and sigma", runs=runs)
    small = [(m, p) for m in ("MWEM", "SmallDB") for p in (64, 1024)]
    baselines = cells.each(grid_baselines, small, "baselines", records=middle, runs=runs)

    rows: list[list[object]] = []
    near: list[float] = []
    for v, values in lines.items():
        rows.append([v, *(f"{one['mean']:.4f} ± {one['error']:.4f}" for one in values)])
        quoted = [dict(zip(RECORDS, QUOTED[v], strict=True)).get(n) for n in records]
        rows.append(["quoted", *("" if q is None else q for q in quoted)])
        near += [one["mean"] / q - 1.0 for one, q in zip(values, quoted, strict=True) if q is not None]
    first = next(iter(lines.values()))
    rows.append(["rounds + 1", *(round(one["laws"]) for one in first)])
    rows.append(["bound, paper's step", *(one["bound"] for one in first)])
    told = [(n, one["mean"]) for n, one in zip(records, first, strict=True) if one["bound"] < 0.925]
    paper_slope = log_log_slope(*zip(*told, strict=True)).slope if len(told) >= 3 else math.nan
    ours_slope = log_log_slope(records, [one["mean"] for one in lines["ours"]]).slope
    pure, approximate = (
        log_log_slope(
            SWEEP,
            [tuned(records=n, epsilon=1.0, sigma=SIGMA, log_queries=12.0, **more).error for n in SWEEP],
        )
        for tuned, more in ((tuned_pure, {}), (tuned_approximate, {"delta": 1e-6}))
    )
    cover_rows = [
        [n, round(one["queries"]), round(one["rounds"]), f"{one['mean']:.4f} ± {one['error']:.4f}", COVERED[n][0]]
        + [one["bound"], COVERED[n][1]]
        for n, one in active.items()
    ]

    def of(mechanism: str, delta: float) -> list[dict[str, Any]]:
        return [plans[mechanism, n, 1.0, delta] for n in sweep]

    def told_of(one: dict[str, Any]) -> str:
        if one["mean"] is None:
            return "refused"
        bound = "" if one["bound"] is None else f" (≤ {one['bound']:.2f})"
        return f"{one['mean']:.3f}{bound}"

    plan_rows = [[m, "0" if d == 0.0 else "1e-6", *map(told_of, of(m, d))] for m, d in targets]
    everything = [
        one
        for some in (plans, by_target, baselines)
        for one in some.values()
        if one["mean"] is not None and one["bound"] is not None
    ]
    tables = [
        "A grid of 4096 points, σ = 1/16, ε = 1, δ = 0, T by the paper's formula, equal budgets:",
        markdown(["", *(f"n = {n}" for n in records)], rows),
        f"Slopes in n: the paper's step {paper_slope:.2f} where its bound is below 0.925, ours {ours_slope:.2f} over "
        f"the whole range; of the bounds {pure.slope:.3f} (pure) and {approximate.slope:.3f} (δ > 0).",
        "A proper cover (γ = σ/n) of a grid of 65536 points, projected, our step, the last law, R of least bound:",
        markdown(["n", "queries", "R", "error", "quoted", "bound", "quoted"], cover_rows),
        "Planned from public numbers on [0, 1], ε = 1, σ = 1/16: mean largest error over the whole class (bound). The "
        "plain mechanism, and intervals, have a cover of γ = σ/16, the others one that adds 1/n or 1/4000; "
        "the bound includes 4χ of sampling.",
        markdown(["", "δ", *(f"n = {n}" for n in sweep)], plan_rows),
        f"Ours at n = {middle}: "
        + ", ".join(f"ε = {e:g}, σ = {s:.4g}: {told_of(got)}" for (*_, e, _, s), got in by_target.items())
        + ".",
        f"Without smoothness, on grids of a few points, n = {middle}: "
        + ", ".join(f"{m}, {p} points: {told_of(got)}" for (m, p), got in baselines.items())
        + ".",
        "Quoted errors on the small grid are met within "
        f"{100 * max(map(abs, near)):.0f} %; with the cover they are "
        + ", ".join(f"{one['mean'] / COVERED[n][0]:.2f}" for n, one in active.items())
        + " times the quoted ones, whose number of rounds is not known.",
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for v, values in lines.items():
            left.loglog(records, [one["mean"] for one in values], "o-", label=v, markersize=3)
        left.loglog(records, [one["bound"] for one in first], "k:", label="bound, paper's step")
        left.set(xlabel="records n", ylabel="largest error")
        for m, d in targets:
            values = of(m, d)
            if all(one["mean"] is not None for one in values):
                style = "o-" if d == 0.0 else "s--"
                right.loglog(sweep, [one["mean"] for one in values], style, label=f"{m}, δ = {d:g}", markersize=3)
        right.set(xlabel="records n", ylabel="largest error, planned")
        left.legend(fontsize=5)
        right.legend(fontsize=5, loc="center left", bbox_to_anchor=(1.0, 0.5))

    return Report(
        tables,
        {
            "every mean error is below its bound": all(one["mean"] < one["bound"] for one in everything),
            "so is that of the paper's step at its own T, and the default step's error is below it": all(
                a["mean"] < a["bound"] and b["mean"] < a["mean"] for a, b in zip(first, lines["ours"], strict=True)
            ),
            "the bounds have slopes -1/3 and -1/2 exactly": abs(pure.slope + 1 / 3) < 1e-9
            and abs(approximate.slope + 0.5) < 1e-9,
            "the paper's step has a slope of -0.3 or less where its bound is not vacuous": math.isnan(paper_slope)
            or paper_slope <= -0.3,
            "errors on the small grid agree with the quoted ones within 20 %": max(map(abs, near)) <= 0.2,
        },
        draw,
        "Largest errors against records, of the paper's step and ours, and of all mechanisms planned for a target.",
    )
