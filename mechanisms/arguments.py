"""Checks of the arguments that mechanisms share, and quotients and differences rounded to the safe side."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from hockeystick.accounting import InvalidArgumentError, validate


def scale(value: float) -> float:
    """Returns the parameter ``scale``, positive and finite."""
    return validate.real("scale", value, low=0.0, low_open=True)


def sensitivity(value: float) -> float:
    """Returns the parameter ``sensitivity``, positive and finite."""
    return validate.real("sensitivity", value, low=0.0, low_open=True)


def monotone(value: bool) -> bool:
    """Returns the parameter ``monotone``; nothing but a bool is taken, as a slip here would halve ε."""
    if not isinstance(value, bool):
        raise InvalidArgumentError("monotone", value, "is not a bool", "give True or False")
    return value


def generator(rng: object) -> np.random.Generator:
    """Returns ``rng``.

    Raises:
      InvalidArgumentError: it is no ``numpy.random.Generator``; there is no hidden global source of randomness.
    """
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgumentError("rng", rng, "is not a numpy Generator", "pass numpy.random.default_rng(seed)")
    return rng


def run_count(runs: object) -> int:
    """Returns the number of runs, an integer of at least 1."""
    return validate.integer("runs", runs, low=1)


_BLOCK = 1 << 18  # numbers drawn at a time: 2 MiB of floats, so that a block stays in the processor's cache


def blocks(runs: int, width: int) -> Iterator[slice]:
    """Yields slices that cover ``runs`` rows of ``width`` numbers, each small enough to work on in cache."""
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, runs, step):
        yield slice(start, min(runs, start + step))


def quotient_down(numerator: float, denominator: float) -> float:
    """Returns the largest float that is at most numerator / denominator, both positive and finite.

    A noise multiplier is rounded this way: less noise than there is never reports a smaller ε than the true one.
    """
    quotient = numerator / denominator
    if math.isinf(quotient):
        return sys.float_info.max
    if Fraction(quotient) * Fraction(denominator) > Fraction(numerator):
        return math.nextafter(quotient, 0.0)
    return quotient


def quotient_up(numerator: float, denominator: float) -> float:
    """Returns the smallest float that is at least numerator / denominator; inf where none is finite."""
    quotient = numerator / denominator
    if math.isfinite(quotient) and Fraction(quotient) * Fraction(denominator) < Fraction(numerator):
        return math.nextafter(quotient, math.inf)
    return quotient


def difference_up(minuend: float, subtrahend: float) -> float:
    """Returns the smallest float that is at least minuend − subtrahend, both finite."""
    difference = minuend - subtrahend
    if math.isfinite(difference) and Fraction(difference) < Fraction(minuend) - Fraction(subtrahend):
        return math.nextafter(difference, math.inf)
    return difference
