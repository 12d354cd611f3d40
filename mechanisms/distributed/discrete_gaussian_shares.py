"""Shares of discrete Gaussian noise, whose sum is accounted for by its own exact law."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import IntegerNoise, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.distributed.noise_shares import (
    NoiseShares,
    checked_fall,
    checked_rise,
    checked_survivors,
    looked_up,
)
from hockeystick.mechanisms.numbers.added_integers import least_noise
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.randomness.integer_laws import IntegerLaw
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

# From this deviation on, a sum of discrete Gaussian shares is discrete Gaussian up to 3e-9 (as measured by Kairouz,
# Liu & Steinke 2021).
_LOCAL_DEVIATION = 1.5


def _share_sigma(value: float) -> float:
    return validate.real("share_sigma", value, low=0.1, high=2.0**12)


def _factor(value: int) -> int:
    return validate.integer("factor", value, low=1, high=2**20)


@frozen
class DiscreteGaussianShares(NoiseShares):
    """Shares of discrete Gaussian noise (Kairouz, Liu & Steinke 2021).

    Their sum is not discrete Gaussian. The event is that of the exact law of the sum, which differs more for a smaller
    ``share_sigma``. So that many clients may each have little noise, all whole numbers are multiplied by ``factor``
    before noise is added, and the decoded sum is divided by it. ``share``, ``simulate``, ``variance`` and values are in
    these smaller units.

    Args:
      share_sigma: σ of one client's noise, in units of 1/factor, from 0.1 to 4096; from 1.5 on the sum costs hardly
        more than one discrete Gaussian of the same variance.
      survivors: the number of clients that certainly stay and keep their noise secret.
      factor: the whole number by which clients multiply their numbers.
      rise, fall: the change of the sum by one record, before the factor; see ``noise_shares``.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.

    Example:
      >>> from hockeystick.mechanisms import DiscreteGaussianShares, SimulationNoise
      >>> shares = DiscreteGaussianShares(2.0, survivors=100)
      >>> shares.share(4, noise=SimulationNoise(1))  # the noise that one client adds to its four counts
      array([ 0,  3, -2,  3])
      >>> round(shares.variance(), 3)
      400.0
    """

    share_sigma: float = field(converter=_share_sigma)
    survivors: int = field(converter=checked_survivors, kw_only=True)
    factor: int = field(default=1, converter=_factor, kw_only=True)
    rise: int = field(default=1, converter=checked_rise, kw_only=True)
    fall: int = field(default=0, converter=checked_fall, kw_only=True)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, survivors: int, rise: int = 1, fall: int = 0
    ) -> DiscreteGaussianShares:
        """Returns the shares with the least noise for which the sum is certainly (``epsilon``, ``delta``)-DP.

        The factor is the least for which a share has a σ of about 1.5 or more. It grows with ε, and with it the table
        of the sum's law, so ``epsilon`` is at most 10^4.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: no noise can be shown to meet the target.
          UnsupportedEventError: the law of the sum is too wide for a table.
        """
        epsilon = validate.real("epsilon", epsilon, low=0.0, high=1e4)
        count = checked_survivors(survivors)
        norm = math.hypot(checked_rise(rise), checked_fall(fall))
        sigma = Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=norm).sigma
        factor = max(1, math.ceil(_LOCAL_DEVIATION * math.sqrt(count) / sigma))

        def build(share_sigma: float) -> DiscreteGaussianShares:
            return cls(share_sigma, survivors=count, factor=factor, rise=rise, fall=fall)

        guess = factor * sigma / math.sqrt(count)
        return build(least_noise(build, epsilon=epsilon, delta=delta, guess=guess, low=1.0, high=2.0**12))

    def variance(self) -> float:
        y = np.arange(-math.ceil(40 * self.share_sigma), math.ceil(40 * self.share_sigma) + 1)
        masses = np.exp(-0.5 * (y / self.share_sigma) ** 2)
        return self.survivors * float((masses * y**2).sum() / masses.sum())

    def share(self, count: int, *, noise: Noise | None = None) -> IntArray:
        return check_noise(noise).gaussian(self.share_sigma, validate.integer("count", count, low=0))

    def _sum(self, noise: Noise, count: int) -> IntArray:
        return noise.integers(_Tabulated(_gaussian_sum(self.share_sigma, self.survivors).log_pmf), count)

    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        return _gaussian_sum(self.share_sigma, self.survivors).at(self.factor * shift)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        return looked_up(_gaussian_sum(self.share_sigma, self.survivors), drawn)

    def _reach(self) -> int:
        return len(_gaussian_sum(self.share_sigma, self.survivors).log_pmf) // 2

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns zeros, and the change ``factor * rise`` of one entry and ``−factor * fall`` of another."""
        near, far = super().worst_case_neighbours()
        return near, self.factor * far


@lru_cache(maxsize=64)
def _gaussian_sum(share_sigma: float, survivors: int) -> IntegerNoise:
    one = accounting.DiscreteGaussian(share_sigma).noise()
    return IntegerNoise(one.log_pmf, one.tail, coordinates=1).sum_of(survivors)


@frozen(cache_hash=True)
class _Tabulated(IntegerLaw):
    """A symmetric law given by floats: only for the simulation of a sum, never for a share."""

    log_pmf: tuple[float, ...]

    def masses(self) -> tuple[int, list[int]]:
        return -(len(self.log_pmf) // 2), [int(math.ldexp(math.exp(x), 256)) for x in self.log_pmf]
