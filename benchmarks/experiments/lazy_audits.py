"""Audits of the lazy learner's certificate, correct and broken, and how many runs it takes to catch what is broken.

The claim is the certified curve at a few epsilons. The statistic is the log-likelihood ratio of the run, or of the
first decision that may differ, on the worst pair of streams. The exact privacy loss says beforehand what an audit with
unlimited runs would find, and how many runs the audit needs to find it with probability 0.9; the audit itself uses
three times as many for a broken learner.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from benchmarks.experiments.common import Cells, Check, Report, main, markdown
from hockeystick.audits import Claim, audit
from hockeystick.audits.targets_lazy import Mutation, View, lazy_target, samples_needed
from hockeystick.learners import LazyExperts

DELTA = 1e-5
CONFIDENCE = 1.0 - 1e-6
SAMPLES = 100_000  # for correct learners
LEARNERS = {
    "L2P": LazyExperts(rounds=400, experts=6, batch=8, learning_rate=0.033, fake_switch_probability=0.21),
    "dartboard": LazyExperts(
        rounds=400, experts=6, batch=4, learning_rate=0.04, fake_switch_probability=0.14, variant="dartboard"
    ),
}
CASES: tuple[tuple[Mutation | None, View], ...] = (
    (None, "run"),
    (None, "decision"),
    ("no fake switches", "run"),
    ("no fake switches", "decision"),
    ("unclipped losses", "run"),
)


def measured(name: str, mutation: Mutation | None, view: View, samples: int) -> dict[str, Any]:
    """Claimed and exact epsilon, runs needed, and the audit's verdict."""
    learner = LEARNERS[name]
    guarantee = learner.graph().guarantee()
    points = [(epsilon, guarantee.delta(epsilon).upper) for epsilon in (0.0, 0.1, 0.3, 0.6)]
    claim = Claim(guarantee.epsilon(DELTA).upper, DELTA, also=points)
    target = lazy_target(learner, mutation, view=view)
    exact = target.exact()
    needed = samples_needed(exact, claim, confidence=CONFIDENCE)
    used = samples if math.isinf(needed) else 3 * math.ceil(needed)
    verdict = audit(
        target, claim=claim, neighbours=target.neighbours, samples=used, rng=20240611, confidence=CONFIDENCE
    )
    return {
        "claimed": claim.epsilon,
        "exact": exact.epsilon(DELTA)[0],
        "needed": needed,
        "samples": used,
        "outcome": verdict.outcome,
    }


def experiment(cells: Cells, names: tuple[str, ...] = tuple(LEARNERS), samples: int = SAMPLES) -> Report:
    """Audits of the lazy learner, correct and broken."""
    settings = [(name, mutation, view) for name in names for mutation, view in CASES]
    found = {
        (name, mutation, view): cells(
            {"learner": name, "mutation": mutation, "view": view, "samples": samples},
            lambda n=name, m=mutation, v=view: measured(n, m, v, samples),  # type: ignore[misc]
        )
        for name, mutation, view in cells.progress(settings, "audits")
    }
    rows = [
        [name, mutation or "correct", view, *(row[key] for key in ("claimed", "exact", "needed", "samples", "outcome"))]
        for (name, mutation, view), row in found.items()
    ]
    return Report(
        markdown(
            [
                "learner",
                "",
                "view",
                f"claimed ε at {DELTA:g}",
                "exact ε",
                "runs needed per stream",
                "runs used",
                "verdict",
            ],
            rows,
        ),
        (
            Check(
                "the correct learners are within their claim, exactly, and are not refuted",
                all(
                    row["exact"] <= row["claimed"] and row["outcome"] != "refuted"
                    for (_, mutation, _), row in found.items()
                    if mutation is None
                ),
            ),
            Check(
                "every broken learner exceeds its claim, exactly, and is refuted",
                all(
                    row["exact"] > row["claimed"] and row["outcome"] == "refuted"
                    for (_, mutation, _), row in found.items()
                    if mutation is not None
                ),
            ),
        ),
    )


if __name__ == "__main__":
    sys.exit(main("lazy_audits", experiment))
