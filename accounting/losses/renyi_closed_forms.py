"""Rényi curves in closed form that keep their relative accuracy, and the least ρ above such a curve.

Near order 1 and for small losses a moment E_P[(P/Q)^{α−1}] hardly differs from 1, and its logarithm is divided by
α − 1; so the forms here compute moment − 1, as a product of positive terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from hockeystick.accounting.losses.dominating_pairs import Array

# 128 U: some twenty operations and functions without cancellation, off by 2 U at most each, are a third of it.
ROUNDED_UP = 1.0 + 2.0**-46
"""A factor above the rounding of a short formula."""


def three_point_rdp(epsilon: float, more: float, orders: Array) -> Array:
    """Returns the Rényi divergence of the symmetric pair with losses +ε, −ε and 0, rounded up.

    Args:
      more: P's mass at +ε; at −ε it has more·e^{−ε}, the rest at 0. With no rest, more = 1/(1 + e^{−ε}), this is binary
        randomised response, the worst of all ε-DP pairs.
      orders: all > 1.
    """
    a = np.asarray(orders, dtype=float)
    if epsilon == 0.0 or more == 0.0:
        return np.zeros(a.shape)
    if math.isinf(epsilon):
        return np.full(a.shape, math.inf)
    # moment − 1 = more·(e^x − 1) + more·e^{−ε}·(e^{−x} − 1) = more·(e^x − 1)·(1 − e^{−αε}), x = (α−1)ε, rounded up:
    # where that is small, x's rounding counts e^x times
    x = (a - 1) * epsilon * (1 + 2.0**-50)
    direct = np.log1p(more * np.expm1(np.minimum(x, 700.0)) * -np.expm1(-a * epsilon))
    moment = np.where(x < 700.0, direct, np.logaddexp(0.0, x + math.log(more)))  # more may be 1e-308
    return np.asarray(np.minimum(moment / (a - 1) * ROUNDED_UP, epsilon))


@lru_cache(maxsize=1024)
def three_point_rho(epsilon: float, more: float, same: float = 0.0) -> float:
    """Returns the least ρ with ``three_point_rdp`` ≤ ρα at all orders, rounded up; ``same`` is P's mass at 0.

    With s = 1 − same and u = α − ½ the log-moment is ln(1 − s + s·cosh(uε)/cosh(ε/2)), and α(α−1) = u² − ¼. Where that
    is concave in u², the tangent at α = 1 lies above it, so ρ is the mean loss s·ε·tanh(ε/2). By the power series of
    its derivative it is concave if s/(1−s) ≥ cosh(ε/2)/2, as for binary and up to 6-ary randomised response always.
    """
    if epsilon == 0.0 or more == 0.0:
        return 0.0
    if math.isinf(epsilon):
        return math.inf
    off = more * (1.0 + math.exp(-epsilon))
    mean = off * epsilon * math.tanh(epsilon / 2) * ROUNDED_UP  # also where rounding decides about concavity
    if same == 0.0 or (epsilon < 1400.0 and 2 * off >= same * math.cosh(epsilon / 2) * (1 - 2e-15)):
        return mean
    return float(np.maximum(mean, least_rho(lambda orders: three_point_rdp(epsilon, more, orders), epsilon)))


def bounded_range_rdp(width: float, orders: Array) -> Array:
    """Returns the largest Rényi divergence of two-point pairs with losses t and t − width, rounded up.

    Dong, Durfee & Rogers 2020: these are the worst of all pairs whose losses span at most ``width`` = w. With
    s(x) = ln(sinh(x/2)/(x/2)) the largest log-moment over t is α·s(αw) − (α−1)·s((α−1)w) − s(w).
    """
    a = np.asarray(orders, dtype=float)
    x = (a - 1) * width
    divergence = _s_step(x, width) + _s_step(width, x) / (a - 1)
    return np.asarray(np.minimum(divergence * ROUNDED_UP, width))


def bounded_range_rho(width: float) -> float:
    """Returns the least ρ with ``bounded_range_rdp`` ≤ ρα at all orders, rounded up.

    It is the mean loss w/(e^w − 1) − 1 + ln((e^w − 1)/w) (Harrison & Manurangsi 2025), s(w) + w·s'(w) with s as above.
    """
    return float(_s_step(0.0, width) + width / 2 * _langevin(width / 2)) * ROUNDED_UP


def _s_step(x: Any, step: Any) -> Array:
    """s(x + step) − s(x) for x ≥ 0, step > 0, without cancellation; s(x) = ln(sinh(x/2)/(x/2))."""
    x, step = np.broadcast_arrays(np.asarray(x, dtype=float), np.asarray(step, dtype=float))
    # (x + step)·(e^{s(x+step)−s(x)} − 1) is a sum of positive terms, by the addition theorem of sinh
    h = np.minimum(step, 1.0) / 2
    terms = x * (2 * np.sinh(h / 2) ** 2 + np.sinh(h) * _langevin(x / 2)) + 2 * _sinh_less(h)
    small = np.log1p(terms / (x + 2 * h))
    # s(x) = x/2 + ln((1 − e^{−x})/x)
    start = np.maximum(x, 1.0)
    large = step / 2 + np.log(np.expm1(-start - step) / np.expm1(-start)) - np.log1p(step / start)
    near = np.minimum(x, 1.0) / 2
    end = x + np.maximum(step, 1.0)
    mixed = end / 2 + np.log(-np.expm1(-end)) - np.log(end) - np.log1p(_sinh_less(near) / np.maximum(near, 1e-300))
    return np.asarray(np.where(step <= 1.0, small, np.where(x >= 1.0, large, mixed)))


def _langevin(y: Any) -> Array:
    """coth(y) − 1/y for y ≥ 0: (y·cosh y − sinh y)/(y·sinh y)."""
    y = np.asarray(y, dtype=float)
    small = np.minimum(y, 1.0)
    # y·cosh y − sinh y = Σ_{n≥1} 2n·y^{2n+1}/(2n+1)!
    series = sum(2 * n * small ** (2 * n - 1) / float(math.factorial(2 * n + 1)) for n in range(1, 11))
    sinhc = 1.0 + _sinh_less(small) / np.maximum(small, 1e-300)
    large = np.maximum(y, 1.0)
    return np.asarray(np.where(y < 1.0, series / sinhc, 1 / np.tanh(large) - 1 / large))


def _sinh_less(h: Any) -> Array:
    """sinh(h) − h for 0 ≤ h ≤ 1."""
    return np.asarray(sum(np.asarray(h) ** (2 * n + 1) / float(math.factorial(2 * n + 1)) for n in range(1, 11)))


def least_rho(curve: Callable[[Array], Array], pure: float) -> float:
    """Returns the least ρ with curve(α) ≤ ρα at all α > 1, rounded up by about 1e-6 of it.

    Args:
      curve: a Rényi curve, or the maximum of several, so that (α−1)·curve(α) is convex.
      pure: a bound on it at all orders, finite.
    """
    # Where ρ holds at orders a < b, the chord of ρα(α−1) bounds (α−1)·curve(α) between them: above the parabola by at
    # most ρ(b−a)²/4, which is a part (ratio−1)²/4 of it where b − 1 = ratio·(a − 1).
    ratio, first = 1.002, 1e-8
    # Beyond pure/slope no slope is above one that was found: look at doubled orders until they are there.
    order, slope = 2.0, float(curve(np.array([2.0]))[0]) / 2.0
    while order * slope < pure and order < 1e300:
        order *= 2.0
        slope = max(slope, float(curve(np.array([order]))[0]) / order)
    last = pure / slope if order * slope >= pure else order
    count = math.ceil((math.log(max(last, 1.0)) - math.log(first)) / math.log(ratio)) + 1
    orders = 1.0 + first * ratio ** np.arange(count)
    found = float(np.max([np.max(curve(orders) / orders), pure / last]))  # numpy's maximum keeps a NaN
    return found * (1 + (ratio - 1) ** 2 / 4) * (1 + first) * ROUNDED_UP
