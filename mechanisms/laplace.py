"""The Laplace mechanism: a number or vector plus independent Laplace noise (Dwork, McSherry, Nissim & Smith 2006)."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import validate
from hockeystick.mechanisms import arguments
from hockeystick.mechanisms.protocol import SimulationOnly


@frozen
class Laplace(SimulationOnly):
    """Adds Laplace noise of ``scale`` b, of density e^(-|z|/b) / 2b, to every entry of a value of any shape.

    The cost is that of ε = sensitivity / scale, whatever the number of entries.

    Args:
      scale: b, in the units of the output; its standard deviation is √2·b.
      sensitivity: the largest L1 distance between the values of two neighbouring data sets, in the same units. For a
        histogram of records that is 1 under add-or-remove-one and 2 under replace-one.

    Raises:
      InvalidArgumentError: a parameter is not a finite positive number.
    """

    scale: float = field(converter=arguments.scale)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is no noise multiplier

    @classmethod
    def calibrated(cls, *, epsilon: float, sensitivity: float = 1.0) -> Laplace:
        """Returns the mechanism of least noise that is ``epsilon``-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` or ``sensitivity`` is not a finite positive number.
        """
        target = validate.real("epsilon", epsilon, low=0.0, low_open=True)
        distance = arguments.sensitivity(sensitivity)
        found = cls(arguments.quotient_up(distance, target), sensitivity=distance)
        while found.event().pure_epsilon() > target:  # its quotients are rounded too
            found = cls(math.nextafter(found.scale, math.inf), sensitivity=distance)
        return found

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``Laplace(scale / sensitivity)``."""
        return accounting.Laplace(arguments.quotient_down(self.scale, self.sensitivity))

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.float64]:
        """Returns outputs of shape (runs, *value.shape).

        Raises:
          InvalidArgumentError: the value is not numeric or not finite, ``runs`` is no integer ≥ 1, or ``rng`` no
            generator.
        """
        noiseless = validate.array("value", value)
        noise = arguments.generator(rng).laplace(scale=self.scale, size=(arguments.run_count(runs), *noiseless.shape))
        noise += noiseless
        return noise

    def worst_case_neighbours(self) -> tuple[float, float]:
        """Returns two numbers at distance ``sensitivity``: all of a vector's budget may go to a single entry."""
        return 0.0, self.sensitivity

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, *value.shape)."""
        v0 = validate.array("value0", value0)
        v1 = validate.array("value1", value1, shape=v0.shape)
        drawn = validate.array("output", output, shape=(None, *v0.shape))
        loss = (np.abs(drawn - v1) - np.abs(drawn - v0)) / self.scale
        return np.asarray(loss.reshape(len(drawn), -1).sum(axis=1))

    def accuracy(self, beta: float, *, entries: int = 1) -> float:
        """Returns t such that with probability exactly 1 − ``beta`` all ``entries`` are off by at most t (L∞ norm).

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` no integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("entries", entries, low=1)
        one = -math.expm1(math.log1p(-failure) / count)  # the failure probability that each entry may have
        return -self.scale * math.log(one)
