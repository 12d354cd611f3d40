"""The end of a run: the summary of all tests, and the comparison or update of the lock file.

This runs once, in the process that collects the reports. The lock file is replaced atomically, and

* an update writes the budgets of tests *that passed*, and leaves every other entry unchanged. A test passed if its call
  passed and it is not marked as expected to fail;
* entries that no test recorded are stale. Only *whole* runs report them, or remove them in an update: everything was
  collected and ran to its end, nothing was deselected or ignored, and every test that uses ``privacy_lock`` passed.
  Any other run reports how many entries were not checked, and why;
* an interrupted run leaves the file unchanged.

A refused budget is a finding even if its test passes: a test that is expected to fail, or that catches the refusal,
approves nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest
from attrs import define, evolve, field, frozen

from hockeystick._pytest.budget_fixture import sentence
from hockeystick._pytest.levels import UNREGISTERED
from hockeystick._pytest.lock_file import UPDATE, Budget, Change, LockFile, PrivacyLockError, compare
from hockeystick._pytest.plugin_settings import Settings, settings
from hockeystick._pytest.records import AUDIT, BUDGET, EVIDENCE
from hockeystick.accounting.files.reading import read_text
from hockeystick.accounting.numerics import rounded_text

Outcome = Literal["passed", "failed", "skipped", "expected", "unfinished"]

_ENDED = {"expected": "is marked as expected to fail", "unfinished": "did not run to its end"}
_LEFT_OUT = ("lf", "stepwise")  # options that leave out tests without reporting them
_COLLECTING = ("testpaths", "python_files", "python_classes", "python_functions", "norecursedirs")


@frozen
class PrivacyTest:
    """A test that uses fixtures of this plugin.

    Attributes:
      key: Its name, which begins with the file that collects it, below the root folder.
      file, line: The place of its definition; lines count from 1.
      outcome: "expected" for a test that is marked as expected to fail, whatever its result; "unfinished" for a test
        without a call.
      parts_skipped: Whether a part of it (a subtest) was skipped.
      uses: The fixtures of this plugin that it uses.
      budgets, audits: Its recorded budgets (name, budget) and audits (fixture, verdict as plain values).
      refusals: (name, reason) of budgets that could not be certified.
    """

    key: str
    file: str
    line: int
    outcome: Outcome
    parts_skipped: bool
    uses: tuple[str, ...]
    budgets: tuple[tuple[str, Budget], ...]
    audits: tuple[tuple[str, dict[str, Any]], ...]
    refusals: tuple[tuple[str, str], ...]

    @property
    def ended(self) -> str:
        """The outcome in words."""
        return _ENDED.get(self.outcome, self.outcome)


@frozen
class Recorded:
    """A budget that a test recorded, and its difference from the locked one."""

    name: str
    budget: Budget
    change: Change
    test: PrivacyTest


@frozen
class Finding:
    """A finding for the reader, at a line of a file.

    Attributes:
      rule: The kind of finding, a key of ``RULES``.
      subject: The budget or the test; with the rule it identifies the finding over several runs.
      file, line: The path below the root folder, and the line, from 1.
    """

    rule: str
    level: Literal["error", "warning", "note"]
    subject: str
    message: str
    file: str
    line: int


RULES = {
    "budget-new": "A privacy budget is not in the lock file",
    "budget-terms": "A privacy budget has other terms than the locked one",
    "budget-rise": "A privacy budget rose above the locked one",
    "budget-fall": "A privacy budget fell below the locked one",
    "budget-graph": "A privacy budget equals the locked one, but comes from another event graph",
    "budget-stale": "No test records a locked privacy budget any more",
    "budget-unknown": "A privacy budget could not be certified",
    "budget-conflict": "Two tests record different privacy budgets under one name",
    "lock-unreadable": "The privacy lock file can't be read or written",
    "claim-refuted": "Samples refute a privacy claim",
    "audit-inconclusive": "A privacy audit could not have found a gross violation",
    "audit-unregistered": "A privacy audit has no number in the lock file",
    "audits-too-many": "Too many privacy audits have no number in the lock file",
}


@define
class Summary:
    """The summary of a run.

    Attributes:
      settings: The settings of the run.
      root: Pytest's root folder.
      tests: The tests, sorted by file and line.
      budgets: The budgets, sorted by name.
      numbers: The numbers of the registered auditing tests.
      findings: The findings, in the order of ``RULES``.
      notes: Further sentences for the reader.
      lock_changes: The changes of an update to the lock file, one line each; None without an update.
      partial: The reasons why the run was not a whole one.
      unchecked: Names of locked budgets that a partial run did not check.
      interrupted: Whether the run was interrupted.
      failed: Whether the run fails for a reason that failed no test.
    """

    settings: Settings
    root: Path
    tests: tuple[PrivacyTest, ...]
    budgets: tuple[Recorded, ...] = ()
    numbers: Mapping[str, int] = field(factory=dict)
    findings: list[Finding] = field(factory=list)
    notes: list[str] = field(factory=list)
    lock_changes: tuple[str, ...] | None = None
    partial: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    interrupted: bool = False
    failed: bool = False


class Seen(Protocol):
    """The observations of the hooks in a run. In a parallel run every process has its own.

    Attributes:
      reports: The reports of each phase of the tests that use fixtures of this plugin.
      problems: Problems that may have hidden a budget, in words.
      deselected, collected: The numbers of collected tests that were deselected, and that will run.
      finished: Node ids of the tests that ran to the end of their call, or ended in their set-up.
      ignored: Paths that were not collected.
      interrupted: Whether Ctrl-C or ``pytest.exit`` stopped the run.
    """

    reports: list[pytest.TestReport]
    problems: list[str]
    deselected: int
    collected: int
    finished: set[str]
    ignored: set[str]
    interrupted: bool


def finish(session: pytest.Session, seen: Seen) -> Summary:
    """Returns the summary of a run, after updating the lock file if requested."""
    given = settings(session.config)
    tests = tuple(sorted(_tests(seen.reports), key=lambda test: (test.file, test.line, test.key)))
    summary = Summary(given, session.config.rootpath, tests)
    # 0, 1 and 5 are regular ends: passed, failed, no tests; pytest.exit may set any exit status
    summary.interrupted = seen.interrupted or session.exitstatus not in (0, 1, 5)
    summary.partial = tuple(_left_out(session, seen, summary))
    _judge_audits(summary)
    try:
        lock = LockFile.read(given.lock)
    except PrivacyLockError as error:
        _add(summary, "lock-unreadable", "error", given.lock.name, str(error), _below(summary, given.lock), 1)
        summary.failed = True
    else:
        summary.numbers = lock.audits
        _judge_budgets(summary, lock)
        if given.update:
            _update(summary, lock)
        else:
            _judge_unrecorded(summary, lock)
            _judge_numbers(summary, lock)
    order = list(RULES)
    summary.findings.sort(key=lambda one: (order.index(one.rule), one.file, one.line, one.subject))
    return summary


def _tests(reports: Iterable[pytest.TestReport]) -> Iterable[PrivacyTest]:
    phases: dict[str, list[Any]] = {}
    for report in reports:
        if report.outcome in ("passed", "failed", "skipped"):  # plugins that rerun tests have a fourth outcome
            phases.setdefault(report.nodeid, []).append(report)
    for found in phases.values():
        last, left = found[-1], found[-1].hockeystick
        values = [(kind, json.loads(text)) for kind, text in left["values"]]
        budgets = [value for kind, value in values if kind == BUDGET]
        yield PrivacyTest(
            key=left["key"],
            file=Path(last.location[0]).as_posix(),
            line=(last.location[1] or 0) + 1,
            outcome=_outcome(found),
            parts_skipped=any(report.skipped and hasattr(report, "context") for report in found),
            uses=tuple(left["uses"]),
            budgets=tuple((row["name"], Budget.from_dict(row["budget"])) for row in budgets if "budget" in row),
            audits=tuple((kind, value) for kind, value in values if kind != BUDGET),
            refusals=tuple((row["name"], row["error"]) for row in budgets if "error" in row),
        )


def _outcome(reports: list[Any]) -> Outcome:
    """Returns the outcome of a test from its reports and those of its parts (subtests), which have a context."""
    if any(report.failed for report in reports):
        return "failed"
    if any(hasattr(report, "wasxfail") for report in reports):
        return "expected"
    whole = [report for report in reports if not hasattr(report, "context")]
    if any(report.skipped for report in whole):
        return "skipped"
    return "passed" if any(report.when == "call" for report in whole) else "unfinished"


def _left_out(session: pytest.Session, seen: Seen, summary: Summary) -> Iterable[str]:
    """Yields the reasons why this run may have missed a budget that some test records."""
    config = session.config
    yield from seen.problems
    if seen.deselected:
        yield f"{seen.deselected} tests were deselected"
    if ignored := sorted(path for path in seen.ignored if _would_collect(config, Path(path))):
        yield f"{len(ignored)} paths with tests were ignored, the first {_below(summary, Path(ignored[0]))}"
    for name in _LEFT_OUT:
        if getattr(config.option, name, None):
            yield f"the option {name} was given"
    for text in config.option.override_ini or ():
        if text.partition("=")[0].strip() in _COLLECTING:
            yield f"{text} was given"
    wanted = [config.rootpath / path for path in config.getini("testpaths")] or [config.rootpath]
    if config.args_source is not config.ArgsSource.TESTPATHS:
        base = config.invocation_params.dir
        given = [(base / argument).resolve() for argument in config.args]
        if not all(any(path.resolve().is_relative_to(one) for one in given) for path in wanted):
            yield "only a part of the tests was selected"
    if summary.interrupted or session.shouldfail or session.shouldstop:
        yield "the run stopped early"
    if len(seen.finished) < seen.collected:
        yield f"{len(seen.finished)} of {seen.collected} tests ran to their end"
    if not seen.collected:
        yield "no test was collected"
    for test in summary.tests:
        if "privacy_lock" in test.uses and (test.outcome != "passed" or test.parts_skipped):
            yield f"{test.key} {test.ended if test.outcome != 'passed' else 'has skipped parts'}"


def _would_collect(config: pytest.Config, path: Path) -> bool:
    """Returns whether an ignored path has tests, and is not one that pytest ignores in every run."""
    files, folders = config.getini("python_files"), config.getini("norecursedirs")
    if not path.is_dir():
        return _matches(path, files)
    if path.name == "__pycache__" or _matches(path, folders):
        return False
    environment = (path / "pyvenv.cfg").is_file() or (path / "conda-meta" / "history").is_file()
    if environment and not config.option.collect_in_virtualenv:
        return False
    return any(_matches(file, files) for file in path.rglob("*.py"))


def _matches(path: Path, patterns: Iterable[str]) -> bool:
    """Returns whether a pattern matches, as in pytest: one with a separator the whole path, any other the name."""
    return any(fnmatch(str(path), f"*{os.sep}{one}") if os.sep in one else fnmatch(path.name, one) for one in patterns)


def _add(summary: Summary, rule: str, level: Any, subject: str, message: str, file: str, line: int) -> None:
    summary.findings.append(Finding(rule, level, subject, message, file, line))


def _below(summary: Summary, path: Path) -> str:
    """Returns the path relative to the root folder; it may begin with dots."""
    try:
        return Path(os.path.relpath(path, summary.root)).as_posix()
    except ValueError:  # on another drive
        return path.as_posix()


def tested_at(verdict: dict[str, Any]) -> str:
    """Returns the δ of the tested point of a curve, in words; empty if it is the stated one."""
    elsewhere = (verdict["epsilon_tested"], verdict["delta_tested"]) != (verdict["epsilon_claimed"], verdict["delta"])
    return f" at δ = {verdict['delta_tested']:g}" if elsewhere else ""


def _judge_audits(summary: Summary) -> None:
    for test in summary.tests:
        for _, verdict in test.audits:
            claim = f"the claim ({verdict['epsilon_claimed']:g}, {verdict['delta']:g})"
            if verdict["outcome"] == "refuted" and test.outcome == "failed":
                least = rounded_text.lower(verdict["epsilon_lower"], 3)
                at = tested_at(verdict)
                alone = at and verdict["epsilon_lower"] <= verdict["epsilon_claimed"]
                what = f"the curve of {claim}{at}, but not the stated point" if alone else claim
                text = f"samples refute {what}: ε is at least {least}, through {verdict['event']}"
                _add(summary, "claim-refuted", "error", test.key, text, test.file, test.line)
            elif verdict["outcome"] == "inconclusive" and test.outcome == "passed":
                found = verdict["detectable_epsilon"]
                could = "no violation" if found is None else f"only an ε of {found:.3g}{tested_at(verdict)}"
                text = f"{claim} was audited with {verdict['samples']} samples, which would have refuted {could}"
                _add(summary, "audit-inconclusive", "note", test.key, text, test.file, test.line)


def _judge_budgets(summary: Summary, lock: LockFile) -> None:
    found: dict[str, Recorded] = {}
    conflicts = set()
    for test in summary.tests:
        for name, budget in test.budgets:
            change = compare(lock.budgets.get(name), budget)
            before = found.setdefault(name, Recorded(name, budget, change, test))
            if compare(before.budget, budget).kind != "same" and "expected" not in (test.outcome, before.test.outcome):
                text = f"the privacy budget {name!r} is {budget} here and {before.budget} in {before.test.key}"
                _add(summary, "budget-conflict", "error", name, text, test.file, test.line)
                conflicts.add(name)
            # of several tests the first that passed counts
            if before.test.outcome != "passed" and test.outcome == "passed":
                found[name] = Recorded(name, budget, change, test)
    summary.failed |= bool(conflicts)
    summary.budgets = tuple(found[name] for name in sorted(found))
    if not summary.settings.update:
        _judge_changes(summary, lock, conflicts)
    _judge_unknown(summary, lock)


def _judge_changes(summary: Summary, lock: LockFile, conflicts: set[str]) -> None:
    """Adds findings for every difference of a budget from the locked one, in any test with any outcome."""
    reported = set()
    for test in summary.tests:
        for name, budget in test.budgets:
            change = compare(lock.budgets.get(name), budget)
            if change.kind != "same" and name not in conflicts and (name, change.kind) not in reported:
                reported.add((name, change.kind))
                level = "error" if change.refused or summary.settings.strict else "warning"
                text = sentence(name, change, summary.settings.lock.name)
                _add(summary, f"budget-{change.kind}", level, name, text, test.file, test.line)
                summary.failed |= summary.settings.strict


def _judge_unknown(summary: Summary, lock: LockFile) -> None:
    """Adds findings for budgets that could not be certified, and for tests that failed before recording theirs."""
    for test in summary.tests:
        recorded = {name for name, _ in test.budgets}
        for name, why in test.refusals:
            # a test that passed expected the refusal, which is a finding only for a locked name
            if name not in recorded and (test.outcome != "passed" or name in lock.budgets):
                text = f"the privacy budget {name!r} could not be certified: {why}"
                _add(summary, "budget-unknown", "error", name, text, test.file, test.line)
                summary.failed |= summary.settings.strict
        if "privacy_lock" in test.uses and test.outcome == "failed" and not recorded and not test.refusals:
            text = f"{test.key} failed before it recorded a privacy budget: its locked budget was not checked"
            _add(summary, "budget-unknown", "error", test.key, text, test.file, test.line)


def _judge_unrecorded(summary: Summary, lock: LockFile) -> None:
    """Adds findings for locked budgets that no test recorded: stale after a whole run, otherwise unchecked."""
    file, missing = summary.settings.lock, _missing(summary, lock)
    if summary.partial:
        refused = {name for test in summary.tests for name, _ in test.refusals}
        summary.unchecked = tuple(name for name in missing if name not in refused)
        return
    lines = read_text(file).splitlines() if file.exists() else []
    for name in missing:
        start = f"    {json.dumps(name, ensure_ascii=False)}: {{"
        line = next((i + 1 for i, text in enumerate(lines) if text == start), 1)
        text = (
            f"no test records the privacy budget {name!r} of {file.name} any more; pytest --privacy-update removes it"
        )
        level = "error" if summary.settings.strict else "warning"
        _add(summary, "budget-stale", level, name, text, _below(summary, file), line)
        summary.failed |= summary.settings.strict


def _missing(summary: Summary, lock: LockFile) -> list[str]:
    return sorted(lock.budgets.keys() - {one.name for one in summary.budgets})


def _judge_numbers(summary: Summary, lock: LockFile) -> None:
    file, fresh = summary.settings.lock, _to_register(summary, lock)
    if len(fresh) > UNREGISTERED:
        text = (
            f"{len(fresh)} auditing tests have no number in {file.name}; privacy_false_alarms allows at most "
            f"{UNREGISTERED} of them: {UPDATE}"
        )
        _add(summary, "audits-too-many", "error", file.name, text, _below(summary, file), 1)
        summary.failed = True
    if lock.budgets or lock.audits:  # otherwise the project has no lock file
        for test in fresh:
            text = f"{test.key} audits and has no number in {file.name}: pytest --privacy-update gives it one"
            _add(summary, "audit-unregistered", "note", test.key, text, test.file, test.line)
            summary.failed |= summary.settings.strict


def _to_register(summary: Summary, lock: LockFile) -> list[PrivacyTest]:
    """Returns the tests that used the part of the suite's false alarms for unregistered tests."""
    if summary.settings.false_alarms is None:
        return []
    shared = {AUDIT} if summary.settings.ledger else {AUDIT, EVIDENCE}
    audited = [test for test in summary.tests if any(kind in shared for kind, _ in test.audits)]
    return [test for test in audited if test.key not in lock.audits]


def _update(summary: Summary, lock: LockFile) -> None:
    file = summary.settings.lock
    if summary.interrupted:
        summary.notes.append(f"the run was interrupted: {file.name} is unchanged")
        return
    conflicts = {one.subject for one in summary.findings if one.rule == "budget-conflict"}
    budgets, lines = dict(lock.budgets), []
    for one in summary.budgets:
        if one.change.kind == "same":
            continue
        if one.test.outcome != "passed" or one.name in conflicts or not one.budget.finite:
            why = "tests disagree" if one.name in conflicts else f"its test {one.test.ended}"
            why = why if one.budget.finite else "an infinite ε can't be locked"
            summary.notes.append(f"{one.name!r} was not updated: {why}")
            continue
        budgets[one.name] = one.budget
        kind = {"terms": "changed", "graph": "event graph"}.get(one.change.kind, one.change.kind)
        lines.append(f"{kind}: {one.name!r}, {', '.join(one.change.lines)}")
    audits = dict(lock.audits)
    if missing := _missing(summary, lock):
        if summary.partial:
            summary.notes.append(f"{len(missing)} unrecorded entries were not removed ({reasons(summary)})")
        else:
            lines += [f"removed: {name!r}, {budgets.pop(name)}" for name in missing]
    if not summary.partial:
        audits = {key: number for key, number in audits.items() if key in {test.key for test in summary.tests}}
    updated = evolve(_registered(lock, audits, _to_register(summary, lock)), budgets=budgets)
    try:
        if updated.write(file) and not lines:
            lines.append(f"{len(updated.audits)} audits are registered")
    except PrivacyLockError as error:
        _add(summary, "lock-unreadable", "error", file.name, str(error), _below(summary, file), 1)
        summary.failed = True
        return
    summary.lock_changes = tuple(lines)


def reasons(summary: Summary) -> str:
    """Returns the reasons why a run was not a whole one, in at most three parts."""
    more = len(summary.partial) - 2
    return "; ".join([*summary.partial[:2], *([f"and {more} more reasons"] if more > 0 else [])])


def _registered(lock: LockFile, audits: Mapping[str, int], fresh: Iterable[PrivacyTest]) -> LockFile:
    """Returns the lock file with further tests, which get the next numbers in the order of their names."""
    numbers = {key: lock.registered + i + 1 for i, key in enumerate(sorted({test.key for test in fresh}))}
    return LockFile(lock.budgets, {**audits, **numbers}, lock.registered + len(numbers))
