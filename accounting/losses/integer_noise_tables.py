"""Laws of integer noise as tables of log-probabilities, and the shifts that an integer vector can make.

A table gives, besides ln p, the steps ln p(y) − ln p(y+1), which are the privacy losses of a shift by one; they are
computed on their own because the difference of two logarithms would lose the digits that matter for wide noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.losses.dominating_pairs import Array, Atoms
from hockeystick.accounting.numerics.directed_rounding import U

MAX_TABLE = 2**19
NEGLIGIBLE = 104.0  # e^-104 < 1e-45


@frozen(eq=False)
class NoiseTable:
    """ln p on consecutive integers.

    Attributes:
      log_p: n values.
      steps: ln p(y) − ln p(y+1), n − 1 values, each within ``step_error``.
      outside: a bound on the mass on either side of the table, together.
      log_error: how far a value of ``log_p`` may be off.
      step_error: how far each step may be off.
    """

    log_p: Array
    steps: Array
    outside: float
    log_error: float
    step_error: Array

    def losses(self, shift: int) -> Array:
        """Returns an upper bound on ln p(y) − ln p(y+shift), the loss of the outcome y+shift, for all pairs inside."""
        if shift <= 64:
            slack = self.step_error + 2 * shift * U * np.abs(self.steps)  # of the steps, and of their sum
            return np.asarray(np.convolve(self.steps + slack, np.ones(shift), "valid"))
        return np.asarray(self.log_p[:-shift] - self.log_p[shift:] + 2 * self.log_error)

    def shifted(self, shift: int) -> Atoms:
        """Returns the noise shifted up by ``shift`` against the noise itself; the mass of unknown loss is infinite."""
        if shift >= len(self.log_p):
            return Atoms((), (), 1.0)
        losses, log_p = self.losses(shift), np.minimum(self.log_p[:-shift] + self.log_error, 0.0)
        seen = log_p > -745.0
        lost = float(np.exp(np.minimum(self.log_p[-shift:] + self.log_error, 0.0)).sum()) + self.outside
        return Atoms(tuple(losses[seen].tolist()), tuple(np.exp(log_p[seen]).tolist()), min(1.0, lost))


def renyi(log_p: Array, losses: Array, orders: Array, *, log_error: float = 0.0, outside: Array | float = 0.0) -> Array:
    """Returns a bound on the Rényi divergence at each order, from P's log-masses and the losses.

    Args:
      log_p: logarithms of P's masses, which add up to 1 with those left out; losses left out are negative or counted
        in ``outside``.
      log_error: how far they may be off.
      outside: a bound on E[e^{(α−1)L}] over the outcomes left out, for each order or for all.
    """
    a = np.asarray(orders, dtype=float)
    more = np.broadcast_to(np.asarray(outside, dtype=float), a.shape)
    out = np.empty(a.shape)
    seen = log_p > -745.0
    p, widest = np.exp(log_p[seen]), float(np.abs(losses).max())
    for i, order in np.ndenumerate(a):
        t = order - 1.0
        if t * widest < 600.0:  # the masses add up to 1: no cancellation of what is left
            gain = np.expm1(t * losses[seen])
            slack = (log_error + U * (16 + 4 * t * widest)) * 2 * float(p @ np.abs(gain))
            slack += (len(seen) - len(p)) * math.exp(t * widest - 745.0)
            moment = math.log1p(max(0.0, float(p @ gain) + slack + float(more[i])))
        else:
            y = log_p + t * losses
            peak = max(float(y.max()), 0.0)
            moment = peak + math.log(float(np.exp(y - peak).sum()) + float(more[i]) * math.exp(-peak))
            # t and its product are off by U, the sum with ln p ≥ −745 too; sums and the logarithm by 8 U at most.
            moment += log_error + 4 * U * (abs(peak) + t * widest + 800.0)
        out[i] = max(0.0, moment) / t
    return out


def steepest(curve: Callable[[Array], Array], beyond: Callable[[float], float], *, top: float = math.inf) -> float:
    """Returns a bound on sup rdp(α)/α over α > 1, within about 1e-4 of it where ``beyond`` allows.

    (α−1)·rdp(α) is convex (Van Erven & Harremoës 2014, Cor. 2), hence below its chords; near 1 the curve itself is
    nondecreasing. Intervals whose chord may be too high are halved.

    Args:
      curve: upper bounds on the Rényi divergence at given orders.
      beyond: a bound on rdp(α')/α' for all α' ≥ α.
      top: the largest order at which to evaluate the curve.
    """
    t = [1e-5]
    d = list(curve(np.array([1.0 + t[0]])))
    best = d[0] / (1.0 + t[0])
    while beyond(1.0 + t[-1]) > best * (1 + 1e-5) and 1.0 + t[-1] < top:
        t.append(min(t[-1] * 1.5, top - 1.0))
        d.extend(curve(np.array([1.0 + t[-1]])))
        best = max(best, d[-1] / (1.0 + t[-1]))
    x, y = np.array(t), np.array(d)
    for _ in range(12):
        bound = _chords(x, y)
        (wide,) = np.nonzero(bound > best * (1 + 1e-4))
        if not len(wide):
            break
        middle = np.sqrt(x[wide] * x[wide + 1])
        found = curve(1.0 + middle)
        best = max(best, float((found / (1.0 + middle)).max()))
        x, y = np.insert(x, wide + 1, middle), np.insert(y, wide + 1, found)
    rest = max(float(y[0]), beyond(1.0 + float(x[-1])))
    # A chord is seven operations on positive numbers, off by U each.
    return max(rest, float(_chords(x, y).max(initial=0.0))) * (1 + 16 * U)


def _chords(t: Array, d: Array) -> Array:
    """The largest value of rdp(α)/α on each [1 + t_i, 1 + t_{i+1}] that the chords of (α−1)·rdp(α) allow."""
    left, right = t[:-1], t[1:]
    # On the chord rdp = a − b/t, and (a − b/t)/(1 + t) is largest at the positive root of a·t² = b·(2t + 1).
    rise = right / (right - left) * np.maximum(d[1:] - d[:-1], 0.0)
    a, b = d[:-1] + rise, rise * left
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.where(a > 0.0, (b + np.sqrt(b * b + a * b)) / a, left)
    at = np.clip(root, left, right)
    return np.asarray((a - b / at) / (1.0 + at))


@lru_cache(maxsize=64)
def discrete_gaussian(sigma: float, further: int = 0) -> NoiseTable | None:
    """Returns p(y) ∝ e^{−y²/(2σ²)} (Canonne, Kamath & Steinke 2020); None where the table would be too long.

    It goes ``further`` than all but a negligible mass does: as far as outcomes lie from the other one of two laws.
    """
    reach = math.sqrt(2 * NEGLIGIBLE) * sigma + 2.0 + further
    if 2 * reach + 1 > MAX_TABLE:
        return None
    n = math.ceil(reach)
    y = np.arange(-n, n + 1, dtype=float)
    log_p = -y * y / (2 * sigma * sigma)
    log_p -= math.log(math.fsum(np.exp(log_p)))
    # Both tails together are at most those of N(0, σ²) beyond √208·σ, and some rounding (ibid., Prop. 25).
    steps = (2 * y[:-1] + 1) / (2 * sigma * sigma)
    log_error = 8 * U * (max(NEGLIGIBLE, -float(log_p.min())) + 2 * float(np.abs(steps).max()))
    return NoiseTable(log_p, steps, 1e-43, log_error, 4 * U * np.abs(steps))


def skellam_exponent(y: Array | float, variance: float) -> Array:
    """Returns C with P(Z ≥ y) ≤ e^{−C}, y ≥ 0 (Chernoff); C = y·asinh(y/V) − √(y²+V²) + V."""
    y = np.asarray(y, dtype=float)
    # √(y²+V²) − V without cancellation
    return np.asarray(y * (np.arcsinh(y / variance) - y / (np.hypot(y, variance) + variance)))


@lru_cache(maxsize=256)
def skellam_reach(variance: float) -> int:
    """Returns how far from 0 the symmetric Skellam law has all but e^-104 of its mass."""
    n = 16
    while skellam_exponent(float(n), variance) < NEGLIGIBLE + 1.0:
        n += max(1, n // 8)
    return n


@lru_cache(maxsize=32)
def skellam(variance: float, reach: int) -> NoiseTable:
    """Returns p(y) = e^{−V}·I_|y|(V) for |y| ≤ ``reach``, which is at least ``skellam_reach``.

    The ratios r_ν = I_{ν+1}(V)/I_ν(V) obey r_{ν−1} = 1/(2ν/V + r_ν), used downwards: a relative error then shrinks by
    r_ν·r_{ν−1} in each step, so that one in the first value, which Amos 1974 brackets, is soon gone. Where r is near 1
    nothing shrinks for about √V steps, and the recursion is one of d = 1 − r, whose rounding is relative to d. A bound
    on the error runs along.
    """
    first = reach + max(20, math.ceil(25.0 / math.asinh(reach / variance)))
    r = variance / (first + 1 + math.hypot(variance, first + 1))
    error = variance / (first + math.hypot(variance, first + 2)) / r - 1.0 + 16 * U  # relative
    value, off, near_one = np.empty(first), np.empty(first), 0
    order = first
    while order and r <= 0.5:
        before, r = r, 1.0 / (2.0 * order / variance + r)
        # Two quotients and the sum are off by U each.
        error = before * r * error + 4 * U
        order -= 1
        value[order], off[order] = r, error
    d, error, near_one = 1.0 - r, error * r, order
    for order in range(near_one, 0, -1):
        c = 2.0 * order / variance
        gap = c - d
        d = gap / (1.0 + gap)
        error = (error + U * (c + gap)) / (1.0 + gap) ** 2 + 4 * U * d
        value[order - 1], off[order - 1] = d, error / (1.0 - d)
    right = np.concatenate([-np.log1p(-value[:near_one]), -np.log(value[near_one:])])[:reach]
    right_error = 1.01 * off[:reach] + 2 * U * right  # ln p(y) − ln p(y+1), y = 0 … reach−1
    fall = np.concatenate([[0.0], np.cumsum(right)])
    log_p = np.concatenate([-fall[:0:-1], -fall]) + math.log(special.i0e(variance))
    log_error = float(right_error.sum()) + 1.01 * U * float(fall.sum()) + 16 * U * (1.0 - float(log_p.min()))
    return NoiseTable(
        log_p,
        np.concatenate([-right[::-1], right]),
        1e-45,
        log_error,
        np.concatenate([right_error[::-1], right_error]),
    )


def hull(log_p: Array) -> Array:
    """Returns the least concave sequence above ``log_p``."""
    corners: list[int] = []
    for i in range(len(log_p)):
        while len(corners) > 1:
            j, k = corners[-1], corners[-2]
            if (log_p[j] - log_p[k]) * (i - k) > (log_p[i] - log_p[k]) * (j - k):
                break
            corners.pop()
        corners.append(i)
    return np.interp(np.arange(len(log_p)), corners, log_p[corners])


def distance(value: float) -> float:
    """The distance of two inputs, > 0; the converter of a field."""
    number = validate.real("distance", value, low=0.0, high=field_checks.LARGEST, low_open=True)
    return max(number, field_checks.SMALLEST)


def coordinates(value: int | None) -> int | None:
    """The number of integers released, ≥ 1, or None for any number; the converter of a field."""
    return None if value is None else validate.integer("coordinates", value, low=1)


def known_rho(rho: float) -> float:
    """Returns ``rho``, or inf where it is beyond the domain of a zCDP parameter."""
    return rho if rho <= field_checks.LARGEST**2 else math.inf


def whole(distance: float) -> int:
    """Returns ``distance`` rounded up to an integer, one that it misses by rounding alone left as it is.

    Integer vectors at most ``distance`` apart are at most that far apart.
    """
    # A distance so near an integer is taken for it: what a few operations in floats have moved it by, at most.
    return max(1, math.ceil(distance * (1 - 1e-12) if distance < 1e9 else distance))


@lru_cache(maxsize=256)
def spreads(square: int, coordinates: int | None, most: int = 32) -> tuple[tuple[int, ...], ...] | None:
    """Returns the integer vectors of squared L2 norm ≤ ``square``, up to order, signs, and vectors above them.

    None if there are more than ``most``. Noise with log-concave law is told apart more easily the further a coordinate
    moves, so a vector that can still grow somewhere is not needed. Without a limit on the coordinates what is left over
    goes into further units, so the vectors are the partitions of ``square`` into squares.
    """
    free = square if coordinates is None else min(coordinates, square)
    if free == 1:
        return ((math.isqrt(square),),)
    if square > (4096 if free == 2 else 100) or (coordinates is None and square > most + 1):
        return None
    found: list[tuple[int, ...]] = []

    def extend(parts: tuple[int, ...], left: int) -> None:
        if left == 0 or (len(parts) == free and 2 * parts[-1] + 1 > left):
            found.append(parts)
        elif len(parts) < free:
            largest = min(math.isqrt(left), parts[-1] if parts else left)
            for part in range(largest, 0, -1):
                if len(found) <= most:
                    extend((*parts, part), left - part * part)

    extend((), square)
    return tuple(found) if len(found) <= most else None


def knapsack(curve: Callable[[int], Array], square: int, coordinates: int | None = None) -> Array:
    """Returns the largest Σ curve(s_i) over at most ``coordinates`` shifts ≥ 1 with Σ s_i² ≤ ``square``."""
    value = [curve(s) for s in range(1, math.isqrt(square) + 1)]
    if coordinates is not None and coordinates < square:
        layer = [np.zeros_like(value[0])] * (square + 1)
        for _ in range(coordinates):
            layer = [_best(layer, value, room) for room in range(square + 1)]
        return layer[square]
    best = [np.zeros_like(value[0])]
    for room in range(1, square + 1):
        best.append(np.max([best[room - s * s] + value[s - 1] for s in range(1, math.isqrt(room) + 1)], axis=0))
    return best[square]


def _best(layer: list[Array], value: list[Array], room: int) -> Array:
    """The best with one more shift, or none, after those in ``layer``."""
    rows = [layer[room], *(layer[room - s * s] + value[s - 1] for s in range(1, math.isqrt(room) + 1))]
    return np.asarray(np.max(rows, axis=0))
