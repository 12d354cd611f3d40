"""Private online convex optimisation by a lazy learner: L2P over regularised multiplicative weights.

One person contributes one round's convex loss; what is published is the point played in every batch of B rounds. The
learner keeps its point as long as a data-dependent coin says so, and redraws now and then for no reason at all (fake
switches), which hides the real ones. Beside the point x there is an unpublished shadow y from the same measures, so
that the coin needs the last batch's losses at x and y alone, and no normaliser.

Privacy rests on the accountant graph alone, in the *full view* of every decision, draw and shadow, of which the played
points are post-processing:

* the replaced loss is read by one decision (decisions compose in parallel), whose log-ratio it moves by kappa at most,
  and seldom by so much: where all losses are fixed in advance, point and shadow have one law in both worlds until then,
  and the decision costs an average over it;
* the draw on that decision's own redraw branch is Gaussian-DP and paid in full;
* every later draw happens with a probability that is equal in both worlds: a visible mixture of Gaussian-DP draws;
* kappa, and the bound on the redraw probability, hold up to a failure probability (`ratio_tails.py`);
* draws of an inexact sampler add theirs (`log_concave_sampling.sampling_failure`).

Source: Asi, Koren, Liu & Talwar 2024 (Algorithm 1, Section 3.2). Of its proof only the algorithm is used here.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.lazy.convex import convex_stream
from hockeystick.learners.lazy.convex.calibration import ConvexParameters, calibrate
from hockeystick.learners.lazy.convex.convex_stream import ConvexRelease, ConvexStream
from hockeystick.learners.lazy.convex.losses.convex_losses import Box, ConvexLosses, Domain, LinearLosses
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, minimiser
from hockeystick.learners.lazy.convex.ratio_tails import Adversary, adversary_of
from hockeystick.learners.lazy.convex.sampling.samplers import ClosedFormSampler, Sampler
from hockeystick.learners.lazy.convex.setting import ConvexSetting, checked_domain
from hockeystick.learners.lazy.walk.simulation import decision_loss, simulated_walks
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


@frozen(eq=False)
class ConvexTranscripts:
    """What an analyst with full view sees of R runs of n batches; the played points are its first field alone.

    Attributes:
        actions: Shape ``(R, n, d)``: the point played in each batch.
        switched: Shape ``(R, n)``, bool: whether it was drawn afresh for the batch. Column 0 is False.
        shadows: Shape ``(R, n, d)``: the shadow.
        refreshed: Shape ``(R, n)``, bool: whether the shadow was drawn afresh.
    """

    actions: FloatArray
    switched: npt.NDArray[np.bool_]
    shadows: FloatArray
    refreshed: npt.NDArray[np.bool_]

    @property
    def runs(self) -> int:
        """Number of runs R."""
        return int(self.actions.shape[0])


@frozen(eq=False)
class ConvexRun:
    """One simulated run. Simulation noise is seeded and reproducible, so this is not a private release.

    Attributes:
        actions: Shape ``(rounds, d)``: the point played in each round.
        transcript: The full view, one run.
        loss: Total loss of the played points.
        best_point: The (nearly) best fixed point in hindsight, shape ``(d,)``.
        regret: ``loss`` minus the best fixed point's loss.
    """

    actions: FloatArray
    transcript: ConvexTranscripts
    loss: float
    best_point: FloatArray
    regret: float


@frozen(kw_only=True, slots=False)
class LazyConvex(ConvexSetting):
    """The lazy learner of convex losses.

    Neighbouring streams differ in one round's loss, replaced by any other convex L-Lipschitz one (replace-one; rounds
    keep their places).

    Source: Asi, Koren, Liu & Talwar 2024, Algorithm 1 and Section 3.2; of its proof nothing is used.

    Args:
        rounds: T >= 1, one person each.
        domain: A ball or a box; points are regularised towards the origin.
        lipschitz: L > 0, of every loss over the domain in the Euclidean norm.
        batch: B in 1 .. T; rounds per point played.
        inverse_temperature: beta > 0, per unit of loss.
        regularisation: lambda > 0, in units of loss per squared length.
        fake_switch_probability: p in [0, 1): the chance, per batch, of a redraw for no reason.
        shadow_probability: p_y in [0, 1): the chance, per batch, that the shadow is redrawn; None for p. At 0 the
            shadow's measure stays the first one, and coins are clipped ever more often.
        failure: The probability, part of delta, with which the bounds on log-ratios may fail. Unused where the domain
            is so small that they hold for sure.
        clip_tail: The total variation distance, a matter of utility alone, that the last point's law may have from its
            measure because coins are clipped: it chooses the log-normaliser c.
        normaliser: c >= 0 itself, instead.
        adversary: "oblivious": all losses are fixed in advance. "adaptive": each may depend on all that was drawn
            before it; costs more.
        draw_budget: After so many draws of points and shadows the learner keeps its point for good; None for no limit.
        sampler: How points are drawn; its certificate enters the plan.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        domain: Domain,
        lipschitz: float,
        epsilon: float,
        delta: float,
        group: int = 1,
        adversary: Adversary = "oblivious",
        sampler: Sampler | None = None,
    ) -> "LazyConvex":
        """The learner of least worst-case regret bound whose certified epsilon at ``delta`` is <= ``epsilon``.

        The target holds for any ``group`` of people together: for a user who contributes so many rounds. See
        :mod:`hockeystick.learners.lazy.convex.calibration`.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that no parameters meet.
            UnsupportedEventError: the sampler has no certificate.
        """
        drawn_by = ClosedFormSampler() if sampler is None else sampler

        def learner(parameters: ConvexParameters) -> "LazyConvex":
            return cls(
                rounds=rounds,
                domain=domain,
                lipschitz=lipschitz,
                batch=parameters.batch,
                inverse_temperature=parameters.inverse_temperature,
                regularisation=parameters.regularisation,
                fake_switch_probability=parameters.fake_switch_probability,
                failure=parameters.failure,
                clip_tail=parameters.clip_tail,
                adversary=adversary,
                sampler=drawn_by,
            )

        return learner(
            calibrate(
                rounds=rounds,
                domain=checked_domain(domain),
                lipschitz=lipschitz,
                epsilon=epsilon,
                delta=delta,
                adversary=adversary_of(adversary),
                group=group,
                event=lambda parameters: learner(parameters).graph().guarantee(group=group).event,
            )
        )

    # --- privacy -----------------------------------------------------------------------------------------------------

    def worst_case_neighbours(self) -> tuple[LinearLosses, LinearLosses]:
        """Two neighbouring streams that are hard to keep apart: the first loss is +L<e, x> or -L<e, x>, all others 0.

        The direction e is an axis along which the domain is widest.
        """
        gradients = np.zeros((self.rounds, self.domain.dimension))
        axis = 0
        if isinstance(self.domain, Box):
            axis = int(np.argmax(np.array(self.domain.upper) - np.array(self.domain.lower)))
        first, second = gradients.copy(), gradients
        first[0, axis], second[0, axis] = self.lipschitz, -self.lipschitz
        return LinearLosses(first), LinearLosses(second)

    # --- releases ----------------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> ConvexStream:
        """Begins a run that is fed one round at a time, and records its whole cost: see ``convex_stream.start``."""
        return convex_stream.start(self, ledger=ledger, name=name, reads=reads, noise=noise)

    def resume(self, checkpoint: dict[str, Any], *, noise: Noise | None = None) -> ConvexStream:
        """Takes up the run that ``ConvexStream.checkpoint`` saved: see ``convex_stream.resume``."""
        return convex_stream.resume(self, checkpoint, noise=noise)

    def release(
        self,
        losses: ConvexLosses,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> ConvexRelease:
        """One run for publication over all of ``losses``: see ``convex_stream.release``."""
        return convex_stream.release(self, losses, ledger=ledger, name=name, reads=reads, noise=noise)

    # --- runs --------------------------------------------------------------------------------------------------------

    def measure(self, losses: ConvexLosses, batch: int) -> RegularizedMeasure:
        """The measure from which a point for ``batch`` (0-based) is drawn."""
        return self.weights.measure(self.domain, losses, min(self.rounds, batch * self.batch))

    def log_keep(self, losses: ConvexLosses, batch: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """Log-probability, shape (R,), of keeping x of shape (R, d) at the boundary into ``batch`` >= 1 (0-based)."""
        kept: FloatArray = np.log1p(-self.fake_switch_probability) + self._log_real_keep(losses, batch, x, y)
        return kept

    def _log_real_keep(self, losses: ConvexLosses, batch: int, x: FloatArray, y: FloatArray) -> FloatArray:
        ratio = self.weights.log_ratio(losses, (batch - 1) * self.batch, batch * self.batch, x, y)
        return np.minimum(0.0, ratio - self.log_normaliser)

    def simulate(self, losses: ConvexLosses, rng: np.random.Generator, runs: int) -> ConvexTranscripts:
        """``runs`` independent transcripts on one stream, runs on the leading axis, no loop over runs.

        The real switch, the fake switch, the shadow's coin and the two kinds of draws come from five independent
        substreams seeded by ``rng``.
        """
        losses, runs = self.checked(losses), integer("runs", runs, low=1)
        measure = lru_cache(maxsize=1)(lambda batch: self.measure(losses, batch))  # of x and y alike
        return ConvexTranscripts(
            *simulated_walks(
                batches=self.batches,
                runs=runs,
                sample=lambda batch, draw, size: self.sampler.sample(measure(batch), draw, size),
                log_real_keep=lambda batch, x, y: self._log_real_keep(losses, batch, x, y),
                fake=self.fake_switch_probability,
                refresh=self.refresh_probability,
                draw_budget=self.draw_budget,
                generators=generator(rng).spawn(5),
            )
        )

    def run(self, losses: ConvexLosses, rng: np.random.Generator) -> ConvexRun:
        """One simulated run over ``losses``."""
        transcript = self.simulate(losses, rng, 1)
        points, starts = transcript.actions[0], range(0, self.rounds, self.batch)
        loss = math.fsum(
            float(losses.total(points[[s]], start, min(self.rounds, start + self.batch))[0])
            for s, start in enumerate(starts)
        )
        best = minimiser(losses, self.domain, start=0, stop=self.rounds)
        floor = float(losses.total(best[None], 0, self.rounds)[0])
        return ConvexRun(np.repeat(points, self.batch, axis=0)[: self.rounds], transcript, loss, best, loss - floor)

    def log_likelihood_ratio(
        self, transcripts: ConvexTranscripts, losses0: ConvexLosses, losses1: ConvexLosses
    ) -> FloatArray:
        """ln P(transcript | losses0) / P(transcript | losses1) of the full view, one number per run.

        Raises:
            InvalidArgumentError: a measure's normaliser has no closed form (see ``RegularizedMeasure``).
        """
        streams = self.checked(losses0), self.checked(losses1)
        total = np.zeros(transcripts.runs)
        budget = 2 * self.batches if self.draw_budget is None else self.draw_budget
        used = np.cumsum(transcripts.switched + 0 + transcripts.refreshed, axis=1)
        for s in range(1, self.batches):
            x, y = transcripts.actions[:, s - 1], transcripts.shadows[:, s - 1]
            keep0, keep1 = (self.log_keep(losses, s, x, y) for losses in streams)
            bits = decision_loss(transcripts.switched[:, s], keep0, keep1)
            total += np.where(used[:, s - 1] < budget, bits, 0.0)
            measures = [self.measure(losses, s) for losses in streams]
            constant = measures[1].log_normaliser() - measures[0].log_normaliser()
            for drawn, points in (
                (transcripts.switched[:, s], transcripts.actions[:, s]),
                (transcripts.refreshed[:, s], transcripts.shadows[:, s]),
            ):
                gap = measures[1].losses_at(points) - measures[0].losses_at(points)
                total += np.where(drawn, gap + constant, 0.0)
        return total

    # --- utility -----------------------------------------------------------------------------------------------------

    def expected_regret(self, losses: LinearLosses) -> float:
        """Exact expected regret for linear losses over a box, were every point to follow its measure exactly.

        It does if coins are never clipped; otherwise the true value differs by at most B*L*D*clip_bound per batch.
        """
        self.checked(losses)
        means = np.stack([self.measure(losses, s).mean() for s in range(self.batches)])
        sums = np.add.reduceat(losses.gradients, np.arange(0, self.rounds, self.batch), axis=0)
        best = minimiser(losses, self.domain, start=0, stop=self.rounds)
        return float(np.einsum("si,si->", means, sums) - losses.total(best[None], 0, self.rounds)[0])

    def regret_bound(self) -> float:
        """Worst-case expected regret, for oblivious losses and exact draws.

        lambda*D0^2 + T*B*L^2/(4*lambda) + d*ln(T)/beta + L*D, with D0 the largest norm, and L*D*T times the clip bound:
        Herbst's argument per batch, telescoping, and comparison with the domain shrunk to 1/T around the best point.

        Raises:
            InvalidArgumentError: with a draw budget, for which no bound is known.
        """
        if self.draw_budget is not None:
            raise InvalidArgumentError("draw_budget", self.draw_budget, "has no regret bound", "simulate instead")
        steep, reach = self.lipschitz, self.lipschitz * self.domain.diameter
        return (
            self.regularisation * self.domain.largest_norm**2
            + self.rounds * self.batch * steep**2 / (4.0 * self.regularisation)
            + self.domain.dimension * math.log(self.rounds) / self.inverse_temperature
            + reach
            + reach * self.rounds * self.clip_bound(self.log_normaliser)
        )
