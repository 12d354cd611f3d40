"""The KL projection onto smooth laws: z = argmin KL(z || w) over 0 <= z <= cap, sum z = 1, exactly.

The optimality conditions leave one number open: z_x = min(c w_x, cap_x), where c solves sum_x min(c w_x, cap_x) = 1.
That sum is concave and piecewise linear in c, so that Newton's steps from the left never pass the root, and end on it:
each step caps at least one more entry, and a capped one stays so. A step is linear in what is not capped yet; a handful
suffices. Rows that need more are sorted by cap/w once, which bounds the cost by O(N log N).

Haghtalab, Roughgarden & Shetty 2020 ask for a convex programme here (Algorithm 3). Herbster & Warmuth 2001 have the
linear-time selection for a cap from below; Barak, Hardt & Kale 2009 the approximate projection.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, real

_STEPS = 40  # of Newton's method, before sorting
_SUM = 1e-9  # what caps may lack of 1 by rounding
_ROUNDING = 1e-12
_LARGEST = 2.0**1000


def kl_projection(weights: npt.ArrayLike, caps: npt.ArrayLike) -> FloatArray:
    """The laws nearest in KL(z || w) among those with z <= caps, shape (..., N) as ``weights``.

    Args:
        weights: Shape (..., N), each row non-negative with a positive sum (it is divided by it).
        caps: Shape (N,), non-negative, of sum >= 1: base masses over sigma, for sigma-smooth laws.

    Raises:
        InvalidArgumentError: other shapes or numbers, or a row whose positive entries have caps of sum < 1.
    """
    rows, limits = _checked(weights, caps)
    law: FloatArray = (rows / rows.sum(axis=-1, keepdims=True)).reshape(-1, len(limits))
    over = (law > limits).any(axis=-1)
    if over.any():
        law[over] = _capped(law[over], limits)
    return np.reshape(law, rows.shape)


def approximate_kl_projection(weights: npt.ArrayLike, caps: npt.ArrayLike, *, tolerance: float) -> FloatArray:
    """As :func:`kl_projection`, by bisection to relative accuracy ``tolerance``, then normalised: a streamed variant.

    Each step reads the entries once and keeps none. The result is at most caps/(1 - tolerance), up to rounding.

    Raises:
        InvalidArgumentError: as there, or a tolerance outside [1e-12, 1/2].
    """
    rows, limits = _checked(weights, caps)
    tau = real("tolerance", tolerance, low=1e-12, high=0.5)
    law = rows / rows.sum(axis=-1, keepdims=True)

    def reached(factor: FloatArray) -> FloatArray:
        total: FloatArray = np.minimum(factor * law, limits).sum(axis=-1, keepdims=True)
        return total

    low = np.ones((*law.shape[:-1], 1))
    high = low.copy()
    while (short := reached(high) < 1.0 - tau).any():
        if high.max() > _LARGEST:
            raise _infeasible(float(reached(high).min()))
        low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
    while (((total := reached(high)) > 1.0 + _ROUNDING) & (low < high)).any():
        middle = 0.5 * (low + high)
        short = reached(middle) < 1.0 - tau
        low, high = np.where(short & (total > 1.0), middle, low), np.where(short | (total <= 1.0), high, middle)
    return np.asarray(np.minimum(high * law, limits) / total)


def kkt_residual(weights: npt.ArrayLike, caps: npt.ArrayLike, projected: npt.ArrayLike) -> float:
    """How far ``projected`` is from optimal: the largest violation of z <= cap, sum z = 1 and z = min(c w, cap).

    The best c of a row is that of its largest uncapped entry. 0 is exact; all violations are in units of mass.
    """
    rows, limits = _checked(weights, caps)
    found = array("projected", projected, shape=rows.shape).reshape(-1, rows.shape[-1])
    worst = 0.0
    for row, z in zip(rows.reshape(found.shape), found, strict=True):
        law = row / row.sum()
        free = (z < limits) & (law > 0.0)
        top = int(np.argmax(np.where(free, law, -1.0)))
        c = z[top] / law[top] if free.any() else math.inf
        with np.errstate(invalid="ignore"):  # inf * 0
            best = np.where(law > 0.0, np.minimum(c * law, limits), 0.0)
        parts = np.abs(z - best).max(), abs(math.fsum(z) - 1.0), float((z - limits).max()), -float(z.min())
        worst = max(worst, *map(float, parts))
    return worst


def relative_entropy(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    """KL(first || second) along the last axis; infinite where the second misses mass of the first."""
    p, q = array("first", first, low=0.0), array("second", second, low=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0.0, p * (np.log(p) - np.log(q)), 0.0)
    return np.asarray(terms.sum(axis=-1))


def _checked(weights: npt.ArrayLike, caps: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    rows, limits = array("weights", weights, low=0.0), array("caps", caps, ndim=1, low=0.0)
    if rows.ndim < 1 or rows.shape[-1] != len(limits) or not len(limits):
        raise InvalidArgumentError("weights", rows.shape, "does not fit caps", f"expected (..., {len(limits)})")
    if not (rows.sum(axis=-1) > 0.0).all():
        raise InvalidArgumentError("weights", "...", "has a row without mass")
    if limits.sum() < 1.0 - _SUM:
        raise _infeasible(float(limits.sum()))
    return rows, limits


def _infeasible(total: float) -> InvalidArgumentError:
    return InvalidArgumentError(
        "caps", total, "is their sum over the row's positive entries, below 1", "give larger ones, or positive weights"
    )


def _capped(law: FloatArray, caps: FloatArray) -> FloatArray:
    """The projections of laws (m, N)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # c is infinite where all mass is capped
        factors = _multipliers(law, caps)
        found = np.where(law > 0.0, np.minimum(factors * law, caps), 0.0)
    lacking = float(np.abs(found.sum(axis=1) - 1.0).max())
    if lacking > _SUM:
        raise _infeasible(1.0 - lacking)
    return found


def _multipliers(law: FloatArray, caps: FloatArray) -> FloatArray:
    """c of each row, shape (m, 1), by Newton's method; columns that are capped in all rows are left out on the way."""
    c = np.ones((len(law), 1))
    free_law, free_caps, left, before = law, caps, 1.0, np.zeros(len(law), dtype=np.int64)
    for _ in range(_STEPS):
        capped = c * free_law >= free_caps
        count = capped.sum(axis=1)
        if (count == before).all():
            return c
        rest = left - np.where(capped, free_caps, 0.0).sum(axis=1, keepdims=True)
        c = np.maximum(c, rest / np.where(capped, 0.0, free_law).sum(axis=1, keepdims=True))
        c = np.where(np.isnan(c), np.inf, c)  # 0/0
        everywhere = capped.all(axis=0)
        before = count - everywhere.sum()
        left -= float(free_caps[everywhere].sum())
        free_law, free_caps = free_law[:, ~everywhere], free_caps[~everywhere]
    return _by_sorting(law, caps)


def _by_sorting(law: FloatArray, caps: FloatArray) -> FloatArray:
    """As :func:`_multipliers`: in the order of caps/law the first k are capped, for the least k that suffices."""
    order = np.argsort(np.where(law > 0.0, caps / law, np.inf), axis=1)
    sorted_law, sorted_caps = np.take_along_axis(law, order, axis=1), caps[order]
    left = 1.0 - (np.cumsum(sorted_caps, axis=1) - sorted_caps)
    factors = left / np.cumsum(sorted_law[:, ::-1], axis=1)[:, ::-1]
    stops = factors * sorted_law <= sorted_caps
    first = np.argmax(stops, axis=1)[:, None]
    return np.where(stops.any(axis=1, keepdims=True), np.take_along_axis(factors, first, axis=1), np.inf)
