"""Accesses to a secret sample under replace-one: samples of fixed size, and Poisson samples.

Let the record (or one of a group) be in the sample with probability γ. The output laws for the two data sets are
(1−γ)·R + γ·A and (1−γ)·R + γ·A', where A, A' and R are pairwise within one replacement, as a sample with the record
becomes a sample without it if another record takes its place. Then the profile is at most γ·δ(ln(1 + (e^ε − 1)/γ)) for
ε ≥ 0, with δ the profile of one replacement (Balle, Barthe & Gaboardi 2018, Thms 2 and 9), in both directions.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.randomized_response import RandomizedResponse
from hockeystick.accounting.events.basic.checked_event import is_event
from hockeystick.accounting.events.basic.composition import Composed
from hockeystick.accounting.events.basic.declared import PureDP
from hockeystick.accounting.events.basic.discretised import discretise
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.noise.gaussian_mixture import mixture_rdp
from hockeystick.accounting.events.sampling.shared import any_of, gaussian_shift, inner_step
from hockeystick.accounting.losses import normal_mixture_renyi, sampled_pair, sampled_renyi
from hockeystick.accounting.losses.dominating_pairs import DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf
from hockeystick.accounting.losses.loss_of_mixture import mixed, mixed_up
from hockeystick.accounting.losses.normal_mixtures import MixturePair, NormalMixture
from hockeystick.accounting.numerics import directed_rounding


class _ReplacedSample(PrivacyEvent):
    """Base of both: a subclass defines the probability that a changed record is sampled, and the cost if it is."""

    __slots__ = ()

    def _amplified(self) -> tuple[float, PrivacyEvent]:
        """Returns (γ, the event of a replacement within the sample)."""
        raise NotImplementedError

    def _parts(self) -> tuple[float, PrivacyEvent]:
        q, inner = self._amplified()
        if q == 0.0 or inner.failure_delta() >= 1.0:
            return q, NO_EVENT  # a failure is charged apart
        mu = gaussian_shift(inner)
        return q, Gaussian(1.0 / mu) if mu else inner

    def failure_delta(self) -> float:
        q, inner = self._amplified()
        failure = inner.failure_delta()
        return failure if q == 1.0 else directed_rounding.share_up(q, failure)

    def pure_epsilon(self) -> float:
        q, inner = self._parts()
        return float(mixed_up(np.array(inner.pure_epsilon()), q)) if q else 0.0

    def zcdp_rho(self) -> float:
        pure = self.pure_epsilon()
        return min(self._parts()[1].zcdp_rho(), 0.5 * pure * pure)

    def _rdp(self, orders: Array) -> Array:
        a, (q, inner) = np.asarray(orders, dtype=float), self._parts()
        if q == 1.0 or inner == NO_EVENT:
            return inner.rdp(a)
        if _curve_is_of_pair(inner):
            if mu := gaussian_shift(inner):
                removed = mixture_rdp(NormalMixture((0.0, mu), (1.0 - q, q)), a, "removal")
            else:
                removed = sampled_renyi.removal(inner.rdp, q, a)
            bound = sampled_renyi.replacement(inner.rdp, q, a, removed=removed)
        else:
            bound = sampled_renyi.without_replacement(inner.rdp, inner.pure_epsilon(), q, a)
        return np.minimum(bound, self.pure_epsilon())

    def pair(self) -> DominatingPair | None:
        q, inner = self._parts()
        pair = inner.pair()
        if pair is None or q == 1.0 or inner == NO_EVENT:
            return pair
        return sampled_pair.sampled(sampled_pair.Replacement, pair, q)

    def has_profile(self) -> bool:
        return self._parts()[1].has_profile()

    def sampled_access(self) -> tuple[float, PrivacyEvent, str] | None:
        q, inner = self._parts()
        if q in (0.0, 1.0) or inner == NO_EVENT or self.pair() is not None:
            return None
        return (q, inner, "replacement") if inner.has_profile() else None

    def loss_support(self) -> tuple[float, float]:
        if self.pair() is not None:
            return super().loss_support()
        q, inner = self._parts()
        low, high = inner.loss_support()
        if q == 1.0:
            return low, high
        top = float(mixed(np.array(max(0.0, high)), q))
        return -top, top

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        if self.pair() is not None:
            return super()._loss_law(step, upper)
        q, inner = self._parts()
        if q == 1.0:
            return discretise(inner, step, upper)
        law = discretise(inner, inner_step(inner, step), upper)
        return sampled_pair.sampled_law(sampled_pair.Replacement, law, q, step, upper)


def _curve_is_of_pair(event: PrivacyEvent) -> bool:
    """Returns whether the event's Rényi curve is that of its dominating pair, not a smaller one."""
    if isinstance(event, Composed):
        return all(_curve_is_of_pair(inner) for inner in event.children())
    return isinstance(event, (Gaussian, Laplace, PureDP, RandomizedResponse))


@frozen
class ReplacedWithProbability(_ReplacedSample):
    """A replacement within a secret sample that holds the record with ``probability``; a part of other events.

    ``event`` is the cost if the sample holds it. The rule of the module applies to any such way of sampling.
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field()
    adjacencies = frozenset({Adjacency.REPLACE_ONE})

    def _amplified(self) -> tuple[float, PrivacyEvent]:
        return self.probability, self.event


def _population(value: int) -> int:
    return validate.integer("population", value, low=1)


def _sample(value: int) -> int:
    return validate.integer("sample", value, low=1)


def _group(value: int) -> int:
    return validate.integer("group", value, low=1)


@frozen
class SampledWithoutReplacement(_ReplacedSample):
    """An access to a secret, uniformly random subset of ``sample`` out of ``population`` records, under replace-one.

    The Rényi curve is that of the dominating pair if this also holds for ``event``, and otherwise the bound of Wang,
    Balle & Kasiviswanathan 2019, Thm 9.

    Attributes:
      population, sample: numbers of records, ≥ 1.
      event: the cost of the access when a record *of the sample* is replaced: ``Gaussian(s / (2·C))`` for a sum of
        vectors of norm at most C with Gaussian noise of standard deviation s, as a replacement moves the sum by 2·C.
      group: the number of replaced records. At least one is sampled with the hypergeometric probability; the access
        then costs the largest possible number of replacements.

    Raises:
      InvalidArgumentError: a count is not an integer ≥ 1, a sample larger than the population, or not an event.

    Example:
      >>> from hockeystick.accounting import Gaussian, SampledWithoutReplacement, epsilon
      >>> [round(epsilon(SampledWithoutReplacement(1000, n, Gaussian(1.0)), 1e-5).upper, 3) for n in (10, 100, 1000)]
      [0.199, 1.685, 4.377]
    """

    population: int = field(converter=_population)
    sample: int = field(converter=_sample)
    event: PrivacyEvent = field(validator=is_event)
    group: int = field(default=1, converter=_group)
    adjacencies = frozenset({Adjacency.REPLACE_ONE})

    def __attrs_post_init__(self) -> None:
        if self.sample > self.population:
            reason = f"is larger than population={self.population}"
            raise InvalidArgumentError("sample", self.sample, reason, "give at most the population")

    def accepts(self, adjacency: Adjacency) -> bool:
        return super().accepts(adjacency) and self.event.accepts(adjacency)

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def _scaled(self, distance: float) -> PrivacyEvent:
        group = min(self.group * math.ceil(distance), self.population)
        return SampledWithoutReplacement(self.population, self.sample, self.event, group)

    def _amplified(self) -> tuple[float, PrivacyEvent]:
        n, m, k = self.population, self.sample, self.group
        if k == 1:
            return m / n, self.event
        # 1 − C(n−k, m)/C(n, m), as a product of min(k, m) factors
        factors = np.arange(min(k, m))
        with np.errstate(divide="ignore"):
            missed = float(np.sum(np.log1p(-max(k, m) / (n - factors)))) if k + m <= n else -math.inf
        # Logarithms off by 4 U, summed in pairs, are off by 200 U, and expm1 is no worse; 1e-12 is 9000 U.
        return min(1.0, -math.expm1(missed) * (1 + 1e-12)), self.event.at(min(k, m))


@frozen
class PoissonSampledReplace(_ReplacedSample):
    """``PoissonSampled`` under replace-one: a record takes another value, and is sampled or not as before.

    With Gaussian noise the pair (1−q)·N(0) + q·N(1) against (1−q)·N(0) + q·N(−1), in the unit of the noise, dominates.
    For α ≥ 1 the hockey-stick divergence of (1−q)·N(0) + q·N(v) from (1−q)·N(0) + q·N(w) is that of q·N(v) from a
    mixture of N(w) and N(0); for α < 1 it is that of a mixture of N(v) and N(0) from q·N(w). The distances are at most
    2 and 1, and shifts in one direction on a line attain the power of all of them at once, as in
    ``MixtureOfGaussians``. Any other event, and any ``group`` above 1, is charged like a sample of fixed size, with the
    probability that at least one record is sampled.

    Attributes:
      probability: q, in [0, 1].
      event: the cost of the access for a record *added to, or removed from,* the sample, as in ``PoissonSampled``:
        ``Gaussian(s / C)`` for a sum of vectors of norm at most C with Gaussian noise of standard deviation s. A
        replacement within the sample costs ``event.at(2)``.
      group: the number of replaced records, ≥ 1.

    Raises:
      InvalidArgumentError: a probability outside [0, 1], a group that is not an integer ≥ 1, or not an event.

    Example:
      >>> from hockeystick.accounting import Gaussian, PoissonSampled, PoissonSampledReplace, epsilon
      >>> [round(epsilon(kind(0.1, Gaussian(1.0)), 1e-5).upper, 3) for kind in (PoissonSampledReplace, PoissonSampled)]
      [1.789, 1.685]
    """

    probability: float = field(converter=field_checks.probability)
    event: PrivacyEvent = field(validator=is_event)
    group: int = field(default=1, converter=_group)
    adjacencies = frozenset({Adjacency.REPLACE_ONE})

    def accepts(self, adjacency: Adjacency) -> bool:
        return super().accepts(adjacency) and self.event.accepts(Adjacency.ADD_OR_REMOVE_ONE)

    @property
    def superadditive(self) -> bool:  # type: ignore[override]
        return self.event.superadditive  # as of ``PoissonSampled``

    def children(self) -> tuple[PrivacyEvent, ...]:
        return (self.event,)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return PoissonSampledReplace(self.probability, self.event, self.group * math.ceil(distance))

    def _amplified(self) -> tuple[float, PrivacyEvent]:
        q = self.probability
        return (any_of(self.group, q) if self.group > 1 else q), self.event.at(2 * self.group)

    def _mixtures(self) -> tuple[NormalMixture, NormalMixture] | None:
        """Returns the dominating mixtures of a single record under Gaussian noise, else None."""
        q, mu = self.probability, gaussian_shift(self.event)
        if not mu or self.group > 1 or not 0.0 < q < 1.0:
            return None
        p = NormalMixture((0.0, mu), (1.0 - q, q))
        return p, p.mirrored()

    def _rdp(self, orders: Array) -> Array:
        bound, mixtures = super()._rdp(orders), self._mixtures()
        if mixtures is None:
            return bound
        return normal_mixture_renyi.divergence(*mixtures, np.asarray(orders, dtype=float), bound)

    def pair(self) -> DominatingPair | None:
        mixtures = self._mixtures()
        return super().pair() if mixtures is None else MixturePair(*mixtures)
