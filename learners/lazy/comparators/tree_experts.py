"""The leader of noisy prefix sums, and Hedge on them: private learners of experts with free switching.

All past losses are published as prefix sums with noise that is correlated over rounds (binary tree, or matrix
mechanism), and each round's expert is a function of the latest sum and of fresh coins. A person costs one contribution
to the prefix sums, whatever the actions: the price grows with the number of experts and not with the number of
switches. A person's d losses move by at most sqrt(d) in L2, which is expensive in high dimension (Agarwal & Singh
2017). ``private_ftrl`` has the same for convex losses.

The last round's losses are never read. Neighbouring streams differ in one round's losses (replace-one; rounds keep
their places).
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy.special import log_ndtr, softmax

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import one_of, real
from hockeystick.learners.common import arguments, noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins, PublishedMixtures
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.prefix_sums import (
    RELEASED,
    PrefixSums,
    PublishedRuns,
    Sums,
    calibrated_scale,
    checked_sums,
    least_spread,
    losses_sensitivity,
    mechanism_of,
    plan,
    scale_of_zcdp,
    variances_between,
)
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.experts import noisy_sum_bounds, quantile_regret
from hockeystick.learners.experts.batches import checked_rows, exact_batch_sums
from hockeystick.learners.experts.expert_losses import TakesLosses
from hockeystick.learners.experts.quantile_regret import Plays, RegretReport
from hockeystick.mechanisms.contract.arguments import generator, zeros
from hockeystick.mechanisms.randomness.noise import SimulationNoise
from hockeystick.mechanisms.streams.factor_encoders import check_discount, discounted

Policy = Literal["best", "leader", "hedge", "adaptive hedge", "bare leader"]

_WINDOW = 9.0  # the leader's noise lies within so many standard deviations, up to 1e-18
_CELLS = 1 << 20


def _perturbation(value: object) -> float:
    return real("perturbation", value, low=0.0)


def _spread(value: object) -> float | None:
    return None if value is None else real("spread", value, low=0.0, low_open=True)


def _rate(value: object) -> float | None:
    return None if value is None else arguments.learning_rate(value)


@frozen(kw_only=True)
class TreeExperts(TakesLosses, OnlineLearner):
    """The learner that follows the leader of noisy prefix sums of losses, or draws from their exponential weights.

    Args:
        rounds: T >= 2, one person each.
        experts: d >= 2.
        scale: Standard deviation of the noise on each measurement (each block of the tree), per expert.
        sums: "tree", with estimates of least variance from below; "square root" for the matrix mechanism of that name,
            with a third to a half of the tree's noise, whose running state is as long as the stream; or "buffered" for
            four buffers in its place, with 1 % more noise and a state of the tree's size.
        spread: Standard deviation s to which fresh normal noise pads that of every round's sums, per expert; None for
            no padding. It has no privacy cost, steadies the leader, and the bound against oblivious losses needs it.
        learning_rate: η > 0, per unit of loss: draw each expert from weights exp(-η * noisy sum) (Hedge); None to
            follow the leader.
        discount: γ in (0, 1]; below 1 losses count with γ^age, and the regret with γ^(T - t) in round t, so that the
            learner follows changes. A person's cost is then bounded for every number of rounds. It needs sums other
            than "tree".
        perturbation: Standard deviation of a normal variate per expert, drawn once and added to all sums. It
            stabilises the leader as ``spread`` does, without a proved bound, and has no privacy cost.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a spread below the noise that is there already.

    Example:
        >>> learner = TreeExperts.of_zcdp(rounds=64, experts=3, rho=0.1)
        >>> round(learner.scale, 3), round(learner.graph().guarantee().event.zcdp_rho(), 6)
        (9.487, 0.1)
        >>> learner.run(np.tile([0.0, 1.0, 1.0], (64, 1)), np.random.default_rng(1)).shape
        (64,)
        >>> best = TreeExperts.calibrated(rounds=10**6, experts=10, epsilon=0.5, delta=1e-6)
        >>> round(best.regret_bound()), round(best.spread), round(best.learning_rate, 5)
        (1330, 366, 0.00346)
    """

    rounds: int = field(converter=arguments.two_rounds)
    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=arguments.scale)
    sums: Sums = field(default="tree", converter=checked_sums)
    spread: float | None = field(default=None, converter=_spread)
    learning_rate: float | None = field(default=None, converter=_rate)
    discount: float = field(default=1.0, converter=check_discount)
    perturbation: float = field(default=0.0, converter=_perturbation)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses discounted sums in a tree
        if self.spread is not None:
            if self.perturbation:
                raise InvalidArgumentError(
                    "perturbation", self.perturbation, "can't be combined with a spread", "leave it at 0"
                )
            least = self._least_spread()
            if self.spread < least:
                raise InvalidArgumentError(
                    "spread", self.spread, "is below the noise of the sums", f"use at least {least!r}"
                )

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        sums: Sums = "tree",
        policy: Policy | None = None,
        discount: float = 1.0,
        perturbation: float = 0.0,
        clip: bool = False,
    ) -> "TreeExperts":
        """Returns the learner with the least noise that is (ε, δ)-DP.

        Args:
            rounds: T >= 2.
            experts: d >= 2.
            epsilon: Target, > 0.
            delta: The δ of the target, in (0, 1).
            group: The target holds for so many people together, or for a user who contributes so many rounds.
            sums, discount, clip: As for the learner.
            policy: "leader" or "hedge", with the spread and the rate of least regret bound against oblivious losses;
                "best" for the one of the lesser bound; "adaptive hedge" for the rate of least bound against adaptive
                losses; "bare leader" for no padding, which has no bound. By default the best, or the bare leader if
                there is a perturbation.
            perturbation: As for the learner; above 0 only for the bare leader.
        """
        distance = losses_sensitivity(arguments.experts(experts))
        kept = check_discount(discount)
        scale = calibrated_scale(sums, arguments.two_rounds(rounds), distance, epsilon, delta, group, kept)
        bare = cls(
            rounds=rounds,
            experts=experts,
            scale=scale,
            sums=sums,
            discount=kept,
            perturbation=perturbation,
            clip=clip,
        )
        if policy is None:
            policy = "bare leader" if bare.perturbation else "best"
        return bare.following(policy)

    def following(self, policy: Policy) -> "TreeExperts":
        """Returns the learner on the same sums with another policy; see :meth:`calibrated`."""
        bare = evolve(self, spread=None, learning_rate=None)
        policy = one_of("policy", policy, "best", "leader", "hedge", "adaptive hedge", "bare leader")
        if policy == "bare leader":
            return bare
        shape, least = (self.effective_rounds, self.experts), bare._least_spread()
        if policy == "adaptive hedge":
            return evolve(bare, learning_rate=noisy_sum_bounds.best_adaptive_rate(*shape, least))
        leader = evolve(bare, spread=noisy_sum_bounds.best_leader_spread(shape[0], least))
        hedge = evolve(bare, spread=least, learning_rate=noisy_sum_bounds.best_rate(*shape, least))
        if policy == "best":
            return min(leader, hedge, key=lambda learner: learner.regret_bound())
        return leader if policy == "leader" else hedge

    @classmethod
    def of_zcdp(
        cls,
        *,
        rounds: int,
        experts: int,
        rho: float,
        sums: Sums = "tree",
        discount: float = 1.0,
        perturbation: float = 0.0,
    ) -> "TreeExperts":
        """Returns the learner that is ρ-zCDP."""
        distance, kept = losses_sensitivity(arguments.experts(experts)), check_discount(discount)
        scale = scale_of_zcdp(sums, arguments.two_rounds(rounds), distance, rho, kept)
        return cls(rounds=rounds, experts=experts, scale=scale, sums=sums, discount=kept, perturbation=perturbation)

    @property
    def mechanism(self) -> PrefixSums:
        """The prefix sums of the first T - 1 rounds; replacing a person's losses moves them by up to sqrt(d) in L2."""
        return mechanism_of(self.sums, self.rounds, self.scale, losses_sensitivity(self.experts), self.discount)

    @property
    def effective_rounds(self) -> float:
        """The sum of the weights of all rounds: T, or (1 - γ^T)/(1 - γ)."""
        if self.discount == 1.0:
            return float(self.rounds)
        return -math.expm1(self.rounds * math.log(self.discount)) / (1.0 - self.discount)

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the prefix sums as one release, the actions as post-processing."""
        return plan(self.mechanism, self.rounds, "every loss lies in [0, 1]")

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event, for a larger graph or a ledger."""
        return self.mechanism.event()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two streams of shape (rounds, experts) at the largest distance: the first losses are all 1, or all 0.

        They maximise the privacy loss of the sums; the leaders alone do not differ, as all experts move alike.
        """
        first, second = zeros((2, self.rounds, self.experts))
        first[0] = 1.0
        return first, second

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> PublishedRuns:
        """Returns ``runs`` independent runs, with real-valued noise, runs on the leading axis."""
        stream = self._stream(losses)
        noise, coins = generator(rng).spawn(2)
        sums = self.mechanism.simulate(stream[:-1], noise, runs)
        shift = self.perturbation * coins.standard_normal((len(sums), 1, self.experts))
        before, drawn = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1) + shift, Coins(shift, coins, coins)
        return PublishedRuns(sums, self._actions_of(self._padded(before, 0, drawn), 0, drawn))

    def run(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Returns the expert of each round of one simulated run, shape (rounds,): seeded, so not a private release.

        The losses are those of ``release``, and are read in the same way.
        """
        found: npt.NDArray[np.int64] = self.release(losses, noise=SimulationNoise(generator(rng)))
        return found

    # --- one round at a time, and releases ---------------------------------------------------------------------------

    start = noisy_sum_stream.start
    resume = noisy_sum_stream.resume

    release = noisy_sum_stream.release
    release_mixtures = noisy_sum_stream.release_mixtures

    def _read_blocks(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> Iterator[Any]:
        """Returns the blocks in which a run reads losses, checked."""
        rows = checked_rows(losses, rounds=self.rounds, experts=self.experts, clip=self.clip)
        if self.sums != "square root":
            return rows
        return (np.concatenate([np.array(block) for block in each]) for each in [rows])  # its state is as long

    @property
    def _shift_scale(self) -> float:
        return self.perturbation

    @property
    def _entries(self) -> int:
        """d, the length of the prefix sums."""
        return self.experts

    def _contribution(self, losses: npt.ArrayLike, action: int, at: int) -> FloatArray:
        """Returns the checked losses of round number ``at``, shape (experts,)."""
        return np.asarray(self._row("losses", losses, at)[0])

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the noisy sums before the rounds ``first`` …, once more discounted, and padded to the spread."""
        read = sums if self.discount == 1.0 else self.discount * sums
        if self.spread is None:
            return read
        own = self.discount**2 * variances_between(self.mechanism, first, first + sums.shape[-2], entries=self.experts)
        padding = np.sqrt(np.maximum(self.spread**2 - own, 0.0))[:, None] * coins.normal.standard_normal(sums.shape)
        return np.asarray(read + padding)

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the law of each round's expert given what it reads, in its shape."""
        if self.learning_rate is None:
            return np.asarray(np.arange(self.experts) == np.argmin(read, axis=-1)[..., None], dtype=np.float64)
        return np.asarray(softmax(-self.learning_rate * read, axis=-1))

    def _actions_of(self, read: FloatArray, first: int, coins: Coins) -> npt.NDArray[np.int64]:
        """Returns the experts, shape (..., n), from what their rounds read."""
        if self.learning_rate is not None:  # the least of sums minus Gumbel noise / η has the exponential weights
            read = read - coins.gumbel.gumbel(size=read.shape) / self.learning_rate
        return np.asarray(np.argmin(read, axis=-1), dtype=np.int64)

    # --- exact laws, and bounds --------------------------------------------------------------------------------------

    def log_likelihood_ratio(self, found: PublishedRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln p(sums | losses0) / p(sums | losses1), one number per run."""
        given = (self._stream(losses)[:-1] for losses in (losses0, losses1))
        return np.asarray(self.mechanism.log_likelihood_ratio(found.sums, *given))

    def marginals(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the law of each round's expert, shape ``(rounds, experts)``, by quadrature to about 1e-12.

        The experts' noises in one round are independent with one variance: expert j leads with its sum at y with
        density p_j(y) * prod_{k != j} P(sum_k > y). In round 0, without spread and perturbation, expert 0 leads.

        Raises:
            InvalidArgumentError: bad losses, or a learning rate: Hedge's law on noisy sums has no closed form.
        """
        return np.concatenate([law for _, law in self._laws(losses)])

    def expected_regret(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> float:
        """Returns the exact expected regret against the best single expert; losses are read in blocks.

        With a discount γ both losses of round t count with γ^(T - t).
        """
        lost, totals = 0.0, np.zeros(self.experts)
        for rows, law in self._laws(losses):
            weights = self.discount ** np.arange(len(rows) - 1.0, -1.0, -1.0)
            kept = self.discount ** len(rows)
            lost = kept * lost + float(np.einsum("t,td,td->", weights, law, rows))
            totals = kept * totals + weights @ rows
        return lost - float(totals.min())

    def _laws(self, losses: object) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yields the losses and the laws of a few rounds at a time."""
        if self.learning_rate is not None:
            raise InvalidArgumentError(
                "learning_rate", self.learning_rate, "leaves the actions' law without a closed form", "simulate"
            )
        z = np.linspace(-_WINDOW, _WINDOW, 361)
        step, before, first = max(1, _CELLS // (z.size * self.experts)), np.zeros(self.experts), 0
        for block in exact_batch_sums(losses, rounds=self.rounds, experts=self.experts, clip=self.clip):
            for rows in np.split(block, range(step, len(block), step)):
                after = discounted(rows, self.discount, before)
                totals = np.concatenate([before[None], after[:-1]]) * self.discount
                spread = np.full(len(rows), self.spread)
                if self.spread is None:
                    own = variances_between(self.mechanism, first, first + len(rows))
                    spread = self.discount * np.sqrt(own + self.perturbation**2)
                still = spread == 0.0  # in round 0 alone, where expert 0 leads
                lead = (totals - totals.min(axis=1, keepdims=True)) / np.where(still, 1.0, spread)[:, None]
                gap = z[None, :, None] - lead[:, None, :]  # for a leader at z, relative to the best expert's mean
                beaten = log_ndtr(-gap)
                density = np.exp(-0.5 * gap**2 + beaten.sum(axis=2, keepdims=True) - beaten)
                law = density.sum(axis=1) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
                law[still] = np.arange(self.experts) == 0
                yield rows, law
                before, first = after[-1], first + len(rows)

    def regret_bound(self, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret; see ``noisy_sum_bounds`` for the formulas and their proofs.

        A release rounds losses to a grid, which costs at most its step per round; the bound includes that.

        It holds for the drawn experts and for the mixtures, whose loss in a round is the mean over the mixture. Against
        adaptive losses each round's losses may depend on everything published before them, the round's own mixture
        included, but not on the expert that is drawn from it.

        With a discount γ < 1 it bounds the expected sum of γ^(T - t) times the regret of round t, and T in the formulas
        is the sum of these weights.

        Args:
            adversary: "oblivious" or "stochastic", or "adaptive" for Hedge.

        Raises:
            InvalidArgumentError: there is no bound: of a leader without a spread, or against adaptive losses.
        """
        checked, spread, rate = checked_adversary(adversary), self.spread, self.learning_rate
        shape, found = (self.effective_rounds, self.experts), []
        if rate is not None:
            most = spread or math.hypot(self._least_spread(), self.discount * self.perturbation)
            found.append(noisy_sum_bounds.adaptive_hedge(*shape, most, rate))
        if checked != "adaptive" and spread is not None:
            bound = noisy_sum_bounds.leader(*shape, spread)
            found.append(bound if rate is None else noisy_sum_bounds.hedge(*shape, spread, rate))
        if not found:
            if checked == "adaptive":
                raise InvalidArgumentError(
                    "adversary", checked, "may trap a leader in every round", 'use policy="adaptive hedge"'
                )
            raise InvalidArgumentError("spread", spread, "leaves the leader without a bound", 'use policy="leader"')
        rounding = self.effective_rounds * self.mechanism.rounding(self.experts)
        return RegretBound(min(found) + rounding, most=self.effective_rounds, adversary=checked)

    def regret_report(
        self,
        run: PublishedMixtures,
        *,
        quantiles: Iterable[float] = (0.0, 0.1, 0.5),
        confidence: float = 0.95,
        plays: Plays = "experts",
    ) -> RegretReport:
        """Returns the regret of a finished run against quantiles of the experts, with bands that hold together.

        It reads what the release published, and costs nothing. ``RegretRelease`` is sharper, for a further charge. With
        a discount γ the losses and regrets of round t count with γ^(T - t).

        Args:
            run: From ``release_mixtures`` of this learner.
            quantiles: In [0, 1], 0 for the best expert; see ``quantile_regret``.
            confidence: The probability, over the noise and the draws, with which all bands hold.
            plays: Report on the drawn "experts", whose draws the losses of their round must ignore, or on the
                "mixtures", for any losses.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a run of another shape.
        """
        failure = quantile_regret.checked_confidence(confidence)
        halves = 2.0 if self.learning_rate is not None and plays == "experts" else 1.0
        errs = self.mechanism.accuracy(failure / halves, entries=self.experts) * RELEASED
        # A release rounds losses, and its noise, to a grid: each sum is off by less than two steps per round.
        errs += 2.0 * self.effective_rounds * self.mechanism.rounding(self.experts)
        return quantile_regret.reported(
            quantile_regret.checked_run(run, self.rounds, self.experts),
            errs=errs,
            failure=failure / halves,
            rate=self.learning_rate,
            quantiles=quantiles,
            confidence=confidence,
            plays=plays,
            discount=self.discount,
        )

    def _least_spread(self) -> float:
        # The round-off of both products is within 2^-52.
        return self.discount * least_spread(self.mechanism, self.experts) * (1.0 + 2.0**-51)
