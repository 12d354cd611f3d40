"""Batched EXP3 on noisy losses: a private bandit against losses that are fixed in advance.

A batch plays one arm. At its end the sum of the arm's losses is published with Laplace noise, and its mean, over the
arm's probability, is added to the arm's estimated loss. The next arm is drawn from the exponential weights of the
estimates, mixed with the uniform law. A person is in one batch and pays for one sum, so that ε does not grow with the
number of rounds.

Sources: Auer, Cesa-Bianchi, Freund & Schapire 2002 (EXP3); Asi, Raman & Talwar 2025, arXiv 2505.21790 (batches with
noise). The bound on the regret, with its constant, is proved in :meth:`NoisyBandit.regret_bound`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import asdict, field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.bandits.arm_player import ArmPlayer, checked_arms, checked_rounds, quietest
from hockeystick.learners.bandits.arm_stream import Arms, ArmStream
from hockeystick.learners.bandits.exp3_search import Exp3Parameters, best_parameters, exp3_bound
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts.expert_losses import batch_sums
from hockeystick.mechanisms.contract.arguments import generator, noise_scale, run_count
from hockeystick.mechanisms.randomness.noise import Noise


def _exploration(value: object) -> float:
    return real("exploration", value, low=0.0, high=1.0, low_open=True)


@frozen(eq=False)
class BanditRuns:
    """Simulated runs of a ``NoisyBandit``, on the leading axis. See ``NoisyBandit`` for an example.

    Attributes:
        arms: The arm of each batch, shape (runs, batches).
        sums: The noisy sum of each batch but the last, shape (runs, batches - 1).
        losses: The total loss of the arms that were played, shape (runs,); it is not published.
    """

    arms: Arms
    sums: FloatArray
    losses: FloatArray


class BanditStream(ArmStream):
    """One run of ``NoisyBandit``, which its ``start`` begins and its ``resume`` continues.

    Example:
        >>> from hockeystick.learners import NoisyBandit
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = NoisyBandit.calibrated(rounds=1000, arms=3, epsilon=1.0)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> arm = stream.predict()
        >>> stream.update(0.25)  # the loss of that arm
        >>> stream.round, arm in (0, 1, 2)
        (1, True)
        >>> for _ in range(learner.batch):
        ...     stream.update(0.25)
        >>> stream.sums.shape, bool(stream.estimates[arm] != 0.0)  # published with the first batch
        ((1, 3), True)
    """

    __slots__ = ("_estimates", "_odds")
    _learner: NoisyBandit

    def __init__(self, learner: NoisyBandit, noise: Noise, body: dict[str, Any] | None = None) -> None:
        self._estimates = np.zeros(learner.arms)
        super().__init__(learner, noise, body)

    @property
    def estimates(self) -> FloatArray:
        """The estimated losses, shape (arms,), in units of a batch's mean: they follow from all published sums."""
        return self._estimates.copy()

    def _opening(self) -> list[int]:
        return self._draw()

    def _length(self) -> int:
        return self._learner.batch

    def _next(self, sums: list[float]) -> list[int]:
        (arm,), (noisy,) = self._turn, sums
        self._estimates[arm] += noisy / self._learner.batch / self._odds[arm]
        return self._draw()

    def _draw(self) -> list[int]:
        self._odds = self._learner._laws(self._estimates)
        return [int(_drawn(self._odds[None], self._coins)[0])]

    def _restore(self, body: dict[str, Any]) -> None:
        self._estimates = array("estimates", body["estimates"], shape=(self._learner.arms,))
        self._odds = self._learner._laws(self._estimates)
        if len(body["turn"]) != 1 or integer("first", body["first"]) % self._learner.batch:
            raise ValueError("a batch has one arm, and begins after whole batches")

    def _state(self) -> dict[str, Any]:
        return {"estimates": self._estimates.tolist()}


@frozen(kw_only=True)
class NoisyBandit(ArmPlayer):
    """A private bandit for losses that are fixed in advance: batched EXP3 on noisy losses.

    Neighbouring tables differ in the losses of all arms in one round, replaced by any others in [0, 1] (replace-one;
    rounds keep their places). All arms and all noisy sums are published. The learner is (1/scale)-DP, with δ = 0, for
    losses that may depend on all that was published.

    Sources: Auer, Cesa-Bianchi, Freund & Schapire 2002 (EXP3); Asi, Raman & Talwar 2025 (batches with noise).

    Args:
        rounds: T >= 1, one person each.
        arms: K >= 2.
        batch: B, the rounds of a batch, in which one arm is played; the last batch may be short, and is not read.
        scale: The scale of the Laplace noise on a batch's sum of losses, in units of loss.
        learning_rate: eta > 0, per unit of a batch's mean loss.
        exploration: gamma in (0, 1], the probability of a uniform draw of an arm.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import NoisyBandit
        >>> learner = NoisyBandit.calibrated(rounds=10_000, arms=2, epsilon=1.0)
        >>> learner.guarantee().epsilon(0.0).upper, round(learner.regret_bound())
        (1.0, 435)
        >>> losses = (np.random.default_rng(1).random((10_000, 2)) < [0.4, 0.6]).astype(float)
        >>> bool(learner.regrets(losses, np.random.default_rng(2), 20).mean() < 435)
        True
        >>> found = learner.release(losses)  # secure noise
        >>> found.arms.shape, found.sums.shape == (learner.batches - 1, 2)
        ((10000,), True)
    """

    refuses = {"expected_regret": "the laws of the arms are functions of Laplace noise; simulate, and see regrets()"}
    _session = BanditStream

    rounds: int = field(converter=checked_rounds)
    arms: int = field(converter=checked_arms)
    batch: int = field(converter=arguments.batch)
    scale: float = field(converter=noise_scale)
    learning_rate: float = field(converter=arguments.learning_rate)
    exploration: float = field(converter=_exploration)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise

    @classmethod
    def calibrated(cls, *, rounds: int, arms: int, epsilon: float, group: int = 1, clip: bool = False) -> NoisyBandit:
        """Returns the learner of the least regret bound that is ε-DP for ``group`` people together.

        Batch, learning rate and exploration are found by a numerical search of :meth:`regret_bound`.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        steps, count = checked_rounds(rounds), checked_arms(arms)

        def learner(scale: float) -> NoisyBandit:
            best = asdict(best_parameters(rounds=steps, arms=count, scale=scale))
            return cls(rounds=steps, arms=count, scale=scale, clip=clip, **best)

        return quietest(learner, epsilon, group)

    @property
    def batches(self) -> int:
        """N = ceil(T/B)."""
        return -(-self.rounds // self.batch)

    @property
    def _longest(self) -> int:
        return min(self.batch, self.rounds)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: noisy sum j reads the losses of batch j alone."""
        return self._plan("batches", self.batches - 1)

    def log_likelihood_ratio(self, found: BanditRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln p(arms, sums | losses0) / p(arms, sums | losses1) of simulated runs, shape (runs,).

        Given what was published before, an arm has one law for all losses, so that the noisy sums alone count.

        Raises:
            InvalidArgumentError: the runs or the losses have a wrong shape or invalid entries.
        """
        arms, noisy = self._runs(found)
        exact0, exact1 = (self._exact(losses, arms) for losses in (losses0, losses1))
        return np.asarray(((np.abs(noisy - exact1) - np.abs(noisy - exact0)) / self.scale).sum(axis=1))

    def _exact(self, losses: npt.ArrayLike, arms: Arms) -> FloatArray:
        """Returns the exact sums of the batches of runs with these arms, shape (runs, batches - 1)."""
        sums = batch_sums(self._stream(losses), self._longest)
        found = np.empty((len(arms), self.batches - 1))
        for j in range(self.batches - 1):
            found[:, j] = self._read(sums, arms[:, : j + 1])
        return found

    def _runs(self, found: object) -> tuple[Arms, FloatArray]:
        if not isinstance(found, BanditRuns):
            raise InvalidArgumentError("found", found, "is not made of BanditRuns", "give what simulate() returned")
        arms = array("arms", found.arms, shape=(None, self.batches), low=0, high=self.arms - 1)
        return arms.astype(np.int64), array("sums", found.sums, shape=(len(arms), self.batches - 1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def policy(self, estimates: npt.ArrayLike) -> FloatArray:
        """Returns the law of the next arm after estimated losses of shape (..., arms), in units of a batch's mean."""
        given = array("estimates", estimates)
        if given.shape[-1:] != (self.arms,):
            raise InvalidArgumentError("estimates", estimates, f"do not have {self.arms} arms", "see simulate()")
        return self._laws(given)

    def _laws(self, given: FloatArray) -> FloatArray:
        weights = np.exp(-self.learning_rate * (given - given.min(axis=-1, keepdims=True)))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.asarray((1.0 - self.exploration) * weights + self.exploration / self.arms)

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> BanditRuns:
        """Returns ``runs`` independent runs, with floating-point noise.

        Args:
            losses: The losses of all arms, shape (rounds, arms); a run reads those of the arms that it plays.
            rng: Generator of the noise and of the draws.
            runs: Number of runs.
        """
        sums, source = batch_sums(self._stream(losses), self._longest), generator(rng)
        count = run_count(runs, self.batches)
        every, estimates = np.arange(count), np.zeros((count, self.arms))
        arms, noisy = np.empty((count, self.batches), np.int64), np.empty((count, self.batches - 1))
        for j in range(self.batches):
            law = self._laws(estimates)
            arms[:, j] = arm = _drawn(law, source)
            if j < self.batches - 1:
                noisy[:, j] = self._read(sums, arms[:, : j + 1]) + source.laplace(scale=self.scale, size=count)
                estimates[every, arm] += noisy[:, j] / self.batch / law[every, arm]
        return BanditRuns(arms, noisy, sums[np.arange(self.batches), arms].sum(axis=1))

    def _read(self, sums: FloatArray, arms: Arms) -> FloatArray:
        """Returns the sums that get noise after the last of the batches so far, shape (runs,)."""
        return np.asarray(sums[arms.shape[1] - 1, arms[:, -1]])

    def plays(self, arms: npt.ArrayLike) -> Arms:
        """Returns the arm of each round, shape (..., rounds), from the arms of the batches."""
        given = array("arms", arms, low=0, high=self.arms - 1)
        if given.shape[-1:] != (self.batches,):
            raise InvalidArgumentError("arms", arms, f"do not have {self.batches} batches", "see simulate()")
        return np.repeat(given.astype(np.int64), self.batch, axis=-1)[..., : self.rounds]

    # --- utility -----------------------------------------------------------------------------------------------------

    def regret_bound(self, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret against the best single arm, for losses that are fixed in advance.

        With noise of scale s on a batch's mean, and u = eta K s / gamma < 1, it is B times

            ln(K)/eta + eta K N (1/2 + s²/(1 - u²)) / (1 - gamma) + gamma N.

        Proof: Let w be the exponential weights, p the mixture that the arm is drawn from, and z the noisy mean. With
        x = eta*loss/p_i, E exp(-eta z/p_i) is exp(-x) times the noise's moment, which is at most 1/(1 - v²) for
        v = eta s/p_i <= u, hence at most 1 - x + x²/2 + v²/(1 - u²). As w_i/p_i <= 1/(1 - gamma), a batch changes the
        sum of all weights, in expectation, by a factor of at most 1 - eta <w, losses> + eta² K (1/2 + s²/(1 - u²)) /
        (1 - gamma). The logarithms of these factors add up to at least -ln K - eta times the loss of any fixed arm, by
        Jensen's inequality. Drawing from p costs at most gamma per batch more than w. Discrete noise on a grid has
        smaller moments than Laplace noise of its scale, because (cosh(x) - 1)/x² rises. The scale of a release is used,
        and what its rounding can do to the regret is added.

        Args:
            adversary: "oblivious", or "stochastic", a special case.

        Raises:
            InvalidArgumentError: adaptive losses.
        """
        checked = refuse_adaptive(adversary, "may hit the arm that the learner keeps for a batch")
        if self.batches == 1:  # one uniform draw
            return RegretBound(self.rounds * (1.0 - 1.0 / self.arms), most=self.rounds, adversary=checked)
        noise = self.sum_noise
        found = exp3_bound(
            rounds=self.rounds,
            arms=self.arms,
            scale=noise.scale,
            given=Exp3Parameters(self.batch, self.learning_rate, self.exploration),
        )
        found += noise.rounding(self.rounds, self.batches)
        return RegretBound(found, most=self.rounds, adversary=checked)


def _drawn(laws: FloatArray, source: np.random.Generator) -> Arms:
    """Returns one draw from each row."""
    sums = np.cumsum(laws, axis=1)
    places = source.random((len(laws), 1)) * sums[:, -1:]
    return np.asarray((places >= sums[:, :-1]).sum(axis=1), dtype=np.int64)
