"""Events that state a guarantee and nothing of the mechanism behind it."""

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
    """Any ``epsilon``-DP mechanism. At distance d it is d·epsilon-DP (d > 1 by group privacy, so d is rounded up)."""

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
    """Any (``epsilon``, ``delta``)-DP mechanism: with probability delta it reveals all, else it is epsilon-DP.

    That this is the worst such mechanism is Kairouz, Oh & Viswanath 2015, Thm 2.5.
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
        # The exponent is from above; two exponentials of 2 U each, a quotient and two products: 7 U of the 90 here.
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
    """Any ``rho``-zCDP mechanism (Bun & Steinke 2016). At distance d it is d²·rho-zCDP, d rounded up."""

    rho: float = field(converter=field_checks.rho)
    superadditive: ClassVar[bool] = True

    def _scaled(self, distance: float) -> PrivacyEvent:
        return ZCDP(self.rho * math.ceil(distance) ** 2)

    def zcdp_rho(self) -> float:
        return self.rho


@frozen
class Failure(PrivacyEvent):
    """A side condition of other events that fails with probability at most ``delta``; then anything may be revealed.

    It has no rule for groups: what it adds at a distance above 1 depends on the events that it qualifies, as the δ of
    ``ApproximateDP`` grows with e^ε.
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
    """An access without any guarantee: whatever is composed with it has none either."""

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
