"""Private online convex optimisation by a lazy learner: L2P over regularised multiplicative weights.

One person contributes one round's convex loss; what is published is the point played in every batch of B rounds. The
learner keeps its point as long as a data-dependent coin says so. It also redraws at random times, whatever the data
(fake switches), which hides the real switches. Beside the point x there is an unpublished shadow y from the same
measures, so that the coin needs only the last batch's losses at x and y, and no normaliser.

The accountant graph alone gives the guarantee, in the *full view* of every decision, draw and shadow, of which the
played points are post-processing:

* one decision reads the replaced loss (decisions compose in parallel). The loss moves its log-ratio by at most κ,
  and rarely by so much: if all losses are fixed in advance, point and shadow have the same law in both worlds up to
  there, and the decision costs an average over that law;
* the draw on that decision's own redraw branch is Gaussian-DP and charged in full;
* every later draw happens with a probability that is equal in both worlds: a visible mixture of Gaussian-DP draws;
* κ, and the bound on the redraw probability, hold up to a failure probability (`log_ratio_bounds.py`);
* draws of an inexact sampler add their own failure probability (`samplers.sampling_failure`).

Source: Asi, Koren, Liu & Talwar 2024 (Algorithm 1, Section 3.2). The algorithm is theirs; their proof is not used.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import regret_bound as bounds
from hockeystick.learners.common.regret_bound import RegretBound, refuse_adaptive
from hockeystick.learners.lazy.convex import convex_stream
from hockeystick.learners.lazy.convex.calibration import ConvexParameters, calibrate
from hockeystick.learners.lazy.convex.log_ratio_bounds import Adversary, adversary_of
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    ConvexLosses,
    Domain,
    LinearLosses,
    checked_domain,
    steepest_pair,
)
from hockeystick.learners.lazy.convex.losses.given_losses import Losses
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedMeasure, minimiser
from hockeystick.learners.lazy.convex.sampling.samplers import ClosedFormSampler, Sampler
from hockeystick.learners.lazy.convex.setting import ConvexSetting
from hockeystick.learners.lazy.convex.stream_setting import StreamSetting, fit_for_release
from hockeystick.learners.lazy.walk.simulation import simulated_walks, walk_log_ratio
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.randomness.noise import ReleaseNoise


@frozen(eq=False)
class ConvexTranscripts:
    """The full view of R runs of n batches; only its first field, the points, is played.

    See ``LazyConvex`` for an example.

    Attributes:
        actions: Shape ``(R, n, d)``: the point played in each batch.
        switched: Shape ``(R, n)``, bool: whether the point was drawn afresh for the batch. Column 0 is False.
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
    """One simulated run of a lazy learner of convex losses. Its noise is seeded, so it is not a private release.

    See ``LazyConvex`` for an example.

    Attributes:
        actions: Shape ``(rounds, d)``: the point played in each round.
        transcript: The full view, one run.
        loss: Total loss of the played points.
        best_point: The best fixed point in hindsight, or nearly so, shape ``(d,)``.
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

    Source: Asi, Koren, Liu & Talwar 2024, Algorithm 1 and Section 3.2; its proof is not used.

    Args:
        rounds: T >= 1, one person each.
        domain: A ball or a box; points are regularised towards the origin.
        lipschitz: L > 0, of every loss over the domain in the Euclidean norm.
        batch: B in 1 .. T; rounds per point played.
        inverse_temperature: β > 0, per unit of loss.
        regularisation: λ > 0, in units of loss per squared length.
        fake_switch_probability: p in [0, 1): the probability, per batch, of a redraw whatever the data.
        shadow_probability: p_y in [0, 1): the probability, per batch, that the shadow is redrawn; None for p. At 0 the
            shadow's measure stays the first one, and coins are clipped ever more often.
        failure: The probability, part of δ, with which the bounds on log-ratios may fail. Unused if the domain is
            so small that they hold surely.
        clip_tail: The total variation distance that clipped coins may cause between the last point's law and its
            measure. It determines the log-normaliser c; it affects utility, not privacy.
        normaliser: c >= 0; None to derive it from ``clip_tail``.
        adversary: "oblivious": all losses are fixed in advance. "adaptive": each may depend on all earlier draws, which
            costs more.
        draw_budget: The learner keeps its point for good after so many draws of points and shadows; None for no limit.
        sampler: Draws the points; its certificate enters the plan.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.lazy import Ball
        >>> learner = LazyConvex(
        ...     rounds=20, domain=Ball(2, 1.0), lipschitz=1.0, inverse_temperature=0.05, regularisation=5.0,
        ...     fake_switch_probability=0.2, shadow_probability=0.0)
        >>> round(learner.weights.replacement_mu, 4), learner.regret_bound(), learner.regret_bound().vacuous
        (0.1414, 40.0, True)
        >>> losses, _ = learner.worst_case_neighbours()
        >>> learner.run(losses, np.random.default_rng(1)).actions.shape
        (20, 2)
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
        """Returns the learner of least worst-case regret bound whose certified ε at ``delta`` is <= ``epsilon``.

        The target holds for any ``group`` of people together, or for a user who contributes so many rounds. See
        :mod:`hockeystick.learners.lazy.convex.calibration`.

        Raises:
            InvalidArgumentError: an argument outside its domain, a target that no parameters meet, or a sampler for
                releases that can't draw from the measures found.
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

        found = learner(
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
        if fit_for_release(drawn_by):
            StreamSetting.of(found, ReleaseNoise())  # refuses what a release would refuse
        return found

    # --- privacy -----------------------------------------------------------------------------------------------------

    def worst_case_neighbours(self) -> tuple[LinearLosses, LinearLosses]:
        """Returns two neighbouring streams with a large privacy loss; see ``steepest_pair``."""
        return steepest_pair(self.domain, self.lipschitz, self.rounds)

    # --- releases ----------------------------------------------------------------------------------------------------

    start = convex_stream.start
    resume = convex_stream.resume
    release = convex_stream.release

    # --- runs --------------------------------------------------------------------------------------------------------

    def measure(self, losses: ConvexLosses, batch: int) -> RegularizedMeasure:
        """Returns the measure from which a point for ``batch`` (0-based) is drawn."""
        return self.weights.measure(self.domain, losses, min(self.rounds, batch * self.batch))

    def log_keep(self, losses: ConvexLosses, batch: int, x: FloatArray, y: FloatArray) -> FloatArray:
        """Returns ln P(keep x), shape (R,), for x of shape (R, d) at the boundary into ``batch`` >= 1 (0-based)."""
        log_probability: FloatArray = np.log1p(-self.fake_switch_probability) + self._log_real_keep(losses, batch, x, y)
        return log_probability

    def _log_real_keep(self, losses: ConvexLosses, batch: int, x: FloatArray, y: FloatArray) -> FloatArray:
        ratio = self.weights.log_ratio(losses, (batch - 1) * self.batch, batch * self.batch, x, y)
        return np.minimum(0.0, ratio - self.log_normaliser)

    def simulate(self, losses: Losses, rng: np.random.Generator, runs: int) -> ConvexTranscripts:
        """Returns ``runs`` independent transcripts on one stream, runs on the leading axis, no loop over runs.

        Losses are a family, or the gradients of linear losses, shape (T, d).

        The real switch, the fake switch, the shadow's coin and the two kinds of draws come from five independent
        substreams seeded by ``rng``.
        """
        stream, runs = self.checked(losses), integer("runs", runs, low=1)
        measure = lru_cache(maxsize=1)(lambda batch: self.measure(stream, batch))  # of x and y alike
        return ConvexTranscripts(
            *simulated_walks(
                batches=self.batches,
                runs=runs,
                sample=lambda batch, draw, size: self.sampler.sample(measure(batch), draw, size),
                log_real_keep=lambda batch, x, y: self._log_real_keep(stream, batch, x, y),
                fake=self.fake_switch_probability,
                refresh=self.refresh_probability,
                draw_budget=self.draw_budget,
                generators=generator(rng).spawn(5),
            )
        )

    def run(self, losses: Losses, rng: np.random.Generator) -> ConvexRun:
        """Returns one simulated run over ``losses``, in either form; see :meth:`simulate`."""
        stream = self.checked(losses)
        transcript = self.simulate(stream, rng, 1)
        points, starts = transcript.actions[0], range(0, self.rounds, self.batch)
        loss = math.fsum(
            float(stream.total(points[[s]], start, min(self.rounds, start + self.batch))[0])
            for s, start in enumerate(starts)
        )
        best = minimiser(stream, self.domain, start=0, stop=self.rounds)
        floor = float(stream.total(best[None], 0, self.rounds)[0])
        return ConvexRun(np.repeat(points, self.batch, axis=0)[: self.rounds], transcript, loss, best, loss - floor)

    def log_likelihood_ratio(self, transcripts: ConvexTranscripts, losses0: Losses, losses1: Losses) -> FloatArray:
        """Returns ln P(transcript | losses0) / P(transcript | losses1) of the full view, one number per run.

        Raises:
            InvalidArgumentError: a measure's normaliser has no closed form (see ``RegularizedMeasure``).
        """
        streams = self.checked(losses0), self.checked(losses1)

        def density_gap(s: int, points: FloatArray) -> FloatArray:
            one, other = (self.measure(losses, s) for losses in streams)
            gap = other.losses_at(points) - one.losses_at(points)
            return np.asarray(gap + (other.log_normaliser() - one.log_normaliser()))

        return walk_log_ratio(
            transcripts.actions,
            transcripts.switched,
            transcripts.shadows,
            transcripts.refreshed,
            log_keeps=lambda s, x, y: (self.log_keep(streams[0], s, x, y), self.log_keep(streams[1], s, x, y)),
            density_gap=density_gap,
            draw_budget=self.draw_budget,
        )

    # --- utility -----------------------------------------------------------------------------------------------------

    def expected_regret(self, losses: LinearLosses | npt.ArrayLike) -> float:
        """Returns the exact expected regret for linear losses over a box, if every point follows its measure.

        It does if coins are never clipped; otherwise the true value differs by at most B*L*D*clip_bound per batch.
        """
        stream = self.checked(losses)
        if not isinstance(stream, LinearLosses):
            raise InvalidDataError("losses", losses, "are not linear", "simulate instead")
        means = np.stack([self.measure(stream, s).mean() for s in range(self.batches)])
        sums = np.add.reduceat(stream.gradients, np.arange(0, self.rounds, self.batch), axis=0)
        best = minimiser(stream, self.domain, start=0, stop=self.rounds)
        return float(np.einsum("si,si->", means, sums) - stream.total(best[None], 0, self.rounds)[0])

    def regret_bound(self, *, adversary: bounds.Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret, for exact draws.

        It is λ*D0^2 + T*B*L^2/(4*λ) + d*ln(T)/β + L*D, with D0 the largest norm, plus L*D*T times the clip
        bound. The proof applies Herbst's argument to each batch, sums over the batches (which telescopes), and
        compares with the domain shrunk to 1/T around the best point.

        Raises:
            InvalidArgumentError: with a draw budget, for which no bound is known; or adaptive losses, which may hit the
                point that the learner keeps.
        """
        checked = refuse_adaptive(adversary, "may hit the point that the learner keeps in every round")
        if self.draw_budget is not None:
            raise InvalidArgumentError("draw_budget", self.draw_budget, "has no known regret bound", "simulate instead")
        steep, reach = self.lipschitz, self.lipschitz * self.domain.diameter
        bound = (
            self.regularisation * self.domain.largest_norm**2
            + self.rounds * self.batch * steep**2 / (4.0 * self.regularisation)
            + self.domain.dimension * math.log(self.rounds) / self.inverse_temperature
            + reach
            + reach * self.rounds * self.clip_bound(self.log_normaliser)
        )
        return RegretBound(bound, most=self.rounds * reach, adversary=checked)
