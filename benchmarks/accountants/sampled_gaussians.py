"""ε of Poisson-sampled Gaussian noise over a grid of rates, noise, steps and δ, held to references of its own.

    python -m benchmarks.accountants.sampled_gaussians [--only PATTERN] [--workers N] [--kept] [--write]

Every cell is computed in a fresh process, cold, beside dp-accounting's PLD accountant, and compared with
``sampled_reference.py``. What is done is appended to a file in the folder of ``--work``, under a digest of the
accountant's sources, and a second run goes on from there; ``--kept`` shows what is there. ``--write`` puts the table
into docs/benchmarks-accounting.md.
"""

from __future__ import annotations

import fnmatch
import json
import math
import os
import random
import resource
import statistics
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict, frozen

from benchmarks.accountants.page import SAMPLED
from benchmarks.accountants.sampled_reference import ACCURACY, composed, delta_at_zero, one_step
from benchmarks.table import DOCS, digest, resumable

RATES = tuple(10.0**-k for k in range(8, 0, -1))
SIGMAS = (0.5, 1.0, 2.0, 5.0, 10.0)
STEPS = (1, 10, 1000, 10**6)
DELTAS = (1e-5, 1e-8, 1e-12, 1e-15, 1e-20)
RELATIVE, ABSOLUTE, SECONDS = 1e-5, 1e-9, 2.0
_LIMIT = 10  # CPU seconds of one computation
_PATIENCE = 60  # the same of a reference
_MEMORY = 6 * 2**30

Result = dict[str, Any]


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
        return {"value": 0.0, "error": 0.0, "delta": least} if least <= cell.delta * (1 + 1e-3) else {"failed": least}
    value, error = composed(cell.q, cell.sigma, cell.steps, cell.delta, near)
    if -cell.steps * math.log1p(-cell.q) > value:
        try:
            other, other_error = composed(cell.q, cell.sigma, cell.steps, cell.delta, min(near, value), "addition")
        except (ArithmeticError, ValueError):
            return {"value": value, "error": error, "one_way": True}
        value, error = max((value, error), (other, other_error))
    return {"value": value, "error": error}


def _apart(compute: Any, *arguments: Any, limit: int = _LIMIT) -> Result:
    """What ``compute`` returns in a process of its own, with its CPU seconds."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.close(reader)
        last = int(time.process_time()) + limit
        resource.setrlimit(resource.RLIMIT_CPU, (last, last + 5))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        warnings.simplefilter("ignore")
        started = time.process_time()
        try:
            with np.errstate(all="ignore"):
                found = compute(*arguments)
            found["cpu"] = time.process_time() - started
        except BaseException as error:  # peers fail in many ways
            found = {"failed": f"{type(error).__name__}: {error}"[:120]}
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return dict(json.loads(text)) if text else {"failed": f"over {limit} s or its memory"}


def run(cell: Cell) -> Result:
    """Computes one cell."""
    ours = _apart(_ours, cell)
    near = ours.get("value", 1.0)
    reference = _apart(_reference, cell, near, limit=_PATIENCE) if math.isfinite(near) else {"failed": "no start"}
    return {"cell": asdict(cell), "ours": ours, "reference": reference, "peer": _apart(_peer, cell)}


def _excess(result: Result, who: str) -> float | None:
    """By what part of the reference a value is above it; None where one of them is missing."""
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
    """What a cell lacks of the aim."""
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
        "ε of Gaussian noise σ on Poisson samples of rate q, add or remove one: q from 1e-8 to 0.1, σ from 0.5 to",
        "10, 1 to 10⁶ steps, δ from 1e-5 to 1e-20. Left out are cells in which ε is 0, as δ is at least the total",
        f"variation distance of all steps. {len(results)} of {total} cells were run. The reference is a closed form in",
        "50 digits for one step, and for more a Fourier integral that shares nothing with the package, good to about",
        "1e-6 of ε. *Excess* is relative to it; *below* counts values under it by more than its error, *none* those",
        "without a finite ε. A cell misses the aim if it is below, has an excess above",
        f"{RELATIVE:.0e} and {ABSOLUTE:.0e}, takes more than {SECONDS:g} CPU seconds (cold, without imports, on a",
        "shared machine), or has no reference. dp-accounting's PLD accountant ran with its default grid of 1e-4, in",
        "the same run.",
        "",
        *lines,
        "",
        "The three loosest cells: " + "; ".join(_worst(r) for r in loosest) + ".",
        "The three slowest: " + "; ".join(_worst(r) for r in slowest) + ".",
        "",
    ]
    if missing:
        text += [
            f"What misses the aim, {len(missing)} cells:",
            "",
            "| cell | ε | why | dp-accounting |",
            "|---|---|---|---|",
        ]
        order = sorted(
            missing, key=lambda r: (r["cell"]["q"], r["cell"]["steps"], r["cell"]["sigma"], -r["cell"]["delta"])
        )
        text += [
            f"| {Cell(**r['cell']).name} | {r['ours'].get('value', math.nan):.9g} | {', '.join(_misses(r))} "
            f"| {r['peer'].get('value', math.nan):.6g} |"
            for r in order
        ]
        text.append("")
    return "\n".join(text)


def _worst(result: Result) -> str:
    found = result["ours"]
    return (
        f"{Cell(**result['cell']).name} (excess {_excess(result, 'ours') or 0.0:.1e}, "
        f"{found['cpu']:.1f} s, {found['method']})"
    )


def main() -> int:
    """Runs what was not run yet, and shows it all."""
    page = DOCS / "benchmarks-accounting.md"
    parser = resumable(__doc__ or "", only="cells whose name matches this pattern", page=page)
    options = parser.parse_args()
    sources = sorted(str(f.relative_to(DOCS.parent)) for f in (DOCS.parent / "accounting").rglob("*.py"))
    kept = Path(options.work) / "sampled_gaussians.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    version = digest(*sources, "benchmarks/accountants/sampled_reference.py")
    done: dict[Cell, Result] = {}
    if kept.exists():
        entries = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
        done = {Cell(**e["cell"]): e for e in entries if e["sources"] == version}
    wanted = [c for c in cells() if not options.only or fnmatch.fnmatch(c.name, options.only)]
    left = [] if options.kept else [c for c in wanted if c not in done]
    _ours(Cell(0.02, 1.5, 3, 1e-5))
    _peer(Cell(0.02, 1.5, 3, 1e-5))  # imports, and what is built once
    from hockeystick.accounting.engines import best_bound

    best_bound._epsilon.cache_clear()
    with kept.open("a", encoding="utf-8") as out, ThreadPoolExecutor(options.workers) as pool:
        for future in as_completed([pool.submit(run, cell) for cell in left]):
            result = future.result()
            cell = Cell(**result["cell"])
            out.write(json.dumps({**result, "sources": version}) + "\n")
            out.flush()
            done[cell] = result
            print(f"{cell.name}: {_excess(result, 'ours')}, {result['ours']}", file=sys.stderr, flush=True)
    results = [done[cell] for cell in wanted if cell in done]
    text = section(results, len(cells()))
    print(text)
    if options.write:
        before = page.read_text(encoding="utf-8").split(SAMPLED)[0].rstrip("\n")
        page.write_text(f"{before}\n\n{text}", encoding="utf-8")
    return int(any(_misses(r) for r in results))


if __name__ == "__main__":
    sys.exit(main())
