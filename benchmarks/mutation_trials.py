"""Which tests reach which lines, and what they say of a mutant.

Both are found by pytest in forked processes (``mutation_forks``). A mutated file is in memory only: an import hook
gives its text, and the working tree stays as it is.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import asdict, evolve, field, frozen

from benchmarks.mutation_operators import Mutant

LONGEST = 20.0  # seconds of tests that a mutant gets, as they were measured: of processor time, as all here
_QUICK = 0.05  # seconds of a test that is run with any other one of its file
_OPTIONS = ("-q", "--tb=no", "-pno:cacheprovider", "-pno:xdist", "-Wignore::pytest.PytestAssertRewriteWarning")


@frozen
class Project:
    """What is mutated, and its tests.

    Attributes:
      root: the folder that pytest runs in.
      package: its dotted name.
      sources: the folder of its modules.
      tests: the folder of its tests.
      pattern: of the test files' names.
      slow: also tests that are marked slow.
    """

    root: Path
    package: str
    sources: Path
    tests: Path
    pattern: str = "test_*.py"
    slow: bool = False

    def files(self) -> dict[str, str]:
        """The text of each module, by the name of its file."""
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(self.sources.glob("*.py"))}

    def test_files(self) -> dict[str, str]:
        """The test files, from the root, each with a digest of it, of what tests share and of the sources."""
        helpers = [path for path in sorted(self.tests.glob("*.py")) if not path.name.startswith("test_")]
        shared = hashlib.sha256(bytes([self.slow]))
        for path in [*sorted(self.sources.glob("*.py")), *helpers]:
            shared.update(path.name.encode() + path.read_bytes())
        found = {}
        for path in sorted(self.tests.glob(self.pattern)):
            name = path.relative_to(self.root).as_posix()
            found[name] = hashlib.sha256(shared.digest() + name.encode() + path.read_bytes()).hexdigest()[:16]
        return found


@frozen(slots=False)
class Reach:
    """The tests of one file: how long each takes, and which lines it runs.

    Attributes:
      file: of tests, from the root.
      loading: seconds before the first test.
      tests: seconds of each test that passes, by its name.
      lines: for each source file and line, the places in ``tests`` of those that run it.
      broken: tests that fail on the unchanged sources; they are left out.
    """

    file: str
    loading: float
    tests: dict[str, float]
    lines: dict[str, dict[int, tuple[int, ...]]]
    broken: tuple[str, ...] = ()

    def reaching(self, mutant: Mutant) -> set[str]:
        """The tests that run the statement of a mutant; of a module's own code, those that run any line of its file."""
        lines = self.lines.get(mutant.file, {})
        wanted = lines if mutant.at_import else range(mutant.first, mutant.last + 1)
        names = list(self.tests)
        return {names[place] for line in wanted for place in lines.get(line, ())}

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        """How many lines of the sources each test runs."""
        places = Counter(place for by_line in self.lines.values() for some in by_line.values() for place in some)
        return {name: places[place] for place, name in enumerate(self.tests)}

    def without(self, names: set[str]) -> Reach:
        """The same without some tests."""
        places = {place: name for place, name in enumerate(self.tests) if name not in names}
        new = {old: place for place, old in enumerate(places)}
        lines = {
            source: {line: tuple(new[at] for at in some if at in new) for line, some in by_line.items()}
            for source, by_line in self.lines.items()
        }
        return evolve(self, tests={name: self.tests[name] for name in places.values()}, lines=lines)

    def as_record(self) -> dict[str, Any]:
        """As values that JSON knows: lines that the same tests run stand together."""
        grouped: dict[str, dict[str, str]] = {}
        for source, by_line in self.lines.items():
            together: dict[tuple[int, ...], list[int]] = {}
            for line, places in by_line.items():
                together.setdefault(places, []).append(line)
            grouped[source] = {_ranges(lines): _ranges(places) for places, lines in together.items()}
        return asdict(self) | {"lines": grouped}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Reach:
        """Reads ``as_record``."""
        lines = {
            source: {line: _numbers(places) for some, places in by_line.items() for line in _numbers(some)}
            for source, by_line in record["lines"].items()
        }
        return cls(**record | {"lines": lines, "broken": tuple(record["broken"])})


@frozen
class Trial:
    """A mutant and the tests that it gets: names by test file, in the order in which they run."""

    project: Project
    mutant: Mutant
    source: str
    steps: tuple[tuple[str, tuple[str, ...]], ...]
    seconds: Mapping[str, float] = field(repr=False)

    @property
    def limit(self) -> float:
        """Seconds after which it is given up, were no single test to take too long."""
        return 60.0 + 10 * sum(self.seconds.values())

    def without_mutant(self) -> Trial:
        """The same tests of the text as it is: none of them may fail."""
        mutant = evolve(self.mutant, text=self.source[self.mutant.start : self.mutant.end])
        return evolve(self, mutant=mutant)


def trial(project: Project, mutant: Mutant, source: str, reaches: Iterable[Reach], longest: float = LONGEST) -> Trial:
    """Chooses a mutant's tests: those that reach it and run little else first, with quick ones of their files.

    Then come the other tests of these files: a fixture or a cache may hide that they depend on the line, and what is
    done at import is seen by tests that run no line. All together take at most ``longest`` seconds, but for one test.
    """
    first = [(reach, name) for reach in reaches for name in reach.reaching(mutant)]
    first.sort(key=lambda one: (one[0].sizes[one[1]], one[0].tests[one[1]], one[1]))
    files = {reach.file: reach for reach, _ in first}
    others = [(reach, name) for reach in files.values() for name in sorted(reach.tests, key=reach.tests.__getitem__)]
    chosen, spent = dict[str, float](), 0.0
    steps: list[dict[str, list[str]]] = []

    def take(reach: Reach, name: str) -> None:
        nonlocal spent
        cost = reach.tests[name] + (0.0 if reach.file in steps[-1] else reach.loading)
        if name not in chosen and (spent + cost <= longest or not chosen):
            steps[-1].setdefault(reach.file, []).append(name)
            chosen[name] = reach.tests[name]
            spent += cost

    for some in (first, others):
        steps.append({})
        for reach, name in some:
            new = reach.file not in steps[-1]
            take(reach, name)
            if new and reach.file in steps[-1]:
                for other, took in reach.tests.items():
                    if took < _QUICK:
                        take(reach, other)
    given = tuple((file, tuple(names)) for step in steps for file, names in step.items())
    return Trial(project, mutant, source, given, chosen)


def attempt(given: Trial) -> tuple[str, str]:
    """Runs a mutant's tests in this process: ("killed", by which test) or ("survived", how many tests).

    A test that takes ten times as long as it should ends the process by SIGPROF.
    """
    _prepare(given.project, given.mutant.file, given.mutant.applied(given.source))
    _end_after(60.0)
    try:
        _import_all(given.project)
    except BaseException as error:  # whatever a mutant does while it is imported
        return "killed", f"importing: {type(error).__name__}"
    for file, names in given.steps:
        chosen = _Chosen(names, given.seconds)
        status = _pytest(given.project, [file, "-x"], chosen)
        if chosen.failed:
            return "killed", chosen.failed
        if status == pytest.ExitCode.USAGE_ERROR:
            return "not run", f"pytest does not take {file}"
        if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return "killed", f"collecting {file}"
    return "survived", f"{len(given.seconds)} tests"


def measure(project: Project, file: str) -> Reach:
    """Runs a test file in this process, and tells which lines its tests run; what they share is made anew for each."""
    os.environ["COVERAGE_CORE"] = "ctrace"  # the other one knows no contexts
    import coverage

    _prepare(project)
    _import_all(project)
    began = time.process_time()
    traced = coverage.Coverage(data_file=None, config_file=False, include=[f"{project.sources}/*.py"])
    recorder = _Recorder(traced, project.package.partition(".")[0])
    traced.start()
    marked = () if project.slow else ("-mnot slow",)
    status = _pytest(project, [file, *marked], recorder)
    traced.stop()
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"{file} can't be run: pytest ended with {status!r}")
    tests = {name: took for name, took in recorder.seconds.items() if name in recorder.passed}
    places = {name: place for place, name in enumerate(tests)}
    lines: dict[str, dict[int, tuple[int, ...]]] = {}
    data = traced.get_data()
    for path in data.measured_files():
        by_line = lines.setdefault(Path(path).name, {})
        for line, contexts in data.contexts_by_lineno(path).items():
            # What runs while the file is collected may be part of any of its tests.
            at = range(len(tests)) if "" in contexts else sorted(places[name] for name in contexts if name in places)
            by_line[line] = tuple(at)
    loading = max(0.0, time.process_time() - began - sum(recorder.seconds.values()))
    return Reach(file, round(loading, 4), tests, lines, tuple(sorted(recorder.failed)))


def third_party(project: Project) -> list[str]:
    """Names of modules from elsewhere that some of the test files import, in order; imports them in this process."""
    _prepare(project)
    _import_all(project)
    files = list(project.test_files())
    _pytest(project, ["--collect-only", *files[:: len(files) // 16 + 1]], None)
    inside = (str(project.root), "None")
    return [
        name
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and not str(getattr(module, "__file__", None)).startswith(inside)
    ]


def _end_after(seconds: float) -> None:
    """Ends this process after so many seconds of its own: what else the machine does makes no test too slow."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as "1-3,7"."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in found)


def _numbers(ranges: str) -> tuple[int, ...]:
    """Reads ``_ranges``."""
    pairs = (part.partition("-") for part in ranges.split(",") if part)
    return tuple(number for first, _, last in pairs for number in range(int(first), int(last or first) + 1))


def _prepare(project: Project, mutated: str = "", text: str = "") -> None:
    """Makes this process import the package from the project's sources, one of them with another text."""
    modules = {path.stem: path for path in project.sources.glob("*.py")}
    names = {f"{project.package}.{stem}" if stem != "__init__" else project.package: stem for stem in modules}
    texts = {Path(mutated).stem: text} if mutated else {}
    sys.meta_path.insert(0, _Finder({name: (modules[stem], texts.get(stem)) for name, stem in names.items()}))
    os.chdir(project.root)


def _import_all(project: Project) -> None:
    package = importlib.import_module(project.package)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{project.package}.{module.name}")


def _pytest(project: Project, arguments: Sequence[str], plugin: object) -> int:
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        options = [f"--rootdir={project.root}", f"--basetemp={folder}/tests", *_OPTIONS]
        return pytest.main([*arguments, *options], plugins=[] if plugin is None else [plugin])


class _Chosen:
    """Runs some of a file's tests, in their order, and ends the process where one takes far too long."""

    def __init__(self, names: Sequence[str], seconds: Mapping[str, float]) -> None:
        self.order = {name: place for place, name in enumerate(names)}
        self.seconds = seconds
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        _end_after(5 + 10 * self.seconds[item.nodeid])
        outcome = yield
        _end_after(60.0)
        return outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class _Recorder:
    """Notes which lines each test runs, and for how long."""

    def __init__(self, traced: Any, package: str) -> None:
        self.traced, self.package = traced, package
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._forget()
        began = time.process_time()
        self.traced.switch_context(item.nodeid)
        outcome = yield
        self.seconds[item.nodeid] = round(time.process_time() - began, 4)
        return outcome

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
            self.passed.discard(report.nodeid)
        elif report.when == "call" and report.passed and report.nodeid not in self.failed:
            self.passed.add(report.nodeid)

    def _forget(self) -> None:
        """Empties the caches of the package's functions: a test would not run what another one had computed."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == self.package:
                for value in vars(module).values():
                    if isinstance(value, functools._lru_cache_wrapper):
                        value.cache_clear()


class _Finder(MetaPathFinder):
    """Finds modules by their names."""

    def __init__(self, modules: Mapping[str, tuple[Path, str | None]]) -> None:
        self.modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name not in self.modules:
            return None
        file, text = self.modules[name]
        inside = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Loader(name, str(file), text)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)


class _Loader(SourceFileLoader):
    """Loads a module from its file, or from another text in its place."""

    def __init__(self, name: str, file: str, text: str | None) -> None:
        super().__init__(name, file)
        self.text = text

    def get_code(self, fullname: str) -> Any:
        if self.text is None:
            return super().get_code(fullname)
        return compile(self.text, self.path, "exec", dont_inherit=True)
