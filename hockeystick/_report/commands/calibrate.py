"""The report of ``hockeystick calibrate``: the calibrated parameter and its guarantee."""

from __future__ import annotations

from typing import Any

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section
from hockeystick._report.parts.guarantee_sections import (
    certified,
    curve_sections,
    graph_sections,
    guarantee_section,
    versions,
)
from hockeystick._words.figures import exact, whole
from hockeystick._words.guarantee_terms import about


def calibrate_report(result: Result) -> Report:
    """Returns the report on a calibrated parameter."""
    found = f"{result['parameter']} = {_value(result, 'value')}"
    facts: list[tuple[str, Cell]] = [
        ("found", found),
        *_multiplier(result),
        ("adjacent value", _rejected(result)),
        ("target", target_text(result["target"])),
        *((name.replace("_", " "), _shown(value)) for name, value in result["given"].items()),
        ("tried", f"{whole(result['evaluations'])} values"),
    ]
    made = Section("Reproduction", facts=(("versions", versions(result)),), in_terminal=False)
    return Report(
        f"Calibration of {result['what']}",
        Mark(f"{found}: {certified(result)}", "good"),
        (
            Section("Calibration", facts=tuple(facts)),
            guarantee_section(result),
            *curve_sections(result),
            *graph_sections(result),
            made,
        ),
        about(result),
    )


def _multiplier(result: Result) -> tuple[tuple[str, Cell], ...]:
    multiplier = result.get("noise_multiplier")
    return () if multiplier is None else (("noise multiplier", f"{float(multiplier)!r} (noise/clip)"),)


def target_text(target: Result) -> str:
    """Returns a target of calibration in words."""
    if "epsilon" in target:
        return f"ε ≤ {exact(target['epsilon'])} at δ = {exact(target['delta'])}"
    if "advantage" in target:
        return f"every membership attack has an advantage of at most {exact(target['advantage'])}"
    rates = exact(target["true_positive_rate"]), exact(target["false_positive_rate"])
    return (
        f"every membership attack has a true positive rate of at most {rates[0]} at a false positive rate of {rates[1]}"
    )


def _value(result: Result, name: str) -> str:
    """Returns the parameter in full, for a rounded value might not meet the target."""
    return whole(result[name]) if result["whole"] else repr(float(result[name]))


def _rejected(result: Result) -> str:
    if result["rejected"] is None:
        return "none: this is the end of the range"
    return f"{_value(result, 'rejected')} does not meet the target"


def _shown(value: Any) -> str:
    return exact(value) if isinstance(value, float) else str(value)
