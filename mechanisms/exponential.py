"""The exponential mechanism: choose among candidates with odds that grow exponentially with their score."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.mechanisms import arguments
from hockeystick.mechanisms.protocol import SimulationOnly


@frozen
class ExponentialMechanism(SimulationOnly):
    """Chooses candidate r with probability in proportion to e^(score_r / scale) (McSherry & Talwar 2007).

    The cost is bounded range (Durfee & Rogers 2019): the privacy losses of all candidates lie in an interval of length
    2·sensitivity / scale, or sensitivity / scale where all scores move in one direction. That interval holds 0, so its
    length is also the ε.

    Args:
      scale: the scores' unit on the logarithmic scale of odds. The textbook's parameter ε at sensitivity Δ is
        scale = 2Δ/ε, see ``calibrated``.
      sensitivity: the most by which any single score changes between two neighbouring data sets. For scores that count
        records that is 1 both under add-or-remove-one and under replace-one.
      monotone: all scores change in the same direction, or not at all, between any two neighbouring data sets. Counts
        of records do so under add-or-remove-one; under replace-one they do not, as one may fall while another rises.

    Raises:
      InvalidArgumentError: a number is not finite and positive, or ``monotone`` is not a bool.
    """

    scale: float = field(converter=arguments.scale)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    monotone: bool = field(default=False, converter=arguments.monotone, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is no width

    @classmethod
    def calibrated(cls, *, epsilon: float, sensitivity: float = 1.0, monotone: bool = False) -> ExponentialMechanism:
        """Returns the mechanism of bounded range ``epsilon``, which is also ``epsilon``-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number.
        """
        target = validate.real("epsilon", epsilon, low=0.0, low_open=True)
        distance = arguments.sensitivity(sensitivity)
        return cls(
            arguments.quotient_up(distance if monotone else 2 * distance, target),
            sensitivity=distance,
            monotone=monotone,
        )

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``BoundedRange(2·sensitivity / scale)``, half of it if ``monotone``."""
        return accounting.BoundedRange(
            arguments.quotient_up((1 if self.monotone else 2) * self.sensitivity, self.scale)
        )

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        """Returns chosen candidates, integers of shape (runs,), for scores of shape (candidates,).

        Raises:
          InvalidArgumentError: the scores are empty, not numeric or not finite, ``runs`` is no integer ≥ 1, or ``rng``
            no generator.
        """
        logits = self._logits("value", value)
        source, count = arguments.generator(rng), arguments.run_count(runs)
        chosen = np.empty(count, dtype=np.int64)
        for rows in arguments.blocks(count, len(logits)):
            # The largest of logit + Gumbel noise is a draw from their softmax; no normaliser, nothing under- or
            # overflows.
            noise = source.gumbel(size=(rows.stop - rows.start, len(logits)))
            noise += logits
            chosen[rows] = noise.argmax(axis=1)
        return chosen

    def log_probabilities(self, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(candidate) for scores of shape (candidates,)."""
        logits = self._logits("value", value)
        return np.asarray(logits - special.logsumexp(logits))

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns the scores of two candidates; the first is chosen with probability 1/5 in the second world.

        The loss of choosing the first is closer to the full width the rarer it is, but a test must also see it happen.
        """
        lead = self.scale * math.log(4.0)
        if self.monotone:
            return np.array([0.0, lead + self.sensitivity]), np.array([self.sensitivity, lead + self.sensitivity])
        return np.array([0.0, lead + 2 * self.sensitivity]), np.array([self.sensitivity, lead + self.sensitivity])

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for chosen candidates of shape (runs,)."""
        p0 = self.log_probabilities(validate.array("value0", value0, ndim=1))
        p1 = self.log_probabilities(validate.array("value1", value1, shape=p0.shape))
        chosen = validate.array("output", output, ndim=1, low=0, high=len(p0) - 1)
        if (chosen != np.floor(chosen)).any():
            raise InvalidArgumentError("output", output, "is not an array of candidates", "give their indices")
        return np.asarray((p0 - p1)[chosen.astype(np.int64)])

    def accuracy(self, beta: float, *, candidates: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` the chosen score is at most t below the best one.

        It is exact for the worst scores, one candidate ahead of all others by just more than t.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` no integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        others = validate.integer("candidates", candidates, low=1) - 1
        if not others:
            return 0.0
        return self.scale * max(0.0, math.log(others) + math.log1p(-failure) - math.log(failure))

    def _logits(self, name: str, value: ArrayLike) -> NDArray[np.float64]:
        scores = validate.array(name, value, ndim=1)
        if not len(scores):
            raise InvalidArgumentError(name, value, "has no candidates", "give at least one score")
        with np.errstate(over="ignore"):  # a candidate that far behind has probability 0 in floats
            return np.asarray((scores - scores.max()) / self.scale)
