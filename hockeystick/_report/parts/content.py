"""What a report says, once for the terminal, the page and Markdown: headings, facts, tables, plots, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from hockeystick._report.parts.plots import Plot
from hockeystick.accounting import AccountantGraph

Result = Mapping[str, Any]
Tone = Literal["good", "bad", "doubt", "plain"]


@frozen
class Mark:
    """A word that carries a judgement; renderers colour it, the word itself says it all."""

    text: str
    tone: Tone


Cell = str | Mark


@frozen
class Table:
    """A table; columns whose name starts with ``>`` hold numbers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@frozen
class Picture:
    """An accountant graph to be drawn, with the ε that each release costs alone."""

    title: str
    graph: AccountantGraph
    spent: tuple[tuple[str, float], ...] = ()


@frozen
class Section:
    """A heading with what belongs under it, in this order."""

    heading: str
    text: tuple[Cell, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    pictures: tuple[Picture, ...] = ()
    in_terminal: bool = True


@frozen
class Report:
    """A title, what the numbers are about, the one sentence that matters, and the sections that explain it."""

    title: str
    headline: Mark
    sections: tuple[Section, ...]
    about: str = ""
