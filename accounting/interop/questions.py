"""ε, δ and the whole guarantee of anything that has a privacy cost: an event, a mechanism, a graph, a native event."""

from __future__ import annotations

from hockeystick._guess.arguments import guessing
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.calibration import event_of
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedAdjacencyError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.native_class import native_event_class
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee


@guessing
def epsilon(what: object, delta: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least ε for which the accountant shows that something is (ε, ``delta``)-DP; inf if there is none.

    Args:
      what: an event, composed or not; or a mechanism (the cost of one release for one record), an ``AccountantGraph``,
        a ``Guarantee``, or a native event of dp-accounting, which is read under add-or-remove-one
        (see ``from_dp_event`` for other relations).
      delta: in [0, 1].
      bracket: also compute the lower end.
      method: the one of ``METHODS`` to use; by default the best of all that apply.

    Raises:
      InvalidArgumentError: ``what`` has no event, ``delta`` is outside [0, 1], or ``method`` is unknown.
      UnsupportedEventError: a native event is unknown, or has no meaning under add-or-remove-one.

    Example: the ε of ten Gaussian mechanisms.

      >>> from hockeystick.accounting import Gaussian, compose
      >>> print(f"{epsilon(compose((Gaussian(10.0), 10)), 1e-6):.4f}")
      1.3676
    """
    return best_bound.epsilon(event_under(what), delta, bracket=bracket, method=method)


@guessing
def delta(what: object, epsilon: float, *, bracket: bool = False, method: str | None = None) -> Bracket:
    """Returns the least δ for which the accountant shows that something is (``epsilon``, δ)-DP.

    δ(ε) is the hockey-stick divergence E_P[(1 − e^{ε−L})₊], L being the privacy loss.

    Args:
      what: an event or anything that has one, as for ``epsilon``.
      epsilon: ≥ 0; may be inf.
      bracket: also compute the lower end.
      method: the one of ``METHODS`` to use; by default the best of all that apply.

    Raises:
      InvalidArgumentError: ``what`` has no event, ``epsilon`` is negative or NaN, or ``method`` is unknown.
      UnsupportedEventError: a native event is unknown, or has no meaning under add-or-remove-one.

    Example: the total variation distance, δ(0), of Laplace noise of scale 2.

      >>> from hockeystick.accounting import Laplace
      >>> print(f"{delta(Laplace(2.0), 0.0):.4f}")
      0.2212
    """
    return best_bound.delta(event_under(what), epsilon, bracket=bracket, method=method)


@guessing
def guarantee(what: object, *, adjacency: Adjacency | None = None, group: int = 1) -> Guarantee:
    """Returns the guarantee of one access to one data set: ε at every δ, rates of membership attacks, trade-off curve.

    Args:
      what: an event, a mechanism, or a native event of dp-accounting. A graph has a method ``guarantee`` of its own.
      adjacency: the neighbouring relation; by default that of the mechanism, then add-or-remove-one, then the only one
        under which the event has a meaning.
      group: the number of records that may differ.

    Raises:
      InvalidArgumentError: ``what`` has no event, or is a graph or a guarantee: these know their relation.
      UnsupportedAdjacencyError: the event or the mechanism has no meaning under that relation.
      UnsupportedEventError: the event has no rule for groups, or a native event is unknown.

    Example:
      >>> from hockeystick.accounting import Gaussian, guarantee
      >>> print(guarantee(Gaussian(5.0)))
      (0.8342, 1e-06)-DP under add-or-remove-one
    """
    if isinstance(what, (AccountantGraph, Guarantee)):
        way_out = "call the graph's own guarantee(group=..., view=...)"
        raise InvalidArgumentError("what", what, "has its own neighbouring relation", way_out)
    if adjacency is not None and not isinstance(adjacency, Adjacency):
        raise InvalidArgumentError("adjacency", adjacency, "is not an Adjacency", "use Adjacency.REPLACE_ONE, say")
    own = getattr(what, "_relation", None)  # of a mechanism
    stated = own() if callable(own) else None
    if stated is not None and adjacency not in (None, stated):
        raise UnsupportedAdjacencyError(
            f"the cost of {type(what).__name__} is under {stated.value}, not under {adjacency.value}"
        )
    event = event_under(what, adjacency or stated or Adjacency.ADD_OR_REMOVE_ONE)
    graph = AccountantGraph(adjacency=adjacency or stated or _relation_of(event)).source("data")
    return graph.release("output", event, reads=["data"]).guarantee(group=group)


def _relation_of(event: PrivacyEvent) -> Adjacency:
    """Add-or-remove-one where the event has a meaning under it, otherwise the only relation under which it has one."""
    accepted = [relation for relation in Adjacency if event.accepts(relation)]
    if Adjacency.ADD_OR_REMOVE_ONE in accepted or len(accepted) == 1:
        return accepted[0]
    choice = " or ".join(f"Adjacency.{relation.name}" for relation in accepted)
    raise InvalidArgumentError("adjacency", None, f"is needed for {type(event).__name__}", f"give {choice}")


def event_under(what: object, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> PrivacyEvent:
    """The event of anything that has one."""
    if isinstance(what, PrivacyEvent) or not isinstance(what, native_event_class()):
        return event_of(what, "what")
    from hockeystick.accounting.interop.dp_accounting_events import ADJACENCY, from_dp_event

    relations = [native for native, ours in ADJACENCY.items() if ours is adjacency]
    if not relations:
        raise UnsupportedAdjacencyError(f"events of dp-accounting have no meaning under {adjacency.value}")
    return from_dp_event(what, relations[0])
