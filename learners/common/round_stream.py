"""Runs of online learners, one round at a time: what all of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn

from hockeystick.learners.common.stream_checkpoint import seal, unseal
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError


class RoundStream(ABC):
    """One run of an online learner, which its ``start`` begins and its ``resume`` continues.

    In each round call ``predict()`` for the action, then ``update(...)`` with the losses of that round. The run's whole
    cost is charged at its start. It can't be copied or pickled, because the charge covers one run; ``checkpoint()``
    saves it.

    See ``LazyStream`` for an example.
    """

    __slots__ = ("_learner", "_round", "_simulated")
    _version: ClassVar[int] = 1

    def __init__(self, learner: Any, simulated: bool) -> None:
        self._learner, self._simulated, self._round = learner, simulated, 0

    @property
    def round(self) -> int:
        """Number of rounds that are over."""
        return self._round

    @property
    def simulated(self) -> bool:
        """Whether the noise is simulated; if so, this is not a release."""
        return self._simulated

    def checkpoint(self) -> dict[str, Any]:
        """Returns the run's state, ready for JSON, for ``resume`` of the learner.

        It holds sums of the losses and must stay as private as they are. It holds no seed and no future coin, so that
        it does not reveal the next draws. A run that is resumed twice becomes two runs, of which only one may be
        published; the library can't enforce that. Its checksum detects accidents; sign it where somebody may forge it.
        """
        body = {"round": self.round, **self._body()}
        return seal(body, kind=self._kind(), version=self._version, learner=self._learner, simulated=self._simulated)

    @classmethod
    def _opened(cls, learner: Any, checkpoint: object, simulated: bool) -> dict[str, Any]:
        """Returns the body of a checkpoint, checked; see ``unseal``."""
        return unseal(checkpoint, kind=cls._kind(), version=cls._version, learner=learner, simulated=simulated)

    @classmethod
    def _kind(cls) -> str:
        return f"checkpoint of a {cls.__name__}"

    @abstractmethod
    def _body(self) -> dict[str, Any]:
        """Returns the rest of the state."""

    def _check_open(self) -> None:
        if self.round >= self._learner.rounds:
            raise StreamHaltedError(f"all {self.round} rounds are over; start another run")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} can't be copied or pickled: its cost covers one run; see checkpoint()")
