"""Events of the mechanisms of diffprivlib.

| mechanism                                | event (the unit of distance is its sensitivity)   |
|------------------------------------------|---------------------------------------------------|
| Laplace, also truncated or folded        | ``Laplace`` of its noise                          |
| Gaussian, GaussianAnalytic               | ``Gaussian`` of its noise                         |
| Geometric, also truncated or folded      | ``DiscreteLaplace`` of its noise                  |
| Staircase                                | ``Staircase`` of its noise                        |
| Exponential                              | ``BoundedRange`` of width ε                       |
| PermuteAndFlip                           | ``PermuteAndFlip``                                |
| Binary                                   | ``RandomizedResponse``                            |
| other noise, and categories by a metric  | ``PureDP`` or ``ApproximateDP`` of its claim      |

The event of the noise composes more tightly than a claim. The noise is that of diffprivlib 0.6, rounded down; tests
compare it with the package. Events are those of the ideal mechanism: leaks by floating-point numbers are for an audit.

Some mechanisms compute their noise once, when they are made or first used, and ignore later changes of their
parameters. So each mechanism is rebuilt from its parameters, and refused if that gives other noise than it has.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.answers.randomized_response import RandomizedResponse
from hockeystick.accounting.events.answers.selection import BoundedRange, PermuteAndFlip
from hockeystick.accounting.events.basic.declared import ApproximateDP, PureDP
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.events.noise.integer_noise import DiscreteLaplace
from hockeystick.accounting.events.noise.staircase import Staircase
from hockeystick.accounting.numerics.directed_rounding import quotient_down

_DOWN = 1.0 - 2.0**-48  # covers the few roundings of a variance, its root, and the quotient by a sensitivity
_CLAIMED = frozenset(
    {
        "Bingham",
        "ExponentialCategorical",
        "ExponentialHierarchical",
        "GaussianDiscrete",
        "LaplaceBoundedDomain",
        "LaplaceBoundedNoise",
        "Snapping",
        "Uniform",
    }
)
_REFUSED = {
    "BudgetAccountant": "it adds up histograms, with noise for an added record, and means, with noise for a replaced "
    "one, so that no single neighbouring relation fits; give the mechanisms",
    "Vector": "its guarantee is about the exact minimiser of the function that it returns",
}


def from_diffprivlib(mechanism: Any) -> PrivacyEvent:
    """Returns the event of one call of a mechanism; its unit of distance is the mechanism's sensitivity.

    The mechanism does not state the neighbouring relation of its sensitivity: it must be that of the graph.

    Args:
      mechanism: of ``diffprivlib.mechanisms``, not of a class derived from one of these.

    Raises:
      InvalidArgumentError: an infinite ε, a parameter outside its domain, or one that was changed after the noise had
        been computed.
      UnsupportedEventError: not a mechanism of diffprivlib, or one without an event.

    Example:
      >>> from hockeystick.accounting import from_diffprivlib
      >>> class Laplace:  # in place of diffprivlib.mechanisms.Laplace
      ...     __module__ = "diffprivlib.mechanisms.laplace"
      ...     epsilon, delta, sensitivity = 0.5, 0.0, 3.0
      >>> round(from_diffprivlib(Laplace()).noise_multiplier, 6)
      2.0
    """
    kind = type(mechanism).__name__
    if type(mechanism).__module__.partition(".")[0] != "diffprivlib":
        raise UnsupportedEventError(f"{type(mechanism).__module__}.{kind} is not a class of diffprivlib: use an event")
    if kind in _REFUSED:
        raise UnsupportedEventError(f"diffprivlib's {kind} has no event: {_REFUSED[kind]}")
    _check_unaltered(mechanism)
    if kind in _CLAIMED:
        return _claimed(mechanism)
    match kind:
        case "Laplace" | "LaplaceTruncated" | "LaplaceFolded":
            # A δ closer to 1 is not a guarantee.
            budget = _epsilon(mechanism) - math.log1p(-validate.real("delta", mechanism.delta, low=0.0, high=1 - 1e-12))
            return _noise(mechanism, lambda: Laplace(_DOWN / budget))
        case "Gaussian" | "GaussianAnalytic":
            deviation = math.sqrt(validate.real("variance", mechanism.variance(0), low=0.0))
            return _noise(mechanism, lambda: Gaussian(quotient_down(deviation * _DOWN, mechanism.sensitivity)))
        case "Geometric" | "GeometricTruncated" | "GeometricFolded":
            reach = validate.integer("sensitivity", mechanism.sensitivity, low=0)
            return _noise(mechanism, lambda: DiscreteLaplace(quotient_down(reach, _epsilon(mechanism))).at(reach))
        case "Staircase":
            return _noise(mechanism, lambda: Staircase(_epsilon(mechanism), gamma=mechanism.gamma))
        case "Exponential":
            return _noise(mechanism, lambda: BoundedRange(_epsilon(mechanism)))
        case "PermuteAndFlip":
            return _noise(mechanism, lambda: PermuteAndFlip(_epsilon(mechanism)))
        case "Binary":
            return RandomizedResponse(_epsilon(mechanism)) if mechanism.delta == 0 else _claimed(mechanism)
    raise UnsupportedEventError(f"diffprivlib's {kind} has no event: use PureDP or ApproximateDP with its ε and δ")


def _check_unaltered(mechanism: Any) -> None:
    """Refuses a mechanism whose noise does not follow from its parameters; errors show only the class, not the data."""
    kind, remedy = type(mechanism), "make a new mechanism with these parameters"
    names = [name for name in inspect.getfullargspec(kind.__init__).kwonlyargs if name != "random_state"]
    try:
        again = kind(**{name: getattr(mechanism, name) for name in names})
    except (TypeError, ValueError, ArithmeticError):
        raise InvalidArgumentError("target", kind, "has parameters from which it can't be made", remedy) from None
    if kind.__name__ == "LaplaceBoundedDomain" and getattr(mechanism, "_scale", None) is not None:
        again._scale = again._find_scale()  # as its first use does
    if kind.__name__ == "LaplaceBoundedNoise" and getattr(mechanism, "_noise_bound", None) is not None:
        again.randomise(0.0)
    for name, value in vars(mechanism).items():
        if name in ("random_state", "_rng"):
            continue
        if not _same(value, vars(again).get(name, getattr(kind, name, value))):
            reason = f"was changed after it was made: {name} does not follow from its parameters"
            raise InvalidArgumentError("target", kind, reason, remedy)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):  # of sums over categories, whose order may differ
        return one.keys() == other.keys() and all(_near(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list) and all(isinstance(name, str) for name in (*one, *other)):
        return sorted(one) == sorted(other)
    return bool(one == other)


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)


def _epsilon(mechanism: Any) -> float:
    return validate.real("epsilon", mechanism.epsilon, low=0.0)


def _claimed(mechanism: Any) -> PrivacyEvent:
    delta = validate.probability("delta", mechanism.delta)
    return ApproximateDP(_epsilon(mechanism), delta) if delta else PureDP(_epsilon(mechanism))


def _noise(mechanism: Any, event: Callable[[], PrivacyEvent]) -> PrivacyEvent:
    """Returns the event, or ``NO_EVENT`` if the sensitivity is 0."""
    return event() if validate.real("sensitivity", mechanism.sensitivity, low=0.0) else NO_EVENT
