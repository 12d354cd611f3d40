"""Factorisations A = B·C of the prefix sums of a stream, for noise that is correlated over steps.

What is published is B·(C·x + z), with independent noise z of one deviation per unit of C's sensitivity. A good C has
short columns and leaves B with short rows. For prefix sums (A_ij = 1 for j ≤ i) no factorisation has a largest or root
mean square error below ``lower_bound``, and ``square_root`` is within a small additive constant of it.
"""

from __future__ import annotations

import math

import numpy as np

from hockeystick.accounting import validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.streams.factor_encoders import Toeplitz, Workload


def identity(steps: int, *, workload: Workload = "prefix_sums") -> Toeplitz:
    """Returns C = 1: every contribution has noise of its own, and the prefix sums' noise adds up to √t."""
    return Toeplitz(steps, (1.0,), workload=workload)


def square_root(steps: int, *, band: int | None = None, workload: Workload = "prefix_sums") -> Toeplitz:
    """Returns the square root of the prefix sums, C = B with c_k = binom(2k, k)/4^k, or its first ``band`` diagonals.

    As c_k ≤ 1/√(πk), the whole root's largest error is Σ c_k² ≤ 1 + (1 + ln(T − 1))/π for T ≥ 2 (Fichtenberger,
    Henzinger & Upadhyay 2023). A band loses little and needs a memory of ``band`` steps (Kalinin & Lampert 2024).

    Raises:
      InvalidArgumentError: ``steps`` is no integer ≥ 1, or ``band`` none in 1 … steps.
    """
    count = _band(steps, band)
    k = np.arange(1, count)
    return Toeplitz(steps, np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)])), workload=workload)


def optimised_band(steps: int, band: int) -> Toeplitz:
    """Returns a filter of ``band`` coefficients whose root mean square error for prefix sums is (locally) least.

    It is never worse than the square root's band. For several participations that are at least ``band`` apart it is
    about as good, as there all sensitivities grow alike.

    Raises:
      InvalidArgumentError: ``steps`` is no integer ≥ 1, or ``band`` none in 1 … steps.
    """
    from scipy import optimize, signal

    start = square_root(steps, band=_band(steps, band))
    left = np.arange(start.steps, 0, -1.0)  # how many answers hold an entry of the noise filter
    impulse = np.zeros(start.steps)
    impulse[0] = 1.0

    def objective(tail: FloatArray) -> tuple[float, FloatArray]:
        c = np.concatenate([[1.0], tail])
        v = np.cumsum(signal.lfilter([1.0], c, impulse))
        total, square = float(left @ v**2), float(c @ c)
        twice = signal.lfilter([1.0], c, v)  # minus the derivative of v by c₀; by c_j it is j steps late
        slope = np.array([(left[j:] * v[j:]) @ twice[: start.steps - j] for j in range(1, len(c))])
        return math.log(total) + math.log(square), -2 * slope / total + 2 * tail / square

    tail = np.array(start.coefficients[1:] + (0.0,) * (band - len(start.coefficients)))
    if not len(tail):
        return start
    with np.errstate(all="ignore"):
        found = optimize.minimize(objective, tail, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(tail))
    best = Toeplitz(steps, np.concatenate([[1.0], found.x]))
    return min(start, best, key=lambda f: f.root_mean_square_error())


def lower_bound(steps: int) -> float:
    """Returns a number that neither the largest nor the root mean square error of any factorisation goes below.

    For prefix sums and one participation. ‖A‖_* ≤ ‖B‖_F·‖C‖_F and ‖C‖_F ≤ √T·(longest column), so that the root mean
    square error is at least ‖A‖_*/T (Li & Miklau 2013; Matoušek, Nikolov & Talwar 2020 for the largest). The singular
    values of the prefix sums are 1/(2 sin((2k − 1)π/(4T + 2))), k = 1 … T.

    Raises:
      InvalidArgumentError: ``steps`` is no integer ≥ 1.
    """
    t = validate.integer("steps", steps, low=1, high=2**24)
    values = 0.5 / np.sin((2 * np.arange(1, t + 1) - 1) * math.pi / (4 * t + 2))
    # Angles are off by 4 U, which a sine counts no more, itself by 2 U; sums in pairs by 200 U at most: of 9000 U.
    return float(values.mean()) * (1 - 1e-12)


def _band(steps: int, band: int | None) -> int:
    total = validate.integer("steps", steps, low=1, high=2**24)
    return total if band is None else validate.integer("band", band, low=1, high=total)
