"""Shares of whole-number noise: every client adds a little noise to its numbers, and the server sees only their sum.

Some clients drop out, and some may reveal their noise to the adversary. Protection comes from the noise of those that
certainly stay and keep it secret, the ``survivors``; the cost is that of the exact law of *their* sum. Every further
share is independent noise on top of it, that is post-processing, so more survivors never cost more.

One record changes the sum of the clients' whole numbers by a vector whose positive entries add up to at most ``rise``
and whose negative ones to at most −``fall``, or the other way round. For a histogram, rise = 1 and fall = 0
under add-or-remove-one, and rise = fall = 1 under replace-one. The laws here are symmetric and log-concave, except for
``PolyaShares`` with fewer survivors than the whole. So the worst such vector has two entries, ``rise`` and −``fall``:
a shift of one entry by s + t is easier to detect than shifts of two entries by s and t (proved in
``accounting.integer_noise``). For k records, rise and fall are k times as large, and the event is at distance k.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import IntegerNoise, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.numbers.added_integers import log_likelihood_ratio, noisy_sums
from hockeystick.mechanisms.randomness.integer_laws import IntegerLaw
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

_DEVIATIONS = 40.0  # half the width of a tabulated law


def checked_survivors(value: int) -> int:
    """Returns the field ``survivors``, from 1 to a million."""
    return validate.integer("survivors", value, low=1, high=10**6)


def checked_rise(value: int) -> int:
    """Returns the field ``rise``, at least 1."""
    return validate.integer("rise", value, low=1, high=2**40)


def checked_fall(value: int) -> int:
    """Returns the field ``fall``, at least 0."""
    return validate.integer("fall", value, low=0, high=2**40)


class NoiseShares(ABC):
    """Base of frozen attrs classes with the fields ``survivors``, ``rise`` and ``fall``.

    As a mechanism it publishes what the server sees in the worst case: the sum with the noise of the survivors only.
    """

    __slots__ = ()
    survivors: int
    rise: int
    fall: int

    @abstractmethod
    def share(self, count: int, *, noise: Noise | None = None) -> IntArray:
        """Returns the noise of one client for ``count`` numbers, by default from a secure source; each call draws anew.

        Raises:
          InvalidArgumentError: ``count`` is not an integer ≥ 0, or ``noise`` is not a source of noise.
        """

    @abstractmethod
    def variance(self) -> float:
        """Returns the variance of the sum of the survivors' noise, in the units of ``simulate``."""

    @abstractmethod
    def _sum(self, noise: Noise, count: int) -> IntArray:
        """Draws of the sum of the survivors' noise."""

    @abstractmethod
    def _shifted(self, shift: int) -> accounting.PrivacyEvent:
        """The event of one number that changes by ``shift``."""

    @abstractmethod
    def _log_masses(self, drawn: IntArray) -> FloatArray:
        """ln P(sum = drawn), up to a constant."""

    def law(self) -> tuple[IntArray, FloatArray]:
        """Returns the values of the sum of the survivors' noise and their probabilities, up to 1e-14 in all."""
        reach = math.ceil(_DEVIATIONS * math.sqrt(self.variance())) + 2
        drawn = np.arange(-min(reach, self._reach()), min(reach, self._reach()) + 1)
        log_masses = self._log_masses(drawn)
        masses = np.exp(log_masses - log_masses.max())
        return drawn, masses / masses.sum()

    def _reach(self) -> int:
        """The largest number that ``_log_masses`` takes."""
        return 2**40

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record; the adversary sees the sum and knows all noise but the survivors'."""
        parts = [self._shifted(shift) for shift in (self.rise, self.fall) if shift]
        return accounting.compose(*parts)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns sums of the value and the survivors' noise, of shape (runs, *value.shape).

        Raises:
          InvalidArgumentError: the value holds a number that is not whole, ``runs`` is not an integer ≥ 1, or ``rng``
            is not a generator.
        """
        return noisy_sums(value, rng, runs, self._sum)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns zeros, and the change ``rise`` of one entry and −``fall`` of another."""
        return (np.zeros(2, dtype=np.int64), np.array([self.rise, -self.fall])) if self.fall else (0, self.rise)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs of shape (runs, *value.shape)."""
        return log_likelihood_ratio(self._log_masses, output, value0, value1)


def drawn_share(law: IntegerLaw, count: int, noise: Noise | None) -> IntArray:
    """Returns ``count`` draws; raises the errors of ``NoiseShares.share``."""
    return check_noise(noise).integers(law, validate.integer("count", count, low=0))


def looked_up(noise: IntegerNoise, drawn: IntArray) -> FloatArray:
    """Returns ln P of a symmetric law."""
    reach = len(noise.log_pmf) // 2
    far = int(np.abs(drawn).max(initial=0))
    if far > reach:
        raise InvalidDataError("output", far, "lies outside the range of the noise", "give outputs of these shares")
    return np.asarray(np.array(noise.log_pmf)[drawn + reach])
