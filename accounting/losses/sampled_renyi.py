"""Rényi curves of sampled accesses from the Rényi curve ε(α) of the access alone.

With r = dP/dQ, y = q·(r − 1) and u = 1 + y, the record's removal has the moment E_Q[u^α], its addition E_Q[u^{1−α}]:

* removal, integer α: Σ C(α, l)·(1−q)^{α−l}·q^l·E_Q[r^l], the binomial series, with E_Q[r^l] = e^{(l−1)·ε(l)} and 1 for
  l < 2. Between integers the chord of (α−1)·ε(α), which is convex, lies above. Any α: Minkowski's inequality,
  ‖u‖_α ≤ 1 − q + q·‖r‖_α.
* addition: u^{1−α} − 1 + (α−1)·y is at most y²·((1−q)^{1−α} − 1 − (α−1)·q)/q², its value at y = −q, and E_Q[y²] is
  q²·(e^{ε(2)} − 1). Also u ≥ 1 − q, and u^{1−α} is convex.

No Rényi divergence of a mixture exceeds that of its worst component, and none a pure bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special

from hockeystick.accounting.losses.dominating_pairs import Array
from hockeystick.accounting.losses.loss_of_mixture import mixed_up, moment_up
from hockeystick.accounting.numerics.directed_rounding import U

Curve = Callable[[Array], Array]
_ORDERS = 256  # integer orders in closed form
_ROUND = 1 + 1e-12


def removal(curve: Curve, q: float, orders: Array) -> Array:
    """Returns a bound at each order > 1, for 0 < q < 1."""
    a = np.asarray(orders, dtype=float)
    return np.minimum(_chords(removal_moments(curve, q), a), _norm_bound(curve(a), q, a))


def addition(curve: Curve, q: float, orders: Array) -> Array:
    """Returns a bound at each order > 1, for 0 < q < 1."""
    a = np.asarray(orders, dtype=float)
    loss = -math.log1p(-q)
    with np.errstate(over="ignore", invalid="ignore"):
        largest = np.minimum((a - 1) * loss, 600.0)
        # (1−q)^{1−α} − 1 − (α−1)·q, without cancellation where (α−1)·ln(1−q) is small
        gain = np.where(largest < 1e-3, _gain_series(a, q), np.expm1(largest) - (a - 1) * q)
        two = float(curve(np.array([2.0]))[0])
        squares = np.log1p(gain * math.expm1(min(two, 90.0))) / (a - 1)
        squares = np.where((largest < 600.0) & (two < 90.0), squares, math.inf)
    return np.asarray(np.minimum(np.minimum(squares, convex(curve(a), q, a)), loss) * _ROUND)


def _gain_series(a: Array, q: float) -> Array:
    # Σ_{m≥2} C(α+m−2, m)·q^m; the terms fall by (α−1+m)·q/(m+1), a small number here
    term, total = a * (a - 1) / 2 * q * q, np.zeros(a.shape)
    for m in range(2, 12):
        total = total + term
        term = term * (a - 1 + m) / (m + 1) * q
    # Ten terms, off by 6 U more each than the one before, are 70 U of 9000; what the series goes on to is below 1e-30.
    return np.asarray(total * (1 + 1e-12))


def convex(divergence: Array, q: float, a: Array) -> Array:
    """Returns ln(1 − q + q·e^{(α−1)·D})/(α−1): the bound by joint convexity of the moment."""
    return np.asarray(mixed_up(moment_up(divergence, a), q) / (a - 1))


def _norm_bound(divergence: Array, q: float, a: Array) -> Array:
    return np.asarray(np.minimum(divergence, a / (a - 1) * mixed_up((a - 1) / a * divergence, q) * _ROUND))


@lru_cache(maxsize=1)
def _log_binomials() -> Array:
    n = np.arange(_ORDERS + 1)[:, None]
    l = np.arange(_ORDERS + 1)[None, :]  # noqa: E741
    with np.errstate(invalid="ignore"):
        return np.where(l <= n, special.gammaln(n + 1) - special.gammaln(l + 1) - special.gammaln(n - l + 1), -math.inf)


def log_expm1(x: Array) -> Array:
    """Returns ln(e^x − 1), x ≥ 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.where(x < 30.0, np.log(np.expm1(np.minimum(x, 30.0))), x))


def removal_moments(curve: Curve, q: float) -> Array:
    """Returns ln E_Q[u^α] at α = 0, 1, …, of weights that sum to 1: 1 is taken from each e^{(l−1)·ε(l)}."""
    n, l = np.arange(_ORDERS + 1)[:, None], np.arange(_ORDERS + 1)  # noqa: E741
    excess = np.full(_ORDERS + 1, -math.inf)
    excess[2:] = log_expm1(l[1:-1] * curve(l[2:].astype(float)))
    with np.errstate(invalid="ignore"):
        first, second = (n - l) * math.log1p(-q), l * math.log(q)
        # Each of the three is off by 3 U of itself, a sum by U of all; the binomials by 4e-12. They may cancel.
        slack = 8 * U * (np.where(l <= n, -first, 0.0) - second + np.where(excess > -math.inf, np.abs(excess), 0.0))
        terms = _log_binomials() + first + second + excess + slack
    terms[np.isnan(terms)] = -math.inf  # no such term, times an infinite moment
    return np.asarray(np.logaddexp(0.0, special.logsumexp(terms, axis=1) + 4e-12))


def _chords(log_moments: Array, a: Array) -> Array:
    """ε(α) from the convex (α−1)·ε(α) at integers; inf beyond the last."""
    low = np.clip(np.floor(a), 1, len(log_moments) - 2).astype(int)
    with np.errstate(invalid="ignore"):
        along = (low + 1 - a) * log_moments[low] + (a - low) * log_moments[low + 1]
        along = np.where(a == low, log_moments[low], along)
        # Differences, products, their sum and the quotient: 4 U, and U for a − 1 and for the product: of the 36 U here.
        return np.asarray(np.where(a <= len(log_moments) - 1, along / (a - 1) * (1 + 4e-15), math.inf))


def replacement(curve: Curve, q: float, orders: Array, *, removed: Array) -> Array:
    """Returns a bound for ``sampled_pair.Replacement`` of a pair whose own Rényi curve is ``curve``.

    With f_α(u) = u^α − 1 − α·(u − 1), its moment is 1 + E_Q[f_α(u) + f_{1−α}(u); r > 1]. The first part is at most
    E_Q[f_α(u)] of the removal, the second at most E_Q[α(α−1)/2·y²] and (α−1)·q.

    Args:
      removed: the removal's divergence at ``orders``.
    """
    a = np.asarray(orders, dtype=float)
    squares = log_expm1(curve(np.array([2.0])))[0] + 2 * math.log(q) + np.log(a * (a - 1) / 2)
    second = np.minimum(squares, np.log((a - 1) * q))
    moment = np.logaddexp(0.0, np.logaddexp(log_expm1((a - 1) * removed), second))
    return np.asarray(np.minimum(moment / (a - 1) * _ROUND, curve(a)))


def without_replacement(curve: Curve, pure: float, q: float, orders: Array) -> Array:
    """Returns Wang, Balle & Kasiviswanathan 2019, Thm 9, at integers, the chord between, convexity beyond."""
    a = np.asarray(orders, dtype=float)
    n, l = np.arange(_ORDERS + 1)[:, None], np.arange(_ORDERS + 1)  # noqa: E741
    log_pure = float(log_expm1(np.array(pure)))
    moments = (l[2:] - 1) * curve(l[2:].astype(float))
    factor = np.minimum(math.log(2.0), l[2:] * log_pure)
    terms = np.full(_ORDERS + 1, -math.inf)
    terms[2:] = moments + factor + l[2:] * math.log(q)
    second = float(log_expm1(np.array(moments[0]))) + math.log(4.0)
    terms[2] = 2 * math.log(q) + min(second, float(moments[0]) + min(math.log(2.0), 2 * log_pure))
    with np.errstate(invalid="ignore"):
        # Each logarithm is off by 3 U of itself, a sum by U of all; the binomials by 4e-12. They may cancel.
        slack = 8 * U * (np.where(terms > -math.inf, np.abs(terms), 0.0) - 2 * l * math.log(q))
        table = np.where(l <= n, _log_binomials() + terms + slack, -math.inf)
    logs = np.logaddexp(0.0, special.logsumexp(table, axis=1) + 4e-12)
    return np.asarray(np.minimum(np.minimum(_chords(logs, a), convex(curve(a), q, a)), curve(a)))
