"""AboveThreshold, the sparse vector technique: which of many queries exceed a threshold, at the cost of a few.

The variant is Algorithm 1 of Lyu, Su & Li 2017 ("Understanding the Sparse Vector Technique for Differential Privacy").
It has one noisy threshold for the whole stream and fresh noise for each query, with a scale that grows with the number
of above-threshold answers; it publishes only bits, and halts at the last of those answers. The variants in that paper
that omit one of these four do not have the ε they claim.

*Releases* compare whole numbers: query and threshold are rounded to a grid of step g, and both noises are discrete
Laplace noise in units of g, of scales s and t. Neighbouring queries are then at most D = sensitivity/g + 1 steps apart.
The substitution behind all bounds (see ``accounting.sparse_vector``) shifts ρ, which is possible by a whole step as
well as by a real number. If the queries move by at most one step, the probability of an outcome falls by at most the
factor e^−f and rises by at most e^r, with f and r the event's rates for the scales s and t. So D such steps are
bounded, for every set of outcomes, by D steps of the law with masses proportional to e^(−f·k), k ≥ 0, and e^(r·k),
k < 0, as in ``accounting.log_lipschitz``. For that law and its shift by D, 1 − δ(ε) is e^(r(ε − D·f)/(f + r)) at
ε = D·f and downwards in steps of w = f + r, as for the real-valued law, and linear in e^ε in between. A chord of such a
power of e^ε lies below it by at most the factor e^(w²/32). So the event of rates F ≥ D·f + w³/(32·r) and R ≥ D·r +
w³/(32·f) covers it, which ``steps_and_raise`` sees to by a slightly larger scale of both noises.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick import accounting
from hockeystick.accounting import NumericalError, field_checks, validate
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.thresholds.comparison_law import LAPLACE, NoiseKind
from hockeystick.mechanisms.thresholds.threshold_stream import ThresholdStream

_FINE = 2.0**-16  # of the least of scales and sensitivity: the step of the grid
_MOST_STEPS = 2.0**43  # of a scale, so that noise is drawn accurately


def threshold(value: float) -> float:
    """Returns the parameter ``threshold``, finite."""
    return validate.real("threshold", value)


def steps_and_raise(fall: float, rise: float, sensitivity: float, *scales: float) -> tuple[float, float]:
    """Returns a grid step for comparisons with discrete Laplace noise, and the factor by which all scales are raised.

    Args:
      fall, rise: the rates of the event to be covered, per ``sensitivity``.
      sensitivity: the distance of neighbouring queries before rounding.
      scales: the scales of the noises, in the units of the queries.

    Raises:
      NumericalError: the scales are too far apart for a common grid.
    """
    step = math.ldexp(0.5, math.frexp(max(min(*scales, sensitivity) * _FINE, max(scales) / _MOST_STEPS))[1])
    distance = sensitivity / step
    moved = (distance + 1) * (1 + 1e-15)
    down, up = fall / distance, rise / distance  # per step
    if not 1e-100 < down * up < math.inf:
        raise NumericalError(f"release: scales {scales} at a sensitivity of {sensitivity:g} are too far apart")
    curved = (down + up) ** 3 / (32 * down * up)
    # The root of distance = moved/factor + curved/factor².
    factor = (moved + math.sqrt(moved**2 + 4 * distance * curved)) / (2 * distance) * (1 + 1e-14)
    if not factor < 1 + 2.0**-10:
        raise NumericalError(f"release: scales {scales} at a sensitivity of {sensitivity:g} are too far apart")
    return step, factor


@frozen
class LaplaceThreshold(ThresholdStream):
    """Base of sparse vector techniques with Laplace noise; see the classes."""

    threshold: float = field(converter=threshold)
    threshold_scale: float = field(converter=field_checks.threshold_scale, kw_only=True)
    query_scale: float = field(converter=field_checks.query_scale, kw_only=True)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    answers: int = field(default=1, converter=field_checks.answers, kw_only=True)
    monotone: bool = field(default=False, converter=arguments.monotone, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses scales per unit of sensitivity that no event can hold

    def _kind(self) -> NoiseKind:
        return LAPLACE

    def _whole(self) -> tuple[float, float, float]:
        answers = 1 if self._redraws() else self.answers  # under one noisy threshold
        each = answers * self.sensitivity / self.query_scale
        rise = each if self.monotone else self.sensitivity / self.threshold_scale + 2 * each
        fall = self.sensitivity / self.threshold_scale + each if self.monotone else rise
        step, factor = steps_and_raise(fall, rise, self.sensitivity, self.threshold_scale, self.query_scale)
        return step, self.threshold_scale / step * factor, self.query_scale / step * factor

    def _draws(self, noise: Noise, scale: float, count: int) -> NDArray[np.int64]:
        return noise.laplace(scale, count)


@frozen
class AboveThreshold(LaplaceThreshold):
    """Reports for each query of a stream whether it is above a threshold; halts after ``answers`` times "above".

    One ρ ~ Laplace(threshold_scale) is drawn for the run and a fresh ν ~ Laplace(query_scale) for each query; the
    answer is "above" if query + ν ≥ threshold + ρ. The cost does not grow with the number of queries: it is ε-DP with
    ε = sensitivity / threshold_scale + 2·answers·sensitivity / query_scale, without the 2 if ``monotone`` (Lyu, Su & Li
    2017, Thms 2 and 3).

    Args:
      threshold: the public number that the queries are compared with.
      threshold_scale: the scale of the threshold's noise, in the units of the queries.
      query_scale: the scale of each query's noise, in the same units.
      sensitivity: the most by which any single query changes between two neighbouring data sets. For queries that count
        records it is 1, both under add-or-remove-one and under replace-one.
      answers: the number of "above" answers after which the stream halts.
      monotone: whether all queries change in the same direction, or not at all, between any two neighbouring data sets.
        Counts of records do under add-or-remove-one, but not under replace-one.

    Raises:
      InvalidArgumentError: a number is not finite, not positive where it must be, or ``monotone`` is not a bool.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import AboveThreshold
      >>> mechanism = AboveThreshold.calibrated(100.0, epsilon=1.0, answers=2)
      >>> mechanism.simulate([10, 130, 20, 160, 170], np.random.default_rng(1), runs=1)  # -1: not asked, after the halt
      array([[ 0,  1,  0,  1, -1]], dtype=int8)
      >>> round(mechanism.accuracy(0.05, queries=5))
      43
    """

    @classmethod
    def calibrated(
        cls,
        threshold: float,
        *,
        epsilon: float,
        sensitivity: float = 1.0,
        answers: int = 1,
        monotone: bool = False,
    ) -> AboveThreshold:
        """Returns an ``epsilon``-DP mechanism whose comparisons have the least variance.

        The threshold's and the queries' shares of ε have the ratio 1 : (2·answers)^(2/3), or 1 : answers^(2/3) if
        monotone (Lyu, Su & Li 2017, §4.2).

        Raises:
          InvalidArgumentError: an argument is out of its domain.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        weight = (1 if arguments.monotone(monotone) else 2) * field_checks.answers(answers)
        share = target / (1.0 + weight ** (2.0 / 3.0))
        threshold_scale = arguments.quotient_up(distance, share)
        query_scale = arguments.quotient_up(weight * distance, target - share)
        arguments.check_reach(target, max(threshold_scale, query_scale), distance)
        while True:
            found = cls(
                threshold,
                threshold_scale=threshold_scale,
                query_scale=query_scale,
                sensitivity=distance,
                answers=answers,
                monotone=monotone,
            )
            if found.event().pure_epsilon() <= target:
                return found
            query_scale = math.nextafter(query_scale, math.inf)  # the sum of the shares was rounded too

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``AboveThreshold`` with both scales per unit of sensitivity."""
        return accounting.AboveThreshold(
            arguments.quotient_down(self.threshold_scale, self.sensitivity),
            arguments.quotient_down(self.query_scale, self.sensitivity),
            self.answers,
            self.monotone,
        )
