"""A keep-or-redraw decision whose log-ratio depends on a public state, charged by its average over the state.

Let the state σ be public, with the same law for both data sets, and let K(σ) bound |ln(k/k')|. State and bit together
are one mechanism, and as the state alone reveals nothing, its profile is E[H(Ber(k), Ber(k'))] ≤ E[h(K)], where h(κ) is
the larger profile of the two orders of (Ber(k), Ber(k·e^{−κ})) at the largest k; the state determines the order. In
z = 1 − e^{−κ} the second law is linear, so that h is convex and increasing in z, and so is the moment in the Rényi
divergence. Hence, on a grid 0 = t₀ < … < t_m with P[K > t] ≤ T(t), h may be replaced by its chords:

    E[h(K)] ≤ h(0) + Σ (h(tᵢ) − h(tᵢ₋₁))·cᵢ,   cᵢ the mean of T over [zᵢ₋₁, zᵢ],

which is the average of h over the grid with weights cᵢ − cᵢ₊₁. The mean over z is at most Δ/(1 − e^{−Δ}) times the mean
over κ, Δ = tᵢ − tᵢ₋₁. Later events of a composition may depend on state and bit.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.drifting_law import BoundedBy
from hockeystick.accounting.events.answers.randomized_response import LazySwitchDecision
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.given_laws import numbers
from hockeystick.accounting.events.sampling.coins import assignment

# 32 U, where expm1 needs 2 U, and a quotient and two products 3 U.
_ROUNDING = 1.0 + 2.0**-48


def _log_ratios(values: object) -> tuple[float, ...]:
    ratios = numbers("log_ratios", values, low=0.0, high=700.0)
    for i, ratio in enumerate(ratios):
        if ratio <= (ratios[i - 1] if i else 0.0):
            raise InvalidArgumentError(f"log_ratios[{i}]", ratio, "is out of order", "give increasing ratios above 0")
    return ratios


def _chances(values: object) -> tuple[float, ...]:
    chances = numbers("chances", values, low=0.0, high=1.0)
    for i, chance in enumerate(chances[1:], 1):
        if chance > chances[i - 1]:
            raise InvalidArgumentError(f"chances[{i}]", chance, "exceeds the one before", "they must not increase")
    return chances


@frozen
class AveragedSwitchDecision(BoundedBy):
    """A ``LazySwitchDecision`` for which |ln(k/k')| is rarely close to its maximum.

    The average is over a state that was public before the decision, so it holds only if nothing before the decision
    differs between the data sets: for a ``leading`` release, which is charged by ``orientations``. In any other place,
    such as the second decision of a group, the event is the ``LazySwitchDecision`` with the largest log-ratio.

    Attributes:
      keep_probability: the largest keep probability, in any state.
      log_ratios: increasing, > 0; the last one bounds |ln(k/k')| in any state, per unit of distance.
      chances: one for each, nonincreasing: an upper bound on the mean of P[|ln(k/k')| > t] over t between the previous
        log-ratio (0 for the first) and this one.
      log_ratio_cap: a bound on |ln(k/k')| at any distance.

    Example:
      >>> from hockeystick.accounting import AveragedSwitchDecision, LazySwitchDecision, epsilon
      >>> event = AveragedSwitchDecision(0.9, (0.1, 0.3, 1.0), (0.5, 0.1, 1e-3))
      >>> [round(epsilon(one, 1e-2).upper, 3) for one in (event.average(), LazySwitchDecision(0.9, 1.0))]
      [0.904, 1.885]
    """

    keep_probability: float = field(converter=field_checks.keep_probability)
    log_ratios: tuple[float, ...] = field(converter=_log_ratios)
    chances: tuple[float, ...] = field(converter=_chances)
    log_ratio_cap: float = field(default=math.inf, converter=field_checks.log_ratio_cap)

    def __attrs_post_init__(self) -> None:
        if len(self.chances) != len(self.log_ratios):
            reason = f"doesn't have {len(self.log_ratios)} entries"
            raise InvalidArgumentError("chances", self.chances, reason, "give one per log-ratio")
        _ = self.bound()  # refuses a cap below the log-ratios

    def bound(self) -> LazySwitchDecision:
        """Returns the decision in the worst state."""
        return LazySwitchDecision(self.keep_probability, self.log_ratios[-1], self.log_ratio_cap)

    def _scaled(self, distance: float) -> PrivacyEvent:
        cap = self.log_ratio_cap
        ratios = [ratio * distance for ratio in self.log_ratios]
        if ratios[-1] <= cap:
            return AveragedSwitchDecision(self.keep_probability, ratios, self.chances, cap)
        # In the cell that the cap cuts, the chance is at most that at its lower end.
        kept = [ratio for ratio in ratios if ratio < cap]
        chances = (*self.chances[: len(kept)], self.chances[len(kept) - 1] if kept else 1.0)
        return AveragedSwitchDecision(self.keep_probability, (*kept, cap), chances, cap)

    def orientations(self) -> tuple[PrivacyEvent, ...]:
        return (self.average(),)

    def average(self) -> PrivacyEvent:
        """Returns the event of a leading decision: a decision whose log-ratio is drawn publicly."""
        ratios = np.array(self.log_ratios)
        steps = np.diff(ratios, prepend=0.0)
        chances = np.minimum(1.0, np.array(self.chances) * (steps / -np.expm1(-steps)) * _ROUNDING)
        chances = np.maximum.accumulate(chances[::-1])[::-1]
        weights = np.append(chances[:-1] - chances[1:], chances[-1])
        return assignment(weights, [LazySwitchDecision(self.keep_probability, ratio) for ratio in self.log_ratios])
