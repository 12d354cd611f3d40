"""Online distribution learning under local privacy: predict the law of the next label without ever seeing one.

Round t shows a public context, the server publishes a law of the label to come, and then a person draws a private label
from the true law, one of K candidates, and sends a private message about it. The server runs exponential weights on the
losses that it decodes from messages and predicts the weighted mixture of the smoothed candidates. Its KL risk grows
like sqrt(K T), whatever the number of labels.

What is sent is the channel's business (:mod:`hockeystick.learners.distribution.channels.all_channels`), and so is its
privacy. What is made of it is the rule's (:mod:`hockeystick.learners.distribution.server_rules`).

Source: Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315), Algorithms 1 and 2 and Theorems 4 and 5, corrected;
tuned and posterior rules are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, as_array, integer, real
from hockeystick.learners.distribution import server_rules as rules
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    Messages,
    OneBit,
    RandomizedLabels,
    SampledLaplace,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import Hypotheses, LabelTable, draw
from hockeystick.learners.distribution.channels.levels import Reference, TableLevels, UniformMixture
from hockeystick.learners.distribution.runs import KLRisk, Losses, Runs, context_numbers, play
from hockeystick.learners.distribution.server_rules import Rule


def _channels(value: object) -> tuple[Channel, ...]:
    found = tuple(value) if isinstance(value, Sequence) else (value,)
    if not found or not all(isinstance(each, Channel) for each in found):
        raise InvalidArgumentError(
            "channels", value, "is not a Channel or a sequence of channels", "give one, or one for each context"
        )
    first = found[0]
    for name, of in _SHARED.items():
        if any(of(each) != of(first) for each in found):
            raise InvalidArgumentError("channels", name, "differs between contexts", "build them with the same")
    return found


_SHARED: dict[str, Callable[[Channel], object]] = {
    "kind": type,
    "number of candidates": lambda channel: channel.count,
    "horizon": lambda channel: channel.levels.horizon,
    "span": lambda channel: getattr(channel, "span", None),
    "event": lambda channel: channel.event(),
}


def _rate(value: object) -> float | None:
    return None if value is None else real("rate", value, low=0.0)


@frozen(kw_only=True, eq=False)
class OnlineDistribution:
    """The learner: channels, one for each context, and what is made of their messages.

    Two runs are neighbours if one person's label is replaced by any other (local adjacency). The guarantee is the
    channel's; weights, predictions and all else are post-processing. Contexts may depend on earlier messages, never on
    earlier labels in another way.

    Source: Sima, Wu, Milenkovic & Szpankowski 2024, Algorithms 1 and 2 and Theorems 4 and 5, corrected.

    Args:
        channels: A channel, or one for each context 0, 1, ..: of one kind, with one span and one cost. See ``build``.
        rule: What is made of messages; "printed" needs Laplace noise on floats, "misprinted" on vectors.
        rate: The learning rate >= 0, per unit of loss, instead of the rule's.

    Raises:
        InvalidArgumentError: channels that don't go together, or a rule that does not go with them.
    """

    channels: tuple[Channel, ...] = field(converter=_channels)
    rule: Rule = "tuned"
    rate: float | None = field(default=None, converter=_rate)

    def __attrs_post_init__(self) -> None:
        channel, rule = self.channels[0], self.rule
        if rule not in get_args(Rule):
            raise InvalidArgumentError("rule", rule, "is unknown", f"use one of {', '.join(get_args(Rule))}")
        if rule == "printed" and not isinstance(channel, (SampledLaplace, VectorLaplace)):
            raise InvalidArgumentError("rule", rule, "was not published for this channel", "use 'tuned'")
        if rule == "misprinted" and not isinstance(channel, VectorLaplace):
            raise InvalidArgumentError("rule", rule, "is a slip in Algorithm 1", "use VectorLaplace, or 'printed'")
        if rule == "posterior" and not all(isinstance(each.levels, TableLevels) for each in self.channels):
            raise InvalidArgumentError("rule", rule, "needs a table of labels", "use 'tuned'")

    @classmethod
    def build(
        cls,
        hypotheses: Hypotheses,
        *,
        rounds: int,
        channel: Callable[..., Channel] = OneBit,
        reference: Reference | None = None,
        rule: Rule = "tuned",
        rate: float | None = None,
        **parameters: Any,
    ) -> OnlineDistribution:
        """The learner of these candidates, with the widest context's span for all contexts.

        Args:
            hypotheses: The candidates; a ``LabelTable`` of several contexts makes a learner of so many.
            rounds: T >= 2, that the learner is tuned to.
            channel: Makes a channel from levels, ``span`` and ``parameters``: a class of ``channels.all_channels``.
            reference: The base measure of levels, ``UniformMixture()`` by default.
            rule, rate: As for the class.
            **parameters: The channel's, such as ``epsilon``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        measure = UniformMixture() if reference is None else reference
        count = hypotheses.contexts if isinstance(hypotheses, LabelTable) else None
        levels = [measure.levels(hypotheses, rounds, c) for c in ((None,) if count is None else range(count))]
        if channel is not RandomizedLabels:
            parameters.setdefault("span", max(each.span for each in levels))
        return cls(channels=tuple(channel(each, **parameters) for each in levels), rule=rule, rate=rate)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self, *, rounds: int | None = None, answers: int = 1) -> AccountantGraph:
        """The data-independent plan: persons in parallel, each of whom answers in so many rounds.

        Args:
            rounds: The number of rounds, the horizon by default.
            answers: The most rounds that one person answers in; they compose.

        Raises:
            InvalidArgumentError: a number that is not an integer >= 1.
        """
        length = integer("rounds", self.horizon if rounds is None else rounds, low=1)
        each = integer("answers", answers, low=1, high=length)
        return self.channels[0].graph(users=-(-length // each), answers=each)

    def worst_case_neighbours(self) -> tuple[AnyIntArray, AnyIntArray]:
        """Labels of two neighbouring runs, shape (horizon,), in the first context; the first person's differs most.

        Raises:
            InvalidArgumentError: labels without a table.
        """
        levels = self.channels[0].levels
        if not isinstance(levels, TableLevels) or levels.labels is None:
            raise InvalidArgumentError("hypotheses", levels.hypotheses, "have no table of labels", "choose two labels")
        rows = levels.of(np.arange(levels.labels))
        widest = int(np.argmax(np.ptp(rows, axis=0)))
        here = np.zeros(self.horizon, dtype=np.int64)
        there = here.copy()
        here[0], there[0] = int(np.argmax(rows[:, widest])), int(np.argmin(rows[:, widest]))
        return here, there

    # --- learning ----------------------------------------------------------------------------------------------------

    @property
    def horizon(self) -> int:
        """T, the number of rounds that levels and rate are tuned to."""
        return self.channels[0].levels.horizon

    @property
    def experts(self) -> int:
        """K."""
        return self.channels[0].count

    @property
    def sampled(self) -> bool:
        """Whether a message gives one candidate's loss; else it gives all candidates'."""
        return self.rule != "posterior" and self.channels[0].payload in ("bit", "real", "whole")

    @property
    def learning_rate(self) -> float:
        """eta, per unit of loss: weights are softmax(-eta * sums of losses)."""
        if self.rate is not None:
            return self.rate
        return rules.learning_rate(self.channels[0], self.rule)

    def _channel(self, context: int) -> Channel:
        return self.channels[integer("context", context, low=0, high=len(self.channels) - 1)]

    def risk_bound(self) -> float:
        """What the expected risk of ``horizon`` rounds is at most, if the truth is a candidate, nats.

        Contexts may be chosen by whoever has seen all earlier messages. At another ``rate`` than the rule's only where
        losses are centred.

        Raises:
            InvalidArgumentError: a rule or rate for which no bound is known, or one at which the bound does not hold.
        """
        return rules.risk_bound(self.channels[0], self.rule, rate=self.rate)

    def losses(self, messages: Messages, context: int = 0) -> Losses:
        """What messages are worth: indices and losses of their shape, or None and losses of all candidates.

        Raises:
            InvalidArgumentError: messages of another channel, or no such context.
        """
        return rules.losses(self._channel(context), self.rule, messages)

    # --- experiments -------------------------------------------------------------------------------------------------

    def risk(self, truth: int | npt.ArrayLike, context: int = 0) -> KLRisk:
        """How predictions are rated: the true law is a candidate, or a law of its own, shape (M,).

        Raises:
            InvalidArgumentError: no such candidate or context, no law, or labels without a table (``risk_at``).
        """
        levels = self._channel(context).levels
        return KLRisk.finite(_law(levels.hypotheses, truth, levels.context), levels.masses())

    def risk_at(self, truth: int, labels: npt.ArrayLike, *, nodes: npt.ArrayLike | None = None) -> KLRisk:
        """The same for labels without a table: at these labels, which have these weights in a quadrature rule.

        Args:
            truth: The true candidate.
            labels: Shape (m,).
            nodes: Weights, shape (m,); by default labels are counted one by one.
        """
        levels = self.channels[0].levels
        points = array("labels", labels, ndim=1, data=True)
        weight = np.ones(len(points)) if nodes is None else nodes
        log_truth = levels.hypotheses.log_masses(points, levels.context)[:, _candidate(levels.hypotheses, truth)]
        return KLRisk.quadrature(weight, log_truth, levels.log_masses(points).T)

    def simulate(
        self,
        truth: int | npt.ArrayLike,
        rng: np.random.Generator,
        runs: int,
        *,
        labels: npt.ArrayLike | None = None,
        contexts: npt.ArrayLike | None = None,
        rounds: int | None = None,
        block: int = 1,
        marks: Sequence[int] = (),
        risks: KLRisk | Sequence[KLRisk] | None = None,
    ) -> Runs:
        """Whole runs, vectorised over runs; see ``distribution.runs.play``.

        Args:
            truth: Where labels come from: a candidate, or a law of shape (M,), in which case no guarantee of the
                learner's risk holds; with contexts, also one law for each, shape (contexts, M).
            rng: The source of all randomness.
            runs: At least 1.
            labels: Shape (rounds,), the labels of all runs, instead of draws from the truth, which then rates only.
            contexts: Shape (rounds,), public and the same in all runs.
            rounds: The horizon by default.
            block: Rounds between which weights stand still; 1 is the learner itself, 10 all but the same and faster.
            marks: Further rounds at whose end the risk is wanted.
            risks: How predictions are rated, for each context, where labels have no table: see ``risk_at``.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        length, count = (
            integer("rounds", self.horizon if rounds is None else rounds, low=1),
            integer("runs", runs, low=1),
        )
        places = range(len(self.channels))
        laws: list[Any] = [truth] * len(self.channels)
        if np.ndim(truth) == 2:
            laws = list(array("truth", truth, shape=(len(self.channels), None)))
        rated = [self.risk(laws[c], c) for c in places] if risks is None else risks
        seen = None if contexts is None else context_numbers(contexts, length, len(self.channels))
        given = None if labels is None else as_array("labels", labels, data=True)
        if given is not None and given.shape != (length,):
            raise InvalidDataError("labels", given, "is a shape that does not fit", f"give ({length},)")

        def told(first: int, last: int, context: int, at: npt.NDArray[np.intp] | slice) -> Losses:
            size = last - first if isinstance(at, slice) else len(at)
            levels = self.channels[context].levels
            if given is None:
                drawn = _labels(levels.hypotheses, laws[context], count * size, rng, levels.context).reshape(
                    count, size
                )
            else:
                drawn = np.broadcast_to(given[first:last][at], (count, size))
            return self.losses(self.channels[context].simulate(drawn, rng), context)

        def source(first: int, last: int) -> Losses:
            if seen is None:
                return told(first, last, 0, slice(None))
            parts = [
                (at, *told(first, last, c, at)) for c in places if len(at := np.flatnonzero(seen[first:last] == c))
            ]
            return _scattered(parts, count, last - first, self.experts)

        return play(
            source, rated, rounds=length, runs=count, rate=self.learning_rate, block=block, contexts=seen, marks=marks
        )


def _candidate(hypotheses: Hypotheses, truth: object) -> int:
    return integer("truth", truth, low=0, high=hypotheses.count - 1)


def _law(hypotheses: Hypotheses, truth: object, context: Any) -> FloatArray:
    table = hypotheses.table(context)
    if np.ndim(truth) == 0:  # type: ignore[arg-type]
        return np.asarray(table[_candidate(hypotheses, truth)])
    return array("truth", truth, shape=(table.shape[1],), low=0.0, high=1.0)


def _labels(
    hypotheses: Hypotheses, truth: object, count: int, rng: np.random.Generator, context: Any
) -> npt.NDArray[Any]:
    if np.ndim(truth) == 0:  # type: ignore[arg-type]
        return hypotheses.sample(_candidate(hypotheses, truth), count, rng, context)
    return draw(_law(hypotheses, truth, context), count, rng)


def _scattered(parts: list[tuple[Any, AnyIntArray | None, FloatArray]], runs: int, size: int, experts: int) -> Losses:
    """Messages of several contexts in the order of their rounds."""
    vector = parts[0][1] is None
    index = np.empty((runs, size), dtype=np.int64)
    found = np.empty((runs, size, experts) if vector else (runs, size))
    for at, spoken, losses in parts:
        found[:, at] = losses
        if spoken is not None:
            index[:, at] = spoken
    return (None if vector else index), found
