"""The base classes of mechanisms for streams of contributions, released at once or step by step.

A value has one contribution per step, a number or an array, on its leading axis.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field
from numpy.typing import ArrayLike

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable


def participations(value: int) -> int:
    """Returns the parameter ``participations``, an integer ≥ 1."""
    return validate.integer("participations", value, low=1)


def separation(value: int) -> int:
    """Returns the parameter ``separation``, an integer ≥ 1."""
    return validate.integer("separation", value, low=1)


def least_bound(beta: float, log_kept: Callable[[float], float]) -> float:
    """Returns (nearly) the least t with ``log_kept(t)`` ≥ ln(1 − ``beta``), for an increasing function.

    Raises:
      InvalidArgumentError: ``beta`` is not in (0, 1).
    """
    log_target = math.log1p(-validate.probability("beta", beta, open=True))
    low, high = 0.0, 1.0
    while log_kept(high) < log_target:
        low, high = high, 2.0 * high
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (low, middle) if log_kept(middle) >= log_target else (middle, high)
    return high


class StepMechanism(Releasable):
    """Base of a mechanism that reads values of a fixed number of steps."""

    __slots__ = ()

    @property
    @abstractmethod
    def _length(self) -> int:
        """The number of steps of a value."""

    def _values(self, name: str, value: ArrayLike) -> FloatArray:
        given = validate.array(name, value, data=True)
        if given.shape[:1] != (self._length,) or not given.size:
            raise InvalidDataError(
                name, given, f"does not have {self._length} steps", "put the steps on the first axis"
            )
        return given

    def _checked(self, value: ArrayLike) -> FloatArray:
        return self._values("value", value)


M = TypeVar("M", bound=StepMechanism)


@define
class RunningSteps(Generic[M]):
    """Base of a running release, which takes one contribution after the other; see the classes."""

    mechanism: M
    shape: tuple[int, ...]
    _noise: Noise = field(repr=False)
    _scale: float = field(repr=False)
    _step: float = field(repr=False)
    done: int = field(default=0, init=False)

    def _next(self, contribution: ArrayLike) -> FloatArray:
        """Returns the checked contribution of the next step; an error leaves the stream unchanged."""
        if self.done == self.mechanism._length:
            raise InvalidArgumentError(
                "contribution", self.done, "steps are already done: there is no further one", "start a new stream"
            )
        return validate.array("contribution", contribution, shape=self.shape, data=True)
