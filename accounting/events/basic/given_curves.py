"""Events given by a curve: a Gaussian-DP parameter, a Rényi curve, a privacy profile or a trade-off function.

Each is a claim about all pairs of neighbouring data sets, in both orders, and is charged as the worst pair of laws that
the claim allows. Between the given points, only convexity and monotonicity are used. Points are taken to be exact: the
arithmetic on them is rational, and only the atoms of the worst pair are rounded, upwards.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.checked_event import is_boolean
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.given_laws import atoms_rdp, numbers
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair, GaussianPair
from hockeystick.accounting.losses.piecewise_profiles import Point, atoms, largest_symmetric, lower_hull
from hockeystick.accounting.numerics.directed_rounding import U

_TOLERANCE = 1e-9  # relative distance by which rounding may place a point above the chord of its neighbours


def _mu(value: float) -> float:
    return max(validate.real("mu", value, low=0.0, low_open=True, high=1e100), 1e-100)


@frozen
class GaussianDP(PrivacyEvent):
    """Any ``mu``-Gaussian-DP mechanism: its outputs are at most as easy to distinguish as N(0, 1) and N(μ, 1).

    See Dong, Roth & Su 2022, Def. 2.6. For a group of k records it is kμ-Gaussian-DP (ibid., Thm 2.14).

    Attributes:
      mu: > 0.

    Example:
      >>> from hockeystick.accounting import Gaussian, GaussianDP, delta
      >>> round(delta(GaussianDP(0.5), 1.0).upper, 6), round(delta(Gaussian(2.0), 1.0).upper, 6)
      (0.00683, 0.00683)
    """

    mu: float = field(converter=_mu)
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return GaussianDP(self.mu * math.ceil(distance))

    def zcdp_rho(self) -> float:
        return 0.5 * self.mu**2

    def pair(self) -> DominatingPair:
        return GaussianPair(self.mu)


def _orders(values: object) -> tuple[float, ...]:
    orders = numbers("orders", values, low=1.0, high=1e100)
    for i, order in enumerate(orders):
        if order <= (orders[i - 1] if i else 1.0):
            raise InvalidArgumentError(f"orders[{i}]", order, "is out of order", "give increasing orders above 1")
    return orders


def _epsilons_of_orders(values: object) -> tuple[float, ...]:
    return numbers("epsilons", values, low=0.0, high=1e100)


@frozen
class RenyiCurve(PrivacyEvent):
    """Any mechanism that is (orders[i], epsilons[i])-RDP for each i (Mironov 2017).

    As the logarithm of a moment, (α−1)·rdp(α) is convex, and it vanishes at α = 1. The bound between the orders is the
    greatest such function below the points, with rdp nondecreasing. It is constant below the first order; beyond the
    last one nothing is known. Groups are charged by the weak triangle inequality (see ``Chain``): for k records, the
    bound at order α needs the curve up to order kα.

    Attributes:
      orders: increasing, > 1.
      epsilons: at least 0, one for each order. They need not be convex: each is an upper bound by itself.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import RenyiCurve, epsilon
      >>> event = RenyiCurve((2, 4, 8, 16, 32), (0.1, 0.2, 0.4, 0.8, 1.6))
      >>> event.rdp(np.array([6.0])).round(3), round(epsilon(event, 1e-6).upper, 3)
      (array([0.34]), 1.472)
    """

    orders: tuple[float, ...] = field(converter=_orders)
    epsilons: tuple[float, ...] = field(converter=_epsilons_of_orders)

    def __attrs_post_init__(self) -> None:
        if len(self.orders) != len(self.epsilons):
            reason = f"doesn't have {len(self.orders)} entries"
            raise InvalidArgumentError("epsilons", self.epsilons, reason, "give one per order")

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self, math.ceil(distance))

    def zcdp_rho(self) -> float:
        return math.inf

    def _rdp(self, orders: Array) -> Array:
        a = np.asarray(orders, dtype=float)
        knots, height = _renyi_hull(self.orders, self.epsilons)
        # The curve increases: moved to the right and up by its rounding, it stays above.
        value = np.interp((a - 1.0) * (1 + 8 * U), knots, height) * (1 + 8 * U)
        return np.where(a <= self.orders[-1], value / (a - 1.0), math.inf)


@lru_cache(maxsize=256)
def _renyi_hull(orders: tuple[float, ...], epsilons: tuple[float, ...]) -> tuple[Array, Array]:
    least = np.minimum.accumulate(epsilons[::-1])[::-1]
    points = [(Fraction(a) - 1, (Fraction(a) - 1) * Fraction(float(e))) for a, e in zip(orders, least, strict=True)]
    hull = lower_hull([(Fraction(0), Fraction(0)), *points])
    return np.array([float(x) for x, _ in hull]), np.array([float(y) for _, y in hull])


def _epsilons_of_profile(values: object) -> tuple[float, ...]:
    epsilons = numbers("epsilons", values, low=-700.0, high=700.0)
    _check_increasing("epsilons", epsilons)
    return epsilons


def _deltas(values: object) -> tuple[float, ...]:
    return numbers("deltas", values, low=0.0, high=1.0)


def _false_positive_rates(values: object) -> tuple[float, ...]:
    rates = numbers("false_positive_rates", values, low=0.0, high=1.0)
    _check_increasing("false_positive_rates", rates)
    return rates


def _false_negative_rates(values: object) -> tuple[float, ...]:
    return numbers("false_negative_rates", values, low=0.0, high=1.0)


def _check_increasing(name: str, values: tuple[float, ...]) -> None:
    for i in range(1, len(values)):
        if values[i] <= values[i - 1]:
            raise InvalidArgumentError(f"{name}[{i}]", values[i], "does not exceed the one before", "sort the points")


@frozen
class WorstPair(PrivacyEvent):
    """Base of events that are given by a profile: the curves of the worst symmetric pair that its points allow.

    That pair reveals everything with probability δ(∞), which is the failure, and has finite losses otherwise: by
    symmetry, P's mass where Q has none equals Q's mass where P has none. The pure and Rényi curves are those of the
    finite part, scaled to total mass 1; the profile counts it with its probability.
    """

    def _worst(self) -> Atoms:
        raise NotImplementedError

    def _finite(self) -> Atoms:
        worst = self._worst()
        total = math.fsum(worst.p)
        return Atoms(worst.losses, tuple(mass / total for mass in worst.p)) if total else Atoms((0.0,), (1.0,))

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self, math.ceil(distance))

    def pure_epsilon(self) -> float:
        return max((0.0, *self._worst().losses))

    def _rdp(self, orders: Array) -> Array:
        return atoms_rdp(self._finite(), orders)

    def failure_delta(self) -> float:
        return self._worst().at_infinity

    def pair(self) -> DominatingPair:
        worst = self._worst()
        return Atoms(worst.losses, worst.p) if worst.losses else self._finite()


@frozen
class PrivacyProfile(WorstPair):
    """Any mechanism that is (epsilons[i], deltas[i])-DP for each i, in both orders of the neighbouring data sets.

    A profile is convex in e^ε, nonincreasing, and 1 at ε = −∞. So the largest profile that respects the points is the
    lower convex hull over e^ε of the points and (0, 1), constant beyond the last point. A bound for (Q, P) at ε implies
    one for (P, Q) at −ε, δ(−ε) ≤ 1 − (1 − δ(ε))·e^{−ε}. So each point counts at ±ε, and the worst pair is symmetric.

    Attributes:
      epsilons: increasing, in [−700, 700].
      deltas: δ at each, in [(1 − e^ε)₊, 1], nonincreasing and convex in e^ε (within a relative 1e-9).

    Raises:
      InvalidArgumentError: no profile has these points; the argument names the first impossible one.

    Example:
      >>> from hockeystick.accounting import PrivacyProfile, compose, delta
      >>> event = PrivacyProfile((0.0, 0.5, 1.0, 2.0), (0.2, 0.06, 0.02, 1e-5))
      >>> round(delta(event, 0.75).upper, 4), round(delta(compose((event, 2)), 1.0).upper, 4)
      (0.0425, 0.0655)
    """

    epsilons: tuple[float, ...] = field(converter=_epsilons_of_profile)
    deltas: tuple[float, ...] = field(converter=_deltas)

    def __attrs_post_init__(self) -> None:
        if len(self.epsilons) != len(self.deltas):
            raise InvalidArgumentError(
                "deltas", self.deltas, f"doesn't have {len(self.epsilons)} entries", "give one per epsilon"
            )
        for i, (epsilon, delta) in enumerate(zip(self.epsilons, self.deltas, strict=True)):
            if delta < -math.expm1(epsilon) - 4 * U:
                remedy = "no profile is lower than that"
                raise InvalidArgumentError(f"deltas[{i}]", delta, f"is below 1 - exp({epsilon})", remedy)
            if i and delta > self.deltas[i - 1]:
                raise InvalidArgumentError(
                    f"deltas[{i}]", delta, "exceeds the one before", "a profile is nonincreasing"
                )
        points = [(Fraction(math.exp(e)), Fraction(d)) for e, d in zip(self.epsilons, self.deltas, strict=True)]
        _check_convex("deltas", self.deltas, points)

    def _worst(self) -> Atoms:
        return worst_under_profile(self.epsilons, self.deltas)


@lru_cache(maxsize=256)
def worst_under_profile(epsilons: tuple[float, ...], deltas: tuple[float, ...]) -> Atoms:
    """Returns the worst pair that is (ε, δ)-DP at each point, in both orders; the points need not be convex."""
    points: list[Point] = []
    known: dict[Fraction, float] = {}
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        x = Fraction(1)
        if epsilon:  # rounded up: at a larger ε, the same δ claims less
            x = Fraction(math.nextafter(math.nextafter(math.exp(epsilon), math.inf), math.inf))
        points.append((x, max(Fraction(delta), 1 - x)))
        known[x], known[1 / x] = epsilon, -epsilon
    return atoms(largest_symmetric(points), known)


@frozen
class TradeOff(WorstPair):
    """Any f-DP mechanism (Dong, Roth & Su 2022): no test of two neighbouring data sets has error rates below f.

    The trade-off function f is convex and nonincreasing with f(α) ≤ 1 − α, and it is given at points. By default,
    nothing else is assumed: between two points, f lies above the extended chords of the points on either side, and the
    worst pair has the greatest convex function below those chords. With ``polygon``, f *is* the polygon through the
    points. That claims more, and is wrong for points sampled from a smooth curve, which lies below their polygon.

    T(Q, P) is the inverse of T(P, Q), so an f-DP mechanism is also max(f, f⁻¹)-DP, and the worst pair is symmetric.

    Attributes:
      false_positive_rates: increasing, in [0, 1].
      false_negative_rates: f at each, in [0, 1 − α], nonincreasing and convex (within 1e-9). (1, 0) is always added.
      polygon: whether f is the polygon through the points; on the left it is continued to (0, 1).

    Raises:
      InvalidArgumentError: no trade-off function has these points; the argument names the first impossible one.

    Example:
      >>> from hockeystick.accounting import TradeOff, delta
      >>> rates, misses = (0.0, 0.1, 0.3, 0.6, 1.0), (1.0, 0.7, 0.4, 0.15, 0.0)
      >>> [round(delta(TradeOff(rates, misses, polygon=p), 0.5).upper, 4) for p in (False, True)]
      [0.2183, 0.1309]
    """

    false_positive_rates: tuple[float, ...] = field(converter=_false_positive_rates)
    false_negative_rates: tuple[float, ...] = field(converter=_false_negative_rates)
    polygon: bool = field(default=False, kw_only=True, validator=is_boolean)

    def __attrs_post_init__(self) -> None:
        name, betas = "false_negative_rates", self.false_negative_rates
        if len(self.false_positive_rates) != len(betas):
            reason = f"doesn't have {len(self.false_positive_rates)} entries"
            raise InvalidArgumentError(name, betas, reason, "give one per false positive rate")
        for i, (alpha, beta) in enumerate(zip(self.false_positive_rates, betas, strict=True)):
            if beta > 1.0 - alpha + 4 * U:
                remedy = "guessing has a lower rate"
                raise InvalidArgumentError(f"{name}[{i}]", beta, f"is above 1 - {alpha}", remedy)
            if i and beta > betas[i - 1]:
                raise InvalidArgumentError(f"{name}[{i}]", beta, "exceeds the one before", "it must not increase")
        rates = list(zip(map(Fraction, self.false_positive_rates), map(Fraction, betas), strict=True))
        left = [(Fraction(0), Fraction(1))] if rates[0][0] > 0 else []  # f(0) is at most 1, f(1) is 0
        right = [(Fraction(1), Fraction(0))] if rates[-1][0] < 1 else []
        _check_convex(name, betas, [*left, *rates, *right], absolute=_TOLERANCE, skipped=len(left))

    def _worst(self) -> Atoms:
        return _worst_above_trade_off(self.false_positive_rates, self.false_negative_rates, self.polygon)


@lru_cache(maxsize=256)
def _worst_above_trade_off(alphas: tuple[float, ...], betas: tuple[float, ...], polygon: bool) -> Atoms:
    f = [(a, min(Fraction(b), 1 - a)) for a, b in zip(map(Fraction, alphas), betas, strict=True)]
    if f[-1][0] < 1:
        f.append((Fraction(1), Fraction(0)))
    if polygon and f[0][0] > 0:
        f.insert(0, (Fraction(0), Fraction(1)))
    f = lower_hull(f if polygon else _least_convex(lower_hull(f, straight=True)))
    # δ(x) = 1 − min over α of f(α) + xα has its corners at the slopes −x of f's edges.
    points = []
    for (a, b), (c, d) in zip(f[:-1], f[1:], strict=True):
        if b > d:
            x = (b - d) / (c - a)
            points.append((x, 1 - (b + x * a)))
    if not points:  # f = 0
        points.append((Fraction(1), Fraction(1)))
    return atoms(largest_symmetric(points))


def _least_convex(f: list[Point]) -> list[Point]:
    """Returns the corners of the least function through the points of ``f`` that convexity allows; the last is (1, 0).

    Between two points it is the larger of the extended chords on either side. At the left end (0, 1) serves as a point,
    as f(0) ≤ 1; at the right end f ≥ 0.
    """
    whole = f if f[0][0] == 0 else [(Fraction(0), Fraction(1)), *f]
    corners = [whole[0]] if f[0][0] == 0 else []
    for i in range(len(whole) - 1):
        (a, _), (c, d) = whole[i], whole[i + 1]
        left = _line(whole[i - 1], whole[i]) if i else None
        axis = Fraction(0), Fraction(0)
        right = _line(whole[i + 1], whole[i + 2]) if i + 2 < len(whole) else axis
        at = [a] if left is None else []
        if left is not None and left[0] != right[0]:
            at.append(min(max((right[1] - left[1]) / (left[0] - right[0]), a), c))
        for x in at:
            corners.append((x, max(right[0] * x + right[1], *([left[0] * x + left[1]] if left else []), Fraction(0))))
        corners.append((c, d))
    return [(x, min(y, 1 - x)) for x, y in sorted(corners)]


def _line(p: Point, q: Point) -> tuple[Fraction, Fraction]:
    """Returns the slope, and the value at 0, of the line through two points."""
    slope = (q[1] - p[1]) / (q[0] - p[0])
    return slope, p[1] - slope * p[0]


def _check_convex(
    name: str, values: tuple[float, ...], points: list[Point], absolute: float = 0.0, skipped: int = 0
) -> None:
    """Refuses a point further above the chord of its neighbours than rounding; the first ``skipped`` have no value."""
    for i in range(1, len(points) - 1):
        (a, b), (x, y), (c, d) = points[i - 1 : i + 2]
        chord = b + (d - b) * (x - a) / (c - a)
        if y > chord * (1 + Fraction(_TOLERANCE)) + Fraction(absolute):
            raise InvalidArgumentError(
                f"{name}[{i - skipped}]",
                values[i - skipped],
                f"is above {float(chord)!r}, the chord of its neighbours: the curve is not convex",
                "leave the point out, as the other points imply it",
            )
