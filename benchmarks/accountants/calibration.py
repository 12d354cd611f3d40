"""Calibration of noise, from one step to ten million and from sparse samples to dense ones, beside dp-accounting.

    python -m benchmarks.accountants.calibration [--only PART] [--write] [--kept]

Each cell runs in a process of its own under a limit of CPU time and memory, and later runs resume from its result.
dp-accounting's ``calibrate_dp_mechanism`` gets the same first guess, 1, and tolerance, 1e-6 of the answer. Its PLD
accountant runs first and, where that does not end within the limit, its Renyi accountant. CPU seconds exclude imports.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from typing import Any

import dp_accounting
from attrs import frozen
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from benchmarks.frame import DOCS, Cells, Result, Row, apart, arguments, digest, machine
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


def beside(cell: Cell, scale: float) -> Result:
    """Returns dp-accounting's answer: by privacy-loss distributions, or else by Renyi orders."""
    found: Result = {}
    for accountant, name in ((PLDAccountant, "PLD"), (RdpAccountant, "RDP")):
        compute = partial(peer, cell, accountant, scale)
        found = {**apart(compute, seconds=_PEER_SECONDS, memory=_MEMORY), "by": name}
        if "sigma" in found:
            break
    return found


# --- the page --------------------------------------------------------------------------------------------------------


@frozen
class Found:
    """A cell with both results."""

    cell: Cell
    ours: Result
    peer: Result

    @property
    def met(self) -> bool:
        """Whether it ended in time."""
        return float(self.ours["cpu"]) <= LIMIT

    def markdown(self) -> str:
        """Returns the line of the table."""
        cell, found, other = self.cell, self.ours, self.peer
        own = (f"{found['sigma']:.7g}", str(found["evaluations"])) if "sigma" in found else (found["error"], "–")
        ratio = f"{other['sigma'] / found['sigma']:.6f}" if "sigma" in other and "sigma" in found else "–"
        by = (ratio, other["by"], f"{other['cpu']:.2f}") if "sigma" in other else (other["error"], "–", "–")
        at = f"{cell.sampling:g}", f"{cell.steps:.0e}", f"{cell.epsilon:g}", f"{cell.delta:g}"
        return f"| {' | '.join((*at, *own, format(found['cpu'], '.2f'), *by))} |".replace("e+0", "e")


def page(rows: list[Found]) -> str:
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
        f"A calibration should take at most {LIMIT:g} CPU seconds, and half of them at most {MEDIAN:g}. The first",
        "table says how many do. The last one has every case.",
        "",
        "Written by `python -m benchmarks.accountants.calibration --write`; edit that instead.",
        "",
        "The table has the noise σ that gives (ε, δ) for T releases by the Gaussian mechanism, each of a Poisson",
        "sample with probability q. *Evaluations* is the number of certified bounds that were computed, including",
        "that of the nearby σ that misses the target. dp-accounting calibrates the same releases from the same",
        "first guess, 1, to the same tolerance. The table has its σ divided by the one here, from its PLD",
        f"accountant. If that does not end within {_PEER_SECONDS} CPU seconds, or fails, the Renyi accountant is",
        "used. CPU seconds are without imports. Each cell ran in a separate process with cold caches, all in one",
        "run.",
        "",
        f"{machine()}, dp-accounting {version('dp-accounting')}.",
        "",
        "| | target | found |",
        "|---|---|---|",
        Row(
            (f"each cell ≤ {LIMIT:g} CPU s", f"{total - len(late)} of {total}; most {most:.2f} s"), not late
        ).markdown(),
        Row((f"median ≤ {MEDIAN:g} CPU s", f"{median:.2f} s"), median <= MEDIAN).markdown(),
        Row(("no cell refused", f"{total - len(refused)} of {total} answered"), not refused).markdown(),
        "",
        f"dp-accounting's median is {statistics.median(theirs):.2f} s over the {len(theirs)} cells where one of its "
        f"accountants ended in time; its PLD accountant did in {len(pld)}. In {len(below)} cells its σ is more than "
        "1e-6 below a σ that misses the target here, so that it is too little noise"
        + (
            f"; the smallest is {min(below, key=_share).cell} ({_share(min(below, key=_share)):.6f})." if below else "."
        ),
        "",
        "The slowest cells here: " + "; ".join(f"{row.cell} ({row.ours['cpu']:.2f} s)" for row in slowest) + ".",
        "",
        "| q | T | ε | δ | σ | evaluations | CPU s | dp-accounting's σ, of ours | by | CPU s |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(row.markdown() for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _share(row: Found) -> float:
    return float(row.peer["sigma"] / row.ours["sigma"])


def main() -> int:
    parser = arguments(__doc__.split("\n")[0], only="part of a cell's name", page=PAGE.name)
    options = parser.parse_args()
    mine = Cells(options.work / "calibration.jsonl", digest("accounting"))
    theirs = Cells(options.work / "calibration_peers.jsonl", version("dp-accounting"))
    cells, rows = {str(cell): cell for cell in grid() if options.only in str(cell)}, []

    def measured(cell: str) -> Result:
        return apart(partial(ours, cells[cell]), seconds=_SECONDS, memory=_MEMORY)

    for name, cell in cells.items():
        if options.kept and not mine.knows({"cell": name}, measured):
            continue
        found = mine.one(measured, cell=name)
        scale = found.get("sigma", 1.0)

        def compared(cell: str, scale: float = scale) -> Result:
            return beside(cells[cell], scale)

        rows.append(Found(cell, found, theirs.one(compared, cell=name)))
        print(rows[-1].markdown(), flush=True)
    if options.write:
        PAGE.write_text(page(rows), encoding="utf-8")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
