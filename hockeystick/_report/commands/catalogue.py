"""The report of ``hockeystick catalogue run``: which cases were judged as they should be."""

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
        ("too few samples", f"{whole(unsure)} broken cases, of which nothing can be expected"),
        ("confidence", f"{exact(result['confidence'])}, of all correct cases together"),
        ("seed", str(result["seed"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    )
    return Report(
        "Audits of the catalogue", _headline(result), (Section("Cases", facts=facts, tables=(_table(result),)),)
    )


def _headline(result: Result) -> Mark:
    done, every, wrong = len(result["results"]), len(result["cases"]), len(result["unexpected"])
    if wrong:
        return Mark(f"{wrong} of {done} cases are not judged as they should be", "bad")
    if not result["complete"]:
        return Mark(f"{done} of {every} cases audited, none unexpected so far", "doubt")
    return Mark(f"all {every} cases are judged as they should be, as far as their samples can tell", "good")


def _table(result: Result) -> Table:
    return Table(
        "Each case, at the confidence that all of them share",
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
