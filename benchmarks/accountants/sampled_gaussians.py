"""ε of Poisson-sampled Gaussian noise over a grid of rates, noise, steps and δ, compared with independent references.

    python -m benchmarks.accountants.sampled_gaussians [--only PATTERN] [--workers N] [--kept] [--write]

Every cell is computed in a fresh process, cold, beside dp-accounting's PLD accountant, and compared with
``sampled_reference.py``. Later runs resume from finished cells as long as the sources of the accountant are the same;
``--kept`` shows what is finished. ``--write`` puts the table into docs/benchmarks-accounting.md.
"""

from __future__ import annotations

import fnmatch
import math
import random
import statistics
import sys
from functools import cache
from importlib import import_module

from attrs import asdict, frozen

from benchmarks.accountants.page import SAMPLED
from benchmarks.accountants.sampled_reference import ACCURACY, composed, delta_at_zero, one_step
from benchmarks.frame import DOCS, Cells, Result, apart, arguments, digest, markdown

RATES = tuple(10.0**-k for k in range(8, 0, -1))
SIGMAS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEPS = (1, 10, 1000, 10**6)
DELTAS = (1e-5, 1e-8, 1e-12, 1e-15, 1e-20)
RELATIVE, ABSOLUTE, SECONDS = 1e-5, 1e-9, 2.0
_LIMIT = 10  # CPU seconds of one computation
_PATIENCE = 60  # the same of a reference
_MEMORY = 6 * 2**30


@frozen
class Cell:
    """One cell of the grid."""

    q: float
    sigma: float
    steps: int
    delta: float

    @property
    def name(self) -> str:
        return f"q={self.q:.0e} σ={self.sigma:g} ×{self.steps:.0e} δ={self.delta:.0e}"

    def is_free(self) -> bool:
        """Whether ε is 0: δ is at least the number of steps times the total variation distance of one."""
        return self.delta >= self.steps * self.q * math.erf(1 / self.sigma / math.sqrt(8))


def cells() -> list[Cell]:
    """All cells that are not free, in an order such that a part of them is like the whole."""
    found = [Cell(q, s, n, d) for q in RATES for s in SIGMAS for n in STEPS for d in DELTAS]
    found = [cell for cell in found if not cell.is_free()]
    random.Random(0).shuffle(found)
    return found


def _ours(cell: Cell) -> Result:
    import hockeystick as hs

    event = hs.compose((hs.events.PoissonSampled(cell.q, hs.events.Gaussian(cell.sigma)), cell.steps))
    found = hs.epsilon(event, cell.delta)
    return {"value": found.upper, "method": found.method}


def _peer(cell: Cell) -> Result:
    import dp_accounting as d

    event = d.SelfComposedDpEvent(d.PoissonSampledDpEvent(cell.q, d.GaussianDpEvent(cell.sigma)), cell.steps)
    return {"value": float(d.pld.PLDAccountant().compose(event).get_epsilon(cell.delta))}


def _reference(cell: Cell, near: float) -> Result:
    """The removal's ε, and the addition's too where it may be the larger one; of ε = 0 whether δ(0) says so."""
    if cell.steps == 1:
        return {"value": one_step(cell.q, cell.sigma, cell.delta), "error": 1e-14}
    if near == 0.0:  # δ(0) is the total variation distance, which is that of the addition, too
        least = delta_at_zero(cell.q, cell.sigma, cell.steps, cell.delta)
        return {"value": 0.0, "error": 0.0, "delta": least} if least <= cell.delta * (1 + 1e-3) else {"error": least}
    value, error = composed(cell.q, cell.sigma, cell.steps, cell.delta, near)
    if -cell.steps * math.log1p(-cell.q) > value:
        try:
            other, other_error = composed(cell.q, cell.sigma, cell.steps, cell.delta, min(near, value), "addition")
        except (ArithmeticError, ValueError):
            return {"value": value, "error": error, "one_way": True}
        value, error = max((value, error), (other, other_error))
    return {"value": value, "error": error}


@cache
def _warm_up() -> None:
    """Imports and builds what each process needs once."""
    for compute in (_ours, _peer):
        compute(Cell(0.02, 1.5, 3, 1e-5))
    import_module("hockeystick.accounting.engines.best_bound")._epsilon.cache_clear()


def run(q: float, sigma: float, steps: int, delta: float) -> Result:
    """Computes one cell."""
    _warm_up()
    cell, limits = Cell(q, sigma, steps, delta), {"seconds": _LIMIT, "memory": _MEMORY}
    ours = apart(lambda: _ours(cell), **limits)
    near = ours.get("value", 1.0)
    patient = {"seconds": _PATIENCE, "memory": _MEMORY}
    reference = apart(lambda: _reference(cell, near), **patient) if math.isfinite(near) else {"error": "no start"}
    return {"cell": asdict(cell), "ours": ours, "reference": reference, "peer": apart(lambda: _peer(cell), **limits)}


def _excess(result: Result, who: str) -> float | None:
    """Returns the relative excess over the reference; None where a value is missing."""
    if "value" not in result[who] or "value" not in result["reference"]:
        return None
    truth = result["reference"]["value"]
    if truth == 0.0:
        return 0.0 if result[who]["value"] == 0.0 else math.inf
    return float(result[who]["value"] / truth - 1)


def _is_below(result: Result, who: str) -> bool:
    excess = _excess(result, who)
    return excess is not None and excess < -max(ACCURACY / 10, 3 * result["reference"]["error"])


def _misses(result: Result) -> list[str]:
    """Returns the aims that a cell misses."""
    excess, found = _excess(result, "ours"), []
    if excess is None:
        return ["no reference" if "value" in result["ours"] else "no value"]
    if _is_below(result, "ours"):
        found.append("below the reference")
    if excess > RELATIVE and excess * result["reference"]["value"] > ABSOLUTE:
        found.append(f"excess {excess:.1e}")
    if result["ours"]["cpu"] > SECONDS:
        found.append(f"{result['ours']['cpu']:.1f} s")
    return found


def _line(name: str, results: list[Result]) -> str:
    def share(who: str) -> str:
        known = [x for r in results if (x := _excess(r, who)) is not None]
        finite = [x for x in known if math.isfinite(x)]
        below = sum(_is_below(r, who) for r in results)
        worst = f"{max(finite):.1e}" if finite else "–"
        endless = len(results) - len([r for r in results if math.isfinite(r[who].get("value", math.inf))])
        return f"{statistics.median(known):.1e} | {worst} | {below} | {endless}" if known else "– | – | – | –"

    seconds = [r["ours"]["cpu"] for r in results if "cpu" in r["ours"]] or [0.0]
    peer = [r["peer"]["cpu"] for r in results if "cpu" in r["peer"]] or [0.0]
    missed = sum(bool(_misses(r)) for r in results)
    times = f"{statistics.median(seconds):.2f} | {max(seconds):.2f}"
    ours, theirs = share("ours"), f"{share('peer')} | {statistics.median(peer):.2f}"
    return f"| {name} | {len(results)} | {missed} | {ours} | {times} | {theirs} |"


def section(results: list[Result], total: int) -> str:
    """Returns the section of the page."""
    head = (
        "| q, steps | cells | miss the aim | excess: median | largest | below | none | CPU s: median | largest "
        "| dp-accounting: median | largest | below | none | CPU s: median |"
    )
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for q in RATES:
        for steps in STEPS:
            rows = [r for r in results if r["cell"]["q"] == q and r["cell"]["steps"] == steps]
            if rows:
                lines.append(_line(f"{q:.0e} ×{steps:.0e}", rows))
    lines.append(_line("all", results))
    known = [r for r in results if _excess(r, "ours") is not None]
    loosest = sorted(known, key=lambda r: -min(_excess(r, "ours") or 0.0, 1e9))[:3]
    slowest = sorted((r for r in results if "cpu" in r["ours"]), key=lambda r: -r["ours"]["cpu"])[:3]
    missing = [r for r in results if _misses(r)]
    text = [
        SAMPLED,
        "",
        "## Poisson-sampled Gaussians at small rates",
        "",
        "Written by `python -m benchmarks.accountants.sampled_gaussians --write`; edit that instead.",
        "",
        "The table has the ε of Gaussian noise σ on Poisson samples of rate q, under add-or-remove-one: q from",
        "1e-8 to 0.1, σ from 0.5 to 10, 1 to 10⁶ steps, δ from 1e-5 to 1e-20. Cells with ε = 0 are left out;",
        f"there δ is at least the total variation distance of all steps. {len(results)} of {total} cells were run.",
        "The reference for one step is a closed form in 50 digits. For more steps it is a Fourier integral that",
        "shares no code with the package, with a relative error of about 1e-6. *Excess* is relative to the",
        "reference. *Below* counts values that are smaller by more than its error, and *none* those without a",
        f"finite ε. A cell misses the aim if it is below, has an excess above {RELATIVE:.0e} and {ABSOLUTE:.0e},",
        f"takes more than {SECONDS:g} CPU seconds (cold, without imports, on a shared machine), or has no",
        "reference. dp-accounting's PLD accountant ran with its default grid of 1e-4, in the same run.",
        "",
        *lines,
        "",
        "The three loosest cells: " + "; ".join(_worst(r) for r in loosest) + ".",
        "The three slowest: " + "; ".join(_worst(r) for r in slowest) + ".",
        "",
    ]
    if missing:
        order = sorted(
            missing, key=lambda r: (r["cell"]["q"], r["cell"]["steps"], r["cell"]["sigma"], -r["cell"]["delta"])
        )
        table = [
            (Cell(**r["cell"]).name, f"{r['ours'].get('value', math.nan):.9g}", ", ".join(_misses(r)))
            + (f"{r['peer'].get('value', math.nan):.6g}",)
            for r in order
        ]
        text += [
            f"The {len(missing)} cells that miss the aim:",
            "",
            markdown("cell | ε | why | dp-accounting", table),
            "",
        ]
    return "\n".join(text)


def _worst(result: Result) -> str:
    found = result["ours"]
    return (
        f"{Cell(**result['cell']).name} (excess {_excess(result, 'ours') or 0.0:.1e}, "
        f"{found['cpu']:.1f} s, {found['method']})"
    )


def main() -> int:
    """Runs the cells that are not finished, and shows all of them."""
    page = DOCS / "benchmarks-accounting.md"
    parser = arguments(__doc__ or "", only="cells whose name matches this pattern", page=page.name)
    options = parser.parse_args()
    file = options.work / "sampled_gaussians.jsonl"
    kept = Cells(file, digest("accounting", "benchmarks/accountants/sampled_reference.py"), False, options.workers)
    wanted = [c for c in cells() if not options.only or fnmatch.fnmatch(c.name, options.only)]
    if options.kept:
        wanted = [cell for cell in wanted if kept.knows(asdict(cell), run)]
    results = kept.all([asdict(cell) for cell in wanted], run, "cells")
    text = section(results, len(cells()))
    print(text)
    if options.write:
        before = page.read_text(encoding="utf-8").split(SAMPLED)[0].rstrip("\n")
        page.write_text(f"{before}\n\n{text}", encoding="utf-8")
    return int(any(_misses(r) for r in results))


if __name__ == "__main__":
    # By its own name, as processes that run cells can't import __main__.
    from benchmarks.accountants import sampled_gaussians

    sys.exit(sampled_gaussians.main())
