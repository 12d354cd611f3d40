"""Results of a run of the federated stochastic learner."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer


def _points(value: object) -> FloatArray:
    return array("points", value, ndim=2)


@frozen(eq=False)
class Broadcasts:
    """The public output of a run.

    See :class:`~hockeystick.learners.federated.stochastic.fed_stoch.FedStoch` for an example.

    Attributes:
        points: The point played in phase p = 1, 2, ..., shape (phases, d), row p - 1.
        winners: The winning expert at each leaf of phase p = 2, 3, ..., entry p - 2; empty if the point was held.

    Raises:
        InvalidArgumentError: ``points`` is not an array of finite numbers with two axes.
    """

    points: FloatArray = field(converter=_points)
    winners: tuple[tuple[int, ...], ...]

    def play(self, round: int) -> FloatArray:
        """Returns the point of a round 1, 2, ..., shape (d,)."""
        return np.asarray(self.points[integer("round", round, low=1, high=2 ** len(self.points) - 1).bit_length() - 1])


@frozen(eq=False)
class StochRun:
    """A run in one process.

    See :class:`~hockeystick.learners.federated.stochastic.fed_stoch.FedStoch` for an example.

    Attributes:
        broadcasts: The public output.
        losses: The total loss of each client, shape (clients,).
        expert_losses: The total loss of each expert over all clients and rounds, shape (d,).
    """

    broadcasts: Broadcasts
    losses: FloatArray
    expert_losses: FloatArray

    @property
    def regret(self) -> float:
        """The regret per client, against the best single expert for all clients."""
        return float((self.losses.sum() - self.expert_losses.min()) / len(self.losses))
