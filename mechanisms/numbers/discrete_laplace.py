"""The discrete Laplace mechanism: whole numbers plus two-sided geometric noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.added_integers import FARTHEST, AdditiveIntegers, least_noise
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE
from hockeystick.mechanisms.randomness.noise import Noise


def _scale(value: float) -> float:
    return validate.real("scale", value, low=0.0, low_open=True, high=LARGEST_SCALE / 128)


def _sensitivity(value: int) -> int:
    return validate.integer("sensitivity", value, low=1, high=FARTHEST)


@frozen
class DiscreteLaplace(AdditiveIntegers):
    """The discrete Laplace mechanism, also known as geometric (Ghosh, Roughgarden & Sundararajan 2009).

    It adds two-sided geometric noise, P(k) ∝ e^(−|k|/scale), to every entry of an array of whole numbers, of any shape.
    It is ε-DP with ε = sensitivity / scale, for any number of entries; its event has the exact privacy profile. Floats
    are accepted if they are whole.

    Args:
      scale: the scale of the noise, up to 2^45; its variance is 2q/(1 − q)² with q = e^(−1/scale).
      sensitivity: the largest L1 distance between the values of two neighbouring data sets, a whole number. For a
        histogram of records it is 1 under add-or-remove-one and 2 under replace-one.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import DiscreteLaplace
      >>> mechanism = DiscreteLaplace.calibrated(epsilon=0.5)
      >>> mechanism.simulate([40, 2, 0], np.random.default_rng(1), runs=2)
      array([[38,  7, -1],
             [45,  0,  0]])
      >>> mechanism.accuracy(0.05)  # with probability 0.95 a count is off by at most this
      6
    """

    scale: float = field(converter=_scale)
    sensitivity: int = field(default=1, converter=_sensitivity, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a scale that is not a valid noise multiplier

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float = 0.0, sensitivity: int = 1) -> DiscreteLaplace:
        """Returns the mechanism with the least noise that is certainly (``epsilon``, ``delta``)-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0 (> 0 where ``delta`` = 0), ``delta`` not in [0, 1), or
            ``sensitivity`` is not an integer ≥ 1.
          NumericalError: no scale can be shown to reach the target.
        """
        distance = _sensitivity(sensitivity)
        if validate.real("delta", delta, low=0.0, high=1.0, high_open=True) > 0.0:
            loss = validate.real("epsilon", epsilon, low=0.0)
            guess = distance / max(loss, delta)
            return cls(
                least_noise(lambda t: cls(t, sensitivity=distance), epsilon=loss, delta=delta, guess=guess),
                sensitivity=distance,
            )
        target = arguments.target_epsilon(epsilon)
        found = cls(arguments.quotient_up(distance, target), sensitivity=distance)
        while found.event().pure_epsilon() > target:  # its quotient is rounded too
            found = cls(math.nextafter(found.scale, math.inf), sensitivity=distance)
        return found

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``DiscreteLaplace(scale, distance=sensitivity)``."""
        return accounting.DiscreteLaplace(self.scale, distance=self.sensitivity)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two numbers at distance ``sensitivity``: a change of one entry is the easiest to detect."""
        return 0, self.sensitivity

    def _whole_noise(self, noise: Noise, count: int) -> IntArray:
        return noise.laplace(self.scale, count)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        return -np.abs(drawn) / self.scale

    def _tail(self, reach: int) -> float:
        return 2 * math.exp(-(reach + 1) / self.scale) / (1 + math.exp(-1 / self.scale))
