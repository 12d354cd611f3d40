"""The report of ``hockeystick run`` on a lazy learner: privacy, the printed formula, loss and regret."""

from __future__ import annotations

from hockeystick._report.parts.content import Cell, Report, Result
from hockeystick._report.parts.learner_sections import (
    MODES,
    Draw,
    Facts,
    headline,
    learner_report,
    parameter_facts,
    printed_section,
    privacy_facts,
    requested,
)
from hockeystick._words.figures import lower, number, whole

_TITLES = {"lazy-experts": "Lazy learner of experts", "lazy-convex": "Lazy learner of convex losses"}
_WHOLE = ("rounds", "experts", "dimension", "batch", "batches", "draw_budget")


def run_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    return learner_report(
        f"{_TITLES[result['learner']]}: {MODES[result['mode']]}",
        headline(result),
        privacy=_privacy(result),
        printed=printed_section(result),
        parameters=parameter_facts(result["parameters"], whole_numbers=_WHOLE),
        outcome=None if result["mode"] == "plan" else _outcome(result),
        result=result,
    )


REPORTS: dict[str, Draw] = dict.fromkeys(_TITLES, run_report)


def _privacy(result: Result) -> Facts:
    facts: list[tuple[str, Cell]] = [
        ("view", f"{result['view']}: {result['view_note']}"),
        ("for", f"{_who(result)}, {result['adjacency']}"),
    ]
    if result["mode"] == "plan":
        known = result["epsilon_exact_pair"]
        words = "not computed" if known is None else f"ε ≥ {lower(known)} on one bad pair of streams"
        facts.append(("exact", words))
    return privacy_facts(result, *facts)


def _who(result: Result) -> str:
    if result.get("group", 1) > 1:
        return f"groups of {result['group']}"
    batch = result.get("user_batch")
    return "one person, in the worst batch" if batch is None else f"one person in batch {whole(batch)}"


def _outcome(result: Result) -> Facts:
    facts: list[tuple[str, Cell]] = [
        ("data", result["data"]),
        ("requested", requested(result)),
        ("regret bound", f"{number(result['expected_regret_bound'])}, in expectation, for all losses"),
        ("switches", f"{whole(result['switches'])} (draws after the first)"),
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
