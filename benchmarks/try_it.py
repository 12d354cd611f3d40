"""The numbers of docs/try-it.md: ε of DP-SGD and of repeated Gaussian noise, at every position of the page's sliders.

    python -m benchmarks.try_it --write

writes ``docs/static/try_it_numbers.js``. After an interruption the same command continues. The sliders take these
positions alone, so the page interpolates nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hockeystick as hs
from benchmarks.frame import DOCS, Cells, arguments, digest
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.numerics import rounded_text

FILE = DOCS / "static" / "try_it_numbers.js"
BEGIN, END = "window.hockeystickNumbers = ", ";\n"
DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
PARTS = (1 / 2, 1 / 8, 1 / 64)
"""The trade-off curve has a line for each δ of the slider, and for these parts of δ at ε = 0."""
TRAINING = {
    "noise": (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0),
    "rate": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
    "epochs": (1, 3, 10, 30, 100),
}
RELEASES = {
    "noise": (0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0, 50.0, 70.0, 100.0),
    "count": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
}
RECORDS = (1_000, 10_000, 100_000, 1_000_000)


def training(noise: float, rate: float, epochs: int) -> dict[str, Any]:
    """The row of a training. Its records do not matter, given the rate and the steps."""
    run = hs.DPSGD(records=1000, batch=round(1000 * rate), epochs=epochs)
    return {"steps": run.steps, "row": row(run.event(noise))}


def releases(noise: float, count: int) -> dict[str, Any]:
    """The row of a composition of Gaussian releases."""
    return {"row": row(hs.compose((hs.events.Gaussian(noise), count)))}


def row(event: PrivacyEvent) -> list[float]:
    """δ at ε = 0, then ε at each of ``DELTAS``, then at each part of the first number; all rounded up."""
    none = float(rounded_text.upper(hs.delta(event, 0.0).upper, 4))
    targets = (*DELTAS, *(none * part for part in PARTS))
    return [none, *(0.0 if delta >= none else _rounded(event, delta) for delta in targets)]


def _rounded(event: PrivacyEvent, delta: float) -> float:
    return float(rounded_text.upper(hs.epsilon(event, delta).upper))


def read(file: Path = FILE) -> dict[str, Any]:
    """The numbers of the page."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8").removeprefix(BEGIN).removesuffix(END))
    return found


def main(given: list[str] | None = None) -> int:
    """Computes the numbers."""
    parser = arguments("ε at every position of the sliders", page="static/try_it_numbers.js")
    options = parser.parse_args(given)
    cells = Cells(options.work / "try_it.jsonl", digest("accounting/engines"), quiet=False, workers=options.workers)
    grid = [(n, r, e) for n in TRAINING["noise"] for r in TRAINING["rate"] for e in TRAINING["epochs"]]
    trained = cells.each(training, grid, "trainings")
    released = cells.each(releases, [(n, c) for n in RELEASES["noise"] for c in RELEASES["count"]], "releases")
    first = TRAINING["noise"][0]  # steps do not depend on it
    steps = [trained[first, rate, epochs]["steps"] for rate in TRAINING["rate"] for epochs in TRAINING["epochs"]]
    numbers = {
        "deltas": DELTAS,
        "parts": PARTS,
        "records": RECORDS,
        "training": {**TRAINING, "steps": steps, "rows": [one["row"] for one in trained.values()]},
        "releases": {**RELEASES, "rows": [one["row"] for one in released.values()]},
    }
    if options.write:
        FILE.write_text(BEGIN + json.dumps(numbers, separators=(",", ":")) + END, encoding="utf-8")
    print(f"{len(trained) + len(released)} rows")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
