"""The lazy learner of experts, one round at a time, for publication: exact coins and draws, and resumable.

Losses are rounded to whole multiples of 2^-30 (coarser beyond 2^32 rounds) when they are read. All sums are then whole
numbers, so that one person's losses change them by exactly the amount in the guarantee. The coins have exactly the
stated probabilities (``LazySwitch``), and the draws exactly the stated odds (``ExponentialMechanism``). Only the played
experts are published; the guarantee would also cover the times of the draws and the shadow.

Memory is two rows of losses, whatever the number of rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import asdict, frozen

from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import array, as_array, integer
from hockeystick.learners.common.round_stream import RoundStream, charged_run
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.learners.experts.batches import checked_rows
from hockeystick.learners.experts.expert_losses import checked_losses
from hockeystick.learners.lazy.experts.setting import ExpertsSetting
from hockeystick.mechanisms import ExponentialMechanism
from hockeystick.mechanisms.contract.arguments import quotient_up
from hockeystick.mechanisms.lazy.lazy_sampler import LazyWalk, WalkState
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger

_FINEST = 30  # binary digits of a loss after the point
_WHOLE_BITS = 62  # bits of a sum of losses


@frozen(eq=False)
class LazyRelease:
    """The published part of a run. See ``LazyStream`` for an example.

    Its loss and regret are missing: they are functions of the data that the guarantee does not cover.

    Attributes:
        actions: Shape ``(rounds,)``: the expert played in each round.
        switched: Shape ``(batches,)``, bool: whether the expert was drawn afresh for the batch.
        simulated: Whether the noise was simulated; if so, this is not a release.
    """

    actions: npt.NDArray[np.integer]
    switched: npt.NDArray[np.bool_]
    simulated: bool

    @property
    def switches(self) -> int:
        """Number of draws of the expert after the first, whether it changed or not."""
        return int(self.switched.sum())


class LazyStream(RoundStream):
    """One run of a ``LazyExperts``, which ``LazyExperts.start`` begins and ``LazyExperts.resume`` continues.

    Example:
        >>> from hockeystick.learners import LazyExperts
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = LazyExperts(rounds=3, experts=2, learning_rate=0.5, fake_switch_probability=0.2)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> stream.update([1.0, 0.0])
        >>> stream.round, stream.predict() in (0, 1)
        (1, True)
        >>> learner.release(np.zeros((3, 2)), noise=SimulationNoise(1)).actions.shape
        (3,)
    """

    __slots__ = ("_batch", "_bits", "_draw", "_rate", "_total", "_walk")

    def __init__(self, learner: ExpertsSetting, walk: LazyWalk[int] | int, simulated: bool) -> None:
        super().__init__(learner, simulated)
        self._walk = walk
        self._bits = min(_FINEST, _WHOLE_BITS - learner.rounds.bit_length())
        unit = float(2**self._bits)
        self._rate = Fraction(learner.learning_rate) / 2**self._bits
        # The scores are whole; the scale is rounded so that a draw costs no more than its charge.
        self._draw = ExponentialMechanism(quotient_up(unit, learner.learning_rate), sensitivity=unit)
        self._total, self._batch = np.zeros((2, learner.experts), np.int64)

    @property
    def switched(self) -> bool:
        """Whether the expert was drawn afresh for the current batch."""
        return isinstance(self._walk, LazyWalk) and self._walk.switched

    def predict(self) -> int:
        """Returns the expert for the next round; the same one until ``update``.

        Raises:
            StreamHaltedError: all rounds are over.
        """
        self._check_open()
        return self._action

    def update(self, loss: npt.ArrayLike) -> None:
        """Reads the losses of the next round, shape ``(experts,)``, in [0, 1].

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidArgumentError: bad losses; nothing was read.
        """
        self._check_open()
        self._add(self._whole(as_array("losses", loss, data=True)[None], self._round))

    def _body(self) -> dict[str, Any]:
        walk = self._walk
        return {
            "total": self._total.tolist(),
            "batch": self._batch.tolist(),
            "walk": asdict(walk.state()) if isinstance(walk, LazyWalk) else walk,
        }

    @property
    def _action(self) -> int:
        return self._walk.action if isinstance(self._walk, LazyWalk) else self._walk

    def _whole(self, rows: npt.NDArray[Any], first: int) -> IntArray:
        """Returns losses, checked, as whole multiples of 2^-bits."""
        shape = (len(rows), self._learner.experts)
        checked = checked_losses(
            "losses", rows, rounds=shape[0], experts=shape[1], clip=self._learner.clip, first=first
        )
        found: IntArray = np.rint(checked * 2.0**self._bits).astype(np.int64)
        return found

    def _add(self, rows: IntArray) -> None:
        """Adds rounds that all lie in the current batch."""
        self._batch += rows.sum(axis=0)
        self._round += len(rows)
        if self._round % self._learner.batch == 0 and self._round < self._learner.rounds:
            self._total += self._batch
            if isinstance(self._walk, LazyWalk):
                self._walk.step(self._log_ratio, self._drawn)
            self._batch[:] = 0

    def _log_ratio(self, expert: int) -> Fraction:
        ratio: Fraction = -int(self._batch[expert]) * self._rate
        return ratio

    def _drawn(self, noise: Noise) -> int:
        return int(self._draw.release(-self._total, noise=noise))


# --- the methods of LazyExperts --------------------------------------------------------------------------------------


def start(
    learner: ExpertsSetting,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> LazyStream:
    """Begins a run that reads one round at a time; records its whole cost before anything is drawn.

    Args:
        learner: The learner.
        ledger: Records the learner's ``event()`` under ``name``; see ``Laplace.release``.
        name: The run's name in the ledger.
        reads: The sources that the run reads, for a ``FilteredLedger``.
        noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not
            releases.

    Returns:
        The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

    Raises:
        HockeystickError: the ledger refuses.
    """
    source = check_noise(noise)

    def first(noise: Noise) -> int:
        return int(noise.uniform(learner.experts, 1)[0])

    def begin() -> LazyStream:
        sampler = learner.sampler()
        walk = first(source) if sampler is None else sampler.start(first, noise=source)
        return LazyStream(learner, walk, source.simulated)

    return charged_run(learner.event(), begin, source, ledger, name, reads)


@unchained()
def resume(
    learner: ExpertsSetting,
    checkpoint: dict[str, Any],
    *,
    ledger: AnyLedger | None = None,
    noise: Noise | None = None,
) -> LazyStream:
    """Continues the run that ``LazyStream.checkpoint`` saved; its cost was recorded at its start.

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
    body = LazyStream._opened(learner, checkpoint, source.simulated)
    sampler = learner.sampler()
    with reading_a_state():
        walk: LazyWalk[int] | int
        if sampler is None:
            walk = integer("walk", body["walk"], low=0, high=learner.experts - 1)
        else:
            walk = sampler.resume(WalkState(**body["walk"]), noise=source)
        stream = LazyStream(learner, walk, source.simulated)
        stream._round = integer("round", body["round"], low=0, high=learner.rounds)
        shape = (learner.experts,)
        stream._total, stream._batch = (array(n, body[n], shape=shape, dtype=np.int64) for n in ("total", "batch"))
    return stream._continuing(checkpoint, ledger)


def release(
    learner: ExpertsSetting,
    losses: npt.ArrayLike | Iterable[npt.ArrayLike],
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> LazyRelease:
    """Returns one run for publication; ``losses`` as for ``run``, other arguments and errors as for ``start``.

    An array is checked before anything is recorded. Losses that arrive in blocks are checked on arrival: a bad one ends
    the run, and the charge remains.
    """
    rows = checked_rows(losses, rounds=learner.rounds, experts=learner.experts, clip=learner.clip)
    stream = start(learner, ledger=ledger, name=name, reads=reads, noise=noise)
    label = np.min_scalar_type(learner.experts - 1)
    actions, switched = np.empty(learner.batches, label), np.zeros(learner.batches, np.bool_)
    actions[0] = stream.predict()
    for block in rows:
        whole = stream._whole(block, stream.round)
        while len(whole):
            ahead = min(len(whole), learner.batch - stream.round % learner.batch)
            stream._add(whole[:ahead])
            whole = whole[ahead:]
            if stream.round < learner.rounds:
                at = stream.round // learner.batch
                actions[at], switched[at] = stream.predict(), stream.switched
    return LazyRelease(np.repeat(actions, learner.batch)[: learner.rounds], switched, stream.simulated)
