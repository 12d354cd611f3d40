"""Claims of differential privacy: one point (epsilon, delta), or a whole privacy curve in any usual form.

A curve becomes finitely many points (epsilon, delta), each of which the claim implies, in both orders of the
neighbours. An audit may refute any of them. So each delta here is an upper bound on the delta that the claim allows,
and a true claim has no false point. For a claimed trade-off function f,

    delta(epsilon) = max over x in [0, 1] of 1 - f(x) - e^epsilon x,

where f is known at finitely many x, and between them as low as convexity allows
(:class:`hockeystick.events.TradeOff`).

A claimed Rényi divergence bounds the probabilities p and q of an event (data processing; van Erven & Harremoës 2014,
Thm 1): at each order a

    g(p, q) = p^a q^(1-a) + (1-p)^a (1-q)^(1-a) <= R = e^((a-1) eps(a)).

g is convex, so it lies above its tangent at any (s, t): g_p (p - s) + g_q (q - t) <= R - g(s, t). This is a point of
the claim with e^epsilon = -g_q / g_p. Points (s, t) near the boundary of the region that all orders allow lose almost
nothing. At small epsilon, delta is a sixth smaller than by the usual conversion of a Rényi divergence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick import accounting
from hockeystick._guess.arguments import guessing_arguments
from hockeystick.accounting import GaussianDP, InvalidArgumentError, PrivacyEvent, RenyiCurve, TradeOff
from hockeystick.accounting.engines.tradeoff_curve import deltas as all_deltas
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.accounting.events.basic.event import Array
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.notebook_tables import html_table
from hockeystick.accounting.validate import array, items, probability, real

SCHEMA_VERSION = 1

_STEPS = 32  # of the grid on which a curve is read: a finer one saves less than 1 % of the samples
_LARGEST = 700.0  # the largest epsilon for which e^epsilon is a float
_DEFAULT_DELTA = 1e-6  # at which a curve is stated
_RATES = np.concatenate([[0.0], special.ndtr(np.linspace(-6.5, 6.5, 521)), [1.0]])  # false-positive rates
_CHEAP = ("pure", "gaussian", "kov")  # methods with a closed form, exact at each epsilon
_TANGENTS = special.ndtr(np.linspace(-6.5, 6.5, 201))  # probabilities t
_ORDERS = 1.0 + np.geomspace(1e-3, 1e5, 241)
_ROUNDING = 1e-13  # far above the round-off of a sum over the rates
_STEEPEST = 1e20  # e^epsilon of the last tangent
_SLACK = 1e-12  # far above the round-off of a tangent


class Curve(Protocol):
    """The interface of a privacy curve, such as a :class:`hockeystick.accounting.Guarantee`.

    Both methods return an upper bound: a number, or a bracket with ``.upper``.
    """

    def epsilon(self, delta: float) -> object: ...

    def delta(self, epsilon: float) -> object: ...


def _epsilon(value: object) -> float:
    return real("epsilon", value, low=0.0, high=_LARGEST)


def _delta(value: object) -> float:
    return probability("delta", value)


def _point(pair: object) -> tuple[float, float]:
    found = items("also", pair)
    if len(found) != 2:
        raise InvalidArgumentError("also", pair, "is not a point", "give pairs (epsilon, delta)")
    return _epsilon(found[0]), _delta(found[1])


def _points(pairs: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple(sorted({_point(pair) for pair in items("also", pairs)}))


@guessing_arguments
@frozen
class Claim:
    """The claim P(S) <= e^epsilon Q(S) + delta for every event S and both orders (P, Q) of two neighbouring data sets.

    Attributes:
      epsilon: in [0, 700].
      delta: in [0, 1].
      also: further points (epsilon, delta) of a claim that is a whole curve, sorted; an audit may refute any of them.
        Empty for a claim of one point; see :meth:`curve`.

    Raises:
      InvalidArgumentError: a number is NaN, infinite or outside its range.

    Example:
      >>> import hockeystick as hs
      >>> hs.audits.Claim(1.0, 1e-5).points
      ((1.0, 1e-05),)
      >>> claim = hs.audits.Claim.gdp(1.0, delta=1e-5)  # a curve, stated at delta = 1e-5
      >>> round(claim.epsilon, 2), len(claim.points)
      (4.38, 34)
    """

    epsilon: float = field(converter=_epsilon)
    delta: float = field(default=0.0, converter=_delta)
    also: tuple[tuple[float, float], ...] = field(default=(), kw_only=True, converter=_points, repr=False)

    def _repr_html_(self) -> str:
        rows = [(f"{delta:g}", f"{epsilon:g}") for epsilon, delta in sorted({(self.epsilon, self.delta), *self.also})]
        shown = rows if len(rows) <= 6 else [rows[i * (len(rows) - 1) // 5] for i in range(6)]
        more = f", {len(rows)} points" if len(rows) > len(shown) else ""
        return html_table(f"Claim: ({self.epsilon:g}, {self.delta:g})-DP{more}", ("δ", "ε"), shown)

    @classmethod
    def of(cls, value: object, delta: float = _DEFAULT_DELTA) -> Claim:
        """Returns ``value`` as a claim.

        Args:
          value: a claim; a pair (epsilon, delta), or an object with these two numbers as attributes; or a whole curve:
            a guarantee, an event, a mechanism with ``event()``, or a :class:`Curve`.
          delta: the delta at which a curve is stated.

        Raises:
          InvalidArgumentError: ``value`` is none of these, a number is out of range, or a curve has no finite epsilon
            at ``delta``.
        """
        if isinstance(value, Claim):
            return value
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return cls(value[0], value[1])
        event = getattr(value, "event", None)
        if isinstance(value, PrivacyEvent) or callable(getattr(value, "epsilon", None)):
            return cls.curve(value, delta)  # type: ignore[arg-type]  # refuses what is not a curve
        if callable(event) and not isinstance(value, type):
            return cls.curve(event(), delta)
        if all(isinstance(getattr(value, name, None), (int, float)) for name in ("epsilon", "delta")):
            return cls(value.epsilon, value.delta)  # type: ignore[attr-defined]
        raise InvalidArgumentError(
            "claim", value, "is not a claim", "give Claim(epsilon, delta), (epsilon, delta), a guarantee or an event"
        )

    @classmethod
    def curve(cls, guarantee: Curve | PrivacyEvent, delta: float) -> Claim:
        """Returns the claim of a whole curve, stated at ``delta``.

        The curve is evaluated once, on a grid of epsilons from 0 to its epsilon at min(delta, 1e-6), and at its epsilon
        at delta = 0 if that is finite. To test the point where a violation shows best, instead of the stated point, can
        save a factor of a hundred in samples.

        For a group of k records, give the curve of the group: ``event.at(k)``, or ``graph.guarantee(group=k)``.

        Args:
          guarantee: an event, or any :class:`Curve`.
          delta: in [0, 1]; the delta at which the verdict states epsilon.

        Raises:
          InvalidArgumentError: ``delta`` is out of range, or ``guarantee`` is not a curve or has no finite epsilon at
            ``delta``.
        """
        delta = _delta(delta)
        event = guarantee if isinstance(guarantee, PrivacyEvent) else getattr(guarantee, "event", None)
        if isinstance(guarantee, (PrivacyEvent, accounting.Guarantee)) and isinstance(event, PrivacyEvent):
            guarantee = _EventCurve(event)
        if (
            isinstance(guarantee, PrivacyEvent)
            or not callable(getattr(guarantee, "epsilon", None))
            or not callable(getattr(guarantee, "delta", None))
        ):
            raise InvalidArgumentError(
                "guarantee", guarantee, "has no methods epsilon(delta) and delta(epsilon)", "use Claim(epsilon, delta)"
            )
        stated = _upper("epsilon", guarantee.epsilon(delta))
        if not stated <= _LARGEST:
            raise InvalidArgumentError(
                "guarantee", guarantee, f"claims epsilon={stated:g} at delta={delta:g}", "state it at a larger delta"
            )
        top, pure = (_upper("epsilon", guarantee.epsilon(at)) for at in (min(delta, 1e-6), 0.0))
        grid = np.linspace(0.0, top if top <= _LARGEST else stated, _STEPS + 1)
        if pure <= _LARGEST:
            grid = np.append(grid, pure)
        if isinstance(guarantee, _EventCurve):
            found = guarantee.deltas(grid).tolist()
        else:
            found = [min(_upper("delta", guarantee.delta(eps)), 1.0) for eps in grid.tolist()]
        return cls(stated, delta, also=tuple(zip(grid.tolist(), found, strict=True)))

    @classmethod
    def gdp(cls, mu: float, delta: float = _DEFAULT_DELTA) -> Claim:
        """Returns the claim of ``mu``-Gaussian DP, mu > 0 (Dong, Roth & Su 2022), by its exact profile."""
        return cls.curve(GaussianDP(mu), delta)

    @classmethod
    def zcdp(cls, rho: float, xi: float = 0.0, delta: float = _DEFAULT_DELTA) -> Claim:
        """Returns the claim of (xi, rho)-zCDP (Bun & Steinke 2016): a Rényi divergence of at most xi + rho a, a > 1.

        Args:
          rho, xi: at least 0.
          delta: the delta at which the claim is stated.
        """
        return cls.curve(_LinearRenyi(rho, xi), delta)

    @classmethod
    def rdp(
        cls, orders: npt.ArrayLike, epsilons: npt.ArrayLike | Callable[[float], float], delta: float = _DEFAULT_DELTA
    ) -> Claim:
        """Returns the claim of Rényi DP (Mironov 2017) at each of ``orders``, and at no other order.

        Args:
          orders: increasing, > 1.
          epsilons: the divergence claimed at each order: numbers >= 0, or a function of the order.
          delta: the delta at which the claim is stated.
        """
        known = np.atleast_1d(array("orders", orders))
        values = [real("epsilons", epsilons(float(a))) for a in known] if callable(epsilons) else epsilons
        return cls.curve(RenyiCurve(tuple(known.tolist()), tuple(np.atleast_1d(np.asarray(values)).tolist())), delta)

    @classmethod
    def tradeoff(cls, function: Callable[[float], float], delta: float = _DEFAULT_DELTA) -> Claim:
        """Returns the claim of f-DP (Dong, Roth & Su 2022): no test of the two data sets has error rates below f.

        As in f-DP, the claim covers both orders of the data sets. If f is not symmetric, the larger of f and its
        inverse counts.

        Args:
          function: f, which maps a false-positive rate in [0, 1] to the least false-negative rate. It must be
            nonincreasing and convex, and at most 1 - x. This is checked at 523 rates, and assumed between them.
          delta: the delta at which the claim is stated.

        Raises:
          InvalidArgumentError: at some rate f is not a number in [0, 1 - x], or f is not convex at the 523 rates.
        """
        if not callable(function):
            raise InvalidArgumentError("function", function, "can't be called", "give a function of one rate")
        rates = [real("function", function(float(x)), low=0.0, high=1.0) for x in _RATES]
        return cls.curve(_worst_tests(_RATES, np.array(rates), "function"), delta)

    @classmethod
    def profile(
        cls,
        epsilons: npt.ArrayLike,
        deltas: npt.ArrayLike | Callable[[float], float],
        *,
        reverse: npt.ArrayLike | Callable[[float], float] | None = None,
    ) -> Claim:
        """Returns the claim of a hockey-stick curve: (epsilons[i], deltas[i])-DP for each i, stated at the last one.

        Args:
          epsilons: increasing, in [0, 700].
          deltas: delta at each epsilon, in [0, 1]: numbers, or a function of epsilon.
          reverse: the deltas for the other order of the data sets, if they differ. The larger delta counts, because an
            audit does not distinguish the two orders.

        Raises:
          InvalidArgumentError: the epsilons do not increase, or a number is out of range.
        """
        grid = np.atleast_1d(array("epsilons", epsilons, low=0.0, high=_LARGEST))
        if grid.ndim != 1 or not grid.size or (np.diff(grid) <= 0).any():
            raise InvalidArgumentError("epsilons", epsilons, "is not an increasing list", "sort the points")
        found = _read("deltas", deltas, grid)
        if reverse is not None:
            found = np.maximum(found, _read("reverse", reverse, grid))
        points = list(zip(grid.tolist(), found.tolist(), strict=True))
        return cls(*points[-1], also=points[:-1])

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """All claimed points (epsilon, delta), the stated one first."""
        return ((self.epsilon, self.delta), *self.also)

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-compatible values."""
        also = [list(point) for point in self.also]
        return {"schema": SCHEMA_VERSION, "epsilon": self.epsilon, "delta": self.delta, "also": also}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Claim:
        """Returns the claim from the values of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: ``plain`` has another schema, missing or unknown fields, or a number out of range.
        """
        if not isinstance(plain, dict) or plain.get("schema") != SCHEMA_VERSION:
            raise InvalidArgumentError(
                "claim", plain, "is not a claim that this version can read", "give Claim.to_dict()"
            )
        if set(plain) != {"schema", "epsilon", "delta", "also"}:
            raise InvalidArgumentError("claim", plain, "has missing or unknown fields", "give Claim.to_dict()")
        return cls(plain["epsilon"], plain["delta"], also=plain["also"])


def _read(name: str, deltas: npt.ArrayLike | Callable[[float], float], grid: Array) -> Array:
    if callable(deltas):
        return np.array([real(name, deltas(float(eps)), low=0.0, high=1.0) for eps in grid])
    return array(name, np.atleast_1d(array(name, deltas, low=0.0, high=1.0)), shape=grid.shape)


def _upper(name: str, bound: object) -> float:
    return real(name, getattr(bound, "upper", bound), low=0.0, allow_inf=True)


def _rho(value: object) -> float:
    return real("rho", value, low=0.0, high=1e100)


def _xi(value: object) -> float:
    return real("xi", value, low=0.0, high=1e100)


@frozen
class _LinearRenyi(PrivacyEvent):
    """Any mechanism with Rényi divergence at most xi + rho a at every order a > 1."""

    rho: float = field(converter=_rho)
    xi: float = field(converter=_xi)

    def zcdp_rho(self) -> float:
        return math.inf if self.xi else self.rho

    def rdp(self, orders: Array) -> Array:
        # Three roundings, of which each adds at most 2^-53; the factor covers four.
        return np.asarray((self.xi + self.rho * np.asarray(orders, dtype=float)) * (1 + 2.0**-51))


@frozen
class _EventCurve:
    event: PrivacyEvent

    def epsilon(self, delta: float) -> object:
        return accounting.epsilon(self.event, delta)

    def delta(self, epsilon: float) -> object:
        return accounting.delta(self.event, epsilon)

    def deltas(self, epsilons: Array) -> Array:
        """Returns the least available upper bound on delta at each epsilon."""
        method = accounting.delta(self.event, float(epsilons[len(epsilons) // 2])).method
        if method in _CHEAP:
            return np.array([accounting.delta(self.event, eps).upper for eps in epsilons.tolist()])
        found = all_deltas(self.event, epsilons)
        if method in ("zcdp", "rdp"):
            known, least = _renyi_points(self.event)
            # the true profile is convex in e^epsilon
            found = np.minimum(found, np.interp(np.exp(epsilons), known, least))
        return np.asarray(found)


@frozen(eq=False)
class _TestsCurve:
    """The profile of a pair of laws with finitely many privacy losses.

    P has mass p[i] at losses[i], and mass ``aside`` where Q has none.
    """

    losses: Array
    p: Array
    aside: float

    def delta(self, epsilon: float) -> float:
        gain = -np.expm1(np.minimum(epsilon - self.losses, 0.0))
        return min(1.0, (self.aside + float(self.p @ gain)) * (1 + _ROUNDING) + _ROUNDING)

    def epsilon(self, delta: float) -> float:
        low, high = 0.0, _LARGEST
        if self.delta(high) > delta:
            return math.inf
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high


def _worst_tests(rates: Array, least: Array, name: str) -> _TestsCurve:
    """Returns the largest profile of any pair of laws whose tests have at least the given error rates.

    Args:
      rates: false-positive rates, increasing.
      least: the least false-negative rate of any test at each.
      name: of the argument, for errors.
    """
    if (least > 1 - rates + 1e-12).any() or (np.diff(least) > 1e-12).any():
        raise InvalidArgumentError(name, least, "exceeds 1 - x, or increases", "give a trade-off function")
    lowered = np.minimum.accumulate(np.minimum(least, 1 - rates))
    try:
        event = TradeOff(tuple(rates.tolist()), tuple(lowered.tolist()))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(name, error.value, f"is not convex: {error.reason}", "give a convex f") from None
    pair = event.pair()
    assert isinstance(pair, Atoms)  # the worst pair of a polygon has finitely many losses
    return _TestsCurve(np.array(pair.losses), np.array(pair.p), event.failure_delta())


def _renyi_points(event: PrivacyEvent) -> tuple[Array, Array]:
    """Returns corners (e^epsilon, delta) of a convex function above the profile, from the Rényi curve of an event."""
    orders = np.union1d(_ORDERS, event.orders) if isinstance(event, RenyiCurve) else _ORDERS
    failure = event.failure_delta()
    t = _TANGENTS[:, None]
    s = (1.0 - trade_off(event, _TANGENTS) - failure)[:, None]
    curve = np.minimum(event.rdp(orders), event.zcdp_rho() * orders)
    usable = np.isfinite(curve)
    a, bound = orders[usable], curve[usable]
    found = [(np.zeros(1), np.ones(1))]  # delta is 1 at epsilon = -inf
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # the divergence of (q, p) at (s, t) is that of (p, q) at (1 - t, 1 - s)
        for p, q in ((s, t), (1 - t, 1 - s)):
            one = np.exp(a * np.log(p) - (a - 1) * np.log(q) - (a - 1) * bound)  # g = one + other, in units of R
            other = np.exp(a * np.log1p(-p) - (a - 1) * np.log1p(-q) - (a - 1) * bound)
            g_p, g_q = a * (one / p - other / (1 - p)), (a - 1) * (one / q - other / (1 - q))
            by_s, by_t = (g_p, g_q) if p is s else (g_q, g_p)
            ratio = by_t / by_s
            found.append((ratio.ravel(), (s - ratio * t + (1.0 - one - other) / by_s).ravel()))
    ratio, delta = (np.concatenate(values) for values in zip(*found, strict=True))
    valid = np.isfinite(delta) & (ratio >= 0) & (ratio < _STEEPEST)
    # The factor covers the roundings of the quotient and of the hull in the slope e^ε; ``_SLACK`` those of the height.
    return _lower_hull(ratio[valid] * (1 + 1e-15), np.clip(delta[valid] + failure + _SLACK, 0.0, 1.0))


def _lower_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """Returns the corners of the decreasing part of the lower convex hull of points."""
    corners: list[tuple[float, float]] = []
    for c, d in np.column_stack([x, y])[np.lexsort((y, x))].tolist():
        while len(corners) > 1:
            (a, b), (s, t) = corners[-2:]
            if (t - b) * (c - a) < (d - b) * (s - a):
                break
            corners.pop()
        if not corners or c > corners[-1][0] and d < corners[-1][1]:
            corners.append((c, d))
    hull = np.array(corners)
    return hull[:, 0], hull[:, 1]
