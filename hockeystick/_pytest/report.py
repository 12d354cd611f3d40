"""Reports of a run: the terminal's summary, JSON, SARIF for code scanning, and Markdown.

Code hosts show SARIF (OASIS Standard 2.1.0) as annotations of a pull request. Its paths are from the root of the
repository, which may be above pytest's root folder. A finding is identified over several runs by its rule and the name
of the test or budget, not by its line.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hockeystick._pytest.audit_fixtures import shown_level
from hockeystick._pytest.lock_file import UPDATE
from hockeystick._pytest.records import EVIDENCE
from hockeystick._pytest.session import RULES, Finding, Recorded, Summary, reasons, tested_at
from hockeystick.accounting.files.result_files import write_atomically
from hockeystick.accounting.numerics import rounded_text

SCHEMA_VERSION = 1
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_MOVED = ("new", "terms", "rise", "fall", "graph")
_SAID_BY_NO_TEST = ("budget-stale", "budget-unknown", "budget-conflict", "lock-unreadable", "audits-too-many")
_MARKS = {
    "same": "as locked",
    "graph": "as locked, from another event graph",
    "new": "NOT LOCKED",
    "terms": "CHANGED",
    "rise": "ROSE",
    "fall": "fell",
}


def write_reports(summary: Summary) -> None:
    """Writes all requested reports; one that can't be written fails the run, but the others are still written."""
    forms: dict[str, Callable[[Summary], str]] = {".json": as_json, ".sarif": as_sarif, ".md": as_markdown}
    for path in summary.settings.reports:
        try:
            write_atomically(path, forms[path.suffix](summary))
        except OSError as error:
            summary.notes.append(f"{path} could not be written ({error})")
            summary.failed = True


# ------------------------------------------------------------------------------------------------------------ terminal


def print_summary(summary: Summary, reporter: pytest.TerminalReporter) -> None:
    """Prints a line for each claim, and the required actions; with ``-q`` only the latter."""
    lines: list[tuple[str, dict[str, bool]]] = []
    if reporter.verbosity >= 0:
        lines += [(text, {"red": red} if red else {}) for text, red in claim_lines(summary)]
    for one in summary.findings:
        if one.rule in _SAID_BY_NO_TEST:
            colour = {"red": True} if one.level == "error" else {"yellow": True}
            lines += [
                (f"{one.level}: {text}" if i == 0 else text, colour) for i, text in enumerate(_lines(one.message))
            ]
    for text in notes(summary):
        lines.append((text, {"yellow": True}))
    if lines:
        reporter.ensure_newline()
        reporter.section("privacy")
        for text, markup in lines:
            reporter.write_line(text, **markup)


def claim_lines(summary: Summary) -> Iterable[tuple[str, bool]]:
    """Yields a line for each audit and each budget, and whether to print it in red."""
    for test in summary.tests:
        for name, verdict in test.audits:
            yield (
                f"{test.key}: {audit_line(name, verdict)}",
                verdict["outcome"] == "refuted" and test.outcome == "failed",
            )
    for one in summary.budgets:
        yield f"budget {one.name}: {budget_line(one, summary)}", one.change.refused and not summary.settings.update


def audit_line(name: str, verdict: dict[str, Any]) -> str:
    """Returns a line on an audit: the claim, the lower bound and, for a claim that is not refuted, the detectable ε."""
    found = verdict["detectable_epsilon"]
    seen = "nothing" if found is None else f"ε ≥ {found:.3g}{tested_at(verdict)}"
    detectable = "" if verdict["outcome"] == "refuted" else f" detectable: {seen},"
    level = verdict["alpha"] if name == EVIDENCE else 1 - verdict["confidence"]
    return (
        f"claim ({verdict['epsilon_claimed']:g}, {verdict['delta']:g}) {verdict['outcome']}; "
        f"ε ≥ {rounded_text.lower(verdict['epsilon_lower'], 3)},{detectable} false alarm {shown_level(level)}"
    )


def budget_line(one: Recorded, summary: Summary) -> str:
    """Returns a line on a budget and its comparison with the locked one."""
    group = f", groups of {one.budget.group}" if one.budget.group > 1 else ""
    mark = _MARKS[one.change.kind]
    if summary.settings.update:
        mark = "unchanged" if one.change.kind == "same" else one.change.kind
    return f"{one.budget}, {one.budget.adjacency}{group}: {mark}"


def notes(summary: Summary) -> list[str]:
    """Returns sentences on the run as a whole."""
    file, found = summary.settings.lock.name, list(summary.notes)
    if (changes := summary.lock_changes) is not None:
        found += [f"{file}: {text}" for text in changes] or [f"{file}: nothing changed"]
    moved = {one.subject for one in summary.findings if one.rule.removeprefix("budget-") in _MOVED}
    if moved:
        found.append(f"different from {file}: {', '.join(sorted(moved))}; {UPDATE}")
    fresh = [one for one in summary.findings if one.rule == "audit-unregistered"]
    if fresh:
        found.append(f"{len(fresh)} audits have no number in {file}, which determines their levels: {UPDATE}")
    if summary.unchecked:
        found.append(f"{len(summary.unchecked)} locked budgets were not checked in this run ({reasons(summary)})")
    ledger, used = summary.settings.ledger, {name for test in summary.tests for name, _ in test.audits}
    if ledger is not None and EVIDENCE not in used and not summary.partial:
        found.append(f"{ledger.name}: no test added evidence; only those that use the fixture privacy_evidence do")
    if summary.failed:
        found.append("the run fails for this reason")
    if summary.interrupted and not summary.settings.update:
        found.append("the run was interrupted: this summary is incomplete")
    return found


# ---------------------------------------------------------------------------------------------------------------- files


def as_json(summary: Summary) -> str:
    """Returns the whole summary as JSON."""
    given = summary.settings
    plain = {
        "format": "hockeystick privacy report",
        "schema": SCHEMA_VERSION,
        "hockeystick": metadata.version("hockeystick"),
        "interrupted": summary.interrupted,
        "failed": summary.failed or any(test.outcome == "failed" for test in summary.tests),
        "false_alarms": given.false_alarms,
        "lock": {
            "file": given.lock.name,
            "changes": summary.lock_changes,
            "partial": list(summary.partial),
            "unchecked": list(summary.unchecked),
        },
        "audits": [
            {"test": test.key, "outcome": test.outcome, "number": summary.numbers.get(test.key)}
            | {"kind": name, "verdict": verdict}
            for test in summary.tests
            for name, verdict in test.audits
        ],
        "budgets": [
            {"name": one.name, "test": one.test.key, "outcome": one.test.outcome, "change": one.change.kind}
            | one.budget.to_dict()
            for one in summary.budgets
        ],
        "findings": [
            {"rule": one.rule, "level": one.level, "subject": one.subject, "message": one.message}
            | {"file": one.file, "line": one.line}
            for one in summary.findings
        ],
        "notes": summary.notes,
    }
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_sarif(summary: Summary) -> str:
    """Returns the findings as SARIF 2.1.0."""
    rules = sorted({one.rule for one in summary.findings})
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "hockeystick",
                "version": metadata.version("hockeystick"),
                "semanticVersion": metadata.version("hockeystick"),
                "rules": [{"id": rule, "shortDescription": {"text": RULES[rule]}} for rule in rules],
            }
        },
        "invocations": [{"executionSuccessful": not summary.interrupted}],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, rules, summary.root) for one in summary.findings],
    }
    plain = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(plain, indent=2, allow_nan=False) + "\n"


def _result(one: Finding, rules: list[str], root: Path) -> dict[str, Any]:
    identity = hashlib.sha256(f"{one.rule}\n{one.subject}".encode()).hexdigest()
    return {
        "ruleId": one.rule,
        "ruleIndex": rules.index(one.rule),
        "level": one.level,
        "message": {"text": one.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(Path(os.path.normpath(root / one.file)), root),
                    "region": {"startLine": one.line},
                }
            }
        ],
        "partialFingerprints": {"hockeystick/v1": identity},
    }


def _artifact(path: Path, root: Path) -> dict[str, str]:
    """Returns a file's path from the root of the repository (by default pytest's root), or its URI if outside."""
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    if path.is_relative_to(repository):
        return {"uri": quote(path.relative_to(repository).as_posix()), "uriBaseId": "%SRCROOT%"}
    return {"uri": path.as_uri()}


def as_markdown(summary: Summary) -> str:
    """Returns tables of budgets and audits, and the findings, for a job's summary or a comment."""
    parts = ["## Privacy"]
    if summary.budgets:
        parts.append(
            _table(
                ["budget", "certified", "relation", "against the lock file"],
                [[one.name, str(one.budget), one.budget.adjacency, one.change.kind] for one in summary.budgets],
            )
        )
    audits = [(test, name, verdict) for test in summary.tests for name, verdict in test.audits]
    if audits:
        parts.append(_table(["test", "ended", "audit"], [[t.key, t.outcome, audit_line(n, v)] for t, n, v in audits]))
    if summary.findings:
        parts.append(
            "\n".join(f"- **{one.level}** {_cell(one.message)} (`{one.file}:{one.line}`)" for one in summary.findings)
        )
    if found := notes(summary):
        parts.append("\n".join(f"- {_cell(text)}" for text in found))
    return "\n\n".join(parts if len(parts) > 1 else [*parts, "Nothing was audited or recorded."]) + "\n"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _lines(text: str) -> list[str]:
    return text.splitlines() or [""]
