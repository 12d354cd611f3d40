"""Accounting compared with dp-accounting, prv_accountant, autodp and Opacus: tightness, CPU time, memory.

    python -m benchmarks.accountants.comparison [--only PATTERN ...] [--quick] [--write]

makes one pinned virtual environment per group of peers (``<group>.txt``) and runs every (item, accountant) cell in a
process of its own under a limit of time and memory, ours in every environment for the work items. It prints a Markdown
table and whether the targets are met. Later runs resume from finished cells; results of ours are used as long as the
sources of ``accounting/`` are the same.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import resource
import subprocess
import sys
import time
import tomllib
import venv
from dataclasses import asdict
from pathlib import Path

from benchmarks.accountants.page import HOME, SPEED, Results, page, table, targets, verdicts
from benchmarks.accountants.work import ITEMS, QUICK, Item
from benchmarks.frame import DOCS, ROOT, WORK, Cells, Result, digest, machine

GROUPS = {
    "dp_accounting": ("reference", "grid", "ours", "dpa_pld", "dpa_rdp"),
    "prv": ("ours", "prv"),
    "autodp": ("ours", "autodp_rdp"),
    "opacus": ("ours", "opacus_prv", "opacus_rdp", "opacus_gdp"),
}
OURS = ("reference", "grid", "ours")
PACKAGES = ("numpy", "scipy", "dp-accounting", "prv-accountant", "autodp", "opacus")


def environment(group: str, work: Path) -> Path | None:
    """Makes a group's environment, or finds it; None, with a visible line, where pip fails."""
    folder = work / f"env-{group}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    files = [Path(__file__).with_name(f"{group}{end}.txt") for end in ("", "_bare")]
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    pinned = "".join(file.read_text(encoding="utf-8") for file in files if file.exists()) + "\n".join(needed)
    done = folder / "installed.txt"
    if done.exists() and done.read_text(encoding="utf-8") == pinned:
        return python
    print(f"making the environment {folder}", file=sys.stderr)
    venv.create(folder, with_pip=True, clear=True)
    for file in files:
        if file.exists():
            bare = ["--no-deps"] if file.stem.endswith("_bare") else []
            command = [str(python), "-m", "pip", "install", "-q", "-r", str(file), *(bare or needed)]
            finished = subprocess.run(command, capture_output=True, text=True)
            if finished.returncode:
                reason = (finished.stderr.strip().splitlines() or ["pip failed"])[-1]
                print(f"SKIP {group}: {reason}")
                return None
    done.write_text(pinned, encoding="utf-8")
    return python


def run(python: Path, item: Item, method: str, limit: float, memory: int) -> Result:
    """Runs one cell once."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [str(python), str(Path(__file__).with_name("cell.py")), json.dumps(asdict(item)), method]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    try:
        finished = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **threads, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=limit,
            preexec_fn=limited,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"over {limit:g} s"}
    if finished.returncode:
        return {"error": (finished.stderr.strip().splitlines() or [f"exit {finished.returncode}"])[-1][:150]}
    return dict(json.loads(finished.stdout.strip().splitlines()[-1]))


def cell(python: Path, item: Item, method: str, options: argparse.Namespace) -> Result:
    """Runs one cell, again if it was short; the fastest run counts."""
    runs = [run(python, item, method, options.limit, int(options.memory * 2**30))]
    repeat = options.repeat if item.section == "bench" else 1
    while runs[-1].get("cpu", 9.0) < 2.0 and len(runs) < repeat:
        runs.append(run(python, item, method, options.limit, int(options.memory * 2**30)))
    return min(runs, key=lambda r: r.get("cpu", 9e9))


def describe(pythons: dict[str, Path]) -> str:
    """Returns the machine and the versions of the packages."""
    lines = [f"{machine()}, {time.strftime('%Y-%m')}."]
    code = "import importlib.metadata as m\nfor p in {!r}:\n  try: print(p, m.version(p))\n  except Exception: pass"
    for group, python in pythons.items():
        found = subprocess.run([python, "-c", code.format(PACKAGES)], capture_output=True, text=True).stdout
        lines.append(f"* {group}: {', '.join(found.split(chr(10))).strip(', ')}")
    return "\n".join([lines[0], "", *lines[1:]])


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="items whose name or section matches")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--quick", action="store_true", help="a few items, each cell once")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the results (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of wall time per cell")
    parser.add_argument("--memory", type=float, default=8.0, help="GiB of address space per cell")
    parser.add_argument("--repeat", type=int, default=3, help="runs of a cell that takes less than 2 s")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks-accounting.md")
    options = parser.parse_args()
    if options.quick:
        options.repeat = 1
    wanted = options.only or (QUICK if options.quick else ("*",))
    items = [i for i in ITEMS if any(fnmatch.fnmatch(x, w) for w in wanted for x in (i.name, i.section))]
    named = {item.name: item for item in items}
    options.work.mkdir(parents=True, exist_ok=True)
    pythons = {group: python for group in options.groups if (python := environment(group, options.work))}

    def computed(item: str, method: str, group: str) -> Result:
        found = cell(pythons[group], named[item], method, options)
        print(item, method, group, found, sep=" | ", file=sys.stderr, flush=True)
        return found

    ours = Cells(options.work / "accounting.jsonl", digest("accounting"))
    theirs = Cells(options.work / "accounting_peers.jsonl")
    keys = [
        (item.name, method, group)
        for item in items
        for group in pythons
        for method in GROUPS[group]
        if item.section == "bench" or method != "ours" or group == HOME
    ]
    results: Results = {}
    for kept, own in ((ours, True), (theirs, False)):
        results |= kept.each(computed, [key for key in keys if (key[1] in OURS) is own])
    header = describe(pythons)
    if HOME not in pythons:
        print(f"SKIP the reference: it needs the environment {HOME}")
    print(header, table(results, items), verdicts(found := targets(results, items)), sep="\n\n")
    if options.write:
        file = DOCS / "benchmarks-accounting.md"
        _, mark, others = file.read_text(encoding="utf-8").partition(SPEED)
        rest = f"\n{mark}{others}" if mark else ""
        file.write_text(page(results, header) + rest, encoding="utf-8")
    sys.exit(any(met is False for _, met, _ in found))


if __name__ == "__main__":
    main()
