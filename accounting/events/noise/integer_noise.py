"""Events of integer noise added to integers: discrete Laplace, discrete Gaussian, Skellam.

A shift is the integer vector by which two neighbouring inputs differ; each coordinate has independent noise. An event
at distance d bounds *every* integer vector of norm at most d, in both directions. The worst one follows from one fact
about log-concave noise, p(y−1)·p(y+1) ≤ p(y)²:

*A shift by s + t of one coordinate is easier to detect than shifts by s and t of two coordinates.* (So any vector of L1
norm at most m is no worse than one shift by m.) Proof: let T_s be the trade-off function of noise shifted by s against
noise. For a log-concave law the likelihood ratio of a shift is monotone, so the best tests are thresholds, randomised
on a single integer, and 1 − T_s(α) = G(G⁻¹(α) + s), where G is the distribution function of minus the noise smoothed by
a uniform variable on [0, 1). A symmetric law has the same T_s for a shift by −s. Hence 1 − T_{s+t} = (1 − T_t) ∘
(1 − T_s). From (0, 0) over (s, 0) to (s, t), the power of a test grows from α to at most (1 − T_s)(α), and then to at
most (1 − T_t)((1 − T_s)(α)) = (1 − T_{s+t})(α). Every curve follows by Blackwell's theorem.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import evolve, field, frozen
from scipy import special

from hockeystick.accounting import field_checks
from hockeystick.accounting.errors import UnsupportedEventError
from hockeystick.accounting.events.basic.composition import compose, parallel
from hockeystick.accounting.events.basic.declared import Failure, two_point_pair
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import GaussianDP
from hockeystick.accounting.events.noise.tabulated_noise import IntegerNoise
from hockeystick.accounting.losses import integer_noise_tables, wide_noise
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.integer_noise_tables import NoiseTable
from hockeystick.accounting.losses.loss_grid import LossPmf, without_round_off
from hockeystick.accounting.numerics.directed_rounding import U, quotient_up

_MAX_OUTCOMES = 2**17
_NEGLECTED = 1e-250
_FEW = 4  # up to so many vectors are bounded one by one, even for wide noise


def _scale(value: float) -> float:
    return field_checks._noise("scale", value)


def _sigma(value: float) -> float:
    return field_checks._noise("sigma", value)


def _variance(value: float) -> float:
    # Skellam noise of a larger variance is noise of a smaller one plus independent noise, which is post-processing.
    return min(field_checks._noise("variance", value), 1e8)


@frozen
class DiscreteLaplace(PrivacyEvent):
    """Two-sided geometric noise on integers, P[k] ∝ e^{−|k|/scale}, the inputs ``distance`` apart in L1.

    The worst integer vector of L1 norm m is a shift of one coordinate by m (see the module), with losses
    (m − 2i)/scale, i = 0 … m. It is m/scale-DP, and costs more than continuous Laplace noise of the same ε: at m = 1 it
    is binary randomised response. Distances are rounded up to integers.

    Attributes:
      scale: > 0.
      distance: L1 distance between the noiseless integer vectors.

    Example:
      >>> from hockeystick.accounting import DiscreteLaplace, Laplace, compose, epsilon
      >>> [round(epsilon(compose((event, 9)), 1e-3).upper, 3) for event in (DiscreteLaplace(2.0), Laplace(2.0))]
      [4.426, 4.182]
    """

    scale: float = field(converter=_scale)
    distance: float = field(default=1.0, converter=integer_noise_tables.distance, kw_only=True)
    norm: ClassVar[str] = "l1"
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return evolve(self, distance=self.distance * distance)

    def _shift(self) -> int:
        return integer_noise_tables.whole(self.distance)

    def pure_epsilon(self) -> float:
        return quotient_up(self._shift(), self.scale)

    def zcdp_rho(self) -> float:
        # ρ is the divergence of order 1. With β = α − ½ the moment e^{(α−1)·rdp(α)} is an even function of β with
        # factors 1 + β²/b² only: up to a factor it is z^{−m/2}(1 + (1−q)(z + … + z^{m−1}) + z^m) at z = e^{2β/scale},
        # q = e^{−1/scale}, and (z − 1) times the polynomial is z^m(z − q) − (1 − qz), which has all its zeros on the
        # unit circle as |z − q| < |1 − qz| inside it and > outside. So (α−1)·rdp(α) is concave as a function of
        # β² − ¼ = α(α−1), and it is 0 at 0: the ratio rdp(α)/α is largest at α → 1.
        a, m = 1.0 / self.scale, self._shift()
        x = m * a
        if m == 1:
            less = 0.0  # Σ_{i<m} (1 − q^i)
        elif x < 1e-3:  # 1 − e^{−t} ≤ t − t²/2 + t³/6
            half = m * (m - 1) / 2
            less = a * half - a * a * half * (2 * m - 1) / 6 + a**3 * half * half / 6
        else:
            # Functions are off by 2 U, m·a, the quotient and the difference by U: 7 U of m at most.
            less = m - math.expm1(-x) / math.expm1(-a) + 8 * U * m
        return integer_noise_tables.known_rho(a * (less + math.tanh(a / 2) * (m - less)) * (1 + 32 * U))

    def _rdp(self, orders: Array) -> Array:
        # e^{(α−1)(rdp − m·a)} = 1 − q(1 − q^{2(α−1)})(1 − r^m)/((1 − r)(1 + q)) with r = q^{2α−1}, q = e^{−a}: at
        # least ½, so the rounding of the logarithm over α − 1 is below 64 ulps of m·a.
        o, a, m = np.asarray(orders, dtype=float), 1.0 / self.scale, self._shift()
        q = math.exp(-a)
        with np.errstate(over="ignore"):
            lesser = q * np.expm1(-2 * (o - 1) * a) * np.expm1(-(2 * o - 1) * a * m) / np.expm1(-(2 * o - 1) * a)
        # 64 U as derived above.
        exact = m * a * (1 + 64 * U) + np.log1p(lesser / (1 + q)) / (o - 1)
        return np.asarray(np.minimum(np.clip(exact, 0.0, self.pure_epsilon()), self.zcdp_rho() * o))

    def pair(self) -> DominatingPair:
        m, a = self._shift(), 1.0 / self.scale
        if m > 2**17:
            return two_point_pair(self.pure_epsilon())
        q = math.exp(-a)
        i = np.arange(m + 1)
        p = np.exp(-a * i) * (-math.expm1(-a) / (1 + q))
        p[0], p[-1] = 1 / (1 + q), math.exp(-a * m) / (1 + q)
        return Atoms(tuple(((m - 2 * i) / self.scale).tolist()), tuple(p.tolist()))


class Spread(PrivacyEvent):
    """Base of events with the worst profile over all integer vectors of an L2 norm, each a composition of shifts."""

    distance: float
    coordinates: int | None
    norm: ClassVar[str] = "l2"
    superadditive: ClassVar[bool] = True

    def _square(self) -> int:
        """Returns an upper bound on the squared norm of an integer vector of norm at most ``distance``."""
        square = integer_noise_tables.whole(self.distance**2)
        return math.isqrt(square) ** 2 if self.coordinates == 1 else square

    def shifts(self) -> tuple[tuple[int, ...], ...]:
        """Returns the vectors that can be the worst; none if they are too many, or the noise has no table."""
        raise NotImplementedError

    def along(self, vector: tuple[int, ...]) -> PrivacyEvent:
        """Returns the event of the shift by ``vector``, one of ``shifts``; the event itself if there are none."""
        raise NotImplementedError

    def normal(self) -> PrivacyEvent | None:
        """Returns an event that bounds all vectors nearly as well as the worst of them; None if there are few vectors.

        It has a failure, which a law of losses leaves out, so it serves only an event that is not part of another.
        """
        return None

    def inner(self) -> PrivacyEvent | None:
        """Returns the parallel composition of all vectors; None if they are too many."""
        vectors = self.shifts()
        return parallel(*map(self.along, vectors)) if vectors else None

    def _known(self) -> PrivacyEvent:
        inner = self.inner()
        if inner is None:
            raise UnsupportedEventError(
                f"{self} has too many worst shifts for a privacy profile: use its zCDP or RDP curve"
            )
        return inner

    def pair(self) -> DominatingPair | None:
        inner = self.inner()
        return None if inner is None else inner.pair()

    def has_profile(self) -> bool:
        return self.inner() is not None

    def loss_support(self) -> tuple[float, float]:
        return self._known().loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        law = self._known().loss_law(step, upper)
        return without_round_off(law) if upper else law

    def children(self) -> tuple[PrivacyEvent, ...]:
        inner = self.inner()
        return () if inner is None else (inner,)


@frozen
class _Shifts(PrivacyEvent):
    """A shift by exactly ``vector``, with independent ``DiscreteGaussian`` or ``Skellam`` noise on each coordinate."""

    noise: DiscreteGaussian | Skellam
    vector: tuple[int, ...]

    def pair(self) -> DominatingPair | None:
        return _shifted(self.noise, self.vector)


@lru_cache(maxsize=256)
def _shifted(noise: DiscreteGaussian | Skellam, vector: tuple[int, ...]) -> Atoms | None:
    """Returns all outcomes of a shift of several coordinates; None if they are too many."""
    table = noise._table(vector[0])
    assert table is not None
    if len(vector) == 1:
        return table.shifted(vector[0])
    first, rest = _shifted(noise, vector[:1]), _shifted(noise, vector[1:])
    if first is None or rest is None or len(first.losses) * len(rest.losses) > _MAX_OUTCOMES:
        return None
    return _product(first, rest)


def _product(one: Atoms, other: Atoms) -> Atoms:
    """Returns a pair that dominates the product of two: losses are rounded up to a grid, and equal ones merged."""
    losses = np.add.outer(one.losses, other.losses).ravel()
    p = np.multiply.outer(one.p, other.p).ravel() * (1 + 4 * U)
    grid = max(1.0, float(np.abs(losses).max(initial=0.0))) * 2.0**-46
    places, where = np.unique(np.ceil(losses / grid), return_inverse=True)
    # The factor exceeds 1 by far more than the products that are too small for a float.
    infinity = (one.at_infinity + other.at_infinity) * (1 + 1e-12)
    return Atoms(tuple((places * grid).tolist()), tuple(np.bincount(where, p).tolist()), min(1.0, infinity))


def _shifts(noise: DiscreteGaussian | Skellam, square: int, coordinates: int | None) -> tuple[tuple[int, ...], ...]:
    """Returns the integer vectors of squared norm ≤ ``square`` that can be the worst."""
    vectors = integer_noise_tables.spreads(square, coordinates)
    if vectors is None or noise._table(max(map(max, vectors))) is None:
        return ()
    return vectors


def _distinct(vectors: tuple[tuple[int, ...], ...], sigma: float) -> tuple[tuple[int, ...], ...]:
    """Returns one vector for each class that wide discrete Gaussian noise y hides equally, up to a δ of ``_NEGLECTED``.

    The loss of a shift by v = g·w, w without a common factor, is (g·⟨w, y⟩ + |v|²/2)/σ². *The law of ⟨w, y⟩ is that of
    one discrete Gaussian number of parameter σ|w|, up to e^−600 at each place*, so only |v| and g matter. By Poisson
    summation its characteristic function at t is Σ_k e^{−σ²|t·w − 2πk|²/2} over the integer vectors k, up to a factor
    1 + e^{−19σ²}, and the terms k = j·w make that of the one number. Others lie off the line through w by 1/|w| at
    least, as the Gram determinant |k|²|w|² − ⟨k, w⟩² is an integer, and fewer than (2m + 3)^n classes of them, modulo
    w, lie within (m + 1)/|w|. So they add up to Σ_m (2m + 3)^n·e^{−2π²σ²m²/|w|²}, which is less than e^−650 for
    σ² ≥ 36|w|² and n ≤ 33. Beyond 40σ|w| from 0 both laws have less than 2e^−800.
    """
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    for vector in vectors:
        found.setdefault((_norm(vector), math.gcd(*vector)) if _is_wide(vector, sigma) else vector, vector)
    return tuple(found.values())


def _norm(vector: tuple[int, ...]) -> int:
    return sum(s * s for s in vector)


def _is_wide(vector: tuple[int, ...], sigma: float) -> bool:
    return len(vector) > 1 and (sigma * math.gcd(*vector)) ** 2 >= 36.0 * _norm(vector)


@lru_cache(maxsize=256)
def _neglected(noise: DiscreteGaussian) -> float:
    """Returns the failure of the bound for wide vectors; the event states it, as a law of losses leaves it out."""
    return _NEGLECTED if any(_is_wide(vector, noise.sigma) for vector in noise.shifts()) else 0.0


def _spread(noise: DiscreteGaussian | Skellam, vector: tuple[int, ...]) -> PrivacyEvent:
    """Returns the event of a shift: of all outcomes if they are few, which is exact at any δ, else a composition."""
    if _shifted(noise, vector) is not None:
        return _Shifts(noise, vector)
    return compose(*((_Shifts(noise, (s,)), 1) for s in vector))


@frozen
class DiscreteGaussian(Spread):
    """Discrete Gaussian noise on integers, P[k] ∝ e^{−k²/(2σ²)}, the inputs ``distance`` apart in L2.

    It is distance²/(2σ²)-zCDP for integer vectors of any number of coordinates (Canonne, Kamath & Steinke 2020, Thm 4
    and Prop. 5). The profile is the worst over all integer vectors of that squared norm (rounded up to an integer): at
    distance 1 a unit shift, at √2 two unit shifts. It is known as long as there are at most 32 such vectors: up to
    distance² = 32 for any number of coordinates, at all distances for one coordinate.

    Attributes:
      sigma: the parameter σ, > 0.
      distance: L2 distance between the noiseless integer vectors.
      coordinates: the number of released integers; None for any number.

    Example:
      >>> from hockeystick.accounting import DiscreteGaussian, Gaussian, epsilon
      >>> [round(epsilon(event, 1e-5).upper, 3) for event in (DiscreteGaussian(3.0), Gaussian(3.0))]
      [1.267, 1.271]
    """

    sigma: float = field(converter=_sigma)
    distance: float = field(default=1.0, converter=integer_noise_tables.distance, kw_only=True)
    coordinates: int | None = field(default=None, converter=integer_noise_tables.coordinates, kw_only=True)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return evolve(self, distance=self.distance * distance)

    def _table(self, further: int = 0) -> NoiseTable | None:
        return integer_noise_tables.discrete_gaussian(self.sigma, further)

    def zcdp_rho(self) -> float:
        return integer_noise_tables.known_rho(self._square() / (2 * self.sigma * self.sigma) * (1 + 4 * U))

    def _rdp(self, orders: Array) -> Array:
        # A shift by s has rdp(α) = α·s²/(2σ²) + ln(θ(αs)/θ(0))/(α−1), θ(c) = Σ_y e^{−(y−c)²/(2σ²)} ≤ θ(0). From σ = 3
        # on θ varies by less than e^-170.
        a, square = np.asarray(orders, dtype=float), self._square()
        bound = self.zcdp_rho() * a
        if self.sigma >= 3.0 or (square > 100 and self.coordinates != 1):
            return np.asarray(bound)

        def less(shift: int) -> Array:
            y = np.arange(-math.ceil(40 * self.sigma) - 2, math.ceil(40 * self.sigma) + 3)
            c = np.remainder(a * shift, 1.0)  # rounding of α·s moves c by as much
            c = np.maximum(np.minimum(c, 1 - c) - 4 * U * a * shift, 0.0)
            log_theta = special.logsumexp(-((y - c[..., None]) ** 2) / (2 * self.sigma**2), axis=-1)
            gap = log_theta - special.logsumexp(-(y**2) / (2 * self.sigma**2))
            # Exponents are off by 5 U of themselves; exponentials, sums of hundreds and logarithms by 32 U, twice.
            return np.asarray(np.minimum(gap * (1 - 16 * U) + 64 * U, 0.0) / (a - 1))

        if self.coordinates == 1:
            return np.asarray(bound + less(math.isqrt(square)))

        def curve(shift: int) -> Array:
            # The square is off by 2 U; the quotient, two products and the sum by U each.
            return np.asarray(np.maximum(a * (shift * shift / (2 * self.sigma**2)) * (1 + 8 * U) + less(shift), 0.0))

        # Up to ``square`` − 1 sums and this product; the factor is an even number of U, so that it is exact itself.
        return np.asarray(integer_noise_tables.knapsack(curve, square, self.coordinates) * (1 + 2 * square * U))

    def shifts(self) -> tuple[tuple[int, ...], ...]:
        return _distinct(_shifts(self, self._square(), self.coordinates), self.sigma)

    def along(self, vector: tuple[int, ...]) -> PrivacyEvent:
        if not _shifts(self, self._square(), self.coordinates):
            return self
        event = _spread(DiscreteGaussian(self.sigma), vector)
        return compose(event, Failure(_NEGLECTED)) if _is_wide(vector, self.sigma) else event

    def failure_delta(self) -> float:
        return _neglected(self)

    def noise(self) -> IntegerNoise:
        """Returns the noise of one integer as a table, for sums of such noise and for shifts of known size.

        Raises:
          UnsupportedEventError: σ is too large for a table.
        """
        table = self._table()
        if table is None:
            raise UnsupportedEventError(
                f"{self}: its table would have more than {integer_noise_tables.MAX_TABLE} entries"
            )
        return _as_noise(table)


@frozen
class Skellam(Spread):
    """Symmetric Skellam noise, the difference of two Poisson(variance/2), the inputs ``distance`` apart in L2.

    A sum of independent shares is Skellam noise of the summed variance. The profile is the worst over integer vectors,
    as for ``DiscreteGaussian``, by the exact law p(y) = e^{−V}·I_|y|(V). Its ρ is that of a unit shift times distance²
    (Bun & Steinke 2016, Prop. 1.9, for each coordinate). A variance above 1e8 counts as 1e8. From a variance of 1e5,
    more than four vectors share a bound in closed form, that of normal noise of slightly less variance
    (``wide_noise.py``).

    Attributes:
      variance: V > 0.
      distance: L2 distance between the noiseless integer vectors.
      coordinates: the number of released integers; None for any number.

    Example:
      >>> from hockeystick.accounting import Gaussian, Skellam, epsilon
      >>> [round(epsilon(event, 1e-5).upper, 3) for event in (Skellam(9.0), Gaussian(3.0))]
      [1.092, 1.271]
    """

    variance: float = field(converter=_variance)
    distance: float = field(default=1.0, converter=integer_noise_tables.distance, kw_only=True)
    coordinates: int | None = field(default=None, converter=integer_noise_tables.coordinates, kw_only=True)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return evolve(self, distance=self.distance * distance)

    def _table(self, further: int = 0) -> NoiseTable | None:
        reach = integer_noise_tables.skellam_reach(self.variance) + further
        return (
            None
            if 2 * reach + 1 > integer_noise_tables.MAX_TABLE
            else integer_noise_tables.skellam(self.variance, reach)
        )

    def zcdp_rho(self) -> float:
        return integer_noise_tables.known_rho(self._square() * _skellam_rho(self.variance))

    def _rdp(self, orders: Array) -> Array:
        a, square = np.asarray(orders, dtype=float), self._square()
        bound = self.zcdp_rho() * a
        if self.variance > 1e6 or (square > 100 and self.coordinates != 1):
            return np.asarray(bound)
        if self.coordinates == 1:
            return np.asarray(np.minimum(bound, _skellam_renyi(self.variance, math.isqrt(square), a)))
        exact = integer_noise_tables.knapsack(lambda s: _skellam_renyi(self.variance, s, a), square, self.coordinates)
        # Sums and a product, as of discrete Gaussians.
        return np.asarray(np.minimum(bound, exact * (1 + 2 * square * U)))

    def shifts(self) -> tuple[tuple[int, ...], ...]:
        return _shifts(self, self._square(), self.coordinates)

    def along(self, vector: tuple[int, ...]) -> PrivacyEvent:
        return _spread(Skellam(self.variance), vector) if self.shifts() else self

    def normal(self) -> PrivacyEvent | None:
        vectors = integer_noise_tables.spreads(self._square(), self.coordinates)
        if self.variance < wide_noise.LEAST_VARIANCE or vectors is None or len(vectors) <= _FEW:
            return None
        mu, failure = wide_noise.normal_bound(self.variance, self._square(), self.coordinates)
        return compose(GaussianDP(mu), Failure(failure))

    def noise(self) -> IntegerNoise:
        """Returns the noise of one integer as a table, for shifts of known size and sums with other noise."""
        table = self._table()
        assert table is not None
        return _as_noise(table)


def _skellam_moment(variance: float, tilt: Array | float) -> Array:
    """Returns a bound on ln E[e^{τ·asinh(Z/V)}], hence on (α−1)·rdp(α) of a shift by s at τ = α·s.

    The loss ln(I_{y−1}/I_y) of a unit shift is at most asinh(y/V) (Amos 1974), that of a shift by s at most s times it.
    With τ·asinh(z) ≤ τ(asinh(c) + (z − c)/√(1+c²)) for z ≥ 0, at any c = sinh(t), and Z < 0 with a probability below ½,
    it is at most ln(½ + e^g), g = τ(t − tanh t) + V(cosh(τ/(V·cosh t)) − 1), which is least at V·t·cosh t = τ.
    """
    tau = np.asarray(tilt, dtype=float)
    low, high = np.zeros_like(tau), np.minimum(tau / variance, 700.0)
    for _ in range(100):
        middle = (low + high) / 2
        under = variance * middle * np.cosh(middle) < tau
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    t = high
    u = tau / (variance * np.cosh(t))
    g = tau * (t - np.tanh(t)) + 2 * variance * np.sinh(u / 2) ** 2
    # t − tanh t is off by 5 U of t, its product by U; u by 8 U, which sinh² counts u times, and V·cosh u is below τ/u.
    return np.asarray((g + np.log1p(0.5 * np.exp(-g))) * (1 + 64 * U) + 8 * U * tau * t)


def _skellam_renyi(variance: float, shift: int, orders: Array) -> Array:
    """Returns a bound on the Rényi divergence of one coordinate shifted by ``shift``.

    It is a sum over a table. Terms beyond its end are at most e^{−C(y−s)}·e^{(α−1)·s·asinh(y/V)}, with falling ratios.
    """
    a = np.asarray(orders, dtype=float)
    flat = a.ravel()
    out = _skellam_moment(variance, flat * shift) / (flat - 1)
    base = integer_noise_tables.skellam_reach(variance)
    most = max(2**16, 8 * base)
    reach, todo = base + shift, np.ones(flat.shape, dtype=bool)
    while todo.any() and reach <= most:
        tilt = (flat - 1) * shift
        next_ratio = -np.arcsinh((reach + 0.5 - shift) / variance) + tilt * (
            np.arcsinh((reach + 2) / variance) - np.arcsinh((reach + 1) / variance)
        )
        log_tail = tilt * np.arcsinh((reach + 1) / variance) - integer_noise_tables.skellam_exponent(
            float(reach + 1 - shift), variance
        )
        log_tail -= np.log(-np.expm1(np.minimum(next_ratio, -1e-9)))
        good = todo & (next_ratio < -1e-9) & (log_tail < -60.0)
        if good.any():
            table = integer_noise_tables.skellam(variance, reach)
            exact = integer_noise_tables.renyi(
                table.log_p[:-shift],
                table.losses(shift),
                flat[good],
                log_error=table.log_error,
                outside=np.exp(log_tail[good]) + 1e-45,  # the left end has negative losses
            )
            out[good] = np.minimum(out[good], exact)
        todo &= ~good
        reach *= 2
    return np.asarray(out.reshape(a.shape))


@lru_cache(maxsize=256)
def _skellam_rho(variance: float) -> float:
    """Returns a bound on sup rdp(α)/α of a unit shift, too large by about a relative 1e-4.

    Large orders are bounded by ``_skellam_moment``: ln(½ + e^g) ≤ g + ½, and with τ = α, g/α² and α/(α−1) fall.
    """

    def beyond(order: float) -> float:
        g = max(0.0, float(_skellam_moment(variance, order)))
        return (g + 0.5) / (order * (order - 1))

    if variance >= _WIDE:
        return _wide_skellam_rho(variance)
    base = integer_noise_tables.skellam_reach(variance)
    return integer_noise_tables.steepest(
        lambda orders: _skellam_renyi(variance, 1, orders), beyond, top=1.0 + max(1e4, 4.0 * base)
    )


_WIDE = 1e5  # from this variance a closed form is as good as a table, whose size grows with √V


def _wide_skellam_rho(variance: float) -> float:
    """Returns a bound on sup rdp(α)/α of a unit shift in closed form, too large by a relative V^(−2/3) or so.

    *The loss L rises by at most b from one integer to the next.* With φ = x·I_ν'(x)/I_ν(x), where x·φ' = s² − φ² and
    s² = x² + ν², the rise at ν ≥ 0 is −ln(I_{ν−1}·I_{ν+1}/I_ν²) = −ln(1 − (s² − φ²)/x²). And φ is at least
    ψ = s − x²/(2s²) − 1/s, so that (s² − φ²)/x² ≤ 1/s + 2/x² ≤ 1/x + 2/x². For x·ψ' < s² − ψ² wherever s ≥ 2, and
    ψ < φ where that begins: at x = 2 for ν = 0, at x = √3 for ν = 1, and towards x = 0, where ψ < ν ≤ φ, for others.

    *Up to order 1 + t.* The divergences of either law from the other are equal and add up to E[L(Z+1) − L(Z)], so each
    is at most b/2. Z is the difference of two Poisson numbers of mean V/2, hence, by Wu's inequality of entropies
    (2000, Thm 1.1) and Herbst's argument, t·rdp(1 + t) ≤ t·b/2 + V·(cosh(t·b) − 1).

    *Beyond* by ``_skellam_moment``, whose terms fall faster than α².
    """
    b = -math.log1p(-(1.0 + 2.0 / variance) / variance)
    t = math.cbrt(12.0 * variance * variance)  # where the two errors, (t·b)²/12 and 1/t, are equal
    below = b / 2 * max(1.0, variance * b * (math.sinh(t * b / 2) / (t * b / 2)) ** 2)
    beyond = float(_skellam_moment(variance, 1.0 + t)) / (t * (1.0 + t))
    return max(below, beyond) * (1 + 64 * U)


def _as_noise(table: NoiseTable) -> IntegerNoise:
    log_p = table.log_p - math.log(math.fsum(np.exp(table.log_p)))
    return IntegerNoise(tuple(log_p.tolist()), table.outside)
