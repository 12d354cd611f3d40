"""Distances of two noiseless inputs in the norms that mechanisms state, with what of them may be round-off."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hockeystick.accounting.arrays import FloatArray

_ROUNDING = 64 * 2.0**-53
"""Of the numbers' sizes: what sums of a few thousand floats may be off by (pairwise summation)."""


def up(value: float, terms: int) -> float:
    """Returns ``value``, a sum of ``terms`` rounded numbers or a root of one, rounded up."""
    return value * (1.0 + (terms + 4) * 2.0**-52)  # each term and each sum is off by at most one part in 2^53


_EXACTLY = 4096  # entries up to which rates are sums of fractions


def rate(norm: str, one: FloatArray, other: FloatArray, scale: FloatArray) -> float:
    """Returns the distance of two finite arrays in units of their entries' noise, rounded up: "l1" or "l2"."""
    places = np.flatnonzero(one != other)
    if len(places) > _EXACTLY:
        units = np.abs(other - one) / scale
        return (
            up(float(np.sum(units)), len(units)) if norm == "l1" else up(math.sqrt(float(np.sum(units**2))), len(units))
        )
    units_exact = [abs(Fraction(float(other[i])) - Fraction(float(one[i]))) / Fraction(float(scale[i])) for i in places]
    if norm == "l1":
        return _float_up(sum(units_exact, Fraction(0)))
    square = sum((unit * unit for unit in units_exact), Fraction(0))
    root = math.sqrt(_float_up(square))
    return root if Fraction(root) ** 2 >= square else math.nextafter(math.nextafter(root, math.inf), math.inf)


def _float_up(number: Fraction) -> float:
    try:
        found = float(number)
    except OverflowError:
        return math.inf
    return found if Fraction(found) >= number else math.nextafter(found, math.inf)


def distance(norm: str, one: FloatArray, other: FloatArray) -> float:
    """Returns the distance of two arrays of one shape: "l1", "l2", "linf", or "entries", the number that differ."""
    change = np.abs(np.asarray(other, dtype=np.float64) - np.asarray(one, dtype=np.float64))
    if not change.size:
        return 0.0
    if norm == "l1":
        return float(np.sum(change))
    if norm == "l2":
        return float(np.sqrt(np.sum(change**2)))
    return float(np.max(change)) if norm == "linf" else float(np.count_nonzero(change))


def slack(norm: str, stated: float, one: FloatArray, other: FloatArray) -> float:
    """Returns how much of a distance near the stated one may be round-off of the two inputs."""
    if norm == "entries":
        return 0.0
    size = distance(norm, np.zeros_like(np.asarray(one, dtype=np.float64)), np.abs(one)) + distance(
        norm, np.zeros_like(np.asarray(other, dtype=np.float64)), np.abs(other)
    )
    return _ROUNDING * (stated + size)
