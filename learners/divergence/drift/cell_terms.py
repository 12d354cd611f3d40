"""The terms of divergences, cell by cell, and their estimates from counts with noise.

Every divergence is a sum over cells of a term in Bregman form, D = Σ π·g(x) with x = (q − π)/π: a term is at least 0,
and it is flat where the table agrees with the reference. So the fact that both add up to 1 is used without a further
step; the same divergence without the linear part has an error that is many times larger.

**Unbiased terms.** Let Z be discrete Laplace noise, P(z) ∝ a^|z|. For every f on the whole numbers with
Σ |f(m)| a^|m| < ∞,

    Tf(m) = f(m) − a/(1 − a)² · (f(m + 1) − 2 f(m) + f(m − 1))   has   E Tf(h + Z) = f(h),

because the generating function of the noise is the inverse of 1 − a/(1 − a)²·(w − 2 + 1/w). f need not be smooth. With
noise on two tables T is applied to each count. The mean of T is known: Calmon et al. 2025 for continuous noise and
smooth f, Hillebrand, Imola, Pagh & Sejer 2026 for whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from scipy.special import xlogy

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import items, one_of

CellDivergence = Literal["kl", "kl_reverse", "js", "psi", "chi2", "hellinger2", "tv"]
Divergence = Literal["kl", "kl_reverse", "js", "psi", "chi2", "hellinger2", "tv", "wasserstein"]
Target = Literal["table", "law"]
Term = Callable[[FloatArray], FloatArray]
PairTerm = Callable[[FloatArray, FloatArray], FloatArray]

DIVERGENCES: tuple[Divergence, ...] = get_args(Divergence)
MEANINGS: dict[str, str] = {
    "kl": "KL(reference || records)",
    "kl_reverse": "KL(records || reference)",
    "js": "Jensen–Shannon divergence, in nats",
    "psi": "population stability index, the sum of both KL divergences",
    "chi2": "Σ (q − π)²/π",
    "hellinger2": "squared Hellinger distance, ½ Σ (√q − √π)²",
    "tv": "total variation distance, ½ Σ |q − π|",
    "wasserstein": "Wasserstein-1 distance on ordered cells",
}

_FLOOR = 0.5  # of a count, where the logarithm of a frequency stands
_SMALL = 0.01
_FLOORED = ("kl", "psi")


def checked_divergences(value: object) -> tuple[Divergence, ...]:
    """Returns names of divergences, each once and in the order of ``DIVERGENCES``.

    Raises:
        InvalidArgumentError: a name is unknown, or there is none.
    """
    names = (value,) if isinstance(value, str) else items("divergences", value)
    for name in names or ("none",):
        one_of("divergences", name, *DIVERGENCES)
    return tuple(name for name in DIVERGENCES if name in names)


def cell_term(divergence: str, reference: FloatArray, records: float, target: Target) -> Term:
    """Returns f: the terms (..., k) of counts (..., k), whole or not, possibly below 0.

    Args:
        divergence: A name of ``DIVERGENCES`` but "wasserstein".
        reference: π > 0, shape (k,).
        records: N, by which counts are divided.
        target: "table" for the divergence of the table's own frequencies; "law" for terms whose mean over tables of N
            independent records is, to second order, the divergence of the law that they are drawn from.
    """

    def plain(counts: FloatArray) -> FloatArray:
        return _terms(divergence, counts, records * reference, records)

    if target == "table" or divergence == "tv":  # at the kink a second difference does not estimate the bias
        return plain

    def corrected(counts: FloatArray) -> FloatArray:
        return np.asarray(plain(counts) - _sampling_bias(plain, counts, records))

    return corrected


def _sampling_bias(term: Term, counts: FloatArray, records: float) -> FloatArray:
    """½·h(1 − h/N)·N/(N − 1)·Δ²f(h): to second order the mean of f(h) − f(N·p), and exactly for chi2."""
    inside = np.maximum(counts, 0.0)
    curve = term(inside + 1.0) - 2.0 * term(inside) + term(inside - 1.0)
    spread = np.maximum(inside * (1.0 - inside / records), 0.0) * (records / max(records - 1.0, 1.0))
    return np.asarray(0.5 * spread * curve)


def pair_term(divergence: str, records: tuple[float, float], target: Target) -> PairTerm:
    """Returns the terms of the counts of two tables; the second one is the reference, of half a record at least."""

    def plain(first: FloatArray, second: FloatArray) -> FloatArray:
        base = np.maximum(second, _FLOOR) * (records[0] / records[1])
        return _terms(divergence, first, base, records[0])

    if target == "table" or divergence == "tv":
        return plain

    def corrected(first: FloatArray, second: FloatArray) -> FloatArray:
        own = _sampling_bias(lambda counts: plain(counts, second), first, records[0])
        other = _sampling_bias(lambda counts: plain(first, counts), second, records[1])
        return np.asarray(plain(first, second) - own - other)

    return corrected


def _terms(divergence: str, counts: FloatArray, expected: FloatArray, records: float) -> FloatArray:
    """The terms for expected counts E = N·π; beyond 0 they go on as a straight line."""
    x = (counts - expected) / expected
    below = np.minimum(counts, 0.0)
    least = _FLOOR if divergence in _FLOORED else 0.0
    bounded = (np.maximum(counts, least) - expected) / expected
    if divergence == "kl":  # below half a record the logarithm stays
        found = _excess(bounded) + below / expected
    elif divergence == "kl_reverse":
        found = _entropy(bounded) - below / expected
    elif divergence == "js":
        found = 0.5 * _entropy(bounded) - _entropy(0.5 * bounded)
    elif divergence == "psi":
        found = bounded * np.log1p(bounded)
    elif divergence == "chi2":
        found = x * x
    elif divergence == "hellinger2":
        found = 0.5 * (bounded / (1.0 + np.sqrt(1.0 + bounded))) ** 2
    else:
        found = 0.5 * np.abs(x)
    return np.asarray(found * (expected / records))


def _excess(x: FloatArray) -> FloatArray:
    """x − ln(1 + x) for x > −1, without loss of digits near 0."""
    near = np.where(np.abs(x) < _SMALL, x, 0.0)
    series = near * near * (1 / 2 - near * (1 / 3 - near * (1 / 4 - near * (1 / 5 - near * (1 / 6 - near / 7)))))
    return np.where(np.abs(x) < _SMALL, series, x - np.log1p(x))


def _entropy(x: FloatArray) -> FloatArray:
    """(1 + x)·ln(1 + x) − x for x ≥ −1, without loss of digits near 0."""
    near = np.where(np.abs(x) < _SMALL, x, 0.0)
    series = near * near * (1 / 2 - near * (1 / 6 - near * (1 / 12 - near * (1 / 20 - near * (1 / 30 - near / 42)))))
    return np.where(np.abs(x) < _SMALL, series, xlogy(1.0 + x, np.maximum(1.0 + x, 0.0)) - x)
