"""The report of ``hockeystick account``: what a graph of releases costs."""

from __future__ import annotations

import math

from hockeystick.report_content import Mark, Report, Result, Section, Table
from hockeystick.report_text import event_text, exact, lower, upper, whole


def account_report(result: Result) -> Report:
    """Returns the report on what a guarantee says at one δ."""
    epsilon = upper(result["epsilon_upper"])
    certified = f"ε ≤ {epsilon} at δ = {exact(result['delta'])}"
    facts = (
        ("certified", certified),
        ("bracket", f"{lower(result['epsilon_lower'])} to {epsilon} (how exactly the winning method was computed)"),
        ("method", result["method"]),
        ("adjacency", result["adjacency"] + (f", groups of {result['group']}" if result["group"] > 1 else "")),
        ("worst move", result["worst_move"]),
        ("threat model", result["threat_model"]),
        *(("assumes", sentence) for sentence in result["assumptions"]),
    )
    nodes = Table(
        "Cost per node in the worst move (shares need not add up to the total)",
        ("node", "event", ">times", ">ε alone", ">ε of the rest"),
        tuple(
            (
                row["node"],
                event_text(row["event"], 80),
                whole(row["count"]),
                upper(row["epsilon_alone"]),
                upper(row["epsilon_without"]),
            )
            for row in result["nodes"]
        ),
    )
    finite = math.isfinite(float(result["epsilon_upper"]))
    headline = Mark(certified, "plain") if finite else Mark(f"no finite ε at δ = {exact(result['delta'])}", "doubt")
    return Report("Privacy of a graph", headline, (Section("Guarantee", facts=facts, tables=(nodes,)),))
