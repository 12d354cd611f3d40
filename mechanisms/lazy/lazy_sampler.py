"""A lazy walk over a changing measure: the last action is kept by a correlated coin, or a new one is drawn.

At each boundary between two batches the measure changes. The walk reads the batch that has just ended. It keeps its
action with the probability of a ``LazySwitch`` or draws one from the new measure; if it has a shadow, it redraws that
now and then (L2P: Asi, Koren, Liu & Talwar 2024, Alg. 1; shrinking dartboard: Geulen, Vöcking & Winkler 2010). If the
measure changes by factors in the declared range of the switch, each action follows the current measure.

*Cost.* Consider one record, in one batch, and let actions, shadows and all coins be public. Until its batch is over,
nothing depends on the record. The decision at the next boundary reads its batch, at the cost of the switch's event; if
it is "switch", a draw follows for certain, which is charged in full. Each later decision reads another batch, so given
what is public it has the same probability for both data sets: it costs nothing, and the draw after it is a visible
mixture. The same holds for the shadow's draws from the start. With a budget of draws the walk is charged for that many,
whenever they happen.
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
        raise InvalidArgumentError("switch", value, "is not a LazySwitch")
    return value


def _draw(value: object) -> PrivacyEvent:
    if not isinstance(value, PrivacyEvent):
        raise InvalidArgumentError("draw", value, "is not an event", "give the cost of one draw for one record")
    return value


def _boundaries(value: int) -> int:
    return validate.integer("boundaries", value, low=1)


def _shadow(value: float | None) -> float | None:
    return None if value is None else validate.real("shadow", value, low=0.0, high=1.0, high_open=True)


def _budget(value: int | None) -> int | None:
    return None if value is None else validate.integer("budget", value, low=1)


@frozen
class LazySampler:
    """The plan of a lazy walk and its cost.

    Args:
      switch: the decision; its log-ratio is that of the action minus that of the shadow, if there is one.
      draw: the cost of one draw from the measure for one record, such as ``ExponentialMechanism(...).event()``.
      boundaries: the number of decisions: one less than the number of batches.
      shadow: the probability, at each boundary, that the shadow is redrawn, regardless of the data; None for a walk
        without a shadow (dartboard).
      budget: the largest number of draws, of actions and shadows together; afterwards the walk keeps its action and no
        coin is tossed. None for no limit.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> from hockeystick.accounting import epsilon
      >>> from hockeystick.mechanisms import ExponentialMechanism, LazySampler, LazySwitch, SimulationNoise
      >>> draw = ExponentialMechanism(20.0, monotone=True)
      >>> switch = LazySwitch.dartboard(0.05, sensitivity=0.1)
      >>> plan = LazySampler(switch, draw.event(), boundaries=10)
      >>> round(float(epsilon(plan.event(), 1e-6)), 2)
      1.32
      >>> walk = plan.start(lambda noise: 0, noise=SimulationNoise(1))
      >>> scores = [-4, 0, -9]  # minus the losses of three actions so far; the last batch cost the first action 1
      >>> action = walk.step(lambda r: -0.1 * (r == 0), lambda noise: draw.release(scores, noise=noise))
      >>> action, walk.switched
      (0, False)
    """

    switch: LazySwitch = field(converter=_switch)
    draw: PrivacyEvent = field(converter=_draw)
    boundaries: int = field(converter=_boundaries, kw_only=True)
    shadow: float | None = field(default=None, converter=_shadow, kw_only=True)
    budget: int | None = field(default=None, converter=_budget, kw_only=True)

    def event(self) -> PrivacyEvent:
        """Returns the cost of the whole walk for one record, each record being in one batch.

        With a budget all draws are charged in full; without one all but the first are charged as mixtures. Both are
        valid for a walk with a budget, so with a large budget the event of the same plan without one may be smaller. A
        group may be spread over several batches and is charged step by step (``accounting.Chain``).
        """
        if self.budget is not None:
            most = self.boundaries * (1 if self.shadow is None else 2)
            draws = [(self.draw, min(self.budget, most))]
        else:
            draws = [(self.draw, 1)]
            if self.boundaries > 1:
                chance = self.switch.largest_switch_probability()
                later = self.draw if chance == 1.0 else VisibleMixture(chance, self.draw)
                draws.append((later, self.boundaries - 1))
            if self.shadow:
                draws.append((VisibleMixture(self.shadow, self.draw), self.boundaries))
        # Before the record's decision both data sets have the same law, so what is public then fixes the direction.
        directions = (accounting.compose(one, *draws) for one in self.switch.event().orientations())
        return accounting.Chain(accounting.parallel(*directions), 1)

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
          first: a function that draws from the first measure, which must not depend on the data: it is not charged.
          ledger, name, reads, noise: as for ``Laplace.release``.

        Raises:
          as for ``Laplace.release``.
        """
        source = check_noise(noise)
        if ledger is None and name is None and reads is None:  # nothing is recorded: the event is not needed
            return LazyWalk(self, first, source)
        return charged(self.event(), lambda: LazyWalk(self, first, source), source, ledger, name, reads, adjacency=None)

    def resume(self, state: WalkState[Action], *, noise: Noise | None = None) -> LazyWalk[Action]:
        """Returns the walk in the state returned by ``LazyWalk.state``; its cost was recorded when it was started.

        The cost is that of one walk: if two walks continue from the same state, only one may be published.

        Raises:
          InvalidArgumentError: the state does not belong to this plan.
        """
        _check_state(self, state)
        walk = LazyWalk(self, lambda _: state.action, check_noise(noise))
        walk.shadow, walk.switched = state.shadow, state.switched
        walk._steps_left, walk._draws_left = state.steps_left, state.draws_left
        return walk


@frozen
class WalkState(Generic[Action]):
    """The state of a walk. It contains no future randomness, and nothing that the walk does not publish.

    Attributes:
      action, shadow, switched: those of the ``LazyWalk``.
      steps_left: the number of remaining boundaries.
      draws_left: the number of remaining draws; None without a budget.
    """

    action: Action
    shadow: Action | None
    switched: bool
    steps_left: int
    draws_left: int | None


def _check_state(plan: LazySampler, state: WalkState[Action]) -> None:
    if not isinstance(state, WalkState):
        raise InvalidArgumentError("state", state, "is not a state of a walk", "give what LazyWalk.state() returned")
    validate.integer("steps_left", state.steps_left, low=0, high=plan.boundaries)
    if (state.shadow is None) != (plan.shadow is None):
        raise InvalidArgumentError(
            "shadow", state.shadow, "does not match the plan", "resume with the plan that started the walk"
        )
    if (state.draws_left is None) != (plan.budget is None):
        raise InvalidArgumentError(
            "draws_left", state.draws_left, "does not match the plan", "resume with the plan that started the walk"
        )
    if state.draws_left is not None:
        validate.integer("draws_left", state.draws_left, low=0, high=plan.budget)


class LazyWalk(Generic[Action]):
    """One walk, started by ``LazySampler.start``. It publishes its actions, its shadows and when they change.

    See ``LazySampler`` for an example.
    """

    __slots__ = ("_draws_left", "_noise", "_plan", "_steps_left", "action", "shadow", "switched")

    def __init__(self, plan: LazySampler, first: Callable[[Noise], Action], noise: Noise) -> None:
        self._plan, self._noise = plan, noise
        self._steps_left, self._draws_left = plan.boundaries, plan.budget
        self.action: Action = first(noise)
        self.shadow: Action | None = None if plan.shadow is None else first(noise)
        self.switched = False

    def state(self) -> WalkState[Action]:
        """Returns the state of the walk, for ``LazySampler.resume``."""
        return WalkState(self.action, self.shadow, self.switched, self._steps_left, self._draws_left)

    def step(self, log_ratio: Callable[[Action], float | Fraction], sample: Callable[[Noise], Action]) -> Action:
        """Returns the action for the next batch; ``switched`` then tells whether it was redrawn.

        Args:
          log_ratio: ln(measure after/measure before) at an action, up to a constant if there is a shadow; a function
            of the last batch and of nothing older. Numbers outside the switch's range are clipped to it.
          sample: a function that draws from the measure after the batch, with all randomness from its argument, such
            as ``lambda noise: mechanism.release(scores, noise=noise)``; its cost is part of the walk's.

        Raises:
          StreamHaltedError: all boundaries have been passed.
          InvalidArgumentError: a log-ratio is not a finite number; nothing was drawn.
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
