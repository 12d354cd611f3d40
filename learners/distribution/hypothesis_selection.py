"""Selection among K known laws from one private message per person about one draw from the true law.

A batch of T persons is a run of online distribution learning without contexts; the mean of its predictions is an
estimate of the law, whose expected total variation from the truth is at most sqrt(R/(2T)), R the bound on the risk. The
median trick turns "near with probability 2/3" into "near with probability 1 - beta": it takes m = ceil(18 ln(1/beta))
disjoint batches, and of their estimates the one that lies nearest to more than half of them.

All messages can be sent at the same time. The guarantee covers only truths among the K laws; for any other law the
distance of the estimate is not bounded.

Sources: Sima, Wu, Milenkovic & Szpankowski 2024, section 6; the median trick, which they name, after Devroye & Lugosi
2001 and by Hoeffding's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, integer, probability
from hockeystick.learners.distribution.channels.all_channels import OneBit
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import UniformMixture
from hockeystick.learners.distribution.channels.wire import MessageFormat, RefusedMessageError
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.recorded_messages import RecordingServer, RunIdentity, check_complete, sent
from hockeystick.learners.distribution.risk_bounds import (
    mixture_span,
    one_bit_risk,
    rounds_for_total_variation,
    total_variation,
)
from hockeystick.learners.distribution.server import identity
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

_SUM_TOLERANCE = 1e-6


def batches_for(beta: float) -> int:
    """Returns the number of batches m = ceil(18 ln(1/beta)) whose median is near with probability 1 - beta.

    Each batch is near with probability 2/3. By Hoeffding's inequality the probability that at most half of them are
    near is at most e^(-m/18).

    Raises:
        InvalidArgumentError: ``beta`` is not in (0, 1).
    """
    return math.ceil(18.0 * math.log(1.0 / probability("beta", beta, open=True)))


def distances(laws: npt.ArrayLike, others: npt.ArrayLike) -> FloatArray:
    """Returns the total variation, in [0, 1], between laws of shape (.., m, M) and (.., n, M): shape (.., m, n).

    Raises:
        InvalidArgumentError: a row that is not a probability distribution.
    """
    first, second = checked_laws("laws", laws), checked_laws("others", others)
    return np.asarray(0.5 * np.abs(first[..., :, None, :] - second[..., None, :, :]).sum(axis=-1))


def median_estimate(estimates: npt.ArrayLike) -> tuple[AnyIntArray, FloatArray]:
    """Returns the estimate with the least distance within which more than half of all estimates lie.

    If more than half are within r of the truth, the least distance is at most 2 r, and this one is within 3 r of the
    truth, as two majorities have a member in common. r need not be known.

    Args:
        estimates: Laws, shape (.., m, M).

    Returns:
        The index of the estimate, shape (..), and its distance, shape (..).

    Raises:
        InvalidArgumentError: a row that is not a probability distribution.
    """
    rows = checked_laws("estimates", estimates)
    apart = np.sort(distances(rows, rows), axis=-1)
    radius = apart[..., rows.shape[-2] // 2]  # of a majority: m // 2 others, and itself
    return np.asarray(np.argmin(radius, axis=-1)), np.asarray(np.min(radius, axis=-1))


def nearest(estimate: npt.ArrayLike, candidates: npt.ArrayLike) -> AnyIntArray:
    """Returns the candidate nearest in total variation to each estimate, shape (..).

    It is at most twice as far from the truth as the estimate.

    Args:
        estimate: Laws, shape (.., M).
        candidates: Shape (K, M).

    Raises:
        InvalidArgumentError: a row that is not a probability distribution.
    """
    rows = checked_laws("estimate", estimate)
    return np.asarray(np.argmin(distances(rows[..., None, :], candidates)[..., 0, :], axis=-1))


@frozen(eq=False)
class Selections:
    """Results of trials, with trials on the leading axis.

    Attributes:
        estimates: The mean prediction of each batch, shape (trials, batches, M).
        chosen: The batch whose estimate is the result, shape (trials,).
        estimate: The result, shape (trials, M).
        candidate: The candidate nearest to it, shape (trials,).
        by_mean_loss: The candidate with the least mean loss over all batches, shape (trials,): another decoder of the
            same messages, better for easily distinguished candidates, but without a bound.
    """

    estimates: FloatArray = field(repr=False)
    chosen: AnyIntArray
    estimate: FloatArray = field(repr=False)
    candidate: AnyIntArray
    by_mean_loss: AnyIntArray


def _learner(value: object) -> OnlineDistribution:
    if not isinstance(value, OnlineDistribution) or len(value.channels) != 1:
        raise InvalidArgumentError("learner", value, "is not a learner of one context", "use OnlineDistribution.build")
    value.channels[0].levels.masses()  # refuses labels without a table
    return value


def _batches(value: object) -> int:
    return integer("batches", value, low=1)


@frozen(kw_only=True)
class HypothesisSelection:
    """Selection of the true law among K candidates by batches of an online learner and the median trick.

    Neighbouring data differ in one person's label, replaced by any other (local adjacency).

    Source: Sima, Wu, Milenkovic & Szpankowski 2024, section 6.

    Args:
        learner: A learner of one context, with a table of labels; its horizon is the number of persons in a batch.
        batches: m >= 1, the number of batches of disjoint persons.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import HypothesisSelection, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
        >>> learner = OnlineDistribution.build(candidates, rounds=500, epsilon=2.0)
        >>> selection = HypothesisSelection(learner=learner, batches=3)
        >>> selection.persons, selection.simulate(2, np.random.default_rng(1), 4).candidate.tolist()
        (1500, [2, 2, 2, 2])
    """

    learner: OnlineDistribution = field(converter=_learner)
    batches: int = field(default=1, converter=_batches)

    @classmethod
    def planned(cls, candidates: LabelTable, *, alpha: float, beta: float, epsilon: float) -> HypothesisSelection:
        """Returns a selection by one-bit messages whose estimate is within 9 alpha with probability 1 - beta.

        The number of persons follows from the explicit bound for any K candidates; the levels are of these candidates.

        Raises:
            InvalidArgumentError: an argument outside its domain, or candidates with contexts.
        """
        experts = only_context(candidates).count

        def risk(rounds: int) -> float:
            span = mixture_span(rounds=rounds, experts=experts)
            return one_bit_risk(rounds=rounds, experts=experts, epsilon=epsilon, span=span)

        rounds = rounds_for_total_variation(alpha, risk)
        learner = OnlineDistribution.build(
            candidates, rounds=rounds, channel=OneBit, reference=UniformMixture(), epsilon=epsilon
        )
        return cls(learner=learner, batches=batches_for(beta))

    @property
    def persons(self) -> int:
        """The number of persons, who send one message each."""
        return self.batches * self.learner.horizon

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: all persons of all batches in parallel, one message each."""
        size = self.persons
        return (
            AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
            .source("persons", size=size)
            .release("messages", self.learner.channels[0].event(), reads=["persons"], reach=SAME if size > 1 else None)
            .post("estimates", reads=["messages"])
            .post("selection", reads=["estimates"])
        )

    def shuffled_graph(self) -> AccountantGraph:
        """Returns the plan of those who see the selection, or the messages after a shuffler that mixes each batch.

        The ε is central, under replace-one. All messages can be sent at the same time, and a person is in one batch.

        Raises:
            InvalidArgumentError: messages with neither Gaussian noise nor a finite pure ε.
        """
        return self.learner.shuffled_graph()

    def privatise(
        self,
        label: object,
        *,
        person: int,
        run: bytes,
        noise: Noise | None = None,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
    ) -> bytes:
        """Returns the bytes of a person's message, on a device; every value of ``label`` gets a message.

        Args:
            label: The private label.
            person: 0 .. persons - 1, public; persons of one batch are numbered one after another.
            run: 8 bytes that identify the run.
            noise: Secure noise by default.
            ledger: A ledger of this person, under local adjacency; it is charged before the first coin.
            name, reads: As for a mechanism's release.

        Raises:
            InvalidArgumentError: an argument outside its domain; nothing is charged.
            HockeystickError: the ledger refuses; nothing is drawn.
        """
        number, channel = integer("person", person, low=0, high=self.persons - 1), self.learner.channels[0]
        return sent(
            channel.event(), lambda: channel.privatise(label, noise=noise), MessageFormat.of(channel, run=run), number,
            noise=noise, ledger=ledger, name=name, reads=reads,
        )  # fmt: skip

    def server(self, *, run: bytes) -> SelectionServer:
        """Returns the server that receives the messages of a run, in any order."""
        return SelectionServer(self, run=run)

    def expected_distance(self) -> float:
        """Returns a bound on the expected total variation of the estimate of a batch, if the truth is a candidate.

        Raises:
            InvalidArgumentError: a learner without an explicit bound.
        """
        return total_variation(risk=self.learner.risk_bound(), rounds=self.learner.horizon)

    def failure(self) -> float:
        """Returns e^(-m/18), a bound on the probability that the result is farther than 9 expected distances."""
        return math.exp(-self.batches / 18.0)

    def simulate(
        self, truth: int | npt.ArrayLike, rng: np.random.Generator, trials: int, *, block: int = 10
    ) -> Selections:
        """Returns independent trials; batches of all trials are vectorised.

        Args:
            truth: The true candidate, or any law, shape (M,), for which the guarantee does not hold.
            rng: The generator of all randomness.
            trials: The number of trials, >= 1.
            block: The number of rounds between updates of the weights.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        count = integer("trials", trials, low=1)
        runs = self.learner.simulate(truth, rng, count * self.batches, block=block)
        levels = self.learner.channels[0].levels
        return self._selected(runs.mean_weights @ levels.masses(), runs.totals, runs.counts, count)

    def _selected(self, means: FloatArray, totals: FloatArray, counts: FloatArray, trials: int) -> Selections:
        shape: tuple[Any, ...] = (trials, self.batches, -1)
        estimates = means.reshape(shape)
        chosen = median_estimate(estimates)[0]
        estimate = estimates[np.arange(trials), chosen]
        with np.errstate(invalid="ignore", divide="ignore"):
            losses = totals.reshape(shape).sum(axis=1) / counts.reshape(shape).sum(axis=1)
        levels = self.learner.channels[0].levels
        return Selections(
            estimates=estimates,
            chosen=chosen,
            estimate=estimate,
            candidate=nearest(estimate, levels.hypotheses.table(levels.context)),
            by_mean_loss=np.asarray(np.argmin(np.where(np.isnan(losses), np.inf, losses), axis=1)),
        )


class SelectionServer(RecordingServer):
    """The server of a ``HypothesisSelection``: messages of persons in any order, then the selection.

    Args:
        rule: The selection.
        run: 8 bytes that identify the run.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners import HypothesisSelection, OnlineDistribution
        >>> from hockeystick.learners.distribution import LabelTable
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> candidates = LabelTable([[0.9, 0.1], [0.1, 0.9]])
        >>> learner = OnlineDistribution.build(candidates, rounds=100, epsilon=2.0)
        >>> rule, noise = HypothesisSelection(learner=learner, batches=3), SimulationNoise(1)
        >>> server = rule.server(run=b"8 bytes.")
        >>> for person in reversed(range(rule.persons)):  # every label is 1
        ...     _ = server.receive(rule.privatise(1, person=person, run=b"8 bytes.", noise=noise))
        >>> found = server.selected()
        >>> found.candidate.tolist(), found.estimates.shape
        ([1], (1, 3, 2))
    """

    def __init__(self, rule: HypothesisSelection, *, run: bytes) -> None:
        if not isinstance(rule, HypothesisSelection):
            raise InvalidArgumentError("rule", type(rule).__name__, "is not a HypothesisSelection", "give one")
        super().__init__(run)
        self.rule = rule
        self._form = MessageFormat.of(rule.learner.channels[0], run=run)

    def selected(self, *, incomplete: bool = False, block: int = 1) -> Selections:
        """Returns the selection as one trial: the mean prediction of each batch, and what follows from these.

        Args:
            incomplete: Whether to decode although messages are missing: a batch is then a shorter run, tuned for the
                whole, whose distance has no bound. A batch without messages predicts the even mixture.
            block: The number of rounds between updates of the weights; 1 is the learner of the bound.

        Raises:
            InvalidArgumentError: messages are missing, or ``block`` is not an integer >= 1.
        """
        check_complete(self.heard, self.rule.persons, incomplete)
        learner, count = self.rule.learner, self.rule.batches
        means, totals, counts = np.full((3, count, learner.experts), 1.0 / learner.experts)
        totals[:], counts[:] = 0.0, 0.0
        for batch, recorded in self._parts.items():
            found = learner.replayed(recorded.messages()[0], block=block)
            means[batch], totals[batch], counts[batch] = found.mean_weights[0], found.totals[0], found.counts[0]
        return self.rule._selected(means @ learner.channels[0].levels.masses(), totals, counts, 1)

    def _place(self, number: int) -> tuple[int, int]:
        if number >= self.rule.persons:
            raise RefusedMessageError("the number is beyond the last person")
        return divmod(number, self.rule.learner.horizon)

    def _number(self, part: int, place: int) -> int:
        return part * self.rule.learner.horizon + place

    def _part(self, part: int) -> tuple[MessageFormat, int]:
        return self._form, self.rule.learner.horizon

    def _identity(self) -> RunIdentity:
        return RunIdentity(rule=repr(identity(self.rule.learner)), parts=self.rule.batches, run=self._form.run.hex())


def only_context(value: object) -> LabelTable:
    """Returns candidates that do not depend on a context."""
    if not isinstance(value, LabelTable) or value.contexts is not None:
        raise InvalidArgumentError("candidates", value, "is not a LabelTable of one context", "give a (K, M) table")
    return value


def checked_laws(name: str, value: npt.ArrayLike) -> FloatArray:
    """Returns rows that are probability distributions, as floats."""
    found = array(name, value, low=0.0)
    if found.ndim < 1 or np.abs(found.sum(axis=-1) - 1.0).max(initial=0.0) > _SUM_TOLERANCE:
        raise InvalidArgumentError(
            name, found.shape, "holds a row that is not a probability distribution", "give masses that sum to 1"
        )
    return found
