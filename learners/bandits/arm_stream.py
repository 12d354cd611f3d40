"""Runs of bandits that publish, at the end of each block of rounds, noisy sums of the losses of that block alone.

A block plays some arms in turn, which are fixed when it begins, by what was published before. Of a round's losses only
that of the arm that is played is read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.bandits.sum_noise import SumNoise
from hockeystick.learners.common.round_stream import RoundStream
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.mechanisms.randomness.noise import Noise

Arms = npt.NDArray[np.int64]

_AHEAD = 1024  # draws of noise at a time: one by one they take many times as long


@frozen(eq=False)
class BanditRelease:
    """A run for publication: all that a bandit shows. See ``NoisyBandit`` for an example.

    Attributes:
        arms: The arm of each round, shape (rounds,).
        sums: The noisy sums of each block but the last, shape (blocks - 1, arms): NaN for arms that the block does not
            play. The blocks of ``NoisyBandit`` are its batches, those of ``PrivateElimination`` its epochs,
            those of ``PrivateUCB`` its episodes.
    """

    arms: Arms
    sums: FloatArray


class ArmStream(RoundStream):
    """One run of a bandit: in each round ``predict()`` gives the arm, and ``update(loss)`` takes its loss."""

    __slots__ = ("_coins", "_drawn", "_first", "_law", "_noise", "_published", "_sums", "_turn", "_until")
    _sums: list[int]
    _until: int

    def __init__(self, learner: Any, noise: Noise, body: dict[str, Any] | None) -> None:
        super().__init__(learner, noise.simulated)
        self._noise = noise
        self._law: SumNoise = learner.sum_noise
        self._published: list[tuple[list[int], list[float]]] = []  # of each block the arms in turn, and their sums
        self._drawn: list[int] = []  # noise that waits for its sum; a checkpoint drops it
        # The choice of an arm is post-processing: its coins need no secure source.
        self._coins = np.random.default_rng(noise.uniform(2**31, 8).tolist())
        if body is None:
            self._begin(self._opening())
            return
        with reading_a_state():
            top = learner.arms - 1
            self._restore(body)
            self._round = integer("first", body["first"], low=0, high=learner.rounds)
            self._begin([integer("arm", arm, low=0, high=top) for arm in body["turn"]])
            self._round = integer("round", body["round"], low=self._first, high=self._until)
            sums = [integer("sum", total, low=0) for total in body["sums"]]
            if not self._turn or len(sums) != len(self._turn):
                raise ValueError("numbers of arms and sums do not match")
        self._sums = sums

    @property
    def sums(self) -> FloatArray:
        """The noisy sums that this session has published, shape (blocks, arms); NaN for arms that a block did not play.

        They are paid for by the run's charge, and may be shown to everybody. A checkpoint does not repeat them: a
        session that was resumed begins with none.
        """
        found = np.full((len(self._published), self._learner.arms), np.nan)
        for row, (turn, sums) in zip(found, self._published, strict=True):
            row[turn] = sums
        return found

    def predict(self) -> int:
        """Returns the arm of the next round, the same one until ``update``.

        Raises:
            StreamHaltedError: all rounds are over.
        """
        self._check_open()
        return self._turn[(self._round - self._first) % len(self._turn)]

    def update(self, loss: Any) -> None:
        """Reads the loss of the arm that ``predict`` gave, one number in [0, 1].

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidDataError: it is anything else; nothing was read.
        """
        self._check_open()
        if not (type(loss) is float and 0.0 <= loss <= 1.0):  # nearly all are: the checks take longer than the rest
            given = array("loss", loss, shape=(), infinite=self._learner.clip, bools=True, data=True)
            if self._learner.clip:
                given = np.clip(given, 0.0, 1.0)
            loss = real(f"loss of round {self._round}", given[()], low=0.0, high=1.0, data=True)
        self._sums[(self._round - self._first) % len(self._turn)] += self._law.whole(loss)
        self._pass(1)

    @abstractmethod
    def _opening(self) -> list[int]:
        """Returns the arms of the first block."""

    @abstractmethod
    def _length(self) -> int:
        """Returns the number of rounds of a block that begins with the arms in turn."""

    @abstractmethod
    def _next(self, sums: list[float]) -> list[int]:
        """Returns the arms of the next block, after the noisy sums of the arms in turn were published."""

    @abstractmethod
    def _restore(self, body: dict[str, Any]) -> None:
        """Restores what ``_state`` returned."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Returns what was published before the current block, as far as it matters later."""

    def _body(self) -> dict[str, Any]:
        return {"first": self._first, "turn": list(self._turn), "sums": list(self._sums), **self._state()}

    def _begin(self, turn: list[int]) -> None:
        self._first, self._turn, self._sums = self._round, turn, [0] * len(turn)
        self._until = min(self._learner.rounds, self._first + self._length())

    def _pass(self, rounds: int) -> None:
        """Ends rounds that were read, and the block with its last round, whose noisy sums are published."""
        self._round += rounds
        if self._round == self._until < self._learner.rounds:
            published = [self._law.noisy(total, self._noise_ahead()) for total in self._sums]
            self._published.append((self._turn, published))
            self._begin(self._next(published))

    def _noise_ahead(self) -> int:
        if not self._drawn:
            self._drawn = self._noise.laplace(self._law.steps, _AHEAD).tolist()
        return self._drawn.pop()

    def _played(self, blocks: Iterable[npt.NDArray[Any]]) -> BanditRelease:
        """Plays all rounds on checked rows of losses of all arms, of which only those of the played arms are read."""
        arms = np.empty(self._learner.rounds, np.int64)
        for block in blocks:
            rows = np.asarray(block, dtype=np.float64)
            while len(rows):
                part, rows = np.split(rows, [self._until - self._round])
                turn, passed = self._turn, self._round - self._first
                for i, arm in enumerate(turn):
                    own = slice((i - passed) % len(turn), len(part), len(turn))
                    arms[self._round : self._round + len(part)][own] = arm
                    self._sums[i] += self._law.whole(part[own, arm])
                self._pass(len(part))
        return BanditRelease(arms, self.sums)
