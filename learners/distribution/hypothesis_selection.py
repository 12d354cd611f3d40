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
    first, second = _laws("laws", laws), _laws("others", others)
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
    laws = _laws("estimates", estimates)
    apart = np.sort(distances(laws, laws), axis=-1)
    radius = apart[..., laws.shape[-2] // 2]  # of a majority: m // 2 others, and itself
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
    laws = _laws("estimate", estimate)
    return np.asarray(np.argmin(distances(laws[..., None, :], candidates)[..., 0, :], axis=-1))


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
        experts = _candidates(candidates).count

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


# --- a baseline ------------------------------------------------------------------------------------------------------


def _candidates(value: object) -> LabelTable:
    if not isinstance(value, LabelTable) or value.contexts is not None:
        raise InvalidArgumentError("candidates", value, "is not a LabelTable of one context", "give a (K, M) table")
    return value


def _persons(value: object) -> int:
    return integer("persons", value, low=1)


@frozen(kw_only=True, eq=False)
class ScheffeSelection:
    """A baseline: each person is assigned a pair of candidates and reports which of the two makes the label likelier.

    The report is one bit with randomised response. A pair is won by the candidate whose probability of the bit is
    nearer to the estimate, and the candidate that wins most pairs is selected. In the worst case it needs about K^2
    persons, while messages about a random candidate need about K; if all candidates are easily distinguished, it needs
    fewer.

    Source: Devroye & Lugosi 2001 (the Scheffe tournament).

    Args:
        candidates: The candidates, of one context.
        epsilon: > 0, for each message.
        persons: At least one for each of the K (K - 1)/2 pairs.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import ScheffeSelection
        >>> from hockeystick.learners.distribution import LabelTable
        >>> candidates = LabelTable([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
        >>> baseline = ScheffeSelection(candidates=candidates, epsilon=2.0, persons=600)
        >>> baseline.simulate(2, np.random.default_rng(1), 4).tolist()
        [2, 2, 2, 2]
    """

    candidates: LabelTable = field(converter=_candidates)
    epsilon: float = field(converter=_epsilon)
    persons: int = field(converter=_persons)

    def __attrs_post_init__(self) -> None:
        pairs = len(self._pairs[0])
        if self.persons < pairs:
            raise InvalidArgumentError("persons", self.persons, f"is below the {pairs} pairs", "give more persons")

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: all persons in parallel, one bit each; the pair of a person is public."""
        reach = SAME if self.persons > 1 else None
        return (
            AccountantGraph(adjacency=Adjacency.LOCAL, pinned=True)
            .source("persons", size=self.persons)
            .release("bits", self._response.event(), reads=["persons"], reach=reach)
            .post("selection", reads=["bits"])
        )

    def chances(self, truth: int | npt.ArrayLike) -> FloatArray:
        """Returns the probability of a True for each pair, before randomised response, shape (pairs,)."""
        table, (first, second) = self.candidates.table(), self._pairs
        if np.ndim(truth) == 0:
            law = table[integer("truth", truth, low=0, high=len(table) - 1)]
        else:
            law = array("truth", _laws("truth", truth), shape=(table.shape[1],))
        return np.asarray((table[first] > table[second]) @ law)

    def simulate(self, truth: int | npt.ArrayLike, rng: np.random.Generator, trials: int) -> AnyIntArray:
        """Returns the candidates selected in independent trials, shape (trials,).

        The bits of a pair are i.i.d., so only their binomial number is drawn.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        count, (first, second), table = integer("trials", trials, low=1), self._pairs, self.candidates.table()
        sizes = np.full(len(first), self.persons // len(first))
        sizes[: self.persons % len(first)] += 1
        lie = self._response.lie_probability()
        true = lie + (1.0 - 2.0 * lie) * self.chances(truth)
        ones = arguments.generator(rng).binomial(sizes, true, (count, len(sizes)))
        estimate = (ones / sizes - lie) / (1.0 - 2.0 * lie)
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
