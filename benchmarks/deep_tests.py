"""Runs the tests of the tier *deep*, file by file: more cases of what the other tiers test in every change.

    python -m benchmarks.deep_tests [--only PATTERN] [--processes N] [--work FOLDER]

A file whose tests passed is not run again until its code or the package's changes, so an interrupted run goes on. The
exit status is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import subprocess
import sys
from pathlib import Path

from benchmarks.frame import ROOT, WORK, command, digest

PARTS = ("hockeystick", "accounting", "mechanisms", "learners", "audits")
FOLDERS = (*PARTS, "benchmarks")
WORDS = ("mark.deep", "mark.every", "each_third", "deep_examples", "diagonal")  # the marks, and helpers that set them
PACKAGE = (*FOLDERS, "tests/helpers", "tests/conftest.py")


def files(only: str = "") -> list[str]:
    """Returns the paths, from the root, of test files that name the tier's mark."""
    found = [path for part in FOLDERS for path in sorted((ROOT / "tests" / part).rglob("test_*.py"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}
    named = [name for name, text in texts.items() if any(word in text for word in WORDS)]
    return [name for name in named if fnmatch.fnmatch(name, f"*{only}*")]


def main(argv: list[str] | None = None) -> int:
    """Runs what has not passed yet; returns 1 if a test failed."""
    parser = argparse.ArgumentParser(prog=command(), description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the paths, with wildcards")
    parser.add_argument("--processes", default="auto", help="number of processes for each file (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the results (default: %(default)s)")
    options = parser.parse_args(argv)
    chosen = files(options.only)
    if not chosen:
        parser.error(f"no file of the tier matches {options.only!r}")
    options.work.mkdir(parents=True, exist_ok=True)
    kept = options.work / "deep_tests_that_passed.txt"
    passed = set(kept.read_text(encoding="utf-8").splitlines()) if kept.exists() else set()
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", options.processes, "-p", "no:cacheprovider", "-m", "deep"]
    failed, package = [], digest(*PACKAGE)
    for number, file in enumerate(chosen, 1):
        state = f"{file} {package} {digest(file)}"
        print(f"[{number}/{len(chosen)}] {file}{': passed before' if state in passed else ''}", flush=True)
        if state in passed:
            continue
        if subprocess.run([*pytest, file], cwd=ROOT, check=False).returncode:
            failed.append(file)
            continue
        with kept.open("a", encoding="utf-8") as out:
            out.write(f"{state}\n")
    print("\n".join(["failed:", *failed]) if failed else f"{len(chosen)} files passed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
