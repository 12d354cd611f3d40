"""Report-noisy-max: the candidate with the largest noisy score."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import boolean
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.selection import common
from hockeystick.mechanisms.selection.common import ExactScores, Selection
from hockeystick.mechanisms.selection.exponential import ExponentialMechanism
from hockeystick.mechanisms.selection.permute_and_flip import PermuteAndFlip

_MOST_PIECES = 1_000_000  # of the integral, times distinct scores
_REACH = 40.0  # scales: what lies beyond is e^-40 of the integral


def _flag(value: bool) -> bool:
    return boolean("minimum", value)


@frozen
class NoisyMax(Selection):
    """Report-noisy-max: noise is added to every score, and the candidate with the largest noisy score is published.

    Only the candidate is published: its noisy score would cost more. With each kind of noise the mechanism is ε-DP with
    ε = 2·sensitivity / scale, or sensitivity / scale if ``monotone``. In a composition Gumbel noise costs least; see
    ``accounting.ReportNoisyMax``. A release draws as many digits of the noise as the comparisons need, so it has
    exactly the law of continuous noise; see ``selection.common``.

    Args:
      scale: the scale of the noise, in the unit of the scores.
      noise: "laplace"; "gumbel", which makes this the exponential mechanism; or "exponential", which makes it
        permute-and-flip.
      sensitivity, monotone: as for ``ExponentialMechanism``.
      minimum: whether the candidate with the least noisy score is published; the noise is then subtracted.

    Raises:
      InvalidArgumentError: a number is not finite and positive, the noise is unknown, or a flag is not a bool.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import NoisyMax
      >>> scores = [30, 28, 10]
      >>> for noise in ("laplace", "gumbel", "exponential"):
      ...     mechanism = NoisyMax.calibrated(noise, epsilon=1.0)
      ...     print(noise, np.exp(mechanism.log_probabilities(scores)).round(4))
      laplace [0.7241 0.2759 0.    ]
      gumbel [0.731  0.2689 0.    ]
      exponential [0.816  0.1839 0.    ]
    """

    noise: str = field(default="laplace")
    minimum: bool = field(default=False, converter=_flag, kw_only=True)

    @classmethod
    def calibrated(
        cls,
        noise: str = "laplace",
        *,
        epsilon: float,
        sensitivity: float = 1.0,
        monotone: bool = False,
        minimum: bool = False,
    ) -> NoisyMax:
        """Returns the mechanism with the least scale that is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number, or the noise is unknown.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        scale = arguments.quotient_up(distance if monotone else 2 * distance, target)
        while True:
            found = cls(scale, noise, sensitivity=distance, monotone=monotone, minimum=minimum)
            if found.event().pure_epsilon() <= target:
                return found
            scale = math.nextafter(scale, math.inf)  # the event's quotients are rounded too

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``ReportNoisyMax(scale / sensitivity, noise)``."""
        return noisy_max_event(self, self.noise)

    def log_probabilities(self, value: ArrayLike) -> NDArray[np.float64]:
        """Returns ln P(candidate) for scores of shape (candidates,), to about 12 digits.

        With Laplace noise it is ∫ f(x − s_r)·Π_{k≠r} F(x − s_k) dx by quadrature, whose time is proportional to m·(m +
        span) for m distinct scores and their span in units of the scale.

        Raises:
          NumericalError: there are too many scores, or they are too far apart.
        """
        if (other := self._other()) is not None:
            scores = common.scores("value", value)
            return other.log_probabilities(-scores if self.minimum else scores)
        distinct, where, counts = np.unique(self._logits("value", value), return_inverse=True, return_counts=True)
        return np.asarray(_laplace_law(distinct, counts)[where.reshape(-1)])

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns scores whose first entry moves against the others, by as much as the sensitivity allows.

        With Laplace noise there are eight candidates; the loss approaches ε only with more. With the other kinds of
        noise they are those of the mechanism that this one is.
        """
        if (other := self._other()) is not None:
            pair = other.worst_case_neighbours()
        else:
            gain = self.sensitivity
            pair = np.full(8, gain if self.monotone else 2 * gain), np.full(8, gain)
            pair[0][0] = 0.0
        return (-pair[0], -pair[1]) if self.minimum else pair

    def accuracy(self, beta: float, *, candidates: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` the chosen score is at most t from the best one.

        The bound is attained by the worst scores: one candidate ahead of all others by just more than t. To raise a
        score that is more than t behind, or to lower one that is not, only increases the probability of failure.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` is not an integer ≥ 1.
        """
        if (other := self._other()) is not None:
            return other.accuracy(beta, candidates=candidates)
        failure, others = common.failing(beta, candidates)

        def another(gap: float) -> float:
            if not gap:
                return others / (others + 1)
            behind, _ = _laplace_law(np.array([-gap, 0.0]), np.array([others, 1]))
            return others * math.exp(behind)

        return self.scale * common.least_gap(another, failure) if others else 0.0

    def _other(self) -> ExponentialMechanism | PermuteAndFlip | None:
        """The equivalent mechanism with a name of its own, if there is one, for scores of which the largest wins."""
        return _named(self) if self.noise in ("gumbel", "exponential") else None

    def _least_wins(self) -> bool:
        return self.minimum

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        other = self._other()
        return rng.laplace(size=shape) if other is None else other._noise(rng, shape)

    def _draw(self, checked: ExactScores, noise: Noise) -> int:
        other = self._other()
        if other is None:
            return common.largest_draw(checked.gaps(), noise, two_sided=True)
        return other._draw(checked, noise)


@lru_cache(maxsize=64)
def _named(mechanism: NoisyMax) -> ExponentialMechanism | PermuteAndFlip:
    kind = ExponentialMechanism if mechanism.noise == "gumbel" else PermuteAndFlip
    return kind(mechanism.scale, sensitivity=mechanism.sensitivity, monotone=mechanism.monotone)


def noisy_max_event(mechanism: Selection, noise: str) -> accounting.ReportNoisyMax:
    """Returns the event of one choice with noise of the mechanism's scale; its ε is at least the exact one.

    Raises:
      InvalidArgumentError: the noise is unknown, or the ratio of sensitivity and scale is not in the event's domain.
    """
    score_range = 1.0 if mechanism.monotone else 2.0
    exact = Fraction(score_range) * Fraction(mechanism.sensitivity)
    scale = arguments.quotient_down(mechanism.scale, mechanism.sensitivity)
    while True:
        event = accounting.ReportNoisyMax(scale, noise, score_range=score_range)
        if Fraction(event.pure_epsilon()) * Fraction(mechanism.scale) >= exact:
            return event
        scale = math.nextafter(scale, 0.0)  # the event's own quotient was rounded down


def _laplace_law(scores: FloatArray, counts: NDArray[np.int64]) -> FloatArray:
    """ln P(r has the largest score + Laplace(1)) for ascending scores, each held by ``counts`` candidates."""
    span = float(scores[-1] - scores[0])
    if not (span + len(scores)) * len(scores) <= _MOST_PIECES:
        raise NumericalError(
            f"log_probabilities: {len(scores)} distinct scores over {span:.3g} noise scales are too many or too far "
            "apart to integrate; compare fewer candidates, or those closer to the best"
        )
    low, high = scores[0] - _REACH, scores[-1] + _REACH + math.log(counts.sum())
    edges = np.unique(np.concatenate([scores, np.arange(low, high), [high]]))  # smooth between: the kinks are at scores
    nodes, log_weights = common.panels(edges)

    def log_integrand(x: FloatArray) -> FloatArray:
        apart = x - scores
        half = 0.5 * np.exp(-np.abs(apart))
        log_cdf = np.where(apart < 0, -np.abs(apart) - math.log(2.0), np.log1p(-half))
        log_density = -np.abs(apart) - math.log(2.0)
        return np.asarray(log_density - log_cdf + (log_cdf @ counts)[:, np.newaxis])

    return common.log_integrals(nodes, log_weights, log_integrand, len(scores))
