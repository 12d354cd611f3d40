"""A lazy walk on top of any measure: keep the last action by the correlated coin, or draw a new one.

At each boundary between two batches the measure moves. The walk looks at the batch just gone by, keeps its action with
the probability of a ``LazySwitch`` or draws one from the moved measure, and now and then draws a new shadow, if it has
one (L2P: Asi, Koren, Liu & Talwar 2024, Alg. 1; shrinking dartboard: Geulen, Vöcking & Winkler 2010). Where the measure
changes by factors that lie in the switch's declared range, each action follows the measure of its time.

*Cost.* Take one record, in one batch, and let actions, shadows and all coins be public. Until its batch is over nothing
depends on it. The decision at the next boundary reads its batch, at the cost of the switch's event, and if it falls on
"switch" a draw follows for certain: that draw is paid in full. Each later decision has one and the same probability in
both worlds, given what is public, as it reads another batch: it costs nothing, and the draw after it is a visible
mixture. So the shadow's draws are from the start. With a budget of draws the walk pays for that many, whenever they
happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Generic, NoReturn, TypeVar

from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, PrivacyEvent, VisibleMixture, validate
from hockeystick.mechanisms.lazy.lazy_switching import LazySwitch, exact
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

Action = TypeVar("Action")


def _switch(value: object) -> LazySwitch:
    if not isinstance(value, LazySwitch):
        raise InvalidArgumentError("switch", value, "is no LazySwitch")
    return value


def _draw(value: object) -> PrivacyEvent:
    if not isinstance(value, PrivacyEvent):
        raise InvalidArgumentError("draw", value, "is no event", "give what one draw from the measure costs one record")
    return value


def _boundaries(value: int) -> int:
    return validate.integer("boundaries", value, low=1)


def _shadow(value: float | None) -> float | None:
    return None if value is None else validate.real("shadow", value, low=0.0, high=1.0, high_open=True)


def _budget(value: int | None) -> int | None:
    return None if value is None else validate.integer("budget", value, low=1)


@frozen
class LazySampler:
    """The plan of a lazy walk: what decides, what a draw costs, how long it is, and what one record pays for it.

    Args:
      switch: the decision; its log-ratio is that of the action, less that of the shadow if there is one.
      draw: what one draw from the measure costs one record, such as ``ExponentialMechanism(...).event()``.
      boundaries: how often the walk may move: one less than the number of batches.
      shadow: the probability, at each boundary, of a new draw of the shadow, whatever the data say; None for a walk
        without a shadow (dartboard).
      budget: the most draws, of actions and shadows together; after the last of them the walk stays where it is and no
        coin is tossed. None for any number.

    Raises:
      InvalidArgumentError: an argument is outside its domain.
    """

    switch: LazySwitch = field(converter=_switch)
    draw: PrivacyEvent = field(converter=_draw)
    boundaries: int = field(converter=_boundaries, kw_only=True)
    shadow: float | None = field(default=None, converter=_shadow, kw_only=True)
    budget: int | None = field(default=None, converter=_budget, kw_only=True)

    def event(self) -> PrivacyEvent:
        """Returns the cost of the whole walk for one record, each record being in one batch.

        With a budget the draws count in full; without one all but the first count by the chance of their coin. A walk
        with a budget is covered by both, so where the budget is generous the event of the same plan without one may be
        the smaller. Groups may be spread over several batches, and are charged step by step (``accounting.Chain``).
        """
        if self.budget is not None:
            most = self.boundaries * (1 if self.shadow is None else 2)
            draws = [(self.draw, min(self.budget, most))]
        else:
            draws = [(self.draw, 1)]
            if self.boundaries > 1:
                mixed = VisibleMixture(self.switch.largest_switch_probability(), self.draw)
                draws.append((mixed, self.boundaries - 1))
            if self.shadow:
                draws.append((VisibleMixture(self.shadow, self.draw), self.boundaries))
        # Before the record's decision both worlds are alike, so what is public by then fixes its direction.
        ways = (accounting.compose(way, *draws) for way in self.switch.event().orientations())
        return accounting.Chain(accounting.parallel(*ways), 1)

    def start(
        self,
        first: Callable[[Noise], Action],
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> LazyWalk[Action]:
        """Returns a walk at its first action; the cost of all its steps is recorded here, once.

        Args:
          first: draws from the first measure, which must not depend on the data: this draw is not charged.
          ledger, name, reads, noise: as for ``Laplace.release``.

        Raises:
          As ``Laplace.release``.
        """
        source = check_noise(noise)
        return charged(self.event(), lambda: LazyWalk(self, first, source), source, ledger, name, reads, adjacency=None)

    def resume(self, state: WalkState[Action], *, noise: Noise | None = None) -> LazyWalk[Action]:
        """Returns the walk that ``LazyWalk.state`` described; its cost was recorded when it was started.

        That cost is of one walk: of two that go on from the same state, only one may be published.

        Raises:
          SecureReleaseUnavailableError: there is no secure source of noise (the extra ``secure``).
          InvalidArgumentError: the state is none of this plan's.
        """
        _check_state(self, state)
        walk = LazyWalk(self, lambda _: state.action, check_noise(noise))
        walk.shadow, walk.switched = state.shadow, state.switched
        walk._steps_left, walk._draws_left = state.steps_left, state.draws_left
        return walk


@frozen
class WalkState(Generic[Action]):
    """Where a walk is. It holds no randomness to come, and nothing that the walk does not publish.

    Attributes:
      action, shadow, switched: as of the ``LazyWalk``.
      steps_left: boundaries still to be passed.
      draws_left: draws still allowed; None without a budget.
    """

    action: Action
    shadow: Action | None
    switched: bool
    steps_left: int
    draws_left: int | None


def _check_state(plan: LazySampler, state: WalkState[Action]) -> None:
    if not isinstance(state, WalkState):
        raise InvalidArgumentError("state", state, "is no state of a walk", "give what LazyWalk.state() returned")
    validate.integer("steps_left", state.steps_left, low=0, high=plan.boundaries)
    if (state.shadow is None) != (plan.shadow is None):
        raise InvalidArgumentError("shadow", state.shadow, "is not as in the plan", "resume by the plan that began it")
    if (state.draws_left is None) != (plan.budget is None):
        raise InvalidArgumentError("draws_left", state.draws_left, "is not as in the plan", "give the plan of the walk")
    if state.draws_left is not None:
        validate.integer("draws_left", state.draws_left, low=0, high=plan.budget)


class LazyWalk(Generic[Action]):
    """One walk; ``LazySampler.start`` begins it. What it publishes is its actions, its shadows and when they change."""

    __slots__ = ("_draws_left", "_noise", "_plan", "_steps_left", "action", "shadow", "switched")

    def __init__(self, plan: LazySampler, first: Callable[[Noise], Action], noise: Noise) -> None:
        self._plan, self._noise = plan, noise
        self._steps_left, self._draws_left = plan.boundaries, plan.budget
        self.action: Action = first(noise)
        self.shadow: Action | None = None if plan.shadow is None else first(noise)
        self.switched = False

    def state(self) -> WalkState[Action]:
        """Returns where the walk is, for ``LazySampler.resume``."""
        return WalkState(self.action, self.shadow, self.switched, self._steps_left, self._draws_left)

    def step(self, log_ratio: Callable[[Action], float | Fraction], sample: Callable[[Noise], Action]) -> Action:
        """Returns the action for the batch to come; ``switched`` then says whether it was drawn anew.

        Args:
          log_ratio: ln(measure after/measure before) at an action, up to a constant if there is a shadow; a function
            of the batch just gone by and of nothing older. Numbers outside the switch's range are clipped to it.
          sample: draws from the measure after that batch, with all its randomness from the noise that it is given, such
            as ``lambda noise: mechanism.release(scores, noise=noise)``: its cost is in the walk's.

        Raises:
          StreamHaltedError: all boundaries have been passed.
          InvalidArgumentError: a log-ratio is no finite number; nothing was drawn.
        """
        if not self._steps_left:
            raise StreamHaltedError(f"step: all {self._plan.boundaries} boundaries are passed; start another walk")
        if self._draws_left == 0:
            self._steps_left, self.switched = self._steps_left - 1, False
            return self.action
        switch, shadow = self._plan.switch, self._plan.shadow
        ratio = exact("log_ratio", log_ratio(self.action))
        if self.shadow is not None:
            ratio -= exact("log_ratio", log_ratio(self.shadow))
        low, high = (None if abs(end) == float("inf") else Fraction(end) for end in (switch.lowest, switch.highest))
        ratio = max(ratio, low) if low is not None else ratio
        ratio = min(ratio, high) if high is not None else ratio
        self._steps_left -= 1
        self.switched = switch._draw(switch._checked(ratio), self._noise)
        if self.switched:
            self.action = self._drawn(sample)
        if shadow is not None and self._draws_left != 0 and self._noise.coins(shadow, 1)[0]:
            self.shadow = self._drawn(sample)
        return self.action

    def _drawn(self, sample: Callable[[Noise], Action]) -> Action:
        if self._draws_left is not None:
            self._draws_left -= 1
        return sample(self._noise)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a LazyWalk can't be copied or pickled: its cost covers one walk")
