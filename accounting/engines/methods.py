"""The ways to bound an event that has one direction: each says when it applies, and gives ε at δ and δ at ε.

``best_bound`` asks them. A way is an engine with the event as that engine takes it; making one computes no bound.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
from attrs import frozen

from hockeystick.accounting.engines import (
    contour_integral,
    cut_loss,
    event_parts,
    exact_profile,
    grid_plan,
    listed_losses,
    loss_distribution,
    renyi,
    renyi_profile,
)
from hockeystick.accounting.errors import HockeystickError, NumericalError
from hockeystick.accounting.events.basic.composition import Composed
from hockeystick.accounting.events.basic.declared import ZCDP
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.sampling.shuffle_bounds import ShuffleBound
from hockeystick.accounting.events.sampling.shuffled import Shuffled
from hockeystick.accounting.field_checks import LARGEST
from hockeystick.accounting.losses import gaussian_profile, optimal_composition
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.losses.normal_mixtures import MixturePair
from hockeystick.accounting.numerics import crossings, directed_rounding

_QUICK = 2.0**26  # of work
_COARSER = 3  # powers of 2 by which the grid of a coarse bound is coarser
_LEAST_DELTA = 1e-280  # of what is cut off
_DOUBT = 1e-5  # a part of ε
_NOTHING = 1e-10
_LARGEST_SHUFFLED = 690.0  # a loss whose exponential is a float
_SHARP = 1e-7  # of an ε that is searched for
_SOME_ORDERS = 1.0 + np.geomspace(1.0, 1e4, 9)


@frozen(eq=False)
class Method(ABC):
    """One way to bound an event, by the bounds of what is left when ``failure`` is set aside.

    Attributes:
      failure: a δ that is taken off the δ that is given, and added to the δ that is found.
      name: what users know it by.
      exact: nothing else need be asked beside it.
      refusal: the errors by which it says that it knows no bound, so that the others stand.
    """

    failure: float
    name: ClassVar[str]
    exact: ClassVar[bool] = False
    refusal: ClassVar[type[HockeystickError]] = NumericalError

    def epsilon(self, delta: float, upper: bool) -> float:
        """Returns a bound on ε from above, or from below; inf where none is known."""
        spare = delta if self.failure == 0.0 else math.nextafter(delta - self.failure, -1.0)
        return math.inf if spare < 0.0 else self._epsilon(spare, upper)

    def delta(self, epsilon: float, upper: bool) -> float:
        """Returns a bound on δ from above, or from below; 1 where none is known."""
        if self.failure >= 1.0:
            return 1.0
        total = self._delta(epsilon, upper) + self.failure
        if self.failure:
            total = math.nextafter(total, 2.0 if upper else -1.0)
        return min(1.0, max(0.0, total))

    def doubt(self, epsilon: float, delta: float) -> bool:
        """Says whether the bound may be so far above the truth that another engine is worth its cost."""
        return False

    @abstractmethod
    def _epsilon(self, delta: float, upper: bool) -> float:
        """ε with the failure set aside."""

    @abstractmethod
    def _delta(self, epsilon: float, upper: bool) -> float:
        """δ with the failure set aside."""


# --- sums over the parts of a composition ----------------------------------------------------------------------------


@frozen(eq=False)
class Pure(Method):
    """Privacy losses add up."""

    event: PrivacyEvent
    name = "pure"

    def _epsilon(self, delta: float, upper: bool) -> float:
        return self.event.pure_epsilon()

    def _delta(self, epsilon: float, upper: bool) -> float:
        pure = self.event.pure_epsilon()
        return 0.0 if epsilon >= pure and not math.isinf(pure) else 1.0


@frozen(eq=False)
class Renyi(Method):
    """Rényi divergences add up, at the best order."""

    event: PrivacyEvent
    name = "rdp"

    def _epsilon(self, delta: float, upper: bool) -> float:
        found = renyi.epsilon(self.event, delta) if delta > 0.0 else math.inf
        return found if upper or math.isinf(found) else renyi.epsilon_floor(self.event, delta, found)

    def _delta(self, epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):  # only what P puts where Q has nothing is left, and a finite ρ rules that out
            return 0.0 if math.isfinite(self.event.zcdp_rho()) else 1.0
        return directed_rounding.exp(renyi.log_delta(self.event, epsilon), upper=upper)


@frozen(eq=False)
class FewOrders(Method):
    """A schedule's Rényi curve at the order of the saddle point; all orders would take long for so many parts."""

    event: PrivacyEvent
    name = "rdp"

    @classmethod
    def of(cls, event: PrivacyEvent, failure: float) -> Self | None:
        """Returns the way where the event is a schedule of many sampled Gaussians."""
        return cls(failure, event) if contour_integral.is_schedule(event) else None

    def _epsilon(self, delta: float, upper: bool) -> float:
        return renyi.epsilon_by(self.event, delta, self._orders(delta=delta)) if delta > 0.0 else math.inf

    def _delta(self, epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):
            return 1.0
        found = renyi.log_delta_by(self.event, epsilon, self._orders(epsilon=epsilon))
        return directed_rounding.exp(found, upper=upper)

    def _orders(self, epsilon: float | None = None, delta: float | None = None) -> Array:
        try:
            found = contour_integral.saddle(self.event, epsilon=epsilon, delta=delta, work=_QUICK)
        except NumericalError:  # close to the largest loss its moments take long
            return _SOME_ORDERS
        return np.array([1.0 + found])


@frozen(eq=False)
class Concentrated(Renyi):
    """ρ adds up: the Rényi curve of zCDP alone."""

    name = "zcdp"

    @classmethod
    def of(cls, event: PrivacyEvent, failure: float) -> Self | None:
        """Returns the way where ρ is finite."""
        rho = event.zcdp_rho()
        return cls(failure, ZCDP(rho)) if rho <= LARGEST**2 else None


@frozen(eq=False)
class Gaussians(Method):
    """The exact profile of a composition of Gaussians."""

    mu: float
    name = "gaussian"

    def _epsilon(self, delta: float, upper: bool) -> float:
        return gaussian_profile.epsilon(self.mu, delta, upper=upper)

    def _delta(self, epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):
            return 0.0
        return directed_rounding.exp(gaussian_profile.log_delta(self.mu, epsilon, upper=upper), upper=upper)


@frozen(eq=False)
class TwoPoint(Method):
    """The exact profile of a composition of (ε, δ)-DP (Kairouz, Oh & Viswanath)."""

    parts: tuple[optimal_composition.Part, ...]
    name = "kov"

    @classmethod
    def of(cls, event: PrivacyEvent) -> Self | None:
        """Returns the way where every part is worst at a randomised response; its δ is in the profile."""
        parts = event_parts.two_point_parts(event)
        return None if parts is None else cls(event_parts.failures(event), parts)

    def _epsilon(self, delta: float, upper: bool) -> float:
        return optimal_composition.epsilon(self.parts, delta, upper=upper)

    def _delta(self, epsilon: float, upper: bool) -> float:
        return optimal_composition.delta(self.parts, epsilon, upper=upper)


# --- the profile of one event in closed form -------------------------------------------------------------------------


@frozen(eq=False)
class Listed(Method):
    """A single event with finitely many losses, by sums over them."""

    merged: PrivacyEvent
    name = "direct"

    @classmethod
    def of(cls, merged: PrivacyEvent, failure: float) -> Self | None:
        """Returns the way where the losses are listed; of an event whose Gaussians are merged."""
        return None if listed_losses.laws(merged) is None else cls(failure, merged)

    def _epsilon(self, delta: float, upper: bool) -> float:
        return max(listed_losses.epsilon(law, delta, upper=upper) for law in self._laws(upper))

    def _delta(self, epsilon: float, upper: bool) -> float:
        return max(listed_losses.delta(law, epsilon, upper=upper) for law in self._laws(upper))

    def _laws(self, upper: bool) -> tuple[Atoms, ...]:
        return listed_losses.laws(self.merged, upper=upper) or ()


@frozen(eq=False)
class OwnProfile(Method):
    """A single event by the closed form of its own profile."""

    curve: exact_profile.Curve
    name = "direct"

    @classmethod
    def of(cls, event: PrivacyEvent, failure: float) -> OwnProfile | None:
        """Returns the way where there is such a form."""
        pair = None if isinstance(event, Composed) else event.pair()
        curve = None if pair is None else exact_profile.curve_of(pair)
        if curve is None:
            return None
        return ExactProfile(failure, curve) if isinstance(pair, MixturePair) else cls(failure, curve)

    def _epsilon(self, delta: float, upper: bool) -> float:
        return self.curve.epsilon(delta, upper) if delta > 0.0 else math.inf

    def _delta(self, epsilon: float, upper: bool) -> float:
        return 1.0 if math.isinf(epsilon) else self.curve.delta(epsilon, upper)


@frozen(eq=False)
class ExactProfile(OwnProfile):
    """The same of mixtures of normals, which no other bound is below."""

    exact = True


@frozen(eq=False)
class ShuffledReports(Method):
    """The reports of one shuffle, by the bound on δ that suits the local randomiser; a subclass for each name."""

    curve: ShuffleBound
    largest: float

    @staticmethod
    def of(event: Shuffled) -> ShuffledReports:
        """Returns the way; what may reveal an input is in its δ."""
        curve = event.bound()
        largest = math.inf if event.local.failure_delta() else event.local.pure_epsilon()
        return next(way for way in SHUFFLES if way.name == curve.name)(0.0, curve, largest)

    def _epsilon(self, delta: float, upper: bool) -> float:
        def log_excess(x: float) -> float:
            found = self._delta(x, upper)
            return math.log(found) - math.log(delta) if found > 0.0 else -math.inf

        if delta <= 0.0:
            return self.largest if upper else 0.0
        if self._delta(0.0, upper) <= delta:
            return 0.0
        high = min(self.largest, _LARGEST_SHUFFLED)
        if log_excess(high) > 0.0:
            return math.inf if upper else high
        return crossings.falling(log_excess, high, upper=upper, accuracy=_SHARP)

    def _delta(self, epsilon: float, upper: bool) -> float:
        return self.curve.delta(epsilon) if upper else self.curve.delta_floor(epsilon)


class ShuffleExact(ShuffledReports):
    """All divisions of the others of two reports."""

    name = "shuffle-exact"


class ShuffleBlanket(ShuffledReports):
    """The common part of the laws of all inputs."""

    name = "shuffle-blanket"


class ShuffleClone(ShuffledReports):
    """The local ε and δ(ε) alone."""

    name = "shuffle-clone"


SHUFFLES: tuple[type[ShuffledReports], ...] = (ShuffleExact, ShuffleBlanket, ShuffleClone)


# --- laws of the privacy loss, convolved on a grid -------------------------------------------------------------------


@frozen(eq=False)
class LossGrid(Method):
    """Laws of the privacy loss, convolved on a grid of all losses, or of those that are not cut off above ε."""

    event: PrivacyEvent
    name = "pld"

    @classmethod
    def of(cls, merged: PrivacyEvent, failure: float) -> Self | None:
        """Returns the way where a part has a dominating pair; of an event whose Gaussians are merged."""
        complete = renyi_profile.completed(merged)
        return None if complete is None else cls(failure, complete)

    def _epsilon(self, delta: float, upper: bool) -> float:
        if delta <= 0.0:
            return math.inf
        if delta > _LEAST_DELTA and cut_loss.is_better(self.event, None, delta):
            with contextlib.suppress(NumericalError, ArithmeticError, ValueError):
                if math.isfinite(cut := cut_loss.epsilon(self.event, delta, upper=upper)):
                    return cut
        return loss_distribution.epsilon(self.event, delta, upper=upper)

    def _delta(self, epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):
            return 1.0
        if epsilon > 0.0 and cut_loss.is_better(self.event, epsilon, None):
            with contextlib.suppress(NumericalError, ArithmeticError, ValueError):
                return cut_loss.delta(self.event, epsilon, upper=upper)
        if epsilon < cut_loss.LEAST_EPSILON:
            with contextlib.suppress(HockeystickError, ArithmeticError, ValueError):
                if (at_none := cut_loss.delta_at_none(self.event, upper=upper)) is not None:
                    return at_none
        return loss_distribution.delta(self.event, epsilon, upper=upper)

    def doubt(self, epsilon: float, delta: float) -> bool:
        if not (0.0 < epsilon < math.inf and delta > _LEAST_DELTA):
            return epsilon > 0.0
        if cut_loss.is_better(self.event, None, delta):
            part = cut_loss.excess(self.event, epsilon, delta)
            return part > _DOUBT and part * epsilon > _NOTHING
        return grid_plan.is_clamped(self.event)


@frozen(eq=False)
class CoarseGrid(Method):
    """The law of losses cut off on a coarse grid; no bound where a grid over all losses is better."""

    event: PrivacyEvent
    name = "pld"

    def _epsilon(self, delta: float, upper: bool) -> float:
        if delta <= _LEAST_DELTA or not cut_loss.is_better(self.event, None, delta):
            return math.inf
        return cut_loss.epsilon(self.event, delta, upper=upper, coarser=_COARSER)

    def _delta(self, epsilon: float, upper: bool) -> float:
        if not (0.0 < epsilon < math.inf and cut_loss.is_better(self.event, epsilon, None)):
            return 1.0
        return cut_loss.delta(self.event, epsilon, upper=upper, coarser=_COARSER)


# --- moments of the privacy loss, inverted along a line --------------------------------------------------------------


@frozen(eq=False)
class Contour(Method):
    """Moments of the privacy loss, inverted along a line."""

    event: PrivacyEvent
    name = "contour"
    refusal = HockeystickError
    work: ClassVar[float] = contour_integral.WORK

    def _epsilon(self, delta: float, upper: bool) -> float:
        if delta <= 0.0:
            return math.inf
        return contour_integral.epsilon(self.event, delta, upper=upper, work=self.work)

    def _delta(self, epsilon: float, upper: bool) -> float:
        if math.isinf(epsilon):
            return 1.0
        low, high = _inverted(self.event, epsilon, self.work)
        return high if upper else low


@lru_cache(maxsize=4)
def _inverted(event: PrivacyEvent, epsilon: float, work: float) -> tuple[float, float]:
    """Both ends of δ, of which one inversion knows; a bracket asks for one after the other."""
    return contour_integral.delta(event, epsilon, work=work)


@frozen(eq=False)
class QuickContour(Contour):
    """The same with little work, unless losses cut off above ε have a grid of their own that is fine."""

    work = _QUICK

    def _epsilon(self, delta: float, upper: bool) -> float:
        if delta > _LEAST_DELTA and cut_loss.suits(self.event, None, delta):
            raise NumericalError("the cut law is enough")
        return super()._epsilon(delta, upper)

    def _delta(self, epsilon: float, upper: bool) -> float:
        if 0.0 < epsilon < math.inf and cut_loss.suits(self.event, epsilon, None):
            raise NumericalError("the cut law is enough")
        return super()._delta(epsilon, upper)

    def doubt(self, epsilon: float, delta: float) -> bool:
        if not 0.0 < epsilon < math.inf:
            return False
        try:
            return epsilon - self.epsilon(delta, False) > max(_DOUBT * epsilon, _NOTHING)
        except self.refusal:
            return True


@frozen(eq=False)
class SharpContour(Method):
    """The contour engine where its bracket is so narrow that nothing else need be asked; else it refuses.

    A schedule's parts are those of Gaussian mechanisms that attain their pairs: no sound bound is below the truth, of
    which the bracket is one.
    """

    event: PrivacyEvent
    name = "contour"
    exact = True

    @classmethod
    def of(cls, event: PrivacyEvent, failure: float) -> Self | None:
        """Returns the way where the event is a schedule of many sampled Gaussians."""
        return cls(failure, event) if contour_integral.is_schedule(event) else None

    def _epsilon(self, delta: float, upper: bool) -> float:
        return contour_integral.sharp_epsilon(self.event, delta) if delta > 0.0 else math.inf

    def _delta(self, epsilon: float, upper: bool) -> float:
        low, high = contour_integral.delta(self.event, epsilon) if math.isfinite(epsilon) else (0.0, 1.0)
        if high > low * (1 + 1e-7):
            raise NumericalError("the bracket is too wide to be the only one")
        return high
