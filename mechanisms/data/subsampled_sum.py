"""A noisy sum over a secret sample of the records: one step of private stochastic gradient descent.

Every release draws a fresh sample with the sampler of the event and does not publish it. Records are clipped one by
one, which guarantees the sensitivity.

*Release.* Each record's contribution, clipped to norm at most sensitivity, is rounded to a grid; sums are exact whole
numbers. Rounding moves an entry by half a step, so a record added to the sample or removed from it moves the sum by at
most sensitivity + √d·grid/2 in L2 (d·grid/2 in L1) for d entries, and a replaced one by twice that. Whole-number noise
of the scale that ``noise_on_a_grid`` gives for sensitivity + √d·grid (d·grid) is dominated at both distances by real
noise at sensitivity and 2·sensitivity. The sampling theorems only need an event that dominates the access.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike
from scipy import special

from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
    PrivacyEvent,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    validate,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.data.record_samplers import Sampler, SampleWithoutReplacement, TruncatedPoissonSample
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.numbers.laplace import Laplace
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable

_MOST_CENTRES = 1 << 14  # components of the mixture in a likelihood ratio


def _sampler(value: Sampler) -> Sampler:
    if not isinstance(value, Sampler):
        raise InvalidArgumentError("sampler", value, "is not a sampler", "use PoissonSample(0.01), for example")
    return value


def _mechanism(value: Gaussian | Laplace) -> Gaussian | Laplace:
    if not isinstance(value, (Gaussian, Laplace)):
        raise InvalidArgumentError("mechanism", value, "is neither Gaussian nor Laplace")
    return value


@frozen
class Subsampled(Releasable):
    """The noisy sum of the contributions of a secret sample of records.

    A value has shape (records, ...), one contribution per record; an output has the shape of a contribution.
    Contributions are clipped to the norm ``mechanism.sensitivity`` (L2 for Gaussian, L1 for Laplace noise).

    Args:
      sampler: ``PoissonSample``, ``SampleWithoutReplacement`` or ``TruncatedPoissonSample``.
      mechanism: the noise, ``Gaussian`` or ``Laplace``; its sensitivity bounds the norm of a contribution.
      adjacency: for Poisson samples add-or-remove-one (the default), or replace-with-null, where a null record
        contributes 0; for truncated ones add-or-remove-one; for samples of fixed size replace-one.

    Raises:
      InvalidArgumentError: ``sampler`` is not a sampler, or ``mechanism`` is neither Gaussian nor Laplace.
      UnsupportedAdjacencyError, UnsupportedEventError: there is no theorem for this sampler, noise and relation.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import epsilon
      >>> from hockeystick.mechanisms import Gaussian, PoissonSample, Subsampled
      >>> step = Subsampled(PoissonSample(0.1), Gaussian(1.0))
      >>> gradients = np.tile([0.6, 0.8], (100, 1))  # one row per record
      >>> step.simulate(gradients, np.random.default_rng(1), runs=3).round(1)
      array([[ 5.1,  5.6],
             [ 3.7,  5.8],
             [10.5, 13.8]])
      >>> round(float(epsilon(step.event(), 1e-6)), 2)
      2.18
    """

    sampler: Sampler = field(converter=_sampler)
    mechanism: Gaussian | Laplace = field(converter=_mechanism)
    adjacency: Adjacency = field(kw_only=True)

    @adjacency.default
    def _natural(self) -> Adjacency:
        fixed = isinstance(self.sampler, SampleWithoutReplacement)
        return Adjacency.REPLACE_ONE if fixed else Adjacency.ADD_OR_REMOVE_ONE

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses what has no theorem

    def event(self) -> PrivacyEvent:
        """Returns the cost for one record, under ``adjacency``: ``sampler.event`` of the noise's own event."""
        if isinstance(self.sampler, SampleWithoutReplacement):
            return self.sampler.event(self.mechanism.event().at(2), adjacency=self.adjacency)
        if self.adjacency is Adjacency.REPLACE_ONE:
            # The bound for Gaussian noise holds for normal laws, but not for all laws that they dominate.
            raise UnsupportedAdjacencyError(
                f"{type(self.sampler).__name__} with noise on a grid under replace-one: no bound is known; use "
                "SampleWithoutReplacement, or add-or-remove-one"
            )
        return self.sampler.event(self.mechanism.event(), adjacency=self.adjacency)

    def _relation(self) -> Adjacency:
        return self.adjacency

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, ...), a fresh sample and real noise in each.

        Raises:
          InvalidArgumentError: the value is not numeric, not finite, or of a number of records that does not fit
            the sampler; ``runs`` is not an integer ≥ 1, or ``rng`` is not a generator.
        """
        rows, shape = self._clipped("value", value)
        found = np.empty((arguments.run_count(runs, rows.shape[1]), rows.shape[1]))
        source = arguments.generator(rng)
        for block in arguments.blocks(len(found), len(rows) + rows.shape[1]):
            size = block.stop - block.start
            chosen = self.sampler.simulate(len(rows), source, size)
            found[block] = chosen.astype(float) @ rows + self.mechanism._noise(source, (size, rows.shape[1]))
        return found.reshape(len(found), *shape)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns records that contribute numbers, without and with the one that moves the sum most.

        For a Poisson sample it joins a record that contributes 0. For a sample of fixed size it moves from one end,
        where all others are, to the other end. For a truncated sample it joins others at the opposite end, because it
        may displace one of them.
        """
        reach = self.mechanism.sensitivity
        if isinstance(self.sampler, (SampleWithoutReplacement, TruncatedPoissonSample)):
            arguments.array_length("population", self.sampler.population)
        if isinstance(self.sampler, SampleWithoutReplacement):
            others = np.full(self.sampler.population - 1, -reach)
            return np.append(others, -reach), np.append(others, reach)
        if isinstance(self.sampler, TruncatedPoissonSample):
            others = np.full(self.sampler.population - 1, -reach)
            return others, np.append(others, reach)
        if self.adjacency is Adjacency.REPLACE_WITH_NULL:
            return np.array([0.0, 0.0]), np.array([0.0, reach])
        return np.array([0.0]), np.array([0.0, reach])

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, ...).

        The law is a mixture over all different sums of samples, which are enumerated; records with equal contributions
        are counted together.

        Raises:
          UnsupportedEventError: more than 16384 different sums.
          InvalidArgumentError: the shapes don't fit.
        """
        (rows0, shape), (rows1, other) = self._clipped("value0", value0), self._clipped("value1", value1)
        if shape != other:
            raise InvalidDataError("value1", other, f"does not have contributions of shape {shape}")
        drawn = validate.array("output", output, shape=(None, *shape), data=True)
        flat = drawn.reshape(len(drawn), rows0.shape[1])
        return self._log_density(flat, rows0) - self._log_density(flat, rows1)

    def _log_density(self, drawn: FloatArray, rows: FloatArray) -> FloatArray:
        """The log-density, up to a constant that all values share."""
        logs, centres = self._mixture(rows)
        found, scale = np.empty(len(drawn)), _scale(self.mechanism)
        for block in arguments.blocks(len(drawn), centres.size):
            z = (drawn[block, None, :] - centres) / scale
            exponents = np.abs(z).sum(axis=2) if isinstance(self.mechanism, Laplace) else (z**2).sum(axis=2) / 2
            found[block] = special.logsumexp(logs - exponents, axis=1)
        return found

    def _mixture(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The log-weights and the sums of all samples, with equal ones merged.

        All sets of one size are equally probable: of s records out of n, k₁, k₂, … are of each kind with probability
        C(n₁, k₁)·C(n₂, k₂)···/C(n, s). Records of one kind, the base, fill up the sample.
        """
        n, sizes = len(rows), self.sampler.log_sizes(len(rows))
        if not n:
            return np.zeros(1), np.zeros((1, rows.shape[1]))
        kinds, counts = np.unique(rows, axis=0, return_counts=True)
        possible = np.flatnonzero(sizes > -np.inf)
        depth = np.where(kinds.any(axis=1), len(possible), 1)  # with a base of zeros the size does not matter
        work = [math.prod(int(c) + 1 for c in np.delete(counts, b)) * int(depth[b]) for b in range(len(kinds))]
        base = int(np.argmin(np.array(work, dtype=float)))
        if work[base] > _MOST_CENTRES:
            raise UnsupportedEventError(f"the samples have more than {_MOST_CENTRES} different sums; use fewer records")
        others = np.delete(counts, base)
        members = np.array(list(itertools.product(*(range(int(c) + 1) for c in others))), dtype=float)
        total = members.sum(axis=1)
        filled = possible - total[:, None]  # how many of the base are in a sample of each size
        inside = (filled >= 0) & (filled <= counts[base])
        ways = _log_choose(counts[base], np.where(inside, filled, 0)) - _log_choose(n, possible)
        logs = np.where(inside, sizes[possible] + ways, -np.inf) + _log_choose(others, members).sum(axis=1)[:, None]
        sums = members @ np.delete(kinds, base, axis=0)
        if depth[base] == 1 and not kinds[base].any():
            return np.asarray(special.logsumexp(logs, axis=1)), sums
        nonzero = logs > -np.inf
        return logs[nonzero], (sums[:, None, :] + filled[:, :, None] * kinds[base])[nonzero]

    def _clipped(self, name: str, value: ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
        """The contributions, shape (records, entries), and the shape of one."""
        given = validate.array(name, value, data=True)
        if given.ndim == 0 or 0 in given.shape[1:]:
            raise InvalidDataError(name, given, "has no records", "give one row for each of them")
        shape = given.shape[1:]
        rows = given.reshape(len(given), math.prod(shape))
        self.sampler.check(len(rows))
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(rows, ord=1 if isinstance(self.mechanism, Laplace) else 2, axis=1)
        reach = self.mechanism.sensitivity
        return rows * np.where(norms > reach, reach / np.maximum(norms, reach), 1.0)[:, None], shape

    def _checked(self, value: ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
        rows, shape = self._clipped("value", value)
        step = self._step(rows.shape[1])
        if self.mechanism.sensitivity > 2.0**40 * step or rows.shape[1] > 2**24:
            # Beyond, rounding errors of norms would be visible on the grid.
            raise InvalidArgumentError("grid", step, "is below sensitivity/2^40", "use the default")
        return rows, shape

    def _step(self, width: int) -> float:
        return self.mechanism.grid or self.mechanism._default_grid(width)

    def _draw(self, checked: tuple[FloatArray, tuple[int, ...]], noise: Noise) -> Any:
        rows, shape = checked
        step, limit = self._step(rows.shape[1]), 2**61 // max(1, len(rows))  # clipped contributions are far below
        chosen = self.sampler.draw(len(rows), noise=noise)
        total = np.clip(noise_on_a_grid.steps(rows[chosen], step), -limit, limit).sum(axis=0)
        total += self.mechanism._whole_noise(noise, step, rows.shape[1])
        found = noise_on_a_grid.values(total, step).reshape(shape)
        return found if shape else float(found)


def _scale(mechanism: Gaussian | Laplace) -> float:
    return mechanism.sigma if isinstance(mechanism, Gaussian) else mechanism.scale


def _log_choose(n: Any, k: Any) -> FloatArray:
    return np.asarray(special.gammaln(n + 1.0) - special.gammaln(k + 1.0) - special.gammaln(n - k + 1.0))
