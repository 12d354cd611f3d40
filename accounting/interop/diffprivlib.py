"""What a mechanism of diffprivlib costs, as an event, where its parameters say what it is.

| mechanism                                | event, one unit of distance being its sensitivity |
|------------------------------------------|---------------------------------------------------|
| Laplace, also truncated or folded        | ``Laplace`` of its noise                          |
| Gaussian, GaussianAnalytic               | ``Gaussian`` of its noise                         |
| Geometric, also truncated or folded      | ``DiscreteLaplace`` of its noise                  |
| Staircase                                | ``Staircase`` of its noise                        |
| Exponential                              | ``BoundedRange`` of width ε                       |
| PermuteAndFlip                           | ``PermuteAndFlip``                                |
| Binary                                   | ``RandomizedResponse``                            |
| other noise, and categories by a metric  | ``PureDP`` or ``ApproximateDP``, as it claims     |

Noise composes better than a claim. It is taken as diffprivlib 0.6 makes it, rounded down; tests compare it with the
package. Events are those of the ideal mechanism: what its floats give away besides, an audit shows.

Some mechanisms work out their noise once, when they are made or first used, and keep to it whatever becomes of their
parameters. So each is made again here from its parameters, and refused where that gives other noise than it has.
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

_DOWN = 1.0 - 2.0**-48  # a variance, its root and the quotient by a sensitivity: a few roundings each
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
    "BudgetAccountant": "it adds up histograms, noised for an added record, and means, noised for a replaced one: "
    "no one neighbouring relation fits all of them; give the mechanisms",
    "Vector": "its guarantee is about the exact minimiser of the function that it returns",
}


def from_diffprivlib(mechanism: Any) -> PrivacyEvent:
    """Returns the event of one call of a mechanism, one unit of distance being the sensitivity that it was made with.

    Which neighbouring relation that sensitivity is for is not in the mechanism: it has to be the graph's.

    Args:
      mechanism: of ``diffprivlib.mechanisms``; a class derived from one of these is none.

    Raises:
      InvalidArgumentError: an infinite ε, a parameter outside its domain, or one that was altered after the noise had
        been worked out.
      UnsupportedEventError: no mechanism of diffprivlib, or one without an event here.
    """
    kind = type(mechanism).__name__
    if type(mechanism).__module__.partition(".")[0] != "diffprivlib":
        raise UnsupportedEventError(f"{type(mechanism).__module__}.{kind} is no class of diffprivlib")
    if kind in _REFUSED:
        raise UnsupportedEventError(f"diffprivlib's {kind} has no event: {_REFUSED[kind]}")
    _check_unaltered(mechanism)
    if kind in _CLAIMED:
        return _claimed(mechanism)
    match kind:
        case "Laplace" | "LaplaceTruncated" | "LaplaceFolded":
            # A δ nearer to 1 is no guarantee.
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
    raise UnsupportedEventError(f"diffprivlib's {kind} has no event: use PureDP or ApproximateDP of what it claims")


def _check_unaltered(mechanism: Any) -> None:
    """Errors show the class alone: a choice among utilities has private ones."""
    kind, remedy = type(mechanism), "make a mechanism with the parameters that you want"
    names = [name for name in inspect.getfullargspec(kind.__init__).kwonlyargs if name != "random_state"]
    try:
        again = kind(**{name: getattr(mechanism, name) for name in names})
    except (TypeError, ValueError, ArithmeticError):
        raise InvalidArgumentError("target", kind, "has parameters of which none can be made", remedy) from None
    if kind.__name__ == "LaplaceBoundedDomain" and getattr(mechanism, "_scale", None) is not None:
        again._scale = again._find_scale()  # as its first use does
    if kind.__name__ == "LaplaceBoundedNoise" and getattr(mechanism, "_noise_bound", None) is not None:
        again.randomise(0.0)
    for name, value in vars(mechanism).items():
        if name in ("random_state", "_rng"):
            continue
        if not _same(value, vars(again).get(name, getattr(kind, name, value))):
            reason = f"was altered after it was made: {name} is not what its parameters give"
            raise InvalidArgumentError("target", kind, reason, remedy)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict) and isinstance(other, dict):  # of sums over categories, which may be in another order
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
    """The event, where neighbouring inputs differ at all."""
    return event() if validate.real("sensitivity", mechanism.sensitivity, low=0.0) else NO_EVENT
