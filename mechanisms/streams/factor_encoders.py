"""Encoders C and decoders B of factorisations A = B·C: filters of a stream (``Toeplitz``) and any matrices (``Dense``).

Encoders are stored in fixed point, as multiples of 2^-16, so that C·x is exact for whole numbers and the sensitivity of
a filter is an exact sum. The decoder belongs to the encoder as stored.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.events.noise.participations import participation_sensitivity
from hockeystick.mechanisms.contract import arguments

Workload = Literal["prefix_sums", "stream"]

UNIT = 2.0**-16
"""The unit of the entries of encoders."""

_LARGEST = 2.0**10
_DENSE = 2048  # steps up to which an encoder without structure is a dense matrix
_FILTERED = 64  # coefficients up to which a recursion is faster than a Fourier transform


class RunningFilter(Protocol):
    """The state of a filter C and its inverse, step by step; both are as secret as the contributions."""

    def encode(self, contribution: IntArray) -> IntArray:
        """Returns the next row of C·x in multiples of ``UNIT``, for the next contribution in whole numbers."""

    def decode(self, noisy: FloatArray) -> FloatArray:
        """Returns the next row of C⁻¹·y, for the next noisy measurement."""

    def state(self) -> dict[str, Any]:
        """Returns the state, ready for JSON."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a saved state; an error of any kind if it is not one."""


class Factorisation(ABC):
    """A = B·C, with C of shape (measurements, steps) and B of shape (answers, measurements)."""

    __slots__ = ()
    steps: int
    is_filter: ClassVar[bool] = True
    """Whether C is lower triangular with equal entries on each diagonal."""

    @property
    @abstractmethod
    def measurements(self) -> int:
        """The number of rows of C."""

    @property
    @abstractmethod
    def answers(self) -> int:
        """The number of rows of B."""

    @abstractmethod
    def participation_sensitivity(
        self, *, participations: int = 1, separation: int = 1
    ) -> accounting.ParticipationSensitivity:
        """Returns the largest L2 change of C·x by one record with contributions of norm at most 1, and if it is exact.

        See ``accounting.participation_sensitivity``.
        """

    def sensitivity(self, *, participations: int = 1, separation: int = 1) -> float:
        """Returns the value of ``participation_sensitivity``."""
        return self.participation_sensitivity(participations=participations, separation=separation).value

    @abstractmethod
    def variances(self) -> FloatArray:
        """Returns the variance of every answer for noise z of variance 1, shape (answers,)."""

    @abstractmethod
    def amplification(self) -> int:
        """Returns the largest factor by which ``encode`` can enlarge the largest whole number."""

    @abstractmethod
    def encode(self, contributions: IntArray) -> IntArray:
        """Returns C·x in multiples of ``UNIT``, off by ``rounding``, for whole numbers x of shape (steps, entries)."""

    def rounding(self) -> float:
        """Returns the most by which ``encode`` is off in an entry, in multiples of ``UNIT``, always downwards: 0."""
        return 0.0

    def running(self, shape: tuple[int, ...]) -> RunningFilter:
        """Returns the state of a running release, before the first step, for contributions of ``shape``.

        Raises:
          InvalidArgumentError: the encoder is not a filter.
        """
        raise InvalidArgumentError("factorisation", self, "needs all steps at once", "use a Toeplitz factorisation")

    @abstractmethod
    def apply(self, contributions: FloatArray) -> FloatArray:
        """Returns A·x, for x of shape (steps, entries)."""

    @abstractmethod
    def decode(self, noisy: FloatArray) -> FloatArray:
        """Returns B·y, for y of shape (runs, measurements, entries)."""

    @abstractmethod
    def projected(self, shift: FloatArray, errors: FloatArray) -> FloatArray:
        """Returns ⟨A·shift, (B·Bᵀ)⁺·errors⟩ for each run: the optimal score to detect a shift.

        Args:
          shift: the shift of the contributions, shape (steps, entries).
          errors: the errors of the answers, shape (runs, answers, entries).
        """

    def max_error(self, *, participations: int = 1, separation: int = 1) -> float:
        """Returns the largest standard deviation of an answer at a noise multiplier of 1."""
        reach = self.sensitivity(participations=participations, separation=separation)
        return reach * math.sqrt(float(self.variances().max()))

    def root_mean_square_error(self, *, participations: int = 1, separation: int = 1) -> float:
        """Returns the root mean square of the answers' standard deviations at a noise multiplier of 1."""
        reach = self.sensitivity(participations=participations, separation=separation)
        return reach * math.sqrt(float(self.variances().mean()))


def check_steps(value: int) -> int:
    """Returns the parameter ``steps``, an integer from 1 to 2^24."""
    return validate.integer("steps", value, low=1, high=2**24)


def _coefficients(values: ArrayLike) -> tuple[float, ...]:
    given = validate.array("coefficients", values, ndim=1, low=-_LARGEST, high=_LARGEST)
    rounded = np.trim_zeros(np.rint(given / UNIT), "b") * UNIT
    if not rounded.size or rounded[0] <= 0.0:
        raise InvalidArgumentError(
            "coefficients", values, "must begin with a positive number", "scale them such that c₀ = 1"
        )
    return tuple((rounded + 0.0).tolist())


def check_discount(value: float) -> float:
    """Returns the parameter ``discount``, a number in (0, 1]."""
    return validate.real("discount", value, low=0.0, high=1.0, low_open=True)


def discounted(values: FloatArray, discount: float, before: FloatArray | None = None, axis: int = 0) -> FloatArray:
    """Returns the discounted prefix sums along an axis, after a sum of ``before`` (along axis 0)."""
    if discount == 1.0:
        return np.asarray(np.cumsum(values, axis=axis) + (0.0 if before is None else before))
    from scipy import signal

    state = None if before is None else discount * before[None]
    found = signal.lfilter([1.0], [1.0, -discount], values, axis=axis, zi=state)
    return np.asarray(found if before is None else found[0])


def accumulated(values: FloatArray, factorisation: Any, axis: int = 0) -> FloatArray:
    """Returns A·values of a filter along an axis: discounted prefix sums, or the values themselves."""
    if factorisation.workload == "stream":
        return values
    return discounted(values, factorisation.discount, axis=axis)


def increments(answers: FloatArray, factorisation: Any) -> FloatArray:
    """Returns A⁻¹·answers of a filter, for answers of shape (runs, steps, entries)."""
    if factorisation.workload == "stream":
        return answers
    found = np.array(answers)
    found[:, 1:] -= factorisation.discount * answers[:, :-1]
    return found


def check_workload(value: Workload) -> Workload:
    """Returns the parameter ``workload``."""
    if value not in ("prefix_sums", "stream"):
        raise InvalidArgumentError("workload", value, "is unknown", "use 'prefix_sums' or 'stream'")
    return value


@frozen(cache_hash=True)  # caches are keyed by it, and it may have as many coefficients as there are steps
class Toeplitz(Factorisation):
    """A factorisation whose encoder is a filter: C is lower triangular with entries C_ij = c_(i−j), as is B = A·C⁻¹.

    With few coefficients C is banded: the measurement of a step needs only the last few contributions, and its answer
    only the last few noisy estimates.

    Args:
      steps: T.
      coefficients: c₀ > 0, c₁, …, at most T of them, the rest being 0; they are rounded to multiples of 2^-16.
      workload: "prefix_sums", or "stream" for the contributions themselves (each with noise C⁻¹·z).
      discount: γ in (0, 1] for prefix sums in which a contribution has the weight γ^age: A_ij = γ^(i−j) for j ≤ i.

    Raises:
      InvalidArgumentError: ``steps`` is not an integer ≥ 1, coefficients are not finite, not in [−1024, 1024] or more
        than ``steps``, c₀ ≤ 0, or the discount is outside its domain.
    """

    steps: int = field(converter=check_steps)
    coefficients: tuple[float, ...] = field(converter=_coefficients)
    workload: Workload = field(default="prefix_sums", converter=check_workload, kw_only=True)
    discount: float = field(default=1.0, converter=check_discount, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if len(self.coefficients) > self.steps:
            raise InvalidArgumentError(
                "coefficients", len(self.coefficients), f"are more than {self.steps} steps", "leave the last ones out"
            )

    @property
    def measurements(self) -> int:
        return self.steps

    @property
    def answers(self) -> int:
        return self.steps

    def matrix(self) -> FloatArray:
        """Returns C, shape (steps, steps)."""
        from scipy import linalg

        arguments.array_length("steps", self.steps, self.steps**2)
        column = np.zeros(self.steps)
        column[: len(self.coefficients)] = self.coefficients
        return np.asarray(linalg.toeplitz(column, np.zeros(self.steps)))

    def participation_sensitivity(
        self, *, participations: int = 1, separation: int = 1
    ) -> accounting.ParticipationSensitivity:
        """Returns the largest L2 change of C·x by one record, and whether it is exact; rounded up.

        It is exact in three cases: for one participation (the first column is the longest); if the coefficients are
        ≥ 0 and don't increase (the steps 0, s, 2s, … are worst for separation s: Kalinin & Lampert 2024, Thm 2); and if
        columns that are ``separation`` apart share no row. In up to 2048 steps it is otherwise that of
        ``accounting.participation_sensitivity``, and in more steps that of the decreasing majorant, a bound.

        Raises:
          InvalidArgumentError: an argument is not an integer ≥ 1.
        """
        count = validate.integer("participations", participations, low=1)
        gap = validate.integer("separation", separation, low=1)
        count, whole = min(count, -(-self.steps // gap)), self._whole()
        majorant = list(itertools.accumulate(reversed([abs(c) for c in whole]), max))[::-1]
        exact, method = True, "decreasing-filter"
        if count == 1 or len(whole) <= gap:
            method = "longest-column" if count == 1 else "disjoint-columns"
            square = sum(c * c * min(count, 1 + (self.steps - 1 - j) // gap) for j, c in enumerate(whole))
        elif majorant != whole and self.steps <= _DENSE:
            return participation_sensitivity(self.matrix(), participations=count, separation=gap)
        else:
            if majorant != whole:
                exact, method = False, "decreasing-majorant"
            moved = np.zeros(self.steps, dtype=object)  # exact
            for first in range(0, count * gap, gap):
                column = majorant[: self.steps - first]
                moved[first : first + len(column)] += column
            square = sum(int(m) ** 2 for m in moved)
        # The integer as a float, its root and the product: 2.5 of the 8 U; ``UNIT`` is a power of 2.
        return accounting.ParticipationSensitivity(math.sqrt(square) * UNIT * (1 + 2.0**-50), exact, method)

    def _whole(self) -> list[int]:
        return [int(c / UNIT) for c in self.coefficients]

    def noise_filter(self) -> FloatArray:
        """Returns the first column of B, shape (steps,)."""
        return _noise_filter(self)

    def variances(self) -> FloatArray:
        return np.cumsum(self.noise_filter() ** 2)

    def amplification(self) -> int:
        return sum(abs(c) for c in self._whole())

    def encode(self, contributions: IntArray) -> IntArray:
        found = np.zeros_like(contributions)
        for j, c in enumerate(self._whole()):
            if c:
                found[j:] += c * contributions[: self.steps - j]
        return found

    def running(self, shape: tuple[int, ...]) -> RunningFilter:
        return _RunningTaps(self, shape)

    def apply(self, contributions: FloatArray) -> FloatArray:
        return accumulated(contributions, self)

    def decode(self, noisy: FloatArray) -> FloatArray:
        from scipy import signal

        if len(self.coefficients) <= _FILTERED:
            found = signal.lfilter([1.0], self.coefficients, noisy, axis=1)
            return accumulated(np.asarray(found), self, axis=1)
        column = self.noise_filter()[None, :, None]
        return np.asarray(signal.fftconvolve(noisy, column, axes=1)[:, : self.steps])

    def projected(self, shift: FloatArray, errors: FloatArray) -> FloatArray:
        from scipy import signal

        # B and A are invertible: the score is that of C·x + z itself, ⟨C·shift, C·A⁻¹·errors⟩.
        moved = signal.lfilter(self.coefficients, [1.0], shift, axis=0)
        back = signal.lfilter(self.coefficients, [1.0], moved[::-1], axis=0)[::-1]
        return np.asarray(np.einsum("td,rtd->r", back, increments(errors, self)))


class _RunningTaps:
    """As many contributions and estimates as there are coefficients, the latest last."""

    def __init__(self, factorisation: Toeplitz, shape: tuple[int, ...]) -> None:
        self._coefficients = np.array(factorisation.coefficients[::-1])
        self._whole = np.array(factorisation._whole()[::-1], dtype=np.int64)
        self._contributions = _Past(len(self._whole) - 1, shape, np.int64)
        self._estimates = _Past(len(self._whole) - 1, shape, np.float64)

    def encode(self, contribution: IntArray) -> IntArray:
        past = self._contributions.rows
        taps = self._whole[len(self._whole) - 1 - len(past) : -1]
        found = self._whole[-1] * contribution + np.tensordot(taps, past, 1)
        self._contributions.append(contribution)
        return np.asarray(found)

    def decode(self, noisy: FloatArray) -> FloatArray:
        past = self._estimates.rows
        taps = self._coefficients[len(self._coefficients) - 1 - len(past) : -1]
        estimate = (noisy - np.tensordot(taps, past, 1)) / self._coefficients[-1]
        self._estimates.append(estimate)
        return np.asarray(estimate)

    def state(self) -> dict[str, Any]:
        return {"contributions": self._contributions.rows.tolist(), "estimates": self._estimates.rows.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        for name, past in (("contributions", self._contributions), ("estimates", self._estimates)):
            past.restore(name, state[name])


class _Past:
    """The last rows of a sequence, at most ``length`` of them."""

    def __init__(self, length: int, shape: tuple[int, ...], dtype: Any) -> None:
        self._length, self._end = length, 0
        self._room = np.empty((0, *shape), dtype)

    @property
    def rows(self) -> Any:
        """The rows so far, the oldest first; valid until the next one is added."""
        return self._room[max(0, self._end - self._length) : self._end]

    def append(self, row: Any) -> None:
        if self._end == len(self._room):
            kept = self.rows
            self._room = np.concatenate([kept, np.empty((max(8, len(kept)), *kept.shape[1:]), kept.dtype)])
            self._end = len(kept)
        self._room[self._end] = row
        self._end += 1

    def restore(self, name: str, rows: Any) -> None:
        shape = self._room.shape[1:]
        found = validate.array(name, rows, shape=(None, *shape), dtype=self._room.dtype) if rows else self._room[:0]
        self._room, self._end = found, len(found)


@lru_cache(maxsize=32)
def _noise_filter(factorisation: Toeplitz) -> FloatArray:
    from scipy import signal

    impulse = np.zeros(factorisation.steps)
    impulse[0] = 1.0
    inverse = np.asarray(signal.lfilter([1.0], factorisation.coefficients, impulse))
    return accumulated(inverse, factorisation)


def _encoder(value: ArrayLike) -> FloatArray:
    return np.asarray(np.rint(validate.array("encoder", value, ndim=2, low=-_LARGEST, high=_LARGEST) / UNIT) * UNIT)


def _decoder(value: ArrayLike | None) -> FloatArray | None:
    return None if value is None else validate.array("decoder", value, ndim=2)


@frozen(eq=False)
class Dense(Factorisation):
    """A factorisation by any encoder C and decoder B as matrices, for a few hundred steps that are answered at once.

    Args:
      encoder: C, shape (measurements, steps); its entries are rounded to multiples of 2^-16.
      decoder: B, shape (answers, measurements); by default the least-squares estimate of the prefix sums.

    Raises:
      InvalidArgumentError: the matrices don't fit, entries are not finite or beyond ±1024, there are more than 2048
        steps, or no decoder is given and C does not determine the prefix sums.
    """

    is_filter = False
    encoder: FloatArray = field(converter=_encoder)
    decoder: Any = field(default=None, converter=_decoder)

    def __attrs_post_init__(self) -> None:
        rows, steps = self.encoder.shape
        if not rows or not 1 <= steps <= _DENSE:
            raise InvalidArgumentError("encoder", self.encoder.shape, f"does not have 1 to {_DENSE} steps")
        if self.decoder is None:
            sums = np.tril(np.ones((steps, steps)))
            best = sums @ np.linalg.pinv(self.encoder)
            if not np.allclose(best @ self.encoder, sums, atol=1e-6):
                raise InvalidArgumentError("encoder", self.encoder.shape, "does not determine the prefix sums")
            object.__setattr__(self, "decoder", best)
        if self.decoder.shape[1] != rows or not len(self.decoder):
            raise InvalidArgumentError("decoder", self.decoder.shape, f"does not take {rows} measurements")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dense) and all(
            np.array_equal(a, b) for a, b in ((self.encoder, other.encoder), (self.decoder, other.decoder))
        )

    def __hash__(self) -> int:
        return hash((self.encoder.tobytes(), self.decoder.tobytes()))

    @property
    def steps(self) -> int:  # type: ignore[override]
        return int(self.encoder.shape[1])

    @property
    def measurements(self) -> int:
        return len(self.encoder)

    @property
    def answers(self) -> int:
        return len(self.decoder)

    def participation_sensitivity(
        self, *, participations: int = 1, separation: int = 1
    ) -> accounting.ParticipationSensitivity:
        return participation_sensitivity(self.encoder, participations=participations, separation=separation)

    def variances(self) -> FloatArray:
        return np.asarray((self.decoder**2).sum(axis=1))

    def amplification(self) -> int:
        return int(np.abs(self._whole()).sum(axis=1).max())

    def _whole(self) -> IntArray:
        return np.rint(self.encoder / UNIT).astype(np.int64)

    def encode(self, contributions: IntArray) -> IntArray:
        return np.asarray(self._whole() @ contributions)

    def apply(self, contributions: FloatArray) -> FloatArray:
        return np.asarray(self.decoder @ (self.encoder @ contributions))

    def decode(self, noisy: FloatArray) -> FloatArray:
        return np.asarray(self.decoder @ noisy)

    def projected(self, shift: FloatArray, errors: FloatArray) -> FloatArray:
        inverse = np.linalg.pinv(self.decoder @ self.decoder.T, hermitian=True)
        return np.asarray(np.einsum("td,rtd->r", inverse @ self.apply(shift), errors))
