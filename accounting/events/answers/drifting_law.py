"""Mechanisms whose output law changes at a bounded rate with the input; the worst case is a shifted Laplace law.

Let M_s, 0 ≤ s ≤ 1, be laws on one space, from one input (s = 0) to the other (s = 1), such that over a stretch t of the
path the probability of a set falls at most by the factor e^{−fall·t} and rises at most by e^{rise·t}. Then (M_0, M_1)
is dominated by (X + 1, X), where X has a density proportional to e^{−fall·x} for x ≥ 0 and to e^{rise·x} for x < 0.

Proof. For a set S let G(s) = M_s(S), a Lipschitz function. Applied to S and to its complement, the rates bound −G' by
min(fall·G, rise·(1−G)), which is the density of X at the point z(s) with P(X > z) = G(s); so z' ≤ 1 and
z(1) ≤ z(0) + 1. Hence S distinguishes M_0 from M_1 no better than the half-line beyond z(0) + 1 distinguishes X + 1
from X: P(X + 1 > z(0) + 1) = M_0(S) and P(X > z(0) + 1) ≤ M_1(S). ∎

For fall = rise it is the limit of group privacy in Dong, Roth & Su 2022, §2.5: an ε-DP mechanism that is also εt-DP at
every distance t < 1 costs at most as much as Laplace noise of scale 1/ε. The path consists of inputs of the mechanism,
such as real scores or queries with continuous noise, which need not come from data sets. Noise on a grid as coarse as
the inputs has no such path and is charged as ``PureDP``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import Factory, field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.checked_event import is_boolean
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, Cells, DominatingPair
from hockeystick.accounting.losses.renyi_closed_forms import ROUNDED_UP, least_rho
from hockeystick.accounting.numerics.directed_rounding import U

_SMALLEST = 1e-100


def _fall(value: float) -> float:
    return _rate("fall", value)


def _rise(value: float) -> float:
    return _rate("rise", value)


def _rate(name: str, value: float) -> float:
    number = validate.real(name, value, low=0.0, allow_inf=True)
    return max(number, _SMALLEST) if number else 0.0


@frozen
class LogLipschitz(PrivacyEvent):
    """Any mechanism whose log-probabilities fall at most at the rate ``fall`` and rise at most at ``rise`` on a path.

    The path leads between two inputs at distance 1, in either order, and the rates hold over every stretch of it (see
    the theorem of the module). If both rates are ε, it is metric privacy (Chatzikokolakis, Andrés, Bordenabe &
    Palamidessi 2013): ε·t-DP at each real distance t.

    Attributes:
      fall, rise: per unit of distance, ≥ 0; ``rise`` defaults to ``fall``. If either is 0, the other counts as 0.

    Raises:
      InvalidArgumentError: a rate is negative or NaN.

    Example:
      >>> from hockeystick.accounting import LogLipschitz, PureDP, compose, epsilon
      >>> events = LogLipschitz(1.0), LogLipschitz(1.0, 0.5), PureDP(1.0)
      >>> [round(epsilon(compose((event, 4)), 1e-2).upper, 3) for event in events]
      [3.851, 3.447, 3.964]
    """

    fall: float = field(converter=_fall)
    rise: float = field(default=Factory(lambda self: self.fall, takes_self=True), converter=_rise)

    def _rates(self) -> tuple[float, float]:
        if not (self.fall and self.rise):
            return 0.0, 0.0  # if no probability falls, none rises, as that of the complement would fall
        least = 1e-200 * max(self.fall, self.rise)  # so that the share of neither rate is rounded to 0
        return (self.fall, self.rise) if math.isinf(least) else (max(self.fall, least), max(self.rise, least))

    def _scaled(self, distance: float) -> PrivacyEvent:
        return LogLipschitz(self.fall * distance, self.rise * distance)

    def pure_epsilon(self) -> float:
        return max(self._rates())

    def zcdp_rho(self) -> float:
        return _rho(max(self._rates()), min(self._rates()))

    def _rdp(self, orders: Array) -> Array:
        fall, rise = self._rates()
        return np.maximum(one_way_rdp(fall, rise, orders), one_way_rdp(rise, fall, orders))

    def pair(self) -> DominatingPair | None:
        fall, rise = self._rates()
        return two_way_pair(fall, rise) if math.isfinite(fall + rise) else None

    def orientations(self) -> tuple[PrivacyEvent, ...]:
        return (self,) if self.fall == self.rise else (OneWay(self, True), OneWay(self, False))


@frozen
class OneWay(PrivacyEvent):
    """A ``LogLipschitz`` event in one direction; only the worse of both directions is a guarantee.

    Attributes:
      event: the event in both directions.
      forward: whether P is the law at the start of the path.

    Example:
      >>> from hockeystick.accounting import LogLipschitz, OneWay, delta
      >>> event = LogLipschitz(1.0, 0.5)
      >>> [round(delta(one, 0.3).upper, 3) for one in (OneWay(event, True), OneWay(event, False), event)]
      [0.208, 0.125, 0.208]
    """

    event: LogLipschitz = field()
    forward: bool = field(validator=is_boolean)

    @event.validator
    def _event_is_log_lipschitz(self, _: object, value: object) -> None:
        if not isinstance(value, LogLipschitz):
            raise InvalidArgumentError("event", value, "has no such direction", "give a LogLipschitz event")

    def _rates(self) -> tuple[float, float]:
        fall, rise = self.event._rates()
        return (fall, rise) if self.forward else (rise, fall)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return OneWay(LogLipschitz(self.event.fall * distance, self.event.rise * distance), self.forward)

    def pure_epsilon(self) -> float:
        return self.event.pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.event.zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return one_way_rdp(*self._rates(), orders)

    def pair(self) -> DominatingPair | None:
        fall, rise = self._rates()
        return one_way_pair(fall, rise) if math.isfinite(fall + rise) else None


@frozen
class BoundedBy(PrivacyEvent):
    """Base of the events of specific mechanisms that take their curves from a more general event, ``bound``."""

    def bound(self) -> PrivacyEvent:
        """Returns the more general event."""
        raise NotImplementedError

    def pure_epsilon(self) -> float:
        return self.bound().pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.bound().zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return self.bound().rdp(orders)

    def pair(self) -> DominatingPair | None:
        return self.bound().pair()

    def orientations(self) -> tuple[PrivacyEvent, ...]:
        ways = self.bound().orientations()
        return ways if len(ways) > 1 else (self,)


def one_way_rdp(fall: float, rise: float, orders: Array) -> Array:
    """Returns the Rényi divergence of X + 1 from X, rounded up.

    With x = (α−1)·fall and y = α·rise the moment is (y·e^x + x·e^{−y})/(x + y).
    """
    a = np.asarray(orders, dtype=float)
    if fall == 0.0 or rise == 0.0:
        return np.zeros(a.shape)
    if math.isinf(fall) or math.isinf(rise):
        return np.full(a.shape, math.inf)
    if max(fall, rise) * float(a.max(initial=1.0)) > 1e300:
        return np.full(a.shape, fall)  # the largest loss
    x, y = (a - 1) * fall, a * rise
    small = x + y < 0.5
    # moment − 1 = xy·Σ_{n≥1} s_n/(n+1)!, s_n = (xⁿ − (−y)ⁿ)/(x + y): for small x + y the first term leads.
    xs, ys = np.where(small, x, 0.0), np.where(small, y, 0.0)
    s, power, series = np.ones(a.shape), np.ones(a.shape), np.zeros(a.shape)
    for n in range(1, 17):
        series += s / math.factorial(n + 1)
        power = -ys * power
        s = xs * s + power
    middle = np.minimum(x, 700.0)
    weight_x, weight_y = x / (x + y), y / (x + y)
    excess = np.where(small, x * y * series, weight_y * np.expm1(middle) + weight_x * np.expm1(-y))
    moment = np.where(x < 700.0, np.log1p(np.maximum(excess, 0.0)), x + np.log(weight_y + weight_x * np.exp(-x - y)))
    return np.asarray(np.minimum(moment / (a - 1) * ROUNDED_UP, fall))


@lru_cache(maxsize=1024)
def _rho(larger: float, smaller: float) -> float:
    """Returns the least ρ that holds in both directions, rounded up."""
    if smaller == 0.0:
        return 0.0
    if math.isinf(larger):
        return math.inf
    # Losses span larger + smaller: Hoeffding's lemma (Cesar & Rogers 2021, Lemma 3.4).
    hoeffding = (larger + smaller) * (larger + smaller) / 8 * ROUNDED_UP
    if larger == smaller:
        # For the Laplace law, with u = α − ½ the log-moment is ln(cosh uε + sinh(uε)/(2u)) − ε/2. As an entire function
        # of u², of order ½, its argument has only real negative zeros (−u² solves the self-adjoint problem f'' = u²f,
        # f'(0) = f(0)/2, f(ε) = 0). So its logarithm is concave in u², and ρ is the mean loss ε + e^{−ε} − 1, as in
        # Harrison & Manurangsi 2025.
        mean = larger + math.expm1(-larger)
        return min(hoeffding, mean * ROUNDED_UP + 4 * U * min(larger, 1.0))

    def worse(orders: Array) -> Array:
        return np.maximum(one_way_rdp(larger, smaller, orders), one_way_rdp(smaller, larger, orders))

    return min(hoeffding, least_rho(worse, larger))


@frozen
class _Slope:
    """Losses l on [low, high] of P-density ``peak``·e^{``shift`` + ``rate``·(l − high)}; neither P nor Q exceeds peak.

    Q's density falls with l, at the rate ``co_rate`` = 1 − rate.
    """

    low: float
    high: float
    peak: float
    shift: float
    rate: float
    co_rate: float

    def masses(self, start: Any, end: Any) -> tuple[Any, Any]:
        """Returns the masses of P and Q between two losses, elementwise."""
        low, high = np.clip(start, self.low, self.high), np.clip(end, self.low, self.high)
        log_p = self.shift + self.rate * (high - self.high)
        log_q = np.minimum(self.shift - self.co_rate * low - self.rate * self.high, 0.0)
        p = self.peak * np.exp(log_p) * -np.expm1(-self.rate * (high - low)) / self.rate
        q = self.peak * np.exp(log_q) * -np.expm1(-self.co_rate * (high - low)) / self.co_rate
        return p, q


@frozen
class _SlopedPair(DominatingPair):
    """A pair whose loss has exponential densities on intervals, and atoms."""

    slopes: tuple[_Slope, ...]
    atoms: Atoms

    def cells(self, edges: Array) -> Cells:
        found = self.atoms.cells(edges)
        for slope in self.slopes:
            p, q = slope.masses(edges[:-1], edges[1:])
            p_below, q_below = slope.masses(-math.inf, edges[0])
            p_above, q_above = slope.masses(edges[-1], math.inf)
            found = Cells(
                found.p + p,
                found.q + q,
                found.p_below + float(p_below),
                found.q_below + float(q_below),
                found.p_above + float(p_above),
                found.q_above + float(q_above),
            )
        return found

    def support(self) -> tuple[float, float]:
        return min(slope.low for slope in self.slopes), max(slope.high for slope in self.slopes)


def one_way_pair(fall: float, rise: float) -> DominatingPair:
    """Returns (X + 1, X): its losses run from −rise to fall, with an atom at either end."""
    if fall == 0.0 or rise == 0.0:
        return Atoms((0.0,), (1.0,))
    up, down = rise / (fall + rise), fall / (fall + rise)
    slope = _Slope(-rise, fall, up * down, 0.0, up, down)
    return _SlopedPair((slope,), _atoms({fall: up, -rise: down * math.exp(-rise)}))


def two_way_pair(fall: float, rise: float) -> DominatingPair:
    """Returns the pair whose profile is the larger of those of (X + 1, X) and (X, X + 1).

    At ε ≥ 0 those are 1 − e^{rise·(ε−fall)/(fall+rise)} and the same with the rates exchanged. The one with the larger
    maximal loss is larger throughout; with its mirror image below 0 it gives a symmetric pair.
    """
    if fall == 0.0 or rise == 0.0:
        return Atoms((0.0,), (1.0,))
    more, less = max(fall, rise), min(fall, rise)
    up, down = less / (more + less), more / (more + less)
    upper = _Slope(0.0, more, up * down, 0.0, up, down)
    lower = _Slope(-more, 0.0, up * down, -less * down, down, up)
    middle = (more - less) / (more + less) * math.exp(-less * down)
    return _SlopedPair((upper, lower), _atoms({more: up, -more: up * math.exp(-more), 0.0: middle}))


def _atoms(masses: dict[float, float]) -> Atoms:
    """Returns the atoms of positive mass; leaving out one that underflows, with Q's mass there, is on the safe side."""
    kept = {loss: mass for loss, mass in masses.items() if mass > 0.0}
    return Atoms(tuple(kept), tuple(kept.values()))
