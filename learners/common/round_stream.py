"""Runs of online learners, one round at a time: what all of them have in common."""

from __future__ import annotations

import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from hockeystick.accounting import Adjacency, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, text
from hockeystick.learners.common.online_learner import RefusedMethodError
from hockeystick.learners.common.stream_checkpoint import reading_a_state, refused, seal, unseal
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError


class RoundStream(ABC):
    """One run of an online learner, which its ``start`` begins and its ``resume`` continues.

    In each round call ``predict()`` for the action, then ``update(...)`` with the losses of that round. The run's whole
    cost is charged at its start. It can't be copied or pickled, because the charge covers one run; ``checkpoint()``
    saves it.

    See ``LazyStream`` for an example.
    """

    __slots__ = ("_learner", "_round", "_run", "_session", "_simulated")
    _version: ClassVar[int] = 1

    def __init__(self, learner: Any, simulated: bool) -> None:
        self._learner, self._simulated, self._round = learner, simulated, 0
        self._run: str | None = None  # its name in a ledger
        self._session = 0

    @property
    def round(self) -> int:
        """Number of rounds that are over."""
        return self._round

    @property
    def simulated(self) -> bool:
        """Whether the noise is simulated; if so, this is not a release."""
        return self._simulated

    def mixture(self) -> FloatArray:
        """Returns the distribution that the next action is drawn from, shape (experts,), the same one until ``update``.

        It is there where it is post-processing of what the run has published anyway, as the noisy sums of
        ``TreeExperts``: publishing it costs nothing.

        Raises:
            RefusedMethodError: it is not, or actions are not experts; see ``refuses`` of the learner.
            StreamHaltedError: all rounds are over.
        """
        reason = getattr(type(self._learner), "refuses", {}).get("release_mixtures")
        if reason is not None:
            raise RefusedMethodError(f"a run of {type(self._learner).__name__} has no mixture: {reason}")
        return self._mixture()

    def checkpoint(self) -> dict[str, Any]:
        """Returns the run's state, ready for JSON, for ``resume`` of the learner.

        It holds sums of the losses and must stay as private as they are. It holds no seed and no future coin, so that
        it does not reveal the next draws. Its checksum detects accidents; sign it where somebody may forge it.

        Resume the last checkpoint, once: rounds that were published after an earlier one would be drawn anew, and a run
        that is resumed twice becomes two runs. A ledger that is given to ``start`` and ``resume`` refuses the second
        session that resumes a checkpoint, or any other one of the same session.
        """
        known = {} if self._run is None else {"run": self._run, "session": self._session}
        body = {"round": self.round, **known, **self._body()}
        return seal(body, kind=self._kind(), version=self._version, learner=self._learner, simulated=self._simulated)

    @classmethod
    def _opened(cls, learner: Any, checkpoint: object, simulated: bool) -> dict[str, Any]:
        """Returns the body of a checkpoint, checked; see ``unseal``."""
        return unseal(checkpoint, kind=cls._kind(), version=cls._version, learner=learner, simulated=simulated)

    def _continuing(self, checkpoint: dict[str, Any], ledger: AnyLedger | None) -> Self:
        """Returns this session of a checked checkpoint, after recording in the ledger that it goes on with the run.

        Raises:
            LedgerError: another session has resumed it, or the ledger was not charged for the run.
            InvalidArgumentError: ``ledger`` is not a ledger, or none was charged for the run.
        """
        with reading_a_state():
            run = None if "run" not in checkpoint else text("run", checkpoint["run"])
            number = integer("session", checkpoint.get("session", 0), low=0)
        if ledger is not None:
            if not isinstance(ledger, AnyLedger):
                advice = "give a Ledger, FilteredLedger or DurableLedger"
                raise InvalidArgumentError("ledger", ledger, "is not a ledger", advice)
            if run is None:
                raise refused("is of a run that was charged to no ledger", "resume it without a ledger")
            number += 1
            ledger.record_session(run, number)
        elif not self._simulated:
            warnings.warn(
                "a run was resumed without a ledger, which would refuse a second session of one checkpoint: two of "
                "them publish two runs for one charge. Give start() and resume() the ledger.",
                stacklevel=3,
            )
        self._run, self._session = run, number
        return self

    @classmethod
    def _kind(cls) -> str:
        return f"checkpoint of a {cls.__name__}"

    def _mixture(self) -> FloatArray:
        raise NotImplementedError

    @abstractmethod
    def _body(self) -> dict[str, Any]:
        """Returns the rest of the state."""

    def _check_open(self) -> None:
        if self.round >= self._learner.rounds:
            raise StreamHaltedError(f"all {self.round} rounds are over; start another run")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} can't be copied or pickled: its cost covers one run; see checkpoint()")


Run = TypeVar("Run", bound=RoundStream)


def charged_run(
    event: PrivacyEvent,
    begin: Callable[[], Run],
    noise: Noise,
    ledger: AnyLedger | None,
    name: str | None,
    reads: Iterable[str] | None,
) -> Run:
    """Charges a run to the ledger, if one is given, and begins it; the ledger then knows its sessions.

    Raises:
        HockeystickError: the ledger refuses; nothing is drawn.
    """
    run = None if ledger is None else secrets.token_hex(16)
    stream = charged(event, begin, noise, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE, run=run)
    stream._run = run
    return stream
