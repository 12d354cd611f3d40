"""The report of a replay: the outcome, what was found at which line, the distances met, and the price of a path."""

from __future__ import annotations

import json
import math

from hockeystick._report.parts.content import Cell, Mark, Picture, Report, Result, Section, Table, Tone
from hockeystick._words.figures import exact, seconds, shorten, upper, whole
from hockeystick.accounting import AccountantGraph

TONES: dict[str, Tone] = {"violation": "bad", "not certified": "doubt", "not covered": "doubt", "agrees": "good"}
_WORDS = {
    "violation": "violation: a statement of the code is false on this pair",
    "not certified": "not certified: the recorded calls do not show the claim to hold, nor that it fails",
    "not covered": "not covered: the replay can't follow what the code does, and says nothing",
    "agrees": "agrees: nothing was found on this pair and these paths, which does not certify the claim",
}


def replay_report(result: Result) -> Report:
    """Returns the report on one replay."""
    outcome = result["outcome"]
    return Report(
        f"Record and replay of {shorten(result['target'], 80)}",
        Mark(_WORDS[outcome], TONES[outcome]),
        (
            *_found(result),
            Section("Price", facts=_price(result), pictures=_graph(result)),
            Section("Mechanisms", tables=(_mechanisms(result),)),
            *_warnings(result),
            Section("Reproduction", facts=_recipe(result)),
        ),
    )


def _found(result: Result) -> tuple[Section, ...]:
    """Returns the findings, each at its line."""
    text = tuple(
        Mark(f"{one['where'] or 'the algorithm'}: {one['kind']}: {one['message']}", TONES[one["outcome"]])
        for one in result["findings"]
    )
    return (Section("Findings", text=text),) if text else ()


def _price(result: Result) -> tuple[tuple[str, Cell], ...]:
    spent, claimed, delta = float(result["epsilon_path"]), float(result["epsilon_claimed"]), exact(result["delta"])
    words: Cell = f"ε ≤ {upper(spent)} at δ = {delta}, for the distances met" if math.isfinite(spent) else "not finite"
    if not math.isfinite(spent) or spent > claimed * (1 + 1e-9):
        words = Mark(str(words), "doubt")
    return (("claimed", f"ε = {exact(claimed)} at δ = {delta}"), ("dearest path", words))


def _graph(result: Result) -> tuple[Picture, ...]:
    if result["graph"] is None:
        return ()
    return (Picture("Calls of the dearest path", AccountantGraph.from_json(json.dumps(result["graph"]))),)


def _mechanisms(result: Result) -> Table:
    rows = tuple(
        (
            one["name"],
            one["where"],
            one["norm"],
            exact(one["largest"]),
            "" if one["stated"] is None else exact(one["stated"]),
            whole(one["calls"]),
        )
        for one in result["mechanisms"]
    )
    columns = ("mechanism", "line", "norm", ">largest distance", ">stated", ">calls")
    return Table("Calls with their inputs' largest distance between the two data sets", columns, rows)


def _warnings(result: Result) -> tuple[Section, ...]:
    """Returns a section with the warnings for pages; the command line prints them separately."""
    found = tuple(Mark(warning, "doubt") for warning in result["warnings"])
    return (Section("Warnings", text=found, in_terminal=False),) if found else ()


def _recipe(result: Result) -> tuple[tuple[str, Cell], ...]:
    return (
        ("target", result["target"]),
        ("d0", shorten(result["d0"], 200)),
        ("d1", shorten(result["d1"], 200)),
        ("paths", f"{whole(result['paths'])} in each order, of at most {whole(result['calls'])} calls"),
        ("seed", str(result["seed"])),
        ("time", seconds(result["seconds"])),
        ("versions", ", ".join(f"{name} {number}" for name, number in result["versions"].items())),
    )
