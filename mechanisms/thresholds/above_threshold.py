"""AboveThreshold, or the sparse vector technique: which of many queries exceed a threshold, for the price of a few.

The variant is Algorithm 1 of Lyu, Su & Li 2017 ("Understanding the Sparse Vector Technique for Differential Privacy"):
one noisy threshold for the whole stream, fresh noise for each query with a scale that grows with the number of
above-threshold answers, bits alone published, and a halt at the last of those answers. Each variant there that drops
one of these four is not private at the ε it states.

*Releases* compare whole numbers: query and threshold are rounded to a grid of step g, and both noises are discrete
Laplace noise in units of g, of scales s and t. Neighbouring queries are then at most D = sensitivity/g + 1 steps apart.
The one substitution that all bounds rest on (see ``accounting.sparse_vector``) moves ρ by a whole step as well as by a
real one: as the queries move by one step at most, no outcome's probability falls by more than e^−f or rises by more
than e^r, with f and r the event's rates for the scales s and t. That bounds, outcome set by outcome set, D such steps
in a row by D steps of the law with masses proportional to e^(−f·k), k ≥ 0, and e^(r·k), k < 0, as in
``accounting.log_lipschitz``. Of that law and its shift by D, 1 − δ(ε) is e^(r(ε − D·f)/(f + r)) at ε = D·f, and from
there on downwards in steps of w = f + r, as for the real-valued law, and linear in e^ε between. A chord of such a power
of e^ε lies below it by at most the factor e^(w²/32). So the event of rates F ≥ D·f + w³/(32·r) and R ≥ D·r + w³/(32·f)
covers it, which ``steps_and_raise`` sees to by a slightly larger scale of both noises.
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

_FINE = 2.0**-16  # of the least of scales and sensitivity: how far rounding moves a query
_MOST_STEPS = 2.0**43  # of a scale, for noise to be drawn well


def threshold(value: float) -> float:
    """Returns the parameter ``threshold``, finite."""
    return validate.real("threshold", value)


def steps_and_raise(fall: float, rise: float, sensitivity: float, *scales: float) -> tuple[float, float]:
    """Returns a grid for comparisons with discrete Laplace noise, and the factor by which all its scales are raised.

    Args:
      fall, rise: the rates of the event to be covered, per ``sensitivity``.
      sensitivity: the distance of neighbouring queries before they are rounded.
      scales: of the noises, in the units of the queries.

    Raises:
      NumericalError: the scales are so far apart that no grid suits both.
    """
    step = math.ldexp(0.5, math.frexp(max(min(*scales, sensitivity) * _FINE, max(scales) / _MOST_STEPS))[1])
    distance = sensitivity / step
    moved = (distance + 1) * (1 + 1e-15)
    down, up = fall / distance, rise / distance  # per step
    curved = (down + up) ** 3 / (32 * down * up)
    # The root of distance = moved/factor + curved/factor².
    factor = (moved + math.sqrt(moved**2 + 4 * distance * curved)) / (2 * distance) * (1 + 1e-14)
    if not factor < 1 + 2.0**-10:
        raise NumericalError(f"release: scales {scales} at a sensitivity of {sensitivity:g} are too far apart")
    return step, factor


@frozen
class LaplaceThreshold(ThresholdStream):
    """Base of sparse vectors with Laplace noise; see the classes."""

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
    """Answers for each query of a stream whether it is above a threshold, and halts after ``answers`` times "above".

    One ρ ~ Laplace(threshold_scale) is drawn for the run and a fresh ν ~ Laplace(query_scale) for each query; the
    answer is "above" where query + ν ≥ threshold + ρ. The cost does not grow with the number of queries: it is
    ε = sensitivity / threshold_scale + 2·answers·sensitivity / query_scale, without the 2 if ``monotone`` (Lyu, Su & Li
    2017, Thms 2 and 3).

    Args:
      threshold: what the queries are compared with; public.
      threshold_scale: scale of the threshold's noise, in the units of the queries.
      query_scale: scale of each query's noise, in the same units.
      sensitivity: the most by which any single query changes between two neighbouring data sets. For queries that count
        records that is 1 both under add-or-remove-one and under replace-one.
      answers: how many queries may be reported as above before the stream is halted.
      monotone: all queries change in the same direction, or not at all, between any two neighbouring data sets. Counts
        of records do so under add-or-remove-one; under replace-one they do not.

    Raises:
      InvalidArgumentError: a number is not finite, not positive where it must be, or ``monotone`` is not a bool.
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

        The threshold's and the queries' shares of ε stand as 1 : (2·answers)^(2/3), or 1 : answers^(2/3) if monotone
        (Lyu, Su & Li 2017, §4.2).

        Raises:
          InvalidArgumentError: an argument is out of its domain, see the class.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        weight = (1 if monotone else 2) * field_checks.answers(answers)
        share = target / (1.0 + weight ** (2.0 / 3.0))
        threshold_scale = arguments.quotient_up(distance, share)
        query_scale = arguments.quotient_up(weight * distance, target - share)
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
