"""Attacks on private messages about labels: the worst labels, and the statistics of a message.

A message of Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315) costs most if a replaced label moves a level by
the whole range of levels, and a message about all candidates if it moves all of them at once. Statistics are the
message itself, its effect on the server's log-weights, or on the next published prediction.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.distribution.channels.all_channels import Channel, Messages, SampledLaplace
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import Levels
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.mechanisms.randomness.noise import SimulationNoise

Pair = tuple[int, int]


# --- labels ----------------------------------------------------------------------------------------------------------


def barely_two_symbols(experts: int = 2, labels: int = 100) -> LabelTable:
    """Returns candidates with M/K labels each: all but one of mass (1 + 1e-6)/M, and one with the rest."""
    # A little above 1/labels, so that no mass is rounded below it.
    width, least = labels // experts, (1.0 + 1e-6) / labels
    table = np.zeros((experts, labels))
    for j in range(experts):
        table[j, j * width : (j + 1) * width] = least
        table[j, j * width] = 1.0 - (width - 1) * least
    return LabelTable(table)


def two_rare_labels(experts: int = 16) -> LabelTable:
    """Returns candidates with a label each, and two labels that are rare for one half and impossible for the other."""
    labels = experts + 2
    table = np.zeros((experts, labels))
    table[: experts // 2, 0] = table[experts // 2 :, 1] = 1.0 / labels
    table[np.arange(experts), 2 + np.arange(experts)] = 1.0 - 1.0 / labels
    return LabelTable(table)


def two_labels() -> LabelTable:
    """Returns two candidates that are certain of one label each."""
    return LabelTable(np.eye(2))


def disputed_and_agreed() -> LabelTable:
    """Returns two candidates that disagree on labels 0 and 1, almost agree on label 2, and have no mass on label 3."""
    return LabelTable(np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 0.501, 0.499, 0.0]]))


def extremes(levels: Levels) -> Pair:
    """Returns the labels of the highest and of the lowest level of candidate 0."""
    level = levels.of(np.arange(levels.labels or 0))[:, 0]
    return int(np.argmax(level)), int(np.argmin(level))


# --- statistics ------------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class Told:
    """A statistic of each person's messages.

    Attributes:
      channel: The channel that makes the messages.
      read: The statistic, a function of n messages that returns numbers of shape (n,).
      index: The candidate that the server asks about; None if devices draw it.
      answers: The number of messages that a person sends about one label; their statistics are added up.
      released: Whether messages are made by the device's code for releases, with simulated noise.
    """

    channel: Channel
    read: Callable[[Messages], FloatArray]
    index: int | None = None
    answers: int = 1
    released: bool = False

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the statistics of ``runs`` persons with this label, shape (runs,)."""
        labels = np.full(runs * self.answers, label)
        index = None if self.index is None else np.full(len(labels), self.index)
        if self.released:
            messages = self.channel.privatise_all(labels, noise=SimulationNoise(rng), index=index)
        else:
            messages = self.channel.simulate(labels, rng, index=index)
        return np.asarray(self.read(messages).reshape(runs, self.answers).sum(axis=1))


@frozen(eq=False)
class Ratio:
    """The log-likelihood ratio of a message between two labels, without rounding errors at its atoms."""

    channel: Channel
    pair: Pair

    def __call__(self, messages: Messages) -> FloatArray:
        """Returns one ratio per message."""
        return np.round(self.channel.log_likelihood_ratio(messages, *self.pair), 9)


@frozen(eq=False)
class WeightMove:
    """The change of the server's log-weight of one candidate by a message."""

    learner: OnlineDistribution
    candidate: int = 0

    def __call__(self, messages: Messages) -> FloatArray:
        """Returns -eta times the decoded loss of the candidate, and 0 if the message is about another one."""
        return self.moves(messages)[:, self.candidate]

    def moves(self, messages: Messages) -> FloatArray:
        """Returns the changes of all log-weights, shape (n, K)."""
        index, losses = self.learner.losses(messages)
        if index is None:
            return np.asarray(-self.learner.learning_rate * losses)
        found = np.zeros((len(losses), self.learner.experts))
        found[np.arange(len(losses)), index] = -self.learner.learning_rate * losses
        return found


@frozen(eq=False)
class Published:
    """The prediction of one label by a server that has received one message."""

    learner: OnlineDistribution
    label: int = 0

    def __call__(self, messages: Messages) -> FloatArray:
        """Returns one probability per message."""
        moves = WeightMove(self.learner).moves(messages)
        weights = np.exp(moves - moves.max(axis=1, keepdims=True))
        masses = self.learner.channels[0].levels.masses()[:, self.label]
        return np.asarray((weights @ masses) / weights.sum(axis=1))


def number(messages: Messages) -> FloatArray:
    """Returns the message's number."""
    return np.asarray(messages.value, dtype=np.float64)


def about(messages: Messages) -> FloatArray:
    """Returns the candidate that the message is about."""
    return np.asarray(messages.index, dtype=np.float64)


def first_less_last(messages: Messages) -> FloatArray:
    """Returns the first minus the last of K numbers."""
    return np.asarray(messages.value[:, 0] - messages.value[:, -1])


@frozen(eq=False)
class TwoRounds:
    """The first of two messages about candidate 0 minus the second, whose label is known."""

    channel: SampledLaplace
    known: int

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns differences, shape (runs,)."""
        sent = Told(channel=self.channel, read=number, index=0)
        return sent(label, rng, runs) - sent(self.known, rng, runs)
