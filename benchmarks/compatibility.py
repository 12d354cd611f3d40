"""The fast tests on every supported Python, with the newest dependencies and with the oldest that are allowed.

    python -m benchmarks.compatibility [--only PATTERN] [--cache FOLDER] [--write]

A row is an interpreter and a way to resolve the dependencies: ``newest``, or ``oldest``, of each direct dependency the
lowest version that pyproject.toml admits (on the lowest Python, which such versions have wheels for). The wheel is
built once and installed with the extra ``test`` into a fresh environment by uv (``pip install uv``), and the fast tests
of this checkout run against it. A row that has been finished for these sources is not run again. An interpreter that
the machine lacks is reported as such, and is no failure. ``--write`` puts the table in docs/compatibility.md. The exit
status is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
from attrs import field, frozen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
PYTHONS = ("3.11", "3.12", "3.13")
SHOWN = ("numpy", "scipy", "attrs", "networkx", "click", "dp-accounting", "pytest")
_PARTS = ("accounting", "mechanisms", "learners", "audits", "hockeystick", "tests", "benchmarks")


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
      status: "passed", "failed", "not installed" or "no such interpreter here".
      told: pytest's last line, or the reason.
      versions: of what was installed.
    """

    name: str
    status: str
    told: str
    versions: dict[str, str] = field(factory=dict)


ROWS = (*(Row(python, "newest") for python in PYTHONS), Row(PYTHONS[0], "oldest"))


def sources() -> str:
    """A digest of everything that the tests depend on in this checkout."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for part in _PARTS:
        for file in sorted((ROOT / part).glob("**/*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def interpreter(version: str) -> Path | None:
    """Returns an interpreter of a version: from the path, or one that pyenv keeps."""
    found = shutil.which(f"python{version}")
    if found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return Path(found)
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return kept[-1] if kept else None


def run(rows: tuple[Row, ...], cache: Path) -> Iterator[Result]:
    """Yields a result for each row, finished ones from the cache."""
    cache.mkdir(parents=True, exist_ok=True)
    made = sources()
    wheel: Path | None = None
    for row in rows:
        kept = cache / f"{row.name}-{made}.json"
        if kept.exists():
            yield Result(**json.loads(kept.read_text(encoding="utf-8")))
            continue
        python = interpreter(row.python)
        if python is None:
            yield Result(row.name, "no such interpreter here", f"no python{row.python} on the path")
            continue
        try:
            wheel = wheel or build(cache)
            result = tried(row, python, wheel, cache)
        except subprocess.CalledProcessError as error:
            lines = (error.stderr or error.stdout or "").strip().splitlines()
            yield Result(row.name, "not installed", lines[-1] if lines else str(error))
            continue
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


def tried(row: Row, python: Path, wheel: Path, cache: Path) -> Result:
    """Installs a row's packages and runs the fast tests."""
    folder = cache / row.name
    _uv("venv", "--quiet", "--clear", "--python", str(python), str(folder))
    inside = folder / "bin" / "python"
    resolution = "lowest-direct" if row.dependencies == "oldest" else "highest"
    _uv("pip", "install", "--quiet", "--python", str(inside), "--resolution", resolution, f"{wheel}[test]")
    listed = json.loads(_uv("pip", "list", "--python", str(inside), "--format", "json"))
    versions = {each["name"]: each["version"] for each in listed if each["name"] in SHOWN}
    command = [str(inside), "-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", "-m", "not slow"]
    if row.dependencies == "oldest":
        command += ["-W", "default"]  # old packages warn of what newer Pythons say of their code
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (cache / f"{row.name}.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    lines = done.stdout.strip().splitlines()
    return Result(
        row.name, "failed" if done.returncode else "passed", lines[-1].strip("= ") if lines else "nothing", versions
    )


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


def page(results: list[Result]) -> str:
    """Returns docs/compatibility.md."""
    return f"""# Supported versions

Written by `python -m benchmarks.compatibility --write`; edit that instead.

The fast tests, on every supported Python. *Newest*: the newest dependencies that the package admits on that day;
*oldest*: of each direct dependency the lowest version that it admits.

{platform.system()}, {platform.machine()}.

{table(results)}
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compatibility")
    parser.add_argument("--only", default="*", help="rows whose name matches a pattern, such as '3.12-*'")
    parser.add_argument("--cache", type=Path, default=_default_cache(), help="where environments and results stay")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    options = parser.parse_args(arguments)
    rows = tuple(row for row in ROWS if fnmatch.fnmatch(row.name, options.only))
    if not rows:
        parser.error(f"--only {options.only}: no row matches; there are {', '.join(row.name for row in ROWS)}")
    if options.write and rows != ROWS:
        parser.error("--write needs all rows")
    results = []
    for result in run(rows, options.cache):
        results.append(result)
        print(f"{result.name}: {result.status}: {result.told}", file=sys.stderr, flush=True)
    print(table(results))
    if options.write:
        PAGE.write_text(page(results), encoding="utf-8")
    return int(any(result.status in ("failed", "not installed") for result in results))


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hockeystick" / "compatibility"


if __name__ == "__main__":
    sys.exit(main())
