"""Rates auditors: whether they keep their level, and how many samples they need.

    python -m benchmarks.auditors.rate [--estimator NAME|MODULE:CALLABLE]... [--quick] [--json FILE] [options]

Each estimator meets targets that are exactly as private as they claim: if it refutes more than a share ``--alpha`` of
them it is INVALID, and the exit status is 1. Then it meets targets that claim too little, and the samples at which it
refutes 90 % of them are compared with those that the best test needs. By default all bounds of the package that make no
assumption are rated, which takes hours, or minutes with ``--quick``. An estimator of yours is a function
``estimate(samples0, samples1, claim, alpha, rng) -> (refuted, epsilon_lower)`` (:mod:`benchmarks.auditors.estimators`).
FILE receives a line of JSON for each result as it is finished, and a later run resumes from there.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict

from benchmarks.auditors.estimators import ESTIMATORS, Estimator, estimator
from benchmarks.auditors.rating import Efficiency, FalseAlarms, judge, measure_efficiency, measure_false_alarms
from benchmarks.auditors.targets import broken_targets, tight_targets
from benchmarks.frame import Cells, Result, digest, markdown
from hockeystick._files.named_callables import load_target
from hockeystick._words.figures import whole
from hockeystick.accounting import HockeystickError

_QUICK = {"laplace 1", "randomised response 1", "leaky response (1, 0.05)", "gaussian curve (1, 0.01)"}
_QUICK |= {"laplace 1, true 2x", "leaky response (1, 0.05), true 1.5x"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.auditors.rate")
    parser.add_argument(
        "--estimator", action="append", default=[], metavar="NAME|MODULE:CALLABLE", help="an estimator; repeatable"
    )
    parser.add_argument("--quick", action="store_true", help="fewer targets, and 300 replications")
    parser.add_argument("--alpha", type=float, default=0.05, help="the level (default: %(default)s)")
    parser.add_argument("--replications", type=int, help="audits for each rate (default: 2000; --quick: 300)")
    parser.add_argument("--samples", type=int, default=500, help="outputs of each data set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file of the results, from which a later run resumes")
    options = parser.parse_args(arguments)
    if options.json and options.json.exists() and '"sources":' not in options.json.read_text(encoding="utf-8"):
        parser.error(f"--json {options.json}: this file does not hold results, give another one")
    replications = options.replications or (300 if options.quick else 2000)
    tight, broken = (
        {one.name: one for one in targets if not options.quick or one.name in _QUICK}
        for targets in (tight_targets(), broken_targets())
    )
    rated: dict[str, Estimator] = {}

    def false_alarms(*, estimator: str, target: str, **given: Any) -> Result:
        return asdict(measure_false_alarms(rated[estimator], tight[target], **given))

    def efficiency(*, estimator: str, target: str, **given: Any) -> Result:
        print(f"{estimator}: {target}", file=sys.stderr, flush=True)
        return asdict(measure_efficiency(rated[estimator], broken[target], **given))

    try:
        for name in dict.fromkeys(options.estimator):
            rated[name] = Estimator(name, load_target(name)) if ":" in name else estimator(name)
        rated |= {} if rated else {one.name: one for one in ESTIMATORS if not one.assumes}
        cells = Cells(options.json, digest("audits", "benchmarks/auditors"))
        level = {"alpha": options.alpha, "seed": options.seed}
        own = level | {"samples": options.samples, "replications": replications, "targets": len(tight)}
        keys = [{"estimator": one, "target": target} | own for one in rated for target in tight]
        alarms = [FalseAlarms(**one) for one in cells.all(keys, false_alarms, "")]
        own = level | {"replications": max(50, replications // 10)}
        keys = [{"estimator": one, "target": target} | own for one in rated for target in broken]
        needed = [Efficiency(**one) for one in cells.all(keys, efficiency, "")]
    except HockeystickError as error:
        parser.error(str(error))
    judgements = {name: judge(one for one in alarms if one.estimator == name) for name in rated}
    print(page(alarms, needed, judgements))
    return int("INVALID" in judgements.values())


def page(alarms: Sequence[FalseAlarms], needed: Sequence[Efficiency], judgements: Mapping[str, str]) -> str:
    """Returns all tables."""
    rates = [
        (one.estimator, one.target, f"{one.alarms} of {one.replications}")
        + (f"{one.low:.4f} to {one.high:.4f}", one.judgement)
        for one in alarms
    ]
    samples = [
        (one.estimator, one.target, _whole(one.n90), f"{_whole(one.low)} to {_whole(one.high)}")
        + (_whole(one.optimum), f"{one.ratio:.2f}", _whole(one.optimum_both))
        for one in needed
    ]
    head = "estimator | broken target | n for 90 % | 95 % interval | best test | ratio | both orders"
    parts = (
        markdown("estimator | correct target | refuted | rate | judgement", rates),
        markdown(head, samples),
        markdown("estimator | judgement", judgements.items()),
    )
    return "\n\n".join(parts)


def _whole(value: float) -> str:
    return whole(value) if value < math.inf else "∞"


if __name__ == "__main__":
    sys.exit(main())
