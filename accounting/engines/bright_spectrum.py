"""The logarithm of a law's transform at few frequencies, so well that a millionth power of it is known.

The transform of a law near 0 is 1 + u with u small at the frequencies where a high power of it is not negligible. A
fast transform is known to some parts in 1e14 of 1, and the n-th power to n times that. Here u itself is known as well
as that: cells near the largest one are summed directly, by the terms w·(e^{−iθ} − 1), and those further away, whose
mass is small, by a fast transform.

Errors: θ is known to 2U of itself, after a reduction in integers, hence e^{−iθ} − 1 to 10U of min(2, |θ|). Sums are
made by halves, at an ulp for each halving. ln(1 + u) adds some ulps of u and of itself.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from hockeystick.accounting.events.basic.event import Array
from hockeystick.accounting.losses.normal_mixture_moments import _log1p
from hockeystick.accounting.numerics import fft_round_off
from hockeystick.accounting.numerics.directed_rounding import U

_PRODUCTS = 2**22  # of a frequency and a cell
_FEWEST = 8  # cells
_CHUNK = 2**16
_WORTH = 0.1  # of the mass: if more is far from the largest cell, little is gained

Complex = NDArray[np.complex128]


def log_transform(weights: Array, peak: int, size: int, k: NDArray[np.int64]) -> tuple[Complex, Array] | None:
    """Returns ln of the transform at the frequencies ``k``, index ``peak`` put at 0, and a bound on its error.

    None where there are too many frequencies for the direct sums, too much mass is far from ``peak``, or a transform is
    so near 0 that its logarithm is not known.
    """
    reach = 1 << max(0, (_PRODUCTS // max(1, len(k))).bit_length() - 2)
    if 2 * reach < _FEWEST:
        return None
    first, last = max(0, peak - reach), min(len(weights), peak + reach)
    head, far = weights[first:last], weights.copy()
    far[first:last] = 0.0
    # NumPy adds in pairs: off by 200 U at most, of 9e6 U here.
    mass = float(far.sum()) * (1 + 1e-9)
    if not mass < _WORTH:
        return None
    missing = math.fsum([-1.0, *head.tolist()])
    near, sizes = _direct(head, first - peak, size, k)
    # Angle, sines and products are off by 16 U at most, and each level of the sum by U in both parts.
    u, error = missing + near, (20 + 2 * math.log2(2 * reach)) * U * sizes
    if mass > 0.0:
        others = fft.rfft(folded(far, peak, size))[k]
        u += others
        error += (fft_round_off.transform(size) + 4 * U) * mass
    error += 4 * U * (abs(missing) + np.abs(near))
    modulus = np.abs(1 + u)
    if not bool(np.all(error < 0.01 * modulus)):  # there the logarithm's error is not that of the first order
        return None
    with np.errstate(divide="ignore"):
        log_z = np.where(np.abs(u) < 0.5, _log1p(np.where(np.abs(u) < 0.5, u, 0.0)), np.log(1 + u))
    # |ln(1 + x)| ≤ 1.006·|x| at |x| ≤ 0.01; a complex logarithm is off by a few U of its argument and of itself.
    return log_z, 1.01 * error / modulus + 32 * U * (np.abs(u) + np.abs(log_z))


def _direct(head: Array, start: int, size: int, k: NDArray[np.int64]) -> tuple[Complex, Array]:
    """Σ w·(e^{−iθ} − 1) at each frequency, w at the places from ``start`` on; and a bound on Σ w·|e^{−iθ} − 1|."""
    count = 1 << (len(head) - 1).bit_length()
    w = np.zeros(count)
    w[: len(head)] = head
    places = start + np.arange(count)
    found = np.empty(len(k), dtype=complex)
    rows = max(1, _CHUNK // count)
    for i in range(0, len(k), rows):
        turn = np.multiply.outer(k[i : i + rows], places) % size
        turn -= np.where(2 * turn > size, size, 0)
        theta = turn * (2 * math.pi / size)
        terms = w * (-2 * np.sin(theta / 2) ** 2 - 1j * np.sin(theta))
        while terms.shape[1] > 1:
            middle = terms.shape[1] // 2
            terms = terms[:, :middle] + terms[:, middle:]
        found[i : i + rows] = terms[:, 0]
    # A hundredth is far more than the round-off of this sum and of what it bounds.
    moved = 1.01 * float(w @ np.abs(places)) * (2 * math.pi / size)
    return found, np.minimum(2.02 * float(w.sum()), k * moved)


def folded(weights: Array, peak: int, size: int) -> Array:
    """Returns the weights, ``peak`` at index 0, wrapped round ``size``."""
    found = np.zeros(size)
    for piece, start in ((weights[peak:], 0), (weights[:peak], -peak)):
        at = start % size
        while len(piece):
            room = min(len(piece), size - at)
            found[at : at + room] += piece[:room]
            piece, at = piece[room:], 0
    return found
