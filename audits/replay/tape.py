"""The tape: what an algorithm asks of its mechanisms, call by call, and the answers that a later run is given again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from attrs import define, field, frozen

from hockeystick.accounting import HockeystickError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.audits.replay.places import place_of_call

MOST_CALLS = 100_000
MOST_DRAWS = 1 << 22
_SAME_NOISE = 1e-9  # of the larger value: two sums of floats with one draw may differ by their round-off

FRESH, KNOWN, COMPARED, ADDED = range(4)
"""The part of a draw of noise that is public: nothing; all of it; the outcomes of comparisons; its sum with others."""


class NotCoveredError(HockeystickError):
    """An algorithm draws randomness in a way that a replay cannot follow; see ``replay``."""


class Diverged(BaseException):  # no error: it ends a run, and the algorithm must not catch it
    """A run asked for another call than the recorded one."""


@frozen
class Met:
    """The distance of the two inputs of one call.

    Attributes:
      distance: in the norm that the mechanism states.
      norm: its name.
      stated: the sensitivity that the mechanism states, or None if it states none.
      slack: how much of the distance may be round-off of floats.
      default: whether the stated sensitivity may be one that nobody wrote: that of the class.
      each: whether every entry alone is within the stated sensitivity, so that it may be meant for an entry.
      broken: another statement of the mechanism that the inputs contradict, in words; empty if there is none.
    """

    distance: float
    norm: str
    stated: float | None = None
    slack: float = 0.0
    broken: str = ""
    default: bool = False
    each: bool = False

    @property
    def exceeds(self) -> bool:
        """Whether the distance is above the stated sensitivity by more than round-off."""
        return self.stated is not None and self.distance > self.stated + self.slack


class Query(ABC):
    """The question of one call: a mechanism with its noiseless input."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The mechanism's name in messages."""

    @abstractmethod
    def flow(self) -> object:
        """The kind of the call and the shape of its input: equal in both runs, or the control flow differs."""

    @abstractmethod
    def parameters(self) -> object:
        """The parameters of the mechanism: equal in both runs, or they depend on data."""

    @abstractmethod
    def met(self, other: Query) -> Met | None:
        """Returns the distance of the inputs; None if the call has no input that is noised."""

    @abstractmethod
    def event(self, other: Query) -> PrivacyEvent | None:
        """Returns the cost at the distance of the inputs, None for none.

        Raises:
          HockeystickError: no finite cost is known.
        """

    def loss(self, other: Query, answer: Any) -> float | None:
        """Returns ln p(answer | this input) − ln p(answer | the other one), or None if it is not known."""
        return None

    @property
    def is_number(self) -> bool:
        """Whether its answer is the noisy number, or the array of them."""
        return False

    @property
    def is_opaque(self) -> bool:
        """Whether it is a draw whose use can't be followed."""
        return False


@define
class Step:
    """One recorded call."""

    query: Query
    answer: Any
    where: str


@define
class Tape:
    """The calls of one run; with ``before``, its answers are those of that run.

    Attributes:
      rng: the source of fresh randomness.
      before: the recorded run whose answers are given again.
      spread: the factor by which fresh additive noise is enlarged, to visit the tails.
    """

    rng: np.random.Generator
    before: Tape | None = None
    spread: float = 1.0
    steps: list[Step] = field(factory=list)
    repeats: list[FloatArray] = field(factory=list)  # values that follow from draws which are known already
    reused: list[str] = field(factory=list)  # where one draw was found to hide two values
    foreign: list[str] = field(factory=list)  # where the algorithm made a generator of its own
    released_after: set[int] = field(factory=set)  # draws that were compared first and looked at later
    noise: FloatArray = field(factory=lambda: np.empty(0))  # standard draws; NaN where this run does not know one
    state: IntArray = field(factory=lambda: np.empty(0, dtype=np.int64))
    kinds: list[str] = field(factory=list)
    places: list[str] = field(factory=list)  # where each draw was made
    drawn: int = 0

    def ask(self, query: Query, make: Callable[[], Any], *, where: str = "") -> Any:
        """Returns the answer to one call: a fresh one, or the recorded one; ``where`` is the line, by default this one.

        Raises:
          Diverged: the recorded run made another call here, or none.
          NotCoveredError: there are too many calls.
        """
        where, number = where or place_of_call(), len(self.steps)
        if number >= MOST_CALLS:
            raise NotCoveredError(
                f"more than {MOST_CALLS} calls in one run (the last at {where}): replay a smaller one"
            )
        if self.before is None:
            step = Step(query, None, where)
            step.answer = make()
            self.steps.append(step)
            return step.answer
        if number >= len(self.before.steps) or self.before.steps[number].query.flow() != query.flow():
            self.steps.append(Step(query, None, where))
            raise Diverged
        answer = self.before.steps[number].answer
        self.steps.append(Step(query, answer, where))
        return answer

    def draw(self, kind: Literal["laplace", "gaussian", "gumbel"], count: int) -> IntArray:
        """Returns the numbers of ``count`` new draws of standard noise; nothing is public of them yet."""
        first, total = self.drawn, self.drawn + count
        if total > MOST_DRAWS:
            raise NotCoveredError(f"more than {MOST_DRAWS} draws in one run: replay a smaller one")
        if total > len(self.noise):
            room = max(total, 2 * len(self.noise), 64)
            self.noise = np.concatenate([self.noise, np.full(room - len(self.noise), np.nan)])
            self.state = np.concatenate([self.state, np.zeros(room - len(self.state), dtype=np.int64)])
        if self.before is None:
            fresh: dict[str, Callable[..., FloatArray]] = {
                "laplace": self.rng.laplace,
                "gaussian": self.rng.standard_normal,
                "gumbel": self.rng.gumbel,
            }
            self.noise[first:total] = self.spread * fresh[kind](size=count)
        self.kinds.extend([kind] * count)
        self.places.extend([place_of_call()] * count)
        self.drawn = total
        return np.arange(first, total)

    def repeat(self, value: FloatArray, where: str) -> FloatArray:
        """Returns a value that known draws determine: the recorded one if this run's own equals it up to round-off.

        ``where`` is the line of one of these draws, or empty.
        """
        number = len(self.repeats)
        found = value
        if self.before is not None and number < len(self.before.repeats):
            old = self.before.repeats[number]
            if old.shape == value.shape:
                near = np.isclose(old, value, rtol=_SAME_NOISE, atol=_SAME_NOISE)
                found = np.where(near, old, value)
                if not near.all():
                    self.reused.append(where or place_of_call())
        self.repeats.append(found)
        return found
