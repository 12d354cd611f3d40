"""One-run audits: lower bounds against the truth, ours and those of jax-privacy where it is installed.

    python -m benchmarks.auditors.one_run [--seeds 5] [--audits 200] [--write]

The canaries are ideal: the score of a canary is N(mu, 1) if it was included and N(0, 1) if not, independently. mu is
chosen such that the true epsilon at delta = 1e-5 is the stated one. Every number is a mean over seeds at confidence
0.95, rounded to two digits.

"point" bounds epsilon at delta without an assumption on the mechanism. "curve" bounds mu of Gaussian DP and converts it
to epsilon; it is a bound only for Gaussian trade-off curves. "sum" is the lower end of an estimate that assumes
independent normal scores. The claim to refute is half of the true epsilon. "jax" is jax-privacy, whose "curve" is
converted in the same way. "-" was not run.

Several runs. The claim is the curve of Gaussian noise 1 (mu = 1, stated at delta = 1e-5), the truth has 0.7 times that
noise. The table has the share of audits that refute the claim at confidence 0.95, by rule, and the power that the plan
predicts for its own number of guesses alone. No test of one run has power 0.9 below 1,780 canaries.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from typing import Any

import numpy as np
from scipy import optimize

from benchmarks.frame import DOCS
from hockeystick.accounting import Gaussian
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.one_run.model_based import estimate_sum_statistic
from hockeystick.audits.one_run.one_run import Rule, one_run_verdict
from hockeystick.audits.one_run.plan import OneRunPlan

DELTA, CONFIDENCE = 1e-5, 0.95
ROWS = [(1.0, 1000), (1.0, 10_000), *((truth, 10**k) for truth in (4.0, 8.0) for k in (3, 4, 5))]
OURS = ("point, planned", "point, grid", "curve, planned", "sum (estimate)")
PEER = ("jax point, split", "jax point, all", "jax curve, split", "jax curve, all")
RUNS = [(1, 3000), (1, 13_000), (3, 1000), (5, 600), (10, 300), (30, 100)]
NOISE = 0.7
RULES: tuple[Rule, ...] = ("planned", "held-out", "grid")
PAGE = DOCS / "benchmarks-one-run-audits.md"


def scores(truth: float, canaries: int, seed: int) -> tuple[Any, Any]:
    mu = optimize.brentq(lambda u: gaussian_profile.epsilon(u, DELTA) - truth, 0.01, 20.0)
    rng = np.random.default_rng(seed)
    included = rng.random(canaries) < 0.5
    return rng.normal(size=canaries) + mu * included, included


def ours(truth: float, values: Any, included: Any) -> list[float]:
    point = Claim(truth / 2, DELTA)
    mu = optimize.brentq(lambda u: gaussian_profile.epsilon(u, DELTA) - truth / 2, 0.001, 20.0)
    curve = one_run_verdict(Claim.curve(Gaussian(1 / mu), DELTA), values, included, confidence=CONFIDENCE)
    return [
        one_run_verdict(point, values, included, confidence=CONFIDENCE).epsilon_lower,
        one_run_verdict(point, values, included, rule="grid", confidence=CONFIDENCE).epsilon_lower,
        gaussian_profile.epsilon(curve.mu_lower(), DELTA, upper=False),
        estimate_sum_statistic(values, included, delta=DELTA, confidence=CONFIDENCE).low,
    ]


def peer(values: Any, included: Any, seed: int) -> list[float]:
    from jax_privacy import auditing  # type: ignore[import-not-found, unused-ignore]

    auditor = auditing.CanaryScoreAuditor(values[included], values[~included])
    split, every = auditing.Split(seed=seed), auditing.Bonferroni()
    found = []
    for method in (auditor.epsilon_one_run, auditor.epsilon_one_run_fdp):
        found.append(method(1 - CONFIDENCE, DELTA, threshold_strategy=split))
        slow = method == auditor.epsilon_one_run_fdp and len(values) > 10_000
        found.append(float("nan") if slow else method(1 - CONFIDENCE, DELTA, threshold_strategy=every))
    return found


def table(seeds: int) -> list[str]:
    compared = importlib.util.find_spec("jax_privacy") is not None
    names = OURS + (PEER if compared else ())
    lines = ["| true ε | canaries | " + " | ".join(names) + " |", "| --- " * (len(names) + 2) + "|"]
    for truth, canaries in ROWS:
        found = []
        for seed in range(seeds):
            values, included = scores(truth, canaries, seed)
            found.append(ours(truth, values, included) + (peer(values, included, seed) if compared else []))
        cells = ["-" if np.isnan(mean) else f"{mean:.2f}" for mean in np.mean(found, axis=0)]
        lines.append(f"| {truth:g} | {canaries:,} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def powers(audits: int) -> list[str]:
    claim = Claim.gdp(1.0, delta=DELTA)
    lines = [
        "| runs | canaries in each | planned | held out | grid | plan's prediction |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for runs, canaries in RUNS:
        refuted = np.zeros(3)
        for seed in range(audits):
            rng = np.random.default_rng([runs, canaries, seed])
            included = rng.random((runs, canaries)) < 0.5
            noise = rng.normal(size=included.shape)
            values = noise + included / NOISE
            for i, rule in enumerate(RULES):
                verdict = one_run_verdict(claim, values, included, rule=rule, confidence=CONFIDENCE)
                refuted[i] += verdict.refuted
        plan = OneRunPlan.of(claim, canaries, runs=runs, confidence=CONFIDENCE)
        cells = [f"{share:.2f}" for share in (*refuted / audits, plan.power_at(NOISE))]
        lines.append(f"| {runs} | {canaries:,} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def timing() -> str:
    values, included = scores(4.0, 1_000_000, 0)
    claim, started = Claim(2.0, DELTA), time.process_time()
    verdict = one_run_verdict(claim, values, included, confidence=CONFIDENCE)
    spent = time.process_time() - started
    found = f"{verdict.epsilon_lower:.2f} where the truth is 4"
    return f"An audit of one run with a million canaries takes {spent:.1f} s and finds an epsilon of at least {found}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--audits", type=int, default=200, help="audits for each power")
    parser.add_argument("--write", action="store_true", help=f"write docs/{PAGE.name}")
    arguments = parser.parse_args()
    lines = table(arguments.seeds)
    shares = powers(arguments.audits)
    note = timing()
    print(note)
    if arguments.write:
        words = (__doc__ or "").split("\n\n")
        text = ["# Benchmark: one-run audits", note, words[2].strip(), words[3].strip(), "\n".join(lines)]
        text += ["## Several runs", words[4].removeprefix("Several runs. ").strip(), "\n".join(shares)]
        numbers = f"--seeds {arguments.seeds} --audits {arguments.audits}"
        command = f"Written by `python -m benchmarks.auditors.one_run {numbers} --write`; edit that instead."
        PAGE.write_text("\n\n".join([*text, command]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
