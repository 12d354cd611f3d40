"""Messages about one candidate with Laplace noise: the published channel with pure privacy, on floats and on a grid."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.distribution.channels import exact_privacy, level_channel
from hockeystick.learners.distribution.channels.level_channel import LevelChannel, Losses
from hockeystick.learners.distribution.channels.messages import (
    Messages,
    Payload,
    check_sampled,
    laplace_draw,
    sampled_index,
)
from hockeystick.learners.distribution.channels.sampled_candidate import SampledChannel
from hockeystick.mechanisms import DiscreteLaplace, Laplace
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise

FARTHEST = 64.0
"""In scales of Laplace noise: messages beyond this distance plus half the span are clipped, about one in 10^27."""


@frozen
class PrintedLosses:
    """The published losses of a message, c (c' + top - v - L), which lie in [0, 1] except for rare large noise.

    Attributes:
        shift: c' = b (gamma + ln K + ln T).
        factor: c = 1/(span + 2 c').
        half: Half of the span, the difference between the centred losses and those measured from the top.
    """

    shift: float
    factor: float
    half: float

    @classmethod
    def of(cls, channel: LevelChannel, scale: float, gamma: float | None) -> PrintedLosses:
        log_rounds = math.log(channel.levels.horizon)
        tail = log_rounds if gamma is None else real("gamma", gamma, low=0.0, low_open=True)
        shift = scale * (tail + math.log(channel.count) + log_rounds)
        return cls(shift, 1.0 / (channel.span + 2.0 * shift), channel.span / 2.0)

    def __call__(self, losses: FloatArray) -> FloatArray:
        return np.asarray(self.factor * (self.shift + self.half + losses))


@frozen(eq=False, slots=False)
class SampledLaplace(SampledChannel):
    """One centred loss of a uniformly drawn candidate, with Laplace noise: each message is ε-DP.

    This is Algorithm 2 of Sima, Wu, Milenkovic & Szpankowski 2024 up to a public affine map of the message
    (``shifted``), with the span of the levels instead of the published ln(K T), which is too small for the published
    blocks. A release rounds to a grid of about 2^-16 of the span and draws discrete noise of a slightly larger scale,
    so that the same event covers it.

    Args:
        levels: The levels of the candidates.
        epsilon: > 0, for each message. The scale is span/ε, rounded up.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.distribution import LabelTable, SampledLaplace, UniformMixture
        >>> levels = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
        >>> channel = SampledLaplace(levels, epsilon=2.0)
        >>> round(channel.scale * 2.0 / channel.span, 6), round(channel.exact_epsilon(), 6)
        (1.0, 2.0)
    """

    epsilon: float = field(converter=level_channel.epsilon, kw_only=True)

    @cached_property
    def scale(self) -> float:
        """The scale b: the density of the noise is e^(-abs(x)/b)/(2b)."""
        return Laplace.calibrated(epsilon=self.epsilon, sensitivity=self.span).scale

    @property
    def payload(self) -> Payload:
        return "real"

    @property
    def limit(self) -> float:
        return self.span / 2 + FARTHEST * self.scale

    def inner_event(self) -> accounting.PrivacyEvent:
        """Returns ``Laplace(b/span)``; the index does not depend on the label and costs nothing."""
        return Laplace(self.scale, sensitivity=self.span).event()

    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        return check_sampled(messages, self.count), array("messages.value", messages.value)

    def shifted(self, messages: Messages, *, gamma: float | None = None) -> tuple[npt.NDArray[np.integer], FloatArray]:
        """Returns indices and the published losses, of the same shape; ``gamma`` > 0 is ln T by default.

        Raises:
            InvalidArgumentError: messages of another channel, or an invalid gamma.
        """
        index = check_sampled(messages, self.count)
        return index, PrintedLosses.of(self, self.scale, gamma)(array("messages.value", messages.value))

    def exact_epsilon(self) -> float:
        mixture, scale = self._oracle_mixture(), self.scale
        return max(exact_privacy.laplace_epsilon(column, scale=scale, mixture=mixture) for column in self._rows.T)

    def _log_densities(self, messages: Messages, rows: FloatArray) -> FloatArray:
        index = check_sampled(messages, self.count)
        return np.asarray(-np.abs(array("messages.value", messages.value)[:, None] - rows.T[index]) / self.scale)

    def _simulate(self, losses: Losses, rng: np.random.Generator, index: IntArray | None) -> Messages:
        chosen = rng.integers(0, self.count, size=len(losses)) if index is None else index
        value = rng.laplace(scale=self.scale, size=len(losses))
        value += losses.pick(chosen)
        return Messages(chosen, value)

    def _release(self, losses: Losses, noise: Noise, index: IntArray | None) -> Messages:
        drawn, _, _ = sampled_index(noise, self.count, len(losses))
        chosen = drawn if index is None else index
        return Messages(chosen, released(losses.pick(chosen), self.scale, self.span, self.limit, noise))

    def _message_value(self, column: int, chosen: int, rest: int, noise: Noise | None) -> float:
        step, scale = self._grid
        value = (self._steps.item(column, chosen) + laplace_draw(noise, scale)) * step
        return min(max(value, -self._farthest), self._farthest)

    @cached_property
    def _grid(self) -> tuple[float, float]:
        return grid(self.scale, self.span)

    @cached_property
    def _steps(self) -> IntArray:
        return noise_on_a_grid.steps(self._rows, self._grid[0])

    @cached_property
    def _farthest(self) -> float:
        return self.limit


def grid(scale: float, sensitivity: float) -> tuple[float, float]:
    """Returns the step of a grid, and the scale in steps of noise that the event of real noise of ``scale`` covers."""
    step = noise_on_a_grid.laplace_grid(scale, sensitivity, 1)
    return step, noise_on_a_grid.laplace_scale(scale, sensitivity, step, 1)


def released(values: FloatArray, scale: float, sensitivity: float, limit: float, noise: Noise) -> FloatArray:
    """Returns numbers on a grid with discrete Laplace noise, each covered by the event of real noise of ``scale``."""
    step, steps = grid(scale, sensitivity)
    drawn = noise.laplace(steps, values.size).reshape(values.shape)
    return np.clip(noise_on_a_grid.values(noise_on_a_grid.steps(values, step) + drawn, step), -limit, limit)


def _steps(value: object) -> int:
    return integer("steps", value, low=1, high=2**20)


@frozen(eq=False, slots=False)
class SampledDiscreteLaplace(SampledChannel):
    """One centred loss of a uniformly drawn candidate on a public grid, with discrete Laplace noise.

    A message contains no float. The grid has ``steps`` steps and starts at the least loss, so two losses are at most
    ``steps`` apart; rounded losses are clamped to it. Rounding is random, up or down with probabilities that keep the
    mean, so losses are unbiased; rounding down would shift the losses of different candidates by different amounts, up
    to a step in every round. Random rounding is a mixture of neighbouring inputs and costs nothing.

    Args:
        levels: The levels of the candidates.
        epsilon: > 0, for each message.
        steps: The number of steps of the grid; the variance of rounding is at most a quarter of a squared step.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.distribution import LabelTable, SampledDiscreteLaplace, UniformMixture
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> levels = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
        >>> channel = SampledDiscreteLaplace(levels, epsilon=2.0, steps=16)
        >>> type(channel.privatise(1, noise=SimulationNoise(1)).value), round(channel.exact_epsilon(), 6)
        (<class 'int'>, 2.0)
    """

    epsilon: float = field(converter=level_channel.epsilon, kw_only=True)
    steps: int = field(default=256, converter=_steps, kw_only=True)

    @cached_property
    def scale(self) -> float:
        """The scale t, in steps: P(k) is proportional to e^(-abs(k)/t)."""
        return DiscreteLaplace.calibrated(epsilon=self.epsilon, sensitivity=self.steps).scale

    @property
    def payload(self) -> Payload:
        return "whole"

    @property
    def limit(self) -> float:
        return self.steps + math.ceil(FARTHEST * self.scale)

    def inner_event(self) -> accounting.PrivacyEvent:
        """Returns ``DiscreteLaplace(t, distance=steps)``, with the exact profile of the worst change."""
        return DiscreteLaplace(self.scale, sensitivity=self.steps).event()

    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        values = array("messages.value", messages.value)
        return check_sampled(messages, self.count), np.asarray(values * (self.span / self.steps) - self.span / 2)

    def exact_epsilon(self) -> float:
        """Returns the exact ε, also of released messages, whose clipping at ``limit`` can only lower it."""
        low, high, share = self._rounded(self._rows)
        outer = self._oracle_mixture()
        worst = 0.0
        for j in range(self.count):
            grid, place = np.unique(np.concatenate([low[:, j], high[:, j]]), return_inverse=True)
            rounding, rows = np.zeros((len(low), len(grid))), np.arange(len(low))
            np.add.at(rounding, (rows, place[: len(low)]), 1.0 - share[:, j])
            np.add.at(rounding, (rows, place[len(low) :]), share[:, j])
            mixture = rounding if outer is None else outer @ rounding
            worst = max(worst, exact_privacy.discrete_laplace_epsilon(grid, scale=self.scale, mixture=mixture))
        return worst

    def _rounded(self, losses: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """The two steps around each loss, and the probability of the upper one."""
        place = np.clip((losses + self.span / 2) / self.span * self.steps, 0.0, float(self.steps))
        low = np.floor(place)
        return low.astype(np.int64), np.minimum(low + 1.0, self.steps).astype(np.int64), np.asarray(place - low)

    def _log_densities(self, messages: Messages, rows: FloatArray) -> FloatArray:
        index, (low, high, share) = check_sampled(messages, self.count), self._rounded(rows)
        values = array("messages.value", messages.value)[:, None]
        with np.errstate(divide="ignore"):
            lower = np.log1p(-share.T[index]) - np.abs(values - low.T[index]) / self.scale
            upper = np.log(share.T[index]) - np.abs(values - high.T[index]) / self.scale
        return np.asarray(np.logaddexp(lower, upper))

    def _simulate(self, losses: Losses, rng: np.random.Generator, index: IntArray | None) -> Messages:
        size = len(losses)
        chosen = rng.integers(0, self.count, size=size) if index is None else index
        low, high, share = self._rounded(losses.pick(chosen))
        chance = -math.expm1(-1.0 / self.scale)
        drawn = rng.geometric(chance, size) - rng.geometric(chance, size)
        return Messages(chosen, np.where(rng.random(size) < share, high, low) + drawn)

    def _release(self, losses: Losses, noise: Noise, index: IntArray | None) -> Messages:
        drawn_index, rest, bits = sampled_index(noise, self.count, len(losses))
        chosen = drawn_index if index is None else index
        low, high, share = self._rounded(losses.pick(chosen))
        rounded = np.where(rest < _threshold(share, bits), high, low)
        limit = int(self.limit)
        return Messages(chosen, np.clip(rounded + noise.laplace(self.scale, len(losses)), -limit, limit))

    def _message_value(self, column: int, chosen: int, rest: int, noise: Noise | None) -> int:
        low, high, threshold = self._rounding
        rounded = high if rest < threshold.item(column, chosen) else low
        value, limit = rounded.item(column, chosen) + laplace_draw(noise, self.scale), self._farthest
        return min(max(value, -limit), limit)

    @cached_property
    def _rounding(self) -> tuple[IntArray, IntArray, IntArray]:
        low, high, share = self._rounded(self._rows)
        return low, high, _threshold(share, self._bits)

    @cached_property
    def _farthest(self) -> int:
        return int(self.limit)


def _threshold(share: FloatArray, bits: int) -> IntArray:
    return np.asarray((share * 2.0**bits).astype(np.int64))
