"""Runs in which something depends on earlier messages: the contexts, or which candidate the server asks about.

Contexts that an adversary chooses who has seen all earlier messages leave every guarantee as it is: a message's channel
is public, and the risk's proof only needs the label to be independent of the weights, given the past.

:class:`InteractiveDistribution` lets the server ask about candidates in proportion to their weights, as EXP3 does. Each
message keeps its cost, since which candidate it is about depends on earlier messages only; but the channel now has a
memory, and devices must wait for the server. Its bound is sqrt 2 times that of asking uniformly.

All is sequential over rounds and vectorised over runs.

Sources: Sima, Wu, Milenkovic & Szpankowski 2024 for the game; Auer, Cesa-Bianchi, Freund & Schapire 2002 for EXP3.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.distribution.channels.all_channels import OneBit
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.runs import Runs, context_numbers
from hockeystick.mechanisms.contract import arguments

Adversary = Callable[[int, FloatArray], npt.ArrayLike]
"""From a round and all runs' weights before it, shape (runs, K), to the contexts, shape (runs,)."""


def most_disagreement(learner: OnlineDistribution) -> Adversary:
    """Chooses the context in which the candidates in favour disagree most: the mean of KL(candidate || mixture).

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
    """Whole runs against an adversary who chooses each round's context and knows all earlier messages.

    Args:
        learner: What is run.
        truth: The true candidate.
        rng: The source of all randomness.
        runs: At least 1.
        adversary: Chooses contexts.
        rounds: The horizon by default.

    Raises:
        InvalidArgumentError: an argument outside its domain, or contexts that do not exist.
    """
    return _sequential(learner, truth, rng, runs, adversary, rounds, None)


@frozen
class InteractiveDistribution:
    """The learner that asks about a candidate in proportion to its weight, mixed with a little of the uniform law.

    Of the learner it takes channels and horizon; rate and rule are its own. Losses are divided by the chance of their
    candidate, which stays above ``learning_rate`` times a bit's worth.

    Args:
        learner: Its channels are ``OneBit``, the rule is "tuned".

    Raises:
        InvalidArgumentError: another channel or rule, or so few rounds that nothing could be learned.
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
            raise InvalidArgumentError("learner", value.horizon, "rounds are too few to ask by weight")

    @property
    def _reach(self) -> float:
        channel = self.learner.channels[0]
        return channel.reach if isinstance(channel, OneBit) else math.inf

    @property
    def learning_rate(self) -> float:
        """sqrt(ln(K) / (T K)) / B."""
        return math.sqrt(math.log(self.learner.experts) / (self.learner.horizon * self.learner.experts)) / self._reach

    @property
    def exploration(self) -> float:
        """gamma = K eta B, the share of rounds in which the candidate is drawn uniformly."""
        return self.learner.experts * self.learning_rate * self._reach

    def risk_bound(self) -> float:
        """ln(K)/eta + eta T K B^2/(1 - gamma) + T ln(T/(T-1)).

        As e^-a <= 1 - a + a^2 for a >= -1, and the weights' mean of squared, divided losses is at most K B^2/(1-gamma).
        """
        size, rounds, eta = self.learner.experts, self.learner.horizon, self.learning_rate
        second = eta * rounds * size * self._reach**2 / (1.0 - self.exploration)
        return math.log(size) / eta + second + self.learner.channels[0].levels.smoothing

    def graph(self) -> AccountantGraph:
        """The plan; a message costs what it costs if candidates are drawn uniformly."""
        return self.learner.graph()

    def simulate(
        self,
        truth: int,
        rng: np.random.Generator,
        runs: int,
        *,
        adversary: Adversary | None = None,
        rounds: int | None = None,
    ) -> Runs:
        """Whole runs; arguments as for ``simulate_adaptively``. ``totals`` are of divided losses.

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
    asking: InteractiveDistribution | None,
) -> Runs:
    source, count = arguments.generator(rng), arguments.run_count(runs)
    length = integer("rounds", learner.horizon if rounds is None else rounds, low=1)
    if adversary is None and len(learner.channels) != 1:
        raise InvalidArgumentError("adversary", None, "chooses no context", "give one")
    experts = learner.experts
    rate = learner.learning_rate if asking is None else asking.learning_rate
    risks = [learner.risk(truth, c) for c in range(len(learner.channels))]
    totals, counts, mean = np.zeros((3, count, experts))
    risk = np.zeros(count)
    contexts: AnyIntArray = np.zeros(count, dtype=np.int64)
    for t in range(length):
        weights = np.exp(-rate * (totals - totals.min(axis=1, keepdims=True)))
        weights /= weights.sum(axis=1, keepdims=True)
        mean += weights
        chances = None if asking is None else _asked(weights, asking.exploration)
        if adversary is not None:
            contexts = context_numbers(adversary(t, weights), count, len(risks))
        for c in np.unique(contexts):
            here = np.flatnonzero(contexts == c)
            risk[here] += risks[c].of(weights[here].T)
            channel = learner.channels[c]
            labels = channel.levels.hypotheses.sample(truth, len(here), source, channel.levels.context)
            if chances is None:
                index, losses = learner.losses(channel.simulate(labels, source), c)
            else:
                index = _drawn(chances[here], source)
                _, losses = learner.losses(channel.simulate(labels, source, index=index), c)
                losses = losses / chances[here, index]
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


def _asked(weights: FloatArray, exploration: float) -> FloatArray:
    return np.asarray((1.0 - exploration) * weights + exploration / weights.shape[1])


def _drawn(chances: FloatArray, rng: np.random.Generator) -> AnyIntArray:
    """One candidate for each row, drawn by its chances."""
    steps = np.cumsum(chances, axis=1)
    found = (steps < rng.random((len(chances), 1)) * steps[:, -1:]).sum(axis=1)
    return np.asarray(np.minimum(found, chances.shape[1] - 1), dtype=np.int64)
