"""Which of K known laws is it? Asked of persons who each send one private message about one draw of their own.

A batch of T persons is a run of online distribution learning without contexts; the mean of its predictions is an
estimate of the law, whose expected total variation from the truth is at most sqrt(R/(2T)), R the risk's bound. The
median trick turns "near with probability 2/3" into "near with probability 1 - beta": m = ceil(18 ln(1/beta)) disjoint
batches, and of their estimates the one that lies nearest to more than half of them.

Nobody waits for anybody: all messages can be sent at once. Only laws among the K are promised to be found; how far an
estimate is from any other law is not known.

Sources: Sima, Wu, Milenkovic & Szpankowski 2024, section 6; the median trick, which they name, after Devroye & Lugosi
2001 and by Hoeffding's inequality.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import SAME, AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, integer, probability
from hockeystick.learners.common.arguments import epsilon as _epsilon
from hockeystick.learners.distribution.channels.all_channels import OneBit
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import UniformMixture
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.risk_bounds import (
    mixture_span,
    one_bit_risk,
    rounds_for_total_variation,
    total_variation,
)
from hockeystick.mechanisms import RandomizedResponse
from hockeystick.mechanisms.contract import arguments

_SUM_TOLERANCE = 1e-6


def batches_for(beta: float) -> int:
    """m = ceil(18 ln(1/beta)): so many batches, each near with probability 2/3, have a median that is near.

    That more than half of them are near fails with probability at most e^(-m/18), by Hoeffding's inequality.

    Raises:
        InvalidArgumentError: ``beta`` is not in (0, 1).
    """
    return math.ceil(18.0 * math.log(1.0 / probability("beta", beta, open=True)))


def distances(laws: npt.ArrayLike, others: npt.ArrayLike) -> FloatArray:
    """Total variation, in [0, 1], between laws of shape (.., m, M) and (.., n, M): shape (.., m, n).

    Raises:
        InvalidArgumentError: a row that is not a probability distribution.
    """
    first, second = _laws("laws", laws), _laws("others", others)
    return np.asarray(0.5 * np.abs(first[..., :, None, :] - second[..., None, :, :]).sum(axis=-1))


def median_estimate(estimates: npt.ArrayLike) -> tuple[AnyIntArray, FloatArray]:
    """Of m estimates the one that has more than half of all (itself among them) within the least distance.

    If more than half are within r of the truth, the least distance is at most 2 r, and this one is within 3 r of the
    truth: two majorities have a member in common. No radius has to be known.

    Args:
        estimates: Laws, shape (.., m, M).

    Returns:
        The place of the estimate, shape (..), and that least distance, shape (..).

    Raises:
        InvalidArgumentError: a row that is not a probability distribution.
    """
    laws = _laws("estimates", estimates)
    apart = np.sort(distances(laws, laws), axis=-1)
    radius = apart[..., laws.shape[-2] // 2]  # of a majority: m // 2 others at most so far, and itself
    return np.asarray(np.argmin(radius, axis=-1)), np.asarray(np.min(radius, axis=-1))


def nearest(estimate: npt.ArrayLike, candidates: npt.ArrayLike) -> AnyIntArray:
    """The candidate of least total variation from each estimate, shape (..): at most twice as far from the truth.

    Args:
        estimate: Laws, shape (.., M).
        candidates: Shape (K, M).

    Raises:
        InvalidArgumentError: a row that is not a probability distribution.
    """
    laws = _laws("estimate", estimate)
    return np.asarray(np.argmin(distances(laws[..., None, :], candidates)[..., 0, :], axis=-1))


@frozen(eq=False)
class Selections:
    """What trials have selected, trials on the leading axis.

    Attributes:
        estimates: The mean prediction of each batch, shape (trials, batches, M).
        chosen: The batch whose estimate is the result, shape (trials,).
        estimate: The result, shape (trials, M).
        candidate: The candidate nearest to it, shape (trials,).
        by_mean_loss: The candidate of least mean loss over all batches, shape (trials,): another decoder of the same
            messages, better on easy candidates and without a bound.
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
    """The plan: what a batch learns with, and how many batches there are.

    Persons are neighbours if one's label is replaced by any other (local adjacency).

    Args:
        learner: Of one context, with a table of labels; its horizon is the number of persons in a batch.
        batches: m >= 1, of disjoint persons.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    learner: OnlineDistribution = field(converter=_learner)
    batches: int = field(default=1, converter=_batches)

    @classmethod
    def planned(cls, candidates: LabelTable, *, alpha: float, beta: float, epsilon: float) -> HypothesisSelection:
        """One-bit messages of enough persons for an estimate within 9 alpha with probability 1 - beta.

        The number of persons comes from the explicit bound for any K candidates; levels are those of these candidates.

        Raises:
            InvalidArgumentError: an argument outside its domain, or candidates with contexts.
        """
        if not isinstance(candidates, LabelTable) or candidates.contexts is not None:
            raise InvalidArgumentError(
                "candidates", candidates, "is not a LabelTable of one context", "give a (K, M) table"
            )
        experts = candidates.count

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
        """How many persons send a message each."""
        return self.batches * self.learner.horizon

    def graph(self) -> AccountantGraph:
        """The data-independent plan: all persons of all batches in parallel, one message each; all else is for free."""
        size = self.persons
        return (
            AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
            .source("persons", size=size)
            .release("messages", self.learner.channels[0].event(), reads=["persons"], reach=SAME if size > 1 else None)
            .post("estimates", reads=["messages"])
            .post("selection", reads=["estimates"])
        )

    def expected_distance(self) -> float:
        """What the expected total variation of one batch's estimate is at most, if the truth is a candidate.

        Raises:
            InvalidArgumentError: a learner without an explicit bound.
        """
        return total_variation(risk=self.learner.risk_bound(), rounds=self.learner.horizon)

    def failure(self) -> float:
        """With what probability the result is farther than 9 expected distances from the truth, at most: e^(-m/18)."""
        return math.exp(-self.batches / 18.0)

    def simulate(
        self, truth: int | npt.ArrayLike, rng: np.random.Generator, trials: int, *, block: int = 10
    ) -> Selections:
        """Independent trials; batches of all trials run side by side.

        Args:
            truth: The true candidate, or any law, shape (M,), for which nothing is promised.
            rng: The source of all randomness.
            trials: At least 1.
            block: Rounds between which weights stand still.

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


# --- a baseline ------------------------------------------------------------------------------------------------------


def _candidates(value: object) -> LabelTable:
    if not isinstance(value, LabelTable) or value.contexts is not None:
        raise InvalidArgumentError("candidates", value, "is not a LabelTable of one context", "give a (K, M) table")
    return value


def _persons(value: object) -> int:
    return integer("persons", value, low=1)


@frozen(kw_only=True, eq=False)
class ScheffeSelection:
    """Baseline: persons are shared out among the pairs of candidates, and say which of theirs makes the label likelier.

    That bit is told by randomised response. A pair is won by the candidate whose chance of the bit is nearer to the
    estimate, and the selection is who wins most pairs. In the worst case it needs some K^2 persons, where messages
    about a random candidate need K; where all candidates are easily told apart it needs fewer than those.

    Args:
        candidates: Of one context.
        epsilon: > 0, for each message.
        persons: At least one for each of the K (K - 1)/2 pairs.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    candidates: LabelTable = field(converter=_candidates)
    epsilon: float = field(converter=_epsilon)
    persons: int = field(converter=_persons)

    def __attrs_post_init__(self) -> None:
        pairs = len(self._pairs[0])
        if self.persons < pairs:
            raise InvalidArgumentError("persons", self.persons, f"are fewer than the {pairs} pairs", "ask more")

    def graph(self) -> AccountantGraph:
        """The data-independent plan: all persons in parallel, one bit each; whose pair is whose is public."""
        reach = SAME if self.persons > 1 else None
        return (
            AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
            .source("persons", size=self.persons)
            .release("bits", self._response.event(), reads=["persons"], reach=reach)
            .post("selection", reads=["bits"])
        )

    def chances(self, truth: int | npt.ArrayLike) -> FloatArray:
        """Each pair's probability of a True, before randomised response, shape (pairs,)."""
        table, (first, second) = self.candidates.table(), self._pairs
        if np.ndim(truth) == 0:
            law = table[integer("truth", truth, low=0, high=len(table) - 1)]
        else:
            law = array("truth", _laws("truth", truth), shape=(table.shape[1],))
        return np.asarray((table[first] > table[second]) @ law)

    def simulate(self, truth: int | npt.ArrayLike, rng: np.random.Generator, trials: int) -> AnyIntArray:
        """The candidates selected in independent trials, shape (trials,).

        A pair's bits are independent and of one law, so that their number is drawn, which is binomial, and not they.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        count, (first, second), table = integer("trials", trials, low=1), self._pairs, self.candidates.table()
        asked = np.full(len(first), self.persons // len(first))
        asked[: self.persons % len(first)] += 1
        lie = self._response.lie_probability()
        true = lie + (1.0 - 2.0 * lie) * self.chances(truth)
        told = arguments.generator(rng).binomial(asked, true, (count, len(asked)))
        estimate = (told / asked - lie) / (1.0 - 2.0 * lie)
        better = table[first] > table[second]
        for_first, for_second = (np.sum(better * table[side], axis=1) for side in (first, second))
        won = np.where(np.abs(estimate - for_first) <= np.abs(estimate - for_second), first, second)
        wins = np.zeros((count, len(table)), dtype=np.int64)
        np.add.at(wins, (np.arange(count)[:, None], won), 1)
        return np.asarray(np.argmax(wins, axis=1))

    @property
    def _pairs(self) -> tuple[AnyIntArray, AnyIntArray]:
        return np.triu_indices(self.candidates.count, 1)

    @property
    def _response(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon, categories=2)


def _laws(name: str, value: npt.ArrayLike) -> FloatArray:
    found = array(name, value, low=0.0)
    if found.ndim < 1 or np.abs(found.sum(axis=-1) - 1.0).max(initial=0.0) > _SUM_TOLERANCE:
        raise InvalidArgumentError(
            name, found.shape, "holds a row that is not a probability distribution", "give masses that sum to 1"
        )
    return found
