"""What a person's device sends about a private label, and what every channel that makes such messages can do.

A channel turns a label into a message on the device and turns messages into losses on the server. Sampled channels
speak of one candidate J, whose index is public and drawn without a look at the label; vector channels of all K.

Devices call ``privatise``: secure noise, in whole numbers, one message. Experiments call ``simulate``: floats, any
number of labels at once. ``privatise_all`` runs the device's code for many labels, for gateways and for audits of it.

Neighbours are two labels of one person (local adjacency): any two, possible or not under the candidates.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.distribution.channels.levels import Levels
from hockeystick.mechanisms.randomness.noise import Noise, check_noise, secure_laplace

Payload = Literal["bit", "real", "whole", "reals", "label"]

_WORD = 62  # bits of one uniform draw


@frozen
class Message:
    """What one device sends.

    Attributes:
        index: The candidate that it is about, 0 .. K - 1; None if about all.
        value: A bit (0 or 1), a number, a whole number, K numbers, or a label, as the channel has it.
    """

    index: int | None
    value: int | float | tuple[float, ...]


@frozen(eq=False)
class Messages:
    """Many messages.

    Attributes:
        index: The candidates that they are about, of the shape of the labels; None if about all.
        value: Of the same shape, and with a last axis of K where a message has K numbers.
    """

    index: npt.NDArray[np.integer] | None
    value: npt.NDArray[Any]

    def one(self, place: int) -> Message:
        """The message at one place of a single row of messages."""
        told = self.value[place]
        value = tuple(told.tolist()) if told.ndim else told.item()
        return Message(None if self.index is None else int(self.index[place]), value)


class Channel(ABC):
    """From labels to private messages, and from messages to losses.

    Attributes:
        levels: What messages are about, or what decoded labels are rated by, in one context.
    """

    levels: Levels

    @property
    def count(self) -> int:
        """K."""
        return self.levels.count

    @property
    @abstractmethod
    def payload(self) -> Payload:
        """What a message's value is."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """Values of messages lie within this distance of 0; a device clips them, which is post-processing."""

    @abstractmethod
    def event(self) -> accounting.PrivacyEvent:
        """The cost of one message to the person whose label it is about, under local adjacency."""

    @abstractmethod
    def privatise(
        self, label: object, *, noise: Noise | None = None, context: object = None, index: int | None = None
    ) -> Message:
        """The message about one label: what a device runs. Any label gets an answer, also one that is none.

        Args:
            label: The private label, of any type.
            noise: Secure by default; ``SimulationNoise`` to run the same code repeatably.
            context: If given, it must be that of the levels.
            index: The candidate, where the server chooses it; by default the device draws it uniformly. It must not
                depend on the label. Channels that speak of all candidates take none.

        Raises:
            InvalidArgumentError: another context, no such candidate, or an exchange of labels without a table.
            SecureReleaseUnavailableError: there is no secure source of noise.
        """

    @abstractmethod
    def privatise_all(
        self, labels: object, *, noise: Noise | None = None, index: npt.ArrayLike | None = None
    ) -> Messages:
        """Messages about n labels of n persons, shape (n,), by the device's code; arguments as for ``privatise``."""

    @abstractmethod
    def simulate(self, labels: object, rng: np.random.Generator, *, index: npt.ArrayLike | None = None) -> Messages:
        """Messages about labels of any shape, one each, by float noise: for experiments, never for release.

        Args:
            labels: Array of any shape, such as (runs, rounds).
            rng: The source of all randomness.
            index: The candidates, of the shape of the labels; drawn uniformly by default.

        Raises:
            InvalidArgumentError: ``rng`` is not a generator, or an index that is not a candidate's.
        """

    @abstractmethod
    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        """Indices with losses of these candidates; or None with losses of all, in a last axis of K.

        Channels of levels decode without bias: E[loss | label] is the middle of the range less the label's level.

        Raises:
            InvalidArgumentError: messages of another channel.
        """

    @abstractmethod
    def exact_epsilon(self) -> float:
        """The exact pure epsilon of ``simulate`` over all pairs of labels: an oracle, for tables of labels.

        Raises:
            InvalidArgumentError: labels without a table; ``event`` bounds them.
            NumericalError: the table is too large.
        """

    @abstractmethod
    def log_likelihood_ratio(self, messages: Messages, label0: object, label1: object) -> FloatArray:
        """ln(p(message | label0) / p(message | label1)) of n messages of ``simulate``, shape (n,).

        Raises:
            InvalidArgumentError: messages of another channel, or an exchange of labels without a table.
        """

    def graph(self, *, users: int, answers: int = 1) -> AccountantGraph:
        """The plan of a run: ``users`` persons who send ``answers`` messages each, about one label or several.

        A person's messages compose; different persons' are in parallel. Predictions and weights are post-processing.

        Raises:
            InvalidArgumentError: a number that is not an integer >= 1.
        """
        size, count = integer("users", users, low=1), integer("answers", answers, low=1)
        graph = AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True).source("users", size=size)
        reach = SAME if size > 1 else None
        return graph.release("messages", self.event(), reads=["users"], count=count, reach=reach)

    def check_context(self, context: object) -> None:
        """Refuses a context that is given and is not that of the levels."""
        if context is not None and context is not self.levels.context and context != self.levels.context:
            raise InvalidArgumentError(
                "context", context, f"is not that of the levels, {self.levels.context!r}", "use that context's channel"
            )


def uniform_word(noise: Noise | None, below: int) -> int:
    """One uniform whole number; None draws the operating system's random bits, as ``ReleaseNoise`` does, but faster."""
    return secrets.randbelow(below) if noise is None else int(check_noise(noise).uniform(below, 1)[0])


def laplace_draw(noise: Noise | None, scale: float) -> int:
    """One discrete Laplace draw; None draws as ``ReleaseNoise`` does, but faster."""
    return secure_laplace(scale) if noise is None else int(check_noise(noise).laplace(scale, 1)[0])


def sampled_index(noise: Noise, choices: int, size: int) -> tuple[IntArray, IntArray, int]:
    """Uniform indices below ``choices``, and independent uniform whole numbers below 2^bits, with their bits."""
    bits = word_bits(choices)
    words = noise.uniform(choices << bits, size)
    return words % choices, words // choices, bits


def word_bits(choices: int) -> int:
    """How many bits one uniform draw has left after a choice."""
    return _WORD - (choices - 1).bit_length()


def check_sampled(messages: Messages, experts: int) -> npt.NDArray[np.integer]:
    """The indices of messages about one candidate each."""
    if not isinstance(messages, Messages) or messages.index is None or messages.index.shape != messages.value.shape:
        raise InvalidArgumentError("messages", messages, "are not about one candidate each", "use this channel's")
    array("messages.index", messages.index, low=0, high=experts - 1)
    return messages.index


def check_vector(messages: Messages, experts: int) -> FloatArray:
    """The values of messages about all candidates, shape (.., K)."""
    if not isinstance(messages, Messages) or messages.index is not None or messages.value.shape[-1:] != (experts,):
        raise InvalidArgumentError("messages", messages, "are not about all candidates", "use this channel's")
    return array("messages.value", messages.value)
