"""The Rényi divergence between two mixtures of unit normals on a line, at any real order, by quadrature with a proof.

With u_P, u_Q the densities of P and Q over that of N(0, 1), and r = u_P/u_Q,

    e^{(α−1)·D_α(P‖Q)} = 1 + F,    F = ∫ φ·u_Q·(r^α − 1 − α(r − 1)),

an integral of what is nowhere negative: small divergences keep their relative accuracy. The trapezoidal rule of step h
is off by at most 2M/(e^{2πa/h} − 1) for a function analytic in |Im z| < a whose integrals along the lines in that strip
are at most M (Trefethen & Weideman 2014, Thm 5.1). On such a line each term of a mixture turns by an angle centre·Im z,
so that |u| ≤ u(Re z), and |u| ≥ cos(θ/2)·u(Re z) where all angles lie in a range θ < π; |φ| grows by e^{a²/2}. Hence

    M ≤ e^{a²/2}·(cos(θ/2)^{1−α}·(1 + F) + 1 + 2α).

The step is chosen so that this is negligible, and then it is added, as are the tails and the rounding.
"""

from __future__ import annotations

import math

import numpy as np

from hockeystick.accounting.losses.dominating_pairs import Array
from hockeystick.accounting.losses.normal_mixtures import ORIGIN, NormalMixture
from hockeystick.accounting.numerics.directed_rounding import U

_DIGITS = 70.0  # the quadrature error is e^{−70}
_REACH = 12.0  # standard deviations beyond the last mode: e^{−72}
_LONGEST = 400.0  # of the range of integration; above it a ceiling has to do
_WIDEST = 16.0  # mixtures further apart need too small a step


def divergence(p: NormalMixture, q: NormalMixture, orders: Array, ceiling: Array) -> Array:
    """Returns a bound on D_α(P‖Q) at each order > 1: the divergence itself to about 1e-13, or ``ceiling`` where less.

    Args:
      ceiling: a bound known otherwise, for orders (or mixtures) that are out of reach of the quadrature.
    """
    a, out = np.asarray(orders, dtype=float), np.array(ceiling, dtype=float)
    if max(p.most - p.least, q.most - q.least) > _WIDEST:
        return out
    low = np.minimum(a * p.least - (a - 1) * q.most, min(p.least, q.least)) - _REACH
    high = np.maximum(a * p.most - (a - 1) * q.least, max(p.most, q.most)) + _REACH
    todo = (high - low <= _LONGEST) & ~_attained(p, q, a, out)
    spread = q.most - q.least
    # What the angle costs grows with the order: orders that need about the same step share their nodes.
    rank = np.floor(np.log2(1.0 + (a - 1) * spread**2)) if spread else np.zeros(a.shape)
    for group in np.unique(rank[todo]):
        some = todo & (rank == group)
        out[some] = np.minimum(out[some], _quadrature(p, q, a[some], low[some], high[some]))
    return out


def _attained(p: NormalMixture, q: NormalMixture, a: Array, ceiling: Array) -> Array:
    """Says where one term of P alone already comes within 1e-14 of the ceiling (against N(0, 1); elsewhere nowhere)."""
    if q != ORIGIN:
        return np.zeros(a.shape, dtype=bool)
    alone = [a * math.log(w) / (a - 1) + a * c * c / 2 for c, w in zip(p.centres, p.weights, strict=True)]
    # Either is a bound from above: this only says which is good enough.
    return np.asarray(ceiling <= np.max(alone, axis=0) * (1 + 1e-14))


def _quadrature(p: NormalMixture, q: NormalMixture, a: Array, low: Array, high: Array) -> Array:
    spread = q.most - q.least
    steepest = 0.5 + 0.154 * (float(a.max()) - 1) * spread**2
    strip = min(math.sqrt(_DIGITS / steepest), 0.95 * math.pi / max(p.most - p.least, spread, 1e-300))
    loss = strip**2 / 2 - (a - 1) * math.log(math.cos(spread * strip / 2))
    h = 2 * math.pi * strip / (float(loss.max()) + _DIGITS)
    fall = 2 * math.pi * strip / h - math.log(2.0) - 1e-9  # ln of (e^{2πa/h} − 1)/2, from below

    origin = float(low.min())
    first = np.floor((low - origin) / h).astype(int)
    sizes = np.ceil((high - origin) / h).astype(int) + 1 - first
    z = origin + h * np.arange(int((first + sizes).max()))
    log_p, log_q, excess = _ratios(p, q, z)

    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    nodes = np.arange(int(sizes.sum())) - np.repeat(starts - first, sizes)
    order = np.repeat(a, sizes)
    weight = log_q - z * z / 2
    log_r = np.where(np.abs(excess) < 0.5, np.log1p(np.clip(excess, -0.5, 0.5)), log_p - log_q)
    terms = _log_gain(order, log_r[nodes], excess[nodes]) + weight[nodes]
    peak = np.maximum.reduceat(terms, starts)
    log_sum = peak + np.log(np.add.reduceat(np.exp(terms - np.repeat(peak, sizes)), starts)) + math.log(h) - _LOG_ROOT

    ends = np.stack([first, first + sizes - 1])
    at_ends = a * log_r[ends] + weight[ends]  # beyond them the integrand falls by e^{−12h} at each node
    # u^α of a ratio good to 8 ulp, and the exponentials of terms and their shift.
    rounding = 4 * U * (64 + 8 * np.abs(a * log_r[ends]).max(axis=0) + np.abs(weight[ends]).max(axis=0) + np.log(sizes))
    one_plus = np.logaddexp(0.0, log_sum)
    lost = np.logaddexp.reduce(
        [
            one_plus + loss + math.log(2.0) - fall,
            np.log(2.0 + 4.0 * a) + strip**2 / 2 - fall,
            at_ends.max(axis=0),
            np.log(a) - _REACH**2 / 2,
        ]
    )
    log_f = np.logaddexp(log_sum + rounding, lost)
    # logaddexp of positive results is off by 4 U, the difference, the quotient and the product by U.
    return np.asarray(np.logaddexp(0.0, log_f) / (a - 1) * (1 + 8 * U))


_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def _ratios(p: NormalMixture, q: NormalMixture, z: Array) -> tuple[Array, Array, Array]:
    """ln u_P, ln u_Q, and r − 1 (inf where it is beyond floats)."""
    log_p, log_q = p.log_ratio(z), q.log_ratio(z)
    change: dict[float, float] = {}
    for sign, mixture in ((1.0, p), (-1.0, q)):
        for centre, weight in zip(mixture.centres, mixture.weights, strict=True):
            change[centre] = change.get(centre, 0.0) + sign * weight
    with np.errstate(over="ignore", invalid="ignore"):
        # Both have mass 1: a term of both with one weight drops out, and 1 may be taken from each that is left.
        difference = np.sum([d * np.expm1(c * z - c * c / 2) for c, d in change.items()], axis=0)
        small = difference * np.exp(-log_q)
        large = np.expm1(log_p - log_q)
    return log_p, log_q, np.where(np.abs(log_p - log_q) < 1.0, small, large)


def _log_gain(a: Array, log_r: Array, y: Array) -> Array:
    """ln(r^α − 1 − α(r − 1)) with y = r − 1."""
    b = (a - 1) * log_r
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        out = np.where(b > 40.0, log_r + b, 0.0)
        close = np.abs(y) * a < 0.03
        (i,) = np.nonzero(close)
        # The binomial series Σ_{m≥2} C(α, m)·y^m, by Horner's rule.
        series = np.ones(len(i))
        for m in range(12, 2, -1):
            series = 1.0 + (a[i] - (m - 1)) / m * y[i] * series
        out[i] = np.log(a[i] * (a[i] - 1) / 2) + 2 * np.log(np.abs(y[i])) + np.log(series)
        (i,) = np.nonzero(~close & (b <= 40.0) & (log_r < 1.0))
        out[i] = np.log(np.exp(log_r[i]) * np.expm1(b[i]) - (a[i] - 1) * y[i])
        (i,) = np.nonzero(~close & (b <= 40.0) & (log_r >= 1.0))
        out[i] = log_r[i] + np.log(np.expm1(b[i]) + (a[i] - 1) * np.expm1(-log_r[i]))
    return out
