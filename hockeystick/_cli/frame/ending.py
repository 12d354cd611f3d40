"""The last steps of a command: progress and Ctrl-C while it works, then files, report and warning."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hockeystick._cli.frame.destinations import ResultFiles, deliver
from hockeystick._cli.frame.streams import Interrupted, Progress, warn

if TYPE_CHECKING:
    from hockeystick._cli.frame.shared_options import Given


@contextlib.contextmanager
def working(*, patience: float = 0.0) -> Iterator[Progress]:
    """Shows progress while a result is computed; Ctrl-C ends with the message that result files are unchanged.

    Args:
      patience: Seconds before the first line if the output is not a terminal.

    Raises:
      Interrupted: Ctrl-C was pressed.
    """
    try:
        with Progress(patience=patience) as progress:
            yield progress
    except KeyboardInterrupt:
        raise Interrupted("interrupted before there was a result; result files are unchanged") from None


def conclude(given: Given, content: Mapping[str, Any], files: ResultFiles, *, command: str = "run") -> dict[str, Any]:
    """Writes and prints the result of a command, warns if it is a simulation, and returns it.

    Args:
      given: The command's options.
      content: The result's entries, with ``mode`` and, if that is "simulation", ``seed``.
      files: The destinations, from ``result_files``.
      command: The command's name in the result.
    """
    from hockeystick._report.results import run_result

    result = {**run_result(content), "command": command}
    deliver(files, result)
    if result["mode"] == "simulation":
        instead = "; --release gives one that may be published" if "release" in given else ""
        warn(
            f"simulated with seed {result['seed']}: don't publish this run, for the seed gives away its noise{instead}"
        )
    return result
