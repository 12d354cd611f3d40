"""Messages about a private label, and the base class of the channels that create them.

A channel encodes a label as a message on the device and decodes messages to losses on the server. Messages of sampled
channels are about one candidate J, whose index is public and drawn independently of the label; those of vector channels
are about all K.

Devices call ``privatise``: one message, with secure noise in whole numbers. Experiments call ``simulate``: any number
of labels at once, with float noise. ``privatise_all`` runs the device's code for many labels, for gateways and audits.

Neighbours are any two labels of one person (local adjacency), whether or not the candidates give them mass.
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

SHUFFLER = "a trusted shuffler hides rounds and senders of all messages, and no prediction is published before"

_WORD = 62  # bits of one uniform draw


@frozen
class Message:
    """The message of one device.

    See :class:`~hockeystick.learners.distribution.channels.one_bit.OneBit` for an example.

    Attributes:
        index: The candidate that it is about, 0 .. K - 1; None if it is about all.
        value: A bit (0 or 1), a number, a whole number, K numbers, or a label, depending on the channel.
    """

    index: int | None
    value: int | float | tuple[float, ...]


@frozen(eq=False)
class Messages:
    """An array of messages.

    See :class:`~hockeystick.learners.distribution.channels.one_bit.OneBit` for an example.

    Attributes:
        index: The candidates that they are about, in the shape of the labels; None if they are about all.
        value: The values, in the same shape, with a last axis of K if a message has K numbers.
    """

    index: npt.NDArray[np.integer] | None
    value: npt.NDArray[Any]

    def one(self, place: int) -> Message:
        """Returns the message at one place of a single row of messages."""
        entry = self.value[place]
        value = tuple(entry.tolist()) if entry.ndim else entry.item()
        return Message(None if self.index is None else int(self.index[place]), value)


class Channel(ABC):
    """Base class of channels: from labels to private messages, and from messages to losses.

    See :class:`~hockeystick.learners.distribution.channels.one_bit.OneBit` for an example.

    Attributes:
        levels: The levels of the candidates in one context.
    """

    levels: Levels

    @property
    def count(self) -> int:
        """The number of candidates K."""
        return self.levels.count

    @property
    @abstractmethod
    def payload(self) -> Payload:
        """The kind of a message's value."""

    @property
    @abstractmethod
    def limit(self) -> float:
        """The largest absolute value of a message; a device clips to it, which is post-processing."""

    @abstractmethod
    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one message to the person with the label, under local adjacency."""

    @abstractmethod
    def privatise(
        self, label: object, *, noise: Noise | None = None, context: object = None, index: int | None = None
    ) -> Message:
        """Returns the message about one label, on a device. Every value gets a message, whether or not it is a label.

        Args:
            label: The private label, of any type.
            noise: Secure noise by default; ``SimulationNoise`` for repeatable tests.
            context: If given, it must be that of the levels.
            index: The candidate, if the server chooses it; by default the device draws it uniformly. It must not depend
                on the label. Channels about all candidates refuse it.

        Raises:
            InvalidArgumentError: another context, an unknown candidate, or an exchange of labels without a table.
        """

    @abstractmethod
    def privatise_all(
        self, labels: object, *, noise: Noise | None = None, index: npt.ArrayLike | None = None
    ) -> Messages:
        """Returns messages about n labels of n persons, shape (n,), by the device's code; see ``privatise``."""

    @abstractmethod
    def simulate(self, labels: object, rng: np.random.Generator, *, index: npt.ArrayLike | None = None) -> Messages:
        """Returns one message about each label, with float noise: for experiments, never for release.

        Args:
            labels: An array of any shape, such as (runs, rounds).
            rng: The generator of all randomness.
            index: The candidates, in the shape of the labels; drawn uniformly by default.

        Raises:
            InvalidArgumentError: ``rng`` is not a generator, or an index that is not a candidate's.
        """

    @abstractmethod
    def decode(self, messages: Messages) -> tuple[npt.NDArray[np.integer] | None, FloatArray]:
        """Returns indices and losses of these candidates; or None and losses of all, in a last axis of K.

        Channels for levels decode without bias: E[loss | label] is the middle of the range minus the label's level.

        Raises:
            InvalidArgumentError: messages of another channel.
        """

    @abstractmethod
    def exact_epsilon(self) -> float:
        """Returns the exact pure ε of ``simulate`` over all pairs of labels, for tables of labels.

        Raises:
            InvalidArgumentError: labels without a table; use the bound of ``event``.
            NumericalError: the table is too large.
        """

    @abstractmethod
    def log_likelihood_ratio(self, messages: Messages, label0: object, label1: object) -> FloatArray:
        """Returns ln(p(message | label0) / p(message | label1)) of n messages of ``simulate``, shape (n,).

        Raises:
            InvalidArgumentError: messages of another channel, or an exchange of labels without a table.
        """

    def graph(self, *, users: int, answers: int = 1) -> AccountantGraph:
        """Returns the plan of a run: ``users`` persons who send ``answers`` messages each, about one label or several.

        The messages of one person compose; those of different persons are in parallel. Predictions and weights are
        post-processing.

        Raises:
            InvalidArgumentError: a number that is not an integer >= 1.
        """
        size, count = integer("users", users, low=1), integer("answers", answers, low=1)
        graph = AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True).source("users", size=size)
        reach = SAME if size > 1 else None
        return graph.release("messages", self.event(), reads=["users"], count=count, reach=reach)

    def shuffled_graph(self, *, users: int) -> AccountantGraph:
        """Returns the plan of a trusted shuffler that publishes a message of each of ``users`` persons in random order.

        The ε is central, under replace-one: any label of one person against any other. It holds for those who see the
        messages only after the shuffler, without their rounds, and for what is computed from all of them.

        Raises:
            InvalidArgumentError: a number that is not an integer >= 2, or messages with neither Gaussian noise nor a
                finite pure ε.
        """
        size = integer("users", users, low=2)
        graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, assumptions=(SHUFFLER,)).source("users")
        return graph.release("shuffled messages", accounting.Shuffled(self.event(), size), reads=["users"])

    def check_context(self, context: object) -> None:
        """Raises an error for a context that is given and is not that of the levels."""
        if context is not None and context is not self.levels.context and context != self.levels.context:
            raise InvalidArgumentError(
                "context", context, f"is not that of the levels, {self.levels.context!r}", "use that context's channel"
            )


def uniform_word(noise: Noise | None, below: int) -> int:
    """Returns a uniform integer below ``below``; None uses the operating system's random bits, as ``ReleaseNoise``."""
    return secrets.randbelow(below) if noise is None else int(check_noise(noise).uniform(below, 1)[0])


def laplace_draw(noise: Noise | None, scale: float) -> int:
    """Returns one discrete Laplace variable; None draws as ``ReleaseNoise`` does, but faster."""
    return secure_laplace(scale) if noise is None else int(check_noise(noise).laplace(scale, 1)[0])


def sampled_index(noise: Noise, choices: int, size: int) -> tuple[IntArray, IntArray, int]:
    """Returns uniform indices below ``choices``, independent uniform integers below 2^bits, and bits."""
    bits = word_bits(choices)
    words = noise.uniform(choices << bits, size)
    return words % choices, words // choices, bits


def word_bits(choices: int) -> int:
    """Returns the number of bits that one uniform draw has left after a choice."""
    return _WORD - (choices - 1).bit_length()


def check_sampled(messages: Messages, experts: int) -> npt.NDArray[np.integer]:
    """Returns the indices of messages about one candidate each."""
    if not isinstance(messages, Messages) or messages.index is None or messages.index.shape != messages.value.shape:
        raise InvalidArgumentError(
            "messages", messages, "are not about one candidate each", "use messages of this channel"
        )
    array("messages.index", messages.index, low=0, high=experts - 1)
    return messages.index


def check_vector(messages: Messages, experts: int) -> FloatArray:
    """Returns the values of messages about all candidates, shape (.., K)."""
    if not isinstance(messages, Messages) or messages.index is not None or messages.value.shape[-1:] != (experts,):
        raise InvalidArgumentError("messages", messages, "are not about all candidates", "use messages of this channel")
    return array("messages.value", messages.value)
