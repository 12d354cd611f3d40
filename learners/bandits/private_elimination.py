"""Successive elimination on noisy sums: a private bandit for independent losses of one law.

An epoch plays the arms that are left in turn, each equally often. At its end the sum of each arm's losses *in this
epoch* is published with Laplace noise, and forgotten; arms whose noisy means are too large are dropped. A person is in
one sum and pays once, so that ε does not grow with the number of rounds.

Source: Sajed & Sheffet 2019 (An optimal private stochastic-MAB algorithm based on an optimal private stopping rule).
The bound on the regret, with its constants, is proved in :meth:`PrivateElimination.pseudo_regret_bound`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, items
from hockeystick.learners.bandits.arm_player import checked_arms, checked_rounds, quietest
from hockeystick.learners.bandits.arm_stream import Arms, ArmStream
from hockeystick.learners.bandits.epochs import Intervals
from hockeystick.learners.bandits.one_law import OneLawPlayer, checked_failure
from hockeystick.learners.bandits.sum_noise import SumNoise
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import RegretBound
from hockeystick.mechanisms import Laplace
from hockeystick.mechanisms.contract.arguments import generator, noise_scale, run_count
from hockeystick.mechanisms.randomness.noise import Noise

Left = npt.NDArray[np.bool_]


def _pulls(value: object) -> tuple[int, ...]:
    return tuple(integer("pulls", one, low=1, high=arguments.MOST) for one in items("pulls", value))


@frozen(eq=False)
class EliminationRuns:
    """Simulated runs of a ``PrivateElimination``, on the leading axis. See ``PrivateElimination`` for an example.

    Attributes:
        left: Whether an arm is left in an epoch, and after the last one, shape (runs, epochs + 1, arms).
        sums: The noisy sums of the epochs, shape (runs, epochs, arms); NaN where none was published.
        losses: The total loss of the arms that were played, shape (runs,); it is not published.
    """

    left: Left
    sums: FloatArray
    losses: FloatArray


class EliminationStream(ArmStream):
    """One run of ``PrivateElimination``, which its ``start`` begins and its ``resume`` continues.

    Example:
        >>> from hockeystick.learners import PrivateElimination
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = PrivateElimination.calibrated(rounds=10_000, arms=3, epsilon=1.0)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> stream.predict()
        0
        >>> stream.update(0.25)  # the loss of that arm
        >>> stream.round, stream.left, stream.predict()
        (1, (0, 1, 2), 1)
    """

    __slots__ = ("_epoch",)
    _learner: PrivateElimination

    def __init__(self, learner: PrivateElimination, noise: Noise, body: dict[str, Any] | None = None) -> None:
        self._epoch = 0
        super().__init__(learner, noise, body)

    @property
    def left(self) -> tuple[int, ...]:
        """The arms that were not dropped; this is published."""
        return tuple(self._turn)

    def _opening(self) -> list[int]:
        return list(range(self._learner.arms))

    def _length(self) -> int:
        pulls = self._learner.pulls
        last = len(self._turn) == 1 or self._epoch == len(pulls)
        return self._learner.rounds if last else len(self._turn) * pulls[self._epoch]

    def _next(self, sums: list[float]) -> list[int]:
        kept = self._learner._kept(np.array(sums), self._epoch)
        self._epoch += 1
        return [arm for arm, stays in zip(self._turn, kept, strict=True) if stays]

    def _restore(self, body: dict[str, Any]) -> None:
        self._epoch = integer("epoch", body["epoch"], low=0, high=len(self._learner.pulls))
        if sorted({*body["turn"]}) != body["turn"]:
            raise ValueError("the arms that are left are not in order")

    def _state(self) -> dict[str, Any]:
        return {"epoch": self._epoch}


@frozen(kw_only=True)
class PrivateElimination(OneLawPlayer):
    """A private bandit for independent losses of one law: successive elimination on noisy sums.

    Neighbouring tables differ in the losses of all arms in one round, replaced by any others in [0, 1] (replace-one;
    rounds keep their places). All arms and all noisy sums are published. The learner is (1/scale)-DP, with δ = 0, for
    any losses; the bound on the regret needs independent rounds of one law.

    Source: Sajed & Sheffet 2019.

    Args:
        rounds: T >= 1, one person each.
        arms: K >= 2.
        scale: The scale of the Laplace noise on each sum of losses, in units of loss.
        pulls: How often each arm that is left is played, in each epoch. After the last of them, or if one arm is left,
            nothing more is published: the arms that are left are played in turn.
        failure: beta in (0, 1), the probability that a confidence interval may be missed. An arm is dropped if its
            noisy mean is above the least one by more than the whole width of an interval.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import PrivateElimination
        >>> learner = PrivateElimination.calibrated(rounds=100_000, arms=5, epsilon=1.0)
        >>> learner.pulls, learner.guarantee().epsilon(0.0).upper
        ((700, 2562, 9716), 1.0)
        >>> means = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
        >>> round(learner.pseudo_regret_bound(means - 0.5))
        9880
        >>> losses = (np.random.default_rng(1).random((100_000, 5)) < means).astype(float)
        >>> found = learner.release(losses)  # secure noise
        >>> int(found.arms[-1])
        0
    """

    refuses = {"expected_regret": "the arms that are left depend on Laplace noise; simulate, and see regrets()"}
    _against_others = "may make an arm the best after it was dropped"
    _session = EliminationStream

    rounds: int = field(converter=checked_rounds)
    arms: int = field(converter=checked_arms)
    scale: float = field(converter=noise_scale)
    pulls: tuple[int, ...] = field(converter=_pulls)
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
        pulls: Iterable[int] | None = None,
        failure: float | None = None,
        clip: bool = False,
    ) -> PrivateElimination:
        """Returns the learner with the least noise that is ε-DP for ``group`` people together.

        Args:
            rounds, arms, clip: As for the class.
            epsilon: The target.
            group: Number of people, one round each, who are protected together.
            pulls: None for the least ones that find an arm of gap above 2^-e in epoch e (from 1).
            failure: None for 1/T.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        steps, count = checked_rounds(rounds), checked_arms(arms)
        beta = min(0.5, 1.0 / steps) if failure is None else checked_failure(failure)
        given = None if pulls is None else _pulls(pulls)

        def learner(scale: float) -> PrivateElimination:
            noise = SumNoise.of(Laplace(scale), steps)
            own = Intervals(count, beta, noise).schedule(steps) if given is None else given
            return cls(rounds=steps, arms=count, scale=scale, pulls=own, failure=beta, clip=clip)

        return quietest(learner, epsilon, group)

    @property
    def widths(self) -> tuple[float, ...]:
        """Half the widths of the confidence intervals of the noisy means, in each epoch."""
        intervals = Intervals(self.arms, self.failure, self.sum_noise)
        return tuple(intervals.width(epoch, pulls) for epoch, pulls in enumerate(self.pulls, 1))

    def _kept(self, sums: FloatArray, epoch: int) -> Left:
        """Returns which arms are kept after their noisy sums in epoch number ``epoch``, from 0; NaN is not."""
        means = sums / self.pulls[epoch]
        return np.asarray(means <= np.nanmin(means, axis=-1, keepdims=True) + 2.0 * self.widths[epoch])

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: a noisy sum reads the losses of one arm in one epoch alone."""
        spent = np.cumsum([0, *(n * (2 if e else self.arms) for e, n in enumerate(self.pulls))], dtype=object)
        return self._plan("arms and epochs", self.arms * int((spent[1:] < self.rounds).sum()))

    def log_likelihood_ratio(
        self, found: EliminationRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """Returns ln p(sums | losses0) / p(sums | losses1) of simulated runs, shape (runs,).

        Raises:
            InvalidArgumentError: the runs or the losses have a wrong shape or invalid entries.
        """
        left, sums = self._runs(found)
        ratio = np.zeros(len(left))
        tables = self._stream(losses0), self._stream(losses1)
        for epoch in range(len(self.pulls)):
            noisy = sums[:, epoch]
            exact0, exact1 = (self._exact(table, left, epoch) for table in tables)
            if (np.isnan(noisy) != np.isnan(exact0)).any():
                raise InvalidArgumentError("found", found, "has sums of other epochs", "give what simulate() returned")
            ratio += np.nansum(np.abs(noisy - exact1) - np.abs(noisy - exact0), axis=1) / self.scale
        return ratio

    def _runs(self, found: object) -> tuple[Left, FloatArray]:
        if not isinstance(found, EliminationRuns):
            raise InvalidArgumentError("found", found, "is not made of EliminationRuns", "give simulate()'s result")
        shape = (None, len(self.pulls) + 1, self.arms)
        left = array("left", found.left, shape=shape, bools=True) > 0.0
        sums = np.asarray(found.sums, dtype=np.float64)
        if not left.any(axis=2).all() or sums.shape != (len(left), len(self.pulls), self.arms):
            raise InvalidArgumentError("found", found, "has another shape", "give what simulate() returned")
        return left, sums

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> EliminationRuns:
        """Returns ``runs`` independent runs, with floating-point noise.

        Args:
            losses: The losses of all arms, shape (rounds, arms); a run reads those of the arms that it plays.
            rng: Generator of the noise.
            runs: Number of runs.
        """
        table, source, epochs = self._stream(losses), generator(rng), len(self.pulls)
        count = run_count(runs, (epochs + 1) * self.arms)
        left = np.ones((count, epochs + 1, self.arms), np.bool_)
        sums = np.empty((count, epochs, self.arms))
        for epoch in range(epochs):
            exact = self._exact(table, left, epoch)
            sums[:, epoch] = noisy = exact + source.laplace(scale=self.scale, size=exact.shape)
            over = ~np.isnan(noisy).all(axis=1)
            left[:, epoch + 1] = left[:, epoch]
            left[over, epoch + 1] = self._kept(noisy[over], epoch)
        histories, which = np.unique(left.reshape(count, -1), axis=0, return_inverse=True)
        arms = (self._arms_played(history.reshape(epochs + 1, -1)) for history in histories)
        totals = np.array([table[np.arange(self.rounds), played].sum() for played in arms])
        return EliminationRuns(left, sums, totals[which.ravel()])

    def _exact(self, table: FloatArray, left: Left, epoch: int) -> FloatArray:
        """Returns the sums of epoch number ``epoch``, shape (runs, arms); NaN where it publishes none."""
        found, pulls = np.full((len(left), self.arms), np.nan), self.pulls[epoch]
        starts = left[:, :epoch].sum(axis=2) @ np.array(self.pulls[:epoch], np.int64)
        kinds, which = np.unique(np.column_stack([starts, left[:, epoch]]), axis=0, return_inverse=True)
        for number, (start, *own) in enumerate(kinds.tolist()):
            arms = np.flatnonzero(own)
            end = start + len(arms) * pulls
            if len(arms) == 1 or end >= self.rounds:
                continue
            rows = table[start:end].reshape(pulls, len(arms), self.arms)
            sums = np.full(self.arms, np.nan)
            sums[arms] = rows[:, np.arange(len(arms)), arms].sum(axis=0)
            found[which.ravel() == number] = sums
        return found

    def plays(self, left: npt.ArrayLike) -> Arms:
        """Returns the arm of each round, shape (runs, rounds), from the arms that are left; see ``EliminationRuns``.

        Raises:
            InvalidArgumentError: they have another shape, or no arm is left in an epoch.
        """
        given = array("left", left, shape=(None, len(self.pulls) + 1, self.arms), bools=True) > 0.0
        if not given.any(axis=2).all():
            raise InvalidArgumentError("left", left, "has an epoch without arms", "give what simulate() returned")
        return np.array([self._arms_played(one) for one in given]).reshape(len(given), self.rounds)

    def _arms_played(self, left: Left) -> Arms:
        found, start = np.empty(self.rounds, np.int64), 0
        for epoch, own in enumerate(left):
            arms = np.flatnonzero(own)
            last = epoch == len(self.pulls) or len(arms) == 1
            end = self.rounds if last else min(self.rounds, start + len(arms) * self.pulls[epoch])
            found[start:end] = arms[np.arange(end - start) % len(arms)]
            start = end
        return found

    # --- utility -----------------------------------------------------------------------------------------------------

    def pseudo_regret_bound(self, gaps: npt.ArrayLike | None = None) -> RegretBound:
        """Returns a bound on the expected excess loss over always playing the arm of the least mean.

        Proof: With probability 1 - failure all noisy means are within w_e of their means, in all epochs e. Then the
        best arm is never dropped, because its noisy mean is at most 2 w_e above any other; and an arm of gap above
        4 w_e is dropped after epoch e at the latest, because its noisy mean is more than 2 w_e above that of the best
        arm. So an arm of gap g is played at most n_1 + ... + n_e times, for the first e with 4 w_e < g. Every arm is
        played at most once more than the best one, so that none but it has more than (T + 1)/2 rounds, and all but it
        together have at most (T + 1)(1 - 1/K). If an interval is missed, the excess is at most T.

        Args:
            gaps: The excess of each arm's mean over the least one, shape (arms,); None for a bound that holds for all
                gaps: those of at most some g cost at most g T, each of the others what it may at worst; g is the best.

        Raises:
            InvalidArgumentError: the gaps are not such numbers in [0, 1], of which at least one is 0.
        """
        half, worse = (self.rounds + 1) / 2.0, (self.rounds + 1.0) * (1.0 - 1.0 / self.arms)
        ends = [min(half, float(end)) for end in np.cumsum(self.pulls, dtype=object)]
        return self._excess(gaps, ends, [4.0 * width for width in self.widths], longest=half, worse=worse)
