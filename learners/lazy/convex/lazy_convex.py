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
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.events.catalogue import (
    AveragedSwitchDecision,
    BoundedRange,
    Failure,
    GaussianDP,
    LazySwitchDecision,
    compose,
)
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.lazy.convex import convex_stream
from hockeystick.learners.lazy.convex.calibration import ConvexParameters, calibrate
from hockeystick.learners.lazy.convex.convex_stream import ConvexRelease, ConvexStream
from hockeystick.learners.lazy.convex.losses.convex_losses import (
    Ball,
    Box,
    ConvexLosses,
    Domain,
    FloatArray,
    LinearLosses,
    checked_losses,
)
from hockeystick.learners.lazy.convex.losses.regularized_measure import (
    RegularizedMeasure,
    RegularizedWeights,
    minimiser,
)
from hockeystick.learners.lazy.convex.ratio_tails import Adversary, RatioTails, adversary_of, ratio_tails
from hockeystick.learners.lazy.convex.sampling.samplers import ClosedFormSampler, Sampler, sampling_failure
from hockeystick.learners.lazy.walk.plan import LazyPlan, largest_redraw
from hockeystick.learners.lazy.walk.simulation import decision_loss, simulated_walks
from hockeystick.mechanisms import LazySwitch
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


def _domain(value: object) -> Domain:
    if not isinstance(value, Ball | Box):
        raise InvalidArgumentError("domain", value, "is no domain", "use Ball or Box")
    return value


def _open_probability(name: str, value: object) -> float:
    return real(name, value, low=0.0, high=1.0, low_open=True, high_open=True)


def _lipschitz(value: object) -> float:
    return real("lipschitz", value, low=0.0, low_open=True)


def _failure(value: object) -> float:
    return _open_probability("failure", value)


def _clip_tail(value: object) -> float:
    return _open_probability("clip_tail", value)


def _normaliser(value: object) -> float | None:
    return None if value is None else real("normaliser", value, low=0.0)


def _draw_budget(value: object) -> int | None:
    return None if value is None else integer("draw_budget", value, low=1)


@frozen(kw_only=True, slots=False)
class LazyConvex:
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

    rounds: int = field(converter=arguments.rounds)
    domain: Domain = field(converter=_domain)
    lipschitz: float = field(converter=_lipschitz)
    batch: int = field(default=1, converter=arguments.batch)
    inverse_temperature: float = field()
    regularisation: float = field()
    fake_switch_probability: float = field(converter=arguments.fake_switch_probability)
    shadow_probability: float | None = field(default=None, converter=arguments.shadow_probability)
    failure: float = field(default=1e-9, converter=_failure)
    clip_tail: float = field(default=1e-3, converter=_clip_tail)
    normaliser: float | None = field(default=None, converter=_normaliser)
    adversary: Adversary = field(default="oblivious", converter=adversary_of)
    draw_budget: int | None = field(default=None, converter=_draw_budget)
    sampler: Sampler = field(factory=ClosedFormSampler)

    def __attrs_post_init__(self) -> None:
        if self.batch > self.rounds:
            raise InvalidArgumentError("batch", self.batch, f"exceeds rounds={self.rounds}", "use a smaller batch")
        _ = self.weights  # checks beta and lambda

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
                domain=_domain(domain),
                lipschitz=lipschitz,
                epsilon=epsilon,
                delta=delta,
                adversary=adversary_of(adversary),
                group=group,
                event=lambda parameters: learner(parameters).graph().guarantee(group=group).event,
            )
        )

    # --- derived numbers ---------------------------------------------------------------------------------------------

    @property
    def batches(self) -> int:
        """Number of batches n = ceil(T / B)."""
        return -(-self.rounds // self.batch)

    @cached_property
    def weights(self) -> RegularizedWeights:
        """The family of measures, with its sensitivities."""
        return RegularizedWeights(
            inverse_temperature=self.inverse_temperature, regularisation=self.regularisation, lipschitz=self.lipschitz
        )

    @property
    def refresh_probability(self) -> float:
        """The shadow's redraw probability p_y."""
        return self.fake_switch_probability if self.shadow_probability is None else self.shadow_probability

    @cached_property
    def tails(self) -> RatioTails:
        """Bounds on the log-ratios, up to :attr:`failure` (and the sampler's error)."""
        return ratio_tails(
            self.weights,
            domain=self.domain,
            batch=self.batch,
            batches=self.batches,
            fake=self.fake_switch_probability,
            shadow=self.refresh_probability,
            normaliser=self.log_normaliser,
            failure=self.failure,
            adversary=self.adversary,
            total_variation=self.sampler.certificate().required(),
        )

    @property
    def largest_log_ratio(self) -> float:
        """The bound on |r| that holds for sure: beta*L*B times the diameter."""
        return self.inverse_temperature * self.lipschitz * self.batch * self.domain.diameter * (1.0 + 1e-8)

    @cached_property
    def log_normaliser(self) -> float:
        """The number c: as given, or the least at which :meth:`clip_bound` is at most ``clip_tail``."""
        if self.normaliser is not None:
            return self.normaliser
        low, high = 0.0, self.largest_log_ratio
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.clip_bound(middle) <= self.clip_tail else (middle, high)
        return high

    def clip_bound(self, log_normaliser: float) -> float:
        """Bound on the total variation distance of any point's law from its measure, at a log-normaliser c.

        (1 - p) * (sum over boundaries) E[(e^(r - c) - 1)_+], with x from the current measure and y from one that is i
        batches older: r then exceeds i*B^2*mu^2/4 as seldom as a normal law of deviation B*mu/sqrt(2) exceeds 0 (see
        ``lazy/convex/ratio_tails.py``), and the excess is that law's. With exact samplers and losses fixed in advance.
        """
        c, n, again = log_normaliser, self.batches, self.refresh_probability
        if n < 2 or c >= self.largest_log_ratio:
            return 0.0
        edges = np.unique(np.concatenate([[0.0], np.floor(np.geomspace(1.0, n - 1.0, 200))]))  # ages, in groups
        alive = np.exp(edges * math.log1p(-again))
        mass = alive - np.append(alive[1:], 0.0)
        oldest = np.append(edges[1:] - 1.0, n - 2.0)
        deviation = self.batch * self.weights.replacement_mu / math.sqrt(2.0)
        margin = (c - 0.5 * oldest * deviation**2) / deviation
        # E[(e^(sZ - m) - 1)_+] = density(m/s) * (Mills(m/s - s) - Mills(m/s)), Mills(z) = (1 - Phi(z))/density(z). For
        # m < 0 nothing is known of the first -m, and what is known at m = 0 counts e^(-m) times.
        with np.errstate(over="ignore", invalid="ignore"):
            start = np.maximum(0.0, margin)
            least, most = (special.erfcx(z / math.sqrt(2.0)) for z in (start, start - deviation))
            excess = 0.5 * np.exp(-0.5 * start**2) * (most - least * (1.0 - 1e-14))
            below = np.maximum(0.0, -margin) * deviation
            excess = (excess * np.exp(below) + np.expm1(below)).clip(max=1e300)  # where no mass is left, nothing counts
            total = (1.0 - self.fake_switch_probability) * (n - 1) * float(mass @ excess) * (1.0 + 1e-9)
        return min(1.0, total)

    @property
    def switch(self) -> LazySwitch:
        """One boundary's decision; its log-ratio moves by at most kappa when one person changes."""
        certain = self.largest_log_ratio
        return LazySwitch(
            self.fake_switch_probability,
            normaliser=self.log_normaliser,
            sensitivity=self.tails.change,
            lowest=-certain,
            highest=certain,
        )

    @property
    def decision(self) -> PrivacyEvent:
        """What one decision costs: on average over point and shadow, if the losses are fixed in advance."""
        worst = self.switch.event()
        if not self.tails.grid or not isinstance(worst, LazySwitchDecision) or worst.log_ratio < self.tails.change:
            return worst
        return AveragedSwitchDecision(
            worst.keep_probability, self.tails.grid, self.tails.chances, log_ratio_cap=worst.log_ratio_cap
        )

    @property
    def draw(self) -> PrivacyEvent:
        """One draw of a point, for one replaced loss: Gaussian-DP, and the sampler's failure.

        On a small domain the replacement moves log-densities by less than Gaussian-DP allows for: by twice beta*L times
        the diameter at most, from one point to another. That is a bounded range, whose zCDP decides which is charged.
        """
        mu, certificate = self.weights.replacement_mu, self.sampler.certificate()
        if not certificate.exact:
            return compose(GaussianDP(mu), Failure(sampling_failure(mu, certificate.required())))
        width = 2.0 * self.largest_log_ratio / self.batch
        return BoundedRange(width) if width < 2.0 * mu else GaussianDP(mu)

    @property
    def largest_redraw_probability(self) -> float:
        """Largest probability of redrawing the point at a boundary (rounded up), while |r| is within its bound."""
        return largest_redraw(self.fake_switch_probability, -(self.log_normaliser + self.tails.largest))

    # --- privacy -----------------------------------------------------------------------------------------------------

    def plan(self) -> LazyPlan:
        """What decisions and draws cost.

        Raises:
            UnsupportedEventError: the sampler has no certificate.
        """
        adaptive = self.adversary == "adaptive"
        return LazyPlan(
            batches=self.batches,
            switch=self.decision,
            draw=self.draw,
            redraw=self.largest_redraw_probability,
            refresh=self.refresh_probability,
            draws=self.draw_budget,
            boundary_failure=self.tails.per_boundary,
            failure=self.tails.overall,
            assumptions=(
                "every loss is convex and Lipschitz over the domain with the stated constant",
                "losses may depend on all earlier draws" if adaptive else "all losses are fixed in advance",
            ),
        )

    def graph(self) -> AccountantGraph:
        """The data-independent plan, for the full view (see ``LazyPlan.graph``); raises as :meth:`plan`."""
        return self.plan().graph()

    def epsilon_for(self, round_: int, delta: float) -> float:
        """Certified epsilon at ``delta`` for the person of round ``round_`` (0-based): later rounds pay less."""
        round_ = integer("round_", round_, low=0, high=self.rounds - 1)
        return self.graph().epsilon_for("batches", delta, member=round_ // self.batch + 1)

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

    def checked(self, losses: ConvexLosses) -> ConvexLosses:
        """``losses``, if they are a stream for this learner; raises InvalidArgumentError if they are not."""
        return checked_losses("losses", losses, rounds=self.rounds, domain=self.domain, lipschitz=self.lipschitz)

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
