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
_ANGLES = 2**17  # at which a transform is bounded
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
    near, sizes = _direct(head, np.arange(first - peak, last - peak), size, k)
    # Angle, sines and products are off by 16 U at most, and each level of the sum by U in both parts.
    u, error = missing + near, (20 + 2 * math.log2(2 * reach)) * U * sizes
    if mass > 0.0:  # the transform, and a few ulps of the sum
        others = fft.rfft(folded(far, peak, size))[k]
        u += others
        error += (fft_round_off.transform(size) + 4 * U) * mass
    # The sum of the two, and what was rounded before it: some ulps.
    return _logarithm(u, error + 4 * U * (abs(missing) + np.abs(near)))


def sparse_log_transform(weights: Array, at: NDArray[np.int64], size: int, count: int) -> tuple[Complex, Array] | None:
    """The same at the first ``count`` frequencies, of weights at the places ``at`` relative to the one put at 0.

    With x and y the numbers e^{−iθ} − 1 of two frequencies, that of their sum is x + y + xy. So few of each are enough.
    """
    block = math.isqrt(max(1, count - 1)) + 1
    few, many = np.arange(block), block * np.arange(-(-count // block))
    (near_few, size_few), (near_many, size_many) = (_direct(weights, at, size, k) for k in (few, many))
    x, y = _turned(at, size, few), weights * _turned(at, size, many)
    near = (near_many[:, None] + near_few + y @ x.T).ravel()[:count]
    sizes, crossed = (size_many[:, None] + size_few).ravel()[:count], (np.abs(y) @ np.abs(x).T).ravel()[:count]
    missing = math.fsum([-1.0, *weights.tolist()])
    # As above. A sum of products in any order is off by U for each of them, and x and y by 10 U of the sizes.
    error = (60 + 2 * math.log2(2 * len(weights))) * U * sizes + (2 * len(weights) + 64) * U * crossed
    return _logarithm(missing + near, error + 4 * U * (abs(missing) + np.abs(near)))


def dimming(weights: Array, at: NDArray[np.int64], dense: int, angles: Array) -> Array:
    """Bounds from below on −ln|φ(θ)| of a law's transform φ, for all θ from each of ``angles`` to π, or 0.

    1 − |φ(2θ)|² ≤ 4·(1 − |φ(θ)|²), because |φ(θ)|² is the mean of cos(θD), D the difference of two losses, and
    1 − cos 2x ≤ 4·(1 − cos x). So what is known at large angles says enough at small ones. At large ones |φ| changes
    by no more than the mean distance from a centre times the angle, and places further than ``dense`` from 0 add their
    mass at most.
    """
    inside = np.abs(at) <= dense
    near, places = weights[inside], at[inside]
    far = float(weights[~inside].sum())
    seen = np.zeros(_ANGLES)
    np.add.at(seen, places % _ANGLES, near)
    size = np.abs(fft.rfft(seen))
    distance = float(near @ np.abs(places - float(near @ places) / max(float(near.sum()), 1e-300)))
    # Sums of masses near 1 and the transform are off by far less than a part in 10⁹, here and below.
    most = np.maximum(size[1:], size[:-1]) + (far + math.pi / _ANGLES * distance) * (1 + 1e-9) + 1e-9
    # Between an angle of the transform and the next, and from there on.
    known = 1.0 - np.minimum(np.maximum.accumulate(most[::-1])[::-1], 1.0) ** 2
    if known[len(known) // 2] < 0.25:  # angles above π/2 must not be worse than what is doubled into them
        return np.zeros(len(angles))
    found, shrunk, turned = np.zeros(len(angles)), 1.0, np.where(angles > 0.0, angles * (1 - 1e-12), math.inf)
    while (turned < math.pi).any():
        place = np.minimum(turned * (_ANGLES / (2 * math.pi)), len(known) - 1).astype(np.int64)
        found = np.maximum(found, np.where(turned < math.pi, known[place] * shrunk, 0.0))
        turned, shrunk = 2 * turned, shrunk / 4
    # Angles, logarithm and product: far less than a part in 10⁹.
    return np.asarray(-0.5 * np.log1p(-found * (1 - 1e-9)))


def _logarithm(u: Complex, error: Array) -> tuple[Complex, Array] | None:
    modulus = np.abs(1 + u)
    if not bool(np.all(error < 0.01 * modulus)):  # there the logarithm's error is not that of the first order
        return None
    with np.errstate(divide="ignore"):
        log_z = np.where(np.abs(u) < 0.5, _log1p(np.where(np.abs(u) < 0.5, u, 0.0)), np.log(1 + u))
    # |ln(1 + x)| ≤ 1.006·|x| at |x| ≤ 0.01; a complex logarithm is off by a few U of its argument and of itself.
    return log_z, 1.01 * error / modulus + 32 * U * (np.abs(u) + np.abs(log_z))


def _direct(head: Array, at: NDArray[np.int64], size: int, k: NDArray[np.int64]) -> tuple[Complex, Array]:
    """Σ w·(e^{−iθ} − 1) at each frequency, w at the places ``at``; and a bound on Σ w·|e^{−iθ} − 1|."""
    count = 1 << (len(head) - 1).bit_length()
    w, places = np.zeros(count), np.zeros(count, dtype=np.int64)
    w[: len(head)], places[: len(head)] = head, at
    found = np.empty(len(k), dtype=complex)
    rows = max(1, _CHUNK // count)
    for i in range(0, len(k), rows):
        terms = w * _turned(places, size, k[i : i + rows])
        while terms.shape[1] > 1:
            middle = terms.shape[1] // 2
            terms = terms[:, :middle] + terms[:, middle:]
        found[i : i + rows] = terms[:, 0]
    # A hundredth is far more than the round-off of this sum and of what it bounds.
    moved = 1.01 * float(w @ np.abs(places)) * (2 * math.pi / size)
    return found, np.minimum(2.02 * float(w.sum()), k * moved)


def _turned(places: NDArray[np.int64], size: int, k: NDArray[np.int64]) -> Complex:
    """e^{−iθ} − 1 at each frequency and place."""
    turn = np.multiply.outer(k, places) % size
    turn -= np.where(2 * turn > size, size, 0)
    theta = turn * (2 * math.pi / size)
    return np.asarray(-2 * np.sin(theta / 2) ** 2 - 1j * np.sin(theta))


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
