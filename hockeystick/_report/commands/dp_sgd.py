"""The report of ``hockeystick calibrate dp-sgd`` and ``account dp-sgd``: the guarantee of a training."""

from __future__ import annotations

from hockeystick._report.commands.calibrate import target_text
from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section, Table
from hockeystick._report.parts.guarantee_sections import (
    certified,
    curve_sections,
    finite,
    graph_sections,
    guarantee_section,
    versions,
)
from hockeystick._words.figures import exact, lower, upper, whole

DIFFERENT = "the relations protect different changes of the data, so that rows with different ones are not comparable"


def dp_sgd_report(result: Result) -> Report:
    """Returns the report on a training by DP-SGD."""
    training = result["training"]
    per_user = f", for users of {whole(training['user_records'])} records" if training["user_records"] > 1 else ""
    bound = certified(result) if finite(result) else f"no finite ε at δ = {exact(result['delta'])}"
    line = (
        f"{bound} with noise multiplier {float(result['noise_multiplier'])!r} under {result['adjacency']}{per_user}; "
        f"sampling: {result['scheme']}"
    )
    facts: list[tuple[str, Cell]] = [
        ("noise multiplier", f"{float(result['noise_multiplier'])!r} (noise/clip)"),
        *_deviation(result),
        *_filter(result),
        ("steps", _steps(result)),
        ("records, batch, epochs", ", ".join(exact(float(training[key])) for key in ("records", "batch", "epochs"))),
        ("the loader must", result["loader"]),
        *((("known to need", _known(result)),) if result["known_epsilon"] is not None else ()),
        *_search(result),
    ]
    made = Section("Reproduction", facts=(("versions", versions(result)),), in_terminal=False)
    return Report(
        "DP-SGD",
        Mark(line, "good" if finite(result) else "doubt"),
        (
            Section("Training", facts=tuple(facts)),
            Section("Other samplings", tables=(_others(result),)),
            guarantee_section(result),
            *curve_sections(result),
            *graph_sections(result),
            made,
        ),
    )


def _deviation(result: Result) -> tuple[tuple[str, Cell], ...]:
    found = result["standard_deviation"]
    if "filter" in result:
        size = "noise multiplier × clip × sensitivity of C" if found is None else f"{float(found)!r}"
        return (("noise", f"C⁻¹·z on the sums of the batches, where z has standard deviation {size}"),)
    if found is None:
        return (("noise", "noise multiplier × clip (no --clip was given), on the sum of a batch"),)
    return (("noise", f"standard deviation {float(found)!r} on the sum of a batch"),)


def _filter(result: Result) -> tuple[tuple[str, Cell], ...]:
    found = result.get("filter")
    if found is None:
        return ()
    terms = ", ".join(f"{float(weight)!r} · {float(decay)!r}^(i−1)" for decay, weight in _pairs(found))
    apart = f"{whole(found['participations'])} participations, {whole(found['separation'])} steps apart"
    return (
        ("filter", f"C has 1 on its diagonal and, i steps below, the sum of {terms}"),
        ("sensitivity of C", f"{float(found['sensitivity'])!r} for {apart}"),
        ("largest error", f"{float(found['largest_error']):.6g} times the noise, of a sum of all steps so far"),
    )


def _pairs(found: Result) -> list[tuple[float, float]]:
    return list(zip(found["decays"], found["weights"], strict=True))


def _known(row: Result) -> str:
    found = row.get("known_epsilon")
    return "" if found is None else f"ε ≥ {lower(found)} is known to be needed"


def _steps(result: Result) -> str:
    training = result["training"]
    steps, ratio = training["steps"], float(training["epochs"]) * training["records"] / training["batch"]
    return whole(steps) if steps == ratio else f"{whole(steps)} (epochs · records/batch = {ratio:.8g}, rounded up)"


def _search(result: Result) -> tuple[tuple[str, Cell], ...]:
    if "target" not in result:
        return ()
    rejected = result["rejected"]
    near = "none: this is the end of the range" if rejected is None else f"{float(rejected)!r} does not meet the target"
    return ("target", target_text(result["target"])), ("adjacent value", near)


def _others(result: Result) -> Table:
    sought = "noise_multiplier" if "target" in result else "epsilon"
    rows = tuple(
        (
            row["sampling"],
            row["adjacency"],
            whole(row["steps"]),
            upper(row[sought]) if sought in row else "–",
            row.get("refused", _known(row)),
        )
        for row in result["others"]
    )
    if sought == "epsilon":
        caption, name = f"ε that the same noise multiplier gives at δ = {exact(result['delta'])}", ">ε ≤"
    else:
        caption, name = (
            f"Noise multiplier that would be needed for {target_text(result['target'])}",
            ">noise multiplier",
        )
    return Table(f"{caption}; {DIFFERENT}", ("sampling", "relation", ">steps", name, ""), rows)
