"""The report of ``hockeystick kl``: the estimate, its privacy and assumptions, and the communication."""

from __future__ import annotations

from typing import Any

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_sections import learner_graph_sections
from hockeystick._report.parts.learner_sections import MODES, Draw, Facts, headline, privacy_facts, requested
from hockeystick._report.parts.plots import Plot, Series
from hockeystick._words.figures import exact, lower, number, upper, whole

_TITLES = {
    "kl-trusted": "Private KL estimate, trusted server",
    "kl-aggregated": "Private KL estimate, trusted aggregator",
    "kl-dist": "Private KL estimate, no trusted party",
    "kl-histogram": "Drift from a noisy histogram",
    "kl-watch": "Drift watch",
    "kl-monitor": "Drift monitor",
    "kl-alarms": "Drift alarms",
}
_TONES = {"above": "bad", "alarm": "bad", "below": "good"}
_WHOLE = ("samples", "symbols asked for", "clients asked", "survivors", "windows", "alarms")


def kl_report(result: Result) -> Report:
    """Returns the report on a plan, a simulated run or a release."""
    sections: tuple[Section, ...] = (
        Section("Privacy", facts=_privacy(result)),
        Section("Parameters", facts=_parameters(result)),
    )
    if "bits_up" in result:
        sections = (*sections, Section("Communication", facts=_communication(result)))
    if "windows" in result:
        sections = (_windows(result), *sections)
    elif result["learner"] == "kl-histogram" and result["mode"] != "plan":
        sections = (_divergences(result), *sections)
    elif result["mode"] != "plan":
        sections = (Section("Estimate", facts=_estimate(result)), *sections)
    found = f"KL = {number(result['estimate'])}, " if "estimate" in result else ""
    title = f"{_TITLES[result['learner']]}: {MODES[result['mode']]}"
    return Report(title, headline(result, found=found), (*sections, *learner_graph_sections(result)))


REPORTS: dict[str, Draw] = dict.fromkeys(_TITLES, kl_report)


def _estimate(result: Result) -> Facts:
    dist, sampling = result["learner"] == "kl-dist", result["sampling_deviation"]
    about = " (approximate, from the noisy counts)" if dist else ""
    facts: list[tuple[str, Cell]] = [
        ("estimate", f"KL(reference || records) = {number(result['estimate'])}"),
        ("noise", f"standard deviation {number(result['noise_deviation'])}{about}"),
    ]
    if sampling == 0.0:
        facts.append(("drawn symbols", "no error: all symbols were queried"))
    elif sampling is not None:
        words = "approximate" if dist else "an upper bound if the estimate is the divergence"
        facts.append(("drawn symbols", f"standard deviation {number(sampling)} ({words})"))
    facts += [("records", str(result["data"])), ("reference", str(result["reference"]))]
    facts.append(("public coins", str(result["coins"])))
    return tuple(facts)


def _divergences(result: Result) -> Section:
    table = tuple(
        (
            row["divergence"],
            number(row["estimate"]),
            f"{lower(row['low'])} to {upper(row['high'])}",
            row["interval"],
            f"{lower(row['proved_low'])} to {'∞' if row['proved_high'] is None else upper(row['proved_high'])}",
            row["estimator"],
        )
        for row in result["divergences"]
    )
    title = f"Divergences {result['parameters']['divergences']}"
    confidence = f"{exact(100 * result['parameters']['confidence'])} % interval"
    columns = ("", ">estimate", confidence, "which is", "proved interval", "estimator")
    facts = (("records", str(result["data"])), ("reference", str(result["reference"])))
    return Section("Drift", facts=facts, tables=(Table(title, columns, table),))


def _privacy(result: Result) -> Facts:
    group = result["group"]
    who = "one record" if result["unit"] == "record" else f"all records of a client, at most {whole(group)}"
    if result["unit"] == "client" and result["learner"] in ("kl-monitor", "kl-alarms"):
        who += " in each window"
    return privacy_facts(
        result,
        ("threat model", result["threat_model_note"]),
        ("for", f"{who}, {result['adjacency']}"),
        target=requested(result),
    )


def _parameters(result: Result) -> Facts:
    sizes = tuple((name, whole(result[name])) for name in ("clients", "records", "symbols"))
    rows = result["parameters"].items()
    return (
        *sizes,
        *((name.replace("asked for", "queried").replace("asked", "queried"), _text(name, x)) for name, x in rows),
    )


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " and ".join(number(each) for each in value)
    return whole(value) if name in _WHOLE else number(value)


def _communication(result: Result) -> Facts:
    return (
        ("answers", f"{whole(result['answers'])}, by the client with the most queries"),
        ("down", f"{whole(result['bits_down'])} bits to this client"),
        ("up", f"{whole(result['bits_up'])} bits from this client"),
    )


# --- windows ---------------------------------------------------------------------------------------------------------


def _windows(result: Result) -> Section:
    rows, against = result["windows"], f"KL against the threshold {exact(result['threshold'])}"
    if result["learner"] == "kl-watch":
        bar = number(result["parameters"]["alarm at evidence"])
        gathered = tuple((row["window"], number(row["evidence"]), _finding(row["finding"])) for row in rows)
        return Section("Windows", tables=(Table(f"Alarm at evidence {bar}", ("window", ">evidence", ""), gathered),))
    if result["learner"] == "kl-alarms":
        alarms = tuple((row["window"], _finding(row["finding"])) for row in rows)
        return Section("Windows", tables=(Table(against, ("window", "reported"), alarms),))
    table = tuple(
        (
            row["window"],
            number(row["estimate"]),
            number(row["noise_deviation"]),
            f"{lower(row['low'])} to {upper(row['high'])}",
            _finding(row["finding"]),
        )
        for row in rows
    )
    columns = (
        "window",
        ">estimate",
        ">noise",
        f"{exact(100 * result['parameters']['confidence'])} % interval",
        "KL is",
    )
    return Section("Windows", tables=(Table(against, columns, table),), plots=(_plot(result),))


def _finding(word: str) -> Cell:
    word = word.replace("asked", "queried")
    tone = _TONES.get(word)
    return Mark(word, "bad") if tone == "bad" else Mark(word, "good") if tone == "good" else word


def _plot(result: Result) -> Plot:
    rows, threshold = result["windows"], float(result["threshold"])
    at = tuple(float(i + 1) for i in range(len(rows)))
    values, lows, highs = (tuple(float(row[name]) for row in rows) for name in ("estimate", "low", "high"))
    edges = (0.5, len(rows) + 0.5)
    ends = tuple(zip(lows, highs, strict=True))
    top = max(*values, threshold, min(max(highs), 4.0 * max(*values, threshold, 1e-9)))
    bottom = min(0.0, *values)
    series = (
        Series("estimate, with its interval", at, values, kind="points", y_interval=ends),
        Series("lower end", at, lows, kind="points"),
        Series("upper end", at, highs, kind="points"),
        Series(f"threshold {exact(threshold)}", edges, (threshold, threshold), kind="dashed"),
    )
    return Plot(
        title="Drift by window",
        x_label="window",
        y_label="KL(reference || records)",
        series=series,
        description=f"Estimates of {len(rows)} windows with their intervals, and the threshold.",
        x_limits=edges,
        y_limits=(1.05 * bottom, 1.05 * top),
    )
