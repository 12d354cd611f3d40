"""Regularised weights of convex losses as a base learner of the lazy transform, with its general constants only."""

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.validate import probability
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    LIPSCHITZ_SLACK,
    ConvexLosses,
    Domain,
    LinearLosses,
    checked_losses,
    steepest_pair,
)
from hockeystick.learners.lazy.convex.losses.regularized_measure import (
    RegularizedMeasure,
    RegularizedWeights,
    minimiser,
)
from hockeystick.learners.lazy.convex.sampling.samplers import ClosedFormSampler, Sampler
from hockeystick.learners.lazy.transform.base_learner import Actions


def _delta0(value: object) -> float:
    return probability("delta0", value)


@frozen(kw_only=True)
class ConvexMeasure:
    """Regularised weights of convex losses over a ball or a box, as a ``LazyMeasure``.

    Consecutive measures differ by one loss in the potential. They are μ-Gaussian-DP with μ = ``weights.step_mu``, so
    that every δ_0 has an η; the ratio width is at most β*L times the diameter, which is η at δ_0 = 0.
    :class:`~hockeystick.learners.LazyConvex` uses more properties of these measures and costs less, except on small
    domains.

    Args:
        weights: β, λ and L.
        domain: A ball or a box.
        sampler: Draws the points.
        delta0: In [0, 1].

    Example:
        >>> from hockeystick.learners.lazy import Ball
        >>> weights = RegularizedWeights(inverse_temperature=0.1, regularisation=2.0, lipschitz=1.0)
        >>> round(ConvexMeasure(weights=weights, domain=Ball(2, 1.0)).eta, 6)
        0.2
    """

    weights: RegularizedWeights
    domain: Domain
    sampler: Sampler = field(factory=ClosedFormSampler)
    delta0: float = field(default=0.0, converter=_delta0)

    @property
    def eta(self) -> float:
        """The lesser of the ratio width and the ε of μ-Gaussian-DP at ``delta0``."""
        return min(self.ratio_width, gaussian_profile.epsilon(self.weights.step_mu, self.delta0))

    @property
    def ratio_width(self) -> float:
        """β*L times the diameter, with a margin for the slack of Lipschitz constants."""
        steep = self.weights.inverse_temperature * self.weights.lipschitz
        return steep * self.domain.diameter * (1.0 + 2.0 * LIPSCHITZ_SLACK)

    @property
    def total_variation(self) -> float:
        """The total variation of the sampler's certificate."""
        return self.sampler.certificate().required()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every loss is convex and L-Lipschitz over the domain."""
        return ("every loss is convex and Lipschitz over the domain with the stated constant",)

    def path(self, losses: ConvexLosses, *, rounds: int, batch: int) -> "ConvexPath":
        """Returns the measures along T convex L-Lipschitz ``losses``; raises InvalidArgumentError for others."""
        lipschitz = self.weights.lipschitz
        return ConvexPath(
            self, checked_losses("losses", losses, rounds=rounds, domain=self.domain, lipschitz=lipschitz), batch
        )

    def neighbours(self, rounds: int) -> tuple[LinearLosses, LinearLosses]:
        """Returns two neighbouring streams with a large privacy loss; see ``steepest_pair``."""
        return steepest_pair(self.domain, self.weights.lipschitz, rounds)


@frozen(eq=False)
class ConvexPath:
    """Regularised measures before each batch of one stream: a ``MeasurePath``."""

    family: ConvexMeasure
    losses: ConvexLosses
    batch: int

    def _rounds(self, batch: int) -> tuple[int, int]:
        return min(self.losses.rounds, batch * self.batch), min(self.losses.rounds, (batch + 1) * self.batch)

    def _measure(self, batch: int) -> RegularizedMeasure:
        return self.family.weights.measure(self.family.domain, self.losses, self._rounds(batch)[0])

    def sample(self, batch: int, rng: np.random.Generator, size: int) -> Actions:
        return self.family.sampler.sample(self._measure(batch), rng, size)

    def log_func(self, batch: int, actions: Actions) -> FloatArray:
        return -self.family.weights.inverse_temperature * self.loss(batch, actions)

    def log_density(self, batch: int, actions: Actions) -> FloatArray:
        measure = self._measure(batch)
        return -measure.potential(actions) - measure.log_normaliser()

    def loss(self, batch: int, actions: Actions) -> FloatArray:
        return np.asarray(self.losses.total(actions, *self._rounds(batch)))

    def best(self) -> tuple[Actions, float]:
        point = minimiser(self.losses, self.family.domain, start=0, stop=self.losses.rounds)
        return point, math.fsum(self.losses.total(point[None], 0, self.losses.rounds))
