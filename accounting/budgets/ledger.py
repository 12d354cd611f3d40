"""Ledgers: what one run releases, recorded before the noise is drawn.

A ``Ledger`` checks each release against a plan, and the guarantee is the plan's. A ``FilteredLedger`` has no plan: its
releases are made up as the run goes, a filter admits them, and the guarantee is the filter's. What the recorded events
add up to depends on the data: it is an odometer's reading.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets import odometer
from hockeystick.accounting.budgets.durable_ledger import DurableLedger
from hockeystick.accounting.budgets.filters import PrivacyFilter
from hockeystick.accounting.budgets.odometer import OdometerReading
from hockeystick.accounting.budgets.renyi_filter import renyi_charges
from hockeystick.accounting.budgets.sessions import Sessions, checked_run
from hockeystick.accounting.errors import GraphError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.graph.parts.charges import Charge, Move, simulated_assumption
from hockeystick.accounting.graph.parts.nodes import Node, Post, Public, Release, Source, Transform
from hockeystick.accounting.graph.plan_refinement import RefinementError, check_envelope


@frozen
class _Rule:
    """The plan's entry for one release, looked up at each recording."""

    release: Release
    limit: int
    needs: tuple[str, ...]
    later: tuple[str, ...]


class Ledger:
    """Records the releases of one run against a plan; a builder, one per run, not shared between threads.

    ``record`` before the noise is drawn: it refuses what the plan does not allow, and then changes nothing. It takes
    constant time, and memory per distinct event. The releases of a family are recorded in their order, the first to
    the last member, ``count`` of each.

    >>> from hockeystick.accounting import Gaussian
    >>> plan = AccountantGraph().source("people").release("step", Gaussian(5.0), reads=["people"], count=100)
    >>> ledger = Ledger(plan)
    >>> ledger.record("step", Gaussian(7.5), count=20)
    >>> ledger.guarantee() == plan.guarantee()
    True
    """

    create = DurableLedger.create
    """A new ledger for real spending, in a file or a database: see :meth:`DurableLedger.create`."""

    open = DurableLedger.open
    """The ledger in a file or a database: see :meth:`DurableLedger.open`."""

    def __init__(self, plan: AccountantGraph) -> None:
        self._plan = plan
        self._nodes = {node.name: node for node in plan.nodes}
        self._rules = {node.name: self._rule(node) for node in plan.nodes if isinstance(node, Release)}
        self._events: dict[str, dict[PrivacyEvent, int]] = {name: {} for name in self._rules}
        self._total = dict.fromkeys(self._rules, 0)
        self._simulated: set[str] = set()
        self._sessions = Sessions()

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of the plan."""
        return self._plan.adjacency

    def check(self, release: str, event: PrivacyEvent | None = None, *, count: int = 1) -> None:
        """Refuses what ``record`` would refuse, and records nothing; the arguments and errors are the same."""
        self._checked(release, event, count)

    def record(
        self, release: str, event: PrivacyEvent | None = None, *, count: int = 1, simulated: bool = False
    ) -> None:
        """Records ``count`` releases that are about to be made.

        Args:
          release: its name in the plan.
          event: what it costs; None for the plan's own event.
          simulated: their noise is simulated; the graph and the guarantee will say so.

        Raises:
          RefinementError: no such release in the plan, a count or an event above the plan's, a published input that
            was not recorded, or a leading release after one that follows it in the plan.
          InvalidArgumentError: ``release`` is not a text, ``event`` not an event, or ``count`` not an integer ≥ 1.
        """
        event, count = self._checked(release, event, count)
        self._events[release][event] = self._events[release].get(event, 0) + count
        self._total[release] += count
        if simulated:
            self._simulated.add(release)

    def record_session(self, run: str, session: int) -> None:
        """Records that a session goes on with a run; arguments and errors as ``DurableLedger.record_session``.

        Session 0 is that of a run that was just recorded.
        """
        self._sessions.record(checked_run(run), validate.integer("session", session, low=0))

    def recorded(self, release: str) -> int:
        """Returns how many releases of that name were recorded."""
        if validate.text("release", release) not in self._rules:
            raise RefinementError(release, "the plan has no such release")
        return self._total[release]

    def graph(self) -> AccountantGraph:
        """Returns what was recorded as a graph that refines the plan under ``mapping()``.

        A release recorded with several events is one node for each. A family that was begun is shown whole, with the
        plan's event.
        """
        graph = AccountantGraph(self._plan.adjacency, self._plan.pinned, self._plan.assumptions)
        shown: list[Node] = []
        present: set[str] = set()
        for node in self._plan.nodes:
            reads = getattr(node, "reads", ())
            if isinstance(node, Release) and self._total[node.name]:
                shown.extend(self._as_nodes(node))
            elif isinstance(node, (Source, Public)) or (not isinstance(node, Release) and present.issuperset(reads)):
                shown.append(node)
            else:
                continue
            present.add(node.name)
        return evolve(graph, _nodes=tuple(shown))

    def mapping(self) -> dict[str, str]:
        """Returns {node of ``graph()``: release of the plan} for the nodes that the plan doesn't name."""
        return {
            _name(self._nodes, release, i): release
            for release, events in self._events.items()
            if self._rules[release].release.reach is None
            for i in range(1, len(events))
        }

    def guarantee(self, *, group: int = 1, view: str | None = None) -> Guarantee:
        """Returns the plan's guarantee, which does not depend on the record; see ``AccountantGraph.guarantee``."""
        found = self._plan.guarantee(group=group, view=view)
        said = simulated_assumption(sorted(self._simulated.difference(self._plan.simulated())))
        return evolve(found, assumptions=found.assumptions + said) if said else found

    def reading(self, delta: float) -> OdometerReading:
        """Returns the privacy loss so far, for a record of the worst block; no guarantee.

        Args:
          delta: in (0, 1), the same at every reading of a run; all failures that the plan allows are added.
        """
        moves = self.graph().guarantee().moves
        failures = [move.event().failure_delta() for move in self._plan.guarantee().moves]
        return _read(moves, delta, max(failures, default=0.0))

    def _checked(self, release: str, event: PrivacyEvent | None, count: int) -> tuple[PrivacyEvent, int]:
        rule = self._rules.get(validate.text("release", release))
        if rule is None:
            raise RefinementError(release, f"the plan has no such release; it has {sorted(self._rules)}")
        count = validate.integer("count", count, low=1)
        event = rule.release.event if event is None else event
        check_event(event)
        done = self._total[release]
        if done + count > rule.limit:
            raise RefinementError(release, f"count {done + count} is above the plan's {rule.limit}")
        if not done:
            for other in rule.needs:
                if not self._total[other]:
                    raise RefinementError(release, f"it reads {other!r}, which was not recorded")
        members = done // rule.release.count
        for other in rule.later:
            later = self._rules[other].release
            if self._total[other] > (members * later.count if rule.release.reach and later.reach else 0):
                raise RefinementError(release, f"it is leading, and {other!r}, which follows it, was recorded before")
        if event not in self._events[release]:
            if not event.accepts(self._plan.adjacency):
                raise RefinementError(release, f"{event} has no meaning under {self._plan.adjacency.value}")
            check_envelope(release, event, rule.release, self._nodes)
        return event, count

    def _rule(self, release: Release) -> _Rule:
        limit = release.count
        if release.reach is not None:
            (family,) = (node for node in map(self._nodes.__getitem__, release.reads) if isinstance(node, Source))
            limit *= family.size
        needs, pending = set(), list(release.reads)
        while pending:
            node = self._nodes[pending.pop()]
            if isinstance(node, Release):
                needs.add(node.name)
            elif isinstance(node, (Post, Transform)):
                pending.extend(node.reads)
        after = self._plan.nodes[self._plan.nodes.index(release) + 1 :] if release.leading else ()
        later = tuple(node.name for node in after if isinstance(node, Release))
        return _Rule(release, limit, tuple(sorted(needs)), later)

    def _as_nodes(self, release: Release) -> Iterable[Release]:
        shown = evolve(release, simulated=release.simulated or release.name in self._simulated)
        return [shown] if release.reach is not None else _split(self._nodes, shown, self._events[release.name])


class FilteredLedger:
    """Records the releases of one run under a filter; a builder, one per run, not shared between threads.

    Each release takes from the filter what it costs a record of the worst block, so releases on disjoint data add up.

    Args:
      graph: the sources, transforms and public values that may be read; no releases yet.
      budget: the filter, under the graph's adjacency.

    >>> from hockeystick.accounting import Gaussian
    >>> from hockeystick.accounting.budgets.filters import GDPFilter
    >>> ledger = FilteredLedger(AccountantGraph().source("people"), GDPFilter.for_target(1.0, 1e-6))
    >>> ledger.record("mean", Gaussian(8.0), reads=["people"])
    >>> ledger.would_exceed(Gaussian(4.0), reads=["people"])
    True

    Raises:
      GraphError: the graph has releases or another adjacency than the filter.
    """

    def __init__(self, graph: AccountantGraph, budget: PrivacyFilter) -> None:
        if budget.adjacency is not graph.adjacency:
            raise GraphError(f"the filter is for {budget.adjacency.value}, the graph for {graph.adjacency.value}")
        if any(isinstance(node, Release) for node in graph.nodes):
            raise GraphError("the graph has releases already: give one without, or a Ledger of it as a plan")
        self._graph, self._filter = graph, budget
        self._nodes = {node.name: node for node in graph.nodes}
        self._events: dict[str, dict[PrivacyEvent, int]] = {}
        self._costs: dict[tuple[PrivacyEvent, tuple[str, ...]], PrivacyEvent] = {}
        self._sessions = Sessions()

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of the graph and of the filter."""
        return self._graph.adjacency

    @property
    def budget(self) -> PrivacyFilter:
        """The filter after all that was recorded."""
        return self._filter

    def would_exceed(self, event: PrivacyEvent, *, reads: Iterable[str], count: int = 1) -> bool:
        """Says whether ``record`` would find no room for ``count`` releases of ``event``."""
        return self._filter.would_exceed(self._cost(event, validate.items("reads", reads)), count=count)

    def record(
        self, release: str, event: PrivacyEvent, *, reads: Iterable[str], count: int = 1, simulated: bool = False
    ) -> None:
        """Records ``count`` releases that are about to be made; a name may be used again with the same ``reads``.

        Args:
          simulated: their noise is simulated; the graph and the guarantee will say so.

        Raises:
          BudgetExceededError: the filter has no room.
          GraphError: an unknown input, or a name that stands for another node.
          UnsupportedAdjacencyError, InvalidArgumentError: see ``AccountantGraph.release`` and ``PrivacyFilter.after``.
        """
        inputs = validate.items("reads", reads)
        known = self._nodes.get(validate.text("release", release))
        if known is None:
            node = Release(release, inputs, event)
            self.graph().release(release, event, reads=inputs)  # refuses a bad release
        elif isinstance(known, Release) and set(known.reads) == set(inputs):
            node = known
        else:
            raise GraphError(
                f"{release!r} stands for another node or other inputs: give this release a name of its own"
            )
        count = validate.integer("count", count, low=1)
        self._filter = self._filter.after(self._cost(event, inputs), count=count)
        self._nodes[release] = evolve(node, simulated=node.simulated or simulated)
        events = self._events.setdefault(release, {})
        events[event] = events.get(event, 0) + count

    def record_session(self, run: str, session: int) -> None:
        """Records that a session goes on with a run; see ``Ledger.record_session``."""
        self._sessions.record(checked_run(run), validate.integer("session", session, low=0))

    def graph(self) -> AccountantGraph:
        """Returns what was recorded; a release recorded with several events is one node for each."""
        shown = list(self._graph.nodes)
        for name, events in self._events.items():
            node = self._nodes[name]
            assert isinstance(node, Release)
            shown.extend(_split(self._nodes, node, events))
        return evolve(self._graph, _nodes=tuple(shown))

    def guarantee(self, *, delta: float | None = None) -> Guarantee:
        """Returns the filter's guarantee to one record, which does not depend on the recorded releases.

        Args:
          delta: state it as (ε, δ)-DP at this δ, all that an ``RDPFilter`` has; by default by the whole curve.
        """
        charge = Charge("filter", self._filter.event(delta=delta), 1)
        move = Move("whatever the filter admitted", (charge,))
        simulated = [node.name for node in self._nodes.values() if isinstance(node, Release) and node.simulated]
        return Guarantee((move,), self._graph.adjacency, 1, self._graph.assumptions + simulated_assumption(simulated))

    def reading(self, delta: float) -> OdometerReading:
        """Returns the privacy loss so far, for a record of the worst block; no guarantee.

        Args:
          delta: in (0, 1), the same at every reading of a run; the filter's budget of failures is added.
        """
        return _read(self.graph().guarantee().moves, delta, self._filter.promised_failure())

    def _cost(self, event: PrivacyEvent, reads: tuple[str, ...]) -> PrivacyEvent:
        check_event(event)
        data = tuple(sorted(name for name in reads if isinstance(self._graph_node(name), (Source, Transform))))
        key = (event, data)
        if key not in self._costs:
            alone = self._graph.release(_unused(self._nodes), event, reads=data)
            self._costs[key] = alone.guarantee().event
        return self._costs[key]

    def _graph_node(self, name: str) -> Node:
        if name not in self._nodes:
            raise GraphError(f"no node {name!r}; there are {', '.join(map(repr, self._nodes))}")
        return self._nodes[name]


def _unused(names: Iterable[str]) -> str:
    return "release" + "'" * (1 + max((len(name) for name in names), default=0))


def _name(taken: Iterable[str], release: str, index: int) -> str:
    name, others = (release, ()) if index == 0 else (f"{release}#{index + 1}", taken)
    while name in others:
        name += "'"
    return name


def _split(taken: Iterable[str], release: Release, events: dict[PrivacyEvent, int]) -> list[Release]:
    return [
        evolve(release, name=_name(taken, release.name, i), event=event, count=count)
        for i, (event, count) in enumerate(events.items())
    ]


def _read(moves: Iterable[Move], delta: float, failure_delta: float) -> OdometerReading:
    """The reading at each order's largest sum over moves: it is monotone in the sums, so it bounds every move's."""
    delta = validate.probability("delta", delta, open=True)
    renyi, pure = np.zeros(len(odometer.ORDERS)), 0.0
    for move in moves:
        rows = [charge.count * np.asarray(renyi_charges(charge.event, odometer.ORDERS)) for charge in move.charges]
        renyi = np.maximum(renyi, np.sum(rows, axis=0) if rows else 0.0)
        pure = max(pure, math.fsum(charge.count * charge.event.pure_epsilon() for charge in move.charges))
    return odometer.read(odometer.ORDERS, renyi, pure, delta, failure_delta)
