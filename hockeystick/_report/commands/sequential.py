"""The report of a sequential audit: the verdict, the wealth of its bets, and the event with the most money on it."""

from __future__ import annotations

import math

from hockeystick._report.commands.audit import TONES
from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section
from hockeystick._words.figures import exact, lower, number, seconds, shorten, upper, whole


def sequential_report(result: Result) -> Report:
    """Returns the report on one sequential audit."""
    warnings = tuple(Mark(warning, "doubt") for warning in result["warnings"])
    return Report(
        f"Sequential privacy audit of {shorten(result['target'], 80)}",
        _headline(result),
        (
            Section("Verdict", facts=_facts(result)),
            *((Section("Warnings", text=warnings, in_terminal=False),) if warnings else ()),
            Section("Reproduction", facts=_recipe(result)),
        ),
    )


def _headline(result: Result) -> Mark:
    claim = f"({exact(result['epsilon_claimed'])}, {exact(result['delta'])})-differential privacy"
    words = {
        "refuted": f"refuted after {whole(result['stopped_at'])} outputs of each data set: {claim} is a false claim",
        "consistent": f"consistent: no violation of {claim} was found",
        "inconclusive": f"inconclusive: too few samples for a useful statement about {claim}",
    }
    return Mark(words[result["outcome"]], TONES[result["outcome"]])


def _facts(result: Result) -> tuple[tuple[str, Cell], ...]:
    likelier, _, other = result["direction"].partition("->")
    detectable = float(result["detectable_epsilon"])
    found = f"ε ≥ {upper(detectable)}" if math.isfinite(detectable) else "no violation, however large,"
    named = result.get("claim")
    return (
        ("claimed", f"ε = {exact(result['epsilon_claimed'])} at δ = {exact(result['delta'])}"),
        *((("claimed curve", shorten(named, 200)),) if named else ()),
        ("tested at", f"ε = {exact(result['epsilon_tested'])}, δ = {exact(result['delta_tested'])}"),
        ("measured", f"ε ≥ {lower(result['epsilon_lower'])} at δ = {exact(result['delta'])}"),
        ("false alarms", f"at most {exact(result['alpha'])}, whenever the audit stops"),
        ("wealth", f"e^{number(result['log_wealth'])}; the claim falls at e^{number(-math.log(result['alpha']))}"),
        ("detectable", f"{found} with probability 0.9, by such an event and this number of samples"),
        ("event", shorten(result["event"], 400)),
        (
            "shares",
            f"{result['frequency_p']:.4%} of the outputs on {likelier}, {result['frequency_q']:.4%} on {other}",
        ),
        *_counts(result, likelier, other),
        *((("hint", hint),) if (hint := result.get("hint")) else ()),
    )


def _counts(result: Result, likelier: str, other: str) -> tuple[tuple[str, Cell], ...]:
    """Returns the counts of the event; none in files of earlier versions."""
    if not (trials := result.get("trials")):
        return ()
    from hockeystick.audits.verdicts.common import counts_in_words

    return (("counts", counts_in_words(likelier, other, result["count_p"], result["count_q"], trials)),)


def _recipe(result: Result) -> tuple[tuple[str, Cell], ...]:
    return (
        ("target", result["target"]),
        ("d0", shorten(result["d0"], 200)),
        ("d1", shorten(result["d1"], 200)),
        ("samples", f"{whole(result['samples'])} from each data set"),
        ("seed", str(result["seed"])),
        ("time", seconds(result["seconds"])),
        ("versions", ", ".join(f"{name} {version}" for name, version in result["versions"].items())),
    )
