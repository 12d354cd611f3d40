"""Prefix sums of a stream of unknown length, by a binary tree for every doubling.

Chan, Shi & Song 2011 (the hybrid mechanism). Epoch k = 0, 1, … has the steps 2^k, …, 2^(k+1) − 1, counted from 1, and a
tree of its own with k + 1 heights. Its last answer, the sum of the whole epoch, stays in all later ones.

*Cost.* A record lies in one epoch, and there in at most k + 1 blocks. The noise of epoch k has the scale of the first
one, times √(k + 1) if it is Gaussian and times k + 1 if it is Laplace noise. So every epoch costs at most one Gaussian,
or one Laplace, of the first scale: k + 1 Gaussians add up exactly, and Laplace noise that moves in several entries is
covered by one that moves in a single entry by the sum of the moves. The epochs are in parallel, so that is the cost of
the whole stream, however long it becomes. Several records that move together cost no more than all of them in one step.

*Noise.* At every step the largest standard deviation so far is at most √1.5 times that of one tree for the steps up to
there, at the same cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import ArrayLike

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.step_mechanism import RunningSteps, StepMechanism
from hockeystick.mechanisms.streams.tree_aggregation import Law, TreeAggregation, TreeStream, _law
from hockeystick.mechanisms.streams.tree_blocks import Estimate

_MOST_STEPS = 2**30 - 1  # thirty epochs


def _steps(value: int) -> int:
    return validate.integer("steps", value, low=1, high=_MOST_STEPS)


def _estimate(value: Estimate) -> Estimate:
    found: Estimate = validate.one_of("estimate", value, "plain", "below")
    return found


@frozen
class HybridTree(StepMechanism):
    """All prefix sums of a stream whose number of steps is not known, at the cost of a single noisy number.

    A value has shape (n, ...) for any n up to ``steps``, and so has an output: its entry t estimates the sum of the
    contributions 0 … t.

    Source: Chan, Shi & Song 2011 (the hybrid mechanism).

    Args:
      scale: the scale of the noise of the first step, in the units of the output: the standard deviation of Gaussian
        noise, or b for Laplace noise. That of later blocks follows from it; see the module.
      law: "gaussian" or "laplace".
      sensitivity: the largest distance by which one record changes the contribution of one step: L2 for Gaussian, L1
        for Laplace noise. A record contributes to one step.
      estimate: "plain", or "below" with less variance at the same cost; see ``TreeAggregation``.
      steps: the largest number of steps, which changes nothing else.

    Raises:
      InvalidArgumentError: a parameter is outside its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import HybridTree
      >>> tree = HybridTree.calibrated(epsilon=1.0, delta=1e-6)
      >>> tree.simulate(np.full(8, 100.0), np.random.default_rng(1), runs=1)[0].round()
      array([101., 206., 299., 405., 504., 600., 702., 806.])
      >>> np.sqrt(tree.variances(8)).round(1)
      array([ 4.2,  7.3,  6.5,  9.8,  8.8, 11.4,  8.5, 12. ])
    """

    scale: float = field(converter=arguments.noise_scale)
    law: Law = field(default="gaussian", converter=_law, kw_only=True)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    estimate: Estimate = field(default="below", converter=_estimate, kw_only=True)
    steps: int = field(default=_MOST_STEPS, converter=_steps, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is not a valid noise multiplier
        self.tree(self.steps.bit_length() - 1)  # and so does the last epoch

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        delta: float | None = None,
        sensitivity: float = 1.0,
        estimate: Estimate = "below",
        steps: int = _MOST_STEPS,
    ) -> HybridTree:
        """Returns the mechanism with the least noise that meets a target, with Laplace noise if ``delta`` is None.

        Raises:
          InvalidArgumentError: ``epsilon`` is not positive and finite, ``delta`` not in (0, 1), or a parameter of the
            mechanism is outside its domain.
        """
        target, distance = arguments.target_epsilon(epsilon), arguments.sensitivity(sensitivity)
        law: Law = "laplace" if delta is None else "gaussian"
        allowed = 0.0 if delta is None else validate.probability("delta", delta, open=True)

        def build(scale: float) -> HybridTree:
            return cls(scale, law=law, sensitivity=distance, estimate=estimate, steps=steps)

        unit = 1.0 / target if delta is None else Gaussian.calibrated(epsilon=target, delta=allowed).sigma
        scale = unit * distance
        while accounting.delta(build(scale).event(), target).upper > allowed:  # its roundings are charged too
            scale *= 1 + 2.0**-46
        return build(scale)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record, whatever the number of steps: one ``Gaussian`` or ``Laplace`` event.

        It holds under any adjacency for which ``sensitivity`` bounds the change of a step, and under which all other
        records stay at their steps.
        """
        multiplier = arguments.quotient_down(self.scale, self.sensitivity)
        return (accounting.Gaussian if self.law == "gaussian" else accounting.Laplace)(multiplier)

    def tree(self, epoch: int) -> TreeAggregation:
        """Returns the tree of an epoch 0, 1, …, with 2^epoch steps.

        Raises:
          InvalidArgumentError: there is no such epoch.
        """
        k = validate.integer("epoch", epoch, low=0, high=self.steps.bit_length() - 1)
        return self._tree(k, 1 << k)

    def _tree(self, epoch: int, steps: int) -> TreeAggregation:
        """Returns the tree of the first steps of an epoch; blocks that end later do not change their sums."""
        return TreeAggregation(
            steps, self._scale_of(epoch), law=self.law, sensitivity=self.sensitivity, estimate=self.estimate
        )

    def _scale_of(self, epoch: int) -> float:
        times = math.sqrt(epoch + 1) if self.law == "gaussian" else epoch + 1
        # Rounded up: the factor exceeds the errors of the root and of two products.
        return self.scale * times * (1 + 2.0**-51)

    def _epochs(self, steps: int) -> Iterator[tuple[TreeAggregation, slice]]:
        """Yields the trees of the first steps, and where their contributions are."""
        for k in range(steps.bit_length()):
            first = (1 << k) - 1
            last = min(steps, first + (1 << k))
            yield self._tree(k, last - first), slice(first, last)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, n, ...), with real noise.

        Raises:
          InvalidArgumentError: the value is not numeric, not finite, empty or longer than ``steps``, ``runs`` is not an
            integer ≥ 1, or ``rng`` is not a generator.
        """
        given, source = self._values("value", value), arguments.generator(rng)
        found = np.empty((arguments.run_count(runs, given.size), *given.shape))
        before = np.zeros((len(found), 1, *given.shape[1:]))
        for tree, here in self._epochs(len(given)):
            found[:, here] = tree.simulate(given[here], source, runs) + before
            before = found[:, here.stop - 1 : here.stop]
        return found

    def variances(self, steps: int) -> FloatArray:
        """Returns the exact variances of the first answers, shape (steps,), in squared units of the output.

        Raises:
          InvalidArgumentError: there are no so many steps, or more than 2^26.
        """
        return self.variances_between(1, 1 + validate.integer("steps", steps, low=1, high=self.steps))

    def variances_between(self, first: int, stop: int) -> FloatArray:
        """Returns the variances of the sums of the first ``first`` … ``stop`` - 1 contributions; that of none is 0."""
        with np.errstate(over="ignore"):  # squares of scales above 1e154 are infinite
            return np.asarray(np.square(np.float64(self.scale)) * self.unit_variances_between(first, stop))

    def unit_variances_between(self, first: int, stop: int, *, entries: int | None = None) -> FloatArray:
        """Returns the same for a scale of 1.

        Args:
          first, stop: numbers of contributions.
          entries: the number of entries of a contribution, for the noise of a release, which is a few millionths
            larger, as it pays for its grid; None for that of ``simulate``.
        """
        low = validate.integer("first", first, low=0, high=self.steps)
        high = validate.integer("stop", stop, low=low, high=self.steps + 1)
        arguments.array_length("stop", stop, 4 * (high - low))
        t = np.arange(low, high)
        epochs = np.frexp(t)[1] - 1  # exactly, as there are less than 2^53 steps; -1 where there is none
        inside = t + 1 - (1 << np.maximum(epochs, 0))
        units, own, before = _noises(self, entries)
        blocks = np.zeros(len(t))
        for h in range(min(len(own), stop.bit_length())):
            blocks += (inside >> h & 1) * own[h]
        return np.where(epochs < 0, 0.0, before[epochs] + units[epochs] * blocks)

    def largest_variances(self, entries: int | None = None) -> tuple[IntArray, FloatArray]:
        """Returns the numbers of steps at which the largest variance so far rises, and it from there, for a scale of 1.

        See ``unit_variances_between`` for the argument.

        Example:
          >>> HybridTree(1.0, steps=7).largest_variances()[0].tolist()
          [1, 2, 4, 6]
        """
        units, own, before = _noises(self, entries)
        steps: list[int] = []
        found: list[float] = []
        for k in range(len(own)):
            # In a tree, a number of steps of which all binary digits are ones has more noise than all smaller ones.
            for j in range(1, max(1, k) + 1):
                variance = float(before[k] + units[k] * own[:j].sum())
                if (not found or variance > found[-1]) and (1 << k) + (1 << j) - 2 <= self.steps:
                    steps.append((1 << k) + (1 << j) - 2)
                    found.append(variance)
        return np.array(steps), np.array(found)

    def rounding(self, entries: int, steps: int) -> float:
        """Returns the largest step of the grids to which a release of so many steps rounds contributions."""
        epochs = range(validate.integer("steps", steps, low=1, high=self.steps).bit_length())
        return max(self.tree(k).rounding(entries) for k in epochs)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns streams of ``steps`` numbers without and with a record, at the first step of the last whole epoch.

        Raises:
          InvalidArgumentError: there are too many steps for an array.
        """
        with_record = np.zeros(arguments.array_length("steps", self.steps))
        with_record[(1 << (self.steps + 1).bit_length() - 2) - 1] = self.sensitivity
        return np.zeros(self.steps), with_record

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, n, ...).

        Raises:
          UnsupportedEventError: as for ``TreeAggregation``.
          InvalidArgumentError: the shapes don't fit.
        """
        v0 = self._values("value0", value0)
        v1 = validate.array("value1", value1, shape=v0.shape, data=True)
        drawn = validate.array("output", output, shape=(None, *v0.shape), data=True)
        total, before = np.zeros(len(drawn)), np.zeros_like(drawn[:, :1])
        for tree, here in self._epochs(len(v0)):
            total += tree.log_likelihood_ratio(drawn[:, here] - before, v0[here], v1[here])
            before = drawn[:, here.stop - 1 : here.stop]
        return total

    def stream(
        self,
        shape: tuple[int, ...] = (),
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> HybridStream:
        """Returns a running release, which takes one contribution of ``shape`` at a time; see ``HybridStream``.

        The cost of the whole stream is recorded here, before anything is drawn. The arguments are those of ``release``.

        Raises:
          InvalidArgumentError: ``release`` refuses an argument.
        """
        source = check_noise(noise)
        found = self._running(arguments.zeros(shape).shape, source)
        return self._charged(lambda: found, source, ledger, name, reads)

    def _running(self, shape: tuple[int, ...], noise: Noise) -> HybridStream:
        first = self.tree(0)._running(shape, noise)
        return HybridStream(self, shape, noise, first._scale, first._step, first)

    @property
    def _length(self) -> int:
        return self.steps

    def _values(self, name: str, value: ArrayLike) -> FloatArray:
        given = validate.array(name, value, data=True)
        if not given.ndim or not given.size or len(given) > self.steps:
            raise InvalidDataError(
                name, given, f"does not have 1 to {self.steps} steps", "put the steps on the first axis"
            )
        return given

    def _draw(self, checked: FloatArray, noise: Noise) -> FloatArray:
        return self._running(checked.shape[1:], noise).extend(checked)


@lru_cache(maxsize=16)
def _noises(mechanism: HybridTree, entries: int | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The variances of a block's noise by epoch, of its estimate by height per unit of that, and of earlier epochs.

    The first and the last are for a scale of 1.
    """
    epochs = range(mechanism.steps.bit_length())
    own = np.array([1.0 if mechanism.estimate == "plain" else tree_blocks.weight(h) for h in epochs])
    gaussian = mechanism.law == "gaussian"
    units = np.array([k + 1.0 if gaussian else 2.0 * (k + 1.0) ** 2 for k in epochs])
    if entries is not None:
        units *= [(tree.released_scale(entries) / tree.scale) ** 2 for tree in map(mechanism.tree, epochs)]
    return units, own, np.append(0.0, np.cumsum(units * own))


@define
class HybridStream(RunningSteps[HybridTree]):
    """A running release of a ``HybridTree``: it takes one contribution after the other and returns prefix sums.

    It stores the tree of the current epoch and the noisy sum of the earlier ones. What it stores is as secret as the
    data. Continuing *twice* from one saved state publishes two draws of noise for the same block, which the recorded
    cost does not cover.

    Attributes:
      mechanism: the mechanism.
      shape: the shape of a contribution.
      done: the number of steps so far.

    Example:
      >>> from hockeystick.mechanisms import HybridTree, SimulationNoise
      >>> stream = HybridTree.calibrated(epsilon=1.0).stream(noise=SimulationNoise(1))
      >>> [round(stream.add(contribution)) for contribution in (100.0, 200.0, 100.0)], stream.done
      ([101, 311, 406], 3)
    """

    _tree: TreeStream = field(repr=False)
    _before: FloatArray = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._before = np.zeros(self.shape)

    def _extended(self, contributions: FloatArray) -> FloatArray:
        found, first = np.empty(contributions.shape), 0
        while first < len(found):
            left = self._tree.mechanism.steps - self._tree.done
            here = slice(first, min(len(found), first + left))
            found[here] = self._tree.extend(contributions[here]) + self._before
            self.done, first = self.done + here.stop - first, here.stop
            if self._tree.done == self._tree.mechanism.steps and self.done < self.mechanism.steps:
                self._before = found[first - 1].copy()
                self._tree = self.mechanism.tree(self._epoch)._running(self.shape, self._noise)
        return found

    @property
    def _epoch(self) -> int:
        """The epoch of the next step; of the last step, if there is none."""
        return min(self.done + 1, self.mechanism.steps).bit_length() - 1

    def _saved(self) -> dict[str, Any]:
        return {"tree": self._tree.state(), "before": self._before.tolist()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._before = validate.array("before", state["before"], shape=self.shape)
        self._tree = self.mechanism.tree(self._epoch).resume(state["tree"], self.shape, noise=self._noise)
        if self._tree.done != self.done + 1 - (1 << self._epoch):
            raise InvalidArgumentError("state", "...", "has a tree of another number of steps")
