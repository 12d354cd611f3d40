"""The price of an event at the rest of a Gaussian budget: what it takes from it, with all that may follow.

With G(m) for N(0, 1) against N(m, 1), the event E costs c at the rest b if, in each direction and at every ε ≥ 0,

    δ of E and G(√(b − c)) together ≤ δ of G(√b) + s,

for the slack s. Then it holds at every real ε, because G is its own reverse. Both sides are convex in x = e^ε. Between
two points of a grid the left one lies below its chord and the right one above its two tangents. So an inequality at
the ends of each interval, and at the point where the tangents meet, proves the one between. Where that fails, intervals
are halved. Beyond the grid the left side, which falls, is below s. All numbers have room for their rounding.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms

Array = np.ndarray[Any, np.dtype[np.float64]]
Law = tuple[Array, Array, float]
"""Losses, P's masses, and P's mass of outcomes that Q excludes."""

_CELLS = 2**13  # of the grid on which a law is computed
_ATOMS = 160  # to which it is thinned
_POINTS = 129  # of the first grid
_HALVINGS = 9
_CLOSE = 2e-4  # to which a price is searched, in proportion
_OFF = 2e-14  # of the terms of a hockey stick: ndtr and log_ndtr are good to 1e-15


def residue_price(event: PrivacyEvent, rest: float, slack: float, known: float) -> float:
    """Returns a price of the event without its failure at the rest b, at most ``known``; inf if none is found.

    Args:
      event: any event that is not composed of others.
      rest: b > 0, not more than what is left.
      slack: s > 0.
      known: a price that is known to hold at every rest, such as the event's Gaussian parameter squared; may be inf.
    """
    if not event.has_profile():
        return known
    return _searched(event, rest, slack, known)


@lru_cache(maxsize=4096)
def _searched(event: PrivacyEvent, rest: float, slack: float, known: float) -> float:
    laws = [_law(way) for way in event.directions()]
    high = min(known, rest)
    if known > rest and not _holds(laws, rest, high, slack):
        return math.inf
    low = 0.25 * high
    while low > 1e-9 * rest and _holds(laws, rest, low, slack):
        low, high = 0.25 * low, low
    while high > low * (1 + _CLOSE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _holds(laws, rest, middle, slack) else (middle, high)
    return high


@lru_cache(maxsize=64)
def _law(event: PrivacyEvent) -> Law:
    """Returns a law of losses above the event's, of few atoms: mass between two of them goes to both."""
    pair = event.pair()
    if isinstance(pair, Atoms):
        # Masses are off by a few U.
        return np.array(pair.losses), np.array(pair.p) * (1 + 1e-15), pair.infinity()
    low, high = event.loss_support()
    law = discretise(event, max((high - low) / _CELLS, 1e-12), True)
    losses, p = law.losses(), law.p
    losses, p = losses[p > 0.0], p[p > 0.0]
    spread = max(math.sqrt(float(p @ losses**2)), 1e-12)
    first, last = (math.asinh(float(loss) / spread) for loss in losses[[0, -1]])
    kept = np.unique(np.concatenate([losses[[0, -1]], spread * np.sinh(np.linspace(first, last, _ATOMS))[1:-1]]))
    right = np.clip(np.searchsorted(kept, losses), 1, len(kept) - 1)
    below, above = kept[right - 1], kept[right]
    # P's mass and Q's, p·e^{−loss}, are both kept.
    share = np.clip(np.expm1(below - losses) / np.expm1(below - above), 0.0, 1.0)
    masses = np.bincount(right, p * share, len(kept)) + np.bincount(right - 1, p * (1 - share), len(kept))
    return kept, np.asarray(masses, dtype=float) * (1 + 1e-12), law.infinity  # thousands of sums, each off by U


def _gaussian(e: Array, m: float) -> tuple[Array, Array]:
    """Returns the hockey stick of G(m) at each ε, and what it may be off by."""
    if m == 0.0:
        return np.maximum(0.0, -np.expm1(np.minimum(e, 0.0))), np.full(e.shape, 1e-16)
    above = special.ndtr(m / 2 - e / m)
    with np.errstate(under="ignore"):
        below = np.exp(np.minimum(e, 700.0) + special.log_ndtr(-m / 2 - e / m))
    return np.maximum(above - below, 0.0), _OFF * (1 + np.abs(e)) * (1 + 1 / m) * above


def _left(e: Array, law: Law, m: float) -> Array:
    """Returns the hockey stick of the law and G(m) together, rounded up."""
    losses, p, infinity = law
    value, off = _gaussian(e[:, None] - losses[None, :], m)
    # Sums of a hundred products are off by as many U.
    return np.asarray((value + off) @ p * (1 + 1e-13) + infinity)


def _holds(laws: list[Law], rest: float, price: float, slack: float) -> bool:
    m, whole = math.sqrt(max(0.0, rest - price)), math.sqrt(rest)
    end = rest / 2 + whole * math.sqrt(-2 * math.log(slack))
    # Roots are off by U.
    return all(_dominated(law, m * (1 + 1e-15), whole * (1 - 1e-15), end, slack) for law in laws)


def _dominated(law: Law, m: float, whole: float, end: float, slack: float) -> bool:
    e = np.linspace(0.0, end, _POINTS)
    left, right, falls = _sides(e, law, m, whole)
    if left[-1] > slack or (left > right + slack).any():
        return False
    pairs = np.stack([np.arange(_POINTS - 1), np.arange(1, _POINTS)])
    for _ in range(_HALVINGS):
        i, j = pairs
        width = np.expm1(e[j] - e[i])  # of x, over x_i
        # Tangents right_i + falls_i·(x − x_i) and right_j + falls_j·(x − x_j), in units of x_i.
        first, second = falls[i], falls[j]
        turn = second - first
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = np.where(
                turn > 0.0, (right[i] - right[j] + second * np.exp(e[i]) * width) / (turn * np.exp(e[i])), 0.0
            )
        meet = np.clip(np.nan_to_num(meet), 0.0, width)
        chord = left[i] + (left[j] - left[i]) * meet / width
        scale = np.exp(e[i])
        tangents = np.maximum(right[i] + first * scale * meet, right[j] + second * scale * (meet - width))
        open_ones = chord > tangents + slack - 1e-15 * (left[i] + right[i])
        if not open_ones.any():
            return True
        i, j = i[open_ones], j[open_ones]
        between = (e[i] + e[j]) / 2
        more = _sides(between, law, m, whole)
        if (more[0] > more[1] + slack).any():
            return False
        new = len(e) + np.arange(len(between))
        e = np.append(e, between)
        left, right, falls = (np.append(a, b) for a, b in zip((left, right, falls), more, strict=True))
        pairs = np.stack([np.append(i, new), np.append(new, j)])
    return False


def _sides(e: Array, law: Law, m: float, whole: float) -> tuple[Array, Array, Array]:
    """Returns the left side rounded up, the right side rounded down, and the right side's derivative in x."""
    right, off = _gaussian(e, whole)
    return _left(e, law, m), np.maximum(right - off, 0.0), -special.ndtr(-whole / 2 - e / whole)
