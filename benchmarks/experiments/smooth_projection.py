"""Whether the projection matters: densities and errors of laws with and without it.

Off the cover a law answers itself, and may be off by its mass between a query and the nearest of the cover: density
times gamma. The projection caps the density at 1/sigma. Without it nothing does. Data are as concentrated as they may
be, on a window of mass sigma or on random cells of that mass; covers are coarse. Errors are over all intervals of the
line, cover or not.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.experiments.common import Cells, Check, Report, main, markdown
from benchmarks.experiments.query_instances import PAGE, SEED, cover_errors, law_errors, mean_and_error, window
from hockeystick.learners.base_measure import UniformCube
from hockeystick.learners.box_cells import BoxCells
from hockeystick.learners.interval_classes import Intervals
from hockeystick.learners.smooth_data import CellLaw, sampling_chi
from hockeystick.learners.smooth_mwem_plan import calibrated

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
        "cover": on, "whole": whole, "error": error, "rounds": learner.rounds,
    }  # fmt: skip


def experiment(cells: Cells, cases: tuple[Case, ...] = CASES, runs: int = 16) -> Report:
    """Densities and errors with and without the projection."""
    keys = [
        {"data": d, "records": n, "sigma": s, "rounds": r, "epsilon": e, "step": step, "project": p, "runs": runs}
        for d, n, s, r, e, step in cases
        for p in (False, True)
    ]
    found = cells.all(keys, published, "laws")
    pairs = list(zip(found[::2], found[1::2], strict=True))
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
        "\n\n".join(
            [
                markdown(
                    [
                        "data",
                        "n",
                        "σ",
                        "R",
                        "ε",
                        "step",
                        "density · σ",
                        "projected",
                        "errors: cover, all intervals",
                        "projected",
                    ],
                    rows,
                ),
                told,
            ]
        ),  # fmt: skip
        (
            Check("projected laws keep to 1/σ", all(b["most"] <= 1.0 + 1e-9 for _, b in pairs)),
            Check("some unprojected law exceeds it, on smooth data", bool(above)),
            Check(
                "off the cover projected laws err by no more than 2γ/σ + 4χ beyond it",
                all(
                    b["whole"] <= b["cover"] + 2.0 * GAMMA / s + 4.0 * sampling_chi(n, 0.01)
                    for (_, n, s, *_), (_, b) in zip(cases, pairs, strict=True)
                ),
            ),
        ),
    )


if __name__ == "__main__":
    sys.exit(main("smooth_projection", experiment, page=PAGE))
