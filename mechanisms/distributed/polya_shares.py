"""Shares of discrete Laplace noise: Pólya numbers, of which so many make the whole."""

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
    """Shares of discrete Laplace noise: differences of two negative binomial (Pólya) numbers (Goryczka & Xiong 2017).

    ``whole`` of them add up to discrete Laplace noise. Fewer make a law with a peak at 0 that is told from its shift by
    far more easily than their number suggests: of 80 % of the shares at scale 10, ε is 0.21 in place of 0.1. So size
    them for the survivors (``whole = survivors``), or read off here what dropping out costs.

    Args:
      scale: of the discrete Laplace noise of the whole, from 0.05 to 4096.
      survivors: how many clients surely stay and keep their noise to themselves.
      whole: how many shares make the whole; by default ``survivors``. With fewer survivors than that, the law of their
        sum is not log-concave, and rise and fall have to be at most 1, also for groups.
      rise, fall: what one record changes in the sum; see ``noise_shares``.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.
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
        """Returns the shares of least noise that make the sum ``epsilon``-DP, certainly.

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
        if self.survivors >= self.whole:  # what is more than the whole is post-processing
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
    """The law of a difference of two negative binomial numbers of shape survivors/whole, by direct sums."""
    shapes = _shapes(survivors, whole)
    if len(shapes) * scale > _WIDEST:
        raise UnsupportedEventError(f"the law of {survivors}/{whole} of the noise at scale {scale:g} is too wide")
    one = np.ones(1)
    for shape in shapes:
        one = np.convolve(one, NegativeBinomialLaw(shape, scale).probabilities()[1])
    law, middle = np.convolve(one, one[::-1]), len(one) - 1
    # Far out the tables' ends are felt; there are e^-90 of the mass beyond, which count as told apart.
    reach = min(middle, math.ceil(90 * scale) + 4)
    inner = law[middle - reach : middle + reach + 1]
    outside = 2 * math.fsum(law[: middle - reach]) + 1e-45
    return IntegerNoise(tuple(np.log(inner / math.fsum(inner)).tolist()), outside, coordinates=1)


def _shapes(survivors: int, whole: int) -> list[Fraction]:
    complete, rest = divmod(survivors, whole)
    return [Fraction(1)] * complete + ([Fraction(rest, whole)] if rest else [])
