"""What the benchmark scripts share: rows that pass or fail, printed as they come, and a page of docs/ with them."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SEQUENTIAL = (
    *(f"audits/sequential/{part}.py" for part in ("audit", "events", "game", "whole_laws", "betting")),
    *(
        f"audits/{part}.py"
        for part in ("attacks/monotone_laws", "attacks/partitions", "targets/calling", "claims/claim")
    ),
    *(f"audits/outputs/{part}.py" for part in ("features", "cells", "reading")),
)
"""The files that a sequential audit's random outcome depends on."""


class Row(Protocol):
    """One line of a table."""

    @property
    def met(self) -> bool:
        """Whether it is within its limit, if it has one."""

    def markdown(self) -> str:
        """The line."""


def command() -> str:
    """How the script that runs was started."""
    spec = sys.modules["__main__"].__spec__
    return f"python -m {spec.name}" if spec else Path(sys.argv[0]).name


def resumable(description: str, *, only: str, page: Path) -> argparse.ArgumentParser:
    """Returns the options of a benchmark that keeps what it ran, in a folder, and goes on from there."""
    parser = argparse.ArgumentParser(prog=command(), description=description)
    parser.add_argument("--only", default="", help=only)
    parser.add_argument("--write", action="store_true", help=f"write docs/{page.name}")
    parser.add_argument("--kept", action="store_true", help="run nothing: show what was run")
    parser.add_argument("--workers", type=int, default=1, help="processes to run in (default: %(default)s)")
    kept = Path(tempfile.gettempdir()) / "hockeystick-benchmarks"
    parser.add_argument(
        "--work", type=Path, default=kept, help="folder in which results are kept (default: %(default)s)"
    )
    return parser


def digest(*files: str) -> str:
    """A digest of files, named from the root: what results that are kept depend on."""
    found = hashlib.sha256()
    for file in files:
        found.update((ROOT / file).read_bytes())
    return found.hexdigest()[:16]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; a bar within a cell ends none."""
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, *rows)]
    return "\n".join(f"| {line} |" for line in (lines[0], " | ".join("---" for _ in head), *lines[1:]))


def main(name: str, columns: str, rows: Callable[[bool], Iterable[Row]], page: str, *, quick: str) -> int:
    """Runs a benchmark from the command line and returns the exit status: 1 if a limit is not met.

    Args:
      name: of its page, docs/benchmarks-NAME.md.
      columns: the table's head, "| a | b |".
      rows: measures one row after another; told whether to be quick.
      page: the page, with ``{table}`` where the table goes.
      quick: what ``--quick`` makes smaller.
    """
    parser = argparse.ArgumentParser(prog=command())
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--write", action="store_true", help=f"write docs/benchmarks-{name}.md")
    options = parser.parse_args()
    lines = [columns, "|---" * (columns.count("|") - 1) + "|"]
    met, started = True, time.perf_counter()
    for row in rows(options.quick):
        met &= row.met
        lines.append(row.markdown())
        print(lines[-1], file=sys.stderr, flush=True)
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}; "
        f"{time.perf_counter() - started:.0f} s in all{', --quick' if options.quick else ''}."
    )
    text = "\n".join([machine, "", *lines])
    print(text)
    if options.write:
        (DOCS / f"benchmarks-{name}.md").write_text(page.format(table=text), encoding="utf-8")
    return 0 if met else 1
