"""The size of the installation, alone and with each extra.

    python -m benchmarks.install_sizes [--write] [--work FOLDER]

builds the wheel, installs it into one fresh virtual environment after another, and measures what the environment holds.
The table is in docs/installation.md. After an interruption the same command continues. Needs uv (``pip install uv``).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.frame import DOCS, ROOT, Cells, Report, experiment, markdown

PAGE = DOCS / "installation.md"
NOTHING = "(none)"
# What an extra is for; the extras of developers (test, docs, dev) are left out.
PURPOSE = {
    NOTHING: "accounting, mechanisms, learners, audits, the command line, the pytest plugin",
    "opendp": "audits of OpenDP's measurements, and their cost here",
    "report": "results as HTML",
    "demo": "`hockeystick demo`: reports, and scikit-learn's data",
    "parallel": "audits on all cores",
    "dask": "audits on a cluster",
    "tables": "Parquet files and data frames",
    "sklearn": "`hockeystick.estimators`",
    "sql": "audits of queries on DuckDB",
    "postgres": "ledgers in PostgreSQL",
    "secure-sum": "sums of clients' numbers that the server does not see",
    "verify": "certificates checked in ball arithmetic, and signed",
    "federated": "learners on Flower",
    "opacus": "trainings by Opacus; brings torch",
    "jax": "trainings by jax-privacy; brings jax",
}


def installed(extra: str) -> dict[str, Any]:
    """Installs the wheel with an extra into a fresh environment and returns its megabytes, by package."""
    with tempfile.TemporaryDirectory() as folder:
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, f"{folder}/venv"], check=True)
        wheel = f"{ROOT}[{extra}]" if extra != NOTHING else str(ROOT)
        install = [*uv, "pip", "install", "--quiet", "--python", f"{folder}/venv/bin/python", wheel]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        site = next(Path(folder, "venv", "lib").glob("python*/site-packages"))
        sizes = {path.name: _bytes(path) for path in site.iterdir()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:4]
    return {"all": sum(sizes.values()) / 1e6, "largest": {name: sizes[name] / 1e6 for name in largest}}


def _bytes(path: Path) -> int:
    files: Iterator[Path] = path.rglob("*") if path.is_dir() else iter([path])
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def install_sizes(cells: Cells) -> Report:
    """The size of the installation, alone and with each extra."""
    found = cells.each(installed, PURPOSE, "installing")
    alone = found[NOTHING]["all"]
    rows = []
    for extra, purpose in PURPOSE.items():
        if "error" in found[extra]:
            rows.append((extra, purpose, "not installed here", ""))
            continue
        size = found[extra]["all"]
        own = size if extra == NOTHING else size - alone
        added = {
            name: megabytes
            for name, megabytes in found[extra]["largest"].items()
            if extra == NOTHING or name not in found[NOTHING]["largest"]
        }
        large = ", ".join(f"{name} {megabytes:.0f}" for name, megabytes in added.items())
        rows.append((extra, purpose, f"{own:.0f} MB", large))
    return Report(
        markdown("extra | what for | size on top of the core | its largest packages, in MB", rows),
        {"the core alone takes less than 300 MB": alone < 300},
    )


def main() -> int:
    return experiment("install_sizes", install_sizes, None, page=PAGE, sources=("pyproject.toml",))


def known_extras() -> set[str]:
    """Returns the extras of users in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"]) - {"test", "docs", "dev"}


if __name__ == "__main__":
    sys.exit(main())
