"""What one process of a run saw, until the run ends. It imports nothing: every pytest run loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Seen:
    """What the hooks of a run saw. In a parallel run every process has one.

    Attributes:
      reports: of the tests that use our fixtures, each phase of each.
      problems: what went wrong so far that may have hidden a budget, in words.
      deselected, collected: how many tests were collected and will not run, and will.
      finished: node ids of the tests that ran to the end of their call, or ended at their set-up.
      ignored: paths that were not looked into.
      interrupted: whether somebody stopped the run, by Ctrl-C or ``pytest.exit``.
    """

    def __init__(self) -> None:
        self.reports: list[pytest.TestReport] = []
        self.problems: list[str] = []
        self.deselected = 0
        self.collected = 0
        self.finished: set[str] = set()
        self.ignored: set[str] = set()
        self.interrupted = False
