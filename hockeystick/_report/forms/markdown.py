"""A report as Markdown, for a comment on a pull request or a page of documentation.

It is the Markdown of GitHub and GitLab: tables, collapsed sections for plots, and graphs in Mermaid, which both draw.
All text from outside is escaped, so that it contains no markup, links or mentions.
"""

from __future__ import annotations

from collections.abc import Iterator

from hockeystick._report.parts.content import Cell, Mark, Picture, Report, Section, Table
from hockeystick._report.parts.plots import Plot, text_plot
from hockeystick.accounting.graph.drawing.mermaid import to_mermaid
from hockeystick.accounting.notebook_tables import markdown_text

_SIGNS = {"good": "✅ ", "bad": "❌ ", "doubt": "⚠️ ", "plain": ""}
_PLOT_WIDTH = 72
_MOST_DRAWN = 60  # nodes; Mermaid fails on much larger graphs


def to_markdown(report: Report, *, level: int = 2) -> str:
    """Returns the report as Markdown.

    Args:
      report: The report.
      level: The level of its heading; sections are one level below.
    """
    about = [markdown_text(report.about), ""] if report.about else []
    lines = [f"{'#' * level} {markdown_text(report.title)}", "", *about, f"**{_words(report.headline)}**", ""]
    for section in report.sections:
        lines += [f"{'#' * (level + 1)} {markdown_text(section.heading)}", "", *_section(section)]
    return "\n".join(lines).rstrip() + "\n"


def _section(section: Section) -> Iterator[str]:
    for part in section.text:
        yield from (_words(part), "")
    if section.facts:
        yield from ("| | |", "| --- | --- |")
        yield from (f"| {markdown_text(name)} | {_words(value)} |" for name, value in section.facts)
        yield ""
    for table in section.tables:
        yield from _table(table)
    for picture in section.pictures:
        yield from _picture(picture)
    for plot in section.plots:
        yield from _plot(plot)


def _table(table: Table) -> Iterator[str]:
    yield from (f"*{markdown_text(table.caption)}*", "")
    yield f"| {' | '.join(markdown_text(name.lstrip('>')) for name in table.columns)} |"
    yield f"| {' | '.join('---:' if name.startswith('>') else '---' for name in table.columns)} |"
    yield from (f"| {' | '.join(map(_words, row))} |" for row in table.rows)
    yield ""


def _picture(picture: Picture) -> Iterator[str]:
    yield from (f"*{markdown_text(picture.title)}*", "")
    if len(picture.graph.nodes) <= _MOST_DRAWN:
        yield from ("```mermaid", to_mermaid(picture.graph, spent=dict(picture.spent)).rstrip(), "```", "")
    else:
        yield from (f"(The graph has {len(picture.graph.nodes)} nodes, too many for a drawing.)", "")


def _plot(plot: Plot) -> Iterator[str]:
    yield from ("<details>", f"<summary>{markdown_text(plot.title)}</summary>", "", markdown_text(plot.description), "")
    drawn = text_plot(plot, width=_PLOT_WIDTH)
    yield "```text"
    yield "".join(c for c in drawn.replace("```", "'''") if c.isprintable() or c == "\n")
    yield from ("```", "", "</details>", "")


def _words(cell: Cell) -> str:
    return _SIGNS[cell.tone] + markdown_text(cell.text) if isinstance(cell, Mark) else markdown_text(cell)
