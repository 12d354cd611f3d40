"""What an OpenDP measurement costs, as an event: its privacy map, read at one input distance.

A map is already rounded up by OpenDP, and nothing here rounds it down:

| output measure                                   | event                                    |
|--------------------------------------------------|------------------------------------------|
| MaxDivergence                                    | ``PureDP``                               |
| Approximate(MaxDivergence), also by its old name | ``ApproximateDP``                        |
| ZeroConcentratedDivergence, also approximate     | ``ZCDP``, with a ``Failure``             |
| RenyiDivergence                                  | ``RenyiCurve`` at orders up to 256       |
| SmoothedMaxDivergence                            | ``PrivacyProfile`` at points of its curve |

Any other measure is refused by its name. OpenDP itself is not imported: the measurement brings all that is asked.

A map holds between the data sets of the measurement's input domain. Where that fixes how many records there are, none
is added or removed, and OpenDP's map says at 1 that nothing is lost: odd distances and add-or-remove are refused there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedAdjacencyError, UnsupportedEventError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.declared import ZCDP, ApproximateDP, Failure, PureDP
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import PrivacyProfile, RenyiCurve
from hockeystick.accounting.losses.piecewise_profiles import lower_hull

ORDERS = (*(1 + 0.25 * i for i in range(1, 13)), *range(5, 17), 20, 24, 32, 48, 64, 96, 128, 256)
"""Where a Rényi curve is read."""

_POINTS = 256  # of a profile
_NEGLIGIBLE = 1e-60  # a profile's δ beyond which its curve is not read
_NO_MAP = "make it with OpenDP 0.6 or newer, or state its cost by an event of your own"

_MOVES = {"Symmetric": 2, "InsertDelete": 2, "ChangeOne": 1, "Hamming": 1}
"""Distances of records, and how far apart two data sets are that differ in one record's value."""

_FRAME = "FrameDistance("
_NO_GROUPS = "; margins=[{}])"  # ends a frame domain whose one margin is of the whole frame
_OWN_EVENT = "state its cost by an event of your own"


def from_opendp(measurement: Any, distance: Any, *, adjacency: Adjacency | None = None) -> PrivacyEvent:
    """Returns the event of a measurement on inputs ``distance`` apart, its unit of distance.

    >>> import opendp.prelude as dp
    >>> dp.enable_features("contrib")
    >>> number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    >>> from_opendp(dp.m.make_laplace(*number, scale=2.0), 1.0)
    PureDP(epsilon=0.5)

    Args:
      measurement: with a privacy map; also a composition of measurements.
      distance: how far apart neighbours are, as the map takes it. For a metric on values it is the sensitivity under
        the graph's relation; for one on data sets it is 1 for the record that it counts. For a FrameDistance it is a
        list of OpenDP's ``Bound``, with one on the whole frame (``by=[]``).
      adjacency: the relation of the graph that the event is for; needed where the metric counts records. In
        SymmetricDistance and InsertDeleteDistance a replaced record is at distance 2, and ChangeOneDistance and
        HammingDistance know no other change.

    Raises:
      InvalidArgumentError: no measurement, a distance that its map refuses or that is too small for the relation, an
        odd one where the number of records is fixed, or a relation that is missing.
      UnsupportedAdjacencyError: the metric, or the input domain, has no such move.
      UnsupportedEventError: a measure without an event here.
    """
    measure, cost = mapped(measurement, distance)
    _check_relation(measurement, distance, adjacency)
    return event_of(measure, cost)


def mapped(measurement: Any, distance: Any) -> tuple[str, Any]:
    """Returns the name of a measurement's output measure, and what its map says at a distance.

    Raises:
      InvalidArgumentError: no measurement, or its map refuses the distance.
    """
    if not callable(getattr(measurement, "map", None)) or not hasattr(measurement, "output_measure"):
        raise InvalidArgumentError("target", measurement, "is no measurement with a privacy map", _NO_MAP)
    try:
        return str(measurement.output_measure), measurement.map(distance)
    except Exception as error:  # OpenDP's own, or ctypes' of a value of another type
        reason = f"was refused by the measurement's map ({' '.join(str(error).split())[:120]})"
        wanted = f"give a {measurement.input_distance_type}"
        raise InvalidArgumentError("distance", distance, reason, wanted) from None


def event_of(measure: str, cost: Any) -> PrivacyEvent:
    """Returns the event of a cost in a measure.

    Raises:
      InvalidArgumentError: a cost that is not finite: there is no guarantee.
      UnsupportedEventError: a measure without an event here.
    """
    match measure.partition("(")[0]:
        case "MaxDivergence":
            return PureDP(cost)
        case "ZeroConcentratedDivergence":
            return ZCDP(cost)
        case "RenyiDivergence":
            return RenyiCurve(ORDERS, [cost(float(order)) for order in ORDERS])
        case "SmoothedMaxDivergence":
            return _profile(cost.delta)
        case "FixedSmoothedMaxDivergence":
            return ApproximateDP(*cost)
    if measure == "Approximate(MaxDivergence)":
        return ApproximateDP(*cost)
    if measure == "Approximate(ZeroConcentratedDivergence)":
        rho, failure = cost
        return compose(ZCDP(rho), Failure(failure)) if failure else ZCDP(rho)
    raise UnsupportedEventError(f"OpenDP's {measure} is a measure without an event: {_NO_MAP}")


def _profile(delta: Callable[[float], float]) -> PrivacyEvent:
    """The worst event under points of a curve: each is a bound by itself, so leaving some out is sound.

    Only the corners of the lower hull over e^ε are kept, as a profile is convex there and the rest says nothing.
    """

    def at(epsilon: float) -> float:
        return min(1.0, validate.real("delta", delta(epsilon), low=0.0))

    last = 1.0
    while at(last) > _NEGLIGIBLE and last < 512.0:
        last *= 2.0
    grid = sorted(
        {last * (i / _POINTS) ** 2 for i in range(_POINTS + 1)} | {last * i / _POINTS for i in range(_POINTS)}
    )
    found, least = [], 1.0
    for epsilon in grid:
        least = min(least, at(epsilon))
        found.append((Fraction(math.exp(epsilon)), Fraction(least)))
    names = dict(zip((x for x, _ in found), grid, strict=True))
    corners = lower_hull(found)
    return PrivacyProfile([names[x] for x, _ in corners], [float(y) for _, y in corners])


def _check_relation(measurement: Any, distance: Any, adjacency: Adjacency | None) -> None:
    metric = str(measurement.input_metric)
    inner = metric.removeprefix(_FRAME)
    kind = next((name for name in _MOVES if inner.startswith(name)), None)
    if kind is None:
        if any(name in metric for name in _MOVES):  # such as records in each group, by other numbers than one
            raise UnsupportedAdjacencyError(f"{metric} counts records in a way that is not read here: {_OWN_EVENT}")
        return
    if adjacency is None:
        remedy = "say which relation the graph has: adjacency=hs.Adjacency..."
        raise InvalidArgumentError("adjacency", None, f"is needed: {metric} counts records", remedy)
    replaced = adjacency in (Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL)
    if not isinstance(adjacency, Adjacency) or not (replaced or adjacency is Adjacency.ADD_OR_REMOVE_ONE):
        raise UnsupportedAdjacencyError(f"{metric} has no move of {adjacency}")
    if _MOVES[kind] == 1 and not replaced:
        raise UnsupportedAdjacencyError(
            f"in {metric} no record is added or removed: use replace-one, or another metric"
        )
    domain = getattr(measurement, "input_domain", None)
    fixed = _fixed_size(domain)
    if not replaced and fixed is not False:
        why = "has data sets of one size only" if fixed else "does not say whether its data sets differ in size"
        raise UnsupportedAdjacencyError(
            f"the input domain {domain} {why}, and where they do not the map says nothing of a record added or removed:"
            " use replace-one, or a domain without a size"
        )
    least = _MOVES[kind] if replaced else 1
    records = _records(metric, distance, least)
    if records is None or records < least:
        reason = f"is too small: under {adjacency.value} two data sets are {least} apart in {metric}"
        wanted = f"Bound(per_group={least}) in a list, and {least} at least in any other bound"
        raise InvalidArgumentError("distance", distance, reason, f"give {wanted if _FRAME in metric else least}")
    if least == 2 and fixed is not False and records % 2:
        reason = f"is odd, and data sets of one size are an even number apart in {metric}"
        raise InvalidArgumentError("distance", distance, reason, f"give {records + 1}")


def _records(metric: str, distance: Any, least: int) -> int | None:
    """How many records may differ at a distance; None where it does not let ``least`` of them differ freely."""
    if not metric.startswith(_FRAME):
        return distance if isinstance(distance, int) else None
    whole: list[int] = []
    for bound in distance:  # each of them makes the neighbours fewer
        everywhere = not len(bound.by)
        if bound.num_groups is not None and bound.num_groups < (1 if everywhere else least):
            return None
        if bound.per_group is not None:
            if bound.per_group < least:
                return None
            if everywhere:
                whole.append(bound.per_group)
    return min(whole, default=None)


def _fixed_size(domain: Any) -> bool | None:
    """Whether all data sets of a domain have the same number of records; None where it does not say.

    Raises:
      UnsupportedAdjacencyError: its data sets agree in more, which no move of a single record leaves as it is.
    """
    text, found = str(domain), re.match(r"(?:\w+::)*(\w+)", str(getattr(domain, "type", "")))
    match found and found[1]:
        case "VectorDomain":
            return re.search(r", size=\d+\)$", text) is not None
        case "LazyFrameDomain":
            if text.endswith("; margins=[])"):
                return False
            # What is known of any groups is known of coarser ones; older domains do not tell.
            known = domain.get_margin([]).invariant if hasattr(domain, "get_margin") else "keys or lengths"
            if known is not None and not (known in ("keys", "lengths") and text.endswith(_NO_GROUPS)):
                raise UnsupportedAdjacencyError(
                    f"the input domain {text} takes groups' {known} for public (a margin's invariant), and one record"
                    f" can change them: give the keys in the query (with_keys) instead, or {_OWN_EVENT}"
                )
            return bool(known == "lengths")
        case "ExtrinsicDomain" if type(domain.descriptor).__name__ == "NPArray2Domain":
            return domain.descriptor.size is not None
    return None
