"""Factorisations A = B·C of the prefix sums of a stream, for noise that is correlated over steps.

The output is B·(C·x + z), with independent noise z whose standard deviation is proportional to the sensitivity of C. A
good factorisation has short columns in C and short rows in B. For prefix sums (A_ij = 1 for j ≤ i) no factorisation has
a largest or root mean square error below ``lower_bound``, and ``square_root`` is within a small additive constant of
it.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from hockeystick.accounting import validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.streams import buffer_search
from hockeystick.mechanisms.streams.buffered_filters import BufferedToeplitz
from hockeystick.mechanisms.streams.factor_encoders import Toeplitz, Workload, check_discount


def identity(steps: int, *, workload: Workload = "prefix_sums") -> Toeplitz:
    """Returns C = 1: every contribution has its own noise, so the prefix sum t has √t times that deviation."""
    return Toeplitz(steps, (1.0,), workload=workload)


def square_root(
    steps: int, *, band: int | None = None, workload: Workload = "prefix_sums", discount: float = 1.0
) -> Toeplitz:
    """Returns the square root of the prefix sums, C = B with c_k = binom(2k, k)/4^k, or its first ``band`` diagonals.

    With a ``discount`` γ < 1 it is that of the discounted sums, c_k = γ^k·binom(2k, k)/4^k, and its sensitivity and
    error are bounded for every number of steps: the largest error is Σ c_k², at most 2·K(γ²)/π up to the rounding of
    coefficients (K is the complete elliptic integral of that parameter). Coefficients below 2^-17 are 0, so that a
    running release stores as many steps for every T.

    Because c_k ≤ 1/√(πk), the largest error of the full root is Σ c_k² ≤ 1 + (1 + ln(T − 1))/π for T ≥ 2
    (Fichtenberger, Henzinger & Upadhyay 2023). A band costs little accuracy and needs a memory of ``band`` steps
    (Kalinin & Lampert 2024).

    Raises:
      InvalidArgumentError: ``steps`` is not an integer ≥ 1, ``band`` is not one in 1 … steps, or ``discount`` is not in
        (0, 1].

    Example:
      >>> from hockeystick.mechanisms import factorisations
      >>> for one in (factorisations.identity(1024), factorisations.square_root(1024)):
      ...     print(round(one.max_error(), 2), round(one.root_mean_square_error(), 2))
      32.0 22.64
      3.27 3.11
      >>> round(factorisations.lower_bound(1024), 2)
      2.91
    """
    count = _band(steps, band)
    k, kept = np.arange(1, count), check_discount(discount)
    coefficients = np.cumprod(np.concatenate([[1.0], kept * (2 * k - 1) / (2 * k)]))
    return Toeplitz(steps, coefficients, workload=workload, discount=kept)


def optimised_band(steps: int, band: int) -> Toeplitz:
    """Returns a filter of ``band`` coefficients with the (locally) least root mean square error for prefix sums.

    It is at least as good as the band of the square root. With several participations at least ``band`` apart it is
    about as good as with one, because the sensitivities of all filters then grow alike.

    Raises:
      InvalidArgumentError: ``steps`` is not an integer ≥ 1, or ``band`` is not one in 1 … steps.
    """
    from scipy import optimize, signal

    start = square_root(steps, band=_band(steps, band))
    left = np.arange(start.steps, 0, -1.0)  # the number of answers that contain each entry of the noise filter
    impulse = np.zeros(start.steps)
    impulse[0] = 1.0

    def objective(tail: FloatArray) -> tuple[float, FloatArray]:
        c = np.concatenate([[1.0], tail])
        v = np.cumsum(signal.lfilter([1.0], c, impulse))
        total, square = float(left @ v**2), float(c @ c)
        twice = signal.lfilter([1.0], c, v)  # minus the derivative of v by c₀; that by c_j is delayed by j steps
        slope = np.array([(left[j:] * v[j:]) @ twice[: start.steps - j] for j in range(1, len(c))])
        return math.log(total) + math.log(square), -2 * slope / total + 2 * tail / square

    tail = np.array(start.coefficients[1:] + (0.0,) * (band - len(start.coefficients)))
    if not len(tail):
        return start
    with np.errstate(all="ignore"):
        found = optimize.minimize(objective, tail, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(tail))
    best = Toeplitz(steps, np.concatenate([[1.0], found.x]))
    return min(start, best, key=lambda f: f.root_mean_square_error())


def banded_inverse(steps: int, band: int) -> Toeplitz:
    """Returns the filter whose *inverse* is the first ``band`` diagonals of the inverse of the square root (BISR).

    With several participations it is close to the best factorisation (Kalinin et al. 2025). C is dense, so that it has
    no amplification by sampling, and a running release stores all steps.

    Raises:
      InvalidArgumentError: ``steps`` is not an integer ≥ 1, or ``band`` is not one in 1 … steps.

    Example:
      >>> from hockeystick.mechanisms import factorisations
      >>> bisr = factorisations.banded_inverse(1000, 50)
      >>> round(bisr.root_mean_square_error(participations=10, separation=100), 3)
      12.448
    """
    from scipy import signal

    count = _band(steps, band)
    k = np.arange(1, count)
    inverse = np.cumprod(np.concatenate([[1.0], (2 * k - 3) / (2 * k)]))
    impulse = np.zeros(steps)
    impulse[0] = 1.0
    return Toeplitz(steps, signal.lfilter([1.0], inverse, impulse))


def blt(
    steps: int,
    buffers: int | None = None,
    *,
    participations: int = 1,
    separation: int = 1,
    error: Literal["max", "mean"] = "max",
    discount: float = 1.0,
) -> BufferedToeplitz:
    """Returns a buffered filter (BLT) with (locally) the least error for prefix sums; the search is reproducible.

    Its error is close to that of the best filter, and its running release stores two arrays for each buffer. With a
    discount γ < 1 all its decays and weights are multiplied by γ, which turns c_k into γ^k·c_k, and the entries b_k of
    the decoder into γ^k·b_k, as A_ij = γ^(i−j). The search is for 4/(1 − γ) steps, if they are fewer.

    Args:
      steps: T.
      buffers: their number, 1 to 10; by default the least one from which another buffer gains less than 1 %.
      participations, separation: of one record, as for ``MatrixMechanism``.
      error: "max", the largest standard deviation of an answer, or "mean", the root mean square of all.
      discount: as for ``Toeplitz``.

    Raises:
      InvalidArgumentError: an argument outside its domain.

    Example:
      >>> from hockeystick.mechanisms import factorisations
      >>> few = factorisations.blt(1000, 2, participations=10, separation=100)
      >>> one, full = few.max_error(participations=10, separation=100), factorisations.square_root(1000)
      >>> round(one, 3), round(full.max_error(participations=10, separation=100), 3)
      (14.953, 16.541)
    """
    total = validate.integer("steps", steps, low=1, high=2**24)
    count = validate.integer("participations", participations, low=1)
    gap = validate.integer("separation", separation, low=1)
    validate.one_of("error", error, "max", "mean")
    count, kept = min(count, -(-total // gap)), check_discount(discount)
    seen = total if kept == 1.0 else max(count * gap, min(total, math.ceil(4.0 / (1.0 - kept))))

    def built(number: int) -> BufferedToeplitz:
        decays, weights = buffer_search.best(seen, number, count, gap, error == "mean")
        return BufferedToeplitz(total, kept * decays, kept * weights, discount=kept)

    if buffers is not None:
        return built(validate.integer("buffers", buffers, low=1, high=10))

    def loss(one: BufferedToeplitz) -> float:
        kind = one.max_error if error == "max" else one.root_mean_square_error
        return kind(participations=count, separation=gap)

    best = built(1)
    for number in range(2, 11):
        other = built(number)
        if loss(other) > 0.99 * loss(best):
            break
        best = other
    return best


def lower_bound(steps: int) -> float:
    """Returns a lower bound on the largest and on the root mean square error of any factorisation.

    It is for prefix sums and one participation: ‖A‖_* ≤ ‖B‖_F·‖C‖_F and ‖C‖_F ≤ √T·(longest column), so that the root
    mean
    square error is at least ‖A‖_*/T (Li & Miklau 2013; Matoušek, Nikolov & Talwar 2020 for the largest). The singular
    values of the prefix sums are 1/(2 sin((2k − 1)π/(4T + 2))), k = 1 … T.

    Raises:
      InvalidArgumentError: ``steps`` is not an integer ≥ 1.
    """
    t = validate.integer("steps", steps, low=1, high=2**24)
    values = 0.5 / np.sin((2 * np.arange(1, t + 1) - 1) * math.pi / (4 * t + 2))
    # Angles are off by 4 U, which a sine does not amplify, sines by 2 U, pairwise sums by at most 200 U: of 9000 U.
    return float(values.mean()) * (1 - 1e-12)


def _band(steps: int, band: int | None) -> int:
    total = validate.integer("steps", steps, low=1, high=2**24)
    return total if band is None else validate.integer("band", band, low=1, high=total)
