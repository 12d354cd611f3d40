"""Warnings that a target's library gives in every call, shown once for each place in its code.

Python shows a warning once for each place and text, unless a library asks for more, or puts a number into the text, or
changes the filters; and each process does so for itself. An audit calls a target a million times. So while it runs, a
warning that is about to be shown is shown for the first time only, whatever its text, and workers send theirs with
their results. Filters come before: a warning that is ignored, or made an error, stays so, and one that is recorded by
the target's own code is not concerned.
"""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attrs import field, frozen

_LOCK = threading.Lock()
_HERE = threading.local()  # the collection of this thread's warnings


@frozen
class Shown:
    """A warning as it is shown: its text, category, file and line."""

    text: str
    category: type[Warning]
    file: str
    line: int

    @property
    def place(self) -> tuple[str, str, int]:
        return self.category.__name__, self.file, self.line

    def portable(self) -> Shown:
        """Returns the same warning, with a category that can be pickled."""
        try:
            pickle.dumps(self.category)
        except Exception:  # a class of the caller's own script
            return Shown(f"{self.category.__name__}: {self.text}", UserWarning, self.file, self.line)
        return self


@frozen(eq=False)
class _Collection:
    show: bool
    found: dict[tuple[str, str, int], Shown] = field(factory=dict)


@frozen(eq=False)
class _Hook:
    """The function ``warnings.showwarning`` while at least one thread collects warnings."""

    before: Any
    users: list[None] = field(factory=list)

    def __call__(
        self, message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        mine: _Collection | None = getattr(_HERE, "collection", None)
        shown = Shown(str(message), category, filename, lineno)
        if mine is not None:
            if shown.place in mine.found:
                return
            mine.found[shown.place] = shown
        if mine is None or mine.show:
            self.before(message, category, filename, lineno, file, line)


_hook: _Hook | None = None


@contextmanager
def once() -> Iterator[None]:
    """Shows each warning of this thread once; a context inside another one has no effect of its own.

    Example:
      >>> import warnings
      >>> from hockeystick.audits.drawing.warnings_once import once
      >>> with warnings.catch_warnings(record=True, action="always") as shown, once():
      ...     for step in range(3):
      ...         warnings.warn(f"slow step {step}", stacklevel=1)
      >>> len(shown)
      1
    """
    if getattr(_HERE, "collection", None) is not None:
        yield
        return
    with _collecting(_Collection(show=True)):
        yield


@contextmanager
def collected() -> Iterator[list[Shown]]:
    """Collects this thread's warnings, one of each place, instead of showing them; the list is full at the end."""
    mine, texts = _Collection(show=False), list[Shown]()
    with _collecting(mine):
        yield texts
    texts += [one.portable() for one in mine.found.values()]


def show(texts: list[Shown]) -> None:
    """Gives the warnings of a worker again; they are shown once for each place within :func:`once`."""
    for one in texts:
        warnings.warn_explicit(one.text, one.category, one.file, one.line)


@contextmanager
def _collecting(mine: _Collection) -> Iterator[None]:
    outer = getattr(_HERE, "collection", None)
    _HERE.collection, hook = mine, _installed()
    try:
        yield
    finally:
        _HERE.collection = outer
        _released(hook)


def _installed() -> _Hook:
    """Returns the hook, with one user more."""
    global _hook
    with _LOCK:
        if _hook is None or warnings.showwarning is not _hook:
            _hook = _Hook(warnings.showwarning)
            warnings.showwarning = _hook
        _hook.users.append(None)
        return _hook


def _released(hook: _Hook) -> None:
    with _LOCK:
        hook.users.pop()
        if not hook.users and warnings.showwarning is hook:
            warnings.showwarning = hook.before
