"""LinUCB under joint differential privacy: contextual bandits whose rewards are linear in the context.

The sums of x xᵀ and y x over the people so far are published with the noise of a binary tree (or of a matrix
mechanism). Each action is optimistic in a confidence set of ridge regression on the latest noisy sums; see
``ridge_confidence`` for the sets and the bound on the regret.

An action depends on its own person's contexts. To hide these from everybody who sees the action is to ignore them, so
differential privacy of all actions forces a regret that is linear in the number of rounds (Shariff & Sheffet 2018).
*Joint* differential privacy is about the view of all others: the noisy sums, and their own actions. Those
are functions of the noisy sums and of their own contexts (billboard lemma: Hsu, Huang, Roth, Roughgarden & Wu 2014).

Source: Shariff & Sheffet 2018, arXiv 1810.00068; Abbasi-Yadkori, Pál & Szepesvári 2011.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Guarantee,
    InvalidArgumentError,
    InvalidDataError,
    NonPrivate,
    PrivacyEvent,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.bandits import contextual_rewards
from hockeystick.learners.bandits.contextual_rewards import SENSITIVITY, ContextualRewards
from hockeystick.learners.bandits.linear_stream import LinUCBStream
from hockeystick.learners.bandits.ridge_confidence import RidgeConfidence
from hockeystick.learners.common import arguments, noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.prefix_sums import (
    PADDING,
    PrefixSums,
    PublishedRuns,
    Sums,
    calibrated_scale,
    checked_sums,
    least_spread,
    mechanism_of,
)
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.mechanisms.contract.arguments import generator, zeros
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger

ASSUMPTIONS = (
    "every context has a norm of at most 1, and every reward lies in [-1, 1]",
    "each person is one round",
    "person t alone sees action t",
    "the regret is not published",
    "later people's contexts and rewards do not depend on action t",
)
"""What the guarantee of the view of others assumes."""


def _dimension(value: object) -> int:
    return integer("dimension", value, low=1, high=contextual_rewards.MOST_COORDINATES)


def _parameter_norm(value: object) -> float:
    return real("parameter_norm", value, low=0.0, low_open=True, high=1e100)


def _failure(value: object) -> float:
    return real("failure", value, low=1e-300, high=1.0, high_open=True)


@frozen(kw_only=True)
class JointRelease:
    """A run on recorded data. See ``PrivateLinUCB`` for an example.

    Attributes:
        actions: The action of each round, shape (rounds,). Entry t is for person t alone: not to be published together.
        estimate: The estimate of the parameter θ, shape (d,), from all people but the last; it may be published.
    """

    actions: npt.NDArray[np.int64]
    estimate: FloatArray


@frozen(kw_only=True, slots=False)
class PrivateLinUCB(OnlineLearner):
    """LinUCB under joint differential privacy: nobody learns about another person from their own actions.

    Neighbouring streams differ in one person's contexts and rewards, replaced by any others (replace-one; people keep
    their rounds). What others see moves by at most 2√2 in L2; see ``contextual_rewards``.

    Args:
        rounds: T >= 2, one person each.
        dimension: d, the number of coordinates of a context, at most 1000.
        scale: Standard deviation of the noise on each measurement (each block of the tree), per isometric coordinate.
        parameter_norm: S, an upper bound on the norm of the unknown θ. Privacy does not depend on it.
        failure: The probability, in (0, 1), with which the confidence sets may miss θ in some round.
        sums: "tree", "square root" or "buffered"; see ``TreeExperts``.
        clip: Scale contexts down to norm 1, and clip rewards to [-1, 1], infinite ones too, instead of refusing them;
            NaN is always refused. The bound on the regret is then about the clipped rewards, where they are linear.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = PrivateLinUCB.calibrated(rounds=10**6, dimension=5, epsilon=1.0, delta=1e-6)
        >>> round(learner.guarantee("others").epsilon(1e-6).upper, 6)
        1.0
        >>> rng = np.random.default_rng(1)
        >>> contexts = rng.normal(size=(1000, 3, 2)) / 4
        >>> data = ContextualRewards(contexts, np.clip(contexts @ [0.6, 0.8], -1, 1))
        >>> small = PrivateLinUCB.calibrated(rounds=1000, dimension=2, epsilon=4.0, delta=1e-6, clip=True)
        >>> found = small.release(data)
        >>> found.actions.shape, found.estimate.shape
        ((1000,), (2,))
    """

    refuses = {
        "release_mixtures": "an action is the best by its index, not a draw",
        "expected_regret": "actions are adaptive and other actions' rewards are not observed; simulate, see regrets()",
    }

    rounds: int = field(converter=arguments.two_rounds)
    dimension: int = field(converter=_dimension)
    scale: float = field(converter=arguments.scale)
    parameter_norm: float = field(default=1.0, converter=_parameter_norm)
    failure: float = field(default=0.01, converter=_failure)
    sums: Sums = field(default="tree", converter=checked_sums)
    clip: bool = field(default=False, converter=arguments.clip)

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        dimension: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        parameter_norm: float = 1.0,
        failure: float = 0.01,
        sums: Sums = "tree",
        clip: bool = False,
    ) -> PrivateLinUCB:
        """Returns the learner with the least noise that is (ε, δ)-DP in the view of others, for ``group`` people."""
        scale = calibrated_scale(sums, arguments.two_rounds(rounds), SENSITIVITY, epsilon, delta, group)
        return cls(
            rounds=rounds,
            dimension=dimension,
            scale=scale,
            parameter_norm=parameter_norm,
            failure=failure,
            sums=sums,
            clip=clip,
        )

    @property
    def mechanism(self) -> PrefixSums:
        """The sums over the first T - 1 people; replacing a person moves them by up to 2√2 in L2."""
        return mechanism_of(self.sums, self.rounds, self.scale, SENSITIVITY)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, with the view of others.

        Without a view it has no guarantee: there all actions are seen, each of which depends on its person's contexts.
        """
        return (
            AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=ASSUMPTIONS)
            .source("rounds", size=self.rounds)
            .release("noisy sums", self.mechanism.event(), reads=("rounds",))
            .release("own actions", NonPrivate(), reads=("rounds", "noisy sums"))
            .post("others' actions", reads=("noisy sums",))
            .view("others", sees=("noisy sums", "others' actions"))
        )

    def guarantee(self, view: str | None = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee for ``group`` people together, in the view of all others.

        Args:
            view: "others".
            group: The number of people whose data are replaced, and whose own actions the adversary does not see.

        Raises:
            InvalidArgumentError: no view is named: there is no guarantee for the view of everything.
            GraphError: there is no such view.
        """
        if view is None:
            raise InvalidArgumentError(
                "view",
                view,
                "has no guarantee: an action depends on its own person's contexts, and a learner that hides them from "
                "everybody has a regret linear in the number of rounds",
                'use view="others", for joint differential privacy',
            )
        return self.graph().guarantee(view=view, group=group)

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run in the view of others, as one event for a larger graph or a ledger."""
        return self.mechanism.event()

    def worst_case_neighbours(self) -> tuple[ContextualRewards, ContextualRewards]:
        """Returns two streams of one action at the largest distance: the first person's reward is 1, or -1.

        The first context is a unit vector. All other contexts and rewards are 0.
        """
        contexts, (first, second) = zeros((self.rounds, 1, self.dimension)), zeros((2, self.rounds, 1))
        contexts[0, 0, 0], first[0], second[0] = 1.0, 1.0, -1.0
        return ContextualRewards(contexts, first), ContextualRewards(contexts, second)

    # --- actions -----------------------------------------------------------------------------------------------------

    @cached_property
    def confidence(self) -> RidgeConfidence:
        """The confidence sets, and the shift 2U of the noisy matrix; from public numbers alone."""
        return RidgeConfidence(
            rounds=self.rounds,
            dimension=self.dimension,
            parameter_norm=self.parameter_norm,
            failure=self.failure,
            deviation=least_spread(self.mechanism, self._entries),
            rounding=self.mechanism.rounding(self._entries),
        )

    def _ridge(self, statistics: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Returns eigenvalues and eigenvectors of the shifted matrices, and the estimates, of shape (R, ...).

        Eigenvalues below U, which confidence sets exclude, are raised to U.
        """
        matrix, vector = contextual_rewards.matrix_and_vector(statistics, self.dimension)
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(values + self.confidence.shift, self.confidence.matrix_error)
        along = np.einsum("rij,ri->rj", vectors, vector) / values
        return values, vectors, np.einsum("rij,rj->ri", vectors, along)

    def _estimate(self, statistics: FloatArray) -> FloatArray:
        return np.asarray(self._ridge(statistics[None])[2][0])

    def _choose(self, statistics: FloatArray, contexts: FloatArray, seen: int) -> npt.NDArray[np.int64]:
        """Returns the optimistic action, for statistics of shape (R, entries) and contexts of shape (k, d)."""
        values, vectors, estimates = self._ridge(statistics)
        along = np.einsum("kd,rdj->rkj", contexts, vectors)
        lengths = np.sqrt(np.einsum("rkj,rj->rk", along**2, 1.0 / values))
        return np.asarray(np.argmax(estimates @ contexts.T + self.confidence.width(seen) * lengths, axis=1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LinUCBStream:
        """Begins a run that reads one person at a time; records its whole cost before anything is drawn.

        Args:
            ledger: Records :meth:`event` under ``name``; see ``Laplace.release``.
            name: The run's name in the ledger.
            reads: The sources that the run reads, for a ``FilteredLedger``.
            noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

        Returns:
            The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

        Raises:
            HockeystickError: the ledger refuses.
        """
        return noisy_sum_stream.begun(LinUCBStream, self, ledger, name, reads, noise)

    def resume(
        self, checkpoint: dict[str, Any], *, ledger: AnyLedger | None = None, noise: Noise | None = None
    ) -> LinUCBStream:
        """Continues the run that ``checkpoint()`` saved; its cost was recorded at its start.

        Args:
            checkpoint: The value of ``checkpoint()``, possibly after a round trip through JSON.
            ledger: That of ``start``, which refuses to resume a checkpoint twice; without one there is a warning.
            noise: As for ``start``, and of the same kind as there.

        Returns:
            The run, after the round in which it was saved.

        Raises:
            LedgerError: another session has resumed the checkpoint, or the ledger was not charged for its run.
            InvalidArgumentError: the checkpoint is malformed, was changed, or belongs to a learner with other
                parameters or to noise of the other kind.
        """
        return noisy_sum_stream.continued(LinUCBStream, self, checkpoint, ledger, noise)

    def release(
        self,
        data: ContextualRewards,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> JointRelease:
        """Returns a run on recorded data, from secure noise; other arguments as for ``start``.

        Only contexts and rewards of the actions that are taken enter the sums.

        Raises:
            InvalidArgumentError: bad data; nothing was recorded.
            HockeystickError: the ledger refuses.
        """
        given = self._checked(data)
        session = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        actions = np.empty(self.rounds, dtype=np.int64)
        for t in range(self.rounds):
            actions[t] = session.predict(given.contexts[t])
            session.update(given.rewards[t, actions[t]])
        return JointRelease(actions=actions, estimate=session.estimate)

    def simulate(self, data: ContextualRewards, rng: np.random.Generator, runs: int) -> PublishedRuns:
        """Returns ``runs`` independent runs, with real-valued noise, on the leading axis; loops over rounds only."""
        given, (noise, coins) = self._checked(data), generator(rng).spawn(2)
        sums = self.mechanism.simulate(zeros((self.rounds - 1, self._entries)), noise, runs)  # the noise so far
        total, everyone = np.zeros((len(sums), self._entries)), Coins(np.zeros(1), coins, coins)
        actions = np.empty((len(sums), self.rounds), dtype=np.int64)
        for t in range(self.rounds):
            read = self._actions_of(sums[:, [t - 1]] if t else np.zeros_like(sums[:, :1]), t, everyone)[:, 0]
            actions[:, t] = self._choose(read, given.contexts[t], t)
            if t < self.rounds - 1:
                total += self._statistics(given.contexts[t, actions[:, t]], given.rewards[t, actions[:, t]])
                sums[:, t] += total
        return PublishedRuns(sums, actions)

    def log_likelihood_ratio(
        self, found: PublishedRuns, data0: ContextualRewards, data1: ContextualRewards
    ) -> FloatArray:
        """Returns ln p(sums | data0) / p(sums | data1), one number per run, for data with one action.

        Raises:
            InvalidDataError: several actions, where what people add depends on each run's coins.
        """
        added = []
        for data in (self._checked(data0), self._checked(data1)):
            if data.actions > 1:
                raise InvalidDataError("data", data, "has several actions", "give data with one action")
            added.append(self._statistics(data.contexts[:-1, 0], data.rewards[:-1, 0]))
        return np.asarray(self.mechanism.log_likelihood_ratio(found.sums, *added))

    @property
    def _entries(self) -> int:
        """Length of the sums."""
        return contextual_rewards.entries(self.dimension)

    @property
    def _shift_scale(self) -> float:
        """0: the sums get no shift that is drawn once."""
        return 0.0

    def _actions_of(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the statistics from which the rounds ``first`` … act: the sums with a little continuous noise."""
        return sums + PADDING * self.scale * coins.normal.standard_normal(sums.shape)

    def _contribution(self, losses: npt.ArrayLike, action: FloatArray, at: int) -> FloatArray:
        """Returns what a person adds, from the reward and the context of the action that was taken."""
        reward = contextual_rewards.checked_rewards("reward", losses, shape=(), clip=self.clip)
        return self._statistics(action, np.asarray(reward))

    def _statistics(self, contexts: FloatArray, rewards: FloatArray) -> FloatArray:
        """Returns what people add, shape (..., entries), from their chosen contexts and their rewards."""
        return contextual_rewards.coordinates(contexts, rewards)

    def _contexts(self, contexts: npt.ArrayLike) -> FloatArray:
        shape = (None, self.dimension)
        return contextual_rewards.checked_contexts("contexts", contexts, shape=shape, clip=self.clip)

    def _checked(self, data: ContextualRewards) -> ContextualRewards:
        """Returns the data with contexts of norm at most 1 and rewards in [-1, 1]."""
        if not isinstance(data, ContextualRewards):
            raise InvalidDataError(
                "data", data, "is not a ContextualRewards", "give ContextualRewards(contexts, rewards)"
            )
        shape = (self.rounds, None, self.dimension)
        contexts = contextual_rewards.checked_contexts("contexts", data.contexts, shape=shape, clip=self.clip)
        rewards = contextual_rewards.checked_rewards("rewards", data.rewards, shape=(None, None), clip=self.clip)
        return ContextualRewards(contexts, rewards)

    # --- utility -----------------------------------------------------------------------------------------------------

    def regrets(
        self, data: ContextualRewards, parameter: npt.ArrayLike, rng: np.random.Generator, runs: int
    ) -> FloatArray:
        """Returns the regret of ``runs`` simulated runs, shape (runs,), where rewards have the mean ⟨parameter, x⟩.

        Args:
            data, rng, runs: As for :meth:`simulate`.
            parameter: θ, shape (d,).
        """
        truth = array("parameter", parameter, shape=(self.dimension,))
        given = self._checked(data)
        actions = self.simulate(given, rng, runs).actions.astype(np.int64)
        means = given.contexts @ truth
        taken = means[np.arange(self.rounds), actions]
        return np.asarray((means.max(axis=1) - taken).sum(axis=1))

    def regret_bound(self, *, adversary: Adversary = "stochastic", expected: bool = True) -> RegretBound:
        """Returns a bound on the regret against the best action of each round, by the mean of its reward.

        Rewards have the mean ⟨θ, x⟩ for one θ of norm at most ``parameter_norm``, given all that came before. Contexts
        may be any. See ``ridge_confidence`` for the proof. The bound is often above 2T: then it is vacuous.

        Args:
            adversary: "stochastic", the only one.
            expected: True for a bound on the expected regret; False for one that a run's regret keeps with probability
                1 - ``failure``.

        Raises:
            InvalidArgumentError: another adversary.
        """
        if (checked := checked_adversary(adversary)) != "stochastic":
            raise InvalidArgumentError(
                "adversary", checked, "may choose rewards that are not linear in the context", 'use "stochastic"'
            )
        most = 2.0 * min(1.0, self.parameter_norm) * self.rounds
        bound = min(self.confidence.regret(), most)
        if not expected:
            return RegretBound(bound, most=most, adversary=checked, probability=1.0 - self.failure)
        return RegretBound(bound + self.failure * most, most=most, adversary=checked)
