"""Gaussian noise on a Poisson sample that is truncated to a largest batch.

Each of n records joins with probability q; if more than B do, a random B of them stay. Let X be the number of *other*
records that join, whose law is the same for both data sets. If X < B, nothing is cut, and the changed record is in the
batch with probability q. If X ≥ B, it takes the place of another record with probability p = E[q·B/(X+1) | X ≥ B]; the
other records in the batch, and the one whose place it takes, do not depend on X. Given these, let R be the law for the
batch of others alone and A the law with the record in the place of another. For vectors of norm at most 1, a truncated
sample compares

* with the record and without it: (1−p)·R + p·A against R, a shift by up to 2;
* with the record and with another one, of law A': (1−p)·R + p·A against (1−p)·R + p·A', pairwise at most 2 apart. For
  α ≥ 1 the hockey-stick divergence is p times that of A against a mixture of A' and R, largest if both are at the same
  place, 2 away: that of a record replaced in a sample of fixed size;
* with the record and with a null record, which is 0: like removing the record, if the record is in the first data set.
  In the other order, if null records take up places, p times the hockey-stick divergence of 0 against a mixture of A
  and R, each at most 1 away; if they don't, like adding the record.

The profile is at most the mean of the two cases, by joint convexity. See also arXiv:2508.15089.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import UnsupportedEventError
from hockeystick.accounting.events.basic.composition import parallel
from hockeystick.accounting.events.basic.directions import DirectedEvent, direction
from hockeystick.accounting.events.basic.discretised import mixed_law
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.events.sampling.replace_one import PoissonSampledReplace, ReplacedWithProbability
from hockeystick.accounting.losses.loss_grid import LossPmf

_ROUND = 1 + 1e-11  # relative accuracy of the tails of a binomial law
Branches = tuple[tuple[float, PrivacyEvent], ...]


def _population(value: int) -> int:
    return validate.integer("population", value, low=1, high=2**53)


def _batch(value: int) -> int:
    return validate.integer("batch", value, low=0)


@frozen
class _Truncated(PrivacyEvent):
    """Base of truncated samples; a subclass defines the cost of a sample that is cut, and of one that is not."""

    population: int = field(converter=_population)
    probability: float = field(converter=field_checks.probability)
    batch: int = field(converter=_batch)
    noise_multiplier: float = field(converter=field_checks.noise_multiplier)

    def _whole(self) -> PrivacyEvent:
        """Returns the event of a sample that is not cut."""
        raise NotImplementedError

    def _cut(self, joins: float) -> PrivacyEvent:
        """Returns the event of a sample that is cut and holds the record with probability ``joins``."""
        raise NotImplementedError

    def _is_directed(self) -> bool:
        """Returns whether the event is the worse of two directions."""
        return len(self.directions()) > 1

    def _scaled(self, distance: float) -> PrivacyEvent:
        if distance < 1.0:
            return self
        raise UnsupportedEventError(
            f"{type(self).__name__} has no rule for {distance:g} records, as a group may take the places of as many "
            "others: use a sample that is not cut, PoissonSampled or PoissonSampledReplace"
        )

    def _branches(self) -> Branches:
        """Returns (probability, event) of a sample that is cut, and of one that is not."""
        from scipy import stats  # slow to import

        n, q, b = self.population, self.probability, self.batch
        if q == 0.0 or b == 0:
            return ((0.0, NO_EVENT), (1.0, NO_EVENT))
        cut = float(stats.binom.sf(b - 1, n - 1, q))
        if cut == 0.0:  # impossible, or too unlikely for a float
            return ((0.0, NO_EVENT), (1.0, self._whole()))
        joins = min(q, float(stats.binom.sf(b, n, q)) * b / n / cut * _ROUND)
        return ((cut, self._cut(joins)), (float(stats.binom.cdf(b - 1, n - 1, q)), self._whole()))

    def children(self) -> tuple[PrivacyEvent, ...]:
        return tuple(event for weight, event in self._branches() if weight)

    def pure_epsilon(self) -> float:
        return max(event.pure_epsilon() for event in self.children())

    def zcdp_rho(self) -> float:
        return max(event.zcdp_rho() for event in self.children())

    def _rdp(self, orders: Array) -> Array:
        if self._is_directed():
            return np.maximum(*(event.rdp(orders) for event in self.directions()))
        a, logs = np.asarray(orders, dtype=float), []
        divergences = [event.rdp(a) for event in self.children()]
        for (weight, _), divergence in zip((b for b in self._branches() if b[0]), divergences, strict=True):
            x = (a - 1) * divergence
            with np.errstate(over="ignore", divide="ignore"):
                logs.append(math.log(weight) + np.where(x < 30.0, np.log(np.expm1(np.minimum(x, 30.0))), x))
        excess = np.logaddexp.reduce(logs)
        # The divergence of a mixture is at most that of its worst branch.
        return np.asarray(np.minimum(np.logaddexp(0.0, excess) / (a - 1) * _ROUND, np.max(divergences, axis=0)))

    def has_profile(self) -> bool:
        return True

    def loss_support(self) -> tuple[float, float]:
        if self._is_directed():
            return super().loss_support()
        ends = [event.loss_support() for event in self.children()]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        if self._is_directed():
            return super()._loss_law(step, upper)
        law = mixed_law([branch for branch in self._branches() if branch[0]], step, upper)
        scale = _ROUND if upper else 1 / _ROUND
        return LossPmf(step, law.start, law.p * scale, min(1.0, law.infinity * scale))


@frozen
class TruncatedPoissonSampled(_Truncated, DirectedEvent):
    """Gaussian noise on the sum of a secret Poisson sample that is truncated to a largest batch.

    Each of ``population`` records joins with ``probability``; if more than ``batch`` do, a random ``batch`` of them
    stay. If others fill the batch, the record takes the place of another one, which moves the sum by at most 2; see the
    module. It is meant under add-or-remove-one and has no rule for groups.

    Attributes:
      population: the number of records of the larger data set.
      probability: of each record to join.
      batch: the largest number of records in the sum.
      noise_multiplier: the standard deviation of the noise divided by the largest norm of a record's vector.
      direction: "both", "removal" (P is the law with the record) or "addition".

    Raises:
      InvalidArgumentError: a count is not an integer in its range, a probability outside [0, 1], or noise not > 0.

    Example:
      >>> from hockeystick.accounting import TruncatedPoissonSampled, delta
      >>> f"{delta(TruncatedPoissonSampled(100, 0.1, 15, 2.0), 0.5).upper:.2e}"
      '9.63e-05'
    """

    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE})

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        if (removed, added) != (1, 1):
            return super().replaced(removed, added)
        return TruncatedPoissonSampledReplace(self.population, self.probability, self.batch, self.noise_multiplier)

    def _whole(self) -> PrivacyEvent:
        return PoissonSampled(self.probability, Gaussian(self.noise_multiplier), self.direction)

    def _cut(self, joins: float) -> PrivacyEvent:
        return PoissonSampled(joins, Gaussian(self.noise_multiplier / 2), self.direction)


@frozen
class TruncatedPoissonSampledNull(_Truncated, DirectedEvent):
    """``TruncatedPoissonSampled`` under replace-with-null: a record is replaced by a null record, whose vector is 0.

    It holds whether or not null records join and take up places like others. It has no rule for groups.

    Attributes:
      population: the number of records of either data set, null records included.
      probability, batch, noise_multiplier, direction: see ``TruncatedPoissonSampled``.

    Raises:
      InvalidArgumentError: as for ``TruncatedPoissonSampled``.

    Example:
      >>> from hockeystick.accounting import TruncatedPoissonSampledNull, epsilon
      >>> round(epsilon(TruncatedPoissonSampledNull(100, 0.1, 15, 2.0), 1e-5).upper, 3)
      0.97
    """

    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.REPLACE_WITH_NULL})

    def _whole(self) -> PrivacyEvent:
        return PoissonSampled(self.probability, Gaussian(self.noise_multiplier), self.direction)

    def _cut(self, joins: float) -> PrivacyEvent:
        takes_place = PoissonSampled(joins, Gaussian(self.noise_multiplier / 2), self.direction)
        if self.direction != "addition":
            return takes_place
        return parallel(takes_place, ReplacedWithProbability(joins, Gaussian(self.noise_multiplier)))


@frozen
class TruncatedPoissonSampledReplace(_Truncated):
    """``TruncatedPoissonSampled`` under replace-one: a record takes another value, and is sampled as before.

    ``noise_multiplier`` is still relative to the largest norm of a record's vector, so that a replacement moves the sum
    by up to 2. It has no rule for groups.

    Attributes:
      population: the number of records of either data set.
      probability, batch, noise_multiplier: see ``TruncatedPoissonSampled``.

    Raises:
      InvalidArgumentError: as for ``TruncatedPoissonSampled``.

    Example:
      >>> from hockeystick.accounting import TruncatedPoissonSampledReplace, epsilon
      >>> round(epsilon(TruncatedPoissonSampledReplace(100, 0.1, 15, 2.0), 1e-5).upper, 3)
      0.971
    """

    adjacencies = frozenset({Adjacency.REPLACE_ONE})

    def _whole(self) -> PrivacyEvent:
        return PoissonSampledReplace(self.probability, Gaussian(self.noise_multiplier))

    def _cut(self, joins: float) -> PrivacyEvent:
        return ReplacedWithProbability(joins, Gaussian(self.noise_multiplier / 2))
