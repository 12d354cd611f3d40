"""The steps of one phase of the federated stochastic learner, shared by server, clients and simulations.

All clients compute the same iterate from the broadcasts. On the way to a leaf every client stores the iterates and
gradients along the path from the root (:class:`Path`); at the leaf it sends the last gradient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import define, field

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import Leaf, Noise
from hockeystick.learners.federated.stochastic.loss_pool import Pool

Winners = npt.NDArray[np.intp]

# Purposes of the draws of a client or the server: the second number of a substream, after the phase.
ASSIGNING, SCORING, PLAYING = 0, 1, 2


def moved(point: FloatArray, winner: Winners, leaf: Leaf) -> FloatArray:
    """Returns the iterate after a leaf: from points of shape (runs, d) towards the winning experts, shape (runs,)."""
    step = leaf.step_length()
    found = (1.0 - step) * point
    found[np.arange(len(found)), winner] += step
    return found


def score_noise(noise: Noise, scale: float, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """Returns the noise that is added to scores of which the least wins: Gumbel and exponential noise is subtracted."""
    drawn: FloatArray
    if noise == "laplace":
        drawn = rng.laplace(scale=scale, size=shape)
    elif noise == "gaussian":
        drawn = rng.normal(scale=scale, size=shape)
    elif noise == "gumbel":
        drawn = -rng.gumbel(scale=scale, size=shape)
    else:
        drawn = -rng.exponential(scale=scale, size=shape)
    return drawn


def summed_noise(
    noise: Noise, scale: float, rng: np.random.Generator, shape: tuple[int, ...], clients: int
) -> FloatArray:
    """Returns the sum of ``clients`` independent draws of :func:`score_noise`; one draw if the law of the sum is known.

    A Laplace variable is the difference of two exponential ones, whose sums have a gamma law.
    """
    if noise == "laplace":
        return scale * (rng.standard_gamma(clients, size=shape) - rng.standard_gamma(clients, size=shape))
    if noise == "gaussian":
        return score_noise(noise, scale * clients**0.5, rng, shape)
    if noise == "exponential":
        return -scale * rng.standard_gamma(clients, size=shape)
    return np.asarray(score_noise(noise, scale, rng, (clients, *shape)).sum(axis=0))


@define(eq=False)
class Path:
    """The iterates and gradients on the path from the root to the current vertex.

    Args:
        points: Shape (depth + 1, runs, d).
        gradients: Shape (depth + 1, runs, clients, d).
    """

    points: FloatArray = field()
    gradients: FloatArray = field()

    @classmethod
    def empty(cls, depth: int, runs: int, clients: int, experts: int) -> Path:
        """Returns a path with room for ``depth`` steps below the root."""
        return cls(np.zeros((depth + 1, runs, experts)), np.zeros((depth + 1, runs, clients, experts)))

    def to(self, leaf: Leaf, pool: Pool, point: FloatArray) -> FloatArray:
        """Moves to a leaf from the one before it, and returns the gradients there, shape (runs, clients, d)."""
        for step in leaf.steps:
            r = step.depth
            if r == 0:
                assert step.vertex is not None
                self.points[0], self.gradients[0] = point, pool.gradient(step.vertex, point)
            elif step.vertex is None:
                self.points[r], self.gradients[r] = self.points[r - 1], self.gradients[r - 1]
            else:
                correction = pool.correction(step.vertex, point, self.points[r - 1])
                self.points[r], self.gradients[r] = point, self.gradients[r - 1] + correction
        return np.asarray(self.gradients[leaf.steps[-1].depth])
