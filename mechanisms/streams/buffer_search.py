"""The search for the decays and weights of a buffered filter (BLT) with the least error.

C(x) = Π(1 − θ̂_j·x)/Π(1 − θ_j·x) with θ_1 > θ̂_1 > θ_2 > θ̂_2 > … in (0, 1) has positive weights with a sum below 1,
and C⁻¹ has the decays θ̂ and negative weights (McMahan, Xu & Zhang 2024; Pillutla et al. 2025). In the rates −ln θ,
sums of exponentials of free numbers, sensitivity and error are sums of geometric series without cancellation, whatever
the number of steps. Derivatives are by complex steps. The search starts at fixed places, so that results are
reproducible.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hockeystick.accounting.arrays import FloatArray, IntArray

_Numbers = NDArray[np.complex128]
_STEP = 1e-30  # of a complex derivative, whose error is of second order
_OPTIONS = {"ftol": 1e-13, "gtol": 1e-9, "maxiter": 600, "maxfun": 2000}
_SPANS = ((0.3, 1.5), (1.0, 0.8), (3.0, 3.0))  # smallest rate times steps, and largest rate, where searches start


def best(steps: int, buffers: int, count: int, gap: int, mean: bool) -> tuple[FloatArray, FloatArray]:
    """Returns decays and weights of ``buffers`` buffers with (locally) the least error for prefix sums.

    Args:
      steps: T.
      buffers: their number, ≥ 1.
      count, gap: the largest number of participations of a record, and their least distance.
      mean: whether the root mean square error counts, or the largest one.
    """
    from scipy import optimize

    objective = partial(_objective, steps=steps, count=count, gap=gap, mean=mean)
    tried = []
    for low, high in _SPANS:
        places = np.geomspace(min(low / steps, high / 4), high, 2 * buffers)
        start = np.log(np.diff(places, prepend=0.0))
        with np.errstate(all="ignore"):
            bounds = [(-20.0, 4.0), *[(-35.0, 4.0)] * (len(start) - 1)]  # decays are below 1 − 2^-29
            tried.append(
                optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=_OPTIONS)
            )
    found = min((one for one in tried if math.isfinite(one.fun)), key=lambda one: one.fun)
    decays, weights, *_ = _filters(np.cumsum(np.exp(found.x)).astype(complex))
    return decays.real, np.maximum(weights.real, 0.0)


def _objective(z: FloatArray, *, steps: int, count: int, gap: int, mean: bool) -> tuple[float, FloatArray]:
    """Returns the logarithm of error² × sensitivity², and its derivatives."""

    def value(at: _Numbers) -> complex:
        rates = np.cumsum(np.exp(at))
        _, weights, backs, total = _filters(rates)
        error = _error(rates[1::2], backs, total, steps, mean)
        return complex(np.log(error) + np.log(_sensitivity(rates[::2], weights, steps, count, gap)))

    slopes = np.empty(len(z))
    for i in range(len(z)):
        at = z.astype(complex)
        at[i] += 1j * _STEP
        slopes[i] = value(at).imag / _STEP
    return value(z.astype(complex)).real, slopes


def _filters(rates: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers, complex]:
    """Returns decays and weights of C, and of C⁻¹ the |weights|/(1 − decay) and the sum of all coefficients."""
    own, other = rates[::2], rates[1::2]
    same = np.eye(len(own), dtype=bool)

    def residues(a: _Numbers, b: _Numbers) -> _Numbers:
        above = -np.expm1(a[:, None] - b)
        below = np.where(same, 1.0, -np.expm1(a[:, None] - a))
        return np.asarray(np.exp(-a) * np.prod(above / below, axis=1))

    backs = residues(other, own) / np.expm1(-other)
    return np.exp(-own), residues(own, other), backs, complex(np.prod(np.expm1(-own) / np.expm1(-other)))


def _sum(rate: _Numbers, count: FloatArray | float) -> _Numbers:
    """Returns 1 + e^(−rate) + … of ``count`` terms."""
    return np.asarray(np.expm1(-rate * count) / np.expm1(-rate))


def _error(rates: _Numbers, backs: _Numbers, total: complex, steps: int, mean: bool) -> complex:
    """Returns the largest or mean variance of prefix sums; row t of B ends in b_t = K + Σ |g_j|·θ̂_j^t."""

    def series(rate: _Numbers) -> _Numbers:
        once = _sum(rate, steps)
        if not mean:
            return once
        return np.asarray((steps - np.exp(-rate) * once) / -np.expm1(-rate) / steps)

    constant = total**2 * ((steps + 1) / 2 if mean else steps)
    pairs = backs @ series(rates[:, None] + rates) @ backs
    return complex(constant + 2 * total * (backs @ series(rates)) + pairs)


def _sensitivity(rates: _Numbers, weights: _Numbers, steps: int, count: int, gap: int) -> complex:
    """Returns the squared length of C·x for contributions at 0, gap, 2·gap, …, in ``count`` blocks of ``gap`` rows."""
    both, product = rates[:, None] + rates, np.outer(weights, weights)
    if count == 1:
        return complex(1 + (product * _sum(both, steps - 1)).sum())
    m = np.arange(-(-steps // gap))
    first = np.maximum(m - count + 1, 0)
    decay = np.exp(-gap * rates * first[:, None])
    share: _Numbers = weights * decay * _sum(gap * rates, _column(m - first + 1))  # Σ over the window of ω·θ^(i·gap)
    rows = np.minimum(gap - 1, steps - 1 - m * gap)
    full = rows == gap - 1
    found = (share[full].T @ share[full] * _sum(both, gap - 1)).sum() if gap > 1 else 0.0
    for i in np.flatnonzero(~full & (rows > 0)):  # the last, incomplete block
        found = found + (np.outer(share[i], share[i]) * _sum(both, float(rows[i]))).sum()
    # The rows of contributions: c_0 of the contribution itself, and θ^(i·gap − 1) for i ≥ 1.
    start = np.maximum(first, 1)
    later = (
        weights * np.exp(-rates * (start[:, None] * gap - 1)) * _sum(gap * rates, _column(np.maximum(m - start + 1, 0)))
    )
    own = np.where(first == 0, 1.0, 0.0)
    return complex(found + ((own + later.sum(axis=1)) ** 2).sum())


def _column(counts: IntArray) -> FloatArray:
    return counts.astype(np.float64)[:, None]
