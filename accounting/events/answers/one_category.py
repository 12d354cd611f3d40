"""The base of events of one category that is reported at random: a loss of ε, −ε or 0."""

from __future__ import annotations

import math
from typing import ClassVar

from attrs import field, frozen

from hockeystick.accounting import field_checks
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.renyi_closed_forms import three_point_rdp, three_point_rho


@frozen
class OneCategory(PrivacyEvent):
    """Base of events whose loss is ε, −ε or 0, and which a group of n records pays n times: each has its own report.

    Attributes:
      epsilon: ≥ 0.
    """

    epsilon: float = field(converter=field_checks.epsilon)
    adjacencies: ClassVar[frozenset[Adjacency] | None] = frozenset({Adjacency.REPLACE_ONE, Adjacency.LOCAL})

    def _masses(self) -> tuple[float, float, float]:
        """Returns P's mass at loss +ε, −ε and 0."""
        raise NotImplementedError

    def _scaled(self, distance: float) -> PrivacyEvent:
        return compose((self, math.ceil(distance)))

    def pure_epsilon(self) -> float:
        return self.epsilon

    def zcdp_rho(self) -> float:
        more, _, same = self._masses()
        return three_point_rho(self.epsilon, more, same)

    def _rdp(self, orders: Array) -> Array:
        return three_point_rdp(self.epsilon, self._masses()[0], orders)

    def pair(self) -> DominatingPair:
        return Atoms((self.epsilon, -self.epsilon, 0.0), self._masses())
