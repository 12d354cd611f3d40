"""The exponential mechanism: the probability of a candidate is exponential in its score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.common import ExactScores, Gaps, Selection

_LN2 = math.nextafter(math.log(2.0), 1.0)  # rounded up
_ROUNDED_UP = 1 + 2.0**-51  # above the rounding of a product
_LARGEST_BASE2_SCALE = 1024  # the scale is the power to which numbers of 62 bits are raised


def _base2(value: bool) -> bool:
    return boolean("base2", value)


@frozen
class ExponentialMechanism(Selection):
    """The exponential mechanism (McSherry & Talwar 2007).

    It chooses candidate r with probability proportional to e^(score_r / scale). Its range is bounded (Durfee & Rogers
    2019): the privacy losses of all candidates lie in an interval of length 2·sensitivity / scale, or
    sensitivity / scale if ``monotone``. The interval contains 0, so its length is also ε. A release has exactly this
    law; see ``selection.common``.

    Args:
      scale: the difference of two scores at which the odds of their candidates are e. The textbook's mechanism with
        parameter ε has the scale 2·sensitivity/ε; see ``calibrated``.
      sensitivity: the most by which any single score changes between two neighbouring data sets. For scores that count
        records it is 1, both under add-or-remove-one and under replace-one.
      monotone: whether all scores change in the same direction, or not at all, between any two neighbouring data sets.
        Counts of records do under add-or-remove-one; under replace-one one count may fall while another rises.
      base2: whether probabilities are proportional to 2^(score_r / scale), for whole scores; the cost is then ln 2
        times as much (Ilvento 2020). The scale has to be a whole number up to 1024, and a release needs only fair bits
        and whole-number arithmetic.

    Raises:
      InvalidArgumentError: a number is not finite and positive, a flag is not a bool, or ``base2`` with a scale that is
        not whole.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import ExponentialMechanism
      >>> mechanism = ExponentialMechanism.calibrated(epsilon=1.0)
      >>> scores = [30, 28, 10]
      >>> np.exp(mechanism.log_probabilities(scores)).round(4)
      array([0.731 , 0.2689, 0.    ])
      >>> mechanism.simulate(scores, np.random.default_rng(1), runs=8)
      array([0, 1, 1, 0, 0, 1, 0, 0])
    """

    base2: bool = field(default=False, converter=_base2, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.base2:
            validate.integer("scale", self.scale, low=1, high=_LARGEST_BASE2_SCALE)
        super().__attrs_post_init__()

    @classmethod
    def calibrated(
        cls, *, epsilon: float, sensitivity: float = 1.0, monotone: bool = False, base2: bool = False
    ) -> ExponentialMechanism:
        """Returns the mechanism with the least scale whose range is at most ``epsilon``, so that it is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number, a flag is not a bool, or
            ``base2`` would need a scale above 1024.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        scale = arguments.quotient_up(distance if arguments.monotone(monotone) else 2 * distance, target)
        if not _base2(base2):
            return cls(scale, sensitivity=distance, monotone=monotone)
        whole = max(1.0, np.floor(scale * _LN2))
        while True:
            found = cls(whole, sensitivity=distance, monotone=monotone, base2=True)
            if found.event().pure_epsilon() <= target:
                return found
            whole += 1.0

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``BoundedRange(2·sensitivity / scale)``.

        It is half as much if ``monotone``, and ln 2 times as much if ``base2``.
        """
        if not self.base2:
            return accounting.BoundedRange(self._width())
        return accounting.BoundedRange(arguments.quotient_up(self._score_range() * _LN2 * _ROUNDED_UP, self.scale))

    def log_probabilities(self, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(candidate) for scores of shape (candidates,)."""
        logits = self._logits("value", value)
        return np.asarray(logits - special.logsumexp(logits))

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the scores of two candidates; the first is chosen with probability 1/5 for the second value.

        The rarer the first is, the closer its loss comes to the full range; but a test also has to observe it.
        """
        lead = 2 * self.scale if self.base2 else self.scale * math.log(4.0)
        if self.monotone:
            return np.array([0.0, lead + self.sensitivity]), np.array([self.sensitivity, lead + self.sensitivity])
        return np.array([0.0, lead + 2 * self.sensitivity]), np.array([self.sensitivity, lead + self.sensitivity])

    def accuracy(self, beta: float, *, candidates: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` the chosen score is at most t below the best one.

        The bound is attained by the worst scores: one candidate ahead of all others by just more than t.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` is not an integer ≥ 1.
        """
        failure, others = common.failing(beta, candidates)
        if not others:
            return 0.0
        gap = max(0.0, math.log(others) + math.log1p(-failure) - math.log(failure))
        return self.scale * (gap / math.log(2.0) if self.base2 else gap)

    def _logits(self, name: str, value: ArrayLike) -> FloatArray:
        logits = super()._logits(name, value)
        if not self.base2:
            return logits
        if (np.floor(scores := common.scores(name, value)) != scores).any():
            raise InvalidDataError(name, value, "holds a score that is not whole", "round them, or leave out base2")
        return np.asarray(logits * math.log(2.0))

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        # The argmax of logit + Gumbel noise is a draw from the softmax; there is no normaliser, so nothing overflows.
        return rng.gumbel(size=shape)

    def _checked(self, value: ArrayLike) -> Any:  # ExactScores or Gaps
        if self.base2:
            self._logits("value", value)  # refuses scores that are not whole
        elif isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            common.scores("value", value)
            gaps = common.whole_gaps(value, self.scale)  # the same as below, faster for many candidates
            if gaps is not None:
                return gaps
        return super()._checked(value)

    def _draw(self, checked: ExactScores | Gaps, noise: Noise) -> int:
        if isinstance(checked, Gaps):
            return common.softmax_draw(checked, noise)
        if self.base2:
            return common.base2_draw(checked, noise)
        return common.softmax_draw(checked.gaps(), noise)
