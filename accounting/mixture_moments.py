"""Complex moments of the losses between mixtures of normals, which is what sampled Gaussian noise comes down to."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import frozen
from scipy import special

from .errors import NumericalError
from .moments import Law, Line, oscillating_sum
from .normal_mixtures import ORIGIN, NormalMixture
from .pairs import Array
from .rounding import U

_NEGLIGIBLE = 42.0  # e^-42 < 6e-19
_MOST = 2**18  # nodes, times the terms of the mixtures


@frozen
class NormalMixtureLaw(Law):
    """The law of a ``MixturePair``: what secret sampling makes of Gaussian noise.

    With r_P and r_Q the mixtures' densities over that of N(0, 1) the moment is ∫ φ(x)·r_P(x)^{1+z}·r_Q(x)^{−z} dx. The
    line of integration is moved up from the real axis by a, where r_P has an angle ≥ 0 and r_Q one ≤ 0, so that what t
    contributes only falls with t: one set of nodes does for all t ≥ 0. At height y the integrand is at most e^{y²/2}
    times that on the axis and, for r_Q^{−c}, cos(θ/2)^{−c} times more, θ being y times r_Q's largest centre. With that
    growth, between heights 0 and 2a, the trapezoidal rule with step d errs by a share of the moment at c of at most
    2·growth·e^{−2πa/d}/(1 − e^{−2πa/d}).
    """

    p: NormalMixture
    q: NormalMixture

    def top(self) -> float:
        if self.p.most > self.q.most:
            return math.inf
        return math.log(self.p.weights[-1]) - math.log(self.q.weights[-1])

    def _widest(self) -> float:
        return max(self.p.most, -self.q.least)

    def _range(self, c: float) -> tuple[float, float]:
        """Where the integrand at c has all but 1e-18 of its integral, which is at least 1."""
        up, down = self.p.most, -self.q.least
        left = -max(math.sqrt(2 * _NEGLIGIBLE), down / 2)  # r_P ≤ 1 left of 0, r_Q ≥ 1 left of −down/2
        if self.q.most < 0.0:  # by Jensen r_Q^{−c} is at most a mean of exponentials, each of which moves the normal
            return left, c * down + math.sqrt(2 * _NEGLIGIBLE + c * (c + 1) * down**2)
        # r_P^{1+c} likewise, and r_Q is at least its weight at 0.
        excess = (1 + c) * c * up**2 / 2 - c * math.log(self.q.weights[-1])
        if down == 0.0:  # the moment is at least what each term of the mixture gives alone
            terms = zip(self.p.centres, self.p.weights, strict=True)
            excess -= max(0.0, *((1 + c) * (c * centre**2 / 2 + math.log(w)) for centre, w in terms))
        return left, (1 + c) * up + math.sqrt(2 * (_NEGLIGIBLE + excess))

    def log_integrand(self, c: float, z: Array) -> tuple[Array, Array, Array]:
        """Returns the logarithm of the integrand at c, the losses, and what their rounding is in proportion to."""
        (p, p_scale), (q, q_scale) = _log_ratio(self.p, z), _log_ratio(self.q, z)
        base = -(z**2) / 2 - math.log(2 * math.pi) / 2
        return base + (1 + c) * p - c * q, p - q, (1 + c) * p_scale + c * q_scale + np.abs(z) ** 2

    def _grid(self, c: float) -> tuple[float, float, float, int]:
        """The ends, the height and the number of nodes."""
        low, high = self._range(c)
        most, down = min(1.5, 1.4 / self._widest()), -self.q.least

        def nodes(height: float, growth: float) -> int:
            return math.ceil((high - low) * (_NEGLIGIBLE + growth) / (2 * math.pi * height)) + 1

        height = min(most, 2 / (down * math.sqrt(c + 1.0))) if down else most
        count = nodes(height, 2 * height**2 - c * math.log(math.cos(height * down)))
        if count > 1000 and down:
            # cos(θ/2) is met where the integrand is negligible; take its growth from the integral at height 2a itself,
            # whose logarithm is a convex function of the height.
            x = np.linspace(low, high, math.ceil(20 * (high - low) * max(1.0, self._widest())))
            heights = most * 0.7 ** np.arange(8)
            sums = [float(special.logsumexp(self.log_integrand(c, x + 2j * a)[0].real)) for a in (0.0, *heights)]
            count, height = min(
                (nodes(a, max(0.0, s - sums[0])), float(a)) for a, s in zip(heights, sums[1:], strict=True)
            )
        if count * max(len(self.p.centres), len(self.q.centres)) > _MOST:
            raise NumericalError(f"the moment at {c:.3g} of a mixture of normals needs {count} nodes")
        return low, high, height, count

    def _quadrature(self, c: float) -> tuple[float, Array, Array, float]:
        low, high, height, count = self._grid(c)
        x, spacing = np.linspace(low, high, count, retstep=True)
        y, losses, scale = self.log_integrand(c, x + 1j * height)
        peak = float(y.real.max())
        w = np.exp(y - peak)
        total = float(w.real.sum())
        w /= total
        rounding = 4 * U * (float(np.abs(w) @ (16 + scale)) + abs(peak))
        return peak + math.log(total * float(spacing)), w, losses, rounding + 20 * math.exp(-_NEGLIGIBLE)

    def log_moment(self, c: float) -> tuple[float, float]:
        k, _, _, error = self._quadrature(c)
        return k, error

    def line(self, c: float, step: float, count: int) -> Line:
        _, w, losses, error = self._quadrature(c)
        phi, summed = oscillating_sum(w, losses, step, count)
        return Line(phi, summed + error)

    def log_envelope(self, c: float, t: float) -> float:
        # |φ| is at most the integral of the integrand's modulus at any height, and that falls with t.
        heights, slopes = _moduli(self, c)
        return min(0.0, float(np.log((heights * np.exp(-t * slopes)).sum(axis=1).min() + 1e-9)))

    def at_heights(self, c: float) -> tuple[Array, Array]:
        """Returns the modulus of the normalised integrand at heights, and how fast its logarithm falls with t."""
        low, high = self._range(c)
        count = min(2**15, math.ceil((high - low) * max(20.0, 5 * self._widest())) + 1)
        x, spacing = np.linspace(low, high, count, retstep=True)
        heights = np.geomspace(0.003, 2.9, 12)[:, None] * min(1.0, 1 / self._widest())
        y, losses, _ = self.log_integrand(c, x + 1j * heights)
        return spacing * np.exp(np.minimum(y.real - self.log_moment(c)[0], 600.0)), np.maximum(losses.imag, 0.0)


@lru_cache(maxsize=64)
def _moduli(law: NormalMixtureLaw, c: float) -> tuple[Array, Array]:
    return law.at_heights(c)


def _log_ratio(mixture: NormalMixture, z: Array) -> tuple[Array, Array]:
    """ln of a mixture's density over that of N(0, 1), and what its rounding is in proportion to."""
    if mixture == ORIGIN:
        return np.zeros(z.shape), np.zeros(z.shape)
    terms = list(zip(mixture.centres, mixture.weights, strict=True))
    shift = np.max([c * z.real - c * c / 2 for c in mixture.centres], axis=0)
    excess, sizes = np.zeros(z.shape, dtype=complex), np.zeros(z.shape)  # of 1, term by term
    total = np.zeros(z.shape, dtype=complex)
    for c, weight in terms:
        v = c * z - c * c / 2
        term = weight * _expm1(np.where(shift < 1.0, v, 0.0))
        excess += term
        sizes += np.abs(term)
        total += weight * np.exp(v - shift)
    near = (shift < 1.0) & (np.abs(excess) < 0.5)
    log_ratio = np.where(near, _log1p(np.where(near, excess, 0.0)), shift + np.log(total))
    return log_ratio, np.where(near, 2 * sizes, 8 + np.abs(shift)) + np.abs(log_ratio)


def _expm1(z: Array) -> Array:
    """e^z − 1 without cancellation near 0."""
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return np.asarray(real + 1j * (np.exp(z.real) * np.sin(z.imag)))


def _log1p(w: Array) -> Array:
    """ln(1 + w), |w| < 1/2, without cancellation near 0."""
    real = np.log1p(2 * w.real + w.real**2 + w.imag**2) / 2
    return np.asarray(real + 1j * np.arctan2(w.imag, 1 + w.real))
