"""Events of OpenDP measurements: the privacy map of a measurement, evaluated at one input distance.

OpenDP rounds its maps up, and nothing here rounds them down:

| output measure                                   | event                                    |
|--------------------------------------------------|------------------------------------------|
| MaxDivergence                                    | ``PureDP``                               |
| Approximate(MaxDivergence), also by its old name | ``ApproximateDP``                        |
| ZeroConcentratedDivergence, also approximate     | ``ZCDP``, with a ``Failure``             |
| RenyiDivergence                                  | ``RenyiCurve`` at orders up to 256       |
| SmoothedMaxDivergence                            | ``PrivacyProfile`` at points of its curve |

Other measures are refused by name. OpenDP itself is not imported, as the measurement has all that is needed.

A map holds between data sets of the measurement's input domain. If the domain fixes the number of records, no record is
added or removed, and OpenDP's map says that the loss at distance 1 is 0. So odd distances and add-or-remove are refused
for such domains.
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
"""The orders at which a Rényi curve is evaluated."""

_POINTS = 256  # of a profile
_NEGLIGIBLE = 1e-60  # the least δ at which a profile is evaluated
_NO_MAP = "make it with OpenDP 0.6 or newer, or use an event of your own"

_MOVES = {"Symmetric": 2, "InsertDelete": 2, "ChangeOne": 1, "Hamming": 1}
"""The metrics on records, and the distance between two data sets that differ in the value of one record."""

_FRAME = "FrameDistance("
_NO_GROUPS = "; margins=[{}])"  # the end of a frame domain whose only margin is of the whole frame
_OWN_EVENT = "use an event of your own"


def from_opendp(measurement: Any, distance: Any, *, adjacency: Adjacency | None = None) -> PrivacyEvent:
    """Returns the event of a measurement on inputs ``distance`` apart, which is the event's unit of distance.

    Args:
      measurement: with a privacy map; it may be a composition of measurements.
      distance: between neighbouring inputs, as the map takes it. For a metric on values it is the sensitivity under the
        graph's relation; for a metric on data sets it is 1 for one added or removed record. For a FrameDistance it is a
        list of OpenDP's ``Bound``, including one on the whole frame (``by=[]``).
      adjacency: the neighbouring relation of the graph; required if the metric counts records. In SymmetricDistance and
        InsertDeleteDistance a replaced record is at distance 2; in ChangeOneDistance and HammingDistance records can
        only be replaced.

    Raises:
      InvalidArgumentError: not a measurement, a distance that its map refuses or that is too small for the relation, an
        odd distance if the number of records is fixed, or a missing relation.
      UnsupportedAdjacencyError: the metric, or the input domain, does not allow such a change.
      UnsupportedEventError: a measure without an event.

    Example:
      >>> import opendp.prelude as dp
      >>> from hockeystick.accounting import from_opendp
      >>> dp.enable_features("contrib")
      >>> number = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
      >>> from_opendp(dp.m.make_laplace(*number, scale=2.0), 1.0)
      PureDP(epsilon=0.5)
    """
    measure, cost = mapped(measurement, distance)
    _check_relation(measurement, distance, adjacency)
    return event_of(measure, cost)


def mapped(measurement: Any, distance: Any) -> tuple[str, Any]:
    """Returns the name of a measurement's output measure, and the value of its map at a distance.

    Raises:
      InvalidArgumentError: not a measurement, or its map refuses the distance.
    """
    if not callable(getattr(measurement, "map", None)) or not hasattr(measurement, "output_measure"):
        raise InvalidArgumentError("target", measurement, "is not a measurement with a privacy map", _NO_MAP)
    try:
        return str(measurement.output_measure), measurement.map(distance)
    except Exception as error:  # of OpenDP, or of ctypes for a value of another type
        reason = f"was refused by the measurement's map ({' '.join(str(error).split())[:120]})"
        wanted = f"give a {measurement.input_distance_type}"
        raise InvalidArgumentError("distance", distance, reason, wanted) from None


def event_of(measure: str, cost: Any) -> PrivacyEvent:
    """Returns the event of a cost in a measure.

    Raises:
      InvalidArgumentError: the cost is not finite, so that there is no guarantee.
      UnsupportedEventError: a measure without an event.
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
    raise UnsupportedEventError(f"OpenDP's {measure} is a measure without an event: {_OWN_EVENT}")


def _profile(delta: Callable[[float], float]) -> PrivacyEvent:
    """Returns the worst event below points of a curve. Each point is a bound by itself, so leaving some out is sound.

    Only the corners of the lower hull over e^ε are used: a profile is convex there, so they imply the other points.
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
        if any(name in metric for name in _MOVES):  # such as several bounds on the records in groups
            raise UnsupportedAdjacencyError(f"{metric} counts records in an unsupported form: {_OWN_EVENT}")
        return
    if adjacency is None:
        remedy = "give the graph's relation: adjacency=hs.Adjacency..."
        raise InvalidArgumentError("adjacency", None, f"is needed, as {metric} counts records", remedy)
    replaced = adjacency in (Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL)
    if not isinstance(adjacency, Adjacency) or not (replaced or adjacency is Adjacency.ADD_OR_REMOVE_ONE):
        raise UnsupportedAdjacencyError(f"{metric} does not apply to {adjacency}: use add-or-remove or replace-one")
    if _MOVES[kind] == 1 and not replaced:
        raise UnsupportedAdjacencyError(
            f"{metric} does not allow a record to be added or removed: use replace-one, or another metric"
        )
    domain = getattr(measurement, "input_domain", None)
    fixed = _fixed_size(domain)
    if not replaced and fixed is not False:
        why = "has only data sets of one size" if fixed else "does not state whether its data sets differ in size"
        raise UnsupportedAdjacencyError(
            f"the input domain {domain} {why}, and for data sets of one size the map says nothing about a record added "
            "or removed: use replace-one, or a domain without a size"
        )
    least = _MOVES[kind] if replaced else 1
    records = _records(metric, distance, least)
    if records is None or records < least:
        reason = f"is too small, as under {adjacency.value} two data sets are {least} apart in {metric}"
        wanted = f"[Bound(per_group={least})], and at least {least} in any other bound"
        raise InvalidArgumentError("distance", distance, reason, f"give {wanted if _FRAME in metric else least}")
    if least == 2 and fixed is not False and records % 2:
        reason = f"is odd, but data sets of one size are at an even distance in {metric}"
        raise InvalidArgumentError("distance", distance, reason, f"give {records + 1}")


def _records(metric: str, distance: Any, least: int) -> int | None:
    """Returns the number of records that may differ at a distance; None if it does not allow any ``least`` of them."""
    if not metric.startswith(_FRAME):
        return distance if isinstance(distance, int) else None
    whole: list[int] = []
    for bound in distance:  # each bound removes neighbours
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
    """Returns whether all data sets of a domain have the same number of records; None if it does not state that.

    Raises:
      UnsupportedAdjacencyError: its data sets agree in more than that, which a single record can change.
    """
    text, found = str(domain), re.match(r"(?:\w+::)*(\w+)", str(getattr(domain, "type", "")))
    match found and found[1]:
        case "VectorDomain":
            return re.search(r", size=\d+\)$", text) is not None
        case "LazyFrameDomain":
            if text.endswith("; margins=[])"):
                return False
            # An invariant of any groups is also one of coarser groups. Older domains don't state it.
            known = domain.get_margin([]).invariant if hasattr(domain, "get_margin") else "keys or lengths"
            if known is not None and not (known in ("keys", "lengths") and text.endswith(_NO_GROUPS)):
                raise UnsupportedAdjacencyError(
                    f"the input domain {text} assumes that groups' {known} are public (a margin's invariant), and one "
                    f"record can change them: give the keys in the query (with_keys) instead, or {_OWN_EVENT}"
                )
            return bool(known == "lengths")
        case "ExtrinsicDomain" if type(domain.descriptor).__name__ == "NPArray2Domain":
            return domain.descriptor.size is not None
    return None
