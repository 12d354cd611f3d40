"""Every call in a public example with odd arguments, one after another: errors that are not typed, and calls that hang.

    python -m benchmarks.hostile.odd_arguments [--only PATTERN] [--sizes]

The examples of all public docstrings are run. Each call of the library in them is repeated with one argument replaced:
by objects of wrong classes, or, with ``--sizes``, by very small and very large numbers in the place of numbers. A
repeated call may return, or raise an error of the library; any other error, or more than 10 CPU seconds, is printed.
The exit status is 1 if there is one. A call from a function inside an example is not repeated.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import fnmatch
import importlib
import inspect
import io
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hockeystick.accounting import HockeystickError
from hockeystick.accounting.argument_classes import MARK

SECONDS = 10.0  # of CPU, above which a call hangs
SIZES: tuple[Any, ...] = (1e-100, 1e-6, 6e4, 1e10, 60_000, 2**31, 2**53)
LEFT_OUT = ("Adjacency", "ThreatModel")  # enums are Python's own
FACES = (
    "accounting", "mechanisms", "audits", "learners", "learners.lazy", "learners.federated", "learners.divergence",
    "learners.distribution", "learners.smoothed", "learners.experts", "learners.network", "learners.bandits",
)  # fmt: skip


def any_function(*_: object, **__: object) -> str:
    """Stands for a function of any kind; its result is of a wrong class, too."""
    return "x"


WRONG: tuple[Any, ...] = (3, "x", None, [1.0], object(), any_function)


class _Endless(BaseException):
    """Raised by the timer; no code catches it by accident."""


def examples() -> Iterator[tuple[str, doctest.DocTest]]:
    """Yields the docstrings with examples of all public names and their methods."""
    finder, seen = doctest.DocTestFinder(), set()
    for face in FACES:
        package = importlib.import_module(f"hockeystick.{face}")
        for name in package.__all__:
            try:
                what = getattr(package, name)
            except ImportError:  # an extra that is not installed
                continue
            if id(what) in seen or not (inspect.isclass(what) or inspect.isfunction(what)):
                continue
            seen.add(id(what))
            for test in finder.find(what, f"{face}.{name}", globs=vars(sys.modules[what.__module__]).copy()):
                if test.examples:
                    yield test.name, test


def calls(source: str) -> Iterator[tuple[str, str, list[tuple[str | None, str]]]]:
    """Yields the calls in a statement: the text, that of what is called, and the arguments by keyword or place."""
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and not any(isinstance(one, ast.Starred) for one in node.args):
                given: list[tuple[str | None, str]] = [(None, ast.unparse(one)) for one in node.args]
                given += [(one.arg, ast.unparse(one.value)) for one in node.keywords if one.arg is not None]
                if len(given) == len(node.args) + len(node.keywords):
                    yield ast.unparse(node), ast.unparse(node.func), given


def is_public(what: object) -> bool:
    """Whether a class, function or method is public: one with the handler of ``argument_classes``."""
    if inspect.isclass(what):
        return not issubclass(what, BaseException) and any(MARK in vars(one) for one in what.__mro__)
    plain = getattr(what, "__func__", what)
    return inspect.isfunction(plain) and MARK in vars(plain)


def outcome(call: Callable[[], object]) -> str | None:
    """Returns the fault in the end of a call; None if it returns or raises a typed error."""

    def ring(*_: object) -> None:
        raise _Endless

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        call()
    except HockeystickError as error:
        return None if str(error) else "says nothing"
    except _Endless:
        return f"more than {SECONDS:g} CPU seconds"
    except (NotImplementedError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    return None


def changed(source: str, names: dict[str, Any], odd: tuple[Any, ...], sizes: bool) -> Iterator[tuple[str, Any]]:
    """Yields the repeated calls of a statement, and what each does."""
    for text, what, given in calls(source):
        try:
            called = eval(what, names)
            values = [(name, eval(one, names)) for name, one in given]
        except Exception:  # in a function or a comprehension, whose names are not known here
            continue
        if not is_public(called) or getattr(called, "__name__", "") in LEFT_OUT:
            continue
        for place, (name, value) in enumerate(values):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if sizes and not number:
                continue
            for one in odd:
                if sizes and isinstance(value, int) and not isinstance(one, int):
                    continue
                args = [one if i == place else v for i, (n, v) in enumerate(values) if n is None]
                kwargs = {n: one if i == place else v for i, (n, v) in enumerate(values) if n is not None}
                shown = f"{name or place}={one if sizes or one is None else type(one).__name__}"
                yield f"{text[:90]} [{shown}]", lambda a=args, k=kwargs, f=called: f(*a, **k)


def swept(test: doctest.DocTest, sizes: bool) -> Iterator[str]:
    """Yields the faults of a docstring's examples; each statement's repeats are in a process of their own."""
    names = dict(test.globs)
    for example in test.examples:
        reads, writes = os.pipe()
        if not (child := os.fork()):
            os.close(reads)
            with os.fdopen(writes, "w") as out, open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
                for text, call in changed(example.source, names, SIZES if sizes else WRONG, sizes):
                    if (fault := outcome(call)) is not None:
                        out.write(f"{test.name}: {text}: {fault}\n")
                        out.flush()
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads) as found:
            yield from found
        os.waitpid(child, 0)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, test.name, "single"), names)
        except Exception:  # an example of an error
            continue


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile.odd_arguments", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--only", default="*", help="names of docstrings, with * for any text")
    parser.add_argument("--sizes", action="store_true", help="numbers of extreme sizes instead of wrong classes")
    asked = parser.parse_args()
    os.chdir(tempfile.mkdtemp())  # a text may be taken for the path of a file to write
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    faults, tried = 0, 0
    for name, test in examples():
        if fnmatch.fnmatchcase(name, asked.only):
            tried += 1
            for fault in dict.fromkeys(swept(test, asked.sizes)):
                faults += 1
                print(fault, end="", flush=True)
    print(f"{faults} faults in the examples of {tried} docstrings")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
