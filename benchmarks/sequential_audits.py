"""Stopping times of sequential audits, against the limit log(1/alpha)/KLinf and against published ones.

    python benchmarks/sequential_audits.py --runs 1000 --write

Every pair that was drawn until the claim fell counts, those that events were learned from included. KLinf is that of
the whole claim, in both directions of the data sets (hockeystick.audits.limits). The four benchmarks of González,
Dulce-Rubio, Ramdas and Ribero 2025 are as Kutta, Dunsche, Wei and Zikas 2026 run them (their Table 1 has the best
published mean stopping times): the mean of one record against that of two, with noise of scale 2/(n epsilon).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import stats

from hockeystick import accounting
from hockeystick.audits.claim import Claim
from hockeystick.audits.law_pairs import LawPair
from hockeystick.audits.limits import klinf
from hockeystick.audits.sequential import sequential_audit

FloatArray = npt.NDArray[np.float64]
Draw = Callable[[int, np.random.Generator, int], FloatArray]
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-sequential-audits.md"


@frozen(eq=False)
class Case:
    """A target, its claim, and what a mean stopping time is set against."""

    name: str
    draw: Draw
    claim: Claim
    alpha: float
    limit: float  # log(1/alpha) / KLinf
    aim: float  # largest mean stopping time
    most: int
    share: float = 1.0  # of the runs asked for
    events: object = None


def laplace(epsilon: float) -> Draw:
    return lambda data, rng, runs: data + rng.laplace(scale=1 / epsilon, size=runs)


def gaussian(mu: float) -> Draw:
    return lambda data, rng, runs: mu * data + rng.standard_normal(runs)


def mean_of(noise: str, epsilon: float) -> Draw:
    def draw(data: int, rng: np.random.Generator, runs: int) -> FloatArray:
        records = 1 + data
        drawn = rng.standard_normal(runs) if noise == "Gaussian" else rng.laplace(size=runs)
        return data / records + drawn * 2 / (records * epsilon)

    return draw


def mean_pair(noise: str, epsilon: float) -> LawPair:
    law = stats.norm if noise == "Gaussian" else stats.laplace
    edges = np.concatenate([[-np.inf], np.linspace(-30, 30, 6001), [np.inf]])
    masses = [np.diff(law.cdf(edges, loc=d / (1 + d) * epsilon, scale=2 / (1 + d))) for d in (0, 1)]
    return LawPair.finite(*(mass / mass.sum() for mass in masses))


def cases() -> list[Case]:
    found = []
    for noise, epsilon, published in (
        ("Gaussian", 0.01, 59),
        ("Laplace", 0.01, 86),
        ("Gaussian", 0.1, 68),
        ("Laplace", 0.1, 114),
    ):
        claim = Claim(epsilon, 1e-5 if noise == "Gaussian" else 0.0)
        limit = klinf(mean_pair(noise, epsilon), claim).stopping(0.05)
        found.append(Case(f"NonDP{noise}1, {epsilon:g}", mean_of(noise, epsilon), claim, 0.05, limit, published, 5000))
    for alpha, factor in ((0.05, 2.5), (1e-6, 1.5)):
        for epsilon, share in ((2.0, 1.0), (1.5, 0.5), (1.1, 0.1)):
            limit = klinf(LawPair.laplace(epsilon), Claim(1.0)).stopping(alpha)
            name, most = f"Laplace, claimed 1, true {epsilon:g}", int(20 * limit)
            found.append(Case(name, laplace(epsilon), Claim(1.0), alpha, limit, factor * limit, most, share))
        curve = Claim.curve(accounting.Gaussian(1.0), 1e-5)
        for less, share in ((0.5, 1.0), (0.8, 0.3), (0.9, 0.1)):
            limit = klinf(LawPair.gaussian(1 / less), curve).stopping(alpha)
            name, most = f"Gaussian curve, sigma x {less:g}", int(20 * limit)
            found.append(Case(name, gaussian(1 / less), curve, alpha, limit, factor * limit, most, share))
    return found


def measured(case: Case, runs: int) -> str:
    runs = max(20, int(runs * case.share))
    started, times, missed = time.process_time(), np.empty(runs), 0
    for seed in range(runs):
        verdict = sequential_audit(
            case.draw,
            claim=case.claim,
            neighbours=(0, 1),
            alpha=case.alpha,
            most_samples=case.most,
            rng=seed,
            events=case.events,
        )
        times[seed] = verdict.stopped_at
        missed += not verdict.refuted
    mean, error = times.mean(), 2.576 * times.std(ddof=1) / math.sqrt(runs)
    seconds = (time.process_time() - started) / runs
    return (
        f"| {case.name} | {case.alpha:g} | {case.limit:.0f} | {mean:.0f} ± {error:.0f} | {mean / case.limit:.2f} | "
        f"{np.quantile(times, 0.9):.0f} | {case.aim:.0f} | {'yes' if mean - error <= case.aim else 'no'} | {missed} | "
        f"{runs} | {1e3 * seconds:.0f} |"
    )


def false_alarms(runs: int) -> list[str]:
    rows = []
    for name, draw, claim in (
        ("Laplace, tight at 1", laplace(1.0), Claim(1.0)),
        ("Gaussian curve, tight", gaussian(1.0), Claim.curve(accounting.Gaussian(1.0), 1e-5)),
    ):
        found = sum(
            sequential_audit(draw, claim=claim, neighbours=(0, 1), alpha=0.05, most_samples=500, rng=seed).refuted
            for seed in range(runs)
        )
        rows.append(f"| {name} | 0.05 | 500 | {found} of {runs} | {found / runs:.4f} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200, help="of the fastest cases; slow ones make fewer")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    asked = parser.parse_args()
    lines = [
        "# Sequential audits: stopping times",
        "",
        "Pairs of outputs until a false claim falls, by `benchmarks/sequential_audits.py`; all that were drawn up to",
        "then count. *Limit* is log(1/alpha)/KLinf, the least for small alpha; *aim* is a",
        "multiple of it or the best published mean. ± is the 99 % interval; *met* allows for it.",
        "",
        "| target | alpha | limit | mean | mean/limit | 90 % | aim | met | missed | runs | ms a run |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for case in cases():
        if asked.only in case.name:
            lines.append(measured(case, asked.runs))
            print(lines[-1], flush=True)
    if not asked.only:
        alarms = [
            "",
            "Claims that are exactly true:",
            "",
            "| target | alpha | pairs | false alarms | rate |",
            "|---|---|---|---|---|",
            *false_alarms(asked.runs),
        ]
        print("\n".join(alarms), flush=True)
        lines += alarms
    if asked.write:
        PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
