"""Refinement: a check that the releases in a ledger are those of a plan, or cost less.

A plan is a graph made before any data are seen; its events are envelopes. A ledger is the graph of the releases of a
run. A run may choose its parameters from earlier outcomes, as long as every event is dominated by the plan's event at
that place and the counts are not larger. The guarantee is then the plan's. As the realised counts and events depend on
the data, their total is an odometer reading, never a guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from hockeystick.accounting.errors import GraphError, HockeystickError, UnsupportedEventError
from hockeystick.accounting.events.answers.randomized_response import LazySwitchDecision, RandomizedResponse
from hockeystick.accounting.events.answers.selection import BoundedRange
from hockeystick.accounting.events.answers.subset_selection import SubsetSelection
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.composition import Composed, Parallel, VisibleMixture
from hockeystick.accounting.events.basic.declared import ZCDP, ApproximateDP, Failure, NonPrivate, PureDP
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian, Laplace
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.parts.nodes import Node, Post, Release, Transform

_GENTLER: dict[type[PrivacyEvent], dict[str, int]] = {
    BoundedRange: {"width": -1},
    Failure: {"delta": -1},
    Gaussian: {"noise_multiplier": +1},
    Laplace: {"noise_multiplier": +1},
    LazySwitchDecision: {"keep_probability": -1, "log_ratio": -1, "log_ratio_cap": -1},
    RandomizedResponse: {"epsilon": -1},
    SubsetSelection: {"epsilon": -1},
}
"""The direction in which each parameter may change such that the event costs no more."""


class RefinementError(HockeystickError):
    """The error that a plan does not allow a release; nothing was recorded. See ``refines`` for an example.

    Attributes:
      release: the name of the offending node.
      reason: why the plan does not allow it.
    """

    def __init__(self, release: str, reason: str) -> None:
        super().__init__(release, reason)
        self.release, self.reason = release, reason

    def __str__(self) -> str:
        return f"{self.release!r} does not refine the plan: {self.reason}"


def dominates(envelope: PrivacyEvent, event: PrivacyEvent) -> bool:
    """Returns whether ``event`` is shown to cost no more than ``envelope``, at every distance and in every curve.

    The distances of both must be in the same unit: in records, or in the same norm. The result is True only if a rule
    proves it: equal events; a parameter changed to the cheaper side; ``PureDP``, ``ApproximateDP`` or ``ZCDP`` over any
    event with that guarantee (for groups by group privacy, which holds for the mechanism itself); one branch of a
    ``Parallel`` envelope, or all branches of a ``Parallel`` event; a ``VisibleMixture`` of smaller probability; a
    composition part by part. False means "not shown".

    Raises:
      InvalidArgumentError: an argument is not an event.

    Example:
      >>> from hockeystick.accounting import Gaussian, Laplace, PureDP, compose, dominates
      >>> dominates(Gaussian(2.0), Gaussian(3.0)), dominates(PureDP(1.0), compose((Laplace(4.0), 4)))
      (True, True)
      >>> dominates(Laplace(1.0), PureDP(1.0))
      False
    """
    check_event(envelope)
    check_event(event)
    if event in (envelope, NO_EVENT) or type(envelope) is NonPrivate:
        return True
    if type(event) is Parallel and all(dominates(envelope, branch) for branch in event.branches):
        return True
    if type(envelope) is Parallel:
        return any(dominates(branch, event) for branch in envelope.branches)
    if type(envelope) in (PureDP, ApproximateDP, ZCDP):
        return _declared(envelope, event)
    if type(envelope) is VisibleMixture:
        inner, rarer = (event.event, event.probability) if type(event) is VisibleMixture else (event, 1.0)
        return rarer <= envelope.probability and dominates(envelope.event, inner)
    if type(event) is VisibleMixture and dominates(envelope, event.event):
        return True
    if type(envelope) is Composed or type(event) is Composed:
        return _contains(_parts(envelope), _parts(event))
    return _gentler(envelope, event)


def _declared(envelope: PrivacyEvent, event: PrivacyEvent) -> bool:
    failure = event.failure_delta() <= envelope.failure_delta()
    if type(envelope) is ZCDP:
        return failure and event.zcdp_rho() <= envelope.zcdp_rho()
    return failure and event.pure_epsilon() <= envelope.pure_epsilon()


def _gentler(envelope: PrivacyEvent, event: PrivacyEvent) -> bool:
    if type(event) is not type(envelope) or type(event) not in _GENTLER:
        return False
    signs = _GENTLER[type(event)]
    same = evolve(event, **{name: getattr(envelope, name) for name in signs})
    gentler = all(sign * getattr(event, name) >= sign * getattr(envelope, name) for name, sign in signs.items())
    return same == envelope and gentler


def _parts(event: PrivacyEvent) -> tuple[tuple[PrivacyEvent, int], ...]:
    return event.parts if isinstance(event, Composed) else ((event, 1),)


def _contains(envelopes: Sequence[tuple[PrivacyEvent, int]], events: Sequence[tuple[PrivacyEvent, int]]) -> bool:
    """Returns whether each event has an envelope of its own: whether a flow from events to envelopes covers all."""
    import networkx as nx

    flow = nx.DiGraph()
    flow.add_nodes_from(["from", "to"])
    for i, (_, count) in enumerate(envelopes):
        flow.add_edge(("envelope", i), "to", capacity=count)
    for j, (event, count) in enumerate(events):
        flow.add_edge("from", ("event", j), capacity=count)
        for i, (envelope, _) in enumerate(envelopes):
            if dominates(envelope, event):
                flow.add_edge(("event", j), ("envelope", i))
    return bool(nx.maximum_flow_value(flow, "from", "to") == sum(count for _, count in events))


# Graphs ---------------------------------------------------------------------------------------------------------------


def refines(ledger: AccountantGraph, plan: AccountantGraph, *, mapping: Mapping[str, str] | None = None) -> None:
    """Checks that every release of ``ledger`` is a release of ``plan``, with the same edges and at most its cost.

    Args:
      ledger: the graph of the releases of a run.
      plan: the graph made before the run.
      mapping: {release of the ledger: release of the plan} for different names; if several map to the same one, their
        counts add up.

    Raises:
      RefinementError: the plan does not allow a node; it names the first such node.
      GraphError: the graphs differ in adjacency or pinned, or the ledger has an assumption that the plan lacks.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Gaussian, RefinementError, refines
      >>> people = AccountantGraph().source("people")
      >>> plan = people.release("mean", Gaussian(5.0), reads=["people"], count=10)
      >>> refines(people.release("mean", Gaussian(6.0), reads=["people"], count=3), plan)
      >>> try:
      ...     refines(people.release("mean", Gaussian(4.0), reads=["people"]), plan)
      ... except RefinementError as error:
      ...     print(error.release)
      mean
    """
    given = dict(mapping or {})
    _check_same_setting(ledger, plan)
    planned = {node.name: node for node in plan.nodes}
    place = {node.name: i for i, node in enumerate(plan.nodes)}
    total: dict[str, int] = {}
    last_place = -1
    for node in ledger.nodes:
        name = given.get(node.name, node.name) if isinstance(node, Release) else node.name
        target = planned.get(name)
        if target is None or type(target) is not type(node):
            raise RefinementError(node.name, f"the plan has no {type(node).__name__.lower()} {name!r}")
        reads = {given.get(other, other) for other in getattr(node, "reads", ())}
        planned_reads = getattr(target, "reads", ())
        if reads != set(planned_reads):
            raise RefinementError(node.name, f"it reads {sorted(reads)}, and in the plan {sorted(planned_reads)}")
        if not isinstance(node, Release) or not isinstance(target, Release):
            same = evolve(node, reads=planned_reads) if isinstance(node, Transform | Post) else node  # in any order
            if same != target:
                raise RefinementError(node.name, f"it is {node}, and in the plan {target}")
            continue
        if (node.reach, node.cumulative, node.leading) != (target.reach, target.cumulative, target.leading):
            raise RefinementError(node.name, "its reach, cumulative or leading differs from the plan's")
        if node.leading and place[name] < last_place:
            raise RefinementError(node.name, "it is leading, and comes after a release that follows it in the plan")
        last_place = max(last_place, place[name])
        check_envelope(node.name, node.event, target, planned)
        total[name] = total.get(name, 0) + node.count
        if total[name] > target.count:
            raise RefinementError(node.name, f"count {total[name]} is above the plan's {target.count}")


def _check_same_setting(ledger: AccountantGraph, plan: AccountantGraph) -> None:
    if ledger.adjacency is not plan.adjacency or ledger.pinned != plan.pinned:
        raise GraphError(
            f"a ledger under {ledger.adjacency.value} (pinned={ledger.pinned}) can't refine a plan under "
            f"{plan.adjacency.value} (pinned={plan.pinned}): build both under the same relation"
        )
    if extra := [sentence for sentence in ledger.assumptions if sentence not in plan.assumptions]:
        raise GraphError(f"the ledger assumes {extra[0]!r}, which the plan does not: add it to the plan")


def check_envelope(name: str, event: PrivacyEvent, target: Release, nodes: Mapping[str, Node]) -> None:
    """Refuses an event that the plan's release ``target``, among ``nodes``, does not allow."""
    direct = not any(isinstance(nodes[other], Transform) for other in target.reads)
    if not (direct or event == NO_EVENT or event == target.event or _norm(event) == _norm(target.event) is not None):
        raise RefinementError(name, f"{event} is in norm {_norm(event)}, the plan's event in {_norm(target.event)}")
    if not dominates(target.event, event):
        raise RefinementError(name, f"{event} is not shown to cost at most the plan's {target.event}")


def _norm(event: PrivacyEvent) -> str | None:
    try:
        return event.norm
    except UnsupportedEventError:
        return None
