"""One bit about one candidate: randomised response about the level of a uniformly drawn candidate."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.learners.distribution.channels import exact_privacy, level_channel
from hockeystick.learners.distribution.channels.level_channel import Losses
from hockeystick.learners.distribution.channels.messages import (
    Messages,
    Payload,
    check_sampled,
    sampled_index,
    word_bits,
)
from hockeystick.learners.distribution.channels.sampled_candidate import SampledChannel
from hockeystick.mechanisms.local.randomized_response import lie_probability
from hockeystick.mechanisms.randomness.noise import Noise


@frozen(eq=False, slots=False)
class OneBit(SampledChannel):
    """One bit and a public index: each message is ε-DP. This is the recommended channel.

    The bit is 1 with probability 1/2 + (u/span) tanh(ε/2), where u is the centred loss of the candidate; that is
    between 1/(1 + e^ε) and e^ε/(1 + e^ε). A bit decodes to +reach or -reach, with mean u.

    A device compares a uniform integer with a threshold. Thresholds are rounded towards 1/2 and stay in the range that
    ε allows, which is computed in exact arithmetic, so rounding cannot increase the privacy loss.

    Args:
        levels: The levels of the candidates.
        epsilon: > 0, for each message.

    Raises:
        InvalidArgumentError: an argument outside its domain, or an ε so small that ``reach`` is infinite.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.distribution import LabelTable, OneBit, UniformMixture
        >>> channel = OneBit(UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100), epsilon=1.0)
        >>> index, losses = channel.decode(channel.simulate(np.zeros(10_000, int), np.random.default_rng(1)))
        >>> [round(float(losses[index == j].mean()), 1) for j in (0, 1)]  # label 0 favours candidate 0
        [-1.1, 1.1]
        >>> round(channel.exact_epsilon(), 6)
        1.0
    """

    epsilon: float = field(converter=level_channel.epsilon, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self._room > 0 or math.isinf(self.reach):
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the bits pure noise", "use a larger one")

    @property
    def reach(self) -> float:
        """B = (span/2) coth(ε/2): the absolute value of a decoded bit."""
        return self.span / 2 / math.tanh(self.epsilon / 2)

    @property
    def payload(self) -> Payload:
        return "bit"

    @property
    def limit(self) -> float:
        return 1.0

    def inner_event(self) -> accounting.PrivacyEvent:
        """Returns ``RandomizedResponse(epsilon)``, attained by two labels with levels a span apart."""
        return accounting.RandomizedResponse(self.epsilon)

    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        index = check_sampled(messages, self.count)
        bits = messages.value
        if bits.dtype.kind not in "iub" or (bits.size and not ((bits == 0) | (bits == 1)).all()):
            raise InvalidArgumentError("messages", messages, "do not hold bits", "use messages of this channel")
        return index, np.array([-self.reach, self.reach])[bits.astype(np.intp, copy=False)]

    def exact_epsilon(self) -> float:
        """Returns the exact ε of released messages, by exact arithmetic on devices' thresholds, rounded up."""
        outer = self._oracle_mixture()
        mixture = None if outer is None else [[Fraction(float(w)) for w in label] for label in outer]
        if mixture is not None:
            mixture = [[w / sum(label) for w in label] for label in mixture]
        worst = Fraction(1)
        for column in self.probabilities():
            worst = max(worst, exact_privacy.bit_ratio(column, mixture=mixture))
        return exact_privacy.log_ratio(worst)

    def probabilities(self) -> list[list[Fraction]]:
        """Returns exact probabilities of a released 1, for each candidate and column; last for a value without label.

        Raises:
            InvalidArgumentError: labels without a table.
        """
        whole = 1 << word_bits(self.count)
        return [[Fraction(t, whole) for t in column] for column in self._thresholds.T.tolist()]

    def _message_value(self, column: int, chosen: int, rest: int, noise: Noise | None) -> int:
        return int(rest < self._thresholds.item(column, chosen))

    @cached_property
    def _room(self) -> int:
        """The largest distance of a threshold from the middle, in units of 2^-bits: exact, rounded down."""
        return int((Fraction(1, 2) - lie_probability(self.epsilon, 2)) * 2**self._bits // 1)

    @cached_property
    def _thresholds(self) -> IntArray:
        """Thresholds of the columns of the table, and last of values that are not labels: shape (U + 1, K)."""
        return self._threshold(self._rows)

    @cached_property
    def _chances(self) -> FloatArray:
        return self._chance(self._rows)

    def _threshold(self, losses: FloatArray) -> IntArray:
        tilt = losses / self.span * math.tanh(self.epsilon / 2)  # within 1/2 of 0 up to rounding
        towards_half = np.trunc(tilt * 2.0**self._bits)
        room = np.clip(towards_half, -self._room, self._room).astype(np.int64)
        return np.asarray(room + (1 << (self._bits - 1)))

    def _chance(self, losses: FloatArray) -> FloatArray:
        return np.asarray(0.5 + losses / self.span * math.tanh(self.epsilon / 2))

    def _log_densities(self, messages: Messages, rows: FloatArray) -> FloatArray:
        index, chance = check_sampled(messages, self.count), self._chance(rows)
        bits = messages.value.astype(np.bool_)[:, None]
        return np.asarray(np.log(np.where(bits, chance.T[index], 1.0 - chance.T[index])))

    def _simulate(self, losses: Losses, rng: np.random.Generator, index: IntArray | None) -> Messages:
        chosen = rng.integers(0, self.count, size=len(losses)) if index is None else index
        tabulated = losses.values is None
        chance = losses.pick(chosen, self._chances) if tabulated else self._chance(losses.pick(chosen))
        return Messages(chosen, (rng.random(len(losses)) < chance).view(np.int8))

    def _release(self, losses: Losses, noise: Noise, index: IntArray | None) -> Messages:
        drawn, rest, _ = sampled_index(noise, self.count, len(losses))
        chosen = drawn if index is None else index
        tabulated = losses.values is None
        found = losses.pick(chosen, self._thresholds) if tabulated else self._threshold(losses.pick(chosen))
        return Messages(chosen, (rest < found).view(np.int8))
