"""Prefix sums of a stream by noisy sums over a binary tree.

Dwork, Naor, Pitassi & Rothblum 2010; Chan, Shi & Song 2011. The T steps are covered by complete dyadic blocks: at
height h the blocks of 2^h steps that begin at multiples of 2^h and end by T. One contribution lies in at most ⌊log₂ T⌋
+ 1 of them. Noise is added once to the sum of every block. The first t steps are the disjoint union of as many blocks
as t has binary ones, so all prefix sums are computed from the same noisy blocks. There are three estimates, which cost
the same because they are post-processing:

* "plain": the sum of the noisy blocks. Only T blocks are used, one ending at each step t, whose size is the lowest
  binary one of t. The T answers and these T noisy sums determine each other.
* "below" (Honaker 2015): the sum of a block is replaced by the best linear estimate from all blocks inside it, which
  are known when it ends. At height h its variance is 2^h/(2^(h+1) − 1) of that of one block, in the limit a half. It
  can be streamed.
* "full" (Hay, Rastogi, Miklau & Suciu 2010): the least-squares fit to all noisy blocks, including later ones.

*Release.* Each contribution is rounded to a grid, and from there on sums are exact whole numbers, so that one record
moves each of its blocks by at most sensitivity + √entries·grid in L2 (entries·grid in L1). With the scale
that ``noise_on_a_grid`` gives for this, a block costs at most as much as real noise on real values. The same holds for
their composition, even if later contributions depend on earlier answers. If a record contributes k times, the at most
k·levels blocks that it moves count as one vector; each of its contributions moves as above.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from attrs import define, field, frozen
from numpy.typing import ArrayLike
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.events.noise.correlated_noise import (
    matrix_mechanism,
    tree_aggregation,
    tree_encoder,
    tree_levels,
)
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger
from hockeystick.mechanisms.streams import step_mechanism, tree_blocks
from hockeystick.mechanisms.streams.step_mechanism import RunningSteps, StepMechanism
from hockeystick.mechanisms.streams.tree_blocks import Estimate

Law = Literal["gaussian", "laplace"]

_PIECE = 1 << 18  # numbers of a running release that are added at a time


def _steps(value: int) -> int:
    return validate.integer("steps", value, low=1, high=2**30)


def _law(value: Law) -> Law:
    if value not in ("gaussian", "laplace"):
        raise InvalidArgumentError("law", value, "is unknown", "use 'gaussian' or 'laplace'")
    return value


def _estimate(value: Estimate) -> Estimate:
    if value not in ("plain", "below", "full"):
        raise InvalidArgumentError("estimate", value, "is unknown", "use 'plain', 'below' or 'full'")
    return value


@frozen
class TreeAggregation(StepMechanism):
    """Tree aggregation: all prefix sums of a stream of ``steps`` contributions, each a number or an array.

    A value has shape (steps, ...), and so has an output: its entry t estimates the sum of the contributions 0 … t.

    Args:
      steps: T, of any size.
      scale: the scale of each block's noise, in the units of the output: the standard deviation of Gaussian noise, or b
        for Laplace noise with density e^(−|z|/b) / 2b.
      law: "gaussian" or "laplace".
      sensitivity: the largest distance by which one record changes the contribution of one step: L2 for Gaussian, L1
        for Laplace noise.
      estimate: "plain", "below" or "full"; see the module.
      participations: the largest number of steps to which one record contributes.
      separation: the least distance of these steps.
      grid: the step of the grid that released contributions are rounded to, a power of two; by default fine enough that
        the noise grows by at most one part in 2^16. Contributions beyond 2^61/T steps are clipped.

    Raises:
      InvalidArgumentError: a parameter is outside its domain, or there are several participations in more than 8192
        steps.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import TreeAggregation
      >>> tree = TreeAggregation.calibrated(8, epsilon=1.0, delta=1e-6)
      >>> tree.simulate(np.full(8, 100.0), np.random.default_rng(1), runs=1)[0].round()
      array([103., 205., 308., 398., 506., 602., 698., 798.])
      >>> np.sqrt(tree.variances()).round(1)
      array([ 8.4,  6.9, 10.9,  6.4, 10.6,  9.4, 12.6,  6.2])
    """

    steps: int = field(converter=_steps)
    scale: float = field(converter=arguments.noise_scale)
    law: Law = field(default="gaussian", converter=_law, kw_only=True)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    estimate: Estimate = field(default="below", converter=_estimate, kw_only=True)
    participations: int = field(default=1, converter=step_mechanism.participations, kw_only=True)
    separation: int = field(default=1, converter=step_mechanism.separation, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is not a valid noise multiplier, and a matrix that is too large

    @classmethod
    def calibrated(
        cls,
        steps: int,
        *,
        epsilon: float,
        delta: float | None = None,
        sensitivity: float = 1.0,
        estimate: Estimate = "below",
        participations: int = 1,
        separation: int = 1,
    ) -> TreeAggregation:
        """Returns the mechanism with the least noise that meets a target, with Laplace noise if ``delta`` is None.

        Raises:
          InvalidArgumentError: ``epsilon`` is not positive and finite, ``delta`` not in (0, 1), or a parameter of the
            mechanism is outside its domain.
        """
        target = arguments.target_epsilon(epsilon)
        distance = arguments.sensitivity(sensitivity)
        law: Law = "laplace" if delta is None else "gaussian"

        def build(scale: float) -> TreeAggregation:
            return cls(
                steps,
                scale,
                law=law,
                sensitivity=distance,
                estimate=estimate,
                participations=participations,
                separation=separation,
            )

        unit = build(distance).event()
        if delta is None:
            scale, allowed = unit.pure_epsilon() / target * distance, 0.0
        else:
            allowed = validate.probability("delta", delta, open=True)
            scale = Gaussian.calibrated(epsilon=target, delta=allowed).sigma * math.sqrt(2 * unit.zcdp_rho()) * distance
        while accounting.delta(build(scale).event(), target).upper > allowed:  # its roundings are charged too
            scale *= 1 + 2.0**-46
        return build(scale)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record.

        For one participation ⌊log₂ steps⌋ + 1 events (``accounting.tree_aggregation``), otherwise one event at the
        sensitivity of the tree (``accounting.matrix_mechanism``). It holds under any adjacency for which
        ``sensitivity`` bounds the change of a step, and under which all other records stay at their steps.
        """
        multiplier = arguments.quotient_down(self.scale, self.sensitivity)
        if self._times == 1:
            return tree_aggregation(self.steps, noise_multiplier=multiplier, noise=self.law)
        return matrix_mechanism(
            tree_encoder(self.steps),
            noise_multiplier=multiplier,
            participations=self._times,
            separation=self.separation,
            noise=self.law,
        )

    @property
    def _times(self) -> int:
        return min(self.participations, -(-self.steps // self.separation))

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, steps, ...), with real noise.

        Raises:
          InvalidArgumentError: the value is not numeric, not finite or not of ``steps`` steps, ``runs`` is not an
            integer ≥ 1, or ``rng`` is not a generator.
        """
        given = self._values("value", value)
        source, sums = arguments.generator(rng), np.cumsum(given, axis=0)
        found = np.empty((arguments.run_count(runs, given.size), *given.shape))
        rows, width = found.reshape(len(found), self.steps, -1), given[0].size
        for block in arguments.blocks(len(found), 2 * self.steps * width):
            size = block.stop - block.start
            draw = source.standard_normal if self.law == "gaussian" else source.laplace
            drawn = [draw(size=(size, count, width)) for count in tree_blocks.counts(self.steps)]
            rows[block] = tree_blocks.prefixes(tree_blocks.improved(drawn, self.estimate), self.steps)
        found *= self.scale
        found += sums
        return found

    def variances(self) -> FloatArray:
        """Returns the exact variance of each entry of the T answers, shape (steps,), in squared units of the output.

        Raises:
          InvalidArgumentError: there are more than 2^26 steps.
        """
        return tree_blocks.variances(self.steps, self.estimate) * self._noise_variance

    @property
    def _noise_variance(self) -> float:
        return self.scale**2 * (1.0 if self.law == "gaussian" else 2.0)

    def accuracy(self, beta: float, *, entries: int = 1) -> float:
        """Returns a t such that with probability at least 1 − ``beta`` all answers are off by at most t in every entry.

        For Gaussian noise by Šidák's inequality (1967), for Laplace noise by Chernoff's bound and the union over all
        answers. In a release the rounding comes on top, at most half a step of the grid per contribution.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``entries`` is not an integer ≥ 1, or there are more than
            2^26 steps.
        """
        count = validate.integer("entries", entries, low=1)
        spreads, repeated = tree_blocks.variance_counts(self.steps, self.estimate)
        return self.scale * largest_error(self.law, beta, spreads, np.asarray(repeated * float(count)))

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns streams of numbers without and with a record, at step 0 and the earliest further steps."""
        with_record = np.zeros(arguments.array_length("steps", self.steps))
        with_record[: self._times * self.separation : self.separation] = self.sensitivity
        return np.zeros(self.steps), with_record

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, steps, ...).

        Raises:
          UnsupportedEventError: Laplace noise with an estimate other than "plain", whose joint law has no closed form;
            or "below" in more than 2048 steps.
          InvalidArgumentError: the shapes don't fit.
        """
        v0 = self._values("value0", value0)
        v1 = validate.array("value1", value1, shape=v0.shape, data=True)
        drawn = validate.array("output", output, shape=(None, *v0.shape), data=True).reshape(-1, self.steps, v0[0].size)
        p0, p1 = (np.cumsum(v.reshape(self.steps, -1), axis=0)[None] for v in (v0, v1))
        if self.estimate == "plain":
            y, m0, m1 = (tree_blocks.last_blocks(p) / self.scale for p in (drawn, p0, p1))
            if self.law == "laplace":
                return np.asarray((np.abs(y - m1) - np.abs(y - m0)).sum(axis=(1, 2)))
            return np.asarray(((y - (m0 + m1) / 2) * (m0 - m1)).sum(axis=(1, 2)))
        if self.law == "laplace":
            raise UnsupportedEventError('estimates from Laplace noise have no closed density; use estimate="plain"')
        error, shift = (drawn - (p0 + p1) / 2) / self.scale, (p0 - p1) / self.scale
        if self.estimate == "below":
            return np.asarray(np.einsum("rtd,td->r", error, tree_blocks.precision_times(self.steps, shift[0])))
        # The least-squares estimate is sufficient: its precision is that of all blocks, Σ of products of block sums.
        total = np.zeros(len(drawn))
        for e, s in zip(tree_blocks.block_sums(error), tree_blocks.block_sums(shift), strict=True):
            total += (e * s).sum(axis=(1, 2))
        return total

    def stream(
        self,
        shape: tuple[int, ...] = (),
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> TreeStream:
        """Returns a running release, which takes one contribution of ``shape`` at a time; see ``TreeStream``.

        The cost of the whole stream is recorded here, before anything is drawn. The arguments are those of ``release``.

        Raises:
          InvalidArgumentError: the estimate is "full", which needs all steps, or ``release`` refuses an argument.
        """
        source = check_noise(noise)
        found = self._running(arguments.zeros(shape).shape, source)
        return self._charged(lambda: found, source, ledger, name, reads)

    def _running(self, shape: tuple[int, ...], noise: Noise) -> TreeStream:
        if self.estimate == "full":
            raise InvalidArgumentError("estimate", self.estimate, "needs all steps at once", 'use "below"')
        return TreeStream(self, shape, noise, *self._on_grid(self._moved_entries(math.prod(shape))))

    @property
    def _length(self) -> int:
        return self.steps

    def _draw(self, checked: FloatArray, noise: Noise) -> FloatArray:
        if self.estimate != "full":
            return self._running(checked.shape[1:], noise).extend(checked)
        width = checked[0].size
        scale, step = self._on_grid(self._moved_entries(width))
        noisy = tree_blocks.blocks(self._whole(checked.reshape(self.steps, width), step))
        for sums in noisy:
            sums += self._noise(noise, scale, sums.size).reshape(sums.shape)
        found = [noise_on_a_grid.values(sums, step)[None] for sums in noisy]
        return np.asarray(
            tree_blocks.prefixes(tree_blocks.improved(found, self.estimate), self.steps)[0].reshape(checked.shape)
        )

    def rounding(self, entries: int) -> float:
        """Returns the step of the grid to which a release rounds contributions of so many entries."""
        return self._on_grid(self._moved_entries(validate.integer("entries", entries, low=1)))[1]

    def released_scale(self, entries: int) -> float:
        """Returns the scale of a release's noise on contributions of so many entries, in units of the output.

        It is a few millionths above ``scale``, which pays for the grid.
        """
        scale, step = self._on_grid(self._moved_entries(validate.integer("entries", entries, low=1)))
        return scale * step

    def _moved_entries(self, width: int) -> int:
        """The number of noisy numbers that one record moves."""
        return max(1, width) * tree_levels(self.steps) * self._times

    def _on_grid(self, entries: int) -> tuple[float, float]:
        """The scale of the noise in steps of the grid, and the step."""
        if self.law == "gaussian":
            step = self.grid or noise_on_a_grid.gaussian_grid(self.scale, self.sensitivity, entries)
            return noise_on_a_grid.gaussian_scale(self.scale, self.sensitivity, step, entries), step
        step = self.grid or noise_on_a_grid.laplace_grid(self.scale, self.sensitivity, entries)
        return noise_on_a_grid.laplace_scale(self.scale, self.sensitivity, step, entries), step

    def _whole(self, contribution: FloatArray, step: float) -> IntArray:
        limit = 2**61 // self.steps  # so that no sum overflows; clipping is a contraction
        return np.clip(noise_on_a_grid.steps(contribution, step), -limit, limit)

    def _noise(self, noise: Noise, scale: float, count: int) -> IntArray:
        return noise.gaussian(scale, count) if self.law == "gaussian" else noise.laplace(scale, count)


@define
class TreeStream(RunningSteps[TreeAggregation]):
    """A running release of a ``TreeAggregation``: it takes one contribution after the other and returns prefix sums.

    It stores one exact and one noisy sum for every binary digit of the steps so far. The exact ones are as secret as
    the data. It can be pickled and continued later; continuing *twice* from one copy publishes two draws of noise for
    the same block, which the recorded cost does not cover.

    Attributes:
      mechanism: the mechanism.
      shape: the shape of a contribution.
      done: the number of steps so far.

    Example:
      >>> from hockeystick.mechanisms import SimulationNoise, TreeAggregation
      >>> stream = TreeAggregation.calibrated(8, epsilon=1.0).stream(noise=SimulationNoise(1))
      >>> [round(stream.add(contribution)) for contribution in (100.0, 200.0, 100.0)], stream.done
      ([103, 304, 404], 3)
    """

    # By height: the blocks that make up the steps so far.
    _sums: dict[int, IntArray] = field(factory=dict, init=False, repr=False)
    _noisy: dict[int, FloatArray] = field(factory=dict, init=False, repr=False)

    def _extended(self, contributions: FloatArray) -> FloatArray:
        found, first = np.empty(contributions.shape), 0
        longest = 1 << max(0, (_PIECE // max(1, math.prod(self.shape))).bit_length() - 1)
        while first < len(found):
            # The pieces are blocks of the tree: as long as divides the steps so far.
            size = min(longest, 1 << (len(found) - first).bit_length() - 1, self.done & -self.done or longest)
            leaves = self.mechanism._whole(contributions[first : first + size], self._step)
            found[first : first + size] = self._block(leaves.reshape(size, -1)).reshape(size, *self.shape)
            first += size
        return found

    def _block(self, leaves: IntArray) -> FloatArray:
        """Adds the contributions of one block of the tree, whose larger blocks end with it or later."""
        steps, width = leaves.shape
        top, end = steps.bit_length() - 1, self.done + steps
        highest, below = (end & -end).bit_length() - 1, self.mechanism.estimate == "below"
        count = 2 * steps - 1 + highest - top if below else steps  # without improvement, one noisy sum a step
        noise = self.mechanism._noise(self._noise, self._scale, count * width).reshape(count, width)
        inside, noisy = tree_blocks.blocks(leaves), []
        for h, sums in enumerate(inside):
            if below:
                drawn = sums + noise[tree_blocks.closing_order(h, len(sums))]
            else:
                drawn = np.zeros_like(sums)  # every other block is used, and the last one only if no larger one ends
                drawn[::2] = sums[::2] + noise[(1 << h) - 1 :: 2 << h]
            noisy.append(noise_on_a_grid.values(drawn, self._step)[None])
        estimates = tree_blocks.improved(noisy, self.mechanism.estimate)
        found = tree_blocks.prefixes(estimates, steps, sum(self._noisy.values(), start=np.zeros(width)))[0]
        total, estimate = inside[top][0], estimates[top][0, 0]
        for h in range(top + 1, highest + 1):
            total, beside = total + self._sums.pop(h - 1), self._noisy.pop(h - 1)
            own = noise_on_a_grid.values(total + noise[h - highest - 1 if below else -1], self._step)
            weight = tree_blocks.weight(h)
            estimate = weight * own + (1 - weight) * (estimate + beside) if below else own
        self._sums[highest], self._noisy[highest] = total, estimate
        self.done = end
        found[-1] = sum(self._noisy.values(), start=np.zeros(width))
        return np.asarray(found)

    def _saved(self) -> dict[str, Any]:
        return {name: {str(h): x.tolist() for h, x in own.items()} for name, own in self._open()}

    def _restore(self, state: dict[str, Any]) -> None:
        heights = [h for h in reversed(range(self.done.bit_length())) if self.done >> h & 1]
        for name, own in self._open():
            dtype = np.int64 if name == "sums" else np.float64
            width = math.prod(self.shape)
            own |= {h: validate.array(name, state[name][str(h)], shape=(width,), dtype=dtype) for h in heights}

    def _open(self) -> tuple[tuple[str, dict[int, Any]], ...]:
        return ("sums", self._sums), ("noisy", self._noisy)


def largest_error(law: Law, beta: float, weights: FloatArray, counts: FloatArray) -> float:
    """Returns a number that no sum of noise exceeds in absolute value, with probability at least 1 − ``beta``.

    The sums are Σ c_i·N_i of independent noise of scale 1 with |c_i| at most max(1, its root), and may depend on each
    other: by Šidák's inequality for Gaussian noise, and by Chernoff's bound and the union over all for Laplace noise.

    Args:
      law: the law of the noise.
      beta: in (0, 1).
      weights: Σ c_i² of each kind of sum.
      counts: the number of sums of each kind.

    Raises:
      InvalidArgumentError: ``beta`` is not in (0, 1).
    """

    def log_kept(t: float) -> float:
        """A lower bound on ln P(none exceeds t)."""
        if law == "gaussian":
            return float(counts @ np.log1p(-2 * special.ndtr(-t / np.sqrt(weights))))
        missed = float(counts @ _laplace_tails(t, weights))
        return math.log1p(-missed) if missed < 1.0 else -math.inf

    return step_mechanism.least_bound(beta, log_kept)


def _laplace_tails(t: float, variances: FloatArray) -> FloatArray:
    """Bounds on P(|Σ c_i·L_i| > t), L_i of scale 1, given Σ c_i², so that |c_i| is at most max(1, its root).

    ln E e^(λΣ) = −Σ ln(1 − λ²c_i²) ≤ −(Σ c_i²/c²)·ln(1 − λ²c²) for c ≥ max |c_i|, as −ln(1 − x)/x increases.
    """
    c = np.maximum(1.0, np.sqrt(variances))
    m, tau = variances / c**2, max(t, sys.float_info.min) / c
    u = tau / (m + np.hypot(m, tau))  # the best λc
    return np.asarray(np.minimum(1.0, 2 * np.exp(-u * tau - m * np.log1p(-u * u))))
