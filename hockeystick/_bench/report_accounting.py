"""The report of ``hockeystick bench accounting``: do accountants say too little, and how tight and fast are they?"""

from __future__ import annotations

import math

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table, Tone
from hockeystick._words.figures import exact, shorten, whole
from hockeystick.accounting.numerics import rounded_text

_TONES: dict[str, Tone] = {"not below": "good", "INVALID": "bad", "no answer": "doubt"}


def bench_accounting_report(result: Result) -> Report:
    """Returns the report on rated accountants."""
    judgements, settings = result["judgements"], result["settings"]
    made_by = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    judged: tuple[tuple[str, Cell], ...] = tuple(
        (name, Mark(f"{word}{_summary(result, name)}", _TONES[word])) for name, word in judgements.items()
    )
    names = dict.fromkeys(row["composition"] for row in result["answers"])
    about = (
        f"{whole(settings['compositions'])} compositions whose ε is known. In tables: ε's relative excess over the "
        f"truth, and the CPU time of the first answer. Less than {exact(settings['tolerance'])} is round-off and shown "
        "as 0.",
    )
    sections = (
        Section("Judgement", text=about, facts=judged),
        *(Section(name, tables=(_table(result, name),)) for name in judgements),
        Section("Truth", tables=(_truths(result, list(names)),)),
        Section("To repeat it", facts=(("versions", made_by),)),
    )
    return Report("Rating of accountants", _headline(judgements), sections)


def _headline(judgements: dict[str, str]) -> Mark:
    invalid = [name for name, word in judgements.items() if word == "INVALID"]
    if invalid:
        return Mark(f"INVALID: {', '.join(invalid)}; an ε is below the truth, or a lower end above it", "bad")
    if silent := [name for name, word in judgements.items() if word == "no answer"]:
        return Mark(f"no answer from {', '.join(silent)}", "doubt")
    return Mark("no ε is below the truth, on these compositions", "good")


def _summary(result: Result, name: str) -> str:
    rows = [row for row in result["answers"] if row["accountant"] == name and row["epsilon"] is not None]
    if not rows:
        return ""
    least, most = min(float(row["ratio"]) for row in rows), max(float(row["ratio_most"]) for row in rows)
    wrong = sum(row["judgement"] == "INVALID" for row in rows)
    counted = f"{wrong} of {len(rows)} answers" if wrong else f"{len(rows)} answers"
    span = f"excess {_excess(least, result)} to {_excess(most, result)}"
    return f": {counted}; {span}; {sum(float(row['seconds']) for row in rows):.2f} s"


def _table(result: Result, name: str) -> Table:
    rows = tuple(
        (
            row["composition"],
            shorten(row["refused"], 40) or rounded_text.upper(float(row["epsilon"]), 6),
            "" if row["ratio_most"] is None else _excess(float(row["ratio_most"]), result),
            "" if row["ratio_of_lower"] is None else _excess(float(row["ratio_of_lower"]), result),
            _time(float(row["seconds"])),
            Mark(row["judgement"], _TONES[row["judgement"]]),
        )
        for row in result["answers"]
        if row["accountant"] == name
    )
    return Table(f"What {name} says", ("composition", ">ε ≤", ">excess", ">its lower end", ">time", "judgement"), rows)


def _truths(result: Result, names: list[str]) -> Table:
    first = {row["composition"]: row for row in reversed(result["answers"])}
    rows = tuple((name, exact(first[name]["delta"]), _ends(first[name]), first[name]["truth_source"]) for name in names)
    return Table("What is known", ("composition", ">δ", ">ε", "by"), rows)


def _ends(row: Result) -> str:
    return f"{rounded_text.lower(float(row['truth_lower']), 9)} to {rounded_text.upper(float(row['truth_upper']), 9)}"


def _excess(ratio: float, result: Result) -> str:
    if not math.isfinite(ratio):
        return "∞"
    return "0" if abs(ratio - 1.0) <= float(result["settings"]["tolerance"]) else f"{ratio - 1.0:+.1e}"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.2g} ms" if seconds < 0.0995 else f"{seconds:.2f} s"
