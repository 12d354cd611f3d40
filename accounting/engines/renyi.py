"""From Rényi curves to (ε, δ): the best order is searched over all of (1, ∞).

For one order α, a mechanism with rdp(α) = r is (ε, δ)-DP for every ε, δ with
ln δ = (α−1)(r − ε) + (α−1)·ln(1 − 1/α) − ln α  (Canonne, Kamath & Steinke 2020, Prop. 12).

δ(0), the total variation distance, is at most √(r/2) by Pinsker's inequality, as the Kullback–Leibler divergence is at
most rdp(α) for every α > 1. That is far less than the conversion where the divergences are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hockeystick.accounting.events.basic.composition import Composed
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.numerics.directed_rounding import U

_GRID = 1.0 + np.geomspace(1e-4, 1e12, 65)  # 4 orders a decade, refined around the best
_REFINED = (65, 65)
_FINE = 1.0 + np.geomspace(1e-4, 1e8, 1201)


def epsilon(event: PrivacyEvent, delta: float) -> float:
    """Returns ε at ``delta`` by the best order; inf where no order gives a bound. The event's failure is not added."""
    if delta <= 0.0:
        return math.inf
    best, _ = _search(lambda orders: _epsilons(event, math.log(delta), orders))
    return 0.0 if best <= 0.0 or _total_variation(event) <= delta else best


def epsilon_by(event: PrivacyEvent, delta: float, orders: Array) -> float:
    """Returns ε at ``delta`` > 0 by the best of some orders, which is sound too. The event's failure is not added."""
    found = _epsilons(event, math.log(delta), orders)
    return max(0.0, float(np.min(found, initial=math.inf, where=~np.isnan(found))))


def log_delta_by(event: PrivacyEvent, epsilon: float, orders: Array) -> float:
    """Returns ln δ at ``epsilon`` by the best of some orders, which is sound too. The event's failure is not added."""
    found = _log_deltas(event, np.array(epsilon), orders)
    return float(np.min(found, initial=0.0, where=~np.isnan(found)))


def _epsilons(event: PrivacyEvent, log_delta: float, orders: Array) -> Array:
    """ε by each order, rounded up: the terms may nearly cancel, and the rounding of each is added."""
    with np.errstate(invalid="ignore", over="ignore"):
        divergence, shrink = event.rdp(orders), np.log1p(1 / (orders - 1))
        value = divergence - shrink - (log_delta + np.log(orders)) / (orders - 1)
        slack = 8 * (shrink + (abs(log_delta) + np.log(orders)) / (orders - 1) + np.abs(value))
        # Logarithms are off by 2 U, other operations by U: 5 U of each term; the sums by U of all.
        return np.asarray(value + U * (slack + _sums(event) * divergence))


def _total_variation(event: PrivacyEvent) -> float:
    """Returns a bound on δ(0) by Pinsker's inequality."""
    divergences = event.rdp(_GRID)
    least = float(np.min(divergences, initial=math.inf, where=~np.isnan(divergences)))
    # As in ``_epsilons`` for the divergence; the square root is off by U.
    return math.sqrt(least * (1 + U * _sums(event)) / 2) * (1 + 2 * U)


def log_delta(event: PrivacyEvent, epsilon: float) -> float:
    """Returns ln δ at ``epsilon`` by the best order. The event's failure is not added."""
    best, _ = _search(lambda orders: _log_deltas(event, np.array(epsilon), orders))
    most = _total_variation(event)
    most = math.log(most) * (1 - 4 * U) if 0.0 < most < 1.0 else 0.0  # a logarithm is off by 2 U of itself
    return min(most, best) if math.isfinite(best) else most


def log_deltas(event: PrivacyEvent, epsilons: Array) -> Array:
    """Returns ln δ at each of ``epsilons``, from one table of orders that is not refined."""
    values = _log_deltas(event, np.asarray(epsilons, dtype=float)[:, None], _FINE)
    return np.asarray(np.minimum(np.where(np.isnan(values), math.inf, values).min(axis=-1), 0.0))


def _log_deltas(event: PrivacyEvent, epsilons: Array, orders: Array) -> Array:
    """ln δ by each order, rounded up."""
    with np.errstate(invalid="ignore", over="ignore"):
        divergence, shrink = event.rdp(orders), np.log1p(1 / (orders - 1))
        value = (orders - 1) * (divergence - epsilons - shrink) - np.log(orders)
        slack = 8 * ((orders - 1) * shrink + np.log(orders) + np.abs(value))
        # As in ``_epsilons``, times the order less 1.
        return np.asarray(value + U * (slack + _sums(event) * (orders - 1) * divergence))


def _sums(event: PrivacyEvent) -> int:
    """The number of ulps that sums may have taken off a divergence; those of the events inside are rounded up."""
    children = event.children()
    own = len(children) + 1 if isinstance(event, Composed) else 4
    return own + max(map(_sums, children)) if children else 0


def epsilon_floor(event: PrivacyEvent, delta: float, found: float) -> float:
    """Returns a value that no order can beat, below ``found`` = ``epsilon(event, delta)``.

    For a fixed ε the logarithm of δ is convex in α (as (α−1)·rdp is, for an exact Rényi curve), so that between two
    orders it lies above the chords drawn on either side. Towards order 1 it rises, as the best ε is above the
    divergences there; where it falls beyond the last orders, the divergence is at least what it is there.
    """
    if found <= 0.0:
        return 0.0
    log_delta, gap = math.log(delta), 1e-12
    orders = np.unique(np.concatenate([_GRID, *_search(lambda a: _epsilons(event, log_delta, a))[1]]))
    divergence = event.rdp(orders)
    fixed = (orders - 1) * (divergence + np.log1p(-1 / orders)) - np.log(orders)
    usable = np.isfinite(fixed)
    a, fixed = orders[usable], fixed[usable]
    # As orders grow, what is subtracted from the divergence falls: (ln δ + ln α)/(α − 1) is at most 1/α once it does.
    last = float(a[-2])
    subtracted = math.log1p(1 / (last - 1)) + max(1 / last, (log_delta + math.log(last)) / (last - 1))
    beyond = float(divergence[usable][-2]) * (1 - 1e-12) - subtracted
    while gap < 0.5:
        h = fixed - (a - 1) * found * (1 - gap)
        slope = np.diff(h) / np.diff(a)
        # On [a_i, a_{i+1}], i = 1 … m−3: the lines through (i−1, i) and (i+1, i+2) meet below the curve.
        left, right = slope[:-2], slope[2:]
        width = a[2:-1] - a[1:-2]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.clip((h[2:-1] - h[1:-2] - right * width) / (left - right), 0.0, width)
        low = h[1:-2] + left * np.where(np.isfinite(t), t, 0.0)
        if low.min() >= log_delta:
            return max(0.0, found * (1 - gap) if slope[-2] >= 0.0 else beyond)
        gap *= 4
    return 0.0


def _search(bound: Callable[[Array], Array]) -> tuple[float, list[Array]]:
    """The least value of ``bound`` over orders, and the orders tried; as each value is valid, it may be rough."""
    orders, best, tried = _GRID, math.inf, []
    for points in (*_REFINED, 1, 0):
        tried.append(orders)
        values = bound(orders)
        values = np.where(np.isnan(values), math.inf, values)
        i = int(np.argmin(values))
        best = min(best, float(values[i]))
        if math.isinf(best) or not points:
            break
        low, high = orders[max(i - 1, 0)], orders[min(i + 1, len(orders) - 1)]
        if points > 1:
            orders = 1.0 + np.geomspace(low - 1, high - 1, points)
        else:  # the vertex of the parabola through the best point and the ones beside it
            before, here, after = (float(values[min(max(j, 0), len(values) - 1)]) for j in (i - 1, i, i + 1))
            bend = before - 2 * here + after
            shift = 0.5 * (before - after) / bend if 0 < bend < math.inf else 0.0
            orders = 1.0 + (orders[i : i + 1] - 1.0) * ((high - 1) / (low - 1)) ** (shift / 2)
    return best, tried
