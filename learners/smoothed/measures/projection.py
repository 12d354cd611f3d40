"""The KL projection onto smooth laws: z = argmin KL(z || w) over 0 <= z <= cap, sum z = 1, exactly.

By the optimality conditions z_x = min(c w_x, cap_x), where the number c solves sum_x min(c w_x, cap_x) = 1. That sum is
concave and piecewise linear in c, so Newton's method from the left never passes the root and ends on it: each step caps
at least one more entry, and a capped entry stays capped. A step takes linear time in the uncapped entries, and a few
steps suffice. Rows that need more are sorted by cap/w once, which bounds the cost by O(N log N).

Sources: Haghtalab, Roughgarden & Shetty 2020, Algorithm 3, which solves a convex programme here; Herbster & Warmuth
2001 for linear-time selection with a cap from below; Barak, Hardt & Kale 2009 for the approximate projection.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, real

_STEPS = 40  # of Newton's method, before sorting
_SUM = 1e-9  # by which a sum may be below 1 through rounding
_ROUNDING = 1e-12
_LARGEST = 2.0**1000


def kl_projection(weights: npt.ArrayLike, caps: npt.ArrayLike) -> FloatArray:
    """Returns the laws z <= caps of least KL(z || w), of the shape (..., N) of ``weights``.

    Args:
        weights: Shape (..., N), each row non-negative with a positive sum, by which it is divided.
        caps: Shape (N,), non-negative, of sum >= 1: base masses over σ, for σ-smooth laws.

    Raises:
        InvalidArgumentError: other shapes or numbers, or a row whose positive entries have caps of sum < 1.

    Example:
        >>> from hockeystick.learners.smoothed import kl_projection
        >>> kl_projection([0.7, 0.2, 0.1], [0.4, 0.4, 0.4]).round(3).tolist()
        [0.4, 0.4, 0.2]
    """
    rows, limits = _checked(weights, caps)
    law: FloatArray = (rows / rows.sum(axis=-1, keepdims=True)).reshape(-1, len(limits))
    over = (law > limits).any(axis=-1)
    if over.any():
        law[over] = _capped(law[over], limits)
    return np.reshape(law, rows.shape)


def approximate_kl_projection(weights: npt.ArrayLike, caps: npt.ArrayLike, *, tolerance: float) -> FloatArray:
    """Returns :func:`kl_projection` up to a relative error ``tolerance``, by bisection, then normalised.

    Each step reads the entries once and stores nothing. The result is at most caps/(1 - tolerance), up to rounding.

    Raises:
        InvalidArgumentError: as for :func:`kl_projection`, or a tolerance outside [1e-12, 1/2].

    Example:
        >>> from hockeystick.learners.smoothed import approximate_kl_projection
        >>> approximate_kl_projection([0.7, 0.2, 0.1], [0.4] * 3, tolerance=1e-6).round(3).tolist()
        [0.4, 0.4, 0.2]
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


def _checked(weights: npt.ArrayLike, caps: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    rows, limits = array("weights", weights, low=0.0), array("caps", caps, ndim=1, low=0.0)
    if rows.ndim < 1 or rows.shape[-1] != len(limits) or not len(limits):
        raise InvalidArgumentError(
            "weights", rows.shape, "does not fit the shape of caps", f"expected (..., {len(limits)})"
        )
    if not (rows.sum(axis=-1) > 0.0).all():
        raise InvalidArgumentError("weights", "...", "has a row of sum 0", "give each row a positive weight")
    if limits.sum() < 1.0 - _SUM:
        raise _infeasible(float(limits.sum()))
    return rows, limits


def _infeasible(total: float) -> InvalidArgumentError:
    return InvalidArgumentError(
        "caps", total, "is the sum over the positive entries of a row, below 1", "give larger caps, or positive weights"
    )


def _capped(law: FloatArray, caps: FloatArray) -> FloatArray:
    """Returns the projections of laws (m, N)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # c is infinite where all mass is capped
        factors = _multipliers(law, caps)
        found = np.where(law > 0.0, np.minimum(factors * law, caps), 0.0)
    lacking = float(np.abs(found.sum(axis=1) - 1.0).max())
    if lacking > _SUM:
        raise _infeasible(1.0 - lacking)
    return found


def _multipliers(law: FloatArray, caps: FloatArray) -> FloatArray:
    """Returns c of each row, shape (m, 1), by Newton's method, dropping columns once they are capped in all rows."""
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
    """Returns the result of :func:`_multipliers` by sorting: the first k in the order of caps/law are capped."""
    order = np.argsort(np.where(law > 0.0, caps / law, np.inf), axis=1)
    sorted_law, sorted_caps = np.take_along_axis(law, order, axis=1), caps[order]
    left = 1.0 - (np.cumsum(sorted_caps, axis=1) - sorted_caps)
    factors = left / np.cumsum(sorted_law[:, ::-1], axis=1)[:, ::-1]
    stops = factors * sorted_law <= sorted_caps
    first = np.argmax(stops, axis=1)[:, None]
    return np.where(stops.any(axis=1, keepdims=True), np.take_along_axis(factors, first, axis=1), np.inf)
