"""The Skellam mechanism: whole numbers plus the difference of two Poisson numbers (Agarwal, Kairouz & Liu 2021).

Of all whole-number noise it alone is closed under sums as normal noise is: shares add up to the same law.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.losses import integer_noise_tables
from hockeystick.mechanisms.numbers.added_integers import AdditiveIntegers, least_noise
from hockeystick.mechanisms.numbers.discrete_gaussian import entry_count, l2_sensitivity, worst_shift
from hockeystick.mechanisms.randomness.integer_laws import SkellamLaw
from hockeystick.mechanisms.randomness.noise import Noise

_FARTHEST = 2**20


def variance(value: float) -> float:
    """Returns the parameter ``variance``, up to 1e8: beyond, a table of the law would be long."""
    return validate.real("variance", value, low=1e-9, high=1e8)


def skellam_log_masses(drawn: IntArray, of_variance: float) -> FloatArray:
    """Returns ln P(noise = drawn).

    Raises:
      InvalidArgumentError: a number is so far out that no noise of this kind is found there.
    """
    far = int(np.abs(drawn).max(initial=0))
    usual = integer_noise_tables.skellam_reach(of_variance)
    if far > max(usual, _FARTHEST):
        raise InvalidDataError("output", far, "lies where the noise never is", "give outputs of this mechanism")
    table = integer_noise_tables.skellam(of_variance, usual if far <= usual else max(far, 2 * usual))
    return np.asarray(table.log_p[drawn + len(table.log_p) // 2])


def skellam_tail(reach: int, of_variance: float) -> float:
    """Returns P(|noise| > reach), and at least 1e-44."""
    table = integer_noise_tables.skellam(of_variance, integer_noise_tables.skellam_reach(of_variance))
    half = table.log_p[len(table.log_p) // 2 :]
    return 2 * math.fsum(np.exp(half[reach + 1 :])) * (1 + 2 * table.log_error) + 1e-44


@frozen
class Skellam(AdditiveIntegers):
    """Adds symmetric Skellam noise, P(k) = e^(−V)·I_|k|(V), to every entry of whole numbers of any shape.

    Of the same variance it costs a little more than normal noise, the less the larger the variance. A release draws
    from exact tables (``randomness.integer_laws``) by the operating system's random bits, 128 of them for each number.

    Args:
      variance: V, from 1e-9 to 1e8.
      sensitivity: the largest L2 distance between the values of two neighbouring data sets, ≥ 1. For a histogram of
        records that is 1 under add-or-remove-one and √2 under replace-one.
      entries: how many whole numbers the value has, if that is known; see ``DiscreteGaussian``.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.
    """

    variance: float = field(converter=variance)
    sensitivity: float = field(default=1.0, converter=l2_sensitivity, kw_only=True)
    entries: int | None = field(default=None, converter=entry_count, kw_only=True)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, sensitivity: float = 1.0, entries: int | None = None
    ) -> Skellam:
        """Returns the mechanism of least noise that is (``epsilon``, ``delta``)-DP by its event's profile, certainly.

        More variance is more noise on top, and never costs more.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``delta`` not in (0, 1), or another parameter out of
            its domain.
          NumericalError: no variance up to 1e8 can be shown to reach the target.
        """

        def build(of_variance: float) -> Skellam:
            return cls(of_variance, sensitivity=sensitivity, entries=entries)

        # By Chernoff's bound the loss of one shift, about distance·asinh(noise/V), is above ε with a probability of
        # at most e^(−V·rate).
        x = min(validate.real("epsilon", epsilon, low=0.0) / build(1.0).sensitivity, 300.0)
        rate = x * math.sinh(x) - 2.0 * math.sinh(x / 2) ** 2
        enough = -math.log(validate.probability("delta", delta, open=True)) / max(rate, 1e-7)
        return build(
            least_noise(build, epsilon=epsilon, delta=delta, guess=min(max(enough, 1e-9), 1e7), low=1e-9, high=1e8)
        )

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``Skellam(variance, distance=sensitivity, coordinates=entries)``."""
        return accounting.Skellam(self.variance, distance=self.sensitivity, coordinates=self.entries)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns 0 and a change of length ``sensitivity``, in as few entries as there are whole numbers for it."""
        return worst_shift(self.sensitivity, self.entries)

    def _whole_noise(self, noise: Noise, count: int) -> IntArray:
        return noise.integers(SkellamLaw(self.variance), count)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        return skellam_log_masses(drawn, self.variance)

    def _tail(self, reach: int) -> float:
        return skellam_tail(reach, self.variance)
