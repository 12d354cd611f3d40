"""Regularised weights of convex losses as a base learner of the lazy transform, by the general constants alone."""

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.accounting.validate import probability
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    LIPSCHITZ_SLACK,
    Box,
    ConvexLosses,
    Domain,
    LinearLosses,
    checked_losses,
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

    One loss added to the potential makes consecutive measures mu-Gaussian-DP with mu = ``weights.step_mu``, so that any
    delta_0 has its eta; and its ratio width is at most beta*L times the diameter, which is eta at delta_0 = 0.
    :class:`~hockeystick.learners.LazyConvex` uses more of these measures than that; on all but small domains it costs
    less.

    Args:
        weights: beta, lambda and L.
        domain: A ball or a box.
        sampler: How points are drawn.
        delta0: In [0, 1].
    """

    weights: RegularizedWeights
    domain: Domain
    sampler: Sampler = field(factory=ClosedFormSampler)
    delta0: float = field(default=0.0, converter=_delta0)

    @property
    def eta(self) -> float:
        """The lesser of the ratio width and the epsilon of mu-Gaussian-DP at ``delta0``."""
        return min(self.ratio_width, gaussian_profile.epsilon(self.weights.step_mu, self.delta0))

    @property
    def ratio_width(self) -> float:
        """beta*L times the diameter, with room for the slack of Lipschitz constants."""
        steep = self.weights.inverse_temperature * self.weights.lipschitz
        return steep * self.domain.diameter * (1.0 + 2.0 * LIPSCHITZ_SLACK)

    @property
    def total_variation(self) -> float:
        """That of the sampler's certificate."""
        return self.sampler.certificate().required()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That every loss is convex and L-Lipschitz over the domain."""
        return ("every loss is convex and Lipschitz over the domain with the stated constant",)

    def path(self, losses: ConvexLosses, *, rounds: int, batch: int) -> "ConvexPath":
        """The measures along ``losses``; raises InvalidArgumentError unless they are convex, L-Lipschitz and T."""
        lipschitz = self.weights.lipschitz
        return ConvexPath(
            self, checked_losses("losses", losses, rounds=rounds, domain=self.domain, lipschitz=lipschitz), batch
        )

    def neighbours(self, rounds: int) -> tuple[LinearLosses, LinearLosses]:
        """Linear losses, steepest up or down along the domain's longest axis in the first round, and 0 after it."""
        gradients = np.zeros((rounds, self.domain.dimension))
        axis = 0
        if isinstance(self.domain, Box):
            axis = int(np.argmax(np.subtract(self.domain.upper, self.domain.lower)))
        gradients[0, axis] = self.weights.lipschitz
        return LinearLosses(gradients), LinearLosses(-gradients)


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
