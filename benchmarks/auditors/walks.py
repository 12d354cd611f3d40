"""Power and false alarms of coin walks, beside the test of two counts and the best test of both orders.

    python -m benchmarks.auditors.walks [--seconds 300] [--kept] [--write]

Pieces of audits are kept as they come, those of all rows in turn, so that a run goes on where an earlier one stopped.
The page says how many audits each figure rests on.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import frozen

from benchmarks.auditors.targets import laplace
from benchmarks.frame import DOCS, Cells, Result, arguments, digest, markdown
from hockeystick.accounting import DPSGD, Gaussian
from hockeystick.audits import Claim, audit
from hockeystick.audits.bounds.sample_limits import klinf
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.catalogue.every_case import select
from hockeystick.audits.claims.law_pairs import LawPair
from hockeystick.audits.fixed_sample import Method

PAGE = DOCS / "benchmarks-coin-walk.md"
ALPHA, PIECE = 0.05, 20
METHODS: tuple[Method, ...] = ("coin walk", "two counts")
_FILES = ("benchmarks/auditors/walks.py", "audits/walk", "audits/bounds/side_guesses.py", "audits/fixed_sample.py")

Draw = Callable[[Any, np.random.Generator, int], Any]


@frozen
class Setting:
    """A target, a claim, and the number of outputs of each data set; ``law`` gives the limit where it is known."""

    target: Any
    claim: Any
    samples: int
    neighbours: tuple[Any, Any] = (0.0, 1.0)
    law: LawPair | None = None
    most: int | None = None  # the number at which the power is to be 0.9


def noise(scale: float) -> Draw:
    """Laplace noise on a grid of 2^-20, so that audits see no more than real numbers show."""
    return lambda data, rng, runs: np.round((data + rng.laplace(0.0, scale, runs)) * 2**20) / 2**20


def bell(deviation: float) -> Draw:
    """Gaussian noise on the same grid."""
    return lambda data, rng, runs: np.round((data + rng.normal(0.0, deviation, runs)) * 2**20) / 2**20


def response(epsilon: float, delta: float) -> Draw:
    """Randomised response, with visible leaks."""

    def draw(data: float, rng: np.random.Generator, runs: int) -> Any:
        told = np.where(rng.random(runs) < 1 / (1 + math.exp(epsilon)), 1 - data, data)
        return np.where(rng.random(runs) < delta, 10 + data, told)

    return draw


def histogram(data: Any, rng: np.random.Generator, runs: int) -> Any:
    """A histogram of records that may be replaced, with the noise for those that may be added; epsilon is 2."""
    return np.round((data + rng.laplace(0.0, 1.0, (runs, len(data)))) * 2**20) / 2**20


def sgd(data: float, rng: np.random.Generator, runs: int) -> Any:
    """The noisy sums of four steps; the person's clipped gradient is in each with probability 1/2."""
    return data * (rng.random((runs, 4)) < 0.5) + rng.normal(0.0, 0.7, (runs, 4))


@lru_cache
def settings(kind: str) -> dict[str, Setting]:
    """Returns the settings of "power" (claims that are false) or "alarms" (claims that hold with equality)."""
    curve = Claim.of(Gaussian(1.0))
    if kind == "alarms":
        return {
            "Laplace, ε = 1": Setting(noise(1.0), Claim(1.0), 70),
            "randomised response, ε = 1": Setting(response(1.0, 0.0), Claim(1.0), 70),
            "the same with leaks, δ = 0.05": Setting(response(1.0, 0.05), Claim(1.0, 0.05), 70),
            "Gaussian noise, its curve": Setting(bell(1.0), curve, 70),
        }
    svt = select("zoo/svt-4@1")[0]
    found = {
        f"Laplace, claim 1, true {true}": Setting(
            noise(1 / true), Claim(1.0), samples, law=laplace(1.0, true).law, most=samples
        )
        for true, samples in ((2.0, 78), (1.5, 235), (1.1, 4200))
    }
    for factor, samples, most in ((0.5, 60, None), (0.7, 280, None), (0.9, 2900, 2900)):
        law = LawPair.gaussian(1 / factor, cells=400)
        found[f"Gaussian curve of μ = 1, σ × {factor}"] = Setting(bell(factor), curve, samples, law=law, most=most)
    found["sparse vector, form 4, claim 1"] = Setting(svt.target, svt.claim, 400, svt.neighbours)
    bins = np.array([3.0, 2.0, 4.0]), np.array([2.0, 3.0, 4.0])
    found["histogram with half of the noise, claim 1"] = Setting(histogram, Claim(1.0), 100, bins)
    steps = DPSGD(records=1000, batch=500, epochs=2).event(1.0)
    found["DP-SGD, 4 steps, rate 0.5, σ × 0.7"] = Setting(sgd, Claim.of(steps), 400)
    return found


def piece(kind: str, name: str, method: Method, piece: int) -> Result:
    """Some audits: how many refute."""
    one = settings(kind)[name]
    given: dict[str, Any] = {"claim": one.claim, "neighbours": one.neighbours, "confidence": 1 - ALPHA}
    refuted = [
        audit(one.target, samples=one.samples, rng=PIECE * piece + i, method=method, **given).refuted
        for i in range(PIECE)
    ]
    return {"refuted": sum(refuted)}


def keys(kind: str, number: int) -> list[dict[str, Any]]:
    """Returns the keys of the pieces of a number, for all rows."""
    methods = METHODS if kind == "power" else METHODS[:1]
    return [{"kind": kind, "name": name, "method": m, "piece": number} for name in settings(kind) for m in methods]


def counted(cells: Cells, kind: str, name: str, method: str) -> tuple[int, int]:
    """Returns the number of refutations and that of audits."""
    found = [key for i in range(1000) if cells.knows(key := dict(kind=kind, name=name, method=method, piece=i), piece)]
    return sum(cells.one(piece, **key)["refuted"] for key in found), PIECE * len(found)


def share(refuted: int, audits: int) -> str:
    """Returns a share with its interval at 95 %, in words."""
    if not audits:
        return "not run"
    low, high = (float(end) for end in clopper_pearson(refuted, audits, confidence=0.95))
    return f"{refuted / audits:.3f} ({low:.3f} to {high:.3f}; {audits})"


def page(cells: Cells) -> tuple[bool, str]:
    """Returns whether no figure contradicts a target or a level, and the page."""
    holds, rows, alarms = True, [], []
    for name, one in settings("power").items():
        known = [counted(cells, "power", name, method) for method in METHODS]
        limit = "" if one.law is None else f"{klinf(one.law, Claim.of(one.claim)).local(ALPHA):,.0f}"
        met = ""
        if one.most is not None and known[0][1]:
            high = float(clopper_pearson(*known[0], confidence=0.95)[1])
            met = "met" if known[0][0] >= 0.9 * known[0][1] else "as far as can be told" if high >= 0.9 else "NO"
            holds &= met != "NO"
        rows.append((name, f"{one.samples:,}", limit, *(share(*one) for one in known), met))
    for name, one in settings("alarms").items():
        refuted, audits = counted(cells, "alarms", name, METHODS[0])
        above = audits and float(clopper_pearson(refuted, audits, confidence=0.999, side="lower")[0]) > ALPHA
        holds &= not above
        alarms.append((name, str(one.samples), share(refuted, audits), "NO" if above else "yes"))
    power = markdown(("target", "outputs", "limit", *METHODS, "power 0.9"), rows)
    level = markdown(("target", "outputs", "false alarms", "within 0.05"), alarms)
    within = f"{sum(row[-1] == 'yes' for row in alarms)} of {len(alarms)}"
    return holds, TEXT.format(power=power, level=level, within=within)


TEXT = """# Audits: coin walks

**{within} levels are kept**: audits by coin walk refute true claims no more often than promised. Their power is about
that of two counts, with as many outputs.

Written by `python -m benchmarks.auditors.walks --write`; edit that instead.

A [coin walk](audits.md) draws each output from a data set that a fair coin picks, and guesses which one it was. This
page has the power of such audits at a level of 0.05, beside that of the test of two counts with as many outputs. Every
output counts, also those from which an audit learns. *Outputs* is their number from each data set, and *limit* the
number at which the best test of both orders would have a power of 0.9, to first order. Each share comes with its
interval at 95 % and the number of audits.

{power}

The next table has audits of correct mechanisms whose claims hold with equality, at a level of 0.05. A level is *within*
unless the share is above it by more than chance explains at 99.9 %.

{level}
"""


def main() -> int:
    """Runs the command and returns its exit status: 1 if a figure contradicts a target or a level."""
    parser = arguments(__doc__.split("\n")[0], page=PAGE.name)
    parser.add_argument("--seconds", type=float, default=300.0, help="CPU time to spend (default: %(default)s)")
    asked = parser.parse_args()
    cells = Cells(asked.work / "walks.jsonl", digest(*_FILES))
    started, number = time.process_time(), 0
    while time.process_time() - started < asked.seconds and number < 1000:
        for key in (*keys("power", number), *keys("alarms", number)):
            if time.process_time() - started < asked.seconds:
                cells.one(piece, **key)
        number += 1
    holds, text = page(cells)
    print(text)
    if asked.write:
        PAGE.write_text(text, encoding="utf-8")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
