"""The mixtures that Hedge on noisy sums publishes, as the only output that an auditor sees."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from hockeystick.accounting import AccountantGraph
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import TreeExperts
from hockeystick.learners.common.prefix_sums import PublishedRuns
from hockeystick.learners.experts.expert_losses import opposite_halves


@frozen(eq=False)
class Mixtures:
    """The mixtures of a learner with an even number of experts, a learning rate, and no padding of the sums.

    The logarithms of a mixture are the noisy sums up to a common constant. Neighbours differ on opposite halves of the
    experts, so that the constant tells nothing of which one it is.

    Attributes:
      learner: the learner.
      exact: whether it computes its mixtures from the sums without their noise: a mistake.
    """

    learner: TreeExperts
    exact: bool = False

    def graph(self) -> AccountantGraph:
        """Returns the plan of the learner, in which mixtures are post-processing."""
        return self.learner.graph()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns streams whose first losses are 1 on one half of the experts, or on the other."""
        return opposite_halves(self.learner.rounds, self.learner.experts)

    def simulate(self, losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the mixtures of rounds 1, 2, …, shape (runs, rounds - 1, experts)."""
        sums = self.learner.simulate(losses, rng, runs).sums
        if self.exact:
            sums = np.broadcast_to(np.cumsum(losses[:-1], axis=0), sums.shape)
        return self.learner._mixtures_of(sums)

    def log_likelihood_ratio(self, found: FloatArray, losses0: FloatArray, losses1: FloatArray) -> FloatArray:
        """Returns ln p(mixtures | losses0) / p(mixtures | losses1), one number per run."""
        assert self.learner.learning_rate is not None
        sums = -np.log(found) / self.learner.learning_rate
        sums -= sums.mean(axis=2, keepdims=True)
        return self.learner.log_likelihood_ratio(PublishedRuns(sums, np.zeros(0)), losses0, losses1)
