"""The report of ``hockeystick survey``: answers with their intervals, what was not counted, and privacy."""

from __future__ import annotations

from hockeystick._report.parts.content import Cell, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_sections import learner_graph_sections
from hockeystick._report.parts.learner_sections import MODES, Draw, Facts, headline, privacy_facts, requested
from hockeystick._words.figures import exact, number, whole

_MOST_ROWS = 100


def survey_report(result: Result) -> Report:
    """Returns the report on the plan of a survey, or on its answers."""
    privacy = privacy_facts(result, ("for", f"one client's value, {result['adjacency']}"), target=requested(result))
    sections = [Section("Privacy", facts=privacy), Section("Survey", facts=_about(result))]
    if result["mode"] != "plan":
        rows = result["answers"]
        cut = tuple(tuple(map(_cell, row)) for row in rows[:_MOST_ROWS])
        caption = "Answers" if len(rows) <= _MOST_ROWS else f"First {_MOST_ROWS} of {whole(len(rows))} answers"
        table = Table(caption, tuple(result["columns"]), cut)
        sections.insert(0, Section("Answers", facts=_counted(result), tables=(table,)))
    title = f"Survey of {whole(result['clients'])} clients: {MODES[result['mode']]}"
    return Report(title, headline(result), (*sections, *learner_graph_sections(result)))


REPORTS: dict[str, Draw] = {"survey": survey_report}


def _cell(value: object) -> Cell:
    return value if isinstance(value, str) else number(value)


def _about(result: Result) -> Facts:
    return (
        ("question", result["kind"]),
        ("model of trust", result["model"]),
        ("rounds", whole(result["rounds"])),
        ("message", f"{whole(result['message_bytes'])} bytes"),
    )


def _counted(result: Result) -> Facts:
    facts: list[tuple[str, Cell]] = [
        ("answered", whole(result["answered"])),
        ("intervals", f"all hold together with probability {exact(result['confidence'])}"),
        ("a forged message", f"moves a share by at most {number(result['influence'])}"),
    ]
    if result["detectable"] is not None:
        facts.append(("every word is found", f"that a share of {number(result['detectable'])} of clients have"))
        if not result["complete"]:
            facts.append(("cut off", "a round had more frequent prefixes than are kept"))
    facts += [(f"not counted: {reason}", whole(count)) for reason, count in sorted(result["refused"].items())]
    return tuple(facts)
