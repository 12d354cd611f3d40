"""Shares of Skellam noise, whose sum is Skellam noise as well."""

from __future__ import annotations

import math
from fractions import Fraction

from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.distributed.noise_shares import (
    NoiseShares,
    checked_fall,
    checked_rise,
    checked_survivors,
    drawn_share,
)
from hockeystick.mechanisms.numbers.added_integers import least_noise
from hockeystick.mechanisms.numbers.skellam import skellam_log_masses
from hockeystick.mechanisms.randomness.integer_laws import SkellamLaw
from hockeystick.mechanisms.randomness.noise import Noise


def _share_variance(value: float) -> float:
    return validate.real("share_variance", value, low=1e-9, high=1e8)


@frozen
class SkellamShares(NoiseShares):
    """Shares of Skellam noise; the sum of any number of them is Skellam noise (Agarwal, Kairouz & Liu 2021).

    Args:
      share_variance: the variance of one client's noise, at least 1e-9; that of all survivors is at most 1e8.
      survivors: the number of clients that certainly stay and keep their noise secret.
      rise, fall: the change of the sum by one record; see ``noise_shares``.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.

    Example:
      >>> from hockeystick.mechanisms import SimulationNoise, SkellamShares
      >>> shares = SkellamShares(0.2, survivors=100)
      >>> shares.share(8, noise=SimulationNoise(1))  # the noise that one client adds to its eight counts
      array([0, 1, 0, 1, 0, 0, 0, 0])
      >>> round(shares.variance(), 3)  # of the sum
      20.0
    """

    share_variance: float = field(converter=_share_variance)
    survivors: int = field(converter=checked_survivors, kw_only=True)
    rise: int = field(default=1, converter=checked_rise, kw_only=True)
    fall: int = field(default=0, converter=checked_fall, kw_only=True)

    def __attrs_post_init__(self) -> None:
        validate.real("survivors * share_variance", self.variance(), high=1e8)

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, survivors: int, rise: int = 1, fall: int = 0) -> SkellamShares:
        """Returns the shares with the least noise for which the sum is certainly (``epsilon``, ``delta``)-DP.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: no variance up to 1e8 can be shown to meet the target.
        """
        count = checked_survivors(survivors)

        def build(share_variance: float) -> SkellamShares:
            return cls(share_variance, survivors=count, rise=rise, fall=fall)

        guess = min(1e7, _guess(build(1e-9), epsilon) ** 2) / count
        # The sum over all is to be 1e8 at most: quotient and products are off by U each, of 9 U.
        low, high = 1e-9, 1e8 / count * (1 - 1e-15)
        return build(least_noise(build, epsilon=epsilon, delta=delta, guess=guess, low=low, high=high))

    def variance(self) -> float:
        return _product_down(self.survivors, self.share_variance)

    def share(self, count: int, *, noise: Noise | None = None) -> IntArray:
        return drawn_share(SkellamLaw(self.share_variance), count, noise)

    def _sum(self, noise: Noise, count: int) -> IntArray:
        return noise.integers(SkellamLaw(self.variance()), count)

    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        # Rounded down: noise of a larger variance is this noise plus independent noise.
        return accounting.Skellam(self.variance(), distance=shift, coordinates=1)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        return skellam_log_masses(drawn, self.variance())


def _guess(shares: NoiseShares, epsilon: float) -> float:
    return math.hypot(shares.rise, shares.fall) / max(validate.real("epsilon", epsilon, low=0.0), 0.01)


def _product_down(count: int, share: float) -> float:
    product = count * share
    return math.nextafter(product, 0.0) if Fraction(product) > count * Fraction(share) else product
