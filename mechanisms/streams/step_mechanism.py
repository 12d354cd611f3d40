"""The base classes of mechanisms for streams of contributions, released at once or step by step.

A value has one contribution per step, a number or an array, on its leading axis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import define, field
from numpy.typing import ArrayLike

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
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

    @abstractmethod
    def _running(self, shape: tuple[int, ...], noise: Noise) -> RunningSteps[Any]:
        """Returns a running release before its first step; an error for parameters that can't be streamed."""

    def resume(self, state: dict[str, Any], shape: tuple[int, ...] = (), *, noise: Noise | None = None) -> Any:
        """Returns the running release whose ``state()`` was saved; its cost was recorded when it began.

        Continuing *twice* from one state publishes two draws of noise for the same sums, which that cost does not
        cover.

        Args:
          state: the value that ``state()`` returned.
          shape: the shape of a contribution, as in ``stream``.
          noise: as in ``release``.

        Raises:
          InvalidArgumentError: the state is not one of such a stream, or ``stream`` refuses an argument.
        """
        found = self._running(arguments.zeros(shape).shape, check_noise(noise))
        try:
            found.done = validate.integer("done", state["done"], low=0, high=self._length)
            found._restore(state)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidDataError(
                "state", state, f"is not a state of this stream ({type(error).__name__})", "give what state() returned"
            ) from None
        return found


M = TypeVar("M", bound=StepMechanism)


@define
class RunningSteps(ABC, Generic[M]):
    """Base of a running release, which takes one contribution after the other; see the classes."""

    mechanism: M
    shape: tuple[int, ...]
    _noise: Noise = field(repr=False)
    _scale: float = field(repr=False)
    _step: float = field(repr=False)
    done: int = field(default=0, init=False)

    def add(self, contribution: ArrayLike) -> Any:
        """Returns the answer after the contribution of the next step: a float, or an array of ``shape``.

        Raises:
          InvalidArgumentError: all steps are done, or ``contribution`` is not a finite array of ``shape``. The stream
            is unchanged.
        """
        self._check_left(1)
        found = self._extended(validate.array("contribution", contribution, shape=self.shape, data=True)[None])[0]
        return found if self.shape else float(found)

    def extend(self, contributions: ArrayLike) -> FloatArray:
        """Returns the answers after each of the next contributions, shape (n, *shape); the same as from ``add``.

        Raises:
          InvalidArgumentError: fewer steps are left, or ``contributions`` is not a finite array of shape (n, *shape).
            The stream is unchanged.
        """
        given = validate.array("contributions", contributions, shape=(None, *self.shape), data=True)
        self._check_left(len(given))
        return self._extended(given)

    def state(self) -> dict[str, Any]:
        """Returns the state, ready for JSON, for ``resume`` of the mechanism; it is as secret as the contributions."""
        return {"done": self.done, **self._saved()}

    def _check_left(self, count: int) -> None:
        if count > self.mechanism._length - self.done:
            raise InvalidArgumentError(
                "contribution", self.done, "steps are already done: there is no further one", "start a new stream"
            )

    @abstractmethod
    def _extended(self, contributions: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _saved(self) -> dict[str, Any]: ...

    @abstractmethod
    def _restore(self, state: dict[str, Any]) -> None: ...
