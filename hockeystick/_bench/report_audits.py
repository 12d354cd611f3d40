"""The report of ``hockeystick bench audits``: whether auditors keep their level, and how many samples they need."""

from __future__ import annotations

from typing import Any

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table, Tone
from hockeystick._words.figures import exact, number, whole

_TONES: dict[str, Tone] = {"valid": "good", "INVALID": "bad", "undecided": "doubt"}


def bench_report(result: Result) -> Report:
    """Returns the report on rated auditors."""
    settings, judgements = result["settings"], result["judgements"]
    facts = tuple((name.replace("_", " "), exact(value)) for name, value in settings.items())
    facts += (("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),)
    judged: tuple[tuple[str, Cell], ...] = tuple((name, Mark(word, _TONES[word])) for name, word in judgements.items())
    sections = (
        Section("Judgement", facts=judged),
        Section("False alarms", tables=(_alarms(result),)),
        *((Section("Samples", tables=(_samples(result),)),) if result["samples"] else ()),
        Section("To repeat it", facts=facts),
    )
    return Report("Audit of the auditors", _headline(judgements), sections)


def _headline(judgements: dict[str, str]) -> Mark:
    invalid = [name for name, word in judgements.items() if word == "INVALID"]
    if invalid:
        return Mark(f"INVALID: {', '.join(invalid)} raise more false alarms than they may", "bad")
    if "undecided" in judgements.values():
        return Mark("no auditor is shown to raise too many false alarms; of some, more replications can tell", "doubt")
    return Mark("all auditors keep their level, as far as the replications can tell", "good")


def _alarms(result: Result) -> Table:
    rows = tuple(
        (
            row["estimator"],
            row["target"],
            f"{whole(row['alarms'])} of {whole(row['replications'])}",
            f"{row['low']:.4f} to {row['high']:.4f}",
            Mark(row["judgement"], _TONES[row["judgement"]]),
        )
        for row in result["false_alarms"]
    )
    settings = result["settings"]
    caption = (
        f"False alarms at alpha = {exact(settings['alpha'])}, {whole(settings['samples'])} samples of each data set"
    )
    return Table(caption, ("estimator", "correct target", ">refuted", ">interval", "judgement"), rows)


def _samples(result: Result) -> Table:
    rows = tuple(
        (
            row["estimator"],
            row["target"],
            f"> {number(row['low'])}" if row["n90"] is None else whole(row["n90"]),
            "" if row["n90"] is None else f"{_whole(row['low'])} to {_whole(row['high'])}",
            _whole(row["optimum"]),
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            _whole(row["optimum_both"]),
        )
        for row in result["samples"]
    )
    caption = "Samples of each data set that refute with probability 0.9"
    names = ("estimator", "broken target", ">n for 90 %", ">95 % interval", ">best test", ">ratio", ">both orders")
    return Table(caption, names, rows)


def _whole(value: Any) -> str:
    return "inf" if value is None else whole(value)
