"""Shares of whole-number noise: every client adds a little to its numbers, and their sum alone is seen by the server.

Some clients drop out, and some may tell the adversary what they drew. What protects is the noise of those that surely
stay and keep quiet, the ``survivors``; the cost is that of the exact law of *their* sum. Every further share is
independent noise on top of it, that is post-processing, so that more survivors never cost more.

One record changes the sum of the clients' whole numbers by a vector whose positive entries add up to at most ``rise``
and whose negative ones to at most −``fall``, or the other way round. Of a histogram that is rise = 1, fall = 0 under
add-or-remove-one, and rise = fall = 1 under replace-one. The laws here are symmetric and log-concave, but for shares of
``PolyaShares`` that do not make a whole, so the worst such vector has two entries, ``rise`` and −``fall``: a shift of
one entry by s + t is told apart more easily than shifts of two by s and t (``accounting.integer_noise`` proves it). For
k records both grow to k times as much, and so does the event.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import IntegerNoise, InvalidDataError, UnsupportedEventError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.added_integers import Integers, least_noise, noisy_sums, whole_numbers
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.numbers.skellam import skellam_log_masses
from hockeystick.mechanisms.randomness.integer_laws import IntegerLaw, NegativeBinomialLaw, SkellamLaw
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

_DEVIATIONS = 40.0  # over which a law is tabulated
_WIDEST = 300.0  # scales whose laws are added up directly
_LOCAL_DEVIATION = (
    1.5  # from here on a sum of discrete Gaussian shares is one but for 3e-9 (in the measure of KLS 2021)
)


def _survivors(value: int) -> int:
    return validate.integer("survivors", value, low=1, high=10**6)


def _rise(value: int) -> int:
    return validate.integer("rise", value, low=1, high=2**40)


def _fall(value: int) -> int:
    return validate.integer("fall", value, low=0, high=2**40)


class NoiseShares(ABC):
    """Base of frozen attrs classes with the fields ``survivors``, ``rise`` and ``fall``.

    As a mechanism it is what the server sees in the worst case: the total with the noise of the survivors alone.
    """

    __slots__ = ()
    survivors: int
    rise: int
    fall: int

    @abstractmethod
    def share(self, count: int, *, noise: Noise | None = None) -> Integers:
        """Returns the noise of one client for ``count`` numbers; by default it is secure, and no two calls share any.

        Raises:
          InvalidArgumentError: ``count`` is no integer ≥ 0, or ``noise`` no source of noise.
          SecureReleaseUnavailableError: no noise was given, and there is no secure source of it.
        """

    @abstractmethod
    def variance(self) -> float:
        """Returns the variance of the survivors' noise together, in the units of ``simulate``."""

    @abstractmethod
    def _sum(self, noise: Noise, count: int) -> Integers:
        """Draws of the survivors' noise together."""

    @abstractmethod
    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        """The event of one number that changes by ``shift``."""

    @abstractmethod
    def _log_masses(self, drawn: Integers) -> FloatArray:
        """ln P(sum = drawn), up to a constant."""

    def law(self) -> tuple[Integers, FloatArray]:
        """Returns what the survivors' noise together can be, and how probable each number is, up to 1e-14 in all."""
        reach = math.ceil(_DEVIATIONS * math.sqrt(self.variance())) + 2
        drawn = np.arange(-min(reach, self._reach()), min(reach, self._reach()) + 1)
        log_masses = self._log_masses(drawn)
        masses = np.exp(log_masses - log_masses.max())
        return drawn, masses / masses.sum()

    def _reach(self) -> int:
        """The largest number that ``_log_masses`` takes."""
        return 2**40

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record against all who see the sum, and know all noise but the survivors'."""
        parts = [self._shifted(shift) for shift in (self.rise, self.fall) if shift]
        return accounting.compose(*parts)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> Integers:
        """Returns sums of the value and the survivors' noise, of shape (runs, *value.shape).

        Raises:
          InvalidArgumentError: the value holds what is no whole number, ``runs`` is no integer ≥ 1, or ``rng`` no
            generator.
        """
        return noisy_sums(value, rng, runs, self._sum)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns 0 and a change by ``rise`` and −``fall``."""
        return (np.zeros(2, dtype=np.int64), np.array([self.rise, -self.fall])) if self.fall else (0, self.rise)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs of shape (runs, *value.shape)."""
        v0, v1, drawn = (
            whole_numbers("value0", value0),
            whole_numbers("value1", value1),
            whole_numbers("output", output),
        )
        validate.array("value1", v1, shape=v0.shape, dtype=np.int64, data=True)
        validate.array("output", drawn, shape=(None, *v0.shape), dtype=np.int64, data=True)
        losses = self._log_masses(drawn - v0) - self._log_masses(drawn - v1)
        return np.asarray(losses.reshape(len(drawn), -1).sum(axis=1))


def _share_variance(value: float) -> float:
    return validate.real("share_variance", value, low=1e-9, high=1e8)


@frozen
class SkellamShares(NoiseShares):
    """Shares of Skellam noise; the sum of any number of them is Skellam, too (Agarwal, Kairouz & Liu 2021).

    Args:
      share_variance: of one client's noise, from 1e-9; that of all survivors together is at most 1e8.
      survivors: how many clients surely stay and keep their noise to themselves.
      rise, fall: what one record changes in the sum; see the module.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.
    """

    share_variance: float = field(converter=_share_variance)
    survivors: int = field(converter=_survivors, kw_only=True)
    rise: int = field(default=1, converter=_rise, kw_only=True)
    fall: int = field(default=0, converter=_fall, kw_only=True)

    def __attrs_post_init__(self) -> None:
        validate.real("survivors * share_variance", self.variance(), high=1e8)

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, survivors: int, rise: int = 1, fall: int = 0) -> SkellamShares:
        """Returns the shares of least noise that make the sum (``epsilon``, ``delta``)-DP, certainly.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: no variance up to 1e8 can be shown to reach the target.
        """
        count = _survivors(survivors)

        def build(share_variance: float) -> SkellamShares:
            return cls(share_variance, survivors=count, rise=rise, fall=fall)

        guess = min(1e7, _guess(build(1e-9), epsilon) ** 2) / count
        # The sum over all is to be 1e8 at most: quotient and products are off by U each, of 9 U.
        low, high = 1e-9, 1e8 / count * (1 - 1e-15)
        return build(least_noise(build, epsilon=epsilon, delta=delta, guess=guess, low=low, high=high))

    def variance(self) -> float:
        return _product_down(self.survivors, self.share_variance)

    def share(self, count: int, *, noise: Noise | None = None) -> Integers:
        return _drawn(SkellamLaw(self.share_variance), count, noise)

    def _sum(self, noise: Noise, count: int) -> Integers:
        return noise.integers(SkellamLaw(self.variance()), count)

    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        # Rounded down: noise of more variance is this noise and more.
        return accounting.Skellam(self.variance(), distance=shift, coordinates=1)

    def _log_masses(self, drawn: Integers) -> FloatArray:
        return skellam_log_masses(drawn, self.variance())


def _share_sigma(value: float) -> float:
    return validate.real("share_sigma", value, low=0.1, high=2.0**12)


def _factor(value: int) -> int:
    return validate.integer("factor", value, low=1, high=2**20)


@frozen
class DiscreteGaussianShares(NoiseShares):
    """Shares of discrete Gaussian noise, whose sum is no discrete Gaussian (Kairouz, Liu & Steinke 2021).

    The event is that of the exact law of the sum, which differs the more the smaller ``share_sigma``. So that many
    clients may have little noise each, all whole numbers are multiplied by ``factor`` before noise is added, and the
    decoded sum is divided by it. ``share``, ``simulate``, ``variance`` and values are in these smaller units.

    Args:
      share_sigma: σ of one client's noise, in units of 1/factor, from 0.1 to 4096; 1.5 or more costs hardly more than
        one discrete Gaussian of the same variance.
      survivors: how many clients surely stay and keep their noise to themselves.
      factor: what clients multiply their numbers by.
      rise, fall: what one record changes in the sum, before the factor; see the module.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.
    """

    share_sigma: float = field(converter=_share_sigma)
    survivors: int = field(converter=_survivors, kw_only=True)
    factor: int = field(default=1, converter=_factor, kw_only=True)
    rise: int = field(default=1, converter=_rise, kw_only=True)
    fall: int = field(default=0, converter=_fall, kw_only=True)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, survivors: int, rise: int = 1, fall: int = 0
    ) -> DiscreteGaussianShares:
        """Returns the shares of least noise that make the sum (``epsilon``, ``delta``)-DP, certainly.

        The factor is the least with which shares have a σ of about 1.5 or more.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: no noise can be shown to reach the target.
          UnsupportedEventError: the law of the sum is too wide for a table.
        """
        count = _survivors(survivors)
        norm = math.hypot(_rise(rise), _fall(fall))
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

    def share(self, count: int, *, noise: Noise | None = None) -> Integers:
        return check_noise(noise).gaussian(self.share_sigma, validate.integer("count", count, low=0))

    def _sum(self, noise: Noise, count: int) -> Integers:
        return noise.integers(_Tabulated(_gaussian_sum(self.share_sigma, self.survivors).log_pmf), count)

    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        return _gaussian_sum(self.share_sigma, self.survivors).at(self.factor * shift)

    def _log_masses(self, drawn: Integers) -> FloatArray:
        return _looked_up(_gaussian_sum(self.share_sigma, self.survivors), drawn)

    def _reach(self) -> int:
        return len(_gaussian_sum(self.share_sigma, self.survivors).log_pmf) // 2

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns 0 and a change by ``factor * rise`` and ``−factor * fall``."""
        near, far = super().worst_case_neighbours()
        return near, self.factor * far


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
      rise, fall: what one record changes in the sum; see the module.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.
    """

    scale: float = field(converter=_polya_scale)
    survivors: int = field(converter=_survivors, kw_only=True)
    whole: int = field(converter=_whole, kw_only=True)
    rise: int = field(default=1, converter=_rise, kw_only=True)
    fall: int = field(default=0, converter=_fall, kw_only=True)

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

        found = build(arguments.quotient_up(_rise(rise) + _fall(fall), target))
        while found.event().pure_epsilon() > target:  # its quotients are rounded too
            found = build(math.nextafter(found.scale, math.inf))
        return found

    def variance(self) -> float:
        q = math.exp(-1 / self.scale)
        return 2 * q / (1 - q) ** 2 * self.survivors / self.whole

    def share(self, count: int, *, noise: Noise | None = None) -> Integers:
        law = NegativeBinomialLaw(Fraction(1, self.whole), self.scale)
        return _drawn(law, count, noise) - _drawn(law, count, noise)

    def _sum(self, noise: Noise, count: int) -> Integers:
        total = np.zeros(arguments.array_length("count", count), dtype=np.int64)
        for shape in _shapes(self.survivors, self.whole):
            law = NegativeBinomialLaw(shape, self.scale)
            total += noise.integers(law, count) - noise.integers(law, count)
        return total

    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        if self.survivors >= self.whole:  # what is more than the whole is post-processing
            return accounting.DiscreteLaplace(self.scale, distance=shift)
        return _polya_sum(self.scale, self.survivors, self.whole).at(shift)

    def _log_masses(self, drawn: Integers) -> FloatArray:
        if self.survivors == self.whole:
            return -np.abs(drawn) / self.scale
        return _looked_up(_polya_sum(self.scale, self.survivors, self.whole), drawn)

    def _reach(self) -> int:
        if self.survivors == self.whole:
            return super()._reach()
        return len(_polya_sum(self.scale, self.survivors, self.whole).log_pmf) // 2


def _guess(shares: NoiseShares, epsilon: float) -> float:
    return math.hypot(shares.rise, shares.fall) / max(validate.real("epsilon", epsilon, low=0.0), 0.01)


def _product_down(count: int, share: float) -> float:
    product = count * share
    return math.nextafter(product, 0.0) if Fraction(product) > count * Fraction(share) else product


def _drawn(law: IntegerLaw, count: int, noise: Noise | None) -> Integers:
    return check_noise(noise).integers(law, validate.integer("count", count, low=0))


@lru_cache(maxsize=64)
def _gaussian_sum(share_sigma: float, survivors: int) -> IntegerNoise:
    one = accounting.DiscreteGaussian(share_sigma).noise()
    return IntegerNoise(one.log_pmf, one.tail, coordinates=1).sum_of(survivors)


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


def _looked_up(noise: IntegerNoise, drawn: Integers) -> FloatArray:
    """ln P of a symmetric law."""
    reach = len(noise.log_pmf) // 2
    far = int(np.abs(drawn).max(initial=0))
    if far > reach:
        raise InvalidDataError("output", far, "lies where the noise never is", "give outputs of these shares")
    return np.asarray(np.array(noise.log_pmf)[drawn + reach])


@frozen(cache_hash=True)
class _Tabulated(IntegerLaw):
    """A symmetric law from floats: to simulate a sum in one draw, never for a share."""

    log_pmf: tuple[float, ...]

    def masses(self) -> tuple[int, list[int]]:
        return -(len(self.log_pmf) // 2), [int(math.ldexp(math.exp(x), 256)) for x in self.log_pmf]
