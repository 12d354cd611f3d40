"""What notebooks show of a verdict: its outcome in a word, and the facts behind it, in HTML and in Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hockeystick.accounting.graph.drawing.notebook_reprs import html_table, markdown_table, markdown_text
from hockeystick.accounting.numerics import rounded_text

if TYPE_CHECKING:
    from hockeystick.audits.verdicts.verdict import Verdict

_COLUMNS = ("audit", "")


def verdict_html(verdict: Verdict) -> str:
    """Returns a verdict as an HTML table; its events and warnings are escaped."""
    return html_table(f"Verdict: {verdict.outcome}", _COLUMNS, _rows(verdict))


def verdict_markdown(verdict: Verdict) -> str:
    """Returns a verdict as Markdown."""
    return f"**Verdict: {markdown_text(verdict.outcome)}**\n\n" + markdown_table(_COLUMNS, _rows(verdict))


def _rows(verdict: Verdict) -> list[tuple[str, str]]:
    first, _, second = verdict.direction.partition("->")
    found = verdict.detectable_epsilon
    caught = f"ε ≥ {rounded_text.upper(found)}" if math.isfinite(found) else "no violation, however large,"
    caught += f" at δ = {verdict.delta_tested:g}" if verdict.tested_elsewhere else ""
    back = f"{verdict.event_back}: {verdict.count_back_p:,} on {second}, {verdict.count_back_q:,} on {first}"
    tested = f"ε = {verdict.epsilon_tested:g}, δ = {verdict.delta_tested:g}"
    return [
        ("claimed", f"ε = {verdict.epsilon_claimed:g} at δ = {verdict.delta:g}"),
        *([("tested at", tested)] if verdict.tested_elsewhere else []),
        ("measured", f"ε ≥ {rounded_text.lower(verdict.epsilon_lower)} at δ = {verdict.delta:g}"),
        ("confidence", f"{verdict.confidence:.10g}"),
        ("event", verdict.event),
        ("happened", f"{verdict.count_p:,} times on {first}, {verdict.count_q:,} on {second}, of {verdict.trials:,}"),
        *([("second event", back)] if verdict.event_back else []),
        ("could have caught", f"{caught} through such an event, with probability 0.9"),
        ("samples", f"{verdict.samples:,} from each data set; seed {verdict.seed}"),
        *(("warning", warning) for warning in verdict.warnings),
    ]
