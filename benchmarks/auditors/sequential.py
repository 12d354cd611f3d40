"""Stopping times of sequential audits, against the limit log(1/alpha)/KLinf and against published ones.

    python -m benchmarks.auditors.sequential [--runs 10000] [--workers 2] [--write] [--kept]

What was run is kept as it comes: a second call goes on from there, and with more runs adds to it.
Every pair that was drawn until the claim fell counts, those that events were learned from included. KLinf is that of
the whole claim, in both directions of the data sets (hockeystick.audits.bounds.sample_limits). The four benchmarks of
González, Dulce-Rubio, Ramdas and Ribero 2025 are as Kutta, Dunsche, Wei and Zikas 2026 run them (their Table 1 has the
best published mean stopping times): the mean of one record against that of two, with noise of scale 2/(n epsilon).
"""

from __future__ import annotations

import hashlib
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from scipy import stats

from benchmarks.frame import DOCS, Cells, Result, arguments, digest, markdown, met_in_words
from hockeystick import accounting
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.bounds.sample_limits import klinf
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.claims.law_pairs import LawPair
from hockeystick.audits.sequential.audit import Run

Draw = Callable[[int, np.random.Generator, int], FloatArray]
PAGE = DOCS / "benchmarks-sequential-audits.md"
SEQUENTIAL = (
    "audits/sequential",
    "audits/attacks/half_lines.py",
    "audits/attacks/partitions.py",
    "audits/targets/calling.py",
    "audits/claims/claim.py",
    *(f"audits/outputs/{part}.py" for part in ("features", "cells", "reading")),
)
"""The sources that the outcome of a sequential audit depends on."""
CHUNK = 100  # runs that are kept together
PUBLISHED = (59.0, 86.0, 68.0, 114.0)  # mean stopping times
MOST_TIGHT = 500  # pairs against a claim that is true


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

    @property
    def fingerprint(self) -> str:
        """Of all that the runs depend on: its first outputs, its claim and its level."""
        outputs = [self.draw(data, np.random.default_rng(1), 8) for data in (0, 1)]
        asked = self.name, self.alpha, self.claim.points, np.concatenate(outputs).tolist()
        return hashlib.sha256(repr(asked).encode()).hexdigest()[:16]


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
    found, curve = [], Claim.curve(accounting.Gaussian(1.0), 1e-5)
    for alpha, factor in ((0.05, 2.5), (1e-6, 1.5)):
        noises = ("Gaussian", 0.01), ("Laplace", 0.01), ("Gaussian", 0.1), ("Laplace", 0.1)
        for (noise, epsilon), published in zip(noises, PUBLISHED, strict=True):
            claim = Claim(epsilon, 1e-5 if noise == "Gaussian" else 0.0)
            limit = klinf(mean_pair(noise, epsilon), claim).stopping(alpha)
            name, known = f"NonDP{noise}1, {epsilon:g}", alpha == 0.05  # the level of the published ones
            aim = min(published, factor * limit) if known else factor * limit
            found.append(Case(name, mean_of(noise, epsilon), claim, alpha, limit, aim, 5000, 1.0 if known else 0.04))
        for epsilon, share in ((2.0, 0.04), (1.5, 0.03), (1.1, 0.03)):
            limit = klinf(LawPair.laplace(epsilon), Claim(1.0)).stopping(alpha)
            name, most = f"Laplace, claimed 1, true {epsilon:g}", int(20 * limit)
            found.append(Case(name, laplace(epsilon), Claim(1.0), alpha, limit, factor * limit, most, share))
        for less, share in ((0.5, 0.04), (0.8, 0.03), (0.9, 0.03)):
            limit = klinf(LawPair.gaussian(1 / less), curve).stopping(alpha)
            name, most = f"Gaussian curve, sigma x {less:g}", int(20 * limit)
            found.append(Case(name, gaussian(1 / less), curve, alpha, limit, factor * limit, most, share))
    return found


def tight() -> list[Case]:
    curve = Claim.curve(accounting.Gaussian(1.0), 1e-5)
    return [
        Case("Laplace, tight at 1", laplace(1.0), Claim(1.0), 0.05, math.inf, math.inf, MOST_TIGHT, 0.04),
        Case("Gaussian curve, tight", gaussian(1.0), curve, 0.05, math.inf, math.inf, MOST_TIGHT, 0.04),
    ]


def chunk(case: Case, first: int, runs: int) -> Result:
    """Runs from the ``first`` on, whose numbers are their seeds: when each stopped, 0 if it did not refute."""
    started, stops = time.process_time(), []
    for seed in range(first, first + runs):
        run = Run.of(
            case.draw,
            claim=case.claim,
            neighbours=(0, 1),
            alpha=case.alpha,
            most_samples=case.most,
            rng=seed,
            events=None,
            exceptions_as_output=False,
            grid=None,
            lower=False,
        )
        run.bet()
        stops.append(run.stopped_at or 0)
    return {"stops": stops, "seconds": time.process_time() - started}


def measured(case: Case, runs: int, cells: Cells, *, kept: bool) -> tuple[FloatArray, float]:
    """Stopping times, infinite where the claim was not refuted, and seconds for one run; with ``kept``, of what is."""
    runs = max(20, int(runs * case.share))

    def chunks(*, first: int, runs: int, **_: Any) -> Result:
        return chunk(case, first, runs)

    keys = [
        {"case": case.fingerprint, "most": case.most, "first": first, "runs": min(CHUNK, runs - first)}
        for first in range(0, runs, CHUNK)
    ]
    if kept:
        keys = [key for key in keys if cells.knows(key, chunks)]
    found = cells.all(keys, chunks, f"{case.name}, {case.alpha:g}")
    stops = np.array([stop for part in found for stop in part["stops"]], dtype=float)
    return np.where(stops > 0, stops, np.inf), sum(part["seconds"] for part in found) / max(1, len(stops))


def row(case: Case, runs: int, cells: Cells, *, kept: bool) -> list[str]:
    """Returns a line of the first table."""
    stops, seconds = measured(case, runs, cells, kept=kept)
    known = [case.name, f"{case.alpha:g}", f"{case.limit:.0f}"]
    if not len(stops):
        return [*known, "not run", "", "", f"{case.aim:.0f}", "", "", "0", ""]
    times = np.minimum(stops, case.most)
    mean, error = times.mean(), 2.576 * times.std(ddof=1) / math.sqrt(len(times))
    found = [f"{mean:.1f} ± {error:.1f}", f"{mean / case.limit:.2f}", f"{np.quantile(times, 0.9):.0f}"]
    met, missed = "yes" if mean - error <= case.aim else "no", int(np.isinf(stops).sum())
    return [*known, *found, f"{case.aim:.0f}", met, str(missed), f"{len(times):,}", f"{1e3 * seconds:.0f}"]


TEXT = """# Sequential audits: stopping times

{met} On average an audit should stop after 2.5 times the limit at a false-alarm probability of
0.05, and after 1.5 times at 1e-6.

Written by `python -m benchmarks.auditors.sequential --write`; edit that instead.

The table has the number of pairs of outputs until a false claim is refuted. All pairs that were drawn up to
that point count. *Limit* is log(1/alpha)/KLinf, the least mean for small alpha. *Aim* is 2.5 times the limit at
0.05 and 1.5 times at 1e-6, or the best published mean (59, 86, 68, 114 for the first four) if that is less.
± is the 99 % interval, and *met* allows for it.

"""


def main() -> None:
    parser = arguments(__doc__.split("\n")[0], only="part of a case's name", page=PAGE.name)
    parser.add_argument("--runs", type=int, default=10_000, help="of the published cases; the others make fewer")
    given = parser.parse_args()
    quiet, file = not sys.stderr.isatty(), given.work / "sequential_audits.jsonl"
    cells = Cells(file, digest(*SEQUENTIAL), quiet=quiet, workers=given.workers)
    rows = []
    for case in cases():
        if given.only in case.name:
            rows.append(row(case, given.runs, cells, kept=given.kept))
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    head = "target | alpha | limit | mean | mean/limit | 90 % | aim | met | missed | runs | ms a run"
    met = met_in_words([row[-4] == "yes" for row in rows], "aims")
    text = TEXT.format(met=met) + markdown(head, rows) + "\n"
    if not given.only:
        alarms = []
        for case in tight():
            stops, _ = measured(case, given.runs, cells, kept=given.kept)
            alarm, made = int(np.isfinite(stops).sum()), len(stops)
            rate = f"{alarm / made:.4f}" if made else "not run"
            alarms.append([case.name, "0.05", str(case.most), f"{alarm} of {made}", rate])
        text += (
            "\nFalse alarms in long runs on claims that hold with equality ([another "
            "page](benchmarks-audit-calibration.md) has many short runs):\n\n"
            f"{markdown('target | alpha | pairs | false alarms | rate', alarms)}\n"
        )
    print(text)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
