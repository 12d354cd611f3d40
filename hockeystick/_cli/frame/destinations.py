"""The destinations of a command's result: a report to the terminal; JSON, HTML and Markdown to files.

With ``-`` one of these formats takes the standard output, and the report moves to the standard error stream.
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

_NAMED = 20  # the most columns of a table that a warning names


class ResultFiles(NamedTuple):
    """The files of a result by format, and which format takes the standard output, if any."""

    paths: Mapping[str, Path]
    stdout: str | None = None


def result_files(given: Mapping[str, Any], *others: Path | None, drawings: Sequence[str] = ()) -> ResultFiles:
    """Returns the destinations of the results, after checking before the work starts that they can be written.

    Args:
      given: A command's options, with ``json_file``, ``html_file`` and ``markdown_file`` if they were given.
      others: Paths of the command's other outputs.
      drawings: Names of further formats, with options named in the same way.

    Raises:
      InvalidArgumentError: A path can't be written, is given for two results, or is a file that the command reads; or
        two results go to the standard output, or it is closed.
      MissingExtraError: ``--html`` was given, and packages that it needs are not installed.
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
                reason = f"is the standard output, which --{stdout} takes too"
                raise InvalidArgumentError(f"--{name}", file, reason, "give a file to one of them")
            stdout = name
        elif file is not None:
            paths[name] = output_file(f"--{name}", file, *paths.values(), *others)
    return ResultFiles(paths, stdout)


def output_file(option: str, file: str, *taken: Path | None) -> Path:
    """Returns the path of an output file, after checking that it can be written.

    Args:
      option: The option's flag.
      file: The option's value.
      taken: Paths of the command's other outputs.

    Raises:
      InvalidArgumentError: The file can't be written, is one of ``taken``, or is a file that the command itself reads
        (the types of its options tell: ``FileName``).
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.accounting.files.result_files import check_writable, same_file

    path = check_writable(option, file)
    if path in taken:
        raise InvalidArgumentError(option, file, "is the file of another result too", "give different files")
    for name, other in _files_read(option):
        if same_file(path, other):
            reason = f"is the file of {name}, which the result would replace"
            raise InvalidArgumentError(option, file, reason, "give another file")
    return path


def _files_read(option: str) -> Iterator[tuple[str, str]]:
    """Yields the parameters of the running command that name files it reads, with the files.

    Args:
      option: An output option; files that its result may replace are left out.
    """
    from hockeystick._cli.frame.option_types import FileName

    ctx = click.get_current_context(silent=True)
    for parameter in () if ctx is None else ctx.command.params:
        kind, value = parameter.type, ctx.params.get(parameter.name or "") if ctx is not None else None
        if value is None or not isinstance(kind, FileName) or kind.role == "output" or kind.replaced_by == option:
            continue
        name = parameter.opts[0] if isinstance(parameter, click.Option) else str(parameter.metavar).rstrip(".")
        for one in _words(value):
            yield from ((name, file) for file in kind.files(one))


def _words(value: Any) -> Iterator[str]:
    """Yields the words of an option that may be given several times, with several words each time."""
    if not isinstance(value, tuple):
        yield value
    else:
        for part in value:
            yield from _words(part)


def deliver(
    files: ResultFiles,
    *results: Mapping[str, Any],
    drawings: Mapping[str, Callable[[], str]] | None = None,
    shown: Sequence[RenderableType] | None = None,
) -> None:
    """Writes a result (or several in one) to its files, names the files, and prints the report.

    Args:
      files: The destinations, from :func:`result_files`.
      results: The results.
      drawings: Functions that make the further formats of :func:`result_files`.
      shown: The parts to print instead of the report.
    """
    from hockeystick._report.results import to_html, to_json, to_markdown, to_terminal, together

    made: dict[str, Callable[[], str]] = {
        "json": lambda: to_json(together(results)),
        "html": lambda: to_html(*results),
        "markdown": lambda: to_markdown(*results),
        **(drawings or {}),
    }
    for name, make in made.items():  # JSON first: a page that fails must not lose the result
        if name in files.paths:
            write(files.paths[name], make())
    gap = [""] * (len(results) > 1)
    parts = [part for result in results for part in (to_terminal(result), *gap)] if shown is None else shown
    print_report(*parts, err=files.stdout is not None)
    if files.stdout is not None:
        print_bytes(made[files.stdout]().encode("utf-8", errors="backslashreplace"))


def write(path: Path, content: str | bytes) -> None:
    """Replaces a file atomically and prints its name."""
    from hockeystick.accounting.files.result_files import write_atomically

    write_atomically(path, content)
    note(f"wrote {path}")


def unread_columns(option: str, path: str | None, read: Sequence[str | None]) -> list[str]:
    """Returns a warning that names the columns a command does not read, or an empty list if it reads them all.

    Args:
      option: The option that names the table.
      path: The table's file, or None.
      read: The columns that the command reads where they exist.

    Raises:
      InvalidArgumentError: There is no such table.
    """
    from hockeystick._files.symbol_tables import unread

    found = [] if path is None else unread(option, path, read)
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"{option} has columns that are not read: {', '.join(map(repr, found[:_NAMED]))}{more}"]
