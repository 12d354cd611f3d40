"""The reports of ``hockeystick group-by`` and ``hockeystick summary``: answers with their intervals, and privacy."""

from __future__ import annotations

from hockeystick._report.parts.content import Cell, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_sections import learner_graph_sections
from hockeystick._report.parts.learner_sections import (
    MODES,
    Draw,
    Facts,
    headline,
    privacy_facts,
    requested,
)
from hockeystick._words.figures import exact, number, upper, whole

_MOST_ROWS = 100


def group_by_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release of answers by group."""
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=_privacy(result)),
        Section("What the answers are about", facts=_about(result)),
    )
    if result["mode"] != "plan":
        sections = (Section("Answers", tables=(_answers(result),)), *sections)
    title = f"Private statistics by group: {MODES[result['mode']]}"
    return Report(title, headline(result), (*sections, *learner_graph_sections(result)))


def summary_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release of a summary."""
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=_privacy(result)),
        Section("What the answers are about", facts=_about(result)),
    )
    if result["mode"] != "plan":
        sections = (Section("Answers", tables=(_answers(result),)), *sections)
    title = f"Private summary: {MODES[result['mode']]}"
    return Report(title, headline(result), (*sections, *learner_graph_sections(result)))


REPORTS: dict[str, Draw] = {"group-by": group_by_report, "summary": summary_report}


def _privacy(result: Result) -> Facts:
    unit = "one record" if result["person"] is None else f"one person (column {result['person']!r})"
    return privacy_facts(result, ("for", f"{unit}, {result['adjacency']}"), target=requested(result))


def _about(result: Result) -> Facts:
    interval = f"each holds with probability {exact(1.0 - result['interval_failure'])}, for the noise alone"
    facts: list[tuple[str, Cell]] = [("estimand", result["estimand"]), ("intervals", interval)]
    selection = result.get("selection")
    if selection is not None:
        shown = f"those of {whole(selection['half'])} persons half of the time ({selection['rule']})"
        facts.append(("groups that are shown", shown))
    facts.append(("noise", f"{result['noise']}, of scale {upper(result['scale'])} in shares of a row"))
    quantiles = result.get("quantiles")
    if quantiles is not None:
        errors = sorted(quantiles["rank_errors"].items(), key=lambda item: float(item[1]))
        words = [f"{name}: all ranks within {number(error)} rows" for name, error in errors]
        facts.append((f"quantiles, between {whole(quantiles['cells'] + 1)} public points", words[0]))
        facts.append(("not taken", words[1]))
    facts += [
        (f"{one['kind']} of {one['column']}", f"values clipped to {number(one['low'])} … {number(one['high'])}")
        for one in result["measures"]
        if one["column"]
    ]
    return tuple(facts)


def _answers(result: Result) -> Table:
    rows = result["answers"]
    cut = tuple(tuple(map(_cell, row)) for row in rows[:_MOST_ROWS])
    caption = "Answers" if len(rows) <= _MOST_ROWS else f"Answers of the first {_MOST_ROWS} of {whole(len(rows))}"
    return Table(caption, tuple(result["columns"]), cut)


def _cell(value: object) -> Cell:
    return value if isinstance(value, str) else number(value)
