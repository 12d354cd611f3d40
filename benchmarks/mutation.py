"""Mutants of accounting/: is every small mistake in the code noticed by a fast test?

    python -m benchmarks.mutation [--sample N] [--only FILE] [--slow] [--workers N] [--work FOLDER] [--write] [--kept]

Each mutant gets a forked process and the fast tests that run its line, until one fails. Whatever is found is appended
to files in the folder: which tests run which lines, the mutants, what became of each. An interrupted run goes on where
it stopped; what depends on a file that has changed is found again. Needs ``pip install mutmut``, which brings libcst
and coverage, and a system that forks. The exit status is 1 if a mutant survived that mutation_survivors.toml does not
explain.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import asdict, evolve

from benchmarks.mutation_forks import Ended, forked
from benchmarks.mutation_operators import Mutant, mutants
from benchmarks.mutation_page import NOTICED, PAGE, Finding, Sample, explanations, page, summary
from benchmarks.mutation_trials import Project, Reach, Trial, attempt, measure, third_party, trial
from benchmarks.table import ROOT, resumable

ACCOUNTING = Project(ROOT, "hockeystick.accounting", ROOT / "accounting", ROOT / "tests")
_PATIENCE = 1800.0  # seconds for the tests of one file, or for the mutants of one


class Store:
    """A file of JSON lines, each a name and what was found of it; it is only ever appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[str, Any] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8")
            for line in text.splitlines():
                with suppress(ValueError):  # a line that an interruption cut off
                    name, value = json.loads(line)
                    self.known[name] = value
            if not text.endswith("\n"):
                path.write_text(text + "\n", encoding="utf-8")

    def keep(self, name: str, value: Any) -> None:
        """Appends one."""
        self.known[name] = value
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, value], ensure_ascii=False) + "\n")


def find_reaches(project: Project, store: Store, workers: int) -> dict[str, Reach]:
    """Which tests run which lines, by the digests of their files: what is kept, and measured where nothing is."""
    files = {digest: file for file, digest in project.test_files().items()}
    wanted = [digest for digest in files if digest not in store.known]
    wanted.sort(key=lambda digest: -(project.root / files[digest]).stat().st_size)

    def measured(digest: str) -> dict[str, Any]:
        return measure(project, files[digest]).as_record()

    for digest, ended in _each("test files", measured, wanted, workers, lambda digest: _PATIENCE):
        if ended.reason:
            print(f"!! {files[digest]} is left out: {ended.reason}", flush=True)
        else:
            store.keep(digest, ended.result)
    return {digest: Reach.from_record(store.known[digest]) for digest in files if digest in store.known}


def find_mutants(texts: dict[str, str], store: Store, workers: int) -> list[Mutant]:
    """All mutants of source files, file after file: what is kept, and made where nothing is."""
    digests = {hashlib.sha256(f"{file}\0{text}".encode()).hexdigest()[:16]: file for file, text in texts.items()}
    wanted = sorted((digest for digest in digests if digest not in store.known), key=lambda d: -len(texts[digests[d]]))

    def made(digest: str) -> list[dict[str, Any]]:
        return [asdict(mutant) for mutant in mutants(digests[digest], texts[digests[digest]])]

    for digest, ended in _each("source files", made, wanted, workers, lambda digest: _PATIENCE):
        if ended.reason:
            raise RuntimeError(f"no mutants of {digests[digest]}: {ended.reason}")
        store.keep(digest, ended.result)
    return [Mutant(**fields) for digest in digests for fields in store.known[digest]]


def drawn(found: list[Mutant], size: int | None, seed: int) -> list[Mutant]:
    """So many mutants, each as likely as any other, in an order of their own.

    A larger sample begins with a smaller one, and a file that changes changes nothing of the other files' order.
    """
    return sorted(found, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())[:size]


def try_mutants(
    project: Project,
    texts: dict[str, str],
    chosen: list[Mutant],
    reaches: dict[str, Reach],
    store: Store,
    workers: int,
) -> None:
    """Finds what becomes of each mutant, and keeps it; one that survived is tried again when its tests have changed.

    The tests of each 25th mutant are run without it first: one that fails so depends on the order, and is left out.

    Raises:
      RuntimeError: tests that pass on their own can't be run in a forked process.
    """
    digests = {reach.file: digest for digest, reach in reaches.items()}
    tier = "slow" if project.slow else "fast"
    waiting: list[tuple[str, Trial]] = []
    for mutant in chosen:
        known = store.known.get(mutant.name, {})
        if known.get("status") in NOTICED:
            continue
        given = trial(project, mutant, texts[mutant.file], reaches.values())
        tests = hashlib.sha256(repr([(digests[file], names) for file, names in given.steps]).encode()).hexdigest()[:16]
        if known.get(tier) == tests:
            continue
        if given.steps:
            waiting.append((tests, given))
        else:
            store.keep(mutant.name, {"status": "not reached", **known, tier: tests})

    def tried(one: tuple[str, Trial]) -> tuple[str, str]:
        return attempt(one[1])

    controls = [("", given.without_mutant()) for _, given in waiting[::25]]
    failing = set()
    for _, ended in _each("controls", tried, controls, workers, lambda one: one[1].limit):
        status, by = ended.result or ("not run", ended.reason)
        if status not in ("survived", "killed") or by.startswith(("importing", "collecting")):
            raise RuntimeError(f"without any mutant: {by}")
        failing |= {by} if status == "killed" else set()
    if failing:
        print(f"!! fail without any mutant, in another order, and are left out: {sorted(failing)}", flush=True)
        fewer = {digest: reach.without(failing) for digest, reach in reaches.items()}
        return try_mutants(project, texts, chosen, fewer, store, workers)
    for (tests, given), ended in _each("mutants", tried, waiting, workers, lambda one: one[1].limit):
        status, by = ended.result if not ended.reason else ("killed", ended.reason)
        if ended.reason == "timed out":
            status, by = "timed out", ""
        if status == "not run":
            raise RuntimeError(by)
        if project.slow and status in NOTICED:
            status = "killed slowly"
        record = {"status": status, "by": by, "seconds": round(ended.seconds, 2), tier: tests}
        store.keep(given.mutant.name, {**store.known.get(given.mutant.name, {}), **record})
        if status == "survived":
            old, new = given.mutant.lines(given.source)
            print(f"   {given.mutant.file}:{given.mutant.first} survived\n      - {old}\n      + {new}", flush=True)


def _each(
    what: str, function: Callable[[Any], Any], jobs: list[Any], workers: int, limit: Callable[[Any], float]
) -> Iterator[tuple[Any, Ended]]:
    """Runs jobs in forked processes, and says how far it is every ten seconds."""
    began = told = time.monotonic()
    for done, pair in enumerate(forked(function, jobs, workers=workers, limit=limit), 1):
        yield pair
        if time.monotonic() - told > 10 or done == len(jobs):
            told = time.monotonic()
            print(f"{done} of {len(jobs)} {what}, {told - began:.0f} s", flush=True)


def _load(names: Iterable[str]) -> None:
    """Imports what all tests need from elsewhere, so that no forked process has to."""
    for name in names:
        with suppress(Exception):  # a part of a package that can't be imported on its own
            import_module(name)


def run(
    project: Project,
    work: Path,
    *,
    only: str = "",
    size: int | None = None,
    seed: int,
    workers: int,
    slow: bool = False,
    kept: bool = False,
) -> Sample:
    """Makes, draws and tries mutants of the files whose names begin with ``only``."""
    texts = {file: text for file, text in project.files().items() if file.startswith(only)}
    results = Store(work / "results.jsonl")
    if not kept:
        ((_, imported),) = forked(third_party, [project], workers=1, limit=lambda _: _PATIENCE)
        _load(imported.result or ())
    found = find_mutants(texts, Store(work / "mutants.jsonl"), workers)
    chosen = drawn(found, size, seed)
    for tier in [] if kept else [project, evolve(project, slow=True)][: 1 + slow]:
        reaches = find_reaches(tier, Store(work / "reaches.jsonl"), workers)
        for name in (name for reach in reaches.values() for name in reach.broken):
            print(f"!! {name} fails without any mutant, and is left out", flush=True)
        try_mutants(tier, texts, chosen, reaches, results, workers)
    findings = [
        Finding(mutant.file, mutant.first, mutant.operator, *mutant.lines(texts[mutant.file]), known["status"])
        for mutant in chosen
        if (known := results.known.get(mutant.name)) is not None
    ]
    return Sample(tuple(findings), len(found), seed)


def main(arguments: list[str] | None = None) -> int:
    parser = resumable(
        "mutation", (__doc__ or "").splitlines()[0], only="files whose names begin so, such as bounds", page=PAGE
    )
    parser.set_defaults(workers=os.cpu_count())
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants, drawn from all (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    parser.add_argument("--tests", default="test_*.py", metavar="PATTERN", help="test files (default: %(default)s)")
    parser.add_argument("--slow", action="store_true", help="try survivors again, with slow tests among theirs")
    given = parser.parse_args(arguments)
    if given.write and (given.only or given.tests != parser.get_default("tests")):
        parser.error("--write needs all files: leave --only and --tests out")
    if given.workers < 1 or (given.sample is not None and given.sample < 1):
        parser.error("--workers and --sample are at least 1")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # ends what was forked, too
    sample = run(
        evolve(ACCOUNTING, pattern=given.tests),
        given.work / "mutation",
        only=given.only,
        size=given.sample,
        seed=given.seed,
        workers=given.workers,
        slow=given.slow,
        kept=given.kept,
    )
    known = explanations()
    print(summary(sample, known))
    if given.write:
        PAGE.write_text(page(sample, known), encoding="utf-8")
    return 1 if sample.unexplained(known) else 0


if __name__ == "__main__":
    raise SystemExit(main())
