"""The reports of ``hockeystick run experts``, ``run bandit`` and ``run regret``: learners, bounds, privacy, regret."""

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
from hockeystick._words.figures import number, whole

_LOSSES = {
    "oblivious": "losses that are fixed in advance",
    "adaptive": "losses that may depend on all earlier plays",
    "stochastic": "independent losses of one law",
}
_WHOLE = ("rounds", "experts", "arms", "batch", "draw_budget", "budget", "first", "epochs", "ratio")
_METHODS = {
    "tsallis": "batches of one arm, drawn by powers of noisy losses",
    "elimination": "successive elimination on noisy sums",
    "ucb": "the least lower confidence bound of noisy means",
}


def experts_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    rows = tuple((row["name"], number(row["regret_bound"])) for row in result["candidates"])
    rows += tuple((name, "none") for name in result["refused"])
    why = tuple(f"{name}: {reason}." for name, reason in result["refused"].items())
    return Report(
        f"Learner of experts ({result['chosen']}): {MODES[result['mode']]}",
        headline(result),
        (
            Section(
                "Choice",
                text=why,
                facts=(("learner", result["chosen"]), ("regret bound", _bound(result)), *_outcome(result, "expert")),
                tables=(Table("Learners by their proved bounds", ("learner", ">regret bound"), rows), *_bands(result)),
            ),
            Section("Privacy", facts=_privacy(result)),
            Section("Parameters", facts=parameter_facts(result["parameters"], whole_numbers=_WHOLE)),
            *learner_graph_sections(result),
        ),
    )


def bandit_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release of a bandit."""
    parameters = dict(result["parameters"])
    if "pulls" in parameters:
        parameters["pulls"] = ", ".join(whole(n) for n in parameters["pulls"]) or "no epoch ends"
    return Report(
        f"Bandit ({result['bandit']}): {MODES[result['mode']]}",
        headline(result),
        (
            Section(
                "Bandit",
                facts=(
                    ("learner", _METHODS[result["bandit"]]),
                    ("regret bound", _bound(result)),
                    *_outcome(result, "arm"),
                ),
            ),
            Section("Privacy", facts=_privacy(result)),
            Section("Parameters", facts=parameter_facts(parameters, whole_numbers=_WHOLE)),
            *learner_graph_sections(result),
        ),
    )


def regret_report(result: Result) -> Report:
    """Returns the report on a plan, a simulation or a release of the regret of published plays."""
    band = result["loss_band"]
    facts: Facts = (
        ("requested", requested(result)),
        ("regrets are off by", f"at most {number(result['error'])}, all together, with confidence "
         f"{result['confidence']:g}"),
    )  # fmt: skip
    if band is not None:
        facts = (("data", result["data"]), *facts)
        facts = (*facts, ("loss of the plays", f"{number(band['lower'])} to {number(band['upper'])}"))
    return Report(
        f"Regret of published plays: {MODES[result['mode']]}",
        headline(result),
        (
            Section("Regret", facts=facts, tables=_bands(result)),
            Section("Privacy", facts=_privacy(result)),
            Section("Parameters", facts=parameter_facts(result["parameters"], whole_numbers=_WHOLE)),
            *learner_graph_sections(result),
        ),
    )


REPORTS: dict[str, Draw] = {"experts": experts_report, "bandit": bandit_report, "regret": regret_report}


def _bands(result: Result) -> tuple[Table, ...]:
    """The regrets that follow from what was published, if they were asked for."""
    bands = result.get("regret_bands")
    if bands is None:
        return ()
    first = "expert" if "expert" in bands[0] else "quantile"
    rows = tuple((f"{band[first]:g}", number(band["lower"]), number(band["upper"])) for band in bands)
    title = f"Regret with intervals that hold together with confidence {result['confidence']:g}"
    return (Table(title, (f">{first}", ">at least", ">at most"), rows),)


def _bound(result: Result) -> str:
    return f"{number(result['regret_bound'])}, in expectation, for {_LOSSES[result['adversary']]}"


def _privacy(result: Result) -> Facts:
    who = "one person" if result["group"] == 1 else f"groups of {result['group']}"
    return privacy_facts(result, ("for", f"{who}, {result['adjacency']}"))


def _outcome(result: Result, what: str) -> Facts:
    if result["mode"] == "plan":
        return (("requested", requested(result)),)
    facts: Facts = (("requested", requested(result)), ("data", result["data"]))
    if result["mode"] == "release":
        return (*facts, ("loss, regret", result["withheld"]))
    best = result[f"best_{what}_loss"]  # None of experts that sleep, whose regret is the largest against one awake
    hindsight = () if best is None else ((f"best {what} loss", f"{number(best)}, in hindsight"),)
    return (
        *facts,
        ("loss", number(result["loss"])),
        *hindsight,
        ("regret", number(result["regret"])),
        ("seed", str(result["seed"])),
    )
