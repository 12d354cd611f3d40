"""Runs in which the contexts, or the candidates about which the server asks, depend on earlier messages.

An adversary who sees all earlier messages may choose the contexts; all guarantees still hold. The channel of a message
is public, and the proof of the risk only needs the label to be independent of the weights, given the past.

In :class:`InteractiveDistribution` the server asks about candidates in proportion to their weights, as EXP3 does. The
cost of a message is unchanged, since its candidate depends on earlier messages only; but the channel now has a memory,
and devices must wait for the server. The bound is sqrt 2 times that of asking uniformly.

Runs are sequential over rounds and vectorised over runs.

Sources: Sima, Wu, Milenkovic & Szpankowski 2024 for the game; Auer, Cesa-Bianchi, Freund & Schapire 2002 for EXP3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.distribution.channels.all_channels import OneBit
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.runs import Runs, context_numbers
from hockeystick.mechanisms.contract import arguments

Adversary = Callable[[int, FloatArray], npt.ArrayLike]
"""A function from a round and the weights of all runs before it, shape (runs, K), to the contexts, shape (runs,)."""


def most_disagreement(learner: OnlineDistribution) -> Adversary:
    """Returns an adversary that chooses the context with the largest weighted mean of KL(candidate || mixture).

    Raises:
        InvalidArgumentError: labels without a table.
    """
    tables = np.stack([channel.levels.masses() for channel in learner.channels])  # (contexts, K, M)
    with np.errstate(divide="ignore", invalid="ignore"):
        negentropy = np.where(tables > 0, tables * np.log(tables), 0.0).sum(axis=2)

    def choose(_: int, weights: FloatArray) -> AnyIntArray:
        mixture = np.einsum("rk,ckm->rcm", weights, tables)
        logs = np.log(mixture, out=np.zeros_like(mixture), where=mixture > 0)
        return np.asarray(np.argmax(weights @ negentropy.T - np.sum(mixture * logs, axis=2), axis=1))

    return choose


def simulate_adaptively(
    learner: OnlineDistribution,
    truth: int,
    rng: np.random.Generator,
    runs: int,
    *,
    adversary: Adversary,
    rounds: int | None = None,
) -> Runs:
    """Returns runs against an adversary who chooses the context of each round and sees all earlier messages.

    Args:
        learner: The learner.
        truth: The true candidate.
        rng: The generator of all randomness.
        runs: The number of runs, >= 1.
        adversary: Chooses contexts.
        rounds: The number of rounds, the horizon by default.

    Raises:
        InvalidArgumentError: an argument outside its domain, or contexts that do not exist.
    """
    return _sequential(learner, truth, rng, runs, adversary, rounds, None)


@frozen
class InteractiveDistribution:
    """A learner that asks about candidates in proportion to their weights, mixed with a little of the uniform law.

    It uses the channels and the horizon of ``learner``, and a learning rate of its own. Losses are divided by the
    probability of their candidate, which is at least ``learning_rate`` times the value of a bit.

    Source: Auer, Cesa-Bianchi, Freund & Schapire 2002 (EXP3).

    Args:
        learner: A learner with ``OneBit`` channels and the rule "tuned".

    Raises:
        InvalidArgumentError: another channel or rule, or too few rounds.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import InteractiveDistribution, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> learner = InteractiveDistribution(OnlineDistribution.build(candidates, rounds=100, epsilon=2.0))
        >>> runs = learner.simulate(1, np.random.default_rng(1), 5, rounds=20)
        >>> runs.risk.shape, round(learner.risk_bound(), 1)
        ((5,), 36.5)
    """

    interactive: ClassVar[bool] = True
    learner: OnlineDistribution = field()

    @learner.validator
    def _is_one_bit(self, _: object, value: object) -> None:
        if not isinstance(value, OnlineDistribution) or not isinstance(value.channels[0], OneBit):
            raise InvalidArgumentError("learner", value, "does not send one bit", "use an OnlineDistribution of OneBit")
        if value.rule != "tuned":
            raise InvalidArgumentError("learner", value.rule, "is another rule", "use 'tuned'")
        if self.exploration > 0.5:
            raise InvalidArgumentError("learner", value.horizon, "rounds are too few to ask by weight", "use more")

    @property
    def _reach(self) -> float:
        channel = self.learner.channels[0]
        return channel.reach if isinstance(channel, OneBit) else math.inf

    @property
    def learning_rate(self) -> float:
        """The learning rate eta = sqrt(ln(K) / (T K)) / B, with B the value of a bit."""
        return math.sqrt(math.log(self.learner.experts) / (self.learner.horizon * self.learner.experts)) / self._reach

    @property
    def exploration(self) -> float:
        """The share gamma = K eta B of rounds in which the candidate is drawn uniformly."""
        return self.learner.experts * self.learning_rate * self._reach

    def risk_bound(self) -> float:
        """Returns a bound on the expected risk: ln(K)/eta + eta T K B^2/(1 - gamma) + T ln(T/(T-1)).

        It follows from e^-a <= 1 - a + a^2 for a >= -1; the weighted mean of the squares of the divided losses is at
        most K B^2/(1-gamma).
        """
        size, rounds, eta = self.learner.experts, self.learner.horizon, self.learning_rate
        second = eta * rounds * size * self._reach**2 / (1.0 - self.exploration)
        return math.log(size) / eta + second + self.learner.channels[0].levels.smoothing

    def graph(self) -> AccountantGraph:
        """Returns the plan; a message costs as much as with uniformly drawn candidates."""
        return self.learner.graph()

    def shuffled_graph(self) -> AccountantGraph:
        """Refuses, as no shuffler can hide messages on which the server's next question depends.

        Raises:
            UnsupportedEventError: always.
        """
        raise UnsupportedEventError(
            "the candidate of a message depends on earlier messages, which no shuffler hid: "
            "use an OnlineDistribution, whose devices draw it"
        )

    def simulate(
        self,
        truth: int,
        rng: np.random.Generator,
        runs: int,
        *,
        adversary: Adversary | None = None,
        rounds: int | None = None,
    ) -> Runs:
        """Returns runs; arguments as for ``simulate_adaptively``. ``totals`` are sums of divided losses.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        return _sequential(self.learner, truth, rng, runs, adversary, rounds, self)


def _sequential(
    learner: OnlineDistribution,
    truth: int,
    rng: np.random.Generator,
    runs: int,
    adversary: Adversary | None,
    rounds: int | None,
    interactive: InteractiveDistribution | None,
) -> Runs:
    source, count = arguments.generator(rng), arguments.run_count(runs)
    length = integer("rounds", learner.horizon if rounds is None else rounds, low=1)
    if adversary is None and len(learner.channels) != 1:
        raise InvalidArgumentError("adversary", None, "is missing for several contexts", "give one")
    experts = learner.experts
    rate = learner.learning_rate if interactive is None else interactive.learning_rate
    risks = [learner.risk(truth, c) for c in range(len(learner.channels))]
    totals, counts, mean = np.zeros((3, count, experts))
    risk = np.zeros(count)
    contexts: AnyIntArray = np.zeros(count, dtype=np.int64)
    for t in range(length):
        weights = np.exp(-rate * (totals - totals.min(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        mean += weights
        probabilities = None if interactive is None else _probabilities(weights, interactive.exploration)
        if adversary is not None:
            contexts = context_numbers(adversary(t, weights), count, len(risks))
        for c in np.unique(contexts):
            here = np.flatnonzero(contexts == c)
            risk[here] += risks[c].of(weights[here].T)
            channel = learner.channels[c]
            labels = channel.levels.hypotheses.sample(truth, len(here), source, channel.levels.context)
            if probabilities is None:
                index, losses = learner.losses(channel.simulate(labels, source), c)
            else:
                index = _drawn(probabilities[here], source)
                _, losses = learner.losses(channel.simulate(labels, source, index=index), c)
                losses = losses / probabilities[here, index]
            if index is None:
                totals[here] += losses
                counts[here] += 1
            else:
                totals[here, index] += losses
                counts[here, index] += 1
    return Runs(
        rounds=length,
        risk=risk,
        marks=np.array([length]),
        curve=risk[:, None].copy(),
        mean_weights=mean / length,
        totals=totals,
        counts=counts,
    )


def _probabilities(weights: FloatArray, exploration: float) -> FloatArray:
    return np.asarray((1.0 - exploration) * weights + exploration / weights.shape[1])


def _drawn(probabilities: FloatArray, rng: np.random.Generator) -> AnyIntArray:
    """One candidate for each row, drawn by its chances."""
    steps = np.cumsum(probabilities, axis=1)
    found = (steps < rng.random((len(probabilities), 1)) * steps[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(found, probabilities.shape[1] - 1), dtype=np.int64)
