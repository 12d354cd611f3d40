"""The Laplace mechanism: a number or an array plus independent Laplace noise."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick import accounting
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.added_reals import AdditiveNoise
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise


@frozen
class Laplace(AdditiveNoise):
    """The Laplace mechanism (Dwork, McSherry, Nissim & Smith 2006).

    It adds Laplace noise of ``scale`` b, with the density e^(−|z|/b) / 2b, to every entry of a value of any shape. It
    is ε-DP with ε = sensitivity / scale, for any number of entries.

    Args:
      scale: b, at most 1e300, in the units of the output; the standard deviation of the noise is √2·b.
      sensitivity: the largest L1 distance between the values of two neighbouring data sets, in the same units. For a
        histogram of records it is 1 under add-or-remove-one and 2 under replace-one.
      grid: the step of the grid that a release is rounded to, a power of two; by default fine enough that the noise
        grows by at most one part in 2^16. Values beyond 2^61 steps are clipped.

    Raises:
      InvalidArgumentError: a parameter is not a finite positive number.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import epsilon
      >>> from hockeystick.mechanisms import Laplace
      >>> mechanism = Laplace.calibrated(epsilon=0.5)
      >>> mechanism.scale, float(epsilon(mechanism.event(), 0.0))
      (2.0, 0.5)
      >>> mechanism.simulate(42.0, np.random.default_rng(1), runs=3).round(2)
      array([42.05, 46.62, 39.51])
    """

    scale: float = field(converter=arguments.noise_scale)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is not a valid noise multiplier

    @classmethod
    def calibrated(cls, *, epsilon: float, sensitivity: float = 1.0) -> Laplace:
        """Returns the mechanism with the least noise that is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        found = cls(arguments.quotient_up(distance, target), sensitivity=distance)
        while found.event().pure_epsilon() > target:  # its quotients are rounded too
            found = cls(math.nextafter(found.scale, math.inf), sensitivity=distance)
        return found

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``Laplace(scale / sensitivity)``."""
        return accounting.Laplace(arguments.quotient_down(self.scale, self.sensitivity))

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        return rng.laplace(scale=self.scale, size=shape)

    def _losses(self, drawn: FloatArray, value0: FloatArray, value1: FloatArray) -> FloatArray:
        return (np.abs(drawn - value1) - np.abs(drawn - value0)) / self.scale

    def _tail(self, probability: float) -> float:
        return -self.scale * math.log(probability)

    def _default_grid(self, entries: int) -> float:
        return noise_on_a_grid.laplace_grid(self.scale, self.sensitivity, entries)

    def _whole_noise(self, noise: Noise, step: float, entries: int) -> NDArray[np.int64]:
        scale = noise_on_a_grid.laplace_scale(self.scale, self.sensitivity, step, entries)
        return noise.laplace(scale, entries)
