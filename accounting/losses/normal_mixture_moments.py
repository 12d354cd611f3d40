"""Complex moments of the losses between mixtures of normals, which is what sampled Gaussian noise comes down to.

Compositions of many of them, as a schedule of noise scales makes, are one law: ``MixturesLaw`` holds the nodes of all
quadratures in one array, so that two hundred events cost hardly more calls than one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting.errors import NumericalError
from hockeystick.accounting.losses.dominating_pairs import Array
from hockeystick.accounting.losses.loss_moments import Law, Line, oscillating_sum, product
from hockeystick.accounting.losses.normal_mixtures import ORIGIN, NormalMixture
from hockeystick.accounting.numerics.directed_rounding import U

_NEGLIGIBLE = 42.0  # e^-42 < 6e-19
_MOST = 2**18  # nodes, times the terms of the mixtures
_HEIGHTS = 8
_ROUGH = 0.4  # between the nodes of a sum that only leads a search


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

    def widest(self) -> float:
        return max(self.p.most, -self.q.least)

    def range_of(self, c: float) -> tuple[float, float]:
        """Returns where the integrand at c has all but 1e-18 of its integral, which is at least 1."""
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
        return _log_integrand((self,), c, z, np.zeros(1, dtype=int))

    def plan(self, c: float) -> Plan:
        """Returns where the nodes of the quadrature at c are."""
        return _planned(self, c)

    def rough_grid(self, c: float) -> tuple[float, float, int]:
        """Returns the ends and the number of nodes on the real axis for a few digits."""
        low, high = self.range_of(c)
        narrow = 1 + c * self.q.least**2 / 4  # r_Q^{−c} may be that much narrower than the normal density
        count = math.ceil((high - low) * math.sqrt(narrow) / _ROUGH) + 2
        if count * max(len(self.p.centres), len(self.q.centres)) > _MOST:
            raise NumericalError(f"the moment at {c:.3g} of a mixture of normals needs {count} nodes")
        return low, high, count

    def log_moment(self, c: float) -> tuple[float, float]:
        return self._alone().log_moment(c)

    def line(self, c: float, step: float, count: int) -> Line:
        return self._alone().line(c, step, count)

    def log_envelope(self, c: float, t: float) -> float:
        return self._alone().log_envelope(c, t)

    def cumulants(self, c: float) -> tuple[float, float, float]:
        return self._alone().cumulants(c)

    def terms(self, c: float) -> tuple[int, int]:
        return self._alone().terms(c)

    def _alone(self) -> MixturesLaw:
        return MixturesLaw((self,), (1,))


@frozen
class Plan:
    """The ends, the height and the number of nodes of a quadrature; and at how many points that was found out."""

    low: float
    high: float
    height: float
    count: int
    scanned: int


@lru_cache(maxsize=1024)
def _planned(law: NormalMixtureLaw, c: float) -> Plan:
    low, high = law.range_of(c)
    widest, terms = law.widest(), max(len(law.p.centres), len(law.q.centres))
    most, down = min(1.5, 1.4 / widest), -law.q.least

    def nodes(height: float, growth: float) -> int:
        return math.ceil(min((high - low) * (_NEGLIGIBLE + growth) / (2 * math.pi * height), 1e18)) + 1

    height = min(most, 2 / (down * math.sqrt(c + 1.0))) if down else most
    count, scanned = nodes(height, 2 * height**2 - c * math.log(math.cos(height * down))), 0
    if count > 1000 and down:
        # cos(θ/2) is met where the integrand is negligible; take its growth from the integral at height 2a itself,
        # whose logarithm is a convex function of the height.
        points = math.ceil(min(20 * (high - low) * max(1.0, widest), 1e18))
        if points * terms > _MOST:
            raise NumericalError(f"the moment at {c:.3g} of a mixture of normals needs {points} points")
        x = np.linspace(low, high, points)
        heights = most * 0.7 ** np.arange(_HEIGHTS)
        sums = [float(special.logsumexp(law.log_integrand(c, x + 2j * a)[0].real)) for a in (0.0, *heights)]
        count, height = min((nodes(a, max(0.0, s - sums[0])), float(a)) for a, s in zip(heights, sums[1:], strict=True))
        scanned = points * (_HEIGHTS + 1)
    if count * terms > _MOST:
        raise NumericalError(f"the moment at {c:.3g} of a mixture of normals needs {count} nodes")
    return Plan(low, high, height, count, scanned)


@frozen
class MixturesLaw(Law):
    """The sum of independent losses, ``counts[i]`` of the law ``laws[i]``, whose mixtures have equally many terms."""

    laws: tuple[NormalMixtureLaw, ...]
    counts: tuple[int, ...]

    def top(self) -> float:
        return math.fsum(count * law.top() for law, count in zip(self.laws, self.counts, strict=True))

    def terms(self, c: float) -> tuple[int, int]:
        plans = [law.plan(c) for law in self.laws]
        return sum(plan.count + plan.scanned for plan in plans), sum(plan.count for plan in plans)

    def _quadrature(self, c: float) -> _Quadrature:
        plans = [law.plan(c) for law in self.laws]
        x, spacing, starts, index = _nodes([(plan.low, plan.high, plan.count) for plan in plans])
        height = np.array([plan.height for plan in plans])
        y, losses, scale = _log_integrand(self.laws, c, x + 1j * height[index], index)
        peak = np.maximum.reduceat(y.real, starts)
        w = np.exp(y - peak[index])
        total = np.add.reduceat(w.real, starts)
        w /= total[index]
        # Each integrand is off by 4 U of what its exponent is made of, and of 16; the peak counts as itself.
        rounding = 4 * U * (np.add.reduceat(np.abs(w) * (16 + scale), starts) + np.abs(peak))
        return _Quadrature(
            peak + np.log(total * spacing), rounding + 20 * math.exp(-_NEGLIGIBLE), w, losses, [*starts, len(x)]
        )

    def log_moment(self, c: float) -> tuple[float, float]:
        found, n = self._quadrature(c), np.array(self.counts, dtype=float)
        # A product and the sum, off by U each.
        sums = 2 * U * np.abs(found.k) if len(n) > 1 or n[0] > 1 else 0.0
        return math.fsum(n * found.k), math.fsum(n * (found.error + sums))

    def line(self, c: float, step: float, count: int) -> Line:
        found = self._quadrature(c)
        if self.counts == (1,):
            return found.line(0, step, count)
        return product(((found.line(i, step, count), times) for i, times in enumerate(self.counts)), count)

    def log_envelope(self, c: float, t: float) -> float:
        # |φ| is at most the integral of the integrand's modulus at any height, and that falls with t.
        heights, slopes, starts = _moduli(self, c)
        moduli = np.add.reduceat(heights * np.exp(-t * slopes), starts, axis=1).min(axis=0)
        return math.fsum(np.array(self.counts) * np.minimum(0.0, np.log(moduli + 1e-9)))

    def at_heights(self, c: float) -> tuple[Array, Array, Array]:
        """Returns the modulus of the normalised integrands at heights, how fast its logarithm falls with t, and starts.

        The arrays have a row for each height, and in it the nodes of one law after the other, from its start.
        """
        widest = np.array([law.widest() for law in self.laws])
        ranges = [law.range_of(c) for law in self.laws]
        counts = [
            min(2**15, math.ceil((high - low) * max(20.0, 5 * wide)) + 1)
            for (low, high), wide in zip(ranges, widest, strict=True)
        ]
        x, spacing, starts, index = _nodes([(*ends, count) for ends, count in zip(ranges, counts, strict=True)])
        heights = np.geomspace(0.003, 2.9, 12)[:, None] * np.minimum(1.0, 1 / widest)[index]
        (p, p_angle), (q, q_angle) = (
            _modulus(_columns([getattr(law, side) for law in self.laws], index), x, heights) for side in ("p", "q")
        )
        log_modulus = (heights**2 - x**2 - math.log(2 * math.pi)) / 2 + (1 + c) * p - c * q
        k = self._quadrature(c).k[index]
        return spacing[index] * np.exp(np.minimum(log_modulus - k, 600.0)), np.maximum(p_angle - q_angle, 0.0), starts

    def cumulants(self, c: float) -> tuple[float, float, float]:
        x, spacing, starts, index = _nodes([law.rough_grid(c) for law in self.laws])
        p, q = (_columns([getattr(law, side) for law in self.laws], index) for side in ("p", "q"))
        log_p, log_q = _modulus(p, x, 0.0)[0], _modulus(q, x, 0.0)[0]
        y, losses = -(x**2) / 2 + (1 + c) * log_p - c * log_q, log_p - log_q
        peak, n = np.maximum.reduceat(y, starts), np.array(self.counts, dtype=float)
        w = np.exp(y - peak[index])
        total = np.add.reduceat(w, starts)
        mean = np.add.reduceat(w * losses, starts) / total
        variance = np.add.reduceat(w * (losses - mean[index]) ** 2, starts) / total
        k = peak + np.log(total * spacing / math.sqrt(2 * math.pi))
        return float(n @ k), float(n @ mean), float(n @ variance)


@frozen(eq=False)
class _Quadrature:
    """Of each law ln of the moment with its error, and the weights and losses at its nodes, from ``ends[i]`` on."""

    k: Array
    error: Array
    w: Array
    losses: Array
    ends: list[int]

    def line(self, i: int, step: float, count: int) -> Line:
        mine = slice(self.ends[i], self.ends[i + 1])
        phi, summed = oscillating_sum(self.w[mine], self.losses[mine], step, count)
        return Line(phi, summed + float(self.error[i]))


def _nodes(grids: Sequence[tuple[float, float, int]]) -> tuple[Array, Array, Array, Array]:
    """The nodes of all grids (low, high, count), the spacing and the start of each, and which one a node is of."""
    counts = np.array([count for _, _, count in grids])
    low, spacing = np.array([low for low, _, _ in grids]), np.array([(h - low) / (n - 1) for low, h, n in grids])
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    index = np.repeat(np.arange(len(counts)), counts)
    return low[index] + spacing[index] * (np.arange(len(index)) - starts[index]), spacing, starts, index


@lru_cache(maxsize=16)
def _moduli(law: MixturesLaw, c: float) -> tuple[Array, Array, Array]:
    return law.at_heights(c)


Columns = Sequence[tuple[Array, Array]]


def _columns(mixtures: Sequence[NormalMixture], index: Array) -> Columns:
    """Centres and weights of the first terms at all nodes, of the second ones, ...; () for N(0, 1) alone."""
    if all(mixture == ORIGIN for mixture in mixtures):
        return ()
    table = np.array([(mixture.centres, mixture.weights) for mixture in mixtures])
    where = index if len(mixtures) > 1 else np.zeros(1, dtype=int)  # of one mixture: a scalar for all nodes
    return [(table[where, 0, j], table[where, 1, j]) for j in range(table.shape[2])]


def _log_integrand(laws: Sequence[NormalMixtureLaw], c: float, z: Array, index: Array) -> tuple[Array, Array, Array]:
    (p, p_scale), (q, q_scale) = (
        _log_ratio(_columns([getattr(law, side) for law in laws], index), z) for side in ("p", "q")
    )
    base = -(z**2) / 2 - math.log(2 * math.pi) / 2
    return base + (1 + c) * p - c * q, p - q, (1 + c) * p_scale + c * q_scale + np.abs(z) ** 2


def _modulus(columns: Columns, x: Array, height: Array | float) -> tuple[Array, Array]:
    """ln of the modulus, and the angle, of mixtures' densities over that of N(0, 1) at x + i·height."""
    if not columns:
        return np.zeros(np.shape(x * height)), np.zeros(np.shape(x * height))
    logs = [c * x - c * c / 2 for c, _ in columns]
    shift = np.max(logs, axis=0)
    sizes = [w * np.exp(log - shift) for (_, w), log in zip(columns, logs, strict=True)]
    real = sum(size * np.cos(c * height) for (c, _), size in zip(columns, sizes, strict=True))
    imaginary = sum(size * np.sin(c * height) for (c, _), size in zip(columns, sizes, strict=True))
    return shift + np.log(np.hypot(real, imaginary)), np.arctan2(imaginary, real)


def _log_ratio(columns: Columns, z: Array) -> tuple[Array, Array]:
    """ln of mixtures' densities over that of N(0, 1), and what its rounding is in proportion to."""
    if not columns:
        return np.zeros(z.shape), np.zeros(z.shape)
    shift = np.max([c * z.real - c * c / 2 for c, _ in columns], axis=0)
    excess, sizes = np.zeros(z.shape, dtype=complex), np.zeros(z.shape)  # of 1, term by term
    total = np.zeros(z.shape, dtype=complex)
    for c, weight in columns:
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
