"""What the experiments share: their command line, results that survive an interruption, tables, figures, pages.

An experiment is a function from :class:`Cells` to a :class:`Report`. Its numbers are computed cell by cell and appended
to a file as JSON lines, so that a second run goes on where the first one stopped; they are kept as long as the sources
that they came from are the same. Its table and figure go into the page between two markers,

    <!-- NAME -->
    ...
    <!-- /NAME -->

and nothing else of the page is touched.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "lazy-online-learning.md"  # of experiments that name no other
FEDERATED_PAGE = ROOT / "docs" / "federated-experts.md"
FIGURES = ROOT / "docs" / "figures"

Result = dict[str, Any]
Item = TypeVar("Item")


@frozen
class Check:
    """Something that the experiment is to show, and whether it does."""

    statement: str
    holds: bool


@frozen
class Report:
    """An experiment's outcome.

    Attributes:
        table: Markdown.
        checks: What it is to show.
        draw: Draws its figure into a matplotlib ``Figure``; None without one.
        caption: What the figure shows, for readers who do not see it.
    """

    table: str
    checks: tuple[Check, ...]
    draw: Callable[[Any], None] | None = None
    caption: str = ""

    @property
    def holds(self) -> bool:
        """Whether all that was to be shown is shown."""
        return all(check.holds for check in self.checks)


@frozen
class Cells:
    """Computed results, kept in a file of JSON lines.

    Args:
        file: Where they are kept; None to keep nothing.
        sources: A digest of what they depend on besides their keys.
        quiet: Without a progress bar.
        workers: Processes that :meth:`all` computes in; 1 for this one.
    """

    file: Path | None = None
    sources: str = ""
    quiet: bool = True
    workers: int = 1
    _known: dict[str, Result] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        if self.file is None or not self.file.exists():
            return
        for line in self.file.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # empty, or left by an interrupted run
            if record["sources"] == self.sources:
                self._known[record["key"]] = record["result"]

    def __call__(self, key: Mapping[str, Any], compute: Callable[[], Result]) -> Result:
        """The result for ``key``, computed if it is not known; both of plain JSON values."""
        name = json.dumps(key, sort_keys=True)
        if name not in self._known:
            self._keep(name, compute())
        return self._known[name]

    def holds(self, key: Mapping[str, Any]) -> bool:
        """Whether a call with ``key`` would compute nothing."""
        return json.dumps(key, sort_keys=True) in self._known

    def knows(self, key: Mapping[str, Any], compute: Callable[..., Result]) -> bool:
        """Whether :meth:`all` would take what ``compute`` makes of ``key`` from the file."""
        return _name(key, compute) in self._known

    def all(self, keys: Sequence[Mapping[str, Any]], compute: Callable[..., Result], title: str) -> list[Result]:
        """``compute(**key)`` for each key, unknown ones by the workers."""
        names = [_name(key, compute) for key in keys]
        missing = {name: key for name, key in zip(names, keys, strict=True) if name not in self._known}
        one = delayed(_named(compute))
        parallel = Parallel(n_jobs=self.workers, return_as="generator_unordered")
        for name, result in self.progress(parallel(one(*each) for each in missing.items()), title, len(missing)):
            self._keep(name, result)
        return [self._known[name] for name in names]

    def _keep(self, name: str, result: Result) -> None:
        # What is known is what a second run would read.
        record = json.dumps({"sources": self.sources, "key": name, "result": result})
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as out:
                out.write(f"\n{record}\n")  # an interrupted line stays one of its own
        self._known[name] = json.loads(record)["result"]

    def progress(self, items: Iterable[Item], title: str, total: int | None = None) -> Iterable[Item]:
        """The items, with a progress bar on standard error."""
        return items if self.quiet else track(items, title, total, console=Console(stderr=True))


def _name(key: Mapping[str, Any], compute: Callable[..., Result]) -> str:
    # Two functions may be asked for the same arguments.
    return json.dumps({"computed by": getattr(compute, "__name__", ""), **key}, sort_keys=True)


def _named(compute: Callable[..., Result]) -> Callable[[str, Mapping[str, Any]], tuple[str, Result]]:
    def run(name: str, key: Mapping[str, Any]) -> tuple[str, Result]:
        return name, compute(**key)

    return run


def sources() -> str:
    """A digest of the library and of the experiments."""
    digest = hashlib.sha256()
    for folder in ("accounting", "mechanisms", "learners", "audits", "benchmarks/experiments"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; floats with four digits."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(shown(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def shown(value: object) -> str:
    """A table's cell: floats with four digits, powers of ten for the very small and the very large."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return str(value)
    if not math.isfinite(value):
        return "∞" if value > 0.0 else str(value)
    if value == 0.0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}"
    if 1e4 <= abs(value) < 1e7:
        return f"{value:.0f}"
    mantissa, power = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(power)}"


def svg(draw: Callable[[Any], None]) -> str:
    """A figure as SVG; equal text for equal numbers."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "hockeystick", "svg.fonttype": "none", "font.size": 9.0}):
        figure = Figure(figsize=(8.0, 3.4), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def section(name: str, report: Report) -> str:
    """What stands between the markers of a page."""
    parts = [report.table]
    if report.draw is not None:
        parts.append(f"![{report.caption}](figures/{name}.svg)")
    parts.append("\n".join(f"- {check.statement}: {'yes' if check.holds else 'NO'}." for check in report.checks))
    parts.append(f"Written by `python -m {script(name)} --write`.")
    return "\n\n".join(parts)


def script(name: str) -> str:
    """The module of an experiment, as ``python -m`` takes it."""
    places = sorted((ROOT / "benchmarks" / "experiments").rglob(f"{name}.py"))
    path = places[0] if places else ROOT / "benchmarks" / "experiments" / name
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def replaced(page: str, name: str, text: str) -> str:
    """The page with ``text`` between the markers of ``name``."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page has not exactly one pair of markers <!-- {name} --> and <!-- /{name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


def main(
    name: str,
    experiment: Callable[[Cells], Report],
    arguments: Sequence[str] | None = None,
    *,
    page: Path | None = None,
) -> int:
    """Runs an experiment from the command line and returns the exit status: 1 if something does not hold.

    Args:
        name: The script's name, under which its results, figure and markers are found.
        experiment: What to run.
        arguments: Of the command line; None for those of this process.
        page: That the table and the figure belong to; None for ``PAGE``.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {script(name)}", description=experiment.__doc__)
    parser.add_argument("--write", action="store_true", help="put table and figure into docs/")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "hockeystick-experiments",
        help="folder in which results are kept (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, default=2, help="processes to compute in (default: %(default)s)")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the workers, which are to have a core each
    report = experiment(Cells(options.work / f"{name}.jsonl", sources(), quiet=False, workers=options.workers))
    print(report.table + "\n")
    for check in report.checks:
        print(f"{'holds' if check.holds else 'DOES NOT HOLD'}: {check.statement}")
    if options.write:
        if report.draw is not None:
            FIGURES.mkdir(exist_ok=True)
            (FIGURES / f"{name}.svg").write_text(svg(report.draw), encoding="utf-8")
        target = PAGE if page is None else page
        target.write_text(replaced(target.read_text(encoding="utf-8"), name, section(name, report)), encoding="utf-8")
        print(f"written to {target.relative_to(ROOT)}", file=sys.stderr)
    return 0 if report.holds else 1
