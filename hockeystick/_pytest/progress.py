"""Progress of a slow audit: a line on pytest's terminal every few seconds, never in what a test's capture sees.

The first slow audit of a target that is called once per output ends with the advice to draw many at once.

It is shown on a terminal, and with ``-v`` anywhere; not with ``-q``, and not in the workers of a parallel run, which
have no terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from hockeystick.audits.targets.calling import Target

SECONDS = 5.0  # before the first line, and between two
ADVICE = (
    "the target is called once per output; f(data, rng, runs) is faster if it draws many at once and returns an array "
    "or a data frame with a row for each run"
)
_ADVISED = pytest.StashKey[bool]()  # whether this run has said so


class Progress:
    """Writes the number of outputs so far; a call takes this number and that of all."""

    def __init__(self, item: pytest.Item, unit: str) -> None:
        self._item, self._unit = item, unit
        self._began = self._last = time.monotonic()
        reporter: Any = item.config.pluginmanager.get_plugin("terminalreporter")
        level = item.config.get_verbosity() if reporter is not None else -1
        self._reporter: Any = reporter if level > 0 or (level == 0 and _is_terminal(reporter)) else None
        self._wrote = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._reporter is None or now - self._last < SECONDS:
            return
        self._last, self._wrote = now, True
        with self._uncaptured():
            self._reporter.ensure_newline()
            seconds = f"{now - self._began:.0f} s"
            self._reporter.write_line(f"{self._item.name}: {done:,} of {total:,} {self._unit} ({seconds})")

    def end(self, target: object) -> None:
        """Writes the advice, and the file's name again, which stands before the results of its tests."""
        if not self._wrote:
            return
        stash = self._item.config.stash
        with self._uncaptured():
            if target is not None and not stash.get(_ADVISED, False) and not Target.of(target).vectorised:
                stash[_ADVISED] = True
                self._reporter.write_line(f"{self._item.name}: {ADVICE}")
            if self._reporter.showfspath and self._item.config.get_verbosity() == 0:
                self._reporter.write_fspath_result(self._item.nodeid, "")

    def _uncaptured(self) -> Any:
        capture = self._item.config.pluginmanager.get_plugin("capturemanager")
        return nullcontext() if capture is None else capture.global_and_fixture_disabled()


def _is_terminal(reporter: Any) -> bool:
    found = reporter.isatty  # a value before pytest 9
    return bool(found() if callable(found) else found)


@contextmanager
def shown(item: pytest.Item, target: object = None, unit: str = "outputs") -> Iterator[Progress]:
    """Shows the progress of an audit of a test; without a target there is no advice."""
    progress = Progress(item, unit)
    try:
        yield progress
    finally:
        progress.end(target)
