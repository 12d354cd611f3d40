"""The price of a path: what its calls cost for the distances that were met, as the guarantee of a graph."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from functools import lru_cache

from attrs import frozen

from hockeystick.accounting import AboveThreshold, AccountantGraph, Adjacency, Gaussian, HockeystickError, Laplace
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.numerics.directed_rounding import quotient_down
from hockeystick.audits.replay.our_inputs import Asked, session_event
from hockeystick.audits.replay.queries import AddedNoise, Comparison, Winner, per_unit
from hockeystick.audits.replay.tape import Step, Tape
from hockeystick.audits.replay.values import up

_SOURCE = "the record in which d0 and d1 differ"
_EQUAL = 1e-9  # of two changes of one noisy value


class UnpricedError(HockeystickError):
    """A call has no finite cost for the pair."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where, self.reason = where, reason


@frozen
class Charge:
    """The cost of one call."""

    name: str
    where: str
    event: PrivacyEvent


@frozen
class Price:
    """The price of a path.

    Attributes:
      graph: its calls, each with the event at the distance that was met.
      epsilon: its ε at the claimed δ, an upper bound.
      dearest: the most expensive call, as "name, place".
    """

    graph: AccountantGraph
    epsilon: float
    dearest: str


Both = tuple[Step, Step]


def charges(first: Tape, second: Tape) -> tuple[Charge, ...]:
    """Returns the charges of a path's calls for the two runs' inputs.

    Raises:
      UnpricedError: a call has no finite cost.
    """
    steps: list[Both] = list(zip(first.steps, second.steps, strict=True))
    found: list[Charge] = []
    hidden: list[Both] = []
    sessions: dict[int, list[Both]] = defaultdict(list)
    for one, other in steps:
        if isinstance(one.query, Asked):
            sessions[one.query.session].append((one, other))
            continue
        if isinstance(one.query, (Winner, Comparison)):
            hidden.append((one, other))
            continue
        try:
            event = one.query.event(other.query)
        except UnpricedError:
            raise
        except HockeystickError as error:
            raise UnpricedError(one.where, f"{one.query.name}: {error}") from None
        if event is not None:
            found.append(Charge(one.query.name, one.where, event))
    found.extend(itertools.chain.from_iterable(map(_session_charges, sessions.values())))
    released = {
        draw: shift
        for one, other in steps
        if isinstance(one.query, AddedNoise)
        for draw, shift in one.query.shifts(other.query).items()
    }
    looked = first.released_after | second.released_after
    for group in _groups(hidden):
        found.extend(_hidden_charges(group, released, looked))
    return tuple(found)


def _session_charges(pairs: list[Both]) -> list[Charge]:
    step = pairs[0][0]
    asked = [
        (one.query, other.query)
        for one, other in pairs
        if isinstance(one.query, Asked) and isinstance(other.query, Asked)
    ]
    try:
        event = session_event(asked)
    except HockeystickError as error:
        raise UnpricedError(step.where, f"{step.query.name}: {error}") from None
    return [] if event is None else [Charge(step.query.name, step.where, event)]


def _shifts(pair: Both) -> dict[int, float]:
    query = pair[0].query
    assert isinstance(query, (Winner, Comparison))
    return query.shifts(pair[1].query)


def _groups(pairs: list[Both]) -> list[list[Both]]:
    """The comparisons that have draws in common, by however long a way."""
    leader: dict[int, int] = {}

    def root(draw: int) -> int:
        while leader.setdefault(draw, draw) != draw:
            leader[draw] = draw = leader[leader[draw]]
        return draw

    for pair in pairs:
        draws = list(_shifts(pair))
        for draw in draws[1:]:
            leader[root(draw)] = root(draws[0])
    groups: dict[int, list[Both]] = defaultdict(list)
    for pair in pairs:
        groups[root(next(iter(_shifts(pair))))].append(pair)
    return list(groups.values())


def _hidden_charges(group: list[Both], released: dict[int, float], looked: set[int]) -> list[Charge]:
    one, other = group[0]
    uses = Counter(draw for pair in group for draw in _shifts(pair))
    unseen = not looked & uses.keys()
    if isinstance(one.query, Winner) and len(group) == 1 and unseen:
        try:
            event = one.query.event(other.query)
        except HockeystickError as error:
            raise UnpricedError(one.where, str(error)) from None
        return [Charge(one.query.name, one.where, event)] if event is not None else []
    stream = _stream(group, uses) if unseen else None
    try:
        full = _as_released(group, released)
    except UnpricedError:
        if stream is None:
            raise
        return stream
    return full if stream is None or _total(full) <= _total(stream) else stream


def _total(found: list[Charge]) -> float:
    return math.fsum(charge.event.pure_epsilon() for charge in found)


def _stream(group: list[Both], uses: Counter[int]) -> list[Charge] | None:
    """The charge of queries with noise of their own that are compared with one noisy threshold; None if it is not that.

    It is that of ``AboveThreshold`` with as many answers as the rarer outcome has: the proof moves the threshold with
    the queries of the other outcome, and pays twice for each of these.
    """
    asked = [(one.query, other.query, one.answer) for one, other in group]
    compared = [(one, other, answer) for one, other, answer in asked if isinstance(one, Comparison)]
    if len(compared) < len(group) or any(one.kinds != ("laplace", "laplace") for one, _, _ in compared):
        return None
    shared = set.intersection(*(set(one.draws) for one, _, _ in compared))
    threshold = min(shared, default=None)
    if threshold is None or any(count > 1 for draw, count in uses.items() if draw != threshold):
        return None
    moved = max(one.moved(other) for one, other, _ in compared)
    if not moved:
        return []
    sides = [one.draws.index(threshold) for one, _, _ in compared]
    above = sum(one.above(answer) == (side == 0) for (one, _, answer), side in zip(compared, sides, strict=True))
    scales = [
        min(abs(one.coefficients[side ^ other]) for (one, _, _), side in zip(compared, sides, strict=True))
        for other in (0, 1)
    ]
    answers = max(1, min(above, len(group) - above))
    try:
        event = AboveThreshold(quotient_down(scales[0], moved), quotient_down(scales[1], moved), answers=answers)
    except HockeystickError as error:
        raise UnpricedError(group[0][0].where, str(error)) from None
    return [Charge(f"{len(group)} comparisons with a noisy threshold", group[0][0].where, event)]


def _as_released(group: list[Both], released: dict[int, float]) -> list[Charge]:
    """The charges as if every compared value had been released: an upper bound for any use of them."""
    changes: dict[int, list[float]] = defaultdict(list)
    kinds: dict[int, str] = {}
    place = group[0][0].where
    for one, other in group:
        query = one.query
        for i, (draw, shift) in enumerate(_shifts((one, other)).items()):
            changes[draw].append(shift)
            kinds[draw] = query.kinds[i] if isinstance(query, Comparison) else query.kind  # type: ignore[attr-defined]
    found = []
    for draw, shifts in changes.items():
        every = shifts + ([released[draw]] if draw in released else [])
        if max(every) - min(every) > _EQUAL * max(1.0, max(map(abs, every))):
            raise UnpricedError(place, "one draw of noise hides two values that change differently")
        rate = up(max(map(abs, every)), 0)
        if draw in released or not rate:
            continue
        if kinds[draw] == "gumbel":
            raise UnpricedError(place, "values with Gumbel noise are compared more than once, which has no finite cost")
        kind = Gaussian if kinds[draw] == "gaussian" else Laplace
        found.append(Charge(f"{kinds[draw]} noise that is compared", place, kind(per_unit(rate))))
    return found


def price(charged: tuple[Charge, ...], delta: float) -> Price:
    """Returns the price of these charges at the claimed δ.

    Raises:
      HockeystickError: the graph has no finite guarantee.
    """
    count = Counter(charged)
    return _priced(tuple(sorted(count.items(), key=lambda row: (row[0].where, row[0].name, repr(row[0])))), delta)


@lru_cache(maxsize=1 << 8)
def _priced(rows: tuple[tuple[Charge, int], ...], delta: float) -> Price:
    relation = next((one for one in Adjacency if all(row[0].event.accepts(one) for row in rows)), None)
    if relation is None:
        raise UnpricedError(rows[0][0].where, "the calls' events have no neighbouring relation in common")
    graph = AccountantGraph(relation).source(_SOURCE)
    names: Counter[str] = Counter()
    for charge, number in rows:
        name = f"{charge.name}, {charge.where}"
        names[name] += 1
        full = name if names[name] == 1 else f"{name} ({names[name]})"
        graph = graph.release(full, charge.event, reads=[_SOURCE], count=number)
    spent = float(graph.guarantee().epsilon(delta).upper)
    most = max(rows, key=lambda row: row[1] * row[0].event.zcdp_rho(), default=None)
    dearest = most[0].where if most else ""
    return Price(graph, spent, dearest)
