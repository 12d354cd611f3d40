"""The reports of ``hockeystick release``: what is published, what it costs whom, and how far answers may be off.

A second one shows true against released answers. It is made from the data, for their owner alone, and says so.
"""

from __future__ import annotations

from typing import Any

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_section import learner_graph_sections
from hockeystick._report.parts.learner_sections import (
    MODES,
    Draw,
    Facts,
    headline,
    parameter_facts,
    privacy_facts,
    requested,
)
from hockeystick._report.parts.plots import Plot, Series
from hockeystick._words.figures import exact, number, upper, whole

_WHOLE = ("cover_size", "cells", "rounds", "replay")
_NOT_PRIVATE = "NOT PRIVATE: made from the records without noise; for their owner alone, never to be published"


def release_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    bound = result.get("measured_error", result["error_bound"])
    found = "" if bound is None else f"every answer within {upper(bound)} if records are as declared, "
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=_privacy(result)),
        Section("Error", facts=_error(result)),
        Section("Columns", tables=(_columns(result),)),
        Section("Parameters", facts=parameter_facts(result["parameters"], whole_numbers=_WHOLE)),
    )
    if result["mode"] != "plan":
        sections = (Section("Answers", tables=(_overview(result),)), *sections)
    title = f"Private query release: {MODES[result['mode']]}"
    return Report(title, headline(result, found=found), (*sections, *learner_graph_sections(result)))


def private_release_report(result: Result) -> Report:
    """Returns the owner's report, of true against released answers. It is not private."""
    rows = tuple(zip(map(float, result["true"]), map(float, result["released"]), strict=True))
    facts: list[tuple[str, Cell]] = [
        ("for", Mark(_NOT_PRIVATE, "bad")),
        ("largest error", f"{number(result['largest_error'])} on the {whole(result['queries'])} queries of the cover"),
        ("bound, by what was measured", upper(result["measured_error"])),
    ]
    section = Section("True against released", facts=tuple(facts), plots=(*_curves(result), _scatter(rows)))
    return Report("PRIVATE: true against released answers", Mark(_NOT_PRIVATE, "bad"), (section,))


REPORTS: dict[str, Draw] = {"query-release": release_report, "query-release-private": private_release_report}


def _privacy(result: Result) -> Facts:
    return privacy_facts(
        result,
        ("for", f"one record, {result['adjacency']}; the number of records, {whole(result['records'])}, is public"),
        ("sigma", "no part of the guarantee: it holds whatever the records are"),
        target=requested(result),
    )


def _error(result: Result) -> Facts:
    return (*_measured(result), *_planned(result), ("provided", _declared(result)))


def _measured(result: Result) -> Facts:
    """What the release's own measurements say; a plan has none."""
    if "measured_error" not in result:
        return ()
    failure = exact(result["measured_error_failure"])
    bound = result["measured_error"]
    said: Cell = f"{upper(bound)} for every query of the class, but with probability {failure}"
    if bound >= 1.0:
        said = Mark(f"{upper(bound)}, which says nothing", "doubt")
    facts: list[tuple[str, Cell]] = [("bound, by what was measured", said)]
    for name, where in (("measured_error_on_any_records", "every query"), ("measured_error_on_cover", "the cover")):
        if result[name] is not None:
            facts.append(("whatever the records are", f"{upper(result[name])} on {where}"))
    return tuple(facts)


def _planned(result: Result) -> Facts:
    bound = result["error_bound"]
    if bound is None:
        none = "none beforehand for the last law or replayed measurements; a release has one"
        return (("bound, as planned", Mark(none, "doubt")),)
    said: Cell = f"{upper(bound)} for every query of the class, but with probability {exact(_failure(result))}"
    if bound >= 1.0:
        said = Mark(f"{upper(bound)}, which says nothing", "doubt")
    parts = tuple((name, number(value)) for name, value in result["error_bound_parts"].items() if value)
    return (("bound, as planned", said), *parts)


def _declared(result: Result) -> str:
    sigma, chi = exact(result["sigma"]), result["chi"]
    if chi is None:
        return f"records are independent draws of a {sigma}-smooth law, as declared"
    return f"records are within {exact(chi)} of a {sigma}-smooth law on every query, as declared"


def _failure(result: Result) -> Any:
    return result["error_bound_failure"]


def _columns(result: Result) -> Table:
    rows = tuple((one["name"], exact(one["low"]), exact(one["high"]), one["base_measure"]) for one in result["columns"])
    return Table("Public bounds, to which records are clipped", ("column", ">low", ">high", "base measure"), rows)


def _overview(result: Result) -> Table:
    rows = tuple((row["column"], exact(row["at_least"]), number(row["share"])) for row in result["overview"])
    return Table(f"Some of the {result['queries']}' answers", ("column", ">at least", ">share of records"), rows)


def _curves(result: Result) -> tuple[Plot, ...]:
    return tuple(_curve(one) for one in result["curves"])


def _curve(curve: Result) -> Plot:
    at, true, released = (tuple(map(float, curve[name])) for name in ("at", "true", "released"))
    name = curve["column"]
    return Plot(
        title=f"PRIVATE: {name}",
        x_label=name,
        y_label="share of records at or above",
        series=(Series("true", at, true), Series("released", at, released, kind="dashed")),
        description=f"{_NOT_PRIVATE}. The share of records with {name} at or above each value, true and released.",
        x_limits=(at[0], at[-1]) if at[0] < at[-1] else (at[0] - 0.5, at[0] + 0.5),
        y_limits=(min(0.0, *released), max(1.0, *released)),
    )


def _scatter(rows: tuple[tuple[float, float], ...]) -> Plot:
    true, released = tuple(x for x, _ in rows), tuple(y for _, y in rows)
    return Plot(
        title="PRIVATE: answers to queries of the cover",
        x_label="true",
        y_label="released",
        series=(Series("a query", true, released, kind="points"), Series("equal", (0.0, 1.0), (0.0, 1.0))),
        description=f"{_NOT_PRIVATE}. Released answers against true ones.",
        x_limits=(-0.02, 1.02),
        y_limits=(-0.02, 1.02),
    )
