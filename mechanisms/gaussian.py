"""The Gaussian mechanism: a number or vector plus independent normal noise, calibrated analytically."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import NumericalError, validate
from hockeystick.mechanisms import arguments
from hockeystick.mechanisms.protocol import SimulationOnly


def _sigma(value: float) -> float:
    return validate.real("sigma", value, low=0.0, low_open=True)


@frozen
class Gaussian(SimulationOnly):
    """Adds normal noise of standard deviation ``sigma`` to every entry of a value of any shape.

    The cost is that of two normal laws whose means are sensitivity / sigma standard deviations apart, whatever the
    number of entries: μ-Gaussian-DP with μ = sensitivity / sigma (Dong, Roth & Su 2022), and μ²/2-zCDP (Bun & Steinke
    2016).

    Args:
      sigma: the standard deviation, in the units of the output.
      sensitivity: the largest L2 distance between the values of two neighbouring data sets, in the same units. For a
        histogram of records that is 1 under add-or-remove-one and √2 under replace-one; for a sum of vectors of length
        at most L it is L under add-or-remove-one and 2L under replace-one.

    Raises:
      InvalidArgumentError: a parameter is not a finite positive number.
    """

    sigma: float = field(converter=_sigma)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is no noise multiplier

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, sensitivity: float = 1.0) -> Gaussian:
        """Returns the mechanism of least noise that is (``epsilon``, ``delta``)-DP by its exact profile.

        The sigma returned meets the target by a bound that includes rounding, and the next smaller float does not
        (Balle & Wang 2018, Thm 8 gives the profile). The textbook's √(2 ln(1.25/δ))/ε is larger, by 30 % at
        ε = 1 and δ = 1e-5, and not private enough where ε is large.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``delta`` not in (0, 1), or ``sensitivity`` not
            finite and positive.
          NumericalError: the target is so extreme that no sigma can be shown to reach it.
        """
        target = validate.real("epsilon", epsilon, low=0.0)
        allowed = validate.probability("delta", delta, open=True)
        distance = arguments.sensitivity(sensitivity)

        def meets(sigma: float) -> bool:
            multiplier = arguments.quotient_down(sigma, distance)
            if not 1e-100 < multiplier < 1e100:  # what an event takes
                raise NumericalError(
                    f"epsilon={target!r}, delta={allowed!r}: rounding hides what sigma would reach it; "
                    "ask for numbers less extreme"
                )
            return accounting.delta(accounting.Gaussian(multiplier), target, method="gaussian").upper <= allowed

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

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.float64]:
        """Returns outputs of shape (runs, *value.shape).

        Raises:
          InvalidArgumentError: the value is not numeric or not finite, ``runs`` is no integer ≥ 1, or ``rng`` no
            generator.
        """
        noiseless = validate.array("value", value)
        noise = arguments.generator(rng).standard_normal((arguments.run_count(runs), *noiseless.shape))
        noise *= self.sigma
        noise += noiseless
        return noise

    def worst_case_neighbours(self) -> tuple[float, float]:
        """Returns two numbers at distance ``sensitivity``; the direction of the change does not matter."""
        return 0.0, self.sensitivity

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, *value.shape)."""
        v0 = validate.array("value0", value0)
        v1 = validate.array("value1", value1, shape=v0.shape)
        drawn = validate.array("output", output, shape=(None, *v0.shape))
        loss = (drawn - v1 / 2 - v0 / 2) / self.sigma * ((v0 - v1) / self.sigma)
        return np.asarray(loss.reshape(len(drawn), -1).sum(axis=1))

    def accuracy(self, beta: float, *, entries: int = 1) -> float:
        """Returns t such that with probability exactly 1 − ``beta`` all ``entries`` are off by at most t (L∞ norm).

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` no integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("entries", entries, low=1)
        one = -math.expm1(math.log1p(-failure) / count)  # the failure probability that each entry may have
        return -self.sigma * float(special.ndtri(one / 2))
