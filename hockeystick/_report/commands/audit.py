"""The report of an audit: the verdict, its event, and the detectable ε."""

from __future__ import annotations

import math

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table, Tone
from hockeystick._report.parts.plots import Plot, Series, claimed_curve, curve
from hockeystick._words.figures import exact, lower, seconds, shorten, upper, whole

TONES: dict[str, Tone] = {"refuted": "bad", "consistent": "good", "inconclusive": "doubt"}


def audit_report(result: Result) -> Report:
    """Returns the report on one audit."""
    return Report(
        f"Privacy audit of {shorten(result['target'], 80)}",
        _headline(result),
        (
            Section("Verdict", facts=_facts(result), tables=(_counts(result),), plots=(_tradeoff(result),)),
            *_warnings(result),
            Section("Reproduction", facts=_recipe(result)),
        ),
    )


def verdict_mark(verdict: Result, *, expected: bool | None = None) -> Mark:
    """Returns a verdict's outcome, with the tone of the outcome or, if given, of ``expected``."""
    outcome = verdict["outcome"]
    if expected is None:
        return Mark(outcome, TONES[outcome])
    return Mark(outcome, "good") if expected else Mark(f"{outcome}, unexpectedly", "bad")


def could_catch(verdict: Result) -> str:
    """Returns the least ε that the audit would have refuted, in words."""
    detectable = float(verdict["detectable_epsilon"])
    what = f"ε ≥ {upper(detectable)}" if math.isfinite(detectable) else "no violation, however large,"
    what += f" at δ = {exact(verdict['delta_tested'])}" if _elsewhere(verdict) else ""
    return f"{what} with probability 0.9, by such an event and this number of samples"


def _elsewhere(verdict: Result) -> bool:
    """Returns whether a claimed curve was tested at another point than the one stated."""
    return bool((verdict["epsilon_tested"], verdict["delta_tested"]) != (verdict["epsilon_claimed"], verdict["delta"]))


def _tested_at(verdict: Result) -> bool:
    """Returns whether a page names another point: not where a coin walk has refuted the curve as a whole."""
    return _elsewhere(verdict) and not (verdict.get("guesses") and verdict["outcome"] == "refuted")


def _headline(result: Result) -> Mark:
    claim = f"({exact(result['epsilon_claimed'])}, {exact(result['delta'])})-differential privacy"
    false = f"the claim of {claim} is false"
    if result.get("guesses") and result["epsilon_lower"] < result["epsilon_claimed"]:
        false = f"the claimed curve through {claim} is false as a whole, at a point that the test does not name"
    elif not result.get("guesses") and _elsewhere(result) and result["epsilon_lower"] <= result["epsilon_claimed"]:
        false = f"the claimed curve through {claim} is false, at another point"
    words = {
        "refuted": f"refuted: {false} (confidence level {exact(result['confidence'])})",
        "consistent": f"consistent: no violation of {claim} was found",
        "inconclusive": f"inconclusive: too few samples for a useful statement about {claim}",
    }
    return Mark(words[result["outcome"]], TONES[result["outcome"]])


def _warnings(result: Result) -> tuple[Section, ...]:
    """Returns a section with the warnings for pages; the command line prints them separately."""
    found = tuple(Mark(warning, "doubt") for warning in result["warnings"])
    return (Section("Warnings", text=found, in_terminal=False),) if found else ()


def _facts(result: Result) -> tuple[tuple[str, Cell], ...]:
    point = (result["epsilon_tested"], result["delta_tested"])
    tested = f"ε = {exact(point[0])}, δ = {exact(point[1])}"
    likelier, other = _sides(result)
    return (
        ("claimed", f"ε = {exact(result['epsilon_claimed'])} at δ = {exact(result['delta'])}"),
        *((("claimed curve", shorten(curve_words, 200)),) if (curve_words := result.get("claim")) else ()),
        *((("tested at", f"{tested} (a point of the claimed curve)"),) if _tested_at(result) else ()),
        *((("method", f"{result['method']}, because {result['why']}"),) if result.get("why") else ()),
        *_certified(result),
        ("measured", f"ε ≥ {lower(result['epsilon_lower'])} at δ = {exact(result['delta'])}"),
        ("confidence level", f"{exact(result['confidence'])}, jointly for all events and both directions"),
        *_or_else(result),
        *_pairs(result),
        ("event", shorten(result["event"], 400)),
        ("direction", f"more likely on {likelier} than on {other}"),
        *(
            (("second event", f"{shorten(back, 400)}: more likely on {other}"),)
            if (back := result["event_back"])
            else ()
        ),
        *((("hint", hint),) if (hint := result.get("hint")) else ()),
        ("floating point", _leak(result)),
    )


def _pairs(result: Result) -> tuple[tuple[str, Cell], ...]:
    """Returns the tested pair and the standing of the others, in an audit of several."""
    from hockeystick.audits.verdicts.pairs import PairStanding, pairs_in_words

    if not result.get("pairs"):
        return ()
    standings = tuple(PairStanding(**row) for row in result["pairs"])
    return tuple(("pairs" if i == 0 else "", line) for i, line in enumerate(pairs_in_words(result["pair"], standings)))


def _or_else(result: Result) -> tuple[tuple[str, Cell], ...]:
    """Returns the bound on δ of a refuted claim, or else what the audit would have refuted."""
    if result["outcome"] != "refuted":
        return (("detectable", could_catch(result)),)
    if "delta_lower" not in result:  # a file of an earlier version
        return ()
    return (("or", f"δ ≥ {lower(result['delta_lower'])} at ε = {exact(result['epsilon_claimed'])}"),)


def _certified(result: Result) -> tuple[tuple[str, Cell], ...]:
    """Returns the certificate of ``--certificate``, and whether the audit contradicts it."""
    found = result.get("certificate")
    if not found:
        return ()
    words = f"ε ≤ {upper(found['epsilon_upper'])} at δ = {exact(found['delta'])}"
    below = float(result["epsilon_lower"]) > float(found["epsilon_upper"])
    if below and float(found["delta"]) <= float(result["delta"]):  # an ε at some δ holds at every larger δ
        return (("certified", Mark(f"{words}, which the audit contradicts", "bad")),)
    return (("certified", words),)


def _leak(result: Result) -> Cell:
    if result["float_leak"]:
        counted = "part of the verdict" if result["bits"] else "not part of the verdict without --bits"
        return Mark(f"the bit patterns of the outputs contradict the claim ({counted})", "doubt")
    return "no leak found in the bit patterns of the outputs" + (" (part of the verdict)" if result["bits"] else "")


def _sides(result: Result) -> tuple[str, str]:
    likelier, _, other = result["direction"].partition("->")
    return likelier, other


def _counts(result: Result) -> Table:
    likelier, other = _sides(result)
    found = [("event", likelier, result["count_p"]), ("event", other, result["count_q"])]
    if result["event_back"]:
        found += [("second event", other, result["count_back_p"]), ("second event", likelier, result["count_back_q"])]
    rows = tuple(
        (event, side, whole(count), whole(result["trials"]), f"{count / result['trials']:.4%}")
        for event, side, count in found
    )
    caption = "Counts of each event, in outputs that were not used to choose it"
    if result.get("guesses"):
        caption = f"Guessed outputs, {result['right_guesses']:,} of {result['guesses']:,} rightly, by the last events"
    return Table(caption, ("event", "data set", ">times", ">of", ">share"), rows)


def _tradeoff(result: Result) -> Plot:
    epsilon, delta = float(result["epsilon_claimed"]), float(result["delta"])
    claim = f"claimed: ε = {exact(epsilon)}, δ = {exact(delta)}"
    found = (result["count_q"] / result["trials"], 1 - result["count_p"] / result["trials"])
    series = [claimed_curve(epsilon, delta, claim)]
    certificate, ceiling, words = result.get("certificate"), result.get("measured_bound"), ""
    if certificate and certificate["certified_curve"]:
        label = f"certified: ε ≤ {upper(certificate['epsilon_upper'])}, δ = {exact(certificate['delta'])}"
        series.append(curve(label, certificate["certified_curve"], "dashed"))
    if ceiling:
        label = f"measured bound, confidence level {exact(result['confidence'])}"
        series.append(curve(label, ceiling, "ceiling"))
        words = " The true curve is not above the measured bound, and a true claim is not in the shaded region."
    if points := result["tradeoff"]:
        series.append(measured(points, "measured points with their intervals"))
    series.append(Series("event of the verdict", (found[0],), (found[1],), "points"))
    return Plot(
        "Trade-off between false alarms and misses",
        "false alarms",
        "misses",
        tuple(series),
        f"An attack that distinguishes the two data sets by an event has a rate of false alarms and a rate of misses. "
        f"The claim allows only points on or above its curve. The event of the verdict has {found[0]:.2%} false alarms "
        f"and {found[1]:.2%} misses.{words}",
        (0.0, 1.0),
        (0.0, 1.0),
    )


def measured(points: list[dict[str, float]], label: str) -> Series:
    """Returns the estimated points of a trade-off curve, with their intervals."""
    return Series(
        label,
        tuple(point["fpr"] for point in points),
        tuple(point["fnr"] for point in points),
        "points",
        tuple((point["fpr_low"], point["fpr_high"]) for point in points),
        tuple((point["fnr_low"], point["fnr_high"]) for point in points),
    )


def _samples(result: Result) -> str:
    drawn, planned = result["samples"], result.get("planned", result["samples"])
    if drawn < planned:
        return f"stopped after {whole(drawn)} of {whole(planned)} from each data set: they refute the claim"
    return f"{whole(drawn)} from each data set" + (", limited by the time" if result["timed"] else "")


def _recipe(result: Result) -> tuple[tuple[str, Cell], ...]:
    return (
        ("target", result["target"]),
        ("d0", shorten(result["d0"], 200)),
        ("d1", shorten(result["d1"], 200)),
        (
            "samples",
            _samples(result),
        ),
        ("seed", str(result["seed"])),
        ("time", seconds(result["seconds"])),
        ("versions", ", ".join(f"{name} {number}" for name, number in result["versions"].items())),
    )
