"""The loss of a law that is mixed with the other one: ln(1 − q + q·e^l) for a loss l, and its inverse.

Sampling makes such losses, and Rényi moments of mixtures have the same form. They are accurate relative to themselves
for all 0 < q ≤ 1 and all l: at a small q the two logarithms of l + ln(q + (1 − q)·e^{−l}) would cancel, and near q = 1
those of 1 + q·(e^l − 1) for l < 0.
"""

from __future__ import annotations

import math

import numpy as np

from hockeystick.accounting.losses.dominating_pairs import Array
from hockeystick.accounting.numerics.directed_rounding import U

_LARGE = 700.0  # e^l is a float up to here


def mixed(losses: Array, q: float) -> Array:
    """Returns ln(1 − q + q·e^l) at each loss (±inf allowed), 0 < q ≤ 1, within 10 units of roundoff of itself."""
    loss = np.asarray(losses, dtype=float)
    if q == 1.0:
        return loss
    with np.errstate(over="ignore", divide="ignore"):
        gain = q * np.expm1(np.minimum(loss, _LARGE))
        less = np.log((1 - q) + q * np.exp(np.minimum(loss, 0.0)))  # where no more than half is left, q > ½
        # q may be so small that q·e^l is not large.
        half = np.exp(np.maximum(loss, _LARGE) / 2)
        gain_of_large = q * half * half
        more = np.where(np.isinf(gain_of_large), loss + math.log(q), np.log1p(gain_of_large))
        return np.asarray(np.where(loss > _LARGE, more, np.where(gain > -0.5, np.log1p(np.maximum(gain, -0.5)), less)))


def mixed_up(losses: Array, q: float) -> Array:
    """Returns ln(1 − q + q·e^l) at each loss, rounded away from 0."""
    # expm1 and log1p are off by 2 U, the products by U; the logarithm counts what it is of at most twice: 9 U.
    return np.asarray(mixed(losses, q) * (1 + 12 * U))


def moment_up(divergence: Array, orders: Array) -> Array:
    """Returns (α−1)·D, the logarithm of a Rényi moment, rounded up.

    The relative error of ln(1 − q + q·e^x) may be x times that of x.
    """
    # The difference and two products, off by U each.
    return np.asarray((orders - 1) * divergence * (1 + 4 * U))


def unmixed(losses: Array, q: float) -> Array:
    """Returns the l with ln(1 − q + q·e^l) as given; −inf where there is none.

    It is that of a loss within 8 units of roundoff of the given one, itself rounded once or twice.
    """
    loss = np.asarray(losses, dtype=float)
    if q == 1.0:
        return loss
    far = np.maximum(loss, 1.0)
    with np.errstate(divide="ignore"):
        more = far - math.log(q) + np.log1p((q - 1) * np.exp(-far))
        less = np.log(np.maximum(np.exp(np.minimum(loss, 0.0)) - (1 - q), 0.0) / q)
        near = np.log1p(np.maximum(np.expm1(np.minimum(loss, 1.0)) / q, -1.0))
    return np.asarray(np.where(loss >= 1.0, more, np.where(loss > -0.5, near, less)))
