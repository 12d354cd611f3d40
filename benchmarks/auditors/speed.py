"""Audits compared with the samples that the best test needs, with limits of time, and with other auditors.

    python -m benchmarks.auditors.speed [--quick] [--write]

finds how many samples of each data set refute a claim that is too small in 90 % of audits, every sample counted, and
compares it with the local optimum of :mod:`hockeystick.audits.bounds.sample_limits`; times two audits; and does the
same with the auditor of jax-privacy where it is installed. ``--write`` puts the table into docs/benchmarks-audits.md.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.auditors.estimators import Estimator, estimator, whole_audit
from benchmarks.auditors.rating import measure_efficiency, measure_false_alarms
from benchmarks.auditors.targets import AuditorTarget, gaussian_mu, gaussian_shift, laplace
from benchmarks.frame import WORK, Row, compare
from hockeystick.audits import Claim, audit
from hockeystick.audits.catalogue.every_case import select

ALPHA = 0.05


def compared(name: str, ours: str, beside: str, ratio: float, most: float | None, remark: str = "") -> Row:
    """Returns a row; ``most`` is the largest ratio that meets the limit, None for no limit."""
    cells = name, ours, beside, f"{ratio:.2f}", "" if most is None else f"{most:.2f}", remark
    return Row(cells, None if most is None else ratio <= most)


def gaussian_curve(factor: float) -> AuditorTarget:
    """Gaussian noise with ``factor`` times the standard deviation that (1, 1e-5) asks for; the claim is its curve."""
    claimed = gaussian_mu(1.0, 1e-5)
    return gaussian_shift(1.0, 1e-5, claimed, claimed / factor, 1 / factor, curve=True)


def samples(quick: bool) -> Iterator[Row]:
    """Samples needed against the optimum."""
    learned, given = estimator("audit"), estimator("event given")
    scored = Estimator("audit, statistic given", whole_audit(statistic=np.asarray))
    told = Estimator("audit, event given", whole_audit(statistic=np.asarray), reads="event")
    cases: list[tuple[str, AuditorTarget, list[tuple[Estimator, float | None]]]] = [
        ("Laplace, claim 1, true 2", laplace(1.0, 2.0), [(given, None), (told, None), (scored, None), (learned, 2.5)]),
        ("Laplace, claim 1, true 1.1", laplace(1.0, 1.1), [(given, 1.1), (told, 1.1), (scored, None), (learned, 2.0)]),
        ("Gaussian curve (1, 1e-5), σ × 0.5", gaussian_curve(0.5), [(given, None), (learned, 2.0)]),
        ("Gaussian curve (1, 1e-5), σ × 0.9", gaussian_curve(0.9), [(given, None), (learned, 2.0)]),
    ]
    for name, target, rated in cases:
        for one, most in rated:
            yield _needed(one, name, target, most, quick)


def _needed(one: Estimator, name: str, target: AuditorTarget, most: float | None, quick: bool) -> Row:
    found = measure_efficiency(one, target, alpha=ALPHA, replications=100 if quick else 300)
    within = f"{found.n90:,.0f} ({found.low:,.0f} to {found.high:,.0f})"
    ours = within if found.n90 < math.inf else f"> {found.low:,.0f}"
    return compared(
        f"{one.name}: {name}",
        ours,
        f"{found.optimum:,.0f}",
        found.ratio,
        most,
        f"both orders: {found.optimum_both:,.0f}; no test below {found.least:,.0f}",
    )


def _timed(code: str) -> tuple[float, float, dict[str, Any]]:
    """CPU seconds of an audit in a process of its own, most memory of that process in GB, and the result."""
    script = f"""
import json, resource, sys, time
import numpy as np
from hockeystick.audits import Claim, audit
def laplace(data, rng, runs): return data + rng.laplace(scale=1.0, size=runs)
audit(laplace, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=1000, rng=0)  # all that is loaded late
start = time.process_time()
verdict = {code}
seconds = time.process_time() - start
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([seconds, memory / 1e9, {{"refuted": verdict.refuted, "epsilon_lower": verdict.epsilon_lower}}]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, memory, verdict = json.loads(done.stdout)
    return seconds, memory, verdict


def seconds(quick: bool) -> Iterator[Row]:
    """CPU time, what an idle core would take, and memory, against their limits."""
    call = "audit(laplace, claim=Claim(1.0), neighbours=(0.0, 1.0), rng=1, "
    took, _, verdict = _timed(call + "samples=20_000, bits=True)")
    found = f"{'refuted' if verdict['refuted'] else 'NOT refuted'}, ε ≥ {verdict['epsilon_lower']:.2f}"
    ratio = took if verdict["refuted"] else math.inf
    yield compared("bits of numpy's Laplace, claim 1, 2 × 20,000 samples", f"{took:.2f} s", "1 s", ratio, 1.0, found)
    size = 10**6 if quick else 10**7
    took, memory, _ = _timed(call + f"samples={size})")
    yield compared(
        f"{size:,} samples of a number, seconds", f"{took:.1f} s", f"{size / 1e6:g} s", took / (size / 1e6), 1.0
    )
    yield compared(f"{size:,} samples of a number, memory", f"{memory:.2f} GB", "1 GB", memory, 1.0)


def published(quick: bool) -> Iterator[Row]:
    """Form 4 of the sparse vector technique at claim 0.1, beside DP-Sniper's bounds on it; goes on where it stopped."""
    case, size = select("zoo/svt-4@0.1")[0], 10**6 if quick else 4 * 10**7
    WORK.mkdir(parents=True, exist_ok=True)
    for name, options in (("likelihood ratio", dict(case.options)), ("event learned", {})):
        started = time.process_time()
        verdict = audit(
            case.target,
            claim=case.claim,
            neighbours=case.neighbours,
            samples=size,
            rng=1,
            confidence=0.9,
            first_look=False,
            checkpoint=WORK / f"svt-4, {name}, {size}.checkpoint",
            **options,
        )
        yield compared(
            f"audit, {name}: SVT form 4, claim 0.1, {size:,} samples",
            f"ε ≥ {verdict.epsilon_lower:.4f}",
            "ε ≥ 0.170",
            0.170 / max(verdict.epsilon_lower, 1e-9),
            None,
            f"truth {case.truth:.4f}; DP-Sniper from 4.3 · 10⁸ samples; {time.process_time() - started:.0f} s",
        )


def jax_privacy(quick: bool) -> Iterator[Row]:
    """The auditor of jax-privacy, where it is installed."""
    if importlib.util.find_spec("jax_privacy") is None:
        return
    auditing = importlib.import_module("jax_privacy.auditing")

    def rated(name: str, bound: Callable[[Any, float, Claim], float]) -> Estimator:
        def estimate(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
            found = float(bound(auditing.CanaryScoreAuditor(-s0, -s1), alpha, claim))
            return found > claim.epsilon, found

        version = importlib.metadata.version("jax-privacy")
        return Estimator(f"jax-privacy {version}, {name}", estimate)

    bonferroni = rated("Bonferroni", lambda one, alpha, claim: one.epsilon_clopper_pearson(alpha, claim.delta))
    held_out = {"threshold_strategy": auditing.Split(seed=0)}
    split = rated("split", lambda one, alpha, claim: one.epsilon_clopper_pearson(alpha, claim.delta, **held_out))
    yield _needed(bonferroni, "Laplace, claim 1, true 2", laplace(1.0, 2.0), None, quick)
    yield _needed(split, "Laplace, claim 1, true 2", laplace(1.0, 2.0), None, quick)
    if not quick:
        yield _needed(bonferroni, "Laplace, claim 1, true 1.1", laplace(1.0, 1.1), None, True)
    claimed = gaussian_mu(1.0, 1e-5)
    correct = gaussian_shift(1.0, 1e-5, claimed, claimed, 1.0, curve=False)
    by_gdp = rated("GDP", lambda one, alpha, claim: one.epsilon_from_gdp(alpha, claim.delta))
    for one in (by_gdp, estimator("audit")):
        found = measure_false_alarms(one, correct, alpha=ALPHA, samples=1000, replications=200)
        share = f"{found.alarms} of {found.replications}"
        yield compared(
            f"{one.name}: false alarms, correct Gaussian (1, 1e-5)",
            share,
            f"{ALPHA:g}",
            found.rate / ALPHA,
            1.25 if one is not by_gdp else None,
            found.judgement,
        )


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows."""
    for part in (seconds, samples, published, jax_privacy):
        yield from part(quick)


PAGE = """# Audits: side by side

{met} An audit that chooses its event by itself may take 2 to 2.5 times the samples
of the local optimum, and 10 s for 10,000,000 samples.

Written by `python -m benchmarks.auditors.speed --write`; edit that instead.

This page measures the number of samples that audits need. It is the number from each data set at which a claim that is
too small is refuted in 90 % of audits, at a false-alarm probability of 0.05. Every sample counts, including those that
choose an event. The interval is at 95 %, from the number of audits. *Beside* is the local optimum (z₀.₉₅ + z₀.₉)²/(2
KLinf) for one order of the data sets. Audits here use both orders. The best such test takes the number under *both
orders*, and no test takes fewer samples than the last number. Rows without a limit are for comparison. Seconds are CPU
seconds.

{table}

`python -m benchmarks.auditors.rate` measures the auditors' false-alarm rates on more targets, and those of your own
estimator.

## Published numbers

These numbers are from the logs that come with DP-Sniper, from its authors' machine. They were not run here, and answer
a different question.

| target | truth | DP-Sniper's bound on ε, confidence 0.9 | samples | seconds |
| --- | --- | --- | --- | --- |
| Laplace | 0.1 | 0.097 (logistic), 0.098 (network) | 4.3 · 10⁸ | 21, 217 |
| bits of floating-point Laplace noise for ε = 0.1 | infinite | 0.252 (network) | 4.3 · 10⁸ | 2125 |
"""


if __name__ == "__main__":
    columns, quick = "| | what | ours | beside | ratio | at most | |", "fewer replications, a tenth of the samples"
    sys.exit(compare("benchmarks-audits.md", columns, rows, PAGE, quick=quick))
