"""Events given by their output laws: a pair of finite laws, or a distribution of privacy losses.

``OrderedPair`` joins a bound for each order. The other two are given for one order of the two laws, P against Q. The
``orientation`` is one of:

* "free" (the default): either data set may have the law P, independently in each access, as when a record is replaced.
  The event charges the pointwise maximum of the profiles of (P, Q) and (Q, P).
* "tied": P is the law with the record and Q the law without it, in every access. A composition is bounded in one order
  throughout, then in the other, and the maximum is taken last. Not for replace-one or local adjacency.
* "forward": only the order P against Q, without a bound on the other. A "tied" event consists of two of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import attrs
import numpy as np
from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.built_event import BuiltEvent
from hockeystick.accounting.events.basic.composition import Parallel
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.losses.loss_grid import LossPmf, from_pair, maximum
from hockeystick.accounting.losses.piecewise_profiles import atoms, larger_of_both_orders
from hockeystick.accounting.numerics.directed_rounding import U

_MORE = 1e-4  # what masses may exceed 1 by in all: those of other libraries are rounded up one by one
_ROUND_OFF = 1e-12  # of the sum of masses that were not rounded up
_EXACT = 512  # the most outcomes for which the maximum of both orders is exact instead of on a grid
_ORIENTATIONS = ("free", "tied", "forward")


def numbers(name: str, values: object, *, low: float, high: float) -> tuple[float, ...]:
    """Returns a list of numbers in [low, high] as a tuple.

    Raises:
      InvalidArgumentError: not a list, an empty list, or an entry out of range, which the argument names.
    """
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)) or not values:
        raise InvalidArgumentError(name, values, "is not a list of numbers", "give at least one")
    return tuple(validate.real(f"{name}[{i}]", value, low=low, high=high) for i, value in enumerate(values))


def _law(name: str, values: object) -> tuple[float, ...]:
    # Rounded masses may add up to slightly more than 1: they are divided by their sum later.
    masses = numbers(name, values, low=0.0, high=1.0 + 1e-9)
    total = math.fsum(masses)
    if abs(total - 1.0) > 1e-9:
        raise InvalidArgumentError(name, values, f"adds up to {total!r}", "give probabilities that add up to 1")
    return masses


def _p(values: object) -> tuple[float, ...]:
    return _law("p", values)


def _q(values: object) -> tuple[float, ...]:
    return _law("q", values)


def _orientation(value: object) -> str:
    if value not in _ORIENTATIONS:
        raise InvalidArgumentError(
            "orientation", value, "is unknown", f"choose one of {', '.join(map(repr, _ORIENTATIONS))}"
        )
    return str(value)


def _masses(values: object) -> tuple[float, ...]:
    return numbers("masses", values, low=0.0, high=1.0 + _MORE)  # the sum is checked apart


def _losses(values: object) -> tuple[float, ...]:
    return numbers("losses", values, low=-1e5, high=1e5)


def _infinity(value: object) -> float:
    return validate.probability("infinity", value)


def atoms_rdp(pair: Atoms, orders: Array) -> Array:
    """Returns the Rényi divergence of a pair of finitely many losses at each order > 1, rounded up."""
    a = np.asarray(orders, dtype=float)
    p, losses = np.array(pair.p), np.array(pair.losses)
    if pair.at_infinity > 0.0:
        return np.full(a.shape, math.inf)
    losses, p = losses[p > 0.0], p[p > 0.0]
    if not losses.any():
        return np.zeros(a.shape)
    more = math.fsum(p) - 1.0
    if more <= _ROUND_OFF:  # they add up to 1
        more = 0.0
    out = np.empty(a.shape)
    for i, order in np.ndenumerate(a):
        t = order - 1.0
        y = t * losses
        if np.abs(y).max() < 1.0:  # P's masses add up to 1, or little more: the excess over 1 has no cancellation
            gain = p * np.expm1(y)
            moment, slack = math.log1p(max(0.0, math.fsum(gain)) + more), 8 * U * float(np.abs(gain).sum())
        else:
            y = y + np.log(p)
            peak = float(y.max())
            moment = peak + math.log(float(np.exp(y - peak).sum()))
            # t, its product, the sum with ln p, the peak: U each; ln p: 2 U; so many sums; exp and ln: 4 U of 1.
            slack = 4 * U * (float(np.abs(t * losses).max()) + float(np.abs(np.log(p)).max()) + len(p) + 4.0)
        out[i] = (max(0.0, moment) + slack) / t
    return np.minimum(out, float(losses.max()))


@frozen
class _TwoLaws(PrivacyEvent):
    """Base of both events: all curves follow from ``_atoms``, the losses of P against Q or of Q against P."""

    orientation: str = field(default="free", converter=_orientation, kw_only=True)

    def _atoms(self, forward: bool) -> Atoms:
        raise NotImplementedError

    def _ways(self) -> tuple[Atoms, ...]:
        forward = self._atoms(True)
        return (forward,) if self.orientation == "forward" else (forward, self._atoms(False))

    def _scaled(self, distance: float) -> PrivacyEvent:
        if self.orientation == "forward" and distance > 1.0:
            raise UnsupportedEventError(
                f"{type(self).__name__} has no rule at distance {distance:g} in one order alone"
            )
        return chain(self, math.ceil(distance))

    def accepts(self, adjacency: Adjacency) -> bool:
        tied = self.orientation == "tied"
        return not tied or adjacency in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL)

    def pure_epsilon(self) -> float:
        return max(math.inf if way.at_infinity else max((0.0, *way.losses)) for way in self._ways())

    def zcdp_rho(self) -> float:
        forward, backward = self._atoms(True), self._atoms(False)
        pure = self.pure_epsilon()
        if math.isinf(pure) or backward.at_infinity:
            return pure  # rdp(α) ≤ pure ≤ α·pure
        # ln E_Q[e^{tL}] is 0 at t = 0 and 1 and has a second derivative of at most width²/4 (Hoeffding's lemma).
        width = max((0.0, *forward.losses)) + max((0.0, *backward.losses))
        return min(pure, width * width / 8)

    def _rdp(self, orders: Array) -> Array:
        return np.asarray(np.max([atoms_rdp(way, orders) for way in self._ways()], axis=0))

    def pair(self) -> Atoms | None:
        ways = self._ways()
        if len(ways) == 1:
            return ways[0]
        return _larger(*ways) if len(ways[0].losses) <= _EXACT else None

    def has_profile(self) -> bool:
        return True

    def loss_support(self) -> tuple[float, float]:
        ends = [way.support() for way in self._ways()]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        if (pair := self.pair()) is not None:
            return from_pair(pair, step, upper)
        return maximum([from_pair(way, step, upper) for way in self._ways()], upper)


@lru_cache(maxsize=256)
def _larger(forward: Atoms, backward: Atoms) -> Atoms:
    """The pair whose profile is the pointwise maximum of both."""
    p = map(Fraction, (*forward.p, forward.at_infinity, 0.0))
    q = map(Fraction, (*backward.p, 0.0, backward.at_infinity))
    return atoms(larger_of_both_orders((x, y) for x, y in zip(p, q, strict=True) if x or y))


@frozen
class DiscretePair(_TwoLaws):
    """A pair of output laws on finitely many outcomes: outcome i has probability ``p[i]`` or ``q[i]``.

    Use it for a mechanism whose worst neighbouring data sets are known, for example by enumeration.

    Attributes:
      p, q: probabilities of the same outcomes; each adds up to 1 within 1e-9 and is rescaled to 1.
      orientation: "free", "tied" or "forward"; see the module.

    Example:
      >>> from hockeystick.accounting import DiscretePair, compose, delta
      >>> p, q = (0.7, 0.2, 0.1), (0.3, 0.3, 0.4)
      >>> free, tied = (DiscretePair(p, q, orientation=one) for one in ("free", "tied"))
      >>> round(delta(compose((free, 3)), 2.0).upper, 3), round(delta(compose((tied, 3)), 2.0).upper, 3)
      (0.205, 0.176)
    """

    p: tuple[float, ...] = field(converter=_p)
    q: tuple[float, ...] = field(converter=_q)

    def __attrs_post_init__(self) -> None:
        if len(self.p) != len(self.q):
            raise InvalidArgumentError("q", self.q, f"doesn't have {len(self.p)} entries", "give one per outcome of p")

    def directions(self) -> tuple[PrivacyEvent, ...]:
        if self.orientation != "tied":
            return (self,)
        return DiscretePair(self.p, self.q, orientation="forward"), DiscretePair(self.q, self.p, orientation="forward")

    def _atoms(self, forward: bool) -> Atoms:
        p, q = (self.p, self.q) if forward else (self.q, self.p)
        p_total, q_total = math.fsum(p), math.fsum(q)
        both = [(x / p_total, y / q_total) for x, y in zip(p, q, strict=True) if x > 0.0 and y > 0.0]
        alone = math.fsum(x for x, y in zip(p, q, strict=True) if x > 0.0 and y == 0.0) / p_total
        return Atoms(tuple(_log_ratio(x, y) for x, y in both), tuple(x for x, _ in both), min(1.0, alone))


def _log_ratio(x: float, y: float) -> float:
    """Returns ln(x/y), rounded up."""
    if x == y:
        return 0.0
    value = math.log1p((x - y) / y) if 0.5 < x / y < 2.0 else math.log(x) - math.log(y)
    # Four sums and quotients of masses: 4 U of 1. Logarithms: 2 U of themselves. Differences and quotients: U each.
    return value + 4 * U * (abs(value) + (0.0 if 0.5 < x / y < 2.0 else abs(math.log(x))) + 1.0)


@frozen(cache_hash=True)
class LossDistribution(_TwoLaws):
    """A distribution of the privacy loss ln(P/Q): under P the loss is ``losses[i]`` with probability ``masses[i]``.

    It determines Q too: Q has mass masses[i]·e^{−losses[i]} at ``losses[i]``, and the rest where P has none.

    Attributes:
      losses: distinct and finite.
      masses: at least 0; with ``infinity`` they add up to 1, to at least 1 − 1e-9 (then they are rescaled) and at most
        1 + 1e-4 (masses that were rounded up count as they are).
      infinity: P's mass where Q has none.
      orientation: "free", "tied" or "forward"; see the module.

    Raises:
      InvalidArgumentError: the masses don't add up to 1, or E_P[e^{−loss}] > 1, which no Q allows.

    Example:
      >>> from hockeystick.accounting import LossDistribution, PureDP, epsilon
      >>> event = LossDistribution((1.0, -1.0), (0.7310585786, 0.2689414214))  # randomised response
      >>> round(epsilon(event, 0.1).upper, 4), round(epsilon(PureDP(1.0), 0.1).upper, 4)
      (0.8529, 0.8529)
    """

    losses: tuple[float, ...] = field(converter=_losses)
    masses: tuple[float, ...] = field(converter=_masses)
    infinity: float = field(default=0.0, converter=_infinity)

    def __attrs_post_init__(self) -> None:
        if len(self.losses) != len(self.masses):
            reason = f"doesn't have {len(self.losses)} entries"
            raise InvalidArgumentError("masses", self.masses, reason, "give one per loss")
        first = dict(zip(reversed(self.losses), reversed(range(len(self.losses))), strict=True))
        for i, loss in enumerate(self.losses):
            if first[loss] < i:
                raise InvalidArgumentError(f"losses[{i}]", loss, "occurs twice", "add up the masses of equal losses")
        total = math.fsum(self.masses) + self.infinity
        if not 1.0 - 1e-9 <= total <= 1.0 + _MORE:
            reason = f"adds up to {total!r}, infinity included"
            raise InvalidArgumentError("masses", self.masses, reason, "give masses that add up to 1")
        rest, _ = self._unexplained()
        if rest < -1e-9:
            reason = f"has E[exp(-loss)] = {1.0 - rest!r}, above 1"
            raise InvalidArgumentError("losses", self.losses, reason, "no pair of laws has these losses")

    def directions(self) -> tuple[PrivacyEvent, ...]:
        if self.orientation != "tied":
            return (self,)
        return tuple(
            LossDistribution(way.losses, way.p, way.at_infinity, orientation="forward")
            for way in (self._atoms(True), self._atoms(False))
        )

    def _q_masses(self) -> list[float]:
        # A mass too small for a float is rounded up. A loss with too large a mass of Q fails the check of the sum.
        return [
            max(5e-324, math.exp(min(700.0, math.log(mass) - loss)))
            for loss, mass in zip(self.losses, self.masses, strict=True)
            if mass > 0.0
        ]

    def _unexplained(self) -> tuple[float, float]:
        """Returns Q's mass outside the losses, and a bound on its rounding error."""
        q = self._q_masses()
        total, widest = math.fsum(q), max(map(abs, self.losses))
        # ln p is off by U of itself, the difference too: q·|ln q| is below 1/2; the exponential and fsum are by 2 U.
        return 1.0 - total, 2 * U * (len(q) + 4.0 + widest) * max(1.0, total)

    @lru_cache(maxsize=64)  # noqa: B019  # an event has a hash of its own, and laws may be long
    def _atoms(self, forward: bool) -> Atoms:
        losses = tuple(loss for loss, mass in zip(self.losses, self.masses, strict=True) if mass > 0.0)
        if forward:
            total = min(1.0, math.fsum(self.masses) + self.infinity)
            return Atoms(losses, tuple(mass / total for mass in self.masses if mass > 0.0), self.infinity / total)
        rest, rounding = self._unexplained()
        # A rest below the rounding error is no evidence of outcomes that P lacks.
        alone = rest if rest > rounding else 0.0
        return Atoms(tuple(-loss for loss in losses), tuple(self._q_masses()), alone)


def _one_order(_: object, attribute: attrs.Attribute[PrivacyEvent], value: object) -> None:
    if not isinstance(value, PrivacyEvent) or len(value.directions()) > 1 or value.failure_delta():
        remedy = 'give a LossDistribution(..., orientation="forward")'
        raise InvalidArgumentError(attribute.name, value, "is not an event for one order of the laws", remedy)


@frozen
class OrderedPair(BuiltEvent):
    """An event given by a bound for each order of the two output laws, each with a law of losses of its own.

    A composition takes the bounds for one order throughout, then those for the other, and the maximum last, as for
    "tied" laws. Unlike these, the two laws of losses need not belong to one pair: each may be rounded up by itself.

    Attributes:
      removal: the bound for P the law with the record and Q the law without it.
      addition: the bound for P the law without the record.

    Raises:
      InvalidArgumentError: a bound is not an event for one order alone, or has a failure.

    Example:
      >>> from hockeystick.accounting import LossDistribution, OrderedPair, compose, delta
      >>> removal = LossDistribution((1.0, -0.5), (0.6, 0.4), orientation="forward")
      >>> addition = LossDistribution((0.5, -1.0), (0.85, 0.15), orientation="forward")
      >>> event = OrderedPair(removal, addition)
      >>> [round(delta(compose((one, 2)), 0.5).upper, 3) for one in (removal, addition, event)]
      [0.28, 0.284, 0.284]
    """

    removal: PrivacyEvent = field(validator=_one_order)
    addition: PrivacyEvent = field(validator=_one_order)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return self.removal, self.addition

    def directions(self) -> tuple[PrivacyEvent, ...]:
        return self.children()

    def accepts(self, adjacency: Adjacency) -> bool:
        return adjacency in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL) and super().accepts(adjacency)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self, math.ceil(distance))

    def pure_epsilon(self) -> float:
        return Parallel(self.children()).pure_epsilon()

    def zcdp_rho(self) -> float:
        return Parallel(self.children()).zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return Parallel(self.children()).rdp(orders)

    def loss_support(self) -> tuple[float, float]:
        return Parallel(self.children()).loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return Parallel(self.children()).loss_law(step, upper)
