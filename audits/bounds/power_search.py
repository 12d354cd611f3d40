"""The number of samples at which a test refutes with a given probability, found by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special

_ROUNDS = 16  # of the search for both sides
_MORE = 4  # times that the answer is refined


def samples_for_power(
    hits: Callable[[int, int], int],
    start: int,
    *,
    least: int,
    most: float,
    level: float,
    power: float,
    replications: int,
) -> tuple[float, float, float]:
    """Returns the n with the given power, and its 95 % interval.

    The search moves n as if the power were a normal law of sqrt(n), until it has tried both sides of ``power``. Then it
    refines the answer. The maximum-likelihood probit line in sqrt(n) through all estimated powers between 50 % and
    99.5 % gives n; its Fisher information gives the interval.

    Args:
      hits: ``hits(n, times)`` makes ``times`` new independent tests of n samples, and returns how many of them refute.
      start: initial guess of n.
      least, most: range of n.
      level: of the test.
      power: above 1/2.
      replications: number of tests at each n; twice as many at the end.

    Returns:
      (n, low, high); (inf, largest n tried, inf) if no n had the power.
    """
    seen: dict[int, tuple[int, int]] = {}
    wanted, critical = float(special.ndtri(power)), -float(special.ndtri(level))

    def see(n: int, times: int) -> float:
        refuted, before = hits(n, times), seen.get(n, (0, 0))
        seen[n] = before[0] + refuted, before[1] + times
        return refuted / times

    n, below, above = max(start, least), False, False
    for _ in range(_ROUNDS):
        rate = see(n, replications)
        below, above = below or rate < power, above or rate >= power
        z = float(special.ndtri(np.clip(rate, 0.5 / replications, 1 - 0.5 / replications)))
        step = float(np.clip(((wanted + critical) / max(z + critical, 0.5)) ** 2, 0.4, 4.0))
        following = max(least, math.ceil(n * (min(step, 0.85) if rate >= power else max(step, 1.15))))
        if (below and above) or following == n or following > most:
            break
        n = following
    if not above:
        return math.inf, float(max(seen)), math.inf
    for _ in range(_MORE):
        see(max(least, round(_fit(seen, power)[0])), 2 * replications)
    return _fit(seen, power)


def _fit(seen: dict[int, tuple[int, int]], power: float) -> tuple[float, float, float]:
    """Returns n and its 95 % interval, by the maximum-likelihood line z = a + b sqrt(n) through the powers."""
    n = np.array(sorted(seen), dtype=float)
    hits, times = np.array([seen[int(at)] for at in n], dtype=float).T
    rate = hits / times
    near = (rate >= 0.5) & (rate <= 0.995)
    wanted = float(special.ndtri(power))
    if near.sum() < 2:  # the power jumps from low to high: only the n on either side are known
        over = float(n[rate >= power].min())
        under = float(n[(rate < power) & (n < over)].max(initial=1.0))
        return math.sqrt(under * over), under, over
    x, k, m = np.sqrt(n[near]), hits[near], times[near]
    middle = float(x.mean())
    design = np.stack([np.ones_like(x), x - middle])
    line = np.polyfit(x - middle, special.ndtri(np.clip((k + 0.5) / (m + 1), 0.02, 0.999)), 1)[::-1]
    information = np.eye(2)
    for _ in range(50):  # Fisher's scoring
        z = np.clip(line @ design, -5, 5)
        p, density = special.ndtr(z), np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        weight = m * density**2 / (p * (1 - p))
        # Added so that the matrix has an inverse; this is a fit, not a bound.
        information = (design * weight) @ design.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(information, design @ ((k - m * p) * density / (p * (1 - p))))
        line = line + np.clip(step, -0.5, 0.5)
        if np.abs(step).max() < 1e-9:
            break
    slope = max(float(line[1]), 1e-9)
    root = middle + (wanted - float(line[0])) / slope
    root = float(np.clip(root, 0.5 * x.min(), 2 * x.max()))
    lever = np.array([1.0, root - middle])
    error = 1.96 * math.sqrt(float(lever @ np.linalg.solve(information, lever))) / slope
    return root**2, max(root - error, 0.0) ** 2, (root + error) ** 2
