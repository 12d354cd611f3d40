"""The event of training on batches of a shuffled list.

With the orders of all epochs fixed, the same for both data sets, each epoch is one access to the record. The mechanism
is a mixture over the orders, so that ``epochs`` accesses are a bound, whether orders are new or the same in every
epoch. No amplification by shuffling is part of it. None is known for common noise: taking the record out of a batch
moves another one into it, so that there is no law that all batches without the record share.

The largest ε that is known to be needed (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha & Zhang 2024) is that of other
records with gradients −1 against the record's +1: up to a common shift, in one of t steps the output is N(2, σ²) with
the record and N(1, σ²) without it, in the others N(0, σ²). The event "the largest output is above τ" shows

    δ ≥ 1 − Φ(τ/σ)^{t−1}·Φ((τ−2)/σ) − e^ε·(1 − Φ(τ/σ)^{t−1}·Φ((τ−1)/σ)).

Over epochs with the same gradients and new orders, the largest outputs of all epochs are independent. Which of some
cells each of them lies in has two laws, whose composition is a lower bound. With the same order in every epoch, the
averages over epochs are one epoch with noise σ/√epochs.
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
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.loss_grid import SNAP, LossPmf, convolution, from_pair
from hockeystick.accounting.numerics import crossings, directed_rounding

_REACH = 40.0  # thresholds, in deviations above 2
_TRIALS = 2001
_PER_DEVIATION = 64.0  # cells of a grid of losses
_MOST_CELLS = 2.0**21
_MOST_EPOCHS = 2**12  # beyond them a grid with so many cells is too coarse
_LOWEST = -18.0  # ln of P's mass below the thresholds, all of which is one cell
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

    def lower_bound(self, delta: float, *, order: str | None = None) -> float:
        """Returns an ε that shuffled Gaussian steps are known to need at ``delta``; 0 if none is.

        It holds for a record that is replaced by null while the gradients of all others point the other way; see the
        module.

        Args:
          delta: in [0, 1].
          order: "new" for lists that are shuffled in every epoch, "same" for lists shuffled once; by default the
            smaller one of the two bounds, which holds for either. Of more than 4096 new orders one epoch is looked at.

        Raises:
          InvalidArgumentError: ``delta`` is outside [0, 1], or an unknown order.
          UnsupportedEventError: ``event`` is not one of Gaussian noise.

        Example: ten epochs, of which 19.4 is certified.

          >>> from hockeystick.accounting import Gaussian, ShuffledBatches
          >>> event = ShuffledBatches(10, 1000, Gaussian(1.0))
          >>> round(event.lower_bound(1e-6, order="new"), 1), round(event.lower_bound(1e-6, order="same"), 1)
          (5.4, 19.4)
        """
        target = validate.probability("delta", delta)
        validate.one_of("order", order or "new", "new", "same")
        mu = gaussian_shift(self.event)
        if not mu:
            raise UnsupportedEventError(f"{self.event} is not Gaussian noise, the only kind with a known lower bound")
        one = self._shown_by_one(1.0 / mu, target)
        if self.epochs == 1 or target >= 1.0:
            return one
        found = []
        if order != "same" and self.epochs > _MOST_EPOCHS:
            return one
        if order != "same":
            found.append(self._shown_by_all(1.0 / mu, target))
        if order != "new":
            found.append(self._shown_by_one(directed_rounding.quotient_up(1.0 / mu, math.sqrt(self.epochs)), target))
        return max(one, min(found))

    def _shown_by_one(self, sigma: float, target: float) -> float:
        """The ε that one epoch shows at a δ."""
        low, high, found = 0.0, 2.0 + _REACH * sigma, 0.0
        for _ in range(3):  # finer and finer
            trials = np.linspace(low, high, _TRIALS)
            shown = self._gap(trials, sigma, target)
            best = int(np.argmax(shown))
            found = max(found, float(shown[best]))
            low, high = float(trials[max(best - 1, 0)]), float(trials[min(best + 1, _TRIALS - 1)])
        return found

    def _shown_by_all(self, sigma: float, target: float) -> float:
        """The ε that the largest outputs of all epochs show at a δ, if each epoch has a new order."""
        pair = self._largest(sigma)
        p, losses = np.array(pair.p), np.array(pair.losses)
        deviation, reach = math.sqrt(float(p @ (losses - p @ losses) ** 2)), float(np.abs(losses).max(initial=0.0))
        step = max(deviation / _PER_DEVIATION, self.epochs * 2.0 * reach / _MOST_CELLS, 1e-12)
        law = convolution([(from_pair(pair, step, False), self.epochs)], step, False)
        total, masses = law.losses(), law.p
        off = math.log1p(2.1 * _OFF) * self.epochs

        def excess(epsilon: float) -> float:
            above = total > epsilon
            # A sum of at most 2^22 terms is off by less of itself than is taken off, and by 1e-15 of 1 at most.
            shown = float(-np.expm1(epsilon - total[above]) @ masses[above]) * (1.0 - _OFF) - 1e-15
            return math.log(shown / target) - off if shown > 0.0 else -math.inf

        high = float(total[-1])
        if target <= 0.0 or high <= 0.0 or not excess(0.0) > 0.0:
            return 0.0
        found = crossings.falling(excess, high, upper=False, accuracy=1e-7)
        return max(0.0, found - off - 2.0 * SNAP * self.epochs * reach)

    def _largest(self, sigma: float) -> Atoms:
        """The two laws of the cell in which the largest output lies; masses are off by ``_OFF`` at most."""
        low, high = -2.0 * sigma, 2.0 + 2.0 * sigma
        while float(self._log_cdf(high, 1.0, sigma)) < -1e-12:
            high += sigma
        trials = np.linspace(low, high, _TRIALS)
        p, q = (self._log_cdf(trials, shift, sigma) for shift in (2.0, 1.0))
        kept = np.concatenate([[-math.inf], p[(p > _LOWEST)]]), np.concatenate([[-math.inf], q[(p > _LOWEST)]])
        masses = []
        for logs in kept:
            inner = np.exp(logs[1:]) * -np.expm1(logs[:-1] - logs[1:])
            masses.append(np.append(inner, -np.expm1(logs[-1])))
        with np.errstate(divide="ignore"):
            losses = np.log(masses[0]) - np.log(masses[1])
        seen = np.isfinite(losses)
        return Atoms(tuple(losses[seen].tolist()), tuple(masses[0][seen].tolist()))

    def _log_cdf(self, threshold: Array | float, shift: float, sigma: float) -> Array:
        others = (self.steps - 1) * special.log_ndtr(threshold / sigma)
        return np.asarray(others + special.log_ndtr((threshold - shift) / sigma))

    def _gap(self, threshold: Array, sigma: float, delta: float) -> Array:
        """The ε that the event "the largest output is above the threshold" shows; −inf for none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            p = -np.expm1(self._log_cdf(threshold, 2.0, sigma)) * (1.0 - _OFF)
            q = -np.expm1(self._log_cdf(threshold, 1.0, sigma)) * (1.0 + _OFF)
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
