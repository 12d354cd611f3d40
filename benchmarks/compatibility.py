"""The fast tests on every supported Python, with the newest dependencies and with the oldest that are allowed.

    python -m benchmarks.compatibility [--only ROWS] [--tests AREA...] [--wheel FILE] [--cache FOLDER] [--write]

A row is an interpreter and a way to resolve the dependencies: ``newest``, or ``oldest``, of each direct dependency the
lowest version that pyproject.toml admits (on the lowest Python, which such versions have wheels for). The wheel is
built once and installed with the extra ``test`` into a fresh environment by uv (``pip install uv``), and the fast tests
of this checkout run against it; a row's log, ROW.log in the cache, grows as they run. A row that has been finished for
these files is not run again; one under which they changed is not kept. An interpreter that the machine lacks (on the
PATH, or kept by pyenv) is reported as such, and is no failure. ``--tests`` takes the tests of some areas alone, such as
``accounting audit cli``: the files that are named after them. ``--write`` puts the table in docs/compatibility.md, with
the areas; ``--wheel`` tries a wheel that is there. The exit status is 1 if a test failed, or if a row could not be
installed or finished.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from attrs import field, frozen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
PYTHONS = ("3.11", "3.12", "3.13")
SHOWN = ("numpy", "scipy", "attrs", "networkx", "click", "dp-accounting", "pytest")
_PARTS = ("accounting", "mechanisms", "learners", "audits", "hockeystick", "tests", "benchmarks", "docs")
_FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")


@frozen
class Row:
    """An interpreter and what it is tried with."""

    python: str
    dependencies: str

    @property
    def name(self) -> str:
        """For ``--only``."""
        return f"{self.python}-{self.dependencies}"


@frozen
class Result:
    """What came of a row.

    Attributes:
      name: of the row.
      status: "passed", "failed", "not installed", "not finished" or "no such interpreter here".
      told: what pytest's last line counts, or the reason.
      versions: of what was installed.
    """

    name: str
    status: str
    told: str
    versions: dict[str, str] = field(factory=dict)


ROWS = (*(Row(python, "newest") for python in PYTHONS), Row(PYTHONS[0], "oldest"))


def sources() -> str:
    """A digest of everything that the tests depend on in this checkout: tests run and read the pages, too."""
    digest = hashlib.sha256()
    within = [file for part in _PARTS for file in sorted((ROOT / part).glob("**/*")) if "__pycache__" not in file.parts]
    for file in [ROOT / name for name in _FILES] + within:
        if file.is_file() and file != PAGE:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(ROOT).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def interpreter(version: str) -> Path | None:
    """Returns an interpreter of a version: from the PATH, or the newest that pyenv keeps."""
    found = shutil.which(f"python{version}")
    if found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return Path(found)  # of pyenv's shims, some run nothing
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    kept = [python for python in (root / "versions").glob(f"{version}.*/bin/python") if _patch(python).isdecimal()]
    return max(kept, key=lambda python: int(_patch(python)), default=None)


def _patch(python: Path) -> str:
    return python.parts[-3].rpartition(".")[2]


def tests_of(areas: Sequence[str]) -> list[str]:
    """Returns the test files of some areas, relative to the checkout; no area stands for all tests, with doctests."""
    files: list[str] = []
    for area in areas:
        if not re.fullmatch(r"[a-z_]+(/[a-z_]+)*", area):
            raise ValueError(f"{area!r} is not a folder or file below tests/: names of small letters, without .py")
        place = ROOT / "tests" / area
        paths = sorted(place.rglob("test_*.py")) if place.is_dir() else [place.with_suffix(".py")]
        found = [path.relative_to(ROOT).as_posix() for path in paths if path.is_file()]
        if not found:
            raise ValueError(f"there are no tests in tests/{area} or tests/{area}.py")
        files += [file for file in found if file not in files]
    return files


def run(rows: tuple[Row, ...], cache: Path, areas: Sequence[str] = (), wheel: Path | None = None) -> Iterator[Result]:
    """Yields a result for each row, finished ones from the cache; the wheel is built if none is given."""
    cache.mkdir(parents=True, exist_ok=True)
    tests = tests_of(areas)
    made = sources()
    chosen = "-" + hashlib.sha256(" ".join(tests).encode()).hexdigest()[:8] if tests else ""
    for row in rows:
        kept = cache / f"{row.name}-{made}{chosen}.json"
        if kept.exists():
            yield Result(**json.loads(kept.read_text(encoding="utf-8")))
            continue
        python = interpreter(row.python)
        if python is None:
            yield Result(row.name, "no such interpreter here", f"no python{row.python} on the PATH or kept by pyenv")
            continue
        print(f"{row.name}: {python}", file=sys.stderr, flush=True)
        try:
            wheel = wheel or build(cache)
            result = tried(row, python, wheel, cache, tests)
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or error.stdout or "").strip().splitlines()
            yield Result(row.name, "not installed", lines[-1] if lines else str(error))
            continue
        if sources() != made:
            yield Result(row.name, "not finished", "files changed while the tests ran")
            continue
        if result.status != "not installed":
            part = kept.with_suffix(".part")
            part.write_text(json.dumps(attrs.asdict(result)), encoding="utf-8")
            part.replace(kept)
        yield result


def build(cache: Path) -> Path:
    """Returns the wheel of this checkout."""
    folder = cache / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    _uv("build", "--wheel", "--out-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def tried(row: Row, python: Path, wheel: Path, cache: Path, tests: Sequence[str]) -> Result:
    """Installs a row's packages and runs the fast tests, or those of some files."""
    folder = cache / row.name
    _uv("venv", "--quiet", "--clear", "--python", str(python), str(folder))
    inside = folder / "bin" / "python"
    resolution = "lowest-direct" if row.dependencies == "oldest" else "highest"
    # uv takes the dependencies of pyproject.toml for direct ones, but not those of a wheel: alone, the wheel would get
    # the newest of everything under either resolution.
    direct = ("-r", str(ROOT / "pyproject.toml"), "--extra", "test")
    _uv("pip", "install", "--quiet", "--python", str(inside), "--resolution", resolution, *direct, str(wheel))
    listed = json.loads(_uv("pip", "list", "--python", str(inside), "--format", "json"))
    versions = {each["name"]: each["version"] for each in listed if each["name"] in SHOWN}
    # The script, not ``python -m pytest``: that would import the package from the checkout instead of the wheel.
    command = [str(folder / "bin" / "pytest"), "-q", "-n", "auto", "-p", "no:cacheprovider", "-m", "not slow"]
    if row.dependencies == "oldest":
        if newer := above_floors(versions):
            return Result(row.name, "not installed", f"newer than the oldest: {newer}", versions)
        # Old packages warn of what newer Pythons say of their code; the package itself still must not.
        command += ["-o", "filterwarnings=default\nerror:::hockeystick"]
    log = cache / f"{row.name}.log"
    with log.open("wb") as written:
        done = subprocess.run([*command, *tests], cwd=ROOT, stdout=written, stderr=subprocess.STDOUT, check=False)
    told = counted(log.read_text(encoding="utf-8", errors="replace"))
    return Result(row.name, "failed" if done.returncode else "passed", told, versions)


def floors() -> dict[str, str]:
    """Returns the least version that pyproject.toml admits of each direct dependency, those of the tests among them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["test"]]  # the latter's floors are higher
    found = [re.match(r"([\w-]+)>=([\d.]+)", requirement) for requirement in named]
    return {match[1]: match[2] for match in found if match}


def above_floors(versions: dict[str, str]) -> str:
    """Names the packages that are newer than their floor; a floor of 8.1 admits that the oldest is 8.1.1."""
    oldest = floors()
    return ", ".join(
        f"{name} {version}" for name, version in versions.items() if not f"{version}.".startswith(f"{oldest[name]}.")
    )


def counted(log: str) -> str:
    """Returns what pytest's last line counts, without its time; the last line of all if there is no such line."""
    lines = [line.strip("= ") for line in log.splitlines() if line.strip("= ")]
    counts = [line.rpartition(" in ")[0] for line in lines if re.search(r"^\d+ [a-z]+.* in [\d.]+s", line)]
    return counts[-1] if counts else lines[-1] if lines else "nothing"


def _uv(*arguments: str) -> str:
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table(results: list[Result]) -> str:
    """Returns the results as a Markdown table."""
    lines = ["| Python | dependencies | | tests | versions |", "|---|---|---|---|---|"]
    for result in results:
        python, dependencies = result.name.split("-")
        versions = ", ".join(f"{name} {result.versions[name]}" for name in SHOWN if name in result.versions)
        lines.append(f"| {python} | {dependencies} | {result.status} | {result.told} | {versions} |")
    return "\n".join(lines)


def page(results: list[Result], areas: Sequence[str] = ()) -> str:
    """Returns docs/compatibility.md."""
    command = " ".join(("python -m benchmarks.compatibility", *(("--tests", *areas) if areas else ()), "--write"))
    tests = "fast tests of these areas alone" if areas else "fast tests"
    named = f" Areas: {', '.join(areas)}; an area is a folder or file below `tests/`." if areas else ""
    told = f"""The {tests} (`pytest -m 'not slow'`) against the wheel, on every supported Python.{named} *Newest*: the
newest dependencies that the package admitted when this was written; *oldest*: of each direct dependency, extras for
the tests among them, the lowest version that it admits. {platform.system()}, {platform.machine()}."""
    parts = (f"Written by `{command}`; edit that instead.", told)
    wrapped = (textwrap.fill(" ".join(part.split()), 120, break_on_hyphens=False) for part in parts)
    return "\n\n".join(("# Supported versions", *wrapped, table(results))) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compatibility")
    parser.add_argument("--only", default="*", help="rows whose name matches a pattern, such as '3.12-*'")
    parser.add_argument(
        "--tests", nargs="+", default=(), metavar="AREA", help="folders or files in tests/, without .py"
    )
    parser.add_argument("--wheel", type=Path, help="of this checkout, instead of building one")
    parser.add_argument("--cache", type=Path, default=_default_cache(), help="where environments and results stay")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    options = parser.parse_args(arguments)
    rows = tuple(row for row in ROWS if fnmatch.fnmatch(row.name, options.only))
    if not rows:
        parser.error(f"--only {options.only}: no row matches; there are {', '.join(row.name for row in ROWS)}")
    if options.write and rows != ROWS:
        parser.error("--write needs all rows")
    try:
        tests_of(options.tests)
    except ValueError as error:
        parser.error(f"--tests: {error}")
    results = []
    for result in run(rows, options.cache, options.tests, options.wheel):
        results.append(result)
        print(f"{result.name}: {result.status}: {result.told}", file=sys.stderr, flush=True)
    print(table(results))
    if options.write:
        PAGE.write_text(page(results, options.tests), encoding="utf-8")
    return int(any(result.status in ("failed", "not installed", "not finished") for result in results))


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hockeystick" / "compatibility"


if __name__ == "__main__":
    sys.exit(main())
