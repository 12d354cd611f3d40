"""The report of ``hockeystick run experts``: the chosen learner, the others' bounds, privacy, loss and regret."""

from __future__ import annotations

from hockeystick._report.parts.content import Report, Result, Section, Table
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
from hockeystick._words.figures import number

_LOSSES = {
    "oblivious": "losses that are fixed in advance",
    "adaptive": "losses that may depend on all earlier plays",
    "stochastic": "independent losses of one law",
}
_WHOLE = ("rounds", "experts", "batch", "draw_budget", "budget")


def experts_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    group = result["group"]
    who = "one person" if group == 1 else f"groups of {group}"
    rows = tuple((row["name"], number(row["regret_bound"])) for row in result["candidates"])
    rows += tuple((name, "none") for name in result["refused"])
    why = tuple(f"{name}: {reason}." for name, reason in result["refused"].items())
    bound = f"{number(result['regret_bound'])}, in expectation, for {_LOSSES[result['adversary']]}"
    return Report(
        f"Learner of experts ({result['chosen']}): {MODES[result['mode']]}",
        headline(result),
        (
            Section(
                "Choice",
                text=why,
                facts=(("learner", result["chosen"]), ("regret bound", bound), *_outcome(result)),
                tables=(Table("Learners by their proved bounds", ("learner", ">regret bound"), rows),),
            ),
            Section("Privacy", facts=privacy_facts(result, ("for", f"{who}, {result['adjacency']}"))),
            Section("Parameters", facts=parameter_facts(result["parameters"], whole_numbers=_WHOLE)),
            *learner_graph_sections(result),
        ),
    )


REPORTS: dict[str, Draw] = {"experts": experts_report}


def _outcome(result: Result) -> Facts:
    if result["mode"] == "plan":
        return (("requested", requested(result)),)
    facts: Facts = (("requested", requested(result)), ("data", result["data"]))
    if result["mode"] == "release":
        return (*facts, ("loss, regret", result["withheld"]))
    return (
        *facts,
        ("loss", number(result["loss"])),
        ("best expert loss", f"{number(result['best_expert_loss'])}, in hindsight"),
        ("regret", number(result["regret"])),
        ("seed", str(result["seed"])),
    )
