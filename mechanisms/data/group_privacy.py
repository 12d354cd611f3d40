"""Group privacy: a mechanism that protects persons with several records."""

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
        raise InvalidArgumentError(
            "mechanism", value, "is not a mechanism", "give an object with event() and simulate()"
        )
    return value


def _size(value: int) -> int:
    return validate.integer("size", value, low=1)


@frozen
class ForGroups(Releasable):
    """A mechanism charged for groups of up to ``size`` records, for instance all records of one person.

    Values and outputs are those of the mechanism; only the unit of protection differs. The cost is the event of the
    mechanism at distance ``size``: for noise of L1 or L2 sensitivity Δ that of sensitivity size·Δ; for local
    randomisers that of ``size`` reports; for a bare (ε, δ) the general bound. Under add-or-remove-one all records
    of a group are in one data set and none in the other. The data have to ensure that nobody has more than ``size``
    records; see ``BoundedContribution``.

    Args:
      mechanism: any mechanism.
      size: the largest number of records of a group.

    Raises:
      InvalidArgumentError: ``mechanism`` is not a mechanism, or ``size`` is not an integer ≥ 1.
      UnsupportedEventError: the mechanism's event has no rule for groups.

    Example:
      >>> from hockeystick.accounting import epsilon
      >>> from hockeystick.mechanisms import ForGroups, Gaussian
      >>> one = Gaussian.calibrated(epsilon=1.0, delta=1e-6)
      >>> [round(float(epsilon(mechanism.event(), 1e-6)), 2) for mechanism in (one, ForGroups(one, size=3))]
      [1.0, 3.32]
    """

    mechanism: Any = field(converter=_mechanism)
    size: int = field(converter=_size, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()

    @classmethod
    def calibrated(cls, make: Callable[[float], Any], *, size: int, epsilon: float, delta: float = 0.0) -> ForGroups:
        """Returns the mechanism with the least noise in a family that is (``epsilon``, ``delta``)-DP for groups.

        It certainly meets the target, by the upper bound of the accountant, to one part in a million of its parameter.

        Args:
          make: a function that returns a mechanism for every parameter > 0, with less noise for a larger one:
            ``RandomizedResponse``, or ``lambda e: Laplace.calibrated(epsilon=e)``, or
            ``lambda e: Gaussian.calibrated(epsilon=e, delta=1e-6)``.
          size: the largest number of records of a group.
          epsilon, delta: the target for groups.

        Raises:
          InvalidArgumentError: an argument is out of its domain.
          NumericalError: the target is met by all or by no parameters from 1e-9 to 1e9 times epsilon/size.
        """
        target = arguments.target_epsilon(epsilon)
        allowed = validate.probability("delta", delta)
        members = _size(size)
        if not callable(make):
            raise InvalidArgumentError("make", make, "can't be called", "give a function that returns a mechanism")

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
                    f"epsilon={target!r}, delta={allowed!r}: no parameter is small enough; choose a larger target"
                )
        while meets(high):
            low, high = high, 2.0 * high
            if high > 1e9 * start:
                raise NumericalError(
                    f"epsilon={target!r}, delta={allowed!r}: met by every parameter; choose a smaller target"
                )
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
        """Returns two values that differ by one group.

        They are the mechanism's ``group_neighbours(size)``, if it has this method, or its ``worst_case_neighbours()``
        for a ``sensitivity`` that is ``size`` times as large.

        Raises:
          UnsupportedEventError: the mechanism has neither; pass neighbours to the audit instead.
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
                f"{kind.__name__} has no worst-case neighbours for groups of {self.size} records: "
                "define group_neighbours(size), or pass neighbours to the audit"
            )
        wider = attrs.evolve(self.mechanism, sensitivity=self.size * self.mechanism.sensitivity)
        pair = wider.worst_case_neighbours()
        return pair

    def log_likelihood_ratio(self, output: Any, value0: Any, value1: Any) -> NDArray[np.float64]:
        """Returns the mechanism's ln(P(output | value0) / P(output | value1)), one number a run.

        Raises:
          UnsupportedEventError: the mechanism has no such method.
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
