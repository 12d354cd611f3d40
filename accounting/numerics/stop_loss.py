"""The mean excess (1/n)·E(X₁ + … + Xₙ)₊ of independent copies of a number with finitely many values, from above.

The law of the sum is kept on multiples of a step. z₊ is convex, so splitting a mass between the two multiples on either
side of its place, with its mean kept, only raises the mean excess. The sum is doubled along the bits of n; whenever its
deviation has doubled, so has the step, and the mass on odd multiples is split between their neighbours. That adds some
1e-4 of the variance in each doubling: an error of second order, where rounding up each copy would shift the mean.

All terms are non-negative and are added up directly, so that small probabilities keep their relative accuracy. Mass far
below the mean is moved up to the window's end; mass far above it is counted apart, as if it had the largest sum.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hockeystick.accounting.numerics.directed_rounding import U

Array = NDArray[np.float64]

_FINE = 0.01  # of a deviation: the step is at least this, once there are many copies
_START = 128  # steps to the value farthest from 0
_BELOW, _ABOVE = 10.0, 12.0  # deviations in the window
_JUMPS = 24.0  # of the value farthest from 0, in the window besides: sums of few copies are far from normal
_LEAST = 1e-290  # masses below it have lost their relative accuracy
_SHARE = 1e-3  # of the result, that the mass above the window may have
_NOTHING = 1e-40  # a mean excess for which no wider window is tried


def mean_excess(values: Array, masses: Array, n: int) -> float:
    """Returns (1/n)·E(X₁ + … + Xₙ)₊, rounded up.

    Args:
      values: of one copy, each no smaller than the true value.
      masses: of the values, off by at most 16 U of themselves; the rest of a copy's mass is at 0.
      n: the number of copies, ≥ 1.
    """
    reach = float(np.abs(values).max(initial=0.0))
    if reach == 0.0 or not (values > 0.0).any():
        return 0.0
    mean = float(masses @ values)
    deviation = math.sqrt(max(0.0, float(masses @ values**2) - mean**2))
    wide = 1.0
    while True:
        found, lost = _excess(values, masses, n, (reach, mean, deviation), wide)
        if lost <= max(_SHARE * found, _NOTHING) or wide >= 8.0:
            return (found + lost) * (1 + 8 * U)  # the sum and what precedes it
        wide *= 2.0


def _excess(
    values: Array, masses: Array, n: int, scale: tuple[float, float, float], wide: float
) -> tuple[float, float]:
    """Returns the mean excess within the window, and what the mass above it may add."""
    reach, mean, deviation = scale
    step = reach / _START
    law, first = _split(values, masses, step)
    size, off, lost = 1, 20 * U, _LEAST  # of masses: 16 U as they come, quotient, share and product
    for bit in bin(n)[3:]:
        # Squares double the errors, and add up as many products as the law has places.
        off, lost = 2 * off + (len(law) + 8) * U, 2 * lost
        law, first, size = np.convolve(law, law), 2 * first, 2 * size
        if bit == "1":
            one, place = _split(values, masses, step)  # off by 20 U, as above
            off, lost = off + (min(len(law), len(one)) + 28) * U, lost + _LEAST
            law, first, size = np.convolve(law, one), first + place, size + 1
        spread = math.sqrt(size) * deviation
        while step < _FINE * spread:
            law, first = _coarser(law, first)
            step, off = 2 * step, off + 4 * U  # two sums
        low = math.floor((size * mean - _BELOW * spread - _JUMPS * reach) / step)
        high = math.ceil((size * mean + wide * (_ABOVE * spread + _JUMPS * reach)) / step)
        if low > first:
            moved = min(low - first, len(law) - 1)
            law[moved] = law[: moved + 1].sum()
            law, first, off = law[moved:], first + moved, off + (moved + 2) * U  # a sum of so many masses
        if high < first + len(law) - 1:
            kept = max(1, high - first + 1)
            lost += float(law[kept:].sum())
            law = law[:kept]
    places = np.arange(first, first + len(law))
    above = float(law @ np.maximum(places, 0)) * step / n
    factor = math.exp(2 * off + len(law) * U)  # sums of as many products; errors of masses are below 2 off of them
    return above * factor, lost * factor * float(values.max())


def _split(values: Array, masses: Array, step: float) -> tuple[Array, int]:
    """Returns the law of one copy on multiples of ``step``, and the first multiple; the rest of its mass is at 0."""
    place = values / step
    left = np.floor(place)
    share = place - left
    first = min(0, int(left.min()))
    index = left.astype(np.int64) - first
    length = max(int(index.max()) + 2, 1 - first)
    law = np.zeros(length)
    law += np.bincount(index, masses * (1.0 - share), length)
    law += np.bincount(index + 1, masses * share, length)
    law[-first] += max(0.0, 1.0 - float(masses.sum())) + (4 + len(masses)) * U  # rounded up, by the sum's error
    return law, first


def _coarser(law: Array, first: int) -> tuple[Array, int]:
    """Returns the law on even multiples: the mass on odd ones is split between the two beside them."""
    if first % 2:
        law, first = np.concatenate([[0.0], law]), first - 1
    if len(law) % 2 == 0:
        law = np.concatenate([law, [0.0]])
    odd = law[1::2] / 2
    even = law[0::2].copy()
    even[:-1] += odd
    even[1:] += odd
    return even, first // 2
