"""One run of a learner that restarts: the session of the current epoch, and the choices so far."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from hockeystick.accounting import InvalidDataError, PrivacyEvent
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.validate import integer
from hockeystick.learners.common.online_learner import Session
from hockeystick.learners.common.round_stream import RoundStream, charged_run
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError


class Restarts(Protocol):
    """A learner whose runs are ``AnytimeStream``s."""

    @property
    def choices(self) -> tuple[tuple[Any, ...], ...]:
        """The learners that can be taken, for each epoch."""

    @property
    def select(self) -> Any:
        """Returns the place of an epoch's learner among its choices, from its number and the plays before it."""

    def event(self) -> PrivacyEvent:
        """Returns the cost of a run."""


class AnytimeStream(RoundStream):
    """One run of an ``Anytime``, which ``Anytime.start`` begins and ``Anytime.resume`` continues.

    Nothing passes from one epoch to the next but the plays, and these only to ``select``.

    Example:
        >>> from hockeystick.learners import Anytime, LimitedUpdates
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> def limited(rounds):
        ...     return LimitedUpdates.calibrated(rounds=rounds, experts=2, epsilon=1.0, delta=0.0)
        >>> learner = Anytime(limited, first=2, epochs=3)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> for _ in range(5):
        ...     stream.update([1.0, 0.0])
        >>> stream.round, stream.epoch, stream.predict() in (0, 1)
        (5, 1, True)
        >>> learner.resume(stream.checkpoint(), noise=SimulationNoise(2)).epoch
        1
    """

    __slots__ = ("_epoch_run", "_noise", "_played", "_taken")

    def __init__(self, learner: Restarts, noise: Noise) -> None:
        super().__init__(learner, noise.simulated)
        self._noise = noise
        self._taken: list[int] = []  # the place of each epoch's learner among its choices
        self._played: list[Any] = []  # in this epoch, if anybody asks for it
        self._epoch_run: Session

    @property
    def epoch(self) -> int:
        """The number 0, 1, … of the epoch that the next round lies in; of the last one when all rounds are over."""
        return len(self._taken) - (not self._epoch_is_over or self._is_last)

    def predict(self) -> Any:
        """Returns the play of the next round, as the epoch's learner returns it; the same one until ``update``.

        Raises:
            StreamHaltedError: all epochs are over.
            InvalidArgumentError: ``select`` returned something else than the place of a learner.
        """
        return self._open().predict()

    def update(self, losses: Any) -> None:
        """Reads the losses of the next round, as the epoch's learner takes them.

        Raises:
            StreamHaltedError: all epochs are over.
            InvalidArgumentError: bad losses, whose place counts the rounds of the epoch; nothing was read.
        """
        session = self._open()
        play = session.predict() if self._learner.select is not None else None
        try:
            session.update(losses)
        except InvalidDataError as error:
            where = f"round {self._round}: {error.argument}" if self._taken[1:] else error.argument
            raise InvalidDataError(where, error.value, error.reason, error.remedy) from None
        self._round += 1
        if play is not None:
            self._played.append(play)

    def _open(self) -> Session:
        """Returns the session of the next round; begins the next epoch where one is over."""
        if self._epoch_is_over:
            if self._is_last:
                raise StreamHaltedError(f"all {self._round} rounds are over; start another run")
            self._begin()
        return self._epoch_run

    def _begin(self) -> None:
        """Begins the next epoch, by published values alone."""
        k, at = len(self._taken), 0
        choices = self._learner.choices[k]
        if len(choices) > 1:
            chosen = self._learner.select(k, np.array(self._played))
            at = integer("select", chosen, low=0, high=len(choices) - 1)
        self._epoch_run = choices[at].start(noise=self._noise)
        self._taken.append(at)
        self._played = []

    @property
    def _epoch_is_over(self) -> bool:
        k = len(self._taken) - 1
        over: bool = self._epoch_run.round >= self._learner.choices[k][self._taken[k]].rounds
        return over

    @property
    def _is_last(self) -> bool:
        return len(self._taken) == len(self._learner.choices)

    def _body(self) -> dict[str, Any]:
        if self._epoch_is_over and not self._is_last:  # so that all who resume it begin with the same play
            self._begin()
        return {
            "taken": list(self._taken),
            "played": np.array(self._played).tolist(),
            "epoch": self._epoch_run.checkpoint(),
        }


def start(
    learner: Restarts,
    *,
    ledger: AnyLedger | None = None,
    name: str | None = None,
    reads: Iterable[str] | None = None,
    noise: Noise | None = None,
) -> AnytimeStream:
    """Begins a run that reads one round at a time; records its whole cost, of all epochs, before anything is drawn.

    Args:
        learner: The learner.
        ledger: Records the learner's ``event()`` under ``name``, once for all epochs; see ``Laplace.release``.
        name: The run's name in the ledger.
        reads: The sources that the run reads, for a ``FilteredLedger``.
        noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

    Returns:
        The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

    Raises:
        HockeystickError: the ledger refuses.
    """
    source = check_noise(noise)

    def begin() -> AnytimeStream:
        stream = AnytimeStream(learner, source)
        stream._begin()
        return stream

    return charged_run(learner.event(), begin, source, ledger, name, reads)


@unchained()
def resume(
    learner: Restarts,
    checkpoint: dict[str, Any],
    *,
    ledger: AnyLedger | None = None,
    noise: Noise | None = None,
) -> AnytimeStream:
    """Continues the run that ``checkpoint()`` saved; its cost was recorded at its start.

    Args:
        learner: The learner.
        checkpoint: The value of ``checkpoint()``, possibly after a round trip through JSON.
        ledger: That of ``start``, which refuses to resume a checkpoint twice; without one there is a warning.
        noise: As for ``start``, and of the same kind as there.

    Returns:
        The run, after the round in which it was saved.

    Raises:
        LedgerError: another session has resumed the checkpoint, or the ledger was not charged for its run.
        InvalidArgumentError: the checkpoint is malformed, was changed, or belongs to a learner with other epochs or to
            noise of the other kind.
    """
    source = check_noise(noise)
    body = AnytimeStream._opened(learner, checkpoint, source.simulated)
    with reading_a_state():
        stream = AnytimeStream(learner, source)
        chosen = zip(learner.choices, body["taken"], strict=False)
        stream._taken = [integer("taken", at, low=0, high=len(each) - 1) for each, at in chosen]
        taken = [each[at] for each, at in zip(learner.choices, stream._taken, strict=False)]
        if not taken or len(taken) != len(body["taken"]):
            raise ValueError("there are no so many epochs")
        with warnings.catch_warnings():  # the ledger is that of the whole run
            warnings.filterwarnings("ignore", "a run was resumed without a ledger")
            stream._epoch_run = taken[-1].resume(body["epoch"], noise=source)
        stream._round = sum(one.rounds for one in taken[:-1]) + stream._epoch_run.round
        stream._played = list(np.array(body["played"]))
        if body["round"] != stream._round or len(stream._played) not in (0, stream._epoch_run.round):
            raise ValueError("numbers of rounds do not match")
    return stream._continuing(checkpoint, ledger)
