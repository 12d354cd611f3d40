"""Data that are not smooth: usefulness goes, privacy stays.

A part of the records sits on one point, the others on a window of mass sigma. chi is how far the data are from any
sigma-smooth law, exactly, for thresholds; the error of a projected law and its bound with 4 chi follow it. The audit
looks at whole transcripts by their likelihood ratio, of neighbours that differ in one record (not the worst ones): the
claim, the learner and what the audit can show are the same for smooth data and for a single point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments.smoothed.query_instances import SEED, law_errors, mean_and_error, window
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits import Claim, audit
from hockeystick.learners.smoothed.classes.boxes.intervals import Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.measures.smooth_data import sampling_chi, threshold_chi
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.error_bounds import cover_gamma
from hockeystick.learners.smoothed.queries.plan import calibrated
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM

SIGMA, SPOT = 1.0 / 16.0, 0.345
PARTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
CONFIDENCE = 1.0 - 1e-6


def spiked(part: float, records: int) -> FloatArray:
    """Records on a window, a part of them moved to one point inside it."""
    data = window(UniformCube(1), SIGMA, records)
    data[: round(part * records)] = SPOT
    return data


def useful(part: float, records: int, runs: int) -> dict[str, float]:
    """chi of the data, and the error of the projected law over all thresholds."""
    measure = UniformCube(1)
    cells = BoxCells.of(Thresholds().cover(cover_gamma(records=records, sigma=SIGMA, project=True), measure))
    learner = calibrated(cells, records=records, sigma=SIGMA, epsilon=1.0, delta=1e-6, project=True)
    data = spiked(part, records)
    laws = learner.weights(learner.simulate(data, np.random.default_rng([SEED, 5]), runs))
    mean, error = mean_and_error(law_errors(cells, laws, data))
    chi = threshold_chi(data, measure, SIGMA)
    return {"chi": chi, "mean": mean, "error": error, "bound": learner.error_bound(chi=chi).error}


def small(rounds: int, records: int = 200) -> SmoothMWEM:
    """A learner with eight thresholds, at pure epsilon 1."""
    cells = BoxCells.of(Thresholds().cover(1.0 / 16.0, UniformCube(1)))
    return calibrated(cells, records=records, sigma=SIGMA, epsilon=1.0, rounds=rounds, split="equal", vacuous=True)


def audited(part: float, rounds: int, samples: int) -> dict[str, Any]:
    """The lower bound of an audit, and the largest likelihood ratio that was met; one record moves from 0 to 1."""
    learner = small(rounds)
    first = spiked(part, learner.records)
    first[-1] = 0.0
    second = first.copy()
    second[-1] = 1.0

    def ratios(data: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        return learner.log_likelihood_ratio(learner.simulate(data, rng, runs), first, second)

    verdict = audit(
        ratios,
        claim=Claim(epsilon=1.0),
        neighbours=(first, second),
        samples=samples,
        rng=SEED,
        confidence=CONFIDENCE,
        first_look=False,
    )
    most = max(float(np.abs(ratios(data, np.random.default_rng(SEED), 2000)).max()) for data in (first, second))
    certified = learner.graph().guarantee().epsilon(0.0).upper
    return {"lower": verdict.epsilon_lower, "outcome": verdict.outcome, "most": most, "certified": certified}


def experiment(
    cells: Cells, parts: tuple[float, ...] = PARTS, records: int = 16_000, runs: int = 12, samples: int = 60_000
) -> Report:
    """Errors, bounds and audits for data with more and more records on one point."""
    errors = cells.each(useful, parts, "errors", records=records, runs=runs)
    found = list(errors.values())
    seen = cells.each(audited, [(p, r) for p in (parts[0], parts[-1]) for r in (1, 3)], "audits", samples=samples)
    rows = [[p, one["chi"], f"{one['mean']:.4f} ± {one['error']:.4f}", one["bound"]] for p, one in errors.items()]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.plot([one["chi"] for one in found], [one["mean"] for one in found], "o-", label="error")
        axes.plot([one["chi"] for one in found], [one["bound"] for one in found], "k:", label="bound, with 4χ")
        axes.set(xlabel="χ", ylabel="largest error over all thresholds", ylim=(0.0, 1.6))
        axes.legend()

    return Report(
        [
            f"n = {records}, σ = 1/16, (1, 1e-6), projected; χ of n draws from a smooth law is at most "
            f"{sampling_chi(records, 0.01):.3f} with probability 0.99:",
            markdown(["records on one point", "χ", "error", "bound"], rows),
            f"Eight thresholds, 200 records, pure ε = 1, {samples} transcripts:",
            markdown(
                ["records on one point", "R", "certified ε", "largest likelihood ratio", "audit: ε ≥", "verdict"],
                [[p, r, one["certified"], one["most"], one["lower"], one["outcome"]] for (p, r), one in seen.items()],
            ),
        ],
        {
            "errors are below the bound with 4χ": all(one["mean"] < one["bound"] for one in found),
            "χ grows with the records on one point, and so does the error": all(
                a["chi"] < b["chi"] for a, b in zip(found[1:], found[2:], strict=False)
            )
            and found[-1]["mean"] > 3.0 * found[0]["mean"],
            "data on one point and smooth data have the same certificate; no likelihood ratio exceeds it, and no "
            "audit refutes it": all(
                one["certified"] <= 1.0 and one["most"] <= 1.0 + 1e-9 and one["outcome"] != "refuted"
                for one in seen.values()
            ),
            "the lower bounds of audits for both agree within 0.2": all(
                abs(seen[parts[0], r]["lower"] - seen[parts[-1], r]["lower"]) <= 0.2 for r in (1, 3)
            ),
        },
        draw,
        "The error against chi, below its bound: data that are not smooth have large errors.",
    )
