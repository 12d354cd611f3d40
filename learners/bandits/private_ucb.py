"""Optimism on noisy sums: a private bandit for independent losses of one law that never drops an arm.

An episode plays one arm, twice as often as the arm's episode before. At its end the sum of its losses is published with
Laplace noise, and the sums of the arm's earlier episodes count no more. The next episode plays the arm whose loss may
be least: the lower end of the confidence interval of its last noisy mean is the lowest. A person is in one sum and pays
once, so that ε does not grow with the number of rounds.

Sources: Hu, Huang & Mehta 2021, arXiv 2102.07929, and Azize & Basu 2022, arXiv 2209.02570 (episodes that double, and
forget). The bound on the regret, with its constants, is proved in :meth:`PrivateUCB.pseudo_regret_bound`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.bandits.arm_player import checked_arms, checked_rounds, quietest
from hockeystick.learners.bandits.arm_stream import Arms, ArmStream
from hockeystick.learners.bandits.epochs import Intervals
from hockeystick.learners.bandits.one_law import OneLawPlayer, checked_failure
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import RegretBound
from hockeystick.mechanisms.contract.arguments import generator, noise_scale, run_count
from hockeystick.mechanisms.randomness.noise import Noise


@frozen(eq=False)
class UCBRuns:
    """Simulated runs of a ``PrivateUCB``, on the leading axis. See ``PrivateUCB`` for an example.

    Attributes:
        arms: The arm of each episode, shape (runs, episodes); -1 where a run has fewer.
        sums: The noisy sum of each episode, shape (runs, episodes); NaN where none was published.
        losses: The total loss of the arms that were played, shape (runs,); it is not published.
    """

    arms: Arms
    sums: FloatArray
    losses: FloatArray


class UCBStream(ArmStream):
    """One run of ``PrivateUCB``, which its ``start`` begins and its ``resume`` continues.

    Example:
        >>> from hockeystick.learners import PrivateUCB
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = PrivateUCB.calibrated(rounds=10_000, arms=3, epsilon=1.0)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> for _ in range(3):
        ...     stream.update(0.25)  # each arm is played once
        >>> stream.round, stream.sums.shape, stream.predict() in (0, 1, 2)
        (3, (3, 3), True)
    """

    __slots__ = ("_counts", "_last")
    _learner: PrivateUCB

    def __init__(self, learner: PrivateUCB, noise: Noise, body: dict[str, Any] | None = None) -> None:
        self._counts = np.zeros(learner.arms, np.int64)  # of the episodes of each arm that are over
        self._last = np.zeros(learner.arms)  # the noisy sum of the last of them
        super().__init__(learner, noise, body)

    def _opening(self) -> list[int]:
        return [0]

    def _length(self) -> int:
        return 1 << int(self._counts[self._turn[0]])

    def _next(self, sums: list[float]) -> list[int]:
        (arm,) = self._turn
        self._counts[arm] += 1
        self._last[arm] = sums[0]
        return [int(self._learner._chosen(self._counts[None], self._last[None])[0])]

    def _restore(self, body: dict[str, Any]) -> None:
        shape, top = (self._learner.arms,), self._learner.rounds.bit_length()
        self._counts = array("counts", body["counts"], shape=shape, low=0, high=top, dtype=np.int64)
        self._last = array("last", body["last"], shape=shape)
        done = sum((1 << int(count)) - 1 for count in self._counts)
        if len(body["turn"]) != 1 or integer("first", body["first"]) != done:
            raise ValueError("numbers of rounds and episodes do not match")

    def _state(self) -> dict[str, Any]:
        return {"counts": self._counts.tolist(), "last": self._last.tolist()}


@frozen(kw_only=True)
class PrivateUCB(OneLawPlayer):
    """A private bandit for independent losses of one law: the least lower confidence bound of noisy means.

    Neighbouring tables differ in the losses of all arms in one round, replaced by any others in [0, 1] (replace-one;
    rounds keep their places). All arms and all noisy sums are published. The learner is (1/scale)-DP, with δ = 0, for
    any losses; the bound on the regret needs independent rounds of one law. ``PrivateElimination`` plays all arms that
    are left equally often, and its epochs have the lengths that fit one gap. This learner plays worse arms less while
    it is not sure, and needs no schedule. It has the lesser bound but for large gaps.

    Sources: Hu, Huang & Mehta 2021; Azize & Basu 2022.

    Args:
        rounds: T >= 1, one person each.
        arms: K >= 2.
        scale: The scale of the Laplace noise on each sum of losses, in units of loss.
        failure: beta in (0, 1), the probability that a confidence interval may be missed.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import PrivateUCB
        >>> learner = PrivateUCB.calibrated(rounds=100_000, arms=5, epsilon=1.0)
        >>> learner.guarantee().epsilon(0.0).upper
        1.0
        >>> means = np.array([0.2, 0.7, 0.7, 0.7, 0.7])
        >>> round(learner.pseudo_regret_bound(means - 0.2))
        2047
        >>> losses = (np.random.default_rng(1).random((100_000, 5)) < means).astype(float)
        >>> found = learner.release(losses)  # secure noise
        >>> int(found.arms[-1])
        0
    """

    refuses = {"expected_regret": "the arms that are played depend on Laplace noise; simulate, and see regrets()"}
    _against_others = "may change an arm's losses after its last episode"
    _session = UCBStream

    rounds: int = field(converter=checked_rounds)
    arms: int = field(converter=checked_arms)
    scale: float = field(converter=noise_scale)
    failure: float = field(converter=checked_failure)
    clip: bool = field(default=False, converter=arguments.clip)

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        arms: int,
        epsilon: float,
        group: int = 1,
        failure: float | None = None,
        clip: bool = False,
    ) -> PrivateUCB:
        """Returns the learner with the least noise that is ε-DP for ``group`` people together.

        Args:
            rounds, arms, clip: As for the class.
            epsilon: The target.
            group: Number of people, one round each, who are protected together.
            failure: None for 1/T.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        steps, count = checked_rounds(rounds), checked_arms(arms)
        beta = min(0.5, 1.0 / steps) if failure is None else checked_failure(failure)
        return quietest(
            lambda scale: cls(rounds=steps, arms=count, scale=scale, failure=beta, clip=clip), epsilon, group
        )

    @property
    def widths(self) -> tuple[float, ...]:
        """Half the widths of the confidence intervals of noisy means, of an arm's episodes of 1, 2, 4, … rounds."""
        intervals = Intervals(self.arms, self.failure, self.sum_noise)
        return tuple(intervals.width(e + 1, 1 << e) for e in range(self.rounds.bit_length()))

    def _chosen(self, counts: npt.NDArray[np.int64], last: FloatArray) -> Arms:
        """Returns the arm of the next episode of each run, from numbers of episodes and last noisy sums, (R, arms)."""
        before = np.maximum(counts - 1, 0)
        lowest = last / 2.0**before - np.asarray(self.widths)[np.minimum(before, len(self.widths) - 1)]
        return np.asarray(np.argmin(np.where(counts > 0, lowest, -np.inf), axis=1), dtype=np.int64)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: a noisy sum reads the losses of one episode alone."""
        most, left = 0, self.rounds - 1  # an episode that ends with the last round publishes nothing
        while left >= self.arms << most:  # as many episodes as possible: those of all arms are equally long
            left -= self.arms << most
            most += 1
        return self._plan("episodes", self.arms * most + (left >> most))

    def log_likelihood_ratio(self, found: UCBRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln p(arms, sums | losses0) / p(arms, sums | losses1) of simulated runs, shape (runs,).

        Raises:
            InvalidArgumentError: the runs or the losses have a wrong shape or invalid entries.
        """
        if not isinstance(found, UCBRuns) or np.shape(found.arms) != np.shape(found.sums):
            raise InvalidArgumentError("found", found, "is not made of UCBRuns", "give what simulate() returned")
        arms = array("arms", found.arms, shape=(None, None), low=-1, high=self.arms - 1, dtype=np.int64)
        exact0, exact1 = (self._exact(losses, arms) for losses in (losses0, losses1))
        return np.asarray(np.nansum(np.abs(found.sums - exact1) - np.abs(found.sums - exact0), axis=1) / self.scale)

    def _exact(self, losses: npt.ArrayLike, arms: Arms) -> FloatArray:
        """Returns the exact sums of the episodes of runs with these arms, shape (runs, episodes)."""
        before = np.concatenate([np.zeros((1, self.arms)), np.cumsum(self._stream(losses), axis=0)])
        every, start = np.arange(len(arms)), np.zeros(len(arms), np.int64)
        counts, found = np.zeros((len(arms), self.arms), np.int64), np.full(arms.shape, np.nan)
        for episode, arm in enumerate(arms.T):
            end = np.minimum(start + (1 << counts[every, arm]), self.rounds)
            found[:, episode] = self._read(before, arm, start, end)
            found[(arm < 0) | (end == self.rounds), episode] = np.nan
            counts[every, arm] += arm >= 0
            start = np.where(arm >= 0, end, start)
        return found

    def _read(self, before: FloatArray, arm: Arms, start: Arms, end: Arms) -> FloatArray:
        """Returns the sums of an episode of each run, from sums of the first 0, 1, … rounds, shape (T + 1, arms)."""
        return np.asarray(before[end, arm] - before[start, arm])

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> UCBRuns:
        """Returns ``runs`` independent runs, with floating-point noise.

        Args:
            losses: The losses of all arms, shape (rounds, arms); a run reads those of the arms that it plays.
            rng: Generator of the noise.
            runs: Number of runs.
        """
        table, source = self._stream(losses), generator(rng)
        before = np.concatenate([np.zeros((1, self.arms)), np.cumsum(table, axis=0)])
        count = run_count(runs, self.arms * self.rounds.bit_length())
        every, start, lost = np.arange(count), np.zeros(count, np.int64), np.zeros(count)
        counts, last = np.zeros((count, self.arms), np.int64), np.zeros((count, self.arms))
        arms, sums = [], []
        while (on := start < self.rounds).any():
            arm = self._chosen(counts, last)
            end = np.minimum(start + (1 << counts[every, arm]), self.rounds)
            noisy = self._read(before, arm, start, end) + source.laplace(scale=self.scale, size=count)
            lost += np.where(on, before[end, arm] - before[start, arm], 0.0)
            arms.append(np.where(on, arm, -1))
            sums.append(np.where(on & (end < self.rounds), noisy, np.nan))
            counts[every, arm] += 1
            last[every, arm], start = noisy, end
        return UCBRuns(np.stack(arms, axis=1), np.stack(sums, axis=1), lost)

    # --- utility -----------------------------------------------------------------------------------------------------

    def pseudo_regret_bound(self, gaps: npt.ArrayLike | None = None) -> RegretBound:
        """Returns a bound on the expected excess loss over always playing the arm of the least mean.

        Proof: Let w_j be the width of an arm's episode j, of 2^j rounds from j = 0. Which rounds it has is decided by
        what was published before, and its losses are independent of that. So with probability 1 - failure all noisy
        means are within their widths. Then an arm of gap g whose last episode is j is played again only if its mean -
        2 w_j is at most its lower bound, which is at most that of the best arm, hence at most the least mean: only if
        g <= 2 w_j. So it is played in the episodes 0, ..., e at most, for the first e with 2 w_e < g, which have
        2^(e+1) - 1 rounds. If an interval is missed, the excess is at most T.

        Args:
            gaps: The excess of each arm's mean over the least one, shape (arms,); None for a bound that holds for all
                gaps: those of at most some g cost at most g T, each of the others what it may at worst; g is the best.

        Raises:
            InvalidArgumentError: the gaps are not such numbers in [0, 1], of which at least one is 0.
        """
        total = float(self.rounds)
        ends = [min(total, 2.0 ** (e + 1) - 1.0) for e in range(len(self.widths))]
        return self._excess(gaps, ends, [2.0 * width for width in self.widths], longest=total, worse=total)
