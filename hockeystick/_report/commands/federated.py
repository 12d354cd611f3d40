"""The report of ``hockeystick run fed-svt`` and ``fed-stoch``: privacy, the printed claim, regret, communication."""

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
from hockeystick._words.figures import number, upper, whole

_TITLES = {"fed-svt": "Federated experts, one of them good (Fed-SVT)", "fed-stoch": "Federated experts, stochastic"}
_WHOLE = ("period", "switches", "trees", "phases", "leaves", "last_batch")


def federated_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    against = f", threat model {result['threat_model']}"
    return learner_report(
        f"{_TITLES[result['learner']]}: {MODES[result['mode']]}",
        headline(result, public=against, simulated=against, infinite=against),
        privacy=_privacy(result),
        printed=printed_section(result),
        parameters=_parameters(result),
        outcome=None if result["mode"] == "plan" else _outcome(result),
        result=result,
    )


REPORTS: dict[str, Draw] = dict.fromkeys(_TITLES, federated_report)


def _privacy(result: Result) -> Facts:
    group = result["group"]
    who = "one loss of one client" if group == 1 else f"{whole(group)} losses, of any clients and rounds"
    return privacy_facts(
        result,
        ("threat model", f"{result['threat_model']}: {result['threat_model_note']}"),
        ("for", f"{who}, {result['adjacency']}"),
        ("for a client", _client(result)),
        target=requested(result),
    )


def _client(result: Result) -> str:
    """The ε of all losses of a client together, which take part in every round."""
    found = result["epsilon_client"]
    bound = "no finite ε" if found is None else f"ε ≤ {upper(found)}"
    return f"{bound} for its {whole(result['client_losses'])} losses together"


def _parameters(result: Result) -> Facts:
    sizes = tuple((name, whole(result[name])) for name in ("clients", "rounds", "experts"))
    rows = (*sizes, *parameter_facts(result["parameters"], whole_numbers=_WHOLE))
    bound = result["regret_bound"]
    if bound is None:
        return rows
    return (*rows, ("regret bound", f"{number(bound)} per client, under the theorem's assumptions on the losses"))


def _outcome(result: Result) -> Facts:
    facts: list[tuple[str, Cell]] = [
        ("losses", result["data"]),
        ("regret", _regret(result)),
        ("sent up", f"{whole(result['scalars_up'])} scalars, over all clients"),
        ("sent down", f"{whole(result['scalars_down'])} scalars"),
    ]
    if result["mode"] == "simulation":
        facts.append(("seed", str(result["seed"])))
    if "switches_made" in result:
        facts.insert(2, ("switches", f"{whole(result['switches_made'])} (draws after the first one)"))
    return tuple(facts)


def _regret(result: Result) -> str:
    if result["mode"] == "release":
        return str(result["withheld"])
    return f"{number(result['regret'])} per client, {number(result['regret_per_round'])} per round"
