"""Audits releases of other libraries, some with a known leak and others that have fixed it.

    python -m benchmarks.version_ladder.run [--only PATTERN] [--cache FOLDER] [--write]

Each row of ladder.toml gets a fresh environment with its pinned packages, draws outputs there (draw.py), and is audited
here, bit patterns included, at confidence 1 - 1e-6. Environments and outputs stay in the cache (about 3 GB for all
rows), so that later runs only repeat the audits. A row is reported if its packages cannot be installed or its sampler
fails, and is tried again next time. ``--write`` puts the table into docs/version-ladder.md. The exit status is 1 if a
finished row is not as expected.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np
from attrs import field, frozen
from attrs.validators import in_

import hockeystick as hs
from benchmarks.frame import DOCS, markdown
from hockeystick.audits.targets.recorded import Recorded

HERE = Path(__file__).parent
CORPUS = HERE / "ladder.toml"
DRAW = HERE / "draw.py"
PAGE = DOCS / "version-ladder.md"
CONFIDENCE = 1 - 1e-6
SEED = 2026
TIMEOUT = 1800.0  # seconds for an installation, or for drawing

Colour = Literal["red", "green"]


@frozen
class Row:
    """A row of the corpus; the head of ladder.toml describes its fields."""

    name: str
    packages: tuple[str, ...] = field(converter=tuple)
    sampler: str
    runs: int
    epsilon: float
    expect: Colour = field(validator=in_(("red", "green")))
    why: str
    delta: float = 0.0
    neighbours: tuple[float, float] | None = None
    significance: float | None = None
    bits: bool = True
    arguments: dict[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if (self.neighbours is None) == (self.significance is None):
            raise ValueError(f"{self.name}: give neighbours, or a significance for an auditor")

    def settings(self) -> dict[str, Any]:
        """Returns the arguments of the sampler."""
        pair = {} if self.neighbours is None else {"neighbours": list(self.neighbours)}
        audited = {} if self.significance is None else {"significance": self.significance}
        return {"runs": self.runs, **pair, **audited, **self.arguments}

    def digest(self) -> str:
        """Returns a digest of the row and of the script; outputs of another digest are drawn again."""
        key = json.dumps(attrs.asdict(self), sort_keys=True) + _script() + platform.python_version()
        return hashlib.sha256(key.encode()).hexdigest()[:16]


@functools.cache
def _script() -> str:
    return DRAW.read_text(encoding="utf-8")


@frozen
class Result:
    """The result of a row.

    Attributes:
        row: The row.
        status: "red", "green", "not installed" or "not drawn".
        found: The evidence, in words.
        epsilon_lower: The lower bound of an audit; None otherwise.
    """

    row: Row
    status: str
    found: str
    epsilon_lower: float | None = None

    @property
    def finished(self) -> bool:
        """Whether the row was judged."""
        return self.status in ("red", "green")

    @property
    def unexpected(self) -> bool:
        """Whether it was judged otherwise than expected."""
        return self.finished and self.status != self.row.expect


class StepError(Exception):
    """A failed installation or sampler; ``status`` is that of the row, the text the last line of its output."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


def corpus(path: Path = CORPUS) -> tuple[Row, ...]:
    """Reads the rows; names are unique."""
    rows = tuple(Row(**row) for row in tomllib.loads(path.read_text(encoding="utf-8"))["row"])
    names = [row.name for row in rows]
    if len(set(names)) < len(names):
        raise ValueError("two rows have the same name")
    return rows


def run(rows: tuple[Row, ...], cache: Path) -> Iterator[Result]:
    """Yields each row's result."""
    for row in rows:
        try:
            yield judge(row, draw(row, environment(row.packages, cache), cache))
        except StepError as error:
            yield Result(row, error.status, str(error))


def environment(packages: tuple[str, ...], cache: Path) -> Path:
    """Returns the Python of an environment that holds exactly these packages; rows that pin the same share it."""
    if not packages:
        return Path(sys.executable)
    name = hashlib.sha256("\n".join((platform.python_version(), *packages)).encode()).hexdigest()[:12]
    folder = cache / "environments" / f"{packages[0].replace('==', '-')}-{name}"
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    ready = folder / "ready"
    if not ready.exists():
        venv.create(folder, clear=True, with_pip=True)
        _command("not installed", [str(python), "-m", "pip", "install", "--quiet", *packages])
        ready.touch()
    return python


def draw(row: Row, python: Path, cache: Path) -> dict[str, Any]:
    """Returns the arrays that a row's sampler drew in its environment."""
    out = cache / "samples" / f"{row.digest()}.npz"
    if not out.exists():
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_suffix(".part.npz")
        _command("not drawn", [str(python), str(DRAW), row.sampler, json.dumps(row.settings()), str(part)])
        part.replace(out)
    with np.load(out, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def judge(row: Row, arrays: dict[str, Any]) -> Result:
    """Audits the outputs, or counts the errors of an auditor."""
    if row.significance is not None:
        wrong, audits = int(np.count_nonzero(arrays["bounds"] > row.epsilon)), len(arrays["bounds"])
        low, _ = hs.audits.clopper_pearson(wrong, audits, confidence=CONFIDENCE)
        status = "red" if low > row.significance else "green"
        median = float(np.median(arrays["bounds"]))
        words = f"{wrong} of {audits} lower bounds above the truth, {row.epsilon:g}; median {median:.3g}"
        return Result(row, status, words)
    target = Recorded(arrays["d0"], arrays["d1"])
    claim = hs.Claim(row.epsilon, row.delta)
    verdict = hs.audit(target, claim=claim, samples=target.left, rng=SEED, confidence=CONFIDENCE, bits=row.bits)
    words = f"{verdict.event}: {verdict.count_p} and {verdict.count_q} of {verdict.trials}"
    status = "red" if verdict.refuted else "green"
    return Result(row, status, words, verdict.epsilon_lower)


def _command(status: str, command: list[str]) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise StepError(status, f"took more than {TIMEOUT:g} seconds") from None
    if done.returncode:
        raise StepError(status, (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1])


def table(results: list[Result]) -> str:
    """Returns the results as a table in Markdown."""
    rows = []
    for result in results:
        row = result.row
        claim = f"({row.epsilon:.4g}, {row.delta:g})"
        bound = "" if result.epsilon_lower is None else f"{result.epsilon_lower:.3g}"
        status = f"**{result.status}**" if result.unexpected or not result.finished else result.status
        rows.append((row.name, claim, row.expect, status, bound, result.found, row.why))
    return markdown("release | claim | expected | found | ε at least | how | known", rows)


def page(results: list[Result]) -> str:
    """Returns docs/version-ladder.md."""
    right = {side: [r.status == side for r in results if r.row.expect == side] for side in ("red", "green")}
    red, green = (f"{sum(found)} of {len(found)}" for found in right.values())
    return f"""# Version ladder

**{red} releases with a known leak are refuted, and {green} without one are not.** The releases are of other
libraries, before and after a leak was fixed. A release with a known leak
must be *red*: its claim is refuted. A release without one must be *green*. One command installs each release in a
separate environment, draws outputs there, and audits them here, bit patterns included, at confidence 1 − 10⁻⁶:

```bash
python -m benchmarks.version_ladder.run                    # all rows; outputs are stored for later runs
python -m benchmarks.version_ladder.run --only "opendp*"   # some
python -m benchmarks.version_ladder.run --write            # and write this page
```

{table(results)}

The bound on ε is the audit's, at the claim's δ. The ε of a leak through bit patterns is often unbounded, and the bound
grows with the number of outputs. *Green* means that these outputs did not refute the claim. It does not mean that the
release is safe. The rows are in `benchmarks/version_ladder/ladder.toml`. The page was last written under Python
{platform.python_version()}.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="*", help="rows whose name matches, such as 'opendp*Laplace'")
    parser.add_argument("--cache", type=Path, default=_default_cache(), help="folder (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="another corpus")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}, of all rows")
    given = parser.parse_args(arguments)
    rows = tuple(row for row in corpus(given.corpus) if fnmatch.fnmatch(row.name.lower(), given.only.lower()))
    if not rows:
        parser.error(f"no row matches {given.only!r}")
    if given.write and given.only != "*":
        parser.error("--write needs all rows: leave --only out")
    results = []
    for result in run(rows, given.cache):
        mark = "!!" if result.unexpected else "  "
        print(f"{mark} {result.row.name}: {result.status} (expected {result.row.expect}); {result.found}", flush=True)
        results.append(result)
    unexpected = sum(result.unexpected for result in results)
    print(f"{sum(r.finished for r in results)} of {len(results)} rows finished, {unexpected} not as expected")
    if given.write:
        PAGE.write_text(page(results), encoding="utf-8")
    return 1 if unexpected else 0


def _default_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "hockeystick" / "version-ladder"


if __name__ == "__main__":
    sys.exit(main())
