"""The event of an access to a secret Poisson sample of the records."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import field_checks
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.events.basic.checked_event import is_event
from hockeystick.accounting.events.basic.directions import DirectedEvent, direction
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.noise.gaussian_mixture import MixtureOfGaussians, mixture_pair, mixture_rdp
from hockeystick.accounting.events.sampling.shared import any_of, gaussian_shift, inner_step
from hockeystick.accounting.losses import sampled_pair, sampled_renyi
from hockeystick.accounting.losses.dominating_pairs import DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf
from hockeystick.accounting.losses.loss_of_mixture import mixed, mixed_up
from hockeystick.accounting.losses.normal_mixtures import NormalMixture, coarse
from hockeystick.accounting.numerics import directed_rounding

_LARGEST_GROUP = 2**16  # beyond it, a group counts as one record


@frozen
class PoissonSampled(DirectedEvent):
    """An access to a secret sample that each record joins independently with ``probability``.

    The bound is Zhu, Dong & Wang 2022, Thm 11. Everything that is done with one sample belongs in one event:
    ``PoissonSampled(q, compose((Gaussian(1), 10)))`` is ten accesses to the same sample. The sample and its size stay
    secret. Under replace-with-null, a null record must contribute nothing.

    At distance k, all k records of a group are in one data set and absent from the other. With Gaussian noise, the
    number of sampled ones, Bin(k, q), is then the shift of a mixture of Gaussians. For other events the group counts as
    one record that joins with probability 1 − (1−q)^k and then costs ``event.at(k)``.

    Attributes:
      probability: q, in [0, 1].
      event: the cost of the access for a record added to, or removed from, the sample: ``Gaussian(s / C)`` for a sum of
        vectors of norm at most C with Gaussian noise of standard deviation s.
      direction: "both", "removal" (P is the law with the record) or "addition".

    Raises:
      InvalidArgumentError: a probability outside [0, 1], or not an event.

    Example:
      >>> from hockeystick.accounting import Gaussian, PoissonSampled, compose, delta
      >>> training = compose((PoissonSampled(0.03, Gaussian(1.1)), 100))  # DP-SGD
      >>> round(delta(training, 1.0).upper, 5)
      0.00104
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field(validator=is_event)
    direction: str = field(default="both", converter=direction)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL})

    def accepts(self, adjacency: Adjacency) -> bool:
        return super().accepts(adjacency) and self.event.accepts(adjacency)

    @property
    def superadditive(self) -> bool:  # type: ignore[override]
        # Two samples of s and t records are one sample of s + t records whose parts have separate values and noise.
        return self.event.superadditive

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def _scaled(self, distance: float) -> PrivacyEvent:
        k, q = math.ceil(distance), self.probability
        if k == 1 or q == 0.0:
            return self
        mu = gaussian_shift(self.event)
        if mu and q < 1.0 and k <= _LARGEST_GROUP:
            group = binomial(k, q)
            return MixtureOfGaussians(group.centres, group.weights, 1.0 / mu, self.direction)
        return PoissonSampled(any_of(k, q), self.event.at(k), self.direction)

    def replaced(self, removed: int, added: int) -> PrivacyEvent:
        if (removed, added) != (1, 1):
            return super().replaced(removed, added)
        from hockeystick.accounting.events.sampling.replace_one import (
            PoissonSampledReplace,  # which is built on this module
        )

        return PoissonSampledReplace(self.probability, self.event)

    def _inner(self) -> PrivacyEvent:
        """Returns the access in this direction; ``NO_EVENT`` if it certainly fails, as failures are charged apart."""
        if self.event.failure_delta() >= 1.0 or self.probability == 0.0:
            return NO_EVENT
        if mu := gaussian_shift(self.event):
            return Gaussian(1.0 / mu)
        if self.direction == "both":
            return self.event
        return self.event.directions()[0 if self.direction == "removal" else -1]

    def failure_delta(self) -> float:
        failure = self.event.failure_delta()
        return failure if self.probability == 1.0 else directed_rounding.share_up(self.probability, failure)

    def pure_epsilon(self) -> float:
        if self.direction == "both":
            return max(self.towards("removal").pure_epsilon(), self.towards("addition").pure_epsilon())
        epsilon, q = self._inner().pure_epsilon(), self.probability
        if q == 1.0 or epsilon == 0.0:
            return epsilon
        if self.direction == "removal":
            return float(mixed_up(np.array(epsilon), q))
        return -float(mixed_up(np.array(-epsilon), q))

    def zcdp_rho(self) -> float:
        if self._inner() == NO_EVENT:
            return 0.0
        # The Rényi divergence of a mixture is at most that of its worst component. A bound on losses gives another ρ.
        pure = self.towards("both").pure_epsilon()
        return min(self.event.zcdp_rho(), 0.5 * pure * pure)

    def _rdp(self, orders: Array) -> Array:
        a, q, inner = np.asarray(orders, dtype=float), self.probability, self._inner()
        if q == 1.0 or inner == NO_EVENT:
            return inner.rdp(a)
        if mu := gaussian_shift(inner):
            return mixture_rdp(NormalMixture((0.0, mu), (1.0 - q, q)), a, self.direction)
        ways = []
        if self.direction != "addition":
            ways.append(sampled_renyi.removal(inner.rdp, q, a))
        if self.direction != "removal":
            # It needs the second moment of the removal, which the curve of both directions bounds.
            ways.append(sampled_renyi.addition(self.event.rdp, q, a))
        return np.asarray(np.minimum(np.max(ways, axis=0), self.pure_epsilon()))

    def has_profile(self) -> bool:
        return self._inner().has_profile()

    def _directed_pair(self) -> DominatingPair | None:
        q, inner = self.probability, self._inner()
        if q == 1.0 or inner == NO_EVENT:
            return inner.pair()
        if mu := gaussian_shift(inner):
            return mixture_pair(NormalMixture((0.0, mu), (1.0 - q, q)), self.direction)
        pair = inner.pair()
        return None if pair is None else sampled_pair.sampled(self._kind(), pair, q)

    def _kind(self) -> type[sampled_pair.Removal] | type[sampled_pair.Addition]:
        return sampled_pair.Removal if self.direction == "removal" else sampled_pair.Addition

    def sampled_access(self) -> tuple[float, PrivacyEvent, str] | None:
        inner = self._inner()
        if (
            self.direction == "both"
            or self.probability == 1.0
            or inner == NO_EVENT
            or self._directed_pair() is not None
        ):
            return None
        return (self.probability, inner, self.direction) if inner.has_profile() else None

    def loss_support(self) -> tuple[float, float]:
        if self.direction == "both" or self._directed_pair() is not None:
            return super().loss_support()
        low, high = self._inner().loss_support()
        if self.probability == 1.0:
            return low, high
        if self.direction == "removal":
            return math.log1p(-self.probability), float(mixed(np.array(high), self.probability))
        return -float(mixed(np.array(-low), self.probability)), -math.log1p(-self.probability)

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        if self.direction == "both" or self._directed_pair() is not None:
            return super()._loss_law(step, upper)
        inner = self._inner()
        if self.probability == 1.0:
            return discretise(inner, step, upper)
        return sampled_pair.sampled_law(
            self._kind(), discretise(inner, inner_step(inner, step), upper), self.probability, step, upper
        )


def binomial(k: int, q: float) -> NormalMixture:
    """Returns the number of successes in k trials as a mixture; for large k, neighbouring numbers are rounded up."""
    j = np.arange(k + 1)
    if k <= 256:
        log_combinations = np.array([math.log(math.comb(k, i)) for i in range(k + 1)])
    else:  # accurate to 1e-10, which is far less than the rounding of the numbers adds
        log_combinations = special.gammaln(k + 1) - special.gammaln(j + 1) - special.gammaln(k - j + 1)
    weights = np.exp(log_combinations + j * math.log(q) + (k - j) * math.log1p(-q))
    return coarse(tuple(range(k + 1)), tuple(weights))
