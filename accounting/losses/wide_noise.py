"""Wide Skellam noise is hidden in normal noise of nearly its variance: one closed form in place of many vectors.

Let S(k) = P(Z ≥ k) and x_k = −Φ⁻¹(S(k)). *If no step x_k − x_{k−1} is above μ, a shift by an integer vector v costs at
most what normal noise costs at μ·|v|.* Proof: of a log-concave law the best tests are thresholds, so the power of the
best test of a shift by s at the levels S(k) is S(k−s) = Φ(s steps − x_k) ≤ R(S(k)), R(α) = Φ(Φ⁻¹(α) + s·μ), and linear
between these levels. R is concave, so that it is above everywhere; it is the power for normal noise (Dong, Roth & Su
2022, Def. 2.6), which composes to μ·|v| (ibid., Cor. 3.3).

Steps are compared as far as K, for both signs as x_{1−k} = −x_k. At levels below S(K), or above 1 − S(K−s), a power is
at most R plus S(K−s): the pair of laws is dominated by the normal one with that mass set apart, as what reveals all.

The variance lost is about ⅓: by Edgeworth's series a step is 1/√V·(1 + (4 − 3x²)/(24V) + …).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.losses import integer_noise_tables
from hockeystick.accounting.numerics.directed_rounding import U

LEAST_VARIANCE = 1e5
_BEYOND = 1.25  # how much farther the table goes than the steps: what is left out there is less than 1e-70
_TAKEN = 64 * U  # what Φ⁻¹ may be off by, in parts of it


@frozen
class NormalStep:
    """The part of a law that hides wide noise.

    Attributes:
      mu: no step of x_k is above it.
      compared: K, how far the steps were compared.
    """

    mu: float
    compared: int


@lru_cache(maxsize=256)
def normal_step(variance: float) -> NormalStep:
    """Returns what hides a unit shift in Skellam noise of this variance."""
    last = integer_noise_tables.skellam_reach(variance)
    table = integer_noise_tables.skellam(variance, math.ceil(_BEYOND * last))
    right = table.log_p[len(table.log_p) // 2 :]
    p = np.exp(right)
    above = np.cumsum(p[::-1])[::-1][1 : last + 1]  # S(1) … S(K), but for what lies beyond the table
    error = 1.01 * table.log_error + (len(p) + 16) * U
    outside = math.exp(-float(integer_noise_tables.skellam_exponent(float(len(p)), variance)))
    most = -special.ndtri(above * (1 - error)) * (1 + _TAKEN)  # x_1 … x_K
    least = -special.ndtri(above * (1 + error) + outside) * (1 - _TAKEN)
    before = np.concatenate([-most[:1], least[:-1]])
    # A step is also ∫ ds/φ(Φ⁻¹(s)) from S(k) to S(k−1), where the integrand is convex: no more than by trapezia.
    inverse = np.exp(0.5 * most * most) * math.sqrt(2 * math.pi) * (1 + 512 * U)
    trapezia = 0.5 * p[:last] * (1 + error) * (inverse + np.concatenate([inverse[:1], inverse[:-1]]))
    steps = np.minimum(most - before, trapezia)
    # A difference, or the three products and the sum of a trapezium, and this product: 5 U.
    return NormalStep(float(steps.max()) * (1 + 8 * U), last)


def normal_bound(variance: float, square: int, coordinates: int | None) -> tuple[float, float]:
    """Returns (μ, δ): no vector of squared norm ≤ ``square`` costs more than normal noise at μ, and δ on top."""
    step = normal_step(variance)
    shift = math.isqrt(square)
    far = math.exp(-float(integer_noise_tables.skellam_exponent(float(max(0, step.compared - shift)), variance)))
    entries = square if coordinates is None else min(square, coordinates)
    # The square, its root and two products would be off by 3.5 U.
    return math.sqrt(square) * step.mu * (1 + 4 * U), min(1.0, 1.01 * entries * far)
