"""A private bandit against losses that are fixed in advance: batches of one arm, drawn by noisy losses.

A batch plays one arm. At its end the sum of the arm's losses is published with Laplace noise, and its mean, less 1/2
and over the arm's probability, is added to the arm's estimated loss. The next arm is drawn from weights that fall as a
power of the estimates, mixed with the uniform law. A person is in one batch and pays for one sum, so that ε does not
grow with the number of rounds.

Sources: Audibert & Bubeck 2009, and Zimmert & Seldin 2021 (the weights); Asi, Raman & Talwar 2025, arXiv 2505.21790
(batches with noise). The bound on the regret, with its constant, is proved in :meth:`NoisyBandit.regret_bound`.
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
from hockeystick.learners.bandits.weights_of_arms import CENTRE, best_parameters, power_bound, power_weights
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts.expert_losses import batch_sums
from hockeystick.mechanisms.contract.arguments import generator, noise_scale, run_count
from hockeystick.mechanisms.randomness.noise import Noise


def _exploration(value: object) -> float:
    return real("exploration", value, low=0.0, high=1.0, low_open=True)


def _floor(value: object) -> float:
    return real("floor", value, high=0.0)


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
        """The estimated losses less 1/2 a batch, shape (arms,), in units of a batch's mean; published sums decide them.

        An estimate is the sum, over the batches of its arm, of the noisy mean, at least ``floor``, less 1/2, over the
        arm's probability.
        """
        return self._estimates.copy()

    def _opening(self) -> list[int]:
        return self._draw()

    def _length(self) -> int:
        return self._learner.batch

    def _next(self, sums: list[float]) -> list[int]:
        (arm,), (noisy,) = self._turn, sums
        self._estimates[arm] += self._learner._told(noisy) / self._odds[arm]
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
    """A private bandit for losses that are fixed in advance, with a regret of order sqrt(T K/ε).

    Neighbouring tables differ in the losses of all arms in one round, replaced by any others in [0, 1] (replace-one;
    rounds keep their places). All arms and all noisy sums are published. The learner is (1/scale)-DP, with δ = 0, for
    losses that may depend on all that was published.

    Sources: Audibert & Bubeck 2009, Zimmert & Seldin 2021 (weights); Asi, Raman & Talwar 2025 (batches with noise).

    Args:
        rounds: T >= 1, one person each.
        arms: K >= 2.
        batch: B, the rounds of a batch, in which one arm is played; the last batch may be short, and is not read.
        scale: The scale of the Laplace noise on a batch's sum of losses, in units of loss.
        learning_rate: eta > 0, per unit of a batch's mean loss.
        exploration: gamma in (0, 1], the probability of a uniform draw of an arm.
        floor: At most 0: the mean of a batch counts for this much if its noisy value is less.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import NoisyBandit
        >>> learner = NoisyBandit.calibrated(rounds=10_000, arms=2, epsilon=1.0)
        >>> learner.guarantee().epsilon(0.0).upper, round(learner.regret_bound())
        (1.0, 308)
        >>> losses = (np.random.default_rng(1).random((10_000, 2)) < [0.4, 0.6]).astype(float)
        >>> bool(learner.regrets(losses, np.random.default_rng(2), 5).mean() < 308)
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
    floor: float = field(converter=_floor)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise

    @classmethod
    def calibrated(cls, *, rounds: int, arms: int, epsilon: float, group: int = 1, clip: bool = False) -> NoisyBandit:
        """Returns the learner of the least regret bound that is ε-DP for ``group`` people together.

        Batch, learning rate, exploration and floor are found by a numerical search of :meth:`regret_bound`.

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
        """Returns the law of the next arm after estimated losses of shape (..., arms), as a session's ``estimates``."""
        given = array("estimates", estimates)
        if given.shape[-1:] != (self.arms,):
            raise InvalidArgumentError("estimates", estimates, f"do not have {self.arms} arms", "see simulate()")
        return self._laws(given)

    def _laws(self, given: FloatArray) -> FloatArray:
        weights = power_weights(given, self.learning_rate)
        return np.asarray((1.0 - self.exploration) * weights + self.exploration / self.arms)

    def _told(self, noisy: Any) -> Any:
        """Returns what is added to estimates, over the arm's probability, after these noisy sums of batches."""
        return np.maximum(noisy / self.batch, self.floor) - CENTRE

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
                estimates[every, arm] += self._told(noisy[:, j]) / law[every, arm]
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

        With noise of scale s on a batch's mean, c = 1/2 - floor, kappa = eta/2*sqrt(K/(gamma*(1 - gamma))), and theta =
        kappa*c < 1, it is B times

            (1 - gamma)*(2*(sqrt(K) - 1)/eta + N*(s/2)*exp(floor/s)) + eta*sqrt(K)*N*V + gamma*N*(1 - 1/K),

        where V = 1/4 + 2*s² + the sum of kappa^k*M_(k+2) over k = 1 … 7 + kappa^8*M_10/(1 - theta), and M_p is the p-th
        moment of the positive part of 1/2 + noise: M_p = 2^-p + p*(p - 1)*s²*M_(p-2).

        Proof: Let w be the weights, p = (1 - gamma)*w + gamma/K the law of the arm I, x the noisy mean less 1/2, and y
        = max(x, -c). The weights are those of follow-the-regularised-leader on the estimates, with the regulariser
        -2/eta*sum(sqrt(w_i)). So for any fixed arm u the sum of <w - u, y/p_I at I> over batches is at most 2*(sqrt(K)
        - 1)/eta plus, for each batch, the largest (w_I - v)*y/p_I - (sqrt(v) - sqrt(w_I))²/(eta*sqrt(w_I)) over v >= 0.
        With r = eta*sqrt(w_I)*y/p_I > -1 that is eta*w_I^(3/2)*(y/p_I)²/(1 + r), as r >= -kappa*max(0, -y), because p_I
        is at least the geometric mean 2*sqrt((1 - gamma)*w_I*gamma/K). Given the batch's losses its expectation is at
        most eta*sqrt(K)/(1 - gamma) times that of y²/(1 - kappa*max(0, -y)), which is at most x² + the sum of kappa^k*
        max(0, -x)^(k+2), with the last term over 1 - theta. This is convex in x: its expectation is largest at a loss
        of 0, where it is V, or 1. The floor moves the expectation of y up from that of x by at most that of max(0, -c -
        x), (s/2)*exp(floor/s) at a loss of 0. Playing p and not w costs gamma*(1 - 1/K) at most. Laplace noise is the
        discrete noise of its scale plus an independent number of mean 0 (the fractional part of an exponential variable
        does not depend on the rest), so that discrete noise has smaller expectations of convex functions. The scale of
        a release is used, and what its rounding can do to the regret is added.

        As B grows with 1/ε the bound is about 3.4*sqrt(T*K*(1 - 1/sqrt(K))/ε) for small ε and many rounds. EXP3 in such
        batches has a factor of sqrt(ln K) more.

        Args:
            adversary: "oblivious", or "stochastic", a special case.

        Raises:
            InvalidArgumentError: adaptive losses.
        """
        checked = refuse_adaptive(adversary, "may hit the arm that the learner keeps for a batch")
        if self.batches == 1:  # one uniform draw
            return RegretBound(self.rounds * (1.0 - 1.0 / self.arms), most=self.rounds, adversary=checked)
        noise = self.sum_noise
        own = [self.batch, self.learning_rate, self.exploration, self.floor]
        batch, rate, share, floor = np.reshape(own, (4, 1))
        bounds = power_bound(
            rounds=self.rounds, arms=self.arms, scale=noise.scale, batch=batch, rate=rate, share=share, floor=floor
        )
        found = float(bounds[0])
        found += noise.rounding(self.rounds, self.batches)
        return RegretBound(found, most=self.rounds, adversary=checked)


def _drawn(laws: FloatArray, source: np.random.Generator) -> Arms:
    """Returns one draw from each row."""
    sums = np.cumsum(laws, axis=1)
    places = source.random((len(laws), 1)) * sums[:, -1:]
    return np.asarray((places >= sums[:, :-1]).sum(axis=1), dtype=np.int64)
