"""The Skellam mechanism: whole numbers plus the difference of two Poisson variables (Agarwal, Kairouz & Liu 2021).

Skellam noise is closed under sums, as normal noise is: shares of it add up to the same family of laws.
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
    """Returns the parameter ``variance``, up to 1e8: a table of the law would be too long for more."""
    return validate.real("variance", value, low=1e-9, high=1e8)


def skellam_log_masses(drawn: IntArray, of_variance: float) -> FloatArray:
    """Returns ln P(noise = drawn).

    Raises:
      InvalidDataError: a number lies so far out that this noise never takes it.
    """
    far = int(np.abs(drawn).max(initial=0))
    usual = integer_noise_tables.skellam_reach(of_variance)
    if far > max(usual, _FARTHEST):
        raise InvalidDataError("output", far, "lies outside the range of the noise", "give outputs of this mechanism")
    table = integer_noise_tables.skellam(of_variance, usual if far <= usual else max(far, 2 * usual))
    return np.asarray(table.log_p[drawn + len(table.log_p) // 2])


def skellam_tail(reach: int, of_variance: float) -> float:
    """Returns an upper bound on P(|noise| > reach), at least 1e-44."""
    table = integer_noise_tables.skellam(of_variance, integer_noise_tables.skellam_reach(of_variance))
    half = table.log_p[len(table.log_p) // 2 :]
    return 2 * math.fsum(np.exp(half[reach + 1 :])) * (1 + 2 * table.log_error) + 1e-44


@frozen
class Skellam(AdditiveIntegers):
    """The Skellam mechanism.

    It adds symmetric Skellam noise, P(k) = e^(−V)·I_|k|(V), to every entry of an array of whole numbers, of any shape.
    Its δ(ε) is close to that of normal noise of the same variance: slightly larger for small ε, smaller for large ε.
    A release draws from exact tables (``randomness.integer_laws``), with 128 random bits of the operating system for
    each number.

    Args:
      variance: V, from 1e-9 to 1e8.
      sensitivity: the largest L2 distance between the values of two neighbouring data sets, ≥ 1. For a histogram of
        records it is 1 under add-or-remove-one and √2 under replace-one.
      entries: the number of entries of the value, if it is known; see ``DiscreteGaussian``.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import Skellam
      >>> mechanism = Skellam(20.0, entries=1)
      >>> mechanism.simulate(42, np.random.default_rng(1), runs=5)
      array([42, 49, 37, 49, 40])
      >>> mechanism.accuracy(0.05)  # with probability 0.95 an output is off by at most this
      9
    """

    variance: float = field(converter=variance)
    sensitivity: float = field(default=1.0, converter=l2_sensitivity, kw_only=True)
    entries: int | None = field(default=None, converter=entry_count, kw_only=True)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, sensitivity: float = 1.0, entries: int | None = None
    ) -> Skellam:
        """Returns the mechanism with the least noise that is certainly (``epsilon``, ``delta``)-DP, by its profile.

        A larger variance never costs more: it is independent noise on top of the smaller one.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``delta`` not in (0, 1), or another parameter out of
            its domain.
          NumericalError: no variance up to 1e8 can be shown to meet the target.
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
        """Returns 0 and a whole-number change of length ``sensitivity``, in as few entries as possible."""
        return worst_shift(self.sensitivity, self.entries)

    def _whole_noise(self, noise: Noise, count: int) -> IntArray:
        return noise.integers(SkellamLaw(self.variance), count)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        return skellam_log_masses(drawn, self.variance)

    def _tail(self, reach: int) -> float:
        return skellam_tail(reach, self.variance)
