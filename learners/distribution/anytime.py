"""Online distribution learning for an unknown number of rounds: epochs of doubling length, each started afresh.

Levels, rate and weights depend on the number of rounds. So each epoch e = 1, 2, .. has its own learner for 2^e rounds,
and the last epoch may be cut short. A person's label is used in one epoch only, so the epochs are in parallel and cost
as much as one message. The risk is at most 1/(1 - 1/sqrt 2), about 3.4, times that for a known number of rounds, up to
logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.runs import Runs, steps
from hockeystick.mechanisms.contract.arguments import generator, run_count, steps_in_all

Maker = Callable[[int], OnlineDistribution]


@frozen
class Epoch:
    """One epoch: its first round, its number of rounds, and its learner."""

    first: int
    rounds: int
    learner: OnlineDistribution


@frozen(eq=False)
class AnytimeRuns:
    """Results of runs, with runs on the leading axis.

    Attributes:
        risk: Shape (runs,): the sum over all rounds of KL(truth || prediction), in nats.
        marks: Shape (epochs,): the number of rounds up to the end of each epoch.
        curve: Shape (runs, epochs): the risk up to the end of each epoch.
        epochs: The runs of each epoch.
    """

    risk: FloatArray
    marks: AnyIntArray = field(repr=False)
    curve: FloatArray = field(repr=False)
    epochs: tuple[Runs, ...] = field(repr=False)


def _maker(value: object) -> Maker:
    if not callable(value):
        raise InvalidArgumentError("make", value, "is not callable", "give a function from rounds to a learner")
    return value


@frozen
class AnytimeDistribution:
    """A learner for an unknown number of rounds.

    Args:
        make: Returns the learner for a number of rounds.

    Raises:
        InvalidArgumentError: ``make`` is not callable.

    Example:
        >>> from hockeystick.learners import AnytimeDistribution, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> learner = AnytimeDistribution(lambda n: OnlineDistribution.build(candidates, rounds=n, epsilon=1.0))
        >>> [(epoch.first, epoch.rounds) for epoch in learner.epochs(20)]
        [(0, 2), (2, 4), (6, 8), (14, 6)]
        >>> round(learner.graph(rounds=20).guarantee().epsilon(0.0).upper, 6)
        1.0
    """

    make: Maker = field(converter=_maker)

    def epochs(self, rounds: int) -> Iterator[Epoch]:
        """Yields the epochs of a number of rounds; the last may be cut short.

        Raises:
            InvalidArgumentError: ``rounds`` is not an integer >= 1, or ``make`` returns something else.
        """
        left, first, length = integer("rounds", rounds, low=1), 0, 2
        while left > 0:
            learner = self.make(length)
            if not isinstance(learner, OnlineDistribution) or learner.horizon != length:
                raise InvalidArgumentError("make", learner, f"is not a learner for {length} rounds", "return one")
            yield Epoch(first, min(length, left), learner)
            first, left, length = first + length, left - length, 2 * length

    def graph(self, *, rounds: int) -> AccountantGraph:
        """Returns the data-independent plan: every person answers in one round of one epoch."""
        graph = AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
        for number, epoch in enumerate(self.epochs(rounds), start=1):
            users, reach = f"users of epoch {number}", SAME if epoch.rounds > 1 else None
            event = epoch.learner.channels[0].event()
            graph = graph.source(users, size=epoch.rounds).release(
                f"messages of epoch {number}", event, reads=[users], reach=reach
            )
        return graph

    def risk_bound(self, rounds: int) -> float:
        """Returns a bound on the expected risk: the sum of the bounds of the epochs, each taken as a whole."""
        return float(sum(epoch.learner.risk_bound() for epoch in self.epochs(rounds)))

    def simulate(
        self,
        truth: int | npt.ArrayLike,
        rng: np.random.Generator,
        runs: int,
        *,
        rounds: int,
        contexts: npt.ArrayLike | None = None,
        block: int = 1,
    ) -> AnytimeRuns:
        """Returns runs; arguments as for ``OnlineDistribution.simulate``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        parts, marks, rng = [], [], generator(rng)
        work = steps(integer("rounds", rounds, low=1), integer("block", block, low=1))
        steps_in_all("rounds", rounds, work * run_count(runs))
        for epoch in self.epochs(rounds):
            last = epoch.first + epoch.rounds
            seen = None if contexts is None else np.asarray(contexts)[epoch.first : last]
            parts.append(epoch.learner.simulate(truth, rng, runs, rounds=epoch.rounds, contexts=seen, block=block))
            marks.append(last)
        curve = np.cumsum(np.stack([part.risk for part in parts], axis=1), axis=1)
        return AnytimeRuns(risk=curve[:, -1], marks=np.array(marks), curve=curve, epochs=tuple(parts))
