"""CPU time of ε and of a calibration beside dp-accounting's PLD accountant and prv_accountant, in one run.

    python -m benchmarks.accountants.speed [--write]

Each cell runs in a process of its own, twice, in the pinned environments of ``comparison.py``; the faster run
counts. Nothing is kept between runs, so that all numbers are of one machine at one time.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.accountants.comparison import environment, run
from benchmarks.accountants.work import Item
from benchmarks.frame import DOCS, WORK, Result, arguments, machine, markdown, replaced

PAGE = DOCS / "benchmarks-accounting.md"
ANCHOR = 85.0  # CPU seconds of PLD_accounting (Shenfeld 2026) for the item of kind "allocation", from its authors
ITEMS = (
    (Item("DP-SGD q=.01 σ=.8 ×1e3", (("sampled", 0.01, 0.8, 1000),)), 0.2),
    (Item("DP-SGD q=.001 σ=1.1 ×1e5", (("sampled", 0.001, 1.1, 100_000),)), 1.0),
    (Item("DP-SGD q=1e-5 σ=1 ×1e6", (("sampled", 1e-5, 1.0, 1_000_000),)), 5.0),
    (Item("σ of DP-SGD q=.01 ×1e3 at ε=1", (), kind="calibrate"), 0.4),
    (Item("allocation, σ=1, 1 of 1000", (), kind="allocation"), 1 / 40),
)
TEXT = """## Time, in one run

Written by `python -m benchmarks.accountants.speed --write`; edit that instead.

ε at δ = 1e-6 (or σ) and CPU seconds, cold and without imports, the fastest of two runs. The *ratio* is the time over
that of dp-accounting's PLD accountant; for random allocation, over the 85 CPU seconds of the implementation of Shenfeld
that its authors publish. A line fails if the ratio exceeds the aim. At q = 1e-5 dp-accounting's grid of 1e-4 is too
coarse for the losses of a step: it is quick, and its ε is 2.25 times too large. The reference, contour inversion, has
no answer there; [small rates](#poisson-sampled-gaussians-at-small-rates) have another one.
"""
METHODS = {"ours": "dp_accounting", "reference": "dp_accounting", "dpa_pld": "dp_accounting", "prv": "prv"}
_LIMIT, _MEMORY, _REPEAT = 300.0, 8 * 2**30, 2


def cells(pythons: dict[str, Path]) -> dict[tuple[str, str], Result]:
    """The fastest of some runs of each item by each accountant that has it."""
    found = {}
    for item, _ in ITEMS:
        for method, group in METHODS.items():
            if group in pythons and not (item.kind == "allocation" and method in ("dpa_pld", "prv")):
                runs = [run(pythons[group], item, method, _LIMIT, _MEMORY) for _ in range(_REPEAT)]
                found[item.name, method] = min(runs, key=lambda one: float(one.get("cpu", 9e9)))
    return found


def lines(found: dict[tuple[str, str], Result]) -> list[tuple[str, ...]]:
    """The lines of the table, with PASS or FAIL of the ratio to dp-accounting's time, or to the anchor."""
    rows = []
    for item, aim in ITEMS:
        ours, theirs = found[item.name, "ours"], found.get((item.name, "dpa_pld"), {})
        base = ANCHOR if item.kind == "allocation" else theirs.get("cpu")
        ratio = float(ours["cpu"]) / float(base) if base else None
        rows.append(
            (
                "–" if ratio is None else "PASS" if ratio <= aim else "FAIL",
                item.name,
                _value(found.get((item.name, "reference"), {})),
                *(_shown(found.get((item.name, method), {})) for method in ("ours", "dpa_pld", "prv")),
                "–" if ratio is None else f"{ratio:.3f}",
                f"{aim:g}",
            )
        )
    return rows


def _value(result: Result) -> str:
    return f"{float(result['value']):.7g}" if "value" in result else "–"


def _shown(result: Result) -> str:
    return f"{_value(result)}, {float(result['cpu']):.2f} s" if "value" in result else "–"


def main() -> int:
    """Prints the table, and writes it to the page if asked for."""
    options = arguments(__doc__.splitlines()[0], page=PAGE.name).parse_args()
    work = options.work or WORK
    work.mkdir(parents=True, exist_ok=True)
    pythons = {group: python for group in set(METHODS.values()) if (python := environment(group, work))}
    rows = lines(cells(pythons))
    header = ["", "item", "reference", "hockeystick", "dp-accounting PLD", "prv_accountant", "ratio", "aim"]
    text = f"{TEXT}\n{markdown(header, rows)}\n\n{machine()}"
    print(text)
    if options.write:
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "speed", text), encoding="utf-8")
    return int(any(row[0] == "FAIL" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
