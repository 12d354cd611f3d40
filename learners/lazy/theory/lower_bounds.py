"""Lower bounds for private learners that rarely switch: the class, the adversary, and what the argument misses.

Asi, Koren, Liu & Talwar 2024, section 4, bound the regret of every private learner that at each round keeps its expert
or draws a fresh one independently of all else (Condition 4.1), on losses that stay the same for an epoch and are coins
otherwise. Three parts of that argument are here as objects that can be run:

* the class: :class:`Resamplings`, and an exact test of whether a learner's draws are fresh (tree-based learners' are
  not);
* the adversary: :class:`EpochAdversary`; and :class:`ParallelEpochLearner`, which is eps^2-zCDP, lies in the class and
  has *negative* regret on it. The printed proof of Theorem 4.2 adds up privacy over epochs, but people of different
  epochs are paid in parallel. The theorem's statement is thereby neither proved nor refuted: its curve is a reference,
  :func:`printed_regret_floor`;
* the price of one epoch (Lemma 4.4), sharp: :func:`repeated_loss_floor`.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, Reach
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import array, integer, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition, PrintedFloor
from hockeystick.learners.experts.expert_losses import checked_losses, opposite_halves, regret_floor
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts
from hockeystick.mechanisms import ExponentialMechanism

# --- the class of learners -------------------------------------------------------------------------------------------


@frozen(eq=False)
class Resamplings:
    """What a learner of the class publishes, in R runs: when it drew an expert, and which.

    Attributes:
        rounds: T, rounds per run.
        times: Shape ``(R, m)``, ascending along a run: the round (0-based) from which the i-th draw is played; T where
            a run has fewer than m draws. Round 0 is always the first.
        samples: Shape ``(R, m)``: the expert drawn; 0 where there is none.
    """

    rounds: int
    times: AnyIntArray
    samples: AnyIntArray

    def actions(self) -> AnyIntArray:
        """The expert played in each round, shape ``(R, rounds)``."""
        runs, draws = self.times.shape
        played = np.zeros((runs, self.rounds), dtype=np.int64)
        drawn = self.times < self.rounds
        rows = np.nonzero(drawn)[0]
        order = np.broadcast_to(np.arange(draws), self.times.shape)
        played[rows, self.times[drawn]] = order[drawn]
        latest = np.maximum.accumulate(played, axis=1)
        found: AnyIntArray = np.take_along_axis(self.samples, latest, axis=1)
        return found


def resamplings(transcripts: Transcripts, *, batch: int, rounds: int) -> Resamplings:
    """The draws of the lazy learner's runs; its shadow, which is never played, is not among them.

    Args:
        transcripts: R runs of n batches.
        batch: Rounds per batch.
        rounds: T; n must be ceil(rounds / batch).
    """
    batch = integer("batch", batch, low=1)
    rounds = integer("rounds", rounds, low=1)
    runs, batches = transcripts.actions.shape
    if batches != -(-rounds // batch):
        raise InvalidArgumentError("transcripts", (runs, batches), f"has not the batches of {rounds} rounds by {batch}")
    drawn = transcripts.switched.copy()
    drawn[:, 0] = True
    most = int(drawn.sum(axis=1).max())
    times = np.full((runs, most), rounds, dtype=np.int64)
    samples = np.zeros((runs, most), dtype=np.int64)
    rows, columns = np.nonzero(drawn)
    place = (np.cumsum(drawn, axis=1) - 1)[rows, columns]
    times[rows, place] = columns * batch
    samples[rows, place] = transcripts.actions[rows, columns]
    return Resamplings(rounds, times, samples)


def fresh_draws_pvalue(found: Resamplings, log_law: npt.ArrayLike) -> float:
    """An exact p-value of the hypothesis that every draw is fresh, from the stated law of its round.

    Under Condition 4.1, among the runs that draw for round t and played z before, the number of draws of each expert is
    binomial, whatever the runs did earlier. All these counts are tested together (Bonferroni); a draw that leans on the
    noise of the draw before it, as tree-based learners' do, is told by the expert played before.

    Args:
        found: R runs; few experts, so that counts are large enough to say something.
        log_law: Shape ``(rounds, experts)``: log-probabilities of the measure from which round t's expert is drawn.

    Returns:
        A number in [0, 1]: at most x with probability at most x if the hypothesis holds.
    """
    law = np.exp(array("log_law", log_law, ndim=2, shape=(found.rounds, None)))
    experts = law.shape[1]
    drawn = found.times < found.rounds
    before = np.full_like(found.samples, experts)  # before the first draw nothing was played
    before[:, 1:] = found.samples[:, :-1]
    cell = (found.times[drawn] * (experts + 1) + before[drawn]) * experts + found.samples[drawn]
    counts = np.bincount(cell, minlength=found.rounds * (experts + 1) * experts).reshape(-1, experts + 1, experts)
    totals = counts.sum(axis=2, keepdims=True)
    seen = np.broadcast_to(totals > 0, counts.shape)
    k, n = counts[seen], np.broadcast_to(totals, counts.shape)[seen]
    q = np.broadcast_to(law[:, None, :], counts.shape)[seen]
    tails = np.minimum(stats.binom.cdf(k, n, q), stats.binom.sf(k - 1, n, q))
    # The number of cells is fixed beforehand; how many are met depends on the runs.
    return float(min(1.0, 2.0 * counts.size * tails.min(initial=1.0)))


# --- the adversary and the learner that beats it ---------------------------------------------------------------------


def _epoch(value: object) -> int:
    return integer("epoch", value, low=2)


@frozen(kw_only=True)
class EpochAdversary:
    """Losses that are fair coins, drawn once per epoch and expert and repeated for the whole epoch.

    There are E = floor((T eps)^(4/3)) epochs of floor(T/E) rounds (Asi et al. 2024, proof of Theorem 4.2). Rounds that
    are left over have loss 0 for every expert, so they add to nobody's regret.

    Args:
        rounds: T >= 1.
        experts: d >= 2.
        epsilon: In [1/T, T^(-1/4)]: outside there is no epoch, or epochs are shorter than a round.
    """

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    epsilon: float = field(converter=arguments.epsilon)

    def __attrs_post_init__(self) -> None:
        if not 1 <= self.epochs <= self.rounds:
            low, high = 1.0 / self.rounds, self.rounds**-0.25
            raise InvalidArgumentError("epsilon", self.epsilon, f"is not in [1/T, T^(-1/4)] = [{low:g}, {high:g}]")

    @property
    def epochs(self) -> int:
        """E."""
        # A number that is whole but for rounding counts as whole.
        return math.floor(math.pow(self.rounds * self.epsilon, 4.0 / 3.0) * (1.0 + 1e-12))

    @property
    def epoch(self) -> int:
        """Rounds per epoch."""
        return self.rounds // self.epochs

    def losses(self, rng: np.random.Generator) -> FloatArray:
        """One loss stream, shape ``(rounds, experts)``."""
        stream = np.zeros((self.rounds, self.experts))
        coins = rng.integers(0, 2, size=(self.epochs, self.experts))
        stream[: self.epochs * self.epoch] = np.repeat(coins, self.epoch, axis=0)
        return stream

    def expected_floor(self) -> float:
        """Exact expected total loss of the best expert: epoch * E min of d binomials."""
        spread = 6.0 * math.sqrt(self.epochs)  # 12 standard deviations: what is beyond weighs less than 1e-30
        low = max(0, math.floor(self.epochs / 2.0 - spread))
        high = min(self.epochs, math.ceil(self.epochs / 2.0 + spread))
        least = low + float(np.sum(stats.binom.sf(np.arange(low, high), self.epochs, 0.5) ** self.experts))
        return self.epoch * least


@frozen(kw_only=True)
class ParallelEpochLearner:
    """Watches the first half of every epoch, then draws an expert for its second half by that half's losses alone.

    In the first half of an epoch of b rounds (floor(b/2) of them) it plays a uniform draw, in the second a draw with
    weights exp(-sqrt(2) eps * losses of the first half). A person is in one epoch, so draws compose in parallel: the
    learner is eps^2-zCDP however many epochs there are. Neighbouring streams differ in one round's losses, replaced by
    any others in [0, 1]; the adversary may be adaptive.

    Args:
        rounds: T.
        experts: d >= 2.
        epoch: b in 2 .. T, rounds per epoch. Rounds after the last whole epoch keep the last expert.
        epsilon: > 0; the learner is epsilon^2-zCDP.
    """

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    epoch: int = field(converter=_epoch)
    epsilon: float = field(converter=arguments.epsilon)

    def __attrs_post_init__(self) -> None:
        if self.epoch > self.rounds:
            raise InvalidArgumentError("epoch", self.epoch, f"exceeds rounds={self.rounds}", "use shorter epochs")

    @property
    def epochs(self) -> int:
        """Number of whole epochs E."""
        return self.rounds // self.epoch

    @property
    def watched(self) -> int:
        """Rounds of an epoch that are watched, floor(b/2)."""
        return self.epoch // 2

    @property
    def learning_rate(self) -> float:
        """sqrt(2) eps, per unit of loss."""
        return math.sqrt(2.0) * self.epsilon

    @property
    def draw(self) -> ExponentialMechanism:
        """One draw, for scores -learning_rate*(losses watched); one person moves a score by at most learning_rate."""
        return ExponentialMechanism(1.0, sensitivity=self.learning_rate)

    def graph(self) -> AccountantGraph:
        """The data-independent plan: one draw per epoch, each reading its own epoch alone."""
        return (
            AccountantGraph(
                adjacency=Adjacency.REPLACE_ONE,
                pinned=True,
                assumptions=("every loss lies in [0, 1]", "each person is one round"),
            )
            .source("epochs", size=self.epochs)
            .release("draw", self.draw.event(), reads=("epochs",), reach=Reach(0, 0))
        )

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Two streams that differ in round 0: losses 1 on one half of the experts, or on the other; 0 elsewhere."""
        return opposite_halves(self.rounds, self.experts)

    def log_law(self, losses: npt.ArrayLike) -> FloatArray:
        """Log-probabilities from which round t's expert is or would be drawn, shape ``(rounds, experts)``."""
        stream = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        law = np.full(stream.shape, -math.log(self.experts))
        second = np.repeat(self._draws(stream), self.epoch, axis=0)
        whole = second.shape[0]
        chosen = np.arange(whole) % self.epoch >= self.watched
        law[:whole][chosen] = second[chosen]
        law[whole:] = second[-1]
        return law

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Resamplings:
        """``runs`` independent runs, two draws an epoch, runs on the leading axis."""
        stream = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        runs = integer("runs", runs, low=1)
        starts = np.arange(self.epochs) * self.epoch
        times = np.stack([starts, starts + self.watched], axis=1).ravel()
        samples = np.empty((runs, 2 * self.epochs), dtype=np.int64)
        samples[:, ::2] = rng.integers(0, self.experts, size=(runs, self.epochs))
        for e, weights in enumerate(np.exp(self._draws(stream))):
            sums = np.cumsum(weights)
            samples[:, 2 * e + 1] = np.searchsorted(sums[:-1], rng.random(runs) * sums[-1], side="right")
        return Resamplings(self.rounds, np.broadcast_to(times, samples.shape), samples)

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> AnyIntArray:
        """The expert played in each round of one simulated run (seeded, so not a private release)."""
        played: AnyIntArray = self.simulate(losses, rng, 1).actions()[0]
        return played

    def log_likelihood_ratio(self, found: Resamplings, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """ln P(draws | losses0) / P(draws | losses1), one number per run."""
        law0, law1 = (
            self._draws(checked_losses(name, given, rounds=self.rounds, experts=self.experts))
            for name, given in (("losses0", losses0), ("losses1", losses1))
        )
        drawn = found.samples[:, 1::2]
        ratio: FloatArray = (law0 - law1)[np.arange(self.epochs), drawn].sum(axis=1)
        return ratio

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Exact expected regret on ``losses`` of shape (rounds, experts)."""
        stream = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        return float(np.sum(np.exp(self.log_law(stream)) * stream)) - regret_floor(stream)[1]

    def expected_regret_on(self, adversary: EpochAdversary) -> float:
        """Exact expected regret over the adversary's coins and the learner's, without simulation.

        Raises:
            InvalidArgumentError: the adversary's rounds, experts or epochs are not this learner's.
        """
        if (adversary.rounds, adversary.experts, adversary.epoch) != (self.rounds, self.experts, self.epoch):
            raise InvalidArgumentError("adversary", adversary, "has other rounds, experts or epochs than the learner")
        bad = np.arange(self.experts + 1)  # experts whose coin is 1
        weight = bad * math.exp(-self.learning_rate * self.watched)
        missed = float(np.sum(stats.binom.pmf(bad, self.experts, 0.5) * weight / (weight + self.experts - bad)))
        # Further epochs of the learner lie in the rounds that the adversary leaves over.
        loss = adversary.epochs * (0.5 * self.watched + missed * (self.epoch - self.watched))
        return loss - adversary.expected_floor()

    def _draws(self, stream: FloatArray) -> FloatArray:
        """Log-probabilities of the second half's draw in each epoch, shape ``(epochs, experts)``."""
        whole = stream[: self.epochs * self.epoch].reshape(self.epochs, self.epoch, self.experts)
        scores = -self.learning_rate * whole[:, : self.watched].sum(axis=1)
        found: FloatArray = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return found


def printed_regret_floor(*, rounds: int, experts: int, epsilon: float) -> PrintedFloor:
    """The printed lower bound sqrt(T) + T^(1/3) eps^(-2/3) for eps^2-zCDP learners of the class: a reference, unproven.

    The second condition is the construction's own: without it epochs are shorter than a round.
    """
    rounds = integer("rounds", rounds, low=1)
    experts = integer("experts", experts, low=2)
    epsilon = arguments.epsilon(epsilon)
    least, most = 100.0 * math.log(experts * rounds) ** 1.5 / rounds, rounds**-0.25
    return PrintedFloor(
        math.sqrt(rounds) + rounds ** (1.0 / 3.0) * epsilon ** (-2.0 / 3.0),
        (
            Condition("epsilon >= 100 ln(dT)^(3/2) / T", epsilon, least, epsilon >= least),
            Condition("epsilon <= T^(-1/4)", epsilon, most, epsilon <= most),
        ),
    )


# --- the price of one epoch ------------------------------------------------------------------------------------------


def repeated_loss_law(copies: int, epsilon: float, delta: float = 0.0) -> FloatArray:
    """How the best private rule for two experts chooses: P(it plays expert 0 | expert 0 lost in k of T copies).

    Losses are (c, 1 - c) in every copy. The rule is (epsilon, delta)-DP under replacement of one copy, symmetric in the
    experts, and attains :func:`repeated_loss_floor`. Steps away from the middle lose as much probability as a step may.

    Returns:
        Shape ``(copies + 1,)``, for k = 0 .. T; not increasing.
    """
    copies = integer("copies", copies, low=1)
    epsilon, delta = real("epsilon", epsilon, low=0.0), probability("delta", delta)
    # At the middle the law is 1/2; an odd T has an edge there, of which one end is the mirror image of the other.
    steps = [0.5] if copies % 2 == 0 else [(1.0 - delta) / (1.0 + math.exp(epsilon))]
    while len(steps) < (copies + 2) // 2:
        steps.append(max(0.0, (steps[-1] - delta) * math.exp(-epsilon)))
    below = np.array(steps)
    above = 1.0 - below[::-1]
    return np.concatenate([above[:-1] if copies % 2 == 0 else above, below])


def repeated_loss_floor(copies: int, epsilon: float, delta: float = 0.0) -> float:
    """Sharp lower bound on the expected loss of T plays, when one loss of fair coins is given in T private copies.

    Every (epsilon, delta)-DP rule that reads T copies of one loss, each expert's a fair coin, and plays T times has at
    least this expected loss: for each play, going from T copies of a loss l to T copies of 1 - l in T steps can move
    the chance of an expert with l = 1 no further than the T-fold trade-off curve of (epsilon, delta)-DP allows (Dong,
    Roth & Su 2022, Thm 2.14), and the two ends are equally likely. For delta = 0 it is

        T e^(-T eps/2) / 2 (even T),   T e^(-(T-1) eps/2) / (1 + e^eps) (odd T),

    larger than T / (1 + e^(T eps)), which counts the first and the last step's limits at every step, for T > 1. It is
    attained for two experts whose coins differ, by :func:`repeated_loss_law`.
    """
    return integer("copies", copies, low=1) * float(repeated_loss_law(copies, epsilon, delta)[-1])


def printed_repeated_loss_floor(copies: int, epsilon: float, *, experts: int, delta: float = 0.0) -> float:
    """The printed bound T (1/2 - T eps/2) - T^2 d delta / 2 (Asi et al. 2024, Lemma 4.4): true, and never above ours.

    It is stated for eps <= 1/T and delta <= 1/2.
    """
    copies = integer("copies", copies, low=1)
    epsilon, delta = real("epsilon", epsilon, low=0.0), probability("delta", delta)
    experts = integer("experts", experts, low=2)
    return copies * (0.5 - copies * epsilon / 2.0) - copies**2 * experts * delta / 2.0
