"""Fed-SVT at the server, one round at a time, for publication: exact comparisons and draws, and resumable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.common.round_stream import RoundStream, charged_run
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.learners.experts.expert_losses import checked_losses
from hockeystick.learners.federated.one_good_expert.releases import ExactCourse, ExactSteps
from hockeystick.learners.federated.one_good_expert.setting import SVTSetting
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger


class SVTStream(RoundStream):
    """One run of ``FedSVT`` at a server that gets all clients' losses; ``FedSVT.start`` begins it.

    Memory is a few rows of losses, and one number per block.

    Example:
        >>> from hockeystick.learners import FedSVT
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = FedSVT.calibrated(clients=3, rounds=20, experts=2, epsilon=1.0)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> stream.update([[0.0, 1.0], [0.0, 0.5], [0.0, 1.0]])
        >>> stream.round, stream.predict() in (0, 1)
        (1, True)
    """

    __slots__ = ("_block", "_course", "_total", "_unit")

    def __init__(self, learner: SVTSetting, course: ExactCourse, simulated: bool) -> None:
        super().__init__(learner, simulated)
        self._course, self._unit = course, ExactSteps.of(learner).unit
        self._total: IntArray = np.zeros(learner.experts, np.int64)
        self._block: IntArray = np.zeros(learner.experts, np.int64)

    def predict(self) -> int:
        """Returns the expert that all clients play in the next round; the same one until the block is over.

        Raises:
            StreamHaltedError: all rounds are over.
        """
        self._check_open()
        return self._course.expert

    def update(self, losses: npt.ArrayLike) -> None:
        """Reads the losses of the next round, shape ``(clients, experts)``, in [0, 1].

        Each is rounded to the grid of the noise before the sum.

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidArgumentError: bad losses; nothing was read.
        """
        self._check_open()
        learner = self._learner
        given = checked_losses("losses", losses, rounds=learner.clients, experts=learner.experts)
        self._block += np.rint(given * self._unit).astype(np.int64).sum(axis=0)
        self._round += 1
        if self._course.blocks < learner.blocks and self._round == learner.block_end(self._course.blocks):
            self._total += self._block
            if self._course.above(int(self._block[self._course.expert])):
                self._course.draw(self._total)
            self._block[:] = 0

    def _body(self) -> dict[str, Any]:
        return {"total": self._total.tolist(), "block": self._block.tolist(), "course": self._course.state()}


def start(
    learner: SVTSetting,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> SVTStream:
    """Begins a run at the server that reads one round at a time; records its whole cost before anything is drawn.

    Args:
        learner: The learner.
        ledger, name, reads: As for a mechanism's release.
        noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

    Returns:
        The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

    Raises:
        InvalidArgumentError: the learner's sums would be too large for exact integers.
        HockeystickError: the ledger refuses.
    """
    source = check_noise(noise)
    ExactSteps.of(learner)  # refuses before anything is recorded

    def begin() -> SVTStream:
        return SVTStream(learner, ExactCourse(learner, source), source.simulated)

    return charged_run(learner.event(), begin, source, ledger, name, reads)


@unchained()
def resume(
    learner: SVTSetting,
    checkpoint: dict[str, Any],
    *,
    ledger: AnyLedger | None = None,
    noise: Noise | None = None,
) -> SVTStream:
    """Continues the run that ``SVTStream.checkpoint`` saved; its cost was recorded at its start.

    The checkpoint holds the noisy threshold, too, which is as secret as the losses.

    Args:
        learner: The learner.
        checkpoint: The value of ``checkpoint()``, possibly after a round trip through JSON.
        ledger: That of ``start``, which refuses to resume a checkpoint twice; without one there is a warning.
        noise: As for ``start``, and of the same kind as there.

    Returns:
        The run, after the round in which it was saved.

    Raises:
        LedgerError: another session has resumed the checkpoint, or the ledger was not charged for its run.
        InvalidArgumentError: the checkpoint is malformed, was changed, or belongs to a learner with other parameters or
            to noise of the other kind.
    """
    source = check_noise(noise)
    body = SVTStream._opened(learner, checkpoint, source.simulated)
    with reading_a_state():
        stream = SVTStream(learner, ExactCourse(learner, source, body["course"]), source.simulated)
        stream._round = integer("round", body["round"], low=0, high=learner.rounds)
        shape = (learner.experts,)
        stream._total, stream._block = (array(n, body[n], shape=shape, dtype=np.int64) for n in ("total", "block"))
    return stream._continuing(checkpoint, ledger)
