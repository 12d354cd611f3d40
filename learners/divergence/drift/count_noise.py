"""The law of the noise in the counts of a published histogram, which drift estimates need."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import field, frozen
from scipy import signal, stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import real
from hockeystick.learners.divergence.drift.cell_terms import Term

_TAIL = 1e-13  # the probability beyond a law's table
_ROUNDED = 1e-11  # an FFT's error in a sum of probabilities
_DIRECT, _WIDEST = 4096, 2**22  # entries of tables that are convolved directly, and at all


def _scale(value: float) -> float:
    return real("scale", value, low=0.0, low_open=True, high=1e12)


def _shares(value: float) -> float:
    return real("shares", value, low=1.0, high=1e6)


@frozen
class LaplaceCounts:
    """Discrete Laplace noise on each count, P(z) ∝ e^(−|z|/scale), or the sum of more shares of it.

    Attributes:
        scale: t, the scale of the noise.
        shares: The number of shares over that which add up to discrete Laplace noise: above 1 if more clients answer
            than their Pólya shares were calibrated for.
    """

    scale: float = field(converter=_scale)
    shares: float = field(default=1.0, converter=_shares)

    @property
    def base(self) -> float:
        """a = e^(−1/t)."""
        return math.exp(-1.0 / self.scale)

    @property
    def half_variance(self) -> float:
        """a/(1 − a)² for one share."""
        return self.base / math.expm1(-1.0 / self.scale) ** 2

    @property
    def exact(self) -> bool:
        """Whether ``corrected`` has no bias at all."""
        return self.shares in (1.0, 2.0)

    @property
    def free(self) -> bool:
        """Whether the noise depends on no data: True."""
        return True

    def variances(self, counts: FloatArray) -> FloatArray:
        """Returns the variance of each count's noise."""
        return np.full(counts.shape, 2.0 * self.half_variance * self.shares)

    def draw(self, counts: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns simulated noise (runs, k) for true counts (k,)."""
        shape, rest = (runs, len(counts)), -math.expm1(-1.0 / self.scale)
        if self.shares == 1.0:
            return np.asarray(rng.geometric(rest, shape) - rng.geometric(rest, shape), dtype=np.float64)
        first, second = (rng.negative_binomial(self.shares, rest, shape) for _ in range(2))
        return np.asarray(first - second, dtype=np.float64)

    def corrected(self, term: Term) -> Term:
        """Returns the term whose mean with noise is the term itself: (1 − c·Δ²)^shares, to the second power of Δ².

        For one share it is T of ``cell_terms``, for two T applied twice; both are exact.
        """
        c, s = self.half_variance, self.shares

        def found(counts: FloatArray) -> FloatArray:
            here, above, below = term(counts), term(counts + 1.0), term(counts - 1.0)
            value = here - s * c * (above - 2.0 * here + below)
            if s != 1.0:
                wide = term(counts + 2.0) + term(counts - 2.0)
                value = value + 0.5 * s * (s - 1.0) * c * c * (wide - 4.0 * (above + below) + 6.0 * here)
            return np.asarray(value)

        return found

    def largest(self, cells: int, level: float) -> float:
        """Returns q with P(all |Z_i| ≤ q) ≥ level, by the exact law."""
        each = -math.expm1(math.log(level) / cells)  # the failure of one cell, 1 − level^(1/k)
        if self.shares == 1.0:
            q = math.ceil(self.scale * math.log(2.0 / ((1.0 + self.base) * each)) - 1.0)
            return float(max(q, 0) + 1)  # the logarithms are rounded
        values, masses, tail = sum_law(self.base, self.shares)
        beyond = np.cumsum(masses[::-1])[::-1]
        return float(values[np.flatnonzero(2.0 * (beyond + tail) <= each)[0]])


@lru_cache(maxsize=64)
def sum_law(base: float, number: float) -> tuple[FloatArray, FloatArray, float]:
    """Returns the law of the sum of a number of discrete Laplace variables: values, masses, and what they miss.

    The sum is the difference of two negative binomial variables. Their tables end where a proved tail is left; the last
    entry bounds that tail and the rounding of the convolution.

    Raises:
        InvalidArgumentError: the law is too wide.
    """
    reach = float(stats.nbinom.isf(_TAIL, number, 1.0 - base)) + 2.0
    if not reach < _WIDEST:
        raise InvalidArgumentError("scale", -1.0 / math.log(base), "makes the law of the noise too wide", "raise ε")
    one = stats.nbinom.pmf(np.arange(int(reach)), number, 1.0 - base)
    tail = 2.0 * float(stats.nbinom.sf(int(reach) - 1, number, 1.0 - base))
    convolved = np.convolve if len(one) <= _DIRECT else signal.fftconvolve
    masses = np.maximum(convolved(one, one[::-1]), 0.0)
    values = np.arange(len(masses), dtype=np.float64) - (len(one) - 1)
    return values, masses, tail + _ROUNDED
