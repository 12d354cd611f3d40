"""The report of ``hockeystick run online-distribution``: a message's ε, the published claim, and the risk."""

from __future__ import annotations

from attrs import evolve

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section
from hockeystick._report.parts.learner_sections import (
    Draw,
    Facts,
    headline,
    learner_report,
    printed_section,
    privacy_facts,
    requested,
)
from hockeystick._words.figures import exact, number, upper, whole

_CHANNELS = {
    "one-bit": "one bit about a random model",
    "laplace-one": "Laplace noise on a random model's level",
    "laplace-all": "Laplace noise on all models' levels",
    "gaussian-all": "Gaussian noise on all models' levels",
    "krr": "randomised response on the label",
}
_VERDICTS = {
    "holds": Mark("the claim holds for these models", "good"),
    "fails": Mark("the claim is false for these models: its sensitivity is too small", "bad"),
    "open": Mark("open: only a bound on the noise's ε is known, and it does not decide the claim", "doubt"),
}


def distribution_report(result: Result) -> Report:
    """Returns the report on a plan or on simulated runs."""
    simulated = result["mode"] == "simulation"
    return learner_report(
        f"Online distribution learning: {'simulated runs' if simulated else 'plan'}",
        headline(result, public=", local: the server never sees a label", simulated=", local"),
        privacy=_privacy(result),
        printed=_printed(result),
        parameters=_parameters(result),
        outcome=_outcome(result) if simulated else None,
        result=result,
    )


REPORTS: dict[str, Draw] = {"online-distribution": distribution_report}


def _privacy(result: Result) -> Facts:
    answers = result["answers"]
    who = "one person with one message" if answers == 1 else f"one person with {whole(answers)} messages"
    return privacy_facts(
        result,
        ("for", f"{who}; {result['adjacency']}: any label against any other"),
        target=f"{requested(result)}, for each message",
    ) + _shuffled(result.get("shuffled"))


def _shuffled(found: Result | None) -> Facts:
    """The central ε after a trusted shuffler, if it was asked for."""
    if found is None:
        return ()
    if found["epsilon"] is None:
        return (("shuffled", Mark(f"no central ε: {found['reason']}", "doubt")),)
    central = f"central ε ≤ {upper(found['epsilon'])} at δ = {exact(found['delta'])}, {found['adjacency']}"
    return (
        ("shuffled", f"{central}; {whole(found['reports'])} messages, method {found['method']}"),
        *(("if", sentence) for sentence in found["assumptions"]),
    )


def _printed(result: Result) -> Section:
    found, printed = printed_section(result), result["printed"]
    if result["epsilon_printed"] is None:
        return found
    facts: list[tuple[str, Cell]] = []
    if printed["scale"] is not None:
        facts.append(("published noise", f"Laplace, scale {number(printed['scale'])}, on the published blocks"))
    sign = "=" if printed["exact"] else "≤"
    facts += [
        ("actual", f"ε {sign} {upper(printed['delivered'])}, for one message with this noise"),
        ("verdict", _VERDICTS[printed["verdict"]]),
    ]
    return evolve(found, facts=(*found.facts, *facts))


def _parameters(result: Result) -> Facts:
    labels = "unbounded" if result["labels"] is None else whole(result["labels"])
    chosen = ", chosen by the bounds" if result["channel_chosen"] else ""
    index = f" and a public index of {result['index_bits']}" if result["index_bits"] else ""
    private = "1 bit" if result["bits_per_message"] == 1 else f"{whole(result['bits_per_message'])} bits"
    rows: list[tuple[str, Cell]] = [
        ("models", f"{result['models']}: {whole(result['experts'])}"),
        ("labels", labels),
        ("rounds", whole(result["rounds"])),
        ("channel", f"{result['channel']}: {_CHANNELS[result['channel']]}{chosen}"),
        ("message", f"{private}{index}; {whole(result['bytes_on_wire'])} bytes sent"),
        ("reference", result["reference"]),
        ("rule", result["rule"]),
    ]
    if result["contexts"] is not None:
        rows.insert(2, ("contexts", whole(result["contexts"])))
    for name, value in result["parameters"].items():
        rows.append((name.replace("_", " "), exact(value)))
    return (*rows, *_bounds(result))


def _bounds(result: Result) -> Facts:
    trivial = f"{upper(result['risk_of_mean_at_most'])}, for predicting the models' mean in every round"
    bound = result["risk_bound"]
    if bound is None:
        return (("risk bound", f"none: {result['risk_bound_reason']}"), ("no learning", f"at most {trivial}"))
    text = f"{upper(bound)} nats in expectation, for every true model"
    useless = bound >= result["risk_of_mean_at_most"]
    shown: Cell = Mark(f"{text}; more than without learning", "doubt") if useless else text
    return (("risk bound", shown), ("no learning", f"at most {trivial}"))


def _outcome(result: Result) -> Facts:
    spread = "" if result["risk_error"] is None else f" ± {number(result['risk_error'])} (standard error)"
    truth = "the labels' frequencies, without a bound" if result["truth"] is None else f"model {result['truth']}"
    return (
        ("truth", truth),
        ("KL risk", f"{number(result['risk'])} nats{spread}, {number(result['risk_per_round'])} per round"),
        ("largest", f"{number(result['risk_largest'])} of {whole(result['runs'])} runs"),
        ("no learning", f"{number(result['risk_without_learning'])}, for predicting the models' mean in every round"),
        ("best model", f"{result['best_model']}, with a risk of {number(result['risk_of_best_model'])}"),
        ("its weight", f"{number(result['weight_of_best_model'])} at the end"),
        ("seed", str(result["seed"])),
    )
