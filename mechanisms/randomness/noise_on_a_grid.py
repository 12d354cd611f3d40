"""Additive noise for release: values on a grid, whole-number noise, and its cost compared with the real-valued law.

A value is rounded to multiples of a grid g = 2^k, and discrete noise is added in units of g. Two things then differ
from real noise on real values: rounding may move neighbouring values apart by up to g in every entry, and noise on a
grid reveals slightly more than its real-valued counterpart. A slightly larger scale compensates for both, so that the
event of the real-valued mechanism bounds the release, in every curve.

*Laplace.* Between discrete Laplace noise of scale t and its shift by D steps, 1 − δ(ε) equals √(e^(ε−D/t)), as for real
Laplace noise, at ε = (D − 2m)/t, and is linear in e^ε between. A chord of √x from x to x·e^(2/t) lies below the curve
by at most the factor 1/cosh(1/2t). So real Laplace noise of D/t + 2·ln cosh(1/2t) ≤ D/t + 1/(4t²) in place of D/t
covers it, for each entry that moves; and real Laplace noise that moves by ε₁, …, ε_d in its entries is covered by one
that moves by their sum in a single one (see ``accounting.LogLipschitz``).

*Gaussian.* Rounding real normal noise of deviation s to whole numbers is post-processing. Its mass at k is that of the
discrete law of variance σ² = s² + 1/12 up to a factor e^η, |η| < ((k/σ)⁴ + 1)/(500σ⁴) for |k| ≤ 40σ (Euler–Maclaurin; a
test checks it by enumeration). From σ = 2^20 on η is below 1e-20; a deviation larger by one part in 2^20 covers it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hockeystick.accounting import InvalidArgumentError, NumericalError, validate

_LEAST_RATIO = 1e-300  # of a distance to its noise: one that is no float asks for noise that no source draws
_FARTHEST = 2.0**61
"""The largest value in steps; larger ones are clipped, so that sums with noise of the largest scale fit in 64 bits."""

_LAPLACE_ROUNDING = 2.0**-16  # of the sensitivity
_GAUSSIAN_ROUNDING = 2.0**-20
_GAUSSIAN_STEPS = 2.0**20  # in the deviation
_RAISE = 1 + 2.0**-20
_MOST_ENTRIES_PER_MU = 1e14  # _RAISE covers the product of their factors e^η


def grid(value: float | None) -> float | None:
    """Returns the parameter ``grid``.

    Raises:
      InvalidArgumentError: ``grid`` is not a power of two from 2^-900 to 2^900.
    """
    if value is None:
        return None
    number = validate.real("grid", value, low=2.0**-900, high=2.0**900)
    if math.frexp(number)[0] != 0.5:
        raise InvalidArgumentError("grid", value, "is not a power of two", f"try {_power_below(number)!r}")
    return number


def laplace_grid(scale: float, sensitivity: float, entries: int) -> float:
    """Returns a step such that rounding ``entries`` numbers adds at most one part in 2^16 to their L1 sensitivity."""
    return _power_below(min(scale * _LAPLACE_ROUNDING, sensitivity * _LAPLACE_ROUNDING / max(1, entries)))


def gaussian_grid(sigma: float, sensitivity: float, entries: int) -> float:
    """Returns a step such that rounding ``entries`` numbers adds at most one part in 2^20 to their L2 sensitivity."""
    rounding = sensitivity * _GAUSSIAN_ROUNDING / math.sqrt(max(1, entries))
    return _power_below(min(sigma / (2 * _GAUSSIAN_STEPS), rounding))


def laplace_scale(scale: float, sensitivity: float, step: float, entries: int) -> float:
    """Returns the scale, in steps, of discrete Laplace noise that costs at most as much as real noise of ``scale``.

    Args:
      scale: the scale of the real noise, in units of the value, as ``sensitivity`` and ``step``.
      sensitivity: the largest L1 distance of neighbouring values before rounding.
      entries: the number of entries of the value; rounding may move each of them by one more step.
    """
    epsilon = max(sensitivity / scale * (1 - 1e-15), _LEAST_RATIO)
    distance = sensitivity / step * (1 + 1e-15) + entries
    # The root t of distance/t + entries/(4t²) = epsilon.
    return (distance + math.hypot(distance, math.sqrt(entries * epsilon))) / (2 * epsilon) * (1 + 1e-14)


def gaussian_scale(sigma: float, sensitivity: float, step: float, entries: int) -> float:
    """Returns the deviation, in steps, of discrete Gaussian noise that costs no more than real noise of ``sigma``.

    Args:
      as for ``laplace_scale``, with L2 distances.

    Raises:
      InvalidArgumentError: the grid is too coarse for ``sigma``.
      NumericalError: there are so many entries, at so small a distance, that the differences of the laws add up.
    """
    mu = max(sensitivity / sigma, _LEAST_RATIO)
    if sigma < _GAUSSIAN_STEPS * step:
        raise InvalidArgumentError(
            "grid", step, f"is above sigma/2^20 = {sigma / _GAUSSIAN_STEPS:g}", "use DiscreteGaussian for whole numbers"
        )
    if entries > _MOST_ENTRIES_PER_MU * mu:
        raise NumericalError(f"{entries} entries at a noise multiplier of {1 / mu:g}: too many for discrete noise")
    distance = sensitivity / step + math.sqrt(entries)
    # A whole number: exact samplers are faster with one.
    return float(math.ceil(math.hypot(distance / mu, math.sqrt(1 / 12)) * _RAISE))


def steps(value: NDArray[np.float64], step: float) -> NDArray[np.int64]:
    """Returns the nearest whole numbers of steps, clipped to ±2^61, which never moves two values further apart."""
    with np.errstate(over="ignore"):
        return np.clip(np.rint(value / step), -_FARTHEST, _FARTHEST).astype(np.int64)


def values(counts: NDArray[np.int64], step: float) -> NDArray[np.float64]:
    """Returns whole numbers of steps in units of the value; this rounding is post-processing."""
    return np.asarray(counts.astype(np.float64) * step)


def _power_below(value: float) -> float:
    return math.ldexp(0.5, math.frexp(value)[1])
