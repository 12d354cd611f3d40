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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from . import validate
from .adjacency import Adjacency
from .composite import compose
from .curves import PrivacyProfile, RenyiCurve
from .declared import ZCDP, ApproximateDP, Failure, PureDP
from .errors import InvalidArgumentError, UnsupportedAdjacencyError, UnsupportedEventError
from .event import PrivacyEvent
from .hull import lower_hull

ORDERS = (*(1 + 0.25 * i for i in range(1, 13)), *range(5, 17), 20, 24, 32, 48, 64, 96, 128, 256)
"""Where a Rényi curve is read."""

_POINTS = 256  # of a profile
_NEGLIGIBLE = 1e-60  # a profile's δ beyond which its curve is not read
_NO_MAP = "make it with OpenDP 0.6 or newer, or state its cost by an event of your own"

_MOVES = {"Symmetric": 2, "InsertDelete": 2, "ChangeOne": 1, "Hamming": 1}
"""Distances of records, and how far apart two data sets are that differ in one record's value."""


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
        the graph's relation; for one on data sets it is 1 for the record that it counts.
      adjacency: the relation of the graph that the event is for; needed where the metric counts records. In
        SymmetricDistance and InsertDeleteDistance a replaced record is at distance 2, and ChangeOneDistance and
        HammingDistance know no other change.

    Raises:
      InvalidArgumentError: no measurement, a distance that its map refuses or that is too small for the relation, or a
        relation that is missing.
      UnsupportedAdjacencyError: the metric has no such move.
      UnsupportedEventError: a measure without an event here.
    """
    measure, cost = mapped(measurement, distance)
    _check_relation(str(measurement.input_metric), distance, adjacency)
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


def _check_relation(metric: str, distance: Any, adjacency: Adjacency | None) -> None:
    kind = next((name for name in _MOVES if name in metric), None)
    if kind is None:
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
    least = _MOVES[kind] if replaced else 1
    if isinstance(distance, int) and distance < least:
        reason = f"is too small: under {adjacency.value} two data sets are {least} apart in {metric}"
        raise InvalidArgumentError("distance", distance, reason, f"give {least}")
