"""Lower bounds for private learners that rarely switch: the class, the adversary, and the gap in the printed argument.

Asi, Koren, Liu & Talwar 2024, section 4, bound the regret of every private learner that at each round keeps its expert
or draws a fresh one independently of all else (Condition 4.1), on losses that are fair coins, constant within an epoch.
This module implements two parts of that argument:

* the class: :class:`Resamplings` (the draws of tree-based learners are not in it);
* the adversary: :class:`EpochAdversary`; and :class:`ParallelEpochLearner`, which is ε^2-zCDP, lies in the class and
  has *negative* regret against it. The printed proof of Theorem 4.2 adds up privacy over epochs, but the costs for
  people of different epochs compose in parallel. This neither proves nor refutes the theorem's statement: its curve is
  a reference, :func:`printed_regret_floor`.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, Reach
from hockeystick.accounting.arrays import AnyIntArray, FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition, PrintedFloor
from hockeystick.learners.experts.expert_losses import checked_losses, opposite_halves, regret_floor
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts
from hockeystick.mechanisms import ExponentialMechanism

# --- the class of learners -------------------------------------------------------------------------------------------


@frozen(eq=False)
class Resamplings:
    """The published part of R runs of a learner of the class: the draws and their times.

    Attributes:
        rounds: T, rounds per run.
        times: Shape ``(R, m)``, ascending along a run: the round (0-based) from which the i-th draw is played; T if a
            run has fewer than i draws. Round 0 is always the first.
        samples: Shape ``(R, m)``: the drawn expert; 0 if there is none.

    Example:
        >>> Resamplings(4, np.array([[0, 2]]), np.array([[1, 0]])).actions().tolist()
        [[1, 1, 0, 0]]
    """

    rounds: int
    times: AnyIntArray
    samples: AnyIntArray

    def actions(self) -> AnyIntArray:
        """Returns the expert played in each round, shape ``(R, rounds)``."""
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
    """Returns the draws of the lazy learner's runs, without its shadow, which is never played.

    Args:
        transcripts: R runs of n batches.
        batch: Rounds per batch.
        rounds: T; n must be ceil(rounds / batch).

    Example:
        >>> seen = Transcripts(np.array([[2, 0]]), np.array([[False, True]]))
        >>> resamplings(seen, batch=3, rounds=5).actions().tolist()
        [[2, 2, 2, 0, 0]]
    """
    batch = integer("batch", batch, low=1)
    rounds = integer("rounds", rounds, low=1)
    runs, batches = transcripts.actions.shape
    if batches != -(-rounds // batch):
        raise InvalidArgumentError("transcripts", (runs, batches), f"do not have {-(-rounds // batch)} batches")
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


# --- the adversary and the learner that beats it ---------------------------------------------------------------------


def _epoch(value: object) -> int:
    return integer("epoch", value, low=2)


@frozen(kw_only=True)
class EpochAdversary:
    """The adversary whose losses are fair coins, drawn once per epoch and expert and constant within the epoch.

    There are E = floor((T ε)^(4/3)) epochs of floor(T/E) rounds (Asi et al. 2024, proof of Theorem 4.2). In the
    remaining rounds every expert has loss 0, so they do not affect regret.

    Args:
        rounds: T >= 1.
        experts: d >= 2.
        epsilon: In [1/T, T^(-1/4)]; outside there is no epoch, or epochs are shorter than a round.

    Example:
        >>> adversary = EpochAdversary(rounds=20_000, experts=3, epsilon=0.02)
        >>> adversary.epochs, adversary.epoch, round(adversary.expected_floor(), 1)
        (2947, 6, 8703.2)
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
        """Number of epochs E."""
        # The factor makes a number whole that is whole up to rounding.
        return math.floor(math.pow(self.rounds * self.epsilon, 4.0 / 3.0) * (1.0 + 1e-12))

    @property
    def epoch(self) -> int:
        """Rounds per epoch."""
        return self.rounds // self.epochs

    def losses(self, rng: np.random.Generator) -> FloatArray:
        """Returns one loss stream, shape ``(rounds, experts)``."""
        stream = np.zeros((self.rounds, self.experts))
        coins = rng.integers(0, 2, size=(self.epochs, self.experts))
        stream[: self.epochs * self.epoch] = np.repeat(coins, self.epoch, axis=0)
        return stream

    def expected_floor(self) -> float:
        """Returns the exact expected total loss of the best expert: epoch * E[min of d binomials]."""
        spread = 6.0 * math.sqrt(self.epochs)  # 12 standard deviations: the rest has probability below 1e-30
        low = max(0, math.floor(self.epochs / 2.0 - spread))
        high = min(self.epochs, math.ceil(self.epochs / 2.0 + spread))
        least = low + float(np.sum(stats.binom.sf(np.arange(low, high), self.epochs, 0.5) ** self.experts))
        return self.epoch * least


@frozen(kw_only=True)
class ParallelEpochLearner:
    """The learner that observes the first half of every epoch and draws an expert for the second half from it.

    In the first floor(b/2) rounds of an epoch of b rounds it plays a uniform draw, in the second half a draw with
    weights exp(-sqrt(2) ε * losses of the first half). A person is in one epoch, so draws compose in parallel: the
    learner is ε^2-zCDP for any number of epochs. Neighbouring streams differ in one round's losses, replaced by any
    others in [0, 1]; the adversary may be adaptive.

    Args:
        rounds: T.
        experts: d >= 2.
        epoch: b in 2 .. T, rounds per epoch. Rounds after the last whole epoch keep the last expert.
        epsilon: > 0; the learner is ε^2-zCDP.

    Example:
        >>> adversary = EpochAdversary(rounds=2000, experts=2, epsilon=0.05)
        >>> learner = ParallelEpochLearner(rounds=2000, experts=2, epoch=adversary.epoch, epsilon=0.05)
        >>> round(learner.graph().guarantee().event.zcdp_rho(), 5), round(learner.expected_regret_on(adversary), 2)
        (0.0025, 7.92)
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
        """Number of observed rounds of an epoch, floor(b/2)."""
        return self.epoch // 2

    @property
    def learning_rate(self) -> float:
        """sqrt(2) ε, per unit of loss."""
        return math.sqrt(2.0) * self.epsilon

    @property
    def draw(self) -> ExponentialMechanism:
        """The draw, for scores -learning_rate*(observed losses); one person moves a score by at most learning_rate."""
        return ExponentialMechanism(1.0, sensitivity=self.learning_rate)

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: one draw per epoch, each reading only its own epoch."""
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
        """Returns two streams that differ in round 0: losses 1 on one half of the experts or on the other; else 0."""
        return opposite_halves(self.rounds, self.experts)

    def log_law(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the log-probabilities of a draw for each round, shape ``(rounds, experts)``."""
        stream = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        law = np.full(stream.shape, -math.log(self.experts))
        second = np.repeat(self._draws(stream), self.epoch, axis=0)
        whole = second.shape[0]
        chosen = np.arange(whole) % self.epoch >= self.watched
        law[:whole][chosen] = second[chosen]
        law[whole:] = second[-1]
        return law

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Resamplings:
        """Returns ``runs`` independent runs, two draws per epoch, runs on the leading axis."""
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
        """Returns the expert played in each round of one simulated run (seeded, so not a private release)."""
        played: AnyIntArray = self.simulate(losses, rng, 1).actions()[0]
        return played

    def log_likelihood_ratio(self, found: Resamplings, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln P(draws | losses0) / P(draws | losses1), one number per run."""
        law0, law1 = (
            self._draws(checked_losses(name, given, rounds=self.rounds, experts=self.experts))
            for name, given in (("losses0", losses0), ("losses1", losses1))
        )
        drawn = found.samples[:, 1::2]
        ratio: FloatArray = (law0 - law1)[np.arange(self.epochs), drawn].sum(axis=1)
        return ratio

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret on ``losses`` of shape (rounds, experts)."""
        stream = checked_losses("losses", losses, rounds=self.rounds, experts=self.experts)
        return float(np.sum(np.exp(self.log_law(stream)) * stream)) - regret_floor(stream)[1]

    def expected_regret_on(self, adversary: EpochAdversary) -> float:
        """Returns the exact expected regret over the coins of adversary and learner, without simulation.

        Raises:
            InvalidArgumentError: the adversary's rounds, experts or epochs differ from the learner's.
        """
        if (adversary.rounds, adversary.experts, adversary.epoch) != (self.rounds, self.experts, self.epoch):
            raise InvalidArgumentError("adversary", adversary, "has other rounds, experts or epochs than the learner")
        bad = np.arange(self.experts + 1)  # experts whose coin is 1
        weight = bad * math.exp(-self.learning_rate * self.watched)
        missed = float(np.sum(stats.binom.pmf(bad, self.experts, 0.5) * weight / (weight + self.experts - bad)))
        # Any further epochs of the learner lie in the adversary's remaining rounds.
        loss = adversary.epochs * (0.5 * self.watched + missed * (self.epoch - self.watched))
        return loss - adversary.expected_floor()

    def _draws(self, stream: FloatArray) -> FloatArray:
        """Returns the log-probabilities of the second half's draw in each epoch, shape ``(epochs, experts)``."""
        whole = stream[: self.epochs * self.epoch].reshape(self.epochs, self.epoch, self.experts)
        scores = -self.learning_rate * whole[:, : self.watched].sum(axis=1)
        found: FloatArray = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        return found


def printed_regret_floor(*, rounds: int, experts: int, epsilon: float) -> PrintedFloor:
    """Returns the printed bound sqrt(T) + T^(1/3) ε^(-2/3) for ε^2-zCDP learners of the class, which is unproven.

    The second condition comes from the construction: if it fails, epochs are shorter than a round.
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
