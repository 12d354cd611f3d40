"""Evidence of drift from one window's noisy counts: p-values that hold exactly, and e-values that multiply over time.

Let p_t be super-uniform given the past while there is no drift. With e(p) = mean over κ of κ·p^(κ − 1) the product of
the e(p_t) is a test supermartingale, so the probability that it ever reaches 1/α is at most α (Ville 1939). The sum
M_t = (M_(t−1) + 1)·e(p_t), with an alarm at M_t ≥ A, takes A windows or more on average until a false alarm (Shin,
Ramdas & Rinaldo 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy import stats

from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts, sum_law

Ball = Literal["kl", "kl_reverse", "js", "psi", "chi2", "hellinger2", "tv"]

_POWERS = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7])
# Sums of probabilities and a bisection, which are rounded: errors of 1e-12 at most.
_UP = 1.0 + 1e-9


def log_evidence(p_value: float) -> float:
    """Returns ln e(p)."""
    return float(np.log(np.mean(_POWERS * p_value ** (_POWERS - 1.0))))


def p_no_drift(
    reference: FloatArray, records: int, noise: LaplaceCounts, counts: FloatArray, rng: np.random.Generator, draws: int
) -> float:
    """Returns a p-value of "N records were drawn independently from the reference".

    The statistic, Σ (h − Nπ)²/(Nπ(1 − π) + noise variance), is compared with that of fresh simulated tables with
    noise. Among draws + 1 exchangeable values the rank is uniform, so it holds exactly; ties count against an alarm.

    Args:
        reference: π (k,).
        records: N, public.
        noise: The law of the noise.
        counts: The noisy counts (k,).
        rng: Of public simulations; it must not have been used for another window.
        draws: The number of simulations.
    """
    expected = records * reference
    spread = expected * (1.0 - reference) + noise.variances(expected)
    drawn = rng.multinomial(records, reference / reference.sum(), size=draws) + noise.draw(expected, rng, draws)
    statistics = ((np.concatenate([counts[None], drawn]) - expected) ** 2 / spread).sum(axis=1)
    return float(np.count_nonzero(statistics >= statistics[0]) / (draws + 1.0))


def p_within(
    share: float, records: int, noise: LaplaceCounts, cells: int, count: float, *, ball: Ball, radius: float
) -> float:
    """Returns a p-value of "the divergence of the law of N independent records from the reference is within a radius".

    Such a law gives a set of cells a probability of at most p⁺, by data processing. The set's noisy count is binomial
    plus the sum of the noise of its cells, and the binomial law rises with its probability. The sum of the noise is the
    difference of two negative binomial variables; what the table of its law leaves out is added to the p-value.

    Args:
        share: The reference's probability of the set, in (0, 1).
        records: N, public.
        noise: The law of the noise of one cell.
        cells: The number of cells in the set, which must not depend on this window's counts.
        count: The set's noisy count.
        ball: The divergence.
        radius: τ >= 0.
    """
    most = largest_probability(share, ball, radius)
    values, masses, missed = sum_law(noise.base, cells * noise.shares)
    tails = stats.binom.sf(count - values - 1.0, records, most)
    return min(1.0, float(masses @ tails) * _UP + missed)


def largest_probability(share: float, ball: Ball, radius: float) -> float:
    """Returns the largest probability p⁺ ≥ π(A) of a set for which two points are within the radius, rounded up."""
    if ball == "tv":
        return min(1.0, (share + radius) * _UP)
    two_points = _TWO_POINTS[ball]
    low, high = share, 1.0
    if two_points(1.0, share) <= radius:
        return 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if two_points(middle, share) <= radius else (low, middle)
    return min(1.0, high * _UP)


def exceeding(past: FloatArray, records: int, reference: FloatArray, noise_variance: float) -> BoolArray:
    """Returns the cells whose noisy count in earlier windows exceeds the reference by more than its deviation."""
    expected = records * reference
    return np.asarray(past - expected > 0.5 * np.sqrt(expected + noise_variance))


def _kl(p: float, q: float) -> float:
    """KL of two points, in nats; infinite where p has mass and q has none."""
    found = 0.0
    for a, b in ((p, q), (1.0 - p, 1.0 - q)):
        if a > 0.0:
            found += a * math.log(a / b) if b > 0.0 else math.inf
    return max(0.0, found)


def _js(p: float, q: float) -> float:
    middle = 0.5 * (p + q)
    return 0.5 * (_kl(p, middle) + _kl(q, middle))


def _hellinger2(p: float, q: float) -> float:
    return 0.5 * sum((math.sqrt(a) - math.sqrt(b)) ** 2 for a, b in ((p, q), (1.0 - p, 1.0 - q)))


_TWO_POINTS: dict[str, Callable[[float, float], float]] = {
    "kl": lambda p, q: _kl(q, p),
    "kl_reverse": _kl,
    "js": _js,
    "psi": lambda p, q: _kl(p, q) + _kl(q, p),
    "chi2": lambda p, q: (p - q) ** 2 / (q * (1.0 - q)),
    "hellinger2": _hellinger2,
}
