"""The base class of mechanisms that add independent whole-number noise to whole numbers, and their calibration."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import InvalidDataError, NumericalError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.budgets import calibration
from hockeystick.accounting.events.noise.integer_noise import Spread
from hockeystick.accounting.losses import wide_noise
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.digitwise_laplace import LARGEST_SCALE
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise
from hockeystick.mechanisms.release import Releasable

FARTHEST = 2**61
_TOLERANCE = 1e-9  # of the least noise
_ALIKE = 1e-7  # of ln δ: vectors whose δ differ by less are equal up to round-off
_ENDS = 1e-38  # δ below which what tables of noise leave out outweighs it: other bounds are smaller
_WEIGHT = 8.0  # of ln ε beside ln δ, which changes about so many times as fast
_LITTLE = 1e-3  # where ε and δ are below it, the most noise is tried first: it may miss the target


def whole_numbers(name: str, value: ArrayLike) -> IntArray:
    """Returns an array of whole numbers, clipped to ±2^61.

    Noise of every scale stays below 2^62 except with probability e^-1000, so sums fit in 64 bits. Clipping never moves
    two values further apart, whereas an error about a large value would reveal that there is one.

    Raises:
      InvalidArgumentError: ``value`` is not numeric or not finite, or an entry is not a whole number.
    """
    raw = validate.as_array(name, value, data=True)
    if raw.dtype.kind == "u":
        return np.asarray(np.minimum(raw, np.uint64(FARTHEST)).astype(np.int64))
    if raw.dtype.kind == "i":
        return np.asarray(np.clip(raw.astype(np.int64), -FARTHEST, FARTHEST))
    number = arguments.exact_floats(name, value)
    if (number != np.rint(number)).any():
        raise InvalidDataError(name, value, "holds a number that is not whole", "round it, and adjust the sensitivity")
    return np.asarray(np.clip(number, -FARTHEST, FARTHEST).astype(np.int64))


def noisy_sums(
    value: ArrayLike, rng: np.random.Generator, runs: int, draw: Callable[[Noise, int], IntArray]
) -> IntArray:
    """Returns ``runs`` copies of the value, each with fresh noise on every entry.

    Raises:
      InvalidArgumentError: see ``AdditiveIntegers.simulate``.
    """
    noiseless, noise = whole_numbers("value", value), SimulationNoise(arguments.generator(rng))
    out = np.empty((arguments.run_count(runs, noiseless.size), *noiseless.shape), dtype=np.int64)
    rows = out.reshape(len(out), noiseless.size)
    for block in arguments.blocks(len(out), noiseless.size):
        rows[block] = draw(noise, rows[block].size).reshape(rows[block].shape)
        rows[block] += noiseless.ravel()
    return out


def log_likelihood_ratio(
    log_masses: Callable[[IntArray], FloatArray], output: ArrayLike, value0: ArrayLike, value1: ArrayLike
) -> FloatArray:
    """Returns ln(P(output | value0) / P(output | value1)), one number per run, given ln P of the noise of an entry."""
    v0, v1, drawn = (whole_numbers(name, x) for name, x in (("value0", value0), ("value1", value1), ("output", output)))
    validate.array("value1", v1, shape=v0.shape, dtype=np.int64, data=True)
    validate.array("output", drawn, shape=(None, *v0.shape), dtype=np.int64, data=True)
    losses = log_masses(drawn - v0) - log_masses(drawn - v1)
    return np.asarray(losses.sum(axis=tuple(range(1, drawn.ndim))))


class AdditiveIntegers(Releasable):
    """Base of frozen attrs classes with the abstract methods below: whole numbers of any shape in, whole numbers out.

    Values are clipped to ±2^61. Simulations and releases have the same law and share their code.
    """

    __slots__ = ()

    @abstractmethod
    def _whole_noise(self, noise: Noise, count: int) -> IntArray:
        """Independent draws of the noise."""

    @abstractmethod
    def _log_masses(self, drawn: IntArray) -> FloatArray:
        """ln P(noise = drawn), up to a constant."""

    @abstractmethod
    def _tail(self, reach: int) -> float:
        """A bound on P(|noise| > reach)."""

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns outputs of shape (runs, *value.shape), whole numbers of 64 bits.

        Raises:
          InvalidArgumentError: the value holds a number that is not whole, ``runs`` is not an integer ≥ 1, or ``rng``
            is not a generator.
        """
        return noisy_sums(value, rng, runs, self._whole_noise)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs of shape (runs, *value.shape)."""
        return log_likelihood_ratio(self._log_masses, output, value0, value1)

    def accuracy(self, beta: float, *, entries: int = 1) -> int:
        """Returns the least t such that with probability at least 1 − ``beta`` all ``entries`` are off by at most t.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` is not an integer ≥ 1.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("entries", entries, low=1)
        allowed = -math.expm1(math.log1p(-failure) / count) * (1 - 1e-9)  # for one entry; the factor covers rounding
        if self._tail(0) <= allowed:
            return 0
        low, high = 0, 1
        while self._tail(high) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._tail(middle) <= allowed else (middle, high)
        return high

    def _checked(self, value: ArrayLike) -> IntArray:
        return whole_numbers("value", value)

    def _draw(self, checked: IntArray, noise: Noise) -> Any:
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
    """Returns the least noise at which ``build(noise)`` is certainly (``epsilon``, ``delta``)-DP, to nine digits.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, or ``delta`` not in (0, 1).
      NumericalError: no noise from ``low`` to ``high`` can be shown to meet the target.
    """
    target = _Profile(validate.real("epsilon", epsilon, low=0.0), validate.probability("delta", delta, open=True))
    start = min(max(guess, low), high)
    _refuse_what_most_noise_misses(build, target, high)
    if (wide := _least_wide(build, target, start, high)) is not None:
        return wide
    # More noise is more private: if the least meets the target, no other need be tried.
    if all(target.excess(calibration.event_of(build(noise))) <= 0.0 for noise in (start, low)):
        return low
    if (found := _worst_first(build, target, start, low, high)) is not None:
        return found
    return accounting.calibrate(build, target, guess=start, low=low, high=high, tolerance=_TOLERANCE).value


def _refuse_what_most_noise_misses(build: Callable[[float], object], target: _Profile, high: float) -> None:
    if max(target.epsilon, target.delta) >= _LITTLE:
        return
    try:
        missed = target.surplus(calibration.event_of(build(high))) > 0.0
    except NumericalError:
        return  # nothing is known
    if missed:
        raise NumericalError(f"no value up to {high:g} meets {target}: relax it")


def _least_wide(build: Callable[[float], object], target: _Profile, start: float, high: float) -> float | None:
    """The least noise if it is so wide that one closed form bounds all vectors; None if it is not."""
    low = wide_noise.LEAST_VARIANCE
    if low >= high or not _is_bounded_at_once(calibration.event_of(build(low))):
        return None
    if target.excess(calibration.event_of(build(low))) <= 0.0:
        return None
    return accounting.calibrate(build, target, guess=max(start, low), low=low, high=high, tolerance=_TOLERANCE).value


def _is_bounded_at_once(event: accounting.PrivacyEvent) -> bool:
    return isinstance(event, Spread) and event.normal() is not None


def _worst_first(
    build: Callable[[float], object], target: _Profile, guess: float, low: float, high: float
) -> float | None:
    """The least noise if the event is the worst of several vectors' profiles; None if not, or if the search fails.

    To compute all profiles takes long. So the search finds the least noise for one vector, then the vector that is
    worst at this noise, and repeats until the noise covers all vectors. Each noise is necessary for its vector, so the
    last one is the least.
    """

    def along(vector: tuple[int, ...]) -> Callable[[float], accounting.PrivacyEvent]:
        def built(noise: float) -> accounting.PrivacyEvent:
            event = calibration.event_of(build(noise))
            return event.along(vector) if isinstance(event, Spread) else event

        return built

    event = calibration.event_of(build(guess))
    vectors = event.shifts() if isinstance(event, Spread) else ()
    if len(vectors) < 2:
        return None
    worst, noise = vectors[0], guess
    for _ in vectors:
        sought = along(worst)
        noise = accounting.calibrate(sought, target, guess=noise, low=low, high=high, tolerance=_TOLERANCE).value
        step = _TOLERANCE / 8
        while noise < high:
            excess = {vector: target.surplus(along(vector)(noise)) for vector in vectors}
            worst = max(vectors, key=excess.__getitem__)
            if excess[worst] > _ALIKE:
                break
            if target.excess(calibration.event_of(build(noise))) <= 0.0:
                return noise
            noise, step = min(noise * (1.0 + step), high), 2.0 * step
        else:
            return None
    return None


def _method(event: accounting.PrivacyEvent, delta: float, method: str | None) -> str | None:
    if _is_bounded_at_once(event) or delta < _ENDS:
        return None
    return "pld" if event.has_profile() else method


@frozen
class _Profile:
    """The target (``epsilon``, ``delta``)-DP, checked by the event's profile where it has one, which is exact here."""

    epsilon: float
    delta: float

    def excess(self, event: accounting.PrivacyEvent, method: str | None = None) -> float:
        """Returns a number that a search can follow: between the surplus and ln(ε at δ / the target's ε).

        Either may have steps: δ of little noise falls from 1 to nothing as the loss of a rare number passes ε, and ε
        jumps where δ passes the probability of such a number. Their harmonic mean is smooth where one of them is.
        """
        chosen = _method(event, self.delta, method)
        found = self.surplus(event, chosen)
        if self.delta < _ENDS:
            return found
        least = accounting.epsilon(event, self.delta, method=chosen).upper
        if not 0.0 < least < math.inf or self.epsilon == 0.0:
            return 1e-15 if found <= 0.0 and least > self.epsilon else found
        other = _WEIGHT * math.log(least / self.epsilon)
        if found * other <= 0.0:  # the two inversions round differently: both must meet the target
            return max(found, other)
        return found * other / (found + other)

    def surplus(self, event: accounting.PrivacyEvent, method: str | None = None) -> float:
        """Returns ln(δ at ε / the target's δ); for a δ that underflows, by how much ε at δ exceeds the target's."""
        chosen = _method(event, self.delta, method)
        if self.delta < _ENDS:
            return accounting.epsilon(event, self.delta, method=chosen).upper - self.epsilon
        found = accounting.delta(event, self.epsilon, method=chosen).upper
        return math.log(found / self.delta) if found else -60.0
