"""The leader of noisy prefix sums, or Hedge on them, for a number of rounds that is not known.

It is ``TreeExperts`` on the sums of a ``HybridTree``: every doubling of the stream has a tree of its own, and its total
stays in all later sums, so that nothing is forgotten. A person lies in one tree, and a run costs the same however long
it becomes. ``TreeExperts`` has a spread and a learning rate that are single numbers, best for its T rounds, and reads
streams of T rounds; here the spread rises and the rate falls from round to round, and streams have any length.

Neighbouring streams differ in one round's losses (replace-one; rounds keep their places).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import softmax

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import as_array, integer, one_of
from hockeystick.learners.common import arguments, noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.prefix_sums import PublishedRuns, plan
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.experts import noisy_sum_bounds
from hockeystick.learners.experts.batches import checked_rows
from hockeystick.learners.experts.expert_losses import TakesLosses, checked_losses
from hockeystick.learners.experts.noisy_sum_bounds import leader_spread
from hockeystick.learners.experts.rising_noise import (
    MOST_ROUNDS,
    RisingNoise,
    calibrated_scale,
    checked_rounds,
    sums_of_losses,
)
from hockeystick.mechanisms import HybridTree
from hockeystick.mechanisms.contract.arguments import generator, zeros

Policy = Literal["leader", "hedge", "adaptive hedge"]


def _policy(value: object) -> Policy:
    return one_of("policy", value, "leader", "hedge", "adaptive hedge")


@frozen(kw_only=True)
class AnytimeTreeExperts(TakesLosses, OnlineLearner):
    """A learner of experts on noisy prefix sums for a number of rounds that is not known.

    Its noise is at every round at most √1.5 times that of ``TreeExperts`` for the rounds so far, at the same ε and δ.

    Sources: Chan, Shi & Song 2011 (the sums); Agarwal & Singh 2017; Abernethy, Lee, Sinha & Tewari 2014 (the bound).

    Args:
        experts: d >= 2.
        scale: Standard deviation of the noise on the first round's losses, per expert; see ``HybridTree``.
        policy: "leader" to follow the least noisy sum; or "hedge" to draw each expert from exponential weights of the
            noisy sums, at a rate that falls from round to round. Hedge's bound is the lesser one only for many experts
            and when the square root of the rounds has outgrown the noise.
        rounds: The largest number of rounds, which changes nothing else.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = AnytimeTreeExperts.calibrated(experts=10, epsilon=0.5, delta=1e-6)
        >>> round(learner.guarantee().epsilon(1e-6).upper, 6)  # of a run of any length
        0.5
        >>> [round(learner.regret_bound(rounds)) for rounds in (10**4, 10**6)]
        [461, 1898]
        >>> learner.release(np.random.default_rng(1).random((100, 10)), noise=SimulationNoise(1)).shape
        (100,)
    """

    refuses = {"expected_regret": "Hedge's law on noisy sums has no closed form; simulate"}

    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=arguments.scale)
    policy: Policy = field(default="leader", converter=_policy)
    rounds: int = field(default=MOST_ROUNDS, converter=checked_rounds)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise

    @classmethod
    def calibrated(
        cls,
        *,
        experts: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        policy: Policy = "leader",
        rounds: int = MOST_ROUNDS,
        clip: bool = False,
    ) -> AnytimeTreeExperts:
        """Returns the learner with the least noise that is (ε, δ)-DP, for any number of rounds.

        Args:
            experts, policy, rounds, clip: As for the learner.
            epsilon: Target, > 0.
            delta: The δ of the target, in (0, 1).
            group: The target holds for so many people together, or for a user who contributes so many rounds.
        """
        scale = calibrated_scale(experts=experts, epsilon=epsilon, delta=delta, group=group)
        return cls(experts=experts, scale=scale, policy=policy, rounds=rounds, clip=clip)

    @property
    def mechanism(self) -> HybridTree:
        """The prefix sums of all rounds but the last; replacing a person's losses moves them by up to sqrt(d) in L2."""
        return sums_of_losses(self.rounds, self.scale, self.experts)

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the prefix sums as one release, the actions as post-processing.

        All people of a group in one round cost at least as much as in several ones.
        """
        return plan(self.mechanism, self.rounds, "every loss lies in [0, 1]")

    def event(self) -> PrivacyEvent:
        """Returns the cost of a run of any length as one event, for a larger graph or a ledger."""
        return self.mechanism.event()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two streams of shape (rounds, experts): the losses of one round are all 1, or all 0.

        It is the first round of the last tree that is whole.

        Raises:
            InvalidArgumentError: streams of ``rounds`` are too long for an array.
        """
        first, second = zeros((2, self.rounds, self.experts))
        first[(1 << self.rounds.bit_length() - 2) - 1] = 1.0
        return first, second

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> PublishedRuns:
        """Returns ``runs`` independent runs, with real-valued noise, runs on the leading axis.

        Args:
            losses: Shape (n, experts), 2 <= n <= rounds.
            rng: Generator of the noise and of the coins.
            runs: Number of runs.
        """
        stream = self._shorter(losses, "losses")
        noise, coins = generator(rng).spawn(2)
        sums = self.mechanism.simulate(stream[:-1], noise, runs)
        read = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
        drawn = Coins(np.zeros(1), coins, coins)
        return PublishedRuns(sums, self._actions_of(self._padded(read, 0, drawn), 0, drawn))

    # --- one round at a time, and releases ---------------------------------------------------------------------------

    start = noisy_sum_stream.start
    resume = noisy_sum_stream.resume

    release = noisy_sum_stream.release
    release_mixtures = noisy_sum_stream.release_mixtures

    def _read_blocks(self, losses: Any) -> Iterator[Any]:
        """Returns checked losses, a few rounds at a time, up to ``rounds``; an array is checked here."""
        return self._at_most(self._blocks(losses))

    def _at_most(self, blocks: Iterator[Any]) -> Iterator[Any]:
        """Yields blocks as long as they do not exceed the rounds."""
        read = 0
        for rows in blocks:
            read += len(rows)
            if read > self.rounds:
                raise InvalidDataError("losses", rows, f"exceed the {self.rounds} rounds", "cut them")
            yield rows

    def _blocks(self, losses: Any) -> Iterator[Any]:
        """Returns checked losses, a few rounds at a time; an array is checked here."""
        if hasattr(losses, "__array__") or isinstance(losses, (list, tuple)):
            table = losses if hasattr(losses, "dtype") else as_array("losses", losses, data=True)
            rounds = len(table) if table.ndim else 0
            return checked_rows(table, rounds=min(rounds, self.rounds), experts=self.experts, clip=self.clip)
        if not isinstance(losses, Iterable):
            raise InvalidDataError("losses", losses, "is neither an array nor an iterable of blocks")
        return self._arriving(losses)

    def _arriving(self, losses: Iterable[npt.ArrayLike]) -> Iterator[FloatArray]:
        seen = 0
        for given in losses:
            rows = as_array("losses", given, data=True)
            count = len(rows) if rows.ndim else 0
            yield checked_losses("losses", rows, rounds=count, experts=self.experts, clip=self.clip, first=seen)
            seen += count

    @property
    def _shift_scale(self) -> float:
        return 0.0

    @property
    def _entries(self) -> int:
        """d, the length of the prefix sums."""
        return self.experts

    def _contribution(self, losses: npt.ArrayLike, action: int, at: int) -> FloatArray:
        """Returns the checked losses of round number ``at``, shape (experts,)."""
        return np.asarray(self._row("losses", losses, at)[0])

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the noisy sums before the rounds ``first`` …, padded; for Hedge times its rates."""
        spreads = self._spreads(first, first + sums.shape[-2])
        read = sums + self._noise.missing(spreads, first) * coins.normal.standard_normal(sums.shape)
        return np.asarray(read if self.policy == "leader" else read * self._rates(first, spreads)[:, None])

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the law of each round's expert given what it reads, in its shape."""
        if self.policy != "leader":
            return np.asarray(softmax(-read, axis=-1))
        return np.asarray(np.arange(self.experts) == np.argmin(read, axis=-1)[..., None], dtype=np.float64)

    def _actions_of(self, read: FloatArray, first: int, coins: Coins) -> npt.NDArray[np.int64]:
        """Returns the experts, shape (..., n), from what their rounds read."""
        if self.policy != "leader":  # the least of exponents minus Gumbel noise has the exponential weights
            read = read - coins.gumbel.gumbel(size=read.shape)
        return np.asarray(np.argmin(read, axis=-1), dtype=np.int64)

    # --- the noise of each round, and bounds -------------------------------------------------------------------------

    @property
    def _noise(self) -> RisingNoise:
        return RisingNoise.of(self.mechanism, self.experts)

    def _spreads(self, first: int, stop: int) -> FloatArray:
        """Returns the standard deviation of the noise in the rounds ``first`` … ``stop`` - 1, numbered from 0."""
        found = self._noise.between(first, stop)
        return found if self.policy != "leader" else leader_spread(np.arange(first + 1, stop + 1), found)

    def _rates(self, first: int, spreads: FloatArray) -> FloatArray:
        """Returns Hedge's rates in the rounds ``first`` …, numbered from 0, with noise of these standard deviations."""
        rounds = np.arange(first + 1, first + 1 + len(spreads))
        if self.policy == "hedge":
            return np.asarray(noisy_sum_bounds.falling_rate(rounds, self.experts, spreads))
        return noisy_sum_bounds.adaptive_rates(rounds, self.experts, self._noise.pieces(int(rounds[-1])))

    def log_likelihood_ratio(self, found: PublishedRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln p(sums | losses0) / p(sums | losses1), one number per run."""
        given = (self._shorter(losses, name)[:-1] for losses, name in ((losses0, "losses0"), (losses1, "losses1")))
        return np.asarray(self.mechanism.log_likelihood_ratio(found.sums, *given))

    def regret_bound(self, rounds: int | None = None, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret after so many rounds; see ``noisy_sum_bounds`` for its proof.

        A release rounds losses to a grid, which costs at most its step per round; the bound includes that.

        *Adaptive losses* may depend on everything that was published before them and on the mixture of their round, but
        not on the expert drawn from it. Without noise, Hedge's mixtures at falling rates η_t lose at most ln d/η_T +
        Σ η_t/8 more than the best expert, whatever the losses depend on. Noise N_t whose entries range over r_t moves
        the mixture by at most tanh(η_t·r_t/4) in total variation, so round t loses at most that much more. N_t is
        drawn independently of the losses, which may depend on it: its law remains normal, and E r_t ≤ 2·s_t·M. So the
        expected regret is at most ln d/η_T + Σ η_t·(1/8 + s_t·M/2). A leader has no such bound: the losses of the
        expert in front can be 1 in every round.

        Args:
            rounds: The number of rounds that were played; None for the largest.
            adversary: "oblivious" or "stochastic", or "adaptive" for Hedge.

        Raises:
            InvalidArgumentError: ``rounds`` is not in 1 .. ``self.rounds``, or a leader's losses are adaptive.
        """
        count = self.rounds if rounds is None else integer("rounds", rounds, low=1, high=self.rounds)
        checked, pieces = checked_adversary(adversary), self._noise.pieces(count)
        if self.policy == "leader":
            if checked == "adaptive":
                raise InvalidArgumentError(
                    "adversary", checked, "may trap a leader in every round", 'use policy="adaptive hedge"'
                )
            bound = noisy_sum_bounds.rising_leader(self.experts, pieces)
        elif self.policy == "adaptive hedge":
            bound = noisy_sum_bounds.rising_adaptive(self.experts, pieces)
        elif checked == "adaptive":
            bound = noisy_sum_bounds.rising_hedge(self.experts, pieces, adaptive=True)
        else:
            bound = noisy_sum_bounds.rising_hedge(self.experts, pieces)
        rounding = count * self.mechanism.rounding(self.experts, max(1, count - 1))
        return RegretBound(bound + rounding, most=count, adversary=checked)
