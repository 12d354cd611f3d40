"""The Gaussian mechanism: a number or an array plus independent normal noise, calibrated exactly."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import NumericalError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.added_reals import AdditiveNoise
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise


def _sigma(value: float) -> float:
    return validate.real("sigma", value, low=0.0, high=1e300, low_open=True)


@frozen
class Gaussian(AdditiveNoise):
    """The Gaussian mechanism.

    It adds normal noise of standard deviation ``sigma`` to every entry of a value of any shape. For any number of
    entries it is μ-Gaussian-DP with μ = sensitivity / sigma (Dong, Roth & Su 2022), and μ²/2-zCDP (Bun & Steinke 2016).

    Args:
      sigma: the standard deviation, at most 1e300, in the units of the output.
      sensitivity: the largest L2 distance between the values of two neighbouring data sets, in the same units. For a
        histogram of records it is 1 under add-or-remove-one and √2 under replace-one; for a sum of vectors of length at
        most L it is L under add-or-remove-one and 2L under replace-one.
      grid: the step of the grid that a release is rounded to, a power of two; by default fine enough that the noise
        grows by at most one part in 2^19. Values beyond 2^61 steps are clipped.

    Raises:
      InvalidArgumentError: a parameter is not a finite positive number.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import delta
      >>> from hockeystick.mechanisms import Gaussian
      >>> mechanism = Gaussian.calibrated(epsilon=1.0, delta=1e-5, sensitivity=2.0)
      >>> round(mechanism.sigma, 3), float(delta(mechanism.event(), 1.0)) <= 1e-5
      (7.461, True)
      >>> mechanism.simulate([10.0, 20.0], np.random.default_rng(1), runs=2).round(1)
      array([[12.6, 26.1],
             [12.5, 10.3]])
    """

    sigma: float = field(converter=_sigma)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is not a valid noise multiplier

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, sensitivity: float = 1.0) -> Gaussian:
        """Returns the mechanism with the least noise that is (``epsilon``, ``delta``)-DP by its exact profile.

        The returned sigma meets the target by a bound that includes rounding, and the next smaller float does not
        (Balle & Wang 2018, Thm 8, give the profile). The textbook's √(2 ln(1.25/δ))/ε is 30 % larger at ε = 1 and
        δ = 1e-5, and too small where ε is large.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``delta`` not in (0, 1), or ``sensitivity`` not
            finite and positive.
          NumericalError: the target is so extreme that rounding hides which sigma reaches it.
        """
        target = validate.real("epsilon", epsilon, low=0.0)
        allowed = validate.probability("delta", delta, open=True)
        distance = arguments.sensitivity(sensitivity)

        def meets(sigma: float) -> bool:
            multiplier = arguments.quotient_down(sigma, distance)
            if not 1e-100 < multiplier < 1e100:  # the domain of the event
                raise NumericalError(
                    f"epsilon={target!r}, delta={allowed!r}: rounding hides which sigma reaches it; "
                    "choose a less extreme target"
                )
            cost = accounting.Gaussian(multiplier)
            if accounting.delta(cost, target, method="gaussian").upper > allowed:
                return False
            return accounting.epsilon(cost, allowed, method="gaussian").upper <= target  # it may round differently

        low = high = distance
        while not meets(high):
            low, high = high, 2.0 * high
        while meets(low):
            low, high = low / 2.0, low
        while low < (middle := low + (high - low) / 2.0) < high:
            low, high = (low, middle) if meets(middle) else (middle, high)
        return cls(high, sensitivity=distance)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``Gaussian(sigma / sensitivity)``."""
        return accounting.Gaussian(arguments.quotient_down(self.sigma, self.sensitivity))

    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        noise = rng.standard_normal(shape)
        noise *= self.sigma
        return noise

    def _losses(self, drawn: FloatArray, value0: FloatArray, value1: FloatArray) -> FloatArray:
        return (drawn - value1 / 2 - value0 / 2) / self.sigma * ((value0 - value1) / self.sigma)

    def _tail(self, probability: float) -> float:
        return -self.sigma * float(special.ndtri(probability / 2))

    def _default_grid(self, entries: int) -> float:
        return noise_on_a_grid.gaussian_grid(self.sigma, self.sensitivity, entries)

    def _whole_noise(self, noise: Noise, step: float, entries: int) -> NDArray[np.int64]:
        scale = noise_on_a_grid.gaussian_scale(self.sigma, self.sensitivity, step, entries)
        return noise.gaussian(scale, entries)
