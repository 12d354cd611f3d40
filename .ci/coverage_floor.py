#!/usr/bin/env python3
"""Says how much of accounting/ and audits/ the tests run, and refuses less than the floor.

    pytest -n auto -m fast --cov --cov-report=json:FILE
    .ci/coverage_floor.py FILE

Lines and branches count, of each part by itself. The exit status is 1 if one of the four lies below the floor, and if
the report can't tell: a part is missing in it, or branches were not measured. pyproject.toml says what is measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import pairwise
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

PARTS = ("accounting", "audits")
FLOOR = 95  # per cent
SHOWN, NAMED = 5, 12  # files, and of each that many of the places missed


class File(NamedTuple):
    """What the tests run of a file: (covered, all) lines and branches, and what is missed, by its line."""

    name: str
    lines: tuple[int, int]
    branches: tuple[int, int]
    missed: list[str]

    @property
    def missing(self) -> int:
        """Lines and branches that no test runs."""
        return sum(whole - covered for covered, whole in (self.lines, self.branches))


def files(report: dict[str, Any], part: str) -> list[File]:
    """Returns the files of a part, wherever it lies: at a checkout's root, or where the package is installed.

    Raises:
      ValueError: there is none, or branches were not measured.
    """
    found = []
    for path, data in report["files"].items():
        places = PureWindowsPath(path).parts  # it takes both kinds of separators
        if places[0] == part:
            place = places
        elif ("hockeystick", part) in pairwise(places):
            place = places[places.index("hockeystick") + 1 :]
        else:
            continue
        of = data["summary"]
        if "num_branches" not in of:
            raise ValueError("branches were not measured")
        lines = [(line, str(line)) for line in data["missing_lines"]]
        jumps = [(start, f"{start}->{'exit' if end < 0 else end}") for start, end in data["missing_branches"]]
        missed = [words for _, words in sorted(lines + jumps)]
        branches = of["covered_branches"], of["num_branches"]
        found.append(File("/".join(place), (of["covered_lines"], of["num_statements"]), branches, missed))
    if not found:
        raise ValueError(f"no file of {part}/ was measured")
    return found


def main(arguments: list[str]) -> int:
    """Prints the shares and the files that miss most; returns the exit status."""
    parser = argparse.ArgumentParser(description="Refuses a coverage report with less than the floor.")
    parser.add_argument("report", type=Path, help="of coverage json, or pytest --cov-report=json:FILE")
    path = parser.parse_args(arguments).report
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        measured = {part: files(report, part) for part in PARTS}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"{path}: no report to go by ({type(error).__name__}: {error})", file=sys.stderr)
        return 1
    below = False
    for part, found in measured.items():
        for what in ("lines", "branches"):
            covered, whole = (sum(getattr(file, what)[i] for file in found) for i in (0, 1))
            short = 100 * covered < FLOOR * whole
            below |= short
            share = f"{100 * covered / whole:.2f} %" if whole else "none"
            print(f"{part:<10} {what:<8} {share:>8} ({covered} of {whole}){f', below {FLOOR} %' * short}")
    every = sorted((file for found in measured.values() for file in found), key=lambda file: -file.missing)
    for file in every[:SHOWN]:
        if file.missing:
            more = ", ..." * (len(file.missed) > NAMED)
            print(f"  {file.name}: {file.missing} missed: {', '.join(file.missed[:NAMED])}{more}")
    return int(below)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
