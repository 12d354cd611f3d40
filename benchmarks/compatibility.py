"""Runs fast tests on a matrix: every supported Python, with the newest and the oldest allowed dependencies.

    python -m benchmarks.compatibility [--only PATTERN] [--tests PATH...] [--wheel FILE] [--work FOLDER] [--write]

A cell is an interpreter and a resolution of the dependencies: ``newest``, or ``oldest``, which takes the lowest version
of each direct dependency that pyproject.toml admits (on the lowest Python, which such versions have wheels for). The
wheel is built once, and uv (``pip install uv``) installs it with the extra ``test`` into a fresh environment. The fast
tests of this checkout, or those in some files and folders, run against it; CELL.log in FOLDER holds their output. A
missing interpreter is reported, and is not a failure (``uv python install 3.12`` gets one). ``--write`` puts the table
into docs/compatibility.md; ``--wheel`` takes an existing wheel. The exit status is 1 if a test failed or a cell could
not be installed.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import platform
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # this module runs where the dependencies are not installed
PAGE = ROOT / "docs" / "compatibility.md"
MATRIX = {"newest": ("3.11", "3.12", "3.13", "3.14"), "oldest": ("3.11",)}
ROWS = tuple(f"{python}-{resolution}" for resolution, pythons in MATRIX.items() for python in pythons)
SHOWN = ("numpy", "scipy", "attrs", "networkx", "click", "dp-accounting", "pytest")
SOME = (
    *("tests/hockeystick/test_facade.py", "tests/hockeystick/files/test_data_frames.py"),
    *("tests/hockeystick/estimators", "tests/hockeystick/cli/commands/test_account.py"),
    *("tests/hockeystick/report/parts", "tests/accounting/graph/test_accountant_graph.py"),
    *("tests/accounting/interop/test_dp_accounting_events.py", "tests/accounting/losses/test_renyi_closed_forms.py"),
    *("tests/accounting/events/answers/test_unary_encoding.py", "tests/mechanisms/test_release.py"),
    *("tests/audits/test_fixed_sample.py", "tests/audits/sequential/test_betting.py"),
)
"""Tests of each part, of tables in other packages, of the command line and of reports: what dependencies can break."""

NO_INTERPRETER = "no such interpreter here"

Outcome = tuple[str, str, str]
"""The status, the counts of pytest's last line or the reason, and the installed versions."""


def tried(row: str, wheel: Path, work: Path, tests: Sequence[str]) -> Outcome:
    """Installs the packages of a cell and runs the tests."""
    version, dependencies = row.split("-")
    try:
        python = _uv("python", "find", "--no-python-downloads", version).strip()
    except subprocess.CalledProcessError:
        return NO_INTERPRETER, f"uv finds no Python {version}", ""
    bin_ = work / row / "bin"
    try:
        _uv("venv", "--quiet", "--clear", "--python", python, str(work / row))
        resolution = "lowest-direct" if dependencies == "oldest" else "highest"
        # uv takes the dependencies of pyproject.toml for direct ones, but not those of a wheel: alone, the wheel would
        # get the newest of everything under either resolution.
        direct = ("-r", str(ROOT / "pyproject.toml"), "--extra", "test")
        inside = ("--python", str(bin_ / "python"))
        _uv("pip", "install", "--quiet", *inside, "--resolution", resolution, *direct, str(wheel))
        listed = json.loads(_uv("pip", "list", *inside, "--format", "json"))
    except subprocess.CalledProcessError as error:
        return "not installed", (error.stderr.strip() or str(error)).splitlines()[-1], ""
    versions = {each["name"]: each["version"] for each in listed if each["name"] in SHOWN}
    shown = ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
    # The script, not ``python -m pytest``: that would import the package from the checkout instead of the wheel.
    command = [str(bin_ / "pytest"), "-q", "-n", "auto", "-p", "no:cacheprovider", "-m", "fast", *tests]
    if dependencies == "oldest":
        if newer := above_floors(versions):
            return "not installed", f"newer than the oldest: {newer}", shown
        # Old packages cause warnings on newer Pythons; the package itself must not.
        command += ["-o", "filterwarnings=default\nerror:::hockeystick"]
    log = work / f"{row}.log"
    with log.open("wb") as written:
        done = subprocess.run(command, cwd=ROOT, stdout=written, stderr=subprocess.STDOUT, check=False)
    return "failed" if done.returncode else "passed", counted(log.read_text(encoding="utf-8", errors="replace")), shown


def counted(log: str) -> str:
    """Returns the counts of pytest's last line, without its time; else the last line of the log."""
    found = re.findall(r"^[= ]*(\d+ [a-z].*) in [\d.]+s", log, re.MULTILINE)
    return str(found[-1]) if found else (log.strip() or "nothing").splitlines()[-1]


def state(tests: Sequence[str]) -> str:
    """Returns a digest of what the outcomes depend on: the sources, the requirements, and which tests are run."""
    found = hashlib.sha256("\n".join(tests).encode())
    folders = ("hockeystick", "accounting", "mechanisms", "learners", "audits", "tests")
    files = (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py*")) if file.suffix != ".pyc")
    for file in (ROOT / "pyproject.toml", *files):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def build(work: Path) -> Path:
    """Returns the wheel of this checkout."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        _uv("build", "--wheel", "--out-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.rename(work / wheel.name)


def above_floors(versions: dict[str, str]) -> str:
    """Returns the packages that are newer than their floor; the oldest version of a floor of 8.1 may be 8.1.1."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["test"]]  # the latter's floors are higher
    floors = {match[1]: match[2] for text in named if (match := re.match(r"([\w-]+)>=([\d.]+)", text))}
    return ", ".join(
        f"{name} {found}" for name, found in versions.items() if not f"{found}.".startswith(f"{floors[name]}.")
    )


def page(outcomes: dict[str, Outcome], tests: Sequence[str] = SOME) -> str:
    """Returns docs/compatibility.md."""
    given = () if tuple(tests) == SOME else ("--tests", *tests)
    command = " ".join(("python -m benchmarks.compatibility", *given, "--write"))
    text = f"""The table has the results of some fast tests (`pytest -m fast`) against the wheel, on every supported
Python. *Newest* means the newest dependencies that the package admitted when this page was written. *Oldest* means the
lowest admitted version of each direct dependency, extras for the tests included. A row counts the tests that there were
when it was run. {platform.system()}, {platform.machine()}."""
    passed = sum(status == "passed" for status, _, _ in outcomes.values())
    lacking = [row.split("-")[0] for row, (status, *_) in outcomes.items() if status == NO_INTERPRETER]
    first = f"**The tests pass in {passed} of {len(outcomes)} environments.**"
    first += f" Python {' and '.join(lacking)} was not tried, for lack of an interpreter." if lacking else ""
    parts = (first, f"Written by `{command}`; edit that instead.", text)
    wrapped = (textwrap.fill(" ".join(part.split()), 120, break_on_hyphens=False) for part in parts)
    rows = ["| " + " | ".join((*row.split("-"), *each)) + " |" for row, each in outcomes.items()]
    table = "\n".join(("| Python | dependencies | | tests | versions |", "|---|---|---|---|---|", *rows))
    return "\n\n".join(("# Supported versions", *wrapped, table)) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compatibility")
    parser.add_argument("--only", default="*", help="cells whose name matches, such as '3.12-*'")
    parser.add_argument(
        "--tests", nargs="+", default=SOME, metavar="PATH", help="files or folders, such as tests (default: some areas)"
    )
    parser.add_argument("--wheel", type=Path, help="an existing wheel of this checkout")
    work = Path(tempfile.gettempdir()) / "hockeystick-compatibility"
    parser.add_argument(
        "--work", type=Path, default=work, help="folder of environments and logs (default: %(default)s)"
    )
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    options = parser.parse_args(arguments)
    rows = fnmatch.filter(ROWS, options.only)
    if not rows or (options.write and len(rows) < len(ROWS)):
        parser.error(f"--only {options.only}: --write needs all cells, which are {', '.join(ROWS)}")
    options.work.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, Outcome] = {}
    now, wheel = state(options.tests), options.wheel
    for row in rows:
        stored = options.work / f"{row}-{now}.json"
        if stored.exists():
            status, counts, versions = json.loads(stored.read_text(encoding="utf-8"))
            outcomes[row] = status, counts, versions
        else:
            wheel = wheel or build(options.work)
            outcomes[row] = tried(row, wheel.resolve(), options.work.resolve(), options.tests)
            if outcomes[row][0] == "passed":
                stored.write_text(json.dumps(outcomes[row]), encoding="utf-8")
        print(row, *outcomes[row], sep=": ", file=sys.stderr, flush=True)
    text = page(outcomes, options.tests)
    print(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    return int(any(status in ("failed", "not installed") for status, *_ in outcomes.values()))


def _uv(*arguments: str) -> str:
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
