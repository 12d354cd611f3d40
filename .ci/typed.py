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


def right(checker: list[str], folder: Path) -> bool:
    """Says whether a checker finds errors in the file with the mistake alone, and prints what it says."""
    found = subprocess.run([*checker, "right.py", "wrong.py"], cwd=folder, capture_output=True, text=True)
    print(found.stdout.strip(), found.stderr.strip())
    errors = [line for line in found.stdout.splitlines() if "error:" in line]
    return found.returncode == 1 and bool(errors) and all("wrong.py:3:" in line for line in errors)


def main() -> int:
    """Runs the checkers on both files at once: most of their time goes into reading the package."""
    python = sys.executable
    checkers = [[python, "-m", "mypy", "--strict"]]
    if "--pyright" in sys.argv:
        checkers.append([python, "-m", "pyright", "--pythonpath", python])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "right.py").write_text(RIGHT)
        (folder / "wrong.py").write_text(WRONG)
        good = [right(checker, folder) for checker in checkers]
    return int(not all(good))


if __name__ == "__main__":
    raise SystemExit(main())
