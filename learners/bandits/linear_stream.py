"""Runs of ``PrivateLinUCB``, one person at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common.noisy_sum_stream import SumsStream


class LinUCBStream(SumsStream):
    """One run of ``PrivateLinUCB``.

    In each round call ``predict(contexts)`` with the contexts of the person's actions, tell the person alone which one
    is taken, and call ``update(reward)``.

    Example:
        >>> from hockeystick.learners import PrivateLinUCB
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = PrivateLinUCB.calibrated(rounds=1000, dimension=2, epsilon=1.0, delta=1e-6)
        >>> session = learner.start(noise=SimulationNoise(1))
        >>> session.predict([[0.6, 0.0], [0.6, 0.8]])
        1
        >>> session.update(1.0)
        >>> session.round, session.estimate.shape
        (1, (2,))
        >>> learner.resume(session.checkpoint(), noise=SimulationNoise(2)).round
        1
    """

    __slots__ = ("_chosen",)
    _chosen: FloatArray | None

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._chosen = None

    @property
    def estimate(self) -> FloatArray:
        """The estimate of the parameter θ from the people so far, shape (d,). It is private and may be published."""
        return np.asarray(self._learner._estimate(self._action))

    def predict(self, contexts: npt.ArrayLike) -> int:
        """Returns the action for the next person, who alone may see it.

        The same contexts give the same action until ``update``. With other contexts the action is chosen anew, and
        ``update`` is about the last one: nothing is kept about a person who leaves without a reward.

        Args:
            contexts: Shape (k, d): the person's context for each of k actions; k may differ from person to person.

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidDataError: bad contexts.
        """
        self._check_open()
        given = self._learner._contexts(contexts)
        action = int(self._learner._choose(self._action[None], given, self._round)[0])
        self._chosen = given[action].copy()
        return action

    def update(self, reward: float) -> None:
        """Reads the reward of the action that ``predict`` returned, in [-1, 1], and ends the round.

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidDataError: a bad reward, or ``predict`` was not called in this round; nothing was read.
        """
        self._check_open()
        if self._chosen is None:
            raise InvalidDataError("reward", reward, "belongs to no action of this round", "call predict(contexts)")
        self._take(self._learner._contribution(reward, self._chosen, self._round))
        self._chosen = None

    def _body(self) -> dict[str, Any]:
        return {**super()._body(), "chosen": None if self._chosen is None else self._chosen.tolist()}

    def _restore(self, body: dict[str, Any]) -> None:
        if body["chosen"] is not None:
            self._chosen = self._learner._contexts([body["chosen"]])[0]
