"""The law of comparisons with one noisy threshold, for Laplace and Gaussian noise: draws, tails, exact likelihoods.

One ρ is drawn for the threshold, one ν for each query; the answer is "above" where query + ν ≥ threshold + ρ. Given ρ
the answers are independent, so the probability of a sequence of them is one integral over ρ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import special

from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.numerics.table_rows import distinct_rows

ABOVE, BELOW, NOT_ASKED = 1, 0, -1
"""The codes of answers; ``NOT_ASKED`` stands for a query after the halt."""

_MOST_PIECES = 100_000
_REACH = 40.0  # scales beyond which the threshold's noise has less than e^-40 of its mass


class NoiseKind(Protocol):
    """A symmetric law of scale 1."""

    def draw(self, rng: np.random.Generator, out: FloatArray) -> None:
        """Fills ``out`` with draws."""

    def log_density(self, x: FloatArray) -> FloatArray:
        """Returns the logarithm of the density."""

    def log_tail(self, z: FloatArray) -> FloatArray:
        """Returns ln P(X ≥ z), without cancellation on either side."""

    def quantile(self, probability: float) -> float:
        """Returns t with P(X > t) = probability ≤ 1/2."""


class LaplaceKind:
    """Density e^(−|x|)/2."""

    def draw(self, rng: np.random.Generator, out: FloatArray) -> None:
        rng.standard_exponential(out=out)  # two of these take half the time of numpy's Laplace variates
        out -= rng.standard_exponential(out.size)

    def log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(-np.abs(x) - math.log(2.0))

    def log_tail(self, z: FloatArray) -> FloatArray:
        half = 0.5 * np.exp(-np.abs(z))
        return np.where(z > 0, -np.abs(z) - math.log(2.0), np.log1p(-half))

    def quantile(self, probability: float) -> float:
        return -math.log(2 * probability)


class GaussianKind:
    """Density e^(−x²/2)/√2π."""

    def draw(self, rng: np.random.Generator, out: FloatArray) -> None:
        rng.standard_normal(out=out)

    def log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(-x * x / 2 - math.log(2 * math.pi) / 2)

    def log_tail(self, z: FloatArray) -> FloatArray:
        return np.asarray(special.log_ndtr(-z))

    def quantile(self, probability: float) -> float:
        return -float(special.ndtri(probability))


LAPLACE, GAUSSIAN = LaplaceKind(), GaussianKind()


def log_probability(
    rows: NDArray[np.int8], gaps: FloatArray, kind: NoiseKind, threshold_scale: float, query_scale: float
) -> FloatArray:
    """Returns ln P(row) for each row of answers, by quadrature over the threshold's noise, to about 12 digits.

    Args:
      rows: answers of shape (rows, queries), in the codes above.
      gaps: query − threshold, of shape (queries,).
      kind: the law of both noises.

    Raises:
      NumericalError: the gaps are too far apart for the scales.
    """
    distinct, where = distinct_rows(rows)
    nodes, log_weights = _quadrature(gaps, threshold_scale, query_scale)
    log_integrand = log_weights + kind.log_density(nodes / threshold_scale) - math.log(threshold_scale)
    log_p = np.tile(log_integrand, (len(distinct), 1))
    for column, gap in zip(distinct.T, gaps, strict=True):
        z = (nodes - gap) / query_scale  # "above" where ν / query_scale ≥ z
        log_p[column == ABOVE] += kind.log_tail(z)
        log_p[column == BELOW] += kind.log_tail(-z)
    return np.asarray(special.logsumexp(log_p, axis=1)[where])


def _quadrature(gaps: FloatArray, threshold_scale: float, query_scale: float) -> tuple[FloatArray, FloatArray]:
    """Nodes and log-weights of a quadrature on pieces in which the integrand is smooth."""
    kinks = np.unique(np.append(gaps, 0.0))
    reach = _REACH * threshold_scale
    ends = np.concatenate([[kinks[0] - reach], kinks, [kinks[-1] + reach]])
    parts = np.ceil(np.diff(ends) / min(threshold_scale, query_scale))
    if not parts.sum() <= _MOST_PIECES:
        raise NumericalError(
            f"log_probability: the queries span {parts.sum():.3g} of the smaller noise scale, more than "
            f"{_MOST_PIECES}; compare queries closer to the threshold"
        )
    edges = np.concatenate(
        [np.linspace(a, b, int(n), endpoint=False) for a, b, n in zip(ends[:-1], ends[1:], parts, strict=True)]
        + [ends[-1:]]
    )
    points, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, np.newaxis] / 2
    nodes = edges[:-1, np.newaxis] + half * (1 + points)
    return nodes.ravel(), np.log(half * weights).ravel()


def windows(rows: NDArray[np.int8]) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.int8]]]:
    """Cuts each row after each "above". Yields each first query, the rows with a piece that starts there, the pieces.

    A piece has entries for all queries from its first on, and is ``NOT_ASKED`` after its "above".
    """
    above = rows == ABOVE
    for first in range(rows.shape[1]):
        begun = np.flatnonzero((rows[:, first] != NOT_ASKED) & (above[:, first - 1] if first else True))
        if len(begun):
            pieces, ends = rows[begun, first:].copy(), above[begun, first:]
            pieces[ends.cumsum(axis=1) - ends > 0] = NOT_ASKED
            yield first, begun, pieces
