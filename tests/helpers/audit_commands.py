"""Functions to audit, and their working directory, for the tests of ``audit`` and ``search``."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

TARGETS = """
import signal

import numpy as np

def correct(data, rng, runs):
    return data + rng.laplace(0.0, 1.0, runs)

def half_noise(data, rng, runs):
    print("the target talks")
    return data + rng.laplace(0.0, 0.5, runs)

def one(data, rng):
    return float(np.sum(data)) + rng.laplace()

def always_raises(data, rng):
    raise RuntimeError("no such\\nthing\\x1b[31m")

def sometimes_raises(data, rng):
    if rng.random() < 0.3:
        raise ValueError("three of ten")
    return 1

def exits(data, rng):
    raise SystemExit(0)

def interrupted(data, rng):
    signal.raise_signal(signal.SIGINT)

def hostile(data, rng):
    return "<script>alert('&')</script>\\x1b[31m" if rng.random() < 0.1 + 0.8 * data else "no"

def typed(data, rng):
    return type(data).__name__ + "!" * int(rng.integers(2))

def shaped(data, rng):
    return f"{data.dtype} {data.shape}" + "!" * int(rng.integers(2))

def no_arguments():
    return 1

def leaky(data, rng, runs):
    return data + (data > 0) * (rng.geometric(0.632, runs) - rng.geometric(0.632, runs))

def total(data, rng, runs):
    return sum(data) + rng.geometric(0.632, runs) - rng.geometric(0.632, runs)

def some_pairs(rng):
    size = int(rng.integers(4))
    return [1] * size, [1] * (size + 1)

def a_domain():
    from hockeystick.audits import FiniteRecords
    return FiniteRecords(values=[0, 1], most=4)

NUMBER = 3
"""
SURE = ("--confidence", "0.999999")


@contextlib.contextmanager
def folder_of_targets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Makes ``folder`` the working directory, with a module ``mymech`` of targets."""
    (folder / "mymech.py").write_text(TARGETS)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield folder
    sys.modules.pop("mymech", None)


def last_line(result: Result) -> str:
    """Returns the last line of the standard error stream."""
    return result.stderr.splitlines()[-1]


def interrupt(*_: object) -> None:
    """Replaces the work that Ctrl-C interrupts."""
    raise KeyboardInterrupt
