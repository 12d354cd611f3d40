"""Small tables for notebooks, in HTML and in Markdown. All texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

_CELL = "text-align: left; padding: 0.1em 0.8em 0.1em 0"


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table as HTML with all texts escaped. The first cell of a row is its heading."""
    head = "".join(f'<th scope="col" style="{_CELL}">{printable_html(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row" style="{_CELL}; font-weight: normal">{printable_html(first)}</th>'
        + "".join(f'<td style="{_CELL}">{printable_html(cell)}</td>' for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    title = f'<caption style="text-align: left; font-weight: 600">{printable_html(caption)}</caption>'
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table as Markdown (of GitHub and of notebooks) with all texts escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(
        "| " + " | ".join(cell if i == 1 else markdown_text(cell) for cell in line) + " |\n"
        for i, line in enumerate(lines)
    )


def markdown_text(text: str) -> str:
    """Returns text of which Markdown shows every character literally: no markup, no links, no mentions."""
    line = "".join(c for c in " ".join(str(text).split()) if c.isprintable())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = "".join("\\" + c if c in r"\`*_{}[]|~$" else c for c in line)
    for sign in ("@", "://", "#"):  # an empty comment is invisible, and prevents links
        line = line.replace(sign, f"{sign[0]}<!-- -->{sign[1:]}")
    line = line.replace("www.", "www<!-- -->.")
    return re.sub(r"^(\d*)([-+=.)])(?=\s|$|\2)", r"\1\\\2", line)  # no list, no underlined heading


def printable_html(text: str) -> str:
    """Returns text as HTML that shows its printable characters literally."""
    return escape("".join(c for c in str(text) if c.isprintable()))
