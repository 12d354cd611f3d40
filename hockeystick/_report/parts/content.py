"""The content of a report as plain values, for the terminal, the page and Markdown: headings, facts, tables, plots."""

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
    """A text with a tone, which renderers show as a colour."""

    text: str
    tone: Tone


Cell = str | Mark


@frozen
class Table:
    """A table; a column whose name starts with ``>`` holds numbers."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@frozen
class Picture:
    """An accountant graph to draw, with the ε of each release alone."""

    title: str
    graph: AccountantGraph
    spent: tuple[tuple[str, float], ...] = ()


@frozen
class Section:
    """A heading with its content, in this order."""

    heading: str
    text: tuple[Cell, ...] = ()
    facts: tuple[tuple[str, Cell], ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    pictures: tuple[Picture, ...] = ()
    in_terminal: bool = True


@frozen
class Report:
    """A title, the terms of the guarantee (``about``), the main result, and sections with the details."""

    title: str
    headline: Mark
    sections: tuple[Section, ...]
    about: str = ""
