"""The event of training on batches of a shuffled list.

With the orders of all epochs fixed, the same for both data sets, each epoch is one access to the record. The mechanism
is a mixture over the orders, so that ``epochs`` accesses are a bound, whether orders are new or the same in every
epoch. No amplification by shuffling is part of it. None is known for common noise: taking the record out of a batch
moves another one into it, so that there is no law that all batches without the record share.

The largest ε that is known to be needed (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024) is that of other
records with gradients −1 against the record's +1: up to a common shift, in one of t steps the output is N(2, σ²) with
the record and N(1, σ²) without it, in the others N(0, σ²). The event "the largest output is above τ" shows

    δ ≥ 1 − Φ(τ/σ)^{t−1}·Φ((τ−2)/σ) − e^ε·(1 − Φ(τ/σ)^{t−1}·Φ((τ−1)/σ)).
"""

from __future__ import annotations

import math

import attrs
import numpy as np
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import is_event
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.events.sampling.shared import gaussian_shift
from hockeystick.accounting.losses.dominating_pairs import DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf

_REACH = 40.0  # thresholds, in deviations above 2
_TRIALS = 2001
_OFF = 1e-9  # what the two probabilities may be off by, in proportion: far more than the normal law's functions are


def _epochs(value: int) -> int:
    return validate.integer("epochs", value, low=1, high=2**40)


def _steps(value: int) -> int:
    return validate.integer("steps", value, low=1, high=2**40)


@frozen
class ShuffledBatches(PrivacyEvent):
    """``epochs`` passes over a list that is shuffled and cut into ``steps`` batches: one access to a record a pass.

    Orders may be new in every epoch or always the same. Its bound is ``compose((event, epochs))``: no amplification by
    shuffling is known for common noise, and its method is "shuffle-no-amplification". ``lower_bound`` shows how much a
    proof could gain at most.

    It is meant under replace-with-null, where the changed record contributes nothing and the others stay in their
    places; adding or removing a record would move others to other batches. Under replace-one, ``event`` is the cost of
    a replacement in one batch. A list that is padded with null records to a public length is one of the first kind.

    Attributes:
      epochs: the number of passes, ≥ 1.
      steps: the number of batches of a pass, ≥ 1.
      event: the cost of one batch for a record in it.

    Raises:
      InvalidArgumentError: a count that is not an integer ≥ 1, or not an event.

    Example: one epoch of 1000 steps. No proof can show less than 3.72.

      >>> from hockeystick.accounting import Gaussian, ShuffledBatches, epsilon
      >>> event = ShuffledBatches(1, 1000, Gaussian(1.0))
      >>> print(f"{epsilon(event, 1e-6):.2f}", epsilon(event, 1e-6).method, round(event.lower_bound(1e-6), 2))
      4.89 shuffle-no-amplification 3.72
    """

    epochs: int = field(converter=_epochs)
    steps: int = field(converter=_steps)
    event: PrivacyEvent = field(validator=is_event)
    adjacencies = frozenset({Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL})

    @property
    def method(self) -> str:
        """The name of the bound."""
        return "shuffle-no-amplification"

    def accepts(self, adjacency: Adjacency) -> bool:
        return super().accepts(adjacency) and self.event.accepts(adjacency)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def _scaled(self, distance: float) -> PrivacyEvent:
        # A group may share a batch or not: where that costs more, it is the first.
        k = math.ceil(distance)
        return attrs.evolve(self, event=self.event.at(k)) if self.event.superadditive else chain(self, k)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        if (removed, added) != (1, 1):
            return super().replaced(removed, added)
        return attrs.evolve(self, event=self.event.replaced(1, 1))  # the new record has the old one's place

    def directions(self) -> tuple[PrivacyEvent, ...]:
        ways = self.event.directions()
        return tuple(attrs.evolve(self, event=way) for way in ways) if len(ways) > 1 else (self,)

    def restated(self) -> PrivacyEvent:
        """Returns the composition that this event is charged as."""
        return compose((self.event, self.epochs))

    def lower_bound(self, delta: float) -> float:
        """Returns an ε that one epoch of shuffled Gaussian steps is known to need at ``delta``; 0 if none is.

        It is a lower bound for any number of epochs, as later ones are not looked at. It holds for a record that is
        replaced by null while the gradients of all others point the other way; see the module.

        Raises:
          InvalidArgumentError: ``delta`` is outside [0, 1].
          UnsupportedEventError: ``event`` is not one of Gaussian noise.
        """
        target = validate.probability("delta", delta)
        mu = gaussian_shift(self.event)
        if not mu:
            raise UnsupportedEventError(f"{self.event} is not Gaussian noise, the only kind with a known lower bound")
        sigma = 1.0 / mu

        low, high, found = 0.0, 2.0 + _REACH * sigma, 0.0
        for _ in range(3):  # finer and finer
            trials = np.linspace(low, high, _TRIALS)
            shown = self._gap(trials, sigma, target)
            best = int(np.argmax(shown))
            found = max(found, float(shown[best]))
            low, high = float(trials[max(best - 1, 0)]), float(trials[min(best + 1, _TRIALS - 1)])
        return found

    def _gap(self, threshold: Array, sigma: float, delta: float) -> Array:
        """The ε that the event "the largest output is above the threshold" shows; −inf for none."""
        others = (self.steps - 1) * special.log_ndtr(threshold / sigma)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = -np.expm1(others + special.log_ndtr((threshold - 2.0) / sigma)) * (1.0 - _OFF)
            q = -np.expm1(others + special.log_ndtr((threshold - 1.0) / sigma)) * (1.0 + _OFF)
            return np.asarray(np.where((p > delta) & (q > 1e-290), np.log(p - delta) - np.log(q), -math.inf))

    def failure_delta(self) -> float:
        return self.restated().failure_delta()

    def pure_epsilon(self) -> float:
        return self.restated().pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.restated().zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return self.restated().rdp(orders)

    def has_profile(self) -> bool:
        return self.event.has_profile()

    def pair(self) -> DominatingPair | None:
        return self.restated().pair()

    def loss_support(self) -> tuple[float, float]:
        return self.restated().loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return self.restated().loss_law(step, upper)
