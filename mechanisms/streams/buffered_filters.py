"""Filters with a few buffers (BLT), whose running release stores a few arrays however many steps there are.

A buffered linear Toeplitz encoder (Dvijotham, McMahan, Pillutla, Steinke & Thakurta 2024) has the coefficients

    c_0 = 1,   c_i = Σ_j ω_j·θ_j^(i−1),   with weights ω_j ≥ 0, Σ ω_j ≤ 1, and decays 0 ≤ θ_j < 1.

They don't increase, so that steps as early and as near as possible are the worst (Kalinin & Lampert 2024, Thm 2). C·x
and C⁻¹·y are recursions: y = x + Σ ω_j·s_j and x = y − Σ ω_j·s_j, with s_j ← θ_j·s_j + x.

*Release.* Decays and weights are multiples of 2^-30, and the recursion is in whole numbers: s_j ← ⌊θ_j·s_j⌋ + x and
y = x + Σ ⌊ω_j·s_j⌋, in units of 2^-16 steps of the grid. Then s_j is too small by at most e_j units, where
e_j ← θ_j·e_j + 1, and y by at most Σ (ω_j·e_j + 1), whatever the data. Two neighbouring streams differ in each entry by
at most that much more than the exact ones: ``rounding``, which the noise is raised for.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.streams.factor_encoders import (
    UNIT,
    Factorisation,
    RunningFilter,
    Workload,
    accumulated,
    check_discount,
    check_steps,
    check_workload,
    increments,
)

_BITS = 30  # of decays and weights after the point
_MASK = (1 << _BITS) - 1
_MOST_BUFFERS = 64


def _in_bits(name: str, values: ArrayLike) -> tuple[float, ...]:
    given = validate.array(name, values, ndim=1, low=0.0, high=1.0)
    if len(given) > _MOST_BUFFERS:
        raise InvalidArgumentError(name, len(given), f"are more than {_MOST_BUFFERS} buffers", "2 to 6 are enough")
    return tuple((np.rint(given * 2.0**_BITS) / 2.0**_BITS).tolist())


def _decays(values: ArrayLike) -> tuple[float, ...]:
    return _in_bits("decays", values)


def _weights(values: ArrayLike) -> tuple[float, ...]:
    return _in_bits("weights", values)


@frozen
class BufferedToeplitz(Factorisation):
    """A factorisation whose encoder is a filter with c_i = Σ_j ω_j·θ_j^(i−1) (BLT), and B = A·C⁻¹.

    Its running release stores two arrays of the shape of a contribution for each buffer.

    Args:
      steps: T.
      decays: θ_j in [0, 1), rounded to multiples of 2^-30.
      weights: ω_j ≥ 0, with a sum of at most 1; rounded likewise.
      workload: "prefix_sums", or "stream" for the contributions themselves.
      discount: as for ``Toeplitz``.

    Raises:
      InvalidArgumentError: ``steps`` is not an integer ≥ 1, decays or weights are outside their domain or not equally
        many, a decay is 1, or the weights' sum is above 1.

    See ``factorisations.blt`` for an example.
    """

    steps: int = field(converter=check_steps)
    decays: tuple[float, ...] = field(converter=_decays)
    weights: tuple[float, ...] = field(converter=_weights)
    workload: Workload = field(default="prefix_sums", converter=check_workload, kw_only=True)
    discount: float = field(default=1.0, converter=check_discount, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if len(self.decays) != len(self.weights):
            reason = f"are {len(self.weights)} for {len(self.decays)} decays"
            raise InvalidArgumentError("weights", self.weights, reason, "give one for each decay")
        if max(self.decays, default=0.0) >= 1.0:
            raise InvalidArgumentError("decays", self.decays, "hold a 1", "give numbers below 1 − 2^-31")
        if sum(self.weights) > 1.0:
            reason = f"sum up to {sum(self.weights):.6g} > 1, so that coefficients increase"
            raise InvalidArgumentError("weights", self.weights, reason, "give weights with a sum of at most 1")

    @property
    def measurements(self) -> int:
        return self.steps

    @property
    def answers(self) -> int:
        return self.steps

    def coefficients(self) -> FloatArray:
        """Returns c_0, c_1, …, shape (steps,)."""
        later = self._sums(self.decays, self.weights, self.steps - 1)
        return np.concatenate([[1.0], later])

    @staticmethod
    def _sums(decays: ArrayLike, weights: ArrayLike, count: int) -> FloatArray:
        found = np.zeros(count)
        powers = np.arange(count, dtype=float)
        for decay, weight in zip(np.asarray(decays), np.asarray(weights), strict=True):
            found += weight * decay**powers
        return found

    def matrix(self) -> FloatArray:
        """Returns C, shape (steps, steps)."""
        from scipy import linalg

        from hockeystick.mechanisms.contract import arguments

        arguments.array_length("steps", self.steps, self.steps**2)
        return np.asarray(linalg.toeplitz(self.coefficients(), np.zeros(self.steps)))

    def participation_sensitivity(
        self, *, participations: int = 1, separation: int = 1
    ) -> accounting.ParticipationSensitivity:
        """Returns the largest L2 change of C·x by one record, which is exact; rounded up."""
        count = validate.integer("participations", participations, low=1)
        gap = validate.integer("separation", separation, low=1)
        return _sensitivity(self, min(count, -(-self.steps // gap)), gap)

    def inverse(self) -> tuple[FloatArray, FloatArray]:
        """Returns the decays and weights of C⁻¹, which is a buffered filter, too, with weights ≤ 0."""
        theta, omega = np.array(self.decays), np.array(self.weights)
        kept = omega > 0.0
        theta, root = theta[kept], np.sqrt(omega[kept])
        # x = y − Σ ω s, s ← (θ − 1·ωᵀ)s + y: symmetric after scaling by √ω.
        found, vectors = np.linalg.eigh(np.diag(theta) - np.outer(root, root))
        return found, -((root @ vectors) ** 2)

    def noise_filter(self) -> FloatArray:
        """Returns the first column of B, shape (steps,)."""
        return _noise_filter(self)

    def variances(self) -> FloatArray:
        return np.cumsum(self.noise_filter() ** 2)

    def rounding(self) -> float:
        """Returns the most by which rounding changes an entry of C·x, in multiples of ``UNIT``."""
        found = sum(w * _geometric(d, self.steps) + 1 for d, w in zip(self.decays, self.weights, strict=True))
        return float(found) * (1 + 2.0**-30)  # far more than the round-off of a few sums

    def amplification(self) -> int:
        states = [_geometric(d, self.steps) for d in self.decays]
        largest = max([1 + sum(w * s for w, s in zip(self.weights, states, strict=True)), *states])
        return math.ceil(1.01 * largest / UNIT) + 1  # more than the round-off of sums, and of the recursion

    def running(self, shape: tuple[int, ...]) -> RunningFilter:
        return _RunningBuffers(self, shape)

    def encode(self, contributions: IntArray) -> IntArray:
        state, found = self.running(contributions.shape[1:]), np.empty_like(contributions)
        for t, value in enumerate(contributions):
            found[t] = state.encode(value)
        return found

    def apply(self, contributions: FloatArray) -> FloatArray:
        return accumulated(contributions, self)

    def decode(self, noisy: FloatArray) -> FloatArray:
        state = self.running((len(noisy), *noisy.shape[2:]))
        found = np.empty_like(noisy)
        for t in range(self.steps):
            found[:, t] = state.decode(noisy[:, t])
        return accumulated(found, self, axis=1)

    def projected(self, shift: FloatArray, errors: FloatArray) -> FloatArray:
        # B and A are invertible: the score is that of C·x + z itself, ⟨C·shift, C·A⁻¹·errors⟩.
        back = self._filtered(self._filtered(shift)[::-1])[::-1]
        return np.asarray(np.einsum("td,rtd->r", back, increments(errors, self)))

    def _filtered(self, values: FloatArray) -> FloatArray:
        """Returns C·values, in floating point."""
        found = np.array(values, dtype=float)
        for decay, weight in zip(self.decays, self.weights, strict=True):
            state = np.zeros(values.shape[1:])
            for t, value in enumerate(values):
                found[t] += weight * state
                state = decay * state + value
        return found


def _geometric(decay: float, count: int) -> float:
    """Returns 1 + θ + … + θ^(count − 1)."""
    return min(float(count), 1.0 / (1.0 - decay)) if decay < 1.0 else float(count)


class _RunningBuffers:
    """The state of C·x, in whole numbers, and of C⁻¹·y."""

    def __init__(self, factorisation: BufferedToeplitz, shape: tuple[int, ...]) -> None:
        self._decays = factorisation.decays
        self._weights = factorisation.weights
        self._sums: list[IntArray] = [np.zeros(shape, dtype=np.int64) for _ in self._decays]
        self._estimates: list[FloatArray] = [np.zeros(shape) for _ in self._decays]

    def encode(self, contribution: IntArray) -> IntArray:
        new = contribution * int(1 / UNIT)
        found = new + sum(_share(w, s) for w, s in zip(self._weights, self._sums, strict=True))
        self._sums = [_share(d, s) + new for d, s in zip(self._decays, self._sums, strict=True)]
        return np.asarray(found)

    def decode(self, noisy: FloatArray) -> FloatArray:
        estimate = noisy - sum(w * s for w, s in zip(self._weights, self._estimates, strict=True))
        self._estimates = [d * s + estimate for d, s in zip(self._decays, self._estimates, strict=True)]
        return np.asarray(estimate)

    def state(self) -> dict[str, Any]:
        return {"sums": [s.tolist() for s in self._sums], "estimates": [e.tolist() for e in self._estimates]}

    def restore(self, state: dict[str, Any]) -> None:
        for name, own in (("sums", self._sums), ("estimates", self._estimates)):
            for buffer, saved in zip(own, state[name], strict=True):
                buffer[...] = validate.array(name, saved, shape=buffer.shape, dtype=buffer.dtype)


def _share(factor: float, whole: IntArray) -> IntArray:
    """Returns ⌊factor·whole⌋ for a factor in [0, 1] with ``_BITS`` bits and |whole| ≤ 2^61, without overflow."""
    bits = int(factor * 2**_BITS)
    return np.asarray((whole >> _BITS) * bits + (((whole & _MASK) * bits) >> _BITS))


@lru_cache(maxsize=32)
def _sensitivity(factorisation: BufferedToeplitz, count: int, gap: int) -> accounting.ParticipationSensitivity:
    n, c = factorisation.steps, factorisation.coefficients()
    rows = -(-n // gap)
    moved = np.concatenate([c, np.zeros(rows * gap - n)]).reshape(rows, gap).cumsum(axis=0)
    largest = float(moved.max())
    if count < rows:  # what left the window of the last ``count`` contributions
        moved[count:] = moved[count:] - moved[:-count]
    flat = moved.ravel()[:n]
    # Round-off: coefficients are off by 2^-46 of themselves (4 U for a power, U for each of up to 64 terms), the
    # sum of n squares by n U of itself.
    length = float(np.linalg.norm(flat)) * (1 + 2.0**-44 + n * 2.0**-52)
    # Round-off of the sums over rows: U times the largest for each of them, in each entry.
    length += math.sqrt(n) * (rows + 2) * largest * 2.0**-51 if count > 1 else 0.0
    return accounting.ParticipationSensitivity(length, True, "longest-column" if count == 1 else "decreasing-filter")


@lru_cache(maxsize=32)
def _noise_filter(factorisation: BufferedToeplitz) -> FloatArray:
    decays, weights = factorisation.inverse()
    later = factorisation._sums(decays, weights, factorisation.steps - 1)
    found = np.concatenate([[1.0], later])
    return accumulated(found, factorisation)
