"""The parameters of a lazy learner of experts, and the plan and graph that follow from them."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, PrivacyEvent, compose
from hockeystick.accounting.validate import one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.experts.expert_losses import TakesLosses
from hockeystick.learners.lazy.walk.batched import Batched
from hockeystick.learners.lazy.walk.plan import LazyPlan, largest_redraw
from hockeystick.mechanisms import ExponentialMechanism, LazySampler, LazySwitch

Variant = Literal["l2p", "dartboard"]


def _normaliser(value: object) -> str | float:
    if isinstance(value, str):
        if value not in ("tight", "paper"):
            raise InvalidArgumentError("normaliser", value, "is unknown", 'use "tight", "paper" or a number >= 0')
        return value
    return real("normaliser", value, low=0.0)


def _variant(value: object) -> Variant:
    return one_of("variant", value, "l2p", "dartboard")


@frozen(kw_only=True)
class BatchedExperts(Batched, TakesLosses):
    """The parameters of all lazy learners of experts, whatever their coin; documented there."""

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    batch: int = field(default=1, converter=arguments.batch)
    learning_rate: float = field(converter=arguments.learning_rate)
    fake_switch_probability: float = field(converter=arguments.fake_switch_probability)

    @property
    def draw(self) -> ExponentialMechanism:
        """The draw from the weights, for scores -η*(cumulative losses); one person moves a score by at most η."""
        return ExponentialMechanism(1.0, sensitivity=self.learning_rate)


@frozen(kw_only=True)
class ExpertsSetting(BatchedExperts):
    """The parameters of ``LazyExperts`` and everything that follows from them alone; documented there."""

    fake_switch_probability: float = field(converter=arguments.redraw_probability)
    shadow_probability: float | None = field(default=None, converter=arguments.shadow_probability)
    variant: Variant = field(default="l2p", converter=_variant)
    normaliser: str | float = field(default="tight", converter=_normaliser)
    draw_budget: int | None = field(default=None, converter=arguments.draw_budget)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.fake_switch_probability == 1.0 and self.variant != "dartboard":
            raise InvalidArgumentError(
                "fake_switch_probability", 1.0, "leaves the shadow without a use", 'use variant="dartboard"'
            )
        if self.variant == "dartboard":
            for name, default in (("shadow_probability", None), ("normaliser", "tight")):
                if getattr(self, name) != default:
                    raise InvalidArgumentError(
                        name, getattr(self, name), "does not apply to the dartboard", f"leave it at {default!r}"
                    )

    @property
    def log_normaliser(self) -> float:
        """The log-normaliser c; 0 for the dartboard, which has none."""
        if self.variant == "dartboard":
            return 0.0
        tight = self.batch * self.learning_rate
        if isinstance(self.normaliser, str):
            return 2.0 * tight if self.normaliser == "paper" else tight
        return self.normaliser

    @property
    def refresh_probability(self) -> float:
        """The shadow's redraw probability p_y; 0 for the dartboard, which has no shadow."""
        if self.variant == "dartboard":
            return 0.0
        return self.fake_switch_probability if self.shadow_probability is None else self.shadow_probability

    @property
    def switch(self) -> LazySwitch:
        """The decision at a boundary; its log-ratio moves by at most 2*η (dartboard: η) when one person changes."""
        p, span = self.fake_switch_probability, self.batch * self.learning_rate
        if self.variant == "dartboard":
            return LazySwitch.dartboard(p, sensitivity=self.learning_rate, lowest=-span)
        return LazySwitch(
            p, normaliser=self.log_normaliser, sensitivity=2.0 * self.learning_rate, lowest=-span, highest=span
        )

    @property
    def largest_redraw_probability(self) -> float:
        """Largest probability, over all states and losses, of redrawing the action at a boundary (rounded up)."""
        return largest_redraw(self.fake_switch_probability, -(self.log_normaliser + self.batch * self.learning_rate))

    def plan(self) -> LazyPlan:
        """Returns the costs of decisions and draws."""
        return LazyPlan(
            batches=self.batches,
            switch=self.switch.event(),
            draw=self.draw.event(),
            redraw=self.largest_redraw_probability,
            refresh=self.refresh_probability,
            draws=self.draw_budget,
            assumptions=("every loss lies in [0, 1]",),
        )

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, for the full view (see ``LazyPlan.graph``)."""
        return self.plan().graph()

    def sampler(self) -> LazySampler | None:
        """Returns the walk over experts as a mechanism; None where no data are read: one batch, or no draw allowed."""
        if self.batches == 1 or self.draw_budget == 0:
            return None
        shadow = self.refresh_probability if self.variant == "l2p" else None
        return LazySampler(
            self.switch, self.draw.event(), boundaries=self.batches - 1, shadow=shadow, budget=self.draw_budget
        )

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event, for a larger graph or a ledger; the same as :meth:`graph`."""
        sampler = self.sampler()
        return compose() if sampler is None else sampler.event()
