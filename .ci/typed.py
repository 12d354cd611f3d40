#!/usr/bin/env python3
"""Checks a small project that uses hockeystick, as its author would: by mypy and by pyright, from another folder.

    .ci/typed.py [--pyright]

hockeystick is installed in the environment of this Python, plainly or editable. A line that is right must pass, and one
that mistakes an event for a number must not. The exit status is 1 otherwise.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

RIGHT = """import hockeystick as hs
from hockeystick.accounting import AccountantGraph, errors, validate
from hockeystick.audits import Claim
from hockeystick.learners import LazyExperts
from hockeystick.mechanisms import Laplace
from hockeystick.mechanisms import testing


def cost(noise: float) -> float:
    event: hs.PrivacyEvent = hs.events.Gaussian(noise)
    graph: AccountantGraph = hs.AccountantGraph().source("people").release("mean", event, reads=["people"])
    found: hs.Bracket = graph.guarantee().epsilon(1e-6)
    return found.upper
"""
WRONG = "import hockeystick as hs\n\ng: int = hs.events.Gaussian(1.0)\n"


def passes(checker: list[str], text: str, folder: Path) -> bool:
    """Says whether a checker finds nothing in a file, and prints what it says."""
    (folder / "mine.py").write_text(text)
    found = subprocess.run([*checker, "mine.py"], cwd=folder, capture_output=True, text=True)
    print(found.stdout.strip(), found.stderr.strip())
    return found.returncode == 0


def main() -> int:
    """Runs the checkers on both files."""
    python = sys.executable
    checkers = [[python, "-m", "mypy", "--strict"]]
    if "--pyright" in sys.argv:
        checkers.append([python, "-m", "pyright", "--pythonpath", python])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        good = [passes(checker, RIGHT, folder) and not passes(checker, WRONG, folder) for checker in checkers]
    return int(not all(good))


if __name__ == "__main__":
    raise SystemExit(main())
