"""The last iterate of a noisy iteration with steps that are fixed in advance: its Gaussian parameter by a taut string.

Let X_k = Π_k(φ_k(X_{k−1}) + Z_k) and X'_k the same with φ'_k, from the same X_0, with fresh Z_k ~ N(0, σ_k²·I), the
same maps Π_k that increase no distance (projections onto public closed convex sets, or none), and

    ‖φ_k(x) − φ'_k(x')‖ ≤ c_k·‖x − x'‖ + s_k for all x and x'.

Interpolate from X̃_0 = X'_0: X̃_k = Π_k(λ_k·φ_k(X_{k−1}) + (1 − λ_k)·φ'_k(X̃_{k−1}) + Z_k), with λ_k such that the
centre moves by at most a_k from φ'_k(X̃_{k−1}). Then ‖X_k − X̃_k‖ ≤ z_k = c_k·z_{k−1} + s_k − a_k, and step k tells X̃
from X' like N(a_k/σ_k, 1) from N(0, 1) at most. If z_t = 0, X̃_t is X_t, and the laws of X_t and X'_t are at most as
easy to tell apart as N(μ, 1) and N(0, 1), μ² = Σ (a_k/σ_k)² (Bok, Su & Altschuler 2024), in both directions, as the
Gaussian pair is its own reverse.

The least such μ: with w_k = Π_{j>k} c_j, V_k = Σ_{j≤k} (w_j·σ_j)², S_k = Σ_{j≤k} w_j·s_j and A_k = Σ_{j≤k} w_j·a_j, the
condition z ≥ 0 is A_k ≤ S_k with equality at t, and μ² = Σ (ΔA)²/ΔV. A string from (V_0, 0) to (V_t, S_t) that is
pulled taut below the points (V_k, S_k) solves it: the greatest convex function below them, with one slope on each of
its pieces. In a domain of diameter D the interpolation may begin after any step k at a distance of D, which puts the
string's beginning at the height S_k − w_k·D. All beginnings are tried, in one pass from the end.
"""

from __future__ import annotations

import bisect
import math
from typing import Any

import numpy as np

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError

_LONG = np.longdouble
_EPS = float(np.finfo(_LONG).eps)
_TINY = float(np.finfo(_LONG).tiny ** _LONG(0.2)) or 1e-300
_MOST_STEPS = 2**22

Long = np.ndarray[Any, np.dtype[np.longdouble]]


def last_iterate_mu(
    moves: object, contractions: object, noises: object, *, diameter: float = math.inf, apart: float = 0.0
) -> float:
    """Returns μ such that the last iterate of a noisy iteration is μ-Gaussian-DP, for any schedule; it is rounded up.

    The steps are those of the module's description: batches, learning rates and noise may change from step to step, as
    long as the data do not decide it.

    Args:
      moves: s_k ≥ 0, how far the changed record moves step k at most; 0 where it is not read. Shape (t,).
      contractions: c_k > 0, one for each step, or one number for all of them; see ``Contraction``.
      noises: σ_k > 0, the standard deviations of the noise in each coordinate, or one number.
      diameter: D > 0, of a public set that all iterates are projected onto.
      apart: the distance of the two starting points, which is 0 if the start is public.

    Raises:
      InvalidArgumentError: an argument outside its domain, arrays of different lengths, or more than 2^22 steps.
      NumericalError: the steps expand distances beyond all numbers.

    Example: a record that is read in the first of 100 steps of c = 1 costs a tenth of what it would without them.

      >>> from hockeystick.accounting import last_iterate_mu
      >>> round(last_iterate_mu([1.0] + [0.0] * 99, 1.0, 1.0), 9)
      0.1
    """
    s = validate.array("moves", moves, ndim=1, low=0.0, high=1e100)
    t = len(s)
    if not 1 <= t <= _MOST_STEPS:
        raise InvalidArgumentError("moves", t, "is not a number of steps from 1 to 2^22", "give the last steps alone")
    c = _one_each("contractions", contractions, t, low=1e-100)
    noise = _one_each("noises", noises, t, low=1e-100)
    diameter = validate.real("diameter", diameter, low=0.0, low_open=True, allow_inf=True)
    apart = min(validate.real("apart", apart, low=0.0, high=1e100), diameter)
    return least_mu(s, c, noise, diameter=diameter, apart=apart)


def _one_each(name: str, value: object, t: int, *, low: float) -> np.ndarray[Any, Any]:
    found = validate.array(name, value, low=low, high=1e100)
    if found.ndim == 0:
        return np.full(t, float(found))
    if found.shape != (t,):
        raise InvalidArgumentError(name, found.shape, f"is not of shape ({t},)", "give one number, or one per step")
    return found


def least_mu(moves: Any, contractions: Any, noises: Any, *, diameter: float, apart: float) -> float:
    """Returns ``last_iterate_mu`` of arrays that are already checked."""
    s, c, noise = (np.asarray(one, dtype=_LONG) for one in (moves, contractions, noises))
    with np.errstate(over="ignore", under="ignore"):
        w = np.append(np.cumprod(c[::-1])[::-1], _LONG(1.0))  # w[k] = c_{k+1}·…·c_t
    if not np.isfinite(w).all() or float(w.max()) > 1e150:
        raise NumericalError("the steps expand distances beyond all numbers: give fewer steps, or smaller factors")
    first = int(np.flatnonzero(w < _TINY).max(initial=-1)) + 1  # earlier steps have weights below all numbers
    for k in range(min(first, len(s))):
        apart = min(diameter, float((c[k] * apart + s[k]) * (1 + 8 * _EPS)) * (1 + 4e-16))
    s, noise, w = s[first:], noise[first:], w[first:]
    heights, widths = _sums(s, noise, w, w[0] * apart)
    start, corners = _string(heights, widths, [float(x) for x in w], diameter)
    return _certified(s, noise, w, apart if start == 0 else diameter, start, corners)


def _sums(s: Long, noise: Long, w: Long, lift: Any) -> tuple[Long, Long]:
    """Returns S_k, lifted by what the starting points are apart, and V_k, for k = 0 … t."""
    heights = np.append(_LONG(0.0), np.cumsum(w[1:] * s)) + lift
    return heights, np.append(_LONG(0.0), np.cumsum((w[1:] * noise) ** 2))


def _string(heights: Long, widths: Long, w: list[float], diameter: float) -> tuple[int, list[int]]:
    """Returns the step after which the best string begins, and the steps where it bends, up to the last one.

    Floats will do: whatever is chosen here, ``_certified`` finds what it costs.
    """
    ys, xs = [float(y) for y in heights], [float(x) for x in widths]
    last = len(xs) - 1
    hull, slopes, cost = [last], [math.inf], [0.0]  # from the end; slopes[i]: from hull[i] to hull[i − 1]
    after = [last] * (last + 1)  # the next step of the hull that a step was added to
    best = (math.inf, 0, last)
    for k in range(last - 1, -1, -1):
        if k == 0 or (diameter < math.inf and w[k] * diameter < ys[k]):
            base = 0.0 if k == 0 else ys[k] - w[k] * diameter
            at = _touch(k, base, xs, ys, hull, slopes)
            slope = _slope(xs, k, hull[at], ys[hull[at]] - base)
            best = min(best, (cost[at] + _paid(slope, xs[hull[at]] - xs[k]), k, hull[at]))
        while len(hull) > 1 and _slope(xs, k, hull[-1], ys[hull[-1]] - ys[k]) >= slopes[-1]:
            hull.pop(), slopes.pop(), cost.pop()
        slope = _slope(xs, k, hull[-1], ys[hull[-1]] - ys[k])
        cost.append(cost[-1] + _paid(slope, xs[hull[-1]] - xs[k]))
        after[k] = hull[-1]
        hull.append(k)
        slopes.append(slope)
    corners = [best[2]]
    while corners[-1] < last:
        corners.append(after[corners[-1]])
    return best[1], corners


def _paid(slope: float, width: float) -> float:
    return slope * slope * width if slope < math.inf else 0.0


def _touch(k: int, base: float, xs: list[float], ys: list[float], hull: list[int], slopes: list[float]) -> int:
    """Returns the place in the hull where a string from step k at the height ``base`` first touches it."""

    def passes(i: int) -> bool:  # whether the string to hull[i] runs at most as steeply as the hull goes on from there
        return _slope(xs, k, hull[i], ys[hull[i]] - base) <= slopes[i]

    return len(hull) - 1 - bisect.bisect_left(range(len(hull)), True, key=lambda i: passes(len(hull) - 1 - i))


def _slope(xs: list[float], k: int, j: int, rise: float) -> float:
    wide = xs[j] - xs[k]
    return rise / wide if wide > 0.0 else math.inf


def _certified(s: Long, noise: Long, w: Long, apart: float, start: int, corners: list[int]) -> float:
    """Returns what the string from ``start`` over ``corners`` costs, rounded up, whatever rounding chose them.

    All sums have positive terms. Those of n steps, each a product of up to n + 3 numbers, are off by (3n + 4)·eps in
    proportion. Where the string lies above the points by a share x of their height, it is lowered by that share, and
    what is missing at the end is made up for in the last step, whose noise is not scaled.
    """
    n = len(s) - start
    heights, widths = _sums(s[start:], noise[start:], w[start:], w[start] * _LONG(apart))
    bends = [0, *(k - start for k in corners)]
    x, y = widths[bends], heights[bends]
    y[0] = 0.0
    slopes = np.diff(y) / np.diff(x)
    piece = np.clip(np.searchsorted(bends, np.arange(1, n + 1), side="left") - 1, 0, len(slopes) - 1)
    string = y[piece] + (widths[1:] - x[piece]) * slopes[piece]
    positive = heights[1:] > 0.0
    above = float(np.max(string[positive] / heights[1:][positive] - 1, initial=0.0))
    off = (4 * n + 16) * _EPS
    mu = np.sqrt(np.sum(slopes**2 * np.diff(x))) * (1 + 2 * off)
    mu += 2 * (above + 2 * off) * heights[-1] / noise[-1]
    return math.nextafter(float(mu * (1 + 8 * _EPS)), math.inf)
