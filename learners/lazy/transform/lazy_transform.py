"""The lazy transform of any base learner, which mostly repeats its last action, and its privacy cost.

Before each batch except the first a coin depends on the last batch's losses, on the action x and on a shadow y drawn
from the same measures (Asi, Koren, Liu & Talwar 2024, Algorithm 1):

    keep x with probability (1 - p) * exp(min(0, r - c)),    r = log_func(losses, x) - log_func(losses, y),

and otherwise draw x afresh from the measure before the batch; y is redrawn with probability p_y, whatever the data. As
long as r never exceeds c, x follows the measure of its batch exactly. The guarantee follows from :class:`LazyPlan` and
from bounds on r, which the constants of the :class:`LazyMeasure` give as below. The printed proof and its conditions
are not used.

**With a ratio width w** (known, or w = 2*η at δ_0 = 0) all bounds are sure, also for losses chosen adaptively.
With f and f' the ``log_func`` of a loss and of its replacement, and B losses per batch:

* |r| <= B*w, as r is a difference of two values of a sum of B functions of range w;
* |r - r'| <= 2*w at the decision after the batch, and min(0, . - c) is a contraction;
* a draw's log-ratio is f - f' up to a constant, of range 2*w: ``BoundedRange(2 w)``. At δ_0 = 0 both measures are
  within e^(+-η) of the measure that omits the loss: also ``PureDP(2 eta)``. The one with the smaller zCDP is charged.
  For w <= η the first implies the second, for w = 2*η the second implies the first.

**With δ_0 > 0 and no width up to 4*η** the bounds hold for losses fixed in advance, up to a failure probability,
and a draw is ``ApproximateDP(2 eta, (1 + e^eta) delta_0)``: see
:mod:`~hockeystick.learners.lazy.transform.rare_ratios`.
"""

import math
from functools import cached_property
from typing import Any, Literal

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import ApproximateDP, BoundedRange, PureDP
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.lazy.convex.lazy_convex import ConvexTranscripts
from hockeystick.learners.lazy.convex.log_ratio_bounds import Adversary, adversary_of
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts, substreams
from hockeystick.learners.lazy.transform.base_learner import Actions, LazyMeasure, MeasurePath
from hockeystick.learners.lazy.transform.rare_ratios import RatioBounds, neighbour_delta, ratio_bounds
from hockeystick.learners.lazy.walk.batched import Batched
from hockeystick.learners.lazy.walk.plan import LazyPlan, largest_redraw
from hockeystick.learners.lazy.walk.simulation import simulated_walks, walk_log_ratio
from hockeystick.mechanisms import LazySwitch
from hockeystick.mechanisms.contract.arguments import generator

_UP = 1.0 + 1e-12  # more than the rounding of a few operations

Normaliser = Literal["safe", "paper", "tight"]
ViewedRuns = Transcripts | ConvexTranscripts
"""The full view of runs: of points that are numbers, or vectors."""


@frozen(eq=False)
class TransformRun:
    """One simulated run of a lazy transform. Its noise is seeded, so it is not a private release.

    See ``LazyTransform`` for an example.

    Attributes:
        actions: Shape ``(rounds,)`` or ``(rounds, d)``: the action of each round.
        transcript: The full view, one run.
        loss: Total loss.
        best: The (nearly) best fixed action in hindsight.
        regret: ``loss`` minus the loss of ``best``.
    """

    actions: Actions
    transcript: ViewedRuns
    loss: float
    best: Actions
    regret: float


def _normaliser(value: object) -> Normaliser | float:
    if value == "safe" or value == "paper" or value == "tight":
        return value
    if isinstance(value, str):
        raise InvalidArgumentError("normaliser", value, "is unknown", 'use "safe", "paper", "tight" or a number >= 0')
    return real("normaliser", value, low=0.0)


def _margin(value: object) -> float:
    return real("margin", value, low=0.0, low_open=True)


@frozen(kw_only=True, slots=False)
class LazyTransform(Batched):
    """The lazy learner over a base measure.

    Neighbouring streams differ in one round's loss, replaced by any other of the measure's class (replace-one; rounds
    keep their places).

    Args:
        measure: The base learner.
        rounds: T >= 1, one person each.
        batch: B in 1 .. T; rounds per action.
        fake_switch_probability: p in [0, 1): the probability, per batch, of a redraw whatever the data.
        shadow_probability: p_y in [0, 1): the probability, per batch, that the shadow is redrawn; None for p.
        normaliser: The log-normaliser c: "safe" for 4*B*η, "paper" for 2*B*η, "tight" for B times a known ratio
            width, or a number >= 0. If r may exceed it, actions no longer follow their measure exactly; privacy holds
            for each.
        margin: m > 0, for bounds on r that may fail: they are 2*(1+m)*B*η for r and 4*(1+m)*η for its change. The
            smaller δ_0, the smaller the best margin.
        adversary: "oblivious": all losses are fixed in advance. "adaptive": each may depend on all earlier draws;
            refused unless the bounds on r are sure.
        draw_budget: The learner keeps its action for good after so many draws of actions and shadows, not counting the
            first ones; None for no limit.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a measure whose constants are not finite numbers or
            whose η is 0.

    Example:
        >>> from hockeystick.learners.lazy import MultiplicativeMeasure, PointMeasure
        >>> family = PointMeasure(measure=MultiplicativeMeasure(learning_rate=0.05), points=2)
        >>> learner = LazyTransform(measure=family, rounds=20, fake_switch_probability=0.2)
        >>> [node.name for node in learner.graph().nodes]
        ['batches', 'switch', 'redraw', 'later redraws', 'shadow']
        >>> learner.run(np.zeros((20, 2)), np.random.default_rng(1)).regret
        0.0
    """

    refuses = {
        "calibrated": "the constants of the measure decide; see LazyExperts.calibrated and LazyConvex.calibrated",
        **dict.fromkeys(("start", "resume", "release"), "the draws of a measure are in floating point"),
        **dict.fromkeys(("regret_bound", "expected_regret"), "they depend on the measure"),
    }

    measure: LazyMeasure
    rounds: int = field(converter=arguments.rounds)
    batch: int = field(default=1, converter=arguments.batch)
    fake_switch_probability: float = field(converter=arguments.fake_switch_probability)
    shadow_probability: float | None = field(default=None, converter=arguments.shadow_probability)
    normaliser: Normaliser | float = field(default="safe", converter=_normaliser)
    margin: float = field(default=1.0, converter=_margin)
    adversary: Adversary = field(default="oblivious", converter=adversary_of)
    draw_budget: int | None = field(default=None, converter=arguments.draw_budget)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        real("measure.eta", self.measure.eta, low=0.0, low_open=True)
        real("measure.delta0", self.measure.delta0, low=0.0, high=1.0, high_open=True)
        if self.measure.ratio_width is not None:
            real("measure.ratio_width", self.measure.ratio_width, low=0.0, low_open=True)
        if self.normaliser == "tight" and self.sure_width is None:
            raise InvalidArgumentError("normaliser", "tight", "needs a measure with a ratio width", 'use "safe"')
        if self.adversary == "adaptive" and self.bounds.once + self.bounds.per_boundary > 0.0:
            raise InvalidArgumentError(
                "adversary",
                "adaptive",
                "is not covered: bounds on log-ratios hold for losses fixed in advance",
                "use a measure with a smaller ratio width",
            )

    # --- derived numbers ---------------------------------------------------------------------------------------------

    @property
    def refresh_probability(self) -> float:
        """The shadow's redraw probability p_y."""
        return self.fake_switch_probability if self.shadow_probability is None else self.shadow_probability

    @property
    def sure_width(self) -> float | None:
        """The sure bound on the range of one loss's ``log_func``: w, and at most 2*η at δ_0 = 0; None if unknown."""
        known = self.measure.ratio_width
        if self.measure.delta0 > 0.0:
            return known
        return 2.0 * self.measure.eta if known is None else min(known, 2.0 * self.measure.eta)

    @property
    def log_normaliser(self) -> float:
        """The log-normaliser c."""
        if self.normaliser == "tight":
            return self.batch * (self.sure_width or 0.0)
        if isinstance(self.normaliser, str):
            return (4.0 if self.normaliser == "safe" else 2.0) * self.batch * self.measure.eta
        return self.normaliser

    @cached_property
    def bounds(self) -> RatioBounds:
        """The bounds on log-ratios, sure or up to a failure probability."""
        eta, sure = self.measure.eta, self.sure_width
        if sure is not None and sure <= 4.0 * eta:
            return RatioBounds(2.0 * sure, self.batch * sure)
        return ratio_bounds(
            eta,
            self.measure.delta0,
            batch=self.batch,
            batches=self.batches,
            fake=self.fake_switch_probability,
            shadow=self.refresh_probability,
            margin=self.margin,
            total_variation=self.measure.total_variation,
        )

    @property
    def switch(self) -> LazySwitch:
        """The decision at a boundary."""
        certain = math.inf if self.sure_width is None else self.batch * self.sure_width
        return LazySwitch(
            self.fake_switch_probability,
            normaliser=self.log_normaliser,
            sensitivity=self.bounds.change,
            lowest=-certain,
            highest=certain,
        )

    @property
    def draw(self) -> PrivacyEvent:
        """The cost of one draw, for one replaced loss.

        An inexact sampler, within τ of its measure, turns (ε, δ) into (ε, δ + (1 + e^ε) τ).

        Raises:
            UnsupportedEventError: the sampler has no certificate.
        """
        eta, delta0, tau = self.measure.eta, self.measure.delta0, self.measure.total_variation
        width = None if self.sure_width is None else 2.0 * self.sure_width
        if delta0 > 0.0 and (width is None or width > 4.0 * eta):
            epsilon, delta = 2.0 * eta, neighbour_delta(eta, delta0)
        elif tau > 0.0:
            epsilon, delta = min(2.0 * eta if delta0 == 0.0 else math.inf, math.inf if width is None else width), 0.0
        else:
            events: list[PrivacyEvent] = [] if width is None else [BoundedRange(width)]
            if delta0 == 0.0:
                events.append(PureDP(2.0 * eta))
            return min(events, key=lambda event: event.zcdp_rho())
        return ApproximateDP(epsilon, min(1.0, (delta + (1.0 + math.exp(min(epsilon, 700.0))) * tau) * _UP))

    @property
    def largest_redraw_probability(self) -> float:
        """Largest probability of redrawing the action at a boundary (rounded up), while |r| is within its bound."""
        return largest_redraw(self.fake_switch_probability, -(self.log_normaliser + self.bounds.largest))

    # --- privacy -----------------------------------------------------------------------------------------------------

    def plan(self) -> LazyPlan:
        """Returns the costs of decisions and draws.

        Raises:
            UnsupportedEventError: the sampler has no certificate.
        """
        bounds, draw = self.bounds, self.draw
        fails = bounds.once + bounds.per_boundary > 0.0
        assumptions = list(self.measure.assumptions)
        if fails or not isinstance(draw, BoundedRange):
            assumptions.append("measures that differ by one loss are (eta, delta_0)-indistinguishable as stated")
        if fails:
            assumptions.append("all losses are fixed in advance")
        return LazyPlan(
            batches=self.batches,
            switch=self.switch.event(),
            draw=draw,
            redraw=self.largest_redraw_probability,
            refresh=self.refresh_probability,
            draws=self.draw_budget,
            # With a limit on draws, the charge does not depend on the probability of a draw.
            boundary_failure=bounds.per_boundary if self.draw_budget is None else 0.0,
            failure=bounds.once,
            assumptions=tuple(assumptions),
        )

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, for the full view (see ``LazyPlan.graph``)."""
        return self.plan().graph()

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two neighbouring streams with a large privacy loss; see ``LazyMeasure.neighbours``."""
        return self.measure.neighbours(self.rounds)

    # --- runs --------------------------------------------------------------------------------------------------------

    def path(self, losses: Any) -> MeasurePath:
        """Returns the measures along ``losses``, which are checked here."""
        return self.measure.path(losses, rounds=self.rounds, batch=self.batch)

    def log_keep(self, path: MeasurePath, batch: int, x: Actions, y: Actions) -> FloatArray:
        """Returns ln P(keep x), shape (R,), with the shadow y at the boundary into ``batch`` >= 1 (0-based)."""
        return np.asarray(math.log1p(-self.fake_switch_probability) + self._log_real_keep(path, batch, x, y))

    def _log_real_keep(self, path: MeasurePath, batch: int, x: Actions, y: Actions) -> FloatArray:
        # Only the last batch's losses: equal (x, y) have bit-identical coins whatever the past.
        ratio = path.log_func(batch - 1, x) - path.log_func(batch - 1, y)
        return np.minimum(0.0, ratio - self.log_normaliser)

    def simulate(self, losses: Any, rng: np.random.Generator, runs: int) -> ViewedRuns:
        """Returns ``runs`` independent transcripts on one stream, runs on the leading axis, no loop over runs.

        The real switch, the fake switch, the shadow's coin and the two kinds of draws come from five independent
        substreams seeded by ``rng``.
        """
        path, runs = self.path(losses), integer("runs", runs, low=1)
        found = simulated_walks(
            batches=self.batches,
            runs=runs,
            sample=path.sample,
            log_real_keep=lambda batch, x, y: self._log_real_keep(path, batch, x, y),
            fake=self.fake_switch_probability,
            refresh=self.refresh_probability,
            draw_budget=self.draw_budget,
            generators=substreams(generator(rng), 5),
        )
        return Transcripts(*found) if found[0].ndim == 2 else ConvexTranscripts(*found)

    def run(self, losses: Any, rng: np.random.Generator) -> TransformRun:
        """Returns one simulated run over ``losses``."""
        path, transcript = self.path(losses), self.simulate(losses, rng, 1)
        played = transcript.actions[0]
        loss = math.fsum(float(path.loss(s, played[[s]])[0]) for s in range(self.batches))
        best, floor = path.best()
        actions = np.repeat(played, self.batch, axis=0)[: self.rounds]
        return TransformRun(actions, transcript, loss, best, loss - floor)

    def log_likelihood_ratio(self, transcripts: ViewedRuns, losses0: Any, losses1: Any) -> FloatArray:
        """Returns ln P(transcript | losses0) / P(transcript | losses1) of the full view, one number per run.

        Raises:
            InvalidArgumentError: transcripts of another kind, or a measure whose normaliser is not known.
        """
        paths = self.path(losses0), self.path(losses1)
        shadows, refreshed = transcripts.shadows, transcripts.refreshed
        if shadows is None or refreshed is None or transcripts.switched.shape[1] != self.batches:
            raise InvalidArgumentError("transcripts", transcripts.actions.shape, "are not this learner's")
        return walk_log_ratio(
            transcripts.actions,
            transcripts.switched,
            shadows,
            refreshed,
            log_keeps=lambda s, x, y: (self.log_keep(paths[0], s, x, y), self.log_keep(paths[1], s, x, y)),
            density_gap=lambda s, points: paths[0].log_density(s, points) - paths[1].log_density(s, points),
            draw_budget=self.draw_budget,
        )
