"""Output streams: results go to the standard output; progress, warnings and errors to the standard error stream.

So the output of a command can be piped. ``_cli/frame/destinations.py`` writes results to files.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

PLAIN_WIDTH = 100  # columns if the output is not a terminal
_QUIET_SECONDS = 5.0  # between two plain progress lines of one stage


class Interrupted(click.Abort):
    """Ctrl-C during a command; the message says what was saved."""


def one_line(text: object) -> str:
    """Returns a text in one line and without control characters, which could manipulate the terminal."""
    return "".join(c for c in " ".join(str(text).split()) if c.isprintable() or ord(c) > 0xD7FF)


def complain(message: str) -> None:
    """Prints an error."""
    _err(f"hockeystick: error: {one_line(message)}")


def warn(message: str) -> None:
    """Prints a warning."""
    _err(f"hockeystick: warning: {one_line(message)}")


def simulated_noise(releases: Sequence[str]) -> str:
    """Returns the warning about releases of a graph whose noise was simulated."""
    return f"the noise of {', '.join(releases)} was simulated: don't publish them, for the seed gives away the noise"


def large_delta(delta: float, units: int, unit: str) -> str:
    """Returns the warning about a δ above 1/units, where ``unit`` is "record" or "client"."""
    return f"δ = {delta:g} is above 1/{units}: such a guarantee allows a mechanism to publish a {unit} outright"


def note(message: str) -> None:
    """Prints a note that is not part of the result, such as the name of a written file."""
    _err(f"hockeystick: {one_line(message)}")


def _err(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # a broken pipe, a full disk, or a closed stream
        click.echo(line, err=True)


def print_report(*parts: RenderableType, err: bool = False) -> None:
    """Prints rich renderables, one below the other.

    A closed pipe is not an error: the exit status still has to give the verdict.
    """
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    if stream is None:  # the parent process closed it
        return
    width = None if stream.isatty() else PLAIN_WIDTH
    console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:  # rich itself would leave with status 1 on a broken pipe
        for part in parts:
            console.print(part)
    text = "".join(line.rstrip() + "\n" for line in capture.get().splitlines())
    print_text(re.sub(r"\n{3,}", "\n\n", text), err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Prints a text as it is; a closed pipe is not an error."""
    try:
        click.echo(text, err=err, nl=False, color=True)
    except BrokenPipeError:
        if not err:
            silence_stdout()


def print_bytes(data: bytes) -> None:
    """Prints a result with the same bytes as a file would have, in UTF-8 whatever the terminal's encoding."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # the standard output was replaced by a text stream
        print_text(data.decode("utf-8"))
        return
    try:
        sys.stdout.flush()
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        silence_stdout()


def silence_stdout() -> None:
    """Discards the rest of the standard output, which Python would otherwise fail to flush at exit."""
    with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def target_output_to_stderr() -> Iterator[None]:
    """Sends the prints of an audited function to the standard error stream: the standard output is for the result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


class Progress:
    """Progress of a command: a bar on a terminal, otherwise a plain line at each stage and every few seconds.

    Use it as a context manager, and call it with the stage and the completed share of it.

    Args:
      stream: The output, by default the standard error stream.
      patience: Seconds before the first plain line; most work is done by then.
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
        """Shows the current ``stage`` and the completed share of it (None: unknown)."""
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
