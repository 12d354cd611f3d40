"""Gaussian noise on a Poisson sample that is cut down to a largest batch."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from scipy import stats

from . import parameters, validate
from .additive_noise import Gaussian
from .adjacency import Adjacency
from .directed import DirectedEvent, direction
from .errors import InvalidArgumentError, UnsupportedEventError
from .event import NO_EVENT, Array, PrivacyEvent
from .loss_pmf import LossPmf, discretise
from .sampling import PoissonSampled

_ROUND = 1 + 1e-11  # what the tails of a binomial law are good to


def _population(value: int) -> int:
    return validate.integer("population", value, low=1)


def _batch(value: int) -> int:
    return validate.integer("batch", value, low=0)


@frozen
class TruncatedPoissonSampled(DirectedEvent):
    """Gaussian noise on the sum of a secret Poisson sample that is cut down to a largest batch.

    Each of ``population`` records joins with ``probability``; if more than ``batch`` do, a random ``batch`` of them
    stay. ``noise_multiplier`` is the noise's standard deviation over the largest norm of a record's vector, and
    ``population`` counts the larger of the two data sets.

    The number X of *other* records that join has the same law in both worlds. Where X < batch, nothing is cut, and the
    record joins with ``probability``. Where X ≥ batch, it takes the place of another one, which moves the sum by at
    most 2, with probability E[probability·batch/(X+1) | X ≥ batch]. See also arXiv:2508.15089.

    It has no rule for groups.

    Raises:
      InvalidArgumentError: a count that is no integer in its range, a probability outside [0, 1], or noise not > 0.
    """

    population: int = field(converter=_population)
    probability: float = field(converter=parameters.probability)
    batch: int = field(converter=_batch)
    noise_multiplier: float = field(converter=parameters.noise_multiplier)
    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE})

    def __attrs_post_init__(self) -> None:
        if self.population > 2**53:
            raise InvalidArgumentError("population", self.population, "is too large", "give at most 2**53")

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        raise UnsupportedEventError(f"{type(self).__name__} has no rule for {distance:g} records")

    def _branches(self) -> tuple[tuple[float, PrivacyEvent], ...]:
        """(How likely, event) of a sample that is cut, and of one that is not."""
        n, q, b = self.population, self.probability, self.batch
        if q == 0.0 or b == 0:
            return ((0.0, NO_EVENT), (1.0, NO_EVENT))
        whole = PoissonSampled(q, Gaussian(self.noise_multiplier), self.direction)
        cut = float(stats.binom.sf(b - 1, n - 1, q))
        if cut == 0.0:  # impossible, or beyond floats
            return ((0.0, NO_EVENT), (1.0, whole))
        joins = min(q, float(stats.binom.sf(b, n, q)) * b / n / cut * _ROUND)
        replacing = PoissonSampled(joins, Gaussian(self.noise_multiplier / 2), self.direction)
        return ((cut, replacing), (float(stats.binom.cdf(b - 1, n - 1, q)), whole))

    def children(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for weight, event in self._branches() if weight)

    def pure_epsilon(self) -> float:
        return max(event.pure_epsilon() for event in self.children())

    def zcdp_rho(self) -> float:
        return max(event.zcdp_rho() for event in self.children())

    def rdp(self, orders: Array) -> Array:
        if self.direction == "both":
            return np.maximum(*(event.rdp(orders) for event in self.directions()))
        a, logs = np.asarray(orders, dtype=float), []
        divergences = [event.rdp(a) for event in self.children()]
        for (weight, _), divergence in zip((b for b in self._branches() if b[0]), divergences, strict=True):
            x = (a - 1) * divergence
            with np.errstate(over="ignore", divide="ignore"):
                logs.append(math.log(weight) + np.where(x < 30.0, np.log(np.expm1(np.minimum(x, 30.0))), x))
        excess = np.logaddexp.reduce(logs)
        # not above the worst branch: a mixture's divergence never is
        return np.asarray(np.minimum(np.logaddexp(0.0, excess) / (a - 1) * _ROUND, np.max(divergences, axis=0)))

    def loss_support(self) -> tuple[float, float]:
        if self.direction == "both":
            return super().loss_support()
        ends = [event.loss_support() for event in self.children()]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def loss_law(self, step: float, upper: bool) -> LossPmf:
        if self.direction == "both":
            return super().loss_law(step, upper)
        laws = [(weight, discretise(event, step, upper)) for weight, event in self._branches() if weight]
        start = min(law.start for _, law in laws)
        p = np.zeros(max(law.start + len(law.p) for _, law in laws) - start)
        for weight, law in laws:
            p[law.start - start : law.start - start + len(law.p)] += weight * law.p
        infinity = math.fsum(weight * law.infinity for weight, law in laws)
        scale = _ROUND if upper else 1 / _ROUND
        return LossPmf(step, start, p * scale, min(1.0, infinity * scale))
