"""The end of a run: what all tests found, put together; the lock file is compared, or written.

Only the process that collects the reports comes here, once. The lock file is replaced as a whole or not at all, and

* an update writes what tests *that passed* recorded, and keeps every other entry as it is, to the byte;
* entries that no test recorded are stale. That is said of, and on an update they are removed by, *whole* runs only:
  everything was collected, nothing was deselected, and every test that uses ``privacy_lock`` passed;
* a run that was interrupted leaves the file as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import define, evolve, field, frozen

from hockeystick.accounting import digits
from hockeystick.pytest_budget import PROPERTY, sentence
from hockeystick.pytest_lock import Budget, Change, LockFile, PrivacyLockError, compare
from hockeystick.pytest_settings import Settings, settings
from hockeystick.pytest_support import AUDIT, EVIDENCE

Outcome = Literal["passed", "failed", "skipped", "expected"]

_LEFT_OUT = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "stepwise")


@frozen
class PrivacyTest:
    """A test that uses our fixtures.

    Attributes:
      key: file below the root folder, name and parameters.
      file, line: where it is, counted from 1.
      outcome: "expected" of one that fails and is meant to (xfail).
      number: its number among those that audit.
      budgets, audits: what it recorded: (name, budget), and (user property, verdict as plain values).
    """

    key: str
    file: str
    line: int
    outcome: Outcome
    uses: tuple[str, ...]
    number: int | None
    budgets: tuple[tuple[str, Budget], ...]
    audits: tuple[tuple[str, dict[str, Any]], ...]


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
      rule: which kind, one of ``RULES``.
      subject: the budget or the test; with the rule it identifies the finding from run to run.
      file, line: below the root folder, from 1.
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
    "budget-conflict": "Two tests record different privacy budgets under one name",
    "lock-unreadable": "The privacy lock file can't be read or written",
    "claim-refuted": "Samples refute a privacy claim",
    "audit-inconclusive": "A privacy audit could not have found a gross violation",
    "audit-unregistered": "A privacy audit has no number in the lock file",
}


@define
class Summary:
    """All that is known at the end of a run.

    Attributes:
      settings: of the run.
      root: pytest's root folder.
      tests: by file and line.
      budgets: by name.
      findings: in the order of ``RULES``.
      notes: further sentences for a reader.
      lock_changes: what an update did to the lock file, a line each; None if it was not asked for, or not done.
      partial: why the run was not a whole one.
      interrupted: whether it was.
      failed: whether something failed the run that failed no test.
    """

    settings: Settings
    root: Path
    tests: tuple[PrivacyTest, ...]
    budgets: tuple[Recorded, ...] = ()
    findings: list[Finding] = field(factory=list)
    notes: list[str] = field(factory=list)
    lock_changes: tuple[str, ...] | None = None
    partial: tuple[str, ...] = ()
    interrupted: bool = False
    failed: bool = False


def finish(session: pytest.Session, reports: Iterable[pytest.TestReport], left_out: Sequence[str]) -> Summary:
    """Returns what a run found, after writing the lock file and the reports that were asked for."""
    given = settings(session.config)
    tests = tuple(sorted(_tests(reports), key=lambda test: (test.file, test.line, test.key)))
    summary = Summary(given, session.config.rootpath, tests)
    summary.partial = tuple([*left_out, *_left_out(session, tests)])
    summary.interrupted = session.exitstatus not in (0, 1, 5)  # ended in order, even if tests failed or there are none
    _judge_audits(summary)
    try:
        lock = LockFile.read(given.lock)
    except PrivacyLockError as error:
        _add(summary, "lock-unreadable", "error", given.lock.name, str(error), _below(summary, given.lock), 1)
        summary.failed = True
    else:
        _judge_budgets(summary, lock)
        _judge_stale(summary, lock)
        if given.update:
            _update(summary, lock)
        elif lock.budgets or lock.audits:
            _judge_numbers(summary, lock)
    order = list(RULES)
    summary.findings.sort(key=lambda one: (order.index(one.rule), one.file, one.line, one.subject))
    if given.reports:
        from hockeystick.pytest_report import write_reports

        write_reports(summary)
    return summary


def _tests(reports: Iterable[pytest.TestReport]) -> Iterable[PrivacyTest]:
    phases: dict[str, list[Any]] = {}
    for report in reports:
        if report.outcome in ("passed", "failed", "skipped"):  # a plugin that runs tests again has a fourth one
            phases.setdefault(report.nodeid, []).append(report)
    for found in phases.values():
        last, marks = found[-1], found[-1].hockeystick
        outcome: Outcome = "passed"
        if any(report.failed for report in found):
            outcome = "failed"
        elif skipped := [report for report in found if report.skipped]:
            outcome = "expected" if any(hasattr(report, "wasxfail") for report in skipped) else "skipped"
        values = list(_ours(last.user_properties))
        budgets = {row["name"]: Budget.from_dict(row["budget"]) for name, row in values if name == PROPERTY}
        yield PrivacyTest(
            key=marks["key"],
            file=marks["key"].partition("::")[0],
            line=(last.location[1] or 0) + 1,
            outcome=outcome,
            uses=tuple(marks["uses"]),
            number=marks["number"],
            budgets=tuple(budgets.items()),
            audits=tuple(value for value in values if value[0] != PROPERTY),
        )


def _ours(properties: Iterable[tuple[str, object]]) -> Iterable[tuple[str, dict[str, Any]]]:
    """What our fixtures recorded; a test may use the same names for something else."""
    for name, text in properties:
        if name in (AUDIT, EVIDENCE, PROPERTY) and isinstance(text, str):
            with suppress(ValueError):
                value = json.loads(text)
                if isinstance(value, dict) and ("budget" if name == PROPERTY else "epsilon_claimed") in value:
                    yield name, value


def _left_out(session: pytest.Session, tests: Iterable[PrivacyTest]) -> Iterable[str]:
    """Why this run may have missed a budget that some test records."""
    config = session.config
    for name in _LEFT_OUT:
        if getattr(config.option, name, None):
            yield f"the option {name} was given"
    wanted = [config.rootpath / path for path in config.getini("testpaths")] or [config.rootpath]
    if config.args_source is not config.ArgsSource.TESTPATHS:
        base = config.invocation_params.dir
        given = [(base / argument).resolve() for argument in config.args]
        if not all(any(path.resolve().is_relative_to(one) for one in given) for path in wanted):
            yield "only a part of the tests was asked for"
    if session.shouldfail or session.shouldstop or session.exitstatus not in (0, 1, 5):
        yield "the run stopped early"
    for test in tests:
        if "privacy_lock" in test.uses and test.outcome != "passed":
            yield f"{test.key} {'was expected to fail' if test.outcome == 'expected' else test.outcome}"


def _add(summary: Summary, rule: str, level: Any, subject: str, message: str, file: str, line: int) -> None:
    summary.findings.append(Finding(rule, level, subject, message, file, line))


def _below(summary: Summary, path: Path) -> str:
    return path.relative_to(summary.root).as_posix() if path.is_relative_to(summary.root) else path.as_posix()


def tested_at(verdict: dict[str, Any]) -> str:
    """At which δ a violation could have been detected, where that is not the stated one: of a curve."""
    elsewhere = (verdict["epsilon_tested"], verdict["delta_tested"]) != (verdict["epsilon_claimed"], verdict["delta"])
    return f" at δ = {verdict['delta_tested']:g}" if elsewhere else ""


def _judge_audits(summary: Summary) -> None:
    for test in summary.tests:
        for _, verdict in test.audits:
            claim = f"the claim ({verdict['epsilon_claimed']:g}, {verdict['delta']:g})"
            if verdict["outcome"] == "refuted" and test.outcome == "failed":
                least = digits.lower(verdict["epsilon_lower"], 3)
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
    for one in summary.budgets:
        if one.change.kind == "same" or one.name in conflicts or summary.settings.update:
            continue
        # a refusal that a test expects, or catches, is no news
        if one.test.outcome == "failed" or (one.test.outcome == "passed" and not one.change.refused):
            level = "error" if one.change.refused or summary.settings.strict else "warning"
            text = sentence(one.name, one.change, summary.settings.lock.name)
            _add(summary, f"budget-{one.change.kind}", level, one.name, text, one.test.file, one.test.line)
            summary.failed |= summary.settings.strict


def _judge_stale(summary: Summary, lock: LockFile) -> None:
    if summary.partial or summary.settings.update:
        return
    file = summary.settings.lock
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for name in _stale(summary, lock):
        start = f"    {json.dumps(name, ensure_ascii=False)}: {{"
        line = next((i + 1 for i, text in enumerate(lines) if text == start), 1)
        text = (
            f"no test records the privacy budget {name!r} of {file.name} any more; pytest --privacy-update removes it"
        )
        level = "error" if summary.settings.strict else "warning"
        _add(summary, "budget-stale", level, name, text, _below(summary, file), line)
        summary.failed |= summary.settings.strict


def _stale(summary: Summary, lock: LockFile) -> list[str]:
    return sorted(lock.budgets.keys() - {one.name for one in summary.budgets})


def _judge_numbers(summary: Summary, lock: LockFile) -> None:
    for test in _to_register(summary, lock):
        text = (
            f"{test.key} audits and has no number in {summary.settings.lock.name}: pytest --privacy-update gives it one"
        )
        _add(summary, "audit-unregistered", "note", test.key, text, test.file, test.line)
        summary.failed |= summary.settings.strict


def _to_register(summary: Summary, lock: LockFile) -> list[PrivacyTest]:
    """Tests that used a share of the suite's false alarms that is not theirs yet."""
    if summary.settings.false_alarms is None:
        return []
    shared = {AUDIT} if summary.settings.ledger else {AUDIT, EVIDENCE}
    audited = [test for test in summary.tests if any(name in shared for name, _ in test.audits)]
    return [test for test in audited if test.key not in lock.audits and test.number is not None]


def _update(summary: Summary, lock: LockFile) -> None:
    file = summary.settings.lock
    if summary.interrupted:
        summary.notes.append(f"the run was interrupted: {file.name} was left as it was")
        return
    conflicts = {one.subject for one in summary.findings if one.rule == "budget-conflict"}
    budgets, lines = dict(lock.budgets), []
    for one in summary.budgets:
        if one.change.kind == "same" or one.test.outcome == "expected":
            continue
        if one.test.outcome != "passed" or one.name in conflicts:
            why = "tests disagree" if one.name in conflicts else f"its test {one.test.outcome}"
            summary.notes.append(f"{one.name!r} was not updated: {why}")
            continue
        budgets[one.name] = one.budget
        kind = {"terms": "changed", "graph": "event graph"}.get(one.change.kind, one.change.kind)
        lines.append(f"{kind}: {one.name!r}, {', '.join(one.change.lines)}")
    audits = dict(lock.audits)
    if stale := _stale(summary, lock):
        if summary.partial:
            reasons = "; ".join(summary.partial[:2])
            summary.notes.append(f"{len(stale)} entries that this run did not record were kept ({reasons})")
        else:
            lines += [f"removed: {name!r}, {budgets.pop(name)}" for name in stale]
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


def _registered(lock: LockFile, audits: Mapping[str, int], fresh: Iterable[PrivacyTest]) -> LockFile:
    """The lock file with further tests. Each keeps the number it ran with, unless that was given away meanwhile."""
    kept, largest = dict(audits), lock.registered
    for test in sorted(fresh, key=lambda test: test.number or 0):
        assert test.number is not None
        number = test.number if test.number > largest else largest + 1
        kept[test.key] = largest = number
    return LockFile(lock.budgets, kept, largest)
