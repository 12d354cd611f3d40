"""The base class of mechanisms that choose among candidates by noisy scores, and exact draws for their release.

*Scores are exact numbers.* A release takes them as the integers or floats that they are, so all differences in units of
the scale are rational numbers and nothing is rounded. The sensitivity has to bound the changes of these very numbers.
If they were computed in floating point, their rounding errors are part of the change.

*Noise is exact too.* The binary digits of an exponential variate E of mean 1 are independent: the digit 2^-j is 1 with
probability 1/(1 + e^(2^-j)). So ⌊2^32·E⌋ is geometric and is made from one discrete Laplace draw; further digits are
drawn one at a time where these leave a comparison open. Comparisons thus have the outcome of real numbers, ties have
probability 0, and a release has exactly the law of the mechanism with continuous noise, hence the same event.

The time of a draw depends on the scores. Only its outcome is private.
"""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike, NDArray
from scipy import special

from hockeystick.accounting import InvalidDataError, NumericalError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable

DIGITS = 32
"""The number of binary digits after the point that are drawn at once."""

_FARTHEST = 1 << 62
_MOST_TRIES = 1 << 16  # drawn at a time
_CHUNK_BITS = 62
_CHUNK = 1 << _CHUNK_BITS
_EXACT_STEPS = 2.0**50  # below it a quotient's floor is off by one at most in floats


@frozen
class Selection(Releasable):
    """Base of the mechanisms that publish only the chosen candidates.

    The fields are described by ``ExponentialMechanism``.
    """

    scale: float = field(converter=arguments.noise_scale)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    monotone: bool = field(default=False, converter=arguments.monotone, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio of sensitivity and scale that no event can hold

    @abstractmethod
    def _noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Real-valued noise in units of the scale, for simulations."""

    @abstractmethod
    def log_probabilities(self, value: ArrayLike) -> FloatArray:
        """Returns ln P(candidate) for scores of shape (candidates,)."""

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> NDArray[np.int64]:
        """Returns chosen candidates, integers of shape (runs,), for scores of shape (candidates,).

        Raises:
          InvalidArgumentError: the scores are empty, not numeric or not finite, ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        logits = self._logits("value", value)
        source, count = arguments.generator(rng), arguments.run_count(runs)
        chosen = np.empty(count, dtype=np.int64)
        for rows in arguments.blocks(count, len(logits)):
            noise = self._noise(source, (rows.stop - rows.start, len(logits)))
            noise += logits
            chosen[rows] = noise.argmax(axis=1)
        return chosen

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for chosen candidates of shape (runs,).

        Raises:
          InvalidDataError: the scores or the candidates are not of this form.
          NumericalError: a candidate's probability is 0 in floats for both.
        """
        p0 = self.log_probabilities(validate.array("value0", value0, ndim=1, data=True))
        p1 = self.log_probabilities(validate.array("value1", value1, shape=p0.shape, data=True))
        chosen = candidates("output", output, len(p0), shape=(None,))
        first, second = p0[chosen], p1[chosen]
        if (np.isneginf(first) & np.isneginf(second)).any():
            raise NumericalError("scores lie so far apart that a chosen candidate has no probability in floats")
        return np.asarray(first - second)

    def _score_range(self) -> float:
        """The most by which the change of one score exceeds that of another (2·sensitivity is exact in floats)."""
        return (1.0 if self.monotone else 2.0) * self.sensitivity

    def _width(self) -> float:
        return arguments.quotient_up(self._score_range(), self.scale)

    def _least_wins(self) -> bool:
        return False

    def _logits(self, name: str, value: ArrayLike) -> FloatArray:
        """Scores in units of the scale, relative to the best one."""
        given = scores(name, value)
        with np.errstate(over="ignore"):  # such a candidate has probability 0 in floats
            behind = given.min() - given if self._least_wins() else given - given.max()
            return np.asarray(behind / self.scale)

    def _checked(self, value: ArrayLike) -> ExactScores:
        scores("value", value)
        if np.asarray(value).dtype.itemsize > 8:
            raise InvalidDataError("value", value, "is more precise than a float", "give 64-bit numbers")
        items: list[Any] = value.tolist() if isinstance(value, np.ndarray) else list(value)  # type: ignore[arg-type]
        # Integers stay integers: beyond 2^53 their nearest floats may be further apart than they are.
        exact = [int(x) if isinstance(x, numbers.Integral) else float(x) for x in items]
        return ExactScores.of([-x for x in exact] if self._least_wins() else exact, self.scale)


def scores(name: str, value: ArrayLike) -> FloatArray:
    """Returns the scores as floats, one per candidate.

    Raises:
      InvalidDataError: the scores are empty, not numeric, or not finite.
    """
    found = validate.array(name, value, ndim=1, data=True)
    if not len(found):
        raise InvalidDataError(name, value, "has no candidates", "give at least one score")
    return np.asarray(found)


def candidates(name: str, value: ArrayLike, count: int, *, shape: tuple[int | None, ...]) -> NDArray[np.int64]:
    """Returns an array of candidates, whole numbers from 0 to ``count`` − 1.

    Raises:
      InvalidDataError: ``value`` has another shape, or an entry is not such a number.
    """
    found = validate.array(name, value, shape=shape, low=0, high=count - 1, data=True)
    if (found != np.floor(found)).any():
        raise InvalidDataError(name, value, "is not an array of candidates", "give their indices")
    return found.astype(np.int64)


def least_gap(failure: Callable[[float], float], beta: float) -> float:
    """Returns the least t ≥ 0 with failure(t) ≤ ``beta``, to 15 digits, for a function that decreases to 0."""
    if failure(0.0) <= beta:
        return 0.0
    low, high = 0.0, 1.0
    while failure(high) > beta:
        low, high = high, 2 * high
    while high - low > 1e-15 * high:
        middle = low + (high - low) / 2
        low, high = (low, middle) if failure(middle) <= beta else (middle, high)
    return high


def failing(beta: float, candidates: int) -> tuple[float, int]:
    """Returns the checked arguments of ``accuracy``: ``beta``, and the number of candidates other than the best."""
    count = validate.integer("candidates", candidates, low=1, high=validate.MOST)
    return validate.probability("beta", beta, open=True), count - 1


def panels(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Returns the nodes and the log-weights of Gauss–Legendre quadrature with 16 points between any two edges."""
    points, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, np.newaxis] / 2
    return (edges[:-1, np.newaxis] + half * (1 + points)).ravel(), np.log(half * weights).ravel()


def log_integrals(
    nodes: FloatArray, log_weights: FloatArray, log_integrand: Callable[[FloatArray], FloatArray], width: int
) -> NDArray[np.float64]:
    """Returns the logarithms of ``width`` integrals; ``log_integrand`` takes nodes in a column and adds an axis."""
    parts = [
        special.logsumexp(log_integrand(nodes[rows, np.newaxis]) + log_weights[rows, np.newaxis], axis=0)
        for rows in arguments.blocks(len(nodes), width)
    ]
    return np.asarray(special.logsumexp(parts, axis=0))


# ------------------------------------------------------------------------------------------------------- exact draws


@frozen(eq=False)
class ExactScores:
    """Scores as exact numbers: ``numerators`` over the positive whole number ``unit``, in units of the scale."""

    numerators: list[int]
    unit: int

    @classmethod
    def of(cls, scores: Sequence[int | float], scale: float) -> ExactScores:
        ratios = [score.as_integer_ratio() for score in (*scores, scale)]
        common = max(denominator for _, denominator in ratios)  # all of them are powers of two
        *numerators, unit = (numerator * (common // denominator) for numerator, denominator in ratios)
        return cls(numerators, unit)

    def without(self, candidate: int) -> ExactScores:
        return ExactScores(self.numerators[:candidate] + self.numerators[candidate + 1 :], self.unit)

    def gaps(self) -> Gaps:
        """The distances of the scores from the largest, capped at 2^30 scales.

        The cap does not affect the cost: a capped score moves with the largest one, so the range of all changes does
        not grow.
        """
        top = max(self.numerators)
        parts = [divmod((top - numerator) << DIGITS, self.unit) for numerator in self.numerators]
        return Gaps(
            np.array([min(whole, _FARTHEST) for whole, _ in parts]),
            [rest if whole < _FARTHEST else 0 for whole, rest in parts],
            self.unit,
        )


@frozen(eq=False)
class Gaps:
    """Distances in steps of 2^-DIGITS: ``whole`` + ``rest``/``unit`` of them, rest < unit."""

    whole: NDArray[np.int64]
    rest: list[int]
    unit: int


def whole_gaps(scores: NDArray[np.integer[Any]], scale: float) -> Gaps | None:
    """Returns the gaps of whole scores as ``ExactScores.gaps`` does, vectorised over the candidates.

    In floats a quotient below 2^50 is off by at most one; its remainder is exact in wrapping 64-bit arithmetic and
    corrects it. Larger quotients are computed with Python integers.

    Args:
      scores: shape (candidates,).
      scale: the scale of the noise.

    Returns:
      The gaps, or None if the scale or a difference has too many bits.
    """
    unit, common = scale.as_integer_ratio()
    wide = scores.astype(np.uint64 if scores.dtype.kind == "u" else np.int64)
    if max(unit, common >> 500) >= 1 << 56 or int(wide.max()) - int(wide.min()) >= _FARTHEST:
        return None
    behind = (wide.max() - wide).astype(np.uint64)
    steps = behind * (2.0**DIGITS / scale)
    far = np.flatnonzero(steps >= _EXACT_STEPS)
    whole = np.where(steps < _EXACT_STEPS, steps, 0.0).astype(np.int64)
    factor = np.uint64((common << DIGITS) % (1 << 64))
    rest = (behind * factor - whole.astype(np.uint64) * np.uint64(unit)).astype(np.int64)
    for _ in range(2):
        off = (rest >= unit).astype(np.int64) - (rest < 0)
        whole += off
        rest -= off * unit
    for r in far.tolist():
        quotient, left = divmod((int(behind[r]) * common) << DIGITS, unit)
        whole[r], rest[r] = (quotient, left) if quotient < _FARTHEST else (_FARTHEST, 0)
    return Gaps(whole, rest.tolist(), unit)


def softmax_draw(gaps: Gaps, noise: Noise) -> int:
    """Returns candidate r with probability exactly proportional to e^(−gap_r).

    By rejection: candidates are tried uniformly, and one is accepted with probability e^(−gap), that is if E ≥ gap. The
    best one is always accepted, so the mean number of tries is at most the number of candidates.
    """
    count = 8
    while True:
        tried = noise.uniform(len(gaps.whole), count)
        ahead = _exponentials(noise, count) - gaps.whole[tried]
        for i in np.flatnonzero(ahead >= 0):
            candidate = int(tried[i])
            if ahead[i] > 0 or _later_digits_reach(gaps.rest[candidate], gaps.unit, noise):
                return candidate
        count = min(2 * count, _MOST_TRIES)


def base2_draw(scores: ExactScores, noise: Noise) -> int:
    """Returns candidate r with probability exactly proportional to 2^(score_r / scale), for whole scores and scale.

    By rejection: a uniformly tried candidate is accepted if a uniform number U has U^scale < 2^(score − best).
    """
    top, power, count = max(scores.numerators), scores.unit, 8
    while True:
        for candidate, u in zip(
            noise.uniform(len(scores.numerators), count).tolist(), noise.uniform(_CHUNK, count).tolist(), strict=True
        ):
            size = power * _CHUNK_BITS - (top - scores.numerators[candidate])  # U is in [u, u + 1] / 2^62
            # Both ends of the interval have to lie on the same side.
            while u == 0 if size < 0 else u**power < 1 << size < (u + 1) ** power:
                u, size = u * _CHUNK + int(noise.uniform(_CHUNK, 1)[0]), size + power * _CHUNK_BITS
            if size >= 0 and (u + 1) ** power <= 1 << size:
                return int(candidate)
        count = min(2 * count, _MOST_TRIES)


def largest_draw(gaps: Gaps, noise: Noise, *, two_sided: bool) -> int:
    """Returns the candidate with the largest E_r − gap_r, or ±E_r − gap_r with random signs, exactly."""
    count = len(gaps.whole)
    floors = _exponentials(noise, count)
    up = noise.uniform(2, count) == 1 if two_sided else np.full(count, True)
    # E lies in [f, f + 1] steps, so E − gap in (p − 1, p + 1] with p = f − whole, and −E − gap with p = −f−1 − whole.
    places = np.where(up, floors, ~floors) - gaps.whole
    left = np.flatnonzero(places >= places.max() - 1).tolist()
    found, digits = [int(floors[r]) for r in left], DIGITS
    while len(left) > 1:
        lows = [
            (f if up[r] else ~f) * gaps.unit - ((int(gaps.whole[r]) * gaps.unit + gaps.rest[r]) << (digits - DIGITS))
            for r, f in zip(left, found, strict=True)
        ]
        remaining = [i for i, low in enumerate(lows) if low + gaps.unit > max(lows)]
        digits += 1
        left, found = [left[i] for i in remaining], [2 * found[i] + _digit(digits, noise) for i in remaining]
    return int(left[0])


def _exponentials(noise: Noise, count: int) -> NDArray[np.int64]:
    """Draws of ⌊2^DIGITS·E⌋. They are geometric, as are k and −k−1 for discrete Laplace noise k, given its sign."""
    drawn = noise.laplace(2.0**DIGITS, count)
    return np.where(drawn < 0, ~drawn, drawn)


def _later_digits_reach(rest: int, unit: int, noise: Noise) -> bool:
    """Whether the digits of an exponential variate from DIGITS + 1 on amount to at least rest/unit of a step."""
    digits = DIGITS
    while rest:
        digits += 1
        wanted, rest = divmod(2 * rest, unit)
        if (digit := _digit(digits, noise)) != wanted:
            return digit > wanted
    return True


def _digit(place: int, noise: Noise) -> int:
    """The digit 2^-place ≤ 1/2 of an exponential variate: 1 with odds e^(−2^-place)."""
    while noise.uniform(2, 1)[0]:
        # A coin of probability e^(−x), x ≤ 1 (von Neumann; Canonne, Kamath & Steinke 2020, Alg. 1): in a sequence of
        # coins of probability x/1, x/2, x/3, … the first that fails has an odd index.
        number = 1
        while noise.coins(Fraction(1, number << place), 1)[0]:
            number += 1
        if number % 2:
            return 1
    return 0
