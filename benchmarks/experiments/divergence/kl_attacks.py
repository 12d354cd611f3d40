"""The true cost of printed releases of a private divergence: audits and exact numbers.

All claim (1, 1e-5). Three ways in which the printed noise is not enough:

* *Repeats*: a symbol that was drawn c times is published c times, each time with noise for one. The adversary takes the
  mean: the cost is that of c times the squared distance.
* *Pair*: an aggregator publishes two sums whose noise is calibrated to their difference alone, half the variance each.
  The server sees both.
* *Shared noise*: as printed, both sums get the same draw of noise, and their difference has none.

Their corrected counterparts are audited the same way and must stand: each symbol once, and noise split over the pair so
that both together cost what is claimed. The exact epsilon is that of the mutant's own event. Claims are whole curves,
and an audit refutes one where a violation shows best, so that its lower bound at delta = 1e-5 need not exceed 1. It
looks at the likelihood ratio, or at the sums' difference where noise is shared; its confidence is 1 - 1e-6.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.experiments.divergence.digit_pairs import SEED
from benchmarks.frame import Cells, Report, markdown
from hockeystick import accounting
from hockeystick.accounting import GaussianDP
from hockeystick.audits import Claim, audit
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import AggregatedKL
from hockeystick.mechanisms import Gaussian

EPSILON, DELTA = 1.0, 1e-5
CONFIDENCE = 1.0 - 1e-6
REPEATS = (1, 2, 5, 10, 50, 100)
AUDITED_REPEATS = (1, 2, 5, 10)
REPEATS_QUOTED = {2: 1.465, 5: 2.442, 10: 3.619, 50: 9.36, 100: 14.43}
RATIOS = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the sums' sensitivities
RATIOS_QUOTED = {0.0: 1.465, 0.5: 1.658, 1.0: 2.155}
SHARED_QUOTED, SHARED_SAMPLES = 11.8, 500_000


def unit() -> float:
    """Standard deviation of Gaussian noise for sensitivity 1 and the claim."""
    return Gaussian.calibrated(epsilon=EPSILON, delta=DELTA).sigma


def claim() -> Claim:
    """(1, 1e-5), and the rest of the curve of Gaussian noise that is calibrated to it."""
    return Claim.curve(GaussianDP(1.0 / unit()), DELTA)


def gaussian_epsilon(mu: float) -> float:
    """Exact epsilon of Gaussian noise at DELTA."""
    return accounting.epsilon(GaussianDP(mu), DELTA).upper


def _plan(repeats: int, records: int = 1000) -> QueryAverage:
    """Two symbols, each asked for ``repeats`` times, always of the same two clients."""
    symbols = np.repeat([0, 1], repeats)
    cohort = np.array([0, 1])
    return QueryAverage(
        reference=[0.5, 0.5],
        symbols=symbols,
        shares=np.full(2 * repeats, 0.5 / repeats),
        cohorts=[cohort] * len(symbols) if repeats > 1 else [cohort],
        client_records=np.array([records, records]),
    )


def repeated(repeats: int, samples: int) -> dict[str, Any]:
    """Noise for one publication, of counts that are published ``repeats`` times."""
    sound = DistributedKL.calibrated(_plan(1), epsilon=EPSILON, delta=DELTA)
    mutant = DistributedKL(average=_plan(repeats), shares=sound.shares)
    found = {"exact": accounting.epsilon(mutant.event(), DELTA).upper}
    if samples:
        found |= _audited(mutant, Claim.curve(sound.event(), DELTA), samples, 10 + repeats)
    return found


def pair(ratio: float, samples: int, corrected: bool) -> dict[str, Any]:
    """Two sums with sensitivities 1 : ratio; noise for the larger alone and half its variance each, or corrected."""
    plan = _plan(1)
    a, b = plan.sum_sensitivities()
    multiplier = max(ratio, 1e-6) * a / b
    if corrected:
        learner = AggregatedKL.calibrated(plan, epsilon=EPSILON, delta=DELTA, multiplier=multiplier, noise="gaussian")
    else:
        spread = unit() * max(a, multiplier * b) / math.sqrt(2.0)
        learner = AggregatedKL(
            average=plan, logs=Gaussian(spread, sensitivity=a), ratios=Gaussian(spread / multiplier, sensitivity=b)
        )
    found = {"exact": accounting.epsilon(learner.event(), DELTA).upper}
    return found | _audited(learner, claim(), samples, 100 + round(100 * ratio) + 1000 * corrected)


def shared(samples: int) -> dict[str, Any]:
    """One draw of noise in both sums; the statistic is their difference."""
    plan = _plan(1)
    learner = AggregatedKL.calibrated(plan, epsilon=EPSILON, delta=DELTA, noise="gaussian")
    d0, d1 = (plan.sums(data) for data in learner.worst_case_neighbours())

    def published(sums: tuple[float, float], rng: np.random.Generator, runs: int) -> Any:
        noise = rng.normal(0.0, learner.noise_deviation(1.0), runs)
        return np.rint(1e6 * ((sums[0] + noise) - (sums[1] + noise))) / 1e6

    verdict = audit(
        published,
        claim=claim(),
        neighbours=(d0, d1),
        samples=samples,
        rng=SEED,
        confidence=CONFIDENCE,
        first_look=False,
    )
    return {"exact": math.inf, "lower": verdict.epsilon_lower, "outcome": verdict.outcome}


def _audited(learner: Any, of: Claim, samples: int, seed: int) -> dict[str, Any]:
    verdict = audit(
        learner, claim=of, samples=samples, rng=SEED + seed, confidence=CONFIDENCE, statistic="likelihood ratio"
    )
    return {"lower": verdict.epsilon_lower, "outcome": verdict.outcome}


def experiment(
    cells: Cells,
    samples: int = 200_000,
    repeats: tuple[int, ...] = REPEATS,
    audited: tuple[int, ...] = AUDITED_REPEATS,
    shared_samples: int = SHARED_SAMPLES,
) -> Report:
    """Exact epsilons of three printed releases, audits of them, and of what replaces them."""
    found = cells.each(repeated, [(c, samples if c in audited else 0) for c in repeats], "repeats")
    counts = {c: one for (c, _), one in found.items()}
    both = cells.each(pair, [(r, samples, corrected) for corrected in (False, True) for r in RATIOS], "pairs")
    wrong, right = ({r: both[r, samples, corrected] for r in RATIOS} for corrected in (False, True))
    same = cells.one(shared, samples=shared_samples)
    exact = {c: gaussian_epsilon(math.sqrt(c) / unit()) for c in repeats}
    names: list[tuple[str, float, dict[str, Any], object]] = []
    for c, one in counts.items():
        name = f"counts published {c} times" if c > 1 else "counts published once (corrected)"
        names.append((name, exact[c], one, REPEATS_QUOTED.get(c, "")))
    for r, one in wrong.items():
        together = gaussian_epsilon(math.sqrt(2.0 * (1.0 + r * r)) / unit())
        names.append((f"pair, sensitivities 1 : {r:g}", together, one, RATIOS_QUOTED.get(r, "")))
    names += [(f"pair, 1 : {r:g} (corrected)", EPSILON, one, "") for r, one in right.items()]
    names.append(("pair, shared noise", math.inf, same, f"∞; audit {SHARED_QUOTED:g} at 95 %"))
    rows = [
        [name, gaussian, one["exact"], one.get("lower", ""), one.get("outcome", "not audited"), quoted]
        for name, gaussian, one, quoted in names
    ]
    sound = [counts[repeats[0]], *right.values()]
    broken = [*(counts[c] for c in repeats[1:]), *wrong.values(), same]
    near = [exact[c] / quoted for c, quoted in REPEATS_QUOTED.items() if c in exact]
    near += [wrong[r]["exact"] / quoted for r, quoted in RATIOS_QUOTED.items()]

    def draw(figure: Any) -> None:
        left, right_axes = figure.subplots(1, 2)
        left.loglog(repeats, list(exact.values()), "-", label="exact, Gaussian noise")
        left.loglog(repeats, [one["exact"] for one in counts.values()], "x", label="exact, Skellam noise")
        at = [(c, one["lower"]) for c, one in counts.items() if "lower" in one]
        left.loglog(*zip(*at, strict=True), "o", label="audit, lower bound")
        left.axhline(EPSILON, color="k", linestyle=":", label="claimed")
        left.set(xlabel="times a symbol is published", ylabel=f"ε at δ = {DELTA:g}")
        left.legend()
        for some, styles, labels in (
            (wrong, ("-", "o"), ("exact", "audit, lower bound")),
            (right, ("C2-", "C2o"), ("corrected, exact", "corrected, audit")),
        ):
            for key, style, label in zip(("exact", "lower"), styles, labels, strict=True):
                right_axes.plot(RATIOS, [some[r][key] for r in RATIOS], style, label=label)
        right_axes.axhline(EPSILON, color="k", linestyle=":")
        right_axes.set(xlabel="sensitivity of the second sum, as a part of the first's", ylim=(0.0, None))
        right_axes.legend()

    return Report(
        markdown(
            ["release, claimed (1, 1e-5)", "ε, Gaussian", "ε, its own event", "audit: ε ≥", "verdict", "quoted"], rows
        ),
        {
            "exact values agree with the quoted ones within 0.5 %": all(abs(r - 1.0) <= 5e-3 for r in near),
            "the exact ε of corrected releases is at most the claimed one, and they are not refuted": all(
                one["exact"] <= EPSILON * (1 + 1e-9) and one["outcome"] != "refuted" for one in sound
            ),
            "the exact ε of printed releases exceeds the claimed one, and every audited one is refuted": all(
                one["exact"] > EPSILON and one.get("outcome", "refuted") == "refuted" for one in broken
            ),
            "no lower bound exceeds the exact value": all(
                one.get("lower", 0.0) <= one["exact"] for one in (*sound, *broken)
            ),
        },
        draw,
        "Exact and audited epsilon of repeated publications, and of pairs whose noise is calibrated to their sum.",
    )
