"""Events of selecting one of several candidates by score: the exponential mechanism and permute-and-flip.

Report-noisy-max, which selects by noisy scores, stands in ``events/answers/noisy_max.py``.
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
    """A draw whose privacy loss lies, for any two inputs at distance 1, in an interval of length ``width`` around 0.

    The exponential mechanism, Pr[r] ∝ e^{t·s(r)}, and report-noisy-max with Gumbel noise of scale 1/t, which is the
    same draw, are of width t·R (Durfee & Rogers 2019). R is the range of the changes of the scores at distance 1, the
    largest minus the least: what all scores gain alike changes nothing. It is 2Δ where each score moves by up to Δ
    either way, and Δ where all move in one direction or not at all (monotone scores). So the usual e^{ε·s(r)/(2Δ)} is
    of width ε, and of ε/2 if the scores are monotone.

    Report-noisy-max with Laplace or exponential noise and permute-and-flip are *not* of this kind.

    In a composition the Rényi curve, which is the worst pair's at each order, and the profile of the dominating pair,
    the upper envelope of all pairs' profiles, are bounds of their own: at small widths the first is the lower one.
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
    """Permute-and-flip: in random order each candidate wins with probability e^{t·(s(r) − max s)}, until one has won.

    ``epsilon`` is t·R, R the range of the changes of the scores at distance 1, as for ``BoundedRange``: the usual
    t = ε/(2Δ) costs ε, or ε/2 if the scores are monotone (McKenna & Sheldon 2020). It is report-noisy-max with
    exponential noise of scale 1/t (Ding, Kifer, Steinke, Wang, Xiao & Zhang 2021).

    Half-way between two score vectors half of it is paid, so it is dominated by Laplace noise of scale 1/epsilon
    (``LogLipschitz``); two candidates attain that. It is not of bounded range.
    """

    epsilon: float = field(converter=field_checks.epsilon)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return PermuteAndFlip(self.epsilon * distance)

    def bound(self) -> PrivacyEvent:
        return LogLipschitz(self.epsilon)
