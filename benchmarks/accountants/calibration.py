"""Calibration of noise, from one step to ten million and from sparse samples to dense ones, beside dp-accounting.

    python -m benchmarks.accountants.calibration [--only PART] [--write] [--kept]

Each cell runs in a process of its own under a limit of CPU time and memory, and is kept as it comes: a second call goes
on from there. dp-accounting's ``calibrate_dp_mechanism`` is given the same first guess, 1, and tolerance, 1e-6 of the
answer; its PLD accountant is asked first and, where that does not end within the limit, its Renyi accountant. CPU
seconds are without imports.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import Any

import dp_accounting
from attrs import frozen
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from benchmarks.experiments.common import Cells, Result
from benchmarks.table import DOCS, ROOT, digest, resumable
from hockeystick.accounting import EpsilonDelta, Gaussian, HockeystickError, PoissonSampled, calibrate, compose

PAGE = DOCS / "benchmarks-calibration.md"
SAMPLING = (1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0)
STEPS = (1, 100, 10_000, 1_000_000, 10_000_000)
EPSILONS = (0.01, 0.1, 1.0, 10.0, 100.0)
LIMIT, MEDIAN = 5.0, 1.0  # CPU seconds of ours
_SECONDS, _MEMORY = 20, 4 * 2**30  # of any process
_PEER_SECONDS = 5


@frozen
class Cell:
    """One calibration: the noise of ``steps`` releases, each of a Poisson sample, for (``epsilon``, ``delta``)."""

    sampling: float
    steps: int
    epsilon: float
    delta: float

    def __str__(self) -> str:
        return f"q={self.sampling:g} T={self.steps:.0e} ε={self.epsilon:g} δ={self.delta:g}".replace("e+0", "e")


def grid() -> Iterator[Cell]:
    """All cells: the grid at 1e-5, and a few at 1e-10."""
    for q, steps, epsilon in itertools.product(SAMPLING, STEPS, EPSILONS):
        yield Cell(q, steps, epsilon, 1e-5)
    for q, steps, epsilon in itertools.product((1e-4, 0.01, 0.5), (100, 1_000_000), (1.0, 10.0)):
        yield Cell(q, steps, epsilon, 1e-10)


# --- one cell --------------------------------------------------------------------------------------------------------


def ours(cell: Cell) -> Result:
    def training(sigma: float) -> Any:
        noise = Gaussian(sigma)
        return compose((noise if cell.sampling == 1.0 else PoissonSampled(cell.sampling, noise), cell.steps))

    try:
        found = calibrate(training, EpsilonDelta(cell.epsilon, cell.delta))
    except HockeystickError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"sigma": found.value, "rejected": found.rejected, "evaluations": found.evaluations}


def peer(cell: Cell, accountant: Callable[[], Any], scale: float) -> Result:
    def training(sigma: float) -> Any:
        noise: Any = dp_accounting.GaussianDpEvent(sigma)
        if cell.sampling < 1.0:
            noise = dp_accounting.PoissonSampledDpEvent(cell.sampling, noise)
        return dp_accounting.SelfComposedDpEvent(noise, cell.steps)

    start = dp_accounting.LowerEndpointAndGuess(0, 1.0)
    sigma = dp_accounting.calibrate_dp_mechanism(
        accountant, training, cell.epsilon, cell.delta, start, tol=1e-6 * scale
    )
    return {"sigma": float(sigma)}


def within(seconds: int, compute: Callable[[], Result]) -> Result:
    """What a process of its own returns, with its CPU seconds; or why it did not."""

    def run(out: Connection) -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + seconds, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        started = time.process_time()
        try:
            found = compute()
        except (ArithmeticError, ValueError, MemoryError, RuntimeError) as error:
            found = {"error": type(error).__name__}
        out.send({**found, "cpu": time.process_time() - started})

    ours_end, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=run, args=(theirs,))
    process.start()
    theirs.close()
    try:
        found: Result = ours_end.recv()
    except EOFError:
        found = {"error": f"over {seconds} CPU s", "cpu": float(seconds)}
    process.join()
    return found


def beside(cell: Cell, scale: float) -> Result:
    """dp-accounting's answer: by privacy-loss distributions, or else by Renyi orders."""
    found = {**within(_PEER_SECONDS, lambda: peer(cell, PLDAccountant, scale)), "by": "PLD"}
    if "sigma" in found:
        return found
    return {**within(_PEER_SECONDS, lambda: peer(cell, RdpAccountant, scale)), "by": "RDP"}


# --- the page --------------------------------------------------------------------------------------------------------


@frozen
class Row:
    """A cell with what was found."""

    cell: Cell
    ours: Result
    peer: Result

    @property
    def met(self) -> bool:
        """Whether it ended in time."""
        return float(self.ours["cpu"]) <= LIMIT

    def markdown(self) -> str:
        """The line."""
        cell, found, other = self.cell, self.ours, self.peer
        said = f"{found['sigma']:.7g} | {found['evaluations']}" if "sigma" in found else f"{found['error']} | –"
        ratio = f"{other['sigma'] / found['sigma']:.6f}" if "sigma" in other and "sigma" in found else "–"
        by = f"{ratio} | {other['by']} | {other['cpu']:.2f}" if "sigma" in other else f"{other['error']} | – | –"
        return (
            f"| {cell.sampling:g} | {cell.steps:.0e} | {cell.epsilon:g} | {cell.delta:g} | {said} | {found['cpu']:.2f} "
            f"| {by} |"
        ).replace("e+0", "e")


def page(rows: list[Row]) -> str:
    seconds = [float(row.ours["cpu"]) for row in rows]
    theirs = [float(row.peer["cpu"]) for row in rows if "sigma" in row.peer]
    slowest = sorted(rows, key=lambda row: -float(row.ours["cpu"]))[:5]
    refused = [row for row in rows if "sigma" not in row.ours]
    late = [row for row in rows if not row.met]
    pld = [row for row in rows if row.peer.get("by") == "PLD" and "sigma" in row.peer]
    below = [r for r in pld if "sigma" in r.ours and r.peer["sigma"] < r.ours["rejected"] * (1 - 1e-6)]
    median, total, most = statistics.median(seconds), len(rows), max(seconds)
    lines = [
        "# Calibration: side by side",
        "",
        "Written by `python -m benchmarks.accountants.calibration --write`; edit that instead.",
        "",
        "The noise σ of T releases by the Gaussian mechanism, each of a Poisson sample with probability q, for (ε, δ).",
        "*Evaluations* are certified bounds that were computed, the σ beside the answer that fails included.",
        "dp-accounting calibrates the same from the same first guess, 1, to the same tolerance: its σ over ours, by",
        f"its PLD accountant or, where that does not end within {_PEER_SECONDS} CPU seconds (or fails), by its Renyi",
        "accountant. CPU seconds are without imports, each cell in a process of its own, caches cold, in one run.",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"dp-accounting {version('dp-accounting')}.",
        "",
        "| | target | found |",
        "|---|---|---|",
        f"| {_mark(not late)} | each cell ≤ {LIMIT:g} CPU s | {total - len(late)} of {total}; most {most:.2f} s |",
        f"| {_mark(median <= MEDIAN)} | median ≤ {MEDIAN:g} CPU s | {median:.2f} s |",
        f"| {_mark(not refused)} | no cell refused | {total - len(refused)} of {total} answered |",
        "",
        f"dp-accounting's median is {statistics.median(theirs):.2f} s over the {len(theirs)} cells where one of its "
        f"accountants ended in time; its PLD accountant did in {len(pld)}. In {len(below)} cells its σ is below the "
        "one that fails here by more than 1e-6: too little noise"
        + (f", most so at {min(below, key=_share).cell} ({_share(min(below, key=_share)):.6f})." if below else "."),
        "",
        "The slowest cells here: " + "; ".join(f"{row.cell} ({row.ours['cpu']:.2f} s)" for row in slowest) + ".",
        "",
        "| q | T | ε | δ | σ | evaluations | CPU s | dp-accounting's σ, of ours | by | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row.markdown() for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _share(row: Row) -> float:
    return float(row.peer["sigma"] / row.ours["sigma"])


def _mark(met: bool) -> str:
    return "PASS" if met else "FAIL"


def main() -> int:
    parser = resumable(__doc__.split("\n")[0], only="part of a cell's name", page=PAGE)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    files = [str(file.relative_to(ROOT)) for file in sorted((ROOT / "accounting").rglob("*.py"))]
    mine = Cells(asked.work / "calibration.jsonl", digest(*files))
    theirs = Cells(asked.work / "calibration_peers.jsonl", version("dp-accounting"))
    rows = []
    for cell in grid():
        key = {"cell": str(cell)}
        if asked.only not in str(cell) or (asked.kept and not mine.holds(key)):
            continue
        found = mine(key, lambda cell=cell: within(_SECONDS, lambda: ours(cell)))  # type: ignore[misc]
        scale = found.get("sigma", 1.0)
        other = theirs(key, lambda cell=cell, scale=scale: beside(cell, scale))  # type: ignore[misc]
        rows.append(Row(cell, found, other))
        print(rows[-1].markdown(), flush=True)
    if asked.write:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
