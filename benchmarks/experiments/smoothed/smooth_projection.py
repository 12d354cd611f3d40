"""The effect of the projection: densities and errors of laws with it and without it.

Off the cover a law answers itself, and may be off by its mass between a query and the nearest of the cover: density
times gamma. The projection caps the density at 1/sigma. Without the projection there is no cap. Data are as
concentrated as they may be, on a window of mass sigma or on random cells of that mass; covers are coarse. Errors are
over all intervals of the line, cover or not.

Intervals do not need it. Where the cover holds q1 <= q <= q2 for every q of the class, laws need no smoothness at all:
q(D) <= q2(D) <= q2(D_B) + c <= q(D_B) + c + (q2 - q1)(D_B), with c the error on the cover, and so from below. A class
that needs it has a cover without such pairs. Here is one: all queries of the cover hold a set S of mass gamma,
beside random parts of a half of the domain, where all data lie, and fewer parts of the other half; off the cover are
the same queries without S. Updates add up on S, and no query of the cover tells.
"""

from __future__ import annotations

import numpy as np

from benchmarks.experiments.smoothed.query_instances import SEED, cover_errors, law_errors, mean_and_error, window
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.measures.smooth_data import CellLaw, sampling_chi
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.cells import MatrixCells
from hockeystick.learners.smoothed.queries.plan import calibrated

CASES = (  # data, records, sigma, rounds (None: of least bound), epsilon, step
    ("window", 16_000, 0.5, None, 1.0, "paper"),
    ("window", 16_000, 0.5, None, 1.0, "hoeffding"),
    ("window", 64_000, 0.5, None, 1.0, "hoeffding"),
    ("window", 64_000, 1.0 / 16.0, None, 1.0, "hoeffding"),
    ("window", 16_000, 0.5, 40, 1.0, "hoeffding"),
    ("window", 16_000, 0.25, 40, 1.0, "hoeffding"),
    ("window", 16_000, 0.5, 40, 0.2, "hoeffding"),
    ("window", 1000, 0.5, 40, 1.0, "hoeffding"),
    ("window", 1000, 0.25, 40, 1.0, "hoeffding"),
    ("window", 1000, 1.0 / 16.0, 40, 1.0, "hoeffding"),
    ("window", 1000, 0.5, 40, 0.2, "hoeffding"),
    ("window", 1000, 0.5, 40, 1.0, "paper"),
    ("cells", 1000, 0.5, 40, 1.0, "hoeffding"),
    ("cells", 1000, 0.5, 40, 0.2, "hoeffding"),
    ("cells", 1000, 0.25, 40, 0.2, "hoeffding"),
)
Case = tuple[str, int, float, int | None, float, str]
GAMMA = 1.0 / 64.0

SHARED = ((102_400, 256), (1_024_000, 64), (1_024_000, 256))  # records, 1/gamma
POINTS, QUERIES = 512, 512  # but for S


def published(
    data: str, records: int, sigma: float, rounds: int | None, epsilon: float, step: str, project: bool, runs: int
) -> dict[str, float]:
    """Largest density of the published average as a part of 1/sigma, and errors on and off the cover."""
    measure = UniformCube(1)
    cells = BoxCells.of(Intervals().cover(GAMMA, measure))
    learner = calibrated(
        cells, records=records, sigma=sigma, epsilon=epsilon, rounds=rounds, step=step, project=project, vacuous=True
    )
    people = window(measure, sigma, records)
    if data == "cells":
        law = CellLaw.random(measure, sigma, np.random.default_rng([SEED, 1]))
        people = law.sample(np.random.default_rng([SEED, 2]), records)
    laws = learner.weights(learner.simulate(people, np.random.default_rng([SEED, records, 4]), runs))
    density, spread = mean_and_error(sigma * (laws / cells.masses).max(axis=1))
    on, _ = mean_and_error(cover_errors(cells, laws, people))
    whole, error = mean_and_error(law_errors(cells, laws, people))
    return {
        "density": density, "spread": spread, "most": float(sigma * (laws / cells.masses).max()),
        "cover": on, "whole": whole, "error": error, "rounds": learner.rounds, "cell": float(cells.masses.max()),
    }  # fmt: skip


def shared_set(inverse: int) -> tuple[MatrixCells, float]:
    """Queries that all hold the last point, S, of mass 1/``inverse``; and sigma of data on the first half."""
    rng, half = np.random.default_rng([SEED, 3]), POINTS // 2
    matrix = np.zeros((QUERIES, POINTS + 1))
    for row in matrix:
        row[rng.choice(half, half * 3 // 10, replace=False)] = 1.0
        row[half + rng.choice(half, half // 20, replace=False)] = 1.0
    matrix[:, POINTS] = 1.0
    masses = np.append(np.full(POINTS, (1.0 - 1.0 / inverse) / POINTS), 1.0 / inverse)
    return MatrixCells(matrix=matrix, masses=masses), float(masses[:half].sum())


def on_a_shared_set(records: int, inverse: int, project: bool, runs: int) -> dict[str, float]:
    """Density on S, and errors on the cover and off it; sigma-smooth data, as many at each point."""
    cells, sigma = shared_set(inverse)
    learner = calibrated(cells, records=records, sigma=sigma, epsilon=1.0, project=project, failure=0.05, vacuous=True)
    people = np.arange(records) % (POINTS // 2)
    laws = learner.weights(learner.simulate(people, np.random.default_rng([SEED, inverse]), runs))
    truth = np.bincount(people, minlength=POINTS + 1) / records
    off = cells.matrix * (np.arange(POINTS + 1) < POINTS)
    on_cover, _ = mean_and_error(np.abs((laws - truth) @ cells.matrix.T).max(axis=1))
    off_cover, error = mean_and_error(np.abs((laws - truth) @ off.T).max(axis=1))
    return {
        "density": float(sigma * laws[:, POINTS].mean() * inverse), "cover": on_cover, "off": off_cover, "error": error,
        "rounds": learner.rounds, "allowed": 2.0 / (inverse * sigma),
    }  # fmt: skip


def experiment(
    cells: Cells, cases: tuple[Case, ...] = CASES, runs: int = 16, shared: tuple[tuple[int, int], ...] = SHARED
) -> Report:
    """Densities and errors with and without the projection."""
    sets = cells.each(on_a_shared_set, [(n, i, p) for n, i in shared for p in (False, True)], "a shared set", runs=runs)
    apart = [(key, sets[*key, False], sets[*key, True]) for key in shared]
    found = cells.each(published, [(*case, p) for case in cases for p in (False, True)], "laws", runs=runs)
    pairs = [(found[*case, False], found[*case, True]) for case in cases]
    rows = [
        [
            d, n, s, f"{round(a['rounds'])}{'' if r else ', planned'}", e, step,
            f"{a['density']:.2f} ± {a['spread']:.2f}", f"{b['density']:.2f}",
            f"{a['cover']:.3f}, {a['whole']:.3f}", f"{b['cover']:.3f}, {b['whole']:.3f}",
        ]
        for (d, n, s, r, e, step), (a, b) in zip(cases, pairs, strict=True)
    ]  # fmt: skip
    above = [(a, b) for a, b in pairs if a["density"] > 1.0]
    planned = [a["most"] for (_, _, _, r, _, _), (a, _) in zip(cases, pairs, strict=True) if r is None]
    gains = [b["whole"] / a["whole"] for a, b in above]
    told = (
        f"Unprojected laws exceed the cap on average in {len(above)} of {len(cases)} cases, by up to a factor of "
        f"{max(a['density'] for a, _ in pairs):.2f}; planned ones reach {max(planned, default=0.0):.2f} of it. "
    )
    if gains:
        told += (
            f"Where they exceed it, errors over the whole class are {min(gains):.2f} to {max(gains):.2f} times as "
            "large with it as without: smaller on scattered cells, larger on a window."
        )
    return Report(
        [
            markdown(
                "data | n | σ | R | ε | step | density · σ | projected | errors: cover, all intervals | projected",
                rows,
            ),
            told,
            "Queries that share a set S, σ = 1/2, ε = 1, planned rounds, our step:",
            markdown(
                "n | mass of S | R | density on S · σ | errors: cover | off it | projected: density · σ | "
                "cover | off it | cover + 2γ/σ",
                [
                    [n, f"1/{i}", round(a["rounds"]), f"{a['density']:.2f}", a["cover"]]
                    + [f"{a['off']:.4f} ± {a['error']:.4f}", f"{b['density']:.2f}", b["cover"]]
                    + [f"{b['off']:.4f} ± {b['error']:.4f}", b["cover"] + b["allowed"]]
                    for (n, i), a, b in apart
                ],
            ),
        ],
        {
            "projected laws are at most 1/σ": all(b["most"] <= 1.0 + 1e-9 for _, b in pairs),
            "some unprojected law exceeds it, on smooth data": bool(above),
            "the errors of projected laws off the cover are at most 2γ/σ + 4χ above those on it": all(
                b["whole"] <= b["cover"] + 2.0 * GAMMA / s + 4.0 * sampling_chi(n, 0.01)
                for (_, n, s, *_), (_, b) in zip(cases, pairs, strict=True)
            ),
            "intervals need no projection: off the cover the extra error of unprojected laws is at most the share "
            "of the data in the two cells at an interval's ends": all(
                a["whole"] <= a["cover"] + 2.0 * a["cell"] / s + 4.0 * sampling_chi(n, 0.01)
                for (_, n, s, *_), (a, _) in zip(cases, pairs, strict=True)
            ),
            "queries that share a set need it: off the cover the errors of unprojected laws exceed the bound": all(
                a["off"] - 4.0 * a["error"] > a["cover"] + a["allowed"] for _, a, _ in apart
            ),
            "projected laws are within the bound, and have at most two thirds of these errors off the cover": all(
                b["off"] <= b["cover"] + b["allowed"] and b["off"] <= 2.0 * a["off"] / 3.0 for _, a, b in apart
            ),
        },
    )
