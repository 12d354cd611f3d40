"""The fast tests on every supported Python, with the newest dependencies and with the oldest that are allowed.

    python -m benchmarks.compatibility [--only PATTERN] [--tests PATH...] [--wheel FILE] [--work FOLDER] [--write]

A row is an interpreter and a way to resolve the dependencies: ``newest``, or ``oldest``, of each direct dependency the
lowest version that pyproject.toml admits (on the lowest Python, which such versions have wheels for). The wheel is
built once and installed with the extra ``test`` into a fresh environment by uv (``pip install uv``), and the fast tests
of this checkout, or those in some files and folders, run against it; a row's log, ROW.log in FOLDER, grows as they run.
An interpreter that uv does not find is reported as such, and is no failure (``uv python install 3.12`` gets one).
``--write`` puts the table in docs/compatibility.md; ``--wheel`` tries a wheel that is there. The exit status is 1 if a
test failed, or if a row could not be installed.
"""

from __future__ import annotations

import argparse
import fnmatch
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

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
ROWS = ("3.11-newest", "3.12-newest", "3.13-newest", "3.11-oldest")
SHOWN = ("numpy", "scipy", "attrs", "networkx", "click", "dp-accounting", "pytest")

Told = tuple[str, str, str]
"""Status, what pytest's last line counts or the reason, and what was installed."""


def tried(row: str, wheel: Path, work: Path, tests: Sequence[str]) -> Told:
    """Installs a row's packages and runs the tests."""
    version, dependencies = row.split("-")
    try:
        python = _uv("python", "find", "--no-python-downloads", version).strip()
    except subprocess.CalledProcessError:
        return "no such interpreter here", f"uv finds no Python {version}", ""
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
        # Old packages warn of what newer Pythons say of their code; the package itself still must not.
        command += ["-o", "filterwarnings=default\nerror:::hockeystick"]
    log = work / f"{row}.log"
    with log.open("wb") as written:
        done = subprocess.run(command, cwd=ROOT, stdout=written, stderr=subprocess.STDOUT, check=False)
    return "failed" if done.returncode else "passed", counted(log.read_text(encoding="utf-8", errors="replace")), shown


def counted(log: str) -> str:
    """Returns what pytest's last line counts, without its time; the last line of all if there is no such line."""
    found = re.findall(r"^[= ]*(\d+ [a-z].*) in [\d.]+s", log, re.MULTILINE)
    return str(found[-1]) if found else (log.strip() or "nothing").splitlines()[-1]


def build(work: Path) -> Path:
    """Returns the wheel of this checkout."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        _uv("build", "--wheel", "--out-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        return wheel.rename(work / wheel.name)


def above_floors(versions: dict[str, str]) -> str:
    """Names the packages that are newer than their floor; a floor of 8.1 admits that the oldest is 8.1.1."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["test"]]  # the latter's floors are higher
    floors = {match[1]: match[2] for text in named if (match := re.match(r"([\w-]+)>=([\d.]+)", text))}
    return ", ".join(
        f"{name} {found}" for name, found in versions.items() if not f"{found}.".startswith(f"{floors[name]}.")
    )


def page(told: dict[str, Told], tests: Sequence[str] = ()) -> str:
    """Returns docs/compatibility.md."""
    command = " ".join(("python -m benchmarks.compatibility", *(("--tests", *tests) if tests else ()), "--write"))
    which = "Some of the" if tests else "The"
    text = f"""{which} fast tests (`pytest -m fast`) against the wheel, on every supported Python. *Newest*: the
newest dependencies that the package admitted when this was written; *oldest*: of each direct dependency, extras for
the tests among them, the lowest version that it admits. {platform.system()}, {platform.machine()}."""
    parts = (f"Written by `{command}`; edit that instead.", text)
    wrapped = (textwrap.fill(" ".join(part.split()), 120, break_on_hyphens=False) for part in parts)
    rows = ["| " + " | ".join((*row.split("-"), *each)) + " |" for row, each in told.items()]
    table = "\n".join(("| Python | dependencies | | tests | versions |", "|---|---|---|---|---|", *rows))
    return "\n\n".join(("# Supported versions", *wrapped, table)) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compatibility")
    parser.add_argument("--only", default="*", help="rows whose name matches a pattern, such as '3.12-*'")
    parser.add_argument("--tests", nargs="+", default=(), metavar="PATH", help="files or folders, such as tests/audits")
    parser.add_argument("--wheel", type=Path, help="of this checkout, instead of building one")
    kept = Path(tempfile.gettempdir()) / "hockeystick-compatibility"
    parser.add_argument("--work", type=Path, default=kept, help="of environments and logs (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    options = parser.parse_args(arguments)
    rows = fnmatch.filter(ROWS, options.only)
    if not rows or (options.write and len(rows) < len(ROWS)):
        parser.error(f"--only {options.only}: --write needs all rows, and there are {', '.join(ROWS)}")
    options.work.mkdir(parents=True, exist_ok=True)
    told, wheel = {}, options.wheel or build(options.work)
    for row in rows:
        told[row] = tried(row, wheel.resolve(), options.work.resolve(), options.tests)
        print(row, *told[row], sep=": ", file=sys.stderr, flush=True)
    text = page(told, options.tests)
    print(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    return int(any(status in ("failed", "not installed") for status, *_ in told.values()))


def _uv(*arguments: str) -> str:
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
