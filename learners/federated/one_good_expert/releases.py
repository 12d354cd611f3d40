"""Releases of Fed-SVT: runs with whole numbers, exact comparisons and exact draws.

Each single loss is rounded to the grid of the windows' mechanism (see ``mechanisms.cumulative_above_threshold``) before
it is added up. All sums are then whole numbers, and one record moves them by at most the number of steps in a loss of
1, for which threshold and draws are charged.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field, frozen

from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.federated.one_good_expert.losses import segment_sums
from hockeystick.learners.federated.one_good_expert.setting import SVTSetting
from hockeystick.mechanisms import ExponentialMechanism
from hockeystick.mechanisms.contract.arguments import quotient_up
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.thresholds.threshold_stream import to_steps

_MOST = 2**61  # the largest number of steps for which sums and scores are exact 64-bit integers


@frozen(eq=False)
class SVTRelease:
    """The published output of a run. It contains no loss and no regret, which the guarantee would not cover.

    See :meth:`~hockeystick.learners.federated.one_good_expert.fed_svt.FedSVT.release`, which returns it.

    Attributes:
        experts: Shape (blocks + 1,): the expert played in each block, and in the tail after the last one.
        above: Shape (blocks,), bool: whether an expert was drawn after the block, the same one or another.
        simulated: Whether the noise was simulated; the output is then not a release.
    """

    experts: npt.NDArray[np.int64]
    above: npt.NDArray[np.bool_]
    simulated: bool


@frozen
class ExactSteps:
    """The grid on which a learner's losses, sums and noise are whole numbers of steps.

    Attributes:
        unit: The number of steps in a loss of 1.
        threshold_scale, query_scale: Scales of the discrete Laplace noise, in steps.
    """

    unit: int
    threshold_scale: float
    query_scale: float

    @classmethod
    def of(cls, learner: SVTSetting) -> ExactSteps:
        """Returns the grid of a learner.

        Raises:
            InvalidArgumentError: its sums would be too large for exact integers.
        """
        step, *scales = learner.windows._whole()
        unit = round(1.0 / step)
        if not learner.clients * max(learner.rounds, learner.best_loss) * unit < _MOST:
            reason = "make sums too large for exact integers"
            raise InvalidArgumentError("rounds", learner.rounds, reason, "use fewer rounds, or more noise")
        return cls(unit, *scales)

    def on_grid(self, losses: FloatArray) -> FloatArray:
        """Returns losses rounded to the grid, as floats."""
        return np.rint(losses * self.unit) / self.unit


@define(eq=False)
class ExactCourse:
    """The decisions of a server so far, with exact noise and draws in whole numbers.

    Attributes:
        learner: The learner.
        noise: The source of randomness.
        saved: The ``state()`` of a course to continue; None for a new one.
        expert: The expert of the next block.
        left: The number of draws that are left.
        blocks: The number of finished blocks.
    """

    learner: SVTSetting
    noise: Noise
    saved: dict[str, Any] | None = None
    expert: int = field(init=False)
    left: int = field(init=False)
    blocks: int = field(default=0, init=False)
    _steps: ExactSteps = field(init=False)
    _window: int = field(default=0, init=False)
    _limit: int = field(init=False)
    _experts: npt.NDArray[np.int64] = field(init=False)
    _above: npt.NDArray[np.bool_] = field(init=False)

    def __attrs_post_init__(self) -> None:
        learner = self.learner
        self._steps = ExactSteps.of(learner)
        self._experts = np.empty(learner.blocks + 1, np.int64)
        self._above = np.zeros(learner.blocks, np.bool_)
        self.left = learner.switches
        if self.saved is None:
            self._begin(int(self.noise.uniform(learner.experts, 1)[0]))
        else:
            self._restore(self.saved)

    def state(self) -> dict[str, int]:
        """Returns the state, ready for JSON, for ``saved`` of another course; it is secret."""
        own = {"expert": self.expert, "left": self.left, "blocks": self.blocks}
        return own | {"window": self._window, "limit": self._limit if self.left else 0}

    def _restore(self, saved: dict[str, Any]) -> None:
        self.expert = integer("expert", saved["expert"], low=0, high=self.learner.experts - 1)
        self.left = integer("left", saved["left"], low=0, high=self.learner.switches)
        self.blocks = integer("blocks", saved["blocks"], low=0, high=self.learner.blocks)
        self._window = integer("window", saved["window"], low=0, high=_MOST)
        self._limit = integer("limit", saved["limit"], low=-(2**63), high=2**63)
        self._experts[:] = self.expert

    def _begin(self, expert: int) -> None:
        self.expert, self._window = expert, 0
        self._experts[self.blocks :] = expert
        if self.left:
            drawn = int(self.noise.laplace(self._steps.threshold_scale, 1)[0])
            self._limit = to_steps(self.learner.threshold, 1.0 / self._steps.unit) + drawn

    def whole(self, sums: FloatArray) -> npt.NDArray[np.int64]:
        """Returns the clients' sums of losses in steps, added up; values off the grid are rounded to it."""
        return np.asarray(np.rint(sums * self._steps.unit).astype(np.int64).sum(axis=0))

    def above(self, increment: int) -> bool:
        """Returns whether the window's sum, increased by the losses of the next block, is reported as above."""
        self.blocks += 1
        if not self.left:
            return False
        self._window += increment
        drawn = int(self.noise.laplace(self._steps.query_scale, 1)[0])
        found = self._window + drawn >= self._limit
        self._above[self.blocks - 1] = found
        return found

    def draw(self, total: npt.NDArray[np.int64]) -> None:
        """Draws an expert by the losses of all rounds so far, in steps, after ``above``."""
        self.left -= 1
        unit = self._steps.unit
        floor = to_steps(self.learner.clients * self.learner.best_loss, 1.0 / unit)
        law = ExponentialMechanism(quotient_up(2.0 * unit, self.learner.learning_rate), sensitivity=float(unit))
        self._begin(int(law.release(-np.maximum(total, floor), noise=self.noise)))

    def found(self) -> SVTRelease:
        """Returns the run so far; from here on its last expert is played."""
        return SVTRelease(self._experts, self._above, self.noise.simulated)


def release(
    learner: SVTSetting,
    losses: object,
    *,
    ledger: AnyLedger | None,
    name: str | None,
    reads: Iterable[str] | None,
    noise: Noise | None,
) -> SVTRelease:
    """See ``FedSVT.release``."""
    unit = ExactSteps.of(learner).unit

    def rows() -> Iterable[npt.NDArray[np.int64]]:
        return segment_sums(losses, clients=learner.clients, experts=learner.experts, edges=learner.edges, unit=unit)

    if hasattr(losses, "shape"):
        for _ in rows():
            pass
    source = check_noise(noise)

    def play() -> SVTRelease:
        course, total = ExactCourse(learner, source), np.zeros(learner.experts, np.int64)
        for sums in rows():
            for row in sums[: learner.blocks - course.blocks]:
                total += row
                if course.above(int(row[course.expert])):
                    course.draw(total)
        return course.found()

    return charged(learner.event(), play, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
