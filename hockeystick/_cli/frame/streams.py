"""Who reads what: results go to the standard output, progress, warnings and errors to the standard error stream.

So the output of a command can be piped. Which files a result goes to is in ``_cli/frame/result_files.py``.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_WIDTH = 100  # columns where the output is no terminal
_QUIET_SECONDS = 5.0  # between two plain progress lines of one stage


class Interrupted(click.Abort):
    """Ctrl-C during a command; the text says what was saved."""


def one_line(text: object) -> str:
    """Returns a text in one line without control characters, so that nothing printed can steer the terminal."""
    return "".join(c for c in " ".join(str(text).split()) if c.isprintable() or ord(c) > 0xD7FF)


def complain(message: str) -> None:
    """Prints an error."""
    _err(f"hockeystick: error: {one_line(message)}")


def warn(message: str) -> None:
    """Prints a warning."""
    _err(f"hockeystick: warning: {one_line(message)}")


def note(message: str) -> None:
    """Prints a remark beside the result: where a file was written, how far the work is."""
    _err(f"hockeystick: {one_line(message)}")


def _err(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody reads it, its disk is full, or it is closed
        click.echo(line, err=True)


def print_report(*parts: RenderableType, err: bool = False) -> None:
    """Prints rich renderables, one below the other.

    A reader that has gone away is no error: the exit status still has to tell the verdict.
    """
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    if stream is None:  # closed by whoever started the program
        return
    width = None if stream.isatty() else PLAIN_WIDTH
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:  # rich itself would leave with status 1 on a broken pipe
        for part in parts:
            console.print(part)
    text = "".join(line.rstrip() + "\n" for line in capture.get().splitlines())
    print_text(re.sub(r"\n{3,}", "\n\n", text), err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Prints a text as it is; a reader that has gone away is no error."""
    try:
        click.echo(text, err=err, nl=False, color=True)
    except BrokenPipeError:
        if not err:
            silence_stdout()


def print_bytes(data: bytes) -> None:
    """Prints a result for programs, as it is in a file: a page says that it is UTF-8, whatever the terminal takes."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # somebody's stream of text
        print_text(data.decode("utf-8"))
        return
    try:
        sys.stdout.flush()
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        silence_stdout()


def silence_stdout() -> None:
    """Sends the rest of the standard output nowhere; Python would complain at exit about what it can't write."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def target_output_to_stderr() -> Iterator[None]:
    """Keeps what an audited function prints out of the standard output, which is for the result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


class Progress:
    """Shows how far a command is: a bar on a terminal, otherwise a plain line at each stage and every few seconds.

    Use as a context manager; call with the stage and the share of it that is done.

    Args:
      stream: where to; the standard error stream without it.
      patience: seconds before the first plain line, for work that is mostly done by then.
    """

    def __init__(self, stream: TextIO | None = None, *, patience: float = 0.0) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._printed = 0.0
        self._patience = patience
        self._started = time.monotonic()

    def __enter__(self) -> Progress:
        if self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, console=Console(file=self._stream), transient=True, redirect_stdout=False)
            self._task = self._bar.add_task("", total=1.0)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, share: float | None = None) -> None:
        """Shows that ``stage`` is under way and which share of it is done (None: unknown)."""
        stage = one_line(stage)
        if self._bar is not None:
            self._bar.update(
                self._task, description=stage, completed=share or 0.0, total=None if share is None else 1.0
            )
            return
        now = time.monotonic()
        if now - self._started < self._patience:
            return
        if stage != self._stage or now - self._printed >= _QUIET_SECONDS:
            done = f" {share:.0%}" if share and stage == self._stage else ""
            note(f"{stage}{done} ({now - self._started:.0f} s)")
            self._stage, self._printed = stage, now
