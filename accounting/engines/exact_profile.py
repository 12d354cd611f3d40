"""The exact profile of a single event: normal tails, sums over atoms, or that of the access in a secret sample.

* A ``MixturePair`` is decided by a threshold z on the line. With Mills' ratio m(x) = Φ(−x)/φ(x) and r_c = e^{cz − c²/2}
  the density of N(c, 1) over that of N(0, 1) at z, its profile at the loss of z is

      δ = φ(z)·R_P·(Σ_c p_c·r_c·(m(z−c) − m(z))/R_P + Σ_d q_d·r_d·(m(z) − m(z−d))/R_Q),   R = Σ weight·r,

  and no term is negative: nothing cancels, whatever the weights.
* A secret sample of rate q of an access with the profile δ(t) has (Balle, Barthe & Gaboardi 2018, Thm 2; Zhu, Dong &
  Wang 2022, Thm 11)

      removal, replacement:  q·δ(t)                    at  ε = ln(1 − q + q·e^t)
      addition:              q·δ(t)/(q + (1 − q)·e^t)  at  ε = −ln(1 − q + q·e^{−t})

Both are functions of a parameter on which δ and ε depend monotonically, so that a rounded parameter gives a sound pair.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable

import numpy as np
from scipy import special

from hockeystick.accounting.engines import listed_losses
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair, ExponentialLossPair, GaussianPair
from hockeystick.accounting.losses.loss_of_mixture import mixed, unmixed
from hockeystick.accounting.losses.normal_mixtures import MixturePair, NormalMixture
from hockeystick.accounting.losses.sampled_pair import Addition, Removal, Replacement
from hockeystick.accounting.numerics import directed_rounding
from hockeystick.accounting.numerics.directed_rounding import U

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_STEPS = 1200
_MASS_OFF = 2.0**-42  # of a sum of masses, in proportion


class Curve(abc.ABC):
    """A profile in closed form."""

    @abc.abstractmethod
    def epsilon(self, delta: float, upper: bool) -> float:
        """Returns the least ε ≥ 0 with δ(ε) ≤ ``delta`` > 0, rounded up or down."""

    @abc.abstractmethod
    def delta(self, epsilon: float, upper: bool) -> float:
        """Returns δ at a finite ``epsilon`` ≥ 0, rounded up or down."""


class Normals(Curve):
    """The profile of a ``MixturePair`` along its thresholds."""

    def __init__(self, pair: MixturePair) -> None:
        self.pair = pair

    def loss(self, z: float, upper: bool) -> float:
        """The loss at z, rounded up or down."""
        p, p_off = _log_ratio(self.pair.p, z)
        q, q_off = _log_ratio(self.pair.q, z)
        off = p_off + q_off + 4 * U * abs(p - q)  # the difference, and the sum with what it is off: U each
        return p - q + (off if upper else -off)

    def log_delta(self, z: float, upper: bool) -> float:
        """ln δ at the loss of z, rounded up or down."""
        p, q = self.pair.p, self.pair.q
        (log_p, p_off), (log_q, q_off) = _log_ratio(p, z), _log_ratio(q, z)
        terms: list[tuple[float, float]] = []  # logarithm, relative error
        for c, w in zip(p.centres, p.weights, strict=True):
            if c > 0.0:
                terms.append(_gain(math.log(w), z, c, 0.0))
        for c, w in zip(q.centres, q.weights, strict=True):
            if c < 0.0:
                terms.append(_gain(math.log(w) + log_p - log_q, z, c, 1.0))
        peak = max(log for log, _ in terms)
        total = math.fsum(math.exp(log - peak) for log, _ in terms)
        # Besides a term's own: 2 U of ln w, U for each sum of logarithms, all at most the peak; 2 U of exponentials.
        off = p_off + q_off + max(off for _, off in terms) + U * (32 + 8 * (abs(log_p) + abs(log_q) + abs(peak)))
        return peak + math.log(total) + (off if upper else -off)

    def epsilon(self, delta: float, upper: bool) -> float:
        target = math.log(delta)
        target += (-4 * U if upper else 4 * U) * (1 + abs(target))  # the logarithm: 2 U of itself, the sum: U
        low = max(self._below(0.0) if upper else self.pair.place(0.0), -60.0)
        if self.log_delta(low, upper) <= target:
            return 0.0
        width = 1.0
        while self.log_delta(low + width, upper) > target:
            width *= 2.0
            if width > 1e6:
                return math.inf if upper else 0.0
        z = _bisected(lambda x: self.log_delta(x, upper) > target, low, low + width, upper)
        return max(0.0, self.loss(z, upper))

    def _below(self, loss: float) -> float:
        """A place whose loss is at most this one, and near it; −inf where rounding leaves none."""
        z, step = self.pair.place(loss), 1e-15
        while self.loss(z, True) > loss and step < 1e6:
            z, step = z - step * (1 + abs(z)), 2 * step
        return z if step < 1e6 else -math.inf

    def _above(self, loss: float) -> float:
        """A place whose loss is at least this one, and near it; inf where rounding leaves none."""
        z, step = self.pair.place(loss), 1e-15
        while self.loss(z, False) < loss and step < 1e6:
            z, step = z + step * (1 + abs(z)), 2 * step
        return z if step < 1e6 else math.inf

    def delta(self, epsilon: float, upper: bool) -> float:
        z = self.pair.place(epsilon)
        if z > self.pair.p.most * (1 + 1e-9) + 40.0:  # the mass beyond is no float
            return 5e-324 if upper else 0.0
        # From above at a loss that is not above ε, and the other way round.
        z = self._below(epsilon) if upper else self._above(epsilon)
        if not math.isfinite(z):
            return 1.0 if upper else 0.0
        return directed_rounding.exp(min(0.0, self.log_delta(z, upper)), upper=upper)


def _log_ratio(mixture: NormalMixture, z: float) -> tuple[float, float]:
    """ln of a mixture's density over N(0, 1)'s, good relative to itself where it is small, and a bound on its error."""
    exponents = [c * z - c * c / 2 for c in mixture.centres]
    # Two products and their difference are off by U each: an exponent by 2 U of these, though it may be near 0 itself.
    widths = [abs(c * z) + c * c / 2 for c in mixture.centres]
    peak = max(exponents)
    if peak > 30.0:
        total = math.fsum(w * math.exp(y - peak) for y, w in zip(exponents, mixture.weights, strict=True))
        found = peak + math.log(total)
        # Exponents: 2 U of their widths; differences from the peak, exponentials, the sum and logarithm: 8 U of 1.
        return found, U * (16 + 8 * max(widths) + 4 * abs(found))
    parts = [w * math.expm1(y) for y, w in zip(exponents, mixture.weights, strict=True)]
    sizes = math.fsum(w * math.exp(y) * m for y, m, w in zip(exponents, widths, mixture.weights, strict=True))
    excess = math.fsum(parts)
    if excess <= -0.9:
        total = math.fsum(w * math.exp(y) for y, w in zip(exponents, mixture.weights, strict=True))
        # Positive terms: 2 U of the widths, 2 U of an exponential, a product, a sum; 2 U of the logarithm.
        return math.log(total), U * (16 + 8 * max(widths))
    # expm1, its product and the sum: 4 U of each part; the exponents' errors; log1p's, at most 2 U of the sum.
    off = U * (8 * math.fsum(abs(x) for x in parts) + 8 * sizes) / (1 + excess)
    return math.log1p(excess), off


def _gain(log_weight: float, z: float, c: float, side: float) -> tuple[float, float]:
    """ln of w·φ(z)·r_c·|m(z−c) − m(z)|, and a bound on its relative error."""
    near, far = (z - c, z) if c > 0.0 else (z, z - c)  # the tail ratio at the first is the larger one
    if near < -25.0:  # Mills' ratio would overflow, and the difference is that of masses
        moved = math.exp(min(0.0, c * z - c * c / 2 + float(special.log_ndtr(-z))))
        value = float(special.ndtr(c - z)) - moved if c > 0.0 else moved - float(special.ndtr(c - z))
        off = 64 * U * (1 + abs(c * z)) / value if value > 0.0 else math.inf
        return log_weight + (math.log(value) if value > 0.0 else -800.0), off
    m_near, m_far = (_SQRT_HALF_PI * float(special.erfcx(x / math.sqrt(2))) for x in (near, far))
    difference = m_near - m_far
    # erfcx is good to some ulp; its argument's 3 U count x² times at x < 0, for which (z − c)² and z·c below have room.
    off = 16 * U * (m_near + m_far) * (1 + abs(z) + abs(c)) / difference if difference > 0.0 else math.inf
    # The square is off by 3 U of itself, halved; sums by U of what they add.
    exponent = -((z - c) ** 2) / 2 - 0.5 * math.log(2 * math.pi)
    log = math.log(difference) if difference > 0.0 else -800.0
    return log_weight + exponent + log, off + U * (8 + 4 * (z - c) ** 2 + 8 * abs(z * c))


def _bisected(above: Callable[[float], bool], low: float, high: float, upper: bool) -> float:
    """The float at which ``above`` turns from true to false: the upper neighbour from above, otherwise the lower."""
    for _ in range(_STEPS):
        middle = math.sqrt(low * high) if low > 0.0 and high > 4 * low else low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if above(middle) else (low, middle)
    return high if upper else low


class Sums(Curve):
    """A profile that ends at a largest loss, given by a function that never rises."""

    def __init__(self, top: float) -> None:
        self.top = max(0.0, top)

    def epsilon(self, delta: float, upper: bool) -> float:
        if self.delta(0.0, upper) <= delta:
            return 0.0
        if self.delta(self.top, upper) > delta:
            return math.inf if upper else self.top
        return _bisected(lambda x: self.delta(x, upper) > delta, min(1e-300, self.top / 2), self.top, upper)


class AtomSums(Curve):
    """The profile of finitely many losses."""

    def __init__(self, pair: Atoms) -> None:
        self.pair = pair

    def epsilon(self, delta: float, upper: bool) -> float:
        return listed_losses.epsilon(self.pair, delta, upper=upper)

    def delta(self, epsilon: float, upper: bool) -> float:
        return listed_losses.delta(self.pair, epsilon, upper=upper)


class ExponentialSums(Sums):
    """The profile of an ``ExponentialLossPair``."""

    def __init__(self, pair: ExponentialLossPair) -> None:
        self.pair = pair
        super().__init__(pair.reach * (1 + 64 * U))  # any number no smaller than the reach

    def delta(self, epsilon: float, upper: bool) -> float:
        # The difference is off by U of itself, at most U of the reach, and so is the sum.
        half = max(0.0, (self.pair.reach - epsilon) / 2 + (2 * U if upper else -2 * U) * self.pair.reach)
        less = -math.expm1(-half)
        value = 2 * self.pair.density * less * less - self.pair.atom * math.expm1(-2 * half)
        return min(1.0, max(0.0, value * (1 + _MASS_OFF if upper else 1 - _MASS_OFF)))


class GaussianCurve(Curve):
    """The profile of Gaussian noise."""

    def __init__(self, pair: GaussianPair) -> None:
        self.mu = pair.mu

    def epsilon(self, delta: float, upper: bool) -> float:
        return gaussian_profile.epsilon(self.mu, delta, upper=upper)

    def delta(self, epsilon: float, upper: bool) -> float:
        return directed_rounding.exp(gaussian_profile.log_delta(self.mu, epsilon, upper=upper), upper=upper)


class Sampled(Curve):
    """The profile of a secret sample of an access with a known one."""

    def __init__(self, inner: Curve, q: float, way: str) -> None:
        self.inner, self.q, self.way = inner, q, way

    def epsilon(self, delta: float, upper: bool) -> float:
        off = 16 * U if upper else -16 * U  # a quotient, a product and the factor: 3 U
        if delta >= self.q * (1 + off):
            return 0.0
        t = self.inner.epsilon(delta / self.q * (1 - off), upper)
        if self.way == "addition" and 0.0 < t < math.inf:
            # δ falls faster than the access's: t, from δ/q, is too large.
            t = _bisected(lambda x: self._at(x, upper) > delta, min(1e-300, t / 2), t, upper)
        return amplified(t, self.q, self.way, upper)

    def _at(self, t: float, upper: bool) -> float:
        # share is six operations and an exponential, off by 8 U at most; two products here.
        return share(t, self.q, self.way) * self.inner.delta(t, upper) * (1 + 64 * U if upper else 1 - 64 * U)

    def delta(self, epsilon: float, upper: bool) -> float:
        t = unamplified(epsilon, self.q, self.way, upper)
        return min(1.0, self._at(t, upper)) if math.isfinite(t) else 0.0


def amplified(t: float, q: float, way: str, upper: bool) -> float:
    """Returns the ε behind a sample that belongs to the access's t, rounded up or down."""
    if math.isinf(t):
        # log1p is off by 2 U, the product by U.
        return -math.log1p(-q) * (1 + 4 * U if upper else 1 - 4 * U) if way == "addition" else t
    value = float(mixed(np.array(t), q)) if way != "addition" else -float(mixed(np.array(-t), q))
    # mixed is good to 12 U, as mixed_up has it, and the product to U.
    return max(0.0, value * (1 + 24 * U if upper else 1 - 24 * U))


def unamplified(epsilon: float, q: float, way: str, upper: bool) -> float:
    """Returns the access's t that belongs to ε behind the sample, at most it from above and at least it from below."""
    sign = 1.0 if way != "addition" else -1.0
    # The product is off by U; unmixed, by as many functions as mixed, by 12 U, for which both factors have room.
    seen = epsilon * (1 - 32 * U if upper else 1 + 32 * U)
    t = sign * float(unmixed(np.array(sign * seen), q))
    # As above, for the function itself.
    return max(0.0, t * (1 - 32 * U if upper else 1 + 32 * U))


def share(t: float, q: float, way: str) -> float:
    """Returns by what the access's δ at t is multiplied."""
    if way != "addition":
        return q
    return q * math.exp(-t) / (q * math.exp(-t) + (1 - q))


def curve_of(pair: DominatingPair) -> Curve | None:
    """Returns the profile of a pair in closed form; None where there is none."""
    if isinstance(pair, MixturePair):
        return Normals(pair)
    if isinstance(pair, Atoms):
        return AtomSums(pair)
    if isinstance(pair, ExponentialLossPair):
        return ExponentialSums(pair)
    if isinstance(pair, GaussianPair):
        return GaussianCurve(pair)
    if isinstance(pair, Removal | Addition | Replacement) and (inner := curve_of(pair.pair)) is not None:
        return Sampled(inner, pair.q, {Removal: "removal", Addition: "addition"}.get(type(pair), "replacement"))
    return None
