"""A baseline that reports the label itself: k-ary randomised response, decoded to negative log-likelihoods."""

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
from hockeystick.accounting.validate import array
from hockeystick.learners.distribution.channels import exact_privacy, level_channel
from hockeystick.learners.distribution.channels.level_channel import flattened, table_of
from hockeystick.learners.distribution.channels.levels import Levels
from hockeystick.learners.distribution.channels.messages import (
    Channel,
    Message,
    Messages,
    Payload,
    sampled_index,
    uniform_word,
    word_bits,
)
from hockeystick.mechanisms import RandomizedResponse
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.local.randomized_response import lie_probability
from hockeystick.mechanisms.randomness.noise import Noise, check_noise


@frozen(eq=False, slots=False)
class RandomizedLabels(Channel):
    """The label by randomised response: ε-DP, and of little use for many labels.

    The true label has odds e^ε against each other one. The loss of a message y for candidate j is -ln of its
    probability, c P_j(y) + (1 - c)/M with c = (e^ε - 1)/(e^ε + M - 1): exponential weights at rate 1 are
    then the Bayes mixture. P_j are the predictions of the levels, smoothed by 1/T, which costs -T ln(1 - 1/T) of
    regret. A value that is not a label is replaced by a uniformly drawn label.

    Args:
        levels: Levels of a table of labels; only their predictions P_j are used, and not their range.
        epsilon: > 0, for each message.

    Raises:
        InvalidArgumentError: labels without a table, or an ε outside its domain or too small.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.distribution import LabelTable, RandomizedLabels, UniformMixture
        >>> levels = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
        >>> channel = RandomizedLabels(levels, epsilon=2.0)
        >>> messages = channel.simulate(np.zeros(10_000, int), np.random.default_rng(1))
        >>> round(float((messages.value == 0).mean()), 2)  # e^2/(e^2 + 1)
        0.88
    """

    levels: Levels = field()
    epsilon: float = field(converter=level_channel.epsilon, kw_only=True)

    def __attrs_post_init__(self) -> None:
        table_of(self.levels)
        # The device's coin is rounded towards more lies; its odds must still be valid in both directions.
        lie = Fraction(self._lie, 1 << self._bits)
        odds = (1 - lie) * (self.labels - 1) / lie
        if not (exact_privacy.at_most_exp(odds, self.epsilon) and exact_privacy.at_most_exp(1 / odds, self.epsilon)):
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the messages pure noise", "use a larger one")

    @property
    def labels(self) -> int:
        """The number of labels M."""
        return table_of(self.levels).labels

    @property
    def contrast(self) -> float:
        """The weight c of a candidate's law in the law of its messages."""
        return -math.expm1(-self.epsilon) / (1.0 + (self.labels - 1) * math.exp(-self.epsilon))

    @property
    def payload(self) -> Payload:
        return "label"

    @property
    def limit(self) -> float:
        return float(self.labels - 1)

    def event(self) -> accounting.PrivacyEvent:
        """Returns ``RandomizedResponse(epsilon, M)``; a uniform draw is a mixture of its answers."""
        return self._mechanism.event()

    def exact_epsilon(self) -> float:
        """Returns the exact ε of released messages, by exact arithmetic on the device's coin, rounded up."""
        lie = Fraction(self._lie, 1 << self._bits)
        odds = (1 - lie) * (self.labels - 1) / lie
        return exact_privacy.log_ratio(max(odds, 1 / odds))

    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        return None, np.take(self._losses, self._checked(messages), axis=0)

    def privatise(
        self, label: object, *, noise: Noise | None = None, context: object = None, index: int | None = None
    ) -> Message:
        self.check_context(context)
        _refuse(index)
        others = self.labels - 1
        rest, shift = divmod(uniform_word(noise, others << self._bits), others)
        place = self._place(label)
        if place > others:
            place = uniform_word(noise, self.labels)
        return Message(None, (place + shift + 1) % self.labels if rest < self._lie else place)

    def privatise_all(
        self, labels: object, *, noise: Noise | None = None, index: npt.ArrayLike | None = None
    ) -> Messages:
        _refuse(index)
        source, places = check_noise(noise), self._places(labels)
        shift, rest, _ = sampled_index(source, self.labels - 1, len(places))
        true = np.where(places < self.labels, places, source.uniform(self.labels, len(places)))
        return Messages(None, np.where(rest < self._lie, (true + shift + 1) % self.labels, true))

    def simulate(self, labels: object, rng: np.random.Generator, *, index: npt.ArrayLike | None = None) -> Messages:
        _refuse(index)
        source = arguments.generator(rng)
        shape, flat = flattened(labels)
        true, lie = self._places(flat), self._mechanism.lie_probability()
        none = np.flatnonzero(true == self.labels)
        if len(none):
            true = true.copy()
            true[none] = source.integers(0, self.labels, size=len(none))
        sent = true.copy()
        for part in arguments.blocks(len(flat), 1):
            lying = np.flatnonzero(source.random(sent[part].shape) < lie)
            shift = source.integers(1, self.labels, size=len(lying))
            sent[part][lying] = (true[part][lying] + shift) % self.labels
        return Messages(None, sent.reshape(shape))

    def log_likelihood_ratio(self, messages: Messages, label0: object, label1: object) -> FloatArray:
        sent = self._checked(messages)
        laws = [self._log_law(self._place(label)) for label in (label0, label1)]
        return np.asarray(laws[0][sent] - laws[1][sent])

    @cached_property
    def _mechanism(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon, categories=self.labels)

    @cached_property
    def _bits(self) -> int:
        return word_bits(self.labels - 1)

    @cached_property
    def _lie(self) -> int:
        """The probability of a label other than the true one, in units of 2^-bits, rounded up."""
        return -int(-lie_probability(self.epsilon, self.labels) * 2**self._bits // 1)

    @cached_property
    def _losses(self) -> FloatArray:
        """-ln of the probability of each message under each candidate, shape (M, K)."""
        keep = self.contrast
        return np.ascontiguousarray(-np.log(keep * self.levels.masses() + (1.0 - keep) / self.labels).T)

    def _log_law(self, place: int) -> FloatArray:
        """ln of the probability of each message, given the place of a label; M is for a value that is not a label."""
        if place == self.labels:
            return np.full(self.labels, -math.log(self.labels))
        law = np.full(self.labels, -self.epsilon)  # by its logarithm: of ε near 1000 a lie's probability is no float
        law[place] = 0.0
        return law - math.log1p((self.labels - 1) * math.exp(-self.epsilon))

    def _place(self, label: object) -> int:
        return table_of(self.levels).place(label)

    def _places(self, labels: object) -> IntArray:
        return table_of(self.levels).places(labels)

    def _checked(self, messages: Messages) -> IntArray:
        if not isinstance(messages, Messages) or messages.index is not None or messages.value.dtype.kind not in "iu":
            raise InvalidArgumentError("messages", messages, "are not labels", "use this channel's")
        return array("messages.value", messages.value, low=0, high=self.labels - 1, dtype=np.int64)


def _refuse(index: object) -> None:
    if index is not None:
        raise InvalidArgumentError("index", index, "is not used if messages are labels", "leave it out")
