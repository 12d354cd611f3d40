"""The parameters of a lazy learner over a convex set, and the plan and graph that follow from them."""

from __future__ import annotations

import math
from functools import cached_property

from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, PrivacyEvent
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
from hockeystick.learners.lazy.convex.coin_clipping import CoinClipping
from hockeystick.learners.lazy.convex.log_ratio_bounds import Adversary, RatioTails, adversary_of, ratio_tails
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, Domain, checked_domain, checked_losses
from hockeystick.learners.lazy.convex.losses.given_losses import as_losses
from hockeystick.learners.lazy.convex.losses.regularized_measure import RegularizedWeights
from hockeystick.learners.lazy.convex.sampling.samplers import ClosedFormSampler, Sampler, sampling_failure
from hockeystick.learners.lazy.walk.batched import Batched
from hockeystick.learners.lazy.walk.plan import LazyPlan, largest_redraw
from hockeystick.mechanisms import LazySwitch


def _open_probability(name: str, value: object) -> float:
    return real(name, value, low=0.0, high=1.0, low_open=True, high_open=True)


def _failure(value: object) -> float:
    return _open_probability("failure", value)


def _clip_tail(value: object) -> float:
    return _open_probability("clip_tail", value)


def _draw_budget(value: object) -> int | None:
    return None if value is None else integer("draw_budget", value, low=1)


@frozen(kw_only=True, slots=False)
class ConvexSetting(Batched):
    """The parameters of ``LazyConvex`` and everything that follows from them alone; documented there."""

    rounds: int = field(converter=arguments.rounds)
    domain: Domain = field(converter=checked_domain)
    lipschitz: float = field(converter=arguments.lipschitz)
    batch: int = field(default=1, converter=arguments.batch)
    inverse_temperature: float = field()
    regularisation: float = field()
    fake_switch_probability: float = field(converter=arguments.fake_switch_probability)
    shadow_probability: float | None = field(default=None, converter=arguments.shadow_probability)
    failure: float = field(default=1e-9, converter=_failure)
    clip_tail: float = field(default=1e-3, converter=_clip_tail)
    normaliser: float | None = field(default=None, converter=arguments.normaliser)
    adversary: Adversary = field(default="oblivious", converter=adversary_of)
    draw_budget: int | None = field(default=None, converter=_draw_budget)
    sampler: Sampler = field(factory=ClosedFormSampler)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        _ = self.weights  # checks β and λ

    # --- points and coins --------------------------------------------------------------------------------------------

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

    @property
    def largest_log_ratio(self) -> float:
        """The sure bound on |r|: β*L*B times the diameter."""
        # Ten times ``LIPSCHITZ_SLACK``, by which losses may exceed the declared constant; products have error U.
        return self.inverse_temperature * self.lipschitz * self.batch * self.domain.diameter * (1.0 + 1e-8)

    @property
    def _clipping(self) -> CoinClipping:
        """The clipping of the boundaries' coins."""
        return CoinClipping(
            largest=self.largest_log_ratio,
            deviation=self.batch * self.weights.replacement_mu / math.sqrt(2.0),
            batches=self.batches,
            fake=self.fake_switch_probability,
            again=self.refresh_probability,
        )

    @cached_property
    def log_normaliser(self) -> float:
        """The log-normaliser c: as given, or the least at which :meth:`clip_bound` is at most ``clip_tail``."""
        return self._clipping.least_normaliser(self.clip_tail) if self.normaliser is None else self.normaliser

    def clip_bound(self, log_normaliser: float) -> float:
        """Bounds the total variation distance of any point's law from its measure, at c: see ``CoinClipping``."""
        return self._clipping.bound(log_normaliser)

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

    def checked(self, losses: object) -> ConvexLosses:
        """Returns ``losses`` as a stream, which must suit this learner; raises InvalidArgumentError otherwise."""
        stream = as_losses("losses", losses)
        return checked_losses("losses", stream, rounds=self.rounds, domain=self.domain, lipschitz=self.lipschitz)

    # --- plan --------------------------------------------------------------------------------------------------------

    @property
    def switch(self) -> LazySwitch:
        """The decision at a boundary; its log-ratio moves by at most κ when one person changes."""
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
        """The cost of one decision, averaged over point and shadow if the losses are fixed in advance."""
        worst = self.switch.event()
        if not self.tails.grid or not isinstance(worst, LazySwitchDecision) or worst.log_ratio < self.tails.change:
            return worst
        return AveragedSwitchDecision(
            worst.keep_probability, self.tails.grid, self.tails.chances, log_ratio_cap=worst.log_ratio_cap
        )

    @property
    def draw(self) -> PrivacyEvent:
        """The cost of one draw of a point, for one replaced loss: Gaussian-DP, and the sampler's failure.

        On a small domain the replacement moves log-densities by less than Gaussian-DP assumes: by at most 2*β*L
        times the diameter between any two points. That is a bounded range; the event with the smaller zCDP is charged.
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

    def plan(self) -> LazyPlan:
        """Returns the costs of decisions and draws.

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
                "the timing of draws and their numbers of proposals are not published",
            ),
        )

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, for the full view (see ``LazyPlan.graph``); raises as :meth:`plan`."""
        return self.plan().graph()
