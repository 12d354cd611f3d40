"""Events that state a guarantee and say nothing about the mechanism behind it."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks
from hockeystick.accounting.errors import UnsupportedEventError
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.renyi_closed_forms import three_point_rdp, three_point_rho
from hockeystick.accounting.numerics.directed_rounding import product_up


def two_point_rdp(epsilon: float, orders: Array) -> Array:
    """Returns the Rényi divergence of binary randomised response at ``epsilon``, the worst ε-DP pair."""
    return three_point_rdp(epsilon, 1.0 / (1.0 + math.exp(-epsilon)), orders)


def two_point_pair(epsilon: float) -> DominatingPair:
    """Returns the pair of binary randomised response (Kairouz, Oh & Viswanath 2015, Thm 2.5)."""
    more = 1.0 / (1.0 + math.exp(-epsilon))
    return Atoms((epsilon, -epsilon), (more, more * math.exp(-epsilon)))


@frozen
class PureDP(PrivacyEvent):
    """Any ``epsilon``-DP mechanism. At distance d it is ⌈d⌉·ε-DP, by group privacy.

    Example:
      >>> from hockeystick.accounting import PureDP, epsilon
      >>> epsilon(PureDP(0.5).at(3), 0.0).upper
      1.5
    """

    epsilon: float = field(converter=field_checks.epsilon)
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return PureDP(self.epsilon * math.ceil(distance))

    def pure_epsilon(self) -> float:
        return self.epsilon

    def two_point(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def zcdp_rho(self) -> float:
        return three_point_rho(self.epsilon, 1.0 / (1.0 + math.exp(-self.epsilon)))

    def _rdp(self, orders: Array) -> Array:
        return two_point_rdp(self.epsilon, orders)

    def pair(self) -> DominatingPair:
        return two_point_pair(self.epsilon)


@frozen
class ApproximateDP(PrivacyEvent):
    """Any (``epsilon``, ``delta``)-DP mechanism.

    The worst one reveals everything with probability δ and is ε-DP otherwise (Kairouz, Oh & Viswanath 2015, Thm 2.5).

    Example:
      >>> from hockeystick.accounting import ApproximateDP, compose, epsilon
      >>> event = compose((ApproximateDP(0.1, 1e-8), 50))
      >>> round(event.failure_delta(), 12), round(epsilon(event, 1e-6).upper, 3)
      (5e-07, 3.264)
    """

    epsilon: float = field(converter=field_checks.epsilon)
    delta: float = field(converter=field_checks.delta)
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        k = math.ceil(distance)
        epsilon = product_up(k, self.epsilon)
        # Group privacy: delta·(1 + e^ε + ... + e^{(k−1)ε}), in logarithms so that it can't overflow.
        if epsilon > 700:
            return ApproximateDP(epsilon, 1.0 if self.delta else 0.0)
        factor = math.expm1(epsilon) / math.expm1(self.epsilon) if self.epsilon else float(k)
        # The exponent is rounded up. Two exponentials (2 U each), a quotient and two products make 7 U; 1e-14 is 90 U.
        return ApproximateDP(epsilon, min(1.0, self.delta * factor * (1 + 1e-14)))

    def pure_epsilon(self) -> float:
        return self.epsilon

    def two_point(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def zcdp_rho(self) -> float:
        return three_point_rho(self.epsilon, 1.0 / (1.0 + math.exp(-self.epsilon)))

    def _rdp(self, orders: Array) -> Array:
        return two_point_rdp(self.epsilon, orders)

    def failure_delta(self) -> float:
        return self.delta

    def pair(self) -> DominatingPair:
        return two_point_pair(self.epsilon)


@frozen
class ZCDP(PrivacyEvent):
    """Any ``rho``-zCDP mechanism (Bun & Steinke 2016). At distance d it is ⌈d⌉²·ρ-zCDP.

    Example:
      >>> from hockeystick.accounting import ZCDP, epsilon
      >>> round(epsilon(ZCDP(0.1), 1e-6).upper, 3)
      2.142
    """

    rho: float = field(converter=field_checks.rho)
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return ZCDP(self.rho * math.ceil(distance) ** 2)

    def zcdp_rho(self) -> float:
        return self.rho


@frozen
class Failure(PrivacyEvent):
    """The failure of a side condition of other events, of probability at most ``delta``; then anything may be revealed.

    It has no rule for groups: at a distance above 1 its cost depends on the events that it qualifies, as the δ of
    ``ApproximateDP`` grows with e^ε.

    Example:
      >>> from hockeystick.accounting import Failure, PureDP, compose, delta
      >>> round(delta(compose(PureDP(1.0), Failure(1e-6)), 1.0).upper, 9)
      1e-06
    """

    delta: float = field(converter=field_checks.delta)

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        raise UnsupportedEventError(
            f"{self} has no rule at distance {distance:g}: state the failure for the group, or use ApproximateDP"
        )

    def pure_epsilon(self) -> float:
        return 0.0

    def failure_delta(self) -> float:
        return self.delta

    def pair(self) -> DominatingPair:
        return Atoms((0.0,), (1.0,))


@frozen
class NonPrivate(PrivacyEvent):
    """An access without any guarantee: no composition that holds it has a guarantee.

    Example:
      >>> from hockeystick.accounting import Gaussian, NonPrivate, compose, epsilon
      >>> epsilon(compose(Gaussian(9.0), NonPrivate()), 1e-6).upper
      inf
    """

    def _scaled(self, distance: float) -> PrivacyEvent:
        return self

    def failure_delta(self) -> float:
        return 1.0

    def zcdp_rho(self) -> float:
        return math.inf

    def _rdp(self, orders: Array) -> Array:
        return np.full(np.shape(orders), math.inf)

    def pair(self) -> DominatingPair:
        return Atoms((), (), 1.0)
