"""AboveThreshold with Gaussian noise: for many answers, with noise proportional to the square root of their number.

*Releases* compare whole numbers, with discrete Gaussian noise on a grid of step g, where neighbouring queries are at
most D = sensitivity/g + 1 steps apart. The event has two bounds. The first rests on the Rényi divergence between each
noise and its shift; for discrete Gaussian noise shifted by whole steps it is at most that of real noise of equal scale
(Canonne, Kamath & Steinke 2020, Prop. 5). So the bound holds if both scales are raised by the factor D·g/sensitivity.
The second treats all queries minus the threshold as one Gaussian mechanism; the slightly larger noise that it covers is
that of ``randomness.noise_on_a_grid.gaussian_scale``.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick import accounting
from hockeystick.accounting import NumericalError, field_checks, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.thresholds import above_threshold
from hockeystick.mechanisms.thresholds.comparison_law import GAUSSIAN, NoiseKind
from hockeystick.mechanisms.thresholds.threshold_stream import ThresholdStream


def _queries(value: int) -> int:
    return validate.integer("queries", value, low=1)


@frozen
class GaussianAboveThreshold(ThresholdStream):
    """Reports for each of at most ``queries`` queries whether it is above a threshold; halts after ``answers`` "above".

    It is ``AboveThreshold`` with normal noise (Zhu & Wang 2020). Its event has two bounds: a Rényi curve that grows
    with the logarithm of the number of outcomes, and the cost of a Gaussian mechanism for all queries.

    Args:
      threshold: the public number that the queries are compared with.
      threshold_scale: the standard deviation of the threshold's noise, in the units of the queries.
      query_scale: the standard deviation of each query's noise, in the same units.
      queries: the largest number of queries.
      sensitivity, answers, monotone: as for ``AboveThreshold``.

    Raises:
      InvalidArgumentError: a number is not finite, not positive where it must be, or ``monotone`` is not a bool.

    Example:
      >>> from hockeystick.mechanisms import AboveThreshold, GaussianAboveThreshold
      >>> target = {"epsilon": 1.0, "answers": 5_000, "monotone": True}
      >>> round(AboveThreshold.calibrated(50.0, **target).query_scale)
      5017
      >>> round(GaussianAboveThreshold.calibrated(50.0, delta=1e-6, queries=100_000, **target).query_scale)
      1336
    """

    threshold: float = field(converter=above_threshold.threshold)
    threshold_scale: float = field(converter=field_checks.threshold_scale, kw_only=True)
    query_scale: float = field(converter=field_checks.query_scale, kw_only=True)
    queries: int = field(converter=_queries, kw_only=True)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    answers: int = field(default=1, converter=field_checks.answers, kw_only=True)
    monotone: bool = field(default=False, converter=arguments.monotone, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses scales per unit of sensitivity that no event can hold

    @classmethod
    def calibrated(
        cls,
        threshold: float,
        *,
        epsilon: float,
        delta: float,
        queries: int,
        sensitivity: float = 1.0,
        answers: int = 1,
        monotone: bool = False,
    ) -> GaussianAboveThreshold:
        """Returns an (``epsilon``, ``delta``)-DP mechanism.

        The ratio of the two scales minimises the variance of the comparisons for a given sum of both Rényi divergences;
        their size is the least that meets the target, to one part in 2^20.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: the target is so extreme that no noise can be shown to meet it.
        """
        target = arguments.target_epsilon(epsilon)
        allowed = validate.probability("delta", delta, open=True)
        distance, count = arguments.sensitivity(sensitivity), field_checks.answers(answers)
        moved = 1.0 if arguments.monotone(monotone) else 2.0
        ratio = math.sqrt(moved * math.sqrt(min(count, _queries(queries))))

        def of_size(size: float) -> GaussianAboveThreshold:
            return cls(
                threshold,
                threshold_scale=size,
                query_scale=size * ratio,
                queries=queries,
                sensitivity=distance,
                answers=count,
                monotone=monotone,
            )

        def meets(size: float) -> bool:
            if not 1e-90 < size / distance < 1e90:
                raise NumericalError(f"epsilon={target!r}, delta={allowed!r}: no scale can be shown to meet it")
            return accounting.delta(of_size(size).event(), target).upper <= allowed

        low = high = distance
        while not meets(high):
            low, high = high, 2.0 * high
        while meets(low):
            low, high = low / 2.0, low
        while high - low > high * 2.0**-20:
            middle = low + (high - low) / 2
            low, high = (low, middle) if meets(middle) else (middle, high)
        return of_size(high)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``GaussianAboveThreshold`` with both scales per unit of sensitivity."""
        return accounting.GaussianAboveThreshold(
            arguments.quotient_down(self.threshold_scale, self.sensitivity),
            arguments.quotient_down(self.query_scale, self.sensitivity),
            self.queries,
            self.answers,
            self.monotone,
        )

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns values as ``AboveThreshold.worst_case_neighbours`` does, at most ``queries`` of them."""
        first, second = super().worst_case_neighbours()
        return first[-self.queries :], second[-self.queries :]

    def _kind(self) -> NoiseKind:
        return GAUSSIAN

    def _most_queries(self) -> int:
        return self.queries

    def _whole(self) -> tuple[float, float, float]:
        together = self.sensitivity * math.sqrt(self.queries) * (1 + 1e-15)  # L2, of all queries
        step = noise_on_a_grid.gaussian_grid(self.query_scale, together, self.queries)
        moved = (self.sensitivity / step + 1) * (1 + 1e-14)
        threshold_steps = self.threshold_scale / self.sensitivity * moved
        query_steps = noise_on_a_grid.gaussian_scale(self.query_scale, together, step, self.queries)
        if max(threshold_steps, query_steps) > LARGEST_SCALE:
            raise NumericalError(
                f"release: scales {self.threshold_scale:g} and {self.query_scale:g} at a sensitivity of "
                f"{self.sensitivity:g} are too far apart"
            )
        return step, threshold_steps, max(query_steps, self.query_scale / self.sensitivity * moved)

    def _draws(self, noise: Noise, scale: float, count: int) -> NDArray[np.int64]:
        return noise.gaussian(scale, count)
