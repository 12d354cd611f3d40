"""Private prediction from expert advice by a lazy learner: L2P over multiplicative weights, and its dartboard variant.

One person contributes one round's losses; what is published is the expert played in every batch of B rounds. The
learner repeats its expert as long as a data-dependent coin says so, and redraws now and then for no reason at all
(fake switches), which hides the real ones.

Privacy rests on the accountant graph alone, in the *full view*: the adversary sees every switching decision, every
draw and the shadow, of which the played experts are post-processing. Where that differs from what was printed, the
graph follows the argument, not the print:

* the changed person's batch is read by one switching decision, so decisions compose in parallel over batches;
* the draw on that decision's own redraw branch is paid in full, since its coin already told the worlds apart;
* every later redraw happens with a probability that is equal in both worlds: a visible mixture of bounded-range draws.

Sources: Asi, Koren, Liu & Talwar 2024 (Algorithm 1, Theorem 3.2); Geulen, Voecking & Winkler 2010 (dartboard);
Dong, Durfee & Rogers 2020 (bounded range).
"""

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.experts import multiplicative_weights
from hockeystick.learners.experts.expert_losses import batch_sums, opposite_halves, regret_floor
from hockeystick.learners.experts.loss_batches import loss_batches
from hockeystick.learners.lazy.experts import lazy_stream
from hockeystick.learners.lazy.experts.calibration import LazyParameters, calibrate
from hockeystick.learners.lazy.experts.lazy_chain import (
    LazyChain,
    Transcripts,
    decision_log_likelihood_ratio,
    log_likelihood_ratio,
)
from hockeystick.learners.lazy.experts.lazy_run import LazyRun, play
from hockeystick.learners.lazy.experts.lazy_stream import LazyRelease, LazyStream
from hockeystick.learners.lazy.experts.setting import ExpertsSetting, Variant, _variant
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


@frozen(kw_only=True)
class LazyExperts(ExpertsSetting):
    """The lazy learner of experts.

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep
    their places). The guarantee holds for adversaries that choose losses adaptively.

    Source: Asi, Koren, Liu & Talwar 2024, Algorithm 1 and Theorem 3.2; "dartboard": Geulen, Voecking & Winkler 2010.

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        batch: B in 1 .. T; rounds per action. A batch costs regret eta*T*B/8 and saves decisions and fake switches.
        learning_rate: eta > 0, per unit of loss.
        fake_switch_probability: p in [0, 1): the chance, per batch, of a redraw for no reason.
        shadow_probability: p_y in [0, 1): the chance, per batch, that the shadow is redrawn; None for p. L2P only.
        variant: "l2p" (with a shadow) or "dartboard" (without; smaller decision range, fewer draws).
        normaliser: the log-normaliser c of the keep probability: "tight" for B*eta, the smallest at which nothing is
            ever clipped, "paper" for 2*B*eta, or a number >= 0. Below B*eta the law of the actions is no longer that
            of multiplicative weights; privacy holds for each. L2P only.
        draw_budget: After so many draws of experts and shadows, the first ones not counted, the learner keeps its
            expert for good; None for no limit.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.
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
        variant: Variant = "l2p",
        clip: bool = False,
    ) -> "LazyExperts":
        """The learner with the smallest worst-case regret bound whose certified epsilon at ``delta`` is <= ``epsilon``.

        The target holds for any ``group`` of people together: for a user who contributes so many rounds.

        Batch, fake-switch probability and learning rate are searched with the Renyi curves of the graph's events; the
        final learner is certified by its graph (see :mod:`hockeystick.learners.lazy.experts.calibration`).

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that no parameters meet.
        """
        _variant(variant)

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
                event=lambda parameters: learner(parameters).graph().guarantee(group=group).event,
            )
        )

    # --- privacy -----------------------------------------------------------------------------------------------------

    def worst_case_neighbours(self, *, focus: Literal["run", "decision"] = "run") -> tuple[FloatArray, FloatArray]:
        """Two neighbouring streams, each of shape (rounds, experts), that are hard to keep apart.

        The first person's losses are 1 on one half of the experts in one stream and on the other half in the other;
        all later losses are 0, so that the weights stay balanced and every draw tells the streams apart.

        Args:
            focus: "run" for that pair; "decision" lets the rest of the first batch push the keep probability of L2P
                to its largest value, and the second batch restore the balance. Equal for B = 1 and for the dartboard.
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

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LazyStream:
        """Begins a run that is fed one round at a time; its whole cost is recorded here, before anything is drawn.

        Args:
            ledger: Where :meth:`event` is recorded, under ``name``; see ``Laplace.release``.
            name: The run's name in the ledger.
            reads: What it reads, for a ``FilteredLedger``.
            noise: None for secure noise (the extra ``secure``); ``SimulationNoise`` for runs that can be repeated, and
                are no release.

        Raises:
            SecureReleaseUnavailableError: there is no secure source of noise.
            HockeystickError: the ledger refuses.
        """
        return lazy_stream.start(self, ledger=ledger, name=name, reads=reads, noise=noise)

    def resume(self, checkpoint: dict[str, Any], *, noise: Noise | None = None) -> LazyStream:
        """Takes up the run that ``LazyStream.checkpoint`` saved; its cost was recorded when it was started.

        Raises:
            SecureReleaseUnavailableError: there is no secure source of noise.
            InvalidArgumentError: it is no checkpoint, was changed, or is of a learner with other parameters or of noise
                of the other kind.
        """
        return lazy_stream.resume(self, checkpoint, noise=noise)

    def release(
        self,
        losses: npt.ArrayLike | Iterable[npt.ArrayLike],
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LazyRelease:
        """One run for publication, over ``losses`` as :meth:`run` takes them; see :meth:`start` for the rest.

        An array is checked before anything is recorded. Losses that come in blocks are checked as they come: a bad one
        ends the run, and the charge remains.
        """
        if hasattr(losses, "shape"):
            for _ in loss_batches(losses, rounds=self.rounds, experts=self.experts, batch=self.batch, clip=self.clip):
                pass
        return lazy_stream.play(self.start(ledger=ledger, name=name, reads=reads, noise=noise), losses)

    # --- runs --------------------------------------------------------------------------------------------------------

    def chain(self, losses: npt.ArrayLike) -> LazyChain:
        """The law of the transcript on ``losses`` of shape (rounds, experts), which are checked here."""
        stream = self._stream(losses)
        return LazyChain(
            batch_losses=batch_sums(stream, self.batch),
            learning_rate=self.learning_rate,
            fake_switch_probability=self.fake_switch_probability,
            shadow_probability=None if self.variant == "dartboard" else self.refresh_probability,
            log_normaliser=self.log_normaliser,
        )

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """``runs`` independent transcripts, runs on the leading axis; O(experts + runs) per batch."""
        found = self.chain(losses).simulate(rng, runs)
        return found if self.draw_budget is None else found.stopped(self.draw_budget)

    def run(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike], rng: np.random.Generator) -> LazyRun:
        """One simulated run.

        Args:
            losses: Shape (rounds, experts): an array, a memory-mapped one, or an iterable of blocks of rows of any
                length. They are read once, in blocks; memory depends on the number of rounds through the result alone.
            rng: Seeds the five substreams of coins and draws.
        """
        return play(self, losses, generator(rng))

    def log_likelihood_ratio(
        self, transcripts: Transcripts, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """ln P(transcript | losses0) / P(transcript | losses1) of the full view, one number per run."""
        chains = self.chain(losses0), self.chain(losses1)
        return log_likelihood_ratio(transcripts, *chains, most_draws=self.draw_budget)

    def decision_log_likelihood_ratio(
        self, transcripts: Transcripts, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """The switching decisions' share of :meth:`log_likelihood_ratio`, one number per run."""
        chains = self.chain(losses0), self.chain(losses1)
        return decision_log_likelihood_ratio(transcripts, *chains, most_draws=self.draw_budget)

    # --- utility -----------------------------------------------------------------------------------------------------

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Exact expected regret against the best single expert, without simulation.

        The action of every batch follows the measure of multiplicative weights exactly, whatever p and p_y, as long
        as the keep probability is never clipped.

        Raises:
            InvalidArgumentError: bad losses, a normaliser below B*eta or a draw budget, where that law does not hold.
        """
        if self.draw_budget is not None:
            raise InvalidArgumentError(
                "draw_budget", self.draw_budget, "leaves no closed form of the actions' law", "simulate"
            )
        if self.variant == "l2p" and self.log_normaliser < self.batch * self.learning_rate:
            raise InvalidArgumentError(
                "normaliser",
                self.log_normaliser,
                f"is below B*eta={self.batch * self.learning_rate:g}: the actions' law has no closed form",
                'use normaliser="tight", or simulate',
            )
        stream = self._stream(losses)
        expected = multiplicative_weights.expected_loss(batch_sums(stream, self.batch), self.learning_rate)
        return expected - regret_floor(stream)[1]

    def regret_bound(self) -> float:
        """Worst-case expected regret ln(d)/eta + eta*T*B/8, for every p and p_y (not clipped).

        With a draw budget K, and T times the chance that there would be more than K draws.
        """
        bound = multiplicative_weights.regret_bound(
            rounds=self.rounds, experts=self.experts, batch=self.batch, learning_rate=self.learning_rate
        )
        return bound if self.draw_budget is None else bound + self.rounds * self._chance_of_more(self.draw_budget)

    def _chance_of_more(self, draws: int) -> float:
        """Bound on the probability of more than ``draws`` wishes to draw, expert and shadow together."""
        trials, up_to = self.batches - 1, np.arange(draws + 1)
        shadow = stats.binom.pmf(up_to, trials, self.refresh_probability)
        more = stats.binom.sf(draws - up_to, trials, self.largest_redraw_probability)
        return min(1.0, float(shadow @ more + stats.binom.sf(draws, trials, self.refresh_probability)))
