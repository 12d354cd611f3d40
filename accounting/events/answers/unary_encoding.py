"""Unary encoding: a category as a vector of independently randomised bits (RAPPOR, and its optimised form)."""

from __future__ import annotations

import math
from typing import ClassVar

from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.renyi_closed_forms import three_point_rdp, three_point_rho


def _p(value: float) -> float:
    return validate.probability("p", value)


def _q(value: float) -> float:
    return validate.probability("q", value)


@frozen
class UnaryEncoding(PrivacyEvent):
    """Unary encoding: the bit of the true category is 1 with probability ``p``, every other bit with probability ``q``.

    Another category flips two bits, one each way: exactly two independent pairs of coins, Ber(p) against Ber(q) and
    Ber(q) against Ber(p), for any number of categories. So ε = |ln(p(1−q)/((1−p)q))| (Wang, Blocki, Li & Jha 2017),
    and the loss is 0 if both bits agree. As one input takes another value, the event is meant only under replace-one
    and local adjacency. A group of k records may change k reports and is charged for all of them.

    If p or q is 0 or 1 (and p ≠ q), some reports reveal the category: ε is infinite, but the profile is not trivial.

    Attributes:
      p, q: in [0, 1].

    Example:
      >>> from hockeystick.accounting import UnaryEncoding
      >>> event = UnaryEncoding.optimised(1.0)
      >>> event.p, round(event.q, 4), round(event.pure_epsilon(), 6)
      (0.5, 0.2689, 1.0)
    """

    p: float = field(converter=_p)
    q: float = field(converter=_q)
    adjacencies: ClassVar[frozenset[Adjacency] | None] = frozenset({Adjacency.REPLACE_ONE, Adjacency.LOCAL})

    @classmethod
    def symmetric(cls, epsilon: float) -> UnaryEncoding:
        """Returns basic RAPPOR at ``epsilon`` (Erlingsson, Pihur & Korolova 2014): p = 1 − q = 1/(1 + e^{−ε/2}).

        Raises:
          InvalidArgumentError: epsilon is negative or not finite.
        """
        odds = math.exp(-field_checks.epsilon(epsilon) / 2)
        return cls(1.0 / (1.0 + odds), odds / (1.0 + odds))

    @classmethod
    def optimised(cls, epsilon: float) -> UnaryEncoding:
        """Returns the encoding of least variance at ``epsilon`` (Wang, Blocki, Li & Jha 2017): p = ½, q = 1/(1 + e^ε).

        Raises:
          InvalidArgumentError: epsilon is negative or not finite.
        """
        odds = math.exp(-field_checks.epsilon(epsilon))
        return cls(0.5, odds / (1.0 + odds))

    def _scaled(self, distance: float) -> PrivacyEvent:
        return compose((self, math.ceil(distance)))

    def _more(self) -> float:
        """Returns P's mass at the largest loss, where both bits agree with P."""
        high, low = max(self.p, self.q), min(self.p, self.q)
        return high * (1.0 - low)

    def pure_epsilon(self) -> float:
        high, low = max(self.p, self.q), min(self.p, self.q)
        if high == low:
            return 0.0
        if low == 0.0 or high == 1.0:
            return math.inf
        # Four operations are off by U each, which log1p does not increase; log1p by 2 U, the product by U: 7 U of 9 U.
        return math.log1p((high - low) / low / (1.0 - high)) * (1 + 1e-15)

    def zcdp_rho(self) -> float:
        same = self.p * self.q + (1.0 - self.p) * (1.0 - self.q)
        return three_point_rho(self.pure_epsilon(), self._more(), same)

    def _rdp(self, orders: Array) -> Array:
        return three_point_rdp(self.pure_epsilon(), self._more(), orders)

    def pair(self) -> DominatingPair:
        epsilon, more = self.pure_epsilon(), self._more()
        if epsilon == 0.0:
            return Atoms((0.0,), (1.0,))
        if math.isinf(epsilon):
            return Atoms((0.0,), (1.0 - more,), more)
        less = more * math.exp(-epsilon)
        return Atoms((epsilon, -epsilon, 0.0), (more, less, max(0.0, 1.0 - more - less)))
