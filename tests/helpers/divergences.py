"""Divergences of two discrete laws, by one sum over their outcomes, and of two normal laws by their closed form.

A law is an array of masses, or a mapping of outcomes to masses in which what is missing has none. Nothing here is
shared with the accountants: the tests compare their curves with these sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import mpmath
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Law = Mapping[Any, float] | ArrayLike


def _masses(p: Law, q: Law) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both laws on the same outcomes."""
    if isinstance(p, Mapping) and isinstance(q, Mapping):
        outcomes = p.keys() | q.keys()
        p, q = ([law.get(outcome, 0.0) for outcome in outcomes] for law in (p, q))
    first, second = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    assert first.shape == second.shape, "laws on different outcomes"
    return first, second


def hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    """δ(ε) = ∑ max(0, p − e^ε·q): how far the first law exceeds e^ε times the second."""
    first, second = _masses(p, q)
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def larger_hockey_stick(p: Law, q: Law, epsilon: float) -> float:
    """The larger of the two directions' δ(ε)."""
    return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


def shifted_hockey_stick(masses: NDArray[np.float64], shift: int, epsilon: float) -> float:
    """δ(ε) of symmetric noise, tabulated far enough, moved by ``shift`` > 0; what the cut ends lack is left out."""
    return hockey_stick(masses[shift:], masses[:-shift], epsilon)


def renyi(p: Law, q: Law, orders: ArrayLike) -> Any:
    """The Rényi divergence of p from q of one order, not 1, or of each of several."""
    first, second = _masses(p, q)
    seen, a = first > 0, np.asarray(orders, dtype=float)[..., None]
    with np.errstate(divide="ignore"):  # what q never has: infinite beyond order 1, nothing below it
        log_p, log_q = np.log(first[seen]), np.log(second[seen])
    terms = a * log_p + (1 - a) * log_q
    top = terms.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # by hand: scipy's logsumexp takes a millisecond for two numbers
        sums = np.log(np.exp(terms - top).sum(axis=-1))
    found = np.where(np.isfinite(top[..., 0]), top[..., 0] + sums, top[..., 0]) / (a[..., 0] - 1)
    return found if np.ndim(orders) else float(found)


def relative_entropy(p: ArrayLike, q: ArrayLike) -> Any:
    """KL(p || q) along the last axis; infinite where q misses mass of p."""
    first, second = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    return special.rel_entr(first, second).sum(axis=-1)


def kkt_residual(weights: ArrayLike, caps: ArrayLike, projected: ArrayLike) -> float:
    """The largest violation, in units of mass, of z <= cap, sum z = 1 and z = min(c w, cap) by KL projections z of w.

    The best c of a row is that of its largest uncapped entry. 0 is exact.
    """
    rows, limits, found = np.atleast_2d(weights), np.asarray(caps), np.atleast_2d(projected)
    worst = 0.0
    for row, z in zip(rows, found, strict=True):
        law = row / row.sum()
        free = (z < limits) & (law > 0.0)
        top = int(np.argmax(np.where(free, law, -1.0)))
        c = z[top] / law[top] if free.any() else math.inf
        with np.errstate(invalid="ignore"):  # inf * 0
            best = np.where(law > 0.0, np.minimum(c * law, limits), 0.0)
        parts = np.abs(z - best).max(), abs(math.fsum(z) - 1.0), (z - limits).max(), -z.min()
        worst = max(worst, *map(float, parts))
    return worst


def gaussian_delta(mu: float, epsilon: ArrayLike) -> Any:
    """δ(ε) of N(μ, 1) against N(0, 1) at one ε or several (Balle & Wang 2018, Theorem 8)."""
    e = np.asarray(epsilon, dtype=float)
    if mu == 0.0:
        return np.maximum(0.0, -np.expm1(e))
    found = special.ndtr(mu / 2 - e / mu) - np.exp(e + special.log_ndtr(-mu / 2 - e / mu))
    return np.maximum(0.0, found) if e.ndim else max(0.0, float(found))


def exact_gaussian_delta(mu: Any, epsilon: Any) -> Any:
    """The same in mpmath's numbers, of 60 digits or as many more as the caller works with."""
    with mpmath.workdps(max(60, mpmath.mp.dps)):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
