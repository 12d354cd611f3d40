"""Piecewise linear profiles in exact arithmetic, and the pairs of laws that have them.

A profile δ(x), x = e^ε, of a pair (P, Q) is convex and nonincreasing with δ(0) = 1. Where it has a corner, its slope
rises by Q's mass at the loss ln x, and P's mass there is x times that; what is left of δ beyond the last corner is P's
mass where Q has none. The profile of (Q, P) is 1 − x + x·δ(1/x). Corners are rational; atoms are rounded upwards.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable
from fractions import Fraction

from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.numerics.directed_rounding import U

Point = tuple[Fraction, Fraction]


def lower_hull(points: Iterable[Point], straight: bool = False) -> list[Point]:
    """The corners of the greatest convex function below points in increasing order; ``straight``: all points on it."""
    hull: list[Point] = []
    for x, y in points:
        if hull and hull[-1][0] == x:
            if hull[-1][1] <= y:
                continue
            hull.pop()
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            turn = (y - b) * (c - a) - (d - b) * (x - a)
            if turn > 0 or (straight and turn == 0):
                break
            hull.pop()
        hull.append((x, y))
    return hull


def largest_symmetric(points: list[Point]) -> list[Point]:
    """The corners of the largest profile that respects ``points`` (e^ε, δ) in both orders of the pair."""
    everywhere = {Fraction(0): Fraction(1)}
    for x, delta in points:
        for place, height in ((x, delta), (1 / x, 1 - (1 - delta) / x)):
            everywhere[place] = min(everywhere.get(place, Fraction(1)), height)
    hull = lower_hull(sorted(everywhere.items()))
    lowest = min(y for _, y in hull)
    return hull[: next(i for i, (_, y) in enumerate(hull) if y == lowest) + 1]  # a profile does not rise again


def larger_of_both_orders(masses: Iterable[Point]) -> list[Point]:
    """The corners of the pointwise maximum of the profiles of (P, Q) and (Q, P), P and Q given outcome by outcome."""
    both = list(masses)
    forward, backward = _Profile(both), _Profile([(q, p) for p, q in both])
    places = sorted({Fraction(0), *forward.places, *backward.places})
    f, g = ([profile(x) for x in places] for profile in (forward, backward))
    corners = [(x, max(a, b)) for x, a, b in zip(places, f, g, strict=True)]
    for i, (x, y) in enumerate(itertools.pairwise(places)):
        before, after = f[i] - g[i], f[i + 1] - g[i + 1]
        if before * after < 0:  # they cross, both linear here
            share = before / (before - after)
            corners.append((x + share * (y - x), f[i] + share * (f[i + 1] - f[i])))
    return lower_hull(sorted(corners))


class _Profile:
    """δ(x) of a finite pair: the sum of (p − x·q)₊."""

    def __init__(self, masses: list[Point]) -> None:
        finite = sorted((p / q, p, q) for p, q in masses if q > 0)
        self.places = [x for x, _, _ in finite]
        alone = sum((p for p, q in masses if q == 0), Fraction(0))
        p_above = itertools.accumulate((p for _, p, _ in reversed(finite)), initial=alone)
        q_above = itertools.accumulate((q for _, _, q in reversed(finite)), initial=Fraction(0))
        self.p_above, self.q_above = list(p_above)[::-1], list(q_above)[::-1]

    def __call__(self, x: Fraction) -> Fraction:
        i = bisect.bisect_right(self.places, x)
        return self.p_above[i] - x * self.q_above[i]


def atoms(corners: list[Point], known: dict[Fraction, float] | None = None) -> Atoms:
    """Returns the pair whose profile has these corners, (0, 1) the first, and is constant beyond the last.

    Args:
      known: losses ln x, rounded to nearest or up, where they need not be computed.
    """
    given = known or {}
    slopes = [(d - b) / (c - a) for (a, b), (c, d) in itertools.pairwise(corners)]
    losses, masses = [], []
    for (x, _), before, after in zip(corners[1:], slopes, [*slopes, Fraction(0)][1:], strict=True):
        if x > 0 and after > before:
            losses.append(given[x] if x in given else _log_up(x))
            # P's and Q's mass are both rounded up, which makes good for a loss rounded to nearest, too.
            masses.append(float(x * (after - before)) * (1 + 8 * U))
    return Atoms(tuple(losses), tuple(masses), float_up(corners[-1][1]))


def _log_up(x: Fraction) -> float:
    """ln x rounded up."""
    if x == 1:
        return 0.0
    if Fraction(1, 2) < x < 2:
        value = math.log1p(float(x - 1))
        return value + 4 * U * abs(value)
    if 1e-300 < x < 1e300:
        value = math.log(float(x))
        # x is off by U of itself, the logarithm by 2 U of itself, the sum by U.
        return value + 4 * U * (abs(value) + 1)
    value = math.log(x.numerator) - math.log(x.denominator)
    # Logarithms are off by 2 U of themselves, the difference and the sum by U of theirs.
    return value + 4 * U * (math.log(x.numerator) + math.log(x.denominator) + 1)


def float_up(x: Fraction) -> float:
    """Returns the least float that is not below x."""
    value = float(x)
    return value if Fraction(value) >= x else math.nextafter(value, math.inf)
