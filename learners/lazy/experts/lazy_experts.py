"""Private prediction from expert advice by a lazy learner: L2P over multiplicative weights, and its dartboard variant.

One person contributes one round's losses; what is published is the expert played in every batch of B rounds. The
learner repeats its expert as long as a data-dependent coin says so. It also redraws at random times, whatever the data
(fake switches), which hides the real switches.

The accountant graph alone gives the guarantee, in the *full view*: the adversary sees every switching decision, every
draw and the shadow, of which the played experts are post-processing. Where the printed proof differs, the graph follows
the argument, not the print:

* one switching decision reads the batch of the changed person, so decisions compose in parallel over batches;
* the draw on that decision's own redraw branch is charged in full, since its coin already differs between the worlds;
* every later redraw happens with a probability that is equal in both worlds: a visible mixture of bounded-range draws.

Sources: Asi, Koren, Liu & Talwar 2024 (Algorithm 1, Theorem 3.2); Geulen, Voecking & Winkler 2010 (dartboard);
Dong, Durfee & Rogers 2020 (bounded range).
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary, refuse_adaptive
from hockeystick.learners.experts import multiplicative_weights
from hockeystick.learners.experts.batches import exact_batch_sums
from hockeystick.learners.experts.expert_losses import batch_sums, opposite_halves
from hockeystick.learners.lazy.experts import lazy_stream
from hockeystick.learners.lazy.experts.calibration import LazyParameters, calibrate
from hockeystick.learners.lazy.experts.lazy_chain import (
    LazyChain,
    Transcripts,
    decision_log_likelihood_ratio,
    log_likelihood_ratio,
)
from hockeystick.learners.lazy.experts.lazy_run import LazyRun, play
from hockeystick.learners.lazy.experts.setting import ExpertsSetting, Variant, _variant
from hockeystick.mechanisms.contract.arguments import generator


@frozen(kw_only=True)
class LazyExperts(ExpertsSetting):
    """The lazy learner of experts.

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep
    their places). The guarantee holds for adversaries that choose losses adaptively.

    Source: Asi, Koren, Liu & Talwar 2024, Algorithm 1 and Theorem 3.2; "dartboard": Geulen, Voecking & Winkler 2010.

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        batch: B in 1 .. T; rounds per action. A batch costs regret η*T*B/8 and saves decisions and fake switches.
        learning_rate: η > 0, per unit of loss.
        fake_switch_probability: p in [0, 1]: the probability, per batch, of a redraw whatever the data. With 1
            (dartboard only) every batch's expert is drawn afresh, as in Hedge, and the run is not lazy.
        shadow_probability: p_y in [0, 1): the probability, per batch, that the shadow is redrawn; None for p. L2P only.
        variant: "l2p" (with a shadow) or "dartboard" (no shadow; smaller decision range, fewer draws).
        normaliser: The log-normaliser c of the keep probability: "tight" for B*η, the smallest at which no coin is
            ever clipped, "paper" for 2*B*η, or a number >= 0. Below B*η the actions no longer follow
            multiplicative weights; privacy holds for each. L2P only.
        draw_budget: The learner keeps its expert for good after so many draws of experts and shadows, not counting
            the first ones; None for no limit.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = LazyExperts(rounds=50, experts=2, learning_rate=0.02, fake_switch_probability=0.2)
        >>> round(learner.graph().guarantee().epsilon(1e-6).upper, 3), round(learner.regret_bound(), 2)
        (0.532, 34.78)
        >>> losses = np.random.default_rng(1).random((50, 2))
        >>> learner.run(losses, np.random.default_rng(2)).switches
        9
    """

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        variant: Variant = "dartboard",
        adversary: Adversary = "oblivious",
        clip: bool = False,
    ) -> "LazyExperts":
        """Returns the learner of least worst-case regret bound whose certified ε at ``delta`` is <= ``epsilon``.

        The target holds for any ``group`` of people together, or for a user who contributes so many rounds. The
        dartboard's bound is never above that of "l2p", which is the paper's algorithm. Where ε * T is small, the
        calibrated dartboard draws every batch's expert afresh (p = 1). For ``adversary="adaptive"`` it does so in every
        round, as no lazy learner has a bound against losses that depend on its plays.

        The Rényi curves of the graph's events guide the search for batch, fake-switch probability and learning rate;
        the final learner is certified by its graph (see :mod:`hockeystick.learners.lazy.experts.calibration`).

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that no parameters meet.
        """
        adaptive = checked_adversary(adversary) == "adaptive"
        if _variant(variant) == "l2p" and adaptive:
            refuse_adaptive(adversary, "leaves L2P without a bound")

        def learner(parameters: LazyParameters) -> "LazyExperts":
            return cls(
                rounds=rounds,
                experts=experts,
                batch=parameters.batch,
                learning_rate=parameters.learning_rate,
                fake_switch_probability=parameters.fake_switch_probability,
                variant=variant,
                clip=clip,
            )

        return learner(
            calibrate(
                rounds=rounds,
                experts=experts,
                epsilon=epsilon,
                delta=delta,
                group=group,
                shadow=variant == "l2p",
                adaptive=adaptive,
                event=lambda parameters: learner(parameters).graph().guarantee(group=group).event,
            )
        )

    # --- privacy -----------------------------------------------------------------------------------------------------

    def worst_case_neighbours(self, *, focus: Literal["run", "decision"] = "run") -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring streams, each of shape (rounds, experts), with a large privacy loss.

        The first person's losses are 1 on one half of the experts in one stream and on the other half in the other.
        All later losses are 0, so that the weights stay balanced and every draw distinguishes the streams.

        Args:
            focus: "run" for that pair. With "decision" the rest of the first batch pushes the keep probability of L2P
                to its largest value, and the second batch restores the balance; the same pair for B = 1 and for the
                dartboard.
        """
        first, second = opposite_halves(self.rounds, self.experts)
        half = self.experts // 2
        if focus == "decision" and self.variant == "l2p":
            for stream in (first, second):
                stream[1 : self.batch, half:] = 1.0
                stream[self.batch : 2 * self.batch - 1, :half] = 1.0
        elif focus not in ("run", "decision"):
            raise InvalidArgumentError("focus", focus, "is unknown", 'use "run" or "decision"')
        return first, second

    # --- releases ----------------------------------------------------------------------------------------------------

    start = lazy_stream.start
    resume = lazy_stream.resume
    release = lazy_stream.release

    # --- runs --------------------------------------------------------------------------------------------------------

    def chain(self, losses: npt.ArrayLike) -> LazyChain:
        """Returns the law of the transcript on ``losses`` of shape (rounds, experts), which are checked here."""
        stream = self._stream(losses)
        return LazyChain(
            batch_losses=batch_sums(stream, self.batch),
            learning_rate=self.learning_rate,
            fake_switch_probability=self.fake_switch_probability,
            shadow_probability=None if self.variant == "dartboard" else self.refresh_probability,
            log_normaliser=self.log_normaliser,
        )

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns ``runs`` independent transcripts, runs on the leading axis; O(experts + runs) per batch."""
        found = self.chain(losses).simulate(rng, runs)
        return found if self.draw_budget is None else found.stopped(self.draw_budget)

    def run(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike], rng: np.random.Generator) -> LazyRun:
        """Returns one simulated run.

        Args:
            losses: Shape (rounds, experts): an array, possibly memory-mapped, or an iterable of blocks of rows of any
                length. They are read once, in blocks; only the result's memory grows with the number of rounds.
            rng: Seeds the five substreams of coins and draws.
        """
        return play(self, losses, generator(rng))

    def log_likelihood_ratio(
        self, transcripts: Transcripts, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """Returns ln P(transcript | losses0) / P(transcript | losses1) of the full view, one number per run."""
        chains = self.chain(losses0), self.chain(losses1)
        return log_likelihood_ratio(transcripts, *chains, most_draws=self.draw_budget)

    def decision_log_likelihood_ratio(
        self, transcripts: Transcripts, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """Returns the switching decisions' part of :meth:`log_likelihood_ratio`, one number per run."""
        chains = self.chain(losses0), self.chain(losses1)
        return decision_log_likelihood_ratio(transcripts, *chains, most_draws=self.draw_budget)

    # --- utility -----------------------------------------------------------------------------------------------------

    def expected_regret(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> float:
        """Returns the exact expected regret against the best single expert, without simulation.

        The action of every batch follows the measure of multiplicative weights exactly, for all p and p_y, as long as
        the keep probability is never clipped.

        Raises:
            InvalidArgumentError: bad losses, or a normaliser below B*η or a draw budget, for which that law fails.
        """
        if self.draw_budget is not None:
            raise InvalidArgumentError(
                "draw_budget", self.draw_budget, "leaves the actions' law without a closed form", "simulate"
            )
        if self.variant == "l2p" and self.log_normaliser < self.batch * self.learning_rate:
            raise InvalidArgumentError(
                "normaliser",
                self.log_normaliser,
                f"is below B*eta={self.batch * self.learning_rate:g}: the actions' law has no closed form",
                'use normaliser="tight", or simulate',
            )
        shape = {"rounds": self.rounds, "experts": self.experts, "batch": self.batch}
        return multiplicative_weights.expected_regret(
            exact_batch_sums(losses, **shape, clip=self.clip), self.learning_rate
        )

    def regret_bound(self, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret: ln(d)/η + η*T*B/8, for all p and p_y (coins not clipped).

        A draw budget K adds T times the probability that a run without it would draw more than K times. A learner that
        never draws again loses at most T*(1 - 1/d) more than the best expert.

        Args:
            adversary: "oblivious" or "stochastic"; "adaptive" only for a fresh draw in every round (p = 1 and B = 1).

        Raises:
            InvalidArgumentError: adaptive losses: the expert stays for many rounds, and losses that depend on it hit it
                in each of them (at T = 4096 and d = 4 a bound of 107 becomes a regret of 3100).
        """
        fresh = self.fake_switch_probability == 1.0 and self.batch == 1 and self.draw_budget is None
        checked = (
            checked_adversary(adversary)
            if fresh
            else refuse_adaptive(adversary, "may hit the expert that the learner keeps in every round")
        )
        bound = multiplicative_weights.regret_bound(
            rounds=self.rounds, experts=self.experts, batch=self.batch, learning_rate=self.learning_rate
        )
        if self.batches == 1 or self.draw_budget == 0:
            bound = self.rounds * (1.0 - 1.0 / self.experts)
        elif self.draw_budget is not None:
            bound += self.rounds * self._chance_of_more(self.draw_budget)
        return RegretBound(bound, most=self.rounds, adversary=checked)

    def _chance_of_more(self, draws: int) -> float:
        """Bounds the probability that a run without a budget makes more than ``draws`` draws, shadows included."""
        trials, up_to = self.batches - 1, np.arange(draws + 1)
        shadow = stats.binom.pmf(up_to, trials, self.refresh_probability)
        more = stats.binom.sf(draws - up_to, trials, self.largest_redraw_probability)
        return min(1.0, float(shadow @ more + stats.binom.sf(draws, trials, self.refresh_probability)))
