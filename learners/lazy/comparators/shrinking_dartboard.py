"""The shrinking dartboard with a budget of draws: a private learner of experts whose cost needs no tail bound.

The shrinking dartboard keeps its expert x after a batch with probability exp(-η L[x]), and otherwise draws a new one
from the weights (Geulen, Voecking & Winkler 2010). The private version also redraws with probability p whatever the
data, and never draws more than K times (Asi, Feldman, Koren & Talwar 2023). If K is unlimited it is the variant
"dartboard" of :class:`~hockeystick.learners.LazyExperts`, on which this learner is built: its runs are that learner's,
frozen at the K-th draw.

With the budget every run makes at most K - 1 draws that read data. Its cost is one switching decision and K - 1 draws,
also in pure and zero-concentrated terms, for which the learner without a budget has no good bound. The regret is larger
in those runs that would have drawn more often.

Sources: Geulen, Voecking & Winkler 2010; Asi, Feldman, Koren & Talwar 2023; Dong, Durfee & Rogers 2020.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy import stats

from hockeystick.accounting import AccountantGraph, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, probability
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import Adversary, RegretBound
from hockeystick.learners.experts.expert_losses import batch_sums, regret_floor
from hockeystick.learners.lazy.experts.calibration import LazyParameters, calibrate
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts
from hockeystick.learners.lazy.experts.lazy_run import LazyRun
from hockeystick.learners.lazy.experts.lazy_stream import LazyRelease, LazyStream
from hockeystick.learners.lazy.experts.setting import BatchedExperts
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


def _budget(value: object) -> int | None:
    return None if value is None else integer("budget", value, low=1)


@frozen(kw_only=True)
class ShrinkingDartboard(BatchedExperts):
    """The shrinking dartboard: plain, which is not private (p = 0, no budget), or private.

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep their
    places). The guarantee holds for adversaries that choose losses adaptively.

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        batch: B in 1 .. T; rounds per action.
        learning_rate: η > 0, per unit of loss.
        fake_switch_probability: p in [0, 1): the probability, per batch, of a redraw whatever the data.
        budget: K >= 1: the largest number of draws per run, including the first, uniform one; None for no limit.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = ShrinkingDartboard(rounds=99, experts=2, learning_rate=0.1, fake_switch_probability=0.1, budget=4)
        >>> learner.graph().guarantee().moves[0].charges[1].count
        3
        >>> round(learner.expected_draws(np.zeros((99, 2))), 3)
        3.997
    """

    fake_switch_probability: float = field(default=0.0, converter=arguments.fake_switch_probability)
    budget: int | None = field(default=None, converter=_budget)
    clip: bool = field(default=False, converter=arguments.clip)

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        beta: float | None = None,
        clip: bool = False,
    ) -> "ShrinkingDartboard":
        """Returns the learner of least worst-case regret bound whose certified ε is <= ``epsilon``.

        Args:
            rounds: T >= 2.
            experts: d >= 2.
            epsilon: Target, > 0.
            delta: The δ of the target, in (0, 1).
            group: Number of people that the target protects together.
            beta: In (0, 1). The budget is the least that a run would exceed with at most this probability; by default
                the probability that costs 1 % of the regret bound without privacy, sqrt(T*ln(d)/2).
            clip: As for the learner.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that no parameters meet.
        """
        rounds, experts = arguments.rounds(rounds), arguments.experts(experts)
        beyond = 0.01 * math.sqrt(0.5 * math.log(experts) / rounds) if beta is None else beta
        beyond = probability("beta", beyond, open=True)

        def learner(parameters: LazyParameters) -> "ShrinkingDartboard":
            return cls(
                rounds=rounds,
                experts=experts,
                batch=parameters.batch,
                learning_rate=parameters.learning_rate,
                fake_switch_probability=parameters.fake_switch_probability,
                clip=clip,
            ).within(beyond)

        return learner(
            calibrate(
                rounds=rounds,
                experts=experts,
                epsilon=epsilon,
                delta=delta,
                group=group,
                shadow=False,
                beyond=beyond,
                event=lambda parameters: learner(parameters).graph().guarantee(group=group).event,
            )
        )

    @property
    def unlimited(self) -> LazyExperts:
        """The same learner without a budget."""
        return LazyExperts(
            rounds=self.rounds,
            experts=self.experts,
            batch=self.batch,
            learning_rate=self.learning_rate,
            fake_switch_probability=self.fake_switch_probability,
            variant="dartboard",
            clip=self.clip,
        )

    @property
    def learner(self) -> LazyExperts:
        """The same learner, its budget as the number of draws after the first, uniform one."""
        return evolve(self.unlimited, draw_budget=None if self.budget is None else self.budget - 1)

    def within(self, beta: float) -> "ShrinkingDartboard":
        """Returns this learner with the least budget that a run would exceed with probability at most ``beta``.

        Whatever the losses, each batch asks for a redraw with probability at most r, so that a binomial law bounds the
        number of redraws.

        Args:
            beta: In (0, 1).
        """
        beta = probability("beta", beta, open=True)
        trials, r = self.batches - 1, self.unlimited.largest_redraw_probability
        budget = int(stats.binom.isf(beta, trials, r)) + 1
        while stats.binom.sf(budget - 1, trials, r) > beta:
            budget += 1
        return evolve(self, budget=budget)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, for the full view of decisions and draws.

        A budget K charges K - 1 draws in full: the first draw of a run is uniform and reads no data.
        """
        return self.learner.graph()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring streams of shape (rounds, experts) with a large privacy loss.

        The first round's losses are 1 on one half of the experts, or on the other; all later ones are 0.
        """
        return self.unlimited.worst_case_neighbours()

    def log_likelihood_ratio(
        self, transcripts: Transcripts, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """Returns ln P(transcript | losses0) / P(transcript | losses1) of decisions and draws, one number per run."""
        return self.learner.log_likelihood_ratio(transcripts, losses0, losses1)

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event, for a larger graph or a ledger."""
        return self.learner.event()

    # --- runs --------------------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LazyStream:
        """Begins a run that reads one round at a time; records its whole cost before anything is drawn.

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
        return self.learner.start(ledger=ledger, name=name, reads=reads, noise=noise)

    def resume(
        self, checkpoint: dict[str, Any], *, ledger: AnyLedger | None = None, noise: Noise | None = None
    ) -> LazyStream:
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
        return self.learner.resume(checkpoint, ledger=ledger, noise=noise)

    def release(
        self,
        losses: npt.ArrayLike | Iterable[npt.ArrayLike],
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LazyRelease:
        """Returns one run for publication; see ``LazyExperts.release``."""
        return self.learner.release(losses, ledger=ledger, name=name, reads=reads, noise=noise)

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns ``runs`` independent transcripts, runs on the leading axis; O(experts + runs) per batch."""
        return self.learner.simulate(losses, rng, runs)

    def run(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike], rng: np.random.Generator) -> LazyRun:
        """Returns one simulated run; see ``LazyExperts.run``."""
        return self.learner.run(losses, rng)

    # --- utility -----------------------------------------------------------------------------------------------------

    def marginals(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the exact law of each batch's action, shape (batches, experts), by dynamic programming.

        O(batches * experts * budget). If the budget is None, it is the measure of multiplicative weights.
        """
        return self._law(losses)[0]

    def expected_draws(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected number of draws of a run, including the first one."""
        return self._law(losses)[1]

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret against the best single expert, without simulation."""
        stream = self._stream(losses)
        return float(np.sum(self.marginals(stream) * batch_sums(stream, self.batch))) - regret_floor(stream)[1]

    def regret_bound(self, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret: ln(d)/η + η*T*B/8, plus T times P(the budget binds).

        Raises:
            InvalidArgumentError: adaptive losses; see ``LazyExperts.regret_bound``.
        """
        return self.learner.regret_bound(adversary=adversary)

    @property
    def _most(self) -> int:
        batches = self.batches
        return batches if self.budget is None else min(self.budget, batches)

    def _law(self, losses: npt.ArrayLike) -> tuple[FloatArray, float]:
        chain = self.unlimited.chain(losses)
        weights = np.exp(chain.log_weights)
        experts = np.arange(self.experts)
        table = np.zeros((self.experts, self._most))  # [action, number of draws so far - 1]
        table[:, 0] = weights[0]
        found, draws = np.empty_like(weights), 1.0
        found[0] = weights[0]
        for s in range(1, chain.batches):
            keep = np.exp(chain.log_keep(s, experts, None))[:, None]
            wishing = np.sum(table[:, :-1] * (1.0 - keep), axis=0)
            table[:, :-1] *= keep  # the last column has spent its budget and stays
            table[:, 1:] += weights[s][:, None] * wishing
            draws += float(wishing.sum())
            found[s] = table.sum(axis=1)
        return found, draws
