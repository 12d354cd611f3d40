"""Sources of randomness: ``ReleaseNoise`` for releases, ``SimulationNoise`` for everything else.

Both draw whole numbers and coins, never floats. A release rounds its value to a grid and adds whole multiples of the
grid's step, so that the low bits of the output are noise too; otherwise they leak the value (Mironov 2012).
``ReleaseNoise`` takes all bits from the operating system and makes exact discrete Laplace and discrete Gaussian noise
from them; it has no seed. ``SimulationNoise`` has one: anyone who knows the seed can subtract the noise, so the output
is not a release, and it is recorded as simulated.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Protocol, runtime_checkable

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick.accounting import HockeystickError, InvalidArgumentError, validate
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.cellwise_gaussian import gaussian_cells
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE, geometric_digits
from hockeystick.mechanisms.randomness.integer_laws import DiscreteGaussianLaw, IntegerLaw

_TABULATED = 2.0**12  # scales up to which simulated Gaussian noise is drawn from a table; rounded normals above
_SIMULATED_LAPLACE = 2.0**45  # scales up to which numpy's geometric variates keep their low bits
_OF_64_BITS = (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64)


class SecureReleaseUnavailableError(HockeystickError):
    """A release was requested of a mechanism that can only simulate.

    Noise computed in floating point leaks the value through its low bits (Mironov 2012), and the noise of a seedable
    generator can be subtracted again; neither is ever used as a substitute.

    See ``ForGroups``, which raises it for a mechanism of your own without a ``release``.
    """


@runtime_checkable
class Noise(Protocol):
    """A source of whole-number noise. All draws are independent; arrays have the given number of entries.

    See ``SimulationNoise`` for an example.
    """

    @property
    def simulated(self) -> bool:
        """Whether its draws can be repeated, so that an output made from them is not a release."""

    def laplace(self, scale: float, count: int) -> NDArray[np.int64]:
        """Returns discrete Laplace draws, P(k) ∝ e^(−|k|/scale)."""

    def gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        """Returns discrete Gaussian draws, P(k) ∝ e^(−k²/(2·scale²))."""

    def integers(self, law: IntegerLaw, count: int) -> NDArray[np.int64]:
        """Returns draws from any law on the integers."""

    def uniform(self, below: int, count: int) -> NDArray[np.int64]:
        """Returns draws that are exactly uniform on 0, …, below − 1."""

    def coins(self, probability: float | Fraction, count: int) -> NDArray[np.bool_]:
        """Returns bools that are True with exactly ``probability``; a float stands for the number that it stores."""


class _FromWords:
    """The draws that both sources derive from uniform words of 64 bits."""

    __slots__ = ()

    def _words(self, count: int) -> NDArray[np.uint64]:
        raise NotImplementedError

    def integers(self, law: IntegerLaw, count: int) -> NDArray[np.int64]:
        """Returns draws from any law on the integers."""
        return law.draw(self._words, arguments.array_length("count", count))

    def uniform(self, below: int, count: int) -> NDArray[np.int64]:
        """Returns draws that are exactly uniform on 0, …, below − 1."""
        bound = validate.integer("below", below, low=1, high=2**62)
        found = self._words(arguments.array_length("count", count))
        if bound & (bound - 1) == 0:  # 2^64 is a multiple of it
            return (found & np.uint64(bound - 1)).astype(np.int64)
        last = np.uint64(2**64 // bound * bound - 1)
        while (again := found > last).any():  # in the incomplete last round of 0 … below − 1
            found[again] = self._words(int(again.sum()))
        return (found % np.uint64(bound)).astype(np.int64)

    def coins(self, probability: float | Fraction, count: int) -> NDArray[np.bool_]:
        """Returns bools that are True with exactly ``probability``; a float stands for the number that it stores."""
        exact, count = _fraction(probability), arguments.array_length("count", count)
        if exact.denominator == 1:
            return np.full(count, exact == 1)
        whole, rest = divmod(exact.numerator << 64, exact.denominator)
        words, bound = self._words(count), np.uint64(whole)
        heads = words < bound
        for i in np.flatnonzero(words == bound):  # the first 64 binary digits agree: compare the rest
            heads[i] = bool(self.coins(Fraction(rest, exact.denominator), 1)[0])
        return heads


def _fraction(probability: float | Fraction) -> Fraction:
    if isinstance(probability, Fraction) and 0 <= probability <= 1:
        return probability
    return Fraction(validate.probability("probability", probability))


def _scale(value: float) -> float:
    return validate.real("scale", value, low=0.0, low_open=True, high=LARGEST_SCALE)


@frozen
class ReleaseNoise(_FromWords):
    """Secure noise for releases, from the random bits of the operating system. It can't be seeded.

    Example:
      >>> from hockeystick.mechanisms import Laplace, ReleaseNoise
      >>> Laplace(1.0).release(42.0, noise=ReleaseNoise())  # doctest: +SKIP
      41.287
      >>> ReleaseNoise().simulated  # doctest: +SKIP
      False
    """

    @property
    def simulated(self) -> bool:
        """False: its draws can't be repeated."""
        return False

    def laplace(self, scale: float, count: int) -> NDArray[np.int64]:
        """Returns exact discrete Laplace draws, P(k) ∝ e^(−|k|/scale)."""
        return geometric_digits(scale).draw(self._words, arguments.array_length("count", count))

    def gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        """Returns exact discrete Gaussian draws, P(k) ∝ e^(−k²/(2·scale²))."""
        return gaussian_cells(scale).draw(self._words, arguments.array_length("count", count))

    def _words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)


def secure_laplace(scale: float) -> int:
    """Returns one discrete Laplace draw of ``ReleaseNoise``, for code where arrays would be too slow."""
    return geometric_digits(scale).one(os.urandom)


def _generator(rng: object) -> np.random.Generator:
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise InvalidArgumentError("rng", rng, "is neither a seed nor a numpy Generator", "give a whole number ≥ 0")
    return np.random.default_rng(int(rng))


@frozen(eq=False)
class SimulationNoise(_FromWords):
    """Repeatable noise from a numpy generator, for audits, experiments and tests of releases.

    Args:
      rng: a generator, or a seed for one; there is no default.

    Raises:
      InvalidArgumentError: ``rng`` is neither.

    Example:
      >>> from hockeystick.mechanisms import Laplace, SimulationNoise
      >>> noise = SimulationNoise(1)
      >>> noise.laplace(3.0, 5), noise.coins(0.5, 3)
      (array([-2, -1, 15,  1, -2]), array([False,  True, False]))
      >>> round(Laplace(1.0).release(42.0, noise=SimulationNoise(1)), 3)  # the code of a release, repeatable
      42.765
    """

    rng: np.random.Generator = field(converter=_generator)

    @property
    def simulated(self) -> bool:
        """True: the seed repeats its draws."""
        return True

    def laplace(self, scale: float, count: int) -> NDArray[np.int64]:
        """Returns discrete Laplace draws, P(k) ∝ e^(−|k|/scale), for scales up to 2^45."""
        rate = 1.0 / validate.real("scale", scale, low=0.0, low_open=True, high=_SIMULATED_LAPLACE)
        p, count = -math.expm1(-rate), arguments.array_length("count", count)
        return np.asarray(self.rng.geometric(p, count) - self.rng.geometric(p, count), dtype=np.int64)

    def gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        """Returns discrete Gaussian draws, P(k) ∝ e^(−k²/(2·scale²)); above scale 2^12 rounded normal draws."""
        sigma = _scale(scale)
        if sigma <= _TABULATED:
            return self.integers(DiscreteGaussianLaw(sigma), count)
        return np.rint(self.rng.normal(scale=sigma, size=arguments.array_length("count", count))).astype(np.int64)

    def _words(self, count: int) -> NDArray[np.uint64]:
        if isinstance(self.rng.bit_generator, _OF_64_BITS):  # the same words, in a tenth of the time for a few
            return np.asarray(self.rng.bit_generator.random_raw(count), dtype=np.uint64)
        return self.rng.integers(0, 2**64, size=count, dtype=np.uint64)


def check_noise(noise: Noise | None) -> Noise:
    """Returns ``noise``, or a ``ReleaseNoise`` for None.

    Raises:
      InvalidArgumentError: ``noise`` is not a source of noise.
    """
    if noise is None:
        return ReleaseNoise()
    if isinstance(noise, (SimulationNoise, ReleaseNoise)):  # the check against the protocol takes longer than a draw
        return noise
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise InvalidArgumentError(
            "noise", noise, "is not a source of noise", "leave it out, or give SimulationNoise(1)"
        )
    return noise
