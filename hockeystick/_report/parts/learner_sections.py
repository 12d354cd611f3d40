"""Sections of reports on private learners: headline, privacy, the printed formula, parameters, and their order.

Each report module of learners has a mapping ``REPORTS`` from a learner's name in results to the function that makes the
report; ``_report/results.py`` joins these mappings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_sections import learner_graph_sections
from hockeystick._words.figures import brief, exact, lower, number, upper, whole

Draw = Callable[[Result], Report]
Fact = tuple[str, Cell]
Facts = tuple[Fact, ...]

MODES = {"plan": "plan", "simulation": "simulated run", "release": "release"}


def learner_report(
    title: str,
    headline: Mark,
    *,
    privacy: Facts,
    printed: Section,
    parameters: Facts,
    outcome: Facts | None,
    result: Result,
) -> Report:
    """Returns a report with the outcome (None for a plan), privacy, the printed formula, parameters and the graph."""
    played = () if outcome is None else (Section("Outcome", facts=outcome),)
    rest = (Section("Privacy", facts=privacy), printed, Section("Parameters", facts=parameters))
    return Report(title, headline, (*played, *rest, *learner_graph_sections(result)))


# --- privacy ---------------------------------------------------------------------------------------------------------


def certified(result: Result) -> str:
    """Returns the certified ε at its δ, rounded up."""
    return f"ε ≤ {upper(result['epsilon'])} at δ = {exact(result['delta'])}"


def requested(result: Result) -> str:
    """Returns the target ε at its δ."""
    return f"ε ≤ {exact(result['epsilon_target'])} at δ = {exact(result['delta'])}"


def headline(result: Result, *, found: str = "", public: str = "", simulated: str = "", infinite: str = "") -> Mark:
    """Returns the certified ε as the headline.

    Args:
      result: The result of a plan, a simulation or a release.
      found: A text before ε.
      public: A text after the ε of a plan or a release.
      simulated: A text after the ε of a simulation, which is not private for those who know the seed.
      infinite: A text after an infinite ε.
    """
    if not math.isfinite(float(result["epsilon"])):
        return Mark(f"no finite ε at δ = {exact(result['delta'])}{infinite}", "doubt")
    known = f"{found}{certified(result)}"
    if result["mode"] == "simulation":
        return Mark(f"simulated: {known}{simulated}, for those who don't know the seed", "doubt")
    return Mark(f"{'released' if result['mode'] == 'release' else 'certified'}: {known}{public}", "plain")


def privacy_facts(result: Result, *own: Fact, target: str | None = None) -> Facts:
    """Returns the certified ε, the ``target``, the bracket and method of ε, ``own`` facts, and the assumptions."""
    bracket = f"{lower(result['epsilon_lower'])} to {upper(result['epsilon'])}"
    return (
        ("certified", certified(result)),
        *(() if target is None else (("requested", target),)),
        ("bracket", f"{bracket} (numerical accuracy of the best method)"),
        ("method", result["method"]),
        *own,
        *(("assumes", sentence) for sentence in result["assumptions"]),
    )


# --- the printed formula ---------------------------------------------------------------------------------------------


def printed_section(result: Result) -> Section:
    """Returns the section on the printed formula for these parameters, with its conditions."""
    printed = result["printed"]
    if result["epsilon_printed"] is None:
        return Section("Printed formula", text=(f"None: {printed['reason']}.",))
    holds = Mark("all hold", "good") if printed["applies"] else Mark("not all hold", "doubt")
    constants = tuple((name, brief(value)) for name, value in printed["constants"].items())
    rows = tuple(
        (row["statement"], number(row["value"]), number(row["limit"]), _holds(row["holds"]))
        for row in printed["conditions"]
    )
    return Section(
        "Printed formula",
        facts=(
            ("printed", f"ε = {number(result['epsilon_printed'])}, a baseline and not a guarantee"),
            ("source", printed["source"]),
            ("conditions", holds),
            *constants,
        ),
        tables=(Table("Conditions of the formula", ("condition", ">here", ">limit", "holds"), rows),),
    )


def _holds(holds: bool) -> Cell:
    return "yes" if holds else Mark("no", "doubt")


# --- parameters ------------------------------------------------------------------------------------------------------


def parameter_facts(parameters: Mapping[str, Any], *, whole_numbers: Collection[str] = ()) -> Facts:
    """Returns parameters by name, as text."""
    return tuple(
        (name.replace("_", " "), _parameter(value, name in whole_numbers)) for name, value in parameters.items()
    )


def _parameter(value: Any, is_whole: bool) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return whole(value) if is_whole else exact(value)
