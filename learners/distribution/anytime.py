"""Online distribution learning without a known number of rounds: epochs of doubling length, each started afresh.

Levels, rate and weights depend on the number of rounds. So epoch e = 1, 2, .. is a learner for 2^e rounds of its own,
and the last one is cut short. A person's label is used in one epoch only, so that epochs are in parallel and cost what
one message costs. The risk is at most 1/(1 - 1/sqrt 2), some 3.4 times that of a known number of rounds, up to
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
from hockeystick.learners.distribution.runs import Runs

Maker = Callable[[int], OnlineDistribution]


@frozen
class Epoch:
    """One epoch: its first round, how many rounds of it take place, and its learner."""

    first: int
    rounds: int
    learner: OnlineDistribution


@frozen(eq=False)
class AnytimeRuns:
    """Whole runs, runs on the leading axis.

    Attributes:
        risk: Shape (runs,): the sum over all rounds of KL(truth || prediction), nats.
        marks: Shape (epochs,): after so many rounds an epoch ends ...
        curve: Shape (runs, epochs): ... and the risk was this much.
        epochs: Each epoch's own runs.
    """

    risk: FloatArray
    marks: AnyIntArray = field(repr=False)
    curve: FloatArray = field(repr=False)
    epochs: tuple[Runs, ...] = field(repr=False)


def _maker(value: object) -> Maker:
    if not callable(value):
        raise InvalidArgumentError("make", value, "can't be called", "give a function from rounds to a learner")
    return value


@frozen
class AnytimeDistribution:
    """The learner for any number of rounds.

    Args:
        make: The learner for so many rounds, such as ``lambda rounds: OnlineDistribution.build(.., rounds=rounds)``.

    Raises:
        InvalidArgumentError: ``make`` is not callable.
    """

    make: Maker = field(converter=_maker)

    def epochs(self, rounds: int) -> Iterator[Epoch]:
        """The epochs of so many rounds; the last may be cut short.

        Raises:
            InvalidArgumentError: ``rounds`` is not an integer >= 1, or ``make`` returns something else.
        """
        left, first, length = integer("rounds", rounds, low=1), 0, 2
        while left > 0:
            learner = self.make(length)
            if not isinstance(learner, OnlineDistribution) or learner.horizon != length:
                raise InvalidArgumentError("make", learner, f"is not a learner for {length} rounds")
            yield Epoch(first, min(length, left), learner)
            first, left, length = first + length, left - length, 2 * length

    def graph(self, *, rounds: int) -> AccountantGraph:
        """The data-independent plan: every person answers in one round, of one epoch."""
        graph = AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
        for number, epoch in enumerate(self.epochs(rounds), start=1):
            users, reach = f"users of epoch {number}", SAME if epoch.rounds > 1 else None
            event = epoch.learner.channels[0].event()
            graph = graph.source(users, size=epoch.rounds).release(
                f"messages of epoch {number}", event, reads=[users], reach=reach
            )
        return graph

    def risk_bound(self, rounds: int) -> float:
        """The sum of the epochs' bounds: that of an epoch that is cut short is at most that of the whole one."""
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
        """Whole runs; arguments as for ``OnlineDistribution.simulate``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        parts, marks = [], []
        for epoch in self.epochs(rounds):
            last = epoch.first + epoch.rounds
            seen = None if contexts is None else np.asarray(contexts)[epoch.first : last]
            parts.append(epoch.learner.simulate(truth, rng, runs, rounds=epoch.rounds, contexts=seen, block=block))
            marks.append(last)
        curve = np.cumsum(np.stack([part.risk for part in parts], axis=1), axis=1)
        return AnytimeRuns(risk=curve[:, -1], marks=np.array(marks), curve=curve, epochs=tuple(parts))
