"""Where a command's result goes: its report to the terminal, and JSON, HTML and Markdown to the files asked for.

With ``-`` one of them takes the standard output, and the report for people moves to the standard error stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hockeystick._cli.frame.streams import note, print_bytes, print_report

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMATS = ("json", "html", "markdown")

_NAMED = 20  # columns of a table, in a warning


class ResultFiles(NamedTuple):
    """The files of a result by format, and which format takes the standard output, if any."""

    paths: Mapping[str, Path]
    stdout: str | None = None


def result_files(given: Mapping[str, Any], *others: Path | None, drawings: Sequence[str] = ()) -> ResultFiles:
    """Returns where the results go, refusing before the work starts what could not be written after it.

    Args:
      given: a command's options, ``json_file``, ``html_file`` and ``markdown_file`` among them; one that is missing was
        not asked for.
      others: paths that the command writes something else to.
      drawings: names of further formats, with options named in the same way.

    Raises:
      InvalidArgumentError: a path that can't be written, or one for two of them or of a file that the command reads; or
        two for the standard output, or one where it is closed.
      MissingExtraError: ``--html`` without the packages that draw it.
    """
    from hockeystick.accounting.errors import InvalidArgumentError

    paths: dict[str, Path] = {}
    stdout = None
    for name in (*FORMATS, *drawings):
        file = given.get(f"{name}_file")
        if file is not None and name == "html":
            from hockeystick._report.results import require_html

            require_html()
        if file == "-":
            if sys.stdout is None:
                raise InvalidArgumentError(f"--{name}", file, "the standard output is closed", "give a file")
            if stdout is not None:
                raise InvalidArgumentError(f"--{name}", file, f"is where --{stdout} goes too", "give a file to one")
            stdout = name
        elif file is not None:
            paths[name] = output_file(f"--{name}", file, *paths.values(), *others)
    return ResultFiles(paths, stdout)


def output_file(option: str, file: str, *taken: Path | None) -> Path:
    """Returns where something is written that an option gives a file for.

    Args:
      option: its flag.
      file: its value.
      taken: where something else goes.

    Raises:
      InvalidArgumentError: it can't be written; or it is one of ``taken``, or a file that the command itself reads or
        keeps, as its options' types say (``FileName``).
    """
    from hockeystick._files.result_files import check_writable, same_file
    from hockeystick.accounting.errors import InvalidArgumentError

    path = check_writable(option, file)
    if path in taken:
        raise InvalidArgumentError(option, file, "is another result's file too", "give different files")
    for name, other in _read_or_kept(option):
        if same_file(path, other):
            raise InvalidArgumentError(option, file, f"is the file of {name}, which it would replace", "give another")
    return path


def _read_or_kept(option: str) -> Iterator[tuple[str, str]]:
    """The files that the command under way reads or keeps, and by which of its parameters.

    Args:
      option: which of its results may replace some of them.
    """
    from hockeystick._cli.frame.option_types import FileName

    ctx = click.get_current_context(silent=True)
    for parameter in () if ctx is None else ctx.command.params:
        kind, value = parameter.type, ctx.params.get(parameter.name or "") if ctx is not None else None
        if value is None or not isinstance(kind, FileName) or kind.role == "output" or kind.replaced_by == option:
            continue
        name = parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.metavar).rstrip(".")
        for one in value if isinstance(value, tuple) else (value,):
            yield from ((name, file) for file in kind.files(one))


def deliver(
    files: ResultFiles,
    *results: Mapping[str, Any],
    drawings: Mapping[str, Callable[[], str]] | None = None,
    shown: Sequence[RenderableType] | None = None,
) -> None:
    """Writes a result (or several, together) to its files, says where they are, and prints the report.

    Args:
      drawings: how to make the further formats of ``result_files``.
      shown: printed instead of the report.
    """
    from hockeystick._report.results import to_html, to_json, to_markdown, to_terminal, together

    made: dict[str, Callable[[], str]] = {
        "json": lambda: to_json(together(results)),
        "html": lambda: to_html(*results),
        "markdown": lambda: to_markdown(*results),
        **(drawings or {}),
    }
    for name, make in made.items():  # JSON first of all: no page is worth the result
        if name in files.paths:
            write(files.paths[name], make())
    gap = [""] * (len(results) > 1)
    parts = [part for result in results for part in (to_terminal(result), *gap)] if shown is None else shown
    print_report(*parts, err=files.stdout is not None)
    if files.stdout is not None:
        print_bytes(made[files.stdout]().encode("utf-8", errors="backslashreplace"))


def write(path: Path, content: str | bytes) -> None:
    """Replaces a file as a whole, and says so."""
    from hockeystick._files.result_files import write_atomically

    write_atomically(path, content)
    note(f"wrote {path}")


def unread_columns(option: str, path: str | None, read: Sequence[str | None]) -> list[str]:
    """Returns a line for a warning of columns that a command does not read, by their names; none if it reads all.

    Args:
      option: that names the table.
      path: of the table; None for none.
      read: the columns that are read, if they are there.

    Raises:
      InvalidArgumentError: there is no such table.
    """
    from hockeystick._files.symbol_tables import unread

    found = [] if path is None else unread(option, path, read)
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"{option} has columns that are not read: {', '.join(map(repr, found[:_NAMED]))}{more}"]
