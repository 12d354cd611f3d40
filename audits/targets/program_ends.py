"""Calls of foreign code that must not end the program: what a target raises or calls to leave becomes an error.

A target that ends the program would also end the audit, and its exit status would be taken for a verdict: 0 for one
that did not refute. So ``sys.exit``, ``GeneratorExit``, a ``KeyboardInterrupt`` that no Ctrl-C sent, and ``os._exit``
are made errors here. What does not go through Python (``exit`` of a C library, a signal, ``os.exec``) is not: for this
a target has to run in a process of its own (:mod:`hockeystick.audits.drawing.own_process`).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_LOCK = threading.Lock()
_THREADS: dict[int, int] = {}  # that are inside :func:`kept_alive`, and how often
_real_exit = os._exit


class ExitCalled(BaseException):
    """``os._exit`` was called; nothing but :func:`kept_alive` is to catch it."""


class Interruptions:
    """Whether a Ctrl-C arrived, as far as that can be told.

    Attributes:
      seen: whether one did; also True where another handler than Python's own is in place, which does not tell.
    """

    seen = False

    def __call__(self, number: int, frame: Any) -> NoReturn:
        """Handles the signal as Python does."""
        self.seen = True
        signal.default_int_handler(number, frame)
        raise KeyboardInterrupt


@contextmanager
def kept_alive() -> Iterator[Interruptions]:
    """Makes ``os._exit`` raise :class:`ExitCalled` in this thread, and notes a Ctrl-C.

    Other threads, and processes that are forked here, leave as ever.
    """
    noted, me = Interruptions(), threading.get_ident()
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main else None
    held = handler is signal.default_int_handler
    if isinstance(handler, Interruptions):  # of another such context around this one
        noted = handler
    elif main and not held:
        noted.seen = True
    with _LOCK:
        _THREADS[me] = _THREADS.get(me, 0) + 1
        os._exit = _exit
    try:
        if held:
            signal.signal(signal.SIGINT, noted)
        yield noted
    finally:
        if held and signal.getsignal(signal.SIGINT) is noted:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        with _LOCK:
            _THREADS[me] = _THREADS.get(me, 1) - 1  # none in a forked process
            if not _THREADS[me]:
                del _THREADS[me]
            if not _THREADS and os._exit is _exit:
                os._exit = _real_exit


def _exit(status: int) -> NoReturn:
    if threading.get_ident() in _THREADS:
        raise ExitCalled(status)
    _real_exit(status)


def _forked() -> None:
    """In a forked process no thread is inside, whatever the parent's were."""
    global _LOCK
    _LOCK = threading.Lock()
    _THREADS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
