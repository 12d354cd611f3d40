"""Checks of the arguments that mechanisms share, and quotients and differences rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.accounting.numerics.directed_rounding import quotient_down as quotient_down  # for the mechanisms
from hockeystick.accounting.numerics.directed_rounding import quotient_up as quotient_up
from hockeystick.accounting.validate import boolean


def noise_scale(value: float) -> float:
    """Returns the parameter ``scale`` of noise that is added to numbers: far from where their sum overflows."""
    return validate.real("scale", value, low=0.0, high=1e300, low_open=True)


def sensitivity(value: float) -> float:
    """Returns the parameter ``sensitivity``, positive and finite."""
    return validate.real("sensitivity", value, low=0.0, low_open=True)


def monotone(value: bool) -> bool:
    """Returns the parameter ``monotone``; only a bool is accepted, because a mistake here would halve ε."""
    return boolean("monotone", value)


def generator(rng: object) -> np.random.Generator:
    """Returns ``rng``.

    Raises:
      InvalidArgumentError: ``rng`` is not a ``numpy.random.Generator``; there is no hidden global source of randomness.
    """
    if not isinstance(rng, np.random.Generator):
        raise InvalidArgumentError("rng", rng, "is not a numpy Generator", "pass numpy.random.default_rng(seed)")
    return rng


MOST_NUMBERS = 2**28
"""The most numbers in the arrays of one call: 2 GiB of floats. Larger requests are refused before any allocation."""


def run_count(runs: object, width: int = 1) -> int:
    """Returns the number of runs of ``width`` numbers each: an integer of at least 1.

    Raises:
      InvalidArgumentError: ``runs`` is not such an integer, or the runs hold more than ``MOST_NUMBERS`` numbers.
    """
    count = validate.integer("runs", runs, low=1)
    if count > 1 and count * width > MOST_NUMBERS:
        reason = (
            f"of {width} numbers each are more than {MOST_NUMBERS} numbers" if width > 1 else "are too many at once"
        )
        raise InvalidArgumentError("runs", runs, reason, f"make at most {max(1, MOST_NUMBERS // width)} in one call")
    return count


def array_length(name: str, value: object, length: int | None = None) -> int:
    """Returns the length of the array that ``value`` asks for: ``length``, by default ``value`` itself, an integer ≥ 0.

    Raises:
      InvalidArgumentError: ``value`` is not such an integer, or the length exceeds ``MOST_NUMBERS``.
    """
    if type(value) is int and length is None and 0 <= value <= MOST_NUMBERS:
        return value
    count = validate.integer(name, value, low=0) if length is None else length
    if count > MOST_NUMBERS:
        raise InvalidArgumentError(
            name, value, f"asks for an array of more than {MOST_NUMBERS} numbers", "give a smaller one"
        )
    return count


def steps_in_all(name: str, value: object, steps: int) -> None:
    """Checks the work of a call that keeps no array of its steps, of ten to thirty nanoseconds each.

    Raises:
      InvalidArgumentError: there are more than ``MOST_NUMBERS``.
    """
    if steps > MOST_NUMBERS:
        reason = f"asks for {steps:.3g} steps, more than the {MOST_NUMBERS} of one call"
        raise InvalidArgumentError(name, value, reason, "ask for fewer, or for fewer runs")


def zeros(shape: object) -> NDArray[np.float64]:
    """Returns an array of zeros.

    Raises:
      InvalidArgumentError: the shape is neither an integer ≥ 0 nor a tuple or list of them, or has more than
        ``MOST_NUMBERS`` entries.
    """
    axes = shape if isinstance(shape, (tuple, list)) else (shape,)
    found = tuple(validate.integer("shape", axis, low=0) for axis in axes)
    array_length("shape", shape, math.prod(found))
    return np.zeros(found)


def group_size(size: object) -> int:
    """Returns the number of persons in a group whose values are listed, an integer ≥ 1."""
    return array_length("size", size, validate.integer("size", size, low=1))


def check_reach(epsilon: float, scale: float, sensitivity: float) -> None:
    """Checks that noise which a calibration asks for is charged in full: events take larger noise for 1e100.

    Raises:
      InvalidArgumentError: the scale is larger than 1e100, or than 1e100 times the sensitivity.
    """
    if not scale <= field_checks.LARGEST * min(1.0, sensitivity):
        reason = f"asks for noise of more than {field_checks.LARGEST:g} at a sensitivity of {sensitivity:g}"
        raise InvalidArgumentError("epsilon", epsilon, reason, "raise it, allow fewer answers, or rescale the values")


def is_among(value: object, *relations: Adjacency) -> bool:
    """Returns whether ``value`` is one of the given relations; an array, say, which is equal to nothing, is not."""
    return any(value is relation for relation in relations)


def exact_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Returns the given numbers as floats, none of them rounded: rounding could move neighbouring values apart.

    Raises:
      InvalidDataError: not numeric or not finite, whole numbers beyond 2^53, or floats of more than 64 bits.
    """
    found = validate.array(name, value, data=True)
    raw = value if isinstance(value, np.ndarray) else np.asarray(value, dtype=object)
    if raw.dtype.kind in "iuO" and raw.size:
        beyond = (
            any(isinstance(x, (int, np.integer)) and abs(int(x)) > _EXACT for x in raw.flat)
            if (raw.dtype.kind == "O")
            else bool((raw > _EXACT).any() or (raw < -_EXACT).any())
        )
        if beyond:
            raise InvalidDataError(name, value, "has whole numbers beyond 2^53", "clip them, or give floats")
    if raw.dtype.kind == "f" and raw.dtype.itemsize > 8:
        raise InvalidDataError(name, value, "is more precise than a float", "give 64-bit numbers")
    return np.asarray(found)


_EXACT = 2**53
_BLOCK = 1 << 18  # numbers drawn at a time: 2 MiB of floats, so that a block stays in the processor's cache


def blocks(runs: int, width: int) -> Iterator[slice]:
    """Yields slices that cover ``runs`` rows of ``width`` numbers, each small enough for the processor's cache."""
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, runs, step):
        yield slice(start, min(runs, start + step))


def difference_up(minuend: float, subtrahend: float) -> float:
    """Returns the smallest float that is at least minuend − subtrahend, both finite."""
    difference = minuend - subtrahend
    if math.isfinite(difference) and Fraction(difference) < Fraction(minuend) - Fraction(subtrahend):
        return math.nextafter(difference, math.inf)
    return difference


def target_epsilon(value: float) -> float:
    """Returns the target ε of a calibration; events cannot represent one below 1e-90.

    Raises:
      InvalidArgumentError: ``epsilon`` is not a finite number of at least 1e-90.
    """
    return validate.real("epsilon", value, low=1e-90)
