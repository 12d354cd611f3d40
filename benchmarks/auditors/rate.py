"""Auditors audited: do they keep their level, and how many samples do they need?

    python -m benchmarks.auditors.rate [--estimator NAME|MODULE:CALLABLE]... [--quick] [--json FILE] [options]

Each estimator meets targets that are exactly as private as they claim: refuting more than a share ``--alpha`` of them
makes it INVALID, and the exit status 1. Then it meets targets that claim too little, and the samples at which it
refutes 90 % of them are set against what the best test needs. Without names all bounds of the package that assume
nothing are rated, which takes hours, with ``--quick`` minutes; an estimator of yours is a function ``estimate(samples0,
samples1, claim, alpha, rng) -> (refuted, epsilon_lower)`` (:mod:`benchmarks.auditors.estimators`). FILE gets each
measurement as it is finished, and the next run with the same settings goes on from there.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict

from benchmarks.auditors.estimators import ESTIMATORS, Estimator, estimator
from benchmarks.auditors.rating import Efficiency, FalseAlarms, Settings, from_dict, judge, rate, to_dict
from benchmarks.auditors.targets import broken_targets, tight_targets
from benchmarks.table import markdown_table
from hockeystick._files.named_callables import load_target
from hockeystick._files.result_files import write_atomically
from hockeystick._words.figures import whole
from hockeystick.accounting import HockeystickError, InvalidArgumentError

_QUICK_TIGHT = ("laplace 1", "randomised response 1", "leaky response (1, 0.05)", "gaussian curve (1, 0.01)")
_QUICK_BROKEN = ("laplace 1, true 2x", "leaky response (1, 0.05), true 1.5x")

Results = list[FalseAlarms | Efficiency]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.auditors.rate")
    parser.add_argument("--estimator", action="append", default=[], metavar="NAME|MODULE:CALLABLE", help="what to rate")
    parser.add_argument("--quick", action="store_true", help="fewer targets, and 300 replications")
    parser.add_argument("--alpha", type=float, default=0.05, help="the level (default: %(default)s)")
    parser.add_argument("--replications", type=int, help="audits for each rate (default: 2000; --quick: 300)")
    parser.add_argument("--samples", type=int, default=500, help="outputs of each data set (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what is measured, and where to go on from")
    options = parser.parse_args(arguments)
    replications = options.replications or (300 if options.quick else 2000)
    settings = Settings(options.alpha, options.samples, replications, options.seed)
    tight = [target for target in tight_targets() if not options.quick or target.name in _QUICK_TIGHT]
    broken = [target for target in broken_targets() if not options.quick or target.name in _QUICK_BROKEN]
    try:
        rated = [
            Estimator(name, load_target(name)) if ":" in name else estimator(name)
            for name in dict.fromkeys(options.estimator)
        ] or [one for one in ESTIMATORS if not one.assumes]
        about = {**asdict(settings), "targets": len(tight)}
        kept = _kept(options.json, about)
        for found in rate(rated, tight, broken, settings, finished=tuple(kept)):
            kept.append(found)
            if options.json:
                write_atomically(
                    options.json, json.dumps({"settings": about, "results": [to_dict(one) for one in kept]})
                )
            print(f"{found.estimator}: {found.target}", file=sys.stderr, flush=True)
    except HockeystickError as error:
        parser.error(str(error))
    names, targets = [one.name for one in rated], {one.name for one in (*tight, *broken)}
    asked = [one for one in kept if one.estimator in names and one.target in targets]
    alarms = [one for one in asked if isinstance(one, FalseAlarms)]
    judgements = {name: judge(one for one in alarms if one.estimator == name) for name in names}
    print(page(alarms, [one for one in asked if isinstance(one, Efficiency)], judgements))
    return int("INVALID" in judgements.values())


def _kept(path: Path | None, settings: dict[str, Any]) -> Results:
    """What an earlier run of these settings has finished."""
    if path is None or not path.exists():
        return []
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        results, same = [from_dict(one) for one in plain["results"]], plain["settings"] == settings
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(
            "--json", str(path), f"holds no measurements ({error})", "give another file"
        ) from None
    if not same:
        reason = f"is of a run with {plain['settings']}, not {settings}"
        raise InvalidArgumentError("--json", str(path), reason, "give another file")
    return results


def page(alarms: Sequence[FalseAlarms], needed: Sequence[Efficiency], judgements: Mapping[str, str]) -> str:
    """Returns all tables."""
    rates = [
        (
            one.estimator,
            one.target,
            f"{one.alarms} of {one.replications}",
            f"{one.low:.4f} to {one.high:.4f}",
            one.judgement,
        )
        for one in alarms
    ]
    samples = [
        (
            one.estimator,
            one.target,
            _whole(one.n90),
            f"{_whole(one.low)} to {_whole(one.high)}",
            _whole(one.optimum),
            f"{one.ratio:.2f}",
            _whole(one.optimum_both),
        )
        for one in needed
    ]
    head = ("estimator", "broken target", "n for 90 %", "95 % interval", "best test", "ratio", "both orders")
    parts = (
        markdown_table(("estimator", "correct target", "refuted", "rate", "judgement"), rates),
        markdown_table(head, samples),
        markdown_table(("estimator", "judgement"), judgements.items()),
    )
    return "\n\n".join(parts)


def _whole(value: float) -> str:
    return whole(value) if value < math.inf else "∞"


if __name__ == "__main__":
    sys.exit(main())
