"""Events of selecting one of several candidates by score: the exponential mechanism and permute-and-flip.

For report-noisy-max, which selects by noisy scores, see ``events/answers/noisy_max.py``.
"""

from __future__ import annotations

import math

from attrs import field, frozen

from hockeystick.accounting import field_checks
from hockeystick.accounting.events.answers.drifting_law import BoundedBy, LogLipschitz
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import DominatingPair, ExponentialLossPair
from hockeystick.accounting.losses.renyi_closed_forms import bounded_range_rdp, bounded_range_rho


@frozen
class BoundedRange(PrivacyEvent):
    """A mechanism of bounded range: all losses at distance 1 lie in an interval around 0 of length ``width``.

    The exponential mechanism, Pr[r] ∝ e^{t·s(r)}, and report-noisy-max with Gumbel noise of scale 1/t, which has the
    same law, are of width t·R (Durfee & Rogers 2019). R is the range of the changes of the scores at distance 1, the
    largest minus the least, as a common change of all scores has no effect. It is 2Δ if each score moves by up to Δ
    either way, and Δ if all move in one direction or not at all (monotone scores). So the usual e^{ε·s(r)/(2Δ)} is of
    width ε, or ε/2 if the scores are monotone.

    Permute-and-flip and report-noisy-max with Laplace or exponential noise are *not* of bounded range.

    In a composition, the Rényi curve (that of the worst pair at each order) and the profile of the dominating pair (the
    upper envelope of the profiles of all pairs) are separate bounds; at small widths the Rényi curve is tighter.

    Attributes:
      width: > 0; the event is width-DP.

    Example:
      >>> from hockeystick.accounting import BoundedRange, PureDP, compose, epsilon
      >>> [round(epsilon(compose((event, 100)), 1e-6).upper, 3) for event in (BoundedRange(0.1), PureDP(0.1))]
      [2.4, 4.775]
    """

    width: float = field(converter=field_checks.width)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return BoundedRange(self.width * distance)

    def pure_epsilon(self) -> float:
        return self.width

    def zcdp_rho(self) -> float:
        return bounded_range_rho(self.width)

    def _rdp(self, orders: Array) -> Array:
        return bounded_range_rdp(self.width, orders)

    def pair(self) -> DominatingPair:
        return ExponentialLossPair(self.width, density=-0.5 / math.expm1(-self.width))


@frozen
class PermuteAndFlip(BoundedBy):
    """Permute-and-flip: in random order, each candidate wins with probability e^{t·(s(r) − max s)} until one has won.

    It has the same law as report-noisy-max with exponential noise of scale 1/t (McKenna & Sheldon 2020; Ding, Kifer,
    Steinke, Wang, Xiao & Zhang 2021). Half-way between two score vectors half of ε is paid, so it is dominated by
    Laplace noise of scale 1/ε (``LogLipschitz``), with equality for two candidates. It is not of bounded range.

    Attributes:
      epsilon: t·R, where R is the range of the changes of the scores at distance 1, as for ``BoundedRange``: the usual
        t = ε/(2Δ) costs ε, or ε/2 if the scores are monotone.

    Example:
      >>> from hockeystick.accounting import BoundedRange, PermuteAndFlip, compose, epsilon
      >>> [round(epsilon(compose((event, 100)), 1e-6).upper, 3) for event in (PermuteAndFlip(0.1), BoundedRange(0.1))]
      [4.693, 2.4]
    """

    epsilon: float = field(converter=field_checks.epsilon)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return PermuteAndFlip(self.epsilon * distance)

    def bound(self) -> PrivacyEvent:
        return LogLipschitz(self.epsilon)
