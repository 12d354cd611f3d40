"""What a mechanism or algorithm of PyDP (package ``python-dp``, Google's C++ library) costs, as an event.

``LaplaceMechanism`` and ``GaussianMechanism`` say how wide their noise is (``diversity``, ``std``), so the event is of
that noise, one unit of distance being the sensitivity that they were made with. Algorithms over entries say ε and δ
alone, for one user added or removed, who has entries in as many partitions and as often as they were told.
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
      adjacency: the relation of the graph that the event is for; needed for an algorithm, whose ε is for a user added
        or removed. Any other change of a user is a removal and an addition, and costs two of these.

    Raises:
      InvalidArgumentError: the relation of an algorithm is missing, or a parameter is outside its domain.
      UnsupportedAdjacencyError: the algorithm's ε says nothing of the relation.
      UnsupportedEventError: nothing of PyDP, or nothing that says what it costs.
    """
    kind = type(source).__name__
    if type(source).__module__.partition(".")[0] != "pydp":
        raise UnsupportedEventError(f"{type(source).__module__}.{kind} is no class of PyDP")
    match kind:
        case "LaplaceMechanism":
            return Laplace(_ratio("diversity", source.diversity, source.sensitivity))
        case "GaussianMechanism":
            return Gaussian(_ratio("std", source.std, source.l2_sensitivity))
    if kind not in _ALGORITHMS:
        raise UnsupportedEventError(f"PyDP's {kind} has no event: use PureDP or ApproximateDP of what it claims")
    delta = validate.probability("delta", source.delta)
    event = ApproximateDP(source.epsilon, delta) if delta else PureDP(source.epsilon)
    match adjacency:
        case Adjacency.ADD_OR_REMOVE_ONE:
            return event
        case Adjacency.REPLACE_ONE | Adjacency.REPLACE_WITH_NULL:
            return event.at(2)
        case None:
            remedy = "say which relation the graph has: adjacency=hs.Adjacency..."
            raise InvalidArgumentError("adjacency", None, f"is needed: a {kind} counts users", remedy)
    raise UnsupportedAdjacencyError(f"PyDP's {kind} is about users added or removed, not {adjacency}")


def _ratio(name: str, noise: object, reach: object) -> float:
    wide = validate.real(name, noise, low=0.0, low_open=True)
    return quotient_down(wide, validate.real("sensitivity", reach, low=0.0, low_open=True))
