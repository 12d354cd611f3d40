"""How commands come to a result and end with it: progress and Ctrl-C on the way, then files, report and warning."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hockeystick._cli.frame.result_files import ResultFiles, deliver
from hockeystick._cli.frame.streams import Interrupted, Progress, warn

if TYPE_CHECKING:
    from hockeystick._cli.frame.shared_options import Given


@contextlib.contextmanager
def working(*, patience: float = 0.0) -> Iterator[Progress]:
    """Shows progress while a result is made; Ctrl-C then says that result files are unchanged.

    Args:
      patience: seconds before the first line where the output is no terminal.

    Raises:
      Interrupted: Ctrl-C.
    """
    try:
        with Progress(patience=patience) as progress:
            yield progress
    except KeyboardInterrupt:
        raise Interrupted("interrupted before there was a result; result files are unchanged") from None


def conclude(given: Given, content: Mapping[str, Any], files: ResultFiles, *, command: str = "run") -> dict[str, Any]:
    """Writes and prints what a command found, warns of a simulation's seed, and returns the result.

    Args:
      given: The command's options.
      content: What was found, with ``mode`` and, where that is "simulation", ``seed``.
      files: Of ``result_files``.
      command: The command's name in the result.
    """
    from hockeystick._report.results import run_result

    result = {**run_result(content), "command": command}
    deliver(files, result)
    if result["mode"] == "simulation":
        instead = " (--release)" if "release" in given else ""
        warn(f"simulated with seed {result['seed']}: whoever knows it can repeat the run; nothing to publish{instead}")
    return result
