"""The frame of all benchmarks: options, results that survive an interruption, tables, figures and pages of docs/.

An *experiment* is a function from :class:`Cells` to a :class:`Report`. It computes its numbers cell by cell, and its
table and figure go between two markers of a page, ``<!-- NAME -->`` and ``<!-- /NAME -->``; ``python -m
benchmarks.experiments NAME`` runs it. A *comparison* yields :class:`Row` after row, and :func:`compare` writes a whole
page. The other benchmarks have a command line of their own and take the parts that they need.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import io
import json
import math
import multiprocessing
import os
import platform
import re
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from attrs import field, frozen
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
WORK = Path(tempfile.gettempdir()) / "hockeystick-benchmarks"

Result = dict[str, Any]
Setting = TypeVar("Setting")


def command() -> str:
    """Returns how the running benchmark was started."""
    spec = sys.modules["__main__"].__spec__
    return f"python -m {spec.name.removesuffix('.__main__')}" if spec else Path(sys.argv[0]).name


def arguments(description: str, *, page: str, only: str = "") -> argparse.ArgumentParser:
    """Returns the options of a benchmark that keeps its results in a folder and resumes from there.

    Args:
        description: The first line of the help.
        page: The page of docs/ that ``--write`` writes.
        only: The help of ``--only``; a benchmark without this option has no ``--kept`` either.
    """
    parser = argparse.ArgumentParser(prog=command(), description=description)
    if only:
        parser.add_argument("--only", default="", help=only)
        parser.add_argument("--kept", action="store_true", help="run nothing, and show earlier results")
    parser.add_argument("--write", action="store_true", help=f"write docs/{page}")
    parser.add_argument("--workers", type=int, default=1, help="number of processes (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the results (default: %(default)s)")
    return parser


def digest(*places: str) -> str:
    """Returns a digest of the sources that results depend on: files, and folders with all their modules."""
    found = hashlib.sha256()
    for place in places:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


# --- results that survive an interruption ----------------------------------------------------------------------------


@frozen
class Cells:
    """Results in a file of JSON lines; a later run computes only those that are missing.

    Args:
        file: The file; None to keep nothing.
        sources: A digest of all that results depend on besides their keys (:func:`digest`).
        quiet: Shows no progress bar.
        workers: Number of processes; 1 for the present one.
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
            if isinstance(record, dict) and record.get("sources") == self.sources:
                self._known[record["key"]] = record["result"]

    def knows(self, key: Mapping[str, Any], compute: Callable[..., Result]) -> bool:
        """Returns whether the result of ``compute(**key)`` is known."""
        return _name(key, compute) in self._known

    def one(self, compute: Callable[..., Result], **key: Any) -> Result:
        """Returns ``compute(**key)``, computed where it is not known."""
        return self.all([key], compute, "")[0]

    def each(
        self, compute: Callable[..., Result], settings: Iterable[Setting], title: str = "", **common: Any
    ) -> dict[Setting, Result]:
        """Returns ``compute(*setting, **common)`` by setting; a setting that is not a tuple is one argument."""
        chosen, names = list(dict.fromkeys(settings)), list(inspect.signature(compute).parameters)
        keys = [dict(zip(names, s if isinstance(s, tuple) else (s,), strict=False)) | common for s in chosen]
        return dict(zip(chosen, self.all(keys, compute, title), strict=True))

    def all(self, keys: Sequence[Mapping[str, Any]], compute: Callable[..., Result], title: str) -> list[Result]:
        """Returns ``compute(**key)`` for each key; the workers compute those that are not known."""
        names = [_name(key, compute) for key in keys]
        missing = {name: key for name, key in zip(names, keys, strict=True) if name not in self._known}
        named = delayed(_named(compute))
        found = Parallel(n_jobs=self.workers, return_as="generator_unordered")(named(*each) for each in missing.items())
        if not self.quiet and title:
            found = track(found, title, len(missing), console=Console(stderr=True))
        for name, result in found:
            record = json.dumps({"sources": self.sources, "key": name, "result": result})
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                with self.file.open("a", encoding="utf-8") as out:
                    out.write(f"\n{record}\n")  # after a line that was interrupted
            self._known[name] = json.loads(record)["result"]  # as a later run reads it
        return [self._known[name] for name in names]


def _name(key: Mapping[str, Any], compute: Callable[..., Result]) -> str:
    # Two functions may have the same arguments.
    return json.dumps({"computed by": getattr(compute, "__name__", ""), **key}, sort_keys=True)


def _named(compute: Callable[..., Result]) -> Callable[[str, Mapping[str, Any]], tuple[str, Result]]:
    return lambda name, key: (name, compute(**key))


def apart(compute: Callable[[], Result], *, seconds: int, memory: int) -> Result:
    """Returns the result of a forked process, with its CPU seconds as "cpu"; or why there is none, as "error".

    Args:
        compute: Returns the result.
        seconds: The limit of CPU time.
        memory: The limit of its address space, in bytes.
    """

    def run(out: Connection) -> None:
        end = math.ceil(time.process_time()) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        warnings.simplefilter("ignore")
        started = time.process_time()
        try:
            found = compute()
        except Exception as error:  # peers fail in many ways
            found = {"error": type(error).__name__}
        out.send({**found, "cpu": time.process_time() - started})

    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=run, args=(theirs,))
    process.start()
    theirs.close()
    try:
        found: Result = ours.recv()
    except EOFError:
        found = {"error": f"over {seconds} CPU s", "cpu": float(seconds)}
    process.join()
    return found


# --- tables and figures ----------------------------------------------------------------------------------------------


def markdown(header: str | Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table; the header is a list of columns, or a string with " | " between them."""
    header = header.split(" | ") if isinstance(header, str) else header
    # A bar within a cell must not end it.
    lines = [" | ".join(shown(cell).replace("|", "\\|") for cell in row) for row in (header, *rows)]
    return "\n".join(f"| {line} |" for line in (lines[0], " | ".join("---" for _ in header), *lines[1:]))


def shown(value: object) -> str:
    """Returns a cell of a table: floats have four digits, and powers of ten where they are very small or large."""
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
    """Returns a figure as SVG; equal numbers give equal text."""
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


# --- experiments -----------------------------------------------------------------------------------------------------


def _joined(parts: str | Iterable[str]) -> str:
    return parts if isinstance(parts, str) else "\n\n".join(parts)


@frozen
class Report:
    """The outcome of an experiment.

    Attributes:
        table: Markdown; a sequence of parts is joined by empty lines.
        checks: Whether each statement that the experiment is to show holds.
        draw: Draws its figure into a matplotlib ``Figure``; None for no figure.
        caption: The figure's description for readers who cannot see it.
    """

    table: str = field(converter=_joined)
    checks: Mapping[str, bool]
    draw: Callable[[Any], None] | None = None
    caption: str = ""

    @property
    def holds(self) -> bool:
        """Whether all checks hold."""
        return all(self.checks.values())


def experiment(
    name: str, compute: Callable[[Cells], Report], given: Sequence[str] | None, *, page: Path, sources: Sequence[str]
) -> int:
    """Runs an experiment from the command line and returns the exit status: 1 if a check does not hold.

    Args:
        name: Names its results, its figure and its markers.
        compute: The experiment.
        given: The command line; None for that of this process.
        page: The page that ``--write`` changes.
        sources: The folders that its results depend on.
    """
    parser = arguments(inspect.getdoc(compute) or "", page=page.name)
    parser.prog = f"{parser.prog} {name}"
    parser.set_defaults(workers=2)
    options = parser.parse_args(given)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # each worker has one core
    report = compute(Cells(options.work / f"{name}.jsonl", digest(*sources), quiet=False, workers=options.workers))
    print(report.table + "\n")
    for statement, holds in report.checks.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {statement}")
    if options.write:
        parts = [report.table]
        if report.draw is not None:
            picture = page.parent / "figures" / f"{name}.svg"
            picture.parent.mkdir(exist_ok=True)
            picture.write_text(svg(report.draw), encoding="utf-8")
            parts.append(f"![{report.caption}](figures/{name}.svg)")
        parts.append("\n".join(f"- {one}: {'yes' if holds else 'NO'}." for one, holds in report.checks.items()))
        written = command() if command().endswith(f".{name}") else f"python -m benchmarks.experiments {name}"
        parts.append(f"Written by `{written} --write`.")
        page.write_text(replaced(page.read_text(encoding="utf-8"), name, _joined(parts)), encoding="utf-8")
    return 0 if report.holds else 1


def replaced(page: str, name: str, text: str) -> str:
    """Returns the page with ``text`` between the markers of ``name``."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page needs exactly one pair of markers <!-- {name} --> and <!-- /{name} -->")
    return pattern.sub(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)


# --- comparisons -----------------------------------------------------------------------------------------------------


@frozen
class Row:
    """One line of a comparison.

    Attributes:
        cells: The columns after the first.
        met: Whether it is within its limit; None where it has none. The first column says so.
    """

    cells: tuple[str, ...]
    met: bool | None = None

    def markdown(self) -> str:
        """Returns the line."""
        mark = "" if self.met is None else "PASS" if self.met else "FAIL"
        return f"| {' | '.join((mark, *self.cells))} |"


def within(name: str, amount: float, limit: float, unit: str = "s", *, at_least: bool = False) -> Row:
    """Returns a row of a quantity and its limit: the most that it may be, or the least with ``at_least``."""
    met = amount >= limit if at_least else amount <= limit
    side = "at least" if at_least else "at most"
    return Row((name, f"{amount:.3g} {unit}", f"{side} {limit:.3g} {unit}"), met)


def seconds(repeats: int, *calls: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> list[float]:
    """Returns the least seconds of each call; calls alternate, so that the load of the machine is the same for all."""
    found = np.empty((repeats, len(calls)))
    for row in found:
        for i, call in enumerate(calls):
            start = clock()
            call()
            row[i] = clock() - start
    return [float(least) for least in found.min(axis=0)]


def compare(page: str, columns: str, rows: Callable[[bool], Iterable[Row]], text: str, *, quick: str) -> int:
    """Runs a comparison from the command line and returns the exit status: 1 if a limit is not met.

    Args:
        page: The name of the page in docs/.
        columns: The head of the table, "| | a | b |".
        rows: Yields the rows; its argument says whether to be quick.
        text: The page, with ``{table}`` in place of the table and ``{met}`` in place of how many limits are met.
        quick: The help of ``--quick``.
    """
    parser = argparse.ArgumentParser(prog=command())
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--write", action="store_true", help=f"write docs/{page}")
    options = parser.parse_args()
    lines, met, started = [columns, "|---" * (columns.count("|") - 1) + "|"], [], time.perf_counter()
    for row in rows(options.quick):
        met += [] if row.met is None else [row.met]
        lines.append(row.markdown())
        print(lines[-1], file=sys.stderr, flush=True)
    spent = f"{time.perf_counter() - started:.0f} s in all{', --quick' if options.quick else ''}."
    table = "\n".join([f"{machine()}, numpy {np.__version__}; {spent}", "", *lines])
    print(table)
    if options.write:
        (DOCS / page).write_text(text.format(table=table, met=met_in_words(met)), encoding="utf-8")
    return 0 if all(met) else 1


def met_in_words(met: Sequence[bool], what: str = "limits") -> str:
    """Returns how many of some limits, or targets, are met; pages begin with it."""
    return f"**{sum(met)} of {len(met)} {what} are met.**"


def machine() -> str:
    """Returns the processor, its cores and the version of Python."""
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
