"""False alarms of every bound of the package, on targets whose claim is exactly true.

    python -m benchmarks.auditors.calibration [--audits 100000] [--only NAME] [--workers 2] [--write] [--kept]

A claim that holds with equality may be refuted, or a lower bound on epsilon lie above it, in a share alpha of audits at
most. Every bound is tried on continuous, discrete, mixed and vector-valued targets, at small and large epsilon, with
and without delta (:mod:`benchmarks.auditors.targets`), from few outputs each: bounds are exact at any number,
and what a small one hides of a false slope or a forgotten correction shows in many audits. Pieces of audits are kept as
they come, so that a run goes on where an earlier one stopped; every bound gets its pieces in turn from all targets.
``--only NAME --write`` replaces the bound's row of the page alone.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from attrs import evolve, frozen

from benchmarks.auditors.estimators import Answer, Estimate, Estimator, Rng, Samples, estimator, one_run, whole_audit
from benchmarks.auditors.rating import measure_false_alarms
from benchmarks.auditors.sequential import SEQUENTIAL
from benchmarks.auditors.targets import AuditorTarget, gaussian_mu, laplace, tight_targets
from benchmarks.frame import DOCS, Cells, Result, arguments, digest
from hockeystick.audits import Claim
from hockeystick.audits.bounds.both_orders import both_frontier, toss
from hockeystick.audits.bounds.two_counts import clopper_pearson
from hockeystick.audits.bounds.whole_curve import cell_curve_bounds
from hockeystick.audits.sequential.evidence_ledger import EvidenceLedger
from hockeystick.audits.targets.recorded import Recorded

PAGE = DOCS / "benchmarks-audit-calibration.md"
ALPHA = 0.05
PIECE = 250  # audits that are kept together
FAMILY = 0.999  # confidence that no valid bound is called invalid for any of its targets

_RATED = tuple(f"benchmarks/auditors/{part}.py" for part in ("rating", "targets", "estimators"))
_MEASURED = (*_RATED, "audits/targets/recorded.py")
_ONE_RUN = (*_MEASURED, *(f"audits/one_run/{part}.py" for part in ("one_run", "right_guesses", "model_based")))
_BETS = (*_MEASURED, *SEQUENTIAL, "audits/sequential/evidence_ledger.py")
_ALL = (*_RATED, "audits/fixed_sample.py", "audits/drawing/draws.py", "audits/targets/calling.py")
_ALL += tuple(f"audits/{folder}" for folder in ("attacks", "bounds", "claims", "outputs"))
"""The sources that the outcome of an audit of a fixed sample depends on."""


@frozen
class Bound:
    """A bound to be calibrated.

    Attributes:
      name: unique.
      rates: gives the estimator for a target.
      samples: outputs of each data set in each audit.
      files: that its answers depend on.
      targets: gives those it is tried on.
      share: of the audits asked for, where they take long.
      part: of alpha that its level is.
    """

    name: str
    rates: Callable[[AuditorTarget], Estimator]
    samples: int
    files: tuple[str, ...] = _ALL
    targets: Callable[[], Iterable[AuditorTarget]] = tight_targets
    share: float = 1.0
    part: float = 1.0


class Told(Recorded):
    """Outputs that decrease in their likelihood ratio."""

    def log_likelihood_ratio(self, outputs: Any, d0: object, d1: object) -> Any:
        return -np.asarray(outputs)


def two_events(target: AuditorTarget) -> tuple[float, float]:
    """Returns (low, high): a target's best event is {output <= low}, its mirror image {output >= high, and > low}."""
    centre = 0.0 if target.name.startswith("vector") else 1.0
    if target.name.startswith("gaussian"):
        centre = gaussian_mu(target.claim.epsilon, target.claim.delta)
    return target.event, centre - target.event


def mirrored(target: AuditorTarget) -> Estimate:
    """Both orders at once, of two events that are given."""
    low, high = two_events(target)

    def estimate(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
        counts = np.array([[np.sum(side <= low), np.sum((side >= high) & (side > low))] for side in (s0, s1)])
        slope = math.exp(target.point[0])
        region = both_frontier(toss(counts, len(s0), rng), slope=slope, alpha=alpha)
        return any(region.refutes(*point) for point in claim.points), region.epsilon(claim.delta)

    return estimate


def fixed_cells(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng, *, pilot: bool) -> Answer:
    """Bounds on the whole curve from counts of cells, which the first quarter of the outputs chose."""
    first = len(s0) // 4
    cuts = np.unique(np.quantile(np.concatenate([s0[:first], s1[:first]]), np.linspace(0.1, 0.9, 9)))
    cell = [np.searchsorted(cuts, side, side="right") for side in (s0, s1)]
    both = [
        np.stack([np.bincount(side[part], minlength=len(cuts) + 1) for side in cell])
        for part in (slice(first), slice(first, None))
    ]
    found = cell_curve_bounds(both[1], both[0] if pilot else None, confidence=1 - alpha)
    return found.refutes(claim), found.epsilon(claim.delta)


def kept(s0: Samples, s1: Samples, claim: Claim, alpha: float, rng: Rng) -> Answer:
    """The evidence ledger: three runs of one key, whose event is given."""
    target, runs = Recorded(s0, s1), 3
    with tempfile.TemporaryDirectory() as folder:
        ledger = EvidenceLedger(f"{folder}/evidence.db", alpha=alpha)
        for seed in range(runs):
            found = ledger.audit("key", target, claim=claim, samples=len(s0) // runs, rng=seed, events=np.asarray)
            if found.refuted:
                return True, found.epsilon_lower
    return False, found.epsilon_lower


def vectors() -> tuple[AuditorTarget, ...]:
    """Targets with outputs of several numbers, each of (1, 0): Laplace noise, three bits, a bit beside a number."""
    third, half = 1 / 3, 0.5
    lie, half_lie = 1 / (1 + math.exp(third)), 1 / (1 + math.exp(half))

    def laplaces(rng: Rng, n: int) -> tuple[Any, Any]:
        noise = np.round(rng.laplace(scale=1 / third, size=(2, n, 3)) * 2**20) / 2**20
        return noise[0], 1 + noise[1]

    def bits(rng: Rng, n: int) -> tuple[Any, Any]:
        lies = rng.random((2, n, 3)) < lie
        return lies[0].astype(int), 1 - lies[1].astype(int)

    def beside(rng: Rng, n: int) -> tuple[Any, Any]:
        noise = np.round(rng.laplace(scale=1 / half, size=(2, n)) * 2**20) / 2**20
        lies = (rng.random((2, n)) < half_lie).astype(float)
        return np.column_stack([noise[0], lies[0]]), np.column_stack([1 + noise[1], 1 - lies[1]])

    like = laplace(1.0)  # the other fields of a target name its event, which these audits do not get
    draws = {"three Laplace 1/3": laplaces, "three bits 1/3": bits, "Laplace and a bit 1/2": beside}
    return tuple(evolve(like, name=name, draw=draw) for name, draw in draws.items())


def _responses(rng: Rng, n: int) -> tuple[list[list[str]], list[list[str]]]:
    """Randomised response on four words, of (1, 0), as the second of four words; the others are any of twenty."""
    sides = []
    for truth in (0, 1):
        told = np.where(rng.random(n) < 3 / (3 + math.e), (truth + rng.integers(1, 4, size=n)) % 4, truth)
        words = rng.integers(4, 24, size=(n, 4))
        words[:, 1] = told
        sides.append(np.array([f"w{i}" for i in range(24)])[words].tolist())
    return sides[0], sides[1]


def _with_words(**forms: Callable[[list[str], Rng], Any]) -> tuple[AuditorTarget, ...]:
    like = laplace(1.0)  # the other fields of a target name its event, which these audits do not get

    def made(form: Callable[[list[str], Rng], Any]) -> Callable[[Rng, int], tuple[Any, Any]]:
        def draw(rng: Rng, n: int) -> tuple[Any, Any]:
            first, second = ([form(words, rng) for words in side] for side in _responses(rng, n))
            return first, second

        return draw

    return tuple(evolve(like, name=name.replace("_", " "), draw=made(form)) for name, form in forms.items())


def texts() -> tuple[AuditorTarget, ...]:
    """Targets with outputs of words, each of (1, 0): a response among three other words, as a list and as a text."""
    return _with_words(
        list_of_words=lambda words, _: words,
        text=lambda words, rng: f"{' '.join(words)}, {rng.integers(1000)}",
    )


def tables() -> tuple[AuditorTarget, ...]:
    """Targets with tables as outputs, each of (1, 0): a response in a column, beside a column of numbers."""
    return _with_words(
        list_of_rows=lambda words, rng: list(zip(words, rng.integers(90, size=4).tolist(), strict=True)),
        frame=lambda words, rng: pyarrow.table({"word": words, "n": rng.integers(90, size=4)}),
    )


def bounds() -> tuple[Bound, ...]:
    """Returns all of them, the fast ones first."""

    def shipped(name: str, samples: int, **more: Any) -> Bound:
        found = estimator(name)
        return Bound(name, lambda _: found, samples, **more)

    def own(name: str, estimate: Estimate, samples: int, **more: Any) -> Bound:
        reads = more.pop("reads", "outputs")
        return Bound(name, lambda _: Estimator(name, estimate, reads=reads), samples, **more)

    return (
        shipped("event given, rectangle", 100),
        shipped("event given", 100),
        Bound("both orders, events given", lambda target: Estimator("both orders", mirrored(target)), 100),
        shipped("curve, band", 100),
        own("curve, band of cells", partial(fixed_cells, pilot=False), 100),
        own("one run, numbers given", one_run((0.25, 0.25)), 100, files=_ONE_RUN),
        own("one run, grid", one_run("grid"), 100, files=_ONE_RUN),
        shipped("one run", 100, files=_ONE_RUN),
        own("audit, event given", whole_audit(statistic=np.asarray), 100, reads="event"),
        own("audit, statistic given", whole_audit(statistic=np.asarray), 100),
        own("audit, likelihood ratio", whole_audit(Told, statistic="likelihood ratio"), 100),
        own("curve, joint of cells", partial(fixed_cells, pilot=True), 100),
        shipped("curve, joint", 100),
        shipped("audit", 100),
        own("audit, bits too", whole_audit(bits=True), 100),
        shipped("sequential, event given", 100, files=_BETS),
        own("evidence ledger, event given", kept, 90, reads="event", files=_BETS, share=0.5, part=6 / math.pi**2),
        Bound("audit of vectors", lambda _: estimator("audit"), 100, targets=vectors, share=0.5),
        Bound("audit of texts", lambda _: estimator("audit"), 60, targets=texts, share=0.2),
        Bound("audit of tables", lambda _: estimator("audit"), 40, targets=tables, share=0.2),
        shipped("sequential", 40, files=_BETS, share=0.2),
    )


def piece(bound: Bound, /, *, target: str, alpha: float, samples: int, audits: int, piece: int, **_: Any) -> Result:
    """Some audits of one target."""
    chosen = next(one for one in bound.targets() if one.name == target)
    found = measure_false_alarms(
        bound.rates(chosen), chosen, alpha=alpha, samples=samples, replications=audits, seed=piece
    )
    return {"alarms": found.alarms}


@frozen
class Rate:
    """False alarms among some audits."""

    alarms: int
    audits: int

    @property
    def rate(self) -> float:
        """Their share."""
        return self.alarms / self.audits

    @property
    def most(self) -> float:
        """The exact upper limit of the rate, at 99 %."""
        return float(clopper_pearson(self.alarms, self.audits, confidence=0.99, side="upper")[1])

    def surely_above(self, level: float, family: int) -> bool:
        """Whether the rate is above the level, allowing for a family of such questions."""
        sure = 1 - (1 - FAMILY) / family
        return float(clopper_pearson(self.alarms, self.audits, confidence=sure, side="lower")[0]) > level


def calibrated(
    bound: Bound, audits: int, work: Path | None, *, kept: bool = False, workers: int = 1
) -> dict[str, Rate]:
    """Returns what was found of each target; with ``kept`` of what was run before, which may be less."""
    cells = Cells(work, digest(*bound.files), quiet=not sys.stderr.isatty(), workers=workers)
    targets = tuple(bound.targets())
    run = partial(piece, bound)
    fixed = {"bound": bound.name, "alpha": ALPHA, "samples": bound.samples, "audits": PIECE}
    pieces = range(max(1, math.ceil(audits * bound.share / len(targets) / PIECE)))
    keys = [{**fixed, "target": target.name, "piece": number} for number in pieces for target in targets]
    if kept:
        keys = [key for key in keys if cells.knows(key, run)]
    found: dict[str, list[int]] = {}
    for key, result in zip(keys, cells.all(keys, run, bound.name), strict=True):
        found.setdefault(str(key["target"]), []).append(result["alarms"])
    return {name: Rate(sum(alarms), len(alarms) * PIECE) for name, alarms in found.items()}


def row(bound: Bound, found: dict[str, Rate], family: int) -> tuple[bool, str]:
    """Returns whether the bound is not known to exceed its level, and its line of the table."""
    if not found:
        return True, f"| {bound.name} | {bound.samples} | 0 | 0 |{' |' * 7} not run |"
    level = ALPHA * bound.part
    every = Rate(sum(one.alarms for one in found.values()), sum(one.audits for one in found.values()))
    worst = max(found, key=lambda name: found[name].rate)
    above = any(one.surely_above(level, family) for one in found.values())
    judged = "NO" if above else "yes" if found[worst].rate <= level else "as far as can be told"
    return not above, (
        f"| {bound.name} | {bound.samples} | {len(found)} | {every.audits:,} | {every.alarms:,} | {every.rate:.4f} | "
        f"{every.most:.4f} | {worst} | {found[worst].rate:.4f} | {found[worst].most:.4f} | {level:.4f} | {judged} |"
    )


def page(every: tuple[Bound, ...], lines: dict[str, str], standing: str) -> str:
    """Returns the page with the lines of some bounds; those of the others are what they are on the ``standing`` one."""
    before = {line.split("|")[1].strip(): line for line in standing.splitlines() if line.startswith("| ")}
    table = [lines.get(bound.name) or before.get(bound.name) or row(bound, {}, 1)[1] for bound in every]
    kept = sum(line.endswith(("| yes |", "| as far as can be told |")) for line in table)
    return "\n".join([TEXT.format(kept=f"**{kept} of {len(table)} bounds keep their level**"), TABLE, *table]) + "\n"


HEAD = "bound", "outputs", "targets", "audits", "false alarms", "rate", "at most", "worst target", "rate", "at most"
TABLE = f"| {' | '.join((*HEAD, 'level', 'kept'))} |\n{'|---' * (len(HEAD) + 2)}|"
TEXT = """# Audits: false alarms of every bound

{kept} in audits of correct mechanisms whose claim holds with equality:
they refute true claims no more often than promised, as far as so many audits can tell.

Written by `python -m benchmarks.auditors.calibration --write`; edit that instead.

*Outputs* is the number of outputs from each data set. A false alarm is a refutation, or a lower bound on ε above the
truth. *At most* is the exact upper confidence limit of a rate at 99 %, first for all targets together, then for the
target with the most frequent alarms. The level is *kept* if no target's rate is above it. "As far as can be told" means
that a rate is above it, but chance explains the difference. NO means that chance does not explain it, at 99.9 % for all
rates of the table together. A bound whose rate equals its level on some target has an upper limit above the level.

The targets are Laplace noise with ε of 0.1, 1 and 4, geometric noise, randomised response, the same with a leak of δ,
Gaussian noise against a point and against its whole curve, a mixture of a number and a bit, and a sum of three losses.
For vectors they are three Laplace numbers, three bits, and a number beside a bit. For texts they are a response on four
words among three other words, as a list and as a text; for tables the same in a column, beside a column of numbers, as
a list of rows and as a data frame. A given event is the best one. A rate
far below the level does not make a bound invalid: few outputs take few values, and a bound that makes many statements
together is seldom at its level in one of them. Estimates that assume a model are not bounds and are not listed.
"""


def main() -> int:
    """Runs the command and returns its exit status: 1 if a level is not kept."""
    parser = arguments(__doc__.split("\n")[0], only="name of the one bound to calibrate", page=PAGE.name)
    parser.add_argument("--audits", type=int, default=100_000, help="of each bound (default: %(default)s)")
    asked = parser.parse_args()
    every, file = bounds(), asked.work / "audit_calibration.jsonl"
    if asked.only and asked.only not in (names := [bound.name for bound in every]):
        parser.error(f"--only {asked.only}: no bound has that name; there are {', '.join(names)}")
    family = sum(len(tuple(bound.targets())) for bound in every)
    lines, held = {}, True
    print(TABLE, flush=True)
    for bound in every:
        if asked.only in ("", bound.name):
            found = calibrated(bound, asked.audits, file, kept=asked.kept, workers=asked.workers)
            holds, lines[bound.name] = row(bound, found, family)
            held &= holds
            print(lines[bound.name], flush=True)
    if asked.write:
        standing = PAGE.read_text(encoding="utf-8") if asked.only and PAGE.exists() else ""
        PAGE.write_text(page(every, lines, standing), encoding="utf-8")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
