"""A watch: whether a call is recorded now, and the recording of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import define, field

from hockeystick.audits.replay.tape import Query, Tape

Replacement = tuple[Any, str, Any]
"""(owner, name of the attribute, new value)."""


@define
class Watch:
    """A run that is being recorded; calls within a recorded call, and of other threads, are not."""

    tape: Tape
    _thread: int = field(factory=threading.get_ident)
    _depth: int = 0

    def records(self) -> bool:
        """Returns whether a call is to be recorded."""
        return self._depth == 0 and threading.get_ident() == self._thread

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Records nothing within the context."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def call(self, query: Query, live: Callable[[], Any], *, force: Callable[[Any], None] | None = None) -> Any:
        """Returns the answer to a call: of ``live``, or the recorded one.

        In a replay ``live`` is called, too, for what else it does (checks, charges of ledgers); ``force`` is called
        before it with the recorded answer. A call that raises is none, in any run.
        """

        def make() -> Any:
            with self.quiet():
                return live()

        before = self.tape.before
        if before is not None:
            if force is not None and len(self.tape.steps) < len(before.steps):
                force(before.steps[len(self.tape.steps)].answer)
            make()
        answer = self.tape.ask(query, make)
        return answer.copy() if isinstance(answer, np.ndarray) else answer
