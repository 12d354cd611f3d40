"""Where a command's result goes: its report to the terminal, and JSON, HTML and Markdown to the files asked for.

With ``-`` one of them takes the standard output, and the report for people moves to the standard error stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hockeystick.cli_output import note, print_report, print_text

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMATS = ("json", "html", "markdown")


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
      InvalidArgumentError: a path that can't be written, or one for two of them, or two for the standard output.
      MissingExtraError: ``--html`` without the packages that draw it.
    """
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.files import check_writable

    paths: dict[str, Path] = {}
    stdout = None
    for name in (*FORMATS, *drawings):
        file = given.get(f"{name}_file")
        if file is not None and name == "html":
            from hockeystick.report import require_html

            require_html()
        if file == "-":
            if stdout is not None:
                raise InvalidArgumentError(f"--{name}", file, f"is where --{stdout} goes too", "give a file to one")
            stdout = name
        elif file is not None:
            path = check_writable(f"--{name}", file)
            if path in (*paths.values(), *others):
                raise InvalidArgumentError(f"--{name}", file, "is another result's file too", "give different files")
            paths[name] = path
    return ResultFiles(paths, stdout)


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
    from hockeystick.report import to_html, to_json, to_markdown, to_terminal, together

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
        print_text(made[files.stdout]())


def write(path: Path, content: str | bytes) -> None:
    """Replaces a file as a whole, and says so."""
    from hockeystick.files import write_atomically

    write_atomically(path, content)
    note(f"wrote {path}")
