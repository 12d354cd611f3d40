"""One training run with batches of five kinds: full data, shuffled, without replacement, Poisson, random allocation.

    python -m benchmarks.accountants.batches [--write]

It writes the two tables of docs/batches.md. Later runs resume from the results of earlier ones. CPU seconds exclude
imports; each cell runs in a process of its own.
"""

from __future__ import annotations

from benchmarks.frame import DOCS, Cells, Result, apart, arguments, digest, machine, markdown, replaced
from hockeystick.accounting import (
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    RandomAllocation,
    SampledWithoutReplacement,
    ShuffledBatches,
    compose,
    epsilon,
)

PAGE = DOCS / "batches.md"
DELTA = 1e-6
STEPS = 1000  # of an epoch
RUNS = ((0.8, 10), (1.0, 1), (1.0, 10), (1.0, 100), (2.0, 10))  # noise, epochs
KINDS = ("allocation", "allocation, same step in every epoch", "poisson", "without replacement", "shuffle", "full")
ORDERS = {"new": "known to be needed", "same": "the same, if the order never changes"}
BRACKETS = ((1.0, 1000, 1), (1.0, 10**6, 1), (0.5, 1000, 1), (0.3, 1000, 1), (2.0, 100, 1), (1.0, 1000, 10))
_SECONDS, _MEMORY = 60, 4 * 2**30


def event(kind: str, noise: float, epochs: int) -> PrivacyEvent:
    """Returns the cost of ``epochs`` epochs with batches of a kind."""
    step = Gaussian(noise)
    if kind == "allocation":
        return compose((RandomAllocation(STEPS, 1, step), epochs))
    if kind == "poisson":
        return compose((PoissonSampled(1 / STEPS, step), STEPS * epochs))
    if kind == "without replacement":  # of a public number of records; a replaced one moves the sum by 2
        return compose((SampledWithoutReplacement(100 * STEPS, 100, step.at(2)), STEPS * epochs))
    if kind == "shuffle":
        return ShuffledBatches(epochs, STEPS, step)
    if kind == "full":
        return compose((step, STEPS * epochs))
    return RandomAllocation(STEPS, 1, compose((step, epochs)))


def cost(kind: str, noise: float, epochs: int) -> Result:
    """Returns ε of one run, and what shuffled batches are known to need at least."""
    mine = event(kind, noise, epochs)
    found = apart(lambda: {"epsilon": epsilon(mine, DELTA).upper}, seconds=_SECONDS, memory=_MEMORY)
    if not isinstance(mine, ShuffledBatches):
        return found
    return {**found, **{order: mine.lower_bound(DELTA, order=order) for order in ORDERS}}


def bracket(noise: float, steps: int, chosen: int) -> Result:
    """Returns both ends of ε of one epoch with random allocation."""

    def compute() -> Result:
        found = epsilon(RandomAllocation(steps, chosen, Gaussian(noise)), DELTA, bracket=True)
        return {"low": found.lower, "high": found.upper, "method": found.method}

    return apart(compute, seconds=_SECONDS, memory=_MEMORY)


def tables(cells: Cells) -> tuple[str, str]:
    """Returns the table of runs and that of brackets."""
    costs = cells.each(cost, [(kind, *run) for kind in KINDS for run in RUNS], "runs")
    rows = [(kind, *(f"{costs[kind, *run]['epsilon']:.4f}" for run in RUNS)) for kind in KINDS]
    for order, name in ORDERS.items():
        rows.insert(-1, (f"shuffle: {name}", *(f"{costs['shuffle', *run][order]:.4f}" for run in RUNS)))
    heads = [f"σ = {noise:g}, {epochs} epoch{'s' if epochs > 1 else ''}" for noise, epochs in RUNS]
    ends = cells.each(bracket, BRACKETS, "brackets")
    narrow = [
        (
            f"σ = {noise:g}, {chosen} of {steps}",
            f"{found['low']:.7g}",
            f"{found['high']:.7g}",
            f"{found['high'] / found['low'] - 1:.1e}",
            found["method"],
            f"{found['cpu']:.1f}",
        )
        for (noise, steps, chosen), found in ends.items()
    ]
    header = ["run", "lower end", "upper end", "relative width", "method", "CPU s"]
    return markdown(["batches", *heads], rows), markdown(header, narrow)


def main() -> int:
    """Prints both tables, and writes them to the page if asked for."""
    options = arguments(__doc__.splitlines()[0], page=PAGE.name).parse_args()
    sources = digest("accounting", "benchmarks/accountants/batches.py")
    cells = Cells(options.work / "batches.jsonl", sources, quiet=False, workers=options.workers)
    runs, narrow = tables(cells)
    print(f"{runs}\n\n{narrow}\n\n{machine()}")
    if options.write:
        page = replaced(PAGE.read_text(encoding="utf-8"), "runs", runs)
        PAGE.write_text(replaced(page, "brackets", f"{narrow}\n\n{machine()}"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
