"""Rates accountants: their tightness, whether their ε is ever too small, and their time.

    python -m benchmarks.accountants.rate [--accountant NAME|MODULE:CALLABLE]... [--quick] [--json FILE]

Each accountant computes the ε of compositions whose ε is known: by closed forms (Gaussian and Laplace noise, single
samples of a small rate), by exact laws (randomised response, discrete Laplace noise), or to some parts in 1e8 at worst
(samples with Gaussian noise). One ε below the truth makes it INVALID, and the exit status 1. Refusals do not count
against it. By default ours and the two of dp-accounting are rated. An accountant of yours is a function
``epsilon(event, delta)`` of a ``dp_accounting.DpEvent`` and a δ in [0, 1). Events are for adding or removing one
record; randomised response, which has no such meaning, is for replacing one.

Accountants of other libraries need not be sound. In dp-accounting 0.6.0 the one for privacy loss distributions is
INVALID: it counts a composition of randomised responses once, and loses 4e-5 of ε in 10,000 Gaussian steps that are
sampled with probability 1, at δ = 1e-10.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import asdict

from benchmarks.accountants.compositions import KnownComposition, known_compositions
from benchmarks.accountants.rating import ACCOUNTANTS, TOLERANCE, Answer, RatedAccountant, accountant, judge, rate
from benchmarks.frame import markdown
from hockeystick._files.named_callables import load_target
from hockeystick._report.results import to_json
from hockeystick.accounting import HockeystickError
from hockeystick.accounting.numerics import rounded_text

_RATIOS = ("ratio", "ratio_most", "ratio_of_lower", "judgement")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accountants.rate")
    parser.add_argument(
        "--accountant", action="append", default=[], metavar="NAME|MODULE:CALLABLE", help="an accountant; repeatable"
    )
    parser.add_argument("--quick", action="store_true", help="a few compositions only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for all answers")
    options = parser.parse_args(arguments)
    compositions = [one for one in known_compositions() if one.quick or not options.quick]
    try:
        rated = [
            RatedAccountant(name, load_target(name)) if ":" in name else accountant(name)
            for name in dict.fromkeys(options.accountant)
        ] or ACCOUNTANTS
        answers = list(rate(rated, compositions))
    except HockeystickError as error:
        parser.error(str(error))
    judgements = {one.name: judge(answer for answer in answers if answer.accountant == one.name) for one in rated}
    print(page(compositions, answers, judgements))
    if options.json:
        rows = [{**asdict(one), **{name: getattr(one, name) for name in _RATIOS}} for one in answers]
        options.json.write_text(to_json({"judgements": judgements, "answers": rows}), encoding="utf-8")
    return int("INVALID" in judgements.values())


def page(compositions: Sequence[KnownComposition], answers: Sequence[Answer], judgements: Mapping[str, str]) -> str:
    """Returns all tables. Less than the tolerance is round-off, and shown as an excess of 0."""
    truths = [
        (one.name, f"{rounded_text.lower(one.truth[0], 9)} to {rounded_text.upper(one.truth[1], 9)}", one.source)
        for one in compositions
    ]
    rows = [
        (one.accountant, one.composition, one.refused if one.epsilon is None else rounded_text.upper(one.epsilon, 6))
        + (_excess(one.ratio_most), _excess(one.ratio_of_lower), f"{1e3 * one.seconds:.2g} ms", one.judgement)
        for one in answers
    ]
    parts = (
        markdown("composition | true ε | known by", truths),
        markdown("accountant | composition | ε ≤ | relative excess | its lower end | CPU time | judgement", rows),
        markdown("accountant | judgement", judgements.items()),
    )
    return "\n\n".join(parts)


def _excess(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return "0" if abs(ratio - 1.0) <= TOLERANCE else f"{ratio - 1.0:+.1e}"


if __name__ == "__main__":
    sys.exit(main())
