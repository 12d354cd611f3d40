"""Group privacy: the same mechanism where what is to be protected is a person with several records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, NumericalError, UnsupportedEventError, validate
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.contract.protocol import Mechanism
from hockeystick.mechanisms.randomness.noise import Noise, SecureReleaseUnavailableError
from hockeystick.mechanisms.release import Releasable

_PRECISION = 2.0**-20


def _mechanism(value: Any) -> Any:
    if isinstance(value, type) or not isinstance(value, Mechanism):
        raise InvalidArgumentError("mechanism", value, "is no mechanism", "give an object with event() and simulate()")
    return value


def _size(value: int) -> int:
    return validate.integer("size", value, low=1)


@frozen
class ForGroups(Releasable):
    """A mechanism charged for groups of up to ``size`` records, as when a person contributes that many.

    Values and outputs are the mechanism's own; only the unit of what is charged differs. The cost is the mechanism's
    event at distance ``size``, resolved by the event's own rule: for noise of L1 or L2 sensitivity Δ that of
    sensitivity size·Δ; for local randomisers ``size`` reports; for a bare (ε, δ) the general bound. Under
    add-or-remove-one all records of a group are in one data set and none in the other. That no one has more than
    ``size`` records is up to the data; see ``clipping.BoundedContribution``.

    Args:
      mechanism: any mechanism; hashable, as mechanisms are.
      size: the most records of a group.

    Raises:
      InvalidArgumentError: ``mechanism`` is none, or ``size`` no integer ≥ 1.
      UnsupportedEventError: the mechanism's event has no rule for groups.
    """

    mechanism: Any = field(converter=_mechanism)
    size: int = field(converter=_size, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()

    @classmethod
    def calibrated(cls, make: Callable[[float], Any], *, size: int, epsilon: float, delta: float = 0.0) -> ForGroups:
        """Returns the mechanism of least noise in a family whose cost for groups is at most (``epsilon``, ``delta``).

        It certainly meets the target, by the accountant's upper bound, and wastes about a millionth of its parameter.

        Args:
          make: a mechanism for every parameter > 0, of less noise the larger that is: ``RandomizedResponse``, or
            ``lambda e: Laplace.calibrated(epsilon=e)``, or ``lambda e: Gaussian.calibrated(epsilon=e, delta=1e-6)``.
          size: the most records of a group.
          epsilon, delta: what groups are promised.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: no parameter between 1e-9 and 1e9 times epsilon/size separates what meets the target from what
            does not.
        """
        target = arguments.target_epsilon(epsilon)
        allowed = validate.probability("delta", delta)
        members = _size(size)
        if not callable(make):
            raise InvalidArgumentError("make", make, "can't be called", "give a function that makes a mechanism")

        def meets(parameter: float) -> bool:
            event = cls(make(parameter), size=members).event()
            if allowed == 0.0:
                return event.failure_delta() == 0.0 and event.pure_epsilon() <= target
            return accounting.delta(event, target).upper <= allowed

        start = target / members
        low, high = start, 2.0 * start
        while not meets(low):
            low, high = low / 2.0, low
            if low < 1e-9 * start:
                raise NumericalError(
                    f"epsilon={target!r}, delta={allowed!r}: no parameter is small enough; ask for more"
                )
        while meets(high):
            low, high = high, 2.0 * high
            if high > 1e9 * start:
                raise NumericalError(f"epsilon={target!r}, delta={allowed!r}: met by every parameter; ask for less")
        while high - low > _PRECISION * low:
            middle = low + (high - low) / 2.0
            low, high = (middle, high) if meets(middle) else (low, middle)
        return cls(make(low), size=members)

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one group: the mechanism's event at distance ``size``."""
        event = self.mechanism.event()
        if not isinstance(event, accounting.PrivacyEvent):
            raise InvalidArgumentError("mechanism", self.mechanism, "has no privacy event", "see Mechanism.event")
        return event.at(self.size)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns the mechanism's outputs, the runs on the leading axis."""
        return self.mechanism.simulate(value, rng, runs)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two values that one group can lie apart.

        They are the mechanism's ``group_neighbours(size)``, if it has that, or its ``worst_case_neighbours()`` at a
        ``sensitivity`` that is ``size`` times as large.

        Raises:
          UnsupportedEventError: the mechanism has neither; an audit can be given values of your own.
        """
        own = getattr(self.mechanism, "group_neighbours", None)
        if callable(own):
            pair: tuple[Any, Any] = own(self.size)
            return pair
        kind, neighbours = type(self.mechanism), getattr(self.mechanism, "worst_case_neighbours", None)
        if callable(neighbours) and self.size == 1:
            pair = neighbours()
            return pair
        if not (callable(neighbours) and attrs.has(kind) and "sensitivity" in attrs.fields_dict(kind)):
            raise UnsupportedEventError(
                f"{kind.__name__} can't say which values {self.size} records lie apart: "
                "give it group_neighbours(size), or give neighbours to the audit"
            )
        wider = attrs.evolve(self.mechanism, sensitivity=self.size * self.mechanism.sensitivity)
        pair = wider.worst_case_neighbours()
        return pair

    def log_likelihood_ratio(self, output: Any, value0: Any, value1: Any) -> NDArray[np.float64]:
        """Returns the mechanism's ln(P(output | value0) / P(output | value1)), one number a run.

        Raises:
          UnsupportedEventError: the mechanism has none.
        """
        own = getattr(self.mechanism, "log_likelihood_ratio", None)
        if not callable(own):
            raise UnsupportedEventError(f"{type(self.mechanism).__name__} has no log_likelihood_ratio")
        return np.asarray(own(output, value0, value1))

    def _relation(self) -> accounting.Adjacency | None:
        return self.mechanism._relation() if isinstance(self.mechanism, Releasable) else None

    def _checked(self, value: Any) -> Any:
        if not isinstance(self.mechanism, Releasable):
            name = type(self.mechanism).__name__
            raise SecureReleaseUnavailableError(
                f"ForGroups.release: {name} has no secure release of its own; for audits and experiments use "
                f"simulate(value, rng, runs), or derive {name} from Releasable"
            )
        return self.mechanism._checked(value)

    def _draw(self, checked: Any, noise: Noise) -> Any:
        return self.mechanism._draw(checked, noise)
