"""What is to be tested: one point (epsilon, delta), or a whole privacy curve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from attrs import field, frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.validate import probability, real

_STEPS = 32  # of the grid on which a curve is read
_LARGEST = 700.0  # e^epsilon is a float up to here


class Curve(Protocol):
    """What :meth:`Claim.curve` reads: a :class:`hockeystick.accounting.Guarantee`, say.

    Both methods return an upper bound: a number, or a bracket with ``.upper``.
    """

    def epsilon(self, delta: float) -> object: ...

    def delta(self, epsilon: float) -> object: ...


def _epsilon(value: object) -> float:
    return real("epsilon", value, low=0.0, high=_LARGEST)


def _delta(value: object) -> float:
    return probability("delta", value)


def _point(pair: tuple[float, float]) -> tuple[float, float]:
    return _epsilon(pair[0]), _delta(pair[1])


def _points(pairs: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    return tuple(sorted({_point(pair) for pair in pairs}))


@frozen
class Claim:
    """The claim P(S) <= e^epsilon Q(S) + delta for every event S and both orders (P, Q) of two neighbouring data sets.

    Attributes:
      epsilon: in [0, 700].
      delta: in [0, 1].
      also: further points (epsilon, delta) that the claim covers, sorted: a whole curve. An audit may refute any one of
        them. Empty for a claim that is one point; see :meth:`curve`.

    Raises:
      InvalidArgumentError: a number is NaN, infinite or outside its range.
    """

    epsilon: float = field(converter=_epsilon)
    delta: float = field(default=0.0, converter=_delta)
    also: tuple[tuple[float, float], ...] = field(default=(), kw_only=True, converter=_points, repr=False)

    @classmethod
    def curve(cls, guarantee: Curve | PrivacyEvent, delta: float) -> Claim:
        """Returns the claim of a whole curve, stated at ``delta``.

        The curve is read once, on a grid of epsilons from 0 to its epsilon at min(delta, 1e-6). Testing the point where
        a violation shows best, rather than the one stated, can save a factor of a hundred in samples.

        Args:
          guarantee: bounds epsilon at delta and delta at epsilon (:class:`Curve`), or an event.
          delta: in [0, 1]; where the verdict states epsilon.

        Raises:
          InvalidArgumentError: delta out of range, no curve, or no finite epsilon at delta.
        """
        delta = _delta(delta)
        if isinstance(guarantee, PrivacyEvent):
            guarantee = _EventCurve(guarantee)
        if not callable(getattr(guarantee, "epsilon", None)) or not callable(getattr(guarantee, "delta", None)):
            raise InvalidArgumentError(
                "guarantee", guarantee, "has no methods epsilon(delta) and delta(epsilon)", "use Claim(epsilon, delta)"
            )
        stated = _upper("epsilon", guarantee.epsilon(delta))
        if not stated <= _LARGEST:
            raise InvalidArgumentError(
                "guarantee", guarantee, f"claims epsilon={stated:g} at delta={delta:g}", "state it at a larger delta"
            )
        top = _upper("epsilon", guarantee.epsilon(min(delta, 1e-6)))
        grid = np.linspace(0.0, top if top <= _LARGEST else stated, _STEPS + 1).tolist()
        return cls(stated, delta, also=tuple((eps, min(_upper("delta", guarantee.delta(eps)), 1.0)) for eps in grid))

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """All points (epsilon, delta) that are claimed, the stated one first."""
        return ((self.epsilon, self.delta), *self.also)


@frozen
class _EventCurve:
    event: PrivacyEvent

    def epsilon(self, delta: float) -> object:
        return accounting.epsilon(self.event, delta)

    def delta(self, epsilon: float) -> object:
        return accounting.delta(self.event, epsilon)


def _upper(name: str, bound: object) -> float:
    return real(name, getattr(bound, "upper", bound), low=0.0, allow_inf=True)
