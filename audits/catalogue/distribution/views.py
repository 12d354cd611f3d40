"""Where private messages about labels are attacked: the labels that cost most, and numbers that are looked at.

A message of Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315) costs most where a label moves a level by the
whole range of levels, and a message about all candidates where it moves all of them at once. Seen are the message
itself, what it does to the server's log-weights, or what it does to the next published prediction.
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
    """M/K labels for each candidate: all but one of mass (1 + 1e-6)/M, and one with the rest."""
    # A little above 1/labels, so that rounding leaves none below.
    width, least = labels // experts, (1.0 + 1e-6) / labels
    table = np.zeros((experts, labels))
    for j in range(experts):
        table[j, j * width : (j + 1) * width] = least
        table[j, j * width] = 1.0 - (width - 1) * least
    return LabelTable(table)


def two_rare_labels(experts: int = 16) -> LabelTable:
    """Labels 0 and 1, each rare for one half of the candidates and impossible for the other; and one for each."""
    labels = experts + 2
    table = np.zeros((experts, labels))
    table[: experts // 2, 0] = table[experts // 2 :, 1] = 1.0 / labels
    table[np.arange(experts), 2 + np.arange(experts)] = 1.0 - 1.0 / labels
    return LabelTable(table)


def two_labels() -> LabelTable:
    """Two candidates that are each certain of a label of their own."""
    return LabelTable(np.eye(2))


def disputed_and_agreed() -> LabelTable:
    """Two candidates that are at odds about labels 0 and 1, all but agree on label 2, and find label 3 impossible."""
    return LabelTable(np.array([[0.5, 0.0, 0.5, 0.0], [0.0, 0.501, 0.499, 0.0]]))


def extremes(levels: Levels) -> Pair:
    """The labels of the highest and of the lowest level of candidate 0."""
    level = levels.of(np.arange(levels.labels or 0))[:, 0]
    return int(np.argmax(level)), int(np.argmin(level))


# --- what is seen ----------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class Told:
    """One number for each person's messages.

    Attributes:
      channel: makes them.
      read: makes numbers of shape (n,) of n messages.
      index: the candidate that the server asks about; None if devices draw it.
      answers: how many messages a person sends about one label; their numbers are added up.
      released: whether messages are made by the device's code, for release, with simulated noise.
    """

    channel: Channel
    read: Callable[[Messages], FloatArray]
    index: int | None = None
    answers: int = 1
    released: bool = False

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Numbers of ``runs`` persons with this label, shape (runs,)."""
        labels = np.full(runs * self.answers, label)
        index = None if self.index is None else np.full(len(labels), self.index)
        if self.released:
            messages = self.channel.privatise_all(labels, noise=SimulationNoise(rng), index=index)
        else:
            messages = self.channel.simulate(labels, rng, index=index)
        return np.asarray(self.read(messages).reshape(runs, self.answers).sum(axis=1))


@frozen(eq=False)
class Ratio:
    """The log-likelihood ratio of a message between two labels, without rounding noise at its atoms."""

    channel: Channel
    pair: Pair

    def __call__(self, messages: Messages) -> FloatArray:
        """One ratio per message."""
        return np.round(self.channel.log_likelihood_ratio(messages, *self.pair), 9)


@frozen(eq=False)
class WeightMove:
    """How a message moves the server's log-weight of one candidate."""

    learner: OnlineDistribution
    candidate: int = 0

    def __call__(self, messages: Messages) -> FloatArray:
        """-eta times the decoded loss of the candidate, and 0 if the message is about another one."""
        return self.moves(messages)[:, self.candidate]

    def moves(self, messages: Messages) -> FloatArray:
        """Those of all log-weights, shape (n, K)."""
        index, losses = self.learner.losses(messages)
        if index is None:
            return np.asarray(-self.learner.learning_rate * losses)
        found = np.zeros((len(losses), self.learner.experts))
        found[np.arange(len(losses)), index] = -self.learner.learning_rate * losses
        return found


@frozen(eq=False)
class Published:
    """The prediction of one label after a message, of a server that knew nothing before."""

    learner: OnlineDistribution
    label: int = 0

    def __call__(self, messages: Messages) -> FloatArray:
        """One probability per message."""
        moves = WeightMove(self.learner).moves(messages)
        weights = np.exp(moves - moves.max(axis=1, keepdims=True))
        masses = self.learner.channels[0].levels.masses()[:, self.label]
        return np.asarray((weights @ masses) / weights.sum(axis=1))


def number(messages: Messages) -> FloatArray:
    """The message's number."""
    return np.asarray(messages.value, dtype=np.float64)


def about(messages: Messages) -> FloatArray:
    """The candidate that the message is about."""
    return np.asarray(messages.index, dtype=np.float64)


def first_less_last(messages: Messages) -> FloatArray:
    """Of K numbers, the first less the last."""
    return np.asarray(messages.value[:, 0] - messages.value[:, -1])


@frozen(eq=False)
class TwoRounds:
    """The first of two messages about candidate 0 less the second, whose label is known."""

    channel: SampledLaplace
    known: int

    def __call__(self, label: int, rng: np.random.Generator, runs: int) -> FloatArray:
        """Differences, shape (runs,)."""
        told = Told(channel=self.channel, read=number, index=0)
        return told(label, rng, runs) - told(self.known, rng, runs)
