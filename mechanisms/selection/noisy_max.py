"""Report-noisy-max: add independent noise to the scores of several candidates and publish who has the largest."""

from __future__ import annotations

import math
from fractions import Fraction

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
    """Adds noise of ``scale`` to every score and publishes which candidate has the largest (or least) noisy score.

    Nothing else is published: the noisy score itself would cost more. The cost is ε = 2·sensitivity / scale, or
    sensitivity / scale where all scores move in one direction, with each noise; it is the least in a composition with
    Gumbel noise, see ``accounting.ReportNoisyMax``.

    A release compares real numbers, of which as many digits are drawn as it takes, so that no tie is left to break and
    the law is that of continuous noise; see ``mechanisms.selection``.

    Args:
      scale: of the noise, in the unit of the scores.
      noise: "laplace"; "gumbel", which makes it the exponential mechanism; or "exponential", which makes it
        permute-and-flip.
      sensitivity: the most by which any single score changes between two neighbouring data sets. For scores that count
        records that is 1 both under add-or-remove-one and under replace-one.
      monotone: all scores change in the same direction, or not at all, between any two neighbouring data sets. Counts
        of records do so under add-or-remove-one; under replace-one they do not, as one may fall while another rises.
      minimum: the least score wins: the noise is taken off, not added.

    Raises:
      InvalidArgumentError: a number is not finite and positive, the noise is unknown, or a flag is not a bool.
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
        """Returns the mechanism of the least scale that is ``epsilon``-DP.

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

        With Laplace noise it is ∫ f(x − s_r)·Π_{k≠r} F(x − s_k) dx by quadrature; the time grows with the number of
        distinct scores, times their number plus their span in units of the scale.

        Raises:
          NumericalError: the scores are too many or too far apart for that.
        """
        if (other := self._other()) is not None:
            scores = common.scores("value", value)
            return other.log_probabilities(-scores if self.minimum else scores)
        distinct, where, counts = np.unique(self._logits("value", value), return_inverse=True, return_counts=True)
        return np.asarray(_laplace_law(distinct, counts)[where.reshape(-1)])

    def worst_case_neighbours(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns scores of which the first changes places with the others, by as much as the sensitivity allows.

        With Laplace noise there are eight, and the loss nears ε only with more; of the other noises see the mechanisms
        that they make it.
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

        It is exact for the worst scores, one candidate ahead of all others by just more than t: to raise the noisy
        score of a candidate more than t behind, or to lower that of another one, makes the failure only likelier.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``candidates`` no integer ≥ 1.
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
        """The mechanism of another name that this one is, for scores of which the largest wins."""
        if self.noise == "gumbel":
            return ExponentialMechanism(self.scale, sensitivity=self.sensitivity, monotone=self.monotone)
        if self.noise == "exponential":
            return PermuteAndFlip(self.scale, sensitivity=self.sensitivity, monotone=self.monotone)
        return None

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


def noisy_max_event(mechanism: Selection, noise: str) -> accounting.ReportNoisyMax:
    """Returns the event of one choice by noise of the mechanism's scale, with an ε that is no less than the exact one.

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
    """ln P(r has the largest score + Laplace(1)) for ascending scores, each that of ``counts`` candidates."""
    span = float(scores[-1] - scores[0])
    if not (span + len(scores)) * len(scores) <= _MOST_PIECES:
        raise NumericalError(
            f"log_probabilities: {len(scores)} distinct scores over {span:.3g} noise scales are too many or too far "
            "apart to integrate; compare fewer candidates, or those nearer to the best"
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
