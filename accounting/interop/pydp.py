"""Events of the mechanisms and algorithms of PyDP (package ``python-dp``, Google's C++ library).

``LaplaceMechanism`` and ``GaussianMechanism`` state the scale of their noise (``diversity``, ``std``), so the event is
that of the noise; its unit of distance is the mechanism's sensitivity. Algorithms over entries state only ε and δ, for
one user added or removed within the contribution bounds given to them.
"""

from __future__ import annotations

from typing import Any

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedAdjacencyError, UnsupportedEventError
from hockeystick.accounting.events.basic.declared import ApproximateDP, PureDP
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.numerics.directed_rounding import quotient_down

_ALGORITHMS = frozenset(
    {
        "BoundedMean",
        "BoundedStandardDeviation",
        "BoundedSum",
        "BoundedVariance",
        "Count",
        "Max",
        "Median",
        "Min",
        "Percentile",
    }
)


def from_pydp(source: Any, *, adjacency: Adjacency | None = None) -> PrivacyEvent:
    """Returns the event of one result of a PyDP mechanism or algorithm.

    Args:
      source: a ``LaplaceMechanism`` or ``GaussianMechanism``, or an algorithm such as ``BoundedSum``.
      adjacency: the neighbouring relation of the graph; required for an algorithm, whose ε is for a user added or
        removed. A replaced user is a removal and an addition, and is charged for both.

    Raises:
      InvalidArgumentError: the relation of an algorithm is missing, or a parameter is outside its domain.
      UnsupportedAdjacencyError: the algorithm's ε does not apply to the relation.
      UnsupportedEventError: the object is not from PyDP, or does not state its cost.

    Example:
      >>> from types import SimpleNamespace
      >>> from hockeystick.accounting import from_pydp
      >>> class LaplaceMechanism(SimpleNamespace):  # in place of pydp.algorithms.numerical_mechanisms
      ...     __module__ = "pydp"
      >>> from_pydp(LaplaceMechanism(diversity=6.0, sensitivity=2.0))
      Laplace(noise_multiplier=3.0)
    """
    kind = type(source).__name__
    if type(source).__module__.partition(".")[0] != "pydp":
        raise UnsupportedEventError(f"{type(source).__module__}.{kind} is not a class of PyDP: use an event")
    match kind:
        case "LaplaceMechanism":
            return Laplace(_ratio("diversity", source.diversity, source.sensitivity))
        case "GaussianMechanism":
            return Gaussian(_ratio("std", source.std, source.l2_sensitivity))
    if kind not in _ALGORITHMS:
        raise UnsupportedEventError(f"PyDP's {kind} has no event: use PureDP or ApproximateDP with its ε and δ")
    delta = validate.probability("delta", source.delta)
    event = ApproximateDP(source.epsilon, delta) if delta else PureDP(source.epsilon)
    match adjacency:
        case Adjacency.ADD_OR_REMOVE_ONE:
            return event
        case Adjacency.REPLACE_ONE | Adjacency.REPLACE_WITH_NULL:
            return event.at(2)
        case None:
            remedy = "give the graph's relation: adjacency=hs.Adjacency..."
            raise InvalidArgumentError("adjacency", None, f"is needed, as a {kind} counts users", remedy)
    raise UnsupportedAdjacencyError(
        f"PyDP's {kind} is about users added or removed, not {adjacency}: use an event for that relation"
    )


def _ratio(name: str, noise: object, reach: object) -> float:
    wide = validate.real(name, noise, low=0.0, low_open=True)
    return quotient_down(wide, validate.real("sensitivity", reach, low=0.0, low_open=True))
