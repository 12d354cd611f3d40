"""The report of ``hockeystick run``: what a lazy learner costs, what is printed of it, and how it did."""

from __future__ import annotations

import math

from hockeystick.report_content import Cell, Mark, Report, Result, Section, Table
from hockeystick.report_text import brief, exact, lower, number, upper, whole

_TITLES = {"lazy-experts": "Lazy learner of experts", "lazy-convex": "Lazy learner of convex losses"}
_MODES = {"plan": "plan", "simulation": "simulated run", "release": "release"}
_WHOLE = ("rounds", "experts", "dimension", "batch", "batches", "draw_budget")


def run_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=_privacy(result)),
        _printed(result),
        Section("Parameters", facts=_parameters(result)),
    )
    if result["mode"] != "plan":
        sections = (Section("Outcome", facts=_outcome(result)), *sections)
    return Report(f"{_TITLES[result['learner']]}: {_MODES[result['mode']]}", _headline(result), sections)


def _certified(result: Result) -> str:
    return f"ε ≤ {upper(result['epsilon'])} at δ = {exact(result['delta'])}"


def _headline(result: Result) -> Mark:
    if not math.isfinite(float(result["epsilon"])):
        return Mark(f"no finite ε at δ = {exact(result['delta'])}", "doubt")
    if result["mode"] == "simulation":
        return Mark(f"simulated: {_certified(result)}, were the noise not known by its seed", "doubt")
    return Mark(f"{'released' if result['mode'] == 'release' else 'certified'}: {_certified(result)}", "plain")


def _privacy(result: Result) -> tuple[tuple[str, Cell], ...]:
    bracket = f"{lower(result['epsilon_lower'])} to {upper(result['epsilon'])}"
    facts: list[tuple[str, Cell]] = [
        ("certified", _certified(result)),
        ("bracket", f"{bracket} (how exactly the winning method was computed)"),
        ("method", result["method"]),
        ("view", f"{result['view']}: {result['view_note']}"),
        ("for", f"{_who(result)}, {result['adjacency']}"),
    ]
    if result["mode"] == "plan":
        known = result["epsilon_exact_pair"]
        words = "not computed" if known is None else f"ε ≥ {lower(known)} on one bad pair of streams"
        facts.append(("exact", words))
    facts += [("assumes", sentence) for sentence in result["assumptions"]]
    return tuple(facts)


def _who(result: Result) -> str:
    if result.get("group", 1) > 1:
        return f"groups of {result['group']}"
    batch = result.get("user_batch")
    return "the person who pays most" if batch is None else f"a person in batch {whole(batch)}"


def _printed(result: Result) -> Section:
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
            ("printed", f"ε = {number(result['epsilon_printed'])}, a baseline and no guarantee"),
            ("source", printed["source"]),
            ("its conditions", holds),
            *constants,
        ),
        tables=(Table("Conditions under which it is stated", ("condition", ">here", ">limit", "holds"), rows),),
    )


def _holds(holds: bool) -> Cell:
    return "yes" if holds else Mark("no", "doubt")


def _parameters(result: Result) -> tuple[tuple[str, Cell], ...]:
    rows: list[tuple[str, Cell]] = []
    for name, value in result["parameters"].items():
        if value is None:
            text = "none"
        elif isinstance(value, str):
            text = value
        else:
            text = whole(value) if name in _WHOLE else exact(value)
        rows.append((name.replace("_", " "), text))
    return tuple(rows)


def _outcome(result: Result) -> tuple[tuple[str, Cell], ...]:
    facts: list[tuple[str, Cell]] = [
        ("data", result["data"]),
        ("requested", f"ε ≤ {exact(result['epsilon_target'])} at δ = {exact(result['delta'])}"),
        ("regret bound", f"{number(result['expected_regret_bound'])}, in expectation, whatever the losses"),
        ("switches", f"{whole(result['switches'])} (draws after the first one)"),
    ]
    if result["mode"] == "release":
        return (*facts, ("loss, regret", result["withheld"]))
    best = "best_expert_loss" if result["learner"] == "lazy-experts" else "best_point_loss"
    facts += [
        ("loss", number(result["loss"])),
        (best.replace("_", " "), f"{number(result[best])}, in hindsight"),
        ("regret", number(result["regret"])),
        ("seed", str(result["seed"])),
    ]
    return tuple(facts)
