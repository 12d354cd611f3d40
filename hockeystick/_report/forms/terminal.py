"""A report for the terminal, rendered by rich."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from hockeystick._report.parts.content import Cell, Mark, Report, Section, Table
from hockeystick._report.parts.graph_tree import GraphTree
from hockeystick._report.parts.plots import text_plot

_STYLES = {"good": "bold green", "bad": "bold red", "doubt": "bold yellow", "plain": "bold"}


class TerminalReport:
    """A rich renderable of a report; ``plots=False`` leaves the plots out."""

    def __init__(self, report: Report, *, plots: bool = True) -> None:
        self._report = report
        self._plots = plots

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the report's parts, fitted to the console's width and characters."""
        plots = self._plots and options.encoding.startswith("utf")  # the frames of plots are not ASCII
        if self._report.about:
            yield _text(self._report.about)
        yield _text(self._report.headline)
        for section in (section for section in self._report.sections if section.in_terminal):
            yield Text()
            yield from _section(section, options.max_width, plots)


def _section(section: Section, width: int, plots: bool) -> Iterator[RenderableType]:
    yield Text(_plain(section.heading), style="bold underline")
    yield from (_text(part) for part in section.text)
    if section.facts:
        grid = RichTable.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in section.facts:
            grid.add_row(_text(name), _text(value))
        yield grid
    for table in section.tables:
        yield Text()
        yield _text(table.caption)
        yield _table(table)
    for plot in (plot for plot in section.plots if plots and plot.in_terminal):
        yield Text()
        yield Text("\n".join(map(_plain, text_plot(plot, width=width).split("\n"))))
    for picture in section.pictures:
        yield Text()
        yield _text(picture.title)
        yield GraphTree(picture.graph, dict(picture.spent))


def _table(table: Table) -> RichTable:
    drawn = RichTable(box=box.SIMPLE_HEAD)
    for name in table.columns:
        drawn.add_column(_plain(name.lstrip(">")), justify="right" if name.startswith(">") else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*map(_text, row))
    return drawn


def _text(cell: Cell) -> Text:
    words, style = (cell.text, _STYLES[cell.tone]) if isinstance(cell, Mark) else (cell, "")
    return Text(_plain(words), style=style)


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isprintable())  # an output, or a file of results, may hold terminal commands
