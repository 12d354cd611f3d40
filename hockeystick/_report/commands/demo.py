"""The report of the demonstration: regret, privacy (certified, printed and measured), and the verdicts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hockeystick._report.commands.audit import measured, verdict_mark
from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table
from hockeystick._report.parts.plots import Plot, Series, curve
from hockeystick._words.figures import brief, event_text, exact, lower, number, seconds, upper, whole


def demo_report(result: Result) -> Report:
    """Returns the report on the demonstration."""
    return Report(
        f"A forecaster that learns from {whole(result['data']['rounds'])} people's data: claim, certificate and audit",
        _headline(result),
        (
            Section("Setting", text=_story(result)),
            Section(
                "Trade-off",
                plots=tuple(plot(result, row) for row in result["learners"] for plot in (_caught, _tradeoff)),
            ),
            Section("Regret", text=_cost(result), tables=(_regrets(result),)),
            Section("Privacy", tables=(_privacy(result),), text=_conditions(result)),
            Section("Verdicts", text=(_curves(result),), tables=(_correct(result), _mutants(result))),
            Section("Exact oracle", text=(_ORACLE,), tables=(_oracle(result),)),
            Section("Cost per node", tables=tuple(_nodes(learner) for learner in result["learners"])),
            Section("Run", facts=_facts(result)),
            Section("Notes", text=tuple(result["notes"])),
        ),
    )


_FEW = 3e-4  # the least rate of false alarms in the logarithmic plots
_ORACLE = (
    "The exact law of each target's privacy loss gives its true ε on these neighbours, and the number of samples that "
    "an audit needs to refute the claim with probability 0.9."
)


def _broken(audit: Result) -> str:
    return f"{audit['learner']}, {audit['mutation']}" if audit["mutation"] else audit["learner"]


def _headline(result: Result) -> Mark:
    claim = f"(ε, δ) = ({exact(result['epsilon'])}, {exact(result['delta'])})"
    if result["as_expected"]:
        missed = [audit for audit in result["audits"] if audit["mutation"] and not audit["verdict"]["refuted"]]
        every = f"all broken variants but {len(missed)}, which need more samples" if missed else "all broken variants"
        return Mark(f"{claim}: no audit refutes the forecaster's privacy, and audits refute {every}", "good")
    rows = [audit for audit in result["audits"] if not audit["as_expected"]]
    wrong = "; ".join(f"{_broken(row)}: {row['verdict']['outcome']}" for row in rows)
    return Mark(f"{claim}: some verdicts are unexpected ({wrong})", "bad")


def _story(result: Result) -> tuple[str, ...]:
    data = result["data"]
    return (
        f"A forecaster predicts the diagnosis of one patient after another, {whole(data['rounds'])} in all. Each time "
        f"it follows one of {len(data['experts'])} simple rules, and then learns which rules were right. The patients "
        f"are protected: nobody who sees which rules it followed can tell much about any one of them. The rules come "
        f"from {whole(data['public_rows'])} other patients, whose data count as public.",
        "There are two forecasters, named L2P and dartboard. Both are lazy: they keep a rule for a while, and draw the "
        "next one at random. Each is audited in its correct form, and with each of two planted mistakes.",
    )


def _cost(result: Result) -> tuple[str, ...]:
    """Returns the price of privacy on these data, in words."""
    errors = {row["name"]: row["expected_loss"] for row in result["regrets"]}
    names = [learner["name"] for learner in result["learners"] if learner["name"] in errors]
    free = next((row["expected_loss"] for row in result["regrets"] if math.isinf(float(row["epsilon"]))), None)
    if free is None or not names:
        return ()
    private = " and ".join(f"{name} {errors[name]:.0f}" for name in names)
    blind = errors.get("a random rule each time")
    return (
        f"The price of privacy: of {whole(result['data']['rounds'])} predictions a forecaster without privacy gets "
        f"{free:.0f} wrong, on average, and {private}."
        + ("" if blind is None else f" A random rule each time gets {blind:.0f} wrong."),
    )


def _facts(result: Result) -> tuple[tuple[str, Cell], ...]:
    data = result["data"]
    return (
        ("data", data["name"]),
        ("protected stream", f"{whole(data['rounds'])} rows; {len(data['experts'])} experts"),
        ("best expert", f"{data['experts'][data['best_expert']]} ({whole(data['best_loss'])} errors)"),
        ("requested", f"ε ≤ {exact(result['epsilon'])} at δ = {exact(result['delta'])}"),
        ("confidence level", f"{exact(result['confidence'])} for each audit"),
        ("seed", str(result["seed"])),
        ("time", seconds(result["seconds"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    )


def _regrets(result: Result) -> Table:
    data, rows = result["data"], result["regrets"]
    open_loss = next((row["expected_loss"] for row in rows if math.isinf(float(row["epsilon"]))), None)

    def against(loss: float) -> str:
        return "–" if open_loss is None else f"{loss - open_loss:+.1f}"

    body = [("best expert in hindsight", "–", data["best_loss"], 0.0, None)]
    body += [
        (row["name"], upper(row["epsilon"]), row["expected_loss"], row["expected_regret"], row["bound"]) for row in rows
    ]
    return Table(
        f"Expected errors on {whole(data['rounds'])} patients, and the bound on the excess over the best expert",
        ("learner", ">ε certified", ">errors", ">above best expert", ">above non-private", ">bound"),
        tuple(
            (name, epsilon, f"{loss:.1f}", f"{regret:+.1f}", against(loss), _bound(bound))
            for name, epsilon, loss, regret, bound in body
        ),
    )


def _bound(bound: Any) -> str:
    return "–" if bound is None else "none" if math.isinf(float(bound)) else f"{float(bound):.1f}"


def _privacy(result: Result) -> Table:
    return Table(
        f"ε at δ = {exact(result['delta'])}: certified, printed in the paper, true on bad neighbours, and measured",
        ("learner", ">certified ε ≤", "method", ">printed ε", ">true ε ≥", ">measured ε ≥"),
        tuple(
            (
                learner["name"],
                upper(learner["epsilon_certified"]),
                learner["method"],
                "none" if learner["epsilon_printed"] is None else number(learner["epsilon_printed"]),
                lower(learner["epsilon_exact"][0]),
                lower(learner["epsilon_measured"]),
            )
            for learner in result["learners"]
        ),
    )


def _conditions(result: Result) -> tuple[Cell, ...]:
    notes: list[Cell] = []
    for learner in result["learners"]:
        printed = learner["printed"]
        if printed is not None and not printed["applies"]:
            failing = [row for row in printed["conditions"] if not row["holds"]]
            named = "; ".join(f"{row['statement']}, here {number(row['value'])}" for row in failing)
            notes.append(f"{learner['name']}: the printed value is outside the formula's conditions ({named}).")
    return tuple(notes)


def _curves(result: Result) -> str:
    return (
        f"A certificate is a whole curve of ε and δ. An audit tests it at the point where a violation would be most "
        f"visible; the measured ε is always at δ = {exact(result['delta'])}. Detectable: the ε at the tested δ that "
        f"the audit would have refuted with probability 0.9. View: the audited output, the whole run or one decision."
    )


def _correct(result: Result) -> Table:
    return Table(
        "Audits of the correct learners, with their certificates as claims",
        (
            "learner",
            "neighbours",
            "view",
            "verdict",
            ">measured ε ≥",
            ">tested at ε, δ",
            ">detectable ε ≥",
            ">samples",
        ),
        tuple(
            (
                audit["learner"],
                audit["neighbours"],
                audit["view"],
                verdict_mark(audit["verdict"], expected=audit["as_expected"]),
                lower(audit["verdict"]["epsilon_lower"]),
                _tested(audit["verdict"]),
                upper(audit["verdict"]["detectable_epsilon"]),
                whole(audit["verdict"]["samples"]),
            )
            for audit in result["audits"]
            if audit["mutation"] is None
        ),
    )


def _tested(verdict: Result) -> str:
    return f"{brief(verdict['epsilon_tested'])}, {brief(verdict['delta_tested'])}"


def _mutants(result: Result) -> Table:
    return Table(
        "Audits of the broken learners, with the certificates of the correct ones as claims",
        ("learner", "mistake", "view", "verdict", ">tested at ε, δ", ">measured ε ≥", ">samples"),
        tuple(
            (
                audit["learner"],
                audit["mutation"],
                audit["view"],
                verdict_mark(audit["verdict"], expected=audit["as_expected"]),
                _tested(audit["verdict"]),
                lower(audit["verdict"]["epsilon_lower"]),
                whole(audit["verdict"]["samples"]),
            )
            for audit in result["audits"]
            if audit["mutation"] is not None
        ),
    )


def _oracle(result: Result) -> Table:
    return Table(
        f"Exact ε at δ = {exact(result['delta'])}, worst-case neighbours",
        ("learner", "view", ">claimed ε", ">exact ε", ">samples needed", ">samples drawn"),
        tuple(
            (
                _broken(audit),
                audit["view"],
                upper(audit["verdict"]["epsilon_claimed"]),
                lower(audit["epsilon_exact"][0]),
                _needed(audit["samples_needed"]),
                whole(audit["verdict"]["samples"]),
            )
            for audit in result["audits"]
            if audit["epsilon_exact"] is not None
        ),
    )


def _needed(samples: Any) -> str:
    return "claim is true" if math.isinf(float(samples)) else whole(math.ceil(float(samples)))


def _tradeoff(result: Result, learner: Result) -> Plot:
    """Returns the certified, exact and measured trade-off curves of the correct learner."""
    name = learner["name"]
    series = [curve("certified", learner["claimed_curve"], "line")]
    for audit in _runs(result, name, broken=False):
        if audit["exact_curve"]:
            series.append(curve("exact, worst-case neighbours", audit["exact_curve"], "dashed"))
        series.append(
            measured(audit["verdict"]["tradeoff"], f"measured, {audit['neighbours'].replace(' ', '-')} neighbours")
        )
    return Plot(
        f"{name}: trade-off between false alarms and misses",
        "false alarms",
        "misses",
        tuple(series),
        f"The same attacks on the correct {name}, by their rates of false alarms and of misses. No attack is below the "
        f"certified curve.",
        (0.0, 1.0),
        (0.0, 1.0),
        in_terminal=False,
    )


def _caught(result: Result, learner: Result) -> Plot:
    """Returns the measured curves of the broken learners with the claimed one, at low rates of false alarms."""
    name = learner["name"]
    rows = [*_runs(result, name, broken=False), *_runs(result, name, broken=True)]
    claims = {(float(learner["epsilon_certified"]), float(result["delta"]))}
    claims |= {(row["verdict"]["epsilon_tested"], row["verdict"]["delta_tested"]) for row in rows}
    alarms = np.geomspace(_FEW, 1.0, 60).tolist()
    bound = tuple(min(1.0, *(math.exp(eps) * alarm + delta for eps, delta in claims)) for alarm in alarms)
    series = [Series("certified upper bound", tuple(alarms), bound)]
    for row in rows:
        if row["neighbours"] == "worst case":
            series.append(_powers(row["verdict"]["tradeoff"], f"measured: {row['mutation'] or 'correct learner'}"))
    return Plot(
        f"{name}, correct and broken: true positives at low rates of false alarms",
        "false alarms",
        "true positives",
        tuple(series),
        f"An attack guesses from the output which of two neighbouring streams {name} saw. The axes are logarithmic: "
        f"its rate of true positives against that of false alarms. No attack on a learner with the certificate of "
        f"{name}, which the broken learners claim too, is above its line. If there was no false alarm, the point is "
        f"at the upper end of its interval.",
        (_FEW, 1.0),
        (_FEW, 1.0),
        log=True,
    )


def _runs(result: Result, name: str, *, broken: bool) -> list[Result]:
    rows = [row for row in result["audits"] if row["learner"] == name and row["view"] == "run"]
    return [row for row in rows if (row["mutation"] is not None) == broken]


def _powers(points: list[dict[str, float]], label: str) -> Series:
    return Series(
        label,
        tuple(point["fpr"] or point["fpr_high"] for point in points),
        tuple(1 - point["fnr"] for point in points),
        "points",
        tuple((point["fpr_low"], point["fpr_high"]) for point in points),
        tuple((1 - point["fnr_high"], 1 - point["fnr_low"]) for point in points),
    )


def _nodes(learner: Result) -> Table:
    return Table(
        f"{learner['name']}: cost per node of its graph (shares need not add up)",
        ("node", "event", ">times", ">ε alone", ">ε of the rest"),
        tuple(
            (
                share["node"],
                event_text(share["event"], 90),
                whole(share["count"]),
                upper(share["epsilon_alone"]),
                upper(share["epsilon_without"]),
            )
            for share in learner["contributions"]
        ),
    )
