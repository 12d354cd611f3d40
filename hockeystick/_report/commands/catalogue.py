"""The report of ``hockeystick catalogue run``: the verdicts, and whether they were expected."""

from __future__ import annotations

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table, Tone
from hockeystick._words.figures import brief, exact, lower, number, whole

_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "doubt"}


def catalogue_report(result: Result) -> Report:
    """Returns the report on a run of the catalogue, complete or not."""
    cases, wrong = result["results"], result["unexpected"]
    unsure = sum(case["as_expected"] is None for case in cases)
    facts: tuple[tuple[str, Cell], ...] = (
        ("audited", f"{whole(len(cases))} of {whole(len(result['cases']))} cases"),
        ("as expected", whole(len(cases) - len(wrong) - unsure)),
        ("unexpected", Mark(", ".join(wrong), "bad") if wrong else "none"),
        ("too few samples", f"{whole(unsure)} broken cases that were not refuted"),
        ("confidence level", f"{exact(result['confidence'])}, of all correct cases together"),
        ("seed", str(result["seed"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    )
    return Report(
        "Audits of the catalogue", _headline(result), (Section("Cases", facts=facts, tables=(_table(result),)),)
    )


def _headline(result: Result) -> Mark:
    done, every, wrong = len(result["results"]), len(result["cases"]), len(result["unexpected"])
    if wrong:
        return Mark(f"{wrong} of {done} cases have an unexpected verdict", "bad")
    if not result["complete"]:
        return Mark(f"{done} of {every} cases audited, no verdict unexpected so far", "doubt")
    return Mark(f"no verdict of the {every} cases is unexpected", "good")


def _table(result: Result) -> Table:
    return Table(
        "The cases, at their joint confidence level",
        ("case", ">claim", ">truth", ">at least", "verdict", "expected", ">samples", ">s"),
        tuple(_row(case) for case in result["results"]),
    )


def _row(case: Result) -> tuple[Cell, ...]:
    verdict = case["verdict"]
    at = f" at {brief(verdict['delta'])}" if verdict["delta"] else ""
    more = " (with more samples)" if case["as_expected"] is None else ""
    return (
        case["name"],
        f"{exact(verdict['epsilon_claimed'])}{at}",
        "–" if case["truth"] is None else number(case["truth"]),
        lower(verdict["epsilon_lower"]),
        Mark(verdict["outcome"], _TONES[case["as_expected"]]),
        ("refuted" if case["broken"] else "not refuted") + more,
        whole(verdict["samples"]),
        f"{float(case['seconds']):.1f}",
    )
