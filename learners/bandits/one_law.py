"""The base of bandits for independent losses of one law: their bounds on the regret, from how long an arm is played."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import array, probability
from hockeystick.learners.bandits.arm_player import ArmPlayer
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary


def checked_failure(value: object) -> float:
    """The probability that a confidence interval may be missed, in (0, 1)."""
    return probability("failure", value, open=True)


class OneLawPlayer(ArmPlayer):
    """A bandit that plays an arm no longer than its confidence intervals are wide for the arm's gap."""

    __slots__ = ()
    _against_others: ClassVar[str]
    """The reason why losses of another kind have no bound."""

    failure: float

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise

    @property
    def _longest(self) -> int:
        return self.rounds

    def pseudo_regret_bound(self, gaps: npt.ArrayLike | None = None) -> RegretBound:
        """Returns a bound on the expected excess loss over always playing the arm of the least mean."""
        raise NotImplementedError

    def _excess(
        self,
        gaps: npt.ArrayLike | None,
        ends: Sequence[float],
        seen: Sequence[float],
        *,
        longest: float,
        worse: float,
    ) -> RegretBound:
        """Returns a bound from how often an arm is played if no interval is missed; if one is, the excess is at most T.

        Args:
            gaps: As for ``pseudo_regret_bound``.
            ends: How often an arm is played at most if its gap is above ``seen``, which falls.
            seen: The gaps.
            longest: How often any arm but the best one is played at most.
            worse: How often all of them together are.
        """
        if gaps is not None:
            given = array("gaps", gaps, shape=(self.arms,), low=0.0, high=1.0)
            if given.min() > 0.0:
                raise InvalidArgumentError("gaps", gaps, "has no arm without a gap", "subtract the least mean")
            played = [next((n for n, g in zip(ends, seen, strict=True) if g < gap), longest) for gap in given]
            total = float(given @ np.array(played)) + self.failure * self.rounds
            return RegretBound(total, most=self.rounds * float(given.max()), adversary="stochastic")
        best, largest, worst = worse, 1.0, 0.0
        for end, gap in zip(ends, seen, strict=True):
            if gap < largest:  # arms of gaps between the two are played so often at most
                worst, largest = max(worst, largest * end), gap
                best = min(best, gap * worse + (self.arms - 1) * worst)
        return RegretBound(best + self.failure * self.rounds, most=self.rounds, adversary="stochastic")

    def regret_bound(self, *, adversary: Adversary = "stochastic") -> RegretBound:
        """Returns a bound on the expected regret against the best arm in hindsight, for losses of one law.

        It is :meth:`pseudo_regret_bound` and sqrt(T ln(K)/2), for the arm that was best by chance.

        Raises:
            InvalidArgumentError: other losses; the message says why.
        """
        if checked_adversary(adversary) != "stochastic":
            way = 'use "stochastic", or NoisyBandit'
            raise InvalidArgumentError("adversary", adversary, self._against_others, way)
        found = self.pseudo_regret_bound() + math.sqrt(self.rounds * math.log(self.arms) / 2.0)
        return RegretBound(found, most=self.rounds, adversary="stochastic")
