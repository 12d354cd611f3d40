"""Shares of discrete Laplace noise: differences of Pólya variables."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import IntegerNoise, UnsupportedEventError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.distributed.noise_shares import (
    NoiseShares,
    checked_fall,
    checked_rise,
    checked_survivors,
    drawn_share,
    looked_up,
)
from hockeystick.mechanisms.randomness.integer_laws import NegativeBinomialLaw
from hockeystick.mechanisms.randomness.noise import Noise

_WIDEST = 300.0  # scales whose laws are added up directly


def _whole(value: int) -> int:
    return validate.integer("whole", value, low=1, high=10**6)


def _polya_scale(value: float) -> float:
    return validate.real("scale", value, low=0.05, high=4096.0)


@frozen
class PolyaShares(NoiseShares):
    """Shares of discrete Laplace noise: differences of two negative binomial (Pólya) variables (Goryczka & Xiong 2017).

    ``whole`` shares add up to discrete Laplace noise. The sum of fewer has a peak at 0, which makes a shift much easier
    to detect than their number suggests: with 80 % of the shares at scale 10, ε is 0.21 instead of 0.1. So calibrate
    the shares for the survivors (``whole = survivors``), or use this class to compute the cost of dropouts.

    Args:
      scale: the scale of the discrete Laplace noise of ``whole`` shares, from 0.05 to 4096.
      survivors: the number of clients that certainly stay and keep their noise secret.
      whole: the number of shares that add up to discrete Laplace noise; by default ``survivors``. With fewer survivors
        the law of their sum is not log-concave, and rise and fall have to be at most 1, also for groups.
      rise, fall: the change of the sum by one record; see ``noise_shares``.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.

    Example:
      >>> from hockeystick.accounting import epsilon
      >>> from hockeystick.mechanisms import PolyaShares
      >>> everybody = PolyaShares(10.0, survivors=10)
      >>> dropouts = PolyaShares(10.0, survivors=8, whole=10)  # two of ten clients drop out
      >>> [round(float(epsilon(shares.event(), 1e-9)), 2) for shares in (everybody, dropouts)]
      [0.1, 0.21]
    """

    scale: float = field(converter=_polya_scale)
    survivors: int = field(converter=checked_survivors, kw_only=True)
    whole: int = field(converter=_whole, kw_only=True)
    rise: int = field(default=1, converter=checked_rise, kw_only=True)
    fall: int = field(default=0, converter=checked_fall, kw_only=True)

    @whole.default
    def _all_survivors(self) -> int:
        return self.survivors

    @classmethod
    def calibrated(cls, *, epsilon: float, survivors: int, rise: int = 1, fall: int = 0) -> PolyaShares:
        """Returns the shares with the least noise for which the sum is certainly ``epsilon``-DP.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
        """
        target = arguments.target_epsilon(epsilon)

        def build(scale: float) -> PolyaShares:
            return cls(scale, survivors=survivors, rise=rise, fall=fall)

        found = build(arguments.quotient_up(checked_rise(rise) + checked_fall(fall), target))
        while found.event().pure_epsilon() > target:  # its quotients are rounded too
            found = build(math.nextafter(found.scale, math.inf))
        return found

    def variance(self) -> float:
        q = math.exp(-1 / self.scale)
        return 2 * q / (1 - q) ** 2 * self.survivors / self.whole

    def share(self, count: int, *, noise: Noise | None = None) -> IntArray:
        law = NegativeBinomialLaw(Fraction(1, self.whole), self.scale)
        return drawn_share(law, count, noise) - drawn_share(law, count, noise)

    def _sum(self, noise: Noise, count: int) -> IntArray:
        total = np.zeros(arguments.array_length("count", count), dtype=np.int64)
        for shape in _shapes(self.survivors, self.whole):
            law = NegativeBinomialLaw(shape, self.scale)
            total += noise.integers(law, count) - noise.integers(law, count)
        return total

    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        if self.survivors >= self.whole:  # shares beyond the whole are post-processing
            return accounting.DiscreteLaplace(self.scale, distance=shift)
        return _polya_sum(self.scale, self.survivors, self.whole).at(shift)

    def _log_masses(self, drawn: IntArray) -> FloatArray:
        if self.survivors == self.whole:
            return -np.abs(drawn) / self.scale
        return looked_up(_polya_sum(self.scale, self.survivors, self.whole), drawn)

    def _reach(self) -> int:
        if self.survivors == self.whole:
            return super()._reach()
        return len(_polya_sum(self.scale, self.survivors, self.whole).log_pmf) // 2


@lru_cache(maxsize=64)
def _polya_sum(scale: float, survivors: int, whole: int) -> IntegerNoise:
    """The law of the difference of two negative binomial variables of shape survivors/whole, by convolution."""
    shapes = _shapes(survivors, whole)
    if len(shapes) * scale > _WIDEST:
        raise UnsupportedEventError(f"the law of {survivors}/{whole} of the noise at scale {scale:g} is too wide")
    one = np.ones(1)
    for shape in shapes:
        one = np.convolve(one, NegativeBinomialLaw(shape, scale).probabilities()[1])
    law, middle = np.convolve(one, one[::-1]), len(one) - 1
    # Far out the truncation of the tables matters; the mass beyond, e^-90, is charged as a certain distinction.
    reach = min(middle, math.ceil(90 * scale) + 4)
    inner = law[middle - reach : middle + reach + 1]
    outside = 2 * math.fsum(law[: middle - reach]) + 1e-45
    return IntegerNoise(tuple(np.log(inner / math.fsum(inner)).tolist()), outside, coordinates=1)


def _shapes(survivors: int, whole: int) -> list[Fraction]:
    complete, rest = divmod(survivors, whole)
    return [Fraction(1)] * complete + ([Fraction(rest, whole)] if rest else [])
