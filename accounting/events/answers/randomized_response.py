"""Events of few outcomes: randomised response, and the keep-or-redraw decision of a lazy algorithm."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import field_checks
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.one_category import OneCategory
from hockeystick.accounting.events.basic.checked_event import is_boolean
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair


@frozen
class RandomizedResponse(OneCategory):
    """k-ary randomised response: it reports the true category with odds e^ε against each of the others.

    One input takes another value, so the event is meant only under replace-one and local adjacency. A group of k
    records may change k reports and is charged for all of them.

    Attributes:
      epsilon: ≥ 0.
      categories: k, ≥ 2.

    Example:
      >>> from hockeystick.accounting import RandomizedResponse, delta
      >>> [round(delta(RandomizedResponse(1.0, k), 0.5).upper, 4) for k in (2, 4, 16)]
      [0.2876, 0.187, 0.0604]
    """

    categories: int = field(default=2, converter=field_checks.categories)

    def _masses(self) -> tuple[float, float, float]:
        """Returns P's mass at loss +ε, −ε and 0."""
        total = 1.0 + (self.categories - 1) * math.exp(-self.epsilon)
        less = math.exp(-self.epsilon) / total
        return 1.0 / total, less, (self.categories - 2) * less

    def two_point(self) -> tuple[float, float] | None:
        return (self.epsilon, 0.0) if self.categories == 2 else None


@frozen
class LazySwitchDecision(PrivacyEvent):
    """A public bit "keep or redraw" whose keep probability depends on the changed record.

    The keep probabilities k, k' for the two data sets are at most K = ``keep_probability``, and |ln(k/k')| is at most
    ``log_ratio`` per unit of distance. In each direction the pair is dominated by Ber(K) against Ber(K·e^{−log_ratio})
    in one of the two orders, which may depend on earlier outcomes. So a composition charges the pointwise maximum of
    both. Only if the release is the first whose law differs between the data sets may the maximum be taken last, by
    ``orientations``.

    Attributes:
      keep_probability: K, in [0, 1].
      log_ratio: ≥ 0, per unit of distance.
      log_ratio_cap: the largest |ln(k/k')| at any distance; inf by default.

    Example:
      >>> from hockeystick.accounting import LazySwitchDecision, epsilon
      >>> event = LazySwitchDecision(0.9, 0.01)
      >>> round(event.pure_epsilon(), 4), round(epsilon(event, 1e-3).upper, 4)
      (0.0858, 0.0765)
    """

    keep_probability: float = field(converter=field_checks.keep_probability)
    log_ratio: float = field(converter=field_checks.log_ratio)
    log_ratio_cap: float = field(default=math.inf, converter=field_checks.log_ratio_cap)

    def __attrs_post_init__(self) -> None:
        if self.log_ratio_cap < self.log_ratio:
            reason = f"is below log_ratio={self.log_ratio}"
            raise InvalidArgumentError("log_ratio_cap", self.log_ratio_cap, reason, "give at least log_ratio")

    def _scaled(self, distance: float) -> LazySwitchDecision:
        ratio = min(self.log_ratio * distance, self.log_ratio_cap)
        return LazySwitchDecision(self.keep_probability, ratio, self.log_ratio_cap)

    def redraw_log_ratio(self) -> float:
        """Returns ln((1−k')/(1−k)), the loss of a redraw; inf if only one of the data sets allows a redraw."""
        k = self.keep_probability
        gap = -k * math.expm1(-self.log_ratio)
        if gap == 0.0:
            return 0.0
        return math.inf if k == 1.0 else math.log1p(gap / (1.0 - k))

    def pure_epsilon(self) -> float:
        return max(self.log_ratio if self.keep_probability else 0.0, self.redraw_log_ratio())

    def zcdp_rho(self) -> float:
        if not self.keep_probability:
            return 0.0
        return (self.log_ratio + self.redraw_log_ratio()) ** 2 / 8  # a range of that width: Hoeffding's lemma

    def _rdp(self, orders: Array) -> Array:
        return np.maximum(*(event.rdp(orders) for event in self.orientations()))

    def pair(self) -> DominatingPair:
        # The profiles of the two orders are lines in e^ε that meet at ε = 0, so for ε ≥ 0 one of them is the larger one
        # throughout; with its mirror image below 0 it gives a symmetric pair of three atoms.
        k, loss = self.keep_probability, self.redraw_log_ratio()
        other = k * math.exp(-self.log_ratio)
        if 1.0 - k <= other:
            p, q = 1.0 - k - k * math.expm1(-self.log_ratio), 1.0 - k
        else:
            p, q, loss = k, other, self.log_ratio
        if math.isinf(loss):  # k = 1
            return Atoms((0.0,), (1.0 - p,), p)
        return Atoms((loss, -loss, 0.0), (p, q, max(0.0, 1.0 - p - q)))

    def orientations(self) -> tuple[PrivacyEvent, ...]:
        return Oriented(self, True), Oriented(self, False)


@frozen
class Oriented(PrivacyEvent):
    """A keep-or-redraw decision in one direction; only the worse of both directions is a guarantee.

    Attributes:
      event: the decision in both directions.
      keep_more: whether P is the law that keeps more often.

    Example:
      >>> from hockeystick.accounting import LazySwitchDecision, Oriented, delta
      >>> [round(delta(Oriented(LazySwitchDecision(0.9, 0.1), more), 0.2).upper, 4) for more in (True, False)]
      [0.0, 0.0635]
    """

    event: LazySwitchDecision = field()
    keep_more: bool = field(validator=is_boolean)

    @event.validator
    def _event_is_decision(self, _: object, value: object) -> None:
        if not isinstance(value, LazySwitchDecision):
            raise InvalidArgumentError("event", value, "has no orientation", "give a LazySwitchDecision")

    def _scaled(self, distance: float) -> PrivacyEvent:
        return Oriented(self.event._scaled(distance), self.keep_more)

    def _atoms(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Returns (P's mass, loss) of "keep" and of "redraw"."""
        k, kappa, loss = self.event.keep_probability, self.event.log_ratio, self.event.redraw_log_ratio()
        if self.keep_more:
            return (k, kappa), (1.0 - k, -loss)
        return (k * math.exp(-kappa), -kappa), (1.0 - k - k * math.expm1(-kappa), loss)

    def pure_epsilon(self) -> float:
        return self.event.pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.event.zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        a = np.asarray(orders, dtype=float)
        terms = [math.log(mass) + (a - 1) * loss for mass, loss in self._atoms() if mass]
        return np.asarray(special.logsumexp(np.stack(terms), axis=0) / (a - 1))

    def pair(self) -> DominatingPair:
        finite = [(mass, loss) for mass, loss in self._atoms() if not math.isinf(loss)]
        infinite = sum(mass for mass, loss in self._atoms() if loss == math.inf)
        return Atoms(tuple(loss for _, loss in finite), tuple(mass for mass, _ in finite), infinite)
