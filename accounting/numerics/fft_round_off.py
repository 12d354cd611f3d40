"""Bounds on the round-off of fast Fourier transforms of power-of-two lengths: Higham 2002, Theorem 24.2.

With u the unit round-off, γ_k = ku/(1 − ku), and roots of unity known up to an absolute error μ, the radix-2
Cooley–Tukey transform ŷ of an exact x of length N = 2^t obeys (Higham, *Accuracy and Stability of Numerical
Algorithms*, 2nd ed., Thm 24.2)

    ‖ŷ − y‖₂ ≤ tη/(1 − tη)·‖y‖₂,   η = μ + γ₄(√2 + μ),

where η bounds the relative error of one of the t stages: a multiplication by roots of unity, and one level of sums.

SciPy's transform (pocketfft) of a real array of length 2^t runs through passes of radix 4 and at most one of radix 2. A
pass of radix 4 does in one go what two stages do, with one multiplication by roots of unity instead of two, and a
multiplication by ±i, which is exact: its error is at most that of two stages, 2η, and the bound holds with the same t.
On real data it computes one of each pair of conjugate values, by the same operations. The inverse is the same transform
with conjugate roots, up to an exact division by N.

The same holds value by value, for the 1-norm: max|ŷ_k − y_k| ≤ tη/(1 − tη)·‖x‖₁. Each stage errs by at most η times the
sum of the sizes of what it adds, roots of unity change no sizes, and one path leads from each x_j to each ŷ_k.

The roots' error is a property of the library. Impulses show the roots themselves, and the test suite compares them to
exact ones: at most 2.9u at all lengths up to 2²⁰, with SciPy 1.12 to 1.18. ``TWIDDLE`` leaves room for another build.
"""

from __future__ import annotations

import math

from hockeystick.accounting.numerics.directed_rounding import U

# What a root of unity may be off by, as told above.
TWIDDLE = 4 * U

# γ_4 = 4u/(1 − 4u): four roundings (Higham 2002, Lemma 3.1).
_GAMMA_4 = 4 * U / (1 - 4 * U)
STAGE = TWIDDLE + _GAMMA_4 * (math.sqrt(2) + TWIDDLE)
"""η: the relative error of one stage."""

COMPLEX_PRODUCT = 2.25 * U
"""Relative error of a product of two complex floats: at most √5·u (Brent, Percival & Zimmermann 2007)."""


def transform(size: int) -> float:
    """Returns a bound on ‖ŷ − y‖₂/‖y‖₂ of ``scipy.fft.rfft`` or ``irfft`` at length ``size``, a power of two.

    It also bounds max|ŷ_k − y_k|/‖x‖₁ of ``rfft``.
    """
    stages = size.bit_length() - 1
    if size != 1 << stages:
        raise ValueError(f"the bound is for powers of two, not {size}")
    return stages * STAGE / (1 - stages * STAGE)
