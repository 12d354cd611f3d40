"""Online distribution learning under local privacy: predict the law of the next label without seeing any label.

In round t a public context is shown, and the server publishes a law of the next label. Then a person draws a private
label from the true law, one of K candidates, and sends a private message about it. The server runs exponential weights
on the losses that it decodes from messages and predicts the weighted mixture of the smoothed candidates. Its KL risk
grows like sqrt(K T), for any number of labels.

A channel determines the messages and their privacy (:mod:`hockeystick.learners.distribution.channels.all_channels`); a
rule determines how the server uses them (:mod:`hockeystick.learners.distribution.server_rules`).

Source: Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315), Algorithms 1 and 2 and Theorems 4 and 5, corrected;
tuned and posterior rules are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, as_array, integer, one_of, real
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
from hockeystick.learners.distribution.runs import KLRisk, Losses, Runs, context_numbers, play, replay
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
            raise InvalidArgumentError("channels", name, "differs between contexts", "use the same for all contexts")
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
    """The learner: channels, one for each context, and the rule by which the server uses their messages.

    Neighbouring runs differ in one person's label, replaced by any other (local adjacency). The channel provides the
    guarantee; weights, predictions and everything else are post-processing. Contexts may depend on earlier messages,
    but on earlier labels only through them.

    Source: Sima, Wu, Milenkovic & Szpankowski 2024, Algorithms 1 and 2 and Theorems 4 and 5, corrected.

    Args:
        channels: A channel, or one for each context 0, 1, ..: of one kind, with one span and one cost. See ``build``.
        rule: The server's rule. "printed" needs Laplace noise on floats, "misprinted" on vectors.
        rate: The learning rate >= 0, per unit of loss; by default that of the rule.

    Raises:
        InvalidArgumentError: channels that do not fit together, or a rule that does not fit them.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> learner = OnlineDistribution.build(candidates, rounds=1000, epsilon=1.0)
        >>> round(learner.graph().guarantee().epsilon(0.0).upper, 6)
        1.0
        >>> print(f"{learner.shuffled_graph().guarantee().epsilon(1e-6):.3f}")  # after a trusted shuffler
        0.149
        >>> runs = learner.simulate(1, np.random.default_rng(1), 20)  # candidate 1 is the truth
        >>> bool(runs.risk.mean() < learner.risk_bound())
        True
    """

    channels: tuple[Channel, ...] = field(converter=_channels)
    rule: Rule = "tuned"
    rate: float | None = field(default=None, converter=_rate)

    def __attrs_post_init__(self) -> None:
        channel, rule = self.channels[0], self.rule
        one_of("rule", rule, *get_args(Rule))
        if rule == "printed" and not isinstance(channel, (SampledLaplace, VectorLaplace)):
            raise InvalidArgumentError("rule", rule, "is not published for this channel", "use 'tuned'")
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
        """Returns a learner of these candidates, with the span of the widest context for all contexts.

        Args:
            hypotheses: The candidates; a ``LabelTable`` of several contexts gives a learner of as many contexts.
            rounds: T >= 2, the number of rounds to which the learner is tuned.
            channel: A class of ``channels.all_channels``, called with levels, ``span`` and ``parameters``.
            reference: The base measure of levels, ``UniformMixture()`` by default.
            rule, rate: As for the class.
            **parameters: Parameters of the channel, such as ``epsilon``.

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
        """Returns the data-independent plan: persons in parallel, each of whom answers in at most ``answers`` rounds.

        Args:
            rounds: The number of rounds, the horizon by default.
            answers: The largest number of rounds in which one person answers; they compose.

        Raises:
            InvalidArgumentError: a number that is not an integer >= 1.
        """
        length = integer("rounds", self.horizon if rounds is None else rounds, low=1)
        each = integer("answers", answers, low=1, high=length)
        return self.channels[0].graph(users=-(-length // each), answers=each)

    def shuffled_graph(self, *, rounds: int | None = None) -> AccountantGraph:
        """Returns the plan of those who see all messages, or the server's last state, after a trusted shuffler.

        The ε is central, under replace-one, and beside the local one of ``graph``: a person's label may be any other.
        Each person sends one message. Predictions that are published between the rounds depend on the order of the
        messages, so that only the local ε holds for those who see them. The release is a ``Shuffled`` event.

        Args:
            rounds: The number of rounds, the horizon by default.

        Raises:
            InvalidArgumentError: a number that is not an integer >= 2, several contexts, which may depend on earlier
                messages, or messages with neither Gaussian noise nor a finite pure ε.
        """
        if len(self.channels) > 1:
            reason = "are several, and the context of a round may depend on earlier messages, which no shuffler hid"
            raise InvalidArgumentError("channels", len(self.channels), reason, "use a learner of one context")
        return self.channels[0].shuffled_graph(users=self.horizon if rounds is None else rounds)

    def worst_case_neighbours(self) -> tuple[AnyIntArray, AnyIntArray]:
        """Returns the labels of two neighbouring runs, shape (horizon,), in the first context.

        The two labels of the first person have the levels that are farthest apart.

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
        """T, the number of rounds to which levels and rate are tuned."""
        return self.channels[0].levels.horizon

    @property
    def experts(self) -> int:
        """K, the number of candidates."""
        return self.channels[0].count

    @property
    def sampled(self) -> bool:
        """Whether a message gives the loss of one candidate; otherwise it gives those of all."""
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
        """Returns a bound, in nats, on the expected risk of ``horizon`` rounds, if the truth is a candidate.

        An adversary who sees all earlier messages may choose the contexts. With a ``rate`` of its own the learner has
        a bound only if its losses are centred.

        Raises:
            InvalidArgumentError: a rule or rate for which no bound is known.
        """
        return rules.risk_bound(self.channels[0], self.rule, rate=self.rate)

    def losses(self, messages: Messages, context: int = 0) -> Losses:
        """Returns the decoded messages: indices and losses of their shape, or None and losses of all candidates.

        Raises:
            InvalidArgumentError: messages of another channel, or an unknown context.
        """
        return rules.losses(self._channel(context), self.rule, messages)

    def replayed(self, messages: Messages, contexts: npt.ArrayLike | None = None, *, block: int = 1) -> Runs:
        """Returns the run in which the server received n messages in this order; its risk is NaN, as no law is known.

        Args:
            messages: At least one message.
            contexts: Shape (n,), the contexts of their rounds; all 0 by default.
            block: The number of rounds between updates of the weights.

        Raises:
            InvalidArgumentError: messages of another channel, or an unknown context.
        """
        size, places = len(messages.value), range(len(self.channels))
        seen = context_numbers(np.zeros(size) if contexts is None else contexts, size, len(places))
        parts: list[tuple[Any, AnyIntArray | None, FloatArray]] = []
        for c in places:
            if len(at := np.flatnonzero(seen == c)):
                index = None if messages.index is None else messages.index[None, at]
                parts.append((at, *self.losses(Messages(index, messages.value[None, at]), c)))
        alike = KLRisk(entropy=0.0, truth=np.ones(1), masses=np.ones((1, self.experts)))
        source = replay(*_scattered(parts, 1, size, self.experts))
        found = play(source, alike, rounds=size, runs=1, rate=self.learning_rate, block=block)
        return evolve(found, risk=np.full(1, np.nan), curve=np.full((1, len(found.marks)), np.nan))

    # --- experiments -------------------------------------------------------------------------------------------------

    def risk(self, truth: int | npt.ArrayLike, context: int = 0) -> KLRisk:
        """Returns the KL risk of predictions against the true law.

        Args:
            truth: A candidate, or any law, shape (M,).
            context: The context.

        Raises:
            InvalidArgumentError: an unknown candidate or context, or an invalid law; or labels without a table, for
                which use ``risk_at``.
        """
        levels = self._channel(context).levels
        return KLRisk.finite(_law(levels.hypotheses, truth, levels.context), levels.masses())

    def risk_at(self, truth: int, labels: npt.ArrayLike, *, nodes: npt.ArrayLike | None = None) -> KLRisk:
        """Returns the KL risk for labels without a table, by quadrature.

        Args:
            truth: The true candidate.
            labels: The nodes of the quadrature rule, shape (m,).
            nodes: The weights of the rule, shape (m,); by default 1, for labels that are counted one by one.
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
        """Returns whole runs, vectorised over runs; see ``distribution.runs.play``.

        Args:
            truth: The law of labels: a candidate, or a law of shape (M,), for which the bound on the risk does not
                hold; with contexts, also one law for each, shape (contexts, M).
            rng: The generator of all randomness.
            runs: The number of runs, >= 1.
            labels: Shape (rounds,), the labels of all runs. By default they are drawn from the truth.
            contexts: Shape (rounds,), public and the same in all runs.
            rounds: The number of rounds, the horizon by default.
            block: The number of rounds between updates of the weights; 1 is the learner itself, 10 is nearly the same
                and faster.
            marks: Further rounds after which the risk is recorded.
            risks: The risk of predictions for each context, for labels without a table: see ``risk_at``.

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
            raise InvalidDataError("labels", given, "have the wrong shape", f"expected ({length},)")

        def decoded(first: int, last: int, context: int, at: npt.NDArray[np.intp] | slice) -> Losses:
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
                return decoded(first, last, 0, slice(None))
            parts = [
                (at, *decoded(first, last, c, at)) for c in places if len(at := np.flatnonzero(seen[first:last] == c))
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
