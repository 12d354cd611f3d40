"""The reports of ``hockeystick release``: the released answers, their privacy, and the bound on their error.

A second report compares true with released answers. It is not private, for the data's owner only, and says so.
"""

from __future__ import annotations

import itertools
import math

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_sections import learner_graph_sections
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
_MOST_ROWS = 100  # of a table of counts
_NOT_PRIVATE = "NOT PRIVATE: made from the records without noise. For their owner only; never publish it"


def release_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    bound = result.get("measured_error", result["error_bound"])
    found = "" if bound is None else f"every answer within {upper(bound)} if the records are as smooth as declared, "
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
    """Returns the owner's report, which compares true with released answers. It is not private."""
    rows = tuple(zip(map(float, result["true"]), map(float, result["released"]), strict=True))
    facts: list[tuple[str, Cell]] = [
        ("for", Mark(_NOT_PRIVATE, "bad")),
        ("largest error", f"{number(result['largest_error'])} on the {whole(result['queries'])} queries of the cover"),
        ("measured bound", upper(result["measured_error"])),
    ]
    section = Section(
        "True and released answers", facts=tuple(facts), plots=(*map(_curve, result["curves"]), _scatter(rows))
    )
    return Report("PRIVATE: true and released answers", Mark(_NOT_PRIVATE, "bad"), (section,))


def histogram_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release of noisy counts."""
    failure = result["largest_error_failure"]
    error = f"within {whole(result['largest_error'])} of the exact one with probability {exact(1.0 - failure)}"
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=_histogram_privacy(result)),
        Section("Error", facts=(("every count", error), *_histogram_noise(result))),
    )
    if result["mode"] != "plan":
        sections = (Section("Counts", tables=(_counts(result),)), *sections)
    title = f"Private histogram: {MODES[result['mode']]}"
    return Report(title, headline(result, found=f"every count {error}, "), (*sections, *learner_graph_sections(result)))


def cells_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release of counts of one column's cells."""
    bound = result["error_bound"]
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=privacy_facts(result, _unit(result), target=requested(result))),
        Section("Error", facts=_bound_on_cells(result), tables=(_candidates(result),)),
        Section("Columns", tables=(_columns(result),)),
        Section("Parameters", facts=parameter_facts(result["parameters"], whole_numbers=("cells", "noisy_sums"))),
    )
    if result["mode"] != "plan":
        sections = (Section("Answers", tables=(_overview(result),)), *sections)
    title = f"Private counts of cells: {MODES[result['mode']]}"
    found = headline(result, found=f"every answer within {upper(bound)} of all records, ")
    return Report(title, found, (*sections, *learner_graph_sections(result)))


def marginals_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release of marginals of several columns."""
    bound, failure = whole(math.ceil(result["error_bound_records"])), exact(result["error_bound_failure"])
    shown: Cell = f"within {bound} records for all cells of all marginals, except with probability {failure}"
    if result["error_bound"] >= 1.0:
        shown = Mark("1, which is vacuous: there are too few records for this ε", "doubt")
    facts: Facts = (
        ("bound", shown),
        ("standard deviation", f"at most {upper(result['largest_deviation'])} records in each cell"),
        ("assumes", "nothing about the records"),
    )
    rows = tuple((one["name"], whole(len(one["cells"]))) for one in result["columns"])
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=privacy_facts(result, _unit(result), target=requested(result))),
        Section("Error", facts=facts, tables=(_candidates(result),)),
        Section("Columns", tables=(Table("Columns and the number of their public cells", ("column", ">cells"), rows),)),
        Section("Parameters", facts=parameter_facts(result["parameters"], whole_numbers=("noisy_sums", "tables"))),
    )
    if result["mode"] != "plan":
        some = tuple((row["cell"], number(row["count"])) for row in result["overview"])
        sections = (Section("Answers", tables=(Table("Some of the counts", ("cell", ">count"), some),)), *sections)
    title = f"Private marginals of {whole(len(rows))} columns: {MODES[result['mode']]}"
    found = headline(result, found=f"every count within {bound} of {whole(result['records'])} records, ")
    return Report(title, found, (*sections, *learner_graph_sections(result)))


REPORTS: dict[str, Draw] = {
    "marginals": marginals_report,
    "cell-counts": cells_report,
    "query-release": release_report,
    "query-release-private": private_release_report,
    "histogram": histogram_report,
}


def _histogram_privacy(result: Result) -> Facts:
    protected: tuple[tuple[str, Cell], ...] = (("for", f"one record, {result['adjacency']}"),)
    if result["person"] is not None:
        protected = (
            ("for", f"one person (column {result['person']!r}), {result['adjacency']}"),
            ("cells of a person", f"the first {whole(result['most_cells'])} in the table"),
            ("records of a person", f"at most {whole(result['most_each'])} in each cell"),
        )
    return privacy_facts(result, *protected, target=requested(result))


def _histogram_noise(result: Result) -> Facts:
    moved = whole(result["sensitivity"])
    return (("noise", f"discrete Laplace of scale {upper(result['scale'])}; the counts move by at most {moved} in L1"),)


def _counts(result: Result) -> Table:
    columns = [one["cells"] for one in result["columns"]]
    cells, counts = math.prod(map(len, columns)), result["counts"]
    rows = tuple(
        (*cell, whole(int(count)))
        for cell, count in itertools.islice(zip(itertools.product(*columns), counts, strict=True), _MOST_ROWS)
    )
    caption = (
        "Noisy counts" if cells <= _MOST_ROWS else f"Noisy counts of the first {_MOST_ROWS} of {whole(cells)} cells"
    )
    return Table(caption, (*(one["name"] for one in result["columns"]), ">count"), rows)


def _privacy(result: Result) -> Facts:
    return privacy_facts(
        result,
        _unit(result),
        ("sigma", "not an assumption of the guarantee, which holds for all records"),
        target=requested(result),
    )


def _unit(result: Result) -> tuple[str, Cell]:
    return "for", f"one record, {result['adjacency']}; the number of records, {whole(result['records'])}, is public"


def _error(result: Result) -> Facts:
    return (*_measured(result), *_planned(result), ("assumption", _declared(result)))


def _measured(result: Result) -> Facts:
    """Returns the bounds from the release's own measurements; none for a plan."""
    if "measured_error" not in result:
        return ()
    failure = exact(result["measured_error_failure"])
    bound = result["measured_error"]
    shown: Cell = f"{upper(bound)} for every query of the class, except with probability {failure}"
    if bound >= 1.0:
        shown = Mark(f"{upper(bound)}, which is vacuous", "doubt")
    facts: list[tuple[str, Cell]] = [("measured bound", shown)]
    for name, where in (("measured_error_on_any_records", "every query"), ("measured_error_on_cover", "the cover")):
        if result[name] is not None:
            facts.append(("without the assumption", f"{upper(result[name])} on {where}"))
    return tuple(facts)


def _planned(result: Result) -> Facts:
    bound = result["error_bound"]
    if bound is None:
        none = "none for the last distribution or replayed measurements; a release has a measured bound"
        return (("planned bound", Mark(none, "doubt")),)
    failure = exact(result["error_bound_failure"])
    shown: Cell = f"{upper(bound)} for every query of the class, except with probability {failure}"
    if bound >= 1.0:
        shown = Mark(f"{upper(bound)}, which is vacuous", "doubt")
    parts = tuple((name, number(value)) for name, value in result["error_bound_parts"].items() if value)
    return (("planned bound", shown), *parts)


def _bound_on_cells(result: Result) -> Facts:
    failure, asked = exact(result["error_bound_failure"]), result["queries"]
    shown: Cell = f"{upper(result['error_bound'])} of all records for all {asked}, except with probability {failure}"
    if result["error_bound"] >= 1.0:
        shown = Mark("1, which is vacuous: there are too few records for this ε", "doubt")
    facts: list[tuple[str, Cell]] = [("bound", shown), ("assumes", "nothing about the records")]
    if "compared" in result:
        other = result["compared"]["mwem"]
        text = "vacuous" if other is None else f"{upper(other)}, if the records are as smooth as declared"
        facts.append(("Smooth MWEM's bound", text))
    return tuple(facts)


def _candidates(result: Result) -> Table:
    rows = tuple((one["name"], number(one["error"])) for one in result["candidates"])
    return Table("Candidates, compared by public sizes alone", ("noise", ">simulated error"), rows)


def _declared(result: Result) -> str:
    sigma, chi = exact(result["sigma"]), result["chi"]
    if chi is None:
        return f"the records are independent draws of a {sigma}-smooth distribution"
    return f"the records are within {exact(chi)} of a {sigma}-smooth distribution on every query"


def _columns(result: Result) -> Table:
    last = "cells" if "cells" in result["columns"][0] else "base measure"
    rows = tuple(
        (one["name"], exact(one["low"]), exact(one["high"]), str(one[last.replace(" ", "_")]))
        for one in result["columns"]
    )
    return Table("Public bounds, to which records are clipped", ("column", ">low", ">high", last), rows)


def _overview(result: Result) -> Table:
    rows = tuple((row["column"], exact(row["at_least"]), number(row["share"])) for row in result["overview"])
    return Table("Some of the answers", ("column", ">at least", ">share of records"), rows)


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
        series=(Series("queries", true, released, kind="points"), Series("equal", (0.0, 1.0), (0.0, 1.0))),
        description=f"{_NOT_PRIVATE}. Released answers against true ones.",
        x_limits=(-0.02, 1.02),
        y_limits=(-0.02, 1.02),
    )
