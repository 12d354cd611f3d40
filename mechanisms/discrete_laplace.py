"""The discrete Laplace mechanism, and what mechanisms that add independent whole-number noise have in common."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.mechanisms import arguments
from hockeystick.mechanisms.noise import LARGEST_SCALE, Noise, SimulationNoise
from hockeystick.mechanisms.release import Releasable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FARTHEST = 2**61


def whole_numbers(name: str, value: ArrayLike) -> Integers:
    """Returns an array of whole numbers, clipped to ±2^61.

    Noise of every scale that is drawn stays below 2^62 but for a probability of e^-1000, so that sums stay in 64 bits.
    Clipping moves no value farther from another, while a refusal of large values would tell that there was one.

    Raises:
      InvalidArgumentError: it is not numeric or not finite, or an entry is no whole number.
    """
    try:
        raw = np.asarray(value)
    except ValueError:
        raise InvalidArgumentError(name, value, "is ragged", "give rows of one length") from None
    if raw.dtype.kind == "u":
        return np.asarray(np.minimum(raw, np.uint64(_FARTHEST)).astype(np.int64))
    if raw.dtype.kind == "i":
        return np.asarray(np.clip(raw.astype(np.int64), -_FARTHEST, _FARTHEST))
    number = validate.array(name, value)
    if (number != np.rint(number)).any():
        raise InvalidArgumentError(name, value, "holds a number that is not whole", "round it, and so its sensitivity")
    return np.asarray(np.clip(number, -_FARTHEST, _FARTHEST).astype(np.int64))


class AdditiveIntegers(Releasable):
    """Base of a frozen attrs class with the few methods below: whole numbers of any shape in, whole numbers out.

    Values are clipped to ±2^61. What is simulated and what is released has one law and takes one path in the code.
    """

    __slots__ = ()

    @abstractmethod
    def _whole_noise(self, noise: Noise, count: int) -> Integers:
        """Independent draws."""

    @abstractmethod
    def _log_masses(self, drawn: Integers) -> Floats:
        """ln P(noise = drawn), up to a constant."""

    @abstractmethod
    def _tail(self, reach: int) -> float:
        """A bound on P(|noise| > reach)."""

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> Integers:
        """Returns outputs of shape (runs, *value.shape), whole numbers of 64 bits.

        Raises:
          InvalidArgumentError: the value holds what is no whole number, ``runs`` is no integer ≥ 1, or ``rng`` no
            generator.
        """
        noiseless, noise = whole_numbers("value", value), SimulationNoise(arguments.generator(rng))
        out = np.empty((arguments.run_count(runs), *noiseless.shape), dtype=np.int64)
        rows = out.reshape(len(out), noiseless.size)
        for block in arguments.blocks(len(out), noiseless.size):
            rows[block] = self._whole_noise(noise, rows[block].size).reshape(rows[block].shape)
            rows[block] += noiseless.ravel()
        return out

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> Floats:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs of shape (runs, *value.shape)."""
        v0, v1, drawn = (
            whole_numbers(name, x) for name, x in (("value0", value0), ("value1", value1), ("output", output))
        )
        validate.array("value1", v1, shape=v0.shape, dtype=np.int64)
        validate.array("output", drawn, shape=(None, *v0.shape), dtype=np.int64)
        losses = self._log_masses(drawn - v0) - self._log_masses(drawn - v1)
        return np.asarray(losses.reshape(len(drawn), -1).sum(axis=1))

    def accuracy(self, beta: float, *, entries: int = 1) -> int:
        """Returns t such that with probability at least 1 − ``beta`` all ``entries`` are off by at most t (L∞ norm).

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` no integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("entries", entries, low=1)
        allowed = -math.expm1(math.log1p(-failure) / count) * (1 - 1e-9)  # of one entry; the rest is for rounding
        if self._tail(0) <= allowed:
            return 0
        low, high = 0, 1
        while self._tail(high) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._tail(middle) <= allowed else (middle, high)
        return high

    def _checked(self, value: ArrayLike) -> Integers:
        return whole_numbers("value", value)

    def _draw(self, checked: Integers, noise: Noise) -> Any:
        found = checked + self._whole_noise(noise, checked.size).reshape(checked.shape)
        return found if checked.ndim else int(found)


def least_noise(
    build: Callable[[float], object],
    *,
    epsilon: float,
    delta: float,
    guess: float,
    low: float = 1e-9,
    high: float = LARGEST_SCALE / 128,
) -> float:
    """Returns the noise at which ``build(noise)`` just is (``epsilon``, ``delta``)-DP, to nine digits and certainly.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or ``delta`` not in (0, 1).
      NumericalError: no noise from ``low`` to ``high`` can be shown to reach the target.
    """
    target = _Profile(validate.real("epsilon", epsilon, low=0.0), validate.probability("delta", delta, open=True))
    return accounting.calibrate(build, target, guess=guess, low=low, high=high, tolerance=1e-9).value


@frozen
class _Profile:
    """The target that an event is (``epsilon``, ``delta``)-DP, by its profile where it has one: that is exact here."""

    epsilon: float
    delta: float

    def excess(self, event: accounting.PrivacyEvent, method: str | None = None) -> float:
        way = "pld" if event.has_profile() else method
        found = accounting.delta(event, self.epsilon, method=way).upper
        if found <= self.delta and accounting.epsilon(event, self.delta, method=way).upper > self.epsilon:
            return 1e-15  # the two inversions may round differently
        return math.log(found / self.delta) if found else -60.0


def _scale(value: float) -> float:
    return validate.real("scale", value, low=0.0, low_open=True, high=LARGEST_SCALE / 128)


def _sensitivity(value: int) -> int:
    return validate.integer("sensitivity", value, low=1, high=_FARTHEST)


@frozen
class DiscreteLaplace(AdditiveIntegers):
    """Adds two-sided geometric noise, P(k) ∝ e^(−|k|/scale), to every entry of whole numbers of any shape.

    It is ε-DP with ε = sensitivity / scale, whatever the number of entries (Ghosh, Roughgarden & Sundararajan 2009),
    and its event is the exact profile of the worst change. A value of floats has to be whole.

    Args:
      scale: of the noise, up to 2^45; its variance is 2q/(1 − q)² with q = e^(−1/scale).
      sensitivity: the largest L1 distance between the values of two neighbouring data sets, a whole number. For a
        histogram of records that is 1 under add-or-remove-one and 2 under replace-one.

    Raises:
      InvalidArgumentError: a parameter is out of its domain.
    """

    scale: float = field(converter=_scale)
    sensitivity: int = field(default=1, converter=_sensitivity, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a scale that is no noise multiplier

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float = 0.0, sensitivity: int = 1) -> DiscreteLaplace:
        """Returns the mechanism of least noise that is (``epsilon``, ``delta``)-DP, certainly.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0 (and > 0 with delta = 0), ``delta`` not in [0, 1), or
            ``sensitivity`` no integer ≥ 1.
          NumericalError: no scale can be shown to reach the target.
        """
        distance = _sensitivity(sensitivity)
        if validate.real("delta", delta, low=0.0, high=1.0, high_open=True) > 0.0:
            loss = validate.real("epsilon", epsilon, low=0.0)
            guess = distance / max(loss, delta)
            return cls(
                least_noise(lambda t: cls(t, sensitivity=distance), epsilon=loss, delta=delta, guess=guess),
                sensitivity=distance,
            )
        target = validate.real("epsilon", epsilon, low=0.0, low_open=True)
        found = cls(arguments.quotient_up(distance, target), sensitivity=distance)
        while found.event().pure_epsilon() > target:  # its quotient is rounded too
            found = cls(math.nextafter(found.scale, math.inf), sensitivity=distance)
        return found

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: ``DiscreteLaplace(scale, distance=sensitivity)``."""
        return accounting.DiscreteLaplace(self.scale, distance=self.sensitivity)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two numbers at distance ``sensitivity``: a change of one entry is told more easily than of many."""
        return 0, self.sensitivity

    def _whole_noise(self, noise: Noise, count: int) -> Integers:
        return noise.laplace(self.scale, count)

    def _log_masses(self, drawn: Integers) -> Floats:
        return -np.abs(drawn) / self.scale

    def _tail(self, reach: int) -> float:
        return 2 * math.exp(-(reach + 1) / self.scale) / (1 + math.exp(-1 / self.scale))
