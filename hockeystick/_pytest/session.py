"""The end of a run: what all tests found, put together; the lock file is compared, or written.

Only the process that collects the reports comes here, once. The lock file is replaced as a whole or not at all, and

* an update writes what tests *that passed* recorded, and keeps every other entry as it is, to the byte. A test passed
  if its call did, and nothing marks it as expected to fail;
* entries that no test recorded are stale. That is said of, and on an update they are removed by, *whole* runs only:
  everything was collected and ran to its end, nothing was deselected or ignored, and every test that uses
  ``privacy_lock`` passed. Of any other run it is said how many entries were not checked, and why;
* a run that was interrupted leaves the file as it was.

A refused budget is a finding whatever becomes of its test: a test that is expected to fail, or that catches the
refusal, approves nothing.
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
from hockeystick._pytest.record import AUDIT, BUDGET, EVIDENCE
from hockeystick._pytest.settings import Settings, settings
from hockeystick.accounting.numerics import rounded_text

Outcome = Literal["passed", "failed", "skipped", "expected", "unfinished"]

_SAID = {"expected": "is marked as expected to fail", "unfinished": "was not run to its end"}
_LEFT_OUT = ("lf", "stepwise")  # options that leave out tests and say so to nobody
_COLLECTING = ("testpaths", "python_files", "python_classes", "python_functions", "norecursedirs")


@frozen
class PrivacyTest:
    """A test that uses our fixtures.

    Attributes:
      key: Its name, which begins with the file that collects it, below the root folder.
      file, line: Where it is defined, counted from 1.
      outcome: "expected" of one that is marked as expected to fail, whatever it did; "unfinished"
        of one without a call.
      parts_skipped: Whether a part of it was (a subtest).
      uses: Which of our fixtures.
      budgets, audits: What it recorded: (name, budget), and (fixture, verdict as plain values).
      refusals: (name, why) of budgets that could not be certified.
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
        """How it ended, in words."""
        return _SAID.get(self.outcome, self.outcome)


@frozen
class Recorded:
    """A budget as a test recorded it, and how it differs from the locked one."""

    name: str
    budget: Budget
    change: Change
    test: PrivacyTest


@frozen
class Finding:
    """Something that a reader should see at a line of a file.

    Attributes:
      rule: Which kind, one of ``RULES``.
      subject: The budget or the test; with the rule it identifies the finding from run to run.
      file, line: Below the root folder, from 1.
    """

    rule: str
    level: Literal["error", "warning", "note"]
    subject: str
    message: str
    file: str
    line: int


RULES = {
    "budget-new": "A privacy budget is not in the lock file",
    "budget-terms": "A privacy budget is about something else than the locked one",
    "budget-rise": "A privacy budget rose above the locked one",
    "budget-fall": "A privacy budget fell below the locked one",
    "budget-graph": "A locked privacy budget comes from another event graph",
    "budget-stale": "No test records a locked privacy budget any more",
    "budget-unknown": "A privacy budget could not be certified",
    "budget-conflict": "Two tests record different privacy budgets under one name",
    "lock-unreadable": "The privacy lock file can't be read or written",
    "claim-refuted": "Samples refute a privacy claim",
    "audit-inconclusive": "A privacy audit could not have found a gross violation",
    "audit-unregistered": "A privacy audit has no number in the lock file",
    "audits-too-many": "More privacy audits have no number in the lock file than may",
}


@define
class Summary:
    """All that is known at the end of a run.

    Attributes:
      settings: Of the run.
      root: Pytest's root folder.
      tests: By file and line.
      budgets: By name.
      numbers: Of the tests that audit and are registered.
      findings: In the order of ``RULES``.
      notes: Further sentences for a reader.
      lock_changes: What an update did to the lock file, a line each; None if it was not asked for, or not done.
      partial: Why the run was not a whole one.
      unchecked: Names of locked budgets of which such a run says nothing.
      interrupted: Whether it was.
      failed: Whether something failed the run that failed no test.
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
    """What the hooks of a run saw until it ended. In a parallel run every process has one.

    Attributes:
      reports: Of the tests that use our fixtures, each phase of each.
      problems: What went wrong so far that may have hidden a budget, in words.
      deselected, collected: How many tests were collected and will not run, and will.
      finished: Node ids of the tests that ran to the end of their call, or ended at their set-up.
      ignored: Paths that were not looked into.
      interrupted: Whether somebody stopped the run, by Ctrl-C or ``pytest.exit``.
    """

    reports: list[pytest.TestReport]
    problems: list[str]
    deselected: int
    collected: int
    finished: set[str]
    ignored: set[str]
    interrupted: bool


def finish(session: pytest.Session, seen: Seen) -> Summary:
    """Returns what a run found, after writing the lock file."""
    given = settings(session.config)
    tests = tuple(sorted(_tests(seen.reports), key=lambda test: (test.file, test.line, test.key)))
    summary = Summary(given, session.config.rootpath, tests)
    # ended in order, even if tests failed or there are none; pytest.exit may state any exit status
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
        if report.outcome in ("passed", "failed", "skipped"):  # a plugin that runs tests again has a fourth one
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
    """How a test ended: by all of its reports, and those of its parts (subtests), which have a context."""
    if any(report.failed for report in reports):
        return "failed"
    if any(hasattr(report, "wasxfail") for report in reports):
        return "expected"
    whole = [report for report in reports if not hasattr(report, "context")]
    if any(report.skipped for report in whole):
        return "skipped"
    return "passed" if any(report.when == "call" for report in whole) else "unfinished"


def _left_out(session: pytest.Session, seen: Seen, summary: Summary) -> Iterable[str]:
    """Why this run may have missed a budget that some test records."""
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
            yield "only a part of the tests was asked for"
    if summary.interrupted or session.shouldfail or session.shouldstop:
        yield "the run stopped early"
    if len(seen.finished) < seen.collected:
        yield f"{len(seen.finished)} of {seen.collected} tests were run to their end"
    if not seen.collected:
        yield "no test was collected"
    for test in summary.tests:
        if "privacy_lock" in test.uses and (test.outcome != "passed" or test.parts_skipped):
            yield f"{test.key} {test.ended if test.outcome != 'passed' else 'has skipped parts'}"


def _would_collect(config: pytest.Config, path: Path) -> bool:
    """Returns whether an ignored path has tests, and is none that pytest ignores in every run."""
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
    """As pytest matches: a pattern with a separator by the whole path, any other by the name."""
    return any(fnmatch(str(path), f"*{os.sep}{one}") if os.sep in one else fnmatch(path.name, one) for one in patterns)


def _add(summary: Summary, rule: str, level: Any, subject: str, message: str, file: str, line: int) -> None:
    summary.findings.append(Finding(rule, level, subject, message, file, line))


def _below(summary: Summary, path: Path) -> str:
    """Returns the path from the root folder, which may begin with dots."""
    try:
        return Path(os.path.relpath(path, summary.root)).as_posix()
    except ValueError:  # on another drive
        return path.as_posix()


def tested_at(verdict: dict[str, Any]) -> str:
    """Returns at which δ a violation could have been detected, where that is not the stated one: of a curve."""
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
                what = f"the curve of {claim}{at}, if not that point" if alone else claim
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
            # of several tests the one that counts is one that passed, and among these the first
            if before.test.outcome != "passed" and test.outcome == "passed":
                found[name] = Recorded(name, budget, change, test)
    summary.failed |= bool(conflicts)
    summary.budgets = tuple(found[name] for name in sorted(found))
    if not summary.settings.update:
        _judge_changes(summary, lock, conflicts)
    _judge_unknown(summary, lock)


def _judge_changes(summary: Summary, lock: LockFile, conflicts: set[str]) -> None:
    """Every way in which a budget is not as it was locked, in whichever test, and whatever became of that."""
    said = set()
    for test in summary.tests:
        for name, budget in test.budgets:
            change = compare(lock.budgets.get(name), budget)
            if change.kind != "same" and name not in conflicts and (name, change.kind) not in said:
                said.add((name, change.kind))
                level = "error" if change.refused or summary.settings.strict else "warning"
                text = sentence(name, change, summary.settings.lock.name)
                _add(summary, f"budget-{change.kind}", level, name, text, test.file, test.line)
                summary.failed |= summary.settings.strict


def _judge_unknown(summary: Summary, lock: LockFile) -> None:
    """Budgets that could not be certified, and tests that failed before they came to theirs."""
    for test in summary.tests:
        recorded = {name for name, _ in test.budgets}
        for name, why in test.refusals:
            # a test that passed expected the refusal: it is news if the name is locked
            if name not in recorded and (test.outcome != "passed" or name in lock.budgets):
                text = f"the privacy budget {name!r} could not be certified: {why}"
                _add(summary, "budget-unknown", "error", name, text, test.file, test.line)
                summary.failed |= summary.settings.strict
        if "privacy_lock" in test.uses and test.outcome == "failed" and not recorded and not test.refusals:
            text = f"{test.key} failed before it recorded a privacy budget: what it locks was not checked"
            _add(summary, "budget-unknown", "error", test.key, text, test.file, test.line)


def _judge_unrecorded(summary: Summary, lock: LockFile) -> None:
    """Locked budgets that no test recorded: stale after a whole run, and not checked by any other."""
    file, missing = summary.settings.lock, _missing(summary, lock)
    if summary.partial:
        refused = {name for test in summary.tests for name, _ in test.refusals}
        summary.unchecked = tuple(name for name in missing if name not in refused)
        return
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
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
            f"{len(fresh)} tests audit and have no number in {file.name}; privacy_false_alarms bounds "
            f"{UNREGISTERED} of them at most: {UPDATE}"
        )
        _add(summary, "audits-too-many", "error", file.name, text, _below(summary, file), 1)
        summary.failed = True
    if lock.budgets or lock.audits:  # else nobody keeps a lock file here
        for test in fresh:
            text = f"{test.key} audits and has no number in {file.name}: pytest --privacy-update gives it one"
            _add(summary, "audit-unregistered", "note", test.key, text, test.file, test.line)
            summary.failed |= summary.settings.strict


def _to_register(summary: Summary, lock: LockFile) -> list[PrivacyTest]:
    """Tests that used the part of the suite's false alarms that those without a number share."""
    if summary.settings.false_alarms is None:
        return []
    shared = {AUDIT} if summary.settings.ledger else {AUDIT, EVIDENCE}
    audited = [test for test in summary.tests if any(kind in shared for kind, _ in test.audits)]
    return [test for test in audited if test.key not in lock.audits]


def _update(summary: Summary, lock: LockFile) -> None:
    file = summary.settings.lock
    if summary.interrupted:
        summary.notes.append(f"the run was interrupted: {file.name} was left as it was")
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
            summary.notes.append(f"{len(missing)} entries that this run did not record were kept ({reasons(summary)})")
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
    """Why a run was not a whole one, in at most three parts."""
    more = len(summary.partial) - 2
    return "; ".join([*summary.partial[:2], *([f"and {more} more reasons"] if more > 0 else [])])


def _registered(lock: LockFile, audits: Mapping[str, int], fresh: Iterable[PrivacyTest]) -> LockFile:
    """Returns the lock file with further tests, which are given the next numbers in the order of their names."""
    numbers = {key: lock.registered + i + 1 for i, key in enumerate(sorted({test.key for test in fresh}))}
    return LockFile(lock.budgets, {**audits, **numbers}, lock.registered + len(numbers))
