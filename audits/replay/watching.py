"""The watch over libraries while a run lasts: what they are asked in its thread is put on its tape."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from hockeystick.audits.replay import other_libraries, our_calls
from hockeystick.audits.replay.places import place_of_call, rank
from hockeystick.audits.replay.tape import Tape
from hockeystick.audits.replay.watch import Replacement, Watch

_LOCK = threading.RLock()
_OTHERS: dict[str, Callable[[Watch], Iterator[Replacement]]] = {
    "opendp.mod": other_libraries.of_opendp,
    "diffprivlib.mechanisms": other_libraries.of_diffprivlib,
}
_MAKERS: tuple[tuple[Any, str], ...] = ((np.random, "default_rng"), (np.random, "seed"), (random, "seed"))


@contextmanager
def replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    """Replaces an attribute of a module or a class for a while."""
    old = vars(owner)[name]
    setattr(owner, name, new)
    try:
        yield
    finally:
        setattr(owner, name, old)


@contextmanager
def watched(tape: Tape) -> Iterator[None]:
    """Records on ``tape`` what this thread does within the context; one run at a time."""
    with _LOCK, ExitStack() as stack:
        watch = Watch(tape)
        made = [(owner, name, _maker(watch, vars(owner)[name])) for owner, name in _MAKERS]
        for owner, name, new in itertools.chain(made, our_calls.replacements(watch), _of_others(watch)):
            stack.enter_context(replaced(owner, name, new))
        yield


def libraries() -> frozenset[str]:
    """Returns the watched libraries of others that are imported."""
    return frozenset(name for name in _OTHERS if name in sys.modules)


def _of_others(watch: Watch) -> Iterator[Replacement]:
    for name in libraries():
        yield from _OTHERS[name](watch)


def _maker(watch: Watch, old: Callable[..., Any]) -> Callable[..., Any]:
    """Notes that the algorithm makes a generator of its own; one that is passed through is none."""

    def made(*given: Any, **named: Any) -> Any:
        through = bool(given) and isinstance(given[0], np.random.Generator)
        through = through or rank(sys._getframe(1).f_code.co_filename) > 0  # a library's own, such as a simulation
        if watch.records() and not through:
            watch.tape.foreign.append(place_of_call())
        return old(*given, **named)

    return made
